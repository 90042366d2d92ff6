/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/bundles.h"

#include "base/buffer.h"
#include "base/crc32c.h"

#include <errno.h>

static const hs_dtype dtypes[] = {
    HS_FLOAT,  HS_DOUBLE, HS_INT32,    HS_UINT8,  HS_INT16,   HS_INT8,   HS_COMPLEX64,  HS_INT64, HS_BOOL,   HS_QINT8,
    HS_QUINT8, HS_QINT32, HS_BFLOAT16, HS_QINT16, HS_QUINT16, HS_UINT16, HS_COMPLEX128, HS_HALF,  HS_UINT32, HS_UINT64,
};

enum { N_DTYPES = sizeof dtypes / sizeof *dtypes };

/* The bytes of tensors. Their values do not matter. */
static unsigned char bytes_of[1 << 20];

static const void *some_data(unsigned seed)
{
    for (size_t i = 0; i < sizeof bytes_of; i++)
        bytes_of[i] = (unsigned char)(i * 31 + i / 251 + seed);
    return bytes_of;
}

static void tb_002_tb_003_every_type_comes_back_in_the_order_of_names(void **state)
{
    (void)state;
    static const char *const names[] = {"foo_003", "foo_000", "foo_002", "foo_001"};
    const unsigned char *data = some_data(1);
    for (size_t d = 0; d < N_DTYPES; d++) {
        named_tensor tensors[4];
        for (size_t i = 0; i < 4; i++)
            tensors[i] = (named_tensor){names[i], hs_tensor_of(dtypes[d], HS_SHAPE(2, 3), data + 100 * i)};
        write_bundle(tensors, 4);
        hs__bundle_reader reader = open_bundle();
        assert_int_equal(reader.n_entries, 4);
        for (int i = 0; i < 4; i++)
            assert_int_equal(reader.entries[i].name[6], '0' + i);
        for (size_t i = 0; i < 4; i++)
            assert_tensor(&reader, names[i], &tensors[i].value);
        hs__bundle_reader_close(&reader);
    }
}

static void tb_008_tb_032s_scalars_and_empty_tensors_come_back(void **state)
{
    (void)state;
    const void *data = some_data(2);
    for (size_t d = 0; d < N_DTYPES; d++) {
        const named_tensor tensors[] = {
            {"empty_0", hs_tensor_of(dtypes[d], HS_SHAPE(0, 1618), NULL)},
            {"empty_1", hs_tensor_of(dtypes[d], HS_SHAPE(16, 0, 18), NULL)},
            {"scalar", hs_tensor_of(dtypes[d], HS_SCALAR, data)},
            {"eight", hs_tensor_of(dtypes[d], HS_SHAPE(1, 2, 1, 2, 1, 2, 1, 2), data)},
        };
        write_bundle(tensors, 4);
        hs__bundle_reader reader = open_bundle();
        for (size_t i = 0; i < 4; i++)
            assert_tensor(&reader, tensors[i].name, &tensors[i].value);
        hs__bundle_reader_close(&reader);
    }
}

static void tb_032s_an_empty_tensor_takes_no_bytes(void **state)
{
    (void)state;
    size_t bytes;
    named_tensor empty = {"empty", hs_tensor_of(HS_FLOAT, HS_SHAPE(0, 5), NULL)};
    write_bundle(&empty, 1);
    free(test_read_file(DATA_FILE, &bytes));
    assert_int_equal(bytes, 0);
    hs__bundle_reader reader = open_bundle();
    assert_tensor(&reader, "empty", &empty.value);
    hs__bundle_reader_close(&reader);
}

static void tb_010_strings_come_back(void **state)
{
    (void)state;
    enum { LARGE = 1 << 20 };
    char *large = malloc(LARGE);
    memset(large, 'c', LARGE);
    static const float numbers[] = {1, 2};
    const hs_string empty = {NULL, 0}, hello = {"hello", 5},
                    four[] = {{"hello", 5}, {"", 0}, {"x\0001", 3}, {large, LARGE}};
    const named_tensor tensors[] = {
        {"string_tensor", hs_tensor_of(HS_STRING, HS_SHAPE(1), &empty)},
        {"scalar", hs_tensor_of(HS_STRING, HS_SCALAR, &hello)},
        {"strs", hs_tensor_of(HS_STRING, HS_SHAPE(2, 2), four)},
        {"floats", hs_tensor_of(HS_FLOAT, HS_SHAPE(2), numbers)},
        {"none", hs_tensor_of(HS_STRING, HS_SHAPE(3, 0), NULL)},
    };
    static const char *const sorted[] = {"floats", "none", "scalar", "string_tensor", "strs"};
    write_bundle(tensors, 5);
    hs__bundle_reader reader = open_bundle();
    for (size_t i = 0; i < 5; i++) {
        assert_string_equal(reader.entries[i].name, sorted[i]);
        assert_tensor(&reader, tensors[i].name, &tensors[i].value);
    }
    hs__bundle_reader_close(&reader);
    free(large);
}

static void tensors_larger_than_a_piece_come_back(void **state)
{
    (void)state;
    static const int64_t sizes[] = {(1 << 18) - 1, 1 << 18, (1 << 18) + 1, (1 << 20) - 7};
    const void *data = some_data(3);
    for (size_t i = 0; i < 4; i++) {
        named_tensor large = {"large", hs_tensor_of(HS_UINT8, HS_SHAPE(sizes[i]), data)};
        write_bundle(&large, 1);
        hs__bundle_reader reader = open_bundle();
        assert_tensor(&reader, "large", &large.value);
        hs__bundle_reader_close(&reader);
    }
}

static void thousands_of_tensors_are_found(void **state)
{
    (void)state;
    enum { N = 3000 };
    static char names[N][120];
    static named_tensor tensors[N];
    const unsigned char *data = some_data(4);
    for (size_t i = 0; i < N; i++) { /* the index has several blocks; tensors are not added in its order */
        snprintf(names[i], sizeof names[i], "tower_%04zu/layer/a_rather_long_name/of_%0*zu", i * 7 % N, (int)(i % 60), i);
        tensors[i] = (named_tensor){names[i], hs_tensor_of(HS_INT32, HS_SHAPE(3), data + i)};
    }
    write_bundle(tensors, N);
    hs__bundle_reader reader = open_bundle();
    assert_int_equal(reader.n_entries, N);
    for (size_t i = 0; i < N; i++)
        assert_tensor(&reader, names[i], &tensors[i].value);
    for (size_t i = 1; i < N; i++)
        assert_true(strcmp(reader.entries[i - 1].name, reader.entries[i].name) < 0);
    hs__bundle_reader_close(&reader);
}

/* Missing bundles, tensors and files. */

static void tb_016_a_missing_bundle_is_not_found(void **state)
{
    (void)state;
    hs__bundle_reader reader;
    assert_fails(hs__bundle_reader_open(&reader, &t.env, PREFIX, &err), HS_NOT_FOUND, &err, INDEX);
    hs__bundle_reader_close(&reader); /* closing twice is allowed */
}

static void tb_043s_an_unknown_name_is_not_found(void **state)
{
    (void)state;
    write_bundle(&(named_tensor){"known", hs_tensor_of(HS_UINT8, HS_SHAPE(3), "abc")}, 1);
    hs__bundle_reader reader = open_bundle();
    assert_null(hs__bundle_find(&reader, "unknown"));
    assert_null(hs__bundle_find(&reader, ""));
    hs__bundle_reader_close(&reader);
    hs_checkpoint_reader *checkpoint = hs_checkpoint_open(&t.env, PREFIX, &err);
    assert_non_null(checkpoint);
    assert_fails(hs_checkpoint_find(checkpoint, "unknown", NULL, &err), HS_NOT_FOUND, &err, "unknown");
    hs_checkpoint_close(checkpoint);
}

static void a_missing_data_file_is_not_found(void **state)
{
    (void)state;
    char data[3];
    write_bundle(&(named_tensor){"x", hs_tensor_of(HS_UINT8, HS_SHAPE(3), "abc")}, 1);
    assert_int_equal(remove(DATA_FILE), 0);
    hs__bundle_reader reader = open_bundle();
    const hs__bundle_entry *entry = find_entry(&reader, "x");
    assert_fails(hs__bundle_read(&reader, entry, data, &err), HS_NOT_FOUND, &err, DATA_FILE);
    assert_fails(hs__bundle_verify(&reader, entry, &err), HS_NOT_FOUND, &err, DATA_FILE);
    hs__bundle_reader_close(&reader);
}

static void tb_033s_bytes_after_the_data_are_ignored(void **state)
{
    (void)state;
    named_tensor x = {"x", hs_tensor_of(HS_UINT8, HS_SHAPE(3), "abc")};
    write_bundle(&x, 1);
    test_write_file(DATA_FILE, "abcjunk", 7);
    hs__bundle_reader reader = open_bundle();
    assert_tensor(&reader, "x", &x.value);
    hs__bundle_reader_close(&reader);
}

/* Several data files. */

/* An entry for three bytes of a data file. */
static Hs__Pb__BundleEntryProto entry_of(Hs__Pb__TensorShapeProto *shape, int32_t shard, const char *three)
{
    static Hs__Pb__TensorShapeProto__Dim dim = HS__PB__TENSOR_SHAPE_PROTO__DIM__INIT, *dims[] = {&dim};
    Hs__Pb__BundleEntryProto entry = HS__PB__BUNDLE_ENTRY_PROTO__INIT;
    dim.size = 3;
    *shape = (Hs__Pb__TensorShapeProto)HS__PB__TENSOR_SHAPE_PROTO__INIT;
    shape->n_dim = 1;
    shape->dim = dims;
    entry.dtype = HS__PB__DATA_TYPE__DT_UINT8;
    entry.shape = shape;
    entry.shard_id = shard;
    entry.size = 3;
    entry.crc32c = hs__crc32c_mask(hs__crc32c(0, three, 3));
    return entry;
}

static void put_entry(const char *name, int32_t shard, int64_t offset, const char *three)
{
    Hs__Pb__TensorShapeProto shape;
    Hs__Pb__BundleEntryProto entry = entry_of(&shape, shard, three);
    entry.offset = offset;
    index_put_message(name, &entry.base);
}

static void data_may_be_in_several_files(void **state)
{
    (void)state;
    test_write_file(in("b.data-00000-of-00002"), "abcdef", 6);
    test_write_file(in("b.data-00001-of-00002"), "xyz", 3);
    index_begin();
    index_put_header(2);
    put_entry("first", 0, 0, "abc");
    put_entry("second", 1, 0, "xyz");
    put_entry("third", 0, 3, "def");
    index_end();
    const hs_tensor abc = hs_tensor_of(HS_UINT8, HS_SHAPE(3), "abc"), xyz = hs_tensor_of(HS_UINT8, HS_SHAPE(3), "xyz"),
                    def = hs_tensor_of(HS_UINT8, HS_SHAPE(3), "def");
    hs__bundle_reader reader = open_bundle();
    for (int i = 0; i < 2; i++) {
        assert_tensor(&reader, "second", &xyz);
        assert_tensor(&reader, "first", &abc);
        assert_tensor(&reader, "third", &def);
    }
    hs__bundle_reader_close(&reader);
}

static void other_files_are_read_if_one_is_missing(void **state)
{
    (void)state;
    char data[3];
    test_write_file(in("b.data-00001-of-00002"), "xyz", 3);
    index_begin();
    index_put_header(2);
    put_entry("first", 0, 0, "abc");
    put_entry("second", 1, 0, "xyz");
    index_end();
    const hs_tensor xyz = hs_tensor_of(HS_UINT8, HS_SHAPE(3), "xyz");
    hs__bundle_reader reader = open_bundle();
    for (int i = 0; i < 2; i++) {
        assert_fails(hs__bundle_read(&reader, find_entry(&reader, "first"), data, &err), HS_NOT_FOUND, &err,
                     "00000-of-00002");
        assert_tensor(&reader, "second", &xyz);
    }
    hs__bundle_reader_close(&reader);
}

/* Bundles of other writers. */

static void assert_header(const Hs__Pb__BundleHeaderProto *header, hs_code code, const char *first, const char *second)
{
    hs__bundle_reader reader;
    index_begin();
    index_put_message("", &header->base);
    index_end();
    assert_fails(hs__bundle_reader_open(&reader, &t.env, PREFIX, &err), code, &err, first);
    assert_contains(err.message, second);
    assert_contains(err.message, INDEX);
}

static void tb_022_readers_may_be_too_old(void **state)
{
    (void)state;
    Hs__Pb__VersionDef version = HS__PB__VERSION_DEF__INIT;
    Hs__Pb__BundleHeaderProto header = HS__PB__BUNDLE_HEADER_PROTO__INIT;
    header.num_shards = 1;
    header.version = &version;
    version.producer = 2;
    version.min_consumer = 2;
    assert_header(&header, HS_INVALID_ARGUMENT, "version 2 or later", "this is version 1");
}

static void readers_may_be_excluded(void **state)
{
    (void)state;
    int32_t bad[] = {7, 1};
    Hs__Pb__VersionDef version = HS__PB__VERSION_DEF__INIT;
    Hs__Pb__BundleHeaderProto header = HS__PB__BUNDLE_HEADER_PROTO__INIT;
    header.num_shards = 1;
    header.version = &version;
    version.producer = 1;
    version.bad_consumers = bad;
    version.n_bad_consumers = 2;
    assert_header(&header, HS_INVALID_ARGUMENT, "by readers of version 1", "");
}

static void tb_023_writers_may_be_too_old(void **state)
{
    (void)state;
    Hs__Pb__VersionDef version = HS__PB__VERSION_DEF__INIT;
    Hs__Pb__BundleHeaderProto header = HS__PB__BUNDLE_HEADER_PROTO__INIT;
    header.num_shards = 1;
    header.version = &version;
    version.producer = -1;
    assert_header(&header, HS_INVALID_ARGUMENT, "version -1", "is 0");
}

static void newer_writers_and_headers_without_a_version_are_read(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        Hs__Pb__VersionDef version = HS__PB__VERSION_DEF__INIT;
        Hs__Pb__BundleHeaderProto header = HS__PB__BUNDLE_HEADER_PROTO__INIT;
        version.producer = 99;
        version.min_consumer = 1;
        header.num_shards = 1;
        header.version = i ? &version : NULL;
        index_begin();
        index_put_message("", &header.base);
        index_end();
        hs__bundle_reader reader = open_bundle();
        hs__bundle_reader_close(&reader);
    }
}

/* Older writers stored lengths with 32 bits. Lengths that fit are still stored so. */
static void tb_009_strings_of_an_older_writer(void **state)
{
    (void)state;
    static unsigned char data[4 + 4 + 5 + 1024] = {0, 5, 0x80, 0x08}; /* 0, 5 and 1024, as varints of 32 bits */
    static const uint32_t lengths[] = {0, 5, 1024};
    unsigned char number[4];
    char cs[1024];
    const size_t n = 4;
    uint32_t crc = 0;
    for (int i = 0; i < 3; i++) {
        hs__put32(number, lengths[i]);
        crc = hs__crc32c(crc, number, sizeof number);
    }
    hs__put32(data + n, hs__crc32c_mask(crc));
    memset(cs, 'c', sizeof cs);
    memcpy(data + n + 4, "hello", 5);
    memcpy(data + n + 9, cs, sizeof cs);
    size_t bytes = n + 9 + sizeof cs;
    test_write_file(DATA_FILE, data, bytes);
    index_begin();
    index_put_header(1);
    index_put_claim("strs", &(claim){.dtype = HS_STRING,
                                     .n_dims = 1,
                                     .dims = {3},
                                     .size = (int64_t)bytes,
                                     .crc = hs__crc32c(crc, data + n, bytes - n)});
    index_end();
    const hs_string strings[] = {{"", 0}, {"hello", 5}, {cs, sizeof cs}};
    const hs_tensor expected = hs_tensor_of(HS_STRING, HS_SHAPE(3), strings);
    hs__bundle_reader reader = open_bundle();
    assert_tensor(&reader, "strs", &expected);
    hs__bundle_reader_close(&reader);
}

/* Failures of memory and files. */

static hs_code read_all(test_env *env, void *user)
{
    (void)user;
    hs__bundle_reader reader;
    char data[1000];
    hs_code code = hs__bundle_reader_open(&reader, &env->env, PREFIX, NULL);
    if (code)
        return code;
    for (size_t i = 0; i < reader.n_entries && !code; i++) {
        assert_true(hs__bundle_read_bytes(&reader.entries[i]) <= sizeof data);
        if (!(code = hs__bundle_read(&reader, &reader.entries[i], data, NULL)))
            code = hs__bundle_verify(&reader, &reader.entries[i], NULL);
    }
    hs__bundle_reader_close(&reader);
    return code;
}

static void reading_may_fail_anywhere(void **state)
{
    (void)state;
    const hs_string strings[] = {{"one", 3}, {"three", 5}};
    char names[20][20];
    named_tensor tensors[21];
    for (size_t i = 0; i < 20; i++) {
        snprintf(names[i], sizeof names[i], "x%zu", i);
        tensors[i] = (named_tensor){names[i], hs_tensor_of(HS_UINT8, HS_SHAPE(3), "abc")};
    }
    tensors[20] = (named_tensor){"s", hs_tensor_of(HS_STRING, HS_SHAPE(2), strings)};
    write_bundle(tensors, 21);
    test_each_allocation(read_all, NULL);
    test_each_file_call(read_all, NULL, EIO, false, NULL);
    test_each_file_call(read_all, NULL, EACCES, true, NULL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(tb_002_tb_003_every_type_comes_back_in_the_order_of_names),
        TEST(tb_008_tb_032s_scalars_and_empty_tensors_come_back),
        TEST(tb_032s_an_empty_tensor_takes_no_bytes),
        TEST(tb_010_strings_come_back),
        TEST(tensors_larger_than_a_piece_come_back),
        TEST(thousands_of_tensors_are_found),
        TEST(tb_016_a_missing_bundle_is_not_found),
        TEST(tb_043s_an_unknown_name_is_not_found),
        TEST(a_missing_data_file_is_not_found),
        TEST(tb_033s_bytes_after_the_data_are_ignored),
        TEST(data_may_be_in_several_files),
        TEST(other_files_are_read_if_one_is_missing),
        TEST(tb_022_readers_may_be_too_old),
        TEST(readers_may_be_excluded),
        TEST(tb_023_writers_may_be_too_old),
        TEST(newer_writers_and_headers_without_a_version_are_read),
        TEST(tb_009_strings_of_an_older_writer),
        TEST(reading_may_fail_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
