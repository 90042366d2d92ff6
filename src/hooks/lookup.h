/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_LOOKUP_H
#define HS_HOOKS_LOOKUP_H

#include <hooksess/scaffold.h>

/* Objects that several hooks look up in the backend of a session. */

const hs_env *hs__session_env(const hs_raw_session *session);
/* Finds a variable by its name. Returns false if no variable has it. */
bool hs__find_variable(hs_backend backend, const char *name, size_t *index, hs_variable *variable);
/* Returns `given`, the saver of `scaffold`, or the only item of the collection HS_SAVERS. `given` and `scaffold` may be
 * NULL. If all three are missing, returns NULL, and *n_items is the number of items in the collection, if that is not 1. */
hs_saver *hs__find_saver(hs_backend backend, hs_saver *given, hs_scaffold *scaffold, size_t *n_items);

#endif
