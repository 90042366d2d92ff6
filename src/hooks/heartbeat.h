/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_HOOKS_HEARTBEAT_H
#define HS_HOOKS_HEARTBEAT_H

#include <hooksess/hook.h>

#include <stdatomic.h>

/* The watchdog's heartbeat file: a thread of its own writes it, so that a disk that hangs does not keep the watchdog from
 * saying so. */
typedef struct hs__heartbeat hs__heartbeat;

/* What it tells of, written by the watchdog's thread alone; each on its own. */
typedef struct hs__pulse {
    atomic_int phase;           /* an hs_phase */
    _Atomic(const char *) hook; /* lives as long as the session */
    atomic_llong progress;
    atomic_llong since_ns; /* when something went on last, by the monotonic clock */
    atomic_bool stalled;
} hs__pulse;

/* `env` and `path` are copied. `threads` is told to stop before hs__heartbeat_end, and outlives it. */
hs__heartbeat *hs__heartbeat_start(const hs_env *env, const char *path, double every_n_secs, hs_coordinator *threads,
                                   hs_error *err);
/* The thread reads these. */
hs__pulse *hs__heartbeat_pulse(hs__heartbeat *heartbeat);
/* Waits for the thread, but not forever: one that hangs in the file system keeps its memory. NULL is allowed. */
void hs__heartbeat_end(hs__heartbeat *heartbeat);

#endif
