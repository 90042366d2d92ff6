/* SPDX-License-Identifier: Apache-2.0 */
/* Triggers as options: refusals, copies, their effect in each hook, and the clock. test_trigger.c tests when they fire. */
#include "hooks/stage.h"
#include "summary/events.h"

/* Refusals. */

/* Each hook that has a when, with the two intervals and their names. */
enum { HOOKS = 8 };
static const char *const pair_names[HOOKS][2] = {
    {"every_n_steps", "every_n_secs"}, {"every_n_steps", "every_n_secs"}, {"every_n_steps", "every_n_secs"},
    {"every_n_steps", "every_n_secs"}, {"every_n_steps", "every_n_secs"}, {"every_n_steps", "every_n_secs"},
    {"every_n_steps", "every_n_secs"}, {"every_n_steps", "every_n_secs"},
};

static hs_hook hook_with(size_t which, int64_t steps, double secs, hs_trigger when)
{
    const char *const *names = HS_NAMES("global_step");
    switch (which) {
    case 0:
        return hs_checkpoint_saver(.checkpoint_dir = "x", .every_n_steps = steps, .every_n_secs = secs, .when = when);
    case 1:
        return hs_evaluation(.metrics = names, .every_n_steps = steps, .every_n_secs = secs, .when = when);
    case 2:
        return hs_logging_tensor(.tensors = names, .every_n_steps = steps, .every_n_secs = secs, .when = when);
    case 3:
        return hs_profiler(.every_n_steps = steps, .every_n_secs = secs, .when = when);
    case 4:
        return hs_summary_saver(.summary_ops = names, .summary_dir = "x", .every_n_steps = steps, .every_n_secs = secs,
                                .when = when);
    case 5:
        return hs_nan_tensor(.tensor = "global_step", .every_n_steps = steps, .every_n_secs = secs, .when = when);
    case 6:
        return hs_scalars(.tensors = names, .every_n_steps = steps, .every_n_secs = secs, .when = when);
    default:
        return hs_step_counter(.every_n_steps = steps, .every_n_secs = secs, .when = when);
    }
}

static void the_pair_and_a_trigger(void **state)
{
    hs_trigger when = HS_EVERY_STEPS(5);
    char says[64];
    for (size_t i = 0; i < HOOKS; i++) {
        snprintf(says, sizeof says, "each of when and %s", pair_names[i][0]);
        stage_refuses(*state, hook_with(i, 3, 0, when), HS_INVALID_ARGUMENT, says);
        snprintf(says, sizeof says, "each of when and %s", pair_names[i][1]);
        stage_refuses(*state, hook_with(i, 0, 3, when), HS_INVALID_ARGUMENT, says);
        stage_refuses(*state, hook_with(i, HS_NEVER, 0, when), HS_INVALID_ARGUMENT, "each of when and");
    }
}

static void bh_001_both_secs_and_steps(void **state)
{
    for (size_t i = 0; i < HOOKS; i++)
        stage_refuses(*state, hook_with(i, 10, 2, (hs_trigger){0}), HS_INVALID_ARGUMENT,
                      "each of every_n_secs and every_n_steps");
}

/* Other hooks have a default, or act at the end. */
static void bh_002_neither_secs_nor_steps(void **state)
{
    const size_t saver_profiler_summaries[] = {0, 3, 4};
    for (size_t i = 0; i < 3; i++)
        stage_refuses(*state, hook_with(saver_profiler_summaries[i], 0, 0, (hs_trigger){0}), HS_INVALID_ARGUMENT,
                      "none of every_n_secs and every_n_steps");
}

/* TensorFlow accepts 0 as an interval. Here 0 means that the interval is not set, and invalid numbers are refused. */
static void bh_071s_an_interval_is_positive(void **state)
{
    for (size_t i = 0; i < HOOKS; i++) {
        const hs_trigger none = {0};
        stage_refuses(*state, hook_with(i, -1, 0, none), HS_INVALID_ARGUMENT, "every_n_steps is -1");
        stage_refuses(*state, hook_with(i, 0, -0.5, none), HS_INVALID_ARGUMENT, "every_n_secs is -0.5");
        stage_refuses(*state, hook_with(i, 0, 2e9, none), HS_INVALID_ARGUMENT, "every_n_secs is 2e+09");
        stage_refuses(*state, hook_with(i, 0, strtod("nan", NULL), none), HS_INVALID_ARGUMENT, "every_n_secs is");
    }
}

static void a_trigger_that_never_fires(void **state)
{
    const int64_t none[] = {-1};
    for (size_t i = 0; i < HOOKS; i++)
        stage_refuses(*state, hook_with(i, 0, 0, HS_TRIGGER(.at_steps = none)), HS_INVALID_ARGUMENT, "it never fires");
    stage_refuses(*state, hs_logging_tensor(.tensors = HS_NAMES("x"), .at_end = true, .when = HS_TRIGGER(.at_steps = none)),
                  HS_INVALID_ARGUMENT, "it never fires");
}

static void invalid_numbers_are_refused(void **state)
{
    const struct {
        hs_trigger when;
        const char *says;
    } wrong[] = {
        {HS_EVERY_STEPS(-1), "when: every_n_steps is -1"},
        {HS_EVERY_SECS(-1), "when: every_n_secs is -1"},
        {HS_TRIGGER(.every_n_secs = strtod("nan", NULL)), "when: every_n_secs is"},
        {HS_EVERY_SECS(2e9), "when: every_n_secs is 2e+09"},
        {HS_AT_STEPS(3, -2), "when: at_steps[1] is -2"},
        {HS_AT_STEPS(INT64_MAX), "when: at_steps[0] is 9223372036854775807"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        stage_refuses(*state, hook_with(i % HOOKS, 0, 0, wrong[i].when), HS_INVALID_ARGUMENT, wrong[i].says);
}

/* Memory. */

static void a_trigger_is_copied(void **state)
{
    stage *s = *state;
    int64_t steps[] = {3, 1, -1};
    hs_trigger when = {.at_steps = steps};
    hs_hook hook = hs_checkpoint_saver(.checkpoint_dir = s->directory, .when = when);
    steps[0] = steps[1] = 100;
    stage_open(s, hook);
    stage_run(s, "train", 1, 0);
    assert_int_equal(latest_step(s->directory), 1);
    stage_run(s, "train", 1, 0);
    assert_int_equal(latest_step(s->directory), 1);
    stage_run(s, "train", 1, 0);
    assert_int_equal(latest_step(s->directory), 3);
    stage_close(s);
}

/* Makes a hook, and a session with it. */
static hs_code make_one(test_env *t, void *user)
{
    hs_trigger when = HS_AT_STEPS(2, 1);
    const char *const *names = HS_NAMES("global_step");
    const stage *s = ((void **)user)[0];
    (void)t;
    const hs_hook hooks[] = {
        hs_logging_tensor(.tensors = names, .when = when),
        hs_evaluation(.metrics = names, .when = when),
        hs_step_counter(.when = when),
        hs_nan_tensor(.tensor = "global_step", .when = when),
        hs_profiler(.trace_dir = s->directory, .when = when),
        hs_summary_saver(.summary_ops = HS_NAMES("x"), .summary_dir = s->directory, .when = when),
        hs_scalars(.tensors = names, .summary_dir = s->directory, .when = when),
        hs_checkpoint_saver(.checkpoint_dir = s->directory, .when = when),
        {.ops = NULL},
    };
    hs_error err = {0};
    for (size_t i = 0; i < HOOKS && !err.code; i++)
        if (hooks[i].ops->begin(hooks[i].self, hs_script_backend(s->script), &err) == HS_NOT_FOUND)
            hs_error_clear(&err);
    hs_hooks_free(hooks);
    return err.code;
}

static void each_allocation(void **state)
{
    test_each_allocation(make_one, state);
}

/* The effect in each hook. */

/* Takes half a second in the first run. */
static hs_code take_long(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    (void)args;
    if (hs_run_context_global_step(run, err) == 0)
        test_env_advance(self, 0.5);
    return err->code;
}

/* Returns the logged rates. The first run takes half a second; a quarter of a second is between two runs. */
static const char *rates(stage *s, hs_trigger when, int runs)
{
    static const hs_hook_ops ops = HS_INIT(hs_hook_ops, .name = "slow", .before_run = take_long);
    const hs_hook hooks[] = {hs_step_counter(.summary_dir = s->directory, .when = when), {.ops = &ops, .self = &s->t}};
    assert_ok(stage_try(s, hs_script_backend(s->script), hooks, 2), &s->err);
    stage_run(s, "train", runs, 0.25);
    stage_close(s);
    return events_text(s->directory);
}

/* With `first`, the first run is reported. */
static void the_step_counters_first_and_last(void **state)
{
    assert_string_equal(rates(*state, HS_TRIGGER(.first = true, .last = true), 4),
                        "version start@1 global_step/sec=2@1 global_step/sec=4@4");
}

static void the_step_counters_intervals_are_the_pairs(void **state)
{
    assert_string_equal(rates(*state, HS_TRIGGER(.every_n_steps = 2, .last = true), 5),
                        "version start@1 global_step/sec=4@3 global_step/sec=4@5");
}

/* The runs that are traced, of five. */
static const char *traced(stage *s, hs_trigger when, int request_at)
{
    static char text[64];
    char name[64];
    text[0] = '\0';
    stage_open(s, hs_profiler(.trace_dir = s->directory, .when = when));
    for (int i = 1; i <= 5; i++) {
        if (i == request_at)
            hs_session_request_save(s->session);
        stage_run(s, "train", 1, 0);
        snprintf(name, sizeof name, "timeline-%d.json", i);
        if (test_exists(s->directory, name))
            snprintf(text + strlen(text), sizeof text - strlen(text), " %d", i);
    }
    stage_close(s);
    return text;
}

static void the_profiler_traces_the_first_run_with_first(void **state)
{
    assert_string_equal(traced(*state, HS_TRIGGER(.every_n_steps = 3, .first = true), 0), " 1 4");
}

static void the_profilers_intervals_begin_before_the_first_run(void **state)
{
    assert_string_equal(traced(*state, HS_TRIGGER(.every_n_steps = 2, .at_steps = HS_STEPS(5)), 0), " 2 4 5");
}

static void the_profiler_on_request(void **state)
{
    assert_string_equal(traced(*state, HS_TRIGGER(.on_request = true), 3), " 3");
}

static void the_profiler_has_no_last(void **state)
{
    stage_refuses(*state, hs_profiler(.when = HS_TRIGGER(.last = true, .every_n_steps = 1)), HS_INVALID_ARGUMENT,
                  "when: last is set");
}

/* The last step was already logged. */
static void last_and_at_end_log_once(void **state)
{
    stage *s = *state;
    hs_script_series(s->script, "loss", (double[]){1, 2, 3, 4}, 4);
    stage_open(s, hs_logging_tensor(.tensors = HS_NAMES("loss"), .at_end = true,
                                    .when = HS_TRIGGER(.every_n_steps = 2, .last = true)));
    stage_run(s, "train", 2, 0);
    stage_close(s);
    assert_int_equal(count_of(s->t.log, "loss = "), 2);
}

/* A run that fails has not been logged. */
static void last_after_the_end_of_the_input(void **state)
{
    stage *s = *state;
    hs_script_series(s->script, "loss", (double[]){1, 2, 3, 4}, 4);
    hs_script_fail_at(s->script, 2, HS_OUT_OF_RANGE, "no more");
    stage_open(s,
               hs_logging_tensor(.tensors = HS_NAMES("loss"), .when = HS_TRIGGER(.at_steps = HS_STEPS(2), .last = true)));
    stage_run(s, "train", 1, 0);
    assert_int_equal(stage_run_once(s, "train"), HS_OUT_OF_RANGE);
    stage_close(s);
    assert_int_equal(count_of(s->t.log, "loss = "), 1);
}

/* The clock. */

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

/* Cost. */

static void on_request_alone_never_reads_the_step(void **state)
{
    stage *s = *state;
    counted c;
    hs_hook hook = hs_checkpoint_saver(.checkpoint_dir = s->directory, .when = HS_AT_STEPS(1));
    assert_ok(stage_try(s, count_calls(&c, hs_script_backend(s->script)), &hook, 1), &s->err);
    stage_run(s, "train", 1, 0);
    c.step_reads = 0;
    stage_run(s, "train", 5, 0); /* the listed steps have passed */
    assert_int_equal(c.step_reads, 0);
    hs_session_request_save(s->session);
    stage_run(s, "train", 1, 0);
    assert_int_equal(c.step_reads, 1);
    assert_int_equal(latest_step(s->directory), 7);
    stage_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_stage(the_pair_and_a_trigger),
        with_stage(bh_001_both_secs_and_steps),
        with_stage(bh_002_neither_secs_nor_steps),
        with_stage(bh_071s_an_interval_is_positive),
        with_stage(a_trigger_that_never_fires),
        with_stage(invalid_numbers_are_refused),
        with_stage(a_trigger_is_copied),
        with_stage(each_allocation),
        with_stage(the_step_counters_first_and_last),
        with_stage(the_step_counters_intervals_are_the_pairs),
        with_stage(the_profiler_traces_the_first_run_with_first),
        with_stage(the_profilers_intervals_begin_before_the_first_run),
        with_stage(the_profiler_on_request),
        with_stage(the_profiler_has_no_last),
        with_stage(last_and_at_end_log_once),
        with_stage(last_after_the_end_of_the_input),
        with_stage(bh_072s_the_clock_is_the_monotonic_one),
        with_stage(bh_072s_the_clock_is_read_once_for_all_hooks),
        with_stage(without_seconds_the_clock_is_not_read),
        with_stage(on_request_alone_never_reads_the_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
