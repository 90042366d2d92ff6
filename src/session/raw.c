/* SPDX-License-Identifier: Apache-2.0 */
/* The raw session as hooks see it: saves in the background, runs without hooks, requests, event writers. */
#include "session/session.h"

#include "checkpoint/background.h"

/* Functions that lower floors call (hs__raw_session_owner_ops). */

static void on_saved(struct hs_session *session)
{
    atomic_store(&session->signals.saves, true);
    hs__last_good_saved(session);
    hs__schedule_saved(session);
}

static bool stops_unsaved(const struct hs_session *session)
{
    return hs__stops(session) & HS__STOP_UNSAVED;
}

const hs__raw_session_owner_ops hs__session_owner_ops = {
    .saved = on_saved, .stops_unsaved = stops_unsaved, .forget_values = hs__session_forget_values};

/* Saves in the background. */

hs__save_end hs__raw_session_poll_save(hs_raw_session *raw, hs__pending_save *pending, hs_save_result *result)
{
    if (!pending->saver || !hs_saver_poll(pending->saver, pending->prefix, result))
        return HS__SAVE_PENDING;
    pending->saver = NULL;
    if (result->error.code)
        return HS__SAVE_FAILED;
    /* a rollback waits for this save, and may have restored it */
    if (pending->restores != raw->restores && raw->restored_step != result->step)
        return HS__SAVE_ABANDONED;
    hs_raw_session_record_save(raw, result->step);
    return HS__SAVE_RECORDED;
}

void hs__cancel_save(const hs__pending_save *pending)
{
    if (pending->saver)
        hs__background_cancel(pending->saver, pending->prefix);
}

void hs__raw_session_watch_save(hs_raw_session *raw, hs__pending_save *pending)
{
    raw->owner->callee->cold->pending_save = pending;
}

/* Runs without hooks. */

/* Makes a run at the session's level. A run at level 1 first copies values of the run at level 0 that it could
 * overwrite. */
static hs_code run_raw(struct hs_session *session, const hs_run_args *given, const hs_run_values **values, hs_error *err)
{
    static const hs_run_args no_args = HS_INIT(hs_run_args);
    const size_t level = session->level;
    hs__run_plan *plan = &session->plans[level];
    hs_run_values *result = &session->raw_values[level];
    hs_run_args copy;
    const hs_run_args *args;
    hs__request *request = NULL;
    if (session->in_backend)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "an op cannot run the session that runs it");
    hs__clear(err);
    if (values)
        *values = NULL;
    result->request = NULL;
    hs_code code = hs__copy_args(&copy, given ? given : &no_args, &args, err);
    if (!code && level && !(session->raw.ops.flags & HS_BACKEND_KEEPS_VALUES))
        code = hs__run_plan_preserve(&session->plans[0], err);
    if (code)
        return code;
    hs__run_plan_begin(plan, ++session->n_plans);
    if (!hs__requests_nothing(args) &&
        ((code = hs__request_of(&session->requests, HS__RAW, args, &request, err)) ||
         (code = hs__run_plan_add(plan, &session->requests, request, args, "a raw run", err))))
        return code;
    result->request = request;
    if (hs__is_in_group(session) && (code = hs__check_collective_ops(session, session->callee, request, true, err)))
        return code;
    code = hs__run_backend(session, plan, err);
    hs__raw_session_moved(&session->raw);
    if (hs__is_watched(session))
        hs__bump_progress(session);
    if (code)
        return code;
    if (values)
        *values = result;
    hs__clear(err);
    return HS_OK;
}

hs_code hs_raw_session_run(hs_raw_session *raw, const hs_run_args *args, const hs_run_values **values, hs_error *err)
{
    if (!raw || !raw->handle)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "hs_raw_session_run: session is NULL or closed");
    HS__CALL(call, raw->owner);
    hs_code code = run_raw(raw->owner, args, values, err);
    hs__call_end(&call);
    return code;
}

const char *hs_raw_session_summary_dir(const hs_raw_session *raw)
{
    const hs__creation *creation = raw ? &raw->owner->creation : NULL;
    if (!creation)
        return NULL;
    return creation->summary_dir ? creation->summary_dir : creation->checkpoint_dir;
}

void hs__raw_session_set_save_secs(hs_raw_session *raw, double secs)
{
    if (raw && secs > 0)
        raw->owner->save_secs = secs;
}

double hs_raw_session_save_secs(const hs_raw_session *raw)
{
    return raw ? raw->owner->save_secs : 0;
}

void hs_raw_session_request_save(hs_raw_session *raw)
{
    if (raw)
        hs_session_request_save(raw->owner);
}

void hs_raw_session_request_stop(hs_raw_session *raw)
{
    if (raw)
        hs_session_request_stop(raw->owner);
}

void hs_raw_session_interrupt(hs_raw_session *raw)
{
    if (raw)
        hs_session_interrupt(raw->owner);
}

bool hs_raw_session_stop_requested(const hs_raw_session *raw)
{
    if (raw)
        hs__bump_progress(raw->owner);
    return !raw || hs_session_should_stop(raw->owner) || hs__stop_requested(raw->owner) ||
           hs_coordinator_should_stop(raw->owner->coordinator);
}

hs_code hs_raw_session_summary_writer(hs_raw_session *raw, const char *directory, hs_summary_writer **writer, hs_error *err)
{
    hs__clear(err);
    if (!raw || !directory || !*directory || !writer)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_raw_session_summary_writer: %s",
                            !raw      ? "session is NULL"
                            : !writer ? "writer is NULL"
                                      : "directory is missing");
    return hs__writer_cache_get(&raw->owner->writers, directory, writer, err);
}

hs_code hs_raw_session_event_writer(hs_raw_session *raw, const char *directory, hs_summary_writer *given,
                                    hs_summary_writer **writer, hs_error *err)
{
    hs__clear(err);
    if (!raw || !writer)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_raw_session_event_writer: %s",
                            raw ? "writer is NULL" : "session is NULL");
    *writer = NULL;
    if (!given && !directory)
        return HS_OK;
    hs_summary_writer *found = given;
    hs__writer_cache *writers = &raw->owner->writers;
    hs_code code =
        given ? hs__writer_cache_use(writers, given, err) : hs__writer_cache_get(writers, directory, &found, err);
    if (code)
        return code;
    hs_error error;
    int64_t step = hs_raw_session_global_step(raw, &error);
    if (step < 0)
        return hs__error_copy(err, &error);
    if ((code = hs__writer_cache_start(writers, found, raw->opened, step + 1, err)))
        return code;
    *writer = found;
    return HS_OK;
}

hs_code hs_raw_session_flush_writer(hs_raw_session *raw, hs_summary_writer *writer, bool sync, hs_error *err)
{
    hs__clear(err);
    if (!raw || !writer)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_raw_session_flush_writer: %s is NULL",
                            raw ? "writer" : "session");
    return hs__writer_cache_flush_one(&raw->owner->writers, writer, sync, err);
}
