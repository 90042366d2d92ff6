/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_LOSSES_H
#define TRAINER_LOSSES_H

#include <hooksess/hook.h>

#include <stdio.h>

/* A hook that writes a line "STEP LOSS" to a file after each step, the loss as a hexadecimal float, so that two runs can be
 * compared to the bit.
 *
 * The file is as exact as the training: what a run that was killed has written beyond its last checkpoint is cut off, and
 * lines are on the disk before a checkpoint of their step is. */
struct losses {
    const char *path;
    const char *tensor; /* the loss; NULL: "loss" */
    FILE *file;         /* while a session is open */
    const char *names[2];
    hs_run_args wanted;
};

/* Start from { .path = "losses.txt" }, which outlives the session, as its strings do. */
hs_hook losses_hook(struct losses *losses);

#endif
