/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/safetensors_files.h"

static const float one_two[2] = {1, 2};
static const int8_t bytes_3[3] = {1, -2, 3};

static const hs_dtype dtypes[] = {
    HS_DOUBLE, HS_FLOAT,  HS_HALF,   HS_BFLOAT16, HS_INT64, HS_INT32, HS_INT16,
    HS_INT8,   HS_UINT64, HS_UINT32, HS_UINT16,   HS_UINT8, HS_BOOL,  HS_COMPLEX64,
};
enum { N_DTYPES = sizeof dtypes / sizeof *dtypes };

/* Bytes that are valid for all types, including BOOL. */
static const unsigned char zeros_and_ones[1024] = {[3] = 1, 1, 0, 1, 1, 0, 0, 1, [100] = 1, [513] = 1};

static hs_tensor floats(const float *data)
{
    return hs_tensor_of(HS_FLOAT, HS_SHAPE(2), data);
}

static hs_code declare(hs__safetensors_writer *writer, const char *name, hs_dtype dtype, hs_shape shape)
{
    return hs__safetensors_writer_declare(writer, name, dtype, &shape, 0, &err);
}

/* The file. */

static void the_file_has_these_bytes(void **state)
{
    (void)state;
    const named_tensor tensors[] = {{"b", hs_tensor_of(HS_INT8, HS_SHAPE(3), bytes_3)}, {"w/\"x\"", floats(one_two)}};
    size_t bytes, data;
    write_file(tensors, 2, HS_SAFETENSORS_METADATA({"format", "pt"}, {"by", "a\nb"}));
    char *header = header_text(&data);
    assert_string_equal(header, "{\"__metadata__\":{\"format\":\"pt\",\"by\":\"a\\nb\"},"
                                "\"w/\\\"x\\\"\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
                                "\"b\":{\"dtype\":\"I8\",\"shape\":[3],\"data_offsets\":[8,11]}}");
    free(header);
    char *file = test_read_file(FILE_PATH, &bytes);
    assert_int_equal(data, 192);
    assert_int_equal(bytes, data + 11);
    assert_memory_equal(file + data, one_two, 8);
    assert_memory_equal(file + data + 8, bytes_3, 3);
    free(file);
}

static void a_file_may_have_no_tensors(void **state)
{
    (void)state;
    size_t data;
    write_file(NULL, 0, NULL);
    char *header = header_text(&data);
    assert_string_equal(header, "{}");
    assert_int_equal(data, 64);
    free(header);
    hs__safetensors_reader reader = open_file();
    assert_int_equal(reader.header.n, 0);
    hs__safetensors_reader_close(&reader);
}

/* One tensor of each type, with an odd number of elements. */
static void make_one_of_each(named_tensor *tensors)
{
    for (size_t i = 0; i < N_DTYPES; i++)
        tensors[i] = (named_tensor){hs_dtype_name(dtypes[i]), hs_tensor_of(dtypes[i], HS_SHAPE(3, 5), zeros_and_ones)};
}

static void every_tensor_is_aligned(void **state)
{
    (void)state;
    named_tensor tensors[N_DTYPES];
    make_one_of_each(tensors);
    write_file(tensors, N_DTYPES, NULL);
    hs__safetensors_reader reader = open_file();
    assert_int_equal(reader.data % 64, 0);
    for (size_t i = 0; i < N_DTYPES; i++) {
        const hs__safetensors_entry *entry = &reader.header.entries[i];
        assert_int_equal(entry->offset % hs_dtype_size(entry->dtype), 0);
    }
    hs__safetensors_reader_close(&reader);
}

static void the_order_of_declarations_does_not_matter(void **state)
{
    (void)state;
    named_tensor tensors[N_DTYPES], backwards[N_DTYPES];
    size_t bytes, again;
    make_one_of_each(tensors);
    for (size_t i = 0; i < N_DTYPES; i++)
        backwards[i] = tensors[N_DTYPES - 1 - i];
    write_file(tensors, N_DTYPES, NULL);
    char *first = test_read_file(FILE_PATH, &bytes);
    write_file(backwards, N_DTYPES, NULL);
    char *second = test_read_file(FILE_PATH, &again);
    assert_int_equal(bytes, again);
    assert_memory_equal(first, second, bytes);
    free(first);
    free(second);
}

/* Round trips. */

static void every_dtype_comes_back(void **state)
{
    (void)state;
    named_tensor tensors[N_DTYPES];
    make_one_of_each(tensors);
    write_file(tensors, N_DTYPES, NULL);
    hs__safetensors_reader reader = open_file();
    assert_int_equal(reader.header.n, N_DTYPES);
    for (size_t i = 0; i < N_DTYPES; i++)
        assert_stored(&reader, tensors[i].name, &tensors[i].value);
    hs__safetensors_reader_close(&reader);
}

static void every_shape_comes_back(void **state)
{
    (void)state;
    const named_tensor tensors[] = {
        {"scalar", hs_tensor_of(HS_DOUBLE, HS_SCALAR, zeros_and_ones)},
        {"one", hs_tensor_of(HS_INT64, HS_SHAPE(1), zeros_and_ones)},
        {"empty", hs_tensor_of(HS_FLOAT, HS_SHAPE(0, 5), NULL)},
        {"empty inside", hs_tensor_of(HS_INT32, HS_SHAPE(16, 0, 18), NULL)},
        {"empty, too", hs_tensor_of(HS_UINT8, HS_SHAPE(0), NULL)},
        {"rank 8", hs_tensor_of(HS_INT16, HS_SHAPE(1, 2, 1, 3, 1, 2, 2, 1), zeros_and_ones)},
        {"long", hs_tensor_of(HS_BOOL, HS_SHAPE(1024), zeros_and_ones)},
    };
    enum { N = sizeof tensors / sizeof *tensors };
    write_file(tensors, N, NULL);
    hs__safetensors_reader reader = open_file();
    for (size_t i = 0; i < N; i++)
        assert_stored(&reader, tensors[i].name, &tensors[i].value);
    assert_int_equal(hs__safetensors_find(&reader, "Scalar"), HS__NONE);
    hs__safetensors_reader_close(&reader);
}

static void two_thousand_tensors_come_back(void **state)
{
    (void)state;
    enum { N = 2000 };
    static named_tensor tensors[N];
    static char names[N][40];
    static float numbers[N][3];
    for (size_t i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "layer_%zu/kernel", i);
        numbers[i][0] = (float)i;
        tensors[i] = (named_tensor){names[i], hs_tensor_of(HS_FLOAT, HS_SHAPE(3), numbers[i])};
    }
    write_file(tensors, N, NULL);
    hs__safetensors_reader reader = open_file();
    assert_int_equal(reader.header.n, N);
    for (size_t i = 0; i < N; i++)
        assert_stored(&reader, names[i], &tensors[i].value);
    hs__safetensors_reader_close(&reader);
}

static void names_of_any_characters_come_back(void **state)
{
    (void)state;
    static const char *const names[] = {"\"", "\\", "a\nb\t\x01", "{}[]:,", "\xc3\xbc", "\xf0\x9f\x98\x80", " ", "\x7f"};
    enum { N = sizeof names / sizeof *names };
    named_tensor tensors[N];
    for (size_t i = 0; i < N; i++)
        tensors[i] = (named_tensor){names[i], floats(one_two)};
    write_file(tensors, N, HS_SAFETENSORS_METADATA({"\xc3\xbc\"", "\\\xf0\x9f\x98\x80\x01"}));
    hs__safetensors_reader reader = open_file();
    for (size_t i = 0; i < N; i++)
        assert_stored(&reader, names[i], &tensors[i].value);
    hs__safetensors_reader_close(&reader);
}

static void pieces_may_be_written_and_read(void **state)
{
    (void)state;
    hs__safetensors_writer writer;
    hs_tensor whole = hs_tensor_of(HS_UINT8, HS_SHAPE(1000), zeros_and_ones);
    hs__safetensors_writer_init(&writer, &t.env);
    assert_ok(declare(&writer, "x", HS_UINT8, HS_SHAPE(1000)), &err);
    assert_ok(hs__safetensors_writer_begin(&writer, FILE_PATH, NULL, &err), &err);
    for (size_t done = 0; done < 1000; done += 125)
        assert_ok(hs__safetensors_writer_write(&writer, zeros_and_ones + done, 125, &err), &err);
    assert_ok(hs__safetensors_writer_finish(&writer, &err), &err);
    hs__safetensors_writer_close(&writer);
    unsigned char piece[200];
    hs__safetensors_reader reader = open_file();
    assert_stored(&reader, "x", &whole);
    assert_ok(hs__safetensors_read(&reader, reader.header.entries, 400, piece, sizeof piece, &err), &err);
    assert_memory_equal(piece, zeros_and_ones + 400, sizeof piece);
    hs__safetensors_reader_close(&reader);
}

/* Invalid calls. */

static void data_has_the_declared_size(void **state)
{
    (void)state;
    hs__safetensors_writer writer;
    hs__safetensors_writer_init(&writer, &t.env);
    assert_ok(declare(&writer, "x", HS_FLOAT, HS_SHAPE(2)), &err);
    assert_ok(hs__safetensors_writer_begin(&writer, FILE_PATH, NULL, &err), &err);
    assert_ok(hs__safetensors_writer_write(&writer, one_two, 4, &err), &err);
    assert_fails(hs__safetensors_writer_finish(&writer, &err), HS_FAILED_PRECONDITION, &err, "4 bytes are still missing");
    assert_fails(hs__safetensors_writer_write(&writer, one_two, 5, &err), HS_FAILED_PRECONDITION, &err, "only 4 remain");
    hs__safetensors_writer_close(&writer);
}

static void assert_refused(const named_tensor *tensors, size_t n, const hs_safetensors_pair *metadata, const char *why)
{
    assert_fails(try_write_file(&t.env, tensors, n, metadata), HS_INVALID_ARGUMENT, &err, why);
    assert_false(test_exists(directory, "m.safetensors"));
}

static void names_are_checked(void **state)
{
    (void)state;
    const named_tensor twice[] = {{"x", floats(one_two)}, {"x", floats(one_two)}};
    assert_refused(twice, 2, NULL, "two tensors to save have the name 'x'");
    assert_refused(&(named_tensor){"", floats(one_two)}, 1, NULL, "an empty name");
    assert_refused(&(named_tensor){"__metadata__", floats(one_two)}, 1, NULL, "'__metadata__'");
    assert_refused(&(named_tensor){"x\xff", floats(one_two)}, 1, NULL, "is not UTF-8");
}

static void metadata_is_checked(void **state)
{
    (void)state;
    assert_refused(NULL, 0, HS_SAFETENSORS_METADATA({"a", "1"}, {"b", "2"}, {"a", "3"}), "metadata 'a' is given twice");
    assert_refused(NULL, 0, HS_SAFETENSORS_METADATA({"a", NULL}), "metadata 'a': the value is NULL");
    assert_refused(NULL, 0, HS_SAFETENSORS_METADATA({"a", "\xc3"}), "is not UTF-8");
    assert_refused(NULL, 0, HS_SAFETENSORS_METADATA({"\xed\xa0\x80", "a surrogate"}), "is not UTF-8");
}

static void dtypes_without_a_name_in_the_format_are_refused(void **state)
{
    (void)state;
    static const hs_dtype others[] = {HS_STRING, HS_COMPLEX128, HS_QINT8, HS_QUINT8, HS_QINT16, HS_QUINT16, HS_QINT32};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        const named_tensor tensor = {"layer/x", hs_tensor_of(others[i], HS_SHAPE(0), NULL)};
        assert_refused(&tensor, 1, NULL, "'layer/x' has dtype ");
        assert_contains(err.message, hs_dtype_name(others[i]));
    }
}

static void sums_of_sizes_do_not_overflow(void **state)
{
    (void)state;
    const int64_t half = (int64_t)1 << 62;
    hs__safetensors_writer writer;
    hs__safetensors_writer_init(&writer, &t.env);
    assert_fails(declare(&writer, "a", HS_DOUBLE, HS_SHAPE(half)), HS_INVALID_ARGUMENT, &err, "'a' has an invalid shape");
    assert_fails(declare(&writer, "a", HS_UINT8, HS_SHAPE(-1)), HS_INVALID_ARGUMENT, &err, "'a' has an invalid shape");
    assert_ok(declare(&writer, "a", HS_UINT8, HS_SHAPE(half)), &err);
    assert_ok(declare(&writer, "b", HS_UINT8, HS_SHAPE(half)), &err);
    assert_fails(hs__safetensors_writer_begin(&writer, FILE_PATH, NULL, &err), HS_INVALID_ARGUMENT, &err, "too large");
    hs__safetensors_writer_close(&writer);
}

/* A header may have at most a hundred million bytes. */
static void a_header_that_readers_refuse_is_not_written(void **state)
{
    (void)state;
    size_t length = HS__SAFETENSORS_MAX_HEADER;
    char *name = malloc(length + 1);
    memset(name, 'x', length);
    name[length] = '\0';
    assert_refused(&(named_tensor){name, floats(one_two)}, 1, NULL, "readers accept 100000000");
    free(name);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(the_file_has_these_bytes),
        TEST(a_file_may_have_no_tensors),
        TEST(every_tensor_is_aligned),
        TEST(the_order_of_declarations_does_not_matter),
        TEST(every_dtype_comes_back),
        TEST(every_shape_comes_back),
        TEST(two_thousand_tensors_come_back),
        TEST(names_of_any_characters_come_back),
        TEST(pieces_may_be_written_and_read),
        TEST(data_has_the_declared_size),
        TEST(names_are_checked),
        TEST(metadata_is_checked),
        TEST(dtypes_without_a_name_in_the_format_are_refused),
        TEST(sums_of_sizes_do_not_overflow),
        TEST(a_header_that_readers_refuse_is_not_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
