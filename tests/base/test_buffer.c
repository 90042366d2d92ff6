/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "base/buffer.h"

static test_env t;
static hs__buffer buffer;

static int set_up(void **state)
{
    (void)state;
    test_env_init(&t);
    hs__buffer_init(&buffer, &t.env);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hs__buffer_free(&buffer);
    return t.live ? -1 : 0;
}

static void appends_follow_each_other(void **state)
{
    (void)state;
    unsigned char expected[1000];
    for (size_t i = 0; i < sizeof expected; i++) {
        expected[i] = (unsigned char)i;
        hs__buffer_append(&buffer, &expected[i], 1);
    }
    assert_int_equal(buffer.size, sizeof expected);
    assert_memory_equal(buffer.data, expected, sizeof expected);
    assert_ok(hs__buffer_check(&buffer, "it", NULL), &(hs_error){0});
}

static void an_append_of_nothing_takes_no_memory(void **state)
{
    (void)state;
    hs__buffer_append(&buffer, NULL, 0);
    assert_int_equal(buffer.size, 0);
    assert_int_equal(t.allocations, 0);
    assert_false(buffer.failed);
}

static void text_is_formatted_without_its_zero(void **state)
{
    (void)state;
    hs__buffer_text(&buffer, "%s=%d", "x", 42);
    hs__buffer_text(&buffer, "%s", "");
    hs__buffer_text(&buffer, ";");
    assert_int_equal(buffer.size, 5);
    assert_memory_equal(buffer.data, "x=42;", 5);
}

static void room_is_not_counted(void **state)
{
    (void)state;
    hs__buffer_append(&buffer, "ab", 2);
    unsigned char *room = hs__buffer_room(&buffer, 100);
    assert_ptr_equal(room, buffer.data + 2);
    assert_int_equal(buffer.size, 2);
    assert_true(buffer.capacity >= 102);
}

static void a_cleared_buffer_keeps_its_memory(void **state)
{
    (void)state;
    hs__buffer_append(&buffer, "0123456789", 10);
    size_t allocations = t.allocations;
    hs__buffer_clear(&buffer);
    assert_int_equal(buffer.size, 0);
    hs__buffer_append(&buffer, "0123456789", 10);
    assert_int_equal(t.allocations, allocations);
}

static void the_first_failure_is_kept(void **state)
{
    (void)state;
    hs_error err = {0};
    hs__buffer_append(&buffer, "kept", 4);
    t.fail_alloc_at = t.allocations + 1;
    hs__buffer_text(&buffer, "%100d", 1);
    hs__buffer_append(&buffer, "x", 1);
    hs__buffer_varint(&buffer, 1);
    assert_int_equal(buffer.size, 4);
    assert_null(hs__buffer_room(&buffer, 1));
    assert_fails(hs__buffer_check(&buffer, "a record", &err), HS_RESOURCE_EXHAUSTED, &err, "a record");
}

static void a_cleared_buffer_has_not_failed(void **state)
{
    (void)state;
    t.fail_alloc_at = 1;
    hs__buffer_append(&buffer, "x", 1);
    assert_true(buffer.failed);
    hs__buffer_clear(&buffer);
    hs__buffer_append(&buffer, "y", 1);
    assert_false(buffer.failed);
    assert_memory_equal(buffer.data, "y", 1);
}

static void overflowing_sizes_fail(void **state)
{
    (void)state;
    hs__buffer_append(&buffer, "x", 1);
    assert_null(hs__buffer_room(&buffer, SIZE_MAX));
    assert_true(buffer.failed);
    assert_int_equal(buffer.size, 1);
}

static void numbers_are_little_endian(void **state)
{
    (void)state;
    static const unsigned char expected[] = {0x78, 0x56, 0x34, 0x12, 0xf0, 0xde, 0xbc, 0x9a, 0x78, 0x56, 0x34, 0xff};
    hs__buffer_fixed32(&buffer, 0x12345678u);
    hs__buffer_fixed64(&buffer, 0xff3456789abcdef0u);
    assert_int_equal(buffer.size, sizeof expected);
    assert_memory_equal(buffer.data, expected, sizeof expected);
    assert_int_equal(hs__get32(buffer.data), 0x12345678u);
    assert_true(hs__get64(buffer.data + 4) == 0xff3456789abcdef0u);
}

static void varints_have_these_bytes(void **state)
{
    (void)state;
    static const unsigned char expected[] = {0x00, 0x7f, 0x80, 0x01, 0xac, 0x02, 0xff, 0xff,
                                             0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01};
    hs__buffer_varint(&buffer, 0);
    hs__buffer_varint(&buffer, 127);
    hs__buffer_varint(&buffer, 128);
    hs__buffer_varint(&buffer, 300);
    hs__buffer_varint(&buffer, UINT64_MAX);
    assert_int_equal(buffer.size, sizeof expected);
    assert_memory_equal(buffer.data, expected, sizeof expected);
}

static void varints_read_back(void **state)
{
    (void)state;
    for (unsigned shift = 0; shift < 64; shift++)
        for (uint64_t around = 0; around < 3; around++) {
            uint64_t value = ((uint64_t)1 << shift) - 1 + around, found = ~value;
            unsigned char bytes[10];
            const unsigned char *at = bytes;
            size_t n = hs__put_varint(bytes, value);
            assert_true(hs__get_varint(&at, bytes + n, &found));
            assert_true(found == value);
            assert_ptr_equal(at, bytes + n);
        }
}

/* Refused, and the position is unchanged. */
static void refuse_varint(const unsigned char *bytes, size_t n)
{
    const unsigned char *at = bytes;
    uint64_t value = 99;
    assert_false(hs__get_varint(&at, bytes + n, &value));
    assert_ptr_equal(at, bytes);
    assert_int_equal(value, 99);
}

static void invalid_varints_are_refused(void **state)
{
    (void)state;
    static const unsigned char endless[] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01};
    static const unsigned char large[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02};
    for (size_t n = 0; n <= sizeof endless; n++) /* truncated at first, then too long */
        refuse_varint(endless, n);
    refuse_varint(large, sizeof large);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(appends_follow_each_other),
        TEST(an_append_of_nothing_takes_no_memory),
        TEST(text_is_formatted_without_its_zero),
        TEST(room_is_not_counted),
        TEST(a_cleared_buffer_keeps_its_memory),
        TEST(the_first_failure_is_kept),
        TEST(a_cleared_buffer_has_not_failed),
        TEST(overflowing_sizes_fail),
        TEST(numbers_are_little_endian),
        TEST(varints_have_these_bytes),
        TEST(varints_read_back),
        TEST(invalid_varints_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
