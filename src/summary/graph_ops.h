/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SUMMARY_GRAPH_OPS_H
#define HS_SUMMARY_GRAPH_OPS_H

#include <hooksess/graph_summary.h>
#include <hooksess/summary.h>

#include "backends/graph/graph.h"

#include <pthread.h>

typedef struct hs__summary_op hs__summary_op;

/* A kind of summary: what its ops are called, and how a tensor becomes a value. */
typedef struct {
    const char *type;
    hs_code (*put)(hs__summary_op *op, const hs_tensor *value, hs_error *err); /* NULL: it cannot be made */
} hs__summary_maker;

/* What a summary op knows; its node owns it. It makes its Summary here and copies it into the session's memory. Threads
 * that fill queues may run the op beside the session's. */
struct hs__summary_op {
    hs_env env;
    pthread_mutex_t lock;
    hs_summary *summary;
    hs_host_copy copy; /* of a tensor in a device's memory */
    const hs__summary_maker *maker;
    char *tag;
    int64_t max_outputs;
    double sample_rate;
};

/* graph_values.c. NULL for a number that is no kind. */
const hs__summary_maker *hs__summary_maker_of(hs_summary_kind kind);

#endif
