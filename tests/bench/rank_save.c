/* SPDX-License-Identifier: Apache-2.0 */
/* Saves 256 MiB of per-rank state of each of 4 processes that are a group over TCP, and as many bytes of one process
 * without a group. */
#include "rank_save.h"

#include <hooksess/group_tcp.h>
#include <hooksess/hooksess.h>

#include "bench.h"

#include <ftw.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 4, ROUNDS = 5 };

static const size_t RANK_BYTES = (size_t)256 << 20;

/* Shared by all processes, written by rank 0. */
typedef struct {
    double secs, extra_bytes;
} measured;

static void fail(const char *what)
{
    fprintf(stderr, "bench: %s\n", what);
    _exit(1);
}

static void check(hs_code code, const hs_error *err)
{
    if (code)
        fail(err->message);
}

/* A line of /proc/self/status. */
static double read_status(const char *name)
{
    char line[128];
    double kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0)
            kib = strtod(line + strlen(name), NULL);
    if (!file || !(kib > 0))
        fail("/proc/self/status cannot be read");
    fclose(file);
    return kib * 1024;
}

static void save(measured *m, const char *directory, int32_t rank, size_t bytes, const hs_group *group)
{
    hs_error err = {0};
    char prefix[256];
    uint64_t *state = malloc(bytes), word = 1;
    if (!state)
        fail("no memory");
    for (size_t i = 0; i < bytes / sizeof *state; i++)
        state[i] = i * 0x9e3779b97f4a7c15u + (uint64_t)rank;
    snprintf(prefix, sizeof prefix, "%s/model.ckpt", directory);
    hs_graph *graph = hs_graph_new(NULL);
    check((hs_graph_bytes)(graph, "state", state, bytes, HS_STATE_PER_RANK), &err);
    hs_session *session = hs_session_open(hs_graph_backend(graph), HS_SESSION_OPTIONS(.hooks = NULL, .group = group), &err);
    hs_saver *saver = hs_saver_new(NULL, &err);
    if (!session || !saver)
        fail(err.message);
    double resident = read_status("VmRSS:");
    if (group)
        check(group->ops->allreduce_or(group->self, &word, 1, &err), &err);
    double start = bench_now();
    check(hs_saver_save(saver, hs_session_raw(session), prefix, 1, NULL, &err), &err);
    if (rank == 0) {
        m->secs = bench_now() - start;
        m->extra_bytes = read_status("VmHWM:") - resident;
    }
    hs_saver_free(saver);
    hs_session_close(session, NULL);
    hs_graph_free(graph);
    free(state);
}

static void save_in_group(measured *m, const char *directory, int32_t rank)
{
    hs_error err = {0};
    hs_group_tcp *tcp = hs_group_tcp_new(
        HS_GROUP_TCP_OPTIONS(.rank = rank, .rank_count = RANKS, .rendezvous_dir = directory, .address = "127.0.0.1:0"),
        &err);
    if (!tcp)
        fail(err.message);
    save(m, directory, rank, RANK_BYTES, hs_group_tcp_get(tcp));
    hs_group_tcp_free(tcp);
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *at)
{
    (void)status, (void)type, (void)at;
    return remove(path);
}

/* The directory is new for each save. */
static void measure(measured *m, int32_t processes)
{
    char directory[] = "/tmp/hooksess-bench-XXXXXX";
    pid_t pids[RANKS];
    if (!mkdtemp(directory))
        fail("no directory");
    for (int32_t i = 0; i < processes; i++)
        if ((pids[i] = fork()) == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (processes == 1)
                save(m, directory, 0, RANKS * RANK_BYTES, NULL);
            else
                save_in_group(m, directory, i);
            _exit(0);
        }
    for (int32_t i = 0; i < processes; i++) {
        int status = 0;
        waitpid(pids[i], &status, 0);
        if (status)
            fail("a rank has failed");
    }
    nftw(directory, remove_entry, 4, FTW_DEPTH | FTW_PHYS);
}

void bench_rank_save(void)
{
    double gathered[ROUNDS], single[ROUNDS], ratio[ROUNDS], extra[ROUNDS];
    measured *m = mmap(NULL, sizeof *m, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (m == MAP_FAILED)
        fail("no memory");
    for (int i = 0; i < ROUNDS; i++) {
        measure(m, RANKS);
        gathered[i] = m->secs;
        extra[i] = m->extra_bytes;
        measure(m, 1);
        single[i] = m->secs;
        ratio[i] = gathered[i] / single[i];
    }
    bench_print("gathered_save_s", bench_median(gathered, ROUNDS), "s");
    bench_print("single_save_s", bench_median(single, ROUNDS), "s");
    bench_print("gathered_over_single", bench_median(ratio, ROUNDS), "1");
    bench_print("rank0_extra_bytes", bench_median(extra, ROUNDS), "bytes");
    munmap(m, sizeof *m);
}
