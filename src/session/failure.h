/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SESSION_FAILURE_H
#define HS_SESSION_FAILURE_H

#include <hooksess/hook.h>

#include <stdint.h>

/* Failures after which training continues: of the callbacks of best-effort hooks, of saves, of event writers, and of work
 * that hooks report (hs_raw_session_report_result). failure.c decides about all of them. */

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

#endif
