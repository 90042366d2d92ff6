/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/stage.h"

#include <math.h>

#define NOT_A_NUMBER ((double)NAN)
#define INFINITE     ((double)INFINITY)

/* A script whose loss has these values, watched by the hook, with a record of the calls. */
static void open_on_series(stage *s, int64_t on_nan, const double *values, size_t n)
{
    hs_script_series(s->script, "loss", values, n);
    stage_open(s, hs_script_watch(s->script, NULL, hs_nan_tensor(.tensor = "loss", .on_nan = on_nan)));
}

/* Returns the result of the first run of a script whose loss is this tensor. */
static hs_code run_on_value(stage *s, const hs_tensor *value)
{
    hs_script_constant(s->script, "loss", value);
    stage_open(s, hs_nan_tensor(.tensor = "loss"));
    hs_code code = stage_run_once(s, "train");
    hs_session_close(s->session, NULL);
    s->session = NULL;
    return code;
}

static void bh_098s_the_loss_is_fetched_in_every_run(void **state)
{
    stage *s = *state;
    open_on_series(s, HS_NAN_FAIL, (double[]){1, 2, 3}, 3);
    for (int i = 0; i < 3; i++) {
        stage_run(s, "train", 1, 0);
        assert_string_equal(hs_script_last_run(s->script), "fetch train loss; feed");
    }
    stage_close(s);
}

/* Returns the number of the run in which the hook detects a loss that is NaN from the second run on. */
static int noticed_in(stage *s, hs_hook hook)
{
    double values[40];
    size_t first = (size_t)hs_script_runs(s->script);
    int runs = 1;
    for (size_t i = 0; i < 40; i++)
        values[i] = i > first ? NOT_A_NUMBER : 1;
    hs_script_series(s->script, "loss", values, 40);
    stage_open(s, hs_script_watch(s->script, NULL, hook));
    while (stage_run_once(s, "train") == HS_OK && runs < 5) {
        runs++;
        test_env_advance(&s->t, 1);
    }
    hs_session_close(s->session, NULL);
    s->session = NULL;
    return runs;
}

static void an_interval_checks_the_first_run_and_each_nth_after_it(void **state)
{
    stage *s = *state;
    assert_int_equal(noticed_in(s, hs_nan_tensor(.tensor = "loss")), 2);
    assert_int_equal(noticed_in(s, hs_nan_tensor(.tensor = "loss", .every_n_steps = 3)), 4);
    assert_int_equal(noticed_in(s, hs_nan_tensor(.tensor = "loss", .every_n_secs = 2)), 3);
    assert_int_equal(noticed_in(s, hs_nan_tensor(.tensor = "loss", .when = HS_AT_STEPS(5))), 5);
}

static void other_runs_fetch_nothing(void **state)
{
    stage *s = *state;
    hs_script_series(s->script, "loss", (double[]){1, 2, 3}, 3);
    stage_open(s, hs_script_watch(s->script, NULL, hs_nan_tensor(.tensor = "loss", .every_n_steps = 2)));
    for (int i = 0; i < 3; i++) {
        stage_run(s, "train", 1, 0);
        assert_string_equal(hs_script_last_run(s->script), i == 1 ? "fetch train; feed" : "fetch train loss; feed");
    }
    stage_close(s);
}

/* A hook of an earlier session starts again. */
static void the_interval_begins_with_each_session(void **state)
{
    stage *s = *state;
    hs_hook hook = hs_hook_hold(hs_nan_tensor(.tensor = "loss", .every_n_steps = 2));
    assert_int_equal(noticed_in(s, hook), 3);
    assert_int_equal(noticed_in(s, hook), 3);
    hs_hook_free(hook);
}

static hs_code do_nothing(void *self, hs_op *op, hs_error *err)
{
    (void)self, (void)op, (void)err;
    return HS_OK;
}

static void a_resumed_run_begins_with_a_check(void **state)
{
    stage *s = *state;
    for (int resumed = 0; resumed < 2; resumed++) {
        double loss = resumed ? NOT_A_NUMBER : 1;
        hs_graph *graph = hs_graph_new(&s->t.env);
        hs_graph_global_step(graph, NULL, NULL);
        hs_graph_value(graph, "loss", HS_DOUBLE, HS_SCALAR, &loss);
        hs_graph_op(graph, .name = "train", .run = do_nothing, .advances_step = true);
        hs_hook hooks[] = {hs_nan_tensor(.tensor = "loss", .every_n_steps = 100),
                           hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1000),
                           {.ops = NULL}};
        s->session = hs_session_open(hs_graph_backend(graph),
                                     HS_SESSION_OPTIONS(.hooks = hooks, .checkpoint_dir = s->directory), &s->err);
        if (!resumed)
            stage_run(s, "train", 3, 0);
        else
            assert_fails(hs_session_run(s->session, "train", &s->err), HS_FAILED_PRECONDITION, &s->err, "'loss'");
        hs_session_close(s->session, NULL);
        s->session = NULL;
        hs_graph_free(graph);
    }
}

static void bh_098s_nan_fails_the_run(void **state)
{
    stage *s = *state;
    open_on_series(s, HS_NAN_FAIL, (double[]){1, NOT_A_NUMBER}, 2);
    stage_run(s, "train", 1, 0);
    assert_fails(stage_run_once(s, "train"), HS_FAILED_PRECONDITION, &s->err,
                 "hook 'nan_tensor', after_run at step 2: tensor 'loss' is NaN");
    assert_lacks(s->err.message, "element");
    s->outcome = hs_session_close(s->session, &s->err);
    s->session = NULL;
    assert_int_equal(s->outcome.reason, HS_REASON_FAILED);
    assert_string_equal(s->outcome.hook, "nan_tensor");
    assert_lacks(hs_script_calls(s->script), "end");
}

static void bh_098s_nan_stops_with_a_warning(void **state)
{
    stage *s = *state;
    open_on_series(s, HS_NAN_STOP, (double[]){1, NOT_A_NUMBER}, 2);
    stage_run(s, "train", 1, 0);
    assert_false(hs_session_should_stop(s->session));
    stage_run(s, "train", 1, 0);
    assert_true(hs_session_should_stop(s->session));
    assert_contains(s->t.log, "WARNING: step 2: tensor 'loss' is NaN; stopping");
    stage_close(s);
    assert_int_equal(s->outcome.reason, HS_REASON_STOPPED);
    assert_string_equal(s->outcome.hook, "nan_tensor");
    assert_contains(hs_script_calls(s->script), "end");
}

/* The newest checkpoint remains. TensorFlow saves the NaN. */
static void the_nan_that_it_stops_for_is_not_saved(void **state)
{
    stage *s = *state;
    hs_script_series(s->script, "loss", (double[]){1, 1, NOT_A_NUMBER}, 3);
    hs_hook hooks[] = {hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1),
                       hs_nan_tensor(.tensor = "loss", .on_nan = HS_NAN_STOP)};
    assert_ok(stage_try(s, hs_script_backend(s->script), hooks, 2), &s->err);
    stage_run(s, "train", 3, 0);
    assert_true(hs_session_should_stop(s->session));
    stage_close(s);
    assert_int_equal(s->outcome.reason, HS_REASON_STOPPED);
    assert_int_equal(s->outcome.last_saved_step, 2);
    assert_int_equal(latest_step(s->directory), 2);
    assert_contains(s->t.log, "WARNING: step 3: not saved: tensor 'loss'");
}

/* TensorFlow continues with an infinite loss. */
static void bh_098s_infinity_is_not_finite_either(void **state)
{
    stage *s = *state;
    open_on_series(s, HS_NAN_FAIL, (double[]){INFINITE}, 1);
    assert_fails(stage_run_once(s, "train"), HS_FAILED_PRECONDITION, &s->err, "is +infinity");
    hs_session_close(s->session, NULL);
    open_on_series(s, HS_NAN_STOP, (double[]){1, -INFINITE, 1}, 3);
    stage_run(s, "train", 1, 0);
    assert_true(hs_session_should_stop(s->session));
    assert_contains(s->t.log, "is -infinity");
    stage_close(s);
}

static void nothing_is_saved_over_a_nan(void **state)
{
    stage *s = *state;
    hs_script_series(s->script, "loss", (double[]){1, NOT_A_NUMBER}, 2);
    hs_hook hooks[] = {hs_nan_tensor(.tensor = "loss"),
                       hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1)};
    assert_ok(stage_try(s, hs_script_backend(s->script), hooks, 2), &s->err);
    stage_run(s, "train", 1, 0);
    assert_int_equal(stage_run_once(s, "train"), HS_FAILED_PRECONDITION);
    s->outcome = hs_session_close(s->session, NULL);
    s->session = NULL;
    assert_int_equal(latest_step(s->directory), 1);
    assert_int_equal(s->outcome.last_saved_step, 1);
}

/* The session fails, even if the program passes a code of a normal end to hs_session_fail. */
static void nothing_is_saved_over_a_nan_whatever_the_caller_says(void **state)
{
    stage *s = *state;
    const hs_code clean[] = {HS_STOP, HS_OUT_OF_RANGE};
    hs_script_series(s->script, "loss", (double[]){1, NOT_A_NUMBER, 1, NOT_A_NUMBER}, 4);
    for (size_t i = 0; i < 2; i++) {
        hs_hook hooks[] = {hs_script_watch(s->script, NULL, hs_nan_tensor(.tensor = "loss")),
                           hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 1)};
        hs_script_set_step(s->script, 0);
        assert_ok(stage_try(s, hs_script_backend(s->script), hooks, 2), &s->err);
        stage_run(s, "train", 1, 0);
        assert_int_equal(stage_run_once(s, "train"), HS_FAILED_PRECONDITION);
        hs_session_fail(s->session, test_error(clean[i], "the loop is over"));
        s->outcome = hs_session_close(s->session, &s->err);
        s->session = NULL;
        assert_int_equal(s->outcome.reason, HS_REASON_FAILED);
        assert_says(&s->err, HS_FAILED_PRECONDITION, "after_run at step 2: tensor 'loss'");
        assert_string_equal(s->outcome.hook, "nan_tensor");
        assert_int_equal(latest_step(s->directory), 1);
        assert_int_equal(s->outcome.last_saved_step, 1);
        assert_lacks(hs_script_calls(s->script), "end");
    }
}

/* The same codes after good runs. */
static void the_callers_stop_saves_the_good_state(void **state)
{
    stage *s = *state;
    hs_script_series(s->script, "loss", (double[]){1, 2}, 2);
    hs_hook hooks[] = {hs_nan_tensor(.tensor = "loss"),
                       hs_checkpoint_saver(.checkpoint_dir = s->directory, .every_n_steps = 100)};
    assert_ok(stage_try(s, hs_script_backend(s->script), hooks, 2), &s->err);
    stage_run(s, "train", 2, 0);
    hs_session_fail(s->session, test_error(HS_STOP, "the loop is over"));
    stage_close(s);
    assert_int_equal(s->outcome.reason, HS_REASON_STOPPED);
    assert_int_equal(latest_step(s->directory), 2);
}

static void every_element_is_checked(void **state)
{
    stage *s = *state;
    float values[1000] = {0};
    values[613] = values[999] = NAN;
    values[700] = INFINITY;
    hs_tensor loss = hs_tensor_of(HS_FLOAT, HS_SHAPE(10, 100), values);
    assert_fails(run_on_value(s, &loss), HS_FAILED_PRECONDITION, &s->err,
                 "float [10,100], is not finite: first at [6,13] (element 613); 2 NaN, 1 +infinity, 0 -infinity");
}

static void every_kind_of_float(void **state)
{
    stage *s = *state;
    const uint16_t half_nan = 0x7e00, half_largest = 0x7bff, bfloat_infinity = 0x7f80;
    const float complex_nan[2] = {1, NAN};
    hs_tensor loss = hs_tensor_of(HS_HALF, HS_SCALAR, &half_nan);
    assert_int_equal(run_on_value(s, &loss), HS_FAILED_PRECONDITION);
    loss = hs_tensor_of(HS_HALF, HS_SCALAR, &half_largest);
    assert_ok(run_on_value(s, &loss), &s->err);
    loss = hs_tensor_of(HS_BFLOAT16, HS_SCALAR, &bfloat_infinity);
    assert_int_equal(run_on_value(s, &loss), HS_FAILED_PRECONDITION);
    loss = hs_tensor_of(HS_COMPLEX64, HS_SCALAR, complex_nan);
    assert_int_equal(run_on_value(s, &loss), HS_FAILED_PRECONDITION);
}

static bool has_nan(hs_dtype dtype)
{
    const hs_dtype with_nan[] = {HS_HALF, HS_BFLOAT16, HS_FLOAT, HS_DOUBLE, HS_COMPLEX64, HS_COMPLEX128};
    for (size_t i = 0; i < sizeof with_nan / sizeof *with_nan; i++)
        if (with_nan[i] == dtype)
            return true;
    return false;
}

/* Every type that can have a NaN is accepted, and no other one. Zero bits are finite in all of them, and bits that are all
 * set are a NaN. The second half is a complex number's imaginary part. */
static void every_type_with_a_nan_is_accepted(void **state)
{
    stage *s = *state;
    for (int dtype = HS_FLOAT; dtype <= HS_UINT64; dtype++) {
        unsigned char bits[32] = {0};
        size_t size = hs_dtype_size((hs_dtype)dtype);
        if (!size)
            continue;
        bool taken = has_nan((hs_dtype)dtype), is_complex = dtype == HS_COMPLEX64 || dtype == HS_COMPLEX128;
        hs_tensor loss = hs_tensor_of((hs_dtype)dtype, HS_SHAPE(2), bits);
        assert_int_equal(run_on_value(s, &loss), taken ? HS_OK : HS_INVALID_ARGUMENT);
        if (!taken)
            continue;
        memset(bits + size + (is_complex ? size / 2 : 0), 0xff, is_complex ? size / 2 : size);
        assert_fails(run_on_value(s, &loss), HS_FAILED_PRECONDITION, &s->err, "first at [1] (element 1); 1 NaN");
    }
}

static void integers_have_no_nan(void **state)
{
    stage *s = *state;
    const int32_t bits = 0x7fc00000;
    hs_tensor loss = hs_tensor_of(HS_INT32, HS_SCALAR, &bits);
    assert_fails(run_on_value(s, &loss), HS_INVALID_ARGUMENT, &s->err, "of type int32");
}

static hs_code to_host(void *user, void *host, const void *device, size_t bytes, hs_error *err)
{
    (void)device;
    const float number = NAN;
    memcpy(host, &number, bytes);
    return user ? hs_error_set(err, HS_UNAVAILABLE, "no device") : HS_OK;
}

static void memory_of_a_device_is_brought_to_the_host(void **state)
{
    stage *s = *state;
    const float garbage = 1;
    hs_memory memory = HS_INIT(hs_memory, .to_host = to_host);
    hs_tensor loss = hs_tensor_of(HS_FLOAT, HS_SCALAR, &garbage);
    loss.memory = &memory;
    assert_fails(run_on_value(s, &loss), HS_FAILED_PRECONDITION, &s->err, "is NaN");
    memory.user = &memory;
    assert_fails(run_on_value(s, &loss), HS_UNAVAILABLE, &s->err,
                 "hook 'nan_tensor', after_run at step 2: tensor 'loss': no device");
}

static void invalid_options_are_refused(void **state)
{
    stage_refuses(*state, hs_nan_tensor(.tensor = NULL), HS_INVALID_ARGUMENT, "tensor is missing");
    stage_refuses(*state, hs_nan_tensor(.tensor = ""), HS_INVALID_ARGUMENT, "tensor is missing");
    stage_refuses(*state, hs_nan_tensor(.tensor = "global_step", .on_nan = 2), HS_INVALID_ARGUMENT, "on_nan is 2");
    stage_refuses(*state, hs_nan_tensor(.tensor = "global_step", .when = HS_TRIGGER(.every_n_steps = 1, .last = true)),
                  HS_INVALID_ARGUMENT, "when: last is set");
    stage_refuses(*state, hs_nan_tensor(.tensor = "unknown"), HS_NOT_FOUND, "'unknown'");
    stage_refuses(*state, hs_nan_tensor(.tensor = "train"), HS_INVALID_ARGUMENT, "'train' is an op");
    stage_refuses(*state, hs_nan_tensor_hook(&(hs_nan_tensor_options){.tensor = "global_step"}), HS_INVALID_ARGUMENT,
                  "HS_INIT(hs_nan_tensor_options");
}

static hs_code run_twice(test_env *t, void *user)
{
    (void)user;
    hs_error err = {0};
    const float number = 1;
    hs_memory memory = HS_INIT(hs_memory, .to_host = to_host);
    hs_tensor loss = hs_tensor_of(HS_FLOAT, HS_SCALAR, &number);
    loss.memory = &memory;
    hs_script *script = hs_script_new(&t->env);
    if (!script || hs_script_constant(script, "loss", &loss)) {
        hs_script_free(script);
        return HS_RESOURCE_EXHAUSTED;
    }
    hs_hook hook = hs_nan_tensor(.tensor = "loss", .on_nan = HS_NAN_STOP);
    hs_session_options options = HS_INIT(hs_session_options, .hooks = HS_HOOKS(hook));
    hs_session *session = hs_session_open(hs_script_backend(script), &options, &err);
    while (!hs_session_should_stop(session) && !hs_session_run(session, "train", &err))
        continue;
    hs_session_close(session, &err);
    hs_script_free(script);
    return err.code;
}

static void each_allocation(void **state)
{
    (void)state;
    test_each_allocation(run_twice, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_stage(bh_098s_the_loss_is_fetched_in_every_run),
        with_stage(an_interval_checks_the_first_run_and_each_nth_after_it),
        with_stage(other_runs_fetch_nothing),
        with_stage(the_interval_begins_with_each_session),
        with_stage(a_resumed_run_begins_with_a_check),
        with_stage(bh_098s_nan_fails_the_run),
        with_stage(bh_098s_nan_stops_with_a_warning),
        with_stage(the_nan_that_it_stops_for_is_not_saved),
        with_stage(bh_098s_infinity_is_not_finite_either),
        with_stage(nothing_is_saved_over_a_nan),
        with_stage(nothing_is_saved_over_a_nan_whatever_the_caller_says),
        with_stage(the_callers_stop_saves_the_good_state),
        with_stage(every_element_is_checked),
        with_stage(every_kind_of_float),
        with_stage(every_type_with_a_nan_is_accepted),
        with_stage(integers_have_no_nan),
        with_stage(memory_of_a_device_is_brought_to_the_host),
        with_stage(invalid_options_are_refused),
        cmocka_unit_test(each_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
