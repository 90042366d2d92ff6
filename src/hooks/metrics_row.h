/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_METRICS_ROW_H
#define HS_HOOKS_METRICS_ROW_H

#include <hooksess/scalar_sink.h>

/* Formats a row of a metrics file as CSV or JSON. The first column is the step. */
typedef struct hs__metrics_row {
    bool json;
    const char *const *names; /* of all columns, ended by NULL */
    char *text, *scratch;     /* hs__metrics_row_longest() bytes each */
    size_t used, column;      /* bytes in `text`; the index of the next column */
} hs__metrics_row;

/* Returns a number of bytes that is enough for any row and for the head. */
size_t hs__metrics_row_longest(const char *const *names);
/* Formats the first line of a CSV file; "" for JSON. Zero-terminated. */
void hs__metrics_row_head(hs__metrics_row *row);
void hs__metrics_row_begin(hs__metrics_row *row);
void hs__metrics_row_integer(hs__metrics_row *row, int64_t value);
/* Adds a time in seconds with three decimals. */
void hs__metrics_row_time(hs__metrics_row *row, int64_t ns);
void hs__metrics_row_scalar(hs__metrics_row *row, const hs_scalar *scalar);
void hs__metrics_row_end(hs__metrics_row *row);

/* The functions of an hs__line_reader. `user` is a row, whose `text` they do not change. `fits` returns true for a line,
 * without its newline, of the same columns: the head, or a row if the format has no head. */
bool hs__metrics_row_fits(const void *user, const char *line, size_t bytes);
bool hs__metrics_row_step(const void *user, const char *line, size_t bytes, int64_t *step);

#endif
