/* SPDX-License-Identifier: Apache-2.0 */
#include "ahead.h"

#include <stdatomic.h>
#include <unistd.h>

static bool stopping;
static hs_session *_Atomic stopped; /* the producer requests a stop of this session when the data ends */
static atomic_int begun_steps;
static atomic_bool loop_has_ended; /* the producer waits for it */

static hs_code read_batch(void *user, hs_op *op, hs_error *err)
{
    reader *r = user;
    if (r->position == r->end && stopping) {
        while (begun_steps < 701) /* 300 were restored: step 1001 waits for a batch */
            usleep(1000);
        hs_session_interrupt(stopped);
        while (!loop_has_ended)
            usleep(1000);
    }
    float *x = hs_op_output(op, 0)->data, *y = hs_op_output(op, 1)->data;
    if (r->position == r->end)
        return hs_error_set(err, HS_OUT_OF_RANGE, "all samples are read");
    for (int i = 0; i < BATCH; i++, r->position++)
        read_sample(r->position, &x[i], &y[i]);
    return HS_OK;
}

static hs_code save_position(void *self, hs_state_writer *out, hs_error *err)
{
    return hs_state_writer_write(out, &((reader *)self)->position, sizeof(int64_t), err);
}

static hs_code load_position(void *self, hs_state_reader *in, hs_error *err)
{
    return hs_state_reader_read(in, &((reader *)self)->position, sizeof(int64_t), err);
}

/* BLOCK */

/* Makes the session known to the producer. */
static bool begin_step(hs_session *session)
{
    stopped = session;
    begun_steps++;
    return hs_step_begin(session);
}
#define hs_step_begin begin_step

/* Trains until a step, or the end of the data. */
static hs_outcome run(model *trained, int64_t last_step)
{
    model m = {{0}, {0}, 0, 0};
    reader data = {0, 1000 * BATCH};
    hs_graph *g = model_graph(&m);
    hs_graph_global_step(g, NULL, NULL);
    hs_graph_queue(
        g, .name = "input", .capacity = 8,
        .components =
            HS_OUTPUTS({.dtype = HS_FLOAT, .shape = HS_SHAPE(BATCH)}, {.dtype = HS_FLOAT, .shape = HS_SHAPE(BATCH)}),
        .produce = read_batch, .user = &data,
        .position = HS_STATE_PROVIDER(.name = "position", .save = save_position, .load = load_position, .self = &data));
    loop_has_ended = false;
    begun_steps = 0;
    /* BLOCK */
    loop_has_ended = true;
    hs_outcome outcome = hs_session_close(s, NULL);
    hs_graph_free(g);
    *trained = m;
    return outcome;
}

int main(void)
{
    model m, right = expected(300);
    hs_outcome outcome = run(&m, 300);
    assert(hs_outcome_exit_code(&outcome) == 0 && outcome.last_saved_step == 300 && m.seen == right.seen);

    /* A stop while the step waits for a batch. */
    stopping = true;
    outcome = run(&m, 100000);
    right = expected(1000);
    assert(outcome.step == 1000 && outcome.last_saved_step == 1000 && m.seen == right.seen);
    assert(outcome.reason == HS_REASON_STOPPED && hs_outcome_exit_code(&outcome) == 75);

    /* The end of the data. */
    stopping = false;
    assert(system("rm -r run") == 0);
    outcome = run(&m, 100000);
    assert(outcome.step == 1000 && outcome.last_saved_step == 1000 && m.seen == right.seen);
    assert(outcome.reason == HS_REASON_END_OF_INPUT && hs_outcome_exit_code(&outcome) == 0);
}
