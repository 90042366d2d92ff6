/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_REPLICA_CHECK_H
#define HOOKSESS_HOOKS_REPLICA_CHECK_H

#include <hooksess/hook.h>
#include <hooksess/trigger.h>

/* Checks that the variables of all ranks of a group are equal, bit by bit, as each save does. Beyond TensorFlow.
 *
 *     hs_hook hook = hs_replica_check(.every_n_steps = 2);
 *
 * List it on all ranks, before savers. A check compares a CRC-32C of each variable in one collective call, or three if
 * they differ. Local (HS_VARIABLE_LOCAL) and partitioned variables (hs_variable_slice) are not checked. The values of
 * most ranks are correct; in a tie, those of rank 0. Rank 0 decides when to check. With one rank nothing is checked.
 *
 * Threads: any thread, at any time. */

HS_BEGIN_DECLS

typedef enum hs_on_divergence {
    /* The run fails with HS_DATA_LOSS on all ranks, and nothing is saved. The message names the first variable that
     * differs and its ranks */
    HS_DIVERGENCE_FAIL = 0,
    /* Logs a warning, and sets the variables that differ to the values of rank 0. They must be numbers */
    HS_DIVERGENCE_SEND_VALUES = 1
} hs_on_divergence;

typedef struct hs_replica_check_options {
    size_t size;
    int64_t every_n_steps;          /* steps between checks. Without a schedule: 1000 */
    double every_n_secs;            /* or: seconds between checks */
    hs_trigger when;                /* or: conditions. `last` is HS_INVALID_ARGUMENT */
    hs_on_divergence on_divergence; /* 0: HS_DIVERGENCE_FAIL */
    int32_t reserved_on_divergence;
} hs_replica_check_options;

/* The graph needs a global step. `begin` also returns HS_UNIMPLEMENTED if the backend cannot read variables, or set them
 * for HS_DIVERGENCE_SEND_VALUES. */
HS_API hs_hook hs_replica_check_hook(const hs_replica_check_options *options);
#define hs_replica_check(...) hs_replica_check_hook(HS_OPTIONS(hs_replica_check_options, __VA_ARGS__))

HS_END_DECLS

#endif
