/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_THREADS_COORDINATOR_H
#define HS_THREADS_COORDINATOR_H

#include <hooksess/coordinator.h>

#include "base/env.h"

/* Returns NULL if memory or locks are exhausted. */
hs_coordinator *hs__coordinator_new(const hs_env *env);

#endif
