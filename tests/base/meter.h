/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_BASE_METER_H
#define HS_TESTS_BASE_METER_H

#include "support/test.h"

/* An allocator that measures how much memory is allocated. For one thread. */
typedef struct meter {
    hs_env env; /* the given environment with this allocator */
    hs_allocator under;
    size_t bytes;   /* total of all allocations */
    size_t largest; /* the largest allocation */
} meter;

/* `env` must be complete. */
void meter_init(meter *m, const hs_env *env);
void meter_reset(meter *m);

#endif
