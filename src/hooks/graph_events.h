/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_GRAPH_EVENTS_H
#define HS_HOOKS_GRAPH_EVENTS_H

#include <hooksess/checkpoint.h>
#include <hooksess/summary.h>

/* Shows the backend's graph: in DIRECTORY/graph.pbtxt (NULL: not there), and with its meta graph as events of the writer
 * (NULL: not there). `saver` may be NULL. A backend may have none to show. */
hs_code hs__show_graph(hs_backend backend, const hs_saver *saver, const char *directory, hs_summary_writer *writer,
                       int64_t step, hs_error *err);

#endif
