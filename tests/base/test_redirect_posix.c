/* SPDX-License-Identifier: Apache-2.0 */
/* Redirected directories. A redirection cannot be undone, so each test uses its own directory. */
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

static void a_directory_and_its_contents_are_redirected(void **state)
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

static void relative_paths_are_redirected(void **state)
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

static void a_link_and_its_target_are_redirected(void **state)
{
    (void)state;
    assert_int_equal(symlink("run", in("link")), 0);
    assert_int_equal(hs__redirect_files(in("link"), in("trial/run"), in("trial"), &err), HS_OK);
    assert_leads_to(in("link/a"), in("trial/run/a"));
    assert_leads_to(in("run/a"), in("trial/run/a"));
}

static void exceptions_are_not_redirected(void **state)
{
    (void)state;
    assert_int_equal(hs__redirect_files(directory, in("trial/run"), in("trial"), &err), HS_OK);
    assert_leads_to(in("trial/run/a"), in("trial/run/a"));
    assert_leads_to(in("a"), in("trial/run/a"));
}

static void paths_that_become_too_long_fail(void **state)
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
static void each_call_is_redirected(void **state)
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
    assert_int_equal(rmdir(in("run")), 0); /* it is empty */
}

#define test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(a_directory_and_its_contents_are_redirected),
        test(relative_paths_are_redirected),
        test(a_link_and_its_target_are_redirected),
        test(exceptions_are_not_redirected),
        test(paths_that_become_too_long_fail),
        test(each_call_is_redirected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
