/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/bare.h"

#include "backends/refused.h"

#include <hooksess/testing.h>

/* The graph recorded this as its first error. */
#define assert_recorded(b, code, text) assert_says(test_graph_error((b)->graph), code, text)

static void an_empty_graph_has_no_error_and_opens(void **state)
{
    bare *b = *state;
    assert_int_equal(hs_graph_error(b->graph, NULL), HS_OK);
    assert_false(test_graph_has(b->graph, "x"));
    bare_open(b);
}

static void names_of_allowed_letters_are_accepted(void **state)
{
    bare *b = *state;
    double x;
    const char *const names[] = {"a", "Z9", "_x", ".hidden", "0", "layer_1/w-2.b"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(hs_graph_value(b->graph, names[i], HS_DOUBLE, HS_SCALAR, &x), HS_OK);
        assert_true(test_graph_has(b->graph, names[i]));
    }
}

static void names_with_other_letters_are_refused(void **state)
{
    bare *b = *state;
    double x;
    const char *const names[] = {"", "/x", "-x", "a b", "loss:0", "^x", "a\n", "\xc3\xa4"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(hs_graph_value(b->graph, names[i], HS_DOUBLE, HS_SCALAR, &x), HS_INVALID_ARGUMENT);
    assert_int_equal(hs_graph_value(b->graph, NULL, HS_DOUBLE, HS_SCALAR, &x), HS_INVALID_ARGUMENT);
}

static void names_reserved_for_state_are_refused(void **state)
{
    bare *b = *state;
    double x;
    hs_graph_variable(b->graph, "hooksess/hook/x", HS_DOUBLE, HS_SCALAR, &x);
    assert_recorded(b, HS_INVALID_ARGUMENT, "'hooksess/hook/x': names that begin with hooksess/ are reserved");
}

static void names_are_copied(void **state)
{
    bare *b = *state;
    char name[] = "loss", input[] = "loss";
    double x = 3;
    hs_graph_value(b->graph, name, HS_DOUBLE, HS_SCALAR, &x);
    const char *inputs[] = {input, NULL};
    hs_graph_op(b->graph, .name = "more", .run = bare_add_one, .inputs = inputs, .outputs = BARE_SCALAR);
    name[0] = input[0] = '?';
    inputs[0] = NULL;
    bare_open(b);
    assert_true(bare_number(b, "more") == 4);
}

static void two_nodes_cannot_have_one_name(void **state)
{
    bare *b = *state;
    double x;
    hs_graph_value(b->graph, "x", HS_DOUBLE, HS_SCALAR, &x);
    assert_int_equal(bare_op(b, .name = "x"), HS_ALREADY_EXISTS);
    assert_int_equal(hs_graph_variable(b->graph, "x", HS_DOUBLE, HS_SCALAR, &x), HS_ALREADY_EXISTS);
    assert_int_equal(hs_graph_placeholder(b->graph, "x", HS_DOUBLE, HS_SCALAR), HS_ALREADY_EXISTS);
    assert_recorded(b, HS_ALREADY_EXISTS, "op 'x'"); /* the first of three errors */
}

static void opening_reports_the_first_building_error(void **state)
{
    bare *b = *state;
    hs_graph_value(b->graph, "first", HS_DOUBLE, HS_SCALAR, NULL);
    hs_graph_value(b->graph, "second", HS_DOUBLE, HS_SCALAR, NULL);
    for (int i = 0; i < 2; i++) {
        assert_null(hs_session_open(hs_graph_backend(b->graph), NULL, &b->err));
        assert_says(&b->err, HS_INVALID_ARGUMENT, "value 'first': data is NULL");
    }
    assert_fails(b->ops->finalize(b->graph, true, &b->err), HS_INVALID_ARGUMENT, &b->err, "'first'");
    assert_fails(b->ops->open(b->graph, "", (hs_bytes){NULL, 0}, &b->session, &b->err), HS_INVALID_ARGUMENT, &b->err,
                 "'first'");
}

/* A constant shape would not compile with optimization. */
static void an_array_smaller_than_its_shape_is_refused(void **state)
{
    bare *b = *state;
    static float weights[2];
    volatile int64_t n = 20;
    assert_int_equal(hs_graph_variable(b->graph, "w", HS_FLOAT, HS_SHAPE(2), weights), HS_OK);
    assert_int_equal(hs_graph_value(b->graph, "v", HS_FLOAT, HS_SHAPE(n), weights), HS_INVALID_ARGUMENT);
    assert_says(test_graph_error(b->graph), HS_INVALID_ARGUMENT,
                "the shape of 'v' needs 80 bytes, but its memory has only 8");
    assert_int_equal(hs_graph_variable(b->graph, "u", HS_FLOAT, HS_SHAPE(n), weights + 1), HS_INVALID_ARGUMENT);
}

static void more_bytes_than_the_memory_has_are_refused(void **state)
{
    bare *b = *state;
    static float weights[2];
    volatile size_t n = 20;
    assert_int_equal(hs_graph_bytes(b->graph, "b", weights, n), HS_INVALID_ARGUMENT);
    assert_says(test_graph_error(b->graph), HS_INVALID_ARGUMENT, "'b': bytes is 20, but its memory has only 8");
}

/* The pointer of memory that the first step allocates is NULL. */
static void a_variable_without_memory_is_refused(void **state)
{
    bare *b = *state;
    float *none = NULL;
    assert_int_equal(hs_graph_variable(b->graph, "adam_m", HS_FLOAT, HS_SHAPE(3), none), HS_INVALID_ARGUMENT);
    assert_null(hs_session_open(hs_graph_backend(b->graph), NULL, &b->err));
    assert_says(&b->err, HS_INVALID_ARGUMENT,
                "variable 'adam_m': data is NULL; for memory that is allocated later use hs_graph_variable_at, and for "
                "separate memory in each session hs_graph_add_variable");
}

/* The hooks are destroyed, and their begin is not called. */
static void a_building_error_comes_before_the_hooks(void **state)
{
    bare *b = *state;
    hs_script *script = hs_script_new(&b->t.env);
    hs_hook_ops ops = HS_INIT(hs_hook_ops, .name = "h");
    hs_hook hook = hs_script_watch(script, NULL, (hs_hook){.ops = &ops});
    hs_graph_value(b->graph, "x", HS_DOUBLE, HS_SCALAR, NULL);
    hs_session_options options = HS_INIT(hs_session_options, .hooks = HS_HOOKS(hook));
    assert_null(hs_session_open(hs_graph_backend(b->graph), &options, &b->err));
    assert_string_equal(hs_script_calls(script), "");
    hs_script_free(script);
}

static hs_code no_copy(void *user, void *host, const void *device, size_t bytes, hs_error *err)
{
    (void)user, (void)host, (void)device, (void)bytes, (void)err;
    return HS_OK;
}

static void no_hold(void *user)
{
    (void)user;
}

static void variables_are_checked(void **state)
{
    bare *b = *state;
    double x;
    hs_memory half = HS_INIT(hs_memory), one_way = HS_INIT(hs_memory, .to_host = no_copy), no_size = {.to_host = no_copy};
    hs_memory no_restore = HS_INIT(hs_memory, .to_host = no_copy, .from_host = no_copy, .hold = no_hold);
    no_size.from_host = no_copy;
    const struct {
        hs_variable_def def;
        const char *says;
    } cases[] = {
        {HS_INIT(hs_variable_def, .name = "a", .dtype = 99), "dtype 99 does not exist"},
        {HS_INIT(hs_variable_def, .name = "b", .dtype = HS_STRING), "is of type string, which variables cannot have"},
        {HS_INIT(hs_variable_def, .name = "c", .dtype = HS_DOUBLE, .shape = HS_SHAPE(-1)), "dimension 0 is -1"},
        {HS_INIT(hs_variable_def, .name = "d", .dtype = HS_DOUBLE, .shape = HS_ANY_SHAPE), "rank is -1"},
        {HS_INIT(hs_variable_def, .name = "e", .dtype = HS_DOUBLE, .shape = HS_SHAPE(INT64_MAX, 2)), "too large"},
        {HS_INIT(hs_variable_def, .name = "f", .dtype = HS_DOUBLE, .shape = HS_SHAPE(INT64_MAX / 4)), "too large"},
        {HS_INIT(hs_variable_def, .name = "g", .dtype = HS_DOUBLE, .data = &x, .memory = &half), "to_host and from_host"},
        {HS_INIT(hs_variable_def, .name = "i", .dtype = HS_DOUBLE, .data = &x, .memory = &one_way),
         "to_host and from_host"},
        {HS_INIT(hs_variable_def, .name = "j", .dtype = HS_DOUBLE, .data = &x, .memory = &no_size), "HS_INIT(hs_memory"},
        {HS_INIT(hs_variable_def, .name = "k", .dtype = HS_DOUBLE, .data = &x, .memory = &no_restore),
         "variable 'k': memory has only some of duplicate, release, hold, restore and wait"},
        {HS_INIT(hs_variable_def, .dtype = HS_DOUBLE), "the name of a new variable is NULL"},
        {{.name = "h", .dtype = HS_DOUBLE}, "HS_INIT(hs_variable_def"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hs_graph *graph = hs_graph_new(&b->t.env);
        assert_int_equal(hs_graph_add_variable(graph, &cases[i].def), HS_INVALID_ARGUMENT);
        assert_says(test_graph_error(graph), HS_INVALID_ARGUMENT, cases[i].says);
        hs_graph_free(graph);
    }
}

static hs_code no_save(void *self, hs_state_writer *out, hs_error *err)
{
    (void)self, (void)out, (void)err;
    return HS_OK;
}

static hs_code no_load(void *self, hs_state_reader *in, hs_error *err)
{
    (void)self, (void)in, (void)err;
    return HS_OK;
}

/* A program that checks no codes builds on the NULL of hs_graph_new. */
static void building_a_null_graph_returns_an_error(void **state)
{
    double x;
    (void)state;
    const hs_variable_def variable = HS_INIT(hs_variable_def, .name = "x", .dtype = HS_DOUBLE);
    const hs_code codes[] = {
        hs_graph_add_variable(NULL, &variable),
        hs_graph_add_variable(NULL, NULL),
        hs_graph_variable(NULL, "x", HS_DOUBLE, HS_SCALAR, &x),
        hs_graph_value(NULL, "x", HS_DOUBLE, HS_SCALAR, &x),
        hs_graph_placeholder(NULL, "x", HS_DOUBLE, HS_SCALAR),
        hs_graph_global_step(NULL, NULL, NULL),
        hs_graph_op(NULL, .name = "x"),
        hs_graph_add_op(NULL, NULL),
        hs_graph_state(NULL, "x", no_save, no_load, NULL),
        hs_graph_collect(NULL, HS_SUMMARY_OP, "x"),
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        assert_int_equal(codes[i], HS_INVALID_ARGUMENT);
    assert_int_equal(hs_graph_error(NULL, NULL), HS_RESOURCE_EXHAUSTED);
    assert_null(hs_graph_of((hs_backend){NULL, NULL}));
    hs_graph_free(NULL);
}

static void null_in_a_definition_is_refused(void **state)
{
    bare *b = *state;
    double x;
    hs_graph *g = b->graph;
    const hs_code codes[] = {
        hs_graph_add_variable(g, NULL),
        hs_graph_variable(g, NULL, HS_DOUBLE, HS_SCALAR, &x),
        hs_graph_value(g, NULL, HS_DOUBLE, HS_SCALAR, &x),
        hs_graph_value(g, "x", HS_DOUBLE, HS_SCALAR, NULL),
        hs_graph_placeholder(g, NULL, HS_DOUBLE, HS_SCALAR),
        hs_graph_add_op(g, NULL),
        hs_graph_op(g, .name = NULL),
        hs_graph_state(g, NULL, no_save, no_load, NULL),
        hs_graph_state(g, "x", NULL, no_load, NULL),
        hs_graph_state(g, "x", no_save, NULL, NULL),
        hs_graph_collect(g, NULL, "x"),
        hs_graph_collect(g, HS_SUMMARY_OP, NULL),
        hs_graph_collect(g, HS_SAVERS, NULL),
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        assert_int_equal(codes[i], HS_INVALID_ARGUMENT);
    assert_recorded(b, HS_INVALID_ARGUMENT, "hs_graph_add_variable: def is NULL"); /* the first error */
    assert_int_equal(test_collection_size(hs_graph_backend(g), HS_SUMMARY_OP), 0);
}

static void functions_of_an_op_accept_null(void **state)
{
    (void)state;
    const double one = 1;
    hs_tensor value = hs_tensor_of(HS_DOUBLE, HS_SCALAR, &one);
    assert_null(hs_op_input(NULL, 0));
    assert_null(hs_op_output(NULL, 0));
    assert_null(hs_op_written(NULL, 0));
    assert_refused(HS_INVALID_ARGUMENT, hs_op_set_output(NULL, 0, &value, err));
    assert_int_equal(hs_op_global_step(NULL, NULL), -1);
    assert_null(hs_op_name(NULL));
}

static hs_code set_nothing(void *self, hs_op *op, hs_error *err)
{
    (void)self;
    return hs_op_set_output(op, 0, NULL, err);
}

static void an_output_that_is_set_to_null_is_refused(void **state)
{
    bare *b = *state;
    hs_graph_op(b->graph, .name = "x", .run = set_nothing, .outputs = HS_OUTPUTS({HS_DOUBLE, .shape = HS_ANY_SHAPE}));
    bare_open(b);
    assert_fails(bare_run(b, HS_NAMES("x"), NULL, NULL), HS_INVALID_ARGUMENT, &b->err, "op 'x': tensor is NULL");
}

static void outputs_are_checked(void **state)
{
    bare *b = *state;
    double x;
    const struct {
        hs_op_def def;
        const char *says;
    } cases[] = {
        {HS_INIT(hs_op_def, .name = "a", .outputs = BARE_SCALAR), "op 'a' has outputs, but no function (run)"},
        {HS_INIT(hs_op_def, .name = "b", .run = bare_fail, .outputs = HS_OUTPUTS({.dtype = 15 + 50})),
         "dtype 65 does not exist"},
        {HS_INIT(hs_op_def, .name = "c", .run = bare_fail, .outputs = HS_OUTPUTS({HS_DOUBLE, .shape = {.rank = 9}})),
         "rank is 9"},
        {HS_INIT(hs_op_def, .name = "d", .run = bare_fail,
                 .outputs = HS_OUTPUTS({HS_DOUBLE, .shape = {1, 0, {-1}}, .data = &x})),
         "output 0 has data, so its shape must be fully known"},
        {HS_INIT(hs_op_def, .run = bare_fail), "the name of a new op is NULL"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        hs_graph *graph = hs_graph_new(&b->t.env);
        assert_int_equal(hs_graph_add_op(graph, &cases[i].def), HS_INVALID_ARGUMENT);
        assert_says(test_graph_error(graph), HS_INVALID_ARGUMENT, cases[i].says);
        hs_graph_free(graph);
    }
}

static void a_second_global_step_is_refused(void **state)
{
    bare *b = *state;
    assert_int_equal(hs_graph_global_step(b->graph, "steps", NULL), HS_OK);
    assert_string_equal(hs_backend_global_step_name(hs_graph_backend(b->graph)), "steps");
    assert_int_equal(hs_graph_global_step(b->graph, NULL, NULL), HS_ALREADY_EXISTS);
    assert_recorded(b, HS_ALREADY_EXISTS, "the graph already has the global step 'steps'");
}

static void a_fitting_variable_is_the_global_step(void **state)
{
    bare *b = *state;
    double floating = 0;
    int64_t step = 41;
    assert_null(hs_backend_global_step_name(hs_graph_backend(b->graph)));
    hs_graph_variable(b->graph, "other", HS_DOUBLE, HS_SCALAR, &floating);
    hs_graph_variable(b->graph, "global_step", HS_INT64, HS_SCALAR, &step);
    bare_op(b, .name = "train", .advances_step = true);
    bare_open(b);
    bare_number(b, "train");
    assert_int_equal(step, 42);
}

static void an_invalid_global_step_is_reported_when_an_op_advances_it(void **state)
{
    bare *b = *state;
    double step = 0;
    assert_int_equal(hs_graph_variable(b->graph, "global_step", HS_DOUBLE, HS_SCALAR, &step), HS_OK);
    assert_null(hs_backend_global_step_name(hs_graph_backend(b->graph)));
    assert_int_equal(bare_op(b, .name = "train", .advances_step = true), HS_ALREADY_EXISTS);
    assert_recorded(b, HS_ALREADY_EXISTS, "global_step");
}

static void states_are_checked(void **state)
{
    bare *b = *state;
    assert_int_equal(hs_graph_state(b->graph, "rng", no_save, NULL, NULL), HS_INVALID_ARGUMENT);
    assert_int_equal(hs_graph_state(b->graph, "rng", NULL, no_load, NULL), HS_INVALID_ARGUMENT);
    assert_recorded(b, HS_INVALID_ARGUMENT, "state 'rng': save or load is NULL");
    assert_int_equal(hs_graph_state(b->graph, "a b", no_save, no_load, NULL), HS_INVALID_ARGUMENT);
    assert_int_equal(hs_graph_state(b->graph, NULL, no_save, no_load, NULL), HS_INVALID_ARGUMENT);
}

static void states_are_listed_in_their_order(void **state)
{
    bare *b = *state;
    int self;
    assert_int_equal(hs_graph_state(b->graph, "loader", no_save, no_load, &self), HS_OK);
    assert_int_equal(hs_graph_state(b->graph, "rng", no_save, no_load, NULL), HS_OK);
    assert_int_equal(hs_graph_state(b->graph, "loader", no_save, no_load, NULL), HS_ALREADY_EXISTS);
    assert_string_equal(b->ops->state(b->graph, 0)->name, "loader");
    assert_ptr_equal(b->ops->state(b->graph, 0)->self, &self);
    assert_string_equal(b->ops->state(b->graph, 1)->name, "rng");
    assert_null(b->ops->state(b->graph, 2));
}

static void collections_keep_copies_in_their_order(void **state)
{
    bare *b = *state;
    char name[] = "merged";
    const void *item;
    hs_backend backend = hs_graph_backend(b->graph);
    hs_graph_collect(b->graph, HS_SUMMARY_OP, name);
    hs_graph_collect(b->graph, HS_SUMMARY_OP, "other");
    name[0] = '?';
    assert_true(hs_backend_collection_item(backend, HS_SUMMARY_OP, 0, &item));
    assert_string_equal(item, "merged");
    assert_true(hs_backend_collection_item(backend, HS_SUMMARY_OP, 1, &item));
    assert_string_equal(item, "other");
    assert_false(hs_backend_collection_item(backend, HS_SUMMARY_OP, 2, &item));
    assert_false(hs_backend_collection_item(backend, "nothing", 0, &item));
}

/* The items of the collection are savers, not names. */
static void a_name_in_the_collection_of_savers_is_refused(void **state)
{
    bare *b = *state;
    assert_int_equal(hs_graph_collect(b->graph, HS_SAVERS, "my_saver"), HS_INVALID_ARGUMENT);
    assert_int_equal(test_collection_size(hs_graph_backend(b->graph), HS_SAVERS), 0);
    assert_recorded(b, HS_INVALID_ARGUMENT, "savers");
}

static void the_backend_of_a_null_graph_does_not_open(void **state)
{
    bare *b = *state;
    assert_int_equal(hs_graph_error(NULL, NULL), HS_RESOURCE_EXHAUSTED);
    assert_null(hs_session_open(hs_graph_backend(NULL), NULL, &b->err));
    assert_says(&b->err, HS_RESOURCE_EXHAUSTED, "graph is NULL");
    assert_null(hs_graph_of(hs_graph_backend(NULL)));
    assert_int_equal(hs_backend_find(hs_graph_backend(NULL), "x", &(hs_node){0}, NULL), HS_RESOURCE_EXHAUSTED);
    hs_graph_free(NULL);
}

static void a_backend_knows_its_graph(void **state)
{
    bare *b = *state;
    hs_script *script = hs_script_new(&b->t.env);
    assert_ptr_equal(hs_graph_of(hs_graph_backend(b->graph)), b->graph);
    assert_null(hs_graph_of(hs_script_backend(script)));
    hs_script_free(script);
}

static void a_half_filled_env_is_reported_by_opening(void **state)
{
    bare *b = *state;
    hs_env env = HS_INIT(hs_env, .clock = {.monotonic_ns = b->t.env.clock.monotonic_ns});
    hs_graph *graph = hs_graph_new(&env);
    assert_null(hs_session_open(hs_graph_backend(graph), NULL, &b->err));
    assert_says(&b->err, HS_INVALID_ARGUMENT, "hs_env.clock");
    hs_graph_free(graph);
}

#define test(name) cmocka_unit_test_setup_teardown(name, bare_setup, bare_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(a_variable_without_memory_is_refused),
        test(more_bytes_than_the_memory_has_are_refused),
        test(an_array_smaller_than_its_shape_is_refused),
        test(an_empty_graph_has_no_error_and_opens),
        test(names_of_allowed_letters_are_accepted),
        test(names_with_other_letters_are_refused),
        test(names_reserved_for_state_are_refused),
        test(names_are_copied),
        test(two_nodes_cannot_have_one_name),
        test(opening_reports_the_first_building_error),
        test(a_building_error_comes_before_the_hooks),
        test(variables_are_checked),
        cmocka_unit_test(building_a_null_graph_returns_an_error),
        test(null_in_a_definition_is_refused),
        cmocka_unit_test(functions_of_an_op_accept_null),
        test(an_output_that_is_set_to_null_is_refused),
        test(outputs_are_checked),
        test(a_second_global_step_is_refused),
        test(a_fitting_variable_is_the_global_step),
        test(an_invalid_global_step_is_reported_when_an_op_advances_it),
        test(states_are_checked),
        test(states_are_listed_in_their_order),
        test(collections_keep_copies_in_their_order),
        test(a_name_in_the_collection_of_savers_is_refused),
        test(the_backend_of_a_null_graph_does_not_open),
        test(a_backend_knows_its_graph),
        test(a_half_filled_env_is_reported_by_opening),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
