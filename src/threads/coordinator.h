/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_THREADS_COORDINATOR_H
#define HS_THREADS_COORDINATOR_H

#include <hooksess/coordinator.h>

#include "base/env.h"

/* `env` must outlive it. NULL without memory. */
hs_coordinator *hs__coordinator_new(const hs_env *env);
void hs__coordinator_free(hs_coordinator *coordinator);

#endif
