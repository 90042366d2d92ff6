/* SPDX-License-Identifier: Apache-2.0 */
/* The time of a step in a group, of a group over TCP, and of a save of all ranks.
 *
 *   bare_loop_ns            a step function and five vtables' before and after calls
 *   hooked_step_ns          the same step under a session with two hooks, without a group
 *   group_of_one_step_ns    the same session in a group of one rank, whose collective calls do nothing
 *   group_of_one_over_bare  the difference of these two over the bare loop, round by round
 *   group_allocations_per_step  in the group, through the env's allocator and through malloc, in steady state
 *   simulated_4096_s        4,096 simulated ranks: opened, 30 steps with a gate and an agreement each, closed
 *   tcp_star_us             8 processes: rank 0 reads 4 words from each rank and writes 4 words to each, by plain sockets
 *   tcp_agreement_us        the same processes: allreduce_or of 4 words in a group over TCP
 *   tcp_over_star           the ratio of these two, round by round
 *   death_known_ms          from kill -9 of a rank until query_failed_rank of all others reports it
 *   gathered_save_s         4 processes over TCP save 256 MiB of per-rank state each: the save of rank 0
 *   single_save_s           one process saves as many bytes
 *   gathered_over_single    the ratio of these two, round by round
 *   rank0_extra_bytes       peak memory of rank 0 in the save, without its own state
 *
 * Medians over interleaved rounds. */
#include <hooksess/hooksess.h>

#include "bare.h"
#include "rank_save.h"
#include "tcp_ranks.h"
#include "replicas/many_ranks.h"
#include "support/group_of_one.h"

enum { STEPS = 200000 };

static void silent(void *user, hs_log_level level, const char *text)
{
    (void)user, (void)level, (void)text;
}

static const hs_env env =
    HS_INIT(hs_env, .allocator = {counted_alloc, counted_realloc, counted_free, NULL}, .logger = {silent, NULL});

typedef struct {
    uint64_t count;
    double loss;
    hs_graph *graph;
    hs_session *session;
} training;

static hs_code train(void *self, hs_op *op, hs_error *err)
{
    (void)op, (void)err;
    ++*(uint64_t *)self;
    return HS_OK;
}

static void check(const hs_error *error, bool fails)
{
    if (!fails)
        return;
    fprintf(stderr, "bench: %s\n", error->message);
    exit(1);
}

static void open_training(training *t, const hs_group *group)
{
    hs_error error = {0};
    *t = (training){.loss = 1, .graph = hs_graph_new(&env)};
    hs_graph_value(t->graph, "loss", HS_DOUBLE, HS_SCALAR, &t->loss);
    hs_graph_op(t->graph, .name = "train", .run = train, .user = &t->count, .writes = HS_NAMES("loss"),
                .advances_step = true);
    t->session =
        hs_session_open(hs_graph_backend(t->graph),
                        HS_SESSION_OPTIONS(.group = group, .hooks = HS_HOOKS(hs_stop_at_step(.last_step = INT64_MAX),
                                                                             hs_nan_tensor(.tensor = "loss"))),
                        &error);
    check(&error, !t->session);
}

static void close_training(training *t)
{
    hs_session_close(t->session, NULL);
    hs_graph_free(t->graph);
}

static double hooked_loop(const training *t, long steps)
{
    hs_error error;
    double start = bench_now();
    for (long i = 0; i < steps && !hs_session_should_stop(t->session); i++)
        check(&error, hs_session_run(t->session, "train", &error) != HS_OK);
    return (bench_now() - start) / (double)steps * 1e9;
}

static void bench_group_of_one(void)
{
    training alone, grouped;
    double bare[BENCH_ROUNDS], without[BENCH_ROUNDS], with[BENCH_ROUNDS], ratio[BENCH_ROUNDS];
    size_t allocated = 0, malloced = 0;
    open_training(&alone, NULL);
    open_training(&grouped, &group_of_one);
    bare_loop(STEPS / 10);
    hooked_loop(&alone, STEPS / 10);
    hooked_loop(&grouped, STEPS / 10);
    for (int i = 0; i < BENCH_ROUNDS; i++) {
        bare[i] = bare_loop(STEPS);
        without[i] = hooked_loop(&alone, STEPS);
        size_t before = allocations, mallocs_before = mallocs;
        with[i] = hooked_loop(&grouped, STEPS);
        allocated += allocations - before;
        malloced += mallocs - mallocs_before;
        ratio[i] = (with[i] - without[i]) / bare[i];
    }
    bench_print("bare_loop_ns", bench_median(bare, BENCH_ROUNDS), "ns");
    bench_print("hooked_step_ns", bench_median(without, BENCH_ROUNDS), "ns");
    bench_print("group_of_one_step_ns", bench_median(with, BENCH_ROUNDS), "ns");
    bench_print("group_of_one_over_bare", bench_median(ratio, BENCH_ROUNDS), "1");
    bench_print("group_allocations_per_step",
                (double)(allocated > malloced ? allocated : malloced) / ((double)STEPS * BENCH_ROUNDS), "1");
    close_training(&alone);
    close_training(&grouped);
}

static void bench_many_ranks(void)
{
    hs_error error = {0};
    double start = bench_now();
    int n = many_ranks_run(MANY_RANKS, MANY_STEPS, &error);
    check(&error, n != MANY_RANKS);
    bench_print("simulated_4096_s", bench_now() - start, "s");
}

int main(void)
{
    bench_tcp_ranks();
    bench_rank_save();
    bench_group_of_one();
    bench_many_ranks();
    return 0;
}
