/* SPDX-License-Identifier: Apache-2.0 */
/* When hooks act, with all kinds of triggers. */
#include "checkpoint/model.h"
#include "hooks/stage.h"
#include "summary/events.h"

enum { LAST = 10 };

/* A model whose loss is its step, with a summary of the loss, and the steps at which hooks acted. */
typedef struct {
    stage *s;
    model m;
    double loss;
    hs_summary *summary;
    hs_string text;
    char saved[256], evaluated[256];
    int64_t request_at; /* a save is requested before the run to this step. 0: never */
    int64_t lost_at;    /* the run to this step fails once, as if the session were lost */
    bool requests_then; /* a save is requested in that run */
    double secs;        /* between the runs */
} trainer;

static void add_step(char *to, size_t bytes, int64_t step)
{
    size_t used = strlen(to);
    snprintf(to + used, bytes - used, " %lld", (long long)step);
}

static hs_code step(void *self, hs_op *op, hs_error *err)
{
    trainer *t = self;
    if (hs_op_global_step(op, NULL) + 1 == t->lost_at) {
        t->lost_at = 0;
        if (t->requests_then)
            hs_session_request_save(t->m.session);
        return hs_error_set(err, HS_ABORTED, "lost");
    }
    t->loss = (double)hs_op_global_step(op, NULL) + 1;
    return HS_OK;
}

static hs_code summarize(void *self, hs_op *op, hs_error *err)
{
    trainer *t = self;
    hs_summary_clear(t->summary);
    hs_summary_scalar(t->summary, "loss", t->loss, err);
    t->text = hs_summary_serialized(t->summary);
    hs_tensor value = hs_tensor_of(HS_STRING, HS_SCALAR, &t->text);
    return hs_op_set_output(op, 0, &value, err);
}

static hs_code note_save(void *self, hs_raw_session *session, int64_t at, bool *stop, hs_error *err)
{
    trainer *t = self;
    (void)session, (void)stop, (void)err;
    add_step(t->saved, sizeof t->saved, at);
    return HS_OK;
}

static hs_code note_evaluation(void *self, hs_raw_session *session, int64_t at, hs_error *err)
{
    trainer *t = self;
    (void)session, (void)err;
    add_step(t->evaluated, sizeof t->evaluated, at);
    return HS_OK;
}

static trainer begin(void **state)
{
    return (trainer){.s = *state, .summary = hs_summary_new(NULL)};
}

static void build(trainer *t)
{
    hs_graph *graph = t->m.graph = hs_graph_new(&t->s->t.env);
    hs_graph_global_step(graph, NULL, &t->m.step);
    hs_graph_value(graph, "loss", HS_DOUBLE, HS_SCALAR, &t->loss);
    hs_graph_op(graph, .name = "train", .run = step, .user = t, .writes = HS_NAMES("loss"), .advances_step = true);
    hs_graph_op(graph, .name = "summary", .run = summarize, .user = t, .inputs = HS_NAMES("loss"),
                .outputs = HS_OUTPUTS({.dtype = HS_STRING}));
}

/* A session with these hooks that trains to this step, restoring from the directory, and closes. */
static void train_to(trainer *t, int64_t last, const hs_hook *hooks, size_t n, const char *directory)
{
    const hs_recovery recovery = HS_INIT(hs_recovery);
    const hs_session_options options =
        HS_INIT(hs_session_options, .hooks = test_hooks(hooks, n), .checkpoint_dir = directory, .recovery = &recovery);
    t->m.step = 0;
    build(t);
    t->m.session = hs_session_open(hs_graph_backend(t->m.graph), &options, &t->m.err);
    while (t->m.session && hs_session_global_step(t->m.session, NULL) < last) {
        if (hs_session_global_step(t->m.session, NULL) + 1 == t->request_at)
            hs_session_request_save(t->m.session);
        assert_ok(hs_session_run(t->m.session, "train", &t->m.err), &t->m.err);
        test_env_advance(&t->s->t, t->secs);
    }
    assert_ok(model_close(&t->m).error.code, &t->m.err);
}

/* The saver. */

static hs_hook saver(trainer *t, const char *directory, hs_trigger when, int64_t pair)
{
    static const hs_saver_listener_ops ops = HS_INIT(hs_saver_listener_ops, .after_save = note_save);
    return hs_checkpoint_saver(.checkpoint_dir = directory, .every_n_steps = pair, .when = when,
                               .listeners = HS_LISTENERS({&ops, t}));
}

/* Returns the steps that a saver saves, in a new directory. */
static void assert_saves(trainer *t, hs_trigger when, int64_t pair, int64_t last, const char *expected)
{
    static int number;
    char name[32];
    snprintf(name, sizeof name, "saves-%d", number++);
    char *directory = strdup(test_path(t->s->directory, name));
    t->saved[0] = '\0';
    hs_hook hook = saver(t, directory, when, pair);
    train_to(t, last, &hook, 1, directory);
    assert_string_equal(t->saved, expected);
    free(directory);
}

static void the_saver_saves_at_the_end_and_no_step_twice(void **state)
{
    trainer t = begin(state);
    assert_saves(&t, HS_EVERY_STEPS(4), 0, LAST, " 4 8 10");
    assert_saves(&t, HS_TRIGGER(.every_n_steps = 4, .first = true), 0, LAST, " 0 4 8 10");
    assert_saves(&t, HS_TRIGGER(.every_n_steps = 5, .last = true), 0, LAST, " 5 10");
    assert_saves(&t, HS_EVERY_STEPS(1), 0, 3, " 1 2 3");
    assert_saves(&t, HS_AT_STEPS(7, 0, 1, 10, 9, 7), 0, LAST, " 0 1 7 9 10");
    assert_saves(&t, HS_TRIGGER(.first = true), 0, LAST, " 0 10");
    assert_saves(&t, HS_TRIGGER(.last = true), 0, LAST, " 10");
    hs_summary_free(t.summary);
}

static void a_request_counts_whatever_the_trigger_says(void **state)
{
    trainer t = begin(state);
    t.request_at = 1;
    assert_saves(&t, HS_TRIGGER(.last = true), 0, LAST, " 1 10");
    t.request_at = 4; /* the steps of every_n_steps are not shifted */
    assert_saves(&t, HS_EVERY_STEPS(3), 0, LAST, " 3 4 6 9 10");
    t.request_at = 6;
    assert_saves(&t, (hs_trigger){0}, 4, LAST, " 0 4 6 8 10");
    t.request_at = 8;
    assert_saves(&t, (hs_trigger){0}, 4, LAST, " 0 4 8 10");
    t.request_at = LAST - 1;
    assert_saves(&t, HS_TRIGGER(.on_request = true), 0, LAST, " 9 10");
    t.request_at = LAST;
    assert_saves(&t, HS_TRIGGER(.on_request = true), 0, LAST, " 10");
    hs_summary_free(t.summary);
}

static void several_conditions_at_one_step_save_once(void **state)
{
    trainer t = begin(state);
    t.request_at = LAST;
    t.secs = 3;
    const hs_trigger all = HS_TRIGGER(.every_n_steps = 5, .every_n_secs = 15, .at_steps = HS_STEPS(10, 9, 1, 0),
                                      .on_request = true, .first = true, .last = true);
    assert_saves(&t, all, 0, LAST, " 0 1 5 9 10");
    hs_summary_free(t.summary);
}

static void a_session_without_a_run_is_saved_once(void **state)
{
    trainer t = begin(state);
    assert_saves(&t, HS_EVERY_STEPS(1), 0, 0, " 0");
    assert_saves(&t, HS_TRIGGER(.first = true, .last = true, .at_steps = HS_STEPS(0)), 0, 0, " 0");
    hs_summary_free(t.summary);
}

/* A request during the wait for a retry saves immediately. */
static void a_request_retries_a_failed_save_immediately(void **state)
{
    stage *s = *state;
    stage_open(
        s, hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 2, .on_failure = HS_SAVE_FAILURE_RETRY));
    stage_run(s, "train", 1, 0);
    s->t.fail_file_at = s->t.file_calls + 3;
    s->t.fail_file_on = true;
    stage_run(s, "train", 1, 0);
    assert_int_equal(latest_step(s->directory), 0);
    s->t.fail_file_at = 0;
    stage_run(s, "train", 1, 0);
    assert_int_equal(latest_step(s->directory), 0);
    hs_session_request_save(s->session);
    stage_run(s, "train", 1, 0);
    assert_int_equal(latest_step(s->directory), 4);
    stage_close(s);
}

/* A hook that fails once, so that this run has no boundary. */
static hs_code fail_once(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    int *left = self;
    (void)run, (void)values;
    return (*left)-- == 1 ? hs_error_set(err, HS_INTERNAL, "no boundary") : HS_OK;
}

static void a_request_waits_for_the_next_boundary(void **state)
{
    static const hs_hook_ops ops = HS_INIT(hs_hook_ops, .name = "fails", .after_run = fail_once);
    stage *s = *state;
    int left = 1;
    const hs_hook hooks[] = {hs_checkpoint_saver(.checkpoint_dir = s->directory, .when = HS_TRIGGER(.on_request = true)),
                             {.ops = &ops, .self = &left}};
    assert_ok(stage_try(s, hs_script_backend(s->script), hooks, 2), &s->err);
    hs_session_request_save(s->session);
    assert_int_equal(stage_run_once(s, "train"), HS_INTERNAL);
    assert_int_equal(latest_step(s->directory), -1);
    stage_run(s, "train", 1, 0);
    assert_int_equal(latest_step(s->directory), 2);
    stage_close(s);
}

static hs_code request_a_save(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    (void)self, (void)coordinator, (void)err;
    hs_raw_session_request_save(session);
    return HS_OK;
}

static void a_request_before_the_save_at_the_creation_makes_no_second_one(void **state)
{
    static const hs_hook_ops ops = HS_INIT(hs_hook_ops, .name = "requests", .after_create_session = request_a_save);
    stage *s = *state;
    const hs_hook hooks[] = {hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 100), {.ops = &ops}};
    assert_ok(stage_try(s, hs_script_backend(s->script), hooks, 2), &s->err);
    assert_int_equal(latest_step(s->directory), 0);
    stage_run(s, "train", 2, 0);
    assert_int_equal(latest_step(s->directory), 0);
    stage_close(s);
}

/* The other hooks, which all act at the same steps. */

/* The losses in the log or the events. */
static const char *losses(const char *text, const char *mark)
{
    static char steps[2][256];
    static int which;
    char *to = steps[which = !which];
    double loss;
    to[0] = '\0';
    for (const char *at = text; (at = strstr(at, mark)); at++)
        if (sscanf(at + strlen(mark), "%lf", &loss) == 1)
            add_step(to, sizeof steps[0], (int64_t)loss);
    return to;
}

static void train_with(trainer *t, hs_trigger when, int64_t last)
{
    const char *directory = t->s->directory;
    hs_hook hooks[] = {
        hs_logging_tensor(.tensors = HS_NAMES("loss"), .when = when),
        hs_summary_saver(.summary_ops = HS_NAMES("summary"), .summary_dir = directory, .when = when),
        hs_evaluation(.evaluate = note_evaluation, .user = t, .when = when),
        saver(t, directory, HS_EVERY_STEPS(2), 0),
    };
    train_to(t, last, hooks, 4, directory);
}

/* Checks the steps at which each hook has acted. */
static void assert_fired(trainer *t, const char *expected)
{
    assert_string_equal(losses(t->s->t.log, ": loss = "), expected);
    assert_string_equal(losses(events_text(t->s->directory), " loss="), expected);
    assert_string_equal(t->evaluated, expected);
}

static void start_again(trainer *t)
{
    test_remove_directory(t->s->directory);
    t->s->directory = test_make_directory();
    test_env_clear_log(&t->s->t);
    t->evaluated[0] = '\0';
}

static void assert_fires(trainer *t, hs_trigger when, const char *expected)
{
    train_with(t, when, LAST);
    assert_fired(t, expected);
    start_again(t);
}

static void each_condition_fires(void **state)
{
    trainer t = begin(state);
    t.secs = 6;
    assert_fires(&t, HS_EVERY_STEPS(4), " 4 8");
    assert_fires(&t, HS_EVERY_SECS(10), " 3 5 7 9");
    assert_fires(&t, HS_EVERY_SECS(1e-12), " 2 3 4 5 6 7 8 9 10");
    assert_fires(&t, HS_AT_STEPS(10, 1, 0, 9), " 1 9 10");
    assert_fires(&t, HS_TRIGGER(.first = true), " 1");
    assert_fires(&t, HS_TRIGGER(.last = true), " 10");
    t.request_at = 1;
    assert_fires(&t, HS_TRIGGER(.on_request = true), " 1");
    t.request_at = LAST;
    assert_fires(&t, HS_TRIGGER(.on_request = true), " 10");
    hs_summary_free(t.summary);
}

static void any_of_several_fires(void **state)
{
    trainer t = begin(state);
    t.secs = 6;
    t.request_at = 9;
    assert_fires(&t, HS_TRIGGER(.every_n_steps = 4, .first = true), " 1 5 9");
    assert_fires(&t, HS_TRIGGER(.every_n_steps = 4, .last = true), " 4 8 10");
    assert_fires(&t, HS_TRIGGER(.every_n_steps = 5, .last = true), " 5 10");
    assert_fires(&t, HS_TRIGGER(.every_n_steps = 4, .every_n_secs = 10), " 3 4 6 8 10");
    assert_fires(&t, HS_TRIGGER(.every_n_steps = 4, .at_steps = HS_STEPS(3, 4), .on_request = true), " 3 4 8 9");
    hs_summary_free(t.summary);
}

/* A trigger without on_request ignores requests. */
static void only_triggers_with_on_request_see_requests(void **state)
{
    trainer t = begin(state);
    t.request_at = 2;
    assert_fires(&t, HS_EVERY_STEPS(4), " 4 8");
    hs_summary_free(t.summary);
}

/* Resumed, recovered. */

static void assert_resumes(trainer *t, hs_trigger when, int64_t at, const char *expected)
{
    train_with(t, when, at);
    train_with(t, when, at);
    train_with(t, when, LAST);
    assert_fired(t, expected);
    start_again(t);
}

static void a_resumed_run_continues_the_schedule(void **state)
{
    trainer t = begin(state);
    for (int64_t at = 1; at < LAST; at++) {
        assert_resumes(&t, HS_EVERY_STEPS(4), at, " 4 8");
        assert_resumes(&t, HS_TRIGGER(.every_n_steps = 4, .first = true), at, " 1 5 9");
        assert_resumes(&t, HS_AT_STEPS(0, 4, 5, 9), at, " 1 4 5 9");
        assert_resumes(&t, HS_TRIGGER(.at_steps = HS_STEPS(6), .first = true), at, " 1 6");
        assert_resumes(&t, HS_TRIGGER(.every_n_steps = 4, .at_steps = HS_STEPS(3, 5)), at, " 3 4 5 8");
    }
    hs_summary_free(t.summary);
}

/* A list that is longer than in the previous run, and a list where the previous run had none. */
static void a_newly_listed_step_that_has_passed_does_not_fire(void **state)
{
    trainer t = begin(state);
    train_with(&t, HS_AT_STEPS(2), 5);
    train_with(&t, HS_AT_STEPS(2, 3, 8), LAST);
    assert_fired(&t, " 2 8");
    start_again(&t);
    train_with(&t, HS_EVERY_STEPS(4), 5);
    train_with(&t, HS_AT_STEPS(2, 3, 8), 9);
    train_with(&t, HS_TRIGGER(.last = true), LAST);
    assert_fired(&t, " 4 8 10");
    hs_summary_free(t.summary);
}

/* The saver's last save was at step 4. */
static void after_a_recovery_the_steps_fire_again_and_requests_do_not(void **state)
{
    trainer t = begin(state);
    t.lost_at = 6;
    assert_fires(&t, HS_AT_STEPS(3, 5, 6), " 3 5 5 6");
    t.lost_at = 6;
    t.request_at = 3;
    assert_fires(&t, HS_TRIGGER(.on_request = true), " 3");
    t.lost_at = 6;
    t.request_at = 0;
    t.requests_then = true; /* no hook has seen this request */
    assert_fires(&t, HS_TRIGGER(.on_request = true), " 5");
    hs_summary_free(t.summary);
}

static void without_a_saved_position_first_fires_again_after_a_recovery(void **state)
{
    trainer t = begin(state);
    t.lost_at = 6;
    assert_fires(&t, HS_TRIGGER(.first = true), " 1 5");
    t.lost_at = 6;
    assert_fires(&t, HS_TRIGGER(.first = true, .every_n_steps = 100), " 1");
    hs_summary_free(t.summary);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_stage(the_saver_saves_at_the_end_and_no_step_twice),
        with_stage(a_request_counts_whatever_the_trigger_says),
        with_stage(several_conditions_at_one_step_save_once),
        with_stage(a_session_without_a_run_is_saved_once),
        with_stage(a_request_retries_a_failed_save_immediately),
        with_stage(a_request_waits_for_the_next_boundary),
        with_stage(a_request_before_the_save_at_the_creation_makes_no_second_one),
        with_stage(each_condition_fires),
        with_stage(any_of_several_fires),
        with_stage(only_triggers_with_on_request_see_requests),
        with_stage(a_resumed_run_continues_the_schedule),
        with_stage(a_newly_listed_step_that_has_passed_does_not_fire),
        with_stage(after_a_recovery_the_steps_fire_again_and_requests_do_not),
        with_stage(without_a_saved_position_first_fires_again_after_a_recovery),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
