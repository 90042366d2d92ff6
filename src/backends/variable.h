/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BACKENDS_VARIABLE_H
#define HS_BACKENDS_VARIABLE_H

#include <hooksess/graph.h>

#include "base/error.h"

/* Locates, checks and sets the memory of a variable, according to its definition. */

/* Check dtype and shape, and the functions of device memory. `what` is the kind of node for the message: "variable",
 * "value". open: dimensions may be unknown. */
hs_code hs__check_kind(const char *what, const char *name, int64_t dtype, const hs_shape *shape, bool open, hs_error *err);
hs_code hs__check_memory(const char *what, const char *name, const hs_memory *memory, hs_error *err);
/* Checks a complete definition, except its name. HS_INVALID_ARGUMENT: invalid. */
hs_code hs__variable_check(const hs_variable_def *def, hs_error *err);

/* Returns true if the memory must be located before each use. */
static inline bool hs__variable_moves(const hs_variable_def *def)
{
    return def->data_at || def->locate;
}

/* Returns hs_variable.flags. */
uint64_t hs__variable_flags(const hs_variable_def *def);
/* Sets *value to a view of the program's memory. value->data NULL: the variable has no memory. With `allocate`, allocates
 * it then, or fails. */
hs_code hs__variable_place(const hs_variable_def *def, bool allocate, hs_tensor *value, hs_error *err);
/* Sets the variable to a host tensor, to its lent memory, or to a copy on its device. value->data NULL: to its first value,
 * if it has memory. *to is a view of its memory, which is located again if it moves. */
hs_code hs__variable_write(const hs_variable_def *def, hs_tensor *to, const hs_tensor *value, hs_error *err);
/* Sets the memory `to` to the variable's first value: calls `initialize`, or copies `initial` or zeros. */
hs_code hs__variable_reset(const hs_variable_def *def, const hs_tensor *to, hs_error *err);

#endif
