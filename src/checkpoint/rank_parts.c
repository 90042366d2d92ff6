/* SPDX-License-Identifier: Apache-2.0 */
/* The exchange of rank_parts.h: hs__rank_parts_send at the other ranks, hs__rank_parts_visit at the chief. */
#include "checkpoint/rank_parts.h"

#include "ranks/ranks.h"

#include <string.h>

enum { PIECE = 1 << 20, FIRST_PIECES = 1 << 24 };
enum { ALL_RANKS = -1, END = -2, SUMS = -3 }; /* orders; others are the number of a rank */

#define FAILED UINT32_MAX /* the size of a chunk */

typedef struct {
    uint32_t key_bytes, identity_bytes; /* no identity: 0 */
    int64_t version;
} record;

/* Sending. */

typedef struct {
    const hs_raw_session *session;
    hs_bytes sums;
    unsigned char *piece;    /* the next one */
    size_t used, room, most; /* of its bytes; `most`: the room of all but the first */
    size_t chunk;            /* where the size of the last chunk is, if that may grow. 0: it may not */
    bool ended;              /* the chief has ordered the end, or the group has failed */
    hs_error lost;           /* its failure */
} sending;

/* Takes part in the exchange until the piece of this rank is sent. */
static hs_code send_piece(sending *s, bool is_last, hs_error *err)
{
    const hs__ranks *ranks = s->session->ranks;
    const uint32_t last = is_last;
    bool sent = false;
    memcpy(s->piece, &last, sizeof last);
    while (!sent) {
        int32_t order;
        hs_code code = hs__ranks_more_from_chief(ranks, &order, sizeof order, &s->lost);
        s->ended = code || order == END;
        if (!s->ended) {
            sent = order == ALL_RANKS || order == s->session->rank;
            const hs_bytes mine = order == SUMS ? s->sums : (hs_bytes){s->piece, sent ? s->used : 0};
            code = hs__ranks_more_gather(ranks, mine, NULL, NULL, &s->lost);
            s->ended = code != HS_OK;
        }
        if (s->ended)
            return hs_error_set(err, HS_CANCELLED, "rank 0 has ended the save");
    }
    s->used = sizeof last;
    s->room = s->most;
    s->chunk = 0;
    return HS_OK;
}

static hs_code append(sending *s, const void *data, size_t bytes, hs_error *err)
{
    const char *from = data;
    s->chunk = 0;
    for (size_t n; bytes; from += n, bytes -= n) {
        hs_code code = s->used == s->room ? send_piece(s, false, err) : HS_OK;
        if (code)
            return code;
        n = bytes < s->room - s->used ? bytes : s->room - s->used;
        memcpy(s->piece + s->used, from, n);
        s->used += n;
    }
    return HS_OK;
}

static hs_code append_size(sending *s, uint32_t size, hs_error *err)
{
    return append(s, &size, sizeof size, err);
}

/* hs__put_fn. A chunk is in one piece, and grows until the piece is full. */
static hs_code append_data(void *user, const void *data, size_t bytes, hs_error *err)
{
    sending *s = user;
    const char *from = data;
    uint32_t size;
    hs_code code;
    for (size_t n; bytes; from += n, bytes -= n) {
        const bool begins = !s->chunk || s->used == s->room;
        if (begins && s->room - s->used <= sizeof size && (code = send_piece(s, false, err)))
            return code;
        if (begins) {
            s->chunk = s->used;
            s->used += sizeof size;
        }
        n = bytes < s->room - s->used ? bytes : s->room - s->used;
        memcpy(s->piece + s->used, from, n);
        s->used += n;
        size = (uint32_t)(s->used - s->chunk - sizeof size);
        memcpy(s->piece + s->chunk, &size, sizeof size);
    }
    return HS_OK;
}

/* Sends a state. If its provider fails, sends why, and fails. */
static hs_code send_state(sending *s, hs__state_slot *slot, hs_error *err)
{
    const char *identity = slot->identity ? slot->identity : "";
    const record r = {
        .key_bytes = (uint32_t)strlen(slot->key), .identity_bytes = (uint32_t)strlen(identity), .version = slot->version};
    hs_error failure = {0};
    hs_code code;
    if ((code = append(s, &r, sizeof r, err)) || (code = append(s, slot->key, r.key_bytes, err)) ||
        (code = append(s, identity, r.identity_bytes, err)))
        return code;
    failure.code = hs__produce_state(slot, append_data, s, &failure);
    if (!failure.code)
        return append_size(s, 0, err);
    if (!s->ended && !(code = append_size(s, FAILED, err)))
        append(s, &failure, sizeof failure, err);
    return hs__error_copy(err, &failure);
}

hs_code hs__rank_parts_send(hs_raw_session *session, hs_bytes sums, hs_error *err)
{
    unsigned char small[1 << 12]; /* out of memory: the pieces are small */
    const size_t first = (size_t)(FIRST_PIECES / session->rank_count);
    unsigned char *large = hs__realloc(&session->env, NULL, first < PIECE ? PIECE : first, 1);
    sending s = {.session = session,
                 .sums = sums,
                 .piece = large ? large : small,
                 .used = sizeof(uint32_t),
                 .room = large || first < sizeof small ? first : sizeof small,
                 .most = large ? PIECE : sizeof small};
    hs_error unused = {0};
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < session->n_states; i++) {
        hs__state_slot slot = session->states[i]; /* a copy: the provider may add another one, which moves them */
        if (slot.base)
            code = send_state(&s, &slot, &unused);
    }
    while (!s.ended) /* after the last piece, the other ranks send theirs */
        send_piece(&s, true, &unused);
    hs__free(&session->env, large);
    return hs__error_copy(err, &s.lost);
}

/* Receiving, at the chief. */

/* A hs_gather_fn. */
static void receive(void *user, int32_t rank, hs_bytes bytes)
{
    hs__rank_parts *parts = user;
    if (!bytes.size)
        return;
    hs__buffer_clear(&parts->pieces[rank]);
    hs__buffer_append(&parts->pieces[rank], bytes.data, bytes.size);
}

static hs_code give_order(hs__rank_parts *parts, int32_t order, hs_bytes mine, hs_gather_fn receives, void *user,
                          hs_error *err)
{
    const hs__ranks *ranks = parts->session->ranks;
    hs_code code = hs__ranks_more_from_chief(ranks, &order, sizeof order, err);
    if (!code && order != END)
        code = hs__ranks_more_gather(ranks, mine, receives, user, err);
    if (code)
        hs__error_copy(&parts->lost, err);
    return code;
}

static hs_code order_pieces(hs__rank_parts *parts, int32_t order, hs_error *err)
{
    return give_order(parts, order, (hs_bytes){NULL, 0}, receive, parts, err);
}

hs_code hs__rank_parts_gather_sums(hs__rank_parts *parts, hs_bytes mine, hs_gather_fn receives, void *user, hs_error *err)
{
    return give_order(parts, SUMS, mine, receives, user, err);
}

static hs_code order_first_pieces(hs__rank_parts *parts, hs_error *err)
{
    const hs_raw_session *session = parts->session;
    const size_t n = (size_t)session->rank_count;
    if (parts->pieces || n == 1)
        return HS_OK;
    if (!(parts->pieces = hs__alloc(&session->env, n, sizeof *parts->pieces)))
        return hs__no_memory(err, n * sizeof *parts->pieces, "the states of other ranks");
    for (size_t i = 0; i < n; i++)
        hs__buffer_init(&parts->pieces[i], &session->env);
    return order_pieces(parts, ALL_RANKS, err);
}

static bool is_last(const hs__buffer *piece)
{
    uint32_t last = 0;
    if (piece->size >= sizeof last)
        memcpy(&last, piece->data, sizeof last);
    return last;
}

/* A position in the stream of a rank. */
typedef struct {
    hs__rank_parts *parts;
    int32_t rank;
    size_t at; /* in its piece */
} cursor;

/* Orders the next piece if this one was read. *left: the bytes to read; 0: the stream has ended. */
static hs_code find_bytes(cursor *from, size_t *left, hs_error *err)
{
    hs__buffer *piece = &from->parts->pieces[from->rank];
    for (;;) {
        hs_code code = hs__buffer_check(piece, "the states of other ranks", err);
        if (code)
            return code;
        if (piece->size < from->at)
            return hs_error_set(err, HS_INTERNAL, "rank %d has sent no states", (int)from->rank);
        *left = piece->size - from->at;
        if (*left || is_last(piece))
            return HS_OK;
        hs__buffer_clear(piece);
        from->at = sizeof(uint32_t);
        if ((code = order_pieces(from->parts, from->rank, err)))
            return code;
    }
}

static hs_code read_bytes(cursor *from, void *to, size_t bytes, hs_error *err)
{
    char *at = to;
    for (size_t left, n; bytes; at += n, bytes -= n) {
        hs_code code = find_bytes(from, &left, err);
        if (code)
            return code;
        if (!left)
            return hs_error_set(err, HS_INTERNAL, "the states of rank %d are cut off", (int)from->rank);
        n = bytes < left ? bytes : left;
        memcpy(at, from->parts->pieces[from->rank].data + from->at, n);
        from->at += n;
    }
    return HS_OK;
}

/* hs__save_item.produce */
static hs_code produce_data(void *source, hs__put_fn put, void *user, hs_error *err)
{
    cursor *from = source;
    hs_error failure;
    hs_code code;
    uint32_t size;
    while (!(code = read_bytes(from, &size, sizeof size, err)) && size) {
        size_t left;
        if (size == FAILED) {
            if ((code = read_bytes(from, &failure, sizeof failure, err)))
                return code;
            hs_error_prefix(&failure, "rank %d", (int)from->rank);
            return hs__error_copy(err, &failure);
        }
        if ((code = find_bytes(from, &left, err)))
            return code;
        if (left < size)
            return hs_error_set(err, HS_INTERNAL, "the states of rank %d are cut off", (int)from->rank);
        if ((code = put(user, from->parts->pieces[from->rank].data + from->at, size, err)))
            return code;
        from->at += size;
    }
    return code;
}

static hs_code read_text(cursor *from, uint32_t bytes, char **text, hs_error *err)
{
    if (!(*text = hs__alloc(&from->parts->session->env, (size_t)bytes + 1, 1)))
        return hs__no_memory(err, bytes, "the states of other ranks");
    (*text)[bytes] = '\0';
    return read_bytes(from, *text, bytes, err);
}

static hs_code visit_state(cursor *from, hs__visit_item_fn visit, void *user, hs_error *err)
{
    const hs_env *env = &from->parts->session->env;
    hs__stored_state state = {.key = NULL};
    record r;
    hs_code code = read_bytes(from, &r, sizeof r, err);
    if (!code)
        code = read_text(from, r.key_bytes, &state.key, err);
    if (!code && r.identity_bytes)
        code = read_text(from, r.identity_bytes, &state.identity, err);
    if (!code) {
        const hs__save_item bytes = {
            .name = state.key, .value = {.dtype = HS_UINT8, .rank = 1}, .produce = produce_data, .source = from};
        state.version = r.version;
        code = hs__visit_state(env, &state, &bytes, visit, user, err);
    }
    hs__free(env, state.key);
    hs__free(env, state.identity);
    return code;
}

hs_code hs__rank_parts_fit(hs__rank_parts *parts, bool *fit, hs_error *err)
{
    *fit = true;
    hs_code code = parts ? order_first_pieces(parts, err) : HS_OK;
    for (int32_t rank = 1; parts && !code && rank < parts->session->rank_count; rank++)
        *fit &= is_last(&parts->pieces[rank]);
    return code;
}

hs_code hs__rank_parts_visit(hs__rank_parts *parts, hs__visit_item_fn visit, void *user, hs_error *err)
{
    hs_code code = parts ? order_first_pieces(parts, err) : HS_OK;
    for (int32_t rank = 1; parts && !code && rank < parts->session->rank_count; rank++) {
        cursor from = {.parts = parts, .rank = rank, .at = sizeof(uint32_t)};
        size_t left;
        do {
            code = find_bytes(&from, &left, err);
            if (!code && left)
                code = visit_state(&from, visit, user, err);
        } while (!code && left);
        hs__buffer_free(&parts->pieces[rank]);
    }
    return code;
}

hs_code hs__rank_parts_end(hs__rank_parts *parts, hs_error *err)
{
    const hs_raw_session *session = parts->session;
    const hs_code code = hs__error_copy(err, parts->lost.code ? &parts->lost : NULL);
    hs_error unused; /* the next message fails, too */
    if (!code && session->rank_count > 1)
        order_pieces(parts, END, &unused);
    for (int32_t rank = 0; parts->pieces && rank < session->rank_count; rank++)
        hs__buffer_free(&parts->pieces[rank]);
    hs__free(&session->env, parts->pieces);
    return code;
}
