/* SPDX-License-Identifier: Apache-2.0 */
/* Summary ops of the embedded graph. */
#include "summary/graph_ops.h"

#include "summary/value.h"

#include <string.h>

/* Nodes of summaries have it before their names, so that a summary may be called as what it shows. */
#define HS__SUMMARY_SCOPE "summary/"

static void free_op(void *self)
{
    hs__summary_op *op = self;
    hs_env env = op->env;
    pthread_mutex_destroy(&op->lock);
    hs_summary_free(op->summary);
    hs_host_copy_free(&op->copy);
    hs__free(&env, op->tag);
    hs__free(&env, op);
}

/* Gives the Summary from memory of the session's. */
static hs_code give(hs_op *op, hs_string summary, hs_error *err)
{
    hs_string *given = hs_op_memory(op, 0, sizeof *given + summary.bytes, err);
    if (!given)
        return HS_RESOURCE_EXHAUSTED;
    *given = (hs_string){(const char *)(given + 1), summary.bytes};
    if (summary.bytes)
        memcpy(given + 1, summary.data, summary.bytes);
    const hs_tensor value = hs_tensor_of(HS_STRING, HS_SCALAR, given);
    return hs_op_set_output(op, 0, &value, err);
}

static hs_code run_summary(void *self, hs_op *op, hs_error *err)
{
    hs__summary_op *made = self;
    pthread_mutex_lock(&made->lock);
    hs_summary_clear(made->summary);
    hs_code code = made->maker->put(made, hs_op_input(op, 0), err);
    if (!code)
        code = give(op, hs_summary_serialized(made->summary), err);
    pthread_mutex_unlock(&made->lock);
    return code;
}

static hs_code check(const hs_graph *graph, const hs__summary_maker *maker, const hs_graph_summary_def *def, hs_error *err)
{
    const char *tag = def->tag ? def->tag : def->name;
    hs_code code;
    if (!maker)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "summary '%s': this hs_summary_kind does not exist", def->name);
    if (!def->tensor || !*def->tensor)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "summary '%s': tensor is missing", def->name);
    if (!*tag)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "summary '%s': tag is empty", def->name);
    if ((code = hs__check_text(tag, "the tag of a summary op", err)))
        return code;
    if (def->max_outputs < 0 || (def->sample_rate != 0 && !hs__is_sample_rate(def->sample_rate)))
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "summary '%s': max_outputs is %lld and sample_rate is %g; max_outputs must be at least 0, and "
                            "sample_rate from 1 to 1e6, or 0 for the default",
                            def->name, (long long)def->max_outputs, def->sample_rate);
    for (size_t i = 0; i < graph->n_nodes; i++) {
        const hs__graph_node *node = graph->nodes[i];
        if (node->run == run_summary && strcmp(((const hs__summary_op *)node->self)->tag, tag) == 0)
            return hs_error_set(err, HS_ALREADY_EXISTS, "summary '%s': tag '%s' already belongs to '%s'", def->name, tag,
                                node->name);
    }
    return HS_OK;
}

static hs__summary_op *new_op(const hs_graph *graph, const hs__summary_maker *maker, const hs_graph_summary_def *def)
{
    hs__summary_op *op = hs__alloc(&graph->env, 1, sizeof *op);
    if (!op)
        return NULL;
    if (pthread_mutex_init(&op->lock, NULL)) {
        hs__free(&graph->env, op);
        return NULL;
    }
    op->env = graph->env;
    op->copy.env = &op->env;
    op->maker = maker;
    op->max_outputs = def->max_outputs;
    op->sample_rate = def->sample_rate;
    op->tag = hs__strdup(&op->env, def->tag ? def->tag : def->name);
    op->summary = hs_summary_new(&op->env);
    if (op->tag && op->summary)
        return op;
    free_op(op);
    return NULL;
}

static hs_code add_op(hs_graph *graph, hs__summary_op *made, const char *name, const hs_graph_summary_def *def,
                      hs_error *err)
{
    static const char *const none[] = {NULL};
    static const hs_output_def string[] = {{.dtype = HS_STRING}, {.dtype = HS_DTYPE_NONE}};
    const hs_op_def op = HS_INIT(hs_op_def, .name = name, .type = made->maker->type, .run = run_summary, .user = made,
                                 .inputs = (const char *const[]){def->tensor, NULL}, .control_inputs = def->control_inputs,
                                 .outputs = string, .writes = none);
    hs_code code = hs__graph_add_op(graph, &op, err);
    if (code) {
        free_op(made);
        return code;
    }
    hs__graph_node *node = hs__graph_node_of(graph, name);
    node->free_self = free_op;
    node->is_summary = true;
    return HS_OK;
}

/* Under the name of its node. */
static hs_code add_named(hs_graph *graph, const hs__summary_maker *maker, const char *name, const hs_graph_summary_def *def,
                         hs_error *err)
{
    hs_code code = hs__graph_check_name(graph, "summary", name, err);
    if (code || (code = check(graph, maker, def, err)))
        return code;
    hs__summary_op *made = new_op(graph, maker, def);
    if (!made)
        return hs__no_memory(err, sizeof *made, "a summary op");
    const char *key = def->collection ? def->collection : HS_SUMMARIES;
    if ((code = add_op(graph, made, name, def, err)) || !*key)
        return code;
    return hs__graph_collect(graph, key, name, true, NULL, err);
}

static hs_code add_summary(hs_graph *graph, hs_summary_kind kind, const hs_graph_summary_def *given, hs_error *err)
{
    hs_graph_summary_def def;
    const hs__summary_maker *maker = hs__summary_maker_of(kind);
    hs_code code;
    if (!given)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_graph_add_summary: def is NULL");
    if ((code = HS_STRUCT_TAKE(hs_graph_summary_def, sample_rate, &def, given, err)))
        return code;
    if (!def.name || !*def.name)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "the name of a new summary is missing");
    char *name = hs__format(&graph->env, HS__SUMMARY_SCOPE "%s", def.name);
    if (!name)
        return hs__no_memory(err, strlen(def.name), "the name of a summary");
    code = add_named(graph, maker, name, &def, err);
    hs__free(&graph->env, name);
    return code;
}

hs_code hs_graph_add_summary(hs_graph *graph, hs_summary_kind kind, const hs_graph_summary_def *def)
{
    hs_code code = hs__graph_check_open(graph, "summary", def ? def->name : NULL);
    if (code)
        return code;
    hs_error error = {0};
    add_summary(graph, kind, def, &error);
    return hs__graph_record_error(graph, &error);
}

static hs_code add(hs_graph *graph, hs_summary_kind kind, const char *name, const char *tensor)
{
    return hs_graph_add_summary(graph, kind, HS_GRAPH_SUMMARY_DEF(.name = name, .tensor = tensor));
}

hs_code hs_graph_summary_scalar(hs_graph *graph, const char *name, const char *tensor)
{
    return add(graph, HS_SUMMARY_SCALAR, name, tensor);
}

hs_code hs_graph_summary_histogram(hs_graph *graph, const char *name, const char *tensor)
{
    return add(graph, HS_SUMMARY_HISTOGRAM, name, tensor);
}

hs_code hs_graph_summary_image(hs_graph *graph, const char *name, const char *tensor, int64_t max_outputs)
{
    return hs_graph_add_summary(graph, HS_SUMMARY_IMAGE,
                                HS_GRAPH_SUMMARY_DEF(.name = name, .tensor = tensor, .max_outputs = max_outputs));
}

hs_code hs_graph_summary_audio(hs_graph *graph, const char *name, const char *tensor, int64_t max_outputs,
                               double sample_rate)
{
    return hs_graph_add_summary(
        graph, HS_SUMMARY_AUDIO,
        HS_GRAPH_SUMMARY_DEF(.name = name, .tensor = tensor, .max_outputs = max_outputs, .sample_rate = sample_rate));
}

hs_code hs_graph_summary_text(hs_graph *graph, const char *name, const char *tensor)
{
    return add(graph, HS_SUMMARY_TEXT, name, tensor);
}

hs_code hs_graph_summary_tensor(hs_graph *graph, const char *name, const char *tensor)
{
    return add(graph, HS_SUMMARY_TENSOR, name, tensor);
}
