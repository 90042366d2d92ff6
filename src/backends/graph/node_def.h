/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BACKENDS_GRAPH_NODE_DEF_H
#define HS_BACKENDS_GRAPH_NODE_DEF_H

#include "backends/graph/graph.h"

/* Writes the nodes of a GraphDef: begin, then inputs and attributes, then end. If memory is exhausted, graph->failed is
 * set.
 */
typedef struct {
    hs__buffer *graph;             /* nodes are appended to it */
    hs__buffer node, value, entry; /* current node, value of the current attribute, attribute with its key */
} hs__node_def;

void hs__node_def_init(hs__node_def *def, hs__buffer *graph);
void hs__node_def_free(hs__node_def *def);

void hs__node_def_begin(hs__node_def *def, const char *name, const char *op);
/* Data inputs come before control inputs. */
void hs__node_def_input(hs__node_def *def, const char *name, size_t output);
void hs__node_def_control(hs__node_def *def, const char *name);
/* All control inputs of an op. */
void hs__node_def_controls(hs__node_def *def, const hs__graph_node *op);
void hs__node_def_type(hs__node_def *def, const char *key, hs_dtype dtype);
void hs__node_def_shape(hs__node_def *def, const char *key, const hs_shape *shape);
void hs__node_def_int(hs__node_def *def, const char *key, int64_t value);
void hs__node_def_bool(hs__node_def *def, const char *key, bool value);
/* Lists of the types and shapes of outputs. */
void hs__node_def_types(hs__node_def *def, const char *key, const hs_output_def *outputs, size_t n);
void hs__node_def_shapes(hs__node_def *def, const char *key, const hs_output_def *outputs, size_t n);
/* Write a list of types: its elements, then its key. */
void hs__node_def_type_of_list(hs__node_def *def, hs_dtype dtype);
void hs__node_def_end_list(hs__node_def *def, const char *key);
void hs__node_def_end(hs__node_def *def);

#endif
