/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/packed.h"

#include "base/crc32c.h"

#include "support/test.h"

static void put_little_endian(hs__buffer *out, size_t value, size_t bytes)
{
    for (; bytes; bytes--, value >>= 8)
        hs__buffer_append(out, &(unsigned char){(unsigned char)value}, 1);
}

static void put_literal(hs__buffer *out, const unsigned char *from, size_t length)
{
    size_t bytes = 0, most = length - 1;
    if (!length)
        return;
    while (most >= 60 && bytes < 4 && most >> 8 * bytes)
        bytes++;
    put_little_endian(out, bytes ? (59 + bytes) << 2 : most << 2, 1);
    put_little_endian(out, most, bytes);
    hs__buffer_append(out, from, length);
}

/* `length` is 4 to 64. */
static void put_copy(hs__buffer *out, size_t offset, size_t length)
{
    if (offset < 2048 && length < 12) {
        put_little_endian(out, 1 | (length - 4) << 2 | (offset >> 8) << 5, 1);
        put_little_endian(out, offset, 1);
    } else {
        put_little_endian(out, (offset < 65536 ? 2 : 3) | (length - 1) << 2, 1);
        put_little_endian(out, offset, offset < 65536 ? 2 : 4);
    }
}

void pack(const void *data, size_t bytes, hs__buffer *out)
{
    enum { SLOTS = 4096 };
    const unsigned char *from = data;
    size_t last[SLOTS] = {0}, literal = 0, at = 0; /* 1 + the place where four bytes were last */
    hs__buffer_varint(out, bytes);
    while (at + 4 <= bytes) {
        size_t *slot = &last[hs__get32(from + at) * 2654435761u >> 20], earlier = *slot, length = 0;
        *slot = at + 1;
        while (earlier && length < 64 && at + length < bytes && from[earlier - 1 + length] == from[at + length])
            length++;
        if (length < 4) {
            at++;
            continue;
        }
        put_literal(out, from + literal, at - literal);
        put_copy(out, at + 1 - earlier, length);
        literal = at += length;
    }
    put_literal(out, from + literal, bytes - literal);
}

typedef struct {
    uint64_t offset, size;
} handle;

static handle get_handle(const unsigned char **at)
{
    handle h;
    assert_true(hs__get_varint(at, *at + 20, &h.offset) && hs__get_varint(at, *at + 20, &h.size));
    return h;
}

static void put_handle(hs__buffer *out, handle h)
{
    hs__buffer_varint(out, h.offset);
    hs__buffer_varint(out, h.size);
}

static handle pack_block(const void *block, size_t bytes, hs__buffer *out)
{
    handle h = {out->size, 0};
    pack(block, bytes, out);
    h.size = out->size - h.offset;
    hs__buffer_append(out, "\1", 1);
    hs__buffer_fixed32(out, hs__crc32c_mask(hs__crc32c(0, out->data + h.offset, (size_t)h.size + 1)));
    return h;
}

void pack_table(hs_bytes table, hs__buffer *out)
{
    enum { FOOTER = 48, HANDLES = 40 };
    const unsigned char *data = table.data, *footer = data + table.size - FOOTER, *at = footer;
    handle meta = get_handle(&at), index = get_handle(&at);
    hs__buffer blocks, restarts, handles;
    hs__buffer_init(&blocks, out->env);
    hs__buffer_init(&restarts, out->env);
    hs__buffer_init(&handles, out->env);
    const unsigned char *end = data + index.offset + index.size - 4;
    end -= 4 * hs__get32(end);
    for (at = data + index.offset; at < end;) { /* each entry has its whole key */
        uint64_t shared = 0, key = 0, bytes = 0;
        assert_true(hs__get_varint(&at, end, &shared) && hs__get_varint(&at, end, &key) &&
                    hs__get_varint(&at, end, &bytes));
        const unsigned char *value = at + key;
        handle h = get_handle(&value);
        hs__buffer_clear(&handles);
        put_handle(&handles, pack_block(data + h.offset, (size_t)h.size, out));
        hs__buffer_fixed32(&restarts, (uint32_t)blocks.size);
        hs__buffer_varint(&blocks, shared);
        hs__buffer_varint(&blocks, key);
        hs__buffer_varint(&blocks, handles.size);
        hs__buffer_append(&blocks, at, (size_t)key);
        hs__buffer_append(&blocks, handles.data, handles.size);
        at += key + bytes;
    }
    hs__buffer_fixed32(&restarts, (uint32_t)(restarts.size / 4));
    hs__buffer_append(&blocks, restarts.data, restarts.size);
    hs__buffer_clear(&handles);
    put_handle(&handles, pack_block(data + meta.offset, (size_t)meta.size, out));
    put_handle(&handles, pack_block(blocks.data, blocks.size, out));
    hs__buffer_append(out, handles.data, handles.size);
    for (size_t i = handles.size; i < HANDLES; i++)
        hs__buffer_append(out, "", 1);
    hs__buffer_append(out, footer + HANDLES, FOOTER - HANDLES);
    hs__buffer_free(&blocks);
    hs__buffer_free(&restarts);
    hs__buffer_free(&handles);
}

void pack_index(const char *path)
{
    hs_env env;
    hs__buffer packed;
    assert_int_equal(hs__env_copy(&env, NULL, NULL), HS_OK);
    hs__buffer_init(&packed, &env);
    size_t bytes;
    char *table = test_read_file(path, &bytes);
    pack_table((hs_bytes){table, bytes}, &packed);
    test_write_file(path, packed.data, packed.size);
    hs__buffer_free(&packed);
    free(table);
}
