/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_THREADS_COORDINATOR_INSIDE_H
#define HS_THREADS_COORDINATOR_INSIDE_H

#include "threads/coordinator.h"
#include "threads/monitor.h"

#include <stdatomic.h>

struct hs_coordinator {
    hs_env env;
    const hs_code *clean_codes; /* ended by HS_OK */
    atomic_bool stop;           /* hs_coordinator_should_stop reads it without the lock; written with the lock held */
    hs__monitor monitor;        /* guards the fields below */
    size_t references;          /* the handle, and each registered thread that has not ended */
    bool released;              /* the handle was freed, so no thread can join */
    bool clean_stop;            /* a stop was requested without an error */
    bool joined;
    hs_error error;                  /* the first */
    uint64_t changes;                /* counts stops and ends of threads */
    struct hs__thread_list *threads; /* NULL: none */
};

/* Wakes the threads that wait in hs_coordinator_join. */
void hs__coordinator_notify(hs_coordinator *coordinator);
/* Drops the reference of a registered thread that has ended or will never be started. */
void hs__coordinator_release(hs_coordinator *coordinator);

#endif
