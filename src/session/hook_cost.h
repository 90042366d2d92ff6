/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SESSION_HOOK_COST_H
#define HS_SESSION_HOOK_COST_H

#include <hooksess/session.h>

#include "session/services.h"

struct hs__hook;

/* How long callbacks take. hook_cost.c writes the members. */
typedef struct hs__callback_timing {
    bool on;                    /* every callback of this run is timed */
    int64_t runs_per_timed;     /* this run stands for N runs. 0: it is timed for spans only, or not timed */
    uint64_t n_runs;            /* hooked runs, this one included */
    uint64_t n_runs_of_kind[3]; /* by hs_run_kind */
    uint64_t next_timed;        /* number of the next run whose callbacks are timed */
    hs__hook_span *spans;
    size_t n_spans, spans_capacity;
    int span_runs; /* spans are recorded in N more runs, this one included */
    int64_t opened_ns;
} hs__callback_timing;

void hs__callback_timing_free(struct hs_session *session);
/* Records the duration of a callback that began at `began`, and that stands for `calls` calls. */
void hs__timed_callback(struct hs_session *session, const struct hs__hook *hook, const char *callback, int64_t began,
                        int64_t calls);
/* Before a run: counts it. Returns true if hs__decide_timing is to be called, which decides whether its callbacks are
 * timed. */
static inline bool hs__count_run(hs__callback_timing *timing, hs_run_kind kind)
{
    timing->n_runs_of_kind[kind]++;
    return ++timing->n_runs >= timing->next_timed || timing->on;
}
void hs__decide_timing(struct hs_session *session);
void hs__log_costs(const struct hs_session *session);

#endif
