/* SPDX-License-Identifier: Apache-2.0 */
/* Calls the functions of a backend. If the backend lacks a function, returns its default. */
#include "backends/backend.h"

#include <string.h>

/* True if the backend has the function. A backend that was compiled with older headers has a smaller struct. */
#define HAS(backend, member)                                                                                               \
    ((backend).ops && (backend).ops->size >= offsetof(hs_backend_ops, member) + sizeof(backend).ops->member &&             \
     (backend).ops->member)

hs_code hs__backend_take(hs_backend_ops *ops, hs_backend backend, hs_error *err)
{
    if (!backend.ops)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_backend.ops is NULL");
    hs_code code = HS_STRUCT_TAKE(hs_backend_ops, collective_op, ops, backend.ops, err);
    if (code)
        return code;
    if (!ops->find || !ops->open || !ops->run || !ops->close)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "backend '%s' lacks one of the required functions find, open, run and close",
                            ops->name ? ops->name : "?");
    return HS_OK;
}

const hs_env *hs_backend_env(hs_backend backend)
{
    const hs_env *env = HAS(backend, env) ? backend.ops->env(backend.self) : NULL;
    return env ? env : hs_env_default();
}

hs_code hs_backend_find(hs_backend backend, const char *name, hs_node *node, hs_error *err)
{
    hs_error_clear(err);
    if (!HAS(backend, find) || !name || !node)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_backend_find: %s is NULL",
                            !name   ? "name"
                            : !node ? "node"
                                    : "backend");
    return hs__normalize_error(backend.ops->find(backend.self, name, node, err), name, err);
}

bool hs_backend_finalized(hs_backend backend)
{
    return HAS(backend, finalized) && backend.ops->finalized(backend.self);
}

const char *hs_backend_global_step_name(hs_backend backend)
{
    return HAS(backend, global_step_name) ? backend.ops->global_step_name(backend.self) : NULL;
}

hs_code hs_backend_check_global_step(hs_backend backend, hs_error *err)
{
    hs_error_clear(err);
    if (hs_backend_global_step_name(backend))
        return HS_OK;
    return hs_error_set(err, HS_FAILED_PRECONDITION,
                        "the graph has no global step; add one with hs_graph_global_step or an op that advances it");
}

hs_code hs_backend_check_tensor(hs_backend backend, const char *name, hs_error *err)
{
    hs_node node;
    hs_code code = hs_backend_find(backend, name, &node, err);
    if (code || node.output >= 0)
        return code;
    if (!node.n_outputs)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "'%s' is an op without outputs, so it has no value", name);
    return hs_error_set(err, HS_INVALID_ARGUMENT, "'%s' has %d outputs; name one of them, such as '%s:0'", name,
                        (int)node.n_outputs, name);
}

bool hs_backend_collection_item(hs_backend backend, const char *key, size_t index, const void **item)
{
    const void *unused;
    return HAS(backend, collection_item) && key &&
           backend.ops->collection_item(backend.self, key, index, item ? item : &unused);
}

size_t hs__collection_size(hs_backend backend, const char *key)
{
    size_t n = 0;
    while (hs_backend_collection_item(backend, key, n, NULL))
        n++;
    return n;
}

bool hs_backend_variable(hs_backend backend, size_t index, hs_variable *out)
{
    return HAS(backend, variable) && out && backend.ops->variable(backend.self, index, out);
}

hs_code hs_backend_graph_def(hs_backend backend, hs_bytes *out, hs_error *err)
{
    hs_error_clear(err);
    if (!out)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_backend_graph_def: out is NULL");
    *out = (hs_bytes){NULL, 0};
    if (!HAS(backend, graph_def))
        return hs_error_set(err, HS_UNIMPLEMENTED, "backend '%s' has no function graph_def",
                            backend.ops && backend.ops->name ? backend.ops->name : "?");
    return hs__normalize_error(backend.ops->graph_def(backend.self, out, err), "the backend's graph", err);
}

hs_code hs__backend_meta_graph(hs_backend backend, hs_bytes *out, hs_error *err)
{
    *out = (hs_bytes){NULL, 0};
    if (!HAS(backend, meta_graph))
        return hs_error_set(err, HS_UNIMPLEMENTED, "backend '%s' has no function meta_graph",
                            backend.ops && backend.ops->name ? backend.ops->name : "?");
    return hs__normalize_error(backend.ops->meta_graph(backend.self, out, err), "the backend's meta graph", err);
}
