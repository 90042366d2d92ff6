/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SESSION_RUN_REQUEST_H
#define HS_SESSION_RUN_REQUEST_H

#include <hooksess/run.h>

#include "backends/backend.h"
#include "base/map.h"

/* Run args, compiled. A fragment is what one args object asks for, with its names resolved; it is found again by the
 * contents of the args, whatever their address. A step's plan is the union of its fragments (frame.h). */

/* One node that was ever asked for, in the session's table of them: its seat. */
typedef uint32_t hs__node_index;
#define HS__NO_NODE UINT32_MAX

/* The tree in the order in which it is written, closed by ends. */
typedef struct {
    int kind; /* an hs_fetch_kind, or 0: the end of a list or dict */
    const char *key, *name;
} hs__token;

typedef struct hs__request {
    struct hs__request *next; /* of the same hash */
    uint64_t hash, last_used;
    bool flat; /* made of a list of names */
    size_t n_tokens, n_leaves, n_feeds;
    hs__token *tokens;      /* the names and keys are interned */
    hs__node_index *leaves; /* by position */
    const char **paths;     /* by position */
    hs__node_index *feeds;
    const char **feed_names;
} hs__request;

enum { HS__REQUEST_BUCKETS = 256 };

typedef struct hs__requests {
    const hs_env *env;
    const hs_backend_ops *ops; /* the backend's, for its find */
    void *backend;
    hs__map strings; /* every name, key and path, to its place in texts */
    struct {
        const char *text;
        hs__node_index node_index; /* of the node of that name, or HS__NO_NODE */
    } * texts;
    size_t n_texts, texts_capacity;
    struct {
        hs_node node;
        const char *name;
    } * nodes; /* by seat */
    size_t n_nodes, nodes_capacity;
    hs__node_index *by_node; /* a hash table of seats + 1; 0 is empty */
    size_t by_node_capacity;
    hs__request *buckets[HS__REQUEST_BUCKETS];
    size_t n_requests;
    hs__request **last; /* by requester: what it asked for last, which is looked at first */
    size_t n_requesters;
    uint64_t clock; /* counts runs at level 0, for last_used: what the present one uses is not thrown away */
} hs__requests;

/* `ops` and `backend` are those of the session, which outlives this. Askers are numbered from 0. */
hs_code hs__requests_init(hs__requests *all, const hs_env *env, const hs_backend_ops *ops, void *backend,
                          size_t n_requesters, hs_error *err);
void hs__requests_free(hs__requests *all);

/* Does the fragment ask for what the args ask for? Contents are compared, never addresses. */
bool hs__request_matches(const hs__request *request, const hs_run_args *args);
/* Looks among all fragments, and compiles the args if there is none for them. */
hs_code hs__request_search(hs__requests *all, size_t requester, const hs_run_args *args, hs__request **out, hs_error *err);

/* The fragment for the requester's args. */
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
