/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_PROGRESS_LINE_H
#define HS_HOOKS_PROGRESS_LINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* As wide as any terminal that is looked at, and the bytes of a character; what is longer is cut. */
enum { HS__PROGRESS_COLUMNS = 500, HS__PROGRESS_BYTES = 4 * HS__PROGRESS_COLUMNS };

/* A line of text on a descriptor: rewritten in place on a terminal, else one after the other. Nothing of it fails. */
typedef struct hs__progress_line {
    int descriptor;
    bool in_place;        /* it is a terminal */
    atomic_bool dead;     /* nobody reads it any more */
    atomic_int shown;     /* columns that are written on */
    pthread_mutex_t lock; /* of the text, and of lines that are written above it */
    size_t bytes;
    char text[1 + HS__PROGRESS_BYTES]; /* what is shown, from the carriage return on */
} hs__progress_line;

void hs__progress_line_init(hs__progress_line *line, int descriptor, bool plain);
void hs__progress_line_free(hs__progress_line *line);
/* Control characters in the text are shown as '?'. */
void hs__progress_line_show(hs__progress_line *line, const char *text);
/* Any thread. */
void hs__progress_line_clear(hs__progress_line *line);
/* Writes a whole line above the one that is shown, which stays the last. Any thread. */
void hs__progress_line_print(hs__progress_line *line, const char *text);
/* What is shown stays, and what others write comes below it. */
void hs__progress_line_end(hs__progress_line *line);

#endif
