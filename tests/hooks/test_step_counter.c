/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/stage.h"

#include "base/c_locale.h"
#include "summary/events.h"

#include "base/state.h"

#include <errno.h>
#include <math.h>

static hs_hook every(const stage *s, int64_t steps)
{
    return hs_step_counter(.every_n_steps = steps, .summary_dir = s->directory);
}

static const char stands[] = ": the global step does not advance";

/* Returns the number of warnings since the last call. */
static size_t warned(stage *s)
{
    size_t n = count_of(s->t.log, stands);
    test_env_clear_log(&s->t);
    return n;
}

/* Options. */

static void bh_094s_seconds_alone_are_enough(void **state)
{
    stage *s = *state;
    stage_open(s, hs_step_counter(.every_n_secs = 1, .summary_dir = s->directory));
    stage_run(s, "train", 5, 0.5);
    stage_close(s);
    assert_string_equal(events_text(s->directory), "version start@1 global_step/sec=2@3 global_step/sec=2@5");
}

static void bh_094s_the_default_is_a_hundred_steps(void **state)
{
    stage *s = *state;
    stage_open(s, every(s, 0));
    stage_run(s, "train", 250, 0.25);
    stage_close(s);
    assert_string_equal(events_text(s->directory), "version start@1 global_step/sec=4@101 global_step/sec=4@201");
}

static void invalid_options_are_refused(void **state)
{
    stage *s = *state;
    hs_summary_writer *writer = hs_summary_writer_open(s->directory, NULL, &s->err);
    stage_refuses(s, hs_step_counter(.every_n_steps = 10, .every_n_secs = 5), HS_INVALID_ARGUMENT,
                  "each of every_n_secs and every_n_steps");
    stage_refuses(s, hs_step_counter(.every_n_steps = -10), HS_INVALID_ARGUMENT, "every_n_steps is -10");
    stage_refuses(s, hs_step_counter(.summary_dir = s->directory, .summary_writer = writer), HS_INVALID_ARGUMENT,
                  "each of summary_dir and summary_writer");
    stage_refuses(s, hs_step_counter(.units_per_step = -1), HS_INVALID_ARGUMENT, "units_per_step is -1");
    stage_refuses(s, hs_step_counter(.units_per_step = (double)NAN), HS_INVALID_ARGUMENT, "units_per_step is nan");
    stage_refuses(s, hs_step_counter(.unit = "tokens"), HS_INVALID_ARGUMENT,
                  "unit is 'tokens', but units_per_step is missing");
    stage_refuses(s, hs_step_counter(.units_per_step = 1, .unit = ""), HS_INVALID_ARGUMENT, "unit is empty");
    stage_refuses(s, hs_step_counter(.flops_per_step = 1), HS_INVALID_ARGUMENT, "peak_flops is missing");
    stage_refuses(s, hs_step_counter(.peak_flops = 1), HS_INVALID_ARGUMENT, "flops_per_step is missing");
    stage_refuses(s, hs_step_counter(.flops_per_step = 1, .peak_flops = (double)INFINITY), HS_INVALID_ARGUMENT,
                  "peak_flops is inf");
    stage_refuses(s, hs_step_counter_hook(NULL), HS_INVALID_ARGUMENT, "hs_step_counter_options is NULL");
    hs_summary_writer_close(writer, NULL);
}

/* When. */

static void bh_040_every_ten_steps(void **state)
{
    stage *s = *state;
    stage_open(s, every(s, 10));
    stage_run(s, "train", 30, 0.01);
    assert_int_equal(warned(s), 0);
    stage_close(s);
    assert_string_equal(events_text(s->directory), "version start@1 global_step/sec=100@11 global_step/sec=100@21");
}

static void bh_044_runs_of_fewer_steps(void **state)
{
    stage *s = *state;
    hs_script_steps_per_run(s->script, 5);
    stage_open(s, every(s, 10));
    stage_run(s, "train", 5, 1);
    stage_close(s);
    assert_string_equal(events_text(s->directory), "version start@1 global_step/sec=5@15 global_step/sec=5@25");
}

static void bh_045_runs_of_as_many_steps(void **state)
{
    stage *s = *state;
    hs_script_steps_per_run(s->script, 5);
    stage_open(s, every(s, 5));
    stage_run(s, "train", 5, 1);
    stage_close(s);
    assert_string_equal(events_text(s->directory), "version start@1 global_step/sec=5@10 global_step/sec=5@15 "
                                                   "global_step/sec=5@20 global_step/sec=5@25");
}

static void without_a_passing_clock_no_rate_is_written(void **state)
{
    stage *s = *state;
    stage_open(s, every(s, 1));
    stage_run(s, "train", 3, 0);
    stage_close(s);
    assert_string_equal(events_text(s->directory), "version start@1");
}

static void by_seconds_the_step_is_read_only_when_it_is_time(void **state)
{
    stage *s = *state;
    counted c;
    hs_hook hook = hs_step_counter(.every_n_secs = 1);
    assert_ok(stage_try(s, count_calls(&c, hs_script_backend(s->script)), &hook, 1), &s->err);
    stage_run(s, "train", 1, 0);
    c.step_reads = 0;
    stage_run(s, "train", 11, 0.125); /* 1.25 seconds, due once */
    assert_int_equal(c.step_reads, 1);
    stage_close(s); /* before the backend is freed */
}

/* Units. */

static void units_per_second_are_logged_and_charted(void **state)
{
    stage *s = *state;
    hs_script_set_step(s->script, 1197);
    stage_open(s, hs_step_counter(.every_n_steps = 2, .summary_dir = s->directory, .units_per_step = 524288,
                                  .unit = "tokens", .flops_per_step = 6.0 * 124e6 * 524288, .peak_flops = 8 * 989e12));
    stage_run(s, "train", 3, 0.5);
    stage_close(s);
    assert_contains(s->t.log, "INFO: step 1200: 2 steps/s, 1048576 tokens/s, MFU 9.86 %\n");
    assert_string_equal(events_text(s->directory),
                        "version start@1198 global_step/sec=2@1200 tokens/sec=1.04858e+06@1200 mfu=0.0986022@1200");
}

static void units_are_examples_and_need_no_flops(void **state)
{
    stage *s = *state;
    stage_open(s, hs_step_counter(.every_n_steps = 2, .units_per_step = 0.5));
    stage_run(s, "train", 3, 0.5);
    assert_string_equal(s->t.log, "INFO: step 3: 2 steps/s, 1 examples/s\n");
    stage_close(s);
}

static void utilization_needs_no_units(void **state)
{
    stage *s = *state;
    stage_open(s, hs_step_counter(.every_n_steps = 2, .flops_per_step = 1, .peak_flops = 8));
    stage_run(s, "train", 3, 0.5);
    assert_string_equal(s->t.log, "INFO: step 3: 2 steps/s, MFU 25 %\n");
    stage_close(s);
}

/* Directories. */

static void bh_096s_without_a_writer_it_only_logs(void **state)
{
    stage *s = *state;
    stage_open(s, hs_step_counter(.every_n_steps = 2));
    stage_run(s, "train", 3, 0.5);
    assert_string_equal(s->t.log, "INFO: step 3: 2 steps/s\n");
    stage_close(s);
    assert_int_equal(test_count_files(s->directory, "events"), 0);
}

/* The event file has all rates. */
static void lines_of_a_fast_training_are_a_second_apart(void **state)
{
    stage *s = *state;
    stage_open(s, hs_step_counter(.every_n_steps = 1, .summary_dir = s->directory));
    stage_run(s, "train", 9, 0.25);
    assert_string_equal(s->t.log, "INFO: step 5: 4 steps/s\nINFO: step 9: 4 steps/s\n");
    stage_close(s);
    assert_int_equal(count_of(events_text(s->directory), "global_step/sec=4@"), 8);
}

/* Steps of 1/32 s, and after every 16th a pause of 1.5 s. The intervals with a pause end a second most often. */
static void the_lines_together_show_the_true_mean(void **state)
{
    stage *s = *state;
    double secs = 0, reported = 0;
    int steps = 0;
    hs__c_locale locale = hs__c_locale_begin();
    stage_open(s, hs_step_counter(.every_n_steps = 4));
    stage_run(s, "train", 1, 0);
    for (int run = 1; run <= 256; run++) {
        double pause = run % 16 == 0 ? 1.5 : 0.03125;
        int step;
        double rate;
        test_env_advance(&s->t, pause);
        secs += pause;
        stage_run(s, "train", 1, 0);
        if (sscanf(s->t.log, "INFO: step %d: %lf steps/s", &step, &rate) == 2) {
            reported += (step - 1 - steps) / rate;
            steps = step - 1;
            assert_true(fabs(steps / reported - run / secs) < 0.01); /* the line has four digits */
        }
        test_env_clear_log(&s->t);
    }
    hs__c_locale_end(locale);
    assert_int_equal(steps, 256);
    stage_close(s);
}

static void bh_096s_a_given_writer_stays_open(void **state)
{
    stage *s = *state;
    hs_summary_writer *writer = hs_summary_writer_open(s->directory, NULL, &s->err);
    stage_open(s, hs_step_counter(.every_n_steps = 1, .summary_writer = writer));
    stage_run(s, "train", 2, 0.5);
    stage_close(s);
    assert_string_equal(events_text(s->directory), "version start@1 global_step/sec=2@2");
    assert_ok(hs_summary_writer_close(writer, &s->err), &s->err);
}

/* A graph whose steps take half a second. */

static hs_code slow_step(void *self, hs_op *op, hs_error *err)
{
    (void)op, (void)err;
    test_env_advance(&((stage *)self)->t, 0.5);
    return HS_OK;
}

/* Trains `steps` steps in a new session that saves to the stage's directory. */
static void train(stage *s, const char *step_name, hs_hook hook, int steps)
{
    hs_graph *graph = hs_graph_new(&s->t.env);
    hs_graph_global_step(graph, step_name, NULL);
    hs_graph_op(graph, .name = "train", .run = slow_step, .user = s, .advances_step = true);
    const char *directory = s->directory;
    hs_hook hooks[] = {hook, hs_checkpoint_saver(.checkpoint_dir = directory, .every_n_steps = 1000), {.ops = NULL}};
    hs_session_options options = HS_INIT(hs_session_options, .hooks = hooks, .checkpoint_dir = directory);
    s->session = hs_session_open(hs_graph_backend(graph), &options, &s->err);
    assert_non_null(s->session);
    stage_run(s, "train", steps, 0);
    stage_close(s);
    hs_graph_free(graph);
}

static void bh_042_the_tag_has_the_steps_name(void **state)
{
    stage *s = *state;
    train(s, "bar/foo", every(s, 1), 2);
    assert_contains(events_text(s->directory), " bar/foo/sec=2@2");
    assert_int_equal(count_of(events_text(s->directory), "/sec="), 1);
}

/* A resumed run reports at the same steps as an uninterrupted one, and no rate includes the pause. */
static void bh_040_a_resumed_run_continues_the_schedule(void **state)
{
    stage *s = *state;
    train(s, NULL, every(s, 4), 6);
    test_env_advance(&s->t, 3600);
    train(s, NULL, every(s, 4), 4);
    const char *text = events_text(s->directory);
    assert_contains(text, " global_step/sec=2@5");
    assert_contains(text, " global_step/sec=2@9");
    assert_int_equal(count_of(text, "/sec="), 2);
}

/* Checkpoints have no position of seconds, and one from before the first run has no step to count from. */
static void in_a_resumed_run_the_first_interval_begins_after_its_first_run_as_in_a_new_one(void **state)
{
    stage *s = *state;
    train(s, NULL, hs_step_counter(.every_n_secs = 1, .summary_dir = s->directory), 5);
    test_env_advance(&s->t, 3600);
    train(s, NULL, hs_step_counter(.every_n_secs = 1, .summary_dir = s->directory), 1);
    assert_contains(events_text(s->directory), "/sec=2@3");
    assert_null(strstr(strstr(events_text(s->directory), "start@6"), "/sec="));
    test_empty_directory(s->directory);
    train(s, NULL, every(s, 4), 0);
    train(s, NULL, every(s, 4), 8);
    assert_contains(events_text(s->directory), " global_step/sec=2@5");
    assert_int_equal(count_of(events_text(s->directory), "/sec="), 1);
}

/* Loses the session, once, at step 5. An hour passes. */
static hs_code lose(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    stage *s = self;
    (void)values;
    if (hs_run_context_global_step(run, err) != 5 || count_of(s->t.log, "lost"))
        return HS_OK;
    test_env_advance(&s->t, 3600);
    return hs_error_set(err, HS_ABORTED, "lost");
}

static void no_line_includes_a_recovery(void **state)
{
    static const hs_hook_ops losing = HS_INIT(hs_hook_ops, .name = "loser", .after_run = lose);
    static const hs_recovery recovery = HS_INIT(hs_recovery);
    stage *s = *state;
    hs_graph *graph = hs_graph_new(&s->t.env);
    hs_graph_global_step(graph, NULL, NULL);
    hs_graph_op(graph, .name = "train", .run = slow_step, .user = s, .advances_step = true);
    hs_hook hooks[] = {{.ops = &losing, .self = s},
                       hs_step_counter(.every_n_steps = 2),
                       hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 2),
                       {.ops = NULL}};
    hs_session_options options =
        HS_INIT(hs_session_options, .hooks = hooks, .checkpoint_dir = s->directory, .recovery = &recovery);
    s->session = hs_session_open(hs_graph_backend(graph), &options, &s->err);
    assert_non_null(s->session);
    stage_run(s, "train", 7, 0);
    stage_close(s);
    assert_contains(s->t.log, "step 4: recovered from a failure at step 5");
    assert_contains(s->t.log, "INFO: step 3: 2 steps/s\n");
    assert_contains(s->t.log, "INFO: step 7: 2 steps/s\n"); /* since step 4 */
    assert_int_equal(count_of(s->t.log, "steps/s"), 2);
    hs_graph_free(graph);
}

/* A step that does not advance. */

static void bh_043_it_warns_once_for_each_stall(void **state)
{
    stage *s = *state;
    hs_script_steps_per_run(s->script, 0);
    stage_open(s, every(s, 10));
    stage_run(s, "train", 1, 0.5);
    stage_run(s, "train", 30, 0.5);
    assert_int_equal(warned(s), 1);
    hs_script_steps_per_run(s->script, 1);
    stage_run(s, "train", 1, 0.5);
    hs_script_steps_per_run(s->script, 0);
    stage_run(s, "train", 5, 0.5);
    assert_int_equal(warned(s), 1);
}

static void bh_097s_the_first_run_never_warns(void **state)
{
    stage *s = *state;
    hs_script_steps_per_run(s->script, 0);
    stage_open(s, every(s, 10));
    stage_run(s, "train", 1, 0.5);
    assert_int_equal(warned(s), 0);
    stage_run(s, "train", 1, 0.5);
    assert_int_equal(warned(s), 1);
}

static void bh_097s_by_seconds_it_warns_after_an_interval(void **state)
{
    stage *s = *state;
    hs_script_steps_per_run(s->script, 0);
    stage_open(s, hs_step_counter(.every_n_secs = 1));
    stage_run(s, "train", 2, 0.5);
    assert_int_equal(warned(s), 0);
    stage_run(s, "train", 2, 0.5);
    assert_int_equal(warned(s), 1);
}

/* The guard runs the op that advances the step after each run. */
static void a_step_that_a_hook_advances_after_the_run_does_not_stall(void **state)
{
    stage *s = *state;
    const double losses[] = {1, 1, 1, 1, NAN, NAN, 1, 1};
    hs_script_series(s->script, "loss", losses, 8);
    hs_script_op(s->script, "compute");
    const hs_hook hooks[] = {
        hs_finite_guard(.gradients = HS_NAMES("loss"), .policy = HS_GUARD_SKIP_STEP, .update_op = "train"), every(s, 10)};
    assert_ok(stage_try(s, hs_script_backend(s->script), hooks, 2), &s->err);
    stage_run(s, "compute", 2, 0.5); /* each with two runs of the script */
    assert_int_equal(warned(s), 0);
    stage_run(s, "compute", 3, 0.5); /* two are skipped */
    assert_int_equal(warned(s), 1);
}

static void runs_of_another_kind_do_not_count(void **state)
{
    stage *s = *state;
    const hs_run_args evaluate = HS_INIT(hs_run_args, .kind = HS_RUN_EVAL);
    stage_open(s, every(s, 1));
    stage_run(s, "train", 1, 0);
    for (int i = 0; i < 3; i++)
        assert_ok(hs_session_run_args(s->session, &evaluate, NULL, &s->err), &s->err);
    assert_int_equal(warned(s), 0);
}

/* Failures. */

static hs_code count_twice(test_env *t, void *user)
{
    hs_error err = {0};
    const stage *s = user;
    test_tolerate(t, "event file in "); /* it is retried */
    test_tolerate(t, "'summary writer' failed ");
    events_remove(s->directory);
    hs_script *script = hs_script_new(&t->env);
    if (!script)
        return HS_RESOURCE_EXHAUSTED;
    hs_hook hook = hs_step_counter(.every_n_steps = 1, .summary_dir = s->directory, .units_per_step = 2,
                                   .flops_per_step = 1, .peak_flops = 2);
    hs_session_options options = HS_INIT(hs_session_options, .hooks = HS_HOOKS(hook));
    hs_session *session = hs_session_open(hs_script_backend(script), &options, &err);
    for (int i = 0; i < 2 && session && !err.code; i++) {
        test_env_advance(t, 1);
        hs_session_run(session, "train", &err);
    }
    hs_session_close(session, &err);
    hs_script_free(script);
    return err.code;
}

static void each_allocation_and_each_file_call(void **state)
{
    test_each_allocation(count_twice, *state);
    test_each_file_call(count_twice, NULL, ENOSPC, false, *state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_stage(bh_094s_seconds_alone_are_enough),
        with_stage(bh_094s_the_default_is_a_hundred_steps),
        with_stage(invalid_options_are_refused),
        with_stage(bh_040_every_ten_steps),
        with_stage(bh_044_runs_of_fewer_steps),
        with_stage(bh_045_runs_of_as_many_steps),
        with_stage(without_a_passing_clock_no_rate_is_written),
        with_stage(by_seconds_the_step_is_read_only_when_it_is_time),
        with_stage(units_per_second_are_logged_and_charted),
        with_stage(units_are_examples_and_need_no_flops),
        with_stage(utilization_needs_no_units),
        with_stage(bh_096s_without_a_writer_it_only_logs),
        with_stage(lines_of_a_fast_training_are_a_second_apart),
        with_stage(the_lines_together_show_the_true_mean),
        with_stage(bh_096s_a_given_writer_stays_open),
        with_stage(bh_042_the_tag_has_the_steps_name),
        with_stage(bh_040_a_resumed_run_continues_the_schedule),
        with_stage(in_a_resumed_run_the_first_interval_begins_after_its_first_run_as_in_a_new_one),
        with_stage(no_line_includes_a_recovery),
        with_stage(bh_043_it_warns_once_for_each_stall),
        with_stage(bh_097s_the_first_run_never_warns),
        with_stage(bh_097s_by_seconds_it_warns_after_an_interval),
        with_stage(a_step_that_a_hook_advances_after_the_run_does_not_stall),
        with_stage(runs_of_another_kind_do_not_count),
        with_stage(each_allocation_and_each_file_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
