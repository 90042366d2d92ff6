/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "backends/backend.h"
#include "backends/refused.h"

static hs_code find(void *self, const char *name, hs_node *node, hs_error *err)
{
    (void)self, (void)name, (void)err;
    *node = (hs_node){.output = 7};
    return HS_OK;
}

static hs_code open_session(void *self, const char *target, hs_bytes config, void **session, hs_error *err)
{
    (void)target, (void)config, (void)err;
    *session = self;
    return HS_OK;
}

static hs_code run(void *session, hs_backend_call *call, hs_error *err)
{
    (void)session, (void)call, (void)err;
    return HS_OK;
}

static hs_code close_session(void *session, hs_error *err)
{
    (void)session, (void)err;
    return HS_OK;
}

/* The required functions only. */
static const hs_backend_ops least =
    HS_INIT(hs_backend_ops, .name = "least", .find = find, .open = open_session, .run = run, .close = close_session);

static void missing_functions_have_defaults(void **state)
{
    (void)state;
    hs_backend backend = {&least, NULL};
    hs_variable variable;
    const void *item;
    assert_ptr_equal(hs_backend_env(backend), hs_env_default());
    assert_false(hs_backend_finalized(backend));
    assert_null(hs_backend_global_step_name(backend));
    assert_false(hs_backend_collection_item(backend, HS_SAVERS, 0, &item));
    assert_false(hs_backend_variable(backend, 0, &variable));
}

static void no_graph_to_show_is_unimplemented(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_bytes graph = {"x", 1};
    assert_fails(hs_backend_graph_def((hs_backend){&least, NULL}, &graph, &err), HS_UNIMPLEMENTED, &err, "least");
    assert_null(graph.data);
    assert_int_equal(graph.size, 0);
    assert_fails(hs_backend_graph_def((hs_backend){NULL, NULL}, &graph, &err), HS_UNIMPLEMENTED, &err, "?");
}

static void find_calls_the_backend_and_refuses_null(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_node node = {0};
    assert_ok(hs_backend_find((hs_backend){&least, NULL}, "x", &node, &err), &err);
    assert_int_equal(node.output, 7);
    assert_fails(hs_backend_find((hs_backend){&least, NULL}, NULL, &node, &err), HS_INVALID_ARGUMENT, &err, "name");
    assert_fails(hs_backend_find((hs_backend){NULL, NULL}, "x", &node, &err), HS_INVALID_ARGUMENT, &err, "backend");
}

static bool one_variable(void *self, size_t index, hs_variable *out)
{
    (void)self;
    *out = (hs_variable){.name = "w", .dtype = HS_DOUBLE};
    return index == 0;
}

/* A collection of two items. */
static bool two_items(void *self, const char *key, size_t index, const void **item)
{
    (void)self;
    *item = key;
    return index < 2 && strcmp(key, HS_SAVERS) == 0;
}

static void null_arguments_are_refused(void **state)
{
    (void)state;
    const hs_backend none = {NULL, NULL};
    hs_backend_ops ops = least;
    hs_node node;
    ops.variable = one_variable;
    ops.collection_item = two_items;
    const hs_backend backend = {&ops, NULL};
    assert_ptr_equal(hs_backend_env(none), hs_env_default());
    assert_false(hs_backend_finalized(none));
    assert_null(hs_backend_global_step_name(none));
    assert_false(hs_backend_collection_item(none, NULL, 0, NULL));
    assert_false(hs_backend_collection_item(backend, NULL, 0, NULL));
    assert_true(hs_backend_collection_item(backend, HS_SAVERS, 1, NULL));
    assert_false(hs_backend_collection_item(backend, HS_SAVERS, 2, NULL));
    assert_false(hs_backend_variable(none, 0, NULL));
    assert_false(hs_backend_variable(backend, 0, NULL));
    assert_refused(HS_INVALID_ARGUMENT, hs_backend_find(none, "x", &node, err));
    assert_refused(HS_INVALID_ARGUMENT, hs_backend_find(backend, NULL, &node, err));
    assert_refused(HS_INVALID_ARGUMENT, hs_backend_find(backend, "x", NULL, err));
    assert_refused(HS_INVALID_ARGUMENT, hs_backend_check_tensor(none, "x", err));
    assert_refused(HS_INVALID_ARGUMENT, hs_backend_check_tensor(backend, NULL, err));
    assert_refused(HS_FAILED_PRECONDITION, hs_backend_check_global_step(none, err));
    assert_refused(HS_INVALID_ARGUMENT, hs_backend_graph_def(none, NULL, err));
}

static void a_missing_required_function_is_named(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        hs_backend_ops ops = least, taken;
        hs_error err = {0};
        ops.find = i == 0 ? NULL : ops.find;
        ops.open = i == 1 ? NULL : ops.open;
        ops.run = i == 2 ? NULL : ops.run;
        ops.close = i == 3 ? NULL : ops.close;
        assert_fails(hs__backend_take(&taken, (hs_backend){&ops, NULL}, &err), HS_INVALID_ARGUMENT, &err, "least");
    }
}

static void a_backend_without_functions_or_size_is_refused(void **state)
{
    (void)state;
    hs_backend_ops ops = least, taken;
    hs_error err = {0};
    assert_fails(hs__backend_take(&taken, (hs_backend){NULL, NULL}, &err), HS_INVALID_ARGUMENT, &err, "ops is NULL");
    ops.size = 0;
    assert_fails(hs__backend_take(&taken, (hs_backend){&ops, NULL}, &err), HS_INVALID_ARGUMENT, &err,
                 "HS_INIT(hs_backend_ops");
}

/* A size that no release had is refused. The memory after the size is not read. */
static void a_backend_that_is_too_small_is_refused(void **state)
{
    (void)state;
    hs_backend_ops old = least, taken;
    hs_error err = {0};
    old.size = offsetof(hs_backend_ops, read_variable);
    memset((char *)&old + old.size, 0x5a, sizeof old - old.size); /* must not be read */
    assert_fails(hs__backend_take(&taken, (hs_backend){&old, NULL}, &err), HS_INVALID_ARGUMENT, &err,
                 "hs_backend_ops.size");
    old.size = offsetof(hs_backend_ops, graph_def);
    assert_int_equal(hs_backend_graph_def((hs_backend){&old, NULL}, &(hs_bytes){NULL, 0}, &err), HS_UNIMPLEMENTED);
}

static void a_session_on_an_incomplete_backend_does_not_open(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_backend_ops ops = least;
    ops.run = NULL;
    assert_null(hs_session_open((hs_backend){NULL, NULL}, NULL, &err));
    assert_says(&err, HS_INVALID_ARGUMENT, "hs_backend.ops is NULL");
    assert_null(hs_session_open((hs_backend){&ops, NULL}, NULL, &err));
    assert_says(&err, HS_INVALID_ARGUMENT, "backend 'least' lacks");
}

/* No variables, no global step, no collections, nothing to finalize. */
static void a_session_runs_on_the_least_backend(void **state)
{
    (void)state;
    hs_error err = {0};
    int self;
    hs_session *session = hs_session_open((hs_backend){&least, &self}, NULL, &err);
    assert_ok(hs_session_run(session, "x", &err), &err);
    assert_ok(hs_session_run(session, "y:3", &err), &err);
    assert_int_equal(hs_raw_session_global_step(hs_session_raw(session), &err), -1);
    assert_says(&err, HS_FAILED_PRECONDITION, "'least' has no global step");
    hs_outcome outcome = hs_session_close(session, &err);
    assert_int_equal(outcome.reason, HS_REASON_CLOSED);
    assert_int_equal(outcome.step, -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(missing_functions_have_defaults),
        cmocka_unit_test(no_graph_to_show_is_unimplemented),
        cmocka_unit_test(find_calls_the_backend_and_refuses_null),
        cmocka_unit_test(null_arguments_are_refused),
        cmocka_unit_test(a_missing_required_function_is_named),
        cmocka_unit_test(a_backend_without_functions_or_size_is_refused),
        cmocka_unit_test(a_backend_that_is_too_small_is_refused),
        cmocka_unit_test(a_session_on_an_incomplete_backend_does_not_open),
        cmocka_unit_test(a_session_runs_on_the_least_backend),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
