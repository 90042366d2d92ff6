/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SESSION_SESSION_H
#define HS_SESSION_SESSION_H

#include <hooksess/session.h>

#include "backends/raw_session.h"
#include "session/run_plan.h"
#include "summary/writer_cache.h"
#include "threads/coordinator.h"

#include <pthread.h>
#include <stdatomic.h>

/* A hooked session from the inside.
 *
 *   session_open.c, session.c, session_close.c   its life: the order of everything, and what is left when a part of it
 * fails session_create.c, recovery.c   the part of it that can be lost, and made anew hooked.c    one run with its hooks
 *   run_request.c, run_plan.c, run_stack.c   what a run asks for and what it gives
 *   run_context.c, values.c, raw.c   what hooks see; timer.c, trace_file.c   when they act, and the traces that they write
 *   startup.c, scaffold.c   how variables get their first values; session_manager.c, without a hooked session
 *   hook_cost.c      what hooks cost
 *   session_states.c    what is saved besides them
 *   own_step.c  steps that the caller computes
 *   signals.c, failures.c, phase.c   what comes from outside, what was got over, and what others see of it */

/* What has failed, and was got over. */
typedef struct hs__failure {
    char hook[64];
    const struct hs__hook *muted; /* the hook, which is not called now; NULL: it is, or it is none */
    int64_t failures, first_step, last_step;
    hs_error last;
} hs__failure;

/* What there is of a hook besides what every run looks at. */
typedef struct hs__hook_cold {
    struct hs_session *session;
    hs_hook_ops ops;  /* complete */
    hs_run_args args; /* a copy of args that were compiled against other headers */
    bool begun;
    struct {
        int64_t timed_ns, sampled_ns; /* of calls that were timed for their own sake, and as samples */
        int64_t largest_ns, largest_step;
        const char *slowest;
    } cost;
    bool best_effort, state_varies;
    bool create_pending;  /* its after_create_session failed, and is to be called again */
    int64_t max_failures; /* in a row; 0: any number */
    int64_t failures_in_a_row;
    const char *failing;   /* the callback that failed last */
    int64_t retry_at_ns;   /* when it is called again, if it is not called now; INT64_MAX: never */
    uint64_t wanted_kinds; /* of when it is called */
} hs__hook_cold;

/* A hook as the session keeps it: one line of the processor's cache. */
typedef struct hs__hook {
    void *self;
    hs_code (*before_run)(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err);
    hs_code (*after_run)(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err);
    uint64_t kinds;       /* a bit for each hs_run_kind that it wants; 0: it is not called now */
    hs_run_values values; /* of the run at level 0; hooks are called at no other */
    hs__hook_cold *cold;
    uint8_t before_kinds, after_kinds; /* the kinds of run for which these callbacks are called; 0: there is none */
    uint8_t slow;                      /* how many more of its calls are timed each, as it was seen to take long */
} hs__hook;

/* From now on the hook is called for runs of these kinds. */
static inline void hs__set_kinds(hs__hook *hook, uint64_t kinds)
{
    hook->kinds = kinds;
    hook->before_kinds = hook->before_run ? (uint8_t)kinds : 0;
    hook->after_kinds = hook->after_run ? (uint8_t)kinds : 0;
}

/* Who asks for fragments: the caller, raw runs, and each hook. */
enum { HS__CALLER = 0, HS__RAW = 1, HS__FIRST_HOOK = 2 };

/* Why a session stops: bits of hs_session.stops, as there may be several causes. */
typedef enum hs__stop {
    HS__STOP_NONE = 0,
    HS__STOP_HOOK_INTERRUPTED = 1 << 0, /* a hook ends the loop; the training is not complete */
    HS__STOP_HOOK_DONE = 1 << 1,        /* a hook: the training is complete */
    HS__STOP_STEP = 1 << 2,             /* a step function, or a step of the caller's own, ended the loop by itself */
    HS__STOP_FAILED = 1 << 3,           /* a step of the caller's own has failed, or a callback was left */
    HS__STOP_LOST = 1 << 4,             /* the backend's session is lost, and could not be made again */
    HS__STOP_INPUT_ENDED = 1 << 5,      /* the last run came to the end of the input; the next run clears it */
    HS__STOP_REQUESTED = 1 << 6,        /* the program, or a signal */
    HS__STOP_UNSAVED = 1 << 7,          /* a second signal: without a save */
    HS__STOP_PROGRAM_DONE = 1 << 8,     /* the program says that the training is complete */
    HS__STOP_THREADS = 1 << 9,          /* the coordinator was asked to stop; only in hs__stop_causes */

    HS__STOP_HOOK = HS__STOP_HOOK_INTERRUPTED | HS__STOP_HOOK_DONE,
    HS__STOP_OUTSIDE = HS__STOP_REQUESTED | HS__STOP_UNSAVED,
} hs__stop;

/* What a session is doing, by its own thread. Callbacks and ops are inside of these (level, in_backend). */
typedef enum hs__life {
    HS__READY = 0,
    HS__IN_STEP_FUNCTION, /* of hs_session_run_step: its runs belong together */
    HS__IN_OWN_STEP,      /* between hs_step_begin and hs_step_end */
    HS__CREATING,         /* it is made, or made again: it may be neither run nor closed */
    HS__CLOSING,
} hs__life;

/* One run as its hooks see it. */
struct hs_run_context {
    struct hs_session *session;
    const hs_run_args *args; /* the caller's */
    hs_run_kind kind;
    hs_boundary boundary;
    bool after; /* the backend has run */
    bool boundary_requested;
    hs__stop stop;                /* what its hooks requested; 0: nothing */
    bool has_step[2], has_now[2]; /* before, after */
    int64_t step[2], now[2];
    uint64_t moves; /* the raw session's, when the steps were read */
};

/* What a session is created from, again after it was lost. */
typedef struct hs__creation {
    char *checkpoint_dir, *checkpoint_prefix, *summary_dir; /* NULL: none */
    hs_restore_policy restore;
    hs_restore_options restore_options;
    bool is_worker;
    double max_wait_secs, recovery_wait_secs; /* INFINITY: forever */
    double stop_grace_secs;                   /* as in hs_join_options */
} hs__creation;

/* A number that a hook or the program has published about the model. */
typedef struct hs__metric {
    char *name;
    double value;
    int64_t step;
    int64_t restores; /* the raw session's at that time */
} hs__metric;

/* Each of the following parts of hs_session belongs to one file, which alone reads and writes it; inline functions below
 * belong to the same file. */

/* session_create.c. What hs__create has made so far. */
typedef struct hs__made {
    uint64_t attempts;
    hs_coordinator **retired_coordinators; /* of earlier attempts; a caller may still hold one */
    size_t n_retired, retired_capacity;
    bool stop_was_requested; /* of the last of them, without an error */
} hs__made;

/* recovery.c */
typedef struct hs__recovery {
    hs_recovery options;    /* max_attempts HS_NEVER: no recovery */
    hs_state_copy *initial; /* the state after the opening, until a checkpoint replaces it; NULL: not copied */
    int64_t attempts;       /* since training last went beyond `furthest` */
    int64_t furthest;       /* the highest step at which the session was lost */
    int64_t completed;
    bool cut_short; /* a stop request ended the backoff before an attempt */
} hs__recovery;

/* signals.c */
typedef struct hs__signals {
    bool handled;                 /* hs_session_options.signals */
    double grace_secs;            /* 0: no limit, or not handled */
    atomic_int first;             /* the first signal that requested a stop */
    atomic_int_fast64_t first_ns; /* its time, by the system's monotonic clock */
    int64_t deadline_ns;          /* when the process may be killed, by env; 0: not computed since the stop request */
} hs__signals;

/* phase.c. What other threads see of the session's progress. */
typedef struct hs__progress {
    atomic_bool watched;            /* a thread has read the rest */
    atomic_uint phase;              /* an hs_phase */
    atomic_llong count;             /* changes while the session makes progress */
    _Atomic(const hs__hook *) hook; /* whose callback runs */
} hs__progress;

/* run_stack.c. A run that set_waiting for data. */
typedef struct hs__data_wait {
    hs_phase phase_before;
    atomic_int_fast64_t thread_failed_ns; /* when a waiting run first saw that a thread has failed; 0: no thread has */
} hs__data_wait;

/* hook_cost.c. How long callbacks take. */
typedef struct hs__timing {
    bool on;                    /* every callback of this run is timed */
    bool sampling;              /* as a sample */
    uint64_t n_runs;            /* hooked runs, this one included */
    uint64_t n_runs_of_kind[3]; /* by hs_run_kind */
    uint64_t next_sample;       /* number of the next run that is a sample */
    uint64_t sample_rng;
    size_t n_slow_hooks; /* hooks that are timed in each run */
    hs_hook_span *spans;
    size_t n_spans, spans_capacity;
    int span_runs; /* spans are recorded in N more runs, this one included */
    int64_t opened_ns;
} hs__timing;

/* failures.c. Failures after which training continued. */
typedef struct hs__failures {
    hs__failure *items;
    size_t n, capacity;
    size_t n_muted;   /* hooks that are not called until their backoff ends */
    size_t n_failing; /* hooks whose last call of some callback failed */
} hs__failures;

/* metrics.c */
typedef struct hs__metrics {
    hs__metric *items;
    size_t n, capacity;
} hs__metrics;

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
    hs__made made;
    hs__recovery recovery;
    hs__writer_cache writers;
    hs__metrics metrics;

    hs__requests requests;
    hs__run_plan **plans; /* by level */
    size_t n_plans, plans_capacity;
    uint64_t runs;
    hs_run_context context;
    hs_run_values values;        /* the caller's */
    hs_run_values raw_values[3]; /* of raw runs: by the caller; in a callback or by a borrower; nested in these */
    hs__timing timing;
    bool observed;   /* this run's callbacks are timed, watched, or may end a failure */
    size_t level;    /* of the next run: the number of runs whose callbacks are running */
    bool in_backend; /* the backend is running: no call is allowed */
    hs__life life;
    struct {
        const void *floor; /* the stack of the current HS__CALL ends here; NULL: no call */
        pthread_t thread;  /* that makes it */
    } call;                /* session.c */
    struct {
        bool used; /* hs_step_begin has returned true */
        hs__run_plan *plan;
    } own_step; /* own_step.c */

    atomic_uint stops;         /* hs__stop bits; set and read by any thread and signal handler */
    atomic_uint save_requests; /* to save; from any thread or signal handler */
    bool already_done;
    struct {
        unsigned stops; /* hs__stop_causes when the session was closed */
        bool finished;  /* it would end here even if no thread had reported that the session is lost */
    } end;              /* session_close.c */
    hs__signals signals;
    double save_secs; /* duration of a save; 0: unknown */
    hs__progress progress;
    hs__data_wait data_wait;
    hs__failures failures;
    char stop_hook[64], failed_hook[64];
    hs_error last;             /* of the last run; HS_OK: it succeeded */
    hs_error fail;             /* from hs_session_fail */
    bool repeat_call;          /* the session was recovered, and the caller is to repeat the call */
    bool threads_failed_first; /* the coordinator had an error before the last run failed */
};

extern const hs__raw_session_owner_ops hs__session_owner_ops;

static inline struct hs_session *hs__session_of(const hs_raw_session *raw)
{
    return raw->owner;
}

enum { HS__SIGNAL_GRACE_SECS = 30 };
/* hook_list.c. The length of a list, which may be NULL. */
size_t hs__hooks_count(const hs_hook *hooks);
/* Destroys those that are not among the others, each once. */
void hs__hooks_destroy_apart(const hs_hook *hooks, const hs_hook *others);
/* Copies, held, for sessions that train nothing, so that they serve several of them; the array is for hs__free, and whoever
 * has the hooks destroys them. */
hs_hook *hs__hooks_hold(const hs_env *env, const hs_hook *hooks, hs_error *err);

/* signals.c */

void hs__signals_init(struct hs_session *session);
hs_code hs__signals_take(struct hs_session *session, bool handled, double grace_secs, hs_error *err);
/* If the session handles signals: from now on a handler notes them in the session. */
hs_code hs__signals_begin(struct hs_session *session, hs_error *err);
void hs__signals_end(struct hs_session *session);
/* The first signal that requested a stop; 0: no signal did. */
int hs__signals_first(const struct hs_session *session);

/* Calls into the session that call callbacks. A callback may leave such a call by an exception, by pthread_exit or by
 * longjmp. The session has failed then, and can be closed.
 *
 * HS__CALL(call, session) begins one, if none is being made; hs__call_end(&call) ends it before each return. An
 * exception and pthread_exit run the cleanup. longjmp runs nothing: hs__check_abandoned_call finds the call left if a later
 * one is made from above its stack. Callbacks are below it. The room makes that so also for a later call from somewhat
 * deeper functions.
 */
#define HS__CALL_ROOM 4096
#define HS__CALL(name, session)                                                                                            \
    __attribute__((cleanup(hs__call_cleanup))) struct hs_session *name =                                                   \
        hs__call_begin(session, __builtin_alloca(HS__CALL_ROOM))
void hs__call_abandoned(struct hs_session *session);
bool hs__check_abandoned_call(struct hs_session *session, const void *frame);

static inline struct hs_session *hs__call_begin(struct hs_session *session, const void *floor)
{
    if (session->call.floor)
        return NULL;
    session->call.floor = floor;
    session->call.thread = pthread_self();
    return session;
}

static inline void hs__call_end(struct hs_session **call)
{
    if (*call)
        (*call)->call.floor = NULL;
    *call = NULL;
}

static inline void hs__call_cleanup(struct hs_session **call)
{
    if (*call)
        hs__call_abandoned(*call);
}

/* stop.c. Why the session stops. Any thread, any signal handler. */
static inline unsigned hs__stops(const struct hs_session *session)
{
    return atomic_load_explicit(&((struct hs_session *)session)->stops, memory_order_relaxed);
}
static inline void hs__add_stops(struct hs_session *session, unsigned causes)
{
    atomic_fetch_or(&session->stops, causes);
}
/* Without cost in each run: mostly the bit is clear. */
static inline void hs__clear_stop(struct hs_session *session, hs__stop cause)
{
    if (hs__stops(session) & (unsigned)cause)
        atomic_fetch_and(&session->stops, ~(unsigned)cause);
}
/* Those of the session and of its threads. 0: it does not stop. */
unsigned hs__stop_causes(const struct hs_session *session);
/* A step that ends the loop because of a request from outside is no cause of its own. */
void hs__stop_step(struct hs_session *session);
/* A hook's request, HS__STOP_HOOK_INTERRUPTED or _DONE. `hook` "": the library's. */
void hs__stop_by_hook(struct hs_session *session, const char *hook, hs__stop how);
/* Was a stop requested, by a hook, a step, a thread, the program or a signal? */
bool hs__stop_requested(const struct hs_session *session);

static inline void hs__set_input_ended(struct hs_session *session, bool ended)
{
    if (ended)
        hs__add_stops(session, HS__STOP_INPUT_ENDED);
    else
        hs__clear_stop(session, HS__STOP_INPUT_ENDED);
}

/* failures.c */

void hs__failures_free(struct hs_session *session);
static inline bool hs__hooks_are_failing(const struct hs_session *session)
{
    return session->failures.n_failing > 0;
}
void hs__count_failures(const struct hs_session *session, hs_outcome *outcome);
/* A callback of a hook of best effort failed: it is not called for a while. HS_OK; the error is cleared. */
hs_code hs__mute(struct hs_session *session, hs__hook *hook, const char *callback, hs_error *err);
/* Hooks whose backoff has ended are called again. */
void hs__unmute_due(struct hs_session *session);
static inline void hs__unmute(struct hs_session *session)
{
    if (session->failures.n_muted)
        hs__unmute_due(session);
}
/* The callback did not fail. */
void hs__clear_failures(struct hs_session *session, hs__hook *hook, const char *callback);
void hs__log_failures(const struct hs_session *session);
/* For the writer cache: an error that a writer goes on from. */
void hs__report_writer_failure(void *session, const hs_error *error);

/* run_stack.c. After a recovery: the threads are new ones. */
void hs__forget_thread_failure(struct hs_session *session);

/* phase.c */

void hs__progress_init(struct hs_session *session);
/* Steps pay for what others see of them from the first time on that somebody looks. */
static inline bool hs__is_watched(const struct hs_session *session)
{
    return atomic_load_explicit(&((struct hs_session *)session)->progress.watched, memory_order_relaxed);
}
/* Something goes on. One thread says so; where others do, too, a count may be lost, and it has changed all the same. */
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

/* session_create.c */

/* Waits, but not beyond a stop request. */
void hs__pause(struct hs_session *session, double secs);
hs_code hs__open_raw(struct hs_session *session, hs_error *err);
hs_code hs__close_raw(struct hs_session *session, hs_error *err);
/* Makes the backend's session, gives it its values, starts the threads and tells the hooks. `again`: for one that was lost.
 * What was made before a failure is left to hs__discard_raw or hs__close_all. */
hs_code hs__create(struct hs_session *session, bool again, hs_error *err);
/* Ends all that hs__create has made. Returns the error of a thread that failed for another reason than the lost session. */
hs_code hs__discard_raw(struct hs_session *session, hs_error *err);
void hs__stop_threads(struct hs_session *session);

/* Frees the coordinators of earlier attempts. */
void hs__made_free(struct hs_session *session);

/* recovery.c */

void hs__recovery_init(struct hs_session *session);
void hs__recovery_free(struct hs_session *session);
hs_code hs__copy_recovery(hs_recovery *to, const hs_recovery *given, hs_error *err);
/* Is there to be one attempt more, after an error? It is counted, and told; or `error` says that there were enough. */
bool hs__count_attempt(const hs_recovery *recovery, int64_t *attempts, const hs_env *env, const char *what,
                       hs_error *error);
/* How long is waited before an attempt, the first of which is 1. */
double hs__backoff(const hs_recovery *recovery, int64_t attempt);
/* The first hs__create, and as many more as the recovery allows. */
hs_code hs__create_with_retries(struct hs_session *session, hs_error *err);
/* Did the caller allow recovery? */
static inline bool hs__may_recover(const struct hs_session *session)
{
    return session->recovery.options.max_attempts > 0;
}
/* Is a run that is made now followed by a recovery, if it needs one? */
static inline bool hs__recovers(const struct hs_session *session)
{
    return hs__may_recover(session) && session->life != HS__IN_STEP_FUNCTION;
}
/* hs_recovery.return_aborted: after a recovery the caller repeats the call. */
static inline bool hs__caller_repeats(const struct hs_session *session)
{
    return session->recovery.options.return_aborted;
}
/* Did a stop request end the backoff before an attempt to recover? */
bool hs__recovery_was_cut_short(const struct hs_session *session);
/* The state after the opening; NULL: it was not copied, or is not needed any more. */
const hs_state_copy *hs__initial_state(const struct hs_session *session);
/* Has a thread reported that the session is lost, and nobody asked for a stop? */
bool hs__threads_are_lost(const struct hs_session *session, hs_error *why);
/* Makes the session anew, which was lost because of `why`. */
hs_code hs__recover(struct hs_session *session, const hs_error *why, hs_error *err);
/* Do these leave variables as they are? */
bool hs__restores_partly(const hs_restore_options *options);
/* A checkpoint was saved: lets go of the copy of the opening, if that is where recovery will find it. */
void hs__release_initial_state(struct hs_session *session);

/* Is a hook that has failed not called any more? */
static inline bool hs__is_left_alone(const hs__hook *hook)
{
    return hook->cold->retry_at_ns == INT64_MAX;
}

/* A code that ends a session well. */
static inline bool hs__is_clean(hs_code code)
{
    return code == HS_OK || code == HS_OUT_OF_RANGE || code == HS_STOP;
}

/* Prefixes the error of a hook's callback with all that tells which one it was, and keeps the hook's name. */
hs_code hs__hook_failed(struct hs_session *session, const hs__hook *hook, const char *callback, hs_code code,
                        hs_error *err);

/* Flushes the writers and calls every boundary. */
hs_code hs__call_boundaries(struct hs_session *session, hs_boundary which, hs_error *err);

/* hook_cost.c */

void hs__timing_init(struct hs_session *session);
void hs__timing_free(struct hs_session *session);
/* Are callbacks of this run timed: all, or those of slow hooks? */
static inline bool hs__times_callbacks(const struct hs_session *session)
{
    return session->timing.on | (session->timing.n_slow_hooks > 0);
}
static inline bool hs__times_hook(const struct hs_session *session, const hs__hook *hook)
{
    return session->timing.on || hook->slow > 0;
}
/* The hook is not called any more. */
void hs__stop_timing(struct hs_session *session, hs__hook *hook);
/* The recorded spans of the run's callbacks. */
const hs_hook_span *hs__spans(const struct hs_session *session, size_t *n);
/* After a callback that was timed, since it began. Boundaries and slow hooks are timed always: `exact`. */
void hs__timed_callback(struct hs_session *session, hs__hook *hook, const char *callback, int64_t began, bool exact);
/* Before a run: counts it, and decides whether its callbacks are timed. */
void hs__decide_timing(struct hs_session *session);
static inline void hs__begin_timing(struct hs_session *session, hs_run_kind kind)
{
    session->timing.n_runs_of_kind[kind]++;
    if (++session->timing.n_runs >= session->timing.next_sample || session->timing.on)
        hs__decide_timing(session);
}
void hs__log_costs(const struct hs_session *session);

/* session_states.c. A hook's state as a provider, if it can be one. */
hs_code hs__hook_state(hs_state_provider *to, const hs__hook *hook, const char *identity, hs_error *err);
/* Gives the backend's state and the hooks' their places in the raw session. */
hs_code hs__add_session_states(struct hs_session *session, hs_error *err);
/* Variables that were added before the session was lost, and were not added again, are the new session's. `restored`: they
 * get the values that wait for them, or their first values. */
hs_code hs__recover_late_variables(hs_raw_session *raw, bool restored, hs_error *err);
/* raw.c. hs_raw_session_run for what the caller does not see: values that it has of its own runs stay. */
hs_code hs__run_nested(hs_raw_session *raw, const hs_run_args *args, const hs_run_values **values, hs_error *err);
/* scaffold.c. How many checkpoints the saver keeps, from the next finalization on. 0: as it is. */
void hs__scaffold_set_max_to_keep(hs_scaffold *scaffold, int64_t max_to_keep);
/* metrics.c */
void hs__metrics_free(struct hs_session *session);

/* session_open.c. A session of which nothing is opened. */
hs_session *hs__session_new(hs_backend backend, const hs_backend_ops *ops, hs_error *err);

/* session.c. Did the last call return HS_ABORTED because the session was recovered, and the caller is to repeat the call?
 */
bool hs__repeats_call(const struct hs_session *session);
/* hooked_run.c. The session is closed before hs_step_end: memory holds a partial step, which is not saved. */
void hs__discard_own_step(struct hs_session *session);
/* Before it is closed: the session fails if the program has changed the global step since its last own step. */
void hs__check_own_step(struct hs_session *session);

/* session_close.c. Everything after the ends, whatever was opened, to the freeing. `error` is the first there was, or
 * becomes it.
 */
hs_outcome hs__close_all(struct hs_session *session, hs_code last, hs_error *error);
/* Frees a session of which nothing was opened. */
void hs__session_free(struct hs_session *session);

/* run_stack.c. Makes the frames up to a level's, and the values of lower levels safe from a run at this one. */
hs_code hs__reserve_level(struct hs_session *session, size_t level, hs_error *err);
/* The frame of a level, ready for a run. */
static inline hs_code hs__begin_plan(struct hs_session *session, size_t level, hs__run_plan **out, hs_error *err)
{
    hs_code code = level || !session->n_plans ? hs__reserve_level(session, level, err) : HS_OK;
    if (code)
        return code;
    *out = session->plans[level];
    hs__run_plan_begin(*out, ++session->runs);
    session->requests.clock += level == 0;
    return HS_OK;
}

/* A decision that all replicas must share: does any of them say so? There is one place for it, this. Alone, it is what one
 * says. */
static inline bool hs__agree(struct hs_session *session, bool mine)
{
    (void)session;
    return mine;
}

/* What the requests of every hook in every step pass through. */

/* Args of this library's size: `given`, or a copy of them. */
static inline hs_code hs__copy_args(hs_run_args *copy, const hs_run_args *given, const hs_run_args **out, hs_error *err)
{
    *out = given;
    if (given->size == sizeof *given)
        return HS_OK;
    *out = copy;
    return HS_STRUCT_TAKE(hs_run_args, built, copy, given, err);
}

/* Adds what `who` asks for to a run. `requester` is HS__CALLER and so on. `out` is NULL if that is nothing. */
static inline hs_code hs__add_request(struct hs_session *session, hs__run_plan *plan, size_t requester,
                                      const hs_run_args *args, const char *who, const hs__request **out, hs_error *err)
{
    hs__request *request;
    if (!args->names && !args->fetches && !args->feeds && !args->options) {
        *out = NULL;
        return HS_OK;
    }
    hs_code code = hs__request_of(&session->requests, requester, args, &request, err);
    if (!code && !(code = hs__run_plan_add(plan, &session->requests, request, args, who, err)))
        *out = request;
    return code;
}

#endif
