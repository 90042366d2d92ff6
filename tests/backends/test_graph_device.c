/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory is accessed by its copy functions only. */
#include "backends/bare.h"

/* A device. Its memory holds the complement of the values, so that a read without a copy has wrong values. */
typedef struct {
    hs_memory memory;
    unsigned char bytes[64];
    int to_host, from_host;
    bool broken;
} device;

static hs_code copy(device *d, void *to, const void *from, size_t bytes, hs_error *err)
{
    if (d->broken)
        return hs_error_set(err, HS_INTERNAL, "the device is gone");
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)to)[i] = (unsigned char)~((const unsigned char *)from)[i];
    return HS_OK;
}

static hs_code to_host(void *user, void *host, const void *from, size_t bytes, hs_error *err)
{
    device *d = user;
    d->to_host++;
    return copy(d, host, from, bytes, err);
}

static hs_code from_host(void *user, void *to, const void *host, size_t bytes, hs_error *err)
{
    device *d = user;
    d->from_host++;
    return copy(d, to, host, bytes, err);
}

static void device_init(device *d)
{
    *d = (device){.memory = HS_INIT(hs_memory, .device_type = 2, .to_host = to_host, .from_host = from_host)};
    d->memory.user = d;
}

static void add_device_variable(bare *b, device *d, const double *initial)
{
    hs_variable_def def = HS_INIT(hs_variable_def, .name = "w", .dtype = HS_DOUBLE, .shape = HS_SHAPE(2), .data = d->bytes,
                                  .initial = initial, .memory = &d->memory);
    assert_int_equal(hs_graph_add_variable(b->graph, &def), HS_OK);
}

static double on_host(const hs_tensor *value, size_t index)
{
    hs_host_copy place = {0};
    hs_tensor host;
    assert_ok(hs_tensor_host(value, &place, &host, NULL), (&(hs_error){0}));
    double number = hs_tensor_number(&host, index);
    hs_host_copy_free(&place);
    return number;
}

static void an_initial_value_is_copied_to_the_device(void **state)
{
    bare *b = *state;
    device d;
    device_init(&d);
    add_device_variable(b, &d, (double[]){2, 3});
    bare_open(b);
    bare_number(b, "init");
    assert_int_equal(d.from_host, 1);
    assert_ok(bare_run(b, HS_NAMES("w"), NULL, NULL), &b->err);
    assert_ptr_equal(b->values[0].data, d.bytes);
    assert_ptr_equal(b->values[0].memory, &d.memory);
    assert_true(on_host(&b->values[0], 1) == 3);
}

static void without_an_initial_value_device_memory_is_unchanged(void **state)
{
    bare *b = *state;
    device d;
    device_init(&d);
    add_device_variable(b, &d, NULL);
    bare_open(b);
    bare_number(b, "init");
    assert_int_equal(d.from_host, 0);
}

static void a_variable_is_written_through_the_device(void **state)
{
    bare *b = *state;
    device d;
    hs_tensor value = hs_tensor_of(HS_DOUBLE, HS_SHAPE(2), (double[]){8, 9}), back;
    device_init(&d);
    add_device_variable(b, &d, NULL);
    bare_open(b);
    assert_ok(b->ops->write_variable(b->session, 0, &value, &b->err), &b->err);
    assert_ok(b->ops->read_variable(b->session, 0, &back, &b->err), &b->err);
    assert_true(on_host(&back, 0) == 8 && on_host(&back, 1) == 9);
}

static void a_broken_device_is_reported_with_the_variable(void **state)
{
    bare *b = *state;
    device d;
    hs_tensor value = hs_tensor_of(HS_DOUBLE, HS_SHAPE(2), (double[]){8, 9});
    device_init(&d);
    add_device_variable(b, &d, (double[]){2, 3});
    bare_open(b);
    d.broken = true;
    assert_fails(bare_run(b, HS_NAMES("init"), NULL, NULL), HS_INTERNAL, &b->err, "variable 'w': the device is gone");
    assert_fails(b->ops->write_variable(b->session, 0, &value, &b->err), HS_INTERNAL, &b->err, "cannot write variable 'w'");
}

static hs_code produce(void *self, hs_op *op, hs_error *err)
{
    (void)self;
    const hs_tensor *out = hs_op_output(op, 0);
    const double three = 3;
    return out->memory->from_host(out->memory->user, out->data, &three, sizeof three, err);
}

static void an_output_may_be_in_device_memory(void **state)
{
    bare *b = *state;
    device d;
    device_init(&d);
    hs_graph_op(b->graph, .name = "loss", .run = produce,
                .outputs = HS_OUTPUTS({.dtype = HS_DOUBLE, .data = d.bytes, .memory = &d.memory}));
    bare_open(b);
    assert_ok(bare_run(b, HS_NAMES("loss"), NULL, NULL), &b->err);
    assert_true(on_host(&b->values[0], 0) == 3);
}

static void a_queue_copies_from_the_device(void **state)
{
    bare *b = *state;
    device d;
    device_init(&d);
    add_device_variable(b, &d, (double[]){2, 3});
    hs_graph_queue(b->graph, .name = "q", .components = HS_OUTPUTS({.dtype = HS_DOUBLE, .shape = HS_SHAPE(2)}),
                   .inputs = HS_NAMES("w"), .threads = HS_NEVER);
    bare_open(b);
    bare_number(b, "init");
    bare_number(b, "q/enqueue");
    assert_ok(bare_run(b, HS_NAMES("q/dequeue"), NULL, NULL), &b->err);
    assert_null(b->values[0].memory);
    assert_true(hs_tensor_number(&b->values[0], 0) == 2 && hs_tensor_number(&b->values[0], 1) == 3);
    d.broken = true;
    assert_fails(bare_run(b, HS_NAMES("q/enqueue"), NULL, NULL), HS_INTERNAL, &b->err, "the device is gone");
    assert_true(bare_number(b, "q/size") == 0);
}

/* hs_run_values_number copies to the host once in a run. */
static void a_session_reads_numbers_of_the_device(void **state)
{
    bare *b = *state;
    device d;
    const hs_run_values *values;
    device_init(&d);
    add_device_variable(b, &d, (double[]){2.5, 3});
    hs_session *session = hs_session_open(hs_graph_backend(b->graph), NULL, &b->err);
    assert_ok(hs_session_run_args(session, HS_RUN_ARGS(.names = HS_NAMES("w")), &values, &b->err), &b->err);
    assert_true(hs_run_values_number(values, 0) == 2.5);
    d.broken = true;
    assert_true(hs_run_values_number_at(values, "w") == 2.5); /* the same copy */
    assert_ok(hs_session_run_args(session, HS_RUN_ARGS(.names = HS_NAMES("w")), &values, &b->err), &b->err);
    assert_true(hs_run_values_number(values, 0) != hs_run_values_number(values, 0)); /* NaN */
    hs_session_close(session, NULL);
}

static void device_memory_is_not_borrowed(void **state)
{
    bare *b = *state;
    device d;
    double x = 1;
    hs_tensor memory;
    device_init(&d);
    hs_graph_variable(b->graph, "x", HS_DOUBLE, HS_SCALAR, &x);
    add_device_variable(b, &d, NULL);
    bare_open(b);
    assert_ok(b->ops->lend_variable(b->session, 0, &memory, &b->err), &b->err);
    assert_ptr_equal(memory.data, &x);
    assert_fails(b->ops->lend_variable(b->session, 1, &memory, &b->err), HS_UNIMPLEMENTED, &b->err,
                 "'w' is not in host memory");
}

static void a_variable_on_the_device_is_never_the_global_step(void **state)
{
    bare *b = *state;
    device d;
    device_init(&d);
    hs_variable_def def =
        HS_INIT(hs_variable_def, .name = "global_step", .dtype = HS_INT64, .data = d.bytes, .memory = &d.memory);
    assert_int_equal(hs_graph_add_variable(b->graph, &def), HS_OK);
    assert_null(hs_backend_global_step_name(hs_graph_backend(b->graph)));
}

static void device_memory_needs_an_address(void **state)
{
    bare *b = *state;
    device d;
    device_init(&d);
    hs_variable_def def = HS_INIT(hs_variable_def, .name = "w", .dtype = HS_DOUBLE, .memory = &d.memory);
    assert_int_equal(hs_graph_add_variable(b->graph, &def), HS_INVALID_ARGUMENT);
    assert_says(test_graph_error(b->graph), HS_INVALID_ARGUMENT, "device memory needs data");
}

#define test(name) cmocka_unit_test_setup_teardown(name, bare_setup, bare_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(an_initial_value_is_copied_to_the_device),
        test(without_an_initial_value_device_memory_is_unchanged),
        test(a_variable_is_written_through_the_device),
        test(a_broken_device_is_reported_with_the_variable),
        test(an_output_may_be_in_device_memory),
        test(a_queue_copies_from_the_device),
        test(a_session_reads_numbers_of_the_device),
        test(device_memory_is_not_borrowed),
        test(a_variable_on_the_device_is_never_the_global_step),
        test(device_memory_needs_an_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
