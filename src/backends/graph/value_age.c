/* SPDX-License-Identifier: Apache-2.0 */
/* Values (hs_graph_value) are memory that only some steps may compute. The ages of values that ops list in `writes` are
 * those of the ops. The others are computed by each run or own step, except own steps that the program has declined them
 * in. */
#include "backends/graph/graph.h"

static size_t bytes_of(const hs__graph_node *node)
{
    return (size_t)hs_shape_elements(&node->shape) * hs_dtype_size(node->dtype);
}

/* Returns true if a node has the value's memory. */
static bool is_memory_of(const hs_graph *graph, const hs__graph_node *node, const hs__graph_node *value)
{
    if (node == value)
        return true;
    if (!graph->shares_memory || node->kind == HS__OP || node->kind == HS__PLACEHOLDER || !node->data || !value->data)
        return false;
    const uintptr_t a = (uintptr_t)node->data, b = (uintptr_t)value->data;
    return a < b + bytes_of(value) && b < a + bytes_of(node);
}

bool hs__graph_reads(hs_graph *graph, const hs__graph_node *value, const hs_node *fetches, size_t n)
{
    bool executes = false;
    for (size_t i = 0; i < n; i++) {
        const hs__graph_node *node = fetches[i].op;
        executes |= node->kind == HS__OP;
        if (is_memory_of(graph, node, value))
            return true;
    }
    if (!executes)
        return false;
    for (size_t rank = 0; rank < graph->n_ops; rank++)
        graph->order[rank]->marks = 0;
    for (size_t i = 0; i < n; i++)
        ((hs__graph_node *)fetches[i].op)->marks = 1;
    for (size_t rank = graph->n_ops; rank-- > 0;) { /* an op's dependencies have lower ranks */
        const hs__graph_node *op = graph->order[rank];
        if (!op->marks)
            continue;
        if (op->run && !op->lists_inputs && !op->builtin && !op->is_summary)
            return true;
        for (size_t i = 0; i < op->n_inputs; i++) {
            op->inputs[i].node->marks = 1;
            if (is_memory_of(graph, op->inputs[i].node, value))
                return true;
        }
        for (size_t i = 0; i < op->n_controls; i++)
            op->controls[i]->marks = 1;
    }
    return false;
}

/* Ages. */

void hs__graph_decline(hs__graph_session *session, const hs__graph_node *value, int64_t step, int64_t age)
{
    session->declined[value->slot] = (hs__declined){step, age};
}

static bool lists_value(const hs_graph *graph, const hs__graph_node *op, const hs__graph_node *value)
{
    for (size_t i = 0; i < op->n_writes; i++)
        if (is_memory_of(graph, op->writes[i], value))
            return true;
    return false;
}

static bool may_write_all(const hs__graph_node *op)
{
    return op->run && !op->lists_writes && !op->builtin;
}

static int64_t step_now(const hs__graph_session *session)
{
    const hs__graph_node *node = session->graph->global_step;
    return node && session->initialized[node->slot] ? *(const int64_t *)session->tensors[node->slot].data : 0;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

int64_t hs__graph_computed_at(hs__graph_session *session, const hs__graph_node *value, bool own_steps, bool computes)
{
    const hs_graph *graph = session->graph;
    const hs__declined *declined = &session->declined[value->slot];
    const int64_t step = step_now(session);
    int64_t by_listing = -1, by_any = -1; /* ops */
    bool is_listed = false;
    for (size_t rank = 0; rank < graph->n_ops; rank++) {
        const hs__graph_node *op = graph->order[rank];
        const int64_t at = session->executed[rank].step > step ? -1 : session->executed[rank].step; /* -1: was set back */
        if (lists_value(graph, op, value)) {
            is_listed = true;
            by_listing = larger(by_listing, at);
        } else if (may_write_all(op)) {
            by_any = larger(by_any, at);
        }
    }
    if (!computes)
        return by_listing;
    if (own_steps)
        return larger(by_listing, step <= declined->step ? declined->age : step);
    return is_listed ? larger(by_listing, by_any) : step;
}

bool hs__graph_is_outdated(const hs_op *op, const hs__graph_node *value)
{
    const hs__graph_session *session = op->session;
    const hs_graph *graph = session->graph;
    bool is_listed = false;
    if (session->is_fork || session->fed_in[value->slot] == session->run)
        return false;
    for (size_t rank = 0; rank < graph->n_ops; rank++) {
        const hs__graph_node *writer = graph->order[rank];
        const bool lists = lists_value(graph, writer, value);
        const bool runs =
            session->needed[rank / 64] >> rank % 64 & 1 || session->executed[rank].step == session->step_after;
        if (runs && (lists || (!session->tracks_step && may_write_all(writer))))
            return false;
        is_listed |= lists;
    }
    if (session->tracks_step)
        return !session->made_own_step || session->step_after <= session->declined[value->slot].step;
    return is_listed;
}

void hs__graph_forget_ages(hs__graph_session *session)
{
    for (size_t rank = 0; rank < session->graph->n_ops; rank++)
        session->executed[rank].step = -1;
    for (size_t slot = 0; slot < session->graph->n_slots; slot++)
        session->declined[slot].step = -1;
    session->made_own_step = false;
}
