/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_DRIVERS_TF1_SUPERVISOR_H
#define HS_DRIVERS_TF1_SUPERVISOR_H

#include <hooksess/tf1/supervisor.h>

#include "base/env.h"

#include <pthread.h>

/* A supervisor from the inside: what it is made of (supervisor.c), its sessions (supervisor_session.c), and the threads
 * beside them (supervisor_services.c). */

enum { HS__SERVICES = 3 };

struct hs_supervisor {
    hs_env env;
    hs_backend backend;
    bool is_worker, finalized; /* finalized: by this one */
    hs_scaffold *scaffold;
    bool saves; /* with the scaffold's saver */
    char *global_step;
    hs_init_fn init_fn;
    void *user;
    hs_coordinator *coordinator;
    hs_session_manager *manager;
    bool owns_manager;
    char *checkpoint_dir, *save_path; /* NULL: none */
    double save_summaries_secs, save_model_secs,
        stop_grace_secs; /* of the intervals 0: none; of the grace as in the join */
    hs_summary_writer *given_writer, *writer;
    bool no_writer;
    bool graph_written; /* to the writer */

    pthread_mutex_t writing; /* guards the writer: it may be closed while somebody writes */
    pthread_mutex_t saving;  /* a saver is used by one thread at a time. Taken by who has the session's turn */
    int64_t step;            /* of the last event; under `writing` */

    bool left_open;          /* the last session, which somebody may still run */
    hs_raw_session *session; /* that services were started for, if only none of them; NULL: none were */
    hs_thread *services[HS__SERVICES];
    size_t n_services;
    int64_t rate_step, rate_ns; /* the step counter's */
};

/* The global step as it is now; -1: there is none. */
hs_code hs__supervisor_step(hs_supervisor *sv, hs_raw_session *session, int64_t *step, hs_error *err);
/* Opens the writer, if there is to be one and it is not open. */
hs_code hs__supervisor_open_writer(hs_supervisor *sv, hs_error *err);
/* Closes the writer, or flushes that of the program, after the session log STOP if `logs_stop`. Later events are dropped.
 */
hs_code hs__supervisor_end_writer(hs_supervisor *sv, bool logs_stop, hs_error *err);
/* Is a service at work? */
bool hs__supervisor_serves(const hs_supervisor *sv);
/* Waits until none is, however long, and forgets them; a stop was requested, or they have ended. */
void hs__supervisor_await_services(hs_supervisor *sv);

#endif
