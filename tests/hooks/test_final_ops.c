/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/stage.h"

/* The final values: the numbers of the first one, or of a leaf of a tree. */
typedef struct {
    const char *leaf; /* NULL: the first */
    size_t calls, n;
    double numbers[8];
    hs_code fails;
} result;

static hs_code take(void *user, const hs_run_values *values, hs_error *err)
{
    result *r = user;
    const hs_tensor *value = r->leaf ? hs_run_values_tensor_at(values, r->leaf) : hs_run_values_tensor(values, 0);
    r->calls++;
    if (r->fails)
        return hs_error_set(err, r->fails, "the result is wrong");
    assert_non_null(value);
    r->n = value->bytes / sizeof(double);
    for (size_t i = 0; i < r->n && i < 8; i++)
        r->numbers[i] = hs_tensor_number(value, i);
    return HS_OK;
}

static void constant(stage *s, const char *name, hs_shape shape, const double *numbers)
{
    const hs_tensor value = hs_tensor_of(HS_DOUBLE, shape, numbers);
    assert_ok(hs_script_constant(s->script, name, &value), &s->err);
}

/* A session of one run with this hook, which ends normally. */
static void train(stage *s, hs_hook hook)
{
    stage_open(s, hook);
    stage_run(s, "train", 1, 0);
    stage_close(s);
}

static void bh_057_a_scalar(void **state)
{
    result r = {0};
    constant(*state, "four", HS_SCALAR, (const double[]){4});
    train(*state, hs_final_ops(.names = HS_NAMES("four"), .done = take, .user = &r));
    assert_int_equal(r.n, 1);
    assert_true(r.numbers[0] == 4);
}

static void bh_058_a_vector(void **state)
{
    static const double numbers[] = {1, 6, 3, 5, 2, 4};
    result r = {0};
    constant(*state, "six", HS_SHAPE(6), numbers);
    train(*state, hs_final_ops(.names = HS_NAMES("six"), .done = take, .user = &r));
    assert_int_equal(r.n, 6);
    assert_memory_equal(r.numbers, numbers, sizeof numbers);
}

static void bh_060_the_final_ops_use_the_feeds(void **state)
{
    static const double numbers[] = {4, -3};
    stage *s = *state;
    result r = {0};
    hs_script_placeholder(s->script, "x");
    train(s, hs_final_ops(.names = HS_NAMES("x"), .feeds = HS_FEEDS({"x", hs_tensor_of(HS_DOUBLE, HS_SHAPE(2), numbers)}),
                          .done = take, .user = &r));
    assert_int_equal(r.n, 2);
    assert_memory_equal(r.numbers, numbers, sizeof numbers);
}

static void a_tree_of_fetches(void **state)
{
    result r = {.leaf = "metrics/loss"};
    constant(*state, "loss", HS_SCALAR, (const double[]){0.5});
    train(*state,
          hs_final_ops(.fetches = HS_DICT({"metrics", HS_DICT({"loss", HS_LEAF("loss")})}), .done = take, .user = &r));
    assert_true(r.numbers[0] == 0.5);
}

static void an_op_without_outputs_is_run(void **state)
{
    stage *s = *state;
    hs_script_op(s->script, "flush");
    train(s, hs_final_ops(.names = HS_NAMES("flush")));
    assert_string_equal(hs_script_last_run(s->script), "fetch flush; feed");
}

static void bh_107s_not_before_the_end(void **state)
{
    stage *s = *state;
    result r = {0};
    constant(s, "four", HS_SCALAR, (const double[]){4});
    stage_open(s, hs_final_ops(.names = HS_NAMES("four"), .done = take, .user = &r));
    stage_run(s, "train", 3, 0);
    assert_int_equal(r.calls, 0);
    stage_close(s);
    assert_int_equal(r.calls, 1);
}

static void bh_107s_without_ops_nothing_is_run(void **state)
{
    stage *s = *state;
    result r = {0};
    train(s, hs_final_ops(.done = take, .user = &r));
    assert_int_equal(hs_script_runs(s->script), 1);
    assert_int_equal(r.calls, 0);
}

/* Closes a session that fails. */
static void close_badly(stage *s)
{
    s->outcome = hs_session_close(s->session, &s->err);
    s->session = NULL;
    assert_int_equal(s->outcome.reason, HS_REASON_FAILED);
}

static void bh_107s_after_a_failure_nothing_is_run(void **state)
{
    stage *s = *state;
    result r = {0};
    constant(s, "four", HS_SCALAR, (const double[]){4});
    hs_script_fail_at(s->script, 1, HS_DATA_LOSS, "bad input");
    stage_open(s, hs_final_ops(.names = HS_NAMES("four"), .done = take, .user = &r));
    assert_int_equal(stage_run_once(s, "train"), HS_DATA_LOSS);
    close_badly(s);
    assert_int_equal(r.calls, 0);
}

/* The training ends normally, but its final ops need more input. */
static void the_end_of_the_input_is_a_warning_and_a_failure(void **state)
{
    stage *s = *state;
    result r = {0};
    constant(s, "four", HS_SCALAR, (const double[]){4});
    hs_script_fail_at(s->script, 2, HS_OUT_OF_RANGE, "no more");
    stage_open(s, hs_final_ops(.names = HS_NAMES("four"), .done = take, .user = &r));
    stage_run(s, "train", 1, 0);
    close_badly(s);
    assert_says(&s->err, HS_OUT_OF_RANGE, "hook 'final_ops', end at step 1: no more");
    assert_contains(s->t.log, "WARNING: final_ops: the input has ended");
    assert_int_equal(r.calls, 0);
}

static void a_callback_may_fail(void **state)
{
    stage *s = *state;
    result r = {.fails = HS_ABORTED};
    constant(s, "four", HS_SCALAR, (const double[]){4});
    stage_open(s, hs_final_ops(.names = HS_NAMES("four"), .done = take, .user = &r));
    close_badly(s);
    assert_says(&s->err, HS_ABORTED, "hook 'final_ops', end at step 0: the result is wrong");
}

static void invalid_options_are_refused(void **state)
{
    stage_refuses(*state, hs_final_ops(.names = HS_NAMES("a"), .fetches = HS_LEAF("b")), HS_INVALID_ARGUMENT,
                  "each of names and fetches");
    stage_refuses(*state, hs_final_ops(.names = HS_NAMES(NULL)), HS_INVALID_ARGUMENT, "names is an empty list");
    stage_refuses(*state, hs_final_ops(.names = HS_NAMES("unknown")), HS_NOT_FOUND, "'unknown'");
    stage_refuses(*state, hs_final_ops_hook(NULL), HS_INVALID_ARGUMENT, "hs_final_ops_options is NULL");
}

static hs_code run_in_the_end(test_env *t, void *user)
{
    hs_error err = {0};
    (void)user;
    hs_script *script = hs_script_new(&t->env);
    if (!script)
        return HS_RESOURCE_EXHAUSTED;
    hs_hook hook = hs_final_ops(.names = HS_NAMES("global_step"));
    hs_session_options options = HS_INIT(hs_session_options, .hooks = HS_HOOKS(hook));
    hs_session *session = hs_session_open(hs_script_backend(script), &options, &err);
    hs_session_close(session, &err);
    hs_script_free(script);
    return err.code;
}

static void each_allocation(void **state)
{
    (void)state;
    test_each_allocation(run_in_the_end, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_stage(bh_057_a_scalar),
        with_stage(bh_058_a_vector),
        with_stage(bh_060_the_final_ops_use_the_feeds),
        with_stage(a_tree_of_fetches),
        with_stage(an_op_without_outputs_is_run),
        with_stage(bh_107s_not_before_the_end),
        with_stage(bh_107s_without_ops_nothing_is_run),
        with_stage(bh_107s_after_a_failure_nothing_is_run),
        with_stage(the_end_of_the_input_is_a_warning_and_a_failure),
        with_stage(a_callback_may_fail),
        with_stage(invalid_options_are_refused),
        cmocka_unit_test(each_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
