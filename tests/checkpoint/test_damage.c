/* SPDX-License-Identifier: Apache-2.0 */
/* Every truncation and every flipped bit of a small checkpoint: restoring fails and leaves the model alone, or gives the
 * right values. */
#include "checkpoint/model.h"

enum { WAS = 9 };

/* Restores the checkpoint of step 3, whose file at `path` is damaged somehow. Did it fail? */
static bool refused(fixture *f, const char *what, size_t where)
{
    model_set(&f->m, WAS);
    hs_code code = hs_saver_restore(f->saver, model_raw(&f->m), file_of(f, 3, NULL), NULL, &f->err);
    if (!model_is(&f->m, code ? WAS : 3))
        fail_msg("%s %zu: %s, and the model is neither", what, where, hs_code_name(code));
    if (code && code != HS_DATA_LOSS && code != HS_NOT_FOUND && code != HS_INVALID_ARGUMENT && code != HS_UNIMPLEMENTED)
        fail_msg("%s %zu: %s: %s", what, where, hs_code_name(code), f->err.message);
    if (code)
        assert_contains(f->err.message, "model.ckpt-3");
    return code != HS_OK;
}

static size_t truncate_everywhere(fixture *f, const char *ending)
{
    size_t bytes, accepted = 0;
    save_at(f, 3);
    char *whole = test_read_file(file_of(f, 3, ending), &bytes);
    for (size_t n = 0; n < bytes; n++) {
        test_write_file(file_of(f, 3, ending), whole, n);
        accepted += !refused(f, "the first bytes, ", n);
    }
    test_write_file(file_of(f, 3, ending), whole, bytes);
    assert_false(refused(f, "all bytes, ", bytes));
    free(whole);
    return accepted;
}

static size_t flip_everywhere(fixture *f, const char *ending)
{
    size_t bytes, accepted = 0;
    save_at(f, 3);
    char *data = test_read_file(file_of(f, 3, ending), &bytes);
    for (size_t bit = 0; bit < 8 * bytes; bit++) {
        data[bit / 8] = (char)(data[bit / 8] ^ 1 << bit % 8);
        test_write_file(file_of(f, 3, ending), data, bytes);
        accepted += !refused(f, "bit", bit);
        data[bit / 8] = (char)(data[bit / 8] ^ 1 << bit % 8);
    }
    free(data);
    return accepted;
}

static void every_truncation_of_the_data(void **state)
{
    assert_int_equal(truncate_everywhere(*state, DATA), 0);
}

static void every_truncation_of_the_index(void **state)
{
    assert_int_equal(truncate_everywhere(*state, "index"), 0);
}

static void every_bit_of_the_data(void **state)
{
    assert_int_equal(flip_everywhere(*state, DATA), 0);
}

/* Some bits of an index say nothing: those of a block without entries (13 bytes), and of the footer's padding. */
static void every_bit_of_the_index(void **state)
{
    assert_in_range(flip_everywhere(*state, "index"), 0, 8 * (13 + 40));
}

/* What follows the data belongs to nothing. */
static void bytes_after_the_data(void **state)
{
    fixture *f = *state;
    size_t bytes;
    save_at(f, 3);
    char *data = test_read_file(file_of(f, 3, DATA), &bytes);
    test_write_file(file_of(f, 3, DATA), data, bytes + 1); /* and the zero that follows */
    free(data);
    assert_false(refused(f, "one more than", bytes));
}

static void files_that_are_exchanged(void **state)
{
    fixture *f = *state;
    save_at(f, 2);
    save_at(f, 3);
    assert_int_equal(rename(file_of(f, 2, DATA), file_of(f, 3, DATA)), 0);
    assert_true(refused(f, "data of step", 2));
    assert_contains(f->err.message, "checksum mismatch");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(every_truncation_of_the_data), with_fixture(every_truncation_of_the_index),
        with_fixture(every_bit_of_the_data),        with_fixture(every_bit_of_the_index),
        with_fixture(bytes_after_the_data),         with_fixture(files_that_are_exchanged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
