/* SPDX-License-Identifier: Apache-2.0 */
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
} sums;

typedef struct {
    checkpoint of;
    columns columns;
    sums total;
    bool trouble;
} survey;

static bool is_state(const char *name)
{
    return strncmp(name, STATE_PREFIX, strlen(STATE_PREFIX)) == 0;
}

/* The next tensor from *index on that is a state, or that is not, depending on `states`. */
static bool next(const survey *s, bool states, size_t *index, const char **name, hs_tensor *info)
{
    while (output_works() && hs_checkpoint_tensor(s->of.reader, (*index)++, name, info))
        if (is_state(*name) == states)
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
    } else {
        statistics_add(&found->numbers, info);
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
        columns_fit(&s->columns, name, &info);
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
        columns_put(&s->columns, name, &info);
        if (info.dtype == HS_STRING)
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
        columns_fit(&c, name, &info);
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

static json_t *count_of(uint64_t n)
{
    return js_number((long double)n, true);
}

static void set_numbers(json_t *object, const statistics *n, bool whole)
{
    long double none = (long double)NAN;
    js_set(object, "elements", count_of(n->elements));
    js_set(object, "min", js_number(n->ordered ? n->min : none, whole));
    js_set(object, "max", js_number(n->ordered ? n->max : none, whole));
    js_set(object, "mean", js_number(statistics_mean(n), false));
    js_set(object, "norm", js_number(statistics_norm(n), false));
    js_set(object, "nan", count_of(n->nan));
    js_set(object, "positive_infinity", count_of(n->positive_infinity));
    js_set(object, "negative_infinity", count_of(n->negative_infinity));
    js_set(object, "zeros", count_of(n->zeros));
}

static void print_tensors(survey *s)
{
    const char *name;
    hs_tensor info;
    sums found;
    fputs("{\"tensors\": ", stdout);
    js_list_begin();
    for (size_t i = 0; next(s, false, &i, &name, &info);) {
        if (!read_statistics(s, name, &info, &found))
            continue;
        json_t *object = js_tensor(name, &info);
        if (info.dtype == HS_STRING) {
            js_set(object, "elements", count_of(found.strings));
            js_set(object, "bytes", count_of(found.text_bytes));
        } else {
            set_numbers(object, &found.numbers, is_whole(info.dtype));
        }
        js_list_add(object);
    }
    js_list_end();
}

static void print_states(survey *s)
{
    const char *name;
    hs_tensor info;
    fputs(",\n \"states\": ", stdout);
    js_list_begin();
    for (size_t i = 0; next(s, true, &i, &name, &info);) {
        json_t *object = json_object();
        js_set(object, "name", js_text(name));
        js_set(object, "bytes", count_of(stored_bytes(&info)));
        js_list_add(object);
        s->total.states++;
        s->total.state_bytes += stored_bytes(&info);
    }
    js_list_end();
}

static void print_total(const sums *total)
{
    json_t *object = json_object();
    js_set(object, "tensors", count_of(total->tensors));
    set_numbers(object, &total->numbers, false);
    js_set(object, "strings", count_of(total->strings));
    js_set(object, "string_bytes", count_of(total->text_bytes));
    js_set(object, "states", count_of(total->states));
    js_set(object, "state_bytes", count_of(total->state_bytes));
    fputs(",\n \"total\": ", stdout);
    js_write(object);
    puts("}");
}

int checkpoint_stat(const struct call *call)
{
    survey s = {.trouble = false};
    if (!open_checkpoint(&s.of, call->operands[0]))
        return TROUBLE;
    if (call->given[OPTION_JSON]) {
        print_tensors(&s);
        print_states(&s);
        print_total(&s.total);
    } else {
        put_tensors(&s);
        put_states(&s);
    }
    close_checkpoint(&s.of);
    return js_works() && !s.trouble ? FINE : TROUBLE;
}
