/* SPDX-License-Identifier: Apache-2.0 */
/* A saver that several sessions use, or that saves in several directories. */
#include "checkpoint/model.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *in(const fixture *f, const char *sub, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", sub, name);
    return test_path(f->directory, path);
}

static void save_in(fixture *f, const char *sub, int64_t step)
{
    mkdir(test_path(f->directory, sub), 0777);
    model_set(&f->m, step);
    assert_ok(hs_saver_save(f->saver, model_raw(&f->m), in(f, sub, "model.ckpt"), step, NULL, &f->err), &f->err);
}

/* The indexes in the directory are those of these steps. */
static void assert_steps(const fixture *f, const char *sub, const int64_t *steps, size_t n)
{
    char name[64];
    for (size_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "model.ckpt-%lld.index", (long long)steps[i]);
        if (!test_exists(test_path(f->directory, sub), name))
            fail_msg("%s/%s is missing", sub, name);
    }
    assert_int_equal(test_count_files(test_path(f->directory, sub), ".index"), n);
}
#define STEPS(...) (const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)

/* Another process can lock the directory. */
static bool can_hold_elsewhere(const fixture *f, const char *sub)
{
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(hs_saver_hold(hs_saver_new(NULL, NULL), NULL, in(f, sub, "model.ckpt"), NULL) == HS_OK ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WEXITSTATUS(status) == 0;
}

static void each_directory_has_its_own_list(void **state)
{
    fixture *f = *state;
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = 2));
    for (int64_t step = 1; step <= 4; step++) {
        save_in(f, "a", step);
        if (step % 2 == 0)
            save_in(f, "b", 10 * step);
    }
    save_in(f, "b", 50);
    assert_steps(f, "a", STEPS(3, 4));
    assert_steps(f, "b", STEPS(40, 50));
    assert_string_equal(hs_saver_last_path(f->saver), in(f, "b", "model.ckpt-50"));
    assert_string_equal(hs_saver_checkpoint(f->saver, 0), in(f, "b", "model.ckpt-40"));
    assert_ok(hs_saver_pin(f->saver, in(f, "a", "model.ckpt-3"), true, &f->err), &f->err);
    save_in(f, "a", 5);
    save_in(f, "a", 6);
    assert_steps(f, "a", STEPS(3, 5, 6));
}

static void each_directory_has_its_own_result_of_a_background_save(void **state)
{
    fixture *f = *state;
    hs_save_result result;
    const hs_save_options *background = HS_SAVE_OPTIONS(.background = true);
    save_in(f, "a", 1);
    save_in(f, "b", 1);
    assert_ok(hs_saver_save(f->saver, model_raw(&f->m), in(f, "a", "x"), 2, background, &f->err), &f->err);
    assert_ok(hs_saver_save(f->saver, model_raw(&f->m), in(f, "b", "x"), 3, background, &f->err), &f->err);
    hs_saver_wait(f->saver);
    assert_false(hs_saver_poll(f->saver, in(f, "c", "x"), &result));
    assert_true(hs_saver_poll(f->saver, in(f, "a", "x"), &result));
    assert_int_equal(result.step, 2);
    assert_true(result.bytes >= 48 && result.write_ns >= 0);
    assert_true(hs_saver_poll(f->saver, NULL, &result));
    assert_int_equal(result.step, 3);
    assert_false(hs_saver_poll(f->saver, NULL, &result));
}

/* Such a save is not in the way of one in another directory. */
static void policies_for_busy_savers_apply_to_the_directory(void **state)
{
    fixture *f = *state;
    const hs_busy_policy policies[] = {HS_BUSY_SKIP, HS_BUSY_REPLACE};
    for (size_t i = 0; i < 2; i++) {
        const hs_save_options options = HS_INIT(hs_save_options, .background = true, .busy = policies[i]);
        for (const char *sub = "ab"; *sub; sub++) {
            const char name[] = {*sub, '\0'};
            mkdir(test_path(f->directory, name), 0777);
            assert_ok(hs_saver_save(f->saver, model_raw(&f->m), in(f, name, "x"), 1, &options, &f->err), &f->err);
        }
        hs_saver_wait(f->saver);
        assert_true(hs_saver_poll(f->saver, in(f, "a", "x"), NULL));
        assert_true(hs_saver_poll(f->saver, in(f, "b", "x"), NULL));
    }
}

static void a_directory_stays_locked_if_it_was_held(void **state)
{
    fixture *f = *state;
    mkdir(test_path(f->directory, "a"), 0777);
    assert_ok(hs_saver_hold(f->saver, NULL, in(f, "a", "model.ckpt"), &f->err), &f->err);
    save_in(f, "a", 1);
    save_in(f, "b", 1);
    assert_false(can_hold_elsewhere(f, "a"));
    assert_false(can_hold_elsewhere(f, "b"));
    save_in(f, "c", 1);
    assert_false(can_hold_elsewhere(f, "a"));
    assert_true(can_hold_elsewhere(f, "b"));
}

static void a_metric_may_come_after_the_save(void **state)
{
    fixture *f = *state;
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = 1, .keep_best = 1));
    save_at(f, 1);
    assert_ok(hs_saver_set_metric(f->saver, file_of(f, 1, NULL), 0.5, &f->err), &f->err);
    save_at(f, 2);
    save_at(f, 3);
    assert_steps(f, ".", STEPS(1, 3));
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = 1, .keep_best = 1));
    assert_ok(restore_newest(f), &f->err); /* the state file has the metric */
    save_at(f, 4);
    assert_steps(f, ".", STEPS(1, 4));
    assert_fails(hs_saver_set_metric(f->saver, file_of(f, 2, NULL), 1, &f->err), HS_NOT_FOUND, &f->err, "is not kept");
    assert_fails(hs_saver_set_metric(f->saver, NULL, 1, &f->err), HS_INVALID_ARGUMENT, &f->err, "prefix is NULL");
    assert_fails(hs_saver_set_metric(NULL, "x", 1, &f->err), HS_INVALID_ARGUMENT, &f->err, "saver is NULL");
}

static void max_to_keep_of_a_save_is_for_this_save(void **state)
{
    fixture *f = *state;
    for (int64_t step = 1; step <= 4; step++)
        assert_ok(hs_saver_save(f->saver, model_raw(&f->m), test_path(f->directory, "model.ckpt"), step,
                                HS_SAVE_OPTIONS(.max_to_keep = 2), &f->err),
                  &f->err);
    assert_steps(f, ".", STEPS(3, 4));
    for (int64_t step = 5; step <= 8; step++)
        save_at(f, step);
    assert_steps(f, ".", STEPS(4, 5, 6, 7, 8));
    assert_fails(hs_saver_save(f->saver, model_raw(&f->m), test_path(f->directory, "model.ckpt"), 9,
                               HS_SAVE_OPTIONS(.max_to_keep = -2), &f->err),
                 HS_INVALID_ARGUMENT, &f->err, "hs_save_options.max_to_keep is -2");
}

/* Several sessions. */

/* Opens a session of another model. */
static void open_other(fixture *f, model *other)
{
    *other = (model){.step = 0};
    assert_ok(model_open(other, &f->t.env, NULL), &other->err);
}

/* As an evaluation does. The other session is still open when the first one saves. */
static void a_restore_in_another_session_abandons_nothing(void **state)
{
    fixture *f = *state;
    for (int64_t step = 1; step <= 4; step++)
        save_at(f, step);
    model other;
    open_other(f, &other);
    assert_ok(hs_saver_restore(f->saver, model_raw(&other), file_of(f, 2, NULL), NULL, &f->err), &f->err);
    save_at(f, 5);
    model_close(&other);
    save_at(f, 6);
    assert_steps(f, ".", STEPS(2, 3, 4, 5, 6));
}

static void a_restore_from_another_directory_abandons_nothing_here(void **state)
{
    fixture *f = *state;
    save_in(f, "a", 2);
    for (int64_t step = 1; step <= 4; step++)
        save_in(f, "b", step);
    assert_ok(hs_saver_restore(f->saver, model_raw(&f->m), in(f, "a", "model.ckpt-2"), NULL, &f->err), &f->err);
    save_in(f, "b", 5);
    assert_steps(f, "b", STEPS(1, 2, 3, 4, 5));
}

static void a_session_that_restores_nothing_abandons_later_checkpoints(void **state)
{
    fixture *f = *state;
    for (int64_t step = 1; step <= 4; step++)
        save_at(f, step);
    model other;
    open_other(f, &other);
    const char *prefix = test_path(f->directory, "model.ckpt");
    assert_ok(hs_saver_save(f->saver, model_raw(&other), prefix, 2, NULL, &f->err), &f->err);
    assert_true(test_exists(f->directory, "model.ckpt-3.abandoned.index"));
    assert_true(test_exists(f->directory, "model.ckpt-4.abandoned.index"));
    assert_true(has_file(f, 1, "index") && has_file(f, 2, "index") && !has_file(f, 3, "index"));
    assert_ok(hs_saver_save(f->saver, model_raw(&other), prefix, 3, NULL, &f->err), &f->err);
    assert_null(hs_saver_checkpoint(f->saver, 3));
    model_close(&other);
}

/* After a rollback to step 3, nothing is saved before another one, to step 5: the branch begins after step 3. */
static void the_branch_begins_at_the_earliest_restore_since_a_save(void **state)
{
    fixture *f = *state;
    hs_state_copy *copy = NULL;
    for (int64_t step = 1; step <= 4; step++)
        save_at(f, step);
    assert_ok(hs_saver_restore(f->saver, model_raw(&f->m), file_of(f, 2, NULL), NULL, &f->err), &f->err);
    model_set(&f->m, 3);
    assert_ok(hs_raw_session_copy_state(model_raw(&f->m), &copy, &f->err), &f->err);
    assert_ok(hs_raw_session_restore_copy(model_raw(&f->m), copy, &f->err), &f->err);
    hs_state_copy_free(copy);
    save_at(f, 6);
    assert_true(has_file(f, 2, "index") && has_file(f, 6, "index"));
    assert_false(has_file(f, 3, "index") || has_file(f, 4, "index"));
}

static void a_directory_of_one_session_is_closed_to_others(void **state)
{
    fixture *f = *state;
    model other;
    open_other(f, &other);
    const char *prefix = test_path(f->directory, "model.ckpt");
    hs_saver *second = hs_saver_new(NULL, &f->err);
    assert_ok(hs_saver_hold(f->saver, model_raw(&f->m), prefix, &f->err), &f->err);
    assert_ok(hs_saver_hold(second, model_raw(&f->m), prefix, &f->err), &f->err);
    save_at(f, 1);
    assert_ok(hs_saver_save(second, model_raw(&f->m), prefix, 2, NULL, &f->err), &f->err);
    hs_saver *third = hs_saver_new(NULL, &f->err);
    assert_fails(hs_saver_hold(third, model_raw(&other), prefix, &f->err), HS_FAILED_PRECONDITION, &f->err,
                 "another session of this process saves there; close it first");
    assert_fails(hs_saver_save(third, model_raw(&other), prefix, 3, NULL, &f->err), HS_FAILED_PRECONDITION, &f->err,
                 "another session of this process");
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
    assert_int_equal(hs_saver_save(third, model_raw(&other), prefix, 3, NULL, &f->err), HS_FAILED_PRECONDITION);
    hs_saver_free(second);
    assert_ok(hs_saver_save(third, model_raw(&other), prefix, 3, NULL, &f->err), &f->err);
    model_close(&other);
    hs_saver_free(third);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(each_directory_has_its_own_list),
        with_fixture(each_directory_has_its_own_result_of_a_background_save),
        with_fixture(policies_for_busy_savers_apply_to_the_directory),
        with_fixture(a_directory_stays_locked_if_it_was_held),
        with_fixture(a_metric_may_come_after_the_save),
        with_fixture(max_to_keep_of_a_save_is_for_this_save),
        with_fixture(a_restore_in_another_session_abandons_nothing),
        with_fixture(a_restore_from_another_directory_abandons_nothing_here),
        with_fixture(a_session_that_restores_nothing_abandons_later_checkpoints),
        with_fixture(the_branch_begins_at_the_earliest_restore_since_a_save),
        with_fixture(a_directory_of_one_session_is_closed_to_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
