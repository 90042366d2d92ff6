/* SPDX-License-Identifier: Apache-2.0 */
/* after_run writes a line of the fetched values. */
#include <hooksess/hooks/logging_tensor.h>

#include "base/device.h"
#include "base/text.h"
#include "base/trigger.h"
#include "hooks/make.h"
#include "hooks/ranks.h"
#include "session/services.h"

#include <stdio.h>

enum { LINE = 1900, SHOWN_ELEMENTS = 16 };

typedef struct {
    hs__hook_base base;
    const char *const *tensors, *const *labels;
    hs_logging_format_fn formatter;
    void *user;
    bool at_end, has_step;
    int64_t logged_ns; /* when the last line was made, or the session */
    const hs_env *session_env;
    int32_t rank;
} logging_tensor;

static hs_code begin(void *self, hs_backend backend, hs_error *err)
{
    logging_tensor *hook = self;
    hs_code code = HS_OK;
    hook->session_env = hs_backend_env(backend);
    hook->has_step = hs_backend_global_step_name(backend) != NULL;
    for (size_t i = 0; !code && hook->tensors[i]; i++)
        code = hs_backend_check_tensor(backend, hook->tensors[i], err);
    return code;
}

static hs_code after_create_session(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    logging_tensor *hook = self;
    (void)coordinator, (void)err;
    hook->rank = hs_raw_session_rank(session);
    if (!hs__trigger_is_set(&hook->base.when)) /* a line at the end only */
        hs_raw_session_due_from(session, HS_NEVER);
    hook->logged_ns = hs_env_monotonic_ns(hook->session_env);
    return HS_OK;
}

/* Sets *host to the value, or to the elements that are shown of a large one on a device, which are copied to `elements`. */
static hs_code read_shown(const hs_run_values *values, size_t index, double elements[SHOWN_ELEMENTS], hs_tensor *host)
{
    const hs_tensor *value = hs_run_values_tensor(values, index);
    if (!value->memory || value->bytes <= HS__SHARED_COPY)
        return hs_run_values_host(values, index, host, NULL);
    hs_tensor shown = hs_tensor_of(value->dtype, HS_SHAPE(SHOWN_ELEMENTS), value->data);
    *host = shown;
    host->data = elements;
    shown.memory = value->memory;
    return hs__tensor_to_host(NULL, &shown, elements, NULL);
}

/* Tensors that are not real numbers are shown by type and shape. */
static void append_value(char line[LINE], const hs_run_values *values, size_t index)
{
    const hs_tensor *value = hs_run_values_tensor(values, index);
    double elements[SHOWN_ELEMENTS]; /* no type is larger */
    hs_tensor host;
    size_t size = hs_dtype_size(value->dtype), n = size ? value->bytes / size : 0;
    char shape[HS_SHAPE_TEXT_SIZE];
    hs_shape of = hs_tensor_shape(value);
    if (value->dtype == HS_STRING || value->dtype == HS_COMPLEX64 || value->dtype == HS_COMPLEX128 ||
        read_shown(values, index, elements, &host)) {
        hs__append(line, LINE, "%s %s", hs_dtype_name(value->dtype), hs_shape_text(&of, shape, sizeof shape));
        return;
    }
    const char *open = value->rank ? "[" : "", *close = value->rank ? n > SHOWN_ELEMENTS ? " ...]" : "]" : "";
    hs__append(line, LINE, "%s", open);
    for (size_t i = 0; i < n && i < SHOWN_ELEMENTS; i++)
        hs__append(line, LINE, i ? " %.9g" : "%.9g", hs_tensor_number(&host, i));
    hs__append(line, LINE, "%s", close);
}

/* step -1: the graph has no global step. */
static bool is_computed(const logging_tensor *hook, hs_raw_session *session, size_t tensor, int64_t step)
{
    return hs_raw_session_computed_at(session, hook->tensors[tensor]) >= (step < 0 ? 0 : step);
}

static bool all_are_computed(const logging_tensor *hook, hs_raw_session *session, int64_t step)
{
    bool all = true;
    for (size_t i = 0; hook->tensors[i]; i++)
        all &= is_computed(hook, session, i, step);
    return all;
}

/* step     -1: the graph has no global step
 * elapsed  seconds since the last line. NULL in the first line */
static void log_values(const logging_tensor *hook, hs_raw_session *session, const hs_run_values *values, int64_t step,
                       const double *elapsed)
{
    char line[LINE] = "", secs[HS__NUMBER_TEXT];
    if (hook->formatter && !all_are_computed(hook, session, step))
        return;
    if (hook->formatter) {
        hook->formatter(hook->user, values, line, sizeof line);
        hs_log(hook->session_env, HS_LOG_INFO, "%s", line);
        return;
    }
    if (step >= 0)
        snprintf(line, sizeof line, "step %lld", (long long)step);
    if (hook->rank)
        hs__append(line, sizeof line, step >= 0 ? ", rank %d" : "rank %d", (int)hook->rank);
    if (*line)
        hs__append(line, sizeof line, ": ");
    for (size_t i = 0; hook->labels[i]; i++) {
        hs__append(line, sizeof line, "%s%s = ", i ? ", " : "", hook->labels[i]);
        if (!is_computed(hook, session, i, step))
            hs__append(line, sizeof line, "not computed in this step");
        else
            append_value(line, values, i);
    }
    if (elapsed)
        hs_log(hook->session_env, HS_LOG_INFO, "%s (%s)", line, hs__secs_text(secs, *elapsed));
    else
        hs_log(hook->session_env, HS_LOG_INFO, "%s", line);
}

static hs_code after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    logging_tensor *hook = self;
    const int64_t step = hook->has_step ? hs_run_context_global_step(run, err) : -1, now = hs_run_context_now(run);
    if (hook->has_step && step < 0)
        return err->code;
    const double elapsed = (double)(now - hook->logged_ns) * 1e-9;
    hs_raw_session *session = hs_run_context_session(run);
    log_values(hook, session, values, step, hs__raw_session_interval_has_begun(session) ? &elapsed : NULL);
    hook->logged_ns = now;
    return HS_OK;
}

static hs_code end(void *self, hs_raw_session *session, hs_error *err)
{
    logging_tensor *hook = self;
    const hs_run_values *values;
    if (!hook->at_end)
        return HS_OK;
    hs_code code = hs_raw_session_run(session, HS_RUN_ARGS(.names = hook->tensors), &values, err);
    if (!code)
        log_values(hook, session, values, hook->has_step ? hs_raw_session_global_step(session, NULL) : -1, NULL);
    return code;
}

static void destroy(void *self)
{
    logging_tensor *hook = self;
    if (hook->labels != hook->tensors)
        hs_env_free(&hook->base.env, (void *)hook->labels);
    hs_env_free(&hook->base.env, (void *)hook->tensors);
    hs__hook_free(hook);
}

static const hs_hook_ops ops =
    HS_INIT(hs_hook_ops, .name = "logging_tensor", .begin = begin, .after_create_session = after_create_session,
            .after_run = after_run, .end = end, .destroy = destroy);

static hs_code check(const void *given, hs_error *err)
{
    const hs_logging_tensor_options *options = given;
    size_t tensors = 0, labels = 0;
    while (options->tensors && options->tensors[tensors])
        tensors++;
    while (options->labels && options->labels[labels])
        labels++;
    if (!tensors)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "tensors is empty");
    if (options->labels && labels != tensors)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%zu labels are given for %zu tensors", labels, tensors);
    if (!options->every_n_steps && options->every_n_secs == 0 && !hs__trigger_is_set(&options->when) && !options->at_end)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "none of every_n_steps, every_n_secs, when and at_end is given; give at least one");
    return HS_OK;
}

static hs_code fill(void *self, const void *given, hs_error *err)
{
    logging_tensor *hook = self;
    const hs_logging_tensor_options *options = given;
    hook->formatter = options->formatter;
    hook->user = options->user;
    hook->at_end = options->at_end;
    hook->base.flags = hs__writer_flags(options->every_rank);
    const hs__when_options when = {.secs = options->every_n_secs,
                                   .steps = options->every_n_steps,
                                   .when = options->when,
                                   .first = true,
                                   .counts_runs = true,
                                   .optional = options->at_end};
    hs_code code = hs__hook_when(hook, &when, err);
    if (code)
        return code;
    hook->base.when.last &= !hook->at_end; /* end() makes the line in any case */
    hook->tensors = hook->labels = hs__hook_names(hook, options->tensors, err);
    if (hook->tensors && options->labels)
        hook->labels = hs__hook_names(hook, options->labels, err);
    hook->base.fetches = hook->tensors;
    return hook->tensors && hook->labels ? HS_OK : HS_RESOURCE_EXHAUSTED;
}

hs_hook hs_logging_tensor_hook(const hs_logging_tensor_options *given)
{
    return HS__HOOK_MAKE(&ops, logging_tensor, hs_logging_tensor_options, user, check, fill, NULL, given);
}
