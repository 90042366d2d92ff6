/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_REPLICA_CHECK_H
#define HOOKSESS_HOOKS_REPLICA_CHECK_H

#include <hooksess/hook.h>
#include <hooksess/trigger.h>

/* Checks that the variables of all ranks of a group are equal, bit by bit. They differ if a rank has missed an update, or
 * computes in another order. Beyond TensorFlow.
 *
 *     hs_hook hook = hs_replica_check(.every_n_steps = 2);
 *
 * fails with "rank 2: hook 'replica_check', boundary at step 6: variable 'weights' differs on rank 2 from the other
 * ranks".
 *
 * List it on all ranks, before savers. A check computes a CRC-32C of each variable of the graph, and compares them in one
 * collective call, or in three if they differ. Variables that are local (HS_VARIABLE_LOCAL) or partitioned
 * (hs_variable_slice) are not checked. The values that most ranks have count as correct, and those of rank 0 if as many
 * ranks have others. Rank 0 decides when to check. Without a group, and with one rank, nothing is checked.
 *
 * Threads: any thread, at any time. */

HS_BEGIN_DECLS

typedef enum hs_on_divergence {
    /* The run fails with HS_DATA_LOSS on all ranks, and nothing is saved. The message has the first variable that differs
     * and the ranks on which it differs */
    HS_DIVERGENCE_FAIL = 0,
    /* Logs a warning, and sets the variables that differ to the values of rank 0. They must be numbers */
    HS_DIVERGENCE_SEND_VALUES = 1
} hs_on_divergence;

typedef struct hs_replica_check_options {
    size_t size;
    int64_t every_n_steps;          /* steps between checks. If this and the next two are 0: 1000 */
    double every_n_secs;            /* seconds between checks, instead of every_n_steps */
    const hs_trigger *trigger;      /* instead of every_n_steps and every_n_secs. Its `last` is HS_INVALID_ARGUMENT */
    hs_on_divergence on_divergence; /* 0: HS_DIVERGENCE_FAIL */
    int32_t reserved_on_divergence;
} hs_replica_check_options;

/* The graph needs a global step. `begin` also returns HS_UNIMPLEMENTED if the backend cannot read variables, or cannot set
 * them as HS_DIVERGENCE_SEND_VALUES requires. */
HS_API hs_hook hs_replica_check_hook(const hs_replica_check_options *options);
#define hs_replica_check(...) hs_replica_check_hook(HS_OPTIONS(hs_replica_check_options, __VA_ARGS__))

HS_END_DECLS

#endif
