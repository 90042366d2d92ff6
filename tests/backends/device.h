/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_BACKENDS_DEVICE_H
#define HS_TESTS_BACKENDS_DEVICE_H

/* A device. Only its copy functions can access its memory: any other access is a SIGSEGV. */

#include "support/test.h"

#include <pthread.h>

typedef struct device {
    hs_memory memory;
    unsigned char *base;
    size_t bytes, used;
    pthread_t thread; /* the device belongs to it, as a CUDA context does */
    int to_host, from_host, strangers;
    int fails_in; /* the copy with this number from now fails with `code`. 0: none */
    hs_code code;
} device;

void device_open(device *d, size_t bytes);
/* Fails the test if another thread has copied. */
void device_close(device *d);
/* Returns an address on the device. */
void *device_alloc(device *d, size_t bytes);
/* Between these calls the test can access the memory, as a kernel does. */
void device_enter(device *d);
void device_leave(device *d);

#endif
