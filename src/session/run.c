/* SPDX-License-Identifier: Apache-2.0 */
/* Runs with hooks. A run has these parts, in this order:
 *
 *   before     finds the caller's request, and the hooks that are due (schedule.c); calls before_run of these hooks, which
 *              return what they request
 *   merge      makes one plan of all requests
 *   backend    runs the plan
 *   after      calls after_run of the hooks that are due, each with the values of its own request
 *   boundary   if a hook has requested it, in a group a hook of any rank: calls the boundary of all hooks
 *
 * begin_run makes the first two, finish_run the others. hs_session_run_args calls both. hs_step_begin calls the first and
 * hs_step_end the second, so that the caller computes the step between them. All of these recover a lost session
 * (hs__recover), record the result, and reach the boundaries of a stop (check_stop).
 *
 * Words:
 *
 *   request    the args of the caller or of a hook, with resolved names; found again by their contents (run_request.h)
 *   plan       all requests of a run as one call of the backend, and its results: each node is fetched once
 *              (merge_fetches.h). It is kept for the next run, if that has the same requests
 *   level      0: a run with hooks; 1: a raw run, without hooks, that a callback makes in it. Each level has its own plan
 *   observed   a run whose callbacks are timed or watched, or in which hooks are failing: its calls take more time
 */
#include "session/session.h"

#include "base/error.h"

/* Handles the rare results of a callback: a requested stop; a failure; an error that the callback set although it
 * succeeded; the first success after failures. */
HS__COLD static hs_code finish_callback(struct hs_session *session, hs__hook *hook, const char *callback, hs_code code,
                                        hs_error *err)
{
    if (session->context.stop) /* a failure of the same callback does not withdraw it */
        hs__stop_by_hook(session, hook->cold->ops.name, session->context.stop);
    if (code == HS_STOP) {
        hs__name_failed_hook(session, hook, callback, code, err);
        /* It ends the run and the loop, as if the hook had requested the stop. If the program or a signal requested the
         * stop, the hook only passes it on. */
        if (!(hs__stops(session) & HS__STOP_OUTSIDE))
            hs__stop_by_hook(session, hook->cold->ops.name, HS__STOP_HOOK_DONE);
        return code;
    }
    if (code && (code = hs__hook_failed(session, hook, callback, code, err)))
        return code;
    if (err->code)
        hs__clear(err); /* the callback succeeded: later callbacks must not see its error */
    if (hook->kinds)    /* it was not muted */
        hs__hook_succeeded(session, hook, callback);
    return HS_OK;
}

/* True if finish_callback has work. A single test, because each hook makes it in each step. `observed` is also true while
 * hooks are failing. */
static inline bool needs_finish(const struct hs_session *session, hs_code code, const hs_error *err)
{
    return (unsigned)code | (unsigned)err->code | (unsigned)session->context.stop | session->observed;
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

/* Calls before_run of a hook, or with `args` NULL after_run, in an observed run. */
HS__COLD static hs_code call_observed(struct hs_session *session, hs__hook *hook, const hs_run_args **args, hs_error *err)
{
    hs__set_current_hook(session, hook);
    const int64_t began = session->timing.on ? hs_env_monotonic_ns(&session->env) : -1;
    hs_code code = args ? hook->before_run(hook->self, &session->context, args, err)
                        : hook->after_run(hook->self, &session->context, &hook->values, err);
    if (began >= 0)
        hs__timed_callback(session, hook, args ? "before_run" : "after_run", began, session->timing.runs_per_timed);
    return code;
}

/* Calls before_run, and finds the request of the args that it returns. *args is NULL if the hook requests nothing. */
static inline hs_code call_before_run(struct hs_session *session, hs__hook *hook, const hs_run_args **args, hs_error *err)
{
    const size_t requester = HS__FIRST_HOOK + (size_t)(hook - session->hooks);
    hs__request *request = NULL;
    hs_code code = HS_OK;
    *args = hook->fetches;
    session->callee = hook;
    if (hook->before_run)
        code = session->observed ? call_observed(session, hook, args, err)
                                 : hook->before_run(hook->self, &session->context, args, err);
    if (!code && *args && !(code = hs__copy_args(&hook->cold->args, *args, args, err)) && !hs__requests_nothing(*args))
        code = hs__request_of(&session->requests, requester, *args, &request, err);
    hook->values.request = code ? NULL : request;
    return needs_finish(session, code, err) ? finish_callback(session, hook, "before_run", code, err) : code;
}

/* Begins the plan of this run with the requests of the caller and of the first `n_hooks` due hooks, which have only
 * fetches. */
static hs_code begin_plan(struct hs_session *session, const hs__request *caller, size_t n_hooks, hs_error *err)
{
    hs__run_plan *plan = &session->plans[0];
    const hs_run_context *run = &session->context;
    hs__run_plan_begin(plan, ++session->n_plans);
    plan->caller = caller;
    plan->kind = (uint8_t)run->kind;
    hs_code code = caller ? hs__run_plan_add(plan, &session->requests, caller, run->args, "the caller", err) : HS_OK;
    for (size_t i = 0; !code && i < n_hooks; i++) {
        const hs__hook *hook = session->schedule.due[i];
        if (hook->before_kinds & 1 << run->kind && hook->values.request)
            code = hs__run_plan_add(plan, &session->requests, hook->values.request, NULL, hook->cold->ops.name, err);
    }
    return code;
}

/* Before and merge, for each hook in turn: a feed that two have ends the run before the next hook is called. The plan of
 * the run before is kept as long as the hooks request the same (`is_same`). */
static hs_code make_plan(struct hs_session *session, const hs__request *caller, bool is_same, hs_error *err)
{
    hs__run_plan *plan = &session->plans[0];
    const hs__schedule *schedule = &session->schedule;
    const uint8_t kind = (uint8_t)(1 << session->context.kind);
    bool is_fixed = true;
    hs__run_plan_reuse(plan);
    plan->is_whole = false;
    hs_code code = is_same ? HS_OK : begin_plan(session, caller, 0, err);
    for (size_t i = 0; !code && i < schedule->n_due; i++) {
        hs__hook *hook = schedule->due[i];
        if (!(hook->before_kinds & kind))
            continue;
        const hs__request *planned = hook->values.request, *request;
        const hs_run_args *args;
        is_fixed &= !hook->before_run;
        code = call_before_run(session, hook, &args, err);
        request = hook->values.request;
        if (!code && is_same && (request != planned || (request && (request->n_feeds || args->options)))) {
            is_same = false;
            code = begin_plan(session, caller, i, err);
        }
        if (!code && !is_same && request &&
            (code = hs__run_plan_add(plan, &session->requests, request, args, hook->cold->ops.name, err))) {
            hook->values.request = NULL;
            code = finish_callback(session, hook, "before_run", code, err);
        }
    }
    for (size_t i = 0; !code && hs__is_in_group(session) && i < schedule->n_due; i++) /* all requests are known */
        if (schedule->due[i]->before_kinds & kind)
            code = hs__check_collective_ops(session, schedule->due[i], schedule->due[i]->values.request, false, err);
    plan->is_fixed = is_fixed;
    plan->is_whole = !code && !plan->call.n_feeds && !plan->call.options;
    return code;
}

/* The first half of a run: before and merge. */
static inline hs_code begin_run(struct hs_session *session, const hs_run_args *args, hs_error *err)
{
    hs__run_plan *plan = &session->plans[0];
    hs__request *caller = NULL;
    hs_code code = HS_OK;
    session->context.kind = args->kind;
    if (hs__is_in_group(session))
        hs__forget_agreed_failure(session);
    if (!hs__requests_nothing(args) && (code = hs__request_of(&session->requests, HS__CALLER, args, &caller, err)))
        return code;
    session->values.request = caller;
    begin_context(session, args, 0);
    if (hs__count_run(&session->timing, args->kind))
        hs__decide_timing(session);
    if (session->failures.n_muted)
        hs__unmute_due(session);
    session->observed = session->timing.on || hs__is_watched(session) || session->failures.n_failing > 0;
    session->level = 1; /* runs that callbacks make nest in this one */
    if (!(code = hs__schedule_before(session, err))) {
        const bool is_same = plan->is_whole && plan->caller == caller && plan->kind == args->kind && !args->options;
        if (is_same && plan->is_fixed)
            hs__run_plan_reuse(plan);
        else
            code = make_plan(session, caller, is_same, err);
    }
    if (session->observed)
        hs__set_current_hook(session, NULL);
    if (code)
        session->level = 0;
    return code;
}

/* The second half of a run, unless `code` and `err` say that it has failed: backend and after. Then the ranks of a group
 * agree on the result, and the boundaries come if one is requested. Without the attribute the compiler calls it, because it
 * has two callers. */
static inline __attribute__((always_inline)) hs_code finish_run(struct hs_session *session, hs_code code, hs_error *err)
{
    const hs__schedule *schedule = &session->schedule;
    hs_run_context *run = &session->context;
    const uint8_t kind = (uint8_t)(1 << run->kind);

    session->callee = NULL; /* ops are the program's */
    if (!code) {
        do
            code = hs__run_backend(session, &session->plans[0], err);
        while (code == HS_OUT_OF_RANGE && run->kind == HS_RUN_TRAIN && hs__continues_without_input(session));
        run->after = true;
    }

    if (!code) {
        session->raw.values_computed |= kind & (1 << HS_RUN_TRAIN | 1 << HS_RUN_EVAL);
        session->observed |= hs__is_watched(session); /* a thread may have begun to watch during the run */
        code = hs__schedule_after(session, err);
        for (size_t i = 0; !code && i < schedule->n_due; i++) {
            hs__hook *hook = schedule->due[i];
            if (!(hook->after_kinds & kind)) {
                if (schedule->is_acting && hook->before_kinds & kind)
                    hs__schedule_acted(session, hook);
                continue;
            }
            session->callee = hook;
            code = session->observed ? call_observed(session, hook, NULL, err)
                                     : hook->after_run(hook->self, run, &hook->values, err);
            if (schedule->is_acting) /* also after a failure, so that a best-effort hook continues its schedule */
                hs__schedule_acted(session, hook);
            if (needs_finish(session, code, err))
                code = finish_callback(session, hook, "after_run", code, err);
            if (!code && hs__schedule_is_outdated(session))
                code = hs__schedule_decide_again(session, &i, err);
        }
        session->callee = NULL;
        if (session->observed)
            hs__set_current_hook(session, NULL);
        /* Hooks and the program have had one training run to add late state. */
        if (session->raw.unclaimed.unreported && run->kind == HS_RUN_TRAIN && !session->raw.rank)
            hs__report_lost_states(session);
    }

    if (hs__is_in_group(session) && run->kind == HS_RUN_TRAIN)
        code = hs__agree_on_run(session, hs__find_cause(session, code, err), err);
    if (!code && run->boundary_requested) {
        code = hs__call_boundaries(session, HS_BOUNDARY_RUN, err);
        if (code && hs__is_clean(code) && hs__is_in_group(session)) /* the other ranks hear of it in their next agreement */
            code = hs__agree_on_run(session, code, err);
    }
    if (session->agreement.settled) /* perhaps because another rank has failed in the boundary */
        code = hs__error_copy(err, &session->agreement.failure);
    session->level = 0;
    return code;
}

/* Boundaries, and what hooks do last. */

/* Calls the boundary of a hook, or its after_run with late values. Outside of a run, HS_STOP is not a failure. */
static hs_code call_at_boundary(struct hs_session *session, hs__hook *hook, hs_boundary which, bool is_late, hs_error *err)
{
    hs_error error;
    hs__clear(&error);
    hs__set_current_hook(session, hook);
    session->callee = hook;
    const char *callback = is_late ? "after_run" : "boundary";
    const int64_t began = hs_env_monotonic_ns(&session->env);
    hs_code code =
        is_late ? hs__late_deliver(session, hook, &error) : hook->cold->ops.boundary(hook->self, &session->context, &error);
    hs__timed_callback(session, hook, callback, began, 1);
    code = finish_callback(session, hook, callback, code, &error);
    if (code && code != HS_STOP && (which == HS_BOUNDARY_STOP || which == HS_BOUNDARY_END))
        code = hs__agree_on_part(session, 0, code, &error); /* other ranks may wait in the same boundary */
    return code == HS_STOP && which != HS_BOUNDARY_RUN ? HS_OK : code ? hs__error_copy(err, &error) : HS_OK;
}

hs_code hs__call_boundaries(struct hs_session *session, hs_boundary which, hs_error *err)
{
    const bool is_last = which == HS_BOUNDARY_STOP || which == HS_BOUNDARY_END; /* all hooks get these, whatever fails */
    hs_code first = HS_OK, code;
    if (which == HS_BOUNDARY_RUN)
        session->context.boundary = which;
    else
        begin_context(session, NULL, which);
    for (hs__hook *hook = session->hooks, *end = hook + session->n_hooks; hook < end && (is_last || !first); hook++)
        if (hook->cold->late && hook->kinds && (code = call_at_boundary(session, hook, which, true, first ? NULL : err)))
            first = first ? first : code;
    const bool calls = is_last || !first;
    if ((code = hs__writer_cache_flush(&session->writers, first ? NULL : err)))
        first = first ? first : code;
    for (hs__hook *hook = session->hooks, *end = hook + session->n_hooks; hook < end && calls; hook++) {
        if (!hook->cold->ops.boundary || !hook->kinds ||
            (which == HS_BOUNDARY_RUN && !(hook->kinds & 1 << session->context.kind)))
            continue;
        if ((code = call_at_boundary(session, hook, which, false, first ? NULL : err))) {
            first = first ? first : code;
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
    hs_code code = HS_OK;
    session->callee = hook;
    if (hook->cold->late && hook->kinds) {
        begin_context(session, NULL, 0);
        session->context.after = true;
        code = hs__late_deliver(session, hook, err);
    }
    if ((code && code != HS_STOP) || !hook->cold->when.last)
        return code;
    bool is_due = hook->kinds && hs__schedule_is_due_last(session, hook);
    hs__clear(err); /* HS_STOP has no effect here */
    code = HS_OK;
    /* a stop or an end of input on one rank may have skipped its last act there */
    if (hook->cold->number_on_ranks && !hook->cold->best_effort)
        code = hs__ranks_any(session->raw.ranks, HS__TOPIC_LAST_ACT, is_due, &is_due, err);
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
        code = hook->cold->ops.after_run(hook->self, &session->context, values, err);
    return code;
}

/* Checks before a call, and its result. */

/* Records the result of the last call for hs_session_close, which decides whether its error counts (which_error). */
HS__COLD static hs_code record_failure(hs_session *session, hs_code code, const hs_error *error)
{
    hs__error_copy(&session->last, error);
    session->last.code = code;
    session->threads_failed_first = !hs__is_clean(code) && hs_coordinator_error(session->coordinator, NULL) != HS_OK;
    if (code == HS_OUT_OF_RANGE)
        hs__add_stops(session, HS__STOP_INPUT_ENDED);
    else
        hs__clear_stop(session, HS__STOP_INPUT_ENDED);
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
    session->last.code = HS_OK;
    hs__clear(err);
    return HS_OK;
}

/* After a call: the boundaries of a stop, if the session has a cause to stop. */
static inline void check_stop(hs_session *session)
{
    if (hs__stops(session) || hs_coordinator_should_stop(session->coordinator))
        hs__reach_stop_boundary(session);
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
static hs_code run_with_recovery(hs_session *session, const hs_run_args *args, hs_error *error)
{
    hs_code code = find_loss(session, error);
    do {
        session->failed_hook[0] = '\0';
        if (!code) {
            const bool watched = hs__is_watched(session);
            if (watched)
                hs__enter(session, HS_PHASE_STEP);
            code = finish_run(session, begin_run(session, args, error), error);
            if (watched)
                hs__enter(session, HS_PHASE_DATA);
        }
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
    hs__clear_stop(session, HS__STOP_INPUT_ENDED);
    session->failed_hook[0] = '\0';
    session->repeat_call = false;
    if (!(code = hs__copy_args(&copy, given ? given : &no_args, &args, error))) {
        if (args->kind < HS_RUN_TRAIN || args->kind > HS_RUN_AUX)
            code = hs_error_set(error, HS_INVALID_ARGUMENT, "hs_run_args.kind is %d, not an hs_run_kind", (int)args->kind);
        else
            code = run_with_recovery(session, args, error);
    }
    if (!code && values)
        *values = &session->values;
    code = record_run_result(session, code, error, err);
    check_stop(session);
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
    if (!code) /* perhaps of a run of the step */
        hs__clear_stop(session, HS__STOP_INPUT_ENDED);
    code = record_run_result(session, code, &error, err);
    check_stop(session);
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
    hs__clear_stop(session, HS__STOP_INPUT_ENDED);
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

static void drop_guard(const hs_raw_session *raw)
{
    if (raw->ops.guard)
        raw->ops.guard(raw->handle, (hs_write_guard){NULL, NULL, NULL});
}

/* Finishes the copies of a save that overlaps the runs, because the caller writes to variables next without calling the
 * guard. */
static void finish_copies(const hs_raw_session *raw)
{
    if (!raw->guards_updates)
        drop_guard(raw);
}

static hs_code begin_step(hs_session *session, hs_error *err)
{
    static const hs_run_args no_args = HS_INIT(hs_run_args);
    if (hs__is_in_group(session))
        hs__forget_agreed_failure(session);
    hs_code code = session->makes_own_steps ? HS_OK : check_step_support(session, err);
    if (!session->makes_own_steps)
        finish_copies(&session->raw);
    if (!code) {
        code = find_loss(session, err);
        do {
            session->failed_hook[0] = '\0';
            if (!code && (code = advance_step(&session->raw, 0, err)))
                break;
            if (!code)
                code = begin_run(session, &no_args, err);
        } while (code && hs__recover(session, false, &code, err) == HS__RECOVERED); /* begins at the restored step */
    }
    return code && hs__is_in_group(session) ? hs__agree_on_run(session, code, err) : code;
}

HS__COLD static void reach_stop_between_steps(hs_session *session)
{
    hs__check_own_step(session);
    check_stop(session);
}

bool hs_step_begin(hs_session *session)
{
    hs_error error; /* not initialized here, because clearing the whole struct takes time in each step */
    if (!session || refuse_step(session, "hs_step_begin"))
        return false;
    hs__clear(&error);
    if (session->life == HS__IN_OWN_STEP) {
        const int64_t step = hs_session_global_step(session, NULL) + 1;
        hs_error_set(&error, HS_FAILED_PRECONDITION,
                     "hs_step_begin was called before hs_step_end of step %lld (a `break` or `continue` within the step?)",
                     (long long)step);
        fail_step(session, error.code, &error);
        return false;
    }
    HS__CALL(call, session);
    if (hs_session_should_stop(session)) {
        if (!hs__is_in_group(session)) /* in a group, stops take effect at the end of a run */
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
    const hs__agreement *agreement = &session->agreement; /* settled: no rank makes this step */
    hs_code code = agreement->settled ? hs__error_copy(err, &agreement->failure) : hs__check_program(session, err);
    if (!code)
        code = advance_step(raw, 1, err);
    code = finish_run(session, code, err);
    finish_copies(raw);
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
    /* the loop continues at the restored step, unless the program has failed */
    const bool repeats =
        code && hs__is_clean(session->fail.code) && hs__recover(session, true, &code, &error) == HS__RECOVERED_REPEAT;
    if (!repeats) {
        code = record_step_result(session, code, &error);
        check_stop(session);
    }
    hs__call_end(&call);
    return code;
}

void hs_step_before_update(hs_session *session)
{
    if (!session || hs__is_inherited(session->generation) || session->life != HS__IN_OWN_STEP || session->in_backend)
        return;
    session->raw.guards_updates = true;
    drop_guard(&session->raw);
}

hs_code hs_step_pass_gate(hs_session *session)
{
    hs_error error;
    if (!session || hs__is_inherited(session->generation) || session->life != HS__IN_OWN_STEP || session->in_backend)
        return HS_FAILED_PRECONDITION;
    hs__clear(&error);
    return hs__is_in_group(session) ? hs__pass_gate(session, &error) : hs__check_program(session, &error);
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
