/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_THREADS_MONITOR_H
#define HS_THREADS_MONITOR_H

#include "base/error.h"
#include "base/forks.h"

#include <pthread.h>

/* A lock with a condition variable. Deadlines are of the system's monotonic clock, as other clocks cannot wake threads. */
typedef struct hs__monitor {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned generation; /* of the process that made it */
} hs__monitor;

#define HS__FOREVER INT64_MAX

hs_code hs__monitor_init(hs__monitor *monitor, hs_error *err);
void hs__monitor_destroy(hs__monitor *monitor);
void hs__monitor_lock(hs__monitor *monitor);
void hs__monitor_unlock(hs__monitor *monitor);
/* Wakes all waiting threads. Call with the lock held. */
void hs__monitor_changed(hs__monitor *monitor);
/* Waits for a change; may return without one. Call with the lock held. Returns false if the deadline has passed. */
bool hs__monitor_wait(hs__monitor *monitor, int64_t deadline);
/* Returns the time `secs` from now, for hs__monitor_wait. HS_NEVER: HS__FOREVER. 0, negative and NaN: now. */
int64_t hs__deadline(double secs);

#endif
