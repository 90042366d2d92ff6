/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BACKENDS_GRAPH_GRAPH_DEF_H
#define HS_BACKENDS_GRAPH_GRAPH_DEF_H

#include "backends/graph/node_def.h"

/* TensorFlow's attribute for the shapes of outputs. */
#define HS__OUTPUT_SHAPES "_output_shapes"

/* graph_def_queue.c */
/* Returns true if a queue has the op. */
bool hs__is_queue_op(const hs__graph_node *op);
/* Writes TensorFlow's op of the same kind. With the enqueue op, also writes the queue and its producer. */
hs_code hs__define_queue_op(hs__node_def *def, const hs__graph_node *op, hs_error *err);

#endif
