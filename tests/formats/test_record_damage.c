/* SPDX-License-Identifier: Apache-2.0 */
/* records.h: records that are damaged, truncated, or have huge lengths. */
#include "base/file_spy.h"
#include "formats/record_files.h"

#include "base/buffer.h"
#include "base/crc32c.h"
#include "formats/records.h"

#include <zlib.h>

static void damage_foo(size_t at, int by, const char *why)
{
    size_t bytes;
    write_all(HS_RECORDS_PLAIN, HS_NAMES("foo"));
    char *data = test_read_file(path(), &bytes);
    at = at < bytes ? at : bytes - 1;
    data[at] = (char)(data[at] + by);
    test_write_file(path(), data, bytes);
    free(data);
    hs_record_reader *reader = new_reader(HS_RECORDS_PLAIN, 0);
    assert_stops(reader, HS_DATA_LOSS, why);
    hs_record_reader_free(reader);
}

static void rc_010_rc_021s_a_damaged_length(void **state)
{
    (void)state;
    damage_foo(6, 100, "wrong length checksum");
}

static void rc_011_a_damaged_checksum_of_the_length(void **state)
{
    (void)state;
    damage_foo(10, 100, "wrong length checksum");
}

static void rc_012_damaged_data(void **state)
{
    (void)state;
    damage_foo(14, 10, "wrong data checksum");
}

static void rc_013_a_damaged_checksum_of_the_data(void **state)
{
    (void)state;
    damage_foo(SIZE_MAX, 10, "wrong data checksum");
}

static void rc_018s_rc_019s_a_truncated_record_is_read_when_it_is_whole(void **state)
{
    (void)state;
    size_t bytes;
    write_all(HS_RECORDS_PLAIN, HS_NAMES("foo", "hooks"));
    char *data = test_read_file(path(), &bytes);
    test_write_file(path(), data, 19);
    hs_record_reader *reader = new_reader(HS_RECORDS_PLAIN, 0);
    assert_next(reader, "foo");
    assert_end(reader);
    for (size_t cut = 20; cut < bytes; cut++) {
        test_write_file(path(), data, cut);
        assert_stops(reader, HS_DATA_LOSS, "the file ends inside");
        assert_int_equal(hs_record_reader_offset(reader), 19);
    }
    test_write_file(path(), data, bytes);
    assert_next(reader, "hooks");
    assert_end(reader);
    hs_record_reader_free(reader);
    free(data);
}

static void rc_019s_a_torn_record_that_was_truncated_is_forgotten(void **state)
{
    (void)state;
    size_t bytes, other_bytes;
    write_all(HS_RECORDS_PLAIN, HS_NAMES("foo", "another record that is longer than the torn one"));
    char *other = test_read_file(path(), &other_bytes);
    write_all(HS_RECORDS_PLAIN, HS_NAMES("foo", "torn, and longer"));
    char *data = test_read_file(path(), &bytes);
    test_write_file(path(), data, bytes - 10);
    hs_record_reader *reader = new_reader(HS_RECORDS_PLAIN, 0);
    assert_next(reader, "foo");
    assert_stops(reader, HS_DATA_LOSS, "the file ends inside");
    test_write_file(path(), other, other_bytes); /* the file that the reader has open */
    assert_next(reader, "another record that is longer than the torn one");
    hs_record_reader_free(reader);
    free(data);
    free(other);
}

/* A header with this length, without data. */
static void claim_length(hs_record_compression kind, uint64_t length)
{
    unsigned char header[12];
    hs__put64(header, length);
    hs__put32(header + 8, hs__crc32c_mask(hs__crc32c(0, header, 8)));
    if (kind == HS_RECORDS_PLAIN) {
        test_write_file(path(), header, sizeof header);
        return;
    }
    gzFile file = gzopen(path(), "wb");
    gzwrite(file, header, sizeof header);
    gzclose(file);
}

static void a_huge_length_allocates_nothing(void **state)
{
    (void)state;
    static const uint64_t lengths[] = {1 << 20, (uint64_t)1 << 40, UINT64_MAX - 12, UINT64_MAX};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (int zipped = 0; zipped < 2; zipped++) {
            hs_record_compression kind = zipped ? HS_RECORDS_GZIP : HS_RECORDS_PLAIN;
            claim_length(kind, lengths[i]);
            hs_record_reader *reader = new_reader(kind, 0);
            bool beyond = zipped && i > 0;
            assert_stops(reader, beyond ? HS_RESOURCE_EXHAUSTED : HS_DATA_LOSS, beyond ? "the limit" : "ends inside");
            hs_record_reader_free(reader);
        }
    }
}

static void after_a_huge_length_reading_continues(void **state)
{
    (void)state;
    static const uint64_t lengths[] = {1 << 20,         INT64_MAX - 16, INT64_MAX, (uint64_t)INT64_MAX + 1,
                                       UINT64_MAX - 16, UINT64_MAX};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        unsigned char bytes[12 + 19];
        size_t n;
        uint64_t lost;
        claim_length(HS_RECORDS_PLAIN, lengths[i]);
        char *data = test_read_file(path(), &n);
        memcpy(bytes, data, 12);
        free(data);
        write_all(HS_RECORDS_PLAIN, HS_NAMES("foo"));
        data = test_read_file(path(), &n);
        memcpy(bytes + 12, data, 19);
        free(data);
        test_write_file(path(), bytes, sizeof bytes);
        hs_record_reader *reader = new_reader(HS_RECORDS_PLAIN, 0);
        assert_fails(hs_record_reader_skip(reader, 1, NULL, &err), HS_DATA_LOSS, &err, "ends inside");
        assert_ok(hs_record_reader_recover(reader, &lost, &err), &err);
        assert_int_equal(lost, 12);
        assert_next(reader, "foo");
        assert_ok(hs_record_reader_seek(reader, lengths[i], &err), &err);
        assert_end(reader);
        hs_record_reader_free(reader);
    }
}

static void a_torn_record_that_becomes_whole_is_not_lost(void **state)
{
    (void)state;
    size_t bytes;
    uint64_t lost = 1;
    write_all(HS_RECORDS_PLAIN, HS_NAMES("foo", "hooks"));
    char *data = test_read_file(path(), &bytes);
    test_write_file(path(), data, bytes - 1);
    hs_record_reader *reader = new_reader(HS_RECORDS_PLAIN, 0);
    assert_next(reader, "foo");
    assert_stops(reader, HS_DATA_LOSS, "the file ends inside");
    test_write_file(path(), data, bytes);
    assert_ok(hs_record_reader_recover(reader, &lost, &err), &err);
    assert_int_equal(lost, 0);
    assert_next(reader, "hooks");
    hs_record_reader_free(reader);
    free(data);
}

static void a_deleted_file_is_read_to_its_end(void **state)
{
    (void)state;
    enum { AT_ONCE = 64 };
    static const char longer[] = "a record that is longer than what is read from the file at once";
    write_all(HS_RECORDS_PLAIN, HS_NAMES("foo", longer, "bar"));
    hs_record_reader *reader = new_reader(HS_RECORDS_PLAIN, AT_ONCE);
    assert_next(reader, "foo");
    remove(path());
    assert_next(reader, longer);
    assert_next(reader, "bar");
    assert_end(reader);
    hs_record_reader_free(reader);
}

static void the_limit_is_the_callers(void **state)
{
    (void)state;
    hs_record_reader_options options = HS_INIT(hs_record_reader_options, .env = &t.env, .max_record_bytes = 3);
    write_all(HS_RECORDS_PLAIN, HS_NAMES("foo", "four", "bar"));
    hs_record_reader *reader = hs_record_reader_open(path(), &options, &err);
    assert_next(reader, "foo");
    assert_stops(reader, HS_RESOURCE_EXHAUSTED, "has 4 bytes; the limit is 3");
    assert_ok(hs_record_reader_skip(reader, 1, NULL, &err), &err);
    assert_next(reader, "bar");
    hs_record_reader_free(reader);
}

static void damage_of_any_byte_is_skipped(void **state)
{
    (void)state;
    size_t bytes;
    write_all(HS_RECORDS_PLAIN, HS_NAMES("first", "second", "third"));
    char *data = test_read_file(path(), &bytes);
    for (size_t at = 21; at < 43; at++) { /* the bytes of the second record */
        data[at] ^= 0x10;
        test_write_file(path(), data, bytes);
        data[at] ^= 0x10;
        hs_record_reader *reader = new_reader(HS_RECORDS_PLAIN, 0);
        uint64_t lost;
        assert_next(reader, "first");
        assert_stops(reader, HS_DATA_LOSS, "checksum of the record");
        assert_ok(hs_record_reader_recover(reader, &lost, &err), &err);
        assert_int_equal(lost, 22);
        assert_next(reader, "third");
        assert_fails(hs_record_reader_recover(reader, &lost, &err), HS_OUT_OF_RANGE, &err, "no intact record");
        assert_int_equal(lost, 0);
        hs_record_reader_free(reader);
    }
    free(data);
}

static void damage_inside_a_compressed_file_is_skipped(void **state)
{
    (void)state;
    size_t bytes;
    uint64_t lost;
    write_all(HS_RECORDS_PLAIN, HS_NAMES("first", "second", "third"));
    char *data = test_read_file(path(), &bytes);
    data[21 + 13] ^= 1; /* data of the second record */
    gzFile packed = gzopen(path(), "wb");
    gzwrite(packed, data, (unsigned)bytes);
    gzclose(packed);
    free(data);
    hs_record_reader *reader = new_reader(HS_RECORDS_GZIP, 0);
    assert_next(reader, "first");
    assert_stops(reader, HS_DATA_LOSS, "wrong data checksum");
    assert_ok(hs_record_reader_recover(reader, &lost, &err), &err);
    assert_int_equal(lost, 22);
    assert_next(reader, "third");
    hs_record_reader_free(reader);
}

/* A file of headers only. Each length is within the file and has the right checksum. */
static void a_file_full_of_headers_does_not_take_forever(void **state)
{
    (void)state;
    enum { N = 1 << 19 };
    unsigned char *data = malloc(12 * N);
    hs__put64(data, 3 * N);
    hs__put32(data + 8, hs__crc32c_mask(hs__crc32c(0, data, 8)));
    for (size_t i = 1; i < N; i++)
        memcpy(data + 12 * i, data, 12);
    data[0] ^= 1;
    test_write_file(path(), data, 12 * N);
    free(data);
    hs_record_reader *reader = new_reader(HS_RECORDS_PLAIN, 0);
    assert_stops(reader, HS_DATA_LOSS, "wrong length checksum");
    assert_fails(hs_record_reader_recover(reader, NULL, &err), HS_OUT_OF_RANGE, &err, "no intact record");
    hs_record_reader_free(reader);
}

/* Reads all intact records, and skips damage. */
static size_t read_past_damage(file_spy *spy, hs_record_compression kind, size_t *damages)
{
    size_t n = 0;
    hs_bytes record;
    file_spy_init(spy, &t.env);
    hs_record_reader *reader =
        hs_record_reader_open(path(), HS_RECORD_READER_OPTIONS(.env = &spy->env, .compression = kind), &err);
    assert_non_null(reader);
    hs_code code;
    *damages = 0;
    while ((code = hs_record_reader_next(reader, &record, &err)) != HS_OUT_OF_RANGE) {
        n += code == HS_OK;
        *damages += code == HS_DATA_LOSS;
        if (code && hs_record_reader_recover(reader, NULL, &err))
            break;
    }
    hs_record_reader_free(reader);
    return n;
}

/* Before each record is a length of megabytes within the file, which is found to be wrong only by reading them. */
static void wrong_lengths_do_not_cause_repeated_reads_of_the_file(void **state)
{
    (void)state;
    enum { N = 2000, CLAIM = 4 << 20 };
    file_spy spy;
    hs__buffer file;
    hs__buffer_init(&file, &t.env);
    for (int i = 0; i < N; i++) {
        hs__buffer_fixed64(&file, CLAIM);
        hs__buffer_fixed32(&file, 0);
        hs__record_append(&file, "good", 4);
    }
    hs__buffer_room(&file, CLAIM);
    memset(file.data + file.size, 0, CLAIM);
    file.size += CLAIM;
    test_write_file(path(), file.data, file.size);
    hs__buffer_free(&file);
    size_t damages, n = read_past_damage(&spy, HS_RECORDS_PLAIN, &damages);
    assert_true(spy.bytes_read < (uint64_t)2 << 30); /* not 8 GiB */
    assert_int_equal(n, N);
}

/* Damages each record at this byte. */
static void assert_decompressed_once(size_t at)
{
    enum { N = 30, BYTES = 200000 };
    static char noise[BYTES];
    uint64_t random = 1;
    file_spy spy;
    hs__buffer file;
    hs__buffer_init(&file, &t.env);
    for (int i = 0; i < N; i++) {
        for (size_t k = 0; k < BYTES; k++)
            noise[k] = (char)((random = random * 6364136223846793005u + 1442695040888963407u) >> 56);
        size_t begun = file.size;
        hs__record_append(&file, noise, BYTES);
        file.data[begun + at] ^= 1;
    }
    hs__record_append(&file, "good", 4);
    gzFile packed = gzopen(path(), "wb");
    gzwrite(packed, file.data, (unsigned)file.size);
    gzclose(packed);
    size_t damages, bytes = file.size;
    hs__buffer_free(&file);
    assert_int_equal(read_past_damage(&spy, HS_RECORDS_GZIP, &damages), 1);
    assert_int_equal(damages, N);
    assert_true(spy.bytes_read < 2 * bytes);
}

static void damage_inside_a_compressed_file_does_not_restart_decompression(void **state)
{
    (void)state;
    assert_decompressed_once(8);   /* the checksum of the length */
    assert_decompressed_once(100); /* the data */
}

static void damaged_compressed_data_is_named(void **state)
{
    (void)state;
    for (hs_record_compression kind = HS_RECORDS_ZLIB; kind <= HS_RECORDS_GZIP; kind++) {
        size_t bytes, n = 0;
        hs_bytes record;
        hs_code code;
        write_all(kind, few);
        char *data = test_read_file(path(), &bytes);
        for (size_t at = 0; at < bytes; at++) {
            data[at] ^= 0x55;
            test_write_file(path(), data, bytes);
            data[at] ^= 0x55;
            hs_record_reader *reader = new_reader(kind, 0);
            while (!(code = hs_record_reader_next(reader, &record, &err)))
                n++;
            assert_true(code == HS_DATA_LOSS || code == HS_OUT_OF_RANGE);
            hs_record_reader_free(reader);
        }
        assert_true(n < 11 * bytes);
        test_write_file(path(), "unknown format", 14);
        hs_record_reader *reader = new_reader(kind, 0);
        assert_stops(reader, HS_DATA_LOSS, "the compressed data is damaged before byte");
        hs_record_reader_free(reader);
        free(data);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(rc_010_rc_021s_a_damaged_length),
        TEST(rc_011_a_damaged_checksum_of_the_length),
        TEST(rc_012_damaged_data),
        TEST(rc_013_a_damaged_checksum_of_the_data),
        TEST(rc_018s_rc_019s_a_truncated_record_is_read_when_it_is_whole),
        TEST(rc_019s_a_torn_record_that_was_truncated_is_forgotten),
        TEST(a_huge_length_allocates_nothing),
        TEST(after_a_huge_length_reading_continues),
        TEST(a_torn_record_that_becomes_whole_is_not_lost),
        TEST(a_deleted_file_is_read_to_its_end),
        TEST(the_limit_is_the_callers),
        TEST(damage_of_any_byte_is_skipped),
        TEST(damage_inside_a_compressed_file_is_skipped),
        TEST(a_file_full_of_headers_does_not_take_forever),
        TEST(wrong_lengths_do_not_cause_repeated_reads_of_the_file),
        TEST(damage_inside_a_compressed_file_does_not_restart_decompression),
        TEST(damaged_compressed_data_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
