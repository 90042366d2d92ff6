/* SPDX-License-Identifier: Apache-2.0 */
/* How the variables of a session that was just opened get their values, in the order of TensorFlow's SessionManager.
 * session_create.c calls hs__last_good_restore, hs__startup_initialize if no checkpoint was restored, and
 * hs__startup_finish, which checks that the variables are ready. A worker calls hs__startup_wait instead. */
#include "session/session.h"

#include "base/text.h"

#include <stdio.h>
#include <string.h>

static hs_code run_op(hs_raw_session *session, const char *op, const hs_feed *feeds, const hs_run_values **values,
                      hs_error *err)
{
    hs_code code = hs_raw_session_run(session, HS_RUN_ARGS(.names = HS_NAMES(op), .feeds = feeds), values, err);
    if (code)
        hs_error_prefix(err, "cannot run '%s'", op);
    return code;
}

hs_code hs__startup_initialize(struct hs_session *session, hs_error *err)
{
    const hs_scaffold_options *scaffold = hs_scaffold_fields(session->scaffold);
    hs_code code = scaffold->init_op ? run_op(&session->raw, scaffold->init_op, scaffold->init_feeds, NULL, err) : HS_OK;
    if (!code && scaffold->init_fn) {
        code = scaffold->init_fn(scaffold->user, session->scaffold, &session->raw, err);
        if (hs__normalize_error(code, "it", err))
            hs_error_prefix(err, "init_fn");
    }
    return code;
}

/* Ready checks. */

/* Runs a check op, whose value is the names of variables that are not initialized. *ready is false if it has names, or
 * fails with HS_FAILED_PRECONDITION, as an op does that reads such a variable. Then `err` has the reason, and the result is
 * HS_OK. */
static hs_code run_check(hs_raw_session *session, const char *op, const char *what, bool *ready, hs_error *err)
{
    const hs_run_values *values;
    *ready = true;
    if (!op)
        return HS_OK;
    hs_code code = run_op(session, op, NULL, &values, err);
    if (code) {
        *ready = false;
        return code == HS_FAILED_PRECONDITION ? HS_OK : code;
    }
    const hs_tensor *names = hs_run_values_tensor(values, 0);
    if (!names || names->dtype != HS_STRING || names->memory || !names->bytes)
        return HS_OK;
    char text[HS_MESSAGE_SIZE / 2] = "";
    const hs_string *name = names->data;
    size_t n = names->bytes / sizeof *name;
    for (size_t i = 0; i < n; i++)
        hs__append_item(text, sizeof text, "%.*s", (int)name[i].bytes, name[i].data);
    *ready = false;
    hs_error_set(err, HS_FAILED_PRECONDITION, "the model is not %s; %zu variables are not initialized: %s", what, n, text);
    return HS_OK;
}

hs_code hs__startup_finish(struct hs_session *session, bool *ready, hs_error *err)
{
    const hs_scaffold_options *scaffold = hs_scaffold_fields(session->scaffold);
    hs_code code = HS_OK;
    if (scaffold->local_init_op) {
        code = run_check(&session->raw, scaffold->ready_for_local_init_op, "ready for local_init_op", ready, err);
        if (code || !*ready)
            return code;
        code = run_op(&session->raw, scaffold->local_init_op, scaffold->local_init_feeds, NULL, err);
    }
    return code ? code : run_check(&session->raw, scaffold->ready_op, "ready", ready, err);
}

/* Workers. */

/* A variable without a device exists in each process, and the chief initializes only its own. A worker's would never be
 * ready. */
static hs_code check_devices(const hs_raw_session *raw, hs_error *err)
{
    hs_variable variable;
    for (size_t i = 0; hs_backend_variable(raw->backend, i, &variable); i++)
        if (variable.device && !*variable.device && !(variable.flags & HS_VARIABLE_LOCAL))
            return hs_error_set(err, HS_INVALID_ARGUMENT,
                                "variable '%s' is not placed on a device, so a worker cannot share it with the chief; "
                                "place it, for example, on a parameter server",
                                variable.name);
    return HS_OK;
}

hs_code hs__startup_wait(struct hs_session *session, hs_error *err)
{
    const hs__creation *creation = &session->creation;
    hs_code code = check_devices(&session->raw, err);
    if (code)
        return code;
    double waited = 0, next_log_secs = 0;
    hs_error why = {0};
    for (;;) {
        bool ready;
        hs__clear(&why);
        code = hs__open_raw(session, &why);
        if (!code)
            code = hs__startup_finish(session, &ready, &why);
        if (!code && ready)
            return HS_OK;
        hs__close_raw(session, NULL);
        if (code && code != HS_UNAVAILABLE) /* HS_UNAVAILABLE: the chief may not have started yet */
            return hs__error_copy(err, &why), code;
        if (waited >= next_log_secs) { /* once a minute */
            hs_log(&session->env, HS_LOG_INFO, "waiting for the session to become ready: %s", why.message);
            next_log_secs = waited + 60;
        }
        const double left = creation->max_wait_secs - waited;
        const double secs = left < creation->recovery_wait_secs ? left : creation->recovery_wait_secs;
        if (hs__stop_requested(session))
            return hs_error_set(err, HS_CANCELLED, "a stop was requested while the session waited to become ready: %s",
                                why.message);
        if (secs <= 0)
            return hs_error_set(err, HS_DEADLINE_EXCEEDED, "the session did not become ready within %g s: %s", waited,
                                why.message);
        hs__pause(session, secs);
        waited += secs;
    }
}
