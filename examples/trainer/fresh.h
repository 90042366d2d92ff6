/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_FRESH_H
#define TRAINER_FRESH_H

#include <hooksess/env.h>

/* Makes way for a new run: deletes what a run of the trainer leaves in its directory (checkpoints with the file that names
 * the newest, event files, graph.pbtxt), nothing else, and says so in the log. No directory is nothing to do. */
hs_code fresh_start(const hs_env *env, const char *directory, hs_error *err);

#endif
