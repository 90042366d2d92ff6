/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "base/env.h"
#include "base/text.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

static test_env t;

static int set_up(void **state)
{
    (void)state;
    test_env_init(&t);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return t.live ? -1 : 0;
}

/* The parts of an environment. */

static void null_is_the_system(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_env taken;
    assert_ok(hs__env_copy(&taken, NULL, &err), &err);
    assert_memory_equal(&taken, hs_env_default(), sizeof taken);
}

static void the_default_is_complete(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_env taken;
    assert_ok(hs__env_copy(&taken, hs_env_default(), &err), &err);
    assert_non_null(taken.allocator.alloc);
    assert_non_null(taken.clock.monotonic_ns);
    assert_non_null(taken.logger.write);
    assert_int_equal(taken.files.ops->size, sizeof(hs_file_system_ops));
}

static void missing_parts_are_the_system(void **state)
{
    (void)state;
    hs_error err = {0};
    const hs_env *system = hs_env_default();
    hs_env taken, given = HS_INIT(hs_env, .clock = t.env.clock);
    assert_ok(hs__env_copy(&taken, &given, &err), &err);
    assert_ptr_equal(taken.clock.user, &t);
    assert_memory_equal(&taken.allocator, &system->allocator, sizeof taken.allocator);
    assert_memory_equal(&taken.logger, &system->logger, sizeof taken.logger);
    assert_memory_equal(&taken.files, &system->files, sizeof taken.files);
}

static void a_half_filled_allocator_is_refused(void **state)
{
    (void)state;
    for (unsigned set = 1; set < 7; set++) { /* each proper subset of the three */
        hs_error err = {0};
        hs_env taken, given = HS_INIT(hs_env, .allocator = t.env.allocator);
        if (!(set & 1))
            given.allocator.alloc = NULL;
        if (!(set & 2))
            given.allocator.realloc = NULL;
        if (!(set & 4))
            given.allocator.free = NULL;
        assert_fails(hs__env_copy(&taken, &given, &err), HS_INVALID_ARGUMENT, &err, "allocator");
    }
}

static void a_half_filled_clock_is_refused(void **state)
{
    (void)state;
    for (unsigned set = 1; set < 7; set++) {
        hs_error err = {0};
        hs_env taken, given = HS_INIT(hs_env, .clock = t.env.clock);
        if (!(set & 1))
            given.clock.monotonic_ns = NULL;
        if (!(set & 2))
            given.clock.realtime_ns = NULL;
        if (!(set & 4))
            given.clock.sleep_ns = NULL;
        assert_fails(hs__env_copy(&taken, &given, &err), HS_INVALID_ARGUMENT, &err, "clock");
    }
}

static void a_file_system_that_lacks_a_function_is_refused(void **state)
{
    (void)state;
    typedef void (*function)(void);
    static const char *const names[] = {"open",   "read",           "write",          "sync", "close", "rename",
                                        "remove", "sync_directory", "make_directory", "stat", "list"};
    size_t n = 0;
    for (size_t at = offsetof(hs_file_system_ops, open); at < offsetof(hs_file_system_ops, lock); at += sizeof(function)) {
        hs_error err = {0};
        char message[64];
        hs_file_system_ops ops = *t.env.files.ops;
        function none = NULL;
        memcpy((char *)&ops + at, &none, sizeof none);
        hs_env taken, given = HS_INIT(hs_env, .files = {&ops, &t});
        snprintf(message, sizeof message, "hs_env.files.ops->%s is NULL", names[n++]);
        assert_fails(hs__env_copy(&taken, &given, &err), HS_INVALID_ARGUMENT, &err, message);
    }
    assert_int_equal(n, sizeof names / sizeof *names);
}

static void forgotten_macros_are_named(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_file_system_ops ops = *t.env.files.ops;
    ops.size = 0;
    hs_env taken, given = HS_INIT(hs_env, .files = {&ops, &t});
    assert_fails(hs__env_copy(&taken, &given, &err), HS_INVALID_ARGUMENT, &err, "HS_INIT(hs_file_system_ops");
    given.size = 0;
    assert_fails(hs__env_copy(&taken, &given, &err), HS_INVALID_ARGUMENT, &err, "HS_INIT(hs_env");
}

static void a_refused_environment_changes_nothing(void **state)
{
    (void)state;
    hs_env taken, before, given = HS_INIT(hs_env, .clock = t.env.clock);
    given.clock.sleep_ns = NULL;
    memset(&taken, 0x55, sizeof taken);
    before = taken;
    assert_int_equal(hs__env_copy(&taken, &given, NULL), HS_INVALID_ARGUMENT);
    assert_memory_equal(&taken, &before, sizeof taken);
}

/* Memory. */

static void *dirty_alloc(void *user, size_t bytes)
{
    void *block = t.env.allocator.alloc(user, bytes);
    if (block)
        memset(block, 0xff, bytes);
    return block;
}

static void memory_is_zeroed(void **state)
{
    (void)state;
    hs_env env = t.env;
    env.allocator.alloc = dirty_alloc;
    const char zeros[100] = {0};
    char *a = hs__alloc(&env, 25, 4), *b = hs_env_alloc(&env, 100);
    assert_memory_equal(a, zeros, 100);
    assert_memory_equal(b, zeros, 100);
    hs__free(&env, a);
    hs_env_free(&env, b);
}

static void overflowing_sizes_return_null(void **state)
{
    (void)state;
    assert_null(hs__alloc(&t.env, SIZE_MAX / 2, 3));
    assert_null(hs__realloc(&t.env, NULL, SIZE_MAX / 2, 3));
    assert_null(hs__strndup(&t.env, "x", SIZE_MAX));
    assert_int_equal(t.allocations, 0);
}

static void zero_bytes_are_a_separate_block(void **state)
{
    (void)state;
    void *a = hs__alloc(&t.env, 0, 8), *b = hs__realloc(&t.env, NULL, 0, 8), *c = hs_env_alloc(&t.env, 0);
    assert_non_null(a);
    assert_non_null(b);
    assert_non_null(c);
    hs__free(&t.env, a);
    hs__free(&t.env, b);
    hs_env_free(&t.env, c);
    hs_env_free(&t.env, NULL);
}

static void without_an_allocator_memory_is_the_system(void **state)
{
    (void)state;
    hs_env only_a_clock = HS_INIT(hs_env, .clock = t.env.clock);
    char *a = hs_env_alloc(NULL, 3), *b = hs_env_alloc(&only_a_clock, 3);
    assert_int_equal(a[0] + a[1] + a[2] + b[0] + b[1] + b[2], 0);
    hs_env_free(&only_a_clock, a);
    hs_env_free(NULL, b);
    assert_int_equal(t.allocations, 0);
}

static void strings_are_copied(void **state)
{
    (void)state;
    char *a = hs__strdup(&t.env, "copy"), *b = hs__strndup(&t.env, "abcdef", 3), *c = hs__strdup(&t.env, "");
    assert_string_equal(a, "copy");
    assert_string_equal(b, "abc");
    assert_string_equal(c, "");
    hs__free(&t.env, a);
    hs__free(&t.env, b);
    hs__free(&t.env, c);
}

static void formatted_text_has_any_length(void **state)
{
    (void)state;
    char *text = hs__format(&t.env, "%s%05000d%s", "<", 7, ">");
    assert_int_equal(strlen(text), 5002);
    assert_string_equal(text + 4999, "07>");
    hs__free(&t.env, text);
    t.fail_alloc_at = t.allocations + 1;
    assert_null(hs__format(&t.env, "x"));
}

static void lists_grow_and_keep_their_elements(void **state)
{
    (void)state;
    hs_error err = {0};
    int *items = NULL;
    size_t capacity = 0;
    for (int i = 0; i < 1000; i++) {
        assert_ok(hs__reserve(&t.env, &items, &capacity, (size_t)i + 1, sizeof *items, &err), &err);
        items[i] = i;
    }
    assert_true(t.allocations < 12); /* the size doubles */
    for (int i = 0; i < 1000; i++)
        assert_int_equal(items[i], i);
    hs__free(&t.env, items);
}

static void a_list_that_cannot_grow_is_unchanged(void **state)
{
    (void)state;
    hs_error err = {0};
    int *items = NULL;
    size_t capacity = 0;
    assert_ok(hs__reserve(&t.env, &items, &capacity, 1, sizeof *items, &err), &err);
    int *before = items;
    size_t room = capacity;
    t.fail_alloc_at = t.allocations + 1;
    assert_fails(hs__reserve(&t.env, &items, &capacity, room + 1, sizeof *items, &err), HS_RESOURCE_EXHAUSTED, &err, "");
    assert_fails(hs__reserve(&t.env, &items, &capacity, SIZE_MAX, sizeof *items, &err), HS_RESOURCE_EXHAUSTED, &err, "");
    assert_ptr_equal(items, before);
    assert_int_equal(capacity, room);
    hs__free(&t.env, items);
}

static void names_are_copied_into_one_block(void **state)
{
    (void)state;
    char loss[] = "loss";
    const char *const names[] = {loss, "", "accuracy", NULL};
    const char *const *copy = hs__names_copy(&t.env, names);
    memset(loss, 'x', 4);
    assert_int_equal(hs__names_count(copy), 3);
    assert_string_equal(copy[0], "loss");
    assert_string_equal(copy[1], "");
    assert_string_equal(copy[2], "accuracy");
    assert_int_equal(t.live, 1);
    hs__free(&t.env, (void *)copy);
}

static void no_names_are_an_empty_list(void **state)
{
    (void)state;
    assert_int_equal(hs__names_count(NULL), 0);
    const char *const *copy = hs__names_copy(&t.env, NULL);
    assert_non_null(copy);
    assert_null(copy[0]);
    hs__free(&t.env, (void *)copy);
    t.fail_alloc_at = t.allocations + 1;
    assert_null(hs__names_copy(&t.env, HS_NAMES("a")));
}

/* Time. */

static void time_comes_from_the_clock(void **state)
{
    (void)state;
    hs_env only_memory = HS_INIT(hs_env, .allocator = t.env.allocator);
    assert_int_equal(hs_env_monotonic_ns(&t.env), t.now_ns);
    hs_env_sleep_ns(&t.env, 250);
    assert_int_equal(hs_env_realtime_ns(&t.env), t.now_ns);
    assert_int_equal(t.now_ns, 1700000000000000250);
    assert_true(hs_env_monotonic_ns(&only_memory) != t.now_ns);
}

static int64_t system_realtime_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void the_default_clock_is_the_system(void **state)
{
    (void)state;
    int64_t before = system_realtime_ns(), found = hs_env_realtime_ns(NULL), after = system_realtime_ns();
    assert_true(before <= found && found <= after);
    int64_t start = hs_env_monotonic_ns(NULL);
    hs_env_sleep_ns(NULL, 1000);
    hs_env_sleep_ns(NULL, 0);
    hs_env_sleep_ns(NULL, -5);
    assert_true(hs_env_monotonic_ns(NULL) - start >= 1000);
}

/* The log. */

static void log_lines_go_to_the_logger(void **state)
{
    (void)state;
    hs_log(&t.env, HS_LOG_DEBUG, "step %d", 3);
    hs_log(&t.env, HS_LOG_ERROR, "%s", "a % sign");
    assert_string_equal(t.log, "DEBUG: step 3\nERROR: a % sign\n");
}

static void a_log_line_without_a_text_is_empty(void **state)
{
    (void)state;
    const char *none = NULL;
    hs_log(&t.env, HS_LOG_ERROR, none, 0);
    assert_string_equal(t.log, "ERROR: \n");
}

static void long_log_lines_are_whole(void **state)
{
    (void)state;
    hs_log(&t.env, HS_LOG_INFO, "%05000d", 1);
    assert_int_equal(strlen(t.log), strlen("INFO: \n") + 5000);
    assert_string_equal(t.log + strlen(t.log) - 4, "001\n");
}

static void without_memory_long_log_lines_are_truncated_with_dots(void **state)
{
    (void)state;
    t.fail_alloc_at = t.allocations + 1;
    hs_log(&t.env, HS_LOG_INFO, "%05000d", 1);
    size_t length = strlen(t.log);
    assert_true(length > 2000 && length < 5000);
    assert_string_equal(t.log + length - 5, "0...\n");
}

static void control_characters_are_escaped(void **state)
{
    (void)state;
    hs_log(&t.env, HS_LOG_INFO, "%s", "a\nb\rc\td\x1b[2Je\x01\x7f\\n");
    assert_string_equal(t.log, "INFO: a\\x0ab\\x0dc\\x09d\\x1b[2Je\\x01\\x7f\\n\n");
}

static void characters_of_any_alphabet_are_kept(void **state)
{
    (void)state;
    hs_log(&t.env, HS_LOG_INFO, "%s", "gr\u00f6\u00dfer \u6f22\u5b57 \U0001f600");
    assert_string_equal(t.log, "INFO: gr\u00f6\u00dfer \u6f22\u5b57 \U0001f600\n");
}

/* Includes U+009B and U+2028, which begin a command or end a line in some terminals and editors. */
static void characters_that_are_not_printable_are_escaped(void **state)
{
    (void)state;
    hs_log(&t.env, HS_LOG_INFO, "%s", "\xff|\xc3|\xe6\xbc|\xed\xa0\x80|\xc2\x9b|\xe2\x80\xa8");
    assert_string_equal(t.log, "INFO: \\xff|\\xc3|\\xe6\\xbc|\\xed\\xa0\\x80|\\xc2\\x9b|\\xe2\\x80\\xa8\n");
    test_env_clear_log(&t);
    hs_log(&t.env, HS_LOG_INFO, "%s", "\xf0\x8f\xbf\xbf|\xf4\x90\x80\x80");
    assert_string_equal(t.log, "INFO: \\xf0\\x8f\\xbf\\xbf|\\xf4\\x90\\x80\\x80\n");
}

static const char *line_of(char *text, size_t bytes, const char *part)
{
    text[0] = '\0';
    while (strlen(text) + strlen(part) < bytes)
        strcat(text, part);
    return text;
}

static void escaped_log_lines_of_any_length_are_whole(void **state)
{
    (void)state;
    char text[5000];
    hs_log(&t.env, HS_LOG_INFO, "%s", line_of(text, 1001, "\x1b")); /* fits only before it is escaped */
    assert_int_equal(strlen(t.log), strlen("INFO: \n") + 4 * 1000);
    test_env_clear_log(&t);
    hs_log(&t.env, HS_LOG_INFO, "%s", line_of(text, 3001, "\x1b"));
    assert_int_equal(strlen(t.log), strlen("INFO: \n") + 4 * 3000);
    assert_string_equal(t.log + strlen(t.log) - 5, "\\x1b\n");
}

/* Neither an escape nor a character is split. */
static void without_memory_lines_are_truncated_between_characters(void **state)
{
    (void)state;
    static const char *const parts[] = {"\x1b", "\u6f22", "\U0001f600"};
    char text[5000], shown[32];
    for (size_t i = 0; i < 9; i++) {
        const char *part = parts[i % 3], *fill = &"xxx"[i / 3];
        test_env_clear_log(&t);
        t.fail_alloc_at = t.allocations + 1;
        line_of(text, i % 3 ? sizeof text : 1001, part); /* the second fits only before it is escaped */
        hs_log(&t.env, HS_LOG_INFO, "%s%s", fill, text);
        snprintf(shown, sizeof shown, "%s...\n", i % 3 ? part : "\\x1b");
        assert_true(strlen(t.log) > 2000 && strlen(t.log) < 2100);
        assert_string_equal(t.log + strlen(t.log) - strlen(shown), shown);
    }
}

/* Returns what the logger writes to stderr. The caller frees it. */
static char *default_log(const hs_env *env)
{
    char *directory = test_make_directory(), path[600];
    snprintf(path, sizeof path, "%s/stderr", directory);
    fflush(stderr);
    int kept = dup(STDERR_FILENO);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    dup2(fileno(file), STDERR_FILENO);
    for (hs_log_level level = HS_LOG_DEBUG; level <= HS_LOG_ERROR; level++)
        hs_log(env, level, "level %d", (int)level);
    fflush(stderr);
    dup2(kept, STDERR_FILENO);
    close(kept);
    fclose(file);
    char *text = test_read_file(path, NULL);
    test_remove_directory(directory);
    return text;
}

static void by_default_stderr_gets_info_and_above(void **state)
{
    (void)state;
    hs_env only_memory = HS_INIT(hs_env, .allocator = t.env.allocator);
    const hs_env *const envs[] = {NULL, &only_memory};
    for (size_t i = 0; i < 2; i++) {
        char *text = default_log(envs[i]);
        assert_string_equal(text, "INFO: level 1\nWARNING: level 2\nERROR: level 3\n");
        free(text);
    }
}

typedef struct {
    void (*handler)(int);
    bool blocked; /* and pending */
} pipe_signal_state;

static int log_without_reader(void *user)
{
    void (*handler)(int) = ((pipe_signal_state *)user)->handler;
    const bool blocked = ((pipe_signal_state *)user)->blocked;
    int ends[2];
    sigset_t pipe_signal, mask, pending;
    struct sigaction action;
    sigemptyset(&pipe_signal);
    sigaddset(&pipe_signal, SIGPIPE);
    sigprocmask(blocked ? SIG_BLOCK : SIG_UNBLOCK, &pipe_signal, NULL);
    signal(SIGPIPE, handler);
    if (blocked)
        raise(SIGPIPE);
    if (pipe(ends) != 0 || dup2(ends[1], STDERR_FILENO) < 0 || close(ends[0]) != 0)
        return 2;
    for (int i = 0; i < 3; i++)
        hs_log(NULL, HS_LOG_INFO, "a line");
    sigprocmask(SIG_BLOCK, NULL, &mask);
    sigemptyset(&pending);
    sigpending(&pending);
    sigaction(SIGPIPE, NULL, &action);
    return sigismember(&mask, SIGPIPE) == blocked && sigismember(&pending, SIGPIPE) == blocked &&
                   action.sa_handler == handler
               ? 0
               : 3;
}

static void end_process(int number)
{
    (void)number;
    _exit(4);
}

static void a_log_that_is_a_closed_pipe_raises_no_signal(void **state)
{
    static void (*const handlers[])(int) = {SIG_DFL, SIG_IGN, end_process};
    (void)state;
    for (int i = 0; i < 6; i++)
        assert_int_equal(test_in_child(log_without_reader, &(pipe_signal_state){handlers[i / 2], i % 2}), 0);
}

static void numbers_of_log_lines_are_short(void **state)
{
    char text[HS__NUMBER_TEXT];
    (void)state;
    const struct {
        double secs;
        const char *says;
    } times[] = {{0, "0.000 s"},    {0.0213, "0.021 s"}, {0.1834, "0.18 s"},
                 {1.204, "1.20 s"}, {12.34, "12.3 s"},   {1234.5, "1234 s"}};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        assert_string_equal(hs__secs_text(text, times[i].secs), times[i].says);
    assert_string_equal(hs__secs_text(text, 1e300), "1e+300 s");
    const struct {
        uint64_t bytes;
        const char *says;
    } sizes[] = {
        {0, "0 bytes"}, {1023, "1023 bytes"}, {1024, "1.0 KiB"}, {1258291, "1.2 MiB"}, {UINT64_MAX, "16384.0 PiB"}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        assert_string_equal(hs__bytes_text(text, sizes[i].bytes), sizes[i].says);
    const struct {
        double rate;
        const char *says;
    } rates[] = {{0.25, "0.25"}, {85.304, "85.3"}, {999.9, "999.9"}, {123999.7, "124000"}, {1e300, "1e+300"}};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        assert_string_equal(hs__rate_text(text, rates[i].rate), rates[i].says);
}

static void a_failure_is_returned_or_logged(void **state)
{
    hs_error error, err = {0};
    (void)state;
    hs_error_set(&error, HS_INTERNAL, "it broke");
    hs__report_error(&t.env, "training failed", &error, &err);
    assert_says(&err, HS_INTERNAL, "it broke");
    assert_string_equal(t.log, "");
    hs__report_error(&t.env, "training failed", &error, NULL);
    assert_string_equal(t.log, "ERROR: training failed: it broke\n");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(null_is_the_system),
        TEST(the_default_is_complete),
        TEST(missing_parts_are_the_system),
        TEST(a_half_filled_allocator_is_refused),
        TEST(a_half_filled_clock_is_refused),
        TEST(a_file_system_that_lacks_a_function_is_refused),
        TEST(forgotten_macros_are_named),
        TEST(a_refused_environment_changes_nothing),
        TEST(memory_is_zeroed),
        TEST(overflowing_sizes_return_null),
        TEST(zero_bytes_are_a_separate_block),
        TEST(without_an_allocator_memory_is_the_system),
        TEST(strings_are_copied),
        TEST(formatted_text_has_any_length),
        TEST(lists_grow_and_keep_their_elements),
        TEST(a_list_that_cannot_grow_is_unchanged),
        TEST(names_are_copied_into_one_block),
        TEST(no_names_are_an_empty_list),
        TEST(time_comes_from_the_clock),
        TEST(the_default_clock_is_the_system),
        TEST(log_lines_go_to_the_logger),
        TEST(a_log_line_without_a_text_is_empty),
        TEST(long_log_lines_are_whole),
        TEST(without_memory_long_log_lines_are_truncated_with_dots),
        TEST(control_characters_are_escaped),
        TEST(characters_of_any_alphabet_are_kept),
        TEST(characters_that_are_not_printable_are_escaped),
        TEST(escaped_log_lines_of_any_length_are_whole),
        TEST(without_memory_lines_are_truncated_between_characters),
        TEST(by_default_stderr_gets_info_and_above),
        TEST(a_log_that_is_a_closed_pipe_raises_no_signal),
        TEST(numbers_of_log_lines_are_short),
        TEST(a_failure_is_returned_or_logged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
