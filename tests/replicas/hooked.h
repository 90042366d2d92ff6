/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_REPLICAS_HOOKED_H
#define HS_TESTS_REPLICAS_HOOKED_H

/* A training program of several ranks, with the hooks of a test. These are in its graph:
 *
 *   weights    three doubles, equal on all ranks
 *   loss       100 * rank + 1 / (step + 1), or what the test sets
 *   train      passes the gate, adds the gradients of the ranks, changes the weights and the global step
 *   compute    computes the gradient of this rank. Passes the gate
 *   update     adds the gradients of the ranks, changes the weights and the global step
 *   sum        a collective op, whose output sum:0 is the sum of the ranks
 *   half       half of sum:0
 *   eval       counts a batch. Rank r has r + 2 batches
 *   batches    counted batches
 *   skip       draws a batch
 *
 * `train` and `sum` are collective. */

#include "support/test.h"

#include <hooksess/testing.h>

enum {
    HOOKED_RANKS = 4,
    HOOKED_WEIGHTS = 3,
    HOOKED_HOOKS = 40,
    HOOKED_SAVE_STEPS = 4,
    HOOKED_LOG = 1 << 15,
    HOOKED_PART = 64
};

typedef struct hooked_rank {
    struct hooked *of;
    const hs_group *group;
    int32_t rank;
    hs_session *session;
    double weights[HOOKED_WEIGHTS], loss, rate, gradient, batches;
    double *loss_pointer;
    int64_t step, position;
    int disturbed;                   /* for the test */
    unsigned char part[HOOKED_PART]; /* per-rank state: bytes that only this rank has */
    /* Results. */
    bool opened, killed;
    int64_t collectives;
    hs_outcome outcome;
    char log[HOOKED_LOG];
} hooked_rank;

typedef struct hooked {
    char *directory;
    int32_t rank_count;
    uint64_t seed;
    int64_t steps;      /* stop_at_step */
    const char *run_op; /* NULL: "train" */
    bool no_checkpoints;
    bool rollback_fails;             /* in the middle: the ranks end at different steps */
    bool parts;                      /* the ranks have the state `part` */
    const hs_memory *memory_of_loss; /* NULL: the host's */
    int32_t killed_rank;             /* dies in its collective call number `killed_at`. 0: no rank dies */
    int64_t killed_at;
    int32_t apart_rank;   /* sees another directory, which is empty. 0: all ranks see the same one */
    int32_t failing_rank; /* its second batch of an evaluation fails. 0: no rank fails */
    /* Fills the hooks of a rank. `chief` are in chief_only_hooks. */
    void (*add_hooks)(hooked_rank *rank, hs_hook hooks[HOOKED_HOOKS], hs_hook chief[HOOKED_HOOKS]);
    /* Called in the op of each step with the global step before it. May change the loss and the weights. NULL: none */
    void (*in_step)(hooked_rank *rank, int64_t step);
    hs_code (*init)(hooked_rank *rank, hs_raw_session *session, hs_error *err); /* the scaffold's init_fn. NULL: none */
    /* What the program does before each of its runs. If it fails, the program reports that and leaves the loop. NULL:
     * nothing */
    hs_code (*before_run)(hooked_rank *rank, hs_error *err);
    hs_session_run_step_fn run_step; /* instead of run_op; `user` is the hooked_rank. NULL: none */
    bool own_loop;                   /* instead of run_op: the loop of the program */
    hs_error error;
    hooked_rank ranks[HOOKED_RANKS];
} hooked;

/* Trains in all ranks, and asserts that no rank waits forever, and that all living ranks have equal outcomes and weights.
 */
const hs_outcome *hooked_run(hooked *h);
/* For tests: a new directory, and HOOKED_RANKS ranks. */
int hooked_setup(void **state);
int hooked_teardown(void **state);
/* Returns a path in the directory. Valid until the next call. */
const char *hooked_path(const hooked *h, const char *name);
bool hooked_exists(const hooked *h, const char *name);
/* Changes a byte of the state `part` of a rank in the checkpoint of a step. */
void hooked_damage_part(const hooked *h, int64_t step, int32_t rank);
/* Returns the number of lines of a log or a file that contain the text. */
int hooked_count(const char *text, const char *part);

#endif
