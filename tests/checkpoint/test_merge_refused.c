/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints that cannot be merged: nothing is changed. */
#include "base/file_spy.h"
#include "checkpoint/merging.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void tb_037s_a_missing_checkpoint(void **state)
{
    (void)state;
    WRITE("one", "x");
    assert_fails(MERGE("merged", "one", "two"), HS_NOT_FOUND, &err, in("two.index"));
    assert_fails(MERGE("merged", "none", "two"), HS_NOT_FOUND, &err, in("none.index"));
    assert_true(HAS("one", "x"));
    assert_int_equal(files_of("merged"), 0);
}

static void data_that_are_missing_or_short(void **state)
{
    (void)state;
    WRITE("one", "x");
    WRITE("two", "y");
    assert_int_equal(truncate(in("two.data-00000-of-00001"), 2), 0);
    assert_fails(MERGE("merged", "one", "two"), HS_DATA_LOSS, &err, "two.data-00000-of-00001: has 2 bytes");
    assert_int_equal(unlink(in("two.data-00000-of-00001")), 0);
    assert_fails(MERGE("merged", "one", "two"), HS_NOT_FOUND, &err, "two.data-00000-of-00001");
    assert_true(HAS("one", "x"));
    assert_int_equal(files_of("merged"), 0);
}

static void a_tensor_that_two_have(void **state)
{
    (void)state;
    WRITE("one", "a", "x");
    WRITE("two", "b", "x");
    assert_fails(MERGE("merged", "one", "two"), HS_INVALID_ARGUMENT, &err, "both have the tensor 'x'");
    assert_contains(err.message, in("one"));
    assert_contains(err.message, in("two"));
    assert_fails(MERGE("merged", "one", "one"), HS_INVALID_ARGUMENT, &err, "both have the tensor 'a'");
    assert_true(HAS("one", "a", "x"));
    assert_true(HAS("two", "b", "x"));
}

static void write_header(int32_t producer, Hs__Pb__BundleHeaderProto__Endianness order)
{
    Hs__Pb__VersionDef version = HS__PB__VERSION_DEF__INIT;
    Hs__Pb__BundleHeaderProto header = HS__PB__BUNDLE_HEADER_PROTO__INIT;
    version.producer = producer;
    header.version = &version;
    header.num_shards = 1;
    header.endianness = order;
    index_begin();
    index_put_message("", &header.base);
    index_end();
}

static void tb_039s_formats_that_differ(void **state)
{
    (void)state;
    WRITE("one", "x");
    write_header(1, HS__PB__BUNDLE_HEADER_PROTO__ENDIANNESS__BIG);
    assert_fails(MERGE("merged", "one", "b"), HS_INVALID_ARGUMENT, &err, "one is little-endian, the other big-endian");
    assert_contains(err.message, in("one"));
    assert_contains(err.message, in("b"));
    write_header(2, HS__PB__BUNDLE_HEADER_PROTO__ENDIANNESS__LITTLE);
    assert_fails(MERGE("merged", "one", "b"), HS_INVALID_ARGUMENT, &err,
                 "their format versions differ (written by 1 and 2)");
    assert_true(HAS("one", "x"));
}

static void damaged_indexes(void **state)
{
    (void)state;
    WRITE("one", "x");
    const claim outside = {.dtype = HS_UINT8, .n_dims = 1, .dims = {3}, .size = 3, .shard = 1};
    index_begin();
    index_put_header(1);
    index_put_claim("y", &outside);
    index_end();
    assert_fails(MERGE("merged", "one", "b"), HS_DATA_LOSS, &err, "'y' is invalid: data file 1 of 1");
    index_begin();
    index_put_header(1);
    index_put_slice("y", &(hs__box){1, {0}, {3}}, &outside);
    index_end();
    assert_fails(MERGE("merged", "one", "b"), HS_DATA_LOSS, &err, "'(a slice)' is invalid: data file 1 of 1");
    index_begin();
    index_put_header(1);
    index_put("y", 1, "\xff", 1);
    index_end();
    assert_fails(MERGE("merged", "one", "b"), HS_DATA_LOSS, &err, "cannot read the entry of 'y'");
    index_begin();
    index_put_header(1);
    index_put("y\0z", 3, "\x08\1", 2);
    index_end();
    assert_fails(MERGE("merged", "one", "b"), HS_DATA_LOSS, &err, "zero byte");
    assert_true(HAS("one", "x"));
}

static void names_that_are_taken(void **state)
{
    (void)state;
    WRITE("one", "x");
    WRITE("merged", "y");
    assert_fails(MERGE("merged", "one"), HS_ALREADY_EXISTS, &err, "a different checkpoint");
    WRITE("two", "z");
    assert_fails(MERGE("merged", "one", "two"), HS_ALREADY_EXISTS, &err, "a different checkpoint");
    assert_true(HAS("merged", "y"));
    assert_true(HAS("one", "x"));
}

static void a_checkpoint_cannot_be_merged_into_itself(void **state)
{
    (void)state;
    WRITE("one", "x");
    assert_fails(MERGE("one", "one"), HS_INVALID_ARGUMENT, &err, "cannot merge '");
    assert_fails(MERGE("one", "./one"), HS_INVALID_ARGUMENT, &err, "cannot merge '");
    assert_fails(MERGE(".//./one", "one"), HS_INVALID_ARGUMENT, &err, "cannot merge '");
    assert_int_equal(symlink(directory, in("link")), 0);
    assert_fails(MERGE("one", "link/one"), HS_INVALID_ARGUMENT, &err, "link/one' into");
    assert_fails(MERGE("link/one", "one"), HS_INVALID_ARGUMENT, &err, "cannot merge '");
    assert_true(HAS("one", "x"));
    assert_int_equal(files_of(".tmp"), 0);
}

static void damage_is_found_before_anything_goes(void **state)
{
    (void)state;
    WRITE("one", "x");
    WRITE("two", "y");
    write_slice("three", HS_SHAPE(6), 2, HS_UINT8);
    test_write_file(in("two.data-00000-of-00001"), "yYy", 3);
    assert_fails(MERGE("merged", "one", "two"), HS_DATA_LOSS, &err, "two.data-00000-of-00001: checksum mismatch of 'y'");
    test_write_file(in("three.data-00000-of-00001"), "c-", 2);
    assert_fails(MERGE("merged", "one", "three"), HS_DATA_LOSS, &err, "three.data-00000-of-00001: checksum mismatch");
    assert_true(HAS("one", "x"));
    assert_int_equal(files_of("merged"), 0);
    assert_int_equal(files_of(".index"), 3);
}

static void the_newest_of_a_state_file(void **state)
{
    (void)state;
    static const char *const paths[] = {"one", "./one", "/before/the/directory/was/moved/one", NULL}; /* NULL: absolute */
    assert_int_equal(mkdir(in("part"), 0777), 0);
    WRITE("part/one", "x");
    WRITE("two", "y");
    for (size_t i = 0; i < 4; i++) {
        char text[600];
        snprintf(text, sizeof text, "model_checkpoint_path: \"%s\"\n", paths[i] ? paths[i] : in("part/one"));
        test_write_file(in("part/checkpoint"), text, strlen(text));
        assert_fails(MERGE("merged", "part/one", "two"), HS_FAILED_PRECONDITION, &err, in("part/one"));
        assert_contains(err.message, "names it as the newest");
    }
    assert_true(HAS("part/one", "x") && HAS("two", "y"));
    static const char other[] = "model_checkpoint_path: \"two\"\n"; /* of that directory */
    test_write_file(in("part/checkpoint"), other, sizeof other - 1);
    assert_ok(MERGE("merged", "part/one", "two"), &err);
}

static void a_state_file_that_names_nothing_is_in_nobodys_way(void **state)
{
    (void)state;
    static const char *const texts[] = {"rubbish {", "model_checkpoint_path: 7\n", ""};
    for (size_t i = 0; i < 3; i++) {
        test_empty_directory(in(""));
        WRITE("one", "x");
        WRITE("two", "y");
        test_write_file(in("checkpoint"), texts[i], strlen(texts[i]));
        assert_ok(MERGE("merged", "one", "two"), &err);
    }
}

static void a_state_file_that_cannot_be_read_may_name_one(void **state)
{
    (void)state;
    static file_spy spy;
    static const char text[] = "model_checkpoint_path: \"one\"\n";
    WRITE("one", "x");
    WRITE("two", "y");
    test_write_file(in("checkpoint"), text, sizeof text - 1);
    file_spy_init(&spy, &t.env);
    spy.what = "open";
    spy.where = "checkpoint";
    spy.os_error = EINVAL;
    file_spy_fail(&spy, 1, HS_INVALID_ARGUMENT);
    assert_fails(merge_in(&spy.env, "merged", (const char *const[]){"one", "two", NULL}), HS_INVALID_ARGUMENT, &err,
                 "injected");
    assert_true(HAS("one", "x") && HAS("two", "y"));
}

static hs_code full(void *user, const char *path, uint64_t *bytes, hs_error *error)
{
    (void)user, (void)path, (void)error;
    *bytes = 5;
    return HS_OK;
}

static void a_disk_without_room(void **state)
{
    (void)state;
    WRITE("one", "x");
    WRITE("two", "y");
    hs_file_system_ops ops = *t.env.files.ops;
    ops.free_space = full;
    hs_env env = t.env;
    env.files.ops = &ops;
    assert_fails(merge_in(&env, "merged", (const char *const[]){"one", "two", NULL}), HS_RESOURCE_EXHAUSTED, &err,
                 "only 5 are free");
    assert_true(HAS("one", "x") && HAS("two", "y"));
}

static void data_that_cannot_be_looked_at(void **state)
{
    (void)state;
    static file_spy spy;
    WRITE("one", "x");
    file_spy_init(&spy, &t.env);
    spy.what = "stat";
    spy.where = "one.data-";
    file_spy_fail(&spy, 1, HS_PERMISSION_DENIED);
    assert_int_equal(merge_in(&spy.env, "merged", (const char *const[]){"one", NULL}), HS_PERMISSION_DENIED);
    assert_true(HAS("one", "x"));
}

/* Another process holds the directory of a source. */
static void a_source_directory_held_by_another_process(void **state)
{
    (void)state;
    int ready[2], status;
    char byte, path[512];
    assert_int_equal(mkdir(in("part"), 0777), 0);
    WRITE("part/one", "x");
    snprintf(path, sizeof path, "%s", in("part/one"));
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        hs_saver *saver = hs_saver_new(NULL, NULL);
        if (hs_saver_hold(saver, NULL, path, NULL) == HS_OK && write(ready[1], "", 1) == 1)
            pause();
        _exit(1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_fails(MERGE("merged", "part/one"), HS_FAILED_PRECONDITION, &err, "another process saves there");
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    close(ready[0]);
    close(ready[1]);
    assert_true(HAS("part/one", "x"));
    assert_ok(MERGE("merged", "part/one"), &err);
}

static void null_and_empty_arguments(void **state)
{
    (void)state;
    const char *const none[] = {NULL}, *const empty[] = {"", NULL}, *const one[] = {"one", NULL};
    assert_fails(hs_checkpoint_merge(NULL, NULL, "m", &err), HS_INVALID_ARGUMENT, &err, "prefixes is empty");
    assert_fails(hs_checkpoint_merge(NULL, none, "m", &err), HS_INVALID_ARGUMENT, &err, "prefixes is empty");
    assert_fails(hs_checkpoint_merge(NULL, empty, "m", &err), HS_INVALID_ARGUMENT, &err, "cannot merge ''");
    assert_fails(hs_checkpoint_merge(NULL, one, NULL, &err), HS_INVALID_ARGUMENT, &err, "merged is missing");
    assert_fails(hs_checkpoint_merge(NULL, one, "", &err), HS_INVALID_ARGUMENT, &err, "merged is missing");
}

static hs_code held(void *user, const char *path, void **lock, hs_error *error)
{
    (void)user, (void)lock;
    return hs_error_set(error, HS_FAILED_PRECONDITION, "%s: locked by process 7", path);
}

static void a_target_directory_held_by_another_process(void **state)
{
    (void)state;
    WRITE("one", "x");
    hs_file_system_ops ops = *t.env.files.ops;
    ops.lock = held;
    hs_env env = t.env;
    env.files.ops = &ops;
    assert_fails(merge_in(&env, "merged", (const char *const[]){"one", NULL}), HS_FAILED_PRECONDITION, &err,
                 "another process saves there");
    assert_true(HAS("one", "x"));
}

static void slices_that_do_not_go_together(void **state)
{
    (void)state;
    write_slice("a", HS_SHAPE(6), 2, HS_UINT8);
    write_slice("same", HS_SHAPE(6), 2, HS_UINT8);
    write_slice("longer", HS_SHAPE(8), 4, HS_UINT8);
    write_slice("typed", HS_SHAPE(6), 4, HS_INT8);
    WRITE("whole", "w");
    assert_fails(MERGE("merged", "a", "same"), HS_INVALID_ARGUMENT, &err, "both have the slice [2:4] of tensor 'w'");
    assert_fails(MERGE("merged", "a", "longer"), HS_INVALID_ARGUMENT, &err, "but its dtype or shape differs");
    assert_fails(MERGE("merged", "a", "typed"), HS_INVALID_ARGUMENT, &err, "but its dtype or shape differs");
    assert_fails(MERGE("merged", "a", "whole"), HS_INVALID_ARGUMENT, &err, "both have the tensor 'w'");
    assert_fails(MERGE("merged", "whole", "a"), HS_INVALID_ARGUMENT, &err, "both have the tensor 'w'");
    assert_int_equal(files_of("merged"), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(slices_that_do_not_go_together),
        TEST(tb_037s_a_missing_checkpoint),
        TEST(data_that_are_missing_or_short),
        TEST(a_tensor_that_two_have),
        TEST(tb_039s_formats_that_differ),
        TEST(damaged_indexes),
        TEST(names_that_are_taken),
        TEST(a_checkpoint_cannot_be_merged_into_itself),
        TEST(null_and_empty_arguments),
        TEST(a_target_directory_held_by_another_process),
        TEST(a_source_directory_held_by_another_process),
        TEST(damage_is_found_before_anything_goes),
        TEST(the_newest_of_a_state_file),
        TEST(a_state_file_that_names_nothing_is_in_nobodys_way),
        TEST(a_state_file_that_cannot_be_read_may_name_one),
        TEST(a_disk_without_room),
        TEST(data_that_cannot_be_looked_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
