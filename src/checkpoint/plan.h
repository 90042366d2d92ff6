/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_PLAN_H
#define HS_CHECKPOINT_PLAN_H

#include "checkpoint/saver.h"

/* Which variable gets which tensor of a checkpoint. All values are read before any is copied, so that a failure leaves the
 * model as it was. */

/* What is read of the archive. */
typedef struct {
    size_t tensor; /* HS__NONE: it is not there */
    size_t offset; /* of its value in the plan's data */
} hs__planned_value;

typedef struct {
    size_t index; /* of the variable in the backend */
    hs_variable variable;
    hs__planned_value value;
} hs__planned;

typedef struct hs__plan {
    const hs_env *env;
    hs__planned *items;
    size_t n, capacity;
    bool *taken; /* by tensor of the archive */
    unsigned char *data;
    size_t bytes;
} hs__plan;

/* Finds its tensor for each variable that is to be restored. Those that have not their like there are an error, and all
 * listed in it, unless the options allow for them. */
hs_code hs__plan_make(hs__plan *plan, const hs_saver *saver, const hs_raw_session *session, const hs__archive *archive,
                      const hs_restore_options *options, hs_error *err);
hs_code hs__plan_read(hs__plan *plan, const hs__archive *archive, hs_error *err);
hs_code hs__plan_write(const hs__plan *plan, const hs_raw_session *session, hs_error *err);
void hs__plan_free(hs__plan *plan);

void hs__tell(const hs_restore_options *options, hs_restore_event event, const char *name, const char *detail);

#endif
