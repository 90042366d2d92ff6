/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_ESTIMATOR_H
#define HOOKSESS_ESTIMATOR_H

#include <hooksess/evaluation_loop.h>
#include <hooksess/training_session.h>

/* Trains, evaluates and predicts with one model function. See docs/estimators.md. TensorFlow: Estimator,
 * train_and_evaluate, slim's learning.train.
 *
 *     hs_estimator *e = hs_estimator_new(
 *         HS_ESTIMATOR_OPTIONS(.model_fn = classifier, .user = &model, .checkpoint_dir = "run"), &err);
 *     hs_outcome outcome = hs_estimator_train(
 *         e, HS_ESTIMATOR_TRAIN_OPTIONS(.input = {images, &reader}, .max_steps = 10000), &err);
 *     hs_evaluation_result *result = hs_estimator_evaluate(
 *         e, HS_ESTIMATOR_EVALUATE_OPTIONS(.input = {images, &test}), &err);
 *     printf("accuracy %g\n", hs_evaluation_result_value(result, "accuracy"));
 *     hs_evaluation_result_free(result);
 *     hs_estimator_free(e);
 *
 * Each call gets a graph from the model function, opens and closes one session on it, and releases the graph. Only the
 * checkpoints connect the calls.
 *
 * Threads: one thread at a time per object. */

HS_BEGIN_DECLS

typedef enum hs_mode { HS_MODE_TRAIN = 1, HS_MODE_EVAL = 2, HS_MODE_PREDICT = 3 } hs_mode;

/* The graph of a model function. It must stay valid until `release`. TensorFlow: EstimatorSpec. */
typedef struct hs_estimator_spec {
    size_t size;
    hs_backend backend;         /* (required) */
    const char *train_op;       /* (required to train) an op */
    const char *loss;           /* training logs it and checks it for NaN; evaluation reports its mean. NULL: none */
    const char *eval_op;        /* evaluates one batch. NULL: no op */
    const char *const *metrics; /* tensors of one number, fetched after the last batch of an evaluation */
    /* (required to predict) names of tensors with one row per example */
    const char *const *predictions;
    hs_scaffold *scaffold;       /* NULL: the default */
    const hs_hook *hooks;        /* HS_HOOKS(...) */
    void (*release)(void *self); /* called after the session is closed, or after a failure */
    void *self;
} hs_estimator_spec;

/* Builds the graph for `mode` and fills in `spec`, of which only `size` is set:
 *
 *     spec->backend = hs_graph_backend(graph);
 *     spec->train_op = "train";
 *     spec->loss = "loss";
 *
 * hs_estimator_train_and_evaluate() evaluates on a second graph while the first one trains: they must not share memory. */
typedef hs_code (*hs_model_fn)(void *user, hs_mode mode, hs_estimator_spec *spec, hs_error *err);

/* Called after the model function. Connects the input to its graph: adds a queue or ops (hs_graph_of), or sets *hook to a
 * hook that feeds placeholders (hs_feed_fn). The session frees the hook. */
typedef hs_code (*hs_input_fn)(void *user, hs_mode mode, hs_backend backend, hs_hook *hook, hs_error *err);
/* fn NULL: the model function provides the input. Frozen. */
typedef struct hs_input {
    hs_input_fn fn;
    void *user;
} hs_input;

typedef struct hs_estimator hs_estimator;

/* Fields without a comment: as in hs_training_options. */
typedef struct hs_estimator_options {
    size_t size;
    hs_model_fn model_fn; /* (required) */
    void *user;
    const char *checkpoint_dir; /* (required) for checkpoints and event files */
    double save_checkpoint_secs;
    int64_t save_checkpoint_steps;
    double save_summaries_secs;
    int64_t save_summaries_steps;
    /* Steps between log lines with the loss, and between rates. 0: 100. HS_NEVER: none */
    int64_t log_step_count_steps;
    int64_t max_to_keep;
    const hs_env *env;
    /* Training handles signals. Check hs_outcome.interrupted before the next call */
    bool signals;
    unsigned char reserved[7];
    double signal_grace_secs;
} hs_estimator_options;
#define HS_ESTIMATOR_OPTIONS(...) HS_OPTIONS(hs_estimator_options, __VA_ARGS__)

HS_API hs_estimator *hs_estimator_new(const hs_estimator_options *options, hs_error *err);
HS_API void hs_estimator_free(hs_estimator *estimator);
/* Returns the prefix of the newest checkpoint; free it with hs_env_free(). NULL: none exists. */
HS_API char *hs_estimator_latest_checkpoint(const hs_estimator *estimator, hs_error *err);

typedef struct hs_estimator_train_options {
    size_t size;
    hs_input input;
    int64_t steps; /* steps of this call. 0: no limit */
    /* Instead of steps: the last global step. If already reached, no step is made (HS_REASON_ALREADY_DONE). 0: no limit */
    int64_t max_steps;
    const hs_hook *hooks;               /* HS_HOOKS(...) */
    const hs_saver_listener *listeners; /* HS_LISTENERS(...): called around each save */
} hs_estimator_train_options;
#define HS_ESTIMATOR_TRAIN_OPTIONS(...) HS_OPTIONS(hs_estimator_train_options, __VA_ARGS__)

/* Trains from the newest checkpoint, if any, until the limit, HS_OUT_OF_RANGE, or a stop by a hook. Order of hooks: input,
 * model function, caller, stop, NaN check, loss lines; around them a training session's. TensorFlow: Estimator.train. */
HS_API hs_outcome hs_estimator_train(hs_estimator *estimator, const hs_estimator_train_options *options, hs_error *err);

typedef struct hs_estimator_evaluate_options {
    size_t size;
    hs_input input;
    int64_t steps;                 /* batches. 0, HS_NEVER: until HS_OUT_OF_RANGE */
    const char *name;              /* metrics go to checkpoint_dir/eval_NAME. NULL: checkpoint_dir/eval */
    const char *checkpoint_prefix; /* NULL: the newest */
    const hs_hook *hooks;          /* HS_HOOKS(...) */
} hs_estimator_evaluate_options;
#define HS_ESTIMATOR_EVALUATE_OPTIONS(...) HS_OPTIONS(hs_estimator_evaluate_options, __VA_ARGS__)

/* As hs_evaluate_once(). `options` NULL: the defaults. TensorFlow: Estimator.evaluate. */
HS_API hs_evaluation_result *hs_estimator_evaluate(hs_estimator *estimator, const hs_estimator_evaluate_options *options,
                                                   hs_error *err);

/* Receives a batch of predictions, or one example of it.
 *
 * index   number of the call, from 0
 * values  n tensors in the order of the keys, valid during the call, maybe in device memory (hs_tensor_host)
 *
 * HS_STOP or HS_OUT_OF_RANGE ends the prediction normally, any other code with that error. */
typedef hs_code (*hs_prediction_fn)(void *user, int64_t index, const hs_tensor *values, size_t n, hs_error *err);

typedef struct hs_estimator_predict_options {
    size_t size;
    hs_input input;
    const char *const *keys;       /* names of the tensors to return. NULL: all predictions */
    const char *checkpoint_prefix; /* NULL: the newest */
    const hs_hook *hooks;          /* HS_HOOKS(...) */
    hs_prediction_fn predicted;    /* (required) */
    void *user;
    bool whole_batches; /* one call per batch instead of one per example */
    unsigned char reserved[7];
} hs_estimator_predict_options;
#define HS_ESTIMATOR_PREDICT_OPTIONS(...) HS_OPTIONS(hs_estimator_predict_options, __VA_ARGS__)

/* Predicts until HS_OUT_OF_RANGE or HS_STOP. HS_INVALID_ARGUMENT: without whole_batches, a prediction has another number of
 * rows than the first. HS_NOT_FOUND: no checkpoint, or no tensor of that name. TensorFlow: Estimator.predict. */
HS_API hs_code hs_estimator_predict(hs_estimator *estimator, const hs_estimator_predict_options *options, hs_error *err);

/* For hs_estimator_train_and_evaluate(). TensorFlow: EvalSpec. */
typedef struct hs_estimator_eval_spec {
    size_t size;
    /* (required) without checkpoint_prefix. Each evaluation calls the hooks from `begin` to `close` */
    const hs_estimator_evaluate_options *evaluate;
    double start_delay_secs;         /* seconds before the first evaluation. 0: 120. HS_NEVER: none */
    double throttle_secs;            /* least seconds between the starts of two evaluations. 0: 600. HS_NEVER: none */
    hs_evaluation_done_fn evaluated; /* receives each result. HS_STOP ends the training normally */
    void *user;
} hs_estimator_eval_spec;
#define HS_ESTIMATOR_EVAL_SPEC(...) HS_OPTIONS(hs_estimator_eval_spec, __VA_ARGS__)

/* Trains like hs_estimator_train(), and evaluates new checkpoints after step 0 in the same thread.
 *
 *   the training was ended by                                        last step evaluated
 *   max_steps, HS_OUT_OF_RANGE, a hook, or because it was complete   yes
 *   a signal, a time limit, a stop of the session's coordinator      no
 *
 * In each case the last step is saved. A failing evaluation ends the training with its error. HS_INVALID_ARGUMENT: the
 * estimator's options switch checkpoints off. TensorFlow: train_and_evaluate, run locally. */
HS_API hs_outcome hs_estimator_train_and_evaluate(hs_estimator *estimator, const hs_estimator_train_options *train,
                                                  const hs_estimator_eval_spec *eval, hs_error *err);

/* Set either train_op or step. */
typedef struct hs_estimator_train_loop_options {
    size_t size;
    const char *train_op;        /* an op to run in each step */
    hs_session_run_step_fn step; /* makes each step. HS_STOP (hs_step_context_request_stop) ends the loop */
    void *user;
    const hs_training_options *training; /* NULL: the defaults */
} hs_estimator_train_loop_options;
#define HS_ESTIMATOR_TRAIN_LOOP_OPTIONS(...) HS_OPTIONS(hs_estimator_train_loop_options, __VA_ARGS__)

/* Makes the steps of a whole training session. Frees the hooks of `training`. TensorFlow: slim's learning.train. */
HS_API hs_outcome hs_estimator_train_loop(hs_backend backend, const hs_estimator_train_loop_options *options,
                                          hs_error *err);

HS_END_DECLS

#endif
