/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SESSION_SCHEDULE_H
#define HS_SESSION_SCHEDULE_H

#include <hooksess/hook.h>

/* When the hooks of a session act (hs_hook.when). Hooks without conditions are called in each run. Of the others, those
 * with before_run or fetches are decided before a run, for the last global step plus one, and the rest after it, by the
 * step read then. A run compares the step and the time with the earliest at which a hook is due, and calls none before.
 *
 * hs__schedule_before and hs__schedule_after are inline at the end of session.h. */

/* A flag of a hook whose before_run only watches, so that it does not decide when the hook is called. */
#define HS__HOOK_WATCHES_BEFORE ((uint32_t)1 << 31)
/* A flag of a hook that is called in the first run after each creation, restore and save only. */
#define HS__HOOK_AFTER_SAVES    ((uint32_t)1 << 30)

struct hs__hook;
struct hs_session;

/* One hook with conditions: those of its trigger, in the order of hs_trigger, and its position. */
typedef struct hs__hook_schedule {
    bool is_set;     /* the hook has conditions */
    bool is_before;  /* it is decided before the run */
    bool is_saved;   /* checkpoints have its position: other hooks begin again in each session */
    bool chief_only; /* its clock and its requests are those of this rank, and not the group's */
    bool on_request, first, last, counts_runs;
    bool after_saves, is_news;       /* HS__HOOK_AFTER_SAVES: and there was one */
    uint8_t kinds;                   /* bits of hs_run_kind, for counts_runs */
    int64_t every_n_steps, every_ns; /* 0: not used */
    int64_t *steps;                  /* ascending */
    size_t n_steps;
    bool sets_due;    /* hs_raw_session_due_from was called, which is a condition */
    int64_t due_from; /* its step; INT64_MAX: none */

    bool started;  /* since the session was created, a state was loaded, or the step was set back */
    bool acts;     /* it is called in this run */
    bool marked;   /* every_n_steps counts from counts_from, and every_n_secs from last_ns */
    bool by_when;  /* a condition of hs_hook.when was met in the last decision, */
    bool by_steps; /* which was `first` or every_n_steps */
    int64_t counts_from;
    int64_t runs_before; /* with counts_runs: runs of earlier sessions */
    int64_t next_listed; /* INT64_MAX: none; UNKNOWN: not started */
    int64_t acted;       /* the step at which it last acted or was started */
    bool has_acted;      /* it has acted there */
    int64_t last_ns;     /* 0: not known */
    int64_t requests;    /* save requests up to the decision of its last act, */
    int64_t requested;   /* and up to the last decision */
} hs__hook_schedule;

typedef struct hs__schedule {
    size_t n_added;        /* hooks to whose `when` hs__schedule_add was called */
    struct hs__hook **due; /* the hooks that this run calls, in the order of the session's list */
    size_t n_due;
    bool has_conditions; /* of any hook. If not, the rest is not used */
    bool reads_step, reads_clock;
    bool has_step;              /* the graph has a global step */
    bool is_stale;              /* the next run evaluates the conditions of all hooks, */
    bool restarts;              /* and reads the step before it, as some begin again */
    bool warns_of_stall;        /* of a training run that does not advance the step, */
    bool stalled;               /* as the last one did not */
    uint64_t first_run;         /* since the session was created: it never stalls */
    bool is_acting;             /* `due` has hooks with conditions */
    int64_t step;               /* after the last run; -1: unknown */
    uint64_t moves;             /* hs_raw_session.moves at that time */
    int64_t seen_step;          /* as the hooks of the last run saw it first: a stall is compared with it */
    int64_t restores;           /* hs_raw_session.restores at the last restart */
    uint64_t runs[3], all_runs; /* successful runs, by hs_run_kind */
    int64_t now_ns;             /* at the beginning of this run, by the coarse clock */
    int64_t group_ns;           /* of rank 0, at the last agreement; 0: not known */
    int64_t group_requests;     /* agreements in which a rank had new save requests */
    /* No hook is due before the run while `step` is below next_before and all_runs below next_run, after the run while
     * `step` is below next_after, and by the clocks while they are below next_ns and next_group_ns */
    int64_t next_before, next_after, next_ns, next_group_ns;
    uint64_t next_run;
    int64_t seen_before, seen_after; /* save requests, at the last decisions */
} hs__schedule;

/* Copies the conditions of the hook at `index`, which was made of `given`. */
hs_code hs__schedule_add(struct hs_session *session, size_t index, const hs_hook *given, hs_error *err);
/* After the hooks' begin: checks that the graph has what the conditions and the fixed fetches need. */
hs_code hs__schedule_begin(struct hs_session *session, hs_error *err);
void hs__schedule_free(struct hs_session *session);
/* The session is created or restored, or its step is set back: the next decision begins all intervals that have not begun.
 */
void hs__schedule_restart(struct hs_session *session);
/* The session was saved: the next run calls the hooks with HS__HOOK_AFTER_SAVES. */
void hs__schedule_saved(struct hs_session *session);
/* The position of a hook as state for checkpoints, if it `is_saved`. `self`: the hook. */
hs_code hs__schedule_save(void *self, hs_state_writer *out, hs_error *err);
hs_code hs__schedule_load(void *self, hs_state_reader *in, hs_error *err);
/* Parts of hs__schedule_before and hs__schedule_after (session.h). */
hs_code hs__schedule_decide_before(struct hs_session *session, hs_error *err);
void hs__schedule_decide_after(struct hs_session *session);
void hs__schedule_stall(struct hs_session *session);
/* After after_run of session->schedule.due[*i]: decides again which hooks are called after it, and sets *i to its new
 * index. */
hs_code hs__schedule_decide_again(struct hs_session *session, size_t *i, hs_error *err);
/* The session ends: whether the hook has `last`, and has not acted at this step. */
bool hs__schedule_is_due_last(struct hs_session *session, const struct hs__hook *hook);
/* A hook of this run has acted. */
void hs__schedule_acted(struct hs_session *session, const struct hs__hook *hook);

#endif
