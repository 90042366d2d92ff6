/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/finite_inspect.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Text that is appended to, and cut if it is too long. */
typedef struct {
    char *to;
    size_t bytes, used;
} text;

HS_PRINTF(2, 3) static void append(text *t, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(t->to + t->used, t->bytes - t->used, format, arguments);
    va_end(arguments);
    if (length > 0)
        t->used += (size_t)length < t->bytes - t->used ? (size_t)length : t->bytes - t->used - 1;
}

int hs__watched_stage(const hs__watched *watched, size_t index)
{
    int stage = 0;
    while (index >= watched->ends[stage])
        stage++;
    return stage;
}

const char *hs__stage_name(int stage)
{
    static const char *const names[HS__STAGES] = {"inputs",    "activations", "losses",
                                                  "gradients", "parameters",  "dump_also"};
    return names[stage];
}

static bool is_watchable(hs_dtype dtype)
{
    return dtype == HS_FLOAT || dtype == HS_DOUBLE || dtype == HS_HALF || dtype == HS_BFLOAT16;
}

static hs_code refuse_type(const char *name, hs_dtype dtype, hs_error *err)
{
    return hs_error_set(err, HS_INVALID_ARGUMENT,
                        "tensor '%s' is of type %s; only float, double, half and bfloat16 can be watched; to dump it, list "
                        "it in dump_also",
                        name, hs_dtype_name(dtype));
}

hs_code hs__watched_check(const hs__watched *watched, hs_backend backend, hs_error *err)
{
    hs_variable variable;
    for (size_t i = 0; hs_backend_variable(backend, i, &variable); i++)
        for (size_t k = 0; k < watched->ends[HS__PARAMETERS] && !is_watchable(variable.dtype); k++)
            if (strcmp(watched->names[k], variable.name) == 0)
                return refuse_type(variable.name, variable.dtype, err);
    return HS_OK;
}

static void append_index(text *t, const hs_tensor *value, int64_t index)
{
    int64_t at[HS_MAX_RANK], rest = index;
    for (int i = value->rank - 1; i >= 0; i--) {
        at[i] = rest % value->dims[i];
        rest /= value->dims[i];
    }
    append(t, "[");
    for (int i = 0; i < value->rank; i++)
        append(t, i ? ",%lld" : "%lld", (long long)at[i]);
    append(t, "] (element %lld)", (long long)index);
}

static void append_range(text *t, const hs_tensor *host)
{
    double least = INFINITY, most = -INFINITY;
    size_t n = host->bytes / hs_dtype_size(host->dtype);
    for (size_t i = 0; i < n; i++) {
        double number = hs_tensor_number(host, i);
        if (!isfinite(number))
            continue;
        least = number < least ? number : least;
        most = number > most ? number : most;
    }
    if (least <= most)
        append(t, ", the other elements from %.9g to %.9g", least, most);
}

static void describe_nonfinite(hs__finding *found, const hs__watched *watched, size_t index, const hs_tensor *host,
                               const hs_nonfinite *bad)
{
    static const char *const stages[HS__STAGES] = {"input", "activation", "loss", "gradient", "parameter", ""};
    char shape[HS_SHAPE_TEXT_SIZE];
    hs_shape of = hs_tensor_shape(host);
    text t = {found->first, sizeof found->first, 0};
    append(&t, "%s '%.256s', %s %s, is not finite: first at ", stages[found->first_stage], watched->names[index],
           hs_dtype_name(host->dtype), hs_shape_text(&of, shape, sizeof shape));
    append_index(&t, host, bad->first_index);
    append(&t, "; %llu NaN, %llu +infinity, %llu -infinity of %zu", (unsigned long long)bad->nan,
           (unsigned long long)bad->positive_infinity, (unsigned long long)bad->negative_infinity,
           host->bytes / hs_dtype_size(host->dtype));
    append_range(&t, host);
}

/* Counts a bad tensor. Returns true if it is the first one, which the caller describes. */
static bool count_offender(hs__finding *found, const hs__watched *watched, size_t index, hs_run_context *run)
{
    int stage = hs__watched_stage(watched, index);
    size_t used = strlen(found->further);
    text further = {found->further, sizeof found->further, used};
    found->has_bad_parameter |= stage == HS__PARAMETERS;
    if (found->offenders++) {
        append(&further, "%s%s/%s", used ? ", " : "", hs__stage_name(stage), watched->names[index]);
        return false;
    }
    found->first_stage = stage;
    found->step = hs_run_context_global_step(run, NULL);
    return true;
}

static hs_code check_spike(const hs__watched *watched, size_t index, hs__spikes *spikes, hs_run_context *run,
                           const hs_tensor *host, hs__finding *found, hs_error *err)
{
    char shape[HS_SHAPE_TEXT_SIZE];
    double mean, zscore, value = hs_tensor_number(host, 0);
    hs_shape of = hs_tensor_shape(host);
    if (hs_shape_elements(&of) != 1)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "loss '%s' has shape %s; it must have one element",
                            watched->names[index], hs_shape_text(&of, shape, sizeof shape));
    if (!hs__spikes_check(spikes, index - watched->ends[HS__LOSSES - 1], value, &mean, &zscore) ||
        !count_offender(found, watched, index, run))
        return HS_OK;
    text t = {found->first, sizeof found->first, 0};
    append(&t, "loss '%.256s' is %.9g, which is %.3g standard deviations above %.9g, the mean of the last %lld values",
           watched->names[index], value, zscore, mean, (long long)spikes->window);
    return HS_OK;
}

hs_code hs__inspect(const hs__watched *watched, hs__spikes *spikes, hs_run_context *run, const hs_run_values *values,
                    hs_host_copy *copy, hs__finding *found, hs_error *err)
{
    found->offenders = 0;
    found->has_bad_parameter = false;
    found->further[0] = '\0';
    for (size_t i = 0; i < watched->ends[HS__PARAMETERS]; i++) {
        const hs_tensor *value = hs_run_values_tensor(values, i);
        hs_tensor host;
        if (!is_watchable(value->dtype))
            return refuse_type(watched->names[i], value->dtype, err);
        hs_code code = hs_tensor_host(value, copy, &host, err);
        if (code) {
            hs_error_prefix(err, "tensor '%s'", watched->names[i]);
            return code;
        }
        hs_nonfinite bad = hs_tensor_nonfinite(&host);
        if (bad.first_index >= 0 && count_offender(found, watched, i, run))
            describe_nonfinite(found, watched, i, &host, &bad);
        if (hs__watched_stage(watched, i) == HS__LOSSES && (code = check_spike(watched, i, spikes, run, &host, found, err)))
            return code;
    }
    return HS_OK;
}
