/* SPDX-License-Identifier: Apache-2.0 */
/* resume_meta GRAPH: verifies that a training which the graph's own ops save and restore goes on as if it had never
 * stopped. The graph feeds itself. */
#include <hooksess/hooksess.h>
#include <hooksess/tensorflow.h>

#include <stdio.h>

static hs_code train(void *user, const hs_resume_trial *trial, hs_error *err)
{
    hs_backend tf = hs_tensorflow_open(user, HS_TENSORFLOW_OPTIONS(.graph_saves = true, .graph_restores = true), err);
    hs_session *session = hs_training_session_open(
        tf, HS_TRAINING_OPTIONS(.checkpoint_dir = trial->checkpoint_dir, .hooks = HS_HOOKS(trial->hook)), err);
    while (!hs_session_should_stop(session))
        if (hs_session_run(session, "train_op", err) != HS_OK)
            break;
    hs_outcome outcome = hs_session_close(session, err);
    hs_tensorflow_free(tf);
    return outcome.error.code;
}

int main(int n, char **arguments)
{
    hs_error err = {0};
    if (n != 2)
        return 2;
    hs_code code = hs_verify_resume(HS_VERIFY_RESUME_OPTIONS(.argv = arguments, .steps = 20, .train = train,
                                                             .user = arguments[1], .fetches = HS_NAMES("loss")),
                                    NULL, &err);
    if (code)
        fprintf(stderr, "%s\n", err.message);
    return code != HS_OK;
}
