/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOL_COMMAND_H
#define TOOL_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

/* Exit status of the tool. FOUND: a difference or damage was found. */
enum { FINE = 0, FOUND = 1, TROUBLE = 2 };

/* The options of all commands. `known` in command_line.c has their names. */
enum option_id {
    OPTION_JSON,
    OPTION_TAG,
    OPTION_FROM,
    OPTION_TO,
    OPTION_DELETE,
    OPTION_OUTPUT,
    OPTION_STEPS,
    OPTION_MIDDLE,
    OPTION_FETCH,
    OPTION_IGNORE,
    OPTION_KEEP,
    OPTION_SVG,
    OPTION_TOLERANCE,
    OPTION_SKIP,
    N_OPTIONS
};

/* n_operands of a command that takes a program and its arguments, for which options end at the first operand, and of one
 * that takes two operands or more. */
enum { A_PROGRAM = -1, TWO_OR_MORE = -2 };

/* The arguments of a command. */
struct call {
    const char *given[N_OPTIONS]; /* NULL: not given; "": an option without a value */
    int64_t steps[N_OPTIONS];     /* the values of the options that are steps, if they are given */
    char **operands;              /* terminated by NULL; their number is checked */
};

struct command {
    const char *group, *name; /* "checkpoint", "ls"; name NULL: the command is one word */
    const char *synopsis;     /* options and operands */
    const char *summary;      /* one line, at most 54 columns */
    const char *help;         /* lines of at most 80 columns */
    int n_operands;
    bool takes[N_OPTIONS];
    int (*run)(const struct call *call); /* prints errors, and returns the exit status */
    const char *exit_status;             /* for its help. NULL: that of most commands */
};

int checkpoint_ls(const struct call *call);
int checkpoint_stat(const struct call *call);
int checkpoint_cat(const struct call *call);
int checkpoint_verify(const struct call *call);
int checkpoint_diff(const struct call *call);
int checkpoint_convert(const struct call *call);
int events_ls(const struct call *call);
int events_cat(const struct call *call);
int events_check(const struct call *call);
int events_compact(const struct call *call);
int events_plot(const struct call *call);
int abi_command(const struct call *call);
int status_command(const struct call *call);
int outcome_command(const struct call *call);
int verify_resume(const struct call *call);

/* The step that an option gives, or `otherwise` if it is not given. */
int64_t step_of_option(const struct call *call, enum option_id option, int64_t otherwise);

/* Runs the command that `argv` names. `commands` ends with a group of NULL. Returns the exit status. */
int command_line_run(const struct command *commands, int argc, char **argv);

#endif
