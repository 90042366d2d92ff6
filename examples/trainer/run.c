/* SPDX-License-Identifier: Apache-2.0 */
#include "run.h"

#include "fresh.h"

#include <stdio.h>
#include <unistd.h>

int64_t or_never(int64_t n)
{
    return n > 0 ? n : HS_NEVER;
}

/* The parts of the session that are not its defaults: how many checkpoints stay, and what TensorBoard is shown. */
static hs_code make_scaffold(struct run *run, hs_error *err)
{
    hs_saver_options saver = HS_INIT(hs_saver_options, .env = &run->log.env, .max_to_keep = or_never(run->options.keep));
    if (!(run->saver = hs_saver_new(&saver, err)))
        return err->code;
    hs_scaffold_options scaffold = HS_INIT(hs_scaffold_options, .saver = run->saver, .summary_op = "summary/loss");
    run->scaffold = hs_scaffold_new(&scaffold, err);
    return run->scaffold ? HS_OK : err->code;
}

/* The evaluations, too. */
static hs_code start_anew(const struct run *run, hs_error *err)
{
    char directory[4096];
    int length = snprintf(directory, sizeof directory, "%s/eval", run->options.model_dir);
    if (length < 0 || (size_t)length >= sizeof directory) /* what is cut short may be another directory */
        return hs_error_set(err, HS_INVALID_ARGUMENT, "the name of the model's directory is too long");
    hs_code code = fresh_start(&run->log.env, run->options.model_dir, err);
    return code ? code : fresh_start(&run->log.env, directory, err);
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
    run->note = (struct note){.options = options, .input = &run->trainer.input};
    if ((code = trainer_init(&run->trainer, options, err)) ||
        (options->fresh && run->trainer.replicas.rank == 0 && (code = start_anew(run, err))))
        return code;
    run->graph = trainer_graph(&run->trainer, &run->log.env);
    return make_scaffold(run, err);
}

/* A loss that is not finite. */
static hs_hook guard(const struct run *run)
{
    if (!run->options.rollback)
        return hs_finite_guard(.activations = HS_NAMES("loss"));
    return hs_finite_guard(.activations = HS_NAMES("loss"), .policy = HS_GUARD_ROLLBACK, .saver = run->saver,
                           .skip_op = "input/dequeue");
}

/* The name of a file in the model's directory; "" where it would be cut short. */
static const char *in_directory(const struct run *run, const char *name, char *path, size_t bytes)
{
    int length = snprintf(path, bytes, "%s/%s", run->options.model_dir, name);
    return length > 0 && (size_t)length < bytes ? path : "";
}

/* Says when a step, a save or the data take far longer than ever, and whether the process is alive. */
static hs_hook watchdog(const struct run *run)
{
    char path[4096];
    bool writes = run->trainer.replicas.rank == 0;
    return hs_watchdog(.heartbeat = writes ? in_directory(run, "heartbeat.json", path, sizeof path) : NULL);
}

/* Orders from outside. */
static hs_hook control(struct run *run)
{
    char path[4096];
    const hs_knob rate = {.name = "learning_rate", .value = &run->trainer.optimizer.rate, .min = 1e-9, .max = 1e3};
    return hs_control(.path = in_directory(run, "control", path, sizeof path), .knobs = HS_KNOBS(rate),
                      .summary_dir = run->options.model_dir);
}

static hs_hook metrics(const struct run *run)
{
    char path[4096];
    const char *standard = in_directory(run, "metrics.csv", path, sizeof path);
    return hs_metrics_file(.path = run->options.metrics ? run->options.metrics : standard, .tensors = HS_NAMES("loss"),
                           .every_n_steps = run->options.log_steps);
}

/* Those without which the training can do. */
static size_t show(struct run *run, hs_hook *hooks)
{
    const struct options *options = &run->options;
    size_t n = 0;
    if (options->log_steps) {
        hooks[n++] = hs_logging_tensor(.tensors = HS_NAMES("loss"), .every_n_steps = options->log_steps);
        hooks[n++] = metrics(run);
    }
    if (options->eval_steps)
        hooks[n++] = hs_summary_saver(.summary_ops = HS_NAMES("summary/test_accuracy", "summary/report"),
                                      .summary_dir = options->model_dir, .every_n_steps = options->eval_steps);
    if (options->histogram_steps)
        hooks[n++] = hs_summary_saver(.summary_ops = HS_NAMES(run->trainer.histograms), .summary_dir = options->model_dir,
                                      .every_n_steps = options->histogram_steps);
    hooks[n++] = note_hook(&run->note);
    if (options->progress)
        hooks[n++] = log_progress(&run->log, options->last_step);
    for (size_t i = 0; i < n; i++)
        hooks[i] = hs_hook_best_effort(hooks[i], 0);
    return n;
}

void run_hooks(struct run *run, hs_hook *hooks)
{
    const struct options *options = &run->options;
    size_t n = 0;
    hooks[n++] = watchdog(run);
    hooks[n++] = control(run);
    hooks[n++] = hs_stop_at_step(.last_step = options->last_step);
    hooks[n++] = guard(run);
    if (options->stop_after_secs > 0)
        hooks[n++] = hs_stop_after(.this_run_secs = options->stop_after_secs);
    n += show(run, hooks + n);
    if (options->losses)
        hooks[n++] = losses_hook(&run->losses);
    hooks[n].ops = NULL; /* the end */
}

void run_free(struct run *run)
{
    log_free(&run->log);
    hs_scaffold_free(run->scaffold);
    hs_saver_free(run->saver);
    hs_graph_free(run->graph);
    trainer_free(&run->trainer);
}
