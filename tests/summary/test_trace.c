/* SPDX-License-Identifier: Apache-2.0 */
#include "support/json.h"

#include "summary/trace.h"

#include "run_metadata.pb-c.h"

#define NO_LIMIT ((size_t)1 << 30)

/* The ops of a device: op n begins at begin[n] and takes length[n]. */
typedef struct {
    const char *name, *label;
    int64_t begin_ns, length_ns, begin_us, length_us, memory;
} op;

enum { MOST_OPS = 128 };

/* A RunMetadata of one device. The caller frees it. */
static hs_bytes metadata_of(const op *ops, size_t n)
{
    static Hs__Pb__NodeExecStats stats[MOST_OPS];
    static Hs__Pb__AllocatorMemoryUsed used[MOST_OPS], *used_at[MOST_OPS];
    Hs__Pb__NodeExecStats *pointers[MOST_OPS];
    assert_true(n <= MOST_OPS);
    for (size_t i = 0; i < n; i++) {
        stats[i] = (Hs__Pb__NodeExecStats)HS__PB__NODE_EXEC_STATS__INIT;
        stats[i].node_name = (char *)(uintptr_t)ops[i].name;
        if (ops[i].label)
            stats[i].timeline_label = (char *)(uintptr_t)ops[i].label;
        stats[i].all_start_nanos = ops[i].begin_ns;
        stats[i].all_end_rel_nanos = ops[i].length_ns;
        stats[i].all_start_micros = ops[i].begin_us;
        stats[i].all_end_rel_micros = ops[i].length_us;
        used[i] = (Hs__Pb__AllocatorMemoryUsed)HS__PB__ALLOCATOR_MEMORY_USED__INIT;
        used[i].allocator_name = (char *)(uintptr_t) "cpu";
        used[i].total_bytes = ops[i].memory;
        used_at[i] = &used[i];
        stats[i].memory = &used_at[i];
        stats[i].n_memory = ops[i].memory != 0;
        pointers[i] = &stats[i];
    }
    Hs__Pb__DeviceStepStats device = HS__PB__DEVICE_STEP_STATS__INIT, *devices = &device;
    device.device = (char *)(uintptr_t) "/device:CPU:0";
    device.n_node_stats = n;
    device.node_stats = pointers;
    Hs__Pb__StepStats step = HS__PB__STEP_STATS__INIT;
    step.n_dev_stats = 1;
    step.dev_stats = &devices;
    Hs__Pb__RunMetadata metadata = HS__PB__RUN_METADATA__INIT;
    metadata.step_stats = &step;
    unsigned char *bytes = malloc(hs__pb__run_metadata__get_packed_size(&metadata));
    assert_non_null(bytes);
    return (hs_bytes){bytes, hs__pb__run_metadata__pack(&metadata, bytes)};
}

/* The size of the events of the last trace. */
static size_t events_bytes;

/* Makes a trace of spans and ops, and parses it. It is valid until the next one. */
static hs__json_value trace_of(const hs__hook_span *spans, size_t n_spans, const op *ops, size_t n_ops, size_t limit)
{
    static char *text;
    hs__trace trace;
    hs_error err = {0};
    hs_bytes metadata = metadata_of(ops, n_ops);
    hs__trace_begin(&trace, hs_env_default(), limit);
    hs__trace_spans(&trace, spans, n_spans, 1000000);
    assert_ok(hs__trace_run(&trace, metadata, true, &err), &err);
    events_bytes = trace.json.size - trace.first;
    assert_ok(hs__trace_finish(&trace, 7, &err), &err);
    size_t bytes = trace.json.size;
    free(text);
    text = malloc(bytes);
    assert_non_null(text);
    memcpy(text, trace.json.data, bytes);
    hs__trace_free(&trace);
    free((void *)(uintptr_t)metadata.data);
    return json_root(text, bytes);
}

/* The n-th event of a phase ("X", "M"). No value: there are fewer. */
static hs__json_value event(hs__json_value trace, const char *phase, size_t n)
{
    hs__json_value events = hs__json_member(trace, "traceEvents");
    hs__json_item one = {.value = {NULL, 0}};
    while (hs__json_next(events, &one))
        if (hs__json_equals(hs__json_member(one.value, "ph"), phase) && n-- == 0)
            return one.value;
    return (hs__json_value){NULL, 0};
}

static hs__json_value args(hs__json_value of)
{
    return hs__json_member(of, "args");
}

static void an_empty_trace(void **state)
{
    (void)state;
    hs__json_value trace = trace_of(NULL, 0, NULL, 0, NO_LIMIT);
    assert_null(event(trace, "X", 0).text);
    assert_int_equal(json_int(hs__json_member(trace, "metadata"), "step"), 7);
    assert_int_equal(json_int(hs__json_member(trace, "metadata"), "dropped_events"), 0);
}

static void an_op_has_its_device_and_time(void **state)
{
    static const op matmul = {
        .name = "dense/MatMul", .label = "dense/MatMul = MatMul(x, w)", .begin_ns = 1700000000123456789, .length_ns = 4321};
    (void)state;
    hs__json_value trace = trace_of(NULL, 0, &matmul, 1, NO_LIMIT);
    hs__json_value x = event(trace, "X", 0);
    assert_string_equal(json_text(x, "name"), "dense/MatMul");
    assert_string_equal(json_text(args(x), "label"), "dense/MatMul = MatMul(x, w)");
    assert_true(json_number(x, "ts") > 1700000000123456.5 && json_number(x, "ts") < 1700000000123457);
    assert_true(json_number(x, "dur") == 4.321);
    assert_string_equal(json_text(event(trace, "M", 0), "name"), "process_name");
    assert_string_equal(json_text(args(event(trace, "M", 0)), "name"), "/device:CPU:0");
    assert_int_equal(json_int(event(trace, "M", 0), "pid"), json_int(x, "pid"));
}

static void microseconds_are_used_without_nanoseconds(void **state)
{
    static const op add = {.name = "Add", .begin_us = 12, .length_us = 34};
    (void)state;
    hs__json_value trace = trace_of(NULL, 0, &add, 1, NO_LIMIT);
    assert_true(json_number(event(trace, "X", 0), "ts") == 12);
    assert_true(json_number(event(trace, "X", 0), "dur") == 34);
}

/* The third op begins after the end of the first. */
static void ops_that_overlap_have_different_lanes(void **state)
{
    static const op ops[] = {{.name = "a", .begin_ns = 1000, .length_ns = 10},
                             {.name = "b", .begin_ns = 1005, .length_ns = 100},
                             {.name = "c", .begin_ns = 1010, .length_ns = 10}};
    static const int64_t lanes[] = {0, 1, 0};
    (void)state;
    hs__json_value trace = trace_of(NULL, 0, ops, 3, NO_LIMIT);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(json_int(event(trace, "X", i), "tid"), lanes[i]);
    assert_string_equal(json_text(args(event(trace, "M", 2)), "name"), "ops 1");
}

static void more_concurrent_ops_than_lanes(void **state)
{
    op ops[100];
    (void)state;
    for (size_t i = 0; i < 100; i++)
        ops[i] = (op){.name = "op", .begin_ns = 1 + (int64_t)i, .length_ns = 1000};
    hs__json_value trace = trace_of(NULL, 0, ops, 100, NO_LIMIT);
    assert_int_equal(json_int(event(trace, "X", 63), "tid"), 63);
    assert_int_equal(json_int(event(trace, "X", 64), "tid"), 0);
    assert_null(event(trace, "X", 100).text);
}

static void the_memory_that_an_op_allocated(void **state)
{
    static const op ops[] = {{.name = "a", .label = "a = A()", .begin_ns = 1, .memory = 4096},
                             {.name = "b", .begin_ns = 2}};
    (void)state;
    hs__json_value trace = trace_of(NULL, 0, ops, 2, NO_LIMIT);
    hs__json_value memory = json_at(hs__json_member(args(event(trace, "X", 0)), "memory"), 0);
    assert_string_equal(json_text(memory, "allocator"), "cpu");
    assert_int_equal(json_int(memory, "bytes"), 4096);
    assert_null(hs__json_member(args(event(trace, "X", 1)), "memory").text);
}

static void a_hook_is_a_thread(void **state)
{
    static const hs__hook_span spans[] = {
        {"saver", "before_run", 1000, 3500}, {"logger", "before_run", 4000, 4001}, {"saver", "after_run", 5000, 6000}};
    (void)state;
    hs__json_value trace = trace_of(spans, 3, NULL, 0, NO_LIMIT);
    hs__json_value first = event(trace, "X", 0), second = event(trace, "X", 1), third = event(trace, "X", 2);
    assert_string_equal(json_text(first, "name"), "before_run");
    assert_string_equal(json_text(args(first), "hook"), "saver");
    assert_true(json_number(first, "ts") == 1001); /* moved by a millisecond */
    assert_true(json_number(first, "dur") == 2.5);
    assert_int_equal(json_int(first, "tid"), json_int(third, "tid"));
    assert_int_not_equal(json_int(first, "tid"), json_int(second, "tid"));
    assert_string_equal(json_text(args(event(trace, "M", 0)), "name"), "hooks");
    assert_string_equal(json_text(args(event(trace, "M", 1)), "name"), "saver");
    assert_string_equal(json_text(args(event(trace, "M", 2)), "name"), "logger");
}

static void names_may_have_any_bytes(void **state)
{
    static const op ops[] = {{.name = "a\"b\\c\nd\x01", .begin_ns = 1},
                             {.name = "\xc3\xa4\xe2\x82\xac", .begin_ns = 2},
                             {.name = "x\xffy\xc3", .begin_ns = 3}};
    (void)state;
    hs__json_value trace = trace_of(NULL, 0, ops, 3, NO_LIMIT);
    assert_string_equal(json_text(event(trace, "X", 0), "name"), "a\"b\\c\nd\x01");
    assert_string_equal(json_text(event(trace, "X", 1), "name"), "\xc3\xa4\xe2\x82\xac");
    assert_string_equal(json_text(event(trace, "X", 2), "name"), "x\xef\xbf\xbdy\xef\xbf\xbd");
}

static void impossible_times_are_clamped(void **state)
{
    static const op ops[] = {{.name = "a", .begin_ns = INT64_MIN, .length_ns = INT64_MIN},
                             {.name = "b", .begin_ns = INT64_MAX, .length_ns = INT64_MAX},
                             {.name = "c", .begin_us = INT64_MAX, .length_us = INT64_MAX},
                             {.name = "d", .begin_us = INT64_MIN, .length_us = INT64_MIN}};
    static const hs__hook_span spans[] = {{"h", "before_run", INT64_MAX, INT64_MIN},
                                         {"h", "after_run", INT64_MIN, INT64_MAX}};
    (void)state;
    hs__json_value trace = trace_of(spans, 2, ops, 4, NO_LIMIT);
    for (size_t i = 0; i < 6; i++)
        assert_true(json_number(event(trace, "X", i), "ts") >= 0 && json_number(event(trace, "X", i), "dur") >= 0);
}

static void events_beyond_the_limit_are_dropped_and_counted(void **state)
{
    op ops[100];
    static const hs__hook_span span = {"saver", "before_run", 1000, 3500};
    (void)state;
    for (size_t i = 0; i < 100; i++)
        ops[i] = (op){.name = "op", .begin_ns = 1 + (int64_t)i, .length_ns = 1};
    hs__json_value trace = trace_of(&span, 1, ops, 100, 1000);
    size_t kept = 0;
    while (event(trace, "X", kept).text)
        kept++;
    assert_in_range(kept, 2, 50);
    assert_int_equal(json_int(hs__json_member(trace, "metadata"), "dropped_events"), 101 - (int64_t)kept);
    assert_in_range(events_bytes, 500, 1000);
}

static void a_limit_may_drop_all_events(void **state)
{
    static const hs__hook_span span = {"saver", "before_run", 1000, 3500};
    static const op add = {.name = "Add", .begin_ns = 1};
    (void)state;
    hs__json_value trace = trace_of(&span, 1, &add, 1, 1);
    assert_int_equal(json_size(hs__json_member(trace, "traceEvents")), 0);
    assert_int_equal(json_int(hs__json_member(trace, "metadata"), "dropped_events"), 2);
}

static void bytes_that_are_not_metadata_are_refused(void **state)
{
    hs__trace trace;
    hs_error err = {0};
    (void)state;
    hs__trace_begin(&trace, hs_env_default(), NO_LIMIT);
    assert_fails(hs__trace_run(&trace, (hs_bytes){"\x0a\x7f?", 3}, false, &err), HS_DATA_LOSS, &err,
                 "the backend's run metadata of 3 bytes is not a RunMetadata");
    hs__trace_free(&trace);
}

static hs_code trace_an_op(test_env *t, void *user)
{
    hs__trace trace;
    hs_error err = {0};
    hs__trace_begin(&trace, &t->env, NO_LIMIT);
    hs_code code = hs__trace_run(&trace, *(const hs_bytes *)user, true, &err);
    code = code ? code : hs__trace_finish(&trace, 7, &err);
    hs__trace_free(&trace);
    return code;
}

static void each_allocation(void **state)
{
    static const op add = {.name = "Add", .label = "Add = Add()", .begin_ns = 1, .memory = 1};
    hs_bytes metadata = metadata_of(&add, 1);
    (void)state;
    test_each_allocation(trace_an_op, &metadata);
    free((void *)(uintptr_t)metadata.data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_trace),
        cmocka_unit_test(an_op_has_its_device_and_time),
        cmocka_unit_test(microseconds_are_used_without_nanoseconds),
        cmocka_unit_test(ops_that_overlap_have_different_lanes),
        cmocka_unit_test(more_concurrent_ops_than_lanes),
        cmocka_unit_test(the_memory_that_an_op_allocated),
        cmocka_unit_test(a_hook_is_a_thread),
        cmocka_unit_test(names_may_have_any_bytes),
        cmocka_unit_test(impossible_times_are_clamped),
        cmocka_unit_test(events_beyond_the_limit_are_dropped_and_counted),
        cmocka_unit_test(a_limit_may_drop_all_events),
        cmocka_unit_test(bytes_that_are_not_metadata_are_refused),
        cmocka_unit_test(each_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
