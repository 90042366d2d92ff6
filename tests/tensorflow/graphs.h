/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_BACKENDS_TENSORFLOW_GRAPHS_H
#define HS_TESTS_BACKENDS_TENSORFLOW_GRAPHS_H

#include "support/test.h"

#include <hooksess/tensorflow.h>

/* The graphs that export_graphs.py has made, and what is fed to them. These programs see the public headers alone. */

/* "GRAPHS/NAME"; one of a few static buffers. */
const char *graph_path(const char *name);
/* Opens a graph that must be good, with no line in the log but warnings. */
hs_backend open_graph(const char *name);
/* A new, empty directory, and its end. */
char *make_directory(void);
void remove_directory(char *path);

/* What step `step` is trained on: export_graphs.py feeds the same. */
enum { BATCH = 8 };
typedef struct {
    float x[BATCH][3], y[BATCH][1];
    hs_feed feeds[3];
} batch;
void fill_batch(batch *b, int64_t step);

#endif
