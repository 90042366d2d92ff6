/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints that cannot be read now for another reason than damage. They may be intact, so no older one is restored, and
 * training does not start from the beginning. */
#include "base/file_spy.h"
#include "checkpoint/model.h"

#include <unistd.h>

static const hs_code reasons[] = {HS_PERMISSION_DENIED, HS_UNKNOWN, HS_RESOURCE_EXHAUSTED, HS_INTERNAL, HS_USER + 1};
enum { N_REASONS = sizeof reasons / sizeof *reasons };

static fixture *with_three(void **state)
{
    fixture *f = *state;
    for (int64_t step = 8; step <= 10; step++)
        save_at(f, step);
    return f;
}

/* The newest was restored, or this error is the reason why nothing was. */
static void assert_newest_or(fixture *f, hs_code code, hs_code reason, size_t n)
{
    bool newest = code == HS_OK && model_is(&f->m, 10) && strcmp(f->restored, file_of(f, 10, NULL)) == 0;
    bool refused = code == reason && f->err.code == reason && model_is(&f->m, -7) && !*f->restored;
    if (!newest && !refused)
        fail_msg("with call %zu failing with %s: %s, and the model is at %lld, of '%s'", n, hs_code_name(reason),
                 hs_code_name(code), (long long)f->m.step, f->restored);
    assert_lacks(f->t.log, "skipped");
}

/* Restores the newest with the 1st, 2nd, ... call of the file system failing. */
static void fail_each_call(fixture *f, hs_code reason)
{
    file_spy spy;
    file_spy_init(&spy, &f->t.env);
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .env = &spy.env));
    size_t n = 0, failures = 0;
    do {
        file_spy_fail(&spy, ++n, reason);
        hs_code code = restore_newest(f);
        assert_newest_or(f, code, reason, n);
        failures += code != HS_OK;
    } while (spy.matches >= n);
    assert_true(failures > 5);
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
}

static void no_older_one_is_taken(void **state)
{
    fixture *f = with_three(state);
    for (size_t i = 0; i < N_REASONS; i++)
        fail_each_call(f, reasons[i]);
}

static void nor_without_a_state_file(void **state)
{
    fixture *f = with_three(state);
    assert_int_equal(unlink(test_path(f->directory, "checkpoint")), 0);
    fail_each_call(f, HS_UNKNOWN);
}

static void nor_with_a_damaged_state_file(void **state)
{
    fixture *f = with_three(state);
    write_state(f, "model_checkpoint_path: \"model.ck");
    fail_each_call(f, HS_UNKNOWN);
}

/* The state file has absolute paths of the directory before it was moved. */
static void nor_in_a_directory_that_was_moved(void **state)
{
    fixture *f = with_three(state);
    write_state(f, "model_checkpoint_path: \"/elsewhere/model.ckpt-10\"\n"
                   "all_model_checkpoint_paths: \"/elsewhere/model.ckpt-9\"\n"
                   "all_model_checkpoint_paths: \"/elsewhere/model.ckpt-10\"\n");
    fail_each_call(f, HS_UNKNOWN);
}

static void an_index_nor_data_that_may_not_be_read(void **state)
{
    static const char *const files[] = {"model.ckpt-10.index", "model.ckpt-10.data"};
    fixture *f = with_three(state);
    file_spy spy;
    file_spy_init(&spy, &f->t.env);
    for (size_t i = 0; i < 2 * N_REASONS; i++) {
        spy.what = "open";
        spy.where = files[i % 2];
        file_spy_fail(&spy, 1, reasons[i / 2]);
        use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .env = &spy.env));
        assert_fails(restore_newest(f), reasons[i / 2], &f->err, files[i % 2]);
        assert_true(model_is(&f->m, -7));
        assert_lacks(f->t.log, "skipped");
    }
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
}

static void a_session_is_not_opened(void **state)
{
    fixture *f = with_three(state);
    file_spy spy;
    model m = {.step = -7};
    model_set(&m, -7);
    file_spy_init(&spy, &f->t.env);
    spy.where = "model.ckpt-10.data";
    file_spy_fail(&spy, 1, HS_PERMISSION_DENIED);
    assert_fails(model_open(&m, &spy.env, f->directory), HS_PERMISSION_DENIED, &m.err, "model.ckpt-10.data");
    assert_null(m.session);
    assert_true(model_is(&m, -7));
    model_close(&m);
}

static void without_memory_no_older_one_is_taken(void **state)
{
    fixture *f = with_three(state);
    write_state(f, "model_checkpoint_path: \"/elsewhere/model.ckpt-10\"\n");
    size_t before, n = 0;
    do {
        use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
        before = f->t.allocations;
        f->t.fail_alloc_at = before + ++n;
        hs_code code = restore_newest(f);
        f->t.fail_alloc_at = 0;
        assert_true(code == HS_OK || code == HS_RESOURCE_EXHAUSTED);
        assert_true(model_is(&f->m, 10) || (code && model_is(&f->m, -7)));
        assert_lacks(f->t.log, "skipped");
    } while (f->t.allocations >= before + n);
    assert_true(n > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(no_older_one_is_taken),
        with_fixture(nor_without_a_state_file),
        with_fixture(nor_with_a_damaged_state_file),
        with_fixture(nor_in_a_directory_that_was_moved),
        with_fixture(an_index_nor_data_that_may_not_be_read),
        with_fixture(a_session_is_not_opened),
        with_fixture(without_memory_no_older_one_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
