/* SPDX-License-Identifier: Apache-2.0 */
/* What the graph and its runs say of themselves in TensorFlow's messages. */
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
            .writes = HS_NAMES("w", "loss"));
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
    assert_int_equal(attr_of(node_of(def, "check"), "dtype")->type, HS_INT64);
    assert_int_equal(attr_of(node_of(def, "check"), "shape")->shape->dim[0]->size, 5);
    assert_null(attr_of(node_of(def, "pair"), "dtype")); /* it has two */
    hs__pb__graph_def__free_unpacked(def, NULL);
}

static void a_graph_that_grew_is_shown_anew(void **state)
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

static void a_graph_that_makes_no_sense_is_not_shown(void **state)
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

static void a_traced_run_tells_how_long_each_op_took(void **state)
{
    bare *b = *state;
    hs_graph_op(b->graph, .name = "slow", .run = wait, .self = &b->t);
    bare_op(b, .name = "train", .control_inputs = HS_NAMES("slow"));
    bare_op(b, .name = "unused");
    hs_graph_op(b->graph, .name = "group", .control_inputs = HS_NAMES("train"));
    bare_open(b);
    int64_t before = b->t.now_ns;
    Hs__Pb__RunMetadata *metadata = metadata_of(b, "group", &(hs_run_options){HS_RUN_OPTIONS, .trace_level = 1});
    assert_int_equal(metadata->step_stats->n_dev_stats, 1);
    const Hs__Pb__DeviceStepStats *device = metadata->step_stats->dev_stats[0];
    assert_contains(device->device, "CPU:0");
    assert_int_equal(device->n_node_stats, 2); /* the group does nothing, "unused" was not needed */
    assert_string_equal(device->node_stats[0]->node_name, "slow");
    assert_int_equal(device->node_stats[0]->all_start_nanos, before);
    assert_int_equal(device->node_stats[0]->all_start_micros, before / 1000);
    assert_int_equal(device->node_stats[0]->all_end_rel_nanos, 250000000);
    assert_int_equal(device->node_stats[0]->op_end_rel_micros, 250000);
    assert_int_equal(device->node_stats[1]->all_start_nanos, before + 250000000);
    assert_int_equal(device->node_stats[1]->all_end_rel_micros, 0);
    assert_int_equal(metadata->n_partition_graphs, 0);
    hs__pb__run_metadata__free_unpacked(metadata, NULL);
}

static void the_graph_of_a_run_is_shown_on_demand(void **state)
{
    bare *b = *state;
    bare_op(b, .name = "train");
    bare_open(b);
    Hs__Pb__RunMetadata *metadata =
        metadata_of(b, "train", &(hs_run_options){HS_RUN_OPTIONS, .output_partition_graphs = true});
    assert_null(metadata->step_stats);
    assert_int_equal(metadata->n_partition_graphs, 1);
    assert_string_equal(node_of(metadata->partition_graphs[0], "train")->op, "Op");
    hs__pb__run_metadata__free_unpacked(metadata, NULL);
}

static void stats_and_graph_go_together(void **state)
{
    bare *b = *state;
    bare_op(b, .name = "train");
    bare_open(b);
    hs_run_options options = {HS_RUN_OPTIONS, .trace_level = HS_TRACE_FULL, .output_partition_graphs = true};
    for (int i = 0; i < 2; i++) { /* the second is as the first */
        Hs__Pb__RunMetadata *metadata = metadata_of(b, "train", &options);
        assert_int_equal(metadata->step_stats->dev_stats[0]->n_node_stats, 1);
        assert_int_equal(metadata->n_partition_graphs, 1);
        hs__pb__run_metadata__free_unpacked(metadata, NULL);
    }
}

static void a_run_that_is_not_asked_says_nothing(void **state)
{
    bare *b = *state;
    bare_op(b, .name = "train");
    bare_open(b);
    hs_run_options options = {HS_RUN_OPTIONS, .timeout_ms = 1000};
    hs__pb__run_metadata__free_unpacked(metadata_of(b, "train", &(hs_run_options){HS_RUN_OPTIONS, .trace_level = 1}), NULL);
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
        test(a_graph_that_grew_is_shown_anew),
        test(a_graph_that_makes_no_sense_is_not_shown),
        test(a_traced_run_tells_how_long_each_op_took),
        test(the_graph_of_a_run_is_shown_on_demand),
        test(stats_and_graph_go_together),
        test(a_run_that_is_not_asked_says_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
