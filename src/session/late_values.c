/* SPDX-License-Identifier: Apache-2.0 */
/* Late hooks (HS_HOOK_LATE). hs__late_after_run stands for their after_run. It begins to copy the values of this run to the
 * host, and lets the device's later work wait for that. In the next run in which the hook is due, it calls the hook's own
 * after_run with them. */
#include "session/session.h"

#include "base/device.h"
#include "base/error.h"

#include <string.h>

/* The values of a run that are not delivered yet. */
typedef struct hs__late_values {
    hs__run_plan plan; /* of the hook's request. Its values are the copies on the host */
    int64_t step;      /* after the run; -1: the graph has no global step */
    int64_t now_ns;
    bool complete;               /* the copies have ended */
    size_t n;                    /* of copies, by fetch of the plan */
    const hs_memory *memories[]; /* of the values; NULL: of the host */
} hs__late_values;

/* The late requester of a hook, which keeps the request of its late values. */
static hs__request **late_request(const struct hs_session *session, const hs__hook *hook)
{
    return &session->requests.last[HS__FIRST_HOOK + session->n_hooks + (size_t)(hook - session->hooks)];
}

static hs_code wait(const hs__late_values *late, size_t at, hs_error *err)
{
    const hs_memory *memory = late->memories[at];
    const void *host = late->plan.call.values[at].data;
    return memory && host ? hs__normalize_error(memory->wait(memory->user, host, err), "hs_memory.wait", err) : HS_OK;
}

static void release(hs__late_values *late)
{
    const hs_env *env = late->plan.env;
    for (size_t i = 0; i < late->n; i++) {
        const hs_memory *memory = late->memories[i];
        void *host = late->plan.call.values[i].data;
        if (!late->complete)
            wait(late, i, NULL);
        if (host && memory && memory->allocate_host)
            memory->free_host(memory->user, host);
        else
            hs__free(env, host);
    }
    hs__run_plan_free(&late->plan);
    hs__free(env, late);
}

/* Sets the next value to a copy of `from` on the host, which is complete after `wait`. */
static hs_code begin_copy(hs__late_values *late, const hs_tensor *from, hs_error *err)
{
    const hs_memory *memory = from->memory;
    const size_t at = late->n++;
    hs_tensor *to = &late->plan.call.values[at];
    hs_code code = HS_OK;
    *to = *from;
    to->memory = NULL;
    to->data = NULL;
    late->memories[at] = memory;
    if (!from->bytes)
        return HS_OK;
    if (memory && memory->allocate_host) /* always the same size, so that it can be used again */
        code = memory->allocate_host(memory->user, HS__SHARED_COPY, &to->data, err);
    else if (!(to->data = hs__alloc(late->plan.env, 1, from->bytes)))
        code = hs__no_memory(err, from->bytes, "a copy of a value");
    if (!code && !memory)
        memcpy(to->data, from->data, from->bytes);
    if (code || !memory || (code = hs__device_mark(memory, err)))
        return code;
    code = memory->to_host(memory->user, to->data, from->data, from->bytes, err);
    memory->hold(memory->user);
    return code;
}

/* Returns true if some of the hook's values are on a device, and all can be copied: they are of this step, small, and no
 * strings. */
static bool can_be_late(struct hs_session *session, const hs__hook *hook)
{
    const int64_t step = hs_run_context_global_step(&session->context, NULL);
    bool on_device = false;
    for (size_t i = 0; i < hs_run_values_count(&hook->values); i++) {
        const hs_tensor *value = hs_run_values_tensor(&hook->values, i);
        const char *name = session->requests.nodes[hook->values.request->leaves[i]].name;
        if (value && (value->bytes > HS__SHARED_COPY || value->dtype == HS_STRING ||
                      (value->memory && (!value->memory->wait || !value->memory->hold)) ||
                      hs_raw_session_computed_at(&session->raw, name) < (step < 0 ? 0 : step)))
            return false;
        on_device |= value && value->memory && value->bytes;
    }
    return on_device;
}

/* Returns true if the hook gets the values of this run later. False: they cannot be copied meanwhile. */
static bool postpone(struct hs_session *session, const hs__hook *hook)
{
    static const hs_tensor nothing; /* the value of an op */
    const hs__request *request = hook->values.request;
    hs__late_values *late = can_be_late(session, hook)
                                ? hs__alloc(&session->env, 1, sizeof *late + request->n_leaves * sizeof *late->memories)
                                : NULL;
    if (!late)
        return false;
    late->plan.env = &session->env;
    late->step = hs_run_context_global_step(&session->context, NULL);
    late->now_ns = hs_run_context_now(&session->context);
    hs__run_plan_begin(&late->plan, 1);
    hs_code code = hs__run_plan_add(&late->plan, &session->requests, request, NULL, "", NULL);
    for (size_t i = 0; !code && i < request->n_leaves; i++) {
        const hs_tensor *value = hs_run_values_tensor(&hook->values, i);
        if (late->plan.slots[request->leaves[i]].fetch == late->n) /* its first leaf */
            code = begin_copy(late, value ? value : &nothing, NULL);
    }
    if (code) {
        release(late);
        return false;
    }
    hook->cold->late = late;
    return true;
}

/* Calls the hook's after_run with the values, as in their run, and frees them. NULL: does nothing. */
static hs_code deliver(struct hs_session *session, const hs__hook *hook, hs__late_values *late, const hs__request *request,
                       hs_error *err)
{
    hs_run_context *run = &session->context;
    const hs_run_context now = *run;
    hs_code code = HS_OK;
    if (!late)
        return HS_OK;
    for (size_t i = 0; !code && i < late->n; i++)
        code = wait(late, i, err);
    late->complete = !code;
    const hs_run_values values = {.plan = &late->plan, .request = request};
    run->kind = HS_RUN_TRAIN;
    run->step[1] = late->step;
    run->has_step[1] = late->step >= 0;
    run->now[1] = late->now_ns;
    run->has_now[1] = true;
    run->moves = session->raw.moves;
    run->boundary = (hs_boundary)0;
    if (!code)
        code = hook->cold->ops.after_run(hook->self, run, &values, err);
    if (code && late->step >= 0 && err->message[0])
        hs_error_prefix(err, "values of step %lld", (long long)late->step);
    run->kind = now.kind;
    run->has_step[1] = false; /* to be read again */
    run->now[1] = now.now[1];
    run->has_now[1] = now.has_now[1];
    run->boundary = now.boundary;
    release(late);
    return code;
}

/* Before a delivery: the hook's callback may restore, which discards what the hooks have. */
static hs__late_values *take(const hs__hook *hook)
{
    hs__late_values *late = hook->cold->late;
    hook->cold->late = NULL;
    return late;
}

hs_code hs__late_deliver(struct hs_session *session, const hs__hook *hook, hs_error *err)
{
    return deliver(session, hook, take(hook), *late_request(session, hook), err);
}

hs_code hs__late_after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    struct hs_session *session = run->session;
    const hs__hook *hook = session->callee;
    if (run->kind != HS_RUN_TRAIN)
        return hook->cold->ops.after_run(self, run, values, err);
    hs__late_values *before = take(hook);
    const bool later = postpone(session, hook);
    const hs_code code = deliver(session, hook, before, *late_request(session, hook), err);
    if (later)
        *late_request(session, hook) = session->requests.last[HS__FIRST_HOOK + (size_t)(hook - session->hooks)];
    if (later || (code && code != HS_STOP))
        return code;
    const hs_code now = hook->cold->ops.after_run(self, run, values, err);
    return now ? now : code;
}

void hs__late_discard(struct hs_session *session)
{
    for (size_t i = 0; i < session->n_hooks; i++) {
        if (session->cold[i].late)
            release(session->cold[i].late);
        session->cold[i].late = NULL;
    }
}
