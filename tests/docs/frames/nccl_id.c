/* SPDX-License-Identifier: Apache-2.0 */
/* The block gives three ranks the identifier that rank 0 gets from NCCL, for which these functions stand. */
#include <hooksess/hooksess.h>
#include <hooksess/testing.h>

#include <assert.h>
#include <string.h>

enum { RANKS = 3 };

typedef struct {
    char internal[128];
} ncclUniqueId;

typedef ncclUniqueId ncclComm_t;

static int identifiers;
static ncclComm_t comms[RANKS];

static void ncclGetUniqueId(ncclUniqueId *id)
{
    memset(id->internal, 'a' + identifiers++, sizeof id->internal);
}

static void ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank)
{
    assert(ranks == RANKS && comm == &comms[rank]);
    *comm = id;
}

static int run_rank(void *user, const hs_group *group)
{
    const hs_env *env = hs_simulation_env(group);
    hs_error err;
    (void)user;
    hs_graph *g = hs_graph_new(env);
    hs_session *s = hs_training_session_open(
        hs_graph_backend(g), HS_TRAINING_OPTIONS(.group = group, .hooks = HS_HOOKS(hs_stop_at_step(.last_step = 3))), NULL);
#define comm comms[hs_session_rank(s)]
    /* BLOCK */
    while (hs_step_begin(s)) {
        hs_step_pass_gate(s);
        hs_step_end(s);
    }
    hs_outcome outcome = hs_session_close(s, NULL);
    hs_graph_free(g);
    return hs_outcome_exit_code(&outcome);
}

int main(void)
{
    hs_error err;
    hs_simulation *simulation = hs_simulation_new(HS_SIMULATION_OPTIONS(.main = run_rank, .rank_count = RANKS), &err);
    assert(hs_simulation_run(simulation, &err) == HS_OK);
    for (int rank = 0; rank < RANKS; rank++) {
        int code;
        assert(hs_simulation_result(simulation, rank, &code) && code == 0);
        assert(comms[rank].internal[0] == 'a' && memcmp(&comms[rank], &comms[0], sizeof *comms) == 0);
    }
    assert(identifiers == 1);
    hs_simulation_free(simulation);
}
