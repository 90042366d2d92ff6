/* SPDX-License-Identifier: Apache-2.0 */
/* after_run requests a boundary on all ranks. There, check_ranks computes a checksum of each variable, and
 * compare compares them, first by one checksum of all, then one by one at rank 0. */
#include <hooksess/hooks/replica_check.h>

#include "base/crc32c.h"
#include "base/text.h"
#include "hooks/make.h"
#include "hooks/ranks.h"

#include <stdio.h>
#include <string.h>

enum { DEFAULT_STEPS = 1000 };

typedef struct {
    hs__hook_base base;
    bool sends_values, due;
    hs_host_copy copy;
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

/* The checksums of all variables. */

/* Advances *index to the next variable, from *index on, that must be the same on all ranks. Returns false if no such
 * variable follows. Ranks may differ in their local variables. */
static bool find_variable(hs_backend backend, size_t *index, hs_variable *variable)
{
    hs_variable_slice slice;
    for (; hs_backend_variable(backend, *index, variable); ++*index)
        if (!(variable->flags & HS_VARIABLE_LOCAL) &&
            !(backend.ops->variable_slice && backend.ops->variable_slice(backend.self, *index, &slice)))
            return true;
    return false;
}

static hs_code read_value(replica_check *hook, hs_raw_session *session, size_t index, const char *name, hs_tensor *host,
                          hs_error *err)
{
    hs_tensor value;
    hs_code code = hs_raw_session_backend(session).ops->read_variable(hs_raw_session_handle(session), index, &value, err);
    if (!code && value.data)
        code = hs_tensor_host(&value, &hook->copy, host, err);
    else
        *host = value;
    if (code)
        hs_error_prefix(err, "variable '%s'", name);
    return code;
}

/* The comparison. */

typedef struct {
    size_t n;       /* checked variables: the same number on all ranks, which have compared their graphs */
    uint32_t *sums; /* of this rank */
    uint32_t *all;  /* at rank 0: of all ranks. NULL: on the other ranks */
    bool *differs;  /* one for each variable */
} comparison;

/* Result of the comparison on rank 0. */
typedef struct {
    int64_t variable; /* the first that differs */
    int64_t n;        /* variables that differ */
    int32_t rank;     /* the first in the minority */
    bool several;     /* ranks in the minority */
    char ranks[200];
} divergence;

static void receive(void *user, int32_t rank, hs_bytes bytes)
{
    comparison *c = user;
    memset(c->all + (size_t)rank * c->n, 0, c->n * sizeof *c->all);
    if (bytes.size && bytes.size <= c->n * sizeof *c->all)
        memcpy(c->all + (size_t)rank * c->n, bytes.data, bytes.size);
}

/* Returns the checksum that most ranks have. */
static uint32_t majority(const comparison *c, size_t variable, int32_t rank_count)
{
    int32_t most = 0;
    uint32_t best = 0;
    for (int32_t i = 0; i < rank_count; i++) {
        uint32_t sum = c->all[(size_t)i * c->n + variable];
        int32_t same = 0;
        for (int32_t k = 0; k < rank_count; k++)
            same += c->all[(size_t)k * c->n + variable] == sum;
        if (same > most) {
            most = same;
            best = sum;
        }
    }
    return best;
}

/* At rank 0: marks the variables that differ, and describes the first one. */
static void find_divergence(const replica_check *hook, comparison *c, int32_t rank_count, divergence *found)
{
    found->n = 0;
    for (size_t i = 0; i < c->n; i++) {
        c->differs[i] = false;
        for (int32_t k = 1; k < rank_count; k++)
            c->differs[i] |= c->all[(size_t)k * c->n + i] != c->all[i];
        if (!c->differs[i] || found->n++)
            continue;
        found->variable = (int64_t)i;
        found->rank = -1;
        found->ranks[0] = '\0';
        uint32_t sum = hook->sends_values ? c->all[i] : majority(c, i, rank_count);
        for (int32_t k = 0; k < rank_count; k++) {
            if (c->all[(size_t)k * c->n + i] == sum)
                continue;
            found->several = found->rank >= 0;
            if (!found->several)
                found->rank = k;
            hs__append_item(found->ranks, sizeof found->ranks, "%d", (int)k);
        }
    }
}

static hs_code compare(replica_check *hook, hs_raw_session *session, comparison *c, int64_t step, hs_error *err)
{
    const hs_backend backend = hs_raw_session_backend(session);
    divergence found;
    hs_variable variable;
    memset(&found, 0, sizeof found); /* also the padding, which is sent */
    hs_code code = hs_raw_session_gather(session, (hs_bytes){c->sums, c->n * sizeof *c->sums}, receive, c, err);
    if (code)
        return code;
    if (!hs_raw_session_rank(session))
        find_divergence(hook, c, hs_raw_session_rank_count(session), &found);
    if ((code = hs_raw_session_from_chief(session, &found, sizeof found, err)) || !found.n)
        return code;
    size_t at = 0;
    for (int64_t i = 0; find_variable(backend, &at, &variable) && i < found.variable; i++)
        at++;
    const char *name = variable.name, *plural = found.several ? "s" : "";
    if (!hook->sends_values) { /* all ranks fail with the error of the first rank in the minority */
        hs_error why;
        hs_error_set(&why, HS_DATA_LOSS, "variable '%s' differs on rank%s %s from the other ranks", name, plural,
                     found.ranks);
        hs_raw_session_refuse_saves(session, &why);
        return hs_raw_session_rank(session) == found.rank ? hs_error_set(err, why.code, "%s", why.message) : HS_OK;
    }
    code = hs_raw_session_from_chief(session, c->differs, c->n * sizeof *c->differs, err);
    at = 0;
    for (size_t i = 0; !code && i < c->n && find_variable(backend, &at, &variable); i++, at++) {
        if (c->differs[i] && !hs_raw_session_rank(session) && !c->sums[i])
            code = hs_error_set(err, HS_UNIMPLEMENTED,
                                "variable '%s' differs, but its value cannot be sent: it has no memory", variable.name);
        else if (c->differs[i])
            code = hs_raw_session_send_variable(session, variable.name, err);
    }
    char more[48] = "";
    if (found.n > 1)
        snprintf(more, sizeof more, " and %lld more", (long long)found.n - 1);
    if (!code && !hs_raw_session_rank(session))
        hs_log(hook->session_env, HS_LOG_WARNING,
               "step %lld: variable '%s'%s differed on rank%s %s; all ranks have the values of rank 0 now", (long long)step,
               name, more, plural, found.ranks);
    return code;
}

static hs_code check_ranks(replica_check *hook, hs_raw_session *session, int64_t step, hs_error *err)
{
    const hs_env *env = &hook->base.env;
    const hs_backend backend = hs_raw_session_backend(session);
    const bool gathers = !hs_raw_session_rank(session);
    comparison c = {0};
    hs_variable variable;
    hs_tensor host;
    hs_code code = HS_OK;
    for (size_t at = 0; find_variable(backend, &at, &variable); at++)
        c.n++;
    c.sums = hs_env_alloc(env, (c.n + 1) * sizeof *c.sums);
    c.differs = hs_env_alloc(env, (c.n + 1) * sizeof *c.differs);
    if (gathers)
        c.all = hs_env_alloc(env, (c.n + 1) * (size_t)hs_raw_session_rank_count(session) * sizeof *c.all);
    if (!c.sums || !c.differs || (gathers && !c.all))
        code = hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no memory for the checksums of %zu variables", c.n);
    size_t at = 0;
    for (size_t i = 0; !code && i < c.n && find_variable(backend, &at, &variable); i++, at++)
        if (!(code = read_value(hook, session, at, variable.name, &host, err)))
            c.sums[i] = host.data ? hs__crc32c_of_tensor(&host) : 0; /* 0: it has no memory */
    if (!code)
        code = compare(hook, session, &c, step, err);
    hs_env_free(env, c.sums);
    hs_env_free(env, c.all);
    hs_env_free(env, c.differs);
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

static void destroy(void *self)
{
    replica_check *hook = self;
    hs_host_copy_free(&hook->copy);
    hs__hook_free(hook);
}

static const hs_hook_ops ops = HS_INIT(hs_hook_ops, .name = "replica_check", .begin = begin, .after_run = after_run,
                                       .boundary = boundary, .destroy = destroy);

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
    hook->copy.env = &hook->base.env;
    hook->sends_values = options->on_divergence == HS_DIVERGENCE_SEND_VALUES;
    return hs__hook_when(hook, &when, err);
}

hs_hook hs_replica_check_hook(const hs_replica_check_options *given)
{
    return HS__HOOK_MAKE(&ops, replica_check, hs_replica_check_options, reserved_on_divergence, check, fill, given);
}
