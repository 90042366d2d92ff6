/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_VARIABLES_H
#define HS_CHECKPOINT_VARIABLES_H

#include "backends/raw_session.h"

/* The variables of a session, by their index, and the memory that they are in. */

/* False past the last. */
bool hs__session_variable(const hs_raw_session *session, size_t index, hs_variable *out);
/* A view of its value, on the host or on a device. value->data is NULL if it has no memory. */
hs_code hs__session_read(const hs_raw_session *session, size_t index, const char *name, hs_tensor *value, hs_error *err);
/* Sets it to a host tensor; to its first value if value->data is NULL. */
hs_code hs__session_write(const hs_raw_session *session, size_t index, const char *name, const hs_tensor *value,
                          hs_error *err);
/* Before it is written: allocates memory for it if it has none. *lent is its memory, NULL if it is to be set by a copy. */
hs_code hs__session_lend(const hs_raw_session *session, size_t index, const hs_variable *variable, size_t bytes,
                         void **lent, hs_error *err);
/* *has: is there memory to read it from? Reads no value. */
hs_code hs__session_has_memory(const hs_raw_session *session, size_t index, const hs_variable *variable, bool *has,
                               hs_error *err);

/* What an error says first if a restore has changed the model, and cannot complete it. */
#define HS__PARTLY_RESTORED "do not train with this session: the model is partly restored"

/* Was it added while the session was open? */
bool hs__session_is_late(const hs_raw_session *session, size_t index);

/* What a checkpoint records of a variable besides its value: a scalar of type bool under the key "hooksess/variable/NAME"
 * with one of these behind it. */
#define HS__VARIABLE_NULL ":null" /* it had no memory when it was saved, and there is no value */
#define HS__VARIABLE_LATE ":late" /* it was added while the session was open */
/* The key, for hs__free. NULL without memory. */
char *hs__variable_key(const hs_env *env, const char *name, const char *which);

#endif
