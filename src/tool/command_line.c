/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: command_line_run finds the command that the words name, `help` prints help, and `run` parses the
 * options and calls the command. */
#include "command.h"
#include "output.h"

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
};

static const char about[] = "Shows the files that training wrote, and tests that a program resumes its training.\n";
static const char notes[] =
    "\n"
    "A checkpoint is given as its prefix (run/model.ckpt-1000), its index file, a safetensors file, or a directory (its\n"
    "newest checkpoint).\n"
    "Events are given as one file, or a directory (all its event files in the order of their names).\n";
static const char exit_status[] =
    "Exit status: 0: no damage and no difference. 1: damage or a difference was found. 2: an error occurred.\n";

bool parse_step(const char *option, const char *text, int64_t *step)
{
    char *end;
    if (!text)
        return true;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno || end == text || *end) {
        say("%s: '%s' is not an integer", option, text);
        return false;
    }
    *step = number;
    return true;
}

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

/* Lists the commands of a group, or all commands if `group` is NULL. */
static void list(const struct command *commands, const char *group)
{
    int width = 0;
    for (const struct command *c = commands; c->group; c++) {
        int length = (int)(strlen(title(c)) + strlen(c->synopsis)) + 1;
        width = length > width ? length : width;
    }
    printf("usage: %s COMMAND ...\n\n", program);
    if (!group)
        printf("%s\n", about);
    for (const struct command *c = commands; c->group; c++)
        if (matches(c->group, group))
            printf("  %s %-*s  %s\n", title(c), width - (int)strlen(title(c)) - 1, c->synopsis, c->summary);
    if (!group)
        printf("  %-*s  %s\n  %-*s  %s\n", width, "help [COMMAND]", "print this list, or the help of a command", width,
               "--version", "print the version");
    fputs(notes, stdout);
    fputs(exit_status, stdout);
}

static int unknown(const char *group, const char *name)
{
    say("unknown command '%s%s%s'; try '%s help'", group, name ? " " : "", name ? name : "", program);
    return TROUBLE;
}

static int help(const struct command *commands, const char *group, const char *name)
{
    const struct command *word = group ? find_word(commands, group) : NULL;
    const struct command *command = word ? word : group ? find(commands, group, name) : NULL;
    if (!group || (command && !name && !word)) {
        list(commands, group);
    } else if (command) {
        printf("usage: %s %s %s\n\n%s%s%s", program, title(command), command->synopsis, command->help, notes,
               command->exit_status ? command->exit_status : exit_status);
    } else {
        return unknown(group, name);
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

static int suggest_help(const struct command *command)
{
    say("try '%s help %s'", program, title(command));
    return TROUBLE;
}

/* `argv` begins with the command's last word. getopt_long prints an error for unknown options. */
static int run(const struct command *command, int argc, char **argv)
{
    struct option options[N_OPTIONS + 1] = {{NULL, 0, NULL, 0}};
    struct call call = {{NULL}, NULL};
    int option, n = 0;
    for (int i = 0; i < N_OPTIONS; i++)
        if (command->takes[i])
            options[n++] = known[i];
    argv[0] = program;
    optind = 0; /* restarts getopt_long */
    while ((option = getopt_long(argc, argv, command->n_operands == A_PROGRAM ? "+" : "", options, NULL)) != -1) {
        if (option == '?')
            return suggest_help(command);
        call.given[option] = optarg ? optarg : "";
    }
    call.operands = argv + optind;
    int n_operands = argc - optind, wanted = command->n_operands;
    if (wanted == A_PROGRAM ? n_operands < 1 : wanted == TWO_OR_MORE ? n_operands < 2 : n_operands != wanted) {
        say("%s: expected %s, not %d arguments", title(command), command->synopsis, n_operands);
        return suggest_help(command);
    }
    return command->run(&call);
}

static int run_words(const struct command *commands, int argc, char **argv)
{
    const char *group = argc > 0 ? argv[0] : NULL, *name = argc > 1 ? argv[1] : NULL;
    if (group && strcmp(group, "help") == 0)
        return argc > 3 ? unknown(argv[1], argv[3]) : help(commands, name, argc > 2 ? argv[2] : NULL);
    const struct command *word = group ? find_word(commands, group) : NULL;
    const struct command *command = group ? find(commands, group, name) : NULL;
    if (word)
        return run(word, argc, argv);
    if (command && name)
        return run(command, argc - 1, argv + 1);
    if (group && !command)
        return unknown(group, name);
    say("no command given%s%s; try '%s help'", group ? " after " : "", group ? group : "", program);
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
