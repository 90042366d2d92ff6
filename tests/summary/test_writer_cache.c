/* SPDX-License-Identifier: Apache-2.0 */
#include "summary/writer_cache.h"
#include "summary/events.h"

#include <errno.h>

typedef struct {
    test_env t;
    hs_env env; /* complete */
    char *directory;
    hs__writer_cache cache;
    hs_error err;
    int reports;
    int64_t failures;  /* in all reports */
    hs_error reported; /* the last one */
} fixture;

static void note(void *user, int64_t failures, const hs_error *error)
{
    fixture *f = user;
    f->reports++;
    f->failures += failures;
    f->reported = *error;
}

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    test_env_init(&f->t);
    assert_int_equal(hs__env_copy(&f->env, &f->t.env, NULL), HS_OK);
    f->directory = test_make_directory();
    f->cache = (hs__writer_cache){.env = &f->env, .report = note, .user = f};
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    hs__writer_cache_close(&f->cache, NULL);
    test_remove_directory(f->directory);
    size_t left = f->t.live;
    free(f);
    assert_int_equal(left, 0);
    return 0;
}
#define with_cache(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

static hs_summary_writer *get(fixture *f, const char *name)
{
    hs_summary_writer *writer;
    assert_ok(hs__writer_cache_get(&f->cache, test_path(f->directory, name), &writer, &f->err), &f->err);
    return writer;
}

static void a_directory_has_one_writer(void **state)
{
    fixture *f = *state;
    hs_summary_writer *a = get(f, "a"), *b = get(f, "b");
    assert_ptr_not_equal(a, b);
    assert_ptr_equal(get(f, "a"), a);
    assert_ptr_equal(get(f, "a/"), a);
    assert_ptr_equal(get(f, "a///"), a);
    assert_ptr_not_equal(get(f, "ab"), a);
    assert_int_equal(test_count_files(test_path(f->directory, "a"), "events"), 1);
}

static void flushing_flushes_each(void **state)
{
    fixture *f = *state;
    hs_summary_writer_scalar(get(f, "a"), "loss", 1, 1, NULL);
    hs_summary_writer_scalar(get(f, "b"), "loss", 2, 2, NULL);
    assert_ok(hs__writer_cache_flush(&f->cache, &f->err), &f->err);
    assert_string_equal(events_text(test_path(f->directory, "a")), "version loss=1@1");
    assert_string_equal(events_text(test_path(f->directory, "b")), "version loss=2@2");
}

static void each_creation_has_one_start(void **state)
{
    fixture *f = *state;
    hs_summary_writer *a = get(f, "a");
    assert_ok(hs__writer_cache_start(&f->cache, a, 7, 1, &f->err), &f->err);
    assert_ok(hs__writer_cache_start(&f->cache, a, 7, 1, &f->err), &f->err);
    assert_ok(hs__writer_cache_start(&f->cache, a, 8, 5, &f->err), &f->err);
    hs__writer_cache_flush(&f->cache, NULL);
    assert_string_equal(events_text(test_path(f->directory, "a")), "version start@1 start@5");
}

static void a_start_that_is_not_written_is_an_error(void **state)
{
    fixture *f = *state;
    hs_summary_writer_options options = HS_INIT(hs_summary_writer_options, .env = &f->env, .on_error = HS_WRITER_FAILS);
    hs_summary_writer *own = hs_summary_writer_open(f->directory, &options, &f->err);
    assert_ok(hs__writer_cache_use(&f->cache, own, &f->err), &f->err);
    hs_summary_writer_scalar(own, "loss", 1, 1, NULL);
    f->t.fail_file_at = f->t.file_calls + 1;
    assert_int_equal(hs_summary_writer_flush(own, false, NULL), HS_RESOURCE_EXHAUSTED);
    for (int i = 0; i < 2; i++) /* the second call retries */
        assert_fails(hs__writer_cache_start(&f->cache, own, 7, 1, &f->err), HS_RESOURCE_EXHAUSTED, &f->err, "injected");
    hs_summary_writer_close(own, NULL);
}

static void closing_writes_queued_events(void **state)
{
    fixture *f = *state;
    hs_summary_writer_scalar(get(f, "a"), "loss", 1, 1, NULL);
    hs_summary_writer_scalar(get(f, "b"), "loss", 2, 2, NULL);
    assert_ok(hs__writer_cache_close(&f->cache, &f->err), &f->err);
    assert_string_equal(events_text(test_path(f->directory, "a")), "version loss=1@1");
    assert_string_equal(events_text(test_path(f->directory, "b")), "version loss=2@2");
}

static void a_writer_of_the_program_is_flushed_but_not_closed(void **state)
{
    fixture *f = *state;
    hs_summary_writer *own = hs_summary_writer_open(f->directory, NULL, &f->err);
    assert_ok(hs__writer_cache_use(&f->cache, own, &f->err), &f->err);
    assert_ok(hs__writer_cache_use(&f->cache, own, &f->err), &f->err);
    assert_int_equal(f->cache.n, 1);
    hs_summary_writer_scalar(own, "loss", 1, 1, NULL);
    assert_ok(hs__writer_cache_flush(&f->cache, &f->err), &f->err);
    assert_string_equal(events_text(f->directory), "version loss=1@1");
    assert_ok(hs__writer_cache_close(&f->cache, &f->err), &f->err);
    assert_ok(hs_summary_writer_scalar(own, "loss", 2, 2, &f->err), &f->err);
    assert_ok(hs_summary_writer_close(own, &f->err), &f->err);
    assert_string_equal(events_text(f->directory), "version loss=1@1 loss=2@2");
}

static void a_directory_is_needed(void **state)
{
    fixture *f = *state;
    hs_summary_writer *writer;
    assert_fails(hs__writer_cache_get(&f->cache, NULL, &writer, &f->err), HS_INVALID_ARGUMENT, &f->err, "directory");
    assert_fails(hs__writer_cache_get(&f->cache, "", &writer, &f->err), HS_INVALID_ARGUMENT, &f->err, "directory");
}

static void a_directory_that_cannot_be_used_is_not_kept(void **state)
{
    fixture *f = *state;
    hs_summary_writer *writer;
    const char *path = test_path(f->directory, "file");
    test_write_file(path, "x", 1);
    assert_fails(hs__writer_cache_get(&f->cache, path, &writer, &f->err), HS_FAILED_PRECONDITION, &f->err,
                 "not a directory");
    assert_int_equal(f->cache.n, 0);
}

/* The first writer fails. The others are flushed nevertheless, and the first error is returned. */
static void a_failing_writer_does_not_stop_the_others(void **state)
{
    fixture *f = *state;
    hs_summary_writer_options options = HS_INIT(hs_summary_writer_options, .env = &f->env, .on_error = HS_WRITER_FAILS);
    hs_summary_writer *own = hs_summary_writer_open(test_path(f->directory, "a"), &options, &f->err);
    assert_ok(hs__writer_cache_use(&f->cache, own, &f->err), &f->err);
    hs_summary_writer_scalar(own, "loss", 1, 1, NULL);
    hs_summary_writer_scalar(get(f, "b"), "loss", 2, 2, NULL);
    f->t.fail_file_at = f->t.file_calls + 1;
    assert_fails(hs__writer_cache_flush(&f->cache, &f->err), HS_RESOURCE_EXHAUSTED, &f->err, "injected");
    assert_string_equal(events_text(test_path(f->directory, "b")), "version loss=2@2");
    assert_int_equal(f->reports, 0);
    hs_summary_writer_close(own, NULL);
}

static void a_failure_that_a_writer_retries_is_reported_once(void **state)
{
    fixture *f = *state;
    hs_summary_writer *a = get(f, "a");
    hs_summary_writer_scalar(a, "loss", 1, 1, NULL);
    f->t.fail_file_at = f->t.file_calls + 1;
    assert_ok(hs__writer_cache_flush(&f->cache, &f->err), &f->err);
    assert_int_equal(f->reports, 1);
    assert_says(&f->reported, HS_RESOURCE_EXHAUSTED, "injected");
    assert_ok(hs__writer_cache_flush(&f->cache, &f->err), &f->err);
    assert_int_equal(f->reports, 1);
    assert_ok(hs__writer_cache_flush_one(&f->cache, a, true, &f->err), &f->err);
    assert_int_equal(f->reports, 1);
    assert_ok(hs__writer_cache_close(&f->cache, &f->err), &f->err);
    assert_string_equal(events_text(test_path(f->directory, "a")),
                        "version version loss=1@1 DAMAGED"); /* the first file ends in it */
}

/* The writer may also have retried by itself. */
static void each_failed_attempt_counts(void **state)
{
    fixture *f = *state;
    hs_summary_writer *a = get(f, "a");
    hs_summary_writer_scalar(a, "loss", 1, 1, NULL);
    f->t.fail_file_at = f->t.file_calls + 1;
    f->t.fail_file_on = true;
    for (int i = 0; i < 3; i++)
        assert_int_equal(hs_summary_writer_flush(a, true, NULL), HS_RESOURCE_EXHAUSTED);
    f->t.fail_file_at = 0;
    assert_ok(hs__writer_cache_flush_one(&f->cache, a, true, &f->err), &f->err);
    assert_int_equal(f->reports, 1);
    assert_true(f->failures >= 3);
    assert_int_equal(f->failures, hs_summary_writer_status(a).failures);
}

static void events_lost_at_the_end_are_reported(void **state)
{
    fixture *f = *state;
    hs_summary_writer_scalar(get(f, "a"), "loss", 1, 1, NULL);
    f->t.fail_file_at = f->t.file_calls + 1;
    f->t.fail_file_on = true;
    assert_ok(hs__writer_cache_close(&f->cache, &f->err), &f->err);
    assert_int_equal(f->reports, 1);
    assert_true(test_env_logged(&f->t, "1 of 1 events of"));
}

/* Shared with the program and with another session. */
static void wr_014_a_directory_has_one_writer_in_the_process(void **state)
{
    fixture *f = *state;
    hs__writer_cache other;
    hs_summary_writer *theirs, *a = get(f, "a");
    hs_summary_writer_options options = HS_INIT(hs_summary_writer_options, .env = &f->t.env);
    hs_summary_writer *mine = hs_summary_writer_shared(test_path(f->directory, "a"), &options, &f->err);
    other = (hs__writer_cache){.env = &f->env, .report = note, .user = f};
    assert_ok(hs__writer_cache_get(&other, test_path(f->directory, "a/"), &theirs, &f->err), &f->err);
    assert_ptr_equal(mine, a);
    assert_ptr_equal(theirs, a);
    assert_ok(hs__writer_cache_close(&f->cache, &f->err), &f->err);
    assert_ok(hs_summary_writer_close(mine, &f->err), &f->err);
    assert_ok(hs_summary_writer_scalar(theirs, "loss", 1, 1, &f->err), &f->err);
    assert_ok(hs__writer_cache_close(&other, &f->err), &f->err);
    assert_string_equal(events_text(test_path(f->directory, "a")), "version loss=1@1");
}

static void record_first(void *user, int64_t failures, const hs_error *error)
{
    (void)failures;
    hs_error *first = user;
    if (!first->code)
        *first = *error;
}

static hs_code get_and_use(test_env *t, void *user)
{
    hs_error reported = {0};
    hs_env env;
    hs_error err = {0};
    hs__writer_cache cache;
    hs_summary_writer *writer;
    events_remove(user);
    hs_code code = hs__env_copy(&env, &t->env, &err);
    cache = (hs__writer_cache){.env = &env, .report = record_first, .user = &reported};
    if (!code)
        code = hs__writer_cache_get(&cache, user, &writer, &err);
    if (!code)
        code = hs_summary_writer_scalar(writer, "loss", 1, 1, &err);
    hs_code flushed = hs__writer_cache_flush(&cache, &err), closed = hs__writer_cache_close(&cache, &err);
    return code ? code : flushed ? flushed : closed ? closed : reported.code;
}

static void each_allocation_and_each_file_call(void **state)
{
    const fixture *f = *state;
    test_each_allocation(get_and_use, f->directory);
    test_each_file_call(get_and_use, NULL, EIO, false, f->directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_cache(a_directory_has_one_writer),
        with_cache(flushing_flushes_each),
        with_cache(each_creation_has_one_start),
        with_cache(a_start_that_is_not_written_is_an_error),
        with_cache(closing_writes_queued_events),
        with_cache(a_writer_of_the_program_is_flushed_but_not_closed),
        with_cache(a_directory_is_needed),
        with_cache(a_directory_that_cannot_be_used_is_not_kept),
        with_cache(a_failing_writer_does_not_stop_the_others),
        with_cache(a_failure_that_a_writer_retries_is_reported_once),
        with_cache(each_failed_attempt_counts),
        with_cache(events_lost_at_the_end_are_reported),
        with_cache(wr_014_a_directory_has_one_writer_in_the_process),
        with_cache(each_allocation_and_each_file_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
