/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_REPLICAS_MANY_RANKS_H
#define HS_TESTS_REPLICAS_MANY_RANKS_H

/* Many ranks that each make some steps, with a gate and an agreement at the end of each. A hook of rank 0 ends the
 * training. For a test and for a benchmark. */

#include <hooksess/testing.h>

#include <stdatomic.h>
#include <string.h>

enum { MANY_RANKS = 4096, MANY_STEPS = 30 };

typedef struct many_ranks {
    int64_t steps;
    atomic_int n_equal; /* ranks whose training ended after these steps, by the hook of rank 0 */
} many_ranks;

static inline hs_code many_pass_gate(void *user, hs_op *op, hs_error *err)
{
    (void)user;
    return hs_op_pass_gate(op, err);
}

static inline int many_run_rank(void *user, const hs_group *group)
{
    many_ranks *all = user;
    hs_error err;
    int64_t step = 0;
    hs_graph *graph = hs_graph_new(hs_simulation_env(group));
    hs_graph_global_step(graph, NULL, &step);
    hs_graph_op(graph, .name = "train", .run = many_pass_gate, .advances_step = true);
    hs_hook stop = hs_stop_at_step(.last_step = all->steps);
    stop.flags |= HS_HOOK_CHIEF_ONLY;
    hs_session *session =
        hs_session_open(hs_graph_backend(graph), HS_SESSION_OPTIONS(.group = group, .hooks = HS_HOOKS(stop)), &err);
    while (!hs_session_should_stop(session))
        if (hs_session_run(session, "train", &err) != HS_OK)
            break;
    hs_outcome outcome = hs_session_close(session, &err);
    hs_graph_free(graph);
    if (outcome.reason == HS_REASON_STOPPED && outcome.step == all->steps && strcmp(outcome.hook, "stop_at_step") == 0)
        atomic_fetch_add(&all->n_equal, 1);
    return 0;
}

/* Returns the number of ranks that ended as they should. */
static inline int many_ranks_run(int32_t rank_count, int64_t steps, hs_error *err)
{
    many_ranks all = {.steps = steps};
    hs_simulation *simulation =
        hs_simulation_new(HS_SIMULATION_OPTIONS(.main = many_run_rank, .user = &all, .rank_count = rank_count, .seed = 1,
                                                .stack_bytes = 256 * 1024),
                          err);
    if (simulation)
        hs_simulation_run(simulation, err);
    hs_simulation_free(simulation);
    return atomic_load(&all.n_equal);
}

#endif
