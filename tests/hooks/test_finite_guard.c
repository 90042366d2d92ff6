/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/poisoned.h"

#include <math.h>

static const float fine = 1, bad = NAN;

/* Returns the result of the first run of a script whose "loss" is this tensor, watched as a gradient. */
static hs_code run_on_value(stage *s, const hs_tensor *value)
{
    hs_script_constant(s->script, "loss", value);
    stage_open(s, hs_finite_guard(.gradients = HS_NAMES("loss")));
    hs_code code = stage_run_once(s, "train");
    hs_session_close(s->session, NULL);
    s->session = NULL;
    return code;
}

/* A script with good and bad tensors. */
static void make_tensor(stage *s, const char *name, const float *value)
{
    hs_tensor tensor = hs_tensor_of(HS_FLOAT, HS_SCALAR, value);
    assert_ok(hs_script_constant(s->script, name, &tensor), &s->err);
}

static void the_message_has_index_counts_and_range(void **state)
{
    stage *s = *state;
    float values[24] = {-3, 5};
    values[17] = NAN;
    values[18] = values[20] = INFINITY;
    values[23] = -INFINITY;
    hs_tensor loss = hs_tensor_of(HS_FLOAT, HS_SHAPE(2, 3, 4), values);
    assert_fails(run_on_value(s, &loss), HS_FAILED_PRECONDITION, &s->err,
                 "hook 'finite_guard', after_run at step 1: gradient 'loss', float [2,3,4], is not finite: first at "
                 "[1,1,1] (element 17); 1 NaN, 2 +infinity, 1 -infinity of 24, the other elements from -3 to 5");
}

static void without_finite_elements_no_range_is_logged(void **state)
{
    stage *s = *state;
    const float values[] = {NAN, -INFINITY};
    hs_tensor loss = hs_tensor_of(HS_FLOAT, HS_SHAPE(2), values);
    assert_int_equal(run_on_value(s, &loss), HS_FAILED_PRECONDITION);
    assert_contains(s->err.message, "first at [0] (element 0); 1 NaN, 0 +infinity, 1 -infinity of 2");
    assert_lacks(s->err.message, "other");
}

static void the_message_of_a_single_number_has_its_value(void **state)
{
    stage *s = *state;
    const float values[] = {NAN, INFINITY, -INFINITY};
    static const char *const says[] = {"gradient 'loss' is NaN", "gradient 'loss' is +infinity",
                                       "gradient 'loss' is -infinity"};
    for (int i = 0; i < 3; i++) {
        hs_tensor loss = hs_tensor_of(HS_FLOAT, HS_SCALAR, &values[i]);
        assert_fails(run_on_value(s, &loss), HS_FAILED_PRECONDITION, &s->err, says[i]);
        assert_lacks(s->err.message, "element");
    }
}

/* Zero bits are finite, and bits that are all set are a NaN. Types without NaN and complex types are refused. */
static void four_types_are_watched(void **state)
{
    stage *s = *state;
    for (int dtype = HS_FLOAT; dtype <= HS_UINT64; dtype++) {
        unsigned char bits[32] = {0};
        size_t size = hs_dtype_size((hs_dtype)dtype);
        bool watched = dtype == HS_FLOAT || dtype == HS_DOUBLE || dtype == HS_HALF || dtype == HS_BFLOAT16;
        if (!size)
            continue;
        hs_tensor loss = hs_tensor_of((hs_dtype)dtype, HS_SHAPE(2), bits);
        assert_int_equal(run_on_value(s, &loss), watched ? HS_OK : HS_INVALID_ARGUMENT);
        if (!watched) {
            assert_contains(s->err.message,
                            "only float, double, half and bfloat16 can be watched; to dump it, list it in dump_also");
            continue;
        }
        memset(bits + size, 0xff, size);
        assert_fails(run_on_value(s, &loss), HS_FAILED_PRECONDITION, &s->err,
                     "first at [1] (element 1); 1 NaN, 0 +infinity, 0 -infinity of 2, the other elements from 0 to 0");
    }
}

static void infinities_of_the_short_types(void **state)
{
    stage *s = *state;
    const uint16_t half[] = {0x7bff, 0x7c00}, bfloat[] = {0x7f7f, 0xff80}; /* the largest number, and an infinity */
    hs_tensor loss = hs_tensor_of(HS_HALF, HS_SHAPE(2), half);
    assert_fails(run_on_value(s, &loss), HS_FAILED_PRECONDITION, &s->err,
                 "1 +infinity, 0 -infinity of 2, the other elements from 65504");
    loss = hs_tensor_of(HS_BFLOAT16, HS_SHAPE(2), bfloat);
    assert_fails(run_on_value(s, &loss), HS_FAILED_PRECONDITION, &s->err, "0 +infinity, 1 -infinity of 2");
}

static void no_elements_are_finite(void **state)
{
    stage *s = *state;
    hs_tensor loss = hs_tensor_of(HS_FLOAT, HS_SHAPE(0, 3), &fine);
    assert_ok(run_on_value(s, &loss), &s->err);
}

/* Stages are in the order of a step, independent of the options' order. Names keep the order of their list. */
static void the_first_in_the_order_of_execution(void **state)
{
    stage *s = *state;
    const char *const names[] = {"x", "h1", "h2", "g", "w", NULL};
    for (size_t i = 0; names[i]; i++)
        make_tensor(s, names[i], i ? &bad : &fine);
    stage_open(s, hs_finite_guard(.parameters = HS_NAMES("w"), .gradients = HS_NAMES("g"),
                                  .activations = HS_NAMES("h2", "h1"), .inputs = HS_NAMES("x")));
    assert_fails(stage_run_once(s, "train"), HS_FAILED_PRECONDITION, &s->err, "activation 'h2'");
    assert_contains(s->t.log, "WARNING: step 1: 3 more of the 5 watched tensors are bad: activations/h1, "
                              "gradients/g, parameters/w\n");
}

static hs_code to_host(void *user, void *host, const void *device, size_t bytes, hs_error *err)
{
    memcpy(host, device, bytes);
    ((float *)host)[1] = NAN;
    return user ? hs_error_set(err, HS_UNAVAILABLE, "no device") : HS_OK;
}

static void memory_of_a_device_is_brought_to_the_host(void **state)
{
    stage *s = *state;
    const float device[2] = {7, 7};
    hs_memory memory = HS_INIT(hs_memory, .to_host = to_host);
    hs_tensor loss = hs_tensor_of(HS_FLOAT, HS_SHAPE(2), device);
    loss.memory = &memory;
    assert_fails(run_on_value(s, &loss), HS_FAILED_PRECONDITION, &s->err, "first at [1] (element 1); 1 NaN");
    memory.user = &memory;
    assert_fails(run_on_value(s, &loss), HS_UNAVAILABLE, &s->err, "tensor 'loss': no device");
}

static void it_checks_every_n_runs(void **state)
{
    stage *s = *state;
    make_tensor(s, "loss", &fine);
    stage_open(s, hs_finite_guard(.activations = HS_NAMES("loss"), .every_n_steps = 3));
    for (int i = 0; i < 7; i++) {
        stage_run(s, "train", 1, 0);
        assert_string_equal(hs_script_last_run(s->script), i % 3 ? "fetch train; feed" : "fetch train loss; feed");
    }
    stage_close(s);
}

static void it_checks_every_n_seconds(void **state)
{
    stage *s = *state;
    make_tensor(s, "loss", &fine);
    stage_open(s, hs_finite_guard(.activations = HS_NAMES("loss"), .when = HS_TRIGGER(.every_n_secs = 10, .first = true)));
    const double waits[] = {0, 9, 1, 9, 2};
    const bool looks[] = {true, false, true, false, true};
    for (int i = 0; i < 5; i++) {
        test_env_advance(&s->t, waits[i]);
        stage_run(s, "train", 1, 0);
        assert_string_equal(hs_script_last_run(s->script), looks[i] ? "fetch train loss; feed" : "fetch train; feed");
    }
    stage_close(s);
}

/* The guard counts runs, and not the steps that another worker has made. */
static void it_counts_training_runs(void **state)
{
    stage *s = *state;
    make_tensor(s, "loss", &fine);
    stage_open(s, hs_finite_guard(.activations = HS_NAMES("loss"), .when = HS_AT_STEPS(2, 4)));
    for (int i = 1; i <= 5; i++) {
        if (i == 3)
            hs_script_set_step(s->script, 90);
        stage_run(s, "train", 1, 0);
        assert_string_equal(hs_script_last_run(s->script), i % 2 ? "fetch train; feed" : "fetch train loss; feed");
        assert_ok(
            hs_session_run_args(s->session, HS_RUN_ARGS(.names = HS_NAMES("train"), .kind = HS_RUN_EVAL), NULL, &s->err),
            &s->err);
        assert_string_equal(hs_script_last_run(s->script), "fetch train; feed");
    }
    stage_close(s);
}

/* As without the stop, it checks the runs 1, 4 and 7. */
static void a_resumed_guard_checks_the_same_runs(void **state)
{
    poisoned *p = *state;
    p->bad[0] = 3;
    p->bad[1] = 4;
    for (int i = 0; i < 2; i++) {
        hs_hook hooks[] = {hs_finite_guard(.gradients = HS_NAMES("gradient"), .policy = HS_GUARD_WARN, .every_n_steps = 3),
                           poisoned_saver(p, .every_n_steps = 100)};
        assert_ok(poisoned_open(p, true, hooks, 2), &p->s->err);
        assert_ok(poisoned_run(p, "train", i ? 4 : 2), &p->s->err);
        stage_close(p->s);
    }
    assert_int_equal(p->s->outcome.step, 6);
    assert_int_equal(count_of(p->s->t.log, "not finite"), 1);
    assert_contains(p->s->t.log, "WARNING: step 4: gradient 'gradient'");
}

/* FAIL and STOP, with the saver before the guard and after it, and in the background. */

static void open_with_saver(poisoned *p, int64_t policy, size_t guard, bool background)
{
    hs_hook hooks[2];
    hooks[guard] = hs_finite_guard(.gradients = HS_NAMES("gradient"), .policy = policy);
    hooks[1 - guard] = poisoned_saver(p, .every_n_steps = 1, .background = background);
    assert_ok(poisoned_open(p, false, hooks, 2), &p->s->err);
}

static void nothing_bad_is_saved_by_a_run_that_fails(void **state)
{
    poisoned *p = *state;
    p->bad[0] = 4;
    for (size_t i = 0; i < 4; i++) {
        p->position = 0;
        open_with_saver(p, HS_GUARD_FAIL, i % 2, i > 1);
        assert_fails(poisoned_run(p, "train", 4), HS_FAILED_PRECONDITION, &p->s->err, "after_run at step 4: ");
        p->s->outcome = hs_session_close(p->s->session, &p->s->err);
        p->s->session = NULL;
        assert_int_equal(p->s->outcome.reason, HS_REASON_FAILED);
        assert_string_equal(p->s->outcome.hook, "finite_guard");
        assert_int_equal(latest_step(p->s->directory), 3);
    }
}

static void a_stop_ends_normally_and_saves_nothing_bad(void **state)
{
    poisoned *p = *state;
    p->bad[0] = 4;
    for (size_t i = 0; i < 4; i++) {
        p->position = 0;
        open_with_saver(p, HS_GUARD_STOP, i % 2, i > 1);
        assert_ok(poisoned_run(p, "train", 9), &p->s->err);
        stage_close(p->s);
        assert_int_equal(p->s->outcome.reason, HS_REASON_STOPPED);
        assert_string_equal(p->s->outcome.hook, "finite_guard");
        assert_int_equal(p->s->outcome.step, 4);
        assert_int_equal(p->s->outcome.last_saved_step, 3);
        assert_int_equal(latest_step(p->s->directory), 3);
        assert_contains(p->s->t.log, "; stopping without a save");
    }
}

/* SKIP_STEP. */

#define SKIPPING(...)                                                                                                      \
    hs_finite_guard(.gradients = HS_NAMES("gradient"), .policy = HS_GUARD_SKIP_STEP, .update_op = "update", __VA_ARGS__)

static void bad_updates_are_skipped(void **state)
{
    poisoned *p = *state;
    p->bad[0] = 2;
    p->bad[1] = 4;
    hs_hook hooks[] = {SKIPPING(.max_skips = 1), poisoned_saver(p, .every_n_steps = 1), hs_stop_at_step(.last_step = 4)};
    assert_ok(poisoned_open(p, false, hooks, 3), &p->s->err);
    assert_ok(poisoned_run(p, "compute", 3), &p->s->err);
    assert_int_equal(hs_session_global_step(p->s->session, NULL), 2);
    assert_contains(
        p->s->t.log,
        "(element 5); 1 NaN, 0 +infinity, 0 -infinity of 6, the other elements from 2 to 2; update skipped, 1 in a row");
    assert_ok(poisoned_run(p, "compute", 9), &p->s->err);
    stage_close(p->s);
    assert_true(p->weight == 1 + 3 + 5 + 6);
    assert_int_equal(p->s->outcome.step, 4);
    assert_int_equal(latest_step(p->s->directory), 4);
}

static void too_many_in_a_row_fail(void **state)
{
    poisoned *p = *state;
    p->bad[0] = 2;
    p->all_bad = true;
    hs_hook hooks[] = {SKIPPING(.max_skips = 2), poisoned_saver(p, .every_n_steps = 1)};
    assert_ok(poisoned_open(p, false, hooks, 2), &p->s->err);
    assert_ok(poisoned_run(p, "compute", 3), &p->s->err);
    assert_fails(poisoned_run(p, "compute", 1), HS_FAILED_PRECONDITION, &p->s->err,
                 "; the 2 previous updates were skipped (max_skips)");
    assert_int_equal(p->position, 4);
    assert_true(p->weight == 1);
}

static void skipping_does_not_help_a_bad_parameter(void **state)
{
    poisoned *p = *state;
    hs_hook guard = SKIPPING(.parameters = HS_NAMES("weight"));
    assert_ok(poisoned_open(p, false, &guard, 1), &p->s->err);
    p->weight = NAN;
    assert_fails(poisoned_run(p, "compute", 1), HS_FAILED_PRECONDITION, &p->s->err,
                 "skipping the update does not help, because a parameter is already affected");
}

/* The number of consecutive skips is in a checkpoint that was saved between them. */
static void the_count_of_skips_continues_after_a_restart(void **state)
{
    poisoned *p = *state;
    p->bad[0] = 2;
    p->all_bad = true;
    hs_hook first[] = {SKIPPING(.max_skips = 2), poisoned_saver(p, .every_n_steps = 1)};
    assert_ok(poisoned_open(p, true, first, 2), &p->s->err);
    assert_ok(poisoned_run(p, "compute", 2), &p->s->err);
    hs_saver *saver = hs_saver_new(NULL, &p->s->err);
    assert_ok(
        hs_saver_save(saver, hs_session_raw(p->s->session), test_path(p->s->directory, "model.ckpt"), 2, NULL, &p->s->err),
        &p->s->err);
    hs_saver_free(saver);
    hs_session_close(p->s->session, NULL);
    hs_hook second = SKIPPING(.max_skips = 2);
    assert_ok(poisoned_open(p, true, &second, 1), &p->s->err);
    assert_ok(poisoned_run(p, "compute", 1), &p->s->err);
    assert_fails(poisoned_run(p, "compute", 1), HS_FAILED_PRECONDITION, &p->s->err,
                 "; the 2 previous updates were skipped (max_skips)");
}

/* Options. */

#define WATCH .gradients = HS_NAMES("gradient")
#define REFUSED(message, ...)                                                                                              \
    {                                                                                                                      \
        message, hs_finite_guard(__VA_ARGS__)                                                                              \
    }

static void invalid_options_are_refused(void **state)
{
    poisoned *p = *state;
    static const char only_float[] = "tensor 'global_step' is of type int64; only float";
    const struct {
        const char *message;
        hs_hook hook;
    } cases[] = {
        REFUSED("nothing to watch", .policy = HS_GUARD_STOP),
        REFUSED("nothing to watch", .gradients = (const char *const[]){NULL}),
        REFUSED(only_float, .parameters = HS_NAMES("global_step")),
        REFUSED("'train' is an op", .inputs = HS_NAMES("train")),
        REFUSED("policy is 5", WATCH, .policy = 5),
        REFUSED("each of when and every_n_steps", WATCH, .every_n_steps = 1, .when = HS_EVERY_SECS(1)),
        REFUSED("every_n_steps is -1", WATCH, .every_n_steps = -1),
        REFUSED("dump_also has no effect without dump_dir", WATCH, .dump_also = HS_NAMES("label")),
        REFUSED("max_rollbacks has no effect without HS_GUARD_ROLLBACK", WATCH, .max_rollbacks = 1),
        REFUSED("skip_op has no effect", WATCH, .skip_op = "draw"),
        REFUSED("learning_rate has no effect without HS_GUARD_ROLLBACK", WATCH, .policy = HS_GUARD_SKIP_STEP,
                .update_op = "update", .learning_rate = "rate"),
        REFUSED("max_rollbacks is -2", WATCH, .policy = HS_GUARD_ROLLBACK, .max_rollbacks = -2),
        REFUSED("learning_rate_factor has no effect without learning_rate", WATCH, .policy = HS_GUARD_ROLLBACK,
                .learning_rate_factor = 0.1),
        REFUSED("learning_rate_factor is 2", WATCH, .policy = HS_GUARD_ROLLBACK, .learning_rate = "rate",
                .learning_rate_factor = 2),
        REFUSED("learning_rate_factor is nan", WATCH, .policy = HS_GUARD_ROLLBACK, .learning_rate = "rate",
                .learning_rate_factor = (double)NAN),
        REFUSED("skip_batches has no effect without skip_op", WATCH, .policy = HS_GUARD_ROLLBACK, .skip_batches = 1),
        REFUSED("skip_batches is -1", WATCH, .policy = HS_GUARD_ROLLBACK, .skip_op = "draw", .skip_batches = -1),
        REFUSED("HS_GUARD_SKIP_STEP requires update_op: let the training run only compute gradients, and name the op that "
                "applies them",
                WATCH, .policy = HS_GUARD_SKIP_STEP),
        REFUSED("HS_GUARD_SKIP_STEP excludes every_n_steps, because it checks every training run", WATCH,
                .policy = HS_GUARD_SKIP_STEP, .update_op = "update", .every_n_steps = 2),
        REFUSED("update_op has no effect without HS_GUARD_SKIP_STEP", WATCH, .update_op = "update"),
        REFUSED("max_skips is -3", WATCH, .policy = HS_GUARD_SKIP_STEP, .update_op = "update", .max_skips = -3),
        {"when: last is set", hs_finite_guard(WATCH, .when = HS_TRIGGER(.at_steps = HS_STEPS(1), .last = true))},
        {"hs_finite_guard_options is NULL", hs_finite_guard_hook(NULL)},
        {"HS_INIT(hs_finite_guard_options", hs_finite_guard_hook(&(hs_finite_guard_options){WATCH})},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_fails(poisoned_open(p, false, &cases[i].hook, 1), HS_INVALID_ARGUMENT, &p->s->err, cases[i].message);
}

static void unknown_names_are_refused(void **state)
{
    poisoned *p = *state;
    hs_hook hooks[] = {hs_finite_guard(.inputs = HS_NAMES("unknown")),
                       hs_finite_guard(WATCH, .policy = HS_GUARD_SKIP_STEP, .update_op = "unknown")};
    for (size_t i = 0; i < 2; i++)
        assert_fails(poisoned_open(p, false, &hooks[i], 1), HS_NOT_FOUND, &p->s->err, "'unknown'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_stage(the_message_has_index_counts_and_range),
        with_stage(without_finite_elements_no_range_is_logged),
        with_stage(the_message_of_a_single_number_has_its_value),
        with_stage(four_types_are_watched),
        with_stage(infinities_of_the_short_types),
        with_stage(no_elements_are_finite),
        with_stage(the_first_in_the_order_of_execution),
        with_stage(memory_of_a_device_is_brought_to_the_host),
        with_stage(it_checks_every_n_runs),
        with_stage(it_checks_every_n_seconds),
        with_stage(it_counts_training_runs),
        with_poisoned(a_resumed_guard_checks_the_same_runs),
        with_poisoned(nothing_bad_is_saved_by_a_run_that_fails),
        with_poisoned(a_stop_ends_normally_and_saves_nothing_bad),
        with_poisoned(bad_updates_are_skipped),
        with_poisoned(too_many_in_a_row_fail),
        with_poisoned(skipping_does_not_help_a_bad_parameter),
        with_poisoned(the_count_of_skips_continues_after_a_restart),
        with_poisoned(invalid_options_are_refused),
        with_poisoned(unknown_names_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
