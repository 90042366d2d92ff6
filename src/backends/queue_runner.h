/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BACKENDS_QUEUE_RUNNER_H
#define HS_BACKENDS_QUEUE_RUNNER_H

#include <hooksess/queue_runner.h>

#include <pthread.h>

/* The description of a queue's threads, which a backend adds to the collection HS_QUEUE_RUNNERS, and the threads that
 * src/threads started from it. */
struct hs_queue_runner {
    hs_env env;
    char *name, *close_op, *cancel_op;
    const char *const *enqueue_ops;
    size_t n_ops;
    const hs_code *closed_codes; /* ended by HS_OK */
    pthread_mutex_t lock;        /* of all below */
    /* 1 for the caller and 1 for each thread group, because a thread may outlive the session and the caller's reference */
    size_t references;
    struct hs__thread_group *groups; /* those with threads that have not finished */
    hs_error *errors;                /* has room for all that the threads may add */
    size_t n_errors, errors_capacity;
};

void hs__queue_runner_release(hs_queue_runner *runner);

#endif
