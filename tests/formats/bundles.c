/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/bundles.h"

#include "base/crc32c.h"
#include "base/proto.h"
#include "formats/slice_key.h"
#include "formats/table.h"

test_env t;
hs_error err;
char *directory;

int set_up(void **state)
{
    (void)state;
    test_env_init(&t);
    hs_error_clear(&err);
    directory = test_make_directory();
    return 0;
}

int tear_down(void **state)
{
    (void)state;
    test_remove_directory(directory);
    return t.live ? -1 : 0;
}

const char *in(const char *name)
{
    return test_path(directory, name);
}

hs_code try_write_bundle(const hs_env *env, const named_tensor *tensors, size_t n)
{
    hs__bundle_writer writer;
    hs_code code = hs__bundle_writer_open(&writer, env, DATA_FILE, 0, 1, &err);
    for (size_t i = 0; i < n && !code; i++)
        code = hs__bundle_writer_add(&writer, tensors[i].name, &tensors[i].value, &err);
    if (!code)
        code = hs__bundle_writer_finish(&writer, INDEX, &err);
    hs__bundle_writer_close(&writer);
    return code;
}

void write_bundle(const named_tensor *tensors, size_t n)
{
    assert_ok(try_write_bundle(&t.env, tensors, n), &err);
}

hs__bundle_reader open_bundle(void)
{
    hs__bundle_reader reader;
    assert_ok(hs__bundle_reader_open(&reader, &t.env, PREFIX, &err), &err);
    return reader;
}

const hs__bundle_entry *find_entry(const hs__bundle_reader *reader, const char *name)
{
    const hs__bundle_entry *entry = hs__bundle_find(reader, name);
    if (!entry)
        fail_msg("no '%s' in the bundle", name);
    assert_string_equal(entry->name, name);
    return entry;
}

static void assert_strings(const hs_string *found, const hs_tensor *expected)
{
    const hs_string *strings = expected->data;
    for (size_t i = 0; i < expected->bytes / sizeof *strings; i++) {
        assert_int_equal(found[i].bytes, strings[i].bytes);
        if (found[i].bytes)
            assert_memory_equal(found[i].data, strings[i].data, strings[i].bytes);
    }
}

void assert_tensor(hs__bundle_reader *reader, const char *name, const hs_tensor *expected)
{
    const hs__bundle_entry *entry = find_entry(reader, name);
    hs_shape shape = hs_tensor_shape(expected);
    assert_int_equal(entry->dtype, expected->dtype);
    assert_true(hs_shape_equal(&entry->shape, &shape));
    assert_ok(hs__bundle_check(reader, entry, &err), &err);
    size_t bytes = hs__bundle_read_bytes(entry);
    void *data = malloc(bytes ? bytes : 1);
    assert_ok(hs__bundle_read(reader, entry, data, &err), &err);
    assert_ok(hs__bundle_verify(reader, entry, &err), &err);
    if (expected->dtype == HS_STRING) {
        assert_strings(data, expected);
    } else {
        assert_int_equal(bytes, expected->bytes);
        if (bytes)
            assert_memory_equal(data, expected->data, bytes);
    }
    free(data);
}

/* Indices by hand. */

static struct {
    hs__buffer bytes;
    hs__table_writer table;
} made;

void index_begin(void)
{
    hs__buffer_init(&made.bytes, &t.env);
    hs__table_begin(&made.table, &t.env, &made.bytes);
}

void index_put(const char *key, size_t key_bytes, const void *value, size_t bytes)
{
    hs__table_add(&made.table, (hs_bytes){key, key_bytes}, (hs_bytes){value, bytes});
}

static void put_message(const char *key, size_t key_bytes, const ProtobufCMessage *message)
{
    hs__buffer value;
    hs__buffer_init(&value, &t.env);
    hs__proto_pack(message, &value);
    index_put(key, key_bytes, value.data, value.size);
    hs__buffer_free(&value);
}

void index_put_message(const char *key, const ProtobufCMessage *message)
{
    put_message(key, strlen(key), message);
}

void index_put_header(int32_t shards)
{
    Hs__Pb__VersionDef version = HS__PB__VERSION_DEF__INIT;
    Hs__Pb__BundleHeaderProto header = HS__PB__BUNDLE_HEADER_PROTO__INIT;
    version.producer = 1;
    header.version = &version;
    header.num_shards = shards;
    index_put_message("", &header.base);
}

/* A slice in the list of an entry. */
typedef struct {
    Hs__Pb__TensorSliceProto proto;
    Hs__Pb__TensorSliceProto__Extent extents[HS_MAX_RANK], *pointers[HS_MAX_RANK];
} listed;

static void list(listed *to, const hs__box *box)
{
    to->proto = (Hs__Pb__TensorSliceProto)HS__PB__TENSOR_SLICE_PROTO__INIT;
    to->proto.n_extent = (size_t)box->rank;
    to->proto.extent = to->pointers;
    for (int32_t i = 0; i < box->rank; i++) {
        Hs__Pb__TensorSliceProto__Extent *extent = to->pointers[i] = &to->extents[i];
        *extent = (Hs__Pb__TensorSliceProto__Extent)HS__PB__TENSOR_SLICE_PROTO__EXTENT__INIT;
        extent->start = box->starts[i];
        extent->length = box->lengths[i];
        if (box->lengths[i] != -1)
            extent->has_length_case = HS__PB__TENSOR_SLICE_PROTO__EXTENT__HAS_LENGTH_LENGTH;
    }
}

static void put_claim(const char *key, size_t key_bytes, const claim *c)
{
    Hs__Pb__TensorShapeProto__Dim dims[9], *pointers[9];
    Hs__Pb__TensorShapeProto shape = HS__PB__TENSOR_SHAPE_PROTO__INIT;
    Hs__Pb__BundleEntryProto entry = HS__PB__BUNDLE_ENTRY_PROTO__INIT;
    Hs__Pb__TensorSliceProto **slices = calloc(c->n_slices + 1, sizeof(Hs__Pb__TensorSliceProto *));
    listed *lists = calloc(c->n_slices + 1, sizeof *lists);
    assert_true(slices && lists);
    for (size_t i = 0; i < c->n_dims; i++) {
        dims[i] = (Hs__Pb__TensorShapeProto__Dim)HS__PB__TENSOR_SHAPE_PROTO__DIM__INIT;
        dims[i].size = c->dims[i];
        pointers[i] = &dims[i];
    }
    for (size_t i = 0; i < c->n_slices; i++) {
        list(&lists[i], &c->slices[i]);
        slices[i] = &lists[i].proto;
    }
    shape.n_dim = c->n_dims;
    shape.dim = pointers;
    shape.unknown_rank = c->unknown_rank;
    entry.dtype = (Hs__Pb__DataType)(c->dtype ? c->dtype : HS_FLOAT);
    entry.shape = &shape;
    entry.shard_id = c->shard;
    entry.offset = c->offset;
    entry.size = c->size;
    entry.crc32c = hs__crc32c_mask(c->crc);
    entry.n_slices = c->n_slices;
    entry.slices = slices;
    put_message(key, key_bytes, &entry.base);
    free(lists);
    free(slices);
}

void index_put_claim(const char *key, const claim *c)
{
    put_claim(key, strlen(key), c);
}

void index_put_slice(const char *name, const hs__box *box, const claim *c)
{
    hs__buffer key;
    hs__buffer_init(&key, &t.env);
    hs__slice_key_put(&key, name, box);
    put_claim((const char *)key.data, key.size, c);
    hs__buffer_free(&key);
}

void index_end(void)
{
    assert_ok(hs__table_finish(&made.table, &err), &err);
    test_write_file(INDEX, made.bytes.data, made.bytes.size);
    hs__buffer_free(&made.bytes);
}

typedef struct {
    const char *key;
    unsigned char *value;
    size_t bytes;
} search;

static hs_code look(void *user, hs_bytes key, hs_bytes value, hs_error *error)
{
    (void)error;
    search *s = user;
    if (key.size == strlen(s->key) && (!key.size || memcmp(key.data, s->key, key.size) == 0)) {
        s->value = malloc(value.size + 1);
        s->bytes = value.size;
        memcpy(s->value, value.data, value.size);
    }
    return HS_OK;
}

unsigned char *index_value(const char *key, size_t *bytes)
{
    size_t size;
    char *index = test_read_file(INDEX, &size);
    search s = {.key = key};
    assert_non_null(index);
    assert_ok(hs__table_read(&t.env, (hs_bytes){index, size}, "index", false, look, &s, &err), &err);
    free(index);
    *bytes = s.bytes;
    return s.value;
}
