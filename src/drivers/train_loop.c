/* SPDX-License-Identifier: Apache-2.0 */
/* A training loop, ready made. */
#include <hooksess/estimator.h>

#include "session/session.h"

hs_outcome hs_train_loop(hs_backend backend, const hs_train_loop_options *given, hs_error *err)
{
    hs_train_loop_options options = {HS_TRAIN_LOOP_OPTIONS};
    hs_error error = {0};
    hs_session *session = NULL;
    if (!hs_struct_take(&options, sizeof options, given, "hs_train_loop_options", "HS_TRAIN_LOOP_OPTIONS", &error) &&
        (session = hs_training_session_open(backend, options.training, &error)) && !options.train_op == !options.step)
        hs_session_fail(session,
                        hs_error_set(&error, HS_INVALID_ARGUMENT, "hs_train_loop: give exactly one of train_op and step"),
                        error.message);
    while (!error.code && !hs_session_should_stop(session)) {
        hs_code code = options.step ? hs_session_run_step(session, options.step, options.step_user, &error)
                                    : hs_session_run(session, options.train_op, &error);
        if (code == HS_ABORTED && session->restored && !hs_session_should_stop(session))
            hs__clear(&error); /* the batch is to be made anew (hs_recovery.return_aborted) */
    }
    hs_outcome outcome = hs_session_close(session, &error);
    hs__error_copy(err, &error);
    return outcome;
}
