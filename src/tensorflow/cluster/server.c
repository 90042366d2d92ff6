/* SPDX-License-Identifier: Apache-2.0 */
/* hs_tensorflow_server: a TensorFlow server in this process. */
#include "tensorflow/cluster/server.h"

#include <string.h>

void hs_tensorflow_server_free(hs_tensorflow_server *server)
{
    if (!server)
        return;
    hs_env env = server->env;
    hs__tf_cluster_free(&server->cluster);
    hs__free(&env, server->target);
    hs__free(&env, server);
}

/* Sets the server's task from the options. Only the own task may have port 0: others could not know the port that the
 * system chooses. */
static hs_code choose_task(hs_tensorflow_server *server, const hs_tensorflow_server_options *options, hs_error *err)
{
    const hs__tf_cluster *cluster = &server->cluster;
    const char *job = options->job ? options->job : cluster->tasks[0].job;
    if (!options->job && strcmp(cluster->tasks[cluster->n_tasks - 1].job, job) != 0)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_tensorflow_server_options.job is missing, and the cluster has more than one job");
    if (!hs__tf_cluster_has(cluster, job))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_tensorflow_server_options.job: the cluster has no job '%s'", job);
    server->own = hs__tf_cluster_task(cluster, job, options->task);
    if (!server->own)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_tensorflow_server_options.task: the cluster has no task %lld of job '%s'",
                            (long long)options->task, job);
    for (size_t i = 0; i < cluster->n_tasks; i++) {
        const hs__tf_task *task = &cluster->tasks[i];
        const char *port = strrchr(task->address, ':') + 1;
        if (task != server->own && strspn(port, "0") == strlen(port))
            return hs_error_set(err, HS_INVALID_ARGUMENT,
                                "cluster: job '%s', task %d has port 0, which is allowed only for the server's own task; "
                                "give its port",
                                task->job, (int)task->index);
    }
    return HS_OK;
}

static hs_code make_def(hs_tensorflow_server *server, const hs_tensorflow_server_options *options, hs__buffer *def,
                        hs_error *err)
{
    if ((options->server_def.size && !options->server_def.data) || (options->config.size && !options->config.data))
        return hs_error_set(
            err, HS_INVALID_ARGUMENT,
            "hs_tensorflow_server_options: the data of server_def or config is NULL, but its size is not 0");
    if (options->server_def.size) {
        if (options->cluster || options->job || options->task || options->config.size)
            return hs_error_set(err, HS_INVALID_ARGUMENT,
                                "hs_tensorflow_server_options: server_def excludes cluster, job, task and config");
        hs__buffer_append(def, options->server_def.data, options->server_def.size);
        hs_code code = hs__tf_server_def_read(options->server_def, &server->cluster, &server->own, err);
        return code ? code : hs__buffer_check(def, "a server's definition", err);
    }
    hs_code code = hs__tf_cluster_read(&server->cluster, options->cluster, err);
    if (!code)
        code = choose_task(server, options, err);
    return code ? code : hs__tf_server_def(&server->cluster, server->own, options->config, def, err);
}

/* Starts the server. It is never stopped or deleted, as TensorFlow would end the process. */
static hs_code serve(hs_tensorflow_server *server, const hs__buffer *def, hs_error *err)
{
    const hs__tf_api *tf = &server->tf;
    TF_Status *status = tf->NewStatus();
    server->server = tf->NewServer(def->data, def->size, status);
    hs_code code = hs__tf_check_status(tf, status, err);
    if (!code) {
        tf->ServerStart(server->server, status);
        code = hs__tf_check_status(tf, status, err);
    }
    tf->DeleteStatus(status);
    if (code) {
        hs_error_prefix(err, "cannot start the server of task %d of job '%s' at %s%s", (int)server->own->index,
                        server->own->job, server->own->address, code == HS_UNKNOWN ? "; check that the port is free" : "");
        return code;
    }
    const char *target = tf->ServerTarget(server->server);
    server->target = hs__strdup(&server->env, target);
    return server->target ? HS_OK : hs__no_memory(err, strlen(target), "a target");
}

static hs_code start(hs_tensorflow_server *server, const hs_tensorflow_server_options *options, hs_error *err)
{
    const hs_tensorflow_options loading =
        HS_INIT(hs_tensorflow_options, .env = &server->env, .library = options->library, .show_log = options->show_log);
    hs__buffer def;
    hs__buffer_init(&def, &server->env);
    hs_code code = make_def(server, options, &def, err);
    if (!code && !(code = hs__tf_load(&server->tf, &loading, err)))
        code = serve(server, &def, err);
    hs__buffer_free(&def);
    return code;
}

hs_tensorflow_server *hs_tensorflow_server_start(const hs_tensorflow_server_options *given, hs_error *err)
{
    hs_tensorflow_server_options options = HS_INIT(hs_tensorflow_server_options);
    hs_env env;
    if (!given) {
        hs_error_set(err, HS_INVALID_ARGUMENT, "hs_tensorflow_server_options is NULL");
        return NULL;
    }
    if (HS_STRUCT_TAKE(hs_tensorflow_server_options, reserved, &options, given, err) ||
        hs__tf_complete_env(&env, options.env, err))
        return NULL;
    hs_tensorflow_server *server = hs__alloc(&env, 1, sizeof *server);
    if (!server) {
        hs__no_memory(err, sizeof *server, "a server");
        return NULL;
    }
    server->env = env;
    hs__tf_cluster_init(&server->cluster, &server->env);
    if (start(server, &options, err)) {
        hs_tensorflow_server_free(server);
        return NULL;
    }
    hs_error_clear(err);
    return server;
}

const char *hs_tensorflow_server_target(const hs_tensorflow_server *server)
{
    return server ? server->target : NULL;
}

hs_code hs_tensorflow_server_join(hs_tensorflow_server *server, hs_error *err)
{
    const int64_t SLICE_NS = 50000000;
    if (!server)
        return err && err->code ? err->code : hs_error_set(err, HS_FAILED_PRECONDITION, "server is NULL");
    while (!atomic_load(&server->stopped))
        hs_env_sleep_ns(&server->env, SLICE_NS);
    hs_error_clear(err);
    return HS_OK;
}

void hs_tensorflow_server_stop(hs_tensorflow_server *server)
{
    if (server)
        atomic_store(&server->stopped, true);
}
