/* SPDX-License-Identifier: Apache-2.0 */
/* resume_meta GRAPH: a training for `hooksess verify-resume`. The graph reads its own input, and its ops save and restore.
 */
#include <hooksess/hooksess.h>
#include <hooksess/tensorflow.h>

int main(int n, char **arguments)
{
    hs_error err = {0};
    if (n != 2)
        return 2;
    hs_backend tf =
        hs_tensorflow_open(arguments[1], HS_TENSORFLOW_OPTIONS(.graph_saves = true, .graph_restores = true), &err);
    hs_session *session = hs_training_session_open(tf, HS_TRAINING_OPTIONS(.checkpoint_dir = "run"), &err);
    while (!hs_session_should_stop(session))
        if (hs_session_run(session, "train_op", &err) != HS_OK)
            break;
    hs_outcome outcome = hs_session_close(session, &err);
    hs_tensorflow_free(tf);
    return hs_outcome_exit_code(&outcome);
}
