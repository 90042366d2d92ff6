/* SPDX-License-Identifier: Apache-2.0 */
/* after_run requests a boundary on all ranks. There, check_ranks compares the variables (rank_variables.h). */
#include <hooksess/hooks/replica_check.h>

#include "checkpoint/rank_variables.h"
#include "hooks/make.h"

enum { DEFAULT_STEPS = 1000 };

typedef struct {
    hs__hook_base base;
    bool sends_values, due;
    const hs_env *session_env;
} replica_check;

static hs_code begin(void *self, hs_backend backend, hs_error *err)
{
    replica_check *hook = self;
    hook->session_env = hs_backend_env(backend);
    hook->due = false;
    if (!backend.ops->read_variable || (hook->sends_values && !backend.ops->write_variable))
        return hs_error_set(err, HS_UNIMPLEMENTED, "backend '%s' cannot %s variables", backend.ops->name,
                            backend.ops->read_variable ? "set" : "read");
    return hs_backend_check_global_step(backend, err);
}

static hs_code after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    replica_check *hook = self;
    (void)values, (void)err;
    hook->due = hs_raw_session_rank_count(hs_run_context_session(run)) > 1;
    if (hook->due)
        hs_run_context_request_boundary(run);
    return HS_OK;
}

/* Sends the values of rank 0 of the variables that differ. */
static hs_code send_values(hs_raw_session *session, const hs__rank_sums *sums, hs_error *err)
{
    hs_variable variable;
    hs_code code = hs_raw_session_from_chief(session, sums->differs, sums->n * sizeof *sums->differs, err);
    size_t at = 0;
    for (size_t i = 0; !code && hs__next_shared(session, &at, &variable); i++, at++) {
        if (sums->differs[i] && !hs_raw_session_rank(session) && !sums->mine[i])
            code = hs_error_set(err, HS_UNIMPLEMENTED,
                                "variable '%s' differs, but its value cannot be sent: it has no memory", variable.name);
        else if (sums->differs[i])
            code = hs_raw_session_send_variable(session, variable.name, err);
    }
    return code;
}

/* All ranks fail with the error of one rank: that which has failed, or the first in the minority. */
static hs_code check_ranks(const replica_check *hook, hs_raw_session *session, int64_t step, hs_error *err)
{
    hs__rank_sums sums;
    hs__divergence found;
    hs__rank_sums_init(&sums, &hook->base.env, session, HS__TOPIC_HOOK);
    hs__rank_sums_compute(&sums, session, NULL);
    hs_code code = hs__rank_sums_compare(&sums, session, hook->sends_values, "", &found, err);
    if (!code && found.n && hook->sends_values) {
        code = send_values(session, &sums, err);
        if (!code && !hs_raw_session_rank(session))
            hs_log(hook->session_env, HS_LOG_WARNING, "step %lld: %s; all ranks have the values of rank 0 now",
                   (long long)step, found.error.message);
    } else if (!code && found.error.code) {
        hs_raw_session_refuse_saves(session, &found.error);
        code = hs_raw_session_rank(session) == found.rank ? hs_error_set(err, found.error.code, "%s", found.error.message)
                                                          : HS_OK;
    }
    hs__rank_sums_free(&sums);
    return code;
}

static hs_code boundary(void *self, hs_run_context *run, hs_error *err)
{
    hs_raw_session *session = hs_run_context_session(run);
    replica_check *hook = self;
    bool due = hook->due;
    if (hs_run_context_boundary(run) != HS_BOUNDARY_RUN)
        return HS_OK;
    hook->due = false;
    hs_code code = hs_raw_session_any(session, due, &due, err);
    if (code || !due)
        return code;
    int64_t step = hs_run_context_global_step(run, err);
    return step < 0 ? err->code : check_ranks(hook, session, step, err);
}

static const hs_hook_ops ops =
    HS_INIT(hs_hook_ops, .name = "replica_check", .begin = begin, .after_run = after_run, .boundary = boundary,
            .destroy = hs__hook_free, .rank_identity = hs__hook_rank_identity);

static hs_code check(const void *given, hs_error *err)
{
    const hs_replica_check_options *options = given;
    if (options->on_divergence != HS_DIVERGENCE_FAIL && options->on_divergence != HS_DIVERGENCE_SEND_VALUES)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "on_divergence is %d; it must be HS_DIVERGENCE_FAIL or HS_DIVERGENCE_SEND_VALUES",
                            (int)options->on_divergence);
    return HS_OK;
}

static hs_code fill(void *self, const void *given, hs_error *err)
{
    replica_check *hook = self;
    const hs_replica_check_options *options = given;
    const hs__when_options when = {.steps = options->every_n_steps,
                                   .secs = options->every_n_secs,
                                   .when = options->when,
                                   .default_steps = DEFAULT_STEPS,
                                   .no_last = "the hook checks runs"};
    hook->base.flags = HS_HOOK_ALL_RANKS;
    hook->sends_values = options->on_divergence == HS_DIVERGENCE_SEND_VALUES;
    return hs__hook_when(hook, &when, err);
}

static const hs__rank_option same[] = {
    HS__RANK_OPTION(hs_replica_check_options, on_divergence),
    {0},
};

hs_hook hs_replica_check_hook(const hs_replica_check_options *given)
{
    return HS__HOOK_MAKE(&ops, replica_check, hs_replica_check_options, reserved_on_divergence, check, fill, same, given);
}
