/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of the state on the device, for rollbacks and the best state. In sessions that save nothing, over a stand-in for
 * CUDA's driver. */
#include "cuda/fake_driver.h"
#include "cuda/gate.h"
#include "support/test.h"

#include <hooksess/cuda.h>

#include <math.h>

enum { N = 1 << 16, ILLEGAL_ADDRESS = 700 };

/* A program: each step adds 1 to the parameters and 2 to the moments, and sets the loss to the first parameter. */
typedef struct {
    CUstream stream;
    float *parameters, *moments, *loss; /* on the device */
    float bad_at;                       /* the loss is NaN instead of this */
    int64_t step;
    hs_cuda *cuda;
    hs_graph *graph;
    hs_session *session;
    hs_error err;
} program;

typedef struct {
    float *parameters, *moments, *loss, bad_at;
} arguments;

static float initial(size_t i)
{
    return 0.001f * (float)i;
}

static void fill(void *of)
{
    const arguments *a = of;
    float *parameters = fake_cuda_show(a->parameters), *moments = fake_cuda_show(a->moments);
    for (size_t i = 0; i < N; i++) {
        parameters[i] = initial(i);
        moments[i] = -initial(i);
    }
}

static void kernel(void *of)
{
    const arguments *a = of;
    float *parameters = fake_cuda_show(a->parameters), *moments = fake_cuda_show(a->moments);
    for (size_t i = 0; i < N; i++) {
        parameters[i] += 1;
        moments[i] += 2;
    }
    *(float *)fake_cuda_show(a->loss) = parameters[0] == a->bad_at ? NAN : parameters[0];
}

static void launch(program *p, void (*what)(void *arguments))
{
    fake_cuda_launch(p->stream, what, &(arguments){p->parameters, p->moments, p->loss, p->bad_at}, sizeof(arguments));
}

/* Asserts that the device has the initial state after this many steps, to the bit. */
static void assert_initial_and(program *p, int steps)
{
    static float parameters[N], moments[N];
    assert_int_equal(cuMemcpyDtoHAsync_v2(parameters, (CUdeviceptr)p->parameters, sizeof parameters, p->stream), 0);
    assert_int_equal(cuMemcpyDtoHAsync_v2(moments, (CUdeviceptr)p->moments, sizeof moments, p->stream), 0);
    assert_int_equal(cuStreamSynchronize(p->stream), 0);
    for (size_t i = 0; i < N; i++) {
        float expected[2] = {initial(i), -initial(i)};
        for (int k = 0; k < steps; k++) {
            expected[0] += 1;
            expected[1] += 2;
        }
        if (memcmp(&parameters[i], &expected[0], sizeof(float)) != 0 ||
            memcmp(&moments[i], &expected[1], sizeof(float)) != 0)
            fail_msg("after %d steps, element %zu is %.9g, and its moment %.9g", steps, i, parameters[i], moments[i]);
    }
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
    fake_cuda_fail(NULL, 0, 0, false);
    fake_cuda_set_room((size_t)64 << 30);
    fake_cuda_use();
    assert_int_equal(cuStreamCreate(&p->stream, 0), 0);
    p->parameters = allocate(N);
    p->moments = allocate(N);
    p->loss = allocate(1);
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
    cuMemFree_v2((CUdeviceptr)p->parameters);
    cuMemFree_v2((CUdeviceptr)p->moments);
    cuMemFree_v2((CUdeviceptr)p->loss);
    cuStreamDestroy_v2(p->stream);
    free(p);
    assert_int_equal(fake_cuda_objects(), 0);
    return 0;
}

static hs_session *open_session(program *p, hs_cuda **cuda, hs_graph **graph, const hs_hook *hooks)
{
    *cuda = hs_cuda_new(HS_CUDA_OPTIONS(.stream = p->stream), &p->err);
    assert_non_null(*cuda);
    *graph = hs_graph_new(NULL);
    hs_cuda_variable(*cuda, *graph, "parameters", HS_FLOAT, HS_SHAPE(N), &p->parameters);
    hs_cuda_variable(*cuda, *graph, "moments", HS_FLOAT, HS_SHAPE(N), &p->moments);
    hs_cuda_value(*cuda, *graph, "loss", HS_FLOAT, HS_SCALAR, &p->loss);
    hs_graph_global_step(*graph, NULL, &p->step);
    return hs_session_open(hs_graph_backend(*graph), HS_SESSION_OPTIONS(.hooks = hooks), &p->err);
}

static void start(program *p, const hs_hook *hooks)
{
    p->step = 0;
    launch(p, fill);
    p->session = open_session(p, &p->cuda, &p->graph, hooks);
}

static void step_once(program *p)
{
    assert_true(hs_step_begin(p->session));
    launch(p, kernel);
    hs_step_end(p->session);
}

static int copies_on_device(void)
{
    return fake_cuda_calls("cuMemcpyDtoDAsync_v2");
}

static int copies_to_host(void)
{
    return fake_cuda_calls("cuMemcpyDtoHAsync_v2");
}

/* Rollback. */

/* The loss of step 2 is NaN. */
static void start_guarded(program *p)
{
    p->bad_at = initial(0) + 2;
    start(p, HS_HOOKS(hs_finite_guard(.losses = HS_NAMES("loss"), .policy = HS_GUARD_ROLLBACK)));
}

/* Rolls back after step 2. Then the next step begins while the device restores. */
static void roll_back(program *p)
{
    step_once(p);
    step_once(p);
    assert_int_equal(p->step, 0);
    p->bad_at = 0;
    step_once(p);
}

static void a_rollback_copies_on_the_device(void **state)
{
    program *p = *state;
    const int on_device = copies_on_device(), to_host = copies_to_host(),
              to_device = fake_cuda_calls("cuMemcpyHtoDAsync_v2");
    start_guarded(p);
    assert_non_null(p->session);
    assert_int_equal(copies_on_device(), on_device + 2);
    roll_back(p);
    assert_int_equal(copies_on_device(), on_device + 4);
    assert_int_equal(copies_to_host(), to_host + 3); /* the losses */
    assert_int_equal(fake_cuda_calls("cuMemcpyHtoDAsync_v2"), to_device);
    assert_initial_and(p, 1);
}

static void without_room_on_the_device_the_copy_is_on_the_host(void **state)
{
    program *p = *state;
    const int on_device = copies_on_device();
    fake_cuda_fail("cuMemAllocFromPoolAsync", 2, CUDA_ERROR_OUT_OF_MEMORY, false); /* room for one of the two */
    start_guarded(p);
    roll_back(p);
    assert_initial_and(p, 1);
    assert_int_equal(copies_on_device(), on_device + 2);
    assert_int_equal(stop(p), HS_OK);

    fake_cuda_set_room((size_t)4 << 30);
    start_guarded(p);
    roll_back(p);
    assert_initial_and(p, 1);
    assert_int_equal(copies_on_device(), on_device + 2);
}

static void a_failed_copy_fails_the_opening_or_the_rollback(void **state)
{
    program *p = *state;
    fake_cuda_fail("cuMemcpyDtoDAsync_v2", 2, ILLEGAL_ADDRESS, false);
    start_guarded(p);
    assert_null(p->session);
    assert_says(&p->err, HS_INTERNAL, "cannot copy variable 'parameters': cuMemcpyDtoDAsync: CUDA_ERROR_ILLEGAL_ADDRESS");
    stop(p);

    start_guarded(p);
    fake_cuda_fail("cuMemcpyDtoDAsync_v2", 1, ILLEGAL_ADDRESS, false);
    step_once(p);
    step_once(p);
    hs_outcome outcome = hs_session_close(p->session, &p->err);
    p->session = NULL;
    assert_says(&outcome.error, HS_INTERNAL,
                "cannot write variable 'parameters': cuMemcpyDtoDAsync: CUDA_ERROR_ILLEGAL_ADDRESS (700)");
}

static void every_call_of_a_rollback_may_fail(void **state)
{
    program *p = *state;
    static const char *const calls[] = {"cuMemcpyDtoDAsync_v2", "cuStreamWaitEvent", "cuEventRecord",
                                        "cuPointerGetAttribute"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        bool failed = false;
        for (int nth = 1; nth <= 6; nth++) {
            start_guarded(p);
            step_once(p);
            fake_cuda_fail(calls[i], nth, CUDA_ERROR_OUT_OF_MEMORY, false);
            step_once(p);
            fake_cuda_fail(NULL, 0, 0, false);
            if (p->step == 0)
                assert_initial_and(p, 0);
            hs_code code = stop(p);
            if (code)
                assert_says(&p->err, HS_RESOURCE_EXHAUSTED, "CUDA_ERROR_OUT_OF_MEMORY (2)");
            failed |= code != HS_OK;
        }
        if (!failed)
            fail_msg("%s never failed", calls[i]);
    }
}

/* The best state. */

static void the_best_state_is_copied_on_the_device(void **state)
{
    program *p = *state;
    const int on_device = copies_on_device(), to_host = copies_to_host();
    p->bad_at = initial(0) + 3; /* step 2 is the best */
    start(p, HS_HOOKS(hs_early_stopping(.tensor = "loss", .patience = HS_NEVER, .larger_is_better = true,
                                        .restore_at_any_end = true)));
    for (int i = 0; i < 3; i++)
        step_once(p);
    hs_outcome outcome = hs_session_close(p->session, &p->err);
    p->session = NULL;
    assert_ok(outcome.error.code, &outcome.error);
    assert_int_equal(p->step, 2);
    assert_int_equal(copies_on_device(), on_device + 6); /* steps 1 and 2, and the end */
    assert_int_equal(copies_to_host(), to_host + 3);     /* the losses */
    assert_initial_and(p, 2);
}

/* Copies that the program makes. */

/* The copy and its restore are behind the gate, in their order among the kernels. */
static void the_host_waits_for_no_copy(void **state)
{
    program *p = *state;
    hs_state_copy *copy = NULL;
    start(p, NULL);
    hs_raw_session *raw = hs_session_raw(p->session);
    launch(p, wait_at_gate);
    launch(p, kernel);
    assert_ok(hs_raw_session_copy_state(raw, &copy, &p->err), &p->err);
    launch(p, kernel);
    launch(p, kernel);
    assert_ok(hs_raw_session_restore_copy(raw, copy, &p->err), &p->err);
    launch(p, kernel);
    hs_state_copy_free(copy);
    set_gate(true);
    assert_initial_and(p, 2);
    assert_false(gate_timed_out);
}

static void a_copy_on_another_device_is_refused(void **state)
{
    program *p = *state;
    hs_state_copy *copy = NULL;
    hs_cuda *other;
    hs_graph *graph;
    start(p, NULL);
    assert_ok(hs_raw_session_copy_state(hs_session_raw(p->session), &copy, &p->err), &p->err);
    hs_session *session = open_session(p, &other, &graph, NULL);
    assert_fails(hs_raw_session_restore_copy(hs_session_raw(session), copy, &p->err), HS_INVALID_ARGUMENT, &p->err,
                 "variable 'parameters': its copy is in the memory of another device");
    hs_session_close(session, NULL);
    hs_graph_free(graph);
    hs_state_copy_free(copy);
    hs_cuda_free(other);
}

#define over_driver(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        over_driver(a_rollback_copies_on_the_device),
        over_driver(without_room_on_the_device_the_copy_is_on_the_host),
        over_driver(a_failed_copy_fails_the_opening_or_the_rollback),
        over_driver(every_call_of_a_rollback_may_fail),
        over_driver(the_best_state_is_copied_on_the_device),
        over_driver(the_host_waits_for_no_copy),
        over_driver(a_copy_on_another_device_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
