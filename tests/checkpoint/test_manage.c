/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints as files. */
#include "base/file_spy.h"
#include "checkpoint/model.h"

#include <sys/stat.h>
#include <unistd.h>

/* How old. */

static void cm_011_cm_032s_the_time_is_the_indexes(void **state)
{
    fixture *f = *state;
    struct stat index;
    int64_t ns = 0;
    save_at(f, 1);
    assert_ok(hs_checkpoint_mtime(&f->t.env, file_of(f, 1, NULL), &ns, &f->err), &f->err);
    assert_int_equal(stat(file_of(f, 1, "index"), &index), 0);
    assert_int_equal(ns / 1000000000, index.st_mtime);
    assert_fails(hs_checkpoint_mtime(NULL, file_of(f, 2, NULL), &ns, &f->err), HS_NOT_FOUND, &f->err, "model.ckpt-2.index");
    assert_int_equal(hs_checkpoint_mtime(NULL, NULL, &ns, &f->err), HS_INVALID_ARGUMENT);
    assert_int_equal(hs_checkpoint_mtime(NULL, "x", NULL, &f->err), HS_INVALID_ARGUMENT);
}

/* Removing. */

static void cm_012_cm_031s_all_of_it_goes_and_nothing_else(void **state)
{
    fixture *f = *state;
    save_at(f, 1);
    save_at(f, 10);
    test_write_file(file_of(f, 1, "data-00003-of-00004"), "x", 1);
    assert_ok(hs_checkpoint_remove(&f->t.env, file_of(f, 1, NULL), &f->err), &f->err);
    assert_false(hs_checkpoint_exists(NULL, file_of(f, 1, NULL)));
    assert_int_equal(test_count_files(f->directory, "model.ckpt-1."), 0);
    assert_int_equal(test_count_files(f->directory, "model.ckpt-10."), 3);
    assert_ok(hs_checkpoint_remove(NULL, file_of(f, 1, NULL), &f->err), &f->err); /* it is gone already */
    assert_int_equal(hs_checkpoint_remove(NULL, "", &f->err), HS_INVALID_ARGUMENT);
}

static hs_code keep_all(void *user, const char *path, hs_error *err)
{
    (void)user;
    return hs_error_set(err, HS_PERMISSION_DENIED, "%s: stays", path);
}

static void a_file_that_cannot_be_removed_is_an_error(void **state)
{
    fixture *f = *state;
    hs_file_system_ops ops = *f->t.env.files.ops;
    hs_env env = f->t.env;
    save_at(f, 1);
    ops.remove = keep_all;
    env.files.ops = &ops;
    assert_fails(hs_checkpoint_remove(&env, file_of(f, 1, NULL), &f->err), HS_UNKNOWN, &f->err, "cannot remove checkpoint");
    assert_contains(f->t.log, "model.ckpt-1.index: stays");
}

static void without_a_file_system_nothing_counts_as_removed(void **state)
{
    fixture *f = *state;
    file_spy spy;
    file_spy_init(&spy, &f->t.env);
    save_at(f, 1);
    spy.fail_on = true;
    file_spy_fail(&spy, 1, HS_UNKNOWN);
    assert_fails(hs_checkpoint_remove(&spy.env, file_of(f, 1, NULL), &f->err), HS_UNKNOWN, &f->err, "cannot remove");
    assert_true(has_file(f, 1, DATA));
}

/* Waiting. */

static hs_code wait_for(fixture *f, const char *last, double secs, char **found)
{
    return hs_checkpoint_wait(&f->t.env, f->directory, last, secs, found, &f->err);
}

static void wait_returns_an_existing_checkpoint_immediately(void **state)
{
    fixture *f = *state;
    char *found;
    int64_t before = f->t.now_ns;
    save_at(f, 1);
    assert_ok(wait_for(f, NULL, 0, &found), &f->err);
    assert_string_equal(found, file_of(f, 1, NULL));
    hs_env_free(&f->t.env, found);
    assert_int_equal(f->t.now_ns, before);
}

/* A clock whose sleep saves a checkpoint, after a few rounds. */
static fixture *sleeping;
static int rounds;

static void save_in_sleep(void *user, int64_t ns)
{
    ((test_env *)user)->now_ns += ns;
    if (--rounds == 0)
        save_at(sleeping, 2);
}

static void sleep_for_months(void *user, int64_t ns)
{
    const int64_t DAY_NS = (int64_t)86400 * 1000000000;
    save_in_sleep(user, ns + 60 * DAY_NS);
}

static void a_new_one_is_waited_for(void **state)
{
    fixture *f = sleeping = *state;
    char *found, last[256];
    save_at(f, 1);
    snprintf(last, sizeof last, "%s", file_of(f, 1, NULL));
    f->t.env.clock.sleep_ns = save_in_sleep;
    rounds = 3;
    assert_ok(wait_for(f, last, 10, &found), &f->err);
    assert_string_equal(found, file_of(f, 2, NULL));
    hs_env_free(&f->t.env, found);
}

static void without_a_limit_it_is_waited_for_a_year(void **state)
{
    fixture *f = sleeping = *state;
    char *found;
    f->t.env.clock.sleep_ns = sleep_for_months;
    rounds = 6;
    assert_ok(wait_for(f, NULL, HS_NEVER, &found), &f->err);
    assert_string_equal(found, file_of(f, 2, NULL));
    hs_env_free(&f->t.env, found);
}

static void waiting_has_an_end(void **state)
{
    fixture *f = *state;
    char *found;
    int64_t before = f->t.now_ns;
    save_at(f, 1);
    assert_fails(wait_for(f, file_of(f, 1, NULL), 2.5, &found), HS_DEADLINE_EXCEEDED, &f->err, "within 2.5 s");
    assert_null(found);
    assert_int_equal(f->t.now_ns - before, 2500000000);
    assert_int_equal(wait_for(f, NULL, -2, &found), HS_INVALID_ARGUMENT);
    assert_int_equal(hs_checkpoint_wait(NULL, NULL, NULL, 0, &found, &f->err), HS_INVALID_ARGUMENT);
    assert_int_equal(wait_for(f, NULL, 0, NULL), HS_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(cm_011_cm_032s_the_time_is_the_indexes),
        with_fixture(cm_012_cm_031s_all_of_it_goes_and_nothing_else),
        with_fixture(a_file_that_cannot_be_removed_is_an_error),
        with_fixture(without_a_file_system_nothing_counts_as_removed),
        with_fixture(wait_returns_an_existing_checkpoint_immediately),
        with_fixture(a_new_one_is_waited_for),
        with_fixture(without_a_limit_it_is_waited_for_a_year),
        with_fixture(waiting_has_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
