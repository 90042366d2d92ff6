/* SPDX-License-Identifier: Apache-2.0 */
/* run_mode at the end selects evaluate, train_and_evaluate or predict. */
#include "modes.h"

#include "tester.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* The argument of the model function. The training uses the graph of the run, evaluation and prediction that of the tester.
 */
struct model {
    struct run *run;
    struct tester *tester;
    hs_hook hooks[MAX_HOOKS];
};

static hs_code model_fn(void *user, hs_mode mode, hs_estimator_spec *spec, hs_error *err)
{
    struct model *model = user;
    (void)err;
    spec->eval_op = "count";
    spec->metrics = tester_metrics;
    spec->predictions = tester_predictions;
    spec->backend = hs_graph_backend(model->tester->graph);
    if (mode != HS_MODE_TRAIN)
        return HS_OK;
    spec->backend = hs_graph_backend(model->run->graph);
    spec->train_op = "train";
    spec->scaffold = model->run->scaffold;
    run_hooks(model->run, model->hooks);
    spec->hooks = model->hooks;
    return HS_OK;
}

static hs_estimator *make_estimator(struct model *model, hs_error *err)
{
    const struct options *options = &model->run->options;
    return hs_estimator_new(
        HS_ESTIMATOR_OPTIONS(.model_fn = model_fn, .user = model, .checkpoint_dir = options->model_dir,
                             .save_checkpoint_steps = options->save_secs > 0 ? 0 : or_never(options->save_steps),
                             .save_checkpoint_secs = options->save_secs > 0 ? options->save_secs : 0,
                             .save_summaries_steps = HS_NEVER, .signals = true),
        err);
}

static void print_metrics(const hs_evaluation_result *metrics)
{
    printf("step %lld: test accuracy %.4f, loss %.4f\n", (long long)hs_evaluation_result_step(metrics),
           hs_evaluation_result_value(metrics, ACCURACY_TAG), hs_evaluation_result_value(metrics, LOSS_TAG));
    fflush(stdout);
}

/* --mode evaluate: each new checkpoint, while another process trains. */

static hs_code print_and_stop_after_last(void *user, const hs_evaluation_result *metrics, hs_error *err)
{
    const struct run *run = user;
    (void)err;
    print_metrics(metrics);
    return hs_evaluation_result_step(metrics) >= run->options.last_step[0] ? HS_STOP : HS_OK;
}

static hs_code evaluate(struct model *model, hs_error *err)
{
    struct options *options = &model->run->options;
    char directory[4096];
    int64_t n_evaluations;
    hs_code code = dataset_load(&model->run->trainer.train, options->data, "train", err);
    if (code)
        return code;
    options_fit(options, model->run->trainer.train.n, false); /* sets last_step */
    if (snprintf(directory, sizeof directory, "%s/eval", options->model_dir) >= (int)sizeof directory)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "--model-dir is too long");
    const hs_evaluate_once_options once = HS_INIT(hs_evaluate_once_options, .checkpoint_dir = options->model_dir,
                                                  .eval_op = "count", .metrics = tester_metrics, .summary_dir = directory);
    code = hs_evaluation_loop(hs_graph_backend(model->tester->graph),
                              HS_EVALUATION_LOOP_OPTIONS(.once = &once, .evaluated = print_and_stop_after_last,
                                                         .user = model->run, .timeout_secs = options->timeout_secs,
                                                         .min_wait_secs = options->throttle_secs),
                              &n_evaluations, err);
    return code == HS_DEADLINE_EXCEEDED && n_evaluations ? HS_OK : code; /* the training has ended */
}

/* --mode train-and-evaluate: both in this process. */

static hs_code print_evaluation(void *user, const hs_evaluation_result *metrics, hs_error *err)
{
    (void)user, (void)err;
    print_metrics(metrics);
    return HS_OK;
}

static hs_code train_and_evaluate(struct model *model, int *status, hs_error *err)
{
    double throttle = model->run->options.throttle_secs;
    hs_code code = run_prepare(model->run, err);
    hs_estimator *estimator = code ? NULL : make_estimator(model, err);
    if (!estimator)
        return err->code;
    const hs_estimator_evaluate_options evaluation = HS_INIT(hs_estimator_evaluate_options);
    hs_outcome outcome = hs_estimator_train_and_evaluate(
        estimator, NULL,
        HS_ESTIMATOR_EVAL_SPEC(.evaluate = &evaluation, .evaluated = print_evaluation, .start_delay_secs = HS_NEVER,
                               .throttle_secs = throttle > 0 ? throttle : HS_NEVER),
        err);
    hs_estimator_free(estimator);
    *status = hs_outcome_exit_code(&outcome);
    return outcome.error.code;
}

/* --mode predict. */

enum { MAX_IMAGES = 1000 };

static hs_code parse_images(int64_t *images, size_t *n, const struct run *run, size_t n_test, hs_error *err)
{
    const char *text = run->options.images;
    for (*n = 0; *n < MAX_IMAGES; text++) {
        char *end;
        errno = 0;
        images[*n] = strtoll(text, &end, 10);
        if (end == text || errno || images[*n] < 0 || (size_t)images[*n] >= n_test)
            break;
        ++*n;
        text = end;
        if (!*text)
            return HS_OK;
        if (*text != ',')
            break;
    }
    return hs_error_set(err, HS_INVALID_ARGUMENT, "--images '%s': give at most %d numbers from 0 to %zu, as in 0,5,17",
                        run->options.images, MAX_IMAGES, n_test - 1);
}

static hs_code print_prediction(void *user, int64_t index, const hs_tensor *values, size_t n, hs_error *err)
{
    (void)user, (void)index, (void)n, (void)err;
    printf("image %.0f: class %.0f, probability %.4f\n", hs_tensor_number(&values[0], 0), hs_tensor_number(&values[1], 0),
           hs_tensor_number(&values[2], 0));
    return HS_OK;
}

static hs_code predict(struct model *model, hs_error *err)
{
    static int64_t images[MAX_IMAGES];
    struct tester *tester = model->tester;
    hs_code code = parse_images(images, &tester->n_images, model->run, tester->test.n, err);
    hs_estimator *estimator = code ? NULL : make_estimator(model, err);
    if (!estimator)
        return err->code;
    tester->images = images;
    code = hs_estimator_predict(estimator, HS_ESTIMATOR_PREDICT_OPTIONS(.predicted = print_prediction), err);
    hs_estimator_free(estimator);
    return code;
}

int run_mode(struct run *run)
{
    static struct tester tester;
    struct model model = {.run = run, .tester = &tester};
    hs_error err = {0};
    int status = 0;
    log_init(&run->log);
    hs_code code = tester_init(&tester, &run->options, &run->log.env, &err);
    if (!code && run->options.mode == MODE_EVALUATE)
        code = evaluate(&model, &err);
    else if (!code && run->options.mode == MODE_PREDICT)
        code = predict(&model, &err);
    else if (!code)
        code = train_and_evaluate(&model, &status, &err);
    if (code) {
        run_explain(&run->options, run->graph ? run->graph : tester.graph, &err);
        fprintf(stderr, "trainer: %s\n", err.message);
    }
    run_free(run);
    tester_free(&tester);
    if (code || fflush(stdout) != 0)
        return 1;
    return status;
}
