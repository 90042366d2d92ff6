/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOL_COLUMNS_H
#define TOOL_COLUMNS_H

#include <hooksess/tensor.h>

/* The widths of the columns of a table of tensors, and of a column of numbers. */
typedef struct columns {
    int name, dtype, shape, number;
} columns;

/* Widen the columns if needed. */
void columns_fit(columns *c, const char *name, const char *dtype, const hs_tensor *info);
void columns_fit_header(columns *c, const char *name, const char *number);
void columns_fit_number(columns *c, uint64_t number);

/* Prints "name  dtype  shape" without a newline. */
void columns_put(const columns *c, const char *name, const char *dtype, const hs_tensor *info);
/* The same for a header or a total. */
void columns_put_text(const columns *c, const char *name, const char *dtype, const char *shape);

#endif
