/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/stored_states.h"

#include "backends/raw_variables.h"
#include "backends/variable.h"

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

static bool is_state(const hs__bundle_entry *entry)
{
    return entry->dtype == HS_UINT8 && entry->shape.rank == 1;
}

/* A tensor of this prefix that is no vector of bytes was not written here, and is nobody's. */
static bool is_left(const hs__bundle_entry *entry, const hs_raw_session *session)
{
    size_t length = strlen(HS__STATE_PREFIX);
    if (strncmp(entry->name, HS__STATE_PREFIX, length) != 0 || strchr(entry->name, ':') || !is_state(entry) ||
        entry->slices)
        return false;
    for (size_t i = 0; i < session->n_states; i++)
        if (strcmp(session->states[i].key, entry->name) == 0)
            return false;
    return true;
}

bool hs__is_state_key(const char *key)
{
    return strncmp(key, HS__STATE_PREFIX, strlen(HS__STATE_PREFIX)) == 0;
}

/* The variable that this entry records to have been added late, if the session has none of that name now. NULL: it is no
 * such record. */
static hs_code find_late(const hs__bundle_reader *reader, const hs__bundle_entry *record, const hs_raw_session *session,
                         const hs__bundle_entry **out, hs_error *err)
{
    static const char prefix[] = HS__STATE_PREFIX "variable/";
    size_t length = strlen(record->name), before = sizeof prefix - 1, after = strlen(HS__VARIABLE_LATE);
    *out = NULL;
    if (length <= before + after || strncmp(record->name, prefix, before) != 0 ||
        strcmp(record->name + length - after, HS__VARIABLE_LATE) != 0)
        return HS_OK;
    char *name = hs__strndup(&session->env, record->name + before, length - before - after);
    if (!name)
        return hs__no_memory(err, length, "a name");
    const hs__bundle_entry *entry = hs__has_variable(session, name) ? NULL : hs__bundle_find(reader, name);
    if (entry && !entry->slices && hs__dtype_valid(entry->dtype) && entry->dtype != HS_STRING && !hs__is_state_key(name))
        *out = entry;
    hs__free(&session->env, name);
    return HS_OK;
}

/* What nobody takes of it: a piece of state, or a variable. NULL: nothing. */
static hs_code find_left(const hs__bundle_reader *reader, const hs__bundle_entry *entry, const hs_raw_session *session,
                         const hs__bundle_entry **out, hs_error *err)
{
    hs_code code = find_late(reader, entry, session, out, err);
    if (!code && is_left(entry, session))
        *out = entry;
    return code;
}

/* What an index says is believed only as far as its data file bears it out. */
hs_code hs__states_locate(const hs_raw_session *session, hs__bundle_reader *reader, uint64_t *bytes, hs_error *err)
{
    hs_code code = HS_OK;
    *bytes = 0;
    for (size_t i = 0; !code && i < session->n_states; i++) {
        const hs__bundle_entry *entry = hs__bundle_find(reader, session->states[i].key);
        if (entry && !is_state(entry))
            return hs_error_set(err, HS_DATA_LOSS, "%s: state '%s' is not a vector of uint8", reader->prefix, entry->name);
        code = entry ? hs__bundle_locate(reader, entry, err) : HS_OK;
        *bytes += entry ? (uint64_t)entry->bytes : 0;
    }
    for (size_t i = 0; !code && i < reader->n_entries; i++) {
        const hs__bundle_entry *left;
        if ((code = find_left(reader, &reader->entries[i], session, &left, err)) || !left)
            continue;
        code = hs__bundle_locate(reader, left, err);
        *bytes += (uint64_t)left->bytes;
    }
    return code;
}

static hs_code read_data(hs__bundle_reader *reader, const hs__bundle_entry *entry, hs__stored_state *state,
                         const hs_env *env, hs_error *err)
{
    state->data = hs__alloc(env, state->bytes, 1);
    return state->data ? hs__bundle_read(reader, entry, state->data, err) : hs__no_memory(err, state->bytes, state->key);
}

/* Adds the state of that key; `room` is how much may be kept in memory. Without an entry there is only a key. */
static hs_code read_state(hs__stored_states *states, const hs_env *env, const char *key, hs__bundle_reader *reader,
                          const hs__bundle_entry *entry, size_t room, hs_error *err)
{
    hs_code code = hs__reserve(env, &states->items, &states->capacity, states->n + 1, sizeof *states->items, err);
    if (code)
        return code;
    hs__stored_state *state = &states->items[states->n++];
    *state = (hs__stored_state){.key = hs__strdup(env, key)};
    if (!state->key)
        return hs__no_memory(err, strlen(key), "a name");
    if (!entry)
        return HS_OK;
    state->bytes = (size_t)entry->bytes;
    state->crc = entry->crc;
    code = state->bytes <= room ? read_data(reader, entry, state, env, err) : hs__bundle_verify(reader, entry, err);
    if (!hs__is_state_key(key)) {
        state->dtype = (hs_dtype)entry->dtype;
        state->shape = entry->shape;
        return code;
    }
    if (!code && !(code = read_version(reader, state, err)))
        code = read_identity(reader, state, env, err);
    return code;
}

/* How much of the room it takes. */
static size_t in_memory(const hs__stored_state *state, size_t room)
{
    size_t bytes = state->data ? state->bytes : 0;
    return bytes < room ? bytes : room;
}

hs_code hs__states_read(hs__stored_states *states, const hs_raw_session *session, hs__bundle_reader *reader, hs_error *err)
{
    const hs_env *env = &session->env;
    size_t room = HS__WAITING_BYTES;
    *states = (hs__stored_states){.path = hs__strdup(env, reader->prefix)};
    hs_code code = states->path ? HS_OK : hs__no_memory(err, strlen(reader->prefix), "a path");
    for (size_t i = 0; !code && i < session->n_states; i++) {
        const char *key = session->states[i].key;
        const hs__bundle_entry *entry = hs__bundle_find(reader, key);
        size_t limit = entry && entry->slices ? SIZE_MAX : room; /* slices are put together in memory */
        if (!(code = read_state(states, env, key, reader, entry, limit, err)))
            room -= in_memory(&states->items[i], room);
    }
    for (size_t i = 0; !code && i < reader->n_entries; i++) {
        const hs__bundle_entry *entry;
        if ((code = find_left(reader, &reader->entries[i], session, &entry, err)) || !entry)
            continue;
        if (!(code = read_state(states, env, entry->name, reader, entry, room, err)))
            room -= in_memory(&states->items[states->n - 1], room);
    }
    return code;
}

static void free_state(const hs__stored_state *state, const hs_env *env)
{
    hs__free(env, state->key);
    hs__free(env, state->identity);
    if (!state->is_lent)
        hs__free(env, state->data);
}

void hs__states_free(hs__stored_states *states, const hs_env *env)
{
    for (size_t i = 0; i < states->n; i++)
        free_state(&states->items[i], env);
    hs__free(env, states->items);
    hs__free(env, states->path);
    *states = (hs__stored_states){.path = NULL};
}

/* Loading. */

static bool is_there(const hs__stored_state *state)
{
    return state->data || state->bytes;
}

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

static hs_code check_state(const hs__stored_states *from, const hs__stored_state *state, const hs__state_slot *slot,
                           const hs_env *env, hs_error *err)
{
    if (state->version > slot->version)
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "checkpoint '%s': state '%s' has version %lld, but its provider supports versions up to %lld; "
                            "resume with the newer program",
                            from->path, state->key, (long long)state->version, (long long)slot->version);
    return differ(state, slot) && !from->any_identity ? refuse_identity(from, state, slot, env, err) : HS_OK;
}

static void tell_identities(const hs__stored_states *from, const hs__stored_state *state, const hs__state_slot *slot,
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

/* A state that is too large for memory is read from its file as its provider asks for it. Small pieces come from a buffer.
 */
enum { READ_AHEAD = 1 << 16 };

typedef struct {
    hs__bundle_cursor cursor;
    unsigned char buffer[READ_AHEAD];
    size_t used, have;
} reading;

static size_t take_buffered(reading *r, unsigned char *to, size_t bytes)
{
    size_t n = bytes < r->have - r->used ? bytes : r->have - r->used;
    memcpy(to, r->buffer + r->used, n);
    r->used += n;
    return n;
}

static hs_code read_next(void *user, void *to, size_t bytes, hs_error *err)
{
    reading *r = user;
    size_t done = take_buffered(r, to, bytes);
    if (bytes - done >= READ_AHEAD)
        return hs__bundle_read_next(&r->cursor, (char *)to + done, bytes - done, err);
    if (done == bytes)
        return HS_OK;
    uint64_t left = r->cursor.entry->bytes - r->cursor.done;
    r->used = 0;
    r->have = left < READ_AHEAD ? (size_t)left : READ_AHEAD;
    hs_code code = hs__bundle_read_next(&r->cursor, r->buffer, r->have, err);
    if (!code)
        take_buffered(r, (unsigned char *)to + done, bytes - done);
    return code;
}

static hs_code call_load(const hs__stored_state *state, const hs__state_slot *slot, hs_state_reader *reader,
                         hs_raw_session *session, hs_error *err)
{
    hs__clear(err); /* what another one has got over */
    session->loading_states = true;
    hs_code code = hs__settle(slot->load(slot->self, reader, err), "it", err);
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

/* `file` is where it is if it is not in memory. */
static hs_code load_state(const hs__stored_states *from, const hs__stored_state *state, const hs__state_slot *slot,
                          hs__bundle_reader *file, hs_raw_session *session, hs_error *err)
{
    if (!is_there(state)) {
        hs_log(&session->env, HS_LOG_WARNING, "checkpoint '%s' has no state '%s'; it keeps its initial value", from->path,
               slot->key);
        return HS_OK;
    }
    hs_state_reader reader = {.at = state->data, .left = state->bytes, .version = state->version};
    hs_code code = state->data || !state->bytes ? call_load(state, slot, &reader, session, err)
                                                : load_from_file(state, slot, file, session, err);
    if (code)
        hs_error_prefix(err, "checkpoint '%s': cannot load state '%s'", from->path, slot->key);
    else
        tell_identities(from, state, slot, &session->env);
    return code;
}

hs_code hs__states_check(const hs__stored_states *states, const hs_raw_session *session, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < session->n_states; i++)
        code = check_state(states, &states->items[i], &session->states[i], &session->env, err);
    return code;
}

hs_code hs__states_load(const hs__stored_states *states, hs__bundle_reader *file, hs_raw_session *session, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < session->n_states; i++)
        code = load_state(states, &states->items[i], &session->states[i], file, session, err);
    return code;
}

/* Waiting. */

static void remove_states(hs__stored_states *states, size_t at, size_t n, const hs_env *env)
{
    for (size_t i = at; i < at + n; i++)
        free_state(&states->items[i], env);
    states->n -= n;
    if (states->n > at)
        memmove(states->items + at, states->items + at + n, (states->n - at) * sizeof *states->items);
}

void hs__states_leave(hs__stored_states *states, hs_raw_session *session)
{
    remove_states(states, 0, session->n_states, &session->env);
    states->untold = states->n > 0;
    hs__states_free(&session->waiting, &session->env);
    session->waiting = *states;
    *states = (hs__stored_states){.path = NULL};
}

static bool is_like(const hs__bundle_entry *entry, const hs__stored_state *state)
{
    return state->dtype ? entry->dtype == (int32_t)state->dtype && hs_shape_equal(&entry->shape, &state->shape)
                        : is_state(entry);
}

/* Opens the checkpoint again for what was not kept in memory. */
static hs_code open_again(hs__bundle_reader *reader, const hs__stored_states *from, const hs__stored_state *state,
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

/* Is its data only in the checkpoint? */
static bool is_in_file(const hs__stored_state *state)
{
    return !state->data && state->bytes;
}

static hs_code read_again(const hs__stored_states *from, hs__stored_state *state, const hs_env *env, hs_error *err)
{
    hs__bundle_reader reader;
    hs_code code = open_again(&reader, from, state, env, err);
    if (code)
        return code;
    code = read_data(&reader, hs__bundle_find(&reader, state->key), state, env, err);
    hs__bundle_reader_close(&reader);
    return code;
}

/* Lends the state with its data. What was read for it is freed by release. */
static hs_code lend(const hs__stored_states *from, size_t index, const hs_env *env, hs__stored_state *lent, hs_error *err)
{
    *lent = from->items[index];
    return is_in_file(lent) ? read_again(from, lent, env, err) : HS_OK;
}

static void release(const hs__stored_states *from, size_t index, const hs_env *env, const hs__stored_state *lent)
{
    if (lent->data != from->items[index].data)
        hs__free(env, lent->data);
}

static hs_code claim(const hs__stored_states *waiting, const hs__stored_state *state, const hs__state_slot *slot,
                     hs_raw_session *session, hs_error *err)
{
    hs__bundle_reader reader;
    if (!is_in_file(state))
        return load_state(waiting, state, slot, NULL, session, err);
    hs_code code = open_again(&reader, waiting, state, &session->env, err);
    if (code)
        return code;
    code = load_state(waiting, state, slot, &reader, session, err);
    hs__bundle_reader_close(&reader);
    return code;
}

hs_code hs__claim_state(hs_raw_session *session, const hs__state_slot *slot, hs_error *err)
{
    hs__stored_states *waiting = &session->waiting;
    const hs__stored_state nothing = {.key = slot->key};
    size_t at = 0;
    while (at < waiting->n && strcmp(waiting->items[at].key, slot->key) != 0)
        at++;
    if (at == waiting->n)
        return waiting->path ? load_state(waiting, &nothing, slot, NULL, session, err) : HS_OK;
    hs_code code = check_state(waiting, &waiting->items[at], slot, &session->env, err);
    if (!code && !(code = claim(waiting, &waiting->items[at], slot, session, err)))
        remove_states(waiting, at, 1, &session->env);
    return code;
}

/* Variables. */

static hs_code read_variable(const hs__stored_states *from, const hs__stored_state *state, void *to, bool in_place,
                             const hs_env *env, hs_error *err)
{
    hs__bundle_reader reader;
    if (!is_in_file(state)) {
        if (state->bytes)
            memcpy(to, state->data, state->bytes);
        return HS_OK;
    }
    hs_code code = open_again(&reader, from, state, env, err);
    if (code)
        return code;
    code = hs__bundle_read(&reader, hs__bundle_find(&reader, state->key), to, err);
    hs__bundle_reader_close(&reader);
    if (code && in_place)
        hs_error_prefix(err, "reading the variable '%s': " HS__PARTLY_RESTORED, state->key);
    return code;
}

/* Straight into its memory, if that is the host's. */
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

static size_t find_waiting(const hs__stored_states *waiting, const char *variable)
{
    for (size_t i = 0; i < waiting->n; i++)
        if (waiting->items[i].dtype && strcmp(waiting->items[i].key, variable) == 0)
            return i;
    return HS__NONE;
}

static hs_code set_waiting(const hs_raw_session *session, size_t at, const hs_variable_def *def, hs_error *err)
{
    const hs__stored_states *waiting = &session->waiting;
    const hs__stored_state *state = &waiting->items[at];
    char there[HS_SHAPE_TEXT_SIZE], here[HS_SHAPE_TEXT_SIZE];
    if (state->dtype != def->dtype || !hs_shape_equal(&state->shape, &def->shape))
        return hs_error_set(
            err, HS_INVALID_ARGUMENT, "checkpoint '%s': variable '%s' is %s %s in the checkpoint, but %s %s in the program",
            waiting->path, def->name, hs_dtype_name(state->dtype), hs_shape_text(&state->shape, there, sizeof there),
            hs_dtype_name(def->dtype), hs_shape_text(&def->shape, here, sizeof here));
    return set_late(waiting, state, def, &session->env, err);
}

hs_code hs__claim_variable(hs_raw_session *session, const hs_variable_def *def, hs_error *err)
{
    hs__stored_states *waiting = &session->waiting;
    size_t at = find_waiting(waiting, def->name);
    if (at == HS__NONE) {
        if (waiting->path && !hs__has_variable(session, def->name))
            hs_log(&session->env, HS_LOG_WARNING, "checkpoint '%s' has no variable '%s'; it keeps its initial value",
                   waiting->path, def->name);
        return HS_OK;
    }
    hs_code code = set_waiting(session, at, def, err);
    if (!code)
        remove_states(waiting, at, 1, &session->env);
    return code;
}

hs_code hs__restore_late(hs_raw_session *session, const hs_variable_def *def, hs_error *err)
{
    const hs_tensor none = {.data = NULL};
    size_t at = find_waiting(&session->waiting, def->name);
    hs_tensor to;
    if (at != HS__NONE)
        return set_waiting(session, at, def, err);
    hs_code code = hs__variable_place(def, false, &to, err);
    return code ? code : hs__variable_write(def, &to, &none, err);
}

/* Does it wait only for being added again? */
static bool is_known(const hs_raw_session *session, const hs__stored_state *state)
{
    return state->dtype && hs__has_variable(session, state->key);
}

void hs__tell_waiting_states(hs_raw_session *session)
{
    hs__stored_states *waiting = &session->waiting;
    waiting->untold = false;
    for (size_t i = waiting->n; i-- > 0;)
        if (is_known(session, &waiting->items[i]))
            remove_states(waiting, i, 1, &session->env);
    for (size_t i = 0; i < waiting->n; i++)
        hs_log(&session->env, HS_LOG_WARNING,
               "checkpoint '%s' has the %s '%s', but no provider loads it; later checkpoints omit it", waiting->path,
               waiting->items[i].dtype ? "variable" : "state", waiting->items[i].key);
}

/* Saving. */

static hs_code take_attribute(const hs_env *env, const char *key, const char *which, const hs_tensor *value,
                              hs__take_fn take, void *user, hs_error *err)
{
    char *name = hs__format(env, "%s%s", key, which);
    hs_code code = name ? take(user, &(hs__saved){.name = name, .value = *value, .variable = HS__NONE}, err)
                        : hs__no_memory(err, strlen(key), "a name");
    hs__free(env, name);
    return code;
}

hs_code hs__take_state(const hs_env *env, const hs__stored_state *state, const hs__saved *bytes, hs__take_fn take,
                       void *user, hs_error *err)
{
    hs_string identity = {state->identity, state->identity ? strlen(state->identity) : 0};
    hs_tensor version = hs_tensor_of(HS_INT64, HS_SCALAR, &state->version);
    hs_tensor text = hs_tensor_of(HS_STRING, HS_SCALAR, &identity);
    hs_code code = take(user, bytes, err);
    if (!code && state->version)
        code = take_attribute(env, state->key, HS__STATE_VERSION, &version, take, user, err);
    if (!code && state->identity)
        code = take_attribute(env, state->key, HS__STATE_IDENTITY, &text, take, user, err);
    return code;
}

static hs_code take_waiting(const hs_env *env, const hs__stored_state *state, hs__take_fn take, void *user, hs_error *err)
{
    hs_shape bytes = {.rank = 1, .dims = {(int64_t)state->bytes}};
    const hs__saved saved = {.name = state->key,
                             .value = state->dtype ? hs_tensor_of(state->dtype, state->shape, state->data)
                                                   : hs_tensor_of(HS_UINT8, bytes, state->data),
                             .variable = HS__NONE,
                             .nonfinite = true}; /* it was, in the checkpoint that it is from */
    if (!state->dtype)
        return hs__take_state(env, state, &saved, take, user, err);
    hs_code code = take(user, &saved, err);
    return code ? code : hs__take_record(env, state->key, HS__VARIABLE_LATE, take, user, err);
}

hs_code hs__each_waiting_state(const hs_raw_session *session, hs__take_fn take, void *user, hs_error *err)
{
    const hs__stored_states *waiting = &session->waiting;
    hs_code code = HS_OK;
    for (size_t i = 0; waiting->untold && !code && i < waiting->n; i++) {
        hs__stored_state state;
        hs_error cause = {0};
        if (is_known(session, &waiting->items[i]))
            continue;
        if (lend(waiting, i, &session->env, &state, &cause)) /* which is nothing to fail a save for */
            hs_log(&session->env, HS_LOG_WARNING, "%s; this checkpoint omits it", cause.message);
        else
            code = take_waiting(&session->env, &state, take, user, err);
        release(waiting, i, &session->env, &state);
    }
    return code;
}
