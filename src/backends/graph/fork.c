/* SPDX-License-Identifier: Apache-2.0 */
/* Forks of a session: handles for threads that run ops concurrently with training. A fork has private outputs, shares the
 * session's queues and cannot access variables, so that runs need no lock. */
#include "backends/graph/queue.h"

hs_code hs__graph_session_fork(void *self, void **forked, hs_error *err)
{
    const hs__graph_session *parent = self;
    hs__graph_session *made = NULL;
    hs_code code = hs__graph_session_make(parent->graph, parent, &made, err);
    *forked = made;
    return code;
}

/* Returns a variable that the op reads or writes, or NULL. */
static const hs__graph_node *accessed_variable(const hs__graph_session *session, const hs__graph_node *op)
{
    for (size_t i = 0; i < op->n_writes; i++)
        if (op->writes[i]->kind == HS__VARIABLE)
            return op->writes[i];
    for (size_t i = 0; i < op->n_inputs; i++) {
        const hs__graph_node *input = op->inputs[i].node;
        if (input->kind == HS__VARIABLE && session->fed_in[input->slot] != session->run)
            return input;
    }
    return op->advances_step ? session->graph->global_step : NULL;
}

static hs_code check_op(const hs__graph_session *session, const hs__graph_node *op, hs_error *err)
{
    static const char rule[] = "which only the session's own thread may do, not a thread that fills a queue";
    const hs__graph_node *variable = accessed_variable(session, op);
    if (variable)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "op '%s' reads or writes variable '%s', %s", op->name,
                            variable->name, rule);
    if (op->builtin)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "op '%s' reads or writes all variables, %s", op->name, rule);
    return HS_OK;
}

static hs_code check_fetches(const hs__graph_session *session, const hs_backend_call *call, hs_error *err)
{
    for (size_t i = 0; i < call->n_fetches; i++) {
        const hs__graph_node *node = call->fetches[i].op;
        if (node->kind == HS__VARIABLE && session->fed_in[node->slot] != session->run)
            return hs_error_set(err, HS_FAILED_PRECONDITION,
                                "variable '%s' is fetched, which only the session's own thread may do, not a thread that "
                                "fills a queue",
                                node->name);
    }
    return HS_OK;
}

hs_code hs__graph_prepare_fork(hs__graph_session *session, const hs_backend_call *call, hs_error *err)
{
    const hs_graph *graph = session->graph;
    hs_code code = check_fetches(session, call, err);
    for (size_t word = 0; !code && word * 64 < graph->n_ops; word++)
        for (uint64_t bits = session->needed[word]; !code && bits; bits &= bits - 1) {
            const hs__graph_node *op = graph->order[word * 64 + (size_t)__builtin_ctzll(bits)];
            if (!(code = check_op(session, op, err)))
                code = hs__graph_own_outputs(session, op, err);
        }
    return code;
}
