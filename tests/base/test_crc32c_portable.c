/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "base/crc32c.h"
/* Each test runs with each implementation. In builds with ISA-L, hs__crc32c is ISA-L's. */
static uint32_t crc32c(void **state, uint32_t crc, const void *data, size_t bytes)
{
    const hs__crc32c_path *path = *state;
    if (!hs__crc32c_supports(*path))
        test_skip("this processor has no instructions for CRC-32C");
    return hs__crc32c_by(*path, crc, data, bytes);
}

/* One bit at a time, from the definition: reflected, polynomial 0x1edc6f41. */
static uint32_t add_byte(uint32_t crc, unsigned char byte)
{
    crc = ~crc ^ byte;
    for (int bit = 0; bit < 8; bit++)
        crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    return ~crc;
}

static void fill(unsigned char *data, size_t bytes)
{
    uint32_t x = 54321;
    for (size_t i = 0; i < bytes; i++) {
        x = x * 1664525u + 1013904223u;
        data[i] = (unsigned char)(x >> 24);
    }
}

static void known_checksums(void **state)
{
    unsigned char bytes[32];
    assert_int_equal(crc32c(state, 0, "123456789", 9), 0xe3069283u);
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(crc32c(state, 0, bytes, 32), 0x8a9136aau);
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(crc32c(state, 0, bytes, 32), 0x62a8ab43u);
    for (unsigned i = 0; i < 32; i++)
        bytes[i] = (unsigned char)i;
    assert_int_equal(crc32c(state, 0, bytes, 32), 0x46dd794eu);
    assert_int_equal(crc32c(state, 0, NULL, 0), 0);
    assert_int_equal(crc32c(state, 0xdeadbeefu, "x", 0), 0xdeadbeefu);
}

enum { LONGEST = 14000 }; /* many rounds of three blocks, and a rest */

static void agrees_with_the_definition_at_every_length(void **state)
{
    static unsigned char data[LONGEST];
    uint32_t expected = 77;
    fill(data, sizeof data);
    for (size_t bytes = 0; bytes < LONGEST; bytes++) {
        if (bytes < 100 || bytes % 8 == 7 || bytes % 256 < 2)
            assert_int_equal(crc32c(state, 77, data, bytes), expected);
        expected = add_byte(expected, data[bytes]);
    }
}

static void agrees_with_the_librarys_at_every_address(void **state)
{
    static unsigned char data[LONGEST];
    fill(data, sizeof data);
    for (size_t start = 0; start < 70; start++)
        for (size_t bytes = 1; start + bytes <= LONGEST; bytes = bytes * 3 + start % 3)
            assert_int_equal(crc32c(state, 0, data + start, bytes), hs__crc32c(0, data + start, bytes));
}

static void every_bit_counts(void **state)
{
    static unsigned char data[3 * 256 + 9];
    const uint32_t whole = crc32c(state, 0, data, sizeof data);
    for (size_t bit = 0; bit < 8 * sizeof data; bit += bit < 200 ? 1 : 7) {
        data[bit / 8] ^= (unsigned char)(1u << bit % 8);
        assert_int_not_equal(crc32c(state, 0, data, sizeof data), whole);
        assert_int_equal(crc32c(state, 0, data, sizeof data), hs__crc32c(0, data, sizeof data));
        data[bit / 8] = 0;
    }
}

static void continues_from_any_split(void **state)
{
    static unsigned char data[LONGEST];
    fill(data, sizeof data);
    const uint32_t whole = crc32c(state, 0, data, sizeof data);
    for (size_t cut = 0; cut <= sizeof data; cut += 137)
        assert_int_equal(crc32c(state, crc32c(state, 0, data, cut), data + cut, sizeof data - cut), whole);
}

#define WITH_TABLE(test)                                                                                                   \
    {                                                                                                                      \
        "with the table: " #test, test, NULL, NULL, &table                                                                 \
    }
#define WITH_INSTRUCTIONS(test)                                                                                            \
    {                                                                                                                      \
        "with instructions: " #test, test, NULL, NULL, &instructions                                                       \
    }

int main(void)
{
    static hs__crc32c_path table = HS__CRC32C_TABLE, instructions = HS__CRC32C_INSTRUCTIONS;
    const struct CMUnitTest tests[] = {
        WITH_TABLE(known_checksums),
        WITH_TABLE(agrees_with_the_definition_at_every_length),
        WITH_TABLE(agrees_with_the_librarys_at_every_address),
        WITH_TABLE(every_bit_counts),
        WITH_TABLE(continues_from_any_split),
        WITH_INSTRUCTIONS(known_checksums),
        WITH_INSTRUCTIONS(agrees_with_the_definition_at_every_length),
        WITH_INSTRUCTIONS(agrees_with_the_librarys_at_every_address),
        WITH_INSTRUCTIONS(every_bit_counts),
        WITH_INSTRUCTIONS(continues_from_any_split),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
