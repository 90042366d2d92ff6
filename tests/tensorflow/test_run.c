/* SPDX-License-Identifier: Apache-2.0 */
/* Runs: types, shapes, strings, feeds, ownership of memory, options. */
#include "tensorflow/graphs.h"

static hs_session *open_session(hs_backend backend)
{
    hs_error err = {0};
    hs_session *session = hs_session_open(backend, NULL, &err);
    assert_ok(err.code, &err);
    assert_non_null(session);
    return session;
}

static void end(hs_session *session, hs_backend backend)
{
    hs_error err = {0};
    hs_session_close(session, &err);
    hs_tensorflow_free(backend);
}

static const hs_tensor *fetch(hs_session *session, const char *name, const hs_feed *feeds)
{
    hs_error err = {0};
    const hs_run_values *values;
    hs_run_args args = HS_INIT(hs_run_args, .names = HS_NAMES(name), .feeds = feeds);
    assert_ok(hs_session_run_args(session, &args, &values, &err), &err);
    return hs_run_values_tensor(values, 0);
}

static void every_type_comes_back(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        hs_dtype dtype;
    } types[] = {
        {"float32", HS_FLOAT}, {"float64", HS_DOUBLE},    {"int32", HS_INT32},         {"uint8", HS_UINT8},
        {"int16", HS_INT16},   {"int8", HS_INT8},         {"complex64", HS_COMPLEX64}, {"int64", HS_INT64},
        {"bool", HS_BOOL},     {"bfloat16", HS_BFLOAT16}, {"uint16", HS_UINT16},       {"complex128", HS_COMPLEX128},
        {"float16", HS_HALF},  {"uint32", HS_UINT32},     {"uint64", HS_UINT64},
    };
    hs_backend backend = open_graph("types.meta");
    hs_session *session = open_session(backend);
    unsigned char bytes[6 * 16] = {0};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char in[32], out[32];
        size_t size = hs_dtype_size(types[i].dtype);
        for (size_t k = 0; k < sizeof bytes; k++)
            bytes[k] = types[i].dtype == HS_BOOL ? k % 2 : (unsigned char)(k % 7);
        snprintf(in, sizeof in, "in_%s", types[i].name);
        snprintf(out, sizeof out, "out_%s", types[i].name);
        const hs_tensor *value = fetch(session, out, HS_FEEDS({in, hs_tensor_of(types[i].dtype, HS_SHAPE(2, 3), bytes)}));
        assert_int_equal(value->dtype, types[i].dtype);
        assert_int_equal(value->rank, 3);
        assert_int_equal(value->dims[0], 2);
        assert_int_equal(value->dims[2], 3);
        assert_int_equal(value->bytes, 12 * size);
        assert_memory_equal(value->data, bytes, 6 * size);
        assert_memory_equal((char *)value->data + 6 * size, bytes, 6 * size);
    }
    end(session, backend);
}

static void strings_come_back(void **state)
{
    (void)state;
    hs_backend backend = open_graph("types.meta");
    hs_session *session = open_session(backend);
    const hs_string given[] = {{"", 0}, {"a\0b", 3}, {"longer than what fits into a small string", 41}};
    const hs_tensor *value = fetch(session, "joined", HS_FEEDS({"text", hs_tensor_of(HS_STRING, HS_SHAPE(3), given)}));
    const hs_string *found = value->data;
    assert_int_equal(value->dtype, HS_STRING);
    assert_int_equal(value->dims[0], 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(found[i].bytes, given[i].bytes + 1);
        assert_memory_equal(found[i].data, given[i].data, given[i].bytes);
        assert_int_equal(found[i].data[given[i].bytes], '!');
    }
    value = fetch(session, "many", NULL);
    assert_int_equal(value->bytes / sizeof(hs_string), 200);
    assert_memory_equal(((const hs_string *)value->data)[199].data, "a long string", 13);
    value = fetch(session, "none", NULL);
    assert_int_equal(value->bytes, 0);
    assert_int_equal(value->dims[0], 0);
    end(session, backend);
}

static void shapes_are_of_the_run(void **state)
{
    (void)state;
    hs_backend backend = open_graph("types.meta");
    hs_session *session = open_session(backend);
    hs_node node;
    hs_error err = {0};
    const float numbers[] = {1, -1, 2, -2, 3};
    assert_ok(hs_backend_find(backend, "positive/GatherV2", &node, &err), &err);
    for (int64_t n = 0; n <= 5; n++) {
        const hs_tensor *value =
            fetch(session, "positive/GatherV2", HS_FEEDS({"numbers", hs_tensor_of(HS_FLOAT, HS_SHAPE(n), numbers)}));
        assert_int_equal(value->dims[0], (n + 1) / 2);
    }
    assert_int_equal(hs_tensor_number(fetch(session, "three:2", NULL), 0), 3);
    assert_ok(hs_session_run(session, "three", &err), &err);
    assert_ok(hs_session_run(session, "nothing", &err), &err);
    assert_ok(hs_session_run_args(session, NULL, NULL, &err), &err);
    end(session, backend);
}

static void feed_refused(hs_session *session, const char *fetched, hs_feed feed, hs_code code, const char *text)
{
    hs_error err = {0};
    const hs_feed feeds[] = {feed, {.name = NULL}};
    hs_run_args args = HS_INIT(hs_run_args, .names = HS_NAMES(fetched), .feeds = feeds);
    assert_fails(hs_session_run_args(session, &args, NULL, &err), code, &err, text);
    assert_null(strchr(err.message, '\n'));
}

static hs_session *fresh(hs_session *session, hs_backend backend)
{
    hs_error err = {0};
    if (session)
        hs_session_close(session, &err);
    return open_session(backend);
}

static void wrong_feeds_are_named(void **state)
{
    (void)state;
    hs_backend backend = open_graph("ref.meta");
    hs_session *s = fresh(NULL, backend);
    const double numbers[8] = {0};
    feed_refused(s, "loss", (hs_feed){"x", hs_tensor_of(HS_DOUBLE, HS_SHAPE(2, 3), numbers)}, HS_INVALID_ARGUMENT,
                 "'x:0' is float [-1,3], but was fed with double [2,3]");
    s = fresh(s, backend);
    feed_refused(s, "loss", (hs_feed){"x", hs_tensor_of(HS_FLOAT, HS_SHAPE(2, 4), numbers)}, HS_INVALID_ARGUMENT,
                 "was fed with float [2,4]");
    s = fresh(s, backend);
    feed_refused(s, "loss", (hs_feed){"x", hs_tensor_of(HS_FLOAT, HS_SHAPE(2, 3), NULL)}, HS_INVALID_ARGUMENT, "'x:0'");
    s = fresh(s, backend);
    feed_refused(s, "loss", (hs_feed){"x", hs_tensor_of(HS_FLOAT, HS_SHAPE(2, 3), numbers)}, HS_INVALID_ARGUMENT,
                 "placeholder");
    s = fresh(s, backend);
    feed_refused(s, "loss", (hs_feed){"z", hs_tensor_of(HS_FLOAT, HS_SCALAR, numbers)}, HS_NOT_FOUND, "'z'");
    s = fresh(s, backend);
    feed_refused(s, "loss", (hs_feed){"init_all", hs_tensor_of(HS_FLOAT, HS_SCALAR, numbers)}, HS_NOT_FOUND, "'init_all'");
    end(s, backend);
}

/* It has no elements, but TensorFlow's count of them would overflow. */
static void a_shape_that_tensorflow_cannot_have_is_refused(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_backend backend = open_graph("types.meta");
    const hs_tensor none = hs_tensor_of(HS_FLOAT, HS_SHAPE(INT64_C(1) << 40, INT64_C(1) << 40, 0), "");
    const hs_feed feeds[] = {{"in_float32:0", none}, {NULL}};
    void *raw;
    assert_ok(backend.ops->open(backend.self, "", (hs_bytes){NULL, 0}, &raw, &err), &err);
    assert_fails(backend.ops->write_variable(raw, 0, &none, &err), HS_INVALID_ARGUMENT, &err, "1099511627776");
    assert_ok(backend.ops->close(raw, &err), &err);
    hs_session *session = open_session(backend);
    hs_run_args args = HS_INIT(hs_run_args, .names = HS_NAMES("out_float32"), .feeds = feeds);
    assert_fails(hs_session_run_args(session, &args, NULL, &err), HS_INVALID_ARGUMENT, &err, "'in_float32:0'");
    end(session, backend);
}

static void unsupported_types_are_reported(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_backend backend = open_graph("types.meta");
    hs_session *session = open_session(backend);
    assert_fails(hs_session_run(session, "queue", &err), HS_UNIMPLEMENTED, &err, "'queue:0'");
    session = fresh(session, backend);
    const float bad[] = {1.0F / 0.0F};
    feed_refused(session, "checked", (hs_feed){"numbers", hs_tensor_of(HS_FLOAT, HS_SHAPE(1), bad)}, HS_INVALID_ARGUMENT,
                 "bad numbers");
    end(session, backend);
}

/* Aligned as TensorFlow requires for a feed without a copy. */
static _Alignas(64) float memory[64];

static void fill(float value)
{
    for (size_t i = 0; i < 64; i++)
        memory[i] = value;
}

static void values_that_the_graph_keeps_are_copies(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_backend backend = open_graph("types.meta");
    hs_session *session = open_session(backend);
    const hs_feed feeds[] = {{"fed", hs_tensor_of(HS_FLOAT, HS_SHAPE(64), memory)}, {.name = NULL}};
    hs_run_args keep = HS_INIT(hs_run_args, .names = HS_NAMES("keep", "enqueue"), .feeds = feeds);
    fill(1);
    assert_ok(hs_session_run_args(session, &keep, NULL, &err), &err);
    fill(2);
    assert_true(hs_tensor_number(fetch(session, "kept", NULL), 63) == 1);
    assert_true(hs_tensor_number(fetch(session, "dequeue", NULL), 63) == 1);
    end(session, backend);
}

static void fetched_feeds_are_copies(void **state)
{
    (void)state;
    hs_error err = {0};
    const hs_run_values *values;
    hs_backend backend = open_graph("types.meta");
    hs_session *session = open_session(backend);
    const hs_feed feeds[] = {{"borrowed", hs_tensor_of(HS_FLOAT, HS_SHAPE(64), memory)}, {.name = NULL}};
    hs_run_args args = HS_INIT(hs_run_args, .names = HS_NAMES("product", "borrowed", "borrowed_again"), .feeds = feeds);
    fill(3);
    assert_ok(hs_session_run_args(session, &args, &values, &err), &err);
    fill(4);
    assert_true(hs_run_values_number(values, 0) == 192);
    assert_true(hs_run_values_number(values, 1) == 3);
    assert_true(hs_run_values_number(values, 2) == 3);
    end(session, backend);
}

/* A hook that trains in its after_run: the values of the outer run must not change. */
typedef struct {
    batch *b;
    int looked;
} meddler;

static hs_code meddle(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)values;
    meddler *m = self;
    hs_run_args train = HS_INIT(hs_run_args, .names = HS_NAMES("train_op"), .feeds = m->b->feeds);
    hs_run_args look = HS_INIT(hs_run_args, .names = HS_NAMES("layer/w", "label"));
    const hs_run_values *inner;
    hs_code code = hs_raw_session_run(hs_run_context_session(run), &train, NULL, err);
    if (!code && !(code = hs_raw_session_run(hs_run_context_session(run), &look, &inner, err)))
        m->looked += hs_run_values_number(inner, 0) != 0.5;
    return code;
}

static const hs_hook_ops meddler_ops = HS_INIT(hs_hook_ops, .name = "meddler", .after_run = meddle);

static void values_outlive_runs_of_other_levels(void **state)
{
    (void)state;
    hs_error err = {0};
    const hs_run_values *values;
    batch b;
    const char *const graphs[] = {"ref.meta", "resource.meta"};
    fill_batch(&b, 0);
    for (size_t i = 0; i < 2; i++) {
        meddler m = {.b = &b};
        hs_hook hook = {.ops = &meddler_ops, .self = &m};
        hs_backend backend = open_graph(graphs[i]);
        hs_session *session = hs_session_open(backend, HS_SESSION_OPTIONS(.hooks = HS_HOOKS(hook)), &err);
        hs_run_args args = HS_INIT(hs_run_args, .names = HS_NAMES("layer/w", "layer/w/read", "label"), .feeds = b.feeds);
        args.names = i ? HS_NAMES("layer/w", "layer/w/Read/ReadVariableOp", "label") : args.names;
        assert_ok(err.code, &err);
        assert_ok(hs_session_run_args(session, &args, &values, &err), &err);
        assert_int_equal(m.looked, 1);
        assert_true(hs_run_values_number(values, 0) == 0.5);
        assert_true(hs_run_values_number(values, 1) == 0.5);
        const hs_string *label = hs_run_values_tensor(values, 2)->data;
        assert_int_equal(label[1].bytes, 2);
        assert_memory_equal(label[1].data, "bc", 2);
        end(session, backend);
    }
}

static void options_give_metadata(void **state)
{
    (void)state;
    hs_error err = {0};
    const hs_run_values *values;
    batch b;
    hs_backend backend = open_graph("resource.meta");
    hs_session *session = open_session(backend);
    fill_batch(&b, 0);
    hs_run_options options =
        HS_INIT(hs_run_options, .trace_level = HS_TRACE_FULL, .timeout_secs = 60, .output_partition_graphs = true);
    hs_run_args args = HS_INIT(hs_run_args, .names = HS_NAMES("loss"), .feeds = b.feeds, .options = &options);
    assert_ok(hs_session_run_args(session, &args, &values, &err), &err);
    assert_true(hs_run_values_metadata(values).size > 100);
    args.options = NULL;
    assert_ok(hs_session_run_args(session, &args, &values, &err), &err);
    assert_int_equal(hs_run_values_metadata(values).size, 0);
    end(session, backend);
}

static void a_run_that_takes_too_long_ends(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_backend backend = open_graph("types.meta");
    hs_session *session = open_session(backend);
    hs_run_args args = HS_INIT(hs_run_args, .names = HS_NAMES("dequeue"), .options = HS_RUN_OPTIONS(.timeout_secs = 0.05));
    assert_fails(hs_session_run_args(session, &args, NULL, &err), HS_DEADLINE_EXCEEDED, &err, "");
    end(session, backend);
}

static void the_end_of_a_queue_is_out_of_range(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_backend backend = open_graph("types.meta");
    hs_session *session = open_session(backend);
    assert_ok(hs_session_run(session, "close", &err), &err);
    assert_fails(hs_session_run(session, "dequeue", &err), HS_OUT_OF_RANGE, &err, "queue");
    assert_true(hs_session_should_stop(session));
    end(session, backend);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_comes_back),
        cmocka_unit_test(strings_come_back),
        cmocka_unit_test(shapes_are_of_the_run),
        cmocka_unit_test(wrong_feeds_are_named),
        cmocka_unit_test(unsupported_types_are_reported),
        cmocka_unit_test(a_shape_that_tensorflow_cannot_have_is_refused),
        cmocka_unit_test(values_that_the_graph_keeps_are_copies),
        cmocka_unit_test(fetched_feeds_are_copies),
        cmocka_unit_test(values_outlive_runs_of_other_levels),
        cmocka_unit_test(options_give_metadata),
        cmocka_unit_test(a_run_that_takes_too_long_ends),
        cmocka_unit_test(the_end_of_a_queue_is_out_of_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
