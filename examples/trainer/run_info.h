/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_RUN_INFO_H
#define TRAINER_RUN_INFO_H

#include "input.h"
#include "options.h"
#include "text.h"

#include <hooksess/hook.h>

/* A hook that describes the training to TensorBoard.
 *
 *   hyperparameters   once for the whole training: a flag in the hook's saved state says that they were written
 *   command line      as text, with the settings, at each start
 *   threads           saved, because sums over other parts are rounded differently: a resume with another number logs this
 *   result            success or failure, when the training is complete or has failed */
struct run_info {
    const struct options *options;
    const struct input *input;
    hs_summary_writer *writer; /* owned by the session */
    bool hparams_written;      /* saved in checkpoints */
    bool command_written;      /* by this process */
    int64_t threads_before;    /* of the run that is resumed; 0: unknown */
    struct text text;
};

/* Initialize with { .options = ..., .input = ... }. The struct and both pointers must outlive the session. */
hs_hook run_info_hook(struct run_info *info);

#endif
