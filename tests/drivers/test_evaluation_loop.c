/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluating each new checkpoint, and training with evaluations. */
#include "base/file_spy.h"
#include "drivers/shop.h"
#include "summary/events.h"

/* A graph of the shop for evaluations, and what to do with each checkpoint. */
typedef struct {
    hs_graph *graph;
    hs_evaluate_once_options once;
    int64_t made;
} watch;

static hs_code more(void *user, const hs_evaluation_result *metrics, hs_error *err)
{
    shop *h = user;
    shop_evaluated(h, metrics, err);
    if (h->evaluations == 1) /* the training continues concurrently */
        shop_train_to(h, 9);
    return h->evaluations == 3 ? HS_STOP : HS_OK;
}

static hs_code watch_directory(shop *h, hs_evaluation_loop_options options, hs_hook hook)
{
    static const char *const metrics[] = {"w", NULL};
    int64_t made = -1;
    hs_graph *g = shop_graph(h, HS_MODE_EVAL);
    hs_evaluate_once_options once =
        HS_INIT(hs_evaluate_once_options, .checkpoint_dir = h->s->directory, .metrics = metrics);
    char directory[1024];
    snprintf(directory, sizeof directory, "%s/eval", h->s->directory);
    once.summary_dir = directory;
    once.hooks = HS_HOOKS(hook);
    shop_input(h).fn(h, HS_MODE_EVAL, hs_graph_backend(g), NULL, NULL);
    options.once = &once;
    options.evaluated = more;
    options.user = h;
    hs_code code = hs_evaluation_loop(hs_graph_backend(g), &options, &made, &h->s->err);
    assert_int_equal(made, h->evaluations);
    hs_graph_free(g);
    return code;
}

static const hs_evaluation_loop_options defaults = HS_INIT(hs_evaluation_loop_options);

static void each_new_checkpoint_is_evaluated_once(void **state)
{
    shop *h = *state;
    shop_train_to(h, 4);
    assert_fails(watch_directory(h, defaults, (hs_hook){NULL}), HS_DEADLINE_EXCEEDED, &h->s->err,
                 "no checkpoint other than");
    assert_int_equal(h->evaluations, 2);
    assert_int_equal(h->steps[0], 4);
    assert_int_equal(h->steps[1], 9);
    assert_string_equal(events_text(test_path(h->s->directory, "eval")), "version w=4@4 w=9@9");
    assert_int_equal(test_count_files(test_path(h->s->directory, "eval"), "tfevents"), 1);
}

static void max_evaluations_ends_the_loop(void **state)
{
    shop *h = *state;
    shop_train_to(h, 4);
    assert_fails(watch_directory(h, *HS_EVALUATION_LOOP_OPTIONS(.max_evaluations = -2), (hs_hook){NULL}),
                 HS_INVALID_ARGUMENT, &h->s->err, "max_evaluations is -2");
    assert_ok(watch_directory(h, *HS_EVALUATION_LOOP_OPTIONS(.max_evaluations = 1), (hs_hook){NULL}), &h->s->err);
    assert_int_equal(h->evaluations, 1);
}

static void time_between_evaluations(void **state)
{
    shop *h = *state;
    shop_train_to(h, 4);
    int64_t before = h->s->t.now_ns;
    assert_ok(watch_directory(h, *HS_EVALUATION_LOOP_OPTIONS(.max_evaluations = 2, .min_wait_secs = 50), (hs_hook){NULL}),
              &h->s->err);
    assert_int_equal((h->s->t.now_ns - before) / 1000000000, 50);
}

static void a_checkpoint_that_is_deleted_while_it_is_evaluated(void **state)
{
    shop *h = *state;
    thief t = {h->s->directory, 4, NULL};
    shop_train_to(h, 4);
    assert_fails(
        watch_directory(h, *HS_EVALUATION_LOOP_OPTIONS(.timeout_secs = 3, .max_evaluations = HS_NEVER), thief_hook(&t)),
        HS_DEADLINE_EXCEEDED, &h->s->err, "within 3 s");
    assert_contains(h->s->t.log, "model.ckpt-4 was deleted before it was restored; skipped");
}

/* When the first evaluation is reported, another process trains on and saves. It takes its checkpoint back before the
 * loop restores it: the checkpoint is deleted, and the state file names the earlier one. */
typedef struct {
    shop *h;
    char *state;
    size_t bytes;
} rollback;

static hs_code train_to_9_once(void *user, const hs_evaluation_result *metrics, hs_error *err)
{
    rollback *r = user;
    shop_evaluated(r->h, metrics, err);
    if (r->state)
        return HS_OK;
    r->state = test_read_file(test_path(r->h->s->directory, "checkpoint"), &r->bytes);
    shop_train_to(r->h, 9);
    return HS_OK;
}

static hs_code take_back(void *self, hs_backend backend, hs_error *err)
{
    rollback *r = self;
    (void)backend;
    if (r->state)
        test_write_file(test_path(r->h->s->directory, "checkpoint"), r->state, r->bytes);
    return hs_checkpoint_remove(NULL, test_path(r->h->s->directory, "model.ckpt-9"), err);
}

static void a_checkpoint_is_not_evaluated_again_after_a_newer_one_is_deleted(void **state)
{
    shop *h = *state;
    static const char *const metrics[] = {"w", NULL};
    static const hs_hook_ops ops = HS_INIT(hs_hook_ops, .name = "rollback", .begin = take_back);
    rollback r = {.h = h};
    const hs_hook hook = {.ops = &ops, .self = &r};
    shop_train_to(h, 5);
    hs_graph *g = shop_graph(h, HS_MODE_EVAL);
    shop_input(h).fn(h, HS_MODE_EVAL, hs_graph_backend(g), NULL, NULL);
    const hs_evaluate_once_options once =
        HS_INIT(hs_evaluate_once_options, .checkpoint_dir = h->s->directory, .metrics = metrics, .hooks = HS_HOOKS(hook));
    const hs_evaluation_loop_options options =
        HS_INIT(hs_evaluation_loop_options, .once = &once, .evaluated = train_to_9_once, .user = &r, .timeout_secs = 3,
                .max_evaluations = 3);
    assert_fails(hs_evaluation_loop(hs_graph_backend(g), &options, NULL, &h->s->err), HS_DEADLINE_EXCEEDED, &h->s->err,
                 "within 3 s");
    assert_contains(h->s->t.log, "model.ckpt-9 was deleted before it was restored");
    assert_int_equal(h->evaluations, 1);
    hs_graph_free(g);
    free(r.state);
}

static void a_checkpoint_that_is_deleted_gives_way_to_another(void **state)
{
    shop *h = *state;
    thief t = {h->s->directory, 9, h};
    hs_hook hook = thief_hook(&t);
    shop_train_to(h, 9);
    hs_evaluation_result *m = shop_evaluate(h, *HS_ESTIMATOR_EVALUATE_OPTIONS(.hooks = HS_HOOKS(hook), .steps = 1));
    assert_int_equal(hs_evaluation_result_step(m), 12);
    hs_evaluation_result_free(m);
}

static void a_damaged_checkpoint_is_an_error(void **state)
{
    shop *h = *state;
    shop_train_to(h, 4);
    test_write_file(test_path(h->s->directory, "model.ckpt-4.index"), "rubbish", 7);
    assert_fails(watch_directory(h, defaults, (hs_hook){NULL}), HS_DATA_LOSS, &h->s->err, "model.ckpt-4");
}

/* Its state file has absolute paths, as TensorFlow's Saver writes them. */
static void the_newest_of_a_moved_directory_is_evaluated(void **state)
{
    static const char text[] = "model_checkpoint_path: \"/elsewhere/model.ckpt-4\"\n";
    shop *h = *state;
    shop_train_to(h, 4);
    test_write_file(test_path(h->s->directory, "checkpoint"), text, sizeof text - 1);
    hs_evaluation_result *m = shop_evaluate(h, *HS_ESTIMATOR_EVALUATE_OPTIONS(.steps = 1));
    assert_int_equal(hs_evaluation_result_step(m), 4);
    hs_evaluation_result_free(m);
}

static void a_checkpoint_that_cannot_be_examined_was_not_deleted(void **state)
{
    shop *h = *state;
    file_spy spy;
    static const char *const metrics[] = {"w", NULL};
    const hs_evaluate_once_options options =
        HS_INIT(hs_evaluate_once_options, .checkpoint_dir = h->s->directory, .metrics = metrics);
    hs_evaluation_result *m = NULL;
    shop_train_to(h, 4);
    file_spy_init(&spy, &h->s->t.env);
    spy.fail_on = true;
    h->env = &spy.env;
    hs_graph *g = shop_graph(h, HS_MODE_EVAL);
    shop_input(h).fn(h, HS_MODE_EVAL, hs_graph_backend(g), NULL, NULL);
    for (size_t n = 1; !m; n++) {
        file_spy_fail(&spy, n, HS_PERMISSION_DENIED);
        m = hs_evaluate_once(hs_graph_backend(g), &options, &h->s->err);
        assert_int_equal(h->s->err.code, m ? HS_OK : HS_PERMISSION_DENIED);
    }
    assert_lacks(h->s->t.log, "was deleted");
    hs_evaluation_result_free(m);
    hs_graph_free(g);
    h->env = &h->s->t.env;
}

static void no_path_in_a_loop(void **state)
{
    shop *h = *state;
    hs_evaluate_once_options once = HS_INIT(hs_evaluate_once_options, .checkpoint_prefix = "x", .eval_op = "count");
    hs_hook mine = hs_script_watch(h->s->script, "mine", hs_final_ops(.names = NULL)); /* which is destroyed */
    once.hooks = HS_HOOKS(mine);
    assert_fails(
        hs_evaluation_loop(hs_script_backend(h->s->script), HS_EVALUATION_LOOP_OPTIONS(.once = &once), NULL, &h->s->err),
        HS_INVALID_ARGUMENT, &h->s->err, "checkpoint_dir is missing");
}

static void missing_ops_are_refused_before_it_waits(void **state)
{
    shop *h = *state;
    const hs_evaluate_once_options once = HS_INIT(hs_evaluate_once_options, .checkpoint_dir = h->s->directory);
    assert_fails(
        hs_evaluation_loop(hs_script_backend(h->s->script), HS_EVALUATION_LOOP_OPTIONS(.once = &once), NULL, &h->s->err),
        HS_INVALID_ARGUMENT, &h->s->err, "none of eval_op, means and metrics");
}

static hs_code had_enough(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)self, (void)run, (void)values;
    return hs_error_set(err, HS_STOP, "enough");
}

static void a_hook_that_returns_stop_ends_the_batches(void **state)
{
    shop *h = *state;
    static const hs_hook_ops ops = HS_INIT(hs_hook_ops, .name = "enough", .after_run = had_enough);
    shop_train_to(h, 4);
    h->batches = 0;
    hs_evaluation_result *m =
        shop_evaluate(h, *HS_ESTIMATOR_EVALUATE_OPTIONS(.hooks = HS_HOOKS({.ops = &ops}), .steps = 2));
    if (m)
        assert_float_equal(hs_evaluation_result_value(m, "w"), 4, 0);
    else
        assert_int_equal(h->s->err.code, HS_FAILED_PRECONDITION);
    hs_evaluation_result_free(m);
}

/* Train and evaluate. */

static void train_so_and_evaluate(shop *h, double delay, double throttle, hs_evaluation_done_fn evaluated,
                                  hs_estimator_train_options train)
{
    hs_estimator_evaluate_options evaluate = HS_INIT(hs_estimator_evaluate_options, .input = shop_input(h), .steps = 1);
    train.input = shop_input(h);
    if (!h->e)
        shop_open(h);
    h->batches = 0;
    h->s->outcome = hs_estimator_train_and_evaluate(h->e, &train,
                                                    HS_ESTIMATOR_EVAL_SPEC(.evaluate = &evaluate, .start_delay_secs = delay,
                                                                           .throttle_secs = throttle,
                                                                           .evaluated = evaluated, .user = h),
                                                    &h->s->err);
}

static void train_and_evaluate(shop *h, double delay, double throttle, hs_evaluation_done_fn evaluated, int64_t max_steps)
{
    train_so_and_evaluate(h, delay, throttle, evaluated, *HS_ESTIMATOR_TRAIN_OPTIONS(.max_steps = max_steps));
}

static void each_checkpoint_and_the_last(void **state)
{
    shop *h = *state;
    train_and_evaluate(h, HS_NEVER, HS_NEVER, shop_evaluated, 12);
    assert_ok(h->s->outcome.error.code, &h->s->err);
    assert_int_equal(h->evaluations, 3);
    assert_int_equal(h->steps[0], 5);
    assert_int_equal(h->steps[1], 10);
    assert_int_equal(h->steps[2], 12);
}

static void throttled_only_the_last(void **state)
{
    shop *h = *state;
    train_and_evaluate(h, 0, 0, shop_evaluated, 12);
    assert_int_equal(h->evaluations, 1);
    assert_int_equal(h->steps[0], 12);
}

static void throttled_from_the_first_on(void **state)
{
    shop *h = *state;
    train_and_evaluate(h, HS_NEVER, 1000, shop_evaluated, 12);
    assert_int_equal(h->evaluations, 2);
    assert_int_equal(h->steps[0], 5);
}

static void a_training_that_is_done_is_evaluated_once_more(void **state)
{
    shop *h = *state;
    shop_train_to(h, 7);
    train_and_evaluate(h, HS_NEVER, HS_NEVER, shop_evaluated, 7);
    assert_int_equal(h->s->outcome.reason, HS_REASON_ALREADY_DONE);
    assert_int_equal(h->evaluations, 1);
}

static hs_code enough(void *user, const hs_evaluation_result *metrics, hs_error *err)
{
    shop_evaluated(user, metrics, err);
    return HS_STOP;
}

static void the_evaluated_callback_may_end_the_training(void **state)
{
    shop *h = *state;
    train_and_evaluate(h, HS_NEVER, HS_NEVER, enough, 100);
    assert_int_equal(h->s->outcome.step, 5);
    assert_int_equal(h->s->outcome.reason, HS_REASON_STOPPED);
    assert_int_equal(h->evaluations, 1);
}

static void a_hook_that_stops_has_the_last_step_evaluated(void **state)
{
    shop *h = *state;
    hs_hook stop = hs_stop_at_step(.last_step = 7);
    train_so_and_evaluate(h, HS_NEVER, HS_NEVER, shop_evaluated, *HS_ESTIMATOR_TRAIN_OPTIONS(.hooks = HS_HOOKS(stop)));
    assert_int_equal(h->evaluations, 2);
    assert_int_equal(h->steps[1], 7);
}

/* As a hook that gets a signal: at step 7 it requests a stop of the coordinator. */
static hs_code keep_coordinator(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    (void)session, (void)err;
    *(hs_coordinator **)self = coordinator;
    return HS_OK;
}

static hs_code interrupt(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)values;
    if (hs_run_context_global_step(run, err) == 7)
        hs_coordinator_request_stop(*(hs_coordinator **)self, NULL);
    return err->code;
}

static void an_interrupted_training_is_saved_and_not_evaluated(void **state)
{
    shop *h = *state;
    static const hs_hook_ops ops =
        HS_INIT(hs_hook_ops, .name = "interrupt", .after_create_session = keep_coordinator, .after_run = interrupt);
    hs_coordinator *coordinator = NULL;
    const hs_hook hook = {.ops = &ops, .self = &coordinator};
    train_so_and_evaluate(h, HS_NEVER, HS_NEVER, shop_evaluated,
                          *HS_ESTIMATOR_TRAIN_OPTIONS(.hooks = HS_HOOKS(hook), .max_steps = 100));
    assert_ok(h->s->outcome.error.code, &h->s->err);
    assert_int_equal(h->s->outcome.reason, HS_REASON_STOPPED);
    assert_int_equal(latest_step(h->s->directory), 7);
    assert_int_equal(h->evaluations, 1);
    assert_int_equal(h->steps[0], 5);
}

static void without_saving_there_is_nothing_to_evaluate(void **state)
{
    shop *h = *state;
    h->save_steps = HS_NEVER;
    train_and_evaluate(h, HS_NEVER, HS_NEVER, shop_evaluated, 12);
    assert_says(&h->s->err, HS_INVALID_ARGUMENT, "save_checkpoint_secs is 0 and save_checkpoint_steps is -1; set one");
    assert_int_equal(h->released, 0);
}

static hs_code note_saved(void *self, hs_raw_session *session, int64_t step, bool *request_stop, hs_error *err)
{
    (void)session, (void)step, (void)request_stop, (void)err;
    hs_script_note(self, "saved");
    return HS_OK;
}

static hs_code note_evaluated(void *user, const hs_evaluation_result *metrics, hs_error *err)
{
    shop *h = user;
    (void)metrics, (void)err;
    hs_script_note(h->s->script, "evaluated");
    return HS_OK;
}

static void the_callers_listeners_come_before_each_evaluation(void **state)
{
    shop *h = *state;
    static const hs_saver_listener_ops ops = HS_INIT(hs_saver_listener_ops, .after_save = note_saved);
    const hs_saver_listener listener = {&ops, h->s->script};
    train_so_and_evaluate(h, HS_NEVER, HS_NEVER, note_evaluated,
                          *HS_ESTIMATOR_TRAIN_OPTIONS(.max_steps = 12, .listeners = HS_LISTENERS(listener)));
    assert_string_equal(hs_script_calls(h->s->script), "saved saved evaluated saved evaluated saved evaluated");
}

static hs_code refuse(void *user, const hs_evaluation_result *metrics, hs_error *err)
{
    (void)user, (void)metrics;
    return hs_error_set(err, HS_INTERNAL, "not good enough");
}

static void a_failing_evaluation_ends_the_training(void **state)
{
    shop *h = *state;
    train_and_evaluate(h, HS_NEVER, HS_NEVER, refuse, 100);
    assert_int_equal(h->s->outcome.reason, HS_REASON_FAILED);
    assert_says(&h->s->err, HS_INTERNAL, "not good enough");
}

static void a_failing_last_evaluation_is_not_blamed_on_a_hook(void **state)
{
    shop *h = *state;
    train_and_evaluate(h, 0, 0, refuse, 4);
    assert_int_equal(h->s->outcome.reason, HS_REASON_FAILED);
    assert_says(&h->s->err, HS_INTERNAL, "not good enough");
    assert_string_equal(h->s->outcome.hook, "");
}

static void invalid_options_are_refused(void **state)
{
    shop *h = *state;
    train_and_evaluate(h, -5, 0, NULL, 1);
    assert_says(&h->s->err, HS_INVALID_ARGUMENT,
                "hs_estimator_eval_spec: start_delay_secs is -5; it must be from 0 to 1e9, or HS_NEVER for none");
}

/* hs_estimator_train_loop, as TensorFlow's slim. */

static hs_code two_runs(void *user, hs_step_context *step, hs_error *err)
{
    const hs_run_args args = HS_INIT(hs_run_args, .names = HS_NAMES("train"));
    int *calls = user;
    if (++*calls == 4)
        return hs_step_context_request_stop(step);
    hs_code code = hs_step_context_run_with_hooks(step, &args, NULL, err);
    return code ? code : hs_step_context_run_with_hooks(step, &args, NULL, err);
}

static void a_step_function_makes_the_steps(void **state)
{
    shop *h = *state;
    int calls = 0;
    hs_outcome o = hs_estimator_train_loop(hs_script_backend(h->s->script),
                                           HS_ESTIMATOR_TRAIN_LOOP_OPTIONS(.step = two_runs, .user = &calls), &h->s->err);
    assert_ok(o.error.code, &h->s->err);
    assert_int_equal(o.step, 6);
}

static void a_loop_needs_something_to_do(void **state)
{
    shop *h = *state;
    hs_outcome o = hs_estimator_train_loop(hs_script_backend(h->s->script), HS_ESTIMATOR_TRAIN_LOOP_OPTIONS(), &h->s->err);
    assert_int_equal(o.reason, HS_REASON_FAILED);
    assert_says(&h->s->err, HS_INVALID_ARGUMENT, "give exactly one of train_op and step");
}

/* Trains to step 3. The second run loses the session. */
static hs_outcome loop_that_is_lost(shop *h, hs_recovery recovery)
{
    hs_hook stop = hs_stop_at_step(.last_step = 3);
    const hs_training_options training = HS_INIT(hs_training_options, .hooks = HS_HOOKS(stop), .recovery = &recovery);
    hs_script_fail_at(h->s->script, 2, HS_ABORTED, "lost");
    return hs_estimator_train_loop(hs_script_backend(h->s->script),
                                   HS_ESTIMATOR_TRAIN_LOOP_OPTIONS(.train_op = "train", .training = &training), &h->s->err);
}

static void a_loop_continues_if_its_batch_must_be_prepared_again(void **state)
{
    shop *h = *state;
    hs_outcome o = loop_that_is_lost(h, *HS_RECOVERY(.return_aborted = true));
    assert_ok(o.error.code, &h->s->err);
    assert_int_equal(o.reason, HS_REASON_STOPPED);
    assert_int_equal(o.step, 3);
    assert_contains(h->s->t.log, "recovered");
}

static void a_loop_that_does_not_recover_fails(void **state)
{
    shop *h = *state;
    hs_outcome o = loop_that_is_lost(h, *HS_RECOVERY(.max_attempts = HS_NEVER, .return_aborted = true));
    assert_int_equal(o.reason, HS_REASON_FAILED);
    assert_says(&h->s->err, HS_ABORTED, "lost");
}

static void options_of_a_training_may_be_longer(void **state)
{
    shop *h = *state;
    int calls = 3;
    size_t size = sizeof(hs_training_options) + 64;
    hs_training_options *training = malloc(size);
    memset(training, 0, size);
    memcpy(training, &size, sizeof size);
    hs_outcome o = hs_estimator_train_loop(
        hs_script_backend(h->s->script),
        HS_ESTIMATOR_TRAIN_LOOP_OPTIONS(.step = two_runs, .user = &calls, .training = training), &h->s->err);
    free(training);
    assert_ok(o.error.code, &h->s->err);
}

static void destroyed(void *self)
{
    ++*(int *)self;
}

static void options_that_cannot_be_read_take_the_hooks_of_the_others(void **state)
{
    shop *h = *state;
    int n = 0;
    static const hs_hook_ops ops = HS_INIT(hs_hook_ops, .name = "counted", .destroy = destroyed);
    const hs_hook hook = {.ops = &ops, .self = &n};
    const hs_estimator_evaluate_options evaluate = HS_INIT(hs_estimator_evaluate_options, .hooks = HS_HOOKS(hook));
    shop_open(h);
    hs_estimator_train_and_evaluate(h->e, &(hs_estimator_train_options){.size = 0},
                                    HS_ESTIMATOR_EVAL_SPEC(.evaluate = &evaluate), &h->s->err);
    assert_says(&h->s->err, HS_INVALID_ARGUMENT, "hs_estimator_train_options.size");
    assert_int_equal(n, 1);
}

/* Without memory. */

static hs_code all_of_it(test_env *t, void *user)
{
    shop *h = user;
    hs_error err = {0};
    test_tolerate(t, "cannot write status.json: ");
    test_tolerate(t, "cannot write outcome.json: ");
    test_tolerate(t, "cannot delete outcome.json of an earlier run: ");
    test_tolerate(t, "': no memory for its path"); /* old data */
    test_tolerate_harmless(t);                     /* searching for leftovers, and for a checkpoint to recover from */
    h->e = NULL;
    hs_code code = shop_try(h, &t->env, &err);
    return code;
}

static void each_allocation_may_fail(void **state)
{
    test_each_allocation(all_of_it, *state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_shop(each_new_checkpoint_is_evaluated_once),
        with_shop(max_evaluations_ends_the_loop),
        with_shop(time_between_evaluations),
        with_shop(a_checkpoint_that_is_deleted_while_it_is_evaluated),
        with_shop(a_checkpoint_is_not_evaluated_again_after_a_newer_one_is_deleted),
        with_shop(a_checkpoint_that_is_deleted_gives_way_to_another),
        with_shop(a_damaged_checkpoint_is_an_error),
        with_shop(the_newest_of_a_moved_directory_is_evaluated),
        with_shop(a_checkpoint_that_cannot_be_examined_was_not_deleted),
        with_shop(no_path_in_a_loop),
        with_shop(missing_ops_are_refused_before_it_waits),
        with_shop(a_hook_that_returns_stop_ends_the_batches),
        with_shop(each_checkpoint_and_the_last),
        with_shop(throttled_only_the_last),
        with_shop(throttled_from_the_first_on),
        with_shop(a_training_that_is_done_is_evaluated_once_more),
        with_shop(the_evaluated_callback_may_end_the_training),
        with_shop(a_hook_that_stops_has_the_last_step_evaluated),
        with_shop(an_interrupted_training_is_saved_and_not_evaluated),
        with_shop(without_saving_there_is_nothing_to_evaluate),
        with_shop(the_callers_listeners_come_before_each_evaluation),
        with_shop(a_failing_evaluation_ends_the_training),
        with_shop(a_failing_last_evaluation_is_not_blamed_on_a_hook),
        with_shop(invalid_options_are_refused),
        with_shop(a_step_function_makes_the_steps),
        with_shop(a_loop_needs_something_to_do),
        with_shop(a_loop_continues_if_its_batch_must_be_prepared_again),
        with_shop(a_loop_that_does_not_recover_fails),
        with_shop(options_of_a_training_may_be_longer),
        with_shop(options_that_cannot_be_read_take_the_hooks_of_the_others),
        with_shop(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
