/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions that are prepared, recovered or waited for, without hooks. */
#include "backends/bare.h"

#include <hooksess/tf1/session_manager.h>

#include <math.h>

/* A model of three numbers in the process, shared by all sessions as on a server: v, which init sets to the fed value or
 * its own; w, local, from v; and x = 3 v. */
typedef struct {
    bare *b;
    double v, w, x, first; /* NaN: not initialized */
    hs_session_manager *manager;
    hs_session_manager_options options;
    hs_raw_session *session;
    int checks, local_inits;
    bool check_w; /* the ready_op also checks w */
    hs_string names[3];
    char *directory;
    hs_saver *saver;
    hs_backend_ops spied;
    int opened, closed;
    void (*on_open)(void *user);
} shared;

static shared *the_shared;

static hs_code init(void *self, hs_op *op, hs_error *err)
{
    shared *s = self;
    (void)err;
    s->v = hs_op_input(op, 0) ? hs_tensor_number(hs_op_input(op, 0), 0) : s->first;
    return HS_OK;
}

static hs_code local_init(void *self, hs_op *op, hs_error *err)
{
    shared *s = self;
    (void)op, (void)err;
    s->local_inits++;
    s->w = s->v;
    return HS_OK;
}

static hs_code local_init_fed(void *self, hs_op *op, hs_error *err)
{
    (void)err;
    ((shared *)self)->w = hs_tensor_number(hs_op_input(op, 0), 0);
    return HS_OK;
}

static hs_code init_x(void *self, hs_op *op, hs_error *err)
{
    shared *s = self;
    (void)op, (void)err;
    s->x = 3 * s->v;
    return HS_OK;
}

static hs_code list_names(shared *s, hs_op *op, bool with_w, hs_error *err)
{
    int64_t n = 0;
    if (isnan(s->v))
        s->names[n++] = (hs_string){"v", 1};
    if (with_w && isnan(s->w))
        s->names[n++] = (hs_string){"w", 1};
    hs_tensor value = hs_tensor_of(HS_STRING, HS_SHAPE(n), s->names);
    return hs_op_set_output(op, 0, &value, err);
}

static hs_code ready(void *self, hs_op *op, hs_error *err)
{
    shared *s = self;
    s->checks++;
    return list_names(s, op, s->check_w, err);
}

static hs_code ready_for_local(void *self, hs_op *op, hs_error *err)
{
    return list_names(self, op, false, err);
}

/* A ready_op that fails instead of returning names. */
static hs_code assert_ready(void *self, hs_op *op, hs_error *err)
{
    (void)op;
    return isnan(((shared *)self)->v) ? hs_error_set(err, HS_FAILED_PRECONDITION, "v is uninitialized") : HS_OK;
}

static const int32_t three_numbers[3] = {1, 2, 3};

static hs_code numbers(void *self, hs_op *op, hs_error *err)
{
    hs_tensor value = hs_tensor_of(HS_INT32, HS_SHAPE(3), three_numbers);
    (void)self;
    return hs_op_set_output(op, 0, &value, err);
}

static hs_code count_open(void *self, const char *target, hs_bytes config, void **session, hs_error *err)
{
    shared *s = the_shared;
    s->opened++;
    hs_code code = hs_graph_backend(s->b->graph).ops->open(self, target, config, session, err);
    if (!code && s->on_open)
        s->on_open(s);
    return code;
}

static hs_code count_close(void *session, hs_error *err)
{
    the_shared->closed++;
    return hs_graph_backend(the_shared->b->graph).ops->close(session, err);
}

static void add_ops(shared *s)
{
    hs_graph *g = s->b->graph;
    hs_graph_value(g, "v_now", HS_DOUBLE, HS_SCALAR, &s->v);
    hs_graph_value(g, "w_now", HS_DOUBLE, HS_SCALAR, &s->w);
    hs_graph_placeholder(g, "seed", HS_DOUBLE, HS_SCALAR);
    hs_graph_op(g, .name = "init", .run = init, .user = s);
    hs_graph_op(g, .name = "init_fed", .run = init, .user = s, .inputs = HS_NAMES("seed"));
    hs_graph_op(g, .name = "local_init", .run = local_init, .user = s);
    hs_graph_op(g, .name = "local_init_fed", .run = local_init_fed, .user = s, .inputs = HS_NAMES("seed"));
    hs_graph_op(g, .name = "init_x", .run = init_x, .user = s);
    hs_graph_op(g, .name = "local_init_all", .control_inputs = HS_NAMES("local_init", "init_x"));
    hs_graph_op(g, .name = "ready", .run = ready, .user = s,
                .outputs = HS_OUTPUTS({.dtype = HS_STRING, .shape = HS_SHAPE(-1)}));
    hs_graph_op(g, .name = "ready_for_local", .run = ready_for_local, .user = s,
                .outputs = HS_OUTPUTS({.dtype = HS_STRING, .shape = HS_SHAPE(-1)}));
    hs_graph_op(g, .name = "assert_ready", .run = assert_ready, .user = s);
    hs_graph_op(g, .name = "numbers", .run = numbers, .user = s,
                .outputs = HS_OUTPUTS({.dtype = HS_INT32, .shape = HS_SHAPE(-1)}));
}

static int setup(void **state)
{
    void *b;
    shared *s = calloc(1, sizeof *s);
    if (!s || bare_setup(&b))
        return -1;
    *s = (shared){.b = b, .v = NAN, .w = NAN, .x = NAN, .first = 1};
    s->options = (hs_session_manager_options)HS_INIT(hs_session_manager_options, .ready_op = "ready");
    s->options.env = &s->b->t.env;
    add_ops(s);
    s->spied = *hs_graph_backend(s->b->graph).ops;
    s->spied.open = count_open;
    s->spied.close = count_close;
    the_shared = s;
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    shared *s = *state;
    void *b = s->b;
    hs_raw_session_close(s->session, NULL);
    hs_session_manager_free(s->manager);
    hs_saver_free(s->saver);
    if (s->directory)
        test_remove_directory(s->directory);
    int left = s->opened != s->closed;
    free(s);
    return bare_teardown(&b) || left ? -1 : 0;
}

#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static hs_session_manager *manager_of(shared *s)
{
    hs_session_manager_free(s->manager);
    s->manager = hs_session_manager_new(&s->options, &s->b->err);
    if (!s->manager)
        fail_msg("%s", s->b->err.message);
    return s->manager;
}

static hs_backend backend_of(shared *s)
{
    return (hs_backend){&s->spied, hs_graph_backend(s->b->graph).self};
}

static bool prepare(shared *s, const hs_session_manager_prepare_options *options)
{
    return (s->session = hs_session_manager_prepare(manager_of(s), backend_of(s), options, &s->b->err)) != NULL;
}

static bool wait(shared *s, double secs)
{
    const hs_session_manager_prepare_options options = HS_INIT(hs_session_manager_prepare_options, .max_wait_secs = secs);
    s->options.recovery_wait_secs = 1;
    return (s->session = hs_session_manager_wait(manager_of(s), backend_of(s), &options, &s->b->err)) != NULL;
}

static double number(shared *s, const char *name)
{
    const hs_run_values *values;
    assert_ok(hs_raw_session_run(s->session, HS_RUN_ARGS(.names = HS_NAMES(name)), &values, &s->b->err), &s->b->err);
    return hs_run_values_number(values, 0);
}

#define PREPARE(...) (HS_PREPARE_OPTIONS(__VA_ARGS__))

static void sm_001_prepared_by_the_init_op(void **state)
{
    shared *s = *state;
    assert_true(prepare(s, PREPARE(.init_op = "init")));
    assert_true(number(s, "v_now") == 1);
}

static void sm_002_prepared_with_a_feed(void **state)
{
    shared *s = *state;
    double seed = 123;
    hs_tensor value = hs_tensor_of(HS_DOUBLE, HS_SCALAR, &seed);
    assert_true(prepare(s, PREPARE(.init_op = "init_fed", .init_feeds = HS_FEEDS({"seed", value}))));
    assert_true(s->v == 123);
}

static hs_code set_v(void *user, const hs_scaffold *scaffold, hs_raw_session *session, hs_error *err)
{
    (void)session, (void)err;
    assert_null(scaffold);
    ((shared *)user)->v = 125;
    return HS_OK;
}

static void sm_003_prepared_by_a_function(void **state)
{
    shared *s = *state;
    assert_true(prepare(s, PREPARE(.init_fn = set_v, .user = s)));
    assert_true(number(s, "v_now") == 125);
}

static hs_code close_it(void *user, const hs_scaffold *scaffold, hs_raw_session *session, hs_error *err)
{
    (void)scaffold;
    assert_int_equal(hs_raw_session_close(session, err), HS_FAILED_PRECONDITION);
    hs_error_clear(err);
    ((shared *)user)->v = 125;
    return HS_OK;
}

static void an_init_function_cannot_close_the_session(void **state)
{
    shared *s = *state;
    assert_true(prepare(s, PREPARE(.init_fn = close_it, .user = s)));
}

static void sm_004_sm_034s_prepared_by_the_local_init_op_with_its_own_feeds(void **state)
{
    shared *s = *state;
    double seed = 5, other = 6;
    s->v = 1;
    hs_tensor local = hs_tensor_of(HS_DOUBLE, HS_SCALAR, &seed), global = hs_tensor_of(HS_DOUBLE, HS_SCALAR, &other);
    const hs_feed feeds[] = {{"seed", local}, {NULL}};
    const hs_run_options slow = HS_INIT(hs_run_options, .timeout_secs = 60);
    s->options.local_init_op = "local_init_fed";
    s->options.local_init_feeds = feeds;
    s->options.local_init_run_options = &slow;
    assert_true(prepare(s, PREPARE(.init_feeds = HS_FEEDS({"seed", global}))));
    assert_true(number(s, "w_now") == 5);
}

/* Saves a checkpoint of one variable that the session owns. */
static void save_checkpoint(shared *s)
{
    s->saver = hs_saver_new(HS_SAVER_OPTIONS(.env = &s->b->t.env), NULL);
    s->directory = test_make_directory();
    hs_graph_add_variable(s->b->graph, HS_VARIABLE_DEF(.name = "kept", .dtype = HS_DOUBLE));
    assert_true(prepare(s, PREPARE(.init_op = "init")));
    const double seven = 7;
    hs_variable kept;
    size_t i = 0;
    while (hs_backend_variable(backend_of(s), i, &kept) && strcmp(kept.name, "kept"))
        i++;
    hs_tensor value = hs_tensor_of(HS_DOUBLE, HS_SCALAR, &seven);
    assert_ok(s->spied.write_variable(hs_raw_session_handle(s->session), i, &value, &s->b->err), &s->b->err);
    assert_ok(hs_saver_save(s->saver, s->session, test_path(s->directory, "model.ckpt"), 1, NULL, &s->b->err), &s->b->err);
    assert_ok(hs_raw_session_close(s->session, &s->b->err), &s->b->err);
    s->session = NULL;
    s->v = NAN;
}

static hs_code set_v_and_count(void *user, const hs_scaffold *scaffold, hs_raw_session *session, hs_error *err)
{
    shared *s = user;
    s->first += 1000;
    return set_v(user, scaffold, session, err);
}

static void sm_023s_restored_variables_are_not_initialized(void **state)
{
    shared *s = *state;
    save_checkpoint(s);
    s->v = 2;
    s->options.local_init_op = "local_init";
    s->options.ready_for_local_init_op = "ready_for_local";
    assert_true(prepare(s, PREPARE(.init_op = "init", .init_fn = set_v_and_count, .user = s, .saver = s->saver,
                                   .checkpoint_dir = s->directory)));
    assert_true(s->v == 2 && s->first == 1);
    assert_true(number(s, "kept") == 7);
    assert_int_equal(s->local_inits, 1);
    assert_true(s->checks >= 1);
}

static void sm_005_nothing_to_prepare_with(void **state)
{
    shared *s = *state;
    char *empty = test_make_directory();
    save_checkpoint(s);
    s->v = 2;
    assert_false(
        prepare(s, PREPARE(.saver = s->saver, .checkpoint_dir = empty, .wait_for_checkpoint = true, .max_wait_secs = 2)));
    assert_says(
        &s->b->err, HS_FAILED_PRECONDITION,
        "cannot initialize the model: no checkpoint was restored, and init_op, init_fn and local_init_op are missing");
    assert_true(prepare(
        s, PREPARE(.saver = s->saver, .checkpoint_dir = s->directory, .wait_for_checkpoint = true, .max_wait_secs = 2)));
    assert_true(number(s, "kept") == 7);
    test_remove_directory(empty);
}

/* TensorFlow sleeps for a whole interval, even if less time remains. */
static void sm_024s_waiting_ends_in_time(void **state)
{
    shared *s = *state;
    save_checkpoint(s);
    char *empty = test_make_directory();
    int64_t before = s->b->t.now_ns;
    s->options.recovery_wait_secs = 2;
    assert_true(prepare(s, PREPARE(.init_op = "init", .saver = s->saver, .checkpoint_dir = empty,
                                   .wait_for_checkpoint = true, .max_wait_secs = 1)));
    assert_int_equal(s->b->t.now_ns - before, 1000000000);
    test_remove_directory(empty);
}

static void close_session(shared *s)
{
    assert_ok(hs_raw_session_close(s->session, &s->b->err), &s->b->err);
    s->session = NULL;
}

static void sm_036s_nowhere_to_restore_from_is_nothing_to_wait_for(void **state)
{
    shared *s = *state;
    int64_t before = s->b->t.now_ns;
    assert_true(prepare(s, PREPARE(.init_op = "init", .wait_for_checkpoint = true, .checkpoint_dir = "/nowhere")));
    assert_int_equal(s->b->t.now_ns, before); /* without a saver it does not wait */
    close_session(s);
    save_checkpoint(s);
    s->v = (double)NAN;
    assert_true(prepare(s, PREPARE(.init_op = "init", .wait_for_checkpoint = true, .saver = s->saver)));
    assert_int_equal(s->b->t.now_ns, before); /* without a directory and a path it does not wait */
    assert_true(s->v == s->first);
}

static bool recover(shared *s, const hs_session_manager_prepare_options *options)
{
    bool initialized = true;
    s->session = hs_session_manager_recover(manager_of(s), backend_of(s), options, &initialized, &s->b->err);
    return initialized;
}

static void sm_006_recovered_from_a_directory_or_a_path(void **state)
{
    shared *s = *state;
    char *empty = test_make_directory();
    save_checkpoint(s);
    s->v = 2;
    assert_false(recover(s, PREPARE(.saver = s->saver, .checkpoint_dir = empty)));
    assert_non_null(s->session);
    close_session(s);
    assert_true(recover(s, PREPARE(.saver = s->saver, .checkpoint_dir = s->directory)));
    assert_true(number(s, "kept") == 7);
    close_session(s);
    assert_true(recover(s, PREPARE(.saver = s->saver, .checkpoint_prefix = test_path(s->directory, "model.ckpt-1"))));
    close_session(s);
    test_remove_directory(empty);
}

static void sm_006_sm_028s_not_from_both(void **state)
{
    shared *s = *state;
    save_checkpoint(s);
    int before = s->opened;
    assert_false(
        recover(s, PREPARE(.saver = s->saver, .checkpoint_dir = s->directory, .checkpoint_prefix = "model.ckpt-1")));
    assert_null(s->session);
    assert_says(&s->b->err, HS_INVALID_ARGUMENT, "give at most one of the two");
    assert_int_equal(s->opened, before); /* refused before a session is opened */
}

static void sm_008_a_check_for_no_op(void **state)
{
    shared *s = *state;
    s->options.ready_for_local_init_op = "ready_for_local";
    assert_null(hs_session_manager_new(&s->options, &s->b->err));
    assert_says(&s->b->err, HS_INVALID_ARGUMENT,
                "ready_for_local_init_op 'ready_for_local' has no effect without local_init_op");
}

static void sm_009_the_local_init_op_sees_restored_values(void **state)
{
    shared *s = *state;
    save_checkpoint(s);
    s->v = 2; /* as after a restore */
    s->check_w = true;
    s->options.local_init_op = "local_init";
    s->options.ready_for_local_init_op = "ready_for_local";
    assert_true(recover(s, PREPARE(.saver = s->saver, .checkpoint_dir = s->directory)));
    assert_true(number(s, "w_now") == 2);
}

static void sm_011_sm_033s_nothing_restored_and_yet_local_init_is_run(void **state)
{
    shared *s = *state;
    s->v = 1;
    s->options.local_init_op = "local_init";
    assert_false(recover(s, PREPARE(.saver = NULL)));
    assert_non_null(s->session);
    assert_true(s->w == 1);
    assert_int_equal(s->checks, 0);
}

static void sm_033s_not_being_ready_for_it_is_not_an_error(void **state)
{
    shared *s = *state;
    s->options.local_init_op = "local_init";
    s->options.ready_for_local_init_op = "ready_for_local";
    assert_false(recover(s, PREPARE(.saver = NULL)));
    assert_non_null(s->session);
    assert_int_equal(s->local_inits, 0);
    assert_contains(s->b->t.log, "not ready for local_init_op");
}

static void sm_007_waiting_for_an_initialized_model_times_out(void **state)
{
    shared *s = *state;
    int64_t before = s->b->t.now_ns;
    assert_false(wait(s, 3));
    assert_says(&s->b->err, HS_DEADLINE_EXCEEDED, "v");
    assert_int_equal((s->b->t.now_ns - before + 1000000) / 1000000000, 3);
    assert_int_equal(s->opened, 4); /* at 0, 1, 2, 3 */
}

static void sm_031s_each_poll_opens_a_new_session(void **state)
{
    shared *s = *state;
    assert_false(wait(s, 2));
    assert_int_equal(s->opened, 3);
    assert_int_equal(s->closed, 3);
}

/* The chief initializes v after the third poll. */
static void initialize_v(void *user)
{
    shared *s = user;
    if (s->opened == 3)
        s->v = 1;
}

static void sm_013_another_process_initializes(void **state)
{
    shared *s = *state;
    s->on_open = initialize_v;
    s->check_w = true;
    s->options.local_init_op = "local_init";
    s->options.ready_for_local_init_op = "ready_for_local";
    assert_true(wait(s, 3));
    assert_true(number(s, "v_now") == 1);
    assert_true(number(s, "w_now") == 1);
    assert_int_equal(s->local_inits, 1);
}

static void sm_014_a_check_that_never_succeeds(void **state)
{
    shared *s = *state;
    s->v = 1;
    s->check_w = true;
    s->options.local_init_op = "local_init";
    s->options.ready_for_local_init_op = "ready";
    assert_false(wait(s, 3));
    assert_says(&s->b->err, HS_DEADLINE_EXCEEDED, "ready for local_init_op");
    assert_int_equal(s->local_inits, 0);
}

static void sm_015_no_check_and_nothing_initialized(void **state)
{
    shared *s = *state;
    s->options.local_init_op = "local_init";
    assert_false(wait(s, 3));
    assert_says(&s->b->err, HS_DEADLINE_EXCEEDED, "the session did not become ready within 3 s");
}

static void sm_016_several_local_inits(void **state)
{
    shared *s = *state;
    s->check_w = true;
    s->options.local_init_op = "local_init_all";
    s->options.ready_for_local_init_op = "ready_for_local";
    assert_true(prepare(s, PREPARE(.init_op = "init")));
    assert_true(s->v == 1 && s->w == 1 && s->x == 3);
}

static void sm_018_sm_035s_something_is_left_uninitialized(void **state)
{
    shared *s = *state;
    s->check_w = true;
    assert_false(prepare(s, PREPARE(.init_op = "init")));
    assert_int_equal(s->b->err.code, HS_FAILED_PRECONDITION);
    assert_string_equal(s->b->err.message,
                        "after initialization: the model is not ready; 1 variables are not initialized: w");
    assert_int_equal(s->closed, 1);
}

static void sm_019_not_ready_for_the_local_init_op(void **state)
{
    shared *s = *state;
    s->options.local_init_op = "local_init";
    s->options.ready_for_local_init_op = "ready_for_local";
    assert_false(prepare(s, PREPARE(.init_op = "init_x")));
    assert_int_equal(s->b->err.code, HS_FAILED_PRECONDITION);
    assert_string_equal(
        s->b->err.message,
        "after initialization: the model is not ready for local_init_op; 1 variables are not initialized: v");
    assert_int_equal(s->local_inits, 0);
}

/* Returns many names, for which the message has no room, and then one. The second message must not have the first names. */
static hs_code list_many_then_one(void *self, hs_op *op, hs_error *err)
{
    static hs_string names[100];
    int64_t n = ((shared *)self)->checks++ ? 1 : 100;
    for (int i = 0; i < 100; i++)
        names[i] = (hs_string){"layer/weights", 13};
    hs_tensor value = hs_tensor_of(HS_STRING, HS_SHAPE(n), names);
    return hs_op_set_output(op, 0, &value, err);
}

static void names_are_listed_as_far_as_there_is_room(void **state)
{
    shared *s = *state;
    hs_graph_op(s->b->graph, .name = "list", .run = list_many_then_one, .user = s,
                .outputs = HS_OUTPUTS({.dtype = HS_STRING, .shape = HS_SHAPE(-1)}));
    s->options.ready_op = "list";
    assert_false(prepare(s, PREPARE(.init_op = "init")));
    const char *message = s->b->err.message, *end = message + strlen(message);
    assert_contains(message, "; 100 variables are not initialized: layer/weights, layer/weights, ");
    assert_string_equal(end - 15, ", layer/weights");
    assert_true(strlen(message) < HS_MESSAGE_SIZE - 1); /* the list was cut, not the message */
    assert_false(prepare(s, PREPARE(.init_op = "init")));
    assert_string_equal(s->b->err.message,
                        "after initialization: the model is not ready; 1 variables are not initialized: layer/weights");
}

static void sm_020_without_that_check(void **state)
{
    shared *s = *state;
    s->options.local_init_op = "local_init";
    assert_false(prepare(s, PREPARE(.saver = NULL)));
    assert_says(&s->b->err, HS_FAILED_PRECONDITION, "the model is not ready; 1 variables are not initialized: v");
    assert_int_equal(s->local_inits, 1);
}

static void sm_022_a_check_that_fails_is_not_ready(void **state)
{
    shared *s = *state;
    s->options.ready_op = "assert_ready";
    assert_false(wait(s, 3));
    assert_says(&s->b->err, HS_DEADLINE_EXCEEDED, "v is uninitialized");
}

static void sm_029s_what_counts_as_ready(void **state)
{
    shared *s = *state;
    s->options.ready_op = "numbers"; /* not a list of names */
    assert_true(prepare(s, PREPARE(.init_op = "init_x")));
    close_session(s);
    s->options.ready_op = NULL;
    assert_true(prepare(s, PREPARE(.init_op = "init_x")));
    close_session(s);
    s->options.ready_op = "init_x"; /* no value */
    assert_true(prepare(s, PREPARE(.init_op = "init_x")));
    close_session(s);
    s->options.ready_op = "ready";
    s->check_w = true;
    assert_false(prepare(s, PREPARE(.init_op = "init_x")));
    assert_says(&s->b->err, HS_FAILED_PRECONDITION, "v, w");
}

static void initialize_late(void *user)
{
    shared *s = user;
    if (s->opened == 5000)
        s->v = 1;
}

static void sm_032s_waiting_may_have_no_limit(void **state)
{
    shared *s = *state;
    s->on_open = initialize_late;
    assert_true(wait(s, HS_NEVER));
    assert_int_equal(s->opened, 5000);
}

/* The files of the directory are searched instead. */
static void sm_037s_a_state_file_that_says_nothing(void **state)
{
    shared *s = *state;
    save_checkpoint(s);
    s->v = 2;
    test_write_file(test_path(s->directory, "checkpoint"), "", 0);
    assert_true(recover(s, PREPARE(.saver = s->saver, .checkpoint_dir = s->directory)));
    assert_true(number(s, "kept") == 7);
}

static void the_raw_session_of_a_hooked_one_is_not_closed_so(void **state)
{
    shared *s = *state;
    s->v = 1;
    hs_session *session = hs_session_open(backend_of(s), NULL, &s->b->err);
    assert_non_null(session);
    assert_fails(hs_raw_session_close(hs_session_raw(session), &s->b->err), HS_FAILED_PRECONDITION, &s->b->err,
                 "hs_session_close");
    hs_session_close(session, NULL);
}

static void nothing_to_work_with_is_an_error(void **state)
{
    shared *s = *state;
    bool initialized;
    assert_null(hs_session_manager_prepare(NULL, backend_of(s), NULL, &s->b->err));
    assert_int_equal(s->b->err.code, HS_INVALID_ARGUMENT);
    assert_null(hs_session_manager_recover(manager_of(s), (hs_backend){NULL, NULL}, NULL, &initialized, &s->b->err));
    assert_int_equal(s->b->err.code, HS_INVALID_ARGUMENT);
    s->options.recovery_wait_secs = -2;
    assert_null(hs_session_manager_new(&s->options, &s->b->err));
    assert_says(&s->b->err, HS_INVALID_ARGUMENT, "recovery_wait_secs");
    assert_ok(hs_raw_session_close(NULL, &s->b->err), &s->b->err);
    hs_session_manager_free(NULL);
}

static hs_code make_and_wait(test_env *t, void *user)
{
    hs_error err = {0};
    hs_graph *graph = hs_graph_new(&t->env);
    (void)user;
    if (!graph)
        return HS_RESOURCE_EXHAUSTED;
    hs_graph_global_step(graph, NULL, NULL);
    hs_session_manager *manager =
        hs_session_manager_new(HS_SESSION_MANAGER_OPTIONS(.ready_op = "global_step", .env = &t->env), &err);
    hs_raw_session *session =
        manager ? hs_session_manager_wait(manager, hs_graph_backend(graph), HS_PREPARE_OPTIONS(.max_wait_secs = 1), &err)
                : NULL;
    hs_raw_session_close(session, NULL);
    hs_session_manager_free(manager);
    hs_graph_free(graph);
    return session || err.code == HS_DEADLINE_EXCEEDED ? HS_OK : err.code;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    test_each_allocation(make_and_wait, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(sm_001_prepared_by_the_init_op),
        test(sm_002_prepared_with_a_feed),
        test(sm_003_prepared_by_a_function),
        test(an_init_function_cannot_close_the_session),
        test(sm_004_sm_034s_prepared_by_the_local_init_op_with_its_own_feeds),
        test(sm_005_nothing_to_prepare_with),
        test(sm_006_recovered_from_a_directory_or_a_path),
        test(sm_006_sm_028s_not_from_both),
        test(sm_007_waiting_for_an_initialized_model_times_out),
        test(sm_008_a_check_for_no_op),
        test(sm_009_the_local_init_op_sees_restored_values),
        test(sm_011_sm_033s_nothing_restored_and_yet_local_init_is_run),
        test(sm_013_another_process_initializes),
        test(sm_014_a_check_that_never_succeeds),
        test(sm_015_no_check_and_nothing_initialized),
        test(sm_016_several_local_inits),
        test(sm_018_sm_035s_something_is_left_uninitialized),
        test(sm_019_not_ready_for_the_local_init_op),
        test(names_are_listed_as_far_as_there_is_room),
        test(sm_020_without_that_check),
        test(sm_022_a_check_that_fails_is_not_ready),
        test(sm_023s_restored_variables_are_not_initialized),
        test(sm_024s_waiting_ends_in_time),
        test(sm_029s_what_counts_as_ready),
        test(sm_031s_each_poll_opens_a_new_session),
        test(sm_032s_waiting_may_have_no_limit),
        test(sm_033s_not_being_ready_for_it_is_not_an_error),
        test(sm_036s_nowhere_to_restore_from_is_nothing_to_wait_for),
        test(sm_037s_a_state_file_that_says_nothing),
        test(the_raw_session_of_a_hooked_one_is_not_closed_so),
        test(nothing_to_work_with_is_an_error),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
