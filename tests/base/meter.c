/* SPDX-License-Identifier: Apache-2.0 */
#include "base/meter.h"

static void count(meter *m, size_t bytes)
{
    m->bytes = bytes > SIZE_MAX - m->bytes ? SIZE_MAX : m->bytes + bytes;
    m->largest = bytes > m->largest ? bytes : m->largest;
}

static void *meter_alloc(void *user, size_t bytes)
{
    meter *m = user;
    count(m, bytes);
    return m->under.alloc(m->under.user, bytes);
}

static void *meter_realloc(void *user, void *block, size_t bytes)
{
    meter *m = user;
    count(m, bytes);
    return m->under.realloc(m->under.user, block, bytes);
}

static void meter_free(void *user, void *block)
{
    meter *m = user;
    m->under.free(m->under.user, block);
}

void meter_init(meter *m, const hs_env *env)
{
    *m = (meter){.env = *env, .under = env->allocator};
    m->env.allocator = (hs_allocator){meter_alloc, meter_realloc, meter_free, m};
}

void meter_reset(meter *m)
{
    m->bytes = m->largest = 0;
}
