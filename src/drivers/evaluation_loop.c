/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluates each new checkpoint of a directory. */
#include "drivers/evaluate_once.h"

#include "base/env.h"

enum { TIMEOUT_SECS = 600 };
static const double LONGEST_WAIT_SECS = 1e9;

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

/* `found` becomes the last one, unless it was deleted: then the checkpoint before it may be the newest again. */
static hs_code evaluate(loop *l, char *found, hs_error *err)
{
    l->once.checkpoint_prefix = found;
    l->due_ns = hs_env_monotonic_ns(l->env) + (int64_t)(l->options.min_wait_secs * 1e9);
    hs_evaluation_result *metrics = hs__evaluate(l->backend, &l->once, err);
    if (!metrics && (err->code == HS_NOT_FOUND || err->code == HS_DATA_LOSS) && hs__log_if_deleted(l->env, found)) {
        hs__free(l->env, found);
        return HS_OK;
    }
    hs__free(l->env, l->last);
    l->last = found;
    l->evaluations += metrics != NULL;
    return hs__deliver_metrics(metrics, l->options.evaluated, l->options.user, err);
}

static hs_code run(loop *l, hs_error *err)
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
        code = evaluate(l, found, err);
    }
    return code == HS_STOP ? HS_OK : code;
}

static hs_code copy_options(loop *l, const hs_evaluation_loop_options *given, hs_error *err)
{
    bool refused = HS_STRUCT_TAKE(hs_evaluation_loop_options, max_evaluations, &l->options, given, err);
    /* copied even if `given` is refused, because its hooks are freed */
    if (hs__copy_evaluate_options(&l->once, l->options.once, refused ? NULL : err) || refused)
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
    l->once.summary_writer = l->writer = hs_summary_writer_open(l->once.summary_dir, &options, err);
    l->once.summary_dir = NULL;
    return l->writer ? HS_OK : err->code;
}

hs_code hs_evaluation_loop(hs_backend backend, const hs_evaluation_loop_options *given, int64_t *evaluations, hs_error *err)
{
    loop l = {.backend = backend, .env = hs_backend_env(backend)};
    hs_error error = {0}, late = {0};
    if (!copy_options(&l, given, &error) && !run(&l, &error))
        hs__clear(&error);
    if (evaluations)
        *evaluations = l.evaluations;
    if (hs_summary_writer_close(l.writer, &late) && !error.code)
        error = late;
    hs__free(l.env, l.last);
    hs_hooks_free(l.once.hooks);
    return hs__error_copy(err, &error);
}
