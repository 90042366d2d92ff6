/* SPDX-License-Identifier: Apache-2.0 */
/* A thread calls poll_progress, which compares the session's phase and progress with the last ones, warns when a limit is
 * reached, and aborts the run if the options say so. A second thread writes the heartbeat file. */
#include <hooksess/hooks/watchdog.h>

#include "base/c_locale.h"
#include "base/files.h"
#include "base/json_writer.h"
#include "hooks/make.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { N_PHASES = HS_PHASE_END + 1, THREADS = 400 };
static const double NS = 1e9;

/* The heartbeat. */

enum { NAME = 128, LINE = NAME * HS__JSON_ESCAPED + 512 }; /* of a hook, and of the file */
/* The longest time that close waits for a blocked heartbeat thread. */
static const double PATIENCE_SECS = 10;

/* Contents of the heartbeat file. The watchdog's thread writes it; each field is atomic by itself. */
typedef struct {
    atomic_int phase;           /* an hs_phase */
    _Atomic(const char *) hook; /* valid as long as the session */
    atomic_llong progress;
    atomic_llong since_ns; /* time of the last progress, by the monotonic clock */
    atomic_bool stalled;
} pulse;

/* A thread writes the heartbeat file, so that a blocked file system does not keep the watchdog from reporting a stall. */
typedef struct {
    hs_env env;
    pulse pulse;
    hs_thread *thread;
    double every_n_secs;
    bool failed;           /* a write failed, which was logged */
    atomic_bool abandoned; /* close has stopped waiting: the log may not exist */
    char *tmp;             /* "PATH.tmp" */
    char path[];
} heartbeat;

static int64_t ms_of(int64_t ns)
{
    return (ns + 500000) / 1000000;
}

static void write_heartbeat(heartbeat *h, bool closed)
{
    pulse *p = &h->pulse;
    char line[LINE], hook[NAME], *end = line;
    int64_t since = atomic_load(&p->since_ns);
    hs_error error = {0};
    hs__json_writer out = {.put = hs__json_put_in_memory, .to = &end};
    snprintf(hook, sizeof hook, "%s", closed ? "" : atomic_load(&p->hook));
    hs__json_open(&out, NULL, '{');
    hs__json_put_thousandths(&out, "time", ms_of(hs_env_realtime_ns(&h->env)));
    hs__json_put_int(&out, "pid", getpid());
    hs__json_put_text(&out, "phase", closed ? "closed" : hs_phase_name((hs_phase)atomic_load(&p->phase)));
    hs__json_put_text(&out, "hook", hook);
    hs__json_put_int(&out, "progress", atomic_load(&p->progress));
    hs__json_put_thousandths(&out, "still_secs", ms_of(hs_env_monotonic_ns(&h->env) - since));
    hs__json_put_bool(&out, "stalled", !closed && atomic_load(&p->stalled));
    hs__json_close(&out, '}');
    *end++ = '\n';
    hs_code code = hs__file_replace_by(&h->env, h->tmp, h->path, line, (size_t)(end - line), false, &error);
    if (code && !h->failed && !atomic_load(&h->abandoned))
        hs_log(&h->env, HS_LOG_WARNING, "watchdog: cannot write the heartbeat: %s", error.message);
    h->failed |= code != HS_OK;
}

static void make_directory(const heartbeat *h)
{
    const hs_file_system *files = &h->env.files;
    char *slash = strrchr(h->tmp, '/');
    if (!slash || slash == h->tmp)
        return;
    *slash = '\0';
    files->ops->make_directory(files->user, h->tmp, NULL); /* writing the file reports a failure */
    *slash = '/';
}

static hs_code write_heartbeats(void *user, hs_coordinator *coordinator, hs_error *err)
{
    heartbeat *h = user;
    (void)err;
    make_directory(h);
    do
        write_heartbeat(h, false);
    while (!hs_coordinator_wait_for_stop(coordinator, h->every_n_secs));
    if (!atomic_load(&h->abandoned))
        write_heartbeat(h, true);
    return HS_OK;
}

/* Registers a thread with the coordinator and starts it. The caller frees it, also after a failure. */
static hs_code start_thread(hs_thread **thread, const hs_thread_options *options, hs_coordinator *threads, hs_error *err)
{
    if (!(*thread = hs_thread_new(options, err)))
        return HS_RESOURCE_EXHAUSTED;
    hs_code code = hs_coordinator_register(threads, *thread, err);
    return code ? code : hs_thread_start(*thread, err);
}

static heartbeat *start_heartbeat(const hs_env *env, const char *path, double every_n_secs, hs_coordinator *threads,
                                  hs_error *err)
{
    static const char ending[] = ".tmp";
    size_t bytes = strlen(path) + 1;
    heartbeat *h = hs_env_alloc(env, sizeof *h + 2 * bytes + sizeof ending);
    if (!h) {
        hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no memory for a heartbeat");
        return NULL;
    }
    h->env = *env;
    h->every_n_secs = every_n_secs;
    atomic_init(&h->abandoned, false);
    h->tmp = h->path + bytes;
    memcpy(h->path, path, bytes);
    snprintf(h->tmp, bytes + sizeof ending, "%s%s", path, ending);
    atomic_init(&h->pulse.phase, HS_PHASE_INIT);
    atomic_init(&h->pulse.hook, "");
    atomic_init(&h->pulse.progress, 0);
    atomic_init(&h->pulse.since_ns, hs_env_monotonic_ns(env));
    atomic_init(&h->pulse.stalled, false);
    const hs_thread_options options =
        HS_INIT(hs_thread_options, .name = "heartbeat", .run = write_heartbeats, .user = h, .env = &h->env);
    if (start_thread(&h->thread, &options, threads, err)) {
        hs_thread_free(h->thread);
        hs_env_free(env, h);
        return NULL;
    }
    return h;
}

/* The present time without progress, in one phase and hook. */
typedef struct {
    hs_phase phase;
    const char *hook;
    int64_t progress;
    int64_t since_ns, warn_after_ns; /* time without progress at which the next warning is logged */
    bool warned;
} idle_time;

typedef struct {
    hs__hook_base base;
    double floor_secs; /* INFINITY: no limits */
    double factor, period_secs, heartbeat_secs;
    bool aborts;
    char *path;
    const hs_env *env;       /* the backend's */
    hs_coordinator *threads; /* the hook's own, because the session joins its threads before it ends */
    hs_thread *watch;
    heartbeat *heartbeat;
    /* Shared by the watching thread and the session's thread. */
    _Atomic(hs_raw_session *) session; /* NULL: not created yet */
    _Atomic(hs_coordinator *) coordinator;
    atomic_llong slowest_ns[N_PHASES]; /* learned: the longest time without progress in each phase */
    atomic_bool aborting;
    /* Used by the watching thread only. */
    idle_time now;
    int64_t polled_ns;
    hs_error abort; /* shared after `aborting` is true */
} watchdog;

/* Limits. */

static double slowest_secs(watchdog *w, hs_phase phase)
{
    return (double)atomic_load_explicit(&w->slowest_ns[phase], memory_order_relaxed) / NS;
}

/* A session may take three times as long to open, because it restores a checkpoint or waits for other processes. */
static double floor_of(const watchdog *w, hs_phase phase)
{
    return phase == HS_PHASE_INIT ? 3 * w->floor_secs : w->floor_secs;
}

static double limit_secs(watchdog *w, hs_phase phase)
{
    return fmax(w->factor * slowest_secs(w, phase), floor_of(w, phase));
}

static void learn(watchdog *w, hs_phase phase, int64_t ns)
{
    long long before = atomic_load(&w->slowest_ns[phase]);
    while (ns > before && !atomic_compare_exchange_weak(&w->slowest_ns[phase], &before, ns))
        continue;
}

/* The watching thread. */

static void warn(watchdog *w, double secs)
{
    char threads[THREADS] = "", hook[96] = "", factor[80] = "the minimum for this phase";
    size_t n = hs_coordinator_live_threads(atomic_load(&w->coordinator), threads, sizeof threads);
    double limit = limit_secs(w, w->now.phase);
    if (limit > floor_of(w, w->now.phase))
        hs__snprintf(factor, sizeof factor, "%g times the longest duration so far", w->factor);
    if (*w->now.hook)
        snprintf(hook, sizeof hook, " in hook '%s';", w->now.hook);
    hs_log(w->env, HS_LOG_WARNING,
           "watchdog: no progress for %.4g s in phase '%s';%s the limit is %.4g s, %s; running threads: %s", secs,
           hs_phase_name(w->now.phase), hook, limit, factor, n ? threads : "none");
}

static void abort_run(watchdog *w, double secs)
{
    hs_error_set(&w->abort, HS_DEADLINE_EXCEEDED, "watchdog: stopping the run: no progress for %.4g s in phase '%s'%s%s%s",
                 secs, hs_phase_name(w->now.phase), *w->now.hook ? ", hook '" : "", w->now.hook, *w->now.hook ? "'" : "");
    atomic_store(&w->aborting, true);
    /* The coordinator first, so that w->abort is the cause of the stop. */
    hs_coordinator_request_stop(atomic_load(&w->coordinator), &w->abort);
    hs_raw_session_interrupt(atomic_load(&w->session));
    hs_log(w->env, HS_LOG_ERROR, "%s", w->abort.message);
}

static void begin_idle_time(watchdog *w, const idle_time *next, int64_t now)
{
    double limit = limit_secs(w, next->phase);
    w->now = *next;
    w->now.since_ns = now;
    w->now.warn_after_ns = limit < (double)INT64_MAX / NS / 4 ? (int64_t)(limit * NS) : INT64_MAX;
}

static void poll_progress(watchdog *w)
{
    idle_time next = {.phase = HS_PHASE_INIT, .hook = ""};
    int64_t now = hs_env_monotonic_ns(w->env); /* read before the phase, so that the time is not too long */
    hs_raw_session *session = atomic_load(&w->session);
    if (session)
        next.phase = hs_raw_session_phase(session, &next.hook, &next.progress);

    /* If the watchdog itself did not run, the process was stopped or suspended, which is not a stall. */
    int64_t gap = now - w->polled_ns;
    if (gap > 0 && (double)gap / NS > limit_secs(w, w->now.phase) / 2)
        w->now.since_ns += gap;
    w->polled_ns = now;

    int64_t idle_ns = now - w->now.since_ns;
    if (next.phase != w->now.phase || next.progress != w->now.progress || next.hook != w->now.hook) {
        if (w->now.warned)
            hs_log(w->env, HS_LOG_WARNING, "watchdog: progress resumed in phase '%s' after %.4g s",
                   hs_phase_name(w->now.phase), (double)idle_ns / NS);
        /* Ignores times too short to raise the limit above its floor. The learned times are part of the checkpoint: without
         * this, timing noise would make checkpoints of equal runs differ. */
        if (w->factor * (double)idle_ns / NS > floor_of(w, w->now.phase))
            learn(w, w->now.phase, idle_ns);
        begin_idle_time(w, &next, now);
    } else if (idle_ns >= w->now.warn_after_ns) {
        w->now.warned = true;
        w->now.warn_after_ns = idle_ns < INT64_MAX / 2 ? 2 * idle_ns : INT64_MAX;
        warn(w, (double)idle_ns / NS);
        bool aborts = w->aborts && w->now.phase != HS_PHASE_SAVE && w->now.phase != HS_PHASE_END;
        if (aborts && session && !atomic_load(&w->aborting))
            abort_run(w, (double)idle_ns / NS);
    }

    if (w->heartbeat) {
        pulse *p = &w->heartbeat->pulse;
        atomic_store(&p->phase, (int)w->now.phase);
        atomic_store(&p->hook, w->now.hook);
        atomic_store(&p->progress, w->now.progress);
        atomic_store(&p->since_ns, w->now.since_ns);
        atomic_store(&p->stalled, w->now.warned);
    }
}

static hs_code watch(void *self, hs_coordinator *coordinator, hs_error *err)
{
    watchdog *w = self;
    (void)err;
    w->polled_ns = hs_env_monotonic_ns(w->env);
    begin_idle_time(w, &(idle_time){.phase = HS_PHASE_INIT, .hook = ""}, w->polled_ns);
    do
        poll_progress(w);
    while (!hs_coordinator_wait_for_stop(coordinator, w->period_secs));
    return HS_OK;
}

/* The hook. */

static hs_code begin(void *self, hs_backend backend, hs_error *err)
{
    watchdog *w = self;
    hs_code code = HS_OK;
    w->env = hs_backend_env(backend);
    const hs_thread_options options =
        HS_INIT(hs_thread_options, .name = "watchdog", .run = watch, .user = w, .env = w->env);
    atomic_store(&w->aborting, false);
    atomic_store(&w->session, NULL);
    atomic_store(&w->coordinator, NULL);
    if (!(w->threads = hs_coordinator_new(HS_COORDINATOR_OPTIONS(.env = w->env), err)))
        return HS_RESOURCE_EXHAUSTED;
    if (w->path && !(w->heartbeat = start_heartbeat(w->env, w->path, w->heartbeat_secs, w->threads, err)))
        code = HS_RESOURCE_EXHAUSTED;
    if (code || (code = start_thread(&w->watch, &options, w->threads, err)))
        hs_coordinator_request_stop(w->threads, NULL); /* close_hook frees the rest */
    return code;
}

static hs_code after_create_session(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    watchdog *w = self;
    (void)err;
    hs_raw_session_phase(session, NULL, NULL); /* from now on, the session records its phases */
    atomic_store(&w->coordinator, coordinator);
    atomic_store(&w->session, session);
    if (atomic_load(&w->aborting)) /* a recovered session has a new coordinator */
        hs_coordinator_request_stop(coordinator, &w->abort);
    return HS_OK;
}

static void close_hook(void *self, const hs_outcome *outcome)
{
    watchdog *w = self;
    (void)outcome;
    hs_coordinator_request_stop(w->threads, NULL);
    hs_thread_wait(w->watch, HS_NEVER); /* first, because it writes the values that the heartbeat reads */
    hs_thread_free(w->watch);
    w->watch = NULL;
    heartbeat *h = w->heartbeat;
    if (h) {
        bool ended = hs_thread_wait(h->thread, PATIENCE_SECS);
        hs_thread_free(h->thread);
        if (ended) {
            hs_env_free(w->env, h);
        } else {
            hs_log(w->env, HS_LOG_WARNING, "watchdog: writing '%s' hangs; its thread is abandoned", h->path);
            atomic_store(&h->abandoned, true);
        }
    }
    w->heartbeat = NULL;
    hs_coordinator_free(w->threads);
}

/* Whole seconds, so that equal runs mostly save equal values. */
static hs_code save_state(void *self, hs_state_writer *out, hs_error *err)
{
    watchdog *w = self;
    int64_t secs[N_PHASES];
    for (int i = 0; i < N_PHASES; i++)
        secs[i] = (int64_t)ceil(slowest_secs(w, (hs_phase)i));
    return hs_state_writer_write(out, secs, sizeof secs, err);
}

static hs_code load_state(void *self, hs_state_reader *in, hs_error *err)
{
    const int64_t MOST = INT64_MAX / 1000000000;
    watchdog *w = self;
    int64_t secs[N_PHASES];
    hs_code code = hs_state_reader_read(in, secs, sizeof secs, err);
    for (int i = 0; !code && i < N_PHASES; i++) {
        if (secs[i] < 0 || secs[i] > MOST)
            return hs_error_set(err, HS_DATA_LOSS, "invalid time: phase '%s' took %lld s", hs_phase_name((hs_phase)i),
                                (long long)secs[i]);
        learn(w, (hs_phase)i, secs[i] * 1000000000);
    }
    return code;
}

static void destroy(void *self)
{
    hs_env_free(&((watchdog *)self)->base.env, ((watchdog *)self)->path);
    hs__hook_free(self);
}

static const hs_hook_ops ops =
    HS_INIT(hs_hook_ops, .name = "watchdog", .begin = begin, .after_create_session = after_create_session,
            .close = close_hook, .save_state = save_state, .load_state = load_state, .destroy = destroy,
            .state_bytes = N_PHASES * sizeof(int64_t), .rank_identity = hs__hook_rank_identity);

static hs_code fill(void *self, const void *given, hs_error *err)
{
    watchdog *w = self;
    const hs_watchdog_options *options = given;
    if (options->floor_secs != HS_NEVER && !(options->floor_secs >= 0 && options->floor_secs < 1e9))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "floor_secs is %g; it must be positive, 0 for 600, or HS_NEVER",
                            options->floor_secs);
    if (options->factor != HS_NEVER && options->factor != 0 && !(options->factor >= 1 && options->factor < 1e6))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "factor is %g; it must be at least 1, 0 for 10, or HS_NEVER",
                            options->factor);
    if (options->action != HS_WATCHDOG_WARN && options->action != HS_WATCHDOG_ABORT_RUN)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "action is %d, not an hs_watchdog_action", (int)options->action);
    if (!(options->heartbeat_secs >= 0 && options->heartbeat_secs < 1e9))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "heartbeat_secs is %g; it must be positive, or 0 for 10",
                            options->heartbeat_secs);
    if (options->heartbeat && !*options->heartbeat)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "heartbeat is empty; name a file, or leave it out");
    w->base.flags = HS_HOOK_STATE_VARIES;
    w->floor_secs = options->floor_secs == HS_NEVER ? (double)INFINITY
                    : options->floor_secs > 0       ? options->floor_secs
                                                    : 600;
    w->period_secs = fmax(fmin(w->floor_secs, 20) / 20, 0.001);
    w->factor = options->factor == HS_NEVER ? 0 : options->factor > 0 ? options->factor : 10;
    w->aborts = options->action == HS_WATCHDOG_ABORT_RUN;
    w->heartbeat_secs = options->heartbeat_secs > 0 ? options->heartbeat_secs : 10;
    if (options->heartbeat && !(w->path = hs__hook_text(w, options->heartbeat, err)))
        return HS_RESOURCE_EXHAUSTED;
    return HS_OK;
}

static const hs__rank_option same[] = {
    HS__RANK_OPTION(hs_watchdog_options, floor_secs),
    HS__RANK_OPTION(hs_watchdog_options, factor),
    HS__RANK_OPTION(hs_watchdog_options, action),
    {0},
};

hs_hook hs_watchdog_hook(const hs_watchdog_options *given)
{
    return HS__HOOK_MAKE(&ops, watchdog, hs_watchdog_options, heartbeat_secs, NULL, fill, same, given);
}
