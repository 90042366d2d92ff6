/* SPDX-License-Identifier: Apache-2.0 */
/* Training that is evaluated on its way: each new checkpoint, in the pauses in which it is saved. */
#include "drivers/estimator.h"
#include "drivers/restored.h"

#include "base/env.h"

enum { START_DELAY_SECS = 120, THROTTLE_SECS = 600 };

typedef struct {
    hs_estimator *estimator;
    const hs_env *env;
    hs_eval_spec spec;
    hs_evaluate_options evaluate; /* its hooks are held */
    int64_t due_ns;               /* when the next one may begin */
    int64_t throttle_ns;
    int64_t evaluated_step; /* -1: none */
} course;

static hs_code evaluate(course *c, hs_error *err)
{
    c->due_ns = hs_env_monotonic_ns(c->env) + c->throttle_ns;
    hs_metrics *metrics = hs_estimator_evaluate(c->estimator, &c->evaluate, err);
    if (!metrics)
        return err->code;
    c->evaluated_step = hs_metrics_step(metrics);
    hs_code code = c->spec.evaluated ? hs__settle(c->spec.evaluated(c->spec.user, metrics, err), "evaluated", err) : HS_OK;
    hs_metrics_free(metrics);
    return code;
}

static hs_code after_save(void *self, hs_raw_session *session, int64_t step, bool *request_stop, hs_error *err)
{
    course *c = self;
    hs_error error = {0};
    (void)session;
    if (step == 0 || hs_env_monotonic_ns(c->env) < c->due_ns)
        return HS_OK;
    hs_code code = evaluate(c, &error);
    *request_stop = code == HS_STOP;
    return code == HS_STOP ? HS_OK : hs__error_copy(err, &error);
}

static const hs_saver_listener_ops ops = {HS_SAVER_LISTENER_OPS, .after_save = after_save};

static int64_t nanoseconds(double given, int64_t standard)
{
    return given < 0 ? 0 : given == 0 ? standard * 1000000000 : (int64_t)(given * 1e9);
}

static hs_code check(const course *c, hs_error *err)
{
    const double secs[] = {c->spec.start_delay_secs, c->spec.throttle_secs};
    for (int i = 0; i < 2; i++)
        if (!(secs[i] >= 0 && secs[i] <= 1e9) && secs[i] != HS_NEVER)
            return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_eval_spec: %s is %g; none is HS_NEVER",
                                i ? "throttle_secs" : "start_delay_secs", secs[i]);
    if (c->evaluate.checkpoint_path)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_eval_spec: checkpoint_path is one checkpoint; those of the training are evaluated");
    return HS_OK;
}

/* Of what the training has come to, if that is not evaluated yet. */
static void evaluate_last(course *c, hs_outcome *outcome, hs_error *err)
{
    hs_code code = c->evaluated_step == outcome->step ? HS_OK : evaluate(c, err);
    if (code && code != HS_STOP) {
        outcome->reason = HS_REASON_FAILED;
        outcome->error = *err;
    } else
        hs__clear(err);
}

/* The options of both, as far as they can be read, also after a failure. */
static hs_code take(course *c, const hs_eval_spec *given, hs_train_options *train, const hs_train_options *train_given,
                    hs_error *err)
{
    hs_code code = hs_struct_take(&c->spec, sizeof c->spec, given, "hs_eval_spec", "HS_EVAL_SPEC", err);
    if (!code)
        code = hs_struct_take(&c->evaluate, sizeof c->evaluate, c->spec.evaluate, "hs_evaluate_options",
                              "HS_EVALUATE_OPTIONS", err);
    hs_error *train_err = code ? NULL : err;
    if (train_given && hs_struct_take(train, sizeof *train, train_given, "hs_train_options", "HS_TRAIN_OPTIONS", train_err))
        return HS_INVALID_ARGUMENT;
    return code ? code : check(c, err);
}

hs_outcome hs_train_and_evaluate(hs_estimator *estimator, const hs_train_options *train_given, const hs_eval_spec *given,
                                 hs_error *err)
{
    hs_train_options options = {HS_TRAIN_OPTIONS};
    course c = {.estimator = estimator, .env = &estimator->env, .evaluated_step = -1};
    hs_error error = {0};
    hs_outcome outcome;
    hs_code code = take(&c, given, &options, train_given, &error);
    const hs_evaluate_options evaluate_given = c.evaluate;
    size_t n = options.listeners ? options.n_listeners : 0;
    hs_hook *held = code ? NULL : hs__hold_hooks(c.env, c.evaluate.hooks, c.evaluate.n_hooks, &error);
    hs_saver_listener *listeners = held ? hs__alloc(c.env, n + 1, sizeof *listeners) : NULL;
    if (listeners) {
        for (size_t i = 0; i < n; i++)
            listeners[i] = options.listeners[i];
        listeners[n] = (hs_saver_listener){&ops, &c}; /* after the caller's */
        options.listeners = listeners;
        options.n_listeners = n + 1;
        c.evaluate.hooks = c.evaluate.hooks ? held : NULL;
        c.throttle_ns = nanoseconds(c.spec.throttle_secs, THROTTLE_SECS);
        c.due_ns = hs_env_monotonic_ns(c.env) + nanoseconds(c.spec.start_delay_secs, START_DELAY_SECS);
        outcome = hs_estimator_train(estimator, &options, &error);
        if (outcome.reason != HS_REASON_FAILED)
            evaluate_last(&c, &outcome, &error);
    } else {
        if (held)
            hs__no_memory(&error, n * sizeof *listeners, "the listeners");
        hs_hooks_destroy(options.hooks, options.hooks ? options.n_hooks : 0);
        outcome = hs_session_close(NULL, &error);
    }
    hs_hooks_destroy(evaluate_given.hooks, evaluate_given.hooks ? evaluate_given.n_hooks : 0);
    hs__free(c.env, held);
    hs__free(c.env, listeners);
    hs__error_copy(err, &error);
    return outcome;
}
