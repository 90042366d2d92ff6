/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/state_file.h"
#include "base/file_spy.h"
#include "checkpoint/model.h"

#include <errno.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

static hs_code state_read(fixture *f, hs__checkpoint_state *out)
{
    return hs__checkpoint_state_read(out, &f->t.env, f->directory, NULL, &f->err);
}

static hs_code write_list(const hs_env *env, const char *directory, const char *newest, const char *const *paths, size_t n,
                          hs_error *err)
{
    static const double times[] = {1000.25, 2000.5, 3000};
    hs__kept_checkpoint kept[3];
    for (size_t i = 0; i < n; i++)
        kept[i] = (hs__kept_checkpoint){.path = (char *)paths[i], .timestamp = times[i], .metric = (double)NAN};
    hs__checkpoint_list list = {.newest = newest, .kept = kept, .n = n};
    return hs__checkpoint_state_write(env, directory, NULL, &list, err);
}

static hs_code state_write(fixture *f, const char *directory, const char *newest, const char *const *paths, size_t n)
{
    return write_list(&f->t.env, directory, newest, paths, n, &f->err);
}

static char *text_of(const fixture *f)
{
    return test_read_file(test_path(f->directory, "checkpoint"), NULL);
}

static void written_state_files_are_read(void **state)
{
    fixture *f = *state;
    hs__checkpoint_state read;
    const char *const *paths = HS_NAMES(file_of(f, 1, NULL), file_of(f, 2, NULL));
    assert_ok(state_write(f, f->directory, paths[1], paths, 2), &f->err);
    assert_ok(state_read(f, &read), &f->err);
    assert_string_equal(read.newest, paths[1]);
    assert_int_equal(read.n, 2);
    assert_string_equal(read.kept[0].path, paths[0]);
    assert_string_equal(read.kept[1].path, paths[1]);
    assert_true(read.kept[0].timestamp == 1000.25 && read.kept[1].timestamp == 2000.5);
    hs__checkpoint_state_free(&read);
    assert_null(read.newest);
}

static void cm_004_cm_024s_paths_are_relative_to_the_file(void **state)
{
    fixture *f = *state;
    const char *const *paths = HS_NAMES(file_of(f, 1, NULL), file_of(f, 2, NULL));
    assert_ok(state_write(f, f->directory, paths[1], paths, 2), &f->err);
    char *text = text_of(f);
    assert_string_equal(text, "model_checkpoint_path: \"model.ckpt-2\"\n"
                              "all_model_checkpoint_paths: \"model.ckpt-1\"\n"
                              "all_model_checkpoint_paths: \"model.ckpt-2\"\n"
                              "all_model_checkpoint_timestamps: 1000.25\n"
                              "all_model_checkpoint_timestamps: 2000.5\n"
                              "# last saved: model.ckpt-2\n");
    free(text);
}

static void cm_007_relative_among_absolute_paths(void **state)
{
    fixture *f = *state;
    hs__checkpoint_state read;
    const char *const *paths = HS_NAMES("model.ckpt-0", file_of(f, 2, NULL));
    assert_ok(state_write(f, f->directory, paths[1], paths, 2), &f->err);
    char *text = text_of(f);
    assert_contains(text, "model_checkpoint_path: \"model.ckpt-2\"\n"
                          "all_model_checkpoint_paths: \"model.ckpt-0\"\n"
                          "all_model_checkpoint_paths: \"model.ckpt-2\"\n");
    free(text);
    assert_ok(state_read(f, &read), &f->err);
    assert_string_equal(read.newest, file_of(f, 2, NULL));
    assert_int_equal(read.n, 2);
    assert_string_equal(read.kept[0].path, file_of(f, 0, NULL));
    assert_string_equal(read.kept[1].path, file_of(f, 2, NULL));
    hs__checkpoint_state_free(&read);
}

static void a_directory_with_a_slash_at_its_end(void **state)
{
    fixture *f = *state;
    const char *const *paths = HS_NAMES(file_of(f, 1, NULL));
    assert_ok(state_write(f, test_path(f->directory, ""), paths[0], paths, 1), &f->err);
    char *text = text_of(f);
    assert_contains(text, "model_checkpoint_path: \"model.ckpt-1\"\n");
    free(text);
}

static void cm_006_absolute_paths_of_other_directories_are_unchanged(void **state)
{
    fixture *f = *state;
    hs__checkpoint_state read;
    const char *const *paths = HS_NAMES("/somewhere/model.ckpt-0", file_of(f, 2, NULL));
    assert_ok(state_write(f, f->directory, paths[1], paths, 2), &f->err);
    assert_ok(state_read(f, &read), &f->err);
    assert_string_equal(read.kept[0].path, "/somewhere/model.ckpt-0");
    assert_string_equal(read.kept[1].path, paths[1]);
    hs__checkpoint_state_free(&read);
}

static void a_directory_whose_name_begins_alike_is_elsewhere(void **state)
{
    fixture *f = *state;
    char longer[1024];
    snprintf(longer, sizeof longer, "%s2/model.ckpt-1", f->directory);
    assert_ok(state_write(f, f->directory, longer, HS_NAMES(longer), 1), &f->err);
    char *text = text_of(f);
    assert_contains(text, longer);
    free(text);
}

static void cm_009_relative_paths_are_joined_to_the_directory(void **state)
{
    fixture *f = *state;
    hs__checkpoint_state read;
    write_state(f, "model_checkpoint_path: \"./model.ckpt-687529\"\n"
                   "all_model_checkpoint_paths: \"./model.ckpt-687500\"\n"
                   "all_model_checkpoint_paths: \"./model.ckpt-687529\"\n");
    assert_ok(state_read(f, &read), &f->err);
    assert_string_equal(read.newest, test_path(f->directory, "./model.ckpt-687529"));
    assert_string_equal(read.kept[0].path, test_path(f->directory, "./model.ckpt-687500"));
    assert_true(read.kept[0].timestamp == 0); /* not in the file */
    hs__checkpoint_state_free(&read);
}

static void names_with_quotes_and_other_bytes(void **state)
{
    fixture *f = *state;
    hs__checkpoint_state read;
    const char *odd = test_path(f->directory, "a \"b\" \\ \n \xc3\xa9-1");
    assert_ok(state_write(f, f->directory, odd, HS_NAMES(odd), 1), &f->err);
    assert_ok(state_read(f, &read), &f->err);
    assert_string_equal(read.newest, odd);
    hs__checkpoint_state_free(&read);
}

static void last_preserved_timestamp_is_understood(void **state)
{
    fixture *f = *state;
    hs__checkpoint_state read;
    write_state(f, "model_checkpoint_path: \"m-1\"\nlast_preserved_timestamp: 1486137163.25\n");
    assert_ok(state_read(f, &read), &f->err);
    hs__checkpoint_state_free(&read);
}

static void a_missing_file(void **state)
{
    fixture *f = *state;
    hs__checkpoint_state read;
    assert_fails(state_read(f, &read), HS_NOT_FOUND, &f->err, "checkpoint");
}

static void cm_008_an_empty_file_names_no_newest(void **state)
{
    fixture *f = *state;
    hs__checkpoint_state read;
    write_state(f, "");
    assert_fails(state_read(f, &read), HS_INVALID_ARGUMENT, &f->err,
                 "does not name the newest checkpoint (model_checkpoint_path)");
}

static void a_damaged_file_is_data_loss(void **state)
{
    static const char *const texts[] = {"model_checkpoint_path",
                                        "model_checkpoint_path: \"x",
                                        "model_checkpoint_path: 5",
                                        "what: \"x\"",
                                        "\x01\x02\x03",
                                        "}",
                                        "model_checkpoint_path: \"x\"\nall_model_checkpoint_timestamps: soon\n"};
    fixture *f = *state;
    hs__checkpoint_state read;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        write_state(f, texts[i]);
        if (state_read(f, &read) != HS_DATA_LOSS)
            fail_msg("'%s' was taken: %s", texts[i], f->err.message);
        assert_contains(f->err.message, test_path(f->directory, "checkpoint"));
    }
}

/* Each checkpoint has a time. A file of another program may have fewer. */
static void cm_028s_times_that_are_missing_or_too_many(void **state)
{
    fixture *f = *state;
    hs__checkpoint_state read;
    write_state(f, "model_checkpoint_path: \"m-2\"\n"
                   "all_model_checkpoint_paths: \"m-1\"\nall_model_checkpoint_paths: \"m-2\"\n"
                   "all_model_checkpoint_timestamps: 1000.25\n");
    assert_ok(state_read(f, &read), &f->err);
    assert_int_equal(read.n, 2);
    assert_true(read.kept[0].timestamp == 1000.25 && read.kept[1].timestamp == 0);
    hs__checkpoint_state_free(&read);
    write_state(f, "model_checkpoint_path: \"m-1\"\nall_model_checkpoint_paths: \"m-1\"\n"
                   "all_model_checkpoint_timestamps: 1\nall_model_checkpoint_timestamps: 2\n");
    assert_ok(state_read(f, &read), &f->err);
    assert_int_equal(read.n, 1);
    hs__checkpoint_state_free(&read);
}

static void a_newest_that_is_the_file_itself(void **state)
{
    fixture *f = *state;
    const char *path = test_path(f->directory, "checkpoint");
    assert_fails(state_write(f, f->directory, path, HS_NAMES(path), 1), HS_FAILED_PRECONDITION, &f->err, "the same name");
    assert_false(test_exists(f->directory, "checkpoint"));
}

/* hs_checkpoint_latest and hs_checkpoint_exists. */

static char *latest(fixture *f)
{
    return hs_checkpoint_latest(&f->t.env, f->directory, NULL, &f->err);
}

static void the_latest_is_the_newest_of_the_file(void **state)
{
    fixture *f = *state;
    save_at(f, 1);
    save_at(f, 2);
    char *path = latest(f);
    assert_string_equal(path, file_of(f, 2, NULL));
    assert_int_equal(f->err.code, HS_OK);
    hs_env_free(&f->t.env, path);
}

static void cm_026s_without_a_state_file_latest_returns_null(void **state)
{
    fixture *f = *state;
    f->err.code = HS_INTERNAL;
    assert_null(latest(f));
    assert_int_equal(f->err.code, HS_OK);
    assert_null(hs_checkpoint_latest(NULL, NULL, NULL, NULL));
    assert_null(hs_checkpoint_latest(NULL, NULL, NULL, &f->err));
    assert_says(&f->err, HS_INVALID_ARGUMENT, "directory is NULL");
}

static void cm_026s_a_file_that_says_nothing_is_an_error(void **state)
{
    fixture *f = *state;
    write_state(f, "");
    assert_null(latest(f));
    assert_says(&f->err, HS_INVALID_ARGUMENT, "does not name the newest checkpoint (model_checkpoint_path)");
    write_state(f, "model_");
    assert_null(latest(f));
    assert_says(&f->err, HS_DATA_LOSS, "checkpoint");
}

/* An unreadable state file must not look like a missing one, as training would start from the beginning. */
static void cm_026s_a_file_that_cannot_be_read_is_an_error(void **state)
{
    fixture *f = *state;
    save_at(f, 1);
    f->t.fail_file_errno = EACCES;
    f->t.fail_file_at = f->t.file_calls + 1;
    f->t.fail_file_on = true;
    assert_null(latest(f));
    assert_says(&f->err, HS_PERMISSION_DENIED, "injected");
    assert_int_equal(restore_newest(f), HS_PERMISSION_DENIED);
    f->t.fail_file_at = 0;
    assert_ok(restore_newest(f), &f->err);
}

static void cm_027s_a_latest_without_files_returns_null(void **state)
{
    fixture *f = *state;
    save_at(f, 1);
    save_at(f, 2);
    assert_int_equal(unlink(file_of(f, 2, "index")), 0);
    assert_null(latest(f));
    assert_int_equal(f->err.code, HS_OK);
    assert_contains(f->t.log, "model.ckpt-2' as the newest checkpoint, but it does not exist");
}

static void assert_latest(fixture *f, const char *directory, const char *path)
{
    char *found = hs_checkpoint_latest(&f->t.env, directory, NULL, &f->err);
    assert_int_equal(f->err.code, HS_OK);
    assert_string_equal(found, path);
    hs_env_free(&f->t.env, found);
}

/* The state file has the absolute paths of the directory before it was moved, as TensorFlow's Saver writes them. */
static void the_latest_of_a_moved_directory_is_next_to_its_state_file(void **state)
{
    fixture *f = *state;
    save_at(f, 2);
    write_state(f, "model_checkpoint_path: \"/elsewhere/model.ckpt-2\"\n");
    assert_latest(f, f->directory, file_of(f, 2, NULL));
}

/* A file system that fails does not look like an empty directory. */
static void the_latest_of_a_directory_that_cannot_be_read_is_an_error(void **state)
{
    fixture *f = *state;
    file_spy spy;
    file_spy_init(&spy, &f->t.env);
    spy.os_error = ENODEV;
    save_at(f, 2);
    for (int moved = 0; moved < 2; moved++) {
        size_t n = 0, failures = 0;
        if (moved)
            write_state(f, "model_checkpoint_path: \"/elsewhere/model.ckpt-2\"\n");
        do {
            file_spy_fail(&spy, ++n, hs_code_from_errno(ENODEV));
            char *path = hs_checkpoint_latest(&spy.env, f->directory, NULL, &f->err);
            assert_true(path ? strcmp(path, file_of(f, 2, NULL)) == 0 : f->err.os_error == ENODEV);
            failures += !path;
            hs_env_free(&spy.env, path);
        } while (spy.matches >= n);
        assert_int_equal(failures, 4 + moved); /* not the close */
    }
}

static void the_latest_of_a_copied_directory_is_the_copy(void **state)
{
    fixture *f = *state;
    const char *copy = test_path(f->directory, "copy");
    char text[2048];
    save_at(f, 2);
    assert_int_equal(mkdir(copy, 0777), 0);
    snprintf(text, sizeof text, "model_checkpoint_path: \"%s\"\n", file_of(f, 2, NULL));
    test_write_file(test_path(copy, "checkpoint"), text, strlen(text));
    assert_latest(f, copy, file_of(f, 2, NULL)); /* only the state file was copied */
    test_write_file(test_path(copy, "model.ckpt-2.index"), "", 0);
    assert_latest(f, copy, test_path(copy, "model.ckpt-2"));
}

static void cm_010_a_checkpoint_exists_when_its_index_does(void **state)
{
    fixture *f = *state;
    assert_false(hs_checkpoint_exists(&f->t.env, file_of(f, 1, NULL)));
    save_at(f, 1);
    assert_true(hs_checkpoint_exists(&f->t.env, file_of(f, 1, NULL)));
    assert_true(hs_checkpoint_exists(NULL, file_of(f, 1, NULL)));
    assert_int_equal(unlink(file_of(f, 1, "index")), 0);
    assert_false(hs_checkpoint_exists(&f->t.env, file_of(f, 1, NULL)));
    assert_false(hs_checkpoint_exists(&f->t.env, NULL));
}

/* Failures. */

static hs_code replace(test_env *t, void *user)
{
    const fixture *f = user;
    hs_error err;
    const char *const *paths = HS_NAMES(file_of(f, 1, NULL), file_of(f, 2, NULL));
    write_state(f, "model_checkpoint_path: \"model.ckpt-1\"\n");
    return write_list(&t->env, f->directory, paths[1], paths, 2, &err);
}

static void old_or_new(void *user)
{
    fixture *f = user;
    hs__checkpoint_state read;
    assert_ok(state_read(f, &read), &f->err);
    assert_true(strcmp(read.newest, file_of(f, 1, NULL)) == 0 || strcmp(read.newest, file_of(f, 2, NULL)) == 0);
    hs__checkpoint_state_free(&read);
    assert_int_equal(test_count_files(f->directory, ".tmp"), 0);
}

static void after_each_failing_call_the_file_is_the_old_or_the_new_one(void **state)
{
    test_each_file_call(replace, old_or_new, ENOSPC, false, *state);
    test_each_file_call(replace, old_or_new, ENOSPC, true, *state);
}

static hs_code write_and_read(test_env *t, void *user)
{
    hs_error err = {0};
    hs__checkpoint_state read;
    hs_code code = replace(t, user);
    if (code || (code = hs__checkpoint_state_read(&read, &t->env, ((fixture *)user)->directory, NULL, &err)))
        return code;
    hs__checkpoint_state_free(&read);
    char *path = hs_checkpoint_latest(&t->env, ((fixture *)user)->directory, NULL, &err);
    hs_env_free(&t->env, path);
    return path ? HS_OK : err.code;
}

static void each_allocation(void **state)
{
    fixture *f = *state;
    save_at(f, 2); /* so that the latest exists */
    test_each_allocation(write_and_read, f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(written_state_files_are_read),
        with_fixture(cm_004_cm_024s_paths_are_relative_to_the_file),
        with_fixture(cm_007_relative_among_absolute_paths),
        with_fixture(a_directory_with_a_slash_at_its_end),
        with_fixture(cm_006_absolute_paths_of_other_directories_are_unchanged),
        with_fixture(a_directory_whose_name_begins_alike_is_elsewhere),
        with_fixture(cm_009_relative_paths_are_joined_to_the_directory),
        with_fixture(names_with_quotes_and_other_bytes),
        with_fixture(last_preserved_timestamp_is_understood),
        with_fixture(a_missing_file),
        with_fixture(cm_008_an_empty_file_names_no_newest),
        with_fixture(a_damaged_file_is_data_loss),
        with_fixture(cm_028s_times_that_are_missing_or_too_many),
        with_fixture(a_newest_that_is_the_file_itself),
        with_fixture(the_latest_is_the_newest_of_the_file),
        with_fixture(cm_026s_without_a_state_file_latest_returns_null),
        with_fixture(cm_026s_a_file_that_says_nothing_is_an_error),
        with_fixture(cm_026s_a_file_that_cannot_be_read_is_an_error),
        with_fixture(cm_027s_a_latest_without_files_returns_null),
        with_fixture(the_latest_of_a_moved_directory_is_next_to_its_state_file),
        with_fixture(the_latest_of_a_copied_directory_is_the_copy),
        with_fixture(the_latest_of_a_directory_that_cannot_be_read_is_an_error),
        with_fixture(cm_010_a_checkpoint_exists_when_its_index_does),
        with_fixture(after_each_failing_call_the_file_is_the_old_or_the_new_one),
        with_fixture(each_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
