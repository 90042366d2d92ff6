/* SPDX-License-Identifier: Apache-2.0 */
/* TensorFlow's op MergeV2Checkpoints merges checkpoints of this library's saver, and this library reads the result. */
#include "tensorflow/graphs.h"

#include <hooksess/graph.h>

#include <sys/stat.h>
#include <unistd.h>

static char *directory;

static int set_up(void **state)
{
    (void)state;
    directory = make_directory();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    remove_directory(directory);
    return 0;
}

static const char *in(const char *name)
{
    static char paths[4][1200];
    static size_t next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", directory, name);
    return path;
}

static bool exists(const char *name)
{
    return access(in(name), F_OK) == 0;
}

/* Saves variables of three bytes, which are the first letter of the name. */
static void save_names(const char *prefix, const char *const *names)
{
    hs_error err = {0};
    char bytes[8][3];
    hs_graph *graph = hs_graph_new(NULL);
    for (size_t i = 0; names[i]; i++) {
        memset(bytes[i], names[i][0], sizeof bytes[i]);
        hs_graph_add_variable(graph,
                              HS_VARIABLE_DEF(.name = names[i], .dtype = HS_UINT8, .shape = HS_SHAPE(3), .data = bytes[i]));
    }
    hs_session *session = hs_session_open(hs_graph_backend(graph), NULL, &err);
    assert_ok(err.code, &err);
    hs_saver *saver = hs_saver_new(NULL, &err);
    const hs_save_options bare = HS_INIT(hs_save_options, .no_meta_graph = true, .no_state_file = true);
    assert_ok(hs_saver_save(saver, hs_session_raw(session), in(prefix), -1, &bare, &err), &err);
    hs_session_close(session, &err);
    hs_saver_free(saver);
    hs_graph_free(graph);
}
#define SAVE(prefix, ...) save_names(prefix, (const char *const[]){__VA_ARGS__, NULL})

/* Runs the op. */
static hs_code merge_names(const char *merged, bool delete_old_dirs, const char *const *names, hs_error *err)
{
    hs_string prefixes[4], to = {in(merged), strlen(in(merged))};
    char paths[4][1200];
    int64_t n = 0;
    for (; names[n]; n++) {
        snprintf(paths[n], sizeof paths[n], "%s", in(names[n]));
        prefixes[n] = (hs_string){paths[n], strlen(paths[n])};
    }
    const hs_tensor values[] = {hs_tensor_of(HS_STRING, HS_SHAPE(n), prefixes), hs_tensor_of(HS_STRING, HS_SCALAR, &to)};
    const char *const constants[] = {"parts", "merged"};
    hs_backend tf = open_graph("ref.meta");
    for (int i = 0; i < 2; i++) {
        const hs_tensorflow_attr attrs[] = {{.name = "dtype", .kind = HS_TENSORFLOW_TYPE, .type = HS_STRING},
                                            {.name = "value", .kind = HS_TENSORFLOW_TENSOR, .tensor = &values[i]},
                                            {.name = NULL}};
        assert_ok(
            hs_tensorflow_add_op(tf, HS_TENSORFLOW_OP_DEF(.type = "Const", .name = constants[i], .attrs = attrs), err),
            err);
    }
    const hs_tensorflow_attr attrs[] = {{.name = "delete_old_dirs", .kind = HS_TENSORFLOW_BOOL, .number = delete_old_dirs},
                                        {.name = NULL}};
    const hs_tensorflow_op_def merge = HS_INIT(hs_tensorflow_op_def, .type = "MergeV2Checkpoints", .name = "merge",
                                               .inputs = HS_NAMES("parts", "merged"), .attrs = attrs);
    assert_ok(hs_tensorflow_add_op(tf, &merge, err), err);
    hs_session *session = hs_session_open(tf, NULL, err);
    assert_ok(err->code, err);
    const hs_run_args args = HS_INIT(hs_run_args, .names = HS_NAMES("merge"));
    hs_code code = hs_raw_session_run(hs_session_raw(session), &args, NULL, err);
    hs_error closing = {0};
    hs_session_close(session, &closing);
    hs_tensorflow_free(tf);
    return code;
}
#define MERGE(merged, ...) merge_names(merged, false, (const char *const[]){__VA_ARGS__, NULL}, &err)

/* Asserts that a checkpoint has these tensors in this order, with their values. */
static void assert_names(const char *prefix, const char *const *names)
{
    hs_error err = {0};
    const char *name;
    char bytes[3];
    size_t n = 0;
    hs_checkpoint_reader *reader = hs_checkpoint_open(NULL, in(prefix), &err);
    assert_ok(err.code, &err);
    assert_ok(hs_checkpoint_verify(reader, NULL, &err), &err);
    for (; names[n]; n++) {
        assert_true(hs_checkpoint_tensor(reader, n, &name, NULL));
        assert_string_equal(name, names[n]);
        assert_ok(hs_checkpoint_read(reader, name, bytes, sizeof bytes, &err), &err);
        assert_true(bytes[0] == name[0] && bytes[2] == name[0]);
    }
    assert_false(hs_checkpoint_tensor(reader, n, &name, NULL));
    hs_checkpoint_close(reader);
}
#define ASSERT_HAS(prefix, ...) assert_names(prefix, (const char *const[]){__VA_ARGS__, NULL})

static void tb_004_the_result_has_all_tensors_in_the_order_of_their_names(void **state)
{
    (void)state;
    hs_error err = {0};
    SAVE("foo", "foo_003", "foo_000", "foo_002", "foo_001");
    SAVE("bar", "bar_003", "bar_000", "bar_002", "bar_001");
    assert_ok(MERGE("merged", "foo", "bar"), &err);
    ASSERT_HAS("merged", "bar_000", "bar_001", "bar_002", "bar_003", "foo_000", "foo_001", "foo_002", "foo_003");
}

static void tb_012_one_is_renamed_and_two_have_two_data_files(void **state)
{
    (void)state;
    hs_error err = {0};
    SAVE("one", "x");
    SAVE("two", "y");
    assert_ok(MERGE("another", "one"), &err);
    assert_true(exists("another.index") && exists("another.data-00000-of-00001"));
    assert_false(exists("one.index") || exists("one.data-00000-of-00001"));
    ASSERT_HAS("another", "x");
    assert_ok(MERGE("merged", "another", "two"), &err);
    assert_true(exists("merged.index") && exists("merged.data-00000-of-00002") && exists("merged.data-00001-of-00002"));
    ASSERT_HAS("merged", "x", "y");
}

static void tb_037s_a_missing_input_is_invalid(void **state)
{
    (void)state;
    hs_error err = {0};
    SAVE("one", "x");
    assert_fails(MERGE("merged", "one", "none"), HS_INVALID_ARGUMENT, &err, "none");
    assert_false(hs_checkpoint_exists(NULL, in("merged")));
}

static ino_t number_of(const char *name)
{
    struct stat found;
    assert_int_equal(stat(in(name), &found), 0);
    return found.st_ino;
}

static void tb_040s_data_files_are_renamed_and_old_directories_removed(void **state)
{
    (void)state;
    hs_error err = {0};
    const char *const parts[] = {"part/one", "two", NULL};
    assert_int_equal(mkdir(in("part"), 0777), 0);
    SAVE("part/one", "x");
    SAVE("two", "y");
    assert_int_equal(unlink(in("part/" HS_CHECKPOINT_LOCK)), 0);
    ino_t one = number_of("part/one.data-00000-of-00001");
    assert_ok(merge_names("merged", true, parts, &err), &err);
    assert_true(number_of("merged.data-00000-of-00002") == one);
    assert_false(exists("part"));
    assert_false(exists("two.index"));
    ASSERT_HAS("merged", "x", "y");
}

static void tb_041s_data_files_are_numbered_in_the_order_of_the_inputs(void **state)
{
    (void)state;
    hs_error err = {0};
    SAVE("second", "a");
    SAVE("first", "b");
    ino_t first = number_of("first.data-00000-of-00001");
    assert_ok(MERGE("merged", "first", "second"), &err);
    assert_true(number_of("merged.data-00000-of-00002") == first);
    ASSERT_HAS("merged", "a", "b");
}

static void tb_041s_after_an_input_without_tensors_the_result_cannot_be_read(void **state)
{
    (void)state;
    hs_error err = {0};
    char bytes[3];
    save_names("empty", (const char *const[]){NULL});
    SAVE("one", "x");
    assert_ok(MERGE("merged", "empty", "one"), &err);
    hs_checkpoint_reader *reader = hs_checkpoint_open(NULL, in("merged"), &err);
    assert_ok(err.code, &err);
    assert_fails(hs_checkpoint_read(reader, "x", bytes, sizeof bytes, &err), HS_NOT_FOUND, &err, "merged.data-");
    hs_checkpoint_close(reader);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(tb_004_the_result_has_all_tensors_in_the_order_of_their_names),
        TEST(tb_012_one_is_renamed_and_two_have_two_data_files),
        TEST(tb_037s_a_missing_input_is_invalid),
        TEST(tb_040s_data_files_are_renamed_and_old_directories_removed),
        TEST(tb_041s_data_files_are_numbered_in_the_order_of_the_inputs),
        TEST(tb_041s_after_an_input_without_tensors_the_result_cannot_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
