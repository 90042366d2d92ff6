/* SPDX-License-Identifier: Apache-2.0 */
/* A test that hangs is named in the output. */
#include "support/test.h"

#include <sys/wait.h>
#include <unistd.h>

static void this_one_ends(void **state)
{
    (void)state;
}

static void this_one_hangs(void **state)
{
    (void)state;
    for (;;)
        pause();
}

static void a_test_that_hangs_is_named_and_fails(void **state)
{
    (void)state;
    const struct CMUnitTest tests[] = {cmocka_unit_test(this_one_ends), cmocka_unit_test(this_one_hangs)};
    int output[2], status;
    assert_int_equal(pipe(output), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(output[1], STDOUT_FILENO);
        dup2(output[1], STDERR_FILENO);
        setenv("HOOKSESS_TEST_SECS", "1", 1);
        _exit(cmocka_run_group_tests(tests, NULL, NULL) == 0 ? 0 : 3);
    }
    close(output[1]);
    char text[4096] = "";
    size_t used = 0;
    for (ssize_t got; (got = read(output[0], text + used, sizeof text - 1 - used)) > 0;)
        used += (size_t)got;
    close(output[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_contains(text, "[       OK ] this_one_ends");
    assert_contains(text, "this_one_hangs did not end in time");
    assert_lacks(text, "this_one_ends did not end");
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_test_that_hangs_is_named_and_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
