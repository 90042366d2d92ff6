/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TENSORFLOW_TF_SESSION_H
#define HS_TENSORFLOW_TF_SESSION_H

#include "tensorflow/tf_backend.h"

/* A TF_Session. A session and its forks share it. */
typedef struct {
    hs__tf_backend *backend; /* holds a reference */
    TF_Session *session;
    struct hs__tf_watch *watch; /* closes queues after a stop request; NULL: the graph has no queues */
    hs__tf_cluster peers;       /* other tasks that must answer; empty: the session needs no other process */
    atomic_size_t references;
    atomic_bool closed_queues; /* queues were closed after a stop request, which cancels enqueue ops that wait */
    bool is_remote;            /* runs in another process; other sessions may use its variables */
    bool has_forks;            /* or had: other threads run ops */
    atomic_bool peer_lost;     /* a run found that a peer does not answer */
} hs__tf_link;

/* Returns true if variables may change without a run of the session. */
static inline bool hs__tf_is_shared(const hs__tf_link *link)
{
    return link->is_remote | link->has_forks;
}

/* The arguments and results of a run at one level (hs_backend_call.level). */
typedef struct {
    TF_Output *outputs;
    TF_Tensor **results;
    size_t n_results, outputs_capacity, results_capacity;
    const TF_Operation **targets;
    size_t n_targets, targets_capacity;
    TF_Output *inputs;
    TF_Tensor **fed;
    bool *borrowed; /* by feed: the tensor's memory is the caller's */
    size_t n_fed, inputs_capacity, fed_capacity, borrowed_capacity;
    hs_string *strings;
    size_t strings_capacity;
    TF_Buffer *metadata;
} hs__tf_level;

/* The cached value of a variable, and the memory for its next value. */
typedef struct {
    TF_Tensor *tensor;  /* NULL: not read since the last run */
    TF_Tensor *staging; /* the caller fills it before it writes the variable; NULL: not requested */
    hs_string *strings;
    size_t strings_capacity;
    hs_tensor view;
} hs__tf_read;

typedef struct {
    hs__tf_link *link;
    hs__tf_level *levels;
    size_t n_levels, levels_capacity;
    hs__tf_read *reads; /* by variable */
    size_t n_reads;
    TF_Status *status;
    hs__buffer options; /* a serialized RunOptions */
    bool forked;
    bool step_known;
    int64_t step;
    size_t read_batch; /* how many variables an uncached read fetches together; 0: no read since the last run */
} hs__tf_session;

/* tf_session.c */
hs_code hs__tf_session_open(void *self, const char *target, hs_bytes config, void **session, hs_error *err);
hs_code hs__tf_session_close(void *session, hs_error *err);
hs_code hs__tf_session_fork(void *session, void **forked, hs_error *err);

/* session_link.c */
void hs__tf_release_link(hs__tf_link *link);
/* Returns the error of the session's last TF_SessionRun. UNAVAILABLE or ABORTED replaces a timeout or a cancellation that a
 * lost peer caused. */
hs_code hs__tf_run_result(const hs__tf_session *session, hs_error *err);
/* Call before a run. If an earlier run found that a peer does not answer, probes the peers again. UNAVAILABLE: they still
 * do not answer. TensorFlow's timeout does not cover its work before the first run of the same fetches. */
hs_code hs__tf_check_peers(hs__tf_link *link, hs_error *err);

/* cluster/cluster_session.c */

/* Creates the session of a cluster. UNAVAILABLE: not within the time limit. Does nothing for other sessions, which
 * TensorFlow creates immediately. */
hs_code hs__tf_link_open(hs__tf_link *link, hs_error *err);
/* Closes the TF_Session: runs of other handles end with CANCELLED. If a cluster does not close it within the time limit, a
 * thread continues the close, and the log gets a warning. A cluster's failure is also only a warning, because no data are
 * lost. */
hs_code hs__tf_link_close(hs__tf_link *link, hs_error *err);

/* session_run.c */
hs_code hs__tf_session_run(void *session, hs_backend_call *call, hs_error *err);
/* Allocates all memory of ours that a run of one op needs. */
hs_code hs__tf_reserve_run(hs__tf_session *session, hs_error *err);
void hs__tf_free_level(const hs__tf_backend *backend, hs__tf_level *level);

/* feeds.c: checks a call's feeds, and converts them to tensors in `level`. Free them after the run. */
hs_code hs__tf_convert_feeds(hs__tf_session *session, hs__tf_level *level, const hs_backend_call *call, hs_error *err);
void hs__tf_free_feeds(const hs__tf_backend *backend, hs__tf_level *level);

/* stop_watcher.c: ends runs that wait for a queue after a stop was requested. */
hs_code hs__tf_watch_start(hs__tf_link *link, bool remote, hs_error *err);
void hs__tf_watch_end(hs__tf_link *link);
/* Call them before and after a run. hs__tf_run_ends returns the run's code, HS_STOP if a stop request ended it. */
void hs__tf_run_begins(const hs__tf_session *session, const hs_backend_call *call);
hs_code hs__tf_run_ends(const hs__tf_session *session, const hs_backend_call *call, hs_code code, hs_error *err);

/* run_options.c: serializes a RunOptions. */
hs_code hs__tf_run_options(const hs_run_options *options, hs__buffer *out, hs_error *err);

/* variable_access.c */
hs_code hs__tf_read_variable(void *session, size_t index, hs_tensor *value, hs_error *err);
hs_code hs__tf_write_variable(void *session, size_t index, const hs_tensor *value, hs_error *err);
hs_code hs__tf_lend_variable(void *session, size_t index, hs_tensor *memory, hs_error *err);
/* Fetches all of the outputs, or fails without a tensor. */
hs_code hs__tf_fetch(hs__tf_session *session, const TF_Output *outputs, TF_Tensor **tensors, size_t n, hs_error *err);
/* Frees the cached values of variables. Call it before they may change. */
void hs__tf_drop_reads(hs__tf_session *session);

/* global_step.c */
hs_code hs__tf_read_step(void *session, int64_t *step, hs_error *err);
/* Sets *read to the output that the run also has to fetch, to get the global step after it. oper NULL: none. */
hs_code hs__tf_plan_step(hs__tf_session *session, const hs_backend_call *call, TF_Output *read, hs_error *err);
/* Stores the value that the run fetched for *read. */
void hs__tf_store_step(hs__tf_session *session, const TF_Tensor *tensor);

#endif
