/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions that are prepared or recovered without hooks. */
#include "tf1/served.h"

#include <math.h>

static void sm_001_prepared_by_the_init_op(void **state)
{
    served *s = *state;
    assert_true(served_prepare(s, PREPARE(.init_op = "init")));
    assert_true(served_number(s, "v_now") == 1);
}

static void sm_002_prepared_with_a_feed(void **state)
{
    served *s = *state;
    double seed = 123;
    hs_tensor value = hs_tensor_of(HS_DOUBLE, HS_SCALAR, &seed);
    assert_true(served_prepare(s, PREPARE(.init_op = "init_fed", .init_feeds = HS_FEEDS({"seed", value}))));
    assert_true(s->v == 123);
}

static hs_code set_v(void *user, const hs_scaffold *scaffold, hs_raw_session *session, hs_error *err)
{
    (void)session, (void)err;
    assert_null(scaffold);
    ((served *)user)->v = 125;
    return HS_OK;
}

static void sm_003_prepared_by_a_function(void **state)
{
    served *s = *state;
    assert_true(served_prepare(s, PREPARE(.init_fn = set_v, .user = s)));
    assert_true(served_number(s, "v_now") == 125);
}

static void sm_004_sm_034s_prepared_by_the_local_init_op_with_its_own_feeds(void **state)
{
    served *s = *state;
    double seed = 5, other = 6;
    s->v = 1;
    hs_tensor local = hs_tensor_of(HS_DOUBLE, HS_SCALAR, &seed), global = hs_tensor_of(HS_DOUBLE, HS_SCALAR, &other);
    const hs_feed feeds[] = {{"seed", local}, {NULL}};
    const hs_run_options slow = HS_INIT(hs_run_options, .timeout_secs = 60);
    s->options.local_init_op = "local_init_fed";
    s->options.local_init_feeds = feeds;
    s->options.local_init_run_options = &slow;
    assert_true(served_prepare(s, PREPARE(.init_feeds = HS_FEEDS({"seed", global}))));
    assert_true(served_number(s, "w_now") == 5);
}

/* Saves a checkpoint of one variable that the session owns. */
static void save_checkpoint(served *s)
{
    s->saver = hs_saver_new(HS_SAVER_OPTIONS(.env = &s->b->t.env), NULL);
    s->directory = test_make_directory();
    hs_graph_add_variable(s->b->graph, HS_VARIABLE_DEF(.name = "kept", .dtype = HS_DOUBLE));
    assert_true(served_prepare(s, PREPARE(.init_op = "init")));
    const double seven = 7;
    hs_variable kept;
    size_t i = 0;
    while (hs_backend_variable(served_backend(s), i, &kept) && strcmp(kept.name, "kept"))
        i++;
    hs_tensor value = hs_tensor_of(HS_DOUBLE, HS_SCALAR, &seven);
    assert_ok(s->spied.write_variable(hs_raw_session_handle(hs_session_raw(s->session)), i, &value, &s->b->err),
              &s->b->err);
    assert_ok(
        hs_saver_save(s->saver, hs_session_raw(s->session), test_path(s->directory, "model.ckpt"), 1, NULL, &s->b->err),
        &s->b->err);
    assert_ok(hs_session_close(s->session, &s->b->err).error.code, &s->b->err);
    s->session = NULL;
    s->v = NAN;
}

static hs_code set_v_and_count(void *user, const hs_scaffold *scaffold, hs_raw_session *session, hs_error *err)
{
    served *s = user;
    s->first += 1000;
    return set_v(user, scaffold, session, err);
}

static void sm_023s_restored_variables_are_not_initialized(void **state)
{
    served *s = *state;
    save_checkpoint(s);
    s->v = 2;
    s->options.local_init_op = "local_init";
    s->options.ready_for_local_init_op = "ready_for_local";
    assert_true(served_prepare(s, PREPARE(.init_op = "init", .init_fn = set_v_and_count, .user = s, .saver = s->saver,
                                          .checkpoint_dir = s->directory)));
    assert_true(s->v == 2 && s->first == 1);
    assert_true(served_number(s, "kept") == 7);
    assert_int_equal(s->local_inits, 1);
    assert_true(s->checks >= 1);
}

static void sm_005_nothing_to_prepare_with(void **state)
{
    served *s = *state;
    char *empty = test_make_directory();
    save_checkpoint(s);
    s->v = 2;
    assert_false(served_prepare(
        s, PREPARE(.saver = s->saver, .checkpoint_dir = empty, .wait_for_checkpoint = true, .max_wait_secs = 2)));
    assert_says(
        &s->b->err, HS_FAILED_PRECONDITION,
        "cannot initialize the model: no checkpoint was restored, and init_op, init_fn and local_init_op are missing");
    assert_true(served_prepare(
        s, PREPARE(.saver = s->saver, .checkpoint_dir = s->directory, .wait_for_checkpoint = true, .max_wait_secs = 2)));
    assert_true(served_number(s, "kept") == 7);
    test_remove_directory(empty);
}

/* TensorFlow sleeps for a whole interval, even if less time remains. */
static void sm_024s_waiting_ends_in_time(void **state)
{
    served *s = *state;
    save_checkpoint(s);
    char *empty = test_make_directory();
    int64_t before = s->b->t.now_ns;
    s->options.recovery_wait_secs = 2;
    assert_true(served_prepare(s, PREPARE(.init_op = "init", .saver = s->saver, .checkpoint_dir = empty,
                                          .wait_for_checkpoint = true, .max_wait_secs = 1)));
    assert_int_equal(s->b->t.now_ns - before, 1000000000);
    test_remove_directory(empty);
}

static void sm_036s_nowhere_to_restore_from_is_nothing_to_wait_for(void **state)
{
    served *s = *state;
    int64_t before = s->b->t.now_ns;
    assert_true(served_prepare(s, PREPARE(.init_op = "init", .wait_for_checkpoint = true, .checkpoint_dir = "/nowhere")));
    assert_int_equal(s->b->t.now_ns, before); /* without a saver it does not wait */
    served_close(s);
    save_checkpoint(s);
    s->v = (double)NAN;
    assert_true(served_prepare(s, PREPARE(.init_op = "init", .wait_for_checkpoint = true, .saver = s->saver)));
    assert_int_equal(s->b->t.now_ns, before); /* without a directory and a path it does not wait */
    assert_true(s->v == s->first);
}

static bool recover(served *s, const hs_session_manager_prepare_options *options)
{
    bool initialized = true;
    s->session = hs_session_manager_recover(served_manager(s), served_backend(s), options, &initialized, &s->b->err);
    return initialized;
}

static void sm_006_recovered_from_a_directory_or_a_path(void **state)
{
    served *s = *state;
    char *empty = test_make_directory();
    save_checkpoint(s);
    s->v = 2;
    assert_false(recover(s, PREPARE(.saver = s->saver, .checkpoint_dir = empty)));
    assert_non_null(s->session);
    served_close(s);
    assert_true(recover(s, PREPARE(.saver = s->saver, .checkpoint_dir = s->directory)));
    assert_true(served_number(s, "kept") == 7);
    served_close(s);
    assert_true(recover(s, PREPARE(.saver = s->saver, .checkpoint_prefix = test_path(s->directory, "model.ckpt-1"))));
    served_close(s);
    test_remove_directory(empty);
}

static void move_to(const char *from, const char *to, const char *name)
{
    char old[512];
    snprintf(old, sizeof old, "%s", test_path(from, name));
    assert_int_equal(rename(old, test_path(to, name)), 0);
}

static char *destination;

/* Another process saves its checkpoint after the second session was opened. */
static void save_after_the_second(void *user)
{
    served *s = user;
    if (s->opened != 3) /* save_checkpoint has opened one */
        return;
    for (const char *const *name = HS_NAMES("model.ckpt-1.index", "model.ckpt-1.data-00000-of-00001"); *name; name++)
        move_to(s->directory, destination, *name);
}

static void sm_006_recovered_from_a_checkpoint_that_is_waited_for(void **state)
{
    served *s = *state;
    const hs_session_manager_prepare_options *options;
    save_checkpoint(s);
    s->v = 2;
    s->options.recovery_wait_secs = 1;
    char *empty = destination = test_make_directory();
    options = PREPARE(.saver = s->saver, .checkpoint_dir = empty, .wait_for_checkpoint = true, .max_wait_secs = 3);
    int64_t before = s->b->t.now_ns;
    assert_false(recover(s, options));
    assert_non_null(s->session);
    assert_int_equal(s->b->t.now_ns - before, 3000000000);
    served_close(s);
    before = s->b->t.now_ns;
    s->opened = s->closed = 1;
    s->on_open = save_after_the_second;
    assert_true(recover(s, options));
    assert_int_equal(s->b->t.now_ns - before, 1000000000);
    assert_true(served_number(s, "kept") == 7);
    served_close(s);
    test_remove_directory(empty);
}

static void sm_006_sm_028s_not_from_both(void **state)
{
    served *s = *state;
    save_checkpoint(s);
    int before = s->opened;
    assert_false(
        recover(s, PREPARE(.saver = s->saver, .checkpoint_dir = s->directory, .checkpoint_prefix = "model.ckpt-1")));
    assert_null(s->session);
    assert_says(&s->b->err, HS_INVALID_ARGUMENT, "give at most one of the two");
    assert_false(recover(s, PREPARE(.checkpoint_dir = s->directory, .checkpoint_prefix = "model.ckpt-1")));
    assert_says(&s->b->err, HS_INVALID_ARGUMENT, "hs_session_manager_prepare_options: both checkpoint_dir '");
    assert_false(served_prepare(s, PREPARE(.init_op = "init", .config = {NULL, 1})));
    assert_says(&s->b->err, HS_INVALID_ARGUMENT, "hs_session_manager_prepare_options.config.data is NULL");
    assert_int_equal(s->opened, before); /* refused before a session is opened */
}

static void sm_008_a_check_for_no_op(void **state)
{
    served *s = *state;
    s->options.ready_for_local_init_op = "ready_for_local";
    assert_null(hs_session_manager_new(&s->options, &s->b->err));
    assert_says(&s->b->err, HS_INVALID_ARGUMENT,
                "ready_for_local_init_op 'ready_for_local' has no effect without local_init_op");
}

static void sm_009_the_local_init_op_sees_restored_values(void **state)
{
    served *s = *state;
    save_checkpoint(s);
    s->v = 2; /* as after a restore */
    s->check_w = true;
    s->options.local_init_op = "local_init";
    s->options.ready_for_local_init_op = "ready_for_local";
    assert_true(recover(s, PREPARE(.saver = s->saver, .checkpoint_dir = s->directory)));
    assert_true(served_number(s, "w_now") == 2);
}

static void sm_011_sm_033s_nothing_restored_and_yet_local_init_is_run(void **state)
{
    served *s = *state;
    s->v = 1;
    s->options.local_init_op = "local_init";
    assert_false(recover(s, PREPARE(.saver = NULL)));
    assert_non_null(s->session);
    assert_true(s->w == 1);
    assert_int_equal(s->checks, 0);
}

static void sm_033s_not_being_ready_for_it_is_not_an_error(void **state)
{
    served *s = *state;
    s->options.local_init_op = "local_init";
    s->options.ready_for_local_init_op = "ready_for_local";
    assert_false(recover(s, PREPARE(.saver = NULL)));
    assert_non_null(s->session);
    assert_int_equal(s->local_inits, 0);
    assert_contains(s->b->t.log, "not ready for local_init_op");
}

/* The files of the directory are searched instead. */
static void sm_037s_a_state_file_that_says_nothing(void **state)
{
    served *s = *state;
    save_checkpoint(s);
    s->v = 2;
    test_write_file(test_path(s->directory, "checkpoint"), "", 0);
    assert_true(recover(s, PREPARE(.saver = s->saver, .checkpoint_dir = s->directory)));
    assert_true(served_number(s, "kept") == 7);
}

static void without_a_saver_the_savers_of_the_graph_do_not_matter(void **state)
{
    served *s = *state;
    hs_saver *savers[] = {hs_saver_new(NULL, NULL), hs_saver_new(NULL, NULL)};
    s->v = 1;
    for (size_t n = 0;; n++) {
        assert_true(served_prepare(s, PREPARE(.init_op = "init")));
        served_close(s);
        recover(s, PREPARE(0));
        assert_non_null(s->session);
        served_close(s);
        assert_true(served_wait(s, 1));
        served_close(s);
        assert_int_equal(test_collection_size(served_backend(s), HS_SAVERS), n); /* they add none */
        if (n == 2)
            break;
        assert_ok(s->b->ops->add_to_collection(s->b->graph, HS_SAVERS, savers[n], NULL, &s->b->err), &s->b->err);
    }
    for (int i = 0; i < 2; i++)
        hs_saver_free(savers[i]);
}

static void nothing_to_work_with_is_an_error(void **state)
{
    served *s = *state;
    bool initialized;
    assert_null(hs_session_manager_prepare(NULL, served_backend(s), NULL, &s->b->err));
    assert_int_equal(s->b->err.code, HS_INVALID_ARGUMENT);
    assert_null(hs_session_manager_recover(served_manager(s), (hs_backend){NULL, NULL}, NULL, &initialized, &s->b->err));
    assert_int_equal(s->b->err.code, HS_INVALID_ARGUMENT);
    s->options.recovery_wait_secs = -2;
    assert_null(hs_session_manager_new(&s->options, &s->b->err));
    assert_says(&s->b->err, HS_INVALID_ARGUMENT, "recovery_wait_secs");
    hs_session_manager_free(NULL);
}

static hs_code make_and_wait(test_env *t, void *user)
{
    hs_error err = {0}, ignored;
    hs_graph *graph = hs_graph_new(&t->env);
    (void)user;
    if (!graph)
        return HS_RESOURCE_EXHAUSTED;
    hs_graph_global_step(graph, NULL, NULL);
    hs_session_manager *manager =
        hs_session_manager_new(HS_SESSION_MANAGER_OPTIONS(.ready_op = "global_step", .env = &t->env), &err);
    hs_session *session =
        manager ? hs_session_manager_wait(manager, hs_graph_backend(graph), HS_PREPARE_OPTIONS(.max_wait_secs = 1), &err)
                : NULL;
    hs_session_close(session, &ignored);
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
        served_test(sm_001_prepared_by_the_init_op),
        served_test(sm_002_prepared_with_a_feed),
        served_test(sm_003_prepared_by_a_function),
        served_test(sm_004_sm_034s_prepared_by_the_local_init_op_with_its_own_feeds),
        served_test(sm_005_nothing_to_prepare_with),
        served_test(sm_006_recovered_from_a_directory_or_a_path),
        served_test(sm_006_recovered_from_a_checkpoint_that_is_waited_for),
        served_test(sm_006_sm_028s_not_from_both),
        served_test(sm_008_a_check_for_no_op),
        served_test(sm_009_the_local_init_op_sees_restored_values),
        served_test(sm_011_sm_033s_nothing_restored_and_yet_local_init_is_run),
        served_test(sm_023s_restored_variables_are_not_initialized),
        served_test(sm_024s_waiting_ends_in_time),
        served_test(sm_033s_not_being_ready_for_it_is_not_an_error),
        served_test(sm_036s_nowhere_to_restore_from_is_nothing_to_wait_for),
        served_test(sm_037s_a_state_file_that_says_nothing),
        served_test(without_a_saver_the_savers_of_the_graph_do_not_matter),
        served_test(nothing_to_work_with_is_an_error),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
