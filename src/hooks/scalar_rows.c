/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/scalar_rows.h"

#include "base/env.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DEFAULT_STEPS = 100, SINK_NAME = 32, MOST_METRICS = 1 << 20 };

/* The board. */

static void clear_board(hs__metrics_board *board)
{
    for (size_t i = 0; i < board->n; i++)
        board->metrics[i] = (hs__board_metric){0};
}

static void update_board(hs__metrics_board *board, const hs_raw_session *session)
{
    for (size_t i = 0; i < board->n; i++) {
        hs__board_metric *metric = &board->metrics[i];
        int64_t step;
        double value;
        if (!hs_raw_session_metric(session, board->names[i], &value, &step))
            continue;
        if (metric->known && metric->step == step && memcmp(&metric->value, &value, sizeof value) == 0)
            continue;
        *metric = (hs__board_metric){.known = 1, .step = step, .value = value};
    }
}

static bool pop_new_metric(hs__metrics_board *board, size_t index, double *value, int64_t *step)
{
    hs__board_metric *metric = &board->metrics[index];
    bool is_new = metric->known && !metric->shown;
    *value = metric->value;
    *step = metric->step;
    metric->shown = metric->known;
    return is_new;
}

static hs_code save_board(const hs__metrics_board *board, hs_state_writer *out, hs_error *err)
{
    int64_t n = (int64_t)board->n;
    hs_code code = hs_state_writer_write(out, &n, sizeof n, err);
    return code ? code : hs_state_writer_write(out, board->metrics, board->n * sizeof *board->metrics, err);
}

static hs_code load_board(hs__metrics_board *board, hs_state_reader *in, hs_error *err)
{
    hs__board_metric read;
    int64_t n;
    hs_code code = hs_state_reader_read(in, &n, sizeof n, err);
    if (!code && (n < 0 || n > MOST_METRICS))
        code = hs_error_set(err, HS_DATA_LOSS, "invalid count: %lld metrics", (long long)n);
    clear_board(board);
    for (int64_t i = 0; !code && i < n; i++) {
        code = hs_state_reader_read(in, &read, sizeof read, err);
        if (!code && n == (int64_t)board->n)
            board->metrics[i] = (hs__board_metric){read.known != 0, read.shown != 0, read.step, read.value};
    }
    return code;
}

/* Begin. */

hs_code hs__scalar_rows_begin(void *self, hs_backend backend, hs_error *err)
{
    hs__scalar_rows *rows = self;
    hs_code code = hs_backend_check_global_step(backend, err);
    for (size_t i = 0; !code && i < rows->n_tensors; i++)
        code = hs_backend_check_tensor(backend, rows->tensors[i], err);
    rows->session_env = hs_backend_env(backend);
    rows->opened = rows->is_open = rows->full = rows->failing = false;
    clear_board(&rows->board);
    hs__sampler_reset(&rows->sampler);
    return code;
}

/* The sink. */

/* If the first opening of the sink fails, the session fails. Later failures do not end the training: they are logged and
 * counted, and the next row tries again. */
static hs_code tolerate(hs__scalar_rows *rows, hs_code code, hs_error *err)
{
    if (!code)
        return HS_OK;
    hs__normalize_error(code, rows->sink.name, err);
    if (!rows->opened || code == HS_INVALID_ARGUMENT)
        return code;
    hs_log(rows->session_env, rows->failing ? HS_LOG_DEBUG : HS_LOG_WARNING,
           "%s: cannot write rows, training continues: %s", rows->sink.name, err->message);
    hs_raw_session_report_failure(rows->session, rows->sink.name, err);
    rows->failing = true;
    hs_error_clear(err);
    return HS_OK;
}

/* Opens the sink, if it is not open or the session was restored since. */
static hs_code open_sink(hs__scalar_rows *rows, hs_error *err)
{
    int64_t restores = hs_raw_session_restores(rows->session);
    if (restores != rows->restore_generation) {
        rows->restore_generation = restores;
        rows->is_open = false;
        hs__sampler_restart(&rows->sampler);
    }
    if (rows->is_open)
        return HS_OK;
    hs_code code = rows->sink.open ? rows->sink.open(rows->sink_self, rows->session, err) : HS_OK;
    rows->is_open = !code;
    rows->opened |= !code;
    rows->full = false;
    return code;
}

hs_code hs__scalar_rows_create(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    hs__scalar_rows *rows = self;
    (void)coordinator;
    rows->session = session;
    rows->restore_generation = hs_raw_session_restores(session);
    rows->is_open = false;
    hs__sampler_restart(&rows->sampler); /* a recovery may have changed the step */
    return tolerate(rows, open_sink(rows, err), err);
}

/* Rows. */

bool hs__is_integer(hs_dtype dtype)
{
    return dtype == HS_INT8 || dtype == HS_INT16 || dtype == HS_INT32 || dtype == HS_INT64 || dtype == HS_UINT8 ||
           dtype == HS_UINT16 || dtype == HS_UINT32 || dtype == HS_UINT64 || dtype == HS_BOOL;
}

bool hs__scalar_read(hs_scalar *to, const hs_tensor *value)
{
    hs_shape shape = hs_tensor_shape(value);
    bool single = hs_shape_elements(&shape) == 1 && value->dtype != HS_STRING && value->dtype != HS_COMPLEX64 &&
                  value->dtype != HS_COMPLEX128 && value->bytes == hs_dtype_size(value->dtype);
    to->known = true;
    to->dtype = value->dtype;
    to->value = hs_tensor_number(value, 0);
    to->integer = 0;
    if (!single || !hs__is_integer(value->dtype))
        return single;
    if (value->dtype == HS_INT64 || value->dtype == HS_UINT64)
        memcpy(&to->integer, value->data, sizeof to->integer); /* a double has too few digits */
    else
        to->integer = (int64_t)to->value;
    return true;
}

static hs_code read_tensors(hs__scalar_rows *rows, const hs_run_values *values, hs_error *err)
{
    for (size_t i = 0; i < rows->n_tensors; i++) {
        const hs_tensor *value = hs_run_values_tensor(values, i);
        hs_tensor host;
        hs_code code = value ? hs_tensor_host(value, &rows->copy, &host, err) : HS_OK;
        if (code)
            return code;
        rows->scalars[i].step = rows->sampler.clock.step;
        if (!hs_raw_session_is_computed(rows->session, rows->tensors[i])) { /* in the last row, after a restore */
            rows->scalars[i].known = false;
            rows->scalars[i].value = (double)NAN;
            continue;
        }
        if (!value || (!hs__scalar_read(&rows->scalars[i], &host) && !rows->for_display))
            return hs_error_set(err, HS_INVALID_ARGUMENT, "'%s' has more than one element; fetch, for example, its mean",
                                rows->tensors[i]);
    }
    return HS_OK;
}

static void read_metrics(hs__scalar_rows *rows)
{
    update_board(&rows->board, rows->session);
    for (size_t i = 0; i < rows->n_metrics; i++) {
        hs_scalar *to = &rows->scalars[rows->n_tensors + i];
        to->known = pop_new_metric(&rows->board, i, &to->value, &to->step);
        if (!to->known)
            to->value = (double)NAN;
    }
}

/* The row was not written, so the next one gets its metrics. */
static void return_metrics(hs__scalar_rows *rows)
{
    for (size_t i = 0; i < rows->n_metrics; i++)
        if (rows->scalars[rows->n_tensors + i].known)
            rows->board.metrics[i].shown = 0;
}

static hs_scalar_row make_row(const hs__scalar_rows *rows, int64_t now_ns)
{
    return (hs_scalar_row){.size = sizeof(hs_scalar_row),
                           .step = rows->sampler.clock.step,
                           .scalars = rows->scalars,
                           .unix_ns = hs_env_realtime_ns(rows->session_env),
                           .now_ns = now_ns,
                           .begin_step = rows->sampler.begin_step,
                           .begin_ns = rows->sampler.begin_ns};
}

static hs_code write_row(hs__scalar_rows *rows, const hs_run_values *values, int64_t now_ns, hs_error *err)
{
    hs_code code = open_sink(rows, err);
    if (code || rows->full)
        return tolerate(rows, code, err);
    if ((code = read_tensors(rows, values, err)))
        return code;
    read_metrics(rows);
    const hs_scalar_row row = make_row(rows, now_ns);
    code = rows->sink.write(rows->sink_self, &row, err);
    rows->full = code == HS_STOP;
    if (code && !rows->full) {
        return_metrics(rows);
        return tolerate(rows, code, err);
    }
    hs_error_clear(err); /* HS_STOP is not an error */
    if (rows->failing)
        hs_log(rows->session_env, HS_LOG_INFO, "%s: writing rows again, from step %lld", rows->sink.name,
               (long long)row.step);
    rows->failing = false;
    return HS_OK;
}

hs_code hs__scalar_rows_before(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    hs__scalar_rows *rows = self;
    /* after a failed write, the sink is reopened when the next row is due, not in every run */
    hs_code code = rows->failing ? HS_OK : open_sink(rows, err);
    if (!code && !rows->full)
        return hs__sampler_before(&rows->sampler, run, args, err);
    rows->sampler.samples_now = false;
    return tolerate(rows, code, err);
}

hs_code hs__scalar_rows_after(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    hs__scalar_rows *rows = self;
    bool samples;
    hs_code code = hs__sampler_after(&rows->sampler, run, &samples, err);
    if (!code && samples)
        code = write_row(rows, values, hs_run_context_now(run), err);
    if (code)
        rows->sampler.clock.has_step = false; /* a best-effort hook may miss runs after a failure */
    return code;
}

/* After a restore, a row of values that no step has computed would be empty. */
static bool has_something(const hs__scalar_rows *rows, const hs_raw_session *session)
{
    bool has = rows->n_metrics > 0;
    for (size_t i = 0; i < rows->n_tensors; i++)
        has |= hs_raw_session_is_computed(session, rows->tensors[i]);
    return has;
}

static hs_code write_last(hs__scalar_rows *rows, hs_raw_session *session, hs_error *err)
{
    const hs_run_values *values;
    bool samples;
    if (!has_something(rows, session))
        return HS_OK;
    hs_code code = hs__sampler_end(&rows->sampler, session, &values, &samples, err);
    return code || !samples ? code : write_row(rows, values, hs_env_monotonic_ns(rows->session_env), err);
}

static hs_code end_sink(hs__scalar_rows *rows, hs_raw_session *session, hs_error *err)
{
    const hs_scalar *end_of_list = &rows->scalars[rows->n_tensors + rows->n_metrics];
    if (!rows->sink.end || !rows->sampler.begun)
        return HS_OK;
    int64_t step = hs_raw_session_global_step(session, err);
    if (step < 0)
        return err->code;
    hs_scalar_row row = make_row(rows, hs_env_monotonic_ns(rows->session_env));
    row.step = step;
    row.scalars = end_of_list;
    return tolerate(rows, rows->sink.end(rows->sink_self, &row, err), err);
}

static hs_code flush(hs__scalar_rows *rows, hs_error *err)
{
    hs_code code = open_sink(rows, err);
    if (!code && rows->sink.flush)
        code = rows->sink.flush(rows->sink_self, err);
    return tolerate(rows, code, err);
}

hs_code hs__scalar_rows_end(void *self, hs_raw_session *session, hs_error *err)
{
    hs__scalar_rows *rows = self;
    hs_code code = tolerate(rows, open_sink(rows, err), err);
    if (code || !rows->is_open)
        return code;
    if ((!rows->full && (code = write_last(rows, session, err))) || (code = end_sink(rows, session, err)))
        return code;
    return flush(rows, err);
}

void hs__scalar_rows_close(void *self, const hs_outcome *outcome)
{
    hs__scalar_rows *rows = self;
    (void)outcome;
    if (rows->sink.close)
        rows->sink.close(rows->sink_self);
    rows->session = NULL;
}

/* State: the schedule, the metrics that no row has, and the state of the sink. */

static hs_code save_sink(const hs__scalar_rows *rows, hs_state_writer *out, hs_error *err)
{
    char name[SINK_NAME] = {0};
    snprintf(name, sizeof name, "%s", rows->sink.name);
    hs_code code = hs_state_writer_write(out, name, sizeof name, err);
    return code || !rows->sink.save_state ? code : rows->sink.save_state(rows->sink_self, out, err);
}

hs_code hs__scalar_rows_save(void *self, hs_state_writer *out, hs_error *err)
{
    hs__scalar_rows *rows = self;
    hs_code code = rows->session ? flush(rows, err) : HS_OK;
    if (code)
        return code;
    if (rows->session)
        update_board(&rows->board, rows->session);
    if ((code = hs__sampler_save(&rows->sampler, out, err)) ||
        (code = hs_state_writer_write(out, &rows->sampler.sampled_step, sizeof rows->sampler.sampled_step, err)) ||
        (code = save_board(&rows->board, out, err)))
        return code;
    return save_sink(rows, out, err);
}

/* The state of another sink is skipped: the program has changed its hooks. */
static hs_code load_sink(const hs__scalar_rows *rows, hs_state_reader *in, hs_error *err)
{
    char name[SINK_NAME], rest[SINK_NAME];
    hs_code code = hs_state_reader_read(in, name, sizeof name, err);
    if (!code && strncmp(name, rows->sink.name, sizeof name - 1) == 0 && rows->sink.load_state)
        return rows->sink.load_state(rows->sink_self, in, err);
    for (size_t left; !code && (left = hs_state_reader_remaining(in)) > 0;)
        code = hs_state_reader_read(in, rest, left < sizeof rest ? left : sizeof rest, err);
    return code;
}

hs_code hs__scalar_rows_load(void *self, hs_state_reader *in, hs_error *err)
{
    hs__scalar_rows *rows = self;
    hs_code code = hs__sampler_load(&rows->sampler, in, err);
    if (code || (code = hs_state_reader_read(in, &rows->sampler.sampled_step, sizeof rows->sampler.sampled_step, err)) ||
        (code = load_board(&rows->board, in, err)))
        return code;
    return load_sink(rows, in, err);
}

void hs__scalar_rows_destroy(void *self)
{
    hs__scalar_rows *rows = self;
    const hs_env *env = &rows->base.env;
    if (rows->sink.destroy)
        rows->sink.destroy(rows->sink_self);
    hs_timer_free(rows->sampler.timing.timer);
    hs_host_copy_free(&rows->copy);
    if (rows->labels != rows->tensors)
        hs_env_free(env, (void *)rows->labels);
    hs_env_free(env, (void *)rows->tensors);
    hs_env_free(env, (void *)rows->metrics);
    hs_env_free(env, rows->board.metrics);
    hs_env_free(env, rows->scalars);
    hs__hook_free(rows);
}

/* The constructor. */

static hs_code copy_names(hs__scalar_rows *rows, const hs__scalar_rows_options *options, hs_error *err)
{
    size_t n_labels = hs__names_count(options->labels);
    rows->n_tensors = hs__names_count(options->tensors);
    rows->n_metrics = hs__names_count(options->metrics);
    if (!rows->n_tensors && !rows->n_metrics && !rows->for_display)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "neither tensors nor metrics is given");
    if (options->labels && n_labels != rows->n_tensors)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%zu labels are given for %zu tensors", n_labels, rows->n_tensors);
    if (rows->n_tensors && !(rows->tensors = hs__hook_names(rows, options->tensors, err)))
        return HS_RESOURCE_EXHAUSTED;
    rows->labels = rows->tensors;
    if (rows->n_tensors && options->labels && !(rows->labels = hs__hook_names(rows, options->labels, err)))
        return HS_RESOURCE_EXHAUSTED;
    if (rows->n_metrics && !(rows->metrics = hs__hook_names(rows, options->metrics, err)))
        return HS_RESOURCE_EXHAUSTED;
    return HS_OK;
}

static hs_code make_scalars(hs__scalar_rows *rows, hs_error *err)
{
    const hs_env *env = &rows->base.env;
    size_t n = rows->n_tensors + rows->n_metrics + 1;
    rows->board = (hs__metrics_board){.names = rows->metrics, .n = rows->n_metrics};
    rows->board.metrics = hs__alloc(env, rows->n_metrics + 1, sizeof *rows->board.metrics);
    rows->scalars = hs__alloc(env, n, sizeof *rows->scalars);
    if (!rows->board.metrics || !rows->scalars)
        return hs__no_memory(err, n * sizeof *rows->scalars, "a row");
    for (size_t i = 0; i < rows->n_tensors; i++)
        rows->scalars[i].name = rows->labels[i];
    for (size_t i = 0; i < rows->n_metrics; i++)
        rows->scalars[rows->n_tensors + i] = (hs_scalar){.name = rows->metrics[i], .dtype = HS_DOUBLE};
    return HS_OK;
}

static hs_code copy_sink(hs__scalar_rows *rows, hs_scalar_sink sink, hs_error *err)
{
    hs_code code = HS_STRUCT_TAKE(hs_scalar_sink_ops, destroy, &rows->sink, sink.ops, err);
    rows->sink_self = sink.self;
    if (!code && (!rows->sink.name || !rows->sink.write))
        code = hs_error_set(err, HS_INVALID_ARGUMENT, "the sink has no %s", rows->sink.name ? "write" : "name");
    return code;
}

hs_code hs__scalar_rows_init(hs__scalar_rows *rows, const hs__scalar_rows_options *options, hs_error *err)
{
    hs__timing_options timing = options->timing;
    if (!timing.steps && timing.secs == 0 && !timing.trigger)
        timing.steps = DEFAULT_STEPS;
    timing.first = true;
    rows->copy.env = &rows->base.env;
    rows->for_display = rows->sampler.unsaved = options->for_display;
    hs_code code = copy_sink(rows, options->sink, err);
    if (code || (code = hs__timing_init(&rows->sampler.timing, &timing, &rows->base.env, err)) ||
        (code = copy_names(rows, options, err)))
        return code;
    if (rows->sampler.timing.by_secs && !rows->for_display)
        rows->base.flags |= HS_HOOK_STATE_VARIES; /* the clock decides which rows are written */
    rows->sampler.args = (hs_run_args)HS_INIT(hs_run_args, .names = rows->tensors);
    return make_scalars(rows, err);
}
