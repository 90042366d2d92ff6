/* SPDX-License-Identifier: Apache-2.0 */
/* A restore calls hs__states_read, and hs__states_load when all is verified, each for all states. */
#include "checkpoint/stored_states.h"

#include <stdio.h>
#include <string.h>

hs_log_level hs__lost_state_level(const char *key)
{
    return strncmp(key, HS__SCHEDULE_PREFIX, strlen(HS__SCHEDULE_PREFIX)) == 0 ? HS_LOG_DEBUG : HS_LOG_WARNING;
}

bool hs__is_state_key(const char *key)
{
    return strncmp(key, HS__STATE_PREFIX, strlen(HS__STATE_PREFIX)) == 0;
}

/* The states of ranks. */

/* The number of ranks in "BASE/00002-of-00004". 0: the key is not of this form. */
static int32_t ranks_of_key(const char *base, const char *key)
{
    size_t length = strlen(base);
    int rank, count;
    char rest;
    if (strncmp(key, base, length) != 0 || sscanf(key + length, "/%5d-of-%5d%c", &rank, &count, &rest) != 2)
        return 0;
    return rank >= 0 && rank < count ? count : 0;
}

bool hs__is_rank_key(const char *base, const char *key)
{
    return strcmp(base, key) == 0 || ranks_of_key(base, key);
}

bool hs__is_rank_state(const hs_raw_session *session, const char *key)
{
    for (size_t i = 0; i < session->n_states; i++) {
        const hs__state_slot *slot = &session->states[i];
        if (slot->base && (hs__is_rank_key(slot->base, key) || (slot->old_base && hs__is_rank_key(slot->old_base, key))))
            return true;
    }
    return false;
}

/* The number of ranks that saved the state. 0: the checkpoint does not have it. */
static int32_t count_ranks(const hs__archive *archive, const char *base)
{
    int32_t n = hs__archive_find(archive, base) != HS__NONE ? 1 : 0;
    for (size_t i = 0; !n && i < archive->n; i++)
        n = ranks_of_key(base, hs__archive_name(archive, i));
    return n;
}

/* Reading. */

/* The key without the rank. */
static const char *base_of(const hs__state_slot *slot)
{
    return slot->base ? slot->base : slot->key;
}

/* Returns a slot of the session, with its old keys if the archive has no state under the others. An old key that another
 * slot has as its own is not used. */
static hs__state_slot slot_in(const hs__archive *archive, const hs_raw_session *session, size_t i)
{
    hs__state_slot slot = session->states[i], old = slot;
    old.key = slot.old_key;
    old.base = slot.old_base;
    if (!old.key || count_ranks(archive, base_of(&slot)))
        return slot;
    for (size_t other = 0; other < session->n_states; other++)
        if (strcmp(base_of(&session->states[other]), base_of(&old)) == 0)
            return slot;
    return old;
}

/* Finds the version or the identity of a state. *tensor HS__NONE: the archive has none. */
static hs_code find_attribute(hs__archive *archive, const char *key, const char *which, hs_dtype dtype, const hs_env *env,
                              size_t *tensor, hs_error *err)
{
    char *name = hs__format(env, "%s%s", key, which);
    if (!name)
        return hs__no_memory(err, strlen(key), "a name");
    *tensor = hs__archive_find(archive, name);
    hs__free(env, name);
    if (*tensor == HS__NONE)
        return HS_OK;
    const hs__stored stored = hs__archive_tensor(archive, *tensor);
    if (stored.dtype != (int32_t)dtype || stored.shape.rank != 0)
        return hs_error_set(err, HS_DATA_LOSS, "%s: '%s' is not a scalar of type %s", archive->path, stored.name,
                            hs_dtype_name(dtype));
    return hs__archive_locate(archive, *tensor, NULL, NULL, err);
}

static hs_code read_attributes(hs__stored_state *state, hs__archive *archive, const hs_env *env, hs_error *err)
{
    const char *key = state->key;
    size_t version, identity;
    hs_code code = find_attribute(archive, key, HS__STATE_VERSION, HS_INT64, env, &version, err);
    if (!code && version != HS__NONE)
        code = hs__archive_read(archive, version, NULL, &state->version, err);
    if (code)
        return code;
    if (state->version < 0)
        return hs_error_set(err, HS_DATA_LOSS, "%s: '%s" HS__STATE_VERSION "' is %lld, which is not a version",
                            archive->path, key, (long long)state->version);
    code = find_attribute(archive, key, HS__STATE_IDENTITY, HS_STRING, env, &identity, err);
    if (code || identity == HS__NONE)
        return code;
    const size_t bytes = hs__archive_tensor(archive, identity).bytes;
    hs_string *text = hs__alloc(env, bytes, 1);
    if (!text)
        return hs__no_memory(err, bytes, key);
    if (!(code = hs__archive_read(archive, identity, NULL, text, err)) && !hs__is_line(text->data, text->bytes))
        code =
            hs_error_set(err, HS_DATA_LOSS, "%s: '%s" HS__STATE_IDENTITY "' is not one line of text", archive->path, key);
    if (!code && text->bytes && !(state->identity = hs__strndup(env, text->data, text->bytes)))
        code = hs__no_memory(err, text->bytes, key);
    hs__free(env, text);
    return code;
}

/* Reads and verifies the state of that key, if the archive has it. Checks that the data file has its bytes before memory is
 * allocated for them. At most *room bytes are kept in memory, more are only verified. `borrows`: the data of a snapshot are
 * not copied. */
static hs_code read_state(hs__stored_state *state, const char *key, size_t *room, bool borrows, hs__archive *archive,
                          const hs_env *env, hs_error *err)
{
    const size_t tensor = hs__archive_find(archive, key);
    *state = (hs__stored_state){.key = hs__strdup(env, key)};
    if (!state->key)
        return hs__no_memory(err, strlen(key), "a name");
    if (tensor == HS__NONE)
        return HS_OK;
    const hs__stored stored = hs__archive_tensor(archive, tensor);
    if (!hs__is_state_tensor(&stored))
        return hs_error_set(err, HS_DATA_LOSS, "%s: state '%s' is not a vector of uint8", archive->path, key);
    state->bytes = stored.bytes;
    state->crc = stored.crc;
    state->is_borrowed = stored.data && borrows;
    hs_code code = hs__archive_locate(archive, tensor, NULL, NULL, err);
    if (code)
        return code;
    if (state->is_borrowed)
        state->data = (unsigned char *)stored.data;
    else if (stored.bytes > *room && !stored.data && !stored.in_slices) /* slices are joined in memory */
        code = hs__archive_verify(archive, tensor, err);
    else if (!(state->data = hs__alloc(env, stored.bytes, 1)))
        code = hs__no_memory(err, stored.bytes, key);
    else
        code = hs__archive_read(archive, tensor, NULL, state->data, err);
    if (state->data)
        *room -= state->bytes < *room ? state->bytes : *room;
    return code ? code : read_attributes(state, archive, env, err);
}

/* If the state was saved by another number of ranks than the session's, reads that of each of them. */
static hs_code read_ranks(hs__stored_state *state, const hs__state_slot *slot, hs__archive *archive,
                          const hs_raw_session *session, hs_error *err)
{
    const hs_env *env = &session->env;
    size_t room = SIZE_MAX;
    hs_code code = HS_OK;
    if (!slot->base || hs__archive_find(archive, slot->key) != HS__NONE)
        return HS_OK;
    const int32_t n = count_ranks(archive, slot->base);
    if (n && !slot->reshard)
        return hs_error_set(
            err, HS_FAILED_PRECONDITION,
            "%s: state '%s' was saved by %d ranks, and cannot be divided among %d; resume with %d ranks, or "
            "give the state a reshard function",
            archive->path, slot->base, (int)n, (int)session->rank_count, (int)n);
    if (n && !(state->ranks = hs__alloc(env, (size_t)n, sizeof *state->ranks)))
        return hs__no_memory(err, (size_t)n * sizeof *state->ranks, "the states of the ranks");
    while (!code && state->n_ranks < n) {
        char *key = hs__rank_state_key(env, slot->base, state->n_ranks, n);
        if (!key)
            code = hs__no_memory(err, strlen(slot->base), "a name");
        else if (hs__archive_find(archive, key) == HS__NONE)
            code = hs_error_set(err, HS_DATA_LOSS, "%s: state '%s' is missing", archive->path, key);
        else
            code = read_state(&state->ranks[state->n_ranks++], key, &room, true, archive, env, err);
        hs__free(env, key);
    }
    return code;
}

/* `stored` has the prefix of states. One that is not a vector of uint8 was not written by this library: it is ignored. */
static bool is_unclaimed(const hs__stored_states *read, const hs__stored *stored, const hs_raw_session *session)
{
    if (strchr(stored->name, ':') || !hs__is_state_tensor(stored) || stored->in_slices ||
        hs__is_rank_state(session, stored->name))
        return false;
    for (size_t i = 0; i < session->n_states; i++)
        if (strcmp(read->items[i].key, stored->name) == 0)
            return false;
    return true;
}

hs_code hs__states_read(hs__stored_states *states, const hs_raw_session *session, hs__archive *archive, hs_error *err)
{
    const hs_env *env = &session->env;
    size_t room = HS__STATES_IN_MEMORY;
    hs_code code = HS_OK;
    if (archive->kind == HS__SAFETENSORS)
        return HS_OK;
    if (!(states->path = hs__strdup(env, archive->path)))
        return hs__no_memory(err, strlen(archive->path), "a path");
    for (size_t i = 0; !code && i < session->n_states; i++) {
        const hs__state_slot slot = slot_in(archive, session, i);
        if ((code = hs__reserve(env, &states->items, &states->capacity, states->n + 1, sizeof *states->items, err)))
            break;
        hs__stored_state *state = &states->items[states->n++];
        if (!(code = read_state(state, slot.key, &room, true, archive, env, err)) &&
            !(code = read_ranks(state, &slot, archive, session, err)))
            code = hs__stored_state_check(states, state, &slot, env, err);
    }
    for (size_t i = 0; !code && i < archive->n; i++) {
        if (!hs__is_state_key(hs__archive_name(archive, i)))
            continue;
        const hs__stored stored = hs__archive_tensor(archive, i);
        if (is_unclaimed(states, &stored, session) &&
            !(code = hs__reserve(env, &states->items, &states->capacity, states->n + 1, sizeof *states->items, err)))
            code = read_state(&states->items[states->n++], stored.name, &room, false, archive, env, err);
    }
    return code;
}

void hs__stored_state_free(const hs__stored_state *state, const hs_env *env)
{
    for (int32_t i = 0; i < state->n_ranks; i++)
        hs__stored_state_free(&state->ranks[i], env);
    hs__free(env, state->ranks);
    hs__free(env, state->key);
    hs__free(env, state->identity);
    if (!state->is_borrowed)
        hs__free(env, state->data);
}

void hs__states_free(hs__stored_states *states, const hs_env *env)
{
    for (size_t i = 0; i < states->n; i++)
        hs__stored_state_free(&states->items[i], env);
    hs__free(env, states->items);
    hs__free(env, states->path);
    hs__free(env, states->unused);
    *states = (hs__stored_states){.path = NULL};
}

/* Loading. */

static bool differ(const hs__stored_state *state, const hs__state_slot *slot)
{
    return state->identity && slot->identity && strcmp(state->identity, slot->identity) != 0;
}

hs_code hs__stored_state_check(const hs__stored_states *from, const hs__stored_state *state, const hs__state_slot *slot,
                               const hs_env *env, hs_error *err)
{
    enum { SHOWN = 240 };
    hs_code code = HS_OK;
    for (int32_t i = 0; !code && i < state->n_ranks; i++)
        code = hs__stored_state_check(from, &state->ranks[i], slot, env, err);
    if (code)
        return code;
    if (state->version > slot->version)
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "checkpoint '%s': state '%s' has version %lld, but its provider supports versions up to %lld; "
                            "resume with the newer program",
                            from->path, state->key, (long long)state->version, (long long)slot->version);
    if (!differ(state, slot) || from->any_identity)
        return HS_OK;
    if (strlen(state->identity) > SHOWN || strlen(slot->identity) > SHOWN)
        hs_log(env, HS_LOG_ERROR, "checkpoint '%s': state '%s' belongs to '%s', but its provider has identity '%s'",
               from->path, state->key, state->identity, slot->identity);
    return hs_error_set(
        err, HS_FAILED_PRECONDITION,
        "checkpoint '%s': state '%s' belongs to '%.*s', but its provider has identity '%.*s'; resume with the former, or "
        "set hs_restore_options.any_identity",
        from->path, state->key, SHOWN, state->identity, SHOWN, slot->identity);
}

static void log_identities(const hs__stored_states *from, const hs__stored_state *state, const hs__state_slot *slot,
                           const hs_env *env)
{
    if (differ(state, slot))
        hs_log(env, HS_LOG_INFO, "checkpoint '%s': state '%s' belongs to '%s', but is restored for '%s' (any_identity)",
               from->path, state->key, state->identity, slot->identity);
    else if (state->identity && !slot->identity)
        hs_log(env, HS_LOG_WARNING,
               "checkpoint '%s': state '%s' belongs to '%s', but its provider has no identity; restored", from->path,
               state->key, state->identity);
    else if (!state->identity && slot->identity)
        hs_log(env, HS_LOG_WARNING,
               "checkpoint '%s': state '%s' has no identity, but its provider has identity '%s'; restored", from->path,
               state->key, slot->identity);
}

/* A state that was not kept in memory is read from its file while its provider loads it. Small pieces come from a buffer.
 */
enum { READ_AHEAD = 1 << 16 };

typedef struct {
    hs__bundle_cursor cursor;
    unsigned char buffer[READ_AHEAD];
    size_t used, have;
} reading;

static size_t copy_buffered(reading *r, unsigned char *to, size_t bytes)
{
    size_t n = bytes < r->have - r->used ? bytes : r->have - r->used;
    memcpy(to, r->buffer + r->used, n);
    r->used += n;
    return n;
}

/* hs_state_reader.next */
static hs_code read_next(void *user, void *to, size_t bytes, hs_error *err)
{
    reading *r = user;
    size_t done = copy_buffered(r, to, bytes);
    if (bytes - done >= READ_AHEAD)
        return hs__bundle_read_next(&r->cursor, (char *)to + done, bytes - done, err);
    if (done == bytes)
        return HS_OK;
    const size_t left = (size_t)(r->cursor.entry->bytes - r->cursor.done);
    r->used = 0;
    r->have = left < READ_AHEAD ? left : READ_AHEAD;
    hs_code code = hs__bundle_read_next(&r->cursor, r->buffer, r->have, err);
    if (!code)
        copy_buffered(r, (unsigned char *)to + done, bytes - done);
    return code;
}

/* Builds the state of this rank from that of all ranks that saved the checkpoint. */
static hs_code reshard(const hs__stored_state *state, const hs__state_slot *slot, hs_raw_session *session, hs_error *err)
{
    const hs_env *env = &session->env;
    const size_t n = (size_t)state->n_ranks;
    hs_state_reader *readers = hs__alloc(env, n, sizeof *readers);
    hs_state_reader **saved = hs__alloc(env, n, sizeof *saved);
    hs_code code = readers && saved ? HS_OK : hs__no_memory(err, n * sizeof *readers, state->key);
    for (size_t i = 0; !code && i < n; i++) {
        const hs__stored_state *of = &state->ranks[i];
        readers[i] = (hs_state_reader){.at = of->data, .left = of->bytes, .version = of->version};
        saved[i] = &readers[i];
    }
    if (!code)
        code = slot->reshard(slot->self, saved, state->n_ranks, session->rank, session->rank_count, err);
    hs__free(env, readers);
    hs__free(env, saved);
    return code;
}

hs_code hs__stored_state_load(const hs__stored_states *from, const hs__stored_state *state, const hs__state_slot *slot,
                              hs__archive *archive, hs_raw_session *session, hs_error *err)
{
    if (!state->ranks && !state->data && !state->bytes) {
        hs_log(&session->env, hs__lost_state_level(slot->key),
               "checkpoint '%s' has no state '%s'; it keeps its initial value", from->path, slot->key);
        return HS_OK;
    }
    reading *from_file = NULL;
    hs_state_reader reader = {.at = state->data, .left = state->bytes, .version = state->version};
    if (!state->data && !state->ranks) {
        if (!(from_file = hs__alloc(&session->env, 1, sizeof *from_file)))
            return hs__no_memory(err, sizeof *from_file, state->key);
        from_file->cursor.reader = &archive->bundle;
        from_file->cursor.entry = &archive->bundle.entries[hs__archive_find(archive, state->key)];
        reader.next = read_next;
        reader.user = from_file;
    }
    hs__clear(err); /* an error that the previous provider ignored */
    session->loading_states = true;
    hs_code code = state->ranks ? reshard(state, slot, session, err) : slot->load(slot->self, &reader, err);
    session->loading_states = false;
    code = hs__normalize_error(code, "it", err);
    if (reader.error.code) {
        code = hs__error_copy(err, &reader.error);
        hs_error_prefix(err, HS__PARTLY_RESTORED);
    } else if (!code && reader.left) {
        code = hs_error_set(err, HS_INVALID_ARGUMENT, "load left %zu of %zu bytes unread", reader.left, state->bytes);
    }
    hs__free(&session->env, from_file);
    if (code)
        hs_error_prefix(err, "checkpoint '%s': cannot load state '%s'", from->path, state->ranks ? slot->base : slot->key);
    else if (state->ranks)
        hs_log(&session->env, HS_LOG_INFO, "state '%s', saved by %d ranks, divided among %d", slot->base,
               (int)state->n_ranks, (int)session->rank_count);
    else
        log_identities(from, state, slot, &session->env);
    return code;
}

hs_code hs__states_load(const hs__stored_states *states, hs__archive *archive, hs_raw_session *session, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < session->n_states && i < states->n; i++)
        code = hs__stored_state_load(states, &states->items[i], &session->states[i], archive, session, err);
    return code;
}
