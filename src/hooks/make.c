/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/make.h"

#include "base/env.h"
#include "base/trigger.h"

#include <string.h>

static void write_option(const hs__rank_option *option, const void *options, hs__buffer *out)
{
    const void *at = (const char *)options + option->offset;
    hs__buffer_text(out, "%s", option->name);
    switch (option->type) {
    case HS__ENUM:
        hs__buffer_text(out, " %d", *(const int *)at);
        break;
    case HS__BOOL:
        hs__buffer_text(out, *(const bool *)at ? " true" : " false");
        break;
    case HS__INT64:
        hs__buffer_text(out, " %lld", (long long)*(const int64_t *)at);
        break;
    case HS__DOUBLE:
        hs__buffer_text(out, " %.17g", *(const double *)at);
        break;
    case HS__TEXT:
        hs__buffer_text(out, " '%s'", *(const char *const *)at ? *(const char *const *)at : "");
        break;
    case HS__NAMES:
        for (const char *const *name = *(const char *const *const *)at; name && *name; name++)
            hs__buffer_text(out, " '%s'", *name);
        break;
    }
    hs__buffer_text(out, "\n");
}

const char *hs__hook_rank_identity(void *self)
{
    return (const char *)((const hs__hook_base *)self)->rank_identity.data;
}

static hs_code write_rank_identity(hs__hook_base *hook, const hs__rank_option *same, const void *options, hs_error *err)
{
    hs__buffer *out = &hook->rank_identity;
    if (!same && !out->size && !out->failed)
        return HS_OK;
    for (; same && same->name; same++)
        write_option(same, options, out);
    hs__buffer_append(out, "", 1);
    return hs__buffer_check(out, "the hook's options", err);
}

hs_hook hs__hook_make(const hs__hook_kind *kind, void *options, const void *given)
{
    hs__hook_base *hook = NULL;
    hs_error error = {0};
    hs_code code = hs_struct_take(options, kind->options_bytes, given, kind->required_bytes, kind->options_name, &error);
    if (!code && kind->check)
        code = kind->check(options, &error);
    if (!code)
        hook = hs__hook_new(kind->state_bytes, &error);
    if (hook && (kind->fill(hook, options, &error) || write_rank_identity(hook, kind->same, options, &error))) {
        kind->ops->destroy(hook);
        hook = NULL;
    }
    if (!hook)
        return hs_hook_broken(kind->ops->name, &error);
    hs_hook made = {.ops = kind->ops, .self = hook, .flags = hook->flags, .when = hook->when};
    if (hook->fetches) {
        hook->ops = *kind->ops;
        hook->ops.fetches = hook->fetches;
        made.ops = &hook->ops;
    }
    return made;
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
    if (!made) {
        hs__no_memory(err, bytes, "the hook");
        return NULL;
    }
    made->env = env;
    hs__buffer_init(&made->rank_identity, &made->env);
    return made;
}

void hs__hook_free(void *self)
{
    hs__hook_base *hook = self;
    hs_env env = hook->env;
    hs__free(&env, (int64_t *)hook->when.at_steps);
    hs__buffer_free(&hook->rank_identity);
    hs__free(&env, hook);
}

hs_code hs__hook_when(void *self, const hs__when_options *options, hs_error *err)
{
    const bool secs = options->secs != 0, steps = options->steps != 0, given = hs__trigger_is_set(&options->when);
    hs__hook_base *hook = self;
    hs_trigger when = options->when;
    if (given && (secs || steps))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "each of when and %s is given; give exactly one of the two",
                            steps ? "every_n_steps" : "every_n_secs");
    if (!given && secs == steps && !(!secs && (options->default_steps || options->optional)))
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "%s of every_n_secs and every_n_steps is given; give exactly one of the two, or when",
                            secs ? "each" : "none");
    if (!given && !secs && !steps && !options->default_steps)
        return HS_OK; /* optional */
    if (!given)
        when = (hs_trigger){.every_n_steps = secs || steps ? options->steps : options->default_steps,
                            .every_n_secs = options->secs,
                            .first = options->first};
    hs_code code = hs__trigger_check(&when, err);
    if (code && given)
        hs_error_prefix(err, "when");
    if (code)
        return code;
    if (when.last && options->no_last)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "when: last is set, but %s, and no run follows the last one",
                            options->no_last);
    when.counts_runs |= options->counts_runs;
    if (when.at_steps) {
        size_t n = 0;
        while (when.at_steps[n++] != -1)
            continue;
        int64_t *copy = hs__alloc(&hook->env, n, sizeof *copy);
        if (!copy)
            return hs__no_memory(err, n * sizeof *copy, "the steps of a hook");
        when.at_steps = memcpy(copy, when.at_steps, n * sizeof *copy);
    }
    hook->when = when;
    return HS_OK;
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
