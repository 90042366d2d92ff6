/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/save_listeners.h"

#include "hooks/make.h"

hs_code hs__listeners_take(hs__listeners *to, const hs_env *env, const hs_saver_listener *from, hs_error *err)
{
    size_t n = 0;
    while (from && from[n].ops)
        n++;
    to->items = hs_env_alloc(env, (n + 1) * sizeof *to->items);
    to->ops = hs_env_alloc(env, (n + 1) * sizeof *to->ops);
    if (!to->items || !to->ops)
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no memory for %zu listeners", n);
    for (size_t i = 0; i < n; i++) {
        to->items[i] = from[i];
        hs_code code = HS_STRUCT_TAKE(hs_saver_listener_ops, end, &to->ops[i], from[i].ops, err);
        if (code)
            return code;
    }
    to->n = n;
    return HS_OK;
}

void hs__listeners_free(hs__listeners *listeners, const hs_env *env)
{
    hs_env_free(env, listeners->items);
    hs_env_free(env, listeners->ops);
}

hs_code hs__listeners_begin(const hs__listeners *all, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < all->n; i++)
        if (all->ops[i].begin && (code = all->ops[i].begin(all->items[i].self, err)))
            hs__part_failed(code, "listener", i, "begin", err);
    return code;
}

hs_code hs__listeners_before_save(const hs__listeners *all, hs_raw_session *session, int64_t step, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < all->n; i++)
        if (all->ops[i].before_save && (code = all->ops[i].before_save(all->items[i].self, session, step, err)))
            hs__part_failed(code, "listener", i, "before_save", err);
    return code;
}

hs_code hs__listeners_after_save(const hs__listeners *all, hs_run_context *run, int64_t step, hs_error *err)
{
    hs_raw_session *session = hs_run_context_session(run);
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < all->n; i++) {
        bool stop = false;
        if (all->ops[i].after_save && (code = all->ops[i].after_save(all->items[i].self, session, step, &stop, err)))
            hs__part_failed(code, "listener", i, "after_save", err);
        if (stop)
            hs_run_context_request_stop(run);
    }
    return code;
}

hs_code hs__listeners_end(const hs__listeners *all, hs_raw_session *session, int64_t step, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < all->n; i++)
        if (all->ops[i].end && (code = all->ops[i].end(all->items[i].self, session, step, err)))
            hs__part_failed(code, "listener", i, "end", err);
    return code;
}
