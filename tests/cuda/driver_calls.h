/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TEST_CUDA_DRIVER_CALLS_H
#define HS_TEST_CUDA_DRIVER_CALLS_H

#include "cuda/fake_driver.h"

/* Counts the calls of the driver and its objects, and lets calls fail, as fake_driver.h says. For fake_driver.c and
 * real_driver.c. */

/* Counts a call. Returns the failure that a test wants. */
CUresult enter(const char *name);
#define ENTER()                                                                                                            \
    do {                                                                                                                   \
        CUresult entered = enter(__func__);                                                                                \
        if (entered)                                                                                                       \
            return entered;                                                                                                \
    } while (0)

void count_object(int by);
void count_pinned(size_t by);
void count_copied(size_t bytes);

#endif
