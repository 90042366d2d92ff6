/* SPDX-License-Identifier: Apache-2.0 */
/* The summaries that a training session writes by default. */
#include "hooks/stage.h"
#include "summary/events.h"

typedef struct {
    hs_graph *graph;
    double loss;
    int evaluated;
} model;

static hs_code train(void *self, hs_op *op, hs_error *err)
{
    (void)err;
    ((model *)self)->loss = 1 / (double)(hs_op_global_step(op, NULL) + 1);
    return HS_OK;
}

static hs_code evaluate(void *self, hs_op *op, hs_error *err)
{
    (void)err;
    *(int32_t *)hs_op_output(op, 0)->data = ++((model *)self)->evaluated;
    return HS_OK;
}

static void build(model *m, const hs_env *env)
{
    *m = (model){.graph = hs_graph_new(env)};
    hs_graph_value(m->graph, "loss", HS_DOUBLE, HS_SCALAR, &m->loss);
    hs_graph_op(m->graph, .name = "train", .run = train, .user = m, .writes = HS_NAMES("loss"), .advances_step = true);
    hs_graph_op(m->graph, .name = "metric", .run = evaluate, .user = m, .outputs = HS_OUTPUTS({.dtype = HS_INT32}));
    hs_graph_summary(m->graph, HS_SUMMARY_SCALAR, .name = "s/loss", .tensor = "loss");
    hs_graph_summary(m->graph, HS_SUMMARY_SCALAR, .name = "s/metric", .tensor = "metric");
}

static void open_training(stage *s, const model *m, hs_training_options options)
{
    options.size = sizeof options;
    options.summary_dir = s->directory;
    options.save_summaries_steps = 2;
    s->session = hs_training_session_open(hs_graph_backend(m->graph), &options, &s->err);
    if (!s->session)
        fail_msg("%s", s->err.message);
}

static void they_are_written_at_their_time_and_cost_nothing_at_others(void **state)
{
    stage *s = *state;
    model m;
    build(&m, &s->t.env);
    open_training(s, &m, (hs_training_options)HS_INIT(hs_training_options));
    stage_run(s, "train", 4, 0);
    stage_close(s);
    assert_string_equal(events_text(s->directory), "version start@1 s/loss=1,s/metric=1@1 s/loss=0.333333,s/metric=2@3");
    assert_int_equal(m.evaluated, 2);
    hs_graph_free(m.graph);
}

static void a_summary_op_that_is_named_is_all_there_is(void **state)
{
    stage *s = *state;
    model m;
    build(&m, &s->t.env);
    hs_scaffold *scaffold = hs_scaffold_new(HS_SCAFFOLD_OPTIONS(.summary_op = "summary/s/loss", .env = &s->t.env), NULL);
    open_training(s, &m, (hs_training_options)HS_INIT(hs_training_options, .scaffold = scaffold));
    stage_run(s, "train", 1, 0);
    stage_close(s);
    assert_string_equal(events_text(s->directory), "version start@1 s/loss=1@1");
    hs_scaffold_free(scaffold);
    hs_graph_free(m.graph);
}

/* A hook that adds a summary to the graph. */

static hs_code add_summary(void *self, hs_backend backend, hs_error *err)
{
    (void)self, (void)err;
    hs_graph *graph = hs_graph_of(backend);
    return test_graph_has(graph, "summary/s/hook")
               ? HS_OK
               : hs_graph_summary(graph, HS_SUMMARY_SCALAR, .name = "s/hook", .tensor = "loss");
}

static const hs_hook_ops adds_summary = HS_INIT(hs_hook_ops, .name = "adds_summary", .begin = add_summary);

static void train_once(stage *s, const model *m)
{
    hs_hook hook = {.ops = &adds_summary};
    open_training(s, m, (hs_training_options)HS_INIT(hs_training_options, .hooks = HS_HOOKS(hook)));
    stage_run(s, "train", 1, 0);
    stage_close(s);
}

static void sessions_one_after_the_other_add_nothing_twice(void **state)
{
    stage *s = *state;
    model m;
    build(&m, &s->t.env);
    for (int i = 0; i < 3; i++) {
        train_once(s, &m);
        assert_string_equal(events_text(s->directory), "version start@1 s/loss=1,s/metric=1,s/hook=1@1");
        assert_int_equal(test_collection_size(hs_graph_backend(m.graph), HS_SUMMARIES), 3);
        assert_int_equal(test_collection_size(hs_graph_backend(m.graph), HS_SUMMARY_OP), 1);
        events_remove(s->directory);
        m.evaluated = 0;
    }
    hs_graph_free(m.graph);
}

static void a_summary_added_between_two_sessions_is_written(void **state)
{
    stage *s = *state;
    model m;
    build(&m, &s->t.env);
    open_training(s, &m, (hs_training_options)HS_INIT(hs_training_options));
    stage_close(s);
    events_remove(s->directory);
    train_once(s, &m);
    assert_string_equal(events_text(s->directory), "version start@1 s/loss=1,s/metric=1,s/hook=1@1");
    hs_graph_free(m.graph);
}

static void a_summary_that_cannot_be_made_is_named(void **state)
{
    stage *s = *state;
    model m;
    build(&m, &s->t.env);
    hs_graph_placeholder(m.graph, "x", HS_FLOAT, HS_SCALAR);
    hs_graph_summary(m.graph, HS_SUMMARY_SCALAR, .name = "s/x", .tensor = "x");
    open_training(s, &m, (hs_training_options)HS_INIT(hs_training_options));
    assert_fails(stage_run_once(s, "train"), HS_INVALID_ARGUMENT, &s->err, "'summary/s/x' needs it");
    hs_session_close(s->session, NULL);
    s->session = NULL;
    hs_graph_free(m.graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_stage(they_are_written_at_their_time_and_cost_nothing_at_others),
        with_stage(a_summary_op_that_is_named_is_all_there_is),
        with_stage(sessions_one_after_the_other_add_nothing_twice),
        with_stage(a_summary_added_between_two_sessions_is_written),
        with_stage(a_summary_that_cannot_be_made_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
