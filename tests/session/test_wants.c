/* SPDX-License-Identifier: Apache-2.0 */
/* Which values a step of the program must compute (hs_session_wants), the steps that have computed them
 * (hs_raw_session_computed_at), and what hooks do with a value of an earlier step. */
#include "session/own.h"
#include "summary/events.h"

#include <hooksess/testing.h>

/* The loop's loss is elsewhere: a step copies it only if a hook reads it. It is the number of the step. */

static void note(char *to, size_t bytes, int64_t number)
{
    const size_t used = strlen(to);
    snprintf(to + used, bytes - used, " %lld", (long long)number);
}

/* Makes `n` steps. Returns the steps in which the loss was wanted. */
static const char *steps_that_want(own *o, int n)
{
    static char steps[512];
    steps[0] = '\0';
    for (int i = 0; i < n && hs_step_begin(o->session); i++) {
        const int64_t step = hs_session_global_step(o->session, NULL) + 1;
        const bool wants = hs_session_wants(o->session, "loss");
        assert_int_equal(hs_session_wants(o->session, "loss:0"), wants);
        o->weight++;
        if (wants) {
            o->loss = (double)step;
            note(steps, sizeof steps, step);
        }
        test_env_advance(&o->t, 4);
        hs_step_end(o->session);
    }
    return steps;
}

/* Makes a step that computes the loss without the question. */
static hs_code compute_always(own *o)
{
    assert_true(hs_step_begin(o->session));
    o->loss = (double)(hs_session_global_step(o->session, NULL) + 1);
    return hs_step_end(o->session);
}

static int64_t age(const own *o, const char *tensor)
{
    return hs_raw_session_computed_at(hs_session_raw(o->session), tensor);
}

static hs_code has_its_step(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)self;
    const int64_t step = hs_run_context_global_step(run, err);
    assert_true(hs_run_values_number(values, 0) == (double)step);
    assert_int_equal(hs_raw_session_computed_at(hs_run_context_session(run), "loss"), step);
    return HS_OK;
}

static const hs_hook_ops fetching =
    HS_INIT(hs_hook_ops, .name = "fetching", .fetches = HS_NAMES("loss"), .after_run = has_its_step);

static void a_step_wants_what_the_hooks_that_are_due_fetch(void **state)
{
    own *o = *state;
    const hs_hook hooks[] = {hs_logging_tensor(.tensors = HS_NAMES("weight", "loss"), .when = HS_EVERY_STEPS(3)),
                             HS_HOOK(.ops = &fetching, .when = HS_TRIGGER(.every_n_steps = 4, .at_steps = HS_STEPS(7)))};
    own_open(o, NULL, hooks, 2);
    assert_string_equal(steps_that_want(o, 12), " 3 4 6 7 8 9 12");
    assert_contains(o->t.log, "INFO: step 9: weight = 9, loss = 9 (");
    assert_lacks(o->t.log, "not computed");
}

static void a_step_wants_what_hooks_fetch_by_the_clock(void **state)
{
    own *o = *state;
    own_open_hook(o, HS_HOOK(.ops = &fetching, .when = HS_EVERY_SECS(10)));
    assert_string_equal(steps_that_want(o, 12), " 4 7 10"); /* each step takes 4 s */
}

static void a_step_wants_nothing_without_hooks_and_everything_with_a_hook_of_each_run(void **state)
{
    own *o = *state;
    own_open(o, NULL, NULL, 0);
    assert_string_equal(steps_that_want(o, 3), "");
    own_close(o);
    own_open_hook(o, hs_nan_tensor(.tensor = "loss"));
    assert_string_equal(steps_that_want(o, 3), " 1 2 3");
}

/* One hook decides in before_run. The other one fetches the value after the run. */

static const hs_run_args nested =
    HS_INIT(hs_run_args, .fetches = HS_DICT({"a", HS_LEAF("weight")}, {"b", HS_LIST(HS_LEAF("loss:0"))}));

static hs_code fetch_in_fourth(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    (void)self;
    if (hs_run_context_global_step(run, err) == 3)
        *args = &nested;
    return HS_OK;
}

static hs_code fetch_late(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)self, (void)values;
    return hs_raw_session_run(hs_run_context_session(run), HS_RUN_ARGS(.names = HS_NAMES("loss")), NULL, err);
}

static const hs_hook_ops deciding = HS_INIT(hs_hook_ops, .name = "deciding", .before_run = fetch_in_fourth);
static const hs_hook_ops late = HS_INIT(hs_hook_ops, .name = "late", .after_run = fetch_late);

static void only_requests_up_to_before_run_count(void **state)
{
    own *o = *state;
    const hs_run_values *values;
    const hs_hook hooks[] = {HS_HOOK(.ops = &deciding), HS_HOOK(.ops = &late)};
    own_open(o, NULL, hooks, 2);
    assert_string_equal(steps_that_want(o, 2), "");
    assert_true(hs_step_begin(o->session));
    assert_false(hs_session_wants(o->session, "loss"));
    assert_ok(hs_raw_session_run(hs_session_raw(o->session), HS_RUN_ARGS(.names = HS_NAMES("loss")), &values, &o->err),
              &o->err);
    assert_false(hs_session_wants(o->session, "loss"));
    hs_step_end(o->session);
    assert_int_equal(age(o, "loss"), -1);
    assert_string_equal(steps_that_want(o, 2), " 4");
}

/* Ops. */

static hs_code one(void *self, hs_op *op, hs_error *err)
{
    (void)self, (void)err;
    *(double *)hs_op_output(op, 0)->data = 1;
    return HS_OK;
}

static bool wants_with_fetch(own *o, const char *fetch, const char *value)
{
    const char *names[] = {fetch, NULL};
    const hs_run_args args = HS_INIT(hs_run_args, .names = names);
    own_probe(o, a, .wants = &args);
    own_open_hook(o, probe_hook(&o->a));
    assert_true(hs_step_begin(o->session));
    const bool wants = hs_session_wants(o->session, value);
    hs_step_end(o->session);
    own_close(o);
    assert_ok(o->outcome.error.code, &o->outcome.error);
    return wants;
}

static void a_step_wants_what_the_fetched_ops_read(void **state)
{
    own *o = *state;
    double twin = 0;
    const hs_output_def *number = HS_OUTPUTS({.dtype = HS_DOUBLE});
    hs_graph_value(o->graph, "other", HS_DOUBLE, HS_SCALAR, &twin);
    hs_graph_value(o->graph, "twin", HS_DOUBLE, HS_SCALAR, &twin); /* the same memory */
    hs_graph_op(o->graph, .name = "first", .run = one, .inputs = HS_NAMES("loss"), .outputs = number);
    hs_graph_op(o->graph, .name = "second", .run = one, .inputs = HS_NAMES("first", "weight"), .outputs = number);
    hs_graph_op(o->graph, .name = "third", .run = one, .inputs = HS_NAMES("weight"), .outputs = number,
                .control_inputs = HS_NAMES("first"));
    hs_graph_op(o->graph, .name = "apart", .run = one, .inputs = HS_NAMES("weight"), .outputs = number);
    hs_graph_op(o->graph, .name = "hidden", .run = one, .outputs = number);
    hs_graph_op(o->graph, .name = "group", .control_inputs = HS_NAMES("apart"));
    hs_graph_summary(o->graph, HS_SUMMARY_SCALAR, .name = "loss", .tensor = "loss");
    hs_graph_summary(o->graph, HS_SUMMARY_SCALAR, .name = "weight", .tensor = "weight");
    assert_true(wants_with_fetch(o, "first", "loss"));
    assert_true(wants_with_fetch(o, "second", "loss"));
    assert_true(wants_with_fetch(o, "third", "loss"));
    assert_false(wants_with_fetch(o, "apart", "loss"));
    assert_false(wants_with_fetch(o, "group", "loss"));
    assert_true(wants_with_fetch(o, "summary/loss", "loss"));
    assert_false(wants_with_fetch(o, "summary/weight", "loss"));
    assert_true(wants_with_fetch(o, "hidden", "loss")); /* it lists no inputs: it may read any memory */
    assert_false(wants_with_fetch(o, "second", "other"));
    assert_true(wants_with_fetch(o, "twin", "other"));
    assert_false(wants_with_fetch(o, "twin", "loss"));
}

static void summaries_have_the_loss_of_their_step(void **state)
{
    own *o = *state;
    hs_graph_summary(o->graph, HS_SUMMARY_SCALAR, .name = "loss", .tensor = "loss");
    own_open_hook(o, hs_summary_saver(.summary_ops = HS_NAMES("summary/loss"), .summary_dir = o->directory,
                                      .when = HS_TRIGGER(.every_n_steps = 2, .last = true)));
    assert_string_equal(steps_that_want(o, 5), " 2 4");
    own_close(o);
    assert_contains(events_text(o->directory), "loss=2@2 loss=4@4");
    assert_lacks(events_text(o->directory), "@5"); /* the hook's last act, which no step could know */
}

static void summaries_lack_a_loss_of_another_state(void **state)
{
    own *o = *state;
    hs_state_copy *copy = NULL;
    hs_graph_summary(o->graph, HS_SUMMARY_SCALAR, .name = "loss", .tensor = "loss");
    own_open_hook(o, hs_summary_saver(.summary_ops = HS_NAMES("summary/loss"), .summary_dir = o->directory,
                                      .when = HS_TRIGGER(.at_steps = HS_STEPS(2), .last = true)));
    compute_always(o);
    assert_ok(hs_raw_session_copy_state(hs_session_raw(o->session), &copy, &o->err), &o->err);
    compute_always(o);
    assert_ok(hs_raw_session_restore_copy(hs_session_raw(o->session), copy, &o->err), &o->err);
    hs_state_copy_free(copy);
    own_close(o);
    assert_contains(events_text(o->directory), "loss=2@2");
    assert_lacks(events_text(o->directory), "loss=2@1");
}

/* Answers that do not depend on hooks. */

static void the_answer_is_true_outside_of_an_own_step(void **state)
{
    own *o = *state;
    assert_true(hs_session_wants(NULL, "loss"));
    own_open(o, NULL, NULL, 0);
    assert_true(hs_session_wants(o->session, "loss"));
    assert_true(hs_step_begin(o->session));
    assert_false(hs_session_wants(o->session, "loss"));
    hs_step_end(o->session);
    assert_true(hs_session_wants(o->session, "loss"));
}

static void a_name_that_is_not_a_value_is_wanted_and_logged_once(void **state)
{
    own *o = *state;
    own_open(o, NULL, NULL, 0);
    test_env_clear_log(&o->t);
    for (int i = 0; i < 2; i++) {
        assert_true(hs_step_begin(o->session));
        assert_true(hs_session_wants(o->session, "los"));
        assert_true(hs_session_wants(o->session, "weight"));
        assert_true(hs_session_wants(o->session, NULL));
        hs_step_end(o->session);
    }
    assert_string_equal(o->t.log, "WARNING: hs_session_wants: 'los' is not a value of the graph (hs_graph_value), so the "
                                  "answer is always true\n");
}

/* Ages. */

static hs_code five(void *self, hs_op *op, hs_error *err)
{
    (void)op, (void)err;
    *(double *)self = 5;
    return HS_OK;
}

static void a_declined_value_keeps_its_age(void **state)
{
    own *o = *state;
    char ages[256] = "";
    own_open_hook(o, HS_HOOK(.ops = &fetching, .when = HS_EVERY_STEPS(3)));
    assert_int_equal(age(o, "loss"), -1);
    for (int i = 0; i < 8; i++) {
        steps_that_want(o, 1);
        note(ages, sizeof ages, age(o, "loss"));
    }
    assert_string_equal(ages, " -1 -1 3 3 3 6 6 6");
    compute_always(o); /* computes it without the question */
    assert_int_equal(age(o, "loss"), 9);
    assert_int_equal(age(o, "loss:0"), 9);
    assert_int_equal(age(o, "weight"), 9);
    assert_int_equal(age(o, "no such tensor"), 9);
}

static void a_discarded_step_leaves_the_age_of_a_declined_value(void **state)
{
    own *o = *state;
    const hs_hook hooks[] = {HS_HOOK(.ops = &fetching, .when = HS_EVERY_STEPS(3)),
                             hs_logging_tensor(.tensors = HS_NAMES("loss"), .at_end = true)};
    own_open(o, NULL, hooks, 2);
    steps_that_want(o, 4);
    assert_true(hs_step_begin(o->session));
    assert_false(hs_session_wants(o->session, "loss"));
    assert_int_equal(age(o, "loss"), 3);
    own_close(o);
    assert_contains(o->t.log, "INFO: step 4: loss = not computed in this step");
}

static void after_an_evaluation_the_age_is_that_of_the_last_step(void **state)
{
    own *o = *state;
    hs_state_copy *copy = NULL;
    const hs_run_args evaluation = HS_INIT(hs_run_args, .kind = HS_RUN_EVAL, .names = HS_NAMES("weight"));
    own_open_hook(o, hs_logging_tensor(.tensors = HS_NAMES("loss"), .when = HS_EVERY_STEPS(3), .at_end = true));
    steps_that_want(o, 3);
    assert_ok(hs_raw_session_copy_state(hs_session_raw(o->session), &copy, &o->err), &o->err);
    assert_ok(hs_raw_session_restore_copy(hs_session_raw(o->session), copy, &o->err), &o->err);
    hs_state_copy_free(copy);
    assert_ok(hs_session_run_args(o->session, &evaluation, NULL, &o->err), &o->err);
    assert_int_equal(age(o, "loss"), -1);
    steps_that_want(o, 1);
    assert_ok(hs_session_run_args(o->session, &evaluation, NULL, &o->err), &o->err);
    own_close(o);
    assert_contains(o->t.log, "INFO: step 4: loss = not computed in this step");
}

static void a_summary_has_a_value_that_is_fed(void **state)
{
    own *o = *state;
    const double rate = 7;
    const hs_tensor value = hs_tensor_of(HS_DOUBLE, HS_SCALAR, &rate);
    const hs_run_values *values;
    hs_graph_op(o->graph, .name = "measure", .run = five, .user = &o->loss, .writes = HS_NAMES("loss"));
    hs_graph_summary(o->graph, HS_SUMMARY_SCALAR, .name = "loss", .tensor = "loss");
    own_open(o, NULL, NULL, 0);
    assert_ok(hs_raw_session_run(hs_session_raw(o->session),
                                 HS_RUN_ARGS(.names = HS_NAMES("summary/loss"), .feeds = HS_FEEDS({"loss", value})),
                                 &values, &o->err),
              &o->err);
    const hs_string *summary = hs_run_values_tensor(values, 0)->data;
    assert_true(summary->bytes > 0);
}

static void an_age_is_unknown_after_opening_restore_and_rollback(void **state)
{
    own *o = *state;
    hs_state_copy *copy = NULL;
    const hs_hook hooks[] = {HS_HOOK(.ops = &fetching, .when = HS_EVERY_STEPS(3)),
                             hs_checkpoint_saver(.checkpoint_dir = o->directory, .every_n_steps = 4)};
    own_open(o, HS_SESSION_OPTIONS(.checkpoint_dir = o->directory), hooks, 2);
    steps_that_want(o, 2);
    assert_ok(hs_raw_session_copy_state(hs_session_raw(o->session), &copy, &o->err), &o->err);
    steps_that_want(o, 2);
    assert_int_equal(age(o, "loss"), 3);
    assert_ok(hs_raw_session_restore_copy(hs_session_raw(o->session), copy, &o->err), &o->err); /* to step 2 */
    hs_state_copy_free(copy);
    assert_int_equal(age(o, "loss"), -1);
    compute_always(o);
    compute_always(o); /* step 4 had declined it before the rollback */
    assert_int_equal(age(o, "loss"), 4);
    own_close(o);
    const hs_hook again = hs_checkpoint_saver(.checkpoint_dir = o->directory, .every_n_steps = 4);
    own_open(o, HS_SESSION_OPTIONS(.checkpoint_dir = o->directory), &again, 1);
    assert_int_equal(hs_session_global_step(o->session, NULL), 4);
    assert_int_equal(age(o, "loss"), -1);
    steps_that_want(o, 1);
    assert_int_equal(age(o, "loss"), -1);
    compute_always(o);
    assert_int_equal(age(o, "loss"), 6);
}

static void an_age_is_unknown_after_a_recovery(void **state)
{
    own *o = *state;
    o->recovery = (hs_recovery)HS_INIT(hs_recovery);
    own_probe(o, a, .fails_in = PROBE_AFTER, .fails_at = 3, .code = HS_UNAVAILABLE);
    own_open_probes(o, NULL);
    assert_string_equal(steps_that_want(o, 2), "");
    assert_int_equal(compute_always(o), HS_ABORTED);
    assert_int_equal(hs_session_global_step(o->session, NULL), 0);
    assert_int_equal(age(o, "loss"), -1);
    compute_always(o); /* step 1, which had declined it before */
    assert_int_equal(age(o, "loss"), 1);
}

/* Hooks that read a value which no step could know of. */

static void write_line(void *user, const hs_run_values *values, char *text, size_t bytes)
{
    (void)user;
    snprintf(text, bytes, "formatted %g", hs_run_values_number(values, 0));
}

static void hooks_skip_a_value_of_an_earlier_step(void **state)
{
    own *o = *state;
    hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.max_to_keep = 1, .keep_best = 2, .env = &o->t.env), &o->err);
    const hs_hook hooks[] = {
        HS_HOOK(.ops = &fetching, .when = HS_EVERY_STEPS(2)),
        hs_logging_tensor(.tensors = HS_NAMES("loss", "weight"), .at_end = true),
        hs_logging_tensor(.tensors = HS_NAMES("loss"), .at_end = true, .formatter = write_line),
        hs_metrics_file(.path = test_path(o->directory, "rows.csv"), .tensors = HS_NAMES("loss", "weight"),
                        .when = HS_TRIGGER(.at_steps = HS_STEPS(2), .last = true)),
        hs_scalars(.summary_dir = o->directory, .tensors = HS_NAMES("loss"),
                   .when = HS_TRIGGER(.at_steps = HS_STEPS(2), .last = true)),
        hs_checkpoint_saver(.checkpoint_dir = o->directory, .every_n_steps = 1, .saver = saver, .metric = "loss")};
    own_open(o, NULL, hooks, 6);
    assert_string_equal(steps_that_want(o, 3), " 2");
    own_close(o);
    char *rows = test_read_file(test_path(o->directory, "rows.csv"), NULL);
    char *names = test_read_file(test_path(o->directory, "checkpoint"), NULL);
    assert_contains(rows, ",2,2\n");
    assert_contains(rows, ",,3\n"); /* the weight is that of the last step */
    assert_contains(o->t.log, "INFO: step 3: loss = not computed in this step, weight = 3");
    assert_lacks(o->t.log, "formatted");
    assert_contains(events_text(o->directory), "loss=2@2");
    assert_lacks(events_text(o->directory), "loss=2@3");
    assert_contains(names, "# metric: 4000000000000000 model.ckpt-2\n");
    assert_null(strstr(strstr(names, "# metric: ") + 1, "# metric: "));
    assert_contains(o->t.log, "DEBUG: step 3: saved without the metric 'loss', which was not computed in this step");
    assert_lacks(o->t.log, "keep_best ignores");
    free(rows);
    free(names);
    hs_saver_free(saver);
}

/* An evaluation that reads a value which the loop did not copy, and one whose op computes its value. */
static void an_evaluation_reports_no_value_of_an_earlier_step(void **state)
{
    own *o = *state;
    double score = 0;
    hs_graph_value(o->graph, "score", HS_DOUBLE, HS_SCALAR, &score);
    hs_graph_op(o->graph, .name = "evaluate", .run = five, .user = &score, .writes = HS_NAMES("score"));
    const hs_hook hooks[] = {HS_HOOK(.ops = &fetching, .when = HS_EVERY_STEPS(2)),
                             hs_evaluation(.metrics = HS_NAMES("loss"), .every_n_steps = 1),
                             hs_evaluation(.name = "scored", .metrics = HS_NAMES("score"), .eval_op = "evaluate",
                                           .n_batches = 1, .at_end = true),
                             hs_logging_tensor(.tensors = HS_NAMES("score"), .at_end = true)};
    own_open(o, NULL, hooks, 4);
    assert_string_equal(steps_that_want(o, 2), " 2");
    assert_true(hs_step_begin(o->session));
    assert_false(hs_session_wants(o->session, "score"));
    assert_false(hs_session_wants(o->session, "loss"));
    hs_step_end(o->session);
    own_close(o);
    assert_contains(o->t.log, "WARNING: step 1: eval: 'loss' was not computed in this step");
    assert_contains(o->t.log, "INFO: step 2: eval: loss = 2");
    assert_contains(o->t.log, "WARNING: step 3: eval: 'loss' was not computed in this step");
    assert_lacks(o->t.log, "step 3: eval: loss");
    assert_contains(o->t.log, "INFO: step 3: scored: score = 5");
    assert_contains(o->t.log, "INFO: step 3: score = 5");
}

static void a_saver_whose_steps_never_compute_the_metric_says_so(void **state)
{
    own *o = *state;
    own_open_hook(o, hs_checkpoint_saver(.checkpoint_dir = o->directory, .every_n_steps = 2, .metric = "loss"));
    assert_string_equal(steps_that_want(o, 4), "");
    own_close(o);
    assert_contains(o->t.log, "WARNING: keep_best ignores the checkpoints of this session: metric 'loss' was computed in "
                              "none of the saved steps (hs_session_wants)");
}

static void progress_shows_no_value_of_an_earlier_step(void **state)
{
    own *o = *state;
    FILE *out = tmpfile();
    char text[512] = "";
    assert_non_null(out);
    own_open_hook(o, hs_progress(.descriptor = fileno(out), .tensors = HS_NAMES("loss", "weight"),
                                 .when = HS_TRIGGER(.at_steps = HS_STEPS(2), .last = true)));
    assert_string_equal(steps_that_want(o, 3), " 2");
    own_close(o);
    rewind(out);
    assert_true(fread(text, 1, sizeof text - 1, out) > 0);
    fclose(out);
    assert_contains(text, "loss = 2, weight = 2");
    assert_contains(text, ", weight = 3");
    assert_null(strstr(strstr(text, "loss") + 1, "loss"));
}

/* Runs of ops compute what the ops list. */

typedef struct {
    double d, g, rate, error;
    int64_t step;
} pair;

static hs_code add_one(void *self, hs_op *op, hs_error *err)
{
    (void)op, (void)err;
    ++*(double *)self;
    return HS_OK;
}

static hs_code advance_by_hand(void *self, hs_op *op, hs_error *err)
{
    (void)op, (void)err;
    pair *p = self;
    p->step += 2;
    p->d++;
    return HS_OK;
}

static hs_code stop(void *self, hs_op *op, hs_error *err)
{
    (void)self, (void)op, (void)err;
    return HS_STOP;
}

static void add_ops(own *o, pair *p)
{
    hs_graph_value(o->graph, "d", HS_DOUBLE, HS_SCALAR, &p->d);
    hs_graph_value(o->graph, "g", HS_DOUBLE, HS_SCALAR, &p->g);
    hs_graph_value(o->graph, "rate", HS_DOUBLE, HS_SCALAR, &p->rate);
    hs_graph_value(o->graph, "error", HS_DOUBLE, HS_SCALAR, &p->error);
    hs_graph_op(o->graph, .name = "train_d", .run = add_one, .user = &p->d, .writes = HS_NAMES("d"), .advances_step = true);
    hs_graph_op(o->graph, .name = "train_g", .run = add_one, .user = &p->g, .writes = HS_NAMES("g"), .advances_step = true);
    hs_graph_op(o->graph, .name = "evaluate", .run = add_one, .user = &p->error, .writes = HS_NAMES("error"));
    hs_graph_op(o->graph, .name = "any", .run = add_one, .user = &p->rate, .advances_step = true);
    hs_graph_summary(o->graph, HS_SUMMARY_SCALAR, .name = "d", .tensor = "d");
    hs_graph_summary(o->graph, HS_SUMMARY_SCALAR, .name = "g", .tensor = "g");
    assert_ok(hs_graph_error(o->graph, &o->err), &o->err);
}

static void run(own *o, const char *op)
{
    assert_ok(hs_session_run(o->session, op, &o->err), &o->err);
}

static const char *ages(const own *o)
{
    static char text[128];
    text[0] = '\0';
    for (const char *const *name = HS_NAMES("d", "g", "rate", "error"); *name; name++)
        note(text, sizeof text, age(o, *name));
    return text;
}

static void a_run_computes_the_values_that_its_ops_list(void **state)
{
    own *o = *state;
    pair p = {0};
    add_ops(o, &p);
    own_open(o, NULL, NULL, 0);
    assert_string_equal(ages(o), " -1 -1 -1 -1");
    run(o, "train_d");
    assert_string_equal(ages(o), " 1 -1 1 -1"); /* no op lists the rate */
    run(o, "train_g");
    assert_string_equal(ages(o), " 1 2 2 -1");
    assert_ok(hs_raw_session_run(hs_session_raw(o->session), HS_RUN_ARGS(.names = HS_NAMES("evaluate")), NULL, &o->err),
              &o->err);
    assert_string_equal(ages(o), " 1 2 2 2");
    run(o, "train_d");
    assert_string_equal(ages(o), " 3 2 3 2");
    run(o, "any"); /* it lists nothing, and may write all */
    assert_string_equal(ages(o), " 4 4 4 4");
    run(o, "train_g");
    assert_string_equal(ages(o), " 4 5 5 4");
}

static hs_code evaluate_once(void *user, const hs_scaffold *scaffold, hs_raw_session *session, hs_error *err)
{
    (void)user, (void)scaffold;
    return hs_raw_session_run(session, HS_RUN_ARGS(.names = HS_NAMES("evaluate")), NULL, err);
}

static void a_run_that_initializes_computes_no_value(void **state)
{
    own *o = *state;
    pair p = {0};
    add_ops(o, &p);
    hs_scaffold *scaffold = hs_scaffold_new(HS_SCAFFOLD_OPTIONS(.init_fn = evaluate_once, .env = &o->t.env), &o->err);
    own_open(o, HS_SESSION_OPTIONS(.scaffold = scaffold, .take_scaffold = true), NULL, 0);
    assert_true(p.error == 1);
    assert_string_equal(ages(o), " -1 -1 -1 -1");
}

static void a_run_that_fails_before_it_advances_computes_no_later_step(void **state)
{
    own *o = *state;
    pair p = {0};
    add_ops(o, &p);
    hs_graph_op(o->graph, .name = "stop", .run = stop, .control_inputs = HS_NAMES("evaluate"), .writes = HS_NAMES("g"),
                .advances_step = true);
    own_open(o, NULL, NULL, 0);
    run(o, "train_d");
    assert_int_equal(hs_session_run(o->session, "stop", &o->err), HS_STOP);
    assert_string_equal(ages(o), " 1 -1 1 1");
}

static void an_op_that_changes_the_step_itself_computes_values_of_the_new_step(void **state)
{
    own *o = *state;
    pair p = {0};
    hs_graph *graph = hs_graph_new(&o->t.env);
    hs_graph_global_step(graph, NULL, &p.step);
    hs_graph_value(graph, "d", HS_DOUBLE, HS_SCALAR, &p.d);
    hs_graph_op(graph, .name = "train", .run = advance_by_hand, .user = &p, .writes = HS_NAMES("d", "global_step"));
    o->session = hs_session_open(hs_graph_backend(graph), NULL, &o->err);
    assert_non_null(o->session);
    run(o, "train");
    run(o, "train");
    assert_int_equal(age(o, "d"), 4);
    assert_ok(hs_raw_session_run(hs_session_raw(o->session), HS_RUN_ARGS(.names = HS_NAMES("d")), NULL, &o->err), &o->err);
    assert_int_equal(age(o, "d"), 4);
    own_close(o);
    hs_graph_free(graph);
}

static hs_code update_after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)self, (void)values;
    return hs_raw_session_run(hs_run_context_session(run), HS_RUN_ARGS(.names = HS_NAMES("train_g")), NULL, err);
}

/* As hs_finite_guard with update_op. */
static void a_run_whose_hook_advances_the_step_computes_values_of_the_new_step(void **state)
{
    static const hs_hook_ops update = HS_INIT(hs_hook_ops, .name = "update", .after_run = update_after_run);
    own *o = *state;
    pair p = {0};
    add_ops(o, &p);
    hs_graph_op(o->graph, .name = "forward", .run = add_one, .user = &p.d, .writes = HS_NAMES("d"));
    own_open_hook(o, HS_HOOK(.ops = &update));
    run(o, "evaluate");
    assert_string_equal(ages(o), " -1 1 1 1");
    run(o, "forward");
    assert_string_equal(ages(o), " 2 2 2 1");
    run(o, "forward");
    assert_string_equal(ages(o), " 3 3 3 1");
}

static void rows_and_summaries_lack_the_values_of_other_steps(void **state)
{
    own *o = *state;
    pair p = {.rate = 7};
    add_ops(o, &p);
    const hs_hook hooks[] = {hs_metrics_file(.path = test_path(o->directory, "rows.csv"),
                                             .tensors = HS_NAMES("d", "g", "rate"), .every_n_steps = 1),
                             hs_summary_saver(.summary_ops = HS_NAMES("summary/d", "summary/g"),
                                              .summary_dir = o->directory, .every_n_steps = 1),
                             hs_early_stopping(.tensor = "g", .patience = 1, .larger_is_better = true)};
    own_open(o, NULL, hooks, 3);
    for (int i = 0; i < 3; i++) {
        run(o, "train_d");
        run(o, "train_g");
    }
    assert_false(hs_session_should_stop(o->session)); /* the runs of train_d are not steps without an improvement */
    own_close(o);
    char *rows = test_read_file(test_path(o->directory, "rows.csv"), NULL);
    assert_contains(rows, ",1,,7\n");
    assert_contains(rows, ",,1,7\n");
    assert_contains(rows, ",3,,7\n");
    assert_contains(rows, ",,3,7\n");
    free(rows);
    assert_contains(events_text(o->directory), "d=1@1 g=1@2 d=2@3 g=2@4 d=3@5 g=3@6");
}

/* Groups: the answers on all ranks. */

enum { RANKS = 3 };

typedef struct {
    char wanted[RANKS][256], ages[RANKS][256];
    bool is_lost, failed[RANKS];
} team;

static hs_code lose(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    bool *is_lost = self;
    (void)values, (void)err;
    if (!*is_lost || hs_run_context_global_step(run, NULL) != 6)
        return HS_OK;
    *is_lost = false;
    return HS_UNAVAILABLE;
}

static const hs_hook_ops losing = HS_INIT(hs_hook_ops, .name = "losing", .after_run = lose);
static const hs_hook_ops reading = HS_INIT(hs_hook_ops, .name = "reading", .fetches = HS_NAMES("loss"));

/* Only rank 0's clock decides, in which a step takes 4 s. */
static int run_rank(void *user, const hs_group *group)
{
    team *t = user;
    const int32_t rank = group->ops->rank(group->self);
    double weight = 0, loss = 0;
    hs_error err;
    bool is_lost = t->is_lost && rank == 1;
    hs_test_system *system = hs_test_system_new();
    hs_env env = *hs_simulation_env(group);
    env.clock = hs_test_system_env(system)->clock;
    hs_graph *graph = hs_graph_new(&env);
    hs_graph_variable(graph, "weight", HS_DOUBLE, HS_SCALAR, &weight);
    hs_graph_value(graph, "loss", HS_DOUBLE, HS_SCALAR, &loss);
    hs_graph_global_step(graph, NULL, NULL);
    hs_session_options options = HS_INIT(
        hs_session_options, .group = group, .recovery = HS_RECOVERY(.max_attempts = 3),
        .hooks = HS_HOOKS(HS_HOOK(.ops = &reading, .when = HS_EVERY_SECS(10)), HS_HOOK(.ops = &losing, .self = &is_lost),
                          HS_HOOK(.ops = &reading, .flags = HS_HOOK_TRAIN | HS_HOOK_CHIEF_ONLY,
                                  .when = HS_TRIGGER(.at_steps = HS_STEPS(9)))));
    hs_session *session = hs_session_open(hs_graph_backend(graph), &options, &err);
    t->failed[rank] = !session;
    while (hs_session_global_step(session, NULL) < 12 && hs_step_begin(session)) {
        const int64_t step = hs_session_global_step(session, NULL) + 1;
        if (hs_session_wants(session, "loss"))
            note(t->wanted[rank], sizeof t->wanted[rank], step);
        hs_test_system_advance(system, rank == 0 ? 4 : 50);
        hs_step_end(session);
        note(t->ages[rank], sizeof t->ages[rank], hs_raw_session_computed_at(hs_session_raw(session), "loss"));
    }
    const hs_outcome outcome = hs_session_close(session, NULL);
    t->failed[rank] |= outcome.error.code != HS_OK;
    hs_graph_free(graph);
    hs_test_system_free(system);
    return 0;
}

static void run_team(team *t, uint64_t seed)
{
    hs_error err;
    hs_simulation *simulation =
        hs_simulation_new(HS_SIMULATION_OPTIONS(.rank_count = RANKS, .seed = seed, .main = run_rank, .user = t), &err);
    assert_non_null(simulation);
    assert_ok(hs_simulation_run(simulation, &err), &err);
    hs_simulation_free(simulation);
    for (int rank = 0; rank < RANKS; rank++)
        assert_false(t->failed[rank]);
}

static void all_ranks_want_what_the_hooks_of_all_ranks_read(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 6; seed++) {
        team t = {.is_lost = false};
        run_team(&t, seed);
        assert_string_equal(t.wanted[1], " 5 8 11");
        assert_string_equal(t.wanted[2], t.wanted[1]);
        assert_string_equal(t.ages[2], t.ages[1]);
        assert_string_equal(t.wanted[0], " 5 8 9 11"); /* with the hook of rank 0 only */
    }
}

static void all_ranks_forget_the_ages_in_a_recovery(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed < 6; seed++) {
        team t = {.is_lost = true};
        run_team(&t, seed);
        assert_string_equal(t.ages[1], " -1 -1 -1 -1 5 -1 -1 -1 -1 4 4 4 7 7 7 10 10 10");
        assert_string_equal(t.wanted[2], t.wanted[1]);
        assert_string_equal(t.ages[2], t.ages[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        own_test(a_step_wants_what_the_hooks_that_are_due_fetch),
        own_test(a_step_wants_what_hooks_fetch_by_the_clock),
        own_test(a_step_wants_nothing_without_hooks_and_everything_with_a_hook_of_each_run),
        own_test(only_requests_up_to_before_run_count),
        own_test(a_step_wants_what_the_fetched_ops_read),
        own_test(summaries_have_the_loss_of_their_step),
        own_test(summaries_lack_a_loss_of_another_state),
        own_test(the_answer_is_true_outside_of_an_own_step),
        own_test(a_name_that_is_not_a_value_is_wanted_and_logged_once),
        own_test(a_declined_value_keeps_its_age),
        own_test(a_discarded_step_leaves_the_age_of_a_declined_value),
        own_test(after_an_evaluation_the_age_is_that_of_the_last_step),
        own_test(a_summary_has_a_value_that_is_fed),
        own_test(an_age_is_unknown_after_opening_restore_and_rollback),
        own_test(an_age_is_unknown_after_a_recovery),
        own_test(hooks_skip_a_value_of_an_earlier_step),
        own_test(an_evaluation_reports_no_value_of_an_earlier_step),
        own_test(a_saver_whose_steps_never_compute_the_metric_says_so),
        own_test(progress_shows_no_value_of_an_earlier_step),
        own_test(a_run_computes_the_values_that_its_ops_list),
        own_test(a_run_that_initializes_computes_no_value),
        own_test(a_run_that_fails_before_it_advances_computes_no_later_step),
        own_test(an_op_that_changes_the_step_itself_computes_values_of_the_new_step),
        own_test(a_run_whose_hook_advances_the_step_computes_values_of_the_new_step),
        own_test(rows_and_summaries_lack_the_values_of_other_steps),
        cmocka_unit_test(all_ranks_want_what_the_hooks_of_all_ranks_read),
        cmocka_unit_test(all_ranks_forget_the_ages_in_a_recovery),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
