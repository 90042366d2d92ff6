/* SPDX-License-Identifier: Apache-2.0 */
/* The time of a hooked step, compared with a loop written by hand.
 *
 *   bare_loop_ns          a step function and five vtables' before and after calls
 *   hooked_step_ns        the same step under a session with the five hooks idle
 *   hooked_minus_bare_ns  the difference, round by round
 *   acting_step_ns        the same, with logging_tensor and summary_saver acting in each step as nan_tensor does
 *   allocations_per_step  through the env's allocator and through malloc, in steady state
 *   hooked_step_100_ns, hooked_step_100_fixed_ns, hooked_step_100_idle_ns   a hundred hooks that each fetch one tensor: all
 *                         due, with before_run or with fixed fetches; and none due
 *   hooked_step_over_bare, own_step_default_over_bare   ratios to the bare loop, round by round: of the hooked step, and of
 *                         an empty step between hs_step_begin and hs_step_end, with three hooks and the hooks that a
 *                         training session adds by default
 *   singular_step_ns, full_stack_step_ns   the five hooks in a session without recovery, and in a session with recovery and
 *                         a thread of its coordinator; and full_stack_over_singular_ns, the difference
 *   hooks_N_ns, fetches_N_ns   a step with N idle hooks, or with N fetches, divided by N
 *   open_close_us         a session, opened and closed
 *
 * Medians over interleaved rounds. With a Python that has TensorFlow (HOOKSESS_PYTHON, or the tests' own), TensorFlow's
 * MonitoredSession is measured with the same work. */
#include <hooksess/hooksess.h>

#include "bare.h"
#include "bench.h"

#include <math.h>
#include <unistd.h>

enum { STEPS = 200000, STEPS_100 = 10000, HOOKS = BARE_HOOKS, MANY = 100 };

static void silent(void *user, hs_log_level level, const char *text)
{
    (void)user, (void)level, (void)text;
}

static const hs_env env =
    HS_INIT(hs_env, .allocator = {counted_alloc, counted_realloc, counted_free, NULL}, .logger = {silent, NULL});

/* The hooked step. */

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
    hs_graph_op(graph, .name = "train", .run = train, .user = count, .writes = HS_NAMES("loss"), .advances_step = true);
    hs_graph_op(graph, .name = "summary", .run = summarize, .outputs = HS_OUTPUTS({.dtype = HS_STRING, .data = &nothing}));
    return graph;
}

static hs_session *opened(hs_session *session, const hs_error *error)
{
    if (session)
        return session;
    fprintf(stderr, "bench: %s\n", error->message);
    exit(1);
}

static hs_session *open_session(hs_graph *graph, const hs_hook *hooks)
{
    hs_error error = {0};
    return opened(hs_session_open(hs_graph_backend(graph), HS_SESSION_OPTIONS(.hooks = hooks), &error), &error);
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

static void make_five(hs_hook *hooks, const char *directory)
{
    hooks[0] = hs_stop_at_step(.last_step = INT64_MAX);
    hooks[1] = hs_checkpoint_saver(.checkpoint_dir = directory, .every_n_secs = 1e6);
    hooks[2] = hs_logging_tensor(.tensors = HS_NAMES("loss"), .every_n_steps = INT64_MAX);
    hooks[3] = hs_nan_tensor(.tensor = "loss");
    hooks[4] =
        hs_summary_saver(.every_n_steps = INT64_MAX / 2, .summary_dir = directory, .summary_ops = HS_NAMES("summary"));
}

static void bench_acting(const char *directory)
{
    uint64_t count = 0;
    double rounds[BENCH_ROUNDS];
    hs_graph *graph = make_graph(&count);
    hs_hook hooks[HOOKS + 1] = {{.ops = NULL}};
    make_five(hooks, directory);
    hs_hook_free(hooks[2]);
    hs_hook_free(hooks[4]);
    hooks[2] = hs_logging_tensor(.tensors = HS_NAMES("loss"), .every_n_steps = 1);
    hooks[4] = hs_summary_saver(.every_n_steps = 1, .summary_dir = directory, .summary_ops = HS_NAMES("summary"));
    hs_session *session = open_session(graph, hooks);
    hooked_loop(session, STEPS / 10);
    for (int i = 0; i < BENCH_ROUNDS; i++)
        rounds[i] = hooked_loop(session, STEPS / 10);
    bench_print("acting_step_ns", bench_median(rounds, BENCH_ROUNDS), "ns");
    hs_session_close(session, NULL);
    hs_graph_free(graph);
}

static void bench_five(const char *directory)
{
    uint64_t count = 0;
    hs_graph *graph = make_graph(&count);
    hs_hook hooks[HOOKS + 1] = {{.ops = NULL}};
    make_five(hooks, directory);
    hs_session *session = open_session(graph, hooks);
    double bare[BENCH_ROUNDS], hooked[BENCH_ROUNDS], difference[BENCH_ROUNDS], ratio[BENCH_ROUNDS];
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
        ratio[i] = hooked[i] / bare[i];
    }
    bench_print("bare_loop_ns", bench_median(bare, BENCH_ROUNDS), "ns");
    bench_print("hooked_step_ns", bench_median(hooked, BENCH_ROUNDS), "ns");
    bench_print("hooked_minus_bare_ns", bench_median(difference, BENCH_ROUNDS), "ns");
    bench_print("hooked_step_over_bare", bench_median(ratio, BENCH_ROUNDS), "1");
    bench_print("allocations_per_step",
                (double)(allocated > malloced ? allocated : malloced) / ((double)STEPS * BENCH_ROUNDS), "1");
    hs_session_close(session, NULL);
    hs_graph_free(graph);
}

/* A loop of the program, with hs_step_begin and hs_step_end. */

static double own_loop(hs_session *session, long steps)
{
    double start = bench_now();
    for (long i = 0; i < steps && hs_step_begin(session); i++)
        hs_step_end(session);
    return (bench_now() - start) / (double)steps * 1e9;
}

static void bench_own_loop(const char *directory)
{
    char other[256];
    int64_t step = 0;
    hs_error error = {0};
    hs_graph *graph = hs_graph_new(&env);
    snprintf(other, sizeof other, "%s/own", directory);
    hs_graph_value(graph, "loss", HS_DOUBLE, HS_SCALAR, &loss);
    hs_graph_global_step(graph, NULL, &step);
    hs_session *session =
        opened(hs_training_session_open(
                   hs_graph_backend(graph),
                   HS_TRAINING_OPTIONS(.checkpoint_dir = other,
                                       .hooks = HS_HOOKS(
                                           hs_stop_at_step(.last_step = INT64_MAX), hs_nan_tensor(.tensor = "loss"),
                                           hs_logging_tensor(.tensors = HS_NAMES("loss"), .every_n_steps = INT64_MAX))),
                   &error),
               &error);
    double own[BENCH_ROUNDS], ratio[BENCH_ROUNDS];
    size_t allocated = 0, malloced = 0;
    bare_loop(STEPS / 10);
    own_loop(session, STEPS / 10);
    for (int i = 0; i < BENCH_ROUNDS; i++) {
        double bare = bare_loop(STEPS);
        size_t before = allocations, mallocs_before = mallocs;
        own[i] = own_loop(session, STEPS);
        allocated += allocations - before;
        malloced += mallocs - mallocs_before;
        ratio[i] = own[i] / bare;
    }
    bench_print("own_step_default_ns", bench_median(own, BENCH_ROUNDS), "ns");
    bench_print("own_step_default_over_bare", bench_median(ratio, BENCH_ROUNDS), "1");
    bench_print("own_step_default_allocations_per_step",
                (double)(allocated > malloced ? allocated : malloced) / ((double)STEPS * BENCH_ROUNDS), "1");
    hs_session_close(session, NULL);
    hs_graph_free(graph);
}

/* A hundred hooks, each with a fetch. */

typedef struct {
    const char *names[2];
    hs_run_args args;
    hs_hook_ops fixed;
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
    ((fetcher *)self)->seen += hs_run_values_number(values, 0);
    return HS_OK;
}

static const hs_hook_ops fetch_ops =
    HS_INIT(hs_hook_ops, .name = "fetcher", .before_run = fetch_before, .after_run = fetch_after);

static void bench_hundred(const char *name, bool fixed, hs_trigger when)
{
    static fetcher fetchers[MANY];
    static char names[MANY][32];
    static double values[MANY];
    hs_hook hooks[MANY + 1] = {{.ops = NULL}};
    uint64_t count = 0;
    hs_graph *graph = make_graph(&count);
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "value_%d", i);
        hs_graph_value(graph, names[i], HS_DOUBLE, HS_SCALAR, &values[i]);
        fetchers[i].names[0] = names[i];
        fetchers[i].args = (hs_run_args)HS_INIT(hs_run_args, .names = fetchers[i].names);
        fetchers[i].fixed =
            (hs_hook_ops)HS_INIT(hs_hook_ops, .name = "fetcher", .fetches = fetchers[i].names, .after_run = fetch_after);
        hooks[i] = (hs_hook){.ops = fixed ? &fetchers[i].fixed : &fetch_ops, .self = &fetchers[i], .when = when};
    }
    hs_session *session = open_session(graph, hooks);
    double rounds[BENCH_ROUNDS];
    hooked_loop(session, STEPS_100 / 10);
    for (int i = 0; i < BENCH_ROUNDS; i++)
        rounds[i] = hooked_loop(session, STEPS_100);
    bench_print(name, bench_median(rounds, BENCH_ROUNDS), "ns");
    hs_session_close(session, NULL);
    hs_graph_free(graph);
}

/* A session with everything around a step, compared with the minimum. */

static hs_code wait_for_stop(void *user, hs_coordinator *coordinator, hs_error *err)
{
    (void)user, (void)err;
    hs_coordinator_wait_for_stop(coordinator, HS_NEVER);
    return HS_OK;
}

static void bench_full_stack(const char *directory)
{
    static const hs_recovery recovery = HS_INIT(hs_recovery);
    char other[256];
    uint64_t counts[2] = {0, 0};
    hs_hook hooks[HOOKS + 1] = {{.ops = NULL}};
    hs_error error = {0};
    hs_graph *graphs[2] = {make_graph(&counts[0]), make_graph(&counts[1])};
    snprintf(other, sizeof other, "%s/full", directory);
    make_five(hooks, directory);
    hs_session *singular = open_session(graphs[0], hooks);
    make_five(hooks, other);
    hs_session *full =
        opened(hs_session_open(hs_graph_backend(graphs[1]),
                               HS_SESSION_OPTIONS(.hooks = hooks, .checkpoint_dir = other, .recovery = &recovery), &error),
               &error);
    if (hs_coordinator_start(hs_session_coordinator(full), &error, .name = "waits", .run = wait_for_stop))
        opened(NULL, &error);
    double alone[BENCH_ROUNDS], all[BENCH_ROUNDS], difference[BENCH_ROUNDS];
    hooked_loop(singular, STEPS / 10);
    hooked_loop(full, STEPS / 10);
    for (int i = 0; i < BENCH_ROUNDS; i++) {
        alone[i] = hooked_loop(singular, STEPS);
        all[i] = hooked_loop(full, STEPS);
        difference[i] = all[i] - alone[i];
    }
    bench_print("singular_step_ns", bench_median(alone, BENCH_ROUNDS), "ns");
    bench_print("full_stack_step_ns", bench_median(all, BENCH_ROUNDS), "ns");
    bench_print("full_stack_over_singular_ns", bench_median(difference, BENCH_ROUNDS), "ns");
    hs_session_close(full, NULL);
    hs_session_close(singular, NULL);
    hs_graph_free(graphs[0]);
    hs_graph_free(graphs[1]);
}

/* Growth. */

static hs_code idle_before(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    (void)self, (void)run, (void)args, (void)err;
    return HS_OK;
}

static hs_code idle_after(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)self, (void)run, (void)values, (void)err;
    return HS_OK;
}

static const hs_hook_ops idle_ops =
    HS_INIT(hs_hook_ops, .name = "idle", .before_run = idle_before, .after_run = idle_after);

static void bench_hooks_of(int n)
{
    static hs_hook hooks[1001];
    uint64_t count = 0;
    double rounds[5];
    char name[64];
    hs_graph *graph = make_graph(&count);
    for (int i = 0; i < n; i++)
        hooks[i] = (hs_hook){.ops = &idle_ops};
    hooks[n].ops = NULL;
    hs_session *session = open_session(graph, hooks);
    hooked_loop(session, 100);
    for (int i = 0; i < 5; i++)
        rounds[i] = hooked_loop(session, STEPS / n + 100) / n;
    snprintf(name, sizeof name, "hooks_%d_ns", n);
    bench_print(name, bench_median(rounds, 5), "ns");
    hs_session_close(session, NULL);
    hs_graph_free(graph);
}

static void bench_fetches_of(int n)
{
    static char names[10000][16];
    static const char *list[10001];
    static double values[10000];
    hs_error error = {0};
    uint64_t count = 0;
    double rounds[5];
    char name[64];
    hs_graph *graph = make_graph(&count);
    for (int i = 0; i < n; i++) {
        snprintf(names[i], sizeof names[i], "v%d", i);
        hs_graph_value(graph, names[i], HS_DOUBLE, HS_SCALAR, &values[i]);
        list[i] = names[i];
    }
    list[n] = NULL;
    hs_session *session = open_session(graph, NULL);
    hs_run_args args = HS_INIT(hs_run_args, .names = list);
    for (int i = 0; i < 6; i++) {
        long steps = 200000 / n + 10;
        double start = bench_now();
        for (long k = 0; k < steps; k++)
            if (hs_session_run_args(session, &args, NULL, &error))
                opened(NULL, &error);
        if (i)
            rounds[i - 1] = (bench_now() - start) / (double)steps / n * 1e9;
    }
    snprintf(name, sizeof name, "fetches_%d_ns", n);
    bench_print(name, bench_median(rounds, 5), "ns");
    hs_session_close(session, NULL);
    hs_graph_free(graph);
}

/* Checking a large tensor after each step, compared with copying it. */
static void bench_guard(void)
{
    enum { ELEMENTS = 1 << 24 };
    double over[BENCH_ROUNDS];
    uint64_t count = 0;
    size_t bytes = ELEMENTS * sizeof(float);
    float *gradient = malloc(bytes), *copy = malloc(bytes);
    if (!gradient || !copy)
        exit(1);
    for (size_t i = 0; i < ELEMENTS; i++)
        gradient[i] = copy[i] = (float)i;
    hs_graph *graph = make_graph(&count);
    hs_graph_value(graph, "gradient", HS_FLOAT, HS_SHAPE(ELEMENTS), gradient);
    hs_session *session = open_session(graph, HS_HOOKS(hs_finite_guard(.gradients = HS_NAMES("gradient"))));
    for (int i = 0; i < BENCH_ROUNDS; i++) {
        double start = bench_now();
        hs_session_run(session, "train", NULL);
        double looked = bench_now();
        memcpy(copy, gradient, bytes);
        over[i] = (looked - start) / (bench_now() - looked);
        gradient[i] = copy[ELEMENTS - 1 - i];
    }
    bench_print("guard_over_memcpy", bench_median(over, BENCH_ROUNDS), "1");
    hs_session_close(session, NULL);
    hs_graph_free(graph);
    free(gradient);
    free(copy);
}

static void bench_opening(void)
{
    enum { TIMES = 200 };
    double times[TIMES];
    uint64_t count = 0;
    hs_graph *graph = make_graph(&count);
    for (int i = 0; i < TIMES; i++) {
        double start = bench_now();
        hs_session_close(open_session(graph, NULL), NULL);
        times[i] = (bench_now() - start) * 1e6;
    }
    bench_print("open_close_us", bench_median(times, TIMES), "us");
    hs_graph_free(graph);
}

/* TensorFlow with the same work, if a Python has it. */
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
    bench_acting(directory);
    bench_own_loop(directory);
    bench_hundred("hooked_step_100_ns", false, (hs_trigger){0});
    bench_hundred("hooked_step_100_fixed_ns", true, (hs_trigger){0});
    bench_hundred("hooked_step_100_idle_ns", false, HS_EVERY_STEPS(INT64_MAX / 2));
    bench_full_stack(directory);
    for (int n = 1; n <= 1000; n *= 10)
        bench_hooks_of(n);
    for (int n = 1; n <= 10000; n *= 10)
        bench_fetches_of(n);
    bench_guard();
    bench_opening();
    bench_peer();
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command) != 0;
}
