/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BACKENDS_RAW_VARIABLES_H
#define HS_BACKENDS_RAW_VARIABLES_H

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

/* Was it added while the session was open? */
bool hs__session_is_late(const hs_raw_session *session, size_t index);

/* Was a late variable of this name brought back by a recovery, and not added since? */
bool hs__raw_session_is_recovered(const hs_raw_session *raw, const char *name);
/* Makes room for a late variable, and adds it, which cannot fail then. The name is adopted. It replaces a recovered or lost
 * one of the same name. */
hs_code hs__raw_session_reserve_late(hs_raw_session *raw, hs_error *err);
void hs__raw_session_add_late(hs_raw_session *raw, const hs__late_variable *late);
/* The session was closed: its late variables are lost, until they are added again or recovered. */
void hs__raw_session_lose_late(hs_raw_session *raw);
/* Brings back a lost one. NULL: there are no more. */
const hs_variable_def *hs__raw_session_recover_late(hs_raw_session *raw);
void hs__raw_session_free_late(hs_raw_session *raw);

#endif
