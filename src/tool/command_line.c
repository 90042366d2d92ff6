/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: command_line_run finds the command that the words name, `help` prints help, and `run` parses the
 * options and calls the command. */
#include "command.h"
#include "memory.h"
#include "output.h"

#include "base/similar_name.h"

#include <hooksess/version.h>

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The tool's name in the messages of getopt_long. */
static char program[] = "hooksess";

static const struct option known[N_OPTIONS] = {
    [OPTION_JSON] = {"json", no_argument, NULL, OPTION_JSON},
    [OPTION_TAG] = {"tag", required_argument, NULL, OPTION_TAG},
    [OPTION_FROM] = {"from", required_argument, NULL, OPTION_FROM},
    [OPTION_TO] = {"to", required_argument, NULL, OPTION_TO},
    [OPTION_DELETE] = {"delete", no_argument, NULL, OPTION_DELETE},
    [OPTION_OUTPUT] = {"output", required_argument, NULL, OPTION_OUTPUT},
    [OPTION_STEPS] = {"steps", required_argument, NULL, OPTION_STEPS},
    [OPTION_MIDDLE] = {"middle", required_argument, NULL, OPTION_MIDDLE},
    [OPTION_FETCH] = {"fetch", required_argument, NULL, OPTION_FETCH},
    [OPTION_IGNORE] = {"ignore", required_argument, NULL, OPTION_IGNORE},
    [OPTION_KEEP] = {"keep", required_argument, NULL, OPTION_KEEP},
    [OPTION_SVG] = {"svg", required_argument, NULL, OPTION_SVG},
    [OPTION_TOLERANCE] = {"tolerance", required_argument, NULL, OPTION_TOLERANCE},
    [OPTION_SKIP] = {"skip", required_argument, NULL, OPTION_SKIP},
};

static const char about[] = "Shows the files that training wrote, and tests that a program resumes its\n"
                            "training.\n";

/* Printed in the help of the commands of a group, and in the list of commands. */
static const struct {
    const char *group, *text;
} notes[] = {
    {"checkpoint", "A checkpoint is given as its prefix (run/model.ckpt-1000), its index file, a\n"
                   "safetensors file, or a directory (its newest checkpoint).\n"},
    {"events", "Events are given as one file, or a directory (all its event files in the order\n"
               "of their names).\n"},
};

static const char exit_status[] = "Exit status: 0: no damage and no difference. 1: damage or a difference was\n"
                                  "found. 2: an error occurred.\n";

int64_t step_of_option(const struct call *call, enum option_id option, int64_t otherwise)
{
    return call->given[option] ? call->steps[option] : otherwise;
}

/* Finding a command. */

/* True if `word` is `name`; a `name` of NULL matches any word. */
static bool matches(const char *word, const char *name)
{
    return !name || (word && strcmp(word, name) == 0);
}

/* Finds the command of two words. If `name` is NULL: any command of the group. */
static const struct command *find(const struct command *commands, const char *group, const char *name)
{
    for (const struct command *c = commands; c->group; c++)
        if (matches(c->group, group) && matches(c->name, name))
            return c;
    return NULL;
}

/* Finds the command of one word. */
static const struct command *find_word(const struct command *commands, const char *word)
{
    const struct command *command = find(commands, word, NULL);
    return command && !command->name ? command : NULL;
}

/* "checkpoint ls". Valid until the next call. */
static const char *title(const struct command *command)
{
    static char text[64];
    snprintf(text, sizeof text, "%s%s%s", command->group, command->name ? " " : "", command->name ? command->name : "");
    return text;
}

/* Suggests the command with the most similar words, or with `group` as its second word. `name` is quoted only if a similar
 * group has commands: otherwise it is an operand. */
static int unknown(const struct command *commands, const char *group, const char *name)
{
    hs__similar_name of_group = hs__similar_name_begin(group), of_name = hs__similar_name_begin(name ? name : "");
    const struct command *similar = NULL;
    for (const struct command *c = commands; c->group; c++) {
        hs__similar_name_add(&of_group, c->group);
        if (!similar && c->name && strcmp(c->name, group) == 0)
            similar = c;
    }
    for (const struct command *c = commands; c->group && of_group.found; c++)
        if (strcmp(c->group, of_group.found) == 0) {
            if (c->name)
                hs__similar_name_add(&of_name, c->name);
            else
                similar = c;
        }
    if (of_name.found)
        similar = find(commands, of_group.found, of_name.found);
    const bool is_group = of_group.found && !find_word(commands, of_group.found);
    char *typed = must_format("unknown command '%s%s%s'", group, name && is_group ? " " : "", name && is_group ? name : "");
    if (similar)
        say("%s; did you mean '%s %s'?", typed, program, title(similar));
    else
        say("%s; try '%s help%s%s'", typed, program, of_group.found ? " " : "", of_group.found ? of_group.found : "");
    free(typed);
    return TROUBLE;
}

/* Printing help. */

static void print_notes(const char *group)
{
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++)
        if (matches(notes[i].group, group))
            printf("\n%s", notes[i].text);
}

/* Lists the commands of a group, or all commands if `group` is NULL. */
static void list(const struct command *commands, const char *group)
{
    enum { WIDTH = 20 };
    printf("usage: %s %s%sCOMMAND ...\n\n", program, group ? group : "", group ? " " : "");
    if (!group)
        printf("%s\n", about);
    for (const struct command *c = commands; c->group; c++)
        if (matches(c->group, group))
            printf("  %-*s  %s\n", WIDTH, title(c), c->summary);
    if (!group)
        printf("  %-*s  print this list, or the help of a command\n  %-*s  print the version\n", WIDTH, "help [COMMAND]",
               WIDTH, "--version");
    print_notes(group);
    printf("\n%s", exit_status);
}

/* Prints "usage: hooksess TITLE SYNOPSIS". Breaks lines before an option or operand, and indents the next line. */
static void print_usage(const struct command *command)
{
    enum { WIDTH = 80 };
    const int indent = printf("usage: %s %s", program, title(command));
    int column = indent;
    for (const char *at = command->synopsis; *at;) {
        const char *end = at;
        for (int depth = 0; *end && (depth || *end != ' '); end++)
            depth += (*end == '[' || *end == '{') - (*end == ']' || *end == '}');
        if (column + 1 + (end - at) > WIDTH)
            column = printf("\n%*s", indent, "") - 1;
        column += printf(" %.*s", (int)(end - at), at);
        at = *end ? end + 1 : end;
    }
    puts("\n");
}

/* The operands of the synopsis, which has them after the options. */
static const char *operands_of(const struct command *command)
{
    const char *at = command->synopsis;
    for (const char *c = at; *c; c++)
        if ((*c == ']' || *c == '}') && c[1] == ' ')
            at = c + 2;
    return at;
}

static int help(const struct command *commands, const char *group, const char *name)
{
    const struct command *word = group ? find_word(commands, group) : NULL;
    const struct command *command = word ? word : group ? find(commands, group, name) : NULL;
    if (!group || (command && !name && !word)) {
        list(commands, group);
    } else if (command) {
        print_usage(command);
        fputs(command->help, stdout);
        if (strcmp(operands_of(command), "DIRECTORY") != 0) /* it takes no other kind of path */
            print_notes(command->group);
        printf("\n%s", command->exit_status ? command->exit_status : exit_status);
    } else {
        return unknown(commands, group, name);
    }
    return FINE;
}

/* True if an argument asks for help, also if other arguments are wrong. */
static bool asks_for_help(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

/* Running a command. */

static int suggest_help(const struct command *command)
{
    say("try '%s help %s'", program, title(command));
    return TROUBLE;
}

/* getopt_long has printed an error. Adds the most similar option, if `wrong` may be a misspelled one. */
static int suggest_option(const struct command *command, const struct option *options, const char *wrong)
{
    const size_t length = strncmp(wrong, "--", 2) == 0 ? strcspn(wrong, "=") : 0;
    char *name = must_format("%.*s", length > 2 ? (int)length - 2 : 0, wrong + (length > 2 ? 2 : 0));
    hs__similar_name similar = hs__similar_name_begin(name);
    bool exists = !*name;
    for (; options->name; options++) {
        exists = exists || strncmp(options->name, name, strlen(name)) == 0;
        hs__similar_name_add(&similar, options->name);
    }
    if (!exists && similar.found)
        say("did you mean '--%s'?", similar.found);
    free(name);
    return suggest_help(command);
}

static bool parse_step(const char *option, const char *text, int64_t *step)
{
    char *end;
    errno = 0;
    *step = strtoll(text, &end, 10);
    if (!errno && end > text && !*end)
        return true;
    say("--%s: '%s' is not an integer", option, text);
    return false;
}

/* `argv` begins with the command's last word. getopt_long prints an error for unknown options. */
static int run(const struct command *command, int argc, char **argv)
{
    struct option options[N_OPTIONS + 1] = {{NULL, 0, NULL, 0}};
    struct call call = {{NULL}, {0}, NULL};
    int option, n = 0;
    for (int i = 0; i < N_OPTIONS; i++)
        if (command->takes[i])
            options[n++] = known[i];
    argv[0] = program;
    optind = 0; /* restarts getopt_long */
    while ((option = getopt_long(argc, argv, command->n_operands == A_PROGRAM ? "+" : "", options, NULL)) != -1) {
        if (option == '?')
            return suggest_option(command, options, argv[optind - 1]);
        call.given[option] = optarg ? optarg : "";
        if ((option == OPTION_FROM || option == OPTION_TO || option == OPTION_STEPS || option == OPTION_MIDDLE) &&
            !parse_step(known[option].name, optarg, &call.steps[option]))
            return TROUBLE;
    }
    call.operands = argv + optind;
    int n_operands = argc - optind, wanted = command->n_operands;
    if (wanted == A_PROGRAM ? n_operands < 1 : wanted == TWO_OR_MORE ? n_operands < 2 : n_operands != wanted) {
        say("%s: expected %s, not %d argument%s", title(command), operands_of(command), n_operands,
            n_operands == 1 ? "" : "s");
        return suggest_help(command);
    }
    return command->run(&call);
}

static int run_words(const struct command *commands, int argc, char **argv)
{
    const char *group = argc > 0 ? argv[0] : NULL, *name = argc > 1 ? argv[1] : NULL;
    if (group && strcmp(group, "help") == 0)
        return argc > 3 ? unknown(commands, argv[1], argv[3]) : help(commands, name, argc > 2 ? argv[2] : NULL);
    const struct command *word = group ? find_word(commands, group) : NULL;
    const struct command *command = group ? find(commands, group, name) : NULL;
    if (word)
        return run(word, argc, argv);
    if (command && name)
        return run(command, argc - 1, argv + 1);
    if (group && !command)
        return unknown(commands, group, name);
    say("no command given%s%s; try '%s help%s%s'", group ? " after " : "", group ? group : "", program, group ? " " : "",
        group ? group : "");
    return TROUBLE;
}

int command_line_run(const struct command *commands, int argc, char **argv)
{
    static const struct option options[] = {{"version", no_argument, NULL, 0}, {NULL, 0, NULL, 0}};
    if (argc < 1)
        return TROUBLE;
    if (asks_for_help(argc, argv)) {
        const char *words[2] = {NULL, NULL}; /* the arguments that are not options */
        for (int i = 1, n = 0; i < argc && n < 2; i++)
            if (argv[i][0] != '-')
                words[n++] = argv[i];
        return help(commands, words[0], words[1]);
    }
    argv[0] = program;
    switch (getopt_long(argc, argv, "+", options, NULL)) {
    case -1:
        return run_words(commands, argc - optind, argv + optind);
    case 0:
        printf("%s %s\n", program, hs_version());
        return FINE;
    default:
        say("try '%s help'", program);
        return TROUBLE;
    }
}
