/* SPDX-License-Identifier: Apache-2.0 */
/* A group over TCP without failures: the contract of group.h, on 1 to 20 processes, and the ways to find rank 0. */
#include "replicas/processes.h"

#include "ranks/group_tcp_address.h"
#include "ranks/group_tcp_socket.h"

#include <hooksess/testing.h>

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static hs_error err;

/* The contract. */

static unsigned char byte_of(int32_t rank, size_t i)
{
    return (unsigned char)((size_t)rank * 31 + i * 7 + (i >> 12));
}

static unsigned char *make_bytes(int32_t rank, size_t n)
{
    unsigned char *bytes = malloc(n + 1);
    for (size_t i = 0; bytes && i < n; i++)
        bytes[i] = byte_of(rank, i);
    return bytes;
}

static void reduce_words(process *p, const hs_group *group)
{
    for (size_t n = 0; n <= 8; n++) {
        uint64_t words[8];
        for (size_t i = 0; i < n; i++)
            words[i] = UINT64_C(1) << p->rank << i;
        check_code(p, group->ops->allreduce_or(group->self, n ? words : NULL, n, &p->err), HS_OK);
        for (size_t i = 0; i < n; i++)
            check(p, words[i] == ((UINT64_C(1) << p->rank_count) - 1) << i);
    }
}

static void broadcast_bytes(process *p, const hs_group *group, int32_t root, size_t n)
{
    unsigned char *bytes = make_bytes(p->rank, n);
    check(p, bytes);
    check_code(p, group->ops->broadcast(group->self, bytes, n, root, &p->err), HS_OK);
    for (size_t i = 0; i < n; i++)
        check(p, bytes[i] == byte_of(root, i));
    free(bytes);
}

typedef struct {
    process *p;
    int32_t next;
    size_t unit;
} gathered;

static void receive(void *user, int32_t rank, hs_bytes bytes)
{
    gathered *g = user;
    check(g->p, rank == g->next++);
    check(g->p, bytes.size == g->unit * (size_t)rank);
    for (size_t i = 0; i < bytes.size; i++)
        check(g->p, ((const unsigned char *)bytes.data)[i] == byte_of(rank, i));
}

static void gather_bytes(process *p, const hs_group *group, int32_t root, size_t unit)
{
    gathered g = {p, 0, unit};
    hs_bytes mine = {make_bytes(p->rank, unit * (size_t)p->rank), unit * (size_t)p->rank};
    hs_gather_fn function = p->rank == root ? receive : NULL;
    check_code(p, group->ops->gather(group->self, mine, root, function, &g, &p->err), HS_OK);
    check(p, g.next == (p->rank == root ? p->rank_count : 0));
    free((void *)(uintptr_t)mine.data);
}

static int make_all_calls(process *p)
{
    const hs_group *group = process_connect(p);
    int32_t failed;
    check(p, group->ops->rank(group->self) == p->rank);
    check(p, group->ops->rank_count(group->self) == p->rank_count);
    for (int32_t root = 0; root < p->rank_count; root++) {
        static const size_t sizes[] = {0, 1, 1000, 300000};
        reduce_words(p, group);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            broadcast_bytes(p, group, root, sizes[i]);
            gather_bytes(p, group, root, sizes[i] / 8);
        }
    }
    broadcast_bytes(p, group, p->rank_count - 1, 5000000);
    gather_bytes(p, group, p->rank_count - 1, 300000);
    gather_bytes(p, group, 0, 300000);
    check_code(p, group->ops->query_failed_rank(group->self, &failed, &p->err), HS_OK);
    check(p, failed == -1);
    group->ops->report_exit(group->self, &(const hs_error){0});
    return process_done(p);
}

static void run_all(processes *all, int32_t rank_count, process_main body)
{
    processes_prepare(all, rank_count, body);
    processes_start_all(all);
    processes_finish_all(all);
    for (int32_t i = 0; i < rank_count; i++)
        assert_int_equal(processes_exit_code(all, i), 0);
}

static void all_calls_work_on_1_to_20_ranks(void **state)
{
    static const int32_t counts[] = {1, 2, 4, 8, 20};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        run_all(*state, counts[i], make_all_calls);
}

/* Rank 0 is ahead by many calls; the others still complete them after it has ended. */
static int run_ahead(process *p)
{
    const hs_group *group = process_connect(p);
    char bytes[1000];
    if (p->rank) {
        process_say(p);
        process_await(p);
    }
    for (int i = 0; i < 20; i++) {
        memset(bytes, p->rank ? 0 : i, sizeof bytes);
        check_code(p, group->ops->broadcast(group->self, bytes, sizeof bytes, 0, &p->err), HS_OK);
        check(p, bytes[999] == i);
    }
    return process_done(p);
}

static void calls_of_a_rank_that_has_ended_complete(void **state)
{
    processes *all = *state;
    processes_prepare(all, 3, run_ahead);
    processes_start_all(all);
    processes_await(all, 1);
    processes_await(all, 2);
    processes_finish(all, 0);
    processes_answer(all, 1);
    processes_answer(all, 2);
    processes_finish_all(all);
    for (int32_t i = 0; i < 3; i++)
        assert_int_equal(processes_exit_code(all, i), 0);
}

static int call_differently(process *p)
{
    const hs_group *group = process_connect(p);
    uint64_t word = 0;
    hs_code code = p->rank ? group->ops->gather(group->self, (hs_bytes){&word, 8}, 0, NULL, NULL, &p->err)
                           : group->ops->allreduce_or(group->self, &word, 1, &p->err);
    check(p, p->rank || code == HS_INTERNAL);
    snprintf(p->results->message, sizeof p->results->message, "%s", p->err.message);
    check_code(p, group->ops->allreduce_or(group->self, &word, 1, &p->err), HS_UNAVAILABLE);
    return process_done(p);
}

static void different_calls_are_an_error(void **state)
{
    processes *all = *state;
    run_all(all, 2, call_differently);
    assert_string_equal(all->results[0].message,
                        "rank 1 calls gather with root 0, but rank 0 calls allreduce_or with root 0");
}

/* The ways to find rank 0. */

static int agree(process *p)
{
    const hs_group *group = process_connect(p);
    uint64_t word = UINT64_C(1) << p->rank;
    check_code(p, group->ops->allreduce_or(group->self, &word, 1, &p->err), HS_OK);
    check(p, word == (UINT64_C(1) << p->rank_count) - 1);
    return process_done(p);
}

/* Writes an address on which no process listens. */
static void make_address(processes *all, char address[HS__ADDRESS_MAX])
{
    hs__tcp_join(address, "127.0.0.1", processes_reserve_port(all));
}

static bool listens_on_all_interfaces(const char *host)
{
    hs__tcp_listener listener;
    struct sockaddr_storage bound = {0};
    socklen_t length = sizeof bound;
    assert_ok(hs__tcp_listen(host, 0, &listener, &err), &err);
    assert_int_equal(getsockname(listener.fds[0], (struct sockaddr *)&bound, &length), 0);
    hs__tcp_stop_listening(&listener);
    const struct sockaddr_in *v4 = (const void *)&bound;
    const struct sockaddr_in6 *v6 = (const void *)&bound;
    return bound.ss_family == AF_INET6 ? IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr) : v4->sin_addr.s_addr == INADDR_ANY;
}

/* /etc/hosts of Debian gives the machine's own name the address 127.0.1.1, which other machines cannot reach. */
static void a_machine_that_knows_itself_as_loopback_listens_on_all_interfaces(void **state)
{
    (void)state;
    assert_false(listens_on_all_interfaces("127.0.0.1"));
    assert_false(listens_on_all_interfaces("localhost"));
    assert_true(listens_on_all_interfaces("2130706433")); /* 127.0.0.1 as one number, which needs no entry in /etc/hosts */
}

static void ranks_connect_by_an_address(void **state)
{
    processes *all = *state;
    char address[HS__ADDRESS_MAX];
    make_address(all, address);
    processes_prepare(all, 4, agree);
    all->options.address = address;
    all->options.job = "the job of this test";
    for (int32_t i = 3; i >= 0; i--) /* rank 0 is the last */
        processes_start(all, i);
    processes_finish_all(all);
    for (int32_t i = 0; i < 4; i++)
        assert_int_equal(processes_exit_code(all, i), 0);
}

static void keep_warning(void *user, hs_log_level level, const char *text)
{
    process *p = user;
    if (level != HS_LOG_WARNING || *p->results->message)
        return;
    snprintf(p->results->message, sizeof p->results->message, "%s", text);
    process_say(p);
}

static int agree_and_keep_a_warning(process *p)
{
    const hs_env env = HS_INIT(hs_env, .logger = {keep_warning, p});
    p->options.env = &env;
    return agree(p);
}

static void a_long_wait_for_connections_is_logged(void **state)
{
    processes *all = *state;
    processes_prepare(all, 3, agree_and_keep_a_warning);
    processes_start(all, 0);
    processes_await(all, 0); /* from the logger */
    assert_contains(all->results[0].message, "rank 0 waits since ");
    assert_contains(all->results[0].message, " s until these ranks are connected: 1, 2");
    processes_start(all, 1);
    processes_start(all, 2);
    processes_finish_all(all);
    for (int32_t i = 0; i < 3; i++)
        assert_int_equal(processes_exit_code(all, i), 0);
}

static void the_file_is_private_and_is_removed(void **state)
{
    processes *all = *state;
    struct stat file;
    const char *path = test_path(all->directory, ".hooksess-rendezvous");
    processes_prepare(all, 2, agree);
    all->options.address = "127.0.0.1:0";
    all->options.rendezvous_dir = all->directory;
    processes_start(all, 0);
    while (stat(path, &file) != 0)
        poll(NULL, 0, 1);
    assert_int_equal(file.st_mode & 0777, 0600);
    processes_start(all, 1);
    processes_finish_all(all);
    assert_int_equal(processes_exit_code(all, 0), 0);
    assert_int_equal(processes_exit_code(all, 1), 0);
    assert_int_equal(test_count_files(all->directory, "rendezvous"), 0);
}

static int expect_a_later_run(process *p)
{
    check(p, !hs_group_tcp_new(&p->options, &p->err));
    check(p, p->err.code == HS_UNAVAILABLE && strstr(p->err.message, "another rank 0 has replaced '"));
    return 0;
}

static void a_rank_0_whose_file_a_later_run_replaces_ends(void **state)
{
    static const char later[] = "127.0.0.1:1\n0123456789abcdef\n\n";
    processes *all = *state;
    struct stat file;
    const char *path = test_path(all->directory, ".hooksess-rendezvous");
    processes_prepare(all, 2, expect_a_later_run);
    processes_start(all, 0);
    while (stat(path, &file) != 0)
        poll(NULL, 0, 1);
    test_write_file(path, later, sizeof later - 1);
    processes_finish_all(all);
    assert_int_equal(processes_exit_code(all, 0), 0);
    assert_int_equal(test_count_files(all->directory, "rendezvous"), 1); /* the file of the later run stays */
}

static int free_inherited(void *group)
{
    hs_group_tcp_free(group);
    return 0;
}

/* Both ranks fork a child that frees the group, and make their calls. */
static int fork_and_agree(process *p)
{
    const hs_group *group = process_connect(p);
    for (int i = 0; i < 3; i++) {
        uint64_t word = (uint64_t)1 << p->rank;
        check(p, test_in_child(free_inherited, p->group) == 0);
        check_code(p, group->ops->allreduce_or(group->self, &word, 1, &p->err), HS_OK);
        check(p, word == 3);
    }
    return process_done(p);
}

static void a_forked_child_does_not_free_the_group(void **state)
{
    processes *all = *state;
    processes_prepare(all, 2, fork_and_agree);
    processes_start_all(all);
    processes_finish_all(all);
    assert_int_equal(processes_exit_code(all, 0), 0);
    assert_int_equal(processes_exit_code(all, 1), 0);
}

static int meet_without_room(process *p)
{
    signal(SIGXFSZ, SIG_DFL);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){.rlim_cur = 0, .rlim_max = 0});
    check(p, !hs_group_tcp_new(&p->options, &p->err));
    check(p, p->err.code == HS_RESOURCE_EXHAUSTED && strstr(p->err.message, "cannot write '"));
    return 0;
}

static void a_limit_of_file_sizes_is_an_error(void **state)
{
    processes *all = *state;
    processes_prepare(all, 2, meet_without_room);
    processes_start(all, 0);
    processes_finish_all(all);
    assert_int_equal(processes_exit_code(all, 0), 0);
}

static void files_that_an_earlier_run_left_are_ignored(void **state)
{
    processes *all = *state;
    char address[HS__ADDRESS_MAX], text[HS__ADDRESS_MAX + 64];
    hs__tcp_listener listener;
    /* a process listens there, but never answers */
    assert_ok(hs__tcp_listen("127.0.0.1", 0, &listener, &err), &err);
    hs__tcp_join(address, "127.0.0.1", listener.port);
    snprintf(text, sizeof text, "%s\n0123456789abcdef\n\n", address);
    const char *const contents[] = {text, "", "x", "127.0.0.1:1\nabc\n", "127.0.0.1:1\nabc\n\n", "nothing:\n\n\n"};
    double secs = 4; /* an attempt takes at most a quarter of this */
    for (size_t i = 0; i < sizeof contents / sizeof *contents;) {
        processes_prepare(all, 2, process_agree_if_in_time);
        all->options.connect_secs = secs;
        test_write_file(test_path(all->directory, ".hooksess-rendezvous"), contents[i], strlen(contents[i]));
        processes_start(all, 1);
        processes_start(all, 0);
        if (processes_were_in_time(all))
            i++;
        else
            secs *= 2;
    }
    hs__tcp_stop_listening(&listener);
}

/* Copies data from rank 0 to the other ranks through pipes. */

enum { PIPES = 3 };

typedef struct {
    int pipes[PIPES][2];
    int32_t rank;
    hs_code code;
} exchange;

static hs_code copy_from_rank_0(void *user, void *data, size_t bytes, hs_error *error)
{
    exchange *e = user;
    if (e->code)
        return hs_error_set(error, e->code, "the exchange is broken");
    if (e->rank)
        return read(e->pipes[e->rank][0], data, bytes) == (ssize_t)bytes ? HS_OK : HS_INTERNAL;
    for (int32_t i = 1; i < PIPES; i++)
        if (write(e->pipes[i][1], data, bytes) != (ssize_t)bytes)
            return HS_INTERNAL;
    return HS_OK;
}

static int exchange_and_agree(process *p)
{
    ((exchange *)p->options.exchange_user)->rank = p->rank;
    return agree(p);
}

static void ranks_connect_by_a_function_of_the_program(void **state)
{
    processes *all = *state;
    exchange e = {.code = HS_OK};
    for (int i = 0; i < PIPES; i++)
        assert_int_equal(pipe(e.pipes[i]), 0);
    processes_prepare(all, PIPES, exchange_and_agree);
    all->options.exchange = copy_from_rank_0;
    all->options.exchange_user = &e;
    processes_start_all(all);
    processes_finish_all(all);
    for (int32_t i = 0; i < PIPES; i++) {
        assert_int_equal(processes_exit_code(all, i), 0);
        close(e.pipes[i][0]);
        close(e.pipes[i][1]);
    }
}

static void an_error_of_the_function_is_returned(void **state)
{
    exchange e = {.code = HS_USER + 1};
    (void)state;
    for (e.rank = 0; e.rank < 2; e.rank++) {
        assert_null(hs_group_tcp_new(
            HS_GROUP_TCP_OPTIONS(.rank = e.rank, .rank_count = 2, .exchange = copy_from_rank_0, .exchange_user = &e),
            &err));
        assert_says(&err, HS_USER + 1, "the exchange is broken");
    }
}

static void one_rank_needs_no_other(void **state)
{
    hs_group_tcp *tcp;
    int32_t rank;
    (void)state;
    assert_clears(&err, tcp = hs_group_tcp_new(HS_GROUP_TCP_OPTIONS(.rank_count = 1), &err));
    const hs_group *group = hs_group_tcp_get(tcp);
    gathered g = {.unit = 1};
    assert_ok(group->ops->broadcast(group->self, NULL, 0, 0, &err), &err);
    assert_ok(group->ops->gather(group->self, (hs_bytes){NULL, 0}, 0, receive, &g, &err), &err);
    assert_int_equal(g.next, 1);
    group->ops->set_abandon(group->self, NULL, NULL);
    group->ops->report_exit(group->self, test_error(HS_INTERNAL, "failed"));
    assert_ok(group->ops->query_failed_rank(group->self, &rank, &err), &err);
    assert_int_equal(rank, -1);
    hs_group_tcp_free(tcp);
}

/* The environment of launchers. */

static const char *const variables[] = {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE",
                                        "SLURM_PROCID",         "SLURM_NTASKS",         "RANK",     "WORLD_SIZE",
                                        "MASTER_ADDR",          "MASTER_PORT"};
static const char *const names_of_starts[] = {"PMIX_NAMESPACE", "PMI_JOBID",     "TORCHELASTIC_RUN_ID",
                                              "SLURM_JOB_ID",   "SLURM_STEP_ID", "SLURM_RESTART_COUNT"};

static void clear_environment(void)
{
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        unsetenv(variables[i]);
    for (size_t i = 0; i < sizeof names_of_starts / sizeof *names_of_starts; i++)
        unsetenv(names_of_starts[i]);
}

static int master_port;

static int agree_by_environment(process *p)
{
    const char *const *names = p->all->user;
    char number[16];
    hs_group_tcp_options options = HS_INIT(hs_group_tcp_options, .connect_secs = 3600);
    clear_environment();
    snprintf(number, sizeof number, "%d", (int)p->rank);
    setenv(names[0], number, 1);
    snprintf(number, sizeof number, "%d", (int)p->rank_count);
    setenv(names[1], number, 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    snprintf(number, sizeof number, "%d", master_port);
    setenv("MASTER_PORT", number, 1);
    setenv("SLURM_STEP_ID", "0", 1);
    /* longer than a name */
    setenv("TORCHELASTIC_RUN_ID", "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n", 1);
    setenv("PMIX_NAMESPACE", "\x01\x80", 1);
    p->group = hs_group_tcp_from_env(&options, &p->err);
    check(p, p->group);
    const hs_group *group = hs_group_tcp_get(p->group);
    check(p, group->ops->rank(group->self) == p->rank);
    check_code(p, group->ops->allreduce_or(group->self, NULL, 0, &p->err), HS_OK);
    return process_done(p);
}

/* The store of torchrun holds MASTER_PORT. The group uses the next port. */
static void ranks_connect_by_the_environment_of_each_launcher_next_to_a_store(void **state)
{
    processes *all = *state;
    hs__tcp_listener store;
    master_port = processes_reserve_port(all);
    assert_ok(hs__tcp_listen("127.0.0.1", master_port, &store, &err), &err);
    for (size_t i = 0; i < 8; i += 2) {
        processes_prepare(all, 2, agree_by_environment);
        all->user = (void *)(uintptr_t)(variables + i);
        processes_start_all(all);
        processes_finish_all(all);
        assert_int_equal(processes_exit_code(all, 0), 0);
        assert_int_equal(processes_exit_code(all, 1), 0);
    }
    hs__tcp_stop_listening(&store);
}

static void fails_from_environment(const char *text)
{
    assert_null(hs_group_tcp_from_env(HS_GROUP_TCP_OPTIONS(.env = NULL), &err));
    assert_says(&err, HS_INVALID_ARGUMENT, text);
}

static void an_environment_without_a_launcher_is_one_rank(void **state)
{
    (void)state;
    uint64_t word = 5;
    clear_environment();
    hs_group_tcp *tcp;
    assert_clears(&err, tcp = hs_group_tcp_from_env(HS_GROUP_TCP_OPTIONS(.env = NULL), &err));
    const hs_group *group = hs_group_tcp_get(tcp);
    assert_int_equal(group->ops->rank_count(group->self), 1);
    assert_ok(group->ops->allreduce_or(group->self, &word, 1, &err), &err);
    assert_int_equal(word, 5);
    hs_group_tcp_free(tcp);
    assert_null(hs_group_tcp_from_env(HS_GROUP_TCP_OPTIONS(.rank_count = 2), &err));
    assert_says(&err, HS_INVALID_ARGUMENT, "come from the environment");
    /* torchrun in the script of sbatch, which is one task */
    setenv("SLURM_PROCID", "0", 1);
    setenv("SLURM_NTASKS", "1", 1);
    setenv("RANK", "1", 1);
    fails_from_environment("RANK is set, but WORLD_SIZE is not");
    setenv("WORLD_SIZE", "two", 1);
    fails_from_environment("WORLD_SIZE is 'two', but must be a number");
    setenv("WORLD_SIZE", "1", 1);
    fails_from_environment("rank is 1, but must be 0 to 0");
    setenv("WORLD_SIZE", "2", 1);
    fails_from_environment("MASTER_ADDR and MASTER_PORT");
    setenv("MASTER_ADDR", "localhost", 1);
    setenv("MASTER_PORT", "65535", 1);
    fails_from_environment("MASTER_PORT is 65535, but must be less than 65535");
    setenv("MASTER_PORT", "x", 1);
    fails_from_environment("MASTER_PORT is 'x', but must be a number");
    clear_environment();
}

/* The script of sbatch has the variables of rank 0. */
static void a_forgotten_srun_is_an_error(void **state)
{
    (void)state;
    clear_environment();
    setenv("SLURM_JOB_ID", "7", 1);
    setenv("SLURM_PROCID", "0", 1);
    setenv("SLURM_NTASKS", "4", 1);
    fails_from_environment("SLURM_NTASKS is 4, but SLURM_STEP_ID is not set: start the program with srun");
    const hs_outcome outcome = hs_outcome_from_error(&err);
    assert_int_equal(hs_outcome_exit_code(&outcome), 1);
    setenv("SLURM_NTASKS", "1", 1);
    hs_group_tcp_free(hs_group_tcp_from_env(HS_GROUP_TCP_OPTIONS(.env = NULL), &err));
    assert_ok(err.code, &err);
    clear_environment();
}

/* Keeps the record of rank 0 for rank 1. */
typedef struct {
    int calls;
    char record[1024];
} kept;

static hs_code keep(void *user, void *data, size_t bytes, hs_error *error)
{
    kept *k = user;
    if (bytes > sizeof k->record)
        return hs_error_set(error, HS_INTERNAL, "the record is too long");
    if (k->calls++)
        memcpy(data, k->record, bytes);
    else
        memcpy(k->record, data, bytes);
    return HS_OK;
}

/* Rank 0 has failed. Rank 1 need not wait for it, and has the same error. */
static void assert_declined(kept *k, hs_code code, const char *text)
{
    assert_int_equal(k->calls, 1);
    assert_null(
        hs_group_tcp_new(HS_GROUP_TCP_OPTIONS(.rank = 1, .rank_count = 2, .exchange = keep, .exchange_user = k), &err));
    assert_says(&err, code, text);
    *k = (kept){0};
}

static void the_function_is_also_called_if_rank_0_cannot_begin(void **state)
{
    (void)state;
    kept k = {0};
    assert_null(hs_group_tcp_new(
        HS_GROUP_TCP_OPTIONS(.rank_count = 2, .exchange = keep, .exchange_user = &k, .connect_secs = -2), &err));
    assert_says(&err, HS_INVALID_ARGUMENT, "connect_secs is -2");
    assert_declined(&k, HS_INVALID_ARGUMENT, "rank 0: hs_group_tcp_options.connect_secs is -2");
    hs_test_system *system = hs_test_system_new();
    for (size_t allocation = 1; allocation <= 5; allocation++) {
        hs_test_system_fail_allocation(system, allocation);
        assert_null(hs_group_tcp_new(
            HS_GROUP_TCP_OPTIONS(.rank_count = 2, .exchange = keep, .exchange_user = &k, .env = hs_test_system_env(system)),
            &err));
        assert_int_equal(err.code, HS_RESOURCE_EXHAUSTED);
        assert_declined(&k, HS_RESOURCE_EXHAUSTED, "rank 0: ");
    }
    hs_test_system_free(system);
    clear_environment();
    setenv("RANK", "0", 1);
    assert_null(hs_group_tcp_from_env(HS_GROUP_TCP_OPTIONS(.exchange = keep, .exchange_user = &k), &err));
    assert_says(&err, HS_INVALID_ARGUMENT, "RANK is set, but WORLD_SIZE is not");
    assert_declined(&k, HS_INVALID_ARGUMENT, "rank 0: environment variable RANK is set");
    clear_environment();
}

/* Options. */

#define refuses(text, ...)                                                                                                 \
    do {                                                                                                                   \
        assert_null(hs_group_tcp_new(HS_GROUP_TCP_OPTIONS(__VA_ARGS__), &err));                                            \
        assert_says(&err, HS_INVALID_ARGUMENT, text);                                                                      \
    } while (0)

static void invalid_options_are_refused(void **state)
{
    exchange e = {.code = HS_INTERNAL};
    (void)state;
    refuses("rank_count is 0", .rank = 0);
    refuses("rank is 2, but must be 0 to 1", .rank = 2, .rank_count = 2);
    refuses("rank is -1", .rank = -1, .rank_count = 2);
    refuses("set address, rendezvous_dir or exchange", .rank_count = 2);
    refuses("rendezvous_dir and exchange are set", .rank_count = 2, .rendezvous_dir = "x", .exchange = copy_from_rank_0,
            .exchange_user = &e);
    refuses("connect_secs is -1", .rank_count = 1, .connect_secs = HS_NEVER);
    refuses("collective_secs is -2", .rank_count = 1, .collective_secs = -2);
    refuses("detector_secs is -1", .rank_count = 1, .detector_secs = HS_NEVER);
    refuses("failure_grace_secs is 2e+09", .rank_count = 1, .failure_grace_secs = 2e9);
    refuses("job and exchange are set", .rank_count = 2, .exchange = copy_from_rank_0, .exchange_user = &e, .job = "j");
    refuses("job must be printable", .rank_count = 2, .address = "h:1", .job = "a\nb");
    refuses("job must be printable", .rank_count = 2, .address = "h:1",
            .job = "0123456789012345678901234567890123456789012345678901234567890123");
    static const char *const addresses[] = {"",           "host",        ":1",    "host:", "host:x",
                                            "host:65536", "host:123456", "::1:5", "[::1]"};
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++)
        refuses("is not of the form host:port", .rank_count = 2, .address = addresses[i]);
    refuses("address is 'host:0', but with address alone the port must not be 0", .rank_count = 2, .address = "host:0");
}

static void record_log(void *user, hs_log_level level, const char *text)
{
    if (level == HS_LOG_ERROR)
        snprintf(user, HS_MESSAGE_SIZE, "%s", text);
}

/* A program that does not look at the errors must not train alone on each rank. */
static void a_group_that_was_not_created_is_logged_and_refused(void **state)
{
    (void)state;
    char text[HS_MESSAGE_SIZE] = "";
    const hs_env env = HS_INIT(hs_env, .logger = {record_log, text});
    assert_null(hs_group_tcp_new(HS_GROUP_TCP_OPTIONS(.rank_count = -1, .env = &env), NULL));
    assert_contains(text, "hs_group_tcp_new: hs_group_tcp_options.rank_count is -1");
    assert_null(hs_group_tcp_from_env(HS_GROUP_TCP_OPTIONS(.rank_count = 2, .env = &env), NULL));
    assert_contains(text, "hs_group_tcp_from_env: rank and rank_count are set");
    const hs_group *group = hs_group_tcp_get(NULL);
    assert_non_null(group);
    assert_null(group->ops);
    int64_t step = 0;
    hs_graph *graph = hs_graph_new(&env);
    hs_graph_global_step(graph, NULL, &step);
    assert_null(hs_training_session_open(hs_graph_backend(graph), HS_TRAINING_OPTIONS(.group = group), &err));
    assert_says(&err, HS_INVALID_ARGUMENT, "hs_group.ops is NULL");
    hs_graph_free(graph);
}

static void too_many_open_files_are_explained(void **state)
{
    (void)state;
    struct rlimit limit;
    char address[HS__ADDRESS_MAX];
    hs__tcp_listener listener;
    int client, accepted;
    assert_ok(hs__tcp_listen("127.0.0.1", 0, &listener, &err), &err);
    hs__tcp_join(address, "127.0.0.1", listener.port);
    assert_ok(hs__tcp_connect(address, 0, hs__tcp_now() + INT64_C(60000000000), &client, &err), &err);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const int next = dup(client);
    assert_true(next >= 0);
    close(next);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &(const struct rlimit){(rlim_t)next, limit.rlim_max}), 0);
    hs_code code = hs__tcp_accept(listener.fds[0], &accepted, &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(accepted, -1);
    assert_int_equal(code, err.code);
    assert_int_equal(err.os_error, EMFILE);
    assert_contains(err.message, "cannot accept a connection: raise RLIMIT_NOFILE (ulimit -n)");
    hs__tcp_close(&client);
    hs__tcp_stop_listening(&listener);
}

static void a_group_that_cannot_connect_says_why(void **state)
{
    processes *all = *state;
    char address[HS__ADDRESS_MAX];
    make_address(all, address);
    assert_null(hs_group_tcp_new(HS_GROUP_TCP_OPTIONS(.rank_count = 4, .address = address, .connect_secs = 0.05), &err));
    assert_says(&err, HS_FAILED_PRECONDITION,
                "this is rank 0 of 4, but no other rank has connected within connect_secs: start all 4 processes");
    const hs_outcome outcome = hs_outcome_from_error(&err);
    assert_int_equal(hs_outcome_exit_code(&outcome), 1); /* a loop that starts it again on 75 ends */
    assert_null(
        hs_group_tcp_new(HS_GROUP_TCP_OPTIONS(.rank = 1, .rank_count = 4, .address = address, .connect_secs = 0.05), &err));
    assert_says(&err, HS_UNAVAILABLE, "rank 1 is not connected to rank 0 within connect_secs: 127.0.0.1:");
    assert_null(hs_group_tcp_new(
        HS_GROUP_TCP_OPTIONS(.rank = 1, .rank_count = 2, .rendezvous_dir = all->directory, .connect_secs = 0.05), &err));
    assert_says(&err, HS_UNAVAILABLE, "rank 0 has not written '");
    assert_null(hs_group_tcp_new(HS_GROUP_TCP_OPTIONS(.rank_count = 2, .rendezvous_dir = "/nowhere/at/all"), &err));
    assert_says(&err, HS_NOT_FOUND, "cannot create the directory '/nowhere/at/all'");
}

/* Two ranks begin a call of another engine. Rank 1 ends it, and exits with an error: rank 0 can still complete this call,
 * but none after it. */
static int count_calls(process *p)
{
    const hs_group *group = process_connect(p);
    hs_error reason = {0};
    int32_t failed = -1;
    check_code(p, hs_group_tcp_begin_call(p->group, "sum", &p->err), HS_OK);
    if (p->rank) {
        hs_group_tcp_end_call(p->group);
        hs_error_set(&reason, HS_INTERNAL, "no more");
        group->ops->report_exit(group->self, &reason);
        return process_done(p);
    }
    while (failed < 0) {
        group->ops->query_failed_rank(group->self, &failed, &p->err);
        check_code(p, hs_group_tcp_check_call(p->group, "sum", &p->err), HS_OK);
    }
    hs_group_tcp_end_call(p->group);
    check_code(p, hs_group_tcp_begin_call(p->group, "sum", &p->err), HS_UNAVAILABLE);
    check(p, strstr(p->err.message, "no more"));
    return process_done(p);
}

static void an_exit_ends_the_calls_of_another_engine_that_the_rank_has_not_made(void **state)
{
    run_all(*state, 2, count_calls);
    hs_group_tcp *alone = hs_group_tcp_new(HS_GROUP_TCP_OPTIONS(.rank_count = 1), &err);
    assert_int_equal(hs_group_tcp_check_call(alone, "sum", &err), HS_FAILED_PRECONDITION);
    assert_ok(hs_group_tcp_begin_call(alone, "sum", &err), &err);
    assert_ok(hs_group_tcp_check_call(alone, "sum", &err), &err);
    hs_group_tcp_end_call(alone);
    hs_group_tcp_free(alone);
    assert_int_equal(hs_group_tcp_begin_call(NULL, "sum", &err), HS_INVALID_ARGUMENT);
    assert_int_equal(hs_group_tcp_check_call(NULL, "sum", &err), HS_INVALID_ARGUMENT);
    hs_group_tcp_end_call(NULL);
}

/* Rank 1 does not make the second call. Rank 0 reports it, and both get the same failure. */
static int give_up_rank_1(process *p)
{
    const hs_group *group = process_connect(p);
    int32_t failed = -1;
    check_code(p, hs_group_tcp_begin_call(p->group, "sum", &p->err), HS_OK);
    hs_group_tcp_end_call(p->group);
    check_code(p, hs_group_tcp_fail_call(p->group, 1, "too early", &p->err), HS_FAILED_PRECONDITION);
    check_code(p, hs_group_tcp_check_call(p->group, "sum", &p->err), HS_FAILED_PRECONDITION);
    if (p->rank == 0) {
        check_code(p, hs_group_tcp_begin_call(p->group, "sum", &p->err), HS_OK);
        check_code(p, hs_group_tcp_fail_call(p->group, 2, "no such rank", &p->err), HS_INVALID_ARGUMENT);
        check_code(p, hs_group_tcp_fail_call(p->group, 1, "rank 1 is late", &p->err), HS_UNAVAILABLE);
        check_code(p, hs_group_tcp_check_call(p->group, "sum", &p->err), HS_UNAVAILABLE);
        hs_group_tcp_end_call(p->group);
    }
    while (failed < 0)
        group->ops->query_failed_rank(group->self, &failed, &p->err);
    check(p, failed == 1);
    check_code(p, hs_group_tcp_begin_call(p->group, "sum", &p->err), HS_UNAVAILABLE);
    check(p, strcmp(p->err.message, "rank 1 is late") == 0);
    return process_done(p);
}

static void a_rank_that_another_engine_gives_up_has_failed_on_all_ranks(void **state)
{
    run_all(*state, 2, give_up_rank_1);
    assert_int_equal(hs_group_tcp_fail_call(NULL, 0, "", &err), HS_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_processes(all_calls_work_on_1_to_20_ranks),
        with_processes(calls_of_a_rank_that_has_ended_complete),
        with_processes(different_calls_are_an_error),
        with_processes(an_exit_ends_the_calls_of_another_engine_that_the_rank_has_not_made),
        with_processes(a_rank_that_another_engine_gives_up_has_failed_on_all_ranks),
        cmocka_unit_test(a_machine_that_knows_itself_as_loopback_listens_on_all_interfaces),
        with_processes(ranks_connect_by_an_address),
        with_processes(a_long_wait_for_connections_is_logged),
        with_processes(the_file_is_private_and_is_removed),
        with_processes(a_rank_0_whose_file_a_later_run_replaces_ends),
        with_processes(a_forked_child_does_not_free_the_group),
        with_processes(a_limit_of_file_sizes_is_an_error),
        with_processes(files_that_an_earlier_run_left_are_ignored),
        with_processes(ranks_connect_by_a_function_of_the_program),
        cmocka_unit_test(an_error_of_the_function_is_returned),
        cmocka_unit_test(the_function_is_also_called_if_rank_0_cannot_begin),
        cmocka_unit_test(one_rank_needs_no_other),
        with_processes(ranks_connect_by_the_environment_of_each_launcher_next_to_a_store),
        cmocka_unit_test(an_environment_without_a_launcher_is_one_rank),
        cmocka_unit_test(a_forgotten_srun_is_an_error),
        cmocka_unit_test(invalid_options_are_refused),
        cmocka_unit_test(a_group_that_was_not_created_is_logged_and_refused),
        cmocka_unit_test(too_many_open_files_are_explained),
        with_processes(a_group_that_cannot_connect_says_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
