/* SPDX-License-Identifier: Apache-2.0 */
/* A restore calls the four functions hs__states_locate, _read, _check and _load in this order, each for all states. */
#include "checkpoint/stored_states.h"

#include "checkpoint/rank_states.h"
#include "checkpoint/save_list.h"

#include <string.h>

/* Reading. */

static hs_code find_attribute(hs__bundle_reader *reader, const char *key, const char *which, hs_dtype dtype,
                              const hs__bundle_entry **out, hs_error *err)
{
    char *name = hs__format(reader->env, "%s%s", key, which);
    *out = name ? hs__bundle_find(reader, name) : NULL;
    hs__free(reader->env, name);
    if (!name)
        return hs__no_memory(err, strlen(key), "a name");
    const hs__bundle_entry *entry = *out;
    if (entry && (entry->dtype != (int32_t)dtype || entry->shape.rank != 0))
        return hs_error_set(err, HS_DATA_LOSS, "%s: '%s' is not a scalar of type %s", reader->prefix, entry->name,
                            hs_dtype_name(dtype));
    return entry ? hs__bundle_locate(reader, entry, err) : HS_OK;
}

static hs_code read_version(hs__bundle_reader *reader, hs__stored_state *state, hs_error *err)
{
    const hs__bundle_entry *entry;
    hs_code code = find_attribute(reader, state->key, HS__STATE_VERSION, HS_INT64, &entry, err);
    if (code || !entry || (code = hs__bundle_read(reader, entry, &state->version, err)))
        return code;
    if (state->version < 0)
        return hs_error_set(err, HS_DATA_LOSS, "%s: '%s' is %lld, which is not a version", reader->prefix, entry->name,
                            (long long)state->version);
    return HS_OK;
}

static hs_code read_identity(hs__bundle_reader *reader, hs__stored_state *state, const hs_env *env, hs_error *err)
{
    const hs__bundle_entry *entry;
    hs_code code = find_attribute(reader, state->key, HS__STATE_IDENTITY, HS_STRING, &entry, err);
    if (code || !entry)
        return code;
    size_t bytes = hs__bundle_read_bytes(entry);
    hs_string *text = hs__alloc(env, bytes, 1);
    if (!text)
        return hs__no_memory(err, bytes, entry->name);
    if (!(code = hs__bundle_read(reader, entry, text, err)) && !hs__is_line(text->data, text->bytes))
        code = hs_error_set(err, HS_DATA_LOSS, "%s: '%s' is not one line of text", reader->prefix, entry->name);
    if (!code && text->bytes && !(state->identity = hs__strndup(env, text->data, text->bytes)))
        code = hs__no_memory(err, text->bytes, entry->name);
    hs__free(env, text);
    return code;
}

bool hs__is_state_entry(const hs__bundle_entry *entry)
{
    return entry->dtype == HS_UINT8 && entry->shape.rank == 1;
}

/* The key without the rank. */
static const char *base_of(const hs__state_slot *slot)
{
    return slot->base ? slot->base : slot->key;
}

static bool has_base(const hs_raw_session *session, const char *base)
{
    for (size_t i = 0; i < session->n_states; i++)
        if (strcmp(base_of(&session->states[i]), base) == 0)
            return true;
    return false;
}

/* Returns a slot of the session, with its old keys if the checkpoint has no state under the others. An old key that another
 * slot has as its own is not used. */
static hs__state_slot slot_in(const hs__bundle_reader *reader, const hs_raw_session *session, size_t i)
{
    hs__state_slot slot = session->states[i], old = slot;
    old.key = slot.old_key;
    old.base = slot.old_base;
    return !old.key || hs__has_state(reader, base_of(&slot)) || has_base(session, base_of(&old)) ? slot : old;
}

/* A tensor with the prefix of states that is not a vector of uint8 was not written by this library: it is ignored. */
static bool is_unclaimed_state(const hs__bundle_reader *reader, const hs__bundle_entry *entry,
                               const hs_raw_session *session)
{
    size_t length = strlen(HS__STATE_PREFIX);
    if (strncmp(entry->name, HS__STATE_PREFIX, length) != 0 || strchr(entry->name, ':') || !hs__is_state_entry(entry) ||
        entry->slices || hs__is_rank_state(session, entry->name))
        return false;
    for (size_t i = 0; i < session->n_states; i++)
        if (strcmp(slot_in(reader, session, i).key, entry->name) == 0)
            return false;
    return true;
}

hs_log_level hs__lost_state_level(const char *key)
{
    return strncmp(key, HS__SCHEDULE_PREFIX, strlen(HS__SCHEDULE_PREFIX)) == 0 ? HS_LOG_DEBUG : HS_LOG_WARNING;
}

bool hs__is_state_key(const char *key)
{
    return strncmp(key, HS__STATE_PREFIX, strlen(HS__STATE_PREFIX)) == 0;
}

static hs_code locate_state(hs__bundle_reader *reader, const char *key, uint64_t *bytes, hs_error *err)
{
    const hs__bundle_entry *entry = hs__bundle_find(reader, key);
    if (!entry)
        return HS_OK;
    if (!hs__is_state_entry(entry))
        return hs_error_set(err, HS_DATA_LOSS, "%s: state '%s' is not a vector of uint8", reader->prefix, entry->name);
    *bytes += (uint64_t)entry->bytes;
    return hs__bundle_locate(reader, entry, err);
}

/* The state of `n` ranks, of which another number saved the checkpoint. */
static hs_code locate_ranks(hs__bundle_reader *reader, const hs__state_slot *slot, int32_t n, uint64_t *bytes,
                            hs_error *err)
{
    hs_code code = HS_OK;
    for (int32_t rank = 0; !code && rank < n; rank++) {
        char *key = hs__rank_state_key(reader->env, slot->base, rank, n);
        code = key ? locate_state(reader, key, bytes, err) : hs__no_memory(err, strlen(slot->base), "a name");
        hs__free(reader->env, key);
    }
    return code;
}

hs_code hs__states_locate(const hs_raw_session *session, hs__bundle_reader *reader, uint64_t *bytes, hs_error *err)
{
    hs_code code = HS_OK;
    *bytes = 0;
    for (size_t i = 0; !code && i < session->n_states; i++) {
        const hs__state_slot slot = slot_in(reader, session, i);
        int32_t n;
        if (!(code = hs__rank_states_count(reader, session, &slot, &n, err)))
            code = n ? locate_ranks(reader, &slot, n, bytes, err) : locate_state(reader, slot.key, bytes, err);
    }
    for (size_t i = 0; !code && i < reader->n_entries; i++) {
        const hs__bundle_entry *unclaimed = &reader->entries[i];
        if (!is_unclaimed_state(reader, unclaimed, session))
            continue;
        code = hs__bundle_locate(reader, unclaimed, err);
        *bytes += (uint64_t)unclaimed->bytes;
    }
    return code;
}

/* Reads the state of that key. At most `room` bytes are kept in memory. `entry` NULL: the checkpoint has no such state. */
static hs_code fill_state(hs__stored_state *state, const hs_env *env, const char *key, hs__bundle_reader *reader,
                          const hs__bundle_entry *entry, size_t room, hs_error *err)
{
    hs_code code = HS_OK;
    *state = (hs__stored_state){.key = hs__strdup(env, key)};
    if (!state->key)
        return hs__no_memory(err, strlen(key), "a name");
    if (!entry)
        return HS_OK;
    state->bytes = (size_t)entry->bytes;
    state->crc = entry->crc;
    if (state->bytes > room)
        code = hs__bundle_verify(reader, entry, err);
    else if (!(state->data = hs__alloc(env, state->bytes, 1)))
        code = hs__no_memory(err, state->bytes, key);
    else
        code = hs__bundle_read(reader, entry, state->data, err);
    if (!code && !(code = read_version(reader, state, err)))
        code = read_identity(reader, state, env, err);
    return code;
}

/* Same as fill_state, for a new item. */
static hs_code read_state(hs__stored_states *states, const hs_env *env, const char *key, hs__bundle_reader *reader,
                          const hs__bundle_entry *entry, size_t room, hs_error *err)
{
    hs_code code = hs__reserve(env, &states->items, &states->capacity, states->n + 1, sizeof *states->items, err);
    return code ? code : fill_state(&states->items[states->n++], env, key, reader, entry, room, err);
}

/* Reads the state of each rank that saved the checkpoint. */
static hs_code read_ranks(hs__stored_state *state, const hs_env *env, const hs__state_slot *slot, int32_t n,
                          hs__bundle_reader *reader, hs_error *err)
{
    hs_code code = HS_OK;
    state->ranks = hs__alloc(env, (size_t)n, sizeof *state->ranks);
    if (!state->ranks)
        return hs__no_memory(err, (size_t)n * sizeof *state->ranks, "the states of the ranks");
    for (; !code && state->n_ranks < n; state->n_ranks++) {
        char *key = hs__rank_state_key(env, slot->base, state->n_ranks, n);
        const hs__bundle_entry *entry = key ? hs__bundle_find(reader, key) : NULL;
        if (!key)
            code = hs__no_memory(err, strlen(slot->base), "a name");
        else if (!entry)
            code = hs_error_set(err, HS_DATA_LOSS, "%s: state '%s' is missing", reader->prefix, key);
        else
            code = fill_state(&state->ranks[state->n_ranks], env, key, reader, entry, SIZE_MAX, err);
        hs__free(env, key);
    }
    return code;
}

/* The part of `room` that the state uses. */
static size_t used_room(const hs__stored_state *state, size_t room)
{
    size_t bytes = state->data ? state->bytes : 0;
    return bytes < room ? bytes : room;
}

hs_code hs__states_read(hs__stored_states *states, const hs_raw_session *session, hs__bundle_reader *reader, hs_error *err)
{
    const hs_env *env = &session->env;
    size_t room = HS__STATES_IN_MEMORY;
    *states = (hs__stored_states){.path = hs__strdup(env, reader->prefix)};
    hs_code code = states->path ? HS_OK : hs__no_memory(err, strlen(reader->prefix), "a path");
    for (size_t i = 0; !code && i < session->n_states; i++) {
        const hs__state_slot slot = slot_in(reader, session, i);
        const hs__bundle_entry *entry = hs__bundle_find(reader, slot.key);
        size_t limit = entry && entry->slices ? SIZE_MAX : room; /* slices are joined in memory */
        int32_t n;
        if ((code = hs__rank_states_count(reader, session, &slot, &n, err)) ||
            (code = read_state(states, env, slot.key, reader, entry, limit, err)))
            break;
        room -= used_room(&states->items[i], room);
        code = n ? read_ranks(&states->items[i], env, &slot, n, reader, err) : HS_OK;
    }
    for (size_t i = 0; !code && i < reader->n_entries; i++) {
        const hs__bundle_entry *entry = &reader->entries[i];
        if (!is_unclaimed_state(reader, entry, session))
            continue;
        if (!(code = read_state(states, env, entry->name, reader, entry, room, err)))
            room -= used_room(&states->items[states->n - 1], room);
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

static hs_code refuse_identity(const hs__stored_states *from, const hs__stored_state *state, const hs__state_slot *slot,
                               const hs_env *env, hs_error *err)
{
    enum { SHOWN = 240 };
    if (strlen(state->identity) > SHOWN || strlen(slot->identity) > SHOWN)
        hs_log(env, HS_LOG_ERROR, "checkpoint '%s': state '%s' belongs to '%s', but its provider has identity '%s'",
               from->path, state->key, state->identity, slot->identity);
    return hs_error_set(
        err, HS_FAILED_PRECONDITION,
        "checkpoint '%s': state '%s' belongs to '%.*s', but its provider has identity '%.*s'; resume with the former, or "
        "set hs_restore_options.any_identity",
        from->path, state->key, SHOWN, state->identity, SHOWN, slot->identity);
}

hs_code hs__stored_state_check(const hs__stored_states *from, const hs__stored_state *state, const hs__state_slot *slot,
                               const hs_env *env, hs_error *err)
{
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
    return differ(state, slot) && !from->any_identity ? refuse_identity(from, state, slot, env, err) : HS_OK;
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

static hs_code read_next(void *user, void *to, size_t bytes, hs_error *err)
{
    reading *r = user;
    size_t done = copy_buffered(r, to, bytes);
    if (bytes - done >= READ_AHEAD)
        return hs__bundle_read_next(&r->cursor, (char *)to + done, bytes - done, err);
    if (done == bytes)
        return HS_OK;
    uint64_t left = r->cursor.entry->bytes - r->cursor.done;
    r->used = 0;
    r->have = left < READ_AHEAD ? (size_t)left : READ_AHEAD;
    hs_code code = hs__bundle_read_next(&r->cursor, r->buffer, r->have, err);
    if (!code)
        copy_buffered(r, (unsigned char *)to + done, bytes - done);
    return code;
}

static hs_code call_load(const hs__stored_state *state, const hs__state_slot *slot, hs_state_reader *reader,
                         hs_raw_session *session, hs_error *err)
{
    hs__clear(err); /* an error that the previous provider ignored */
    session->loading_states = true;
    hs_code code = hs__normalize_error(slot->load(slot->self, reader, err), "it", err);
    session->loading_states = false;
    if (reader->error.code) {
        code = hs__error_copy(err, &reader->error);
        hs_error_prefix(err, HS__PARTLY_RESTORED);
    } else if (!code && reader->left) {
        code = hs_error_set(err, HS_INVALID_ARGUMENT, "load left %zu of %zu bytes unread", reader->left, state->bytes);
    }
    return code;
}

static hs_code load_from_file(const hs__stored_state *state, const hs__state_slot *slot, hs__bundle_reader *file,
                              hs_raw_session *session, hs_error *err)
{
    const hs__bundle_entry *entry = hs__bundle_find(file, state->key);
    reading *r = hs__alloc(&session->env, 1, sizeof *r);
    if (!r)
        return hs__no_memory(err, sizeof *r, state->key);
    r->cursor = (hs__bundle_cursor){.reader = file, .entry = entry};
    hs_state_reader reader = {.left = state->bytes, .version = state->version, .next = read_next, .user = r};
    hs_code code = call_load(state, slot, &reader, session, err);
    hs__free(&session->env, r);
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
    if (!code) {
        hs__clear(err); /* an error that the previous provider ignored */
        session->loading_states = true;
        code = hs__normalize_error(
            slot->reshard(slot->self, saved, state->n_ranks, session->rank, session->rank_count, err), "it", err);
        session->loading_states = false;
    }
    hs__free(env, readers);
    hs__free(env, saved);
    if (!code)
        hs_log(env, HS_LOG_INFO, "state '%s', saved by %d ranks, divided among %d", slot->base, (int)state->n_ranks,
               (int)session->rank_count);
    return code;
}

hs_code hs__stored_state_load(const hs__stored_states *from, const hs__stored_state *state, const hs__state_slot *slot,
                              hs__bundle_reader *file, hs_raw_session *session, hs_error *err)
{
    if (state->ranks) {
        hs_code resharded = reshard(state, slot, session, err);
        if (resharded)
            hs_error_prefix(err, "checkpoint '%s': cannot load state '%s'", from->path, slot->base);
        return resharded;
    }
    if (!state->data && !state->bytes) {
        hs_log(&session->env, hs__lost_state_level(slot->key),
               "checkpoint '%s' has no state '%s'; it keeps its initial value", from->path, slot->key);
        return HS_OK;
    }
    hs_state_reader reader = {.at = state->data, .left = state->bytes, .version = state->version};
    hs_code code =
        state->data ? call_load(state, slot, &reader, session, err) : load_from_file(state, slot, file, session, err);
    if (code)
        hs_error_prefix(err, "checkpoint '%s': cannot load state '%s'", from->path, slot->key);
    else
        log_identities(from, state, slot, &session->env);
    return code;
}

hs_code hs__states_check(const hs__stored_states *states, const hs_raw_session *session, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < session->n_states; i++)
        code = hs__stored_state_check(states, &states->items[i], &session->states[i], &session->env, err);
    return code;
}

hs_code hs__states_load(const hs__stored_states *states, hs__bundle_reader *file, hs_raw_session *session, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < session->n_states; i++)
        code = hs__stored_state_load(states, &states->items[i], &session->states[i], file, session, err);
    return code;
}
