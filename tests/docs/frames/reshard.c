/* SPDX-License-Identifier: Apache-2.0 */
/* The block divides the positions that four ranks saved among two. */
#include <hooksess/hooksess.h>
#include <hooksess/testing.h>

#include <assert.h>
#include <stdint.h>

typedef struct {
    int64_t position, stride;
} reader;

/* BLOCK */

static hs_code save(void *self, hs_state_writer *out, hs_error *err)
{
    return hs_state_writer_write(out, &((reader *)self)->position, sizeof(int64_t), err);
}

static hs_code load(void *self, hs_state_reader *in, hs_error *err)
{
    return hs_state_reader_read(in, &((reader *)self)->position, sizeof(int64_t), err);
}

static int64_t positions[4];

static int run_rank(void *user, const hs_group *group)
{
    const int64_t *ranks = user;
    int32_t rank = group->ops->rank(group->self);
    reader r = {.position = rank, .stride = *ranks};
    hs_graph *g = hs_graph_new(hs_simulation_env(group));
    hs_graph_add_state(g, HS_STATE_PROVIDER(.name = "reader", .save = save, .load = load, .self = &r,
                                            .scope = HS_STATE_PER_RANK, .reshard = reshard));
    hs_session *s = hs_training_session_open(
        hs_graph_backend(g), HS_TRAINING_OPTIONS(.checkpoint_dir = "run", .group = group), NULL);
    positions[rank] = r.position;
    for (int i = 0; i < 3 && hs_step_begin(s); i++) {
        if (hs_step_pass_gate(s) == HS_OK)
            r.position += r.stride;
        hs_step_end(s);
    }
    hs_session_close(s, NULL);
    hs_graph_free(g);
    return 0;
}

static void run(int64_t ranks)
{
    hs_error err;
    hs_simulation *simulation = hs_simulation_new(
        HS_SIMULATION_OPTIONS(.main = run_rank, .user = &ranks, .rank_count = (int32_t)ranks), &err);
    assert(hs_simulation_run(simulation, &err) == HS_OK);
    hs_simulation_free(simulation);
}

int main(void)
{
    run(4);
    run(2);
    assert(positions[0] == 12 && positions[1] == 13);
    return 0;
}
