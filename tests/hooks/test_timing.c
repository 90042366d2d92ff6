/* SPDX-License-Identifier: Apache-2.0 */
/* The schedules of hooks: refused options, and the clock. test_trigger.c tests when triggers fire. */
#include "hooks/timing.h"
#include "hooks/stage.h"

/* every_n_secs and every_n_steps. */
static hs_code make(double secs, int64_t steps, hs_error *err)
{
    hs__timing timing = {.timer = NULL};
    const hs__timing_options options = {.secs = secs, .steps = steps, .first = true};
    hs_code code = hs__timing_init(&timing, &options, NULL, err);
    hs_timer_free(timing.timer);
    return code;
}

static void bh_001_both_secs_and_steps(void **state)
{
    (void)state;
    hs_error err;
    assert_fails(make(2, 10, &err), HS_INVALID_ARGUMENT, &err, "each of every_n_secs and every_n_steps");
}

static void bh_002_neither_secs_nor_steps(void **state)
{
    (void)state;
    hs_error err;
    assert_fails(make(0, 0, &err), HS_INVALID_ARGUMENT, &err, "none of every_n_secs and every_n_steps");
}

/* TensorFlow accepts 0 as an interval. Here 0 means that the interval is not set, and invalid numbers are refused. */
static void bh_071s_an_interval_is_positive(void **state)
{
    (void)state;
    hs_error err;
    assert_fails(make(0, 0, &err), HS_INVALID_ARGUMENT, &err, "none of");
    assert_fails(make(0, -1, &err), HS_INVALID_ARGUMENT, &err, "every_n_steps is -1");
    assert_fails(make(-0.5, 0, &err), HS_INVALID_ARGUMENT, &err, "every_n_secs is -0.5");
    assert_fails(make(2e9, 0, &err), HS_INVALID_ARGUMENT, &err, "every_n_secs is 2e+09");
    assert_fails(make(strtod("nan", NULL), 0, &err), HS_INVALID_ARGUMENT, &err, "every_n_secs is");
}

/* A hook that acts only at the end. */
static void with_none_of_the_options_the_timer_never_fires(void **state)
{
    (void)state;
    hs_error err;
    hs__timing timing;
    const hs__timing_options options = {.optional = true, .first = true};
    assert_ok(hs__timing_init(&timing, &options, NULL, &err), &err);
    assert_null(timing.timer);
    assert_false(timing.first || timing.last || timing.by_steps || timing.by_secs);
}

static void a_timing_says_what_its_trigger_has(void **state)
{
    (void)state;
    hs_error err;
    hs__timing timing;
    const hs__timing_options options = {.when = HS_TRIGGER(.at_steps = HS_STEPS(7), .last = true)};
    assert_ok(hs__timing_init(&timing, &options, NULL, &err), &err);
    assert_true(timing.last && timing.by_steps);
    assert_false(timing.first || timing.by_secs);
    hs_timer_free(timing.timer);
}

/* A monotonic and a wall clock that differ. */
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
static hs_session *open_on_clock(stage *s, two_faced *clock, hs_script **script, hs_trigger when, size_t n_hooks)
{
    hs_env env = HS_INIT(hs_env, .logger = s->t.env.logger, .clock = {monotonic_face, real_face, no_sleep, clock});
    static const double loss = 1;
    const hs_tensor value = hs_tensor_of(HS_DOUBLE, HS_SCALAR, &loss);
    hs_hook hooks[3];
    *script = hs_script_new(&env);
    hs_script_constant(*script, "loss", &value);
    for (size_t i = 0; i < n_hooks; i++)
        hooks[i] = hs_logging_tensor(.tensors = HS_NAMES("loss"), .when = when);
    hs_session_options options = HS_INIT(hs_session_options, .hooks = test_hooks(hooks, n_hooks));
    hs_session *session = hs_session_open(hs_script_backend(*script), &options, &s->err);
    assert_non_null(session);
    return session;
}

/* The session itself reads the clock in the first 61 runs, to time the callbacks. */
static void run_past_timed_runs(hs_session *session)
{
    for (int i = 0; i < 61; i++)
        assert_int_equal(hs_session_run(session, "train", NULL), HS_OK);
}

/* TensorFlow uses the wall clock, which may be set during training. */
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
    run_past_timed_runs(session);
    clock.reads = 0;
    hs_session_run(session, "train", NULL); /* not due: the clock is read before the run, not again after it */
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
    hs_trigger when = HS_TRIGGER(.every_n_steps = 100, .at_steps = HS_STEPS(50), .on_request = true, .last = true);
    hs_session *session = open_on_clock(s, &clock, &script, when, 3);
    run_past_timed_runs(session);
    clock.reads = 0;
    assert_int_equal(hs_session_run(session, "train", NULL), HS_OK);
    assert_int_equal(clock.reads, 0);
    hs_session_close(session, NULL);
    hs_script_free(script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bh_001_both_secs_and_steps),
        cmocka_unit_test(bh_002_neither_secs_nor_steps),
        cmocka_unit_test(bh_071s_an_interval_is_positive),
        cmocka_unit_test(with_none_of_the_options_the_timer_never_fires),
        cmocka_unit_test(a_timing_says_what_its_trigger_has),
        with_stage(bh_072s_the_clock_is_the_monotonic_one),
        with_stage(bh_072s_the_clock_is_read_once_for_all_hooks),
        with_stage(without_seconds_the_clock_is_not_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
