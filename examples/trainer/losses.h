/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_LOSSES_H
#define TRAINER_LOSSES_H

#include <hooksess/hook.h>

#include <stdio.h>

/* A hook that writes a line "STEP LOSS" to a file after each step, with the loss as a hexadecimal float, so that two runs
 * can be compared bit for bit.
 *
 * The file is as exact as the checkpoints. Before a checkpoint is saved, the lines up to its step are flushed to the disk.
 * A resume removes the lines after the step of its checkpoint, and a rollback those of the steps that it repeats. */
struct losses {
    const char *path;
    const char *tensor; /* name of the loss; NULL: "loss" */
    FILE *file;         /* open while a session is open, on rank 0 */
    int64_t last;       /* the step of the last line */
    const char *names[2];
    hs_run_args wanted;
};

/* Initialize with { .path = "losses.txt" }. The struct and its strings must outlive the session. */
hs_hook losses_hook(struct losses *losses);

#endif
