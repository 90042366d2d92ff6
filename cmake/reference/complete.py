# SPDX-License-Identifier: Apache-2.0
"""Writes completions of the command `hooksess` for bash and zsh."""

DIRECTORIES = ("DIR", "DIRECTORY")
FILES = ("FILE", "PATH", "A", "B", "FROM", "TO")


def kind(operand, is_option=False):
    """How a value is completed: prefix (of a checkpoint), file, directory, command, or "" for nothing."""
    if operand == "NAME":
        return ""
    if operand == "PROGRAM":
        return "command"
    if operand == "PREFIX":
        return "prefix"
    if operand in DIRECTORIES:
        return "directory"
    return "" if is_option and operand != "FILE" else "file"


def bash(tool):
    first = sorted({command.words.split()[0] for command in tool.commands} | {"help", "--help", "--version"})
    groups = {}
    for command in tool.commands:
        group, _, name = command.words.partition(" ")
        groups.setdefault(group, []).append(name)
    cases = "\n".join(f'        "{group}") words="{" ".join(names)}" ;;' for group, names in groups.items() if names != [""])
    options = []
    for command in tool.commands:
        words = " ".join(name for name, _ in command.options)
        values = " ".join(f"{name}={kind(value, True)}" for name, value in command.options if value)
        operand = next(filter(None, map(kind, reversed(command.operands))), "")
        options.append(f'    "{command.words}") options="--help{" " + words if words else ""}" values="{values}" operand={operand or "none"} ;;')
    return f"""# SPDX-License-Identifier: Apache-2.0
# bash completion of hooksess

_hooksess_values() {{ # KIND WORD
    compopt -o filenames 2>/dev/null
    case $1 in
    file) mapfile -t COMPREPLY < <(compgen -f -- "$2") ;;
    directory) mapfile -t COMPREPLY < <(compgen -d -- "$2") ;;
    command) mapfile -t COMPREPLY < <(compgen -c -f -- "$2") ;;
    prefix) mapfile -t COMPREPLY < <(compgen -d -- "$2"; compgen -f -X '!*.index' -- "$2" | sed 's/\\.index$//') ;;
    esac
}}

_hooksess() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} words options values operand value i
    local -a plain=()
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        [[ ${{COMP_WORDS[i]}} == -* ]] || plain+=("${{COMP_WORDS[i]}}")
    done
    local start=0
    [[ ${{plain[0]}} != help ]] || start=1
    local group=${{plain[start]}} name=${{plain[start + 1]}}
    if [[ -z $group ]]; then
        mapfile -t COMPREPLY < <(compgen -W "{" ".join(first)}" -- "$word")
        return
    fi
    case $group in
{cases}
        *) words= ;;
    esac
    if [[ -n $words && -z $name ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
        return
    fi
    [[ $start == 0 ]] || return
    case ${{words:+$group $name}}${{words:-$group}} in
        *) ;;
    esac
    case "$group${{words:+ $name}}" in
{chr(10).join(options)}
    *) return ;;
    esac
    for value in $values; do
        if [[ $before == "${{value%%=*}}" ]]; then
            _hooksess_values "${{value#*=}}" "$word"
            return
        fi
    done
    if [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
    else
        _hooksess_values "$operand" "$word"
    fi
}}
complete -F _hooksess hooksess
""".replace("""    case ${words:+$group $name}${words:-$group} in
        *) ;;
    esac
""", "")


def zsh(tool):
    def text(line):
        return line.replace("'", "'\\''").replace(":", "\\:").replace("[", "\\[").replace("]", "\\]")

    actions = {"file": "_files", "directory": "_files -/", "command": "_normal", "prefix": "_hooksess_prefix", "": " "}
    groups, cases = {}, []
    for command in tool.commands:
        group, _, name = command.words.partition(" ")
        groups.setdefault(group, []).append((name, command))
        arguments = [f"'{option}{f'[{value}]:{value}:{actions[kind(value, True)]}' if value else ''}'" for option, value in command.options]
        arguments.append("'--help[print the help of this command]'")
        operands = command.operands
        if operands == ["PROGRAM"]:
            arguments.append("'(-)1:PROGRAM:_command_names -e' '*::arguments:_normal'")
        else:
            many = "..." in command.synopsis
            arguments += [f"'{'*' if many and i == len(operands) - 1 else ''}:{operand}:{actions[kind(operand)]}'"
                          for i, operand in enumerate(operands)]
        cases.append(f"    ({command.words.replace(' ', '-')}) _arguments -s {' '.join(arguments)} ;;")

    def described(pairs):
        return " ".join(f"'{name}:{text(summary)}'" for name, summary in pairs)

    top = [(group, names[0][1].summary if names[0][0] == "" else "commands " + ", ".join(n for n, _ in names)) for group, names in groups.items()]
    top.append(("help", "print the list of commands, or the help of a command"))
    inner = "\n".join(
        f"        ({group}) commands=({described((name, command.summary) for name, command in names)}) ;;"
        for group, names in groups.items() if names[0][0])
    return f"""#compdef hooksess
# SPDX-License-Identifier: Apache-2.0
# zsh completion of hooksess

_hooksess_prefix() {{
    local -a found
    found=($PREFIX*.index(N:r))
    compadd -f -- $found
    _files
}}

_hooksess() {{
    local -a commands
    local group=$words[2] name= help=
    if (( CURRENT == 2 )); then
        commands=({described(top)})
        _describe -t commands command commands
        _arguments '--help[print the list of commands]' '--version[print the version]'
        return
    fi
    if [[ $group == help ]]; then
        if (( CURRENT == 3 )); then
            commands=({described(top[:-1])})
            _describe -t commands command commands
            return
        fi
        help=1
        shift words
        (( CURRENT-- ))
        group=$words[2]
    fi
    case $group in
{inner}
    esac
    if (( $#commands )); then
        if (( CURRENT == 3 )); then
            _describe -t commands command commands
            return
        fi
        name=$group-$words[3]
        shift 2 words
        (( CURRENT -= 2 ))
    else
        name=$group
        shift words
        (( CURRENT-- ))
    fi
    [[ -z $help ]] || return
    case $name in
{chr(10).join(cases)}
    esac
}}

_hooksess "$@"
"""
