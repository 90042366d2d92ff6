/* SPDX-License-Identifier: Apache-2.0 */
/* Text that may contain any bytes: UTF-8, one line for a log; and numbers as text, independent of the locale. */
#include "base/text.h"

#include "base/c_locale.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_ascii8(const char *at)
{
    uint64_t bits;
    memcpy(&bits, at, sizeof bits);
    return !(bits & UINT64_C(0x8080808080808080));
}

bool hs__is_utf8(const char *text, size_t bytes)
{
    for (size_t n; bytes; text += n, bytes -= n) {
        n = bytes >= 8 && is_ascii8(text) ? 8 : hs__utf8_length(text, bytes); /* most text is ASCII */
        if (!n)
            return false;
    }
    return true;
}

bool hs__is_control(const char *text, size_t length)
{
    const unsigned char *at = (const unsigned char *)text;
    return at[0] < ' ' || at[0] == 0x7f || (at[0] == 0xc2 && at[1] < 0xa0) ||
           (length == 3 && at[0] == 0xe2 && at[1] == 0x80 && (at[2] & 0xfe) == 0xa8);
}

size_t hs__one_line(char *to, size_t room, const char *text, bool is_cut)
{
    static const char more[] = "...";
    size_t used = 0, end = 0; /* of the line; of the part that leaves room for "..." */
    for (size_t left = strlen(text), n; left; text += n, left -= n) {
        char escaped[8];
        const char *shown = text;
        size_t length = n = hs__utf8_length(text, left);
        if (!n || hs__is_control(text, n)) {
            n = 1;
            length = (size_t)snprintf(escaped, sizeof escaped, "\\x%02x", (unsigned char)*text);
            shown = escaped;
        }
        if (used + length < room)
            memcpy(to + used, shown, length);
        used += length;
        if (used + sizeof more <= room)
            end = used;
    }
    if (is_cut || used >= room)
        memcpy(to + end, more, sizeof more);
    else
        to[used] = '\0';
    return used;
}

void hs__append(char *to, size_t size, const char *format, ...)
{
    const size_t used = strnlen(to, size);
    if (used == size)
        return;
    va_list arguments;
    va_start(arguments, format);
    const int length = hs__vsnprintf(to + used, size - used, format, arguments);
    va_end(arguments);
    if (length < 0)
        to[used] = '\0';
    if (length < 0 || (size_t)length < size - used)
        return;
    size_t last = size - 1; /* behind the first byte of the last character */
    while (last > used && ((unsigned char)to[last - 1] & 0xc0) == 0x80)
        last--;
    if (last > used && !hs__utf8_length(to + last - 1, size - last))
        to[last - 1] = '\0';
}

void hs__append_item(char *to, size_t size, const char *format, ...)
{
    static const char more[] = ", ...";
    enum { COMMA = 2, MORE = sizeof more - 1 };
    const size_t used = strlen(to), begin = used ? used + COMMA : 0, room = size > begin + MORE ? size - begin - MORE : 0;
    if (strcmp(to, more + COMMA) == 0 || (used >= MORE && strcmp(to + used - MORE, more) == 0))
        return;
    va_list arguments;
    va_start(arguments, format);
    memcpy(to + used, more, begin - used);
    const int length = hs__vsnprintf(to + begin, room, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= room)
        memcpy(to + begin, more + COMMA, sizeof more - COMMA);
}

const char *hs__secs_text(char to[HS__NUMBER_TEXT], double secs)
{
    int decimals = secs >= 100 ? 0 : secs >= 10 ? 1 : secs >= 0.1 ? 2 : 3;
    hs__snprintf(to, HS__NUMBER_TEXT, secs < 1e9 ? "%.*f s" : "%.*g s", decimals, secs);
    return to;
}

const char *hs__bytes_text(char to[HS__NUMBER_TEXT], uint64_t bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double number = (double)bytes;
    size_t unit = 0;
    for (; number >= 1024 && unit + 1 < sizeof units / sizeof *units; unit++)
        number /= 1024;
    hs__snprintf(to, HS__NUMBER_TEXT, "%.*f %s", unit ? 1 : 0, number, bytes == 1 ? "byte" : units[unit]);
    return to;
}

const char *hs__rate_text(char to[HS__NUMBER_TEXT], double rate)
{
    hs__snprintf(to, HS__NUMBER_TEXT, rate >= 1000 && rate < 1e15 ? "%.0f" : "%.4g", rate);
    return to;
}

const char *hs__real_text(char to[HS__NUMBER_TEXT], double value, bool single)
{
    bool same = false;
    hs__c_locale locale = hs__c_locale_begin();
    for (int digits = single ? 6 : 15; !same && digits <= 17; digits++) {
        snprintf(to, HS__NUMBER_TEXT, "%.*g", digits, value);
        same = single ? strtof(to, NULL) == (float)value : strtod(to, NULL) == value;
    }
    hs__c_locale_end(locale);
    return to;
}
