/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_THREADS_MONITOR_H
#define HS_THREADS_MONITOR_H

#include "base/error.h"

#include <pthread.h>

/* A lock, and waiting under it for something to change. It goes by the system's monotonic clock: no other one wakes a
 * thread. */
typedef struct hs__monitor {
    pthread_mutex_t lock;
    pthread_cond_t changed;
} hs__monitor;

#define HS__FOREVER INT64_MAX

hs_code hs__monitor_init(hs__monitor *monitor, hs_error *err);
void hs__monitor_destroy(hs__monitor *monitor);
void hs__monitor_lock(hs__monitor *monitor);
void hs__monitor_unlock(hs__monitor *monitor);
/* Wakes all that wait. Under the lock. */
void hs__monitor_changed(hs__monitor *monitor);
/* Waits for a change, under the lock; may return without one. False: the deadline has passed. */
bool hs__monitor_wait(hs__monitor *monitor, int64_t deadline);
/* In so many seconds, for hs__monitor_wait; HS__FOREVER of HS_NEVER. Of 0, less and NaN: now. */
int64_t hs__deadline(double secs);

#endif
