/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TEST_REPLICAS_DEVICE_H
#define HS_TEST_REPLICAS_DEVICE_H

#include "support/test.h"

#include <stdatomic.h>

/* A device whose memory is the host's. Counts its copies on the device. */

static atomic_int device_copies;

static hs_code device_copy(void *user, void *to, const void *from, size_t bytes, hs_error *err)
{
    (void)user, (void)err;
    memcpy(to, from, bytes);
    return HS_OK;
}

static hs_code device_wait(void *user, const void *host, hs_error *err)
{
    (void)user, (void)host, (void)err;
    return HS_OK;
}

static hs_code device_duplicate(void *user, const void *from, size_t bytes, void **copy, hs_error *err)
{
    *copy = malloc(bytes);
    assert_non_null(*copy);
    atomic_fetch_add(&device_copies, 1);
    return device_copy(user, *copy, from, bytes, err);
}

static void device_release(void *user, void *copy)
{
    (void)user;
    atomic_fetch_sub(&device_copies, 1);
    free(copy);
}

static void device_hold(void *user)
{
    (void)user;
}

static const hs_memory device =
    HS_INIT(hs_memory, .device_type = 2, .to_host = device_copy, .from_host = device_copy, .wait = device_wait,
            .duplicate = device_duplicate, .release = device_release, .hold = device_hold, .restore = device_copy);

#endif
