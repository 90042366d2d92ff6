/* SPDX-License-Identifier: Apache-2.0 */
/* Completes an environment that a test gives. */
#include "testing/complete_env.h"

bool hs__complete_env(hs_env *env, const hs_env *given)
{
    const hs_env *system = hs_env_default();
    *env = *system;
    if (!given)
        return true;
    if (HS_STRUCT_TAKE(hs_env, files, env, given, NULL))
        return false;
    const hs_allocator *memory = &env->allocator;
    const hs_clock *clock = &env->clock;
    if (!memory->alloc != !memory->realloc || !memory->alloc != !memory->free ||
        !clock->monotonic_ns != !clock->realtime_ns || !clock->monotonic_ns != !clock->sleep_ns)
        return false;
    if (!memory->alloc)
        env->allocator = system->allocator;
    if (!clock->monotonic_ns)
        env->clock = system->clock;
    if (!env->logger.write)
        env->logger = system->logger;
    if (!env->files.ops)
        env->files = system->files;
    return true;
}
