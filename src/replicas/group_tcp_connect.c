/* SPDX-License-Identifier: Apache-2.0 */
/* Connects the ranks: the side that listens, then the side that connects. */
#include "replicas/group_tcp_connect.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum {
    PENDING_MAX = 128,
    RETRY_FIRST_MS = 5,
    RETRY_MOST_MS = 500,
    RANKS_MAX = 256,
    LIST_MAX = RANKS_MAX + HS__HELLO_TEXT + 16
};

#define WARN_NS ((int64_t)5 * 1000000000)

/* A connection whose first message is not complete. */
typedef struct pending {
    int fd;
    size_t got;
    int64_t deadline;
    unsigned char bytes[HS__HELLO_BYTES];
} pending;

/* On rank 0: a rank that is registered. */
typedef struct registered {
    int fd; /* -1: not registered, or answered */
    char address[HS__HELLO_TEXT];
} registered;

typedef struct connector {
    const hs__tcp_rendezvous *rendezvous;
    const hs_env *env;
    int32_t rank, rank_count;
    char host[HS__HELLO_HOST];
    char address[HS__ADDRESS_MAX]; /* on which this rank listens for its children. "": none */
    char parent_address[HS__ADDRESS_MAX];
    hs__tcp_edges *edges;
    int listener;
    pending *pending;
    size_t n_pending;
    int64_t begin_ns, warn_ns; /* of the wait for connections; of the next warning about it */
    registered *registered;    /* by rank; NULL: not rank 0 */
    int32_t n_registered;
    bool answered;                /* all ranks were registered, and have got their answers */
    char refused[HS__HELLO_TEXT]; /* why a connection was refused last */
} connector;

static int32_t first_child(const connector *c)
{
    return c->rank > (c->rank_count - 2) / HS__TCP_FAN_OUT ? c->rank_count : c->rank * HS__TCP_FAN_OUT + 1;
}

static bool has_children(const connector *c)
{
    return first_child(c) < c->rank_count;
}

/* Returns the edge to a child. NULL: this rank is not a child. */
static hs__tcp_edge *find_child(connector *c, int32_t rank)
{
    for (size_t i = 0; i < c->edges->n; i++)
        if (c->edges->items[i].rank == rank && rank > c->rank)
            return &c->edges->items[i];
    return NULL;
}

static hs__hello make_hello(const connector *c, hs__hello_kind kind, int32_t rank, const char *text)
{
    hs__hello hello = {.kind = kind, .rank = rank, .rank_count = c->rank_count};
    snprintf(hello.token, sizeof hello.token, "%s", c->rendezvous->token);
    snprintf(hello.host, sizeof hello.host, "%s", c->host);
    snprintf(hello.text, sizeof hello.text, "%s", text);
    return hello;
}

/* The side that listens. */

/* Sends an answer. It fits in the empty buffer of a new connection, so that this does not wait. A failure means that the
 * other side has left: it retries. */
static void answer(const connector *c, int fd, hs__hello_kind kind, int32_t rank, const char *text)
{
    unsigned char bytes[HS__HELLO_BYTES];
    hs_error unused;
    hs__hello hello = make_hello(c, kind, rank, text);
    if (kind == HS__HELLO_REFUSED)
        memset(hello.token, 0, sizeof hello.token);
    hs__hello_write(&hello, bytes);
    hs__tcp_send(fd, bytes, sizeof bytes, hs__tcp_now(), &unused);
}

static void refuse(connector *c, int fd, const hs__hello *hello, const char *why)
{
    snprintf(c->refused, sizeof c->refused, "rank %d of %.71s: %.120s", (int)hello->rank, hello->host, why);
    answer(c, fd, HS__HELLO_REFUSED, hello->rank, why);
    hs__tcp_close(&fd);
}

/* Stores a connection in *slot. One that is there already stays, unless it has ended: then its rank has retried. */
static bool store(connector *c, int *slot, int fd, const hs__hello *hello)
{
    if (*slot >= 0 && !hs__tcp_ended(*slot)) {
        refuse(c, fd, hello, "a process with this rank is already connected");
        return false;
    }
    hs__tcp_close(slot);
    *slot = fd;
    return true;
}

/* Answers a registered rank with the address of its parent. */
static void answer_registered(connector *c, int32_t rank)
{
    int32_t parent = hs__tcp_parent(rank);
    answer(c, c->registered[rank].fd, HS__HELLO_WELCOME, rank, parent ? c->registered[parent].address : "");
    hs__tcp_close(&c->registered[rank].fd);
}

/* If all ranks are registered, answers them. A rank that has left since may register again. */
static void answer_all(connector *c)
{
    if (!c->registered || c->answered || c->n_registered < c->rank_count - 1)
        return;
    for (int32_t i = 1; i < c->rank_count; i++)
        if (hs__tcp_ended(c->registered[i].fd)) {
            hs__tcp_close(&c->registered[i].fd);
            c->n_registered--;
        }
    if (c->n_registered < c->rank_count - 1)
        return;
    c->answered = true;
    for (int32_t i = 1; i < c->rank_count; i++)
        answer_registered(c, i);
}

static void register_rank(connector *c, int fd, const hs__hello *hello)
{
    registered *r = &c->registered[hello->rank];
    bool is_new = r->fd < 0;
    if (!store(c, &r->fd, fd, hello))
        return;
    memcpy(r->address, hello->text, sizeof r->address);
    answer(c, fd, HS__HELLO_WAIT, hello->rank, "");
    if (c->answered)
        answer_registered(c, hello->rank);
    else
        c->n_registered += is_new;
}

static void connect_child(connector *c, int fd, const hs__hello *hello)
{
    hs__tcp_edge *child = find_child(c, hello->rank);
    if (!child) {
        refuse(c, fd, hello, "not a child of this rank");
        return;
    }
    if (!store(c, hello->kind == HS__HELLO_DATA ? &child->data : &child->control, fd, hello))
        return;
    memcpy(child->host, hello->host, sizeof child->host);
    answer(c, fd, HS__HELLO_WELCOME, hello->rank, "");
}

/* Handles the first message of a connection, and takes the connection over. */
static void handle_hello(connector *c, int fd, const unsigned char bytes[HS__HELLO_BYTES])
{
    hs__hello hello;
    char text[128];
    if (hs__hello_parse(bytes, &hello)) {
        hs__tcp_close(&fd);
    } else if (strcmp(hello.token, c->rendezvous->token) != 0) {
        refuse(c, fd, &hello, "it belongs to another job");
    } else if (hello.rank_count != c->rank_count) {
        snprintf(text, sizeof text, "its rank_count is %d, but that of rank %d is %d", (int)hello.rank_count, (int)c->rank,
                 (int)c->rank_count);
        refuse(c, fd, &hello, text);
    } else if (hello.kind == HS__HELLO_REGISTER && c->registered && hello.rank > 0) {
        register_rank(c, fd, &hello);
    } else if (hello.kind == HS__HELLO_CONTROL || hello.kind == HS__HELLO_DATA) {
        connect_child(c, fd, &hello);
    } else {
        refuse(c, fd, &hello, "an unexpected message");
    }
}

/* Reads more of a first message. Returns false if the connection is no longer pending. */
static bool read_pending(connector *c, pending *p, bool readable)
{
    ssize_t n = readable ? recv(p->fd, p->bytes + p->got, sizeof p->bytes - p->got, 0) : -1;
    if (readable && (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))) {
        hs__tcp_close(&p->fd);
        return false;
    }
    p->got += n > 0 ? (size_t)n : 0;
    if (p->got == sizeof p->bytes) {
        handle_hello(c, p->fd, p->bytes);
        return false;
    }
    if (hs__tcp_now() >= p->deadline)
        hs__tcp_close(&p->fd);
    return p->fd >= 0;
}

static hs_code accept_connections(connector *c, hs_error *err)
{
    while (c->n_pending < PENDING_MAX) {
        pending *p = &c->pending[c->n_pending];
        hs_code code = hs__tcp_accept(c->listener, &p->fd, err);
        if (code || p->fd < 0)
            return code;
        p->got = 0;
        p->deadline = hs__tcp_now() + c->rendezvous->attempt_ns;
        c->n_pending++;
    }
    return HS_OK;
}

/* Waits until a connection is readable or a deadline passes, and handles what has arrived. */
static hs_code serve_once(connector *c, hs_error *err)
{
    struct pollfd fds[PENDING_MAX + 1];
    int64_t until = c->warn_ns < c->rendezvous->deadline ? c->warn_ns : c->rendezvous->deadline;
    size_t n = c->n_pending;
    for (size_t i = 0; i < n; i++) {
        fds[i] = (struct pollfd){.fd = c->pending[i].fd, .events = POLLIN};
        until = c->pending[i].deadline < until ? c->pending[i].deadline : until;
    }
    fds[n] = (struct pollfd){.fd = n < PENDING_MAX ? c->listener : -1, .events = POLLIN};
    int ready = poll(fds, (nfds_t)n + 1, hs__tcp_poll_ms(until));
    if (ready < 0 && errno != EINTR)
        return hs_error_set_errno(err, errno, "poll");
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (read_pending(c, &c->pending[i], ready > 0 && fds[i].revents))
            c->pending[kept++] = c->pending[i];
    c->n_pending = kept;
    return ready > 0 && fds[n].revents ? accept_connections(c, err) : HS_OK;
}

static bool all_connected(const connector *c)
{
    if (c->registered && !c->answered)
        return false;
    for (size_t i = 0; i < c->edges->n; i++)
        if (c->edges->items[i].control < 0 || c->edges->items[i].data < 0)
            return false;
    return true;
}

static bool is_missing(connector *c, int32_t rank)
{
    if (c->registered && !c->answered)
        return c->registered[rank].fd < 0;
    const hs__tcp_edge *child = find_child(c, rank);
    return child && (child->control < 0 || child->data < 0);
}

static void list_missing(connector *c, char list[LIST_MAX])
{
    size_t used = 0;
    *list = '\0';
    for (int32_t i = 1; i < c->rank_count && used < RANKS_MAX - 32; i++)
        if (is_missing(c, i))
            used += (size_t)snprintf(list + used, LIST_MAX - used, "%s%d", used ? ", " : "", (int)i);
    if (used >= RANKS_MAX - 32)
        used += (size_t)snprintf(list + used, LIST_MAX - used, ", ...");
    if (*c->refused)
        snprintf(list + used, LIST_MAX - used, " (refused: %s)", c->refused);
}

/* Warns after 5 s, and each time the wait has doubled. */
static void warn(connector *c, int64_t now)
{
    char list[LIST_MAX];
    list_missing(c, list);
    c->warn_ns = now + (now - c->begin_ns);
    hs_log(c->env, HS_LOG_WARNING, "rank %d waits since %.0f s until these ranks are connected: %s", (int)c->rank,
           (double)(now - c->begin_ns) / 1e9, list);
}

static hs_code report_missing(connector *c, hs_error *err)
{
    char list[LIST_MAX];
    list_missing(c, list);
    return hs_error_set(err, HS_UNAVAILABLE, "ranks that have not connected within connect_secs: %s", list);
}

static hs_code serve(connector *c, hs_error *err)
{
    hs_code code = HS_OK;
    c->begin_ns = hs__tcp_now();
    c->warn_ns = c->begin_ns + WARN_NS;
    while (!code && !all_connected(c)) {
        const int64_t now = hs__tcp_now();
        if (now >= c->warn_ns)
            warn(c, now);
        if (now >= c->rendezvous->deadline)
            return report_missing(c, err);
        code = serve_once(c, err);
        answer_all(c);
    }
    return code;
}

/* The side that connects. */

/* Receives an answer of the expected kind. */
static hs_code receive_answer(const connector *c, int fd, hs__hello_kind kind, int64_t deadline, hs__hello *hello,
                              hs_error *err)
{
    unsigned char bytes[HS__HELLO_BYTES];
    hs_code code = hs__tcp_receive(fd, bytes, sizeof bytes, deadline, err);
    if (code)
        return code;
    const char *wrong = hs__hello_parse(bytes, hello);
    if (!wrong && hello->kind == HS__HELLO_REFUSED)
        return hs_error_set(err, HS_UNAVAILABLE, "refused by %s: %s", hello->host, hello->text);
    if (!wrong && (hello->kind != kind || hello->rank != c->rank || hello->rank_count != c->rank_count ||
                   strcmp(hello->token, c->rendezvous->token) != 0))
        wrong = "the other side sent an unexpected message";
    return wrong ? hs_error_set(err, HS_UNAVAILABLE, "%s", wrong) : HS_OK;
}

/* If this rank has children: listens on the interface that leads to rank 0, and writes the address. If rank 0 is on the
 * same machine, the children may be on others: listens on all interfaces. Only once. */
static hs_code begin_to_listen(connector *c, int fd, char address[HS__ADDRESS_MAX], hs_error *err)
{
    char host[HS__ADDRESS_MAX];
    int port;
    if (!has_children(c) || c->listener >= 0)
        return HS_OK;
    hs_code code = hs__tcp_own_host(fd, host, err);
    if (code || (code = hs__tcp_listen(hs__tcp_is_loopback(host) ? NULL : host, "0", &c->listener, &port, err)))
        return code;
    if (hs__tcp_is_loopback(host))
        hs__tcp_host_name(host, sizeof host);
    hs__tcp_join(address, host, port);
    return HS_OK;
}

/* Connects, and sends the first message. */
static hs_code send_hello(connector *c, hs__hello_kind kind, const char *to, int64_t deadline, int *fd, hs_error *err)
{
    unsigned char bytes[HS__HELLO_BYTES];
    hs_code code = hs__tcp_connect(to, deadline, fd, err);
    if (!code && kind == HS__HELLO_REGISTER)
        code = begin_to_listen(c, *fd, c->address, err);
    if (code)
        return code;
    hs__hello hello = make_hello(c, kind, c->rank, c->address);
    hs__hello_write(&hello, bytes);
    return hs__tcp_send(*fd, bytes, sizeof bytes, deadline, err);
}

/* Registers with rank 0. Sets the address of the parent. */
static hs_code try_to_register(connector *c, hs__tcp_rendezvous *rendezvous, hs_error *err)
{
    const int64_t deadline = rendezvous->deadline, limit = hs__tcp_now() + rendezvous->attempt_ns;
    const int64_t first = limit < deadline ? limit : deadline;
    hs__hello hello;
    int fd = -1;
    hs_code code = hs__rendezvous_find(rendezvous, err);
    if (!code && !(code = send_hello(c, HS__HELLO_REGISTER, rendezvous->address, first, &fd, err)) &&
        !(code = receive_answer(c, fd, HS__HELLO_WAIT, first, &hello, err)))
        code = receive_answer(c, fd, HS__HELLO_WELCOME, deadline, &hello, err);
    hs__tcp_close(&fd);
    if (!code)
        snprintf(c->parent_address, sizeof c->parent_address, "%s", *hello.text ? hello.text : rendezvous->address);
    return code;
}

/* Opens both connections to the parent. */
static hs_code try_to_connect(connector *c, hs__tcp_rendezvous *rendezvous, hs_error *err)
{
    hs__tcp_edge *parent = &c->edges->items[0];
    hs__hello hello;
    hs_code code = HS_OK;
    for (int i = 0; !code && i < 2; i++) {
        int *fd = i ? &parent->data : &parent->control;
        if (*fd < 0 && ((code = send_hello(c, i ? HS__HELLO_DATA : HS__HELLO_CONTROL, c->parent_address,
                                           rendezvous->deadline, fd, err)) ||
                        (code = receive_answer(c, *fd, HS__HELLO_WELCOME, rendezvous->deadline, &hello, err))))
            hs__tcp_close(fd);
    }
    if (!code)
        memcpy(parent->host, hello.host, sizeof parent->host);
    return code;
}

/* Repeats attempts until one succeeds or the deadline has passed. */
static hs_code retry(connector *c, hs__tcp_rendezvous *rendezvous,
                     hs_code (*attempt)(connector *c, hs__tcp_rendezvous *rendezvous, hs_error *err), hs_error *err)
{
    for (int backoff_ms = RETRY_FIRST_MS;; backoff_ms = 2 * backoff_ms < RETRY_MOST_MS ? 2 * backoff_ms : RETRY_MOST_MS) {
        hs_code code = attempt(c, rendezvous, err);
        if (!code || code == HS_RESOURCE_EXHAUSTED)
            return code;
        if (hs__tcp_now() + (int64_t)backoff_ms * 1000000 >= rendezvous->deadline) {
            hs_error_prefix(err, "rank %d is not connected within connect_secs", (int)c->rank);
            err->code = HS_UNAVAILABLE;
            return HS_UNAVAILABLE;
        }
        poll(NULL, 0, backoff_ms);
    }
}

/* Both sides. */

static hs_code make_edges(connector *c, hs_error *err)
{
    int32_t first = first_child(c), last = first;
    while (last < c->rank_count && last - first < HS__TCP_FAN_OUT)
        last++;
    size_t parents = c->rank > 0, n = parents + (size_t)(last - first);
    if (!(c->edges->items = hs__alloc(c->env, n, sizeof *c->edges->items)))
        return hs__no_memory(err, n * sizeof *c->edges->items, "the connections of a group");
    c->edges->n = n;
    for (size_t i = 0; i < n; i++)
        c->edges->items[i] = (hs__tcp_edge){
            .rank = i < parents ? hs__tcp_parent(c->rank) : first + (int32_t)(i - parents), .control = -1, .data = -1};
    return HS_OK;
}

static hs_code allocate(connector *c, hs_error *err)
{
    size_t n = (size_t)c->rank_count;
    hs_code code = make_edges(c, err);
    if (code)
        return code;
    c->pending = hs__alloc(c->env, PENDING_MAX, sizeof *c->pending);
    c->registered = c->rank ? NULL : hs__alloc(c->env, n, sizeof *c->registered);
    for (size_t i = 0; c->registered && i < n; i++)
        c->registered[i].fd = -1;
    return c->pending && (c->registered || c->rank) ? HS_OK : hs__no_memory(err, 0, "the connections of a group");
}

static void release(connector *c)
{
    for (size_t i = 0; i < c->n_pending; i++)
        hs__tcp_close(&c->pending[i].fd);
    for (int32_t i = 0; c->registered && i < c->rank_count; i++)
        hs__tcp_close(&c->registered[i].fd);
    hs__tcp_close(&c->listener);
    hs__free(c->env, c->pending);
    hs__free(c->env, c->registered);
}

hs_code hs__tcp_connect_ranks(hs__tcp_rendezvous *rendezvous, const hs_env *env, hs__tcp_edges *edges, hs_error *err)
{
    connector c = {.rendezvous = rendezvous,
                   .env = env,
                   .rank = rendezvous->options->rank,
                   .rank_count = rendezvous->options->rank_count,
                   .edges = edges,
                   .listener = -1};
    hs__tcp_host_name(c.host, sizeof c.host);
    *edges = (hs__tcp_edges){NULL, 0};
    hs_code code = allocate(&c, err);
    if (!c.rank) {
        hs_code published = hs__rendezvous_publish(rendezvous, env, &c.listener, code ? NULL : err);
        code = code ? code : published;
    } else {
        hs_code begun = hs__rendezvous_begin(rendezvous, code ? NULL : err);
        code = code ? code : begun;
        if (!code && !(code = retry(&c, rendezvous, try_to_register, err)))
            code = retry(&c, rendezvous, try_to_connect, err);
    }
    if (!code)
        code = serve(&c, err);
    release(&c);
    return code;
}

void hs__tcp_release_edges(const hs_env *env, hs__tcp_edges *edges)
{
    for (size_t i = 0; i < edges->n; i++) {
        int *fds[] = {&edges->items[i].control, &edges->items[i].data};
        for (int j = 0; j < 2; j++) {
            hs__tcp_finish(*fds[j]);
            hs__tcp_close(fds[j]);
        }
    }
    hs__free(env, edges->items);
    *edges = (hs__tcp_edges){NULL, 0};
}
