/* SPDX-License-Identifier: Apache-2.0 */
/* In the programs of unit tests, mutexes check their owner. If a thread unlocks a mutex that it has not locked, the program
 * ends. */
#define _GNU_SOURCE /* PTHREAD_MUTEX_ERRORCHECK */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int __real_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes);
int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes);
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);

int __wrap_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes)
{
    pthread_mutexattr_t checking;
    pthread_mutexattr_init(&checking);
    pthread_mutexattr_settype(&checking, PTHREAD_MUTEX_ERRORCHECK);
    int result = __real_pthread_mutex_init(mutex, attributes ? attributes : &checking);
    pthread_mutexattr_destroy(&checking);
    return result;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    int result = __real_pthread_mutex_unlock(mutex);
    if (result) {
        fprintf(stderr, "pthread_mutex_unlock: %s\n", strerror(result));
        abort();
    }
    return result;
}
