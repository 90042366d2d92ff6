/* SPDX-License-Identifier: Apache-2.0 */
/* What a hooked step costs over the bare loop that somebody would write by hand.
 *
 *   bare_loop_ns          a step function and five vtables' before and after calls
 *   hooked_step_ns        the same step under a session with the five hooks idle
 *   hooked_minus_bare_ns  the difference, round by round
 *   allocations_per_step  through the env's allocator and through malloc, in steady state
 *   hooked_step_100_ns    a hundred hooks that each fetch one tensor
 *
 * Medians over rounds that take turns. With a Python that has TensorFlow (HOOKSESS_PYTHON, or the one that the tests made),
 * its MonitoredSession does the same work beside it. */
#include <hooksess/hooksess.h>

#include "bench.h"

#include <dlfcn.h>
#include <unistd.h>

#define NEVER_INLINE __attribute__((noinline, noclone))

enum { STEPS = 200000, STEPS_100 = 10000, HOOKS = 5, MANY = 100 };

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

static void silent(void *user, hs_log_level level, const char *text)
{
    (void)user, (void)level, (void)text;
}

static const hs_env env = {HS_ENV, .allocator = {counted_alloc, counted_realloc, counted_free, NULL},
                           .logger = {silent, NULL}};

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
    static counters counts[HOOKS];
    bare_hook hooks[HOOKS];
    bare_context context = {0};
    for (int i = 0; i < HOOKS; i++)
        hooks[i] = (bare_hook){&counts[i], bare_before, bare_after};
    double start = bench_now();
    int (*step)(bare_context *) = step_function;
    for (long i = 0; i < steps && !context.stop; i++) {
        for (int k = 0; k < HOOKS; k++)
            if (hooks[k].before(hooks[k].self, &context))
                return 0;
        if (step(&context))
            return 0;
        for (int k = 0; k < HOOKS; k++)
            if (hooks[k].after(hooks[k].self, &context))
                return 0;
    }
    return (bench_now() - start) / (double)steps * 1e9;
}

/* The hooked one. */

static double loss = 1;

static hs_code train(void *self, hs_op *op, hs_error *err)
{
    (void)op, (void)err;
    ++*(uint64_t *)self;
    return HS_OK;
}

static hs_code summarize(void *self, hs_op *op, hs_error *err)
{
    hs_string *text = hs_op_output(op, 0)->data;
    (void)self, (void)err, (void)text;
    return HS_OK;
}

static hs_graph *make_graph(uint64_t *count)
{
    static hs_string nothing;
    hs_graph *graph = hs_graph_new(&env);
    hs_graph_value(graph, "loss", HS_DOUBLE, HS_SCALAR, &loss);
    hs_graph_op(graph, .name = "train", .run = train, .self = count, .writes = HS_NAMES("loss"), .advances_step = true);
    hs_graph_op(graph, .name = "summary", .run = summarize, .outputs = HS_OUTPUTS({.dtype = HS_STRING, .data = &nothing}));
    return graph;
}

static hs_session *open_session(hs_graph *graph, const hs_hook *hooks, size_t n)
{
    hs_error error = {0};
    hs_session *session = hs_session_open(hs_graph_backend(graph),
                                          &(hs_session_options){HS_SESSION_OPTIONS, .hooks = hooks, .n_hooks = n}, &error);
    if (!session) {
        fprintf(stderr, "bench: %s\n", error.message);
        exit(1);
    }
    return session;
}

static double hooked_loop(hs_session *session, long steps)
{
    hs_error error = {0};
    double start = bench_now();
    for (long i = 0; i < steps && !hs_session_should_stop(session); i++)
        if (hs_session_run(session, "train", &error) != HS_OK) {
            fprintf(stderr, "bench: %s\n", error.message);
            exit(1);
        }
    return (bench_now() - start) / (double)steps * 1e9;
}

static void bench_five(const char *directory)
{
    uint64_t count = 0;
    hs_graph *graph = make_graph(&count);
    hs_hook hooks[HOOKS] = {
        hs_stop_at_step(.last_step = INT64_MAX),
        hs_checkpoint_saver(.checkpoint_dir = directory, .save_secs = 1e6),
        hs_logging_tensor(.tensors = HS_NAMES("loss"), .every_n_iter = INT64_MAX),
        hs_nan_tensor(.tensor = "loss"),
        hs_summary_saver(.save_steps = INT64_MAX / 2, .output_dir = directory, .summary_ops = HS_NAMES("summary")),
    };
    hs_session *session = open_session(graph, hooks, HOOKS);
    double bare[BENCH_ROUNDS], hooked[BENCH_ROUNDS], difference[BENCH_ROUNDS];
    bare_loop(STEPS / 10);
    hooked_loop(session, STEPS / 10);
    size_t allocated = 0, malloced = 0;
    for (int i = 0; i < BENCH_ROUNDS; i++) {
        bare[i] = bare_loop(STEPS);
        size_t before = allocations, mallocs_before = mallocs;
        hooked[i] = hooked_loop(session, STEPS);
        allocated += allocations - before;
        malloced += mallocs - mallocs_before;
        difference[i] = hooked[i] - bare[i];
    }
    bench_print("bare_loop_ns", bench_median(bare, BENCH_ROUNDS), "ns");
    bench_print("hooked_step_ns", bench_median(hooked, BENCH_ROUNDS), "ns");
    bench_print("hooked_minus_bare_ns", bench_median(difference, BENCH_ROUNDS), "ns");
    bench_print("allocations_per_step",
                (double)(allocated > malloced ? allocated : malloced) / ((double)STEPS * BENCH_ROUNDS), "1");
    hs_session_close(session, NULL);
    hs_graph_free(graph);
}

/* A hundred hooks, each with a fetch. */

typedef struct {
    const char *names[2];
    hs_run_args args;
    double seen;
} fetcher;

static hs_code fetch_before(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    (void)run, (void)err;
    *args = &((fetcher *)self)->args;
    return HS_OK;
}

static hs_code fetch_after(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)run, (void)err;
    ((fetcher *)self)->seen += hs_values_number(values, 0);
    return HS_OK;
}

static const hs_hook_ops fetch_ops = {HS_HOOK_OPS, .name = "fetcher", .before_run = fetch_before, .after_run = fetch_after};

static void bench_hundred(void)
{
    static fetcher fetchers[MANY];
    static char names[MANY][32];
    static double values[MANY];
    hs_hook hooks[MANY];
    uint64_t count = 0;
    hs_graph *graph = make_graph(&count);
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "value_%d", i);
        hs_graph_value(graph, names[i], HS_DOUBLE, HS_SCALAR, &values[i]);
        fetchers[i].names[0] = names[i];
        fetchers[i].args = (hs_run_args){HS_RUN_ARGS, .names = fetchers[i].names};
        hooks[i] = (hs_hook){.ops = &fetch_ops, .self = &fetchers[i]};
    }
    hs_session *session = open_session(graph, hooks, MANY);
    double rounds[BENCH_ROUNDS];
    hooked_loop(session, STEPS_100 / 10);
    for (int i = 0; i < BENCH_ROUNDS; i++)
        rounds[i] = hooked_loop(session, STEPS_100);
    bench_print("hooked_step_100_ns", bench_median(rounds, BENCH_ROUNDS), "ns");
    hs_session_close(session, NULL);
    hs_graph_free(graph);
}

/* TensorFlow on the same work, where a Python has it. */
static void bench_peer(void)
{
    const char *python = getenv("HOOKSESS_PYTHON");
    char command[4096];
    if (!python && access(HOOKSESS_VENV_PYTHON, X_OK) == 0)
        python = HOOKSESS_VENV_PYTHON;
    if (!python)
        return;
    snprintf(command, sizeof command, "'%s' '%s' 2>/dev/null", python, HOOKSESS_PEER_SCRIPT);
    fflush(stdout);
    if (system(command) != 0)
        fprintf(stderr, "bench: the peer did not run: %s\n", command);
}

int main(void)
{
    char directory[] = "/tmp/hooksess-bench-XXXXXX", command[128];
    if (!mkdtemp(directory))
        return 1;
    bench_five(directory);
    bench_hundred();
    bench_peer();
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command) != 0;
}
