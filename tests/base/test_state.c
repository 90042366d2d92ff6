/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "base/state.h"

static test_env t;
static hs__buffer written;
static hs_state_writer out;

static int set_up(void **state)
{
    (void)state;
    test_env_init(&t);
    hs__buffer_init(&written, &t.env);
    out = hs__state_writer_to(&written);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    hs__buffer_free(&written);
    return t.live ? -1 : 0;
}

static void write_state(const void *data, size_t bytes)
{
    hs_error err = {0};
    assert_ok(hs_state_writer_write(&out, data, bytes, &err), &err);
}

static hs_state_reader reader(void)
{
    return (hs_state_reader){.at = written.data, .left = written.size};
}

static void written_state_is_read_in_order(void **state)
{
    (void)state;
    hs_error err = {0};
    int64_t position = 123456789, found_position = 0;
    double loss = 0.25, found_loss = 0;
    write_state(&position, sizeof position);
    write_state(&loss, sizeof loss);
    hs_state_reader in = reader();
    assert_int_equal(hs_state_reader_remaining(&in), 16);
    assert_ok(hs_state_reader_read(&in, &found_position, sizeof position, &err), &err);
    assert_int_equal(hs_state_reader_remaining(&in), 8);
    assert_ok(hs_state_reader_read(&in, &found_loss, sizeof loss, &err), &err);
    assert_int_equal(found_position, position);
    assert_true(found_loss == loss);
    assert_int_equal(hs_state_reader_remaining(&in), 0);
}

static void pieces_of_reads_and_writes_may_differ(void **state)
{
    (void)state;
    hs_error err = {0};
    char found[5] = "";
    write_state("ab", 2);
    write_state("cd", 2);
    hs_state_reader in = reader();
    assert_ok(hs_state_reader_read(&in, found, 1, &err), &err);
    assert_ok(hs_state_reader_read(&in, found + 1, 3, &err), &err);
    assert_string_equal(found, "abcd");
}

static void reading_beyond_the_end_copies_nothing(void **state)
{
    (void)state;
    hs_error err = {0};
    char found[8] = "before.";
    write_state("abc", 3);
    hs_state_reader in = reader();
    assert_fails(hs_state_reader_read(&in, found, 4, &err), HS_DATA_LOSS, &err, "3 more bytes");
    assert_string_equal(found, "before.");
    assert_int_equal(hs_state_reader_remaining(&in), 3);
    assert_ok(hs_state_reader_read(&in, found, 3, &err), &err);
    assert_memory_equal(found, "abc", 3);
}

static void zero_bytes_are_allowed(void **state)
{
    (void)state;
    hs_error err = {0};
    write_state(NULL, 0);
    hs_state_reader in = reader();
    assert_int_equal(hs_state_reader_remaining(&in), 0);
    assert_ok(hs_state_reader_read(&in, NULL, 0, &err), &err);
    assert_fails(hs_state_reader_read(&in, &err, 1, &err), HS_DATA_LOSS, &err, "");
}

static void after_a_failure_further_writes_fail(void **state)
{
    (void)state;
    hs_error err = {0};
    t.fail_alloc_at = 1;
    assert_fails(hs_state_writer_write(&out, "a", 1, &err), HS_RESOURCE_EXHAUSTED, &err, "state");
    assert_fails(hs_state_writer_write(&out, "b", 1, &err), HS_RESOURCE_EXHAUSTED, &err, "state");
    assert_fails(hs_state_writer_write(&out, NULL, 0, &err), HS_RESOURCE_EXHAUSTED, &err, "state");
}

/* A function reads state that is not in memory, piece by piece. */
static hs_code read_letters(void *user, void *to, size_t bytes, hs_error *err)
{
    char *next = user;
    if (bytes > 3)
        return hs_error_set(err, HS_DATA_LOSS, "the disk is gone");
    for (size_t i = 0; i < bytes; i++)
        ((char *)to)[i] = (*next)++;
    return HS_OK;
}

static void a_reader_may_read_with_a_function(void **state)
{
    (void)state;
    hs_error err = {0};
    char next = 'a', found[8] = "";
    hs_state_reader in = {.left = 7, .next = read_letters, .user = &next};
    assert_ok(hs_state_reader_read(&in, found, 2, &err), &err);
    assert_ok(hs_state_reader_read(&in, found + 2, 1, &err), &err);
    assert_string_equal(found, "abc");
    assert_fails(hs_state_reader_read(&in, found, 4, &err), HS_DATA_LOSS, &err, "the disk is gone");
    assert_int_equal(hs_state_reader_remaining(&in), 4);
    assert_fails(hs_state_reader_read(&in, found, 5, &err), HS_DATA_LOSS, &err, "4 more bytes");
}

static void after_a_failure_further_reads_fail(void **state)
{
    (void)state;
    hs_error err = {0};
    char next = 'a', found[8] = "";
    hs_state_reader in = {.left = 7, .next = read_letters, .user = &next};
    assert_fails(hs_state_reader_read(&in, found, 4, &err), HS_DATA_LOSS, &err, "the disk is gone");
    assert_fails(hs_state_reader_read(&in, found, 1, &err), HS_DATA_LOSS, &err, "the disk is gone");
    assert_fails(hs_state_reader_read(&in, NULL, 0, &err), HS_DATA_LOSS, &err, "the disk is gone");
    assert_int_equal(hs_state_reader_remaining(&in), 7);
}

static void success_clears_the_error(void **state)
{
    (void)state;
    hs_error err = {HS_INTERNAL, 1, "old"};
    char found;
    assert_ok(hs_state_writer_write(&out, "a", 1, &err), &err);
    assert_int_equal(err.code, HS_OK);
    hs_state_reader in = reader();
    hs_error_set(&err, HS_INTERNAL, "old");
    assert_ok(hs_state_reader_read(&in, &found, 1, &err), &err);
    assert_int_equal(err.code, HS_OK);
}

/* Providers. */

static hs_code no_save(void *self, hs_state_writer *to, hs_error *err)
{
    (void)self, (void)to, (void)err;
    return HS_OK;
}

static hs_code no_load(void *self, hs_state_reader *in, hs_error *err)
{
    (void)self, (void)in, (void)err;
    return HS_OK;
}

static const hs_state_provider good = HS_INIT(hs_state_provider, .name = "loader", .save = no_save, .load = no_load,
                                              .version = 3, .identity = "digits, \xc3\xa4 and \"quotes\"", .bytes = 8);

static void a_provider_is_copied(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_state_provider taken;
    assert_ok(hs__state_provider_copy(&taken, &good, "state", &err), &err);
    assert_memory_equal(&taken, &good, sizeof good);
}

static void an_empty_identity_becomes_null(void **state)
{
    (void)state;
    hs_error err = {0};
    hs_state_provider given = good, taken;
    given.identity = "";
    assert_ok(hs__state_provider_copy(&taken, &given, "state", &err), &err);
    assert_null(taken.identity);
}

static void assert_not_taken(const hs_state_provider *given, const char *why)
{
    hs_error err = {0};
    hs_state_provider taken;
    assert_fails(hs__state_provider_copy(&taken, given, "state", &err), HS_INVALID_ARGUMENT, &err, why);
}

static void invalid_providers_are_refused(void **state)
{
    (void)state;
    hs_state_provider bad = good;
    bad.name = NULL;
    assert_not_taken(&bad, "the state to save has no name");
    bad.name = "loader:version";
    assert_not_taken(&bad,
                     "state 'loader:version': the name contains ':', which is reserved for NAME:version and NAME:identity");
    bad = good;
    bad.save = NULL;
    assert_not_taken(&bad, "state 'loader': save or load is NULL");
    bad = good;
    bad.version = INT64_MIN;
    assert_not_taken(&bad, "it must be at least 0");
    bad = good;
    bad.identity = "digits\x7f";
    assert_not_taken(&bad, "state 'loader': identity must be one line");
    bad.size = 4;
    assert_not_taken(&bad, "HS_INIT(hs_state_provider");
}

static void a_reader_returns_the_version(void **state)
{
    (void)state;
    hs_state_reader in = {.version = 7};
    assert_int_equal(hs_state_reader_version(&in), 7);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(written_state_is_read_in_order),
        TEST(pieces_of_reads_and_writes_may_differ),
        TEST(reading_beyond_the_end_copies_nothing),
        TEST(zero_bytes_are_allowed),
        TEST(after_a_failure_further_writes_fail),
        TEST(success_clears_the_error),
        TEST(a_provider_is_copied),
        TEST(an_empty_identity_becomes_null),
        TEST(invalid_providers_are_refused),
        TEST(a_reader_returns_the_version),
        TEST(a_reader_may_read_with_a_function),
        TEST(after_a_failure_further_reads_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
