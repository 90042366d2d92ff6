/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_CUDA_GATE_H
#define HS_TESTS_CUDA_GATE_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

/* A kernel that changes no memory, and ends when the test opens the gate. */

static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_changed = PTHREAD_COND_INITIALIZER;
static bool gate_is_open, gate_timed_out;

static inline void wait_at_gate(void *of)
{
    struct timespec until;
    (void)of;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    pthread_mutex_lock(&gate_lock);
    while (!gate_is_open && !gate_timed_out)
        gate_timed_out = pthread_cond_timedwait(&gate_changed, &gate_lock, &until) != 0;
    pthread_mutex_unlock(&gate_lock);
}

static inline void set_gate(bool open)
{
    pthread_mutex_lock(&gate_lock);
    gate_is_open = open;
    pthread_cond_broadcast(&gate_changed);
    pthread_mutex_unlock(&gate_lock);
}

#endif
