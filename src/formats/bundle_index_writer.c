/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the index of a bundle: the header, the stored slices in the order of their keys, then the tensors by name. */
#include "formats/bundle_data.h"

#include "bundle.pb-c.h"

#include "base/proto.h"
#include "base/wire_write.h"
#include "formats/byte_order.h"
#include "formats/slice_key.h"
#include "formats/table.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    hs__bundle_writer *writer;
    hs__table_writer table;
    hs__buffer value; /* of the key that is added */
    bool failed;      /* out of memory */
} indexing;

static void add_value(indexing *x, hs_bytes key)
{
    x->failed |= x->value.failed;
    if (!x->failed)
        hs__table_add(&x->table, key, (hs_bytes){x->value.data, x->value.size});
    hs__buffer_clear(&x->value);
}

static void add_header(indexing *x)
{
    Hs__Pb__VersionDef version = HS__PB__VERSION_DEF__INIT;
    version.producer = 1;
    Hs__Pb__BundleHeaderProto header = HS__PB__BUNDLE_HEADER_PROTO__INIT;
    header.num_shards = x->writer->shards;
    header.endianness =
        hs__big_endian() ? HS__PB__BUNDLE_HEADER_PROTO__ENDIANNESS__BIG : HS__PB__BUNDLE_HEADER_PROTO__ENDIANNESS__LITTLE;
    header.version = &version;
    hs__proto_pack(&header.base, &x->value);
    add_value(x, (hs_bytes){"", 0});
}

/* Adds a BundleEntryProto. A tensor in slices lists them in the order in which they were added. */
static void add_entry(indexing *x, hs_bytes key, const hs__bundle_entry *entry)
{
    hs__buffer *out = &x->value;
    hs__put_integer(out, HS__ENTRY_DTYPE, (uint64_t)entry->dtype);
    const size_t shape = hs__begin_field(out, HS__ENTRY_SHAPE);
    for (int32_t i = 0; i < entry->shape.rank; i++) {
        const size_t dim = hs__begin_field(out, HS__SHAPE_DIM);
        hs__put_integer(out, 1, (uint64_t)entry->shape.dims[i]);
        hs__end_field(out, dim);
    }
    hs__end_field(out, shape);
    hs__put_integer(out, HS__ENTRY_SHARD, (uint64_t)entry->shard);
    hs__put_integer(out, HS__ENTRY_OFFSET, entry->offset);
    hs__put_integer(out, HS__ENTRY_SIZE, entry->bytes);
    hs__put_fixed32(out, HS__ENTRY_CRC, entry->crc);
    for (size_t i = 0; entry->slices && i < x->writer->n_slices; i++) {
        const hs__box *box = &x->writer->slices[i].box;
        if (x->writer->slices[i].entry.name != entry->name)
            continue;
        const size_t slice = hs__begin_field(out, HS__ENTRY_SLICES);
        for (int32_t k = 0; k < box->rank; k++) {
            const size_t extent = hs__begin_field(out, HS__SLICE_EXTENT);
            hs__put_integer(out, 1, (uint64_t)box->starts[k]);
            hs__buffer_varint(out, 2 << 3); /* also 0: without it, the slice goes to the end */
            hs__buffer_varint(out, (uint64_t)box->lengths[k]);
            hs__end_field(out, extent);
        }
        hs__end_field(out, slice);
    }
    add_value(x, key);
}

/* Slices. Their keys sort before all names. */

typedef struct {
    size_t at, bytes; /* of the key in the buffer of all keys */
    const unsigned char *key;
    const hs__bundle_slice *slice;
} keyed;

static int by_key(const void *a, const void *b)
{
    const keyed *first = a, *second = b;
    size_t common = first->bytes < second->bytes ? first->bytes : second->bytes;
    int order = memcmp(first->key, second->key, common);
    return order ? order : (first->bytes > second->bytes) - (first->bytes < second->bytes);
}

static hs_code add_slices(indexing *x, hs_error *err)
{
    size_t n = x->writer->n_slices;
    hs__buffer keys;
    hs__buffer_init(&keys, x->writer->env);
    keyed *all = hs__alloc(x->writer->env, n, sizeof *all);
    for (size_t i = 0; all && i < n; i++) {
        const hs__bundle_slice *slice = &x->writer->slices[i];
        all[i] = (keyed){.at = keys.size, .slice = slice};
        hs__slice_key_put(&keys, slice->entry.name, &slice->box);
        all[i].bytes = keys.size - all[i].at;
    }
    bool failed = !all || keys.failed;
    for (size_t i = 0; !failed && i < n; i++)
        all[i].key = keys.data + all[i].at;
    if (!failed)
        qsort(all, n, sizeof *all, by_key);
    for (size_t i = 0; !failed && i < n; i++)
        add_entry(x, (hs_bytes){all[i].key, all[i].bytes}, &all[i].slice->entry);
    hs__free(x->writer->env, all);
    hs__buffer_free(&keys);
    return failed ? hs__no_memory(err, n * sizeof *all, "the slices of a checkpoint") : HS_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const hs__bundle_entry *)a)->name, ((const hs__bundle_entry *)b)->name);
}

hs_code hs__bundle_build_index(hs__bundle_writer *writer, hs__buffer *index, hs_error *err)
{
    indexing x = {.writer = writer};
    hs__buffer_init(&x.value, writer->env);
    hs__table_begin(&x.table, writer->env, index);
    if (writer->n_entries)
        qsort(writer->entries, writer->n_entries, sizeof *writer->entries, by_name);
    add_header(&x);
    hs_code code = writer->n_slices ? add_slices(&x, err) : HS_OK;
    for (size_t i = 0; i < writer->n_entries && !code; i++) {
        const hs__bundle_entry *entry = &writer->entries[i];
        add_entry(&x, (hs_bytes){entry->name, strlen(entry->name)}, entry);
    }
    if (!code && x.failed)
        code = hs__no_memory(err, 0, "the index of a checkpoint");
    hs_code finished = hs__table_finish(&x.table, code ? NULL : err);
    hs__buffer_free(&x.value);
    return code ? code : finished;
}
