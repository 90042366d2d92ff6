/* SPDX-License-Identifier: Apache-2.0 */
/* Every built-in hook restores its state from a checkpoint of an older version of the library, in which hooks counted their
 * own steps (old_checkpoint/write.c). Only their intervals begin again. */
#include "hooks/stage.h"

#include "formats/byte_order.h"
#include "hooks/old_checkpoint/every_hook.h"

#include <fcntl.h>
#include <unistd.h>

enum { SAVED = 6, USED_SECS = 27 };

/* OLD_CHECKPOINT: its path. */
static const char rows[] = "step,loss,accuracy\n1,1,\n5,1,\n";

static void advance(void *user, double secs)
{
    test_env_advance(user, secs);
}

static int setup(void **state)
{
    const int failed = stage_setup(state);
    if (!failed && hs__big_endian())
        test_skip("the checkpoint has states in the byte order of another machine");
    return failed;
}

#define with_old_checkpoint(test) cmocka_unit_test_setup_teardown(test, setup, stage_teardown)

/* Opens a session that restores the checkpoint. */
static void restore(stage *s, trained *t)
{
    hs_hook hooks[MOST_HOOKS];
    char text[256];
    snprintf(text, sizeof text, "%s9,1,\n13,1,\n", rows); /* also later rows than the checkpoint's */
    test_write_file(test_path(s->directory, "rows.csv"), text, strlen(text));
    t->descriptor = open("/dev/null", O_WRONLY);
    t->advance = advance;
    t->user = &s->t;
    build(t, &s->t.env);
    make_hooks(t, s->directory, hooks);
    s->session = hs_session_open(hs_graph_backend(t->graph),
                                 HS_SESSION_OPTIONS(.hooks = hooks, .checkpoint_prefix = OLD_CHECKPOINT), &s->err);
    assert_ok(s->err.code, &s->err);
    assert_int_equal(t->step, SAVED);
}

/* Makes runs until the session stops, at most n. Returns their number. */
static int run(stage *s, int n)
{
    int made = 0;
    for (; made < n && !hs_session_should_stop(s->session); made++)
        assert_ok(stage_run_once(s, "train"), &s->err);
    return made;
}

static void finish(stage *s, trained *t)
{
    s->outcome = hs_session_close(s->session, NULL);
    s->session = NULL;
    hs_graph_free(t->graph);
    close(t->descriptor);
}

/* The bytes of a state that the session saves now. */
static size_t saved_state(stage *s, const char *key, char *to, size_t most)
{
    hs_tensor info;
    hs_saver *saver = hs_saver_new(NULL, &s->err);
    assert_ok(hs_saver_save(saver, hs_session_raw(s->session), test_path(s->directory, "now"), SAVED, NULL, &s->err),
              &s->err);
    hs_saver_free(saver);
    hs_checkpoint_reader *reader = hs_checkpoint_open(NULL, test_path(s->directory, "now-6"), &s->err);
    assert_non_null(reader);
    assert_ok(hs_checkpoint_find(reader, key, &info, &s->err), &s->err);
    assert_true(info.bytes <= most);
    assert_ok(hs_checkpoint_read(reader, key, to, info.bytes, &s->err), &s->err);
    hs_checkpoint_close(reader);
    return info.bytes;
}

static void no_hook_warns_about_its_state(void **state)
{
    stage *s = *state;
    trained t = {0};
    restore(s, &t);
    assert_int_equal(run(s, 4), 4);
    finish(s, &t);
    assert_ok(s->outcome.error.code, &s->outcome.error);
    assert_lacks(s->t.log, "WARNING");
    assert_lacks(s->t.log, "ERROR");
}

static void intervals_begin_again(void **state)
{
    stage *s = *state;
    trained t = {0};
    restore(s, &t);
    assert_int_equal(run(s, 8), 8);
    finish(s, &t);
    assert_contains(s->t.log, "step 7: loss = ");
    assert_contains(s->t.log, "step 11: loss = ");
    assert_lacks(s->t.log, "step 9: loss = "); /* it was the next of 1, 5 */
    assert_contains(s->t.log, "step 8: eval: loss = ");
}

static void moving_average_has_its_averages(void **state)
{
    stage *s = *state;
    trained t = {0};
    double average[2];
    restore(s, &t);
    assert_true(t.weights[0] == SAVED && t.weights[1] == -SAVED);
    saved_state(s, "weights/ExponentialMovingAverage", (char *)average, sizeof average);
    finish(s, &t);
    double expected = 0;
    for (int step = 1; step <= SAVED; step++)
        expected -= 0.5 * (expected - step);
    assert_true(average[0] == expected && average[1] == -expected);
}

static void schedule_and_control_have_their_changes(void **state)
{
    stage *s = *state;
    trained t = {0};
    restore(s, &t);
    assert_true(t.knob == 0.25);
    assert_true(t.rate == 0.5);
    assert_int_equal(run(s, 2), 2);
    assert_true(t.rate == 0.5); /* the factor */
    finish(s, &t);
}

static void metrics_file_and_scalars_have_their_rows_and_the_metric_that_no_row_has(void **state)
{
    stage *s = *state;
    trained t = {0};
    size_t bytes;
    char expected[256];
    restore(s, &t);
    assert_int_equal(t.rows, 2);
    assert_int_equal(run(s, 1), 1);
    assert_int_equal(t.rows, 3);
    assert_true(t.row_accuracy == 0.75);
    finish(s, &t);
    char *text = test_read_file(test_path(s->directory, "rows.csv"), &bytes);
    snprintf(expected, sizeof expected, "%s7,1,0.75\n", rows);
    assert_string_equal(text, expected);
    free(text);
}

/* The best value is that of step 2. After it, the first hook has seen five values, and the second, at each second step,
 * two. */
static void each_early_stopping_has_the_best_value_and_the_number_of_worse_ones(void **state)
{
    for (int which = 0; which < 2; which++) {
        stage *s = *state;
        trained t = {.patience = {which ? 0 : 5 + 2, which ? 2 + 2 : 0}};
        restore(s, &t);
        assert_int_equal(run(s, 10), which ? 4 : 2);
        finish(s, &t);
        assert_string_equal(s->outcome.hook, "early_stopping");
    }
}

static void stop_after_has_the_used_time(void **state)
{
    stage *s = *state;
    trained t = {.total_secs = USED_SECS + 2 * STEP_SECS + 1};
    restore(s, &t);
    assert_int_equal(run(s, 10), 2);
    finish(s, &t);
    assert_string_equal(s->outcome.hook, "stop_after");
}

static void watchdog_has_the_longest_times(void **state)
{
    stage *s = *state;
    trained t = {0};
    char now[256], old[256];
    restore(s, &t);
    size_t bytes = saved_state(s, "hooksess/hook/watchdog", now, sizeof now);
    finish(s, &t);
    hs_checkpoint_reader *reader = hs_checkpoint_open(NULL, OLD_CHECKPOINT, &s->err);
    assert_ok(hs_checkpoint_read(reader, "hooksess/hook/watchdog", old, bytes, &s->err), &s->err);
    hs_checkpoint_close(reader);
    assert_memory_equal(now, old, bytes);
    assert_non_null(memchr(old, STEP_SECS, bytes));
}

/* Each of the three has its own state. */

static void the_first_finite_guard_has_the_number_of_skips(void **state)
{
    stage *s = *state;
    trained t = {.nan_gradient_in = 1};
    restore(s, &t);
    assert_fails(stage_run_once(s, "train"), HS_FAILED_PRECONDITION, &s->err, "gradient 'gradient'");
    assert_contains(s->err.message, "max_skips");
    finish(s, &t);
}

static void the_second_finite_guard_has_the_number_of_rollbacks(void **state)
{
    stage *s = *state;
    trained t = {.nan_wild_in = 1};
    restore(s, &t);
    assert_fails(stage_run_once(s, "train"), HS_FAILED_PRECONDITION, &s->err, "loss 'wild'");
    assert_contains(s->err.message, "max_rollbacks");
    finish(s, &t);
}

/* Without them, no value is a spike until the window is full. */
static void the_second_finite_guard_has_the_last_losses(void **state)
{
    stage *s = *state;
    trained t = {.spike_in = 1};
    restore(s, &t);
    assert_fails(stage_run_once(s, "train"), HS_FAILED_PRECONDITION, &s->err, "loss 'wild'");
    finish(s, &t);
}

/* It checks each second run. */
static void the_third_finite_guard_checks_again(void **state)
{
    stage *s = *state;
    trained t = {0};
    restore(s, &t);
    t.weights[0] = NAN;
    if (!stage_run_once(s, "train"))
        stage_run_once(s, "train");
    assert_says(&s->err, HS_FAILED_PRECONDITION, "parameter 'weights'");
    finish(s, &t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_old_checkpoint(no_hook_warns_about_its_state),
        with_old_checkpoint(intervals_begin_again),
        with_old_checkpoint(moving_average_has_its_averages),
        with_old_checkpoint(schedule_and_control_have_their_changes),
        with_old_checkpoint(metrics_file_and_scalars_have_their_rows_and_the_metric_that_no_row_has),
        with_old_checkpoint(each_early_stopping_has_the_best_value_and_the_number_of_worse_ones),
        with_old_checkpoint(stop_after_has_the_used_time),
        with_old_checkpoint(watchdog_has_the_longest_times),
        with_old_checkpoint(the_first_finite_guard_has_the_number_of_skips),
        with_old_checkpoint(the_second_finite_guard_has_the_number_of_rollbacks),
        with_old_checkpoint(the_second_finite_guard_has_the_last_losses),
        with_old_checkpoint(the_third_finite_guard_checks_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
