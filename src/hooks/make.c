/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/make.h"

#include "base/env.h"

#include <string.h>

hs_hook hs__hook_make(const hs__hook_kind *kind, void *options, const void *given)
{
    hs__hook_base *hook = NULL;
    hs_error error = {0};
    hs_code code = hs_struct_take(options, kind->options_bytes, given, kind->required_bytes, kind->options_name, &error);
    if (!code && kind->check)
        code = kind->check(options, &error);
    if (!code)
        hook = hs__hook_new(kind->state_bytes, &error);
    if (hook && kind->fill(hook, options, &error)) {
        kind->ops->destroy(hook);
        hook = NULL;
    }
    return hook ? (hs_hook){.ops = kind->ops, .self = hook, .flags = hook->flags} : hs_hook_broken(kind->ops->name, &error);
}

static _Thread_local const hs_env *memory; /* NULL: malloc */

const hs_env *hs__set_hook_memory(const hs_env *env)
{
    const hs_env *earlier = memory;
    memory = env;
    return earlier;
}

void *hs__hook_new(size_t bytes, hs_error *err)
{
    hs_env env = *hs_env_default();
    if (memory)
        env.allocator = memory->allocator;
    hs__hook_base *made = hs__alloc(&env, 1, bytes);
    if (made)
        made->env = env;
    else
        hs__no_memory(err, bytes, "the hook");
    return made;
}

void hs__hook_free(void *self)
{
    hs_env env = ((hs__hook_base *)self)->env;
    hs__free(&env, self);
}

const char *const *hs__hook_names(void *self, const char *const *names, hs_error *err)
{
    const char *const *copy = hs__names_copy(&((hs__hook_base *)self)->env, names);
    if (!copy)
        hs__no_memory(err, hs__names_count(names), "the hook's names");
    return copy;
}

char *hs__hook_text(void *self, const char *text, hs_error *err)
{
    char *copy = hs__strdup(&((hs__hook_base *)self)->env, text);
    if (!copy)
        hs__no_memory(err, strlen(text), "the hook's names");
    return copy;
}
