/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing a raw session, its variables, its global step, its state providers, and the records of
 * restores and saves. */
#include "backends/raw_session.h"

#include "base/error.h"

#include <stdatomic.h>
#include <string.h>

/* State providers of a raw session: the state that its checkpoints hold in addition to variables. */

void hs__state_slot_free(const hs__state_slot *slot, const hs_env *env)
{
    hs__free(env, slot->key);
    hs__free(env, slot->base);
    hs__free(env, slot->old_key);
    hs__free(env, slot->old_base);
    hs__free(env, slot->identity);
}

char *hs__rank_state_key(const hs_env *env, const char *base, int32_t rank, int32_t rank_count)
{
    return rank_count == 1 ? hs__strdup(env, base) : hs__format(env, "%s/%05d-of-%05d", base, (int)rank, (int)rank_count);
}

hs_code hs__state_slot_init(hs__state_slot *slot, const hs_raw_session *raw, char *key, const hs_state_provider *provider,
                            hs_error *err)
{
    const hs_env *env = &raw->env;
    const bool per_rank = provider->scope == HS_STATE_PER_RANK;
    *slot = (hs__state_slot){.key = per_rank && key ? hs__rank_state_key(env, key, raw->rank, raw->rank_count) : key,
                             .base = per_rank ? key : NULL,
                             .identity = provider->identity ? hs__strdup(env, provider->identity) : NULL,
                             .version = provider->version,
                             .bytes = provider->bytes,
                             .save = provider->save,
                             .load = provider->load,
                             .reshard = provider->reshard,
                             .self = provider->self};
    if (slot->key && (slot->identity || !provider->identity))
        return HS_OK;
    hs__state_slot_free(slot, env);
    return hs__no_memory(err, strlen(provider->name), "a name");
}

hs_code hs__state_slot_set_old_key(hs__state_slot *slot, const hs_raw_session *raw, char *key, hs_error *err)
{
    slot->old_base = slot->base ? key : NULL;
    slot->old_key = slot->base && key ? hs__rank_state_key(&raw->env, key, raw->rank, raw->rank_count) : key;
    return slot->old_key ? HS_OK : hs__no_memory(err, strlen(slot->key), "a name");
}

hs_code hs__raw_session_reserve_slot(hs_raw_session *raw, const char *key, hs_error *err)
{
    for (size_t i = 0; i < raw->n_states; i++)
        if (strcmp(raw->states[i].key, key) == 0)
            return hs_error_set(err, HS_ALREADY_EXISTS, "two states have the key '%s'; rename one of them", key);
    return hs__reserve(&raw->env, &raw->states, &raw->states_capacity, raw->n_states + 1, sizeof *raw->states, err);
}

void hs__raw_session_add_slot(hs_raw_session *raw, const hs__state_slot *slot)
{
    raw->states[raw->n_states++] = *slot;
}

static void raw_session_free_states(hs_raw_session *raw)
{
    for (size_t i = 0; i < raw->n_states; i++)
        hs__state_slot_free(&raw->states[i], &raw->env);
    hs__free(&raw->env, raw->states);
    raw->states = NULL;
    raw->n_states = raw->states_capacity = 0;
}

/* Opening and closing. */

void hs__raw_session_init(hs_raw_session *raw, const hs_env *env, hs_backend backend, const hs_backend_ops *ops,
                          const hs__raw_session_owner_ops *owner_ops, struct hs_session *owner)
{
    *raw = (hs_raw_session){.env = *env,
                            .backend = backend,
                            .ops = *ops,
                            .owner = owner,
                            .owner_ops = owner_ops,
                            .rank_count = 1,
                            .restored_step = -1,
                            .saved_step = -1};
}

hs_code hs__raw_session_open(hs_raw_session *raw, const char *target, hs_bytes config, hs_error *err)
{
    /* Number of sessions that the process has opened. A thread may know a closed session at the address of a new one. */
    static atomic_uint_fast64_t opened;
    hs_code code = raw->ops.open(raw->backend.self, target, config, &raw->handle, err);
    if (hs__normalize_error(code, "opening the backend's session", err))
        return code;
    raw->opened = atomic_fetch_add(&opened, 1) + 1;
    if (!raw->first_opened)
        raw->first_opened = raw->opened;
    raw->restored_step = -1;
    return HS_OK;
}

hs_code hs__raw_session_close(hs_raw_session *raw, hs_error *err)
{
    hs_code code = raw->handle ? raw->ops.close(raw->handle, err) : HS_OK;
    raw->handle = NULL;
    raw->runs_queues = false;
    raw_session_free_states(raw);
    return hs__normalize_error(code, "closing the backend's session", err);
}

void hs__raw_session_free(hs_raw_session *raw)
{
    raw_session_free_states(raw);
    hs__free(&raw->env, raw->restored_from);
    hs__free(&raw->env, raw->returns);
}

/* Getters. */

hs_backend hs_raw_session_backend(const hs_raw_session *raw)
{
    return raw ? raw->backend : (hs_backend){NULL, NULL};
}

void *hs_raw_session_handle(const hs_raw_session *raw)
{
    return raw ? raw->handle : NULL;
}

const char *hs_raw_session_restored_from(const hs_raw_session *raw)
{
    return raw ? raw->restored_from : NULL;
}

int64_t hs_raw_session_restored_step(const hs_raw_session *raw)
{
    return raw ? raw->restored_step : -1;
}

int64_t hs_raw_session_restores(const hs_raw_session *raw)
{
    return raw ? raw->restores : 0;
}

int64_t hs_raw_session_last_saved_step(const hs_raw_session *raw)
{
    return raw ? raw->saved_step : -1;
}

/* The variables. */

bool hs__session_variable(const hs_raw_session *session, size_t index, hs_variable *out)
{
    return session->ops.variable && session->ops.variable(session->backend.self, index, out);
}

bool hs__session_find_variable(const hs_raw_session *session, const char *name, size_t *index, hs_variable *out)
{
    for (*index = 0; hs__session_variable(session, *index, out); ++*index)
        if (strcmp(out->name, name) == 0)
            return true;
    return false;
}

hs_code hs__session_read(const hs_raw_session *session, size_t index, const char *name, hs_tensor *value, hs_error *err)
{
    return hs__normalize_error(session->ops.read_variable(session->handle, index, value, err), name, err);
}

hs_code hs__session_write(const hs_raw_session *session, size_t index, const char *name, const hs_tensor *value,
                          hs_error *err)
{
    return hs__normalize_error(session->ops.write_variable(session->handle, index, value, err), name, err);
}

hs_code hs__session_lend(const hs_raw_session *session, size_t index, const hs_variable *variable, size_t bytes,
                         hs_tensor *memory, hs_error *err)
{
    hs_error cause = {0};
    *memory = (hs_tensor){.data = NULL};
    if (!session->ops.lend_variable)
        return HS_OK;
    hs_code code =
        hs__normalize_error(session->ops.lend_variable(session->handle, index, memory, &cause), variable->name, &cause);
    if (code || memory->bytes != bytes)
        memory->data = NULL;
    return code && variable->flags & HS_VARIABLE_MOVES && code != HS_UNIMPLEMENTED ? hs__error_copy(err, &cause) : HS_OK;
}

hs_code hs__session_place(const hs_raw_session *session, size_t index, const hs_variable *variable, bool *has,
                          const hs_memory **device, hs_error *err)
{
    hs_tensor value;
    *has = true;
    *device = NULL;
    if (!(variable->flags & HS_VARIABLE_MOVES))
        return HS_OK;
    hs_code code = hs__session_read(session, index, variable->name, &value, err);
    if (code)
        return code;
    *has = value.data || !value.bytes;
    *device = value.memory;
    return HS_OK;
}

hs_code hs__session_has_memory(const hs_raw_session *session, size_t index, const hs_variable *variable, bool *has,
                               hs_error *err)
{
    const hs_memory *device;
    return hs__session_place(session, index, variable, has, &device, err);
}

/* The global step. */

hs_code hs__raw_session_step_unread(const hs_raw_session *raw, hs_code code, const int64_t *step, hs_error *err)
{
    if (!raw->ops.global_step)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "backend '%s' has no global step", raw->ops.name);
    if (!code)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "the global step is %lld; it must be at least 0",
                            (long long)*step);
    return hs__normalize_error(code, "reading the global step", err);
}

int64_t hs_raw_session_global_step(hs_raw_session *raw, hs_error *err)
{
    int64_t step;
    hs__clear(err);
    if (!raw || !raw->handle) {
        hs_error_set(err, HS_FAILED_PRECONDITION, "hs_raw_session_global_step: session is NULL or closed");
        return -1;
    }
    return hs__raw_session_read_step(raw, &step, err) ? -1 : step;
}

/* Saves. */

void hs_raw_session_record_save(hs_raw_session *raw, int64_t step)
{
    if (!raw)
        return;
    raw->saved_step = step;
    raw->owner_ops->saved(raw->owner);
}

void hs_raw_session_refuse_saves(hs_raw_session *raw, const hs_error *why)
{
    if (!raw || raw->saves_refused.code)
        return;
    if (why && why->code)
        hs__error_copy(&raw->saves_refused, why);
    else
        hs_error_set(&raw->saves_refused, HS_FAILED_PRECONDITION, "a hook refused saves");
}

hs_code hs_raw_session_save_refusal(const hs_raw_session *raw, hs_error *out)
{
    static const hs_error second_signal = {.code = HS_CANCELLED, .message = "a second signal requested an immediate stop"};
    if (raw && raw->owner_ops->stops_unsaved(raw->owner))
        return hs__error_copy(out, &second_signal);
    return hs__error_copy(out, raw ? &raw->saves_refused : NULL);
}

/* Restores. */

static void begin_restored(hs_raw_session *raw)
{
    raw->restores++;
    raw->owner_ops->forget_values(raw->owner);
    hs_error_clear(&raw->saves_refused); /* the refused values are gone */
}

static char *replace_path(hs_raw_session *raw, char *path)
{
    char *before = raw->restored_from;
    raw->restored_from = path;
    return before;
}

hs_code hs__raw_session_reserve_return(hs_raw_session *raw, hs_error *err)
{
    return hs__reserve(&raw->env, &raw->returns, &raw->returns_capacity, raw->n_returns + 1, sizeof *raw->returns, err);
}

static void add_return(hs_raw_session *raw, int64_t step)
{
    while (raw->n_returns && raw->returns[raw->n_returns - 1].step >= step)
        raw->n_returns--;
    if (step >= 0)
        raw->returns[raw->n_returns++] = (hs__return){step, raw->restores};
}

int64_t hs__raw_session_branch_step(const hs_raw_session *raw, int64_t restores)
{
    for (size_t i = 0; i < raw->n_returns; i++) /* the first one has the earliest step */
        if (raw->returns[i].restores > restores)
            return raw->returns[i].step;
    return -1;
}

char *hs__raw_session_restored(hs_raw_session *raw, char *path, int64_t step, int64_t restores)
{
    begin_restored(raw);
    while (raw->n_returns && raw->returns[raw->n_returns - 1].restores > restores)
        raw->n_returns--;
    add_return(raw, step);
    raw->is_return = raw->is_newest = false;
    raw->restored_step = hs_raw_session_global_step(raw, NULL);
    if (raw->restored_step >= 0)
        raw->saved_step = raw->restored_step;
    return replace_path(raw, path);
}

void hs__raw_session_returned(hs_raw_session *raw, bool newest)
{
    raw->is_return = true;
    raw->is_newest = newest;
}

void hs__raw_session_reinitialized(hs_raw_session *raw)
{
    const int64_t step = hs_raw_session_global_step(raw, NULL);
    raw->restores++;
    raw->owner_ops->forget_values(raw->owner);
    add_return(raw, step < 0 ? 0 : step);
}

void hs__raw_session_restored_earlier(hs_raw_session *raw, int64_t step)
{
    begin_restored(raw);
    add_return(raw, step);
    raw->restored_step = step;
    hs__free(&raw->env, replace_path(raw, NULL));
}

void hs__raw_session_forget_restore(hs_raw_session *raw)
{
    hs__free(&raw->env, replace_path(raw, NULL));
    hs_error_clear(&raw->saves_refused);
}
