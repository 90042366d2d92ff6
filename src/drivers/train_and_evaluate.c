/* SPDX-License-Identifier: Apache-2.0 */
/* Training with evaluations: each new checkpoint is evaluated after its save, while training waits. */
#include "drivers/estimator.h"
#include "drivers/evaluation_loop.h"

#include "session/session.h"

enum { START_DELAY_SECS = 120, THROTTLE_SECS = 600 };

typedef struct {
    hs_estimator *estimator;
    hs_estimator_eval_spec spec;
    hs_estimator_train_options train;
    hs_estimator_evaluate_options evaluate;
    hs_hook *held;                /* held copies of the hooks of `evaluate`, used by every evaluation */
    hs_saver_listener *listeners; /* the caller's listeners, and the evaluating one */
    int64_t due_ns;               /* earliest time of the next evaluation */
    int64_t evaluated_step;       /* -1: none */
} training;

static int64_t secs_from_now(const training *c, double secs, int64_t standard)
{
    secs = secs == HS_NEVER ? 0 : secs == 0 ? (double)standard : secs;
    return hs_env_monotonic_ns(&c->estimator->env) + (int64_t)(secs * 1e9);
}

static hs_code evaluate(training *c, hs_error *err)
{
    c->due_ns = secs_from_now(c, c->spec.throttle_secs, THROTTLE_SECS);
    return hs__deliver_metrics(hs_estimator_evaluate(c->estimator, &c->evaluate, err), c->spec.evaluated, c->spec.user,
                               err);
}

/* After a stop request, evaluate_last decides whether to evaluate. */
static hs_code after_save(void *self, hs_raw_session *session, int64_t step, bool *request_stop, hs_error *err)
{
    training *c = self;
    if (step == 0 || hs_raw_session_stop_requested(session) || hs_env_monotonic_ns(&c->estimator->env) < c->due_ns)
        return HS_OK;
    hs_code code = evaluate(c, err);
    c->evaluated_step = step;
    *request_stop = code == HS_STOP;
    return *request_stop ? HS_OK : code;
}

static const hs_saver_listener_ops ops = HS_INIT(hs_saver_listener_ops, .after_save = after_save);

/* Evaluates the last state, unless that is done already. A stop that no hook requested comes from outside: the training is
 * interrupted, and the user does not want to wait for an evaluation. */
static void evaluate_last(training *c, hs_outcome *outcome, hs_error *err)
{
    bool interrupted = outcome->reason == HS_REASON_STOPPED && (outcome->interrupted || !outcome->hook[0]);
    if (outcome->reason == HS_REASON_FAILED || interrupted || c->evaluated_step == outcome->step)
        return;
    hs_code code = evaluate(c, err);
    if (code && code != HS_STOP) {
        outcome->reason = HS_REASON_FAILED;
        outcome->error = *err;
        outcome->hook[0] = '\0'; /* it may have stopped the training, but did not fail */
    } else
        hs__clear(err);
}

static hs_code check(const training *c, hs_error *err)
{
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

/* Copies the options of both as far as they can be read, also after a failure, because their hooks are freed. */
static hs_code copy_options(training *c, const hs_estimator_eval_spec *given, const hs_estimator_train_options *train,
                            hs_error *err)
{
    bool failed = hs__estimator_missing(c->estimator, err);
    failed |= HS_STRUCT_TAKE(hs_estimator_eval_spec, user, &c->spec, given, failed ? NULL : err) != HS_OK;
    failed |=
        HS_STRUCT_TAKE(hs_estimator_evaluate_options, hooks, &c->evaluate, c->spec.evaluate, failed ? NULL : err) != HS_OK;
    failed |= train && HS_STRUCT_TAKE(hs_estimator_train_options, listeners, &c->train, train, failed ? NULL : err);
    return failed ? HS_INVALID_ARGUMENT : check(c, err);
}

static hs_code add_listener(training *c, hs_error *err)
{
    size_t n = 0;
    while (c->train.listeners && c->train.listeners[n].ops)
        n++;
    c->held = hs__hooks_held(&c->estimator->env, c->evaluate.hooks, err);
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
    training c = {.estimator = estimator, .train = HS_INIT(hs_estimator_train_options), .evaluated_step = -1};
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
