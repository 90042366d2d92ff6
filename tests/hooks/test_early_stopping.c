/* SPDX-License-Identifier: Apache-2.0 */
/* Stopping when a metric becomes no better, and ending with the best. */
#include "checkpoint/model.h"
#include "hooks/stage.h"

#include <math.h>

/* A model that is evaluated after every step. The value of step i is values[i - 1]. */
typedef struct {
    stage *s;
    model m;
    const double *values;
} subject;

static hs_code evaluate(void *user, hs_raw_session *session, int64_t step, hs_error *err)
{
    const subject *x = user;
    return hs_raw_session_set_metric(session, "m", x->values[step - 1], step, err);
}

static hs_hook evaluating(subject *x)
{
    return hs_evaluation(.every_n_steps = 1, .evaluate = evaluate, .user = x);
}

static void open_hooks(subject *x, const hs_hook *hooks, size_t n)
{
    model_build(&x->m, &x->s->t.env);
    hs_session_options options =
        HS_INIT(hs_session_options, .hooks = test_hooks(hooks, n), .checkpoint_dir = x->s->directory);
    x->m.session = hs_session_open(hs_graph_backend(x->m.graph), &options, &x->m.err);
    assert_non_null(x->m.session);
}

/* Trains until a stop, at most `most` steps, and closes. Returns the step. */
static int64_t train(subject *x, int most)
{
    while (most-- > 0 && !hs_session_should_stop(x->m.session))
        assert_ok(model_train(&x->m, 1), &x->m.err);
    x->s->outcome = model_close(&x->m);
    assert_ok(x->s->outcome.error.code, &x->s->outcome.error);
    return x->s->outcome.step;
}

/* The same with these values and this hook, from the beginning and without checkpoints. */
static int64_t stops_at(stage *s, const double *values, int n, hs_hook hook)
{
    subject x = {.s = s, .values = values};
    hs_hook hooks[] = {evaluating(&x), hook};
    open_hooks(&x, hooks, 2);
    return train(&x, n);
}

/* The same from the newest checkpoint, saving every step and at the end. */
static int64_t resume(stage *s, const double *values, int n, hs_hook hook)
{
    subject x = {.s = s, .values = values};
    hs_hook hooks[] = {evaluating(&x), hook, hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1)};
    open_hooks(&x, hooks, 3);
    return train(&x, n);
}

#define VALUES(...) ((const double[]){__VA_ARGS__}), (int)(sizeof((const double[]){__VA_ARGS__}) / sizeof(double))

/* Options. */

static void invalid_options_are_refused(void **state)
{
    stage *s = *state;
    stage_refuses(s, hs_early_stopping(.patience = 1), HS_INVALID_ARGUMENT, "none of metric and tensor");
    stage_refuses(s, hs_early_stopping(.metric = "a", .tensor = "b"), HS_INVALID_ARGUMENT, "each of metric and tensor");
    stage_refuses(s, hs_early_stopping(.metric = "a", .patience = -2), HS_INVALID_ARGUMENT, "patience is -2");
    stage_refuses(s, hs_early_stopping(.metric = "a", .min_delta = -1), HS_INVALID_ARGUMENT, "min_delta is -1");
    stage_refuses(s, hs_early_stopping(.metric = "a", .min_delta = (double)NAN), HS_INVALID_ARGUMENT, "min_delta is ");
    stage_refuses(s, hs_early_stopping(.tensor = "lost"), HS_NOT_FOUND, "'lost'");
    stage_refuses(s, hs_early_stopping_hook(&(hs_early_stopping_options){.metric = "a"}), HS_INVALID_ARGUMENT,
                  "HS_INIT(hs_early_stopping_options");
}

static void a_metric_that_was_never_set_is_logged_at_the_end(void **state)
{
    stage *s = *state;
    static const char warning[] = "WARNING: early_stopping: metric 'los' is not a tensor and was never set\n";
    stops_at(s, (const double[]){1}, 0, hs_early_stopping(.metric = "los")); /* a later step might have set it */
    stops_at(s, VALUES(1), hs_early_stopping(.metric = "m"));
    assert_lacks(s->t.log, "never set");
    stops_at(s, VALUES(1, 2), hs_early_stopping(.metric = "los"));
    assert_contains(s->t.log, warning);
    stops_at(s, VALUES(1), hs_early_stopping(.metric = "global_step"));
    assert_contains(s->t.log, "WARNING: early_stopping: metric 'global_step' is a tensor, and was never set as a metric\n");
}

/* When. */

static void it_stops_when_patience_is_over(void **state)
{
    stage *s = *state;
    assert_int_equal(stops_at(s, VALUES(3, 2, 2.5, 1.5, 1.6, 1.7, 1.8), hs_early_stopping(.metric = "m", .patience = 2)),
                     6);
    assert_int_equal(s->outcome.reason, HS_REASON_STOPPED);
    assert_string_equal(s->outcome.hook, "early_stopping");
    assert_contains(s->t.log, "INFO: step 6: stopping: m was not better than 1.5 (step 4) 2 times in a row");
}

static void higher_may_be_better(void **state)
{
    hs_hook hook = hs_early_stopping(.metric = "m", .larger_is_better = true);
    assert_int_equal(stops_at(*state, VALUES(1, 2, 3, 2, 4), hook), 4);
}

static void equal_is_not_better(void **state)
{
    assert_int_equal(stops_at(*state, VALUES(1, 1, 1, 1), hs_early_stopping(.metric = "m", .patience = 2)), 3);
}

static void a_little_better_is_not(void **state)
{
    hs_hook hook = hs_early_stopping(.metric = "m", .min_delta = 0.5, .patience = 2);
    assert_int_equal(stops_at(*state, VALUES(3, 2.75, 2.25, 2, 1.75, 1), hook), 5);
}

static void nan_is_never_better(void **state)
{
    stage *s = *state;
    const double nan = (double)NAN;
    assert_int_equal(stops_at(s, VALUES(nan, 3, nan, 2, nan, nan, 1), hs_early_stopping(.metric = "m", .patience = 2)), 6);
    test_env_clear_log(&s->t);
    assert_int_equal(stops_at(s, VALUES(nan, nan, nan), hs_early_stopping(.metric = "m", .patience = 2)), 2);
    assert_contains(s->t.log, "stopping: m was NaN 2 times");
}

static void early_values_do_not_count(void **state)
{
    hs_hook hook = hs_early_stopping(.metric = "m", .start_step = 4);
    assert_int_equal(stops_at(*state, VALUES(1, 2, 3, 4, 3, 5, 2), hook), 6);
}

static void without_patience_it_never_stops(void **state)
{
    assert_int_equal(stops_at(*state, VALUES(1, 2, 3, 4), hs_early_stopping(.metric = "m", .patience = HS_NEVER)), 4);
}

/* Each step has a boundary; the program sets the metric only after the second. */
static void a_stale_value_is_not_counted_twice(void **state)
{
    stage *s = *state;
    subject x = {.s = s};
    hs_hook hooks[] = {hs_early_stopping(.metric = "m", .patience = 1),
                       hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1)};
    open_hooks(&x, hooks, 2);
    hs_raw_session *raw = model_raw(&x.m);
    assert_ok(model_train(&x.m, 2), &x.m.err);
    assert_ok(hs_raw_session_set_metric(raw, "m", 1, 2, &s->err), &s->err);
    assert_ok(model_train(&x.m, 3), &x.m.err);
    assert_false(hs_session_should_stop(x.m.session));
    assert_ok(hs_raw_session_set_metric(raw, "m", 2, 5, &s->err), &s->err);
    assert_int_equal(train(&x, 9), 6);
}

static void a_metric_that_the_program_sets_is_read_in_the_next_step(void **state)
{
    stage *s = *state;
    stage_open(s, hs_script_watch(s->script, NULL, hs_early_stopping(.metric = "m")));
    stage_run(s, "train", 1, 0);
    hs_raw_session_set_metric(hs_session_raw(s->session), "m", 1, 1, NULL);
    hs_script_clear_calls(s->script);
    stage_run(s, "train", 2, 0);
    assert_string_equal(hs_script_calls(s->script), "before run after boundary before run after");
}

static void a_tensor_is_read_in_every_run(void **state)
{
    stage *s = *state;
    const double losses[] = {3, 2, 4, 5, 1};
    hs_script_series(s->script, "loss", losses, 5);
    stage_open(s, hs_early_stopping(.tensor = "loss", .patience = 2));
    stage_run(s, "train", 3, 0);
    assert_false(hs_session_should_stop(s->session));
    assert_string_equal(hs_script_last_run(s->script), "fetch train loss; feed");
    stage_run(s, "train", 1, 0);
    assert_true(hs_session_should_stop(s->session));
}

/* The best state. */

static hs_hook restoring(int64_t patience)
{
    return hs_early_stopping(.metric = "m", .patience = patience, .restore_best = true);
}

static void it_ends_with_the_best_state(void **state)
{
    stage *s = *state;
    assert_int_equal(resume(s, VALUES(5, 2, 3, 4, 1), restoring(2)), 2);
    assert_contains(s->t.log, "INFO: step 2: restored the best state (m = 2)");
    assert_int_equal(latest_step(s->directory), 2);
    assert_int_equal(s->outcome.last_saved_step, 2);
    assert_true(test_exists(s->directory, "model.ckpt-4.abandoned.index"));
    assert_false(test_exists(s->directory, "model.ckpt-4.index"));
}

static void a_resumed_run_is_already_done(void **state)
{
    stage *s = *state;
    resume(s, VALUES(5, 2, 3, 4, 1), restoring(2));
    test_env_clear_log(&s->t);
    assert_int_equal(resume(s, VALUES(5, 2, 3, 4, 1), restoring(2)), 2);
    assert_int_equal(s->outcome.reason, HS_REASON_ALREADY_DONE);
    assert_contains(s->t.log, "training is already done: m was not better than 2 (step 2) 2 times in a row");
    assert_lacks(s->t.log, "WARNING");
}

static void with_more_patience_it_continues_from_the_best(void **state)
{
    stage *s = *state;
    resume(s, VALUES(5, 2, 3, 4, 1), restoring(2));
    assert_int_equal(resume(s, VALUES(5, 2, 3, 4, 1, 7, 8, 9), restoring(3)), 5);
    assert_int_equal(s->outcome.last_saved_step, 5);
}

static void a_resumed_run_continues_the_count(void **state)
{
    stage *s = *state;
    const double values[] = {5, 2, 3, 4, 4, 1};
    hs_hook hook = hs_early_stopping(.metric = "m", .patience = 3);
    assert_int_equal(resume(s, values, 3, hs_hook_hold(hook)), 3);
    assert_int_equal(resume(s, values, 9, hook), 5);
}

static void after_a_resume_it_restores_the_checkpoint_of_the_best_step(void **state)
{
    stage *s = *state;
    const double values[] = {5, 2, 3, 4, 5};
    assert_int_equal(resume(s, values, 3, restoring(3)), 3);
    assert_int_equal(resume(s, values, 9, restoring(3)), 2);
    assert_contains(s->t.log, "step 2: restored the best state (m = 2)");
    assert_contains(s->t.log, "model.ckpt-5' is later than the step being saved; renamed to 'model.ckpt-5.abandoned'");
    assert_lacks(s->t.log, "WARNING");
    assert_int_equal(latest_step(s->directory), 2);
    assert_int_equal(resume(s, values, 9, restoring(3)), 2);
    assert_int_equal(s->outcome.reason, HS_REASON_ALREADY_DONE);
}

/* Or deleted: the training ends with the state that it has. */
static void a_damaged_checkpoint_of_the_best_step_is_not_restored(void **state)
{
    stage *s = *state;
    const double values[] = {5, 2, 3, 4, 5};
    for (int part = 0; part < 3; part++) {
        test_empty_directory(s->directory);
        assert_int_equal(resume(s, values, 3, restoring(3)), 3);
        if (part == 0)
            assert_int_equal(remove(test_path(s->directory, "model.ckpt-2.index")), 0);
        else if (part == 1)
            test_write_file(test_path(s->directory, "model.ckpt-2.index"), "damaged", 7);
        else
            flip_bit(test_path(s->directory, "model.ckpt-2." DATA), 8);
        assert_int_equal(resume(s, values, 9, restoring(3)), 5);
        assert_contains(s->t.log,
                        "WARNING: step 5: the best state, of step 2 (m = 2), is neither in memory nor in a checkpoint");
        assert_int_equal(latest_step(s->directory), 5);
    }
}

/* Trains another model, which saves DIRECTORY/other-2. */
static void save_another_series(stage *s)
{
    char *elsewhere = test_make_directory();
    subject x = {.s = s};
    hs_hook hooks[] = {hs_checkpoint_saver(.checkpoint_dir = elsewhere, .checkpoint_basename = "other", .every_n_steps = 1),
                       {.ops = NULL}};
    model_build(&x.m, &s->t.env);
    x.m.session = hs_session_open(hs_graph_backend(x.m.graph), HS_SESSION_OPTIONS(.hooks = hooks), &x.m.err);
    assert_non_null(x.m.session);
    assert_int_equal(train(&x, 2), 2);
    static const char *const files[] = {"other-2.index", "other-2.data-00000-of-00001"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        assert_int_equal(rename(test_path(elsewhere, files[i]), test_path(s->directory, files[i])), 0);
    test_remove_directory(elsewhere);
}

/* It is of the best step, but of another training. */
static void a_checkpoint_of_another_series_is_not_restored(void **state)
{
    stage *s = *state;
    const double values[] = {5, 2, 3, 4, 5};
    assert_int_equal(resume(s, values, 3, restoring(3)), 3);
    assert_int_equal(remove(test_path(s->directory, "model.ckpt-2.index")), 0);
    save_another_series(s);
    test_env_clear_log(&s->t);
    assert_int_equal(resume(s, values, 9, restoring(3)), 5);
    assert_contains(s->t.log,
                    "WARNING: step 5: the best state, of step 2 (m = 2), is neither in memory nor in a checkpoint");
    assert_int_equal(latest_step(s->directory), 5);
    assert_int_equal(s->outcome.last_saved_step, 5);
    assert_true(test_exists(s->directory, "other-2.index"));
    assert_true(test_exists(s->directory, "model.ckpt-4.index"));
    assert_int_equal(test_count_files(s->directory, "abandoned"), 0);
}

/* The process dies after the stop and before the restore. */
static void it_restores_it_also_without_an_end(void **state)
{
    stage *s = *state;
    subject x = {.s = s, .values = (const double[]){5, 2, 3, 4}};
    hs_hook hooks[] = {evaluating(&x), restoring(2),
                       hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1)};
    open_hooks(&x, hooks, 3);
    assert_ok(model_train(&x.m, 4), &x.m.err);
    hs_session_fail(x.m.session, test_error(HS_ABORTED, "killed"));
    model_close(&x.m);
    assert_int_equal(resume(s, x.values, 9, restoring(2)), 2);
    assert_int_equal(s->outcome.reason, HS_REASON_ALREADY_DONE);
    assert_int_equal(latest_step(s->directory), 2);
}

static void a_stop_by_another_hook_keeps_the_state(void **state)
{
    stage *s = *state;
    assert_int_equal(resume(s, VALUES(5, 2, 3), restoring(9)), 3);
    assert_int_equal(latest_step(s->directory), 3);
}

static void any_end_may_restore_it(void **state)
{
    hs_hook hook = hs_early_stopping(.metric = "m", .patience = HS_NEVER, .restore_at_any_end = true);
    assert_int_equal(resume(*state, VALUES(5, 2, 3), hook), 2);
    assert_int_equal(latest_step(((stage *)*state)->directory), 2);
}

static void the_best_may_be_the_last(void **state)
{
    stage *s = *state;
    hs_hook hook = hs_early_stopping(.metric = "m", .patience = HS_NEVER, .restore_at_any_end = true);
    assert_int_equal(resume(s, VALUES(5, 2, 1), hook), 3);
    assert_lacks(s->t.log, "best state");
}

/* The value of step 1 is set in step 2, when the state is another one. */
static void a_late_value_copies_no_state(void **state)
{
    stage *s = *state;
    subject x = {.s = s};
    hs_hook hook = restoring(1);
    open_hooks(&x, &hook, 1);
    for (int64_t step = 1; step <= 2; step++) {
        assert_ok(model_train(&x.m, 1), &x.m.err);
        assert_ok(hs_raw_session_set_metric(model_raw(&x.m), "m", (double)step, step, &s->err), &s->err);
    }
    assert_int_equal(train(&x, 9), 3);
    assert_contains(s->t.log, "the best state, of step 1 (m = 1), is neither in memory nor in a checkpoint");
}

static void the_saver_keeps_it_as_the_best(void **state)
{
    stage *s = *state;
    const double values[] = {5, 2, 3, 4};
    subject x = {.s = s, .values = values};
    hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.env = &s->t.env, .max_to_keep = 1, .keep_best = 1), &s->err);
    hs_hook hooks[] = {
        evaluating(&x), restoring(2),
        hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1, .saver = saver, .metric = "m")};
    open_hooks(&x, hooks, 3);
    assert_int_equal(train(&x, 9), 2);
    assert_lacks(s->t.log, "step 2: saved without the metric");
    assert_lacks(s->t.log, "is not a tensor and was never set");
    hs_saver_free(saver);
}

/* The loss is that of the next step, and the session is lost once, in the boundary of step 4. */
typedef struct {
    double loss;
    int left;
} loser;

static hs_code know_loss(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    static const double losses[] = {5, 2, 3, 4, 1, 1, 1};
    (void)args;
    int64_t step = hs_run_context_global_step(run, err);
    if (step >= 0)
        ((loser *)self)->loss = losses[step];
    return err->code;
}

static hs_code lose(void *self, hs_run_context *run, hs_error *err)
{
    int64_t step = hs_run_context_global_step(run, err);
    if (step != 4 || hs_run_context_boundary(run) != HS_BOUNDARY_RUN || ((loser *)self)->left-- <= 0)
        return err->code;
    return hs_error_set(err, HS_ABORTED, "lost");
}

/* The recovery undoes the stop; then the hook stops again. */
static void a_session_lost_during_the_stop_ends_with_the_best(void **state)
{
    static const hs_hook_ops losing = HS_INIT(hs_hook_ops, .name = "loser", .before_run = know_loss, .boundary = lose);
    static const hs_recovery recovery = HS_INIT(hs_recovery);
    stage *s = *state;
    loser l = {.left = 1};
    subject x = {.s = s};
    model_build(&x.m, &s->t.env);
    hs_graph_value(x.m.graph, "loss", HS_DOUBLE, HS_SCALAR, &l.loss);
    hs_hook hooks[] = {{.ops = &losing, .self = &l},
                       hs_early_stopping(.tensor = "loss", .patience = 2, .restore_best = true),
                       hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1),
                       {.ops = NULL}};
    hs_session_options options =
        HS_INIT(hs_session_options, .hooks = hooks, .checkpoint_dir = s->directory, .recovery = &recovery);
    x.m.session = hs_session_open(hs_graph_backend(x.m.graph), &options, &x.m.err);
    assert_non_null(x.m.session);
    assert_int_equal(train(&x, 9), 2);
    assert_contains(s->t.log, "step 3: recovered from a failure at step 4");
    assert_int_equal(latest_step(s->directory), 2);
}

static hs_code refuse(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)self, (void)values;
    if (hs_run_context_global_step(run, err) == 3) {
        hs_raw_session_refuse_saves(hs_run_context_session(run), test_error(HS_FAILED_PRECONDITION, "it is spoilt"));
        hs_run_context_request_stop(run);
    }
    return err->code;
}

static void the_best_is_saved_if_the_last_state_is_refused(void **state)
{
    static const hs_hook_ops refusing = HS_INIT(hs_hook_ops, .name = "refusing", .after_run = refuse);
    stage *s = *state;
    subject x = {.s = s, .values = (const double[]){5, 2, 3}};
    hs_hook hooks[] = {{.ops = &refusing},
                       evaluating(&x),
                       hs_early_stopping(.metric = "m", .patience = HS_NEVER, .restore_at_any_end = true),
                       hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 100)};
    open_hooks(&x, hooks, 4);
    assert_int_equal(train(&x, 9), 2);
    assert_contains(s->t.log, "step 2: restored the best state (m = 2)");
    assert_int_equal(latest_step(s->directory), 2);
    assert_int_equal(s->outcome.last_saved_step, 2);
}

static void another_metrics_state_is_refused(void **state)
{
    stage *s = *state;
    resume(s, VALUES(5, 2), hs_early_stopping(.metric = "m", .patience = 2));
    subject x = {.s = s};
    hs_hook hook = hs_early_stopping(.metric = "m", .patience = 2, .larger_is_better = true);
    model_build(&x.m, &s->t.env);
    hs_session_options options = HS_INIT(hs_session_options, .hooks = HS_HOOKS(hook), .checkpoint_dir = s->directory);
    x.m.session = hs_session_open(hs_graph_backend(x.m.graph), &options, &x.m.err);
    assert_says(&x.m.err, HS_FAILED_PRECONDITION,
                "belongs to 'the smallest m', but its provider has identity 'the largest m'");
    hs_graph_free(x.m.graph);
}

/* Failing. */

static hs_code each_scenario(test_env *t, void *user)
{
    const double values[] = {1, 2};
    hs_error err = {0};
    hs_script *script = hs_script_new(&t->env);
    (void)user;
    test_tolerate_harmless(t); /* the copy is made without it */
    if (!script)
        return HS_RESOURCE_EXHAUSTED;
    hs_code code = hs_script_series(script, "loss", values, 2);
    hs_hook hook = hs_early_stopping(.tensor = code ? "global_step" : "loss", .restore_best = true);
    hs_session_options options = HS_INIT(hs_session_options, .hooks = HS_HOOKS(hook));
    hs_session *session = hs_session_open(hs_script_backend(script), &options, &err);
    if (!code)
        code = session ? HS_OK : err.code;
    for (int i = 0; i < 2 && !code; i++)
        code = hs_session_run(session, "train", &err);
    hs_outcome outcome = hs_session_close(session, NULL);
    hs_script_free(script);
    return code ? code : outcome.error.code;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    test_each_allocation(each_scenario, NULL);
}

/* A value of the graph is not restored. The value that is saved, logged and written at the end must not be of a later step.
 */

enum { BEST = 7 };

/* The value falls until step BEST, then it rises. */
static void train_by_value(stage *s, int64_t patience)
{
    double weight = 0, value = 0;
    hs_graph *graph = hs_graph_new(&s->t.env);
    hs_graph_variable(graph, "weight", HS_DOUBLE, HS_SCALAR, &weight);
    hs_graph_value(graph, "value", HS_DOUBLE, HS_SCALAR, &value);
    hs_graph_global_step(graph, NULL, NULL);
    hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.max_to_keep = 1, .keep_best = 2, .env = &s->t.env), &s->err);
    const hs_hook hooks[] = {
        hs_early_stopping(.tensor = "value", .patience = patience, .restore_best = true),
        hs_logging_tensor(.tensors = HS_NAMES("value", "weight"), .at_end = true),
        hs_metrics_file(.path = test_path(s->directory, "rows.csv"), .tensors = HS_NAMES("value"),
                        .when = HS_TRIGGER(.every_n_steps = 5, .last = true)),
        hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1, .saver = saver, .metric = "value"),
        {.ops = NULL}};
    test_env_clear_log(&s->t);
    hs_session *session = hs_session_open(hs_graph_backend(graph),
                                          HS_SESSION_OPTIONS(.checkpoint_dir = s->directory, .hooks = hooks), &s->err);
    assert_ok(s->err.code, &s->err);
    while (hs_step_begin(session)) {
        weight++;
        value = weight <= BEST ? 100 - weight : 100 + weight;
        hs_step_end(session);
    }
    hs_session_close(session, &s->err);
    assert_ok(s->err.code, &s->err);
    assert_true(weight == BEST);
    hs_graph_free(graph);
    hs_saver_free(saver);
}

static void check_the_best(const stage *s)
{
    char *state = test_read_file(test_path(s->directory, "checkpoint"), NULL);
    char *rows = test_read_file(test_path(s->directory, "rows.csv"), NULL);
    assert_contains(state, "model_checkpoint_path: \"model.ckpt-7\"");
    assert_contains(state, "# metric: 4057400000000000 model.ckpt-7\n"); /* 93 */
    assert_contains(s->t.log, "INFO: step 7: value = not computed in this step, weight = 7");
    assert_contains(rows, "\n5,1700000000.000,95\n");
    assert_lacks(rows, "\n7,"); /* neither the value of step 7, which is not computed, nor a later one */
    assert_true(test_exists(s->directory, "model.ckpt-7.index"));
    assert_false(test_exists(s->directory, "model.ckpt-8.index"));
    free(state);
    free(rows);
}

static void a_value_of_a_later_step_is_not_that_of_the_best_state(void **state)
{
    stage *s = *state;
    train_by_value(s, 3);
    check_the_best(s);
    train_by_value(s, 6); /* continues from the best state, and returns to it */
    assert_contains(s->t.log, "INFO: step 7: restored the best state (value = 93)");
    check_the_best(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_stage(invalid_options_are_refused),
        with_stage(a_metric_that_was_never_set_is_logged_at_the_end),
        with_stage(it_stops_when_patience_is_over),
        with_stage(higher_may_be_better),
        with_stage(equal_is_not_better),
        with_stage(a_little_better_is_not),
        with_stage(nan_is_never_better),
        with_stage(early_values_do_not_count),
        with_stage(without_patience_it_never_stops),
        with_stage(a_stale_value_is_not_counted_twice),
        with_stage(a_metric_that_the_program_sets_is_read_in_the_next_step),
        with_stage(a_tensor_is_read_in_every_run),
        with_stage(it_ends_with_the_best_state),
        with_stage(a_resumed_run_is_already_done),
        with_stage(with_more_patience_it_continues_from_the_best),
        with_stage(a_resumed_run_continues_the_count),
        with_stage(after_a_resume_it_restores_the_checkpoint_of_the_best_step),
        with_stage(a_damaged_checkpoint_of_the_best_step_is_not_restored),
        with_stage(a_checkpoint_of_another_series_is_not_restored),
        with_stage(it_restores_it_also_without_an_end),
        with_stage(a_stop_by_another_hook_keeps_the_state),
        with_stage(any_end_may_restore_it),
        with_stage(the_best_may_be_the_last),
        with_stage(a_late_value_copies_no_state),
        with_stage(the_saver_keeps_it_as_the_best),
        with_stage(a_session_lost_during_the_stop_ends_with_the_best),
        with_stage(the_best_is_saved_if_the_last_state_is_refused),
        with_stage(another_metrics_state_is_refused),
        cmocka_unit_test(every_allocation_may_fail),
        with_stage(a_value_of_a_later_step_is_not_that_of_the_best_state),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
