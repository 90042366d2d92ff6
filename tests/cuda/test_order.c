/* SPDX-License-Identifier: Apache-2.0 */
/* What the stand-in for CUDA's driver reports: work of two streams without an order, and calls without a context. Each
 * program runs in a child, which a report ends. */
#include "cuda/fake_driver.h"
#include "support/test.h"

#include <signal.h>

enum { BYTES = 4096 };

typedef enum { READ, WRITE, KERNEL, READ_HALF, WRITE_HALF } work;
typedef enum { NOTHING, EVENT, EARLY_EVENT, HOST } order;

/* A program with two streams. */
typedef struct {
    work first, second; /* of the streams a and b, on the same memory */
    order by;           /* what puts them in order */
    bool frees;         /* the memory is of a pool, and the program frees it instead of the second work */
    CUstream a, b;
    CUevent event;
    CUmemoryPool pool;
    CUdeviceptr memory;
} program;

static void nothing(void *arguments)
{
    (void)arguments;
}

static CUresult enqueue(const program *p, CUstream stream, work what)
{
    CUdeviceptr copy;
    void *pinned;
    const size_t bytes = what == READ_HALF || what == WRITE_HALF ? BYTES / 2 : BYTES;
    if (what == KERNEL) {
        fake_cuda_launch(stream, nothing, &p->memory, sizeof p->memory);
        return CUDA_SUCCESS;
    }
    if (what == WRITE || what == WRITE_HALF) {
        const CUresult result = cuMemAllocHost_v2(&pinned, bytes);
        return result ? result : cuMemcpyHtoDAsync_v2(p->memory + (BYTES - bytes), pinned, bytes, stream);
    }
    const CUresult result = cuMemAlloc_v2(&copy, bytes);
    return result ? result : cuMemcpyDtoDAsync_v2(copy, p->memory, bytes, stream);
}

/* Lets the later work of stream b come after that of stream a. */
static CUresult put_in_order(const program *p)
{
    CUresult result = CUDA_SUCCESS;
    if (p->by == EVENT && (result = cuEventRecord(p->event, p->a)))
        return result;
    return p->by == HOST      ? cuStreamSynchronize(p->a)
           : p->by == NOTHING ? CUDA_SUCCESS
                              : cuStreamWaitEvent(p->b, p->event, 0);
}

/* Returns the driver's error, or 0. */
static int run(void *user)
{
    program *p = user;
    const CUmemPoolProps properties = {.allocation_type = 1, .location_type = 1};
    CUresult result;
    fake_cuda_use();
    if ((result = cuStreamCreate(&p->a, 0)) || (result = cuStreamCreate(&p->b, 0)) ||
        (result = cuEventCreate(&p->event, 0)) || (result = cuMemPoolCreate(&p->pool, &properties)) ||
        (result =
             p->frees ? cuMemAllocFromPoolAsync(&p->memory, BYTES, p->pool, p->a) : cuMemAlloc_v2(&p->memory, BYTES)) ||
        (p->by == EARLY_EVENT && (result = cuEventRecord(p->event, p->a))) || (result = enqueue(p, p->a, p->first)) ||
        (result = put_in_order(p)))
        return result;
    return p->frees ? cuMemFree_v2(p->memory) : enqueue(p, p->b, p->second);
}

static int result_of(work first, work second, order by, bool frees)
{
    return test_in_child(run, &(program){.first = first, .second = second, .by = by, .frees = frees});
}

static void work_without_an_order_is_reported(void **state)
{
    (void)state;
    static const work conflicts[][2] = {{WRITE, READ},  {READ, WRITE},   {WRITE, WRITE},     {KERNEL, READ},
                                        {READ, KERNEL}, {KERNEL, WRITE}, {WRITE_HALF, READ}, {READ, WRITE_HALF}},
                      others[][2] = {{READ, READ}, {READ_HALF, WRITE_HALF}, {WRITE_HALF, READ_HALF}};
    for (size_t i = 0; i < sizeof conflicts / sizeof *conflicts; i++) {
        const work first = conflicts[i][0], second = conflicts[i][1];
        assert_int_equal(result_of(first, second, NOTHING, false), -SIGABRT);
        assert_int_equal(result_of(first, second, EARLY_EVENT, false), -SIGABRT);
        assert_int_equal(result_of(first, second, EVENT, false), 0);
        assert_int_equal(result_of(first, second, HOST, false), 0);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_equal(result_of(others[i][0], others[i][1], NOTHING, false), 0);
}

static void memory_of_a_pool_that_is_freed_while_it_is_used_is_reported(void **state)
{
    (void)state;
    assert_int_equal(result_of(READ, READ, NOTHING, true), -SIGABRT);
    assert_int_equal(result_of(READ, READ, EVENT, true), -SIGABRT);
    assert_int_equal(result_of(READ, READ, HOST, true), 0);
}

static int use_no_context(void *user)
{
    (void)user;
    CUdeviceptr memory;
    return cuMemAlloc_v2(&memory, BYTES);
}

static int record_an_event_of_another_context(void *user)
{
    (void)user;
    CUcontext other, popped;
    CUstream stream;
    CUevent event;
    fake_cuda_use();
    if (cuStreamCreate(&stream, 0) || cuCtxCreate_v2(&other, 0, 0) || cuEventCreate(&event, 0) ||
        cuCtxPopCurrent_v2(&popped))
        return 0;
    return cuEventRecord(event, stream) == CUDA_ERROR_INVALID_HANDLE;
}

static void calls_need_their_context(void **state)
{
    (void)state;
    assert_int_equal(test_in_child(use_no_context, NULL), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(test_in_child(record_an_event_of_another_context, NULL), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_without_an_order_is_reported),
        cmocka_unit_test(memory_of_a_pool_that_is_freed_while_it_is_used_is_reported),
        cmocka_unit_test(calls_need_their_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
