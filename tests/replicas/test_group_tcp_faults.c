/* SPDX-License-Identifier: Apache-2.0 */
/* Failures in a group over TCP: processes that die, freeze, lose connections or exit; strangers at the rendezvous; and the
 * end of a process whose thread is stuck. */
#include "replicas/processes.h"

#include "ranks/group_tcp_address.h"
#include "ranks/group_tcp_hello.h"
#include "ranks/group_tcp_socket.h"

#include <hooksess/testing.h>

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static hs_error err;

static hs_code agree(process *p)
{
    const hs_group *group = hs_group_tcp_get(p->group);
    uint64_t word = UINT64_C(1) << p->rank;
    hs_code code = group->ops->allreduce_or(group->self, &word, 1, &p->err);
    check(p, code || word == (UINT64_C(1) << p->rank_count) - 1);
    p->results->numbers[0] += code == HS_OK; /* completed calls */
    return code;
}

static hs_code query(process *p, int32_t *rank)
{
    const hs_group *group = hs_group_tcp_get(p->group);
    return group->ops->query_failed_rank(group->self, rank, &p->err);
}

/* The next call fails, and the detector knows the rank. Leaves the message for the test. */
static int expect_failure(process *p)
{
    int32_t rank;
    check_code(p, agree(p), HS_UNAVAILABLE);
    check_code(p, agree(p), HS_UNAVAILABLE);
    check_code(p, query(p, &rank), HS_UNAVAILABLE);
    p->results->numbers[1] = rank;
    snprintf(p->results->message, sizeof p->results->message, "%s", p->err.message);
    return process_done(p);
}

/* The ranks but `failed` have ended with this message about it. */
static void assert_failure(processes *all, int32_t failed, const char *message)
{
    for (int32_t i = 0; i < all->rank_count; i++) {
        if (i == failed)
            continue;
        processes_finish(all, i);
        assert_int_equal(processes_exit_code(all, i), 0);
        assert_int_equal(all->results[i].numbers[1], failed);
        if (!strstr(all->results[i].message, message))
            fail_msg("rank %d: '%s' is not in '%s'", (int)i, message, all->results[i].message);
    }
}

/* Processes that die or freeze. */

/* The rank `user` waits to be killed, and the others wait for it. */
static int wait_for_rank(process *p)
{
    process_connect(p);
    check_code(p, agree(p), HS_OK);
    process_say(p);
    if (p->rank == *(const int32_t *)p->all->user) {
        int32_t rank;
        process_await(p);
        while (query(p, &rank) == HS_OK) /* else it might complete one call to which the others have contributed */
            poll(NULL, 0, 1);
    }
    return expect_failure(p);
}

static void kill_rank(processes *all, int32_t rank_count, int32_t rank)
{
    processes_prepare(all, rank_count, wait_for_rank);
    all->user = &rank;
    processes_start_all(all);
    processes_await_all(all);
    processes_kill(all, rank, SIGKILL);
    assert_failure(all, rank, "has failed: its connection has ended");
    processes_finish_all(all);
}

static void a_killed_rank_is_known_on_all_ranks(void **state)
{
    static const int32_t counts[] = {2, 4, 8, 20};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        kill_rank(*state, counts[i], 0);
        kill_rank(*state, counts[i], 1); /* of 20: has children */
        kill_rank(*state, counts[i], counts[i] - 1);
    }
}

static void a_frozen_rank_is_known_after_the_limit(void **state)
{
    processes *all = *state;
    int32_t rank = 1;
    for (rank = 0; rank < 2; rank++) {
        processes_prepare(all, 3, wait_for_rank);
        all->options.detector_secs = 3;
        all->user = &rank;
        processes_start_all(all);
        processes_await_all(all);
        processes_kill(all, rank, SIGSTOP);
        assert_failure(all, rank, "has failed: it has not responded for 3 s");
        /* when it continues, it sees that the others gave it up */
        processes_kill(all, rank, SIGCONT);
        processes_answer(all, rank);
        processes_finish_all(all);
        assert_int_equal(processes_exit_code(all, rank), 0);
    }
}

/* A connection is cut, by the firewall of a network or the like. Descriptors are numbered in the order in which connections
 * are opened; `which` counts them. */
static void cut_connection(process *p, int which)
{
    int type, n = 0;
    socklen_t length = sizeof type;
    for (int fd = 3; fd < 256; fd++)
        if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && n++ == which) {
            check(p, shutdown(fd, SHUT_RDWR) == 0);
            return;
        }
    process_fail(p, __FILE__, __LINE__, "the connection was not found");
}

static int cut_and_wait(process *p)
{
    process_connect(p);
    check_code(p, agree(p), HS_OK);
    process_say(p);
    process_await(p);
    if (p->rank == 2)
        cut_connection(p, *(const int32_t *)p->all->user);
    while (agree(p) == HS_OK) /* until the detector has noticed that its connection is cut */
        continue;
    return expect_failure(p);
}

static void a_cut_connection_fails_the_group(void **state)
{
    processes *all = *state;
    for (int32_t which = 0; which < 2; which++) {
        processes_prepare(all, 4, cut_and_wait);
        all->user = &which;
        processes_start_all(all);
        processes_await_all(all);
        processes_answer_all(all);
        processes_finish_all(all);
        for (int32_t i = 0; i < 4; i++) {
            assert_int_equal(processes_exit_code(all, i), 0);
            assert_contains(all->results[i].message, "has failed: its connection has ended");
            /* the side that notices it first reports the other one */
            assert_true(all->results[i].numbers[1] == 0 || all->results[i].numbers[1] == 2);
        }
    }
}

/* Exits. */

static int exit_before_a_call(process *p)
{
    const hs_group *group = process_connect(p);
    const char *error = p->all->user;
    int32_t rank;
    check_code(p, agree(p), HS_OK);
    process_say(p);
    process_await(p);
    if (p->rank == 1) {
        hs_error reason = {0};
        if (error)
            hs_error_set(&reason, HS_INTERNAL, "%s", error);
        group->ops->report_exit(group->self, &reason);
        process_say(p);
        process_await(p);
        return process_done(p);
    }
    check(p, error || query(p, &rank) == HS_OK);
    process_say(p);
    process_await(p);
    while (error && query(p, &rank) == HS_OK)
        poll(NULL, 0, 1);
    return expect_failure(p);
}

static void exit_with(processes *all, const char *error, const char *message)
{
    processes_prepare(all, 3, exit_before_a_call);
    all->user = (void *)(uintptr_t)error;
    processes_start_all(all);
    processes_await_all(all);
    processes_answer(all, 1);
    processes_await(all, 1);
    for (int i = 0; i < 2; i++) { /* both ask the detector before one makes a call */
        processes_answer(all, 0);
        processes_answer(all, 2);
        for (int32_t rank = 0; !i && rank < 3; rank += 2)
            processes_await(all, rank);
    }
    assert_failure(all, 1, message);
    processes_answer(all, 1);
    processes_finish_all(all);
    assert_int_equal(processes_exit_code(all, 1), 0);
}

static void an_exit_with_an_error_is_reported_immediately(void **state)
{
    exit_with(*state, "hook 'nan_tensor' failed", "has failed: hook 'nan_tensor' failed");
}

static void a_normal_exit_is_a_failure_if_a_call_needs_the_rank(void **state)
{
    exit_with(*state, NULL, "rank 1 has ended, but rank ");
}

/* Limits of calls. */

static int miss_a_call(process *p)
{
    const int32_t first_missing = *(const int32_t *)p->all->user;
    const bool is_missing = first_missing ? p->rank >= first_missing : p->rank == 0;
    int32_t failed;
    process_connect(p);
    check_code(p, agree(p), HS_OK);
    if (p->rank >= first_missing) {
        process_say(p);
        process_await(p);
    }
    while (is_missing && query(p, &failed) == HS_OK) /* until its detector knows that the others gave it up */
        poll(NULL, 0, 1);
    return expect_failure(p);
}

static void a_call_ends_after_its_limit_and_names_the_missing_ranks(void **state)
{
    processes *all = *state;
    int32_t first_missing = 2;
    processes_prepare(all, 4, miss_a_call);
    all->user = &first_missing;
    all->options.collective_secs = 6;
    processes_start_all(all);
    processes_finish(all, 0);
    processes_finish(all, 1);
    processes_answer(all, 2);
    processes_answer(all, 3);
    processes_finish_all(all);
    for (int32_t i = 0; i < 4; i++) {
        assert_int_equal(processes_exit_code(all, i), 0);
        assert_string_equal(all->results[i].message,
                            "rank 2 has failed: it has not called allreduce_or within 6 s; missing ranks: 2, 3");
    }
}

/* If rank 0 is missing, no rank knows more than that. */
static void a_call_ends_if_rank_0_is_missing(void **state)
{
    processes *all = *state;
    processes_prepare(all, 3, miss_a_call);
    int32_t first_missing = 0;
    all->user = &first_missing;
    all->options.collective_secs = all->options.detector_secs = 3;
    processes_start_all(all);
    processes_await_all(all);
    processes_answer(all, 1);
    processes_answer(all, 2);
    processes_finish(all, 1);
    processes_finish(all, 2);
    processes_answer(all, 0);
    processes_finish_all(all);
    for (int32_t i = 0; i < 3; i++)
        assert_contains(all->results[i].message, "rank 0 has failed: it has not called allreduce_or within 6 s");
}

static void keep_warning(void *user, hs_log_level level, const char *text)
{
    process *p = user;
    if (level == HS_LOG_WARNING)
        snprintf(p->results->failed_check, 200, "%s", text);
}

static int wait_and_warn(process *p)
{
    const hs_env env = HS_INIT(hs_env, .logger = {keep_warning, p});
    p->options.env = &env;
    process_connect(p);
    if (p->rank == 1) { /* until it is known that rank 0 has logged */
        int32_t rank;
        while (query(p, &rank) == HS_OK)
            poll(NULL, 0, 1);
        return process_done(p);
    }
    int code = expect_failure(p);
    check(p, strncmp(p->results->failed_check, "rank 0 waits in allreduce_or since ", 35) == 0);
    check(p, strstr(p->results->failed_check, " s for these ranks: 1"));
    *p->results->failed_check = '\0';
    return code;
}

static void a_long_wait_is_logged(void **state)
{
    processes *all = *state;
    processes_prepare(all, 2, wait_and_warn);
    all->options.collective_secs = 7;
    processes_start_all(all);
    processes_finish_all(all);
    assert_int_equal(processes_exit_code(all, 0), 0);
    assert_int_equal(processes_exit_code(all, 1), 0);
}

/* The end of a process whose thread is stuck. */

enum { EXIT_CODE = 75 };

static int record_end(void *user, int32_t failed_rank, const hs_error *why)
{
    process *p = user;
    p->results->numbers[1] = failed_rank;
    p->results->numbers[2]++;
    snprintf(p->results->message, sizeof p->results->message, "%s", why->message);
    return EXIT_CODE;
}

static void silent(void *user, hs_log_level level, const char *text)
{
    (void)user, (void)level;
    test_check_line(text);
}

/* Keeps the line about the end of the process. */
static void keep_end(void *user, hs_log_level level, const char *text)
{
    process *p = user;
    silent(NULL, level, text);
    if (strstr(text, "the process ends"))
        snprintf(p->results->message, sizeof p->results->message, "%s", text);
}

static int be_stuck(process *p)
{
    const hs_env env = HS_INIT(hs_env, .logger = {keep_end, p});
    p->options.env = &env;
    const hs_group *group = process_connect(p);
    check_code(p, agree(p), HS_OK);
    group->ops->set_abandon(group->self, record_end, p);
    if (p->all->user) { /* removed */
        int32_t rank;
        group->ops->set_abandon(group->self, NULL, NULL);
        process_say(p);
        while (query(p, &rank) == HS_OK)
            poll(NULL, 0, 1);
        poll(NULL, 0, 100); /* longer than the time of grace */
    } else {
        process_say(p);
        process_await(p);
        group->ops->set_abandon(group->self, NULL, NULL);
    }
    return process_done(p);
}

static void start_stuck(processes *all)
{
    all->options.failure_grace_secs = 0.01;
    processes_start_all(all);
    processes_await_all(all);
    processes_kill(all, 1, SIGKILL);
}

static void a_stuck_process_ends_with_the_code_of_its_session(void **state)
{
    processes *all = *state;
    processes_prepare(all, 4, be_stuck);
    start_stuck(all);
    processes_finish_all(all);
    for (int32_t i = 0; i < 4; i++) {
        if (i == 1)
            continue;
        assert_int_equal(processes_exit_code(all, i), EXIT_CODE);
        assert_int_equal(all->results[i].numbers[1], 1);
        assert_int_equal(all->results[i].numbers[2], 1);
        assert_contains(all->results[i].message,
                        i ? "exit code 75: the session is still open 1.01 s after this failure: rank 1"
                          : "exit code 75: the session is still open 0.01 s after this failure: rank 1");
        assert_contains(all->results[i].message, "has failed: its connection has ended");
    }
}

/* As in a file system that hangs. */
static int hang(void *user, int32_t failed_rank, const hs_error *why)
{
    (void)user, (void)failed_rank, (void)why;
    while (pause())
        continue;
    return 0;
}

static void log_and_hang(void *user, hs_log_level level, const char *text)
{
    keep_end(user, level, text);
    hang(NULL, 0, NULL);
}

static int hang_at_the_end(process *p)
{
    const hs_env env = HS_INIT(hs_env, .logger = {log_and_hang, p});
    p->options.env = &env;
    const hs_group *group = process_connect(p);
    check_code(p, agree(p), HS_OK);
    group->ops->set_abandon(group->self, p->rank == 0 ? hang : record_end, p);
    process_say(p);
    hang(NULL, 0, NULL);
    return 0;
}

static void a_stuck_process_ends_although_its_files_and_its_log_hang(void **state)
{
    processes *all = *state;
    processes_prepare(all, 3, hang_at_the_end);
    start_stuck(all);
    processes_finish_all(all);
    for (int32_t i = 0; i < 3; i += 2) {
        assert_int_equal(processes_exit_code(all, i), EXIT_CODE);
        assert_contains(all->results[i].message, "the process ends with exit code 75");
    }
}

static void a_process_without_a_session_is_not_ended(void **state)
{
    processes *all = *state;
    processes_prepare(all, 3, be_stuck);
    all->user = all;
    start_stuck(all);
    processes_finish_all(all);
    assert_int_equal(processes_exit_code(all, 0), 0);
    assert_int_equal(processes_exit_code(all, 2), 0);
    assert_int_equal(all->results[0].numbers[2], 0);
}

/* Rank 1 fails where the others do not join it. Its call times out, and this ends the others. */
static int fail_behind_the_gate(process *p)
{
    if (p->rank == 1) {
        process_connect(p);
        check_code(p, agree(p), HS_OK);
        process_say(p);
        return expect_failure(p);
    }
    return be_stuck(p);
}

static void a_call_that_times_out_ends_the_stuck_processes(void **state)
{
    processes *all = *state;
    processes_prepare(all, 3, fail_behind_the_gate);
    all->options.collective_secs = all->options.detector_secs = 3;
    all->options.failure_grace_secs = 0.01;
    processes_start_all(all);
    processes_finish_all(all);
    assert_int_equal(processes_exit_code(all, 0), EXIT_CODE);
    assert_int_equal(processes_exit_code(all, 1), 0);
    assert_int_equal(processes_exit_code(all, 2), EXIT_CODE);
}

/* Strangers at the rendezvous. */

static int agree_once(process *p)
{
    process_connect(p);
    check_code(p, agree(p), HS_OK);
    return process_done(p);
}

typedef struct {
    char address[HS__ADDRESS_MAX];
    int fds[16];
    size_t n;
} strangers;

static int visit(strangers *s)
{
    int *fd = &s->fds[s->n++];
    while (hs__tcp_connect(s->address, 0, hs__tcp_now() + (int64_t)30000000000, fd, &err) != HS_OK)
        poll(NULL, 0, 1); /* rank 0 does not listen yet */
    return *fd;
}

static void send_bytes(int fd, const void *bytes, size_t n)
{
    assert_ok(hs__tcp_send(fd, bytes, n, INT64_MAX, &err), &err);
}

/* Registers in single bytes, and waits for the answer. */
static void register_slowly(int fd, const hs__hello *hello)
{
    unsigned char bytes[HS__HELLO_BYTES];
    hs__hello answer;
    hs__hello_write(hello, bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        send_bytes(fd, bytes + i, 1);
    assert_ok(hs__tcp_receive(fd, bytes, sizeof bytes, INT64_MAX, &err), &err);
    assert_null(hs__hello_parse(bytes, &answer));
    assert_int_equal(answer.kind, HS__HELLO_WAIT);
}

#define refused(text, ...)                                                                                                 \
    do {                                                                                                                   \
        assert_null(hs_group_tcp_new(                                                                                      \
            HS_GROUP_TCP_OPTIONS(__VA_ARGS__, .address = s.address, .job = job, .connect_secs = 2), &err));                \
        assert_says(&err, HS_UNAVAILABLE, text);                                                                           \
    } while (0)

static void strangers_do_not_disturb_the_ranks(void **state)
{
    processes *all = *state;
    strangers s = {.n = 0};
    unsigned char garbage[2 * HS__HELLO_BYTES];
    const char *job = "the job";
    hs__tcp_join(s.address, "127.0.0.1", processes_reserve_port(all));
    processes_prepare(all, 3, agree_once);
    all->options.address = s.address;
    all->options.job = job;
    processes_start(all, 0);

    visit(&s);                      /* says nothing */
    send_bytes(visit(&s), "HO", 2); /* stops */
    memset(garbage, 'x', sizeof garbage);
    send_bytes(visit(&s), garbage, HS__HELLO_BYTES);
    send_bytes(visit(&s), garbage, sizeof garbage);
    shutdown(visit(&s), SHUT_RDWR);
    hs__hello hello = {.kind = HS__HELLO_REGISTER, .rank = 1, .rank_count = 3, .token = "the job", .host = "h"};
    int first = visit(&s);
    register_slowly(first, &hello);
    int again = visit(&s); /* the same process */
    register_slowly(again, &hello);
    refused("its rank_count is 4, but that of rank 0 is 3", .rank = 2, .rank_count = 4);
    job = "another job";
    refused("it belongs to another job", .rank = 2, .rank_count = 3);
    shutdown(again, SHUT_RDWR);

    processes_start(all, 1);
    processes_start(all, 2);
    processes_finish_all(all);
    for (int32_t i = 0; i < 3; i++)
        assert_int_equal(processes_exit_code(all, i), 0);
    for (size_t i = 0; i < s.n; i++)
        hs__tcp_close(&s.fds[i]);
}

/* Exhausted memory. */

static void ignore(void *user, int32_t rank, hs_bytes bytes)
{
    (void)user, (void)rank, (void)bytes;
}

typedef struct {
    int32_t rank;
    size_t at; /* this allocation of the rank fails */
} no_memory;

static int run_out_of_memory(process *p)
{
    const no_memory *failure = p->all->user;
    hs_test_system *system = hs_test_system_new();
    check(p, system);
    const hs_env env = HS_INIT(hs_env, .allocator = hs_test_system_env(system)->allocator, .logger = {silent, NULL});
    if (p->rank == failure->rank) {
        hs_test_system_fail_allocation(system, failure->at);
        p->options.env = &env;
    }
    hs_code code = HS_OK;
    p->group = hs_group_tcp_new(&p->options, &p->err);
    if (p->group) {
        const hs_group *group = hs_group_tcp_get(p->group);
        code = agree(p);
        if (!code)
            code = group->ops->gather(group->self, (hs_bytes){"x", 1}, failure->rank, ignore, NULL, &p->err);
    }
    code = p->group ? code : p->err.code;
    check(p, code == HS_OK || code == HS_RESOURCE_EXHAUSTED || code == HS_UNAVAILABLE ||
                 (p->rank == 0 && code == HS_FAILED_PRECONDITION)); /* it is alone */
    process_done(p);
    p->results->numbers[0] = (int64_t)hs_test_system_allocations(system);
    p->results->numbers[1] = code;
    check(p, hs_test_system_live_blocks(system) == 0);
    hs_test_system_free(system);
    return 0;
}

/* Runs with this failure. Returns whether the allocation was reached: else both ranks have agreed, if they had the time. */
static bool allocation_fails(processes *all, no_memory *failure, double connect_secs)
{
    processes_prepare(all, 2, run_out_of_memory);
    all->user = failure;
    all->options.connect_secs = connect_secs; /* the other rank may wait for it in vain */
    processes_start_all(all);
    processes_finish_all(all);
    assert_int_equal(processes_exit_code(all, 0), 0);
    assert_int_equal(processes_exit_code(all, 1), 0);
    return all->results[failure->rank].numbers[0] >= (int64_t)failure->at;
}

static void each_allocation_may_fail(void **state)
{
    processes *all = *state;
    for (int32_t rank = 0; rank < 2; rank++) {
        no_memory failure = {rank, 1};
        double secs = 0.3;
        assert_true(allocation_fails(all, &failure, secs)); /* the group itself */
        assert_int_equal(all->results[rank].numbers[1], HS_RESOURCE_EXHAUSTED);
        for (bool agreed = false; !agreed;) {
            if (allocation_fails(all, &failure, secs))
                failure.at++;
            else if (all->results[0].numbers[1] || all->results[1].numbers[1])
                secs *= 2; /* a busy machine needs longer to connect */
            else
                agreed = true;
        }
        assert_in_range(failure.at, 6, 40);
    }
}

/* Random faults. */

static uint64_t next_random(uint64_t *random)
{
    uint64_t z = *random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

typedef enum { DIE, FREEZE, EXIT, FAIL, BE_STUCK, CUT, N_KINDS } kind;

static const char *const kind_names[] = {"dies", "freezes", "exits", "fails", "is stuck", "is cut off"};

typedef struct {
    uint64_t seed;
    kind kind;
    int32_t victim;
    int64_t at; /* calls before the fault */
} fault;

enum { CALLS = 60 };

/* Makes one of the calls, the same on all ranks. */
static hs_code make_call(process *p, uint64_t random, char *data, size_t most)
{
    const hs_group *group = hs_group_tcp_get(p->group);
    int32_t root = (int32_t)(random >> 8 & 0xff) % p->rank_count;
    size_t bytes = (random >> 16 & 7) ? random >> 24 & 0xff : random >> 24 & (most - 1);
    uint64_t words[4] = {random};
    switch (random % 4) {
    case 0:
        return group->ops->broadcast(group->self, data, bytes, root, &p->err);
    case 1:
        return group->ops->gather(group->self, (hs_bytes){data, bytes}, root, ignore, NULL, &p->err);
    default:
        return group->ops->allreduce_or(group->self, words, 4, &p->err);
    }
}

static void suffer(process *p, const fault *f, uint64_t random)
{
    const hs_group *group = hs_group_tcp_get(p->group);
    hs_error reason = {0};
    switch (f->kind) {
    case DIE:
        raise(SIGKILL);
        break;
    case FREEZE:
        raise(SIGSTOP);
        break;
    case FAIL:
        hs_error_set(&reason, HS_INTERNAL, "failed");
        group->ops->report_exit(group->self, &reason);
        break;
    case BE_STUCK:
        pause();
        break;
    case CUT:
        cut_connection(p, (int)(random % 2));
        break;
    default:
        break;
    }
}

static int call_until_a_failure(process *p)
{
    enum { MOST = 1 << 20 };
    const fault *f = p->all->user;
    const hs_env env = HS_INIT(hs_env, .logger = {silent, NULL});
    uint64_t random = f->seed;
    int32_t rank;
    hs_code code = HS_OK;
    char *data = calloc(1, MOST);
    check(p, data);
    p->options.env = &env;
    const hs_group *group = process_connect(p);
    group->ops->set_abandon(group->self, record_end, p);
    for (int64_t i = 0; i < CALLS && !code; i++) {
        if (p->rank == f->victim && i == f->at) {
            suffer(p, f, random);
            if (f->kind == EXIT || f->kind == FAIL)
                break;
        }
        code = make_call(p, next_random(&random), data, MOST);
        p->results->numbers[0] += code == HS_OK;
    }
    group->ops->set_abandon(group->self, NULL, NULL);
    if (code) {
        check_code(p, code, HS_UNAVAILABLE);
        check_code(p, query(p, &rank), HS_UNAVAILABLE);
        check(p, f->kind == CUT || rank == f->victim);
        group->ops->report_exit(group->self, &p->err);
    }
    free(data);
    return process_done(p);
}

static void run_fault(processes *all, uint64_t seed)
{
    uint64_t random = seed;
    int32_t rank_count = (int32_t)(next_random(&random) % 7) + 2;
    fault f = {.seed = seed,
               .kind = (kind)(next_random(&random) % N_KINDS),
               .victim = (int32_t)(next_random(&random) % (uint64_t)rank_count),
               .at = (int64_t)(next_random(&random) % CALLS)};
    processes_prepare(all, rank_count, call_until_a_failure);
    all->user = &f;
    if (f.kind == FREEZE)
        all->options.detector_secs = 4;
    if (f.kind == BE_STUCK) {
        all->options.collective_secs = 4;
        all->options.failure_grace_secs = 2; /* in which the others must end on a busy machine, too */
    }
    processes_start_all(all);
    bool is_needed = false;
    for (int32_t i = 0; i < rank_count; i++)
        if (i != f.victim) {
            processes_finish(all, i);
            is_needed = is_needed || all->results[i].numbers[0] < CALLS;
        }
    /* no rank may need a rank that is stuck late: data of rank 0 for it is sent */
    bool is_killed = f.kind == FREEZE || (f.kind == BE_STUCK && !is_needed);
    if (is_killed)
        processes_kill(all, f.victim, SIGKILL);
    processes_finish_all(all);
    for (int32_t i = 0; i < rank_count; i++) {
        int exit_code = processes_exit_code(all, i), wanted = 0;
        if (i == f.victim)
            wanted = f.kind == DIE || is_killed ? -SIGKILL : f.kind == BE_STUCK ? EXIT_CODE : 0;
        bool completed = all->results[i].numbers[0] >= all->results[f.victim].numbers[0] || f.kind == CUT;
        if (exit_code != wanted || !completed)
            fail_msg("seed %llu: %d ranks, rank %d %s after %d calls: rank %d ends with %d after %d calls",
                     (unsigned long long)seed, (int)rank_count, (int)f.victim, kind_names[f.kind], (int)f.at, (int)i,
                     exit_code, (int)all->results[i].numbers[0]);
    }
}

/* HOOKSESS_FAULTS: the number of faults. HOOKSESS_FAULT_SEED: the seed of the first one. */
static uint64_t number_from(const char *variable, uint64_t otherwise)
{
    const char *text = getenv(variable);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

static void after_random_faults_all_processes_end(void **state)
{
    uint64_t first = number_from("HOOKSESS_FAULT_SEED", 1), n = number_from("HOOKSESS_FAULTS", 20);
    for (uint64_t seed = first; seed < first + n; seed++)
        run_fault(*state, seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_processes(a_killed_rank_is_known_on_all_ranks),
        with_processes(a_frozen_rank_is_known_after_the_limit),
        with_processes(a_cut_connection_fails_the_group),
        with_processes(an_exit_with_an_error_is_reported_immediately),
        with_processes(a_normal_exit_is_a_failure_if_a_call_needs_the_rank),
        with_processes(a_call_ends_after_its_limit_and_names_the_missing_ranks),
        with_processes(a_call_ends_if_rank_0_is_missing),
        with_processes(a_long_wait_is_logged),
        with_processes(a_stuck_process_ends_with_the_code_of_its_session),
        with_processes(a_stuck_process_ends_although_its_files_and_its_log_hang),
        with_processes(a_process_without_a_session_is_not_ended),
        with_processes(a_call_that_times_out_ends_the_stuck_processes),
        with_processes(strangers_do_not_disturb_the_ranks),
        with_processes(each_allocation_may_fail),
        with_processes(after_random_faults_all_processes_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
