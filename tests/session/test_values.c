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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_values_have_nothing),       play_test(numbers_of_every_type_are_read),
        play_test(values_that_are_not_numbers_are_nan), play_test(the_view_is_the_backends_own),
        play_test(memory_that_cannot_be_read_is_nan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
