/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_LOG_H
#define TRAINER_LOG_H

#include <hooksess/hooks/progress.h>

/* The log on the standard error, whose lines do not fall into the progress line that a terminal shows. */
struct log {
    hs_env env;       /* for hs_graph_new */
    hs_hook progress; /* without ops: there is no such line */
};

void log_init(struct log *log);
void log_free(struct log *log);

/* A progress line for a session. It stays the log's, which it is drawn beside. */
hs_hook log_progress(struct log *log, int64_t last_step);

#endif
