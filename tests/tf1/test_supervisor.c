/* SPDX-License-Identifier: Apache-2.0 */
/* Creating a supervisor: defaults from the graph, initialization, refused options. */
#include "tf1/supervised.h"

#include <math.h>

static void sv_054s_making_it_finalizes_the_graph(void **state)
{
    supervised *f = *state;
    float late;
    supervise(f, OPTIONS(0));
    assert_true(hs_backend_finalized(hs_graph_backend(f->graph)));
    assert_int_equal(hs_graph_variable(f->graph, "late", HS_FLOAT, HS_SCALAR, &late), HS_FAILED_PRECONDITION);
    assert_non_null(hs_supervisor_init_op(f->sv));
    assert_non_null(hs_supervisor_ready_op(f->sv));
    assert_non_null(hs_supervisor_local_init_op(f->sv));
    hs_supervisor_free(f->sv);
    f->sv = NULL;
    assert_false(hs_backend_finalized(hs_graph_backend(f->graph)));
}

static void sv_048s_defaults(void **state)
{
    supervised *f = *state;
    supervise(f, OPTIONS(0));
    assert_null(hs_supervisor_ready_for_local_init_op(f->sv));
    assert_null(hs_supervisor_saver(f->sv));
    assert_null(hs_supervisor_global_step(f->sv));
    assert_null(hs_supervisor_summary_op(f->sv));
    assert_null(hs_supervisor_save_path(f->sv));
    assert_null(hs_supervisor_summary_writer(f->sv));
    assert_non_null(hs_supervisor_session_manager(f->sv));
    assert_non_null(hs_supervisor_coordinator(f->sv));
    assert_true(hs_supervisor_is_chief(f->sv));
    assert_true(hs_supervisor_save_summaries_secs(f->sv) == 120);
    assert_true(hs_supervisor_save_model_secs(f->sv) == 600);
}

static void names_may_be_none_and_intervals_never(void **state)
{
    supervised *f = *state;
    add_step(f, 0);
    supervise(f, OPTIONS(.ready_op = HS_NONE, .init_op = HS_NONE, .local_init_op = HS_NONE, .summary_op = HS_NONE,
                         .global_step = HS_NONE, .save_summaries_secs = HS_NEVER, .save_model_secs = HS_NEVER,
                         .no_saver = true));
    assert_null(hs_supervisor_ready_op(f->sv));
    assert_null(hs_supervisor_init_op(f->sv));
    assert_null(hs_supervisor_local_init_op(f->sv));
    assert_null(hs_supervisor_summary_op(f->sv));
    assert_null(hs_supervisor_global_step(f->sv));
    assert_null(hs_supervisor_saver(f->sv));
    assert_true(hs_supervisor_save_summaries_secs(f->sv) == 0);
    assert_true(hs_supervisor_save_model_secs(f->sv) == 0);
}

static void a_null_supervisor_has_nothing(void **state)
{
    (void)state;
    hs_error err;
    hs_supervisor_free(NULL);
    assert_false(hs_supervisor_is_chief(NULL));
    assert_null(hs_supervisor_save_path(NULL));
    assert_null(hs_supervisor_saver(NULL));
    assert_null(hs_supervisor_service(NULL, 0));
    assert_true(hs_supervisor_should_stop(NULL));
    assert_null(hs_supervisor_managed_session(NULL, NULL, &err));
    assert_says(&err, HS_INVALID_ARGUMENT, "supervisor is NULL");
    assert_int_equal(hs_supervisor_leave(NULL, NULL, HS_OK, NULL, &err), HS_INVALID_ARGUMENT);
    assert_int_equal(hs_supervisor_stop(NULL, NULL, NULL), HS_INVALID_ARGUMENT);
    assert_int_equal(hs_supervisor_save(NULL, NULL, NULL), HS_INVALID_ARGUMENT);
    assert_null(hs_supervisor_loop(NULL, 1, NULL, NULL, &err));
    assert_int_equal(err.code, HS_INVALID_ARGUMENT);
    hs_threads threads = {0};
    assert_int_equal(hs_supervisor_start_queue_runners(NULL, NULL, &threads, NULL), HS_INVALID_ARGUMENT);
    assert_null(threads.items);
    assert_int_equal(hs_supervisor_start_standard_services(NULL, NULL, NULL), HS_INVALID_ARGUMENT);
    hs_supervisor_lock(NULL);
    hs_supervisor_unlock(NULL);
    assert_int_equal(hs_supervisor_run(NULL, NULL, NULL, NULL, NULL), HS_INVALID_ARGUMENT);
    assert_int_equal(hs_basic_train_loop(NULL, NULL, NULL, NULL, NULL), HS_INVALID_ARGUMENT);
}

static void sv_047s_the_first_of_several_savers_is_taken(void **state)
{
    supervised *f = *state;
    const hs_backend backend = hs_graph_backend(f->graph);
    hs_saver *savers[] = {hs_saver_new(NULL, NULL), hs_saver_new(NULL, NULL)};
    for (int i = 0; i < 2; i++)
        assert_ok(backend.ops->add_to_collection(backend.self, HS_SAVERS, savers[i], NULL, &f->err), &f->err);
    add_v(f, HS_VARIABLE_LOCAL);
    const hs_supervisor_options all[] = {OPTIONS(0), OPTIONS(.no_saver = true), OPTIONS(.is_worker = true)};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        supervise(f, all[i]);
        prepare(f, NULL);
        finish(f);
    }
    hs_supervisor_free(f->sv);
    f->sv = NULL;
    for (int i = 0; i < 2; i++)
        hs_saver_free(savers[i]);
}

static void without_a_saver_the_graph_gets_none(void **state)
{
    supervised *f = *state;
    add_v(f, 0);
    supervise(f, OPTIONS(.no_saver = true));
    prepare(f, NULL);
    assert_null(hs_supervisor_saver(f->sv));
    assert_int_equal(test_collection_size(hs_graph_backend(f->graph), HS_SAVERS), 0);
    finish(f);
}

static void sv_047s_the_first_of_a_collection_is_taken(void **state)
{
    supervised *f = *state;
    hs_graph_op(f->graph, .name = "one");
    hs_graph_op(f->graph, .name = "other");
    hs_graph_collect(f->graph, HS_INIT_OP, "one");
    hs_graph_collect(f->graph, HS_INIT_OP, "other");
    supervise(f, OPTIONS(0));
    assert_string_equal(hs_supervisor_init_op(f->sv), "one");
    assert_contains(f->t.log, "INFO: the graph's collection 'init_op' has 2 items; the first is used");
}

static void sv_027_the_variable_named_global_step_is_it(void **state)
{
    supervised *f = *state;
    add_step(f, 287);
    supervise(f, OPTIONS(0));
    prepare(f, NULL);
    assert_string_equal(hs_supervisor_global_step(f->sv), "global_step");
    assert_true(number(f, hs_supervisor_global_step(f->sv)) == 287);
}

static void steps_that_are_not_integers(void **state)
{
    supervised *f = *state;
    add_v(f, 0);
    refuses(f, OPTIONS(.global_step = "v"), "global step 'v' has 3 elements of type float");
    refuses(f, OPTIONS(.global_step = "v:0"), "name a variable with one element of int32 or int64");
    hs_graph_add_variable(f->graph, HS_VARIABLE_DEF(.name = "own", .dtype = HS_INT32));
    supervise(f, OPTIONS(.global_step = "own"));
    assert_string_equal(hs_supervisor_global_step(f->sv), "own");
}

static void sv_045s_a_worker_has_nothing_of_the_chiefs(void **state)
{
    supervised *f = *state;
    hs_summary_writer *mine = hs_summary_writer_open(f->directory, NULL, &f->err);
    supervise(f, OPTIONS(.is_worker = true, .checkpoint_dir = f->directory, .save_model_secs = 1, .save_summaries_secs = 2,
                         .summary_writer = mine));
    assert_false(hs_supervisor_is_chief(f->sv));
    assert_null(hs_supervisor_save_path(f->sv));
    assert_null(hs_supervisor_summary_writer(f->sv));
    assert_true(hs_supervisor_save_model_secs(f->sv) == 0);
    assert_true(hs_supervisor_save_summaries_secs(f->sv) == 0);
    hs_summary_writer_close(mine, NULL);
}

/* Initializing. */

static void sv_018_the_default_init_op(void **state)
{
    supervised *f = *state;
    add_v(f, 0);
    supervise(f, OPTIONS(.checkpoint_dir = f->directory));
    prepare(f, NULL);
    assert_true(v_is_123(f));
}

static hs_code write_123(void *self, hs_op *op, hs_error *err)
{
    (void)self, (void)err;
    memcpy(hs_op_written(op, 0)->data, hs_op_input(op, 0)->data, 3 * sizeof(float));
    return HS_OK;
}

/* Adds an op "fill" that sets a variable to the fed value. */
static void add_fill(supervised *f)
{
    hs_graph_add_variable(f->graph, HS_VARIABLE_DEF(.name = "v", .dtype = HS_FLOAT, .shape = HS_SHAPE(3)));
    hs_graph_placeholder(f->graph, "given", HS_FLOAT, HS_SHAPE(3));
    hs_graph_op(f->graph, .name = "fill", .run = write_123, .inputs = HS_NAMES("given"), .writes = HS_NAMES("v"));
}

static float one_two_three[3] = {1, 2, 3};

static hs_code init_by_hand(void *user, const hs_scaffold *scaffold, hs_raw_session *session, hs_error *err)
{
    supervised *f = user;
    hs_tensor value = hs_tensor_of(HS_FLOAT, HS_SHAPE(3), one_two_three);
    assert_null(scaffold);
    f->runs++;
    return hs_raw_session_run(session, HS_RUN_ARGS(.names = HS_NAMES("fill"), .feeds = HS_FEEDS({"given", value})), NULL,
                              err);
}

static void sv_019_an_init_function(void **state)
{
    supervised *f = *state;
    add_fill(f);
    supervise(f, OPTIONS(.init_op = HS_NONE, .init_fn = init_by_hand, .user = f));
    prepare(f, NULL);
    assert_true(v_is_123(f));
    assert_int_equal(f->runs, 1);
}

static void sv_020_an_init_op_with_a_feed(void **state)
{
    supervised *f = *state;
    const hs_feed feeds[] = {{"given", hs_tensor_of(HS_FLOAT, HS_SHAPE(3), one_two_three)}, {NULL}};
    add_fill(f);
    supervise(f, OPTIONS(.init_op = "fill", .init_feeds = feeds));
    prepare(f, NULL);
    assert_true(v_is_123(f));
}

static hs_code fill_table(void *self, const hs_tensor *value, hs_error *err)
{
    (void)self, (void)err;
    *(double *)value->data = 7;
    return HS_OK;
}

static void sv_023_the_default_local_init_op(void **state)
{
    supervised *f = *state;
    add_v(f, HS_VARIABLE_LOCAL);
    hs_graph_add_variable(f->graph, HS_VARIABLE_DEF(.name = "table", .dtype = HS_DOUBLE, .initialize = fill_table,
                                                    .flags = HS_VARIABLE_LOCAL));
    supervise(f, OPTIONS(.init_op = HS_NONE));
    assert_null(hs_supervisor_saver(f->sv));
    prepare(f, NULL);
    assert_true(v_is_123(f));
    assert_true(number(f, "table") == 7);
}

static void sv_024_a_worker_runs_the_local_init_op(void **state)
{
    supervised *f = *state;
    add_v(f, HS_VARIABLE_LOCAL);
    supervise(f, OPTIONS(.init_op = HS_NONE, .is_worker = true));
    prepare(f, NULL);
    assert_true(v_is_123(f));
}

static hs_code write_nothing(void *self, hs_op *op, hs_error *err)
{
    (void)self, (void)op, (void)err;
    return HS_OK;
}

/* Adds two variables, and an op that initializes one of them. */
static void add_half(supervised *f, uint64_t flags)
{
    add_v(f, flags);
    hs_graph_add_variable(f->graph, HS_VARIABLE_DEF(.name = "w", .dtype = HS_FLOAT, .flags = flags));
    hs_graph_op(f->graph, .name = "half", .run = write_nothing, .writes = HS_NAMES("v"));
}

static void lacks_w(supervised *f, hs_supervisor_options options)
{
    supervise(f, options);
    assert_null(hs_supervisor_prepare_or_wait_for_session(f->sv, NULL, &f->err));
    assert_says(&f->err, HS_FAILED_PRECONDITION, "1 variables are not initialized: w");
}

static void sv_025_an_init_op_that_leaves_one_out(void **state)
{
    supervised *f = *state;
    add_half(f, 0);
    lacks_w(f, OPTIONS(.init_op = "half"));
}

static void sv_026_a_local_init_op_that_leaves_one_out(void **state)
{
    supervised *f = *state;
    add_half(f, HS_VARIABLE_LOCAL);
    lacks_w(f, OPTIONS(.local_init_op = "half"));
}

/* Numbers in the process, which two sessions share as on a server. */

static hs_code set_v(void *self, hs_op *op, hs_error *err)
{
    (void)op, (void)err;
    ((supervised *)self)->v = 1;
    return HS_OK;
}

static hs_code add_to_v(void *self, hs_op *op, hs_error *err)
{
    (void)op, (void)err;
    ((supervised *)self)->v++;
    return HS_OK;
}

static hs_code copy_v(void *self, hs_op *op, hs_error *err)
{
    supervised *f = self;
    (void)op, (void)err;
    f->w = f->v;
    return HS_OK;
}

static hs_code check_v(void *self, hs_op *op, hs_error *err)
{
    static hs_string name = {"v", 1};
    hs_tensor value = hs_tensor_of(HS_STRING, HS_SHAPE(isnan(((supervised *)self)->v)), &name);
    return hs_op_set_output(op, 0, &value, err);
}

static void add_shared(supervised *f)
{
    f->v = f->w = (double)NAN;
    hs_graph_value(f->graph, "v", HS_DOUBLE, HS_SCALAR, &f->v);
    hs_graph_value(f->graph, "w", HS_DOUBLE, HS_SCALAR, &f->w);
    hs_graph_op(f->graph, .name = "init", .run = set_v, .user = f);
    hs_graph_op(f->graph, .name = "local", .run = copy_v, .user = f);
    hs_graph_op(f->graph, .name = "add", .run = add_to_v, .user = f);
    hs_graph_op(f->graph, .name = "check", .run = check_v, .user = f,
                .outputs = HS_OUTPUTS({.dtype = HS_STRING, .shape = HS_SHAPE(-1)}));
}

static void sv_021_a_chief_and_a_worker_share_a_model(void **state)
{
    supervised *f = *state;
    add_shared(f);
    hs_supervisor_options options =
        OPTIONS(.init_op = "init", .local_init_op = "local", .ready_for_local_init_op = "check");
    supervise(f, options);
    prepare(f, NULL);
    options.is_worker = true;
    options.init_op = NULL;
    hs_supervisor *worker = hs_supervisor_new(hs_graph_backend(f->graph), &options, &f->err);
    assert_non_null(worker);
    hs_session *second = hs_supervisor_prepare_or_wait_for_session(worker, NULL, &f->err);
    assert_non_null(second);
    assert_true(number(f, "w") == 1);
    assert_ok(hs_supervisor_run(f->sv, second, HS_RUN_ARGS(.names = HS_NAMES("add")), NULL, &f->err), &f->err);
    assert_true(number(f, "w") == 1);
    assert_true(number(f, "v") == 2);
    assert_ok(hs_supervisor_leave(worker, second, HS_OK, NULL, &f->err), &f->err);
    hs_supervisor_free(worker);
}

static void a_worker_gives_up_in_the_end(void **state)
{
    supervised *f = *state;
    add_shared(f);
    supervise(f, OPTIONS(.is_worker = true, .ready_op = "check", .recovery_wait_secs = 0.001));
    assert_null(hs_supervisor_prepare_or_wait_for_session(f->sv, SUPERVISED(.max_wait_secs = 0.002), &f->err));
    assert_says(&f->err, HS_DEADLINE_EXCEEDED, "not ready");
}

/* A backend that places variables, as TensorFlow's does. */
static const char *the_device;
static bool (*inner_variable)(void *self, size_t index, hs_variable *out);

static bool placed_variable(void *self, size_t index, hs_variable *out)
{
    bool is_there = inner_variable(self, index, out);
    out->device = the_device;
    return is_there;
}

static hs_code wait_on_device(supervised *f, const char *device)
{
    hs_backend backend = hs_graph_backend(f->graph);
    hs_backend_ops ops = *backend.ops;
    inner_variable = ops.variable;
    ops.variable = placed_variable;
    backend.ops = &ops;
    the_device = device;
    hs_supervisor *worker =
        hs_supervisor_new(backend, &OPTIONS(.is_worker = true, .ready_op = "check", .recovery_wait_secs = 0.001), &f->err);
    assert_non_null(worker);
    assert_null(hs_supervisor_prepare_or_wait_for_session(worker, SUPERVISED(.max_wait_secs = 0.002), &f->err));
    hs_supervisor_free(worker);
    return f->err.code;
}

static void a_workers_variables_must_be_placed_on_a_shared_device(void **state)
{
    supervised *f = *state;
    static double u;
    add_shared(f);
    hs_graph_variable(f->graph, "u", HS_DOUBLE, HS_SCALAR, &u);
    assert_int_equal(wait_on_device(f, "/job:ps/task:0"), HS_DEADLINE_EXCEEDED);
    assert_int_equal(wait_on_device(f, ""), HS_INVALID_ARGUMENT);
    assert_contains(f->err.message, "is not placed on a device, so a worker cannot share it with the chief");
}

static void sv_017_a_session_manager_of_the_programs(void **state)
{
    supervised *f = *state;
    add_v(f, 0);
    hs_session_manager *mine = hs_session_manager_new(NULL, &f->err);
    supervise(f, OPTIONS(.session_manager = mine));
    assert_ptr_equal(hs_supervisor_session_manager(f->sv), mine);
    prepare(f, NULL);
    finish(f);
    hs_supervisor_free(f->sv);
    f->sv = NULL;
    hs_session_manager_free(mine);
}

/* Contradictory options. */

static void options_that_contradict_each_other(void **state)
{
    supervised *f = *state;
    hs_saver *saver = hs_saver_new(NULL, &f->err);
    hs_summary_writer *writer = hs_summary_writer_open(f->directory, NULL, &f->err);
    refuses(f, OPTIONS(.is_worker = true, .init_fn = init_by_hand), "is_worker excludes init_fn");
    refuses(f, OPTIONS(.save_model_secs = 60), "save_model_secs is set, but checkpoint_dir is missing");
    refuses(f, OPTIONS(.checkpoint_dir = HS_NONE, .save_summaries_secs = 60),
            "save_summaries_secs is set, but checkpoint_dir is missing");
    refuses(f, OPTIONS(.checkpoint_dir = "x", .no_saver = true, .save_model_secs = 60),
            "both save_model_secs and no_saver are set");
    refuses(f, OPTIONS(.checkpoint_dir = "x", .no_summary_writer = true, .save_summaries_secs = 60),
            "both save_summaries_secs and no_summary_writer are set");
    refuses(f, OPTIONS(.no_saver = true, .saver = saver), "are set; set at most one of the two");
    refuses(f, OPTIONS(.no_summary_writer = true, .summary_writer = writer), "are set; set at most one of the two");
    refuses(f, OPTIONS(.init_op = HS_NONE, .init_feeds = HS_FEEDS({"x", {0}})), "init_op is HS_NONE");
    refuses(f, OPTIONS(.local_init_op = HS_NONE, .ready_for_local_init_op = "x"), "has no effect without local_init_op");
    hs_saver_free(saver);
    hs_summary_writer_close(writer, NULL);
}

static void invalid_options_are_refused(void **state)
{
    supervised *f = *state;
    refuses(f, OPTIONS(.save_model_secs = -2), "save_model_secs must be finite and at least 0, or HS_NEVER for none");
    refuses(f, OPTIONS(.save_model_secs = (double)INFINITY),
            "save_model_secs must be finite and at least 0, or HS_NEVER for none");
    refuses(f, OPTIONS(.save_summaries_secs = (double)NAN),
            "save_summaries_secs must be finite and at least 0, or HS_NEVER for none");
    refuses(f, OPTIONS(.stop_grace_secs = -2), "stop_grace_secs must be at least 0, or HS_NEVER for no limit");
    refuses(f, OPTIONS(.recovery_wait_secs = -2), "recovery_wait_secs is -2");
    refuses(f, OPTIONS(.checkpoint_dir = "x", .checkpoint_basename = "a/b"), "put directories into checkpoint_dir");
    refuses(f, (hs_supervisor_options){.checkpoint_dir = "x"}, "HS_INIT(hs_supervisor_options");
    assert_null(hs_supervisor_new(hs_graph_backend(f->graph), &OPTIONS(.global_step = "nothing"), &f->err));
    assert_says(&f->err, HS_NOT_FOUND, "'nothing'");
    assert_null(hs_supervisor_new((hs_backend){NULL, NULL}, NULL, &f->err));
    assert_int_equal(f->err.code, HS_INVALID_ARGUMENT);
}

static void a_graph_that_was_built_wrong(void **state)
{
    supervised *f = *state;
    hs_graph_op(f->graph, .name = "twice");
    hs_graph_op(f->graph, .name = "twice");
    assert_null(hs_supervisor_new(hs_graph_backend(f->graph), NULL, &f->err));
    assert_int_not_equal(f->err.code, HS_OK);
    assert_contains(f->err.message, "twice");
}

static void waiting_for_a_checkpoint_needs_a_place(void **state)
{
    supervised *f = *state;
    supervise(f, OPTIONS(0));
    assert_null(hs_supervisor_managed_session(f->sv, SUPERVISED(.wait_for_checkpoint = true), &f->err));
    assert_says(&f->err, HS_INVALID_ARGUMENT, "has no checkpoint_dir");
    assert_null(hs_supervisor_managed_session(f->sv, &(hs_supervisor_session_options){.target = "x"}, &f->err));
    assert_says(&f->err, HS_INVALID_ARGUMENT, "HS_INIT(hs_supervisor_session_options");
}

static hs_code one_life(test_env *t, void *user)
{
    hs_error err = {0};
    hs_graph *graph = hs_graph_new(&t->env);
    hs_supervisor *sv = NULL;
    test_tolerate_harmless(t);                     /* the copy grows instead; searching for leftovers */
    test_tolerate(t, "': no memory for its path"); /* old data */
    test_empty_directory(user);
    if (!graph)
        return HS_RESOURCE_EXHAUSTED;
    hs_graph_global_step(graph, NULL, NULL);
    hs_supervisor_options options =
        OPTIONS(.checkpoint_dir = user, .save_model_secs = HS_NEVER, .save_summaries_secs = HS_NEVER);
    sv = hs_supervisor_new(hs_graph_backend(graph), &options, &err);
    if (sv) {
        hs_session *session = hs_supervisor_managed_session(sv, NULL, &err);
        if (session)
            hs_supervisor_save(sv, session, &err);
        hs_supervisor_leave(sv, session, err.code, NULL, &err);
    }
    hs_supervisor_free(sv);
    hs_graph_free(graph);
    return err.code;
}

static void each_allocation_may_fail(void **state)
{
    supervised *f = *state;
    test_each_allocation(one_life, f->directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        supervised_test(sv_054s_making_it_finalizes_the_graph),
        supervised_test(sv_048s_defaults),
        supervised_test(names_may_be_none_and_intervals_never),
        supervised_test(a_null_supervisor_has_nothing),
        supervised_test(sv_047s_the_first_of_several_savers_is_taken),
        supervised_test(without_a_saver_the_graph_gets_none),
        supervised_test(sv_047s_the_first_of_a_collection_is_taken),
        supervised_test(sv_027_the_variable_named_global_step_is_it),
        supervised_test(steps_that_are_not_integers),
        supervised_test(sv_045s_a_worker_has_nothing_of_the_chiefs),
        supervised_test(sv_018_the_default_init_op),
        supervised_test(sv_019_an_init_function),
        supervised_test(sv_020_an_init_op_with_a_feed),
        supervised_test(sv_023_the_default_local_init_op),
        supervised_test(sv_024_a_worker_runs_the_local_init_op),
        supervised_test(sv_025_an_init_op_that_leaves_one_out),
        supervised_test(sv_026_a_local_init_op_that_leaves_one_out),
        supervised_test(sv_021_a_chief_and_a_worker_share_a_model),
        supervised_test(a_worker_gives_up_in_the_end),
        supervised_test(a_workers_variables_must_be_placed_on_a_shared_device),
        supervised_test(sv_017_a_session_manager_of_the_programs),
        supervised_test(options_that_contradict_each_other),
        supervised_test(invalid_options_are_refused),
        supervised_test(a_graph_that_was_built_wrong),
        supervised_test(waiting_for_a_checkpoint_needs_a_place),
        supervised_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
