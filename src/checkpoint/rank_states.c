/* SPDX-License-Identifier: Apache-2.0 */
/* hs__rank_states_compare sends the checksums of shared states of each rank to the chief, which compares them. */
#include "checkpoint/rank_states.h"

#include "base/crc32c.h"
#include "base/state.h"
#include "base/text.h"
#include "checkpoint/save_list.h"
#include "ranks/ranks.h"

#include <stdio.h>
#include <string.h>

/* The message of a rank: a head, and if its error is HS_OK, one record for each shared state. Ranks are processes of the
 * same program, so both are in the form of the memory of the machine. */

typedef struct {
    hs_error error;
    uint64_t rank_bytes; /* that the providers of its per-rank states expect */
} head;

typedef struct {
    uint32_t key_bytes; /* the key follows the record */
    uint32_t crc;
    uint64_t bytes;
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

static hs_code write_record(hs__buffer *out, hs__state_slot *slot, hs_error *err)
{
    record r = {.key_bytes = (uint32_t)strlen(slot->key)};
    hs_code code = slot->varies ? HS_OK : hs__produce_state(slot, put_crc, &r, err);
    hs__buffer_append(out, &r, sizeof r);
    hs__buffer_append(out, slot->key, r.key_bytes);
    return code;
}

static void write_states(hs__buffer *out, const hs_raw_session *session)
{
    head of_rank = {.rank_bytes = 0};
    hs_error error = {0};
    hs_code code = HS_OK;
    for (size_t i = 0; i < session->n_states; i++)
        if (session->states[i].base)
            of_rank.rank_bytes += session->states[i].bytes;
    hs__buffer_append(out, &of_rank, sizeof of_rank);
    for (size_t i = 0; !code && i < session->n_states; i++) {
        hs__state_slot slot = session->states[i]; /* a copy: the provider may add another one, which moves them */
        if (!slot.base)
            code = write_record(out, &slot, &error);
    }
    if (!code && !(code = hs__buffer_check(out, "the states of this rank", &error)))
        return;
    of_rank.error = error;
    of_rank.error.code = code;
    hs__buffer_clear(out);
    hs__buffer_append(out, &of_rank, sizeof of_rank);
}

/* Receiving, at the chief. */

/* A position in what a rank has sent. */
typedef struct {
    const unsigned char *at;
    size_t left;
} cursor;

typedef struct {
    uint64_t bytes;  /* of the per-rank states of the other ranks */
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
static bool next_record(cursor *from, record *r, const char **key)
{
    const void *start = take(from, sizeof *r);
    if (!start)
        return false;
    memcpy(r, start, sizeof *r);
    *key = take(from, r->key_bytes);
    return *key;
}

static bool find_record(cursor from, const char *key, uint32_t key_bytes, record *found)
{
    const char *name;
    while (next_record(&from, found, &name))
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

/* Hooks of rank 0 alone have states that the other ranks lack. */
static void compare_records(receiving *r, int32_t rank, cursor from)
{
    record other, own;
    const char *key;
    while (next_record(&from, &other, &key)) {
        if (!find_record(r->own, key, other.key_bytes, &own)) {
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
    const void *start = take(&from, sizeof(head));
    head sent = {.error.code = HS_INTERNAL};
    if (start)
        memcpy(&sent, start, sizeof sent);
    if (r->error.code)
        return;
    if (sent.error.code) {
        r->error = sent.error;
        hs_error_prefix(&r->error, "rank %d", (int)rank);
    } else if (rank == 0) {
        r->own = from;
    } else {
        r->bytes = sent.rank_bytes < UINT64_MAX - r->bytes ? r->bytes + sent.rank_bytes : UINT64_MAX;
        compare_records(r, rank, from);
    }
}

hs_code hs__rank_states_compare(hs_raw_session *session, uint64_t *bytes, hs_error *states, hs_error *err)
{
    hs__buffer own;
    receiving r = {.bytes = 0};
    hs__clear(states);
    *bytes = 0;
    if (session->rank_count == 1)
        return HS_OK;
    hs__buffer_init(&own, &session->env);
    write_states(&own, session);
    hs_code code = hs__ranks_gather(session->ranks, HS__TOPIC_SAVE, (hs_bytes){own.data, own.size}, receive, &r, err);
    hs__buffer_free(&own);
    *bytes = r.bytes;
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
