/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_THREADS_COORDINATOR_INSIDE_H
#define HS_THREADS_COORDINATOR_INSIDE_H

#include "threads/coordinator.h"
#include "threads/monitor.h"

#include <stdatomic.h>

struct hs_coordinator {
    hs_env env;
    const hs_code *clean_codes; /* ended by HS_OK */
    atomic_bool stop;           /* alone is what should_stop reads; written under the lock */
    hs__monitor monitor;        /* of all below */
    size_t references;          /* its handle's, and one for each thread that it was registered by and has not ended */
    bool released;              /* its handle was freed: nobody will join */
    bool asked, joined;
    hs_error error;                  /* the first */
    uint64_t changes;                /* stops and ends of threads */
    struct hs__thread_list *threads; /* NULL: none */
};

/* Somebody may be waiting for it who need not. */
void hs__coordinator_notice(hs_coordinator *coordinator);
/* It has ended, or will never be started: it is counted no more. */
void hs__coordinator_release(hs_coordinator *coordinator);

#endif
