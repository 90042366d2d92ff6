/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_RUN_H
#define TRAINER_RUN_H

#include "log.h"
#include "losses.h"
#include "run_info.h"
#include "trainer.h"

/* All that a training session uses. It must outlive the session. */
struct run {
    struct options options;
    struct trainer trainer;
    struct log log;
    struct losses losses;
    struct run_info info;
    hs_saver *saver;
    hs_scaffold *scaffold;
    hs_graph *graph;
};

enum { MAX_HOOKS = 16 }; /* including the end of the list */

/* Returns `n`, or HS_NEVER if it is 0, which disables a schedule on the command line. */
int64_t or_never(int64_t n);

/* Loads the data and makes the graph. Writes and deletes files only if the data are valid. Call run_free also if it fails.
 */
hs_code run_prepare(struct run *run, hs_error *err);
/* If a restore failed because the checkpoint is of another model: replaces the message, which lists all variables, by one
 * that names the first of them and the options. */
void run_explain(const struct options *options, hs_graph *graph, hs_error *err);
void run_free(struct run *run);
/* Fills `hooks`, an array of MAX_HOOKS, with the trainer's hooks in their order. The training session adds the hook that
 * saves checkpoints. */
void run_hooks(struct run *run, hs_hook *hooks);

#endif
