/* SPDX-License-Identifier: Apache-2.0 */
/* A lock with a condition variable, and deadlines of the monotonic clock. */
#include "threads/monitor.h"

#include <time.h>

enum { NS = 1000000000 };

hs_code hs__monitor_init(hs__monitor *monitor, hs_error *err)
{
    pthread_condattr_t monotonic;
    int result = pthread_condattr_init(&monotonic);
    if (!result) {
        pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        result = pthread_mutex_init(&monitor->lock, NULL);
        if (!result && (result = pthread_cond_init(&monitor->changed, &monotonic)))
            pthread_mutex_destroy(&monitor->lock);
        pthread_condattr_destroy(&monotonic);
    }
    monitor->generation = hs__fork_generation();
    return result ? hs_error_set_errno(err, result, "cannot create a lock") : HS_OK;
}

void hs__monitor_destroy(hs__monitor *monitor)
{
    if (hs__is_inherited(monitor->generation))
        return; /* pthread_cond_destroy would wait for threads of the parent that wait */
    pthread_cond_destroy(&monitor->changed);
    pthread_mutex_destroy(&monitor->lock);
}

void hs__monitor_lock(hs__monitor *monitor)
{
    pthread_mutex_lock(&monitor->lock);
}

void hs__monitor_unlock(hs__monitor *monitor)
{
    pthread_mutex_unlock(&monitor->lock);
}

void hs__monitor_changed(hs__monitor *monitor)
{
    pthread_cond_broadcast(&monitor->changed);
}

bool hs__monitor_wait(hs__monitor *monitor, int64_t deadline)
{
    if (deadline == HS__FOREVER)
        return pthread_cond_wait(&monitor->changed, &monitor->lock) == 0;
    struct timespec until = {.tv_sec = (time_t)(deadline / NS), .tv_nsec = (long)(deadline % NS)};
    return pthread_cond_timedwait(&monitor->changed, &monitor->lock, &until) == 0;
}

int64_t hs__deadline(double secs)
{
    const double MOST = 1e9; /* about 30 years; a later deadline is never reached */
    struct timespec now;
    if (secs == HS_NEVER || secs >= MOST)
        return HS__FOREVER;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS + now.tv_nsec + (secs > 0 ? (int64_t)(secs * NS) : 0);
}
