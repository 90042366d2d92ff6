/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/timer.h"
#include "hooks/stage.h"

#include "base/state.h"

/* Of a pair, which fires in the first run. */
static hs_code make(hs__timer *timer, double secs, int64_t steps, hs_error *err)
{
    const hs__timing timing = {
        .secs = secs, .steps = steps, .secs_name = "every_n_secs", .steps_name = "every_n_steps", .first = true};
    return hs__timer_init(timer, &timing, hs_env_default(), err);
}

static hs__timer by_steps(int64_t steps)
{
    hs__timer timer;
    assert_int_equal(make(&timer, 0, steps, NULL), HS_OK);
    return timer;
}

static hs__timer by_secs(double secs)
{
    hs__timer timer;
    assert_int_equal(make(&timer, secs, 0, NULL), HS_OK);
    return timer;
}

static void bh_001_both_secs_and_steps(void **state)
{
    (void)state;
    hs__timer timer;
    hs_error err;
    assert_fails(make(&timer, 2, 10, &err), HS_INVALID_ARGUMENT, &err, "each of every_n_secs and every_n_steps");
}

static void bh_002_neither_secs_nor_steps(void **state)
{
    (void)state;
    hs__timer timer;
    hs_error err;
    assert_fails(make(&timer, 0, 0, &err), HS_INVALID_ARGUMENT, &err, "none of every_n_secs and every_n_steps");
}

static void bh_004_every_three_steps(void **state)
{
    (void)state;
    hs__timer timer = by_steps(3);
    assert_true(hs__timer_due(&timer, 1, 0, 0));
    hs__timer_mark(&timer, 1, 0, NULL, NULL);
    for (int64_t step = 1; step <= 3; step++)
        assert_false(hs__timer_due(&timer, step, 0, 0));
    assert_true(hs__timer_due(&timer, 4, 0, 0));
}

static void bh_005_marking_tells_what_passed_since(void **state)
{
    (void)state;
    double secs = -1;
    int64_t steps = -1;
    hs__timer timer = by_steps(1);
    assert_false(hs__timer_mark(&timer, 1, 1000000000, &secs, &steps));
    assert_true(hs__timer_mark(&timer, 5, 1500000000, &secs, &steps));
    assert_true(secs == 0.5 && steps == 4);
    assert_true(hs__timer_mark(&timer, 7, 3500000000, &secs, &steps));
    assert_true(secs == 2 && steps == 2);
}

static void bh_069s_comparisons_are_inclusive(void **state)
{
    (void)state;
    hs__timer steps = by_steps(8), secs = by_secs(0.5);
    hs__timer_mark(&steps, 100, 0, NULL, NULL);
    hs__timer_mark(&secs, 0, 1000, NULL, NULL);
    assert_false(hs__timer_due(&steps, 107, 0, 0));
    assert_true(hs__timer_due(&steps, 108, 0, 0));
    assert_false(hs__timer_due(&secs, 0, 500000999, 0));
    assert_true(hs__timer_due(&secs, 0, 500001000, 0));
}

static void bh_069s_a_timer_that_was_never_marked_or_reset_is_due(void **state)
{
    (void)state;
    double elapsed;
    hs__timer timer = by_secs(10);
    assert_true(hs__timer_due(&timer, 0, 0, 0) && hs__timer_due(&timer, -5, -5, 0));
    hs__timer_mark(&timer, 3, 3, NULL, NULL);
    assert_false(hs__timer_due(&timer, 3, 3, 0));
    hs__timer_reset(&timer);
    assert_true(hs__timer_due(&timer, 3, 3, 0));
    assert_false(hs__timer_mark(&timer, 3, 3, &elapsed, NULL)); /* nothing was marked before */
}

/* TensorFlow takes 0 for an interval. Here it is what is not given; numbers that make no sense are refused. */
static void bh_071s_an_interval_is_positive(void **state)
{
    (void)state;
    hs__timer timer;
    hs_error err;
    assert_fails(make(&timer, 0, 0, &err), HS_INVALID_ARGUMENT, &err, "none of");
    assert_fails(make(&timer, 0, -1, &err), HS_INVALID_ARGUMENT, &err, "every_n_steps is -1");
    assert_fails(make(&timer, -0.5, 0, &err), HS_INVALID_ARGUMENT, &err, "every_n_secs is -0.5");
    assert_fails(make(&timer, 2e9, 0, &err), HS_INVALID_ARGUMENT, &err, "every_n_secs is 2e+09");
    assert_fails(make(&timer, strtod("nan", NULL), 0, &err), HS_INVALID_ARGUMENT, &err, "every_n_secs is");
}

/* A clock whose two faces move apart. */
typedef struct {
    int64_t monotonic, real;
    size_t reads;
} two_faced;

static int64_t monotonic_face(void *user)
{
    two_faced *clock = user;
    clock->reads++;
    return clock->monotonic;
}

static int64_t real_face(void *user)
{
    return ((two_faced *)user)->real;
}

static void no_sleep(void *user, int64_t ns)
{
    (void)user, (void)ns;
}

/* A session with hooks that log, on that clock. */
static hs_session *open_on_clock(stage *s, two_faced *clock, hs_script **script, const hs_trigger *trigger, size_t n_hooks)
{
    hs_env env = HS_INIT(hs_env, .logger = s->t.env.logger, .clock = {monotonic_face, real_face, no_sleep, clock});
    hs_hook hooks[3];
    *script = hs_script_new(&env);
    hs_script_series(*script, "loss", (double[]){1, 2, 3, 4, 5, 6}, 6);
    for (size_t i = 0; i < n_hooks; i++)
        hooks[i] = hs_logging_tensor(.tensors = HS_NAMES("loss"), .trigger = trigger);
    hs_session_options options = HS_INIT(hs_session_options, .hooks = test_hooks(hooks, n_hooks));
    hs_session *session = hs_session_open(hs_script_backend(*script), &options, &s->err);
    assert_non_null(session);
    return session;
}

/* TensorFlow's goes by the wall clock, which may be set while a program trains. */
static void bh_072s_the_clock_is_the_monotonic_one(void **state)
{
    stage *s = *state;
    two_faced clock = {.monotonic = 5, .real = 1700000000000000000};
    hs_script *script;
    hs_session *session = open_on_clock(s, &clock, &script, HS_TRIGGER(.every_n_secs = 10, .first = true), 1);
    hs_session_run(session, "train", NULL);
    clock.real += 3600000000000;
    hs_session_run(session, "train", NULL);
    assert_int_equal(count_of(s->t.log, "loss = "), 1);
    clock.monotonic += 10000000000;
    clock.real -= 7200000000000;
    hs_session_run(session, "train", NULL);
    assert_int_equal(count_of(s->t.log, "loss = "), 2);
    hs_session_close(session, NULL);
    hs_script_free(script);
}

static void bh_072s_the_clock_is_read_once_for_all_hooks(void **state)
{
    stage *s = *state;
    two_faced clock = {.monotonic = 5};
    hs_script *script;
    hs_session *session = open_on_clock(s, &clock, &script, HS_TRIGGER(.every_n_secs = 10, .first = true), 3);
    hs_session_run(session, "train", NULL);
    clock.reads = 0;
    hs_session_run(session, "train", NULL); /* nothing is due: asked before the run, not again after it */
    assert_int_equal(clock.reads, 1);
    clock.monotonic += 10000000000;
    hs_session_run(session, "train", NULL);
    assert_int_equal(clock.reads, 3);
    hs_session_close(session, NULL);
    hs_script_free(script);
}

static void without_seconds_the_clock_is_not_read(void **state)
{
    stage *s = *state;
    two_faced clock = {.monotonic = 5};
    hs_script *script;
    const hs_trigger *trigger =
        HS_TRIGGER(.every_n_steps = 100, .at_steps = HS_AT_STEPS(50), .on_request = true, .last = true);
    hs_session *session = open_on_clock(s, &clock, &script, trigger, 3);
    hs_session_run(session, "train", NULL); /* the intervals begin */
    clock.reads = 0;
    hs_session_run(session, "train", NULL);
    assert_int_equal(clock.reads, 0);
    hs_session_close(session, NULL);
    hs_script_free(script);
}

/* What is remembered. */

static hs__timer of_trigger(const hs_trigger *trigger)
{
    hs__timer timer;
    const hs__timing timing = {.trigger = trigger};
    assert_int_equal(hs__timer_init(&timer, &timing, hs_env_default(), NULL), HS_OK);
    return timer;
}

/* How many numbers are saved, and the first two. */
static size_t saved(const hs__timer *timer, int64_t numbers[2])
{
    hs_state_writer out;
    hs__buffer_init(&out.buffer, hs_env_default());
    assert_int_equal(hs__timer_save(timer, &out, NULL), HS_OK);
    size_t bytes = out.buffer.size;
    assert_true(bytes <= 2 * sizeof *numbers);
    memcpy(numbers, out.buffer.data, bytes);
    hs__buffer_free(&out.buffer);
    return bytes / sizeof *numbers;
}

static void load(hs__timer *timer, const int64_t *numbers, size_t n)
{
    hs_state_reader in = {.at = (const unsigned char *)numbers, .left = n * sizeof *numbers};
    assert_int_equal(hs__timer_load(timer, 0, &in, NULL), HS_OK);
    assert_int_equal(in.left, 0);
}

static void of_a_pair_one_number_is_saved(void **state)
{
    (void)state;
    int64_t numbers[2];
    hs__timer steps = by_steps(3), secs = by_secs(3);
    assert_int_equal(saved(&steps, numbers), 1);
    assert_int_equal(numbers[0], -1);
    hs__timer_mark(&steps, 7, 0, NULL, NULL);
    hs__timer_mark(&secs, 7, 0, NULL, NULL);
    assert_int_equal(saved(&steps, numbers), 1);
    assert_int_equal(numbers[0], 7);
    assert_int_equal(saved(&secs, numbers), 1);
    assert_int_equal(numbers[0], -1);
}

/* One who counts from 1 what was counted from 0 saves what was saved. */
static void counted_from_zero_the_number_is_one_less(void **state)
{
    (void)state;
    int64_t numbers[2];
    hs__timer timer = by_steps(3);
    timer.from_zero = true;
    for (int64_t mark = 0; mark < 3; mark++) {
        hs__timer_mark(&timer, mark, 0, NULL, NULL);
        assert_int_equal(saved(&timer, numbers), 1);
        assert_int_equal(numbers[0], mark ? mark - 1 : -2);
        load(&timer, numbers, 1);
        assert_true(timer.marked && timer.last_step == mark);
    }
    load(&timer, &(int64_t){-1}, 1);
    assert_false(timer.marked);
    load(&timer, &(int64_t){INT64_MAX}, 1); /* no run can have seen this one */
    hs__timer_start(&timer, 9);
    assert_false(timer.marked);
}

static void the_next_of_the_list_is_saved_beside_it(void **state)
{
    (void)state;
    int64_t numbers[2];
    hs__timer timer = of_trigger(HS_TRIGGER(.at_steps = HS_AT_STEPS(9, 4, 6)));
    assert_int_equal(saved(&timer, numbers), 2);
    assert_int_equal(numbers[1], -1); /* not started yet */
    hs__timer_start(&timer, 4);
    assert_true(hs__timer_due(&timer, 4, 0, 0));
    hs__timer_mark(&timer, 4, 0, NULL, NULL);
    assert_int_equal(saved(&timer, numbers), 2);
    assert_int_equal(numbers[1], 6);
    hs__timer_start(&timer, 4);
    assert_false(hs__timer_due(&timer, 5, 0, 0));
    hs__timer_free(&timer, hs_env_default());
}

/* Of the run before, which went on from 5 to 7 at once: what is due in the whole run's next step is due in the resumed. */
static void what_was_reached_and_not_done_is_due_after_the_loading(void **state)
{
    (void)state;
    hs__timer timer = of_trigger(HS_TRIGGER(.at_steps = HS_AT_STEPS(6)));
    load(&timer, (int64_t[]){5, 6}, 2);
    hs__timer_start(&timer, 7);
    assert_true(hs__timer_due(&timer, 8, 0, 0));
    hs__timer_free(&timer, hs_env_default());
}

static void the_state_of_another_trigger_is_passed_over(void **state)
{
    (void)state;
    hs__timer listed = of_trigger(HS_TRIGGER(.at_steps = HS_AT_STEPS(3, 6))), pair = by_steps(3);
    load(&listed, (int64_t[]){5}, 1); /* as it was written before there were lists */
    hs__timer_start(&listed, 5);
    assert_false(hs__timer_due(&listed, 5, 0, 0));
    assert_true(hs__timer_due(&listed, 6, 0, 0));
    load(&pair, (int64_t[]){5, 6}, 2);
    assert_false(hs__timer_due(&pair, 7, 0, 0));
    assert_true(hs__timer_due(&pair, 8, 0, 0));
    load(&listed, (int64_t[]){5, INT64_MIN}, 2);
    hs__timer_start(&listed, 5);
    assert_true(hs__timer_due(&listed, 6, 0, 0));
    hs__timer_free(&listed, hs_env_default());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bh_001_both_secs_and_steps),
        cmocka_unit_test(bh_002_neither_secs_nor_steps),
        cmocka_unit_test(bh_004_every_three_steps),
        cmocka_unit_test(bh_005_marking_tells_what_passed_since),
        cmocka_unit_test(bh_069s_comparisons_are_inclusive),
        cmocka_unit_test(bh_069s_a_timer_that_was_never_marked_or_reset_is_due),
        cmocka_unit_test(bh_071s_an_interval_is_positive),
        with_stage(bh_072s_the_clock_is_the_monotonic_one),
        with_stage(bh_072s_the_clock_is_read_once_for_all_hooks),
        with_stage(without_seconds_the_clock_is_not_read),
        cmocka_unit_test(of_a_pair_one_number_is_saved),
        cmocka_unit_test(counted_from_zero_the_number_is_one_less),
        cmocka_unit_test(the_next_of_the_list_is_saved_beside_it),
        cmocka_unit_test(what_was_reached_and_not_done_is_due_after_the_loading),
        cmocka_unit_test(the_state_of_another_trigger_is_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
