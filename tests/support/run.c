/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the tests of a program. A test that hangs is named and ends the program. A skipped test has a reason. */
#include "support/test.h"

#include <signal.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { LIMIT_SECS = 240 };
#else
enum { LIMIT_SECS = 60 };
#endif

static const struct CMUnitTest *given;
static size_t n_begun;
static const char *running;
static unsigned limit_secs;

/* Calls only async-signal-safe functions. A child process inherits the handler but not the alarm. */
static void time_is_up(int signal)
{
    (void)signal;
    static const char before[] = "\n[  ERROR   ] --- ", after[] = " did not end in time\n";
    ssize_t written = write(STDERR_FILENO, before, sizeof before - 1);
    written += write(STDERR_FILENO, running, strlen(running));
    written += write(STDERR_FILENO, after, sizeof after - 1);
    _exit(written > 0 ? 1 : 2);
}

/* Setup of every test. cmocka does not report which test it runs, but runs them in their order. */
static int begin_test(void **state)
{
    const struct CMUnitTest *test = &given[n_begun++];
    running = test->name;
    alarm(limit_secs);
    return test->setup_func ? test->setup_func(state) : 0;
}

/* The shell that runs the tests may ignore signals (nohup, or & in a script), or block them. */
static void reset_signals(void)
{
    static const int signals[] = {SIGHUP, SIGINT, SIGTERM, SIGUSR1};
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        signal(signals[i], SIG_DFL);
}

int test_run_group(const char *name, const struct CMUnitTest *tests, size_t n, CMFixtureFunction setup,
                   CMFixtureFunction teardown)
{
    const char *limit = getenv("HOOKSESS_TEST_SECS");
    struct CMUnitTest *limited = malloc(n * sizeof *limited);
    assert_non_null(limited);
    for (size_t i = 0; i < n; i++) {
        limited[i] = tests[i];
        limited[i].setup_func = begin_test;
    }
    given = tests;
    n_begun = 0;
    running = name;
    limit_secs = limit ? (unsigned)strtoul(limit, NULL, 10) : LIMIT_SECS;
    reset_signals();
    signal(SIGALRM, time_is_up);
    alarm(limit_secs);
    int failed = _cmocka_run_group_tests(name, limited, n, setup, teardown);
    alarm(0);
    free(limited);
    return failed;
}

void test_skip(const char *why)
{
    print_message("skipped: %s: %s\n", running, why);
    _skip(__FILE__, __LINE__);
}
