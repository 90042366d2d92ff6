/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_SAVE_POLICY_H
#define HS_HOOKS_SAVE_POLICY_H

#include <hooksess/hooks/checkpoint_saver.h>

/* What becomes of a save that failed, if it is the disk's failure, which may pass. */
typedef struct hs__save_policy {
    hs_save_failure on_failure;
    int tries;        /* that have failed, one after the other */
    int64_t retry_ns; /* when to try again, by the monotonic clock; meant only after a failure */
} hs__save_policy;

/* Is it to be tried again at once? Waits before it says so. If a stop leaves no time for it, the error says so. */
bool hs__save_again(const hs__save_policy *policy, hs_run_context *run, hs_code code, hs_error *error);
/* May the training go on without this one? */
bool hs__save_passes(const hs__save_policy *policy, hs_code code, const hs_error *error);
/* It does. */
void hs__go_on_unsaved(hs__save_policy *policy, hs_run_context *run, int64_t step, const hs_error *error);
/* Is the last failure one to be tried again, and is it time? */
bool hs__save_retries(const hs__save_policy *policy);
bool hs__save_retry_due(const hs__save_policy *policy, hs_run_context *run);

const hs_env *hs__env_of_run(const hs_run_context *run);

#endif
