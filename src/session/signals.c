/* SPDX-License-Identifier: Apache-2.0 */
#define _XOPEN_SOURCE 700 /* SA_ONSTACK */
/* Signal handlers of sessions. Handlers belong to the process, so the table of sessions that handle signals is global.
 * hs__signals_begin adds a session to it and installs the handler, which calls record_signal for each session. */
#include "session/session.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { MAX_SESSIONS = 16, N_SIGNALS = 5, DEFAULT_GRACE_SECS = 30 };
static const double MAX_GRACE_SECS = 1e9; /* 30 years */
/* SIGPIPE is handled so that a write to a closed pipe fails instead of ending the process. */
static const int signals[N_SIGNALS] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGPIPE};

/* Read by the handler. */
static _Atomic(struct hs_session *) listeners[MAX_SESSIONS];
static struct sigaction previous[N_SIGNALS]; /* written while the handler is not installed */
static atomic_long owner_pid; /* the process that installed the handler; in its forks it only passes signals on */
static atomic_int n_running;  /* handlers that are running, in all threads */
/* Guards the installation of the handler, and the following variables. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static size_t n_listeners;
static bool installed[N_SIGNALS];
/* The program's handler that had replaced ours when the last session was closed, and may call it. NULL: none */
static void (*replaced_by[N_SIGNALS])(int signal, siginfo_t *info, void *context);

static int index_of(int signal)
{
    for (int i = 0; i < N_SIGNALS; i++)
        if (signals[i] == signal)
            return i;
    return -1;
}

/* Async-signal-safe, as clock_gettime is. */
static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void append(char *text, size_t *used, const char *more)
{
    while (*more)
        text[(*used)++] = *more++;
}

/* Answers a Ctrl-C in a terminal. Called by the handler, so it cannot log. The progress may stand on the line of the
 * cursor. */
static void answer(const char *text, size_t bytes)
{
    const int error = errno;
    while (write(STDERR_FILENO, text, bytes) < 0 && errno == EINTR)
        continue;
    errno = error;
}

/* The step may end much later. */
static void answer_first(struct hs_session *session)
{
    const int64_t step = atomic_load_explicit(&session->signals.next_step, memory_order_relaxed);
    char text[160], digits[24];
    size_t used = 0, at = sizeof digits - 1;
    append(text, &used, "\nSIGINT: finishing");
    if (step > 0) {
        digits[at] = '\0';
        for (uint64_t left = (uint64_t)step; left; left /= 10)
            digits[--at] = (char)('0' + left % 10);
        append(text, &used, " step ");
        append(text, &used, digits + at);
    }
    append(text, &used,
           session->signals.saves ? ", then saving; Ctrl-C again to stop without saving\n" : ", then stopping\n");
    answer(text, used);
}

static void answer_second(struct hs_session *session)
{
    char text[160];
    size_t used = 0;
    append(text, &used, "\nSIGINT: stopping");
    append(text, &used, session->signals.saves ? " without saving" : "");
    append(text, &used, "; Ctrl-C again to end the process\n");
    answer(text, used);
}

/* The first signal requests a stop, the second a stop without a save. Returns true from the third on, which gets the
 * default action if the program has no handler. Within 0.5 s after the first, signals are ignored: tools such as timeout
 * signal a process and also its group. A shell that ends may repeat the SIGHUP of its terminal, so it is never a second
 * one. */
static bool record_signal(struct hs_session *session, int signal)
{
    const int64_t SAME_SIGNAL_NS = 500000000;
    int none = 0;
    if (signal == SIGUSR1)
        atomic_fetch_add_explicit(&session->save_requests, 1, memory_order_relaxed);
    if (signal == SIGUSR1 || signal == SIGPIPE)
        return false;
    if (atomic_compare_exchange_strong(&session->signals.first, &none, signal)) {
        atomic_store(&session->signals.first_ns, now_ns());
        hs__add_stops(session, HS__STOP_REQUESTED);
        if (signal == SIGINT && session->signals.answers)
            answer_first(session);
        return false;
    }
    if (signal == SIGHUP)
        return false;
    int64_t first_ns = atomic_load(&session->signals.first_ns); /* 0: another thread is recording the first signal */
    if (!first_ns || now_ns() - first_ns < SAME_SIGNAL_NS)
        return false;
    const bool third = hs__add_stops(session, HS__STOP_OUTSIDE) & HS__STOP_UNSAVED;
    if (!third && signal == SIGINT && session->signals.answers)
        answer_second(session);
    return third;
}

static void call_action(const struct sigaction *action, int signal, siginfo_t *info, void *context)
{
    if (action->sa_flags & SA_SIGINFO)
        action->sa_sigaction(signal, info, context);
    else if (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN)
        action->sa_handler(signal);
}

static void handle(int signal, siginfo_t *info, void *context)
{
    int error = errno, index = index_of(signal);
    bool in_fork = getpid() != atomic_load(&owner_pid), third = false;
    atomic_fetch_add(&n_running, 1);
    for (int i = 0; i < MAX_SESSIONS && !in_fork; i++) {
        struct hs_session *session = atomic_load(&listeners[i]);
        third |= session && record_signal(session, signal);
    }
    const struct sigaction action = previous[index];
    atomic_fetch_sub(&n_running, 1); /* the previous handler may never return */
    if ((third || in_fork) && !(action.sa_flags & SA_SIGINFO) && action.sa_handler == SIG_DFL) {
        sigaction(signal, &action, NULL); /* delivered when this handler returns */
        raise(signal);
    } else {
        call_action(&action, signal, info, context);
    }
    errno = error;
}

static bool is_ours(const struct sigaction *action)
{
    return action->sa_flags & SA_SIGINFO && action->sa_sigaction == handle;
}

/* Called with the lock held. A forked child has the handlers of its parent, but not its sessions. */
static void forget_parent(void)
{
    if (getpid() == atomic_load(&owner_pid))
        return;
    for (int i = 0; i < MAX_SESSIONS; i++)
        atomic_store(&listeners[i], NULL);
    n_listeners = 0;
    atomic_store(&n_running, 0); /* a handler may have run in another thread */
}

/* Called with the lock held. A handler of the program that has replaced ours and stays is not replaced: it may call ours,
 * which would then call it. */
static void install(void)
{
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK, .sa_sigaction = handle}, now;
    sigemptyset(&action.sa_mask);
    atomic_store(&owner_pid, getpid());
    for (int i = 0; i < N_SIGNALS; i++) {
        if (sigaction(signals[i], NULL, &now) != 0 || (!(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_IGN))
            continue;
        if (!is_ours(&now) && !(replaced_by[i] && now.sa_sigaction == replaced_by[i])) {
            previous[i] = now;
            if (sigaction(signals[i], &action, NULL) != 0)
                continue;
        }
        installed[i] = true;
    }
}

static void uninstall(void)
{
    for (int i = 0; i < N_SIGNALS; i++) {
        struct sigaction now;
        if (!installed[i] || sigaction(signals[i], NULL, &now) != 0)
            continue;
        installed[i] = false;
        replaced_by[i] = is_ours(&now) ? NULL : now.sa_sigaction;
        /* output that is flushed at the exit must not change the exit code */
        const bool stays =
            signals[i] == SIGPIPE && !(previous[i].sa_flags & SA_SIGINFO) && previous[i].sa_handler == SIG_DFL;
        if (is_ours(&now) && !stays)
            sigaction(signals[i], &previous[i], NULL);
    }
}

/* Times of signals are read from the system's clock, even if `env` has another. */
double hs__grace_left_secs(struct hs_session *session)
{
    const unsigned stops = hs__stops(session);
    if (stops & HS__STOP_UNSAVED)
        return 0;
    if (!(stops & HS__STOP_REQUESTED) || (session->signals.handled && session->signals.grace_secs == 0))
        return HS_NEVER;
    int64_t now = hs_env_monotonic_ns(&session->env);
    if (!session->signals.deadline_ns) {
        int64_t signal_ns = atomic_load(&session->signals.first_ns), since = signal_ns ? now_ns() - signal_ns : 0;
        double grace = session->signals.handled ? fmin(session->signals.grace_secs, MAX_GRACE_SECS) : DEFAULT_GRACE_SECS;
        session->signals.deadline_ns = now - since + (int64_t)(grace * 1e9);
    }
    return session->signals.deadline_ns > now ? (double)(session->signals.deadline_ns - now) / 1e9 : 0;
}

double hs__raw_session_grace_secs(const hs_raw_session *raw)
{
    return raw ? raw->owner->signals.grace_secs : 0;
}

int hs__signals_first(const struct hs_session *session)
{
    int own = atomic_load(&((struct hs_session *)session)->signals.first);
    return own ? own : session->signals.adopted;
}

void hs__signals_adopt(struct hs_session *session, int signal)
{
    session->signals.adopted = signal;
}

hs_code hs__signals_begin(struct hs_session *session, const hs_session_options *options, hs_error *err)
{
    const double grace_secs = options->signal_grace_secs;
    if (!(grace_secs >= 0) && grace_secs != HS_NEVER)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_session_options.signal_grace_secs is %g; it must be at least 0, or HS_NEVER for no limit",
                            grace_secs);
    if (!options->signals)
        return HS_OK;
    session->signals.answers = !session->raw.rank && isatty(STDERR_FILENO);
    session->signals.grace_secs = grace_secs == 0 ? DEFAULT_GRACE_SECS : fmax(grace_secs, 0);
    pthread_mutex_lock(&lock);
    forget_parent();
    int slot = 0;
    while (slot < MAX_SESSIONS && atomic_load(&listeners[slot]))
        slot++;
    if (slot < MAX_SESSIONS) {
        atomic_store(&listeners[slot], session); /* before the installation, so that no signal is missed */
        if (n_listeners++ == 0)
            install();
    }
    pthread_mutex_unlock(&lock);
    session->signals.handled = slot < MAX_SESSIONS;
    if (session->signals.handled)
        return HS_OK;
    return hs_error_set(err, HS_RESOURCE_EXHAUSTED,
                        "%d sessions already handle signals; leave hs_session_options.signals out in other sessions",
                        MAX_SESSIONS);
}

void hs__signals_end(struct hs_session *session)
{
    if (!session->signals.handled)
        return;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MAX_SESSIONS; i++) {
        if (atomic_load(&listeners[i]) != session)
            continue;
        if (--n_listeners == 0)
            uninstall(); /* while the session can still record signals */
        atomic_store(&listeners[i], NULL);
    }
    pthread_mutex_unlock(&lock);
    while (atomic_load(&n_running)) /* a handler in another thread may still use the session */
        hs_env_sleep_ns(&session->env, 100000);
}
