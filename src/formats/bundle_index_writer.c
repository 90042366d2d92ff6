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

/* The order of the keys of slices, which sort before all names. */
static int by_name_and_box(const void *a, const void *b)
{
    const hs__bundle_slice *x = *(const hs__bundle_slice *const *)a, *y = *(const hs__bundle_slice *const *)b;
    int order = strcmp(x->entry.name, y->entry.name);
    return order ? order : hs__box_order(&x->box, &y->box);
}

static hs_code add_slices(indexing *x, hs_error *err)
{
    const size_t n = x->writer->n_slices;
    const hs__bundle_slice **slices = hs__alloc(x->writer->env, n, sizeof *slices);
    hs__buffer key;
    if (!slices)
        return hs__no_memory(err, n * sizeof *slices, "the slices of a checkpoint");
    hs__buffer_init(&key, x->writer->env);
    for (size_t i = 0; i < n; i++)
        slices[i] = &x->writer->slices[i];
    qsort(slices, n, sizeof *slices, by_name_and_box);
    for (size_t i = 0; i < n && !x->failed; i++) {
        hs__buffer_clear(&key);
        hs__slice_key_put(&key, slices[i]->entry.name, &slices[i]->box);
        x->failed = key.failed;
        if (!x->failed)
            add_entry(x, (hs_bytes){key.data, key.size}, &slices[i]->entry);
    }
    hs__buffer_free(&key);
    hs__free(x->writer->env, slices);
    return HS_OK;
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
