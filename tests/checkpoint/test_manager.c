/* SPDX-License-Identifier: Apache-2.0 */
/* hs_checkpoint_manager: names, restoring, options. */
#include "checkpoint/managed.h"

/* Numbers and names. */

static void cm_018_numbers_of_ones_own(void **state)
{
    fixture *f = *state;
    hs_saver_options two = HS_INIT(hs_saver_options, .env = &f->t.env, .max_to_keep = 2);
    hs_checkpoint_manager *manager = manager_of(f, .saver = &two);
    for (int64_t step = 0; step <= 8; step += 2) {
        char name[16];
        snprintf(name, sizeof name, "ckpt-%d", (int)step);
        assert_string_equal(save_at_step(f, manager, step), name);
    }
    assert_string_equal(save_as(f, manager, 8, 32, false), "ckpt-32");
    char *latest = hs_checkpoint_latest(&f->t.env, f->directory, NULL, &f->err);
    assert_string_equal(latest, test_path(f->directory, "ckpt-32"));
    hs_env_free(&f->t.env, latest);
    assert_string_equal(kept_by(manager), "ckpt-8 ckpt-32 ");
    hs_checkpoint_manager_free(manager);
}

static void numbers_go_on_by_themselves(void **state)
{
    fixture *f = *state;
    hs_checkpoint_manager *manager = manager_of(f, );
    assert_string_equal(save_next(f, manager), "ckpt-1");
    assert_string_equal(save_next(f, manager), "ckpt-2");
    hs_checkpoint_manager_free(manager);
    manager = manager_of(f, );
    assert_string_equal(restore_managed(f, manager), "ckpt-2");
    assert_string_equal(save_next(f, manager), "ckpt-3");
    hs_checkpoint_manager_free(manager);
}

/* If numbers counted only the saves of this run, a save could replace a later checkpoint. */
static void cm_018_cm_038s_the_next_number_is_above_all(void **state)
{
    fixture *f = *state;
    hs_checkpoint_manager *manager = manager_of(f, );
    save_as(f, manager, 1, 32, false);
    save_as(f, manager, 2, 8, false);
    assert_string_equal(save_next(f, manager), "ckpt-33");
    hs_checkpoint_manager_free(manager);
}

static void cm_015_a_save_without_a_restore_counts_on_from_the_highest_number(void **state)
{
    fixture *f = *state;
    hs_checkpoint_manager *manager = manager_of(f, );
    save_as(f, manager, 1, 1, false);
    save_as(f, manager, 7, 7, false);
    hs_checkpoint_manager_free(manager);
    manager = manager_of(f, .name = "ckp");
    assert_string_equal(save_next(f, manager), "ckp-1"); /* another series */
    hs_checkpoint_manager_free(manager);
    test_write_file(test_path(f->directory, "ckpt-20.txt"), "", 0); /* no checkpoint */
    manager = manager_of(f, );
    assert_string_equal(save_next(f, manager), "ckpt-8");
    assert_string_equal(save_next(f, manager), "ckpt-9");
    hs_checkpoint_manager_free(manager);
    assert_true(hs_checkpoint_exists(NULL, test_path(f->directory, "ckpt-1")));
}

static void cm_019_a_name_of_ones_own(void **state)
{
    fixture *f = *state;
    hs_checkpoint_manager *manager = manager_of(f, .name = "ckpt_name");
    assert_string_equal(save_as(f, manager, 1, 5, false), "ckpt_name-5");
    hs_checkpoint_manager_free(manager);
    manager = manager_of(f, );
    assert_string_equal(save_as(f, manager, 1, 5, false), "ckpt-5");
    hs_checkpoint_manager_free(manager);
}

static void cm_039s_the_directory_can_be_moved(void **state)
{
    fixture *f = *state;
    hs_checkpoint_manager *manager = manager_of(f, );
    save_next(f, manager);
    char *text = test_read_file(test_path(f->directory, "checkpoint"), NULL);
    assert_contains(text, "model_checkpoint_path: \"ckpt-1\"\nall_model_checkpoint_paths: \"ckpt-1\"\n");
    free(text);
    hs_checkpoint_manager_free(manager);
}

/* Restoring. */

static void cm_020_restore_or_initialize(void **state)
{
    fixture *f = *state;
    beginning b = {.m = &f->m};
    hs_checkpoint_manager *manager = manager_of(f, .init_fn = begin_at_step_2, .user = &b);
    assert_null(restore_managed(f, manager));
    assert_true(model_is(&f->m, 2));
    save_next(f, manager);
    for (int restarted = 0; restarted < 2; restarted++) {
        model_set(&f->m, 9);
        assert_string_equal(restore_managed(f, manager), "ckpt-1");
        assert_true(model_is(&f->m, 2));
        hs_checkpoint_manager_free(manager);
        manager = manager_of(f, .init_fn = begin_at_step_2, .user = &b);
    }
    assert_int_equal(b.calls, 1);
    hs_checkpoint_manager_free(manager);
}

static void without_an_init_fn_the_model_is_unchanged(void **state)
{
    fixture *f = *state;
    hs_checkpoint_manager *manager = manager_of(f, );
    model_set(&f->m, 7);
    assert_null(restore_managed(f, manager));
    assert_true(model_is(&f->m, 7));
    hs_checkpoint_manager_free(manager);
}

static void an_init_fn_that_fails(void **state)
{
    fixture *f = *state;
    beginning b = {.m = &f->m, .fail = HS_UNAVAILABLE};
    hs_checkpoint_manager *manager = manager_of(f, .init_fn = begin_at_step_2, .user = &b);
    assert_fails(hs_checkpoint_manager_restore_or_initialize(manager, model_raw(&f->m), NULL, NULL, &f->err),
                 HS_UNAVAILABLE, &f->err, "init_fn: no pretrained model");
    hs_checkpoint_manager_free(manager);
}

static void where_all_is_damaged_nothing_is_initialized(void **state)
{
    fixture *f = *state;
    beginning b = {.m = &f->m};
    const char *path = "";
    hs_checkpoint_manager *manager = manager_of(f, .init_fn = begin_at_step_2, .user = &b);
    save_as(f, manager, 4, 4, false);
    flip_bit(test_path(f->directory, "ckpt-4." DATA), 5);
    assert_int_equal(hs_checkpoint_manager_restore_or_initialize(manager, model_raw(&f->m), NULL, &path, &f->err),
                     HS_DATA_LOSS);
    assert_null(path);
    assert_int_equal(b.calls, 0);
    hs_checkpoint_manager_free(manager);
}

static void restored_checkpoints_expire(void **state)
{
    fixture *f = *state;
    hs_saver_options two = HS_INIT(hs_saver_options, .env = &f->t.env, .max_to_keep = 2);
    hs_checkpoint_manager *manager = manager_of(f, .saver = &two);
    save_next(f, manager);
    save_next(f, manager);
    hs_checkpoint_manager_free(manager);
    manager = manager_of(f, .saver = &two);
    restore_managed(f, manager);
    assert_string_equal(kept_by(manager), "ckpt-1 ckpt-2 ");
    save_next(f, manager);
    assert_string_equal(kept_by(manager), "ckpt-2 ckpt-3 ");
    assert_int_equal(test_count_files(f->directory, "ckpt-1."), 0);
    hs_checkpoint_manager_free(manager);
}

/* TensorFlow's CheckpointManager lists all that it keeps in the state file. Its Saver lists the newest (SA-037s). */
static void a_limit_applies_to_the_checkpoints_of_a_manager_that_kept_all(void **state)
{
    fixture *f = *state;
    hs_saver_options all = HS_INIT(hs_saver_options, .env = &f->t.env, .max_to_keep = HS_NEVER);
    hs_saver_options three = HS_INIT(hs_saver_options, .env = &f->t.env, .max_to_keep = 3);
    for (int restarted = 0; restarted < 2; restarted++) {
        hs_checkpoint_manager *manager = manager_of(f, .saver = &all);
        restore_managed(f, manager);
        for (int i = 0; i < 3; i++)
            save_next(f, manager);
        hs_checkpoint_manager_free(manager);
    }
    char *text = test_read_file(test_path(f->directory, "checkpoint"), NULL);
    assert_contains(text, "model_checkpoint_path: \"ckpt-6\"\nall_model_checkpoint_paths: \"ckpt-1\"\n");
    free(text);
    hs_checkpoint_manager *manager = manager_of(f, .saver = &three);
    assert_string_equal(restore_managed(f, manager), "ckpt-6");
    assert_string_equal(kept_by(manager), "ckpt-1 ckpt-2 ckpt-3 ckpt-4 ckpt-5 ckpt-6 ");
    assert_ok(hs_saver_pin(hs_checkpoint_manager_saver(manager), test_path(f->directory, "ckpt-2"), true, &f->err),
              &f->err);
    save_next(f, manager);
    assert_string_equal(kept_by(manager), "ckpt-2 ckpt-5 ckpt-6 ckpt-7 ");
    assert_int_equal(test_count_files(f->directory, ".index"), 4);
    hs_checkpoint_manager_free(manager);
}

static void cm_015_checkpoints_that_were_not_restored_are_not_deleted(void **state)
{
    fixture *f = *state;
    hs_saver_options one = HS_INIT(hs_saver_options, .env = &f->t.env, .max_to_keep = 1);
    hs_checkpoint_manager *manager = manager_of(f, .saver = &one);
    save_as(f, manager, 3, 3, false);
    hs_checkpoint_manager_free(manager);
    manager = manager_of(f, .saver = &one);
    save_as(f, manager, 4, 4, false);
    save_as(f, manager, 5, 5, false);
    assert_string_equal(kept_by(manager), "ckpt-5 ");
    assert_true(hs_checkpoint_exists(NULL, test_path(f->directory, "ckpt-3")));
    hs_checkpoint_manager_free(manager);
}

static void a_partial_restore(void **state)
{
    fixture *f = *state;
    hs_checkpoint_manager *manager = manager_of(f, );
    hs_restore_options options = HS_INIT(hs_restore_options, .skip = HS_NAMES("weights", "bias"));
    save_as(f, manager, 4, 4, false);
    model_set(&f->m, 9);
    assert_ok(hs_checkpoint_manager_restore_or_initialize(manager, model_raw(&f->m), &options, NULL, &f->err), &f->err);
    assert_int_equal(f->m.step, 4);
    assert_true(f->m.weights[0] == 9);
    hs_checkpoint_manager_free(manager);
}

static hs_code is_taken(void *user, const char *path, void **lock, hs_error *err)
{
    (void)user, (void)lock;
    return hs_error_set(err, HS_FAILED_PRECONDITION, "%s: process 17 has it", path);
}

/* A second process gets the error when it restores, not only when it saves. */
static void the_directory_is_held_before_the_model_is_initialized(void **state)
{
    fixture *f = *state;
    beginning b = {.m = &f->m};
    hs_env env = f->t.env;
    hs_file_system_ops ops = *env.files.ops;
    ops.lock = is_taken;
    env.files.ops = &ops;
    hs_saver_options saver = HS_INIT(hs_saver_options, .env = &env);
    hs_checkpoint_manager *manager = manager_of(f, .saver = &saver, .init_fn = begin_at_step_2, .user = &b);
    assert_fails(hs_checkpoint_manager_restore_or_initialize(manager, model_raw(&f->m), NULL, NULL, &f->err),
                 HS_FAILED_PRECONDITION, &f->err, "process 17");
    assert_int_equal(b.calls, 0);
    hs_checkpoint_manager_free(manager);
}

static void the_directory_is_held_before_the_model_is_restored(void **state)
{
    fixture *f = *state;
    hs_env env = f->t.env;
    hs_file_system_ops ops = *env.files.ops;
    hs_checkpoint_manager *manager = manager_of(f, );
    save_as(f, manager, 4, 4, false);
    hs_checkpoint_manager_free(manager);
    ops.lock = is_taken;
    env.files.ops = &ops;
    manager = manager_of(f, .saver = HS_SAVER_OPTIONS(.env = &env));
    model_set(&f->m, 9);
    assert_fails(hs_checkpoint_manager_restore_or_initialize(manager, model_raw(&f->m), NULL, NULL, &f->err),
                 HS_FAILED_PRECONDITION, &f->err, "process 17");
    assert_true(model_is(&f->m, 9));
    hs_checkpoint_manager_free(manager);
}

/* Together with a session. */

static void the_session_records_only_durable_saves(void **state)
{
    fixture *f = *state;
    hs_checkpoint_manager *manager = manager_of(f, );
    hs_save_options options = HS_INIT(hs_save_options, .background = true);
    save_at_step(f, manager, 3);
    model_set(&f->m, 4);
    assert_ok(hs_checkpoint_manager_save(manager, model_raw(&f->m), 4, &options, NULL, &f->err), &f->err);
    hs_outcome outcome = hs_session_close(f->m.session, &f->err);
    f->m.session = NULL;
    assert_int_equal(outcome.last_saved_step, 3); /* the other may be still on its way */
    hs_checkpoint_manager_free(manager);
}

static void saves_that_a_hook_refuses(void **state)
{
    fixture *f = *state;
    hs_checkpoint_manager *manager = manager_of(f, );
    hs_raw_session_refuse_saves(model_raw(&f->m), test_error(HS_FAILED_PRECONDITION, "the loss is NaN"));
    assert_fails(hs_checkpoint_manager_save(manager, model_raw(&f->m), 1, NULL, NULL, &f->err), HS_FAILED_PRECONDITION,
                 &f->err, "the loss is NaN");
    assert_int_equal(test_count_files(f->directory, "ckpt"), 0);
    hs_checkpoint_manager_free(manager);
}

/* Invalid options. */

static void assert_refused(fixture *f, hs_checkpoint_manager_options options, const char *says)
{
    assert_null(hs_checkpoint_manager_new(&options, &f->err));
    assert_says(&f->err, HS_INVALID_ARGUMENT, says);
}
#define refused(f, says, ...) assert_refused(f, *HS_CHECKPOINT_MANAGER_OPTIONS(__VA_ARGS__), says)

static void options_that_make_no_sense(void **state)
{
    fixture *f = *state;
    assert_null(hs_checkpoint_manager_new(NULL, &f->err));
    assert_says(&f->err, HS_INVALID_ARGUMENT, "hs_checkpoint_manager_options.checkpoint_dir is missing");
    assert_refused(f, (hs_checkpoint_manager_options){.checkpoint_dir = "x"}, "HS_INIT(hs_checkpoint_manager_options");
    refused(f, "hs_checkpoint_manager_options.checkpoint_dir is missing", .checkpoint_dir = "");
    refused(f, "'a/b' is not a file name", .checkpoint_dir = "x", .name = "a/b");
    refused(f, "'' is not a file name", .checkpoint_dir = "x", .name = "");
    refused(f, "every_n_steps is -2; it must be at least 0, or HS_NEVER", .checkpoint_dir = "x", .every_n_steps = -2);
}

static void cm_035s_how_many_are_kept(void **state)
{
    fixture *f = *state;
    refused(f, "max_to_keep is -2", .checkpoint_dir = "x", .saver = HS_SAVER_OPTIONS(.max_to_keep = -2));
    hs_checkpoint_manager *manager = manager_of(f, ); /* 0 */
    for (int i = 0; i < 6; i++)
        save_next(f, manager);
    assert_string_equal(kept_by(manager), "ckpt-2 ckpt-3 ckpt-4 ckpt-5 ckpt-6 ");
    hs_checkpoint_manager_free(manager);
    manager = manager_of(f, .saver = HS_SAVER_OPTIONS(.env = &f->t.env, .max_to_keep = HS_NEVER));
    for (int i = 0; i < 6; i++)
        save_next(f, manager);
    for (int i = 7; i <= 12; i++) {
        char name[32];
        snprintf(name, sizeof name, "ckpt-%d.index", i);
        assert_true(test_exists(f->directory, name));
    }
    hs_checkpoint_manager_free(manager);
}

static void null_arguments(void **state)
{
    fixture *f = *state;
    hs_checkpoint_manager *manager = manager_of(f, );
    hs_raw_session *raw = model_raw(&f->m);
    const char *path = "";
    assert_fails(hs_checkpoint_manager_save(NULL, raw, 1, NULL, &path, &f->err), HS_INVALID_ARGUMENT, &f->err,
                 "manager is NULL");
    assert_null(path);
    assert_fails(hs_checkpoint_manager_save_now(manager, NULL, 1, NULL, NULL, &f->err), HS_INVALID_ARGUMENT, &f->err,
                 "session is NULL");
    assert_fails(hs_checkpoint_manager_restore_or_initialize(manager, NULL, NULL, NULL, &f->err), HS_INVALID_ARGUMENT,
                 &f->err, "session is NULL");
    assert_int_equal(hs_checkpoint_manager_restore_or_initialize(NULL, raw, NULL, NULL, NULL), HS_INVALID_ARGUMENT);
    assert_fails(hs_checkpoint_manager_save(manager, raw, 1, &(hs_save_options){.no_meta_graph = true}, NULL, &f->err),
                 HS_INVALID_ARGUMENT, &f->err, "HS_INIT(hs_save_options");
    assert_null(hs_checkpoint_manager_saver(NULL));
    hs_checkpoint_manager_free(NULL);
    hs_checkpoint_manager_free(manager);
}

/* Each failing call in the life of a manager: the newest checkpoint is always intact. */
static hs_code live(test_env *t, void *user)
{
    fixture *f = user;
    hs_error err = {0};
    hs_saver_options saver = HS_INIT(hs_saver_options, .env = &t->env, .max_to_keep = 2);
    test_tolerate_harmless(t);                     /* looking for leftovers */
    test_tolerate(t, "': no memory for its path"); /* old data */
    test_empty_directory(f->directory);
    hs_checkpoint_manager *manager =
        hs_checkpoint_manager_new(HS_CHECKPOINT_MANAGER_OPTIONS(.checkpoint_dir = f->directory, .saver = &saver), &err);
    if (!manager)
        return err.code;
    hs_code code = hs_checkpoint_manager_restore_or_initialize(manager, model_raw(&f->m), NULL, NULL, &err);
    for (int i = 0; i < 2 && !code; i++)
        code = hs_checkpoint_manager_save(manager, model_raw(&f->m), -1, NULL, NULL, &err);
    hs_checkpoint_manager_free(manager);
    return code;
}

static void each_allocation(void **state)
{
    fixture *f = *state;
    model_set(&f->m, 3);
    test_each_allocation(live, f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(cm_018_numbers_of_ones_own),
        with_fixture(numbers_go_on_by_themselves),
        with_fixture(cm_018_cm_038s_the_next_number_is_above_all),
        with_fixture(cm_015_a_save_without_a_restore_counts_on_from_the_highest_number),
        with_fixture(cm_019_a_name_of_ones_own),
        with_fixture(cm_039s_the_directory_can_be_moved),
        with_fixture(cm_020_restore_or_initialize),
        with_fixture(without_an_init_fn_the_model_is_unchanged),
        with_fixture(an_init_fn_that_fails),
        with_fixture(where_all_is_damaged_nothing_is_initialized),
        with_fixture(restored_checkpoints_expire),
        with_fixture(a_limit_applies_to_the_checkpoints_of_a_manager_that_kept_all),
        with_fixture(cm_015_checkpoints_that_were_not_restored_are_not_deleted),
        with_fixture(a_partial_restore),
        with_fixture(the_directory_is_held_before_the_model_is_initialized),
        with_fixture(the_directory_is_held_before_the_model_is_restored),
        with_fixture(the_session_records_only_durable_saves),
        with_fixture(saves_that_a_hook_refuses),
        with_fixture(options_that_make_no_sense),
        with_fixture(cm_035s_how_many_are_kept),
        with_fixture(null_arguments),
        with_fixture(each_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
