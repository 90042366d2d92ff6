/* SPDX-License-Identifier: Apache-2.0 */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "backends/device.h"
#include "hooks/poisoned.h"
#include "session/own.h"

#include <math.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* The loop of own.h, with a larger variable, and an op that reads its first element. */

enum { N = 5000, STEPS = 12 };

static float weights[N];
static bool look_fails;
static const char weights_average[] = "weights/ExponentialMovingAverage",
                  weight_average[] = "weight/ExponentialMovingAverage";

static hs_code look(void *user, hs_op *op, hs_error *err)
{
    (void)user;
    *(float *)hs_op_output(op, 0)->data = *(const float *)hs_op_input(op, 0)->data;
    return look_fails ? hs_error_set(err, HS_DATA_LOSS, "it cannot look") : HS_OK;
}

static int setup(void **state)
{
    int code = own_setup(state);
    own *o = *state;
    for (int i = 0; i < N; i++)
        weights[i] = (float)i;
    hs_graph_variable(o->graph, "weights", HS_FLOAT, HS_SHAPE(N), weights);
    hs_graph_op(o->graph, .name = "look", .run = look, .inputs = HS_NAMES("weights"),
                .outputs = HS_OUTPUTS({.dtype = HS_FLOAT}));
    return code;
}

#define averages_test(name) cmocka_unit_test_setup_teardown(name, setup, own_teardown)
#define AVERAGES(...)       hs_moving_average(.variables = HS_NAMES("weights", "weight"), __VA_ARGS__)

static void step(own *o)
{
    assert_true(hs_step_begin(o->session));
    own_compute(o);
    for (int i = 0; i < N; i++)
        weights[i] += (float)o->weight * 0.01f * (float)(i % 7);
    weights[0] += (float)o->weight;
    assert_int_equal(hs_step_end(o->session), HS_OK);
}

/* Returns the value that a run of this kind fetches. */
static double fetch(own *o, const char *name, hs_run_kind kind, size_t index)
{
    const hs_run_values *values;
    assert_ok(hs_session_run_args(o->session, HS_RUN_ARGS(.names = HS_NAMES(name), .kind = kind), &values, &o->err),
              &o->err);
    return hs_tensor_number(hs_run_values_tensor(values, 0), index);
}

static double average_of(own *o, const char *name, size_t index)
{
    return fetch(o, name, HS_RUN_AUX, index);
}

/* The arithmetic. */

static void follow(own *o, bool ramp)
{
    double wanted[N], wanted_weight = o->weight;
    for (int i = 0; i < N; i++)
        wanted[i] = weights[i];
    own_open_hook(o, AVERAGES(.decay = 0.9, .ramp = ramp));
    assert_true(average_of(o, weights_average, N - 1) == N - 1);
    for (int n = 1; n <= STEPS; n++) {
        double decay = ramp && (1.0 + n) / (10.0 + n) < 0.9 ? (1.0 + n) / (10.0 + n) : 0.9;
        step(o);
        wanted_weight = decay * wanted_weight + (1 - decay) * o->weight;
        assert_true(fabs(average_of(o, weight_average, 0) - wanted_weight) <= 1e-6 * fabs(wanted_weight));
        for (size_t i = 0; i < N; i += i < 10 ? 1 : 499) {
            wanted[i] = decay * wanted[i] + (1 - decay) * (double)weights[i];
            double found = average_of(o, weights_average, i);
            if (!(fabs(found - wanted[i]) <= 1e-5 * fabs(wanted[i])))
                fail_msg("step %d, element %zu: %.9g instead of %.9g", n, i, found, wanted[i]);
        }
    }
    own_close(o);
}

static void averages_follow_the_formula(void **state)
{
    follow(*state, false);
}

static void a_ramp_makes_them_follow_faster_at_first(void **state)
{
    follow(*state, true);
}

static void a_step_that_does_not_advance_changes_no_average(void **state)
{
    poisoned *p = *state;
    const hs_run_values *values;
    p->bad[0] = 2;
    p->rate = 4;
    hs_hook hooks[] = {
        hs_finite_guard(.gradients = HS_NAMES("gradient"), .policy = HS_GUARD_SKIP_STEP, .update_op = "update"),
        hs_moving_average(.variables = HS_NAMES("weight"), .decay = 0.5)};
    const double wanted[] = {2, 2, 9};
    assert_ok(poisoned_open(p, false, hooks, 2), &p->s->err);
    for (int i = 0; i < 3; i++) {
        assert_ok(poisoned_run(p, "compute", 1), &p->s->err);
        assert_ok(hs_session_run_args(p->s->session, HS_RUN_ARGS(.names = HS_NAMES(weight_average), .kind = HS_RUN_AUX),
                                      &values, &p->s->err),
                  &p->s->err);
        assert_true(hs_run_values_number(values, 0) == wanted[i]);
    }
    stage_close(p->s);
}

/* Checkpoints. */

static hs_session_options in_directory(const own *o)
{
    return (hs_session_options)HS_INIT(hs_session_options, .checkpoint_dir = o->directory);
}

static void open_saving(own *o, const hs_restore_options *restore)
{
    hs_session_options options = in_directory(o);
    options.restore_options = restore;
    own_open(o, &options,
             HS_HOOKS(AVERAGES(.decay = 0.9, .ramp = true),
                      hs_checkpoint_saver(.checkpoint_dir = o->directory, .every_n_steps = 1)),
             2);
}

static void forget(own *o)
{
    own_forget(o);
    memset(weights, 0xff, sizeof weights);
}

/* `seen` gets the averages after each step. */
static void train_some(own *o, int from, int until, double *seen)
{
    open_saving(o, NULL);
    for (int i = from; i < until; i++) {
        step(o);
        seen[2 * i] = average_of(o, weight_average, 0);
        seen[2 * i + 1] = average_of(o, weights_average, N - 1);
    }
}

static void train_whole(own *o, double *seen)
{
    float before[N];
    memcpy(before, weights, sizeof weights);
    train_some(o, 0, STEPS, seen);
    own_close(o);
    test_empty_directory(o->directory);
    own_forget(o);
    memcpy(weights, before, sizeof weights);
}

static void a_training_that_is_stopped_has_the_same_averages(void **state)
{
    double whole[2 * STEPS], stopped[2 * STEPS];
    own *o = *state;
    train_whole(o, whole);
    for (int i = 0; i < STEPS; i++) {
        train_some(o, i, i + 1, stopped);
        own_close(o);
        forget(o);
    }
    assert_memory_equal(stopped, whole, sizeof whole);
}

static void a_training_that_is_killed_has_the_same_averages(void **state)
{
    double whole[2 * STEPS], *killed = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    own *o = *state;
    assert_true(killed != MAP_FAILED);
    train_whole(o, whole);
    for (int i = 0; i < STEPS; i++) {
        int status;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            train_some(o, i, i + 1, killed);
            kill(getpid(), SIGKILL);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        forget(o);
    }
    assert_memory_equal(killed, whole, sizeof whole);
    munmap(killed, 4096);
}

static void a_checkpoint_has_them_under_tensorflows_names(void **state)
{
    own *o = *state;
    open_saving(o, NULL);
    step(o);
    step(o);
    double average = average_of(o, weight_average, 0), last = average_of(o, weights_average, N - 1);
    own_close(o);
    assert_true(own_saved(o, weight_average) == average);
    forget(o);
    const hs_restore_options as_weights =
        HS_INIT(hs_restore_options, .names = HS_CHECKPOINT_NAMES({"weight", weight_average}, {"weights", weights_average}));
    hs_session_options options = in_directory(o);
    options.restore_options = &as_weights;
    own_open(o, &options, NULL, 0);
    assert_true(o->weight == average);
    assert_true((double)weights[N - 1] == last);
    own_close(o);
}

static void they_can_be_added_to_a_training_without_averages(void **state)
{
    own *o = *state;
    const hs_restore_options lenient = HS_INIT(hs_restore_options, .allow_missing = true);
    own_open_hook(o, hs_checkpoint_saver(.checkpoint_dir = o->directory, .every_n_steps = 1));
    step(o);
    own_close(o);
    double weight = o->weight;
    float last = weights[N - 1];
    forget(o);
    open_saving(o, &lenient);
    assert_true(o->weight == weight);
    assert_true(average_of(o, weight_average, 0) == weight);
    assert_true(average_of(o, weights_average, N - 1) == (double)last);
    own_close(o);
}

static void a_restored_copy_has_the_averages_of_its_step(void **state)
{
    own *o = *state;
    hs_state_copy *copy = NULL;
    open_saving(o, NULL);
    step(o);
    double average = average_of(o, weights_average, 6);
    assert_ok(hs_raw_session_copy_state(hs_session_raw(o->session), &copy, &o->err), &o->err);
    step(o);
    assert_true(average_of(o, weights_average, 6) != average);
    assert_ok(hs_raw_session_restore_copy(hs_session_raw(o->session), copy, &o->err), &o->err);
    assert_true(average_of(o, weights_average, 6) == average);
    hs_state_copy_free(copy);
    own_close(o);
}

/* A variable whose memory a step allocates. */

static float *late; /* two elements */
static const char late_average[] = "late/ExponentialMovingAverage";

static void late_step(own *o, float first)
{
    assert_true(hs_step_begin(o->session));
    own_compute(o);
    if (!late)
        late = malloc(2 * sizeof *late);
    late[0] = first;
    late[1] = 2 * first;
    assert_int_equal(hs_step_end(o->session), HS_OK);
}

static void open_late(own *o)
{
    const hs_session_options options = in_directory(o);
    own_open(o, &options,
             HS_HOOKS(hs_moving_average(.variables = HS_NAMES("late", "weight"), .decay = 0.5),
                      hs_checkpoint_saver(.checkpoint_dir = o->directory, .every_n_steps = 1)),
             2);
}

static void close_late(own *o)
{
    own_close(o);
    free(late);
    late = NULL;
}

static void an_average_begins_with_the_memory(void **state)
{
    own *o = *state;
    const hs_run_args eval = HS_INIT(hs_run_args, .names = HS_NAMES("look"), .kind = HS_RUN_EVAL);
    hs_graph_variable_at(o->graph, "late", HS_FLOAT, HS_SHAPE(2), &late);
    open_late(o);
    step(o);
    assert_ok(hs_session_run_args(o->session, &eval, NULL, &o->err), &o->err);
    assert_fails(hs_session_run_args(o->session, HS_RUN_ARGS(.names = HS_NAMES(late_average)), NULL, &o->err),
                 HS_FAILED_PRECONDITION, &o->err, "has no memory yet");
    late_step(o, 4);
    assert_true(average_of(o, late_average, 0) == 4 && average_of(o, late_average, 1) == 8);
    late_step(o, 8);
    assert_true(average_of(o, late_average, 0) == 6 && average_of(o, late_average, 1) == 12);
    assert_true(fetch(o, "late", HS_RUN_EVAL, 1) == 12);
    assert_true(late[1] == 16);
    close_late(o);
}

static void a_late_average_is_restored(void **state)
{
    own *o = *state;
    hs_graph_variable_at(o->graph, "late", HS_FLOAT, HS_SHAPE(2), &late);
    open_late(o);
    step(o);
    close_late(o);
    open_late(o); /* from a checkpoint without it */
    assert_null(late);
    late_step(o, 4);
    late_step(o, 8);
    close_late(o);
    open_late(o);
    assert_true(late[0] == 8);
    assert_true(average_of(o, late_average, 0) == 6);
    late_step(o, 2);
    assert_true(average_of(o, late_average, 0) == 4);
    close_late(o);
}

/* A restore of a step before the average began. */
static void a_late_average_begins_again_after_a_rollback(void **state)
{
    own *o = *state;
    hs_state_copy *copy = NULL;
    hs_graph_variable_at(o->graph, "late", HS_FLOAT, HS_SHAPE(2), &late);
    open_late(o);
    step(o);
    assert_ok(hs_raw_session_copy_state(hs_session_raw(o->session), &copy, &o->err), &o->err);
    late_step(o, 4);
    assert_ok(hs_raw_session_restore_copy(hs_session_raw(o->session), copy, &o->err), &o->err);
    assert_true(late[0] == 0); /* its first value */
    late_step(o, 6);
    assert_true(average_of(o, late_average, 0) == 6);
    hs_state_copy_free(copy);
    close_late(o);
}

/* Swapping. */

static void an_evaluation_sees_the_averages(void **state)
{
    own *o = *state;
    float before[N];
    own_open_hook(o, AVERAGES(.decay = 0.75));
    for (int i = 0; i < 3; i++) {
        step(o);
        memcpy(before, weights, sizeof weights);
        double average = average_of(o, weights_average, 0);
        assert_true(average != (double)weights[0]);
        assert_true(fetch(o, "look", HS_RUN_EVAL, 0) == average);
        assert_true(fetch(o, "look", HS_RUN_AUX, 0) == (double)weights[0]);
        assert_memory_equal(weights, before, sizeof weights);
        assert_true(average_of(o, weights_average, 0) == average);
    }
    own_close(o);
    assert_memory_equal(weights, before, sizeof weights);
}

static void a_program_swaps_between_its_steps(void **state)
{
    own *o = *state;
    float before[N];
    hs_hook averages = AVERAGES(.decay = 0.75);
    own_open_hook(o, averages);
    step(o);
    step(o);
    memcpy(before, weights, sizeof weights);
    for (size_t i = 0; i < N; i += 7)
        weights[i] = NAN; /* NaN bits are restored, too */
    memcpy(before, weights, sizeof weights);
    double average = average_of(o, weights_average, N - 1), weight = o->weight, mean = average_of(o, weight_average, 0);
    for (int i = 0; i < 2; i++)
        assert_ok(hs_moving_average_swap(averages, true, &o->err), &o->err);
    assert_true((double)weights[N - 1] == average);
    assert_true(o->weight == mean);
    assert_true(fetch(o, "look", HS_RUN_EVAL, 0) == (double)weights[0]);
    assert_true((double)weights[N - 1] == average); /* the run has not swapped back */
    for (int i = 0; i < 2; i++)
        assert_ok(hs_moving_average_swap(averages, false, &o->err), &o->err);
    assert_memory_equal(weights, before, sizeof weights);
    assert_true(o->weight == weight);
    own_close(o);
}

static void no_step_is_made_with_the_averages(void **state)
{
    own *o = *state;
    hs_hook averages = AVERAGES(.decay = 0.75);
    own_open_hook(o, averages);
    step(o);
    double weight = o->weight;
    assert_ok(hs_moving_average_swap(averages, true, &o->err), &o->err);
    assert_false(hs_step_begin(o->session));
    own_close(o);
    assert_says(&o->outcome.error, HS_FAILED_PRECONDITION, "the variables hold the averages");
    assert_true(o->weight == weight);
}

static void a_save_with_the_averages_in_is_refused(void **state)
{
    own *o = *state;
    hs_hook averages = AVERAGES(.decay = 0.75);
    own_open_hook(o, averages);
    step(o);
    hs_saver *saver = hs_saver_new(NULL, &o->err);
    const char *path = test_path(o->directory, "model.ckpt");
    assert_ok(hs_moving_average_swap(averages, true, &o->err), &o->err);
    assert_fails(hs_saver_save(saver, hs_session_raw(o->session), path, 1, NULL, &o->err), HS_FAILED_PRECONDITION, &o->err,
                 "the variables hold the averages");
    assert_ok(hs_moving_average_swap(averages, false, &o->err), &o->err);
    assert_ok(hs_saver_save(saver, hs_session_raw(o->session), path, 1, NULL, &o->err), &o->err);
    hs_saver_free(saver);
    own_close(o);
}

/* A background save copies the variables while the program swaps them. */
static void a_save_of_before_the_swap_has_the_variables(void **state)
{
    enum { LARGE = 1 << 20 };
    own *o = *state;
    float *large = calloc(LARGE, sizeof *large), *saved = calloc(LARGE, sizeof *saved);
    hs_graph_variable(o->graph, "large", HS_FLOAT, HS_SHAPE(LARGE), large);
    hs_hook averages = hs_moving_average(.variables = HS_NAMES("large"), .decay = 0.75);
    own_open_hook(o, averages);
    hs_saver *saver = hs_saver_new(NULL, &o->err);
    const hs_save_options save = HS_INIT(hs_save_options, .background = true, .overlap = true);
    for (int64_t n = 1; n <= 5; n++) {
        assert_true(hs_step_begin(o->session));
        for (size_t i = 0; i < LARGE; i++)
            large[i] = (float)n;
        assert_int_equal(hs_step_end(o->session), HS_OK);
        assert_ok(
            hs_saver_save(saver, hs_session_raw(o->session), test_path(o->directory, "large.ckpt"), n, &save, &o->err),
            &o->err);
        assert_ok(hs_moving_average_swap(averages, true, &o->err), &o->err);
        assert_true(large[LARGE - 1] < (float)n);
        hs_saver_wait(saver);
        assert_ok(hs_moving_average_swap(averages, false, &o->err), &o->err);
        hs_checkpoint_reader *reader = hs_checkpoint_open(NULL, hs_saver_last_path(saver), &o->err);
        assert_ok(hs_checkpoint_read(reader, "large", saved, LARGE * sizeof *saved, &o->err), &o->err);
        for (size_t i = 0; i < LARGE; i++)
            assert_true(saved[i] == (float)n);
        hs_checkpoint_close(reader);
    }
    hs_saver_free(saver);
    own_close(o);
    free(large);
    free(saved);
}

static void closing_saves_the_variables(void **state)
{
    own *o = *state;
    hs_hook averages = AVERAGES(.decay = 0.75);
    own_open(o, NULL, HS_HOOKS(averages, hs_checkpoint_saver(.checkpoint_dir = o->directory, .every_n_steps = 1000)), 2);
    step(o);
    step(o);
    double weight = o->weight;
    assert_ok(hs_moving_average_swap(averages, true, &o->err), &o->err);
    assert_true(o->weight != weight);
    own_close(o);
    assert_true(o->weight == weight);
    assert_true(own_saved(o, "weight") == weight);
}

static void a_restore_ends_the_swap(void **state)
{
    own *o = *state;
    hs_state_copy *copy = NULL;
    hs_hook averages = AVERAGES(.decay = 0.75);
    own_open_hook(o, averages);
    step(o);
    assert_ok(hs_raw_session_copy_state(hs_session_raw(o->session), &copy, &o->err), &o->err);
    double weight = o->weight, average = average_of(o, weight_average, 0);
    step(o);
    assert_ok(hs_moving_average_swap(averages, true, &o->err), &o->err);
    assert_ok(hs_raw_session_restore_copy(hs_session_raw(o->session), copy, &o->err), &o->err);
    assert_true(o->weight == weight);
    step(o);
    assert_ok(hs_raw_session_restore_copy(hs_session_raw(o->session), copy, &o->err), &o->err);
    assert_ok(hs_moving_average_swap(averages, true, &o->err), &o->err);
    assert_true(o->weight == average);
    hs_state_copy_free(copy);
    own_close(o);
    assert_true(o->weight == weight);
}

/* The next run swaps back, or closing does. */
static void an_evaluation_that_fails_leaves_the_variables(void **state)
{
    own *o = *state;
    const hs_run_args evaluate = HS_INIT(hs_run_args, .names = HS_NAMES("look"), .kind = HS_RUN_EVAL);
    for (int runs = 0; runs < 2; runs++) {
        own_open_hook(o, AVERAGES(.decay = 0.75));
        step(o);
        double weight = o->weight, average = average_of(o, weight_average, 0);
        look_fails = true;
        assert_fails(hs_session_run_args(o->session, &evaluate, NULL, &o->err), HS_DATA_LOSS, &o->err, "it cannot look");
        look_fails = false;
        assert_true(o->weight == average);
        if (runs)
            assert_true(fetch(o, "weight", HS_RUN_AUX, 0) == weight);
        own_close(o);
        assert_true(o->weight == weight);
    }
}

/* hs_evaluation. */

typedef struct {
    own *o;
    double seen;
    hs_code code;
} evaluation;

static hs_code evaluate(void *user, hs_raw_session *session, int64_t at, hs_error *err)
{
    evaluation *e = user;
    (void)session, (void)at;
    e->seen = e->o->weight;
    return e->code ? hs_error_set(err, e->code, "no evaluation today") : HS_OK;
}

static void hs_evaluation_evaluates_the_averages(void **state)
{
    own *o = *state;
    evaluation e = {.o = o};
    hs_hook averages = AVERAGES(.decay = 0.75);
    own_open(o, NULL,
             HS_HOOKS(averages,
                      hs_evaluation(.evaluate = evaluate, .user = &e, .every_n_steps = 1, .moving_average = &averages),
                      hs_checkpoint_saver(.checkpoint_dir = o->directory, .every_n_steps = 1)),
             3);
    for (int i = 0; i < 3; i++) {
        step(o);
        assert_true(e.seen == average_of(o, weight_average, 0));
        assert_true(own_saved(o, "weight") == o->weight);
        assert_true(own_saved(o, weight_average) == e.seen);
    }
    e.code = HS_INTERNAL;
    double weight = o->weight + 4;
    assert_true(hs_step_begin(o->session));
    own_compute(o);
    assert_int_equal(hs_step_end(o->session), HS_INTERNAL);
    own_close(o);
    assert_true(o->weight == weight);
}

static void an_evaluation_of_another_hooks_averages_fails(void **state)
{
    own *o = *state;
    const hs_hook other = hs_hook_hold(hs_stop_at_step(.last_step = 10));
    own_open_hook(o, hs_evaluation(.metrics = HS_NAMES("loss"), .every_n_steps = 1, .moving_average = &other));
    assert_true(hs_step_begin(o->session));
    assert_int_equal(hs_step_end(o->session), HS_INVALID_ARGUMENT);
    own_close(o);
    assert_says(&o->outcome.error, HS_INVALID_ARGUMENT, "hs_moving_average_swap: the hook is not from hs_moving_average");
    hs_hook_free(other);
}

/* Memory of a device. */

static void a_variable_on_a_device_is_averaged_on_the_host(void **state)
{
    own *o = *state;
    device d;
    enum { BYTES = 300 * sizeof(double) };
    double values[300], found[300];
    device_open(&d, 1 << 16);
    double *there = device_alloc(&d, BYTES);
    for (int i = 0; i < 300; i++)
        values[i] = i + 1;
    d.memory.from_host(&d, there, values, BYTES, &o->err);
    hs_graph_add_variable(o->graph, HS_VARIABLE_DEF(.name = "far", .dtype = HS_DOUBLE, .shape = HS_SHAPE(300),
                                                    .data = there, .memory = &d.memory));
    hs_hook averages = hs_moving_average(.variables = HS_NAMES("far"), .decay = 0.5);
    own_open_hook(o, averages);
    for (int i = 0; i < 300; i++)
        values[i] = 3 * (i + 1);
    d.memory.from_host(&d, there, values, BYTES, &o->err);
    own_step(o);
    assert_true(average_of(o, "far/ExponentialMovingAverage", 299) == 600);
    assert_ok(hs_moving_average_swap(averages, true, &o->err), &o->err);
    d.memory.to_host(&d, found, there, BYTES, &o->err);
    assert_true(found[0] == 2 && found[299] == 600);
    d.fails_in = 1;
    assert_fails(hs_moving_average_swap(averages, false, &o->err), HS_INTERNAL, &o->err, "the device has lost");
    d.fails_in = 2;
    assert_fails(hs_moving_average_swap(averages, false, &o->err), HS_INTERNAL, &o->err, "the device has lost");
    assert_ok(hs_moving_average_swap(averages, false, &o->err), &o->err);
    d.memory.to_host(&d, found, there, BYTES, &o->err);
    assert_memory_equal(found, values, BYTES);
    own_close(o);
    device_close(&d);
}

/* Several sessions and hooks. */

static void a_variable_without_memory_is_not_swapped(void **state)
{
    own *o = *state;
    float *moving = weights;
    hs_graph_variable_at(o->graph, "moving", HS_FLOAT, HS_SHAPE(N), &moving);
    hs_hook averages = hs_moving_average(.variables = HS_NAMES("moving"), .decay = 0.5);
    own_open_hook(o, averages);
    step(o);
    moving = NULL;
    assert_fails(hs_moving_average_swap(averages, true, &o->err), HS_FAILED_PRECONDITION, &o->err, "has no memory");
    moving = weights;
    own_close(o);
}

static void a_later_session_of_the_graph_starts_with_new_averages(void **state)
{
    own *o = *state;
    for (int i = 0; i < 3; i++) {
        own_open_hook(o, AVERAGES(.decay = 0.75));
        assert_true(average_of(o, weight_average, 0) == o->weight);
        step(o);
        step(o);
        own_close(o);
    }
    own_open(o, NULL, NULL, 0); /* one without the hook */
    step(o);
    own_close(o);
}

static void two_hooks_have_different_names(void **state)
{
    own *o = *state;
    own_open(o, NULL,
             HS_HOOKS(hs_moving_average(.variables = HS_NAMES("weight"), .decay = 0.5),
                      hs_moving_average(.variables = HS_NAMES("weight"), .decay = 0.75, .name = "slow")),
             2);
    step(o);
    assert_true(average_of(o, weight_average, 0) == 0.5);
    assert_true(average_of(o, "weight/slow", 0) == 0.25);
    own_close(o);
}

/* Refused options. */

static void invalid_options_are_refused(void **state)
{
    own *o = *state;
    hs_error err;
    char long_name[600];
    static int64_t whole;
    memset(long_name, 'a', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    hs_graph_variable(o->graph, "whole", HS_INT64, HS_SCALAR, &whole);
    hs_graph_variable(o->graph, "taken/average", HS_INT64, HS_SCALAR, &whole);
    hs_graph_variable(o->graph, "taken", HS_FLOAT, HS_SCALAR, weights);
    const struct {
        hs_hook hook;
        hs_code code;
        const char *message;
    } cases[] = {
        {hs_moving_average(.decay = 0.5), HS_INVALID_ARGUMENT, "variables is missing"},
        {AVERAGES(.decay = 0), HS_INVALID_ARGUMENT, "decay is 0;"},
        {AVERAGES(.decay = 1), HS_INVALID_ARGUMENT, "decay is 1;"},
        {AVERAGES(.decay = (double)NAN), HS_INVALID_ARGUMENT, "decay is nan;"},
        {AVERAGES(.decay = 0.5, .name = long_name), HS_INVALID_ARGUMENT, "the name of variable 'weights' is too long"},
        {hs_moving_average(.variables = HS_NAMES("weight", "weights", "weight"), .decay = 0.5), HS_INVALID_ARGUMENT,
         "variables lists 'weight' twice"},
        {hs_moving_average(.variables = HS_NAMES("loss"), .decay = 0.5), HS_NOT_FOUND, "'loss' is not a variable"},
        {hs_moving_average(.variables = HS_NAMES("whole"), .decay = 0.5), HS_INVALID_ARGUMENT,
         "variable 'whole' is of type int64"},
        {hs_moving_average_hook(NULL), HS_INVALID_ARGUMENT, "hs_moving_average_options is NULL"},
        {hs_moving_average(.variables = HS_NAMES("taken"), .decay = 0.5, .name = "average"), HS_ALREADY_EXISTS,
         "'taken/average'"}, /* must be the last, because the graph keeps the error */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_null(
            hs_session_open(hs_graph_backend(o->graph), HS_SESSION_OPTIONS(.hooks = HS_HOOKS(cases[i].hook)), &err));
        assert_says(&err, cases[i].code, cases[i].message);
    }
}

static void another_backend_is_refused(void **state)
{
    stage_refuses(*state, hs_moving_average(.variables = HS_NAMES("w"), .decay = 0.5), HS_UNIMPLEMENTED,
                  "is not an embedded graph");
}

static void a_swap_needs_its_hook_and_a_session(void **state)
{
    own *o = *state;
    hs_hook averages = hs_hook_hold(AVERAGES(.decay = 0.5));
    assert_fails(hs_moving_average_swap(averages, true, &o->err), HS_FAILED_PRECONDITION, &o->err, "no open session");
    assert_fails(hs_moving_average_swap((hs_hook){.ops = NULL}, true, &o->err), HS_INVALID_ARGUMENT, &o->err,
                 "hs_moving_average_swap: the hook is not from hs_moving_average");
    own_open_hook(o, averages);
    own_close(o);
    assert_int_equal(hs_moving_average_swap(averages, true, NULL), HS_FAILED_PRECONDITION);
    hs_hook_free(averages);
}

static hs_code make_and_swap(test_env *t, void *user)
{
    hs_error err = {0};
    double weight = 1;
    (void)user;
    hs_graph *graph = hs_graph_new(&t->env);
    hs_graph_variable(graph, "weight", HS_DOUBLE, HS_SCALAR, &weight);
    hs_graph_global_step(graph, NULL, NULL);
    hs_hook averages = hs_moving_average(.variables = HS_NAMES("weight"), .decay = 0.5);
    hs_session *session = hs_session_open(hs_graph_backend(graph), HS_SESSION_OPTIONS(.hooks = HS_HOOKS(averages)), &err);
    if (session && hs_step_begin(session)) {
        weight = 2;
        if (!hs_step_end(session) && !hs_moving_average_swap(averages, true, &err))
            assert_true(weight == 1.5);
    }
    hs_outcome outcome = hs_session_close(session, err.code ? NULL : &err);
    assert_true(!session || weight == 2 || (outcome.error.code && weight == 1));
    hs_graph_free(graph);
    return err.code;
}

static void each_allocation(void **state)
{
    (void)state;
    test_each_allocation(make_and_swap, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        averages_test(averages_follow_the_formula),
        averages_test(a_ramp_makes_them_follow_faster_at_first),
        with_poisoned(a_step_that_does_not_advance_changes_no_average),
        averages_test(a_training_that_is_stopped_has_the_same_averages),
        averages_test(a_training_that_is_killed_has_the_same_averages),
        averages_test(a_checkpoint_has_them_under_tensorflows_names),
        averages_test(they_can_be_added_to_a_training_without_averages),
        averages_test(a_restored_copy_has_the_averages_of_its_step),
        averages_test(an_average_begins_with_the_memory),
        averages_test(a_late_average_is_restored),
        averages_test(a_late_average_begins_again_after_a_rollback),
        averages_test(an_evaluation_sees_the_averages),
        averages_test(a_program_swaps_between_its_steps),
        averages_test(no_step_is_made_with_the_averages),
        averages_test(a_save_with_the_averages_in_is_refused),
        averages_test(a_save_of_before_the_swap_has_the_variables),
        averages_test(closing_saves_the_variables),
        averages_test(a_restore_ends_the_swap),
        averages_test(an_evaluation_that_fails_leaves_the_variables),
        averages_test(hs_evaluation_evaluates_the_averages),
        averages_test(an_evaluation_of_another_hooks_averages_fails),
        own_test(a_variable_on_a_device_is_averaged_on_the_host),
        averages_test(a_variable_without_memory_is_not_swapped),
        averages_test(a_later_session_of_the_graph_starts_with_new_averages),
        averages_test(two_hooks_have_different_names),
        averages_test(invalid_options_are_refused),
        with_stage(another_backend_is_refused),
        averages_test(a_swap_needs_its_hook_and_a_session),
        cmocka_unit_test(each_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
