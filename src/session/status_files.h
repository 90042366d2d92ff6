/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SESSION_STATUS_FILES_H
#define HS_SESSION_STATUS_FILES_H

#include <hooksess/hook.h>

/* The files of hooks/run_status.h. The hook writes them; the session writes the outcome of an abandoned run. */

#define HS__STATUS_FILE  "status.json"
#define HS__OUTCOME_FILE "outcome.json"

static const double HS__LONGEST_SAVE_SECS = 86400; /* larger values of save_secs are ignored */

typedef struct hs__status {
    int64_t step, last_durable_step;
    const char *phase;
    double save_secs;
} hs__status;

hs_code hs__write_status(const hs_env *env, const char *directory, const hs__status *now, bool synced, hs_error *err);
/* session  for its failures; NULL: the file lists none */
hs_code hs__write_outcome(const hs_env *env, const char *directory, const hs_outcome *outcome,
                          const hs_raw_session *session, hs_error *err);
/* If the engine of the group ends the process (group.h), the session writes the outcome to this directory, which it
 * borrows until it is closed. */
void hs__record_abandonment_in(hs_raw_session *session, const char *directory);

#endif
