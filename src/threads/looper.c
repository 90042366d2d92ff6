/* SPDX-License-Identifier: Apache-2.0 */
/* A looper is a thread that calls functions of the program at regular times, until its coordinator stops. */
#include "threads/coordinator_inside.h"
#include "threads/coordinated_thread.h"

#include <math.h>

typedef struct {
    hs_env env;
    hs_looper_options options;
} looper;

static hs_code call(hs_code (*function)(void *user, hs_error *err), looper *l, hs_error *err)
{
    return function ? function(l->options.user, err) : HS_OK;
}

static hs_code run_looper(void *user, hs_coordinator *coordinator, hs_error *err)
{
    looper *l = user;
    const double NS = 1e9;
    hs_code code = call(l->options.start_loop, l, err);
    int64_t start = hs__deadline(0);
    for (double calls = 0; !code; calls++) {
        double due = calls * l->options.every_n_secs, since = (double)(hs__deadline(0) - start) / NS;
        if (hs_coordinator_wait_for_stop(coordinator, fmax(due - since, 0)))
            return call(l->options.stop_loop, l, err);
        code = call(l->options.loop, l, err);
    }
    return code;
}

static void wake_looper(void *user)
{
    looper *l = user;
    l->options.wake(l->options.user);
}

static void release_looper(void *user)
{
    looper *l = user;
    hs_env env = l->env;
    hs__free(&env, l);
}

static hs_code copy_options(hs_looper_options *options, const hs_looper_options *given, hs_error *err)
{
    hs_error_clear(err);
    hs_code code = HS_STRUCT_TAKE(hs_looper_options, wake, options, given, err);
    if (code)
        return code;
    if (!options->coordinator || !options->loop)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_looper_options.%s is missing",
                            options->loop ? "coordinator" : "loop");
    if (!(options->every_n_secs >= 0 && isfinite(options->every_n_secs)))
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_looper_options.every_n_secs is %g; it must be finite and at least 0",
                            options->every_n_secs);
    return HS_OK;
}

hs_thread *hs_looper_new(const hs_looper_options *given, hs_error *err)
{
    hs_looper_options options;
    if (copy_options(&options, given, err))
        return NULL;
    const hs_env *env = &options.coordinator->env;
    looper *l = hs__alloc(env, 1, sizeof *l);
    if (!l) {
        hs__no_memory(err, sizeof *l, "a looper");
        return NULL;
    }
    *l = (looper){*env, options};
    hs_thread_options of_thread = HS_INIT(hs_thread_options, .name = options.name ? options.name : "looper",
                                          .run = run_looper, .user = l, .wake = options.wake ? wake_looper : NULL);
    hs_thread *thread = hs__thread_new(&of_thread, env, release_looper, err);
    if (!thread)
        release_looper(l);
    else if (hs_coordinator_register(options.coordinator, thread, err)) {
        hs_thread_free(thread);
        return NULL;
    }
    return thread;
}
