/* SPDX-License-Identifier: Apache-2.0 */
/* The checkpoint saver in the background, and with a metric. */
#include "hooks/stage.h"
#include "summary/events.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

static hs_saver *own_saver(stage *s, hs_saver_options options)
{
    options.env = &s->t.env;
    return hs_saver_new(&options, &s->err);
}

/* Counts the calls of a listener. */
typedef struct {
    int before, after;
    int64_t last;
} call_counts;

static hs_code note_before(void *self, hs_raw_session *session, int64_t step, hs_error *err)
{
    (void)session, (void)step, (void)err;
    ((call_counts *)self)->before++;
    return HS_OK;
}

static hs_code note_after(void *self, hs_raw_session *session, int64_t step, bool *stop, hs_error *err)
{
    call_counts *t = self;
    (void)session, (void)stop, (void)err;
    t->after++;
    t->last = step;
    return HS_OK;
}

static const hs_saver_listener_ops counting_ops =
    HS_INIT(hs_saver_listener_ops, .before_save = note_before, .after_save = note_after);

static void saves_are_made_and_reported(void **state)
{
    stage *s = *state;
    call_counts t = {.last = -1};
    hs_saver_listener listener = {&counting_ops, &t};
    hs_saver *saver = own_saver(s, (hs_saver_options)HS_INIT(hs_saver_options));
    stage_open(s, hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 2, .background = true,
                                      .saver = saver, .listeners = HS_LISTENERS(listener)));
    assert_int_equal(t.after, 1); /* the first save runs in the foreground */
    stage_run(s, "train", 2, 0);
    hs_saver_wait(saver);
    assert_int_equal(t.before, 2);
    assert_int_equal(latest_step(s->directory), 2);
    stage_run(s, "train", 1, 0); /* this run gets the result */
    assert_int_equal(t.after, 2);
    assert_int_equal(t.last, 2);
    stage_close(s);
    assert_int_equal(t.last, 3);
    assert_int_equal(s->outcome.last_saved_step, 3);
    assert_int_equal(latest_step(s->directory), 3);
    hs_saver_free(saver);
}

static void the_end_waits_and_saves_no_step_twice(void **state)
{
    stage *s = *state;
    call_counts t = {.last = -1};
    hs_saver_listener listener = {&counting_ops, &t};
    stage_open(s, hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1, .background = true,
                                      .listeners = HS_LISTENERS(listener)));
    stage_run(s, "train", 5, 0);
    stage_close(s);
    assert_int_equal(t.before, 6);
    assert_int_equal(t.after, 6);
    assert_int_equal(s->outcome.last_saved_step, 5);
}

/* If a session fails, the pending save is completed before the session is freed, and logged. The listeners are not called.
 */
static void a_failing_session_waits_too(void **state)
{
    stage *s = *state;
    call_counts t = {.last = -1};
    hs_saver_listener listener = {&counting_ops, &t};
    stage_open(s, hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1, .background = true,
                                      .listeners = HS_LISTENERS(listener)));
    stage_run(s, "train", 1, 0);
    hs_session_fail(s->session, test_error(HS_INTERNAL, "no more"));
    s->outcome = hs_session_close(s->session, NULL);
    s->session = NULL;
    assert_int_equal(latest_step(s->directory), 1);
    assert_int_equal(s->outcome.last_saved_step, 1);
    assert_contains(s->t.log, "INFO: step 1: saved ");
    assert_contains(s->t.log, "model.ckpt-1\n");
    assert_int_equal(t.last, 0);
}

/* A failure of that save is in the log. */
static void a_failing_session_logs_a_failed_save(void **state)
{
    stage *s = *state;
    stage_open(s, hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1, .background = true));
    s->t.fail_file_at = s->t.file_calls + 3;
    s->t.fail_file_on = true;
    stage_run(s, "train", 1, 0);
    hs_session_fail(s->session, test_error(HS_INTERNAL, "no more"));
    hs_session_close(s->session, NULL);
    s->session = NULL;
    s->t.fail_file_at = 0;
    assert_contains(s->t.log, "step 1: not saved");
}

/* The session rolls back to step 2. When it reaches step 4 again, the state differs from the saved one. */
static void after_a_rollback_a_step_is_saved_again(void **state)
{
    stage *s = *state;
    hs_saver *saver = own_saver(s, (hs_saver_options)HS_INIT(hs_saver_options));
    char path[512];
    call_counts t = {.last = -1};
    hs_saver_listener listener = {&counting_ops, &t};
    stage_open(s, hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 2, .saver = saver,
                                      .listeners = HS_LISTENERS(listener)));
    stage_run(s, "train", 4, 0);
    assert_int_equal(t.after, 3);
    snprintf(path, sizeof path, "%s/model.ckpt-2", s->directory);
    assert_ok(hs_saver_restore(saver, hs_session_raw(s->session), path, NULL, &s->err), &s->err);
    stage_run(s, "train", 2, 0);
    stage_close(s);
    assert_int_equal(t.after, 4);
    assert_int_equal(t.last, 4);
    hs_saver_free(saver);
}

/* The session is at step 2 when it gets the result of the save of step 4. */
static void a_save_from_before_a_rollback_is_not_of_this_session(void **state)
{
    stage *s = *state;
    hs_saver *saver = own_saver(s, (hs_saver_options)HS_INIT(hs_saver_options));
    char path[512];
    call_counts t = {.last = -1};
    hs_saver_listener listener = {&counting_ops, &t};
    stage_open(s, hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 2, .background = true,
                                      .saver = saver, .listeners = HS_LISTENERS(listener)));
    hs_raw_session *raw = hs_session_raw(s->session);
    stage_run(s, "train", 4, 0);
    snprintf(path, sizeof path, "%s/model.ckpt-2", s->directory);
    assert_ok(hs_saver_restore(saver, raw, path, NULL, &s->err), &s->err);
    stage_run(s, "train", 1, 0);
    assert_int_equal(t.last, 4);
    assert_int_equal(hs_raw_session_last_saved_step(raw), 2);
    stage_run(s, "train", 1, 0); /* the new step 4 */
    hs_session_fail(s->session, test_error(HS_INTERNAL, "no more"));
    s->outcome = hs_session_close(s->session, NULL);
    s->session = NULL;
    assert_int_equal(s->outcome.last_saved_step, 4);
    hs_saver_free(saver);
}

/* The same, but no run follows the rollback. */
static void a_save_from_before_a_rollback_is_not_in_the_outcome(void **state)
{
    stage *s = *state;
    hs_saver *saver = own_saver(s, (hs_saver_options)HS_INIT(hs_saver_options));
    char path[512];
    stage_open(s,
               hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 2, .background = true, .saver = saver));
    stage_run(s, "train", 4, 0);
    snprintf(path, sizeof path, "%s/model.ckpt-2", s->directory);
    assert_ok(hs_saver_restore(saver, hs_session_raw(s->session), path, NULL, &s->err), &s->err);
    stage_close(s);
    assert_int_equal(s->outcome.step, 2);
    assert_int_equal(s->outcome.last_saved_step, 2);
    hs_saver_free(saver);
}

static void a_failure_is_reported_in_the_next_step(void **state)
{
    stage *s = *state;
    hs_saver *saver = own_saver(s, (hs_saver_options)HS_INIT(hs_saver_options));
    stage_open(s, hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 2, .background = true,
                                      .saver = saver, .on_failure = HS_SAVE_FAILURE_FAIL));
    stage_run(s, "train", 1, 0);
    s->t.fail_file_at = s->t.file_calls + 3;
    s->t.fail_file_on = true;
    stage_run(s, "train", 1, 0);
    hs_saver_wait(saver);
    assert_fails(stage_run_once(s, "train"), HS_RESOURCE_EXHAUSTED, &s->err,
                 "hook 'checkpoint_saver', after_run at step 3");
    s->t.fail_file_at = 0;
    hs_session_close(s->session, NULL);
    s->session = NULL;
    hs_saver_free(saver);
}

static void training_continues_after_a_full_disk(void **state)
{
    stage *s = *state;
    hs_saver *saver = own_saver(s, (hs_saver_options)HS_INIT(hs_saver_options));
    stage_open(s,
               hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 2, .background = true, .saver = saver));
    stage_run(s, "train", 1, 0);
    s->t.fail_file_at = s->t.file_calls + 3;
    s->t.fail_file_on = true;
    stage_run(s, "train", 1, 0);
    hs_saver_wait(saver);
    s->t.fail_file_at = 0;
    stage_run(s, "train", 2, 0);
    assert_contains(s->t.log, "WARNING: step 2: not saved: ");
    assert_int_equal(latest_step(s->directory), 4); /* in the foreground, because the last save failed */
    stage_close(s);
    hs_saver_free(saver);
}

static void the_best_by_a_metric_are_kept(void **state)
{
    stage *s = *state;
    hs_saver *saver = own_saver(s, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = 1, .keep_best = 1));
    hs_script_series(s->script, "loss", (double[]){5, 9, 1, 9, 4, 9, 3, 9}, 8); /* one per run */
    stage_open(s,
               hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1, .saver = saver, .metric = "loss"));
    stage_run(s, "train", 3, 0);
    stage_close(s);
    assert_int_equal(test_count_files(s->directory, ".index"), 2);
    assert_true(test_exists(s->directory, "model.ckpt-1.index"));
    assert_true(test_exists(s->directory, "model.ckpt-3.index"));
    hs_saver_free(saver);
}

static void say(stage *s, double value, int64_t step)
{
    assert_ok(hs_raw_session_set_metric(hs_session_raw(s->session), "eval/loss", value, step, &s->err), &s->err);
}

/* The metric is not set at the fourth step. */
static hs_code say_in_boundary(void *user, hs_raw_session *session, int64_t step, hs_error *err)
{
    static const double values[] = {5, 1, 4};
    (void)user;
    return step <= 3 ? hs_raw_session_set_metric(session, "eval/loss", values[step - 1], step, err) : HS_OK;
}

static void the_best_by_the_board_are_kept(void **state)
{
    stage *s = *state;
    hs_saver *saver = own_saver(s, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = 1, .keep_best = 1));
    hs_hook hooks[] = {
        hs_evaluation(.every_n_steps = 1, .evaluate = say_in_boundary),
        hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1, .saver = saver, .metric = "eval/loss")};
    assert_ok(stage_try(s, hs_script_backend(s->script), hooks, 2), &s->err);
    assert_contains(s->t.log, "DEBUG: step 0: saved without the metric 'eval/loss'");
    stage_run(s, "train", 4, 0);
    stage_close(s);
    assert_true(test_exists(s->directory, "model.ckpt-2.index"));
    assert_true(test_exists(s->directory, "model.ckpt-4.index"));
    assert_int_equal(test_count_files(s->directory, ".index"), 2);
    assert_contains(s->t.log, "DEBUG: step 4: saved without the metric");
    assert_lacks(s->t.log, "WARNING");
    hs_saver_free(saver);
}

/* A program evaluates after the step that was saved. */
static void an_evaluation_between_two_steps_ranks_the_last_checkpoint(void **state)
{
    static const double values[] = {5, 1, 4, 3};
    stage *s = *state;
    hs_saver *saver = own_saver(s, (hs_saver_options)HS_INIT(hs_saver_options, .max_to_keep = 1, .keep_best = 1));
    hs_hook hooks[] = {
        hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1, .saver = saver, .metric = "eval/loss")};
    assert_ok(stage_try(s, hs_script_backend(s->script), hooks, 1), &s->err);
    for (int64_t step = 1; step <= 4; step++) {
        stage_run(s, "train", 1, 0);
        say(s, values[step - 1], step);
    }
    stage_close(s);
    assert_true(test_exists(s->directory, "model.ckpt-2.index"));
    assert_true(test_exists(s->directory, "model.ckpt-4.index"));
    assert_int_equal(test_count_files(s->directory, ".index"), 2);
    assert_lacks(s->t.log, "WARNING");
    hs_saver_free(saver);
}

static hs_code say_at_the_end(void *self, hs_raw_session *session, int64_t step, hs_error *err)
{
    (void)self;
    return hs_raw_session_set_metric(session, "eval/loss", 1, step, err);
}

/* Returns true if the state file records the metric. */
static bool is_ranked_at_the_end(stage *s, bool disk_fails)
{
    hs_saver *saver = own_saver(s, (hs_saver_options)HS_INIT(hs_saver_options));
    hs_hook hooks[] = {
        hs_stop_at_step(.last_step = 2), hs_evaluation(.at_end = true, .evaluate = say_at_the_end),
        hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 100, .saver = saver, .metric = "eval/loss")};
    hs_script_set_step(s->script, 0);
    assert_ok(stage_try(s, hs_script_backend(s->script), hooks, 3), &s->err);
    stage_run(s, "train", 2, 0);
    assert_int_equal(latest_step(s->directory), 2);
    s->t.fail_file_on = true;
    s->t.fail_file_at = disk_fails ? s->t.file_calls + 3 : 0;
    stage_close(s);
    s->t.fail_file_at = 0;
    char *text = test_read_file(test_path(s->directory, "checkpoint"), NULL);
    bool found = strstr(text, "# metric: 3ff0000000000000 model.ckpt-2\n");
    free(text);
    hs_saver_free(saver);
    return found;
}

/* The stop saves before the evaluation at the end. */
static void an_evaluation_at_the_end_ranks_the_checkpoint_of_the_stop(void **state)
{
    stage *s = *state;
    assert_true(is_ranked_at_the_end(s, false));
    test_empty_directory(s->directory);
    assert_false(is_ranked_at_the_end(s, true));
    assert_contains(s->t.log, "model.ckpt-2: the metric 'eval/loss' is not recorded: ");
}

/* Steps of a graph's value: at the creation, and after a restore, its memory is of no step of this state. */
static void a_value_that_no_step_has_computed_ranks_nothing(void **state)
{
    stage *s = *state;
    double weight = 0, loss = 0;
    hs_state_copy *copy = NULL;
    hs_graph *graph = hs_graph_new(&s->t.env);
    hs_graph_variable(graph, "weight", HS_DOUBLE, HS_SCALAR, &weight);
    hs_graph_value(graph, "loss", HS_DOUBLE, HS_SCALAR, &loss);
    hs_graph_global_step(graph, NULL, NULL);
    hs_hook hook = hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1, .metric = "loss:0");
    assert_ok(stage_try(s, hs_graph_backend(graph), &hook, 1), &s->err);
    hs_raw_session *raw = hs_session_raw(s->session);
    assert_int_equal(hs_raw_session_computed_at(raw, "loss"), -1);
    assert_int_equal(hs_raw_session_computed_at(raw, "loss:0"), -1);
    assert_int_equal(hs_raw_session_computed_at(raw, "weight"), 0);
    assert_int_equal(hs_raw_session_computed_at(NULL, "loss"), -1);
    for (loss = 3; loss > 1; loss--) {
        assert_true(hs_step_begin(s->session));
        hs_step_end(s->session);
        assert_int_equal(hs_raw_session_computed_at(raw, "loss"), hs_session_global_step(s->session, NULL));
    }
    assert_ok(hs_raw_session_copy_state(raw, &copy, &s->err), &s->err);
    assert_ok(hs_raw_session_restore_copy(raw, copy, &s->err), &s->err);
    hs_state_copy_free(copy);
    assert_int_equal(hs_raw_session_computed_at(raw, "loss"), -1);
    stage_close(s); /* saves the restored state */
    hs_graph_free(graph);
    char *text = test_read_file(test_path(s->directory, "checkpoint"), NULL);
    assert_contains(text, "# metric: 4008000000000000 model.ckpt-1\n");
    assert_lacks(text, " model.ckpt-0\n# metric");
    assert_null(strstr(strstr(text, "# metric: ") + 1, "# metric: "));
    free(text);
    assert_contains(s->t.log, "DEBUG: step 0: saved without the metric 'loss:0', which was not computed in this step");
    assert_contains(s->t.log, "DEBUG: step 2: saved without the metric 'loss:0', which was not computed in this step");
}

/* A tensor that is also on the board is not fetched. */
static void a_metric_on_the_board_is_not_fetched(void **state)
{
    stage *s = *state;
    const double nine = 9;
    const hs_tensor value = hs_tensor_of(HS_DOUBLE, HS_SCALAR, &nine);
    assert_int_equal(hs_script_constant(s->script, "eval/loss", &value), HS_OK);
    stage_open(s, hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1, .metric = "eval/loss"));
    size_t runs = hs_script_runs(s->script);
    stage_run(s, "train", 1, 0);
    assert_int_equal(hs_script_runs(s->script) - runs, 2);
    say(s, 1, 1);
    stage_run(s, "train", 1, 0);
    assert_int_equal(hs_script_runs(s->script) - runs, 3);
}

static void an_invalid_metric_is_refused_and_an_unknown_one_is_logged(void **state)
{
    stage *s = *state;
    stage_refuses(s, hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1, .metric = "train"),
                  HS_INVALID_ARGUMENT, "'train' is an op");
    stage_open(s, hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1, .metric = "lost"));
    stage_close(s); /* a later step might have set the metric */
    assert_contains(
        s->t.log,
        "WARNING: keep_best ignores the checkpoints of this session: metric 'lost' is not a tensor and was never set");
    stage_refuses(s, hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1, .busy = 9),
                  HS_INVALID_ARGUMENT, "hs_busy_policy");
}

/* Requests. */

/* A file system whose writes wait while it is closed. */
static atomic_bool gate_closed, at_gate, gate_fails;

static hs_code gated_write(void *user, void *file, const void *data, size_t bytes, hs_error *err)
{
    while (atomic_load(&gate_closed)) {
        atomic_store(&at_gate, true);
        sched_yield();
    }
    if (atomic_load(&gate_fails))
        return hs_error_set_errno(err, ENOSPC, "cannot write");
    return hs_env_default()->files.ops->write(user, file, data, bytes, err);
}

static void *open_gate(void *user)
{
    (void)user;
    for (int i = 0; i < 100; i++)
        sched_yield(); /* let the other thread run first, usually */
    atomic_store(&gate_closed, false);
    return NULL;
}

/* A requested save is not skipped while another one is pending, because the request is for the present state. */
static void a_requested_save_waits_and_is_not_skipped(void **state)
{
    stage *s = *state;
    hs_file_system_ops ops = *hs_env_default()->files.ops;
    hs_env env = HS_INIT(hs_env, .files = {&ops, NULL});
    pthread_t opener;
    ops.write = gated_write;
    hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.env = &env), &s->err);
    assert_non_null(saver);
    stage_open(s, hs_checkpoint_saver(.checkpoint_dir = s->directory, .saver = saver, .background = true,
                                      .busy = HS_BUSY_SKIP, .when = HS_EVERY_STEPS(1)));
    atomic_store(&gate_closed, true);
    stage_run(s, "train", 1, 0);
    while (!atomic_load(&at_gate))
        sched_yield();
    stage_run(s, "train", 1, 0); /* skipped */
    assert_contains(s->t.log, "INFO: step 2: not saved: the previous save is still being written");
    hs_session_request_save(s->session);
    assert_int_equal(pthread_create(&opener, NULL, open_gate, NULL), 0);
    stage_run(s, "train", 1, 0);
    hs_saver_wait(saver);
    pthread_join(opener, NULL);
    assert_true(test_exists(s->directory, "model.ckpt-1.index"));
    assert_false(test_exists(s->directory, "model.ckpt-2.index"));
    assert_true(test_exists(s->directory, "model.ckpt-3.index"));
    stage_close(s);
    hs_saver_free(saver);
}

/* Save 2 is to be replaced by save 3, but fails first, as save 3 does. */
static void after_a_replaced_save_fails_no_save_is_pending(void **state)
{
    stage *s = *state;
    hs_file_system_ops ops = *hs_env_default()->files.ops;
    hs_env env = HS_INIT(hs_env, .files = {&ops, NULL});
    pthread_t opener;
    char path[512];
    call_counts t = {.last = -1};
    hs_saver_listener listener = {&counting_ops, &t};
    ops.write = gated_write;
    hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.env = &env), &s->err);
    assert_non_null(saver);
    stage_open(s, hs_checkpoint_saver(.checkpoint_dir = s->directory, .saver = saver, .background = true,
                                      .busy = HS_BUSY_REPLACE, .listeners = HS_LISTENERS(listener),
                                      .when = HS_TRIGGER(.every_n_steps = 1, .first = true)));
    stage_run(s, "train", 1, 0);
    hs_saver_wait(saver);
    assert_int_equal(t.before, 2);
    atomic_store(&at_gate, false);
    atomic_store(&gate_closed, true);
    stage_run(s, "train", 1, 0);
    while (!atomic_load(&at_gate))
        sched_yield();
    atomic_store(&gate_fails, true);
    assert_int_equal(pthread_create(&opener, NULL, open_gate, NULL), 0);
    stage_run(s, "train", 1, 0);
    pthread_join(opener, NULL);
    atomic_store(&gate_fails, false);
    assert_contains(s->t.log, "step 2: not saved: ");
    assert_contains(s->t.log, "step 3: not saved: ");
    snprintf(path, sizeof path, "%s/model.ckpt-0", s->directory);
    assert_ok(hs_saver_restore(saver, hs_session_raw(s->session), path, NULL, &s->err), &s->err);
    stage_run(s, "train", 1, 0); /* in the foreground, because the last save failed */
    assert_int_equal(t.last, 1);
    const int before = t.before;
    stage_close(s);
    assert_int_equal(t.before, before); /* step 1 is saved */
    assert_int_equal(s->outcome.last_saved_step, 1);
    hs_saver_free(saver);
}

/* A file system in which the files of one checkpoint after the other can be created: those of a later step than
 * `opened_up_to` wait. */
static atomic_int opened_up_to, waiting_for;

static hs_code gated_open(void *user, const char *path, int mode, void **file, hs_error *err)
{
    const char *name = strstr(path, "model.ckpt-");
    const int step = name ? atoi(name + strlen("model.ckpt-")) : 0;
    while (step > atomic_load(&opened_up_to)) {
        atomic_store(&waiting_for, step);
        sched_yield();
    }
    return hs_env_default()->files.ops->open(user, path, mode, file, err);
}

static void *open_next(void *user)
{
    (void)user;
    for (int i = 0; i < 100; i++)
        sched_yield(); /* let the other thread run first, usually */
    atomic_fetch_add(&opened_up_to, 1);
    return NULL;
}

/* Save 2 replaces save 1. Then it cannot be replaced itself, so that save 3 waits for it. */
static void a_save_that_replaced_another_is_reported(void **state)
{
    stage *s = *state;
    hs_file_system_ops ops = *hs_env_default()->files.ops;
    hs_env env = HS_INIT(hs_env, .files = {&ops, NULL});
    pthread_t opener;
    call_counts t = {.last = -1};
    hs_saver_listener listener = {&counting_ops, &t};
    ops.open = gated_open;
    atomic_store(&opened_up_to, 0);
    hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.env = &env), &s->err);
    assert_non_null(saver);
    stage_open(s, hs_checkpoint_saver(.checkpoint_dir = s->directory, .saver = saver, .background = true,
                                      .busy = HS_BUSY_REPLACE, .listeners = HS_LISTENERS(listener),
                                      .when = HS_EVERY_STEPS(1)));
    for (int step = 1; step <= 3; step++) {
        if (step > 1)
            assert_int_equal(pthread_create(&opener, NULL, open_next, NULL), 0);
        stage_run(s, "train", 1, 0);
        if (step > 1)
            pthread_join(opener, NULL);
        while (atomic_load(&waiting_for) != step)
            sched_yield();
    }
    const call_counts before = t;
    const int64_t last_saved = hs_raw_session_last_saved_step(hs_session_raw(s->session));
    atomic_store(&opened_up_to, 3);
    stage_close(s);
    assert_false(test_exists(s->directory, "model.ckpt-1.index"));
    assert_true(test_exists(s->directory, "model.ckpt-2.index"));
    assert_int_equal(before.after, 1);
    assert_int_equal(before.last, 2);
    assert_int_equal(last_saved, 2);
    assert_int_equal(t.last, 3);
    hs_saver_free(saver);
}

/* A file system in which the rename of an index is made, but then waits while the gate is closed: it is too late to cancel
 * that save. */
static hs_code gated_rename(void *user, const char *from, const char *to, hs_error *err)
{
    hs_code code = hs_env_default()->files.ops->rename(user, from, to, err);
    while (strstr(to, ".index") && atomic_load(&gate_closed)) {
        atomic_store(&at_gate, true);
        sched_yield();
    }
    return code;
}

static hs_code save_nothing(void *self, hs_state_writer *out, hs_error *err)
{
    (void)out;
    return *(bool *)self ? hs_error_set(err, HS_RESOURCE_EXHAUSTED, "the state is too large") : HS_OK;
}

static hs_code load_nothing(void *self, hs_state_reader *in, hs_error *err)
{
    (void)self, (void)in, (void)err;
    return HS_OK;
}

/* Save 1 is to be replaced by save 2, which fails or not. */
static void a_save_that_ends_too_late_to_be_replaced_is_reported(void **state)
{
    static const hs_hook_ops stateful =
        HS_INIT(hs_hook_ops, .name = "stateful", .save_state = save_nothing, .load_state = load_nothing);
    stage *s = *state;
    hs_file_system_ops ops = *hs_env_default()->files.ops;
    hs_env env = HS_INIT(hs_env, .files = {&ops, NULL});
    ops.rename = gated_rename;
    for (int second_fails = 0; second_fails < 2; second_fails++) {
        pthread_t opener;
        bool fails = false;
        call_counts t = {.last = -1};
        hs_saver_listener listener = {&counting_ops, &t};
        hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.env = &env), &s->err);
        assert_non_null(saver);
        test_empty_directory(s->directory);
        test_env_clear_log(&s->t);
        hs_script_set_step(s->script, 0);
        hs_hook hooks[] = {{.ops = &stateful, .self = &fails},
                           hs_checkpoint_saver(.checkpoint_dir = s->directory, .saver = saver, .background = true,
                                               .busy = HS_BUSY_REPLACE, .listeners = HS_LISTENERS(listener),
                                               .when = HS_EVERY_STEPS(1))};
        assert_ok(stage_try(s, hs_script_backend(s->script), hooks, 2), &s->err);
        atomic_store(&at_gate, false);
        atomic_store(&gate_closed, true);
        stage_run(s, "train", 1, 0);
        while (!atomic_load(&at_gate))
            sched_yield();
        fails = second_fails;
        assert_int_equal(pthread_create(&opener, NULL, open_gate, NULL), 0);
        stage_run(s, "train", 1, 0);
        pthread_join(opener, NULL);
        fails = false;
        assert_int_equal(t.last, 1);
        assert_int_equal(hs_raw_session_last_saved_step(hs_session_raw(s->session)), 1);
        assert_contains(s->t.log, "INFO: step 1: saved ");
        if (second_fails)
            assert_contains(s->t.log, "step 2: not saved: ");
        stage_close(s);
        assert_int_equal(t.last, 2);
        assert_contains(events_text(s->directory), "checkpoint@1 checkpoint@2");
        hs_saver_free(saver);
    }
}

static hs_code cancel_before(void *self, hs_raw_session *session, int64_t step, hs_error *err)
{
    (void)self, (void)session;
    return step ? hs_error_set(err, HS_CANCELLED, "a listener's queue is closed") : HS_OK;
}

static void a_cancelled_listener_does_not_skip_the_save(void **state)
{
    stage *s = *state;
    const hs_saver_listener_ops ops = HS_INIT(hs_saver_listener_ops, .before_save = cancel_before);
    hs_saver_listener listener = {&ops, NULL};
    stage_open(s, hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1, .background = true,
                                      .busy = HS_BUSY_SKIP, .listeners = HS_LISTENERS(listener)));
    assert_fails(stage_run_once(s, "train"), HS_CANCELLED, &s->err, "a listener's queue is closed");
}

/* The runs do not advance the step, whose save is pending. */
static void a_request_saves_no_step_twice(void **state)
{
    stage *s = *state;
    call_counts t = {.last = -1};
    hs_saver_listener listener = {&counting_ops, &t};
    hs_script_op(s->script, "look");
    stage_open(s, hs_checkpoint_saver(.checkpoint_dir = s->directory, .background = true,
                                      .listeners = HS_LISTENERS(listener), .when = HS_TRIGGER(.on_request = true)));
    stage_run(s, "train", 1, 0);
    for (int i = 0; i < 3; i++) {
        hs_session_request_save(s->session);
        stage_run(s, "look", 1, 0);
    }
    stage_close(s);
    assert_int_equal(t.before, 1);
    assert_int_equal(t.last, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_stage(saves_are_made_and_reported),
        with_stage(the_end_waits_and_saves_no_step_twice),
        with_stage(a_failing_session_waits_too),
        with_stage(a_failing_session_logs_a_failed_save),
        with_stage(after_a_rollback_a_step_is_saved_again),
        with_stage(a_save_from_before_a_rollback_is_not_of_this_session),
        with_stage(a_save_from_before_a_rollback_is_not_in_the_outcome),
        with_stage(a_failure_is_reported_in_the_next_step),
        with_stage(training_continues_after_a_full_disk),
        with_stage(the_best_by_a_metric_are_kept),
        with_stage(the_best_by_the_board_are_kept),
        with_stage(an_evaluation_between_two_steps_ranks_the_last_checkpoint),
        with_stage(an_evaluation_at_the_end_ranks_the_checkpoint_of_the_stop),
        with_stage(a_value_that_no_step_has_computed_ranks_nothing),
        with_stage(a_metric_on_the_board_is_not_fetched),
        with_stage(an_invalid_metric_is_refused_and_an_unknown_one_is_logged),
        with_stage(a_requested_save_waits_and_is_not_skipped),
        with_stage(after_a_replaced_save_fails_no_save_is_pending),
        with_stage(a_save_that_replaced_another_is_reported),
        with_stage(a_save_that_ends_too_late_to_be_replaced_is_reported),
        with_stage(a_cancelled_listener_does_not_skip_the_save),
        with_stage(a_request_saves_no_step_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
