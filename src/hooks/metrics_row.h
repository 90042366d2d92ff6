/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_METRICS_ROW_H
#define HS_HOOKS_METRICS_ROW_H

#include <hooksess/scalar_sink.h>

/* A row of a file of metrics, as text. The first column is the step. */
typedef struct hs__metrics_row {
    bool json;
    const char *const *names; /* of all columns, ended by NULL */
    char *text, *scratch;     /* hs__metrics_row_longest() bytes each */
    size_t used, column;      /* bytes; the column that comes next */
} hs__metrics_row;

/* What suffices for a row, or for the head. */
size_t hs__metrics_row_longest(const char *const *names);
/* The line above all rows: "" for JSON. Ends with a zero byte. */
void hs__metrics_row_head(hs__metrics_row *row);
void hs__metrics_row_begin(hs__metrics_row *row);
void hs__metrics_row_integer(hs__metrics_row *row, int64_t value);
/* Seconds, in thousandths. */
void hs__metrics_row_time(hs__metrics_row *row, int64_t ns);
void hs__metrics_row_scalar(hs__metrics_row *row, const hs_scalar *scalar);
void hs__metrics_row_end(hs__metrics_row *row);

/* For an hs__line_reader; `user` is a row, whose text they leave alone: is this a line, without its end, of the same
 * columns (the head, or a row where there is none); the step in a row. */
bool hs__metrics_row_fits(const void *user, const char *line, size_t bytes);
bool hs__metrics_row_step(const void *user, const char *line, size_t bytes, int64_t *step);

#endif
