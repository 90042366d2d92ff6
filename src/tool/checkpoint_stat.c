/* SPDX-License-Identifier: Apache-2.0 */
/* `checkpoint stat`: reads each tensor once, prints its statistics, and adds them to the totals. */
#include "checkpoint_open.h"
#include "columns.h"
#include "command.h"
#include "json_output.h"
#include "output.h"
#include "statistics.h"

#include "base/text.h"

#include <math.h>
#include <stdlib.h>

/* The statistics of one tensor, or of all. */
typedef struct {
    statistics numbers; /* of all: of the floating-point tensors, as a step or a counter has no common scale with weights */
    uint64_t tensors, strings, text_bytes, states, state_bytes;
} sums;

typedef struct {
    checkpoint of;
    sums total;
    columns table;
    hs__json_writer *json; /* NULL: text */
    bool trouble;
} survey;

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
    }
    free(info->data);
    if (!is_whole(info->dtype))
        statistics_merge(&s->total.numbers, &found->numbers);
    s->total.tensors++;
    s->total.strings += found->strings;
    s->total.text_bytes += found->text_bytes;
    return true;
}

/* Text output. */

static void put_number(columns *table, long double value, bool any, bool whole)
{
    columns_put(table, !any ? "-" : whole && fabsl(value) < 0x1p64L ? "%.0Lf" : "%.4Lg", value);
}

static void put_numbers(columns *table, const statistics *n, bool whole)
{
    put_number(table, n->min, n->ordered, whole);
    put_number(table, n->max, n->ordered, whole);
    put_number(table, statistics_mean(n), n->ordered, false);
    put_number(table, statistics_norm(n), n->finite, false);
    columns_put(table, "%llu", (unsigned long long)n->nan);
    columns_put(table, "%llu", (unsigned long long)(n->positive_infinity + n->negative_infinity));
    columns_put(table, "%llu", (unsigned long long)n->zeros);
}

static void put_strings(columns *table, const sums *found)
{
    char size[HS__NUMBER_TEXT];
    columns_rest(table, "%s of strings", hs__bytes_text(size, found->text_bytes));
}

static void put_tensor(survey *s, const char *name, const hs_tensor *info, const sums *found)
{
    columns *table = &s->table;
    char size[HS__NUMBER_TEXT];
    const hs_shape shape = hs_tensor_shape(info);
    columns_row(table, found->numbers.finite < found->numbers.elements ? STYLE_BAD : STYLE_NONE);
    columns_put(table, "%s", name);
    columns_put_shape(table, &shape);
    if (!hs_dtype_size(info->dtype))
        columns_rest(table, "%s of %s", hs__bytes_text(size, info->bytes), hs_checkpoint_dtype_name(s->of.reader, name));
    else if (info->dtype == HS_STRING)
        put_strings(table, found);
    else
        put_numbers(table, &found->numbers, is_whole(info->dtype));
}

/* The totals are the statistics of a vector of all floating-point numbers. */
static void put_totals(columns *table, const sums *total)
{
    columns_row(table, STYLE_NONE);
    columns_put(table, "floats");
    columns_put(table, "[%llu]", (unsigned long long)total->numbers.elements);
    put_numbers(table, &total->numbers, false);
    if (total->strings) {
        columns_row(table, STYLE_NONE);
        columns_put(table, "strings");
        columns_put(table, "[%llu]", (unsigned long long)total->strings);
        put_strings(table, total);
    }
}

static void put_state(columns *table, const char *name, uint64_t bytes)
{
    columns_row(table, STYLE_NONE);
    columns_put(table, "%s", name);
    columns_put_bytes(table, bytes);
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

static void js_one(const survey *s, const char *name, const hs_tensor *info, const sums *found)
{
    hs__json_writer *out = s->json;
    hs__json_open(out, NULL, '{');
    js_tensor(out, name, hs_checkpoint_dtype_name(s->of.reader, name), info);
    if (!hs_dtype_size(info->dtype)) {
        js_count(out, "bytes", info->bytes);
    } else if (info->dtype == HS_STRING) {
        js_count(out, "elements", found->strings);
        js_count(out, "bytes", found->text_bytes);
    } else {
        js_statistics(out, &found->numbers, is_whole(info->dtype));
    }
    hs__json_close(out, '}');
}

static void js_state(hs__json_writer *out, const char *name, uint64_t bytes)
{
    hs__json_open(out, NULL, '{');
    hs__json_put_text(out, "name", name);
    js_count(out, "bytes", bytes);
    hs__json_close(out, '}');
}

static void js_totals(hs__json_writer *out, const sums *total)
{
    hs__json_open(out, "total", '{');
    js_count(out, "tensors", total->tensors);
    js_statistics(out, &total->numbers, false);
    js_count(out, "strings", total->strings);
    js_count(out, "string_bytes", total->text_bytes);
    js_count(out, "states", total->states);
    js_count(out, "state_bytes", total->state_bytes);
    hs__json_close(out, '}');
}

/* The command. */

static void survey_tensors(survey *s)
{
    const char *name;
    hs_tensor info;
    sums found;
    for (size_t i = 0; output_works() && hs_checkpoint_tensor(s->of.reader, i, &name, &info); i++) {
        if (is_state(name) || !read_statistics(s, name, &info, &found))
            continue;
        if (s->json)
            js_one(s, name, &info, &found);
        else
            put_tensor(s, name, &info, &found);
    }
}

static void survey_states(survey *s)
{
    const char *name;
    hs_tensor info;
    for (size_t i = 0; output_works() && hs_checkpoint_tensor(s->of.reader, i, &name, &info); i++) {
        if (!is_state(name))
            continue;
        s->total.states++;
        s->total.state_bytes += stored_bytes(&info);
        if (s->json)
            js_state(s->json, name, stored_bytes(&info));
        else
            put_state(&s->table, name, stored_bytes(&info));
    }
}

static void write_text(survey *s)
{
    static const char *const of_tensors[] = {"tensor", "shape", ">min", ">max",   ">mean",
                                             ">norm",  ">nan",  ">inf", ">zeros", NULL},
                             *const of_states[] = {"state", ">size", NULL};
    s->table.header = of_tensors;
    survey_tensors(s);
    put_totals(&s->table, &s->total);
    columns_print(&s->table);
    s->table.header = of_states;
    survey_states(s);
    if (s->total.states) {
        put_state(&s->table, "total", s->total.state_bytes);
        puts("");
    }
    columns_print(&s->table);
}

static void write_json(survey *s)
{
    hs__json_writer out = js_begin(2);
    s->json = &out;
    hs__json_open(&out, NULL, '{');
    hs__json_open(&out, "tensors", '[');
    survey_tensors(s);
    hs__json_close(&out, ']');
    hs__json_open(&out, "states", '[');
    survey_states(s);
    hs__json_close(&out, ']');
    js_totals(&out, &s->total);
    hs__json_close(&out, '}');
    js_end();
}

int checkpoint_stat(const struct call *call)
{
    survey s = {.trouble = false};
    if (!open_checkpoint(&s.of, call->operands[0]))
        return TROUBLE;
    (call->given[OPTION_JSON] ? write_json : write_text)(&s);
    close_checkpoint(&s.of);
    return s.trouble ? TROUBLE : FINE;
}
