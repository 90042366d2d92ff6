/* SPDX-License-Identifier: Apache-2.0 */
/* An evaluation is due when the session calls after_run. The boundary, or end, calls evaluate, which puts the averages in
 * place of the variables if the options name them, and calls run_all or the program's function. */
#include <hooksess/hooks/evaluation.h>

#include <hooksess/hooks/moving_average.h>

#include "base/text.h"
#include "base/trigger.h"
#include "hooks/make.h"
#include "hooks/ranks.h"

#include <stdio.h>
#include <string.h>

enum { LINE = 1900, NOT_EVALUATED = -1 };

typedef struct {
    hs__hook_base base;
    bool at_end;
    bool due;             /* until the next boundary of a run, */
    int64_t due_restores; /* unless this number of hs_raw_session_restores has changed: a rollback cancels it */
    char *name, *eval_op, *summary_dir;
    const char *const *metrics, *const *reset_ops;
    char *tags; /* "NAME/METRIC" of each metric, zero-terminated, in one block */
    double *values;
    int64_t n_batches;
    hs_summary_writer *writer; /* NULL: no summary_dir, or not rank 0 */
    hs_evaluate_fn evaluate;
    void *user;
    hs_hook averages;           /* its averages are evaluated. ops NULL: the variables themselves */
    int64_t evaluated_step;     /* step of the last evaluation */
    int64_t restore_generation; /* hs_raw_session_restores at the last evaluation */
    const hs_env *session_env;
} evaluation;

/* One evaluation. */
typedef struct {
    evaluation *hook;
    hs_raw_session *session;
    int64_t step, begin_ns, batches;
    bool abandons;  /* if a stop is requested. False: one was requested before the evaluation */
    bool abandoned; /* as the other fields, the same on all ranks of a group, except `batches` */
} pass;

static hs_code check_op(hs_backend backend, const char *name, hs_error *err)
{
    hs_node node;
    return name ? hs_backend_find(backend, name, &node, err) : HS_OK;
}

static hs_code begin(void *self, hs_backend backend, hs_error *err)
{
    evaluation *hook = self;
    hook->session_env = hs_backend_env(backend);
    hook->evaluated_step = NOT_EVALUATED;
    hs_code code = hs_backend_check_global_step(backend, err);
    for (size_t i = 0; !code && hook->metrics && hook->metrics[i]; i++)
        code = hs_backend_check_tensor(backend, hook->metrics[i], err);
    for (size_t i = 0; !code && hook->reset_ops && hook->reset_ops[i]; i++)
        code = check_op(backend, hook->reset_ops[i], err);
    return code ? code : check_op(backend, hook->eval_op, err);
}

/* If an evaluation's run reaches the end of the input, it is an error: HS_OUT_OF_RANGE would end the training normally. */
static hs_code run_part(const pass *p, const hs_run_args *args, const hs_run_values **values, const char *what,
                        hs_error *err)
{
    hs_code code = hs_raw_session_run(p->session, args, values, err);
    if (code != HS_OUT_OF_RANGE)
        return code;
    hs_error_prefix(err, "%s reached the end of the input", what);
    if (err)
        err->code = HS_FAILED_PRECONDITION;
    return HS_FAILED_PRECONDITION;
}

/* Sets p->abandoned. The ranks of a group abandon together. */
static hs_code look_for_stop(pass *p, hs_error *err)
{
    return p->abandons ? hs_raw_session_any(p->session, hs_raw_session_stop_requested(p->session), &p->abandoned, err)
                       : HS_OK;
}

static hs_code run_batches(pass *p, hs_error *err)
{
    const evaluation *hook = p->hook;
    bool ended = !hook->eval_op, continues; /* on this rank; on any */
    const hs_run_args batch = HS_INIT(hs_run_args, .names = HS_NAMES(hook->eval_op));
    for (;;) { /* in a group until all ranks have ended */
        ended |= hook->n_batches > 0 && p->batches >= hook->n_batches;
        hs_code code = hs_raw_session_any(p->session, !ended, &continues, err);
        if (code || !continues || (code = look_for_stop(p, err)) || p->abandoned)
            return code;
        code = ended ? HS_OK : hs_raw_session_run(p->session, &batch, NULL, err);
        if (code && code != HS_OUT_OF_RANGE)
            return code;
        p->batches += !ended && !code;
        ended |= code == HS_OUT_OF_RANGE;
    }
}

static void log_metrics(const pass *p)
{
    const evaluation *hook = p->hook;
    char line[LINE] = "", batches[64] = "", secs[HS__NUMBER_TEXT];
    for (size_t i = 0; hook->metrics[i]; i++)
        hs__append_item(line, sizeof line, "%s = %.6g", hook->metrics[i], hook->values[i]);
    if (hook->eval_op)
        snprintf(batches, sizeof batches, "%lld batch%s, ", (long long)p->batches, p->batches == 1 ? "" : "es");
    hs_log(hook->session_env, HS_LOG_INFO, "step %lld: %s: %s (%s%s)", (long long)p->step, hook->name, line, batches,
           hs__secs_text(secs, (double)(hs_env_monotonic_ns(hook->session_env) - p->begin_ns) / 1e9));
}

/* *outdated: a metric is a value of an earlier step on rank 0, and no op of the evaluation computes it. */
static hs_code look_for_outdated(const pass *p, bool *outdated, hs_error *err)
{
    const evaluation *hook = p->hook;
    const char *found = NULL;
    *outdated = false;
    if (hook->eval_op || hook->reset_ops)
        return HS_OK;
    const bool is_chief = hs_raw_session_rank(p->session) == 0;
    for (size_t i = 0; is_chief && hook->metrics[i]; i++)
        if (hs_raw_session_computed_at(p->session, hook->metrics[i]) < p->step)
            found = hook->metrics[i];
    if (found)
        hs_log(hook->session_env, HS_LOG_WARNING, "step %lld: %s: '%s' was not computed in this step", (long long)p->step,
               hook->name, found);
    return hs_raw_session_any(p->session, found != NULL, outdated, err);
}

/* Resets the metrics, runs the batches, and publishes the metrics of rank 0. */
static hs_code run_all(pass *p, hs_error *err)
{
    const evaluation *hook = p->hook;
    const hs_run_values *values;
    bool outdated, has_batches = true;
    hs_code code = look_for_stop(p, err);
    if (code || p->abandoned || (code = look_for_outdated(p, &outdated, err)) || outdated)
        return code;
    if (hook->reset_ops)
        code = run_part(p, HS_RUN_ARGS(.names = hook->reset_ops), NULL, "the run of reset_ops", err);
    if (code || (code = run_batches(p, err)) || p->abandoned)
        return code;
    if (hook->eval_op && (code = hs_raw_session_any(p->session, p->batches > 0, &has_batches, err)))
        return code;
    if (!has_batches) {
        hs_log(hook->session_env, HS_LOG_WARNING, "step %lld: %s: no batch to evaluate", (long long)p->step, hook->name);
        return HS_OK;
    }
    code = run_part(p, HS_RUN_ARGS(.names = hook->metrics), &values, "the run of metrics", err);
    size_t n = 0;
    for (; !code && hook->metrics[n]; n++)
        hook->values[n] = hs_run_values_number(values, n);
    if (code || (code = hs_raw_session_from_chief(p->session, hook->values, n * sizeof *hook->values, err)))
        return code;
    const char *tag = hook->tags;
    for (size_t i = 0; i < n; i++, tag += strlen(tag) + 1)
        if ((code = hs_raw_session_set_metric(p->session, tag, hook->values[i], p->step, err)) ||
            (hook->writer && (code = hs_summary_writer_scalar(hook->writer, tag, hook->values[i], p->step, err))))
            return code;
    if (!hs_raw_session_rank(p->session))
        log_metrics(p);
    return HS_OK;
}

static hs_code evaluate(evaluation *hook, hs_raw_session *session, int64_t step, bool abandons, hs_error *err)
{
    pass p = {.hook = hook, .session = session, .step = step, .abandons = abandons};
    p.begin_ns = hs_env_monotonic_ns(hook->session_env);
    hs_phase before = hs_raw_session_enter_phase(session, HS_PHASE_EVAL);
    const bool averages = hook->averages.ops != NULL;
    hs_error late = {0};
    hs_code code = averages ? hs_moving_average_swap(hook->averages, true, err) : HS_OK;
    if (averages && !code)
        code = hs_raw_session_any(session, false, NULL, err);
    if (!code && !hook->evaluate) {
        code = run_all(&p, err);
    } else if (!code && !(code = look_for_stop(&p, err)) && !p.abandoned) {
        code = hook->evaluate(hook->user, session, step, err);
        if (code == HS_OUT_OF_RANGE) { /* the end of the evaluation's input */
            hs_error_clear(err);
            code = HS_OK;
        }
    }
    if (averages && hs_moving_average_swap(hook->averages, false, &late) && !code)
        code = hs_error_set(err, late.code, "%s", late.message);
    hs_raw_session_enter_phase(session, before);
    if (code) {
        hs_error_prefix(err, "'%s'", hook->name);
    } else if (p.abandoned) {
        hs_log(hook->session_env, HS_LOG_INFO, "step %lld: %s abandoned: a stop was requested", (long long)step,
               hook->name);
    } else {
        hook->evaluated_step = step;
        hook->restore_generation = hs_raw_session_restores(session);
    }
    return code;
}

static hs_code after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)values, (void)err;
    evaluation *hook = self;
    hs_raw_session *session = hs_run_context_session(run);
    hook->due = true;
    hook->due_restores = hs_raw_session_restores(session);
    hs_run_context_request_boundary(run);
    hs_raw_session_due_from(session, 0); /* in the next run, if a hook fails before the boundary */
    return HS_OK;
}

static hs_code boundary(void *self, hs_run_context *run, hs_error *err)
{
    evaluation *hook = self;
    hs_raw_session *session = hs_run_context_session(run);
    const bool follows = hs_raw_session_rank(session) != 0;
    hs_boundary which = hs_run_context_boundary(run);
    if (which != HS_BOUNDARY_CREATED && which != HS_BOUNDARY_RUN)
        return HS_OK;
    int64_t step = hs_run_context_global_step(run, err);
    if (step < 0)
        return err->code;
    if (which == HS_BOUNDARY_CREATED) {
        hook->due = false; /* a recovery cancels an evaluation that was due */
        hs_raw_session_due_from(session, HS_NEVER);
        return follows ? HS_OK : hs_raw_session_event_writer(session, hook->summary_dir, NULL, &hook->writer, err);
    }
    bool due, stops;
    hs_code code =
        hs_raw_session_any(session, hook->due && hook->due_restores == hs_raw_session_restores(session), &due, err);
    if (hook->due)
        hs_raw_session_due_from(session, HS_NEVER);
    hook->due = false;
    if (code || !due || (code = hs_raw_session_any(session, hs_run_context_stop_requested(run), &stops, err)))
        return code;
    return evaluate(hook, session, step, !stops, err);
}

static hs_code end(void *self, hs_raw_session *session, hs_error *err)
{
    evaluation *hook = self;
    if (!hook->at_end)
        return HS_OK;
    int64_t step = hs_raw_session_global_step(session, err);
    if (step < 0)
        return err->code;
    if (step == hook->evaluated_step && hook->restore_generation == hs_raw_session_restores(session))
        return HS_OK;
    bool stops;
    hs_code code = hs_raw_session_any(session, hs_raw_session_stop_requested(session), &stops, err);
    return code ? code : evaluate(hook, session, step, !stops, err);
}

static void destroy(void *self)
{
    evaluation *hook = self;
    const hs_env *env = &hook->base.env;
    hs_env_free(env, hook->name);
    hs_env_free(env, hook->eval_op);
    hs_env_free(env, hook->summary_dir);
    hs_env_free(env, (void *)hook->metrics);
    hs_env_free(env, (void *)hook->reset_ops);
    hs_env_free(env, hook->tags);
    hs_env_free(env, hook->values);
    hs__hook_free(hook);
}

static const hs_hook_ops ops =
    HS_INIT(hs_hook_ops, .name = "evaluation", .begin = begin, .after_run = after_run, .boundary = boundary, .end = end,
            .destroy = destroy, .rank_identity = hs__hook_rank_identity);

static hs_code check(const void *given, hs_error *err)
{
    const hs_evaluation_options *options = given;
    bool metrics = options->metrics && options->metrics[0];
    if (!options->every_n_steps && options->every_n_secs == 0 && !hs__trigger_is_set(&options->when) && !options->at_end)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "none of every_n_steps, every_n_secs, when and at_end is given; give at least one");
    if (options->name && !*options->name)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "name is empty");
    if (metrics == (options->evaluate != NULL))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%s of metrics and evaluate is given; give exactly one of the two",
                            metrics ? "each" : "none");
    if (options->evaluate && (options->reset_ops || options->eval_op || options->summary_dir))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "evaluate excludes reset_ops, eval_op and summary_dir");
    if (options->n_batches < HS_NEVER || (options->n_batches && !options->eval_op))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "n_batches is %lld%s", (long long)options->n_batches,
                            options->eval_op ? "" : ", but eval_op is missing");
    return HS_OK;
}

static hs_code make_tags(evaluation *hook, hs_error *err)
{
    size_t n = 0, bytes = 0, used = 0;
    for (; hook->metrics[n]; n++)
        bytes += strlen(hook->name) + strlen(hook->metrics[n]) + 2;
    hook->tags = hs_env_alloc(&hook->base.env, bytes);
    hook->values = hs_env_alloc(&hook->base.env, n * sizeof *hook->values);
    if (!hook->tags || !hook->values)
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no memory for %zu metrics", n);
    for (size_t i = 0; i < n; i++)
        used += (size_t)snprintf(hook->tags + used, bytes - used, "%s/%s", hook->name, hook->metrics[i]) + 1;
    return HS_OK;
}

static hs_code fill(void *self, const void *given, hs_error *err)
{
    evaluation *hook = self;
    const hs_evaluation_options *options = given;
    const hs__when_options when = {
        .secs = options->every_n_secs, .steps = options->every_n_steps, .when = options->when, .optional = options->at_end};
    hs_code code = hs__hook_when(hook, &when, err);
    hook->base.flags = HS_HOOK_ALL_RANKS;
    if (code)
        return code;
    hook->at_end = options->at_end || hook->base.when.last;
    hook->base.when.last = false; /* end() evaluates */
    hook->n_batches = options->n_batches;
    hook->evaluate = options->evaluate;
    hook->user = options->user;
    if (options->moving_average)
        hook->averages = *options->moving_average;
    if (!(hook->name = hs__hook_text(hook, options->name ? options->name : "eval", err)) ||
        (options->eval_op && !(hook->eval_op = hs__hook_text(hook, options->eval_op, err))) ||
        (options->summary_dir && !(hook->summary_dir = hs__hook_text(hook, options->summary_dir, err))) ||
        (options->reset_ops && !(hook->reset_ops = hs__hook_names(hook, options->reset_ops, err))) ||
        (options->metrics && !(hook->metrics = hs__hook_names(hook, options->metrics, err))))
        return HS_RESOURCE_EXHAUSTED;
    return hook->evaluate ? HS_OK : make_tags(hook, err);
}

static const hs__rank_option same[] = {
    HS__RANK_OPTION(hs_evaluation_options, name),
    HS__RANK_OPTION(hs_evaluation_options, metrics),
    HS__RANK_OPTION(hs_evaluation_options, eval_op),
    HS__RANK_OPTION(hs_evaluation_options, at_end),
    {0},
};

hs_hook hs_evaluation_hook(const hs_evaluation_options *given)
{
    return HS__HOOK_MAKE(&ops, evaluation, hs_evaluation_options, moving_average, check, fill, same, given);
}
