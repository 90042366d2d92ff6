/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_THREADS_COORDINATOR_H
#define HS_THREADS_COORDINATOR_H

#include <hooksess/coordinator.h>

#include "base/env.h"

/* Does the code report a lost session, from which hs_recovery recovers? */
bool hs__is_preemption(hs_code code);

/* Has anyone requested a stop without an error? Until clear_stop. */
bool hs__coordinator_asked(const hs_coordinator *coordinator);

/* hs_coordinator_join that waits for the `n` threads of `awaited`, too, and for these without a limit: they end, and are
 * not left behind. */
hs_code hs__coordinator_join(hs_coordinator *coordinator, const hs_join_options *given, hs_thread *const *awaited, size_t n,
                             hs_error *err);

/* NULL without memory. */
hs_coordinator *hs__coordinator_new(const hs_env *env);

#endif
