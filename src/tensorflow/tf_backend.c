/* SPDX-License-Identifier: Apache-2.0 */
/* Creates, counts the references of, and frees a backend. */
#include "tensorflow/tf_backend.h"

/* Completes an env with the defaults of libhooksess. The defaults of this library's own copy of base/env.c must not be
 * used, because all locks of a process must be recorded in one place. */
hs_code hs__tf_complete_env(hs_env *env, const hs_env *given, hs_error *err)
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
    return code ? code : hs__env_copy(env, &filled, err);
}

hs__tf_backend *hs__tf_new(const hs_env *env, hs_error *err)
{
    hs__tf_backend *backend = hs__alloc(env, 1, sizeof *backend);
    if (!backend) {
        hs__no_memory(err, sizeof *backend, "a backend");
        return NULL;
    }
    backend->env = *env;
    backend->generation = 1;
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

void hs__tf_release(hs__tf_backend *backend)
{
    if (atomic_fetch_sub(&backend->references, 1) != 1)
        return;
    hs_env env = backend->env;
    hs__tf_free_items(backend);
    hs__tf_free_saver_defs(backend);
    hs__tf_free_variables(backend);
    hs__tf_free_ops(backend);
    hs__free(&env, backend->step.ops);
    hs__free(&env, (void *)backend->step.controls);
    hs__free(&env, backend->step.reads);
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
