/* SPDX-License-Identifier: Apache-2.0 */
/* How a group over TCP starts although a stranger, a slow rank, a missing rank, another version or names are in the way.
 * The program is linked so that these tests say to which addresses a name resolves, when a rank connects, and when the time
 * of a rank passes. */
#include "replicas/processes.h"

#include "ranks/group_tcp_hello.h"
#include "support/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LONG_SECS = 3600 }; /* a start that waits for the limit fails by the limit of a test */

/* Functions of the system that the library calls. */

static const char *const *addresses_of_name; /* to which "localhost" resolves. NULL: as on this machine */
static bool names_are_unknown;               /* numbers only resolve, and each process has another name */
static process *pauses_at;                   /* this rank waits for the test at its second connection */
static int n_connected;
static process *announces;       /* this rank tells the test when it has sent a message of this kind */
static hs__hello_kind announced; /* of the message */
static process *obeys;           /* the time of this rank passes when the test answers */
static bool is_patient;          /* this rank waits for each message without a limit */

int __real_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **list);
int __wrap_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **list);
int __real_gethostname(char *name, size_t size);
int __wrap_gethostname(char *name, size_t size);
int __real_connect(int fd, const struct sockaddr *address, socklen_t length);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t length);
ssize_t __real_send(int fd, const void *data, size_t bytes, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags);
int __real_poll(struct pollfd *fds, nfds_t n, int ms);
int __wrap_poll(struct pollfd *fds, nfds_t n, int ms);

int __wrap_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **list)
{
    struct addrinfo numbers = *hints, **end = list;
    if (addresses_of_name && host && strcmp(host, "localhost") == 0) {
        for (const char *const *at = addresses_of_name; *at; at++) {
            int result = __real_getaddrinfo(*at, service, hints, end);
            if (result)
                return result;
            while (*end)
                end = &(*end)->ai_next;
        }
        return 0;
    }
    numbers.ai_flags |= names_are_unknown ? AI_NUMERICHOST : 0;
    return __real_getaddrinfo(host, service, &numbers, list);
}

int __wrap_gethostname(char *name, size_t size)
{
    if (!names_are_unknown)
        return __real_gethostname(name, size);
    snprintf(name, size, "machine-%d", (int)getpid());
    return 0;
}

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t length)
{
    if (pauses_at && n_connected++ == 1) {
        process_say(pauses_at);
        process_await(pauses_at);
    }
    return __real_connect(fd, address, length);
}

ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags)
{
    ssize_t n = __real_send(fd, data, bytes, flags);
    hs__hello hello;
    if (announces && n == HS__HELLO_BYTES && !hs__hello_parse(data, &hello) && hello.kind == announced)
        process_say(announces);
    return n;
}

/* When the test has answered, a wait for which nothing has arrived takes longer than all limits. */
int __wrap_poll(struct pollfd *fds, nfds_t n, int ms)
{
    enum { FDS_MAX = 256 };
    struct pollfd all[FDS_MAX];
    if (is_patient && fds->fd >= 0)
        ms = -1;
    if (!obeys)
        return __real_poll(fds, n, ms);
    check(obeys, n < FDS_MAX);
    memcpy(all, fds, n * sizeof *fds);
    all[n] = (struct pollfd){.fd = obeys->all->answers[obeys->rank][0], .events = POLLIN};
    int ready = __real_poll(all, n + 1, ms);
    memcpy(fds, all, n * sizeof *fds);
    if (ready > 0 && all[n].revents && --ready == 0)
        *clock_ahead_ns += INT64_C(2000000000) * LONG_SECS;
    return ready;
}

/* Sockets of strangers. */

static int open_socket(const char *host, int port, struct sockaddr_in *address)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    unsigned char *bytes = (unsigned char *)&address->sin_addr;
    assert_int_equal(sscanf(host, "%hhu.%hhu.%hhu.%hhu", bytes, bytes + 1, bytes + 2, bytes + 3), 4);
    return fd;
}

static int listen_at(const char *host, int port)
{
    struct sockaddr_in address;
    int fd = open_socket(host, port, &address);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 0), 0);
    return fd;
}

/* Connects, as soon as a process listens. */
static int connect_to(const char *host, int port)
{
    for (;;) {
        struct sockaddr_in address;
        int fd = open_socket(host, port, &address);
        if (__real_connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
            return fd;
        close(fd);
        poll(NULL, 0, 1);
    }
}

/* Ranks. */

static int agree(process *p)
{
    const hs_group *group = process_connect(p);
    uint64_t word = UINT64_C(1) << p->rank;
    check_code(p, group->ops->allreduce_or(group->self, &word, 1, &p->err), HS_OK);
    check(p, word == (UINT64_C(1) << p->rank_count) - 1);
    return process_done(p);
}

/* The group does not start. Leaves the error for the test, which may let the time pass. */
static int expect_no_start(process *p)
{
    obeys = p;
    check(p, !hs_group_tcp_new(&p->options, &p->err));
    p->results->numbers[0] = p->err.code;
    snprintf(p->results->message, sizeof p->results->message, "%s", p->err.message);
    return 0;
}

static void finish_well(processes *all)
{
    processes_finish_all(all);
    for (int32_t i = 0; i < all->rank_count; i++)
        assert_int_equal(processes_exit_code(all, i), 0);
}

static void assert_no_start(processes *all, int32_t rank, hs_code code, const char *text)
{
    processes_finish(all, rank);
    assert_int_equal(processes_exit_code(all, rank), 0);
    assert_contains(all->results[rank].message, text);
    assert_int_equal(all->results[rank].numbers[0], code);
}

static void await_file(const char *path)
{
    struct stat file;
    while (stat(path, &file) != 0)
        poll(NULL, 0, 1);
}

/* Strangers. */

static void names_of_files_do_not_contain_the_nonce(void **state)
{
    processes *all = *state;
    _Alignas(struct inotify_event) char events[4096];
    char nonce[64];
    const char *path = test_path(all->directory, ".hooksess-rendezvous");
    processes_prepare(all, 2, agree);
    int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    assert_true(inotify_add_watch(watch, all->directory, IN_CREATE | IN_MOVED_FROM | IN_MOVED_TO) >= 0);
    processes_start(all, 0);
    await_file(path);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*[^\n] %63s", nonce), 1);
    assert_true(strlen(nonce) >= 32);
    fclose(file);
    processes_start(all, 1);
    finish_well(all);
    ssize_t bytes = read(watch, events, sizeof events), n = 0;
    for (ssize_t at = 0; at < bytes; n++) {
        const struct inotify_event *event = (const void *)(events + at);
        assert_lacks(event->name, nonce);
        at += (ssize_t)(sizeof *event + event->len);
    }
    assert_true(n >= 2);
    close(watch);
}

static rlim_t file_limit; /* of rank 0. 0: that of the test */

static int agree_with_few_files(process *p)
{
    const struct rlimit limit = {file_limit, file_limit};
    check(p, p->rank || !file_limit || setrlimit(RLIMIT_NOFILE, &limit) == 0);
    return agree(p);
}

static int expect_no_start_with_few_files(process *p)
{
    const struct rlimit limit = {file_limit, file_limit};
    check(p, p->rank || setrlimit(RLIMIT_NOFILE, &limit) == 0);
    return expect_no_start(p);
}

static void too_many_open_files_are_the_reason(void **state)
{
    processes *all = *state;
    file_limit = 20;
    for (double secs = 1; !strstr(all->results[0].message, "RLIMIT_NOFILE"); secs *= 2) { /* until enough ranks connect */
        processes_prepare(all, PROCESSES_MAX, expect_no_start_with_few_files);
        all->options.connect_secs = secs;
        processes_start_all(all);
        processes_finish(all, 0);
    }
    assert_no_start(all, 0, HS_UNAVAILABLE, ": raise RLIMIT_NOFILE (ulimit -n)");
}

static void silent_connections_do_not_prevent_a_start(void **state)
{
    enum { STRANGERS = 300 };
    static const rlim_t limits[] = {0, 64};
    processes *all = *state;
    for (int i = 0; i < 2; i++) {
        int strangers[STRANGERS];
        char address[32];
        const int port = processes_reserve_port(all);
        snprintf(address, sizeof address, "127.0.0.1:%d", port);
        processes_prepare(all, 3, agree_with_few_files);
        all->options.address = address;
        all->options.connect_secs = LONG_SECS;
        file_limit = limits[i];
        processes_start(all, 0);
        for (int j = 0; j < STRANGERS; j++)
            strangers[j] = connect_to("127.0.0.1", port);
        processes_start(all, 1);
        processes_start(all, 2);
        finish_well(all);
        for (int j = 0; j < STRANGERS; j++)
            close(strangers[j]);
    }
}

/* Messages of a rank or a stranger, sent by the test. */

enum { OTHER_VERSION = 77, HEAD = 12 };

static void make_head(unsigned char head[HEAD])
{
    memcpy(head, "HOOKSESS\0\0\0", HEAD);
    head[8] = OTHER_VERSION;
    head[11] = 0;
}

static void say_hello(int fd, const hs__hello *hello, size_t bytes)
{
    unsigned char message[HS__HELLO_BYTES];
    hs__hello_write(hello, message);
    assert_int_equal(send(fd, message, bytes, MSG_NOSIGNAL), bytes);
}

static hs__hello_kind receive_kind(int fd)
{
    unsigned char message[HS__HELLO_BYTES];
    hs__hello hello;
    assert_int_equal(recv(fd, message, sizeof message, MSG_WAITALL), sizeof message);
    assert_null(hs__hello_parse(message, &hello));
    return hello.kind;
}

/* Starts rank 0 of two ranks, which fails when its time passes. Returns its port. */
static int start_rank_0(processes *all, char address[32])
{
    const int port = processes_reserve_port(all);
    snprintf(address, 32, "127.0.0.1:%d", port);
    processes_prepare(all, 2, expect_no_start);
    all->options.address = address;
    all->options.connect_secs = LONG_SECS;
    processes_start(all, 0);
    return port;
}

static void a_stranger_does_not_hide_why_a_rank_is_refused(void **state)
{
    static const hs__hello hellos[] = {{.kind = HS__HELLO_REGISTER, .rank = 1, .rank_count = 3, .host = "ours"},
                                       {.kind = HS__HELLO_REGISTER, .rank = 1, .rank_count = 2, .token = "other job"}};
    processes *all = *state;
    char address[32];
    int fds[3];
    const int port = start_rank_0(all, address);
    for (int i = 0; i < 2; i++) {
        fds[i] = connect_to("127.0.0.1", port);
        say_hello(fds[i], &hellos[i], HS__HELLO_BYTES);
        assert_int_equal(receive_kind(fds[i]), HS__HELLO_REFUSED);
    }
    unsigned char head[HEAD];
    fds[2] = connect_to("127.0.0.1", port);
    make_head(head);
    assert_int_equal(send(fds[2], head, HEAD, MSG_NOSIGNAL), HEAD);
    assert_int_equal(recv(fds[2], head, HEAD, MSG_WAITALL), HEAD);
    processes_answer(all, 0);
    assert_no_start(all, 0, HS_UNAVAILABLE, "1 (refused: rank 1 of ours: its rank_count is 3, but that of rank 0 is 2)");
    for (int i = 0; i < 3; i++)
        close(fds[i]);
}

static void a_registered_rank_that_sends_half_a_message_is_named(void **state)
{
    processes *all = *state;
    hs__hello hello = {.kind = HS__HELLO_REGISTER, .rank = 1, .rank_count = 2, .host = "ours"};
    char address[32];
    int fd = connect_to("127.0.0.1", start_rank_0(all, address));
    say_hello(fd, &hello, HS__HELLO_BYTES);
    assert_int_equal(receive_kind(fd), HS__HELLO_WAIT);
    assert_int_equal(receive_kind(fd), HS__HELLO_WELCOME);
    hello.kind = HS__HELLO_CONNECTED;
    say_hello(fd, &hello, HS__HELLO_BYTES / 2);
    processes_answer(all, 0);
    assert_no_start(all, 0, HS_UNAVAILABLE,
                    "rank 1 (ours) has failed before the group started: the other side did not answer");
    close(fd);
}

/* Slow, missing and dying ranks. */

static bool gives_an_error;

static void keep_error(void *user, hs_log_level level, const char *text)
{
    process *p = user;
    if (level == HS_LOG_ERROR)
        snprintf(p->results->message, sizeof p->results->message, "%s", text);
}

static int agree_without_an_error(process *p)
{
    const hs_env env = HS_INIT(hs_env, .logger = {.write = keep_error, .user = p});
    uint64_t word = 0;
    pauses_at = p->rank == 1 ? p : NULL;
    p->options.env = &env;
    check(p, p->group = hs_group_tcp_new(&p->options, gives_an_error ? &p->err : NULL));
    check(p, p->err.code == HS_OK && !*p->err.message);
    const hs_group *group = hs_group_tcp_get(p->group);
    check_code(p, group->ops->allreduce_or(group->self, &word, 1, &p->err), HS_OK);
    return process_done(p);
}

/* Starts rank 0 when rank 1 has found that the port is closed. */
static void a_rank_0_may_start_late(void **state)
{
    processes *all = *state;
    for (int i = 0; i < 2; i++) {
        char address[32];
        const int port = processes_reserve_port(all);
        snprintf(address, sizeof address, "127.0.0.1:%d", port);
        gives_an_error = i;
        processes_prepare(all, 2, agree_without_an_error);
        all->options.address = address;
        all->options.connect_secs = LONG_SECS;
        processes_start(all, 1);
        processes_await(all, 1);
        processes_start(all, 0);
        close(connect_to("127.0.0.1", port));
        processes_answer(all, 1);
        finish_well(all);
        for (int rank = 0; rank < 2; rank++)
            assert_string_equal(all->results[rank].message, "");
    }
}

/* Rank 2 waits for the test when it is registered, and not yet connected to its parent. */
static void be_late(process *p)
{
    pauses_at = p->rank == 2 ? p : NULL;
    announces = p;
    announced = HS__HELLO_CONNECTED;
}

static int be_late_and_agree(process *p)
{
    be_late(p);
    return process_agree_if_in_time(p);
}

static int be_late_and_expect_no_start(process *p)
{
    be_late(p);
    return expect_no_start(p);
}

/* Returns when all others only wait for rank 2. */
static void start_with_paused_rank_2(processes *all, process_main body, double detector_secs)
{
    processes_prepare(all, 4, body);
    all->options.address = "127.0.0.1:0";
    all->options.rendezvous_dir = all->directory;
    all->options.connect_secs = LONG_SECS;
    all->options.detector_secs = detector_secs;
    processes_start(all, 0);
    await_file(test_path(all->directory, ".hooksess-rendezvous")); /* the first attempt of rank 2 succeeds */
    for (int32_t i = 1; i < 4; i++)
        processes_start(all, i);
    for (int32_t i = 1; i < 4; i++)
        processes_await(all, i);
}

static void the_others_wait_for_a_rank_that_connects_late(void **state)
{
    processes *all = *state;
    double detector_secs = 0.75;
    do {
        detector_secs *= 2; /* a busy machine needs longer for heartbeats */
        start_with_paused_rank_2(all, be_late_and_agree, detector_secs);
        poll(NULL, 0, (int)(1700 * detector_secs));
        processes_answer(all, 2);
    } while (!processes_were_in_time(all));
}

static void a_rank_that_dies_before_the_start_is_named_on_each_rank(void **state)
{
    processes *all = *state;
    start_with_paused_rank_2(all, be_late_and_expect_no_start, 0);
    processes_kill(all, 2, SIGKILL);
    for (int32_t i = 0; i < 4; i++)
        if (i != 2)
            assert_no_start(all, i, HS_UNAVAILABLE, ") has failed before the group started: the connection has ended");
    for (int32_t i = 0; i < 4; i++)
        if (i != 2)
            assert_contains(all->results[i].message, "rank 2 (");
}

static void a_rank_that_does_not_connect_to_its_parent_is_named_on_each_rank(void **state)
{
    processes *all = *state;
    start_with_paused_rank_2(all, be_late_and_expect_no_start, 0);
    processes_answer(all, 0);
    for (int32_t i = 0; i < 4; i++) {
        if (i == 2)
            continue;
        assert_no_start(all, i, HS_UNAVAILABLE, "ranks that have not connected within connect_secs: 2 (to rank 0)");
    }
    processes_answer(all, 2);
    assert_no_start(all, 2, HS_UNAVAILABLE, "ranks that have not connected within connect_secs: 2 (to rank 0)");
}

static void rank_0_that_dies_before_the_start_is_named_on_each_rank(void **state)
{
    processes *all = *state;
    start_with_paused_rank_2(all, be_late_and_expect_no_start, 0);
    processes_kill(all, 0, SIGKILL);
    processes_answer(all, 2);
    for (int32_t i = 1; i < 4; i++) {
        assert_no_start(all, i, HS_UNAVAILABLE, ") has failed before the group started: the connection has ended");
        assert_contains(all->results[i].message, "rank 0 (");
    }
}

static int register_and_expect_no_start(process *p)
{
    announces = p;
    announced = HS__HELLO_REGISTER;
    return expect_no_start(p);
}

static void a_rank_that_never_starts_is_named_on_each_rank(void **state)
{
    processes *all = *state;
    processes_prepare(all, 20, register_and_expect_no_start);
    all->options.connect_secs = LONG_SECS;
    for (int32_t i = 0; i < 20; i++)
        if (i != 1 && i != 18) /* a rank with children, and a child of it */
            processes_start(all, i);
    for (int32_t i = 2; i < 20; i++)
        if (i != 18)
            processes_await(all, i);
    processes_answer(all, 0);
    for (int32_t i = 0; i < 20; i++)
        if (i != 1 && i != 18)
            assert_no_start(all, i, HS_UNAVAILABLE, "ranks that have not connected within connect_secs: 1, 18");
}

static void rank_0_that_never_starts_is_named_on_each_rank(void **state)
{
    processes *all = *state;
    char address[32];
    for (int i = 0; i < 2; i++) {
        snprintf(address, sizeof address, "127.0.0.1:%d", processes_reserve_port(all));
        processes_prepare(all, 3, expect_no_start);
        all->options.address = i ? address : NULL;
        all->options.connect_secs = 0.5;
        processes_start(all, 1);
        processes_start(all, 2);
        assert_no_start(all, 1, HS_UNAVAILABLE, "rank 1 is not connected to rank 0 within connect_secs: ");
        assert_no_start(all, 2, HS_UNAVAILABLE, "rank 2 is not connected to rank 0 within connect_secs: ");
    }
}

/* Copies data from rank 0 to the other ranks through a pipe. */
static hs_code copy_from_rank_0(void *user, void *data, size_t bytes, hs_error *err)
{
    process *p = user;
    const int *ends = p->all->user;
    for (int32_t i = 1; i < p->rank_count && !p->rank; i++)
        if (write(ends[1], data, bytes) != (ssize_t)bytes)
            return hs_error_set(err, HS_INTERNAL, "write");
    return !p->rank || read(ends[0], data, bytes) == (ssize_t)bytes ? HS_OK : hs_error_set(err, HS_INTERNAL, "read");
}

static hs_code exchange_nothing(void *user, void *data, size_t bytes, hs_error *err)
{
    (void)user, (void)data, (void)bytes;
    return hs_error_set(err, HS_INTERNAL, "each rank replaces this function");
}

static int expect_no_start_by_exchange(process *p)
{
    p->options.exchange = copy_from_rank_0;
    p->options.exchange_user = p;
    return expect_no_start(p);
}

static void a_port_in_use_ends_all_ranks_with_the_same_error(void **state)
{
    processes *all = *state;
    int port = processes_reserve_port(all), pipe_ends[2];
    char address[32], text[100];
    int stranger = listen_at("127.0.0.1", port); /* it accepts connections, and is silent */
    assert_int_equal(pipe(pipe_ends), 0);
    snprintf(address, sizeof address, "127.0.0.1:%d", port);
    snprintf(text, sizeof text, "cannot listen on %s: %s", address, strerror(EADDRINUSE));
    for (int way = 0; way < 3; way++) {
        processes_prepare(all, 4, way == 2 ? expect_no_start_by_exchange : expect_no_start);
        all->options.address = address;
        all->options.rendezvous_dir = way == 1 ? all->directory : NULL;
        all->options.exchange = way == 2 ? exchange_nothing : NULL;
        all->options.connect_secs = LONG_SECS;
        all->user = pipe_ends;
        processes_start_all(all);
        for (int32_t i = 0; i < 4; i++)
            assert_no_start(all, i, HS_FAILED_PRECONDITION, text);
        assert_int_equal(test_count_files(all->directory, "rendezvous"), 0);
    }
    close(stranger);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
}

/* Process 2 is another rank 0. Only the test itself has the socket of the stranger. */
static int agree_or_expect_no_start(process *p)
{
    if (p->rank == 2)
        close(*(const int *)p->all->user);
    p->rank_count = p->options.rank_count = 2;
    p->options.rank = p->rank % 2;
    pauses_at = p->rank == 1 ? p : NULL;
    is_patient = p->rank == 1; /* if the port is free, and rank 0 slow, it would ask the other one after a second */
    return p->rank == 2 ? expect_no_start(p) : agree(p);
}

/* It reports this next to its port, which a later job does not ask, because the port is free. */
static void a_failed_rank_0_does_not_prevent_a_later_start(void **state)
{
    processes *all = *state;
    int port = processes_reserve_port(all);
    char address[32];
    int stranger = listen_at("127.0.0.1", port);
    snprintf(address, sizeof address, "127.0.0.1:%d", port);
    processes_prepare(all, 3, agree_or_expect_no_start);
    all->user = &stranger;
    all->options.address = address;
    all->options.connect_secs = LONG_SECS;
    processes_start(all, 2);
    close(connect_to("127.0.0.1", port + 1)); /* it waits there for its rank 1 */
    close(stranger);
    processes_start(all, 1);
    processes_await(all, 1);
    processes_start(all, 0);
    close(connect_to("127.0.0.1", port));
    processes_answer(all, 1);
    for (int32_t i = 0; i < 2; i++) {
        processes_finish(all, i);
        assert_int_equal(processes_exit_code(all, i), 0);
    }
}

/* Versions. */

static void another_version_that_connects_is_named_with_this_one(void **state)
{
    processes *all = *state;
    char address[32], text[200];
    unsigned char head[HEAD], answer[HEAD];
    const int port = processes_reserve_port(all);
    snprintf(address, sizeof address, "127.0.0.1:%d", port);
    processes_prepare(all, 2, expect_no_start);
    all->options.address = address;
    all->options.connect_secs = LONG_SECS;
    processes_start(all, 0);
    int fd = connect_to("127.0.0.1", port);
    make_head(head);
    assert_int_equal(send(fd, head, HEAD, MSG_NOSIGNAL), HEAD);
    assert_int_equal(recv(fd, answer, HEAD, MSG_WAITALL), HEAD); /* from it the other side learns this version */
    processes_answer(all, 0);
    assert_memory_equal(answer, head, 8);
    assert_int_not_equal(answer[8], OTHER_VERSION);
    snprintf(text, sizeof text, "1 (refused: a process has version 77 of the group's protocol, but rank 0 has version %d)",
             answer[8]);
    assert_no_start(all, 0, HS_UNAVAILABLE, text);
    close(fd);
}

static int listening;

static int answer_with_another_version(process *p)
{
    if (p->rank) {
        is_patient = true;
        pauses_at = p; /* with the answer, when it asks the next port */
        return expect_no_start(p);
    }
    for (;;) {
        unsigned char head[HEAD], own[HEAD], rest[1024];
        int fd = accept(listening, NULL, NULL);
        if (recv(fd, own, HEAD, MSG_WAITALL) == HEAD)
            p->results->numbers[1] = own[8];
        make_head(head);
        send(fd, head, HEAD, MSG_NOSIGNAL);
        while (recv(fd, rest, sizeof rest, 0) > 0) /* else the system would discard the answer */
            continue;
        close(fd);
    }
}

static void another_version_of_rank_0_is_named_with_this_one(void **state)
{
    processes *all = *state;
    char address[32], text[200];
    int port = processes_reserve_port(all);
    listening = listen_at("127.0.0.1", port);
    assert_int_equal(listen(listening, 100), 0);
    snprintf(address, sizeof address, "127.0.0.1:%d", port);
    processes_prepare(all, 2, answer_with_another_version);
    all->options.address = address;
    all->options.connect_secs = LONG_SECS;
    processes_start_all(all);
    processes_await(all, 1);
    processes_answer(all, 1);
    processes_answer(all, 1); /* its time passes */
    processes_finish(all, 1);
    assert_true(all->results[0].numbers[1] > 0);
    snprintf(text, sizeof text, "the other side has version 77 of the group's protocol, but rank 1 has version %d",
             (int)all->results[0].numbers[1]);
    assert_no_start(all, 1, HS_UNAVAILABLE, text);
    processes_kill(all, 0, SIGKILL);
    processes_finish_all(all);
    close(listening);
}

/* Names and addresses. */

static bool has_ipv6(void)
{
    const struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool has = fd >= 0 && bind(fd, (const struct sockaddr *)&address, sizeof address) == 0;
    close(fd);
    return has;
}

static const char *addresses_of_ranks[3];

static int agree_by_own_address(process *p)
{
    p->options.address = addresses_of_ranks[p->rank];
    return process_agree_if_in_time(p);
}

static void rank_0_listens_on_all_addresses_of_its_name(void **state)
{
    static const char *const v4[] = {"127.0.0.1", "127.0.0.2", NULL}, *const v6[] = {"::1", "127.0.0.1", NULL};
    processes *all = *state;
    for (int i = 0; i < 1 + has_ipv6(); i++) {
        char texts[3][32];
        const int port = processes_reserve_port(all);
        addresses_of_name = i ? v6 : v4;
        snprintf(texts[0], sizeof texts[0], "localhost:%d", port);
        snprintf(texts[1], sizeof texts[1], i ? "[%s]:%d" : "%s:%d", addresses_of_name[0], port);
        snprintf(texts[2], sizeof texts[2], "%s:%d", addresses_of_name[1], port);
        for (int j = 0; j < 3; j++)
            addresses_of_ranks[j] = texts[j];
        processes_prepare(all, 3, agree_by_own_address);
        all->options.address = texts[0];
        all->options.connect_secs = LONG_SECS;
        processes_start_all(all);
        assert_true(processes_were_in_time(all));
    }
    addresses_of_name = NULL;
}

/* The queue of a listener is full: the system ignores further connections, as a firewall does. */
static void an_address_that_does_not_answer_does_not_delay_the_others(void **state)
{
    static const char *const two[] = {"127.0.0.2", "127.0.0.1", NULL};
    processes *all = *state;
    int port = processes_reserve_port(all), full = listen_at("127.0.0.2", port), queue[4];
    for (int i = 0; i < 4; i++) {
        struct sockaddr_in address;
        queue[i] = open_socket("127.0.0.2", port, &address);
        fcntl(queue[i], F_SETFL, O_NONBLOCK);
        __real_connect(queue[i], (struct sockaddr *)&address, sizeof address);
    }
    char texts[2][32];
    addresses_of_name = two;
    snprintf(texts[0], sizeof texts[0], "127.0.0.1:%d", port);
    snprintf(texts[1], sizeof texts[1], "localhost:%d", port);
    addresses_of_ranks[0] = texts[0];
    addresses_of_ranks[1] = addresses_of_ranks[2] = texts[1];
    processes_prepare(all, 3, agree_by_own_address);
    all->options.address = texts[0];
    all->options.connect_secs = LONG_SECS;
    processes_start_all(all);
    assert_true(processes_were_in_time(all));
    addresses_of_name = NULL;
    for (int i = 0; i < 4; i++)
        close(queue[i]);
    close(full);
}

/* Rank 1 finds rank 0 behind it once, and then both connections to it. */
static void a_silent_stranger_on_an_address_of_rank_0_is_tried_once(void **state)
{
    static const char *const two[] = {"127.0.0.2", "127.0.0.1", NULL};
    processes *all = *state;
    char texts[2][32];
    int port = processes_reserve_port(all), stranger = listen_at("127.0.0.2", port);
    assert_int_equal(listen(stranger, 100), 0);
    addresses_of_name = two;
    snprintf(texts[0], sizeof texts[0], "127.0.0.1:%d", port);
    snprintf(texts[1], sizeof texts[1], "localhost:%d", port);
    addresses_of_ranks[0] = texts[0];
    addresses_of_ranks[1] = texts[1];
    double secs = 2;
    do {
        secs *= 2;
        processes_prepare(all, 2, agree_by_own_address);
        all->options.address = texts[0];
        all->options.connect_secs = secs; /* of which rank 1 waits a quarter for the stranger */
        processes_start_all(all);
    } while (!processes_were_in_time(all));
    addresses_of_name = NULL;
    close(stranger);
}

static int agree_by_exchange(process *p)
{
    p->options.exchange = p->all->options.exchange ? copy_from_rank_0 : NULL;
    p->options.exchange_user = p;
    return agree(p);
}

static void ranks_whose_names_do_not_resolve_connect(void **state)
{
    processes *all = *state;
    int pipe_ends[2];
    assert_int_equal(pipe(pipe_ends), 0);
    names_are_unknown = true;
    for (int i = 0; i < 2; i++) {
        processes_prepare(all, 20, agree_by_exchange); /* rank 1 has children, too */
        all->options.exchange = i ? exchange_nothing : NULL;
        all->options.connect_secs = LONG_SECS;
        all->user = pipe_ends;
        processes_start_all(all);
        finish_well(all);
    }
    names_are_unknown = false;
    close(pipe_ends[0]);
    close(pipe_ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_processes(names_of_files_do_not_contain_the_nonce),
        with_processes(silent_connections_do_not_prevent_a_start),
        with_processes(too_many_open_files_are_the_reason),
        with_processes(a_stranger_does_not_hide_why_a_rank_is_refused),
        with_processes(a_registered_rank_that_sends_half_a_message_is_named),
        with_processes(a_rank_0_may_start_late),
        with_processes(the_others_wait_for_a_rank_that_connects_late),
        with_processes(a_rank_that_dies_before_the_start_is_named_on_each_rank),
        with_processes(a_rank_that_does_not_connect_to_its_parent_is_named_on_each_rank),
        with_processes(rank_0_that_dies_before_the_start_is_named_on_each_rank),
        with_processes(a_rank_that_never_starts_is_named_on_each_rank),
        with_processes(rank_0_that_never_starts_is_named_on_each_rank),
        with_processes(a_port_in_use_ends_all_ranks_with_the_same_error),
        with_processes(a_failed_rank_0_does_not_prevent_a_later_start),
        with_processes(another_version_that_connects_is_named_with_this_one),
        with_processes(another_version_of_rank_0_is_named_with_this_one),
        with_processes(rank_0_listens_on_all_addresses_of_its_name),
        with_processes(an_address_that_does_not_answer_does_not_delay_the_others),
        with_processes(a_silent_stranger_on_an_address_of_rank_0_is_tried_once),
        with_processes(ranks_whose_names_do_not_resolve_connect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
