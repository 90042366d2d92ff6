/* SPDX-License-Identifier: Apache-2.0 */
/* `checkpoint stat`: reads each tensor once, prints its statistics, and adds them to the totals. */
#include "checkpoint_open.h"
#include "columns.h"
#include "command.h"
#include "json_output.h"
#include "output.h"
#include "statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Prefix of the names of states (state.h). */
#define STATE_PREFIX "hooksess/"

/* The statistics of one tensor, or of all. */
typedef struct {
    statistics numbers;
    uint64_t tensors, strings, text_bytes, states, state_bytes;
    uint64_t unknown_bytes; /* of a dtype that the library does not know */
} sums;

typedef struct {
    checkpoint of;
    columns columns;
    sums total;
    bool trouble;
} survey;

/* Finds the next tensor from *index on, only among states or only among the others. */
static bool next(const survey *s, bool states, size_t *index, const char **name, hs_tensor *info)
{
    while (output_works() && hs_checkpoint_tensor(s->of.reader, (*index)++, name, info))
        if ((strncmp(*name, STATE_PREFIX, strlen(STATE_PREFIX)) == 0) == states)
            return true;
    return false;
}

static bool read_statistics(survey *s, const char *name, hs_tensor *info, sums *found)
{
    *found = (sums){.tensors = 1};
    if (!read_tensor(&s->of, name, info)) {
        s->trouble = true;
        return false;
    }
    if (info->dtype == HS_STRING) {
        const hs_string *strings = info->data;
        hs_shape shape = hs_tensor_shape(info);
        found->strings = (uint64_t)hs_shape_elements(&shape);
        for (uint64_t i = 0; i < found->strings; i++)
            found->text_bytes += strings[i].bytes;
    } else if (hs_dtype_size(info->dtype)) {
        statistics_add(&found->numbers, info);
    } else {
        found->unknown_bytes = info->bytes;
    }
    free(info->data);
    statistics_merge(&s->total.numbers, &found->numbers);
    s->total.tensors++;
    s->total.strings += found->strings;
    s->total.text_bytes += found->text_bytes;
    return true;
}

/* Text output. */

enum { NUMBER_TEXT = 32, NUMBER_WIDTH = 12, COUNT_WIDTH = 6 };

static const char *number_text(long double value, bool any, bool whole, char text[NUMBER_TEXT])
{
    snprintf(text, NUMBER_TEXT, !any ? "-" : whole && fabsl(value) < 0x1p64L ? "%.0Lf" : "%.6Lg", value);
    return text;
}

static void put_numbers(const columns *c, const statistics *n, bool whole)
{
    char min[NUMBER_TEXT], max[NUMBER_TEXT], mean[NUMBER_TEXT], norm[NUMBER_TEXT];
    const uint64_t counts[] = {n->nan, n->positive_infinity, n->negative_infinity, n->zeros};
    printf("  %*llu  %*s  %*s  %*s  %*s", c->number, (unsigned long long)n->elements, NUMBER_WIDTH,
           number_text(n->min, n->ordered, whole, min), NUMBER_WIDTH, number_text(n->max, n->ordered, whole, max),
           NUMBER_WIDTH, number_text(statistics_mean(n), n->ordered, false, mean), NUMBER_WIDTH,
           number_text(statistics_norm(n), n->finite, false, norm));
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        printf("  %*llu", COUNT_WIDTH, (unsigned long long)counts[i]);
    puts("");
}

static void put_strings(const columns *c, uint64_t strings, uint64_t bytes)
{
    printf("  %*llu  %llu bytes of text\n", c->number, (unsigned long long)strings, (unsigned long long)bytes);
}

static void put_header(survey *s)
{
    static const char *const numbers[] = {"min", "max", "mean", "norm"}, *const counts[] = {"nan", "+inf", "-inf", "zeros"};
    const char *name;
    hs_tensor info;
    uint64_t elements = 0;
    columns_fit_header(&s->columns, "tensor", "elements");
    for (size_t i = 0; next(s, false, &i, &name, &info);) {
        hs_shape shape = hs_tensor_shape(&info);
        columns_fit(&s->columns, name, hs_checkpoint_dtype_name(s->of.reader, name), &info);
        elements += hs_shape_elements(&shape) > 0 ? (uint64_t)hs_shape_elements(&shape) : 0;
    }
    columns_fit_number(&s->columns, elements);
    columns_put_text(&s->columns, "tensor", "dtype", "shape");
    printf("  %*s", s->columns.number, "elements");
    for (size_t i = 0; i < 4; i++)
        printf("  %*s", NUMBER_WIDTH, numbers[i]);
    for (size_t i = 0; i < 4; i++)
        printf("  %*s", COUNT_WIDTH, counts[i]);
    puts("");
}

static void put_tensors(survey *s)
{
    const char *name;
    hs_tensor info;
    sums found;
    put_header(s);
    for (size_t i = 0; next(s, false, &i, &name, &info);) {
        if (!read_statistics(s, name, &info, &found))
            continue;
        columns_put(&s->columns, name, hs_checkpoint_dtype_name(s->of.reader, name), &info);
        if (!hs_dtype_size(info.dtype))
            printf("  %*s  %llu bytes\n", s->columns.number, "-", (unsigned long long)found.unknown_bytes);
        else if (info.dtype == HS_STRING)
            put_strings(&s->columns, found.strings, found.text_bytes);
        else
            put_numbers(&s->columns, &found.numbers, is_whole(info.dtype));
    }
    columns_put_text(&s->columns, "total", "", "");
    put_numbers(&s->columns, &s->total.numbers, false);
    if (s->total.strings) {
        columns_put_text(&s->columns, "", "", "");
        put_strings(&s->columns, s->total.strings, s->total.text_bytes);
    }
}

static void put_state(const columns *c, const char *name, uint64_t bytes)
{
    put_padded(name, c->name);
    printf("  %*llu\n", c->number, (unsigned long long)bytes);
}

static void put_states(survey *s)
{
    const char *name;
    hs_tensor info;
    columns c = {0, 0, 0, 0};
    columns_fit_header(&c, "state", "bytes");
    for (size_t i = 0; next(s, true, &i, &name, &info);) {
        columns_fit(&c, name, "", &info);
        s->total.states++;
        s->total.state_bytes += stored_bytes(&info);
    }
    if (!s->total.states)
        return;
    columns_fit_number(&c, s->total.state_bytes);
    puts("");
    put_padded("state", c.name);
    printf("  %*s\n", c.number, "bytes");
    for (size_t i = 0; next(s, true, &i, &name, &info);)
        put_state(&c, name, stored_bytes(&info));
    put_state(&c, "total", s->total.state_bytes);
}

/* JSON output. */

static void js_statistics(hs__json_writer *out, const statistics *n, bool whole)
{
    long double none = (long double)NAN;
    js_count(out, "elements", n->elements);
    js_number(out, "min", n->ordered ? n->min : none, whole);
    js_number(out, "max", n->ordered ? n->max : none, whole);
    js_number(out, "mean", statistics_mean(n), false);
    js_number(out, "norm", statistics_norm(n), false);
    js_count(out, "nan", n->nan);
    js_count(out, "positive_infinity", n->positive_infinity);
    js_count(out, "negative_infinity", n->negative_infinity);
    js_count(out, "zeros", n->zeros);
}

static void js_tensors(survey *s, hs__json_writer *out)
{
    const char *name;
    hs_tensor info;
    sums found;
    hs__json_open(out, "tensors", '[');
    for (size_t i = 0; next(s, false, &i, &name, &info);) {
        if (!read_statistics(s, name, &info, &found))
            continue;
        hs__json_open(out, NULL, '{');
        js_tensor(out, name, hs_checkpoint_dtype_name(s->of.reader, name), &info);
        if (!hs_dtype_size(info.dtype)) {
            js_count(out, "bytes", found.unknown_bytes);
        } else if (info.dtype == HS_STRING) {
            js_count(out, "elements", found.strings);
            js_count(out, "bytes", found.text_bytes);
        } else {
            js_statistics(out, &found.numbers, is_whole(info.dtype));
        }
        hs__json_close(out, '}');
    }
    hs__json_close(out, ']');
}

static void js_states(survey *s, hs__json_writer *out)
{
    const char *name;
    hs_tensor info;
    hs__json_open(out, "states", '[');
    for (size_t i = 0; next(s, true, &i, &name, &info);) {
        hs__json_open(out, NULL, '{');
        hs__json_put_text(out, "name", name);
        js_count(out, "bytes", stored_bytes(&info));
        hs__json_close(out, '}');
        s->total.states++;
        s->total.state_bytes += stored_bytes(&info);
    }
    hs__json_close(out, ']');
}

static void js_all(survey *s)
{
    hs__json_writer out = js_begin(2);
    hs__json_open(&out, NULL, '{');
    js_tensors(s, &out);
    js_states(s, &out);
    hs__json_open(&out, "total", '{');
    js_count(&out, "tensors", s->total.tensors);
    js_statistics(&out, &s->total.numbers, false);
    js_count(&out, "strings", s->total.strings);
    js_count(&out, "string_bytes", s->total.text_bytes);
    js_count(&out, "states", s->total.states);
    js_count(&out, "state_bytes", s->total.state_bytes);
    hs__json_close(&out, '}');
    hs__json_close(&out, '}');
    js_end();
}

int checkpoint_stat(const struct call *call)
{
    survey s = {.trouble = false};
    if (!open_checkpoint(&s.of, call->operands[0]))
        return TROUBLE;
    if (call->given[OPTION_JSON]) {
        js_all(&s);
    } else {
        put_tensors(&s);
        put_states(&s);
    }
    close_checkpoint(&s.of);
    return s.trouble ? TROUBLE : FINE;
}
