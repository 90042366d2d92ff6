/* SPDX-License-Identifier: Apache-2.0 */
/* Summary ops of the embedded graph. hs_graph_add_summary adds an op, whose run_summary encodes the value of its input
 * (put_value) and outputs the Summary. */
#include <hooksess/graph_summary.h>
#include <hooksess/summary_values.h>

#include "backends/graph/graph.h"
#include "summary/value.h"

#include <pthread.h>
#include <string.h>

/* Prefix of the nodes of summaries, so that a summary may have the name of the tensor that it shows. */
#define HS__SUMMARY_SCOPE "summary/"

/* The state of a summary op. Its node owns it. The op encodes its Summary here and copies it into the session's memory.
 * Threads that fill queues may run the op concurrently with the session. */
typedef struct {
    hs_env env;
    pthread_mutex_t lock;
    hs_summary *summary;
    hs_host_copy copy; /* of a tensor in a device's memory */
    hs_summary_kind kind;
    char *tag;
    int64_t max_outputs;
    double sample_rate;
} summary_op;

/* The types of ops, by kind. Graph viewers place an op whose type ends in "Summary" next to its input. */
static const char *const types[] = {
    [HS_SUMMARY_SCALAR] = "ScalarSummary", [HS_SUMMARY_HISTOGRAM] = "HistogramSummary",
    [HS_SUMMARY_IMAGE] = "ImageSummary",   [HS_SUMMARY_AUDIO] = "AudioSummary",
    [HS_SUMMARY_TEXT] = "TextSummary",     [HS_SUMMARY_TENSOR] = "TensorSummary",
};

static hs_code put_scalar(summary_op *op, const hs_tensor *value, hs_error *err)
{
    hs_tensor host;
    char text[HS_SHAPE_TEXT_SIZE];
    hs_shape shape = hs_tensor_shape(value);
    bool is_number = value->dtype != HS_STRING && value->dtype != HS_COMPLEX64 && value->dtype != HS_COMPLEX128;
    if (!is_number || hs_shape_elements(&shape) != 1)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "a scalar must be one number, but the tensor is %s %s",
                            hs_dtype_name(value->dtype), hs_shape_text(&shape, text, sizeof text));
    hs_code code = hs_tensor_host(value, &op->copy, &host, err);
    return code ? code : hs_summary_scalar(op->summary, op->tag, hs_tensor_number(&host, 0), err);
}

/* Adds the value of a tensor to the op's Summary. */
static hs_code put_value(summary_op *op, const hs_tensor *value, hs_error *err)
{
    const hs_image_options image = HS_INIT(hs_image_options, .max_outputs = op->max_outputs);
    const hs_audio_options audio =
        HS_INIT(hs_audio_options, .max_outputs = op->max_outputs, .sample_rate = op->sample_rate);
    switch (op->kind) {
    case HS_SUMMARY_SCALAR:
        return put_scalar(op, value, err);
    case HS_SUMMARY_HISTOGRAM:
        return hs_summary_histogram(op->summary, op->tag, value, err);
    case HS_SUMMARY_IMAGE:
        return hs_summary_image(op->summary, op->tag, value, &image, err);
    case HS_SUMMARY_AUDIO:
        return hs_summary_audio(op->summary, op->tag, value, &audio, err);
    case HS_SUMMARY_TEXT:
        return hs_summary_text_tensor(op->summary, op->tag, value, err);
    default:
        return hs_summary_tensor(op->summary, op->tag, value, NULL, err);
    }
}

/* The op. */

static void free_op(void *self)
{
    summary_op *op = self;
    hs_env env = op->env;
    pthread_mutex_destroy(&op->lock);
    hs_summary_free(op->summary);
    hs_host_copy_free(&op->copy);
    hs__free(&env, op->tag);
    hs__free(&env, op);
}

static hs_code run_summary(void *self, hs_op *op, hs_error *err)
{
    summary_op *made = self;
    const hs__graph_node *input = op->node->inputs[0].node;
    const bool skips = input->kind == HS__VALUE && hs__graph_is_outdated(op, input);
    pthread_mutex_lock(&made->lock);
    hs_summary_clear(made->summary);
    hs_code code = skips ? HS_OK : put_value(made, hs_op_input(op, 0), err);
    hs_string summary = hs_summary_serialized(made->summary), *copy = NULL;
    if (!code && !(copy = hs_op_memory(op, 0, sizeof *copy + summary.bytes, err)))
        code = HS_RESOURCE_EXHAUSTED;
    if (!code) {
        *copy = (hs_string){(const char *)(copy + 1), summary.bytes};
        if (summary.bytes)
            memcpy(copy + 1, summary.data, summary.bytes);
        const hs_tensor value = hs_tensor_of(HS_STRING, HS_SCALAR, copy);
        code = hs_op_set_output(op, 0, &value, err);
    }
    pthread_mutex_unlock(&made->lock);
    return code;
}

static hs_code check(const hs_graph *graph, hs_summary_kind kind, const hs_graph_summary_def *def, hs_error *err)
{
    const char *tag = def->tag ? def->tag : def->name;
    hs_code code;
    if ((size_t)kind >= sizeof types / sizeof *types || !types[kind])
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
        if (node->run == run_summary && strcmp(((const summary_op *)node->self)->tag, tag) == 0)
            return hs_error_set(err, HS_ALREADY_EXISTS, "summary '%s': tag '%s' already belongs to '%s'", def->name, tag,
                                node->name);
    }
    return HS_OK;
}

static summary_op *new_op(const hs_graph *graph, hs_summary_kind kind, const hs_graph_summary_def *def)
{
    summary_op *op = hs__alloc(&graph->env, 1, sizeof *op);
    if (!op)
        return NULL;
    if (pthread_mutex_init(&op->lock, NULL)) {
        hs__free(&graph->env, op);
        return NULL;
    }
    op->env = graph->env;
    op->copy.env = &op->env;
    op->kind = kind;
    op->max_outputs = def->max_outputs;
    op->sample_rate = def->sample_rate;
    op->tag = hs__strdup(&op->env, def->tag ? def->tag : def->name);
    op->summary = hs_summary_new(&op->env);
    if (op->tag && op->summary)
        return op;
    free_op(op);
    return NULL;
}

/* Adds the node `name`. */
static hs_code add_node(hs_graph *graph, hs_summary_kind kind, const char *name, const hs_graph_summary_def *def,
                        hs_error *err)
{
    static const char *const none[] = {NULL};
    static const hs_output_def string[] = {{.dtype = HS_STRING}, {.dtype = HS_DTYPE_NONE}};
    hs_code code = hs__graph_check_name(graph, "summary", name, err);
    if (code || (code = check(graph, kind, def, err)))
        return code;
    summary_op *made = new_op(graph, kind, def);
    if (!made)
        return hs__no_memory(err, sizeof *made, "a summary op");
    const hs_op_def op = HS_INIT(hs_op_def, .name = name, .type = types[kind], .run = run_summary, .user = made,
                                 .inputs = (const char *const[]){def->tensor, NULL}, .control_inputs = def->control_inputs,
                                 .outputs = string, .writes = none);
    if ((code = hs__graph_add_op(graph, &op, err))) {
        free_op(made);
        return code;
    }
    hs__graph_node *node = hs__graph_node_of(graph, name);
    node->free_self = free_op;
    node->is_summary = true;
    const char *key = def->collection ? def->collection : HS_SUMMARIES;
    return *key ? hs__graph_collect(graph, key, name, true, NULL, err) : HS_OK;
}

static hs_code add_summary(hs_graph *graph, hs_summary_kind kind, const hs_graph_summary_def *given, hs_error *err)
{
    hs_graph_summary_def def;
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
    code = add_node(graph, kind, name, &def, err);
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
