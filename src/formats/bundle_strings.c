/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/bundle_strings.h"

#include "base/crc32c.h"
#include "formats/bundle_data.h"

#include <string.h>

static void put_number(unsigned char *to, uint64_t value, size_t bytes, bool big_endian)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = (unsigned char)(value >> 8 * (big_endian ? bytes - 1 - i : i));
}

/* The checksum of lengths. It is updated with many lengths in one call. */
typedef struct {
    unsigned char pending[512];
    size_t n; /* bytes of `pending` */
    uint32_t crc;
} length_crc;

static uint32_t crc_of(length_crc *of)
{
    of->crc = hs__crc32c(of->crc, of->pending, of->n);
    of->n = 0;
    return of->crc;
}

static void add_length(length_crc *to, uint64_t length, bool big_endian)
{
    size_t bytes = length <= UINT32_MAX ? 4 : 8;
    if (to->n + bytes > sizeof to->pending)
        crc_of(to);
    put_number(to->pending + to->n, length, bytes, big_endian);
    to->n += bytes;
}

/* Writes the stored form of the checksum `crc`. */
static void put_crc(unsigned char to[4], uint32_t crc, bool big_endian)
{
    put_number(to, hs__crc32c_mask(crc), 4, big_endian);
}

uint32_t hs__bundle_put_lengths(hs__buffer *out, const hs_string *strings, size_t n, bool big_endian)
{
    length_crc lengths = {.n = 0};
    for (size_t i = 0; i < n; i++) {
        hs__buffer_varint(out, strings[i].bytes);
        add_length(&lengths, strings[i].bytes, big_endian);
    }
    unsigned char stored[4];
    uint32_t crc = crc_of(&lengths);
    put_crc(stored, crc, big_endian);
    hs__buffer_append(out, stored, sizeof stored);
    return hs__crc32c(crc, stored, sizeof stored);
}

/* Position in the data of an entry. */
typedef struct {
    const unsigned char *at, *end; /* read but not parsed */
    unsigned char *piece;          /* buffer of HS__BUNDLE_PIECE bytes for the next read */
    uint64_t remaining;            /* bytes to read */
} cursor;

/* Reads more, unless the next length or checksum is in memory. */
static hs_code read_more(hs__bundle_reader *reader, const hs__bundle_entry *entry, cursor *c, hs_error *err)
{
    enum { LONGEST = 10 };
    size_t kept = (size_t)(c->end - c->at);
    if (kept >= LONGEST || !c->remaining)
        return HS_OK;
    size_t room = HS__BUNDLE_PIECE - kept, n = c->remaining < room ? (size_t)c->remaining : room;
    memmove(c->piece, c->at, kept);
    c->at = c->piece;
    c->end = c->piece + kept + n;
    hs_code code = hs__file_read(&reader->file, entry->offset + (entry->bytes - c->remaining), c->piece + kept, n,
                                 reader->file_path, err);
    c->remaining -= n;
    return code;
}

/* Reads and verifies the lengths. The cursor is then at the elements' bytes, and *crc is the checksum up to them. */
static hs_code parse_lengths(hs__bundle_reader *reader, const hs__bundle_entry *entry, cursor *c, hs_string *strings,
                             uint32_t *crc, hs_error *err)
{
    size_t n = (size_t)hs_shape_elements(&entry->shape);
    uint64_t total = 0, length;
    length_crc lengths = {.n = 0};
    hs_code code;
    for (size_t i = 0; i < n; i++) {
        if ((code = read_more(reader, entry, c, err)))
            return code;
        if (!hs__get_varint(&c->at, c->end, &length) || length > entry->bytes - total)
            return hs_error_set(err, HS_DATA_LOSS, "%s: cannot read the lengths of '%s'", reader->file_path, entry->name);
        add_length(&lengths, length, reader->big_endian);
        if (strings)
            strings[i].bytes = (size_t)length;
        total += length;
    }
    unsigned char expected[4];
    *crc = crc_of(&lengths);
    put_crc(expected, *crc, reader->big_endian);
    if ((code = read_more(reader, entry, c, err)))
        return code;
    if (c->end - c->at < 4 || memcmp(c->at, expected, sizeof expected) != 0)
        return hs_error_set(err, HS_DATA_LOSS, "%s: checksum mismatch of the lengths of '%s'", reader->file_path,
                            entry->name);
    *crc = hs__crc32c(*crc, c->at, 4);
    c->at += 4;
    uint64_t text = (uint64_t)(c->end - c->at) + c->remaining;
    if (total != text)
        return hs_error_set(err, HS_DATA_LOSS, "%s: '%s' has %llu bytes, but its lengths need %llu", reader->file_path,
                            entry->name, (unsigned long long)text, (unsigned long long)total);
    return HS_OK;
}

static hs_code sum_text(hs__bundle_reader *reader, const hs__bundle_entry *entry, cursor *c, uint32_t *crc, hs_error *err)
{
    hs_code code = HS_OK;
    while (!code && (c->at < c->end || c->remaining)) {
        *crc = hs__crc32c(*crc, c->at, (size_t)(c->end - c->at));
        c->at = c->end;
        code = read_more(reader, entry, c, err);
    }
    return code;
}

static hs_code parse(hs__bundle_reader *reader, const hs__bundle_entry *entry, cursor *c, hs_string *strings, uint32_t *crc,
                     hs_error *err)
{
    hs_code code = parse_lengths(reader, entry, c, strings, crc, err);
    if (code)
        return code;
    const char *text = (const char *)c->at;
    code = sum_text(reader, entry, c, crc, err);
    for (size_t i = 0; !code && strings && i < (size_t)hs_shape_elements(&entry->shape); i++) {
        strings[i].data = text;
        text += strings[i].bytes;
    }
    return code;
}

hs_code hs__bundle_read_strings(hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_string *to, uint32_t *crc,
                                hs_error *err)
{
    unsigned char *raw = (unsigned char *)(to + hs_shape_elements(&entry->shape));
    hs_code code = hs__file_read(&reader->file, entry->offset, raw, (size_t)entry->bytes, reader->file_path, err);
    return code ? code : parse(reader, entry, &(cursor){.at = raw, .end = raw + entry->bytes}, to, crc, err);
}

hs_code hs__bundle_sum_strings(hs__bundle_reader *reader, const hs__bundle_entry *entry, void *piece, uint32_t *crc,
                               hs_error *err)
{
    return parse(reader, entry, &(cursor){piece, piece, piece, entry->bytes}, NULL, crc, err);
}
