/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_LOG_H
#define TRAINER_LOG_H

#include <hooksess/hooks/progress.h>

/* Of a checkpoint of another model. */
#define LOG_MISFIT "' does not fit the model"

/* Writes log lines to stderr without overwriting the progress line of a terminal. Drops lines with only a rate, which the
 * progress line and TensorBoard have, and lists of variables that do not fit (run_explain). */
struct log {
    hs_env env;       /* pass it to hs_graph_new */
    hs_hook progress; /* .ops is NULL without a progress line */
};

void log_init(struct log *log);
void log_free(struct log *log);

/* Returns a progress line for the hooks of a session. The log owns it. */
hs_hook log_progress(struct log *log, int64_t last_step);

#endif
