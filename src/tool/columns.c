/* SPDX-License-Identifier: Apache-2.0 */
/* Prints tables of tensors, with columns as wide as their longest entry. */
#include "columns.h"
#include "output.h"

#include <string.h>

static void widen(int *width, int wanted)
{
    if (*width < wanted)
        *width = wanted;
}

void columns_fit(columns *c, const char *name, const char *dtype, const hs_tensor *info)
{
    char text[HS_SHAPE_TEXT_SIZE];
    hs_shape shape = hs_tensor_shape(info);
    widen(&c->name, name_width(name));
    widen(&c->dtype, name_width(dtype));
    widen(&c->shape, (int)strlen(hs_shape_text(&shape, text, sizeof text)));
}

void columns_fit_header(columns *c, const char *name, const char *number)
{
    widen(&c->name, (int)strlen(name));
    widen(&c->dtype, (int)strlen("dtype"));
    widen(&c->shape, (int)strlen("shape"));
    widen(&c->number, (int)strlen(number));
}

void columns_fit_number(columns *c, uint64_t number)
{
    widen(&c->number, snprintf(NULL, 0, "%llu", (unsigned long long)number));
}

void columns_put(const columns *c, const char *name, const char *dtype, const hs_tensor *info)
{
    char text[HS_SHAPE_TEXT_SIZE];
    hs_shape shape = hs_tensor_shape(info);
    columns_put_text(c, name, dtype, hs_shape_text(&shape, text, sizeof text));
}

void columns_put_text(const columns *c, const char *name, const char *dtype, const char *shape)
{
    put_padded(name, c->name);
    fputs("  ", stdout);
    put_padded(dtype, c->dtype);
    printf("  %-*s", c->shape, shape);
}
