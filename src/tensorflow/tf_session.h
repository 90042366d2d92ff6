/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TENSORFLOW_TF_SESSION_H
#define HS_TENSORFLOW_TF_SESSION_H

#include "tensorflow/tf_backend.h"

/* What TensorFlow has of a session; forks share it. */
typedef struct {
    hs__tf_backend *backend; /* a reference */
    TF_Session *session;
    struct hs__tf_watch *watch; /* NULL: no run can wait in a queue */
    hs__tf_cluster peers;       /* who else must answer; none: it is all in this process */
    atomic_size_t references;
    atomic_bool closed_queues; /* as a stop was requested: what waited to fill them is cancelled */
    bool is_remote;            /* in other processes, which others may use too */
    bool has_forks;            /* or had: other threads run ops */
    atomic_bool silent;        /* a run has found that some peer does not answer */
} hs__tf_link;

/* May anybody but the session itself change its variables? */
static inline bool hs__tf_is_shared(const hs__tf_link *link)
{
    return link->is_remote | link->has_forks;
}

/* A run of one level, with what it gave. */
typedef struct {
    TF_Output *outputs;
    TF_Tensor **results;
    size_t n_results, outputs_capacity, results_capacity;
    const TF_Operation **targets;
    size_t n_targets, targets_capacity;
    TF_Output *inputs;
    TF_Tensor **fed;
    bool *lent;
    size_t n_fed, inputs_capacity, fed_capacity, lent_capacity;
    hs_string *strings;
    size_t strings_capacity;
    TF_Buffer *metadata;
} hs__tf_level;

/* A variable that was read, or is about to be written. */
typedef struct {
    TF_Tensor *tensor; /* NULL: not since the last run */
    TF_Tensor *lent;   /* to be filled and written; NULL: none is */
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
    bool knows_step;
    int64_t step;
    size_t n_ahead; /* how many variables are read at once when one is asked for next */
} hs__tf_session;

/* tf_session.c */
hs_code hs__tf_session_open(void *self, const char *target, hs_bytes config, void **session, hs_error *err);
hs_code hs__tf_session_close(void *session, hs_error *err);
hs_code hs__tf_session_fork(void *session, void **forked, hs_error *err);

void hs__tf_release_link(hs__tf_link *link);
/* How the last run ended. What a lost peer has caused, a timeout or a cancelling, is UNAVAILABLE or ABORTED. */
hs_code hs__tf_settle_run(const hs__tf_session *session, hs_error *err);
/* Before a run. UNAVAILABLE: a peer was silent, and still is; TensorFlow keeps no time for what it does before the first
 * run of a kind. */
hs_code hs__tf_check_peers(hs__tf_link *link, hs_error *err);

/* cluster/cluster_session.c: only sessions of a cluster are made there and then. UNAVAILABLE: not within a time. */
hs_code hs__tf_link_open(hs__tf_link *link, hs_error *err);
/* What other handles still run ends with CANCELLED. A cluster that does not do it within a time is left to a thread, and
 * all that it says is a warning: nothing is lost by it. */
hs_code hs__tf_link_close(hs__tf_link *link, hs_error *err);

/* session_run.c */
hs_code hs__tf_session_run(void *session, hs_backend_call *call, hs_error *err);
/* From now on a run of one op needs no memory of ours. */
hs_code hs__tf_prepare_run(hs__tf_session *session, hs_error *err);
void hs__tf_free_level(const hs__tf_backend *backend, hs__tf_level *level);

/* feeds.c: the feeds of a call, checked, to the level; and away again. */
hs_code hs__tf_take_feeds(hs__tf_session *session, hs__tf_level *level, const hs_backend_call *call, hs_error *err);
void hs__tf_drop_feeds(const hs__tf_backend *backend, hs__tf_level *level);

/* stop_watcher.c: ends runs that wait for a queue, once a stop is requested. */
hs_code hs__tf_watch_start(hs__tf_link *link, bool remote, hs_error *err);
void hs__tf_watch_end(hs__tf_link *link);
/* Before and after a run. What it came to, which may be HS_STOP now. */
void hs__tf_watch_run(const hs__tf_session *session, const hs_backend_call *call);
hs_code hs__tf_run_ended(const hs__tf_session *session, const hs_backend_call *call, hs_code code, hs_error *err);

/* run_options.c: a serialized RunOptions. */
hs_code hs__tf_run_options(const hs_run_options *options, hs__buffer *out, hs_error *err);

/* variable_access.c */
hs_code hs__tf_read_variable(void *session, size_t index, hs_tensor *value, hs_error *err);
hs_code hs__tf_write_variable(void *session, size_t index, const hs_tensor *value, hs_error *err);
hs_code hs__tf_lend_variable(void *session, size_t index, hs_tensor *memory, hs_error *err);
/* Fetches outputs, or none of them. */
hs_code hs__tf_fetch(hs__tf_session *session, const TF_Output *outputs, TF_Tensor **tensors, size_t n, hs_error *err);
/* Lets go of what was read: it may change. */
void hs__tf_drop_reads(hs__tf_session *session);

/* global_step.c */
hs_code hs__tf_read_step(void *session, int64_t *step, hs_error *err);
/* What the run is to fetch besides, to know the step that it leaves; oper NULL: nothing. And what it has fetched. */
hs_code hs__tf_step_in(hs__tf_session *session, const hs_backend_call *call, TF_Output *read, hs_error *err);
void hs__tf_take_step(hs__tf_session *session, const TF_Tensor *tensor);

#endif
