/* SPDX-License-Identifier: Apache-2.0 */
/* compute_end finds out when the time is up. stop_if_late compares this time with that of a step and a save: at the begin
 * and after each step. */
#include <hooksess/hooks/stop_after.h>

#include "hooks/make.h"

#include <math.h>

static const double SAVE_MARGIN = 1.5;
static const int64_t SECOND = 1000000000;
static const int64_t CHECK_NS = 10 * (int64_t)1000000000; /* interval of the readings of the wall clock */
static const int64_t FAR_AWAY_NS = INT64_MAX / 4;

typedef enum { TOTAL, THIS_RUN, DEADLINE, N_LIMITS } limit;
static const char *const limit_names[N_LIMITS] = {"total_secs", "this_run_secs", "deadline_unix_secs"};

/* The hook's state in checkpoints. */
typedef struct {
    int64_t used_ns;    /* over all runs */
    int64_t longest_ns; /* the longest step of the run that saved it */
    double save_secs;
} record;

typedef struct {
    hs__hook_base base;
    double limits[N_LIMITS], margin_secs; /* 0: no limit */
    const hs_env *session_env;
    record resumed; /* the state of the checkpoint. All 0: none */
    bool has_resumed, has_last, logged;
    int64_t began_ns, last_ns, longest_ns; /* last_ns: the end of the previous step */
    int64_t ends_ns, checked_ns;           /* when the time is up, computed at checked_ns */
    limit ends_by;                         /* the limit that ends_ns is of */
    const hs_raw_session *session;
} stop_after;

static int64_t used_ns(const stop_after *hook, int64_t now_ns)
{
    return hook->resumed.used_ns + (now_ns - hook->began_ns);
}

static double remaining_secs(const stop_after *hook, limit which, int64_t now_ns)
{
    switch (which) {
    case TOTAL:
        return hook->limits[TOTAL] - (double)used_ns(hook, now_ns) / 1e9;
    case THIS_RUN:
        return hook->limits[THIS_RUN] - (double)(now_ns - hook->began_ns) / 1e9;
    default:
        return hook->limits[DEADLINE] - (double)hs_env_realtime_ns(hook->session_env) / 1e9;
    }
}

/* Computes when the time is up. */
static void compute_end(stop_after *hook, int64_t now_ns)
{
    double least = INFINITY;
    for (int i = 0; i < N_LIMITS; i++) {
        double remaining = hook->limits[i] > 0 ? remaining_secs(hook, (limit)i, now_ns) : INFINITY;
        if (remaining < least) {
            least = remaining;
            hook->ends_by = (limit)i;
        }
    }
    double ns = fmin(fmax(least * 1e9, -(double)FAR_AWAY_NS), (double)FAR_AWAY_NS);
    hook->ends_ns = now_ns + (int64_t)ns;
    hook->checked_ns = now_ns;
}

static double required_secs(const stop_after *hook, int64_t longest_ns, double save_secs)
{
    return (double)longest_ns / 1e9 + SAVE_MARGIN * save_secs + hook->margin_secs;
}

static hs_code begin(void *self, hs_backend backend, hs_error *err)
{
    stop_after *hook = self;
    (void)err;
    hook->session_env = hs_backend_env(backend);
    hook->began_ns = hs_env_monotonic_ns(hook->session_env);
    hook->resumed = (record){0, 0, 0};
    hook->has_resumed = hook->has_last = hook->logged = false;
    hook->longest_ns = 0;
    hook->session = NULL;
    return HS_OK;
}

static hs_code after_create_session(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    stop_after *hook = self;
    const record *resumed = &hook->resumed;
    bool first = !hook->session;
    int64_t now_ns = hs_env_monotonic_ns(hook->session_env);
    (void)err;
    hook->session = session;
    hook->has_last = false; /* a recovery is not part of a step */
    if (!first || !hook->has_resumed || !(hook->limits[TOTAL] > 0))
        return HS_OK;
    /* The durations of a step and a save are the checkpoint's, because this process has made no step yet. */
    if (remaining_secs(hook, TOTAL, now_ns) >= required_secs(hook, resumed->longest_ns, resumed->save_secs))
        return HS_OK;
    hs_log(hook->session_env, HS_LOG_INFO,
           "training is already done: %.6g s of total_secs %.6g are used; a step (%.3g s) and a save (%.3g s) may not fit "
           "in the rest",
           (double)used_ns(hook, now_ns) / 1e9, hook->limits[TOTAL], (double)resumed->longest_ns / 1e9, resumed->save_secs);
    hook->logged = true;
    hs_coordinator_request_stop(coordinator, NULL);
    return HS_OK;
}

/* Stops if another step and a save would take longer than the remaining time. */
static void stop_if_late(stop_after *hook, hs_run_context *run, int64_t now_ns)
{
    double remaining = (double)(hook->ends_ns - now_ns) / 1e9, save_secs = hs_raw_session_save_secs(hook->session);
    if (remaining >= required_secs(hook, hook->longest_ns, save_secs))
        return;
    if (!hook->logged)
        hs_log(hook->session_env, HS_LOG_INFO,
               "step %lld: stopping: %.3g s remain of %s %.13g; a step may take %.3g s, a save %.3g s, margin_secs is %.3g",
               (long long)hs_run_context_global_step(run, NULL), remaining, limit_names[hook->ends_by],
               hook->limits[hook->ends_by], (double)hook->longest_ns / 1e9, save_secs, hook->margin_secs);
    hook->logged = true;
    hs_run_context_interrupt(run);
}

static hs_code boundary(void *self, hs_run_context *run, hs_error *err)
{
    stop_after *hook = self;
    (void)err;
    if (hs_run_context_boundary(run) != HS_BOUNDARY_CREATED)
        return HS_OK;
    int64_t now_ns = hs_run_context_now(run);
    compute_end(hook, now_ns);
    stop_if_late(hook, run, now_ns);
    return HS_OK;
}

/* For the first step, which has no previous one. */
static hs_code before_run(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    stop_after *hook = self;
    (void)args, (void)err;
    if (!hook->has_last) {
        hook->last_ns = hs_run_context_now(run);
        hook->has_last = true;
    }
    return HS_OK;
}

static hs_code after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    stop_after *hook = self;
    int64_t now_ns = hs_run_context_now(run), took_ns = now_ns - hook->last_ns;
    (void)values, (void)err;
    hook->last_ns = now_ns;
    if (took_ns > hook->longest_ns)
        hook->longest_ns = took_ns;
    if (now_ns - hook->checked_ns >= CHECK_NS)
        compute_end(hook, now_ns);
    stop_if_late(hook, run, now_ns);
    return HS_OK;
}

static hs_code save_state(void *self, hs_state_writer *out, hs_error *err)
{
    const stop_after *hook = self;
    record now = {used_ns(hook, hs_env_monotonic_ns(hook->session_env)), hook->longest_ns,
                  hs_raw_session_save_secs(hook->session)};
    if (hook->resumed.longest_ns > now.longest_ns && !hook->has_last) /* this run has made no step */
        now.longest_ns = hook->resumed.longest_ns;
    if (!(now.save_secs > 0)) /* and no save */
        now.save_secs = hook->resumed.save_secs;
    hs_code code = hs_state_writer_write(out, &now.used_ns, sizeof now.used_ns, err);
    if (code || (code = hs_state_writer_write(out, &now.longest_ns, sizeof now.longest_ns, err)))
        return code;
    return hs_state_writer_write(out, &now.save_secs, sizeof now.save_secs, err);
}

/* If the process rolls back to the checkpoint, the time since then still counts. */
static hs_code load_state(void *self, hs_state_reader *in, hs_error *err)
{
    stop_after *hook = self;
    record then = {0, 0, 0};
    hs_code code = hs_state_reader_read(in, &then.used_ns, sizeof then.used_ns, err);
    if (code || (code = hs_state_reader_read(in, &then.longest_ns, sizeof then.longest_ns, err)) ||
        (code = hs_state_reader_read(in, &then.save_secs, sizeof then.save_secs, err)))
        return code;
    if (then.used_ns < 0 || then.used_ns > FAR_AWAY_NS || then.longest_ns < 0 || !(then.save_secs >= 0) ||
        isinf(then.save_secs))
        return hs_error_set(err, HS_DATA_LOSS, "invalid times: %lld s used, %lld s for a step",
                            (long long)(then.used_ns / SECOND), (long long)(then.longest_ns / SECOND));
    if (!hook->has_resumed && !hook->session)
        hook->resumed = then;
    hook->has_resumed = true;
    return HS_OK;
}

static const hs_hook_ops ops =
    HS_INIT(hs_hook_ops, .name = "stop_after", .begin = begin, .after_create_session = after_create_session,
            .before_run = before_run, .after_run = after_run, .boundary = boundary, .save_state = save_state,
            .load_state = load_state, .destroy = hs__hook_free);

static hs_code check(const void *given, hs_error *err)
{
    const hs_stop_after_options *options = given;
    const double limits[N_LIMITS] = {options->total_secs, options->this_run_secs, options->deadline_unix_secs};
    bool any = false;
    for (int i = 0; i < N_LIMITS; i++) {
        if (!(limits[i] >= 0) && limits[i] != HS_NEVER)
            return hs_error_set(err, HS_INVALID_ARGUMENT, "%s is %g; it must be positive, or HS_NEVER", limit_names[i],
                                limits[i]);
        any |= limits[i] > 0;
    }
    if (!any)
        return hs_error_set(
            err, HS_INVALID_ARGUMENT,
            "none of total_secs, this_run_secs and deadline_unix_secs is given; give at least one of the three");
    if (!(options->margin_secs >= 0) || isinf(options->margin_secs))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "margin_secs is %g; it must be at least 0", options->margin_secs);
    return HS_OK;
}

static hs_code fill(void *self, const void *given, hs_error *err)
{
    stop_after *hook = self;
    const hs_stop_after_options *options = given;
    (void)err;
    hook->limits[TOTAL] = options->total_secs;
    hook->limits[THIS_RUN] = options->this_run_secs;
    hook->limits[DEADLINE] = options->deadline_unix_secs;
    hook->margin_secs = options->margin_secs;
    hook->base.flags = HS_HOOK_STATE_VARIES;
    return HS_OK;
}

hs_hook hs_stop_after_hook(const hs_stop_after_options *given)
{
    return HS__HOOK_MAKE(&ops, stop_after, hs_stop_after_options, margin_secs, check, fill, NULL, given);
}
