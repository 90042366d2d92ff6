/* SPDX-License-Identifier: Apache-2.0 */
/* What has failed, and was got over. */
#include "session/session.h"

#include "base/backoff.h"

#include <stdio.h>
#include <string.h>

static hs__failure *find(struct hs_session *session, const char *hook)
{
    for (size_t i = 0; i < session->n_failures; i++)
        if (strcmp(session->failures[i].hook, hook) == 0)
            return &session->failures[i];
    return NULL;
}

/* The one of that name; NULL: there is no memory for it, and the log is all that there is. */
static hs__failure *find_or_add(struct hs_session *session, const char *hook)
{
    char name[sizeof session->failures->hook];
    snprintf(name, sizeof name, "%s", hook);
    hs__failure *failure = find(session, name);
    if (failure || hs__reserve(&session->env, &session->failures, &session->failures_capacity, session->n_failures + 1,
                               sizeof *session->failures, NULL))
        return failure;
    failure = &session->failures[session->n_failures++];
    *failure = (hs__failure){.first_step = -1};
    memcpy(failure->hook, name, sizeof name);
    return failure;
}

static hs__failure *count(struct hs_session *session, const char *who, const hs_error *error)
{
    int64_t step = hs_session_global_step(session, NULL);
    hs__failure *failure = find_or_add(session, who);
    if (!failure)
        return NULL;
    if (!failure->failures++)
        failure->first_step = step;
    failure->last_step = step;
    failure->last = *error;
    return failure;
}

void hs_raw_session_report_failure(hs_raw_session *raw, const char *who, const hs_error *error)
{
    static const hs_error unknown = {.code = HS_UNKNOWN, .message = "unknown failure"};
    if (raw && who && *who)
        count(hs__session_of(raw), who, error && error->code ? error : &unknown);
}

void hs__report_writer(void *session, const hs_error *error)
{
    hs_raw_session_report_failure(&((struct hs_session *)session)->raw, "summary writer", error);
}

bool hs_raw_session_failure(const hs_raw_session *raw, size_t index, hs_hook_failure *out)
{
    if (!raw || !out || index >= hs__session_of(raw)->n_failures)
        return false;
    const hs__failure *failure = &hs__session_of(raw)->failures[index];
    *out = (hs_hook_failure){.hook = failure->hook,
                             .failures = failure->failures,
                             .first_step = failure->first_step,
                             .last_step = failure->last_step,
                             .muted = failure->muted && !failure->muted->kinds,
                             .last = failure->last};
    return true;
}

hs_code hs__mute(struct hs_session *session, hs__hook *hook, const char *callback, hs_error *err)
{
    hs__failure *failure = count(session, hook->rest->ops.name, err);
    bool was_muted = hook->kinds == 0;
    if (failure)
        failure->muted = hook;
    session->n_failing += hook->rest->in_a_row++ == 0;
    hook->rest->failing = callback;
    hs__set_kinds(hook, 0);
    bool for_good = hook->rest->max_failures && hook->rest->in_a_row >= hook->rest->max_failures;
    hook->rest->back_ns = for_good ? INT64_MAX : hs_env_monotonic_ns(&session->env) + hs__backoff_ns(hook->rest->in_a_row);
    if (!was_muted && !for_good)
        session->n_muted++;
    else if (was_muted && for_good)
        session->n_muted--;
    if (for_good) {
        session->n_slow -= hook->slow > 0; /* it is not timed any more */
        hook->slow = 0;
        hs_log(&session->env, HS_LOG_WARNING, "%s; training continues without this hook", err->message);
    } else {
        hs_log(&session->env, hook->rest->in_a_row == 1 ? HS_LOG_WARNING : HS_LOG_INFO,
               "%s; training continues, and the hook is called again after %lld s", err->message,
               (long long)(hs__backoff_ns(hook->rest->in_a_row) / 1000000000));
    }
    hs__clear(err);
    return HS_OK;
}

/* What failed was the telling of the session that was made: it is told now. */
static void create_late(struct hs_session *session, hs__hook *hook)
{
    hs_error error = {0};
    hs_code code = hook->rest->ops.after_create_session(hook->self, &session->raw, session->coordinator, &error);
    hook->rest->uncreated = code != HS_OK;
    if (code) {
        hs__hook_failed(session, hook, "after_create_session", code, &error);
        hs__mute(session, hook, "after_create_session", &error);
    } else {
        hs__works_again(session, hook, "after_create_session");
    }
}

void hs__unmute(struct hs_session *session)
{
    int64_t now = hs_env_monotonic_ns(&session->env);
    for (size_t i = 0; i < session->n_hooks; i++) {
        hs__hook *hook = &session->hooks[i];
        if (hook->kinds || hook->rest->back_ns == INT64_MAX || now < hook->rest->back_ns)
            continue;
        hs__set_kinds(hook, hook->rest->wanted_kinds);
        session->n_muted--;
        if (hook->rest->uncreated)
            create_late(session, hook);
    }
}

void hs__works_again(struct hs_session *session, hs__hook *hook, const char *callback)
{
    bool of_run = strcmp(hook->rest->failing, "save_state") != 0 && strcmp(hook->rest->failing, "load_state") != 0;
    if (of_run && strcmp(hook->rest->failing, callback) != 0)
        return;
    hs_log(&session->env, HS_LOG_INFO, "hook '%s' recovered after %lld failure%s in a row", hook->rest->ops.name,
           (long long)hook->rest->in_a_row, hook->rest->in_a_row == 1 ? "" : "s");
    hook->rest->in_a_row = 0;
    session->n_failing--;
}

void hs__tell_failures(const struct hs_session *session)
{
    for (size_t i = 0; i < session->n_failures; i++) {
        const hs__failure *failure = &session->failures[i];
        hs_log(&session->env, HS_LOG_WARNING, "'%s' failed %lld time%s, and training continued; last error: %s",
               failure->hook, (long long)failure->failures, failure->failures == 1 ? "" : "s", failure->last.message);
    }
}
