/* SPDX-License-Identifier: Apache-2.0 */
/* Training without hooks, with libhooksess_tf1: tf1 DIRECTORY trains three steps and saves them. */
#include <hooksess/hooksess.h>
#include <hooksess/tf1/supervisor.h>

#include <stdio.h>

int main(int argc, char **argv)
{
    hs_error err;
    hs_graph *graph = hs_graph_new(NULL);
    hs_graph_global_step(graph, NULL, NULL);
    hs_graph_op(graph, .name = "train", .advances_step = true);
    hs_supervisor *sv =
        hs_supervisor_new(hs_graph_backend(graph), HS_SUPERVISOR_OPTIONS(.checkpoint_dir = argc > 1 ? argv[1] : "."), &err);
    hs_session *session = hs_supervisor_managed_session(sv, NULL, &err);
    for (int i = 0; i < 3 && !err.code && !hs_supervisor_should_stop(sv); i++)
        hs_supervisor_run(sv, session, HS_RUN_ARGS(.names = HS_NAMES("train")), NULL, &err);
    if (!err.code)
        hs_supervisor_save(sv, session, &err);
    hs_code code = hs_supervisor_leave(sv, session, err.code, NULL, &err);
    if (code)
        fprintf(stderr, "%s\n", err.message);
    hs_supervisor_free(sv);
    hs_graph_free(graph);
    return code != HS_OK;
}
