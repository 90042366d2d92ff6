/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_NOTE_H
#define TRAINER_NOTE_H

#include "input.h"
#include "options.h"
#include "text.h"

#include <hooksess/hook.h>

/* A hook that tells TensorBoard what is trained: the hyperparameters, once for all starts of a training (that they were
 * told rides in the checkpoint), and how it ended; and at each start the command line and the settings, as text. */
struct note {
    const struct options *options;
    const struct input *input;
    hs_summary_writer *writer; /* the session's */
    bool told, noted;          /* the hyperparameters, and the text of this start */
    struct text text;
};

/* Start from { .options = ..., .input = ... }, which outlive the session. */
hs_hook note_hook(struct note *note);

#endif
