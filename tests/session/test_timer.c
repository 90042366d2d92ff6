/* SPDX-License-Identifier: Apache-2.0 */
/* Timers of hooks, with run contexts that the test makes. */
#include "support/test.h"

#include "base/state.h"
#include "session/session.h"
#include <hooksess/timer.h>

/* The context after a run with this global step, time and number of requests. */
static hs_run_context *after(int64_t step, double secs, uint32_t requests)
{
    static struct hs_session session;
    static hs_run_context run;
    run = (hs_run_context){.session = &session, .after = true};
    run.step[true] = step;
    run.now[true] = (int64_t)(secs * 1e9);
    run.has_step[true] = run.has_now[true] = true;
    atomic_store(&session.save_requests, requests);
    return &run;
}

static bool fires(hs_timer *timer, hs_run_context *run)
{
    hs_error err;
    bool result;
    assert_ok(hs_timer_fires(timer, run, &result, &err), &err);
    return result;
}

static bool due_at(hs_timer *timer, int64_t step, double secs)
{
    return hs_timer_due(timer, after(step, secs, 0), step);
}

static bool mark_at(hs_timer *timer, int64_t step, double secs)
{
    return hs_timer_mark(timer, after(step, secs, 0), step, NULL, NULL);
}

static hs_timer *of_trigger(hs_trigger when)
{
    hs_error err;
    hs_timer *timer = hs_timer_new(when, NULL, &err);
    assert_ok(err.code, &err);
    return timer;
}

static hs_timer *by_steps(int64_t steps)
{
    return of_trigger(HS_TRIGGER(.every_n_steps = steps, .first = true));
}

static hs_timer *by_secs(double secs)
{
    return of_trigger(HS_TRIGGER(.every_n_secs = secs, .first = true));
}

/* Making one. */

static void assert_invalid(hs_trigger when, const char *says)
{
    hs_error err;
    assert_null(hs_timer_new(when, NULL, &err));
    assert_says(&err, HS_INVALID_ARGUMENT, says);
}

static void a_trigger_that_is_invalid_makes_no_timer(void **state)
{
    (void)state;
    assert_invalid(HS_EVERY_STEPS(0), "it never fires");
    assert_invalid(HS_EVERY_STEPS(-1), "every_n_steps is -1");
    assert_invalid(HS_EVERY_SECS(-1), "every_n_secs is -1");
    assert_invalid(HS_EVERY_SECS(2e9), "every_n_secs is 2e+09");
    assert_invalid(HS_AT_STEPS(3, -2), "at_steps[1] is -2");
}

static hs_code make_one(test_env *t, void *user)
{
    hs_error err;
    (void)user;
    hs_timer_free(hs_timer_new(HS_AT_STEPS(2, 1), &t->env, &err));
    return err.code;
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    test_each_allocation(make_one, NULL);
}

static void null_is_a_timer_that_never_fires(void **state)
{
    hs_state_reader in = {.at = (const unsigned char *)(const int64_t[]){5, 6}, .left = 16};
    (void)state;
    hs_timer_reset(NULL);
    hs_timer_start(NULL, 1);
    hs_run_context *run = after(2, 0, 1);
    assert_false(hs_timer_begin(NULL, run, 1) || hs_timer_may_fire(NULL, run) || hs_timer_due(NULL, run, 2));
    assert_false(hs_timer_mark(NULL, run, 2, NULL, NULL) || fires(NULL, run));
    assert_int_equal(hs_timer_load(NULL, &in, NULL), HS_OK);
    assert_int_equal(in.left, 0);
    hs_timer_free(NULL);
}

/* When a timer fires. */

static void bh_004_every_three_steps(void **state)
{
    (void)state;
    hs_timer *timer = by_steps(3);
    assert_true(due_at(timer, 1, 0));
    mark_at(timer, 1, 0);
    for (int64_t step = 1; step <= 3; step++)
        assert_false(due_at(timer, step, 0));
    assert_true(due_at(timer, 4, 0));
    hs_timer_free(timer);
}

static void bh_005_marking_returns_seconds_and_steps_since_the_last_mark(void **state)
{
    (void)state;
    double secs = -1;
    int64_t steps = -1;
    hs_timer *timer = by_steps(1);
    assert_false(hs_timer_mark(timer, after(1, 1, 0), 1, &secs, &steps));
    assert_true(hs_timer_mark(timer, after(5, 1.5, 0), 5, &secs, &steps));
    assert_true(secs == 0.5 && steps == 4);
    assert_true(hs_timer_mark(timer, after(6, 2.5, 0), 6, NULL, NULL));
    assert_true(hs_timer_mark(timer, after(8, 4.5, 0), 8, &secs, &steps));
    assert_true(secs == 2 && steps == 2);
    hs_timer_free(timer);
}

static void the_first_mark_returns_seconds_and_steps_since_the_beginning(void **state)
{
    (void)state;
    double secs = -1;
    int64_t steps = -1;
    hs_timer *timer = of_trigger(HS_EVERY_STEPS(3));
    hs_timer_start(timer, 0);
    assert_true(hs_timer_begin(timer, after(4, 1, 0), 4));
    assert_true(hs_timer_mark(timer, after(10, 2.5, 0), 10, &secs, &steps));
    assert_true(secs == 1.5 && steps == 6);
    hs_timer_free(timer);
}

/* The step of a session without a backend. `err` may be NULL. */
static void a_step_that_cannot_be_read_is_reported(void **state)
{
    (void)state;
    hs_error err;
    bool result = true;
    hs_timer *timer = by_steps(1);
    hs_run_context *run = after(1, 1, 0);
    run->has_step[true] = false;
    run->session->raw.ops.name = "none";
    assert_fails(hs_timer_fires(timer, run, &result, &err), HS_FAILED_PRECONDITION, &err, "'none' has no global step");
    assert_int_equal(hs_timer_fires(timer, run, &result, NULL), HS_FAILED_PRECONDITION);
    assert_false(result);
    hs_timer_free(timer);
}

static void bh_069s_comparisons_are_inclusive(void **state)
{
    (void)state;
    hs_timer *steps = by_steps(8), *secs = by_secs(0.5);
    mark_at(steps, 100, 0);
    mark_at(secs, 0, 1);
    assert_false(due_at(steps, 107, 0));
    assert_true(due_at(steps, 108, 0));
    assert_false(due_at(secs, 0, 1.499999999));
    assert_true(due_at(secs, 0, 1.5));
    hs_timer_free(steps);
    hs_timer_free(secs);
}

static void bh_069s_a_timer_that_was_never_marked_or_reset_is_due(void **state)
{
    (void)state;
    double elapsed;
    hs_timer *timer = by_secs(10);
    assert_true(due_at(timer, 0, 0) && due_at(timer, -5, -5));
    mark_at(timer, 3, 3);
    assert_false(due_at(timer, 3, 3));
    hs_timer_reset(timer);
    assert_true(due_at(timer, 3, 3));
    assert_false(hs_timer_mark(timer, after(3, 3, 0), 3, &elapsed, NULL)); /* the first mark */
    hs_timer_free(timer);
}

static void without_first_the_intervals_begin_where_the_session_does(void **state)
{
    (void)state;
    hs_timer *steps = of_trigger(HS_EVERY_STEPS(3)), *secs = of_trigger(HS_EVERY_SECS(2));
    hs_timer_start(steps, 10);
    hs_timer_start(secs, 10);
    for (int64_t step = 11; step <= 16; step++)
        assert_int_equal(fires(steps, after(step, 0, 0)), step == 13 || step == 16);
    assert_false(fires(secs, after(11, 100, 0))); /* the time of the first run does not count */
    assert_false(fires(secs, after(12, 101, 0)));
    assert_true(fires(secs, after(13, 102, 0)));
    hs_timer_free(steps);
    hs_timer_free(secs);
}

/* hs_timer_begin moves the beginning of the intervals, but only once. */
static void intervals_begin_once(void **state)
{
    (void)state;
    hs_timer *timer = of_trigger(HS_EVERY_STEPS(3)), *first = by_steps(3);
    hs_timer_start(timer, 0);
    assert_true(hs_timer_begin(timer, after(1, 0, 0), 1));
    assert_false(hs_timer_begin(timer, after(2, 0, 0), 2));
    assert_false(due_at(timer, 3, 0));
    assert_true(due_at(timer, 4, 0));
    assert_false(hs_timer_begin(first, after(1, 0, 0), 1)); /* its first run has not been made */
    assert_true(due_at(first, 1, 0));
    hs_timer_free(timer);
    hs_timer_free(first);
}

static void a_timer_that_was_not_started_begins_with_the_first_run(void **state)
{
    (void)state;
    hs_timer *timer = of_trigger(HS_TRIGGER(.every_n_steps = 3, .at_steps = HS_STEPS(2))), *first = by_steps(3);
    assert_false(fires(timer, after(5, 0, 0)));
    assert_false(fires(timer, after(7, 0, 0)));
    assert_true(fires(timer, after(8, 0, 0)));
    assert_true(fires(first, after(5, 0, 0)));
    assert_false(fires(first, after(7, 0, 0)));
    hs_timer_free(timer);
    hs_timer_free(first);
}

static void by_time_it_fires_in_a_run_that_makes_a_step(void **state)
{
    (void)state;
    hs_timer *timer = of_trigger(HS_EVERY_SECS(2));
    hs_timer_start(timer, 4);
    assert_false(fires(timer, after(5, 0, 0)));
    assert_true(fires(timer, after(5, 2, 0)));
    assert_false(fires(timer, after(5, 4, 0)));
    assert_true(fires(timer, after(6, 4, 0)));
    hs_timer_free(timer);
}

static void a_request_fires_once(void **state)
{
    (void)state;
    hs_timer *timer = of_trigger(HS_TRIGGER(.on_request = true));
    hs_timer_start(timer, 0);
    assert_false(fires(timer, after(1, 0, 0)));
    assert_true(fires(timer, after(1, 0, 2)));
    assert_false(fires(timer, after(2, 0, 2)));
    assert_false(hs_timer_may_fire(timer, after(3, 0, 2)));
    hs_timer_reset(timer); /* another session */
    hs_timer_start(timer, 0);
    assert_false(fires(timer, after(1, 0, 0)));
    hs_timer_free(timer);
}

/* Other reasons to fire do not shift it. */
static void every_n_steps_counts_from_the_last_mark(void **state)
{
    (void)state;
    hs_timer *timer = of_trigger(HS_TRIGGER(.every_n_steps = 4, .at_steps = HS_STEPS(2)));
    hs_timer_start(timer, 0);
    for (int64_t step = 1; step <= 9; step++)
        assert_int_equal(fires(timer, after(step, 0, 0)), step == 2 || step == 4 || step == 8);
    hs_timer_free(timer);
}

/* State. */

/* Reads the two numbers of the saved state. */
static void saved(const hs_timer *timer, int64_t numbers[2])
{
    hs__buffer bytes;
    hs_error err;
    hs__buffer_init(&bytes, hs_env_default());
    hs_state_writer out = hs__state_writer_to(&bytes);
    assert_ok(hs_timer_save(timer, &out, &err), &err);
    assert_int_equal(bytes.size, 2 * sizeof *numbers);
    memcpy(numbers, bytes.data, bytes.size);
    hs__buffer_free(&bytes);
}

static void assert_saved(const hs_timer *timer, int64_t mark, int64_t listed)
{
    int64_t numbers[2];
    saved(timer, numbers);
    assert_int_equal(numbers[0], mark);
    assert_int_equal(numbers[1], listed);
}

static void load(hs_timer *timer, int64_t mark, int64_t listed)
{
    const int64_t numbers[] = {mark, listed, 77};
    hs_state_reader in = {.at = (const unsigned char *)numbers, .left = sizeof numbers};
    hs_error err;
    assert_ok(hs_timer_load(timer, &in, &err), &err);
    assert_int_equal(in.left, sizeof *numbers); /* the hook's own state may follow */
}

static void of_intervals_the_step_is_saved(void **state)
{
    (void)state;
    hs_timer *steps = by_steps(3), *secs = by_secs(3);
    assert_saved(NULL, -1, -1);
    assert_saved(steps, -1, -1);
    mark_at(steps, 7, 0);
    mark_at(secs, 7, 0);
    assert_saved(steps, 7, -1);
    assert_saved(secs, -1, -1);
    hs_timer_free(steps);
    hs_timer_free(secs);
}

static void the_next_listed_step_is_saved_too(void **state)
{
    (void)state;
    hs_timer *timer = of_trigger(HS_AT_STEPS(9, 4, 6));
    assert_saved(timer, -1, -1); /* not started yet */
    hs_timer_start(timer, 4);
    assert_true(due_at(timer, 4, 0));
    mark_at(timer, 4, 0);
    assert_saved(timer, 4, 6);
    hs_timer_start(timer, 4);
    assert_false(due_at(timer, 5, 0));
    hs_timer_free(timer);
}

/* One run of the earlier process went from step 5 to 7. The resumed process acts as the earlier process would have acted in
 * its next step. */
static void a_listed_step_that_was_passed_triggers_after_the_load(void **state)
{
    (void)state;
    hs_timer *timer = of_trigger(HS_AT_STEPS(6));
    load(timer, 5, 6);
    hs_timer_start(timer, 7);
    assert_true(due_at(timer, 8, 0));
    hs_timer_free(timer);
}

static void the_state_of_another_trigger_is_ignored(void **state)
{
    (void)state;
    hs_timer *listed = of_trigger(HS_AT_STEPS(3, 6)), *pair = by_steps(3);
    load(listed, 5, -1);
    hs_timer_start(listed, 5);
    assert_false(due_at(listed, 5, 0));
    assert_true(due_at(listed, 6, 0));
    load(pair, 5, 6);
    assert_false(due_at(pair, 7, 0));
    assert_true(due_at(pair, 8, 0));
    load(listed, 5, INT64_MIN);
    hs_timer_start(listed, 5);
    assert_true(due_at(listed, 6, 0));
    hs_timer_free(listed);
    hs_timer_free(pair);
}

static void a_mark_beyond_the_current_step_is_discarded(void **state)
{
    (void)state;
    hs_timer *timer = by_steps(3);
    load(timer, INT64_MAX, -1);
    hs_timer_start(timer, 9);
    assert_true(due_at(timer, 10, 0));
    hs_timer_free(timer);
}

static void seconds_count_from_the_load(void **state)
{
    (void)state;
    double secs = -1;
    hs_timer *timer = of_trigger(HS_TRIGGER(.every_n_steps = 100, .every_n_secs = 2));
    load(timer, 5, -1);
    hs_timer_start(timer, 7);
    assert_false(fires(timer, after(8, 1000, 0)));
    assert_false(fires(timer, after(9, 1001, 0)));
    assert_true(fires(timer, after(10, 1002, 0)));
    load(timer, 5, -1);
    assert_true(hs_timer_mark(timer, after(12, 2000, 0), 12, &secs, NULL));
    assert_true(secs == 0); /* the clock was not read since the load */
    hs_timer_free(timer);
}

/* A restore during training: the first trigger does not fire again. */
static void a_load_after_the_first_run_does_not_fire_the_first_trigger_again(void **state)
{
    (void)state;
    hs_timer *timer = of_trigger(HS_TRIGGER(.every_n_secs = 10, .first = true));
    hs_timer_start(timer, 0);
    assert_true(fires(timer, after(1, 0, 0)));
    load(timer, -1, -1);
    assert_false(fires(timer, after(2, 100, 0)));
    assert_true(fires(timer, after(3, 110, 0)));
    hs_timer_free(timer);
}

static void too_little_state_is_data_loss(void **state)
{
    (void)state;
    hs_error err;
    hs_timer *timer = by_steps(3);
    hs_state_reader in = {.at = (const unsigned char *)(const int64_t[]){5}, .left = 8};
    assert_fails(hs_timer_load(timer, &in, &err), HS_DATA_LOSS, &err, "");
    hs_timer_free(timer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_trigger_that_is_invalid_makes_no_timer),
        cmocka_unit_test(any_allocation_may_fail),
        cmocka_unit_test(null_is_a_timer_that_never_fires),
        cmocka_unit_test(bh_004_every_three_steps),
        cmocka_unit_test(bh_005_marking_returns_seconds_and_steps_since_the_last_mark),
        cmocka_unit_test(the_first_mark_returns_seconds_and_steps_since_the_beginning),
        cmocka_unit_test(a_step_that_cannot_be_read_is_reported),
        cmocka_unit_test(bh_069s_comparisons_are_inclusive),
        cmocka_unit_test(bh_069s_a_timer_that_was_never_marked_or_reset_is_due),
        cmocka_unit_test(without_first_the_intervals_begin_where_the_session_does),
        cmocka_unit_test(intervals_begin_once),
        cmocka_unit_test(a_timer_that_was_not_started_begins_with_the_first_run),
        cmocka_unit_test(by_time_it_fires_in_a_run_that_makes_a_step),
        cmocka_unit_test(a_request_fires_once),
        cmocka_unit_test(every_n_steps_counts_from_the_last_mark),
        cmocka_unit_test(of_intervals_the_step_is_saved),
        cmocka_unit_test(the_next_listed_step_is_saved_too),
        cmocka_unit_test(a_listed_step_that_was_passed_triggers_after_the_load),
        cmocka_unit_test(the_state_of_another_trigger_is_ignored),
        cmocka_unit_test(a_mark_beyond_the_current_step_is_discarded),
        cmocka_unit_test(seconds_count_from_the_load),
        cmocka_unit_test(a_load_after_the_first_run_does_not_fire_the_first_trigger_again),
        cmocka_unit_test(too_little_state_is_data_loss),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
