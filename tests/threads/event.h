/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_THREADS_EVENT_H
#define HS_TESTS_THREADS_EVENT_H

#include "support/test.h"

#include <pthread.h>

/* A count that threads wait for. */
typedef struct event {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int n;
} event;

#define EVENT                                                                                                              \
    {                                                                                                                      \
        PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0                                                             \
    }

void event_add(event *e);
int event_count(event *e);
/* Waits until the count is at least n. */
void event_wait(event *e, int n);

#endif
