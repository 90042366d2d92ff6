/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a checkpoint without a session. */
#include "checkpoint/model.h"

#include "formats/bundle.h"
#include "formats/packed.h"

#include <errno.h>
#include <unistd.h>

static hs_checkpoint_reader *open_at(fixture *f, int64_t step)
{
    hs_checkpoint_reader *reader = hs_checkpoint_open(&f->t.env, file_of(f, step, NULL), &f->err);
    if (!reader)
        fail_msg("%s", f->err.message);
    return reader;
}

static void tensors_are_listed_by_name(void **state)
{
    fixture *f = *state;
    static const char *const names[] = {"bias", "global_step", "weights"};
    const char *name;
    save_at(f, 1);
    hs_checkpoint_reader *reader = open_at(f, 1);
    for (size_t i = 0; i < 3; i++) {
        assert_true(hs_checkpoint_tensor(reader, i, &name, NULL));
        assert_string_equal(name, names[i]);
    }
    assert_false(hs_checkpoint_tensor(reader, 3, &name, NULL));
    hs_checkpoint_close(reader);
}

static void a_tensor_is_described(void **state)
{
    fixture *f = *state;
    hs_tensor info;
    save_at(f, 1);
    hs_checkpoint_reader *reader = open_at(f, 1);
    assert_true(hs_checkpoint_tensor(reader, 2, NULL, &info));
    assert_int_equal(info.dtype, HS_FLOAT);
    assert_int_equal(info.rank, 2);
    assert_true(info.dims[0] == 2 && info.dims[1] == 3);
    assert_int_equal(info.bytes, 24);
    assert_null(info.data);
    hs_checkpoint_close(reader);
}

static void a_tensor_is_found_and_read(void **state)
{
    fixture *f = *state;
    hs_tensor info;
    double bias[2];
    save_at(f, 4);
    hs_checkpoint_reader *reader = open_at(f, 4);
    assert_ok(hs_checkpoint_find(reader, "bias", &info, &f->err), &f->err);
    assert_int_equal(info.bytes, sizeof bias);
    assert_ok(hs_checkpoint_read(reader, "bias", bias, sizeof bias, &f->err), &f->err);
    assert_memory_equal(bias, f->m.bias, sizeof bias);
    hs_checkpoint_close(reader);
}

static void tb_028s_an_index_may_be_compressed(void **state)
{
    fixture *f = *state;
    double bias[2];
    save_at(f, 4);
    pack_index(file_of(f, 4, "index"));
    hs_checkpoint_reader *reader = open_at(f, 4);
    assert_ok(hs_checkpoint_read(reader, "bias", bias, sizeof bias, &f->err), &f->err);
    assert_memory_equal(bias, f->m.bias, sizeof bias);
    assert_ok(hs_checkpoint_verify(reader, NULL, &f->err), &f->err);
    hs_checkpoint_close(reader);
    assert_ok(restart(f), &f->err);
    assert_true(model_is(&f->m, 4));
}

static void a_checkpoint_of_tensorflows_format_v1_is_named(void **state)
{
    fixture *f = *state;
    const char *sharded = test_path(f->directory, "model.ckpt-4-\?\?\?\?\?-of-00002");
    save_at(f, 4);
    assert_int_equal(rename(file_of(f, 4, "index"), file_of(f, 4, NULL)), 0); /* both formats are tables */
    assert_null(hs_checkpoint_open(&f->t.env, file_of(f, 4, NULL), &f->err));
    assert_says(&f->err, HS_UNIMPLEMENTED, "model.ckpt-4' is a checkpoint in format V1 of TensorFlow");
    assert_null(hs_checkpoint_open(&f->t.env, sharded, &f->err));
    assert_says(&f->err, HS_NOT_FOUND, "No such file");
    assert_fails(restore_newest(f), HS_DATA_LOSS, &f->err, "format V1");
    assert_null(hs_checkpoint_latest(&f->t.env, f->directory, NULL, &f->err));
    assert_contains(f->t.log, "model.ckpt-4' as the newest checkpoint, but it has format V1 of TensorFlow");
    assert_int_equal(rename(file_of(f, 4, NULL), test_path(f->directory, "model.ckpt-4-00000-of-00002")), 0);
    assert_null(hs_checkpoint_open(&f->t.env, sharded, &f->err));
    assert_says(&f->err, HS_UNIMPLEMENTED, "-of-00002' is a checkpoint in format V1 of TensorFlow");
}

static void other_files_without_an_index_are_not_found(void **state)
{
    fixture *f = *state;
    static const char text[60] = "text";
    save_at(f, 4);
    assert_null(hs_checkpoint_open(&f->t.env, file_of(f, 4, "index"), &f->err));
    assert_says(&f->err, HS_NOT_FOUND, "not the prefix of a checkpoint");
    for (size_t bytes = 0; bytes <= sizeof text; bytes += sizeof text / 2) {
        test_write_file(file_of(f, 5, NULL), text, bytes);
        assert_null(hs_checkpoint_open(&f->t.env, file_of(f, 5, NULL), &f->err));
        assert_says(&f->err, HS_NOT_FOUND, "model.ckpt-5.index: No such file");
    }
    assert_null(hs_checkpoint_open(&f->t.env, f->directory, &f->err));
    assert_int_equal(f->err.code, HS_NOT_FOUND);
}

static void sa_030_a_tensor_that_is_not_there(void **state)
{
    fixture *f = *state;
    hs_tensor info;
    char data[8];
    save_at(f, 1);
    hs_checkpoint_reader *reader = open_at(f, 1);
    assert_fails(hs_checkpoint_find(reader, "v3", &info, &f->err), HS_NOT_FOUND, &f->err, "no tensor 'v3'");
    assert_fails(hs_checkpoint_read(reader, "v3", data, 8, &f->err), HS_NOT_FOUND, &f->err, "no tensor 'v3'");
    assert_fails(hs_checkpoint_find(reader, NULL, &info, &f->err), HS_NOT_FOUND, &f->err, "(NULL)");
    assert_fails(hs_checkpoint_find(reader, "", &info, &f->err), HS_NOT_FOUND, &f->err, "no tensor ''");
    hs_checkpoint_close(reader);
}

static void the_size_must_be_right(void **state)
{
    fixture *f = *state;
    char data[32] = "untouched";
    save_at(f, 1);
    hs_checkpoint_reader *reader = open_at(f, 1);
    assert_fails(hs_checkpoint_read(reader, "bias", data, 15, &f->err), HS_INVALID_ARGUMENT, &f->err,
                 "it needs 16 bytes of memory, not 15");
    assert_fails(hs_checkpoint_read(reader, "bias", data, 17, &f->err), HS_INVALID_ARGUMENT, &f->err,
                 "it needs 16 bytes of memory, not 17");
    assert_string_equal(data, "untouched");
    hs_checkpoint_close(reader);
}

static void sa_031_a_missing_checkpoint(void **state)
{
    fixture *f = *state;
    assert_null(hs_checkpoint_open(&f->t.env, file_of(f, 1, NULL), &f->err));
    assert_says(&f->err, HS_NOT_FOUND, "model.ckpt-1");
    assert_null(hs_checkpoint_open(&f->t.env, NULL, &f->err));
    assert_says(&f->err, HS_INVALID_ARGUMENT, "is missing");
    assert_null(hs_checkpoint_open(&f->t.env, "", &f->err));
    assert_says(&f->err, HS_INVALID_ARGUMENT, "is missing");
    hs_checkpoint_close(NULL);
}

static void refuses_to_open(fixture *f, const char *path, bool mentions_prefixes)
{
    assert_null(hs_checkpoint_open(&f->t.env, path, &f->err));
    assert_says(&f->err, HS_NOT_FOUND, path);
    assert_int_equal(strstr(f->err.message, "not the prefix of a checkpoint") != NULL, mentions_prefixes);
}

static void a_file_of_a_checkpoint_is_not_its_prefix(void **state)
{
    fixture *f = *state;
    save_at(f, 1);
    refuses_to_open(f, file_of(f, 1, "index"), true);
    refuses_to_open(f, file_of(f, 1, DATA), true);
    assert_int_equal(hs_saver_restore(f->saver, model_raw(&f->m), file_of(f, 1, "index"), NULL, &f->err), HS_NOT_FOUND);
    assert_contains(f->err.message, "not the prefix of a checkpoint");
}

static void other_names_are_prefixes(void **state)
{
    fixture *f = *state;
    refuses_to_open(f, file_of(f, 1, NULL), false);
    refuses_to_open(f, test_path(f->directory, "reindex"), false);
    refuses_to_open(f, test_path(f->directory, "my.data-set/model"), false);
}

static void null_arguments(void **state)
{
    fixture *f = *state;
    hs_tensor info;
    char data[8];
    const char *name;
    assert_null(hs_checkpoint_open(NULL, NULL, NULL));
    assert_false(hs_checkpoint_tensor(NULL, 0, &name, &info));
    assert_fails(hs_checkpoint_find(NULL, "bias", &info, &f->err), HS_INVALID_ARGUMENT, &f->err, "reader is NULL");
    assert_fails(hs_checkpoint_read(NULL, "bias", data, 8, &f->err), HS_INVALID_ARGUMENT, &f->err, "reader is NULL");
    save_at(f, 1);
    hs_checkpoint_reader *reader = open_at(f, 1);
    assert_true(hs_checkpoint_tensor(reader, 0, NULL, NULL));
    assert_ok(hs_checkpoint_find(reader, "bias", NULL, &f->err), &f->err);
    assert_fails(hs_checkpoint_read(reader, NULL, data, 8, &f->err), HS_NOT_FOUND, &f->err, "(NULL)");
    assert_fails(hs_checkpoint_read(reader, "bias", NULL, 16, &f->err), HS_INVALID_ARGUMENT, &f->err,
                 "16 bytes of memory, not 0");
    hs_checkpoint_close(reader);
}

static void damage_is_found_when_the_tensor_is_read(void **state)
{
    fixture *f = *state;
    float weights[6];
    double bias[2];
    save_at(f, 1);
    flip_bit(file_of(f, 1, DATA), 8 * 47); /* of the weights: their name is the last */
    hs_checkpoint_reader *reader = open_at(f, 1);
    assert_fails(hs_checkpoint_read(reader, "weights", weights, sizeof weights, &f->err), HS_DATA_LOSS, &f->err,
                 "checksum mismatch of 'weights'");
    assert_ok(hs_checkpoint_read(reader, "bias", bias, sizeof bias, &f->err), &f->err);
    hs_checkpoint_close(reader);
}

static void missing_and_short_data(void **state)
{
    fixture *f = *state;
    double bias[2];
    save_at(f, 1);
    truncate_to(file_of(f, 1, DATA), 12);
    hs_checkpoint_reader *reader = open_at(f, 1);
    assert_fails(hs_checkpoint_read(reader, "bias", bias, sizeof bias, &f->err), HS_DATA_LOSS, &f->err,
                 "has 12 bytes, too few for 'bias'");
    hs_checkpoint_close(reader);
    assert_int_equal(unlink(file_of(f, 1, DATA)), 0);
    reader = open_at(f, 1);
    assert_fails(hs_checkpoint_read(reader, "bias", bias, sizeof bias, &f->err), HS_NOT_FOUND, &f->err, DATA);
    hs_checkpoint_close(reader);
}

static void strings_come_with_their_text(void **state)
{
    fixture *f = *state;
    hs__bundle_writer writer;
    const hs_string words[3] = {{"one", 3}, {"", 0}, {"thr\0ee", 6}};
    const hs_tensor value = hs_tensor_of(HS_STRING, HS_SHAPE(3), words);
    hs_tensor info;
    assert_ok(hs__bundle_writer_open(&writer, &f->t.env, file_of(f, 1, DATA), 0, 1, &f->err), &f->err);
    assert_ok(hs__bundle_writer_add(&writer, "words", &value, &f->err), &f->err);
    assert_ok(hs__bundle_writer_finish(&writer, file_of(f, 1, "index"), &f->err), &f->err);
    hs__bundle_writer_close(&writer);
    hs_checkpoint_reader *reader = open_at(f, 1);
    assert_ok(hs_checkpoint_find(reader, "words", &info, &f->err), &f->err);
    hs_string *read = malloc(info.bytes);
    assert_ok(hs_checkpoint_read(reader, "words", read, info.bytes, &f->err), &f->err);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(read[i].bytes, words[i].bytes);
        assert_memory_equal(read[i].data, words[i].data, words[i].bytes);
    }
    free(read);
    hs_checkpoint_close(reader);
}

static hs_code open_and_read(test_env *t, void *user)
{
    hs_error err = {0};
    double bias[2];
    hs_checkpoint_reader *reader = hs_checkpoint_open(&t->env, file_of(user, 1, NULL), &err);
    if (!reader)
        return err.code;
    hs_code code = hs_checkpoint_read(reader, "bias", bias, sizeof bias, &err);
    hs_checkpoint_close(reader);
    return code;
}

static void each_allocation_and_each_file_call(void **state)
{
    save_at(*state, 1);
    test_each_allocation(open_and_read, *state);
    test_each_file_call(open_and_read, NULL, EIO, false, *state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(tensors_are_listed_by_name),
        with_fixture(a_tensor_is_described),
        with_fixture(a_tensor_is_found_and_read),
        with_fixture(tb_028s_an_index_may_be_compressed),
        with_fixture(a_checkpoint_of_tensorflows_format_v1_is_named),
        with_fixture(other_files_without_an_index_are_not_found),
        with_fixture(sa_030_a_tensor_that_is_not_there),
        with_fixture(the_size_must_be_right),
        with_fixture(sa_031_a_missing_checkpoint),
        with_fixture(a_file_of_a_checkpoint_is_not_its_prefix),
        with_fixture(other_names_are_prefixes),
        with_fixture(null_arguments),
        with_fixture(damage_is_found_when_the_tensor_is_read),
        with_fixture(missing_and_short_data),
        with_fixture(strings_come_with_their_text),
        with_fixture(each_allocation_and_each_file_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
