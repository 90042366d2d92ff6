/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BACKENDS_GRAPH_GRAPH_DEF_H
#define HS_BACKENDS_GRAPH_GRAPH_DEF_H

#include "backends/graph/node_def.h"

/* The parts of the graph's definition. */

/* TensorFlow has the shapes of outputs under this key. */
#define HS__OUTPUT_SHAPES "_output_shapes"

/* graph_def_queue.c. Is it the op of a queue? If so, defines it as TensorFlow's op of that kind; with the first of them,
 * the queue itself and what produces for it. */
bool hs__is_queue_op(const hs__graph_node *op);
hs_code hs__define_queue_op(hs__node_def *def, const hs__graph_node *op, hs_error *err);

#endif
