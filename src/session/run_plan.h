/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SESSION_FRAME_H
#define HS_SESSION_FRAME_H

#include <hooksess/run.h>

#include "session/run_request.h"

/* One run's plan and results. The plan is the union of the fragments that were added: each node once among the fetches,
 * each fed by one. It is put together anew in each run, at a cost of one look for each leaf, so that hooks may come and go
 * as they like. Frames nest: a run made inside another's callbacks has one of its own. */

struct hs_run_values {
    const struct hs__frame *frame;
    const hs__fragment *fragment; /* NULL: nothing was asked for */
};

/* Where a node stands in the run of which its numbers speak. */
typedef struct {
    uint64_t fetched_in, fed_in;
    uint32_t fetch, feed;
} hs__seating;

typedef struct hs__frame {
    const hs_env *env;
    uint64_t run;           /* the number of this run, of all runs of the session */
    hs_backend_call call;   /* the plan and, after the run, its results */
    hs__seating *seating;   /* by seat */
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
} hs__frame;

void hs__frame_init(hs__frame *frame, const hs_env *env);
void hs__frame_free(hs__frame *frame);

/* Begins a run with nothing asked for. */
static inline void hs__frame_begin(hs__frame *frame, uint64_t run)
{
    frame->run = run;
    frame->call.n_fetches = frame->call.n_feeds = 0;
    frame->call.options = NULL;
    frame->call.metadata = (hs_bytes){NULL, 0};
    frame->in_use = false;
}
/* Adds the fetches. There is to be room for all nodes. */
static inline void hs__frame_fetch(hs__frame *frame, const hs__fragments *all, const hs__fragment *fragment)
{
    for (size_t i = 0; i < fragment->n_leaves; i++) {
        hs__seating *seat = &frame->seating[fragment->leaves[i]];
        if (seat->fetched_in == frame->run)
            continue;
        seat->fetched_in = frame->run;
        seat->fetch = (uint32_t)frame->call.n_fetches;
        frame->fetches[frame->call.n_fetches++] = all->nodes[fragment->leaves[i]].node;
    }
}
/* Makes room, and adds feeds and options, too. */
hs_code hs__frame_add_all(hs__frame *frame, const hs__fragments *all, const hs__fragment *fragment, const hs_run_args *args,
                          const char *who, hs_error *err);
/* Adds what `args`, compiled to `fragment`, asks for. `who` is named if somebody feeds a tensor that is fed:
 * FAILED_PRECONDITION. Failing, it adds nothing. */
static inline hs_code hs__frame_add(hs__frame *frame, const hs__fragments *all, const hs__fragment *fragment,
                                    const hs_run_args *args, const char *who, hs_error *err)
{
    if (frame->capacity < all->n_nodes || fragment->n_feeds || args->options)
        return hs__frame_add_all(frame, all, fragment, args, who, err);
    hs__frame_fetch(frame, all, fragment);
    return HS_OK;
}
/* Runs it. */
static inline hs_code hs__frame_run(hs__frame *frame, const hs_backend_ops *ops, void *session, hs_error *err)
{
    hs_code code = ops->run(session, &frame->call, err);
    frame->in_use = !code;
    return code;
}
/* Copies what values and metadata show, so that another run leaves them as they are. */
hs_code hs__frame_preserve(hs__frame *frame, hs_error *err);

#endif
