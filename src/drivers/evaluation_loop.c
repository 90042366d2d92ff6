/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluates a checkpoint once, or each new checkpoint of a directory. run_evaluation restores it in a session of its own
 * (hs__open_restored), runs the batches, fetches the metrics and publishes them. run_loop waits for checkpoints. */
#include "drivers/evaluation_loop.h"

#include "base/text.h"
#include "checkpoint/directory.h"
#include "session/session.h"

#include <math.h>
#include <string.h>

enum { LINE = 1500, TIMEOUT_SECS = 600 };
static const double LONGEST_WAIT_SECS = 1e9;

/* The result. */

struct hs_evaluation_result {
    hs_env env;
    char *checkpoint;
    int64_t step, batches;
    const char *const *means, *const *metrics; /* copies */
    size_t n_means, n_metrics;
    double values[]; /* of the means, then of the metrics. Means are sums until all batches have run */
};

static hs_evaluation_result *new_metrics(const hs_env *env, const hs_evaluate_once_options *options, hs_error *err)
{
    size_t n_means = hs__names_count(options->means), n_metrics = hs__names_count(options->metrics);
    hs_evaluation_result *made = hs__alloc(env, 1, sizeof *made + (n_means + n_metrics) * sizeof *made->values);
    if (made) {
        *made = (hs_evaluation_result){.env = *env, .n_means = n_means, .n_metrics = n_metrics};
        made->means = hs__names_copy(env, options->means);
        made->metrics = hs__names_copy(env, options->metrics);
        if (made->means && made->metrics)
            return made;
    }
    hs_evaluation_result_free(made);
    hs__no_memory(err, sizeof *made, "the metrics");
    return NULL;
}

void hs_evaluation_result_free(hs_evaluation_result *metrics)
{
    if (!metrics)
        return;
    hs__free(&metrics->env, (void *)metrics->means);
    hs__free(&metrics->env, (void *)metrics->metrics);
    hs__free(&metrics->env, metrics->checkpoint);
    hs__free(&metrics->env, metrics);
}

const char *hs_evaluation_result_name(const hs_evaluation_result *metrics, size_t index)
{
    if (!metrics || index >= metrics->n_means + metrics->n_metrics)
        return NULL;
    return index < metrics->n_means ? metrics->means[index] : metrics->metrics[index - metrics->n_means];
}

double hs_evaluation_result_value(const hs_evaluation_result *metrics, const char *name)
{
    const char *one;
    for (size_t i = 0; name && (one = hs_evaluation_result_name(metrics, i)); i++)
        if (strcmp(one, name) == 0)
            return metrics->values[i];
    return NAN;
}

#define GETTER(type, name, none)                                                                                           \
    type hs_evaluation_result_##name(const hs_evaluation_result *metrics)                                                  \
    {                                                                                                                      \
        return metrics ? metrics->name : none;                                                                             \
    }

GETTER(int64_t, step, -1)
GETTER(const char *, checkpoint, NULL)
GETTER(int64_t, batches, 0)

/* Opening. */

/* Returns true, and logs it, if the checkpoint was deleted: that it was not restored is then not a failure. */
static bool log_if_deleted(const hs_env *env, const char *path)
{
    if (!hs__checkpoint_missing(env, path))
        return false;
    hs_log(env, HS_LOG_INFO, "%s was deleted before it was restored; skipped", path);
    return true;
}

hs_session *hs__open_restored(hs_backend backend, const hs_evaluate_once_options *options, char **path, hs_error *err)
{
    const hs_env *env = hs_backend_env(backend);
    const char *prefix = options->checkpoint_prefix;
    hs_session *session;
    hs_hook *hooks = hs__hooks_hold(env, options->hooks, err);
    hs_session_options opening = HS_INIT(hs_session_options, .hooks = hooks, .scaffold = options->scaffold,
                                         .restore_options = options->restore_options);
    *path = NULL;
    if (!hooks)
        return NULL;
    do {
        hs__free(env, *path);
        *path = prefix ? hs__strdup(env, prefix) : hs_checkpoint_latest(env, options->checkpoint_dir, NULL, err);
        if (!*path && prefix)
            hs__no_memory(err, strlen(prefix), "a path");
        else if (!*path && err->code == HS_OK)
            hs_error_set(err, HS_NOT_FOUND, "%s: no checkpoint exists; train first, or set checkpoint_prefix",
                         options->checkpoint_dir);
        opening.checkpoint_prefix = *path;
        session = *path ? hs_session_open(backend, &opening, err) : NULL;
    } while (*path && !session && !prefix && log_if_deleted(env, *path));
    hs__free(env, hooks);
    return session;
}

/* One evaluation. */

/* Runs batches until the input ends, `steps` are made or a stop is requested. Each run fetches `means`, whose values it
 * adds up, and runs eval_op. */
static hs_code run_batches(hs_evaluation_result *metrics, hs_session *session, const hs_evaluate_once_options *options,
                           hs_error *err)
{
    const hs_run_values *values;
    hs_code code = HS_OK;
    metrics->step = hs_session_global_step(session, NULL);
    if (!options->eval_op && !metrics->n_means)
        return HS_OK;
    const char **names = hs__alloc(&metrics->env, metrics->n_means + 2, sizeof *names);
    if (!names)
        return hs__no_memory(err, sizeof *names, "the fetches of a batch");
    memcpy(names, metrics->means, metrics->n_means * sizeof *names);
    names[metrics->n_means] = options->eval_op;
    const hs_run_args batch = HS_INIT(hs_run_args, .names = names, .kind = HS_RUN_EVAL);
    while (!code && !hs_session_should_stop(session) && (options->steps <= 0 || metrics->batches < options->steps) &&
           !(code = hs_session_run_args(session, &batch, &values, err))) {
        metrics->batches++;
        for (size_t i = 0; i < metrics->n_means; i++)
            metrics->values[i] += hs_run_values_number(values, i);
    }
    hs__free(&metrics->env, (void *)names);
    if (code && code != HS_OUT_OF_RANGE && code != HS_STOP)
        return code;
    if (!metrics->batches)
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "%s: no batch to evaluate; the input must start from the beginning in each evaluation",
                            metrics->checkpoint);
    for (size_t i = 0; i < metrics->n_means; i++)
        metrics->values[i] /= (double)metrics->batches;
    return HS_OK;
}

static hs_code fetch_metrics(hs_evaluation_result *metrics, hs_session *session, hs_error *err)
{
    const hs_run_args args = HS_INIT(hs_run_args, .names = metrics->metrics, .kind = HS_RUN_EVAL);
    const hs_run_values *values;
    if (!metrics->n_metrics)
        return HS_OK;
    hs_code code = hs_raw_session_run(hs_session_raw(session), &args, &values, err);
    if (code == HS_OUT_OF_RANGE || code == HS_STOP) {
        hs_error_prefix(err, "metrics must not depend on an op that draws the next batch");
        err->code = code = HS_FAILED_PRECONDITION;
    }
    for (size_t i = 0; !code && i < metrics->n_metrics; i++)
        metrics->values[metrics->n_means + i] = hs_run_values_number(values, i);
    return code;
}

/* Writes the result as a line of the log, and as events: to `writer`, or to the summary_dir. */
static hs_code publish(const hs_evaluation_result *metrics, hs_session *session, const hs_evaluate_once_options *options,
                       hs_summary_writer *writer, hs_error *err)
{
    const char *name;
    char line[LINE] = "";
    hs_code code = HS_OK;
    if (options->summary_dir)
        code = hs_raw_session_summary_writer(hs_session_raw(session), options->summary_dir, &writer, err);
    for (size_t i = 0; !code && (name = hs_evaluation_result_name(metrics, i)); i++) {
        if (writer)
            code = hs_summary_writer_scalar(writer, name, metrics->values[i], metrics->step, err);
        hs__append_item(line, sizeof line, "%s = %.6g", name, metrics->values[i]);
    }
    if (!code && writer)
        code = hs_raw_session_flush_writer(hs_session_raw(session), writer, false, err);
    if (!code)
        hs_log(&metrics->env, HS_LOG_INFO, "step %lld: evaluated %s, %lld batch%s%s%s", (long long)metrics->step,
               metrics->checkpoint, (long long)metrics->batches, metrics->batches == 1 ? "" : "es", *line ? ": " : "",
               line);
    return code;
}

/* Evaluates once. Does not free the hooks. */
static hs_evaluation_result *run_evaluation(hs_backend backend, const hs_evaluate_once_options *options,
                                            hs_summary_writer *writer, hs_error *err)
{
    hs_evaluation_result *metrics = new_metrics(hs_backend_env(backend), options, err);
    hs_session *session = metrics ? hs__open_restored(backend, options, &metrics->checkpoint, err) : NULL;
    if (session && (run_batches(metrics, session, options, err) || fetch_metrics(metrics, session, err) ||
                    publish(metrics, session, options, writer, err)))
        hs_session_fail(session, err);
    if (hs_session_close(session, err).reason != HS_REASON_FAILED)
        return metrics;
    hs_evaluation_result_free(metrics);
    return NULL;
}

hs_code hs__deliver_metrics(hs_evaluation_result *metrics, hs_evaluation_done_fn evaluated, void *user, hs_error *err)
{
    if (!metrics)
        return err->code;
    hs_code code = evaluated ? hs__normalize_error(evaluated(user, metrics, err), "evaluated", err) : HS_OK;
    hs_evaluation_result_free(metrics);
    return code;
}

/* Validates and copies the options. `options` is unchanged if they cannot be read. */
static hs_code copy_once_options(hs_evaluate_once_options *options, const hs_evaluate_once_options *given, hs_error *err)
{
    if (HS_STRUCT_TAKE(hs_evaluate_once_options, restore_options, options, given, err))
        return HS_INVALID_ARGUMENT;
    const char *wrong = NULL;
    if (!options->checkpoint_prefix == !options->checkpoint_dir)
        wrong = "give exactly one of checkpoint_prefix and checkpoint_dir";
    else if (!options->eval_op && !hs__names_count(options->means) && !hs__names_count(options->metrics))
        wrong = "none of eval_op, means and metrics is given; give at least one";
    else if (options->steps < HS_NEVER)
        wrong = "steps must be at least 0, or HS_NEVER for no limit";
    return wrong ? hs_error_set(err, HS_INVALID_ARGUMENT, "hs_evaluate_once: %s", wrong) : HS_OK;
}

hs_evaluation_result *hs_evaluate_once(hs_backend backend, const hs_evaluate_once_options *given, hs_error *err)
{
    hs_evaluate_once_options options = HS_INIT(hs_evaluate_once_options);
    hs_error error = {0};
    hs_evaluation_result *metrics = NULL;
    if (!copy_once_options(&options, given, &error))
        metrics = run_evaluation(backend, &options, NULL, &error);
    hs_hooks_free(options.hooks);
    hs__error_copy(err, &error);
    return metrics;
}

/* The loop. */

typedef struct {
    hs_backend backend;
    const hs_env *env;
    hs_evaluation_loop_options options;
    hs_evaluate_once_options once;
    hs_summary_writer *writer; /* for the summary_dir: one event file for all evaluations */
    char *last;                /* the checkpoint that was evaluated last */
    int64_t evaluations;
    int64_t due_ns; /* earliest time of the next evaluation */
} loop;

static hs_code run_loop(loop *l, hs_error *err)
{
    const double timeout = l->options.timeout_secs == 0 ? TIMEOUT_SECS : l->options.timeout_secs;
    hs_code code = HS_OK;
    while (!code && (l->options.max_evaluations <= 0 || l->evaluations < l->options.max_evaluations)) {
        char *found;
        int64_t wait = l->evaluations ? l->due_ns - hs_env_monotonic_ns(l->env) : 0;
        if (wait > 0)
            hs_env_sleep_ns(l->env, wait);
        if ((code = hs_checkpoint_wait(l->env, l->once.checkpoint_dir, l->last, timeout, &found, err)))
            return code;
        l->once.checkpoint_prefix = found;
        l->due_ns = hs_env_monotonic_ns(l->env) + (int64_t)(l->options.min_wait_secs * 1e9);
        hs_evaluation_result *metrics = run_evaluation(l->backend, &l->once, l->writer, err);
        if (!metrics && (err->code == HS_NOT_FOUND || err->code == HS_DATA_LOSS) && log_if_deleted(l->env, found)) {
            hs__free(l->env, found); /* the checkpoint before it may be the newest again */
            continue;
        }
        hs__free(l->env, l->last);
        l->last = found;
        l->evaluations += metrics != NULL;
        code = hs__deliver_metrics(metrics, l->options.evaluated, l->options.user, err);
    }
    return code == HS_STOP ? HS_OK : code;
}

static hs_code copy_loop_options(loop *l, const hs_evaluation_loop_options *given, hs_error *err)
{
    bool refused = HS_STRUCT_TAKE(hs_evaluation_loop_options, max_evaluations, &l->options, given, err);
    /* copied even if `given` is refused, because its hooks are freed */
    if (copy_once_options(&l->once, l->options.once, refused ? NULL : err) || refused)
        return HS_INVALID_ARGUMENT;
    if (!l->once.checkpoint_dir)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_evaluation_loop: checkpoint_dir is missing; it replaces checkpoint_prefix here");
    if (!(l->options.min_wait_secs >= 0 && l->options.min_wait_secs <= LONGEST_WAIT_SECS))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_evaluation_loop: min_wait_secs is %g; it must be from 0 to 1e9",
                            l->options.min_wait_secs);
    if (l->options.max_evaluations < HS_NEVER)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_evaluation_loop: max_evaluations is %lld; it must be at least 0, or HS_NEVER for no limit",
                            (long long)l->options.max_evaluations);
    if (!l->once.summary_dir)
        return HS_OK;
    const hs_summary_writer_options options = HS_INIT(hs_summary_writer_options, .env = l->env);
    l->writer = hs_summary_writer_open(l->once.summary_dir, &options, err);
    l->once.summary_dir = NULL;
    return l->writer ? HS_OK : err->code;
}

hs_code hs_evaluation_loop(hs_backend backend, const hs_evaluation_loop_options *given, int64_t *evaluations, hs_error *err)
{
    loop l = {.backend = backend, .env = hs_backend_env(backend)};
    hs_error error = {0}, late = {0};
    if (!copy_loop_options(&l, given, &error) && !run_loop(&l, &error))
        hs__clear(&error);
    if (evaluations)
        *evaluations = l.evaluations;
    if (hs_summary_writer_close(l.writer, &late) && !error.code)
        error = late;
    hs__free(l.env, l.last);
    hs_hooks_free(l.once.hooks);
    return hs__error_copy(err, &error);
}
