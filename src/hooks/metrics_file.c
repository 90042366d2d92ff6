/* SPDX-License-Identifier: Apache-2.0 */
#include <hooksess/hooks/metrics_file.h>

#include "hooks/line_file.h"
#include "hooks/make.h"
#include "hooks/timing.h"
#include "hooks/metrics_board.h"
#include "hooks/metrics_row.h"

#include <string.h>
#include <strings.h>

enum { DEFAULT_STEPS = 100 };

static const int64_t MOST_PER_RUN = INT64_MAX / 2;

typedef struct {
    hs__hook_base base;
    hs__timing timing;
    const char *const *tensors, *const *labels, *const *metrics; /* copies; NULL: none */
    const char **names;                                          /* of all columns */
    size_t n_tensors, n_metrics;
    hs__metrics_board board;
    bool wall_time;
    hs__metrics_row row;
    hs__line_reader reader;
    hs__line_file *file;
    hs_host_copy copy;
    hs_run_args args;
    const hs_env *session_env;
    hs_raw_session *session;
    bool has_step, wants_now;
    int64_t restores; /* of the session, when the file was opened */
    bool planned;     /* the file is to be opened, with what `keep` says */
    bool opened;      /* once, since begin */
    bool failing;     /* the last row could not be written; it was logged */
    hs__line_keep keep;
    int64_t step, per_run; /* the global step after the last run; what the last run that moved it added */
    int64_t row_step;      /* of the last row; -1: none */
} metrics_file;

static hs_code begin(void *self, hs_backend backend, hs_error *err)
{
    metrics_file *hook = self;
    hs_code code = hs_backend_check_global_step(backend, err);
    for (size_t i = 0; !code && i < hook->n_tensors; i++)
        code = hs_backend_check_tensor(backend, hook->tensors[i], err);
    hook->session_env = hs_backend_env(backend);
    hook->planned = hook->has_step = hook->opened = hook->failing = false;
    hook->restores = 0;
    hook->per_run = 1;
    hook->row_step = -1;
    hs__metrics_board_clear(&hook->board);
    hs_timer_reset(hook->timing.timer);
    return code;
}

/* A file that cannot be opened at first fails the session. Later failures of the disk, or of memory, end no training: they
 * are logged and counted, and the next row is tried. Other errors are passed on. */
static hs_code tolerate(metrics_file *hook, hs_code code, hs_error *err)
{
    if (!code || !hook->opened || !(code == HS_RESOURCE_EXHAUSTED || err->os_error))
        return code;
    hs_log(hook->session_env, hook->failing ? HS_LOG_DEBUG : HS_LOG_WARNING, "rows are not written: %s", err->message);
    hs_raw_session_report_failure(hook->session, "metrics_file", err);
    hook->failing = true;
    hook->has_step = false; /* the steps until the next row are not those of one run */
    hs_error_clear(err);
    return HS_OK;
}

static hs_code open_file(metrics_file *hook, hs_error *err)
{
    hs_code code = hs__line_file_open(hook->file, hook->session_env, &hook->keep, err);
    if (!code) {
        hook->planned = false;
        hook->opened = true;
    }
    return code;
}

/* Where no checkpoint says what of the file is to stay, the step does. A plan that failed is tried again as it is, for in
 * the meantime the training may have gone on. */
static void plan(metrics_file *hook, const hs_raw_session *session, int64_t step)
{
    bool anew = !step && !hs_raw_session_restored_from(session);
    hook->keep = (hs__line_keep){.kind = anew ? HS__KEEP_ASIDE : HS__KEEP_STEPS, .step = step};
    hook->row_step = -1;
    hook->planned = true;
}

/* Opens it, where that is still to be done, or where the session was restored from what does not know the file. */
static hs_code settle(metrics_file *hook, hs_error *err)
{
    int64_t restores = hs_raw_session_restores(hook->session);
    if (restores != hook->restores && !hook->planned) {
        int64_t step = hs_raw_session_global_step(hook->session, err);
        if (step < 0)
            return err->code;
        plan(hook, hook->session, step);
        hook->has_step = false;
    }
    hook->restores = restores;
    return hook->planned ? open_file(hook, err) : HS_OK;
}

static hs_code after_create_session(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    metrics_file *hook = self;
    (void)coordinator;
    hook->session = session;
    hook->has_step = false; /* after a recovery the step may be another */
    if (!hook->planned) {
        int64_t step = hs_raw_session_global_step(session, err);
        if (step < 0)
            return err->code;
        plan(hook, session, step);
    }
    return tolerate(hook, settle(hook, err), err);
}

/* Rows. */

static hs_code put_tensors(metrics_file *hook, const hs_run_values *values, hs_error *err)
{
    for (size_t i = 0; i < hook->n_tensors; i++) {
        const hs_tensor *value = hs_run_values_tensor(values, i);
        hs_tensor host;
        hs_code code = value ? hs_tensor_host(value, &hook->copy, &host, err) : HS_OK;
        if (code)
            return code;
        if (!value || !hs__metrics_row_tensor(&hook->row, &host))
            return hs_error_set(err, HS_INVALID_ARGUMENT, "'%s' is not one number; fetch its mean, say, or leave it out",
                                hook->tensors[i]);
    }
    return HS_OK;
}

static void put_metrics(metrics_file *hook)
{
    double value;
    hs__metrics_board_look(&hook->board, hook->session);
    for (size_t i = 0; i < hook->n_metrics; i++)
        if (hs__metrics_board_take(&hook->board, i, &value))
            hs__metrics_row_number(&hook->row, value);
        else
            hs__metrics_row_nothing(&hook->row);
}

static hs_code write_row(metrics_file *hook, const hs_run_values *values, hs_error *err)
{
    hs__metrics_row *row = &hook->row;
    hs_code code = settle(hook, err);
    if (code)
        return code;
    hs__metrics_row_begin(row);
    hs__metrics_row_integer(row, hook->step);
    if (hook->wall_time)
        hs__metrics_row_time(row, hs_env_realtime_ns(hook->session_env));
    if ((code = put_tensors(hook, values, err)))
        return code;
    put_metrics(hook);
    hs__metrics_row_end(row);
    hook->row_step = hook->step;
    if ((code = hs__line_file_append(hook->file, row->text, row->used, err)))
        return code;
    if (hook->failing)
        hs_log(hook->session_env, HS_LOG_INFO, "rows are written again, from step %lld on", (long long)hook->step);
    hook->failing = false;
    return HS_OK;
}

static hs_code before_run(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    metrics_file *hook = self;
    hs_code code = hook->failing ? HS_OK : settle(hook, err); /* else the next row tries again */
    hook->wants_now = false;
    if (code)
        return tolerate(hook, code, err);
    if (!hook->has_step) {
        int64_t step = hs_run_context_global_step(run, err);
        if (step < 0)
            return err->code;
        hook->step = step;
        hook->has_step = true;
        hs_timer_start(hook->timing.timer, step);
        hs_timer_begin(hook->timing.timer, run, step);
    }
    hook->wants_now = hs_timer_due(hook->timing.timer, run, hook->step + hook->per_run);
    if (hook->wants_now && hook->n_tensors)
        *args = &hook->args;
    return HS_OK;
}

/* By seconds, the step is read only when it is time. */
static hs_code after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    metrics_file *hook = self;
    if (!hook->wants_now && !hook->timing.by_steps)
        return HS_OK;
    int64_t step = hs_run_context_global_step(run, err), before = hook->step;
    if (step < 0)
        return err->code;
    hook->step = step;
    if (hook->timing.by_steps && step > before)
        hook->per_run = step - before;
    if (!hook->wants_now)
        return HS_OK;
    hs_timer_mark(hook->timing.timer, run, step, NULL, NULL);
    hs_code code = write_row(hook, values, err);
    if (code)
        hook->has_step = false; /* a hook of best effort may be left alone for some steps */
    return tolerate(hook, code, err);
}

/* A row of the last step, which has none yet. */
static hs_code end(void *self, hs_raw_session *session, hs_error *err)
{
    metrics_file *hook = self;
    const hs_run_values *values = NULL;
    hs_code code = settle(hook, err);
    if (code || !hook->timing.last)
        return tolerate(hook, code, err);
    hook->step = hs_raw_session_global_step(session, err);
    if (hook->step < 0 || hook->step == hook->row_step)
        return err->code;
    if (hook->n_tensors)
        code = hs_raw_session_run(session, &hook->args, &values, err);
    return code ? code : tolerate(hook, write_row(hook, values, err), err);
}

static void close_hook(void *self, const hs_outcome *outcome)
{
    metrics_file *hook = self;
    (void)outcome;
    hs__line_file_close(hook->file);
    hook->session = NULL;
}

/* State: where the file is, the rhythm, what the board said. */

static hs_code save_state(void *self, hs_state_writer *out, hs_error *err)
{
    metrics_file *hook = self;
    hs_code code = settle(hook, err);
    if (!code)
        code = hs__line_file_sync(hook->file, err);
    if ((code = tolerate(hook, code, err))) { /* a checkpoint is worth more than the rows */
        hook->has_step = false;
        return code;
    }
    if (hook->session)
        hs__metrics_board_look(&hook->board, hook->session);
    const int64_t head[] = {(int64_t)hs__line_file_bytes(hook->file), hook->row_step, hook->per_run};
    if ((code = hs_state_writer_write(out, head, sizeof head, err)) ||
        (code = hs__metrics_board_save(&hook->board, out, err)))
        return code;
    return hs_timer_save(hook->timing.timer, out, err);
}

static hs_code load_state(void *self, hs_state_reader *in, hs_error *err)
{
    metrics_file *hook = self;
    int64_t head[3];
    hs_code code = hs_state_reader_read(in, head, sizeof head, err);
    if (code)
        return code;
    if (head[0] < 0 || head[2] < 1 || head[2] > MOST_PER_RUN)
        return hs_error_set(err, HS_DATA_LOSS, "its file has %lld bytes, and its runs make %lld steps", (long long)head[0],
                            (long long)head[2]);
    if ((code = hs__metrics_board_load(&hook->board, in, err)) || (code = hs_timer_load(hook->timing.timer, in, err)))
        return code;
    hook->keep = (hs__line_keep){.kind = HS__KEEP_BYTES, .bytes = (uint64_t)head[0], .step = head[1]};
    hook->row_step = head[1];
    hook->per_run = head[2];
    hook->planned = true;
    hook->has_step = false;
    return HS_OK;
}

static void destroy(void *self)
{
    metrics_file *hook = self;
    const hs_env *env = &hook->base.env;
    hs_timer_free(hook->timing.timer);
    hs__line_file_free(hook->file);
    hs_host_copy_free(&hook->copy);
    if (hook->labels != hook->tensors)
        hs_env_free(env, (void *)hook->labels);
    hs_env_free(env, (void *)hook->tensors);
    hs_env_free(env, (void *)hook->metrics);
    hs_env_free(env, (void *)hook->names);
    hs_env_free(env, hook->board.said);
    hs_env_free(env, hook->row.text);
    hs__hook_free(hook);
}

static const hs_hook_ops ops =
    HS_INIT(hs_hook_ops, .name = "metrics_file", .begin = begin, .after_create_session = after_create_session,
            .before_run = before_run, .after_run = after_run, .end = end, .close = close_hook, .save_state = save_state,
            .load_state = load_state, .destroy = destroy);

/* Making one. */

static size_t count(const char *const *names)
{
    size_t n = 0;
    while (names && names[n])
        n++;
    return n;
}

static bool ends_with(const char *path, const char *ending)
{
    size_t n = strlen(path), m = strlen(ending);
    return n > m && strcasecmp(path + n - m, ending) == 0;
}

/* HS_METRICS_BY_NAME: nobody can tell. */
static int64_t format_of(const hs_metrics_file_options *options)
{
    if (options->format != HS_METRICS_BY_NAME)
        return options->format;
    if (ends_with(options->path, ".csv"))
        return HS_METRICS_CSV;
    return ends_with(options->path, ".jsonl") || ends_with(options->path, ".json") ? HS_METRICS_JSON_LINES
                                                                                   : HS_METRICS_BY_NAME;
}

static hs_code set_timer(metrics_file *hook, const hs_metrics_file_options *options, hs_error *err)
{
    bool neither = !options->every_n_steps && options->every_n_secs == 0 && !options->trigger;
    const hs__timing_options timing = {.secs = options->every_n_secs,
                                       .steps = neither ? DEFAULT_STEPS : options->every_n_steps,
                                       .trigger = options->trigger,
                                       .first = true};
    return hs__timing_init(&hook->timing, &timing, &hook->base.env, err);
}

static hs_code check(const hs_metrics_file_options *options, hs_error *err)
{
    size_t tensors = count(options->tensors), labels = count(options->labels);
    if (!options->path || !*options->path)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "path is not given");
    if (options->format < HS_METRICS_BY_NAME || options->format > HS_METRICS_JSON_LINES)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%d is no format of a file of metrics", (int)options->format);
    if (format_of(options) == HS_METRICS_BY_NAME)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "%s: ends with none of .csv, .jsonl and .json; say in format what it is", options->path);
    if (!tensors && !count(options->metrics))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "neither tensors nor metrics are named");
    if (options->labels && labels != tensors)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "there are %zu labels for %zu tensors", labels, tensors);
    return HS_OK;
}

static hs_code add_column(metrics_file *hook, const char *name, hs_error *err)
{
    size_t n = 0;
    for (; hook->names[n]; n++)
        if (strcmp(hook->names[n], name) == 0)
            return hs_error_set(err, HS_INVALID_ARGUMENT, "two columns would be named '%s'; give one another label", name);
    if (!hook->row.json && strchr(name, '\n'))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "the column '%s' has a line's end in its name; give it a label",
                            name);
    hook->names[n] = name;
    return HS_OK;
}

static hs_code name_columns(metrics_file *hook, hs_error *err)
{
    hook->names = hs_env_alloc(&hook->base.env, (hook->n_tensors + hook->n_metrics + 3) * sizeof *hook->names);
    if (!hook->names)
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no memory for the columns");
    hs_code code = add_column(hook, "step", err);
    if (!code && hook->wall_time)
        code = add_column(hook, "wall_time", err);
    for (size_t i = 0; !code && i < hook->n_tensors; i++)
        code = add_column(hook, hook->labels[i], err);
    for (size_t i = 0; !code && i < hook->n_metrics; i++)
        code = add_column(hook, hook->metrics[i], err);
    return code;
}

/* The row, what is read back, and the head: one block. */
static hs_code make_row(metrics_file *hook, const char *path, hs_error *err)
{
    size_t longest = hs__metrics_row_longest(hook->names);
    char *block = hs_env_alloc(&hook->base.env, 3 * longest);
    hook->row.names = hook->names;
    hook->row.text = block;
    if (!block)
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no memory for a row of %zu bytes", longest);
    hs__metrics_row_head(&hook->row);
    hook->row.scratch = block + longest;
    char *head = memcpy(block + 2 * longest, block, hook->row.used + 1);
    hook->reader = (hs__line_reader){hs__metrics_row_fits, hs__metrics_row_step, &hook->row, "those of this hook"};
    hook->file = hs__line_file_new(&hook->base.env, path, head, &hook->reader, longest, err);
    return hook->file ? HS_OK : HS_RESOURCE_EXHAUSTED;
}

static hs_code copy_names(metrics_file *hook, const hs_metrics_file_options *options, hs_error *err)
{
    hook->n_tensors = count(options->tensors);
    hook->n_metrics = count(options->metrics);
    if (hook->n_tensors && !(hook->tensors = hs__hook_names(hook, options->tensors, err)))
        return HS_RESOURCE_EXHAUSTED;
    hook->labels = hook->tensors;
    if (hook->n_tensors && options->labels && !(hook->labels = hs__hook_names(hook, options->labels, err)))
        return HS_RESOURCE_EXHAUSTED;
    if (hook->n_metrics && !(hook->metrics = hs__hook_names(hook, options->metrics, err)))
        return HS_RESOURCE_EXHAUSTED;
    hook->board = (hs__metrics_board){.names = hook->metrics, .n = hook->n_metrics};
    hook->board.said = hs_env_alloc(&hook->base.env, (hook->n_metrics + 1) * sizeof *hook->board.said);
    if (!hook->board.said)
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no memory for the metrics");
    return HS_OK;
}

static hs_code fill(metrics_file *hook, const hs_metrics_file_options *options, hs_error *err)
{
    hs_code code = set_timer(hook, options, err);
    if (code)
        return code;
    hook->wall_time = !options->no_wall_time;
    hook->row.json = format_of(options) == HS_METRICS_JSON_LINES;
    hook->copy.env = &hook->base.env;
    if (!(code = copy_names(hook, options, err)) && !(code = name_columns(hook, err)))
        code = make_row(hook, options->path, err);
    hook->args = (hs_run_args)HS_INIT(hs_run_args, .names = hook->tensors);
    return code;
}

hs_hook hs_metrics_file_hook(const hs_metrics_file_options *given)
{
    hs_metrics_file_options options = {0};
    metrics_file *hook = NULL;
    hs_error error = {0};
    if (!HS_STRUCT_TAKE(hs_metrics_file_options, env, &options, given, &error) && !check(&options, &error))
        hook = hs__hook_new(options.env, sizeof *hook, &error);
    if (hook && fill(hook, &options, &error)) {
        destroy(hook);
        hook = NULL;
    }
    return hook ? (hs_hook){.ops = &ops, .self = hook} : hs_hook_broken(ops.name, &error);
}
