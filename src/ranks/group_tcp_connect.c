/* SPDX-License-Identifier: Apache-2.0 */
/* Connects the ranks. Read connect_rank_0 and connect_other_rank at the end first: rank 0 serves connections; another rank
 * registers, connects to its parent, then serves connections of its children until rank 0 lets the group start. */
#include "ranks/group_tcp_connect.h"

#include "base/text.h"
#include "ranks/group_tcp_socket.h"

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
    LIST_MAX = RANKS_MAX + HS__HELLO_TEXT + 32
};

#define SECOND_NS  ((int64_t)1000000000)
#define WARN_NS    (5 * SECOND_NS)
#define CONNECT_NS (2 * SECOND_NS) /* of an attempt to reach an address */
#define CHECK_NS   SECOND_NS       /* of the file of rank 0 */

_Static_assert((int)HS__ADDRESSES_MAX <= (int)HS__HELLO_TEXT, "the addresses of a rank fit in a message");

/* A connection whose first message is not complete. */
typedef struct pending {
    int fd;
    size_t got;
    unsigned char bytes[HS__HELLO_BYTES];
} pending;

/* The connection between rank 0 and another rank, from its registration to the start. */
typedef struct peer {
    int fd;                         /* -1: not registered */
    bool done;                      /* on rank 0: it is connected to its parent, or has received the error of rank 0 */
    int32_t process;                /* on rank 0: the random number of its process */
    char host[HS__HELLO_HOST];      /* of the other side */
    char addresses[HS__HELLO_TEXT]; /* on rank 0: on which the rank listens */
} peer;

typedef struct connector {
    hs__tcp_rendezvous *rendezvous;
    const hs_env *env;
    int32_t rank, rank_count;
    int32_t process; /* a random number, which tells this process from others with the same rank */
    char host[HS__HELLO_HOST];
    char addresses[HS__ADDRESSES_MAX]; /* on which this rank listens for its children. "": none */
    char parent_addresses[HS__HELLO_TEXT];
    hs__tcp_edges *edges;
    hs__tcp_listener listener;
    pending *pending; /* the oldest first */
    size_t n_pending;
    peer *peers; /* on rank 0: by rank; the one of rank 0 is not used. On others: rank 0 */
    size_t n_peers;
    struct pollfd *fds; /* for all of them */
    int32_t n_registered, n_done;
    bool answered;                /* rank 0 has answered all ranks */
    bool started;                 /* by rank 0 */
    bool final;                   /* the group cannot start: do not retry */
    size_t attempts;              /* to connect that have failed */
    int64_t limit;                /* of all waits */
    int64_t begin_ns, warn_ns;    /* of the wait for connections; of the next warning about it */
    int64_t check_ns;             /* on rank 0: of the next look at its file */
    hs_error failure;             /* on rank 0: why it cannot listen on its port */
    hs_error conflict;            /* on rank 0: of two processes with the same rank */
    char refused[HS__HELLO_TEXT]; /* why a connection was refused */
} connector;

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Until when a rank waits for an answer or the rest of a message. */
static int64_t attempt_limit(const connector *c)
{
    return earlier(hs__tcp_now() + c->rendezvous->connect_ns / 4, c->limit);
}

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

/* Messages. */

static hs__hello make_hello(const connector *c, hs__hello_kind kind, int32_t rank, const char *text)
{
    hs__hello hello = {.kind = kind, .rank = rank, .rank_count = c->rank_count};
    snprintf(hello.token, sizeof hello.token, "%s", c->rendezvous->token);
    snprintf(hello.host, sizeof hello.host, "%s", c->host);
    snprintf(hello.text, sizeof hello.text, "%.*s", HS__HELLO_TEXT - 1, text);
    return hello;
}

static hs_code send_message(const hs__hello *hello, int fd, int64_t deadline, hs_error *err)
{
    unsigned char bytes[HS__HELLO_BYTES];
    hs__hello_write(hello, bytes);
    return hs__tcp_send(fd, bytes, sizeof bytes, deadline, err);
}

/* Sends an answer. It fits in the buffer of the connection, so that this does not wait. A failure means that the other side
 * has left. */
static void answer(const connector *c, int fd, hs__hello_kind kind, int32_t rank, const char *text)
{
    hs_error unused;
    hs__hello hello = make_hello(c, kind, rank, text);
    if (kind == HS__HELLO_REFUSED)
        memset(hello.token, 0, sizeof hello.token);
    send_message(&hello, fd, hs__tcp_now(), &unused);
}

/* Sends the error of this rank, and closes the connection. */
static void send_failure(const connector *c, int *fd, int32_t rank, const hs_error *why)
{
    hs_error unused;
    hs__hello hello = make_hello(c, HS__HELLO_FAILED, rank, why->message);
    hello.code = why->code;
    if (*fd >= 0)
        send_message(&hello, *fd, hs__tcp_now(), &unused);
    hs__tcp_finish(*fd);
    hs__tcp_close(fd);
}

/* Receives a message of the expected kind. `rank`: this rank, or on rank 0 the other one. If it is FAILED, returns the
 * error of rank `from`, and sets c->final. */
static hs_code receive_message(connector *c, int fd, hs__hello_kind kind, int32_t rank, int32_t from, int64_t deadline,
                               hs__hello *hello, hs_error *err)
{
    unsigned char bytes[HS__HELLO_BYTES];
    hs_code code = hs__tcp_receive(fd, bytes, HS__HELLO_HEAD, deadline, err);
    if (code)
        return code;
    const uint32_t version = hs__hello_version(bytes);
    if (!version)
        return hs_error_set(err, HS_UNAVAILABLE, "the other side is not a group of hooksess");
    if (version != HS__HELLO_VERSION)
        return hs_error_set(err, HS_UNAVAILABLE,
                            "the other side has version %u of the group's protocol, but rank %d has version %d",
                            (unsigned)version, (int)c->rank, HS__HELLO_VERSION);
    if ((code = hs__tcp_receive(fd, bytes + HS__HELLO_HEAD, HS__HELLO_BYTES - HS__HELLO_HEAD, deadline, err)))
        return code;
    const char *wrong = hs__hello_parse(bytes, hello);
    if (wrong)
        return hs_error_set(err, HS_UNAVAILABLE, "%s", wrong);
    if (hello->kind == HS__HELLO_REFUSED)
        return hs_error_set(err, HS_UNAVAILABLE, "refused by %s: %s", hello->host, hello->text);
    const bool is_of_group =
        hello->rank == rank && hello->rank_count == c->rank_count && strcmp(hello->token, c->rendezvous->token) == 0;
    if (is_of_group && hello->kind == HS__HELLO_FAILED) {
        c->final = true;
        return hs_error_set(err, hello->code ? (hs_code)hello->code : HS_UNAVAILABLE, "rank %d: %s", (int)from,
                            hello->text);
    }
    return is_of_group && hello->kind == kind
               ? HS_OK
               : hs_error_set(err, HS_UNAVAILABLE, "the other side sent an unexpected message");
}

/* A registered rank has left, or has sent an invalid message. `err` says how. */
static hs_code set_lost(connector *c, int32_t rank, const char *host, hs_error *err)
{
    c->final = true;
    err->code = HS_UNAVAILABLE;
    hs_error_prefix(err, "rank %d (%s) has failed before the group started", (int)rank, host);
    return HS_UNAVAILABLE;
}

/* The side that listens. */

/* A refusal of a rank of this job is not replaced by that of a stranger. */
static void refuse(connector *c, int fd, const hs__hello *hello, const char *why)
{
    if (!*c->refused || strcmp(hello->token, c->rendezvous->token) == 0)
        snprintf(c->refused, sizeof c->refused, "rank %d of %.71s: %.120s", (int)hello->rank, hello->host, why);
    answer(c, fd, HS__HELLO_REFUSED, hello->rank, why);
    hs__tcp_finish(fd);
    hs__tcp_close(&fd);
}

static void refuse_version(connector *c, int fd, uint32_t version)
{
    char why[128];
    snprintf(why, sizeof why, "a process has version %u of the group's protocol, but rank %d has version %d",
             (unsigned)version, (int)c->rank, HS__HELLO_VERSION);
    if (!*c->refused)
        memcpy(c->refused, why, sizeof why);
    answer(c, fd, HS__HELLO_REFUSED, 0, why);
    hs__tcp_finish(fd);
    hs__tcp_close(&fd);
}

/* Stores a connection in *slot. An earlier connection stays, unless it has ended: then its rank has retried. */
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

/* If all ranks are registered, answers each with the addresses of its parent. A rank that has left since may register
 * again. */
static void answer_all(connector *c)
{
    if (c->rank || c->failure.code || c->answered || c->n_registered < c->rank_count - 1)
        return;
    for (int32_t i = 1; i < c->rank_count; i++)
        if (hs__tcp_ended(c->peers[i].fd)) {
            hs__tcp_close(&c->peers[i].fd);
            c->n_registered--;
        }
    if (c->n_registered < c->rank_count - 1)
        return;
    c->answered = true;
    for (int32_t i = 1; i < c->rank_count; i++) {
        const int32_t parent = hs__tcp_parent(i);
        answer(c, c->peers[i].fd, HS__HELLO_WELCOME, i, parent ? c->peers[parent].addresses : "");
    }
}

static void register_rank(connector *c, int fd, const hs__hello *hello)
{
    peer *p = &c->peers[hello->rank];
    const bool is_new = p->fd < 0;
    if (!is_new && p->process != hello->code && !hs__tcp_ended(p->fd)) {
        hs_error_set(&c->conflict, HS_UNAVAILABLE,
                     "rank %d runs twice, on %.71s and on %.71s: end the processes of an earlier start", (int)hello->rank,
                     p->host, hello->host);
        send_failure(c, &fd, hello->rank, &c->conflict);
        return;
    }
    if (c->answered) {
        refuse(c, fd, hello, "an unexpected message");
        return;
    }
    hs__tcp_close(&p->fd); /* of an earlier attempt of the same process */
    p->fd = fd;
    p->process = hello->code;
    memcpy(p->host, hello->host, sizeof p->host);
    memcpy(p->addresses, hello->text, sizeof p->addresses);
    c->n_registered += is_new;
    answer(c, fd, HS__HELLO_WAIT, hello->rank, "");
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

/* Handles the first message of a connection, and adopts the connection. */
static void handle_hello(connector *c, int fd, const unsigned char bytes[HS__HELLO_BYTES])
{
    hs__hello hello;
    char text[128];
    if (hs__hello_parse(bytes, &hello)) {
        hs__tcp_close(&fd);
        return;
    }
    const bool to_rank_0 = !c->rank && hello.rank > 0, failed = c->failure.code != HS_OK;
    if (hello.kind == HS__HELLO_ASK && !failed) {
        hs__tcp_close(&fd); /* it asks for another job, whose port is next to this one */
    } else if (strcmp(hello.token, c->rendezvous->token) != 0) {
        refuse(c, fd, &hello, "it belongs to another job");
    } else if (hello.rank_count != c->rank_count) {
        snprintf(text, sizeof text, "its rank_count is %d, but that of rank %d is %d", (int)hello.rank_count, (int)c->rank,
                 (int)c->rank_count);
        refuse(c, fd, &hello, text);
    } else if (to_rank_0 && failed) {
        send_failure(c, &fd, hello.rank, &c->failure);
        c->n_done += !c->peers[hello.rank].done;
        c->peers[hello.rank].done = true;
    } else if (to_rank_0 && hello.kind == HS__HELLO_REGISTER) {
        register_rank(c, fd, &hello);
    } else if (hello.kind == HS__HELLO_CONTROL || hello.kind == HS__HELLO_DATA) {
        connect_child(c, fd, &hello);
    } else {
        refuse(c, fd, &hello, "an unexpected message");
    }
}

/* Reads more of a first message. Returns false if the connection is no longer pending. */
static bool read_pending(connector *c, pending *p)
{
    ssize_t n = recv(p->fd, p->bytes + p->got, sizeof p->bytes - p->got, 0);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return true;
    p->got += n > 0 ? (size_t)n : 0;
    /* the head first: messages of other versions may have another size */
    const uint32_t version = p->got < HS__HELLO_HEAD ? HS__HELLO_VERSION : hs__hello_version(p->bytes);
    if (n <= 0 || !version) {
        hs__tcp_close(&p->fd);
        return false;
    }
    if (version == HS__HELLO_VERSION && p->got < sizeof p->bytes)
        return true;
    if (version == HS__HELLO_VERSION)
        handle_hello(c, p->fd, p->bytes);
    else
        refuse_version(c, p->fd, version);
    return false;
}

/* Closes the oldest pending connection. If it was a rank's, the rank retries. */
static void drop_oldest(connector *c)
{
    hs__tcp_close(&c->pending[0].fd);
    memmove(c->pending, c->pending + 1, --c->n_pending * sizeof *c->pending);
}

static hs_code accept_connections(connector *c, int listener, hs_error *err)
{
    if (c->n_pending == PENDING_MAX)
        drop_oldest(c);
    while (c->n_pending < PENDING_MAX) {
        pending *p = &c->pending[c->n_pending];
        hs_code code = hs__tcp_accept(listener, &p->fd, err);
        if (code && c->n_pending) { /* too many open files */
            drop_oldest(c);
            snprintf(c->refused, sizeof c->refused, "%.*s", HS__HELLO_TEXT - 1, err->message);
            hs_error_clear(err);
            return HS_OK;
        }
        if (code || p->fd < 0)
            return code;
        p->got = 0;
        c->n_pending++;
    }
    return HS_OK;
}

/* Receives what a registered rank reports. */
static hs_code read_registered(connector *c, int32_t rank, hs_error *err)
{
    peer *p = &c->peers[rank];
    hs__hello hello;
    if (!receive_message(c, p->fd, HS__HELLO_CONNECTED, rank, rank, attempt_limit(c), &hello, err)) {
        c->n_done += !p->done;
        p->done = true;
        return HS_OK;
    }
    hs__tcp_close(&p->fd);
    if (c->final)
        return err->code;
    if (c->answered)
        return set_lost(c, rank, p->host, err);
    c->n_registered--; /* it may register again */
    return HS_OK;
}

/* Receives the start or the error of rank 0. */
static hs_code read_rank_0(connector *c, hs_error *err)
{
    hs__hello hello;
    hs_code code = receive_message(c, c->peers[0].fd, HS__HELLO_START, c->rank, 0, c->limit, &hello, err);
    c->started = !code;
    return code && !c->final ? set_lost(c, 0, c->peers[0].host, err) : code;
}

/* Waits until a connection is readable or a time, and handles all connections that are readable. */
static hs_code serve_once(connector *c, hs_error *err)
{
    size_t n_peers = 0, at = 0;
    for (size_t i = 0; i < c->n_peers; i++)
        if (c->peers[i].fd >= 0)
            c->fds[n_peers++] = (struct pollfd){.fd = c->peers[i].fd, .events = POLLIN};
    struct pollfd *listening = c->fds + n_peers, *waiting = listening + c->listener.n;
    const size_t n = c->n_pending;
    for (size_t i = 0; i < c->listener.n; i++)
        listening[i] = (struct pollfd){.fd = c->listener.fds[i], .events = POLLIN};
    for (size_t i = 0; i < n; i++)
        waiting[i] = (struct pollfd){.fd = c->pending[i].fd, .events = POLLIN};
    const int64_t until = earlier(c->check_ns, earlier(c->warn_ns, c->limit));
    int ready = poll(c->fds, (nfds_t)(n_peers + c->listener.n + n), hs__tcp_poll_ms(until));
    if (ready <= 0)
        return ready == 0 || errno == EINTR ? HS_OK : hs_error_set_errno(err, errno, "poll");
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < c->n_peers; i++)
        if (c->peers[i].fd >= 0 && c->fds[at++].revents)
            code = c->rank ? read_rank_0(c, err) : read_registered(c, (int32_t)i, err);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (!waiting[i].revents || read_pending(c, &c->pending[i]))
            c->pending[kept++] = c->pending[i];
    c->n_pending = kept;
    for (size_t i = 0; !code && i < c->listener.n; i++)
        if (listening[i].revents)
            code = accept_connections(c, c->listener.fds[i], err);
    return code;
}

static bool is_missing(connector *c, int32_t rank)
{
    if (!c->rank)
        return c->answered || c->failure.code ? !c->peers[rank].done : c->peers[rank].fd < 0;
    const hs__tcp_edge *child = find_child(c, rank);
    return child && (child->control < 0 || child->data < 0);
}

/* True on rank 0 if no rank has ever registered or been refused. */
static bool is_alone(const connector *c)
{
    for (int32_t i = 1; i < c->rank_count; i++)
        if (*c->peers[i].host)
            return false;
    return !*c->refused;
}

/* Lists the missing ranks. When all are registered, the reason may be the parent of a rank. */
static void list_missing(connector *c, char list[LIST_MAX])
{
    *list = '\0';
    for (int32_t i = 1; i < c->rank_count; i++) {
        if (!is_missing(c, i))
            continue;
        if (c->answered)
            hs__append_item(list, RANKS_MAX, "%d (to rank %d)", (int)i, (int)hs__tcp_parent(i));
        else
            hs__append_item(list, RANKS_MAX, "%d", (int)i);
    }
    if (*c->refused)
        hs__append(list, LIST_MAX, " (refused: %s)", c->refused);
}

/* Serves connections until the group starts. */
static hs_code serve(connector *c, hs_error *err)
{
    char list[LIST_MAX];
    hs_code code = HS_OK;
    c->begin_ns = hs__tcp_now();
    c->warn_ns = c->begin_ns + WARN_NS;
    c->check_ns = c->rank ? INT64_MAX : c->begin_ns + CHECK_NS;
    while (!code && !c->started) {
        const int64_t now = hs__tcp_now();
        if (now >= c->check_ns) {
            c->check_ns = now + CHECK_NS;
            if ((code = hs__rendezvous_check(c->rendezvous, err)))
                return code;
        }
        if (c->failure.code && (now >= c->limit || c->n_done == c->rank_count - 1))
            return hs__error_copy(err, &c->failure);
        if (now >= c->limit && c->rank)
            return hs_error_set(err, HS_UNAVAILABLE, "rank 0 (%s) has not started the group within connect_secs",
                                c->peers[0].host);
        if (now >= c->limit && is_alone(c))
            return hs_error_set(err, HS_FAILED_PRECONDITION,
                                "this is rank 0 of %d, but no other rank has connected within connect_secs: start all %d "
                                "processes, with a launcher such as srun",
                                (int)c->rank_count, (int)c->rank_count);
        if (now >= c->limit) {
            list_missing(c, list);
            return hs_error_set(err, HS_UNAVAILABLE, "ranks that have not connected within connect_secs: %s", list);
        }
        if (now >= c->warn_ns) { /* after 5 s, and each time the wait has doubled */
            const double secs = (double)(now - c->begin_ns) / 1e9;
            list_missing(c, list);
            c->warn_ns = now + (now - c->begin_ns);
            if (c->failure.code)
                hs_log(c->env, HS_LOG_WARNING,
                       "rank 0 has failed, and waits since %.0f s to report it to these ranks: %s: %s", secs, list,
                       c->failure.message);
            else if (*list)
                hs_log(c->env, HS_LOG_WARNING, "rank %d waits since %.0f s until these ranks are connected: %s",
                       (int)c->rank, secs, list);
        }
        if ((code = serve_once(c, err)) || c->rank)
            continue;
        if (c->conflict.code)
            return hs__error_copy(err, &c->conflict);
        answer_all(c);
        if (!c->failure.code && c->n_done == c->rank_count - 1) {
            code = hs__rendezvous_check(c->rendezvous, err);
            c->started = !code;
        }
    }
    return code;
}

/* The side that connects. */

/* Connects, and sends the first message. With the first one to rank 0, a rank that has children begins to listen on the
 * interface that leads to rank 0. */
static hs_code send_hello(connector *c, hs__hello_kind kind, const char *to, int64_t deadline, int *fd, hs_error *err)
{
    hs_code code = hs__tcp_connect(to, c->attempts, earlier(hs__tcp_now() + CONNECT_NS, deadline), fd, err);
    if (!code && kind == HS__HELLO_REGISTER && has_children(c) && !c->listener.n &&
        !(code = hs__tcp_listen_near(*fd, &c->listener, err)))
        code = hs__tcp_publish(&c->listener, c->addresses, err);
    if (code)
        return code;
    hs__hello hello = make_hello(c, kind, c->rank, c->addresses);
    hello.code = kind == HS__HELLO_REGISTER ? c->process : 0;
    return send_message(&hello, *fd, deadline, err);
}

/* Asks on the next port if rank 0 has failed. HS_OK: not as far as is known. */
static hs_code ask_next_port(connector *c, hs_error *err)
{
    const int64_t deadline = earlier(hs__tcp_now() + SECOND_NS, c->limit);
    char address[HS__ADDRESS_MAX];
    hs__hello hello;
    hs_error error;
    int fd = -1;
    if (!hs__rendezvous_next_port(c->rendezvous, address))
        return HS_OK;
    hs_code code = send_hello(c, HS__HELLO_ASK, address, deadline, &fd, &error);
    if (!code)
        code = receive_message(c, fd, HS__HELLO_FAILED, c->rank, 0, deadline, &hello, &error);
    hs__tcp_close(&fd);
    return c->final ? hs__error_copy(err, &error) : HS_OK;
}

/* Registers with rank 0, and waits until all have. Sets the addresses of the parent. */
static hs_code try_to_register(connector *c, hs_error *err)
{
    const int64_t deadline = attempt_limit(c);
    int *fd = &c->peers[0].fd;
    hs__hello hello;
    hs_code code = hs__rendezvous_find(c->rendezvous, err);
    if (!code)
        code = send_hello(c, HS__HELLO_REGISTER, c->rendezvous->addresses, deadline, fd, err);
    /* another program may have the port, and not answer */
    if (!code && poll(&(struct pollfd){.fd = *fd, .events = POLLIN}, 1,
                      hs__tcp_poll_ms(earlier(hs__tcp_now() + SECOND_NS, deadline))) == 0)
        code = ask_next_port(c, err);
    if (!code && !(code = receive_message(c, *fd, HS__HELLO_WAIT, c->rank, 0, deadline, &hello, err))) {
        /* from now on the limit is that of rank 0, which began before this: it knows which ranks are missing */
        c->limit = hs__tcp_now() + c->rendezvous->connect_ns + c->rendezvous->connect_ns / 4;
        memcpy(c->peers[0].host, hello.host, sizeof hello.host);
        code = receive_message(c, *fd, HS__HELLO_WELCOME, c->rank, 0, c->limit, &hello, err);
        /* do not retry: the next rank 0 is that of a later start, which has another process with this rank */
        if (code && code != HS_DEADLINE_EXCEEDED && !c->final)
            code = set_lost(c, 0, c->peers[0].host, err);
    }
    if (!code) {
        snprintf(c->parent_addresses, sizeof c->parent_addresses, "%s",
                 *hello.text ? hello.text : c->rendezvous->addresses);
        return HS_OK;
    }
    hs__tcp_close(fd);
    /* if the connection is refused, the port is not in use, and a report on the next one is that of an earlier job */
    const hs_code failed = c->final || err->os_error == ECONNREFUSED ? HS_OK : ask_next_port(c, err);
    return failed ? failed : code;
}

/* Waits for an answer of the parent. Meanwhile rank 0 may send an error. */
static hs_code wait_for_parent(connector *c, int fd, int64_t deadline, hs_error *err)
{
    struct pollfd fds[] = {{.fd = fd, .events = POLLIN}, {.fd = c->peers[0].fd, .events = POLLIN}};
    for (;;) {
        int ready = poll(fds, 2, hs__tcp_poll_ms(deadline));
        if (ready < 0 && errno != EINTR)
            return hs_error_set_errno(err, errno, "poll");
        if (ready > 0)
            return fds[1].revents ? read_rank_0(c, err) : HS_OK;
        if (hs__tcp_now() >= deadline)
            return hs_error_set(err, HS_DEADLINE_EXCEEDED, "the other side did not answer");
    }
}

/* Opens both connections to the parent. */
static hs_code try_to_connect(connector *c, hs_error *err)
{
    hs__tcp_edge *parent = &c->edges->items[0];
    hs__hello hello;
    hs_code code = HS_OK;
    for (int i = 0; !code && i < 2; i++) {
        int *fd = i ? &parent->data : &parent->control;
        const int64_t deadline = attempt_limit(c);
        if (*fd >= 0)
            continue;
        if ((code = send_hello(c, i ? HS__HELLO_DATA : HS__HELLO_CONTROL, c->parent_addresses, deadline, fd, err)) ||
            (code = wait_for_parent(c, *fd, deadline, err)) ||
            (code = receive_message(c, *fd, HS__HELLO_WELCOME, c->rank, parent->rank, deadline, &hello, err)))
            hs__tcp_close(fd);
        else
            memcpy(parent->host, hello.host, sizeof parent->host);
    }
    return code;
}

/* Repeats attempts to connect to a rank until one succeeds, the limit has passed or the group cannot start. An attempt that
 * the limit ends says less than an earlier one. */
static hs_code retry(connector *c, int32_t to, hs_code (*attempt)(connector *c, hs_error *err), hs_error *err)
{
    hs_error last = {0};
    for (int backoff_ms = RETRY_FIRST_MS;; backoff_ms = 2 * backoff_ms < RETRY_MOST_MS ? 2 * backoff_ms : RETRY_MOST_MS) {
        hs_code code = attempt(c, err);
        if (!code || c->final || code == HS_RESOURCE_EXHAUSTED)
            return code;
        c->attempts++;
        if (code == HS_DEADLINE_EXCEEDED && last.code)
            *err = last;
        last = *err;
        if (hs__tcp_now() + (int64_t)backoff_ms * 1000000 >= c->limit) {
            hs_error_prefix(err, "rank %d is not connected to rank %d within connect_secs", (int)c->rank, (int)to);
            err->code = HS_UNAVAILABLE;
            return HS_UNAVAILABLE;
        }
        struct pollfd rank_0 = {.fd = c->peers[0].fd, .events = POLLIN};
        if (poll(&rank_0, 1, backoff_ms) > 0 && (code = read_rank_0(c, err)))
            return code;
    }
}

/* Both sides. */

static hs_code connect_rank_0(connector *c, hs_error *err)
{
    hs_code code = hs__rendezvous_publish(c->rendezvous, c->env, &c->listener, &c->failure, err);
    if (!code)
        code = serve(c, err);
    for (int32_t i = 1; i < c->rank_count; i++) {
        peer *p = &c->peers[i];
        if (code)
            send_failure(c, &p->fd, i, err);
        else
            answer(c, p->fd, HS__HELLO_START, i, "");
    }
    return code;
}

static hs_code connect_other_rank(connector *c, hs_error *err)
{
    int *rank_0 = &c->peers[0].fd;
    hs_code code = hs__rendezvous_begin(c->rendezvous, err);
    if (!code)
        code = retry(c, 0, try_to_register, err);
    if (!code)
        code = retry(c, hs__tcp_parent(c->rank), try_to_connect, err);
    if (!code) {
        answer(c, *rank_0, HS__HELLO_CONNECTED, c->rank, "");
        code = serve(c, err);
    }
    if (code && !c->final)
        send_failure(c, rank_0, c->rank, err);
    return code;
}

/* Allocates the edges and the connector's arrays. */
static hs_code allocate(connector *c, hs_error *err)
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

    const size_t most = has_children(c) ? PENDING_MAX : 1; /* without children, this rank does not listen */
    c->n_peers = c->rank ? 1 : (size_t)c->rank_count;
    c->pending = hs__alloc(c->env, most, sizeof *c->pending);
    c->peers = hs__alloc(c->env, c->n_peers, sizeof *c->peers);
    c->fds = hs__alloc(c->env, c->n_peers + HS__LISTEN_MAX + most, sizeof *c->fds);
    for (size_t i = 0; c->peers && i < c->n_peers; i++)
        c->peers[i].fd = -1;
    return c->pending && c->peers && c->fds ? HS_OK : hs__no_memory(err, 0, "the connections of a group");
}

hs_code hs__tcp_connect_ranks(hs__tcp_rendezvous *rendezvous, const hs_env *env, hs__tcp_edges *edges, hs_error *err)
{
    connector c = {.rendezvous = rendezvous,
                   .env = env,
                   .rank = rendezvous->options->rank,
                   .rank_count = rendezvous->options->rank_count,
                   .limit = rendezvous->deadline,
                   .edges = edges};
    hs__tcp_host_name(c.host, sizeof c.host);
    *edges = (hs__tcp_edges){NULL, 0};
    hs_code code = allocate(&c, err);
    if (!code)
        code = hs__rendezvous_random(&c.process, sizeof c.process, err);
    if (code)
        hs__rendezvous_decline(rendezvous->options, err);
    else
        code = c.rank ? connect_other_rank(&c, err) : connect_rank_0(&c, err);
    for (size_t i = 0; i < c.n_pending; i++)
        hs__tcp_close(&c.pending[i].fd);
    for (size_t i = 0; c.peers && i < c.n_peers; i++) {
        hs__tcp_finish(c.peers[i].fd);
        hs__tcp_close(&c.peers[i].fd);
    }
    hs__tcp_stop_listening(&c.listener);
    hs__free(env, c.pending);
    hs__free(env, c.peers);
    hs__free(env, c.fds);
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
