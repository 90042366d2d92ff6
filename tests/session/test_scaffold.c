/* SPDX-License-Identifier: Apache-2.0 */
#include "session/probe.h"

#include "backends/bare.h"

static hs_code no_init(void *user, const hs_scaffold *scaffold, hs_raw_session *session, hs_error *err)
{
    (void)user, (void)scaffold, (void)session, (void)err;
    return HS_OK;
}

static hs_scaffold *new_scaffold(const hs_scaffold_options *options)
{
    hs_error err = {0};
    hs_scaffold *scaffold = hs_scaffold_new(options, &err);
    if (!scaffold)
        fail_msg("%s", err.message);
    return scaffold;
}

static hs_code finalize(bare *b, hs_scaffold *scaffold)
{
    return hs_scaffold_finalize(scaffold, hs_graph_backend(b->graph), &b->err);
}

static void ms_001_nothing_is_there_before_finalize(void **state)
{
    (void)state;
    hs_scaffold *scaffold = new_scaffold(NULL);
    assert_null(hs_scaffold_fields(scaffold)->init_op);
    assert_null(hs_scaffold_fields(scaffold)->init_feeds);
    assert_true(!hs_scaffold_fields(scaffold)->init_fn);
    assert_null(hs_scaffold_fields(scaffold)->user);
    assert_null(hs_scaffold_fields(scaffold)->ready_op);
    assert_null(hs_scaffold_fields(scaffold)->ready_for_local_init_op);
    assert_null(hs_scaffold_fields(scaffold)->local_init_op);
    assert_null(hs_scaffold_fields(scaffold)->local_init_feeds);
    assert_null(hs_scaffold_fields(scaffold)->summary_op);
    assert_null(hs_scaffold_fields(scaffold)->saver);
    hs_scaffold_free(scaffold);
    hs_scaffold_free(NULL);
}

static void ms_003_defaults_without_variables(void **state)
{
    bare *b = *state;
    hs_scaffold *scaffold = new_scaffold(NULL);
    assert_ok(finalize(b, scaffold), &b->err);
    assert_non_null(hs_scaffold_fields(scaffold)->init_op);
    assert_non_null(hs_scaffold_fields(scaffold)->ready_op);
    assert_non_null(hs_scaffold_fields(scaffold)->ready_for_local_init_op);
    assert_non_null(hs_scaffold_fields(scaffold)->local_init_op);
    assert_non_null(hs_scaffold_fields(scaffold)->saver);
    assert_null(hs_scaffold_fields(scaffold)->init_feeds);
    assert_null(hs_scaffold_fields(scaffold)->local_init_feeds);
    assert_true(!hs_scaffold_fields(scaffold)->init_fn);
    assert_null(hs_scaffold_fields(scaffold)->summary_op);
    hs_scaffold_free(scaffold);
}

static void ms_004_sa_050s_the_defaults_of_a_graph_are_shared(void **state)
{
    bare *b = *state;
    hs_scaffold *one = new_scaffold(NULL), *other = new_scaffold(NULL);
    assert_ok(finalize(b, one), &b->err);
    assert_ok(finalize(b, other), &b->err);
    assert_string_equal(hs_scaffold_fields(one)->init_op, hs_scaffold_fields(other)->init_op);
    assert_string_equal(hs_scaffold_fields(one)->ready_op, hs_scaffold_fields(other)->ready_op);
    assert_string_equal(hs_scaffold_fields(one)->ready_for_local_init_op,
                        hs_scaffold_fields(other)->ready_for_local_init_op);
    assert_string_equal(hs_scaffold_fields(one)->local_init_op, hs_scaffold_fields(other)->local_init_op);
    assert_ptr_equal(hs_scaffold_fields(one)->saver, hs_scaffold_fields(other)->saver);
    for (const char *const *key = HS_NAMES(HS_INIT_OP, HS_READY_OP, HS_LOCAL_INIT_OP, HS_SAVERS); *key; key++)
        assert_int_equal(test_collection_size(hs_graph_backend(b->graph), *key), 1);
    hs_scaffold_free(one);
    hs_scaffold_free(other);
}

static void ms_005_sa_050s_more_than_one_saver_to_choose_from(void **state)
{
    bare *b = *state;
    hs_scaffold *scaffold = new_scaffold(NULL);
    hs_saver *savers[] = {hs_saver_new(NULL, NULL), hs_saver_new(NULL, NULL)};
    for (int i = 0; i < 2; i++)
        assert_ok(b->ops->add_to_collection(b->graph, HS_SAVERS, savers[i], NULL, &b->err), &b->err);
    assert_fails(finalize(b, scaffold), HS_FAILED_PRECONDITION, &b->err, "'savers' has 2 items");
    assert_false(hs_backend_finalized(hs_graph_backend(b->graph)));
    for (int i = 0; i < 2; i++)
        hs_saver_free(savers[i]);
    hs_scaffold_free(scaffold);
}

static void without_a_saver_the_graph_gets_none(void **state)
{
    bare *b = *state;
    const hs_backend backend = hs_graph_backend(b->graph);
    hs_saver *saver = hs_saver_new(NULL, NULL);
    hs_scaffold *without = new_scaffold(HS_SCAFFOLD_OPTIONS(.no_saver = true));
    hs_scaffold *copy = new_scaffold(HS_SCAFFOLD_OPTIONS(.copy_from = without));
    hs_scaffold *with = new_scaffold(HS_SCAFFOLD_OPTIONS(.saver = saver, .copy_from = without));
    assert_ok(finalize(b, without), &b->err);
    assert_ok(finalize(b, copy), &b->err);
    assert_null(hs_scaffold_fields(copy)->saver);
    assert_true(hs_scaffold_fields(copy)->no_saver);
    assert_ptr_equal(hs_scaffold_fields(with)->saver, saver);
    assert_int_equal(test_collection_size(backend, HS_SAVERS), 0);
    assert_null(hs_session_open(backend, HS_SESSION_OPTIONS(.checkpoint_dir = "run", .scaffold = copy), &b->err));
    assert_says(&b->err, HS_INVALID_ARGUMENT, "checkpoint_dir is set, but the scaffold has no_saver");
    assert_null(hs_scaffold_new(HS_SCAFFOLD_OPTIONS(.saver = saver, .no_saver = true), &b->err));
    assert_says(&b->err, HS_INVALID_ARGUMENT, "both saver and no_saver are set");
    hs_scaffold_free(with);
    hs_scaffold_free(copy);
    hs_scaffold_free(without);
    hs_saver_free(saver);
}

static void ms_005_more_than_one_op_to_choose_from(void **state)
{
    bare *b = *state;
    for (const char *const *key = HS_NAMES(HS_INIT_OP, HS_READY_OP, HS_READY_FOR_LOCAL_INIT_OP, HS_LOCAL_INIT_OP); *key;
         key++) {
        hs_graph *graph = hs_graph_new(&b->t.env);
        hs_scaffold *scaffold = new_scaffold(NULL);
        hs_graph_collect(graph, *key, "one");
        hs_graph_collect(graph, *key, "other");
        assert_fails(hs_scaffold_finalize(scaffold, hs_graph_backend(graph), &b->err), HS_FAILED_PRECONDITION, &b->err,
                     *key);
        hs_scaffold_free(scaffold);
        hs_graph_free(graph);
    }
}

static void what_a_graph_has_collected_is_taken(void **state)
{
    bare *b = *state;
    hs_scaffold *scaffold = new_scaffold(NULL);
    hs_saver *saver = hs_saver_new(NULL, NULL);
    b->ops->add_to_collection(b->graph, HS_SAVERS, saver, NULL, NULL);
    hs_graph_collect(b->graph, HS_SUMMARY_OP, "merged");
    hs_graph_collect(b->graph, HS_INIT_OP, "my_init");
    assert_ok(finalize(b, scaffold), &b->err);
    assert_string_equal(hs_scaffold_fields(scaffold)->summary_op, "merged");
    assert_string_equal(hs_scaffold_fields(scaffold)->init_op, "my_init");
    assert_ptr_equal(hs_scaffold_fields(scaffold)->saver, saver);
    hs_scaffold_free(scaffold);
    hs_saver_free(saver);
}

/* Sets all options of a scaffold. */
static hs_scaffold_options everything(hs_saver *saver, const hs_feed *feeds)
{
    return *HS_SCAFFOLD_OPTIONS(.init_op = "my_init", .init_feeds = feeds, .init_fn = no_init, .user = saver,
                                .ready_op = "my_ready", .ready_for_local_init_op = "my_ready_for_local",
                                .local_init_op = "my_local", .local_init_feeds = feeds + 1, .summary_op = "my_summary",
                                .saver = saver);
}

static void assert_everything(const hs_scaffold *scaffold, hs_saver *saver, const hs_feed *feeds)
{
    assert_string_equal(hs_scaffold_fields(scaffold)->init_op, "my_init");
    assert_ptr_equal(hs_scaffold_fields(scaffold)->init_feeds, feeds);
    assert_true(hs_scaffold_fields(scaffold)->init_fn == no_init);
    assert_ptr_equal(hs_scaffold_fields(scaffold)->user, saver);
    assert_string_equal(hs_scaffold_fields(scaffold)->ready_op, "my_ready");
    assert_string_equal(hs_scaffold_fields(scaffold)->ready_for_local_init_op, "my_ready_for_local");
    assert_string_equal(hs_scaffold_fields(scaffold)->local_init_op, "my_local");
    assert_ptr_equal(hs_scaffold_fields(scaffold)->local_init_feeds, feeds + 1);
    assert_string_equal(hs_scaffold_fields(scaffold)->summary_op, "my_summary");
    assert_ptr_equal(hs_scaffold_fields(scaffold)->saver, saver);
}

static void ms_006_given_values_are_kept(void **state)
{
    bare *b = *state;
    const hs_feed feeds[] = {{NULL}, {NULL}};
    hs_saver *saver = hs_saver_new(NULL, NULL);
    hs_scaffold_options options = everything(saver, feeds);
    hs_scaffold *scaffold = new_scaffold(&options);
    assert_ok(finalize(b, scaffold), &b->err);
    assert_everything(scaffold, saver, feeds);
    assert_int_equal(test_collection_size(hs_graph_backend(b->graph), HS_INIT_OP), 0);
    assert_int_equal(test_collection_size(hs_graph_backend(b->graph), HS_SAVERS), 0);
    hs_scaffold_free(scaffold);
    hs_saver_free(saver);
}

static void an_invalid_name_has_no_default(void **state)
{
    bare *b = *state;
    hs_scaffold *none = new_scaffold(HS_SCAFFOLD_OPTIONS(.init_op = HS_NONE, .ready_op = HS_NONE));
    hs_scaffold *copy = new_scaffold(HS_SCAFFOLD_OPTIONS(.copy_from = none, .ready_op = "my_ready"));
    hs_graph_add_variable(b->graph, HS_VARIABLE_DEF(.name = "w", .dtype = HS_DOUBLE));
    assert_ok(finalize(b, none), &b->err);
    assert_ok(finalize(b, copy), &b->err);
    assert_null(hs_scaffold_fields(none)->init_op);
    assert_null(hs_scaffold_fields(none)->ready_op);
    assert_non_null(hs_scaffold_fields(none)->local_init_op);
    assert_null(hs_scaffold_fields(copy)->init_op);
    assert_string_equal(hs_scaffold_fields(copy)->ready_op, "my_ready");
    hs_scaffold_free(copy);
    hs_scaffold_free(none);
}

/* Nothing checks the variables that nothing has initialized. */
static void a_session_without_ops_opens(void **state)
{
    bare *b = *state;
    hs_scaffold *none = new_scaffold(HS_SCAFFOLD_OPTIONS(.init_op = HS_NONE, .ready_op = HS_NONE, .local_init_op = HS_NONE,
                                                         .ready_for_local_init_op = HS_NONE, .summary_op = HS_NONE));
    hs_graph_add_variable(b->graph, HS_VARIABLE_DEF(.name = "w", .dtype = HS_DOUBLE));
    hs_session *session =
        hs_session_open(hs_graph_backend(b->graph), HS_SESSION_OPTIONS(.scaffold = none, .take_scaffold = true), &b->err);
    assert_ok(b->err.code, &b->err);
    assert_int_equal(test_collection_size(hs_graph_backend(b->graph), HS_INIT_OP), 0);
    hs_session_close(session, NULL);
}

static void ms_007_the_graph_is_finalized(void **state)
{
    bare *b = *state;
    hs_scaffold *scaffold = new_scaffold(NULL);
    assert_ok(finalize(b, scaffold), &b->err);
    assert_true(hs_backend_finalized(hs_graph_backend(b->graph)));
    assert_int_equal(bare_op(b, .name = "late"), HS_FAILED_PRECONDITION);
    hs_scaffold_free(scaffold);
}

static void ms_008_given_values_override_copied_ones(void **state)
{
    bare *b = *state;
    const hs_feed feeds[] = {{NULL}, {NULL}};
    hs_saver *saver = hs_saver_new(NULL, NULL);
    hs_scaffold *empty = new_scaffold(NULL);
    assert_ok(finalize(b, empty), &b->err); /* the scaffold has copied the names */
    hs_scaffold_options options = everything(saver, feeds);
    options.copy_from = empty;
    hs_scaffold *scaffold = new_scaffold(&options);
    hs_scaffold_free(empty);
    assert_everything(scaffold, saver, feeds);
    hs_scaffold_free(scaffold);
    hs_saver_free(saver);
}

static void omitted_values_are_copied(void **state)
{
    (void)state;
    const hs_feed feeds[] = {{NULL}, {NULL}};
    hs_saver *saver = hs_saver_new(NULL, NULL);
    hs_scaffold_options options = everything(saver, feeds);
    hs_scaffold *from = new_scaffold(&options);
    hs_scaffold *scaffold = new_scaffold(HS_SCAFFOLD_OPTIONS(.copy_from = from));
    hs_scaffold_free(from); /* the other scaffold has a copy */
    assert_everything(scaffold, saver, feeds);
    hs_scaffold_free(scaffold);
    hs_saver_free(saver);
}

static void ms_132s_finalizing_again_changes_nothing(void **state)
{
    bare *b = *state;
    hs_scaffold *scaffold = new_scaffold(NULL);
    assert_ok(finalize(b, scaffold), &b->err);
    const char *init_op = hs_scaffold_fields(scaffold)->init_op;
    hs_saver *saver = hs_scaffold_fields(scaffold)->saver;
    b->err.code = HS_INTERNAL;
    assert_ok(finalize(b, scaffold), &b->err);
    assert_int_equal(b->err.code, HS_OK);
    assert_ptr_equal(hs_scaffold_fields(scaffold)->init_op, init_op);
    assert_ptr_equal(hs_scaffold_fields(scaffold)->saver, saver);
    hs_scaffold_free(scaffold);
}

/* One scaffold serves several sessions, one after the other. */
static void ms_132s_a_scaffold_is_used_again(void **state)
{
    bare *b = *state;
    hs_scaffold *scaffold = new_scaffold(NULL);
    hs_session_options options = HS_INIT(hs_session_options, .scaffold = scaffold);
    for (int i = 0; i < 2; i++) {
        hs_session *session = hs_session_open(hs_graph_backend(b->graph), &options, &b->err);
        assert_non_null(session);
        assert_int_equal(hs_session_close(session, &b->err).reason, HS_REASON_CLOSED);
    }
    hs_scaffold_free(scaffold);
}

/* Its names and its saver are those of the first. */
static void a_scaffold_of_another_graph_is_refused(void **state)
{
    bare *b = *state;
    hs_scaffold *scaffold = new_scaffold(NULL);
    hs_graph *other = hs_graph_new(&b->t.env);
    assert_ok(finalize(b, scaffold), &b->err);
    assert_fails(hs_scaffold_finalize(scaffold, hs_graph_backend(other), &b->err), HS_FAILED_PRECONDITION, &b->err,
                 "the scaffold was finalized for another graph");
    assert_false(hs_backend_finalized(hs_graph_backend(other)));
    hs_session_options options = HS_INIT(hs_session_options, .scaffold = scaffold);
    assert_null(hs_session_open(hs_graph_backend(other), &options, &b->err));
    assert_says(&b->err, HS_FAILED_PRECONDITION, "the scaffold was finalized for another graph");
    assert_ok(finalize(b, scaffold), &b->err); /* its own, again */
    hs_scaffold_free(scaffold);
    hs_graph_free(other);
}

/* As the message recommends for another graph. */
static void a_copy_that_was_not_finalized_is_of_no_graph(void **state)
{
    bare *b = *state;
    hs_scaffold *from = new_scaffold(HS_SCAFFOLD_OPTIONS(.summary_op = "merged"));
    hs_scaffold *copy = new_scaffold(HS_SCAFFOLD_OPTIONS(.copy_from = from));
    hs_graph *other = hs_graph_new(&b->t.env);
    assert_ok(finalize(b, from), &b->err);
    assert_ok(hs_scaffold_finalize(copy, hs_graph_backend(other), &b->err), &b->err);
    assert_string_equal(hs_scaffold_fields(copy)->summary_op, "merged");
    hs_scaffold_free(from);
    hs_scaffold_free(copy);
    hs_graph_free(other);
}

/* The scaffold allocates only from its env. The graph's memory is not counted here. */
static hs_code make_and_finalize(test_env *t, void *user)
{
    hs_error err = {0};
    hs_graph *graph = hs_graph_new(NULL);
    hs_scaffold_options options =
        HS_INIT(hs_scaffold_options, .init_op = "my_init", .summary_op = "merged", .env = &t->env);
    hs_scaffold *from = hs_scaffold_new(&options, &err), *copy = NULL;
    options = *HS_SCAFFOLD_OPTIONS(.copy_from = from, .env = &t->env);
    if (from && (copy = hs_scaffold_new(&options, &err)))
        hs_scaffold_finalize(copy, hs_graph_backend(graph), &err);
    *(size_t *)user = t->allocations;
    hs_scaffold_free(copy);
    hs_scaffold_free(from);
    hs_graph_free(graph);
    return err.code;
}

static void any_allocation_of_a_scaffold_may_fail(void **state)
{
    (void)state;
    size_t allocations;
    test_each_allocation(make_and_finalize, &allocations);
    assert_int_equal(allocations, 9); /* two scaffolds with two names each, and three defaults */
}

static void an_incomplete_env_is_refused(void **state)
{
    bare *b = *state;
    hs_env env = HS_INIT(hs_env, .allocator = {.alloc = b->t.env.allocator.alloc});
    assert_null(hs_scaffold_new(HS_SCAFFOLD_OPTIONS(.env = &env), &b->err));
    assert_says(&b->err, HS_INVALID_ARGUMENT, "hs_env.allocator");
}

static void a_backend_without_collections_gets_a_saver(void **state)
{
    play *p = calloc(1, sizeof *p);
    (void)state;
    hs_script *script = hs_script_new(NULL);
    p->spied = *hs_script_backend(script).ops;
    p->spied.add_to_collection = NULL;
    p->spied.collection_item = NULL;
    hs_scaffold *scaffold = new_scaffold(NULL);
    assert_ok(hs_scaffold_finalize(scaffold, (hs_backend){&p->spied, script}, &p->err), &p->err);
    assert_non_null(hs_scaffold_fields(scaffold)->saver);
    assert_null(hs_scaffold_fields(scaffold)->init_op);
    hs_scaffold_free(scaffold); /* the session frees it */
    hs_script_free(script);
    free(p);
}

static void invalid_scaffolds_are_refused(void **state)
{
    bare *b = *state;
    hs_scaffold *scaffold = new_scaffold(NULL);
    assert_null(hs_scaffold_new(&(hs_scaffold_options){.init_op = "x"}, &b->err));
    assert_says(&b->err, HS_INVALID_ARGUMENT, "HS_INIT(hs_scaffold_options");
    assert_fails(finalize(b, NULL), HS_INVALID_ARGUMENT, &b->err, "NULL");
    assert_int_equal(hs_scaffold_finalize(scaffold, (hs_backend){NULL, NULL}, &b->err), HS_INVALID_ARGUMENT);
    hs_scaffold_free(scaffold);
}

#define test(name) cmocka_unit_test_setup_teardown(name, bare_setup, bare_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ms_001_nothing_is_there_before_finalize),
        test(ms_003_defaults_without_variables),
        test(ms_004_sa_050s_the_defaults_of_a_graph_are_shared),
        test(ms_005_sa_050s_more_than_one_saver_to_choose_from),
        test(without_a_saver_the_graph_gets_none),
        test(ms_005_more_than_one_op_to_choose_from),
        test(what_a_graph_has_collected_is_taken),
        test(ms_006_given_values_are_kept),
        test(an_invalid_name_has_no_default),
        test(a_session_without_ops_opens),
        test(ms_007_the_graph_is_finalized),
        test(ms_008_given_values_override_copied_ones),
        cmocka_unit_test(omitted_values_are_copied),
        test(ms_132s_finalizing_again_changes_nothing),
        test(ms_132s_a_scaffold_is_used_again),
        test(a_scaffold_of_another_graph_is_refused),
        test(a_copy_that_was_not_finalized_is_of_no_graph),
        cmocka_unit_test(any_allocation_of_a_scaffold_may_fail),
        test(an_incomplete_env_is_refused),
        cmocka_unit_test(a_backend_without_collections_gets_a_saver),
        test(invalid_scaffolds_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
