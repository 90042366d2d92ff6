/* SPDX-License-Identifier: Apache-2.0 */
/* Initialization of variables. */
#include "backends/bare.h"

static void add_owned(bare *b, const char *name, const double *initial, uint64_t flags)
{
    hs_variable_def def = HS_INIT(hs_variable_def, .name = name, .dtype = HS_DOUBLE, .initial = initial, .flags = flags);
    assert_int_equal(hs_graph_add_variable(b->graph, &def), HS_OK);
}

static hs_code set_to_seven(void *self, const hs_tensor *value, hs_error *err)
{
    (void)err;
    assert_int_equal(value->bytes, sizeof(double));
    *(double *)value->data = 7;
    ++*(int *)self;
    return HS_OK;
}

/* Returns the names that the op reports, separated by spaces. */
static const char *reported(bare *b, const char *op)
{
    static char text[256];
    text[0] = '\0';
    assert_ok(bare_run(b, HS_NAMES(op), NULL, NULL), &b->err);
    const hs_string *names = b->values[0].data;
    assert_int_equal(b->values[0].dtype, HS_STRING);
    for (int64_t i = 0; i < b->values[0].dims[0]; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), i ? " %.*s" : "%.*s", (int)names[i].bytes, names[i].data);
    return text;
}

static const char ready[] = "report_uninitialized_variables";
static const char ready_for_local[] = "report_uninitialized_global_variables";

static void the_librarys_variables_get_their_initial_values(void **state)
{
    bare *b = *state;
    double initial = 3;
    int called = 0;
    add_owned(b, "zero", NULL, 0);
    add_owned(b, "three", &initial, 0);
    hs_variable_def seven =
        HS_INIT(hs_variable_def, .name = "seven", .dtype = HS_DOUBLE, .initialize = set_to_seven, .user = &called);
    hs_graph_add_variable(b->graph, &seven);
    bare_open(b);
    initial = 4; /* the init op reads it */
    bare_number(b, "init");
    assert_true(bare_number(b, "zero") == 0);
    assert_true(bare_number(b, "three") == 4);
    assert_true(bare_number(b, "seven") == 7);
    assert_int_equal(called, 1);
}

static void the_programs_memory_keeps_its_value(void **state)
{
    bare *b = *state;
    double w = 5;
    hs_graph_variable(b->graph, "w", HS_DOUBLE, HS_SCALAR, &w);
    bare_open(b);
    assert_true(bare_number(b, "w") == 5); /* it needs no init op */
    bare_number(b, "init");
    assert_true(w == 5);
}

static void the_programs_memory_may_be_initialized(void **state)
{
    bare *b = *state;
    double given = 1, called = 1, initial = 2;
    int calls = 0;
    hs_variable_def def =
        HS_INIT(hs_variable_def, .name = "given", .dtype = HS_DOUBLE, .data = &given, .initial = &initial);
    hs_graph_add_variable(b->graph, &def);
    def = (hs_variable_def)HS_INIT(hs_variable_def, .name = "called", .dtype = HS_DOUBLE, .data = &called,
                                   .initialize = set_to_seven, .user = &calls);
    hs_graph_add_variable(b->graph, &def);
    bare_open(b);
    bare_number(b, "init");
    assert_true(given == 2 && called == 7);
}

static void reading_before_the_init_op_is_refused(void **state)
{
    bare *b = *state;
    hs_tensor value;
    add_owned(b, "w", NULL, 0);
    hs_graph_op(b->graph, .name = "more", .run = bare_add_one, .inputs = HS_NAMES("w"), .outputs = BARE_SCALAR);
    bare_open(b);
    assert_fails(bare_run(b, HS_NAMES("w"), NULL, NULL), HS_FAILED_PRECONDITION, &b->err,
                 "variable 'w' is not initialized");
    assert_fails(bare_run(b, HS_NAMES("more"), NULL, NULL), HS_FAILED_PRECONDITION, &b->err, "op 'more' reads it");
    assert_fails(b->ops->read_variable(b->session, 0, &value, &b->err), HS_FAILED_PRECONDITION, &b->err, "'w'");
    assert_int_equal(b->ops->global_step(b->session, &(int64_t){0}, &b->err), HS_FAILED_PRECONDITION);
}

static void an_op_that_writes_a_variable_initializes_it(void **state)
{
    bare *b = *state;
    add_owned(b, "w", NULL, 0);
    hs_graph_op(b->graph, .name = "assign", .run = bare_bump, .writes = HS_NAMES("w"));
    bare_open(b);
    assert_string_equal(reported(b, ready), "w");
    assert_ok(bare_run(b, HS_NAMES("assign", "w"), NULL, NULL), &b->err);
    assert_true(hs_tensor_number(&b->values[1], 0) == 1);
    assert_string_equal(reported(b, ready), "");
}

/* An init op of the program: b's first value depends on a's. */
static void one_op_may_read_what_another_has_initialized_before(void **state)
{
    bare *b = *state;
    add_owned(b, "a", NULL, 0);
    hs_graph_op(b->graph, .name = "init_a", .run = bare_bump, .writes = HS_NAMES("a"));
    hs_graph_op(b->graph, .name = "b", .run = bare_add_one, .inputs = HS_NAMES("a"), .control_inputs = HS_NAMES("init_a"),
                .outputs = BARE_SCALAR);
    bare_open(b);
    assert_true(bare_number(b, "b") == 2);
}

static void a_failed_op_initializes_nothing(void **state)
{
    bare *b = *state;
    add_owned(b, "w", NULL, 0);
    hs_graph_op(b->graph, .name = "assign", .run = bare_fail, .writes = HS_NAMES("w"));
    bare_open(b);
    assert_int_equal(bare_run(b, HS_NAMES("assign"), NULL, NULL), HS_ABORTED);
    assert_string_equal(reported(b, ready), "w");
}

static hs_code refuse(void *self, const hs_tensor *value, hs_error *err)
{
    (void)self, (void)value;
    return hs_error_set(err, HS_UNAVAILABLE, "no entropy");
}

static void a_failing_initializer_is_named(void **state)
{
    bare *b = *state;
    hs_variable_def def = HS_INIT(hs_variable_def, .name = "w", .dtype = HS_DOUBLE, .initialize = refuse);
    hs_graph_add_variable(b->graph, &def);
    add_owned(b, "v", NULL, 0);
    bare_open(b);
    assert_fails(bare_run(b, HS_NAMES("init"), NULL, NULL), HS_UNAVAILABLE, &b->err, "variable 'w': no entropy");
    assert_string_equal(reported(b, ready), "w v");
}

static void local_variables_have_a_separate_init_op(void **state)
{
    bare *b = *state;
    double initial = 2;
    add_owned(b, "global", &initial, 0);
    add_owned(b, "local", &initial, HS_VARIABLE_LOCAL);
    bare_open(b);
    assert_string_equal(reported(b, ready), "global local");
    assert_string_equal(reported(b, ready_for_local), "global");
    bare_number(b, "init");
    assert_string_equal(reported(b, ready), "local");
    assert_string_equal(reported(b, ready_for_local), "");
    bare_number(b, "local_init");
    assert_string_equal(reported(b, ready), "");
    assert_true(bare_number(b, "local") == 2);
}

static void a_graph_without_variables_is_ready(void **state)
{
    bare *b = *state;
    bare_open(b);
    bare_number(b, "init");
    bare_number(b, "local_init");
    assert_string_equal(reported(b, ready), "");
}

static void the_graphs_builtin_ops_get_unused_names(void **state)
{
    bare *b = *state;
    const char *name;
    bare_op(b, .name = "init");
    bare_op(b, .name = "init_1");
    assert_ok(b->ops->default_op(b->graph, HS_INIT_OP, &name, &b->err), &b->err);
    assert_string_equal(name, "init_2");
    assert_ok(b->ops->default_op(b->graph, HS_SUMMARY_OP, &name, &b->err), &b->err);
    assert_null(name); /* the graph has no summaries */
    bare_open(b);
    bare_number(b, "init");
    assert_string_equal(b->trace, "init");
}

static void variables_are_listed_in_their_order(void **state)
{
    bare *b = *state;
    hs_variable variable;
    for (int opened = 0; opened < 2; opened++) { /* before and after the graph is resolved */
        if (!opened) {
            add_owned(b, "w", NULL, 0);
            bare_op(b, .name = "train", .advances_step = true);
            add_owned(b, "seen", NULL, HS_VARIABLE_LOCAL);
        } else {
            bare_open(b);
        }
        hs_backend backend = hs_graph_backend(b->graph);
        assert_true(hs_backend_variable(backend, 0, &variable) && !strcmp(variable.name, "w"));
        assert_true(hs_backend_variable(backend, 1, &variable) && !strcmp(variable.name, "global_step"));
        assert_int_equal(variable.dtype, HS_INT64);
        assert_true(hs_backend_variable(backend, 2, &variable) && variable.flags == HS_VARIABLE_LOCAL);
        assert_false(hs_backend_variable(backend, 3, &variable));
    }
}

static void a_graph_that_grew_has_its_new_variables(void **state)
{
    bare *b = *state;
    hs_variable variable;
    for (int i = 0; i < 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        add_owned(b, name, NULL, 0);
        bare_open(b);
        assert_true(hs_backend_variable(hs_graph_backend(b->graph), (size_t)i, &variable));
        assert_string_equal(variable.name, name);
        assert_false(hs_backend_variable(hs_graph_backend(b->graph), (size_t)i + 1, &variable));
        bare_close(b);
    }
}

static void writing_a_variable_initializes_it(void **state)
{
    bare *b = *state;
    double five = 5;
    hs_tensor value = hs_tensor_of(HS_DOUBLE, HS_SCALAR, &five), back;
    add_owned(b, "w", NULL, 0);
    bare_open(b);
    assert_ok(b->ops->write_variable(b->session, 0, &value, &b->err), &b->err);
    assert_ok(b->ops->read_variable(b->session, 0, &back, &b->err), &b->err);
    assert_true(*(double *)back.data == 5 && back.data != &five);
    assert_string_equal(reported(b, ready), "");
}

static void each_session_has_private_variables_of_the_library(void **state)
{
    bare *b = *state;
    add_owned(b, "w", NULL, 0);
    hs_graph_op(b->graph, .name = "bump", .run = bare_bump, .writes = HS_NAMES("w"));
    bare_open(b);
    void *first = b->session;
    bare_number(b, "init");
    bare_number(b, "bump");
    assert_ok(b->ops->open(b->graph, "", (hs_bytes){NULL, 0}, &b->session, &b->err), &b->err);
    assert_string_equal(reported(b, ready), "w");
    bare_number(b, "init");
    assert_true(bare_number(b, "w") == 0);
    b->ops->close(b->session, NULL);
    b->session = first;
    assert_true(bare_number(b, "w") == 1);
}

static void the_programs_memory_has_one_session_at_a_time(void **state)
{
    bare *b = *state;
    double w = 0;
    void *second = NULL;
    hs_graph_variable(b->graph, "w", HS_DOUBLE, HS_SCALAR, &w);
    bare_open(b);
    assert_fails(b->ops->open(b->graph, "", (hs_bytes){NULL, 0}, &second, &b->err), HS_FAILED_PRECONDITION, &b->err,
                 "in the program's memory");
    assert_null(second);
    bare_close(b);
    bare_open(b);
}

/* The graph cannot change while one of two sessions is open. */
static void a_graph_stays_finalized_while_a_session_is_open(void **state)
{
    bare *b = *state;
    add_owned(b, "w", NULL, 0);
    hs_session *first = hs_session_open(hs_graph_backend(b->graph), NULL, &b->err);
    hs_session *second = hs_session_open(hs_graph_backend(b->graph), NULL, &b->err);
    assert_non_null(second);
    hs_session_close(first, NULL); /* this session finalized the graph */
    assert_int_equal(bare_op(b, .name = "late"), HS_FAILED_PRECONDITION);
    assert_ok(hs_session_run(second, "w", &b->err), &b->err);
    hs_session_close(second, NULL);
    assert_int_equal(bare_op(b, .name = "late"), HS_OK);
}

static void only_this_process_is_a_target(void **state)
{
    bare *b = *state;
    void *session = NULL;
    bare_open(b);
    assert_fails(b->ops->open(b->graph, "grpc://far:1", (hs_bytes){NULL, 0}, &session, &b->err), HS_INVALID_ARGUMENT,
                 &b->err, "to target 'grpc://far:1'");
    assert_ok(b->ops->open(b->graph, "local", (hs_bytes){NULL, 0}, &session, &b->err), &b->err);
    b->ops->close(session, NULL);
}

#define test(name) cmocka_unit_test_setup_teardown(name, bare_setup, bare_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(the_librarys_variables_get_their_initial_values),
        test(the_programs_memory_keeps_its_value),
        test(the_programs_memory_may_be_initialized),
        test(reading_before_the_init_op_is_refused),
        test(an_op_that_writes_a_variable_initializes_it),
        test(one_op_may_read_what_another_has_initialized_before),
        test(a_failed_op_initializes_nothing),
        test(a_failing_initializer_is_named),
        test(local_variables_have_a_separate_init_op),
        test(a_graph_without_variables_is_ready),
        test(the_graphs_builtin_ops_get_unused_names),
        test(variables_are_listed_in_their_order),
        test(a_graph_that_grew_has_its_new_variables),
        test(writing_a_variable_initializes_it),
        test(each_session_has_private_variables_of_the_library),
        test(the_programs_memory_has_one_session_at_a_time),
        test(a_graph_stays_finalized_while_a_session_is_open),
        test(only_this_process_is_a_target),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
