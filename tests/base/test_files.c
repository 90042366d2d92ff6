/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "base/files.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

static test_env t;
static char *directory;
static hs_error err;

static int set_up(void **state)
{
    (void)state;
    test_env_init(&t);
    directory = test_make_directory();
    hs_error_clear(&err);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    test_remove_directory(directory);
    return t.live ? -1 : 0;
}

static const char *in(const char *name)
{
    return test_path(directory, name);
}

static void put(const char *name, const char *text)
{
    test_write_file(in(name), text, strlen(text));
}

static void assert_content(const char *name, const char *expected)
{
    char *text = test_read_file(in(name), NULL);
    assert_non_null(text);
    assert_string_equal(text, expected);
    free(text);
}

static void assert_text(char *text, const char *expected)
{
    assert_non_null(text);
    assert_string_equal(text, expected);
    hs__free(&t.env, text);
}

/* Paths. */

static void paths_are_joined(void **state)
{
    (void)state;
    assert_text(hs__path_join(&t.env, "run", "model"), "run/model");
    assert_text(hs__path_join(&t.env, "run/", "model"), "run/model");
    assert_text(hs__path_join(&t.env, "/", "model"), "/model");
    assert_text(hs__path_join(&t.env, "", "model"), "model");
    assert_text(hs__path_join(&t.env, "run", "/abs/model"), "/abs/model");
    assert_text(hs__path_join(&t.env, "a%s", "b%d"), "a%s/b%d");
}

static void paths_have_a_directory_and_a_base(void **state)
{
    (void)state;
    assert_text(hs__path_directory(&t.env, "a/b/c"), "a/b");
    assert_text(hs__path_directory(&t.env, "c"), ".");
    assert_text(hs__path_directory(&t.env, "/c"), "/");
    assert_text(hs__path_directory(&t.env, "a/"), "a");
    assert_string_equal(hs__path_base("a/b/c"), "c");
    assert_string_equal(hs__path_base("c"), "c");
    assert_string_equal(hs__path_base("a/"), "");
}

static void paths_without_memory_are_null(void **state)
{
    (void)state;
    t.fail_alloc_at = 1;
    assert_null(hs__path_join(&t.env, "a", "b"));
    t.fail_alloc_at = 2;
    assert_null(hs__path_directory(&t.env, "a/b"));
}

/* Whole files. */

static void contents_are_whole_and_ended_by_zero(void **state)
{
    (void)state;
    char *data;
    size_t bytes;
    test_write_file(in("f"), "a\0b", 3);
    assert_ok(hs__file_contents(&t.env, in("f"), 3, &data, &bytes, &err), &err);
    assert_int_equal(bytes, 3);
    assert_memory_equal(data, "a\0b", 4);
    hs__free(&t.env, data);
}

static void the_contents_of_an_empty_file_are_no_bytes(void **state)
{
    (void)state;
    char *data;
    size_t bytes = 9;
    put("f", "");
    assert_ok(hs__file_contents(&t.env, in("f"), 0, &data, &bytes, &err), &err);
    assert_int_equal(bytes, 0);
    assert_text(data, "");
}

static void reading_contents_fails(void **state)
{
    (void)state;
    char *data;
    size_t bytes;
    put("f", "1234");
    assert_fails(hs__file_contents(&t.env, in("f"), 3, &data, &bytes, &err), HS_DATA_LOSS, &err, in("f"));
    assert_fails(hs__file_contents(&t.env, in("none"), 3, &data, &bytes, &err), HS_NOT_FOUND, &err, in("none"));
    assert_fails(hs__file_contents(&t.env, directory, 1 << 20, &data, &bytes, &err), HS_FAILED_PRECONDITION, &err,
                 directory);
}

static void a_read_beyond_the_end_is_data_loss(void **state)
{
    (void)state;
    hs__file file;
    char data[8];
    put("f", "12345");
    assert_ok(hs__file_open(&file, &t.env, in("f"), HS_OPEN_READ, &err), &err);
    assert_ok(hs__file_read(&file, 1, data, 4, in("f"), &err), &err);
    assert_fails(hs__file_read(&file, 1, data, 5, in("f"), &err), HS_DATA_LOSS, &err, in("f"));
    assert_ok(hs__file_close(&file, &err), &err);
    assert_ok(hs__file_close(&file, &err), &err); /* closed already */
}

static hs_code read_contents(test_env *env, void *user)
{
    (void)user;
    char *data;
    size_t bytes;
    hs_code code = hs__file_contents(&env->env, in("f"), 100, &data, &bytes, NULL);
    if (!code)
        hs__free(&env->env, data);
    return code;
}

/* The system's files bypass the cache for them. */
static void large_aligned_reads_are_exact(void **state)
{
    (void)state;
    enum { BYTES = (3 << 20) + 5, PIECE = 1 << 21 };
    unsigned char *data = malloc(BYTES), *block = malloc(PIECE + 4096);
    assert_true(data && block);
    for (size_t i = 0; i < BYTES; i++)
        data[i] = (unsigned char)(i % 253);
    test_write_file(in("f"), data, BYTES);
    unsigned char *piece = block + (4096 - (uintptr_t)block % 4096) % 4096;
    static const uint64_t offsets[] = {0, 4096, 1, 1 << 20, BYTES - 4101, 0};
    hs__file file;
    assert_ok(hs__file_open(&file, &t.env, in("f"), HS_OPEN_READ, &err), &err);
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
        size_t got, expected = offsets[i] + PIECE <= BYTES ? PIECE : BYTES - offsets[i];
        assert_ok(t.env.files.ops->read(t.env.files.user, file.handle, offsets[i], piece, PIECE, &got, &err), &err);
        assert_int_equal(got, expected);
        assert_memory_equal(piece, data + offsets[i], got);
    }
    assert_ok(hs__file_close(&file, &err), &err);
    free(data);
    free(block);
}

static void reading_may_fail_anywhere(void **state)
{
    (void)state;
    put("f", "content");
    test_each_allocation(read_contents, NULL);
    test_each_file_call(read_contents, NULL, EIO, false, NULL);
    test_each_file_call(read_contents, NULL, EIO, true, NULL);
}

/* Replacing. */

static void replace_makes_and_replaces(void **state)
{
    (void)state;
    assert_ok(hs__file_replace(&t.env, in("f"), "first text", 10, true, &err), &err);
    assert_content("f", "first text");
    assert_ok(hs__file_replace(&t.env, in("f"), "second", 6, true, &err), &err);
    assert_content("f", "second");
    assert_ok(hs__file_replace(&t.env, in("f"), "", 0, true, &err), &err);
    assert_content("f", "");
    assert_int_equal(test_count_files(directory, "f"), 1);
}

static void a_temporary_file_of_a_crashed_process_does_no_harm(void **state)
{
    (void)state;
    put("f", "old");
    put("f.tmp", "a torn and much longer text");
    assert_ok(hs__file_replace(&t.env, in("f"), "new", 3, true, &err), &err);
    assert_content("f", "new");
    assert_int_equal(test_count_files(directory, "f"), 1);
}

static void replace_needs_an_existing_directory(void **state)
{
    (void)state;
    assert_fails(hs__file_replace(&t.env, in("none/f"), "x", 1, true, &err), HS_NOT_FOUND, &err, in("none/f"));
}

static hs_code replace(test_env *env, void *user)
{
    (void)user;
    put("f", "the old text");
    return hs__file_replace(&env->env, in("f"), "a new text, longer than the old", 31, true, NULL);
}

static void old_or_new_is_there(void *user)
{
    (void)user;
    char *text = test_read_file(in("f"), NULL);
    assert_non_null(text);
    if (strcmp(text, "the old text") != 0)
        assert_string_equal(text, "a new text, longer than the old");
    free(text);
    assert_int_equal(test_count_files(directory, ".tmp"), 0);
}

static void replacing_may_fail_anywhere(void **state)
{
    (void)state;
    test_each_allocation(replace, NULL);
    test_each_file_call(replace, old_or_new_is_there, ENOSPC, false, NULL);
    test_each_file_call(replace, old_or_new_is_there, EIO, true, NULL);
}

/* Codes that a file system must not return, as they would mean a lost session. */

static void next_fails(hs_code code)
{
    t.fail_file_code = code;
    t.fail_file_at = t.file_calls + 1;
    hs_error_clear(&err);
}

static void is_unknown(hs_code code)
{
    assert_fails(code, HS_UNKNOWN, &err, "injected");
    assert_int_equal(err.os_error, EIO);
}

static void no_file_reports_a_lost_session(void **state)
{
    const hs_code codes[] = {HS_ABORTED, HS_UNAVAILABLE};
    hs__file file = {&t.env, NULL};
    void *lock = NULL;
    char byte;
    (void)state;
    put("f", "x");
    for (size_t i = 0; i < 2; i++) {
        next_fails(codes[i]);
        is_unknown(hs__file_open(&file, &t.env, in("f"), HS_OPEN_READ, &err));
        next_fails(codes[i]);
        is_unknown(hs__rename(&t.env, in("f"), in("g"), &err));
        next_fails(codes[i]);
        is_unknown(hs__sync_directory(&t.env, directory, &err));
        next_fails(codes[i]);
        is_unknown(hs__make_directory(&t.env, in("d"), &err));
        next_fails(codes[i]);
        is_unknown(hs__lock(&t.env, in("lock"), &lock, &err));
        assert_ok(hs__file_open(&file, &t.env, in("f"), HS_OPEN_APPEND, &err), &err);
        next_fails(codes[i]);
        is_unknown(hs__file_read(&file, 0, &byte, 1, in("f"), &err));
        next_fails(codes[i]);
        is_unknown(hs__file_write(&file, "y", 1, &err));
        next_fails(codes[i]);
        is_unknown(hs__file_sync(&file, &err));
        next_fails(codes[i]);
        is_unknown(hs__file_close(&file, &err));
    }
}

static void a_lock_of_another_process_is_not_a_disk_error(void **state)
{
    void *lock = NULL;
    (void)state;
    next_fails(HS_FAILED_PRECONDITION);
    assert_fails(hs__lock(&t.env, in("lock"), &lock, &err), HS_FAILED_PRECONDITION, &err, "injected");
    assert_int_equal(err.os_error, 0);
}

static void only_disk_errors_have_an_errno(void **state)
{
    const hs_code codes[] = {HS_INVALID_ARGUMENT, HS_UNIMPLEMENTED};
    hs__file file;
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        next_fails(codes[i]);
        assert_fails(hs__file_open(&file, &t.env, in("f"), HS_OPEN_WRITE, &err), codes[i], &err, "injected");
        assert_int_equal(err.os_error, 0);
    }
    next_fails(HS_INTERNAL);
    assert_fails(hs__file_open(&file, &t.env, in("f"), HS_OPEN_WRITE, &err), HS_INTERNAL, &err, "injected");
    assert_int_equal(err.os_error, EIO);
}

static void a_failure_of_the_system_is_not_damage(void **state)
{
    (void)state;
    const hs_code damage[] = {HS_NOT_FOUND, HS_DATA_LOSS, HS_INVALID_ARGUMENT, HS_UNIMPLEMENTED};
    for (size_t i = 0; i < 4; i++)
        assert_true(hs__is_damage(&(hs_error){.code = damage[i]}));
    assert_false(hs__is_damage(&(hs_error){.code = HS_OK}));
    assert_false(hs__is_damage(&(hs_error){.code = HS_RESOURCE_EXHAUSTED}));
    for (int os_error = 1; os_error < 200; os_error++) {
        hs_error_set_errno(&err, os_error, "f");
        assert_int_equal(hs__is_damage(&err), os_error == ENOENT);
    }
    hs__file file;
    next_fails(HS_NOT_FOUND); /* of a file system that sets no errno */
    assert_fails(hs__file_open(&file, &t.env, in("f"), HS_OPEN_READ, &err), HS_NOT_FOUND, &err, "injected");
    assert_true(hs__is_damage(&err));
    next_fails(HS_DATA_LOSS);
    assert_fails(hs__file_open(&file, &t.env, in("f"), HS_OPEN_READ, &err), HS_DATA_LOSS, &err, "injected");
    assert_false(hs__is_damage(&err));
}

/* The calls in order, with the paths of some. */

static char trace[1000];
static hs_file_system_ops traced;

static void note(const char *call, const char *path)
{
    strcat(strcat(trace, *trace ? " " : ""), call);
    if (path)
        strcat(strcat(trace, ":"), strcmp(path, directory) ? hs__path_base(path) : "");
}

static hs_code note_write(void *user, void *file, const void *data, size_t bytes, hs_error *error)
{
    note("write", NULL);
    return t.env.files.ops->write(user, file, data, bytes, error);
}

static hs_code note_sync(void *user, void *file, hs_error *error)
{
    note("sync", NULL);
    return t.env.files.ops->sync(user, file, error);
}

static hs_code note_close(void *user, void *file, hs_error *error)
{
    note("close", NULL);
    return t.env.files.ops->close(user, file, error);
}

static hs_code note_rename(void *user, const char *from, const char *to, hs_error *error)
{
    note("rename", to);
    return t.env.files.ops->rename(user, from, to, error);
}

static hs_code note_make_directory(void *user, const char *path, hs_error *error)
{
    note("make", path);
    return t.env.files.ops->make_directory(user, path, error);
}

static hs_code note_sync_directory(void *user, const char *path, hs_error *error)
{
    note("sync_directory", path);
    return t.env.files.ops->sync_directory(user, path, error);
}

static hs_env traced_env(void)
{
    trace[0] = '\0';
    traced = *t.env.files.ops;
    traced.write = note_write;
    traced.sync = note_sync;
    traced.close = note_close;
    traced.rename = note_rename;
    traced.make_directory = note_make_directory;
    traced.sync_directory = note_sync_directory;
    hs_env env = t.env;
    env.files.ops = &traced;
    return env;
}

static void replace_syncs_before_it_renames(void **state)
{
    (void)state;
    hs_env env = traced_env();
    assert_ok(hs__file_replace(&env, in("f"), "text", 4, true, &err), &err);
    assert_string_equal(trace, "write sync close rename:f sync_directory:");
}

static void replace_without_a_sync_only_renames(void **state)
{
    (void)state;
    hs_env env = traced_env();
    assert_ok(hs__file_replace(&env, in("f"), "text", 4, false, &err), &err);
    assert_string_equal(trace, "write close rename:f");
    assert_content("f", "text");
}

/* The directories are unchanged, and nothing is logged. */
static void replace_does_not_replace_directories(void **state)
{
    (void)state;
    assert_int_equal(mkdir(in("f.tmp"), 0777), 0);
    assert_int_equal(mkdir(in("g"), 0777), 0);
    assert_fails(hs__file_replace(&t.env, in("f"), "text", 4, true, &err), HS_FAILED_PRECONDITION, &err, "f.tmp: cannot");
    assert_fails(hs__file_replace(&t.env, in("g"), "text", 4, true, &err), HS_FAILED_PRECONDITION, &err, in("g"));
    assert_true(test_exists(directory, "f.tmp"));
    assert_int_equal(test_count_files(directory, "g"), 1);
    assert_string_equal(t.log, "");
}

static void made_directories_are_synced_into_their_parents(void **state)
{
    (void)state;
    hs_env env = traced_env();
    assert_ok(hs__make_directories(&env, in("a/b"), &err), &err);
    assert_string_equal(trace, "make:a sync_directory: make:b sync_directory:a");
    trace[0] = '\0';
    assert_ok(hs__make_directories(&env, in("a/b"), &err), &err);
    assert_string_equal(trace, "");
}

/* Removing, and directories. */

static void removing_a_missing_file_succeeds(void **state)
{
    (void)state;
    put("f", "x");
    assert_true(hs__file_exists(&t.env, in("f")));
    hs__file_remove(&t.env, in("f"));
    assert_false(hs__file_exists(&t.env, in("f")));
    hs__file_remove(&t.env, in("f"));
    assert_string_equal(t.log, "");
}

static void a_failure_to_remove_is_logged(void **state)
{
    (void)state;
    mkdir(in("d"), 0777);
    hs__file_remove(&t.env, in("d"));
    assert_contains(t.log, "WARNING: ");
    assert_contains(t.log, in("d"));
}

static void a_directory_is_removed_with_its_contents(void **state)
{
    (void)state;
    put("f", "x");
    mkdir(in("d"), 0777);
    mkdir(in("d/e"), 0777);
    put("d/a", "x");
    put("d/e/b", "x");
    hs__remove_all(&t.env, in("d"));
    hs__remove_all(&t.env, in("f"));
    hs__remove_all(&t.env, in("missing"));
    assert_false(test_exists(directory, "d"));
    assert_false(test_exists(directory, "f"));
    assert_string_equal(t.log, "");
}

static void the_target_of_a_link_is_not_removed(void **state)
{
    (void)state;
    mkdir(in("elsewhere"), 0777);
    put("elsewhere/a", "x");
    mkdir(in("d"), 0777);
    assert_int_equal(symlink("../elsewhere", in("d/inner")), 0);
    assert_int_equal(symlink("elsewhere", in("outer")), 0);
    hs__remove_all(&t.env, in("d"));
    hs__remove_all(&t.env, in("outer"));
    assert_true(test_exists(directory, "elsewhere/a"));
    assert_false(test_exists(directory, "d"));
    assert_false(test_exists(directory, "outer"));
    assert_string_equal(t.log, "");
}

static void without_remove_directory_the_directory_stays(void **state)
{
    (void)state;
    hs_file_system_ops ops = *t.env.files.ops;
    hs_env env = t.env;
    ops.remove_directory = NULL;
    env.files.ops = &ops;
    mkdir(in("d"), 0777);
    put("d/a", "x");
    hs__remove_all(&env, in("d"));
    assert_true(test_exists(directory, "d"));
    assert_false(test_exists(directory, "d/a"));
}

static hs_code no_space(void *user, const char *path, uint64_t *bytes, hs_error *error)
{
    (void)user, (void)path, (void)error;
    *bytes = 0;
    return HS_OK;
}

static void missing_functions_are_not_called(void **state)
{
    (void)state;
    hs_file_system_ops ops = *t.env.files.ops;
    hs_env env = t.env;
    void *lock = NULL;
    env.files.ops = &ops;
    ops.free_space = no_space;
    assert_int_equal(hs__free_space(&env, directory), 0);
    ops.free_space = NULL;
    assert_true(hs__free_space(&env, directory) == UINT64_MAX);
    ops.lock = NULL;
    assert_ok(hs__lock(&env, in("lock"), &lock, &err), &err);
    assert_null(lock);
}

static void all_missing_levels_are_made(void **state)
{
    (void)state;
    assert_ok(hs__make_directories(&t.env, in("a/b/c"), &err), &err);
    assert_true(test_exists(directory, "a/b/c"));
    assert_ok(hs__make_directories(&t.env, in("a/b//d///"), &err), &err);
    assert_true(test_exists(directory, "a/b/d"));
    assert_ok(hs__make_directories(&t.env, in("a/b/d"), &err), &err);
    assert_ok(hs__make_directories(&t.env, "/", &err), &err);
}

static void only_the_last_level_is_made(void **state)
{
    (void)state;
    assert_ok(hs__make_directory(&t.env, in("a"), &err), &err);
    assert_ok(hs__make_directory(&t.env, in("a"), &err), &err);
    assert_fails(hs__make_directory(&t.env, in("x/y"), &err), HS_NOT_FOUND, &err, in("x/y"));
}

static void a_file_instead_of_a_directory_is_reported(void **state)
{
    (void)state;
    put("f", "x");
    assert_fails(hs__make_directory(&t.env, in("f"), &err), HS_FAILED_PRECONDITION, &err, in("f"));
    assert_fails(hs__make_directories(&t.env, in("f/a"), &err), HS_FAILED_PRECONDITION, &err, in("f"));
    assert_content("f", "x");
}

static hs_code not_there_yet(void *user, const char *path, hs_file_stat *out, hs_error *error)
{
    (void)user, (void)out;
    return hs_error_set(error, HS_NOT_FOUND, "%s", path);
}

static void another_process_may_be_faster(void **state)
{
    (void)state;
    hs_env env = traced_env();
    traced.stat = not_there_yet; /* then another process creates it */
    mkdir(in("d"), 0777);
    assert_ok(hs__make_directory(&env, in("d"), &err), &err);
    assert_int_equal(err.code, HS_OK);
}

static hs_code make_levels(test_env *env, void *user)
{
    (void)user;
    char *top = test_make_directory();
    hs_code code = hs__make_directories(&env->env, test_path(top, "a/b/c"), NULL);
    assert_true(code || test_exists(top, "a/b/c"));
    test_remove_directory(top);
    return code;
}

static void making_directories_may_fail_anywhere(void **state)
{
    (void)state;
    test_each_allocation(make_levels, NULL);
    test_each_file_call(make_levels, NULL, ENOSPC, false, NULL);
    test_each_file_call(make_levels, NULL, ENOSPC, true, NULL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(paths_are_joined),
        TEST(paths_have_a_directory_and_a_base),
        TEST(paths_without_memory_are_null),
        TEST(contents_are_whole_and_ended_by_zero),
        TEST(the_contents_of_an_empty_file_are_no_bytes),
        TEST(reading_contents_fails),
        TEST(a_read_beyond_the_end_is_data_loss),
        TEST(large_aligned_reads_are_exact),
        TEST(reading_may_fail_anywhere),
        TEST(replace_makes_and_replaces),
        TEST(a_temporary_file_of_a_crashed_process_does_no_harm),
        TEST(replace_needs_an_existing_directory),
        TEST(replacing_may_fail_anywhere),
        TEST(no_file_reports_a_lost_session),
        TEST(a_lock_of_another_process_is_not_a_disk_error),
        TEST(only_disk_errors_have_an_errno),
        TEST(a_failure_of_the_system_is_not_damage),
        TEST(replace_syncs_before_it_renames),
        TEST(replace_without_a_sync_only_renames),
        TEST(replace_does_not_replace_directories),
        TEST(made_directories_are_synced_into_their_parents),
        TEST(removing_a_missing_file_succeeds),
        TEST(a_failure_to_remove_is_logged),
        TEST(a_directory_is_removed_with_its_contents),
        TEST(the_target_of_a_link_is_not_removed),
        TEST(without_remove_directory_the_directory_stays),
        TEST(missing_functions_are_not_called),
        TEST(all_missing_levels_are_made),
        TEST(only_the_last_level_is_made),
        TEST(a_file_instead_of_a_directory_is_reported),
        TEST(another_process_may_be_faster),
        TEST(making_directories_may_fail_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
