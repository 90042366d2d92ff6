/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_GRAPH_EVENTS_H
#define HS_HOOKS_GRAPH_EVENTS_H

#include <hooksess/checkpoint.h>
#include <hooksess/summary.h>

/* Writes the backend's graph to `directory`/graph.pbtxt, and the graph and its meta graph as events to `writer`. All of
 * `saver`, `directory` and `writer` may be NULL. Does nothing if the backend has no graph (HS_UNIMPLEMENTED). */
hs_code hs__show_graph(hs_backend backend, const hs_saver *saver, const char *directory, hs_summary_writer *writer,
                       int64_t step, hs_error *err);

#endif
