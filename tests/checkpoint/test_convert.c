/* SPDX-License-Identifier: Apache-2.0 */
/* Converting checkpoints to safetensors files and back, without a session. */
#include "base/meter.h"
#include "checkpoint/model.h"

#include "formats/bundle.h"

#include <errno.h>

static const char *in(const fixture *f, const char *name)
{
    return test_path(f->directory, name);
}

static hs_code convert(fixture *f, const char *from, const char *to)
{
    return hs_checkpoint_convert(&f->t.env, in(f, from), in(f, to), NULL, &f->err);
}

/* A bundle of one tensor. */
static void write_tensor(fixture *f, const char *prefix, const char *name, const hs_tensor *tensor)
{
    char index[128], data[128];
    hs__bundle_writer writer;
    snprintf(index, sizeof index, "%s.index", prefix);
    snprintf(data, sizeof data, "%s." DATA, prefix);
    assert_ok(hs__bundle_writer_open(&writer, &f->t.env, in(f, data), 0, 1, &f->err), &f->err);
    assert_ok(hs__bundle_writer_add(&writer, name, tensor, &f->err), &f->err);
    assert_ok(hs__bundle_writer_finish(&writer, in(f, index), &f->err), &f->err);
    hs__bundle_writer_close(&writer);
}

/* Have both checkpoints the same tensors? */
static void assert_same_checkpoints(fixture *f, const char *one, const char *other)
{
    hs_checkpoint_reader *a = hs_checkpoint_open(NULL, in(f, one), &f->err),
                         *b = hs_checkpoint_open(NULL, in(f, other), &f->err);
    const char *name;
    hs_tensor info, same;
    size_t n = 0;
    assert_true(a && b);
    for (; hs_checkpoint_tensor(a, n, &name, &info); n++) {
        assert_ok(hs_checkpoint_find(b, name, &same, &f->err), &f->err);
        assert_memory_equal(&info, &same, sizeof info);
        char *data = malloc(info.bytes + 1), *copy = malloc(info.bytes + 1);
        assert_ok(hs_checkpoint_read(a, name, data, info.bytes, &f->err), &f->err);
        assert_ok(hs_checkpoint_read(b, name, copy, info.bytes, &f->err), &f->err);
        if (info.bytes)
            assert_memory_equal(data, copy, info.bytes);
        free(data);
        free(copy);
    }
    assert_true(n > 0 && !hs_checkpoint_tensor(b, n, NULL, NULL));
    hs_checkpoint_close(a);
    hs_checkpoint_close(b);
}

/* There and back. */

static void a_model_goes_there_and_back(void **state)
{
    fixture *f = *state;
    save_at(f, 3);
    assert_ok(convert(f, "model.ckpt-3", "m.safetensors"), &f->err);
    assert_ok(convert(f, "m.safetensors", "back/model.ckpt-3"), &f->err);
    assert_same_checkpoints(f, "model.ckpt-3", "back/model.ckpt-3");
    model_set(&f->m, 9);
    assert_ok(hs_saver_restore(f->saver, model_raw(&f->m), in(f, "back/model.ckpt-3"), NULL, &f->err), &f->err);
    assert_true(model_is(&f->m, 3));
    assert_int_equal(test_count_files(f->directory, ".tmp"), 0);
}

static void the_file_equals_one_saved_by_a_session(void **state)
{
    fixture *f = *state;
    size_t bytes, same;
    save_at(f, 3);
    assert_ok(convert(f, "model.ckpt-3", "a.safetensors"), &f->err);
    assert_ok(hs_safetensors_save(model_raw(&f->m), in(f, "b.safetensors"), NULL, &f->err), &f->err);
    char *a = test_read_file(in(f, "a.safetensors"), &bytes), *b = test_read_file(in(f, "b.safetensors"), &same);
    assert_int_equal(bytes, same);
    assert_memory_equal(a, b, bytes);
    free(a);
    free(b);
}

static void every_dtype_and_shape_goes_there_and_back(void **state)
{
    fixture *f = *state;
    static const hs_dtype dtypes[] = {HS_DOUBLE, HS_FLOAT,  HS_HALF,   HS_BFLOAT16, HS_INT64, HS_INT32, HS_INT16,
                                      HS_INT8,   HS_UINT64, HS_UINT32, HS_UINT16,   HS_UINT8, HS_BOOL,  HS_COMPLEX64};
    static const unsigned char data[512] = {1, 0, 1, 1, [40] = 1, [200] = 1};
    hs__bundle_writer writer;
    assert_ok(hs__bundle_writer_open(&writer, &f->t.env, in(f, "all." DATA), 0, 1, &f->err), &f->err);
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        char name[64];
        const hs_shape shapes[] = {HS_SCALAR, HS_SHAPE(3, 5), HS_SHAPE(0, 2), HS_SHAPE(1, 2, 1, 3, 1, 2, 2, 1)};
        for (size_t k = 0; k < 4; k++) {
            hs_tensor tensor = hs_tensor_of(dtypes[i], shapes[k], data);
            snprintf(name, sizeof name, "%s/%zu", hs_dtype_name(dtypes[i]), k);
            assert_ok(hs__bundle_writer_add(&writer, name, &tensor, &f->err), &f->err);
        }
    }
    assert_ok(hs__bundle_writer_finish(&writer, in(f, "all.index"), &f->err), &f->err);
    hs__bundle_writer_close(&writer);
    assert_ok(convert(f, "all", "all.safetensors"), &f->err);
    assert_ok(convert(f, "all.safetensors", "back"), &f->err);
    assert_same_checkpoints(f, "all", "back");
}

/* States of any kind. */
static void states_are_converted(void **state)
{
    fixture *f = *state;
    hs_tensor bytes = hs_tensor_of(HS_UINT8, HS_SHAPE(5), "\1\2\3\4\5");
    write_tensor(f, "s", "hooksess/hook/counter", &bytes);
    assert_ok(convert(f, "s", "s.safetensors"), &f->err);
    assert_ok(convert(f, "s.safetensors", "back"), &f->err);
    assert_same_checkpoints(f, "s", "back");
}

/* An identity is a string, which safetensors does not have. It is converted to bytes and back. */
static void identities_of_state_come_along(void **state)
{
    fixture *f = *state;
    hs_string line = {"a data set, 10 examples", 23};
    hs_tensor text = hs_tensor_of(HS_STRING, HS_SCALAR, &line);
    write_tensor(f, "s", "hooksess/state/input:identity", &text);
    assert_ok(convert(f, "s", "s.safetensors"), &f->err);
    assert_ok(convert(f, "s.safetensors", "back"), &f->err);
    hs_checkpoint_reader *reader = hs_checkpoint_open(&f->t.env, in(f, "back"), &f->err);
    struct {
        hs_string line;
        char rest[128];
    } read;
    hs_tensor info;
    assert_ok(hs_checkpoint_find(reader, "hooksess/state/input:identity", &info, &f->err), &f->err);
    assert_int_equal(info.dtype, HS_STRING);
    assert_int_equal(info.rank, 0);
    assert_ok(hs_checkpoint_read(reader, "hooksess/state/input:identity", &read, info.bytes, &f->err), &f->err);
    assert_int_equal(read.line.bytes, line.bytes);
    assert_memory_equal(read.line.data, line.data, line.bytes);
    hs_checkpoint_close(reader);
}

static hs_code convert_identity(test_env *t, void *user)
{
    fixture *f = user;
    hs_error err;
    test_tolerate_harmless(t);                        /* looking for leftovers */
    test_tolerate(t, "': no memory for its path");    /* old data */
    test_tolerate(t, "; a power failure may lose '"); /* the directory was not made here */
    hs_code code = hs_checkpoint_convert(&t->env, in(f, "s"), in(f, "s.safetensors"), NULL, &err);
    return code ? code : hs_checkpoint_convert(&t->env, in(f, "s.safetensors"), in(f, "back"), NULL, &err);
}

static void each_failure_with_an_identity(void **state)
{
    fixture *f = *state;
    hs_string line = {"a data set, 10 examples", 23};
    hs_tensor text = hs_tensor_of(HS_STRING, HS_SCALAR, &line);
    write_tensor(f, "s", "hooksess/state/input:identity", &text);
    test_each_allocation(convert_identity, f);
    test_each_file_call(convert_identity, NULL, EIO, false, f);
}

/* They take the memory of a few. */
static void large_tensors_go_in_pieces(void **state)
{
    fixture *f = *state;
    enum { N = (16 << 20) + 12345, BUFFER = 5 << 20 };
    unsigned char *data = malloc(N);
    for (size_t i = 0; i < N; i++)
        data[i] = (unsigned char)(i * 2654435761u >> 13);
    hs_tensor tensor = hs_tensor_of(HS_UINT8, HS_SHAPE(N), data);
    write_tensor(f, "large", "x", &tensor);
    meter m;
    meter_init(&m, &f->t.env);
    assert_ok(hs_checkpoint_convert(&m.env, in(f, "large"), in(f, "large.safetensors"), NULL, &f->err), &f->err);
    assert_ok(hs_checkpoint_convert(&m.env, in(f, "large.safetensors"), in(f, "back"), NULL, &f->err), &f->err);
    assert_in_range(m.largest, 1, BUFFER);
    assert_same_checkpoints(f, "large", "back");
    free(data);
}

/* Existing files. */

static void a_checkpoint_of_the_name_is_replaced(void **state)
{
    fixture *f = *state;
    save_at(f, 3);
    assert_ok(convert(f, "model.ckpt-3", "m.safetensors"), &f->err);
    save_at(f, 5);
    assert_true(has_file(f, 5, "meta"));
    assert_ok(convert(f, "m.safetensors", "model.ckpt-5"), &f->err);
    assert_same_checkpoints(f, "model.ckpt-3", "model.ckpt-5");
    assert_int_equal(test_count_files(f->directory, "model.ckpt-5.data"), 1);
    assert_false(has_file(f, 5, "meta"));
}

static void nothing_else_is_touched(void **state)
{
    fixture *f = *state;
    save_at(f, 1);
    save_at(f, 2);
    test_write_file(in(f, "model.ckpt-9." DATA ".tmp"), "x", 1);
    char *before = test_read_file(in(f, "checkpoint"), NULL);
    assert_ok(convert(f, "model.ckpt-1", "m.safetensors"), &f->err);
    assert_ok(convert(f, "m.safetensors", "model.ckpt-7"), &f->err);
    char *after = test_read_file(in(f, "checkpoint"), NULL);
    assert_string_equal(before, after);
    assert_true(test_exists(f->directory, "model.ckpt-9." DATA ".tmp"));
    assert_true(has_file(f, 2, "index"));
    free(before);
    free(after);
}

/* Refusals. */

static void exactly_one_name_must_end_in_safetensors(void **state)
{
    fixture *f = *state;
    save_at(f, 3);
    assert_fails(convert(f, "model.ckpt-3", "other"), HS_INVALID_ARGUMENT, &f->err,
                 "exactly one of the two names must end in .safetensors");
    assert_fails(convert(f, "a.safetensors", "b.safetensors"), HS_INVALID_ARGUMENT, &f->err,
                 "exactly one of the two names must end in .safetensors");
    assert_fails(hs_checkpoint_convert(NULL, NULL, "x.safetensors", NULL, &f->err), HS_INVALID_ARGUMENT, &f->err,
                 "is missing");
    assert_fails(hs_checkpoint_convert(NULL, "x", NULL, NULL, &f->err), HS_INVALID_ARGUMENT, &f->err, "to is missing");
    assert_fails(hs_checkpoint_convert(NULL, "x.safetensors", "run/", NULL, &f->err), HS_INVALID_ARGUMENT, &f->err,
                 "is missing");
    assert_fails(convert(f, "none", "x.safetensors"), HS_NOT_FOUND, &f->err, "none");
    assert_fails(convert(f, "none.safetensors", "x"), HS_NOT_FOUND, &f->err, "none.safetensors");
    assert_fails(convert(f, "model.ckpt-3.index", "x.safetensors"), HS_NOT_FOUND, &f->err,
                 "not the prefix of a checkpoint");
}

static void tensors_to_skip_are_left_out(void **state)
{
    fixture *f = *state;
    hs_checkpoint_reader *reader;
    save_at(f, 3);
    assert_ok(hs_checkpoint_convert(NULL, in(f, "model.ckpt-3"), in(f, "a.safetensors"), HS_NAMES("weights"), &f->err),
              &f->err);
    assert_non_null(reader = hs_checkpoint_open(NULL, in(f, "a.safetensors"), &f->err));
    assert_fails(hs_checkpoint_find(reader, "weights", NULL, &f->err), HS_NOT_FOUND, &f->err, "weights");
    assert_ok(hs_checkpoint_find(reader, "global_step", NULL, &f->err), &f->err);
    hs_checkpoint_close(reader);
    assert_ok(hs_checkpoint_convert(NULL, in(f, "a.safetensors"), in(f, "b"), HS_NAMES("global_step"), &f->err), &f->err);
    assert_non_null(reader = hs_checkpoint_open(NULL, in(f, "b"), &f->err));
    assert_fails(hs_checkpoint_find(reader, "global_step", NULL, &f->err), HS_NOT_FOUND, &f->err, "global_step");
    hs_checkpoint_close(reader);
}

static void a_tensor_to_skip_must_exist(void **state)
{
    fixture *f = *state;
    save_at(f, 3);
    assert_ok(convert(f, "model.ckpt-3", "a.safetensors"), &f->err);
    assert_fails(hs_checkpoint_convert(NULL, in(f, "model.ckpt-3"), in(f, "x.safetensors"), HS_NAMES("wieghts"), &f->err),
                 HS_NOT_FOUND, &f->err, "has no tensor 'wieghts' to skip");
    assert_fails(hs_checkpoint_convert(NULL, in(f, "a.safetensors"), in(f, "x"), HS_NAMES("wieghts"), &f->err),
                 HS_NOT_FOUND, &f->err, "has no tensor 'wieghts' to skip");
    assert_false(hs_checkpoint_exists(NULL, in(f, "x")));
}

static void tensors_that_the_format_has_not_are_named(void **state)
{
    fixture *f = *state;
    const hs_string text = {"text", 4};
    const double z[2] = {1, 2};
    const hs_tensor tensors[] = {hs_tensor_of(HS_STRING, HS_SCALAR, &text), hs_tensor_of(HS_COMPLEX128, HS_SCALAR, z),
                                 hs_tensor_of(HS_QINT32, HS_SCALAR, z)};
    for (size_t i = 0; i < 3; i++) {
        write_tensor(f, "odd", "some/tensor", &tensors[i]);
        assert_fails(convert(f, "odd", "m.safetensors"), HS_INVALID_ARGUMENT, &f->err, "'some/tensor' has dtype");
        assert_contains(f->err.message, hs_dtype_name(tensors[i].dtype));
        assert_int_equal(test_count_files(f->directory, "m.safetensors"), 0);
    }
}

/* The empty name is the header of a bundle. */
static void names_that_a_checkpoint_has_not_are_refused(void **state)
{
    fixture *f = *state;
    static const char header[] = "{\"\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}";
    char bytes[sizeof header + 7] = {sizeof header - 1};
    memcpy(bytes + 8, header, sizeof header - 1);
    test_write_file(in(f, "m.safetensors"), bytes, sizeof bytes);
    assert_fails(convert(f, "m.safetensors", "x"), HS_INVALID_ARGUMENT, &f->err, "an empty name");
    assert_int_equal(test_count_files(f->directory, "x."), 0);
}

/* After a failure the old file stays. */
static void damage_is_found_and_nothing_replaced(void **state)
{
    fixture *f = *state;
    save_at(f, 2);
    assert_ok(convert(f, "model.ckpt-2", "m.safetensors"), &f->err);
    save_at(f, 3);
    flip_bit(file_of(f, 3, DATA), 77);
    assert_fails(convert(f, "model.ckpt-3", "m.safetensors"), HS_DATA_LOSS, &f->err, "checksum mismatch");
    assert_ok(convert(f, "m.safetensors", "back"), &f->err);
    assert_same_checkpoints(f, "model.ckpt-2", "back");
    truncate_to(in(f, "m.safetensors"), 100);
    assert_fails(convert(f, "m.safetensors", "back"), HS_DATA_LOSS, &f->err, "m.safetensors");
    assert_same_checkpoints(f, "model.ckpt-2", "back");
    assert_int_equal(test_count_files(f->directory, ".tmp"), 0);
}

static void an_environment_must_be_whole(void **state)
{
    fixture *f = *state;
    hs_env half = HS_INIT(hs_env, .clock = {.monotonic_ns = f->t.env.clock.monotonic_ns});
    hs_code code = hs_checkpoint_convert(&half, in(f, "a"), in(f, "a.safetensors"), NULL, &f->err);
    assert_fails(code, HS_INVALID_ARGUMENT, &f->err, "clock");
}

static hs_code held(void *user, const char *path, void **lock, hs_error *err)
{
    (void)user, (void)lock;
    return hs_error_set(err, HS_FAILED_PRECONDITION, "%s: locked by process 7", path);
}

static void a_directory_held_by_another_process_is_not_changed(void **state)
{
    fixture *f = *state;
    save_at(f, 3);
    assert_ok(convert(f, "model.ckpt-3", "m.safetensors"), &f->err);
    hs_env env = f->t.env;
    hs_file_system_ops ops = *env.files.ops;
    ops.lock = held;
    env.files.ops = &ops;
    hs_code code = hs_checkpoint_convert(&env, in(f, "m.safetensors"), in(f, "model.ckpt-4"), NULL, &f->err);
    assert_fails(code, HS_FAILED_PRECONDITION, &f->err, "process 7");
    assert_false(has_file(f, 4, "index"));
    code = hs_checkpoint_convert(&env, in(f, "model.ckpt-3"), in(f, "again.safetensors"), NULL, &f->err);
    assert_ok(code, &f->err); /* writing a file next to it is not a save */
}

/* Failures. */

typedef struct {
    fixture *f;
    const char *from, *to;
} route;

static hs_code converting(test_env *t, void *user)
{
    const route *r = user;
    test_tolerate_harmless(t);                        /* looking for leftovers */
    test_tolerate(t, "': no memory for its path");    /* old data */
    test_tolerate(t, "; a power failure may lose '"); /* the directory was not made here */
    return hs_checkpoint_convert(&t->env, in(r->f, r->from), in(r->f, r->to), NULL, &r->f->err);
}

/* The file is the old one, of step 1, or the new one, of step 2. */
static void old_or_new(void *user)
{
    const route *r = user;
    fixture *f = r->f;
    model_set(&f->m, 9);
    hs_code code = strstr(r->to, ".safetensors")
                       ? hs_safetensors_load(model_raw(&f->m), in(f, r->to), NULL, &f->err)
                       : hs_saver_restore(f->saver, model_raw(&f->m), in(f, r->to), NULL, &f->err);
    assert_ok(code, &f->err);
    assert_true(model_is(&f->m, 1) || model_is(&f->m, 2));
    assert_int_equal(test_count_files(f->directory, ".tmp"), 0);
}

static void fail_everything(route *r)
{
    test_each_file_call(converting, old_or_new, ENOSPC, false, r);
    test_each_file_call(converting, old_or_new, EIO, true, r);
    test_each_allocation(converting, r);
    assert_true(model_is(&r->f->m, 2));
}

static void each_failure_on_the_way_to_a_file(void **state)
{
    fixture *f = *state;
    save_at(f, 1);
    assert_ok(convert(f, "model.ckpt-1", "m.safetensors"), &f->err);
    save_at(f, 2);
    fail_everything(&(route){f, "model.ckpt-2", "m.safetensors"});
}

static void each_failure_on_the_way_to_a_checkpoint(void **state)
{
    fixture *f = *state;
    save_at(f, 2);
    assert_ok(convert(f, "model.ckpt-2", "m.safetensors"), &f->err);
    save_at(f, 1);
    fail_everything(&(route){f, "m.safetensors", "model.ckpt-1"});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(a_model_goes_there_and_back),
        with_fixture(the_file_equals_one_saved_by_a_session),
        with_fixture(every_dtype_and_shape_goes_there_and_back),
        with_fixture(states_are_converted),
        with_fixture(large_tensors_go_in_pieces),
        with_fixture(a_checkpoint_of_the_name_is_replaced),
        with_fixture(nothing_else_is_touched),
        with_fixture(exactly_one_name_must_end_in_safetensors),
        with_fixture(tensors_to_skip_are_left_out),
        with_fixture(a_tensor_to_skip_must_exist),
        with_fixture(tensors_that_the_format_has_not_are_named),
        with_fixture(names_that_a_checkpoint_has_not_are_refused),
        with_fixture(damage_is_found_and_nothing_replaced),
        with_fixture(an_environment_must_be_whole),
        with_fixture(a_directory_held_by_another_process_is_not_changed),
        with_fixture(each_failure_on_the_way_to_a_file),
        with_fixture(each_failure_on_the_way_to_a_checkpoint),
        with_fixture(identities_of_state_come_along),
        with_fixture(each_failure_with_an_identity),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
