/* SPDX-License-Identifier: Apache-2.0 */
/* records.h: reading in order and at offsets, skipping, counting. */
#include "formats/record_files.h"

#include <zlib.h>

static void rc_001_an_empty_file_ends(void **state)
{
    (void)state;
    test_write_file(path(), "", 0);
    EACH(kind)
    {
        hs_record_reader *reader = new_reader(kind, 0);
        assert_end(reader);
        hs_record_reader_free(reader);
    }
}

static void rc_003_many_records(void **state)
{
    (void)state;
    enum { N = 100000 };
    char text[16];
    EACH(kind)
    {
        hs_record_writer *writer = new_writer(kind);
        for (int i = 0; i < N; i++) {
            snprintf(text, sizeof text, "%d.", i);
            put(writer, text);
        }
        finish(writer);
        hs_record_reader *reader = new_reader(kind, 0);
        for (int i = 0; i < N; i++) {
            snprintf(text, sizeof text, "%d.", i);
            assert_next(reader, text);
        }
        assert_end(reader);
        hs_record_reader_free(reader);
    }
}

/* Noise with a length that depends on the index, mostly short, up to 2^17 bytes. */
static size_t fill(unsigned char *data, unsigned i)
{
    uint32_t noise = i * 2654435761u + 12345;
    size_t bytes = (noise >> 8) % ((size_t)1 << (noise >> 3) % 18);
    for (size_t k = 0; k < bytes; k++)
        data[k] = (unsigned char)((noise = noise * 1664525u + 1013904223u) >> 24);
    return bytes;
}

static void rc_004_records_of_skewed_lengths(void **state)
{
    (void)state;
    enum { N = 500 };
    unsigned char *data = malloc(1 << 17);
    EACH(kind)
    {
        hs_record_writer *writer = new_writer(kind);
        for (unsigned i = 0; i < N; i++)
            assert_ok(hs_record_writer_write(writer, data, fill(data, i), &err), &err);
        finish(writer);
        hs_record_reader *reader = new_reader(kind, 100);
        for (unsigned i = 0; i < N; i++) {
            hs_bytes record;
            assert_ok(hs_record_reader_next(reader, &record, &err), &err);
            assert_int_equal(record.size, fill(data, i));
            assert_memory_equal(record.data, data, record.size);
        }
        assert_end(reader);
        hs_record_reader_free(reader);
    }
    free(data);
}

/* Reads forward, then at two offsets. */
static void read_here_and_there(hs_record_compression kind, int64_t buffer)
{
    uint64_t offsets[11];
    write_all(kind, few);
    hs_record_reader *reader = new_reader(kind, buffer);
    for (int i = 0; i < 10; i++) {
        offsets[i] = hs_record_reader_offset(reader);
        assert_next(reader, few[i]);
    }
    for (int i = 3; i <= 8; i += 5) {
        assert_ok(hs_record_reader_seek(reader, offsets[i], &err), &err);
        assert_next(reader, few[i]);
        assert_int_equal(hs_record_reader_offset(reader), offsets[i + 1]);
    }
    hs_record_reader_free(reader);
}

static void rc_005_records_are_read_at_offsets(void **state)
{
    (void)state;
    read_here_and_there(HS_RECORDS_PLAIN, 0);
}

static void rc_006_records_are_read_through_a_buffer(void **state)
{
    (void)state;
    read_here_and_there(HS_RECORDS_PLAIN, 1024);
    read_here_and_there(HS_RECORDS_PLAIN, 1);
}

static void rc_007_records_of_compressed_files_are_read(void **state)
{
    (void)state;
    read_here_and_there(HS_RECORDS_ZLIB, 0);
    read_here_and_there(HS_RECORDS_GZIP, 1);
}

static void rc_209_records_are_read_backwards(void **state)
{
    (void)state;
    EACH(kind)
    {
        uint64_t offsets[8];
        write_all(kind, few + 3);
        hs_record_reader *reader = new_reader(kind, 0);
        for (int i = 0; i < 7; i++) {
            offsets[i] = hs_record_reader_offset(reader);
            assert_next(reader, few[3 + i]);
        }
        offsets[7] = hs_record_reader_offset(reader);
        assert_end(reader);
        assert_int_equal(hs_record_reader_offset(reader), offsets[7]);
        for (int i = 6; i >= 1; i--) {
            assert_ok(hs_record_reader_seek(reader, offsets[i], &err), &err);
            assert_next(reader, few[3 + i]);
            assert_int_equal(hs_record_reader_offset(reader), offsets[i + 1]);
        }
        hs_record_reader_free(reader);
    }
}

static void rc_014_the_offset_of_the_end_is_the_end(void **state)
{
    (void)state;
    char many[10001];
    memset(many, 'x', 10000);
    many[10000] = '\0';
    write_all(HS_RECORDS_PLAIN, HS_NAMES("foo", "bar", many));
    hs_record_reader *reader = new_reader(HS_RECORDS_PLAIN, 0);
    assert_ok(hs_record_reader_seek(reader, file_size(), &err), &err);
    assert_end(reader);
    assert_ok(hs_record_reader_seek(reader, file_size() + 1000, &err), &err);
    assert_end(reader);
    assert_ok(hs_record_reader_seek(reader, UINT64_MAX - 5, &err), &err);
    hs_bytes record;
    assert_true(hs_record_reader_next(reader, &record, &err) != HS_OK);
    hs_record_reader_free(reader);
}

static void rc_113s_seeking_goes_both_ways(void **state)
{
    (void)state;
    write_all(HS_RECORDS_PLAIN, few);
    hs_record_reader *reader = new_reader(HS_RECORDS_PLAIN, 0);
    assert_next(reader, "0.");
    uint64_t second = hs_record_reader_offset(reader);
    assert_next(reader, "1.");
    assert_ok(hs_record_reader_seek(reader, second, &err), &err);
    assert_next(reader, "1.");
    assert_ok(hs_record_reader_seek(reader, 3 * second, &err), &err);
    assert_next(reader, "3.");
    hs_record_reader_free(reader);
}

static void rc_016s_rc_017s_known_records_have_these_bytes(void **state)
{
    (void)state;
    static const unsigned char expected[] = {
        3, 0, 0, 0, 0, 0, 0, 0, 0xb0, 0x99, 0x49, 0x0e, 'f',  'o',  'o',  0x61, 0x8a, 0xbe, 0xfe, /* and an empty one */
        0, 0, 0, 0, 0, 0, 0, 0, 0x29, 0x03, 0x98, 0x07, 0xd8, 0xea, 0x82, 0xa2};
    size_t bytes;
    write_all(HS_RECORDS_PLAIN, HS_NAMES("foo", ""));
    char *data = test_read_file(path(), &bytes);
    assert_int_equal(bytes, sizeof expected);
    assert_memory_equal(data, expected, bytes);
    free(data);
}

static void rc_104_records_are_skipped(void **state)
{
    (void)state;
    EACH(kind)
    {
        int64_t skipped;
        write_all(kind, HS_NAMES("abc", "defg", "hij"));
        hs_record_reader *reader = new_reader(kind, 0);
        assert_ok(hs_record_reader_skip(reader, 2, &skipped, &err), &err);
        assert_int_equal(skipped, 2);
        assert_next(reader, "hij");
        assert_ok(hs_record_reader_seek(reader, 0, &err), &err);
        assert_fails(hs_record_reader_skip(reader, 5, &skipped, &err), HS_OUT_OF_RANGE, &err, "end of file");
        assert_int_equal(skipped, 3);
        assert_fails(hs_record_reader_skip(reader, -1, &skipped, &err), HS_INVALID_ARGUMENT, &err, "n is -1");
        assert_int_equal(skipped, 0);
        hs_record_reader_free(reader);
    }
}

static void rc_109s_totals_come_from_the_lengths_alone(void **state)
{
    (void)state;
    size_t bytes;
    hs_record_totals totals;
    write_all(HS_RECORDS_PLAIN, HS_NAMES("abc", "defg", ""));
    char *data = test_read_file(path(), &bytes);
    data[13] ^= 1; /* in the data, which counting does not read */
    test_write_file(path(), data, bytes);
    hs_record_reader *reader = new_reader(HS_RECORDS_PLAIN, 0);
    assert_fails(hs_record_reader_totals(reader, NULL, &err), HS_INVALID_ARGUMENT, &err, "NULL");
    assert_ok(hs_record_reader_totals(reader, &totals, &err), &err);
    assert_int_equal(totals.records, 3);
    assert_int_equal(totals.data_bytes, 7);
    assert_int_equal(hs_record_reader_offset(reader), 0);
    test_write_file(path(), data, 0); /* totals are computed only once */
    assert_ok(hs_record_reader_totals(reader, &totals, &err), &err);
    assert_int_equal(totals.records, 3);
    hs_record_reader_free(reader);
    data[9] ^= 1; /* checksum of a length */
    test_write_file(path(), data, bytes);
    reader = new_reader(HS_RECORDS_PLAIN, 0);
    assert_fails(hs_record_reader_totals(reader, &totals, &err), HS_DATA_LOSS, &err, "length checksum");
    hs_record_reader_free(reader);
    free(data);
}

static void rc_211_a_closed_reader_refuses(void **state)
{
    (void)state;
    hs_bytes record;
    write_all(HS_RECORDS_PLAIN, few);
    hs_record_reader *reader = new_reader(HS_RECORDS_PLAIN, 0);
    hs_record_reader_close(reader);
    hs_record_reader_close(reader);
    assert_fails(hs_record_reader_seek(reader, 0, &err), HS_FAILED_PRECONDITION, &err, "is closed");
    assert_fails(hs_record_reader_next(reader, &record, &err), HS_FAILED_PRECONDITION, &err, "is closed");
    hs_record_reader_free(reader);
}

static void rc_204_streams_flushed_at_every_byte_and_several_in_a_row_are_read(void **state)
{
    (void)state;
    size_t bytes;
    unsigned char packed[4096];
    write_all(HS_RECORDS_PLAIN, HS_NAMES("small"));
    char *data = test_read_file(path(), &bytes);
    z_stream z = {.next_out = packed, .avail_out = sizeof packed};
    assert_int_equal(deflateInit(&z, 6), Z_OK);
    for (size_t i = 0; i < bytes; i++) {
        z.next_in = (Bytef *)data + i;
        z.avail_in = 1;
        deflate(&z, Z_FULL_FLUSH);
    }
    deflate(&z, Z_FULL_FLUSH);
    deflate(&z, Z_FULL_FLUSH);
    deflate(&z, Z_FINISH);
    memcpy(packed + z.total_out, packed, z.total_out); /* the same stream again */
    test_write_file(path(), packed, 2 * z.total_out);
    deflateEnd(&z);
    free(data);
    hs_record_reader *reader = new_reader(HS_RECORDS_ZLIB, 0);
    assert_next(reader, "small");
    assert_next(reader, "small");
    assert_end(reader);
    hs_record_reader_free(reader);
}

static void rc_205_a_large_record_compressed_elsewhere(void **state)
{
    (void)state;
    enum { LARGE = 5 << 20 };
    size_t bytes;
    char *text = malloc(LARGE + 1);
    for (size_t i = 0; i < LARGE; i++)
        text[i] = (char)('a' + (i * i >> 7) % 23);
    text[LARGE] = '\0';
    write_all(HS_RECORDS_PLAIN, HS_NAMES(text, "small"));
    char *data = test_read_file(path(), &bytes);
    gzFile file = gzopen(path(), "wb");
    assert_int_equal(gzwrite(file, data, (unsigned)bytes), bytes);
    gzclose(file);
    hs_record_reader *reader = new_reader(HS_RECORDS_GZIP, 0);
    assert_next(reader, text);
    assert_next(reader, "small");
    assert_end(reader);
    hs_record_reader_free(reader);
    free(data);
    free(text);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(rc_001_an_empty_file_ends),
        TEST(rc_003_many_records),
        TEST(rc_004_records_of_skewed_lengths),
        TEST(rc_005_records_are_read_at_offsets),
        TEST(rc_006_records_are_read_through_a_buffer),
        TEST(rc_007_records_of_compressed_files_are_read),
        TEST(rc_209_records_are_read_backwards),
        TEST(rc_014_the_offset_of_the_end_is_the_end),
        TEST(rc_113s_seeking_goes_both_ways),
        TEST(rc_016s_rc_017s_known_records_have_these_bytes),
        TEST(rc_104_records_are_skipped),
        TEST(rc_109s_totals_come_from_the_lengths_alone),
        TEST(rc_211_a_closed_reader_refuses),
        TEST(rc_204_streams_flushed_at_every_byte_and_several_in_a_row_are_read),
        TEST(rc_205_a_large_record_compressed_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
