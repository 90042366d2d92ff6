/* SPDX-License-Identifier: Apache-2.0 */
/* The embedded graph as a backend: running a session, opening and closing it, and the functions of hs_backend_ops. A run
 * sets the feeds, marks the ops that the fetches need, executes them in order (execute_all), advances the global step, and
 * collects the values (graph_session_run, run_needed). */
#include "backends/graph/graph.h"
#include "backends/output_name.h"
#include "base/error.h"
#include "base/similar_name.h"

#include <stddef.h>
#include <string.h>

/* The write guard. */

/* Calls the guard before a variable changes. The guard is dropped when its copy is complete. */
static void call_guard(hs__graph_session *session, size_t variable)
{
    if (session->guard.before_write && !session->guard.before_write(session->guard.user, variable))
        session->guard.before_write = NULL;
}

static void call_guard_for_op(hs__graph_session *session, const hs__graph_node *op)
{
    bool writes_moving = false; /* their memory may overlap that of other variables */
    for (size_t i = 0; i < op->n_writes; i++)
        writes_moving |= op->writes[i]->moves;
    if (!op->lists_writes || session->graph->shares_memory || writes_moving)
        call_guard(session, HS_ANY_VARIABLE);
    for (size_t i = 0; i < op->n_writes; i++)
        if (op->writes[i]->kind == HS__VARIABLE)
            call_guard(session, op->writes[i]->variable);
}

static void graph_guard(void *self, hs_write_guard guard)
{
    hs__graph_session *session = self;
    call_guard(session, HS_ANY_VARIABLE);
    if (session->guard.before_write)
        session->guard.released(session->guard.user);
    session->guard = guard;
}

/* Running. */

static bool is_fed(const hs__graph_session *session, size_t slot)
{
    return session->fed_in[slot] == session->run;
}

static hs_code set_feed(hs__graph_session *session, const hs_backend_feed *feed, hs_error *err)
{
    const hs__graph_node *node = feed->node.op;
    if (feed->node.output < 0)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "cannot feed op '%s': it has no value", node->name);
    size_t output = (size_t)feed->node.output;
    bool is_op = node->kind == HS__OP;
    hs_dtype dtype = is_op ? node->outputs[output].dtype : node->dtype;
    const hs_shape *open = is_op ? &node->outputs[output].shape : &node->shape;
    hs_shape shape = hs_tensor_shape(feed->value);
    hs_code code = hs_tensor_check(feed->value, err);
    char wanted[HS_SHAPE_TEXT_SIZE], given[HS_SHAPE_TEXT_SIZE];
    if (code)
        hs_error_prefix(err, "cannot feed '%s'", node->name);
    else if (feed->value->dtype != dtype || !hs__shape_fits(open, &shape))
        code = hs_error_set(err, HS_INVALID_ARGUMENT, "'%s' is %s %s, but was fed with %s %s", node->name,
                            hs_dtype_name(dtype), hs_shape_text(open, wanted, sizeof wanted),
                            hs_dtype_name(feed->value->dtype), hs_shape_text(&shape, given, sizeof given));
    if (code)
        return code;
    session->fed[node->slot + output] = feed->value;
    session->fed_in[node->slot + output] = session->run;
    return HS_OK;
}

/* Marks an op as needed. Pushes it if it was not marked. */
static void need(hs__graph_session *session, hs__graph_node *op, size_t *depth)
{
    uint64_t *word = &session->needed[op->rank / 64], bit = (uint64_t)1 << op->rank % 64;
    if (*word & bit)
        return;
    *word |= bit;
    session->stack[(*depth)++] = op;
}

/* Marks or checks the node that computes a value. `by` is the op that reads it; NULL: it is fetched. */
static hs_code need_value(hs__graph_session *session, hs__graph_node *node, size_t output, const hs__graph_node *by,
                          size_t *depth, hs_error *err)
{
    size_t slot = node->slot + output;
    if (is_fed(session, slot))
        return HS_OK;
    if (node->kind == HS__OP) {
        need(session, node, depth);
    } else if (node->kind == HS__PLACEHOLDER) {
        return hs_error_set(err, HS_INVALID_ARGUMENT, "placeholder '%s' must be fed; %s%s%s", node->name,
                            by ? "op '" : "it", by ? by->name : "", by ? "' needs it" : " is fetched");
    } else if (!session->initialized[slot]) {
        session->check_inputs = true; /* an earlier op of the run may initialize it */
    }
    return HS_OK;
}

static void unmark_needed(hs__graph_session *session)
{
    const size_t words = (session->graph->n_ops + 63) / 64;
    session->check_inputs = false;
    session->needed_by = 0;
    session->needed_advances = 0;
    if (words == 1)
        session->needed[0] = 0; /* faster than memset of 8 bytes, whose store the next load would wait for */
    else
        memset(session->needed, 0, words * sizeof *session->needed);
}

/* Marks all ops that the fetches need. */
static hs_code mark_needed(hs__graph_session *session, const hs_backend_call *call, hs_error *err)
{
    size_t depth = 0;
    for (size_t i = 0; i < call->n_fetches; i++) {
        hs__graph_node *node = call->fetches[i].op;
        int32_t output = call->fetches[i].output;
        hs_code code = HS_OK;
        if (output < 0)
            need(session, node, &depth);
        else
            code = need_value(session, node, (size_t)output, NULL, &depth, err);
        while (!code && depth) {
            hs__graph_node *op = session->stack[--depth];
            session->needed_advances += op->advances_step;
            for (size_t k = 0; !code && k < op->n_inputs; k++)
                code = need_value(session, op->inputs[k].node, op->inputs[k].output, op, &depth, err);
            for (size_t k = 0; k < op->n_controls; k++)
                need(session, op->controls[k], &depth);
        }
        if (code)
            return code;
    }
    session->needed_by = session->check_inputs ? 0 : call->plan; /* inputs may be initialized by the next run */
    return HS_OK;
}

static hs_code check_inputs(const hs__graph_session *session, const hs__graph_node *op, hs_error *err)
{
    for (size_t i = 0; i < op->n_inputs; i++) {
        const hs__graph_node *node = op->inputs[i].node;
        if (node->kind == HS__VARIABLE && !session->initialized[node->slot] && !is_fed(session, node->slot))
            return hs_error_set(err, HS_FAILED_PRECONDITION, "variable '%s' is not initialized, but op '%s' reads it",
                                node->name, op->name);
    }
    return HS_OK;
}

/* Memory that moves is located before each use. */

static hs_code locate(hs__graph_session *session, const hs__graph_node *variable, hs_error *err)
{
    return hs__variable_place(&variable->def, false, &session->tensors[variable->slot], err);
}

static hs_code locate_inputs(hs__graph_session *session, const hs__graph_node *op, hs_error *err)
{
    for (size_t i = 0; i < op->n_inputs; i++) {
        const hs__graph_node *node = op->inputs[i].node;
        if (node->kind != HS__VARIABLE || !node->moves || is_fed(session, node->slot))
            continue;
        const hs_tensor *value = &session->tensors[node->slot];
        hs_code code = locate(session, node, err);
        if (code)
            return code;
        if (!value->data && value->bytes)
            return hs_error_set(err, HS_FAILED_PRECONDITION, "variable '%s' has no memory yet, but op '%s' reads it",
                                node->name, op->name);
    }
    return HS_OK;
}

static hs_code locate_operands(hs__graph_session *session, const hs__graph_node *op, hs_error *err)
{
    hs_code code = locate_inputs(session, op, err);
    for (size_t i = 0; !code && i < op->n_writes; i++)
        if (op->writes[i]->moves)
            code = locate(session, op->writes[i], err);
    return code;
}

/* Checks a fetched variable. */
HS__COLD static hs_code check_fetched(hs__graph_session *session, const hs__graph_node *variable, hs_error *err)
{
    const hs_tensor *value = &session->tensors[variable->slot];
    if (!session->initialized[variable->slot])
        return hs_error_set(err, HS_FAILED_PRECONDITION, "variable '%s' is not initialized", variable->name);
    hs_code code = locate(session, variable, err);
    if (!code && !value->data && value->bytes)
        code = hs_error_set(err, HS_FAILED_PRECONDITION, "variable '%s' has no memory yet", variable->name);
    return code;
}

static bool is_set(const hs_tensor *value)
{
    return value->rank >= 0 && (value->data || !value->bytes);
}

/* Resets outputs that are views: a view is valid for one run. */
static void reset_views(hs__graph_session *session, const hs__graph_node *op)
{
    for (size_t i = 0; i < op->n_outputs; i++) {
        const hs_output_def *output = &op->outputs[i];
        hs_tensor *tensor = &session->tensors[op->slot + i];
        bool is_open = hs_shape_elements(&output->shape) < 0;
        if (output->data || (session->owned[op->slot + i] && output->dtype != HS_STRING && !is_open))
            continue;
        *tensor = hs_tensor_of(output->dtype, output->shape, NULL);
        if (is_open)
            tensor->rank = -1;
    }
}

static hs_code check_views(const hs__graph_session *session, const hs__graph_node *op, hs_error *err)
{
    for (size_t i = 0; i < op->n_inputs; i++)
        if (!is_set(hs__graph_tensor_at(session, op->inputs[i].node->slot + op->inputs[i].output)))
            return hs_error_set(err, HS_INTERNAL, "op '%s' did not set its output %zu, which op '%s' reads",
                                op->inputs[i].node->name, op->inputs[i].output, op->name);
    return HS_OK;
}

/* Does the checks and calls that only few ops need. */
HS__COLD static hs_code prepare(hs__graph_session *session, const hs__graph_node *op, hs_error *err)
{
    hs_code code = session->check_inputs ? check_inputs(session, op, err) : HS_OK;
    if (!code && op->moves)
        code = locate_operands(session, op, err);
    if (!code && op->reads_views)
        code = check_views(session, op, err);
    if (code)
        return code;
    if (op->sets_views)
        reset_views(session, op);
    if (session->guard.before_write)
        call_guard_for_op(session, op);
    return HS_OK;
}

HS__COLD static hs_code op_failed(const hs__graph_node *op, hs_code code, hs_error *err)
{
    hs__normalize_error(code, "its function", err);
    hs_error_prefix(err, "op '%s'", op->name);
    return code;
}

static inline hs_code call_function(hs__graph_session *session, const hs__graph_node *node, hs_error *err)
{
    hs_op op = {session, node};
    bool plain = !(session->check_inputs | node->reads_views | node->sets_views | node->moves |
                   (session->guard.before_write != NULL));
    hs_code code = plain ? HS_OK : prepare(session, node, err);
    if (code)
        return code;
    if ((code = node->run(node->self, &op, err)))
        return op_failed(node, code, err);
    for (size_t i = 0; i < node->n_writes; i++)
        session->initialized[node->writes[i]->slot] = true;
    return HS_OK;
}

static inline hs_code execute(hs__graph_session *session, const hs__graph_node *op, hs_error *err)
{
    hs_code code = op->run ? call_function(session, op, err) : HS_OK;
    if (code)
        return code;
    session->advanced += op->advances_step;
    session->executed[op->rank] = (hs__executed){session->run, session->step_after};
    return HS_OK;
}

/* Executes an op of a run that has options. limit: deadline in nanoseconds; 0: none. */
__attribute__((noinline)) static hs_code execute_with(hs__graph_session *session, const hs__graph_node *op,
                                                      const hs_run_options *options, int64_t limit, hs_error *err)
{
    const hs_env *env = &session->graph->env;
    bool traced = op->run && options->trace_level >= HS_TRACE_SOFTWARE;
    if (traced)
        session->trace[2 * op->rank] = hs_env_monotonic_ns(env);
    hs_code code = execute(session, op, err);
    if (traced)
        session->trace[2 * op->rank + 1] = hs_env_monotonic_ns(env);
    if (!code && limit && hs_env_monotonic_ns(env) > limit)
        code = hs_error_set(err, HS_DEADLINE_EXCEEDED, "the run took longer than timeout_secs (%g s); the last op was '%s'",
                            options->timeout_secs, op->name);
    return code;
}

/* Executes the needed ops by rank. */
static hs_code execute_all(hs__graph_session *session, const hs_run_options *options, hs_error *err)
{
    const hs_graph *graph = session->graph;
    int64_t limit = 0; /* 0: none */
    if (options && options->timeout_secs > 0) {
        int64_t now = hs_env_monotonic_ns(&graph->env);
        double ns = options->timeout_secs * 1e9;
        limit = ns < (double)(INT64_MAX - now) ? now + (int64_t)ns : INT64_MAX;
    }
    for (size_t word = 0; word * 64 < graph->n_ops; word++) {
        for (uint64_t bits = session->needed[word]; bits; bits &= bits - 1) {
            const hs__graph_node *op = graph->order[word * 64 + (size_t)__builtin_ctzll(bits)];
            hs_code code = options ? execute_with(session, op, options, limit, err) : execute(session, op, err);
            if (code)
                return code;
        }
    }
    return HS_OK;
}

HS__COLD static int64_t *find_step(hs__graph_session *session)
{
    const hs__graph_node *node = session->graph->global_step;
    if (!node || !session->initialized[node->slot])
        return NULL;
    session->step_at = &session->tensors[node->slot];
    return session->step_at->data;
}

static inline int64_t *step_of(hs__graph_session *session)
{
    return session->step_at ? session->step_at->data : find_step(session);
}

static hs_code advance(hs__graph_session *session, int64_t *step, int64_t by, hs_error *err)
{
    if (by == 0)
        return HS_OK;
    if (!step)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "the global step '%s' is not initialized",
                            session->graph->global_step->name);
    call_guard(session, session->graph->global_step->variable);
    *step += by;
    return HS_OK;
}

static hs_code collect_values(hs__graph_session *session, hs_backend_call *call, hs_error *err)
{
    for (size_t i = 0; i < call->n_fetches; i++) {
        const hs__graph_node *node = call->fetches[i].op;
        int32_t output = call->fetches[i].output;
        if (output < 0) {
            call->values[i].data = NULL;
            continue;
        }
        size_t slot = node->slot + (size_t)output;
        const hs_tensor *value = hs__graph_tensor_at(session, slot);
        hs_code code;
        if (node->kind == HS__VARIABLE && !is_fed(session, slot) && (!session->initialized[slot] || node->moves) &&
            (code = check_fetched(session, node, err)))
            return code;
        if (!is_set(value))
            return hs_error_set(err, HS_INTERNAL, "op '%s' did not set its output %d", node->name, (int)output);
        call->values[i] = *value;
    }
    return HS_OK;
}

/* The step has become another than step_after, or a hook's run has advanced it: it is the step of the whole run. */
HS__COLD static void correct_ages(hs__graph_session *session, int64_t step)
{
    for (size_t rank = 0; rank < session->graph->n_ops; rank++)
        if (session->executed[rank].step >= 0 && session->executed[rank].run >= session->main_run)
            session->executed[rank].step = step;
}

/* Executes the needed ops and collects the fetches. */
static hs_code run_needed(hs__graph_session *session, hs_backend_call *call, hs_error *err)
{
    hs_code code = execute_all(session, call->options, err);
    /* Advance the step also if a later op failed, as the training was done. Fetched views of the step see the new value. */
    int64_t *step = step_of(session);
    hs_code late = advance(session, step, session->advanced, code ? NULL : err);
    if (step && (*step != session->step_after || (call->level && *step != session->step)))
        correct_ages(session, *step);
    if (session->tracks_step) /* ops of the run may have changed it */
        session->expected_step += (uint64_t)*step - (uint64_t)session->step;
    if (code || (code = late) || (code = collect_values(session, call, err)))
        return code;
    const hs_run_options *options = call->options;
    if (options && (options->trace_level >= HS_TRACE_SOFTWARE || options->output_partition_graphs) && !session->is_fork)
        code = hs__graph_metadata(session, call, err);
    return code;
}

static hs_code graph_session_run(void *self, hs_backend_call *call, hs_error *err)
{
    hs__graph_session *session = self;
    session->run++;
    session->main_run = call->level ? session->main_run : session->run;
    session->advanced = 0;
    const int64_t *step = step_of(session);
    session->step = step ? *step : session->is_fork ? -1 : 0;
    session->call = call;
    hs_code code = HS_OK;
    if (!call->plan || call->plan != session->needed_by) {
        unmark_needed(session);
        for (size_t i = 0; !code && i < call->n_feeds; i++)
            code = set_feed(session, &call->feeds[i], err);
        if (!code)
            code = mark_needed(session, call, err);
    }
    session->step_after = session->step + session->needed_advances;
    if (code || (session->is_fork && (code = hs__graph_prepare_fork(session, call, err))) ||
        (code = run_needed(session, call, err)))
        hs__graph_fail_queues(session, call, code, err);
    if (code == HS_STOP)
        hs__graph_requeue(session);
    session->call = NULL;
    return code;
}

/* Opening and closing. */

static hs_code graph_session_open(void *self, const char *target, hs_bytes config, void **session, hs_error *err)
{
    hs_graph *graph = self;
    (void)config;
    if (graph->error.code)
        return hs__error_copy(err, &graph->error);
    if (target && *target && strcmp(target, "local") != 0)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "the graph backend cannot connect to target '%s'; its sessions run in this process", target);
    if (graph->live_sessions && (graph->program_memory || graph->has_position))
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "the graph has %s, so it can have only one open session; close that session first",
                            graph->program_memory ? "variables in the program's memory" : "a queue with a position");
    hs__graph_session *made = NULL;
    hs_code code;
    /* Add all ops now: none can be added while a session or a fork is open. */
    if ((code = hs__graph_ensure_builtins(graph, err)) || (code = hs__graph_prepare(graph, err)) ||
        (code = hs__graph_session_make(graph, NULL, &made, err)))
        return code;
    graph->live_sessions++;
    *session = made;
    return HS_OK;
}

static hs_code graph_session_close(void *session, hs_error *err)
{
    (void)err;
    hs__graph_session *closing = session;
    graph_guard(session, (hs_write_guard){NULL, NULL, NULL});
    if (!closing->is_fork)
        closing->graph->live_sessions--;
    hs__graph_session_free(closing);
    return HS_OK;
}

/* Variables. */

static hs_code graph_read_variable(void *self, size_t index, hs_tensor *value, hs_error *err)
{
    hs__graph_session *session = self;
    const hs__graph_node *variable = session->graph->variables[index];
    if (!session->initialized[variable->slot])
        return hs_error_set(err, HS_FAILED_PRECONDITION, "variable '%s' is not initialized", variable->name);
    hs_code code = variable->moves ? locate(session, variable, err) : HS_OK;
    *value = session->tensors[variable->slot];
    return code;
}

static hs_code graph_write_variable(void *self, size_t index, const hs_tensor *value, hs_error *err)
{
    hs__graph_session *session = self;
    const hs__graph_node *variable = session->graph->variables[index];
    hs_tensor *to = &session->tensors[variable->slot];
    call_guard(session, variable->moves ? HS_ANY_VARIABLE : index);
    hs_code code = hs__variable_write(&variable->def, to, value, err);
    if (code)
        return code;
    session->initialized[variable->slot] = true;
    if (variable == session->graph->global_step)
        session->expected_step = (uint64_t) * (const int64_t *)to->data;
    return HS_OK;
}

static hs_code graph_lend_variable(void *self, size_t index, hs_tensor *memory, hs_error *err)
{
    hs__graph_session *session = self;
    const hs__graph_node *variable = session->graph->variables[index];
    hs_tensor *value = &session->tensors[variable->slot];
    hs_code code = variable->moves ? hs__variable_place(&variable->def, true, value, err) : HS_OK;
    *memory = *value;
    if (code)
        return code;
    if (memory->memory && !memory->memory->wait) /* only one thread may copy, and only all of it */
        return hs_error_set(err, HS_UNIMPLEMENTED, "variable '%s' is not in host memory", variable->name);
    call_guard(session, variable->moves ? HS_ANY_VARIABLE : index);
    return HS_OK;
}

static hs_code graph_lend_value(void *self, hs_node node, hs_tensor *memory, hs_error *err)
{
    const hs__graph_session *session = self;
    const hs__graph_node *value = node.op;
    if (value->kind != HS__VALUE || session->tensors[value->slot].memory)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "'%s' is not a value in host memory", value->name);
    *memory = session->tensors[value->slot];
    return HS_OK;
}

static hs_code graph_advance_step(void *self, int64_t by, hs_error *err)
{
    hs__graph_session *session = self;
    if (!session->graph->global_step)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "the graph has no global step");
    int64_t *step = step_of(session);
    if (step && session->tracks_step && (uint64_t)*step != session->expected_step)
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "the program changed the global step from %lld to %lld; only hs_step_end advances it",
                            (long long)session->expected_step, (long long)*step);
    session->tracks_step = step != NULL;
    session->made_own_step |= by > 0;
    if (!step)
        return advance(session, NULL, by, err);
    hs_code code = advance(session, step, by, err);
    session->expected_step = (uint64_t)*step;
    return code;
}

static hs_code graph_read_step(void *self, int64_t *step, hs_error *err)
{
    const int64_t *at = step_of(self);
    if (!at) {
        const hs__graph_node *node = ((hs__graph_session *)self)->graph->global_step;
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            node ? "the global step is not initialized" : "the graph has no global step");
    }
    *step = *at;
    return HS_OK;
}

static const hs_env *graph_env(void *self)
{
    return &((hs_graph *)self)->env;
}

static hs_code graph_status(void *self, hs_error *err)
{
    const hs_graph *graph = self;
    return graph->error.code ? hs__error_copy(err, &graph->error) : HS_OK;
}

static hs_code not_found(const hs_graph *graph, const char *name, hs_error *err)
{
    hs__similar_name similar = hs__similar_name_begin(name);
    for (size_t i = 0; err && i < graph->n_nodes; i++)
        hs__similar_name_add(&similar, graph->nodes[i]->name);
    return similar.found
               ? hs_error_set(err, HS_NOT_FOUND, "'%s' is not in the graph; did you mean '%s'?", name, similar.found)
               : hs_error_set(err, HS_NOT_FOUND, "'%s' is not in the graph", name);
}

static hs_code graph_find(void *self, const char *name, hs_node *out, hs_error *err)
{
    const hs_graph *graph = self;
    hs__graph_node *node = hs__graph_node_of(graph, name);
    hs__output_name parsed = hs__parse_output_name(name);
    if (parsed.has_output && parsed.valid) {
        char *op_name = hs__strndup(&graph->env, name, parsed.op_length);
        if (!op_name)
            return hs__no_memory(err, strlen(name), "a name");
        node = hs__graph_node_of(graph, op_name);
        hs__free(&graph->env, op_name);
    }
    if (!node)
        return not_found(graph, name, err);
    size_t n_outputs = node->kind == HS__OP ? node->n_outputs : 1;
    if (parsed.output >= n_outputs && parsed.has_output)
        return hs_error_set(err, HS_NOT_FOUND, "'%s' is not in the graph: op '%s' has %zu output%s", name, node->name,
                            n_outputs, n_outputs == 1 ? "" : "s");
    bool has_value = parsed.has_output || n_outputs == 1;
    *out = (hs_node){.op = node, .output = has_value ? (int32_t)parsed.output : -1, .n_outputs = (int32_t)n_outputs};
    return HS_OK;
}

static hs_code graph_finalize(void *self, bool finalized, hs_error *err)
{
    hs_graph *graph = self;
    hs_code code = HS_OK;
    if (finalized) {
        if (graph->error.code)
            return hs__error_copy(err, &graph->error);
        if (!(code = hs__graph_ensure_builtins(graph, err)))
            code = hs__graph_prepare(graph, err);
    }
    if (!code)
        graph->finalized = finalized;
    return code;
}

static bool graph_finalized(void *self)
{
    return ((hs_graph *)self)->finalized;
}

static const char *graph_step_name(void *self)
{
    const hs_graph *graph = self;
    return graph->global_step ? graph->global_step->name : NULL;
}

static bool graph_collection_item(void *self, const char *key, size_t index, const void **item)
{
    const void *found = hs__graph_collected(self, key, index);
    if (found)
        *item = found;
    return found != NULL;
}

static hs_code graph_add_to_collection(void *self, const char *key, const void *item, void (*release)(void *item),
                                       hs_error *err)
{
    bool is_name = key && strcmp(key, HS_SAVERS) != 0 && strcmp(key, HS_QUEUE_RUNNERS) != 0;
    return hs__graph_collect(self, key, item, is_name, release, err);
}

static hs_code graph_default_op(void *self, const char *key, const char **name, hs_error *err)
{
    static const struct {
        const char *key;
        int builtin;
    } defaults[] = {
        {HS_INIT_OP, HS__BUILTIN_INIT},
        {HS_LOCAL_INIT_OP, HS__BUILTIN_LOCAL_INIT},
        {HS_READY_OP, HS__BUILTIN_READY},
        {HS_READY_FOR_LOCAL_INIT_OP, HS__BUILTIN_READY_FOR_LOCAL},
    };
    hs_graph *graph = self;
    *name = NULL;
    if (strcmp(key, HS_SUMMARY_OP) == 0)
        return hs__graph_default_merge(graph, name, err);
    hs_code code = hs__graph_ensure_builtins(graph, err);
    for (size_t i = 0; !code && i < sizeof defaults / sizeof *defaults; i++)
        if (strcmp(defaults[i].key, key) == 0)
            *name = graph->builtins[defaults[i].builtin];
    return code;
}

static bool graph_variable(void *self, size_t index, hs_variable *out)
{
    const hs_graph *graph = self;
    const hs__graph_node *node = NULL;
    if (graph->resolved) {
        node = index < graph->n_variables ? graph->variables[index] : NULL;
    } else {
        for (size_t i = 0, n = 0; i < graph->n_nodes && !node; i++)
            if (graph->nodes[i]->kind == HS__VARIABLE && n++ == index)
                node = graph->nodes[i];
    }
    if (!node)
        return false;
    *out = (hs_variable){
        .name = node->name, .dtype = node->dtype, .shape = node->shape, .flags = hs__variable_flags(&node->def)};
    return true;
}

static const hs_state_provider *graph_state(void *self, size_t index)
{
    const hs_graph *graph = self;
    return index < graph->n_states ? &graph->states[index].provider : NULL;
}

static hs_code graph_graph_def(void *self, hs_bytes *out, hs_error *err)
{
    return hs__graph_make_def(self, out, err);
}

static const hs_backend_ops graph_backend_ops = HS_INIT(
    hs_backend_ops, .name = "graph", .flags = HS_BACKEND_KEEPS_VIEWS, .env = graph_env, .status = graph_status,
    .find = graph_find, .finalize = graph_finalize, .finalized = graph_finalized, .global_step_name = graph_step_name,
    .collection_item = graph_collection_item, .add_to_collection = graph_add_to_collection, .default_op = graph_default_op,
    .variable = graph_variable, .state = graph_state, .graph_def = graph_graph_def, .open = graph_session_open,
    .run = graph_session_run, .close = graph_session_close, .read_variable = graph_read_variable,
    .write_variable = graph_write_variable, .global_step = graph_read_step, .advance_step = graph_advance_step,
    .guard = graph_guard, .lend_variable = graph_lend_variable, .fork = hs__graph_session_fork,
    .lend_value = graph_lend_value, .collective_op = hs__graph_collective_op);

/* The backend of a graph that is NULL. Opening a session on it reports the error. */

static hs_code no_graph_status(void *self, hs_error *err)
{
    (void)self;
    return hs_graph_error(NULL, err);
}

static hs_code no_graph_find(void *self, const char *name, hs_node *node, hs_error *err)
{
    (void)name, (void)node;
    return no_graph_status(self, err);
}

static hs_code no_graph_open(void *self, const char *target, hs_bytes config, void **session, hs_error *err)
{
    (void)target, (void)config, (void)session;
    return no_graph_status(self, err);
}

static hs_code no_graph_run(void *session, hs_backend_call *call, hs_error *err)
{
    (void)call;
    return no_graph_status(session, err);
}

static const hs_backend_ops no_graph_ops =
    HS_INIT(hs_backend_ops, .name = "no graph", .status = no_graph_status, .find = no_graph_find, .open = no_graph_open,
            .run = no_graph_run, .close = no_graph_status);

hs_backend hs_graph_backend(hs_graph *graph)
{
    return graph ? (hs_backend){&graph_backend_ops, graph} : (hs_backend){&no_graph_ops, NULL};
}

hs_graph *hs_graph_of(hs_backend backend)
{
    return backend.ops == &graph_backend_ops ? backend.self : NULL;
}

hs__graph_session *hs__graph_session_of(hs_backend backend, void *session)
{
    return backend.ops == &graph_backend_ops ? session : NULL;
}
