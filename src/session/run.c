/* SPDX-License-Identifier: Apache-2.0 */
/* Runs with hooks. A run is begin_hooked, run_and_call_after and end_hooked. hs_session_run_args makes all three.
 * hs_step_begin makes the first, and hs_step_end the others, so that the caller computes the step between them. Both
 * recover a lost session (hs__recover), record the result, and reach the boundaries of a stop (hs__check_stop). */
#include "session/session.h"

#include "base/cold.h"

#include <stdio.h>

void hs__hook_failed(struct hs_session *session, const hs__hook *hook, const char *callback, hs_code code, hs_error *err)
{
    int64_t step;
    bool has_step = session->raw.handle && session->raw.ops.global_step &&
                    session->raw.ops.global_step(session->raw.handle, &step, NULL) == HS_OK;
    if (err->code == HS_OK || !err->message[0])
        hs_error_set(err, code, "it failed with %s", hs_code_name(code));
    err->code = code; /* the returned code wins over the code in `err` */
    if (has_step)
        hs_error_prefix(err, "hook '%s', %s at step %lld", hook->cold->ops.name, callback, (long long)step);
    else
        hs_error_prefix(err, "hook '%s', %s", hook->cold->ops.name, callback);
    /* failures of best-effort hooks do not end the session; of the ranks of a group, the first failure counts */
    if (code != HS_STOP && !hook->cold->best_effort && !session->failed_hook[0] && !session->agreement.settled)
        snprintf(session->failed_hook, sizeof session->failed_hook, "%s", hook->cold->ops.name);
}

/* The bit of the run's kind in hs__hook.kinds. */
static uint8_t kind_bit(const struct hs_session *session)
{
    return (uint8_t)(1 << session->context.kind);
}

/* Empties the plan of this run, and adds the requests of the caller and of the first `n_hooks` due hooks. */
static void rebuild_plan(struct hs_session *session, size_t n_hooks)
{
    hs__run_plan *plan = &session->plans[0];
    hs__run_plan_begin(plan, ++session->n_plans);
    if (plan->caller)
        hs__run_plan_add_fetches(plan, &session->requests, plan->caller);
    for (size_t i = 0; i < n_hooks; i++) {
        const hs__hook *hook = session->schedule.due[i];
        if (hook->before_kinds & kind_bit(session) && hook->values.request)
            hs__run_plan_add_fetches(plan, &session->requests, hook->values.request);
    }
}

/* Adds what the due hook `which` requests to the plan, which has it already if it is the plan of the run before and
 * *keeps_plan. `planned` is its request then; `given` NULL: it requests nothing. */
static hs_code add_hook_request(struct hs_session *session, size_t which, const hs__request *planned,
                                const hs_run_args *given, bool *keeps_plan, hs_error *err)
{
    hs__hook *hook = session->schedule.due[which];
    const hs_run_args *args = NULL;
    hs__request *request = NULL;
    hs_code code = given ? hs__copy_args(&hook->cold->args, given, &args, err) : HS_OK;
    if (!code && args && !hs__requests_nothing(args))
        code = hs__request_of(&session->requests, HS__FIRST_HOOK + (size_t)(hook - session->hooks), args, &request, err);
    if (code)
        return code;
    const bool is_plain = !request || !(request->n_feeds || args->options);
    if (*keeps_plan && request == planned && is_plain) {
        hook->values.request = request;
        return HS_OK;
    }
    if (*keeps_plan)
        rebuild_plan(session, which);
    *keeps_plan = false;
    if (request)
        code = hs__run_plan_add(&session->plans[0], &session->requests, request, args, hook->cold->ops.name, err);
    hook->values.request = code ? NULL : request;
    return code;
}

/* Handles the rare results of a callback: a requested stop; a failure; an error that the callback set although it
 * succeeded; the first success after failures. */
HS__COLD static hs_code finish_callback(struct hs_session *session, hs__hook *hook, const char *callback, hs_code code,
                                        hs_error *err)
{
    if (session->context.stop) /* a failure of the same callback does not withdraw it */
        hs__stop_by_hook(session, hook->cold->ops.name, session->context.stop);
    if (code) { /* fails the run, or mutes a best-effort hook */
        hs__hook_failed(session, hook, callback, code, err);
        /* HS_STOP ends the run and the loop, as if the hook had requested the stop. If the program or a signal requested
         * the stop, the hook only passes it on. */
        if (code == HS_STOP && !(hs__stops(session) & HS__STOP_OUTSIDE))
            hs__stop_by_hook(session, hook->cold->ops.name, HS__STOP_HOOK_DONE);
        if (code == HS_STOP || !hook->cold->best_effort)
            return code;
        hs__mute(session, hook, callback, err);
    }
    if (err->code)
        hs__clear(err); /* the callback succeeded: later callbacks must not see its error */
    if (hook->cold->failures_in_a_row && hook->kinds)
        hs__clear_failures(session, hook, callback);
    return HS_OK;
}

/* True if finish_callback has work. A single test, because each hook makes it in each step. `observed` is also true while
 * hooks are failing. */
static inline bool needs_finish(const struct hs_session *session, hs_code code, const hs_error *err)
{
    return (unsigned)code | (unsigned)err->code | (unsigned)session->context.stop | session->observed;
}

/* True if callbacks of this run are timed, another thread watches them, or hooks are failing. */
static bool is_observed(const struct hs_session *session)
{
    /* without branches, as every run passes here */
    return (unsigned)session->timing.on | hs__is_watched(session) | hs__hooks_are_failing(session);
}

/* Returns the time before the callback, or -1 if it is not timed. */
static int64_t begin_observing(struct hs_session *session, const hs__hook *hook)
{
    hs__set_current_hook(session, hook);
    return session->timing.on ? hs_env_monotonic_ns(&session->env) : -1;
}

static void end_observing(struct hs_session *session, const hs__hook *hook, const char *callback, int64_t began)
{
    if (began >= 0)
        hs__timed_callback(session, hook, callback, began, session->timing.runs_per_timed);
}

HS__COLD static hs_code observe_before_run(struct hs_session *session, hs__hook *hook, const hs_run_args **args,
                                           hs_error *err)
{
    int64_t began = begin_observing(session, hook);
    hs_code code = hook->before_run(hook->self, &session->context, args, err);
    end_observing(session, hook, "before_run", began);
    return code;
}

HS__COLD static hs_code observe_after_run(struct hs_session *session, hs__hook *hook, hs_error *err)
{
    int64_t began = begin_observing(session, hook);
    hs_code code = hook->after_run(hook->self, &session->context, &hook->values, err);
    end_observing(session, hook, "after_run", began);
    return code;
}

/* keeps_plan: the plan is that of the run before, as long as the hooks request the same. */
static hs_code call_before_run(struct hs_session *session, bool keeps_plan, hs_error *err)
{
    const uint8_t kind = kind_bit(session);
    const hs__schedule *schedule = &session->schedule;
    bool is_fixed = true;
    for (size_t i = 0; i < schedule->n_due; i++) {
        hs__hook *hook = schedule->due[i];
        if (!(hook->before_kinds & kind))
            continue;
        const hs_run_args *args = hook->fetches;
        const hs__request *planned = hook->values.request;
        hs_code code = HS_OK;
        hook->values.request = NULL;
        session->callee = hook;
        is_fixed &= !hook->before_run;
        if (hook->before_run)
            code = session->observed ? observe_before_run(session, hook, &args, err)
                                     : hook->before_run(hook->self, &session->context, &args, err);
        if (!code && (args || keeps_plan))
            code = add_hook_request(session, i, planned, args, &keeps_plan, err);
        if (needs_finish(session, code, err) && (code = finish_callback(session, hook, "before_run", code, err)))
            return code;
        if (keeps_plan && hook->values.request != planned) { /* a best-effort hook has failed */
            rebuild_plan(session, i);
            keeps_plan = false;
        }
    }
    session->plans[0].is_fixed = is_fixed;
    return HS_OK;
}

/* In a group, after call_before_run. */
static hs_code check_collectives(struct hs_session *session, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < session->schedule.n_due; i++) {
        const hs__hook *hook = session->schedule.due[i];
        if (hook->before_kinds & kind_bit(session))
            code = hs__check_collective_ops(session, hook, hook->values.request, false, err);
    }
    return code;
}

static hs_code call_after_run(struct hs_session *session, hs_error *err)
{
    const uint8_t kind = kind_bit(session);
    const hs__schedule *schedule = &session->schedule;
    for (size_t i = 0; i < schedule->n_due; i++) {
        hs__hook *hook = schedule->due[i];
        if (!(hook->after_kinds & kind)) {
            if (schedule->is_acting && hook->before_kinds & kind)
                hs__schedule_acted(session, hook);
            continue;
        }
        session->callee = hook;
        hs_code code = session->observed ? observe_after_run(session, hook, err)
                                         : hook->after_run(hook->self, &session->context, &hook->values, err);
        if (schedule->is_acting) /* also after a failure, so that a best-effort hook continues its schedule */
            hs__schedule_acted(session, hook);
        if (needs_finish(session, code, err) && (code = finish_callback(session, hook, "after_run", code, err)))
            return code;
        if (hs__schedule_is_outdated(session) && (code = hs__schedule_decide_again(session, &i, err)))
            return code;
    }
    return HS_OK;
}

/* Fills the context of a run. `args` NULL: of a boundary that follows no run. */
static void begin_context(struct hs_session *session, const hs_run_args *args, hs_boundary boundary)
{
    static const hs_run_args no_args = HS_INIT(hs_run_args);
    hs_run_context *context = &session->context;
    context->session = session;
    context->args = args ? args : &no_args;
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
    hs_code first = hs__writer_cache_flush(&session->writers, hs__report_writer_failure, session, err);
    const bool is_last = which == HS_BOUNDARY_STOP || which == HS_BOUNDARY_END; /* all hooks get these, whatever fails */
    hs_error error = {0};
    for (hs__hook *hook = session->hooks, *end = hook + session->n_hooks; hook < end; hook++) {
        if (!hook->cold->ops.boundary || !hook->kinds || (which == HS_BOUNDARY_RUN && !(hook->kinds & kind_bit(session))))
            continue;
        hs__set_current_hook(session, hook);
        session->callee = hook;
        hs__clear(&error);
        int64_t began = hs_env_monotonic_ns(&session->env);
        hs_code code = hook->cold->ops.boundary(hook->self, &session->context, &error);
        hs__timed_callback(session, hook, "boundary", began, 1);
        code = finish_callback(session, hook, "boundary", code, &error);
        if (code && code != HS_STOP && is_last && hs__is_replica(session)) /* other ranks may wait in the same boundary */
            code = hs__agree_on_part(session, 0, code, &error);
        if (code && !(code == HS_STOP && which != HS_BOUNDARY_RUN)) { /* outside of a run, HS_STOP is not a failure */
            if (!first)
                first = hs__error_copy(err, &error);
            if (!is_last)
                break;
        }
    }
    hs__set_current_hook(session, NULL);
    session->callee = NULL;
    session->context.boundary = 0;
    return first;
}

hs_code hs__act_last(struct hs_session *session, hs__hook *hook, hs_error *err)
{
    if (!session->schedule.hooks[hook - session->hooks].last)
        return HS_OK;
    bool is_due = hook->kinds && hs__schedule_is_due_last(session, hook);
    hs_code code = HS_OK;
    session->callee = hook;
    if (hook->cold->number_on_ranks &&
        !hook->cold->best_effort) /* a stop or an end of input on one rank may have skipped its last act there */
        code = hs__ranks_any(session->raw.ranks, HS__CALL_LAST_ACT, is_due, &is_due, err);
    if (code || !is_due)
        return code;
    const hs_run_args *args = hook->fetches;
    const hs_run_values *values = &hook->values;
    hook->values.request = NULL;
    begin_context(session, NULL, 0);
    code = hook->before_run ? hook->before_run(hook->self, &session->context, &args, err) : HS_OK;
    if (!code && args)
        code = hs_raw_session_run(&session->raw, args, &values, err);
    begin_context(session, NULL, 0);
    session->context.after = true;
    if (!code && hook->after_run)
        code = hook->after_run(hook->self, &session->context, values, err);
    return code;
}

static hs_code run_backend(struct hs_session *session, hs_error *err)
{
    session->in_backend = true;
    hs_code code = hs__run_plan_run(&session->plans[0], &session->raw.ops, session->raw.handle, err);
    session->in_backend = false;
    session->context.after = true;
    return hs__normalize_error(code, "the run", err);
}

/* Makes the plan of a run from the requests of the caller and the hooks. keeps_plan: begins with that of the run before. */
static hs_code make_plan(struct hs_session *session, bool keeps_plan, hs__request *caller, const hs_run_args *args,
                         hs_error *err)
{
    hs__run_plan *plan = &session->plans[0];
    hs_code code = HS_OK;
    if (keeps_plan)
        hs__run_plan_reuse(plan);
    else
        hs__run_plan_begin(plan, ++session->n_plans);
    plan->is_whole = false;
    plan->caller = caller;
    plan->kind = (uint8_t)session->context.kind;
    if (caller && !keeps_plan)
        code = hs__run_plan_add(plan, &session->requests, caller, args, "the caller", err);
    if (!code)
        code = call_before_run(session, keeps_plan, err);
    if (!code && hs__is_replica(session))
        code = check_collectives(session, err);
    plan->is_whole = !code && !plan->call.n_feeds && !plan->call.options;
    return code;
}

/* The first half of a hooked run: collects the requests of the caller and the hooks in the plan. */
static inline hs_code begin_hooked(struct hs_session *session, const hs_run_args *args, hs_error *err)
{
    hs__run_plan *plan = &session->plans[0];
    hs__request *caller = NULL;
    session->context.kind = args->kind;
    if (hs__is_replica(session))
        hs__begin_agreement(session);
    hs_code code = hs__requests_nothing(args) ? HS_OK : hs__request_of(&session->requests, HS__CALLER, args, &caller, err);
    if (code)
        return code;
    session->values.request = caller;
    plan->is_whole &= plan->caller == caller && plan->kind == args->kind && !args->options;
    begin_context(session, args, 0);
    hs__begin_timing(session, args->kind);
    hs__unmute(session);
    session->observed = is_observed(session);
    session->level = 1; /* runs that callbacks make nest in this one */
    code = hs__schedule_before(session, err);
    if (!code && plan->is_whole && plan->is_fixed)
        hs__run_plan_reuse(plan);
    else if (!code)
        code = make_plan(session, plan->is_whole, caller, args, err);
    if (session->observed)
        hs__set_current_hook(session, NULL);
    if (code)
        session->level = 0;
    return code;
}

/* The second half: runs the backend, then calls after_run. */
static inline hs_code run_and_call_after(struct hs_session *session, hs_error *err)
{
    hs_code code = run_backend(session, err);
    if (code == HS_OUT_OF_RANGE && session->context.kind == HS_RUN_TRAIN && hs__continues_without_input(session))
        code = run_backend(session, err);
    if (!code) {
        session->raw.values_computed |= kind_bit(session) & (1 << HS_RUN_TRAIN | 1 << HS_RUN_EVAL);
        session->observed |= hs__is_watched(session); /* a thread may have begun to watch during the run */
        if (!(code = hs__schedule_after(session, err)))
            code = call_after_run(session, err);
        if (session->observed)
            hs__set_current_hook(session, NULL);
        /* Hooks and the program have had one training run to add late state. */
        if (session->raw.unclaimed.unreported && session->context.kind == HS_RUN_TRAIN && hs__is_chief(session))
            hs__report_lost_states(session);
    }
    return code;
}

/* Ends a run whose result so far is `code`: the ranks of a group agree on it, and the boundaries come if one is requested.
 */
static inline hs_code end_hooked(struct hs_session *session, hs_code code, hs_error *err)
{
    if (hs__is_replica(session) && session->context.kind == HS_RUN_TRAIN)
        code = hs__agree_on_run(session, hs__find_cause(session, code, err), err);
    if (!code && session->context.boundary_requested) {
        code = hs__call_boundaries(session, HS_BOUNDARY_RUN, err);
        if (code && hs__is_clean(code) && hs__is_replica(session)) /* the other ranks hear of it in their next agreement */
            code = hs__agree_on_run(session, code, err);
    }
    if (session->agreement.settled) /* perhaps because another rank has failed in the boundary */
        code = hs__error_copy(err, &session->agreement.failure);
    session->level = 0;
    return code;
}

static hs_code run_hooked(struct hs_session *session, const hs_run_args *args, const hs_run_values **values, hs_error *err)
{
    bool watched = hs__is_watched(session);
    if (watched)
        hs__enter(session, HS_PHASE_STEP);
    hs_code code = begin_hooked(session, args, err);
    if (!code)
        code = run_and_call_after(session, err);
    if (!(code = end_hooked(session, code, err)) && values)
        *values = &session->values;
    if (watched)
        hs__enter(session, HS_PHASE_DATA);
    return code;
}

/* Checks before a call, and its result. */

/* Records the result of the last call for hs_session_close, which decides whether its error counts (which_error). */
HS__COLD static hs_code record_failure(hs_session *session, hs_code code, const hs_error *error)
{
    hs__error_copy(&session->last, error);
    session->last.code = code;
    session->threads_failed_first = !hs__is_clean(code) && hs_coordinator_error(session->coordinator, NULL) != HS_OK;
    hs__set_input_ended(session, code == HS_OUT_OF_RANGE);
    return code;
}

void hs__call_abandoned(hs_session *session)
{
    hs_error error;
    session->in_call = false;
    session->level = 0;
    session->in_backend = false;
    session->life = HS__READY;
    hs_error_set(&error, HS_INTERNAL, "a callback threw an exception instead of returning");
    record_failure(session, error.code, &error);
    hs__add_stops(session, HS__STOP_FAILED);
    hs__stop_step(session);
    hs__enter(session, HS_PHASE_DATA);
}

/* Returns the error of a session that cannot run. */
HS__COLD static hs_code refuse_run(const hs_session *session, hs_error *err)
{
    if (!session)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "session is NULL; it was not opened, or is already closed");
    if (hs__is_inherited(session->generation))
        return hs__refuse_inherited("session", err);
    if (session->life == HS__IN_OWN_STEP)
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "a step is in progress; call hs_step_end first, or run the raw session");
    if (session->level || session->in_backend || session->life >= HS__CREATING)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "a session cannot run in its own callbacks; run its raw session");
    if (hs__stops(session) & HS__STOP_LOST)
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "the session was lost and could not be recovered; it cannot run any more "
                            "(hs_session_should_stop)");
    if (hs__stops(session) & HS__STOP_FAILED)
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "an earlier step failed; the session cannot run any more (hs_session_should_stop)");
    return hs_error_set(err, HS_FAILED_PRECONDITION,
                        "the session was asked to stop%s%s; it cannot run any more (hs_session_should_stop)",
                        session->stop_hook[0] ? " by hook " : "", session->stop_hook);
}

/* Every run makes this check. refuse_run finds the reason. */
static inline hs_code check_runnable(const hs_session *session, hs_error *err)
{
    const unsigned final = HS__STOP_LOST | HS__STOP_FAILED | HS__STOP_HOOK | HS__STOP_CLOSED;
    bool busy = !session || hs__is_inherited(session->generation) || session->level ||
                session->in_backend | (session->life > HS__IN_STEP_FUNCTION);
    return busy || hs__final_stops(session) & final ? refuse_run(session, err) : HS_OK;
}

/* Stores a run's result in the session, and copies it to `err`. */
static inline hs_code record_run_result(hs_session *session, hs_code code, const hs_error *error, hs_error *err)
{
    if (code) {
        if (code == HS_STOP && !(hs__stops(session) & HS__STOP_CLOSED))
            hs__stop_step(session);
        record_failure(session, code, error);
        return hs__error_copy(err, &session->last);
    }
    hs__set_input_ended(session, false);
    session->last.code = HS_OK;
    hs__clear(err);
    return HS_OK;
}

/* Before a call: a loss of the session that its threads have reported since the last call. In a step function it is found
 * after the whole function. */
static inline hs_code find_loss(const hs_session *session, hs_error *error)
{
    const bool may_be_lost = hs__may_recover(session) && hs_coordinator_should_stop(session->coordinator) &&
                             session->life != HS__IN_STEP_FUNCTION;
    return may_be_lost && hs__threads_are_lost(session, error) ? error->code : HS_OK;
}

/* Runs, and repeats the run after each recovery. */
static hs_code run_with_recovery(hs_session *session, const hs_run_args *args, const hs_run_values **values,
                                 hs_error *error)
{
    hs_code code = find_loss(session, error);
    do {
        session->failed_hook[0] = '\0';
        if (!code)
            code = run_hooked(session, args, values, error);
    } while (code && hs__recover(session, session->recovery.options.return_aborted, &code, error) == HS__RECOVERED);
    return code;
}

hs_code hs_session_run_args(hs_session *session, const hs_run_args *given, const hs_run_values **values, hs_error *err)
{
    static const hs_run_args no_args = HS_INIT(hs_run_args);
    hs_run_args copy;
    const hs_run_args *args;
    if (values)
        *values = NULL;
    hs_code code = check_runnable(session, err);
    if (code)
        return code;
    HS__CALL(call, session);
    hs_error *error = &session->last;
    hs__clear(error);
    hs__set_input_ended(session, false);
    session->failed_hook[0] = '\0';
    session->repeat_call = false;
    if (!(code = hs__copy_args(&copy, given ? given : &no_args, &args, error))) {
        if (args->kind < HS_RUN_TRAIN || args->kind > HS_RUN_AUX)
            code = hs_error_set(error, HS_INVALID_ARGUMENT, "hs_run_args.kind is %d, not an hs_run_kind", (int)args->kind);
        else
            code = run_with_recovery(session, args, values, error);
    }
    code = record_run_result(session, code, error, err);
    hs__check_stop(session);
    hs__call_end(&call);
    return code;
}

/* A call without its op or function. Its error is recorded like that of a run. */
HS__COLD static hs_code refuse_null(hs_session *session, const char *what, hs_error *err)
{
    hs_error error;
    hs_code code = check_runnable(session, err);
    if (code)
        return code;
    session->failed_hook[0] = '\0';
    session->repeat_call = false;
    return record_run_result(session, hs_error_set(&error, HS_INVALID_ARGUMENT, "%s is NULL", what), &error, err);
}

hs_code hs_session_run(hs_session *session, const char *op, hs_error *err)
{
    if (!op)
        return refuse_null(session, "hs_session_run: op", err);
    return hs_session_run_args(session, HS_RUN_ARGS(.names = HS_NAMES(op)), NULL, err);
}

struct hs_step_context {
    hs_session *session;
    bool stop;
};

hs_raw_session *hs_step_context_session(const hs_step_context *step)
{
    return step ? &step->session->raw : NULL;
}

hs_code hs_step_context_run_with_hooks(hs_step_context *step, const hs_run_args *args, const hs_run_values **values,
                                       hs_error *err)
{
    if (values)
        *values = NULL;
    /* An earlier run of this step caused the stop, so the call is not an error of the step function. */
    if (step && hs__final_stops(step->session) & HS__STOP_HOOK)
        return hs_error_set(err, HS_STOP, "the session was asked to stop by hook '%s'", step->session->stop_hook);
    return hs_session_run_args(step ? step->session : NULL, args, values, err);
}

hs_code hs_step_context_request_stop(hs_step_context *step)
{
    if (step)
        step->stop = true;
    return HS_STOP;
}

/* Calls a step function once. */
static hs_code call_step_function(hs_session *session, hs_session_run_step_fn step, void *user, hs_error *error)
{
    hs_step_context context = {.session = session};
    hs__life outer = session->life;
    hs__clear(error);
    session->life = HS__IN_STEP_FUNCTION;
    hs_code code = step(user, &context, error);
    session->life = outer;
    if (context.stop && !code)
        code = HS_STOP;
    if (context.stop || code == HS_STOP)
        hs__stop_step(session);
    if (code == HS_STOP) {
        hs_error_set(error, code, "the step function requested a stop");
    } else if (code && !error->message[0]) {
        hs_error_set(error, code, "the step function failed with %s", hs_code_name(code));
    }
    return code;
}

hs_code hs_session_run_step(hs_session *session, hs_session_run_step_fn step, void *user, hs_error *err)
{
    if (!step)
        return refuse_null(session, "hs_session_run_step: step", err);
    hs_code code = check_runnable(session, err);
    if (code)
        return code;
    hs_error error = {0};
    session->failed_hook[0] = '\0';
    session->repeat_call = false;
    HS__CALL(call, session);
    code = find_loss(session, &error);
    do {
        if (!code)
            code = call_step_function(session, step, user, &error);
    } while (code && hs__recover(session, session->recovery.options.return_aborted, &code, &error) == HS__RECOVERED);
    code = record_run_result(session, code, &error, err);
    hs__check_stop(session);
    hs__call_end(&call);
    return code;
}

/* Steps that the caller computes. */

/* hs_step_begin and hs_step_end end the loop if they fail, but return no error. The session keeps the first one for
 * hs_session_close. */
static hs_code fail_step(hs_session *session, hs_code code, const hs_error *error)
{
    if (hs__stops(session) & HS__STOP_FAILED && !hs__is_clean(session->last.code))
        return session->last.code;
    if (!(hs__stops(session) & HS__STOP_CLOSED))
        hs__stop_step(session);
    if (!hs__is_clean(code))
        hs__add_stops(session, HS__STOP_FAILED);
    return record_failure(session, code, error);
}

static inline hs_code record_step_result(hs_session *session, hs_code code, const hs_error *error)
{
    if (code || hs__stops(session) & HS__STOP_FAILED) {
        code = fail_step(session, code, error);
        if (code == HS_OUT_OF_RANGE && session->agreement.settled)
            session->agreement.stops |= HS__STOP_STEP; /* on all ranks */
        return code;
    }
    session->last.code = HS_OK;
    hs__set_input_ended(session, false);
    return HS_OK;
}

/* Returns true in a forked child. Also returns true, and logs an error, if a callback, an op or a step function makes the
 * call. The loop is not affected. */
static bool refuse_step(hs_session *session, const char *function)
{
    if (hs__is_inherited(session->generation))
        return true;
    bool free = session->life == HS__READY && !session->level;
    bool inside = session->in_backend || !(free || session->life == HS__IN_OWN_STEP);
    if (inside)
        hs_log(&session->env, HS_LOG_ERROR, "%s was called from a callback, where it has no effect", function);
    return inside;
}

static hs_code advance_step(hs_raw_session *raw, int64_t by, hs_error *err)
{
    return hs__normalize_error(raw->ops.advance_step(raw->handle, by, err), "advancing the global step", err);
}

/* Before the first such step. */
HS__COLD static hs_code check_step_support(const hs_session *session, hs_error *err)
{
    if (!session->raw.ops.advance_step)
        return hs_error_set(err, HS_UNIMPLEMENTED,
                            "hs_step_begin: backend '%s' cannot advance the global step; only its ops do",
                            session->raw.ops.name);
    if (!hs_backend_global_step_name(session->raw.backend))
        return hs_error_set(err, HS_UNIMPLEMENTED,
                            "hs_step_begin: the graph has no global step; add one with hs_graph_global_step");
    return HS_OK;
}

static hs_code begin_step(hs_session *session, hs_error *err)
{
    static const hs_run_args no_args = HS_INIT(hs_run_args);
    if (hs__is_replica(session))
        hs__begin_agreement(session);
    hs_code code = session->makes_own_steps ? HS_OK : check_step_support(session, err);
    if (!code) {
        code = find_loss(session, err);
        do {
            session->failed_hook[0] = '\0';
            if (!code && (code = advance_step(&session->raw, 0, err)))
                break;
            if (!code)
                code = begin_hooked(session, &no_args, err);
        } while (code && hs__recover(session, false, &code, err) == HS__RECOVERED); /* begins at the restored step */
    }
    return code && hs__is_replica(session) ? hs__agree_on_run(session, code, err) : code;
}

HS__COLD static void reach_stop_between_steps(hs_session *session)
{
    hs__check_own_step(session);
    hs__check_stop(session);
}

bool hs_step_begin(hs_session *session)
{
    hs_error error; /* not initialized here, because clearing the whole struct takes time in each step */
    if (!session || refuse_step(session, "hs_step_begin"))
        return false;
    hs__clear(&error);
    if (session->life == HS__IN_OWN_STEP) {
        fail_step(session, check_runnable(session, &error), &error);
        return false;
    }
    HS__CALL(call, session);
    if (hs_session_should_stop(session)) {
        if (!hs__is_replica(session)) /* in a group, stops take effect at the end of a run */
            reach_stop_between_steps(session);
        hs__call_end(&call);
        return false;
    }
    session->repeat_call = false;
    hs_code code = begin_step(session, &error);
    if (code) {
        record_step_result(session, code, &error);
        reach_stop_between_steps(session);
    }
    hs__call_end(&call);
    if (code)
        return false;
    session->makes_own_steps = true;
    session->life = HS__IN_OWN_STEP;
    hs__enter(session, HS_PHASE_DATA);
    return true;
}

static hs_code end_step(hs_session *session, hs_error *err)
{
    hs_raw_session *raw = &session->raw;
    hs__enter(session, HS_PHASE_STEP);
    bool makes_step = !session->agreement.settled; /* settled: no rank does */
    hs_code code = makes_step ? hs__check_input(session, err) : HS_OK;
    if (makes_step && !code && !(code = advance_step(raw, 1, err)))
        code = run_and_call_after(session, err);
    code = end_hooked(session, code, err);
    /* A save that overlaps the runs must finish its copies now: from here on the caller writes to variables without calling
     * the guard. */
    if (raw->ops.guard)
        raw->ops.guard(raw->handle, (hs_write_guard){NULL, NULL, NULL});
    hs__enter(session, HS_PHASE_DATA);
    return code;
}

hs_code hs_step_end(hs_session *session)
{
    hs_error error;
    if (!session || refuse_step(session, "hs_step_end"))
        return HS_FAILED_PRECONDITION;
    hs__clear(&error);
    if (session->life != HS__IN_OWN_STEP) {
        hs_error_set(&error, HS_FAILED_PRECONDITION, "hs_step_end was called without an hs_step_begin that returned true");
        return fail_step(session, error.code, &error);
    }
    session->life = HS__READY;
    HS__CALL(call, session);
    hs_code code = end_step(session, &error);
    /* the loop continues at the restored step */
    const bool repeats = code && hs__recover(session, true, &code, &error) == HS__RECOVERED_REPEAT;
    if (!repeats) {
        code = record_step_result(session, code, &error);
        hs__check_stop(session);
    }
    hs__call_end(&call);
    return code;
}

hs_code hs_step_pass_gate(hs_session *session)
{
    hs_error error;
    if (!session || hs__is_inherited(session->generation) || session->life != HS__IN_OWN_STEP || session->in_backend)
        return HS_FAILED_PRECONDITION;
    hs__clear(&error);
    return hs__is_replica(session) ? hs__pass_gate(session, &error) : hs__check_input(session, &error);
}

void hs__check_own_step(hs_session *session)
{
    hs_error error = {0};
    if (session->makes_own_steps && session->raw.handle && hs__is_clean(session->last.code) &&
        advance_step(&session->raw, 0, &error))
        fail_step(session, error.code, &error);
}

void hs__discard_own_step(hs_session *session)
{
    const hs__agreement *agreement = &session->agreement;
    session->life = HS__READY;
    session->level = 0;
    if (agreement->settled && agreement->failure.code == HS_OUT_OF_RANGE) { /* at the gate: no rank makes this step */
        fail_step(session, HS_OUT_OF_RANGE, &agreement->failure);
        return;
    }
    if (agreement->behind_gate && !session->fail.code) /* other ranks may make this step */
        hs_error_set(&session->fail, HS_FAILED_PRECONDITION,
                     "the session was closed behind the gate of a step, before hs_step_end");
    hs_log(&session->env, HS_LOG_WARNING, "step %lld discarded: the session was closed before hs_step_end",
           (long long)hs_session_global_step(session, NULL) + 1);
    hs__clear_stop(session, HS__STOP_PROGRAM_DONE);
    hs__stop_by_hook(session, "", HS__STOP_HOOK_INTERRUPTED); /* the training is not complete */
    hs_error why;
    hs_error_set(&why, HS_FAILED_PRECONDITION, "the session was closed before hs_step_end");
    hs_raw_session_refuse_saves(&session->raw, &why);
}
