/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_RUN_H
#define TRAINER_RUN_H

#include "log.h"
#include "losses.h"
#include "note.h"
#include "trainer.h"

/* What a session that trains works with. All of it outlives the session. */
struct run {
    struct options options;
    struct trainer trainer;
    struct log log;
    struct losses losses;
    struct note note;
    hs_saver *saver;
    hs_scaffold *scaffold;
    hs_graph *graph;
};

enum { MOST_HOOKS = 16 }; /* with the end of the list */

/* 0 is never on the command line, HS_NEVER in the library. */
int64_t or_never(int64_t n);

/* Nothing is written before the data are known to be good. run_free is to be called also if it fails. */
hs_code run_prepare(struct run *run, hs_error *err);
void run_free(struct run *run);
/* The trainer's hooks, in their order, as a list. The session adds those that save the summary op and checkpoints. */
void run_hooks(struct run *run, hs_hook *hooks);

#endif
