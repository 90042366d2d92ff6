/* SPDX-License-Identifier: Apache-2.0 */
/* Collective calls over the data connections. Each call begins, sends and receives along the tree with send_to and
 * receive_some, which wait in wait_for, and ends. */
#include "ranks/group_tcp_collectives.h"

#include "base/c_locale.h"
#include "base/text.h"
#include "ranks/group_tcp_socket.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

typedef enum { ALLREDUCE_OR = 1, BROADCAST = 2, GATHER = 3 } function;

static const char *const names[] = {"?", "allreduce_or", "broadcast", "gather"};

enum { HEADER = 16, WORDS_MAX = 8, PIECE = 1 << 18 };

/* A call in progress. */
typedef struct call {
    hs__tcp_detector *d;
    function function;
    int32_t root;
    uint64_t number;
    int64_t begin_ns, warn_ns, deadline; /* 0: the call has not waited yet */
    hs_error *err;
} call;

static int32_t own_rank(const call *c)
{
    return c->d->options->rank;
}

/* Returns the neighbor on the way to a rank. NULL: it is this rank. */
static hs__tcp_link *link_to(const call *c, int32_t rank)
{
    int32_t own = own_rank(c), below = -1;
    while (rank > own) { /* a parent has a smaller number */
        below = rank;
        rank = hs__tcp_parent(rank);
    }
    if (rank == own && below < 0)
        return NULL;
    if (rank != own)
        return &c->d->links[0];
    return &c->d->links[(size_t)(below - c->d->links[own > 0].edge->rank) + (own > 0)];
}

/* Begins a call. */
static hs_code begin(call *c, hs__tcp_detector *d, function which, int32_t root, hs_error *err)
{
    *c = (call){.d = d, .function = which, .root = root, .err = err};
    return hs__detector_begin_call(d, names[which], &c->number, err);
}

/* The call failed on this rank, so that the others cannot continue either. Keeps the code. */
static hs_code break_group(call *c, hs_code code)
{
    char why[HS_MESSAGE_SIZE];
    hs_error unused;
    snprintf(why, sizeof why, "rank %d (%s) has failed: %.800s", (int)own_rank(c), c->d->host, c->err->message);
    hs__detector_fail_rank(c->d, own_rank(c), c->number, why, &unused);
    return code;
}

/* Waiting. */

/* True if this rank waits because of the neighbor: its data for this call is missing. */
static bool is_missing(const call *c, const hs__tcp_link *link)
{
    const hs__tcp_link *to_root = link_to(c, c->root);
    char byte;
    if ((c->function == BROADCAST && link != to_root) || (c->function == GATHER && link == to_root))
        return false; /* sends nothing to this rank */
    if (link->done_calls > c->number)
        return false;
    if (link->edge->rank < own_rank(c)) /* the parent, which may wait for others */
        return !hs__detector_has_begun(c->d, link, c->number);
    return recv(link->edge->data, &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0;
}

/* Writes the ranks for which this rank waits, and returns the first. -1: not known, another rank knows. */
static int32_t list_missing(const call *c, char *list, size_t size)
{
    int32_t first = -1;
    *list = '\0';
    for (size_t i = 0; i < c->d->n_links; i++)
        if (is_missing(c, &c->d->links[i])) {
            int32_t rank = c->d->links[i].edge->rank;
            hs__append_item(list, size, "%d", (int)rank);
            first = first < 0 ? rank : first;
        }
    return first;
}

/* Waits until the connection to the neighbor is ready, or the call fails. */
static hs_code wait_for(call *c, hs__tcp_link *link, short events)
{
    char list[256];
    if (!c->begin_ns) {
        const hs_group_tcp_options *options = c->d->options;
        double secs = options->collective_secs > 0 ? options->collective_secs : 600;
        c->begin_ns = hs__tcp_now();
        c->warn_ns = c->begin_ns + (int64_t)5000000000;
        c->deadline = options->collective_secs < 0 ? INT64_MAX : c->begin_ns + (int64_t)(secs * 1e9);
        if (c->deadline < INT64_MAX && own_rank(c) > 0)
            c->deadline += c->d->detector_ns; /* rank 0 knows best which ranks are missing */
    }
    for (;;) {
        struct pollfd fds[2] = {{.fd = link->edge->data, .events = events}, {.fd = c->d->wake_session, .events = POLLIN}};
        int64_t give_up;
        hs_code code = hs__detector_check_call(c->d, c->number, names[c->function], &give_up, c->err);
        if (code)
            return code;
        int64_t until = c->warn_ns < c->deadline ? c->warn_ns : c->deadline;
        int n = poll(fds, 2, hs__tcp_poll_ms(give_up < until ? give_up : until));
        if (n < 0 && errno != EINTR)
            return break_group(c, hs_error_set_errno(c->err, errno, "poll"));
        if (n > 0 && fds[0].revents)
            return HS_OK;
        if (n > 0)
            hs__detector_woken(c->d);

        int64_t now = hs__tcp_now();
        if (now >= c->deadline) {
            char why[HS_MESSAGE_SIZE];
            int32_t missing = list_missing(c, list, sizeof list);
            if (missing < 0) {
                missing = link->edge->rank;
                snprintf(list, sizeof list, "%d", (int)missing);
            }
            hs__snprintf(why, sizeof why, "rank %d has failed: it has not called %s within %g s; missing ranks: %s",
                         (int)missing, names[c->function], (double)(c->deadline - c->begin_ns) / 1e9, list);
            return hs__detector_fail_rank(c->d, missing, c->number, why, c->err);
        }
        if (now >= c->warn_ns) { /* after 5 s, and each time the wait has doubled */
            c->warn_ns = now + (now - c->begin_ns);
            if (list_missing(c, list, sizeof list) >= 0)
                hs_log(c->d->env, HS_LOG_WARNING, "rank %d waits in %s since %.0f s for these ranks: %s", (int)own_rank(c),
                       names[c->function], (double)(now - c->begin_ns) / 1e9, list);
        }
    }
}

/* Sends a header and data, or only data if the header is NULL. */
static hs_code send_to(call *c, hs__tcp_link *link, const void *header, const void *data, size_t bytes)
{
    const char *parts[2] = {header, data};
    size_t unsent[2] = {header ? HEADER : 0, bytes};
    while (unsent[0] || unsent[1]) {
        struct iovec vector[2] = {{(void *)(uintptr_t)parts[0], unsent[0]}, {(void *)(uintptr_t)parts[1], unsent[1]}};
        struct msghdr message = {.msg_iov = vector + !unsent[0], .msg_iovlen = unsent[0] && unsent[1] ? 2 : 1};
        ssize_t n = sendmsg(link->edge->data, &message, MSG_NOSIGNAL);
        hs_code code = HS_OK;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            code = wait_for(c, link, POLLOUT);
        else if (n < 0 && errno != EINTR)
            code = hs__detector_data_ended(c->d, link, c->number, names[c->function], c->err);
        if (code)
            return code;
        for (int i = 0; i < 2 && n > 0; i++) {
            size_t sent = (size_t)n < unsent[i] ? (size_t)n : unsent[i];
            parts[i] += sent;
            unsent[i] -= sent;
            n -= (ssize_t)sent;
        }
    }
    return HS_OK;
}

/* Receives up to `most` bytes, at least `least`. */
static hs_code receive_some(call *c, hs__tcp_link *link, void *data, size_t least, size_t most, size_t *got)
{
    for (*got = 0; *got < least;) {
        ssize_t n = recv(link->edge->data, (char *)data + *got, most - *got, 0);
        hs_code code = HS_OK;
        if (n > 0)
            *got += (size_t)n;
        else if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            code = wait_for(c, link, POLLIN);
        else if (n == 0 || errno != EINTR)
            code = hs__detector_data_ended(c->d, link, c->number, names[c->function], c->err);
        if (code)
            return code;
    }
    return HS_OK;
}

static hs_code receive_all(call *c, hs__tcp_link *link, void *data, size_t bytes)
{
    size_t got;
    return receive_some(c, link, data, bytes, bytes, &got);
}

static void write_header(const call *c, unsigned char header[HEADER], size_t bytes)
{
    hs__write_u32(header, c->function);
    hs__write_u32(header + 4, (uint32_t)c->root);
    hs__write_u64(header + 8, bytes);
}

/* Checks that the neighbor makes the same call. */
static hs_code check_header(call *c, const hs__tcp_link *link, const unsigned char header[HEADER])
{
    uint32_t which = hs__read_u32(header), root = hs__read_u32(header + 4);
    if (which == c->function && root == (uint32_t)c->root)
        return HS_OK;
    const char *name = which <= GATHER ? names[which] : names[0];
    return break_group(
        c, hs_error_set(c->err, HS_INTERNAL, "rank %d calls %s with root %d, but rank %d calls %s with root %d",
                        (int)link->edge->rank, name, (int)root, (int)own_rank(c), names[c->function], (int)c->root));
}

static hs_code check_bytes(call *c, const hs__tcp_link *link, uint64_t bytes, size_t expected)
{
    if (bytes == expected)
        return HS_OK;
    return break_group(c, hs_error_set(c->err, HS_INTERNAL, "rank %d calls %s with %llu bytes, but rank %d with %zu",
                                       (int)link->edge->rank, names[c->function], (unsigned long long)bytes,
                                       (int)own_rank(c), expected));
}

/* Receives header and data of a fixed size. */
static hs_code receive_fixed(call *c, hs__tcp_link *link, void *data, size_t bytes)
{
    unsigned char in[HEADER + 8 * WORDS_MAX];
    size_t got;
    hs_code code = receive_some(c, link, in, HEADER, HEADER + bytes, &got);
    if (code || (code = check_header(c, link, in)) || (code = check_bytes(c, link, hs__read_u64(in + 8), bytes)) ||
        (code = receive_all(c, link, in + got, HEADER + bytes - got)))
        return code;
    memcpy(data, in + HEADER, bytes);
    link->done_calls = c->number + 1;
    return HS_OK;
}

hs_code hs__tcp_allreduce_or(hs__tcp_detector *d, uint64_t *words, size_t n, hs_error *err)
{
    unsigned char message[HEADER + 8 * WORDS_MAX], *mine = message + HEADER, other[8 * WORDS_MAX];
    const size_t bytes = 8 * n, n_parents = d->options->rank > 0;
    hs__tcp_link *links = d->links;
    hs_error unused;
    call c;
    hs_code code = begin(&c, d, ALLREDUCE_OR, 0, err);
    if (code)
        return code;
    for (size_t i = 0; i < n; i++)
        hs__write_u64(mine + 8 * i, words[i]);
    for (size_t i = n_parents; !code && i < d->n_links; i++)
        if (!(code = receive_fixed(&c, &links[i], other, bytes)))
            for (size_t j = 0; j < bytes; j++)
                mine[j] |= other[j];
    write_header(&c, message, bytes);
    if (!code && n_parents && !(code = send_to(&c, &links[0], NULL, message, HEADER + bytes)))
        code = receive_fixed(&c, &links[0], mine, bytes);
    /* Here the call is complete. If a child has failed, the other children still get the result. */
    for (size_t i = n_parents; !code && i < d->n_links; i++)
        hs__tcp_send(links[i].edge->data, message, HEADER + bytes, hs__tcp_now() + d->detector_ns, &unused);
    for (size_t i = 0; !code && i < n; i++)
        words[i] = hs__read_u64(mine + 8 * i);
    hs__detector_end_call(d);
    return code;
}

hs_code hs__tcp_broadcast(hs__tcp_detector *d, void *data, size_t bytes, int32_t root, hs_error *err)
{
    unsigned char header[HEADER];
    call c;
    hs_code code = begin(&c, d, BROADCAST, root, err);
    if (code)
        return code;
    hs__tcp_link *from = link_to(&c, root);
    if (from && !(code = receive_all(&c, from, header, HEADER)) && !(code = check_header(&c, from, header)))
        code = check_bytes(&c, from, hs__read_u64(header + 8), bytes);
    write_header(&c, header, bytes);
    bool is_first = true; /* with no bytes, one empty piece carries the header */
    for (size_t done = 0; !code && (is_first || done < bytes); is_first = false) {
        char *piece = (char *)data + done;
        const size_t n = bytes - done < PIECE ? bytes - done : PIECE;
        if (from)
            code = receive_all(&c, from, piece, n);
        done += n;
        if (from && !code && done == bytes)
            from->done_calls = c.number + 1;
        for (size_t i = 0; !code && i < d->n_links; i++) {
            hs__tcp_link *to = &d->links[i];
            if (to == from)
                continue;
            code = send_to(&c, to, is_first ? header : NULL, piece, n);
            if (!code && done == bytes)
                to->done_calls = c.number + 1;
        }
    }
    hs__detector_end_call(d);
    return code;
}

/* gather */

/* Passes the data of one rank from a neighbor to another one. */
static hs_code relay(call *c, hs__tcp_link *from, hs__tcp_link *to)
{
    unsigned char header[HEADER];
    hs_code code = receive_all(c, from, header, HEADER);
    if (code || (code = check_header(c, from, header)))
        return code;
    uint64_t remaining = hs__read_u64(header + 8);
    char *piece = hs__alloc(c->d->env, remaining < PIECE ? (size_t)remaining : PIECE, 1);
    if (!piece)
        return break_group(c, hs__no_memory(c->err, PIECE, "gather"));
    code = send_to(c, to, header, NULL, 0);
    while (!code && remaining) {
        size_t n = remaining < PIECE ? (size_t)remaining : PIECE;
        if (!(code = receive_all(c, from, piece, n)))
            code = send_to(c, to, NULL, piece, n);
        remaining -= n;
    }
    hs__free(c->d->env, piece);
    return code;
}

/* Receives the data of one rank, and passes it to the caller's function. */
static hs_code deliver(call *c, hs__tcp_link *from, int32_t rank, hs_gather_fn receive, void *user)
{
    unsigned char header[HEADER];
    hs_code code = receive_all(c, from, header, HEADER);
    if (code || (code = check_header(c, from, header)))
        return code;
    uint64_t bytes = hs__read_u64(header + 8);
    void *data = bytes <= SIZE_MAX ? hs__realloc(c->d->env, NULL, (size_t)bytes, 1) : NULL;
    if (!data)
        return break_group(c, hs__no_memory(c->err, (size_t)bytes, "gather"));
    if (!(code = receive_all(c, from, data, (size_t)bytes)))
        receive(user, rank, (hs_bytes){data, (size_t)bytes});
    hs__free(c->d->env, data);
    return code;
}

/* True if the data of a rank after `rank` also comes from this neighbor. */
static bool has_more(const call *c, const hs__tcp_link *from, int32_t rank)
{
    while (++rank < c->d->options->rank_count)
        if (link_to(c, rank) == from)
            return true;
    return false;
}

hs_code hs__tcp_gather(hs__tcp_detector *d, hs_bytes mine, int32_t root, hs_gather_fn receive, void *user, hs_error *err)
{
    unsigned char header[HEADER];
    call c;
    hs_code code = begin(&c, d, GATHER, root, err);
    if (code)
        return code;
    hs__tcp_link *to = link_to(&c, root);
    write_header(&c, header, mine.size);
    for (int32_t rank = 0; !code && rank < d->options->rank_count; rank++) {
        hs__tcp_link *from = link_to(&c, rank);
        if (from && from == to)
            continue; /* does not pass through this rank */
        if (!from && !to)
            receive(user, rank, mine);
        else if (!from)
            code = send_to(&c, to, header, mine.data, mine.size);
        else
            code = to ? relay(&c, from, to) : deliver(&c, from, rank, receive, user);
        if (!code && from && !has_more(&c, from, rank))
            from->done_calls = c.number + 1;
    }
    if (!code && to)
        to->done_calls = c.number + 1;
    hs__detector_end_call(d);
    return code;
}
