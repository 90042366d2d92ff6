/* SPDX-License-Identifier: Apache-2.0 */
/* A restore stashes the unclaimed states. A provider that is added later claims its state. A save visits the others, until
 * they are reported. */
#include "checkpoint/unclaimed_states.h"

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

static bool is_only_in_file(const hs__stored_state *state)
{
    return !state->data && state->bytes;
}

/* Opens the checkpoint again for a value that was not kept in memory, and verifies that it is still the same. */
static hs_code reopen(hs__archive *archive, const hs__stored_states *from, const hs__stored_state *state, size_t *index,
                      const hs_env *env, hs_error *err)
{
    hs_code code = hs__archive_open(archive, HS__BUNDLE, env, from->path, err);
    if (!code) {
        *index = hs__archive_find(archive, state->key);
        const hs__stored stored = *index == HS__NONE ? (hs__stored){.name = NULL} : hs__archive_tensor(archive, *index);
        if (!hs__is_state_tensor(&stored) || stored.bytes != state->bytes || stored.crc != state->crc)
            code = hs_error_set(err, HS_DATA_LOSS, "checkpoint '%s' has changed since it was restored", from->path);
        else
            code = hs__archive_verify(archive, *index, err);
        if (code)
            hs__archive_close(archive);
    }
    if (code)
        hs_error_prefix(err, "cannot read the state '%s', which was too large to keep in memory", state->key);
    return code;
}

/* Reads the data of a state that has none in memory. */
static hs_code reread(const hs__stored_states *from, hs__stored_state *state, const hs_env *env, hs_error *err)
{
    hs__archive archive;
    size_t index;
    hs_code code = reopen(&archive, from, state, &index, env, err);
    if (code)
        return code;
    state->data = hs__alloc(env, state->bytes, 1);
    code = state->data ? hs__archive_read(&archive, index, NULL, state->data, err)
                       : hs__no_memory(err, state->bytes, state->key);
    hs__archive_close(&archive);
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
    const hs__stored_state *state = &unclaimed->items[at];
    const bool in_file = is_only_in_file(state);
    hs__archive archive;
    size_t index;
    hs_code code = hs__stored_state_check(unclaimed, state, slot, &session->env, err);
    if (code || (in_file && (code = reopen(&archive, unclaimed, state, &index, &session->env, err))))
        return code;
    code = hs__stored_state_load(unclaimed, state, slot, in_file ? &archive : NULL, session, err);
    if (in_file)
        hs__archive_close(&archive);
    if (!code)
        remove_states(unclaimed, at, 1, &session->env);
    return code;
}

/* True for hooksess/hook/NAME, with any number of the hook and of a rank behind it. */
static bool is_of_hook(const char *key, const char *name)
{
    const size_t prefix = strlen(HS__HOOK_PREFIX), length = strlen(name);
    if (strncmp(key, HS__HOOK_PREFIX, prefix) != 0 || strncmp(key + prefix, name, length) != 0)
        return false;
    const char *rest = key + prefix + length;
    if (*rest == '_' || *rest == '#')
        rest += 1 + strspn(rest + 1, "0123456789");
    return !*rest || *rest == '/';
}

void hs__drop_unclaimed(hs_raw_session *session, const char *hook)
{
    hs__stored_states *unclaimed = &session->unclaimed;
    for (size_t i = unclaimed->n; i-- > 0;)
        if (is_of_hook(unclaimed->items[i].key, hook)) {
            hs_log(&session->env, HS_LOG_DEBUG, "checkpoint '%s' has the state '%s', which its hook does not need any more",
                   unclaimed->path, unclaimed->items[i].key);
            remove_states(unclaimed, i, 1, &session->env);
        }
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
        if (hs__is_rank_state(session, unclaimed->items[i].key)) /* the session of that rank has it */
            remove_states(unclaimed, i, 1, &session->env);
    for (size_t i = 0; i < unclaimed->n; i++)
        hs_log(&session->env, hs__lost_state_level(unclaimed->items[i].key),
               "checkpoint '%s' has the state '%s', but no provider loads it; later checkpoints omit it", unclaimed->path,
               unclaimed->items[i].key);
}

/* Saving. */

hs_code hs__visit_stored(const hs_env *env, const hs__stored_state *state, hs__visit_item_fn visit, void *user,
                         hs_error *err)
{
    hs_shape bytes = {.rank = 1, .dims = {(int64_t)state->bytes}};
    const hs__save_item item = {.name = state->key, .value = hs_tensor_of(HS_UINT8, bytes, state->data)};
    return hs__visit_state(env, state, &item, visit, user, err);
}

hs_code hs__visit_unclaimed(const hs_raw_session *session, hs__visit_item_fn visit, void *user, hs_error *err)
{
    const hs__stored_states *unclaimed = &session->unclaimed;
    hs_code code = HS_OK;
    for (size_t i = 0; unclaimed->unreported && !code && i < unclaimed->n; i++) {
        hs__stored_state state = unclaimed->items[i];
        hs_error cause = {0};
        if (hs__is_rank_state(session, state.key))
            continue;
        if (is_only_in_file(&state) && reread(unclaimed, &state, &session->env, &cause)) /* no reason to fail the save */
            hs_log(&session->env, HS_LOG_WARNING, "%s; this checkpoint omits it", cause.message);
        else
            code = hs__visit_stored(&session->env, &state, visit, user, err);
        if (state.data != unclaimed->items[i].data)
            hs__free(&session->env, state.data);
    }
    return code;
}
