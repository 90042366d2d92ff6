/* SPDX-License-Identifier: Apache-2.0 */
#include "note.h"

#include <hooksess/hparams.h>
#include <hooksess/summary_values.h>

#include <stdio.h>
#include <string.h>

enum { N_HPARAMS = 5, WIDTHS_BYTES = 12 * MOST_HIDDEN };

static const char *widths_text(const struct options *options, char *text, size_t bytes)
{
    size_t used = 0;
    for (int i = 0; i < options->n_hidden; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%d", i ? "," : "", options->hidden[i]);
    return text;
}

/* The hyperparameters. */

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

/* Which there are, and what runs are compared by. In this directory, too: each may be opened alone. */
static hs_code add_config(hs_summary *summary, const struct options *options, const hs_hparam list[N_HPARAMS],
                          hs_error *err)
{
    hs_hparam_info infos[N_HPARAMS + 1] = {{.name = NULL}};
    for (int i = 0; i < N_HPARAMS; i++)
        infos[i] = (hs_hparam_info){.name = list[i].name, .type = list[i].type};
    const hs_hparams_metric *metrics =
        HS_HPARAMS_METRICS({.tag = "test_accuracy",
                            .group = options->mode == MODE_TRAIN ? NULL : "eval",
                            .display_name = "test accuracy",
                            .dataset = HS_HPARAMS_DATASET_VALIDATION},
                           {.tag = "loss", .display_name = "loss of a batch", .dataset = HS_HPARAMS_DATASET_TRAINING});
    return hs_hparams_config(summary, HS_HPARAMS_CONFIG_OPTIONS(.hparams = infos, .metrics = metrics), err);
}

static hs_code add_hparams(hs_summary *summary, const struct options *options, hs_error *err)
{
    char widths[WIDTHS_BYTES];
    hs_hparam list[N_HPARAMS + 1];
    list_hparams(options, widths_text(options, widths, sizeof widths), list);
    hs_code code = add_config(summary, options, list, err);
    if (code)
        return code;
    return hs_hparams_start(summary, HS_HPARAMS_START_OPTIONS(.hparams = list), err);
}

/* The text. */

/* As it was given, an option a line, in single quotes where a shell would take it for something else. */
static void write_argument(struct text *text, const char *argument)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-+=./,:@%";
    bool quote = !*argument || argument[strspn(argument, plain)];
    text_add(text, "%s%s", strncmp(argument, "--", 2) == 0 ? " \\\n        " : " ", quote ? "'" : "");
    for (const char *c = argument; *c; c++)
        text_add(text, *c == '\'' ? "'\\''" : "%c", (unsigned char)*c < ' ' ? ' ' : *c);
    text_add(text, quote ? "'" : "");
}

static void write_settings(struct text *text, const struct options *options, const struct input *input)
{
    char widths[WIDTHS_BYTES];
    text_add(text, "| setting | value |\n|---|---|\n");
    text_add(text, "| data | %s |\n", input->identity);
    text_add(text, "| hidden layers | %s |\n", widths_text(options, widths, sizeof widths));
    text_add(text, "| optimizer | %s |\n", options->optimizer->name);
    text_add(text, "| learning rate | %g |\n", options->learning_rate);
    text_add(text, "| batch size | %lld |\n", (long long)options->batch_size);
    text_add(text, "| last step | %lld |\n", (long long)options->last_step);
    text_add(text, "| seed | %lld |\n", (long long)options->seed);
    text_add(text, "| threads | %lld |\n", (long long)options->threads);
}

static const char *write_text(struct note *note, int64_t step)
{
    struct text *text = &note->text;
    text_clear(text);
    text_add(text, step ? "Resumed at step %lld:\n\n   " : "Started:\n\n   ", (long long)step);
    for (char **argument = note->options->argv; *argument; argument++)
        write_argument(text, *argument);
    text_add(text, "\n\n");
    write_settings(text, note->options, note->input);
    return text->bytes;
}

/* The hook. */

static hs_code write_hparams(const struct note *note, hs_error *err)
{
    hs_summary *summary = hs_summary_new(NULL);
    if (!summary)
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no memory for the hyperparameters");
    hs_code code = add_hparams(summary, note->options, err);
    if (!code) /* at step 0 they are never dropped */
        code = hs_summary_writer_summary(note->writer, hs_summary_serialized(summary), 0, err);
    hs_summary_free(summary);
    return code;
}

static hs_code begin(void *self, hs_backend backend, hs_error *err)
{
    struct note *note = self;
    (void)backend, (void)err;
    note->told = note->noted = false;
    note->writer = NULL;
    return HS_OK;
}

static hs_code tell(struct note *note, hs_raw_session *session, int64_t step, hs_error *err)
{
    hs_code code = hs_raw_session_event_writer(session, note->options->model_dir, NULL, &note->writer, err);
    if (!code && !note->told && !(code = write_hparams(note, err)))
        note->told = true;
    if (!code && !note->noted &&
        !(code = hs_summary_writer_text(note->writer, "command", write_text(note, step), step, err)))
        note->noted = true;
    return code;
}

static hs_code after_create_session(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    struct note *note = self;
    if (hs_coordinator_should_stop(coordinator)) /* there is nothing to train */
        return HS_OK;
    const hs_group *group = hs_raw_session_group(session);
    if (group && group->ops->rank(group->self) > 0) { /* rank 0 tells it */
        note->told = note->noted = true;
        return HS_OK;
    }
    int64_t step = hs_raw_session_global_step(session, err);
    return step < 0 ? err->code : tell(note, session, step, err);
}

/* TensorBoard keeps the first end that it finds: what only stops on its way has none. */
static void close_note(void *self, const hs_outcome *outcome)
{
    struct note *note = self;
    bool failed = outcome->reason == HS_REASON_FAILED;
    hs_summary *summary = note->writer && (failed || !outcome->interrupted) ? hs_summary_new(NULL) : NULL;
    if (summary && hs_hparams_end(summary, failed ? HS_HPARAMS_FAILURE : HS_HPARAMS_SUCCESS, 0, NULL) == HS_OK)
        hs_summary_writer_summary(note->writer, hs_summary_serialized(summary), 0, NULL);
    hs_summary_free(summary);
    note->writer = NULL;
}

static hs_code save_state(void *self, hs_state_writer *out, hs_error *err)
{
    const struct note *note = self;
    const unsigned char told = note->told;
    return hs_state_writer_write(out, &told, sizeof told, err);
}

static hs_code load_state(void *self, hs_state_reader *in, hs_error *err)
{
    struct note *note = self;
    unsigned char told;
    hs_code code = hs_state_reader_read(in, &told, sizeof told, err);
    if (!code)
        note->told = told;
    return code;
}

hs_hook note_hook(struct note *note)
{
    static const hs_hook_ops ops =
        HS_INIT(hs_hook_ops, .name = "note", .begin = begin, .after_create_session = after_create_session,
                .close = close_note, .save_state = save_state, .load_state = load_state);
    return (hs_hook){.ops = &ops, .self = note};
}
