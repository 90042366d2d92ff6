/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "base/crc32c.h"
#include "formats/records.h"

#include <errno.h>

static test_env t;
static char *directory;
static hs_error err;
static hs__buffer file; /* the contents to write */

static int set_up(void **state)
{
    (void)state;
    test_env_init(&t);
    directory = test_make_directory();
    hs_error_clear(&err);
    hs__buffer_init(&file, &t.env);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hs__buffer_free(&file);
    test_remove_directory(directory);
    return t.live ? -1 : 0;
}

static const char *path(void)
{
    return test_path(directory, "records");
}

static hs_record_reader open_reader(size_t bytes)
{
    hs_record_reader reader;
    test_write_file(path(), file.data ? (void *)file.data : "", bytes);
    assert_ok(hs__record_reader_open(&reader, &t.env, path(), HS_RECORDS_PLAIN, HS__SOURCE_WINDOW, &err), &err);
    return reader;
}

static void assert_next(hs_record_reader *reader, const void *data, size_t bytes)
{
    hs_bytes record;
    assert_ok(hs_record_reader_next(reader, &record, &err), &err);
    assert_int_equal(record.size, bytes);
    if (bytes)
        assert_memory_equal(record.data, data, bytes);
}

/* Asserts that reading fails with this code, also when repeated. */
static void assert_stops(hs_record_reader *reader, hs_code code, const char *why)
{
    hs_bytes record;
    for (int i = 0; i < 2; i++) {
        assert_fails(hs_record_reader_next(reader, &record, &err), code, &err, why);
        assert_contains(err.message, path());
    }
}

/* Data of a size, different for each size. */
static unsigned char *data_of(size_t bytes)
{
    unsigned char *data = malloc(bytes + 1);
    assert_non_null(data);
    for (size_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)(i * 7 + bytes + (i >> 8));
    return data;
}

/* Writing. */

static void known_records_have_these_bytes(void **state)
{
    (void)state;
    static const unsigned char expected[] = {
        0x05, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xea, 0xb2, 0x04, 0x3e, 'h',  'o',  'o',  'k',
        's',  0xf1, 0x26, 0xc7, 0x97, /* and an empty one */
        0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x29, 0x03, 0x98, 0x07, 0xd8, 0xea, 0x82, 0xa2,
    };
    hs__record_append(&file, "hooks", 5);
    hs__record_append(&file, NULL, 0);
    assert_int_equal(file.size, sizeof expected);
    assert_memory_equal(file.data, expected, sizeof expected);
}

static void records_are_encoded_in_place(void **state)
{
    (void)state;
    hs__buffer pieces;
    hs__buffer_init(&pieces, &t.env);
    for (int i = 0; i < 2; i++) {
        size_t begun = hs__record_begin(&pieces);
        hs__buffer_append(&pieces, "ho", 2);
        hs__buffer_text(&pieces, "ok%s", "s");
        hs__record_end(&pieces, begun);
        hs__record_append(&file, "hooks", 5);
    }
    assert_int_equal(pieces.size, file.size);
    assert_memory_equal(pieces.data, file.data, file.size);
    hs__buffer_free(&pieces);
}

static hs_code append_some(test_env *env, void *user)
{
    (void)user;
    static const char data[5000];
    hs__buffer buffer;
    hs__buffer_init(&buffer, &env->env);
    for (size_t i = 0; i < 5; i++)
        hs__record_append(&buffer, data, 1000 * i);
    hs_code code = hs__buffer_check(&buffer, "records", NULL);
    hs__buffer_free(&buffer);
    assert_true(code || !env->fail_alloc_at || env->allocations < env->fail_alloc_at); /* no failure is lost */
    return code;
}

/* The bytes are the same as those of records with checksums from the start. */
static void records_may_be_sealed_later(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 5, 5, 300, 0, 5};
    unsigned char data[300];
    hs__buffer later;
    memset(data, 7, sizeof data);
    hs__buffer_init(&later, &t.env);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        hs__record_append(&file, data, sizes[i]);
        size_t begun = hs__record_begin(&later);
        hs__buffer_append(&later, data, sizes[i]);
        hs__record_end_unsealed(&later, begun);
    }
    assert_int_equal(later.size, file.size);
    hs__records_seal(later.data, later.size);
    assert_memory_equal(later.data, file.data, file.size);
    hs__buffer_free(&later);
}

static void whole_records_are_counted(void **state)
{
    (void)state;
    size_t end = 1;
    assert_int_equal(hs__records_count(NULL, 0, &end), 0);
    assert_int_equal(end, 0);
    hs__record_append(&file, "hooks", 5);
    hs__record_append(&file, "", 0);
    for (size_t limit = 0; limit <= file.size; limit++) {
        assert_int_equal(hs__records_count(file.data, limit, &end), (limit >= 21) + (limit >= 37));
        assert_int_equal(end, limit >= 37 ? 37 : limit >= 21 ? 21 : 0);
    }
    memset(file.data, 0xff, 8); /* an invalid length */
    assert_int_equal(hs__records_count(file.data, file.size, &end), 0);
}

static void every_allocation_of_writing_may_fail(void **state)
{
    (void)state;
    test_each_allocation(append_some, NULL);
}

/* Reads the written records. */

static void records_of_every_size_come_back(void **state)
{
    (void)state;
    static const size_t large[] = {4095, 4096, 4097, 65536, 1 << 20, 3};
    enum { SMALL = 300, N = SMALL + sizeof large / sizeof *large };
    unsigned char *data[N];
    for (size_t i = 0; i < N; i++) {
        size_t bytes = i < SMALL ? i : large[i - SMALL];
        data[i] = data_of(bytes);
        hs__record_append(&file, data[i], bytes);
    }
    hs_record_reader reader = open_reader(file.size);
    for (size_t i = 0; i < N; i++) {
        assert_next(&reader, data[i], i < SMALL ? i : large[i - SMALL]);
        free(data[i]);
    }
    assert_stops(&reader, HS_OUT_OF_RANGE, "end of file");
    assert_int_equal(reader.offset, file.size);
    hs_record_reader_close(&reader);
}

static void an_empty_file_has_no_records(void **state)
{
    (void)state;
    hs_record_reader reader = open_reader(0);
    assert_stops(&reader, HS_OUT_OF_RANGE, "end of file");
    hs_record_reader_close(&reader);
}

static void a_missing_file_is_not_found(void **state)
{
    (void)state;
    hs_record_reader reader;
    assert_fails(hs__record_reader_open(&reader, &t.env, path(), HS_RECORDS_PLAIN, HS__SOURCE_WINDOW, &err), HS_NOT_FOUND,
                 &err, path());
    hs_record_reader_close(&reader);
    hs_record_reader_close(&reader);
}

static void closing_twice_is_fine(void **state)
{
    (void)state;
    hs__record_append(&file, "a", 1);
    hs_record_reader reader = open_reader(file.size);
    assert_next(&reader, "a", 1);
    hs_record_reader_close(&reader);
    hs_record_reader_close(&reader);
}

static void a_growing_file_can_be_read_further(void **state)
{
    (void)state;
    hs__record_append(&file, "first", 5);
    size_t first = file.size;
    hs__record_append(&file, "second", 6);
    hs_record_reader reader = open_reader(first);
    assert_next(&reader, "first", 5);
    assert_stops(&reader, HS_OUT_OF_RANGE, "end of file");
    for (size_t bytes = first + 1; bytes < file.size; bytes++) {
        test_write_file(path(), file.data, bytes);
        assert_stops(&reader, HS_DATA_LOSS, "ends inside");
    }
    test_write_file(path(), file.data, file.size);
    assert_next(&reader, "second", 6);
    hs_record_reader_close(&reader);
}

/* Damage. */

/* Three records of 40, 0 and 1 bytes; their offsets, and the end. */
static size_t borders[4];

static void three_records(void)
{
    static const size_t sizes[] = {40, 0, 1};
    for (size_t i = 0; i < 3; i++) {
        unsigned char *data = data_of(sizes[i]);
        borders[i] = file.size;
        hs__record_append(&file, data, sizes[i]);
        free(data);
    }
    borders[3] = file.size;
}

/* The number of records before reading ends, and the code with which it ends. */
static size_t read_all(hs_record_reader *reader, hs_code *code)
{
    size_t n = 0;
    hs_bytes record;
    while (!(*code = hs_record_reader_next(reader, &record, &err)))
        n++;
    return n;
}

static void a_truncated_file_is_data_loss(void **state)
{
    (void)state;
    three_records();
    for (size_t bytes = 0; bytes <= file.size; bytes++) {
        hs_record_reader reader = open_reader(bytes);
        hs_code code;
        size_t n = read_all(&reader, &code);
        assert_true(borders[n] <= bytes && (n == 3 || bytes < borders[n + 1]));
        assert_int_equal(code, bytes == borders[n] ? HS_OUT_OF_RANGE : HS_DATA_LOSS);
        hs_record_reader_close(&reader);
    }
}

static void every_flipped_bit_is_data_loss(void **state)
{
    (void)state;
    three_records();
    for (size_t bit = 0; bit < 8 * file.size; bit++) {
        file.data[bit / 8] ^= (unsigned char)(1 << bit % 8);
        hs_record_reader reader = open_reader(file.size);
        hs_code code;
        size_t n = read_all(&reader, &code);
        assert_int_equal(code, HS_DATA_LOSS);
        assert_true(borders[n] <= bit / 8 && bit / 8 < borders[n + 1]); /* all records before it were read */
        hs_record_reader_close(&reader);
        file.data[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
}

static void damage_is_reported_with_its_offset(void **state)
{
    (void)state;
    char place[40];
    three_records();
    snprintf(place, sizeof place, "at byte %zu", borders[1]);
    file.data[borders[1] + 8] ^= 1;
    hs_record_reader reader = open_reader(file.size);
    hs_code code;
    assert_int_equal(read_all(&reader, &code), 1);
    assert_says(&err, HS_DATA_LOSS, "wrong length checksum");
    assert_contains(err.message, place);
    hs_record_reader_close(&reader);
}

/* Writes a length with a right checksum at the start of the file. */
static void claim_length(uint64_t length)
{
    hs__put64(file.data, length);
    hs__put32(file.data + 8, hs__crc32c_mask(hs__crc32c(0, file.data, 8)));
}

static void a_length_beyond_the_file_is_not_allocated(void **state)
{
    (void)state;
    static const uint64_t lengths[] = {
        41, 4096, 1u << 31, (uint64_t)1 << 60, (uint64_t)1 << 63, UINT64_MAX - 15, UINT64_MAX - 3, UINT64_MAX};
    unsigned char *data = data_of(40);
    hs__record_append(&file, data, 40);
    free(data);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        claim_length(lengths[i]);
        hs_record_reader reader = open_reader(file.size);
        size_t allocations = t.allocations;
        assert_stops(&reader, HS_DATA_LOSS, "the file ends inside");
        assert_int_equal(t.allocations, allocations);
        hs_record_reader_close(&reader);
    }
}

/* Failures of memory and files. */

static hs_code read_some(test_env *env, void *user)
{
    (void)user;
    hs_record_reader reader;
    hs_bytes record;
    hs_code code = hs__record_reader_open(&reader, &env->env, path(), HS_RECORDS_PLAIN, HS__SOURCE_WINDOW, NULL);
    while (!code)
        code = hs_record_reader_next(&reader, &record, NULL);
    hs_record_reader_close(&reader);
    return code == HS_OUT_OF_RANGE ? HS_OK : code;
}

static void reading_may_fail_anywhere(void **state)
{
    (void)state;
    three_records();
    test_write_file(path(), file.data, file.size);
    test_each_allocation(read_some, NULL);
    test_each_file_call(read_some, NULL, EIO, false, NULL);
    test_each_file_call(read_some, NULL, EACCES, true, NULL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(known_records_have_these_bytes),
        TEST(records_are_encoded_in_place),
        TEST(records_may_be_sealed_later),
        TEST(whole_records_are_counted),
        TEST(every_allocation_of_writing_may_fail),
        TEST(records_of_every_size_come_back),
        TEST(an_empty_file_has_no_records),
        TEST(a_missing_file_is_not_found),
        TEST(closing_twice_is_fine),
        TEST(a_growing_file_can_be_read_further),
        TEST(a_truncated_file_is_data_loss),
        TEST(every_flipped_bit_is_data_loss),
        TEST(damage_is_reported_with_its_offset),
        TEST(a_length_beyond_the_file_is_not_allocated),
        TEST(reading_may_fail_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
