/* SPDX-License-Identifier: Apache-2.0 */
/* What a rollback returns to, if the session was not just opened with the newest checkpoint of its directory. */
#include "hooks/poisoned.h"

#define GUARD(...)                                                                                                         \
    hs_finite_guard(.gradients = HS_NAMES("gradient"), .policy = HS_GUARD_ROLLBACK, .skip_op = "draw", __VA_ARGS__)

/* The directory "old" gets a checkpoint of each second step of an earlier training. "new" is for saves of this one. */
static const char *in_old(const poisoned *p, const char *name)
{
    static _Thread_local char path[512];
    snprintf(path, sizeof path, "%s/old%s", p->s->directory, name);
    return path;
}

static void train_before(poisoned *p, int steps)
{
    hs_hook saver = hs_checkpoint_saver(.checkpoint_dir = in_old(p, ""), .every_n_steps = 2);
    p->weight = 0;
    p->rate = 1;
    p->position = 0;
    memset(p->bad, 0, sizeof p->bad);
    assert_ok(poisoned_open(p, false, &saver, 1), &p->s->err);
    assert_ok(poisoned_run(p, "train", steps), &p->s->err);
    stage_close(p->s);
}

static void open_with(poisoned *p, hs_session_options options, const hs_hook *hooks, size_t n)
{
    options.hooks = test_hooks(hooks, n);
    test_env_clear_log(&p->s->t);
    p->s->session = hs_session_open(hs_graph_backend(p->graph), &options, &p->s->err);
    assert_ok(p->s->err.code, &p->s->err);
}

static void is_at(const poisoned *p, int64_t step, double weight, double rate, int64_t position)
{
    assert_int_equal(hs_session_global_step(p->s->session, NULL), step);
    assert_true((double)p->weight == weight);
    assert_true((double)p->rate == rate);
    assert_int_equal(p->position, position);
}

/* checkpoint_prefix. */

/* With or without a recovery, which keeps a copy of the opening. */
static void after_a_save_elsewhere_it_returns_to_that_save(void **state)
{
    const hs_recovery recovery = HS_INIT(hs_recovery);
    poisoned *p = *state;
    for (int recovers = 0; recovers < 2; recovers++) {
        test_empty_directory(p->s->directory);
        train_before(p, 4);
        hs_hook hooks[] = {hs_checkpoint_saver(.checkpoint_dir = test_path(p->s->directory, "new"), .every_n_steps = 2),
                           GUARD()};
        p->bad[0] = 6;
        open_with(p,
                  (hs_session_options)HS_INIT(hs_session_options, .checkpoint_prefix = in_old(p, "/model.ckpt-2"),
                                              .recovery = recovers ? &recovery : NULL),
                  hooks, 2);
        is_at(p, 2, 1 + 2, 1, 2);
        assert_ok(poisoned_run(p, "train", 4), &p->s->err);
        is_at(p, 4, 1 + 2 + 3 + 4, 1, 6);
        stage_close(p->s);
    }
}

/* Not to the newer checkpoints of its directory. */
static void without_a_copy_it_returns_to_the_checkpoint_that_the_session_names(void **state)
{
    const hs_recovery no_copy = HS_INIT(hs_recovery, .max_attempts = HS_NEVER, .snapshot_limit = 1);
    poisoned *p = *state;
    train_before(p, 6);
    hs_hook guard = GUARD();
    p->bad[0] = 4;
    open_with(p,
              (hs_session_options)HS_INIT(hs_session_options, .checkpoint_prefix = in_old(p, "/model.ckpt-2"),
                                          .recovery = &no_copy),
              &guard, 1);
    assert_contains(p->s->t.log, "is not copied");
    assert_ok(poisoned_run(p, "train", 2), &p->s->err);
    is_at(p, 2, 1 + 2, 1, 4);
    assert_true(test_exists(in_old(p, ""), "model.ckpt-6.index"));
    stage_close(p->s);
}

/* Those of this session in another directory. */
static void later_saves_elsewhere_are_abandoned(void **state)
{
    const hs_recovery no_copy = HS_INIT(hs_recovery, .max_attempts = HS_NEVER, .snapshot_limit = 1);
    poisoned *p = *state;
    train_before(p, 2);
    hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.env = &p->s->t.env), &p->s->err);
    char elsewhere[512];
    snprintf(elsewhere, sizeof elsewhere, "%s/new", p->s->directory);
    hs_hook hooks[] = {hs_checkpoint_saver(.checkpoint_dir = elsewhere, .when = HS_EVERY_STEPS(1), .saver = saver),
                       GUARD()};
    p->bad[0] = 5;
    open_with(p,
              (hs_session_options)HS_INIT(hs_session_options, .checkpoint_prefix = in_old(p, "/model.ckpt-2"),
                                          .recovery = &no_copy),
              hooks, 2);
    assert_ok(poisoned_run(p, "train", 3), &p->s->err);
    is_at(p, 2, 1 + 2, 1, 5);
    assert_ok(poisoned_run(p, "train", 1), &p->s->err);
    is_at(p, 3, 1 + 2 + 6, 1, 6);
    assert_true(test_exists(elsewhere, "model.ckpt-3.index"));
    assert_true(test_exists(elsewhere, "model.ckpt-4.abandoned.index"));
    assert_false(test_exists(elsewhere, "model.ckpt-4.index"));
    stage_close(p->s);
    hs_saver_free(saver);
}

/* restore_options. */

static void a_skipped_variable_returns_to_its_value_at_the_opening(void **state)
{
    const hs_restore_options skips = HS_INIT(hs_restore_options, .skip = HS_NAMES("weight"));
    poisoned *p = *state;
    for (int by_prefix = 0; by_prefix < 2; by_prefix++) {
        test_empty_directory(p->s->directory);
        train_before(p, 4);
        hs_hook guard = GUARD();
        p->bad[0] = 6;
        p->weight = 1000;
        open_with(p,
                  (hs_session_options)HS_INIT(hs_session_options, .checkpoint_dir = by_prefix ? NULL : in_old(p, ""),
                                              .checkpoint_prefix = by_prefix ? in_old(p, "/model.ckpt-4") : NULL,
                                              .restore_options = &skips),
                  &guard, 1);
        is_at(p, 4, 1000, 1, 4);
        assert_ok(poisoned_run(p, "train", 2), &p->s->err);
        is_at(p, 4, 1000, 1, 6);
        assert_ok(poisoned_run(p, "train", 1), &p->s->err);
        is_at(p, 5, 1000 + 7, 1, 7);
        stage_close(p->s);
    }
}

/* It would give the skipped variable the value of the checkpoint, or leave the one of the bad step. */
static void without_a_copy_of_a_skipped_variable_it_is_refused(void **state)
{
    const hs_restore_options skips = HS_INIT(hs_restore_options, .skip = HS_NAMES("weight"));
    const hs_recovery no_copy = HS_INIT(hs_recovery, .max_attempts = HS_NEVER, .snapshot_limit = 1);
    poisoned *p = *state;
    train_before(p, 4);
    hs_hook guard = GUARD();
    p->bad[0] = 6;
    open_with(p,
              (hs_session_options)HS_INIT(hs_session_options, .checkpoint_dir = in_old(p, ""), .restore_options = &skips,
                                          .recovery = &no_copy),
              &guard, 1);
    assert_fails(poisoned_run(p, "train", 2), HS_FAILED_PRECONDITION, &p->s->err, "no copy is in memory");
    hs_session_close(p->s->session, NULL);
    p->s->session = NULL;
}

static void other_names_count_again(void **state)
{
    const hs_restore_options exchanged =
        HS_INIT(hs_restore_options, .names = (const hs_checkpoint_name[]){{.variable = "weight", .name = "rate"},
                                                                          {.variable = "rate", .name = "weight"},
                                                                          {.variable = NULL}});
    poisoned *p = *state;
    train_before(p, 4);
    hs_hook guard = GUARD();
    p->bad[0] = 6;
    open_with(
        p, (hs_session_options)HS_INIT(hs_session_options, .checkpoint_dir = in_old(p, ""), .restore_options = &exchanged),
        &guard, 1);
    is_at(p, 4, 1, 1 + 2 + 3 + 4, 4);
    assert_ok(poisoned_run(p, "train", 2), &p->s->err);
    is_at(p, 4, 1, 1 + 2 + 3 + 4, 6);
    stage_close(p->s);
}

/* But not to the checkpoints that this session has saved with its own names. */
static void other_names_do_not_count_for_saves_of_this_session(void **state)
{
    const hs_restore_options exchanged =
        HS_INIT(hs_restore_options, .names = (const hs_checkpoint_name[]){{.variable = "weight", .name = "rate"},
                                                                          {.variable = "rate", .name = "weight"},
                                                                          {.variable = NULL}});
    poisoned *p = *state;
    for (int elsewhere = 0; elsewhere < 2; elsewhere++) {
        test_empty_directory(p->s->directory);
        train_before(p, 4);
        const char *directory = elsewhere ? test_path(p->s->directory, "new") : in_old(p, "");
        hs_hook hooks[] = {GUARD(), hs_checkpoint_saver(.checkpoint_dir = directory, .every_n_steps = 1)};
        p->bad[0] = 6;
        open_with(
            p,
            (hs_session_options)HS_INIT(hs_session_options, .checkpoint_dir = in_old(p, ""), .restore_options = &exchanged),
            hooks, 2);
        assert_ok(poisoned_run(p, "train", 2), &p->s->err);
        is_at(p, 5, 1 + 10 * 5, 10, 6);
        stage_close(p->s);
    }
}

/* HS_RESTORE_NEVER. */

/* checkpoint_dir has checkpoints of another training, and the guard does not know the saver of this one. */
static void checkpoints_of_another_training_are_not_taken(void **state)
{
    poisoned *p = *state;
    for (int knows = 0; knows < 2; knows++) {
        test_empty_directory(p->s->directory);
        train_before(p, 6);
        hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.env = &p->s->t.env), &p->s->err);
        hs_hook hooks[] = {
            hs_checkpoint_saver(.checkpoint_dir = test_path(p->s->directory, "new"), .every_n_steps = 1, .saver = saver),
            GUARD(.saver = knows ? saver : NULL)};
        p->weight = 0;
        p->position = 6;
        p->bad[0] = 10;
        open_with(
            p,
            (hs_session_options)HS_INIT(hs_session_options, .checkpoint_dir = in_old(p, ""), .restore = HS_RESTORE_NEVER),
            hooks, 2);
        is_at(p, 0, 0, 1, 6);
        hs_code code = poisoned_run(p, "train", 4);
        if (knows)
            is_at(p, 3, 7 + 8 + 9, 1, 10);
        else
            assert_fails(code, HS_FAILED_PRECONDITION, &p->s->err,
                         "was saved, but no checkpoint was found; give the hook the saver that saves");
        assert_true(test_exists(in_old(p, ""), "model.ckpt-6.index"));
        hs_session_close(p->s->session, NULL);
        p->s->session = NULL;
        hs_saver_free(saver);
    }
}

/* This training saves there, too, with a saver that the guard does not know. */
static void own_saves_in_checkpoint_dir_are_found_without_their_saver(void **state)
{
    poisoned *p = *state;
    train_before(p, 6);
    hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.env = &p->s->t.env), &p->s->err);
    hs_hook hooks[] = {hs_checkpoint_saver(.checkpoint_dir = in_old(p, ""), .every_n_steps = 1, .saver = saver), GUARD()};
    p->weight = 0;
    p->position = 6;
    p->bad[0] = 10;
    open_with(p,
              (hs_session_options)HS_INIT(hs_session_options, .checkpoint_dir = in_old(p, ""), .restore = HS_RESTORE_NEVER),
              hooks, 2);
    assert_ok(poisoned_run(p, "train", 4), &p->s->err);
    is_at(p, 3, 7 + 8 + 9, 1, 10);
    stage_close(p->s);
    hs_saver_free(saver);
}

/* Nor before the first save. */
static void before_a_save_it_returns_to_the_beginning(void **state)
{
    poisoned *p = *state;
    train_before(p, 6);
    hs_hook guard = GUARD();
    p->weight = 0;
    p->position = 0;
    p->bad[0] = 2;
    open_with(p,
              (hs_session_options)HS_INIT(hs_session_options, .checkpoint_dir = in_old(p, ""), .restore = HS_RESTORE_NEVER),
              &guard, 1);
    assert_ok(poisoned_run(p, "train", 2), &p->s->err);
    is_at(p, 0, 0, 1, 2);
    stage_close(p->s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_poisoned(after_a_save_elsewhere_it_returns_to_that_save),
        with_poisoned(without_a_copy_it_returns_to_the_checkpoint_that_the_session_names),
        with_poisoned(later_saves_elsewhere_are_abandoned),
        with_poisoned(a_skipped_variable_returns_to_its_value_at_the_opening),
        with_poisoned(without_a_copy_of_a_skipped_variable_it_is_refused),
        with_poisoned(other_names_count_again),
        with_poisoned(other_names_do_not_count_for_saves_of_this_session),
        with_poisoned(checkpoints_of_another_training_are_not_taken),
        with_poisoned(own_saves_in_checkpoint_dir_are_found_without_their_saver),
        with_poisoned(before_a_save_it_returns_to_the_beginning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
