/* SPDX-License-Identifier: Apache-2.0 */
/* Summary ops of the embedded graph. */
#include <hooksess/graph_summary.h>
#include <hooksess/summary_values.h>

#include "backends/graph/graph.h"
#include "summary/value.h"

#include <pthread.h>
#include <string.h>

/* Prefix of the nodes of summaries, so that a summary may have the name of the tensor that it shows. */
#define HS__SUMMARY_SCOPE "summary/"

typedef struct summary_op summary_op;

/* A kind of summary. */
typedef struct {
    const char *type; /* of its ops */
    /* Adds the value of a tensor to the op's Summary. */
    hs_code (*put)(summary_op *op, const hs_tensor *value, hs_error *err);
} summary_kind;

/* The state of a summary op. Its node owns it. The op encodes its Summary here and copies it into the session's memory.
 * Threads that fill queues may run the op concurrently with the session. */
struct summary_op {
    hs_env env;
    pthread_mutex_t lock;
    hs_summary *summary;
    hs_host_copy copy; /* of a tensor in a device's memory */
    const summary_kind *kind;
    char *tag;
    int64_t max_outputs;
    double sample_rate;
};

/* Values. */

static bool is_number(hs_dtype dtype)
{
    return dtype != HS_STRING && dtype != HS_COMPLEX64 && dtype != HS_COMPLEX128;
}

static hs_code put_scalar(summary_op *op, const hs_tensor *value, hs_error *err)
{
    hs_tensor host;
    char text[HS_SHAPE_TEXT_SIZE];
    hs_shape shape = hs_tensor_shape(value);
    if (!is_number(value->dtype) || hs_shape_elements(&shape) != 1)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "a scalar must be one number, but the tensor is %s %s",
                            hs_dtype_name(value->dtype), hs_shape_text(&shape, text, sizeof text));
    hs_code code = hs_tensor_host(value, &op->copy, &host, err);
    return code ? code : hs_summary_scalar(op->summary, op->tag, hs_tensor_number(&host, 0), err);
}

static hs_code put_histogram(summary_op *op, const hs_tensor *value, hs_error *err)
{
    return hs_summary_histogram(op->summary, op->tag, value, err);
}

static hs_code put_image(summary_op *op, const hs_tensor *value, hs_error *err)
{
    const hs_image_options options = HS_INIT(hs_image_options, .max_outputs = op->max_outputs);
    return hs_summary_image(op->summary, op->tag, value, &options, err);
}

static hs_code put_audio(summary_op *op, const hs_tensor *value, hs_error *err)
{
    const hs_audio_options options =
        HS_INIT(hs_audio_options, .max_outputs = op->max_outputs, .sample_rate = op->sample_rate);
    return hs_summary_audio(op->summary, op->tag, value, &options, err);
}

static hs_code put_text(summary_op *op, const hs_tensor *value, hs_error *err)
{
    return hs_summary_text_tensor(op->summary, op->tag, value, err);
}

static hs_code put_tensor(summary_op *op, const hs_tensor *value, hs_error *err)
{
    return hs_summary_tensor(op->summary, op->tag, value, NULL, err);
}

/* Graph viewers place an op whose type ends in "Summary" next to its input. NULL: `kind` is not an hs_summary_kind. */
static const summary_kind *find_kind(hs_summary_kind kind)
{
    static const summary_kind kinds[] = {
        [HS_SUMMARY_SCALAR] = {"ScalarSummary", put_scalar}, [HS_SUMMARY_HISTOGRAM] = {"HistogramSummary", put_histogram},
        [HS_SUMMARY_IMAGE] = {"ImageSummary", put_image},    [HS_SUMMARY_AUDIO] = {"AudioSummary", put_audio},
        [HS_SUMMARY_TEXT] = {"TextSummary", put_text},       [HS_SUMMARY_TENSOR] = {"TensorSummary", put_tensor},
    };
    size_t index = (size_t)kind;
    return index < sizeof kinds / sizeof *kinds && kinds[index].put ? &kinds[index] : NULL;
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

/* Copies the Summary into the session's memory. */
static hs_code set_output(hs_op *op, hs_string summary, hs_error *err)
{
    hs_string *copy = hs_op_memory(op, 0, sizeof *copy + summary.bytes, err);
    if (!copy)
        return HS_RESOURCE_EXHAUSTED;
    *copy = (hs_string){(const char *)(copy + 1), summary.bytes};
    if (summary.bytes)
        memcpy(copy + 1, summary.data, summary.bytes);
    const hs_tensor value = hs_tensor_of(HS_STRING, HS_SCALAR, copy);
    return hs_op_set_output(op, 0, &value, err);
}

static hs_code run_summary(void *self, hs_op *op, hs_error *err)
{
    summary_op *made = self;
    pthread_mutex_lock(&made->lock);
    hs_summary_clear(made->summary);
    hs_code code = made->kind->put(made, hs_op_input(op, 0), err);
    if (!code)
        code = set_output(op, hs_summary_serialized(made->summary), err);
    pthread_mutex_unlock(&made->lock);
    return code;
}

static hs_code check(const hs_graph *graph, const summary_kind *kind, const hs_graph_summary_def *def, hs_error *err)
{
    const char *tag = def->tag ? def->tag : def->name;
    hs_code code;
    if (!kind)
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

static summary_op *new_op(const hs_graph *graph, const summary_kind *kind, const hs_graph_summary_def *def)
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

static hs_code add_op(hs_graph *graph, summary_op *made, const char *name, const hs_graph_summary_def *def, hs_error *err)
{
    static const char *const none[] = {NULL};
    static const hs_output_def string[] = {{.dtype = HS_STRING}, {.dtype = HS_DTYPE_NONE}};
    const hs_op_def op = HS_INIT(hs_op_def, .name = name, .type = made->kind->type, .run = run_summary, .user = made,
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

/* Adds the node `name`. */
static hs_code add_named(hs_graph *graph, const summary_kind *kind, const char *name, const hs_graph_summary_def *def,
                         hs_error *err)
{
    hs_code code = hs__graph_check_name(graph, "summary", name, err);
    if (code || (code = check(graph, kind, def, err)))
        return code;
    summary_op *made = new_op(graph, kind, def);
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
    const summary_kind *found = find_kind(kind);
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
    code = add_named(graph, found, name, &def, err);
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
