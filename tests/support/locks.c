/* SPDX-License-Identifier: Apache-2.0 */
/* In the programs of unit tests, mutexes check their owner. The program ends if a thread unlocks a mutex that it has not
 * locked, locks a mutex twice, or destroys a locked mutex: an unlock is missing. */
#define _GNU_SOURCE /* PTHREAD_MUTEX_ERRORCHECK */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int __real_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes);
#pragma GCC visibility push(default) /* a shared library that a test links may also use locks */
int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes);
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __real_pthread_mutex_destroy(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_destroy(pthread_mutex_t *mutex);
#pragma GCC visibility pop

int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes)
{
    pthread_mutexattr_t checking;
    pthread_mutexattr_init(&checking);
    pthread_mutexattr_settype(&checking, PTHREAD_MUTEX_ERRORCHECK);
    int result = __real_pthread_mutex_init(mutex, attributes ? attributes : &checking);
    pthread_mutexattr_destroy(&checking);
    return result;
}

static int must_succeed(const char *call, int result)
{
    if (result) {
        fprintf(stderr, "%s: %s\n", call, strerror(result));
        abort();
    }
    return result;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    return must_succeed("pthread_mutex_lock", __real_pthread_mutex_lock(mutex));
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    return must_succeed("pthread_mutex_unlock", __real_pthread_mutex_unlock(mutex));
}

int __wrap_pthread_mutex_destroy(pthread_mutex_t *mutex)
{
    return must_succeed("pthread_mutex_destroy", __real_pthread_mutex_destroy(mutex));
}
