/* SPDX-License-Identifier: Apache-2.0 */
#include "threads/event.h"

void event_add(event *e)
{
    pthread_mutex_lock(&e->lock);
    e->n++;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

int event_count(event *e)
{
    pthread_mutex_lock(&e->lock);
    int n = e->n;
    pthread_mutex_unlock(&e->lock);
    return n;
}

void event_wait(event *e, int n)
{
    pthread_mutex_lock(&e->lock);
    while (e->n < n)
        pthread_cond_wait(&e->changed, &e->lock);
    pthread_mutex_unlock(&e->lock);
}
