/* SPDX-License-Identifier: Apache-2.0 */
/* Memory: all of it is freed, whichever allocation fails, and runs do not leak. */
#include "tensorflow/graphs.h"

#include <stdatomic.h>

/* Counts allocations, also those of threads. Allocation number `fails` fails; 0: none. */
typedef struct {
    atomic_size_t asked, live;
    size_t fails;
} meter;

static bool is_given(meter *m)
{
    return atomic_fetch_add(&m->asked, 1) + 1 != m->fails;
}

static void *meter_alloc(void *user, size_t bytes)
{
    meter *m = user;
    void *block = is_given(m) ? malloc(bytes) : NULL;
    if (block)
        atomic_fetch_add(&m->live, 1);
    return block;
}

static void *meter_realloc(void *user, void *block, size_t bytes)
{
    meter *m = user;
    void *grown = is_given(m) ? realloc(block, bytes) : NULL;
    if (grown && !block)
        atomic_fetch_add(&m->live, 1);
    return grown;
}

static void meter_free(void *user, void *block)
{
    if (block)
        atomic_fetch_sub(&((meter *)user)->live, 1);
    free(block);
}

static void no_log(void *user, hs_log_level level, const char *text)
{
    (void)user, (void)level;
    test_check_line(text);
}

static hs_code run_steps(hs_session *session, hs_error *err)
{
    batch b;
    hs_code code = HS_OK;
    const hs_run_values *values;
    hs_raw_session *raw = hs_session_raw(session);
    hs_run_options options = HS_INIT(hs_run_options, .trace_level = HS_TRACE_SOFTWARE);
    for (int64_t step = 0; !code && step < 2; step++) {
        fill_batch(&b, step);
        hs_run_args args = HS_INIT(hs_run_args, .names = HS_NAMES("train_op", "loss", "label", "x"), .feeds = b.feeds);
        args.options = step ? &options : NULL;
        code = hs_session_run_args(session, &args, &values, err);
    }
    if (!code)
        hs_raw_session_global_step(raw, err);
    return err->code;
}

static hs_code use_variables(hs_backend backend, hs_session *session, hs_error *err)
{
    hs_raw_session *raw = hs_session_raw(session);
    hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.env = hs_backend_env(backend)), err);
    if (!saver)
        return err->code;
    char *directory = make_directory(), prefix[1024];
    snprintf(prefix, sizeof prefix, "%s/model", directory);
    hs_code code = hs_saver_save(saver, raw, prefix, -1, NULL, err);
    if (!code)
        code = hs_saver_restore(saver, raw, prefix, NULL, err);
    hs_saver_free(saver);
    remove_directory(directory);
    return code;
}

/* Opens a graph, trains, saves, restores and closes. */
static hs_code use_graph(const char *graph, meter *m)
{
    hs_error err = {0}, ignored = {0};
    hs_env env = HS_INIT(hs_env, .allocator = {meter_alloc, meter_realloc, meter_free, m}, .logger = {no_log, NULL});
    hs_backend backend = hs_tensorflow_open(graph_path(graph), HS_TENSORFLOW_OPTIONS(.env = &env, .target = ""), &err);
    hs_code code = err.code;
    if (!code)
        code = hs_tensorflow_add_op(backend,
                                    HS_TENSORFLOW_OP_DEF(.type = "Sqrt", .name = "root", .inputs = HS_NAMES("loss"),
                                                         .control_inputs = HS_NAMES("x")),
                                    &err);
    hs_session *session = code ? NULL : hs_session_open(backend, NULL, &err);
    if (!code && !(code = err.code) && !(code = run_steps(session, &err)))
        code = use_variables(backend, session, &err);
    if (session)
        hs_session_close(session, &ignored);
    hs_tensorflow_free(backend);
    return code;
}

/* One of EACH allocations fails: sanitizers are slow. */
#ifdef __SANITIZE_ADDRESS__
enum { EACH = 7 };
#else
enum { EACH = 1 };
#endif

static void each_allocation_may_fail(void **state)
{
    (void)state;
    const char *const graphs[] = {"ref.meta", "resource.pb"};
    for (size_t i = 0; i < 2; i++) {
        meter m = {.fails = 0};
        assert_int_equal(use_graph(graphs[i], &m), HS_OK);
        assert_int_equal(m.live, 0);
        size_t all = m.asked;
        for (size_t n = 1; n <= all + 2; n += n < 400 ? EACH : 7 * EACH) {
            meter failing = {.fails = n};
            hs_code code = use_graph(graphs[i], &failing);
            if (code != HS_OK && code != HS_RESOURCE_EXHAUSTED)
                fail_msg("allocation %zu of %zu: %s", n, all, hs_code_name(code));
            if (failing.live)
                fail_msg("allocation %zu of %zu: %zu are not freed", n, all, failing.live);
        }
    }
}

/* A graph with queues: threads fill them, and one polls for a stop request. */
static hs_code use_queues(const char *graph, meter *m)
{
    hs_error err = {0}, end = {0};
    hs_env env = HS_INIT(hs_env, .allocator = {meter_alloc, meter_realloc, meter_free, m}, .logger = {no_log, NULL});
    hs_backend backend = hs_tensorflow_open(graph_path(graph), HS_TENSORFLOW_OPTIONS(.env = &env), &err);
    hs_session *session = err.code ? NULL : hs_session_open(backend, NULL, &err);
    hs_code code = err.code;
    for (int i = 0; !code && i < 3; i++)
        code = hs_session_run(session, "train_op", &err);
    if (session)
        hs_session_close(session, &end);
    hs_tensorflow_free(backend);
    return end.code ? end.code : code; /* the error of a thread is the cause of the others */
}

static void each_allocation_of_queues_may_fail(void **state)
{
    (void)state;
    const char *const graphs[] = {"endless.meta", "reader.meta", "iterator.meta"};
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        meter m = {.fails = 0};
        assert_int_equal(use_queues(graphs[i], &m), HS_OK);
        assert_int_equal(m.live, 0);
        size_t all = m.asked;
        for (size_t n = 1; n <= all + 2; n += EACH) {
            meter failing = {.fails = n};
            hs_code code = use_queues(graphs[i], &failing);
            if (code != HS_OK && code != HS_RESOURCE_EXHAUSTED)
                fail_msg("%s, allocation %zu of %zu: %s", graphs[i], n, all, hs_code_name(code));
            if (failing.live)
                fail_msg("%s, allocation %zu of %zu: %zu are not freed", graphs[i], n, all, failing.live);
        }
    }
}

/* Opens and closes a session on a server; a thread closes it. */
static hs_code connect(const hs_tensorflow_server *server, const char *target, meter *m)
{
    hs_error err = {0}, ignored = {0};
    hs_env env = HS_INIT(hs_env, .allocator = {meter_alloc, meter_realloc, meter_free, m}, .logger = {no_log, NULL});
    hs_backend backend = hs_tensorflow_open(
        graph_path("queue.meta"),
        HS_TENSORFLOW_OPTIONS(.env = &env, .server = server, .target = target, .timeout_secs = 60), &err);
    hs_code code = err.code;
    void *session = NULL;
    if (!code)
        code = backend.ops->open(backend.self, "", (hs_bytes){NULL, 0}, &session, &err);
    if (session)
        code = backend.ops->close(session, &ignored);
    hs_tensorflow_free(backend);
    return code;
}

static hs_code serve(meter *m)
{
    hs_error err = {0};
    hs_env env = HS_INIT(hs_env, .allocator = {meter_alloc, meter_realloc, meter_free, m}, .logger = {no_log, NULL});
    hs_tensorflow_server_free(
        hs_tensorflow_server_start(HS_TENSORFLOW_SERVER_OPTIONS(.env = &env, .cluster = "alone=127.0.0.1:0"), &err));
    return err.code;
}

static void each_allocation_of_a_server_may_fail(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_tensorflow_server *server =
        hs_tensorflow_server_start(HS_TENSORFLOW_SERVER_OPTIONS(.cluster = "alone=127.0.0.1:0"), &err);
    assert_ok(err.code, &err);
    const char *target = hs_tensorflow_server_target(server);
    for (int way = 0; way < 3; way++) {
        hs_code code = HS_RESOURCE_EXHAUSTED;
        for (size_t n = 1; code; n++) {
            meter failing = {.fails = n};
            code = way == 0 ? serve(&failing) : connect(way == 1 ? server : NULL, way == 1 ? NULL : target, &failing);
            if (code != HS_OK && code != HS_RESOURCE_EXHAUSTED)
                fail_msg("allocation %zu: %s", n, hs_code_name(code));
            assert_int_equal(failing.live, 0);
            code = failing.asked >= n ? HS_RESOURCE_EXHAUSTED : code;
        }
        assert_int_equal(code, HS_OK);
    }
    hs_tensorflow_server_free(server);
}

/* The address sanitizer is slow and keeps freed memory: fewer runs, and no limit of pages, as it finds leaks itself. */
#ifdef __SANITIZE_ADDRESS__
enum { RUNS = 10000, WARM = 100, MOST_PAGES = 1 << 30 };
#else
enum { RUNS = 100000, WARM = 10000, MOST_PAGES = 2048 };
#endif

/* Returns the number of the process's pages in memory. */
static long resident(void)
{
    long pages = 0, all = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%ld %ld", &all, &pages) != 2)
        pages = 0;
    if (file)
        fclose(file);
    return pages;
}

static void runs_do_not_leak(void **state)
{
    (void)state;
    const char *const graphs[] = {"ref.meta", "resource.meta", "endless.meta"};
    for (size_t i = 0; i < 3; i++) {
        hs_error err = {0};
        batch b;
        meter m = {.fails = 0};
        hs_env env = HS_INIT(hs_env, .allocator = {meter_alloc, meter_realloc, meter_free, &m}, .logger = {no_log, NULL});
        hs_backend backend = hs_tensorflow_open(graph_path(graphs[i]), HS_TENSORFLOW_OPTIONS(.env = &env), &err);
        hs_session *session = hs_session_open(backend, NULL, &err);
        assert_ok(err.code, &err);
        fill_batch(&b, 0);
        hs_run_args args = HS_INIT(hs_run_args, .names = HS_NAMES("train_op", "loss", "layer/w"), .feeds = b.feeds);
        const char *const *of_queue = HS_NAMES("train_op", "total");
        if (i == 2)
            args = (hs_run_args)HS_INIT(hs_run_args, .names = of_queue);
        size_t asked = 0;
        long before = 0;
        for (int run = 0; run < RUNS; run++) {
            if (run == WARM) {
                before = resident();
                asked = m.asked;
            }
            assert_ok(hs_session_run_args(session, &args, NULL, &err), &err);
        }
        assert_int_equal(m.asked, asked);
        if (resident() - before > MOST_PAGES)
            fail_msg("%d runs took %ld pages", RUNS - WARM, resident() - before);
        hs_session_close(session, &err);
        hs_tensorflow_free(backend);
        assert_int_equal(m.live, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_allocation_may_fail),
        cmocka_unit_test(each_allocation_of_queues_may_fail),
        cmocka_unit_test(each_allocation_of_a_server_may_fail),
        cmocka_unit_test(runs_do_not_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
