/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks and lists of hooks outside of sessions: their flags, their destruction, and the hook that reports a failed
 * constructor. */
#include "session/session.h"

#include <stddef.h>

hs_hook hs_hook_hold(hs_hook hook)
{
    hook.flags |= HS_HOOK_HELD;
    return hook;
}

hs_hook hs_hook_best_effort(hs_hook hook, int64_t max_failures)
{
    hook.flags |= HS_HOOK_BEST_EFFORT;
    hook.max_failures = max_failures < 0 ? 0 : max_failures > INT32_MAX ? INT32_MAX : (uint32_t)max_failures;
    return hook;
}

hs_hook hs_hook_late(hs_hook hook)
{
    hook.flags |= HS_HOOK_LATE;
    return hook;
}

static void destroy(const hs_hook_ops *ops, void *self)
{
    if (ops && ops->size >= offsetof(hs_hook_ops, destroy) + sizeof ops->destroy && ops->destroy)
        ops->destroy(self);
}

void hs_hook_free(hs_hook hook)
{
    destroy(hook.ops, hook.self);
}

/* Stands for a hook whose constructor failed: its begin reports the error. */
typedef struct {
    hs_hook_ops ops; /* with the failed hook's name */
    hs_error error;
} broken_hook;

static hs_code broken_begin(void *self, hs_backend backend, hs_error *err)
{
    (void)backend;
    return hs__error_copy(err, &((const broken_hook *)self)->error);
}

static void broken_destroy(void *self)
{
    hs__free(hs_env_default(), self);
}

static hs_code no_memory_begin(void *self, hs_backend backend, hs_error *err)
{
    (void)self, (void)backend;
    return hs__no_memory(err, sizeof(broken_hook), "the hook");
}

hs_hook hs_hook_broken(const char *name, const hs_error *error)
{
    static const hs_hook_ops no_memory_ops = HS_INIT(hs_hook_ops, .name = "no memory", .begin = no_memory_begin);
    broken_hook *hook = hs__alloc(hs_env_default(), 1, sizeof *hook);
    if (!hook)
        return (hs_hook){.ops = &no_memory_ops};
    hook->ops =
        (hs_hook_ops)HS_INIT(hs_hook_ops, .name = name ? name : "hook", .begin = broken_begin, .destroy = broken_destroy);
    if (error && error->code)
        hook->error = *error;
    else
        hs_error_set(&hook->error, HS_INVALID_ARGUMENT, "the hook could not be created");
    return (hs_hook){.ops = &hook->ops, .self = hook};
}

size_t hs__hooks_count(const hs_hook *hooks)
{
    size_t n = 0;
    while (hooks && hooks[n].ops)
        n++;
    return n;
}

void hs_hooks_free(const hs_hook *hooks)
{
    const size_t n = hs__hooks_count(hooks);
    for (size_t i = 0; i < n; i++) {
        bool skip = (hooks[i].flags & HS_HOOK_HELD) != 0;
        for (size_t k = 0; !skip && hooks[i].self && k < n; k++)
            skip = hooks[k].self == hooks[i].self && (k < i || (hooks[k].flags & HS_HOOK_HELD));
        if (!skip)
            hs_hook_free(hooks[i]);
    }
}

void hs__hooks_destroy_apart(const hs_hook *hooks, const hs_hook *others)
{
    for (size_t i = 0; i < hs__hooks_count(hooks); i++) {
        bool skip = (hooks[i].flags & HS_HOOK_HELD) != 0;
        for (size_t k = 0; hooks[i].self && k < hs__hooks_count(others); k++)
            skip |= others[k].self == hooks[i].self;
        for (size_t k = 0; hooks[i].self && k < i; k++)
            skip |= hooks[k].self == hooks[i].self;
        if (!skip)
            hs_hook_free(hooks[i]);
    }
}

hs_hook *hs__hooks_hold(const hs_env *env, const hs_hook *hooks, hs_error *err)
{
    const uint32_t kinds = HS_HOOK_TRAIN | HS_HOOK_EVAL | HS_HOOK_AUX;
    const size_t n = hs__hooks_count(hooks);
    hs_hook *held = hs__alloc(env, n + 1, sizeof *held);
    if (!held)
        hs__no_memory(err, n * sizeof *held, "the hooks");
    for (size_t i = 0; held && i < n; i++) {
        held[i] = hs_hook_hold(hooks[i]);
        if (!(hooks[i].flags & kinds)) /* hooks without a kind get HS_HOOK_TRAIN, but these sessions do not train */
            held[i].flags |= HS_HOOK_EVAL;
    }
    return held;
}
