/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOL_RECORD_H
#define TOOL_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Compares the records of two trials of a resume (src/drivers/resume_trial.h describes the files). Only one step of each
 * record is in memory. */

/* A variable, state or value that differs. */
typedef struct record_difference {
    const char *kind, *name; /* kind: "state", "variable" or "value" */
    const char *content;     /* checksum, dtype and shape */
    /* its number, or "x" and its bytes in hexadecimal, or "-"; NULL: missing in that run */
    const char *uninterrupted, *resumed;
} record_difference;

typedef struct comparison {
    int64_t same;                   /* number of equal steps */
    int64_t step;                   /* the first step that differs; -1: all are equal */
    size_t things;                  /* number of variables, states and values of the last compared step */
    record_difference *differences; /* of `step` */
    size_t n;                       /* 0 if `step` is not -1: only one run has the step */
    struct record *runs;            /* two; they own the texts */
} comparison;

/* Compares the steps after `after` up to `last`, and stops at the first different step. `ignore`: names separated by
 * commas; may be NULL. Returns false if a record could not be read; the error is printed. Free the comparison, also after a
 * failure. */
bool compare_records(comparison *c, const char *uninterrupted, const char *resumed, int64_t after, int64_t last,
                     const char *ignore);
void free_comparison(comparison *c);

/* The first byte of a difference. */
typedef struct first_byte {
    size_t at, n;           /* of n bytes */
    unsigned char bytes[2]; /* in the uninterrupted run, and in the other */
    bool may_be_pointer;
    size_t size;       /* of an element */
    bool is_number;    /* the elements are numbers of several bytes */
    double numbers[2]; /* then: the element */
} first_byte;

/* False: the records do not have the bytes. */
bool find_first_byte(const record_difference *of, first_byte *found);

#endif
