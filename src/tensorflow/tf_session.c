/* SPDX-License-Identifier: Apache-2.0 */
/* Opens, forks and closes sessions. */
#include "tensorflow/cluster/connection.h"

#include <string.h>

/* Makes a session that adopts a reference to the link. On failure, the reference is released. */
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
    hs_code code = hs__tf_check_status(tf, status, err);
    if (!code) {
        link->session = tf->NewSession(backend->graph, options, status);
        code = hs__tf_check_status(tf, status, err);
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

/* Probes the peers first: TensorFlow itself would wait for a missing one. */
static hs_code open_link(hs__tf_link *link, const char *target, hs_bytes config, hs_error *err)
{
    hs__tf_connection connection;
    hs__tf_connection_init(&connection, link->backend);
    hs_code code = hs__tf_connection_plan(&connection, link->backend, target, config, err);
    if (!code && !(code = hs__tf_probe_tasks(&connection.peers, err)) && !(code = connect(link, &connection, err))) {
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
    /* A session without its queue runners is not opened: its runs could wait forever. */
    hs_code code = hs__tf_make_queue_runners(backend, remote, err);
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
    /* Allocates now what a run needs: a fork must be able to close its queue when memory is exhausted. */
    if (code || !(code = hs__tf_reserve_run(*forked, err)))
        return code;
    hs__tf_session_close(*forked, NULL);
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
        if (session->reads[i].staging)
            backend->tf.DeleteTensor(session->reads[i].staging);
    }
    backend->tf.DeleteStatus(session->status);
    hs__free(&backend->env, session->levels);
    hs__free(&backend->env, session->reads);
    hs__buffer_free(&session->options);
    hs__free(&backend->env, session);
    hs__tf_release_link(link);
    return code;
}
