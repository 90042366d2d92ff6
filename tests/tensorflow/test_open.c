/* SPDX-License-Identifier: Apache-2.0 */
/* Opening graphs: formats of files, their contents, and refused files. */
#include "tensorflow/graphs.h"

static size_t count_variables(hs_backend backend, uint64_t local)
{
    hs_variable variable;
    size_t n = 0;
    for (size_t i = 0; hs_backend_variable(backend, i, &variable); i++)
        n += (variable.flags & HS_VARIABLE_LOCAL) == local;
    return n;
}

static bool find_variable(hs_backend backend, const char *name, hs_variable *variable)
{
    for (size_t i = 0; hs_backend_variable(backend, i, variable); i++)
        if (strcmp(variable->name, name) == 0)
            return true;
    return false;
}

static void is_right(hs_backend backend, bool has_collections)
{
    hs_variable w;
    hs_error err = {0};
    hs_node node;
    assert_int_equal(count_variables(backend, 0) + count_variables(backend, HS_VARIABLE_LOCAL), 7);
    assert_int_equal(count_variables(backend, HS_VARIABLE_LOCAL), has_collections);
    assert_string_equal(hs_backend_global_step_name(backend), "global_step");
    assert_true(find_variable(backend, "layer/w", &w));
    assert_int_equal(w.dtype, HS_FLOAT);
    assert_true(hs_shape_equal(&w.shape, &HS_SHAPE(3, 1)));
    assert_ok(hs_backend_find(backend, "train_op", &node, &err), &err);
    assert_ok(hs_backend_find(backend, "loss:0", &node, &err), &err);
    assert_int_equal(node.output, 0);
}

static void looks_right(const char *file, bool has_collections)
{
    hs_backend backend = open_graph(file);
    is_right(backend, has_collections);
    hs_tensorflow_free(backend);
}

static void a_meta_graph_is_read(void **state)
{
    (void)state;
    looks_right("ref.meta", true);
    looks_right("resource.meta", true);
}

static void text_is_read(void **state)
{
    (void)state;
    looks_right("ref.pbtxt", true);
    looks_right("resource.pbtxt", true);
}

static void a_graph_without_collections_is_read(void **state)
{
    (void)state;
    looks_right("ref.pb", false);
    looks_right("resource.pb", false);
}

static void bytes_are_read(void **state)
{
    (void)state;
    hs_error err = {0};
    FILE *file = fopen(graph_path("ref.meta"), "rb");
    static char data[1 << 20];
    assert_non_null(file);
    size_t bytes = fread(data, 1, sizeof data, file);
    fclose(file);
    hs_backend backend;
    const hs_bytes graph = {data, bytes};
    assert_clears(&err, backend = hs_tensorflow_open_bytes(graph, NULL, &err));
    memset(data, 0, bytes);
    assert_int_equal(count_variables(backend, 0), 6);
    hs_tensorflow_free(backend);
}

static void the_collections_are_there(void **state)
{
    (void)state;
    hs_backend backend = open_graph("resource.meta");
    const void *item;
    hs_bytes bytes;
    const char *const keys[] = {HS_INIT_OP,    HS_LOCAL_INIT_OP, HS_READY_OP, HS_READY_FOR_LOCAL_INIT_OP,
                                HS_SUMMARY_OP, HS_SUMMARIES,     HS_SAVERS};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        assert_int_equal(test_collection_size(backend, keys[i]), 1);
        assert_true(hs_backend_collection_item(backend, keys[i], 0, &item));
        assert_non_null(item);
    }
    assert_true(hs_tensorflow_collection_item(backend, "variables", 0, &bytes));
    assert_true(hs_tensorflow_collection_item(backend, HS_SAVERS, 0, &bytes));
    assert_false(hs_tensorflow_collection_item(backend, "variables", 6, &bytes));
    assert_false(hs_tensorflow_collection_item(backend, "no such", 0, &bytes));
    hs_tensorflow_free(backend);
}

static void the_graph_is_shown(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_bytes graph;
    hs_backend backend = open_graph("ref.pb");
    assert_ok(hs_backend_graph_def(backend, &graph, &err), &err);
    hs_backend again = hs_tensorflow_open_bytes(graph, NULL, &err);
    assert_ok(err.code, &err);
    is_right(again, false);
    hs_tensorflow_free(again);
    hs_tensorflow_free(backend);
}

/* Opening returns the error, and each use of the backend returns it again. */
static void refused(const char *file, hs_code code, const char *text)
{
    hs_error err = {0};
    hs_node node;
    hs_bytes graph;
    hs_backend backend = hs_tensorflow_open(file ? graph_path(file) : NULL, NULL, &err);
    assert_says(&err, code, text);
    assert_non_null(backend.ops);
    assert_fails(hs_backend_find(backend, "x", &node, &err), code, &err, text);
    assert_fails(hs_backend_graph_def(backend, &graph, &err), code, &err, text);
    assert_null(hs_session_open(backend, NULL, &err));
    assert_says(&err, code, text);
    hs_tensorflow_free(backend);
}

static void bad_files_are_refused(void **state)
{
    (void)state;
    refused("no_such_file.meta", HS_NOT_FOUND, "no_such_file.meta");
    refused(NULL, HS_INVALID_ARGUMENT, "path is missing");
    refused("empty.meta", HS_INVALID_ARGUMENT, "neither a MetaGraphDef nor a GraphDef");
    refused("noise.meta", HS_INVALID_ARGUMENT, "neither a MetaGraphDef nor a GraphDef");
    refused("saved_model.pb", HS_INVALID_ARGUMENT, "a SavedModel");
    refused("words.meta", HS_INVALID_ARGUMENT, "words.meta");
    refused("cut.meta", HS_INVALID_ARGUMENT, "cut.meta");
    refused("wrong.pbtxt", HS_INVALID_ARGUMENT, "line 1");
    refused("bad_variable.meta", HS_DATA_LOSS, "variables");
}

static void an_op_that_the_library_lacks_is_named(void **state)
{
    (void)state;
    refused("unknown_op.pbtxt", HS_NOT_FOUND, "NoSuchOp");
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_tensorflow_free(hs_tensorflow_open_bytes((hs_bytes){NULL, 0}, NULL, &err));
    assert_says(&err, HS_INVALID_ARGUMENT, "no bytes");
    hs_tensorflow_free(hs_tensorflow_open(graph_path("ref.meta"), &(hs_tensorflow_options){.size = 0}, &err));
    assert_says(&err, HS_INVALID_ARGUMENT, "HS_INIT(hs_tensorflow_options");
    hs_tensorflow_free(hs_tensorflow_open(graph_path("ref.meta"), HS_TENSORFLOW_OPTIONS(.config = {NULL, 3}), &err));
    assert_says(&err, HS_INVALID_ARGUMENT, "config");
    hs_tensorflow_free((hs_backend){NULL, NULL});
    hs_tensorflow_free(hs_tensorflow_open(graph_path("no_such_file.meta"), NULL, NULL));
    assert_false(hs_tensorflow_collection_item((hs_backend){NULL, NULL}, "x", 0, NULL));
}

static void a_configuration_that_makes_no_sense_is_refused(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_backend backend = open_graph("ref.meta");
    assert_null(hs_session_open(backend, HS_SESSION_OPTIONS(.config = {"\xff\xff", 2}), &err));
    assert_says(&err, HS_INVALID_ARGUMENT, "onfig");
    assert_null(hs_session_open(backend, HS_SESSION_OPTIONS(.target = "nowhere://x"), &err));
    assert_int_not_equal(err.code, HS_OK);
    hs_tensorflow_free(backend);
}

static void a_name_that_is_not_there_suggests_the_nearest(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_node node;
    hs_backend backend = open_graph("ref.meta");
    assert_fails(hs_backend_find(backend, "train_opp", &node, &err), HS_NOT_FOUND, &err, "'train_op'");
    assert_fails(hs_backend_find(backend, "los:0", &node, &err), HS_NOT_FOUND, &err, "'loss'");
    assert_fails(hs_backend_find(backend, "w", &node, &err), HS_NOT_FOUND, &err, "'layer/w'");
    assert_fails(hs_backend_find(backend, "summaries", &node, &err), HS_NOT_FOUND, &err, "did you mean 'loss_summary:0'");
    assert_fails(hs_backend_find(backend, "loss:3", &node, &err), HS_NOT_FOUND, &err, "1 output");
    assert_fails(hs_backend_find(backend, "quite another thing", &node, &err), HS_NOT_FOUND, &err, "not in the graph");
    assert_null(strstr(err.message, "did you mean"));
    hs_tensorflow_free(backend);
}

/* Like an optimizer's slot if only the ops of a step were exported. */
static const char unread[] =
    "node { name: 'v' op: 'VarHandleOp' attr { key: 'dtype' value { type: DT_FLOAT } }"
    " attr { key: 'shape' value { shape { dim { size: 2 } } } } attr { key: 'shared_name' value { s: 'v' } } }"
    "node { name: 'one' op: 'Const' attr { key: 'dtype' value { type: DT_FLOAT } } attr { key: 'value' value {"
    " tensor { dtype: DT_FLOAT tensor_shape { dim { size: 2 } } float_val: 1 } } } }"
    "node { name: 'v/Assign' op: 'AssignVariableOp' input: 'v' input: 'one' attr { key: 'dtype' value { type: DT_FLOAT } } }";

static void a_variable_that_nothing_reads_is_one(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_variable variable;
    hs_tensor value;
    hs_backend backend = hs_tensorflow_open_bytes((hs_bytes){unread, sizeof unread - 1}, NULL, &err);
    assert_ok(err.code, &err);
    assert_true(hs_backend_variable(backend, 0, &variable));
    assert_string_equal(variable.name, "v");
    assert_int_equal(variable.dtype, HS_FLOAT);
    assert_int_equal(hs_shape_elements(&variable.shape), 2);
    assert_false(hs_backend_variable(backend, 1, &variable));
    hs_session *session = hs_session_open(backend, NULL, &err);
    assert_ok(err.code, &err);
    const hs_run_values *values;
    assert_ok(hs_session_run_args(session, HS_RUN_ARGS(.names = HS_NAMES("v")), &values, &err), &err);
    value = *hs_run_values_tensor(values, 0);
    assert_true(((const float *)value.data)[1] == 1);
    hs_session_close(session, &err);
    hs_tensorflow_free(backend);
}

/* intra_op_parallelism_threads -5: TensorFlow would end the process. */
static const unsigned char fewer_than_none[] = {0x10, 0xfb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01};

static void an_invalid_configuration_is_refused(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_bytes config = {fewer_than_none, sizeof fewer_than_none};
    hs_backend backend = open_graph("resource.meta");
    hs_session_options options = HS_INIT(hs_session_options, .config = config);
    assert_null(hs_session_open(backend, &options, &err));
    assert_fails(err.code, HS_INVALID_ARGUMENT, &err, "intra_op_parallelism_threads is -5");
    options.config = (hs_bytes){"\xff\xff", 2};
    assert_null(hs_session_open(backend, &options, &err));
    assert_fails(err.code, HS_INVALID_ARGUMENT, &err, "config is not a serialized ConfigProto");
    hs_tensorflow_free(backend);
    hs_tensorflow_server_options server =
        HS_INIT(hs_tensorflow_server_options, .cluster = "alone=127.0.0.1:0", .config = config);
    assert_null(hs_tensorflow_server_start(&server, &err));
    assert_fails(err.code, HS_INVALID_ARGUMENT, &err, "intra_op_parallelism_threads is -5");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_variable_that_nothing_reads_is_one),
        cmocka_unit_test(an_invalid_configuration_is_refused),
        cmocka_unit_test(a_meta_graph_is_read),
        cmocka_unit_test(text_is_read),
        cmocka_unit_test(a_graph_without_collections_is_read),
        cmocka_unit_test(bytes_are_read),
        cmocka_unit_test(the_collections_are_there),
        cmocka_unit_test(the_graph_is_shown),
        cmocka_unit_test(bad_files_are_refused),
        cmocka_unit_test(an_op_that_the_library_lacks_is_named),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(a_configuration_that_makes_no_sense_is_refused),
        cmocka_unit_test(a_name_that_is_not_there_suggests_the_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
