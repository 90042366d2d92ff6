/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SESSION_RUN_PLAN_H
#define HS_SESSION_RUN_PLAN_H

#include <hooksess/run.h>

#include "session/run_request.h"

/* One run's plan and results. The plan is the union of the fragments that were added: each node once among the fetches,
 * each fed by one. It is put together anew in each run, at a cost of one look for each leaf, so that hooks may come and go
 * as they like. Frames nest: a run made inside another's callbacks has one of its own. */

struct hs_run_values {
    const struct hs__run_plan *plan;
    const hs__request *request; /* NULL: nothing was asked for */
};

/* Where a node stands in the run of which its numbers speak. */
typedef struct {
    uint64_t fetched_in, fed_in;
    uint32_t fetch, feed;
} hs__node_slot;

typedef struct hs__run_plan {
    const hs_env *env;
    uint64_t run;           /* the number of this run, of all runs of the session */
    hs_backend_call call;   /* the plan and, after the run, its results */
    hs__node_slot *slots;   /* by seat */
    hs_node *fetches;       /* the call's */
    hs_backend_feed *feeds; /* the call's */
    const char **feeders;   /* by feed: who */
    size_t capacity;        /* of these four, and of the call's values */
    hs_run_options merged;  /* the call's options, if several ask for some */
    hs_debug_watch *watches;
    size_t watches_capacity;
    bool in_use;  /* somebody may still read the values */
    void *copies; /* of values that another run would have changed */
    size_t copies_capacity;
} hs__run_plan;

void hs__run_plan_init(hs__run_plan *plan, const hs_env *env);
void hs__run_plan_free(hs__run_plan *plan);

/* Begins a run with nothing asked for. */
static inline void hs__run_plan_begin(hs__run_plan *plan, uint64_t run)
{
    plan->run = run;
    plan->call.n_fetches = plan->call.n_feeds = 0;
    plan->call.options = NULL;
    plan->call.metadata = (hs_bytes){NULL, 0};
    plan->in_use = false;
}
/* Adds the fetches. There is to be room for all nodes. */
static inline void hs__run_plan_add_fetches(hs__run_plan *plan, const hs__requests *all, const hs__request *request)
{
    for (size_t i = 0; i < request->n_leaves; i++) {
        hs__node_slot *slot = &plan->slots[request->leaves[i]];
        if (slot->fetched_in == plan->run)
            continue;
        slot->fetched_in = plan->run;
        slot->fetch = (uint32_t)plan->call.n_fetches;
        plan->fetches[plan->call.n_fetches++] = all->nodes[request->leaves[i]].node;
    }
}
/* Makes room, and adds feeds and options, too. */
hs_code hs__run_plan_add_all(hs__run_plan *plan, const hs__requests *all, const hs__request *request,
                             const hs_run_args *args, const char *requester_name, hs_error *err);
/* Adds what `args`, compiled to `fragment`, asks for. `who` is named if somebody feeds a tensor that is fed:
 * FAILED_PRECONDITION. Failing, it adds nothing. */
static inline hs_code hs__run_plan_add(hs__run_plan *plan, const hs__requests *all, const hs__request *request,
                                       const hs_run_args *args, const char *requester_name, hs_error *err)
{
    if (plan->capacity < all->n_nodes || request->n_feeds || args->options)
        return hs__run_plan_add_all(plan, all, request, args, requester_name, err);
    hs__run_plan_add_fetches(plan, all, request);
    return HS_OK;
}
/* Runs it. */
static inline hs_code hs__run_plan_run(hs__run_plan *plan, const hs_backend_ops *ops, void *session, hs_error *err)
{
    hs_code code = ops->run(session, &plan->call, err);
    plan->in_use = !code;
    return code;
}
/* Copies what values and metadata show, so that another run leaves them as they are. */
hs_code hs__run_plan_preserve(hs__run_plan *plan, hs_error *err);

#endif
