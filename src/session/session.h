/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SESSION_SESSION_H
#define HS_SESSION_SESSION_H

#include <hooksess/session.h>

#include "backends/raw_session.h"
#include "base/forks.h"
#include "checkpoint/restore.h"
#include "session/agreement.h"
#include "session/failure.h"
#include "session/hook_cost.h"
#include "session/hook_list.h"
#include "session/last_good.h"
#include "session/merge_fetches.h"
#include "session/metrics.h"
#include "session/recovery.h"
#include "session/schedule.h"
#include "session/run.h"
#include "session/services.h"
#include "session/session_close.h"
#include "session/session_create.h"
#include "session/session_states.h"
#include "session/signals.h"
#include "session/startup.h"
#include "session/stop.h"
#include "summary/writer_cache.h"
#include "threads/coordinator.h"

#include <stdatomic.h>

/* clang-format off */
/* A hooked session. A file with a header of its own has its part of hs_session there, and its functions. Here are the other
 * parts, and the functions that are inline because each step calls them.
 *
 *   session_open.c, session_close.c   opening and closing, from every state in which a part has failed
 *   session_create.c                  what is created again after a loss: the backend's session, its values, threads
 *   recovery.c, last_good.c           retries and backoff after a loss; the state to which the session returns
 *   run.c                             runs with hooks, steps that the caller computes
 *   schedule.c                        in which runs the hooks act
 *   run_request.c, merge_fetches.c, run_stack.c   hs_run_args compiled; their union in one run; nested runs
 *   late_values.c                     values that a hook gets one call later
 *   run_context.c, raw.c, session.c, values.c   what hooks and the caller can ask and request
 *   hook_list.c, outcome.c            functions that need no session
 *   stop.c                            why a session stops; what happens where a stop takes effect
 *   agreement.c                       decisions of the ranks of a group; signature.c compares them at the opening,
 *                                     collective_ops.c in each run; rank_calls.c has what hooks and the program say
 *   signals.c, failure.c, hook_cost.c, metrics.c   one part of hs_session each
 *   status_files.c                    status.json and outcome.json, for the hook run_status and for an abandoned run
 *   session_states.c                  state that is saved in addition to variables
 *   startup.c, scaffold.c             first values of variables
 *   trace_file.c                      a service for hooks */
/* clang-format on */

/* The part of a hook that most runs do not read. */
typedef struct hs__hook_cold {
    struct hs_session *session;
    hs_hook_ops ops;     /* complete */
    hs_run_args args;    /* copy of args of another size (compiled against other headers) */
    hs_run_args fetches; /* of the ops */
    bool begun;
    struct {
        int64_t total_ns;                                /* estimated */
        int64_t largest_ns, largest_calls, largest_step; /* largest_calls: for which the longest one was counted */
        const char *slowest;
    } cost;
    size_t number; /* in the keys of its states: from 1 on, of the hooks of its name in the program's list */
    bool best_effort, state_varies, per_rank, any_rank_count, begins_on_chief;
    size_t number_on_ranks;   /* from 1 on, of the hooks that all ranks of a group have; 0: HS_HOOK_CHIEF_ONLY */
    bool create_pending;      /* after_create_session failed and is to be called again */
    int64_t max_failures;     /* in a row; 0: any number */
    hs__failure failure;      /* of its callbacks, if it is best-effort */
    hs__failure work_failure; /* of work that it reports under its name */
    hs__hook_schedule when;
    struct hs__late_values *late;   /* of a late hook, not delivered yet (late_values.c). NULL: none */
    uint64_t wanted_kinds;          /* a bit for each hs_run_kind that it was installed for */
    hs__pending_save *pending_save; /* where it has its save in the background; NULL: it saves none */
} hs__hook_cold;

/* The part of a hook that every run reads: 64 bytes, one cache line. */
typedef struct hs__hook {
    void *self;
    hs_code (*before_run)(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err);
    hs_code (*after_run)(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err);
    const hs_run_args *fetches; /* of its ops; NULL: none */
    hs_run_values values;       /* of the run at level 0, the only level with hooks */
    hs__hook_cold *cold;
    uint8_t kinds;                     /* wanted_kinds; 0: muted or disabled */
    uint8_t before_kinds, after_kinds; /* kinds, or 0 if it has nothing to do before or after the run */
} hs__hook;

/* Calls the hook for runs of these kinds from now on. */
static inline void hs__set_kinds(hs__hook *hook, uint64_t kinds)
{
    hook->kinds = (uint8_t)kinds;
    hook->before_kinds = hook->before_run || hook->fetches ? (uint8_t)kinds : 0;
    hook->after_kinds = hook->after_run ? (uint8_t)kinds : 0;
}

/* Requesters (run_request.h): the caller, raw runs, each hook, and again each hook for its late values. */
enum { HS__CALLER = 0, HS__RAW = 1, HS__FIRST_HOOK = 2 };

/* What the session's own thread is doing. Callbacks and ops run inside of these (level, in_backend). */
typedef enum hs__life {
    HS__READY = 0,
    HS__IN_STEP_FUNCTION, /* of hs_session_run_step; a loss is recovered after the whole function */
    HS__IN_OWN_STEP,      /* between hs_step_begin and hs_step_end */
    HS__CREATING,         /* created again after a loss: it can neither run nor be closed */
    HS__CLOSING,
} hs__life;

/* A run as its hooks see it. Index 0: before the backend runs, 1: after. */
struct hs_run_context {
    struct hs_session *session;
    const hs_run_args *args; /* the caller's */
    hs_run_kind kind;
    hs_boundary boundary;
    bool after; /* the backend has run */
    bool boundary_requested;
    hs__stop stop; /* requested by the hooks of this run */
    bool has_step[2], has_now[2];
    int64_t step[2], now[2];
    uint64_t moves; /* hs_raw_session.moves when the steps were read */
};

/* Each of the following parts of hs_session is changed by one file only, and by that file's inline functions below. */

/* session.c. What other threads see of the session's progress. */
typedef struct hs__progress {
    atomic_bool watched;            /* a thread has read the rest */
    atomic_uint phase;              /* an hs_phase */
    atomic_llong count;             /* changes while the session makes progress */
    _Atomic(const hs__hook *) hook; /* whose callback runs */
} hs__progress;

/* run_stack.c. What a run that waits for data needs. */
typedef struct hs__data_wait {
    hs_phase phase_before;
    /* When a waiting run first saw that a thread has failed; 0: no thread has. session_create.c clears it for new threads
     */
    atomic_int_fast64_t thread_failed_ns;
} hs__data_wait;

/* collective_ops.c. Memory for the nodes that all ranks fetch in a run. */
typedef struct hs__node_list {
    hs_node *items;
    size_t capacity;
} hs__node_list;

struct hs_session {
    hs_env env;
    hs_raw_session raw;
    hs__hook *hooks;
    hs__hook_cold *cold;  /* of hooks[i] at i */
    hs_hook *given_hooks; /* as the caller gave them; freed with the session */
    size_t n_hooks;
    hs_scaffold *scaffold;
    bool owns_scaffold, finalized_graph;
    _Atomic(hs_coordinator *) coordinator; /* other threads poll it */
    char *target;
    hs_bytes config;
    hs__creation creation;
    hs__attempts attempts;
    hs__recovery recovery;
    hs__last_good last_good;
    hs__schedule schedule;   /* schedule.c */
    hs__agreement agreement; /* agreement.c */
    hs__node_list common_fetches;
    hs__writer_cache writers;
    hs__metrics metrics;

    hs__requests requests;
    hs__run_plan plans[2]; /* by level */
    uint64_t n_plans;      /* made so far: their numbers */
    hs_run_context context;
    hs_run_values values;        /* the caller's */
    hs_run_values raw_values[2]; /* of raw runs, by level */
    hs__callback_timing timing;
    bool observed;   /* this run's callbacks are timed, watched, or may end a failure */
    size_t level;    /* of the next run. 0: the caller's; 1: a raw run within a hooked run, an own step or a boundary */
    bool in_backend; /* the backend is running: no call is allowed */
    const hs__hook *callee; /* whose callback runs, if the callback gets the raw session. NULL: the program runs */
    hs__life life;
    unsigned generation;   /* of the process that opened it */
    bool in_call;          /* run.c: a call that calls callbacks */
    bool makes_own_steps;  /* run.c: hs_step_begin has returned true at least once */
    bool reported_unknown; /* values.c: hs_session_wants has reported an unknown name */

    atomic_uint stops;         /* hs__stop bits; set and read by any thread and signal handler */
    atomic_uint save_requests; /* to save; from any thread or signal handler */
    bool already_done;
    struct {
        bool reached;   /* the boundaries of the stop were called; */
        hs_error error; /* their first error, which the close reports */
    } stop_boundary;    /* stop.c */
    struct {
        unsigned stops; /* hs__stop_causes when the session was closed */
        bool finished;  /* ended for another reason than a loss; a loss reported from now on is only logged */
    } end;              /* session_close.c */
    hs__signals signals;
    double save_secs;                      /* duration of a save; 0: unknown */
    _Atomic(const char *) abandonment_dir; /* status_files.c; NULL: the outcome of an abandoned run is not written */
    hs__progress progress;
    hs__data_wait data_wait;
    hs__failures failures; /* failure.c */
    char stop_hook[64], failed_hook[64];
    hs_error last;             /* of the last run; HS_OK: it succeeded */
    hs_error fail;             /* from hs_session_fail */
    bool repeat_call;          /* the session was recovered, and the caller is to repeat the call */
    bool threads_failed_first; /* the coordinator had an error before the last run failed */
};

extern const hs__raw_session_owner_ops hs__session_owner_ops;

/* run.c. Calls into the session that call callbacks.
 *
 * A callback may leave such a call by an exception or pthread_exit, but not by longjmp. The session has then failed and can
 * only be closed. HS__CALL(call, session) begins a call, unless one has begun; hs__call_end(&call) ends it before each
 * return. An exception and pthread_exit run the cleanup of `call`. */
#define HS__CALL(name, session) __attribute__((cleanup(hs__call_cleanup))) struct hs_session *name = hs__call_begin(session)
void hs__call_abandoned(struct hs_session *session);

static inline struct hs_session *hs__call_begin(struct hs_session *session)
{
    if (session->in_call)
        return NULL;
    session->in_call = true;
    return session;
}

static inline void hs__call_end(struct hs_session **call)
{
    if (*call) {
        (*call)->in_call = false;
        (*call)->callee = NULL;
    }
    *call = NULL;
}

static inline void hs__call_cleanup(struct hs_session **call)
{
    if (*call)
        hs__call_abandoned(*call);
}

/* failure.c: false while a later call is still possible. */
static inline bool hs__is_disabled(const hs__hook *hook)
{
    return hook->cold->failure.retry_at_ns == HS__RETRY_NEVER;
}

/* stop.c */

/* The next three: any thread, and signal handlers. */
static inline unsigned hs__stops(const struct hs_session *session)
{
    return atomic_load_explicit(&((struct hs_session *)session)->stops, memory_order_acquire);
}
/* Returns the causes before. */
static inline unsigned hs__add_stops(struct hs_session *session, unsigned causes)
{
    return atomic_fetch_or(&session->stops, causes);
}
/* Tests the bit first: it is mostly clear, and an atomic write in each run would cost more. */
static inline void hs__clear_stop(struct hs_session *session, hs__stop cause)
{
    if (hs__stops(session) & (unsigned)cause)
        atomic_fetch_and(&session->stops, ~(unsigned)cause);
}
/* agreement.c: the session is in a group. */
static inline bool hs__is_in_group(const struct hs_session *session)
{
    return session->agreement.ranks.group.ops;
}
/* The causes that have taken effect, without HS__STOP_THREADS if the session is not in a group. */
static inline unsigned hs__final_stops(const struct hs_session *session)
{
    if (hs__is_in_group(session))
        return session->agreement.stops | (hs__stops(session) & ~(unsigned)HS__STOP_AGREED);
    return hs__stops(session);
}

/* session.c */

/* Until hs__session_closed, an exit of the program logs that the session was not closed. */
void hs__session_opened(const struct hs_session *session);
void hs__session_closed(const struct hs_session *session);
/* False until another thread reads the phase for the first time: until then steps do not record their progress. */
static inline bool hs__is_watched(const struct hs_session *session)
{
    return atomic_load_explicit(&((struct hs_session *)session)->progress.watched, memory_order_relaxed);
}
/* Mostly called by one thread. If two threads call it at the same time, one increment may be lost; the count still changes.
 */
static inline void hs__bump_progress(struct hs_session *session)
{
    atomic_store_explicit(&session->progress.count,
                          atomic_load_explicit(&session->progress.count, memory_order_relaxed) + 1, memory_order_relaxed);
}
static inline hs_phase hs__enter(struct hs_session *session, hs_phase phase)
{
    hs_phase before = (hs_phase)atomic_load_explicit(&session->progress.phase, memory_order_relaxed);
    atomic_store_explicit(&session->progress.phase, phase, memory_order_relaxed);
    hs__bump_progress(session);
    return before;
}
static inline void hs__set_current_hook(struct hs_session *session, const hs__hook *hook)
{
    atomic_store_explicit(&session->progress.hook, hook, memory_order_relaxed);
}

/* recovery.c: hs_session_options.recovery was given. */
static inline bool hs__may_recover(const struct hs_session *session)
{
    return session->recovery.options.max_attempts > 0;
}

/* agreement.c: before a call whose failure the ranks agree on: its agreements send messages again. */
static inline void hs__forget_agreed_failure(struct hs_session *session)
{
    session->agreement.settled = session->agreement.broken;
}

/* run.c: makes the call of the backend that the plan describes. */
static inline hs_code hs__run_backend(struct hs_session *session, hs__run_plan *plan, hs_error *err)
{
    session->in_backend = true;
    hs_code code = session->raw.ops.run(session->raw.handle, &plan->call, err);
    session->in_backend = false;
    plan->in_use = !code;
    return hs__normalize_error(code, "the run", err);
}

/* schedule.c */

static inline int64_t hs__schedule_seen(const struct hs_session *session)
{
    return (int64_t)atomic_load_explicit(&((struct hs_session *)session)->save_requests, memory_order_relaxed) +
           session->schedule.group_requests;
}

/* Before a run: decides which hooks it calls. The errors are those of reading the global step. */
static inline hs_code hs__schedule_before(struct hs_session *session, hs_error *err)
{
    hs__schedule *s = &session->schedule;
    if (!s->has_conditions)
        return HS_OK;
    if (s->reads_clock)
        s->now_ns = hs__run_context_coarse_now(&session->context);
    const bool quiet = !(s->is_stale | s->is_acting) && s->step < s->next_before && s->all_runs < s->next_run &&
                       s->now_ns < s->next_ns && s->group_ns < s->next_group_ns &&
                       s->seen_before == hs__schedule_seen(session) && s->restores == session->raw.restores &&
                       (!s->reads_step || s->moves == session->raw.moves);
    return quiet ? HS_OK : hs__schedule_decide_before(session, err);
}

/* After a successful run: decides which other hooks it calls. */
static inline hs_code hs__schedule_after(struct hs_session *session, hs_error *err)
{
    hs__schedule *s = &session->schedule;
    if (!s->has_conditions)
        return HS_OK;
    s->all_runs++;
    s->runs[session->context.kind]++;
    const bool decides = s->is_stale || s->step >= s->next_after || s->now_ns >= s->next_ns ||
                         s->group_ns >= s->next_group_ns || s->seen_after != hs__schedule_seen(session);
    if (s->reads_step || (s->has_step && (decides || s->is_acting))) {
        const int64_t step = hs_run_context_global_step(&session->context, err), before = s->step;
        if (step < 0)
            return err->code;
        s->step = step;
        atomic_store_explicit(&session->signals.next_step, step + 1, memory_order_relaxed);
        s->moves = session->raw.moves;
        if (step < before)
            hs__schedule_restart(session);
        if (step != s->seen_step) /* a hook may advance it after the run, as finite_guard with update_op */
            s->stalled = false;
        else if (session->context.kind == HS_RUN_TRAIN && s->all_runs > s->first_run)
            hs__schedule_stall(session);
        s->seen_step = step;
    }
    if (decides || s->is_stale || s->step >= s->next_after)
        hs__schedule_decide_after(session);
    return HS_OK;
}

/* True if after_run of a hook has made a run, which may have changed the step, or has requested a save. */
static inline bool hs__schedule_is_outdated(const struct hs_session *session)
{
    const hs__schedule *s = &session->schedule;
    return s->has_conditions &&
           ((s->reads_step && s->moves != session->raw.moves) || s->seen_after != hs__schedule_seen(session));
}
#endif
