/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a graph's file or bytes as a backend. */
#include "tensorflow/cluster/server.h"

#include "base/files.h"

#include <string.h>

/* The limit of protocol buffers. */
#define LARGEST_FILE ((size_t)INT32_MAX)

/* Copies the cluster, as the server may be freed before the graph. */
static hs_code copy_server(hs__tf_backend *backend, const hs_tensorflow_server *server, hs_error *err)
{
    hs_code code = HS_OK;
    if (!server)
        return HS_OK;
    for (size_t i = 0; !code && i < server->cluster.n_tasks; i++) {
        const hs__tf_task *task = &server->cluster.tasks[i];
        code = hs__tf_cluster_add(&backend->cluster, (hs_string){task->job, strlen(task->job)}, task->index,
                                  (hs_string){task->address, strlen(task->address)}, err);
    }
    if (code)
        return code;
    backend->own_task = *hs__tf_cluster_task(&backend->cluster, server->own->job, server->own->index);
    backend->server_target = hs__strdup(&backend->env, server->target);
    return backend->server_target ? HS_OK : hs__no_memory(err, strlen(server->target), "a target");
}

static hs_code copy_options(hs__tf_backend *backend, hs_tensorflow_options *options, hs_error *err)
{
    if (!(options->timeout_secs >= 0 && options->timeout_secs < 1e9) && options->timeout_secs != HS_NEVER)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_tensorflow_options.timeout_secs is %g; it must be at least 0, or HS_NEVER for no limit",
                            options->timeout_secs);
    backend->timeout_ms = hs__tf_milliseconds(options->timeout_secs);
    hs_code code = copy_server(backend, options->server, err);
    if (code)
        return code;
    if (options->config.size && !options->config.data)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_tensorflow_options.config.data is NULL, but its size is not 0");
    const char *default_target = backend->server_target ? backend->server_target : "";
    backend->target = hs__strdup(&backend->env, options->target ? options->target : default_target);
    if (!backend->target)
        return hs__no_memory(err, 1, "a target");
    hs__buffer_append(&backend->config, options->config.data, options->config.size);
    code = hs__buffer_check(&backend->config, "a configuration", err);
    backend->graph_saves = options->graph_saves;
    backend->graph_restores = options->graph_restores;
    options->env = &backend->env;
    if (!code && !(code = hs__tf_load(&backend->tf, options, err)))
        backend->graph = backend->tf.NewGraph();
    return code;
}

static hs_code read_file(hs__tf_backend *backend, const char *path, hs_error *err)
{
    char *data;
    size_t bytes;
    if (!path || !*path)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "path is missing");
    hs_code code = hs__file_contents(&backend->env, path, LARGEST_FILE, &data, &bytes, err);
    if (code)
        return code;
    if ((code = hs__tf_import(backend, (hs_bytes){data, bytes}, err)))
        hs_error_prefix(err, "%s", path);
    hs__free(&backend->env, data);
    return code;
}

static hs_code read_bytes(hs__tf_backend *backend, hs_bytes bytes, hs_error *err)
{
    if (!bytes.data || !bytes.size)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "the graph has no bytes");
    hs_code code = hs__tf_import(backend, bytes, err);
    if (code)
        hs_error_prefix(err, "cannot read the graph");
    return code;
}

/* Opens `bytes`, or the file `path` if it is NULL. The backend keeps an error: opening a session on it returns it again. */
static hs_backend open_backend(const char *path, const hs_bytes *bytes, const hs_tensorflow_options *given, hs_error *err)
{
    hs_tensorflow_options options = HS_INIT(hs_tensorflow_options);
    hs_env env;
    hs_error error = {0};
    hs_code code = given ? HS_STRUCT_TAKE(hs_tensorflow_options, timeout_secs, &options, given, &error) : HS_OK;
    if (!code)
        code = hs__tf_complete_env(&env, options.env, &error);
    hs__tf_backend *backend = hs__tf_new(code ? hs_env_default() : &env, &error);
    if (!backend) {
        hs__error_copy(err, &error);
        return (hs_backend){NULL, NULL};
    }
    if (!code && !(code = copy_options(backend, &options, &error)))
        code = bytes ? read_bytes(backend, *bytes, &error) : read_file(backend, path, &error);
    if (!code)
        code = hs__tf_check_savers(backend, &error);
    if (code)
        backend->error = error;
    hs_error_clear(err);
    hs__error_copy(err, &error);
    backend->promises_values = !backend->has_references;
    return (hs_backend){backend->promises_values ? &hs__tf_keeping_ops : &hs__tf_ops, backend};
}

hs_backend hs_tensorflow_open(const char *path, const hs_tensorflow_options *options, hs_error *err)
{
    return open_backend(path, NULL, options, err);
}

hs_backend hs_tensorflow_open_bytes(hs_bytes graph, const hs_tensorflow_options *options, hs_error *err)
{
    return open_backend(NULL, &graph, options, err);
}

void hs_tensorflow_free(hs_backend backend)
{
    hs__tf_backend *self = hs__tf_of(backend);
    if (self)
        hs__tf_release(self);
}

bool hs_tensorflow_collection_item(hs_backend backend, const char *key, size_t index, hs_bytes *item)
{
    const hs__tf_backend *self = hs__tf_of(backend);
    const hs__tf_item *found = self && key && item ? hs__tf_find_item(self, key, index) : NULL;
    if (found)
        *item = (hs_bytes){found->data, found->bytes};
    return found != NULL;
}
