/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the data of one entry, from the bottom up: the stored form of strings, the checks of an entry, the open data
 * file, and last the functions that read or verify a whole entry. */
#include "formats/bundle_data.h"

#include "base/crc32c.h"

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

uint32_t hs__bundle_put_lengths(hs__buffer *out, const hs_string *strings, size_t n, bool big_endian)
{
    length_crc lengths = {.n = 0};
    for (size_t i = 0; i < n; i++) {
        hs__buffer_varint(out, strings[i].bytes);
        add_length(&lengths, strings[i].bytes, big_endian);
    }
    unsigned char stored[4];
    uint32_t crc = crc_of(&lengths);
    put_number(stored, hs__crc32c_mask(crc), sizeof stored, big_endian);
    hs__buffer_append(out, stored, sizeof stored);
    return hs__crc32c(crc, stored, sizeof stored);
}

/* Position in the data of an entry. */
typedef struct {
    const unsigned char *at, *end; /* read but not parsed */
    unsigned char *piece;          /* buffer of HS__BUNDLE_PIECE bytes for the next read */
    uint64_t remaining;            /* bytes to read */
    hs__bundle_piece_fn on_piece;  /* called with each piece that is read; may be NULL */
    void *user;
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
    uint64_t done = entry->bytes - c->remaining;
    hs_code code = hs__file_read(&reader->file, entry->offset + done, c->piece + kept, n, reader->file_path, err);
    c->remaining -= n;
    return code || !c->on_piece ? code : c->on_piece(c->user, (char *)c->piece + kept, (size_t)done, n, err);
}

/* Reads the data of a string tensor from the cursor and verifies its checksums. `strings` (may be NULL) gets the elements,
 * which point to the data: all of it is then in memory. */
static hs_code read_strings(hs__bundle_reader *reader, const hs__bundle_entry *entry, cursor *c, hs_string *strings,
                            hs_error *err)
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
    uint32_t crc = crc_of(&lengths);
    put_number(expected, hs__crc32c_mask(crc), sizeof expected, reader->big_endian);
    if ((code = read_more(reader, entry, c, err)))
        return code;
    if (c->end - c->at < 4 || memcmp(c->at, expected, sizeof expected) != 0)
        return hs_error_set(err, HS_DATA_LOSS, "%s: checksum mismatch of the lengths of '%s'", reader->file_path,
                            entry->name);
    crc = hs__crc32c(crc, c->at, sizeof expected);
    c->at += sizeof expected;

    uint64_t text_bytes = (uint64_t)(c->end - c->at) + c->remaining;
    if (total != text_bytes)
        return hs_error_set(err, HS_DATA_LOSS, "%s: '%s' has %llu bytes, but its lengths need %llu", reader->file_path,
                            entry->name, (unsigned long long)text_bytes, (unsigned long long)total);
    const char *text = (const char *)c->at;
    for (size_t i = 0; strings && i < n; i++) {
        strings[i].data = text;
        text += strings[i].bytes;
    }
    while (c->at < c->end || c->remaining) {
        crc = hs__crc32c(crc, c->at, (size_t)(c->end - c->at));
        c->at = c->end;
        if ((code = read_more(reader, entry, c, err)))
            return code;
    }
    return hs__bundle_check_crc(reader, entry, crc, err);
}

/* Checking. */

static hs_code unsupported(const hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err)
{
    return hs_error_set(err, HS_UNIMPLEMENTED, "%s: '%s' has a type (%d) or rank that is not supported", reader->prefix,
                        entry->name, (int)entry->dtype);
}

hs_code hs__bundle_check_shape(const hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err)
{
    int64_t n = hs_shape_elements(&entry->shape);
    size_t size = hs__dtype_valid(entry->dtype) ? hs_dtype_size((hs_dtype)entry->dtype) : 1;
    if (entry->shape.rank < 0)
        return unsupported(reader, entry, err);
    if (n < 0 || (uint64_t)n > SIZE_MAX / 2 / size)
        return hs_error_set(err, HS_DATA_LOSS, "%s: '%s' has an invalid shape", reader->prefix, entry->name);
    return HS_OK;
}

hs_code hs__bundle_check(const hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err)
{
    const bool is_string = entry->dtype == HS_STRING;
    if (is_string && entry->slices)
        return hs_error_set(err, HS_UNIMPLEMENTED, "%s: '%s' has strings and is stored in slices, which is not supported",
                            reader->prefix, entry->name);
    if (!hs__dtype_valid(entry->dtype))
        return unsupported(reader, entry, err);
    hs_code code = hs__bundle_check_shape(reader, entry, err);
    if (code || entry->slices)
        return code;
    uint64_t n = (uint64_t)hs_shape_elements(&entry->shape);
    uint64_t least = is_string ? n + 4 : n * hs_dtype_size((hs_dtype)entry->dtype);
    if (entry->bytes < least || (!is_string && entry->bytes != least) || entry->bytes > SIZE_MAX / 2)
        return hs_error_set(err, HS_DATA_LOSS, "%s: '%s' has %llu bytes, but its type and shape need %llu", reader->prefix,
                            entry->name, (unsigned long long)entry->bytes, (unsigned long long)least);
    return HS_OK;
}

/* The data file. */

char *hs__bundle_data_path(const hs_env *env, const char *prefix, int32_t shard, int32_t shards)
{
    return hs__format(env, "%s.data-%05d-of-%05d", prefix, (int)shard, (int)shards);
}

void hs__bundle_reader_close_file(hs__bundle_reader *reader)
{
    hs__file_close(&reader->file, NULL);
    hs__free(reader->env, reader->file_path);
    reader->file_path = NULL;
    reader->file_shard = -1;
}

/* Opens the data file of the entry, and checks that it has all bytes of the entry, before memory for them is allocated. */
static hs_code locate_bytes(hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err)
{
    if (reader->file_shard != entry->shard) {
        hs_file_stat found;
        hs__bundle_reader_close_file(reader);
        reader->file_path = hs__bundle_data_path(reader->env, reader->prefix, entry->shard, reader->shards);
        if (!reader->file_path)
            return hs__no_memory(err, strlen(reader->prefix), "a path");
        hs_code code = hs__file_open(&reader->file, reader->env, reader->file_path, HS_OPEN_READ, err);
        if (code || (code = hs__stat(reader->env, reader->file_path, &found, err)))
            return code;
        reader->file_bytes = found.bytes;
        reader->file_shard = entry->shard;
    }
    if (entry->offset <= reader->file_bytes && entry->bytes <= reader->file_bytes - entry->offset)
        return HS_OK;
    return hs_error_set(err, HS_DATA_LOSS, "%s: has %llu bytes, too few for '%s' (%llu bytes at %llu)", reader->file_path,
                        (unsigned long long)reader->file_bytes, entry->name, (unsigned long long)entry->bytes,
                        (unsigned long long)entry->offset);
}

void hs__bundle_reader_fork(const hs__bundle_reader *reader, hs__bundle_reader *fork)
{
    *fork = *reader;
    fork->file = (hs__file){.env = reader->env};
    fork->file_path = NULL;
    fork->file_shard = -1;
}

hs_code hs__bundle_locate_whole(hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err)
{
    hs_code code = hs__bundle_check(reader, entry, err);
    return code ? code : locate_bytes(reader, entry, err);
}

/* Reading. */

hs_code hs__bundle_check_crc(const hs__bundle_reader *reader, const hs__bundle_entry *entry, uint32_t crc, hs_error *err)
{
    if (crc == hs__crc32c_unmask(entry->crc))
        return HS_OK;
    return hs_error_set(err, HS_DATA_LOSS, "%s: checksum mismatch of '%s': stored %08x, found %08x", reader->file_path,
                        entry->name, (unsigned)hs__crc32c_unmask(entry->crc), (unsigned)crc);
}

hs_code hs__bundle_read_pieces(hs__bundle_reader *reader, const hs__bundle_entry *entry, char *to, bool whole,
                               hs__bundle_piece_fn on_piece, void *user, hs_error *err)
{
    uint32_t crc = 0;
    size_t bytes = (size_t)entry->bytes;
    for (size_t done = 0, n; done < bytes; done += n) {
        char *at = whole ? to + done : to;
        n = bytes - done < HS__BUNDLE_PIECE ? bytes - done : HS__BUNDLE_PIECE;
        hs_code code = hs__file_read(&reader->file, entry->offset + done, at, n, reader->file_path, err);
        if (code)
            return code;
        hs__read_progress_add(reader->progress, n);
        crc = hs__crc32c(crc, at, n);
        if (on_piece && (code = on_piece(user, at, done, n, err)))
            return code;
    }
    return hs__bundle_check_crc(reader, entry, crc, err);
}

/* Strings: `to` gets first the hs_strings, then the stored data that they point to (hs__bundle_read_bytes in all). */
hs_code hs__bundle_read_whole(hs__bundle_reader *reader, const hs__bundle_entry *entry, void *to, hs_error *err)
{
    hs_code code = hs__bundle_locate_whole(reader, entry, err);
    if (code)
        return code;
    if (entry->dtype != HS_STRING)
        return hs__bundle_read_pieces(reader, entry, to, true, NULL, NULL, err);
    hs_string *strings = to;
    unsigned char *data = (unsigned char *)(strings + hs_shape_elements(&entry->shape));
    code = hs__file_read(&reader->file, entry->offset, data, (size_t)entry->bytes, reader->file_path, err);
    return code ? code : read_strings(reader, entry, &(cursor){.at = data, .end = data + entry->bytes}, strings, err);
}

/* TensorFlow's variants, which this library does not read. An element is its length as a varint, its bytes, and their
 * checksum in 4 bytes. The entry's checksum covers the same, but with a length of 8 bytes. */
enum { VARIANT = 21 };

static hs_code verify_variants(hs__bundle_reader *reader, const hs__bundle_entry *entry, cursor *c, hs_error *err)
{
    enum { CHECKSUM = 4 };
    uint32_t crc = 0;
    uint64_t length;
    hs_code code;
    while (c->at < c->end || c->remaining) {
        unsigned char fixed[8];
        if ((code = read_more(reader, entry, c, err)))
            return code;
        if (!hs__get_varint(&c->at, c->end, &length) || length > entry->bytes)
            return hs_error_set(err, HS_DATA_LOSS, "%s: cannot read the lengths of '%s'", reader->file_path, entry->name);
        put_number(fixed, length, sizeof fixed, reader->big_endian);
        crc = hs__crc32c(crc, fixed, sizeof fixed);
        for (uint64_t missing = length + CHECKSUM; missing && (c->at < c->end || c->remaining);) {
            if ((code = read_more(reader, entry, c, err)))
                return code;
            size_t here = (size_t)(c->end - c->at), n = missing < here ? (size_t)missing : here;
            crc = hs__crc32c(crc, c->at, n);
            c->at += n;
            missing -= n;
        }
    }
    return hs__bundle_check_crc(reader, entry, crc, err);
}

/* The checksum of a tensor of unknown dtype or shape covers the bytes of the file, whatever they mean. */
hs_code hs__bundle_verify_whole(hs__bundle_reader *reader, const hs__bundle_entry *entry, hs__bundle_piece_fn on_piece,
                                void *user, hs_error *err)
{
    bool is_unknown = entry->dtype != HS_STRING && (!hs__dtype_valid(entry->dtype) || entry->shape.rank < 0);
    hs_code code = is_unknown ? locate_bytes(reader, entry, err) : hs__bundle_locate_whole(reader, entry, err);
    if (code)
        return code;
    void *scratch = hs__realloc(reader->env, NULL, HS__BUNDLE_PIECE, 1);
    if (!scratch)
        return hs__no_memory(err, HS__BUNDLE_PIECE, "verifying a checkpoint");
    cursor c = {scratch, scratch, scratch, entry->bytes, on_piece, user};
    if (entry->dtype == HS_STRING)
        code = read_strings(reader, entry, &c, NULL, err);
    else if (entry->dtype == VARIANT)
        code = verify_variants(reader, entry, &c, err);
    else
        code = hs__bundle_read_pieces(reader, entry, scratch, false, on_piece, user, err);
    hs__free(reader->env, scratch);
    return code;
}
