/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs with one mistake each and their error messages, and libraries that do not exist. */
#include "tensorflow/graphs.h"

static hs_backend open_text(const char *text, const char *library, hs_error *err)
{
    return hs_tensorflow_open_bytes((hs_bytes){text, strlen(text)}, HS_TENSORFLOW_OPTIONS(.library = library), err);
}

static void refused(const char *text, hs_code code, const char *said)
{
    hs_error err = {0};
    hs_backend backend = open_text(text, NULL, &err);
    assert_says(&err, code, said);
    assert_null(strchr(err.message, '\n'));
    hs_tensorflow_free(backend);
}

/* This test must be the first: a loaded library stays loaded. */
static void a_library_that_is_not_there(void **state)
{
    (void)state;
    static const struct {
        const char *library, *root;
        hs_code code;
        const char *said;
    } cases[] = {
        {"/no/such/libtensorflow_cc.so.2", NULL, HS_NOT_FOUND, "/no/such/libtensorflow_cc.so.2"},
        {NULL, "/no/such/root", HS_NOT_FOUND, "/no/such/root/libtensorflow_cc.so.2"},
        {"/etc/passwd", NULL, HS_NOT_FOUND, "/etc/passwd"},
        {"libm.so.6", NULL, HS_FAILED_PRECONDITION, "TensorFlow's library lacks the function TF_"},
    };
    const char *kept = getenv("TENSORFLOW_ROOT");
    char *root = kept ? strdup(kept) : NULL;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hs_error err = {0};
        if (cases[i].root)
            setenv("TENSORFLOW_ROOT", cases[i].root, 1);
        hs_backend backend = open_text("node { name: 'a' op: 'NoOp' }", cases[i].library, &err);
        assert_says(&err, cases[i].code, cases[i].said);
        assert_null(hs_session_open(backend, NULL, &err));
        assert_says(&err, cases[i].code, cases[i].said);
        hs_tensorflow_free(backend);
        unsetenv("TENSORFLOW_ROOT");
        if (root)
            setenv("TENSORFLOW_ROOT", root, 1);
    }
    free(root);
    hs_error err = {0};
    hs_tensorflow_free(open_text("node { name: 'a' op: 'NoOp' }", NULL, &err));
    assert_ok(err.code, &err);
}

static void text_with_errors_names_the_line(void **state)
{
    (void)state;
    refused("node {\n  name: 'a'\n  opp: 'NoOp'\n}\n", HS_INVALID_ARGUMENT, "line 3");
    refused("# a comment\nnode {\n  name: 'a'\n", HS_INVALID_ARGUMENT, "line 4");
    refused("meta_info_def {\n}\ngraph_def {\n  node { name: 7 }\n}\n", HS_INVALID_ARGUMENT, "line 4");
    refused("node { name: 'a' op: 'NoOp' }\n]\n", HS_INVALID_ARGUMENT, "line 2");
}

static void graphs_that_tensorflow_refuses(void **state)
{
    (void)state;
    refused("node { name: 'a' op: 'Identity' input: 'b' attr { key: 'T' value { type: DT_FLOAT } } }\n"
            "node { name: 'b' op: 'Identity' input: 'a' attr { key: 'T' value { type: DT_FLOAT } } }\n",
            HS_INVALID_ARGUMENT, "cycle");
    refused("node { name: 'a' op: 'NoOp' } node { name: 'a' op: 'NoOp' }", HS_INVALID_ARGUMENT, "'a'");
    refused("node { name: 'a' op: 'Identity' input: 'missing' attr { key: 'T' value { type: DT_FLOAT } } }",
            HS_INVALID_ARGUMENT, "missing");
    refused("node { name: 'a' op: 'Placeholder' attr { key: 'dtype' value { i: 5 } } }", HS_INVALID_ARGUMENT, "dtype");
    refused("node { name: 'a' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } }\n"
            "  attr { key: 'shape' value { shape { dim { size: -7 } } } } }",
            HS_INVALID_ARGUMENT, "-7");
    refused("node { name: 'a' op: 'NoSuchOp' }", HS_NOT_FOUND, "NoSuchOp");
}

#define DIMENSIONS                                                                                                         \
    "attr { key: 'dtype' value { type: DT_FLOAT } }\n"                                                                     \
    "attr { key: 'shape' value { shape { dim { size: 2147483648 } dim { size: 1048576 } } } }"

/* The number of elements fits into an int64, but not into memory. */
static void dimensions_may_be_huge(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_variable variable;
    void *session;
    hs_tensor value;
    hs_backend backend = open_text("node { name: 'v' op: 'VariableV2' " DIMENSIONS " }\n"
                                   "node { name: 'p' op: 'Placeholder' " DIMENSIONS " }\n"
                                   "node { name: 'v/Assign' op: 'Assign' input: 'v' input: 'p'\n"
                                   "  attr { key: 'T' value { type: DT_FLOAT } } }",
                                   NULL, &err);
    assert_ok(err.code, &err);
    assert_true(hs_backend_variable(backend, 0, &variable));
    assert_true(hs_shape_elements(&variable.shape) == (int64_t)1 << 51);
    assert_ok(backend.ops->open(backend.self, "", (hs_bytes){NULL, 0}, &session, &err), &err);
    /* TensorFlow tries to allocate it for ten seconds. */
    assert_fails(backend.ops->lend_variable(session, 0, &value, &err), HS_RESOURCE_EXHAUSTED, &err, "9007199254740992");
    assert_fails(backend.ops->read_variable(session, 0, &value, &err), HS_FAILED_PRECONDITION, &err, "value v");
    assert_ok(backend.ops->close(session, &err), &err);
    hs_tensorflow_free(backend);
}

/* A meta graph with a variable `v`, a resource `r`, ops `sum` and `nothing`, and one collection. VARIABLE: the collection
 * "variables" with one VariableDef. */
#define META(collection)                                                                                                   \
    "graph_def {\n"                                                                                                        \
    "  node { name: 'v' op: 'VariableV2' attr { key: 'dtype' value { type: DT_FLOAT } }\n"                                 \
    "         attr { key: 'shape' value { shape {} } } }\n"                                                                \
    "  node { name: 'r' op: 'VarHandleOp' attr { key: 'dtype' value { type: DT_FLOAT } }\n"                                \
    "         attr { key: 'shape' value { shape {} } } }\n"                                                                \
    "  node { name: 'sum' op: 'Placeholder' attr { key: 'dtype' value { type: DT_FLOAT } } }\n"                            \
    "  node { name: 'nothing' op: 'NoOp' }\n"                                                                              \
    "}\n"                                                                                                                  \
    "collection_def { " collection " }\n"
#define VARIABLE(bytes) META("key: 'variables' value { bytes_list { value: '" bytes "' } }")

static void invalid_variables(void **state)
{
    (void)state;
    refused(VARIABLE("\\n\\005sum:0"), HS_DATA_LOSS, "'sum:0'");
    refused(VARIABLE("\\n\\011nothing:0"), HS_DATA_LOSS, "'nothing:0'");
    refused(VARIABLE("\\n\\007nothing"), HS_DATA_LOSS, "'nothing'");
    refused(VARIABLE("\\n\\003r:0"), HS_DATA_LOSS, "'r:0'");                    /* without is_resource */
    refused(VARIABLE("\\n\\003v:0(\\001\\032\\003v:0"), HS_DATA_LOSS, "'v:0'"); /* with is_resource */
    refused(VARIABLE("\\n\\003r:0(\\001\\032\\006gone:0"), HS_DATA_LOSS, "snapshot");
    refused(VARIABLE("\\n\\003r:0(\\001\\032\\011nothing:0"), HS_DATA_LOSS, "snapshot");
    refused(VARIABLE("\\n\\006gone:0"), HS_DATA_LOSS, "'gone:0'");
    refused(VARIABLE("\\n\\000"), HS_DATA_LOSS, "''");
    refused(VARIABLE("\\377"), HS_DATA_LOSS, "'variables'");
}

static void good(const char *text)
{
    hs_error err = {0};
    hs_tensorflow_free(open_text(text, NULL, &err));
    assert_ok(err.code, &err);
}

/* Collections that are ignored, or that only a session reads. */
static void collections_of_other_kinds(void **state)
{
    (void)state;
    hs_error err = {0};
    good(VARIABLE("\\n\\003v:0"));
    good(META("key: 'variables' value { node_list { value: 'v:0' } }"));
    good(META("key: 'train_op' value { float_list { value: 1 } }"));
    good(META("key: 'train_op'"));
    good(META("key: 'savers' value { bytes_list { value: '\\377' } }"));
    hs_backend backend = open_text(META("key: 'init_op' value { node_list { value: 'inti' } }"), NULL, &err);
    assert_ok(err.code, &err);
    assert_null(hs_session_open(backend, NULL, &err));
    assert_says(&err, HS_NOT_FOUND, "'inti'");
    hs_tensorflow_free(backend);
    backend = open_text(META("key: 'queue_runners' value { bytes_list { value: '\\377' } }"), NULL, &err);
    assert_ok(err.code, &err);
    assert_null(hs_session_open(backend, NULL, &err));
    assert_says(&err, HS_DATA_LOSS, "QueueRunnerDef");
    hs_tensorflow_free(backend);
    backend = open_text(META("key: 'table_initializer' value { node_list { value: 'gone' } }"), NULL, &err);
    assert_ok(err.code, &err);
    const char *name;
    assert_fails(backend.ops->default_op(backend.self, HS_LOCAL_INIT_OP, &name, &err), HS_NOT_FOUND, &err, "'gone'");
    assert_null(name);
    hs_tensorflow_free(backend);
}

static void nothing_is_given(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_node node;
    hs_bytes item;
    hs_backend backend = open_text("node { name: 'a' op: 'NoOp' }", NULL, &err);
    assert_ok(err.code, &err);
    assert_int_not_equal(hs_backend_find(backend, NULL, &node, &err), HS_OK);
    assert_int_not_equal(hs_backend_find(backend, "", &node, &err), HS_OK);
    assert_int_not_equal(hs_backend_find(backend, ":0", &node, &err), HS_OK);
    assert_false(hs_tensorflow_collection_item(backend, NULL, 0, &item));
    assert_false(hs_tensorflow_collection_item(backend, "variables", 0, NULL));
    assert_fails(backend.ops->add_to_collection(backend.self, NULL, "x", NULL, &err), HS_INVALID_ARGUMENT, &err, "key");
    assert_fails(backend.ops->add_to_collection(backend.self, HS_SUMMARIES, NULL, NULL, &err), HS_INVALID_ARGUMENT, &err,
                 "item");
    assert_int_not_equal(hs_tensorflow_add_op(backend, NULL, NULL), HS_OK);
    hs_session *session = hs_session_open(backend, NULL, NULL);
    assert_non_null(session);
    assert_ok(hs_session_run_args(session, NULL, NULL, NULL), &err);
    assert_int_not_equal(hs_session_run(session, NULL, NULL), HS_OK);
    hs_session_close(session, NULL);
    hs_tensorflow_free(backend);
    hs_tensorflow_free(hs_tensorflow_open(NULL, NULL, NULL));
    hs_tensorflow_free(hs_tensorflow_open_bytes((hs_bytes){NULL, 0}, NULL, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_library_that_is_not_there),
        cmocka_unit_test(text_with_errors_names_the_line),
        cmocka_unit_test(graphs_that_tensorflow_refuses),
        cmocka_unit_test(dimensions_may_be_huge),
        cmocka_unit_test(invalid_variables),
        cmocka_unit_test(collections_of_other_kinds),
        cmocka_unit_test(nothing_is_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
