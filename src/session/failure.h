/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SESSION_FAILURE_H
#define HS_SESSION_FAILURE_H

#include <hooksess/hook.h>
#include <hooksess/outcome.h>

#include <stdint.h>

/* Failures after which training continues: of the callbacks of best-effort hooks, of saves, of event writers, and of work
 * that hooks report (hs_raw_session_report_result). failure.c decides about all of them. */

struct hs_session;
struct hs__hook;

/* The failures of one reporter: the callbacks of a hook, or one kind of work. Listed from the first failure on. */
typedef struct hs__failure {
    struct hs__failure *next;
    const struct hs__hook *hook; /* whose callback does the work. NULL: the program, or an event writer */
    const char *callback;        /* the callback that failed last. NULL: reported work */
    char name[64];
    bool is_allocated; /* otherwise it is a member of the hook */
    int64_t failures, in_a_row, first_step, last_step;
    int64_t retry_at_ns; /* after a failure: when the next attempt is allowed, or one of the next two */
    hs_error last;
} hs__failure;

#define HS__RETRY_BY_SCHEDULE INT64_MIN
#define HS__RETRY_NEVER       INT64_MAX

typedef struct hs__failures {
    hs__failure *first;
    size_t n_muted;    /* hooks that are not called until their backoff ends */
    size_t n_failing;  /* hooks whose last call of some callback failed */
    size_t n_reported; /* kinds of work whose last attempt failed */
} hs__failures;

void hs__failures_free(struct hs_session *session);
void hs__count_failures(const struct hs_session *session, hs_outcome *outcome);
/* A callback failed. Completes the error, with the names of hook and callback, and returns `code`. A best-effort hook is
 * muted until its backoff ends, or disabled after max_failures; then the error is logged and cleared. Returns HS_OK. */
hs_code hs__hook_failed(struct hs_session *session, struct hs__hook *hook, const char *callback, hs_code code,
                        hs_error *err);
/* Completes the error only. */
void hs__name_failed_hook(struct hs_session *session, const struct hs__hook *hook, const char *callback, hs_code code,
                          hs_error *err);
/* If hooks are muted: those whose backoff has ended are called again. */
void hs__unmute_due(struct hs_session *session);
/* The callback succeeded. If its last call failed, this ends the hook's failures in a row. */
void hs__hook_succeeded(struct hs_session *session, struct hs__hook *hook, const char *callback);
void hs__log_failures(const struct hs_session *session);
/* For the writer cache: counts failures after which the writer continues. */
void hs__report_writer_failures(void *session, int64_t n, const hs_error *error);

#endif
