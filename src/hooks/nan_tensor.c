/* SPDX-License-Identifier: Apache-2.0 */
/* after_run checks the fetched tensor, and ends the training if it is not finite. */
#include <hooksess/hooks/nan_tensor.h>

#include "hooks/make.h"
#include "hooks/nonfinite.h"

#include <math.h>
#include <stdio.h>

typedef struct {
    hs__hook_base base;
    char *tensor;
    const char *names[2];
    bool stop, begins; /* begins: the next run is the first since the session was created */
    const hs_env *session_env;
} nan_tensor;

static hs_code begin(void *self, hs_backend backend, hs_error *err)
{
    nan_tensor *hook = self;
    hook->session_env = hs_backend_env(backend);
    return hs_backend_check_tensor(backend, hook->tensor, err);
}

static hs_code after_create_session(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    nan_tensor *hook = self;
    (void)coordinator, (void)err;
    hook->begins = hook->base.when.first;
    if (hook->begins) /* also in a resumed run */
        hs_raw_session_due_from(session, 0);
    return HS_OK;
}

/* Fast path: a loss is usually one number on the host, checked in every step. */
static bool is_finite_number(const hs_tensor *value)
{
    if (value->memory)
        return false;
    if (value->dtype == HS_FLOAT && value->bytes == sizeof(float))
        return isfinite(*(const float *)value->data);
    return value->dtype == HS_DOUBLE && value->bytes == sizeof(double) && isfinite(*(const double *)value->data);
}

static hs_code after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    nan_tensor *hook = self;
    const hs_tensor *value = hs_run_values_tensor(values, 0);
    hs_tensor checked;
    hs_nonfinite found;
    if (hook->begins)
        hs_raw_session_due_from(hs_run_context_session(run), HS_NEVER);
    hook->begins = false;
    if (is_finite_number(value))
        return HS_OK;
    if (value->dtype != HS_FLOAT && value->dtype != HS_DOUBLE && value->dtype != HS_HALF && value->dtype != HS_BFLOAT16 &&
        value->dtype != HS_COMPLEX64 && value->dtype != HS_COMPLEX128)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "tensor '%s' is of type %s, which cannot be NaN", hook->tensor,
                            hs_dtype_name(value->dtype));
    hs_code code = hs__find_nonfinite(values, 0, hook->tensor, hook->session_env, &checked, &found, err);
    if (code || found.first_index < 0)
        return code;

    char text[768], at[48] = "";
    int64_t step = hs_run_context_global_step(run, NULL);
    hs_error why;
    hs__describe_nonfinite(text, sizeof text, "tensor", hook->tensor, &checked, &found);
    hs_error_set(&why, HS_FAILED_PRECONDITION, "%s", text);
    hs_raw_session_refuse_saves(hs_run_context_session(run), &why);
    if (!hook->stop)
        return hs_error_set(err, why.code, "%s", why.message);
    if (step >= 0) /* a graph may have no global step */
        snprintf(at, sizeof at, "step %lld: ", (long long)step);
    hs_log(hook->session_env, HS_LOG_WARNING, "%s%s; stopping", at, why.message);
    hs_run_context_request_stop(run);
    return HS_OK;
}

static void destroy(void *self)
{
    nan_tensor *hook = self;
    hs_env_free(&hook->base.env, hook->tensor);
    hs__hook_free(hook);
}

static const hs_hook_ops ops =
    HS_INIT(hs_hook_ops, .name = "nan_tensor", .begin = begin, .after_create_session = after_create_session,
            .after_run = after_run, .destroy = destroy, .rank_identity = hs__hook_rank_identity);

static hs_code check(const void *given, hs_error *err)
{
    const hs_nan_tensor_options *options = given;
    if (!options->tensor || !*options->tensor)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "tensor is missing");
    if (options->on_nan != HS_NAN_FAIL && options->on_nan != HS_NAN_STOP)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "on_nan is %d; it must be HS_NAN_FAIL or HS_NAN_STOP",
                            (int)options->on_nan);
    return HS_OK;
}

static hs_code fill(void *self, const void *given, hs_error *err)
{
    nan_tensor *hook = self;
    const hs_nan_tensor_options *options = given;
    const hs__when_options when = {.secs = options->every_n_secs,
                                   .steps = options->every_n_steps,
                                   .when = options->when,
                                   .first = true,
                                   .counts_runs = true,
                                   .optional = true,
                                   .no_last = "the hook checks runs"};
    hs_code code = hs__hook_when(hook, &when, err);
    if (code)
        return code;
    hook->stop = options->on_nan == HS_NAN_STOP;
    if (!(hook->tensor = hs__hook_text(hook, options->tensor, err)))
        return HS_RESOURCE_EXHAUSTED;
    hook->names[0] = hook->tensor;
    hook->base.fetches = hook->names;
    return HS_OK;
}

static const hs__rank_option same[] = {
    HS__RANK_OPTION(hs_nan_tensor_options, on_nan),
    {0},
};

hs_hook hs_nan_tensor_hook(const hs_nan_tensor_options *given)
{
    return HS__HOOK_MAKE(&ops, nan_tensor, hs_nan_tensor_options, reserved_on_nan, check, fill, same, given);
}
