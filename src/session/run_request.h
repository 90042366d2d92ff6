/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SESSION_RUN_REQUEST_H
#define HS_SESSION_RUN_REQUEST_H

#include <hooksess/run.h>

#include "backends/backend.h"
#include "base/map.h"

/* Requests: run args with resolved names. Args are compiled into a request once. Later their request is found by their
 * contents, whatever their addresses. The plan of a run is the union of its requests (merge_fetches.h). */

/* Index of a node in hs__requests.nodes. */
typedef uint32_t hs__node_index;
#define HS__NO_NODE UINT32_MAX

/* One item of a tree of fetches, in written order. A token of kind 0 closes each list and dict. */
typedef struct {
    int kind; /* an hs_fetch_kind; 0: the end of a list or dict */
    const char *key, *name;
} hs__token;

typedef struct hs__request {
    struct hs__request *next; /* in the same bucket */
    uint64_t hash, last_used;
    bool flat; /* from hs_run_args.names */
    size_t n_tokens, n_leaves, n_feeds;
    hs__token *tokens;      /* in the block of the request, as all lists. Names and keys are interned */
    hs__node_index *leaves; /* the node of each leaf */
    const char **paths;     /* the path of each leaf */
    hs__node_index *feeds;
    const char **feed_names;
} hs__request;

enum { HS__REQUEST_BUCKETS = 256 };

typedef struct hs__requests {
    const hs_env *env;
    const hs_backend_ops *ops; /* of the backend, whose `find` resolves names */
    void *backend;
    hs__map strings; /* names, keys and paths, and their indexes in `texts` */
    struct {
        const char *text;
        hs__node_index node_index; /* of the node with this name; HS__NO_NODE: not resolved */
    } * texts;
    size_t n_texts, texts_capacity;
    struct {
        hs_node node;
        const char *name;
    } * nodes; /* every node that was ever requested, by node index */
    size_t n_nodes, nodes_capacity;
    hs__map by_node; /* their indexes, by op and output */
    hs__request *buckets[HS__REQUEST_BUCKETS];
    size_t n_requests;
    hs__request **last; /* by requester: its latest request, which is compared first, and not evicted: a plan may have it */
    size_t n_requesters;
    uint64_t clock; /* number of searches, for last_used */
} hs__requests;

/* `ops` and `backend` are borrowed. Requesters are numbered from 0. */
hs_code hs__requests_init(hs__requests *all, const hs_env *env, const hs_backend_ops *ops, void *backend,
                          size_t n_requesters, hs_error *err);
void hs__requests_free(hs__requests *all);

/* Returns true if `request` has the contents of `args`. Addresses are not compared. */
bool hs__request_matches(const hs__request *request, const hs_run_args *args);
/* Searches all requests, and compiles a new one if none has the contents of `args`. */
hs_code hs__request_search(hs__requests *all, size_t requester, const hs_run_args *args, hs__request **out, hs_error *err);

/* `*out` is `given`, or `copy` of this library's size if `given` was compiled against other headers. */
static inline hs_code hs__copy_args(hs_run_args *copy, const hs_run_args *given, const hs_run_args **out, hs_error *err)
{
    *out = given;
    if (given->size == sizeof *given)
        return HS_OK;
    *out = copy;
    return HS_STRUCT_TAKE(hs_run_args, reserved_kind, copy, given, err);
}

static inline bool hs__requests_nothing(const hs_run_args *args)
{
    return !args->names && !args->fetches && !args->feeds && !args->options;
}

/* Gets the request of a requester's args. It is valid until the requester has another one. */
static inline hs_code hs__request_of(hs__requests *all, size_t requester, const hs_run_args *args, hs__request **out,
                                     hs_error *err)
{
    hs_code code = HS_OK;
    *out = all->last[requester];
    if (!*out || !hs__request_matches(*out, args))
        code = hs__request_search(all, requester, args, out, err);
    if (!code)
        (*out)->last_used = all->clock;
    return code;
}

#endif
