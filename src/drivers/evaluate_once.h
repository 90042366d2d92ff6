/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_DRIVERS_EVALUATE_ONCE_H
#define HS_DRIVERS_EVALUATE_ONCE_H

#include <hooksess/evaluation_loop.h>

/* Opens a session with held copies of the hooks, and restores the checkpoint of the options. *path is set to its prefix,
 * also on failure; free it with hs__free. */
hs_session *hs__open_restored(hs_backend backend, const hs_evaluate_once_options *options, char **path, hs_error *err);
/* Validates and copies the options. `options` is unchanged if they cannot be read. */
hs_code hs__copy_evaluate_options(hs_evaluate_once_options *options, const hs_evaluate_once_options *given, hs_error *err);
/* Evaluates once. Does not free the hooks. */
hs_evaluation_result *hs__evaluate(hs_backend backend, const hs_evaluate_once_options *options, hs_error *err);
/* Calls `evaluated`, if it is not NULL, with the metrics, and frees them. metrics NULL: the evaluation failed; returns the
 * code of `err`. */
hs_code hs__deliver_metrics(hs_evaluation_result *metrics, hs_evaluation_done_fn evaluated, void *user, hs_error *err);
/* Returns true, and logs it, if the checkpoint was deleted: that it was not restored is then not a failure. */
bool hs__log_if_deleted(const hs_env *env, const char *path);

#endif
