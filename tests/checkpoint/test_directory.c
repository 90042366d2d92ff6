/* SPDX-License-Identifier: Apache-2.0 */
/* Holding a directory, and removing files of killed processes from it. */
#include "checkpoint/model.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *prefix(const fixture *f)
{
    return test_path(f->directory, "model.ckpt");
}

static void touch(const fixture *f, const char *name)
{
    test_write_file(test_path(f->directory, name), "x", 1);
}

/* Holding. */

/* A process that holds the directory until it is killed. */
static pid_t hold_elsewhere(fixture *f)
{
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        hs_saver *saver = hs_saver_new(NULL, NULL);
        if (hs_saver_hold(saver, NULL, prefix(f), NULL) == HS_OK && write(ready[1], "", 1) == 1)
            pause();
        _exit(1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return child;
}

static void kill_holder(pid_t child)
{
    int status;
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
}

static void another_process_is_named(void **state)
{
    fixture *f = *state;
    char holder[64];
    pid_t child = hold_elsewhere(f);
    snprintf(holder, sizeof holder, "process %ld on ", (long)child);
    assert_fails(hs_saver_hold(f->saver, NULL, prefix(f), &f->err), HS_FAILED_PRECONDITION, &f->err, holder);
    hs_code code = hs_saver_save(f->saver, model_raw(&f->m), prefix(f), 1, NULL, &f->err);
    assert_fails(code, HS_FAILED_PRECONDITION, &f->err, "use another directory");
    assert_int_equal(test_count_files(f->directory, "model.ckpt"), 0);
    kill_holder(child);
}

static void death_gives_it_up(void **state)
{
    fixture *f = *state;
    kill_holder(hold_elsewhere(f));
    assert_ok(hs_saver_hold(f->saver, NULL, prefix(f), &f->err), &f->err);
    save_at(f, 1);
}

static int continue_as_another_user(void *user)
{
    fixture *f = user;
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
    if (setgid(65534) != 0 || setuid(65534) != 0)
        return 2;
    if (restart(f) != HS_OK || f->m.step != 1)
        return 1;
    save_at(f, 2);
    return !has_file(f, 2, "index");
}

static void another_user_continues_in_a_directory_that_both_may_write_to(void **state)
{
    fixture *f = *state;
    assert_int_equal(chmod(f->directory, 0777), 0);
    save_at(f, 1);
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options)); /* gives it up */
    int result = test_in_child(continue_as_another_user, f);
    if (result == 2)
        test_skip("only root can become another user");
    assert_int_equal(result, 0);
}

static void freeing_the_saver_gives_it_up(void **state)
{
    fixture *f = *state;
    save_at(f, 1);
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
    kill_holder(hold_elsewhere(f)); /* it got it */
}

static void assert_held(fixture *f)
{
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(hs_saver_hold(hs_saver_new(NULL, NULL), NULL, prefix(f), NULL) == HS_FAILED_PRECONDITION ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void another_saver_that_goes_leaves_the_hold(void **state)
{
    fixture *f = *state;
    save_at(f, 1);
    hs_saver *other = hs_saver_new(NULL, NULL);
    assert_ok(hs_saver_hold(other, NULL, test_path(f->directory, "best"), &f->err), &f->err);
    hs_saver_free(other);
    assert_held(f);
}

static void converting_leaves_the_hold(void **state)
{
    fixture *f = *state;
    save_at(f, 1);
    const char *weights = test_path(f->directory, "weights.safetensors");
    assert_ok(hs_checkpoint_convert(NULL, file_of(f, 1, NULL), weights, NULL, &f->err), &f->err);
    assert_ok(hs_checkpoint_convert(NULL, weights, test_path(f->directory, "copy"), NULL, &f->err), &f->err);
    assert_held(f);
}

static void a_saver_that_goes_elsewhere_gives_it_up(void **state)
{
    fixture *f = *state;
    save_at(f, 1);
    assert_ok(hs_saver_hold(f->saver, NULL, test_path(f->directory, "sub/model.ckpt"), &f->err), &f->err);
    kill_holder(hold_elsewhere(f));
}

static void holding_that_fails_gives_it_up(void **state)
{
    fixture *f = *state;
    f->t.fail_file_at = f->t.file_calls + 3; /* after the lock and the parent's sync */
    assert_fails(hs_saver_hold(f->saver, NULL, prefix(f), &f->err), HS_RESOURCE_EXHAUSTED, &f->err, "injected");
    assert_true(test_exists(f->directory, HS_CHECKPOINT_LOCK));
    kill_holder(hold_elsewhere(f));
}

static void readers_hold_nothing(void **state)
{
    fixture *f = *state;
    save_at(f, 1);
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
    assert_int_equal(unlink(test_path(f->directory, HS_CHECKPOINT_LOCK)), 0);
    pid_t child = hold_elsewhere(f);
    assert_ok(restart(f), &f->err);
    hs_checkpoint_reader *reader = hs_checkpoint_open(NULL, file_of(f, 1, NULL), &f->err);
    assert_non_null(reader);
    hs_checkpoint_close(reader);
    kill_holder(child);
}

static void a_second_session_touches_nothing(void **state)
{
    fixture *f = *state;
    pid_t child = hold_elsewhere(f);
    model m = {.step = 0};
    model_build(&m, &f->t.env);
    hs_hook hook = hs_checkpoint_saver(.checkpoint_dir = f->directory, .every_n_steps = 1);
    hs_session_options options = HS_INIT(hs_session_options, .hooks = HS_HOOKS(hook));
    assert_null(hs_session_open(hs_graph_backend(m.graph), &options, &f->err));
    assert_says(&f->err, HS_FAILED_PRECONDITION, "another process saves");
    assert_int_equal(test_count_files(f->directory, ""), 3); /* with the lock's */
    kill_holder(child);
    hs_graph_free(m.graph);
}

static hs_code no_locks(void *user, const char *path, void **lock, hs_error *err)
{
    (void)user, (void)lock;
    return hs_error_set(err, HS_UNIMPLEMENTED, "%s: the file system does not support locks", path);
}

/* A saver holds the directory on a different file system. */
static void hold_twice_on(fixture *f, const hs_file_system_ops *ops)
{
    hs_env env = f->t.env;
    env.files.ops = ops;
    hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.env = &env), &f->err);
    for (int i = 0; i < 2; i++)
        assert_ok(hs_saver_hold(saver, NULL, prefix(f), &f->err), &f->err);
    hs_saver_free(saver);
}

static void a_disk_without_locks_is_one_warning(void **state)
{
    fixture *f = *state;
    hs_file_system_ops ops = *f->t.env.files.ops;
    ops.lock = no_locks;
    hold_twice_on(f, &ops);
    assert_contains(f->t.log, "WARNING: ");
    assert_null(strstr(strstr(f->t.log, "not support locks") + 1, "not support locks"));
}

static void a_file_system_of_ones_own_may_have_no_locks(void **state)
{
    fixture *f = *state;
    hs_file_system_ops ops = *f->t.env.files.ops;
    ops.lock = NULL;
    hold_twice_on(f, &ops);
    assert_lacks(f->t.log, "WARNING");
}

static void holding_needs_a_saver_and_a_name(void **state)
{
    fixture *f = *state;
    assert_int_equal(hs_saver_hold(NULL, NULL, prefix(f), &f->err), HS_INVALID_ARGUMENT);
    assert_int_equal(hs_saver_hold(f->saver, NULL, NULL, &f->err), HS_INVALID_ARGUMENT);
    assert_fails(hs_saver_hold(f->saver, NULL, "run/", &f->err), HS_INVALID_ARGUMENT, &f->err, "prefix has no file name");
    assert_fails(hs_saver_hold(f->saver, NULL, test_path(f->directory, "no/such/x"), &f->err), HS_INVALID_ARGUMENT, &f->err,
                 "parent directory");
}

/* Sweeping. */

static void hold_again(fixture *f)
{
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
    test_env_clear_log(&f->t);
    assert_ok(hs_saver_hold(f->saver, NULL, prefix(f), &f->err), &f->err);
}

static void files_of_cut_saves_go(void **state)
{
    fixture *f = *state;
    static const char *const orphans[] = {"model.ckpt-3.index.tmp", "model.ckpt-3." DATA ".tmp", "model.ckpt-3.meta.tmp",
                                          "model.ckpt-4." DATA,     "model.ckpt-4.meta",         "model.ckpt." DATA,
                                          "model.ckpt-2.index.tmp"};
    save_at(f, 2);
    for (size_t i = 0; i < sizeof orphans / sizeof *orphans; i++)
        touch(f, orphans[i]);
    hold_again(f);
    for (size_t i = 0; i < sizeof orphans / sizeof *orphans; i++)
        assert_false(test_exists(f->directory, orphans[i]));
    assert_contains(f->t.log, "removing 7 files of interrupted saves");
    assert_ok(restart(f), &f->err);
    assert_true(model_is(&f->m, 2));
    touch(f, "checkpoint.tmp");
    save_at(f, 3);
    assert_false(test_exists(f->directory, "checkpoint.tmp"));
}

/* The training is complete, so that it writes no state file. */
static void a_start_that_saves_nothing_removes_the_temporary_state_file(void **state)
{
    fixture *f = *state;
    for (int run = 0; run < 2; run++) {
        model m = {.step = 0};
        model_build(&m, &f->t.env);
        const hs_hook hooks[] = {hs_checkpoint_saver(.checkpoint_dir = f->directory, .every_n_steps = 1),
                                 hs_stop_at_step(.last_step = 2)};
        hs_session_options options =
            HS_INIT(hs_session_options, .checkpoint_dir = f->directory, .hooks = test_hooks(hooks, 2));
        m.session = hs_session_open(hs_graph_backend(m.graph), &options, &f->err);
        assert_non_null(m.session);
        while (run == 0 && !hs_session_should_stop(m.session))
            assert_ok(model_train(&m, 1), &m.err);
        assert_int_equal(m.step, 2);
        model_close(&m);
        assert_int_equal(test_exists(f->directory, "checkpoint.tmp"), 0);
        touch(f, "checkpoint.tmp");
    }
}

static void a_directory_of_save_variables_is_removed(void **state)
{
    fixture *f = *state;
    save_at(f, 2);
    mkdir(test_path(f->directory, "model.ckpt-3.tmp-variables"), 0777);
    mkdir(test_path(f->directory, "model.ckpt-3.tmp-variables/variables_temp"), 0777);
    touch(f, "model.ckpt-3.tmp-variables/variables_temp/part-0");
    touch(f, "model.ckpt-3.tmp-variables/variables.index");
    touch(f, "model.ckpt-3.tmp-notes");
    hold_again(f);
    assert_false(test_exists(f->directory, "model.ckpt-3.tmp-variables"));
    assert_true(test_exists(f->directory, "model.ckpt-3.tmp-notes"));
    assert_ok(restart(f), &f->err);
    assert_true(model_is(&f->m, 2));
}

/* Files of other programs, of an old format, and with similar names. */
static void nothing_else_goes(void **state)
{
    fixture *f = *state;
    static const char *const others[] = {"other-3.index.tmp",       ("model.ckpt-best." DATA), "model.ckpt-3.data.tmp",
                                         "model.ckpt-3.notes",      "model.ckpt2-3.meta",      "model.ckpt-5",
                                         "model.ckpt-5.meta",       "model.ckpt-3.index.bak",  "events.tmp",
                                         "model.ckpt-3.data-0-of-1"};
    save_at(f, 2);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        touch(f, others[i]);
    hold_again(f);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_true(test_exists(f->directory, others[i]));
    assert_lacks(f->t.log, "removing");
}

static hs_code look_at_nothing(void *user, const char *path, hs_file_stat *out, hs_error *err)
{
    if (strstr(path, ".index"))
        return hs_error_set(err, HS_PERMISSION_DENIED, "%s: cannot be looked at", path);
    return hs_env_default()->files.ops->stat(user, path, out, err);
}

/* The index may exist. */
static void data_stay_if_the_index_cannot_be_examined(void **state)
{
    fixture *f = *state;
    save_at(f, 1);
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options)); /* lets go */
    hs_file_system_ops ops = *f->t.env.files.ops;
    ops.stat = look_at_nothing;
    hold_twice_on(f, &ops);
    assert_true(has_file(f, 1, DATA) && has_file(f, 1, "meta"));
    assert_ok(restart(f), &f->err);
    assert_true(model_is(&f->m, 1));
}

static void data_that_were_replaced_go(void **state)
{
    fixture *f = *state;
    save_at(f, 1);
    save_at(f, 1); /* now in shard 1 of 2 */
    assert_false(has_file(f, 1, DATA));
    touch(f, "model.ckpt-1." DATA);
    hold_again(f);
    assert_false(has_file(f, 1, DATA));
    assert_ok(restart(f), &f->err);
    assert_true(model_is(&f->m, 1));
}

static void checkpoints_listed_as_to_be_deleted_are_deleted(void **state)
{
    fixture *f = *state;
    save_at(f, 1);
    save_at(f, 2);
    write_state(f, "model_checkpoint_path: \"model.ckpt-2\"\nall_model_checkpoint_paths: \"model.ckpt-2\"\n"
                   "# to be deleted: model.ckpt-1\n# to be deleted: ../model.ckpt-2\n# to be deleted: gone\n");
    hold_again(f);
    assert_true(has_file(f, 1, "index")); /* a restore may need it */
    save_at(f, 3);
    assert_false(has_file(f, 1, "index"));
    assert_false(has_file(f, 1, DATA));
    assert_true(has_file(f, 2, "index"));
    assert_contains(f->t.log, "deleting '");
}

static void kept_checkpoints_are_not_deleted_even_if_the_state_file_says_so(void **state)
{
    fixture *f = *state;
    for (int step = 1; step <= 3; step++)
        save_at(f, step);
    write_state(f, "model_checkpoint_path: \"model.ckpt-3\"\nall_model_checkpoint_paths: \"model.ckpt-2\"\n"
                   "# to be deleted: model.ckpt-3\n# to be deleted: model.ckpt-2\n# to be deleted: model.ckpt-1\n"
                   "# to be deleted: model.ckpt-4\n");
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
    save_at(f, 4);
    assert_false(has_file(f, 1, "index"));
    assert_true(has_file(f, 2, "index") && has_file(f, 3, "index") && has_file(f, 4, "index"));
}

static uint64_t room;

static hs_code report_free_space(void *user, const char *path, uint64_t *bytes, hs_error *err)
{
    (void)user, (void)path, (void)err;
    *bytes = room;
    return HS_OK;
}

/* Another saver may be writing or deleting a file or a checkpoint now. */
static void nothing_is_deleted_while_another_saver_of_the_process_holds_the_directory(void **state)
{
    fixture *f = *state;
    hs_file_system_ops ops = *hs_env_default()->files.ops;
    ops.free_space = report_free_space;
    save_at(f, 1);
    save_at(f, 2);
    write_state(f, "model_checkpoint_path: \"model.ckpt-2\"\nall_model_checkpoint_paths: \"model.ckpt-2\"\n"
                   "# to be deleted: model.ckpt-1\n");
    touch(f, "checkpoint.tmp");
    hs_saver *other = hs_saver_new(HS_SAVER_OPTIONS(.env = HS_OPTIONS(hs_env, .files = {&ops, NULL})), &f->err);
    assert_non_null(other);
    for (int shared = 1; shared >= 0; shared--) {
        room = 0; /* so that the save writes nothing */
        assert_fails(hs_saver_save(other, model_raw(&f->m), prefix(f), 3, NULL, &f->err), HS_RESOURCE_EXHAUSTED, &f->err,
                     "are free on the disk");
        assert_int_equal(test_exists(f->directory, "checkpoint.tmp"), shared);
        assert_int_equal(has_file(f, 1, "index"), shared);
        use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
    }
    hs_saver_free(other);
}

/* The process was killed before it deleted the first checkpoint, and the second is damaged. */
static void a_checkpoint_to_be_deleted_may_be_the_last_intact_one(void **state)
{
    fixture *f = *state;
    save_at(f, 1);
    save_at(f, 2);
    write_state(f, "model_checkpoint_path: \"model.ckpt-2\"\nall_model_checkpoint_paths: \"model.ckpt-2\"\n"
                   "# to be deleted: model.ckpt-1\n");
    touch(f, "model.ckpt-2.index");
    hold_again(f);
    assert_ok(restore_newest(f), &f->err);
    assert_true(model_is(&f->m, 1));
    save_at(f, 3);
    assert_true(has_file(f, 1, "index"));
}

static void the_state_file_lists_checkpoints_before_they_are_deleted(void **state)
{
    fixture *f = *state;
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = 1));
    save_at(f, 1);
    save_at(f, 2);
    char *text = test_read_file(test_path(f->directory, "checkpoint"), NULL);
    assert_contains(text, "\n# to be deleted: model.ckpt-1\n");
    assert_lacks(text, "paths: \"model.ckpt-1\"");
    free(text);
}

/* Histories. */

static char *state_text(const fixture *f)
{
    return test_read_file(test_path(f->directory, "checkpoint"), NULL);
}

static void a_later_save_than_the_state_files_newest_is_the_newest(void **state)
{
    fixture *f = *state;
    save_at(f, 1);
    char *text = state_text(f);
    save_at(f, 2);
    save_at(f, 3);
    write_state(f, text); /* as if two processes had been killed before it */
    free(text);
    assert_ok(restart(f), &f->err);
    assert_true(model_is(&f->m, 3));
    assert_lacks(f->t.log, "WARNING");
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = 2));
    assert_ok(restore_newest(f), &f->err);
    save_at(f, 4);
    assert_int_equal(test_count_files(f->directory, ".index"), 2);
}

static void a_save_after_that_of_step_0_is_the_newest(void **state)
{
    fixture *f = *state;
    save_at(f, 0);
    char *text = state_text(f);
    save_at(f, 1);
    write_state(f, text); /* as if the process had died before it */
    free(text);
    assert_ok(restart(f), &f->err);
    assert_true(model_is(&f->m, 1));
}

static void an_edited_state_file_decides(void **state)
{
    fixture *f = *state;
    save_at(f, 1);
    save_at(f, 2);
    write_state(f, "model_checkpoint_path: \"model.ckpt-1\"\n# last saved: model.ckpt-2\n");
    assert_ok(restart(f), &f->err);
    assert_true(model_is(&f->m, 1));
    write_state(f, "model_checkpoint_path: \"model.ckpt-1\"\n"); /* TensorFlow's */
    assert_ok(restart(f), &f->err);
    assert_true(model_is(&f->m, 1));
}

static void other_series_are_no_successors(void **state)
{
    fixture *f = *state;
    save_at(f, 1);
    char *text = state_text(f);
    assert_ok(hs_saver_save(f->saver, model_raw(&f->m), test_path(f->directory, "best"), 7, NULL, &f->err), &f->err);
    write_state(f, text);
    free(text);
    assert_ok(restart(f), &f->err);
    assert_string_equal(f->restored, file_of(f, 1, NULL));
}

static void a_rollback_renames_the_abandoned_branch(void **state)
{
    fixture *f = *state;
    for (int step = 1; step <= 4; step++)
        save_at(f, step);
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
    assert_ok(hs_saver_restore(f->saver, model_raw(&f->m), file_of(f, 1, NULL), NULL, &f->err), &f->err);
    save_at(f, 2);
    assert_contains(f->t.log, "model.ckpt-4' is later than the step being saved; renamed to 'model.ckpt-4.abandoned'");
    assert_lacks(f->t.log, "WARNING");
    assert_false(has_file(f, 3, "index") || has_file(f, 3, DATA) || has_file(f, 4, "meta"));
    hs_checkpoint_reader *reader = hs_checkpoint_open(NULL, file_of(f, 4, "abandoned"), &f->err);
    assert_non_null(reader);
    hs_checkpoint_close(reader);
    assert_ok(restart(f), &f->err);
    assert_true(model_is(&f->m, 2));
    hold_again(f);
    assert_int_equal(test_count_files(f->directory, ".abandoned."), 2 * 3);
}

static void it_warns_that_checkpoints_of_another_training_are_renamed(void **state)
{
    fixture *f = *state;
    save_at(f, 4);
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
    save_at(f, 2); /* nothing was restored */
    assert_contains(f->t.log, "WARNING: checkpoint '");
    assert_contains(f->t.log, "model.ckpt-4' is later than the step being saved; renamed to 'model.ckpt-4.abandoned'");
}

static hs_code take_over(test_env *t, void *user)
{
    hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.env = &t->env), NULL);
    hs_code code = saver ? hs_saver_take_over(saver, user, NULL) : HS_RESOURCE_EXHAUSTED;
    if (!code) {
        assert_string_equal(hs_saver_last_path(saver), user);
        assert_string_equal(hs_saver_checkpoint(saver, 3), user);
    }
    hs_saver_free(saver);
    return code;
}

/* Another saver has restored the checkpoint. */
static void a_saver_that_takes_over_abandons_later_checkpoints_and_deletes_expired_ones(void **state)
{
    fixture *f = *state;
    char restored[256];
    snprintf(restored, sizeof restored, "%s", file_of(f, 2, NULL));
    for (int step = 1; step <= 4; step++)
        save_at(f, step);
    assert_ok(hs_saver_restore(f->saver, model_raw(&f->m), restored, NULL, &f->err), &f->err);
    test_each_allocation(take_over, restored);
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = 2));
    assert_ok(hs_saver_take_over(f->saver, restored, &f->err), &f->err);
    save_at(f, 3);
    assert_true(has_file(f, 4, "abandoned.index"));
    assert_false(has_file(f, 1, "index") || has_file(f, 4, "index"));
    assert_string_equal(hs_saver_checkpoint(f->saver, 0), restored);
    assert_string_equal(hs_saver_checkpoint(f->saver, 1), file_of(f, 3, NULL));
    assert_null(hs_saver_checkpoint(f->saver, 2));
    assert_fails(hs_saver_take_over(f->saver, file_of(f, 4, "abandoned"), &f->err), HS_NOT_FOUND, &f->err,
                 "does not exist");
    assert_string_equal(hs_saver_last_path(f->saver), file_of(f, 3, NULL));
}

static void checkpoints_saved_after_a_rollback_stay(void **state)
{
    fixture *f = *state;
    char *before = getcwd(NULL, 0), doubled[1024];
    snprintf(doubled, sizeof doubled, "%s//model.ckpt", f->directory);
    const char *const prefixes[] = {"model.ckpt", "./model.ckpt", doubled};
    assert_int_equal(chdir(f->directory), 0);
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
        assert_ok(hs_saver_save(f->saver, model_raw(&f->m), prefixes[i], 1, NULL, &f->err), &f->err);
        assert_ok(hs_saver_restore(f->saver, model_raw(&f->m), file_of(f, 1, NULL), NULL, &f->err), &f->err);
        assert_ok(hs_saver_save(f->saver, model_raw(&f->m), prefixes[i], 2, NULL, &f->err), &f->err);
        assert_true(has_file(f, 2, "index"));
    }
    assert_int_equal(chdir(before), 0);
    free(before);
}

static void abandoned_ones_are_not_restored(void **state)
{
    fixture *f = *state;
    save_at(f, 3);
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
    save_at(f, 1);
    flip_bit(file_of(f, 1, DATA), 5);
    assert_int_equal(restart(f), HS_DATA_LOSS);
}

static void checkpoints_without_a_step_are_not_abandoned(void **state)
{
    fixture *f = *state;
    save_at(f, 5);
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options));
    assert_ok(hs_saver_save(f->saver, model_raw(&f->m), prefix(f), -1, NULL, &f->err), &f->err);
    assert_true(has_file(f, 5, "index"));
}

/* Dying. */

/* A file system on which the process is killed at the nth change: before it, or in the middle of a write. */
typedef struct {
    hs_env env;
    hs_file_system_ops ops;
    int calls, dies_at;
} mortal;

static const hs_file_system_ops *real(void)
{
    return hs_env_default()->files.ops;
}

static void live(mortal *m)
{
    if (++m->calls == m->dies_at)
        _exit(9);
}

static hs_code m_open(void *user, const char *path, int mode, void **file, hs_error *err)
{
    live(user);
    return real()->open(NULL, path, mode, file, err);
}

static hs_code m_write(void *user, void *file, const void *data, size_t bytes, hs_error *err)
{
    mortal *m = user;
    if (m->calls + 1 == m->dies_at)
        real()->write(NULL, file, data, bytes / 2, err);
    live(m);
    return real()->write(NULL, file, data, bytes, err);
}

static hs_code m_rename(void *user, const char *from, const char *to, hs_error *err)
{
    live(user);
    return real()->rename(NULL, from, to, err);
}

static hs_code m_remove(void *user, const char *path, hs_error *err)
{
    live(user);
    return real()->remove(NULL, path, err);
}

static hs_code m_sync(void *user, void *file, hs_error *err)
{
    (void)user, (void)file, (void)err;
    return HS_OK;
}

static hs_code m_sync_directory(void *user, const char *path, hs_error *err)
{
    (void)path, (void)err;
    live(user);
    return HS_OK;
}

/* Saves steps 1 to 4 and 4 again, keeping two, and is killed at that call. Returns false if all were saved. */
static bool die_while_saving(fixture *f, int at)
{
    pid_t child = fork();
    if (child == 0) {
        mortal m = {.env = HS_INIT(hs_env), .ops = *real(), .dies_at = at};
        m.ops.open = m_open, m.ops.write = m_write, m.ops.rename = m_rename, m.ops.remove = m_remove;
        m.ops.sync = m_sync, m.ops.sync_directory = m_sync_directory;
        m.env.files = (hs_file_system){&m.ops, &m};
        f->saver = hs_saver_new(HS_SAVER_OPTIONS(.env = &m.env, .max_to_keep = 2), NULL);
        for (int step = 1; step <= 5; step++)
            save_at(f, step < 5 ? step : 4);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && (WEXITSTATUS(status) == 9 || WEXITSTATUS(status) == 0));
    return WEXITSTATUS(status) == 9;
}

/* At each call: the next process resumes from the last complete checkpoint, and two saves later the directory has two
 * checkpoints and no other files. */
static void death_at_any_call_leaves_nothing_behind(void **state)
{
    fixture *f = *state;
    for (int at = 1; die_while_saving(f, at); at++) {
        model_set(&f->m, 0);
        assert_ok(restart(f), &f->err);
        use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = 2));
        assert_ok(restore_newest(f), &f->err);
        save_at(f, 7);
        save_at(f, 8);
        assert_int_equal(test_count_files(f->directory, ".index"), 2);
        assert_int_equal(test_count_files(f->directory, ".data-"), 2);
        assert_int_equal(test_count_files(f->directory, ".tmp"), 0);
        assert_int_equal(test_count_files(f->directory, ""), 2 + 2 * 3 + 2); /* with ".", "..", the lock, the state */
        test_remove_directory(f->directory);
        f->directory = test_make_directory();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(another_process_is_named),
        with_fixture(death_gives_it_up),
        with_fixture(another_user_continues_in_a_directory_that_both_may_write_to),
        with_fixture(freeing_the_saver_gives_it_up),
        with_fixture(another_saver_that_goes_leaves_the_hold),
        with_fixture(converting_leaves_the_hold),
        with_fixture(a_saver_that_goes_elsewhere_gives_it_up),
        with_fixture(holding_that_fails_gives_it_up),
        with_fixture(readers_hold_nothing),
        with_fixture(a_second_session_touches_nothing),
        with_fixture(a_disk_without_locks_is_one_warning),
        with_fixture(a_file_system_of_ones_own_may_have_no_locks),
        with_fixture(holding_needs_a_saver_and_a_name),
        with_fixture(files_of_cut_saves_go),
        with_fixture(a_start_that_saves_nothing_removes_the_temporary_state_file),
        with_fixture(a_directory_of_save_variables_is_removed),
        with_fixture(nothing_else_goes),
        with_fixture(data_stay_if_the_index_cannot_be_examined),
        with_fixture(data_that_were_replaced_go),
        with_fixture(checkpoints_listed_as_to_be_deleted_are_deleted),
        with_fixture(kept_checkpoints_are_not_deleted_even_if_the_state_file_says_so),
        with_fixture(nothing_is_deleted_while_another_saver_of_the_process_holds_the_directory),
        with_fixture(a_checkpoint_to_be_deleted_may_be_the_last_intact_one),
        with_fixture(the_state_file_lists_checkpoints_before_they_are_deleted),
        with_fixture(a_later_save_than_the_state_files_newest_is_the_newest),
        with_fixture(a_save_after_that_of_step_0_is_the_newest),
        with_fixture(an_edited_state_file_decides),
        with_fixture(other_series_are_no_successors),
        with_fixture(a_rollback_renames_the_abandoned_branch),
        with_fixture(it_warns_that_checkpoints_of_another_training_are_renamed),
        with_fixture(a_saver_that_takes_over_abandons_later_checkpoints_and_deletes_expired_ones),
        with_fixture(checkpoints_saved_after_a_rollback_stay),
        with_fixture(abandoned_ones_are_not_restored),
        with_fixture(checkpoints_without_a_step_are_not_abandoned),
        with_fixture(death_at_any_call_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
