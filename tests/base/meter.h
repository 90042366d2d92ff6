/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_BASE_METER_H
#define HS_TESTS_BASE_METER_H

#include "support/test.h"

/* Measures how much memory is asked for. For one thread. */
typedef struct meter {
    hs_env env; /* the environment that it was made with, measured */
    hs_allocator under;
    size_t bytes;   /* all that was asked for, together */
    size_t largest; /* the largest piece */
} meter;

/* `env` must be complete. */
void meter_init(meter *m, const hs_env *env);
void meter_reset(meter *m);

#endif
