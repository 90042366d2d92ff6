/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints with tensors in slices, and reading slices of tensors. */
#include "checkpoint/model.h"

#include "formats/bundle.h"

#include <errno.h>

/* A checkpoint of step 5, whose weights [2,3] are in two slices: their first column, and the rest. */
static void write_sliced(fixture *f)
{
    hs__bundle_writer writer;
    model_set(&f->m, 5);
    const float *w = f->m.weights, first[] = {w[0], w[3]}, rest[] = {w[1], w[2], w[4], w[5]};
    const hs_shape weights = HS_SHAPE(2, 3);
    const int64_t second_start[] = {0, 1}, first_start[] = {0, 0};
    const hs_tensor bias = hs_tensor_of(HS_DOUBLE, HS_SHAPE(2), f->m.bias),
                    step = hs_tensor_of(HS_INT64, HS_SCALAR, &f->m.step),
                    column = hs_tensor_of(HS_FLOAT, HS_SHAPE(2, 1), first),
                    columns = hs_tensor_of(HS_FLOAT, HS_SHAPE(2, 2), rest);
    assert_ok(hs__bundle_writer_open(&writer, &f->t.env, file_of(f, 5, DATA), 0, 1, &f->err), &f->err);
    assert_ok(hs__bundle_writer_add_slice(&writer, "weights", &weights, second_start, &columns, &f->err), &f->err);
    assert_ok(hs__bundle_writer_add(&writer, "bias", &bias, &f->err), &f->err);
    assert_ok(hs__bundle_writer_add_slice(&writer, "weights", &weights, first_start, &column, &f->err), &f->err);
    assert_ok(hs__bundle_writer_add(&writer, "global_step", &step, &f->err), &f->err);
    assert_ok(hs__bundle_writer_finish(&writer, file_of(f, 5, "index"), &f->err), &f->err);
    hs__bundle_writer_close(&writer);
}

static hs_checkpoint_reader *open_sliced(fixture *f)
{
    hs_checkpoint_reader *reader = hs_checkpoint_open(&f->t.env, file_of(f, 5, NULL), &f->err);
    if (!reader)
        fail_msg("%s", f->err.message);
    return reader;
}

static void a_variable_in_slices_is_restored(void **state)
{
    fixture *f = *state;
    write_sliced(f);
    model_set(&f->m, 77);
    assert_ok(hs_saver_restore(f->saver, model_raw(&f->m), file_of(f, 5, NULL), NULL, &f->err), &f->err);
    assert_true(model_is(&f->m, 5));
}

static void a_damaged_slice_leaves_the_model_as_it_was(void **state)
{
    fixture *f = *state;
    write_sliced(f);
    flip_bit(file_of(f, 5, DATA), 3);
    model_set(&f->m, 77);
    assert_fails(hs_saver_restore(f->saver, model_raw(&f->m), file_of(f, 5, NULL), NULL, &f->err), HS_DATA_LOSS, &f->err,
                 "checksum mismatch of 'weights'");
    assert_true(model_is(&f->m, 77));
}

static hs_code restore_sliced(test_env *t, void *user)
{
    fixture *f = user;
    hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.env = &t->env), NULL);
    if (!saver)
        return HS_RESOURCE_EXHAUSTED;
    model_set(&f->m, 77);
    hs_code code = hs_saver_restore(saver, model_raw(&f->m), file_of(f, 5, NULL), NULL, NULL);
    assert_true(model_is(&f->m, code ? 77 : 5));
    hs_saver_free(saver);
    return code;
}

static void each_allocation_and_each_file_call_of_a_restore(void **state)
{
    write_sliced(*state);
    test_each_allocation(restore_sliced, *state);
    test_each_file_call(restore_sliced, NULL, EIO, false, *state);
}

static void a_variable_in_slices_is_one_tensor(void **state)
{
    fixture *f = *state;
    static const char *const names[] = {"bias", "global_step", "weights"};
    const char *name;
    hs_tensor info;
    float weights[6];
    write_sliced(f);
    hs_checkpoint_reader *reader = open_sliced(f);
    for (size_t i = 0; i < 3; i++) {
        assert_true(hs_checkpoint_tensor(reader, i, &name, &info));
        assert_string_equal(name, names[i]);
    }
    assert_false(hs_checkpoint_tensor(reader, 3, &name, &info));
    assert_true(info.dtype == HS_FLOAT && info.rank == 2 && info.dims[0] == 2 && info.dims[1] == 3);
    assert_int_equal(info.bytes, sizeof weights);
    assert_ok(hs_checkpoint_read(reader, "weights", weights, sizeof weights, &f->err), &f->err);
    assert_memory_equal(weights, f->m.weights, sizeof weights);
    assert_ok(hs_checkpoint_verify(reader, "weights", &f->err), &f->err);
    hs_checkpoint_close(reader);
}

/* Parts. */

static void assert_slice(fixture *f, hs_checkpoint_reader *reader, const char *name, const int64_t *starts,
                         const int64_t *lengths, const void *expected, size_t bytes)
{
    char found[64];
    assert_ok(hs_checkpoint_read_slice(reader, name, starts, lengths, found, bytes, &f->err), &f->err);
    assert_memory_equal(found, expected, bytes);
}

static void tb_006_parts_are_read_over_slices(void **state)
{
    fixture *f = *state;
    write_sliced(f);
    const float *w = f->m.weights, two_columns[] = {w[0], w[1], w[3], w[4]}, last[] = {w[2], w[5]};
    hs_checkpoint_reader *reader = open_sliced(f);
    const int64_t starts[] = {0, 2}, two[] = {2, 2}, one[] = {2, 1};
    assert_slice(f, reader, "weights", (int64_t[]){0, 0}, two, two_columns, sizeof two_columns);
    assert_slice(f, reader, "weights", starts, one, last, sizeof last);
    assert_slice(f, reader, "weights", (int64_t[]){1, 0}, (int64_t[]){1, 3}, w + 3, 12);
    assert_slice(f, reader, "weights", (int64_t[]){1, 1}, (int64_t[]){0, 2}, NULL, 0);
    hs_checkpoint_close(reader);
}

static void tb_007_missing_bounds_select_everything(void **state)
{
    fixture *f = *state;
    write_sliced(f);
    hs_checkpoint_reader *reader = open_sliced(f);
    const int64_t ends[] = {-1, -1};
    const float *w = f->m.weights;
    assert_slice(f, reader, "weights", NULL, NULL, w, 24);
    assert_slice(f, reader, "weights", NULL, ends, w, 24);
    assert_slice(f, reader, "weights", NULL, (int64_t[]){2, 3}, w, 24);
    assert_slice(f, reader, "weights", (int64_t[]){1, 1}, NULL, w + 4, 8);
    assert_slice(f, reader, "bias", NULL, NULL, f->m.bias, 16);
    assert_slice(f, reader, "bias", (int64_t[]){1}, ends, f->m.bias + 1, 8);
    assert_slice(f, reader, "global_step", NULL, NULL, &f->m.step, 8);
    hs_checkpoint_close(reader);
}

static void parts_that_there_are_not(void **state)
{
    fixture *f = *state;
    char data[32] = "untouched";
    write_sliced(f);
    hs_checkpoint_reader *reader = open_sliced(f);
    assert_fails(hs_checkpoint_read_slice(reader, "weights", (int64_t[]){0, 2}, (int64_t[]){2, 2}, data, 16, &f->err),
                 HS_INVALID_ARGUMENT, &f->err, "[0:2,2:4] is not a part of 'weights'");
    assert_contains(f->err.message, "with shape [2,3]");
    assert_fails(hs_checkpoint_read_slice(reader, "bias", (int64_t[]){-1}, NULL, data, 8, &f->err), HS_INVALID_ARGUMENT,
                 &f->err, "[-1:] is not a part of 'bias'");
    assert_fails(hs_checkpoint_read_slice(reader, "bias", (int64_t[]){1}, NULL, data, 16, &f->err), HS_INVALID_ARGUMENT,
                 &f->err, "it needs 8 bytes of memory, not 16");
    assert_fails(hs_checkpoint_read_slice(reader, "bias", (int64_t[]){1}, NULL, NULL, 8, &f->err), HS_INVALID_ARGUMENT,
                 &f->err, "it needs 8 bytes of memory, not 0");
    assert_fails(hs_checkpoint_read_slice(reader, "none", NULL, NULL, data, 8, &f->err), HS_NOT_FOUND, &f->err, "'none'");
    assert_fails(hs_checkpoint_read_slice(reader, NULL, NULL, NULL, data, 8, &f->err), HS_NOT_FOUND, &f->err, "(NULL)");
    assert_fails(hs_checkpoint_read_slice(NULL, "bias", NULL, NULL, data, 8, &f->err), HS_INVALID_ARGUMENT, &f->err,
                 "reader is NULL");
    assert_string_equal(data, "untouched");
    hs_checkpoint_close(reader);
}

static hs_code read_parts(test_env *t, void *user)
{
    hs_error err = {0};
    float column[2];
    double bias;
    hs_checkpoint_reader *reader = hs_checkpoint_open(&t->env, file_of(user, 5, NULL), &err);
    if (!reader)
        return err.code;
    hs_code code = HS_OK;
    for (int i = 0; i < 2 && !code; i++)
        if (!(code = hs_checkpoint_read_slice(reader, "weights", NULL, (int64_t[]){2, 1}, column, 8, &err)))
            code = hs_checkpoint_read_slice(reader, "bias", (int64_t[]){1}, NULL, &bias, 8, &err);
    hs_checkpoint_close(reader);
    return code;
}

static void each_allocation_and_each_file_call_of_parts(void **state)
{
    write_sliced(*state);
    test_each_allocation(read_parts, *state);
    test_each_file_call(read_parts, NULL, EIO, false, *state);
}

/* Another dtype. */

static void tb_045s_another_dtype_than_the_stored_one(void **state)
{
    fixture *f = *state;
    float bias[2] = {1, 2};
    save_at(f, 5);
    hs_graph *graph = hs_graph_new(&f->t.env);
    hs_graph_variable(graph, "bias", HS_FLOAT, HS_SHAPE(2), bias);
    hs_session *session = hs_session_open(hs_graph_backend(graph), NULL, &f->err);
    assert_non_null(session);
    assert_fails(hs_saver_restore(f->saver, hs_session_raw(session), file_of(f, 5, NULL), NULL, &f->err),
                 HS_INVALID_ARGUMENT, &f->err, "'bias' is double [2] in the checkpoint, but float [2] in the model");
    assert_true(bias[0] == 1 && bias[1] == 2);
    hs_session_close(session, NULL);
    hs_graph_free(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(a_variable_in_slices_is_restored),
        with_fixture(a_damaged_slice_leaves_the_model_as_it_was),
        with_fixture(each_allocation_and_each_file_call_of_a_restore),
        with_fixture(a_variable_in_slices_is_one_tensor),
        with_fixture(tb_006_parts_are_read_over_slices),
        with_fixture(tb_007_missing_bounds_select_everything),
        with_fixture(parts_that_there_are_not),
        with_fixture(each_allocation_and_each_file_call_of_parts),
        with_fixture(tb_045s_another_dtype_than_the_stored_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
