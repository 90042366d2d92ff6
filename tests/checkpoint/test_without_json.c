/* SPDX-License-Identifier: Apache-2.0 */
/* A library that was built with -DHOOKSESS_JSON=OFF. */
#include "checkpoint/model.h"

#include <hooksess/safetensors.h>

#define REMEDY "this libhooksess was built without safetensors; build it with -DHOOKSESS_JSON=ON"

static void safetensors_files_are_refused(void **state)
{
    fixture *f = *state;
    const char *file = test_path(f->directory, "m.safetensors");
    save_at(f, 3);
    assert_fails(hs_safetensors_save(model_raw(&f->m), file, NULL, &f->err), HS_UNIMPLEMENTED, &f->err, REMEDY);
    assert_fails(hs_checkpoint_convert(&f->t.env, file_of(f, 3, NULL), file, &f->err), HS_UNIMPLEMENTED, &f->err, REMEDY);
    assert_int_equal(test_count_files(f->directory, "safetensors"), 0);
    test_write_file(file, "x", 1);
    assert_fails(hs_safetensors_load(model_raw(&f->m), file, NULL, &f->err), HS_UNIMPLEMENTED, &f->err, REMEDY);
    assert_fails(hs_checkpoint_convert(&f->t.env, file, file_of(f, 4, NULL), &f->err), HS_UNIMPLEMENTED, &f->err, REMEDY);
    assert_false(has_file(f, 4, "index"));
    assert_null(hs_checkpoint_open(&f->t.env, file, &f->err));
    assert_int_equal(f->err.code, HS_UNIMPLEMENTED);
    assert_string_equal(f->err.message, REMEDY);
}

static void no_directory_is_created_for_a_file_that_cannot_be_written(void **state)
{
    fixture *f = *state;
    const char *file = test_path(f->directory, "new/m.safetensors");
    assert_fails(hs_safetensors_save(model_raw(&f->m), file, NULL, &f->err), HS_UNIMPLEMENTED, &f->err, REMEDY);
    assert_int_equal(test_count_files(f->directory, "new"), 0);
}

static void checkpoints_are_saved_and_restored(void **state)
{
    fixture *f = *state;
    save_at(f, 3);
    assert_ok(restart(f), &f->err);
    assert_true(model_is(&f->m, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(safetensors_files_are_refused),
        with_fixture(no_directory_is_created_for_a_file_that_cannot_be_written),
        with_fixture(checkpoints_are_saved_and_restored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
