/* SPDX-License-Identifier: Apache-2.0 */
/* The hook that writes hyperparameters, command line and settings to TensorBoard. after_create_session writes them, close
 * adds the result of the training. */
#include "run_info.h"

#include "trainer.h"

#include <hooksess/hparams.h>
#include <hooksess/summary_values.h>

#include <stdio.h>
#include <string.h>

enum { N_HPARAMS = 5, WIDTHS_BYTES = 12 * MAX_HIDDEN };

static const char *widths_text(const struct options *options, char *text, size_t bytes)
{
    size_t used = 0;
    for (int i = 0; i < options->n_hidden; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%d", i ? "," : "", options->hidden[i]);
    return text;
}

/* Hyperparameters. */

static void list_hparams(const struct options *options, const char *widths, hs_hparam list[N_HPARAMS + 1])
{
    const hs_hparam all[N_HPARAMS] = {
        HS_HPARAM("optimizer", STRING, .string = options->optimizer->name),
        HS_HPARAM("learning_rate", NUMBER, .number = options->learning_rate),
        HS_HPARAM("batch_size", NUMBER, .number = (double)options->batch_size),
        HS_HPARAM("hidden", STRING, .string = widths),
        HS_HPARAM("seed", NUMBER, .number = (double)options->seed),
    };
    for (int i = 0; i < N_HPARAMS; i++)
        list[i] = all[i];
    list[N_HPARAMS] = (hs_hparam){.name = NULL};
}

/* Declares the hyperparameters, and the metrics that TensorBoard compares the runs by. The declaration is written to each
 * run's directory, because TensorBoard may be started on one run alone. */
static hs_code add_config(hs_summary *summary, const struct options *options, const hs_hparam list[N_HPARAMS],
                          hs_error *err)
{
    hs_hparam_info infos[N_HPARAMS + 1] = {{.name = NULL}};
    for (int i = 0; i < N_HPARAMS; i++)
        infos[i] = (hs_hparam_info){.name = list[i].name, .type = list[i].type};
    const hs_hparams_metric *metrics =
        HS_HPARAMS_METRICS({.tag = ACCURACY_TAG,
                            .group = options->mode == MODE_TRAIN ? NULL : "eval",
                            .display_name = "test accuracy",
                            .dataset = HS_HPARAMS_DATASET_VALIDATION},
                           {.tag = LOSS_TAG, .display_name = "loss of a batch", .dataset = HS_HPARAMS_DATASET_TRAINING});
    return hs_hparams_config(summary, HS_HPARAMS_CONFIG_OPTIONS(.hparams = infos, .metrics = metrics), err);
}

static hs_code write_hparams(const struct run_info *info, hs_error *err)
{
    char widths[WIDTHS_BYTES];
    hs_hparam list[N_HPARAMS + 1];
    list_hparams(info->options, widths_text(info->options, widths, sizeof widths), list);
    hs_summary *summary = hs_summary_new(NULL);
    if (!summary)
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "out of memory for the hyperparameters");
    hs_code code = add_config(summary, info->options, list, err);
    if (!code)
        code = hs_hparams_start(summary, HS_HPARAMS_START_OPTIONS(.hparams = list), err);
    if (!code) /* at step 0, so that TensorBoard does not drop them after a resume */
        code = hs_summary_writer_summary(info->writer, hs_summary_serialized(summary), 0, err);
    hs_summary_free(summary);
    return code;
}

/* Command line and settings. */

/* Adds an argument of the command line. Each option begins a line. An argument with characters that a shell interprets is
 * in single quotes. */
static void add_argument(struct text *text, const char *argument)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=./,:@%";
    bool quote = !*argument || argument[strspn(argument, plain)];
    text_add(text, "%s%s", strncmp(argument, "--", 2) == 0 ? " \\\n        " : " ", quote ? "'" : "");
    for (const char *c = argument; *c; c++)
        text_add(text, *c == '\'' ? "'\\''" : "%c", (unsigned char)*c < ' ' ? ' ' : *c);
    text_add(text, quote ? "'" : "");
}

static void add_settings(struct text *text, const struct options *options, const struct input *input)
{
    char widths[WIDTHS_BYTES];
    text_add(text, "| setting | value |\n|---|---|\n");
    text_add(text, "| data | %s |\n", input->identity);
    text_add(text, "| hidden layers | %s |\n", widths_text(options, widths, sizeof widths));
    text_add(text, "| optimizer | %s |\n", options->optimizer->name);
    text_add(text, "| learning rate | %g |\n", options->learning_rate);
    text_add(text, "| batch size | %lld |\n", (long long)options->batch_size);
    text_add(text, "| last step | %lld |\n", (long long)options->last_step[0]);
    text_add(text, "| seed | %lld |\n", (long long)options->seed);
    text_add(text, "| threads | %lld |\n", (long long)options->threads);
}

static const char *format_text(struct run_info *info, int64_t step)
{
    struct text *text = &info->text;
    text_clear(text);
    text_add(text, step ? "Resumed at step %lld:\n\n   " : "Started:\n\n   ", (long long)step);
    for (char **argument = info->options->argv; *argument; argument++)
        add_argument(text, *argument);
    text_add(text, "\n\n");
    add_settings(text, info->options, info->input);
    return text->bytes;
}

/* The hook. */

static hs_code begin(void *self, hs_backend backend, hs_error *err)
{
    struct run_info *info = self;
    (void)backend, (void)err;
    info->hparams_written = info->command_written = false;
    info->threads_before = 0;
    info->writer = NULL;
    return HS_OK;
}

static hs_code after_create_session(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    struct run_info *info = self;
    if (hs_coordinator_should_stop(coordinator)) /* the training is already complete */
        return HS_OK;
    if (info->threads_before && info->threads_before != info->options->threads)
        hs_log(
            hs_backend_env(hs_raw_session_backend(session)), HS_LOG_WARNING,
            "this run used --threads %lld until now and continues with %lld: sums are rounded differently, so the losses "
            "differ from those of an uninterrupted run in their last digits",
            (long long)info->threads_before, (long long)info->options->threads);
    info->threads_before = info->options->threads;
    if (hs_raw_session_rank(session) > 0) { /* rank 0 writes */
        info->hparams_written = info->command_written = true;
        return HS_OK;
    }
    int64_t step = hs_raw_session_global_step(session, err);
    if (step < 0)
        return err->code;
    hs_code code = hs_raw_session_event_writer(session, info->options->model_dir, NULL, &info->writer, err);
    if (!code && !info->hparams_written && !(code = write_hparams(info, err)))
        info->hparams_written = true;
    if (!code && !info->command_written &&
        !(code = hs_summary_writer_text(info->writer, "command", format_text(info, step), step, err)))
        info->command_written = true;
    return code;
}

/* Writes the result, except after an interruption: TensorBoard shows the first result that it finds, and the training
 * continues later. */
static void close_info(void *self, const hs_outcome *outcome)
{
    struct run_info *info = self;
    bool failed = outcome->reason == HS_REASON_FAILED;
    hs_summary *summary = info->writer && (failed || !outcome->interrupted) ? hs_summary_new(NULL) : NULL;
    if (summary && hs_hparams_end(summary, failed ? HS_HPARAMS_FAILURE : HS_HPARAMS_SUCCESS, 0, NULL) == HS_OK)
        hs_summary_writer_summary(info->writer, hs_summary_serialized(summary), 0, NULL);
    hs_summary_free(summary);
    info->writer = NULL;
}

struct saved {
    int64_t hparams_written, threads;
};

static hs_code save_state(void *self, hs_state_writer *out, hs_error *err)
{
    const struct run_info *info = self;
    const struct saved saved = {.hparams_written = info->hparams_written, .threads = info->options->threads};
    return hs_state_writer_write(out, &saved, sizeof saved, err);
}

static hs_code load_state(void *self, hs_state_reader *in, hs_error *err)
{
    struct run_info *info = self;
    struct saved saved;
    hs_code code = hs_state_reader_read(in, &saved, sizeof saved, err);
    if (!code) {
        info->hparams_written = saved.hparams_written;
        info->threads_before = saved.threads;
    }
    return code;
}

hs_hook run_info_hook(struct run_info *info)
{
    static const hs_hook_ops ops =
        HS_INIT(hs_hook_ops, .name = "run_info", .begin = begin, .after_create_session = after_create_session,
                .close = close_info, .save_state = save_state, .load_state = load_state);
    return (hs_hook){.ops = &ops, .self = info};
}
