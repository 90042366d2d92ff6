/* SPDX-License-Identifier: Apache-2.0 */
/* Retention: the newest checkpoints, the best, the pinned, and one every N hours. */
#include "checkpoint/model.h"

#include <math.h>

static void save_with(fixture *f, int64_t step, double metric)
{
    hs_save_options options = HS_INIT(hs_save_options, .metric = metric, .has_metric = true);
    model_set(&f->m, step);
    assert_ok(hs_saver_save(f->saver, model_raw(&f->m), test_path(f->directory, "model.ckpt"), step, &options, &f->err),
              &f->err);
}

/* The steps that are on the disk, as "1 3 4". */
static const char *on_disk(const fixture *f)
{
    static char text[256];
    text[0] = '\0';
    for (int64_t step = 0; step < 30; step++)
        if (has_file(f, step, "index") && has_file(f, step, "meta"))
            snprintf(text + strlen(text), sizeof text - strlen(text), "%s%lld", text[0] ? " " : "", (long long)step);
    return text;
}

/* The steps in the saver's list. */
static const char *in_list(const fixture *f)
{
    static char text[256];
    const char *path;
    text[0] = '\0';
    for (size_t i = 0; (path = hs_saver_checkpoint(f->saver, i)); i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "", strrchr(path, '-') + 1);
    return text;
}

/* A new saver with the same options, as after a kill. */
static void revive(fixture *f, hs_saver_options options)
{
    use_saver(f, options);
    assert_ok(restore_newest(f), &f->err);
}

/* The newest. */

static void sa_022_the_newest_stay(void **state)
{
    fixture *f = *state;
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = 2));
    static const char *const lists[] = {"1", "1 2", "2 3", "3 2", "2 1"};
    const int64_t steps[] = {1, 2, 3, 2, 1};
    for (int i = 0; i < 5; i++) {
        save_at(f, steps[i]);
        if (i == 3) /* the same step again, which abandons nothing */
            assert_lacks(f->t.log, "later than the step being saved");
        assert_string_equal(in_list(f), lists[i]);
    }
    assert_string_equal(on_disk(f), "1 2");
}

static void sa_025_sa_037s_never_deletes_none_and_lists_the_newest(void **state)
{
    fixture *f = *state;
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = HS_NEVER));
    for (int64_t step = 1; step <= 7; step++)
        save_at(f, step);
    assert_string_equal(in_list(f), "7");
    assert_string_equal(on_disk(f), "1 2 3 4 5 6 7");
}

/* keep_checkpoint_every_n_hours. */

static void save_after(fixture *f, int64_t step, double secs)
{
    test_env_advance(&f->t, secs);
    save_at(f, step);
}

static void sa_028_a_checkpoint_per_interval_is_kept_forever(void **state)
{
    fixture *f = *state;
    use_saver(f,
              (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = 2, .keep_checkpoint_every_n_hours = 0.7 / 3600));
    static const char *const lists[] = {"1", "1 2", "2 3", "3 4"};
    for (int64_t step = 1; step <= 4; step++) {
        save_after(f, step, step == 1 ? 1 : 0);
        assert_string_equal(in_list(f), lists[step - 1]);
    }
    assert_string_equal(on_disk(f), "1 3 4");
}

/* TensorFlow's saver has a grid of times: after a pause it keeps each checkpoint until the grid has caught up. */
static void sa_035s_cm_034s_from_the_last_that_was_kept(void **state)
{
    fixture *f = *state;
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = 1, .keep_checkpoint_every_n_hours = 1));
    const double after[] = {3600, 1, 1, 16398, 1, 1, 1};
    for (int i = 0; i < 7; i++)
        save_after(f, i + 1, after[i]); /* at 3600, 3601, 3602, 20000, 20001, 20002, 20003 */
    assert_string_equal(on_disk(f), "1 4 7");
}

static void cm_015_the_interval_survives_a_restart(void **state)
{
    fixture *f = *state;
    hs_saver_options options = HS_INIT(hs_saver_options, .max_to_keep = 2, .keep_checkpoint_every_n_hours = 1.5);
    use_saver(f, options);
    save_after(f, 1, 10000);
    save_after(f, 2, 3610);
    revive(f, options);
    assert_string_equal(in_list(f), "1 2");
    save_after(f, 3, 0.2 * 3600); /* checkpoint 1 leaves the list; its files stay */
    assert_string_equal(in_list(f), "2 3");
    revive(f, options);
    save_after(f, 4, 0.5 * 3600); /* 2 is not long enough after 1 */
    revive(f, options);
    save_after(f, 5, 0.5 * 3600);
    assert_string_equal(on_disk(f), "1 4 5");
}

static void without_a_last_one_in_the_state_file_the_hours_begin_now(void **state)
{
    fixture *f = *state;
    hs_saver_options options = HS_INIT(hs_saver_options, .max_to_keep = 1, .keep_checkpoint_every_n_hours = 1);
    use_saver(f, options);
    save_after(f, 1, 10000);
    static const char text[] = "model_checkpoint_path: \"model.ckpt-1\"\nall_model_checkpoint_paths: \"model.ckpt-1\"\n"
                               "all_model_checkpoint_timestamps: 10000\n";
    test_write_file(test_path(f->directory, "checkpoint"), text, sizeof text - 1);
    revive(f, options);
    save_after(f, 2, 10);
    assert_string_equal(on_disk(f), "2");
}

/* The best. */

static void the_best_stay(void **state)
{
    fixture *f = *state;
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = 1, .keep_best = 2));
    const double metrics[] = {0.5, 0.2, 0.4, 0.9, 0.3, (double)NAN, 0.8};
    for (int i = 0; i < 7; i++)
        save_with(f, i + 1, metrics[i]);
    assert_string_equal(on_disk(f), "2 5 7");
    assert_string_equal(in_list(f), "2 5 7");
}

static void larger_may_be_better(void **state)
{
    fixture *f = *state;
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = 1, .keep_best = 1, .larger_is_better = true));
    const double metrics[] = {0.5, 0.9, 0.7};
    for (int i = 0; i < 3; i++)
        save_with(f, i + 1, metrics[i]);
    assert_string_equal(on_disk(f), "2 3");
}

static void of_equals_the_later_stays(void **state)
{
    fixture *f = *state;
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = 1, .keep_best = 1));
    for (int64_t step = 1; step <= 3; step++)
        save_with(f, step, step < 3 ? 0.5 : 0.6);
    assert_string_equal(on_disk(f), "2 3");
}

static void metrics_survive_a_restart(void **state)
{
    fixture *f = *state;
    hs_saver_options options = HS_INIT(hs_saver_options, .max_to_keep = 1, .keep_best = 1);
    use_saver(f, options);
    save_with(f, 1, 0.1);
    save_with(f, 2, 1.0 / 3);
    revive(f, options);
    save_with(f, 3, 0.2);
    assert_string_equal(on_disk(f), "1 3");
    revive(f, options);
    save_with(f, 4, 0.05);
    assert_string_equal(on_disk(f), "4");
}

/* Pins. */

static void a_pinned_checkpoint_stays_until_it_is_unpinned(void **state)
{
    fixture *f = *state;
    hs_saver_options options = HS_INIT(hs_saver_options, .max_to_keep = 1);
    use_saver(f, options);
    save_at(f, 1);
    assert_ok(hs_saver_pin(f->saver, file_of(f, 1, NULL), true, &f->err), &f->err);
    save_at(f, 2);
    save_at(f, 3);
    assert_string_equal(on_disk(f), "1 3");
    revive(f, options);
    save_at(f, 4);
    assert_string_equal(on_disk(f), "1 4");
    assert_ok(hs_saver_pin(f->saver, file_of(f, 1, NULL), false, &f->err), &f->err);
    save_at(f, 5);
    assert_string_equal(on_disk(f), "5");
}

static void where_all_are_kept_each_can_be_pinned(void **state)
{
    fixture *f = *state;
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = HS_NEVER));
    for (int64_t step = 1; step <= 3; step++)
        save_at(f, step);
    assert_ok(hs_saver_pin(f->saver, file_of(f, 1, NULL), true, &f->err), &f->err);
    assert_ok(hs_saver_pin(f->saver, file_of(f, 3, NULL), true, &f->err), &f->err);
    assert_int_equal(hs_saver_pin(f->saver, file_of(f, 4, NULL), true, &f->err), HS_NOT_FOUND);
    revive(f, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = 1));
    save_at(f, 4);
    save_at(f, 5);
    assert_string_equal(on_disk(f), "1 2 3 5");
}

static void where_all_are_kept_pins_are_written_down(void **state)
{
    fixture *f = *state;
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = HS_NEVER));
    for (int64_t step = 1; step <= 5; step++)
        save_at(f, step);
    assert_ok(hs_saver_pin(f->saver, file_of(f, 3, NULL), true, &f->err), &f->err);
    assert_ok(hs_saver_pin(f->saver, file_of(f, 1, NULL), true, &f->err), &f->err);
    assert_ok(hs_saver_pin(f->saver, file_of(f, 5, NULL), true, &f->err), &f->err);
    save_at(f, 6);
    assert_string_equal(in_list(f), "1 3 5 6");
    revive(f, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = HS_NEVER));
    assert_ok(hs_saver_pin(f->saver, file_of(f, 5, NULL), false, &f->err), &f->err);
    save_at(f, 7);
    assert_string_equal(in_list(f), "1 3 7");
    revive(f, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = 1));
    save_at(f, 8);
    assert_string_equal(in_list(f), "1 3 8");
    assert_string_equal(on_disk(f), "1 2 3 4 5 6 8");
}

/* Whatever the list has of it. */
static void where_all_are_kept_those_elsewhere_are_not(void **state)
{
    fixture *f = *state;
    const char *elsewhere = test_path(f->directory, "other/model.ckpt");
    save_at(f, 1);
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = HS_NEVER));
    assert_int_equal(hs_saver_pin(f->saver, file_of(f, 1, NULL), true, &f->err), HS_NOT_FOUND); /* it knows of none */
    assert_ok(hs_saver_save(f->saver, model_raw(&f->m), elsewhere, 2, NULL, &f->err), &f->err);
    assert_fails(hs_saver_pin(f->saver, file_of(f, 1, NULL), true, &f->err), HS_NOT_FOUND, &f->err,
                 "model.ckpt-1' is not kept");
}

static void recovered_ones_stay_pinned(void **state)
{
    fixture *f = *state;
    for (int64_t step = 1; step <= 3; step++)
        save_at(f, step);
    assert_ok(hs_saver_pin(f->saver, file_of(f, 1, NULL), true, &f->err), &f->err);
    const char *const *paths = HS_NAMES(file_of(f, 1, NULL), file_of(f, 2, NULL), file_of(f, 3, NULL));
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = 1));
    assert_ok(hs_saver_recover(f->saver, paths, &f->err), &f->err);
    save_at(f, 4);
    assert_string_equal(on_disk(f), "1 4");
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = 1));
    f->t.fail_file_at = f->t.file_calls + 2; /* the state file's */
    assert_fails(hs_saver_recover(f->saver, HS_NAMES(file_of(f, 1, NULL)), &f->err), HS_RESOURCE_EXHAUSTED, &f->err,
                 "injected");
}

static void only_kept_checkpoints_can_be_pinned(void **state)
{
    fixture *f = *state;
    save_at(f, 1);
    assert_fails(hs_saver_pin(f->saver, file_of(f, 2, NULL), true, &f->err), HS_NOT_FOUND, &f->err,
                 "model.ckpt-2' is not kept");
    assert_int_equal(hs_saver_pin(NULL, "x", true, &f->err), HS_INVALID_ARGUMENT);
    assert_int_equal(hs_saver_pin(f->saver, NULL, true, &f->err), HS_INVALID_ARGUMENT);
    f->t.fail_file_at = f->t.file_calls + 1;
    f->t.fail_file_on = true;
    assert_int_equal(hs_saver_pin(f->saver, file_of(f, 1, NULL), true, &f->err), HS_RESOURCE_EXHAUSTED);
    f->t.fail_file_at = 0;
    use_saver(f, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = 1));
    assert_ok(restore_newest(f), &f->err);
    save_at(f, 2);
    assert_string_equal(on_disk(f), "2"); /* it was not */
}

static void options_that_make_no_sense(void **state)
{
    fixture *f = *state;
    assert_null(hs_saver_new(HS_SAVER_OPTIONS(.keep_best = -1), &f->err));
    assert_says(&f->err, HS_INVALID_ARGUMENT, "keep_best is -1");
    assert_null(hs_saver_new(HS_SAVER_OPTIONS(.keep_checkpoint_every_n_hours = -2), &f->err));
    assert_says(&f->err, HS_INVALID_ARGUMENT, "keep_checkpoint_every_n_hours is -2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(sa_022_the_newest_stay),
        with_fixture(sa_025_sa_037s_never_deletes_none_and_lists_the_newest),
        with_fixture(sa_028_a_checkpoint_per_interval_is_kept_forever),
        with_fixture(sa_035s_cm_034s_from_the_last_that_was_kept),
        with_fixture(cm_015_the_interval_survives_a_restart),
        with_fixture(without_a_last_one_in_the_state_file_the_hours_begin_now),
        with_fixture(the_best_stay),
        with_fixture(larger_may_be_better),
        with_fixture(of_equals_the_later_stays),
        with_fixture(metrics_survive_a_restart),
        with_fixture(a_pinned_checkpoint_stays_until_it_is_unpinned),
        with_fixture(where_all_are_kept_each_can_be_pinned),
        with_fixture(where_all_are_kept_pins_are_written_down),
        with_fixture(where_all_are_kept_those_elsewhere_are_not),
        with_fixture(only_kept_checkpoints_can_be_pinned),
        with_fixture(recovered_ones_stay_pinned),
        with_fixture(options_that_make_no_sense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
