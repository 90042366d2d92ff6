/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_SUMMARY_SHOWN_H
#define HS_TESTS_SUMMARY_SHOWN_H

/* Graphs with summary ops, and what these show. */

#include "backends/bare.h"

#include <hooksess/graph_summary.h>

/* The memory of the value "loss", which this adds with 0.5. */
extern double shown_loss;
void shown_add_loss(bare *b);

/* A string, as a Summary in words: "tag=number" with commas between. A static buffer. */
const char *shown_text(const hs_tensor *value);
/* The same of what the op gives in a run of its own. */
const char *shown_by(bare *b, const char *name);

/* How many items a collection of the graph has. */
size_t shown_collected(const bare *b, const char *key);

#endif
