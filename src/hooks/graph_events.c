/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/graph_events.h"

hs_code hs__show_graph(hs_backend backend, const hs_saver *saver, const char *directory, hs_summary_writer *writer,
                       int64_t step, hs_error *err)
{
    hs_bytes graph, meta;
    hs_code code = hs_backend_graph_def(backend, &graph, err);
    if (code == HS_UNIMPLEMENTED) {
        hs_error_clear(err);
        return HS_OK;
    }
    if (code || (writer && (code = hs_summary_writer_graph(writer, graph, step, err))) ||
        (directory && (code = hs_backend_write_graph(backend, directory, "graph.pbtxt", true, err))) || !writer ||
        (code = hs_backend_export_meta_graph(backend, saver, &meta, err)))
        return code;
    code = hs_summary_writer_meta_graph(writer, meta, step, err);
    hs_env_free(hs_backend_env(backend), (void *)meta.data);
    return code;
}
