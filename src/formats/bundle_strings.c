/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/bundle_strings.h"

#include "base/crc32c.h"
#include "formats/bundle_inside.h"

#include <string.h>

static void put_number(unsigned char *to, uint64_t value, size_t bytes, bool big_endian)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = (unsigned char)(value >> 8 * (big_endian ? bytes - 1 - i : i));
}

static uint32_t length_crc(uint32_t crc, uint64_t length, bool big_endian)
{
    unsigned char number[8];
    size_t bytes = length <= UINT32_MAX ? 4 : 8;
    put_number(number, length, bytes, big_endian);
    return hs__crc32c(crc, number, bytes);
}

/* Writes the checksum `crc` as it is stored. */
static void put_crc(unsigned char to[4], uint32_t crc, bool big_endian)
{
    put_number(to, hs__crc32c_mask(crc), 4, big_endian);
}

uint32_t hs__bundle_put_lengths(hs__buffer *out, const hs_string *strings, size_t n, bool big_endian)
{
    uint32_t crc = 0;
    for (size_t i = 0; i < n; i++) {
        hs__buffer_varint(out, strings[i].bytes);
        crc = length_crc(crc, strings[i].bytes, big_endian);
    }
    unsigned char stored[4];
    put_crc(stored, crc, big_endian);
    hs__buffer_append(out, stored, sizeof stored);
    return hs__crc32c(crc, stored, sizeof stored);
}

/* Moves *at to the elements' bytes, and continues the checksum. */
static hs_code parse_lengths(const hs__bundle_reader *reader, const hs__bundle_entry *entry, const unsigned char **at,
                             const unsigned char *end, hs_string *strings, uint32_t *crc, hs_error *err)
{
    size_t n = (size_t)hs_shape_elements(&entry->shape);
    uint64_t total = 0, length;
    for (size_t i = 0; i < n; i++) {
        if (!hs__get_varint(at, end, &length) || length > entry->bytes - total)
            return hs_error_set(err, HS_DATA_LOSS, "%s: the lengths of '%s' cannot be read", reader->file_path,
                                entry->name);
        *crc = length_crc(*crc, length, reader->big_endian);
        strings[i].bytes = (size_t)length;
        total += length;
    }
    unsigned char expected[4];
    put_crc(expected, *crc, reader->big_endian);
    if (end - *at < 4 || memcmp(*at, expected, sizeof expected) != 0)
        return hs_error_set(err, HS_DATA_LOSS, "%s: checksum mismatch of the lengths of '%s'", reader->file_path,
                            entry->name);
    *crc = hs__crc32c(*crc, *at, 4);
    *at += 4;
    if (total != (uint64_t)(end - *at))
        return hs_error_set(err, HS_DATA_LOSS, "%s: '%s' has %llu bytes, where its lengths need %llu", reader->file_path,
                            entry->name, (unsigned long long)(end - *at), (unsigned long long)total);
    return HS_OK;
}

hs_code hs__bundle_parse_strings(const hs__bundle_reader *reader, const hs__bundle_entry *entry, const unsigned char *raw,
                                 hs_string *strings, hs_error *err)
{
    const unsigned char *at = raw, *end = raw + entry->bytes;
    size_t n = (size_t)hs_shape_elements(&entry->shape);
    uint32_t crc = 0;
    hs_code code = parse_lengths(reader, entry, &at, end, strings, &crc, err);
    if (code)
        return code;
    crc = hs__crc32c(crc, at, (size_t)(end - at));
    if (crc != hs__crc32c_unmask(entry->crc))
        return hs__bundle_wrong_checksum(reader, entry, crc, err);
    for (size_t i = 0; i < n; i++) {
        strings[i].data = (const char *)at;
        at += strings[i].bytes;
    }
    return HS_OK;
}
