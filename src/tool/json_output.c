/* SPDX-License-Identifier: Apache-2.0 */
/* Writes JSON to standard output, with the writer of src/base. */
#include "json_output.h"

#include "memory.h"

#include <stdio.h>
#include <stdlib.h>

static void put(void *to, const char *text, size_t bytes)
{
    fwrite(text, 1, bytes, to);
}

hs__json_writer js_begin(int lines)
{
    return (hs__json_writer){.put = put, .to = stdout, .lines = lines};
}

void js_end(void)
{
    puts("");
}

void js_count(hs__json_writer *out, const char *name, uint64_t count)
{
    js_number(out, name, (long double)count, true);
}

void js_number(hs__json_writer *out, const char *name, long double value, bool whole)
{
    /* INT64_MAX may round up to 2^63, which does not fit */
    if (whole && value >= (long double)INT64_MIN && value < 0x1p63L)
        hs__json_put_int(out, name, (int64_t)value);
    else
        hs__json_put_number(out, name, (double)value);
}

void js_text(hs__json_writer *out, const char *name, const char *text)
{
    if (text)
        hs__json_put_text(out, name, text);
    else
        hs__json_put_null(out, name);
}

static char *text_of_value(hs__json_value string)
{
    char *text = must_allocate(NULL, string.bytes, 1);
    hs__json_copy(string, text);
    return text;
}

void js_value(hs__json_writer *out, const char *name, hs__json_value value)
{
    const bool is_object = hs__json_is(value, '{');
    hs__json_item item = {.value = {NULL, 0}};
    if (is_object || hs__json_is(value, '[')) {
        hs__json_open(out, name, *value.text);
        while (hs__json_next(value, &item)) {
            char *member = is_object ? text_of_value(item.name) : NULL;
            js_value(out, member, item.value);
            free(member);
        }
        hs__json_close(out, is_object ? '}' : ']');
    } else if (hs__json_is(value, '"')) {
        char *text = text_of_value(value);
        hs__json_put_text(out, name, text);
        free(text);
    } else if (value.text) {
        hs__json_put_json(out, name, value.text, value.bytes);
    } else {
        hs__json_put_null(out, name);
    }
}

void js_dims(hs__json_writer *out, const char *name, const hs_shape *dims)
{
    if (dims->rank < 0) {
        hs__json_put_null(out, name);
        return;
    }
    hs__json_open(out, name, '[');
    for (int32_t i = 0; i < dims->rank; i++)
        hs__json_put_int(out, NULL, dims->dims[i]);
    hs__json_close(out, ']');
}

void js_tensor(hs__json_writer *out, const char *name, const char *dtype, const hs_tensor *info)
{
    hs_shape shape = hs_tensor_shape(info);
    hs__json_put_text(out, "name", name);
    hs__json_put_text(out, "dtype", dtype);
    js_dims(out, "shape", &shape);
}
