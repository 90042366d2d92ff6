/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_DRIVERS_EVALUATION_LOOP_H
#define HS_DRIVERS_EVALUATION_LOOP_H

#include <hooksess/evaluation_loop.h>

/* Opens a session with held copies of the hooks, and restores the checkpoint of the options. *path is set to its prefix,
 * also on failure; free it with hs__free. */
hs_session *hs__open_restored(hs_backend backend, const hs_evaluate_once_options *options, char **path, hs_error *err);
/* Calls `evaluated`, if it is not NULL, with the metrics, and frees them. metrics NULL: the evaluation failed; returns the
 * code of `err`. */
hs_code hs__deliver_metrics(hs_evaluation_result *metrics, hs_evaluation_done_fn evaluated, void *user, hs_error *err);

#endif
