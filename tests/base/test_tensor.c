/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "base/tensor.h"

#include <math.h>

static const struct {
    hs_dtype dtype;
    const char *name;
    size_t size;
} dtypes[] = {
    {HS_FLOAT, "float", 4},
    {HS_DOUBLE, "double", 8},
    {HS_INT32, "int32", 4},
    {HS_UINT8, "uint8", 1},
    {HS_INT16, "int16", 2},
    {HS_INT8, "int8", 1},
    {HS_COMPLEX64, "complex64", 8},
    {HS_INT64, "int64", 8},
    {HS_BOOL, "bool", 1},
    {HS_QINT8, "qint8", 1},
    {HS_QUINT8, "quint8", 1},
    {HS_QINT32, "qint32", 4},
    {HS_BFLOAT16, "bfloat16", 2},
    {HS_QINT16, "qint16", 2},
    {HS_QUINT16, "quint16", 2},
    {HS_UINT16, "uint16", 2},
    {HS_COMPLEX128, "complex128", 16},
    {HS_HALF, "half", 2},
    {HS_UINT32, "uint32", 4},
    {HS_UINT64, "uint64", 8},
    {HS_STRING, "string", sizeof(hs_string)},
};

enum { N_DTYPES = sizeof dtypes / sizeof *dtypes };

/* Types and shapes. */

static void dtypes_have_size_and_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_DTYPES; i++) {
        assert_int_equal(hs_dtype_size(dtypes[i].dtype), dtypes[i].size);
        assert_string_equal(hs_dtype_name(dtypes[i].dtype), dtypes[i].name);
        assert_true(hs__dtype_valid((int64_t)dtypes[i].dtype));
    }
}

static void other_numbers_are_not_dtypes(void **state)
{
    (void)state;
    static const int none[] = {0, 20, 21, 24, 101, 1000, INT32_MAX};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        assert_int_equal(hs_dtype_size((hs_dtype)none[i]), 0);
        assert_string_equal(hs_dtype_name((hs_dtype)none[i]), "invalid");
    }
    assert_false(hs__dtype_valid(-1));
    assert_false(hs__dtype_valid(((int64_t)1 << 32) + HS_FLOAT));
}

static void shapes_have_elements(void **state)
{
    (void)state;
    const int64_t large = (int64_t)1 << 31;
    const struct {
        hs_shape shape;
        int64_t elements;
    } rows[] = {
        {HS_SCALAR, 1},
        {HS_SHAPE(7), 7},
        {HS_SHAPE(2, 3, 4), 24},
        {HS_SHAPE(1, 1, 1, 1, 1, 1, 1, 2), 2},
        {HS_SHAPE(0), 0},
        {HS_SHAPE(INT64_MAX), INT64_MAX},
        {HS_SHAPE(large, large), (int64_t)1 << 62},
        {HS_SHAPE(large, large, 2), -1},
        {HS_SHAPE(3, INT64_MAX / 2), -1},
        {HS_SHAPE(INT64_MAX, INT64_MAX, 0), 0},
        {HS_SHAPE(2, -1), -1},
        {HS_SHAPE(0, -1), -1},
        {HS_SHAPE(INT64_MIN), -1},
        {HS_ANY_SHAPE, -1},
        {{.rank = 9}, -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (hs_shape_elements(&rows[i].shape) != rows[i].elements)
            fail_msg("row %zu: %lld", i, (long long)hs_shape_elements(&rows[i].shape));
}

static void shapes_are_equal_in_rank_and_dimensions(void **state)
{
    (void)state;
    hs_shape a = HS_SHAPE(2, 3), same = HS_SHAPE(2, 3), other = HS_SHAPE(3, 2), more = HS_SHAPE(2, 3, 1);
    same.dims[5] = 99; /* beyond the rank */
    assert_true(hs_shape_equal(&a, &same));
    assert_false(hs_shape_equal(&a, &other));
    assert_false(hs_shape_equal(&a, &more));
    assert_true(hs_shape_equal(&HS_SCALAR, &HS_SCALAR));
    assert_false(hs_shape_equal(&HS_ANY_SHAPE, &HS_ANY_SHAPE));
}

static void open_shapes_match_shapes_that_fit(void **state)
{
    (void)state;
    hs_shape open = HS_SHAPE(-1, 3), fits = HS_SHAPE(8, 3), wrong = HS_SHAPE(8, 4), flat = HS_SHAPE(24);
    assert_true(hs__shape_fits(&open, &fits));
    assert_false(hs__shape_fits(&open, &wrong));
    assert_false(hs__shape_fits(&open, &flat));
    assert_true(hs__shape_fits(&HS_ANY_SHAPE, &flat));
    assert_false(hs__shape_fits(&HS_SCALAR, &flat));
}

static void shapes_are_checked(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_shape open = HS_SHAPE(-1, 3), wrong = HS_SHAPE(3, -2), large = {.rank = 9}, none = {.rank = -2};
    assert_ok(hs__shape_check(&open, true, "x", &err), &err);
    assert_ok(hs__shape_check(&HS_ANY_SHAPE, true, "x", &err), &err);
    assert_fails(hs__shape_check(&open, false, "x", &err), HS_INVALID_ARGUMENT, &err, "dimension 0 is -1");
    assert_fails(hs__shape_check(&HS_ANY_SHAPE, false, "x", &err), HS_INVALID_ARGUMENT, &err, "rank is -1");
    assert_fails(hs__shape_check(&wrong, true, "x", &err), HS_INVALID_ARGUMENT, &err, "x: dimension 1 is -2");
    assert_fails(hs__shape_check(&large, true, "x", &err), HS_INVALID_ARGUMENT, &err, "rank is 9");
    assert_fails(hs__shape_check(&none, true, "x", &err), HS_INVALID_ARGUMENT, &err, "rank is -2");
}

static void shapes_are_written(void **state)
{
    (void)state;
    char text[HS_SHAPE_TEXT_SIZE];
    const int64_t m = INT64_MIN;
    assert_string_equal(hs_shape_text(&HS_SCALAR, text, sizeof text), "[]");
    assert_string_equal(hs_shape_text(&HS_SHAPE(128, 784), text, sizeof text), "[128,784]");
    assert_string_equal(hs_shape_text(&HS_SHAPE(-1), text, sizeof text), "[-1]");
    assert_string_equal(hs_shape_text(&HS_ANY_SHAPE, text, sizeof text), "?");
    hs_shape_text(&HS_SHAPE(m, m, m, m, m, m, m, m), text, sizeof text);
    assert_int_equal(strlen(text), 8 * 20 + 7 + 2);
}

static void a_shape_without_room_is_truncated_and_terminated(void **state)
{
    (void)state;
    for (size_t bytes = 1; bytes < 12; bytes++) {
        char text[12];
        memset(text, 'x', sizeof text);
        hs_shape_text(&HS_SHAPE(128, 784), text, bytes);
        assert_true(strlen(text) < bytes);
        assert_memory_equal(text, "[128,784]", strlen(text));
    }
}

/* Views. */

static void a_view_knows_its_bytes(void **state)
{
    (void)state;
    float data[6] = {0};
    hs_tensor view = hs_tensor_of(HS_FLOAT, HS_SHAPE(2, 3), data);
    hs_shape shape = hs_tensor_shape(&view);
    assert_ptr_equal(view.data, data);
    assert_int_equal(view.bytes, sizeof data);
    assert_null(view.memory);
    assert_true(hs_shape_equal(&shape, &HS_SHAPE(2, 3)));
    assert_int_equal(hs_tensor_of(HS_COMPLEX128, HS_SCALAR, data).bytes, 16);
}

static void invalid_views_have_no_bytes(void **state)
{
    (void)state;
    const int64_t large = (int64_t)1 << 61;
    assert_int_equal(hs_tensor_of(HS_DTYPE_NONE, HS_SHAPE(3), "x").bytes, 0);
    assert_int_equal(hs_tensor_of(HS_FLOAT, HS_SHAPE(3, -1), "x").bytes, 0);
    assert_int_equal(hs_tensor_of(HS_DOUBLE, HS_SHAPE(large), "x").bytes, 0);
    assert_int_equal(hs_tensor_of(HS_FLOAT, HS_ANY_SHAPE, "x").bytes, 0);
}

static void shape_of_accepts_at_most_eight_dimensions(void **state)
{
    (void)state;
    const int64_t dims[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    hs_shape two = hs_shape_of(2, dims), nine = hs_shape_of(9, dims);
    hs_error err = {0};
    hs_tensor view = hs_tensor_of(HS_FLOAT, nine, dims);
    assert_true(hs_shape_equal(&two, &HS_SHAPE(1, 2)));
    assert_int_equal(nine.dims[7], 8);
    assert_fails(hs_tensor_check(&view, &err), HS_INVALID_ARGUMENT, &err, "rank is 9");
}

static void valid_tensors_pass(void **state)
{
    (void)state;
    static const char data[6 * 16];
    for (size_t i = 0; i < N_DTYPES; i++) {
        hs_error err = {HS_INTERNAL, 1, "old"};
        hs_tensor view = hs_tensor_of(dtypes[i].dtype, HS_SHAPE(2, 3), data);
        assert_ok(hs_tensor_check(&view, &err), &err);
        assert_int_equal(err.code, HS_OK);
    }
    hs_tensor empty = hs_tensor_of(HS_FLOAT, HS_SHAPE(0, 5), NULL);
    assert_int_equal(hs_tensor_check(&empty, NULL), HS_OK);
}

static void refuse(hs_tensor tensor, const char *text)
{
    hs_error err = {0};
    assert_fails(hs_tensor_check(&tensor, &err), HS_INVALID_ARGUMENT, &err, text);
}

static void invalid_tensors_are_described(void **state)
{
    (void)state;
    float data[6] = {0};
    hs_tensor view = hs_tensor_of(HS_FLOAT, HS_SHAPE(2, 3), data);
    view.bytes = 23;
    refuse(view, "shape [2,3] has 24 bytes, but bytes is 23");
    view.bytes = 0;
    refuse(view, "bytes is 0");
    refuse(hs_tensor_of(HS_FLOAT, HS_SHAPE(2, 3), NULL), "no data");
    refuse(hs_tensor_of((hs_dtype)20, HS_SHAPE(2, 3), data), "dtype is 20");
    refuse(hs_tensor_of(HS_FLOAT, HS_SHAPE(2, -3), data), "dimension 1 is -3");
    refuse(hs_tensor_of(HS_FLOAT, HS_ANY_SHAPE, data), "rank is -1");
    refuse(hs_tensor_of(HS_FLOAT, HS_SHAPE(INT64_MAX, 2), data), "too large");
    refuse(hs_tensor_of(HS_DOUBLE, HS_SHAPE((int64_t)1 << 61), data), "too large");
}

/* Simulated memory of a device: host memory with each byte off by one. */

typedef struct {
    int copies;
    hs_code code;
    bool silent;
} device;

static hs_code to_host(void *user, void *host, const void *data, size_t bytes, hs_error *err)
{
    device *d = user;
    d->copies++;
    if (d->code)
        return d->silent ? d->code : hs_error_set(err, d->code, "the device is lost");
    for (size_t i = 0; i < bytes; i++)
        ((char *)host)[i] = (char)(((const char *)data)[i] - 1);
    return HS_OK;
}

static hs_code from_host(void *user, void *data, const void *host, size_t bytes, hs_error *err)
{
    (void)user, (void)data, (void)host, (void)bytes;
    return hs_error_set(err, HS_INTERNAL, "writes are not expected");
}

static hs_memory memory_of(device *d)
{
    return (hs_memory)HS_INIT(hs_memory, .device_type = 2, .to_host = to_host, .from_host = from_host, .user = d);
}

static hs_tensor on_device(const hs_memory *memory, int64_t n, const void *data)
{
    hs_tensor tensor = hs_tensor_of(HS_UINT8, HS_SHAPE(n), data);
    tensor.memory = memory;
    return tensor;
}

static void host_memory_is_not_copied(void **state)
{
    (void)state;
    hs_error err = {HS_INTERNAL, 1, "old"};
    float data[2] = {1, 2};
    hs_host_copy copy = {0};
    hs_tensor view = hs_tensor_of(HS_FLOAT, HS_SHAPE(2), data), host;
    assert_ok(hs_tensor_host(&view, &copy, &host, &err), &err);
    assert_int_equal(err.code, HS_OK);
    assert_ptr_equal(host.data, data);
    assert_null(copy.data);
}

static void device_memory_is_copied_to_the_host(void **state)
{
    (void)state;
    static test_env t;
    test_env_init(&t);
    hs_error err = {HS_INTERNAL, 1, "old"};
    device d = {0};
    hs_memory memory = memory_of(&d);
    hs_host_copy copy = {.env = &t.env};
    hs_tensor view = on_device(&memory, 4, "bcde"), host;
    assert_ok(hs_tensor_host(&view, &copy, &host, &err), &err);
    assert_int_equal(err.code, HS_OK);
    assert_null(host.memory);
    assert_int_equal(host.bytes, 4);
    assert_memory_equal(host.data, "abcd", 4);
    hs_host_copy_free(&copy);
    assert_null(copy.data);
    assert_int_equal(t.live, 0);
}

static void the_copy_is_reused_and_grows(void **state)
{
    (void)state;
    static test_env t;
    test_env_init(&t);
    device d = {0};
    hs_memory memory = memory_of(&d);
    hs_host_copy copy = {.env = &t.env};
    const int64_t sizes[] = {8, 4, 8, 16, 1};
    for (size_t i = 0; i < 5; i++) {
        hs_error err = {0};
        hs_tensor view = on_device(&memory, sizes[i], "bbbbbbbbbbbbbbbb"), host;
        assert_ok(hs_tensor_host(&view, &copy, &host, &err), &err);
        assert_memory_equal(host.data, "aaaaaaaaaaaaaaaa", (size_t)sizes[i]);
    }
    assert_int_equal(t.allocations, 2);
    assert_int_equal(t.live, 1);
    assert_int_equal(d.copies, 5);
    hs_host_copy_free(&copy);
}

static void a_failing_device_is_reported(void **state)
{
    (void)state;
    hs_error err = {0};
    device d = {.code = HS_USER + 1};
    hs_memory memory = memory_of(&d);
    hs_host_copy copy = {0};
    hs_tensor view = on_device(&memory, 4, "bcde"), host;
    assert_fails(hs_tensor_host(&view, &copy, &host, &err), HS_USER + 1, &err, "the device is lost");
    hs_host_copy_free(&copy);
}

static void a_device_that_fails_without_a_message_is_reported(void **state)
{
    (void)state;
    hs_error err = {HS_INTERNAL, 1, "old"};
    device d = {.code = HS_USER + 1, .silent = true};
    hs_memory memory = memory_of(&d);
    hs_host_copy copy = {0};
    hs_tensor view = on_device(&memory, 4, "bcde"), host;
    assert_fails(hs_tensor_host(&view, &copy, &host, &err), HS_USER + 1, &err, "failed with USER");
    hs_host_copy_free(&copy);
}

static void without_memory_for_the_copy_the_device_is_not_called(void **state)
{
    (void)state;
    static test_env t;
    test_env_init(&t);
    hs_error err = {0};
    device d = {0};
    hs_memory memory = memory_of(&d);
    hs_host_copy copy = {.env = &t.env};
    hs_tensor view = on_device(&memory, 4, "bcde"), host;
    t.fail_alloc_at = 1;
    assert_fails(hs_tensor_host(&view, &copy, &host, &err), HS_RESOURCE_EXHAUSTED, &err, "");
    assert_int_equal(d.copies, 0);
    assert_ok(hs_tensor_host(&view, &copy, &host, &err), &err);
    hs_host_copy_free(&copy);
    assert_int_equal(t.live, 0);
}

/* Elements as numbers. */

#define NUMBERS(DTYPE, TYPE, ...)                                                                                          \
    do {                                                                                                                   \
        const TYPE values[] = {__VA_ARGS__};                                                                               \
        int64_t n = sizeof values / sizeof *values;                                                                        \
        char unaligned[1 + sizeof values];                                                                                 \
        memcpy(unaligned + 1, values, sizeof values);                                                                      \
        hs_tensor view = hs_tensor_of(DTYPE, HS_SHAPE(n), unaligned + 1);                                                  \
        for (int64_t i = 0; i < n; i++)                                                                                    \
            assert_true(hs_tensor_number(&view, (size_t)i) == (double)values[i]);                                          \
        assert_true(isnan(hs_tensor_number(&view, (size_t)n)));                                                            \
    } while (0)

static void every_real_type_gives_numbers(void **state)
{
    (void)state;
    NUMBERS(HS_FLOAT, float, 1.5f, -3e38f, 1e-45f);
    NUMBERS(HS_DOUBLE, double, 1.5, -1e308, 5e-324);
    NUMBERS(HS_INT8, int8_t, INT8_MIN, -1, INT8_MAX);
    NUMBERS(HS_QINT8, int8_t, INT8_MIN, -1, INT8_MAX);
    NUMBERS(HS_UINT8, uint8_t, 0, UINT8_MAX);
    NUMBERS(HS_QUINT8, uint8_t, 0, UINT8_MAX);
    NUMBERS(HS_BOOL, uint8_t, 0, 1);
    NUMBERS(HS_INT16, int16_t, INT16_MIN, -1, INT16_MAX);
    NUMBERS(HS_QINT16, int16_t, INT16_MIN, -1, INT16_MAX);
    NUMBERS(HS_UINT16, uint16_t, 0, UINT16_MAX);
    NUMBERS(HS_QUINT16, uint16_t, 0, UINT16_MAX);
    NUMBERS(HS_INT32, int32_t, INT32_MIN, -1, INT32_MAX);
    NUMBERS(HS_QINT32, int32_t, INT32_MIN, -1, INT32_MAX);
    NUMBERS(HS_UINT32, uint32_t, 0, UINT32_MAX);
    NUMBERS(HS_INT64, int64_t, INT64_MIN, -1, (int64_t)1 << 53);
    NUMBERS(HS_UINT64, uint64_t, 0, (uint64_t)1 << 63);
}

static void other_tensors_give_no_number(void **state)
{
    (void)state;
    static const hs_dtype none[] = {HS_COMPLEX64, HS_COMPLEX128, HS_STRING, HS_DTYPE_NONE};
    char data[16] = {0};
    device d = {0};
    hs_memory memory = memory_of(&d);
    for (size_t i = 0; i < 4; i++) {
        hs_tensor view = hs_tensor_of(none[i], HS_SCALAR, data);
        assert_true(isnan(hs_tensor_number(&view, 0)));
    }
    hs_tensor far = on_device(&memory, 4, "bcde"), no_data = hs_tensor_of(HS_FLOAT, HS_SCALAR, NULL);
    assert_true(isnan(hs_tensor_number(&far, 0)));
    assert_true(isnan(hs_tensor_number(&no_data, 0)));
}

static double number_of(hs_dtype dtype, uint16_t bits)
{
    hs_tensor view = hs_tensor_of(dtype, HS_SCALAR, &bits);
    return hs_tensor_number(&view, 0);
}

static void halves_have_these_values(void **state)
{
    (void)state;
    static const struct {
        uint16_t bits;
        double value;
    } rows[] = {
        {0x0000, 0},
        {0x3c00, 1},
        {0xc000, -2},
        {0x3555, 0.333251953125},
        {0x7bff, 65504},
        {0xfbff, -65504},
        {0x0400, 0x1p-14},
        {0x03ff, 0x3ffp-24},
        {0x0001, 0x1p-24},
        {0x8001, -0x1p-24},
        {0x7c00, (double)INFINITY},
        {0xfc00, -(double)INFINITY},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_true(number_of(HS_HALF, rows[i].bits) == rows[i].value);
    assert_true(signbit(number_of(HS_HALF, 0x8000)));
    assert_true(isnan(number_of(HS_HALF, 0x7c01)) && isnan(number_of(HS_HALF, 0xfe00)));
}

static void halves_ascend_with_their_bits(void **state)
{
    (void)state;
    for (uint16_t bits = 0; bits < 0x7c00; bits++) {
        uint16_t negative = bits | 0x8000, next = (uint16_t)(bits + 1);
        assert_true(number_of(HS_HALF, bits) < number_of(HS_HALF, next));
        assert_true(number_of(HS_HALF, negative) == -number_of(HS_HALF, bits));
    }
}

static void bfloats_are_the_upper_half_of_floats(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits <= UINT16_MAX; bits++) {
        uint32_t wide = bits << 16;
        float expected;
        memcpy(&expected, &wide, sizeof expected);
        double found = number_of(HS_BFLOAT16, (uint16_t)bits);
        assert_true(isnan(expected) ? isnan(found) : found == (double)expected);
    }
    assert_true(number_of(HS_BFLOAT16, 0x3fc0) == 1.5);
    assert_true(number_of(HS_BFLOAT16, 0x0001) == 0x1p-133); /* subnormal */
    assert_true(number_of(HS_BFLOAT16, 0xff80) == -(double)INFINITY);
}

/* NULL arguments return a result and do not crash. */

static void null_shapes_are_handled(void **state)
{
    (void)state;
    char text[HS_SHAPE_TEXT_SIZE];
    hs_shape none = hs_shape_of(2, NULL);
    assert_int_equal(hs_shape_elements(NULL), -1);
    assert_int_equal(hs_shape_elements(&none), -1);
    assert_false(hs_shape_equal(NULL, &HS_SCALAR));
    assert_false(hs_shape_equal(&HS_SCALAR, NULL));
    assert_false(hs_shape_equal(NULL, NULL));
    assert_string_equal(hs_shape_text(NULL, text, sizeof text), "?");
    assert_null(hs_shape_text(&HS_SCALAR, NULL, 10));
    assert_int_equal(hs_shape_of(0, NULL).rank, 0);
}

static void null_tensors_are_handled(void **state)
{
    (void)state;
    hs_error err = {0};
    assert_int_equal(hs_tensor_shape(NULL).rank, -1);
    assert_fails(hs_tensor_check(NULL, &err), HS_INVALID_ARGUMENT, &err, "NULL");
    assert_true(isnan(hs_tensor_number(NULL, 0)));
    assert_int_equal(hs_tensor_nonfinite(NULL).first_index, -1);
    assert_int_equal(hs_tensor_nonfinite(NULL).nan, 0);
}

static void null_copies_are_handled(void **state)
{
    (void)state;
    hs_error err = {0};
    device d = {0};
    hs_memory memory = memory_of(&d);
    hs_host_copy copy = {0};
    hs_tensor near = hs_tensor_of(HS_UINT8, HS_SHAPE(4), "bcde"), far = on_device(&memory, 4, "bcde"), host;
    assert_fails(hs_tensor_host(NULL, &copy, &host, &err), HS_INVALID_ARGUMENT, &err, "NULL");
    assert_fails(hs_tensor_host(&near, &copy, NULL, &err), HS_INVALID_ARGUMENT, &err, "NULL");
    assert_fails(hs_tensor_host(&far, NULL, &host, &err), HS_INVALID_ARGUMENT, &err, "NULL");
    assert_ok(hs_tensor_host(&near, NULL, &host, &err), &err); /* host memory needs no copy */
    assert_int_equal(d.copies, 0);
    hs_host_copy_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dtypes_have_size_and_name),
        cmocka_unit_test(other_numbers_are_not_dtypes),
        cmocka_unit_test(shapes_have_elements),
        cmocka_unit_test(shapes_are_equal_in_rank_and_dimensions),
        cmocka_unit_test(open_shapes_match_shapes_that_fit),
        cmocka_unit_test(shapes_are_checked),
        cmocka_unit_test(shapes_are_written),
        cmocka_unit_test(a_shape_without_room_is_truncated_and_terminated),
        cmocka_unit_test(a_view_knows_its_bytes),
        cmocka_unit_test(invalid_views_have_no_bytes),
        cmocka_unit_test(shape_of_accepts_at_most_eight_dimensions),
        cmocka_unit_test(valid_tensors_pass),
        cmocka_unit_test(invalid_tensors_are_described),
        cmocka_unit_test(host_memory_is_not_copied),
        cmocka_unit_test(device_memory_is_copied_to_the_host),
        cmocka_unit_test(the_copy_is_reused_and_grows),
        cmocka_unit_test(a_failing_device_is_reported),
        cmocka_unit_test(a_device_that_fails_without_a_message_is_reported),
        cmocka_unit_test(without_memory_for_the_copy_the_device_is_not_called),
        cmocka_unit_test(every_real_type_gives_numbers),
        cmocka_unit_test(other_tensors_give_no_number),
        cmocka_unit_test(halves_have_these_values),
        cmocka_unit_test(halves_ascend_with_their_bits),
        cmocka_unit_test(bfloats_are_the_upper_half_of_floats),
        cmocka_unit_test(null_shapes_are_handled),
        cmocka_unit_test(null_tensors_are_handled),
        cmocka_unit_test(null_copies_are_handled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
