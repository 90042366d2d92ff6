/* SPDX-License-Identifier: Apache-2.0 */
/* Refuses runs in which some ranks of a group would execute a collective op and wait for the other ranks forever. */
#include "session/session.h"

#include <stdio.h>

static void add_nodes(const struct hs_session *session, const hs__request *request, hs_node *nodes, size_t *n)
{
    for (size_t i = 0; request && i < request->n_leaves; i++, ++*n)
        if (nodes)
            nodes[*n] = session->requests.nodes[request->leaves[i]].node;
}

/* False: another rank may not call the hook in the same run. */
static bool is_called_on_all_ranks(const hs__hook *hook)
{
    return hook->cold->number_on_ranks && !hook->cold->best_effort;
}

/* The nodes that all ranks fetch in this run. `nodes` may be NULL. Returns their number. */
static size_t list_common_nodes(const struct hs_session *session, hs_node *nodes)
{
    size_t n = 0;
    add_nodes(session, session->values.request, nodes, &n);
    for (size_t i = 0; i < session->schedule.n_due; i++) {
        const hs__hook *hook = session->schedule.due[i];
        if (is_called_on_all_ranks(hook) && hook->before_kinds & 1 << session->context.kind)
            add_nodes(session, hook->values.request, nodes, &n);
    }
    return n;
}

hs_code hs__check_collective_ops(struct hs_session *session, const hs__hook *hook, const hs__request *request, bool alone,
                                 hs_error *err)
{
    const hs_raw_session *raw = &session->raw;
    const char *op = NULL;
    size_t leaf = 0;
    if (!hook || is_called_on_all_ranks(hook) || !request || raw->rank_count == 1 || !raw->ops.collective_op)
        return HS_OK;
    hs__node_list *others = &session->common_fetches; /* kept, so that later steps allocate nothing */
    const size_t n = alone ? 0 : list_common_nodes(session, NULL);
    hs_code code = hs__reserve(&session->env, &others->items, &others->capacity, n, sizeof *others->items, err);
    if (code)
        return code;
    if (!alone)
        list_common_nodes(session, others->items);
    for (; !op && leaf < request->n_leaves; leaf++)
        op = raw->ops.collective_op(raw->backend.self, session->requests.nodes[request->leaves[leaf]].node, others->items,
                                    n);
    if (!op)
        return HS_OK;
    if (!session->failed_hook[0])
        snprintf(session->failed_hook, sizeof session->failed_hook, "%s", hook->cold->ops.name);
    return hs_error_set(
        err, HS_INVALID_ARGUMENT,
        "hook '%s' fetches '%s', and so %s would execute the collective op '%s' without the other ranks; %s",
        hook->cold->ops.name, session->requests.nodes[request->leaves[leaf - 1]].name,
        hook->cold->best_effort ? "a rank" : "rank 0", op,
        hook->cold->best_effort ? "do not make it a best-effort hook"
                                : "list the hook on all ranks, with every_rank if it has this option");
}
