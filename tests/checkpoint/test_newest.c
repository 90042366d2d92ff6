/* SPDX-License-Identifier: Apache-2.0 */
/* Finding and restoring the newest checkpoint of a directory that may be damaged. */
#include "checkpoint/model.h"

#include "checkpoint/restore.h"

#include <unistd.h>

/* Three checkpoints, 8, 9 and 10, so that the order of names is not that of steps. */
static fixture *with_three(void **state)
{
    fixture *f = *state;
    for (int64_t step = 8; step <= 10; step++)
        save_at(f, step);
    return f;
}

static void assert_restores(fixture *f, int64_t step)
{
    test_env_clear_log(&f->t);
    assert_ok(restart(f), &f->err);
    assert_true(model_is(&f->m, step));
    assert_string_equal(f->restored, file_of(f, step, NULL));
}

static void the_newest_is_restored(void **state)
{
    fixture *f = with_three(state);
    assert_restores(f, 10);
    assert_lacks(f->t.log, "WARNING");
}

static void the_state_file_says_which_is_the_newest(void **state)
{
    fixture *f = with_three(state);
    write_state(f, "model_checkpoint_path: \"model.ckpt-9\"\n");
    assert_restores(f, 9);
    assert_string_equal(f->m.err.message, "");
}

static void an_empty_directory_has_no_newest(void **state)
{
    fixture *f = *state;
    assert_ok(restore_newest(f), &f->err);
    assert_string_equal(f->restored, "");
    assert_true(model_is(&f->m, -7));
}

static void a_missing_directory_has_no_newest(void **state)
{
    fixture *f = *state;
    char *path = NULL;
    assert_ok(hs__restore_newest(f->saver, model_raw(&f->m), test_path(f->directory, "none"), HS_RESTORE_OPTIONS(), &path,
                                 &f->err),
              &f->err);
    assert_null(path);
}

/* A later checkpoint that the state file does not name may be of an interrupted save, unless it was to be deleted. */
static void a_checkpoint_to_be_deleted_is_not_the_newest(void **state)
{
    fixture *f = with_three(state);
    write_state(f, "model_checkpoint_path: \"model.ckpt-8\"\n# last saved: model.ckpt-8\n"
                   "# to be deleted: model.ckpt-10\n# to be deleted: model.ckpt-9\n");
    assert_restores(f, 8);
}

/* Damage to the newest: the one before is restored, and the log has the reason. */

static void assert_passes_over(fixture *f, const char *why)
{
    assert_restores(f, 9);
    assert_contains(f->t.log, "WARNING: checkpoint '");
    assert_contains(f->t.log, "model.ckpt-10' skipped: ");
    assert_contains(f->t.log, why);
}

static void truncated_data(void **state)
{
    fixture *f = with_three(state);
    truncate_to(file_of(f, 10, DATA), 11);
    assert_passes_over(f, "has 11 bytes, too few");
}

static void a_flipped_bit_of_the_data(void **state)
{
    fixture *f = with_three(state);
    flip_bit(file_of(f, 10, DATA), 77);
    assert_passes_over(f, "checksum mismatch");
}

static void a_flipped_bit_of_the_index(void **state)
{
    fixture *f = with_three(state);
    flip_bit(file_of(f, 10, "index"), 200);
    assert_passes_over(f, "model.ckpt-10.index");
}

static void a_truncated_index(void **state)
{
    fixture *f = with_three(state);
    truncate_to(file_of(f, 10, "index"), 60);
    assert_passes_over(f, "model.ckpt-10.index");
}

static void missing_data(void **state)
{
    fixture *f = with_three(state);
    assert_int_equal(unlink(file_of(f, 10, DATA)), 0);
    assert_passes_over(f, "No such file");
}

static void a_missing_index(void **state)
{
    fixture *f = with_three(state);
    assert_int_equal(unlink(file_of(f, 10, "index")), 0);
    assert_passes_over(f, "No such file");
}

static void two_damaged_ones(void **state)
{
    fixture *f = with_three(state);
    truncate_to(file_of(f, 10, DATA), 0);
    flip_bit(file_of(f, 9, DATA), 5);
    assert_restores(f, 8);
    assert_contains(f->t.log, "model.ckpt-10' skipped");
    assert_contains(f->t.log, "model.ckpt-9' skipped");
}

static void damage_everything(fixture *f)
{
    truncate_to(file_of(f, 10, DATA), 0);
    flip_bit(file_of(f, 9, DATA), 5);
    assert_int_equal(unlink(file_of(f, 8, DATA)), 0);
}

static void all_damaged_is_an_error(void **state)
{
    fixture *f = with_three(state);
    damage_everything(f);
    assert_fails(restore_newest(f), HS_DATA_LOSS, &f->err, "none of its 3 checkpoints can be restored");
    assert_contains(f->err.message, "model.ckpt-10");
    assert_true(model_is(&f->m, -7));
    assert_string_equal(f->restored, "");
}

static void a_session_does_not_start_if_all_checkpoints_are_damaged(void **state)
{
    fixture *f = with_three(state);
    damage_everything(f);
    model_close(&f->m);
    model_set(&f->m, -7);
    assert_int_equal(model_open(&f->m, &f->t.env, f->directory), HS_DATA_LOSS);
    assert_null(f->m.session);
    assert_true(model_is(&f->m, -7));
}

static void a_state_file_without_its_checkpoints_is_an_error(void **state)
{
    fixture *f = *state;
    write_state(f, "model_checkpoint_path: \"model.ckpt-10\"\n");
    assert_fails(restore_newest(f), HS_NOT_FOUND, &f->err, "none of its 1 checkpoints");
}

/* It is of another model, so an older one would not fit either. */
static void a_checkpoint_that_does_not_fit_is_not_skipped(void **state)
{
    fixture *f = with_three(state);
    double wrong[3] = {0};
    hs_graph *graph = hs_graph_new(&f->t.env);
    hs_graph_variable(graph, "bias", HS_DOUBLE, HS_SHAPE(3), wrong);
    hs_session_options options = HS_INIT(hs_session_options, .checkpoint_dir = f->directory);
    assert_null(hs_session_open(hs_graph_backend(graph), &options, &f->err));
    hs_graph_free(graph);
    assert_says(&f->err, HS_INVALID_ARGUMENT, "model.ckpt-10");
    assert_lacks(f->t.log, "skipped");
}

/* Damage to the state file: the directory is searched, by step. */

static void assert_scans(fixture *f, const char *text)
{
    write_state(f, text);
    assert_restores(f, 10);
    assert_contains(f->t.log, "searching the directory");
}

static void a_damaged_state_file(void **state)
{
    assert_scans(with_three(state), "model_checkpoint_path: \"model.ck");
}

static void an_empty_state_file(void **state)
{
    assert_scans(with_three(state), "");
}

static void a_state_file_that_names_no_newest(void **state)
{
    assert_scans(with_three(state), "all_model_checkpoint_paths: \"model.ckpt-8\"\n");
}

static void a_missing_state_file(void **state)
{
    fixture *f = with_three(state);
    assert_int_equal(unlink(test_path(f->directory, "checkpoint")), 0);
    assert_restores(f, 10);
}

static void a_state_file_that_names_a_missing_checkpoint(void **state)
{
    fixture *f = with_three(state);
    write_state(f, "model_checkpoint_path: \"model.ckpt-99\"\n");
    assert_restores(f, 10);
    assert_contains(f->t.log, "model.ckpt-99' skipped");
}

static void a_moved_directory(void **state)
{
    fixture *f = with_three(state);
    char moved[1024];
    snprintf(moved, sizeof moved, "%s-moved", f->directory);
    assert_int_equal(rename(f->directory, moved), 0);
    free(f->directory);
    f->directory = strdup(moved);
    assert_restores(f, 10);
    assert_lacks(f->t.log, "WARNING");
}

/* Restarts keep the list. */

static void the_list_of_kept_checkpoints_survives_a_restart(void **state)
{
    fixture *f = with_three(state);
    assert_restores(f, 10);
    for (int64_t step = 11; step <= 13; step++)
        save_at(f, step);
    assert_false(has_file(f, 8, "index") || has_file(f, 8, DATA));
    for (int64_t step = 9; step <= 13; step++)
        assert_true(has_file(f, step, "index"));
    assert_string_equal(hs_saver_checkpoint(f->saver, 0), file_of(f, 9, NULL));
}

/* The saver does not delete checkpoints that the user copied there or that are kept forever. */
static void cm_016_others_are_not_deleted(void **state)
{
    fixture *f = *state;
    hs_save_options apart = HS_INIT(hs_save_options, .no_state_file = true);
    save_at(f, 1);
    assert_ok(hs_saver_save(f->saver, model_raw(&f->m), test_path(f->directory, "best"), -1, &apart, &f->err), &f->err);
    assert_restores(f, 1);
    for (int64_t step = 2; step <= 7; step++)
        save_at(f, step);
    assert_false(has_file(f, 1, "index"));
    assert_true(test_exists(f->directory, "best.index"));
}

static void checkpoints_kept_forever_stay_if_fewer_are_kept(void **state)
{
    fixture *f = *state;
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = HS_NEVER));
    for (int64_t step = 1; step <= 8; step++)
        save_at(f, step);
    assert_restores(f, 8);
    save_at(f, 9);
    for (int64_t step = 1; step <= 9; step++)
        assert_true(has_file(f, step, "index"));
}

static void a_damaged_one_is_deleted_first(void **state)
{
    fixture *f = with_three(state);
    flip_bit(file_of(f, 10, DATA), 5);
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = 2));
    assert_ok(restore_newest(f), &f->err);
    assert_true(model_is(&f->m, 9));
    save_at(f, 11);
    assert_false(has_file(f, 10, "index"));
    assert_true(has_file(f, 9, "index"));
    assert_restores(f, 11);
    assert_lacks(f->t.log, "WARNING");
}

/* Saves 8 to 12, damages the last two, and restarts with a saver that keeps `keep` checkpoints. */
static fixture *after_two_damaged(void **state, int64_t max_to_keep)
{
    fixture *f = *state;
    for (int64_t step = 8; step <= 12; step++)
        save_at(f, step);
    flip_bit(file_of(f, 11, DATA), 5);
    truncate_to(file_of(f, 12, "index"), 20);
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = max_to_keep));
    assert_ok(restore_newest(f), &f->err);
    assert_true(model_is(&f->m, 10));
    return f;
}

static void all_damaged_ones_are_deleted_before_a_good_one(void **state)
{
    fixture *f = after_two_damaged(state, 3);
    assert_true(has_file(f, 12, "index")); /* nothing is deleted by restoring */
    save_at(f, 13);
    assert_false(has_file(f, 11, DATA) || has_file(f, 12, DATA) || has_file(f, 12, "index") || has_file(f, 12, "meta"));
    assert_false(has_file(f, 8, "index")); /* the oldest good one had its turn, too */
    assert_true(has_file(f, 9, "index") && has_file(f, 10, "index") && has_file(f, 13, "index"));
    assert_string_equal(hs_saver_checkpoint(f->saver, 0), file_of(f, 9, NULL));
}

static void damaged_ones_stay_while_there_is_room(void **state)
{
    fixture *f = after_two_damaged(state, 6);
    save_at(f, 13);
    for (int64_t step = 8; step <= 13; step++)
        assert_true(has_file(f, step, "index"));
    save_at(f, 14);
    assert_false(has_file(f, 12, "index"));
    assert_true(has_file(f, 8, "index") && has_file(f, 11, "index"));
}

/* In the same process: checkpoints later than the restored one no longer count as the newest, and do not displace it in the
 * list. */
static void restoring_an_earlier_checkpoint_abandons_later_ones(void **state)
{
    fixture *f = *state;
    for (int64_t step = 10; step <= 14; step++)
        save_at(f, step);
    assert_ok(hs_saver_restore(f->saver, model_raw(&f->m), file_of(f, 11, NULL), NULL, &f->err), &f->err);
    save_at(f, 13);
    assert_false(has_file(f, 12, "index") || has_file(f, 14, "index"));
    assert_true(test_exists(f->directory, "model.ckpt-12.abandoned.index"));
    assert_true(test_exists(f->directory, "model.ckpt-14.abandoned.index"));
    assert_true(has_file(f, 10, "index") && has_file(f, 11, "index") && has_file(f, 13, "index"));
    flip_bit(file_of(f, 13, "data-00001-of-00002"), 5);
    assert_ok(restart(f), &f->err);
    assert_true(model_is(&f->m, 11));
}

/* Restoring an older one and then the newest abandons nothing. */
static void going_back_and_forth_leaves_nothing(void **state)
{
    fixture *f = *state;
    for (int64_t step = 10; step <= 12; step++)
        save_at(f, step);
    assert_ok(hs_saver_restore(f->saver, model_raw(&f->m), file_of(f, 10, NULL), NULL, &f->err), &f->err);
    assert_ok(hs_saver_restore(f->saver, model_raw(&f->m), file_of(f, 12, NULL), NULL, &f->err), &f->err);
    save_at(f, 13);
    for (int64_t step = 10; step <= 13; step++)
        assert_true(has_file(f, step, "index"));
    assert_int_equal(test_count_files(f->directory, "abandoned"), 0);
}

/* Training reaches the step of a damaged checkpoint again. */
static void a_damaged_one_is_saved_over_and_is_the_newest(void **state)
{
    fixture *f = after_two_damaged(state, 3);
    save_at(f, 11);
    assert_int_equal(test_count_files(f->directory, "model.ckpt-11.data"), 1);
    assert_restores(f, 11);
    assert_lacks(f->t.log, "WARNING");
    assert_true(has_file(f, 9, "index") && has_file(f, 10, "index"));
}

static hs_code restore_only(test_env *t, void *user)
{
    const fixture *f = user;
    model m = {.step = 0};
    hs_error err = {0};
    char *path = NULL;
    test_tolerate_harmless(t); /* looking for the files of a checkpoint that the state file names */
    hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.env = &t->env), &err);
    hs_code code = saver ? model_open(&m, &t->env, NULL) : err.code;
    if (saver && !code)
        code = hs__restore_newest(saver, model_raw(&m), f->directory, HS_RESTORE_OPTIONS(), &path, &err);
    if (saver && !code)
        assert_true(hs_saver_checkpoint(saver, 2) && !hs_saver_checkpoint(saver, 3));
    hs_env_free(&t->env, path);
    hs_saver_free(saver);
    model_close(&m);
    return code;
}

static void each_allocation_of_restoring(void **state)
{
    test_each_allocation(restore_only, with_three(state));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(the_newest_is_restored),
        with_fixture(the_state_file_says_which_is_the_newest),
        with_fixture(an_empty_directory_has_no_newest),
        with_fixture(a_missing_directory_has_no_newest),
        with_fixture(a_checkpoint_to_be_deleted_is_not_the_newest),
        with_fixture(truncated_data),
        with_fixture(a_flipped_bit_of_the_data),
        with_fixture(a_flipped_bit_of_the_index),
        with_fixture(a_truncated_index),
        with_fixture(missing_data),
        with_fixture(a_missing_index),
        with_fixture(two_damaged_ones),
        with_fixture(all_damaged_is_an_error),
        with_fixture(a_session_does_not_start_if_all_checkpoints_are_damaged),
        with_fixture(a_state_file_without_its_checkpoints_is_an_error),
        with_fixture(a_checkpoint_that_does_not_fit_is_not_skipped),
        with_fixture(a_damaged_state_file),
        with_fixture(an_empty_state_file),
        with_fixture(a_state_file_that_names_no_newest),
        with_fixture(a_missing_state_file),
        with_fixture(a_state_file_that_names_a_missing_checkpoint),
        with_fixture(a_moved_directory),
        with_fixture(the_list_of_kept_checkpoints_survives_a_restart),
        with_fixture(cm_016_others_are_not_deleted),
        with_fixture(checkpoints_kept_forever_stay_if_fewer_are_kept),
        with_fixture(a_damaged_one_is_deleted_first),
        with_fixture(all_damaged_ones_are_deleted_before_a_good_one),
        with_fixture(damaged_ones_stay_while_there_is_room),
        with_fixture(a_damaged_one_is_saved_over_and_is_the_newest),
        with_fixture(each_allocation_of_restoring),
        with_fixture(restoring_an_earlier_checkpoint_abandons_later_ones),
        with_fixture(going_back_and_forth_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
