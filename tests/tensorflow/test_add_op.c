/* SPDX-License-Identifier: Apache-2.0 */
/* Ops that hooks add. */
#include "tensorflow/graphs.h"

/* A hook that adds an op in begin and fetches it in every run. */
typedef struct {
    int begins, added;
    double last;
} watcher;

static hs_code watch_begin(void *self, hs_backend backend, hs_error *err)
{
    watcher *w = self;
    w->begins++;
    hs_code code = hs_tensorflow_add_op(
        backend,
        HS_TENSORFLOW_OP_DEF(.type = "Sqrt", .name = "watch/root", .inputs = HS_NAMES("loss:0"), .device = "/cpu:0"), err);
    w->added += code == HS_OK;
    if (code == HS_ALREADY_EXISTS)
        hs_error_clear(err);
    return code == HS_ALREADY_EXISTS ? HS_OK : code;
}

static const hs_run_args watched = HS_INIT(hs_run_args, .names = (const char *const[]){"watch/root", NULL});

static hs_code watch_before(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    (void)self, (void)run, (void)err;
    *args = &watched;
    return HS_OK;
}

static hs_code watch_after(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)run, (void)err;
    ((watcher *)self)->last = hs_run_values_number(values, 0);
    return HS_OK;
}

static const hs_hook_ops watcher_ops =
    HS_INIT(hs_hook_ops, .name = "watcher", .begin = watch_begin, .before_run = watch_before, .after_run = watch_after);

static void a_hook_adds_an_op_once(void **state)
{
    (void)state;
    hs_error err = {0};
    watcher w = {0};
    batch b;
    hs_backend backend = open_graph("resource.meta");
    fill_batch(&b, 0);
    for (int i = 0; i < 2; i++) {
        hs_hook hook = {.ops = &watcher_ops, .self = &w};
        const hs_run_values *values;
        hs_session *session = hs_session_open(backend, HS_SESSION_OPTIONS(.hooks = HS_HOOKS(hook)), &err);
        assert_ok(err.code, &err);
        hs_run_args args = HS_INIT(hs_run_args, .names = HS_NAMES("loss"), .feeds = b.feeds);
        assert_ok(hs_session_run_args(session, &args, &values, &err), &err);
        double loss = hs_run_values_number(values, 0);
        assert_true(w.last * w.last > loss * 0.999 && w.last * w.last < loss * 1.001);
        hs_session_close(session, &err);
    }
    assert_int_equal(w.begins, 2);
    assert_int_equal(w.added, 1);
    hs_tensorflow_free(backend);
}

static void a_finalized_graph_takes_no_op(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_backend backend = open_graph("ref.meta");
    hs_session *session = hs_session_open(backend, NULL, &err);
    hs_tensorflow_op_def def = HS_INIT(hs_tensorflow_op_def, .type = "NoOp", .name = "more");
    assert_ok(err.code, &err);
    assert_true(hs_backend_finalized(backend));
    assert_fails(hs_tensorflow_add_op(backend, &def, &err), HS_FAILED_PRECONDITION, &err, "'more'");
    hs_session_close(session, &err);
    assert_ok(hs_tensorflow_add_op(backend, &def, &err), &err);
    assert_fails(hs_tensorflow_add_op(backend, &def, &err), HS_ALREADY_EXISTS, &err, "'more'");
    hs_tensorflow_free(backend);
}

static void attributes_of_all_kinds(void **state)
{
    (void)state;
    hs_error err = {0};
    const float numbers[] = {1, 2, 3, 4};
    hs_tensor value = hs_tensor_of(HS_FLOAT, HS_SHAPE(2, 2), numbers);
    hs_backend backend = open_graph("types.meta");
    const hs_tensorflow_attr of_constant[] = {{.name = "dtype", .kind = HS_TENSORFLOW_TYPE, .type = HS_FLOAT},
                                              {.name = "value", .kind = HS_TENSORFLOW_TENSOR, .tensor = &value},
                                              {.name = NULL}};
    const hs_tensorflow_attr of_product[] = {{.name = "transpose_a", .kind = HS_TENSORFLOW_BOOL, .number = 1},
                                             {.name = NULL}};
    const hs_tensorflow_attr of_placeholder[] = {
        {.name = "dtype", .kind = HS_TENSORFLOW_TYPE, .type = HS_INT64},
        {.name = "shape", .kind = HS_TENSORFLOW_SHAPE, .shape = {.rank = 2, .dims = {-1, 5}}},
        {.name = NULL}};
    const hs_tensorflow_attr of_pack[] = {{.name = "axis", .kind = HS_TENSORFLOW_INT, .number = 1}, {.name = NULL}};
    const hs_tensorflow_attr of_queue[] = {{.name = "shared_name", .kind = HS_TENSORFLOW_STRING, .text = "mine"},
                                           {.name = "dtype", .kind = HS_TENSORFLOW_TYPE, .type = HS_FLOAT},
                                           {.name = NULL}};
    const hs_tensorflow_attr of_leak[] = {{.name = "alpha", .kind = HS_TENSORFLOW_FLOAT, .real = 0.5}, {.name = NULL}};
    const hs_tensorflow_op_def defs[] = {
        HS_INIT(hs_tensorflow_op_def, .type = "Const", .name = "c", .attrs = of_constant),
        HS_INIT(hs_tensorflow_op_def, .type = "MatMul", .name = "cc", .inputs = HS_NAMES("c", "c:0"), .attrs = of_product,
                .control_inputs = HS_NAMES("nothing")),
        HS_INIT(hs_tensorflow_op_def, .type = "Placeholder", .name = "p", .attrs = of_placeholder),
        HS_INIT(hs_tensorflow_op_def, .type = "Pack", .name = "packed", .inputs = HS_NAMES("c", "cc"),
                .inputs_are_a_list = true, .attrs = of_pack),
        HS_INIT(hs_tensorflow_op_def, .type = "LeakyRelu", .name = "leaky", .inputs = HS_NAMES("c"), .attrs = of_leak),
        HS_INIT(hs_tensorflow_op_def, .type = "VarHandleOp", .name = "mine", .attrs = of_queue),
    };
    for (size_t i = 0; i + 1 < sizeof defs / sizeof *defs; i++)
        assert_ok(hs_tensorflow_add_op(backend, &defs[i], &err), &err);
    assert_fails(hs_tensorflow_add_op(backend, &defs[5], &err), HS_INVALID_ARGUMENT, &err, "shape");
    hs_session *session = hs_session_open(backend, NULL, &err);
    const hs_run_values *values;
    assert_ok(err.code, &err);
    assert_ok(hs_session_run_args(session, HS_RUN_ARGS(.names = HS_NAMES("packed")), &values, &err), &err);
    const hs_tensor *packed = hs_run_values_tensor(values, 0);
    assert_int_equal(packed->rank, 3);
    assert_true(hs_tensor_number(packed, 2) == 10); /* 1 * 1 + 3 * 3 */
    hs_session_close(session, &err);
    hs_tensorflow_free(backend);
}

/* A queue that the program adds: two components, whose types and shapes are lists, and an enqueue op with two inputs, the
 * queue and the list of components. */
static void lists_of_values(void **state)
{
    (void)state;
    hs_error err = {0};
    const hs_dtype types[] = {HS_FLOAT, HS_INT64};
    const hs_shape shapes[] = {HS_SHAPE(2), HS_SCALAR};
    const float pair[] = {3, 4};
    const int64_t seven = 7;
    const hs_tensor first = hs_tensor_of(HS_FLOAT, HS_SHAPE(2), pair), second = hs_tensor_of(HS_INT64, HS_SCALAR, &seven);
    const hs_tensorflow_attr queue[] = {
        {.name = "component_types", .kind = HS_TENSORFLOW_TYPES, .types = types, .n_values = 2},
        {.name = "shapes", .kind = HS_TENSORFLOW_SHAPES, .shapes = shapes, .n_values = 2},
        {.name = NULL}};
    const hs_tensorflow_attr one[] = {{.name = "dtype", .kind = HS_TENSORFLOW_TYPE, .type = HS_FLOAT},
                                      {.name = "value", .kind = HS_TENSORFLOW_TENSOR, .tensor = &first},
                                      {.name = NULL}};
    const hs_tensorflow_attr two[] = {{.name = "dtype", .kind = HS_TENSORFLOW_TYPE, .type = HS_INT64},
                                      {.name = "value", .kind = HS_TENSORFLOW_TENSOR, .tensor = &second},
                                      {.name = NULL}};
    const hs_tensorflow_attr taken[] = {queue[0], {.name = NULL}};
    hs_backend backend = open_graph("types.meta");
    const hs_tensorflow_op_def defs[] = {
        HS_INIT(hs_tensorflow_op_def, .type = "FIFOQueueV2", .name = "mine", .attrs = queue),
        HS_INIT(hs_tensorflow_op_def, .type = "Const", .name = "one", .attrs = one),
        HS_INIT(hs_tensorflow_op_def, .type = "Const", .name = "two", .attrs = two),
        HS_INIT(hs_tensorflow_op_def, .type = "QueueEnqueueV2", .name = "put", .inputs = HS_NAMES("mine", "one", "two"),
                .inputs_are_a_list = true, .list_from = 1),
        HS_INIT(hs_tensorflow_op_def, .type = "QueueDequeueV2", .name = "take", .inputs = HS_NAMES("mine"), .attrs = taken),
    };
    for (size_t i = 0; i < sizeof defs / sizeof *defs; i++)
        assert_ok(hs_tensorflow_add_op(backend, &defs[i], &err), &err);
    hs_session *session = hs_session_open(backend, NULL, &err);
    const hs_run_values *values;
    assert_ok(err.code, &err);
    assert_ok(hs_session_run(session, "put", &err), &err);
    assert_ok(hs_session_run_args(session, HS_RUN_ARGS(.names = HS_NAMES("take:0", "take:1")), &values, &err), &err);
    assert_true(hs_tensor_number(hs_run_values_tensor(values, 0), 1) == 4);
    assert_true(hs_run_values_number(values, 1) == 7);
    hs_session_close(session, &err);
    hs_tensorflow_free(backend);
}

static void lists_of_the_other_kinds(void **state)
{
    (void)state;
    hs_error err = {0};
    const float pair[] = {3, 4};
    const int32_t zero = 0;
    const hs_tensor first = hs_tensor_of(HS_FLOAT, HS_SHAPE(2), pair), axis = hs_tensor_of(HS_INT32, HS_SCALAR, &zero);
    const hs_tensorflow_attr constant[] = {{.name = "dtype", .kind = HS_TENSORFLOW_TYPE, .type = HS_FLOAT},
                                           {.name = "value", .kind = HS_TENSORFLOW_TENSOR, .tensor = &first},
                                           {.name = NULL}};
    const hs_tensorflow_attr number[] = {{.name = "dtype", .kind = HS_TENSORFLOW_TYPE, .type = HS_INT32},
                                         {.name = "value", .kind = HS_TENSORFLOW_TENSOR, .tensor = &axis},
                                         {.name = NULL}};
    const hs_tensorflow_attr squeeze[] = {
        {.name = "squeeze_dims", .kind = HS_TENSORFLOW_INTS, .numbers = (const int64_t[]){0}, .n_values = 1},
        {.name = NULL}};
    const hs_tensorflow_attr bucketize[] = {
        {.name = "boundaries", .kind = HS_TENSORFLOW_FLOATS, .reals = (const double[]){1, 3.5}, .n_values = 2},
        {.name = NULL}};
    /* TensorFlow keeps attributes that the op does not have. */
    const hs_tensorflow_attr more[] = {
        {.name = "_texts",
         .kind = HS_TENSORFLOW_STRINGS,
         .texts = (const char *const[]){"some", NULL, "text"},
         .n_values = 3},
        {.name = "_truths", .kind = HS_TENSORFLOW_BOOLS, .truths = (const bool[]){true, false}, .n_values = 2},
        {.name = "_none", .kind = HS_TENSORFLOW_STRINGS, .n_values = 0},
        {.name = NULL}};
    const hs_tensorflow_op_def defs[] = {
        HS_INIT(hs_tensorflow_op_def, .type = "Const", .name = "one", .attrs = constant),
        HS_INIT(hs_tensorflow_op_def, .type = "Const", .name = "axis", .attrs = number),
        HS_INIT(hs_tensorflow_op_def, .type = "ConcatV2", .name = "four", .inputs = HS_NAMES("one", "one", "axis"),
                .inputs_are_a_list = true, .list_until = 2),
        HS_INIT(hs_tensorflow_op_def, .type = "Bucketize", .name = "buckets", .inputs = HS_NAMES("four"),
                .attrs = bucketize),
        HS_INIT(hs_tensorflow_op_def, .type = "ExpandDims", .name = "row", .inputs = HS_NAMES("buckets", "axis")),
        HS_INIT(hs_tensorflow_op_def, .type = "Squeeze", .name = "again", .inputs = HS_NAMES("row"), .attrs = squeeze),
        HS_INIT(hs_tensorflow_op_def, .type = "NoOp", .name = "more", .attrs = more),
    };
    hs_backend backend = open_graph("types.meta");
    hs_bytes graph;
    for (size_t i = 0; i < sizeof defs / sizeof *defs; i++)
        assert_ok(hs_tensorflow_add_op(backend, &defs[i], &err), &err);
    assert_ok(hs_backend_graph_def(backend, &graph, &err), &err);
    bool found = false; /* a ListValue of three strings, the middle one empty */
    for (size_t i = 0; i + 14 < graph.size; i++)
        found |= memcmp((const char *)graph.data + i, "\x12\4some\x12\0\x12\4text", 14) == 0;
    assert_true(found);
    hs_session *session = hs_session_open(backend, NULL, &err);
    const hs_run_values *values;
    assert_ok(err.code, &err);
    assert_ok(hs_session_run_args(session, HS_RUN_ARGS(.names = HS_NAMES("again")), &values, &err), &err);
    const hs_tensor *again = hs_run_values_tensor(values, 0);
    assert_int_equal(again->rank, 1);
    assert_int_equal(again->dims[0], 4);
    assert_true(hs_tensor_number(again, 0) == 1 && hs_tensor_number(again, 3) == 2);
    hs_session_close(session, &err);
    hs_tensorflow_free(backend);
}

static const void *fetch(hs_backend backend, void *session, const char *name, size_t level, hs_tensor *value)
{
    hs_error err = {0};
    hs_node node;
    hs_backend_call call = {.size = sizeof call, .level = level, .fetches = &node, .n_fetches = 1, .values = value};
    assert_ok(hs_backend_find(backend, name, &node, &err), &err);
    assert_ok(backend.ops->run(session, &call, &err), &err);
    return value->data;
}

/* A graph without references keeps the values of other levels, even after a reference variable is added. */
static void values_stay_after_a_reference_is_added(void **state)
{
    (void)state;
    hs_error err = {0};
    const float pair[] = {3, 4};
    const char long_text[] = "a long string that is certainly not kept inside";
    const hs_string text = {long_text, sizeof long_text - 1};
    const hs_tensor values[] = {hs_tensor_of(HS_FLOAT, HS_SHAPE(2), pair), hs_tensor_of(HS_STRING, HS_SHAPE(1), &text)};
    hs_backend backend = open_graph("types.meta");
    assert_true(backend.ops->flags & HS_BACKEND_KEEPS_VALUES);
    for (int i = 0; i < 2; i++) {
        const hs_tensorflow_attr attrs[] = {
            {.name = "dtype", .kind = HS_TENSORFLOW_TYPE, .type = values[i].dtype},
            {.name = "shape", .kind = HS_TENSORFLOW_SHAPE, .shape = hs_tensor_shape(&values[i])},
            {.name = NULL}};
        const hs_tensorflow_attr constant[] = {
            attrs[0], {.name = "value", .kind = HS_TENSORFLOW_TENSOR, .tensor = &values[i]}, {.name = NULL}};
        const hs_tensorflow_op_def defs[] = {
            HS_INIT(hs_tensorflow_op_def, .type = "VariableV2", .name = i ? "text_by_hand" : "by_hand", .attrs = attrs),
            HS_INIT(hs_tensorflow_op_def, .type = "Const", .name = i ? "a_text" : "a_pair", .attrs = constant),
            HS_INIT(hs_tensorflow_op_def, .type = "Assign", .name = i ? "set_text" : "set",
                    .inputs = i ? HS_NAMES("text_by_hand", "a_text") : HS_NAMES("by_hand", "a_pair")),
        };
        for (size_t k = 0; k < 3; k++)
            assert_ok(hs_tensorflow_add_op(backend, &defs[k], &err), &err);
    }
    const hs_tensorflow_op_def add =
        HS_INIT(hs_tensorflow_op_def, .type = "AssignAdd", .name = "add", .inputs = HS_NAMES("by_hand", "a_pair"));
    const hs_tensorflow_op_def reset =
        HS_INIT(hs_tensorflow_op_def, .type = "Assign", .name = "reset", .inputs = HS_NAMES("text_by_hand", "none_of_it"));
    const hs_string other = {"b", 1};
    const hs_tensor short_text = hs_tensor_of(HS_STRING, HS_SHAPE(1), &other);
    const hs_tensorflow_attr of_short[] = {{.name = "dtype", .kind = HS_TENSORFLOW_TYPE, .type = HS_STRING},
                                           {.name = "value", .kind = HS_TENSORFLOW_TENSOR, .tensor = &short_text},
                                           {.name = NULL}};
    assert_ok(hs_tensorflow_add_op(backend, &add, &err), &err);
    assert_ok(
        hs_tensorflow_add_op(backend, HS_TENSORFLOW_OP_DEF(.type = "Const", .name = "none_of_it", .attrs = of_short), &err),
        &err);
    assert_ok(hs_tensorflow_add_op(backend, &reset, &err), &err);
    void *session;
    hs_tensor value, ignored;
    assert_ok(backend.ops->open(backend.self, "", (hs_bytes){NULL, 0}, &session, &err), &err);
    fetch(backend, session, "set", 0, &ignored);
    const float *kept = fetch(backend, session, "by_hand", 0, &value);
    fetch(backend, session, "add", 1, &ignored);
    assert_true(kept[0] == 3 && kept[1] == 4);
    fetch(backend, session, "set_text", 0, &ignored);
    const hs_string *kept_text = fetch(backend, session, "text_by_hand", 0, &value);
    fetch(backend, session, "reset", 1, &ignored);
    assert_int_equal(kept_text->bytes, text.bytes);
    assert_memory_equal(kept_text->data, long_text, text.bytes);
    assert_ok(backend.ops->close(session, &err), &err);
    hs_tensorflow_free(backend);
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_backend backend = open_graph("ref.meta");
    const hs_tensorflow_attr wrong[] = {{.name = "dtype", .kind = 99}, {.name = NULL}};
    const hs_tensorflow_attr empty[] = {{.name = "value", .kind = HS_TENSORFLOW_TENSOR}, {.name = NULL}};
    const hs_tensorflow_attr no_type[] = {{.name = "dtype", .kind = HS_TENSORFLOW_TYPE, .type = (hs_dtype)9999},
                                          {.name = NULL}};
    const hs_dtype unknown[] = {HS_FLOAT, (hs_dtype)77};
    const hs_tensorflow_attr no_types[] = {
        {.name = "component_types", .kind = HS_TENSORFLOW_TYPES, .types = unknown, .n_values = 2}, {.name = NULL}};
    const hs_tensorflow_attr no_list[] = {{.name = "shapes", .kind = HS_TENSORFLOW_SHAPES, .n_values = 2}, {.name = NULL}};
    const hs_tensorflow_attr deep[] = {{.name = "shape", .kind = HS_TENSORFLOW_SHAPE, .shape = {.rank = 99}},
                                       {.name = NULL}};
    const hs_shape shapes[] = {HS_SCALAR, {.rank = 9}};
    const hs_tensorflow_attr deeper[] = {{.name = "shapes", .kind = HS_TENSORFLOW_SHAPES, .shapes = shapes, .n_values = 2},
                                         {.name = NULL}};
    const hs_shape most = HS_SHAPE(INT64_C(1) << 40, INT64_C(1) << 40, 0), least = HS_SHAPE(-2);
    const hs_tensor nothing = hs_tensor_of(HS_FLOAT, most, "");
    const hs_tensorflow_attr many_of_none[] = {{.name = "value", .kind = HS_TENSORFLOW_TENSOR, .tensor = &nothing},
                                               {.name = NULL}};
    const hs_tensorflow_attr many[] = {{.name = "shape", .kind = HS_TENSORFLOW_SHAPE, .shape = most}, {.name = NULL}};
    const hs_tensorflow_attr few[] = {{.name = "shape", .kind = HS_TENSORFLOW_SHAPE, .shape = least}, {.name = NULL}};
    const hs_tensorflow_attr many_too[] = {{.name = "shapes", .kind = HS_TENSORFLOW_SHAPES, .shapes = &most, .n_values = 1},
                                           {.name = NULL}};
    const hs_tensorflow_attr long_list[] = {
        {.name = "shapes", .kind = HS_TENSORFLOW_SHAPES, .shapes = shapes, .n_values = SIZE_MAX}, {.name = NULL}};
    const struct {
        hs_tensorflow_op_def def;
        hs_code code;
        const char *text;
    } cases[] = {
        {HS_INIT(hs_tensorflow_op_def, .name = "n"), HS_INVALID_ARGUMENT, "type is missing"},
        {HS_INIT(hs_tensorflow_op_def, .type = "NoOp"), HS_INVALID_ARGUMENT, "name is missing"},
        {{.size = 0}, HS_INVALID_ARGUMENT, "HS_INIT(hs_tensorflow_op_def"},
        {HS_INIT(hs_tensorflow_op_def, .type = "NoSuchOp", .name = "n"), HS_INVALID_ARGUMENT, "NoSuchOp"},
        {HS_INIT(hs_tensorflow_op_def, .type = "NoOp", .name = "bad name!"), HS_INVALID_ARGUMENT, "bad name!"},
        {HS_INIT(hs_tensorflow_op_def, .type = "Sqrt", .name = "n", .inputs = HS_NAMES("los")), HS_NOT_FOUND, "'loss'"},
        {HS_INIT(hs_tensorflow_op_def, .type = "Sqrt", .name = "n", .control_inputs = HS_NAMES("los")), HS_NOT_FOUND,
         "'loss'"},
        {HS_INIT(hs_tensorflow_op_def, .type = "Sqrt", .name = "n"), HS_INVALID_ARGUMENT, "'n'"},
        {HS_INIT(hs_tensorflow_op_def, .type = "Const", .name = "n", .attrs = wrong), HS_INVALID_ARGUMENT, "kind 99"},
        {HS_INIT(hs_tensorflow_op_def, .type = "Const", .name = "n", .attrs = empty), HS_INVALID_ARGUMENT,
         "tensor is NULL"},
        {HS_INIT(hs_tensorflow_op_def, .type = "Placeholder", .name = "n", .attrs = no_type), HS_INVALID_ARGUMENT, "'n'"},
        {HS_INIT(hs_tensorflow_op_def, .type = "FIFOQueueV2", .name = "n", .attrs = no_types), HS_INVALID_ARGUMENT, "'n'"},
        {HS_INIT(hs_tensorflow_op_def, .type = "FIFOQueueV2", .name = "n", .attrs = no_list), HS_INVALID_ARGUMENT,
         "'shapes'"},
        {HS_INIT(hs_tensorflow_op_def, .type = "FIFOQueueV2", .name = "n", .attrs = deeper), HS_INVALID_ARGUMENT, "rank 9"},
        {HS_INIT(hs_tensorflow_op_def, .type = "FIFOQueueV2", .name = "n", .attrs = long_list), HS_INVALID_ARGUMENT,
         "too long"},
        {HS_INIT(hs_tensorflow_op_def, .type = "Placeholder", .name = "n", .attrs = deep), HS_INVALID_ARGUMENT, "rank 99"},
        {HS_INIT(hs_tensorflow_op_def, .type = "Placeholder", .name = "n", .attrs = many), HS_INVALID_ARGUMENT,
         "1099511627776"},
        {HS_INIT(hs_tensorflow_op_def, .type = "Placeholder", .name = "n", .attrs = few), HS_INVALID_ARGUMENT, "-2"},
        {HS_INIT(hs_tensorflow_op_def, .type = "Const", .name = "n", .attrs = many_of_none), HS_INVALID_ARGUMENT,
         "1099511627776"},
        {HS_INIT(hs_tensorflow_op_def, .type = "FIFOQueueV2", .name = "n", .attrs = many_too), HS_INVALID_ARGUMENT,
         "1099511627776"},
        {HS_INIT(hs_tensorflow_op_def, .type = "Sqrt", .name = "n", .inputs = HS_NAMES("loss"), .attrs = wrong),
         HS_INVALID_ARGUMENT, "kind 99"},
        {HS_INIT(hs_tensorflow_op_def, .type = "Sqrt", .name = "n", .inputs = HS_NAMES("loss"), .list_until = 1),
         HS_INVALID_ARGUMENT, "inputs_are_a_list"},
        {HS_INIT(hs_tensorflow_op_def, .type = "AddN", .name = "n", .inputs = HS_NAMES("loss"), .inputs_are_a_list = true,
                 .list_from = 2),
         HS_INVALID_ARGUMENT, "but the op has 1 inputs"},
        {HS_INIT(hs_tensorflow_op_def, .type = "AddN", .name = "n", .inputs = HS_NAMES("loss"), .inputs_are_a_list = true,
                 .list_until = 2),
         HS_INVALID_ARGUMENT, "but the op has 1 inputs"},
    };
    hs_node node;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_fails(hs_tensorflow_add_op(backend, &cases[i].def, &err), cases[i].code, &err, cases[i].text);
        assert_int_equal(hs_backend_find(backend, "n", &node, &err), HS_NOT_FOUND); /* it was not added */
    }
    assert_fails(hs_tensorflow_add_op(backend, NULL, &err), HS_INVALID_ARGUMENT, &err, "op is NULL");
    assert_fails(hs_tensorflow_add_op((hs_backend){NULL, NULL}, &cases[0].def, &err), HS_INVALID_ARGUMENT, &err, "backend");
    hs_tensorflow_free(backend);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hook_adds_an_op_once),
        cmocka_unit_test(a_finalized_graph_takes_no_op),
        cmocka_unit_test(attributes_of_all_kinds),
        cmocka_unit_test(lists_of_values),
        cmocka_unit_test(lists_of_the_other_kinds),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(values_stay_after_a_reference_is_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
