/* SPDX-License-Identifier: Apache-2.0 */
/* Decides what a failure of a hook, a save or other work means: retry after a backoff, skip, pause or fail. Counts the
 * failures after which training continues, and logs them. */
#include "session/session.h"

#include <hooksess/hooks/checkpoint_saver.h>

#include "base/backoff.h"

#include <stdio.h>
#include <string.h>

enum { SECOND = 1000000000 };

/* What the code and the errno of an error decide. The first row that applies counts. docs/errors.md shows this table. The
 * failure of a best-effort hook is retried, whatever the code is. */
enum { FAIL, SKIP, AS_ON_FAILURE_SAYS };
static const struct decision {
    hs_code code; /* HS_OK: any code */
    bool has_errno;
    int save, other_work;
} decisions[] = {
    {HS_ABORTED, false, FAIL, SKIP}, /* the session recovers */
    {HS_UNAVAILABLE, false, FAIL, SKIP},
    {HS_RESOURCE_EXHAUSTED, false, AS_ON_FAILURE_SAYS, SKIP},
    {HS_OK, true, AS_ON_FAILURE_SAYS, SKIP},
    {HS_INVALID_ARGUMENT, false, FAIL, FAIL},
    {HS_OK, false, FAIL, SKIP},
};

static const struct decision *decide(const hs_error *error)
{
    const struct decision *row = decisions;
    while ((row->code && row->code != error->code) || (row->has_errno && !error->os_error))
        row++;
    return row;
}

/* Records. */

static hs__failure *find_work(const struct hs_session *session, const hs__hook *hook, const char *name)
{
    hs__failure *f = session->failures.first;
    while (f && (f->callback || f->hook != hook || strncmp(f->name, name, sizeof f->name - 1) != 0))
        f = f->next;
    return f;
}

/* Counts a failure, and adds its record to the list. `f` NULL: memory is exhausted, and only the log has the failure. */
static void count(struct hs_session *session, hs__failure *f, const hs__hook *hook, const char *name, int64_t step,
                  const hs_error *error)
{
    hs__failure **end = &session->failures.first;
    if (!f)
        return;
    if (!f->failures++) {
        while (*end)
            end = &(*end)->next;
        *end = f;
        f->hook = hook;
        f->first_step = step;
        snprintf(f->name, sizeof f->name, "%s", name);
    }
    if (!f->in_a_row++)
        ++*(f->callback ? &session->failures.n_failing : &session->failures.n_reported);
    f->last_step = step;
    f->last = *error;
    f->retry_at_ns = HS__RETRY_BY_SCHEDULE;
}

static void recovered(struct hs_session *session, hs__failure *f)
{
    hs_log(&session->env, HS_LOG_INFO, "%s'%s' recovered after %lld failure%s in a row", f->callback ? "hook " : "",
           f->name, (long long)f->in_a_row, f->in_a_row == 1 ? "" : "s");
    f->in_a_row = 0;
    --*(f->callback ? &session->failures.n_failing : &session->failures.n_reported);
}

/* Work that is reported. */

/* Returns the record of the work, a new one, or NULL if memory is exhausted. */
static hs__failure *record_of(const struct hs_session *session, const hs__hook *hook, const char *name)
{
    hs__failure *f = find_work(session, hook, name);
    if (!f && hook && strcmp(name, hook->cold->ops.name) == 0)
        return &hook->cold->work_failure;
    if (!f && (f = hs__alloc(&session->env, 1, sizeof *f)))
        *f = (hs__failure){.is_allocated = true};
    return f;
}

hs_code hs_raw_session_report_result(hs_raw_session *raw, const char *name, hs_code code, hs_error *err)
{
    struct hs_session *session = raw ? raw->owner : NULL;
    hs_error none = {0}, *error = err ? err : &none;
    hs__failure *f = NULL;
    name = name && *name ? name : "unnamed work";
    if (code && !error->message[0])
        hs_error_set(error, code, "it failed with %s", hs_code_name(code));
    error->code = code;
    if (code && (!session || decide(error)->other_work == FAIL))
        return code;
    if (code) {
        const int64_t step = hs_session_global_step(session, NULL);
        char at[32] = "";
        if (step >= 0)
            snprintf(at, sizeof at, "step %lld: ", (long long)step);
        f = record_of(session, session->callee, name);
        count(session, f, session->callee, name, step, error);
        hs_log(&session->env, f && f->in_a_row > 1 ? HS_LOG_DEBUG : HS_LOG_WARNING, "%s%s: %s; training continues", at,
               name, error->message);
    } else if (session && session->failures.n_reported && (f = find_work(session, session->callee, name)) && f->in_a_row) {
        recovered(session, f);
    }
    hs__clear(error);
    return HS_OK;
}

void hs__report_writer_failures(void *of, int64_t n, const hs_error *error)
{
    struct hs_session *session = of;
    static const char name[] = "summary writer";
    hs__failure *f = record_of(session, NULL, name);
    count(session, f, NULL, name, hs_session_global_step(session, NULL), error);
    if (f)
        f->failures += n - 1;
}

/* Saves. */

/* Returns false if a stop leaves no time to wait, and to save and close after that. */
static bool is_time_for(struct hs_session *session, int64_t wait_ns)
{
    enum { CLOSING_SECS = 5 };
    const double left_secs = hs__grace_left_secs(session); /* until the process may be killed */
    return left_secs == HS_NEVER || left_secs >= (double)wait_ns / 1e9 + session->save_secs + CLOSING_SECS;
}

hs__remedy hs__raw_session_save_failed(hs_raw_session *raw, int64_t step, int on_failure, bool repeatable, hs_error *error)
{
    enum { MOST_FAILURES = 5 };
    struct hs_session *session = raw->owner;
    hs__failure *f = &session->callee->cold->work_failure;
    const hs_boundary which = session->context.boundary;
    const bool is_last = repeatable && (which == HS_BOUNDARY_STOP || which == HS_BOUNDARY_END); /* no save follows */
    const bool pauses = on_failure == HS_SAVE_FAILURE_PAUSE, retries = on_failure == HS_SAVE_FAILURE_RETRY;
    const int64_t wait_ns = pauses ? SECOND : hs__backoff_ns(f->in_a_row + 1);
    bool repeats = repeatable && pauses && !hs_raw_session_stop_requested(raw);
    if (decide(error)->save == FAIL)
        return HS__REMEDY_FAIL;
    if (is_last) {
        repeats = pauses || (retries && f->in_a_row + 1 < MOST_FAILURES);
        if (repeats && !is_time_for(session, wait_ns)) {
            hs_error_prefix(error, "after the request to stop there is no time to retry");
            repeats = false;
        }
        if (!repeats)
            hs_error_prefix(error, "not saved");
    }
    if (on_failure == HS_SAVE_FAILURE_FAIL || (is_last && !repeats))
        return HS__REMEDY_FAIL;

    count(session, f, session->callee, session->callee->cold->ops.name, step, error);
    if (pauses || retries)
        f->retry_at_ns = hs_env_monotonic_ns(&session->env) + (pauses ? 0 : wait_ns);
    char next[64] = "training continues";
    if (repeats || retries)
        snprintf(next, sizeof next, "%sretrying in %lld s", repeats ? "" : "training continues, ",
                 (long long)(wait_ns / SECOND));
    hs_log(&session->env, repeats && f->in_a_row > 1 ? HS_LOG_DEBUG : HS_LOG_WARNING, "step %lld: not saved: %s; %s",
           (long long)step, error->message, next);
    if (repeats)
        hs_env_sleep_ns(&session->env, wait_ns);
    hs__clear(error);
    return repeats ? HS__REMEDY_REPEAT : HS__REMEDY_CONTINUE;
}

bool hs__raw_session_saves_fail(const hs_raw_session *raw)
{
    return raw->owner->callee->cold->work_failure.in_a_row > 0;
}

bool hs__raw_session_may_save(const hs_raw_session *raw, bool is_due)
{
    const struct hs_session *session = raw->owner;
    const hs__failure *f = &session->callee->cold->work_failure;
    if (!f->in_a_row || f->retry_at_ns == HS__RETRY_BY_SCHEDULE)
        return is_due;
    return hs_env_monotonic_ns(&session->env) >= f->retry_at_ns;
}

/* Best-effort hooks. */

/* The hook is called again when the backoff ends, or never after max_failures. */
static void mute(struct hs_session *session, hs__hook *hook, const char *callback, const hs_error *error)
{
    const hs_env *env = &session->env;
    hs__failure *f = &hook->cold->failure;
    const bool was_muted = hook->kinds == 0;
    f->callback = callback;
    count(session, f, hook, hook->cold->ops.name, hs_session_global_step(session, NULL), error);
    hs__set_kinds(hook, 0);
    session->plans[0].is_whole = false;
    const bool disables = hook->cold->max_failures && f->in_a_row >= hook->cold->max_failures;
    const int64_t wait_ns = hs__backoff_ns(f->in_a_row);
    f->retry_at_ns = disables ? HS__RETRY_NEVER : hs_env_monotonic_ns(env) + wait_ns;
    session->failures.n_muted += !disables;
    session->failures.n_muted -= was_muted;
    if (disables)
        hs_log(env, HS_LOG_WARNING, "%s; training continues without this hook", error->message);
    else
        hs_log(env, f->in_a_row > 1 ? HS_LOG_DEBUG : HS_LOG_WARNING, "%s; training continues, retrying in %lld s",
               error->message, (long long)(wait_ns / SECOND));
}

void hs__name_failed_hook(struct hs_session *session, const hs__hook *hook, const char *callback, hs_code code,
                          hs_error *err)
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

hs_code hs__hook_failed(struct hs_session *session, hs__hook *hook, const char *callback, hs_code code, hs_error *err)
{
    hs__name_failed_hook(session, hook, callback, code, err);
    if (!hook->cold->best_effort)
        return code;
    mute(session, hook, callback, err);
    hs__clear(err);
    return HS_OK;
}

/* After a failure of save_state or load_state, any callback that succeeds ends the failures in a row. */
void hs__hook_succeeded(struct hs_session *session, hs__hook *hook, const char *callback)
{
    const char *failed = hook->cold->failure.callback;
    if (!hook->cold->failure.in_a_row)
        return;
    if (strcmp(failed, callback) == 0 || strcmp(failed, "save_state") == 0 || strcmp(failed, "load_state") == 0)
        recovered(session, &hook->cold->failure);
}

void hs__unmute_due(struct hs_session *session)
{
    const int64_t now = hs_env_monotonic_ns(&session->env);
    for (size_t i = 0; i < session->n_hooks; i++) {
        hs__hook *hook = &session->hooks[i];
        if (hook->kinds || now < hook->cold->failure.retry_at_ns || hs__is_disabled(hook))
            continue;
        hs__set_kinds(hook, hook->cold->wanted_kinds);
        session->failures.n_muted--;
        session->schedule.next_run = 0; /* it may be due */
        session->plans[0].is_whole = false;
        if (hook->cold->create_pending)
            hs__create_hook(session, hook, &(hs_error){0});
    }
}

/* What the session reports of all failures. */

bool hs_raw_session_failure(const hs_raw_session *raw, size_t index, hs_hook_failure *out)
{
    const hs__failure *f = raw ? raw->owner->failures.first : NULL;
    for (; f && index; index--)
        f = f->next;
    if (!f || !out)
        return false;
    *out = (hs_hook_failure){.hook = f->name,
                             .failures = f->failures,
                             .first_step = f->first_step,
                             .last_step = f->last_step,
                             .muted = f->callback && !f->hook->kinds,
                             .last = f->last};
    return true;
}

void hs__count_failures(const struct hs_session *session, hs_outcome *outcome)
{
    outcome->failing_hooks = 0;
    outcome->failures = 0;
    for (const hs__failure *f = session->failures.first; f; f = f->next) {
        outcome->failing_hooks++;
        outcome->failures += f->failures;
    }
}

void hs__log_failures(const struct hs_session *session)
{
    for (const hs__failure *f = session->failures.first; f; f = f->next)
        hs_log(&session->env, HS_LOG_WARNING, "'%s' failed %lld time%s, and training continued; last error: %s", f->name,
               (long long)f->failures, f->failures == 1 ? "" : "s", f->last.message);
}

void hs__failures_free(struct hs_session *session)
{
    for (hs__failure *f = session->failures.first, *next; f; f = next) {
        next = f->next;
        if (f->is_allocated)
            hs__free(&session->env, f);
    }
}
