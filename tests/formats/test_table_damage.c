/* SPDX-License-Identifier: Apache-2.0 */
/* Damaged tables, and invalid tables with right checksums. */
#include "formats/tables.h"

#include "base/crc32c.h"

static void assert_refused(hs_code code, const char *why)
{
    assert_fails(read_exactly(file.size), code, &err, why);
    assert_contains(err.message, "file: ");
}

static void keys_out_of_order_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {{"b", "a"}, {"a", "a"}, {"ab", "a"}, {"\x80", "\x7f"}};
    finish();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        hs__buffer_clear(&file);
        hs__table_begin(&table, &t.env, &file);
        add(wrong[i][0], "1");
        add(wrong[i][1], "2");
        finish();
        assert_refused(HS_DATA_LOSS, "keys are not in order");
    }
}

static void keys_out_of_order_between_blocks_are_refused(void **state)
{
    (void)state;
    char *large = calloc(300001, 1);
    memset(large, 'v', 300000);
    add("b", large);
    add("a", "");
    finish();
    assert_refused(HS_DATA_LOSS, "keys are not in order");
    free(large);
}

/* Damage. */

static void a_few_entries(void)
{
    char key[20];
    for (int i = 0; i < 18; i++) {
        snprintf(key, sizeof key, "layer/%02d", i);
        add(key, "some value");
    }
    finish();
}

static void every_truncation_is_data_loss(void **state)
{
    (void)state;
    a_few_entries();
    for (size_t bytes = 0; bytes < file.size; bytes++)
        assert_fails(read_exactly(bytes), HS_DATA_LOSS, &err, "file: ");
}

static void tb_044s_short_files_and_other_files_are_not_tables(void **state)
{
    (void)state;
    a_few_entries();
    assert_fails(read_exactly(47), HS_DATA_LOSS, &err, "too few");
    file.data[file.size - 1] ^= 1;
    assert_refused(HS_DATA_LOSS, "magic");
    file.data[file.size - 1] ^= 1;
    file.data[5] ^= 1;
    assert_refused(HS_DATA_LOSS, "checksum");
}

static void every_flipped_bit_is_found_or_harmless(void **state)
{
    (void)state;
    a_few_entries();
    assert_ok(read_exactly(file.size), &err);
    hs__buffer right = seen.bytes;
    hs__buffer_init(&seen.bytes, &t.env);
    for (size_t bit = 0; bit < 8 * file.size; bit++) {
        file.data[bit / 8] ^= (unsigned char)(1 << bit % 8);
        hs_code code = read_exactly(file.size);
        assert_true(code == HS_OK || code == HS_DATA_LOSS);
        if (!code) {
            assert_int_equal(seen.bytes.size, right.size);
            assert_memory_equal(seen.bytes.data, right.data, right.size);
        }
        file.data[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    hs__buffer_free(&right);
}

/* Tables made by hand, with right checksums. */

static uint64_t data_size, data_offset; /* of the last block */

static void put_block(const void *entries, size_t bytes, uint32_t restarts, unsigned char type)
{
    data_offset = file.size;
    data_size = bytes + 8;
    hs__buffer_append(&file, entries, bytes);
    hs__buffer_fixed32(&file, 0);
    hs__buffer_fixed32(&file, restarts);
    hs__buffer_append(&file, &type, 1);
    hs__buffer_fixed32(&file, hs__crc32c_mask(hs__crc32c(0, file.data + data_offset, (size_t)data_size + 1)));
}

static void put_footer(uint64_t offset, uint64_t size)
{
    unsigned char footer[FOOTER] = {0, 0};
    size_t n = 2 + hs__put_varint(footer + 2, offset);
    hs__put_varint(footer + n, size);
    hs__put64(footer + 40, 0xdb4775248b80fb57u);
    hs__buffer_append(&file, footer, FOOTER);
}

/* A table of one block. */
static void make_table(const void *entries, size_t bytes, uint32_t restarts, unsigned char type)
{
    unsigned char index[40] = {0, 1, 0, 'z'};
    hs__buffer_clear(&file);
    put_block(entries, bytes, restarts, type);
    size_t n = hs__put_varint(index + 4, data_offset);
    n += hs__put_varint(index + 4 + n, data_size);
    index[2] = (unsigned char)n;
    put_block(index, 4 + n, 1, 0);
    put_footer(data_offset, data_size);
}

static void tables_made_by_hand_are_read(void **state)
{
    (void)state;
    finish();
    make_table("\0\1\1ab\1\1\1cd", 10, 1, 0);
    assert_ok(read_exactly(file.size), &err);
    assert_int_equal(seen.n, 2);
    assert_memory_equal(seen.bytes.data, "\1a\1b\2ac\1d", 9);
}

static void other_compressions_are_unimplemented(void **state)
{
    (void)state;
    finish();
    make_table("\0\1\1ab", 5, 1, 2);
    assert_refused(HS_UNIMPLEMENTED, "the block at byte 0 has compression type 2");
}

/* A table of one block, whose bytes are these, with a right checksum. */
static void make_compressed(const void *packed, size_t bytes)
{
    unsigned char index[] = {0, 1, 2, 'z', 0, (unsigned char)bytes};
    hs__buffer_clear(&file);
    hs__buffer_append(&file, packed, bytes);
    hs__buffer_append(&file, "\1", 1);
    hs__buffer_fixed32(&file, hs__crc32c_mask(hs__crc32c(0, file.data, file.size)));
    put_block(index, sizeof index, 1, 0);
    put_footer(data_offset, data_size);
}

static void invalid_compressed_blocks_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
        const char *why;
    } rows[] = {
        {"\15\60\0\1\1ab\0\0\0\0\1\0\0\0", 15, NULL}, /* 13 bytes, a literal of 13 */
        {"\14\60\0\1\1ab\0\0\0\0\1\0\0\0", 15, "invalid Snappy data in the block at byte 0"},
        {"\15\60\0\1\1ab\0\0\0\0\1\0\0", 14, "invalid Snappy data in the block at byte 0"},
        {"\377\377\377\377\17\0a", 7, "invalid Snappy data in the block at byte 0"},
        {"\15\60\0\1\1ab\0\0\0\0\3\0\0\0", 15, "too many restarts in the block at byte 0"},
        {"\3\10abcd", 5, "too many restarts in the block at byte 0"},
        {"\15\60\0\1\2ab\0\0\0\0\1\0\0\0", 15, "invalid entry in the block at byte 0"},
    };
    finish();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        make_compressed(rows[i].bytes, rows[i].n);
        if (rows[i].why)
            assert_refused(HS_DATA_LOSS, rows[i].why);
        else
            assert_ok(read_exactly(file.size), &err);
    }
}

static void invalid_entries_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *bytes;
        size_t n;
    } rows[] = {
        {"\1\1\1ab", 5},                                      /* shares a byte with no key */
        {"\0\1\0a\2\1\0b", 8},                                /* shares more than the previous key has */
        {"\0\7\1ab", 5},                                      /* key beyond the end */
        {"\0\1\2ab", 5},                                      /* value beyond the end */
        {"\0\1", 2},                                          /* truncated lengths */
        {"\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\1\1ab", 14}, /* lengths whose sum wraps */
        {"\0\1\xff\xff\xff\xff\xff\xff\xff\xff\xff\1ab", 14},
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\1\1ab", 14}, /* a length of more than 64 bits */
    };
    finish();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        make_table(rows[i].bytes, rows[i].n, 1, 0);
        assert_refused(HS_DATA_LOSS, "invalid entry");
    }
}

static void invalid_numbers_of_restarts_are_refused(void **state)
{
    (void)state;
    static const uint32_t wrong[] = {3, 1000, UINT32_MAX, 1u << 30};
    finish();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        make_table("\0\1\1ab", 5, wrong[i], 0);
        assert_refused(HS_DATA_LOSS, "restarts");
    }
}

static void handles_beyond_the_file_are_refused(void **state)
{
    (void)state;
    static const uint64_t wrong[][2] = {
        {0, 1000}, {1000, 10}, {UINT64_MAX, 10},    {10, UINT64_MAX}, {UINT64_MAX - 5, 10},
        {0, 0},    {0, 3},     {5, UINT64_MAX - 4}, {53, 8},          {50, 8}, /* the file has 61 */
    };
    finish();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        hs__buffer_clear(&file);
        put_block("", 0, 1, 0);
        put_footer(wrong[i][0], wrong[i][1]);
        assert_refused(HS_DATA_LOSS, "block beyond the end");
    }
}

/* Tables that would take much time or memory. */

static void put_index_entry(hs__buffer *index, char key, uint64_t offset, uint64_t size)
{
    unsigned char handle[20];
    size_t n = hs__put_varint(handle, offset);
    n += hs__put_varint(handle + n, size);
    const unsigned char head[] = {0, 1, (unsigned char)n, (unsigned char)key};
    hs__buffer_append(index, head, sizeof head);
    hs__buffer_append(index, handle, n);
}

/* Makes a table with these blocks in its index. */
static void make_table_of(uint64_t (*blocks)[2], size_t n)
{
    hs__buffer index;
    hs__buffer_init(&index, &t.env);
    for (size_t i = 0; i < n; i++)
        put_index_entry(&index, (char)('a' + i), blocks[i][0], blocks[i][1]);
    put_block(index.data, index.size, 1, 0);
    put_footer(data_offset, data_size);
    hs__buffer_free(&index);
}

/* Otherwise a block would be read and checksummed for each entry of the index. */
static void blocks_that_overlap_are_refused(void **state)
{
    (void)state;
    finish();
    for (int wrong = 0; wrong < 4; wrong++) {
        uint64_t blocks[2][2];
        hs__buffer_clear(&file);
        for (int i = 0; i < 2; i++) {
            put_block(i ? "\0\1\1bc" : "\0\1\1ab", 5, 1, 0);
            blocks[i][0] = data_offset;
            blocks[i][1] = data_size;
        }
        if (wrong == 1)
            memcpy(blocks[1], blocks[0], sizeof *blocks); /* the same block twice */
        if (wrong == 2)
            blocks[1][0] = blocks[0][0] + blocks[0][1] + 4; /* the last byte of a checksum */
        if (wrong == 3) {
            blocks[0][0] = blocks[1][0]; /* backwards */
            blocks[1][0] = 0;
        }
        make_table_of(blocks, 2);
        if (wrong)
            assert_refused(HS_DATA_LOSS, "block overlaps the previous block");
        else
            assert_ok(read_exactly(file.size), &err);
    }
}

static void empty_blocks_that_overlap_are_refused(void **state)
{
    (void)state;
    uint64_t blocks[20][2];
    finish();
    hs__buffer_clear(&file);
    put_block("", 0, 1, 0);
    for (size_t i = 0; i < 20; i++) {
        blocks[i][0] = data_offset;
        blocks[i][1] = data_size;
    }
    make_table_of(blocks, 20);
    assert_refused(HS_DATA_LOSS, "block overlaps the previous block");
}

/* One entry with a long key, and `n` entries whose key is the previous one and another byte. */
static void make_repeating(size_t length, size_t n)
{
    hs__buffer entries;
    hs__buffer_init(&entries, &t.env);
    for (size_t i = 0; i <= n; i++) {
        size_t shared = i ? length + i - 1 : 0, rest = i ? 1 : length;
        hs__buffer_varint(&entries, shared);
        hs__buffer_varint(&entries, rest);
        hs__buffer_varint(&entries, 0);
        for (size_t k = 0; k < rest; k++)
            hs__buffer_append(&entries, "k", 1);
    }
    make_table(entries.data, entries.size, 1, 0);
    hs__buffer_free(&entries);
}

static void memory_for_keys_is_proportional_to_the_file(void **state)
{
    (void)state;
    finish();
    make_repeating(10000, 15); /* the writer lets 15 keys share a prefix */
    assert_ok(read_exactly(file.size), &err);
    assert_int_equal(seen.n, 16);
    make_repeating(10000, 5000);
    assert_refused(HS_DATA_LOSS, "keys share too many bytes in the block");
    assert_true(seen.bytes.size < 16 * file.size);
}

static void long_keys_that_the_writer_shares_are_read(void **state)
{
    (void)state;
    enum { N = 200, LENGTH = 5000 };
    static char key[LENGTH + 12];
    memset(key, 'k', LENGTH);
    for (int i = 0; i < N; i++) {
        snprintf(key + LENGTH, sizeof key - LENGTH, "%03d", i);
        add(key, "");
    }
    finish();
    assert_ok(read_exactly(file.size), &err);
    assert_int_equal(seen.n, N);
}

static void an_index_without_handles_is_refused(void **state)
{
    (void)state;
    finish();
    hs__buffer_clear(&file);
    put_block("\0\1\1a\x80", 5, 1, 0);
    put_footer(data_offset, data_size);
    assert_refused(HS_DATA_LOSS, "invalid index entry");
}

static void a_footer_without_handles_is_refused(void **state)
{
    (void)state;
    a_few_entries();
    memset(file.data + file.size - FOOTER, 0xff, 40);
    assert_refused(HS_DATA_LOSS, "invalid footer");
}

static void verifying_reads_every_block(void **state)
{
    (void)state;
    a_few_entries();
    assert_ok(verify_all(), &err);
    for (size_t bit = 0; bit < 8 * (file.size - FOOTER); bit++) {
        file.data[bit / 8] ^= (unsigned char)(1 << bit % 8);
        assert_fails(verify_all(), HS_DATA_LOSS, &err, "checksum");
        file.data[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(keys_out_of_order_are_refused),
        TEST(keys_out_of_order_between_blocks_are_refused),
        TEST(every_truncation_is_data_loss),
        TEST(tb_044s_short_files_and_other_files_are_not_tables),
        TEST(every_flipped_bit_is_found_or_harmless),
        TEST(tables_made_by_hand_are_read),
        TEST(other_compressions_are_unimplemented),
        TEST(invalid_compressed_blocks_are_refused),
        TEST(invalid_entries_are_refused),
        TEST(invalid_numbers_of_restarts_are_refused),
        TEST(handles_beyond_the_file_are_refused),
        TEST(blocks_that_overlap_are_refused),
        TEST(empty_blocks_that_overlap_are_refused),
        TEST(memory_for_keys_is_proportional_to_the_file),
        TEST(long_keys_that_the_writer_shares_are_read),
        TEST(an_index_without_handles_is_refused),
        TEST(a_footer_without_handles_is_refused),
        TEST(verifying_reads_every_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
