/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOL_RECORD_H
#define TOOL_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What trials of a resume have recorded (src/drivers/resume_trial.h describes the files). One step of each record is in
 * memory. */

/* A thing that differs. */
typedef struct record_difference {
    const char *kind, *name;             /* kind: "state", "variable" or "value" */
    const char *uninterrupted, *resumed; /* its number; "-": it has none; NULL: that run does not have the thing */
} record_difference;

typedef struct comparison {
    int64_t same;                   /* how many steps are the same */
    int64_t step;                   /* the first that differs; -1: none */
    size_t things;                  /* how many things are recorded of the last step that was compared */
    record_difference *differences; /* what differs in `step` */
    size_t n;                       /* 0: only one of the runs has made the step */
    size_t capacity;
    struct record *runs; /* two, which have the texts */
} comparison;

/* Compares the steps after `after` up to `last`, and stops at the first one that differs. `ignore`: names with commas
 * between them; NULL: none. False: a record could not be read, and that was said. Free the comparison in any case. */
bool compare_records(comparison *c, const char *uninterrupted, const char *resumed, int64_t after, int64_t last,
                     const char *ignore);
void free_comparison(comparison *c);

#endif
