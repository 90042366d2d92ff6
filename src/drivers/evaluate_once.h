/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_DRIVERS_EVALUATE_ONCE_H
#define HS_DRIVERS_EVALUATE_ONCE_H

#include <hooksess/evaluation_loop.h>

/* What the drivers that read checkpoints share. */

/* A session, with held hooks, on the checkpoint of the options; *path is which, for hs__free, also after a failure. */
hs_session *hs__restored_open(hs_backend backend, const hs_evaluate_once_options *options, char **path, hs_error *err);
/* The options, checked; `options` stays as it was if they cannot be read. */
hs_code hs__evaluation_take(hs_evaluate_once_options *options, const hs_evaluate_once_options *given, hs_error *err);
/* Evaluates once; the hooks stay the caller's. */
hs_evaluation_result *hs__evaluate(hs_backend backend, const hs_evaluate_once_options *options, hs_error *err);
/* Frees the metrics (NULL: the evaluation failed, with `err`) when whoever wants to know (NULL: nobody) was told. */
hs_code hs__told(hs_evaluation_result *metrics, hs_evaluation_done_fn evaluated, void *user, hs_error *err);
/* Was the checkpoint deleted, so that its not being restored is no failure? The log hears of it. */
bool hs__is_gone(const hs_env *env, const char *path);

#endif
