/* SPDX-License-Identifier: Apache-2.0 */
/* Tables in LevelDB's format. Writing fills a block of entries, and adds each full block to the index, which is the last
 * block. Reading walks through the index, and through the entries of each block. */
#include "formats/table.h"

#include "base/crc32c.h"
#include "base/files.h"
#include "formats/snappy.h"

#include <string.h>

enum { RESTART_INTERVAL = 16, BLOCK_BYTES = 262144, TRAILER = 5, FOOTER = 48, HANDLES = 40 };

static const uint64_t magic = 0xdb4775248b80fb57u;

/* Writing. */

static void begin_block(hs__buffer *block, hs__buffer *restarts)
{
    hs__buffer_clear(block);
    hs__buffer_clear(restarts);
    hs__buffer_fixed32(restarts, 0);
}

void hs__table_begin(hs__table_writer *table, const hs_env *env, hs__buffer *out)
{
    *table = (hs__table_writer){.out = out};
    hs__buffer *const buffers[] = {&table->block, &table->restarts, &table->key, &table->index, &table->index_restarts};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        hs__buffer_init(buffers[i], env);
    begin_block(&table->block, &table->restarts);
    begin_block(&table->index, &table->index_restarts);
}

static void add_entry(hs__buffer *block, size_t shared, hs_bytes key, hs_bytes value)
{
    hs__buffer_varint(block, shared);
    hs__buffer_varint(block, key.size - shared);
    hs__buffer_varint(block, value.size);
    if (key.size > shared) /* the empty key's data may be NULL */
        hs__buffer_append(block, (const char *)key.data + shared, key.size - shared);
    hs__buffer_append(block, value.data, value.size);
}

typedef struct {
    uint64_t offset, size;
} handle;

/* Completes a block and appends it to the file. */
static handle end_block(hs__buffer *out, hs__buffer *block, const hs__buffer *restarts)
{
    static const unsigned char uncompressed = 0;
    hs__buffer_append(block, restarts->data, restarts->size);
    hs__buffer_fixed32(block, (uint32_t)(restarts->size / 4));
    if (block->failed || restarts->failed)
        out->failed = true;
    handle at = {out->size, block->size};
    uint32_t crc = hs__crc32c(hs__crc32c(0, block->data, block->failed ? 0 : block->size), &uncompressed, 1);
    hs__buffer_append(out, block->data, block->failed ? 0 : block->size);
    hs__buffer_append(out, &uncompressed, 1);
    hs__buffer_fixed32(out, hs__crc32c_mask(crc));
    return at;
}

static size_t put_handle(unsigned char to[20], handle at)
{
    size_t n = hs__put_varint(to, at.offset);
    return n + hs__put_varint(to + n, at.size);
}

/* Ends the data block, and adds it to the index under its last key. */
static void flush_block(hs__table_writer *table)
{
    if (table->n_entries == 0)
        return;
    unsigned char value[20];
    handle at = end_block(table->out, &table->block, &table->restarts);
    if (table->index.size)
        hs__buffer_fixed32(&table->index_restarts, (uint32_t)table->index.size);
    add_entry(&table->index, 0, (hs_bytes){table->key.data, table->key.size}, (hs_bytes){value, put_handle(value, at)});
    begin_block(&table->block, &table->restarts);
    table->n_entries = table->in_block = 0;
}

void hs__table_add(hs__table_writer *table, hs_bytes key, hs_bytes value)
{
    size_t shared = 0;
    if (table->n_entries && table->in_block == RESTART_INTERVAL) {
        hs__buffer_fixed32(&table->restarts, (uint32_t)table->block.size);
        table->in_block = 0;
    } else if (table->n_entries) {
        const unsigned char *bytes = key.data;
        while (shared < table->key.size && shared < key.size && table->key.data[shared] == bytes[shared])
            shared++;
    }
    add_entry(&table->block, shared, key, value);
    hs__buffer_clear(&table->key);
    hs__buffer_append(&table->key, key.data, key.size);
    if (table->key.failed) /* the next key would clear it */
        table->out->failed = true;
    table->in_block++;
    table->n_entries++;
    if (table->block.size + table->restarts.size + 4 >= BLOCK_BYTES)
        flush_block(table);
}

hs_code hs__table_finish(hs__table_writer *table, hs_error *err)
{
    flush_block(table);
    begin_block(&table->block, &table->restarts);
    handle meta = end_block(table->out, &table->block, &table->restarts);
    handle index = end_block(table->out, &table->index, &table->index_restarts);
    unsigned char footer[FOOTER] = {0};
    size_t n = put_handle(footer, meta);
    put_handle(footer + n, index);
    hs__put64(footer + HANDLES, magic);
    hs__buffer_append(table->out, footer, sizeof footer);
    hs__buffer *const buffers[] = {&table->block, &table->restarts, &table->key, &table->index, &table->index_restarts};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        hs__buffer_free(buffers[i]);
    return hs__buffer_check(table->out, "a table", err);
}

/* Reading. */

typedef struct {
    const hs_env *env;
    const unsigned char *data;
    size_t size;
    const char *name;
    hs_error *err;
} source;

static hs_code damaged(const source *from, const char *what, uint64_t offset)
{
    return hs_error_set(from->err, HS_DATA_LOSS, "%s: %s at byte %llu", from->name, what, (unsigned long long)offset);
}

static bool get_handle(const unsigned char **at, const unsigned char *end, handle *out)
{
    return hs__get_varint(at, end, &out->offset) && hs__get_varint(at, end, &out->size);
}

/* A verified block, and the position in it. */
typedef struct {
    uint64_t offset;               /* in the file */
    const unsigned char *at, *end; /* entries that were not read */
    hs__buffer key;                /* of the entry that was read last */
    void *unpacked;                /* the contents, if they are compressed in the file */
} block;

/* Close the block also after a failure. */
static hs_code open_block(const source *from, handle at, block *out)
{
    enum { UNCOMPRESSED, SNAPPY };
    *out = (block){.offset = at.offset};
    hs__buffer_init(&out->key, from->env);
    if (at.offset > from->size || at.size > from->size - at.offset || from->size - at.offset - at.size < TRAILER ||
        at.size < 4)
        return damaged(from, "block beyond the end", at.offset);
    const unsigned char *contents = from->data + at.offset;
    size_t size = (size_t)at.size;
    unsigned char type = contents[size];
    if (hs__crc32c_unmask(hs__get32(contents + size + 1)) != hs__crc32c(0, contents, size + 1))
        return damaged(from, "wrong checksum of the block", at.offset);
    if (type != UNCOMPRESSED && type != SNAPPY)
        return hs_error_set(from->err, HS_UNIMPLEMENTED,
                            "%s: the block at byte %llu has compression type %u, which is not supported", from->name,
                            (unsigned long long)at.offset, type);
    if (type == SNAPPY) {
        const hs_bytes packed = {contents, size};
        if (!hs__snappy_size(packed, &size))
            return damaged(from, "invalid Snappy data in the block", at.offset);
        if (!(out->unpacked = hs__realloc(from->env, NULL, size, 1)))
            return hs__no_memory(from->err, size, from->name);
        if (!hs__snappy_unpack(packed, out->unpacked, size))
            return damaged(from, "invalid Snappy data in the block", at.offset);
        contents = out->unpacked;
    }
    if (size < 4 || hs__get32(contents + size - 4) > (size - 4) / 4)
        return damaged(from, "too many restarts in the block", at.offset);
    out->at = contents;
    out->end = contents + size - 4 - 4 * (size_t)hs__get32(contents + size - 4);
    return HS_OK;
}

static void close_block(const source *from, block *in)
{
    hs__buffer_free(&in->key);
    hs__free(from->env, in->unpacked);
}

/* Reads the next entry: its key into the block's, where the previous key is. */
static hs_code next_entry(const source *from, block *in, hs_bytes *value)
{
    uint64_t shared, unshared, bytes;
    if (!hs__get_varint(&in->at, in->end, &shared) || !hs__get_varint(&in->at, in->end, &unshared) ||
        !hs__get_varint(&in->at, in->end, &bytes) || shared > in->key.size || unshared > (uint64_t)(in->end - in->at) ||
        bytes > (uint64_t)(in->end - in->at) - unshared)
        return damaged(from, "invalid entry in the block", in->offset);
    in->key.size = (size_t)shared;
    hs__buffer_append(&in->key, in->at, (size_t)unshared);
    *value = (hs_bytes){in->at + unshared, (size_t)bytes};
    in->at += unshared + bytes;
    return hs__buffer_check(&in->key, "a key", from->err);
}

typedef struct {
    hs__buffer last; /* the previous key, across blocks */
    bool any;
    uint64_t end; /* of the previous block */
    hs__table_visit visit;
    void *user;
} walk;

static hs_code check_order(const source *from, walk *w, const block *in)
{
    const hs__buffer *key = &in->key;
    size_t common = w->last.size < key->size ? w->last.size : key->size;
    int order = common ? memcmp(w->last.data, key->data, common) : 0;
    if (w->any && (order > 0 || (order == 0 && w->last.size >= key->size)))
        return damaged(from, "keys are not in order in the block", in->offset);
    w->any = true;
    hs__buffer_clear(&w->last);
    hs__buffer_append(&w->last, key->data, key->size);
    return hs__buffer_check(&w->last, "a key", from->err);
}

/* Blocks must not overlap, so that each byte is read once. As at most RESTART_INTERVAL entries share a prefix, the keys of
 * a block are at most RESTART_INTERVAL times as long as the block. */
static hs_code visit_block(const source *from, handle at, walk *w)
{
    block in;
    if (at.offset < w->end)
        return damaged(from, "block overlaps the previous block", at.offset);
    hs_code code = open_block(from, at, &in);
    uint64_t most = code ? 0 : (uint64_t)(in.end - in.at) * RESTART_INTERVAL, keys = 0;
    w->end = at.offset + at.size + TRAILER;
    while (!code && in.at < in.end) {
        hs_bytes value;
        if (!(code = next_entry(from, &in, &value)) && (keys += in.key.size) > most)
            code = damaged(from, "keys share too many bytes in the block", at.offset);
        if (!code && !(code = check_order(from, w, &in)))
            code = w->visit(w->user, (hs_bytes){in.key.data, in.key.size}, value, from->err);
    }
    close_block(from, &in);
    return code;
}

static hs_code visit_index(const source *from, handle index, walk *w)
{
    block in;
    hs_code code = open_block(from, index, &in);
    while (!code && in.at < in.end) {
        hs_bytes value = {0};
        handle data = {0, 0};
        code = next_entry(from, &in, &value);
        const unsigned char *v = value.data;
        if (!code && !get_handle(&v, v + value.size, &data))
            code = damaged(from, "invalid index entry in the block", index.offset);
        if (!code)
            code = visit_block(from, data, w);
    }
    close_block(from, &in);
    return code;
}

hs_code hs__table_read(const hs_env *env, hs_bytes table, const char *name, bool verify_all, hs__table_visit visit,
                       void *user, hs_error *err)
{
    source from = {env, table.data, table.size, name, err};
    handle meta, index;
    if (from.size < FOOTER)
        return hs_error_set(err, HS_DATA_LOSS, "%s: has %zu bytes, too few for a table", name, from.size);
    const unsigned char *footer = from.data + from.size - FOOTER, *at = footer;
    if (hs__get64(footer + HANDLES) != magic)
        return damaged(&from, "not a table: wrong magic number", from.size - 8);
    if (!get_handle(&at, footer + HANDLES, &meta) || !get_handle(&at, footer + HANDLES, &index))
        return damaged(&from, "invalid footer", from.size - FOOTER);
    hs_code code = HS_OK;
    if (verify_all) {
        block unused;
        code = open_block(&from, meta, &unused);
        close_block(&from, &unused);
    }
    walk w = {.visit = visit, .user = user};
    hs__buffer_init(&w.last, env);
    if (!code)
        code = visit_index(&from, index, &w);
    hs__buffer_free(&w.last);
    return code;
}

bool hs__ends_as_table(const hs_env *env, const char *path)
{
    hs_file_stat found;
    hs__file file;
    unsigned char end[8];
    if (hs__stat(env, path, &found, NULL) || found.is_directory || found.bytes < FOOTER ||
        hs__file_open(&file, env, path, HS_OPEN_READ, NULL))
        return false;
    bool ends = !hs__file_read(&file, found.bytes - sizeof end, end, sizeof end, path, NULL) && hs__get64(end) == magic;
    hs__file_close(&file, NULL);
    return ends;
}
