/* SPDX-License-Identifier: Apache-2.0 */
/* hs__json_check scans a whole text. All other functions rely on a checked text, and find values in it without memory. */
#include "base/json_reader.h"

#include "base/c_locale.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Checking. */

typedef struct {
    const char *at, *end;
    const char *wrong; /* NULL: nothing */
} scanner;

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The next character after blanks. '\0': the end, or a zero byte, which is allowed nowhere. */
static char peek(scanner *s)
{
    while (s->at < s->end && is_blank(*s->at))
        s->at++;
    return s->at < s->end ? *s->at : '\0';
}

static bool fail(scanner *s, const char *wrong)
{
    s->wrong = s->at == s->end ? "the text ends too early" : wrong;
    return false;
}

/* The value of four hexadecimal digits. -1: they are not. */
static int hex4(const char *at, const char *end)
{
    int value = 0;
    if (end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        int digit = is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

static bool is_high_surrogate(int unit)
{
    return unit >= 0xd800 && unit < 0xdc00;
}

static bool is_low_surrogate(int unit)
{
    return unit >= 0xdc00 && unit < 0xe000;
}

/* At the character after a backslash. */
static bool scan_escape(scanner *s)
{
    char c = s->at < s->end ? *s->at : '\0';
    if (c && strchr("\"\\/bfnrt", c)) {
        s->at++;
        return true;
    }
    if (c != 'u')
        return fail(s, "invalid escape");
    int unit = hex4(s->at + 1, s->end);
    if (unit <= 0)
        return fail(s, unit < 0 ? "invalid escape" : "\\u0000 in a string, which is not supported");
    s->at += 5;
    if (is_high_surrogate(unit) && s->end - s->at >= 6 && s->at[0] == '\\' && s->at[1] == 'u' &&
        is_low_surrogate(hex4(s->at + 2, s->end)))
        s->at += 6;
    else if (is_high_surrogate(unit) || is_low_surrogate(unit))
        return fail(s, "half of a surrogate pair");
    return true;
}

static bool scan_string(scanner *s)
{
    for (s->at++; s->at < s->end;) {
        unsigned char c = (unsigned char)*s->at;
        if (c == '"') {
            s->at++;
            return true;
        }
        if (c < ' ')
            return fail(s, "a control character in a string");
        if (c == '\\') {
            s->at++;
            if (!scan_escape(s))
                return false;
            continue;
        }
        size_t n = c < 0x80 ? 1 : hs__utf8_length(s->at, (size_t)(s->end - s->at));
        if (!n)
            return fail(s, "a string is not UTF-8");
        s->at += n;
    }
    return fail(s, NULL);
}

static bool scan_digits(scanner *s)
{
    const char *first = s->at;
    while (s->at < s->end && is_digit(*s->at))
        s->at++;
    return s->at > first || fail(s, "invalid number");
}

static bool skip_one(scanner *s, const char *of)
{
    bool found = s->at < s->end && *s->at && strchr(of, *s->at);
    s->at += found;
    return found;
}

static bool scan_number(scanner *s)
{
    skip_one(s, "-");
    if (!skip_one(s, "0") && !scan_digits(s))
        return false;
    if (skip_one(s, ".") && !scan_digits(s))
        return false;
    if (!skip_one(s, "eE"))
        return true;
    skip_one(s, "+-");
    return scan_digits(s);
}

/* A value that is not an object or array. */
static bool scan_scalar(scanner *s)
{
    static const char *const words[] = {"true", "false", "null"};
    char c = s->at < s->end ? *s->at : '\0';
    if (c == '"')
        return scan_string(s);
    if (c == '-' || is_digit(c))
        return scan_number(s);
    for (int i = 0; i < 3; i++) {
        size_t n = strlen(words[i]);
        if ((size_t)(s->end - s->at) >= n && memcmp(s->at, words[i], n) == 0) {
            s->at += n;
            return true;
        }
    }
    return fail(s, "expected a value");
}

static char closing(char opening)
{
    return opening == '{' ? '}' : ']';
}

static bool scan_name(scanner *s)
{
    if (peek(s) != '"')
        return fail(s, "expected the name of a member");
    if (!scan_string(s))
        return false;
    if (peek(s) != ':')
        return fail(s, "expected ':'");
    s->at++;
    return true;
}

/* Scans a value without recursion. `open` holds the brackets that are open. */
static bool scan_value(scanner *s)
{
    char open[HS__JSON_DEPTH];
    size_t depth = 0;
    for (bool is_member = false;; is_member = open[depth - 1] == '{') {
        if (is_member && !scan_name(s))
            return false;
        char c = peek(s);
        if (c == '{' || c == '[') {
            if (depth == HS__JSON_DEPTH)
                return fail(s, "nested too deep");
            open[depth++] = c;
            s->at++;
            if (peek(s) != closing(c))
                continue;
        } else if (!scan_scalar(s)) {
            return false;
        }
        while (depth && peek(s) == closing(open[depth - 1])) {
            s->at++;
            depth--;
        }
        if (!depth)
            return true;
        if (peek(s) != ',')
            return fail(s, open[depth - 1] == '{' ? "expected ',' or '}'" : "expected ',' or ']'");
        s->at++;
    }
}

bool hs__json_check(const char *text, size_t bytes, hs__json_value *root, hs__json_fault *fault)
{
    scanner s = {.at = text, .end = text + bytes};
    peek(&s);
    const char *first = s.at;
    if (scan_value(&s)) {
        *root = (hs__json_value){first, (size_t)(s.at - first)};
        peek(&s);
        if (s.at == s.end)
            return true;
        fail(&s, "more text after the end");
    }
    *fault = (hs__json_fault){s.wrong, (size_t)(s.at - text)};
    return false;
}

/* Finding values in a checked text. */

/* Returns what follows a string. */
static const char *skip_string(const char *at)
{
    for (at++; *at != '"'; at++)
        at += *at == '\\';
    return at + 1;
}

/* Returns what follows a value inside an object or array. */
static const char *skip_value(const char *at)
{
    size_t depth = 0;
    do {
        if (*at == '"') {
            at = skip_string(at);
            continue;
        }
        depth += *at == '{' || *at == '[';
        depth -= *at == '}' || *at == ']';
        at++;
    } while (depth || !(is_blank(*at) || *at == ',' || *at == '}' || *at == ']'));
    return at;
}

static const char *skip_separators(const char *at)
{
    while (is_blank(*at) || *at == ',' || *at == ':')
        at++;
    return at;
}

bool hs__json_next(hs__json_value of, hs__json_item *item)
{
    if (!hs__json_is(of, '{') && !hs__json_is(of, '['))
        return false;
    const char *at = skip_separators(item->value.text ? item->value.text + item->value.bytes : of.text + 1);
    if (*at == closing(*of.text))
        return false;
    if (*of.text == '{') {
        item->name = (hs__json_value){at, (size_t)(skip_string(at) - at)};
        at = skip_separators(at + item->name.bytes);
    }
    item->value = (hs__json_value){at, (size_t)(skip_value(at) - at)};
    return true;
}

hs__json_value hs__json_member(hs__json_value object, const char *name)
{
    hs__json_item item = {.name = {NULL, 0}};
    while (hs__json_is(object, '{') && hs__json_next(object, &item))
        if (hs__json_equals(item.name, name))
            return item.value;
    return (hs__json_value){NULL, 0};
}

/* Strings. */

static size_t put_utf8(char *to, unsigned c)
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; c >>= 6)
        to[i] = (char)(0x80 | (c & 0x3f));
    to[0] = (char)((0xf00 >> n & 0xff) | c);
    return n;
}

/* Reads the next character of a string, or a byte of it, to `to`. Returns its length; 0: the end. */
static size_t next_char(const char **at, char to[4])
{
    static const char escapes[] = "bfnrt", meant[] = "\b\f\n\r\t";
    const char *from = *at;
    if (*from == '"')
        return 0;
    to[0] = *from;
    *at += 1;
    if (*from != '\\')
        return 1;
    *at += 1;
    const char *escape = strchr(escapes, from[1]);
    to[0] = escape ? meant[escape - escapes] : from[1];
    if (from[1] != 'u')
        return 1;
    *at += 4;
    int unit = hex4(from + 2, from + 6);
    if (!is_high_surrogate(unit))
        return put_utf8(to, (unsigned)unit);
    *at += 6;
    return put_utf8(to, 0x10000 + ((unsigned)(unit - 0xd800) << 10) + (unsigned)(hex4(from + 8, from + 12) - 0xdc00));
}

bool hs__json_equals(hs__json_value value, const char *text)
{
    char c[4];
    if (!hs__json_is(value, '"'))
        return false;
    const char *at = value.text + 1;
    for (size_t n; (n = next_char(&at, c)); text += n)
        if (strncmp(text, c, n) != 0)
            return false;
    return !*text;
}

size_t hs__json_copy(hs__json_value value, char *to)
{
    size_t length = 0;
    if (hs__json_is(value, '"')) {
        const char *at = value.text + 1;
        for (size_t n; (n = next_char(&at, to + length));)
            length += n;
    }
    to[length] = '\0';
    return length;
}

/* Numbers. */

static bool is_number(hs__json_value value)
{
    return value.text && (*value.text == '-' || is_digit(*value.text));
}

bool hs__json_uint64(hs__json_value value, uint64_t *number)
{
    uint64_t found = 0;
    if (!is_number(value))
        return false;
    for (size_t i = 0; i < value.bytes; i++)
        if (!is_digit(value.text[i]) || __builtin_mul_overflow(found, (uint64_t)10, &found) ||
            __builtin_add_overflow(found, (uint64_t)(value.text[i] - '0'), &found))
            return false;
    *number = found;
    return true;
}

bool hs__json_int64(hs__json_value value, int64_t *number)
{
    bool negative = hs__json_is(value, '-');
    uint64_t found;
    if (negative)
        value = (hs__json_value){value.text + 1, value.bytes - 1};
    if (!hs__json_uint64(value, &found) || found > (uint64_t)INT64_MAX + negative)
        return false;
    *number = negative ? (int64_t)-found : (int64_t)found;
    return true;
}

bool hs__json_number(hs__json_value value, double *number)
{
    enum { MOST = 300 };
    char text[MOST + 1];
    if (!is_number(value) || value.bytes > MOST)
        return false;
    memcpy(text, value.text, value.bytes);
    text[value.bytes] = '\0';
    hs__c_locale locale = hs__c_locale_begin();
    double found = strtod(text, NULL);
    hs__c_locale_end(locale);
    if (!isfinite(found))
        return false;
    *number = found;
    return true;
}
