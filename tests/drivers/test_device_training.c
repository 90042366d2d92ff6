/* SPDX-License-Identifier: Apache-2.0 */
/* A training with its own loop, whose variables are on a device. */
#include "backends/device.h"

#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 1 << 15, STEPS = 6 }; /* more than one block of a copy */

typedef struct {
    device d;
    double *weights, *moments, *loss; /* on the device */
    int64_t position;                 /* position in the data, on the host */
    test_env t;
    hs_graph *graph;
    hs_session *session;
    hs_error err;
    hs_outcome outcome;
    char *directory;
} training;

static hs_code save_position(void *self, hs_state_writer *out, hs_error *err)
{
    return hs_state_writer_write(out, self, sizeof(int64_t), err);
}

static hs_code load_position(void *self, hs_state_reader *in, hs_error *err)
{
    return hs_state_reader_read(in, self, sizeof(int64_t), err);
}

static void add_variable(training *t, const char *name, hs_shape shape, double *data, uint64_t flags)
{
    hs_variable_def def = HS_INIT(hs_variable_def, .name = name, .dtype = HS_DOUBLE, .shape = shape, .data = data,
                                  .flags = flags, .memory = &t->d.memory);
    assert_int_equal(hs_graph_add_variable(t->graph, &def), HS_OK);
}

static void make(training *t)
{
    test_env_init(&t->t);
    device_open(&t->d, 3 * N * sizeof(double));
    t->weights = device_alloc(&t->d, N * sizeof(double));
    t->moments = device_alloc(&t->d, N * sizeof(double));
    t->loss = device_alloc(&t->d, sizeof(double));
    t->graph = hs_graph_new(&t->t.env);
    add_variable(t, "weights", HS_SHAPE(N), t->weights, 0);
    add_variable(t, "moments", HS_SHAPE(N), t->moments, 0);
    add_variable(t, "loss", HS_SCALAR, t->loss, HS_VARIABLE_LOCAL);
    hs_graph_state(t->graph, "data", save_position, load_position, &t->position);
}

static void unmake(training *t)
{
    hs_graph_free(t->graph);
    device_close(&t->d);
}

static void compute(training *t)
{
    double grows = (double)++t->position;
    device_enter(&t->d);
    for (size_t i = 0; i < N; i++) {
        t->moments[i] = t->moments[i] / 2 + grows;
        t->weights[i] += t->moments[i] + (double)i;
    }
    *t->loss = t->weights[1];
    device_leave(&t->d);
}

static double at(training *t, const double *where)
{
    device_enter(&t->d);
    double number = *where;
    device_leave(&t->d);
    return number;
}

static void loop(training *t, int64_t last)
{
    while (hs_session_global_step(t->session, NULL) < last && hs_step_begin(t->session)) {
        compute(t);
        hs_step_end(t->session);
    }
}

/* The tests. */

static int setup(void **state)
{
    training *t = calloc(1, sizeof *t);
    assert_non_null(t);
    make(t);
    t->directory = test_make_directory();
    *state = t;
    return 0;
}

static int teardown(void **state)
{
    training *t = *state;
    if (t->session)
        hs_session_close(t->session, NULL);
    unmake(t);
    test_remove_directory(t->directory);
    size_t live = t->t.live;
    free(t);
    return live ? -1 : 0;
}

/* Opens a session that restores from the directory and saves every second step. `hook` is destroyed in any case. */
static hs_session *try_open(training *t, const hs_hook *hook, bool background, bool overlap)
{
    hs_hook hooks[3] = {hs_checkpoint_saver(.checkpoint_dir = t->directory, .every_n_steps = 2, .background = background,
                                            .overlap = overlap)};
    if (hook)
        hooks[1] = *hook;
    hs_training_options options =
        HS_INIT(hs_training_options, .checkpoint_dir = t->directory, .hooks = hooks, .save_checkpoint_secs = HS_NEVER);
    return t->session = hs_training_session_open(hs_graph_backend(t->graph), &options, &t->err);
}

static void open_it(training *t, const hs_hook *hook)
{
    if (!try_open(t, hook, false, false))
        fail_msg("opening: %s", t->err.message);
}

static const hs_outcome *close_it(training *t)
{
    t->outcome = hs_session_close(t->session, &t->err);
    t->session = NULL;
    return &t->outcome;
}

/* Resets the memory, as in a new process. */
static void forget(training *t)
{
    device_enter(&t->d);
    memset(t->d.base, 0, t->d.used);
    device_leave(&t->d);
    t->position = 0;
}

/* The weight after this number of uninterrupted steps. */
static double undisturbed(int steps, size_t i)
{
    double moment = 0, weight = 0;
    for (int step = 1; step <= steps; step++) {
        moment = moment / 2 + step;
        weight += moment + (double)i;
    }
    return weight;
}

static void assert_is_at(training *t, int step)
{
    assert_int_equal(t->position, step);
    assert_true(at(t, &t->weights[0]) == undisturbed(step, 0));
    assert_true(at(t, &t->weights[N - 1]) == undisturbed(step, N - 1));
}

static void touching_the_devices_memory_ends_the_process(void **state)
{
    training *t = *state;
    int status;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); /* a sanitizer's handler would print */
        _exit(*(volatile double *)t->weights > 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSEGV);
}

static void a_training_is_resumed_on_the_device(void **state)
{
    training *t = *state;
    open_it(t, NULL);
    loop(t, 3);
    assert_int_equal(close_it(t)->last_saved_step, 3);
    forget(t);
    open_it(t, NULL);
    assert_is_at(t, 3);
    loop(t, STEPS);
    assert_is_at(t, STEPS);
    assert_int_equal(close_it(t)->reason, HS_REASON_CLOSED);
}

static void resumes_from_a_background_save(void **state, bool overlap)
{
    training *t = *state;
    assert_non_null(try_open(t, NULL, true, overlap));
    loop(t, 5);
    hs_session_fail(t->session, test_error(HS_INTERNAL, "no last save"));
    assert_int_equal(close_it(t)->reason, HS_REASON_FAILED);
    forget(t);
    open_it(t, NULL);
    assert_int_equal(hs_session_global_step(t->session, NULL), 4);
    assert_is_at(t, 4);
}

static void it_is_saved_in_the_background(void **state)
{
    resumes_from_a_background_save(state, false);
}

static void checkpoints_are_copied_concurrently_with_the_steps(void **state)
{
    resumes_from_a_background_save(state, true);
}

static void nan_on_the_device_is_found_and_not_saved(void **state)
{
    training *t = *state;
    hs_hook guard = hs_nan_tensor(.tensor = "loss");
    open_it(t, &guard);
    loop(t, 2);
    assert_true(hs_step_begin(t->session));
    device_enter(&t->d);
    *t->loss = NAN;
    device_leave(&t->d);
    hs_step_end(t->session);
    close_it(t);
    assert_string_equal(t->outcome.hook, "nan_tensor");
    assert_int_equal(t->outcome.last_saved_step, 2);
}

static void values_of_the_device_are_logged_and_drawn(void **state)
{
    training *t = *state;
    hs_hook chart =
        hs_evaluation(.name = "train", .metrics = HS_NAMES("loss"), .every_n_steps = 1, .summary_dir = t->directory);
    open_it(t, &chart);
    loop(t, 1);
    close_it(t);
    assert_contains(t->t.log, "step 1: train: loss = 2");
    assert_int_not_equal(test_count_files(t->directory, "tfevents"), 0);
}

static void a_copy_of_the_state_is_restored_to_the_device(void **state)
{
    training *t = *state;
    hs_state_copy *copy = NULL;
    open_it(t, NULL);
    loop(t, 2);
    assert_ok(hs_raw_session_copy_state(hs_session_raw(t->session), &copy, &t->err), &t->err);
    loop(t, 4);
    assert_ok(hs_raw_session_restore_copy(hs_session_raw(t->session), copy, &t->err), &t->err);
    assert_is_at(t, 2);
    hs_state_copy_free(copy);
}

/* A copy reports the failure of earlier device work once. */

static hs_code lose_once(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)run, (void)values;
    int64_t *left = self;
    return --*left == 0 ? hs_error_set(err, HS_UNAVAILABLE, "the device was reset") : HS_OK;
}

static void training_continues_after_its_device_is_lost(void **state)
{
    training *t = *state;
    static const hs_hook_ops ops = HS_INIT(hs_hook_ops, .name = "driver", .after_run = lose_once);
    int64_t left = 4;
    hs_hook driver = {.ops = &ops, .self = &left};
    open_it(t, &driver);
    loop(t, STEPS);
    assert_int_equal(hs_session_recoveries(t->session), 1);
    assert_is_at(t, STEPS);
    assert_int_equal(close_it(t)->reason, HS_REASON_CLOSED);
}

static void a_copy_that_fails_in_a_save_names_the_variable(void **state)
{
    training *t = *state;
    open_it(t, NULL);
    loop(t, 3);
    t->d.fails_in = 2;
    loop(t, 4);
    assert_true(hs_session_should_stop(t->session));
    close_it(t);
    assert_says(&t->err, HS_INTERNAL, "cannot read variable 'weights'");
    assert_contains(t->err.message, "the device has lost its work");
    forget(t);
    open_it(t, NULL); /* the earlier checkpoint is unchanged */
    assert_is_at(t, 2);
}

static void a_copy_that_fails_in_a_restore_names_the_variable(void **state)
{
    training *t = *state;
    open_it(t, NULL);
    loop(t, 2);
    close_it(t);
    forget(t);
    t->d.fails_in = 1;
    assert_null(try_open(t, NULL, false, false));
    assert_says(&t->err, HS_INTERNAL, "cannot write variable '");
    open_it(t, NULL);
    assert_is_at(t, 2);
}

/* HS_UNAVAILABLE of the device is a loss, from which the session recovers. */
static void a_copy_that_is_unavailable_once_is_recovered_from(void **state)
{
    training *t = *state;
    open_it(t, NULL);
    loop(t, 3);
    t->d.code = HS_UNAVAILABLE;
    t->d.fails_in = 1;
    loop(t, STEPS);
    assert_int_equal(hs_session_recoveries(t->session), 1);
    assert_is_at(t, STEPS);
}

static void a_copy_that_fails_in_a_guard_names_the_tensor(void **state)
{
    training *t = *state;
    hs_hook guard = hs_nan_tensor(.tensor = "loss");
    open_it(t, &guard);
    t->d.fails_in = 1;
    loop(t, 1);
    close_it(t);
    assert_says(&t->err, HS_INTERNAL, "hook 'nan_tensor', after_run at step 1: tensor 'loss': ");
}

#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(touching_the_devices_memory_ends_the_process),
        test(a_training_is_resumed_on_the_device),
        test(it_is_saved_in_the_background),
        test(checkpoints_are_copied_concurrently_with_the_steps),
        test(nan_on_the_device_is_found_and_not_saved),
        test(values_of_the_device_are_logged_and_drawn),
        test(a_copy_of_the_state_is_restored_to_the_device),
        test(training_continues_after_its_device_is_lost),
        test(a_copy_that_fails_in_a_save_names_the_variable),
        test(a_copy_that_fails_in_a_restore_names_the_variable),
        test(a_copy_that_is_unavailable_once_is_recovered_from),
        test(a_copy_that_fails_in_a_guard_names_the_tensor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
