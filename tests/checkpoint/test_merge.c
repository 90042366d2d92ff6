/* SPDX-License-Identifier: Apache-2.0 */
/* Several checkpoints become one. */
#include "base/crc32c.h"
#include "base/file_spy.h"
#include "checkpoint/merging.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

/* Results. */

static void tb_004_keys_and_values_of_all(void **state)
{
    (void)state;
    WRITE("foo", "foo_003", "foo_000", "foo_002", "foo_001");
    WRITE("bar", "bar_003", "bar_000", "bar_002", "bar_001");
    assert_ok(MERGE("merged", "foo", "bar"), &err);
    assert_true(HAS("merged", "bar_000", "bar_001", "bar_002", "bar_003", "foo_000", "foo_001", "foo_002", "foo_003"));
}

static void tb_012_a_single_checkpoint_is_renamed(void **state)
{
    (void)state;
    WRITE("one", "x");
    assert_ok(MERGE("another", "one"), &err);
    assert_true(test_exists(directory, "another.index") && test_exists(directory, "another.data-00000-of-00001"));
    assert_int_equal(files_of("one."), 0);
    assert_true(HAS("another", "x"));
}

static void tb_012_two_have_two_data_files(void **state)
{
    (void)state;
    WRITE("one", "x");
    WRITE("two", "y");
    assert_ok(MERGE("merged", "one", "two"), &err);
    assert_true(test_exists(directory, "merged.index") && test_exists(directory, "merged.data-00000-of-00002") &&
                test_exists(directory, "merged.data-00001-of-00002"));
    assert_int_equal(files_of("merged."), 3);
}

/* As several processes save it, each in another directory. */
static void checkpoints_of_one_name_in_several_directories(void **state)
{
    (void)state;
    assert_int_equal(mkdir(in("first"), 0777), 0);
    assert_int_equal(mkdir(in("second"), 0777), 0);
    WRITE("first/model", "x");
    WRITE("second/model", "y");
    assert_ok(MERGE("model", "first/model", "second/model"), &err);
    assert_true(HAS("model", "x", "y"));
    assert_int_equal(test_count_files(in("first"), "model.") + test_count_files(in("second"), "model."), 0);
}

/* Returns true if the file has one tensor, whose name begins with this letter. */
static bool has_data(const char *file, char first)
{
    size_t bytes;
    char *data = test_read_file(in(file), &bytes);
    bool fine = data && bytes == 3 && data[0] == first && data[2] == first;
    free(data);
    return fine;
}

static void tb_040s_data_are_copied_and_the_others_removed(void **state)
{
    (void)state;
    assert_int_equal(mkdir(in("part"), 0777), 0);
    WRITE("part/one", "x");
    WRITE("two", "y");
    test_write_file(in("two.meta"), "graph", 5);
    assert_ok(MERGE("merged", "part/one", "two"), &err);
    assert_true(has_data("merged.data-00000-of-00002", 'x') && has_data("merged.data-00001-of-00002", 'y'));
    assert_int_equal(test_count_files(in("part"), "one"), 0);
    assert_false(test_exists(directory, "two.index"));
    assert_true(test_exists(directory, "part") && test_exists(directory, "two.meta"));
    assert_int_equal(files_of(".tmp"), 0);
}

static void tb_041s_files_are_numbered_in_the_order_of_the_sources(void **state)
{
    (void)state;
    WRITE("none", NULL);                                           /* no tensors, and so no data file */
    write_shard("second", 1, 2, (const char *const[]){"s", NULL}); /* as a save over another one leaves it */
    WRITE("third", "t");
    assert_ok(MERGE("merged", "third", "none", "second"), &err);
    assert_true(has_data("merged.data-00000-of-00002", 't') && has_data("merged.data-00001-of-00002", 's'));
    assert_true(HAS("merged", "s", "t"));
    assert_int_equal(files_of("none") + files_of("second") + files_of("third"), 0);
}

static void tb_041s_nothing_but_empty_ones(void **state)
{
    (void)state;
    WRITE("a", NULL);
    WRITE("b", NULL);
    assert_ok(MERGE("merged", "a", "b"), &err);
    assert_true(has("merged", (const char *const[]){NULL}));
    assert_int_equal(files_of("merged."), 1);
}

static void a_merged_checkpoint_can_be_merged_again(void **state)
{
    (void)state;
    WRITE("a", "a");
    WRITE("b", "b");
    WRITE("c", "c");
    assert_ok(MERGE("ab", "a", "b"), &err);
    assert_ok(MERGE("abc", "c", "ab"), &err);
    assert_true(HAS("abc", "a", "b", "c"));
    assert_int_equal(files_of("abc.data"), 3);
}

static void rename_to(const char *from, const char *to)
{
    char path[512];
    snprintf(path, sizeof path, "%s", in(from));
    assert_int_equal(rename(path, in(to)), 0);
}

/* Data files: with the system's files they are linked, with others copied. */

enum { LARGE_BYTES = (5 << 20) + 7 };

static char large_byte(size_t i)
{
    return (char)(i % 251);
}

/* Writes the checkpoint "b" with a tensor that is larger than the buffers, and strings. */
static void write_large(void)
{
    char *bytes = malloc(LARGE_BYTES);
    assert_non_null(bytes);
    for (size_t i = 0; i < LARGE_BYTES; i++)
        bytes[i] = large_byte(i);
    const hs_string text[] = {{"first", 5}, {"second", 6}};
    write_bundle((const named_tensor[]){{"large", hs_tensor_of(HS_UINT8, HS_SHAPE(LARGE_BYTES), bytes)},
                                        {"text", hs_tensor_of(HS_STRING, HS_SHAPE(2), (void *)text)}},
                 2);
    free(bytes);
}

static void assert_large(const char *prefix)
{
    char *read = malloc(LARGE_BYTES);
    hs_checkpoint_reader *reader = hs_checkpoint_open(&t.env, in(prefix), &err);
    assert_true(read && reader);
    assert_ok(hs_checkpoint_read(reader, "large", read, LARGE_BYTES, &err), &err);
    size_t same = 0;
    while (same < LARGE_BYTES && read[same] == large_byte(same))
        same++;
    assert_int_equal(same, LARGE_BYTES);
    hs_checkpoint_close(reader);
    free(read);
}

static hs_code merge_by(const hs_env *env)
{
    return merge_in(env, "merged", (const char *const[]){"b", NULL});
}

static void files_larger_than_a_buffer_are_copied_whole(void **state)
{
    (void)state;
    file_spy spy;
    file_spy_init(&spy, &t.env);
    write_large();
    assert_ok(merge_by(&spy.env), &err);
    assert_large("merged");
}

static void copying_reads_and_verifies_each_number_once(void **state)
{
    (void)state;
    file_spy spy;
    file_spy_init(&spy, &t.env);
    write_large();
    assert_ok(merge_by(&spy.env), &err);
    assert_in_range(spy.bytes_read, LARGE_BYTES, LARGE_BYTES + 10000);
}

static struct stat stat_of(const char *name)
{
    struct stat found;
    assert_int_equal(stat(in(name), &found), 0);
    return found;
}

static void a_file_with_one_name_is_not_copied(void **state)
{
    (void)state;
    write_large();
    ino_t before = stat_of("b.data-00000-of-00001").st_ino;
    char path[512];
    snprintf(path, sizeof path, "%s", DATA_FILE);
    assert_int_equal(link(path, in("merged.data-00000-of-00001.tmp")), 0); /* by an interrupted merge */
    assert_ok(merge_by(NULL), &err);
    assert_int_equal(stat_of("merged.data-00000-of-00001").st_ino, before);
    assert_int_equal(stat_of("merged.data-00000-of-00001").st_nlink, 1);
    assert_int_equal(files_of(".tmp"), 0);
    assert_large("merged");
}

static void a_file_with_several_names_is_copied(void **state)
{
    (void)state;
    char path[512];
    write_large();
    snprintf(path, sizeof path, "%s", DATA_FILE);
    assert_int_equal(link(path, in("backup")), 0);
    assert_ok(merge_by(NULL), &err);
    assert_int_equal(stat_of("merged.data-00000-of-00001").st_nlink, 1);
    assert_int_equal(stat_of("backup").st_nlink, 1);
    assert_large("merged");
}

static void a_symbolic_link_is_copied(void **state)
{
    (void)state;
    write_large();
    rename_to("b.data-00000-of-00001", "elsewhere");
    assert_int_equal(symlink("elsewhere", DATA_FILE), 0);
    assert_ok(merge_by(NULL), &err);
    assert_int_equal(stat_of("elsewhere").st_nlink, 1);
    assert_int_not_equal(stat_of("merged.data-00000-of-00001").st_ino, stat_of("elsewhere").st_ino);
    assert_large("merged");
}

/* In the first and in a later piece of the numbers, in their last byte, and in the strings. */
static void damage_anywhere_is_found(void **state)
{
    (void)state;
    static const long places[] = {0, (2 << 20) + 5, LARGE_BYTES - 1, LARGE_BYTES + 8};
    file_spy spy;
    file_spy_init(&spy, &t.env);
    for (size_t i = 0; i < 2 * sizeof places / sizeof *places; i++) {
        write_large();
        FILE *file = fopen(DATA_FILE, "r+");
        assert_true(file && fseek(file, places[i / 2], SEEK_SET) == 0 && fputc('!', file) == '!' && fclose(file) == 0);
        assert_fails(merge_by(i % 2 ? NULL : &spy.env), HS_DATA_LOSS, &err, "b.data-00000-of-00001: checksum mismatch");
        assert_int_equal(files_of("merged"), 0);
    }
}

/* Writes the checkpoint "b" with "large" and a tensor without elements, whose data are in the middle of it. */
static void write_empty_within(int64_t offset, uint32_t crc)
{
    char *bytes = malloc(LARGE_BYTES);
    assert_non_null(bytes);
    for (size_t i = 0; i < LARGE_BYTES; i++)
        bytes[i] = large_byte(i);
    test_write_file(DATA_FILE, bytes, LARGE_BYTES);
    index_begin();
    index_put_header(1);
    index_put_claim("large", &(claim){.dtype = HS_UINT8,
                                      .n_dims = 1,
                                      .dims = {LARGE_BYTES},
                                      .size = LARGE_BYTES,
                                      .crc = hs__crc32c(0, bytes, LARGE_BYTES)});
    index_put_claim("none", &(claim){.n_dims = 1, .offset = offset, .crc = crc});
    index_end();
    free(bytes);
}

static void an_empty_tensor_may_be_anywhere(void **state)
{
    (void)state;
    static const int64_t offsets[] = {0, 10, 2 << 20, (2 << 20) + 10, LARGE_BYTES};
    file_spy spy;
    file_spy_init(&spy, &t.env);
    for (size_t i = 0; i < 2 * sizeof offsets / sizeof *offsets; i++) {
        write_empty_within(offsets[i / 2], 0);
        assert_ok(merge_by(i % 2 ? NULL : &spy.env), &err);
        assert_large("merged");
        assert_int_equal(unlink(in("merged.index")), 0);
        write_empty_within(offsets[i / 2], 1);
        assert_fails(merge_by(i % 2 ? NULL : &spy.env), HS_DATA_LOSS, &err, "checksum mismatch of 'none'");
    }
}

static void tb_036s_one_missing_level_is_created(void **state)
{
    (void)state;
    WRITE("one", "x");
    assert_fails(MERGE("a/b/merged", "one"), HS_INVALID_ARGUMENT, &err, "its parent directory does not exist");
    assert_true(HAS("one", "x"));
    assert_ok(MERGE("a/merged", "one"), &err);
    assert_true(HAS("a/merged", "x"));
    WRITE("two", "y");
    assert_ok(MERGE("a/another", "two"), &err); /* the directory is there */
}

static void tb_040s_names_of_data_are_safe_before_the_index_and_the_others_go_last(void **state)
{
    (void)state;
    file_spy spy;
    WRITE("a", "a");
    WRITE("b", "b");
    file_spy_init(&spy, &t.env);
    spy.noted = "sync rename remove directory";
    assert_ok(merge_in(&spy.env, "m", (const char *const[]){"a", "b", NULL}), &err);
    assert_string_equal(spy.calls, "directory directory " /* an interrupted merge of an earlier process */
                                   "sync:m.data-00000-of-00002.tmp sync:m.data-00001-of-00002.tmp sync:m.index.tmp "
                                   "rename:m.data-00000-of-00002 rename:m.data-00001-of-00002 directory "
                                   "rename:m.index directory remove:a.index remove:b.index directory "
                                   "remove:a.data-00000-of-00001 remove:b.data-00000-of-00001 directory");
}

/* Slices. */

static void tb_006_slices_of_several_are_put_together(void **state)
{
    (void)state;
    char bytes[6], part[2];
    for (int64_t i = 0; i < 3; i++)
        write_slice((const char *const[]){"c", "a", "b"}[i], HS_SHAPE(6), 2 * i, HS_UINT8);
    assert_ok(MERGE("merged", "a", "b", "c"), &err);
    hs_checkpoint_reader *reader = hs_checkpoint_open(&t.env, in("merged"), &err);
    assert_non_null(reader);
    assert_ok(hs_checkpoint_verify(reader, "w", &err), &err);
    assert_ok(hs_checkpoint_read(reader, "w", bytes, sizeof bytes, &err), &err);
    assert_memory_equal(bytes, "abcdef", 6);
    assert_ok(hs_checkpoint_read_slice(reader, "w", (int64_t[]){3}, (int64_t[]){2}, part, 2, &err), &err);
    assert_memory_equal(part, "de", 2);
    hs_checkpoint_close(reader);
}

/* This library cannot read it, but can verify and merge it. */

static void tensors_of_unknown_types_are_merged_unchanged(void **state)
{
    (void)state;
    /* type 32, three bytes, their checksum, and a field of number 13 */
    static const char strange[] = "\x08\x20\x28\3\x35\x6e\x57\xf1\x21\x6a\3abc";
    size_t bytes;
    test_write_file(DATA_FILE, "abc", 3);
    index_begin();
    index_put_header(1);
    index_put("strange", 7, strange, sizeof strange - 1);
    index_end();
    WRITE("other", "x");
    assert_ok(MERGE("merged", "other", "b"), &err);
    rename_to("merged.index", "b.index");
    unsigned char *value = index_value("strange", &bytes);
    assert_int_equal(bytes, sizeof strange - 1 + 2); /* the number of the data file, which was 0 */
    assert_memory_equal(value, "\x08\x20\x18\1\x28\3\x35\x6e\x57\xf1\x21\x6a\3abc", bytes);
    free(value);
}

static void damaged_tensors_of_unknown_types_are_not_merged(void **state)
{
    (void)state;
    static const char strange[] = "\x08\x20\x28\3\x35\x6e\x57\xf1\x21";
    test_write_file(DATA_FILE, "abd", 3);
    index_begin();
    index_put_header(1);
    index_put("strange", 7, strange, sizeof strange - 1);
    index_end();
    WRITE("other", "x");
    assert_fails(MERGE("merged", "other", "b"), HS_DATA_LOSS, &err, "checksum mismatch of 'strange'");
}

/* Failures and crashes. */

static const char *const inputs[] = {"part/one", "two", "three", NULL};

static void begin_again(void)
{
    test_remove_directory(directory);
    directory = test_make_directory();
    assert_int_equal(mkdir(in("part"), 0777), 0);
    WRITE("part/one", "o", "p");
    WRITE("two", "t");
    WRITE("three", "h");
}

static bool is_merged(void)
{
    return HAS("merged", "h", "o", "p", "t");
}

static bool is_as_before(void)
{
    return HAS("part/one", "o", "p") && HAS("two", "t") && HAS("three", "h") && files_of("merged") == 0;
}

/* All sources or the merged checkpoint exist. If it does not exist, merging again succeeds. */
static hs_code merge_or_not(test_env *env, void *user)
{
    (void)user;
    test_tolerate_harmless(env);                        /* looking for leftovers */
    test_tolerate(env, "': no memory for its path");    /* old data */
    test_tolerate(env, "; a power failure may lose '"); /* the directory was not made here */
    begin_again();
    hs_code code = merge_in(&env->env, "merged", inputs);
    if (!is_merged())
        assert_true(code && is_as_before());
    if (code)
        assert_ok(merge_in(&t.env, "merged", inputs), &err);
    assert_true(is_merged());
    return code;
}

static void a_failure_changes_nothing(void **state)
{
    (void)state;
    test_each_allocation(merge_or_not, NULL);
    test_each_file_call(merge_or_not, NULL, EIO, false, NULL);
}

/* From one call on, all calls fail, also the calls that clean up. A saver then holds the directories, and removes the
 * orphans that it finds. */
static void look_like_a_crash(void)
{
    const char *const bases[] = {"merged", "two", "part/one"};
    for (size_t i = 0; i < 3; i++) {
        hs_saver *saver = hs_saver_new(NULL, &err);
        assert_ok(hs_saver_hold(saver, NULL, in(bases[i]), &err), &err);
        hs_saver_free(saver);
    }
}

static hs_code crash_and_go_on(test_env *env, void *user)
{
    test_tolerate(env, "; a power failure may lose '"); /* the directory was not made here */
    begin_again();
    hs_code code = merge_in(&env->env, "merged", inputs);
    assert_true(is_merged() || (HAS("part/one", "o", "p") && HAS("two", "t") && HAS("three", "h")));
    if (user)
        look_like_a_crash();
    assert_true(is_merged() || (HAS("part/one", "o", "p") && HAS("two", "t") && HAS("three", "h")));
    assert_ok(merge_in(&t.env, "merged", inputs), &err);
    assert_true(is_merged());
    assert_int_equal(files_of(".index"), 1);
    assert_int_equal(files_of("two.") + files_of("three.") + test_count_files(in("part"), "one."), 0);
    return code;
}

static void a_merge_that_was_cut_short_is_finished_by_another(void **state)
{
    (void)state;
    test_each_file_call(crash_and_go_on, NULL, EIO, true, NULL);
}

static void a_saver_in_between_loses_nothing(void **state)
{
    (void)state;
    test_each_file_call(crash_and_go_on, NULL, EIO, true, &err);
}

static hs_code crashed_remove(void *user, const char *path, hs_error *error)
{
    (void)user, (void)path, (void)error;
    return HS_OK;
}

/* The merged checkpoint and its sources exist. */
static void merge_without_removing(void)
{
    hs_file_system_ops ops = *t.env.files.ops;
    hs_env env = t.env;
    ops.remove = crashed_remove;
    env.files.ops = &ops;
    begin_again();
    assert_ok(merge_in(&env, "merged", inputs), &err);
    assert_int_equal(files_of(".index"), 3);
}

static void a_merge_that_left_the_others_is_cleared_up_by_another(void **state)
{
    (void)state;
    merge_without_removing();
    assert_int_equal(unlink(in("two.index")), 0); /* it came as far as this */
    assert_ok(merge_in(&t.env, "merged", inputs), &err);
    assert_int_equal(files_of(".index"), 1);
    assert_int_equal(files_of("two."), 0);
    assert_true(is_merged());
    assert_ok(merge_in(&t.env, "merged", inputs), &err); /* nothing is left to be done */
    assert_true(is_merged());
}

static hs_code clear_up(test_env *env, void *user)
{
    (void)user;
    test_tolerate(env, "; a power failure may lose '"); /* the directory was not made here */
    test_tolerate(env, "; another process could save"); /* ENOSYS: the file system has no locks */
    merge_without_removing();
    hs_code code = merge_in(&env->env, "merged", inputs);
    assert_true(is_merged());
    return code;
}

static void clearing_up_loses_nothing_either(void **state)
{
    (void)state;
    test_each_allocation(clear_up, NULL);
    test_each_file_call(clear_up, NULL, EIO, false, NULL);
    test_each_file_call(clear_up, NULL, ENOSYS, false, NULL); /* not as of a tensor of unknown type */
}

static void only_merged_sources_are_removed(void **state)
{
    (void)state;
    merge_without_removing();
    WRITE("other", "u");
    assert_fails(MERGE("merged", "two", "other"), HS_ALREADY_EXISTS, &err, "a different checkpoint");
    assert_fails(MERGE("merged", "two", "three"), HS_ALREADY_EXISTS, &err, "a different checkpoint"); /* of more */
    write_shard("two", 0, 1, (const char *const[]){"tt", NULL}); /* another one by now */
    assert_fails(merge_in(&t.env, "merged", inputs), HS_ALREADY_EXISTS, &err, "a different checkpoint");
    assert_true(HAS("two", "tt") && HAS("three", "h") && HAS("other", "u"));
}

static void a_damaged_merged_checkpoint_removes_no_source(void **state)
{
    (void)state;
    merge_without_removing();
    test_write_file(in("merged.data-00001-of-00003"), "tXt", 3);
    assert_fails(merge_in(&t.env, "merged", inputs), HS_DATA_LOSS, &err, "merged.data-00001-of-00003: checksum mismatch");
    assert_true(HAS("part/one", "o", "p") && HAS("two", "t") && HAS("three", "h"));
}

static void slices_that_were_merged_are_cleared_up(void **state)
{
    (void)state;
    for (int64_t i = 0; i < 3; i++)
        write_slice((const char *const[]){"a", "b", "c"}[i], HS_SHAPE(6), 2 * i, HS_UINT8);
    assert_ok(MERGE("merged", "a", "b", "c"), &err);
    write_slice("b", HS_SHAPE(6), 2, HS_UINT8);
    assert_ok(MERGE("merged", "a", "b", "c"), &err);
    assert_int_equal(files_of("b."), 0);
    write_slice("b", HS_SHAPE(8), 2, HS_UINT8);
    assert_fails(MERGE("merged", "a", "b", "c"), HS_ALREADY_EXISTS, &err, "a different checkpoint");
}

static void a_file_that_cannot_be_removed_is_an_error(void **state)
{
    (void)state;
    static const char *const parts[] = {"two.index", "two.data"};
    for (size_t i = 0; i < 2; i++) {
        file_spy spy;
        begin_again();
        file_spy_init(&spy, &t.env);
        spy.what = "remove";
        spy.where = parts[i];
        file_spy_fail(&spy, 1, HS_PERMISSION_DENIED);
        assert_fails(merge_in(&spy.env, "merged", inputs), HS_PERMISSION_DENIED, &err, parts[i]);
        assert_true(is_merged());
        assert_ok(merge_in(&t.env, "merged", inputs), &err);
        assert_int_equal(files_of("two."), 0);
    }
}

/* As over a network. */
static hs_code rename_and_fail(void *user, const char *from, const char *to, hs_error *error)
{
    size_t length = strlen(to);
    hs_code code = t.env.files.ops->rename(user, from, to, error);
    return code || strcmp(to + length - 6, ".index") != 0 ? code : hs_error_set(error, HS_UNKNOWN, "no answer");
}

static void an_index_that_was_named_after_all_keeps_its_data(void **state)
{
    (void)state;
    hs_file_system_ops ops = *t.env.files.ops;
    hs_env env = t.env;
    ops.rename = rename_and_fail;
    env.files.ops = &ops;
    begin_again();
    assert_fails(merge_in(&env, "merged", inputs), HS_UNKNOWN, &err, "no answer");
    assert_true(is_merged() && HAS("two", "t"));
    assert_ok(merge_in(&t.env, "merged", inputs), &err);
    assert_true(is_merged());
    assert_int_equal(files_of(".index"), 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(tb_004_keys_and_values_of_all),
        TEST(tb_012_a_single_checkpoint_is_renamed),
        TEST(tb_012_two_have_two_data_files),
        TEST(checkpoints_of_one_name_in_several_directories),
        TEST(tb_040s_data_are_copied_and_the_others_removed),
        TEST(tb_040s_names_of_data_are_safe_before_the_index_and_the_others_go_last),
        TEST(tb_041s_files_are_numbered_in_the_order_of_the_sources),
        TEST(tb_041s_nothing_but_empty_ones),
        TEST(a_merged_checkpoint_can_be_merged_again),
        TEST(files_larger_than_a_buffer_are_copied_whole),
        TEST(copying_reads_and_verifies_each_number_once),
        TEST(a_file_with_one_name_is_not_copied),
        TEST(a_file_with_several_names_is_copied),
        TEST(a_symbolic_link_is_copied),
        TEST(damage_anywhere_is_found),
        TEST(an_empty_tensor_may_be_anywhere),
        TEST(tb_036s_one_missing_level_is_created),
        TEST(tb_006_slices_of_several_are_put_together),
        TEST(tensors_of_unknown_types_are_merged_unchanged),
        TEST(damaged_tensors_of_unknown_types_are_not_merged),
        TEST(a_failure_changes_nothing),
        TEST(a_merge_that_was_cut_short_is_finished_by_another),
        TEST(a_saver_in_between_loses_nothing),
        TEST(a_merge_that_left_the_others_is_cleared_up_by_another),
        TEST(clearing_up_loses_nothing_either),
        TEST(only_merged_sources_are_removed),
        TEST(a_damaged_merged_checkpoint_removes_no_source),
        TEST(slices_that_were_merged_are_cleared_up),
        TEST(a_file_that_cannot_be_removed_is_an_error),
        TEST(an_index_that_was_named_after_all_keeps_its_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
