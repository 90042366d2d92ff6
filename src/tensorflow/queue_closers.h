/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TENSORFLOW_QUEUE_CLOSERS_H
#define HS_TENSORFLOW_QUEUE_CLOSERS_H

#include "tensorflow/tf_backend.h"

/* Ops that close the graph's queues and cancel the enqueue ops that wait for them. */

typedef struct {
    TF_Operation **ops; /* the caller frees it, also after a failure */
    size_t n, capacity;
} hs__tf_ops_list;

/* Lists the closing op of each queue. Adds one to the graph for each queue without one, except if the session is `remote`,
 * as other processes may share the queues. */
hs_code hs__tf_find_closers(hs__tf_backend *backend, bool remote, hs__tf_ops_list *closers, bool *has_queues,
                            hs_error *err);
/* Sets *name to the op that ends the enqueue ops of a queue runner. That is `cancel_op`, or if they wait for other queues,
 * an added op that runs `cancel_op` and closes those queues too. The graph owns the name of an added op. */
hs_code hs__tf_make_cancel_op(hs__tf_backend *backend, const char *const *enqueue_ops, const char *cancel_op, bool remote,
                              const char **name, hs_error *err);

#endif
