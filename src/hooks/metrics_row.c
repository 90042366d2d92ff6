/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/metrics_row.h"

#include "base/json_writer.h"
#include "base/text.h"
#include "hooks/scalar_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The most bytes of a value with its separators. */
enum { NUMBER = HS__NUMBER_TEXT };

size_t hs__metrics_row_longest(const char *const *names)
{
    size_t longest = NUMBER;
    for (size_t i = 0; names[i]; i++)
        longest += strlen(names[i]) * HS__JSON_ESCAPED + NUMBER;
    return longest;
}

static void put(hs__metrics_row *row, const char *text)
{
    size_t n = strlen(text);
    memcpy(row->text + row->used, text, n + 1);
    row->used += n;
}

/* Names. */

static size_t json_name(char *to, const char *name)
{
    char *end = to;
    hs__json_quote(hs__json_put_in_memory, &end, name);
    return (size_t)(end - to);
}

static size_t csv_name(char *to, const char *name)
{
    size_t n = 0;
    bool quoted = strpbrk(name, ",\"\r\n") || name[0] == ' ' || (*name && name[strlen(name) - 1] == ' ');
    if (quoted)
        to[n++] = '"';
    for (; *name; name++) {
        if (*name == '"')
            to[n++] = '"';
        to[n++] = *name;
    }
    if (quoted)
        to[n++] = '"';
    return n;
}

void hs__metrics_row_head(hs__metrics_row *row)
{
    row->used = 0;
    row->text[0] = '\0';
    for (size_t i = 0; !row->json && row->names[i]; i++) {
        if (i)
            put(row, ",");
        row->used += csv_name(row->text + row->used, row->names[i]);
    }
    if (!row->json)
        put(row, "\n");
}

/* Values. */

void hs__metrics_row_begin(hs__metrics_row *row)
{
    row->used = row->column = 0;
    if (row->json)
        put(row, "{");
}

static void put_value(hs__metrics_row *row, const char *text)
{
    if (row->column)
        put(row, ",");
    if (row->json) {
        row->used += json_name(row->text + row->used, row->names[row->column]);
        put(row, ":");
    }
    put(row, text);
    row->column++;
}

void hs__metrics_row_integer(hs__metrics_row *row, int64_t value)
{
    char text[NUMBER];
    snprintf(text, sizeof text, "%lld", (long long)value);
    put_value(row, text);
}

void hs__metrics_row_time(hs__metrics_row *row, int64_t ns)
{
    char text[NUMBER];
    ns = ns > 0 ? ns : 0; /* the clock was not set */
    snprintf(text, sizeof text, "%lld.%03d", (long long)(ns / 1000000000), (int)(ns / 1000000 % 1000));
    put_value(row, text);
}

static void put_number(hs__metrics_row *row, double value, bool single)
{
    char text[HS__NUMBER_TEXT];
    if (isfinite(value))
        put_value(row, hs__real_text(text, value, single));
    else if (isnan(value))
        put_value(row, row->json ? "\"NaN\"" : "nan");
    else if (value > 0)
        put_value(row, row->json ? "\"Infinity\"" : "inf");
    else
        put_value(row, row->json ? "\"-Infinity\"" : "-inf");
}

static void put_unsigned(hs__metrics_row *row, uint64_t value)
{
    char text[NUMBER];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    put_value(row, text);
}

void hs__metrics_row_scalar(hs__metrics_row *row, const hs_scalar *scalar)
{
    if (!scalar->known)
        put_value(row, row->json ? "null" : "");
    else if (scalar->dtype == HS_UINT64)
        put_unsigned(row, (uint64_t)scalar->integer);
    else if (hs__is_integer(scalar->dtype))
        hs__metrics_row_integer(row, scalar->integer);
    else
        put_number(row, scalar->value, scalar->dtype != HS_DOUBLE);
}

void hs__metrics_row_end(hs__metrics_row *row)
{
    put(row, row->json ? "}\n" : "\n");
}

/* Reading back. */

static bool skip_prefix(const char **at, const char *end, const char *text, size_t bytes)
{
    if ((size_t)(end - *at) < bytes || memcmp(*at, text, bytes) != 0)
        return false;
    *at += bytes;
    return true;
}

/* Compares names in their escaped form. Values are numbers, null or quoted words; none contains a comma or a brace. */
bool hs__metrics_row_fits(const void *user, const char *line, size_t bytes)
{
    const hs__metrics_row *row = user;
    const char *at = line, *end = line + bytes;
    char *text = row->scratch; /* row->text may be in use */
    for (size_t i = 0; row->names[i]; i++) {
        size_t n = row->json ? json_name(text, row->names[i]) : csv_name(text, row->names[i]);
        if ((i || row->json) && !skip_prefix(&at, end, i ? "," : "{", 1))
            return false;
        if (!skip_prefix(&at, end, text, n) || (row->json && !skip_prefix(&at, end, ":", 1)))
            return false;
        while (row->json && at < end && *at != ',' && *at != '}')
            at++;
    }
    return row->json ? end - at == 1 && *at == '}' : at == end;
}

bool hs__metrics_row_step(const void *user, const char *line, size_t bytes, int64_t *step)
{
    const hs__metrics_row *row = user;
    const char *at = line, *end = line + bytes;
    char number[NUMBER], *rest;
    size_t n = 0;
    if (row->json && !skip_prefix(&at, end, "{\"step\":", strlen("{\"step\":")))
        return false;
    while (at < end && n < sizeof number - 1 && *at != ',' && *at != '}')
        number[n++] = *at++;
    number[n] = '\0';
    *step = strtoll(number, &rest, 10);
    return n && !*rest;
}
