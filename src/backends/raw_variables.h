/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BACKENDS_RAW_VARIABLES_H
#define HS_BACKENDS_RAW_VARIABLES_H

#include "backends/raw_session.h"

/* The variables of a session, by index. Late variables, which hs_raw_session_add_variable adds while the session is open,
 * follow those of the backend.
 *
 * When a session is closed, its late variables are lost. A recovery brings them back; the program may then add each again.
 */

/* Returns false after the last. */
bool hs__session_variable(const hs_raw_session *session, size_t index, hs_variable *out);
/* Sets *value to a view of the variable, in host or device memory. value->data NULL: the variable has no memory. */
hs_code hs__session_read(const hs_raw_session *session, size_t index, const char *name, hs_tensor *value, hs_error *err);
/* Sets the variable to a host tensor, or to its first value if value->data is NULL. */
hs_code hs__session_write(const hs_raw_session *session, size_t index, const char *name, const hs_tensor *value,
                          hs_error *err);
/* Call before writing. Allocates the variable's memory if it does not exist. Sets *host to host memory of `bytes` for the
 * caller to fill, or to NULL: the caller must use hs__session_write. */
hs_code hs__session_lend(const hs_raw_session *session, size_t index, const hs_variable *variable, size_t bytes,
                         void **host, hs_error *err);
/* Sets *has to whether the variable has memory. Reads no value. */
hs_code hs__session_has_memory(const hs_raw_session *session, size_t index, const hs_variable *variable, bool *has,
                               hs_error *err);

/* Returns true if the variable is late. */
bool hs__session_is_late(const hs_raw_session *session, size_t index);

/* Returns true if a recovery brought back a late variable of this name, and the program has not added it again. */
bool hs__raw_session_is_recovered(const hs_raw_session *raw, const char *name);
/* Makes room for a late variable, so that hs__raw_session_add_late cannot fail. */
hs_code hs__raw_session_reserve_late(hs_raw_session *raw, hs_error *err);
/* Adds a late variable, or replaces a recovered or lost one of the same name. Adopts the name. */
void hs__raw_session_add_late(hs_raw_session *raw, const hs__late_variable *late);
/* Call when the session is closed. */
void hs__raw_session_lose_late(hs_raw_session *raw);
/* Brings back a lost variable. NULL: no variable is lost. */
const hs_variable_def *hs__raw_session_recover_late(hs_raw_session *raw);
void hs__raw_session_free_late(hs_raw_session *raw);

#endif
