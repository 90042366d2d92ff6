/* SPDX-License-Identifier: Apache-2.0 */
/* The global step after all kinds of runs, and reads of any number of variables. */
#include "tensorflow/graphs.h"

static const bool yes = true, no = false;
static const float five = 5;

typedef struct {
    const char *names[3];
    hs_feed feeds[2];
    int64_t adds;
} a_run;

static const a_run runs[] = {
    {{"train_op"}, {{NULL}}, 1},
    {{"look"}, {{NULL}}, 0},
    {{"both"}, {{NULL}}, 11},
    {{"apart"}, {{NULL}}, 100},
    {{"apart", "both"}, {{NULL}}, 111},
    {{"look", "train_op"}, {{NULL}}, 1},
    {{"twice"}, {{NULL}}, 1},
    {{"twice"},
     {{"trained:0", {.dtype = HS_FLOAT, .data = (void *)&five, .bytes = sizeof five}}},
     0}, /* the training op does not run */
    {{"maybe"}, {{"late", {.dtype = HS_BOOL, .data = (void *)&yes, .bytes = sizeof yes}}}, 1000},
    {{"maybe"}, {{"late", {.dtype = HS_BOOL, .data = (void *)&no, .bytes = sizeof no}}}, 0},
    {{"loop"}, {{NULL}}, 3},
    {{"perhaps"}, {{"late", {.dtype = HS_BOOL, .data = (void *)&yes, .bytes = sizeof yes}}}, 2000},
    {{"perhaps"}, {{"late", {.dtype = HS_BOOL, .data = (void *)&no, .bytes = sizeof no}}}, 0},
    {{"called"}, {{NULL}}, 5}, /* from here on: only resource variables */
    {{"other_handle"}, {{NULL}}, 7},
    {{"called_maybe"}, {{"late", {.dtype = HS_BOOL, .data = (void *)&yes, .bytes = sizeof yes}}}, 3000},
    {{"called_maybe"}, {{"late", {.dtype = HS_BOOL, .data = (void *)&no, .bytes = sizeof no}}}, 0},
};
enum { OF_RESOURCES = 4 };

static void run_all(hs_session *session, size_t n)
{
    hs_error err = {0};
    for (size_t i = 0; i < 2 * n; i++) { /* each of them twice */
        const a_run *r = &runs[i % n];
        int64_t before = hs_session_global_step(session, NULL);
        hs_run_args args = HS_INIT(hs_run_args, .names = r->names, .feeds = r->feeds);
        assert_ok(hs_session_run_args(session, &args, NULL, &err), &err);
        if (hs_session_global_step(session, NULL) != before + r->adds)
            fail_msg("'%s', run %zu: step %lld after %lld", r->names[0], i,
                     (long long)hs_session_global_step(session, NULL), (long long)before);
    }
}

static void the_step_is_that_after_the_run(void **state)
{
    static const char *const graphs[] = {"ref_steps.meta", "resource_steps.meta"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        hs_error err = {0};
        hs_node node;
        hs_backend backend = open_graph(graphs[i]);
        hs_session *session = hs_session_open(backend, NULL, &err);
        assert_ok(err.code, &err);
        run_all(session, sizeof runs / sizeof *runs - (i == 0 ? OF_RESOURCES : 0));
        /* where possible, the run itself fetched the step */
        assert_ok(hs_backend_find(backend, "hooksess/global_step", &node, &err), &err);
        hs_session_close(session, &err);
        hs_tensorflow_free(backend);
    }
}

static hs_code run(hs_backend backend, void *session, const char *name, hs_error *err)
{
    hs_node node;
    hs_tensor value;
    hs_backend_call call = {.size = sizeof call, .fetches = &node, .n_fetches = 1, .values = &value};
    hs_code code = hs_backend_find(backend, name, &node, err);
    return code ? code : backend.ops->run(session, &call, err);
}

static void a_step_that_is_written_or_never_set_is_not_a_former_one(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_backend backend = open_graph("resource_steps.meta");
    void *session;
    const void *init;
    int64_t step, seven = 7;
    assert_ok(backend.ops->open(backend.self, "", (hs_bytes){NULL, 0}, &session, &err), &err);
    assert_int_equal(backend.ops->global_step(session, &step, &err), HS_FAILED_PRECONDITION);
    assert_int_not_equal(run(backend, session, "train_op", &err), HS_OK);
    assert_int_equal(backend.ops->global_step(session, &step, &err), HS_FAILED_PRECONDITION);
    const char *name;
    if (!hs_backend_collection_item(backend, HS_INIT_OP, 0, &init)) {
        assert_ok(backend.ops->default_op(backend.self, HS_INIT_OP, &name, &err), &err);
        init = name;
    }
    assert_ok(run(backend, session, init, &err), &err);
    assert_ok(backend.ops->global_step(session, &step, &err), &err);
    assert_int_equal(step, 0);
    assert_ok(run(backend, session, "train_op", &err), &err);
    assert_ok(backend.ops->global_step(session, &step, &err), &err);
    assert_int_equal(step, 1);
    hs_tensor value = hs_tensor_of(HS_INT64, HS_SCALAR, &seven);
    assert_ok(backend.ops->write_variable(session, 0, &value, &err), &err);
    assert_ok(backend.ops->global_step(session, &step, &err), &err);
    assert_int_equal(step, 7);
    assert_ok(backend.ops->close(session, &err), &err);
    hs_tensorflow_free(backend);
}

/* A variable that is read together with others has the same value as if it is read alone. A variable that is not
 * initialized is an error, and the others can still be read. */
static void variables_are_read_in_any_number(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_backend backend = open_graph("resource.meta");
    hs_variable variable;
    void *session;
    const void *init;
    size_t n = 0;
    assert_ok(backend.ops->open(backend.self, "", (hs_bytes){NULL, 0}, &session, &err), &err);
    assert_true(hs_backend_collection_item(backend, HS_INIT_OP, 0, &init));
    assert_ok(run(backend, session, init, &err), &err);
    while (hs_backend_variable(backend, n, &variable))
        n++;
    assert_true(n > 5);
    for (size_t i = 0; i < n; i++) {
        hs_tensor alone, value;
        char copy[64];
        hs_backend_variable(backend, i, &variable);
        assert_ok(run(backend, session, "loss_summary/tags", &err), &err);
        hs_code code = backend.ops->read_variable(session, i, &alone, &err);
        assert_int_equal(code, variable.flags & HS_VARIABLE_LOCAL ? HS_FAILED_PRECONDITION : HS_OK);
        if (code || variable.dtype == HS_STRING)
            continue;
        assert_true(alone.bytes <= sizeof copy);
        memcpy(copy, alone.data, alone.bytes);
        assert_ok(run(backend, session, "loss_summary/tags", &err), &err);
        for (size_t k = 0; k < n; k++) /* all others, including the local one, and then this one */
            backend.ops->read_variable(session, (i + k + 1) % n, &value, &err);
        assert_int_equal(value.bytes, alone.bytes);
        assert_memory_equal(value.data, copy, value.bytes);
    }
    assert_ok(backend.ops->close(session, &err), &err);
    hs_tensorflow_free(backend);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_step_is_that_after_the_run),
        cmocka_unit_test(variables_are_read_in_any_number),
        cmocka_unit_test(a_step_that_is_written_or_never_set_is_not_a_former_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
