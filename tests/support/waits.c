/* SPDX-License-Identifier: Apache-2.0 */
#include "support/waits.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

int __real_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
int __real_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until);
int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until);

static atomic_size_t waiting, of_main;
static _Atomic int64_t until_secs;
static pthread_t main_thread;

__attribute__((constructor)) static void note_main(void)
{
    main_thread = pthread_self();
}

static void begin(void)
{
    atomic_fetch_add(&waiting, 1);
    if (pthread_equal(pthread_self(), main_thread))
        atomic_fetch_add(&of_main, 1);
}

int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
    begin();
    int result = __real_pthread_cond_wait(condition, mutex);
    atomic_fetch_sub(&waiting, 1);
    return result;
}

int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until)
{
    atomic_store(&until_secs, until->tv_sec);
    begin();
    int result = __real_pthread_cond_timedwait(condition, mutex, until);
    atomic_fetch_sub(&waiting, 1);
    return result;
}

size_t threads_waiting(void)
{
    return atomic_load(&waiting);
}

size_t waits_of_main(void)
{
    return atomic_load(&of_main);
}

void await_waiting(size_t n)
{
    while (threads_waiting() < n)
        sched_yield();
}

double longest_wait(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(atomic_load(&until_secs) - now.tv_sec);
}
