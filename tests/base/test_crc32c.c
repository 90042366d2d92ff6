/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "base/crc32c.h"

/* One bit at a time, from the definition: reflected, polynomial 0x1edc6f41. */
static uint32_t reference(const unsigned char *data, size_t bytes)
{
    uint32_t crc = ~0u;
    for (size_t i = 0; i < bytes; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

static void fill(unsigned char *data, size_t bytes)
{
    uint32_t x = 12345;
    for (size_t i = 0; i < bytes; i++) {
        x = x * 1664525u + 1013904223u;
        data[i] = (unsigned char)(x >> 24);
    }
}

static void known_checksums(void **state)
{
    (void)state;
    unsigned char zeros[32] = {0}, ones[32], up[32], down[32];
    memset(ones, 0xff, sizeof ones);
    for (unsigned i = 0; i < 32; i++) {
        up[i] = (unsigned char)i;
        down[i] = (unsigned char)(31 - i);
    }
    assert_int_equal(hs__crc32c(0, "123456789", 9), 0xe3069283u);
    assert_int_equal(hs__crc32c(0, zeros, 32), 0x8a9136aau);
    assert_int_equal(hs__crc32c(0, ones, 32), 0x62a8ab43u);
    assert_int_equal(hs__crc32c(0, up, 32), 0x46dd794eu);
    assert_int_equal(hs__crc32c(0, down, 32), 0x113fdb5cu);
}

static void no_bytes_do_not_change_the_checksum(void **state)
{
    (void)state;
    assert_int_equal(hs__crc32c(0, NULL, 0), 0);
    assert_int_equal(hs__crc32c(0xdeadbeefu, "x", 0), 0xdeadbeefu);
}

static void agrees_with_the_definition_at_every_length_and_address(void **state)
{
    (void)state;
    unsigned char data[600];
    fill(data, sizeof data);
    for (size_t start = 0; start < 17; start++)
        for (size_t bytes = 0; bytes + start <= sizeof data; bytes += bytes < 70 ? 1 : 13)
            assert_int_equal(hs__crc32c(0, data + start, bytes), reference(data + start, bytes));
}

static void continues_from_any_split(void **state)
{
    (void)state;
    unsigned char data[300];
    fill(data, sizeof data);
    uint32_t whole = hs__crc32c(0, data, sizeof data);
    for (size_t cut = 0; cut <= sizeof data; cut++)
        assert_int_equal(hs__crc32c(hs__crc32c(0, data, cut), data + cut, sizeof data - cut), whole);
}

/* The length of ISA-L's function is an int. The zeros are only read, so that the system maps one page for all of them. */
static void lengths_beyond_an_int_are_split(void **state)
{
    (void)state;
    const size_t border = (size_t)1 << 30, all = 2 * border + 2;
    unsigned char *zeros = calloc(all, 1);
    if (!zeros)
        test_skip("calloc refuses 2 GiB");
    uint32_t crc = hs__crc32c(hs__crc32c(7, zeros, border / 2), zeros, border / 2 - 1);
    for (size_t bytes = border - 1; bytes <= border + 1; bytes++) {
        assert_int_equal(hs__crc32c(7, zeros, bytes), crc);
        crc = hs__crc32c(crc, zeros, 1);
    }
    assert_int_equal(hs__crc32c(7, zeros, all), hs__crc32c(crc, zeros, border)); /* crc is of border + 2 */
    free(zeros);
}

static void tb_030s_mask_rotates_and_adds(void **state)
{
    (void)state;
    assert_int_equal(hs__crc32c_mask(0), 0xa282ead8u);
    assert_int_equal(hs__crc32c_mask(1u << 15), 0xa282ead8u + 1);
    assert_int_equal(hs__crc32c_mask(1), 0xa282ead8u + (1u << 17));
    assert_int_equal(hs__crc32c_mask(0xe3069283u), 0xc78ab0e5u);
}

static void unmask_undoes_mask(void **state)
{
    (void)state;
    uint32_t crc = 1;
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(hs__crc32c_unmask(hs__crc32c_mask(crc)), crc);
        assert_int_not_equal(hs__crc32c_mask(crc), crc);
        crc = crc * 1664525u + 1013904223u;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_checksums),
        cmocka_unit_test(no_bytes_do_not_change_the_checksum),
        cmocka_unit_test(agrees_with_the_definition_at_every_length_and_address),
        cmocka_unit_test(continues_from_any_split),
        cmocka_unit_test(lengths_beyond_an_int_are_split),
        cmocka_unit_test(tb_030s_mask_rotates_and_adds),
        cmocka_unit_test(unmask_undoes_mask),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
