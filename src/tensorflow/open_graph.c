/* SPDX-License-Identifier: Apache-2.0 */
/* Making a backend of a graph, and letting go of it. */
#include "tensorflow/cluster/server.h"

#include "base/files.h"

#include <string.h>

/* Protocol buffers are no larger. */
#define LARGEST_FILE ((size_t)INT32_MAX)

void hs__tf_release(hs__tf_backend *backend)
{
    if (atomic_fetch_sub(&backend->references, 1) != 1)
        return;
    hs_env env = backend->env;
    hs__tf_free_items(backend);
    hs__tf_free_variables(backend);
    hs__tf_free_ops(backend);
    hs__tf_free_step(backend);
    hs__buffer_free(&backend->config);
    hs__buffer_free(&backend->saver_def);
    hs__buffer_free(&backend->meta);
    hs__buffer_free(&backend->meta_graph);
    if (backend->graph_def)
        backend->tf.DeleteBuffer(backend->graph_def);
    if (backend->graph)
        backend->tf.DeleteGraph(backend->graph);
    hs__tf_cluster_free(&backend->cluster);
    hs__free(&env, backend->server_target);
    hs__free(&env, backend->target);
    hs__free(&env, backend);
}

/* What is left out is the core library's, not that of the copy which is part of this one: what the process locks is known
 * in one place. */
hs_code hs__tf_take_env(hs_env *env, const hs_env *given, hs_error *err)
{
    const hs_env *core = hs_env_default();
    hs_env filled = *core;
    hs_code code = given ? HS_STRUCT_TAKE(hs_env, files, &filled, given, err) : HS_OK;
    if (!filled.allocator.alloc && !filled.allocator.realloc && !filled.allocator.free)
        filled.allocator = core->allocator;
    if (!filled.clock.monotonic_ns && !filled.clock.realtime_ns && !filled.clock.sleep_ns)
        filled.clock = core->clock;
    if (!filled.logger.write)
        filled.logger = core->logger;
    if (!filled.files.ops)
        filled.files = core->files;
    filled.size = sizeof filled;
    return code ? code : hs__env_take(env, &filled, err);
}

static hs__tf_backend *make_backend(const hs_env *env, hs_error *err)
{
    hs__tf_backend *backend = hs__alloc(env, 1, sizeof *backend);
    if (!backend) {
        hs__no_memory(err, sizeof *backend, "a backend");
        return NULL;
    }
    backend->env = *env;
    backend->changes = 1;
    backend->global_step = HS__NONE;
    atomic_init(&backend->references, 1);
    hs__map_init(&backend->names, &backend->env);
    hs__tf_cluster_init(&backend->cluster, &backend->env);
    hs__buffer_init(&backend->config, &backend->env);
    hs__buffer_init(&backend->saver_def, &backend->env);
    hs__buffer_init(&backend->meta, &backend->env);
    hs__buffer_init(&backend->meta_graph, &backend->env);
    return backend;
}

/* Copied: the server may be freed before the graph. */
static hs_code take_server(hs__tf_backend *backend, const hs_tensorflow_server *server, hs_error *err)
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
    backend->own = *hs__tf_cluster_task(&backend->cluster, server->own->job, server->own->index);
    backend->server_target = hs__strdup(&backend->env, server->target);
    return backend->server_target ? HS_OK : hs__no_memory(err, strlen(server->target), "a target");
}

static hs_code take_timeout(hs__tf_backend *backend, double secs, hs_error *err)
{
    if (!(secs >= 0 && secs < 1e9) && secs != HS_NEVER)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_tensorflow_options.timeout_secs is %g; it must be at least 0, or HS_NEVER for no limit",
                            secs);
    backend->timeout_ms = hs__tf_milliseconds(secs);
    return HS_OK;
}

static hs_code take_options(hs__tf_backend *backend, hs_tensorflow_options *options, hs_error *err)
{
    hs_code code = take_timeout(backend, options->timeout_secs, err);
    if (code || (code = take_server(backend, options->server, err)))
        return code;
    if (options->config.size && !options->config.data)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_tensorflow_options.config.data is NULL, but its size is not 0");
    const char *usual = backend->server_target ? backend->server_target : "";
    backend->target = hs__strdup(&backend->env, options->target ? options->target : usual);
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

/* A file or bytes. What goes wrong is kept, for whoever opens a session. */
static hs_backend open_backend(const char *path, const hs_bytes *bytes, const hs_tensorflow_options *given, hs_error *err)
{
    hs_tensorflow_options options = HS_INIT(hs_tensorflow_options);
    hs_env env;
    hs_error error = {0};
    hs_code code = given ? HS_STRUCT_TAKE(hs_tensorflow_options, timeout_secs, &options, given, &error) : HS_OK;
    if (!code)
        code = hs__tf_take_env(&env, options.env, &error);
    hs__tf_backend *backend = make_backend(code ? hs_env_default() : &env, &error);
    if (!backend) {
        hs__error_copy(err, &error);
        return (hs_backend){NULL, NULL};
    }
    if (!code && !(code = take_options(backend, &options, &error)))
        code = bytes ? read_bytes(backend, *bytes, &error) : read_file(backend, path, &error);
    if (!code)
        code = hs__tf_check_savers(backend, &error);
    if (code)
        backend->error = error;
    hs_error_clear(err);
    hs__error_copy(err, &error);
    backend->keeps = !backend->has_references;
    return (hs_backend){backend->keeps ? &hs__tf_keeping_ops : &hs__tf_ops, backend};
}

hs_backend hs_tensorflow_open(const char *path, const hs_tensorflow_options *options, hs_error *err)
{
    return open_backend(path, NULL, options, err);
}

hs_backend hs_tensorflow_open_bytes(hs_bytes graph, const hs_tensorflow_options *options, hs_error *err)
{
    return open_backend(NULL, &graph, options, err);
}

hs__tf_backend *hs__tf_of(hs_backend backend)
{
    return backend.ops == &hs__tf_ops || backend.ops == &hs__tf_keeping_ops ? backend.self : NULL;
}

void hs_tensorflow_free(hs_backend backend)
{
    hs__tf_backend *self = hs__tf_of(backend);
    if (self)
        hs__tf_release(self);
}
