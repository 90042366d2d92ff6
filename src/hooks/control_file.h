/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_CONTROL_FILE_H
#define HS_HOOKS_CONTROL_FILE_H

#include <hooksess/env.h>

/* The lines of a file, or a FIFO, that somebody may have put in a place, which nobody else may have written. Nothing here
 * waits, and nothing here fails: what is wrong is a line in the log. */

enum { HS__CONTROL_LINE = 1000 };

typedef struct hs__control_file {
    char *path, *aside; /* the caller's */
    const hs_env *env;  /* for the log */
    void (*line)(void *user, const char *text);
    void *user;
    int fifo; /* -1: none is open */
    char text[HS__CONTROL_LINE + 1];
    size_t bytes;      /* of a line whose end is still to come */
    bool too_long;     /* what is left of it is skipped */
    uint64_t refusals; /* in this look */
    bool has_refused;  /* what was refused last: it is told of once */
    uint64_t refused_as[4];
} hs__control_file;

/* Looks once, and calls `line` with each whole line, without its end. */
void hs__control_file_poll(hs__control_file *file);
/* Lets go of a FIFO, and forgets what it was told of. */
void hs__control_file_reset(hs__control_file *file);
/* A line in the log: `text` is refused, and why. It is quoted so that the log stays whole whatever is in it, and cut. After
 * some in one look it falls silent. */
void hs__control_log_refusal(hs__control_file *file, const char *text, size_t bytes, const char *why);

#endif
