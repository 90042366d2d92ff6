/* SPDX-License-Identifier: Apache-2.0 */
/* A typical program with feeds, nested fetches and run options. */
#include "support/test.h"

typedef struct {
    float x[4 * 3];
    int64_t y[4];
} batch_data;

static hs_code train_op(void *self, hs_op *op, hs_error *err)
{
    const float *images = hs_op_input(op, 0)->data;
    float *loss = hs_op_output(op, 0)->data;
    (void)self, (void)err;
    *loss = images[0] + images[1];
    return HS_OK;
}

static hs_code accuracy(void *self, hs_op *op, hs_error *err)
{
    const int64_t *labels = hs_op_input(op, 0)->data;
    float *out = hs_op_output(op, 0)->data;
    ++*(int *)self;
    (void)err;
    *out = (float)labels[0] / 4;
    return HS_OK;
}

static hs_graph *make_graph(int *evaluated)
{
    hs_graph *g = hs_graph_new(NULL);
    hs_graph_placeholder(g, "images", HS_FLOAT, HS_SHAPE(-1, 3));
    hs_graph_placeholder(g, "labels", HS_INT64, HS_SHAPE(-1));
    hs_graph_op(g, .name = "train_op", .inputs = HS_NAMES("images"), .outputs = HS_OUTPUTS({.dtype = HS_FLOAT}),
                .run = train_op, .advances_step = true);
    hs_graph_op(g, .name = "acc", .inputs = HS_NAMES("labels"), .outputs = HS_OUTPUTS({.dtype = HS_FLOAT}), .run = accuracy,
                .user = evaluated);
    return g;
}

static void feeds_and_nested_fetches(void **state)
{
    (void)state;
    int evaluated = 0;
    hs_error err = {0};
    batch_data batch = {.x = {1, 2}, .y = {3}};
    hs_graph *g = make_graph(&evaluated);
    hs_session *s = hs_session_open(hs_graph_backend(g), NULL, &err);
    assert_non_null(s);

    hs_run_args args =
        HS_INIT(hs_run_args,
                .fetches = HS_DICT({"train", HS_LEAF("train_op")},
                                   {"metrics", HS_DICT({"loss", HS_LEAF("train_op:0")}, {"accuracy", HS_LEAF("acc")})}),
                .feeds = HS_FEEDS({"images", hs_tensor_of(HS_FLOAT, HS_SHAPE(4, 3), batch.x)},
                                  {"labels", hs_tensor_of(HS_INT64, HS_SHAPE(4), batch.y)}));
    const hs_run_values *v;
    assert_ok(hs_session_run_args(s, &args, &v, &err), &err);
    assert_true(hs_run_values_number_at(v, "metrics/accuracy") == 0.75);
    assert_true(hs_run_values_number_at(v, "metrics/loss") == 3);
    assert_true(hs_run_values_number(v, 2) == 0.75);
    assert_int_equal(hs_run_values_count(v), 3);
    assert_int_equal(evaluated, 1);

    hs_outcome outcome = hs_session_close(s, &err);
    assert_int_equal(outcome.reason, HS_REASON_CLOSED);
    assert_int_equal(outcome.step, 1);
    hs_graph_free(g);
}

static void fetches_and_feeds_are_chosen_at_run_time(void **state)
{
    (void)state;
    int evaluated = 0;
    hs_error err = {0};
    batch_data batch = {.x = {1, 2}, .y = {3}};
    hs_graph *g = make_graph(&evaluated);
    hs_session *s = hs_session_open(hs_graph_backend(g), NULL, &err);
    char key[8], name[16], fed[8];
    snprintf(key, sizeof key, "loss");
    snprintf(name, sizeof name, "train_op:%d", 0);
    snprintf(fed, sizeof fed, "images");
    const hs_fetch loss = {.kind = HS_FETCH_LEAF, .name = name};
    const hs_fetch_entry in_metrics[] = {{key, &loss}, {NULL, NULL}};
    const hs_fetch metrics = {.kind = HS_FETCH_DICT, .entries = in_metrics};
    const hs_fetch_entry entries[] = {{"metrics", &metrics}, {NULL, NULL}};
    const hs_fetch fetches = {.kind = HS_FETCH_DICT, .entries = entries};
    const hs_feed feeds[] = {{fed, hs_tensor_of(HS_FLOAT, HS_SHAPE(4, 3), batch.x)}, {.name = NULL}};
    const hs_run_args args = HS_INIT(hs_run_args, .fetches = &fetches, .feeds = feeds);
    const hs_run_values *v;
    assert_ok(hs_session_run_args(s, &args, &v, &err), &err);
    assert_true(hs_run_values_number_at(v, "metrics/loss") == 3);
    hs_session_close(s, &err);
    hs_graph_free(g);
}

static void run_options_bring_metadata(void **state)
{
    (void)state;
    int evaluated = 0;
    hs_error err = {0};
    batch_data batch = {.x = {1, 2}, .y = {3}};
    hs_graph *g = make_graph(&evaluated);
    hs_session *s = hs_session_open(hs_graph_backend(g), NULL, &err);
    hs_run_options options = HS_INIT(hs_run_options, .trace_level = HS_TRACE_FULL);
    hs_run_args args = HS_INIT(hs_run_args, .names = HS_NAMES("acc"), .options = &options,
                               .feeds = HS_FEEDS({"labels", hs_tensor_of(HS_INT64, HS_SHAPE(4), batch.y)}));
    const hs_run_values *v;
    assert_ok(hs_session_run_args(s, &args, &v, &err), &err);
    assert_true(hs_run_values_metadata(v).size > 0);
    args.options = NULL;
    assert_ok(hs_session_run_args(s, &args, &v, &err), &err);
    assert_int_equal(hs_run_values_metadata(v).size, 0);
    hs_session_close(s, &err);
    hs_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(feeds_and_nested_fetches),
        cmocka_unit_test(fetches_and_feeds_are_chosen_at_run_time),
        cmocka_unit_test(run_options_bring_metadata),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
