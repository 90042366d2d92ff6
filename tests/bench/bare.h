/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_BENCH_BARE_H
#define HS_TESTS_BENCH_BARE_H

/* For benchmarks of steps: a bare loop over five vtables, and counted allocations. Define _GNU_SOURCE. */

#include "bench.h"

#include <dlfcn.h>

#ifdef __clang__
#define NEVER_INLINE __attribute__((noinline))
#else
#define NEVER_INLINE __attribute__((noinline, noclone))
#endif

enum { BARE_HOOKS = 5 };

/* Counting malloc. */

static size_t mallocs;

void *malloc(size_t bytes)
{
    static void *(*real)(size_t);
    if (!real)
        *(void **)(void *)&real = dlsym(RTLD_NEXT, "malloc");
    mallocs++;
    return real(bytes);
}

static size_t allocations;

static void *counted_alloc(void *user, size_t bytes)
{
    (void)user;
    allocations++;
    return malloc(bytes);
}

static void *counted_realloc(void *user, void *block, size_t bytes)
{
    (void)user;
    allocations++;
    return realloc(block, bytes);
}

static void counted_free(void *user, void *block)
{
    (void)user;
    free(block);
}

/* The bare loop. */

typedef struct {
    uint64_t step;
    int stop;
} bare_context;

typedef struct {
    void *self;
    int (*before)(void *self, bare_context *context);
    int (*after)(void *self, bare_context *context);
} bare_hook;

typedef struct {
    uint64_t before, after;
} counters;

NEVER_INLINE static int bare_before(void *self, bare_context *context)
{
    ((counters *)self)->before += context->step;
    return 0;
}

NEVER_INLINE static int bare_after(void *self, bare_context *context)
{
    ((counters *)self)->after ^= context->step;
    return 0;
}

NEVER_INLINE static int bare_step(bare_context *context)
{
    context->step++;
    return 0;
}

static int (*volatile step_function)(bare_context *) = bare_step;

NEVER_INLINE static double bare_loop(long steps)
{
    static counters counts[BARE_HOOKS];
    bare_hook hooks[BARE_HOOKS];
    bare_context context = {0};
    for (int i = 0; i < BARE_HOOKS; i++)
        hooks[i] = (bare_hook){&counts[i], bare_before, bare_after};
    double start = bench_now();
    int (*step)(bare_context *) = step_function;
    for (long i = 0; i < steps && !context.stop; i++) {
        for (int k = 0; k < BARE_HOOKS; k++)
            if (hooks[k].before(hooks[k].self, &context))
                return 0;
        if (step(&context))
            return 0;
        for (int k = 0; k < BARE_HOOKS; k++)
            if (hooks[k].after(hooks[k].self, &context))
                return 0;
    }
    return (bench_now() - start) / (double)steps * 1e9;
}

#endif
