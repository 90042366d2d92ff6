/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the index of a bundle: the header, the stored slices in the order of their keys, then the tensors by name. */
#include "formats/bundle_index_writer.h"

#include "bundle.pb-c.h"

#include "base/proto.h"
#include "formats/byte_order.h"
#include "formats/slice_key.h"
#include "formats/table.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    hs__bundle_writer *writer;
    hs__table_writer table;
    hs__buffer scratch;
    bool failed; /* out of memory */
} indexing;

static void add_message(indexing *x, hs_bytes key, const ProtobufCMessage *message)
{
    hs__buffer_clear(&x->scratch);
    hs__proto_pack(message, &x->scratch);
    x->failed |= x->scratch.failed;
    if (!x->failed)
        hs__table_add(&x->table, key, (hs_bytes){x->scratch.data, x->scratch.size});
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
    add_message(x, (hs_bytes){"", 0}, &header.base);
}

static void add_entry(indexing *x, hs_bytes key, const hs__bundle_entry *entry, size_t n_slices,
                      Hs__Pb__TensorSliceProto **slices)
{
    Hs__Pb__TensorShapeProto__Dim dims[HS_MAX_RANK], *pointers[HS_MAX_RANK];
    Hs__Pb__TensorShapeProto shape = HS__PB__TENSOR_SHAPE_PROTO__INIT;
    for (int32_t i = 0; i < entry->shape.rank; i++) {
        dims[i] = (Hs__Pb__TensorShapeProto__Dim)HS__PB__TENSOR_SHAPE_PROTO__DIM__INIT;
        dims[i].size = entry->shape.dims[i];
        pointers[i] = &dims[i];
    }
    shape.n_dim = (size_t)entry->shape.rank;
    shape.dim = pointers;
    Hs__Pb__BundleEntryProto proto = HS__PB__BUNDLE_ENTRY_PROTO__INIT;
    proto.dtype = (Hs__Pb__DataType)entry->dtype;
    proto.shape = &shape;
    proto.shard_id = entry->shard;
    proto.offset = (int64_t)entry->offset;
    proto.size = (int64_t)entry->bytes;
    proto.crc32c = entry->crc;
    proto.n_slices = n_slices;
    proto.slices = slices;
    add_message(x, key, &proto.base);
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
        add_entry(x, (hs_bytes){all[i].key, all[i].bytes}, &all[i].slice->entry, 0, NULL);
    hs__free(x->writer->env, all);
    hs__buffer_free(&keys);
    return failed ? hs__no_memory(err, n * sizeof *all, "the slices of a checkpoint") : HS_OK;
}

/* A slice in the list of its tensor. */
typedef struct {
    Hs__Pb__TensorSliceProto proto;
    Hs__Pb__TensorSliceProto__Extent extents[HS_MAX_RANK], *pointers[HS_MAX_RANK];
} listed;

static void fill_listed(listed *to, const hs__box *box)
{
    to->proto = (Hs__Pb__TensorSliceProto)HS__PB__TENSOR_SLICE_PROTO__INIT;
    to->proto.n_extent = (size_t)box->rank;
    to->proto.extent = to->pointers;
    for (int32_t i = 0; i < box->rank; i++) {
        to->extents[i] = (Hs__Pb__TensorSliceProto__Extent)HS__PB__TENSOR_SLICE_PROTO__EXTENT__INIT;
        to->extents[i].start = box->starts[i];
        to->extents[i].has_length_case = HS__PB__TENSOR_SLICE_PROTO__EXTENT__HAS_LENGTH_LENGTH;
        to->extents[i].length = box->lengths[i];
        to->pointers[i] = &to->extents[i];
    }
}

/* Lists the slices in the order in which they were added. */
static hs_code add_sliced(indexing *x, hs_bytes key, const hs__bundle_entry *entry, hs_error *err)
{
    const hs_env *env = x->writer->env;
    size_t n = 0, bytes = entry->slices * (sizeof(listed) + sizeof(void *));
    listed *lists = hs__alloc(env, entry->slices, sizeof *lists);
    Hs__Pb__TensorSliceProto **pointers = hs__alloc(env, entry->slices, sizeof(Hs__Pb__TensorSliceProto *));
    for (size_t i = 0; lists && pointers && i < x->writer->n_slices; i++) {
        const hs__bundle_slice *slice = &x->writer->slices[i];
        if (slice->entry.name == entry->name) {
            fill_listed(&lists[n], &slice->box);
            pointers[n] = &lists[n].proto;
            n++;
        }
    }
    hs_code code = lists && pointers ? HS_OK : hs__no_memory(err, bytes, "the slices of a tensor");
    if (!code)
        add_entry(x, key, entry, n, pointers);
    hs__free(env, lists);
    hs__free(env, pointers);
    return code;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const hs__bundle_entry *)a)->name, ((const hs__bundle_entry *)b)->name);
}

hs_code hs__bundle_build_index(hs__bundle_writer *writer, hs__buffer *index, hs_error *err)
{
    indexing x = {.writer = writer};
    hs__buffer_init(&x.scratch, writer->env);
    hs__table_begin(&x.table, writer->env, index);
    if (writer->n_entries)
        qsort(writer->entries, writer->n_entries, sizeof *writer->entries, by_name);
    add_header(&x);
    hs_code code = writer->n_slices ? add_slices(&x, err) : HS_OK;
    for (size_t i = 0; i < writer->n_entries && !code; i++) {
        const hs__bundle_entry *entry = &writer->entries[i];
        hs_bytes key = {entry->name, strlen(entry->name)};
        if (entry->slices)
            code = add_sliced(&x, key, entry, err);
        else
            add_entry(&x, key, entry, 0, NULL);
    }
    if (!code && x.failed)
        code = hs__no_memory(err, 0, "the index of a checkpoint");
    hs_code finished = hs__table_finish(&x.table, code ? NULL : err);
    hs__buffer_free(&x.scratch);
    return code ? code : finished;
}
