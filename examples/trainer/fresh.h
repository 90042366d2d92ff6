/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TRAINER_FRESH_H
#define TRAINER_FRESH_H

#include <hooksess/env.h>

/* Deletes the files of a previous run from a directory: checkpoints, the file that names the newest, event files,
 * graph.pbtxt and the files of the run's status. Other files stay. Logs the numbers of deleted files. Returns HS_OK if the
 * directory does not exist. */
hs_code fresh_start(const hs_env *env, const char *directory, hs_error *err);

#endif
