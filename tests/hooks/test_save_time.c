/* SPDX-License-Identifier: Apache-2.0 */
/* Saves that fit, or do not fit, into the time after a signal. */
#include "hooks/stage.h"

#include <hooksess/hooks/checkpoint_saver.h>

/* A disk whose saves take `secs`. */
typedef struct {
    stage *s;
    double secs;
    bool full; /* no room remains */
    int saves;
} slow;

static hs_code take_long(void *self, hs_raw_session *session, int64_t step, hs_error *err)
{
    slow *disk = self;
    (void)session, (void)step, (void)err;
    disk->saves++;
    test_env_advance(&disk->s->t, disk->secs);
    disk->s->t.fail_file_at = disk->full ? disk->s->t.file_calls + 3 : 0;
    disk->s->t.fail_file_on = disk->full;
    return HS_OK;
}

static const hs_saver_listener_ops slow_ops = HS_INIT(hs_saver_listener_ops, .before_save = take_long);

static void open_slow(stage *s, slow *disk, bool signals, double grace)
{
    const hs_saver_listener listener = {&slow_ops, disk};
    hs_hook hook =
        hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1000, .listeners = HS_LISTENERS(listener));
    disk->s = s;
    s->session = hs_session_open(
        hs_script_backend(s->script),
        HS_SESSION_OPTIONS(.hooks = HS_HOOKS(hook), .signals = signals, .signal_grace_secs = grace), &s->err);
    assert_ok(s->err.code, &s->err);
}

/* Runs once after `secs`. Returns the step of the newest checkpoint. */
static int64_t saved_after(stage *s, double secs)
{
    test_env_advance(&s->t, secs);
    stage_run(s, "train", 1, 0);
    return latest_step(s->directory);
}

static void a_save_of_half_the_time_is_logged(void **state)
{
    stage *s = *state;
    slow disk = {.secs = 15};
    open_slow(s, &disk, true, 0);
    assert_contains(s->t.log, "INFO: a save takes 15 s of the 30 s that the process has after a signal");
    assert_true(hs_raw_session_save_secs(hs_session_raw(s->session)) == 15);
    assert_int_equal(saved_after(s, 10000), 0);
    stage_close(s);
}

static void a_faster_save_is_not_logged(void **state)
{
    stage *s = *state;
    slow disk = {.secs = 14};
    open_slow(s, &disk, true, 0);
    stage_close(s);
    assert_lacks(s->t.log, "a save takes");
}

static void a_save_that_does_not_fit_is_made_more_often(void **state)
{
    stage *s = *state;
    slow disk = {.secs = 40};
    open_slow(s, &disk, true, 0);
    assert_contains(s->t.log, "WARNING: a save takes 40 s, but the process may be killed 30 s after a signal "
                              "(signal_grace_secs), so the last steps may be lost");
    assert_int_equal(saved_after(s, 799), 0);
    assert_int_equal(saved_after(s, 1), 2);
    assert_int_equal(saved_after(s, 799), 2);
    assert_int_equal(saved_after(s, 1), 4);
    assert_int_equal(count_of(s->t.log, "a save takes"), 1);
    stage_close(s);
}

static void a_failed_save_is_not_repeated_in_every_step(void **state)
{
    stage *s = *state;
    slow disk = {.secs = 40};
    open_slow(s, &disk, true, 0);
    disk.full = true;
    saved_after(s, 800);
    assert_int_equal(disk.saves, 2);
    for (int i = 0; i < 10; i++)
        saved_after(s, 10);
    assert_int_equal(disk.saves, 2);
    saved_after(s, 800);
    assert_int_equal(disk.saves, 3);
    disk.full = false;
    stage_close(s);
}

static void a_disk_that_is_fast_again_is_detected(void **state)
{
    stage *s = *state;
    slow disk = {.secs = 40};
    open_slow(s, &disk, true, 0);
    disk.secs = 0;
    for (int i = 0; i < 10; i++)
        saved_after(s, 800);
    assert_contains(s->t.log, "s of the 30 s that the process has after a signal");
    assert_true(hs_raw_session_save_secs(hs_session_raw(s->session)) < 30);
    stage_close(s);
}

static void without_signals_or_a_limit_nothing_is_logged(void **state)
{
    stage *s = *state;
    slow disk = {.secs = 40};
    open_slow(s, &disk, false, 0);
    stage_close(s);
    open_slow(s, &disk, true, HS_NEVER);
    assert_int_equal(saved_after(s, 10000), 0);
    stage_close(s);
    assert_lacks(s->t.log, "a save takes");
}

static void an_invalid_grace_is_refused(void **state)
{
    stage *s = *state;
    assert_null(hs_session_open(hs_script_backend(s->script), HS_SESSION_OPTIONS(.signals = true, .signal_grace_secs = -2),
                                &s->err));
    assert_contains(s->err.message, "signal_grace_secs is -2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_stage(a_save_of_half_the_time_is_logged),
        with_stage(a_faster_save_is_not_logged),
        with_stage(a_save_that_does_not_fit_is_made_more_often),
        with_stage(a_failed_save_is_not_repeated_in_every_step),
        with_stage(a_disk_that_is_fast_again_is_detected),
        with_stage(without_signals_or_a_limit_nothing_is_logged),
        with_stage(an_invalid_grace_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
