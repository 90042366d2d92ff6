/* SPDX-License-Identifier: Apache-2.0 */
/* Failures after which training continues: counts them, and suspends or disables the best-effort hooks that failed. */
#include "session/session.h"

#include "base/backoff.h"

#include <stdio.h>
#include <string.h>

/* Returns NULL if memory is exhausted. The failure is then only in the log. */
static hs__failure *record_failure(struct hs_session *session, const char *who, const hs_error *error)
{
    hs__failures *all = &session->failures;
    hs__failure *failure = NULL;
    char name[sizeof failure->hook];
    int64_t step = hs_session_global_step(session, NULL);
    snprintf(name, sizeof name, "%s", who);
    for (size_t i = 0; !failure && i < all->n; i++)
        if (strcmp(all->items[i].hook, name) == 0)
            failure = &all->items[i];
    if (!failure) {
        if (hs__reserve(&session->env, &all->items, &all->capacity, all->n + 1, sizeof *all->items, NULL))
            return NULL;
        failure = &all->items[all->n++];
        *failure = (hs__failure){.first_step = step};
        memcpy(failure->hook, name, sizeof name);
    }
    failure->failures++;
    failure->last_step = step;
    failure->last = *error;
    return failure;
}

void hs_raw_session_report_failure(hs_raw_session *raw, const char *who, const hs_error *error)
{
    static const hs_error unknown = {.code = HS_UNKNOWN, .message = "unknown failure"};
    if (raw && who && *who)
        record_failure(hs__session_of(raw), who, error && error->code ? error : &unknown);
}

void hs__report_writer_failure(void *session, const hs_error *error)
{
    hs_raw_session_report_failure(&((struct hs_session *)session)->raw, "summary writer", error);
}

bool hs_raw_session_failure(const hs_raw_session *raw, size_t index, hs_hook_failure *out)
{
    if (!raw || !out || index >= hs__session_of(raw)->failures.n)
        return false;
    const hs__failure *failure = &hs__session_of(raw)->failures.items[index];
    *out = (hs_hook_failure){.hook = failure->hook,
                             .failures = failure->failures,
                             .first_step = failure->first_step,
                             .last_step = failure->last_step,
                             .muted = failure->muted && !failure->muted->kinds,
                             .last = failure->last};
    return true;
}

void hs__count_failures(const struct hs_session *session, hs_outcome *outcome)
{
    outcome->failing_hooks = (int32_t)session->failures.n;
    outcome->failures = 0;
    for (size_t i = 0; i < session->failures.n; i++)
        outcome->failures += session->failures.items[i].failures;
}

void hs__failures_free(struct hs_session *session)
{
    hs__free(&session->env, session->failures.items);
}

void hs__mute(struct hs_session *session, hs__hook *hook, const char *callback, hs_error *err)
{
    hs__failure *failure = record_failure(session, hook->cold->ops.name, err);
    bool was_muted = hook->kinds == 0;
    if (failure)
        failure->muted = hook;
    session->failures.n_failing += hook->cold->failures_in_a_row++ == 0;
    hook->cold->failing = callback;
    hs__set_kinds(hook, 0);
    session->plans[0].is_whole = false;
    bool disable = hook->cold->max_failures && hook->cold->failures_in_a_row >= hook->cold->max_failures;
    hook->cold->retry_at_ns =
        disable ? INT64_MAX : hs_env_monotonic_ns(&session->env) + hs__backoff_ns(hook->cold->failures_in_a_row);
    if (!was_muted && !disable)
        session->failures.n_muted++;
    else if (was_muted && disable)
        session->failures.n_muted--;
    if (disable) {
        hs_log(&session->env, HS_LOG_WARNING, "%s; training continues without this hook", err->message);
    } else {
        hs_log(&session->env, hook->cold->failures_in_a_row == 1 ? HS_LOG_WARNING : HS_LOG_INFO,
               "%s; training continues, and the hook is called again after %lld s", err->message,
               (long long)(hs__backoff_ns(hook->cold->failures_in_a_row) / 1000000000));
    }
    hs__clear(err);
}

/* Calls after_create_session again, which failed before the hook was suspended. */
static void retry_create(struct hs_session *session, hs__hook *hook)
{
    hs_error error = {0};
    session->callee = hook;
    hs_code code = hook->cold->ops.after_create_session(hook->self, &session->raw, session->coordinator, &error);
    hook->cold->create_pending = code != HS_OK;
    if (code) {
        hs__hook_failed(session, hook, "after_create_session", code, &error);
        hs__mute(session, hook, "after_create_session", &error);
    } else {
        hs__clear_failures(session, hook, "after_create_session");
    }
}

void hs__unmute_due(struct hs_session *session)
{
    int64_t now = hs_env_monotonic_ns(&session->env);
    for (size_t i = 0; i < session->n_hooks; i++) {
        hs__hook *hook = &session->hooks[i];
        if (hook->kinds || hook->cold->retry_at_ns == INT64_MAX || now < hook->cold->retry_at_ns)
            continue;
        hs__set_kinds(hook, hook->cold->wanted_kinds);
        session->failures.n_muted--;
        session->schedule.next_run = 0; /* it may be due */
        session->plans[0].is_whole = false;
        if (hook->cold->create_pending)
            retry_create(session, hook);
    }
}

/* After a failure of save_state or load_state, any callback that succeeds clears the failures. */
void hs__clear_failures(struct hs_session *session, hs__hook *hook, const char *callback)
{
    bool same_callback_only =
        strcmp(hook->cold->failing, "save_state") != 0 && strcmp(hook->cold->failing, "load_state") != 0;
    if (same_callback_only && strcmp(hook->cold->failing, callback) != 0)
        return;
    hs_log(&session->env, HS_LOG_INFO, "hook '%s' recovered after %lld failure%s in a row", hook->cold->ops.name,
           (long long)hook->cold->failures_in_a_row, hook->cold->failures_in_a_row == 1 ? "" : "s");
    hook->cold->failures_in_a_row = 0;
    session->failures.n_failing--;
}

void hs__log_failures(const struct hs_session *session)
{
    for (size_t i = 0; i < session->failures.n; i++) {
        const hs__failure *failure = &session->failures.items[i];
        hs_log(&session->env, HS_LOG_WARNING, "'%s' failed %lld time%s, and training continued; last error: %s",
               failure->hook, (long long)failure->failures, failure->failures == 1 ? "" : "s", failure->last.message);
    }
}
