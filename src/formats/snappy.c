/* SPDX-License-Identifier: Apache-2.0 */
/* Snappy data is its size, then elements: literal bytes, or copies of bytes that were unpacked before. */
#include "formats/snappy.h"

#include <string.h>

typedef struct {
    size_t length, offset; /* offset 0: a literal */
} element;

/* Reads an element up to the bytes of a literal. */
static bool get_element(const unsigned char **at, const unsigned char *end, element *out)
{
    const unsigned char tag = *(*at)++, type = tag & 3;
    unsigned char number[4] = {0};
    size_t upper = tag >> 2, bytes = type == 3 ? 4 : type;
    if (type == 0 && upper >= 60)
        bytes = upper - 59;
    if (bytes > (size_t)(end - *at))
        return false;
    memcpy(number, *at, bytes);
    *at += bytes;
    size_t value = hs__get32(number);
    if (type == 0)
        *out = (element){(bytes ? value : upper) + 1, 0};
    else if (type == 1)
        *out = (element){(upper & 7) + 4, value | (size_t)(tag >> 5) << 8};
    else
        *out = (element){upper + 1, value};
    return type == 0 || out->offset != 0;
}

/* Moves *at behind the claimed size. */
static bool get_size(const unsigned char **at, hs_bytes packed, size_t *bytes)
{
    enum { MOST_PER_BYTE = 22 }; /* three bytes make a copy of 64 */
    uint64_t claimed;
    *at = packed.data;
    if (!hs__get_varint(at, *at + packed.size, &claimed) || claimed / MOST_PER_BYTE > packed.size)
        return false;
    *bytes = (size_t)claimed;
    return true;
}

bool hs__snappy_size(hs_bytes packed, size_t *bytes)
{
    const unsigned char *at;
    return get_size(&at, packed, bytes);
}

bool hs__snappy_unpack(hs_bytes packed, void *contents, size_t bytes)
{
    const unsigned char *at, *end = (const unsigned char *)packed.data + packed.size;
    unsigned char *to = contents;
    size_t claimed, done = 0;
    if (!get_size(&at, packed, &claimed) || claimed != bytes)
        return false;
    while (at < end) {
        element next;
        if (!get_element(&at, end, &next) || next.length > bytes - done || next.offset > done ||
            (!next.offset && next.length > (size_t)(end - at)))
            return false;
        if (!next.offset) {
            memcpy(to + done, at, next.length);
            at += next.length;
        } else {
            for (size_t i = done; i < done + next.length; i++) /* one by one: the copy may overlap itself */
                to[i] = to[i - next.offset];
        }
        done += next.length;
    }
    return done == bytes;
}
