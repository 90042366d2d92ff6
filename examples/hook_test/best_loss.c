/* SPDX-License-Identifier: Apache-2.0 */
#include "best_loss.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    hs_env memory;     /* the environment that owns this struct */
    const hs_env *env; /* the session's */
    double patience_secs;
    double best;
    int64_t improved_ns; /* time of the last improvement */
    const char *tmp;     /* "PATH.tmp" */
    char path[];
} hook;

static hs_code begin(void *self, hs_backend backend, hs_error *err)
{
    hook *h = self;
    h->env = hs_backend_env(backend);
    h->improved_ns = hs_env_monotonic_ns(h->env);
    (void)err;
    return HS_OK;
}

/* Replaces the file by a line with the loss. */
static hs_code write_line(const hook *h, hs_error *err)
{
    const hs_file_system *files = &h->env->files;
    char line[64];
    void *file;
    int length = snprintf(line, sizeof line, "%.17g\n", h->best);
    hs_code code = files->ops->open(files->user, h->tmp, HS_OPEN_WRITE, &file, err);
    if (code)
        return code;
    code = files->ops->write(files->user, file, line, (size_t)length, err);
    if (!code)
        code = files->ops->sync(files->user, file, err); /* so that a power cut leaves the old or the new file */
    hs_code closed = files->ops->close(files->user, file, code ? NULL : err);
    if (!code)
        code = closed;
    if (!code)
        code = files->ops->rename(files->user, h->tmp, h->path, err);
    if (code)
        files->ops->remove(files->user, h->tmp, NULL);
    return code;
}

static hs_code after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    hook *h = self;
    hs_error error = {.code = HS_OK};
    double loss = hs_run_values_number(values, 0);
    int64_t now = hs_env_monotonic_ns(h->env);
    (void)err;
    if (loss < h->best) {
        h->best = loss;
        h->improved_ns = now;
        if (write_line(h, &error) != HS_OK)
            hs_log(h->env, HS_LOG_WARNING, "best_loss: loss %g not written: %s", loss, error.message);
    } else if ((double)(now - h->improved_ns) / 1e9 >= h->patience_secs) {
        hs_run_context_request_stop(run);
    }
    return HS_OK;
}

static void destroy(void *self)
{
    hs_env memory = ((hook *)self)->memory;
    hs_env_free(&memory, self);
}

hs_hook best_loss(const hs_env *env, const char *path, double patience_secs)
{
    static const char *const loss[] = {"loss", NULL};
    static const hs_hook_ops ops = HS_INIT(hs_hook_ops, .name = "best_loss", .fetches = loss, .begin = begin,
                                           .after_run = after_run, .destroy = destroy);
    size_t length = strlen(path);
    hook *h = (hook *)hs_env_alloc(env, sizeof *h + length + 1 + length + sizeof ".tmp");
    if (!h) {
        hs_error error;
        hs_error_set(&error, HS_RESOURCE_EXHAUSTED, "no memory for best_loss");
        return hs_hook_broken("best_loss", &error);
    }
    h->memory = env ? *env : *hs_env_default();
    h->patience_secs = patience_secs;
    h->best = INFINITY;
    strcpy(h->path, path);
    h->tmp = h->path + length + 1;
    sprintf(h->path + length + 1, "%s.tmp", path);
    return HS_HOOK(.ops = &ops, .self = h);
}
