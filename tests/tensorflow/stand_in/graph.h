/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_TENSORFLOW_STAND_IN_GRAPH_H
#define HS_TESTS_TENSORFLOW_STAND_IN_GRAPH_H

/* An embedded graph and its copy in TensorFlow. */

#include "backends/graph/graph.h"
#include "tensorflow/stand_in/engine.h"

enum { STAND_IN_MOST = 64 };

typedef struct graph_stand_in {
    struct graph_stand_in *next;
    hs_graph *graph;
    hs_backend tf;
    size_t n_variables, n_nodes, n_collected; /* how many of the graph's are in TensorFlow's graph */
    struct graph_target *targets;
    hs__graph_session *running; /* the memory of the session that runs */
    hs_error failure;           /* of an op's function */
    void *late[STAND_IN_MOST];  /* nodes that are read after the ops of a run */
    size_t n_late;
    hs__buffer def; /* from the last call of graph_def */
    bool no_memory; /* a function ran out of memory and could not report it */
} graph_stand_in;

/* Returns the embedded graph's functions. */
const hs_backend_ops *graph_stand_in_theirs(const graph_stand_in *g);
/* Adds to TensorFlow's graph the nodes that the test has defined since the last call. */
hs_code graph_stand_in_follow(graph_stand_in *g, hs_error *err);
/* The same, for callers that can report that memory is exhausted. */
hs_code graph_stand_in_follow_or_fail(graph_stand_in *g, hs_error *err);
/* Frees TensorFlow's graph. */
void graph_stand_in_forget(graph_stand_in *g);

#endif
