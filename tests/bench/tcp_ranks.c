/* SPDX-License-Identifier: Apache-2.0 */
/* Forks 8 processes that are a group over TCP, and also have the connections of a bare star: rank 0 reads 32 bytes from
 * each other rank, and writes 32 bytes to each. */
#include "tcp_ranks.h"

#include <hooksess/group_tcp.h>

#include "bench.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 8, WORDS = 4, CALLS = 1000, DEATHS = 5, VICTIM = 3 };

/* Shared by all processes. */
typedef struct {
    int sockets[RANKS][2]; /* of the star: rank 0's side, and the other side */
    double bare_us[BENCH_ROUNDS], group_us[BENCH_ROUNDS];
    atomic_int n_ready;
    double known[RANKS]; /* when the death was known */
} shared;

static void fail(const char *what)
{
    fprintf(stderr, "bench: %s\n", what);
    _exit(1);
}

static void transfer(int fd, void *data, bool receive)
{
    for (size_t done = 0; done < WORDS * sizeof(uint64_t);) {
        char *at = (char *)data + done;
        size_t left = WORDS * sizeof(uint64_t) - done;
        ssize_t n = receive ? recv(fd, at, left, 0) : send(fd, at, left, MSG_NOSIGNAL);
        if (n <= 0)
            fail("the star is broken");
        done += (size_t)n;
    }
}

static void agree_in_star(const shared *s, int rank, uint64_t words[WORDS])
{
    if (rank) {
        transfer(s->sockets[rank][1], words, false);
        transfer(s->sockets[rank][1], words, true);
        return;
    }
    uint64_t other[WORDS];
    for (int i = 1; i < RANKS; i++) {
        transfer(s->sockets[i][0], other, true);
        for (int j = 0; j < WORDS; j++)
            words[j] |= other[j];
    }
    for (int i = 1; i < RANKS; i++)
        transfer(s->sockets[i][0], words, false);
}

static void agree_in_group(const hs_group *group, uint64_t words[WORDS])
{
    hs_error err;
    if (group->ops->allreduce_or(group->self, words, WORDS, &err) != HS_OK)
        fail(err.message);
}

static void measure_calls(shared *s, int rank, const hs_group *group)
{
    uint64_t words[WORDS] = {1};
    for (int round = 0; round < BENCH_ROUNDS; round++) {
        double start = bench_now();
        for (int i = 0; i < CALLS; i++)
            agree_in_star(s, rank, words);
        double middle = bench_now();
        for (int i = 0; i < CALLS; i++)
            agree_in_group(group, words);
        if (rank == 0) {
            s->bare_us[round] = (middle - start) / CALLS * 1e6;
            s->group_us[round] = (bench_now() - middle) / CALLS * 1e6;
        }
    }
}

static void await_death(shared *s, int rank, const hs_group *group)
{
    int32_t failed;
    hs_error err;
    uint64_t words[WORDS] = {1};
    agree_in_group(group, words);
    atomic_fetch_add(&s->n_ready, 1);
    while (group->ops->query_failed_rank(group->self, &failed, &err) == HS_OK)
        poll(NULL, 0, 1);
    s->known[rank] = bench_now();
}

static void run_rank(shared *s, int rank, const char *directory, bool dies)
{
    hs_error err = {0};
    hs_group_tcp *tcp = hs_group_tcp_new(
        HS_GROUP_TCP_OPTIONS(.rank = rank, .rank_count = RANKS, .rendezvous_dir = directory, .address = "127.0.0.1:0"),
        &err);
    if (!tcp)
        fail(err.message);
    (dies ? await_death : measure_calls)(s, rank, hs_group_tcp_get(tcp));
    hs_group_tcp_free(tcp);
}

static void start_ranks(shared *s, const char *directory, bool dies, pid_t pids[RANKS])
{
    for (int i = 0; i < RANKS; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            run_rank(s, i, directory, dies);
            _exit(0);
        }
    }
}

static void finish_ranks(const pid_t pids[RANKS])
{
    for (int i = 0; i < RANKS; i++) {
        int status = 0;
        waitpid(pids[i], &status, 0);
        if (WIFEXITED(status) && WEXITSTATUS(status))
            fail("a rank has failed");
    }
}

static void make_star(shared *s)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, RANKS) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &length) != 0)
        fail("cannot listen");
    for (int i = 1; i < RANKS; i++) {
        s->sockets[i][1] = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(s->sockets[i][1], (struct sockaddr *)&address, length) != 0)
            fail("cannot connect");
        s->sockets[i][0] = accept(listener, NULL, NULL);
        for (int j = 0; j < 2; j++)
            setsockopt(s->sockets[i][j], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    close(listener);
}

/* Kills a rank, and returns the milliseconds until all others know it. */
static double measure_death(shared *s, const char *directory)
{
    pid_t pids[RANKS];
    double last = 0;
    atomic_store(&s->n_ready, 0);
    start_ranks(s, directory, true, pids);
    while (atomic_load(&s->n_ready) < RANKS)
        poll(NULL, 0, 1);
    double start = bench_now();
    kill(pids[VICTIM], SIGKILL);
    finish_ranks(pids);
    for (int i = 0; i < RANKS; i++)
        last = i != VICTIM && s->known[i] > last ? s->known[i] : last;
    return (last - start) * 1e3;
}

void bench_tcp_ranks(void)
{
    char directory[] = "/tmp/hooksess-bench-XXXXXX";
    pid_t pids[RANKS];
    double ratio[BENCH_ROUNDS], deaths[DEATHS];
    shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s == MAP_FAILED || !mkdtemp(directory))
        fail("no memory or directory");
    make_star(s);
    start_ranks(s, directory, false, pids);
    finish_ranks(pids);
    for (int i = 0; i < BENCH_ROUNDS; i++)
        ratio[i] = s->group_us[i] / s->bare_us[i];
    for (int i = 0; i < DEATHS; i++)
        deaths[i] = measure_death(s, directory);
    bench_print("tcp_star_us", bench_median(s->bare_us, BENCH_ROUNDS), "us");
    bench_print("tcp_agreement_us", bench_median(s->group_us, BENCH_ROUNDS), "us");
    bench_print("tcp_over_star", bench_median(ratio, BENCH_ROUNDS), "1");
    bench_print("death_known_ms", bench_median(deaths, DEATHS), "ms");
    for (int i = 1; i < RANKS; i++)
        for (int j = 0; j < 2; j++)
            close(s->sockets[i][j]);
    munmap(s, sizeof *s);
    rmdir(directory);
}
