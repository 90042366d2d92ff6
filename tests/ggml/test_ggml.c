/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of ggml as variables, in host memory and in buffers whose addresses the host cannot read. */
#include "support/test.h"

#include <hooksess/ggml.h>

#include <ggml-backend-impl.h>

/* A buffer of a device: its addresses begin at HIDDEN. */
static char *const HIDDEN = (char *)(uintptr_t)((uint64_t)1 << 60);
static char *device_memory;
static int n_copies;

static void *base(ggml_backend_buffer_t buffer)
{
    (void)buffer;
    return HIDDEN;
}

static void set(ggml_backend_buffer_t buffer, struct ggml_tensor *tensor, const void *data, size_t offset, size_t size)
{
    (void)buffer;
    n_copies++;
    memcpy(device_memory + ((char *)tensor->data - HIDDEN) + offset, data, size);
}

static void get(ggml_backend_buffer_t buffer, const struct ggml_tensor *tensor, void *data, size_t offset, size_t size)
{
    (void)buffer;
    n_copies++;
    memcpy(data, device_memory + ((char *)tensor->data - HIDDEN) + offset, size);
}

static void release(ggml_backend_buffer_t buffer)
{
    (void)buffer;
    free(device_memory);
    device_memory = NULL;
}

static ggml_backend_buffer_t allocate(ggml_backend_buffer_type_t type, size_t size)
{
    const struct ggml_backend_buffer_i calls = {
        .free_buffer = release, .get_base = base, .set_tensor = set, .get_tensor = get};
    device_memory = calloc(1, size);
    return ggml_backend_buffer_init(type, calls, NULL, size);
}

static size_t alignment(ggml_backend_buffer_type_t type)
{
    (void)type;
    return 64;
}

static const char *name(ggml_backend_buffer_type_t type)
{
    (void)type;
    return "device";
}

static struct ggml_backend_buffer_type device = {
    .iface = {.get_name = name, .alloc_buffer = allocate, .get_alignment = alignment}};

typedef struct {
    char *directory;
    struct ggml_context *context;
    ggml_backend_buffer_t buffer;
    hs_graph *graph;
    hs_session *session;
    int64_t step;
    hs_error err;
} program;

static int setup(void **state)
{
    program *p = calloc(1, sizeof *p);
    p->directory = test_make_directory();
    *state = p;
    return 0;
}

static void stop(program *p)
{
    hs_session_close(p->session, NULL);
    hs_graph_free(p->graph);
    ggml_backend_buffer_free(p->buffer);
    ggml_free(p->context);
    *p = (program){.directory = p->directory};
}

static int teardown(void **state)
{
    program *p = *state;
    stop(p);
    test_remove_directory(p->directory);
    free(p);
    return 0;
}

static void start(program *p, bool no_alloc)
{
    p->context = ggml_init((struct ggml_init_params){.mem_size = 64 << 20, .no_alloc = no_alloc});
    p->graph = hs_graph_new(NULL);
    hs_graph_global_step(p->graph, NULL, &p->step);
}

static struct ggml_tensor *add(program *p, const char *tensor, enum ggml_type type, int64_t columns, int64_t rows)
{
    return ggml_set_name(ggml_new_tensor_2d(p->context, type, columns, rows), tensor);
}

/* Opens a session that saves each step, and makes one step. The code is that of the session. */
static hs_code step(program *p)
{
    p->session = hs_session_open(
        hs_graph_backend(p->graph),
        HS_SESSION_OPTIONS(.checkpoint_dir = p->directory,
                           .hooks = HS_HOOKS(hs_checkpoint_saver(.checkpoint_dir = p->directory, .every_n_steps = 1))),
        &p->err);
    if (!p->session)
        return p->err.code;
    if (hs_step_begin(p->session))
        hs_step_end(p->session);
    const hs_outcome outcome = hs_session_close(p->session, &p->err);
    p->session = NULL;
    return outcome.error.code;
}

static void fill(struct ggml_tensor *tensor, unsigned char first)
{
    const size_t bytes = ggml_nbytes(tensor);
    unsigned char *data = malloc(bytes);
    for (size_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)(first + i % 251) & 0x3f; /* as floats: finite */
    ggml_backend_tensor_set(tensor, data, 0, bytes);
    free(data);
}

static void assert_filled(const struct ggml_tensor *tensor, unsigned char first)
{
    const size_t bytes = ggml_nbytes(tensor);
    unsigned char *data = malloc(bytes);
    ggml_backend_tensor_get(tensor, data, 0, bytes);
    for (size_t i = 0; i < bytes; i++)
        if (data[i] != ((unsigned char)(first + i % 251) & 0x3f))
            fail_msg("byte %zu of '%s' is %d", i, tensor->name, data[i]);
    free(data);
}

/* Dtype and shape in the newest checkpoint. */
static hs_tensor saved(program *p, const char *variable)
{
    hs_tensor info;
    char *prefix = hs_checkpoint_latest(NULL, p->directory, NULL, &p->err);
    hs_checkpoint_reader *checkpoint = hs_checkpoint_open(NULL, prefix, &p->err);
    assert_ok(hs_checkpoint_find(checkpoint, variable, &info, &p->err), &p->err);
    hs_checkpoint_close(checkpoint);
    hs_env_free(NULL, prefix);
    return info;
}

static const struct {
    enum ggml_type type;
    hs_dtype dtype;
    const char *name;
    int64_t columns; /* in the checkpoint, of 256 elements */
} types[] = {
    {GGML_TYPE_F32, HS_FLOAT, "w", 256},         {GGML_TYPE_F16, HS_HALF, "w", 256},
    {GGML_TYPE_BF16, HS_BFLOAT16, "w", 256},     {GGML_TYPE_F64, HS_DOUBLE, "w", 256},
    {GGML_TYPE_I8, HS_INT8, "w", 256},           {GGML_TYPE_I16, HS_INT16, "w", 256},
    {GGML_TYPE_I32, HS_INT32, "w", 256},         {GGML_TYPE_I64, HS_INT64, "w", 256},
    {GGML_TYPE_Q4_0, HS_UINT8, "w.q4_0", 144},   {GGML_TYPE_Q8_0, HS_UINT8, "w.q8_0", 272},
    {GGML_TYPE_Q6_K, HS_UINT8, "w.q6_K", 210},   {GGML_TYPE_IQ4_NL, HS_UINT8, "w.iq4_nl", 144},
    {GGML_TYPE_MXFP4, HS_UINT8, "w.mxfp4", 136},
};

static void each_type_is_saved_and_restored(void **state)
{
    program *p = *state;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        for (int restored = 0; restored < 2; restored++) {
            start(p, true);
            struct ggml_tensor *tensor = add(p, "w", types[i].type, 256, 3);
            p->buffer = ggml_backend_alloc_ctx_tensors_from_buft(p->context, &device);
            fill(tensor, restored ? 0 : 7);
            assert_int_equal(hs_ggml_variable(p->graph, NULL, tensor), HS_OK);
            assert_ok(step(p), &p->err);
            assert_int_equal(p->step, 1 + restored);
            assert_filled(tensor, 7);
            stop(p);
        }
        const hs_tensor info = saved(p, types[i].name);
        assert_int_equal(info.dtype, types[i].dtype);
        assert_int_equal(info.rank, 2);
        assert_int_equal(info.dims[0], 3);
        assert_int_equal(info.dims[1], types[i].columns);
        test_remove_directory(p->directory);
        p->directory = test_make_directory();
    }
}

/* More than the 8 MiB of one copy. */
static void a_large_tensor_is_copied_in_pieces(void **state)
{
    program *p = *state;
    for (int restored = 0; restored < 2; restored++) {
        start(p, true);
        add(p, "before", GGML_TYPE_F32, 4, 1);
        struct ggml_tensor *tensor = add(p, "w", GGML_TYPE_F32, 1 << 20, 5);
        p->buffer = ggml_backend_alloc_ctx_tensors_from_buft(p->context, &device);
        fill(tensor, restored ? 0 : 3);
        hs_ggml_variable(p->graph, NULL, tensor);
        n_copies = 0;
        assert_ok(step(p), &p->err);
        assert_true(n_copies > 2);
        assert_filled(tensor, 3);
        stop(p);
    }
}

static void variables_of_a_context_are_its_weights(void **state)
{
    program *p = *state;
    start(p, true);
    struct ggml_tensor *weight = add(p, "weight", GGML_TYPE_F32, 4, 3), *bias = add(p, "bias", GGML_TYPE_F32, 1, 1);
    ggml_set_input(add(p, "images", GGML_TYPE_F32, 4, 2));
    ggml_set_name(ggml_view_1d(p->context, weight, 4, 16), "view");
    ggml_set_name(ggml_view_tensor(p->context, weight), "alias");
    ggml_set_name(ggml_add(p->context, weight, bias), "sum");
    p->buffer = ggml_backend_alloc_ctx_tensors_from_buft(p->context, &device);
    assert_int_equal(hs_ggml_variables(p->graph, p->context), HS_OK);
    assert_true(test_graph_has(p->graph, "weight"));
    static const char *const omitted[] = {"images", "view", "alias", "sum"};
    for (size_t i = 0; i < sizeof omitted / sizeof *omitted; i++)
        assert_false(test_graph_has(p->graph, omitted[i]));
    assert_int_equal(hs_ggml_variable(p->graph, "view", ggml_get_tensor(p->context, "view")), HS_OK);
    fill(weight, 9);
    fill(bias, 1);
    assert_ok(step(p), &p->err);
    assert_int_equal(saved(p, "bias").rank, 0);
    assert_int_equal(saved(p, "view").rank, 1);
}

static double losses[8];
static int n_losses;

static hs_code read_loss(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    (void)self, (void)run, (void)err;
    losses[n_losses++] = hs_run_values_number(values, 0);
    return HS_OK;
}

static const hs_hook_ops reader =
    HS_INIT(hs_hook_ops, .name = "reader", .fetches = HS_NAMES("loss"), .after_run = read_loss);

static void a_value_is_copied_when_a_hook_is_due(void **state)
{
    program *p = *state;
    start(p, true);
    struct ggml_tensor *loss = add(p, "x", GGML_TYPE_F32, 1, 1);
    p->buffer = ggml_backend_alloc_ctx_tensors_from_buft(p->context, &device);
    hs_ggml_value(p->graph, "loss", loss);
    p->session =
        hs_session_open(hs_graph_backend(p->graph),
                        HS_SESSION_OPTIONS(.hooks = HS_HOOKS(HS_HOOK(.ops = &reader, .when = HS_EVERY_STEPS(3)))), &p->err);
    n_losses = n_copies = 0;
    for (int i = 1; i <= 6 && hs_step_begin(p->session); i++) {
        const float now = (float)i;
        ggml_backend_tensor_set(loss, &now, 0, sizeof now);
        hs_step_end(p->session);
    }
    assert_true(n_losses == 2);
    assert_true(losses[1] == losses[0] + 3);
    assert_int_equal(n_copies, 6 + 2);
}

static void a_context_that_allocates_and_a_tensor_that_moves(void **state)
{
    program *p = *state;
    static float memory[4] = {5, 6, 7, 8};
    start(p, false);
    struct ggml_tensor *tensor = add(p, "w", GGML_TYPE_F32, 4, 1);
    hs_ggml_variables(p->graph, p->context);
    tensor->data = memory;
    assert_ok(step(p), &p->err);
    stop(p);
    start(p, false);
    tensor = add(p, "w", GGML_TYPE_F32, 4, 1);
    memset(tensor->data, 0, ggml_nbytes(tensor));
    hs_ggml_variables(p->graph, p->context);
    assert_ok(step(p), &p->err);
    assert_memory_equal(tensor->data, memory, sizeof memory);
}

static void mistakes_name_the_tensor(void **state)
{
    program *p = *state;
    start(p, true);
    hs_ggml_variable(p->graph, NULL, add(p, "w", GGML_TYPE_F32, 4, 2));
    assert_fails(step(p), HS_FAILED_PRECONDITION, &p->err, "variable 'w': its tensor is not allocated");
    stop(p);

    start(p, true);
    hs_ggml_variable(p->graph, "w", ggml_get_tensor(p->context, "no such tensor"));
    assert_fails(step(p), HS_INVALID_ARGUMENT, &p->err, "variable 'w': its tensor is NULL");
    stop(p);

    start(p, true);
    struct ggml_tensor *tensor = add(p, "w", GGML_TYPE_F32, 4, 2);
    hs_ggml_variable(p->graph, "t", ggml_transpose(p->context, tensor));
    p->buffer = ggml_backend_alloc_ctx_tensors_from_buft(p->context, &device);
    assert_fails(step(p), HS_FAILED_PRECONDITION, &p->err, "variable 't': its tensor is not contiguous");
    stop(p);

    start(p, true);
    ggml_new_tensor_1d(p->context, GGML_TYPE_F32, 4);
    assert_int_equal(hs_ggml_variables(p->graph, p->context), HS_INVALID_ARGUMENT);
    assert_fails(step(p), HS_INVALID_ARGUMENT, &p->err, "name");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_type_is_saved_and_restored, setup, teardown),
        cmocka_unit_test_setup_teardown(a_large_tensor_is_copied_in_pieces, setup, teardown),
        cmocka_unit_test_setup_teardown(variables_of_a_context_are_its_weights, setup, teardown),
        cmocka_unit_test_setup_teardown(a_value_is_copied_when_a_hook_is_due, setup, teardown),
        cmocka_unit_test_setup_teardown(a_context_that_allocates_and_a_tensor_that_moves, setup, teardown),
        cmocka_unit_test_setup_teardown(mistakes_name_the_tensor, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
