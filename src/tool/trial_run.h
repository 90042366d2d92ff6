/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOL_TRIAL_RUN_H
#define TOOL_TRIAL_RUN_H

#include <stdbool.h>
#include <stdint.h>

/* Runs trials of a resume as child processes (src/drivers/resume_trial.h describes what the library does in a trial). */

typedef struct trials {
    char **program;      /* the program and its arguments, terminated by NULL */
    char *directory;     /* absolute */
    const char *fetches; /* names separated by commas; may be NULL */
} trials;

typedef struct trial {
    const char *name; /* of its files. "whole" is a separate run, the others continue one run */
    const char *what; /* for messages */
    int64_t first;    /* the step from which it resumes; 0: it does not */
    int64_t last;     /* the step at which to end; after the trial, the step at which it ended */
    bool stops;       /* there it is stopped, and closes its session. Otherwise it is killed */
} trial;

/* Runs the program as a trial and waits for it. False: the trial failed; the error is printed. */
bool run_trial(const trials *t, trial *one);

/* "DIRECTORY/NAME.ENDING". The caller frees it with free. */
char *trial_file(const trials *t, const char *name, const char *ending);

#endif
