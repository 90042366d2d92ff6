/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/stage.h"

/* An input that feeds x with 1, 2 and so on, up to `last`. */
typedef struct {
    size_t calls;
    double x, last;
    bool nothing;
    hs_feed feeds[2];
} input;

static hs_code next(void *user, const hs_feed **feeds, hs_error *err)
{
    input *in = user;
    in->calls++;
    if (in->nothing)
        return HS_OK;
    if (in->x >= in->last)
        return hs_error_set(err, HS_OUT_OF_RANGE, "the input has %g numbers", in->last);
    in->x++;
    in->feeds[0] = (hs_feed){"x", hs_tensor_of(HS_DOUBLE, HS_SCALAR, &in->x)};
    *feeds = in->feeds;
    return HS_OK;
}

/* A session on a script with a placeholder x. */
static void open_fed(stage *s, input *in)
{
    hs_script_placeholder(s->script, "x");
    stage_open(s, hs_feed_fn(.feeds = next, .user = in));
}

static hs_code plus_one(void *self, hs_op *op, hs_error *err)
{
    (void)self, (void)err;
    *(double *)hs_op_output(op, 0)->data = *(const double *)hs_op_input(op, 0)->data + 1;
    return HS_OK;
}

static void bh_061_the_run_computes_with_the_feeds(void **state)
{
    stage *s = *state;
    input in = {.last = 9};
    hs_graph *graph = hs_graph_new(&s->t.env);
    hs_graph_placeholder(graph, "x", HS_DOUBLE, HS_SCALAR);
    hs_graph_op(graph, .name = "y", .run = plus_one, .inputs = HS_NAMES("x"), .outputs = HS_OUTPUTS({.dtype = HS_DOUBLE}));
    hs_hook hook = hs_feed_fn(.feeds = next, .user = &in);
    const hs_run_args wanted = HS_INIT(hs_run_args, .names = HS_NAMES("y"));
    const hs_run_values *values;
    assert_ok(stage_try(s, hs_graph_backend(graph), &hook, 1), &s->err);
    assert_ok(hs_session_run_args(s->session, &wanted, &values, &s->err), &s->err);
    assert_true(hs_run_values_number(values, 0) == 2);
    stage_close(s);
    hs_graph_free(graph);
}

static void bh_108s_it_feeds_and_fetches_nothing(void **state)
{
    stage *s = *state;
    input in = {.last = 9};
    open_fed(s, &in);
    stage_run(s, "train", 1, 0);
    assert_string_equal(hs_script_last_run(s->script), "fetch train; feed x");
}

static void bh_108s_once_for_each_attempt(void **state)
{
    stage *s = *state;
    input in = {.last = 9};
    hs_script_fail_at(s->script, 1, HS_UNAVAILABLE, "lost");
    open_fed(s, &in);
    assert_int_equal(stage_run_once(s, "train"), HS_UNAVAILABLE);
    stage_run(s, "train", 1, 0);
    assert_int_equal(in.calls, 2);
}

static void it_may_feed_nothing(void **state)
{
    stage *s = *state;
    input in = {.nothing = true};
    open_fed(s, &in);
    stage_run(s, "train", 1, 0);
    assert_string_equal(hs_script_last_run(s->script), "fetch train; feed");
}

static void the_end_of_the_input_ends_normally(void **state)
{
    stage *s = *state;
    input in = {.last = 2};
    open_fed(s, &in);
    stage_run(s, "train", 2, 0);
    assert_fails(stage_run_once(s, "train"), HS_OUT_OF_RANGE, &s->err,
                 "hook 'feed_fn', before_run at step 2: the input has 2");
    assert_true(hs_session_should_stop(s->session));
    stage_close(s);
    assert_int_equal(s->outcome.reason, HS_REASON_END_OF_INPUT);
}

static void only_the_kinds_of_run_that_its_flags_name(void **state)
{
    stage *s = *state;
    input in = {.last = 9};
    const hs_run_args evaluate = HS_INIT(hs_run_args, .kind = HS_RUN_EVAL);
    open_fed(s, &in);
    assert_ok(hs_session_run_args(s->session, &evaluate, NULL, &s->err), &s->err);
    assert_int_equal(in.calls, 0);
    stage_close(s);
    hs_hook hook = hs_feed_fn(.feeds = next, .user = &in);
    hook.flags |= HS_HOOK_TRAIN | HS_HOOK_EVAL;
    stage_open(s, hook);
    assert_ok(hs_session_run_args(s->session, &evaluate, NULL, &s->err), &s->err);
    assert_int_equal(in.calls, 1);
}

static void invalid_options_are_refused(void **state)
{
    stage_refuses(*state, hs_feed_fn(.feeds = NULL), HS_INVALID_ARGUMENT, "feeds is missing");
    stage_refuses(*state, hs_feed_fn_hook(NULL), HS_INVALID_ARGUMENT, "hs_feed_fn_options is NULL");
}

static hs_code feed_once(test_env *t, void *user)
{
    hs_error err = {0};
    input in = {.last = 9};
    (void)user;
    hs_script *script = hs_script_new(&t->env);
    if (!script || hs_script_placeholder(script, "x")) {
        hs_script_free(script);
        return HS_RESOURCE_EXHAUSTED;
    }
    hs_hook hook = hs_feed_fn(.feeds = next, .user = &in);
    hs_session_options options = HS_INIT(hs_session_options, .hooks = HS_HOOKS(hook));
    hs_session *session = hs_session_open(hs_script_backend(script), &options, &err);
    if (session)
        hs_session_run(session, "train", &err);
    hs_session_close(session, &err);
    hs_script_free(script);
    return err.code;
}

static void each_allocation(void **state)
{
    (void)state;
    test_each_allocation(feed_once, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_stage(bh_061_the_run_computes_with_the_feeds),
        with_stage(bh_108s_it_feeds_and_fetches_nothing),
        with_stage(bh_108s_once_for_each_attempt),
        with_stage(it_may_feed_nothing),
        with_stage(the_end_of_the_input_ends_normally),
        with_stage(only_the_kinds_of_run_that_its_flags_name),
        with_stage(invalid_options_are_refused),
        cmocka_unit_test(each_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
