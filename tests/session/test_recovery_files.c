/* SPDX-License-Identifier: Apache-2.0 */
/* File errors in a session that recovers: a save is skipped or fails the run, and the state in memory does not change. */
#include "session/lost.h"

#include <errno.h>

static void open_with(lost *l, hs_save_failure policy)
{
    if (!l->directory)
        l->directory = test_make_directory();
    const hs_session_options options = HS_INIT(hs_session_options, .checkpoint_dir = l->directory);
    hs_hook saver = hs_checkpoint_saver(.checkpoint_dir = l->directory, .every_n_steps = 1, .on_failure = policy);
    if (!lost_try_open(l, &options, &saver, 1))
        fail_msg("opening: %s: %s", hs_code_name(l->err.code), l->err.message);
}

static void is_skipped(lost *l, int64_t step)
{
    char text[64];
    test_env_clear_log(&l->t);
    assert_int_equal(lost_inc(l), step);
    snprintf(text, sizeof text, "WARNING: step %lld: not saved", (long long)step);
    assert_contains(l->t.log, text);
    assert_int_equal(hs_session_recoveries(l->session), 0);
}

static void no_errno_of_a_save_rolls_the_training_back(void **state)
{
    lost *l = *state;
    int64_t step = 0;
    open_with(l, HS_SAVE_FAILURE_SKIP);
    for (int os_error = 1; os_error < 134; os_error++) {
        l->t.fail_file_errno = os_error;
        l->t.fail_file_at = l->t.file_calls + 1;
        l->t.fail_file_on = true;
        is_skipped(l, ++step);
        l->t.fail_file_at = 0;
    }
    lost_inc(l);
    assert_int_equal(lost_close(l)->last_saved_step, step + 1);
    assert_int_equal(l->opens, 1);
}

static void each_call_of_a_save_may_be_stale(void **state)
{
    lost *l = *state;
    int64_t step = 0;
    size_t calls = 0, tried = 0;
    open_with(l, HS_SAVE_FAILURE_SKIP);
    l->t.fail_file_errno = ESTALE;
    do {
        calls = l->t.file_calls;
        l->t.fail_file_at = calls + ++tried;
        assert_int_equal(lost_inc(l), ++step);
    } while (l->t.file_calls >= l->t.fail_file_at);
    assert_true(tried > 5);
    assert_int_equal(hs_session_recoveries(l->session), 0);
    assert_int_equal(lost_close(l)->last_saved_step, step);
}

/* A file system of the program may return any code without an errno. */
static void no_code_of_a_save_rolls_the_training_back(void **state)
{
    lost *l = *state;
    int64_t step = 0;
    open_with(l, HS_SAVE_FAILURE_SKIP);
    for (hs_code code = HS_CANCELLED; code <= HS_UNAUTHENTICATED; code++) {
        if (code == HS_FAILED_PRECONDITION || code == HS_INVALID_ARGUMENT || code == HS_UNIMPLEMENTED)
            continue; /* not a failure of the disk, but for example of a lock that another process holds */
        l->t.fail_file_code = code;
        l->t.fail_file_at = l->t.file_calls + 1;
        l->t.fail_file_on = true;
        is_skipped(l, ++step);
        l->t.fail_file_at = 0;
    }
    assert_int_equal(lost_close(l)->last_saved_step, step);
}

static void a_save_that_is_to_fail_the_run_does_not_recover(void **state)
{
    const int os_errors[] = {ESTALE, EHOSTDOWN, EAGAIN, EINTR, ENOLCK, EROFS, ETIMEDOUT};
    lost *l = *state;
    open_with(l, HS_SAVE_FAILURE_FAIL);
    for (size_t i = 0; i < sizeof os_errors / sizeof *os_errors; i++) {
        l->t.fail_file_errno = os_errors[i];
        l->t.fail_file_at = l->t.file_calls + 1;
        l->t.fail_file_on = true;
        assert_int_equal(lost_run(l, "inc"), hs_code_from_errno(os_errors[i]));
        assert_int_equal(l->err.os_error, os_errors[i]);
        assert_int_equal(hs_session_global_step(l->session, NULL), (int64_t)i + 1);
        l->t.fail_file_at = 0;
    }
    assert_int_equal(hs_session_recoveries(l->session), 0);
    assert_int_equal(lost_close(l)->reason, HS_REASON_FAILED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        lost_test(no_errno_of_a_save_rolls_the_training_back),
        lost_test(each_call_of_a_save_may_be_stale),
        lost_test(no_code_of_a_save_rolls_the_training_back),
        lost_test(a_save_that_is_to_fail_the_run_does_not_recover),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
