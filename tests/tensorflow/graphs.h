/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_TENSORFLOW_GRAPHS_H
#define HS_TESTS_TENSORFLOW_GRAPHS_H

#include "support/test.h"

#include <hooksess/tensorflow.h>

/* The graphs of export_graphs.py and their feeds. These programs use only the public headers. */

/* Returns "GRAPHS/NAME", valid until the fourth call after it. */
const char *graph_path(const char *name);
/* Opens a graph, which must succeed. Prints only warnings. */
hs_backend open_graph(const char *name);
/* Makes an empty directory. */
char *make_directory(void);
/* Removes it, and frees the path. */
void remove_directory(char *path);

/* The feeds of step `step`; export_graphs.py feeds the same. */
enum { BATCH = 8 };
typedef struct {
    float x[BATCH][3], y[BATCH][1];
    hs_feed feeds[3];
} batch;
void fill_batch(batch *b, int64_t step);

#endif
