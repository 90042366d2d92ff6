/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_SAVE_LIST_H
#define HS_CHECKPOINT_SAVE_LIST_H

#include "backends/raw_session.h"
#include "checkpoint/selection.h"
#include "formats/bundle.h"

/* One tensor of a checkpoint that is being saved: a variable's value, a piece of state, or a record. */
typedef struct hs__save_item {
    const char *name;
    hs_tensor value;                /* of a variable, its memory may be that of a device */
    const hs_variable_slice *slice; /* position of the value in the tensor `name`; NULL: the value is the whole tensor */
    bool follows;                   /* slice of the same tensor as the previous item */
    bool stays;                     /* value.data stays valid until the save has ended, also for other threads */
    bool borrowed;                  /* value.data is the own memory of a variable, which the program does not move */
    size_t variable;                /* index in the backend, if it is borrowed */
    bool nonfinite;                 /* NaN and infinity are allowed */
    bool varies;                    /* state of a hook that differs between equal runs (HS_HOOK_STATE_VARIES) */
    /* Not NULL: `value` is a vector of uint8 without data and length, and this calls `put` with its bytes, once. */
    hs_code (*produce)(void *source, hs__put_fn put, void *user, hs_error *err);
    void *source;
    hs__bundle_reader *copied_from; /* not NULL: the tensor is that of this bundle, and `value` is empty */
} hs__save_item;

/* Called with one item, which is valid during the call. An error ends the visit. */
typedef hs_code (*hs__visit_item_fn)(void *user, const hs__save_item *item, hs_error *err);

/* What a save writes: variables, then states and records, then the graph. A save list, which reads the session's memory,
 * and a snapshot are sources; also, in save.c, the bundle that a function of the program has written. */
typedef struct hs__item_source {
    void *self;
    size_t n;       /* variables, in the order of their names */
    uint64_t bytes; /* estimate of all */
    hs_bytes meta;  /* the graph, a MetaGraphDef; data NULL: none */
    /* The size of a variable. *follows: as in the item. Reads no value. */
    uint64_t (*size)(const void *self, size_t at, bool *follows);
    /* Sets *item to a variable. Valid until the next call, if the item does not stay. */
    hs_code (*variable)(void *self, size_t at, hs__save_item *item, hs_error *err);
    hs_code (*visit_states)(void *self, hs__visit_item_fn visit, void *user, hs_error *err);
} hs__item_source;

/* The state in the session's memory. The list is made once, at the beginning of the save. Size estimate, shards, snapshot
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
    uint64_t device_bytes;   /* of these, variables that a background save copies on their device */
    hs_bytes meta;           /* as in hs__item_source, allocated with env; the caller sets it */
    const hs_memory *marked; /* the device whose variable was read last, and which was marked */
} hs__save_list;

/* Lists the selected variables of the session. Call hs__save_list_free in any case. INVALID_ARGUMENT if only some slices of
 * a tensor are selected: such a checkpoint could not be restored. */
hs_code hs__save_list_make(hs__save_list *list, const hs_env *env, const hs__selection *selection, hs_raw_session *session,
                           hs_error *err);
void hs__save_list_free(hs__save_list *list);

/* The source visits as states: the records of variables without memory, the states of the session's providers, those of the
 * other ranks (rank_parts.h), and the unclaimed states that were not reported yet. */
hs__item_source hs__save_list_source(hs__save_list *list);
/* Logs which variables have no memory, once per session. */
void hs__save_list_log_unallocated(const hs__save_list *list);

/* The estimate of hs__save_list.bytes, without allocating: a restore that is complete records it, and must not fail. 0:
 * unknown. */
int64_t hs__expected_bytes(const hs__selection *selection, const hs_raw_session *session);

/* Also used to write safetensors files, to send the states of ranks, and to restore. */

/* hs__save_item.produce of a state slot: its provider puts its state. */
hs_code hs__produce_state(void *slot, hs__put_fn put, void *user, hs_error *err);
/* Visits the bytes of a piece of state, then its version and identity if it has them. */
hs_code hs__visit_state(const hs_env *env, const hs__stored_state *state, const hs__save_item *bytes,
                        hs__visit_item_fn visit, void *user, hs_error *err);

/* The key of the record of a variable that had no memory when it was saved, a scalar of type bool: the checkpoint has no
 * value of it. For hs__free. NULL: out of memory. */
char *hs__unallocated_key(const hs_env *env, const char *name);

#endif
