/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_PROGRESS_LINE_H
#define HS_HOOKS_PROGRESS_LINE_H

#include <stdatomic.h>
#include <stdbool.h>

/* A line of text on a descriptor: rewritten in place on a terminal, else one after the other. Nothing of it fails. */
typedef struct hs__progress_line {
    int descriptor;
    bool in_place;    /* it is a terminal */
    atomic_bool dead; /* nobody reads it any more */
    atomic_int shown; /* columns that are written on */
} hs__progress_line;

void hs__progress_line_init(hs__progress_line *line, int descriptor, bool plain);
/* Control characters in the text are shown as '?'. */
void hs__progress_line_show(hs__progress_line *line, const char *text);
/* Any thread. */
void hs__progress_line_clear(hs__progress_line *line);
/* What is shown stays, and what others write comes below it. */
void hs__progress_line_end(hs__progress_line *line);

#endif
