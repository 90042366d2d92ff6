/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation may fail. A steady session allocates nothing. */
#include "session/probe.h"

#include "backends/bare.h"

#include "run_metadata.pb-c.h"

/* A model with an owned variable, outputs, strings and a step. */

static hs_code speak(void *self, hs_op *op, hs_error *err)
{
    static const hs_string words[] = {{"summary", 7}};
    (void)self;
    hs_tensor view = hs_tensor_of(HS_STRING, HS_SCALAR, words);
    return hs_op_set_output(op, 0, &view, err);
}

static hs_code save_nothing(void *self, hs_state_writer *out, hs_error *err)
{
    (void)self, (void)out, (void)err;
    return HS_OK;
}

static hs_code load_nothing(void *self, hs_state_reader *in, hs_error *err)
{
    (void)self, (void)in, (void)err;
    return HS_OK;
}

static hs_graph *new_model(const hs_env *env)
{
    hs_graph *g = hs_graph_new(env);
    if (!g)
        return NULL;
    hs_variable_def w = HS_INIT(hs_variable_def, .name = "w", .dtype = HS_DOUBLE);
    hs_graph_add_variable(g, &w);
    hs_graph_placeholder(g, "x", HS_DOUBLE, HS_SCALAR);
    hs_graph_op(g, .name = "loss", .run = bare_add_one, .inputs = HS_NAMES("w"), .outputs = BARE_SCALAR);
    hs_graph_op(g, .name = "train", .run = bare_bump, .inputs = HS_NAMES("loss:0"), .control_inputs = HS_NAMES("loss"),
                .writes = HS_NAMES("w"), .advances_step = true);
    hs_graph_op(g, .name = "more", .run = bare_add_one, .inputs = HS_NAMES("x"), .outputs = BARE_SCALAR);
    hs_graph_op(g, .name = "summary", .run = speak, .outputs = HS_OUTPUTS({.dtype = HS_STRING}));
    hs_graph_state(g, "loader", save_nothing, load_nothing, NULL);
    hs_graph_collect(g, HS_SUMMARY_OP, "summary");
    return g;
}

/* A hook that uses every function of a run, with state. */

static hs_code before(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    (void)err;
    *args = self;
    hs_run_context_request_boundary(run);
    return HS_OK;
}

static hs_code after(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)self, (void)values;
    const hs_run_values *inner;
    const hs_run_args args = HS_INIT(hs_run_args, .names = HS_NAMES("loss", "summary"));
    return hs_raw_session_run(hs_run_context_session(run), &args, &inner, err);
}

static const hs_hook_ops busy = HS_INIT(hs_hook_ops, .name = "busy", .before_run = before, .after_run = after,
                                        .save_state = save_nothing, .load_state = load_nothing);

static void assert_metadata(hs_bytes bytes)
{
    Hs__Pb__RunMetadata *metadata = hs__pb__run_metadata__unpack(NULL, bytes.size, bytes.data);
    assert_non_null(metadata);
    assert_int_equal(metadata->n_partition_graphs, 1);
    assert_int_equal(metadata->step_stats->n_dev_stats, 1);
    hs__pb__run_metadata__free_unpacked(metadata, NULL);
}

static hs_code run_once(hs_session *session, hs_error *err)
{
    const double one = 1;
    hs_run_options options = HS_INIT(hs_run_options, .trace_level = 1, .output_partition_graphs = true);
    hs_run_args args = HS_INIT(
        hs_run_args, .fetches = HS_DICT({"train", HS_LEAF("train")}, {"all", HS_LIST(HS_LEAF("loss:0"), HS_LEAF("more"))}),
        .feeds = (hs_feed[]){play_feed("x", &one), {NULL}}, .options = &options);
    const hs_run_values *values;
    hs_code code = hs_session_run_args(session, &args, &values, err);
    if (!code)
        assert_metadata(hs_run_values_metadata(values));
    return code;
}

static hs_code whole_session(test_env *t, void *user)
{
    hs_error err = {0};
    hs_run_options watched = HS_INIT(hs_run_options, .debug_watches = HS_DEBUG_WATCHES({.node_name = "w"}));
    hs_run_args first = HS_INIT(hs_run_args, .names = HS_NAMES("w", "global_step"), .options = &watched);
    hs_run_args second = HS_INIT(hs_run_args, .fetches = HS_DICT({"s", HS_LEAF("summary")}));
    hs_graph *graph = new_model(&t->env);
    probe *p = user;
    hs_hook hooks[] = {{.ops = &busy, .self = &first}, probe_hook(p), {.ops = &busy, .self = &second}, {.ops = NULL}};
    hs_session *session =
        hs_session_open(hs_graph_backend(graph), HS_SESSION_OPTIONS(.hooks = hooks, .config = {"config", 6}), &err);
    hs_code code = HS_OK;
    for (int i = 0; session && !code && i < 2; i++)
        code = run_once(session, &err);
    hs_outcome outcome = hs_session_close(session, &err);
    hs_graph_free(graph);
    return code ? code : outcome.error.code;
}

static void any_allocation_of_a_session_may_fail(void **state)
{
    (void)state;
    probe p = {.name = "p"};
    test_each_allocation(whole_session, &p);
    assert_true(p.destroyed > 20); /* once for each attempt */
    assert_int_equal(p.calls[PROBE_CLOSE], p.calls[PROBE_BEGIN]);
}

/* A run that failed because memory was exhausted does not end the session. */
static hs_code go_on(test_env *t, void *user)
{
    (void)user;
    hs_error err = {0};
    hs_graph *graph = new_model(&t->env);
    hs_session *session = hs_session_open(hs_graph_backend(graph), NULL, &err);
    hs_code code = session ? run_once(session, &err) : err.code;
    if (session && code == HS_RESOURCE_EXHAUSTED) {
        const hs_run_values *values;
        assert_ok(run_once(session, &err), &err);
        assert_ok(hs_session_run_args(session, HS_RUN_ARGS(.names = HS_NAMES("w")), &values, &err), &err);
        assert_true(hs_run_values_number(values, 0) ==
                    (double)hs_session_global_step(session, NULL)); /* every run was counted once */
    }
    hs_session_close(session, &err);
    hs_graph_free(graph);
    return code;
}

static void a_run_may_be_tried_again_when_there_is_memory(void **state)
{
    (void)state;
    test_each_allocation(go_on, NULL);
}

/* Invalid graphs, with and without memory for their error. */
static hs_code senseless(test_env *t, void *user)
{
    (void)user;
    hs_error err = {0};
    hs_graph *graph = new_model(&t->env);
    hs_graph_op(graph, .name = "a", .control_inputs = HS_NAMES("b"));
    hs_graph_op(graph, .name = "b", .control_inputs = HS_NAMES("a"));
    assert_null(hs_session_open(hs_graph_backend(graph), NULL, &err));
    hs_graph_free(graph);
    return err.code == HS_INVALID_ARGUMENT ? HS_OK : err.code;
}

static void errors_of_a_graph_need_no_memory(void **state)
{
    (void)state;
    test_each_allocation(senseless, NULL);
}

/* Steady state, with the schedules of the built-in hooks: a step counter that fetches nothing, a check of the loss in
 * every run, a log line every 10 runs, a summary every 100, a save at a boundary every 50. */

typedef struct {
    const hs_run_args *args;
    int every, runs;
    bool saves;
} schedule;

static hs_code on_schedule(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    schedule *r = self;
    if (r->runs++ % r->every == 0) {
        *args = r->args;
        if (r->saves)
            hs_run_context_request_boundary(run);
    }
    hs_run_context_now(run);
    hs_run_context_global_step(run, err);
    return err->code;
}

static hs_code read_values(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)self;
    for (size_t i = 0; i < hs_run_values_count(values); i++)
        hs_run_values_tensor(values, i);
    hs_run_context_global_step(run, err);
    return err->code;
}

static hs_code evaluate(void *self, hs_run_context *run, hs_error *err)
{
    const hs_run_args args = HS_INIT(hs_run_args, .names = HS_NAMES("loss"));
    const schedule *r = self;
    return r->saves ? hs_raw_session_run(hs_run_context_session(run), &args, NULL, err) : HS_OK;
}

static const hs_hook_ops rhythmic =
    HS_INIT(hs_hook_ops, .name = "scheduled", .before_run = on_schedule, .after_run = read_values, .boundary = evaluate);

static void a_steady_session_allocates_nothing(void **state)
{
    play *p = *state;
    const hs_run_args loss = HS_INIT(hs_run_args, .names = HS_NAMES("loss"));
    const hs_run_args line = HS_INIT(hs_run_args, .names = HS_NAMES("loss", "w"));
    const hs_run_args summary = HS_INIT(hs_run_args, .names = HS_NAMES("summary"));
    schedule schedules[] = {
        {NULL, 1, 0, false}, {&loss, 1, 0, false}, {&line, 10, 0, false}, {&summary, 100, 0, false}, {NULL, 50, 0, true}};
    hs_hook hooks[5];
    for (size_t i = 0; i < 5; i++)
        hooks[i] = (hs_hook){.ops = &rhythmic, .self = &schedules[i]};
    hs_graph *graph = new_model(&p->t.env);
    p->backend = hs_graph_backend(graph);
    play_open(p, hooks, 5);
    for (int i = 0; i < 101; i++)
        play_train(p);
    size_t before = p->t.allocations;
    for (int i = 0; i < 1000; i++)
        play_train(p);
    assert_int_equal(p->t.allocations, before);
    assert_int_equal(play_close(p)->step, 1101);
    hs_graph_free(graph);
}

/* The caller fetches and feeds different tensors in every run. */
static void steady_changes_allocate_nothing(void **state)
{
    play *p = *state;
    const double x = 1;
    hs_graph *graph = new_model(&p->t.env);
    p->backend = hs_graph_backend(graph);
    play_open(p, NULL, 0);
    size_t before = 0;
    for (int i = 0; i < 1010; i++) {
        if (i == 10)
            before = p->t.allocations;
        hs_feed feeds[] = {play_feed("x", &x), {NULL}};
        assert_ok(play_run(p, i % 2 ? HS_NAMES("train", "more") : HS_NAMES("more"), feeds), &p->err);
        assert_ok(play_args(p, HS_RUN_ARGS(.fetches = HS_DICT({"loss", HS_LEAF("loss:0")}))), &p->err);
    }
    assert_int_equal(p->t.allocations, before);
    play_close(p);
    hs_graph_free(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_allocation_of_a_session_may_fail),
        cmocka_unit_test(a_run_may_be_tried_again_when_there_is_memory),
        cmocka_unit_test(errors_of_a_graph_need_no_memory),
        play_test(a_steady_session_allocates_nothing),
        play_test(steady_changes_allocate_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
