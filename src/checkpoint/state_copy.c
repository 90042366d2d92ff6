/* SPDX-License-Identifier: Apache-2.0 */
/* hs_state_copy: a snapshot of variables and states. restore.c restores it. */
#include "checkpoint/restore.h"
#include "checkpoint/save_list.h"
#include "checkpoint/snapshot.h"

#include <stdio.h>

struct hs_state_copy {
    hs_env env; /* a copy of the session's, because the state copy may outlive the session */
    hs__snapshot snapshot;
    bool whole;   /* false: a later copy reused its memory and failed */
    int64_t step; /* -1: no global step */
};

/* All variables, under their own names. */
static const hs__selection COPIED = {.without_slices = true};

static hs_state_copy *new_copy(const hs_env *env, hs_error *err)
{
    hs_state_copy *copy = hs__alloc(env, 1, sizeof *copy);
    if (!copy) {
        hs__no_memory(err, sizeof *copy, "a copy of the state");
        return NULL;
    }
    copy->env = *env;
    int result = hs__snapshot_init(&copy->snapshot, &copy->env);
    if (!result)
        return copy;
    hs__free(env, copy);
    hs_error_set_errno(err, result, "cannot create a copy of the state");
    return NULL;
}

static hs_code fill(hs_state_copy *copy, hs_raw_session *session, hs_error *err)
{
    hs__save_list list;
    copy->whole = false;
    hs_code code = hs__save_list_make(&list, &session->env, &COPIED, session, err);
    if (!code)
        code = hs__snapshot_take(&copy->snapshot, &list, false, err);
    hs__save_list_free(&list);
    if (code)
        return code;
    hs_error error;
    copy->step = hs_raw_session_global_step(session, &error);
    copy->whole = !error.code || error.code == HS_FAILED_PRECONDITION; /* no global step */
    return copy->whole ? HS_OK : hs__error_copy(err, &error);
}

hs_code hs_raw_session_copy_state(hs_raw_session *session, hs_state_copy **copy, hs_error *err)
{
    hs_error_clear(err);
    if (!session || !session->handle || !copy)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_raw_session_copy_state: %s",
                            copy ? "session is NULL" : "copy is NULL");
    hs_state_copy *taken = *copy ? *copy : new_copy(&session->env, err);
    if (!taken)
        return HS_RESOURCE_EXHAUSTED;
    hs_code code = fill(taken, session, err);
    if (!code) {
        hs_error_clear(err);
        *copy = taken;
    } else if (!*copy) {
        hs_state_copy_free(taken);
    }
    return code;
}

int64_t hs_state_copy_step(const hs_state_copy *copy)
{
    return copy && copy->whole ? copy->step : -1;
}

void hs_state_copy_free(hs_state_copy *copy)
{
    if (!copy)
        return;
    hs_env env = copy->env;
    hs__snapshot_free(&copy->snapshot);
    hs__free(&env, copy);
}

hs_code hs_raw_session_restore_copy(hs_raw_session *session, const hs_state_copy *copy, hs_error *err)
{
    char source[64];
    hs_error_clear(err);
    if (!session || !session->handle || !copy)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_raw_session_restore_copy: %s is NULL", copy ? "session" : "copy");
    if (!copy->whole)
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "the copy of the state is lost: a later copy reused its memory and failed");
    if (session->loading_states)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "cannot restore a copy while a state is being loaded");
    snprintf(source, sizeof source, "the copy of step %lld", (long long)copy->step);
    const hs_restore_options options = HS_INIT(hs_restore_options);
    hs__archive archive = hs__snapshot_archive(&copy->snapshot, source);
    hs_code code = hs__raw_session_reserve_return(session, err);
    if (!code)
        code = hs__restore_archive(&COPIED, session, &archive, &options, err);
    if (!code) {
        hs__raw_session_restored_earlier(session, copy->step);
        hs_error_clear(err);
    }
    return code;
}
