/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the values of a run. */
#include "session/probe.h"

#include <math.h>

static const hs_run_values *fetch_constant(play *p, const hs_tensor *value)
{
    hs_script_constant(p->script, "constant", value);
    if (!p->session)
        play_open(p, NULL, 0);
    assert_ok(play_run(p, HS_NAMES("constant"), NULL), &p->err);
    return p->values;
}

static void no_values_have_nothing(void **state)
{
    (void)state;
    assert_int_equal(hs_run_values_count(NULL), 0);
    assert_null(hs_run_values_tensor(NULL, 0));
    assert_null(hs_run_values_tensor_at(NULL, "x"));
    assert_true(isnan(hs_run_values_number(NULL, 0)));
    assert_true(isnan(hs_run_values_number_at(NULL, "x")));
}

static void numbers_of_every_type_are_read(void **state)
{
    play *p = *state;
    const int64_t large = -7;
    const float single = 2.5f;
    const unsigned char yes = 1;
    const hs_tensor cases[] = {hs_tensor_of(HS_INT64, HS_SCALAR, &large), hs_tensor_of(HS_FLOAT, HS_SHAPE(1, 1), &single),
                               hs_tensor_of(HS_BOOL, HS_SCALAR, &yes)};
    const double numbers[] = {-7, 2.5, 1};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_true(hs_run_values_number(fetch_constant(p, &cases[i]), 0) == numbers[i]);
}

static void values_that_are_not_numbers_are_nan(void **state)
{
    play *p = *state;
    const hs_string word = {"word", 4};
    const hs_tensor cases[] = {hs_tensor_of(HS_STRING, HS_SCALAR, &word), hs_tensor_of(HS_DOUBLE, HS_SHAPE(0), NULL)};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fetch_constant(p, &cases[i]);
        assert_non_null(hs_run_values_tensor(p->values, 0));
        assert_true(isnan(hs_run_values_number(p->values, 0)));
    }
    assert_true(isnan(hs_run_values_number(p->values, 1)));
    assert_true(isnan(hs_run_values_number_at(p->values, "other")));
}

static void the_view_is_the_backends_own(void **state)
{
    play *p = *state;
    const double numbers[] = {1, 2, 3};
    hs_tensor value = hs_tensor_of(HS_DOUBLE, HS_SHAPE(3), numbers);
    const hs_tensor *view = hs_run_values_tensor(fetch_constant(p, &value), 0);
    assert_ptr_equal(view->data, numbers); /* not copied */
    assert_int_equal(view->bytes, sizeof numbers);
    assert_int_equal(view->dims[0], 3);
}

static hs_code break_down(void *user, void *host, const void *device, size_t bytes, hs_error *err)
{
    (void)host, (void)device, (void)bytes;
    ++*(int *)user;
    return hs_error_set(err, HS_INTERNAL, "gone");
}

static void memory_that_cannot_be_read_is_nan(void **state)
{
    play *p = *state;
    const double number = 1;
    const hs_string word = {"word", 4};
    hs_memory memory = HS_INIT(hs_memory, .to_host = break_down, .from_host = break_down);
    int reads = 0;
    memory.user = &reads;
    hs_tensor cases[] = {hs_tensor_of(HS_DOUBLE, HS_SCALAR, &number), hs_tensor_of(HS_DOUBLE, HS_SHAPE(0), NULL),
                         hs_tensor_of(HS_STRING, HS_SCALAR, &word)};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cases[i].memory = &memory;
        assert_true(isnan(hs_run_values_number(fetch_constant(p, &cases[i]), 0)));
    }
    assert_int_equal(reads, 1); /* reads only values with a number */
}

static hs_code count_copy(void *user, void *host, const void *device, size_t bytes, hs_error *err)
{
    (void)err;
    ++*(int *)user;
    memcpy(host, device, bytes);
    return HS_OK;
}

/* A value of up to 64 KiB, and a larger one. */
static void a_value_on_a_device_is_copied_once_in_a_run(void **state)
{
    play *p = *state;
    static const double numbers[1 << 14] = {[0] = 1, [(1 << 14) - 1] = 2};
    int copies = 0;
    const hs_memory memory = HS_INIT(hs_memory, .to_host = count_copy, .user = &copies);
    const int64_t sizes[] = {8, 1 << 14};
    for (size_t i = 0; i < 2; i++) {
        hs_tensor value = hs_tensor_of(HS_DOUBLE, HS_SHAPE(sizes[i]), numbers), first, second;
        value.memory = &memory;
        for (int run = 0; run < 2; run++) {
            const hs_run_values *values = fetch_constant(p, &value);
            copies = 0;
            assert_ok(hs_run_values_host(values, 0, &first, &p->err), &p->err);
            assert_ok(hs_run_values_host(values, 0, &second, &p->err), &p->err);
            assert_int_equal(copies, 1);
            assert_ptr_equal(first.data, second.data);
            assert_null(first.memory);
            assert_memory_equal(first.data, numbers, value.bytes);
        }
        assert_true(hs_run_values_number(fetch_constant(p, &value), 0) == 1);
    }
}

static void values_on_the_host_are_not_copied(void **state)
{
    play *p = *state;
    const double number = 1;
    const hs_tensor value = hs_tensor_of(HS_DOUBLE, HS_SCALAR, &number);
    hs_tensor host;
    const hs_run_values *values = fetch_constant(p, &value);
    assert_ok(hs_run_values_host(values, 0, &host, &p->err), &p->err);
    assert_ptr_equal(host.data, hs_run_values_tensor(values, 0)->data);
    assert_fails(hs_run_values_host(values, 9, &host, &p->err), HS_INVALID_ARGUMENT, &p->err, "no such value");
    assert_fails(hs_run_values_host(values, 0, NULL, &p->err), HS_INVALID_ARGUMENT, &p->err, "host is NULL");
    assert_int_equal(hs_run_values_host(NULL, 0, &host, NULL), HS_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_values_have_nothing),       play_test(numbers_of_every_type_are_read),
        play_test(values_that_are_not_numbers_are_nan), play_test(the_view_is_the_backends_own),
        play_test(memory_that_cannot_be_read_is_nan),   play_test(a_value_on_a_device_is_copied_once_in_a_run),
        play_test(values_on_the_host_are_not_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
