/* SPDX-License-Identifier: Apache-2.0 */
/* Prepares the parts of a training session (run_prepare), and lists its hooks (run_hooks). */
#include "run.h"

#include "fresh.h"

#include <stdio.h>
#include <unistd.h>

int64_t or_never(int64_t n)
{
    return n > 0 ? n : HS_NEVER;
}

/* Writes the path of a file in the model directory to `path`. If it is too long, `path` is "" and the result false. */
static bool in_model_dir(const struct run *run, const char *name, char *path, size_t bytes)
{
    int length = snprintf(path, bytes, "%s/%s", run->options.model_dir, name);
    if (length > 0 && (size_t)length < bytes)
        return true;
    path[0] = '\0'; /* a truncated path may name another file */
    return false;
}

/* Deletes the previous run and its evaluations. */
static hs_code delete_previous(const struct run *run, hs_error *err)
{
    char evaluations[4096];
    if (!in_model_dir(run, "eval", evaluations, sizeof evaluations))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "--model-dir: the path is too long");
    hs_code code = fresh_start(&run->log.env, run->options.model_dir, err);
    return code ? code : fresh_start(&run->log.env, evaluations, err);
}

hs_code run_prepare(struct run *run, hs_error *err)
{
    struct options *options = &run->options;
    hs_code code = trainer_load(&run->trainer, options->data, err);
    if (code)
        return code;
    options_fit(options, run->trainer.train.n, isatty(STDERR_FILENO));
    log_init(&run->log);
    run->losses.path = options->losses;
    run->info = (struct run_info){.options = options, .input = &run->trainer.input};
    if ((code = trainer_init(&run->trainer, options, err)) ||
        (options->fresh && run->trainer.replicas.rank == 0 && (code = delete_previous(run, err))))
        return code;
    run->graph = trainer_graph(&run->trainer, &run->log.env);
    hs_saver_options saver = HS_INIT(hs_saver_options, .env = &run->log.env, .max_to_keep = or_never(options->keep));
    if (!(run->saver = hs_saver_new(&saver, err)))
        return err->code;
    hs_scaffold_options scaffold = HS_INIT(hs_scaffold_options, .saver = run->saver, .summary_op = "summary/loss");
    run->scaffold = hs_scaffold_new(&scaffold, err);
    return run->scaffold ? HS_OK : err->code;
}

/* Hooks that only show the training. They are best effort: if one fails, the training continues without it. */
static size_t reporting_hooks(struct run *run, hs_hook *hooks)
{
    const struct options *options = &run->options;
    char metrics[4096];
    size_t n = 0;
    in_model_dir(run, "metrics.csv", metrics, sizeof metrics);
    if (options->log_steps) {
        hooks[n++] = hs_logging_tensor(.tensors = HS_NAMES("loss"), .every_n_steps = options->log_steps);
        hooks[n++] = hs_metrics_file(.path = options->metrics ? options->metrics : metrics, .tensors = HS_NAMES("loss"),
                                     .every_n_steps = options->log_steps);
    }
    if (options->eval_steps)
        hooks[n++] = hs_summary_saver(.summary_ops = HS_NAMES("summary/test_accuracy", "summary/report"),
                                      .summary_dir = options->model_dir, .every_n_steps = options->eval_steps);
    if (options->histogram_steps)
        hooks[n++] = hs_summary_saver(.summary_ops = HS_NAMES(run->trainer.histograms), .summary_dir = options->model_dir,
                                      .every_n_steps = options->histogram_steps);
    hooks[n++] = run_info_hook(&run->info);
    if (options->progress)
        hooks[n++] = log_progress(&run->log, options->last_step);
    for (size_t i = 0; i < n; i++)
        hooks[i] = hs_hook_best_effort(hooks[i], 0);
    return n;
}

void run_hooks(struct run *run, hs_hook *hooks)
{
    const struct options *options = &run->options;
    char heartbeat[4096], control[4096];
    const hs_knob rate = {.name = "learning_rate", .value = &run->trainer.optimizer.rate, .min = 1e-9, .max = 1e3};
    size_t n = 0;
    in_model_dir(run, "heartbeat.json", heartbeat, sizeof heartbeat);
    in_model_dir(run, "control", control, sizeof control);
    /* Logs steps, saves and inputs that take far longer than before. Rank 0 writes the heartbeat. */
    hooks[n++] = hs_watchdog(.heartbeat = run->trainer.replicas.rank == 0 ? heartbeat : NULL);
    /* Reads commands from a file while the training runs. */
    hooks[n++] = hs_control(.path = control, .knobs = HS_KNOBS(rate), .summary_dir = options->model_dir);
    hooks[n++] = hs_stop_at_step(.last_step = options->last_step);
    /* If the loss is not finite, fails or rolls back. */
    if (options->rollback)
        hooks[n++] = hs_finite_guard(.activations = HS_NAMES("loss"), .policy = HS_GUARD_ROLLBACK, .saver = run->saver,
                                     .skip_op = "input/dequeue");
    else
        hooks[n++] = hs_finite_guard(.activations = HS_NAMES("loss"));
    if (options->stop_after_secs > 0)
        hooks[n++] = hs_stop_after(.this_run_secs = options->stop_after_secs);
    n += reporting_hooks(run, hooks + n);
    if (options->losses)
        hooks[n++] = losses_hook(&run->losses);
    hooks[n].ops = NULL; /* ends the list */
}

void run_free(struct run *run)
{
    log_free(&run->log);
    hs_scaffold_free(run->scaffold);
    hs_saver_free(run->saver);
    hs_graph_free(run->graph);
    trainer_free(&run->trainer);
}
