/* SPDX-License-Identifier: Apache-2.0 */
/* Values of the embedded graph: whether this step needs one, and which step has computed it. */
#include "session/session.h"

#include "backends/graph/graph.h"
#include "base/error.h"

/* NULL: the backend is not the embedded graph. */
static hs__graph_session *graph_session_of(const hs_raw_session *raw)
{
    return hs__graph_session_of(raw->backend, raw->handle);
}

static const hs__graph_node *value_of(const hs_raw_session *raw, const char *tensor)
{
    const hs__graph_session *session = graph_session_of(raw);
    return session ? hs__graph_value(session->graph, tensor) : NULL;
}

static int64_t age_of(const hs_raw_session *raw, const hs__graph_node *value)
{
    const struct hs_session *session = raw->owner;
    const hs_run_context *context = &session->context;
    /* boundaries come after training runs; own steps train, so that at level 0 an evaluation among them is over */
    const bool evaluates =
        context->kind == HS_RUN_EVAL && !context->boundary && (session->level || !session->makes_own_steps);
    const bool computes = raw->values_computed & 1 << (evaluates ? HS_RUN_EVAL : HS_RUN_TRAIN);
    return hs__graph_computed_at(graph_session_of(raw), value, session->makes_own_steps && !evaluates, computes);
}

int64_t hs_raw_session_computed_at(hs_raw_session *raw, const char *tensor)
{
    if (!raw || !raw->handle)
        return -1;
    const hs__graph_node *value = value_of(raw, tensor);
    hs_run_context *context = &raw->owner->context;
    if (value)
        return age_of(raw, value);
    /* the context has read it already: reading it may be a run */
    const int64_t step =
        context->session ? hs_run_context_global_step(context, NULL) : hs_raw_session_global_step(raw, NULL);
    return step < 0 ? 0 : step;
}

void hs__session_forget_values(struct hs_session *session)
{
    hs_raw_session *raw = &session->raw;
    raw->values_computed = 0;
    hs__late_discard(session);
    if (graph_session_of(raw))
        hs__graph_forget_ages(graph_session_of(raw));
}

HS__COLD static bool report_unknown(hs_session *session, const char *tensor)
{
    if (!session->reported_unknown)
        hs_log(&session->env, HS_LOG_WARNING,
               "hs_session_wants: '%s' is not a value of the graph (hs_graph_value), so the answer is always true",
               tensor ? tensor : "(null)");
    session->reported_unknown = true;
    return true;
}

bool hs_session_wants(hs_session *session, const char *tensor)
{
    if (!session || hs__is_inherited(session->generation) || session->life != HS__IN_OWN_STEP)
        return true;
    const hs_raw_session *raw = &session->raw;
    const hs__graph_node *value = value_of(raw, tensor);
    int64_t step;
    if (!value)
        return report_unknown(session, tensor);
    if (hs__raw_session_read_step(raw, &step, NULL))
        return true;
    const hs_backend_call *call = &session->plans[0].call;
    const bool wants = hs__graph_reads(graph_session_of(raw)->graph, value, call->fetches, call->n_fetches);
    if (!wants)
        hs__graph_decline(graph_session_of(raw), value, step + 1, age_of(raw, value));
    return wants;
}
