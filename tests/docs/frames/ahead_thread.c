/* SPDX-License-Identifier: Apache-2.0 */
#include <hooksess/hooksess.h>

#include <assert.h>
#include <stdatomic.h>

static void prefetch_files(void *user)
{
    atomic_fetch_add((atomic_int *)user, 1);
}

/* BLOCK */

static const hs_hook_ops ops = HS_INIT(hs_hook_ops, .name = "prefetch", .after_create_session = after_create_session);

int main(void)
{
    atomic_int calls = 0;
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_global_step(g, NULL, NULL);
    hs_session *s = hs_session_open(hs_graph_backend(g),
                                    HS_SESSION_OPTIONS(.hooks = HS_HOOKS(HS_HOOK(.ops = &ops, .self = &calls))), NULL);
    char names[64];
    while (hs_step_begin(s)) {
        while (calls < 3)
            ;
        assert(hs_coordinator_live_threads(hs_session_coordinator(s), names, sizeof names) == 1);
        hs_session_request_stop(s);
        hs_step_end(s);
    }
    hs_outcome outcome = hs_session_close(s, NULL);
    hs_graph_free(g);
    assert(hs_outcome_exit_code(&outcome) == 0);
    int after = calls; /* the thread has ended */
    assert(after >= 3 && after == calls);
}
