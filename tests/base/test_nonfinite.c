/* SPDX-License-Identifier: Apache-2.0 */
/* Finding numbers that are not finite: hs_tensor_nonfinite. */
#include "support/test.h"

/* A float type by its bits. */
typedef struct {
    hs_dtype dtype, complex; /* complex: HS_DTYPE_NONE if no complex dtype has such parts */
    size_t bytes;
    uint64_t infinity, smallest, sign; /* smallest: only the last bit is set */
} float_type;

static const float_type types[] = {
    {HS_HALF, HS_DTYPE_NONE, 2, 0x7c00, 1, 0x8000},
    {HS_BFLOAT16, HS_DTYPE_NONE, 2, 0x7f80, 1, 0x8000},
    {HS_FLOAT, HS_COMPLEX64, 4, 0x7f800000, 1, 0x80000000},
    {HS_DOUBLE, HS_COMPLEX128, 8, 0x7ff0000000000000, 1, 0x8000000000000000},
};

enum { N_TYPES = sizeof types / sizeof *types, LENGTH = 2 * 256 + 40 };

/* LENGTH numbers of the widest type, at an odd address. */
static unsigned char memory[1 + 8 * LENGTH], *const numbers = memory + 1;

static void put(const float_type *type, size_t index, uint64_t bits)
{
    for (size_t i = 0; i < type->bytes; i++) /* little-endian, as all machines that run the tests */
        numbers[index * type->bytes + i] = (unsigned char)(bits >> 8 * i);
}

static hs_nonfinite find(const float_type *type, size_t length)
{
    hs_tensor view = hs_tensor_of(type->dtype, HS_SHAPE((int64_t)length), numbers);
    return hs_tensor_nonfinite(&view);
}

static void assert_counts(hs_nonfinite found, size_t nan, size_t positive, size_t negative, int64_t first)
{
    assert_int_equal(found.nan, nan);
    assert_int_equal(found.positive_infinity, positive);
    assert_int_equal(found.negative_infinity, negative);
    assert_int_equal(found.first_index, first);
}

static int set_up(void **state)
{
    (void)state;
    memset(memory, 0, sizeof memory);
    return 0;
}

static void finite_numbers_are_not_found(void **state)
{
    (void)state;
    for (const float_type *type = types; type < types + N_TYPES; type++) {
        for (size_t i = 0; i < LENGTH; i += 4) {
            put(type, i, 0);
            put(type, i + 1, type->infinity - 1); /* the largest */
            put(type, i + 2, type->smallest | type->sign);
            put(type, i + 3, (type->infinity - 1) | type->sign);
        }
        assert_counts(find(type, LENGTH), 0, 0, 0, -1);
    }
}

static void each_kind_is_counted(void **state)
{
    (void)state;
    for (const float_type *type = types; type < types + N_TYPES; type++) {
        memset(memory, 0, sizeof memory);
        put(type, 3, type->infinity | type->sign);
        put(type, 5, type->infinity + 1); /* different NaNs */
        put(type, 6, (type->infinity + 1) | type->sign);
        put(type, 300, type->sign - 1);
        put(type, 301, type->infinity);
        put(type, LENGTH - 1, type->infinity);
        assert_counts(find(type, LENGTH), 3, 2, 1, 3);
    }
}

static void the_first_is_found_at_every_position(void **state)
{
    (void)state;
    for (const float_type *type = types; type < types + N_TYPES; type++)
        for (size_t at = 0; at < LENGTH; at++) {
            put(type, at, type->infinity);
            put(type, LENGTH - 1, type->infinity);
            assert_counts(find(type, LENGTH), 0, at == LENGTH - 1 ? 1 : 2, 0, (int64_t)at);
            put(type, at, 0);
            put(type, LENGTH - 1, 0);
        }
}

static void bytes_beyond_the_end_are_not_read(void **state)
{
    (void)state;
    for (const float_type *type = types; type < types + N_TYPES; type++) {
        memset(memory, 0, sizeof memory);
        for (size_t length = LENGTH; length-- > 0;) {
            put(type, length, type->infinity + 1);
            assert_counts(find(type, length), 0, 0, 0, -1);
        }
    }
}

static void complex_numbers_count_by_part_and_are_found_by_element(void **state)
{
    (void)state;
    for (const float_type *type = types; type < types + N_TYPES; type++)
        for (size_t part = 0; type->complex && part < LENGTH; part++) {
            hs_tensor view = hs_tensor_of(type->complex, HS_SHAPE(LENGTH / 2), numbers);
            put(type, part, type->infinity + 1);
            assert_counts(hs_tensor_nonfinite(&view), 1, 0, 0, (int64_t)part / 2);
            put(type, part, 0);
        }
}

static void other_types_are_finite(void **state)
{
    (void)state;
    static const hs_dtype others[] = {HS_INT64, HS_UINT8, HS_BOOL, HS_UINT16, HS_QINT32, HS_DTYPE_NONE};
    memset(memory, 0xff, sizeof memory);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        hs_tensor view = hs_tensor_of(others[i], HS_SHAPE(100), numbers);
        assert_counts(hs_tensor_nonfinite(&view), 0, 0, 0, -1);
    }
}

static void strings_are_finite(void **state)
{
    (void)state;
    hs_string text = {"\xff\xff\xff\xff", 4};
    hs_tensor view = hs_tensor_of(HS_STRING, HS_SCALAR, &text);
    assert_counts(hs_tensor_nonfinite(&view), 0, 0, 0, -1);
}

static void device_memory_is_not_read(void **state)
{
    (void)state;
    hs_memory device = HS_INIT(hs_memory, .device_type = 2);
    hs_tensor far = hs_tensor_of(HS_FLOAT, HS_SHAPE(4), (void *)16), none = hs_tensor_of(HS_FLOAT, HS_SHAPE(0), NULL);
    far.memory = &device;
    assert_counts(hs_tensor_nonfinite(&far), 0, 0, 0, -1);
    assert_counts(hs_tensor_nonfinite(&none), 0, 0, 0, -1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, set_up)
    const struct CMUnitTest tests[] = {
        TEST(finite_numbers_are_not_found),
        TEST(each_kind_is_counted),
        TEST(the_first_is_found_at_every_position),
        TEST(bytes_beyond_the_end_are_not_read),
        TEST(complex_numbers_count_by_part_and_are_found_by_element),
        TEST(other_types_are_finite),
        TEST(strings_are_finite),
        TEST(device_memory_is_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
