/* SPDX-License-Identifier: Apache-2.0 */
/* Late hooks: the training does not wait for their values. Over a stand-in for CUDA's driver. */
#include "cuda/fake_driver.h"
#include "cuda/gate.h"
#include "support/test.h"

#include <hooksess/cuda.h>

#include <math.h>
#include <stdlib.h>

/* A value of LARGE floats is too large to be late. */
enum { LARGE = (1 << 16) / (int)sizeof(float) + 1 };

/* A program: each step sets the loss, on the device, and the rate, on the host, to the number of the step. */
typedef struct {
    char *directory;
    CUstream stream;
    float *loss, *large; /* on the device */
    float rate, bad_at;  /* the loss is NaN in this step; 0: in none */
    int64_t step;
    hs_cuda *cuda;
    hs_graph *graph;
    hs_session *session;
    hs_error err;
} program;

typedef struct {
    float *loss, value;
} arguments;

static void kernel(void *of)
{
    const arguments *a = of;
    *(float *)fake_cuda_show(a->loss) = a->value;
}

static float *allocate(size_t n)
{
    CUdeviceptr address;
    assert_int_equal(cuMemAlloc_v2(&address, n * sizeof(float)), 0);
    return (float *)(uintptr_t)address;
}

static int setup(void **state)
{
    program *p = calloc(1, sizeof *p);
    p->directory = test_make_directory();
    fake_cuda_fail(NULL, 0, 0, false);
    fake_cuda_set_room((size_t)64 << 30);
    set_gate(true);
    fake_cuda_use();
    assert_int_equal(cuStreamCreate(&p->stream, 0), 0);
    p->loss = allocate(1);
    p->large = allocate(LARGE);
    *state = p;
    return 0;
}

/* Ends the training. */
static hs_code stop(program *p)
{
    hs_outcome outcome = hs_session_close(p->session, &p->err);
    p->session = NULL;
    hs_graph_free(p->graph);
    p->graph = NULL;
    hs_cuda_free(p->cuda);
    p->cuda = NULL;
    return outcome.error.code;
}

static int teardown(void **state)
{
    program *p = *state;
    fake_cuda_fail(NULL, 0, 0, false);
    stop(p);
    cuStreamSynchronize(p->stream);
    cuMemFree_v2((CUdeviceptr)p->loss);
    cuMemFree_v2((CUdeviceptr)p->large);
    cuStreamDestroy_v2(p->stream);
    test_remove_directory(p->directory);
    free(p);
    assert_int_equal(fake_cuda_objects(), 0);
    return 0;
}

/* The calls of the hook `reader`. */
static struct {
    int64_t step; /* of the run, as the hook sees it */
    double value, rate;
} calls[32];
static size_t n_calls;
static int64_t stops_at; /* the step whose values let it return HS_STOP; 0: none */

static hs_code read_values(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)self;
    assert_int_equal(hs_run_context_boundary(run), 0);
    assert_int_equal(hs_run_context_kind(run), HS_RUN_TRAIN);
    assert_true(n_calls < sizeof calls / sizeof *calls);
    calls[n_calls].step = hs_run_context_global_step(run, err);
    calls[n_calls].value = hs_run_values_number_at(values, "loss");
    calls[n_calls].rate = hs_run_values_number_at(values, "rate");
    return calls[n_calls++].step == stops_at ? HS_STOP : HS_OK;
}

static const hs_hook_ops reader =
    HS_INIT(hs_hook_ops, .name = "reader", .fetches = HS_NAMES("loss", "rate"), .after_run = read_values);
#define LATE_READER(steps) hs_hook_late(HS_HOOK(.ops = &reader, .when = HS_EVERY_STEPS(steps)))

static void assert_calls(size_t n, int64_t first, int64_t every)
{
    assert_int_equal(n_calls, n);
    for (size_t i = 0; i < n; i++) {
        const int64_t step = first + (int64_t)i * every;
        if (calls[i].step != step || calls[i].value != (double)step || calls[i].rate != (double)step)
            fail_msg("call %zu, of step %lld, got %g and %g of step %lld", i, (long long)step, calls[i].value,
                     calls[i].rate, (long long)calls[i].step);
    }
}

#define start(p, ...) start_with((p), NULL, HS_HOOKS(__VA_ARGS__))
static void start_with(program *p, const hs_memory *memory, const hs_hook *hooks)
{
    p->step = stops_at = 0;
    n_calls = 0;
    if (!p->cuda)
        assert_non_null(p->cuda = hs_cuda_new(HS_CUDA_OPTIONS(.stream = p->stream), &p->err));
    p->graph = hs_graph_new(NULL);
    hs_graph_variable_at(p->graph, "loss", HS_FLOAT, HS_SCALAR, &p->loss, .flags = HS_VARIABLE_LOCAL,
                         .memory = memory ? memory : hs_cuda_memory(p->cuda));
    hs_cuda_value(p->cuda, p->graph, "large", HS_FLOAT, HS_SHAPE(LARGE), &p->large);
    hs_graph_variable(p->graph, "rate", HS_FLOAT, HS_SCALAR, &p->rate);
    hs_graph_global_step(p->graph, NULL, &p->step);
    p->session = hs_session_open(hs_graph_backend(p->graph),
                                 HS_SESSION_OPTIONS(.checkpoint_dir = p->directory, .hooks = hooks), &p->err);
}

static void launch_step(program *p)
{
    p->rate = (float)(p->step + 1);
    fake_cuda_launch(p->stream, kernel, &(arguments){p->loss, p->rate == p->bad_at ? NAN : p->rate}, sizeof(arguments));
}

static void train_to(program *p, int64_t last)
{
    while (p->step < last && hs_step_begin(p->session)) {
        launch_step(p);
        hs_step_end(p->session);
    }
}

static void the_training_thread_does_not_wait(void **state)
{
    program *p = *state;
    start(p, LATE_READER(1));
    train_to(p, 1);
    assert_calls(0, 1, 1);
    cuStreamSynchronize(p->stream);
    set_gate(false);
    fake_cuda_launch(p->stream, wait_at_gate, NULL, 0);
    train_to(p, 2); /* its loss is behind the gate */
    assert_calls(1, 1, 1);
    set_gate(true);
    train_to(p, 4);
    assert_false(gate_timed_out);
    assert_calls(3, 1, 1);
    assert_int_equal(stop(p), HS_OK);
    assert_calls(4, 1, 1);
}

static int n_others;

static hs_code count(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)self, (void)run, (void)values, (void)err;
    n_others++;
    return HS_OK;
}

static hs_code read_now(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    assert_true(hs_run_values_number(values, 0) == (double)hs_run_context_global_step(run, err));
    return count(self, run, values, err);
}

static const hs_hook_ops other = HS_INIT(hs_hook_ops, .name = "other", .fetches = HS_NAMES("loss"), .after_run = read_now);

static void a_hook_gets_the_values_of_the_run_in_which_it_was_due(void **state)
{
    program *p = *state;
    n_others = 0;
    start(p, LATE_READER(3), HS_HOOK(.ops = &other));
    train_to(p, 5);
    assert_calls(0, 3, 3);
    train_to(p, 6);
    assert_calls(1, 3, 3);
    train_to(p, 11);
    assert_int_equal(stop(p), HS_OK);
    assert_calls(3, 3, 3);
    assert_int_equal(n_others, 11);
}

static hs_code request_in_turn(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    static const char *const names[][4] = {{"loss", "rate"}, {"global_step", "rate", "loss"}};
    static hs_run_args wanted = HS_INIT(hs_run_args);
    (void)self;
    wanted.names = names[hs_run_context_global_step(run, err) % 2];
    *args = &wanted;
    return HS_OK;
}

static hs_code read_in_turn(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    assert_int_equal(hs_run_values_count(values), hs_run_context_global_step(run, err) % 2 ? 2 : 3);
    return read_values(self, run, values, err);
}

static const hs_hook_ops changing =
    HS_INIT(hs_hook_ops, .name = "changing", .before_run = request_in_turn, .after_run = read_in_turn);

static void a_hook_may_change_its_fetches(void **state)
{
    program *p = *state;
    start(p, hs_hook_late(HS_HOOK(.ops = &changing)));
    train_to(p, 5);
    assert_int_equal(stop(p), HS_OK);
    assert_calls(5, 1, 1);
}

static void a_row_has_the_step_of_its_values(void **state)
{
    program *p = *state;
    char *texts[2];
    for (int late = 0; late < 2; late++) {
        const char *path = test_path(p->directory, late ? "late.csv" : "now.csv");
        hs_hook rows = hs_metrics_file(.path = path, .tensors = HS_NAMES("loss", "rate"), .every_n_steps = 2);
        start(p, late ? hs_hook_late(rows) : rows);
        train_to(p, 6);
        assert_int_equal(stop(p), HS_OK);
        texts[late] = test_read_file(path, NULL);
        for (char *line = strchr(texts[late], '\n'); line[1]; line = strchr(line + 1, '\n')) {
            char *time = strchr(line, ',') + 1; /* it differs */
            memset(time, '0', strcspn(time, ","));
        }
    }
    assert_string_equal(texts[1], texts[0]);
    assert_non_null(strstr(texts[1], "\n5,"));
    free(texts[0]);
    free(texts[1]);
}

static void the_values_come_before_a_save(void **state)
{
    program *p = *state;
    start(p, LATE_READER(1), hs_checkpoint_saver(.checkpoint_dir = p->directory, .every_n_steps = 3));
    train_to(p, 2);
    assert_calls(1, 1, 1);
    train_to(p, 3);
    assert_calls(3, 1, 1);
    train_to(p, 4);
    assert_calls(3, 1, 1);
    assert_int_equal(stop(p), HS_OK);
    assert_calls(4, 1, 1);
}

static void nan_is_found_before_a_save(void **state)
{
    program *p = *state;
    p->bad_at = 4;
    start(p, hs_hook_late(hs_nan_tensor(.tensor = "loss")),
          hs_checkpoint_saver(.checkpoint_dir = p->directory, .every_n_steps = 2));
    train_to(p, 8);
    assert_int_equal(p->step, 4);
    assert_int_equal(stop(p), HS_FAILED_PRECONDITION);
    assert_contains(p->err.message, "after_run at step 4: values of step 4: tensor 'loss' is NaN");
    assert_true(test_exists(p->directory, "model.ckpt-2.index"));
    assert_false(test_exists(p->directory, "model.ckpt-4.index"));
}

static void nan_is_found_in_the_next_run(void **state)
{
    program *p = *state;
    p->bad_at = 3;
    start(p, hs_hook_late(hs_nan_tensor(.tensor = "loss")));
    train_to(p, 8);
    assert_int_equal(p->step, 4);
    assert_int_equal(stop(p), HS_FAILED_PRECONDITION);
    assert_contains(p->err.message, "after_run at step 4: values of step 3: tensor 'loss' is NaN");
}

static void nan_of_the_last_run_fails_the_close(void **state)
{
    program *p = *state;
    p->bad_at = 3;
    start(p, hs_hook_late(hs_nan_tensor(.tensor = "loss")));
    train_to(p, 3);
    assert_int_equal(stop(p), HS_FAILED_PRECONDITION);
    assert_contains(p->err.message, "values of step 3: tensor 'loss' is NaN");
}

static void a_hook_that_stops_the_training_gets_the_last_values(void **state)
{
    program *p = *state;
    start(p, LATE_READER(1));
    stops_at = 2;
    train_to(p, 5);
    assert_int_equal(p->step, 3);
    assert_int_equal(stop(p), HS_OK);
    assert_calls(3, 1, 1);
}

static hs_code request_boundary(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)self, (void)values, (void)err;
    hs_run_context_request_boundary(run);
    return HS_OK;
}

static const hs_hook_ops evaluator = HS_INIT(hs_hook_ops, .name = "evaluator", .after_run = request_boundary);

static void values_that_come_in_an_evaluation_are_those_of_the_training(void **state)
{
    program *p = *state;
    start(p, LATE_READER(1), HS_HOOK(.ops = &evaluator, .flags = HS_HOOK_EVAL));
    train_to(p, 2);
    assert_calls(1, 1, 1);
    assert_ok(hs_session_run_args(p->session, HS_RUN_ARGS(.kind = HS_RUN_EVAL), NULL, &p->err), &p->err);
    assert_calls(2, 1, 1);
    assert_int_equal(stop(p), HS_OK);
}

static void a_restore_discards_the_values(void **state)
{
    program *p = *state;
    hs_state_copy *copy = NULL;
    start(p, LATE_READER(1));
    hs_raw_session *raw = hs_session_raw(p->session);
    train_to(p, 1);
    assert_ok(hs_raw_session_copy_state(raw, &copy, &p->err), &p->err);
    train_to(p, 3);
    assert_calls(2, 1, 1); /* step 3 still has none */
    assert_ok(hs_raw_session_restore_copy(raw, copy, &p->err), &p->err);
    hs_state_copy_free(copy);
    assert_int_equal(p->step, 1);
    n_calls = 0;
    train_to(p, 2);
    assert_calls(0, 1, 1);
    train_to(p, 3);
    assert_int_equal(stop(p), HS_OK);
    assert_calls(2, 2, 1);
}

static void after_a_failure_the_values_are_discarded(void **state)
{
    program *p = *state;
    start(p, LATE_READER(1));
    train_to(p, 2);
    hs_session_fail(p->session, &(hs_error){.code = HS_ABORTED});
    assert_int_equal(stop(p), HS_ABORTED);
    assert_calls(1, 1, 1);
}

/* The program may free or move a value when the step is over. */
static void a_value_may_move(void **state)
{
    program *p = *state;
    start(p, LATE_READER(1));
    for (int i = 1; i <= 6; i++) {
        train_to(p, i);
        float *before = p->loss;
        p->loss = allocate(1);
        cuStreamSynchronize(p->stream);
        cuMemFree_v2((CUdeviceptr)before);
    }
    assert_int_equal(stop(p), HS_OK);
    assert_calls(6, 1, 1);
}

/* Where the flag has no effect. */

static void without_pinned_memory_a_hook_gets_the_values_now(void **state)
{
    program *p = *state;
    start(p, LATE_READER(1));
    fake_cuda_fail("cuMemAllocHost_v2", 1, CUDA_ERROR_OUT_OF_MEMORY, false);
    train_to(p, 2);
    assert_calls(1, 1, 1);
    train_to(p, 3);
    assert_calls(2, 1, 1);
    assert_int_equal(stop(p), HS_OK);
    assert_calls(3, 1, 1);
}

static void memory_that_cannot_hold_the_program(void **state)
{
    program *p = *state;
    assert_non_null(p->cuda = hs_cuda_new(HS_CUDA_OPTIONS(.stream = p->stream), &p->err));
    hs_memory memory = *hs_cuda_memory(p->cuda);
    memory.duplicate = NULL;
    memory.release = NULL;
    memory.hold = NULL;
    memory.restore = NULL;
    start_with(p, &memory, HS_HOOKS(LATE_READER(1)));
    train_to(p, 3);
    assert_calls(3, 1, 1);
    assert_int_equal(stop(p), HS_OK);
}

static const hs_hook_ops on_host = HS_INIT(hs_hook_ops, .name = "host", .fetches = HS_NAMES("rate"), .after_run = count);
static const hs_hook_ops large =
    HS_INIT(hs_hook_ops, .name = "large", .fetches = HS_NAMES("loss", "large"), .after_run = count);
static const hs_hook_ops none = HS_INIT(hs_hook_ops, .name = "none", .after_run = count);

static void large_values_and_values_of_the_host_come_now(void **state)
{
    program *p = *state;
    n_others = 0;
    start(p, hs_hook_late(HS_HOOK(.ops = &on_host)), hs_hook_late(HS_HOOK(.ops = &large)),
          hs_hook_late(HS_HOOK(.ops = &none)));
    train_to(p, 1);
    assert_int_equal(n_others, 3);
    assert_int_equal(stop(p), HS_OK);
}

static hs_code run_step(void *user, hs_op *op, hs_error *err)
{
    (void)op, (void)err;
    launch_step(user);
    return HS_OK;
}

static hs_code set_score(void *user, hs_op *op, hs_error *err)
{
    (void)user, (void)err;
    *(float *)hs_op_written(op, 0)->data += 1;
    return HS_OK;
}

static double scores[8];

static hs_code read_score(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)self;
    const int64_t step = hs_run_context_global_step(run, err);
    const bool computed = hs_raw_session_computed_at(hs_run_context_session(run), "score") >= step;
    scores[step] = computed ? hs_run_values_number(values, 1) : -1;
    return HS_OK;
}

static const hs_hook_ops score_reader =
    HS_INIT(hs_hook_ops, .name = "score", .fetches = HS_NAMES("loss", "score"), .after_run = read_score);

/* Steps 2 and 3 compute the score. */
static void with_a_value_of_an_earlier_step_a_hook_gets_the_values_now(void **state)
{
    program *p = *state;
    float score = 0;
    assert_non_null(p->cuda = hs_cuda_new(HS_CUDA_OPTIONS(.stream = p->stream), &p->err));
    p->graph = hs_graph_new(NULL);
    hs_cuda_value(p->cuda, p->graph, "loss", HS_FLOAT, HS_SCALAR, &p->loss);
    hs_graph_value(p->graph, "score", HS_FLOAT, HS_SCALAR, &score);
    hs_graph_global_step(p->graph, NULL, &p->step);
    hs_graph_op(p->graph, .name = "train", .run = run_step, .user = p, .writes = HS_NAMES("loss"), .advances_step = true);
    hs_graph_op(p->graph, .name = "measure", .run = set_score, .writes = HS_NAMES("score"));
    p->session =
        hs_session_open(hs_graph_backend(p->graph),
                        HS_SESSION_OPTIONS(.hooks = HS_HOOKS(hs_hook_late(HS_HOOK(.ops = &score_reader)))), &p->err);
    assert_non_null(p->session);
    for (int step = 1; step <= 5; step++) {
        const char *names[] = {"train", step == 2 || step == 3 ? "measure" : NULL, NULL};
        scores[step] = 0;
        assert_ok(hs_session_run_args(p->session, HS_RUN_ARGS(.names = names), NULL, &p->err), &p->err);
        if (step == 2)
            assert_true(scores[2] == 0); /* later */
    }
    assert_true(scores[1] == -1 && scores[2] == 1 && scores[3] == 2 && scores[4] == -1 && scores[5] == -1);
    assert_int_equal(stop(p), HS_OK);
}

static void a_hook_that_acts_on_all_ranks_cannot_be_late(void **state)
{
    program *p = *state;
    start(p, hs_hook_late(hs_finite_guard(.losses = HS_NAMES("loss"))));
    assert_null(p->session);
    assert_says(&p->err, HS_INVALID_ARGUMENT, "hook 'finite_guard' acts together on all ranks, so that it cannot be late");
}

/* If a copy cannot begin, the hook gets the values now. If it cannot be waited for, the training fails. */
static void every_call_of_the_driver_may_fail(void **state)
{
    program *p = *state;
    static const char *const names[] = {"cuMemcpyDtoHAsync_v2", "cuMemAllocHost_v2", "cuEventRecord", "cuStreamWaitEvent",
                                        "cuEventSynchronize"};
    const size_t n = sizeof names / sizeof *names;
    for (size_t i = 0; i < n; i++)
        for (int nth = 1; nth <= 6; nth++) {
            start(p, LATE_READER(1), hs_hook_late(hs_nan_tensor(.tensor = "loss")));
            fake_cuda_fail(names[i], nth, CUDA_ERROR_OUT_OF_MEMORY, false);
            train_to(p, 4);
            fake_cuda_fail(NULL, 0, 0, false);
            const hs_code code = stop(p);
            assert_int_equal(code, i < n - 1 ? HS_OK : HS_RESOURCE_EXHAUSTED);
            if (code)
                assert_contains(p->err.message, "cuEventSynchronize: CUDA_ERROR_OUT_OF_MEMORY (2)");
            else
                assert_calls(4, 1, 1);
        }
}

#define over_driver(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        over_driver(the_training_thread_does_not_wait),
        over_driver(a_hook_gets_the_values_of_the_run_in_which_it_was_due),
        over_driver(a_hook_may_change_its_fetches),
        over_driver(a_row_has_the_step_of_its_values),
        over_driver(the_values_come_before_a_save),
        over_driver(nan_is_found_before_a_save),
        over_driver(nan_is_found_in_the_next_run),
        over_driver(nan_of_the_last_run_fails_the_close),
        over_driver(a_hook_that_stops_the_training_gets_the_last_values),
        over_driver(values_that_come_in_an_evaluation_are_those_of_the_training),
        over_driver(a_restore_discards_the_values),
        over_driver(after_a_failure_the_values_are_discarded),
        over_driver(a_value_may_move),
        over_driver(without_pinned_memory_a_hook_gets_the_values_now),
        over_driver(memory_that_cannot_hold_the_program),
        over_driver(large_values_and_values_of_the_host_come_now),
        over_driver(with_a_value_of_an_earlier_step_a_hook_gets_the_values_now),
        over_driver(a_hook_that_acts_on_all_ranks_cannot_be_late),
        over_driver(every_call_of_the_driver_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
