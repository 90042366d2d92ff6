/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing a raw session, its global step, and the records of restores and saves. */
#include "backends/raw_session.h"

#include "backends/raw_variables.h"
#include "base/error.h"

#include <hooksess/tf1/session_manager.h>

#include <stdatomic.h>

/* Opening and closing. */

void hs__raw_session_init(hs_raw_session *raw, const hs_env *env, hs_backend backend, const hs_backend_ops *ops,
                          const hs__raw_session_owner_ops *owner_ops, void *owner)
{
    *raw = (hs_raw_session){.env = *env,
                            .backend = backend,
                            .ops = *ops,
                            .owner = owner,
                            .owner_ops = owner_ops,
                            .rank_count = 1,
                            .saved_step = -1};
}

hs_code hs__raw_session_open(hs_raw_session *raw, const char *target, hs_bytes config, hs_error *err)
{
    /* Number of sessions that the process has opened. A thread may know a closed session at the address of a new one. */
    static atomic_uint_fast64_t opened;
    hs_code code = raw->ops.open(raw->backend.self, target, config, &raw->handle, err);
    if (hs__normalize_error(code, "opening the backend's session", err))
        return code;
    raw->opened = atomic_fetch_add(&opened, 1) + 1;
    return HS_OK;
}

hs_code hs__raw_session_close(hs_raw_session *raw, hs_error *err)
{
    hs_code code = raw->handle ? raw->ops.close(raw->handle, err) : HS_OK;
    raw->handle = NULL;
    raw->runs_queues = false;
    hs__raw_session_free_states(raw);
    hs__raw_session_lose_late(raw);
    return hs__normalize_error(code, "closing the backend's session", err);
}

void hs__raw_session_free(hs_raw_session *raw)
{
    hs__raw_session_free_states(raw);
    hs__raw_session_free_late(raw);
    hs__raw_session_unshare(raw);
    hs__free(&raw->env, raw->restored_from);
}

/* Getters. */

hs_backend hs_raw_session_backend(const hs_raw_session *raw)
{
    return raw ? raw->backend : (hs_backend){NULL, NULL};
}

void *hs_raw_session_handle(const hs_raw_session *raw)
{
    return raw ? raw->handle : NULL;
}

const char *hs_raw_session_restored_from(const hs_raw_session *raw)
{
    return raw ? raw->restored_from : NULL;
}

int64_t hs_raw_session_restores(const hs_raw_session *raw)
{
    return raw ? raw->restores : 0;
}

int64_t hs_raw_session_last_saved_step(const hs_raw_session *raw)
{
    return raw ? raw->saved_step : -1;
}

/* The global step. */

hs_code hs__raw_session_step_unread(const hs_raw_session *raw, hs_code code, const int64_t *step, hs_error *err)
{
    if (!raw->ops.global_step)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "backend '%s' has no global step", raw->ops.name);
    if (!code)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "the global step is %lld; it must be at least 0",
                            (long long)*step);
    return hs__normalize_error(code, "reading the global step", err);
}

int64_t hs_raw_session_global_step(hs_raw_session *raw, hs_error *err)
{
    int64_t step;
    hs__clear(err);
    if (!raw || !raw->handle) {
        hs_error_set(err, HS_FAILED_PRECONDITION, "hs_raw_session_global_step: session is NULL or closed");
        return -1;
    }
    hs_raw_session_enter(raw);
    hs_code code = hs__raw_session_read_step(raw, &step, err);
    hs_raw_session_leave(raw);
    return code ? -1 : step;
}

/* Saves. */

void hs_raw_session_record_save(hs_raw_session *raw, int64_t step)
{
    if (!raw)
        return;
    raw->saved_step = step;
    raw->owner_ops->saved(raw->owner);
}

void hs_raw_session_refuse_saves(hs_raw_session *raw, const hs_error *why)
{
    if (!raw || raw->saves_refused.code)
        return;
    if (why && why->code)
        hs__error_copy(&raw->saves_refused, why);
    else
        hs_error_set(&raw->saves_refused, HS_FAILED_PRECONDITION, "a hook refused saves");
}

hs_code hs_raw_session_save_refusal(const hs_raw_session *raw, hs_error *out)
{
    static const hs_error second_signal = {.code = HS_CANCELLED, .message = "a second signal requested an immediate stop"};
    if (raw && raw->owner_ops->stops_unsaved(raw->owner))
        return hs__error_copy(out, &second_signal);
    return hs__error_copy(out, raw ? &raw->saves_refused : NULL);
}

/* Restores. */

static void begin_restored(hs_raw_session *raw)
{
    raw->restores++;
    hs_error_clear(&raw->saves_refused); /* the refused values are gone */
}

static char *replace_path(hs_raw_session *raw, char *path)
{
    char *before = raw->restored_from;
    raw->restored_from = path;
    return before;
}

char *hs__raw_session_restored(hs_raw_session *raw, char *path)
{
    begin_restored(raw);
    raw->rolled_back = false;
    int64_t step = hs_raw_session_global_step(raw, NULL);
    if (step >= 0)
        raw->saved_step = step;
    return replace_path(raw, path);
}

void hs__raw_session_reinitialized(hs_raw_session *raw)
{
    raw->restores++;
}

void hs__raw_session_rolled_back(hs_raw_session *raw, int64_t step)
{
    begin_restored(raw);
    raw->rolled_back = step >= 0;
    raw->rolled_back_to = step;
    hs__free(&raw->env, replace_path(raw, NULL));
}

void hs__raw_session_forget_restore(hs_raw_session *raw)
{
    hs__free(&raw->env, replace_path(raw, NULL));
    hs_error_clear(&raw->saves_refused);
}
