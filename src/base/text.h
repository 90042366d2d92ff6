/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_TEXT_H
#define HS_BASE_TEXT_H

#include <hooksess/status.h>

#include <stdint.h>

/* Text from outside the library: names and messages may contain any bytes. */

/* The length of the first UTF-8 character of `text`, which has at least one byte. 0: it is not UTF-8. */
static inline size_t hs__utf8_length(const char *text, size_t bytes)
{
    const unsigned char *at = (const unsigned char *)text, first = at[0], second = bytes > 1 ? at[1] : 0;
    size_t n = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if ((first >= 0x80 && first < 0xc2) || first > 0xf4 || n > bytes || /* an overlong form, a surrogate, or too large */
        (first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) || (first == 0xf0 && second < 0x90) ||
        (first == 0xf4 && second > 0x8f))
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    return n;
}

bool hs__is_utf8(const char *text, size_t bytes);

/* True if a UTF-8 character of `length` bytes is U+0000 to U+001F, U+007F to U+009F, or a separator of lines or paragraphs,
 * U+2028 and U+2029. */
bool hs__is_control(const char *text, size_t length);

/* Copies text as one line without control characters. Control characters and bytes that are not UTF-8 become \xNN. The line
 * ends in "..." if it does not fit in `room` bytes or if `is_cut` (the text is truncated already). Returns the length of
 * the whole line. `to` does not overlap `text`, and `room` is at least 4. */
size_t hs__one_line(char *to, size_t room, const char *text, bool is_cut);

/* Appends to the terminated text in `to`, an array of `size` bytes. The locale does not matter. */

/* Cuts off what does not fit, at the end of a UTF-8 character. */
void hs__append(char *to, size_t size, const char *format, ...) HS_PRINTF(3, 4);
/* Appends an item and, if it is not the first, ", " before it. A list that would not fit ends in ", ..." instead of the
 * item and all later ones. */
void hs__append_item(char *to, size_t size, const char *format, ...) HS_PRINTF(3, 4);

/* Numbers for log lines, in `to`, which is returned: "0.18 s", "12.3 s", "1234 s"; "512 bytes", "1.2 MiB"; a rate
 * per second "0.25", "85.3", "124000". */
enum { HS__NUMBER_TEXT = 32 };
const char *hs__secs_text(char to[HS__NUMBER_TEXT], double secs);
const char *hs__bytes_text(char to[HS__NUMBER_TEXT], uint64_t bytes);
const char *hs__rate_text(char to[HS__NUMBER_TEXT], double rate);
/* The fewest digits that read back as the same finite number; `single`: as the same float. */
const char *hs__real_text(char to[HS__NUMBER_TEXT], double value, bool single);

#endif
