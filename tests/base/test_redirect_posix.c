/* SPDX-License-Identifier: Apache-2.0 */
/* Directories whose files are elsewhere. A redirection cannot be undone, so each test has a directory of its own. */
#include "support/test.h"

#include "base/redirect_posix.h"

#include <sys/stat.h>
#include <unistd.h>

static const hs_file_system_ops *fs;
static char *directory;
static hs_error err;

static int set_up(void **state)
{
    (void)state;
    fs = hs_env_default()->files.ops;
    directory = test_make_directory();
    hs_error_clear(&err);
    assert_int_equal(mkdir(test_path(directory, "run"), 0777), 0);
    assert_int_equal(mkdir(test_path(directory, "trial"), 0777), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    test_remove_directory(directory);
    return 0;
}

static const char *in(const char *name)
{
    return test_path(directory, name);
}

static void redirect(void)
{
    assert_int_equal(hs__redirect_files(in("run"), in("trial/run"), in("trial"), &err), HS_OK);
}

static void assert_leads_to(const char *path, const char *expected)
{
    char buffer[PATH_MAX];
    assert_string_equal(hs__redirected(path, buffer), expected);
}

static void a_directory_and_all_in_it(void **state)
{
    (void)state;
    redirect();
    assert_leads_to(in("run"), in("trial/run"));
    assert_leads_to(in("run/a/b"), in("trial/run/a/b"));
    assert_leads_to(in("run/"), in("trial/run"));
    assert_leads_to(in("run/.//./a"), in("trial/run/a"));
    assert_leads_to(in("run2/a"), in("run2/a"));
    assert_leads_to(in("ru"), in("ru"));
    assert_leads_to(in("trial/run/a"), in("trial/run/a"));
}

static void relative_paths(void **state)
{
    char before[PATH_MAX];
    (void)state;
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(directory), 0);
    assert_int_equal(hs__redirect_files("./run", in("trial/run"), in("trial"), &err), HS_OK);
    assert_leads_to("run/a", in("trial/run/a"));
    assert_leads_to("a", "a");
    assert_int_equal(chdir("run"), 0);
    assert_leads_to("a", in("trial/run/a"));
    assert_int_equal(chdir(before), 0);
    assert_leads_to(in("run/a"), in("trial/run/a"));
}

static void a_link_and_what_it_leads_to(void **state)
{
    (void)state;
    assert_int_equal(symlink("run", in("link")), 0);
    assert_int_equal(hs__redirect_files(in("link"), in("trial/run"), in("trial"), &err), HS_OK);
    assert_leads_to(in("link/a"), in("trial/run/a"));
    assert_leads_to(in("run/a"), in("trial/run/a"));
}

static void what_is_excepted_inside(void **state)
{
    (void)state;
    assert_int_equal(hs__redirect_files(directory, in("trial/run"), in("trial"), &err), HS_OK);
    assert_leads_to(in("trial/run/a"), in("trial/run/a"));
    assert_leads_to(in("a"), in("trial/run/a"));
}

static void paths_that_become_too_long(void **state)
{
    char path[PATH_MAX], name[PATH_MAX];
    (void)state;
    redirect();
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    snprintf(path, sizeof path, "%s/%.*s", in("run"), (int)(PATH_MAX - strlen(in("run")) - 3), name);
    assert_leads_to(path, "");
    assert_int_not_equal(hs__redirect_files(path, name, in("trial"), &err), HS_OK);
}

/* Every call of the file system that takes a path. */
static void each_call(void **state)
{
    void *file, *lock = NULL;
    hs_file_stat found;
    uint64_t bytes;
    (void)state;
    redirect();
    assert_ok(fs->make_directory(NULL, in("run"), &err), &err);
    assert_true(test_exists(directory, "trial/run"));
    assert_ok(fs->open(NULL, in("run/a"), HS_OPEN_NEW, &file, &err), &err);
    assert_ok(fs->close(NULL, file, &err), &err);
    assert_ok(fs->rename(NULL, in("run/a"), in("run/b"), &err), &err);
    assert_true(test_exists(directory, "trial/run/b"));
    assert_ok(fs->stat(NULL, in("run/b"), &found, &err), &err);
    assert_ok(fs->lock(NULL, in("run/lock"), &lock, &err), &err);
    fs->unlock(NULL, lock);
    assert_true(test_exists(directory, "trial/run/lock"));
    assert_ok(fs->sync_directory(NULL, in("run"), &err), &err);
    assert_ok(fs->free_space(NULL, in("run"), &bytes, &err), &err);
    assert_ok(fs->remove(NULL, in("run/b"), &err), &err);
    assert_ok(fs->remove(NULL, in("run/lock"), &err), &err);
    assert_ok(fs->remove_directory(NULL, in("run"), &err), &err);
    assert_false(test_exists(directory, "trial/run"));
    assert_int_equal(rmdir(in("run")), 0); /* nothing is in it */
}

#define test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(a_directory_and_all_in_it),   test(relative_paths),
        test(a_link_and_what_it_leads_to), test(what_is_excepted_inside),
        test(paths_that_become_too_long),  test(each_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
