/* SPDX-License-Identifier: Apache-2.0 */
#include "ahead.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static int64_t killed_at; /* the step in which the process is killed */

static hs_code train_op(void *user, hs_op *op, hs_error *err)
{
    model *m = user;
    m->loss = add_gradients(m, hs_op_input(op, 0)->data, hs_op_input(op, 1)->data);
    update(m, 0.1f);
    if (hs_op_global_step(op, err) == killed_at)
        raise(SIGKILL);
    return HS_OK;
}

/* BLOCK */

/* BLOCK */

static void run(int batches)
{
    model m = {{0}, {0}, 0, 0};
    reader data = {0, (int64_t)batches * BATCH};
    hs_graph *g = model_graph(&m);
    /* BLOCK */

    /* BLOCK */
    hs_graph_free(g);
    model right = expected(batches);
    assert(outcome.reason == HS_REASON_END_OF_INPUT && outcome.step == batches);
    assert(hs_outcome_exit_code(&outcome) == 0);
    assert(memcmp(m.weights, right.weights, sizeof m.weights) == 0 && m.seen == right.seen);
}

int main(void)
{
    /* Killed after a checkpoint, with batches in the queue. The parent resumes. */
    pid_t child = fork();
    assert(child >= 0);
    if (child == 0) {
        killed_at = 250;
        run(1000);
        return 1;
    }
    int status;
    assert(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    killed_at = -1;
    run(1000);
}
