/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/bundles.h"

#include "base/crc32c.h"
#include "base/proto.h"

#include <errno.h>
#include <math.h>

static const float one_two[2] = {1, 2};

static hs_tensor floats(hs_shape shape, const float *data)
{
    return hs_tensor_of(HS_FLOAT, shape, data);
}

/* The files. */

static void tb_026s_the_index_has_these_bytes(void **state)
{
    (void)state;
    static const unsigned char start[] = {0,    0,    6,    0x08, 0x01, 0x1a, 0x02, 0x08, 0x01, 0,    1,    15,
                                          'x',  0x08, 0x01, 0x12, 0x04, 0x12, 0x02, 0x08, 0x02, 0x28, 0x08, 0x35,
                                          0x59, 0x3c, 0xe5, 0x35, 0,    0,    0,    0,    1,    0,    0,    0};
    write_bundle(&(named_tensor){"x", floats(HS_SHAPE(2), one_two)}, 1);
    size_t bytes;
    char *index = test_read_file(INDEX, &bytes);
    assert_int_equal(bytes, 121);
    assert_memory_equal(index, start, sizeof start);
    free(index);
}

static void tb_021_the_header_has_the_empty_key(void **state)
{
    (void)state;
    size_t bytes;
    write_bundle(&(named_tensor){"x", floats(HS_SHAPE(2), one_two)}, 1);
    unsigned char *value = index_value("", &bytes);
    Hs__Pb__BundleHeaderProto *header = hs__pb__bundle_header_proto__unpack(NULL, bytes, value);
    assert_int_equal(header->num_shards, 1);
    assert_int_equal(header->endianness, HS__PB__BUNDLE_HEADER_PROTO__ENDIANNESS__LITTLE);
    assert_int_equal(header->version->producer, 1);
    assert_int_equal(header->version->min_consumer, 0);
    hs__pb__bundle_header_proto__free_unpacked(header, NULL);
    free(value);
}

/* Two tensors in the second of three data files. */
static void write_second_shard(void)
{
    static const double numbers[6] = {1, 2, 3, 4, 5, 6};
    hs_tensor first = floats(HS_SHAPE(2), one_two), second = hs_tensor_of(HS_DOUBLE, HS_SHAPE(3, 2), numbers);
    hs__bundle_writer writer;
    assert_ok(hs__bundle_writer_open(&writer, &t.env, in("b.data-00001-of-00003"), 1, 3, &err), &err);
    assert_ok(hs__bundle_writer_add(&writer, "first", &first, &err), &err);
    assert_ok(hs__bundle_writer_add(&writer, "second", &second, &err), &err);
    assert_ok(hs__bundle_writer_finish(&writer, INDEX, &err), &err);
    hs__bundle_writer_close(&writer);
}

static void tb_046s_fields_have_these_numbers(void **state)
{
    (void)state;
    static const unsigned char header[] = {0x08, 3, 0x1a, 2, 0x08, 1};
    static const unsigned char entry[] = {0x08, 2, 0x12, 8, 0x12, 2, 0x08, 3,  0x12, 2,
                                          0x08, 2, 0x18, 1, 0x20, 8, 0x28, 48, 0x35};
    size_t bytes;
    write_second_shard();
    unsigned char *value = index_value("", &bytes);
    assert_int_equal(bytes, sizeof header);
    assert_memory_equal(value, header, bytes);
    free(value);
    value = index_value("second", &bytes);
    assert_int_equal(bytes, sizeof entry + 4);
    assert_memory_equal(value, entry, sizeof entry);
    free(value);
}

static void numbers_are_stored_as_in_memory(void **state)
{
    (void)state;
    static const int16_t more[3] = {1, -2, 3};
    const named_tensor tensors[] = {
        {"b", floats(HS_SHAPE(2), one_two)},
        {"none", floats(HS_SHAPE(0), NULL)},
        {"a", hs_tensor_of(HS_INT16, HS_SHAPE(3), more)},
    };
    size_t bytes;
    write_bundle(tensors, 3);
    char *data = test_read_file(DATA_FILE, &bytes); /* in the order in which they were added */
    assert_int_equal(bytes, sizeof one_two + sizeof more);
    assert_memory_equal(data, one_two, sizeof one_two);
    assert_memory_equal(data + sizeof one_two, more, sizeof more);
    free(data);
}

static void tb_030s_the_checksum_of_an_entry_is_masked(void **state)
{
    (void)state;
    size_t bytes;
    write_bundle(&(named_tensor){"x", floats(HS_SHAPE(2), one_two)}, 1);
    unsigned char *value = index_value("x", &bytes);
    assert_int_equal(hs__get32(value + bytes - 4), hs__crc32c_mask(hs__crc32c(0, one_two, sizeof one_two)));
    free(value);
}

static void tb_010_strings_have_their_lengths_first(void **state)
{
    (void)state;
    char large[300];
    memset(large, 'c', sizeof large);
    const hs_string strings[] = {{"hi", 2}, {NULL, 0}, {large, 300}};
    static const unsigned char lengths[] = {2, 0, 0xac, 2}, as_fixed[] = {2, 0, 0, 0, 0, 0, 0, 0, 0x2c, 1, 0, 0};
    size_t bytes;
    write_bundle(&(named_tensor){"s", hs_tensor_of(HS_STRING, HS_SHAPE(3), strings)}, 1);
    unsigned char *data = (unsigned char *)test_read_file(DATA_FILE, &bytes);
    assert_int_equal(bytes, 4 + 4 + 2 + 300);
    assert_memory_equal(data, lengths, 4);
    assert_int_equal(hs__get32(data + 4), hs__crc32c_mask(hs__crc32c(0, as_fixed, sizeof as_fixed)));
    assert_memory_equal(data + 8, "hicc", 4);
    uint32_t crc = hs__crc32c(hs__crc32c(0, as_fixed, sizeof as_fixed), data + 4, bytes - 4);
    free(data);
    unsigned char *entry = index_value("s", &bytes);
    assert_int_equal(hs__get32(entry + bytes - 4), hs__crc32c_mask(crc));
    free(entry);
}

static void tb_025_tensors_may_be_aligned(void **state)
{
    (void)state;
    static const char bytes[100] = "some bytes of which there are up to a hundred";
    const hs_string word = {"word", 4};
    named_tensor tensors[10];
    char names[10][16];
    hs__bundle_writer writer;
    assert_ok(hs__bundle_writer_open(&writer, &t.env, DATA_FILE, 0, 1, &err), &err);
    writer.alignment = 42;
    for (int i = 0; i < 10; i++) {
        snprintf(names[i], sizeof names[i], "x%d", i);
        tensors[i] = (named_tensor){names[i], hs_tensor_of(HS_UINT8, HS_SHAPE(11 * i), bytes)};
        if (i == 7)
            tensors[i].value = hs_tensor_of(HS_STRING, HS_SCALAR, &word);
        assert_ok(hs__bundle_writer_add(&writer, names[i], &tensors[i].value, &err), &err);
    }
    assert_ok(hs__bundle_writer_finish(&writer, INDEX, &err), &err);
    hs__bundle_writer_close(&writer);
    hs__bundle_reader reader = open_bundle();
    for (int i = 0; i < 10; i++) {
        assert_int_equal(find_entry(&reader, names[i])->offset % 42, 0);
        assert_tensor(&reader, names[i], &tensors[i].value);
    }
    hs__bundle_reader_close(&reader);
}

static unsigned char kept[64];
static size_t n_kept;

/* A file that keeps only its beginning. */
static hs_code write_beginning(void *user, void *data_file, const void *data, size_t bytes, hs_error *error)
{
    (void)user, (void)data_file, (void)error;
    size_t n = bytes < sizeof kept - n_kept ? bytes : sizeof kept - n_kept;
    memcpy(kept + n_kept, data, n);
    n_kept += n;
    return HS_OK;
}

static void lengths_beyond_32_bits_are_checksummed_as_64(void **state)
{
    (void)state;
    static const unsigned char length[] = {0x80, 0x80, 0x80, 0x80, 0x10}, fixed[8] = {0, 0, 0, 0, 1};
    if (SIZE_MAX == UINT32_MAX)
        test_skip("a size_t has 32 bits");
    hs_string large = {.bytes = (size_t)UINT32_MAX + 1};
    char *zeros = calloc(large.bytes, 1); /* only read, so the system maps no memory */
    if (!zeros)
        test_skip("calloc refuses 4 GiB");
    large.data = zeros;
    hs_file_system_ops ops = *t.env.files.ops;
    ops.write = write_beginning;
    hs_env env = t.env;
    env.files.ops = &ops;
    n_kept = 0;
    assert_ok(try_write_bundle(&env, &(named_tensor){"s", hs_tensor_of(HS_STRING, HS_SCALAR, &large)}, 1), &err);
    assert_memory_equal(kept, length, 5);
    assert_int_equal(hs__get32(kept + 5), hs__crc32c_mask(hs__crc32c(0, fixed, 8)));
    free(zeros);
}

static void files_are_named_by_shard(void **state)
{
    (void)state;
    static const struct {
        int32_t shard, shards;
        const char *path;
    } rows[] = {{0, 1, "run/m.data-00000-of-00001"},
                {1, 2, "run/m.data-00001-of-00002"},
                {123456, 200000, "run/m.data-123456-of-200000"}};
    for (size_t i = 0; i < 3; i++) {
        char *path = hs__bundle_data_path(&t.env, "run/m", rows[i].shard, rows[i].shards);
        assert_string_equal(path, rows[i].path);
        hs__free(&t.env, path);
    }
    char *path = hs__bundle_index_path(&t.env, "run/m");
    assert_string_equal(path, "run/m.index");
    hs__free(&t.env, path);
}

/* Invalid calls. */

static hs__bundle_writer open_writer(void)
{
    hs__bundle_writer writer;
    assert_ok(hs__bundle_writer_open(&writer, &t.env, DATA_FILE, 0, 1, &err), &err);
    return writer;
}

/* Asserts that all later calls fail with the same code, and that no index is written. */
static void assert_stays_failed(hs__bundle_writer *writer, hs_code code)
{
    hs_tensor sound = floats(HS_SHAPE(2), one_two);
    assert_fails(hs__bundle_writer_add(writer, "sound", &sound, &err), code, &err, "");
    assert_fails(hs__bundle_writer_finish(writer, INDEX, &err), code, &err, "");
    assert_false(test_exists(directory, "b.index"));
    hs__bundle_writer_close(writer);
}

static void tb_014_a_name_can_be_added_once(void **state)
{
    (void)state;
    hs_tensor value = floats(HS_SHAPE(2), one_two);
    hs__bundle_writer writer = open_writer();
    assert_ok(hs__bundle_writer_add(&writer, "foo", &value, &err), &err);
    assert_fails(hs__bundle_writer_add(&writer, "foo", &value, &err), HS_INVALID_ARGUMENT, &err, "'foo'");
    assert_stays_failed(&writer, HS_INVALID_ARGUMENT);
}

static void tb_015_finish_succeeds_once(void **state)
{
    (void)state;
    hs_tensor value = floats(HS_SHAPE(2), one_two);
    hs__bundle_writer writer = open_writer();
    assert_ok(hs__bundle_writer_finish(&writer, INDEX, &err), &err);
    assert_fails(hs__bundle_writer_finish(&writer, INDEX, &err), HS_FAILED_PRECONDITION, &err, "");
    assert_fails(hs__bundle_writer_add(&writer, "late", &value, &err), HS_FAILED_PRECONDITION, &err, "");
    hs__bundle_writer_close(&writer);
    hs__bundle_reader reader = open_bundle();
    assert_int_equal(reader.n_entries, 0);
    hs__bundle_reader_close(&reader);
}

static void tb_035s_the_empty_name_is_reserved(void **state)
{
    (void)state;
    hs_tensor value = floats(HS_SHAPE(2), one_two);
    hs__bundle_writer writer = open_writer();
    assert_fails(hs__bundle_writer_add(&writer, "", &value, &err), HS_INVALID_ARGUMENT, &err, "empty name");
    assert_stays_failed(&writer, HS_INVALID_ARGUMENT);
}

static void invalid_tensors_are_named(void **state)
{
    (void)state;
    hs_tensor no_data = floats(HS_SHAPE(2), NULL);
    hs__bundle_writer writer = open_writer();
    assert_fails(hs__bundle_writer_add(&writer, "w", &no_data, &err), HS_INVALID_ARGUMENT, &err, "'w': ");
    assert_stays_failed(&writer, HS_INVALID_ARGUMENT);
}

static void tb_035s_a_full_disk_fails_all_later_calls(void **state)
{
    (void)state;
    static const float many[1 << 22]; /* several buffers, so that it is written immediately */
    hs_tensor value = floats(HS_SHAPE(1 << 22), many);
    hs__bundle_writer writer = open_writer();
    t.fail_file_at = t.file_calls + 1;
    assert_fails(hs__bundle_writer_add(&writer, "a", &value, &err), HS_RESOURCE_EXHAUSTED, &err, "");
    assert_stays_failed(&writer, HS_RESOURCE_EXHAUSTED);
}

static void a_missing_directory_is_not_found(void **state)
{
    (void)state;
    hs__bundle_writer writer;
    assert_fails(hs__bundle_writer_open(&writer, &t.env, in("none/data"), 0, 1, &err), HS_NOT_FOUND, &err, in("none/data"));
    hs__bundle_writer_close(&writer);
}

static void an_index_that_cannot_be_created_fails(void **state)
{
    (void)state;
    hs__bundle_writer writer = open_writer();
    assert_fails(hs__bundle_writer_finish(&writer, in("none/index"), &err), HS_NOT_FOUND, &err, in("none/index"));
    hs__bundle_writer_close(&writer);
}

static void a_writer_may_be_closed_without_finish(void **state)
{
    (void)state;
    hs_tensor value = floats(HS_SHAPE(2), one_two);
    hs__bundle_writer writer = open_writer();
    assert_ok(hs__bundle_writer_add(&writer, "a", &value, &err), &err);
    hs__bundle_writer_close(&writer);
    assert_true(test_exists(directory, "b.data-00000-of-00001"));
    assert_false(test_exists(directory, "b.index"));
}

/* Numbers that come in pieces. */

typedef struct {
    const char *from;
    size_t bytes;
    hs_code code;
} supply;

/* In pieces of a whole number of floats. */
static hs_code produce(void *source, hs__bundle_write_fn put, void *user, hs_error *error)
{
    enum { PIECE = 1000 };
    const supply *s = source;
    hs_code code = HS_OK;
    for (size_t at = 0; !code && at < s->bytes; at += PIECE)
        code = put(user, s->from + at, s->bytes - at < PIECE ? s->bytes - at : PIECE, error);
    return s->code ? hs_error_set(error, s->code, "no more") : code;
}

static void numbers_may_be_added_in_pieces(void **state)
{
    (void)state;
    enum { N = (1 << 17) + 5 }; /* several pieces and a part of one */
    static float numbers[N] = {[1 << 16] = 3, [N - 1] = -INFINITY};
    hs_shape shape = HS_SHAPE(N);
    hs_tensor whole = floats(shape, numbers);
    hs__bundle_writer writer = open_writer();
    assert_ok(hs__bundle_writer_add_from(&writer, "x", HS_FLOAT, &shape, produce,
                                         &(supply){(char *)numbers, sizeof numbers, HS_OK}, &err),
              &err);
    assert_ok(hs__bundle_writer_add(&writer, "after", &(hs_tensor){.dtype = HS_FLOAT, .dims = {0}, .rank = 1}, &err), &err);
    assert_int_equal(writer.nonfinite.first_index, N - 1);
    assert_int_equal(writer.nonfinite.negative_infinity, 1);
    assert_ok(hs__bundle_writer_finish(&writer, INDEX, &err), &err);
    hs__bundle_writer_close(&writer);
    hs__bundle_reader reader = open_bundle();
    assert_tensor(&reader, "x", &whole);
    hs__bundle_reader_close(&reader);
}

static void a_failing_source_of_pieces_fails(void **state)
{
    (void)state;
    hs_shape shape = HS_SHAPE(2), impossible = HS_SHAPE((int64_t)1 << 62);
    supply s = {(const char *)one_two, 8, HS_UNAVAILABLE};
    hs__bundle_writer writer = open_writer();
    assert_fails(hs__bundle_writer_add_from(&writer, "x", HS_FLOAT, &shape, produce, &s, &err), HS_UNAVAILABLE, &err,
                 "no more");
    assert_fails(hs__bundle_writer_add_from(&writer, "y", HS_FLOAT, &shape, produce, &s, &err), HS_UNAVAILABLE, &err, "");
    assert_stays_failed(&writer, HS_UNAVAILABLE);
    writer = open_writer();
    assert_fails(hs__bundle_writer_add_from(&writer, "x", HS_FLOAT, &impossible, produce, &s, &err), HS_INVALID_ARGUMENT,
                 &err, "'x' has an invalid shape");
    hs__bundle_writer_close(&writer);
}

static void a_source_of_pieces_must_give_the_size_of_the_shape(void **state)
{
    (void)state;
    const hs_shape shape = HS_SHAPE(2), empty = HS_SHAPE(0);
    const struct {
        const hs_shape *shape;
        size_t bytes;
        const char *why;
    } cases[] = {{&shape, 4, "'x' has 4 bytes, but its shape needs 8"},
                 {&shape, 0, "'x' has 0 bytes, but its shape needs 8"},
                 {&empty, 8, "'x' has 8 bytes, but its shape needs 0"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        supply s = {(const char *)one_two, cases[i].bytes, HS_OK};
        hs__bundle_writer writer = open_writer();
        assert_fails(hs__bundle_writer_add_from(&writer, "x", HS_FLOAT, cases[i].shape, produce, &s, &err), HS_INTERNAL,
                     &err, cases[i].why);
        assert_stays_failed(&writer, HS_INTERNAL);
    }
}

/* Failures. */

static hs_code write_some(test_env *env, void *user)
{
    (void)user;
    static float numbers[12][30];
    const hs_string strings[] = {{"one", 3}, {"", 0}, {"three", 5}};
    char names[12][20];
    named_tensor tensors[13];
    for (size_t i = 0; i < 12; i++) {
        snprintf(names[i], sizeof names[i], "layer_%zu/weights", i);
        tensors[i] = (named_tensor){names[i], floats(HS_SHAPE(5, 6), numbers[i])};
    }
    tensors[12] = (named_tensor){"texts", hs_tensor_of(HS_STRING, HS_SHAPE(3), strings)};
    return try_write_bundle(&env->env, tensors, 13);
}

static void writing_may_fail_anywhere(void **state)
{
    (void)state;
    test_each_allocation(write_some, NULL);
    test_each_file_call(write_some, NULL, ENOSPC, false, NULL);
    test_each_file_call(write_some, NULL, EIO, true, NULL);
    hs__bundle_reader reader = open_bundle(); /* the last attempt succeeded */
    assert_int_equal(reader.n_entries, 13);
    hs__bundle_reader_close(&reader);
}

/* No failure is lost: if writing a bundle succeeds, all its calls have succeeded. */
static hs_code write_and_hear(test_env *env, void *user)
{
    hs_code code = write_some(env, user);
    if (code == HS_OK && env->fail_file_at && env->file_calls >= env->fail_file_at)
        fail_msg("file call %zu failed unheard", env->fail_file_at);
    if (code == HS_OK && env->fail_alloc_at && env->allocations >= env->fail_alloc_at)
        fail_msg("allocation %zu failed unheard", env->fail_alloc_at);
    return code;
}

static void every_failure_is_reported(void **state)
{
    (void)state;
    test_each_allocation(write_and_hear, NULL);
    test_each_file_call(write_and_hear, NULL, EIO, false, NULL);
}

/* The zeros before the second tensor are at the start of the second buffer of the data file. */
static hs_code write_aligned(test_env *env, void *user)
{
    static const char bytes[HS__STREAM_BUFFER - 1];
    hs_tensor tensor = hs_tensor_of(HS_UINT8, HS_SHAPE(sizeof bytes), bytes);
    hs__bundle_writer writer;
    (void)user;
    hs_code code = hs__bundle_writer_open(&writer, &env->env, DATA_FILE, 0, 1, &err);
    if (code)
        return code;
    writer.alignment = 42;
    if (!(code = hs__bundle_writer_add(&writer, "a", &tensor, &err)) &&
        !(code = hs__bundle_writer_add(&writer, "b", &tensor, &err)))
        code = hs__bundle_writer_finish(&writer, INDEX, &err);
    hs__bundle_writer_close(&writer);
    return code;
}

static void aligning_may_fail(void **state)
{
    (void)state;
    test_each_allocation(write_aligned, NULL);
    test_each_file_call(write_aligned, NULL, EIO, false, NULL);
}

/* Both files are synced when finish returns, the data first. */

static char trace[2000];

static hs_code note_sync(void *user, void *file, hs_error *error)
{
    strcat(trace, "sync ");
    return t.env.files.ops->sync(user, file, error);
}

static hs_code note_close(void *user, void *file, hs_error *error)
{
    strcat(trace, "close ");
    return t.env.files.ops->close(user, file, error);
}

static hs_code note_open(void *user, const char *path, int mode, void **file, hs_error *error)
{
    strcat(strcat(trace, hs__path_base(path)), " ");
    return t.env.files.ops->open(user, path, mode, file, error);
}

static void finish_syncs_data_and_index(void **state)
{
    (void)state;
    hs_file_system_ops ops = *t.env.files.ops;
    ops.sync = note_sync;
    ops.close = note_close;
    ops.open = note_open;
    hs_env env = t.env;
    env.files.ops = &ops;
    trace[0] = '\0';
    assert_ok(try_write_bundle(&env, &(named_tensor){"x", floats(HS_SHAPE(2), one_two)}, 1), &err);
    assert_string_equal(trace, "b.data-00000-of-00001 sync close b.index sync close ");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(tb_026s_the_index_has_these_bytes),
        TEST(tb_021_the_header_has_the_empty_key),
        TEST(tb_046s_fields_have_these_numbers),
        TEST(numbers_are_stored_as_in_memory),
        TEST(tb_030s_the_checksum_of_an_entry_is_masked),
        TEST(tb_010_strings_have_their_lengths_first),
        TEST(lengths_beyond_32_bits_are_checksummed_as_64),
        TEST(tb_025_tensors_may_be_aligned),
        TEST(files_are_named_by_shard),
        TEST(tb_014_a_name_can_be_added_once),
        TEST(tb_015_finish_succeeds_once),
        TEST(tb_035s_the_empty_name_is_reserved),
        TEST(invalid_tensors_are_named),
        TEST(tb_035s_a_full_disk_fails_all_later_calls),
        TEST(a_missing_directory_is_not_found),
        TEST(an_index_that_cannot_be_created_fails),
        TEST(a_writer_may_be_closed_without_finish),
        TEST(numbers_may_be_added_in_pieces),
        TEST(a_failing_source_of_pieces_fails),
        TEST(a_source_of_pieces_must_give_the_size_of_the_shape),
        TEST(writing_may_fail_anywhere),
        TEST(every_failure_is_reported),
        TEST(aligning_may_fail),
        TEST(finish_syncs_data_and_index),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
