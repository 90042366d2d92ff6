/* SPDX-License-Identifier: Apache-2.0 */
/* Initial values of the variables of a new session. */
#include "backends/bare.h"

static hs_session *open_with(bare *b, const hs_session_options *options)
{
    hs_session *session = hs_session_open(hs_graph_backend(b->graph), options, &b->err);
    if (!session)
        fail_msg("opening: %s: %s", hs_code_name(b->err.code), b->err.message);
    return session;
}

static hs_scaffold *new_scaffold(const hs_scaffold_options *options)
{
    return hs_scaffold_new(options, NULL);
}

static double number(bare *b, hs_session *session, const char *name)
{
    const hs_run_values *values;
    assert_ok(hs_session_run_args(session, HS_RUN_ARGS(.names = HS_NAMES(name)), &values, &b->err), &b->err);
    return hs_run_values_number(values, 0);
}

static void add_step(bare *b)
{
    bare_op(b, .name = "inc", .advances_step = true);
}

static void ms_054_ms_087_variables_are_initialized_by_themselves(void **state)
{
    bare *b = *state;
    const double seven = 7;
    hs_variable_def def =
        HS_INIT(hs_variable_def, .name = "v", .dtype = HS_DOUBLE, .initial = &seven, .flags = HS_VARIABLE_LOCAL);
    hs_graph_add_variable(b->graph, &def);
    add_step(b);
    hs_session *session = open_with(b, NULL);
    assert_true(number(b, session, "global_step") == 0);
    assert_true(number(b, session, "v") == 7);
    hs_session_close(session, NULL);
}

/* Returns no names: all variables are ready. */
static hs_code ready(void *self, hs_op *op, hs_error *err)
{
    hs_tensor none = hs_tensor_of(HS_STRING, HS_SHAPE(0), NULL);
    bare_traced(self, op, err);
    return hs_op_set_output(op, 0, &none, err);
}

static hs_code traced_init_fn(void *user, const hs_scaffold *scaffold, hs_raw_session *session, hs_error *err)
{
    bare *b = user;
    (void)err;
    assert_string_equal(hs_scaffold_fields(scaffold)->init_op, "my_init");
    assert_non_null(hs_raw_session_handle(session));
    strcat(b->trace, " init_fn");
    return HS_OK;
}

/* Adds ops that record the order of the start, and returns their scaffold. */
static hs_scaffold *traced_start(bare *b, const hs_feed *feeds)
{
    hs_graph_placeholder(b->graph, "seed", HS_DOUBLE, HS_SCALAR);
    bare_op(b, .name = "my_init", .inputs = HS_NAMES("seed"));
    bare_op(b, .name = "my_local", .inputs = HS_NAMES("seed"));
    for (const char *const *name = HS_NAMES("my_ready", "my_ready_for_local"); *name; name++)
        hs_graph_op(b->graph, .name = *name, .run = ready, .user = b,
                    .outputs = HS_OUTPUTS({.dtype = HS_STRING, .shape = HS_SHAPE(-1)}));
    return new_scaffold(HS_SCAFFOLD_OPTIONS(.init_op = "my_init", .init_feeds = feeds, .init_fn = traced_init_fn, .user = b,
                                            .ready_op = "my_ready", .ready_for_local_init_op = "my_ready_for_local",
                                            .local_init_op = "my_local", .local_init_feeds = feeds));
}

static void ms_134s_the_order_of_a_fresh_start(void **state)
{
    bare *b = *state;
    const double one = 1;
    const hs_feed feeds[] = {{"seed", hs_tensor_of(HS_DOUBLE, HS_SCALAR, &one)}, {NULL}};
    hs_session_options options = HS_INIT(hs_session_options, .scaffold = traced_start(b, feeds), .take_scaffold = true);
    hs_session *session = open_with(b, &options);
    assert_string_equal(b->trace, "my_init init_fn my_ready_for_local my_local my_ready");
    hs_session_close(session, NULL);
}

/* Saves a checkpoint of the session in `directory`. */
static void save(bare *b, hs_session *session, const char *directory)
{
    hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.env = &b->t.env), NULL);
    assert_ok(hs_saver_save(saver, hs_session_raw(session), test_path(directory, "model.ckpt"),
                            hs_session_global_step(session, NULL), NULL, &b->err),
              &b->err);
    hs_saver_free(saver);
}

static void ms_134s_the_order_of_a_restored_start(void **state)
{
    bare *b = *state;
    const double one = 1;
    const hs_feed feeds[] = {{"seed", hs_tensor_of(HS_DOUBLE, HS_SCALAR, &one)}, {NULL}};
    char *directory = test_make_directory();
    double v = 1;
    hs_graph_variable(b->graph, "v", HS_DOUBLE, HS_SCALAR, &v);
    add_step(b);
    hs_session *session = open_with(b, NULL);
    save(b, session, directory);
    hs_session_close(session, NULL);
    hs_session_options options =
        HS_INIT(hs_session_options, .scaffold = traced_start(b, feeds), .take_scaffold = true, .checkpoint_dir = directory);
    session = open_with(b, &options);
    assert_string_equal(b->trace, "my_ready_for_local my_local my_ready");
    assert_contains(hs_raw_session_restored_from(hs_session_raw(session)), "model.ckpt-0");
    assert_contains(b->t.log, "restored");
    hs_session_close(session, NULL);
    test_remove_directory(directory);
}

/* The init function gets the session's scaffold, and the `user` of the scaffold that this one was copied from. */
static hs_code keep_scaffold(void *user, const hs_scaffold *scaffold, hs_raw_session *session, hs_error *err)
{
    (void)session, (void)err;
    *(const hs_scaffold **)user = scaffold;
    return HS_OK;
}

static void ms_133s_the_init_function_gets_the_sessions_scaffold(void **state)
{
    bare *b = *state;
    const hs_scaffold *seen = NULL;
    hs_scaffold *from = new_scaffold(HS_SCAFFOLD_OPTIONS(.init_fn = keep_scaffold, .user = &seen));
    hs_scaffold *copy = new_scaffold(HS_SCAFFOLD_OPTIONS(.copy_from = from));
    hs_session_options options = HS_INIT(hs_session_options, .scaffold = copy);
    hs_session *session = open_with(b, &options);
    assert_ptr_equal(seen, copy);
    hs_session_close(session, NULL);
    hs_scaffold_free(from);
    hs_scaffold_free(copy);
}

static hs_code refuse(void *user, const hs_scaffold *scaffold, hs_raw_session *session, hs_error *err)
{
    (void)scaffold, (void)session;
    return user ? hs_error_set(err, HS_NOT_FOUND, "%s", (const char *)user) : HS_NOT_FOUND;
}

static void a_failing_init_function_fails_the_opening(void **state)
{
    bare *b = *state;
    char why[] = "no seed";
    for (int with_message = 0; with_message < 2; with_message++) {
        hs_scaffold_options made = HS_INIT(hs_scaffold_options, .init_fn = refuse, .user = with_message ? why : NULL);
        hs_session_options options = HS_INIT(hs_session_options, .scaffold = new_scaffold(&made), .take_scaffold = true);
        assert_null(hs_session_open(hs_graph_backend(b->graph), &options, &b->err));
        assert_says(&b->err, HS_NOT_FOUND, with_message ? "init_fn: no seed" : "it failed with NOT_FOUND");
    }
}

static void a_failing_init_op_is_named(void **state)
{
    bare *b = *state;
    hs_graph_op(b->graph, .name = "bad", .run = bare_fail);
    hs_graph_collect(b->graph, HS_INIT_OP, "bad");
    assert_null(hs_session_open(hs_graph_backend(b->graph), NULL, &b->err));
    assert_says(&b->err, HS_ABORTED, "cannot run 'bad': op 'bad': no luck");
    hs_graph_collect(b->graph, HS_LOCAL_INIT_OP, "lost");
    assert_null(hs_session_open(hs_graph_backend(b->graph), NULL, &b->err));
}

static void an_init_op_that_is_not_there_is_named(void **state)
{
    bare *b = *state;
    hs_graph_collect(b->graph, HS_READY_OP, "lost");
    assert_null(hs_session_open(hs_graph_backend(b->graph), NULL, &b->err));
    assert_says(&b->err, HS_NOT_FOUND, "cannot run 'lost'");
}

static void variables_that_are_not_ready_are_named(void **state)
{
    bare *b = *state;
    for (const char *const *name = HS_NAMES("w", "v"); *name; name++)
        hs_graph_add_variable(b->graph, HS_VARIABLE_DEF(.name = *name, .dtype = HS_DOUBLE));
    bare_op(b, .name = "nothing");
    hs_graph_op(b->graph, .name = "some", .run = bare_bump, .writes = HS_NAMES("v"));
    hs_graph_collect(b->graph, HS_INIT_OP, "nothing");
    assert_null(hs_session_open(hs_graph_backend(b->graph), NULL, &b->err));
    assert_says(&b->err, HS_FAILED_PRECONDITION, "not ready for local_init_op; 2 variables are not initialized: w, v");
    hs_scaffold_options made = HS_INIT(hs_scaffold_options, .init_op = "some");
    hs_session_options options = HS_INIT(hs_session_options, .scaffold = new_scaffold(&made), .take_scaffold = true);
    assert_null(hs_session_open(hs_graph_backend(b->graph), &options, &b->err));
    assert_says(&b->err, HS_FAILED_PRECONDITION, "1 variables are not initialized: w");
}

static void local_variables_are_named_by_the_last_check(void **state)
{
    bare *b = *state;
    hs_variable_def def = HS_INIT(hs_variable_def, .name = "seen", .dtype = HS_DOUBLE, .flags = HS_VARIABLE_LOCAL);
    hs_graph_add_variable(b->graph, &def);
    bare_op(b, .name = "nothing");
    hs_graph_collect(b->graph, HS_LOCAL_INIT_OP, "nothing");
    assert_null(hs_session_open(hs_graph_backend(b->graph), NULL, &b->err));
    assert_says(&b->err, HS_FAILED_PRECONDITION, "the model is not ready; 1 variables are not initialized: seen");
}

/* A long list is cut, but the message has its length. */
static void many_variables_that_are_not_ready_are_counted(void **state)
{
    bare *b = *state;
    char name[64];
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "a_variable_with_a_rather_long_name_%d", i);
        hs_graph_add_variable(b->graph, HS_VARIABLE_DEF(.name = name, .dtype = HS_DOUBLE));
    }
    bare_op(b, .name = "nothing");
    hs_graph_collect(b->graph, HS_INIT_OP, "nothing");
    assert_null(hs_session_open(hs_graph_backend(b->graph), NULL, &b->err));
    assert_says(&b->err, HS_FAILED_PRECONDITION,
                "100 variables are not initialized: a_variable_with_a_rather_long_name_0, ");
}

/* Restoring. */

static hs_code restore_latest(void *user, const hs_scaffold *scaffold, hs_raw_session *session, hs_error *err)
{
    char *path = hs_checkpoint_latest(NULL, user, NULL, err);
    hs_code code = hs_saver_restore(hs_scaffold_fields(scaffold)->saver, session, path, NULL, err);
    hs_env_free(NULL, path);
    return code;
}

/* Runs "inc" until the session should stop. Returns the number of runs. */
static int run_out(bare *b, hs_session *session)
{
    int n = 0;
    for (; !hs_session_should_stop(session); n++)
        assert_ok(hs_session_run(session, "inc", &b->err), &b->err);
    return n;
}

static void ms_055_training_stops_at_its_last_step_and_resumes_there(void **state)
{
    bare *b = *state;
    char *directory = test_make_directory();
    add_step(b);
    hs_hook stop = hs_stop_at_step(.last_step = 3);
    hs_session *session = open_with(b, HS_SESSION_OPTIONS(.hooks = HS_HOOKS(stop)));
    assert_true(number(b, session, "global_step") == 0);
    assert_int_equal(run_out(b, session), 3);
    assert_int_equal(hs_session_global_step(session, NULL), 3);
    save(b, session, directory); /* through the raw session, after the stop */
    hs_session_close(session, NULL);

    stop = hs_stop_at_step(.last_step = 5);
    hs_scaffold_options made = HS_INIT(hs_scaffold_options, .init_fn = restore_latest, .user = directory);
    session =
        open_with(b, HS_SESSION_OPTIONS(.hooks = HS_HOOKS(stop), .scaffold = new_scaffold(&made), .take_scaffold = true));
    assert_int_equal(hs_session_global_step(session, NULL), 3);
    assert_int_equal(run_out(b, session), 2);
    assert_int_equal(hs_session_close(session, NULL).step, 5);
    test_remove_directory(directory);
}

static void a_given_checkpoint_must_exist(void **state)
{
    bare *b = *state;
    char *directory = test_make_directory();
    add_step(b);
    hs_session_options options = HS_INIT(hs_session_options, .checkpoint_prefix = test_path(directory, "model.ckpt-3"));
    assert_null(hs_session_open(hs_graph_backend(b->graph), &options, &b->err));
    assert_says(&b->err, HS_NOT_FOUND, "model.ckpt-3");
    options = *HS_SESSION_OPTIONS(.checkpoint_dir = directory); /* a checkpoint in a directory need not exist */
    hs_session *session = open_with(b, &options);
    assert_null(hs_raw_session_restored_from(hs_session_raw(session)));
    hs_session_close(session, NULL);
    test_remove_directory(directory);
}

static void a_given_checkpoint_is_restored(void **state)
{
    bare *b = *state;
    char *directory = test_make_directory();
    add_step(b);
    hs_session *session = open_with(b, NULL);
    assert_ok(hs_session_run(session, "inc", &b->err), &b->err);
    save(b, session, directory);
    hs_session_close(session, NULL);
    hs_session_options options =
        HS_INIT(hs_session_options, .checkpoint_prefix = test_path(directory, "model.ckpt-1"), .checkpoint_dir = "");
    session = open_with(b, &options);
    assert_int_equal(hs_session_global_step(session, NULL), 1);
    assert_int_equal(hs_session_close(session, NULL).last_saved_step, 1);
    test_remove_directory(directory);
}

#define test(name) cmocka_unit_test_setup_teardown(name, bare_setup, bare_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(ms_054_ms_087_variables_are_initialized_by_themselves),
        test(ms_134s_the_order_of_a_fresh_start),
        test(ms_134s_the_order_of_a_restored_start),
        test(ms_133s_the_init_function_gets_the_sessions_scaffold),
        test(a_failing_init_function_fails_the_opening),
        test(a_failing_init_op_is_named),
        test(an_init_op_that_is_not_there_is_named),
        test(variables_that_are_not_ready_are_named),
        test(local_variables_are_named_by_the_last_check),
        test(many_variables_that_are_not_ready_are_counted),
        test(ms_055_training_stops_at_its_last_step_and_resumes_there),
        test(a_given_checkpoint_must_exist),
        test(a_given_checkpoint_is_restored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
