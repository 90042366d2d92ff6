/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TENSORFLOW_QUEUE_CLOSERS_H
#define HS_TENSORFLOW_QUEUE_CLOSERS_H

#include "tensorflow/tf_backend.h"

/* The graph's queues: what closes them, and who waits for them. */

typedef struct {
    TF_Operation **ops; /* to be freed, also after a failure */
    size_t n, capacity;
} hs__tf_ops_list;

/* queue_closers.c */
bool hs__tf_is_queue(const hs__tf_backend *backend, TF_Operation *op);
/* Adds an op that is not in the list yet. */
hs_code hs__tf_list_op(const hs__tf_backend *backend, hs__tf_ops_list *list, TF_Operation *op, hs_error *err);
/* The ops that close the graph's queues, and cancel what is pending in them. One is added for each queue that has none,
 * unless they are `remote`: others may share them. */
hs_code hs__tf_find_closers(hs__tf_backend *backend, bool remote, hs__tf_ops_list *closers, bool *has_queues,
                            hs_error *err);
/* What ends the enqueue ops of a queue runner: its cancel op and, where they wait for queues, one after that which closes
 * those too. *name is the graph's, or the one that was given. */
hs_code hs__tf_cancel_all(hs__tf_backend *backend, const char *const *enqueue_ops, const char *cancel_op, bool remote,
                          const char **name, hs_error *err);

/* upstream.c: adds to the list. */
hs_code hs__tf_upstream_queues(hs__tf_backend *backend, TF_Operation *op, hs__tf_ops_list *queues, hs_error *err);

#endif
