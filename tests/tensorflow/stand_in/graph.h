/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_BACKENDS_TENSORFLOW_STAND_IN_GRAPH_H
#define HS_TESTS_BACKENDS_TENSORFLOW_STAND_IN_GRAPH_H

/* An embedded graph and what TensorFlow has of it. */

#include "backends/graph/graph.h"
#include "tensorflow/stand_in/engine.h"

enum { STAND_IN_MOST = 64 };

typedef struct graph_stand_in {
    struct graph_stand_in *next;
    hs_graph *graph;
    hs_backend tf;
    size_t n_variables, n_nodes, n_collected; /* of the graph's that TensorFlow's graph has */
    struct graph_target *targets;
    hs__graph_session *running; /* the memory of the session that runs */
    hs_error failure;           /* of a function */
    void *late[STAND_IN_MOST];  /* nodes that are read after the ops of a run */
    size_t n_late;
    hs__buffer def; /* what graph_def gave last */
    bool no_memory; /* in a function that could not report it */
} graph_stand_in;

/* The embedded graph's own functions. */
const hs_backend_ops *graph_stand_in_theirs(const graph_stand_in *g);
/* Adds to TensorFlow's graph what the test has defined since. */
hs_code graph_stand_in_follow(graph_stand_in *g, hs_error *err);
/* The same, for functions that can report that there was no memory. */
hs_code graph_stand_in_follow_or_fail(graph_stand_in *g, hs_error *err);
/* Lets go of TensorFlow's graph. */
void graph_stand_in_forget(graph_stand_in *g);

#endif
