/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/packed.h"
#include "formats/tables.h"

#include "base/crc32c.h"

/* A parsed block. */

typedef struct {
    const unsigned char *at;
    uint64_t offset, size;
    uint32_t restarts;
} block;

static block block_at(const unsigned char **handle)
{
    block b = {0};
    assert_true(hs__get_varint(handle, *handle + 20, &b.offset) && hs__get_varint(handle, *handle + 20, &b.size));
    b.at = file.data + b.offset;
    b.restarts = hs__get32(b.at + b.size - 4);
    assert_int_equal(b.at[b.size], 0);
    assert_int_equal(hs__get32(b.at + b.size + 1), hs__crc32c_mask(hs__crc32c(0, b.at, b.size + 1)));
    return b;
}

static uint32_t restart_of(block b, uint32_t i)
{
    return hs__get32(b.at + b.size - 4 - 4 * (size_t)(b.restarts - i));
}

static block index_block(block *meta)
{
    const unsigned char *at = file.data + file.size - FOOTER;
    *meta = block_at(&at);
    return block_at(&at);
}

/* Layout. */

static const unsigned char header[] = {0x08, 0x01, 0x1a, 0x02, 0x08, 0x01};
static const unsigned char entry[] = {0x08, 0x01, 0x12, 0x04, 0x12, 0x02, 0x08, 0x02,
                                      0x28, 0x08, 0x35, 0x59, 0x3c, 0xe5, 0x35};

static void the_usual_two(void)
{
    hs__table_add(&table, (hs_bytes){"", 0}, (hs_bytes){header, sizeof header});
    hs__table_add(&table, (hs_bytes){"x", 1}, (hs_bytes){entry, sizeof entry});
    finish();
}

static void tb_026s_the_first_block_has_these_bytes(void **state)
{
    (void)state;
    static const unsigned char start[] = {0, 0, sizeof header}, next[] = {0, 1, sizeof entry, 'x'},
                               end[] = {0, 0, 0, 0, 1, 0, 0, 0};
    the_usual_two();
    assert_int_equal(file.size, 121);
    const unsigned char *at = file.data;
    assert_memory_equal(at, start, sizeof start);
    assert_memory_equal(at += sizeof start, header, sizeof header);
    assert_memory_equal(at += sizeof header, next, sizeof next);
    assert_memory_equal(at += sizeof next, entry, sizeof entry);
    assert_memory_equal(at += sizeof entry, end, sizeof end);
}

static void tb_027s_the_footer_has_these_bytes(void **state)
{
    (void)state;
    static const unsigned char footer[FOOTER] = {0x29, 0x08, 0x36, 0x0e, [40] = 0x57, 0xfb,
                                                 0x80, 0x8b, 0x24, 0x75, 0x47,        0xdb};
    the_usual_two();
    assert_memory_equal(file.data + file.size - FOOTER, footer, FOOTER);
}

static void tb_028s_blocks_have_a_type_and_a_checksum(void **state)
{
    (void)state;
    block meta, index;
    the_usual_two();
    index = index_block(&meta);     /* checks type and checksum */
    assert_int_equal(meta.size, 8); /* one restart and the number of restarts, no entries */
    assert_int_equal(meta.restarts, 1);
    assert_int_equal(index.offset, meta.offset + meta.size + TRAILER);
    assert_int_equal(index.offset + index.size + TRAILER + FOOTER, file.size);
}

static void tb_028s_keys_share_their_prefix(void **state)
{
    (void)state;
    static const unsigned char expected[] = {0,   7,   1, 'l', 'a', 'y', 'e', 'r', '/', 'a', '1', 6,   1,  1,
                                             'b', '2', 7, 2,   1,   '/', 'c', '3', 0,   1,   1,   'm', '4'};
    add("layer/a", "1");
    add("layer/b", "2");
    add("layer/b/c", "3");
    add("m", "4");
    finish();
    assert_memory_equal(file.data, expected, sizeof expected);
}

static void tb_028s_every_sixteenth_key_shares_nothing(void **state)
{
    (void)state;
    char key[20];
    for (int i = 0; i < 40; i++) {
        snprintf(key, sizeof key, "layer/%02d", i);
        add(key, "");
    }
    finish();
    block meta, index = index_block(&meta);
    block data = {file.data, 0, meta.offset - TRAILER, hs__get32(file.data + meta.offset - TRAILER - 4)};
    assert_int_equal(data.restarts, 3);
    for (uint32_t i = 0; i < 3; i++) {
        static const unsigned char whole[] = {0, 8, 0, 'l', 'a', 'y', 'e', 'r', '/'};
        snprintf(key, sizeof key, "%02u", 16 * (unsigned)i);
        assert_memory_equal(file.data + restart_of(data, i), whole, sizeof whole);
        assert_memory_equal(file.data + restart_of(data, i) + sizeof whole, key, 2);
    }
    assert_int_equal(index.restarts, 1); /* one block, one entry */
}

/* A thousand entries of a kilobyte. */
static void a_megabyte(void)
{
    static char value[1025];
    char key[20];
    for (int i = 0; i < 1000; i++) {
        memset(value, 'a' + i % 26, sizeof value - 1);
        snprintf(key, sizeof key, "key_%04d", i);
        add(key, value);
    }
    finish();
}

static void tb_028s_blocks_end_at_a_quarter_of_a_mebibyte(void **state)
{
    (void)state;
    a_megabyte();
    block meta, index = index_block(&meta);
    assert_int_equal(index.restarts, 4);
    uint64_t offset = 0;
    for (uint32_t i = 0; i < index.restarts; i++) { /* each entry is a restart and has its whole key */
        const unsigned char *at = index.at + restart_of(index, i);
        assert_int_equal(at[0], 0);
        assert_int_equal(at[1], 8);
        assert_memory_equal(at + 3, "key_", 4);
        at += 3 + 8;
        block data = block_at(&at);
        assert_int_equal(data.offset, offset);
        assert_true(data.size < 262144 + 1100 && (data.size >= 262144 || i == 3));
        offset += data.size + TRAILER;
    }
    assert_int_equal(meta.offset, offset);
}

/* TensorFlow's reader searches a key's block by these keys. */
static void index_keys_lie_between_the_blocks(void **state)
{
    (void)state;
    a_megabyte();
    block meta, index = index_block(&meta);
    for (uint32_t i = 0; i < index.restarts; i++) {
        const unsigned char *key = index.at + restart_of(index, i) + 3, *at = key + 8;
        block data = block_at(&at);
        const unsigned char *first = data.at + 4; /* after its lengths, of which that of the value has two bytes */
        const unsigned char *next = data.at + data.size + TRAILER + 4;
        assert_true(memcmp(first, key, 8) < 0);
        if (i + 1 < index.restarts) {
            assert_true(memcmp(key, next, 8) < 0);
            assert_memory_equal(key, next, 6); /* not below the last key, which is one below the next */
            assert_int_equal((key[6] - '0') * 10 + key[7] + 1, (next[6] - '0') * 10 + next[7]);
        }
    }
}

/* Round trips. */

static void several_blocks_come_back(void **state)
{
    (void)state;
    a_megabyte();
    assert_ok(read_exactly(file.size), &err);
    assert_int_equal(seen.n, 1000);
    const unsigned char *at = seen.bytes.data;
    char key[20];
    for (int i = 0; i < 1000; i++, at += 1 + 8 + 2 + 1024) { /* each with its lengths */
        snprintf(key, sizeof key, "key_%04d", i);
        assert_memory_equal(at + 1, key, 8);
        assert_int_equal(at[11], 'a' + i % 26);
        assert_int_equal(at[1034], 'a' + i % 26);
    }
}

/* Replaces the file's blocks by compressed ones. */
static void compress(void)
{
    hs__buffer packed;
    hs__buffer_init(&packed, &t.env);
    pack_table((hs_bytes){file.data, file.size}, &packed);
    hs__buffer_free(&file);
    file = packed;
}

static void tb_028s_compressed_blocks_are_read(void **state)
{
    (void)state;
    a_megabyte();
    assert_ok(read_exactly(file.size), &err);
    hs__buffer expected = seen.bytes;
    hs__buffer_init(&seen.bytes, &t.env);
    compress();
    assert_true(file.size < expected.size / 10);
    assert_ok(read_exactly(file.size), &err);
    assert_int_equal(seen.n, 1000);
    assert_int_equal(seen.bytes.size, expected.size);
    assert_memory_equal(seen.bytes.data, expected.data, expected.size);
    assert_ok(verify_all(), &err);
    hs__buffer_free(&expected);
}

static void a_table_may_be_empty(void **state)
{
    (void)state;
    finish();
    assert_ok(read_exactly(file.size), &err);
    assert_int_equal(seen.n, 0);
}

static void keys_and_values_are_any_bytes(void **state)
{
    (void)state;
    static const hs_bytes keys[] = {{"", 0},    {"\0", 1},    {"\0\0", 2},  {"a", 1},
                                    {"a\0", 2}, {"a\x7f", 2}, {"a\x80", 2}, {"\xff\xff", 2}};
    static const hs_bytes values[] = {{"", 0}, {"\1", 1}, {"", 0}, {"ab", 2}, {"", 0}, {"\0", 1}, {"", 0}, {"\xff\0", 2}};
    for (size_t i = 0; i < 8; i++)
        hs__table_add(&table, keys[i], values[i]);
    finish();
    assert_ok(read_exactly(file.size), &err);
    assert_int_equal(seen.n, 8);
    hs__buffer wanted;
    hs__buffer_init(&wanted, &t.env);
    for (size_t i = 0; i < 8; i++) {
        hs__buffer_varint(&wanted, keys[i].size);
        hs__buffer_append(&wanted, keys[i].data, keys[i].size);
        hs__buffer_varint(&wanted, values[i].size);
        hs__buffer_append(&wanted, values[i].data, values[i].size);
    }
    assert_int_equal(seen.bytes.size, wanted.size);
    assert_memory_equal(seen.bytes.data, wanted.data, wanted.size);
    hs__buffer_free(&wanted);
}

static void entries_may_be_larger_than_a_block(void **state)
{
    (void)state;
    char *large = malloc(600001);
    memset(large, 'v', 600000);
    large[600000] = '\0';
    add("a", large);
    add(large, "short");
    add("w", large);
    finish();
    assert_ok(read_exactly(file.size), &err);
    assert_int_equal(seen.n, 3);
    free(large);
}

static void the_visitor_can_stop_the_reading(void **state)
{
    (void)state;
    add("a", "1");
    add("b", "2");
    add("c", "3");
    finish();
    seen.stop_at = 2;
    assert_fails(read_exactly(file.size), HS_USER, &err, "enough");
    assert_int_equal(seen.n, 2);
}

/* Memory. */

static hs_code write_table(test_env *env, void *user)
{
    (void)user;
    hs__buffer out;
    hs__table_writer writer;
    char key[20];
    static const char value[3000];
    hs__buffer_init(&out, &env->env);
    hs__table_begin(&writer, &env->env, &out);
    for (int i = 0; i < 200; i++) {
        snprintf(key, sizeof key, "%04d", i);
        hs__table_add(&writer, (hs_bytes){key, 4}, (hs_bytes){value, sizeof value});
    }
    hs_code code = hs__table_finish(&writer, NULL);
    hs__buffer_free(&out);
    assert_true(code || !env->fail_alloc_at || env->allocations < env->fail_alloc_at); /* no failure is lost */
    return code;
}

static hs_code pass_over(void *user, hs_bytes key, hs_bytes value, hs_error *error)
{
    (void)user, (void)key, (void)value, (void)error;
    return HS_OK;
}

static hs_code read_table(test_env *env, void *user)
{
    (void)user;
    return hs__table_read(&env->env, (hs_bytes){file.data, file.size}, "file", false, pass_over, NULL, NULL);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    test_each_allocation(write_table, NULL);
    a_megabyte();
    test_each_allocation(read_table, NULL);
    compress();
    test_each_allocation(read_table, NULL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(tb_026s_the_first_block_has_these_bytes),
        TEST(tb_027s_the_footer_has_these_bytes),
        TEST(tb_028s_blocks_have_a_type_and_a_checksum),
        TEST(tb_028s_keys_share_their_prefix),
        TEST(tb_028s_every_sixteenth_key_shares_nothing),
        TEST(tb_028s_blocks_end_at_a_quarter_of_a_mebibyte),
        TEST(tb_028s_compressed_blocks_are_read),
        TEST(index_keys_lie_between_the_blocks),
        TEST(several_blocks_come_back),
        TEST(a_table_may_be_empty),
        TEST(keys_and_values_are_any_bytes),
        TEST(entries_may_be_larger_than_a_block),
        TEST(the_visitor_can_stop_the_reading),
        TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
