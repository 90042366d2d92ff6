/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a small graph of TensorFlow's, from C and from C++. With an argument, TensorFlow's library must be missing. */
#include <hooksess/hooksess.h>
#include <hooksess/tensorflow.h>

#include <stdio.h>
#include <string.h>

static const char graph[] = "node { name: \"train\" op: \"NoOp\" }\n";

int main(int n, char **arguments)
{
    hs_error err;
    hs_bytes bytes = {graph, sizeof graph - 1};
    (void)arguments;
    hs_error_clear(&err);
    hs_backend tf = hs_tensorflow_open_bytes(bytes, NULL, &err);
    hs_session *session = hs_session_open(tf, NULL, &err);
    if (session)
        hs_session_run(session, "train", &err);
    hs_error outcome = err;
    hs_session_close(session, &err);
    hs_tensorflow_free(tf);
    if (outcome.code)
        printf("%s\n", outcome.message);
    if (n > 1)
        return outcome.code == HS_NOT_FOUND && strstr(outcome.message, "libtensorflow_cc.so.2") ? 0 : 1;
    return outcome.code ? 1 : 0;
}
