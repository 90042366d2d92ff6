/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <hooksess/testing.h>

#include <math.h>
#include <pthread.h>

typedef struct {
    hs_script *script;
    hs_session *session;
    hs_error err;
    const hs_run_values *values;
} played;

static int setup(void **state)
{
    played *p = calloc(1, sizeof *p);
    p->script = hs_script_new(NULL);
    *state = p;
    return p->script ? 0 : -1;
}

static int teardown(void **state)
{
    played *p = *state;
    if (p->session)
        hs_session_close(p->session, NULL);
    hs_script_free(p->script);
    free(p);
    return 0;
}

static void open_session(played *p, const hs_hook *hooks, size_t n)
{
    hs_session_options options = HS_INIT(hs_session_options, .hooks = test_hooks(hooks, n));
    p->session = hs_session_open(hs_script_backend(p->script), &options, &p->err);
    assert_non_null(p->session);
}

static hs_code run(played *p, const char *const *names, const hs_feed *feeds)
{
    if (!p->session)
        open_session(p, NULL, 0);
    return hs_session_run_args(p->session, HS_RUN_ARGS(.names = names, .feeds = feeds), &p->values, &p->err);
}

static void train_advances_the_step(void **state)
{
    played *p = *state;
    assert_ok(run(p, HS_NAMES("train", "global_step"), NULL), &p->err);
    assert_true(hs_run_values_number(p->values, 1) == 1);
    hs_script_steps_per_run(p->script, 5);
    assert_ok(run(p, HS_NAMES("train"), NULL), &p->err);
    assert_int_equal(hs_session_global_step(p->session, NULL), 6);
    hs_script_set_step(p->script, 100);
    assert_ok(run(p, HS_NAMES("global_step"), NULL), &p->err);
    assert_true(hs_run_values_number(p->values, 0) == 100);
}

static void a_series_plays_one_value_a_run(void **state)
{
    played *p = *state;
    double values[] = {3, 2};
    assert_int_equal(hs_script_series(p->script, "loss", values, 2), HS_OK);
    values[0] = 9; /* the script has a copy */
    assert_ok(run(p, HS_NAMES("loss"), NULL), &p->err);
    assert_true(hs_run_values_number(p->values, 0) == 3);
    assert_ok(run(p, HS_NAMES("loss:0"), NULL), &p->err);
    assert_true(hs_run_values_number(p->values, 0) == 2);
    assert_fails(run(p, HS_NAMES("loss"), NULL), HS_OUT_OF_RANGE, &p->err,
                 "'loss' of the script has 2 values, but this is run 3");
    assert_ok(run(p, HS_NAMES("train"), NULL), &p->err); /* runs that do not fetch it succeed */
}

static void a_series_is_replaced_by_another(void **state)
{
    played *p = *state;
    hs_script_series(p->script, "loss", (double[]){1}, 1);
    hs_script_series(p->script, "loss", (double[]){7, 8, 9}, 3);
    assert_ok(run(p, HS_NAMES("loss"), NULL), &p->err);
    assert_true(hs_run_values_number(p->values, 0) == 7);
    assert_int_equal(hs_script_series(p->script, "empty", NULL, 0), HS_OK);
    assert_int_equal(run(p, HS_NAMES("empty"), NULL), HS_OUT_OF_RANGE);
}

static void constants_and_placeholders_return_their_values(void **state)
{
    played *p = *state;
    const double three = 3, four = 4;
    hs_tensor constant = hs_tensor_of(HS_DOUBLE, HS_SCALAR, &three), fed = hs_tensor_of(HS_DOUBLE, HS_SCALAR, &four);
    hs_script_constant(p->script, "c", &constant);
    hs_script_placeholder(p->script, "x");
    assert_ok(run(p, HS_NAMES("c", "x"), HS_FEEDS({"x", fed})), &p->err);
    assert_true(hs_run_values_number(p->values, 0) == 3 && hs_run_values_number(p->values, 1) == 4);
    assert_ok(run(p, HS_NAMES("c"), HS_FEEDS({"c", fed})), &p->err);
    assert_true(hs_run_values_number(p->values, 0) == 4);
    assert_fails(run(p, HS_NAMES("x"), NULL), HS_INVALID_ARGUMENT, &p->err, "placeholder 'x' must be fed");
}

static void the_script_makes_a_run_fail(void **state)
{
    played *p = *state;
    hs_script_fail_at(p->script, 2, HS_ABORTED, "first thought");
    hs_script_fail_at(p->script, 2, HS_UNAVAILABLE, "worker lost");
    assert_ok(run(p, HS_NAMES("train"), NULL), &p->err);
    assert_fails(run(p, HS_NAMES("train"), NULL), HS_UNAVAILABLE, &p->err, "worker lost");
    assert_ok(run(p, HS_NAMES("train"), NULL), &p->err);
    assert_int_equal(hs_session_global_step(p->session, NULL), 2); /* the failed run did not advance the step */
}

static void the_script_makes_an_open_fail(void **state)
{
    played *p = *state;
    assert_int_equal(hs_script_fail_open_at(p->script, 1, HS_UNAVAILABLE, "first thought"), HS_OK);
    hs_script_fail_open_at(p->script, 1, HS_INTERNAL, "no engine");
    assert_null(hs_session_open(hs_script_backend(p->script), NULL, &p->err));
    assert_says(&p->err, HS_INTERNAL, "no engine");
    assert_ok(run(p, HS_NAMES("train"), NULL), &p->err);
}

static void a_recovery_repeats_a_failed_open(void **state)
{
    played *p = *state;
    hs_script_fail_at(p->script, 2, HS_UNAVAILABLE, "worker lost");
    hs_script_fail_open_at(p->script, 2, HS_UNAVAILABLE, "no worker yet");
    hs_session_options options = HS_INIT(hs_session_options, .recovery = HS_RECOVERY(.max_attempts = 2));
    p->session = hs_session_open(hs_script_backend(p->script), &options, &p->err);
    assert_non_null(p->session);
    assert_ok(run(p, HS_NAMES("train"), NULL), &p->err);
    assert_ok(run(p, HS_NAMES("train"), NULL), &p->err);
    assert_string_equal(hs_script_calls(p->script), "run run run");
}

static void a_run_may_be_delayed_and_fail(void **state)
{
    played *p = *state;
    int64_t start = hs_env_monotonic_ns(hs_script_env(p->script));
    hs_script_delay_at(p->script, 1, 2);
    hs_script_fail_at(p->script, 1, HS_DEADLINE_EXCEEDED, "too slow");
    assert_int_equal(run(p, HS_NAMES("train"), NULL), HS_DEADLINE_EXCEEDED);
    assert_int_equal(hs_env_monotonic_ns(hs_script_env(p->script)) - start, 2000000000);
}

static void delays_and_advances_move_the_clock(void **state)
{
    played *p = *state;
    int64_t start = hs_env_monotonic_ns(hs_script_env(p->script));
    hs_script_delay_at(p->script, 1, 0.5);
    assert_ok(run(p, HS_NAMES("train"), NULL), &p->err);
    assert_ok(run(p, HS_NAMES("train"), NULL), &p->err);
    assert_int_equal(hs_env_monotonic_ns(hs_script_env(p->script)) - start, 500000000);
    hs_script_advance(p->script, 1);
    hs_env_sleep_ns(hs_script_env(p->script), 7);
    assert_int_equal(hs_env_realtime_ns(hs_script_env(p->script)) - start, 1500000007);
}

static void seconds_are_rounded_to_nanoseconds(void **state)
{
    played *p = *state;
    int64_t start = hs_env_monotonic_ns(hs_script_env(p->script));
    hs_script_advance(p->script, 0.57); /* 0.57 * 1e9 is below 570000000 */
    hs_script_delay_at(p->script, 1, 0.57);
    assert_ok(run(p, HS_NAMES("train"), NULL), &p->err);
    assert_int_equal(hs_env_monotonic_ns(hs_script_env(p->script)) - start, 1140000000);
}

static void invalid_seconds_do_not_move_the_clock(void **state)
{
    played *p = *state;
    const double invalid[] = {-1e-9, NAN, INFINITY, -INFINITY, 1.1e9};
    int64_t start = hs_env_monotonic_ns(hs_script_env(p->script));
    assert_int_equal(start, 1000000000000000000); /* in 2001 */
    for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++) {
        hs_script_advance(p->script, invalid[i]);
        assert_int_equal(hs_script_delay_at(p->script, 1, invalid[i]), HS_INVALID_ARGUMENT);
    }
    assert_ok(run(p, HS_NAMES("train"), NULL), &p->err);
    assert_int_equal(hs_env_monotonic_ns(hs_script_env(p->script)), start);
}

static void *sleep_often(void *env)
{
    for (int i = 0; i < 3000000; i++)
        hs_env_sleep_ns(env, 1);
    return NULL;
}

static void several_threads_move_the_clock(void **state)
{
    played *p = *state;
    const hs_env *env = hs_script_env(p->script);
    int64_t start = hs_env_monotonic_ns(env);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, sleep_often, (void *)env), 0);
    sleep_often((void *)env);
    pthread_join(thread, NULL);
    assert_int_equal(hs_env_monotonic_ns(env) - start, 6000000);
}

static void delays_and_advances_move_the_clock_of_the_environment(void **state)
{
    played *p = *state;
    hs_test_system *system = hs_test_system_new();
    hs_script_free(p->script);
    p->script = hs_script_new(hs_test_system_env(system));
    int64_t start = hs_env_monotonic_ns(hs_test_system_env(system));
    hs_script_advance(p->script, 2);
    hs_script_delay_at(p->script, 1, 3);
    assert_ok(run(p, HS_NAMES("train"), NULL), &p->err);
    assert_int_equal(hs_env_monotonic_ns(hs_test_system_env(system)) - start, 5000000000);
    hs_session_close(p->session, NULL);
    p->session = NULL;
    hs_script_free(p->script);
    p->script = NULL;
    assert_int_equal(hs_test_system_live_blocks(system), 0);
    hs_test_system_free(system);
}

static void metadata_is_played(void **state)
{
    played *p = *state;
    hs_script_metadata_at(p->script, 1, (hs_bytes){"abc", 3});
    assert_ok(run(p, HS_NAMES("train"), NULL), &p->err);
    assert_int_equal(hs_run_values_metadata(p->values).size, 3);
    assert_ok(run(p, HS_NAMES("train"), NULL), &p->err);
    assert_int_equal(hs_run_values_metadata(p->values).size, 0);
}

static void the_last_run_is_described(void **state)
{
    played *p = *state;
    const double x = 1;
    hs_script_placeholder(p->script, "x");
    assert_string_equal(hs_script_last_run(p->script), "");
    assert_int_equal(hs_script_runs(p->script), 0);
    assert_ok(run(p, HS_NAMES("x", "train"), HS_FEEDS({"x", hs_tensor_of(HS_DOUBLE, HS_SCALAR, &x)})), &p->err);
    assert_string_equal(hs_script_last_run(p->script), "fetch x train; feed x");
    hs_debug_watch watch = {.node_name = "w"};
    hs_run_options options =
        HS_INIT(hs_run_options, .trace_level = 3, .timeout_secs = 9, .debug_watches = HS_DEBUG_WATCHES(watch));
    hs_run_args args = HS_INIT(hs_run_args, .options = &options);
    assert_ok(hs_session_run_args(p->session, &args, NULL, &p->err), &p->err);
    assert_string_equal(hs_script_last_run(p->script),
                        "fetch; feed; trace 3 timeout 9 pool 0 graphs 0 oom 0 disk 0 watch w");
    assert_int_equal(hs_script_runs(p->script), 2);
}

static const hs_run_args loss_and_x = HS_INIT(hs_run_args, .names = HS_NAMES("loss", "x"));

static hs_code fetch_loss(void *self, hs_run_context *context, const hs_run_args **args, hs_error *err)
{
    (void)self, (void)context, (void)err;
    *args = &loss_and_x;
    return HS_OK;
}

static void the_fetches_of_the_caller_are_in_front_of_those_of_hooks(void **state)
{
    played *p = *state;
    const double x = 1;
    static const hs_hook_ops ops = HS_INIT(hs_hook_ops, .name = "fetcher", .before_run = fetch_loss);
    hs_hook hook = {.ops = &ops};
    hs_script_placeholder(p->script, "x");
    hs_script_constant(p->script, "loss", &(hs_tensor){0});
    open_session(p, &hook, 1);
    assert_ok(run(p, HS_NAMES("x", "train"), HS_FEEDS({"x", hs_tensor_of(HS_DOUBLE, HS_SCALAR, &x)})), &p->err);
    assert_string_equal(hs_script_last_run(p->script), "fetch x train loss; feed x");
}

static void a_raw_run_advances_a_series(void **state)
{
    played *p = *state;
    hs_script_series(p->script, "loss", (double[]){1, 2}, 2);
    open_session(p, NULL, 0);
    assert_ok(hs_raw_session_run(hs_session_raw(p->session), HS_RUN_ARGS(.names = HS_NAMES("train")), NULL, &p->err),
              &p->err);
    assert_ok(run(p, HS_NAMES("loss"), NULL), &p->err);
    assert_true(hs_run_values_number(p->values, 0) == 2);
}

static void unknown_names_are_not_found(void **state)
{
    played *p = *state;
    hs_script_op(p->script, "op");
    assert_ok(run(p, HS_NAMES("op"), NULL), &p->err);
    assert_null(hs_run_values_tensor(p->values, 0));
    assert_fails(run(p, HS_NAMES("lost"), NULL), HS_NOT_FOUND, &p->err, "'lost'");
    assert_int_equal(run(p, HS_NAMES("global_step:1"), NULL), HS_NOT_FOUND);
}

static void notes_and_calls_are_recorded_in_order(void **state)
{
    played *p = *state;
    assert_string_equal(hs_script_calls(p->script), "");
    hs_script_note(p->script, "now");
    assert_ok(run(p, HS_NAMES("train"), NULL), &p->err);
    assert_string_equal(hs_script_calls(p->script), "now run");
    hs_script_clear_calls(p->script);
    assert_string_equal(hs_script_calls(p->script), "");
}

static void a_record_that_lost_words_says_so(void **state)
{
    (void)state;
    static char long_word[100000];
    memset(long_word, 'x', sizeof long_word - 1);
    hs_test_system *system = hs_test_system_new();
    hs_script *script = hs_script_new(hs_test_system_env(system));
    hs_script_note(script, "one");
    hs_test_system_fail_allocation(system, 1);
    hs_script_note(script, long_word);
    hs_script_note(script, "three");
    assert_string_equal(hs_script_calls(script), "one (rest lost: out of memory)");
    hs_script_clear_calls(script);
    hs_script_note(script, "four");
    assert_string_equal(hs_script_calls(script), "four");
    hs_script_free(script);
    hs_test_system_free(system);
}

static void collections_are_kept_in_their_order(void **state)
{
    played *p = *state;
    hs_backend backend = hs_script_backend(p->script);
    const void *item;
    assert_ok(backend.ops->add_to_collection(p->script, "key", "one", NULL, &p->err), &p->err);
    assert_ok(backend.ops->add_to_collection(p->script, "key", "other", NULL, &p->err), &p->err);
    assert_true(hs_backend_collection_item(backend, "key", 0, &item));
    assert_string_equal(item, "one");
    assert_true(hs_backend_collection_item(backend, "key", 1, &item));
    assert_string_equal(item, "other");
    assert_false(hs_backend_collection_item(backend, "key", 2, &item));
}

/* hs_script_watch. */

static hs_code do_nothing(void *self, hs_run_context *context, hs_error *err)
{
    (void)self, (void)context, (void)err;
    return HS_OK;
}

static void count(void *self)
{
    ++*(int *)self;
}

static const hs_hook_ops counting = HS_INIT(hs_hook_ops, .name = "counting", .boundary = do_nothing, .destroy = count);

static void a_watched_hook_is_recorded_with_its_label(void **state)
{
    played *p = *state;
    int destroyed = 0;
    hs_hook hook = hs_script_watch(p->script, "h", (hs_hook){.ops = &counting, .self = &destroyed});
    open_session(p, &hook, 1);
    assert_ok(run(p, HS_NAMES("train"), NULL), &p->err);
    hs_session_close(p->session, NULL);
    p->session = NULL;
    assert_string_equal(hs_script_calls(p->script),
                        "h.begin h.create h.boundary h.before run h.after h.end h.boundary h.close");
    assert_int_equal(destroyed, 1);
}

static void a_long_label_is_recorded_whole(void **state)
{
    played *p = *state;
    char label[300] = "", expected[400];
    static const hs_hook_ops empty = HS_INIT(hs_hook_ops, .name = "empty");
    memset(label, 'x', sizeof label - 1);
    snprintf(expected, sizeof expected, "%s.begin ", label);
    hs_hook hook = hs_script_watch(p->script, label, (hs_hook){.ops = &empty});
    open_session(p, &hook, 1);
    assert_memory_equal(hs_script_calls(p->script), expected, strlen(expected));
}

static void a_hook_that_cannot_be_watched_is_reported(void **state)
{
    played *p = *state;
    int destroyed = 0;
    hs_test_system *system = hs_test_system_new();
    hs_script *script = hs_script_new(hs_test_system_env(system));
    hs_test_system_fail_allocation(system, 1);
    hs_hook hook = hs_script_watch(script, NULL, (hs_hook){.ops = &counting, .self = &destroyed});
    assert_int_equal(destroyed, 1);
    hs_session_options options = HS_INIT(hs_session_options, .hooks = HS_HOOKS(hook));
    assert_null(hs_session_open(hs_script_backend(script), &options, &p->err));
    assert_says(&p->err, HS_RESOURCE_EXHAUSTED, "no memory to watch the hook 'counting'");
    hs_script_free(script);
    hs_test_system_free(system);
    hook = hs_script_watch(NULL, NULL, (hs_hook){.ops = &counting, .self = &destroyed});
    assert_int_equal(destroyed, 2);
    hs_hook_free(hook);
}

static void without_a_label_the_words_stand_alone(void **state)
{
    played *p = *state;
    static const hs_hook_ops empty = HS_INIT(hs_hook_ops, .name = "empty");
    hs_hook hook = hs_script_watch(p->script, NULL, (hs_hook){.ops = &empty, .self = NULL});
    open_session(p, &hook, 1);
    assert_ok(run(p, HS_NAMES("train"), NULL), &p->err);
    hs_session_close(p->session, NULL);
    p->session = NULL;
    assert_string_equal(hs_script_calls(p->script), "begin create before run after end close");
}

static void a_held_hook_outlives_its_watch(void **state)
{
    played *p = *state;
    int destroyed = 0;
    hs_hook held = hs_hook_hold((hs_hook){.ops = &counting, .self = &destroyed, .flags = HS_HOOK_EVAL});
    hs_hook watched = hs_script_watch(p->script, NULL, held);
    assert_true(watched.flags & HS_HOOK_EVAL && !(watched.flags & HS_HOOK_HELD)); /* the wrapper is not held */
    hs_hook_free(watched);
    assert_int_equal(destroyed, 0);
    hs_hook_free(held);
    assert_int_equal(destroyed, 1);
}

/* An invalid hook is returned unchanged: opening a session reports it. */
static void a_hook_without_functions_is_not_watched(void **state)
{
    played *p = *state;
    static const hs_hook_ops no_size = {.name = "x"};
    assert_null(hs_script_watch(p->script, "x", (hs_hook){0}).ops);
    assert_ptr_equal(hs_script_watch(p->script, "x", (hs_hook){.ops = &no_size}).ops, &no_size);
}

static hs_code save_int(void *self, hs_state_writer *out, hs_error *err)
{
    return hs_state_writer_write(out, self, sizeof(int), err);
}

static hs_code load_int(void *self, hs_state_reader *in, hs_error *err)
{
    return hs_state_reader_read(in, self, sizeof(int), err);
}

static void the_state_of_a_watched_hook_is_saved(void **state)
{
    played *p = *state;
    static const hs_hook_ops stateful =
        HS_INIT(hs_hook_ops, .name = "stateful", .save_state = save_int, .load_state = load_int);
    char *directory = test_make_directory();
    int remembered = 41;
    hs_hook hook = hs_script_watch(p->script, NULL, (hs_hook){.ops = &stateful, .self = &remembered});
    open_session(p, &hook, 1);
    hs_saver *saver = hs_saver_new(NULL, NULL);
    const char *prefix = test_path(directory, "model");
    assert_ok(hs_saver_save(saver, hs_session_raw(p->session), prefix, -1, NULL, &p->err), &p->err);
    hs_saver_free(saver);
    hs_session_close(p->session, NULL);
    remembered = 0;
    hook = hs_script_watch(p->script, NULL, (hs_hook){.ops = &stateful, .self = &remembered});
    hs_session_options options = HS_INIT(hs_session_options, .hooks = HS_HOOKS(hook), .checkpoint_prefix = prefix);
    p->session = hs_session_open(hs_script_backend(p->script), &options, &p->err);
    assert_int_equal(p->err.code, HS_OK);
    assert_int_equal(remembered, 41);
    test_remove_directory(directory);
}

static void invalid_arguments_are_refused(void **state)
{
    played *p = *state;
    hs_env env = HS_INIT(hs_env, .allocator = {.alloc = hs_env_default()->allocator.alloc});
    assert_null(hs_script_new(&env)); /* an allocator with one of three functions */
    assert_int_equal(hs_script_op(p->script, NULL), HS_INVALID_ARGUMENT);
    assert_int_equal(hs_script_series(p->script, NULL, NULL, 0), HS_INVALID_ARGUMENT);
    assert_int_equal(hs_script_fail_at(p->script, 0, HS_INTERNAL, "x"), HS_INVALID_ARGUMENT);
    assert_int_equal(hs_script_fail_open_at(p->script, 0, HS_INTERNAL, "x"), HS_INVALID_ARGUMENT);
    assert_int_equal(hs_script_delay_at(p->script, 0, 1), HS_INVALID_ARGUMENT);
    assert_int_equal(hs_script_metadata_at(p->script, 0, (hs_bytes){"abc", 3}), HS_INVALID_ARGUMENT);
    hs_script_note(p->script, NULL);
    assert_string_equal(hs_script_calls(p->script), "");
    hs_script_free(NULL);
}

static void refused_values_replace_nothing(void **state)
{
    played *p = *state;
    hs_script_series(p->script, "loss", (double[]){7}, 1);
    assert_int_equal(hs_script_constant(p->script, "loss", NULL), HS_INVALID_ARGUMENT);
    assert_int_equal(hs_script_series(p->script, "loss", NULL, 3), HS_INVALID_ARGUMENT);
    assert_ok(run(p, HS_NAMES("loss"), NULL), &p->err);
    assert_true(hs_run_values_number(p->values, 0) == 7);
}

/* Failed allocations. */

static hs_code whole_script(test_env *t, void *user)
{
    (void)user;
    hs_error err = {0};
    hs_script *script = hs_script_new(&t->env);
    if (!script)
        return HS_RESOURCE_EXHAUSTED;
    hs_code code = hs_script_series(script, "loss", (double[]){1, 2}, 2);
    if (!code)
        code = hs_script_fail_at(script, 2, HS_RESOURCE_EXHAUSTED, "as planned");
    hs_hook hook = hs_script_watch(script, "h", (hs_hook){.ops = &counting, .self = user});
    hs_session_options options = HS_INIT(hs_session_options, .hooks = HS_HOOKS(hook));
    hs_session *session = hs_session_open(hs_script_backend(script), &options, &err);
    if (session && !code)
        code = hs_session_run(session, "loss:0", &err);
    hs_outcome outcome = hs_session_close(session, &err);
    hs_script_free(script);
    return code ? code : outcome.error.code;
}

static void any_allocation_may_fail(void **state)
{
    (void)state;
    int destroyed = 0;
    test_each_allocation(whole_script, &destroyed);
    assert_true(destroyed > 0);
}

#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(train_advances_the_step),
        test(a_series_plays_one_value_a_run),
        test(a_series_is_replaced_by_another),
        test(constants_and_placeholders_return_their_values),
        test(the_script_makes_a_run_fail),
        test(the_script_makes_an_open_fail),
        test(a_recovery_repeats_a_failed_open),
        test(a_run_may_be_delayed_and_fail),
        test(delays_and_advances_move_the_clock),
        test(seconds_are_rounded_to_nanoseconds),
        test(invalid_seconds_do_not_move_the_clock),
        test(several_threads_move_the_clock),
        test(delays_and_advances_move_the_clock_of_the_environment),
        test(metadata_is_played),
        test(the_last_run_is_described),
        test(the_fetches_of_the_caller_are_in_front_of_those_of_hooks),
        test(a_raw_run_advances_a_series),
        test(unknown_names_are_not_found),
        test(notes_and_calls_are_recorded_in_order),
        test(a_record_that_lost_words_says_so),
        test(collections_are_kept_in_their_order),
        test(a_watched_hook_is_recorded_with_its_label),
        test(a_long_label_is_recorded_whole),
        test(a_hook_that_cannot_be_watched_is_reported),
        test(without_a_label_the_words_stand_alone),
        test(a_held_hook_outlives_its_watch),
        test(a_hook_without_functions_is_not_watched),
        test(the_state_of_a_watched_hook_is_saved),
        test(invalid_arguments_are_refused),
        test(refused_values_replace_nothing),
        cmocka_unit_test(any_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
