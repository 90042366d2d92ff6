/* SPDX-License-Identifier: Apache-2.0 */
/* Hooks outside of sessions. */
#include "session/session.h"

#include <stddef.h>

hs_hook hs_hook_hold(hs_hook hook)
{
    hook.flags |= HS_HOOK_HELD;
    return hook;
}

hs_hook hs_hook_best_effort(hs_hook hook, int64_t most_failures)
{
    uint64_t most = most_failures < 0 ? 0 : most_failures > INT32_MAX ? INT32_MAX : (uint64_t)most_failures;
    hook.flags |= HS_HOOK_BEST_EFFORT | most << HS__MOST_FAILURES;
    return hook;
}

static void destroy(const hs_hook_ops *ops, void *self)
{
    if (ops && ops->size >= offsetof(hs_hook_ops, destroy) + sizeof ops->destroy && ops->destroy)
        ops->destroy(self);
}

void hs_hook_destroy(hs_hook hook)
{
    destroy(hook.ops, hook.self);
}

void hs_hooks_destroy(const hs_hook *hooks, size_t n)
{
    for (size_t i = 0; hooks && i < n; i++) {
        bool skip = (hooks[i].flags & HS_HOOK_HELD) != 0;
        for (size_t k = 0; !skip && hooks[i].self && k < n; k++)
            skip = hooks[k].self == hooks[i].self && (k < i || (hooks[k].flags & HS_HOOK_HELD));
        if (!skip)
            hs_hook_destroy(hooks[i]);
    }
}
