/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOL_COMMAND_H
#define TOOL_COMMAND_H

#include <stdbool.h>
#include <stdint.h>

/* How the tool ends. */
enum { FINE = 0, FOUND = 1, TROUBLE = 2 };

/* Every option of every command; a row of `known` in command_line.c says how it is written. */
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
    N_OPTIONS
};

/* A command that takes a program and its arguments. Options end at the first operand. */
enum { A_PROGRAM = -1 };

/* A command as it was called. */
struct call {
    const char *given[N_OPTIONS]; /* NULL: not given; "" for one that takes no value */
    char **operands;              /* as many as the command takes; ended by NULL */
};

struct command {
    const char *group, *name; /* "checkpoint", "ls"; name NULL: the command is one word */
    const char *synopsis;     /* what comes after them */
    const char *summary;      /* in a line, */
    const char *help;         /* and all of it */
    int n_operands;
    bool takes[N_OPTIONS];
    int (*run)(const struct call *call); /* says what is wrong, and returns how the tool ends */
};

int checkpoint_ls(const struct call *call);
int checkpoint_stat(const struct call *call);
int checkpoint_verify(const struct call *call);
int checkpoint_diff(const struct call *call);
int checkpoint_convert(const struct call *call);
int events_ls(const struct call *call);
int events_cat(const struct call *call);
int events_check(const struct call *call);
int events_compact(const struct call *call);
int verify_resume(const struct call *call);

/* The number that an option was given. `text` NULL: *step stays. False: it is not a number, and that was said. */
bool take_step(const char *option, const char *text, int64_t *step);

/* Runs the command that the words name, out of a table that ends with a NULL group. */
int command_line_run(const struct command *commands, int argc, char **argv);

#endif
