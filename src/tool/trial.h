/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOL_TRIAL_H
#define TOOL_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

/* Trials of a resume (src/drivers/resume_trial.h describes what the library does in one). */

typedef struct trials {
    char **program;      /* and its arguments, ended by NULL */
    char *directory;     /* absolute */
    const char *fetches; /* names with commas between them; NULL: none */
} trials;

/* One of them. */
typedef struct trial {
    const char *name; /* of its files; "whole" has a run of its own, the others continue one run */
    const char *what; /* for messages */
    int64_t first;    /* the step that it resumes from; 0: none */
    int64_t last;     /* where it is to end; then the step where it has ended */
} trial;

/* Runs the program as a trial and waits for it. False: the trial was not made, and that was said. */
bool run_trial(const trials *t, trial *one);

/* "DIRECTORY/NAME.ENDING", to be freed with free. */
char *trial_file(const trials *t, const char *name, const char *ending);

#endif
