/* SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "backends/device.h"

#include <sys/mman.h>

void device_enter(device *d)
{
    assert_int_equal(mprotect(d->base, d->bytes, PROT_READ | PROT_WRITE), 0);
}

void device_leave(device *d)
{
    assert_int_equal(mprotect(d->base, d->bytes, PROT_NONE), 0);
}

static hs_code copy(device *d, void *to, const void *from, size_t bytes, hs_error *err)
{
    d->strangers += !pthread_equal(d->thread, pthread_self());
    if (d->fails_in && --d->fails_in == 0)
        return hs_error_set(err, d->code, "the device has lost its work");
    device_enter(d);
    memcpy(to, from, bytes);
    device_leave(d);
    return HS_OK;
}

static hs_code to_host(void *user, void *host, const void *from, size_t bytes, hs_error *err)
{
    ((device *)user)->to_host++;
    return copy(user, host, from, bytes, err);
}

static hs_code from_host(void *user, void *to, const void *host, size_t bytes, hs_error *err)
{
    ((device *)user)->from_host++;
    return copy(user, to, host, bytes, err);
}

void device_open(device *d, size_t bytes)
{
    *d = (device){.memory = HS_INIT(hs_memory, .device_type = 2, .to_host = to_host, .from_host = from_host),
                  .bytes = bytes,
                  .thread = pthread_self(),
                  .code = HS_INTERNAL};
    d->memory.user = d;
    d->base = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(d->base != MAP_FAILED);
}

void device_close(device *d)
{
    munmap(d->base, d->bytes);
    assert_int_equal(d->strangers, 0);
}

void *device_alloc(device *d, size_t bytes)
{
    void *at = d->base + d->used;
    d->used += (bytes + 63) / 64 * 64;
    assert_true(d->used <= d->bytes);
    return at;
}
