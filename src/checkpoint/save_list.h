/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_SAVE_LIST_H
#define HS_CHECKPOINT_SAVE_LIST_H

#include "checkpoint/save_item.h"
#include "checkpoint/selection.h"

/* The entries that one save writes. The list is made once, at the beginning of the save. Size estimate, shards, snapshot
 * and writing use it. It borrows names of the session and of the selection. */

/* A variable with memory. Small, as fresh memory for a list of many variables takes longer than filling it. */
typedef struct hs__listed_variable {
    const char *name;         /* in the checkpoint */
    const char *variable;     /* in the backend */
    size_t index;             /* in the backend */
    uint64_t bytes;           /* of the value; of strings only the elements count */
    uint64_t flags;           /* of hs_variable */
    hs_variable_slice *slice; /* its place in the tensor `name`; NULL: it is the whole tensor */
    uint64_t whole_bytes;     /* of the tensor `name` */
} hs__listed_variable;

/* A variable without memory: the checkpoint records that, and has no value of it. */
typedef struct hs__unallocated_variable {
    const char *name;     /* in the checkpoint */
    const char *variable; /* in the backend */
} hs__unallocated_variable;

typedef struct hs__save_list {
    const hs_env *env;
    hs_raw_session *session;
    hs__listed_variable *variables; /* in the order of their names, so that equal models give equal files */
    size_t n, capacity;
    hs__unallocated_variable *unallocated; /* in the order of the backend */
    size_t n_unallocated, unallocated_capacity;
    uint64_t bytes; /* estimate of the size of the checkpoint: variables, and states whose providers declare a size */
} hs__save_list;

/* Lists the selected variables of the session. Call hs__save_list_free in any case. */
hs_code hs__save_list_make(hs__save_list *list, const hs_env *env, const hs__selection *selection, hs_raw_session *session,
                           hs_error *err);
void hs__save_list_free(hs__save_list *list);

/* Returns true if the variable of that place in the list is a slice of the same tensor as the previous one. */
bool hs__save_list_follows(const hs__save_list *list, size_t at);
/* Reads and visits all variables of the list. INVALID_ARGUMENT if only some slices of a tensor are in the list: such a
 * checkpoint could not be restored. */
hs_code hs__save_list_visit_variables(const hs__save_list *list, hs__visit_item_fn visit, void *user, hs_error *err);
/* Visits the records of variables without memory, then the states of the session's providers, then the unclaimed states
 * that were not reported yet. */
hs_code hs__save_list_visit_states(const hs__save_list *list, hs__visit_item_fn visit, void *user, hs_error *err);
/* Logs which variables have no memory, once per session. */
void hs__save_list_log_unallocated(const hs__save_list *list);

/* The estimate of hs__save_list.bytes, without allocating: a restore that is complete records it, and must not fail. */
uint64_t hs__expected_bytes(const hs__selection *selection, const hs_raw_session *session);

#endif
