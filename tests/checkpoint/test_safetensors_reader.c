/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a safetensors file without a session, with the functions that read checkpoints. */
#include "checkpoint/weights.h"

#include <errno.h>
#include <stdio.h>

static hs_checkpoint_reader *open_saved(fixture *f)
{
    save_weights(f, 3);
    hs_checkpoint_reader *reader = hs_checkpoint_open(&f->t.env, weights_file(f), &f->err);
    if (!reader)
        fail_msg("%s", f->err.message);
    return reader;
}

static void tensors_are_listed_by_name(void **state)
{
    static const char *const names[] = {"bias", "global_step", "weights"}; /* the file begins with the largest elements */
    const char *name;
    hs_tensor info;
    hs_checkpoint_reader *reader = open_saved(*state);
    for (size_t i = 0; i < 3; i++) {
        assert_true(hs_checkpoint_tensor(reader, i, &name, &info));
        assert_string_equal(name, names[i]);
    }
    assert_int_equal(info.dtype, HS_FLOAT);
    assert_true(info.rank == 2 && info.dims[0] == 2 && info.dims[1] == 3);
    assert_int_equal(info.bytes, 24);
    assert_false(hs_checkpoint_tensor(reader, 3, &name, NULL));
    hs_checkpoint_close(reader);
}

static void a_tensor_is_found_and_read(void **state)
{
    fixture *f = *state;
    hs_tensor info;
    float weights[6];
    hs_checkpoint_reader *reader = open_saved(f);
    assert_ok(hs_checkpoint_find(reader, "weights", &info, &f->err), &f->err);
    assert_int_equal(info.bytes, sizeof weights);
    assert_ok(hs_checkpoint_read(reader, "weights", weights, sizeof weights, &f->err), &f->err);
    assert_memory_equal(weights, f->m.weights, sizeof weights);
    assert_fails(hs_checkpoint_read(reader, "weights", weights, 20, &f->err), HS_INVALID_ARGUMENT, &f->err, "24 bytes");
    assert_fails(hs_checkpoint_find(reader, "other", NULL, &f->err), HS_NOT_FOUND, &f->err, "m.safetensors' has no tensor");
    hs_checkpoint_close(reader);
}

static void a_part_is_read(void **state)
{
    fixture *f = *state;
    float part[2];
    const float *all = (const float *)f->m.weights;
    hs_checkpoint_reader *reader = open_saved(f);
    hs_code code =
        hs_checkpoint_read_slice(reader, "weights", (int64_t[]){0, 1}, (int64_t[]){-1, 1}, part, sizeof part, &f->err);
    assert_ok(code, &f->err);
    assert_true(part[0] == all[1] && part[1] == all[4]);
    code = hs_checkpoint_read_slice(reader, "weights", (int64_t[]){0, 3}, (int64_t[]){1, 1}, part, 4, &f->err);
    assert_fails(code, HS_INVALID_ARGUMENT, &f->err, "is not a part of 'weights'");
    code = hs_checkpoint_read_slice(reader, "weights", NULL, NULL, part, sizeof part, &f->err);
    assert_fails(code, HS_INVALID_ARGUMENT, &f->err, "24 bytes of memory, not 8");
    hs_checkpoint_close(reader);
}

static void it_cannot_be_verified(void **state)
{
    fixture *f = *state;
    hs_checkpoint_reader *reader = open_saved(f);
    assert_fails(hs_checkpoint_verify(reader, NULL, &f->err), HS_UNIMPLEMENTED, &f->err, "have no checksums");
    assert_fails(hs_checkpoint_verify(reader, "bias", &f->err), HS_UNIMPLEMENTED, &f->err,
                 "m.safetensors: cannot verify it");
    hs_checkpoint_close(reader);
}

static void a_damaged_header_is_found(void **state)
{
    fixture *f = *state;
    save_weights(f, 3);
    size_t bytes;
    char *data = test_read_file(weights_file(f), &bytes);
    test_write_file(weights_file(f), data, bytes - 1);
    free(data);
    assert_null(hs_checkpoint_open(&f->t.env, weights_file(f), &f->err));
    assert_int_equal(f->err.code, HS_DATA_LOSS);
    assert_int_equal(remove(weights_file(f)), 0);
    assert_null(hs_checkpoint_open(&f->t.env, weights_file(f), &f->err));
    assert_int_equal(f->err.code, HS_NOT_FOUND);
}

/* A file as programs for inference write it: scaled weights of 8 bits, and members that this library does not know. */
static void write_scaled(const fixture *f)
{
    static const char header[] = " {\"__metadata__\":{\"format\":\"pt\"},"
                                 "\"scaled\":{\"dtype\":\"F8_E4M3\",\"shape\":[2,2],\"data_offsets\":[0,4],\"scale\":0.5},"
                                 "\"scaled_fp8\":{\"dtype\":\"F8_E4M3\",\"shape\":[0],\"data_offsets\":[4,4]},"
                                 "\"deep\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,2],\"data_offsets\":[4,6]},"
                                 "\"bias\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[6,10]}}";
    unsigned char file[8 + sizeof header - 1 + 10] = {0};
    const float bias = 1.5f;
    file[0] = (unsigned char)((sizeof header - 1) % 256);
    file[1] = (unsigned char)((sizeof header - 1) / 256);
    memcpy(file + 8, header, sizeof header - 1);
    memcpy(file + sizeof file - 10, "\x38\x40\xb8\x7f\x05\x06", 6);
    memcpy(file + sizeof file - 4, &bias, 4);
    test_write_file(weights_file(f), file, sizeof file);
}

static void unknown_dtypes_and_shapes_are_listed_and_read_as_bytes(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *name, *dtype;
        int32_t rank;
        size_t bytes;
    } rows[] = {
        {"bias", "float", 1, 4}, {"deep", "uint8", -1, 2}, {"scaled", "F8_E4M3", 2, 4}, {"scaled_fp8", "F8_E4M3", 1, 0}};
    unsigned char bytes[4];
    const char *name;
    hs_tensor info;
    write_scaled(f);
    hs_checkpoint_reader *reader = hs_checkpoint_open(&f->t.env, weights_file(f), &f->err);
    if (!reader)
        fail_msg("%s", f->err.message);
    for (size_t i = 0; i < 4; i++) {
        assert_true(hs_checkpoint_tensor(reader, i, &name, &info));
        assert_string_equal(name, rows[i].name);
        assert_string_equal(hs_checkpoint_dtype_name(reader, name), rows[i].dtype);
        assert_int_equal(info.rank, rows[i].rank);
        assert_int_equal(info.bytes, rows[i].bytes);
        assert_ok(hs_checkpoint_read(reader, name, bytes, info.bytes, &f->err), &f->err);
    }
    assert_false(hs_checkpoint_tensor(reader, 4, &name, &info));
    assert_null(hs_checkpoint_dtype_name(reader, "other"));
    assert_null(hs_checkpoint_dtype_name(reader, NULL));
    assert_null(hs_checkpoint_dtype_name(NULL, "bias"));
    assert_ok(hs_checkpoint_find(reader, "scaled", &info, &f->err), &f->err);
    assert_int_equal(hs_dtype_size(info.dtype), 0);
    assert_true(info.dims[0] == 2 && info.dims[1] == 2);
    assert_ok(hs_checkpoint_read(reader, "scaled", bytes, 4, &f->err), &f->err);
    assert_memory_equal(bytes, "\x38\x40\xb8\x7f", 4);
    assert_ok(hs_checkpoint_read(reader, "deep", bytes, 2, &f->err), &f->err);
    assert_memory_equal(bytes, "\x05\x06", 2);
    assert_fails(hs_checkpoint_read_slice(reader, "scaled", NULL, NULL, bytes, 4, &f->err), HS_UNIMPLEMENTED, &f->err,
                 "'scaled' has the dtype 'F8_E4M3', which is not supported");
    assert_fails(hs_checkpoint_read_slice(reader, "deep", NULL, NULL, bytes, 2, &f->err), HS_UNIMPLEMENTED, &f->err,
                 "'deep' has a shape that is not supported");
    hs_checkpoint_close(reader);
}

static void a_variable_does_not_get_an_unknown_dtype(void **state)
{
    fixture *f = *state;
    write_scaled(f);
    assert_fails(
        load_weights(f, HS_RESTORE_OPTIONS(.allow_missing = true, .names = HS_CHECKPOINT_NAMES({"weights", "scaled"}))),
        HS_INVALID_ARGUMENT, &f->err, "is F8_E4M3 [2,2] in the checkpoint, but float [2,3] in the model");
}

static hs_code open_and_read(test_env *t, void *user)
{
    fixture *f = user;
    hs_error err = {0};
    double bias[2];
    const char *name;
    hs_checkpoint_reader *reader = hs_checkpoint_open(&t->env, weights_file(f), &err);
    if (!reader)
        return err.code;
    assert_true(hs_checkpoint_tensor(reader, 0, &name, NULL));
    hs_code code = hs_checkpoint_read(reader, name, bias, sizeof bias, &err);
    hs_checkpoint_close(reader);
    return code;
}

static void each_allocation_and_each_file_call(void **state)
{
    save_weights(*state, 1);
    test_each_allocation(open_and_read, *state);
    test_each_file_call(open_and_read, NULL, EIO, false, *state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(tensors_are_listed_by_name),
        with_fixture(a_tensor_is_found_and_read),
        with_fixture(a_part_is_read),
        with_fixture(it_cannot_be_verified),
        with_fixture(a_damaged_header_is_found),
        with_fixture(unknown_dtypes_and_shapes_are_listed_and_read_as_bytes),
        with_fixture(a_variable_does_not_get_an_unknown_dtype),
        with_fixture(each_allocation_and_each_file_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
