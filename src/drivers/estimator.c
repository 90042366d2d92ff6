/* SPDX-License-Identifier: Apache-2.0 */
/* Training, evaluating and predicting with the graphs of a model function. Each call builds a graph (build), opens a
 * session with it, and frees it (free_built). */
#include <hooksess/estimator.h>

#include <hooksess/hooks/logging_tensor.h>
#include <hooksess/hooks/nan_tensor.h>
#include <hooksess/hooks/stop_at_step.h>

#include "drivers/evaluation_loop.h"
#include "hooks/make.h"
#include "session/session.h"

#include <string.h>

enum { LOG_STEPS = 100, START_DELAY_SECS = 120, THROTTLE_SECS = 600 };

/* The estimator. */

struct hs_estimator {
    hs_env env;
    hs_estimator_options options; /* its checkpoint_dir points to the array */
    char checkpoint_dir[];
};

hs_estimator *hs_estimator_new(const hs_estimator_options *given, hs_error *err)
{
    hs_estimator_options options = HS_INIT(hs_estimator_options);
    hs_env env;
    if (HS_STRUCT_TAKE(hs_estimator_options, signal_grace_secs, &options, given, err) ||
        hs__env_copy(&env, options.env, err))
        return NULL;
    if (!options.model_fn || !options.checkpoint_dir || !*options.checkpoint_dir) {
        hs_error_set(err, HS_INVALID_ARGUMENT, "hs_estimator_options.%s is missing",
                     options.model_fn ? "checkpoint_dir" : "model_fn");
        return NULL;
    }
    size_t bytes = strlen(options.checkpoint_dir) + 1;
    hs_estimator *estimator = hs__alloc(&env, 1, sizeof *estimator + bytes);
    if (!estimator) {
        hs__no_memory(err, sizeof *estimator + bytes, "an estimator");
        return NULL;
    }
    *estimator = (hs_estimator){.env = env, .options = options};
    estimator->options.checkpoint_dir = memcpy(estimator->checkpoint_dir, options.checkpoint_dir, bytes);
    return estimator;
}

void hs_estimator_free(hs_estimator *estimator)
{
    if (estimator)
        hs__free(&estimator->env, estimator);
}

/* Returns true, with HS_INVALID_ARGUMENT in `err`, if `estimator` is NULL. */
static bool is_missing(const hs_estimator *estimator, hs_error *err)
{
    return !estimator && hs_error_set(err, HS_INVALID_ARGUMENT, "estimator is NULL");
}

char *hs_estimator_latest_checkpoint(const hs_estimator *estimator, hs_error *err)
{
    return is_missing(estimator, err) ? NULL
                                      : hs_checkpoint_latest(&estimator->env, estimator->options.checkpoint_dir, NULL, err);
}

/* Building. */

/* A graph that was built for one call, and its hooks: those of the input, the model function and the caller, with room for
 * OWN_HOOKS more. free_built destroys the hooks, unless a session has adopted them: the list is empty then. */
enum { OWN_HOOKS = 3 };
typedef struct {
    const hs_estimator *estimator;
    hs_estimator_spec spec;
    hs_hook *hooks;
} built_graph;

/* Builds the graph and adopts the caller's hooks, also on failure. Call free_built in any case. */
static hs_code build(built_graph *built, const hs_estimator *estimator, hs_mode mode, const hs_input *input,
                     const hs_hook *hooks, hs_error *err)
{
    const hs_estimator_options *options = &estimator->options;
    hs_estimator_spec *spec = &built->spec;
    hs_hook of_input[2] = {{.ops = NULL}, {.ops = NULL}};
    *built = (built_graph){.estimator = estimator, .spec.size = sizeof *spec};
    hs_code code = hs__normalize_error(options->model_fn(options->user, mode, spec, err), "model_fn", err);
    if (!code && !spec->backend.ops)
        code = hs_error_set(err, HS_INVALID_ARGUMENT, "model_fn set no backend (hs_estimator_spec.backend)");
    if (!code && input->fn)
        code = hs__normalize_error(input->fn(input->user, mode, spec->backend, of_input, err), "the input function", err);
    const hs_hook *const lists[] = {of_input, spec->hooks, hooks};
    size_t room = OWN_HOOKS + 1, n = 0;
    for (int i = 0; i < 3; i++)
        room += hs__hooks_count(lists[i]);
    built->hooks = hs__alloc(&estimator->env, room, sizeof *built->hooks);
    for (int i = 0; i < 3; i++) {
        for (size_t k = 0; built->hooks && k < hs__hooks_count(lists[i]); k++)
            built->hooks[n++] = lists[i][k];
        if (!built->hooks) /* out of memory. The model function may list hooks of the caller */
            hs__hooks_destroy_apart(lists[i], i == 1 ? hooks : NULL);
    }
    return code || built->hooks ? code : hs__no_memory(err, sizeof *built->hooks, "the hooks");
}

static void free_built(built_graph *built)
{
    hs_hooks_free(built->hooks);
    hs__free(&built->estimator->env, built->hooks);
    if (built->spec.release)
        built->spec.release(built->spec.self);
}

/* Training. */

/* Frees the hooks of options with which no session is opened. */
static void free_training_hooks(const hs_training_options *given)
{
    hs_training_options options = HS_INIT(hs_training_options);
    HS_STRUCT_TAKE(hs_training_options, chief_only_hooks, &options, given, NULL);
    hs__hooks_destroy_apart(options.chief_only_hooks, options.hooks);
    hs_hooks_free(options.hooks);
}

hs_outcome hs_estimator_train_loop(hs_backend backend, const hs_estimator_train_loop_options *given, hs_error *err)
{
    hs_estimator_train_loop_options options = HS_INIT(hs_estimator_train_loop_options);
    hs_error error = {0};
    hs_session *session = NULL;
    if (HS_STRUCT_TAKE(hs_estimator_train_loop_options, training, &options, given, &error)) {
        free_training_hooks(options.training);
    } else if ((session = hs_training_session_open(backend, options.training, &error)) &&
               !options.train_op == !options.step) {
        hs_error_set(&error, HS_INVALID_ARGUMENT, "hs_estimator_train_loop: give exactly one of train_op and step");
        hs_session_fail(session, &error);
    }
    while (!error.code && !hs_session_should_stop(session)) {
        int64_t recoveries = hs_session_recoveries(session);
        hs_code code = options.step ? hs_session_run_step(session, options.step, options.user, &error)
                                    : hs_session_run(session, options.train_op, &error);
        bool recovered = hs_session_recoveries(session) > recoveries;
        if (code == HS_ABORTED && recovered && !hs_session_should_stop(session))
            hs__clear(&error); /* hs_recovery.return_aborted: the next call prepares its batch again */
    }
    hs_outcome outcome = hs_session_close(session, &error);
    hs__report_error(hs_backend_env(backend), "training failed", &error, err);
    return outcome;
}

static hs_outcome run_training(built_graph *built, const hs_estimator_train_options *options, hs_error *err)
{
    const hs_estimator_options *settings = &built->estimator->options;
    const char *loss = built->spec.loss;
    hs_code code = HS_OK;
    if (!built->spec.train_op)
        code = hs_error_set(err, HS_INVALID_ARGUMENT, "model_fn set nothing to train with (hs_estimator_spec.train_op)");
    else if ((options->steps && options->max_steps) || options->steps < 0 || options->max_steps < 0)
        code = hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_estimator_train_options: steps is %lld and max_steps is %lld; give at most one of the two, "
                            "at least 1",
                            (long long)options->steps, (long long)options->max_steps);
    if (code)
        return hs_outcome_from_error(err);

    const hs_env *memory = hs__set_hook_memory(&built->estimator->env);
    int64_t every = settings->log_step_count_steps ? settings->log_step_count_steps : LOG_STEPS;
    hs_hook *next = built->hooks + hs__hooks_count(built->hooks);
    if (options->steps || options->max_steps)
        *next++ = hs_stop_at_step(.num_steps = options->steps, .last_step = options->max_steps);
    if (loss)
        *next++ = hs_nan_tensor(.tensor = loss);
    if (loss && every > 0)
        *next++ = hs_logging_tensor(.tensors = HS_NAMES(loss), .every_n_steps = every);
    hs__set_hook_memory(memory);

    const hs_training_options training = HS_INIT(
        hs_training_options, .hooks = built->hooks, .scaffold = built->spec.scaffold,
        .checkpoint_dir = settings->checkpoint_dir, .save_checkpoint_secs = settings->save_checkpoint_secs,
        .save_checkpoint_steps = settings->save_checkpoint_steps, .max_to_keep = settings->max_to_keep,
        .save_summaries_secs = settings->save_summaries_secs, .save_summaries_steps = settings->save_summaries_steps,
        .log_step_count_steps = settings->log_step_count_steps, .listeners = options->listeners,
        .signals = settings->signals, .signal_grace_secs = settings->signal_grace_secs);
    const hs_estimator_train_loop_options loop =
        HS_INIT(hs_estimator_train_loop_options, .train_op = built->spec.train_op, .training = &training);
    hs_outcome outcome = hs_estimator_train_loop(built->spec.backend, &loop, err);
    built->hooks[0].ops = NULL; /* the session has freed them */
    return outcome;
}

hs_outcome hs_estimator_train(hs_estimator *estimator, const hs_estimator_train_options *given, hs_error *err)
{
    hs_estimator_train_options options = HS_INIT(hs_estimator_train_options);
    built_graph built = {.estimator = estimator};
    hs_error error = {0};
    if ((given && HS_STRUCT_TAKE(hs_estimator_train_options, listeners, &options, given, &error)) ||
        is_missing(estimator, &error)) {
        hs_hooks_free(options.hooks);
        hs__report_error(estimator ? &estimator->env : hs_env_default(), "training failed", &error, err);
        return hs_outcome_from_error(&error);
    }
    bool failed = build(&built, estimator, HS_MODE_TRAIN, &options.input, options.hooks, &error);
    hs_outcome outcome = failed ? hs_outcome_from_error(&error) : run_training(&built, &options, &error);
    free_built(&built);
    hs__report_error(&estimator->env, "training failed", &error, err);
    return outcome;
}

/* Evaluating. */

/* Options for a session that restores the checkpoint (NULL: the newest), with the hooks of `built`. */
static hs_evaluate_once_options evaluation_of(const built_graph *built, const char *checkpoint_prefix)
{
    return (hs_evaluate_once_options)HS_INIT(hs_evaluate_once_options, .checkpoint_prefix = checkpoint_prefix,
                                             .checkpoint_dir =
                                                 checkpoint_prefix ? NULL : built->estimator->options.checkpoint_dir,
                                             .eval_op = built->spec.eval_op, .metrics = built->spec.metrics,
                                             .hooks = built->hooks, .scaffold = built->spec.scaffold);
}

hs_evaluation_result *hs_estimator_evaluate(hs_estimator *estimator, const hs_estimator_evaluate_options *given,
                                            hs_error *err)
{
    hs_estimator_evaluate_options options = HS_INIT(hs_estimator_evaluate_options);
    built_graph built;
    hs_evaluation_result *metrics = NULL;
    hs_error error = {0};
    if ((given && HS_STRUCT_TAKE(hs_estimator_evaluate_options, hooks, &options, given, &error)) ||
        is_missing(estimator, &error)) {
        hs_hooks_free(options.hooks);
        hs__error_copy(err, &error);
        return NULL;
    }
    hs_code code = build(&built, estimator, HS_MODE_EVAL, &options.input, options.hooks, &error);
    const char *const loss[] = {built.spec.loss, NULL};
    const char *name = options.name ? options.name : "";
    char *directory = hs__format(&estimator->env, "%s/eval%s%s", estimator->options.checkpoint_dir, *name ? "_" : "", name);
    if (!code && !directory)
        hs__no_memory(&error, strlen(name), "a path");
    else if (!code) {
        hs_evaluate_once_options once = evaluation_of(&built, options.checkpoint_prefix);
        once.steps = options.steps;
        once.means = loss;
        once.summary_dir = directory;
        metrics = hs_evaluate_once(built.spec.backend, &once, &error);
        built.hooks[0].ops = NULL; /* hs_evaluate_once has freed them */
    }
    hs__free(&estimator->env, directory);
    free_built(&built);
    hs__error_copy(err, &error);
    return metrics;
}

/* Predicting, by batch or one by one. */

typedef struct {
    const hs_estimator_predict_options *options;
    const char *const *keys;
    size_t n;
    hs_tensor *values; /* of one call */
    int64_t calls;
} prediction;

/* Passes a batch to the program, as a whole or row by row. Each prediction must have a value and, unless `whole_batches` is
 * set, one row for each example. */
static hs_code deliver_batch(prediction *p, const hs_run_values *values, hs_error *err)
{
    const hs_estimator_predict_options *options = p->options;
    const hs_tensor *first = hs_run_values_tensor(values, 0);
    for (size_t i = 0; i < p->n; i++) {
        const hs_tensor *value = hs_run_values_tensor(values, i);
        if (!value)
            return hs_error_set(err, HS_INVALID_ARGUMENT, "the prediction '%s' is an op without a value", p->keys[i]);
        if (!options->whole_batches && (value->rank < 1 || value->dims[0] != first->dims[0]))
            return hs_error_set(err, HS_INVALID_ARGUMENT,
                                "prediction '%s' does not have one row for each example, as '%s' has; set whole_batches",
                                p->keys[i], p->keys[0]);
    }
    int64_t rows = options->whole_batches ? 1 : first->dims[0];
    hs_code code = HS_OK;
    for (int64_t row = 0; !code && row < rows; row++) {
        for (size_t i = 0; i < p->n; i++) {
            hs_tensor *value = &p->values[i];
            *value = *hs_run_values_tensor(values, i);
            if (options->whole_batches)
                continue;
            value->rank--;
            value->bytes /= (size_t)rows;
            memmove(value->dims, value->dims + 1, (size_t)value->rank * sizeof *value->dims);
            value->data = (char *)value->data + (size_t)row * value->bytes;
        }
        code = hs__normalize_error(options->predicted(options->user, p->calls++, p->values, p->n, err), "predicted", err);
    }
    return code;
}

hs_code hs_estimator_predict(hs_estimator *estimator, const hs_estimator_predict_options *given, hs_error *err)
{
    hs_estimator_predict_options options = HS_INIT(hs_estimator_predict_options);
    prediction p = {.options = &options};
    built_graph built = {.estimator = estimator};
    char *path = NULL;
    hs_error error = {0};
    if (HS_STRUCT_TAKE(hs_estimator_predict_options, reserved, &options, given, &error) || is_missing(estimator, &error)) {
        hs_hooks_free(options.hooks);
        return hs__error_copy(err, &error);
    }
    hs_code code = build(&built, estimator, HS_MODE_PREDICT, &options.input, options.hooks, &error);
    if (!code) {
        p.keys = options.keys ? options.keys : built.spec.predictions;
        p.n = hs__names_count(p.keys);
    }
    if (!code && (!p.n || !options.predicted))
        code = hs_error_set(&error, HS_INVALID_ARGUMENT, "hs_estimator_predict: %s",
                            p.n ? "predicted is missing"
                                : "nothing to predict: keys and hs_estimator_spec.predictions are both empty");
    if (!code && !(p.values = hs__alloc(&estimator->env, p.n, sizeof *p.values)))
        code = hs__no_memory(&error, p.n * sizeof *p.values, "the predictions");
    if (!code) {
        const hs_evaluate_once_options opening = evaluation_of(&built, options.checkpoint_prefix);
        const hs_run_args args = HS_INIT(hs_run_args, .names = p.keys, .kind = HS_RUN_EVAL);
        const hs_run_values *values;
        hs_session *session = hs__open_restored(built.spec.backend, &opening, &path, &error);
        while (!code && !hs_session_should_stop(session) && !hs_session_run_args(session, &args, &values, &error))
            if ((code = deliver_batch(&p, values, &error)))
                hs_session_fail(session, &error);
        hs_session_close(session, &error);
    }
    hs__free(&estimator->env, path);
    hs__free(&estimator->env, p.values);
    free_built(&built);
    return hs__error_copy(err, &error);
}

/* Training with evaluations: each new checkpoint is evaluated after its save, while training waits. */

typedef struct {
    hs_estimator *estimator;
    hs_estimator_eval_spec spec;
    hs_estimator_train_options train;
    hs_estimator_evaluate_options evaluate;
    hs_hook *held;                /* held copies of the hooks of `evaluate`, used by every evaluation */
    hs_saver_listener *listeners; /* the caller's listeners, and the evaluating one */
    int64_t due_ns;               /* earliest time of the next evaluation */
    int64_t evaluated_step;       /* -1: none */
} train_and_eval;

static int64_t secs_from_now(const train_and_eval *c, double secs, int64_t standard)
{
    secs = secs == HS_NEVER ? 0 : secs == 0 ? (double)standard : secs;
    return hs_env_monotonic_ns(&c->estimator->env) + (int64_t)(secs * 1e9);
}

static hs_code evaluate_now(train_and_eval *c, hs_error *err)
{
    c->due_ns = secs_from_now(c, c->spec.throttle_secs, THROTTLE_SECS);
    return hs__deliver_metrics(hs_estimator_evaluate(c->estimator, &c->evaluate, err), c->spec.evaluated, c->spec.user,
                               err);
}

/* After a stop request, evaluate_last decides whether to evaluate. */
static hs_code after_save(void *self, hs_raw_session *session, int64_t step, bool *request_stop, hs_error *err)
{
    train_and_eval *c = self;
    if (step == 0 || hs_raw_session_stop_requested(session) || hs_env_monotonic_ns(&c->estimator->env) < c->due_ns)
        return HS_OK;
    hs_code code = evaluate_now(c, err);
    c->evaluated_step = step;
    *request_stop = code == HS_STOP;
    return *request_stop ? HS_OK : code;
}

static const hs_saver_listener_ops ops = HS_INIT(hs_saver_listener_ops, .after_save = after_save);

/* Evaluates the last state, unless that is done already. If a stop was requested by the program or a signal, not by a hook,
 * the training is interrupted: the user does not want to wait for an evaluation. */
static void evaluate_last(train_and_eval *c, hs_outcome *outcome, hs_error *err)
{
    bool interrupted = outcome->reason == HS_REASON_STOPPED && (outcome->interrupted || !outcome->hook[0]);
    if (outcome->reason == HS_REASON_FAILED || interrupted || c->evaluated_step == outcome->step)
        return;
    hs_code code = evaluate_now(c, err);
    if (code && code != HS_STOP) {
        outcome->reason = HS_REASON_FAILED;
        outcome->error = *err;
        outcome->hook[0] = '\0'; /* the hook may have stopped the training, but did not fail */
    } else
        hs__clear(err);
}

/* Copies both structs of options, even if one of them is invalid, because the hooks in both must be freed. Reports the
 * first failure. */
static hs_code copy_options(train_and_eval *c, const hs_estimator_eval_spec *given, const hs_estimator_train_options *train,
                            hs_error *err)
{
    bool failed = is_missing(c->estimator, err);
    failed |= HS_STRUCT_TAKE(hs_estimator_eval_spec, user, &c->spec, given, failed ? NULL : err) != HS_OK;
    failed |=
        HS_STRUCT_TAKE(hs_estimator_evaluate_options, hooks, &c->evaluate, c->spec.evaluate, failed ? NULL : err) != HS_OK;
    failed |= train && HS_STRUCT_TAKE(hs_estimator_train_options, listeners, &c->train, train, failed ? NULL : err);
    if (failed)
        return HS_INVALID_ARGUMENT;
    const double secs[] = {c->spec.start_delay_secs, c->spec.throttle_secs};
    const double save_secs = c->estimator->options.save_checkpoint_secs;
    const int64_t save_steps = c->estimator->options.save_checkpoint_steps;
    for (int i = 0; i < 2; i++)
        if (!(secs[i] >= 0 && secs[i] <= 1e9) && secs[i] != HS_NEVER)
            return hs_error_set(err, HS_INVALID_ARGUMENT,
                                "hs_estimator_eval_spec: %s is %g; it must be from 0 to 1e9, or HS_NEVER for none",
                                i ? "throttle_secs" : "start_delay_secs", secs[i]);
    if (c->evaluate.checkpoint_prefix)
        return hs_error_set(
            err, HS_INVALID_ARGUMENT,
            "hs_estimator_eval_spec: leave checkpoint_prefix out; the checkpoints of the training are evaluated");
    if (save_secs <= 0 && save_steps <= 0 && (save_secs < 0 || save_steps < 0))
        return hs_error_set(
            err, HS_INVALID_ARGUMENT,
            "hs_estimator_train_and_evaluate: the estimator saves no checkpoints to evaluate: save_checkpoint_secs is %g "
            "and save_checkpoint_steps is %lld; set one of them, or both to 0",
            save_secs, (long long)save_steps);
    return HS_OK;
}

static hs_code add_listener(train_and_eval *c, hs_error *err)
{
    size_t n = 0;
    while (c->train.listeners && c->train.listeners[n].ops)
        n++;
    c->held = hs__hooks_hold(&c->estimator->env, c->evaluate.hooks, err);
    c->listeners = hs__alloc(&c->estimator->env, n + 2, sizeof *c->listeners);
    if (!c->held || !c->listeners)
        return hs__no_memory(err, n * sizeof *c->listeners, "the listeners");
    for (size_t i = 0; i < n; i++)
        c->listeners[i] = c->train.listeners[i];
    c->listeners[n] = (hs_saver_listener){&ops, c};
    c->evaluate.hooks = c->held;
    c->train.listeners = c->listeners;
    c->due_ns = secs_from_now(c, c->spec.start_delay_secs, START_DELAY_SECS);
    return HS_OK;
}

hs_outcome hs_estimator_train_and_evaluate(hs_estimator *estimator, const hs_estimator_train_options *train,
                                           const hs_estimator_eval_spec *given, hs_error *err)
{
    train_and_eval c = {.estimator = estimator, .train = HS_INIT(hs_estimator_train_options), .evaluated_step = -1};
    hs_error error = {0};
    hs_outcome outcome;
    const hs_env *env = estimator ? &estimator->env : hs_env_default();
    hs_code code = copy_options(&c, given, train, &error);
    const hs_hook *hooks = c.evaluate.hooks;
    if (code || add_listener(&c, &error)) {
        hs_hooks_free(c.train.hooks);
        outcome = hs_outcome_from_error(&error);
    } else {
        outcome = hs_estimator_train(estimator, &c.train, &error);
        evaluate_last(&c, &outcome, &error);
    }
    hs_hooks_free(hooks);
    hs__free(env, c.held);
    hs__free(env, c.listeners);
    hs__report_error(env, "training failed", &error, err);
    return outcome;
}
