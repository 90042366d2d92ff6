/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_RESTORE_PLAN_H
#define HS_CHECKPOINT_RESTORE_PLAN_H

#include "checkpoint/saver.h"

/* Which variable gets which tensor of a checkpoint. All values are read and verified before any is copied, so that a
 * failure leaves the model as it was. Those of a small model are then in memory; a large one would need its memory twice,
 * and its values are read a second time, and verified once more, straight into the variables where a backend lends their
 * memory. */

typedef struct {
    size_t index; /* of the variable in the backend */
    hs_variable variable;
    size_t tensor; /* of the archive */
    bool is_part;  /* the variable is a part of it: */
    hs__box box;
    size_t bytes;
    size_t offset; /* of its value in the plan's data */
    void *lent;    /* the variable's own memory; NULL: it is set by a copy */
} hs__planned;

typedef struct hs__plan {
    const hs_env *env;
    hs__planned *items;
    size_t n, capacity;
    size_t *without; /* variables that had no memory when they were saved: their indexes in the backend */
    size_t n_without, without_capacity;
    bool *taken;          /* by tensor of the archive: a variable takes it, or would if it fitted */
    uint64_t bytes;       /* of all of them, or UINT64_MAX */
    uint64_t state_bytes; /* of the checkpoint's states, which are read in addition */
    unsigned char *data;  /* NULL: they are read twice */
    unsigned char *copy;  /* of one of those that are */
    size_t copy_bytes;
    hs__read_progress progress;
} hs__plan;

/* Finds its tensor for each variable that is to be restored. Those that have not their like there are an error, and all
 * listed in it, unless the options allow for them. */
hs_code hs__plan_make(hs__plan *plan, const hs_saver *saver, const hs_raw_session *session, const hs__archive *archive,
                      const hs_restore_options *options, hs_error *err);
/* Reads all, and verifies it. Changes nothing. */
hs_code hs__plan_read(hs__plan *plan, const hs__archive *archive, hs_error *err);
/* All that can fail for want of memory, before anything is changed. Looks up where the variables are. */
hs_code hs__plan_prepare(hs__plan *plan, const hs_raw_session *session, hs_error *err);
/* Sets the variables, where they are by now: states have been loaded since they were looked up. */
hs_code hs__plan_write(hs__plan *plan, const hs__archive *archive, const hs_raw_session *session, hs_error *err);
void hs__plan_free(hs__plan *plan);

/* hs_struct_take, and HS_INVALID_ARGUMENT if `names` lists a variable twice. */
hs_code hs__take_restore_options(hs_restore_options *to, const hs_env *env, const hs_restore_options *given, hs_error *err);

void hs__tell(const hs_restore_options *options, hs_restore_event event, const char *name, const char *detail);

#endif
