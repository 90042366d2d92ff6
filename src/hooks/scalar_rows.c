/* SPDX-License-Identifier: Apache-2.0 */
/* before_run opens the sink if the session was restored, and fetches the tensors. after_run makes a row of them and gives
 * it to the sink. The session decides what a failure of the sink means. */
#include "hooks/scalar_rows.h"

#include "base/env.h"
#include "session/services.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DEFAULT_STEPS = 100, SINK_NAME = 32, MOST_METRICS = 1 << 20 };

/* A state of version 0 begins with the position of the schedule, which the session saves now. */
enum { OLD_POSITION = 32 };

hs_code hs__scalar_rows_begin(void *self, hs_backend backend, hs_error *err)
{
    hs__scalar_rows *rows = self;
    hs_code code = hs_backend_check_global_step(backend, err);
    for (size_t i = 0; !code && i < rows->n_tensors; i++)
        code = hs_backend_check_tensor(backend, rows->tensors[i], err);
    rows->session_env = hs_backend_env(backend);
    rows->opened = rows->is_open = rows->full = false;
    memset(rows->seen, 0, rows->n_metrics * sizeof *rows->seen);
    return code;
}

/* The sink. */

/* If the first opening of the sink fails, the session fails. Later failures are the session's to decide about. */
static hs_code report_failure(hs__scalar_rows *rows, hs_code code, hs_error *err)
{
    hs__normalize_error(code, rows->sink.name, err);
    if (!code || !rows->opened)
        return code;
    hs_error_prefix(err, "cannot write rows");
    return hs_raw_session_report_result(rows->session, rows->sink.name, code, err);
}

/* Opens the sink, if it is not open or the session was restored since. */
static hs_code open_sink(hs__scalar_rows *rows, hs_error *err)
{
    const int64_t restores = hs_raw_session_restores(rows->session);
    if (restores != rows->restore_generation || !rows->has_begun) {
        if ((rows->begin_step = rows->step = hs_raw_session_global_step(rows->session, err)) < 0)
            return err->code;
        rows->begin_ns = hs_env_monotonic_ns(rows->session_env);
        rows->restore_generation = restores;
        rows->has_begun = true;
        rows->has_row = rows->is_open = false;
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
    rows->has_begun = false;
    return report_failure(rows, open_sink(rows, err), err);
}

/* Rows. */

bool hs__is_integer(hs_dtype dtype)
{
    return dtype == HS_INT8 || dtype == HS_INT16 || dtype == HS_INT32 || dtype == HS_INT64 || dtype == HS_UINT8 ||
           dtype == HS_UINT16 || dtype == HS_UINT32 || dtype == HS_UINT64 || dtype == HS_BOOL;
}

/* Reads the first number of a tensor in host memory. Returns false if it is not a single real number. */
static bool read_number(hs_scalar *to, const hs_tensor *value)
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
        hs_code code = value ? hs_run_values_host(values, i, &host, err) : HS_OK;
        if (code)
            return code;
        rows->scalars[i].step = rows->step;
        if (hs_raw_session_computed_at(rows->session, rows->tensors[i]) < rows->step) {
            rows->scalars[i].known = false;
            rows->scalars[i].value = (double)NAN;
            continue;
        }
        if (!value || (!read_number(&rows->scalars[i], &host) && !rows->for_display))
            return hs_error_set(err, HS_INVALID_ARGUMENT, "'%s' has more than one element; fetch, for example, its mean",
                                rows->tensors[i]);
    }
    return HS_OK;
}

/* Finds the metrics that were set since the last call. */
static void look_at_metrics(hs__scalar_rows *rows)
{
    for (size_t i = 0; i < rows->n_metrics; i++) {
        hs__seen_metric *seen = &rows->seen[i];
        double value;
        int64_t step;
        if (hs_raw_session_metric(rows->session, rows->metrics[i], &value, &step) &&
            (!seen->is_set || seen->step != step || memcmp(&seen->value, &value, sizeof value) != 0))
            *seen = (hs__seen_metric){.is_set = 1, .step = step, .value = value};
    }
}

static hs_scalar_row make_row(const hs__scalar_rows *rows, int64_t now_ns)
{
    return (hs_scalar_row){.size = sizeof(hs_scalar_row),
                           .step = rows->step,
                           .scalars = rows->scalars,
                           .unix_ns = hs_env_realtime_ns(rows->session_env),
                           .now_ns = now_ns,
                           .begin_step = rows->begin_step,
                           .begin_ns = rows->begin_ns};
}

static hs_code write_row(hs__scalar_rows *rows, const hs_run_values *values, int64_t now_ns, hs_error *err)
{
    hs_code code = read_tensors(rows, values, err);
    if (code)
        return code;
    look_at_metrics(rows);
    for (size_t i = 0; i < rows->n_metrics; i++) {
        const hs__seen_metric *seen = &rows->seen[i];
        hs_scalar *scalar = &rows->scalars[rows->n_tensors + i];
        scalar->known = seen->is_set && !seen->is_written;
        scalar->value = scalar->known ? seen->value : (double)NAN;
        scalar->step = seen->step;
    }
    const hs_scalar_row row = make_row(rows, now_ns);
    code = rows->sink.write(rows->sink_self, &row, err);
    rows->full = code == HS_STOP;
    if (code && !rows->full)
        return report_failure(rows, code, err);
    for (size_t i = 0; i < rows->n_metrics; i++)
        rows->seen[i].is_written = rows->seen[i].is_set;
    return hs_raw_session_report_result(rows->session, rows->sink.name, HS_OK, err); /* HS_STOP is not an error */
}

hs_code hs__scalar_rows_before(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    hs__scalar_rows *rows = self;
    (void)run;
    hs_code code = open_sink(rows, err);
    if (!code && !rows->full && rows->tensors)
        *args = &rows->args;
    return report_failure(rows, code, err);
}

/* Whether this step has computed a tensor of the row. */
static bool has_values(const hs__scalar_rows *rows)
{
    bool found = rows->n_metrics || !rows->n_tensors;
    for (size_t i = 0; !found && i < rows->n_tensors; i++)
        found = hs_raw_session_computed_at(rows->session, rows->tensors[i]) >= rows->step;
    return found;
}

hs_code hs__scalar_rows_after(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    hs__scalar_rows *rows = self;
    if (!rows->is_open || rows->full)
        return HS_OK;
    const int64_t before = rows->step, now_ns = hs_run_context_now(run);
    if ((rows->step = hs_run_context_global_step(run, err)) < 0)
        return err->code;
    if (rows->step < before) {
        rows->begin_step = rows->step;
        rows->begin_ns = now_ns;
    }
    if (!has_values(rows))
        return HS_OK;
    rows->has_row = true;
    return write_row(rows, values, now_ns, err);
}

static hs_code flush(hs__scalar_rows *rows, hs_error *err)
{
    hs_code code = open_sink(rows, err);
    if (!code && rows->sink.flush)
        code = rows->sink.flush(rows->sink_self, err);
    return report_failure(rows, code, err);
}

hs_code hs__scalar_rows_end(void *self, hs_raw_session *session, hs_error *err)
{
    hs__scalar_rows *rows = self;
    hs_code code = report_failure(rows, open_sink(rows, err), err);
    if (code || !rows->is_open)
        return code;
    hs_scalar_row row = make_row(rows, hs_env_monotonic_ns(rows->session_env));
    row.step = hs_raw_session_global_step(session, err);
    row.scalars += rows->n_tensors + rows->n_metrics; /* the end of the list */
    if (row.step < 0)
        return err->code;
    const bool has_trained = rows->has_row || row.step != rows->begin_step;
    for (size_t i = 0; has_trained && i < rows->n_metrics; i++)
        if (!rows->seen[i].is_set)
            hs__raw_session_warn_of_unset_metric(session, rows->sink.name, rows->metrics[i]);
    if (rows->sink.end && has_trained && (code = report_failure(rows, rows->sink.end(rows->sink_self, &row, err), err)))
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

/* State: the metrics that no row has, and the state of the sink, after its name. */

hs_code hs__scalar_rows_save(void *self, hs_state_writer *out, hs_error *err)
{
    hs__scalar_rows *rows = self;
    char name[SINK_NAME] = {0};
    const int64_t n = (int64_t)rows->n_metrics;
    hs_code code = rows->session ? flush(rows, err) : HS_OK;
    if (code)
        return code;
    if (rows->session)
        look_at_metrics(rows);
    snprintf(name, sizeof name, "%s", rows->sink.name);
    if ((code = hs_state_writer_write(out, &n, sizeof n, err)) ||
        (code = hs_state_writer_write(out, rows->seen, rows->n_metrics * sizeof *rows->seen, err)) ||
        (code = hs_state_writer_write(out, name, sizeof name, err)))
        return code;
    return rows->sink.save_state ? rows->sink.save_state(rows->sink_self, out, err) : HS_OK;
}

/* If the program has changed its hooks, the state of other metrics and of another sink is skipped. */
hs_code hs__scalar_rows_load(void *self, hs_state_reader *in, hs_error *err)
{
    hs__scalar_rows *rows = self;
    char name[SINK_NAME], rest[SINK_NAME], position[OLD_POSITION];
    int64_t n;
    hs_code code = hs_state_reader_version(in) == 0 ? hs_state_reader_read(in, position, sizeof position, err) : HS_OK;
    if (code || (code = hs_state_reader_read(in, &n, sizeof n, err)))
        return code;
    if (n < 0 || n > MOST_METRICS)
        return hs_error_set(err, HS_DATA_LOSS, "invalid count: %lld metrics", (long long)n);
    memset(rows->seen, 0, rows->n_metrics * sizeof *rows->seen);
    for (int64_t i = 0; !code && i < n; i++) {
        hs__seen_metric seen;
        code = hs_state_reader_read(in, &seen, sizeof seen, err);
        if (!code && n == (int64_t)rows->n_metrics)
            rows->seen[i] = seen;
    }
    if (!code)
        code = hs_state_reader_read(in, name, sizeof name, err);
    if (!code && strncmp(name, rows->sink.name, sizeof name - 1) == 0 && rows->sink.load_state)
        return rows->sink.load_state(rows->sink_self, in, err);
    for (size_t left; !code && (left = hs_state_reader_remaining(in)) > 0;)
        code = hs_state_reader_read(in, rest, left < sizeof rest ? left : sizeof rest, err);
    return code;
}

void hs__scalar_rows_destroy(void *self)
{
    hs__scalar_rows *rows = self;
    const hs_env *env = &rows->base.env;
    if (rows->sink.destroy)
        rows->sink.destroy(rows->sink_self);
    hs_env_free(env, (void *)rows->labels);
    hs_env_free(env, (void *)rows->tensors);
    hs_env_free(env, (void *)rows->metrics);
    hs_env_free(env, rows->seen);
    hs_env_free(env, rows->scalars);
    hs__hook_free(rows);
}

/* The constructor. */

hs_code hs__scalar_rows_init(hs__scalar_rows *rows, const hs__scalar_rows_options *options, hs_error *err)
{
    const hs_env *env = &rows->base.env;
    hs__when_options when = options->when;
    when.default_steps = DEFAULT_STEPS;
    when.first = true;
    hs_code code = HS_STRUCT_TAKE(hs_scalar_sink_ops, destroy, &rows->sink, options->sink.ops, err);
    rows->sink_self = options->sink.self;
    if (!code && (!rows->sink.name || !rows->sink.write))
        code = hs_error_set(err, HS_INVALID_ARGUMENT, "the sink has no %s", rows->sink.name ? "write" : "name");
    if (code || (code = hs__hook_when(rows, &when, err)))
        return code;
    rows->for_display = options->for_display;
    if (rows->base.when.every_n_secs != 0 && !rows->for_display)
        rows->base.flags |= HS_HOOK_STATE_VARIES; /* the clock decides which rows are written */

    const size_t n_labels = hs__names_count(options->labels);
    rows->n_tensors = hs__names_count(options->tensors);
    rows->n_metrics = hs__names_count(options->metrics);
    if (!rows->n_tensors && !rows->n_metrics && !rows->for_display)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "neither tensors nor metrics is given");
    if (options->labels && n_labels != rows->n_tensors)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%zu labels are given for %zu tensors", n_labels, rows->n_tensors);
    if ((rows->n_tensors && !(rows->tensors = hs__hook_names(rows, options->tensors, err))) ||
        (n_labels && !(rows->labels = hs__hook_names(rows, options->labels, err))) ||
        (rows->n_metrics && !(rows->metrics = hs__hook_names(rows, options->metrics, err))))
        return HS_RESOURCE_EXHAUSTED;
    rows->args = (hs_run_args)HS_INIT(hs_run_args, .names = rows->tensors);

    const size_t n = rows->n_tensors + rows->n_metrics;
    rows->seen = hs__alloc(env, rows->n_metrics + 1, sizeof *rows->seen);
    rows->scalars = hs__alloc(env, n + 1, sizeof *rows->scalars);
    if (!rows->seen || !rows->scalars)
        return hs__no_memory(err, n * sizeof *rows->scalars, "a row");
    for (size_t i = 0; i < rows->n_tensors; i++)
        rows->scalars[i].name = rows->labels ? rows->labels[i] : rows->tensors[i];
    for (size_t i = 0; i < rows->n_metrics; i++)
        rows->scalars[rows->n_tensors + i] = (hs_scalar){.name = rows->metrics[i], .dtype = HS_DOUBLE};
    return HS_OK;
}
