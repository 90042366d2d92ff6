/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "replicas/processes.h"

#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHECK_FAILED = 99 };

int processes_setup(void **state)
{
    processes *all = calloc(1, sizeof *all);
    assert_non_null(all);
    all->directory = test_make_directory();
    all->results =
        mmap(NULL, PROCESSES_MAX * sizeof *all->results, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(all->results != MAP_FAILED);
    for (int i = 0; i < PROCESSES_MAX; i++)
        all->pids[i] = -1;
    for (int i = 0; i < PROCESSES_PORTS; i++)
        all->reserved[i] = -1;
    *state = all;
    return 0;
}

static void close_pipes(processes *all, int32_t rank)
{
    close(all->said[rank][0]);
    close(all->answers[rank][1]);
}

/* Ends ranks that still run, because a test failed. */
static void end_all(processes *all)
{
    for (int32_t i = 0; i < PROCESSES_MAX; i++)
        if (all->pids[i] > 0) {
            kill(all->pids[i], SIGKILL);
            waitpid(all->pids[i], NULL, 0);
            all->pids[i] = -1;
            close_pipes(all, i);
        }
}

static void release_ports(processes *all)
{
    for (int i = 0; i < PROCESSES_PORTS; i++) {
        close(all->reserved[i]);
        all->reserved[i] = -1;
    }
}

int processes_teardown(void **state)
{
    processes *all = *state;
    end_all(all);
    release_ports(all);
    munmap(all->results, PROCESSES_MAX * sizeof *all->results);
    test_remove_directory((char *)(uintptr_t)all->directory);
    free(all);
    return 0;
}

void processes_prepare(processes *all, int32_t rank_count, process_main body)
{
    end_all(all);
    test_empty_directory(all->directory);
    memset(all->results, 0, PROCESSES_MAX * sizeof *all->results);
    all->rank_count = rank_count;
    all->main = body;
    all->options = (hs_group_tcp_options)HS_INIT(hs_group_tcp_options, .rank_count = rank_count);
}

/* Binds a socket that does not listen. Others can then bind to the same port if they set SO_REUSEADDR, which is set here
 * only after a check that the port is free. Returns -1 if it is in use. */
static int reserve(int *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    assert_true(fd >= 0);
    address.sin_port = htons((uint16_t)*port);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        close(fd);
        return -1;
    }
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

int processes_reserve_port(processes *all)
{
    for (;;) {
        int first = 0, n = 1;
        release_ports(all);
        all->reserved[0] = reserve(&first);
        assert_true(all->reserved[0] >= 0);
        while (n < PROCESSES_PORTS && first + n <= UINT16_MAX && (all->reserved[n] = reserve(&(int){first + n})) >= 0)
            n++;
        if (n == PROCESSES_PORTS)
            return first;
    }
}

static int run(processes *all, int32_t rank)
{
    process p = {
        .all = all, .rank = rank, .rank_count = all->rank_count, .options = all->options, .results = &all->results[rank]};
    p.options.rank = rank;
    if (!p.options.address && !p.options.exchange)
        p.options.rendezvous_dir = all->directory;
    return all->main(&p);
}

void processes_start(processes *all, int32_t rank)
{
    assert_int_equal(pipe(all->said[rank]), 0);
    assert_int_equal(pipe(all->answers[rank]), 0);
    all->statuses[rank] = -1;
    fflush(stdout);
    fflush(stderr);
    pid_t parent = getpid();
    all->pids[rank] = fork();
    assert_true(all->pids[rank] >= 0);
    if (all->pids[rank] == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        close(all->said[rank][0]);
        close(all->answers[rank][1]);
        int code = run(all, rank);
        fflush(stderr);
        _exit(code);
    }
    close(all->said[rank][1]);
    close(all->answers[rank][0]);
}

void processes_start_all(processes *all)
{
    for (int32_t i = 0; i < all->rank_count; i++)
        processes_start(all, i);
}

static bool read_byte(int fd)
{
    char byte;
    ssize_t n;
    do
        n = read(fd, &byte, 1);
    while (n < 0 && errno == EINTR);
    return n == 1;
}

static void fail_check(const processes *all, int32_t rank)
{
    if (*all->results[rank].failed_check)
        fail_msg("rank %d: %s", (int)rank, all->results[rank].failed_check);
}

void processes_await(processes *all, int32_t rank)
{
    if (!read_byte(all->said[rank][0])) {
        fail_check(all, rank);
        fail_msg("rank %d has ended", (int)rank);
    }
}

void processes_await_all(processes *all)
{
    for (int32_t i = 0; i < all->rank_count; i++)
        processes_await(all, i);
}

void processes_answer(processes *all, int32_t rank)
{
    assert_int_equal(write(all->answers[rank][1], "", 1), 1);
}

void processes_answer_all(processes *all)
{
    for (int32_t i = 0; i < all->rank_count; i++)
        processes_answer(all, i);
}

void processes_kill(processes *all, int32_t rank, int signal)
{
    assert_int_equal(kill(all->pids[rank], signal), 0);
}

void processes_finish(processes *all, int32_t rank)
{
    if (all->pids[rank] <= 0)
        return;
    assert_int_equal(waitpid(all->pids[rank], &all->statuses[rank], 0), all->pids[rank]);
    all->pids[rank] = -1;
    close_pipes(all, rank);
    fail_check(all, rank);
}

void processes_finish_all(processes *all)
{
    for (int32_t i = 0; i < PROCESSES_MAX; i++)
        processes_finish(all, i);
}

int processes_exit_code(const processes *all, int32_t rank)
{
    int status = all->statuses[rank];
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void process_say(process *p)
{
    if (write(p->all->said[p->rank][1], "", 1) != 1)
        process_fail(p, __FILE__, __LINE__, "the test does not listen");
}

void process_await(process *p)
{
    if (!read_byte(p->all->answers[p->rank][0]))
        process_fail(p, __FILE__, __LINE__, "the test does not answer");
}

const hs_group *process_connect(process *p)
{
    p->group = hs_group_tcp_new(&p->options, &p->err);
    check(p, p->group);
    return hs_group_tcp_get(p->group);
}

int process_done(process *p)
{
    hs_group_tcp_free(p->group);
    p->group = NULL;
    return 0;
}

void process_fail(process *p, const char *file, int line, const char *what)
{
    snprintf(p->results->failed_check, sizeof p->results->failed_check, "%s:%d: %s: %.700s", file, line, what,
             p->err.message);
    _exit(CHECK_FAILED);
}

int process_agree_if_in_time(process *p)
{
    uint64_t word = UINT64_C(1) << p->rank;
    hs_code code = HS_UNAVAILABLE;
    if ((p->group = hs_group_tcp_new(&p->options, &p->err))) {
        const hs_group *group = hs_group_tcp_get(p->group);
        code = group->ops->allreduce_or(group->self, &word, 1, &p->err);
        check(p, code || word == (UINT64_C(1) << p->rank_count) - 1);
    }
    check(p, code == p->err.code && (code == HS_OK || code == HS_UNAVAILABLE));
    p->results->numbers[0] = code;
    return process_done(p);
}

bool processes_were_in_time(processes *all)
{
    bool were = true;
    processes_finish_all(all);
    for (int32_t i = 0; i < all->rank_count; i++) {
        assert_int_equal(processes_exit_code(all, i), 0);
        were &= all->results[i].numbers[0] == HS_OK;
    }
    return were;
}
