/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/unclaimed_states.h"

#include "backends/raw_variables.h"
#include "backends/variable.h"
#include "checkpoint/rank_states.h"
#include "checkpoint/selection.h"

#include <string.h>

static void remove_states(hs__stored_states *states, size_t at, size_t n, const hs_env *env)
{
    for (size_t i = at; i < at + n; i++)
        hs__stored_state_free(&states->items[i], env);
    states->n -= n;
    if (states->n > at)
        memmove(states->items + at, states->items + at + n, (states->n - at) * sizeof *states->items);
}

void hs__stash_unclaimed(hs__stored_states *states, hs_raw_session *session)
{
    remove_states(states, 0, session->n_states, &session->env);
    states->unreported = states->n > 0 || states->unused;
    hs__states_free(&session->unclaimed, &session->env);
    session->unclaimed = *states;
    *states = (hs__stored_states){.path = NULL};
}

static bool is_like(const hs__bundle_entry *entry, const hs__stored_state *state)
{
    return state->dtype ? entry->dtype == (int32_t)state->dtype && hs_shape_equal(&entry->shape, &state->shape)
                        : hs__is_state_entry(entry);
}

/* Opens the checkpoint again for a value that was not kept in memory, and verifies that it is still the same. */
static hs_code reopen(hs__bundle_reader *reader, const hs__stored_states *from, const hs__stored_state *state,
                      const hs_env *env, hs_error *err)
{
    hs_code code = hs__bundle_reader_open(reader, env, from->path, err);
    if (!code) {
        const hs__bundle_entry *entry = hs__bundle_find(reader, state->key);
        if (!entry || !is_like(entry, state) || entry->bytes != state->bytes || entry->crc != state->crc)
            code = hs_error_set(err, HS_DATA_LOSS, "checkpoint '%s' has changed since it was restored", from->path);
        else
            code = hs__bundle_verify(reader, entry, err);
        if (code)
            hs__bundle_reader_close(reader);
    }
    if (code)
        hs_error_prefix(err, "cannot read the %s '%s', which was too large to keep in memory",
                        state->dtype ? "variable" : "state", state->key);
    return code;
}

static bool is_only_in_file(const hs__stored_state *state)
{
    return !state->data && state->bytes;
}

static hs_code reread(const hs__stored_states *from, hs__stored_state *state, const hs_env *env, hs_error *err)
{
    hs__bundle_reader reader;
    hs_code code = reopen(&reader, from, state, env, err);
    if (code)
        return code;
    state->data = hs__alloc(env, state->bytes, 1);
    code = state->data ? hs__bundle_read(&reader, hs__bundle_find(&reader, state->key), state->data, err)
                       : hs__no_memory(err, state->bytes, state->key);
    hs__bundle_reader_close(&reader);
    return code;
}

/* *borrowed is the item with its data, which are read if they are not in memory. Call release in any case. */
static hs_code borrow(const hs__stored_states *from, size_t index, const hs_env *env, hs__stored_state *borrowed,
                      hs_error *err)
{
    *borrowed = from->items[index];
    return is_only_in_file(borrowed) ? reread(from, borrowed, env, err) : HS_OK;
}

static void release(const hs__stored_states *from, size_t index, const hs_env *env, const hs__stored_state *borrowed)
{
    if (borrowed->data != from->items[index].data)
        hs__free(env, borrowed->data);
}

static hs_code claim(const hs__stored_states *unclaimed, const hs__stored_state *state, const hs__state_slot *slot,
                     hs_raw_session *session, hs_error *err)
{
    hs__bundle_reader reader;
    if (!is_only_in_file(state))
        return hs__stored_state_load(unclaimed, state, slot, NULL, session, err);
    hs_code code = reopen(&reader, unclaimed, state, &session->env, err);
    if (code)
        return code;
    code = hs__stored_state_load(unclaimed, state, slot, &reader, session, err);
    hs__bundle_reader_close(&reader);
    return code;
}

static bool is_of_other_ranks(const hs__stored_states *unclaimed, const hs__state_slot *slot)
{
    for (size_t i = 0; i < unclaimed->n; i++)
        if (hs__is_rank_key(slot->base, unclaimed->items[i].key))
            return true;
    return false;
}

hs_code hs__claim_state(hs_raw_session *session, const hs__state_slot *slot, hs_error *err)
{
    hs__stored_states *unclaimed = &session->unclaimed;
    const hs__stored_state nothing = {.key = slot->key};
    size_t at = 0;
    while (at < unclaimed->n && strcmp(unclaimed->items[at].key, slot->key) != 0)
        at++;
    if (at == unclaimed->n && slot->base && is_of_other_ranks(unclaimed, slot))
        return hs_error_set(
            err, HS_FAILED_PRECONDITION,
            "checkpoint '%s': state '%s' was saved by another number of ranks than %d; add it to the graph, "
            "with a reshard function",
            unclaimed->path, slot->base, (int)session->rank_count);
    if (at == unclaimed->n)
        return unclaimed->path ? hs__stored_state_load(unclaimed, &nothing, slot, NULL, session, err) : HS_OK;
    hs_code code = hs__stored_state_check(unclaimed, &unclaimed->items[at], slot, &session->env, err);
    if (!code && !(code = claim(unclaimed, &unclaimed->items[at], slot, session, err)))
        remove_states(unclaimed, at, 1, &session->env);
    return code;
}

/* Variables. */

static hs_code read_variable(const hs__stored_states *from, const hs__stored_state *state, void *to, bool in_place,
                             const hs_env *env, hs_error *err)
{
    hs__bundle_reader reader;
    if (!is_only_in_file(state)) {
        if (state->bytes)
            memcpy(to, state->data, state->bytes);
        return HS_OK;
    }
    hs_code code = reopen(&reader, from, state, env, err);
    if (code)
        return code;
    code = hs__bundle_read(&reader, hs__bundle_find(&reader, state->key), to, err);
    hs__bundle_reader_close(&reader);
    if (code && in_place)
        hs_error_prefix(err, "reading the variable '%s': " HS__PARTLY_RESTORED, state->key);
    return code;
}

/* Reads directly into the variable's memory if that is on the host. */
static hs_code set_late(const hs__stored_states *from, const hs__stored_state *state, const hs_variable_def *def,
                        const hs_env *env, hs_error *err)
{
    hs_tensor to;
    hs_code code = hs__variable_place(def, true, &to, err);
    if (code)
        return code;
    void *copy = to.memory ? hs__realloc(env, NULL, state->bytes, 1) : NULL;
    if (to.memory && !copy)
        return hs__no_memory(err, state->bytes, state->key);
    const hs_tensor value = hs_tensor_of(def->dtype, def->shape, copy ? copy : to.data);
    if (!(code = read_variable(from, state, copy ? copy : to.data, !copy, env, err)))
        code = hs__variable_write(def, &to, &value, err);
    hs__free(env, copy);
    return code;
}

static size_t find_unclaimed(const hs__stored_states *unclaimed, const char *variable)
{
    for (size_t i = 0; i < unclaimed->n; i++)
        if (unclaimed->items[i].dtype && strcmp(unclaimed->items[i].key, variable) == 0)
            return i;
    return HS__NONE;
}

static hs_code set_unclaimed(const hs_raw_session *session, size_t at, const hs_variable_def *def, hs_error *err)
{
    const hs__stored_states *unclaimed = &session->unclaimed;
    const hs__stored_state *state = &unclaimed->items[at];
    char stored[HS_SHAPE_TEXT_SIZE], wanted[HS_SHAPE_TEXT_SIZE];
    if (state->dtype != def->dtype || !hs_shape_equal(&state->shape, &def->shape))
        return hs_error_set(
            err, HS_INVALID_ARGUMENT, "checkpoint '%s': variable '%s' is %s %s in the checkpoint, but %s %s in the program",
            unclaimed->path, def->name, hs_dtype_name(state->dtype), hs_shape_text(&state->shape, stored, sizeof stored),
            hs_dtype_name(def->dtype), hs_shape_text(&def->shape, wanted, sizeof wanted));
    return set_late(unclaimed, state, def, &session->env, err);
}

hs_code hs__claim_variable(hs_raw_session *session, const hs_variable_def *def, hs_error *err)
{
    hs__stored_states *unclaimed = &session->unclaimed;
    size_t at = find_unclaimed(unclaimed, def->name);
    if (at == HS__NONE) {
        if (unclaimed->path && !hs__has_variable(session, def->name))
            hs_log(&session->env, HS_LOG_WARNING, "checkpoint '%s' has no variable '%s'; it keeps its initial value",
                   unclaimed->path, def->name);
        return HS_OK;
    }
    hs_code code = set_unclaimed(session, at, def, err);
    if (!code)
        remove_states(unclaimed, at, 1, &session->env);
    return code;
}

hs_code hs__restore_late(hs_raw_session *session, const hs_variable_def *def, hs_error *err)
{
    const hs_tensor none = {.data = NULL};
    size_t at = find_unclaimed(&session->unclaimed, def->name);
    hs_tensor to;
    if (at != HS__NONE)
        return set_unclaimed(session, at, def, err);
    hs_code code = hs__variable_place(def, false, &to, err);
    return code ? code : hs__variable_write(def, &to, &none, err);
}

/* A late variable that was recovered, which is kept only in case the program adds it again; or the state of another rank,
 * whose session has it. */
static bool is_in_session(const hs_raw_session *session, const hs__stored_state *state)
{
    return state->dtype ? hs__has_variable(session, state->key) : hs__is_rank_state(session, state->key);
}

void hs__report_unclaimed(hs_raw_session *session)
{
    hs__stored_states *unclaimed = &session->unclaimed;
    unclaimed->unreported = false;
    if (unclaimed->unused)
        hs_log(&session->env, HS_LOG_WARNING,
               "checkpoint '%s' has tensors that no variable of the program uses (%s); later checkpoints omit them",
               unclaimed->path, unclaimed->unused);
    for (size_t i = unclaimed->n; i-- > 0;)
        if (is_in_session(session, &unclaimed->items[i]))
            remove_states(unclaimed, i, 1, &session->env);
    for (size_t i = 0; i < unclaimed->n; i++)
        hs_log(&session->env, HS_LOG_WARNING,
               "checkpoint '%s' has the %s '%s', but no provider loads it; later checkpoints omit it", unclaimed->path,
               unclaimed->items[i].dtype ? "variable" : "state", unclaimed->items[i].key);
}

/* Saving. */

hs_code hs__visit_stored(const hs_env *env, const hs__stored_state *state, hs__visit_item_fn visit, void *user,
                         hs_error *err)
{
    hs_shape bytes = {.rank = 1, .dims = {(int64_t)state->bytes}};
    const hs__save_item item = {.name = state->key,
                                .value = state->dtype ? hs_tensor_of(state->dtype, state->shape, state->data)
                                                      : hs_tensor_of(HS_UINT8, bytes, state->data),
                                .variable = HS__NONE,
                                .nonfinite = true}; /* the restored checkpoint has it as well */
    if (!state->dtype)
        return hs__visit_state(env, state, &item, visit, user, err);
    hs_code code = visit(user, &item, err);
    return code ? code : hs__visit_record(env, state->key, HS__VARIABLE_LATE, visit, user, err);
}

hs_code hs__visit_unclaimed(const hs_raw_session *session, hs__visit_item_fn visit, void *user, hs_error *err)
{
    const hs__stored_states *unclaimed = &session->unclaimed;
    hs_code code = HS_OK;
    for (size_t i = 0; unclaimed->unreported && !code && i < unclaimed->n; i++) {
        hs__stored_state state;
        hs_error cause = {0};
        if (is_in_session(session, &unclaimed->items[i]))
            continue;
        if (borrow(unclaimed, i, &session->env, &state, &cause)) /* not a reason to fail the save */
            hs_log(&session->env, HS_LOG_WARNING, "%s; this checkpoint omits it", cause.message);
        else
            code = hs__visit_stored(&session->env, &state, visit, user, err);
        release(unclaimed, i, &session->env, &state);
    }
    return code;
}
