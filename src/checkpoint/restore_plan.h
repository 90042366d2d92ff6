/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_RESTORE_PLAN_H
#define HS_CHECKPOINT_RESTORE_PLAN_H

#include "checkpoint/archive.h"
#include "checkpoint/selection.h"

/* Which variable gets which tensor of an archive. All values are read and verified before any is copied, so that a failure
 * leaves the model unchanged. A small model's values are kept in memory between the two. A large model would need twice its
 * memory: its values are only verified, and then read and verified again, directly into the variables if the backend lends
 * their memory. */

typedef struct {
    size_t index; /* of the variable in the backend */
    hs_variable variable;
    size_t tensor; /* index in the archive */
    bool is_slice; /* the variable is only this box of the tensor: */
    hs__box box;
    size_t bytes;
    size_t offset; /* of its value in plan->data */
    void *memory;  /* the variable's own memory; NULL: the value is copied into the variable */
} hs__planned;

typedef struct hs__plan {
    const hs_env *env;
    hs__planned *items;
    size_t n, capacity;
    size_t *unallocated; /* indexes in the backend of variables that had no memory when they were saved */
    size_t n_unallocated, unallocated_capacity;
    bool *used;           /* by index in the archive: a variable of the model has this name */
    uint64_t bytes;       /* of all values; UINT64_MAX: more than can be counted */
    uint64_t state_bytes; /* of the checkpoint's states, for the progress */
    unsigned char *data;  /* the values; NULL: they are read twice */
    unsigned char *copy;  /* one value, if they are read twice */
    size_t copy_bytes;
    hs__read_progress progress;
} hs__plan;

/* Finds a tensor for each selected variable. INVALID_ARGUMENT or NOT_FOUND lists all variables that the archive does not
 * have, or has with another type or shape, unless the options allow that. Call hs__plan_free in any case. */
hs_code hs__plan_make(hs__plan *plan, const hs_env *env, const hs__selection *selection, const hs_raw_session *session,
                      const hs__archive *archive, const hs_restore_options *options, hs_error *err);
/* Reads and verifies all values. Changes nothing. */
hs_code hs__plan_read(hs__plan *plan, const hs__archive *archive, hs_error *err);
/* Looks up the variables' memory, and allocates what writing needs. Changes nothing. */
hs_code hs__plan_prepare(hs__plan *plan, const hs_raw_session *session, hs_error *err);
/* Sets the variables. Looks up their memory again, because states that were loaded since may have moved it. */
hs_code hs__plan_write(hs__plan *plan, const hs__archive *archive, const hs_raw_session *session, hs_error *err);
void hs__plan_free(hs__plan *plan);

/* hs_struct_take, and INVALID_ARGUMENT if `names` lists a variable twice. */
hs_code hs__copy_restore_options(hs_restore_options *to, const hs_env *env, const hs_restore_options *given, hs_error *err);
/* Calls options->report, if there is one. */
void hs__report_restore(const hs_restore_options *options, hs_restore_event event, const char *name, const char *detail);

#endif
