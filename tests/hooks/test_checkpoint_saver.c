/* SPDX-License-Identifier: Apache-2.0 */
/* When checkpoints are saved, by which saver, and what happens when one cannot be. Listeners are in
 * test_checkpoint_listeners.c, files in test_checkpoint_files.c. */
#include "hooks/stage.h"
#include "summary/events.h"

#include <sys/stat.h>
#include <unistd.h>

static hs_hook by_steps(const stage *s, int64_t steps)
{
    return hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = steps);
}

static hs_hook by_secs(const stage *s, double secs)
{
    return hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_secs = secs);
}

/* Runs once after `secs`. Returns the step of the newest checkpoint. */
static int64_t saved_after_run(stage *s, double secs)
{
    test_env_advance(&s->t, secs);
    stage_run(s, "train", 1, 0);
    return latest_step(s->directory);
}

/* Options. */

static void bh_019_both_saver_and_scaffold(void **state)
{
    stage *s = *state;
    hs_saver *saver = hs_saver_new(NULL, NULL);
    hs_scaffold *scaffold = hs_scaffold_new(HS_SCAFFOLD_OPTIONS(.saver = saver), NULL);
    stage_refuses(
        s, hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1, .saver = saver, .scaffold = scaffold),
        HS_INVALID_ARGUMENT, "both saver and scaffold");
    hs_scaffold_free(scaffold);
    hs_saver_free(saver);
}

static void bh_020_both_secs_and_steps(void **state)
{
    stage *s = *state;
    stage_refuses(s, hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_secs = 10, .every_n_steps = 20),
                  HS_INVALID_ARGUMENT, "each of every_n_secs and every_n_steps");
}

static void bh_021_neither_secs_nor_steps(void **state)
{
    stage *s = *state;
    stage_refuses(s, hs_checkpoint_saver(.checkpoint_dir = s->directory), HS_INVALID_ARGUMENT,
                  "none of every_n_secs and every_n_steps");
}

static void invalid_names_are_refused(void **state)
{
    stage *s = *state;
    stage_refuses(s, hs_checkpoint_saver(.every_n_steps = 1), HS_INVALID_ARGUMENT, "checkpoint_dir is missing");
    stage_refuses(s, hs_checkpoint_saver(.checkpoint_dir = "", .every_n_steps = 1), HS_INVALID_ARGUMENT,
                  "checkpoint_dir is missing");
    stage_refuses(s, hs_checkpoint_saver(.checkpoint_dir = "x", .every_n_steps = 1, .checkpoint_basename = "a/b"),
                  HS_INVALID_ARGUMENT, "checkpoint_basename 'a/b'");
    stage_refuses(s, hs_checkpoint_saver(.checkpoint_dir = "x", .every_n_steps = 1, .checkpoint_basename = ""),
                  HS_INVALID_ARGUMENT, "checkpoint_basename ''");
    stage_refuses(s, hs_checkpoint_saver_hook(&(hs_checkpoint_saver_options){.checkpoint_dir = "x", .every_n_steps = 1}),
                  HS_INVALID_ARGUMENT, "HS_INIT(hs_checkpoint_saver_options");
}

static void bh_076s_a_graph_without_a_global_step(void **state)
{
    stage *s = *state;
    counted c;
    hs_graph *graph = hs_graph_new(&s->t.env);
    hs_hook hook = by_steps(s, 1);
    hs_code code = stage_try(s, count_calls(&c, hs_graph_backend(graph)), &hook, 1);
    hs_graph_free(graph);
    assert_fails(code, HS_FAILED_PRECONDITION, &s->err, "hook 'checkpoint_saver', begin: the graph has no global step");
    assert_int_equal(c.opens, 0);
}

/* When. */

static void bh_022_by_seconds_the_first_run_saves(void **state)
{
    stage *s = *state;
    stage_open(s, without_creation(by_secs(s, 2)));
    assert_int_equal(latest_step(s->directory), -1);
    assert_int_equal(saved_after_run(s, 0), 1);
}

static void bh_028_by_seconds(void **state)
{
    stage *s = *state;
    stage_open(s, without_creation(by_secs(s, 2)));
    assert_int_equal(saved_after_run(s, 0), 1);
    assert_int_equal(saved_after_run(s, 0.5), 1);
    assert_int_equal(saved_after_run(s, 2), 3);
    assert_int_equal(saved_after_run(s, 0.1), 3);
    assert_int_equal(saved_after_run(s, 0.1), 3);
    assert_int_equal(saved_after_run(s, 7.3), 6);
}

static void bh_030_by_steps_the_first_run_saves(void **state)
{
    stage *s = *state;
    stage_open(s, without_creation(by_steps(s, 2)));
    assert_int_equal(saved_after_run(s, 0), 1);
}

static void bh_031_by_steps(void **state)
{
    static const int64_t saved[] = {1, 1, 3, 3, 5};
    stage *s = *state;
    stage_open(s, without_creation(by_steps(s, 2)));
    for (int i = 0; i < 5; i++)
        assert_int_equal(saved_after_run(s, 0), saved[i]);
}

static void bh_032_saves_at_the_end(void **state)
{
    stage *s = *state;
    stage_open(s, without_creation(by_secs(s, 2)));
    assert_int_equal(saved_after_run(s, 0), 1);
    assert_int_equal(saved_after_run(s, 0), 1);
    stage_close(s);
    assert_int_equal(latest_step(s->directory), 2);
}

/* TensorFlow's hook needs steps_per_run for runs of several steps. */
static void bh_037_runs_of_five_steps_the_first_saves(void **state)
{
    stage *s = *state;
    hs_script_steps_per_run(s->script, 5);
    stage_open(s, without_creation(by_steps(s, 10)));
    assert_int_equal(saved_after_run(s, 0), 5);
}

static void bh_039_runs_of_five_steps_the_end_saves(void **state)
{
    stage *s = *state;
    hs_script_steps_per_run(s->script, 5);
    stage_open(s, without_creation(by_steps(s, 10)));
    assert_int_equal(saved_after_run(s, 0), 5);
    assert_int_equal(saved_after_run(s, 0), 5);
    stage_close(s);
    assert_int_equal(latest_step(s->directory), 10);
}

/* The first creation. Recoveries are tested below. */
static void bh_082s_creation_saves_and_marks_the_timer(void **state)
{
    stage *s = *state;
    stage_open(s, by_steps(s, 2));
    assert_int_equal(latest_step(s->directory), 0);
    assert_int_equal(saved_after_run(s, 0), 0);
    assert_int_equal(saved_after_run(s, 0), 2);
    assert_int_equal(saved_after_run(s, 0), 2);
    assert_int_equal(saved_after_run(s, 0), 4);
}

/* Has a boundary after every run; loses the session, once, at step 3. */
static hs_code lose(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    int *left = self;
    (void)values;
    hs_run_context_request_boundary(run);
    int64_t step = hs_run_context_global_step(run, err);
    return step != 3 || (*left)-- <= 0 ? err->code : hs_error_set(err, HS_ABORTED, "lost");
}

static void a_recovery_cancels_a_save_that_was_due(void **state)
{
    static const hs_hook_ops losing = HS_INIT(hs_hook_ops, .name = "loser", .after_run = lose);
    static const hs_recovery recovery = HS_INIT(hs_recovery);
    stage *s = *state;
    int left = 1;
    hs_graph *graph = hs_graph_new(&s->t.env);
    hs_graph_global_step(graph, NULL, NULL);
    hs_graph_op(graph, .name = "train", .advances_step = true);
    hs_hook hooks[] = {by_steps(s, 3), {.ops = &losing, .self = &left}, {.ops = NULL}};
    hs_session_options options =
        HS_INIT(hs_session_options, .hooks = hooks, .checkpoint_dir = s->directory, .recovery = &recovery);
    s->session = hs_session_open(hs_graph_backend(graph), &options, &s->err);
    assert_non_null(s->session);
    stage_run(s, "train", 3, 0);
    assert_contains(s->t.log, "step 0: recovered from a failure at step 3");
    assert_int_equal(hs_session_global_step(s->session, NULL), 1);
    assert_int_equal(latest_step(s->directory), 0);
    stage_close(s);
    hs_graph_free(graph);
}

static void a_step_is_not_saved_twice(void **state)
{
    stage *s = *state;
    hs_script_op(s->script, "noop");
    stage_open(s, by_secs(s, 1));
    stage_run(s, "noop", 5, 2);
    stage_close(s);
    assert_string_equal(events_text(s->directory), "version checkpoint@0");
    assert_int_equal(s->outcome.last_saved_step, 0);
}

/* All hooks share one read of the step; in TensorFlow each hook reads it. The first run also reads it before it starts. */
static void bh_089s_by_steps_the_step_is_read_once_a_run(void **state)
{
    stage *s = *state;
    counted c;
    hs_hook hooks[] = {hs_stop_at_step(.last_step = 100), by_steps(s, 50)};
    assert_ok(stage_try(s, count_calls(&c, hs_script_backend(s->script)), hooks, 2), &s->err);
    stage_run(s, "train", 1, 0);
    c.step_reads = 0;
    stage_run(s, "train", 7, 0);
    assert_int_equal(c.step_reads, 7);
    stage_close(s);
}

static void bh_089s_by_seconds_the_step_is_read_when_it_is_time(void **state)
{
    stage *s = *state;
    counted c;
    hs_hook hook = by_secs(s, 10);
    assert_ok(stage_try(s, count_calls(&c, hs_script_backend(s->script)), &hook, 1), &s->err);
    stage_run(s, "train", 1, 0);
    c.step_reads = 0;
    stage_run(s, "train", 6, 1);
    assert_int_equal(c.step_reads, 0);
    assert_int_equal(saved_after_run(s, 10), 8);
    assert_int_equal(c.step_reads, 1);
    stage_close(s);
}

/* A hook that trains one more step in a raw run. */
static hs_code train_once_more(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)self, (void)values;
    const hs_run_args args = HS_INIT(hs_run_args, .names = HS_NAMES("train"));
    return hs_raw_session_run(hs_run_context_session(run), &args, NULL, err);
}

/* The saver saves in the boundary, after all hooks, under the step that was then reached. */
static void save_around_a_raw_run(stage *s, bool saver_first)
{
    static const hs_hook_ops ops = HS_INIT(hs_hook_ops, .name = "eager", .after_run = train_once_more);
    hs_hook eager = {.ops = &ops}, saver = by_steps(s, 1);
    hs_hook hooks[] = {saver_first ? saver : eager, saver_first ? eager : saver};
    assert_ok(stage_try(s, hs_script_backend(s->script), hooks, 2), &s->err);
    stage_run(s, "train", 1, 0);
    assert_true(test_exists(s->directory, "model.ckpt-2.index"));
    assert_false(test_exists(s->directory, "model.ckpt-1.index"));
    assert_int_equal(latest_step(s->directory), 2);
    stage_close(s);
    assert_int_equal(s->outcome.last_saved_step, 2);
    assert_string_equal(events_text(s->directory), "version checkpoint@0 checkpoint@2");
}

static void a_raw_run_after_the_saver_is_saved_under_its_step(void **state)
{
    save_around_a_raw_run(*state, true);
}

static void a_raw_run_before_the_saver_is_saved_under_its_step(void **state)
{
    save_around_a_raw_run(*state, false);
}

/* By which saver. */

static void bh_018_bh_091s_the_graphs_only_saver(void **state)
{
    stage *s = *state;
    stage_open(s, without_creation(by_steps(s, 1)));
    assert_int_equal(saved_after_run(s, 0), 1);
    const void *saver;
    assert_true(hs_backend_collection_item(hs_script_backend(s->script), HS_SAVERS, 0, &saver));
    assert_contains(hs_saver_last_path(saver), "model.ckpt-1");
}

static void bh_091s_the_saver_that_is_given(void **state)
{
    stage *s = *state;
    hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.max_to_keep = 1), NULL);
    stage_open(s, hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1, .saver = saver));
    stage_run(s, "train", 3, 0);
    stage_close(s);
    assert_int_equal(test_count_files(s->directory, ".index"), 1);
    hs_saver_free(saver);
}

/* A session with this hook, and with a scaffold that has this saver. */
static hs_code open_with_saver(stage *s, hs_hook hook, hs_scaffold *scaffold)
{
    hs_session_options options = HS_INIT(hs_session_options, .hooks = HS_HOOKS(hook), .scaffold = scaffold);
    s->session = hs_session_open(hs_script_backend(s->script), &options, &s->err);
    return s->session ? HS_OK : s->err.code;
}

static void bh_091s_the_scaffolds_saver(void **state)
{
    stage *s = *state;
    hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.max_to_keep = 2), NULL);
    hs_scaffold *scaffold = hs_scaffold_new(HS_SCAFFOLD_OPTIONS(.saver = saver), NULL);
    hs_hook hook = hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1, .scaffold = scaffold);
    assert_ok(open_with_saver(s, hook, scaffold), &s->err);
    stage_run(s, "train", 4, 0);
    stage_close(s);
    assert_int_equal(test_count_files(s->directory, ".index"), 2);
    hs_scaffold_free(scaffold);
    hs_saver_free(saver);
}

static void bh_091s_none_or_several_savers_fail_the_first_save(void **state)
{
    stage *s = *state;
    hs_backend backend = hs_script_backend(s->script);
    hs_saver *savers[2] = {hs_saver_new(NULL, NULL), hs_saver_new(NULL, NULL)};
    hs_scaffold *scaffold = hs_scaffold_new(HS_SCAFFOLD_OPTIONS(.saver = savers[0]), NULL);
    for (int n = 0; n <= 2; n += 2) {
        assert_ok(open_with_saver(s, without_creation(by_steps(s, 1)), scaffold), &s->err); /* not yet */
        assert_fails(stage_run_once(s, "train"), HS_FAILED_PRECONDITION, &s->err,
                     "neither saver nor scaffold is given, and the graph's collection");
        assert_contains(s->err.message, n ? "has 2 items" : "has 0 items");
        hs_session_close(s->session, NULL);
        for (int i = 0; i < 2; i++)
            assert_int_equal(backend.ops->add_to_collection(backend.self, HS_SAVERS, savers[i], NULL, NULL), HS_OK);
    }
    s->session = NULL;
    hs_scaffold_free(scaffold);
    hs_saver_free(savers[0]);
    hs_saver_free(savers[1]);
}

/* A run that does not advance the step. */

static void an_interval_that_ends_in_a_run_without_a_step_is_not_used_up(void **state)
{
    stage *s = *state;
    const double none = 0;
    hs_tensor constant = hs_tensor_of(HS_DOUBLE, HS_SCALAR, &none);
    hs_script_constant(s->script, "look", &constant);
    stage_open(s, by_secs(s, 10));
    test_env_advance(&s->t, 10);
    stage_run(s, "look", 1, 0);
    assert_int_equal(saved_after_run(s, 1), 1);
    assert_int_equal(saved_after_run(s, 9), 1);
    test_env_advance(&s->t, 1);
    stage_run(s, "look", 1, 0); /* saves step 2, which the run before has made */
    assert_int_equal(latest_step(s->directory), 2);
    test_env_advance(&s->t, 10);
    stage_run(s, "look", 1, 0);
    assert_int_equal(saved_after_run(s, 0), 3);
    stage_close(s);
}

/* Failures. */

static hs_hook on_failure(stage *s, hs_save_failure policy)
{
    return hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 3, .on_failure = policy);
}

static void fill_the_disk(stage *s)
{
    s->t.fail_file_at = s->t.file_calls + 3;
    s->t.fail_file_on = true;
}

/* TensorFlow's run fails. */
static void bh_087s_a_save_that_failed_waits_for_the_next_interval(void **state)
{
    stage *s = *state;
    stage_open(s, by_steps(s, 3));
    stage_run(s, "train", 2, 0);
    fill_the_disk(s);
    assert_int_equal(saved_after_run(s, 0), 0);
    assert_contains(s->t.log, "WARNING: step 3: not saved: ");
    s->t.fail_file_at = 0;
    assert_int_equal(saved_after_run(s, 0), 0);
    assert_int_equal(saved_after_run(s, 0), 0);
    assert_int_equal(saved_after_run(s, 0), 6);
    assert_int_equal(test_count_files(s->directory, ".tmp"), 0);
    stage_close(s);
    assert_int_equal(s->outcome.failures, 1);
    assert_contains(s->t.log, "'checkpoint_saver' failed 1 time, and training continued");
}

static void a_failure_may_fail_the_run(void **state)
{
    stage *s = *state;
    stage_open(s, on_failure(s, HS_SAVE_FAILURE_FAIL));
    stage_run(s, "train", 2, 0);
    fill_the_disk(s);
    assert_fails(stage_run_once(s, "train"), HS_RESOURCE_EXHAUSTED, &s->err, "hook 'checkpoint_saver', boundary at step 3");
}

/* The disk works, so no later save would succeed. */
static void a_lock_file_that_is_a_link_fails_the_run(void **state)
{
    stage *s = *state;
    stage_open(s, by_steps(s, 3));
    stage_run(s, "train", 2, 0);
    assert_int_equal(remove(test_path(s->directory, ".hooksess.lock")), 0);
    assert_int_equal(symlink("/dev/null", test_path(s->directory, ".hooksess.lock")), 0);
    assert_fails(stage_run_once(s, "train"), HS_INVALID_ARGUMENT, &s->err, ".hooksess.lock: is not a regular file");
}

static void a_failed_save_may_be_retried_later(void **state)
{
    stage *s = *state;
    stage_open(s, on_failure(s, HS_SAVE_FAILURE_RETRY));
    stage_run(s, "train", 2, 0);
    fill_the_disk(s);
    assert_int_equal(saved_after_run(s, 0), 0);   /* step 3 */
    assert_int_equal(saved_after_run(s, 1), 0);   /* after 1 second */
    assert_int_equal(saved_after_run(s, 1.5), 0); /* not yet: after 2 */
    s->t.fail_file_at = 0;
    assert_int_equal(saved_after_run(s, 0.5), 6);
    assert_int_equal(saved_after_run(s, 0), 6);
    assert_int_equal(saved_after_run(s, 0), 6);
    assert_int_equal(saved_after_run(s, 0), 9);
}

/* A clock whose sleep frees room on the disk. */
static stage *sleeping;
static int rounds;

static void make_room_in_sleep(void *user, int64_t ns)
{
    ((test_env *)user)->now_ns += ns;
    if (--rounds == 0)
        sleeping->t.fail_file_at = 0;
}

static void a_failure_may_pause_the_training(void **state)
{
    stage *s = sleeping = *state;
    s->t.env.clock.sleep_ns = make_room_in_sleep;
    hs_script_free(s->script);
    s->script = hs_script_new(&s->t.env);
    hs_script_op(s->script, "train");
    stage_open(s, on_failure(s, HS_SAVE_FAILURE_PAUSE));
    stage_run(s, "train", 2, 0);
    int64_t before = s->t.now_ns;
    fill_the_disk(s);
    rounds = 3;
    assert_int_equal(saved_after_run(s, 0), 3);
    assert_int_equal(s->t.now_ns - before, 3000000000);
    assert_contains(s->t.log, "; retrying");
}

static void a_pause_ends_with_a_stop(void **state)
{
    stage *s = *state;
    stage_open(s, on_failure(s, HS_SAVE_FAILURE_PAUSE));
    stage_run(s, "train", 2, 0);
    fill_the_disk(s);
    hs_session_interrupt(s->session);
    assert_int_equal(saved_after_run(s, 0), 0);
    s->t.fail_file_at = 0;
}

/* Saves step 3, fills the disk at step 4, and closes. */
static void close_on_a_full_disk(stage *s)
{
    assert_int_equal(saved_after_run(s, 0), 3);
    assert_int_equal(saved_after_run(s, 0), 3);
    fill_the_disk(s);
    s->outcome = hs_session_close(s->session, &s->err);
    s->session = NULL;
    assert_int_equal(s->outcome.reason, HS_REASON_FAILED);
    assert_says(&s->err, HS_RESOURCE_EXHAUSTED, "after the request to stop there is no time to retry: ");
    assert_int_equal(s->outcome.last_saved_step, 3);
    assert_int_equal(latest_step(s->directory), 3);
    assert_int_equal(test_count_files(s->directory, ".tmp"), 0);
}

static void a_pause_at_the_end_ends_while_there_is_time_to_close(void **state)
{
    stage *s = *state;
    stage_open(s, on_failure(s, HS_SAVE_FAILURE_PAUSE));
    stage_run(s, "train", 2, 0);
    hs_session_interrupt(s->session);
    int64_t before = s->t.now_ns;
    close_on_a_full_disk(s);
    assert_int_equal(s->t.now_ns - before, 25000000000); /* 5 of 30 s remain */
}

/* A clock whose sleep requests a stop. */
static void request_stop_in_sleep(void *user, int64_t ns)
{
    ((test_env *)user)->now_ns += ns;
    if (--rounds == 0)
        hs_session_interrupt(sleeping->session);
}

static void a_stop_is_detected_in_a_pause_at_the_end(void **state)
{
    stage *s = sleeping = *state;
    s->t.env.clock.sleep_ns = request_stop_in_sleep;
    hs_script_free(s->script);
    s->script = hs_script_new(&s->t.env);
    hs_script_op(s->script, "train");
    stage_open(s, on_failure(s, HS_SAVE_FAILURE_PAUSE));
    stage_run(s, "train", 2, 0);
    int64_t before = s->t.now_ns;
    rounds = 100;
    close_on_a_full_disk(s);
    assert_int_equal(s->t.now_ns - before, 125000000000);
}

static void at_the_end_a_save_is_tried_five_times(void **state)
{
    stage *s = *state;
    stage_open(s, on_failure(s, HS_SAVE_FAILURE_RETRY));
    stage_run(s, "train", 2, 0);
    int64_t before = s->t.now_ns;
    fill_the_disk(s);
    s->outcome = hs_session_close(s->session, &s->err);
    s->session = NULL;
    assert_int_equal(s->outcome.reason, HS_REASON_FAILED);
    assert_int_equal(s->t.now_ns - before, 15000000000); /* 1 + 2 + 4 + 8 */
}

static void an_unknown_policy_is_refused(void **state)
{
    stage_refuses(*state, on_failure(*state, 4), HS_INVALID_ARGUMENT, "on_failure is 4");
}

static void bh_087s_a_first_save_that_fails_fails_the_opening(void **state)
{
    stage *s = *state;
    hs_hook hook = by_steps(s, 3);
    assert_int_equal(mkdir(test_path(s->directory, "model.ckpt-0.index.tmp"), 0700), 0); /* it blocks the file */
    assert_fails(stage_try(s, hs_script_backend(s->script), &hook, 1), HS_FAILED_PRECONDITION, &s->err,
                 "hook 'checkpoint_saver', boundary at step 0");
    assert_int_equal(latest_step(s->directory), -1);
}

static void a_run_that_failed_is_not_saved(void **state)
{
    stage *s = *state;
    hs_script_fail_at(s->script, 3, HS_UNAVAILABLE, "lost");
    stage_open(s, by_steps(s, 2));
    stage_run(s, "train", 2, 0);
    assert_int_equal(stage_run_once(s, "train"), HS_UNAVAILABLE);
    s->outcome = hs_session_close(s->session, NULL);
    s->session = NULL;
    assert_int_equal(latest_step(s->directory), 2);
    assert_int_equal(s->outcome.last_saved_step, 2);
}

static void a_last_save_that_fails_makes_the_outcome_a_failure(void **state)
{
    stage *s = *state;
    stage_open(s, by_steps(s, 100));
    stage_run(s, "train", 2, 0);
    s->t.fail_file_at = s->t.file_calls + 3;
    s->t.fail_file_on = true;
    s->outcome = hs_session_close(s->session, &s->err);
    s->session = NULL;
    assert_says(&s->err, HS_RESOURCE_EXHAUSTED, "checkpoint_saver");
    assert_int_equal(s->outcome.reason, HS_REASON_FAILED);
    assert_int_equal(s->outcome.step, 2);
    assert_int_equal(s->outcome.last_saved_step, 0);
    assert_int_equal(latest_step(s->directory), 0);
}

/* The end of the input is a normal end. */
static void the_end_of_the_input_saves(void **state)
{
    stage *s = *state;
    hs_script_fail_at(s->script, 3, HS_OUT_OF_RANGE, "no more data");
    stage_open(s, by_steps(s, 100));
    stage_run(s, "train", 2, 0);
    assert_int_equal(stage_run_once(s, "train"), HS_OUT_OF_RANGE);
    stage_close(s);
    assert_int_equal(s->outcome.reason, HS_REASON_END_OF_INPUT);
    assert_int_equal(latest_step(s->directory), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_stage(bh_019_both_saver_and_scaffold),
        with_stage(bh_020_both_secs_and_steps),
        with_stage(bh_021_neither_secs_nor_steps),
        with_stage(invalid_names_are_refused),
        with_stage(bh_076s_a_graph_without_a_global_step),
        with_stage(bh_022_by_seconds_the_first_run_saves),
        with_stage(bh_028_by_seconds),
        with_stage(bh_030_by_steps_the_first_run_saves),
        with_stage(bh_031_by_steps),
        with_stage(bh_032_saves_at_the_end),
        with_stage(bh_037_runs_of_five_steps_the_first_saves),
        with_stage(bh_039_runs_of_five_steps_the_end_saves),
        with_stage(bh_082s_creation_saves_and_marks_the_timer),
        with_stage(a_recovery_cancels_a_save_that_was_due),
        with_stage(a_step_is_not_saved_twice),
        with_stage(bh_089s_by_steps_the_step_is_read_once_a_run),
        with_stage(bh_089s_by_seconds_the_step_is_read_when_it_is_time),
        with_stage(a_raw_run_after_the_saver_is_saved_under_its_step),
        with_stage(a_raw_run_before_the_saver_is_saved_under_its_step),
        with_stage(bh_018_bh_091s_the_graphs_only_saver),
        with_stage(bh_091s_the_saver_that_is_given),
        with_stage(bh_091s_the_scaffolds_saver),
        with_stage(bh_091s_none_or_several_savers_fail_the_first_save),
        with_stage(an_interval_that_ends_in_a_run_without_a_step_is_not_used_up),
        with_stage(bh_087s_a_save_that_failed_waits_for_the_next_interval),
        with_stage(a_failure_may_fail_the_run),
        with_stage(a_lock_file_that_is_a_link_fails_the_run),
        with_stage(a_failed_save_may_be_retried_later),
        with_stage(a_failure_may_pause_the_training),
        with_stage(a_pause_ends_with_a_stop),
        with_stage(a_pause_at_the_end_ends_while_there_is_time_to_close),
        with_stage(a_stop_is_detected_in_a_pause_at_the_end),
        with_stage(at_the_end_a_save_is_tried_five_times),
        with_stage(an_unknown_policy_is_refused),
        with_stage(bh_087s_a_first_save_that_fails_fails_the_opening),
        with_stage(a_run_that_failed_is_not_saved),
        with_stage(a_last_save_that_fails_makes_the_outcome_a_failure),
        with_stage(the_end_of_the_input_saves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
