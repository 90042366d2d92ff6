/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/driver_calls.h"

#include <pthread.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static int n_objects;
static size_t pinned_bytes, pinned_peak, copied_bytes;
static struct {
    const char *name;
    int calls;
} counted[64];
static const char *failing;
static int fails_in;
static CUresult failure, sticky;
static bool is_sticky;

void count_object(int by)
{
    pthread_mutex_lock(&lock);
    n_objects += by;
    pthread_mutex_unlock(&lock);
}

void count_pinned(size_t by)
{
    pthread_mutex_lock(&lock);
    pinned_bytes += by;
    pinned_peak = pinned_bytes > pinned_peak ? pinned_bytes : pinned_peak;
    pthread_mutex_unlock(&lock);
}

void count_copied(size_t bytes)
{
    pthread_mutex_lock(&lock);
    copied_bytes += bytes;
    pthread_mutex_unlock(&lock);
}

size_t fake_cuda_copied(void)
{
    pthread_mutex_lock(&lock);
    size_t bytes = copied_bytes;
    copied_bytes = 0;
    pthread_mutex_unlock(&lock);
    return bytes;
}

size_t fake_cuda_pinned_peak(void)
{
    pthread_mutex_lock(&lock);
    size_t peak = pinned_peak;
    pinned_peak = pinned_bytes;
    pthread_mutex_unlock(&lock);
    return peak;
}

int fake_cuda_objects(void)
{
    pthread_mutex_lock(&lock);
    int n = n_objects;
    pthread_mutex_unlock(&lock);
    return n;
}

CUresult enter(const char *name)
{
    CUresult result = CUDA_SUCCESS;
    size_t i = 0;
    pthread_mutex_lock(&lock);
    while (counted[i].name && strcmp(counted[i].name, name) != 0)
        i++;
    counted[i].name = name;
    counted[i].calls++;
    if (sticky) {
        result = sticky;
    } else if (failing && strcmp(failing, name) == 0 && --fails_in == 0) {
        result = failure;
        sticky = is_sticky ? failure : CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

void fake_cuda_fail(const char *name, int nth, CUresult result, bool stays)
{
    pthread_mutex_lock(&lock);
    failing = name;
    fails_in = nth;
    failure = result;
    is_sticky = stays;
    sticky = CUDA_SUCCESS;
    pthread_mutex_unlock(&lock);
}

int fake_cuda_calls(const char *name)
{
    int calls = 0;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; counted[i].name; i++)
        if (strcmp(counted[i].name, name) == 0)
            calls = counted[i].calls;
    pthread_mutex_unlock(&lock);
    return calls;
}
