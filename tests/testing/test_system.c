/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <hooksess/testing.h>

#include <math.h>
#include <pthread.h>

typedef struct {
    hs_test_system *system;
    const hs_env *env;
    char *directory;
    hs_error err;
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    f->system = hs_test_system_new();
    f->env = hs_test_system_env(f->system);
    f->directory = test_make_directory();
    *state = f;
    return f->system ? 0 : -1;
}

static int teardown(void **state)
{
    fixture *f = *state;
    hs_test_system_free(f->system);
    test_remove_directory(f->directory);
    free(f);
    return 0;
}

static void only_the_test_moves_the_clock(void **state)
{
    fixture *f = *state;
    int64_t start = hs_env_monotonic_ns(f->env);
    assert_int_equal(hs_env_monotonic_ns(f->env), start);
    hs_test_system_advance(f->system, 0.57); /* 0.57 * 1e9 is below 570000000 */
    assert_int_equal(hs_env_monotonic_ns(f->env) - start, 570000000);
    hs_env_sleep_ns(f->env, 5);
    hs_env_sleep_ns(f->env, -5);
    assert_int_equal(hs_env_realtime_ns(f->env) - start, 570000005);
}

static void the_clock_starts_in_2001(void **state)
{
    fixture *f = *state;
    assert_int_equal(hs_env_realtime_ns(f->env), 1000000000000000000);
}

static void invalid_seconds_do_not_move_the_clock(void **state)
{
    fixture *f = *state;
    const double invalid[] = {-0.57, NAN, INFINITY, -INFINITY, 1.1e9};
    int64_t start = hs_env_monotonic_ns(f->env);
    for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++)
        hs_test_system_advance(f->system, invalid[i]);
    assert_int_equal(hs_env_monotonic_ns(f->env), start);
}

static void log_lines_are_kept(void **state)
{
    fixture *f = *state;
    assert_string_equal(hs_test_system_log(f->system), "");
    hs_log(f->env, HS_LOG_DEBUG, "one");
    hs_log(f->env, HS_LOG_WARNING, "two %d", 2);
    assert_string_equal(hs_test_system_log(f->system), "DEBUG: one\nWARNING: two 2\n");
}

static void a_line_of_an_unknown_level_has_its_number(void **state)
{
    fixture *f = *state;
    f->env->logger.write(f->env->logger.user, (hs_log_level)7, "odd");
    assert_string_equal(hs_test_system_log(f->system), "LEVEL 7: odd\n");
}

static void a_long_log_is_kept(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < 10000; i++)
        hs_log(f->env, HS_LOG_INFO, "line %d", i);
    assert_contains(hs_test_system_log(f->system), "INFO: line 9999\n");
    assert_contains(hs_test_system_log(f->system), "INFO: line 0\nINFO: line 1\n");
}

static void allocations_are_counted(void **state)
{
    fixture *f = *state;
    const hs_allocator *memory = &f->env->allocator;
    void *first = hs_env_alloc(f->env, 10), *second = memory->realloc(memory->user, NULL, 20);
    second = memory->realloc(memory->user, second, 3000);
    assert_int_equal(hs_test_system_allocations(f->system), 3);
    assert_int_equal(hs_test_system_live_blocks(f->system), 2);
    hs_env_free(f->env, first);
    memory->free(memory->user, NULL);
    assert_int_equal(hs_test_system_live_blocks(f->system), 1);
    hs_env_free(f->env, second);
    assert_int_equal(hs_test_system_live_blocks(f->system), 0);
}

static void one_allocation_fails(void **state)
{
    fixture *f = *state;
    const hs_allocator *memory = &f->env->allocator;
    void *block = hs_env_alloc(f->env, 1);
    hs_test_system_fail_allocation(f->system, 2);
    assert_non_null(block = memory->realloc(memory->user, block, 2));
    assert_null(memory->realloc(memory->user, block, 3));
    assert_non_null(block = memory->realloc(memory->user, block, 4));
    assert_int_equal(hs_test_system_allocations(f->system), 3);
    hs_test_system_fail_allocation(f->system, 1);
    assert_null(hs_env_alloc(f->env, 1));
    hs_test_system_fail_allocation(f->system, 0);
    hs_env_free(f->env, block);
    assert_int_equal(hs_test_system_live_blocks(f->system), 0);
}

static const hs_file_system_ops *files(const fixture *f)
{
    return f->env->files.ops;
}

/* Writes "0123456789" to a file. Returns the first failure. */
static hs_code write_digits(fixture *f, const char *path)
{
    void *user = f->env->files.user, *file;
    hs_code code = files(f)->open(user, path, HS_OPEN_WRITE, &file, &f->err);
    if (code)
        return code;
    code = files(f)->write(user, file, "0123456789", 10, &f->err);
    hs_code closed = files(f)->close(user, file, code ? NULL : &f->err);
    return code ? code : closed;
}

static void files_are_on_the_disk(void **state)
{
    fixture *f = *state;
    const char *path = test_path(f->directory, "digits");
    assert_ok(write_digits(f, path), &f->err);
    char *text = test_read_file(path, NULL);
    assert_string_equal(text, "0123456789");
    free(text);
    assert_int_equal(hs_test_system_file_calls(f->system), 3);
    assert_int_equal(hs_test_system_open_files(f->system), 0);
}

static void an_open_file_is_counted(void **state)
{
    fixture *f = *state;
    void *user = f->env->files.user, *file;
    const char *path = test_path(f->directory, "digits");
    assert_ok(files(f)->open(user, path, HS_OPEN_WRITE, &file, &f->err), &f->err);
    assert_int_equal(hs_test_system_open_files(f->system), 1);
    hs_test_system_fail_file_call(f->system, 1, HS_DATA_LOSS, false);
    assert_fails(files(f)->close(user, file, &f->err), HS_DATA_LOSS, &f->err, "close");
    assert_int_equal(hs_test_system_open_files(f->system), 0);
    assert_int_equal(files(f)->open(user, f->directory, HS_OPEN_WRITE, &file, NULL), HS_FAILED_PRECONDITION);
    assert_int_equal(hs_test_system_open_files(f->system), 0);
}

static void one_file_call_fails(void **state)
{
    fixture *f = *state;
    const char *path = test_path(f->directory, "digits");
    hs_test_system_fail_file_call(f->system, 1, HS_PERMISSION_DENIED, false);
    assert_fails(write_digits(f, path), HS_PERMISSION_DENIED, &f->err, path);
    assert_ok(write_digits(f, path), &f->err);
}

static void all_later_file_calls_fail(void **state)
{
    fixture *f = *state;
    const char *path = test_path(f->directory, "digits");
    hs_test_system_fail_file_call(f->system, 2, HS_RESOURCE_EXHAUSTED, true);
    assert_fails(write_digits(f, path), HS_RESOURCE_EXHAUSTED, &f->err, "write");
    assert_int_equal(hs_test_system_open_files(f->system), 0);
    assert_fails(write_digits(f, path), HS_RESOURCE_EXHAUSTED, &f->err, "open");
    char *text = test_read_file(path, NULL);
    assert_string_equal(text, "01234"); /* half of the failed write */
    free(text);
    hs_test_system_fail_file_call(f->system, 0, HS_OK, false);
    assert_ok(write_digits(f, path), &f->err);
}

typedef struct {
    fixture *f;
    size_t n_other; /* calls with another code than HS_DATA_LOSS or HS_OK */
} caller;

static void *sync_often(void *user)
{
    caller *c = user;
    for (int i = 0; i < 100000; i++) {
        hs_code code = files(c->f)->sync_directory(c->f->env->files.user, c->f->directory, NULL);
        c->n_other += code != HS_OK && code != HS_DATA_LOSS;
    }
    return NULL;
}

/* One request fails each call with HS_DATA_LOSS. The other fails no call, so that its code is never returned. */
static void a_call_fails_with_the_code_of_the_request_for_it(void **state)
{
    fixture *f = *state;
    caller c = {.f = f};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, sync_often, &c), 0);
    for (int i = 0; i < 100000; i++) {
        hs_test_system_fail_file_call(f->system, 1, HS_DATA_LOSS, true);
        hs_test_system_fail_file_call(f->system, 0, HS_INTERNAL, false);
    }
    pthread_join(thread, NULL);
    assert_int_equal(c.n_other, 0);
}

static void without_a_system_all_memory_and_files_fail(void **state)
{
    fixture *f = *state;
    const hs_env *env = hs_test_system_env(NULL);
    const char *path = test_path(f->directory, "digits");
    void *file;
    assert_null(hs_env_alloc(env, 1));
    assert_null(hs_graph_new(env));
    assert_fails(env->files.ops->open(env->files.user, path, HS_OPEN_WRITE, &file, &f->err), HS_RESOURCE_EXHAUSTED, &f->err,
                 path);
    assert_false(test_exists(f->directory, "digits"));
    assert_ptr_equal(hs_script_env(NULL), env);
}

static int ignore_name(void *visitor, const char *name)
{
    (void)visitor, (void)name;
    return 0;
}

/* Makes call number `which` of the calls that change no file. */
static hs_code make_call(fixture *f, int which)
{
    const hs_file_system_ops *ops = files(f);
    void *user = f->env->files.user;
    const char *path = test_path(f->directory, "digits"), *made = test_path(f->directory, "made");
    hs_file_stat stat;
    uint64_t bytes;
    void *lock = NULL;
    hs_code code;
    switch (which) {
    case 0:
        return ops->stat(user, path, &stat, &f->err);
    case 1:
        return ops->list(user, f->directory, ignore_name, NULL, &f->err);
    case 2:
        return ops->sync_directory(user, f->directory, &f->err);
    case 3:
        return ops->make_directory(user, made, &f->err);
    case 4:
        return ops->remove_directory(user, made, &f->err);
    case 5:
        return ops->free_space(user, f->directory, &bytes, &f->err);
    case 6:
        if (!(code = ops->lock(user, test_path(f->directory, "lock"), &lock, &f->err)))
            ops->unlock(user, lock);
        return code;
    case 7:
        return ops->rename(user, path, test_path(f->directory, "renamed"), &f->err);
    default:
        return ops->remove(user, test_path(f->directory, "renamed"), &f->err);
    }
}

static void each_function_of_the_file_system_fails_and_succeeds(void **state)
{
    fixture *f = *state;
    assert_ok(write_digits(f, test_path(f->directory, "digits")), &f->err);
    for (int which = 0; which < 9; which++) {
        hs_test_system_fail_file_call(f->system, 1, HS_UNKNOWN, false);
        assert_fails(make_call(f, which), HS_UNKNOWN, &f->err, f->directory);
        assert_ok(make_call(f, which), &f->err);
        assert_int_equal(hs_test_system_file_calls(f->system), 2);
    }
}

static void reads_and_syncs_fail_and_succeed(void **state)
{
    fixture *f = *state;
    void *user = f->env->files.user, *file;
    const char *path = test_path(f->directory, "digits");
    char digits[4];
    size_t got;
    assert_ok(write_digits(f, path), &f->err);
    assert_ok(files(f)->open(user, path, HS_OPEN_READ, &file, &f->err), &f->err);
    hs_test_system_fail_file_call(f->system, 1, HS_DATA_LOSS, false);
    assert_fails(files(f)->read(user, file, 3, digits, 4, &got, &f->err), HS_DATA_LOSS, &f->err, "read");
    assert_ok(files(f)->read(user, file, 3, digits, 4, &got, &f->err), &f->err);
    assert_memory_equal(digits, "3456", 4);
    assert_ok(files(f)->close(user, file, &f->err), &f->err);
    assert_ok(files(f)->open(user, path, HS_OPEN_APPEND, &file, &f->err), &f->err);
    hs_test_system_fail_file_call(f->system, 1, HS_DATA_LOSS, false);
    assert_fails(files(f)->sync(user, file, &f->err), HS_DATA_LOSS, &f->err, "sync");
    assert_ok(files(f)->sync(user, file, &f->err), &f->err);
    assert_ok(files(f)->close(user, file, &f->err), &f->err);
}

/* Trains for one step. Saves checkpoints if `directory` is not NULL. */
static hs_code train(const fixture *f, const char *directory)
{
    double loss = 2;
    hs_error err = {0};
    hs_graph *graph = hs_graph_new(f->env);
    hs_graph_variable(graph, "loss", HS_DOUBLE, HS_SCALAR, &loss);
    hs_session *session = hs_training_session_open(
        hs_graph_backend(graph),
        HS_TRAINING_OPTIONS(.checkpoint_dir = directory, .hooks = HS_HOOKS(hs_stop_at_step(.num_steps = 1))), &err);
    while (hs_step_begin(session))
        hs_step_end(session);
    hs_outcome outcome = hs_session_close(session, session ? &err : NULL);
    hs_graph_free(graph);
    return err.code ? err.code : outcome.error.code;
}

static void a_training_frees_everything_whichever_allocation_fails(void **state)
{
    fixture *f = *state;
    size_t n_failed = 0;
    bool failed = true;
    for (size_t n = 1; failed; n++) {
        hs_test_system_fail_allocation(f->system, n);
        n_failed += train(f, NULL) == HS_RESOURCE_EXHAUSTED;
        failed = hs_test_system_allocations(f->system) >= n;
        assert_int_equal(hs_test_system_live_blocks(f->system), 0);
        assert_int_equal(hs_test_system_open_files(f->system), 0);
    }
    assert_true(n_failed > 20);
}

static void a_training_reports_a_full_disk(void **state)
{
    fixture *f = *state;
    assert_int_equal(train(f, f->directory), HS_OK);
    assert_true(test_exists(f->directory, "model.ckpt-1.index"));
    test_empty_directory(f->directory);
    hs_test_system_fail_file_call(f->system, 1, HS_RESOURCE_EXHAUSTED, true);
    assert_int_equal(train(f, f->directory), HS_RESOURCE_EXHAUSTED);
    assert_int_equal(hs_test_system_open_files(f->system), 0);
}

static void a_part_of_the_environment_is_used_alone(void **state)
{
    fixture *f = *state;
    hs_env env = HS_INIT(hs_env, .clock = f->env->clock);
    hs_script *script = hs_script_new(&env);
    int64_t start = hs_env_monotonic_ns(hs_script_env(script));
    hs_test_system_advance(f->system, 1);
    assert_int_equal(hs_env_monotonic_ns(hs_script_env(script)) - start, 1000000000);
    assert_int_equal(hs_test_system_allocations(f->system), 0);
    hs_script_free(script);
}

#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(only_the_test_moves_the_clock),
        test(the_clock_starts_in_2001),
        test(invalid_seconds_do_not_move_the_clock),
        test(log_lines_are_kept),
        test(a_line_of_an_unknown_level_has_its_number),
        test(a_long_log_is_kept),
        test(allocations_are_counted),
        test(one_allocation_fails),
        test(files_are_on_the_disk),
        test(an_open_file_is_counted),
        test(one_file_call_fails),
        test(all_later_file_calls_fail),
        test(a_call_fails_with_the_code_of_the_request_for_it),
        test(without_a_system_all_memory_and_files_fail),
        test(each_function_of_the_file_system_fails_and_succeeds),
        test(reads_and_syncs_fail_and_succeed),
        test(a_training_frees_everything_whichever_allocation_fails),
        test(a_training_reports_a_full_disk),
        test(a_part_of_the_environment_is_used_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
