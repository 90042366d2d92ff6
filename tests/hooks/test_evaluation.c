/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluations during training. */
#include "hooks/stage.h"
#include "summary/events.h"

/* A graph whose ops record their runs, and may do more. */
typedef struct {
    stage *s;
    hs_graph *graph;
    int64_t step;
    double accuracy, loss;
    char ran[512];
    int left;          /* remaining batches. -1: endless */
    int stops_in;      /* the run of `stops`, counted from now, in which a stop is requested. 0: none */
    const char *stops; /* an op */
    hs_code metric_fails;
    double batch_secs; /* the time of a batch */
} subject;

typedef struct {
    subject *subject;
    const char *name;
} part;

static void note(subject *x, const char *word)
{
    size_t used = strlen(x->ran);
    snprintf(x->ran + used, sizeof x->ran - used, "%s%s", used ? " " : "", word);
}

static hs_code run_part(void *self, hs_op *op, hs_error *err)
{
    const part *of = self;
    subject *x = of->subject;
    (void)op;
    if (x->stops && strcmp(x->stops, of->name) == 0 && --x->stops_in == 0)
        hs_session_interrupt(x->s->session);
    if (strcmp(of->name, "batch") == 0 && x->left >= 0 && x->left-- == 0)
        return hs_error_set(err, HS_OUT_OF_RANGE, "no batch is left");
    if (strcmp(of->name, "batch") == 0)
        test_env_advance(&x->s->t, x->batch_secs);
    if (strcmp(of->name, "metric") == 0 && x->metric_fails)
        return hs_error_set(err, x->metric_fails, "there is none");
    note(x, of->name);
    return HS_OK;
}

static void build(subject *x, stage *s)
{
    static part parts[4];
    static const char *const names[4] = {"train", "clear", "batch", "metric"};
    *x = (subject){.s = s, .accuracy = 0.91, .loss = 0.3, .left = -1};
    x->graph = hs_graph_new(&s->t.env);
    hs_graph_global_step(x->graph, NULL, &x->step);
    hs_graph_value(x->graph, "loss", HS_DOUBLE, HS_SCALAR, &x->loss);
    hs_graph_value(x->graph, "accuracy", HS_DOUBLE, HS_SCALAR, &x->accuracy);
    for (size_t i = 0; i < 4; i++) {
        parts[i] = (part){x, names[i]};
        hs_graph_op(x->graph, .name = names[i], .run = run_part, .user = &parts[i], .advances_step = i == 0,
                    .outputs = i == 3 ? HS_OUTPUTS({.dtype = HS_DOUBLE}) : NULL);
    }
}

static void open_with(subject *x, const hs_hook *hooks, size_t n)
{
    assert_ok(stage_try(x->s, hs_graph_backend(x->graph), hooks, n), &x->s->err);
}

static void open_one(subject *x, hs_hook hook)
{
    open_with(x, &hook, 1);
}

static void finish(subject *x)
{
    if (x->s->session)
        stage_close(x->s);
    hs_graph_free(x->graph);
}

static bool has_metric(const subject *x, const char *name, double value, int64_t step)
{
    double found;
    int64_t at;
    return hs_raw_session_metric(hs_session_raw(x->s->session), name, &found, &at) && found == value && at == step;
}

static bool is_silent(const subject *x, const char *name)
{
    return !hs_raw_session_metric(hs_session_raw(x->s->session), name, NULL, NULL);
}

#define BOTH HS_NAMES("accuracy", "loss")

/* Options. */

static hs_code own_way(void *user, hs_raw_session *session, int64_t step, hs_error *err)
{
    const hs_code *code = user;
    hs_raw_session_set_metric(session, "own", 5, step, err);
    return *code ? hs_error_set(err, *code, "it went wrong") : HS_OK;
}

static void invalid_options_are_refused(void **state)
{
    stage *s = *state;
    const char *const *global = HS_NAMES("global_step");
    stage_refuses(s, hs_evaluation(.metrics = global), HS_INVALID_ARGUMENT,
                  "none of every_n_steps, every_n_secs, when and at_end is given");
    stage_refuses(s, hs_evaluation(.metrics = global, .every_n_steps = 1, .every_n_secs = 1), HS_INVALID_ARGUMENT,
                  "each of every_n_secs and every_n_steps");
    stage_refuses(s, hs_evaluation(.metrics = global, .every_n_steps = -1), HS_INVALID_ARGUMENT, "every_n_steps is -1");
    stage_refuses(s, hs_evaluation(.at_end = true), HS_INVALID_ARGUMENT, "none of metrics and evaluate");
    stage_refuses(s, hs_evaluation(.at_end = true, .metrics = HS_NAMES(NULL)), HS_INVALID_ARGUMENT, "none of metrics");
    stage_refuses(s, hs_evaluation(.at_end = true, .metrics = global, .evaluate = own_way), HS_INVALID_ARGUMENT,
                  "each of metrics and evaluate");
    stage_refuses(s, hs_evaluation(.at_end = true, .metrics = global, .name = ""), HS_INVALID_ARGUMENT, "name is empty");
    stage_refuses(s, hs_evaluation(.at_end = true, .metrics = global, .n_batches = 2), HS_INVALID_ARGUMENT,
                  "but eval_op is missing");
    stage_refuses(s, hs_evaluation(.at_end = true, .metrics = global, .eval_op = "train", .n_batches = -2),
                  HS_INVALID_ARGUMENT, "n_batches is -2");
    const hs_evaluation_options own[] = {
        HS_INIT(hs_evaluation_options, .eval_op = "train"),
        HS_INIT(hs_evaluation_options, .reset_ops = global),
        HS_INIT(hs_evaluation_options, .summary_dir = "x"),
    };
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        hs_evaluation_options options = own[i];
        options.at_end = true;
        options.evaluate = own_way;
        stage_refuses(s, hs_evaluation_hook(&options), HS_INVALID_ARGUMENT, "evaluate excludes");
    }
    stage_refuses(s, hs_evaluation_hook(&(hs_evaluation_options){.at_end = true}), HS_INVALID_ARGUMENT,
                  "HS_INIT(hs_evaluation_options");
}

static void unknown_names_are_refused(void **state)
{
    stage *s = *state;
    const char *const *global = HS_NAMES("global_step");
    stage_refuses(s, hs_evaluation(.at_end = true, .metrics = HS_NAMES("lost")), HS_NOT_FOUND, "'lost'");
    stage_refuses(s, hs_evaluation(.at_end = true, .metrics = global, .eval_op = "lost"), HS_NOT_FOUND, "'lost'");
    stage_refuses(s, hs_evaluation(.at_end = true, .metrics = global, .reset_ops = HS_NAMES("lost")), HS_NOT_FOUND,
                  "'lost'");
}

/* One evaluation. */

static void it_clears_runs_and_fetches(void **state)
{
    subject x;
    build(&x, *state);
    open_one(&x, hs_evaluation(.every_n_steps = 2, .reset_ops = HS_NAMES("clear"), .eval_op = "batch", .n_batches = 3,
                               .metrics = HS_NAMES("metric:0")));
    stage_run(x.s, "train", 4, 0);
    assert_string_equal(x.ran, "train train clear batch batch batch metric train train clear batch batch batch metric");
    finish(&x);
}

static void it_writes_to_log_board_and_events(void **state)
{
    subject x;
    build(&x, *state);
    open_one(&x, hs_evaluation(.every_n_steps = 2, .eval_op = "batch", .n_batches = 2, .metrics = BOTH,
                               .summary_dir = x.s->directory));
    stage_run(x.s, "train", 1, 0);
    assert_true(is_silent(&x, "eval/accuracy"));
    stage_run(x.s, "train", 1, 0);
    assert_true(has_metric(&x, "eval/accuracy", 0.91, 2) && has_metric(&x, "eval/loss", 0.3, 2));
    assert_contains(x.s->t.log, "INFO: step 2: eval: accuracy = 0.91, loss = 0.3 (2 batches, 0.000 s)\n");
    stage_close(x.s);
    assert_contains(events_text(x.s->directory), "start@1 eval/accuracy=0.91@2 eval/loss=0.3@2");
    finish(&x);
}

static void the_line_has_the_step_the_metrics_and_the_time(void **state)
{
    subject x;
    build(&x, *state);
    x.step = 499;
    x.batch_secs = 0.03;
    open_one(&x, hs_evaluation(.every_n_steps = 1, .eval_op = "batch", .n_batches = 40, .metrics = BOTH));
    stage_run(x.s, "train", 1, 0);
    assert_contains(x.s->t.log, "INFO: step 500: eval: accuracy = 0.91, loss = 0.3 (40 batches, 1.20 s)\n");
    finish(&x);
}

static void without_a_batch_op_the_metrics_are_all(void **state)
{
    subject x;
    build(&x, *state);
    open_one(&x, hs_evaluation(.every_n_steps = 1, .metrics = HS_NAMES("loss")));
    stage_run(x.s, "train", 1, 0);
    assert_contains(x.s->t.log, "step 1: eval: loss = 0.3 (0.000 s)");
    finish(&x);
}

static void every_n_seconds(void **state)
{
    subject x;
    build(&x, *state);
    open_one(&x, hs_evaluation(.every_n_secs = 10, .metrics = HS_NAMES("loss")));
    stage_run(x.s, "train", 5, 6); /* at 0, 6, 12, 18 and 24 seconds */
    finish(&x);
    assert_int_equal(count_of(x.s->t.log, ": eval: "), 2);
    assert_contains(x.s->t.log, "step 3: eval: ");
    assert_contains(x.s->t.log, "step 5: eval: ");
}

static void several_data_sets_are_several_hooks(void **state)
{
    subject x;
    build(&x, *state);
    hs_hook hooks[] = {hs_evaluation(.every_n_steps = 1, .metrics = HS_NAMES("loss")),
                       hs_evaluation(.every_n_steps = 2, .metrics = HS_NAMES("loss"), .name = "test")};
    open_with(&x, hooks, 2);
    stage_run(x.s, "train", 3, 0);
    assert_true(has_metric(&x, "eval/loss", 0.3, 3) && has_metric(&x, "test/loss", 0.3, 2));
    finish(&x);
}

static void at_the_end_but_no_step_twice(void **state)
{
    subject x;
    build(&x, *state);
    open_one(&x, hs_evaluation(.every_n_steps = 2, .at_end = true, .metrics = HS_NAMES("loss")));
    stage_run(x.s, "train", 3, 0);
    stage_close(x.s);
    assert_int_equal(count_of(x.s->t.log, ": eval: "), 2);
    assert_contains(x.s->t.log, "step 3: eval: ");
    test_env_clear_log(&x.s->t);
    open_one(&x, hs_evaluation(.every_n_steps = 2, .at_end = true, .metrics = HS_NAMES("loss")));
    stage_run(x.s, "train", 2, 0);
    stage_close(x.s);
    assert_int_equal(count_of(x.s->t.log, "INFO: step 5: eval: "), 1);
    finish(&x);
}

static hs_code in_boundary(void *self, hs_run_context *run, hs_error *err)
{
    (void)self, (void)run, (void)err;
    return HS_OK;
}

static void its_runs_fire_no_hooks(void **state)
{
    static const hs_hook_ops ops = HS_INIT(hs_hook_ops, .name = "plain", .boundary = in_boundary);
    stage *s = *state;
    hs_script_op(s->script, "batch");
    hs_hook hooks[] = {
        hs_evaluation(.every_n_steps = 1, .eval_op = "batch", .n_batches = 2, .metrics = HS_NAMES("global_step")),
        hs_script_watch(s->script, NULL, HS_HOOK(.ops = &ops))};
    assert_ok(stage_try(s, hs_script_backend(s->script), hooks, 2), &s->err);
    hs_script_clear_calls(s->script);
    stage_run(s, "train", 1, 0);
    assert_string_equal(hs_script_calls(s->script), "before run after run run run boundary");
}

/* The end of the data. */

static void the_end_of_its_data_ends_the_evaluation(void **state)
{
    subject x;
    build(&x, *state);
    x.left = 3;
    open_one(&x, hs_evaluation(.every_n_steps = 1, .eval_op = "batch", .n_batches = HS_NEVER, .metrics = HS_NAMES("loss")));
    stage_run(x.s, "train", 1, 0);
    assert_contains(x.s->t.log, "step 1: eval: loss = 0.3 (3 batches, 0.000 s)");
    assert_false(hs_session_should_stop(x.s->session));
    x.left = 1;
    stage_run(x.s, "train", 1, 0);
    assert_contains(x.s->t.log, "step 2: eval: loss = 0.3 (1 batch, 0.000 s)");
    finish(&x);
}

static void without_batches_nothing_is_reported(void **state)
{
    subject x;
    build(&x, *state);
    x.left = 0;
    open_one(&x, hs_evaluation(.every_n_steps = 1, .eval_op = "batch", .metrics = HS_NAMES("loss")));
    stage_run(x.s, "train", 1, 0);
    assert_contains(x.s->t.log, "WARNING: step 1: eval: no batch to evaluate");
    assert_true(is_silent(&x, "eval/loss"));
    finish(&x);
}

static void metrics_without_data_do_not_end_the_training(void **state)
{
    subject x;
    build(&x, *state);
    x.metric_fails = HS_OUT_OF_RANGE;
    open_one(&x, hs_evaluation(.every_n_steps = 1, .metrics = HS_NAMES("metric:0")));
    assert_fails(stage_run_once(x.s, "train"), HS_FAILED_PRECONDITION, &x.s->err,
                 "the run of metrics reached the end of the input");
    assert_contains(x.s->err.message, "hook 'evaluation', boundary at step 1: 'eval'");
    hs_session_close(x.s->session, NULL);
    x.s->session = NULL;
    finish(&x);
}

/* Recovery. */

/* Has a boundary after every run; loses the session, once, at step 3. */
static hs_code lose(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    int *left = self;
    (void)values;
    hs_run_context_request_boundary(run);
    int64_t step = hs_run_context_global_step(run, err);
    return step != 3 || (*left)-- <= 0 ? err->code : hs_error_set(err, HS_ABORTED, "lost");
}

static void a_recovery_cancels_an_evaluation_that_was_due(void **state)
{
    static const hs_hook_ops losing = HS_INIT(hs_hook_ops, .name = "loser", .after_run = lose);
    static const hs_recovery recovery = HS_INIT(hs_recovery);
    subject x;
    int left = 1;
    build(&x, *state);
    hs_hook hooks[] = {
        hs_evaluation(.every_n_steps = 3, .metrics = HS_NAMES("loss")), {.ops = &losing, .self = &left}, {.ops = NULL}};
    hs_session_options options = HS_INIT(hs_session_options, .hooks = hooks, .recovery = &recovery);
    x.s->session = hs_session_open(hs_graph_backend(x.graph), &options, &x.s->err);
    assert_non_null(x.s->session);
    stage_run(x.s, "train", 5, 0);
    assert_contains(x.s->t.log, "step 0: recovered from a failure at step 3");
    finish(&x);
    assert_int_equal(count_of(x.s->t.log, ": eval: "), 1);
    assert_contains(x.s->t.log, "INFO: step 3: eval: ");
}

/* Stops. */

static void open_stopping(subject *x, stage *s, const char *in, int count)
{
    build(x, s);
    x->stops = in;
    x->stops_in = count;
    open_one(x, hs_evaluation(.every_n_steps = 1, .eval_op = "batch", .n_batches = 4, .metrics = HS_NAMES("loss")));
}

static void a_stop_between_batches_abandons_it(void **state)
{
    subject x;
    open_stopping(&x, *state, "batch", 2);
    stage_run(x.s, "train", 1, 0);
    assert_string_equal(x.ran, "train batch batch");
    assert_contains(x.s->t.log, "INFO: step 1: eval abandoned: a stop was requested");
    assert_true(is_silent(&x, "eval/loss"));
    assert_true(hs_session_should_stop(x.s->session));
    finish(&x);
}

static void a_stop_before_the_first_batch_does_too(void **state)
{
    subject x;
    open_stopping(&x, *state, "train", 1);
    stage_run(x.s, "train", 1, 0);
    assert_string_equal(x.ran, "train");
    assert_true(is_silent(&x, "eval/loss"));
    finish(&x);
}

static void a_stop_of_a_hook_at_the_last_step_does_not(void **state)
{
    subject x;
    build(&x, *state);
    hs_hook hooks[] = {hs_stop_at_step(.last_step = 2),
                       hs_evaluation(.every_n_steps = 2, .eval_op = "batch", .n_batches = 2, .metrics = HS_NAMES("loss"))};
    open_with(&x, hooks, 2);
    stage_run(x.s, "train", 2, 0);
    assert_true(has_metric(&x, "eval/loss", 0.3, 2));
    assert_true(hs_session_should_stop(x.s->session));
    finish(&x);
}

static void the_end_evaluates_after_a_stop(void **state)
{
    subject x;
    build(&x, *state);
    open_one(&x, hs_evaluation(.at_end = true, .eval_op = "batch", .n_batches = 2, .metrics = HS_NAMES("loss")));
    stage_run(x.s, "train", 1, 0);
    hs_session_interrupt(x.s->session);
    stage_close(x.s);
    assert_string_equal(x.ran, "train batch batch");
    finish(&x);
}

/* The program's function. */

static void the_program_may_evaluate(void **state)
{
    subject x;
    hs_code code = HS_OUT_OF_RANGE;
    build(&x, *state);
    open_one(&x, hs_evaluation(.every_n_steps = 1, .evaluate = own_way, .user = &code));
    stage_run(x.s, "train", 1, 0);
    assert_true(has_metric(&x, "own", 5, 1));
    assert_false(hs_session_should_stop(x.s->session));
    code = HS_UNAVAILABLE;
    assert_fails(stage_run_once(x.s, "train"), HS_UNAVAILABLE, &x.s->err, "boundary at step 2: 'eval': it went wrong");
    hs_session_close(x.s->session, NULL);
    x.s->session = NULL;
    finish(&x);
}

/* The schedule. */

static void train_to(stage *s, int64_t last)
{
    subject x;
    build(&x, s);
    hs_hook hooks[] = {hs_stop_at_step(.last_step = last),
                       hs_evaluation(.every_n_steps = 4, .metrics = HS_NAMES("loss")),
                       hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 100),
                       {.ops = NULL}};
    hs_session_options options = HS_INIT(hs_session_options, .hooks = hooks, .checkpoint_dir = s->directory);
    s->session = hs_session_open(hs_graph_backend(x.graph), &options, &s->err);
    while (!hs_session_should_stop(s->session))
        assert_ok(stage_run_once(s, "train"), &s->err);
    finish(&x);
}

static void a_resumed_run_continues_the_schedule(void **state)
{
    stage *s = *state;
    train_to(s, 6);
    train_to(s, 9);
    assert_int_equal(count_of(s->t.log, ": eval: "), 2);
    assert_contains(s->t.log, "step 4: eval: ");
    assert_contains(s->t.log, "step 8: eval: ");
}

/* Failing. */

static hs_code each_scenario(test_env *t, void *user)
{
    hs_error err = {0};
    hs_script *script = hs_script_new(&t->env);
    (void)user;
    if (!script)
        return HS_RESOURCE_EXHAUSTED;
    hs_code code = hs_script_op(script, "batch");
    hs_hook hook = hs_evaluation(.every_n_steps = 1, .eval_op = "batch", .n_batches = 2, .reset_ops = HS_NAMES("batch"),
                                 .metrics = HS_NAMES("global_step"));
    hs_session_options options = HS_INIT(hs_session_options, .hooks = HS_HOOKS(hook));
    hs_session *session = hs_session_open(hs_script_backend(script), &options, &err);
    if (!code)
        code = session ? hs_session_run(session, "train", &err) : err.code;
    hs_session_close(session, NULL);
    hs_script_free(script);
    return code;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    test_each_allocation(each_scenario, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_stage(invalid_options_are_refused),
        with_stage(unknown_names_are_refused),
        with_stage(it_clears_runs_and_fetches),
        with_stage(it_writes_to_log_board_and_events),
        with_stage(the_line_has_the_step_the_metrics_and_the_time),
        with_stage(without_a_batch_op_the_metrics_are_all),
        with_stage(every_n_seconds),
        with_stage(several_data_sets_are_several_hooks),
        with_stage(at_the_end_but_no_step_twice),
        with_stage(its_runs_fire_no_hooks),
        with_stage(the_end_of_its_data_ends_the_evaluation),
        with_stage(without_batches_nothing_is_reported),
        with_stage(metrics_without_data_do_not_end_the_training),
        with_stage(a_recovery_cancels_an_evaluation_that_was_due),
        with_stage(a_stop_between_batches_abandons_it),
        with_stage(a_stop_before_the_first_batch_does_too),
        with_stage(a_stop_of_a_hook_at_the_last_step_does_not),
        with_stage(the_end_evaluates_after_a_stop),
        with_stage(the_program_may_evaluate),
        with_stage(a_resumed_run_continues_the_schedule),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
