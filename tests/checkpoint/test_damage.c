/* SPDX-License-Identifier: Apache-2.0 */
/* Each truncation and each flipped bit of a small checkpoint. A restore fails without changing the model, or restores the
 * right values. A restore of the newest checkpoint restores the one before. */
#include "checkpoint/machine.h"

enum { WAS = 9 };

/* Restores the checkpoint of step 3, whose file `path` is damaged. Returns true if that failed. */
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

/* Some bits of an index have no meaning: those of an empty block (13 bytes) and of the padding of the footer. */
static void every_bit_of_the_index(void **state)
{
    assert_in_range(flip_everywhere(*state, "index"), 0, 8 * (13 + 40));
}

/* Bytes after the data are ignored. */
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

/* The newest of a directory, on a disk in memory, which is fast. */

/* Returns the step of the restored checkpoint: the newest or the one before. Holding the directory before or after the
 * restore deletes nothing. */
static int64_t restore_damaged(const machine *damaged, size_t where, bool hold_first)
{
    machine c;
    machine_copy(&c, damaged);
    c.story_at[0] = where;
    machine_start(&c);
    if (hold_first)
        assert_ok(hs_saver_hold(c.saver, NULL, "/run/model.ckpt", &c.err), &c.err);
    machine_restore(&c);
    int64_t step = c.m.step;
    assert_ok(hs_saver_hold(c.saver, NULL, "/run/model.ckpt", &c.err), &c.err);
    machine_restore(&c);
    if (c.m.step != step)
        machine_fail(&c, "taking hold lost a checkpoint");
    machine_free(&c);
    return step;
}

/* Returns the number of cases in which the newest was restored. *cases is the number of all cases. */
static size_t damage_everywhere(const char *path, size_t *cases)
{
    static const int names[] = {1, 2, 3, 0};
    machine c;
    size_t newest = 0;
    machine_init(&c, path);
    machine_save_all(&c, names);
    machine_end(&c);
    c.quiet = false;
    c.sure = 2;
    disk_file *file = disk_find(&c.disk, path);
    size_t bytes = file->cached.size;
    for (size_t bit = 0; bit < 8 * bytes; bit++) {
        file->cached.data[bit / 8] ^= (unsigned char)(1 << bit % 8);
        newest += restore_damaged(&c, bit, bit % 2) == 3;
        file->cached.data[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    for (size_t end = 0; end < bytes; end++) {
        file->cached.size = end;
        newest += restore_damaged(&c, end, end % 2) == 3;
    }
    machine_free(&c);
    *cases = 9 * bytes;
    return newest;
}

static void damaged_data_give_way_to_the_checkpoint_before(void **state)
{
    (void)state;
    size_t cases;
    assert_int_equal(damage_everywhere("/run/model.ckpt-3." DATA, &cases), 0);
    assert_true(cases > 100);
}

static void a_damaged_index_gives_way_to_the_checkpoint_before(void **state)
{
    (void)state;
    size_t cases;
    assert_in_range(damage_everywhere("/run/model.ckpt-3.index", &cases), 0, 8 * (13 + 40));
}

static void a_damaged_meta_graph_is_in_nobodys_way(void **state)
{
    (void)state;
    size_t cases, newest = damage_everywhere("/run/model.ckpt-3.meta", &cases);
    assert_int_equal(newest, cases);
}

/* All but one flipped bit, which names the checkpoint before. */
static void a_damaged_state_file_hides_no_checkpoint(void **state)
{
    (void)state;
    size_t cases, newest = damage_everywhere("/run/checkpoint", &cases);
    assert_int_equal(newest, cases - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(every_truncation_of_the_data),
        with_fixture(every_truncation_of_the_index),
        with_fixture(every_bit_of_the_data),
        with_fixture(every_bit_of_the_index),
        with_fixture(bytes_after_the_data),
        with_fixture(files_that_are_exchanged),
        cmocka_unit_test(damaged_data_give_way_to_the_checkpoint_before),
        cmocka_unit_test(a_damaged_index_gives_way_to_the_checkpoint_before),
        cmocka_unit_test(a_damaged_meta_graph_is_in_nobodys_way),
        cmocka_unit_test(a_damaged_state_file_hides_no_checkpoint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
