/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of TensorFlow's, and more handles on one. */
#include "tensorflow/cluster/connection.h"

#include <string.h>

void hs__tf_release_link(hs__tf_link *link)
{
    if (atomic_fetch_sub(&link->references, 1) != 1)
        return;
    hs__tf_watch_end(link); /* of a session that came to nothing */
    hs__tf_backend *backend = link->backend;
    if (link->session) {
        TF_Status *status = backend->tf.NewStatus();
        backend->tf.DeleteSession(link->session, status);
        backend->tf.DeleteStatus(status);
    }
    hs__tf_cluster_free(&link->peers);
    hs__free(&backend->env, link);
    hs__tf_release(backend);
}

/* A handle that takes over a reference to the link. */
static hs_code make_handle(hs__tf_link *link, bool forked, void **session, hs_error *err)
{
    const hs__tf_backend *backend = link->backend;
    size_t n = forked ? 0 : backend->n_variables;
    hs__tf_session *made = hs__alloc(&backend->env, 1, sizeof *made);
    hs__tf_read *reads = made ? hs__alloc(&backend->env, n, sizeof *reads) : NULL;
    if (!reads) {
        hs__free(&backend->env, made);
        hs__tf_release_link(link);
        return hs__no_memory(err, sizeof *made, "a session");
    }
    made->link = link;
    made->reads = reads;
    made->n_reads = n;
    made->forked = forked;
    made->status = backend->tf.NewStatus();
    hs__buffer_init(&made->options, &backend->env);
    *session = made;
    return HS_OK;
}

static hs_code connect(hs__tf_link *link, const hs__tf_connection *connection, hs_error *err)
{
    hs__tf_backend *backend = link->backend;
    const hs__tf_api *tf = &backend->tf;
    TF_Status *status = tf->NewStatus();
    TF_SessionOptions *options = tf->NewSessionOptions();
    tf->SetTarget(options, connection->target);
    if (connection->config.size)
        tf->SetConfig(options, connection->config.data, connection->config.size, status);
    hs_code code = hs__tf_settle(tf, status, err);
    if (!code) {
        link->session = tf->NewSession(backend->graph, options, status);
        code = hs__tf_settle(tf, status, err);
    }
    tf->DeleteSessionOptions(options);
    tf->DeleteStatus(status);
    return code;
}

bool hs__tf_is_remote(const hs__tf_backend *backend, const char *target)
{
    const char *used = target && *target ? target : backend->target;
    return *used && strcmp(used, "local") != 0;
}

/* Where not everybody is there that the session needs, it is better known at once than after a time. */
static hs_code open_link(hs__tf_link *link, const char *target, hs_bytes config, hs_error *err)
{
    hs__tf_connection connection;
    hs__tf_connection_init(&connection, link->backend);
    hs_code code = hs__tf_connection_plan(&connection, link->backend, target, config, err);
    if (!code && !(code = hs__tf_reach(&connection.peers, err)) && !(code = connect(link, &connection, err))) {
        link->peers = connection.peers;
        hs__tf_cluster_init(&connection.peers, &link->backend->env);
        code = hs__tf_link_open(link, err);
    }
    hs__tf_connection_free(&connection);
    return code;
}

hs_code hs__tf_session_open(void *self, const char *target, hs_bytes config, void **session, hs_error *err)
{
    hs__tf_backend *backend = self;
    if (backend->error.code)
        return hs__error_copy(err, &backend->error);
    bool remote = hs__tf_is_remote(backend, target);
    hs_code code = hs__tf_make_queue_runners(backend, remote, err); /* without one of them, runs could wait forever */
    if (code)
        return code;
    hs__tf_link *link = hs__alloc(&backend->env, 1, sizeof *link);
    if (!link)
        return hs__no_memory(err, sizeof *link, "a session");
    link->backend = backend;
    hs__tf_cluster_init(&link->peers, &backend->env);
    atomic_init(&link->references, 1);
    atomic_fetch_add(&backend->references, 1);
    link->is_remote = remote;
    code = open_link(link, target, config, err);
    if (!code && (code = hs__tf_watch_start(link, remote, err)))
        hs__tf_link_close(link, NULL);
    if (code) {
        hs__tf_release_link(link);
        return code;
    }
    return make_handle(link, false, session, err);
}

hs_code hs__tf_session_fork(void *self, void **forked, hs_error *err)
{
    hs__tf_link *link = ((hs__tf_session *)self)->link;
    atomic_fetch_add(&link->references, 1);
    link->has_forks = true;
    hs_code code = make_handle(link, true, forked, err);
    if (code || !(code = hs__tf_prepare_run(*forked, err)))
        return code;
    hs__tf_session_close(*forked, NULL); /* who closes a queue must be able to, also when there is no memory left */
    return code;
}

/* Where several parts of a run fail, the code is that of one of them, which may only have been cancelled because a task of
 * the cluster was lost: the message has all. */
static hs_code find_cause(const hs__tf_session *session)
{
    const char *message = session->link->backend->tf.Message(session->status);
    if (strstr(message, "UNAVAILABLE: From /job:"))
        return HS_UNAVAILABLE;
    return strstr(message, "ABORTED: From /job:") ? HS_ABORTED : HS_CANCELLED;
}

hs_code hs__tf_settle_run(const hs__tf_session *session, hs_error *err)
{
    hs_code code = hs__tf_settle(&session->link->backend->tf, session->status, err);
    hs_error lost = {0};
    if (code == HS_CANCELLED) {
        code = find_cause(session);
        if (err)
            err->code = code;
    }
    if (code != HS_DEADLINE_EXCEEDED || hs__tf_reach(&session->link->peers, &lost) != HS_UNAVAILABLE)
        return code;
    atomic_store(&session->link->silent, true);
    hs_error_prefix(&lost, "the run timed out");
    return hs__error_copy(err, &lost), HS_UNAVAILABLE;
}

hs_code hs__tf_check_peers(hs__tf_link *link, hs_error *err)
{
    if (!atomic_load(&link->silent))
        return HS_OK;
    hs_code code = hs__tf_reach(&link->peers, err);
    if (!code)
        atomic_store(&link->silent, false);
    return code;
}

hs_code hs__tf_session_close(void *self, hs_error *err)
{
    hs__tf_session *session = self;
    hs__tf_link *link = session->link;
    const hs__tf_backend *backend = link->backend;
    hs__tf_drop_reads(session);
    for (size_t i = 0; i < session->n_levels; i++)
        hs__tf_free_level(backend, &session->levels[i]);
    hs_code code = session->forked ? HS_OK : hs__tf_link_close(link, err);
    if (!session->forked)
        hs__tf_watch_end(link);
    for (size_t i = 0; i < session->n_reads; i++) {
        hs__free(&backend->env, session->reads[i].strings);
        if (session->reads[i].lent)
            backend->tf.DeleteTensor(session->reads[i].lent);
    }
    backend->tf.DeleteStatus(session->status);
    hs__free(&backend->env, session->levels);
    hs__free(&backend->env, session->reads);
    hs__buffer_free(&session->options);
    hs__free(&backend->env, session);
    hs__tf_release_link(link);
    return code;
}
