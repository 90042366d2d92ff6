/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_SUPPORT_TEST_H
#define HS_TESTS_SUPPORT_TEST_H

/* Every test program includes this header: cmocka with its prerequisites, assertions, and an environment that can fail. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <hooksess/hooksess.h>

/* As cmocka's. A test that takes longer than HOOKSESS_TEST_SECS (an environment variable. Default: 60, with sanitizers
 * 240. 0: no limit) is named and ends the program with the status 1. If HOOKSESS_TEST_COMMA is set, each test begins under
 * the locale of test_use_comma. */
#undef cmocka_run_group_tests
#define cmocka_run_group_tests(tests, setup, teardown)                                                                     \
    test_run_group(#tests, tests, sizeof(tests) / sizeof *(tests), setup, teardown)
int test_run_group(const char *name, const struct CMUnitTest *tests, size_t n, CMFixtureFunction setup,
                   CMFixtureFunction teardown);
/* Replaces cmocka's skip(), which has no reason. tests/report.py lists the reason. */
#undef skip
void test_skip(const char *why);

/* Sets the locale of the program to one with a decimal comma, and points between thousands. False: the system lacks
 * localedef. Set it back with setlocale(LC_ALL, "C"). */
bool test_use_comma(void);

/* If `call` calls a public function with `argument`, sets a stale error there and returns true. */
static inline bool test_make_stale(const char *call, const char *argument, hs_error *err)
{
    bool clears = strncmp(call, "hs_", 3) == 0 && call[3] != '_' && strstr(call, argument) && !strstr(call, "ops->");
    if (clears)
        hs_error_set(err, HS_UNKNOWN, "stale");
    return clears;
}

static inline bool test_is_clear(const hs_error *err)
{
    return err->code == HS_OK && !err->message[0];
}

/* Asserts that the call succeeds, and shows its message if not. Sets a stale error before the call of a public function,
 * which must clear it. */
#define assert_ok(code, err)                                                                                               \
    do {                                                                                                                   \
        bool clears_ = test_make_stale(#code, #err, (hs_error *)(err));                                                    \
        hs_code code_ = (code);                                                                                            \
        if (code_ != HS_OK)                                                                                                \
            fail_msg("%s: %s: %s", #code, hs_code_name(code_), (err)->message);                                            \
        if (clears_ && !test_is_clear(err))                                                                                \
            fail_msg("%s: HS_OK, but the error is not cleared: %s", #code, (err)->message);                                \
    } while (0)
/* Returns an error with this code and message, valid until the next call. */
static inline const hs_error *test_error(hs_code code, const char *message)
{
    static hs_error error;
    hs_error_set(&error, code, "%s", message);
    return &error;
}
/* Returns the first error of building a graph, valid until the next call. */
static inline const hs_error *test_graph_error(const hs_graph *graph)
{
    static hs_error error;
    hs_graph_error(graph, &error);
    return &error;
}
/* Asserts that a call clears a stale error. For functions that do not return a code. */
#define assert_clears(err, call)                                                                                           \
    do {                                                                                                                   \
        hs_error_set(err, HS_UNKNOWN, "stale");                                                                            \
        call;                                                                                                              \
        if (!test_is_clear(err))                                                                                           \
            fail_msg("%s: %s: %s", #call, hs_code_name((err)->code), (err)->message);                                      \
    } while (0)
/* Asserts that the call fails with this code and a message that contains the text. */
#define assert_fails(code, expected, err, text)                                                                            \
    do {                                                                                                                   \
        hs_code code_ = (code);                                                                                            \
        if (code_ != (expected))                                                                                           \
            fail_msg("%s: %s instead of %s: %s", #code, hs_code_name(code_), hs_code_name(expected), (err)->message);      \
        assert_says(err, expected, text);                                                                                  \
    } while (0)

/* Asserts that the error has this code and a message that contains the text. */
#define assert_says(err, expected, text)                                                                                   \
    do {                                                                                                                   \
        if ((err)->code != (expected) || !strstr((err)->message, text))                                                    \
            fail_msg("%s is not in the error: %s: %s", text, hs_code_name((err)->code), (err)->message);                   \
    } while (0)

#define assert_contains(text, part)                                                                                        \
    do {                                                                                                                   \
        if (!strstr(text, part))                                                                                           \
            fail_msg("'%s' is not in '%s'", part, text);                                                                   \
    } while (0)

#define assert_lacks(text, part)                                                                                           \
    do {                                                                                                                   \
        if (strstr(text, part))                                                                                            \
            fail_msg("'%s' is in '%s'", part, text);                                                                       \
    } while (0)

/* Ends the program if the text is not one line without control characters. For loggers, which any thread may call. */
static inline void test_check_line(const char *text)
{
    for (const unsigned char *at = (const unsigned char *)text; *at; at++)
        if (*at < ' ' || *at == 0x7f || (*at == 0xc2 && at[1] < 0xa0)) {
            fprintf(stderr, "a text has a control character at byte %td: %s\n", at - (const unsigned char *)text, text);
            abort();
        }
}

/* Calls of the file system: a change; the open or a read of a file that is only read; its close. */
typedef enum { TEST_CHANGES, TEST_READS, TEST_CLOSES_READ } test_call;

/* An environment that counts calls, fails at a chosen call and records the log. Only test_env_advance moves its clock. */
typedef struct test_env {
    hs_env env;
    int64_t now_ns;
    size_t allocations;   /* the number of requested allocations */
    size_t live;          /* the number of blocks that are not freed */
    size_t fail_alloc_at; /* this one fails, counted from 1. 0: none */
    size_t open_files;    /* the number of files that are not closed */
    size_t file_calls;    /* calls of the file system that can fail */
    size_t fail_file_at;  /* this one fails, counted from 1, and all later ones if fail_file_on. 0: none */
    int fail_file_errno;
    bool fail_file_on;
    hs_code fail_file_code; /* the code of the failure, without an errno. HS_OK: that of fail_file_errno */
    test_call failed_call;  /* the kind of the failed call */
    uint64_t changes;       /* a hash of all writes, renames and removals, independent of their order */
    const char *tolerated[8];
    size_t n_tolerated;
    bool tolerates_harmless;
    char log[1 << 16]; /* "LEVEL: text\n" ... */
    size_t log_used;
} test_env;

void test_env_init(test_env *t);
void test_env_advance(test_env *t, double secs);
void test_env_clear_log(test_env *t);
/* Returns the number of allocated blocks. Threads may free blocks at the same time. */
size_t test_env_live(test_env *t);
/* Returns true if the log contains the text. Threads may write to the log at the same time. */
bool test_env_logged(test_env *t, const char *part);

/* Hooks that the scenario makes get their memory from its environment.
 *
 * Runs the scenario without a failure, and then with a failure of the 1st, 2nd, ... allocation, until the scenario makes
 * fewer allocations. If an allocation failed, the scenario must return HS_RESOURCE_EXHAUSTED, unless it tolerates the
 * failure (test_tolerate). It must free and close everything. */
typedef hs_code (*test_scenario)(test_env *t, void *user);
void test_each_allocation(test_scenario scenario, void *user);
/* The same with a failure of the 1st, 2nd, ... call of the file system with `os_error`, alone or with all later calls.
 * The scenario must return the code of that error, unless it tolerates the failure, or the failure is the close of a
 * file that was only read. `after` (may be NULL) checks the remaining files. */
void test_each_file_call(test_scenario scenario, void (*after)(void *user), int os_error, bool and_all_after, void *user);

/* For scenarios. If a failure is logged in a line that contains `line`, the scenario need not return it. */
void test_tolerate(test_env *t, const char *line);
/* For scenarios. If an allocation or a read fails, and the scenario writes, renames and removes the same as without the
 * failure, and logs the same number of lines, the scenario need not return it. */
void test_tolerate_harmless(test_env *t);

/* Runs the function in a forked child. Returns its result, from 0 to 255; or minus the number of the signal that ended the
 * child, which is SIGALRM if the function does not return in 50 s. */
int test_in_child(int (*body)(void *user), void *user);

/* Creates an empty directory. Remove it and its contents with test_remove_directory. */
char *test_make_directory(void);
void test_remove_directory(char *path);
/* Removes the contents of the directory. */
void test_empty_directory(const char *path);
/* Returns "DIRECTORY/NAME", in one of a few static buffers. */
const char *test_path(const char *directory, const char *name);
bool test_exists(const char *directory, const char *name);
/* Returns the contents of a file, followed by a zero byte. The caller frees them. NULL if the file does not exist. */
char *test_read_file(const char *path, size_t *bytes);
/* Returns a list of these hooks, at most 15, valid until the next call. */
const hs_hook *test_hooks(const hs_hook *hooks, size_t n);
void test_write_file(const char *path, const void *data, size_t bytes);
/* Returns a copy of the bytes, valid until the next call. A read behind its end ends the program, in each build. */
const void *test_before_guard(const void *bytes, size_t n);
/* Returns the number of items in a collection of a backend. */
static inline size_t test_collection_size(hs_backend backend, const char *key)
{
    size_t n = 0;
    while (hs_backend_collection_item(backend, key, n, NULL))
        n++;
    return n;
}
/* Returns the number of names in the directory that contain this text. */
size_t test_count_files(const char *directory, const char *part);

#endif
