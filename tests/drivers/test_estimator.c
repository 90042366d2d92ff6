/* SPDX-License-Identifier: Apache-2.0 */
/* Estimators: training, evaluating, predicting. */
#include "drivers/shop.h"
#include "summary/events.h"

static hs_code no_model(void *user, hs_mode mode, hs_estimator_spec *spec, hs_error *err)
{
    (void)user, (void)mode, (void)spec, (void)err;
    return HS_OK;
}

static void a_model_function_and_a_directory_are_needed(void **state)
{
    const shop *h = *state;
    hs_error err = {0};
    const char *directory = h->s->directory;
    assert_null(hs_estimator_new(HS_ESTIMATOR_OPTIONS(.checkpoint_dir = directory), &err));
    assert_says(&err, HS_INVALID_ARGUMENT, "hs_estimator_options.model_fn is missing");
    hs_error_clear(&err);
    assert_null(hs_estimator_new(HS_ESTIMATOR_OPTIONS(.model_fn = no_model), &err));
    assert_says(&err, HS_INVALID_ARGUMENT, "hs_estimator_options.checkpoint_dir is missing");
    hs_error_clear(&err);
    const hs_estimator_options empty = HS_INIT(hs_estimator_options, .model_fn = no_model, .checkpoint_dir = "");
    assert_null(hs_estimator_new(&empty, &err));
    assert_says(&err, HS_INVALID_ARGUMENT, "hs_estimator_options.checkpoint_dir is missing");
}

/* Training. */

static void trains_up_to_max_steps(void **state)
{
    shop *h = *state;
    shop_train_to(h, 7);
    assert_int_equal(h->s->outcome.reason, HS_REASON_STOPPED);
    assert_int_equal(latest_step(h->s->directory), 7);
}

static void steps_are_added_to_the_restored_step(void **state)
{
    shop *h = *state;
    shop_train_to(h, 7);
    shop_train(h, *HS_ESTIMATOR_TRAIN_OPTIONS(.steps = 7));
    assert_int_equal(h->s->outcome.step, 14);
    assert_float_equal(h->loss, 1.0 / 14, 1e-12);
}

static void max_steps_already_reached_makes_no_step(void **state)
{
    shop *h = *state;
    shop_train_to(h, 7);
    test_env_clear_log(&h->s->t);
    shop_train(h, *HS_ESTIMATOR_TRAIN_OPTIONS(.max_steps = 7));
    assert_int_equal(h->s->outcome.reason, HS_REASON_ALREADY_DONE);
    assert_int_equal(h->s->outcome.step, 7);
    assert_contains(h->s->t.log, "training is already done: last_step is 7");
}

static void a_loss_that_is_not_a_number_ends_training(void **state)
{
    shop *h = *state;
    h->diverges = 3;
    shop_train(h, *HS_ESTIMATOR_TRAIN_OPTIONS(.max_steps = 7));
    assert_int_equal(h->s->outcome.reason, HS_REASON_FAILED);
    assert_int_equal(h->s->outcome.step, 3);
    assert_contains(h->s->err.message, "'loss'");
}

static void a_model_needs_no_loss(void **state)
{
    shop *h = *state;
    h->diverges = 3;
    h->no_loss = true;
    shop_train_to(h, 7);
}

static void trains_to_the_end_of_the_input(void **state)
{
    shop *h = *state;
    hs_hook mine = hs_script_watch(h->s->script, "mine", hs_final_ops(.names = NULL));
    shop_train(h, *HS_ESTIMATOR_TRAIN_OPTIONS(.hooks = HS_HOOKS(mine, hs_stop_at_step(.last_step = 4))));
    assert_int_equal(h->s->outcome.step, 4);
    assert_int_equal(count_of(hs_script_calls(h->s->script), "mine.after"), 4);
}

static void hooks_of_the_model_function_come_before_the_callers(void **state)
{
    shop *h = *state;
    hs_hook of_model = hs_script_watch(h->s->script, "model", hs_final_ops(.names = NULL));
    hs_hook mine = hs_script_watch(h->s->script, "mine", hs_final_ops(.names = NULL));
    h->hooks = HS_HOOKS(of_model);
    shop_train(h, *HS_ESTIMATOR_TRAIN_OPTIONS(.max_steps = 1, .hooks = HS_HOOKS(mine)));
    assert_contains(hs_script_calls(h->s->script), "model.begin mine.begin");
}

static void keeps_max_to_keep_checkpoints(void **state)
{
    shop *h = *state;
    h->max_to_keep = 2;
    h->save_steps = 1;
    shop_train_to(h, 6);
    assert_int_equal(test_count_files(h->s->directory, ".index"), 2);
}

static void not_both_steps_and_max_steps(void **state)
{
    shop *h = *state;
    hs_hook mine = hs_script_watch(h->s->script, "mine", hs_final_ops(.names = NULL));
    shop_train(h, *HS_ESTIMATOR_TRAIN_OPTIONS(.steps = 1, .max_steps = 2, .hooks = HS_HOOKS(mine)));
    assert_int_equal(h->s->outcome.reason, HS_REASON_FAILED);
    assert_says(&h->s->err, HS_INVALID_ARGUMENT, "steps is 1 and max_steps is 2; give at most one");
}

static void a_failing_model_function_ends_the_call(void **state)
{
    shop *h = *state;
    h->model_fails = HS_INTERNAL;
    shop_train(h, *HS_ESTIMATOR_TRAIN_OPTIONS(.max_steps = 2));
    assert_int_equal(h->s->outcome.error.code, HS_INTERNAL);
    assert_says(&h->s->err, HS_INTERNAL, "model_fn");
}

/* An input that feeds the placeholder it adds to the graph. */
typedef struct {
    double batch, last;
    hs_feed feeds[2];
} fed;

static hs_code next_feed(void *user, const hs_feed **feeds, hs_error *err)
{
    fed *f = user;
    if (f->batch >= f->last)
        return hs_error_set(err, HS_OUT_OF_RANGE, "no more");
    f->batch++;
    f->feeds[0] = (hs_feed){"next", hs_tensor_of(HS_DOUBLE, HS_SCALAR, &f->batch)};
    *feeds = f->feeds;
    return HS_OK;
}

static hs_code feeding(void *user, hs_mode mode, hs_backend backend, hs_hook *hook, hs_error *err)
{
    fed *f = user;
    (void)mode, (void)err;
    f->batch = 0;
    *hook = hs_feed_fn(.feeds = next_feed, .user = f);
    return hs_graph_placeholder(hs_graph_of(backend), "next", HS_DOUBLE, HS_SCALAR);
}

static void an_input_function_may_feed_placeholders(void **state)
{
    shop *h = *state;
    fed f = {.last = 3};
    shop_open(h);
    hs_outcome o = hs_estimator_train(h->e, HS_ESTIMATOR_TRAIN_OPTIONS(.input = {feeding, &f}), &h->s->err);
    assert_int_equal(o.reason, HS_REASON_END_OF_INPUT);
    assert_int_equal(o.step, 3);
    hs_evaluation_result *m =
        hs_estimator_evaluate(h->e, HS_ESTIMATOR_EVALUATE_OPTIONS(.input = {feeding, &f}), &h->s->err);
    assert_int_equal(hs_evaluation_result_batches(m), 3);
    assert_float_equal(hs_evaluation_result_value(m, "sum"), 6, 0);
    hs_evaluation_result_free(m);
}

static hs_code no_data(void *user, hs_mode mode, hs_backend backend, hs_hook *hook, hs_error *err)
{
    (void)user, (void)mode, (void)backend, (void)hook;
    return hs_error_set(err, HS_NOT_FOUND, "no data");
}

static void a_failing_input_function_releases_the_graph_once(void **state)
{
    shop *h = *state;
    const hs_input input = {no_data, NULL};
    shop_open(h);
    hs_estimator_train(h->e, HS_ESTIMATOR_TRAIN_OPTIONS(.input = input), &h->s->err);
    assert_says(&h->s->err, HS_NOT_FOUND, "no data");
    assert_int_equal(h->released, 1);
    assert_null(hs_estimator_evaluate(h->e, HS_ESTIMATOR_EVALUATE_OPTIONS(.input = input), &h->s->err));
    assert_int_equal(h->released, 2);
    assert_fails(hs_estimator_predict(h->e, HS_ESTIMATOR_PREDICT_OPTIONS(.input = input), &h->s->err), HS_NOT_FOUND,
                 &h->s->err, "no data");
    assert_int_equal(h->released, 3);
}

static hs_code saved(void *self, hs_raw_session *session, int64_t step, bool *request_stop, hs_error *err)
{
    (void)session, (void)err;
    *(int64_t *)self = step;
    *request_stop = step == 5;
    return HS_OK;
}

static void a_saver_listener_is_called_and_may_stop(void **state)
{
    shop *h = *state;
    static const hs_saver_listener_ops ops = HS_INIT(hs_saver_listener_ops, .after_save = saved);
    int64_t step = -1;
    shop_train(h, *HS_ESTIMATOR_TRAIN_OPTIONS(.max_steps = 100, .listeners = HS_LISTENERS({&ops, &step})));
    assert_int_equal(step, 5);
    assert_int_equal(h->s->outcome.step, 5);
}

static void listeners_need_something_that_saves(void **state)
{
    shop *h = *state;
    static const hs_saver_listener_ops ops = HS_INIT(hs_saver_listener_ops);
    h->save_steps = HS_NEVER;
    shop_train(h, *HS_ESTIMATOR_TRAIN_OPTIONS(.max_steps = 1, .listeners = HS_LISTENERS({&ops, NULL})));
    assert_says(&h->s->err, HS_INVALID_ARGUMENT, "hs_training_options.listeners is set, but no checkpoints are saved");
}

/* Evaluating. */

static void evaluates_the_newest_checkpoint(void **state)
{
    shop *h = *state;
    shop_train_to(h, 7);
    hs_evaluation_result *m = shop_evaluate(h, (hs_estimator_evaluate_options)HS_INIT(hs_estimator_evaluate_options));
    assert_int_equal(hs_evaluation_result_step(m), 7);
    assert_float_equal(hs_evaluation_result_value(m, "w"), 7, 0);
    assert_float_equal(hs_evaluation_result_value(m, "sum"), 6, 0);
    assert_float_equal(hs_evaluation_result_value(m, "loss"), 2, 0);
    assert_int_equal(hs_evaluation_result_batches(m), 3);
    assert_true(hs_evaluation_result_value(m, "none") != hs_evaluation_result_value(m, "none"));
    hs_evaluation_result_free(m);
}

static void evaluates_n_batches_of_a_checkpoint_by_path(void **state)
{
    shop *h = *state;
    shop_train_to(h, 7);
    hs_evaluation_result *m = shop_evaluate(
        h, *HS_ESTIMATOR_EVALUATE_OPTIONS(.steps = 2, .checkpoint_prefix = test_path(h->s->directory, "model.ckpt-5")));
    assert_int_equal(hs_evaluation_result_step(m), 5);
    assert_float_equal(hs_evaluation_result_value(m, "sum"), 3, 0);
    hs_evaluation_result_free(m);
}

static void evaluations_are_written_to_a_separate_directory(void **state)
{
    shop *h = *state;
    shop_train_to(h, 7);
    hs_evaluation_result_free(shop_evaluate(h, (hs_estimator_evaluate_options)HS_INIT(hs_estimator_evaluate_options)));
    hs_evaluation_result_free(shop_evaluate(h, *HS_ESTIMATOR_EVALUATE_OPTIONS(.name = "test")));
    assert_contains(events_text(test_path(h->s->directory, "eval")), "loss=2@7 sum=6@7 w=7@7");
    assert_contains(events_text(test_path(h->s->directory, "eval_test")), "w=7@7");
    assert_lacks(events_text(h->s->directory), "sum");
    test_remove_directory(strdup(test_path(h->s->directory, "eval")));
    test_remove_directory(strdup(test_path(h->s->directory, "eval_test")));
}

static void evaluating_never_writes_into_the_checkpoint_state(void **state)
{
    shop *h = *state;
    size_t bytes, after_bytes;
    shop_train_to(h, 7);
    size_t files = test_count_files(h->s->directory, "");
    char *before = test_read_file(test_path(h->s->directory, "checkpoint"), &bytes);
    hs_evaluation_result_free(
        shop_evaluate(h, *HS_ESTIMATOR_EVALUATE_OPTIONS(.checkpoint_prefix = test_path(h->s->directory, "model.ckpt-5"))));
    char *after = test_read_file(test_path(h->s->directory, "checkpoint"), &after_bytes);
    assert_string_equal(before, after);
    assert_int_equal(test_count_files(h->s->directory, ""), files + 1); /* eval */
    free(before);
    free(after);
    test_remove_directory(strdup(test_path(h->s->directory, "eval")));
    assert_int_equal(latest_step(h->s->directory), 7);
}

static void hooks_are_called_for_the_batches_of_an_evaluation(void **state)
{
    shop *h = *state;
    shop_train_to(h, 1);
    hs_hook mine = hs_script_watch(h->s->script, "mine", hs_final_ops(.names = NULL));
    hs_evaluation_result_free(shop_evaluate(h, *HS_ESTIMATOR_EVALUATE_OPTIONS(.hooks = HS_HOOKS(mine))));
    assert_int_equal(count_of(hs_script_calls(h->s->script), "mine.after"), 3);
    assert_int_equal(count_of(hs_script_calls(h->s->script), "mine.end"), 1);
    test_remove_directory(strdup(test_path(h->s->directory, "eval")));
}

static void without_a_checkpoint_there_is_nothing_to_evaluate(void **state)
{
    shop *h = *state;
    assert_null(shop_evaluate(h, (hs_estimator_evaluate_options)HS_INIT(hs_estimator_evaluate_options)));
    assert_says(&h->s->err, HS_NOT_FOUND, "no checkpoint exists; train first, or set checkpoint_prefix");
}

static void an_empty_input_fails_the_evaluation(void **state)
{
    shop *h = *state;
    shop_train_to(h, 1);
    h->batches = -1;
    assert_null(shop_evaluate(h, (hs_estimator_evaluate_options)HS_INIT(hs_estimator_evaluate_options)));
    assert_says(&h->s->err, HS_FAILED_PRECONDITION, "no batch to evaluate");
}

/* Predicting. */

static hs_code note_rows(void *user, int64_t index, const hs_tensor *values, size_t n, hs_error *err)
{
    shop *h = user;
    (void)err, (void)n;
    assert_int_equal(index, h->calls);
    h->rows[h->calls++] = hs_tensor_number(&values[0], 0);
    return h->calls == 5 ? HS_STOP : HS_OK;
}

static hs_code predict(shop *h, hs_estimator_predict_options options)
{
    options.input = shop_input(h);
    options.predicted = note_rows;
    options.user = h;
    return hs_estimator_predict(h->e, &options, &h->s->err);
}

static void predicts_one_by_one(void **state)
{
    shop *h = *state;
    shop_train_to(h, 1);
    h->batches = 2;
    assert_ok(predict(h, *HS_ESTIMATOR_PREDICT_OPTIONS(.keys = HS_NAMES("pair"))), &h->s->err);
    assert_int_equal(h->calls, 4);
    assert_float_equal(h->rows[1], 10, 0);
    assert_float_equal(h->rows[2], 2, 0);
}

static void whole_batches_need_no_rows(void **state)
{
    shop *h = *state;
    shop_train_to(h, 6);
    assert_ok(predict(h, *HS_ESTIMATOR_PREDICT_OPTIONS(.keys = HS_NAMES("w"), .whole_batches = true)), &h->s->err);
    assert_int_equal(h->calls, 5); /* it reads no input, and ends when `predicted` returns HS_STOP */
    assert_float_equal(h->rows[0], 6, 0);
}

static void predicts_with_a_checkpoint_by_path(void **state)
{
    shop *h = *state;
    shop_train_to(h, 6);
    assert_ok(predict(h, *HS_ESTIMATOR_PREDICT_OPTIONS(.keys = HS_NAMES("w"), .whole_batches = true,
                                                       .checkpoint_prefix = test_path(h->s->directory, "model.ckpt-5"))),
              &h->s->err);
    assert_float_equal(h->rows[0], 5, 0);
}

static void prediction_stops_when_no_more_are_wanted(void **state)
{
    shop *h = *state;
    shop_train_to(h, 1);
    h->batches = 0;
    assert_ok(predict(h, *HS_ESTIMATOR_PREDICT_OPTIONS(.keys = HS_NAMES("pair"))), &h->s->err);
    assert_int_equal(h->calls, 5);
}

static void one_by_one_all_predictions_have_rows(void **state)
{
    shop *h = *state;
    shop_train_to(h, 1);
    assert_fails(predict(h, (hs_estimator_predict_options)HS_INIT(hs_estimator_predict_options)), HS_INVALID_ARGUMENT,
                 &h->s->err, "'w' does not have one row");
}

static void an_unknown_key_fails_the_prediction(void **state)
{
    shop *h = *state;
    shop_train_to(h, 1);
    assert_fails(predict(h, *HS_ESTIMATOR_PREDICT_OPTIONS(.keys = HS_NAMES("score"))), HS_NOT_FOUND, &h->s->err, "score");
}

static void what_succeeds_clears_the_error(void **state)
{
    shop *h = *state;
    hs_error *err = &h->s->err;
    hs_estimator *e;
    h->batches = 2;
    shop_train_to(h, 1);
    const hs_estimator_options options =
        HS_INIT(hs_estimator_options, .model_fn = no_model, .checkpoint_dir = h->s->directory);
    assert_clears(err, e = hs_estimator_new(&options, err));
    assert_clears(err, hs_env_free(NULL, hs_estimator_latest_checkpoint(e, err)));
    hs_estimator_free(e);
    const hs_estimator_train_options train = HS_INIT(hs_estimator_train_options, .input = shop_input(h), .max_steps = 2);
    const hs_estimator_evaluate_options evaluate = HS_INIT(hs_estimator_evaluate_options, .input = shop_input(h));
    assert_clears(err, hs_estimator_train(h->e, &train, err));
    assert_clears(err, hs_evaluation_result_free(hs_estimator_evaluate(h->e, &evaluate, err)));
    assert_clears(err, hs_estimator_train_and_evaluate(h->e, &train, HS_ESTIMATOR_EVAL_SPEC(.evaluate = &evaluate), err));
    const hs_estimator_predict_options wanted = HS_INIT(hs_estimator_predict_options, .input = shop_input(h),
                                                        .keys = HS_NAMES("pair"), .predicted = note_rows, .user = h);
    assert_clears(err, hs_estimator_predict(h->e, &wanted, err));
    hs_graph *g = shop_graph(h, HS_MODE_EVAL);
    const hs_evaluate_once_options once =
        HS_INIT(hs_evaluate_once_options, .checkpoint_dir = h->s->directory, .metrics = HS_NAMES("w"));
    const hs_evaluation_loop_options loop = HS_INIT(hs_evaluation_loop_options, .once = &once, .max_evaluations = 1);
    shop_input(h).fn(h, HS_MODE_EVAL, hs_graph_backend(g), NULL, NULL);
    assert_clears(err, hs_evaluation_result_free(hs_evaluate_once(hs_graph_backend(g), &once, err)));
    assert_clears(err, hs_evaluation_loop(hs_graph_backend(g), &loop, NULL, err));
    hs_graph_free(g);
    g = shop_graph(h, HS_MODE_TRAIN);
    shop_input(h).fn(h, HS_MODE_TRAIN, hs_graph_backend(g), NULL, NULL);
    const hs_training_options training = HS_INIT(hs_training_options, .hooks = HS_HOOKS(hs_stop_at_step(.last_step = 1)));
    assert_clears(err, hs_estimator_train_loop(hs_graph_backend(g),
                                               HS_ESTIMATOR_TRAIN_LOOP_OPTIONS(.train_op = "train", .training = &training),
                                               err));
    hs_graph_free(g);
}

static void a_null_estimator_is_refused(void **state)
{
    hs_error err = {0};
    (void)state;
    assert_int_equal(hs_estimator_train(NULL, NULL, &err).reason, HS_REASON_FAILED);
    assert_says(&err, HS_INVALID_ARGUMENT, "estimator is NULL");
    assert_int_equal(hs_estimator_train(NULL, NULL, NULL).error.code, HS_INVALID_ARGUMENT);
    assert_int_equal(hs_estimator_train_and_evaluate(NULL, NULL, NULL, &err).error.code, HS_INVALID_ARGUMENT);
    assert_null(hs_estimator_evaluate(NULL, NULL, &err));
    assert_says(&err, HS_INVALID_ARGUMENT, "estimator is NULL");
    assert_int_equal(hs_estimator_predict(NULL, NULL, &err), HS_INVALID_ARGUMENT);
    assert_null(hs_estimator_latest_checkpoint(NULL, &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_null_estimator_is_refused),
        with_shop(trains_up_to_max_steps),
        with_shop(steps_are_added_to_the_restored_step),
        with_shop(a_model_function_and_a_directory_are_needed),
        with_shop(max_steps_already_reached_makes_no_step),
        with_shop(a_loss_that_is_not_a_number_ends_training),
        with_shop(a_model_needs_no_loss),
        with_shop(trains_to_the_end_of_the_input),
        with_shop(hooks_of_the_model_function_come_before_the_callers),
        with_shop(keeps_max_to_keep_checkpoints),
        with_shop(not_both_steps_and_max_steps),
        with_shop(a_failing_model_function_ends_the_call),
        with_shop(an_input_function_may_feed_placeholders),
        with_shop(a_failing_input_function_releases_the_graph_once),
        with_shop(a_saver_listener_is_called_and_may_stop),
        with_shop(listeners_need_something_that_saves),
        with_shop(evaluates_the_newest_checkpoint),
        with_shop(evaluates_n_batches_of_a_checkpoint_by_path),
        with_shop(evaluations_are_written_to_a_separate_directory),
        with_shop(evaluating_never_writes_into_the_checkpoint_state),
        with_shop(hooks_are_called_for_the_batches_of_an_evaluation),
        with_shop(without_a_checkpoint_there_is_nothing_to_evaluate),
        with_shop(an_empty_input_fails_the_evaluation),
        with_shop(predicts_one_by_one),
        with_shop(whole_batches_need_no_rows),
        with_shop(predicts_with_a_checkpoint_by_path),
        with_shop(prediction_stops_when_no_more_are_wanted),
        with_shop(one_by_one_all_predictions_have_rows),
        with_shop(an_unknown_key_fails_the_prediction),
        with_shop(what_succeeds_clears_the_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
