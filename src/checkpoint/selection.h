/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_SELECTION_H
#define HS_CHECKPOINT_SELECTION_H

#include <hooksess/checkpoint.h>

#include "backends/raw_session.h"

/* The variables of a session to save or restore, and their names in checkpoints. All zero: all variables that are not
 * local, under their own names. */
typedef struct hs__selection {
    const char *const *variables;    /* ended by NULL; NULL: all variables that are not local */
    const hs_checkpoint_name *names; /* ended by a struct of zeros; NULL: each variable keeps its name */
    bool without_slices;             /* each part of a partitioned variable is a tensor of its own */
} hs__selection;

/* Copies the lists, each of which may be NULL. INVALID_ARGUMENT: a variable is listed twice, or has an empty name. Call
 * hs__selection_free in any case. */
hs_code hs__selection_init(hs__selection *selection, const hs_env *env, const char *const *variables,
                           const hs_checkpoint_name *names, hs_error *err);
void hs__selection_free(hs__selection *selection, const hs_env *env);

/* Describes the first selected variable of the session from *index on, which it sets. Returns false if there is none. */
bool hs__selection_next(const hs__selection *selection, const hs_raw_session *session, size_t *index, hs_variable *out);
/* The variable's name in checkpoints. */
const char *hs__selection_name(const hs__selection *selection, const char *variable);
/* Returns true if the variable is saved as a slice of a partitioned one. out->name is the name of the whole in checkpoints.
 */
bool hs__selection_slice(const hs__selection *selection, const hs_raw_session *session, size_t index, const char *variable,
                         hs_variable_slice *out);
/* INVALID_ARGUMENT if the selection lists a variable that the session does not have. */
hs_code hs__selection_check(const hs__selection *selection, const hs_raw_session *session, hs_error *err);

/* `list` has elements of `size` bytes, each of which begins with the name of a variable; NULL ends it. May be NULL. `begin`
 * begins the message: "OPTION lists". INVALID_ARGUMENT if a name is not a variable of the session, or is listed twice. */
hs_code hs__check_variables(const hs_raw_session *session, const void *list, size_t size, const char *begin, hs_error *err);
hs_code hs__check_once(const hs_env *env, const void *list, size_t size, const char *begin, hs_error *err);
/* NULL ends the list. */
bool hs__is_listed(const char *const *list, const char *name);
/* The name that the list, which may be NULL, gives the variable. NULL: none. */
const char *hs__name_in(const hs_checkpoint_name *names, const char *variable);
/* INVALID_ARGUMENT if a variable may not have this name in checkpoints, because it is reserved for state. */
hs_code hs__check_saved_name(const char *name, hs_error *err);

#endif
