/* SPDX-License-Identifier: Apache-2.0 */
/* Processes of an earlier start still run, because it was only partly killed, when the ranks are started again. No group
 * has processes of both starts. Process i is rank i % RANKS of start i / RANKS. The test learns from ranks which messages
 * they have sent. */
#include "replicas/processes.h"

#include "ranks/group_tcp_hello.h"
#include "support/clock.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum { RANKS = 4, LATER = RANKS, LONG_SECS = 3600 }; /* a start that waits for the limit fails by the limit of a test */

enum { CODE, WORD }; /* numbers of the results */

/* Functions of the system that the library calls. */

static process *announces;       /* this rank tells the test when it has sent a message of this kind */
static hs__hello_kind announced; /* of the message */
static process *retries; /* this rank tells the test when an attempt has failed. Its time passes when the test answers */

ssize_t __real_send(int fd, const void *data, size_t bytes, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags);
int __real_poll(struct pollfd *fds, nfds_t n, int ms);
int __wrap_poll(struct pollfd *fds, nfds_t n, int ms);

ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags)
{
    ssize_t n = __real_send(fd, data, bytes, flags);
    hs__hello hello;
    if (announces && n == HS__HELLO_BYTES && !hs__hello_parse(data, &hello) && hello.kind == announced)
        process_say(announces);
    return n;
}

int __wrap_poll(struct pollfd *fds, nfds_t n, int ms)
{
    if (!retries || n != 1 || fds->fd >= 0)
        return __real_poll(fds, n, ms);
    process_say(retries);
    struct pollfd answer = {.fd = retries->all->answers[retries->rank][0], .events = POLLIN};
    if (__real_poll(&answer, 1, ms) > 0)
        *clock_ahead_ns += INT64_C(2000000000) * LONG_SECS;
    return 0;
}

/* Processes. */

/* Makes one call, if the group has started. Each process adds its bit. */
static int agree(process *p)
{
    uint64_t word = UINT64_C(1) << p->rank;
    hs_code code = p->group ? HS_OK : p->err.code;
    if (p->group) {
        const hs_group *group = hs_group_tcp_get(p->group);
        code = group->ops->allreduce_or(group->self, &word, 1, &p->err);
    }
    p->results->numbers[CODE] = code;
    p->results->numbers[WORD] = (int64_t)word;
    snprintf(p->results->message, sizeof p->results->message, "%s", p->err.message);
    return process_done(p);
}

static int start_or_fail(process *p)
{
    announces = p->rank % RANKS ? NULL : p;
    announced = HS__HELLO_WAIT;
    p->options.rank = p->rank % RANKS;
    p->group = hs_group_tcp_new(&p->options, &p->err);
    return agree(p);
}

static void await_file(const processes *all)
{
    struct stat file;
    while (stat(test_path(all->directory, ".hooksess-rendezvous"), &file) != 0)
        poll(NULL, 0, 1);
}

/* Starts some ranks of the first start, and returns when they are registered with rank 0. */
static void start_incompletely(processes *all, int32_t n)
{
    processes_prepare(all, RANKS, start_or_fail);
    all->options.connect_secs = LONG_SECS;
    for (int32_t i = 0; i < n; i++)
        processes_start(all, i);
    for (int32_t i = 1; i < n; i++)
        processes_await(all, 0);
}

static void assert_ended(processes *all, int32_t i, hs_code code, const char *text)
{
    processes_finish(all, i);
    assert_int_equal(processes_exit_code(all, i), 0);
    assert_contains(all->results[i].message, text);
    assert_int_equal(all->results[i].numbers[CODE], code);
}

/* The later start has its own processes only. */
static void assert_later_start(processes *all)
{
    for (int32_t i = LATER; i < LATER + RANKS; i++) {
        processes_finish(all, i);
        assert_int_equal(processes_exit_code(all, i), 0);
        assert_string_equal(all->results[i].message, "");
        assert_int_equal(all->results[i].numbers[WORD], ((1 << RANKS) - 1) << LATER);
    }
    assert_int_equal(test_count_files(all->directory, "rendezvous"), 0);
}

/* Rank 3 of the first start is missing, and rank 0 dies. If ranks 1 and 2 waited for the next rank 0, they would be
 * complete with 0 and 3 of the later start. */
static void registered_ranks_do_not_join_a_later_start(void **state)
{
    processes *all = *state;
    start_incompletely(all, RANKS - 1);
    processes_kill(all, 0, SIGKILL);
    processes_finish(all, 0);
    processes_start(all, LATER);
    processes_start(all, LATER + 3);
    for (int32_t i = 1; i < RANKS - 1; i++)
        assert_ended(all, i, HS_UNAVAILABLE, ") has failed before the group started: the connection has ended");
    processes_start(all, LATER + 1);
    processes_start(all, LATER + 2);
    assert_later_start(all);
}

/* The first rank 0 waits for rank 3, and would accept that of the later start, which may have read its file. */
static void a_rank_0_whose_file_is_replaced_ends_its_start(void **state)
{
    processes *all = *state;
    start_incompletely(all, RANKS - 1);
    processes_start(all, LATER);
    for (int32_t i = 0; i < RANKS - 1; i++)
        assert_ended(all, i, HS_UNAVAILABLE, "the ranks were started again");
    for (int32_t i = 1; i < RANKS; i++)
        processes_start(all, LATER + i);
    assert_later_start(all);
}

static void two_processes_with_the_same_rank_end_the_start(void **state)
{
    processes *all = *state;
    start_incompletely(all, 2);
    processes_start(all, LATER + 1);
    for (int32_t i = 0; i < 2; i++)
        assert_ended(all, i, HS_UNAVAILABLE, "rank 1 runs twice, on ");
    assert_ended(all, LATER + 1, HS_UNAVAILABLE, ": end the processes of an earlier start");
}

/* Names of the starts. */

static const char *const job_of_start[] = {"7.0", "7.0.1"};

/* The variables of launchers: rank, rank count, and those of the name, of which the last one differs. */
static const char *const launchers[][6] = {
    {"RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE"},
    {"PMI_RANK", "PMI_SIZE", "PMI_JOBID"},
    {"PMI_RANK", "PMI_SIZE", "PMI_JOBID", "SLURM_RESTART_COUNT"},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_ID", "SLURM_JOB_ID"},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_JOB_ID", "SLURM_STEP_ID"},
    {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"},
};
enum { LAUNCHERS = sizeof launchers / sizeof *launchers };

static void set_variables(const char *const *variables, int32_t rank, const char *last)
{
    char number[16];
    for (size_t i = 0; i < LAUNCHERS; i++)
        for (size_t j = 0; launchers[i][j]; j++)
            unsetenv(launchers[i][j]);
    snprintf(number, sizeof number, "%d", (int)rank);
    setenv(variables[0], number, 1);
    snprintf(number, sizeof number, "%d", RANKS);
    setenv(variables[1], number, 1);
    for (size_t i = 2; variables[i]; i++)
        setenv(variables[i], variables[i + 1] ? "7" : last, 1);
}

/* The name is that of the options, or of a launcher. */
static int start_with_a_name(process *p)
{
    const char *name = job_of_start[p->rank / RANKS];
    retries = p->rank == 1 ? p : NULL;
    if (p->all->user) {
        set_variables(p->all->user, p->rank % RANKS, name);
        p->options.rank = p->options.rank_count = 0;
        p->group = hs_group_tcp_from_env(&p->options, &p->err);
    } else {
        p->options.job = name;
        p->options.rank = p->rank % RANKS;
        p->group = hs_group_tcp_new(&p->options, &p->err);
    }
    return agree(p);
}

/* Rank 1 of the first start finds the file of the later one, whose rank 1 is late. Its time passes. */
static void a_rank_of_an_earlier_start(processes *all, const char *const *variables, const char *text)
{
    processes_prepare(all, RANKS, start_with_a_name);
    all->user = (void *)(uintptr_t)variables;
    all->options.connect_secs = LONG_SECS;
    processes_start(all, LATER);
    await_file(all);
    processes_start(all, LATER + 2);
    processes_start(all, LATER + 3);
    processes_start(all, 1);
    processes_await(all, 1);
    processes_answer(all, 1);
    assert_ended(all, 1, HS_UNAVAILABLE, text);
    processes_start(all, LATER + 1);
    assert_later_start(all);
}

static void a_rank_of_another_job_does_not_join(void **state)
{
    a_rank_of_an_earlier_start(*state, NULL, "belongs to job '7.0.1', but this process to job '7.0'");
}

static void a_rank_of_an_earlier_start_of_a_launcher_does_not_join(void **state)
{
    for (size_t i = 0; i < LAUNCHERS; i++)
        a_rank_of_an_earlier_start(*state, launchers[i], "belongs to job '");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_processes(registered_ranks_do_not_join_a_later_start),
        with_processes(a_rank_0_whose_file_is_replaced_ends_its_start),
        with_processes(two_processes_with_the_same_rank_end_the_start),
        with_processes(a_rank_of_another_job_does_not_join),
        with_processes(a_rank_of_an_earlier_start_of_a_launcher_does_not_join),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
