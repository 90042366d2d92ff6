/* SPDX-License-Identifier: Apache-2.0 */
/* TensorFlow's GraphDef and RunMetadata of the embedded graph and its runs. */
#include "backends/bare.h"

#include "run_metadata.pb-c.h"

static Hs__Pb__GraphDef *graph_def(bare *b)
{
    hs_bytes bytes;
    assert_ok(hs_backend_graph_def(hs_graph_backend(b->graph), &bytes, &b->err), &b->err);
    Hs__Pb__GraphDef *def = hs__pb__graph_def__unpack(NULL, bytes.size, bytes.data);
    assert_non_null(def);
    return def;
}

static const Hs__Pb__NodeDef *node_of(const Hs__Pb__GraphDef *def, const char *name)
{
    for (size_t i = 0; i < def->n_node; i++)
        if (strcmp(def->node[i]->name, name) == 0)
            return def->node[i];
    fail_msg("'%s' is not in the definition", name);
    return NULL;
}

static const Hs__Pb__AttrValue *attr_of(const Hs__Pb__NodeDef *node, const char *key)
{
    for (size_t i = 0; i < node->n_attr; i++)
        if (strcmp(node->attr[i]->key, key) == 0)
            return node->attr[i]->value;
    return NULL;
}

static const char *inputs_of(const Hs__Pb__NodeDef *node)
{
    static char text[256];
    text[0] = '\0';
    for (size_t i = 0; i < node->n_input; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), i ? " %s" : "%s", node->input[i]);
    return text;
}

static void add_model(bare *b)
{
    static double w, loss;
    hs_graph_placeholder(b->graph, "x", HS_FLOAT, HS_SHAPE(-1, 3));
    hs_graph_placeholder(b->graph, "y", HS_FLOAT, HS_ANY_SHAPE);
    hs_graph_variable(b->graph, "w", HS_DOUBLE, HS_SCALAR, &w);
    hs_graph_value(b->graph, "loss", HS_DOUBLE, HS_SCALAR, &loss);
    bare_op(b, .name = "pair", .outputs = HS_OUTPUTS({.dtype = HS_DOUBLE}, {.dtype = HS_INT64}));
    bare_op(b, .name = "check", .outputs = HS_OUTPUTS({.dtype = HS_INT64, .shape = HS_SHAPE(5)}));
    bare_op(b, .name = "train", .inputs = HS_NAMES("w", "pair:0", "pair:1"), .control_inputs = HS_NAMES("check"),
            .writes = HS_NAMES("w", "loss", "loss"));
}

static void nodes_and_edges_are_shown(void **state)
{
    bare *b = *state;
    add_model(b);
    Hs__Pb__GraphDef *def = graph_def(b);
    assert_int_equal(def->n_node, 7);
    assert_string_equal(node_of(def, "x")->op, "Placeholder");
    assert_string_equal(node_of(def, "w")->op, "VariableV2");
    assert_string_equal(node_of(def, "loss")->op, "Value");
    assert_string_equal(node_of(def, "train")->op, "Op");
    assert_string_equal(inputs_of(node_of(def, "train")), "w pair pair:1 loss ^check");
    hs__pb__graph_def__free_unpacked(def, NULL);
}

static void types_and_shapes_are_shown(void **state)
{
    bare *b = *state;
    add_model(b);
    Hs__Pb__GraphDef *def = graph_def(b);
    const Hs__Pb__AttrValue *shape = attr_of(node_of(def, "x"), "shape");
    assert_int_equal(attr_of(node_of(def, "x"), "dtype")->type, HS_FLOAT);
    assert_int_equal(shape->shape->n_dim, 2);
    assert_int_equal(shape->shape->dim[0]->size, -1);
    assert_int_equal(shape->shape->dim[1]->size, 3);
    assert_true(attr_of(node_of(def, "y"), "shape")->shape->unknown_rank);
    assert_int_equal(attr_of(node_of(def, "w"), "dtype")->type, HS_DOUBLE);
    hs__pb__graph_def__free_unpacked(def, NULL);
}

static void inputs_and_outputs_of_ops_are_shown(void **state)
{
    bare *b = *state;
    add_model(b);
    Hs__Pb__GraphDef *def = graph_def(b);
    const Hs__Pb__AttrValue__ListValue *shapes = attr_of(node_of(def, "check"), "_output_shapes")->list;
    const Hs__Pb__AttrValue__ListValue *in = attr_of(node_of(def, "train"), "Tin")->list;
    const Hs__Pb__AttrValue__ListValue *out = attr_of(node_of(def, "pair"), "Tout")->list;
    assert_int_equal(shapes->n_shape, 1);
    assert_int_equal(shapes->shape[0]->dim[0]->size, 5);
    assert_int_equal(out->n_type, 2);
    assert_int_equal(out->type[0], HS_DOUBLE);
    assert_int_equal(out->type[1], HS_INT64);
    assert_int_equal(in->n_type, 4); /* its inputs and the variable that it writes */
    assert_int_equal(in->type[2], HS_INT64);
    assert_int_equal(attr_of(node_of(def, "x"), "_output_shapes")->list->shape[0]->n_dim, 2);
    assert_null(attr_of(node_of(def, "train"), "_output_shapes"));
    hs__pb__graph_def__free_unpacked(def, NULL);
}

static void an_op_that_advances_the_step_is_connected_to_it(void **state)
{
    bare *b = *state;
    bare_op(b, .name = "train", .advances_step = true);
    bare_op(b, .name = "other", .advances_step = true, .writes = HS_NAMES("global_step"));
    bare_op(b, .name = "third", .advances_step = true, .inputs = HS_NAMES("global_step"));
    Hs__Pb__GraphDef *def = graph_def(b);
    assert_string_equal(inputs_of(node_of(def, "train")), "global_step");
    assert_string_equal(inputs_of(node_of(def, "other")), "global_step");
    assert_string_equal(inputs_of(node_of(def, "third")), "global_step");
    hs__pb__graph_def__free_unpacked(def, NULL);
}

static void a_group_has_control_inputs_only(void **state)
{
    bare *b = *state;
    bare_op(b, .name = "pair", .outputs = HS_OUTPUTS({.dtype = HS_DOUBLE}, {.dtype = HS_INT64}));
    bare_op(b, .name = "check");
    hs_graph_op(b->graph, .name = "all", .inputs = HS_NAMES("pair:1", "pair:0"), .control_inputs = HS_NAMES("check"));
    Hs__Pb__GraphDef *def = graph_def(b);
    assert_string_equal(node_of(def, "all")->op, "NoOp");
    assert_string_equal(inputs_of(node_of(def, "all")), "^pair ^check");
    hs__pb__graph_def__free_unpacked(def, NULL);
}

static void ops_of_the_library_are_connected_to_their_variables(void **state)
{
    bare *b = *state;
    static double w;
    hs_graph_variable(b->graph, "w", HS_DOUBLE, HS_SCALAR, &w);
    hs_graph_add_variable(
        b->graph, HS_VARIABLE_DEF(.name = "count", .dtype = HS_INT64, .shape = HS_SCALAR, .flags = HS_VARIABLE_LOCAL));
    bare_open(b);
    Hs__Pb__GraphDef *def = graph_def(b);
    assert_string_equal(node_of(def, "init")->op, "NoOp");
    assert_string_equal(inputs_of(node_of(def, "init")), "^w");
    assert_string_equal(inputs_of(node_of(def, "local_init")), "^count");
    assert_string_equal(node_of(def, "report_uninitialized_variables")->op, "NoOp");
    assert_string_equal(inputs_of(node_of(def, "report_uninitialized_variables")), "^w ^count");
    assert_string_equal(inputs_of(node_of(def, "report_uninitialized_global_variables")), "^w");
    hs__pb__graph_def__free_unpacked(def, NULL);
}

static void the_type_of_an_op_is_shown(void **state)
{
    bare *b = *state;
    char type[] = "MatMul";
    bare_op(b, .name = "product", .type = type);
    memset(type, 'x', strlen(type)); /* it was copied */
    Hs__Pb__GraphDef *def = graph_def(b);
    assert_string_equal(node_of(def, "product")->op, "MatMul");
    hs__pb__graph_def__free_unpacked(def, NULL);
}

static void an_invalid_type_is_refused(void **state)
{
    bare *b = *state;
    assert_int_equal(bare_op(b, .name = "product", .type = "mat mul"), HS_INVALID_ARGUMENT);
    assert_contains(test_graph_error(b->graph)->message, "'mat mul'");
}

static hs_code nothing(void *self, hs_op *op, hs_error *err)
{
    (void)self, (void)op, (void)err;
    return HS_OK;
}

static void add_queue(bare *b, const char *name)
{
    hs_graph_queue(b->graph, .name = name, .capacity = 7, .produce = nothing,
                   .components = HS_OUTPUTS({.dtype = HS_FLOAT, .shape = HS_SHAPE(2)}, {.dtype = HS_INT64}));
}

static void a_queue_is_shown_between_its_enqueue_and_dequeue(void **state)
{
    bare *b = *state;
    add_queue(b, "in");
    Hs__Pb__GraphDef *def = graph_def(b);
    const Hs__Pb__NodeDef *queue = node_of(def, "in/fifo_queue");
    assert_string_equal(queue->op, "FIFOQueueV2");
    assert_int_equal(attr_of(queue, "capacity")->i, 7);
    assert_int_equal(attr_of(queue, "component_types")->list->type[1], HS_INT64);
    assert_int_equal(attr_of(queue, "shapes")->list->n_shape, 2);
    assert_string_equal(inputs_of(node_of(def, "in/enqueue")), "in/fifo_queue in/produce in/produce:1");
    assert_string_equal(node_of(def, "in/enqueue")->op, "QueueEnqueueV2");
    assert_string_equal(inputs_of(node_of(def, "in/dequeue")), "in/fifo_queue");
    assert_string_equal(node_of(def, "in/dequeue")->op, "QueueDequeueV2");
    assert_string_equal(node_of(def, "in/size")->op, "QueueSizeV2");
    assert_false(attr_of(node_of(def, "in/close"), "cancel_pending_enqueues")->b);
    assert_true(attr_of(node_of(def, "in/cancel"), "cancel_pending_enqueues")->b);
    hs__pb__graph_def__free_unpacked(def, NULL);
}

static void a_queue_filled_from_ops_is_connected_to_them(void **state)
{
    bare *b = *state;
    bare_op(b, .name = "pair", .outputs = HS_OUTPUTS({.dtype = HS_DOUBLE}, {.dtype = HS_INT64}));
    hs_graph_queue(b->graph, .name = "in", .inputs = HS_NAMES("pair:1"), .components = HS_OUTPUTS({.dtype = HS_INT64}),
                   .threads = HS_NEVER);
    Hs__Pb__GraphDef *def = graph_def(b);
    assert_string_equal(inputs_of(node_of(def, "in/enqueue")), "in/fifo_queue pair:1");
    hs__pb__graph_def__free_unpacked(def, NULL);
}

static void nodes_added_to_the_graph_def_get_unused_names(void **state)
{
    bare *b = *state;
    add_queue(b, "in");
    bare_op(b, .name = "in/produce");
    bare_op(b, .name = "in/fifo_queue");
    bare_op(b, .name = "in/fifo_queue_1");
    Hs__Pb__GraphDef *def = graph_def(b);
    assert_string_equal(inputs_of(node_of(def, "in/enqueue")), "in/fifo_queue_2 in/produce_1 in/produce_1:1");
    hs__pb__graph_def__free_unpacked(def, NULL);
}

static hs_code define_graph(test_env *t, void *user)
{
    (void)user;
    hs_error err = {0};
    hs_bytes bytes;
    hs_graph *graph = hs_graph_new(&t->env);
    hs_graph_op(graph, .name = "train", .type = "Train", .run = nothing, .advances_step = true);
    hs_graph_queue(graph, .name = "in", .produce = nothing, .components = HS_OUTPUTS({.dtype = HS_INT64}));
    hs_code code = graph ? hs_graph_error(graph, NULL) : HS_RESOURCE_EXHAUSTED;
    if (!code)
        code = hs_backend_graph_def(hs_graph_backend(graph), &bytes, &err);
    if (!code) {
        Hs__Pb__GraphDef *def = hs__pb__graph_def__unpack(NULL, bytes.size, bytes.data);
        assert_non_null(def);
        hs__pb__graph_def__free_unpacked(def, NULL);
    }
    hs_graph_free(graph);
    return code;
}

static hs_code trace_run(test_env *t, void *user)
{
    hs_error err = {0};
    (void)user;
    hs_graph *graph = hs_graph_new(&t->env);
    hs_graph_op(graph, .name = "train", .run = nothing, .outputs = HS_OUTPUTS({.dtype = HS_INT64}));
    hs_backend backend = hs_graph_backend(graph);
    void *session = NULL;
    hs_node node;
    hs_tensor value;
    hs_run_options options = HS_INIT(hs_run_options, .trace_level = HS_TRACE_FULL);
    hs_backend_call call = {.size = sizeof call, .fetches = &node, .n_fetches = 1, .options = &options, .values = &value};
    hs_code code = backend.ops->open(backend.self, "", (hs_bytes){NULL, 0}, &session, &err);
    if (!code && !(code = hs_backend_find(backend, "train", &node, &err)) &&
        !(code = backend.ops->run(session, &call, &err))) {
        Hs__Pb__RunMetadata *metadata = hs__pb__run_metadata__unpack(NULL, call.metadata.size, call.metadata.data);
        assert_non_null(metadata);
        assert_int_equal(metadata->step_stats->dev_stats[0]->n_node_stats, 1);
        hs__pb__run_metadata__free_unpacked(metadata, NULL);
    }
    if (session)
        backend.ops->close(session, NULL);
    hs_graph_free(graph);
    return code;
}

static void every_allocation_of_metadata(void **state)
{
    (void)state;
    test_each_allocation(trace_run, NULL);
}

static void every_allocation_of_a_definition(void **state)
{
    (void)state;
    test_each_allocation(define_graph, NULL);
}

static void a_graph_def_is_made_again_after_a_node_is_added(void **state)
{
    bare *b = *state;
    bare_op(b, .name = "first");
    Hs__Pb__GraphDef *before = graph_def(b);
    bare_op(b, .name = "second");
    Hs__Pb__GraphDef *after = graph_def(b);
    assert_int_equal(after->n_node, before->n_node + 1);
    hs__pb__graph_def__free_unpacked(before, NULL);
    hs__pb__graph_def__free_unpacked(after, NULL);
}

static void an_invalid_graph_is_not_shown(void **state)
{
    bare *b = *state;
    hs_bytes bytes = {"x", 1};
    bare_op(b, .name = "a", .control_inputs = HS_NAMES("a"));
    assert_fails(hs_backend_graph_def(hs_graph_backend(b->graph), &bytes, &b->err), HS_INVALID_ARGUMENT, &b->err, "'a'");
    assert_int_equal(bytes.size, 0);
}

static hs_code wait(void *self, hs_op *op, hs_error *err)
{
    (void)op, (void)err;
    test_env_advance(self, 0.25);
    return HS_OK;
}

static Hs__Pb__RunMetadata *metadata_of(bare *b, const char *op, const hs_run_options *options)
{
    assert_ok(bare_run(b, HS_NAMES(op), NULL, options), &b->err);
    assert_true(b->metadata.size > 0);
    Hs__Pb__RunMetadata *metadata = hs__pb__run_metadata__unpack(NULL, b->metadata.size, b->metadata.data);
    assert_non_null(metadata);
    return metadata;
}

static void a_traced_run_has_the_time_of_each_op(void **state)
{
    bare *b = *state;
    hs_graph_op(b->graph, .name = "slow", .run = wait, .user = &b->t);
    bare_op(b, .name = "train", .control_inputs = HS_NAMES("slow"));
    bare_op(b, .name = "unused");
    hs_graph_op(b->graph, .name = "group", .control_inputs = HS_NAMES("train"));
    bare_open(b);
    int64_t before = b->t.now_ns;
    Hs__Pb__RunMetadata *metadata = metadata_of(b, "group", HS_RUN_OPTIONS(.trace_level = 1));
    assert_int_equal(metadata->step_stats->n_dev_stats, 1);
    const Hs__Pb__DeviceStepStats *device = metadata->step_stats->dev_stats[0];
    assert_contains(device->device, "CPU:0");
    assert_int_equal(device->n_node_stats, 2); /* without the group, which has no function, and "unused" */
    assert_string_equal(device->node_stats[0]->node_name, "slow");
    assert_int_equal(device->node_stats[0]->all_start_nanos, before);
    assert_int_equal(device->node_stats[0]->all_start_micros, before / 1000);
    assert_int_equal(device->node_stats[0]->all_end_rel_nanos, 250000000);
    assert_int_equal(device->node_stats[0]->op_end_rel_micros, 250000);
    assert_int_equal(device->node_stats[1]->all_start_nanos, before + 250000000);
    assert_int_equal(device->node_stats[1]->all_end_rel_nanos, 0);
    assert_int_equal(device->node_stats[1]->all_end_rel_micros, 1); /* TensorBoard shows 0 as not executed */
    assert_int_equal(metadata->n_partition_graphs, 0);
    hs__pb__run_metadata__free_unpacked(metadata, NULL);
}

static const Hs__Pb__NodeExecStats *stats_of(const Hs__Pb__RunMetadata *metadata, const char *name)
{
    const Hs__Pb__DeviceStepStats *device = metadata->step_stats->dev_stats[0];
    for (size_t i = 0; i < device->n_node_stats; i++)
        if (strcmp(device->node_stats[i]->node_name, name) == 0)
            return device->node_stats[i];
    return NULL;
}

static void a_traced_run_has_the_memory_of_each_output(void **state)
{
    bare *b = *state;
    static float w[6], unused;
    hs_graph_variable(b->graph, "w", HS_FLOAT, HS_SHAPE(2, 3), w);
    hs_graph_variable(b->graph, "unused", HS_FLOAT, HS_SCALAR, &unused);
    bare_op(b, .name = "train", .inputs = HS_NAMES("w"),
            .outputs = HS_OUTPUTS({.dtype = HS_DOUBLE, .shape = HS_SHAPE(5)}, {.dtype = HS_INT32}));
    bare_open(b);
    Hs__Pb__RunMetadata *metadata = metadata_of(b, "train", HS_RUN_OPTIONS(.trace_level = 1));
    const Hs__Pb__NodeExecStats *train = stats_of(metadata, "train"), *variable = stats_of(metadata, "w");
    assert_int_equal(train->memory[0]->total_bytes, 5 * 8 + 4);
    assert_string_equal(train->memory[0]->allocator_name, "cpu");
    assert_int_equal(train->n_output, 2);
    assert_int_equal(train->output[1]->slot, 1);
    assert_int_equal(train->output[0]->tensor_description->shape->dim[0]->size, 5);
    assert_int_equal(train->output[1]->tensor_description->dtype, HS_INT32);
    assert_int_equal(variable->memory[0]->total_bytes, 6 * 4);
    assert_int_equal(variable->all_start_micros, 0); /* not an op */
    assert_null(stats_of(metadata, "unused"));
    hs__pb__run_metadata__free_unpacked(metadata, NULL);
}

static void the_graph_of_a_run_is_shown_on_demand(void **state)
{
    bare *b = *state;
    bare_op(b, .name = "train");
    bare_open(b);
    Hs__Pb__RunMetadata *metadata = metadata_of(b, "train", HS_RUN_OPTIONS(.output_partition_graphs = true));
    assert_null(metadata->step_stats);
    assert_int_equal(metadata->n_partition_graphs, 1);
    assert_string_equal(node_of(metadata->partition_graphs[0], "train")->op, "Op");
    hs__pb__run_metadata__free_unpacked(metadata, NULL);
}

static void a_run_can_have_stats_and_graph(void **state)
{
    bare *b = *state;
    bare_op(b, .name = "train");
    bare_open(b);
    hs_run_options options = HS_INIT(hs_run_options, .trace_level = HS_TRACE_FULL, .output_partition_graphs = true);
    for (int i = 0; i < 2; i++) { /* the second result is the same */
        Hs__Pb__RunMetadata *metadata = metadata_of(b, "train", &options);
        assert_int_equal(metadata->step_stats->dev_stats[0]->n_node_stats, 1);
        assert_int_equal(metadata->n_partition_graphs, 1);
        hs__pb__run_metadata__free_unpacked(metadata, NULL);
    }
}

static void a_run_without_options_has_no_metadata(void **state)
{
    bare *b = *state;
    bare_op(b, .name = "train");
    bare_open(b);
    hs_run_options options = HS_INIT(hs_run_options, .timeout_secs = 1);
    hs__pb__run_metadata__free_unpacked(metadata_of(b, "train", HS_RUN_OPTIONS(.trace_level = 1)), NULL);
    assert_ok(bare_run(b, HS_NAMES("train"), NULL, &options), &b->err);
    assert_int_equal(b->metadata.size, 0);
    assert_ok(bare_run(b, HS_NAMES("train"), NULL, NULL), &b->err);
    assert_int_equal(b->metadata.size, 0);
}

#define test(name) cmocka_unit_test_setup_teardown(name, bare_setup, bare_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(nodes_and_edges_are_shown),
        test(types_and_shapes_are_shown),
        test(inputs_and_outputs_of_ops_are_shown),
        test(an_op_that_advances_the_step_is_connected_to_it),
        test(a_group_has_control_inputs_only),
        test(ops_of_the_library_are_connected_to_their_variables),
        test(the_type_of_an_op_is_shown),
        test(an_invalid_type_is_refused),
        test(a_queue_is_shown_between_its_enqueue_and_dequeue),
        test(a_queue_filled_from_ops_is_connected_to_them),
        test(nodes_added_to_the_graph_def_get_unused_names),
        test(a_traced_run_has_the_memory_of_each_output),
        cmocka_unit_test(every_allocation_of_a_definition),
        cmocka_unit_test(every_allocation_of_metadata),
        test(a_graph_def_is_made_again_after_a_node_is_added),
        test(an_invalid_graph_is_not_shown),
        test(a_traced_run_has_the_time_of_each_op),
        test(the_graph_of_a_run_is_shown_on_demand),
        test(a_run_can_have_stats_and_graph),
        test(a_run_without_options_has_no_metadata),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
