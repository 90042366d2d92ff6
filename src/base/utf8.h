/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_UTF8_H
#define HS_BASE_UTF8_H

#include <stddef.h>

/* The length of a character by its first two bytes. 0: not UTF-8. */
static inline size_t hs__utf8_sequence(unsigned char first, unsigned char second)
{
    if (first < 0x80)
        return 1;
    if (first >= 0xc2 && first <= 0xdf)
        return 2;
    if (first >= 0xe0 && first <= 0xef) /* no overlong form, no surrogate */
        return (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) ? 0 : 3;
    if (first >= 0xf0 && first <= 0xf4)
        return (first == 0xf0 && second < 0x90) || (first == 0xf4 && second > 0x8f) ? 0 : 4;
    return 0;
}

/* The length of the first UTF-8 character of `text`, which has at least one byte. 0: it is not UTF-8. */
static inline size_t hs__utf8_length(const char *text, size_t bytes)
{
    const unsigned char *at = (const unsigned char *)text;
    size_t n = hs__utf8_sequence(at[0], bytes > 1 ? at[1] : 0);
    if (n > bytes)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    return n;
}

#endif
