/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_number.h"

#include "base/c_locale.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *skip_blanks(const char *at)
{
    return at + strspn(at, " \t\r\n");
}

/* Returns the end of one or more digits. NULL: there are none. */
static const char *skip_digits(const char *at)
{
    size_t n = strspn(at, "0123456789");
    return n ? at + n : NULL;
}

/* Returns the end of a number in JSON's form, or NULL. strtod alone accepts more. */
static const char *skip_number(const char *at)
{
    at += *at == '-';
    at = *at == '0' ? at + 1 : skip_digits(at);
    if (!at || skip_digits(at)) /* no digit follows a leading zero */
        return NULL;
    if (*at == '.' && !(at = skip_digits(at + 1)))
        return NULL;
    if (*at != 'e' && *at != 'E')
        return at;
    at++;
    return skip_digits(at + (*at == '-' || *at == '+'));
}

/* Parses a number that blanks may follow. Returns what follows them. NULL: not a finite number. */
static const char *parse(const char *at, double *number)
{
    const char *end = skip_number(at = skip_blanks(at));
    if (!end)
        return NULL;
    hs__c_locale locale = hs__c_locale_begin();
    double value = strtod(at, NULL);
    hs__c_locale_end(locale);
    if (!isfinite(value))
        return NULL;
    *number = value;
    return skip_blanks(end);
}

bool hs__json_number(const char *text, double *number)
{
    double value;
    const char *end = parse(text, &value);
    if (!end || *end)
        return false;
    *number = value;
    return true;
}

/* Returns the end of a string that begins at `at`. */
static const char *skip_string(const char *at)
{
    for (at++; *at && *at != '"'; at++)
        at += *at == '\\' && at[1];
    return at + (*at == '"');
}

bool hs__json_member_number(const char *text, const char *key, double *number)
{
    const size_t length = strlen(key);
    int depth = 0;
    while (*text) {
        char c = *text;
        if (c != '"') {
            depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
            text++;
            continue;
        }
        const char *string = text + 1, *end = skip_string(text);
        text = skip_blanks(end);
        if (depth != 1 || *text != ':' || (size_t)(end - string) != length + 1 || memcmp(string, key, length) != 0)
            continue;
        double value;
        const char *rest = parse(text + 1, &value);
        if (!rest || (*rest != ',' && *rest != '}'))
            return false;
        *number = value;
        return true;
    }
    return false;
}
