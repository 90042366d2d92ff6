/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "base/error.h"

#include <errno.h>

static void codes_have_names(void **state)
{
    (void)state;
    assert_string_equal(hs_code_name(HS_OK), "OK");
    assert_string_equal(hs_code_name(HS_CANCELLED), "CANCELLED");
    assert_string_equal(hs_code_name(HS_RESOURCE_EXHAUSTED), "RESOURCE_EXHAUSTED");
    assert_string_equal(hs_code_name(HS_OUT_OF_RANGE), "OUT_OF_RANGE");
    assert_string_equal(hs_code_name(HS_DATA_LOSS), "DATA_LOSS");
    assert_string_equal(hs_code_name(HS_UNAUTHENTICATED), "UNAUTHENTICATED");
    assert_string_equal(hs_code_name(HS_STOP), "STOP");
    assert_string_equal(hs_code_name(HS_USER), "USER");
    assert_string_equal(hs_code_name(HS_USER + 1000), "USER");
}

static void unknown_numbers_have_no_name(void **state)
{
    (void)state;
    const hs_code none[] = {-1, 17, 63, 65, 255, INT32_MIN};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_string_equal(hs_code_name(none[i]), "UNKNOWN_CODE");
}

static void each_code_has_its_own_name(void **state)
{
    (void)state;
    for (hs_code a = HS_OK; a <= HS_UNAUTHENTICATED; a++)
        for (hs_code b = HS_OK; b < a; b++)
            assert_string_not_equal(hs_code_name(a), hs_code_name(b));
}

static void each_errno_has_a_code(void **state)
{
    (void)state;
    static const struct {
        int os_error;
        hs_code code;
    } rows[] = {
        {0, HS_OK},
        {ENOENT, HS_NOT_FOUND},
        {EEXIST, HS_ALREADY_EXISTS},
        {EACCES, HS_PERMISSION_DENIED},
        {EROFS, HS_PERMISSION_DENIED},
        {ENOSPC, HS_RESOURCE_EXHAUSTED},
        {EDQUOT, HS_RESOURCE_EXHAUSTED},
        {ENOMEM, HS_RESOURCE_EXHAUSTED},
        {EMFILE, HS_RESOURCE_EXHAUSTED},
        {EISDIR, HS_FAILED_PRECONDITION},
        {ENOTDIR, HS_FAILED_PRECONDITION},
        {EINVAL, HS_INVALID_ARGUMENT},
        {ENAMETOOLONG, HS_INVALID_ARGUMENT},
        {EFBIG, HS_RESOURCE_EXHAUSTED}, /* not OUT_OF_RANGE, which means the end of the input */
        {ERANGE, HS_INVALID_ARGUMENT},
        {EXDEV, HS_UNIMPLEMENTED},
        {EAGAIN, HS_RESOURCE_EXHAUSTED}, /* pthread_create: too many threads */
        {ENOLCK, HS_RESOURCE_EXHAUSTED},
        {ETIMEDOUT, HS_DEADLINE_EXCEEDED},
        {ESTALE, HS_UNKNOWN},
        {EHOSTDOWN, HS_UNKNOWN},
        {ECANCELED, HS_CANCELLED},
        {EIO, HS_UNKNOWN},
        {ENODEV, HS_UNKNOWN}, /* not NOT_FOUND: the file may exist */
        {ENXIO, HS_UNKNOWN},
        {ESRCH, HS_UNKNOWN},
        {-5, HS_UNKNOWN},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(hs_code_from_errno(rows[i].os_error), rows[i].code);
}

/* A session recovers from these codes. It would discard an intact model because of a temporary disk error. */
static void no_errno_reports_a_lost_session(void **state)
{
    (void)state;
    for (int os_error = 1; os_error < 200; os_error++) {
        assert_int_not_equal(hs_code_from_errno(os_error), HS_ABORTED);
        assert_int_not_equal(hs_code_from_errno(os_error), HS_UNAVAILABLE);
    }
}

static void set_writes_code_and_message(void **state)
{
    (void)state;
    hs_error err = {HS_INTERNAL, 7, "something older and longer"};
    assert_int_equal(hs_error_set(&err, HS_NOT_FOUND, "%s has %d", "a", 3), HS_NOT_FOUND);
    assert_int_equal(err.code, HS_NOT_FOUND);
    assert_int_equal(err.os_error, 0);
    assert_string_equal(err.message, "a has 3");
}

static void set_passes_codes_of_the_program(void **state)
{
    (void)state;
    hs_error err = {0};
    assert_int_equal(hs_error_set(&err, HS_USER + 5, "mine"), HS_USER + 5);
    assert_int_equal(err.code, HS_USER + 5);
}

static void null_errors_are_allowed(void **state)
{
    (void)state;
    assert_int_equal(hs_error_set(NULL, HS_ABORTED, "%d", 1), HS_ABORTED);
    assert_int_equal(hs_error_set_errno(NULL, ENOENT, "%d", 1), HS_NOT_FOUND);
    hs_error_prefix(NULL, "%d", 1);
    hs_error_clear(NULL);
}

/* `n` times the letter, terminated. */
static const char *letters(char letter, size_t n)
{
    static char text[2 * HS_MESSAGE_SIZE];
    memset(text, letter, n);
    text[n] = '\0';
    return text;
}

static void long_messages_are_truncated_with_dots(void **state)
{
    (void)state;
    hs_error err;
    hs_error_set(&err, HS_INTERNAL, "%s", letters('x', HS_MESSAGE_SIZE));
    assert_int_equal(strlen(err.message), HS_MESSAGE_SIZE - 1);
    assert_string_equal(err.message + HS_MESSAGE_SIZE - 5, "x...");
}

static void a_message_that_just_fits_is_whole(void **state)
{
    (void)state;
    hs_error err;
    hs_error_set(&err, HS_INTERNAL, "%s", letters('x', HS_MESSAGE_SIZE - 1));
    assert_string_equal(err.message, letters('x', HS_MESSAGE_SIZE - 1));
}

static void messages_are_one_line(void **state)
{
    (void)state;
    hs_error err;
    hs_error_set(&err, HS_INTERNAL, "file '%s'", "a\nb\x1b[2J\xff \u6f22");
    assert_string_equal(err.message, "file 'a\\x0ab\\x1b[2J\\xff \u6f22'");
    hs_error_prefix(&err, "%s", "hook '\n'");
    assert_string_equal(err.message, "hook '\\x0a': file 'a\\x0ab\\x1b[2J\\xff \u6f22'");
}

static void an_escaped_message_is_truncated_between_characters(void **state)
{
    (void)state;
    hs_error err;
    hs_error_set(&err, HS_INTERNAL, "%s", letters('\n', HS_MESSAGE_SIZE - 1));
    assert_in_range(strlen(err.message), HS_MESSAGE_SIZE - 5, HS_MESSAGE_SIZE - 1);
    assert_string_equal(err.message + strlen(err.message) - 7, "\\x0a...");
}

/* A backend or a hook may set a message directly. */
static void a_message_of_several_lines_becomes_one_line(void **state)
{
    (void)state;
    hs_error err = {HS_INTERNAL, 7, "two\nlines"};
    assert_int_equal(hs__normalize_error(HS_ABORTED, "it", &err), HS_ABORTED);
    assert_string_equal(err.message, "two\\x0alines");
    assert_int_equal(err.code, HS_ABORTED);
    assert_int_equal(err.os_error, 7);
}

static void set_accepts_its_own_message_as_an_argument(void **state)
{
    (void)state;
    hs_error err;
    hs_error_set(&err, HS_INTERNAL, "inner");
    hs_error_set(&err, HS_ABORTED, "outer: %s, %s", err.message, err.message);
    assert_string_equal(err.message, "outer: inner, inner");
}

static void set_errno_adds_the_system_text(void **state)
{
    (void)state;
    hs_error err;
    char expected[200];
    snprintf(expected, sizeof expected, "f.txt: %s", strerror(ENOENT));
    assert_int_equal(hs_error_set_errno(&err, ENOENT, "%s", "f.txt"), HS_NOT_FOUND);
    assert_int_equal(err.os_error, ENOENT);
    assert_string_equal(err.message, expected);
}

static void set_errno_of_0_still_fails(void **state)
{
    (void)state;
    hs_error err;
    assert_int_equal(hs_error_set_errno(&err, 0, "odd"), HS_UNKNOWN);
    assert_says(&err, HS_UNKNOWN, "odd");
}

static void set_errno_accepts_its_own_message_and_truncates(void **state)
{
    (void)state;
    hs_error err;
    hs_error_set(&err, HS_INTERNAL, "%s", letters('y', HS_MESSAGE_SIZE - 10));
    hs_error_set_errno(&err, ENOSPC, "%s", err.message);
    assert_int_equal(err.code, HS_RESOURCE_EXHAUSTED);
    assert_in_range(strlen(err.message), HS_MESSAGE_SIZE - 10, HS_MESSAGE_SIZE - 1);
}

static void prefix_keeps_code_and_os_error(void **state)
{
    (void)state;
    hs_error err;
    hs_error_set_errno(&err, EACCES, "f");
    char expected[200];
    snprintf(expected, sizeof expected, "step 7: f: %s", strerror(EACCES));
    hs_error_prefix(&err, "step %d", 7);
    assert_int_equal(err.code, HS_PERMISSION_DENIED);
    assert_int_equal(err.os_error, EACCES);
    assert_string_equal(err.message, expected);
}

static void prefix_accepts_its_own_message_as_an_argument(void **state)
{
    (void)state;
    hs_error err;
    hs_error_set(&err, HS_INTERNAL, "m");
    hs_error_prefix(&err, "<%s>", err.message);
    assert_string_equal(err.message, "<m>: m");
}

static void a_long_prefix_is_truncated(void **state)
{
    (void)state;
    hs_error err;
    hs_error_set(&err, HS_INTERNAL, "m");
    hs_error_prefix(&err, "%s", letters('p', HS_MESSAGE_SIZE + 100));
    assert_int_equal(strlen(err.message), HS_MESSAGE_SIZE - 1);
    assert_string_equal(err.message + HS_MESSAGE_SIZE - 4, "...");
}

static void clear_empties_all(void **state)
{
    (void)state;
    hs_error err;
    hs_error_set_errno(&err, EIO, "f");
    hs_error_clear(&err);
    assert_int_equal(err.code, HS_OK);
    assert_int_equal(err.os_error, 0);
    assert_string_equal(err.message, "");
}

static void copy_copies_all(void **state)
{
    (void)state;
    hs_error from, to = {0};
    hs_error_set_errno(&from, ENOSPC, "disk");
    assert_int_equal(hs__error_copy(&to, &from), HS_RESOURCE_EXHAUSTED);
    assert_int_equal(to.code, from.code);
    assert_int_equal(to.os_error, ENOSPC);
    assert_string_equal(to.message, from.message);
}

static void copy_accepts_null_and_itself(void **state)
{
    (void)state;
    hs_error err;
    hs_error_set(&err, HS_ABORTED, "kept");
    assert_int_equal(hs__error_copy(&err, &err), HS_ABORTED);
    assert_string_equal(err.message, "kept");
    assert_int_equal(hs__error_copy(NULL, &err), HS_ABORTED);
    assert_int_equal(hs__error_copy(&err, NULL), HS_OK);
    assert_int_equal(err.code, HS_OK);
}

static void no_memory_names_the_purpose(void **state)
{
    (void)state;
    hs_error err;
    assert_fails(hs__no_memory(&err, 12345, "a list"), HS_RESOURCE_EXHAUSTED, &err, "a list (12345 bytes)");
    hs__no_memory(&err, 0, "a list");
    assert_string_equal(err.message, "no memory for a list");
}

/* The code that a callback returns has priority over the code in the error that it has set. */

static void normalizing_fills_an_unset_error(void **state)
{
    (void)state;
    hs_error err = {0};
    assert_int_equal(hs__normalize_error(HS_UNAVAILABLE, "opening a file", &err), HS_UNAVAILABLE);
    assert_says(&err, HS_UNAVAILABLE, "opening a file failed with UNAVAILABLE");
}

static void normalizing_sets_the_code_and_keeps_the_message(void **state)
{
    (void)state;
    hs_error err;
    hs_error_set_errno(&err, EACCES, "f");
    assert_int_equal(hs__normalize_error(HS_USER + 3, "opening a file", &err), HS_USER + 3);
    assert_int_equal(err.code, HS_USER + 3);
    assert_int_equal(err.os_error, EACCES);
    assert_int_equal(strncmp(err.message, "f: ", 3), 0);
}

static void normalizing_adds_a_missing_message(void **state)
{
    (void)state;
    hs_error err = {.code = HS_NOT_FOUND};
    hs__normalize_error(HS_NOT_FOUND, "opening a file", &err);
    assert_says(&err, HS_NOT_FOUND, "opening a file failed with NOT_FOUND");
}

/* An error with HS_OK and a message has the message of an earlier failure. */
static void normalizing_replaces_a_stale_message(void **state)
{
    (void)state;
    hs_error err = {HS_OK, 0, "something older"};
    hs__normalize_error(HS_ABORTED, "opening a file", &err);
    assert_says(&err, HS_ABORTED, "opening a file failed with ABORTED");
    assert_lacks(err.message, "something older");
}

static void normalizing_does_not_change_a_success(void **state)
{
    (void)state;
    hs_error err = {HS_ABORTED, 5, "of an earlier call"};
    assert_int_equal(hs__normalize_error(HS_OK, "opening a file", &err), HS_OK);
    assert_says(&err, HS_ABORTED, "of an earlier call");
    assert_int_equal(err.os_error, 5);
}

static void normalizing_accepts_a_null_error(void **state)
{
    (void)state;
    assert_int_equal(hs__normalize_error(HS_ABORTED, "opening a file", NULL), HS_ABORTED);
    assert_int_equal(hs__normalize_error(HS_OK, "opening a file", NULL), HS_OK);
}

/* A struct in three versions of a header. */
typedef struct {
    size_t size;
    int64_t first;
} old_options;

typedef struct {
    size_t size;
    int64_t first, second;
} options;

typedef struct {
    size_t size;
    int64_t first, second, third;
} new_options;

static hs_code copy_options(options *to, const void *from, hs_error *err)
{
    memset(to, 0x55, sizeof *to);
    return HS_STRUCT_TAKE(options, first, to, from, err);
}

static void take_copies_the_same_version(void **state)
{
    (void)state;
    hs_error err = {0};
    options to, from = {sizeof from, 1, 2};
    assert_ok(copy_options(&to, &from, &err), &err);
    assert_memory_equal(&to, &from, sizeof to);
}

static void take_fills_an_older_version_with_zeros(void **state)
{
    (void)state;
    hs_error err = {0};
    options to;
    old_options from = {sizeof from, 1};
    assert_ok(copy_options(&to, &from, &err), &err);
    assert_int_equal(to.size, sizeof to);
    assert_int_equal(to.first, 1);
    assert_int_equal(to.second, 0);
}

static void take_accepts_unset_newer_fields(void **state)
{
    (void)state;
    hs_error err = {0};
    options to;
    new_options from = {sizeof from, 1, 2, 0};
    assert_ok(copy_options(&to, &from, &err), &err);
    assert_int_equal(to.size, sizeof to);
    assert_int_equal(to.second, 2);
}

static void take_refuses_set_newer_fields(void **state)
{
    (void)state;
    hs_error err = {0};
    options to;
    new_options from = {sizeof from, 1, 2, (int64_t)1 << 56}; /* only the last byte is set */
    assert_fails(copy_options(&to, &from, &err), HS_INVALID_ARGUMENT, &err, "options");
    assert_contains(err.message, HS_VERSION_STRING);
    assert_int_equal(to.size, sizeof to); /* the known fields are filled nevertheless */
    assert_int_equal(to.first, 1);
    assert_int_equal(to.second, 2);
}

static void take_refuses_a_forgotten_macro(void **state)
{
    (void)state;
    hs_error err = {0};
    options to, from = {0, 1, 2};
    assert_fails(copy_options(&to, &from, &err), HS_INVALID_ARGUMENT, &err,
                 "options.size is 0, but must be at least 16: initialize the struct with HS_INIT(options, ...)");
}

static void take_refuses_a_size_that_no_release_had(void **state)
{
    (void)state;
    hs_error err = {0};
    options to;
    old_options from = {sizeof from - 1, 1};
    assert_fails(copy_options(&to, &from, &err), HS_INVALID_ARGUMENT, &err, "options.size is 15, but must be at least 16");
    from.size = sizeof from.size;
    assert_fails(copy_options(&to, &from, &err), HS_INVALID_ARGUMENT, &err, "options.size is 8");
}

static void take_clears_the_error(void **state)
{
    (void)state;
    hs_error err = {HS_INTERNAL, 1, "old"};
    options to, from = {sizeof from, 1, 2};
    assert_ok(copy_options(&to, &from, &err), &err);
    assert_int_equal(err.code, HS_OK);
    assert_string_equal(err.message, "");
}

static void null_arguments_are_refused(void **state)
{
    (void)state;
    hs_error err = {0};
    options to, from = {sizeof from, 1, 2};
    const char *none = NULL;
    assert_fails(copy_options(&to, NULL, &err), HS_INVALID_ARGUMENT, &err, "options is NULL");
    assert_fails(hs_struct_take(NULL, sizeof to, &from, sizeof from, "options", &err), HS_INVALID_ARGUMENT, &err,
                 "options");
    assert_int_equal(hs_error_set(&err, HS_ABORTED, none, 0), HS_ABORTED);
    assert_says(&err, HS_ABORTED, "");
    assert_int_equal(hs_error_set_errno(&err, ENOENT, none, 0), HS_NOT_FOUND);
    assert_contains(err.message, strerror(ENOENT));
    hs_error_prefix(&err, none, 0);
    assert_says(&err, HS_NOT_FOUND, strerror(ENOENT));
}

static void versions_agree(void **state)
{
    (void)state;
    char text[40];
    snprintf(text, sizeof text, "%d.%d.%d", HS_VERSION_MAJOR, HS_VERSION_MINOR, HS_VERSION_PATCH);
    assert_string_equal(HS_VERSION_STRING, text);
    assert_true(HS_VERSION_AT_LEAST(0, 0, 99) && HS_VERSION_AT_LEAST(HS_VERSION_MAJOR, HS_VERSION_MINOR, HS_VERSION_PATCH));
    assert_false(HS_VERSION_AT_LEAST(HS_VERSION_MAJOR, HS_VERSION_MINOR, HS_VERSION_PATCH + 1));
    assert_false(HS_VERSION_AT_LEAST(HS_VERSION_MAJOR + 1, 0, 0));
#if !HS_VERSION_AT_LEAST(0, 1, 0)
#error "these headers are of version 0.1.0 or later"
#endif
    assert_string_equal(hs_version(), text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(codes_have_names),
        cmocka_unit_test(unknown_numbers_have_no_name),
        cmocka_unit_test(each_code_has_its_own_name),
        cmocka_unit_test(each_errno_has_a_code),
        cmocka_unit_test(no_errno_reports_a_lost_session),
        cmocka_unit_test(set_writes_code_and_message),
        cmocka_unit_test(set_passes_codes_of_the_program),
        cmocka_unit_test(null_errors_are_allowed),
        cmocka_unit_test(long_messages_are_truncated_with_dots),
        cmocka_unit_test(messages_are_one_line),
        cmocka_unit_test(an_escaped_message_is_truncated_between_characters),
        cmocka_unit_test(a_message_of_several_lines_becomes_one_line),
        cmocka_unit_test(a_message_that_just_fits_is_whole),
        cmocka_unit_test(set_accepts_its_own_message_as_an_argument),
        cmocka_unit_test(set_errno_adds_the_system_text),
        cmocka_unit_test(set_errno_of_0_still_fails),
        cmocka_unit_test(set_errno_accepts_its_own_message_and_truncates),
        cmocka_unit_test(prefix_keeps_code_and_os_error),
        cmocka_unit_test(prefix_accepts_its_own_message_as_an_argument),
        cmocka_unit_test(a_long_prefix_is_truncated),
        cmocka_unit_test(clear_empties_all),
        cmocka_unit_test(copy_copies_all),
        cmocka_unit_test(copy_accepts_null_and_itself),
        cmocka_unit_test(no_memory_names_the_purpose),
        cmocka_unit_test(normalizing_fills_an_unset_error),
        cmocka_unit_test(normalizing_sets_the_code_and_keeps_the_message),
        cmocka_unit_test(normalizing_adds_a_missing_message),
        cmocka_unit_test(normalizing_replaces_a_stale_message),
        cmocka_unit_test(normalizing_does_not_change_a_success),
        cmocka_unit_test(normalizing_accepts_a_null_error),
        cmocka_unit_test(take_copies_the_same_version),
        cmocka_unit_test(take_fills_an_older_version_with_zeros),
        cmocka_unit_test(take_accepts_unset_newer_fields),
        cmocka_unit_test(take_refuses_set_newer_fields),
        cmocka_unit_test(take_refuses_a_forgotten_macro),
        cmocka_unit_test(take_refuses_a_size_that_no_release_had),
        cmocka_unit_test(take_clears_the_error),
        cmocka_unit_test(null_arguments_are_refused),
        cmocka_unit_test(versions_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
