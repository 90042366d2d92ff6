/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/timer.h"
#include "hooks/stage.h"

static hs__timer by_steps(int64_t steps)
{
    hs__timer timer;
    assert_int_equal(hs__timer_init(&timer, 0, steps, "secs", "steps", NULL), HS_OK);
    return timer;
}

static hs__timer by_secs(double secs)
{
    hs__timer timer;
    assert_int_equal(hs__timer_init(&timer, secs, 0, "secs", "steps", NULL), HS_OK);
    return timer;
}

static void bh_001_both_secs_and_steps(void **state)
{
    (void)state;
    hs__timer timer;
    hs_error err;
    assert_fails(hs__timer_init(&timer, 2, 10, "every_secs", "every_steps", &err), HS_INVALID_ARGUMENT, &err,
                 "each of every_secs and every_steps");
}

static void bh_002_neither_secs_nor_steps(void **state)
{
    (void)state;
    hs__timer timer;
    hs_error err;
    assert_fails(hs__timer_init(&timer, 0, 0, "every_secs", "every_steps", &err), HS_INVALID_ARGUMENT, &err,
                 "none of every_secs and every_steps");
}

static void bh_004_every_three_steps(void **state)
{
    (void)state;
    hs__timer timer = by_steps(3);
    assert_true(hs__timer_due(&timer, 1, 0));
    hs__timer_mark(&timer, 1, 0, NULL, NULL);
    for (int64_t step = 1; step <= 3; step++)
        assert_false(hs__timer_due(&timer, step, 0));
    assert_true(hs__timer_due(&timer, 4, 0));
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
    assert_false(hs__timer_due(&steps, 107, 0));
    assert_true(hs__timer_due(&steps, 108, 0));
    assert_false(hs__timer_due(&secs, 0, 500000999));
    assert_true(hs__timer_due(&secs, 0, 500001000));
}

static void bh_069s_a_timer_that_was_never_marked_or_reset_is_due(void **state)
{
    (void)state;
    double elapsed;
    hs__timer timer = by_secs(10);
    assert_true(hs__timer_due(&timer, 0, 0) && hs__timer_due(&timer, -5, -5));
    hs__timer_mark(&timer, 3, 3, NULL, NULL);
    assert_false(hs__timer_due(&timer, 3, 3));
    hs__timer_reset(&timer);
    assert_true(hs__timer_due(&timer, 3, 3));
    assert_false(hs__timer_mark(&timer, 3, 3, &elapsed, NULL)); /* nothing was marked before */
}

/* TensorFlow takes 0 for an interval. Here it is what is not given; numbers that make no sense are refused. */
static void bh_071s_an_interval_is_positive(void **state)
{
    (void)state;
    hs__timer timer;
    hs_error err;
    assert_fails(hs__timer_init(&timer, 0, 0, "secs", "steps", &err), HS_INVALID_ARGUMENT, &err, "none of");
    assert_fails(hs__timer_init(&timer, 0, -1, "secs", "steps", &err), HS_INVALID_ARGUMENT, &err, "steps is -1");
    assert_fails(hs__timer_init(&timer, -0.5, 0, "secs", "steps", &err), HS_INVALID_ARGUMENT, &err, "secs is -0.5");
    assert_fails(hs__timer_init(&timer, 2e9, 0, "secs", "steps", &err), HS_INVALID_ARGUMENT, &err, "secs is 2e+09");
    assert_fails(hs__timer_init(&timer, strtod("nan", NULL), 0, "secs", "steps", &err), HS_INVALID_ARGUMENT, &err,
                 "secs is");
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

/* A session with hooks that go by seconds, on that clock. */
static hs_session *open_on_clock(stage *s, two_faced *clock, hs_script **script, size_t n_hooks)
{
    hs_env env = {HS_ENV, .logger = s->t.env.logger, .clock = {monotonic_face, real_face, no_sleep, clock}};
    hs_hook hooks[3];
    *script = hs_script_new(&env);
    hs_script_series(*script, "loss", (double[]){1, 2, 3, 4, 5, 6}, 6);
    for (size_t i = 0; i < n_hooks; i++)
        hooks[i] = hs_logging_tensor(.tensors = HS_NAMES("loss"), .every_n_secs = 10);
    hs_session_options options = {HS_SESSION_OPTIONS, .hooks = hooks, .n_hooks = n_hooks};
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
    hs_session *session = open_on_clock(s, &clock, &script, 1);
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
    hs_session *session = open_on_clock(s, &clock, &script, 3);
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
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
