/* SPDX-License-Identifier: Apache-2.0 */
/* Each value begins with begin_value, which writes the comma, the line break and the name before it. */
#include "base/json_writer.h"

#include "base/text.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void hs__json_put_in_memory(void *to, const char *text, size_t bytes)
{
    char **end = to;
    memcpy(*end, text, bytes);
    *end += bytes;
}

static void put(const hs__json_writer *out, const char *text)
{
    out->put(out->to, text, strlen(text));
}

static void begin_line(const hs__json_writer *out)
{
    put(out, "\n");
    for (int i = 0; i < out->depth; i++)
        put(out, " ");
}

/* Writes what precedes a value. */
static void begin_value(hs__json_writer *out, const char *name)
{
    bool begins_line = out->depth && out->depth <= out->lines;
    if (out->follows)
        put(out, out->compact || begins_line ? "," : ", ");
    if (begins_line)
        begin_line(out);
    if (name) {
        hs__json_quote(out->put, out->to, name);
        put(out, out->compact ? ":" : ": ");
    }
    out->follows = true;
}

void hs__json_open(hs__json_writer *out, const char *name, char bracket)
{
    begin_value(out, name);
    out->put(out->to, &bracket, 1);
    out->depth++;
    out->follows = false;
}

void hs__json_close(hs__json_writer *out, char bracket)
{
    bool ends_line = out->follows && out->depth <= out->lines;
    out->depth--;
    if (ends_line)
        begin_line(out);
    out->put(out->to, &bracket, 1);
    out->follows = true;
}

void hs__json_put_json(hs__json_writer *out, const char *name, const char *json, size_t bytes)
{
    begin_value(out, name);
    out->put(out->to, json, bytes);
}

void hs__json_put_text(hs__json_writer *out, const char *name, const char *text)
{
    begin_value(out, name);
    hs__json_quote(out->put, out->to, text);
}

void hs__json_put_int(hs__json_writer *out, const char *name, int64_t value)
{
    char text[HS__NUMBER_TEXT];
    hs__json_put_json(out, name, text, (size_t)snprintf(text, sizeof text, "%lld", (long long)value));
}

void hs__json_put_number(hs__json_writer *out, const char *name, double value)
{
    char text[HS__NUMBER_TEXT];
    if (isfinite(value))
        hs__json_put_json(out, name, text, strlen(hs__real_text(text, value, false)));
    else
        hs__json_put_null(out, name);
}

void hs__json_put_thousandths(hs__json_writer *out, const char *name, int64_t value)
{
    char text[HS__NUMBER_TEXT];
    long long n = value > 0 ? value : 0;
    hs__json_put_json(out, name, text, (size_t)snprintf(text, sizeof text, "%lld.%03lld", n / 1000, n % 1000));
}

void hs__json_put_bool(hs__json_writer *out, const char *name, bool value)
{
    const char *word = value ? "true" : "false";
    hs__json_put_json(out, name, word, strlen(word));
}

void hs__json_put_null(hs__json_writer *out, const char *name)
{
    hs__json_put_json(out, name, "null", strlen("null"));
}

/* The length of the text before the first character that must be escaped. */
static size_t plain_length(const char *text, size_t bytes)
{
    size_t plain = 0, n = 1;
    while (plain < bytes && n) {
        const char *at = text + plain;
        n = *at == '"' || *at == '\\' ? 0 : hs__utf8_length(at, bytes - plain);
        n = n && hs__is_control(at, n) ? 0 : n;
        plain += n;
    }
    return plain;
}

/* The number of a character of at most three bytes. */
static unsigned number_of(const char *text, size_t length)
{
    unsigned number = (unsigned char)text[0] & (length == 1 ? 0x7f : length == 2 ? 0x1f : 0x0f);
    for (size_t i = 1; i < length; i++)
        number = number << 6 | ((unsigned char)text[i] & 0x3f);
    return number;
}

void hs__json_quote(hs__json_put *to_sink, void *to, const char *text)
{
    static const char characters[] = "\"\\\b\f\n\r\t", names[] = "\"\\bfnrt";
    char escape[HS__JSON_ESCAPED + 1];
    to_sink(to, "\"", 1);
    for (size_t left = strlen(text), n; left; text += n, left -= n) {
        const char *named;
        if ((n = plain_length(text, left)) > 0) {
            to_sink(to, text, n);
        } else if ((named = strchr(characters, *text))) {
            n = 1;
            to_sink(to, (const char[]){'\\', names[named - characters]}, 2);
        } else {
            const size_t length = hs__utf8_length(text, left);
            n = length ? length : 1;
            to_sink(to, escape,
                    (size_t)snprintf(escape, sizeof escape, "\\u%04x", length ? number_of(text, length) : 0xfffdU));
        }
    }
    to_sink(to, "\"", 1);
}
