/* SPDX-License-Identifier: Apache-2.0 */
/* The layout of TensorBoard's custom scalar charts. hs_summary_chart_layout checks categories and charts, then writes them.
 */
#include <hooksess/summary_values.h>

#include "base/proto.h"
#include "summary/value.h"

#include <string.h>

enum { LAYOUT_CATEGORY = 2 };
enum { CATEGORY_TITLE = 1, CATEGORY_CHART, CATEGORY_CLOSED };
enum { CHART_TITLE = 1, CHART_LINES, CHART_MARGINS };
enum { LINES_TAG = 1 };
enum { MARGINS_SERIES = 1 };
enum { SERIES_VALUE = 1, SERIES_LOWER, SERIES_UPPER };

static bool has_margins(const hs_chart *chart)
{
    return chart->margins && chart->margins->value;
}

static void put_chart(hs__buffer *out, const hs_chart *chart)
{
    size_t begun = hs__begin_field(out, CATEGORY_CHART);
    hs__put_string(out, CHART_TITLE, chart->title);
    if (has_margins(chart)) {
        size_t margins = hs__begin_field(out, CHART_MARGINS);
        for (const hs_chart_margin *margin = chart->margins; margin->value; margin++) {
            size_t series = hs__begin_field(out, MARGINS_SERIES);
            hs__put_string(out, SERIES_VALUE, margin->value);
            hs__put_string(out, SERIES_LOWER, margin->lower);
            hs__put_string(out, SERIES_UPPER, margin->upper);
            hs__end_field(out, series);
        }
        hs__end_field(out, margins);
    } else {
        size_t lines = hs__begin_field(out, CHART_LINES);
        for (const char *const *tag = chart->tags; *tag; tag++)
            hs__proto_put_bytes(out, LINES_TAG, *tag, strlen(*tag)); /* not omitted if empty, as the field is repeated */
        hs__end_field(out, lines);
    }
    hs__end_field(out, begun);
}

static hs_code check_chart(const hs_chart *chart, hs_error *err)
{
    hs_code code = hs__check_text(chart->title, "hs_chart.title", err);
    if (code)
        return code;
    if (has_margins(chart) == (chart->tags && *chart->tags))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "chart '%s' needs exactly one of tags and margins", chart->title);
    for (const char *const *tag = chart->tags; !code && tag && *tag; tag++)
        code = hs__check_text(*tag, "hs_chart.tags", err);
    for (size_t i = 0; !code && chart->margins && chart->margins[i].value; i++) {
        const hs_chart_margin *m = &chart->margins[i];
        if (!m->lower || !m->upper)
            return hs_error_set(err, HS_INVALID_ARGUMENT, "chart '%s': margin %zu needs lower and upper", chart->title, i);
        if (!(code = hs__check_text(m->value, "hs_chart_margin.value", err)) &&
            !(code = hs__check_text(m->lower, "hs_chart_margin.lower", err)))
            code = hs__check_text(m->upper, "hs_chart_margin.upper", err);
    }
    return code;
}

static hs_code check_categories(const hs_chart_category *categories, hs_error *err)
{
    hs_code code = HS_OK;
    if (!categories || !categories->title)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "categories is empty");
    for (size_t i = 0; !code && categories[i].title; i++) {
        code = hs__check_text(categories[i].title, "hs_chart_category.title", err);
        for (size_t k = 0; !code && categories[i].charts && categories[i].charts[k].title; k++)
            code = check_chart(&categories[i].charts[k], err);
    }
    return code;
}

hs_code hs_summary_chart_layout(hs_summary *summary, const hs_chart_category *categories, hs_error *err)
{
    static const char tag[] = "custom_scalars__config__";
    hs_code code = hs__check_value(summary, tag, err);
    if (code || (code = check_categories(categories, err)))
        return code;
    hs__value value = hs__begin_value(summary, tag, "");
    size_t tensor = hs__begin_tensor(value.out, HS_STRING, &HS_SCALAR);
    size_t layout = hs__begin_field(value.out, HS__TENSOR_STRING);
    for (const hs_chart_category *category = categories; category->title; category++) {
        size_t begun = hs__begin_field(value.out, LAYOUT_CATEGORY);
        hs__put_string(value.out, CATEGORY_TITLE, category->title);
        for (size_t i = 0; category->charts && category->charts[i].title; i++)
            put_chart(value.out, &category->charts[i]);
        hs__put_integer(value.out, CATEGORY_CLOSED, category->closed);
        hs__end_field(value.out, begun);
    }
    hs__end_field(value.out, layout);
    hs__end_field(value.out, tensor);
    hs__put_metadata(value.out, &(hs__metadata){.plugin = "custom_scalars"});
    return hs__end_value(&value, HS_OK, err);
}
