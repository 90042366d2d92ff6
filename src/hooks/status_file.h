/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_STATUS_FILE_H
#define HS_HOOKS_STATUS_FILE_H

#include <hooksess/hook.h>

/* The files that tell outsiders of a run, status.json and outcome.json. */
typedef struct hs__run_status {
    int64_t step, last_durable_step;
    const char *phase;
    double save_secs;
} hs__run_status;

/* Each puts a new file in the old one's place; whoever looks sees one or the other. The directory is made if it is missing.
 */
hs_code hs__status_write(const hs_env *env, const char *directory, const hs__run_status *status, bool synced,
                         hs_error *err);
/* `session` NULL: there was none, and nothing is known of failures. */
hs_code hs__outcome_write(const hs_env *env, const char *directory, const hs_outcome *outcome,
                          const hs_raw_session *session, hs_error *err);
/* Removes an outcome that is there. */
void hs__outcome_remove(const hs_env *env, const char *directory);
/* What the status says of how long a save takes; 0: there is none, or none to believe. */
double hs__status_save_secs(const hs_env *env, const char *directory);
bool hs__status_directory_exists(const hs_env *env, const char *directory);
/* Does another process save there? */
bool hs__status_is_others(const hs_env *env, const char *directory);

#endif
