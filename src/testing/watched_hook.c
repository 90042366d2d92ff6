/* SPDX-License-Identifier: Apache-2.0 */
/* A hook that wraps another hook and records its callbacks. */
#include <hooksess/testing.h>

#include "session/schedule.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    hs_script *script;
    hs_hook hook;
    hs_hook_ops inner; /* a copy of the hook's callbacks, complete */
    hs_hook_ops ops;   /* of the wrapper */
    size_t prefix;     /* length of "LABEL." */
    char text[];       /* "LABEL.", then the name of a callback */
} watch;

#define LONGEST_WORD "boundary"

static void note(watch *w, const char *word)
{
    strcpy(w->text + w->prefix, word);
    hs_script_note(w->script, w->text);
}

static hs_code watch_begin(void *self, hs_backend backend, hs_error *err)
{
    watch *w = self;
    note(w, "begin");
    return w->inner.begin ? w->inner.begin(w->hook.self, backend, err) : HS_OK;
}

static hs_code watch_create(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    watch *w = self;
    note(w, "create");
    return w->inner.after_create_session ? w->inner.after_create_session(w->hook.self, session, coordinator, err) : HS_OK;
}

static hs_code watch_before(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    watch *w = self;
    note(w, "before");
    return w->inner.before_run ? w->inner.before_run(w->hook.self, run, args, err) : HS_OK;
}

static hs_code watch_after(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    watch *w = self;
    note(w, "after");
    return w->inner.after_run ? w->inner.after_run(w->hook.self, run, values, err) : HS_OK;
}

static hs_code watch_boundary(void *self, hs_run_context *run, hs_error *err)
{
    watch *w = self;
    note(w, "boundary");
    return w->inner.boundary(w->hook.self, run, err);
}

static hs_code watch_end(void *self, hs_raw_session *session, hs_error *err)
{
    watch *w = self;
    note(w, "end");
    return w->inner.end ? w->inner.end(w->hook.self, session, err) : HS_OK;
}

static void watch_close(void *self, const hs_outcome *outcome)
{
    watch *w = self;
    note(w, "close");
    if (w->inner.close)
        w->inner.close(w->hook.self, outcome);
}

static hs_code watch_save(void *self, hs_state_writer *out, hs_error *err)
{
    const watch *w = self;
    return w->inner.save_state(w->hook.self, out, err);
}

static hs_code watch_load(void *self, hs_state_reader *in, hs_error *err)
{
    const watch *w = self;
    return w->inner.load_state(w->hook.self, in, err);
}

static const char *watch_identity(void *self)
{
    const watch *w = self;
    return w->inner.state_identity(w->hook.self);
}

static const char *watch_rank_identity(void *self)
{
    const watch *w = self;
    return w->inner.rank_identity(w->hook.self);
}

static void watch_destroy(void *self)
{
    watch *w = self;
    hs_env env = *hs_script_env(w->script);
    hs_hooks_free(HS_HOOKS(w->hook));
    hs_env_free(&env, w);
}

hs_hook hs_script_watch(hs_script *script, const char *label, hs_hook hook)
{
    hs_hook_ops inner;
    if (!hook.ops || HS_STRUCT_TAKE(hs_hook_ops, rank_identity, &inner, hook.ops, NULL))
        return hook; /* opening a session reports the invalid hook */
    size_t prefix = label ? strlen(label) + 1 : 0;
    watch *w = hs_env_alloc(hs_script_env(script), sizeof *w + prefix + sizeof LONGEST_WORD);
    if (!w) { /* frees the hook as the wrapper would; begin reports the error */
        hs_error error;
        hs_error_set(&error, HS_RESOURCE_EXHAUSTED, "no memory to watch the hook '%s'", inner.name ? inner.name : "");
        hs_hook broken = hs_hook_broken("hs_script_watch", &error);
        hs_hooks_free(HS_HOOKS(hook));
        return broken;
    }
    if (label)
        sprintf(w->text, "%s.", label);
    w->prefix = prefix;
    w->script = script;
    w->hook = hook;
    w->inner = inner;
    w->ops = (hs_hook_ops)HS_INIT(
        hs_hook_ops, .name = w->inner.name, .fetches = w->inner.fetches, .begin = watch_begin,
        .after_create_session = watch_create, .before_run = watch_before, .after_run = watch_after,
        .boundary = w->inner.boundary ? watch_boundary : NULL, .end = watch_end, .close = watch_close,
        .save_state = w->inner.save_state ? watch_save : NULL, .load_state = w->inner.load_state ? watch_load : NULL,
        .destroy = watch_destroy, .state_version = w->inner.state_version,
        .state_identity = w->inner.state_identity ? watch_identity : NULL, .state_bytes = w->inner.state_bytes,
        .rank_identity = w->inner.rank_identity ? watch_rank_identity : NULL);
    return (hs_hook){.ops = &w->ops,
                     .self = w,
                     .flags = (hook.flags & ~(uint32_t)HS_HOOK_HELD) | (w->inner.before_run ? 0 : HS__HOOK_WATCHES_BEFORE),
                     .max_failures = hook.max_failures,
                     .when = hook.when};
}
