/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SESSION_MERGE_FETCHES_H
#define HS_SESSION_MERGE_FETCHES_H

#include <hooksess/run.h>

#include "session/run_request.h"

/* The plan of one run, and its results. The plan is the union of the requests that were added: each node is fetched once,
 * and fed by one requester. A run with the requests of the run before reuses its plan. Otherwise it is rebuilt, at the cost
 * of one lookup per leaf, so that hooks may add and omit requests freely. Plans nest: a run that a callback makes has its
 * own plan (run_stack.c). */

struct hs_run_values {
    struct hs__run_plan *plan;
    const hs__request *request; /* NULL: nothing was requested */
};

/* Position of a node among a plan's fetches and feeds. `fetch` is valid if fetched_in is the plan's number, `feed` if
 * fed_in is. */
typedef struct {
    uint64_t fetched_in, fed_in;
    uint32_t fetch, feed;
} hs__node_slot;

/* The copy on the host of a value in memory of a device, for all hooks of a run. */
typedef struct {
    uint64_t run; /* hs__run_plan.runs when it was made; 0: not yet */
    uint32_t fetch;
    hs_host_copy memory;
} hs__host_value;

typedef struct hs__run_plan {
    const hs_env *env;
    hs_backend_call call;   /* the merged requests and, after the run, its results */
    hs__node_slot *slots;   /* by node index */
    hs_node *fetches;       /* memory of call.fetches */
    hs_backend_feed *feeds; /* memory of call.feeds */
    const char **feeders;   /* by feed: the name of its requester, borrowed */
    size_t capacity;        /* of slots, fetches, feeds, feeders and call.values */
    hs_run_options merged;  /* the call's options, if they are merged or of another size */
    hs_debug_watch *watches;
    size_t watches_capacity;
    bool is_whole;             /* another run of this kind with the same due hooks and requests has the same plan; */
    bool is_fixed;             /* and the hooks have no before_run, which could request something else */
    uint8_t kind;              /* hs_run_kind */
    const hs__request *caller; /* NULL: it requested nothing */
    bool in_use;               /* a requester may still read the values */
    void *copies;              /* of values that another run would have overwritten */
    size_t copies_capacity;
    uint64_t runs;         /* number of this run: host values of others are outdated */
    hs__host_value *hosts; /* by fetch */
    size_t hosts_capacity;
    hs__host_value large; /* the last one that is too large to keep all such */
} hs__run_plan;

void hs__run_plan_free(hs__run_plan *plan);

/* Begins a run with the plan of the last one. */
static inline void hs__run_plan_reuse(hs__run_plan *plan)
{
    plan->call.metadata = (hs_bytes){NULL, 0};
    plan->in_use = false;
    plan->runs++;
}
/* Begins a run with an empty plan. */
static inline void hs__run_plan_begin(hs__run_plan *plan, uint64_t number)
{
    hs__run_plan_reuse(plan);
    plan->call.plan = number;
    plan->call.n_fetches = plan->call.n_feeds = 0;
    plan->call.options = NULL;
    plan->is_whole = false;
}
/* Adds the fetches. The plan must have room for all nodes. */
static inline void hs__run_plan_add_fetches(hs__run_plan *plan, const hs__requests *all, const hs__request *request)
{
    for (size_t i = 0; i < request->n_leaves; i++) {
        hs__node_slot *slot = &plan->slots[request->leaves[i]];
        if (slot->fetched_in == plan->call.plan)
            continue;
        slot->fetched_in = plan->call.plan;
        slot->fetch = (uint32_t)plan->call.n_fetches;
        plan->fetches[plan->call.n_fetches++] = all->nodes[request->leaves[i]].node;
    }
}
/* As hs__run_plan_add, for requests that need more than hs__run_plan_add_fetches. */
hs_code hs__run_plan_add_any(hs__run_plan *plan, const hs__requests *all, const hs__request *request,
                             const hs_run_args *args, const char *requester_name, hs_error *err);
/* Adds `request`, which was compiled from `args`. `args` NULL: it only has fetches. HS_FAILED_PRECONDITION, with
 * `requester_name`: a tensor is fed twice. On failure the plan is unchanged. */
static inline hs_code hs__run_plan_add(hs__run_plan *plan, const hs__requests *all, const hs__request *request,
                                       const hs_run_args *args, const char *requester_name, hs_error *err)
{
    if (plan->capacity < all->n_nodes || (args && (request->n_feeds || args->options)))
        return hs__run_plan_add_any(plan, all, request, args, requester_name, err);
    hs__run_plan_add_fetches(plan, all, request);
    return HS_OK;
}
/* Copies values and metadata that are in use, so that another run does not overwrite them. */
hs_code hs__run_plan_preserve(hs__run_plan *plan, hs_error *err);

#endif
