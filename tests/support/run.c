/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the tests of a program. A test that hangs is named and ends the program. A skipped test has a reason. Tests can run
 * under a locale with a decimal comma. */
#include "support/test.h"

#include <locale.h>
#include <signal.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { LIMIT_SECS = 240 };
#else
enum { LIMIT_SECS = 60 };
#endif

/* The locale "comma". */

static char locales[] = "/tmp/hooksess-locales-XXXXXX";
static bool has_locales;

/* glibc's localedef makes it, without other files of the system. */
static bool make_comma(void)
{
    static const char script[] = "mkdir comma; exec >comma/log 2>&1; cat >comma/map <<'END'\n"
                                 "<code_set_name> ASCII\n<escape_char> /\n<mb_cur_max> 1\n"
                                 "CHARMAP\n<U0000>..<U007F> /x00 NULL\nEND CHARMAP\nEND\n"
                                 "cat >comma/source <<'END'\nescape_char /\n"
                                 "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \".\"\ngrouping 3;3\nEND LC_NUMERIC\nEND\n"
                                 "localedef -c -f ./comma/map -i ./comma/source --no-archive ./comma\n";
    has_locales = mkdtemp(locales) != NULL;
    FILE *shell = has_locales ? popen("sh", "w") : NULL;
    if (!shell)
        return false;
    fprintf(shell, "cd '%s' || exit\n%s", locales, script);
    pclose(shell); /* localedef warns that the locale lacks other categories */
    return setenv("LOCPATH", locales, 1) == 0;
}

static void remove_locales(void)
{
    char command[sizeof locales + 16];
    snprintf(command, sizeof command, "rm -rf '%s'", locales);
    if (has_locales && system(command) != 0)
        print_error("cannot remove %s\n", locales);
    has_locales = false;
}

bool test_use_comma(void)
{
    char shown[16];
    if ((!has_locales && !make_comma()) || !setlocale(LC_ALL, "comma"))
        return false;
    snprintf(shown, sizeof shown, "%g", 0.5);
    return strcmp(shown, "0,5") == 0;
}

/* Running. */

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
    if (getenv("HOOKSESS_TEST_COMMA") && !test_use_comma())
        return -1;
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
    remove_locales();
    free(limited);
    return failed;
}

void test_skip(const char *why)
{
    print_message("skipped: %s: %s\n", running, why);
    _skip(__FILE__, __LINE__);
}
