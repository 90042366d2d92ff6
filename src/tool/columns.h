/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOL_COLUMNS_H
#define TOOL_COLUMNS_H

#include <hooksess/tensor.h>

/* How wide the columns are that describe a tensor, and one of numbers. */
typedef struct columns {
    int name, dtype, shape, number;
} columns;

/* Makes them wide enough. */
void columns_fit(columns *c, const char *name, const hs_tensor *info);
void columns_fit_header(columns *c, const char *name, const char *number);
void columns_fit_number(columns *c, uint64_t number);

/* "name  dtype  shape", and no end of a line. */
void columns_put(const columns *c, const char *name, const hs_tensor *info);
/* A row that is of no tensor, a header or a total: text in place of the three. */
void columns_put_text(const columns *c, const char *name, const char *dtype, const char *shape);

#endif
