/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints that are evaluated as they come, and training with evaluations on its way. */
#include "drivers/shop.h"
#include "summary/events.h"

/* A graph of the shop to evaluate with, and what to do with each checkpoint. */
typedef struct {
    hs_graph *graph;
    hs_evaluate_once_options once;
    int64_t made;
} watch;

static hs_code more(void *user, const hs_metrics *metrics, hs_error *err)
{
    shop *h = user;
    shop_evaluated(h, metrics, err);
    if (h->evaluations == 1) /* it trains on, meanwhile */
        shop_train_to(h, 9);
    return h->evaluations == 3 ? HS_STOP : HS_OK;
}

static hs_code watch_directory(shop *h, hs_evaluation_loop_options options, hs_hook hook)
{
    static const char *const metrics[] = {"w", NULL};
    int64_t made = -1;
    hs_graph *g = shop_graph(h, HS_MODE_EVAL);
    hs_evaluate_once_options once = {HS_EVALUATE_ONCE_OPTIONS, .checkpoint_dir = h->s->directory, .metrics = metrics};
    char directory[1024];
    snprintf(directory, sizeof directory, "%s/eval", h->s->directory);
    once.output_dir = directory;
    once.hooks = hook.ops ? &hook : NULL;
    once.n_hooks = hook.ops ? 1 : 0;
    shop_input(h).fn(h, HS_MODE_EVAL, hs_graph_backend(g), NULL, NULL);
    options.once = &once;
    options.evaluated = more;
    options.user = h;
    hs_code code = hs_evaluation_loop(hs_graph_backend(g), &options, &made, &h->s->err);
    assert_int_equal(made, h->evaluations);
    hs_graph_free(g);
    return code;
}

static const hs_evaluation_loop_options defaults = {HS_EVALUATION_LOOP_OPTIONS};

static void each_new_checkpoint_once_until_none_comes(void **state)
{
    shop *h = *state;
    shop_train_to(h, 4);
    assert_fails(watch_directory(h, defaults, (hs_hook){NULL}), HS_DEADLINE_EXCEEDED, &h->s->err, "came in 600 seconds");
    assert_int_equal(h->evaluations, 2);
    assert_int_equal(h->steps[0], 4);
    assert_int_equal(h->steps[1], 9);
    assert_string_equal(events_text(test_path(h->s->directory, "eval")), "version w=4@4 w=9@9");
    assert_int_equal(test_count_files(test_path(h->s->directory, "eval"), "tfevents"), 1);
}

static void so_many_evaluations(void **state)
{
    shop *h = *state;
    shop_train_to(h, 4);
    assert_ok(
        watch_directory(h, (hs_evaluation_loop_options){HS_EVALUATION_LOOP_OPTIONS, .max_evaluations = 1}, (hs_hook){NULL}),
        &h->s->err);
    assert_int_equal(h->evaluations, 1);
}

static void time_between_evaluations(void **state)
{
    shop *h = *state;
    shop_train_to(h, 4);
    int64_t before = h->s->t.now_ns;
    assert_ok(watch_directory(
                  h, (hs_evaluation_loop_options){HS_EVALUATION_LOOP_OPTIONS, .max_evaluations = 2, .min_wait_secs = 50},
                  (hs_hook){NULL}),
              &h->s->err);
    assert_int_equal((h->s->t.now_ns - before) / 1000000000, 50);
}

static void a_checkpoint_that_is_deleted_while_it_is_evaluated(void **state)
{
    shop *h = *state;
    thief t = {h->s->directory, 4, NULL};
    shop_train_to(h, 4);
    assert_fails(
        watch_directory(h, (hs_evaluation_loop_options){HS_EVALUATION_LOOP_OPTIONS, .timeout_secs = 3}, thief_hook(&t)),
        HS_DEADLINE_EXCEEDED, &h->s->err, "in 3 seconds");
    assert_contains(h->s->t.log, "model.ckpt-4 was deleted before it was restored; it is passed over");
}

static void a_checkpoint_that_is_deleted_gives_way_to_another(void **state)
{
    shop *h = *state;
    thief t = {h->s->directory, 9, h};
    hs_hook hook = thief_hook(&t);
    shop_train_to(h, 9);
    hs_metrics *m = shop_evaluate(h, (hs_evaluate_options){HS_EVALUATE_OPTIONS, .hooks = &hook, .n_hooks = 1, .steps = 1});
    assert_int_equal(hs_metrics_step(m), 12);
    hs_metrics_free(m);
}

static void a_damaged_checkpoint_is_an_error(void **state)
{
    shop *h = *state;
    shop_train_to(h, 4);
    test_write_file(test_path(h->s->directory, "model.ckpt-4.index"), "rubbish", 7);
    assert_fails(watch_directory(h, defaults, (hs_hook){NULL}), HS_DATA_LOSS, &h->s->err, "model.ckpt-4");
}

static void no_path_in_a_loop(void **state)
{
    shop *h = *state;
    hs_evaluate_once_options once = {HS_EVALUATE_ONCE_OPTIONS, .checkpoint_path = "x", .eval_op = "count"};
    hs_hook mine = hs_script_watch(h->s->script, "mine", hs_final_ops(.names = NULL)); /* which is destroyed */
    once.hooks = &mine;
    once.n_hooks = 1;
    assert_fails(hs_evaluation_loop(hs_script_backend(h->s->script),
                                    &(hs_evaluation_loop_options){HS_EVALUATION_LOOP_OPTIONS, .once = &once}, NULL,
                                    &h->s->err),
                 HS_INVALID_ARGUMENT, &h->s->err, "and no checkpoint_path");
}

static void nothing_to_evaluate_with_is_refused_before_it_waits(void **state)
{
    shop *h = *state;
    const hs_evaluate_once_options once = {HS_EVALUATE_ONCE_OPTIONS, .checkpoint_dir = h->s->directory};
    assert_fails(hs_evaluation_loop(hs_script_backend(h->s->script),
                                    &(hs_evaluation_loop_options){HS_EVALUATION_LOOP_OPTIONS, .once = &once}, NULL,
                                    &h->s->err),
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
    static const hs_hook_ops ops = {HS_HOOK_OPS, .name = "enough", .after_run = had_enough};
    shop_train_to(h, 4);
    h->batches = 0;
    hs_metrics *m = shop_evaluate(
        h, (hs_evaluate_options){HS_EVALUATE_OPTIONS, .hooks = &(hs_hook){.ops = &ops}, .n_hooks = 1, .steps = 2});
    if (m)
        assert_float_equal(hs_metrics_value(m, "w"), 4, 0);
    else
        assert_int_equal(h->s->err.code, HS_FAILED_PRECONDITION);
    hs_metrics_free(m);
}

/* Train and evaluate. */

static void train_and_evaluate(shop *h, double delay, double throttle, hs_evaluated_fn evaluated, int64_t max_steps)
{
    hs_evaluate_options evaluate = {HS_EVALUATE_OPTIONS, .input = shop_input(h), .steps = 1};
    hs_train_options train = {HS_TRAIN_OPTIONS, .input = shop_input(h), .max_steps = max_steps};
    if (!h->e)
        shop_open(h);
    h->batches = 0;
    h->s->outcome = hs_train_and_evaluate(h->e, &train,
                                          &(hs_eval_spec){HS_EVAL_SPEC, .evaluate = &evaluate, .start_delay_secs = delay,
                                                          .throttle_secs = throttle, .evaluated = evaluated, .user = h},
                                          &h->s->err);
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

static hs_code enough(void *user, const hs_metrics *metrics, hs_error *err)
{
    shop_evaluated(user, metrics, err);
    return HS_STOP;
}

static void whoever_is_told_may_end_the_training(void **state)
{
    shop *h = *state;
    train_and_evaluate(h, HS_NEVER, HS_NEVER, enough, 100);
    assert_int_equal(h->s->outcome.step, 5);
    assert_int_equal(h->s->outcome.reason, HS_REASON_STOPPED);
    assert_int_equal(h->evaluations, 1);
}

static hs_code refuse(void *user, const hs_metrics *metrics, hs_error *err)
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

static void what_makes_no_sense_is_refused(void **state)
{
    shop *h = *state;
    train_and_evaluate(h, -5, 0, NULL, 1);
    assert_says(&h->s->err, HS_INVALID_ARGUMENT, "start_delay_secs is -5; none is HS_NEVER");
}

/* The loop of slim's. */

static hs_code two_runs(void *user, hs_step_context *step, hs_error *err)
{
    const hs_run_args args = {HS_RUN_ARGS, .names = HS_NAMES("train")};
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
    hs_outcome o =
        hs_train_loop(hs_script_backend(h->s->script),
                      &(hs_train_loop_options){HS_TRAIN_LOOP_OPTIONS, .step = two_runs, .step_user = &calls}, &h->s->err);
    assert_ok(o.error.code, &h->s->err);
    assert_int_equal(o.step, 6);
}

static void a_loop_needs_something_to_do(void **state)
{
    shop *h = *state;
    hs_outcome o =
        hs_train_loop(hs_script_backend(h->s->script), &(hs_train_loop_options){HS_TRAIN_LOOP_OPTIONS}, &h->s->err);
    assert_int_equal(o.reason, HS_REASON_FAILED);
    assert_says(&h->s->err, HS_INVALID_ARGUMENT, "none of train_op and step is given");
}

static void options_of_a_training_may_be_shorter(void **state)
{
    shop *h = *state;
    int calls = 3;
    size_t size = offsetof(hs_training_options, recovery);
    hs_training_options *training = malloc(size);
    memset(training, 0, size);
    memcpy(training, &size, sizeof size);
    hs_outcome o = hs_train_loop(
        hs_script_backend(h->s->script),
        &(hs_train_loop_options){HS_TRAIN_LOOP_OPTIONS, .step = two_runs, .step_user = &calls, .training = training},
        &h->s->err);
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
    static const hs_hook_ops ops = {HS_HOOK_OPS, .name = "counted", .destroy = destroyed};
    const hs_hook hook = {.ops = &ops, .self = &n};
    const hs_evaluate_options evaluate = {HS_EVALUATE_OPTIONS, .hooks = &hook, .n_hooks = 1};
    shop_open(h);
    hs_train_and_evaluate(h->e, &(hs_train_options){.size = 0}, &(hs_eval_spec){HS_EVAL_SPEC, .evaluate = &evaluate},
                          &h->s->err);
    assert_says(&h->s->err, HS_INVALID_ARGUMENT, "hs_train_options.size");
    assert_int_equal(n, 1);
}

/* Without memory. */

static hs_code all_of_it(test_env *t, void *user)
{
    shop *h = user;
    hs_error err = {0};
    h->e = NULL;
    hs_code code = shop_try(h, &t->env, &err);
    return code;
}

static void without_memory_nothing_is_left(void **state)
{
    test_each_allocation(all_of_it, *state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_shop(each_new_checkpoint_once_until_none_comes),
        with_shop(so_many_evaluations),
        with_shop(time_between_evaluations),
        with_shop(a_checkpoint_that_is_deleted_while_it_is_evaluated),
        with_shop(a_checkpoint_that_is_deleted_gives_way_to_another),
        with_shop(a_damaged_checkpoint_is_an_error),
        with_shop(no_path_in_a_loop),
        with_shop(nothing_to_evaluate_with_is_refused_before_it_waits),
        with_shop(a_hook_that_returns_stop_ends_the_batches),
        with_shop(each_checkpoint_and_the_last),
        with_shop(throttled_only_the_last),
        with_shop(throttled_from_the_first_on),
        with_shop(a_training_that_is_done_is_evaluated_once_more),
        with_shop(whoever_is_told_may_end_the_training),
        with_shop(a_failing_evaluation_ends_the_training),
        with_shop(what_makes_no_sense_is_refused),
        with_shop(a_step_function_makes_the_steps),
        with_shop(a_loop_needs_something_to_do),
        with_shop(options_of_a_training_may_be_shorter),
        with_shop(options_that_cannot_be_read_take_the_hooks_of_the_others),
        with_shop(without_memory_nothing_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
