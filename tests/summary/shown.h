/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_SUMMARY_SHOWN_H
#define HS_TESTS_SUMMARY_SHOWN_H

/* Graphs with summary ops, and the values of the ops. */

#include "backends/bare.h"

#include <hooksess/graph_summary.h>

/* Adds the value "loss" with 0.5, and returns its memory. */
extern double shown_loss;
void shown_add_loss(bare *b);

/* A serialized Summary as text: "tag=number", separated by commas. Valid until the next call. */
const char *shown_text(const hs_tensor *value);
/* The same of the op's output in a separate run. */
const char *shown_by(bare *b, const char *name);

/* The number of items in a collection of the graph. */
size_t shown_collected(const bare *b, const char *key);

#endif
