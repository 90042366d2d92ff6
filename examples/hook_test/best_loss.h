/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BEST_LOSS_H
#define BEST_LOSS_H

#include <hooksess/hooksess.h>

/* Creates a hook that writes each new lowest value of the tensor "loss" to `path`, and stops the training if the loss has
 * not improved for `patience_secs`. A full disk does not end the training: the hook logs a warning.
 *
 * path  copied. The hook also writes PATH.tmp
 * env   allocates the hook; NULL: the system's. Copied: only the functions in it and their `user` must live as long as the
 *       hook. Clock, log and files are those of the session */
hs_hook best_loss(const hs_env *env, const char *path, double patience_secs);

#endif
