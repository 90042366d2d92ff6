/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_SAVE_ITEM_H
#define HS_CHECKPOINT_SAVE_ITEM_H

#include "backends/raw_session.h"
#include "formats/bundle.h"

/* One tensor of a checkpoint that is being saved, in host memory. It is a variable's value, a piece of state, or a record.
 */
typedef struct hs__save_item {
    const char *name;
    hs_tensor value;
    const hs_variable_slice *slice; /* position of the value in the tensor `name`; NULL: the value is the whole tensor */
    size_t variable;                /* index in the backend; HS__NONE: not the value of a variable that is read now */
    bool borrowed;                  /* value.data is the variable's own memory */
    bool follows;                   /* slice of the same tensor as the previous item */
    bool moves;                     /* the program may move the variable's memory at any time (HS_VARIABLE_MOVES) */
    bool nonfinite;                 /* NaN and infinity are allowed */
    bool varies;                    /* state of a hook that differs between equal runs (HS_HOOK_STATE_VARIES) */
    /* Not NULL: `value` is a vector of uint8 without data and length, and this calls `put` with its bytes, once. */
    hs_code (*produce)(void *source, hs__put_fn put, void *user, hs_error *err);
    void *source;
    hs__bundle_reader *copied_from; /* not NULL: the tensor is that of this bundle, and `value` has only its size */
} hs__save_item;

/* Called with one item, which is valid during the call. An error ends the visit. */
typedef hs_code (*hs__visit_item_fn)(void *user, const hs__save_item *item, hs_error *err);

/* Appends the item to a bundle. */
hs_code hs__save_item_write(const hs__save_item *item, hs__bundle_writer *writer, hs_error *err);
/* Reads a variable's value, which must have memory, into host memory. Valid until the next call with the same `copy` or
 * with the session. */
hs_code hs__read_variable(const hs_raw_session *session, size_t index, const char *name, hs_host_copy *copy,
                          hs_tensor *host, hs_error *err);
/* Calls the provider of a piece of state, which writes to `writer`. */
hs_code hs__produce_state(const hs__state_slot *slot, hs_state_writer *writer, hs_error *err);
/* Visits the bytes of a piece of state, then its version and identity if it has them. */
hs_code hs__visit_state(const hs_env *env, const hs__stored_state *state, const hs__save_item *bytes,
                        hs__visit_item_fn visit, void *user, hs_error *err);

/* The key of the record of a variable that had no memory when it was saved, a scalar of type bool: the checkpoint has no
 * value of it. For hs__free. NULL: out of memory. */
char *hs__unallocated_key(const hs_env *env, const char *name);
/* Visits such a record. */
hs_code hs__visit_unallocated(const hs_env *env, const char *name, hs__visit_item_fn visit, void *user, hs_error *err);

#endif
