/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTING_COMPLETE_ENV_H
#define HS_TESTING_COMPLETE_ENV_H

#include <hooksess/env.h>

/* Sets `env` to `given`, completed by the system's parts. Returns false if `given` is invalid. */
bool hs__complete_env(hs_env *env, const hs_env *given);

#endif
