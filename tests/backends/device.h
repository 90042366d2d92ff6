/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_BACKENDS_DEVICE_H
#define HS_TESTS_BACKENDS_DEVICE_H

/* A device whose memory nobody but its own functions may touch: whoever else reads or writes it gets SIGSEGV. */

#include "support/test.h"

#include <pthread.h>

typedef struct device {
    hs_memory memory;
    unsigned char *base;
    size_t bytes, used;
    pthread_t thread; /* the one whose the device is, as a CUDA context is a thread's */
    int to_host, from_host, strangers;
    int fails_in; /* so many copies from now, one fails, as what went on beside has failed; 0: none */
    hs_code code; /* with this */
} device;

void device_open(device *d, size_t bytes);
/* Fails if another thread has copied. */
void device_close(device *d);
/* An address on the device. */
void *device_alloc(device *d, size_t bytes);
/* What a kernel does: touches the memory between the two. */
void device_enter(device *d);
void device_leave(device *d);

#endif
