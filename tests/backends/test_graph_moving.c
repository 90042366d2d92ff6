/* SPDX-License-Identifier: Apache-2.0 */
/* Variables in memory that moves, or that a step allocates. */
#include "backends/bare.h"

enum { N = 3 };

static hs_tensor read(bare *b)
{
    hs_tensor value;
    assert_ok(b->ops->read_variable(b->session, 0, &value, &b->err), &b->err);
    return value;
}

static void write(bare *b, const double *numbers)
{
    const hs_tensor value = hs_tensor_of(HS_DOUBLE, HS_SHAPE(N), numbers);
    assert_ok(b->ops->write_variable(b->session, 0, &value, &b->err), &b->err);
}

static void a_moving_variable_is_read_where_its_pointer_points(void **state)
{
    bare *b = *state;
    double first[N] = {1, 2, 3}, second[N] = {4, 5, 6}, *m = first;
    assert_int_equal(hs_graph_variable_at(b->graph, "m", HS_DOUBLE, HS_SHAPE(N), &m), HS_OK);
    bare_open(b);
    assert_ptr_equal(read(b).data, first);
    m = second;
    assert_ptr_equal(read(b).data, second);
    assert_true(bare_number(b, "m") == 4);
    m = first;
    assert_true(bare_number(b, "m") == 1);
    write(b, (double[]){7, 8, 9});
    assert_true(first[0] == 7 && second[0] == 4);
}

static hs_code swap(void *user, hs_op *op, hs_error *err)
{
    double **pointers = user;
    (void)op, (void)err;
    double *before = pointers[0];
    pointers[0] = pointers[1];
    pointers[1] = before;
    return HS_OK;
}

/* An op of the same run moves the memory. */
static void an_op_may_move_a_variable(void **state)
{
    bare *b = *state;
    double first = 1, second = 2, *pointers[] = {&first, &second};
    hs_graph_variable_at(b->graph, "u", HS_DOUBLE, HS_SCALAR, &pointers[0]);
    hs_graph_op(b->graph, .name = "swap", .run = swap, .user = pointers);
    hs_graph_op(b->graph, .name = "next", .run = bare_add_one, .inputs = HS_NAMES("u"), .control_inputs = HS_NAMES("swap"),
                .outputs = BARE_SCALAR);
    hs_graph_op(b->graph, .name = "bump", .run = bare_bump, .writes = HS_NAMES("u"), .control_inputs = HS_NAMES("next"));
    bare_open(b);
    assert_ok(bare_run(b, HS_NAMES("next", "bump", "u"), NULL, NULL), &b->err);
    assert_true(hs_tensor_number(&b->values[0], 0) == 3);
    assert_true(hs_tensor_number(&b->values[2], 0) == 3);
    assert_true(first == 1 && second == 3);
}

static hs_code allocate(void *user, hs_op *op, hs_error *err)
{
    double **m = user;
    (void)err;
    assert_null(hs_op_written(op, 0)->data);
    *m = calloc(N, sizeof **m);
    return HS_OK;
}

static void an_op_may_allocate_a_variable(void **state)
{
    bare *b = *state;
    double *m = NULL;
    hs_graph_variable_at(b->graph, "m", HS_DOUBLE, HS_SHAPE(N), &m);
    hs_graph_op(b->graph, .name = "allocate", .run = allocate, .user = &m, .writes = HS_NAMES("m"));
    hs_graph_op(b->graph, .name = "sum", .run = bare_sum, .inputs = HS_NAMES("m"), .outputs = BARE_SCALAR);
    bare_open(b);
    bare_number(b, "init");
    assert_null(m);
    assert_null(read(b).data);
    assert_fails(bare_run(b, HS_NAMES("m"), NULL, NULL), HS_FAILED_PRECONDITION, &b->err, "variable 'm' has no memory yet");
    assert_fails(bare_run(b, HS_NAMES("sum"), NULL, NULL), HS_FAILED_PRECONDITION, &b->err,
                 "variable 'm' has no memory yet, but op 'sum' reads it");
    assert_ok(bare_run(b, HS_NAMES("allocate", "m"), NULL, NULL), &b->err);
    assert_ptr_equal(b->values[1].data, m);
    free(m);
}

static void a_fed_variable_needs_no_memory(void **state)
{
    bare *b = *state;
    double *m = NULL;
    hs_graph_variable_at(b->graph, "m", HS_DOUBLE, HS_SCALAR, &m);
    hs_graph_op(b->graph, .name = "next", .run = bare_add_one, .inputs = HS_NAMES("m"), .outputs = BARE_SCALAR);
    bare_open(b);
    const double four = 4;
    const hs_feed feeds[] = {{"m", hs_tensor_of(HS_DOUBLE, HS_SCALAR, &four)}, {.name = NULL}};
    assert_ok(bare_run(b, HS_NAMES("next", "m"), feeds, NULL), &b->err);
    assert_true(hs_tensor_number(&b->values[0], 0) == 5);
}

static void a_moving_variable_is_never_uninitialized(void **state)
{
    bare *b = *state;
    double *m = NULL;
    hs_graph_variable_at(b->graph, "m", HS_DOUBLE, HS_SCALAR, &m);
    bare_open(b);
    assert_ok(bare_run(b, HS_NAMES("report_uninitialized_variables"), NULL, NULL), &b->err);
    assert_int_equal(b->values[0].dims[0], 0);
}

/* The program frees the memory that the restore allocated. */
static void a_restored_value_gets_memory(void **state)
{
    bare *b = *state;
    double *m = NULL;
    hs_graph_variable_at(b->graph, "m", HS_DOUBLE, HS_SHAPE(N), &m);
    bare_open(b);
    write(b, (double[]){7, 8, 9});
    assert_non_null(m);
    assert_true(m[2] == 9);
    free(m);
    m = NULL;
    hs_tensor memory;
    assert_ok(b->ops->lend_variable(b->session, 0, &memory, &b->err), &b->err);
    assert_ptr_equal(memory.data, m);
    assert_int_equal((uintptr_t)m % 64, 0);
    assert_true(m[0] == 0 && m[2] == 0);
    free(m);
}

static hs_code set_to_half(void *user, const hs_tensor *value, hs_error *err)
{
    (void)user, (void)err;
    for (size_t i = 0; i < N; i++)
        ((double *)value->data)[i] = 0.5;
    return HS_OK;
}

/* The variable had no memory when it was saved. */
static void a_variable_saved_without_memory_gets_its_first_value(void **state)
{
    bare *b = *state;
    double initial[N] = {7, 8, 9}, memory[3][N] = {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}};
    double *none = NULL, *zeros = memory[0], *initials = memory[1], *halves = memory[2];
    const hs_tensor nothing = {.data = NULL};
    hs_graph_variable_at(b->graph, "none", HS_DOUBLE, HS_SHAPE(N), &none);
    hs_graph_variable_at(b->graph, "zeros", HS_DOUBLE, HS_SHAPE(N), &zeros);
    hs_graph_variable_at(b->graph, "initials", HS_DOUBLE, HS_SHAPE(N), &initials, .initial = initial);
    hs_graph_variable_at(b->graph, "halves", HS_DOUBLE, HS_SHAPE(N), &halves, .initialize = set_to_half);
    bare_open(b);
    for (size_t i = 0; i < 4; i++)
        assert_ok(b->ops->write_variable(b->session, i, &nothing, &b->err), &b->err);
    assert_null(none);
    assert_true(zeros[0] == 0 && zeros[2] == 0);
    assert_true(initials[0] == 7 && initials[2] == 9);
    assert_true(halves[0] == 0.5 && halves[2] == 0.5);
}

static void the_init_op_sets_variables_that_have_memory(void **state)
{
    bare *b = *state;
    double initial = 7, memory = 1, *m = &memory, *none = NULL;
    hs_graph_variable_at(b->graph, "m", HS_DOUBLE, HS_SCALAR, &m, .initial = &initial);
    hs_graph_variable_at(b->graph, "none", HS_DOUBLE, HS_SCALAR, &none, .initial = &initial);
    bare_open(b);
    assert_true(memory == 1);
    bare_number(b, "init");
    assert_true(memory == 7);
    assert_null(none);
}

static void contradictory_definitions_are_refused(void **state)
{
    bare *b = *state;
    double data = 0, *m = &data;
    float *narrow = NULL;
    assert_int_equal(hs_graph_variable_at(b->graph, "m", HS_DOUBLE, HS_SCALAR, &narrow), HS_INVALID_ARGUMENT);
    assert_says(test_graph_error(b->graph), HS_INVALID_ARGUMENT,
                "variable 'm': the pointer points to elements of 4 bytes, but an element of type double has 8");
    assert_int_equal(
        hs_graph_add_variable(b->graph, HS_VARIABLE_DEF(.name = "m", .dtype = HS_DOUBLE, .data = &data, HS_DATA_AT(&m))),
        HS_INVALID_ARGUMENT);
    assert_int_equal(hs_graph_variable(b->graph, "m", HS_DOUBLE, HS_SCALAR, NULL), HS_INVALID_ARGUMENT);
    assert_false(test_graph_has(b->graph, "m"));
}

static void null_data_names_the_other_function(void **state)
{
    bare *b = *state;
    hs_graph_variable(b->graph, "m", HS_DOUBLE, HS_SCALAR, NULL);
    assert_says(test_graph_error(b->graph), HS_INVALID_ARGUMENT,
                "variable 'm': data is NULL; for memory that is allocated later use hs_graph_variable_at, and for separate "
                "memory in each session hs_graph_add_variable");
}

/* A void * does not have the type of the elements. */
static void the_size_of_elements_need_not_be_known(void **state)
{
    bare *b = *state;
    double data = 5;
    void *m = &data;
    hs_graph_add_variable(b->graph, HS_VARIABLE_DEF(.name = "m", .dtype = HS_DOUBLE, .data_at = &m));
    bare_open(b);
    assert_true(bare_number(b, "m") == 5);
}

static void a_moving_variable_is_in_the_programs_memory(void **state)
{
    bare *b = *state;
    double *m = NULL;
    hs_variable variable;
    void *second;
    hs_graph_variable_at(b->graph, "m", HS_DOUBLE, HS_SCALAR, &m);
    bare_open(b);
    assert_true(b->ops->variable(b->graph, 0, &variable));
    assert_int_equal(variable.flags, HS_VARIABLE_OUTLIVES | HS_VARIABLE_MOVES);
    assert_fails(b->ops->open(b->graph, "", (hs_bytes){NULL, 0}, &second, &b->err), HS_FAILED_PRECONDITION, &b->err,
                 "program's memory");
}

/* A variable without elements is not allocated. */
static void an_empty_variable_needs_no_memory(void **state)
{
    bare *b = *state;
    double *m = NULL;
    hs_graph_variable_at(b->graph, "m", HS_DOUBLE, HS_SHAPE(0), &m);
    bare_open(b);
    assert_ok(bare_run(b, HS_NAMES("m"), NULL, NULL), &b->err);
    assert_int_equal(b->values[0].bytes, 0);
    const hs_tensor value = hs_tensor_of(HS_DOUBLE, HS_SHAPE(0), NULL);
    assert_ok(b->ops->write_variable(b->session, 0, &value, &b->err), &b->err);
    assert_null(m);
}

/* A function that locates the memory. */

typedef struct {
    double memory[N];
    bool exists, fails;
    size_t bytes;
} place;

static hs_code locate(void *user, size_t bytes, bool allocate_it, void **data, hs_error *err)
{
    place *p = user;
    if (p->fails)
        return hs_error_set(err, HS_ABORTED, "it is lost");
    p->bytes = bytes;
    p->exists |= allocate_it;
    *data = p->exists ? p->memory : NULL;
    return HS_OK;
}

static void a_function_may_locate_a_variable(void **state)
{
    bare *b = *state;
    place p = {.exists = false};
    hs_graph_add_variable(
        b->graph, HS_VARIABLE_DEF(.name = "m", .dtype = HS_DOUBLE, .shape = HS_SHAPE(N), .locate = locate, .user = &p));
    bare_open(b);
    assert_null(read(b).data);
    write(b, (double[]){7, 8, 9});
    assert_true(p.exists && p.memory[1] == 8 && p.bytes == sizeof p.memory);
    assert_true(bare_number(b, "m") == 7);
    p.fails = true;
    assert_fails(bare_run(b, HS_NAMES("m"), NULL, NULL), HS_ABORTED, &b->err, "the memory of variable 'm': it is lost");
}

/* On a device. */

typedef struct {
    hs_memory memory;
    size_t allocated, to_device;
} card;

static hs_code to_host(void *user, void *to, const void *from, size_t bytes, hs_error *err)
{
    (void)user, (void)err;
    memcpy(to, from, bytes);
    return HS_OK;
}

static hs_code from_host(void *user, void *to, const void *from, size_t bytes, hs_error *err)
{
    ((card *)user)->to_device++;
    return to_host(user, to, from, bytes, err);
}

static hs_code allocate_there(void *user, size_t bytes, void **device, hs_error *err)
{
    (void)err;
    ((card *)user)->allocated += bytes;
    *device = malloc(bytes);
    return HS_OK;
}

static void a_variable_on_a_device_is_allocated_there(void **state)
{
    bare *b = *state;
    double *m = NULL;
    const hs_tensor nothing = {.data = NULL};
    card c = {.memory = HS_INIT(hs_memory, .to_host = to_host, .from_host = from_host, .allocate = allocate_there)};
    c.memory.user = &c;
    hs_graph_variable_at(b->graph, "m", HS_DOUBLE, HS_SHAPE(N), &m, .memory = &c.memory);
    bare_open(b);
    assert_null(read(b).data);
    write(b, (double[]){7, 8, 9});
    assert_int_equal(c.allocated, N * sizeof *m);
    assert_int_equal(c.to_device, 1);
    assert_true(m[2] == 9);
    assert_ptr_equal(read(b).memory, &c.memory);
    assert_ok(b->ops->write_variable(b->session, 0, &nothing, &b->err), &b->err);
    assert_true(m[0] == 0 && m[2] == 0);
    free(m);
}

static void a_device_that_cannot_allocate_refuses(void **state)
{
    bare *b = *state;
    double *m = NULL;
    hs_tensor memory;
    card c = {.memory = HS_INIT(hs_memory, .to_host = to_host, .from_host = from_host)};
    c.memory.user = &c;
    hs_graph_variable_at(b->graph, "m", HS_DOUBLE, HS_SHAPE(N), &m, .memory = &c.memory);
    bare_open(b);
    assert_fails(b->ops->lend_variable(b->session, 0, &memory, &b->err), HS_FAILED_PRECONDITION, &b->err,
                 "its pointer is NULL, and its hs_memory has no function allocate");
    assert_null(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_moving_variable_is_read_where_its_pointer_points, bare_setup, bare_teardown),
        cmocka_unit_test_setup_teardown(an_op_may_move_a_variable, bare_setup, bare_teardown),
        cmocka_unit_test_setup_teardown(an_op_may_allocate_a_variable, bare_setup, bare_teardown),
        cmocka_unit_test_setup_teardown(a_fed_variable_needs_no_memory, bare_setup, bare_teardown),
        cmocka_unit_test_setup_teardown(a_moving_variable_is_never_uninitialized, bare_setup, bare_teardown),
        cmocka_unit_test_setup_teardown(a_restored_value_gets_memory, bare_setup, bare_teardown),
        cmocka_unit_test_setup_teardown(a_variable_saved_without_memory_gets_its_first_value, bare_setup, bare_teardown),
        cmocka_unit_test_setup_teardown(the_init_op_sets_variables_that_have_memory, bare_setup, bare_teardown),
        cmocka_unit_test_setup_teardown(contradictory_definitions_are_refused, bare_setup, bare_teardown),
        cmocka_unit_test_setup_teardown(null_data_names_the_other_function, bare_setup, bare_teardown),
        cmocka_unit_test_setup_teardown(the_size_of_elements_need_not_be_known, bare_setup, bare_teardown),
        cmocka_unit_test_setup_teardown(a_moving_variable_is_in_the_programs_memory, bare_setup, bare_teardown),
        cmocka_unit_test_setup_teardown(an_empty_variable_needs_no_memory, bare_setup, bare_teardown),
        cmocka_unit_test_setup_teardown(a_function_may_locate_a_variable, bare_setup, bare_teardown),
        cmocka_unit_test_setup_teardown(a_variable_on_a_device_is_allocated_there, bare_setup, bare_teardown),
        cmocka_unit_test_setup_teardown(a_device_that_cannot_allocate_refuses, bare_setup, bare_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
