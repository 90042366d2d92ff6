/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BACKENDS_VARIABLE_H
#define HS_BACKENDS_VARIABLE_H

#include <hooksess/graph.h>

#include "base/error.h"

/* The memory of a variable as its definition describes it: where it is, and how it is set. */

/* `what` is the kind of node that messages name: "variable", "value". */
hs_code hs__check_kind(const char *what, const char *name, int64_t dtype, const hs_shape *shape, bool open, hs_error *err);
hs_code hs__check_memory(const char *what, const char *name, const hs_memory *memory, hs_error *err);
/* Checks all of a complete definition but its name. INVALID_ARGUMENT. */
hs_code hs__variable_check(const hs_variable_def *def, hs_error *err);

/* Does the program say at each use where the memory is? */
static inline bool hs__variable_moves(const hs_variable_def *def)
{
    return def->data_at || def->locate;
}

/* The flags of hs_variable for it. */
uint64_t hs__variable_flags(const hs_variable_def *def);
/* Sets *value to a view of the program's memory as it is now. value->data is NULL if there is none. `allocate`: there is
 * some afterwards, or it fails. */
hs_code hs__variable_place(const hs_variable_def *def, bool allocate, hs_tensor *value, hs_error *err);
/* Sets the variable to a host tensor. value->data NULL: to its first value, if it has memory. `to` is a view of its memory,
 * and is made new if that moves. */
hs_code hs__variable_write(const hs_variable_def *def, hs_tensor *to, const hs_tensor *value, hs_error *err);
/* Sets `to` to the first value: by `initialize`, to `initial`, or to zero. */
hs_code hs__variable_reset(const hs_variable_def *def, const hs_tensor *to, hs_error *err);

#endif
