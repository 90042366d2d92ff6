/* SPDX-License-Identifier: Apache-2.0 */
/* Values of the embedded graph: whether this step needs one, and which step has computed it. */
#include "session/session.h"

#include "backends/graph/graph.h"
#include "base/cold.h"

static int64_t age_of(const hs_raw_session *raw, const hs__graph_node *value)
{
    const struct hs_session *session = hs__session_of(raw);
    const hs_run_context *context = &session->context;
    const bool evaluates = context->kind == HS_RUN_EVAL && !context->boundary; /* boundaries come after training runs */
    const bool computes = raw->values_computed & 1 << (evaluates ? HS_RUN_EVAL : HS_RUN_TRAIN);
    return hs__graph_computed_at(raw->handle, value, session->makes_own_steps && !evaluates, computes);
}

bool hs__is_computed(const hs_raw_session *raw, const char *tensor, int64_t step)
{
    const hs__graph_node *value = hs__graph_value(hs_graph_of(raw->backend), tensor);
    const int64_t age = value ? age_of(raw, value) : step;
    return !value || (age >= 0 && (step < 0 || age == step));
}

int64_t hs_raw_session_computed_at(const hs_raw_session *raw, const char *tensor)
{
    int64_t step;
    if (!raw || !raw->handle)
        return -1;
    const hs__graph_node *value = hs__graph_value(hs_graph_of(raw->backend), tensor);
    if (value)
        return age_of(raw, value);
    return hs__raw_session_read_step(raw, &step, NULL) ? 0 : step;
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
    hs_graph *graph = hs_graph_of(raw->backend);
    const hs__graph_node *value = hs__graph_value(graph, tensor);
    int64_t step;
    if (!value)
        return report_unknown(session, tensor);
    if (hs__raw_session_read_step(raw, &step, NULL))
        return true;
    const hs_backend_call *call = &session->plans[0].call;
    const bool wants = hs__graph_reads(graph, value, call->fetches, call->n_fetches);
    if (!wants)
        hs__graph_decline(raw->handle, value, step + 1, age_of(raw, value));
    return wants;
}
