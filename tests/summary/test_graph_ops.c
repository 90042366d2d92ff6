/* SPDX-License-Identifier: Apache-2.0 */
/* Single summary ops of the embedded graph. */
#include "summary/shown.h"

#include <math.h>
#include <pthread.h>

/* Single ops. */

static void a_scalar_has_the_value_of_its_tensor(void **state)
{
    bare *b = *state;
    shown_add_loss(b);
    assert_int_equal(hs_graph_summary(b->graph, HS_SUMMARY_SCALAR, .name = "metrics/loss", .tensor = "loss"), HS_OK);
    bare_open(b);
    assert_string_equal(shown_by(b, "summary/metrics/loss"), "metrics/loss=0.5");
    shown_loss = -3;
    assert_string_equal(shown_by(b, "summary/metrics/loss"), "metrics/loss=-3");
}

static void the_tag_may_differ_from_the_name(void **state)
{
    bare *b = *state;
    shown_add_loss(b);
    hs_graph_add_summary(b->graph, HS_SUMMARY_SCALAR,
                         HS_GRAPH_SUMMARY_DEF(.name = "s", .tensor = "loss", .tag = "größe of it"));
    bare_open(b);
    assert_string_equal(shown_by(b, "summary/s"), "größe of it=0.5");
}

/* Either may be defined first. */
static void a_summary_may_have_the_name_of_its_tensor(void **state)
{
    bare *b = *state;
    assert_int_equal(hs_graph_summary(b->graph, HS_SUMMARY_SCALAR, .name = "loss", .tensor = "loss"), HS_OK);
    shown_add_loss(b);
    bare_open(b);
    assert_string_equal(shown_by(b, "summary/loss"), "loss=0.5");
}

static hs_code make_pair(void *self, hs_op *op, hs_error *err)
{
    (void)self, (void)err;
    *(int64_t *)hs_op_output(op, 0)->data = 7;
    *(float *)hs_op_output(op, 1)->data = 1.5F;
    return HS_OK;
}

static void variables_feeds_and_outputs_can_be_summarized(void **state)
{
    bare *b = *state;
    static bool on[1] = {true};
    float fed = 9;
    hs_graph_variable(b->graph, "on", HS_BOOL, HS_SHAPE(1), on);
    hs_graph_placeholder(b->graph, "x", HS_FLOAT, HS_ANY_SHAPE);
    hs_graph_op(b->graph, .name = "pair", .run = make_pair,
                .outputs = HS_OUTPUTS({.dtype = HS_INT64}, {.dtype = HS_FLOAT}));
    hs_graph_summary(b->graph, HS_SUMMARY_SCALAR, .name = "s/on", .tensor = "on");
    hs_graph_summary(b->graph, HS_SUMMARY_SCALAR, .name = "s/x", .tensor = "x");
    hs_graph_summary(b->graph, HS_SUMMARY_SCALAR, .name = "s/second", .tensor = "pair:1");
    bare_open(b);
    const hs_feed feeds[] = {{.name = "x", .value = hs_tensor_of(HS_FLOAT, HS_SHAPE(1, 1), &fed)}, {.name = NULL}};
    assert_ok(bare_run(b, HS_NAMES("summary/s/on", "summary/s/x", "summary/s/second"), feeds, NULL), &b->err);
    assert_string_equal(shown_text(&b->values[0]), "s/on=1");
    assert_string_equal(shown_text(&b->values[1]), "s/x=9");
    assert_string_equal(shown_text(&b->values[2]), "s/second=1.5");
}

static void tensors_that_are_not_numbers_are_not_scalars(void **state)
{
    bare *b = *state;
    static float two[2];
    hs_graph_value(b->graph, "two", HS_FLOAT, HS_SHAPE(2), two);
    hs_graph_placeholder(b->graph, "x", HS_STRING, HS_ANY_SHAPE);
    hs_graph_summary(b->graph, HS_SUMMARY_SCALAR, .name = "s", .tensor = "two");
    hs_graph_summary(b->graph, HS_SUMMARY_SCALAR, .name = "t", .tensor = "x");
    bare_open(b);
    assert_fails(bare_run(b, HS_NAMES("summary/s"), NULL, NULL), HS_INVALID_ARGUMENT, &b->err, "op 'summary/s'");
    assert_contains(b->err.message, "float [2]");
    const hs_string word = {"1", 1};
    const hs_feed feeds[] = {{.name = "x", .value = hs_tensor_of(HS_STRING, HS_SCALAR, &word)}, {.name = NULL}};
    assert_fails(bare_run(b, HS_NAMES("summary/t"), feeds, NULL), HS_INVALID_ARGUMENT, &b->err, "string []");
}

static hs_code to_host(void *user, void *host, const void *device, size_t bytes, hs_error *err)
{
    (void)err;
    ++*(int *)user;
    memcpy(host, device, bytes);
    return HS_OK;
}

static hs_code from_host(void *user, void *device, const void *host, size_t bytes, hs_error *err)
{
    (void)user, (void)err;
    memcpy(device, host, bytes);
    return HS_OK;
}

static void a_scalar_may_be_in_device_memory(void **state)
{
    bare *b = *state;
    int copies = 0;
    double value = 4;
    const hs_memory memory = HS_INIT(hs_memory, .to_host = to_host, .from_host = from_host, .user = &copies);
    hs_graph_add_variable(
        b->graph, HS_VARIABLE_DEF(.name = "v", .dtype = HS_DOUBLE, .shape = HS_SCALAR, .data = &value, .memory = &memory));
    hs_graph_summary(b->graph, HS_SUMMARY_SCALAR, .name = "s", .tensor = "v");
    bare_open(b);
    assert_string_equal(shown_by(b, "summary/s"), "s=4");
    assert_int_equal(copies, 1);
}

static void a_summary_runs_after_its_control_inputs(void **state)
{
    bare *b = *state;
    static double w;
    w = 0;
    hs_graph_add_summary(b->graph, HS_SUMMARY_SCALAR, HS_GRAPH_SUMMARY_DEF(.name = "early", .tensor = "w"));
    hs_graph_add_summary(b->graph, HS_SUMMARY_SCALAR,
                         HS_GRAPH_SUMMARY_DEF(.name = "late", .tensor = "w", .control_inputs = HS_NAMES("bump")));
    hs_graph_variable(b->graph, "w", HS_DOUBLE, HS_SCALAR, &w);
    hs_graph_op(b->graph, .name = "bump", .run = bare_bump, .writes = HS_NAMES("w"));
    bare_open(b);
    assert_ok(bare_run(b, HS_NAMES("bump", "summary/early", "summary/late"), NULL, NULL), &b->err);
    assert_string_equal(shown_text(&b->values[1]), "early=0");
    assert_string_equal(shown_text(&b->values[2]), "late=1");
}

static bool count_writes(void *user, size_t index)
{
    (void)index;
    ++*(int *)user;
    return true;
}

static void no_guard(void *user)
{
    (void)user;
}

static void copying_variables_does_not_wait_for_a_summary(void **state)
{
    bare *b = *state;
    const char *merged;
    static double w;
    int writes = 0;
    hs_graph_variable(b->graph, "w", HS_DOUBLE, HS_SCALAR, &w);
    hs_graph_summary(b->graph, HS_SUMMARY_SCALAR, .name = "s", .tensor = "w");
    hs_graph_merge_all_summaries(b->graph, &merged);
    bare_open(b);
    b->ops->guard(b->session, (hs_write_guard){count_writes, no_guard, &writes});
    shown_by(b, merged);
    assert_int_equal(writes, 0);
    b->ops->guard(b->session, (hs_write_guard){NULL, NULL, NULL});
}

/* Invalid definitions. */

static void refuses(bare *b, hs_summary_kind kind, const hs_graph_summary_def *def, hs_code code, const char *message)
{
    assert_int_equal(hs_graph_add_summary(b->graph, kind, def), code);
    assert_contains(test_graph_error(b->graph)->message, message);
    assert_int_equal(shown_collected(b, HS_SUMMARIES), 0);
}

static void a_graph_is_needed(void **state)
{
    (void)state;
    assert_int_equal(hs_graph_summary(NULL, HS_SUMMARY_SCALAR, .name = "s", .tensor = "x"), HS_INVALID_ARGUMENT);
    assert_int_equal(hs_graph_merge_all_summaries(NULL, NULL), HS_INVALID_ARGUMENT);
}

static void a_definition_is_needed(void **state)
{
    refuses(*state, HS_SUMMARY_SCALAR, NULL, HS_INVALID_ARGUMENT, "NULL");
}

static void a_definition_needs_its_size(void **state)
{
    refuses(*state, HS_SUMMARY_SCALAR, &(hs_graph_summary_def){.name = "s", .tensor = "x"}, HS_INVALID_ARGUMENT,
            "HS_INIT(hs_graph_summary_def");
}

static void a_name_is_needed(void **state)
{
    refuses(*state, HS_SUMMARY_SCALAR, HS_GRAPH_SUMMARY_DEF(.tensor = "x"), HS_INVALID_ARGUMENT, "is missing");
}

static void a_tensor_is_needed(void **state)
{
    refuses(*state, HS_SUMMARY_SCALAR, HS_GRAPH_SUMMARY_DEF(.name = "s"), HS_INVALID_ARGUMENT, "'s'");
}

static void an_unknown_kind_is_refused(void **state)
{
    refuses(*state, (hs_summary_kind)99, HS_GRAPH_SUMMARY_DEF(.name = "s", .tensor = "x"), HS_INVALID_ARGUMENT, "kind");
}

static void an_empty_tag_is_refused(void **state)
{
    refuses(*state, HS_SUMMARY_SCALAR, HS_GRAPH_SUMMARY_DEF(.name = "s", .tensor = "x", .tag = ""), HS_INVALID_ARGUMENT,
            "tag");
}

static void a_tag_that_is_not_utf_8_is_refused(void **state)
{
    refuses(*state, HS_SUMMARY_SCALAR, HS_GRAPH_SUMMARY_DEF(.name = "s", .tensor = "x", .tag = "\xff"), HS_INVALID_ARGUMENT,
            "UTF-8");
}

static void a_negative_number_of_outputs_is_refused(void **state)
{
    refuses(*state, HS_SUMMARY_SCALAR, HS_GRAPH_SUMMARY_DEF(.name = "s", .tensor = "x", .max_outputs = -1),
            HS_INVALID_ARGUMENT, "max_outputs is -1");
}

static void a_sample_rate_that_is_not_a_number_is_refused(void **state)
{
    refuses(*state, HS_SUMMARY_SCALAR, HS_GRAPH_SUMMARY_DEF(.name = "s", .tensor = "x", .sample_rate = (double)NAN),
            HS_INVALID_ARGUMENT, "sample_rate");
}

static void an_invalid_sample_rate_is_refused(void **state)
{
    refuses(*state, HS_SUMMARY_AUDIO, HS_GRAPH_SUMMARY_DEF(.name = "s", .tensor = "x", .sample_rate = 2e6),
            HS_INVALID_ARGUMENT, "sample_rate");
}

static void a_tag_that_is_already_used_is_refused(void **state)
{
    bare *b = *state;
    hs_graph_summary(b->graph, HS_SUMMARY_SCALAR, .name = "first", .tensor = "loss");
    hs_graph_summary_def def = HS_INIT(hs_graph_summary_def, .name = "second", .tensor = "loss", .tag = "first");
    assert_int_equal(hs_graph_add_summary(b->graph, HS_SUMMARY_SCALAR, &def), HS_ALREADY_EXISTS);
    assert_contains(test_graph_error(b->graph)->message, "'first'");
}

static void a_refused_summary_adds_nothing(void **state)
{
    bare *b = *state;
    shown_add_loss(b);
    hs_graph_summary(b->graph, HS_SUMMARY_SCALAR, .name = "s", .tensor = "loss");
    assert_int_equal(hs_graph_summary(b->graph, HS_SUMMARY_SCALAR, .name = "s", .tensor = "loss"), HS_ALREADY_EXISTS);
    assert_int_equal(shown_collected(b, HS_SUMMARIES), 1);
}

static void a_finalized_graph_refuses_summaries(void **state)
{
    bare *b = *state;
    bare_open(b);
    assert_int_equal(hs_graph_summary(b->graph, HS_SUMMARY_SCALAR, .name = "s", .tensor = "loss"), HS_FAILED_PRECONDITION);
    assert_int_equal(hs_graph_merge_all_summaries(b->graph, NULL), HS_FAILED_PRECONDITION);
    assert_int_equal(hs_graph_error(b->graph, NULL), HS_OK);
}

static void a_missing_tensor_is_named_when_the_session_opens(void **state)
{
    bare *b = *state;
    hs_graph_summary(b->graph, HS_SUMMARY_SCALAR, .name = "s", .tensor = "lost");
    assert_fails(bare_try_open(b), HS_NOT_FOUND, &b->err, "'lost'");
}

/* Concurrently with a thread that fills a queue. */

enum { RUNS = 300 };

typedef struct {
    const hs_backend_ops *ops;
    void *session;
    hs_node node;
    const char *expected;
} runner;

static void *run_often(void *user)
{
    const runner *r = user;
    for (int i = 0; i < RUNS; i++) {
        hs_tensor value;
        hs_backend_call call = {.size = sizeof call, .fetches = &r->node, .n_fetches = 1, .values = &value};
        if (r->ops->run(r->session, &call, NULL))
            return "it failed";
        const hs_string *string = value.data;
        if (memcmp(string->data, r->expected, string->bytes) != 0)
            return "it gave something else";
    }
    return NULL;
}

static void a_fork_runs_a_summary_concurrently_with_the_session(void **state)
{
    (void)state;
    hs_error err = {0};
    pthread_t thread;
    void *wrong = NULL;
    hs_summary *summary = hs_summary_new(NULL);
    hs_summary_scalar(summary, "s", 1.5, NULL);
    hs_graph *graph = hs_graph_new(NULL);
    hs_graph_op(graph, .name = "pair", .run = make_pair, .outputs = HS_OUTPUTS({.dtype = HS_INT64}, {.dtype = HS_FLOAT}));
    hs_graph_summary(graph, HS_SUMMARY_SCALAR, .name = "s", .tensor = "pair:1");
    hs_backend b = hs_graph_backend(graph);
    runner mine = {.ops = b.ops, .expected = hs_summary_serialized(summary).data}, other;
    assert_ok(b.ops->open(graph, "", (hs_bytes){NULL, 0}, &mine.session, &err), &err);
    assert_ok(hs_backend_find(b, "summary/s", &mine.node, &err), &err);
    other = mine;
    assert_ok(b.ops->fork(mine.session, &other.session, &err), &err);
    assert_int_equal(pthread_create(&thread, NULL, run_often, &other), 0);
    assert_null(run_often(&mine));
    pthread_join(thread, &wrong);
    assert_null(wrong);
    b.ops->close(other.session, NULL);
    b.ops->close(mine.session, NULL);
    hs_graph_free(graph);
    hs_summary_free(summary);
}

#define test(name) cmocka_unit_test_setup_teardown(name, bare_setup, bare_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(a_scalar_has_the_value_of_its_tensor),
        test(the_tag_may_differ_from_the_name),
        test(a_summary_may_have_the_name_of_its_tensor),
        test(variables_feeds_and_outputs_can_be_summarized),
        test(tensors_that_are_not_numbers_are_not_scalars),
        test(a_scalar_may_be_in_device_memory),
        test(a_summary_runs_after_its_control_inputs),
        test(copying_variables_does_not_wait_for_a_summary),
        cmocka_unit_test(a_graph_is_needed),
        test(a_definition_is_needed),
        test(a_definition_needs_its_size),
        test(a_name_is_needed),
        test(a_tensor_is_needed),
        test(an_unknown_kind_is_refused),
        test(an_empty_tag_is_refused),
        test(a_tag_that_is_not_utf_8_is_refused),
        test(a_negative_number_of_outputs_is_refused),
        test(a_sample_rate_that_is_not_a_number_is_refused),
        test(an_invalid_sample_rate_is_refused),
        test(a_tag_that_is_already_used_is_refused),
        test(a_refused_summary_adds_nothing),
        test(a_finalized_graph_refuses_summaries),
        test(a_missing_tensor_is_named_when_the_session_opens),
        cmocka_unit_test(a_fork_runs_a_summary_concurrently_with_the_session),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
