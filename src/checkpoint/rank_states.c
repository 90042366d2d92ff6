/* SPDX-License-Identifier: Apache-2.0 */
/* hs__rank_states_gather sends the states of each rank to the chief, which compares and keeps them. */
#include "checkpoint/rank_states.h"

#include "base/crc32c.h"
#include "base/state.h"
#include "base/text.h"
#include "checkpoint/stored_states.h"
#include "ranks/ranks.h"

#include <stdio.h>
#include <string.h>

/* The message of a rank: its error, and if that is HS_OK, one record for each state. Ranks are processes of the same
 * program, so both are in the form of the memory of the machine. */

typedef struct {
    uint32_t key_bytes, identity_bytes; /* their text follows the record; no identity: 0 */
    uint32_t crc;
    uint32_t per_rank; /* the data follow the texts */
    uint64_t bytes;
    int64_t version;
} record;

/* Sending. */

static hs_code put_crc(void *user, const void *data, size_t bytes, hs_error *err)
{
    record *r = user;
    (void)err;
    r->crc = hs__crc32c(r->crc, data, bytes);
    r->bytes += bytes;
    return HS_OK;
}

static hs_code write_record(hs__buffer *out, hs__state_slot *slot, const hs_env *env, hs_error *err)
{
    const char *identity = slot->identity ? slot->identity : "";
    record r = {.key_bytes = (uint32_t)strlen(slot->key),
                .identity_bytes = (uint32_t)strlen(identity),
                .per_rank = slot->base != NULL,
                .version = slot->version};
    hs__buffer data;
    hs__buffer_init(&data, env);
    const hs_state_writer to_data = hs__state_writer_to(&data);
    hs_code code = HS_OK;
    if (slot->base) {
        code = hs__produce_state(slot, to_data.put, to_data.user, err);
        r.bytes = data.size;
    } else if (!slot->varies) {
        code = hs__produce_state(slot, put_crc, &r, err);
    }
    hs__buffer_append(out, &r, sizeof r);
    hs__buffer_append(out, slot->key, r.key_bytes);
    hs__buffer_append(out, identity, r.identity_bytes);
    if (data.size)
        hs__buffer_append(out, data.data, data.size);
    hs__buffer_free(&data);
    return code;
}

static void write_states(hs__buffer *out, const hs_raw_session *session)
{
    hs_error error = {0};
    hs_code code = HS_OK;
    hs__buffer_append(out, &error, sizeof error);
    for (size_t i = 0; !code && i < session->n_states; i++) {
        hs__state_slot slot = session->states[i]; /* a copy: the provider may add another one, which moves them */
        code = write_record(out, &slot, &session->env, &error);
    }
    if (!code && !(code = hs__buffer_check(out, "the states of this rank", &error)))
        return;
    error.code = code;
    hs__buffer_clear(out);
    out->failed = false;
    hs__buffer_append(out, &error, sizeof error);
}

/* Receiving, at the chief. */

/* A position in what a rank has sent. */
typedef struct {
    const unsigned char *at;
    size_t left;
} cursor;

typedef struct {
    hs_raw_session *session;
    cursor own;      /* the records of the chief */
    hs_error error;  /* the first failure */
    char state[256]; /* the first shared state that differs. "": none */
    char ranks[256]; /* on these ranks */
    bool lacking;    /* the chief does not have it */
} receiving;

static const void *take(cursor *from, uint64_t bytes)
{
    const unsigned char *at = from->at;
    if (bytes > from->left)
        return NULL;
    from->at += bytes;
    from->left -= (size_t)bytes;
    return at;
}

/* Returns false at the end. */
static bool next_record(cursor *from, record *r, const char **key, const char **identity, const void **data)
{
    const void *head = take(from, sizeof *r);
    if (!head)
        return false;
    memcpy(r, head, sizeof *r);
    *key = take(from, r->key_bytes);
    *identity = take(from, r->identity_bytes);
    *data = r->per_rank ? take(from, r->bytes) : NULL;
    return *key && *identity && (*data || !r->per_rank);
}

static bool find_record(cursor from, const char *key, uint32_t key_bytes, record *found)
{
    const char *name, *identity;
    const void *data;
    while (next_record(&from, found, &name, &identity, &data))
        if (found->key_bytes == key_bytes && memcmp(name, key, key_bytes) == 0)
            return true;
    return false;
}

static void note_difference(receiving *r, int32_t rank, const char *key, uint32_t key_bytes)
{
    size_t shown = key_bytes < sizeof r->state ? key_bytes : sizeof r->state - 1;
    if (!r->state[0])
        snprintf(r->state, sizeof r->state, "%.*s", (int)shown, key);
    if (strlen(r->state) == shown && memcmp(r->state, key, shown) == 0)
        hs__append_item(r->ranks, sizeof r->ranks, "%d", (int)rank);
}

static hs_code add_gathered(hs_raw_session *session, const record *r, const char *key, const char *identity,
                            const void *data, hs_error *err)
{
    const hs_env *env = &session->env;
    hs__stored_states *gathered = &session->gathered;
    hs_code code = hs__reserve(env, &gathered->items, &gathered->capacity, gathered->n + 1, sizeof *gathered->items, err);
    if (code)
        return code;
    hs__stored_state *state = &gathered->items[gathered->n++];
    *state = (hs__stored_state){.key = hs__strndup(env, key, r->key_bytes),
                                .identity = r->identity_bytes ? hs__strndup(env, identity, r->identity_bytes) : NULL,
                                .version = r->version,
                                .data = hs__alloc(env, (size_t)r->bytes + 1, 1),
                                .bytes = (size_t)r->bytes};
    if (!state->key || !state->data || (r->identity_bytes && !state->identity))
        return hs__no_memory(err, (size_t)r->bytes, "the states of other ranks");
    if (r->bytes)
        memcpy(state->data, data, (size_t)r->bytes);
    return HS_OK;
}

/* Hooks of rank 0 alone have states that the other ranks lack. */
static void receive_records(receiving *r, int32_t rank, cursor from)
{
    record other, own;
    const char *key, *identity;
    const void *data;
    hs_code code = HS_OK;
    while (!code && next_record(&from, &other, &key, &identity, &data)) {
        if (other.per_rank)
            code = add_gathered(r->session, &other, key, identity, data, &r->error);
        else if (!find_record(r->own, key, other.key_bytes, &own)) {
            r->lacking |= !r->state[0];
            note_difference(r, rank, key, other.key_bytes);
        } else if (own.crc != other.crc || own.bytes != other.bytes)
            note_difference(r, rank, key, other.key_bytes);
    }
}

static void receive(void *user, int32_t rank, hs_bytes bytes)
{
    receiving *r = user;
    cursor from = {bytes.data, bytes.size};
    const void *head = take(&from, sizeof(hs_error));
    hs_error sent = {.code = HS_INTERNAL};
    if (head)
        memcpy(&sent, head, sizeof sent);
    if (r->error.code)
        return;
    if (sent.code) {
        r->error = sent;
        hs_error_prefix(&r->error, "rank %d", (int)rank);
    } else if (rank == r->session->rank)
        r->own = from;
    else
        receive_records(r, rank, from);
}

hs_code hs__rank_states_gather(hs_raw_session *session, hs_error *states, hs_error *err)
{
    hs__buffer own;
    receiving r = {.session = session};
    hs__rank_states_free(session);
    hs__clear(states);
    if (session->rank_count == 1)
        return HS_OK;
    hs__buffer_init(&own, &session->env);
    write_states(&own, session);
    hs_code code = hs__ranks_gather(session->ranks, HS__TOPIC_SAVE, (hs_bytes){own.data, own.size}, receive, &r, err);
    hs__buffer_free(&own);
    const char *plural = strchr(r.ranks, ',') ? "s" : "";
    if (code || r.error.code)
        hs__error_copy(states, code ? NULL : &r.error);
    else if (r.lacking)
        hs_error_set(states, HS_FAILED_PRECONDITION,
                     "state '%s' exists on rank%s %s, but not on rank 0; add it on all ranks", r.state, plural, r.ranks);
    else if (r.state[0])
        hs_error_set(
            states, HS_FAILED_PRECONDITION,
            "state '%s' differs between rank 0 and rank%s %s, but only that of rank 0 would be saved; if each rank "
            "has its own, add it with HS_STATE_PER_RANK (a hook: HS_HOOK_PER_RANK)",
            r.state, plural, r.ranks);
    return code;
}

void hs__rank_states_free(hs_raw_session *session)
{
    hs__states_free(&session->gathered, &session->env);
}
