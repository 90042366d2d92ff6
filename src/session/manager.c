/* SPDX-License-Identifier: Apache-2.0 */
#include "session/manager.h"

#include "checkpoint/saver.h"

#include <string.h>

static hs_code run_op(hs_raw_session *session, const char *op, const hs_feed *feeds, hs_error *err)
{
    hs_code code =
        hs_raw_session_run(session, &(hs_run_args){HS_RUN_ARGS, .names = HS_NAMES(op), .feeds = feeds}, NULL, err);
    if (code)
        hs_error_prefix(err, "running '%s'", op);
    return code;
}

static void tell_restored(const hs_raw_session *session, const char *path)
{
    int64_t step;
    if (hs_raw_session_step((hs_raw_session *)session, &step, NULL) == HS_OK)
        hs_log(&session->env, HS_LOG_INFO, "restored '%s', step %lld", path, (long long)step);
    else
        hs_log(&session->env, HS_LOG_INFO, "restored '%s'", path);
}

static hs_code restore_newest(hs_raw_session *session, hs_saver *saver, const hs__origin *origin, bool *restored,
                              hs_error *err)
{
    char *found = NULL;
    hs_code code = hs__restore_newest(saver, session, origin->directory, origin->options, &found, err);
    *restored = found != NULL;
    if (found)
        tell_restored(session, found);
    else if (!code && origin->policy == HS_RESTORE_REQUIRE)
        code = hs_error_set(err, HS_NOT_FOUND, "%s: there is no checkpoint, and one is required", origin->directory);
    hs__free(&session->env, found);
    return code;
}

static hs_code restore(hs_raw_session *session, hs_saver *saver, const hs__origin *origin, bool *restored, hs_error *err)
{
    *restored = false;
    if (origin->path && *origin->path) {
        hs_code code = hs_saver_restore(saver, session, origin->path, origin->options, err);
        *restored = !code;
        return code;
    }
    if (!origin->directory || !*origin->directory || origin->policy == HS_RESTORE_NEVER)
        return HS_OK;
    return restore_newest(session, saver, origin, restored, err);
}

static hs_code initialize(hs_raw_session *session, hs_scaffold *scaffold, hs_error *err)
{
    const char *init_op = hs_scaffold_init_op(scaffold);
    hs_init_fn init_fn = hs_scaffold_init_fn(scaffold);
    hs_code code = init_op ? run_op(session, init_op, hs_scaffold_init_feeds(scaffold), err) : HS_OK;
    if (!code && init_fn) {
        code = init_fn(hs_scaffold_init_user(scaffold), scaffold, session, err);
        if (hs__settle(code, "it", err))
            hs_error_prefix(err, "the init function");
    }
    return code;
}

/* Runs a check, which gives the names of what is not ready. */
static hs_code check(hs_raw_session *session, const char *op, const char *what, hs_error *err)
{
    const hs_run_values *values;
    if (!op)
        return HS_OK;
    hs_code code = hs_raw_session_run(session, &(hs_run_args){HS_RUN_ARGS, .names = HS_NAMES(op)}, &values, err);
    if (code) {
        hs_error_prefix(err, "running '%s'", op);
        return code;
    }
    const hs_tensor *list = hs_values_tensor(values, 0);
    if (!list || list->dtype != HS_STRING || list->memory || !list->bytes)
        return HS_OK;
    const hs_string *names = list->data;
    char text[HS_MESSAGE_SIZE / 2];
    size_t used = 0, n = list->bytes / sizeof *names;
    for (size_t i = 0; i < n && used + names[i].bytes + 3 < sizeof text; i++) {
        if (i) {
            memcpy(text + used, ", ", 2);
            used += 2;
        }
        memcpy(text + used, names[i].data, names[i].bytes);
        used += names[i].bytes;
    }
    return hs_error_set(err, HS_FAILED_PRECONDITION,
                        "after initialising, the model is not %s; %zu variables are not initialised: %.*s", what, n,
                        (int)used, text);
}

hs_code hs__prepare_session(hs_raw_session *session, hs_scaffold *scaffold, const hs__origin *origin, hs_error *err)
{
    bool restored;
    hs_code code = restore(session, hs_scaffold_saver(scaffold), origin, &restored, err);
    if (!code && !restored)
        code = initialize(session, scaffold, err);
    if (code)
        return code;
    const char *local_init_op = hs_scaffold_local_init_op(scaffold);
    if (local_init_op &&
        ((code = check(session, hs_scaffold_ready_for_local_init_op(scaffold), "ready for the local init op", err)) ||
         (code = run_op(session, local_init_op, hs_scaffold_local_init_feeds(scaffold), err))))
        return code;
    return check(session, hs_scaffold_ready_op(scaffold), "ready", err);
}
