/* SPDX-License-Identifier: Apache-2.0 */
/* Verifying a checkpoint without reading it into memory. */
#include "checkpoint/model.h"

#include <errno.h>
#include <unistd.h>

enum { FOOTER = 48 }; /* of an index: no checksum covers it */

/* The index and every tensor of the checkpoint of step 1. */
static hs_code verify_all(const hs_env *env, const fixture *f, hs_error *err)
{
    hs_checkpoint_reader *reader = hs_checkpoint_open(env, file_of(f, 1, NULL), err);
    if (!reader)
        return err->code;
    const char *name;
    hs_code code = hs_checkpoint_verify(reader, NULL, err);
    for (size_t i = 0; !code && hs_checkpoint_tensor(reader, i, &name, NULL); i++)
        code = hs_checkpoint_verify(reader, name, err);
    hs_checkpoint_close(reader);
    return code;
}

/* Returns the number of flipped bits that are not detected, in a file without its last bytes. */
static size_t unnoticed(fixture *f, const char *ending, size_t unchecked)
{
    size_t bytes, count = 0;
    free(test_read_file(file_of(f, 1, ending), &bytes));
    for (size_t bit = 0; bit < 8 * (bytes - unchecked); bit++) {
        flip_bit(file_of(f, 1, ending), bit);
        hs_code code = verify_all(&f->t.env, f, &f->err);
        count += code == HS_OK;
        assert_true(code == HS_OK || code == HS_DATA_LOSS);
        flip_bit(file_of(f, 1, ending), bit);
    }
    assert_ok(verify_all(&f->t.env, f, &f->err), &f->err);
    return count;
}

static void every_wrong_bit_with_a_checksum_is_found(void **state)
{
    fixture *f = *state;
    save_at(f, 1);
    assert_int_equal(unnoticed(f, "index", FOOTER), 0);
    assert_int_equal(unnoticed(f, DATA, 0), 0);
}

static void each_tensor_stands_for_itself(void **state)
{
    fixture *f = *state;
    save_at(f, 1);
    flip_bit(file_of(f, 1, DATA), 8 * 47); /* of the weights: their name is the last */
    hs_checkpoint_reader *reader = hs_checkpoint_open(&f->t.env, file_of(f, 1, NULL), &f->err);
    assert_ok(hs_checkpoint_verify(reader, NULL, &f->err), &f->err);
    assert_ok(hs_checkpoint_verify(reader, "bias", &f->err), &f->err);
    assert_fails(hs_checkpoint_verify(reader, "weights", &f->err), HS_DATA_LOSS, &f->err, "checksum mismatch of 'weights'");
    assert_ok(hs_checkpoint_verify(reader, "bias", &f->err), &f->err);
    assert_int_equal(f->err.code, HS_OK);
    hs_checkpoint_close(reader);
}

static void a_missing_tensor_is_not_found(void **state)
{
    fixture *f = *state;
    save_at(f, 1);
    hs_checkpoint_reader *reader = hs_checkpoint_open(&f->t.env, file_of(f, 1, NULL), &f->err);
    assert_fails(hs_checkpoint_verify(reader, "none", &f->err), HS_NOT_FOUND, &f->err, "no tensor 'none'");
    assert_int_equal(unlink(file_of(f, 1, DATA)), 0);
    assert_fails(hs_checkpoint_verify(reader, "bias", &f->err), HS_NOT_FOUND, &f->err, DATA);
    assert_int_equal(unlink(file_of(f, 1, "index")), 0);
    assert_fails(hs_checkpoint_verify(reader, NULL, &f->err), HS_NOT_FOUND, &f->err, "index");
    hs_checkpoint_close(reader);
    assert_fails(hs_checkpoint_verify(NULL, NULL, &f->err), HS_INVALID_ARGUMENT, &f->err, "reader is NULL");
}

static hs_code scenario(test_env *t, void *user)
{
    hs_error err = {0};
    return verify_all(&t->env, user, &err);
}

static void each_allocation_and_each_file_call(void **state)
{
    save_at(*state, 1);
    test_each_allocation(scenario, *state);
    test_each_file_call(scenario, NULL, EIO, false, *state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(every_wrong_bit_with_a_checksum_is_found),
        with_fixture(each_tensor_stands_for_itself),
        with_fixture(a_missing_tensor_is_not_found),
        with_fixture(each_allocation_and_each_file_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
