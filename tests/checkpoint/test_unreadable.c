/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints that cannot be read now for another reason than damage. They may be intact, so no older one is restored, and
 * training does not start from the beginning. */
#include "base/file_spy.h"
#include "checkpoint/managed.h"

#include <dirent.h>
#include <errno.h>
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

/* Errors of the system. */

static void no_errno_but_enoent_is_damage(void **state)
{
    static const char *const calls[] = {"open", "read", "stat"};
    static const char *const files[] = {"model.ckpt-10.index", "model.ckpt-10.data", "checkpoint"};
    fixture *f = with_three(state);
    file_spy spy;
    file_spy_init(&spy, &f->t.env);
    for (int os_error = 1; os_error < 134; os_error++)
        for (int i = 0; i < 9 && os_error != ENOENT; i++) {
            spy.what = calls[i % 3];
            spy.where = files[i / 3];
            spy.os_error = os_error;
            file_spy_fail(&spy, 1, hs_code_from_errno(os_error));
            use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .env = &spy.env));
            hs_code code = restore_newest(f);
            assert_newest_or(f, code, hs_code_from_errno(os_error), (size_t)os_error);
            assert_int_equal(f->err.os_error, code ? os_error : 0);
            assert_lacks(f->t.log, "searching");
        }
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
}

/* With the codes of damage, or of a file that does not exist, and one of a disk. */
static const int os_errors[] = {EINVAL, ENODEV, ENXIO, ENOSYS, EOPNOTSUPP, EILSEQ, ESRCH, EIO};
enum { N_OS_ERRORS = sizeof os_errors / sizeof *os_errors };

static void copy_files(const char *from, const char *to)
{
    DIR *listed = opendir(from);
    assert_non_null(listed);
    for (struct dirent *entry; (entry = readdir(listed));) {
        size_t bytes;
        char *data = entry->d_name[0] == '.' ? NULL : test_read_file(test_path(from, entry->d_name), &bytes);
        if (data)
            test_write_file(test_path(to, entry->d_name), data, bytes);
        free(data);
    }
    closedir(listed);
}

static hs_checkpoint_manager *manager_that_keeps_two(fixture *f, const hs_env *env)
{
    return manager_of(f, .name = "model.ckpt", .saver = HS_SAVER_OPTIONS(.env = env, .max_to_keep = 2));
}

static void assert_survives(fixture *f, bool saved)
{
    hs_checkpoint_manager *manager = manager_that_keeps_two(f, &f->t.env);
    const char *path;
    assert_ok(hs_saver_restore(f->saver, model_raw(&f->m), file_of(f, 10, NULL), NULL, &f->err), &f->err);
    assert_true(model_is(&f->m, 10));
    assert_ok(hs_checkpoint_manager_restore_or_initialize(manager, model_raw(&f->m), NULL, &path, &f->err), &f->err);
    assert_true(model_is(&f->m, 11) || (!saved && model_is(&f->m, 10)));
    hs_checkpoint_manager_free(manager);
}

/* Restores and saves in a directory with the checkpoints 8, 9 and 10, with the 1st, 2nd, ... call of the file system
 * failing, alone or with all later calls. */
static void fail_each_call_of_a_process(fixture *f, const char *original, int os_error, bool and_all_after)
{
    file_spy spy;
    file_spy_init(&spy, &f->t.env);
    spy.os_error = os_error;
    spy.fail_on = and_all_after;
    size_t n = 0, failures = 0;
    bool failed;
    do {
        const char *path;
        test_empty_directory(f->directory);
        copy_files(original, f->directory);
        model_set(&f->m, -7);
        hs_checkpoint_manager *manager = manager_that_keeps_two(f, &spy.env);
        file_spy_fail(&spy, ++n, hs_code_from_errno(os_error));
        hs_code code = hs_checkpoint_manager_restore_or_initialize(manager, model_raw(&f->m), NULL, &path, &f->err);
        assert_true(model_is(&f->m, code ? -7 : 10));
        failures += code != HS_OK;
        model_set(&f->m, 11);
        bool saved = !code && !hs_checkpoint_manager_save(manager, model_raw(&f->m), 11, NULL, NULL, &f->err);
        failed = spy.matches >= n;
        hs_checkpoint_manager_free(manager);
        assert_lacks(f->t.log, "skipped");
        assert_survives(f, saved);
    } while (failed);
    assert_true(failures > 10 && n > 60);
}

static void fail_each_call_with_each_error(fixture *f)
{
    char *original = test_make_directory();
    copy_files(f->directory, original);
    for (size_t i = 0; i < N_OS_ERRORS; i++) {
        fail_each_call_of_a_process(f, original, os_errors[i], false);
        fail_each_call_of_a_process(f, original, os_errors[i], true);
    }
    test_remove_directory(original);
}

static void after_any_error_the_newest_good_checkpoint_is_there(void **state)
{
    fail_each_call_with_each_error(with_three(state));
}

static void after_any_error_in_a_directory_that_was_moved_it_is_there(void **state)
{
    fixture *f = with_three(state);
    write_state(f, "model_checkpoint_path: \"/elsewhere/model.ckpt-10\"\n"
                   "all_model_checkpoint_paths: \"/elsewhere/model.ckpt-8\"\n"
                   "all_model_checkpoint_paths: \"/elsewhere/model.ckpt-9\"\n"
                   "all_model_checkpoint_paths: \"/elsewhere/model.ckpt-10\"\n");
    fail_each_call_with_each_error(f);
}

static void it_is_not_saved_over(void **state)
{
    fixture *f = with_three(state);
    file_spy spy;
    file_spy_init(&spy, &f->t.env);
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .env = &spy.env));
    assert_ok(hs_saver_hold(f->saver, NULL, test_path(f->directory, "model.ckpt"), &f->err), &f->err);
    spy.what = "open";
    spy.where = "model.ckpt-10.index";
    file_spy_fail(&spy, 1, HS_DATA_LOSS);
    assert_fails(hs_saver_save(f->saver, model_raw(&f->m), test_path(f->directory, "model.ckpt"), 10, NULL, &f->err),
                 HS_DATA_LOSS, &f->err, "injected");
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
    assert_ok(restore_newest(f), &f->err);
    assert_true(model_is(&f->m, 10));
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
        with_fixture(no_errno_but_enoent_is_damage),
        with_fixture(after_any_error_the_newest_good_checkpoint_is_there),
        with_fixture(after_any_error_in_a_directory_that_was_moved_it_is_there),
        with_fixture(it_is_not_saved_over),
        with_fixture(a_session_is_not_opened),
        with_fixture(without_memory_no_older_one_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
