/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TF1_SUPERVISOR_H
#define HS_TF1_SUPERVISOR_H

#include <hooksess/tf1/supervisor.h>

#include <pthread.h>
#include <unistd.h>

/* A supervisor. supervisor.c creates it and has the threads that save and write summaries; supervisor_session.c opens and
 * stops its sessions. */

enum { HS__SERVICES = 3 };

struct hs_supervisor {
    pid_t process; /* that created it. In a forked child, locks may be held by threads that do not exist there */
    hs_backend backend;
    const hs_env *env;         /* the backend's */
    bool is_worker, finalized; /* finalized: this supervisor has finalized the graph */
    hs_scaffold *scaffold;
    bool saves; /* with the scaffold's saver */
    char *global_step;
    bool step_is_own; /* the backend reads it without a run */
    hs_init_fn init_fn;
    void *user;
    hs_coordinator *coordinator;
    hs_session_manager *manager;
    bool owns_manager;
    char *checkpoint_dir, *save_path;            /* NULL: none */
    double save_summaries_secs, save_model_secs; /* 0: none */
    double stop_grace_secs;                      /* as in hs_join_options */
    hs_summary_writer *given_writer, *writer;
    bool no_writer;
    bool graph_written; /* to the writer */

    /* The lock of hs_supervisor_lock(), which serves threads in the order of their arrival. With a mutex, a loop that runs
     * the session without a pause could lock out other threads. */
    struct {
        pthread_mutex_t lock; /* of the members below */
        pthread_cond_t changed;
        pthread_t holder;
        size_t depth; /* number of locks of the holder; 0: free */
        uint64_t next_ticket, served;
    } turns;

    pthread_mutex_t writing; /* guards the writer, which may be closed while another thread writes, and `step` */
    pthread_mutex_t saving;  /* guards the saver. Locked by a thread that has locked the supervisor */
    int64_t step;            /* of the last event */

    bool left_open;                        /* the last session is still open, because threads may use it */
    hs_session *session;                   /* the services' session. NULL: services were not started */
    hs_thread *services[HS__SERVICES + 1]; /* ended by NULL */
    size_t n_services;
    int64_t rate_step, rate_ns; /* step and time of the step counter's last call */
};

/* Copies `error` to `err`, which may be NULL, and returns its code. */
static inline hs_code hs__supervisor_report(hs_error *err, const hs_error *error)
{
    if (err)
        *err = *error;
    return error->code;
}

static inline bool hs__supervisor_is_inherited(const hs_supervisor *sv)
{
    return sv->process != getpid();
}

/* Returns HS_FAILED_PRECONDITION in a forked child of the process that created the supervisor. */
static inline hs_code hs__supervisor_refuse_inherited(const hs_supervisor *sv, hs_error *err)
{
    return hs__supervisor_is_inherited(sv)
               ? hs_error_set(err, HS_FAILED_PRECONDITION,
                              "the supervisor belongs to the parent process; a forked child cannot use it")
               : HS_OK;
}

/* Sets *step to the current global step. On failure, and without a global step, it is -1. */
hs_code hs__supervisor_step(hs_supervisor *sv, hs_session *session, int64_t *step, hs_error *err);
/* Opens the writer, unless it is open or the supervisor writes no events. */
hs_code hs__supervisor_open_writer(hs_supervisor *sv, hs_error *err);
/* Writes a STOP record if `logs_stop` is true. Then closes the writer, or flushes it if it is the program's. Later events
 * are dropped. */
hs_code hs__supervisor_end_writer(hs_supervisor *sv, bool logs_stop, hs_error *err);
/* Returns true if a service is running. */
bool hs__supervisor_serves(const hs_supervisor *sv);
/* Waits without a limit until the services have ended, and frees them. Request a stop first, if they run. */
void hs__supervisor_await_services(hs_supervisor *sv);

#endif
