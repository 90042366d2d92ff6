/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_ESTIMATOR_H
#define HOOKSESS_ESTIMATOR_H

#include <hooksess/evaluation_loop.h>
#include <hooksess/training_session.h>

/* clang-format off */
/* Whole loops, ready made: train, evaluate, predict. TensorFlow: Estimator, train_and_evaluate, slim's learning.train.
 *
 *     static hs_code classifier(void *user, hs_mode mode, hs_estimator_spec *spec, hs_error *err)
 *     {
 *         struct model *m = user;
 *         hs_graph *g = model_graph(m, mode);       its ops read "input/dequeue:0", whoever fills the queue
 *         spec->backend = hs_graph_backend(g);
 *         spec->train_op = "train";
 *         spec->loss = "loss";
 *         spec->eval_op = "count";
 *         spec->metrics = HS_NAMES("accuracy");     (in a static, or the model's own memory)
 *         return HS_OK;
 *     }
 *
 *     static hs_code images(void *user, hs_mode mode, hs_backend backend, hs_hook *hook, hs_error *err)
 *     {
 *         return hs_graph_queue(hs_graph_of(backend), .name = "input", .produce = read_batch, .user = user, ...);
 *     }
 *
 *     hs_estimator *e = hs_estimator_new(
 *         HS_ESTIMATOR_OPTIONS(.model_fn = classifier, .user = &model, .checkpoint_dir = "run"), &err);
 *     hs_outcome o = hs_estimator_train(e, HS_ESTIMATOR_TRAIN_OPTIONS(.input = {images, &train}, .max_steps = 10000), &err);
 *     if (o.interrupted || o.reason == HS_REASON_FAILED)
 *         return hs_outcome_exit_code(&o);
 *     hs_evaluation_result *m = hs_estimator_evaluate(e, HS_ESTIMATOR_EVALUATE_OPTIONS(.input = {images, &test}), &err);
 *     printf("accuracy %g at step %lld\n", hs_evaluation_result_value(m, "accuracy"), (long long)hs_evaluation_result_step(m));
 *
 * Each call asks the model function for a graph, opens one session on it, and has the graph released when that is closed:
 * nothing is carried from call to call but what checkpoints in checkpoint_dir hold. One that is NULL is HS_INVALID_ARGUMENT,
 * and then nothing is taken of what the caller gives.
 *
 * Threads: one at a time per object. */
/* clang-format on */

HS_BEGIN_DECLS

typedef enum hs_mode { HS_MODE_TRAIN = 1, HS_MODE_EVAL = 2, HS_MODE_PREDICT = 3 } hs_mode;

/* What a model function says of the graph that it built. Strings, lists and what they point to must stay until `release`.
 * TensorFlow: EstimatorSpec. */
typedef struct hs_estimator_spec {
    size_t size;
    hs_backend backend;             /* (required) */
    const char *train_op;           /* (required to train) */
    const char *loss;               /* in training, logged and watched for NaN; of an evaluation, the mean is a metric */
    const char *eval_op;            /* to evaluate: one batch; NULL: the run of the metrics is all there is */
    const char *const *metrics;     /* to evaluate: numbers, fetched after the last batch; ended by NULL */
    const char *const *predictions; /* (required to predict) tensors whose first dimension is the batch; ended by NULL */
    hs_scaffold *scaffold;          /* NULL: the default */
    const hs_hook *hooks;           /* for this mode; the session's, or destroyed */
    void (*release)(void *self); /* called once the session is closed, also when the model function failed; NULL: nothing */
    void *self;
} hs_estimator_spec;

/* Builds the graph for a mode, and fills in `spec`, whose size is set, all else zero. hs_estimator_train_and_evaluate asks
 * for a graph to evaluate while the one that trains is in use: the two must not lie in the same memory. */
typedef hs_code (*hs_model_fn)(void *user, hs_mode mode, hs_estimator_spec *spec, hs_error *err);

/* Gives a session its data. It adds a queue, or ops, to the graph of the model function (hs_graph_of), whose ops may name
 * what is defined only here; or it sets *hook, which has no ops before, to one that feeds placeholders (hs_feed_fn). The
 * hook is the session's. Called once for each session, after the model function. */
typedef hs_code (*hs_input_fn)(void *user, hs_mode mode, hs_backend backend, hs_hook *hook, hs_error *err);
/* Frozen. fn NULL: the model function has brought its data. */
typedef struct hs_input {
    hs_input_fn fn;
    void *user;
} hs_input;

typedef struct hs_estimator hs_estimator;

/* The intervals are those of hs_training_options, with the same defaults. */
typedef struct hs_estimator_options {
    size_t size;
    hs_model_fn model_fn; /* (required) */
    void *user;
    const char *checkpoint_dir; /* (required) checkpoints and event files; copied */
    double save_checkpoint_secs;
    int64_t save_checkpoint_steps;
    double save_summaries_secs;
    int64_t save_summaries_steps;
    int64_t log_step_count_steps; /* a line with the loss every so many steps, and steps a second; 0: 100; HS_NEVER: none */
    int64_t max_to_keep;          /* as in hs_training_options */
    const hs_env *env;            /* the estimator's memory, clock and files. NULL: the system's. Copied */
    /* Trainings handle signals, as in hs_session_options. Look at hs_outcome.interrupted before the next call, which knows
     * nothing of a signal that ended this one */
    bool signals;
    unsigned char reserved[7];
    double signal_grace_secs;
} hs_estimator_options;
#define HS_ESTIMATOR_OPTIONS(...) HS_OPTIONS(hs_estimator_options, __VA_ARGS__)

/* The caller's to free. HS_INVALID_ARGUMENT, HS_RESOURCE_EXHAUSTED. */
HS_API hs_estimator *hs_estimator_new(const hs_estimator_options *options, hs_error *err);
HS_API void hs_estimator_free(hs_estimator *estimator);
HS_API const char *hs_estimator_checkpoint_dir(const hs_estimator *estimator);
/* The newest checkpoint of checkpoint_dir, to be freed with hs_env_free; NULL: there is none. */
HS_API char *hs_estimator_latest_checkpoint(const hs_estimator *estimator, hs_error *err);

typedef struct hs_estimator_train_options {
    size_t size;
    hs_input input;
    int64_t steps; /* N more than those that are made. Neither steps nor max_steps: until HS_OUT_OF_RANGE or a hook stops */
    /* Up to this step, instead of steps. If it is reached already, no step is made (HS_REASON_ALREADY_DONE), and the log
     * says so */
    int64_t max_steps;
    const hs_hook *hooks;               /* taken, also when it fails */
    const hs_saver_listener *listeners; /* told of each checkpoint */
} hs_estimator_train_options;
#define HS_ESTIMATOR_TRAIN_OPTIONS(...) HS_OPTIONS(hs_estimator_train_options, __VA_ARGS__)

/* Goes on from the newest checkpoint of checkpoint_dir, if there is one. Hooks come in this order: the input's, the model
 * function's, the caller's, the stop, the NaN check, the line of the loss, and those of a training session. TensorFlow:
 * Estimator.train. */
HS_API hs_outcome hs_estimator_train(hs_estimator *estimator, const hs_estimator_train_options *options, hs_error *err);

typedef struct hs_estimator_evaluate_options {
    size_t size;
    hs_input input;
    int64_t steps;                 /* batches; 0 and HS_NEVER: until HS_OUT_OF_RANGE */
    const char *name;              /* NULL: metrics are written to checkpoint_dir/eval, else to checkpoint_dir/eval_NAME */
    const char *checkpoint_prefix; /* NULL: the newest of checkpoint_dir */
    const hs_hook *hooks;          /* taken, also when it fails */
} hs_estimator_evaluate_options;
#define HS_ESTIMATOR_EVALUATE_OPTIONS(...) HS_OPTIONS(hs_estimator_evaluate_options, __VA_ARGS__)

/* As hs_evaluate_once. Nothing is written to checkpoint_dir itself. `options` may be NULL. TensorFlow: Estimator.evaluate.
 */
HS_API hs_evaluation_result *hs_estimator_evaluate(hs_estimator *estimator, const hs_estimator_evaluate_options *options,
                                                   hs_error *err);

/* One batch of predictions, or one example of it: views, in the order of the keys, that are good until it returns, where
 * the backend has them (hs_tensor_host). `index` counts the calls, from 0. HS_STOP, or HS_OUT_OF_RANGE: no more are wanted.
 * Any other failure ends the prediction with it. */
typedef hs_code (*hs_prediction_fn)(void *user, int64_t index, const hs_tensor *values, size_t n, hs_error *err);

typedef struct hs_estimator_predict_options {
    size_t size;
    hs_input input;
    const char *const *keys;       /* tensors, ended by NULL; NULL: all predictions of the model function */
    const char *checkpoint_prefix; /* NULL: the newest of checkpoint_dir */
    const hs_hook *hooks;          /* taken, also when it fails */
    hs_prediction_fn predicted;    /* (required) */
    void *user;
    bool whole_batches; /* a call for each batch, instead of one for each example */
    unsigned char reserved[7];
} hs_estimator_predict_options;
#define HS_ESTIMATOR_PREDICT_OPTIONS(...) HS_OPTIONS(hs_estimator_predict_options, __VA_ARGS__)

/* Until the end of the input (HS_OUT_OF_RANGE), or HS_STOP. Example by example, all predictions of a batch must have as
 * many rows: HS_INVALID_ARGUMENT names the one that has not. HS_NOT_FOUND: no checkpoint, or no tensor of that name.
 * TensorFlow: Estimator.predict. */
HS_API hs_code hs_estimator_predict(hs_estimator *estimator, const hs_estimator_predict_options *options, hs_error *err);

/* When to evaluate in the course of a training. */
typedef struct hs_estimator_eval_spec {
    size_t size;
    /* (required) without a checkpoint_prefix. The hooks are begun anew for each */
    const hs_estimator_evaluate_options *evaluate;
    double start_delay_secs; /* none before; 0: 120; HS_NEVER: at once */
    double throttle_secs;    /* from the beginning of one to that of the next at least; 0: 600; HS_NEVER: each checkpoint */
    hs_evaluation_done_fn evaluated; /* told of each; HS_STOP breaks the training off, well. NULL: nobody is */
    void *user;
} hs_estimator_eval_spec;
#define HS_ESTIMATOR_EVAL_SPEC(...) HS_OPTIONS(hs_estimator_eval_spec, __VA_ARGS__)

/* Trains up to max_steps, evaluates new checkpoints on the way, in the thread that trains, and the last one once the
 * training is over, also where no step was left to make. That of step 0 is passed over on the way: nothing is trained yet.
 * A failing evaluation ends the training, and makes the outcome a failure. Training goes as in hs_estimator_train, and must
 * save checkpoints: HS_INVALID_ARGUMENT where the estimator has that switched off.
 *
 * Over is the training at max_steps, at the end of the input, and when a hook stops it (early stopping). It is broken off
 * when `evaluated` has had enough, and when it is interrupted (hs_outcome.interrupted: a signal, a limit of time) or
 * stopped by way of its coordinator: then its last step is saved, and the call returns without a last evaluation.
 * TensorFlow: train_and_evaluate, run locally. */
HS_API hs_outcome hs_estimator_train_and_evaluate(hs_estimator *estimator, const hs_estimator_train_options *train,
                                                  const hs_estimator_eval_spec *eval, hs_error *err);

/* A training loop around a graph, or a step function of the caller's. TensorFlow: slim.learning.train. */
typedef struct hs_estimator_train_loop_options {
    size_t size;
    const char *train_op; /* run again and again. Exactly one of train_op and step is required */
    /* Called again and again, instead of train_op. HS_STOP (hs_step_context_request_stop) ends the loop */
    hs_session_run_step_fn step;
    void *user;
    const hs_training_options *training; /* its session: directory, hooks, intervals. NULL: the defaults */
} hs_estimator_train_loop_options;
#define HS_ESTIMATOR_TRAIN_LOOP_OPTIONS(...) HS_OPTIONS(hs_estimator_train_loop_options, __VA_ARGS__)

/* Opens a training session, makes steps until it should stop (hs_stop_at_step, the end of the input), and closes it. The
 * hooks of `training` are taken, also when it fails. */
HS_API hs_outcome hs_estimator_train_loop(hs_backend backend, const hs_estimator_train_loop_options *options,
                                          hs_error *err);

HS_END_DECLS

#endif
