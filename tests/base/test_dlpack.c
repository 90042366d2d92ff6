/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <hooksess/dlpack.h>

/* DLPack's structs, as in DLPack's header. */

typedef struct {
    uint8_t code, bits;
    uint16_t lanes;
} data_type;

typedef struct {
    void *data;
    struct {
        int32_t type, id;
    } device;
    int32_t ndim;
    data_type dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} dl_tensor;

struct DLManagedTensorVersioned {
    struct {
        uint32_t major, minor;
    } version;
    void *manager_ctx;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags;
    dl_tensor dl_tensor;
};

typedef struct DLManagedTensorVersioned managed_tensor;

enum { CPU = 1, CUDA = 2 };

static const data_type float32 = {2, 32, 1};
static hs_error err;

static int set_up(void **state)
{
    (void)state;
    hs_error_clear(&err);
    return 0;
}

/* A float tensor on the CPU. */
static managed_tensor managed_of(void *data, int32_t rank, int64_t *shape, int64_t *strides)
{
    return (managed_tensor){
        .version = {1, 0},
        .dl_tensor = {.data = data, .device = {CPU, 0}, .ndim = rank, .dtype = float32, .shape = shape, .strides = strides},
    };
}

static void refuse(const managed_tensor *managed, const hs_memory *memory, const char *text)
{
    hs_tensor view;
    assert_fails(hs_tensor_from_dlpack(managed, memory, &view, &err), HS_INVALID_ARGUMENT, &err, text);
}

static hs_tensor accept(const managed_tensor *managed, const hs_memory *memory)
{
    hs_tensor view;
    assert_ok(hs_tensor_from_dlpack(managed, memory, &view, &err), &err);
    return view;
}

/* From DLPack. */

static void a_view_of_a_managed_tensor(void **state)
{
    (void)state;
    float data[6] = {0};
    managed_tensor managed = managed_of(data, 2, (int64_t[]){2, 3}, NULL);
    err.code = HS_INTERNAL;
    hs_tensor view = accept(&managed, NULL);
    assert_int_equal(err.code, HS_OK);
    assert_ptr_equal(view.data, data);
    assert_int_equal(view.dtype, HS_FLOAT);
    assert_int_equal(view.rank, 2);
    assert_int_equal(view.dims[1], 3);
    assert_int_equal(view.bytes, sizeof data);
    assert_null(view.memory);
}

static void the_byte_offset_counts(void **state)
{
    (void)state;
    float data[6] = {0};
    managed_tensor managed = managed_of(data, 1, (int64_t[]){2}, NULL);
    managed.dl_tensor.byte_offset = 8;
    assert_ptr_equal(accept(&managed, NULL).data, data + 2);
}

static void versions_of_the_first_major_are_read(void **state)
{
    (void)state;
    float data[1] = {0};
    managed_tensor managed = managed_of(data, 0, NULL, NULL);
    managed.version.minor = 7;
    assert_int_equal(accept(&managed, NULL).bytes, 4);
    managed.version.major = 2;
    refuse(&managed, NULL, "2.7");
    managed.version.major = 0;
    refuse(&managed, NULL, "0.7");
}

static void strides_without_gaps_are_fine(void **state)
{
    (void)state;
    static int64_t rows[][2][3] = {
        /* shape, strides */
        {{2, 3, 4}, {12, 4, 1}}, {{2, 1, 4}, {4, 77, 1}}, /* the stride of a dimension of 1 does not matter */
        {{1, 1, 1}, {5, 0, -9}}, {{0, 3, 4}, {1, 1, 1}},  /* no elements */
        {{3, 0, 4}, {99, 5, 2}},
    };
    float data[24] = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        managed_tensor managed = managed_of(data, 3, rows[i][0], rows[i][1]);
        hs_tensor view = accept(&managed, NULL);
        assert_memory_equal(view.dims, rows[i][0], sizeof rows[i][0]);
    }
}

static void strides_that_leave_gaps_are_refused(void **state)
{
    (void)state;
    static int64_t rows[][2][3] = {
        {{2, 3, 4}, {12, 4, 2}},  {{2, 3, 4}, {24, 4, 1}}, {{2, 3, 4}, {1, 2, 6}}, /* another order */
        {{2, 3, 4}, {-12, 4, 1}}, {{2, 3, 4}, {0, 0, 1}},                          /* repeated */
    };
    float data[24] = {0};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        managed_tensor managed = managed_of(data, 3, rows[i][0], rows[i][1]);
        refuse(&managed, NULL, "contiguous");
    }
}

static void invalid_shapes_are_refused(void **state)
{
    (void)state;
    const int64_t large = (int64_t)1 << 40;
    float data[1] = {0};
    managed_tensor managed = managed_of(data, 2, (int64_t[]){large, large}, (int64_t[]){large, 1});
    refuse(&managed, NULL, "too large");
    managed = managed_of(data, 3, (int64_t[]){2, large, large}, (int64_t[]){INT64_MAX, large, 1});
    refuse(&managed, NULL, "");
    managed = managed_of(data, 2, (int64_t[]){2, -3}, NULL);
    refuse(&managed, NULL, "dimension 1 is -3");
    managed = managed_of(data, 2, (int64_t[]){2, -3}, (int64_t[]){-3, 1});
    refuse(&managed, NULL, "");
}

static void ranks_are_checked(void **state)
{
    (void)state;
    float data[1] = {0};
    int64_t ones[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    managed_tensor managed = managed_of(data, 9, ones, NULL);
    refuse(&managed, NULL, "9 dimensions");
    managed.dl_tensor.ndim = -1;
    refuse(&managed, NULL, "-1");
    managed.dl_tensor.ndim = 8;
    assert_int_equal(accept(&managed, NULL).rank, 8);
}

static void unsupported_element_types_are_refused(void **state)
{
    (void)state;
    static const data_type none[] = {{2, 32, 2}, {2, 8, 1}, {3, 64, 1}, {0, 4, 1}, {17, 8, 1}, {2, 128, 1}, {6, 1, 1}};
    float data[4] = {0};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        managed_tensor managed = managed_of(data, 1, (int64_t[]){1}, NULL);
        managed.dl_tensor.dtype = none[i];
        refuse(&managed, NULL, "element type");
    }
}

static void a_device_needs_its_memory(void **state)
{
    (void)state;
    hs_memory memory = HS_INIT(hs_memory, .device_type = CUDA, .device_id = 3);
    managed_tensor managed = managed_of((void *)4096, 1, (int64_t[]){5}, NULL);
    refuse(&managed, &memory, "device 1:0"); /* memory of the CPU needs no hs_memory */
    managed.dl_tensor.device.type = CUDA;
    managed.dl_tensor.device.id = 3;
    refuse(&managed, NULL, "device 2:3");
    hs_tensor view = accept(&managed, &memory);
    assert_ptr_equal(view.memory, &memory);
    assert_ptr_equal(view.data, (void *)4096);
}

static void null_arguments_are_refused(void **state)
{
    (void)state;
    float data[1] = {0};
    managed_tensor managed = managed_of(data, 0, NULL, NULL), no_data = managed_of(NULL, 0, NULL, NULL);
    refuse(NULL, NULL, "NULL");
    refuse(&no_data, NULL, "no data");
    managed_tensor no_shape = managed_of(data, 2, NULL, NULL);
    refuse(&no_shape, NULL, "shape is NULL");
    assert_fails(hs_tensor_from_dlpack(&managed, NULL, NULL, &err), HS_INVALID_ARGUMENT, &err, "NULL");
    assert_null(hs_tensor_to_dlpack(NULL, NULL, NULL, NULL, &err));
    assert_says(&err, HS_INVALID_ARGUMENT, "NULL");
    assert_int_equal(hs_tensor_from_dlpack(NULL, NULL, NULL, NULL), HS_INVALID_ARGUMENT);
    assert_null(hs_tensor_to_dlpack(NULL, NULL, NULL, NULL, NULL));
}

/* To DLPack. */

static void count_release(void *user)
{
    ++*(int *)user;
}

static const struct {
    hs_dtype dtype;
    data_type type;
} types[] = {
    {HS_FLOAT, {2, 32, 1}},     {HS_DOUBLE, {2, 64, 1}},      {HS_HALF, {2, 16, 1}},   {HS_BFLOAT16, {4, 16, 1}},
    {HS_INT8, {0, 8, 1}},       {HS_INT16, {0, 16, 1}},       {HS_INT32, {0, 32, 1}},  {HS_INT64, {0, 64, 1}},
    {HS_UINT8, {1, 8, 1}},      {HS_UINT16, {1, 16, 1}},      {HS_UINT32, {1, 32, 1}}, {HS_UINT64, {1, 64, 1}},
    {HS_COMPLEX64, {5, 64, 1}}, {HS_COMPLEX128, {5, 128, 1}}, {HS_BOOL, {6, 8, 1}},
};

static void every_type_round_trips(void **state)
{
    (void)state;
    char data[6 * 16] = {0};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        int released = 0;
        hs_tensor view = hs_tensor_of(types[i].dtype, HS_SHAPE(2, 3), data);
        managed_tensor *managed;
        assert_clears(&err, managed = hs_tensor_to_dlpack(&view, NULL, count_release, &released, &err));
        assert_non_null(managed);
        assert_memory_equal(&managed->dl_tensor.dtype, &types[i].type, sizeof types[i].type);
        hs_tensor back = accept(managed, NULL);
        assert_memory_equal(&back, &view, sizeof view);
        assert_int_equal(released, 0);
        managed->deleter(managed);
        assert_int_equal(released, 1);
    }
}

static void a_managed_tensor_is_complete(void **state)
{
    (void)state;
    float data[6] = {0};
    hs_tensor view = hs_tensor_of(HS_FLOAT, HS_SHAPE(2, 3), data);
    managed_tensor *managed = hs_tensor_to_dlpack(&view, NULL, NULL, NULL, &err);
    memset(view.dims, 0, sizeof view.dims); /* the view need not live longer */
    assert_int_equal(managed->version.major, 1);
    assert_int_equal(managed->flags, 0);
    assert_ptr_equal(managed->dl_tensor.data, data);
    assert_int_equal(managed->dl_tensor.byte_offset, 0);
    assert_int_equal(managed->dl_tensor.device.type, CPU);
    assert_int_equal(managed->dl_tensor.ndim, 2);
    assert_int_equal(managed->dl_tensor.shape[0], 2);
    assert_int_equal(managed->dl_tensor.shape[1], 3);
    managed->deleter(managed);
}

static void a_device_is_exported(void **state)
{
    (void)state;
    hs_memory memory = HS_INIT(hs_memory, .device_type = CUDA, .device_id = 3);
    hs_tensor view = hs_tensor_of(HS_FLOAT, HS_SHAPE(5), (void *)4096);
    view.memory = &memory;
    managed_tensor *managed = hs_tensor_to_dlpack(&view, NULL, NULL, NULL, &err);
    assert_int_equal(managed->dl_tensor.device.type, CUDA);
    assert_int_equal(managed->dl_tensor.device.id, 3);
    hs_tensor back = accept(managed, &memory);
    assert_memory_equal(&back, &view, sizeof view);
    managed->deleter(managed);
}

static void tensors_without_a_dlpack_form_are_refused_and_not_released(void **state)
{
    (void)state;
    static const hs_dtype none[] = {HS_STRING, HS_QINT8, HS_QUINT8, HS_QINT16, HS_QUINT16, HS_QINT32, HS_DTYPE_NONE};
    char data[16] = {0};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        int released = 0;
        hs_tensor view = hs_tensor_of(none[i], HS_SCALAR, data);
        assert_null(hs_tensor_to_dlpack(&view, NULL, count_release, &released, &err));
        assert_int_equal(err.code, HS_INVALID_ARGUMENT);
        assert_int_equal(released, 0);
    }
}

static int releases;

static hs_code to_dlpack_and_back(test_env *t, void *user)
{
    (void)user;
    float data[3] = {0};
    hs_error error = {0};
    hs_tensor view = hs_tensor_of(HS_FLOAT, HS_SHAPE(3), data);
    releases = 0;
    managed_tensor *managed = hs_tensor_to_dlpack(&view, &t->env, count_release, &releases, &error);
    assert_int_equal(releases, 0);
    if (managed)
        managed->deleter(managed);
    assert_int_equal(releases, managed ? 1 : 0);
    return managed ? HS_OK : error.code;
}

static void the_memory_is_the_environments(void **state)
{
    (void)state;
    test_each_allocation(to_dlpack_and_back, NULL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup(name, set_up)
    const struct CMUnitTest tests[] = {
        TEST(a_view_of_a_managed_tensor),
        TEST(the_byte_offset_counts),
        TEST(versions_of_the_first_major_are_read),
        TEST(strides_without_gaps_are_fine),
        TEST(strides_that_leave_gaps_are_refused),
        TEST(invalid_shapes_are_refused),
        TEST(ranks_are_checked),
        TEST(unsupported_element_types_are_refused),
        TEST(a_device_needs_its_memory),
        TEST(null_arguments_are_refused),
        TEST(every_type_round_trips),
        TEST(a_managed_tensor_is_complete),
        TEST(a_device_is_exported),
        TEST(tensors_without_a_dlpack_form_are_refused_and_not_released),
        TEST(the_memory_is_the_environments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
