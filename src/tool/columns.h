/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOL_COLUMNS_H
#define TOOL_COLUMNS_H

#include "output.h"

#include <hooksess/tensor.h>

/* A table. columns_print prints it when all rows are known: columns are as wide as their longest cell, but the first column
 * only as wide as the terminal permits, and at most 100 columns without one. A longer first cell does not move the columns
 * of other rows. */
typedef struct columns {
    const char *const *header; /* ended by NULL. '>' before a name: the column is aligned on the right */
    struct columns_row *rows;
    size_t n_rows;
} columns;

/* Begins a row, which is printed in a style. */
void columns_row(columns *c, style chosen);
/* Adds the next cell to the row. Control characters are escaped when it is printed. */
void columns_put(columns *c, const char *format, ...) HS_PRINTF(2, 3);
/* Adds a last cell that may be wider than its column. */
void columns_rest(columns *c, const char *format, ...) HS_PRINTF(2, 3);
/* Adds a number of bytes, as "1.2 MiB". */
void columns_put_bytes(columns *c, uint64_t bytes);
void columns_put_shape(columns *c, const hs_shape *shape);
/* Prints the header and the rows, or nothing if the table has no rows, and frees them. */
void columns_print(columns *c);

#endif
