/* SPDX-License-Identifier: Apache-2.0 */
/* A directory under several names, and a directory that was moved or copied. After a restart the training resumes, and the
 * list of kept checkpoints is the same. */
#include "checkpoint/model.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEPT = 2 };

/* Trains `steps` steps in the directory, with a checkpoint after each, and returns the last step. */
static int64_t train_in(fixture *f, const char *directory, int steps)
{
    model m = {.step = 0};
    hs_saver *saver = hs_saver_new(HS_SAVER_OPTIONS(.env = &f->t.env, .max_to_keep = KEPT), &f->err);
    hs_scaffold *scaffold = hs_scaffold_new(HS_SCAFFOLD_OPTIONS(.saver = saver), &f->err);
    hs_training_options options = HS_INIT(hs_training_options, .scaffold = scaffold, .checkpoint_dir = directory,
                                          .save_checkpoint_steps = 1, .save_summaries_steps = HS_NEVER);
    model_set(&m, 0);
    model_build(&m, &f->t.env);
    m.session = hs_training_session_open(hs_graph_backend(m.graph), &options, &m.err);
    if (!m.session)
        fail_msg("%s: %s", directory, m.err.message);
    assert_ok(model_train(&m, steps), &m.err);
    hs_outcome outcome = model_close(&m);
    hs_scaffold_free(scaffold);
    hs_saver_free(saver);
    assert_ok(outcome.error.code, &outcome.error);
    assert_true(model_is(&m, m.step));
    return m.step;
}

/* These two are there, and no others. */
static void assert_kept(const char *directory, int64_t first, int64_t second)
{
    char name[64];
    assert_int_equal(test_count_files(directory, ".index"), KEPT);
    for (int i = 0; i < KEPT; i++) {
        snprintf(name, sizeof name, "model.ckpt-%lld.index", (long long)(i ? second : first));
        assert_true(test_exists(directory, name));
    }
}

/* The directory's state file has names without directories. */
static void assert_names_alone(const char *directory)
{
    char *text = test_read_file(test_path(directory, "checkpoint"), NULL);
    assert_non_null(text);
    assert_contains(text, "\"model.ckpt-");
    assert_lacks(text, "/");
    free(text);
}

static ino_t file_number(const char *directory, const char *name)
{
    struct stat found;
    assert_int_equal(stat(test_path(directory, name), &found), 0);
    return found.st_ino;
}

/* The directory has steps 2 and 3. Restarts under this name of it: first without training, then with two steps. */
static void assert_resumes(fixture *f, const char *directory, const char *by_name)
{
    ino_t before = file_number(directory, "model.ckpt-3.index");
    assert_int_equal(train_in(f, by_name, 0), 3);
    assert_true(file_number(directory, "model.ckpt-3.index") == before); /* just restored: not written again */
    assert_int_equal(train_in(f, by_name, 2), 5);
    assert_kept(directory, 4, 5);
    assert_names_alone(directory);
    assert_lacks(f->t.log, "WARNING");
}

/* Spellings, with the directory as the working directory. */

static void train_inside(fixture *f, const char *directory, const char *spelling)
{
    char before[1024], inside[1024];
    snprintf(inside, sizeof inside, "%s", directory);
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(f->directory), 0);
    assert_int_equal(train_in(f, spelling, 3), 3);
    assert_kept(inside, 2, 3);
    assert_names_alone(inside);
    assert_resumes(f, inside, spelling);
    assert_int_equal(chdir(before), 0);
}

static void the_working_directory(void **state)
{
    fixture *f = *state;
    train_inside(f, f->directory, ".");
}

static void the_working_directory_with_a_slash(void **state)
{
    fixture *f = *state;
    train_inside(f, f->directory, "./");
}

static void below_the_working_directory(void **state)
{
    fixture *f = *state;
    train_inside(f, test_path(f->directory, "x"), "x");
}

static void below_the_working_directory_with_a_dot(void **state)
{
    fixture *f = *state;
    train_inside(f, test_path(f->directory, "x"), "./x");
}

static void slashes_at_the_end(void **state)
{
    fixture *f = *state;
    train_inside(f, test_path(f->directory, "x"), "x/");
    train_inside(f, test_path(f->directory, "y"), "./y//");
}

/* Absolute paths in the state file, as TensorFlow may write them. */

static void write_absolute_paths(const char *directory, const char *said)
{
    char text[4096];
    snprintf(text, sizeof text,
             "model_checkpoint_path: \"%s/model.ckpt-3\"\nall_model_checkpoint_paths: \"%s/model.ckpt-2\"\n"
             "all_model_checkpoint_paths: \"%s/model.ckpt-3\"\n",
             said, said, said);
    test_write_file(test_path(directory, "checkpoint"), text, strlen(text));
}

static void absolute_paths_of_the_directory(void **state)
{
    fixture *f = *state;
    train_in(f, f->directory, 3);
    write_absolute_paths(f->directory, f->directory);
    assert_resumes(f, f->directory, f->directory);
}

static void absolute_paths_in_another_spelling(void **state)
{
    fixture *f = *state;
    char roundabout[1024];
    train_in(f, f->directory, 3);
    snprintf(roundabout, sizeof roundabout, "%s/../%s", f->directory, strrchr(f->directory, '/') + 1);
    write_absolute_paths(f->directory, roundabout);
    assert_resumes(f, f->directory, f->directory);
}

static void absolute_paths_through_a_link(void **state)
{
    fixture *f = *state;
    char link[1024];
    train_in(f, f->directory, 3);
    snprintf(link, sizeof link, "%s-link", f->directory);
    assert_int_equal(symlink(f->directory, link), 0);
    write_absolute_paths(f->directory, link);
    assert_resumes(f, f->directory, f->directory);
    assert_int_equal(unlink(link), 0);
}

static void a_directory_that_is_given_as_a_link(void **state)
{
    fixture *f = *state;
    char link[1024];
    train_in(f, f->directory, 3);
    snprintf(link, sizeof link, "%s-link", f->directory);
    assert_int_equal(symlink(f->directory, link), 0);
    assert_resumes(f, f->directory, link);
    assert_int_equal(unlink(link), 0);
}

static void a_directory_that_was_moved(void **state)
{
    fixture *f = *state;
    char moved[1024];
    train_in(f, f->directory, 3);
    write_absolute_paths(f->directory, f->directory);
    snprintf(moved, sizeof moved, "%s-moved", f->directory);
    assert_int_equal(rename(f->directory, moved), 0);
    free(f->directory);
    f->directory = strdup(moved);
    assert_resumes(f, f->directory, f->directory);
}

static void copy_files(const char *from, const char *to)
{
    DIR *directory = opendir(from);
    struct dirent *entry;
    assert_non_null(directory);
    assert_int_equal(mkdir(to, 0700), 0);
    while ((entry = readdir(directory))) {
        size_t bytes;
        if (entry->d_name[0] == '.')
            continue;
        char *data = test_read_file(test_path(from, entry->d_name), &bytes);
        test_write_file(test_path(to, entry->d_name), data, bytes);
        free(data);
    }
    closedir(directory);
}

/* The original directory is not read, written or deleted. */
static void a_directory_that_was_copied(void **state)
{
    fixture *f = *state;
    char copy[1024];
    train_in(f, f->directory, 3);
    write_absolute_paths(f->directory, f->directory);
    snprintf(copy, sizeof copy, "%s-copy", f->directory);
    copy_files(f->directory, copy);
    flip_bit(file_of(f, 3, DATA), 5);
    size_t files = test_count_files(f->directory, "");
    assert_resumes(f, copy, copy);
    assert_kept(f->directory, 2, 3);
    assert_int_equal(test_count_files(f->directory, ""), files);
    test_remove_directory(strdup(copy));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_fixture(the_working_directory),
        with_fixture(the_working_directory_with_a_slash),
        with_fixture(below_the_working_directory),
        with_fixture(below_the_working_directory_with_a_dot),
        with_fixture(slashes_at_the_end),
        with_fixture(absolute_paths_of_the_directory),
        with_fixture(absolute_paths_in_another_spelling),
        with_fixture(absolute_paths_through_a_link),
        with_fixture(a_directory_that_is_given_as_a_link),
        with_fixture(a_directory_that_was_moved),
        with_fixture(a_directory_that_was_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
