/* SPDX-License-Identifier: Apache-2.0 */
/* Timers that trigger every N steps or every N seconds. */
#include "support/test.h"

#include <hooksess/tf1/timer.h>

/* A clock that the tests move, and a timer on it. */
static test_env on_clock;

static hs_timer *make(hs_trigger when)
{
    hs_error err;
    test_env_init(&on_clock);
    hs_timer *timer = hs_timer_new(when, &on_clock.env, &err);
    assert_ok(err.code, &err);
    return timer;
}

static bool triggers(const hs_timer *timer, int64_t step)
{
    return hs_timer_should_trigger_for_step(timer, step);
}

static bool update(hs_timer *timer, int64_t step)
{
    return hs_timer_update_last_triggered_step(timer, step, NULL, NULL);
}

static void assert_invalid(hs_trigger when, const char *says)
{
    hs_error err;
    assert_null(hs_timer_new(when, NULL, &err));
    assert_says(&err, HS_INVALID_ARGUMENT, says);
    assert_null(hs_timer_new(when, NULL, NULL));
}

static void bh_001_both_secs_and_steps(void **state)
{
    (void)state;
    assert_invalid(HS_TRIGGER(.every_n_secs = 2, .every_n_steps = 10), "each of every_n_secs and every_n_steps");
}

static void bh_002_neither_secs_nor_steps(void **state)
{
    (void)state;
    assert_invalid((hs_trigger){0}, "none of every_n_secs and every_n_steps");
}

static void bh_004_every_three_steps(void **state)
{
    (void)state;
    hs_timer *timer = make(HS_EVERY_STEPS(3));
    assert_true(triggers(timer, 1));
    update(timer, 1);
    for (int64_t step = 1; step <= 3; step++)
        assert_false(triggers(timer, step));
    assert_true(triggers(timer, 4));
    hs_timer_free(timer);
}

static void bh_005_an_update_returns_seconds_and_steps_since_the_last_one(void **state)
{
    (void)state;
    double secs = -1;
    int64_t steps = -1;
    hs_timer *timer = make(HS_EVERY_STEPS(1));
    assert_false(hs_timer_update_last_triggered_step(timer, 1, &secs, &steps));
    assert_true(secs == -1 && steps == -1);
    test_env_advance(&on_clock, 0.5);
    assert_true(hs_timer_update_last_triggered_step(timer, 5, &secs, &steps));
    assert_true(secs == 0.5 && steps == 4);
    test_env_advance(&on_clock, 1);
    assert_true(update(timer, 6));
    test_env_advance(&on_clock, 2);
    assert_true(hs_timer_update_last_triggered_step(timer, 8, &secs, &steps));
    assert_true(secs == 2 && steps == 2);
    hs_timer_free(timer);
}

static void bh_069s_comparisons_are_inclusive(void **state)
{
    (void)state;
    hs_timer *timer = make(HS_EVERY_STEPS(8));
    update(timer, 100);
    assert_false(triggers(timer, 107));
    assert_true(triggers(timer, 108));
    assert_false(triggers(timer, 92));
    hs_timer_free(timer);
    timer = make(HS_EVERY_SECS(0.5));
    update(timer, 0);
    test_env_advance(&on_clock, 0.499999999);
    assert_false(triggers(timer, 1));
    test_env_advance(&on_clock, 0.000000001);
    assert_true(triggers(timer, 1));
    assert_false(triggers(timer, 0)); /* it has triggered for this step */
    hs_timer_free(timer);
}

static void bh_069s_a_timer_that_was_never_updated_or_was_reset_triggers_for_any_step(void **state)
{
    (void)state;
    double secs;
    hs_timer *timer = make(HS_EVERY_SECS(10));
    assert_true(triggers(timer, 0) && triggers(timer, -5));
    assert_int_equal(hs_timer_last_triggered_step(timer), -1);
    update(timer, 3);
    assert_int_equal(hs_timer_last_triggered_step(timer), 3);
    assert_false(triggers(timer, 4));
    hs_timer_reset(timer);
    assert_true(triggers(timer, 3));
    assert_int_equal(hs_timer_last_triggered_step(timer), -1);
    assert_false(hs_timer_update_last_triggered_step(timer, 3, &secs, NULL)); /* the first one */
    hs_timer_free(timer);
}

/* TensorFlow accepts 0 as an interval. Here 0 means that the interval is not set, and invalid numbers are refused. */
static void bh_071s_an_interval_is_positive(void **state)
{
    (void)state;
    assert_invalid(HS_EVERY_STEPS(0), "none of every_n_secs and every_n_steps");
    assert_invalid(HS_EVERY_STEPS(-1), "every_n_steps is -1; it must be at least 1");
    assert_invalid(HS_EVERY_SECS(-0.5), "every_n_secs is -0.5; it must be above 0");
    assert_invalid(HS_EVERY_SECS(2e9), "every_n_secs is 2e+09");
    assert_invalid(HS_EVERY_SECS(strtod("nan", NULL)), "every_n_secs is");
}

static int64_t set_forward(void *user)
{
    static int64_t now_ns;
    (void)user;
    return now_ns += 3600000000000;
}

/* TensorFlow reads the wall clock, which may be set during training. */
static void bh_072s_the_clock_is_the_monotonic_one(void **state)
{
    (void)state;
    hs_error err;
    test_env_init(&on_clock);
    on_clock.env.clock.realtime_ns = set_forward;
    hs_timer *timer = hs_timer_new(HS_EVERY_SECS(10), &on_clock.env, &err);
    update(timer, 1);
    assert_false(triggers(timer, 2));
    test_env_advance(&on_clock, 10);
    assert_true(triggers(timer, 2));
    hs_timer_free(timer);
}

static void less_than_a_nanosecond_is_one(void **state)
{
    (void)state;
    hs_timer *timer = make(HS_EVERY_SECS(1e-12));
    update(timer, 1);
    assert_false(triggers(timer, 2));
    test_env_advance(&on_clock, 1e-9);
    assert_true(triggers(timer, 2));
    hs_timer_free(timer);
}

static void conditions_that_only_hooks_have_are_refused(void **state)
{
    (void)state;
    const hs_trigger others[] = {
        HS_AT_STEPS(1), HS_TRIGGER(.every_n_steps = 1, .on_request = true), HS_TRIGGER(.every_n_steps = 1, .first = true),
        HS_TRIGGER(.every_n_steps = 1, .last = true), HS_TRIGGER(.every_n_steps = 1, .counts_runs = true)};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_invalid(others[i], "other conditions are those of a hook's when");
}

static void null_is_a_timer_that_never_triggers(void **state)
{
    (void)state;
    hs_timer_reset(NULL);
    assert_false(triggers(NULL, 1) || update(NULL, 1));
    assert_int_equal(hs_timer_last_triggered_step(NULL), -1);
    hs_timer_free(NULL);
}

static hs_code make_one(test_env *t, void *user)
{
    hs_error err;
    (void)user;
    hs_timer_free(hs_timer_new(HS_EVERY_STEPS(2), &t->env, &err));
    return err.code;
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    test_each_allocation(make_one, NULL);
}

static void an_environment_that_was_not_initialized_is_refused(void **state)
{
    (void)state;
    const hs_env none = {.size = 0};
    hs_error err;
    assert_null(hs_timer_new(HS_EVERY_STEPS(2), &none, &err));
    assert_says(&err, HS_INVALID_ARGUMENT, "hs_env");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bh_001_both_secs_and_steps),
        cmocka_unit_test(bh_002_neither_secs_nor_steps),
        cmocka_unit_test(bh_004_every_three_steps),
        cmocka_unit_test(bh_005_an_update_returns_seconds_and_steps_since_the_last_one),
        cmocka_unit_test(bh_069s_comparisons_are_inclusive),
        cmocka_unit_test(bh_069s_a_timer_that_was_never_updated_or_was_reset_triggers_for_any_step),
        cmocka_unit_test(bh_071s_an_interval_is_positive),
        cmocka_unit_test(bh_072s_the_clock_is_the_monotonic_one),
        cmocka_unit_test(less_than_a_nanosecond_is_one),
        cmocka_unit_test(conditions_that_only_hooks_have_are_refused),
        cmocka_unit_test(null_is_a_timer_that_never_triggers),
        cmocka_unit_test(any_allocation_may_fail),
        cmocka_unit_test(an_environment_that_was_not_initialized_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
