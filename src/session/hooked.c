/* SPDX-License-Identifier: Apache-2.0 */
/* One run with its hooks. */
#include "session/session.h"

#include "base/cold.h"
#include "checkpoint/unclaimed_states.h"

#include <stdio.h>
#include <string.h>

hs_code hs__hook_failed(struct hs_session *session, const hs__hook *hook, const char *callback, hs_code code, hs_error *err)
{
    int64_t step;
    bool has_step = session->raw.handle && session->raw.ops.global_step &&
                    session->raw.ops.global_step(session->raw.handle, &step, NULL) == HS_OK;
    if (err->code == HS_OK || !err->message[0])
        hs_error_set(err, code, "it failed with %s", hs_code_name(code));
    err->code = code; /* what was returned counts, whatever was written */
    if (has_step)
        hs_error_prefix(err, "hook '%s', %s at step %lld", hook->rest->ops.name, callback, (long long)step);
    else
        hs_error_prefix(err, "hook '%s', %s", hook->rest->ops.name, callback);
    if (code != HS_STOP && !hook->rest->best_effort &&
        !session->failed_hook[0]) /* the others' failures are not what the session fails of */
        snprintf(session->failed_hook, sizeof session->failed_hook, "%s", hook->rest->ops.name);
    return code;
}

/* The run's, among the kinds that hooks want. */
static uint8_t kind_bit(const struct hs_session *session)
{
    return (uint8_t)(1 << session->context.kind);
}

static hs_code add_hook(struct hs_session *session, hs__hook *hook, hs__frame *frame, const hs_run_args *given,
                        hs_error *err)
{
    const hs_run_args *args;
    hs_code code = hs__take_args(&hook->rest->args, given, &args, err);
    return code ? code
                : hs__add_request(session, frame, HS__FIRST_HOOK + (size_t)(hook - session->hooks), args,
                                  hook->rest->ops.name, &hook->values.fragment, err);
}

/* A hook that returns HS_STOP ends the run and the loop, as if it had requested the stop. If a stop was requested from
 * outside, the hook only passes it on. */
static void stop_by_hook(struct hs_session *session, const hs__hook *hook)
{
    if (!(hs__stops(session) & HS__STOP_OUTSIDE))
        hs__stop_by_hook(session, hook->rest->ops.name, HS__STOP_HOOK_DONE);
}

/* A callback's failure is the run's, but for that of a hook of best effort. */
static hs_code failed(struct hs_session *session, hs__hook *hook, const char *callback, hs_code code, hs_error *err)
{
    code = hs__hook_failed(session, hook, callback, code, err);
    if (code == HS_STOP) {
        stop_by_hook(session, hook);
        return code;
    }
    return hook->rest->best_effort ? hs__mute(session, hook, callback, err) : code;
}

/* What a callback seldom leaves: a failure, an error that it has got over, a stop that it may have asked for, and the end
 * of its failing. */
HS__COLD static hs_code settle(struct hs_session *session, hs__hook *hook, const char *callback, hs_code code,
                               hs_error *err)
{
    if (code && (code = failed(session, hook, callback, code, err)))
        return code;
    if (err->code)
        hs__clear(err); /* it is not what fails next */
    if (hook->rest->in_a_row && hook->kinds)
        hs__works_again(session, hook, callback);
    if (session->context.stop)
        hs__stop_by_hook(session, hook->rest->ops.name, session->context.stop);
    return HS_OK;
}

/* Has it? In one look, as every hook passes here in every step. A hook that failed before may have ended its failing. */
static inline bool is_seldom(const struct hs_session *session, hs_code code, const hs_error *err)
{
    return (unsigned)code | (unsigned)err->code | (unsigned)session->context.stop | session->observed;
}

/* Is there more to do about callbacks of this run than to call them? */
static bool is_observed(const struct hs_session *session)
{
    return session->timing | hs__is_watched(session) | (session->n_failing > 0) | (session->n_slow > 0);
}

/* Before a callback that may be timed, and after it. */
static int64_t observe(struct hs_session *session, const hs__hook *hook)
{
    hs__does(session, hook);
    return session->timing || hook->slow > 0 ? hs_env_monotonic_ns(&session->env) : -1;
}

static void observed(struct hs_session *session, hs__hook *hook, const char *callback, int64_t began)
{
    if (began >= 0)
        hs__timed_callback(session, hook, callback, began, hook->slow > 0);
}

HS__COLD static hs_code observe_before(struct hs_session *session, hs__hook *hook, const hs_run_args **args, hs_error *err)
{
    int64_t began = observe(session, hook);
    hs_code code = hook->before_run(hook->self, &session->context, args, err);
    observed(session, hook, "before_run", began);
    return code;
}

HS__COLD static hs_code observe_after(struct hs_session *session, hs__hook *hook, hs_error *err)
{
    int64_t began = observe(session, hook);
    hs_code code = hook->after_run(hook->self, &session->context, &hook->values, err);
    observed(session, hook, "after_run", began);
    return code;
}

static hs_code call_before(struct hs_session *session, hs__frame *frame, hs_error *err)
{
    const uint8_t kind = kind_bit(session);
    for (hs__hook *hook = session->hooks, *end = hook + session->n_hooks; hook < end; hook++) {
        if (!(hook->before_kinds & kind))
            continue;
        const hs_run_args *args = NULL;
        hook->values.fragment = NULL;
        hs_code code = session->observed ? observe_before(session, hook, &args, err)
                                         : hook->before_run(hook->self, &session->context, &args, err);
        if (!code && args)
            code = add_hook(session, hook, frame, args, err);
        if (is_seldom(session, code, err) && (code = settle(session, hook, "before_run", code, err)))
            return code;
    }
    return HS_OK;
}

static hs_code call_after(struct hs_session *session, hs_error *err)
{
    const uint8_t kind = kind_bit(session);
    for (hs__hook *hook = session->hooks, *end = hook + session->n_hooks; hook < end; hook++) {
        if (!(hook->after_kinds & kind))
            continue;
        hs_code code = session->observed ? observe_after(session, hook, err)
                                         : hook->after_run(hook->self, &session->context, &hook->values, err);
        if (is_seldom(session, code, err) && (code = settle(session, hook, "after_run", code, err)))
            return code;
    }
    return HS_OK;
}

/* The context of boundaries that follow no run. */
static void begin_context(struct hs_session *session, const hs_run_args *args, hs_boundary boundary)
{
    static const hs_run_args nothing = HS_INIT(hs_run_args);
    hs_run_context *context = &session->context;
    context->session = session;
    context->args = args ? args : &nothing;
    context->kind = args ? args->kind : HS_RUN_TRAIN;
    context->boundary = boundary;
    context->after = boundary != 0;
    context->stop = HS__STOP_NONE;
    context->boundary_requested = false;
    context->has_step[0] = context->has_step[1] = context->has_now[0] = context->has_now[1] = false;
}

hs_code hs__call_boundaries(struct hs_session *session, hs_boundary which, hs_error *err)
{
    if (which == HS_BOUNDARY_RUN)
        session->context.boundary = which;
    else
        begin_context(session, NULL, which);
    hs_code first = hs__writer_cache_flush(&session->writers, hs__report_writer, session, err);
    hs_error error = {0};
    for (hs__hook *hook = session->hooks, *end = hook + session->n_hooks; hook < end; hook++) {
        if (!hook->rest->ops.boundary || !hook->kinds || (which == HS_BOUNDARY_RUN && !(hook->kinds & kind_bit(session))))
            continue;
        hs__does(session, hook);
        hs__clear(&error);
        int64_t began = hs_env_monotonic_ns(&session->env);
        hs_code code = hook->rest->ops.boundary(hook->self, &session->context, &error);
        hs__timed_callback(session, hook, "boundary", began, true);
        code = settle(session, hook, "boundary", code, &error);
        if (code && !(code == HS_STOP && which != HS_BOUNDARY_RUN)) { /* there is no run to end */
            if (!first)
                first = hs__error_copy(err, &error);
            if (which != HS_BOUNDARY_END) /* the last one comes to everybody */
                break;
        }
    }
    hs__does(session, NULL);
    session->context.boundary = 0;
    return first;
}

static hs_code run_backend(struct hs_session *session, hs__frame *frame, hs_error *err)
{
    session->in_backend = true;
    hs_code code = hs__frame_run(frame, &session->raw.ops, session->raw.handle, err);
    session->in_backend = false;
    session->context.after = true;
    return hs__settle(code, "the run", err);
}

static inline hs_code begin_hooked(struct hs_session *session, const hs_run_args *args, hs__frame **frame, hs_error *err)
{
    hs_code code = hs__begin_frame(session, 0, frame, err);
    if (code || (code = hs__add_request(session, *frame, HS__CALLER, args, "the caller", &session->values.fragment, err)))
        return code;
    session->values.frame = *frame;
    begin_context(session, args, 0);
    session->hooked_runs[args->kind]++;
    if (session->n_muted)
        hs__unmute(session);
    if (++session->hooked >= session->next_sample || session->timing)
        hs__begin_timing(session);
    session->observed = is_observed(session);
    session->level = 1; /* runs that callbacks make nest in this one */
    code = call_before(session, *frame, err);
    if (hs__is_watched(session))
        hs__does(session, NULL);
    if (code)
        session->level = 0;
    return code;
}

static inline hs_code end_hooked(struct hs_session *session, hs__frame *frame, hs_error *err)
{
    hs_code code = run_backend(session, frame, err);
    if (!code) {
        session->observed |= hs__is_watched(session); /* since it has begun */
        code = call_after(session, err);
        if (hs__is_watched(session))
            hs__does(session, NULL);
        /* now late providers had the first training run to be added */
        if (session->raw.unclaimed.unreported && session->context.kind == HS_RUN_TRAIN)
            hs__report_unclaimed(&session->raw);
    }
    if (!code && hs__agree(session, session->context.boundary_requested))
        code = hs__call_boundaries(session, HS_BOUNDARY_RUN, err);
    session->level = 0;
    return code;
}

hs_code hs__begin_hooked(struct hs_session *session, const hs_run_args *args, hs__frame **frame, hs_error *err)
{
    return begin_hooked(session, args, frame, err);
}

hs_code hs__end_hooked(struct hs_session *session, hs__frame *frame, hs_error *err)
{
    return end_hooked(session, frame, err);
}

hs_code hs__run_hooked(struct hs_session *session, const hs_run_args *args, const hs_run_values **values, hs_error *err)
{
    hs__frame *frame;
    bool watched = hs__is_watched(session);
    if (watched)
        hs__enter(session, HS_PHASE_STEP);
    hs_code code = begin_hooked(session, args, &frame, err);
    if (!code && !(code = end_hooked(session, frame, err)) && values)
        *values = &session->values;
    if (watched)
        hs__enter(session, HS_PHASE_DATA);
    return code;
}
