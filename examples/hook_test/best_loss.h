/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEST_LOSS_H
#define BEST_LOSS_H

#include <hooksess/hooksess.h>

/* Creates a hook that writes each new lowest value of the tensor "loss" to `path`, and stops the training if the loss has
 * not improved for `patience_secs`. A full disk does not end the training: the hook logs a warning.
 *
 * The hook allocates memory with `env` (NULL: the system's), which must live as long as the hook. Its clock, log and files
 * are those of the session. */
hs_hook best_loss(const hs_env *env, const char *path, double patience_secs);

#endif
