/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/heartbeat.h"

#include "base/files.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE = 512, NAME = 128 };
/* How long a heartbeat that hangs may hold up the closing. */
static const double PATIENCE_SECS = 10;

struct hs__heartbeat {
    hs_env env;
    hs__pulse pulse;
    hs_thread *thread;
    double every_n_secs;
    bool failed;      /* and somebody was told */
    atomic_bool left; /* nobody waits for it any more: what it writes with may be gone */
    char *tmp;        /* "PATH.tmp" */
    char path[];
};

/* As JSON has it; what is no plain character becomes a '?'. */
static void quote(char *to, size_t size, const char *text)
{
    size_t used = 0;
    for (; *text && used + 2 < size; text++) {
        if (*text == '"' || *text == '\\')
            to[used++] = '\\';
        to[used++] = *text;
        if ((unsigned char)*text < ' ')
            to[used - 1] = '?';
    }
    to[used] = '\0';
}

static size_t describe(hs__heartbeat *h, bool closed, char *line)
{
    char hook[NAME];
    hs__pulse *pulse = &h->pulse;
    int64_t since = atomic_load(&pulse->since_ns), still = hs_env_monotonic_ns(&h->env) - since;
    quote(hook, sizeof hook, closed ? "" : atomic_load(&pulse->hook));
    return (size_t)snprintf(line, LINE,
                            "{\"time\": %.3f, \"pid\": %ld, \"phase\": \"%s\", \"hook\": \"%s\", \"progress\": %lld, "
                            "\"still_secs\": %.3f, \"stalled\": %s}\n",
                            (double)hs_env_realtime_ns(&h->env) / 1e9, (long)getpid(),
                            closed ? "closed" : hs_phase_name((hs_phase)atomic_load(&pulse->phase)), hook,
                            atomic_load(&pulse->progress), still > 0 ? (double)still / 1e9 : 0.0,
                            !closed && atomic_load(&pulse->stalled) ? "true" : "false");
}

static void beat(hs__heartbeat *h, bool closed)
{
    char line[LINE];
    hs_error error = {0};
    hs_code code = hs__file_replace_by(&h->env, h->tmp, h->path, line, describe(h, closed, line), false, &error);
    if (code && !h->failed && !atomic_load(&h->left))
        hs_log(&h->env, HS_LOG_WARNING, "watchdog: cannot write the heartbeat: %s", error.message);
    h->failed |= code != HS_OK;
}

static void make_directory(const hs__heartbeat *h)
{
    const hs_file_system *files = &h->env.files;
    char *slash = strrchr(h->tmp, '/');
    if (!slash || slash == h->tmp)
        return;
    *slash = '\0';
    files->ops->make_directory(files->user, h->tmp, NULL); /* the file will show whether it is there */
    *slash = '/';
}

static hs_code run(void *user, hs_coordinator *coordinator, hs_error *err)
{
    hs__heartbeat *h = user;
    (void)err;
    make_directory(h);
    do
        beat(h, false);
    while (!hs_coordinator_wait_for_stop(coordinator, h->every_n_secs));
    if (!atomic_load(&h->left))
        beat(h, true);
    return HS_OK;
}

static hs_code start(hs__heartbeat *h, hs_coordinator *threads, hs_error *err)
{
    const hs_thread_options options =
        HS_INIT(hs_thread_options, .name = "heartbeat", .run = run, .user = h, .env = &h->env);
    hs_code code;
    if (!(h->thread = hs_thread_new(&options, err)))
        return HS_RESOURCE_EXHAUSTED;
    if (!(code = hs_coordinator_register(threads, h->thread, err)))
        code = hs_thread_start(h->thread, err);
    return code;
}

hs__heartbeat *hs__heartbeat_start(const hs_env *env, const char *path, double every_n_secs, hs_coordinator *threads,
                                   hs_error *err)
{
    static const char ending[] = ".tmp";
    size_t bytes = strlen(path) + 1;
    hs__heartbeat *h = hs_env_alloc(env, sizeof *h + 2 * bytes + sizeof ending);
    if (!h) {
        hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no memory for a heartbeat");
        return NULL;
    }
    h->env = *env;
    h->every_n_secs = every_n_secs;
    atomic_init(&h->left, false);
    h->tmp = h->path + bytes;
    memcpy(h->path, path, bytes);
    snprintf(h->tmp, bytes + sizeof ending, "%s%s", path, ending);
    atomic_init(&h->pulse.phase, HS_PHASE_INIT);
    atomic_init(&h->pulse.hook, "");
    atomic_init(&h->pulse.progress, 0);
    atomic_init(&h->pulse.since_ns, hs_env_monotonic_ns(env));
    atomic_init(&h->pulse.stalled, false);
    if (start(h, threads, err)) {
        hs_thread_free(h->thread);
        hs_env_free(env, h);
        return NULL;
    }
    return h;
}

hs__pulse *hs__heartbeat_pulse(hs__heartbeat *heartbeat)
{
    return &heartbeat->pulse;
}

void hs__heartbeat_end(hs__heartbeat *h)
{
    if (!h)
        return;
    hs_env env = h->env;
    bool ended = hs_thread_wait(h->thread, PATIENCE_SECS);
    hs_thread_free(h->thread);
    if (ended) {
        hs_env_free(&env, h);
        return;
    }
    hs_log(&env, HS_LOG_WARNING, "watchdog: writing '%s' hangs; its thread is abandoned", h->path);
    atomic_store(&h->left, true);
}
