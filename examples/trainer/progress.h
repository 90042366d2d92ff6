/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_PROGRESS_H
#define TRAINER_PROGRESS_H

#include <hooksess/hooks/logging_tensor.h>

/* Says how far the training is: as a line on the terminal that is drawn again and again, and in the lines of the log.
 *
 * The log goes through it too, so that its lines do not fall into the one that is being drawn. */
struct progress {
    hs_env env; /* for hs_graph_new: logs to stderr */
    bool drawn; /* stderr's last line is the progress line; under stderr's lock */
    bool draws_now;
    int64_t step, last_step, batch_size;
    int64_t first_step, first_ns; /* what the rate is reckoned from: the first run */
    int64_t drawn_ns;
};

void progress_init(struct progress *progress, int64_t last_step, int64_t batch_size);

/* The line on the terminal. */
hs_hook progress_hook(struct progress *progress);

/* For hs_logging_tensor of PROGRESS_TENSORS: the same as a line of the log. */
#define PROGRESS_TENSORS HS_NAMES("global_step", "loss")
void progress_format(void *user, const hs_run_values *values, char *text, size_t bytes);

#endif
