/* SPDX-License-Identifier: Apache-2.0 */
/* Prepares the parts of a training session (run_prepare), and lists its hooks (run_hooks). */
#include "run.h"

#include "fresh.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int64_t or_never(int64_t n)
{
    return n > 0 ? n : HS_NEVER;
}

/* Every N steps from the first step on, and in the last step. */
static hs_trigger every_and_last(const struct options *options, int64_t steps)
{
    return HS_TRIGGER(.every_n_steps = steps, .first = true, .at_steps = options->last_step);
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

/* Creates all levels of the model directory, so that hooks can write to it from the first moment on. Errors are left to the
 * first write. */
static void make_model_dir(const struct run *run)
{
    char path[4096];
    if (!in_model_dir(run, "", path, sizeof path))
        return;
    for (char *slash = path + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = '\0';
        mkdir(path, 0777);
    }
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

/* "float [784,32]" */
static const char *type_text(char text[HS_SHAPE_TEXT_SIZE + 32], hs_dtype dtype, const hs_shape *shape)
{
    char of_shape[HS_SHAPE_TEXT_SIZE];
    snprintf(text, HS_SHAPE_TEXT_SIZE + 32, "%s %s", hs_dtype_name(dtype), hs_shape_text(shape, of_shape, sizeof of_shape));
    return text;
}

void run_explain(const struct options *options, hs_graph *graph, hs_error *err)
{
    if (!strstr(err->message, LOG_MISFIT))
        return;
    char *newest = hs_checkpoint_latest(NULL, options->model_dir, NULL, NULL);
    hs_checkpoint_reader *reader = newest ? hs_checkpoint_open(NULL, newest, NULL) : NULL;
    char misfit[512] = "";
    hs_variable wanted;
    for (size_t i = 0; reader && !*misfit && hs_backend_variable(hs_graph_backend(graph), i, &wanted); i++) {
        char saved[HS_SHAPE_TEXT_SIZE + 32], own[HS_SHAPE_TEXT_SIZE + 32];
        hs_tensor found;
        if (wanted.flags & HS_VARIABLE_LOCAL)
            continue;
        if (hs_checkpoint_find(reader, wanted.name, &found, NULL) != HS_OK) {
            snprintf(misfit, sizeof misfit, "'%s' is not in its checkpoint", wanted.name);
            continue;
        }
        const hs_shape shape = hs_tensor_shape(&found);
        if (found.dtype != wanted.dtype || !hs_shape_equal(&shape, &wanted.shape))
            snprintf(misfit, sizeof misfit, "'%s' is %s in the checkpoint, but %s in the model", wanted.name,
                     type_text(saved, found.dtype, &shape), type_text(own, wanted.dtype, &wanted.shape));
    }
    hs_checkpoint_close(reader);
    hs_env_free(NULL, newest);
    if (*misfit)
        hs_error_set(err, err->code,
                     "the run in %s was made with other options: %s; give its options, or start a new run with --fresh",
                     options->model_dir, misfit);
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
    make_model_dir(run);
    run->graph = trainer_graph(&run->trainer, &run->log.env);
    hs_saver_options saver = HS_INIT(hs_saver_options, .env = &run->log.env, .max_to_keep = or_never(options->keep));
    if (!(run->saver = hs_saver_new(&saver, err)))
        return err->code;
    hs_scaffold_options scaffold = HS_INIT(hs_scaffold_options, .saver = run->saver);
    run->scaffold = hs_scaffold_new(&scaffold, err);
    return run->scaffold ? HS_OK : err->code;
}

/* Formats a line of the log: "step 938, epoch 2/10: loss = 0.4132, test accuracy = 0.8431". */
static void format_line(void *user, const hs_run_values *values, char *text, size_t bytes)
{
    const struct run *run = user;
    int64_t epoch = run->options.epoch_steps, step = (int64_t)hs_run_values_number(values, 0);
    int n = snprintf(text, bytes, "step %lld, epoch %lld/%lld: loss = %.4f", (long long)step,
                     (long long)((step + epoch - 1) / epoch), (long long)((run->options.last_step[0] + epoch - 1) / epoch),
                     hs_run_values_number(values, 1));
    if (hs_run_values_count(values) > 2 && n > 0 && (size_t)n < bytes)
        snprintf(text + n, bytes - (size_t)n, ", test accuracy = %.4f", hs_run_values_number(values, 2));
}

/* Hooks that only show the training. They are best effort: if one fails, the training continues without it. */
static size_t reporting_hooks(struct run *run, hs_hook *hooks)
{
    const struct options *options = &run->options;
    char metrics[4096];
    size_t n = 0;
    in_model_dir(run, "metrics.csv", metrics, sizeof metrics);
    if (options->log_steps)
        hooks[n++] = hs_logging_tensor(.tensors = options->eval_steps ? HS_NAMES("global_step", "loss", "test_accuracy")
                                                                      : HS_NAMES("global_step", "loss"),
                                       .when = HS_TRIGGER(.every_n_steps = options->log_steps, .last = true),
                                       .formatter = format_line, .user = run);
    if (options->metrics_steps)
        hooks[n++] = hs_metrics_file(.path = options->metrics ? options->metrics : metrics, .tensors = HS_NAMES("loss"),
                                     .every_n_steps = options->metrics_steps);
    if (options->summary_steps)
        hooks[n++] = hs_summary_saver(.summary_ops = HS_NAMES("summary/" LOSS_TAG), .summary_dir = options->model_dir,
                                      .when = every_and_last(options, options->summary_steps));
    if (options->eval_steps)
        hooks[n++] =
            hs_summary_saver(.summary_ops = HS_NAMES("summary/" ACCURACY_TAG, "summary/mistakes"),
                             .summary_dir = options->model_dir,
                             .when = HS_TRIGGER(.every_n_steps = options->eval_steps, .at_steps = options->last_step));
    if (options->histogram_steps)
        hooks[n++] = hs_summary_saver(.summary_ops = HS_NAMES(run->trainer.histograms), .summary_dir = options->model_dir,
                                      .when = every_and_last(options, options->histogram_steps));
    hooks[n++] = run_info_hook(&run->info);
    if (options->progress)
        hooks[n++] = log_progress(&run->log, options->last_step[0]);
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
    hooks[n++] = hs_stop_at_step(.last_step = options->last_step[0]);
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
