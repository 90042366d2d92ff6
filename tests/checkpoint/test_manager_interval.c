/* SPDX-License-Identifier: Apache-2.0 */
/* When a checkpoint manager saves. */
#include "checkpoint/managed.h"

#include <errno.h>

static void cm_021_every_n_steps(void **state)
{
    fixture *f = *state;
    hs_checkpoint_manager *manager = manager_of(f, .every_n_steps = 2);
    assert_string_equal(save_at_step(f, manager, 0), "ckpt-0");
    assert_null(save_at_step(f, manager, 1));
    assert_string_equal(save_at_step(f, manager, 2), "ckpt-2");
    assert_null(save_at_step(f, manager, 2));
    assert_null(save_at_step(f, manager, 3));
    assert_string_equal(save_as(f, manager, 3, 3, true), "ckpt-3");
    hs_checkpoint_manager_free(manager);
}

static void cm_021_a_counter_of_ones_own(void **state)
{
    fixture *f = *state;
    int64_t batches = 0;
    hs_checkpoint_manager *manager = manager_of(f, .every_n_steps = 10, .step = &batches);
    assert_non_null(save_at_step(f, manager, 1));
    assert_null(save_at_step(f, manager, 100));
    batches = 10;
    assert_non_null(save_at_step(f, manager, 100));
    hs_checkpoint_manager_free(manager);
}

/* HS_NEVER. */
static void without_an_interval_only_save_now_saves(void **state)
{
    fixture *f = *state;
    hs_checkpoint_manager *manager = manager_of(f, .every_n_steps = HS_NEVER);
    assert_null(save_at_step(f, manager, 1));
    assert_string_equal(save_as(f, manager, 1, 1, true), "ckpt-1");
    assert_null(save_at_step(f, manager, 100));
    hs_checkpoint_manager_free(manager);
}

static void cm_022_from_a_step_that_was_saved_before(void **state)
{
    fixture *f = *state;
    hs_checkpoint_manager *manager = manager_of(f, .every_n_steps = 2, .last_step = &(int64_t){1});
    assert_null(save_at_step(f, manager, 1));
    assert_null(save_at_step(f, manager, 2));
    assert_non_null(save_at_step(f, manager, 3));
    hs_checkpoint_manager_free(manager);
}

static void a_step_that_was_restored_counts_as_saved(void **state)
{
    fixture *f = *state;
    hs_checkpoint_manager *manager = manager_of(f, .every_n_steps = 2);
    save_at_step(f, manager, 5);
    hs_checkpoint_manager_free(manager);
    manager = manager_of(f, .every_n_steps = 2);
    restore_managed(f, manager);
    assert_null(save_as(f, manager, 5, 5, true));
    assert_null(save_at_step(f, manager, 6));
    assert_non_null(save_at_step(f, manager, 7));
    hs_checkpoint_manager_free(manager);
}

static void a_step_before_the_last_save_is_saved(void **state)
{
    fixture *f = *state;
    hs_checkpoint_manager *manager = manager_of(f, .every_n_steps = 2);
    save_at_step(f, manager, 100);
    assert_non_null(save_at_step(f, manager, 50));
    assert_null(save_at_step(f, manager, 51));
    hs_checkpoint_manager_free(manager);
}

static void cm_038s_a_failed_save_does_not_count(void **state)
{
    fixture *f = *state;
    hs_checkpoint_manager *manager = manager_of(f, .every_n_steps = 2);
    const char *path = "";
    assert_string_equal(save_as(f, manager, 0, -1, false), "ckpt-1");
    assert_null(save_as(f, manager, 1, -1, false));
    f->t.fail_file_at = f->t.file_calls + 1;
    f->t.fail_file_errno = ENOSPC;
    f->t.fail_file_on = true;
    model_set(&f->m, 2);
    assert_int_equal(hs_checkpoint_manager_save(manager, model_raw(&f->m), -1, NULL, &path, &f->err),
                     HS_RESOURCE_EXHAUSTED);
    assert_null(path);
    f->t.fail_file_at = 0;
    assert_string_equal(save_as(f, manager, 2, -1, false), "ckpt-2"); /* at the same step */
    assert_null(save_as(f, manager, 2, -1, true));
    hs_checkpoint_manager_free(manager);
}

/* Without an interval each call saves, and the step is not read. */
static void without_an_interval(void **state)
{
    fixture *f = *state;
    hs_checkpoint_manager *manager = manager_of(f, .last_step = &(int64_t){1});
    assert_string_equal(save_as(f, manager, 1, -1, false), "ckpt-1");
    assert_string_equal(save_as(f, manager, 1, -1, false), "ckpt-2");
    assert_string_equal(save_as(f, manager, 1, -1, true), "ckpt-3");
    hs_checkpoint_manager_free(manager);
}

static void cm_035s_an_interval_and_nothing_to_count_by(void **state)
{
    fixture *f = *state;
    hs_graph *graph = hs_graph_new(&f->t.env);
    hs_session *session = hs_session_open(hs_graph_backend(graph), NULL, &f->err);
    hs_checkpoint_manager *manager = manager_of(f, .every_n_steps = 2);
    assert_fails(hs_checkpoint_manager_save(manager, hs_session_raw(session), 1, NULL, NULL, &f->err),
                 HS_FAILED_PRECONDITION, &f->err, "the graph has no global step");
    assert_contains(f->err.message, "set .step");
    hs_checkpoint_manager_free(manager);
    hs_session_close(session, NULL);
    hs_graph_free(graph);
}

static void a_save_in_the_background(void **state)
{
    fixture *f = *state;
    const char *path;
    hs_save_result result;
    hs_checkpoint_manager *manager = manager_of(f, .every_n_steps = 2);
    hs_save_options options = HS_INIT(hs_save_options, .background = true);
    model_set(&f->m, 4);
    assert_ok(hs_checkpoint_manager_save(manager, model_raw(&f->m), 4, &options, &path, &f->err), &f->err);
    assert_string_equal(path, test_path(f->directory, "ckpt-4"));
    assert_null(save_as(f, manager, 4, 4, true));
    hs_saver_wait(hs_checkpoint_manager_saver(manager));
    assert_true(hs_saver_poll(hs_checkpoint_manager_saver(manager), NULL, &result));
    assert_ok(result.error.code, &result.error);
    assert_int_equal(result.step, 4);
    assert_true(hs_checkpoint_exists(&f->t.env, path));
    hs_checkpoint_manager_free(manager);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(cm_021_every_n_steps),
        with_fixture(cm_021_a_counter_of_ones_own),
        with_fixture(without_an_interval_only_save_now_saves),
        with_fixture(cm_022_from_a_step_that_was_saved_before),
        with_fixture(a_step_that_was_restored_counts_as_saved),
        with_fixture(a_step_before_the_last_save_is_saved),
        with_fixture(cm_038s_a_failed_save_does_not_count),
        with_fixture(without_an_interval),
        with_fixture(cm_035s_an_interval_and_nothing_to_count_by),
        with_fixture(a_save_in_the_background),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
