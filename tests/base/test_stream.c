/* SPDX-License-Identifier: Apache-2.0 */
/* Files that a background thread writes. */
#include "base/stream.h"
#include "support/test.h"

#include <errno.h>

enum { BUFFER = HS__STREAM_BUFFER };

typedef struct {
    test_env t;
    char *directory;
    const char *path;
    size_t bytes;
    hs_error err;
} fixture;

/* The number of threads that still fail to start (-Wl,--wrap). */
static int refused;
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *user);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *user);

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *user)
{
    return refused-- > 0 ? EAGAIN : __real_pthread_create(thread, attributes, body, user);
}

static unsigned char pattern_at(size_t i)
{
    return (unsigned char)(i * 31 + i / 1000);
}

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    test_env_init(&f->t);
    refused = 0;
    f->directory = test_make_directory();
    f->path = test_path(f->directory, "stream");
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    int left = f->t.live != 0;
    test_remove_directory(f->directory);
    free(f);
    return left;
}
#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* Writes the pattern in calls of these sizes, in turn and repeatedly. */
static hs_code write_pattern(fixture *f, const size_t *sizes, size_t n)
{
    unsigned char *all = malloc(f->bytes + 1);
    hs__stream stream;
    for (size_t i = 0; i < f->bytes; i++)
        all[i] = pattern_at(i);
    hs_code code = hs__stream_open(&stream, &f->t.env, f->path, &f->err);
    for (size_t done = 0, i = 0; !code && done < f->bytes; i++) {
        size_t size = sizes[i % n] < f->bytes - done ? sizes[i % n] : f->bytes - done;
        code = hs__stream_write(&stream, all + done, size, &f->err);
        done += size;
    }
    if (!code)
        code = hs__stream_finish(&stream, &f->err);
    hs__stream_close(&stream);
    free(all);
    return code;
}

static void assert_pattern(const fixture *f)
{
    size_t bytes;
    unsigned char *read = (unsigned char *)test_read_file(f->path, &bytes);
    assert_non_null(read);
    assert_int_equal(bytes, f->bytes);
    for (size_t i = 0; i < bytes; i++)
        if (read[i] != pattern_at(i))
            fail_msg("byte %zu is %d", i, read[i]);
    free(read);
}

static void written_data_is_in_the_file(void **state)
{
    fixture *f = *state;
    const size_t lengths[] = {
        0, 1, 4096, 5000, BUFFER - 1, BUFFER, BUFFER + 1, 3 * (size_t)BUFFER, 5 * (size_t)BUFFER + 12345};
    const size_t sizes[] = {1, 100, 4096, 1 << 18, BUFFER + 7};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        f->bytes = lengths[i];
        assert_ok(write_pattern(f, sizes, sizeof sizes / sizeof *sizes), &f->err);
        assert_pattern(f);
    }
}

static void one_large_write(void **state)
{
    fixture *f = *state;
    f->bytes = 4 * (size_t)BUFFER + 3;
    assert_ok(write_pattern(f, &f->bytes, 1), &f->err);
    assert_pattern(f);
}

static void the_thread_may_start_late(void **state)
{
    fixture *f = *state;
    const size_t sizes[] = {1 << 18};
    f->bytes = 7 * (size_t)BUFFER + 99;
    for (int tries = 1; tries <= 8; tries++) {
        refused = tries;
        assert_ok(write_pattern(f, sizes, 1), &f->err);
        assert_pattern(f);
    }
}

static void a_thread_writes_large_files(void **state)
{
    fixture *f = *state;
    hs__stream stream;
    unsigned char *piece = calloc(1, BUFFER);
    assert_ok(hs__stream_open(&stream, &f->t.env, f->path, &f->err), &f->err);
    for (int i = 0; i < 2; i++)
        assert_ok(hs__stream_write(&stream, piece, BUFFER, &f->err), &f->err);
    assert_true(stream.has_thread);
    assert_ok(hs__stream_finish(&stream, &f->err), &f->err);
    hs__stream_close(&stream);
    free(piece);
}

/* The number of buffers does not depend on the size of the file. */
static void it_allocates_a_few_buffers(void **state)
{
    fixture *f = *state;
    f->bytes = 6 * (size_t)BUFFER;
    assert_ok(write_pattern(f, &f->bytes, 1), &f->err);
    assert_true(f->t.allocations <= HS__STREAM_BUFFERS);
}

static void small_files_need_one_write_and_no_thread(void **state)
{
    fixture *f = *state;
    hs__stream stream;
    assert_ok(hs__stream_open(&stream, &f->t.env, f->path, &f->err), &f->err);
    size_t before = f->t.file_calls;
    for (int i = 0; i < 1000; i++)
        assert_ok(hs__stream_write(&stream, "x", 1, &f->err), &f->err);
    assert_int_equal(f->t.file_calls, before);
    assert_ok(hs__stream_finish(&stream, &f->err), &f->err);
    assert_false(stream.has_thread);
    hs__stream_close(&stream);
}

static hs_code scenario(test_env *t, void *user)
{
    fixture *f = user;
    hs__stream stream;
    hs_code code = hs__stream_open(&stream, &t->env, f->path, &f->err);
    unsigned char *piece = calloc(1, BUFFER);
    for (int i = 0; !code && i < 4; i++)
        code = hs__stream_write(&stream, piece, i < 3 ? BUFFER : 100, &f->err);
    if (!code)
        code = hs__stream_finish(&stream, &f->err);
    hs__stream_close(&stream);
    free(piece);
    return code;
}

static void each_failed_allocation_is_reported(void **state)
{
    test_each_allocation(scenario, *state);
}

/* Includes errors of the thread, which belong to earlier writes. */
static void each_disk_error_is_reported(void **state)
{
    test_each_file_call(scenario, NULL, ENOSPC, false, *state);
    test_each_file_call(scenario, NULL, EIO, true, *state);
}

static void closing_in_the_middle_waits_for_the_thread(void **state)
{
    fixture *f = *state;
    hs__stream stream;
    unsigned char *piece = calloc(1, BUFFER);
    for (int i = 0; i < 20; i++) {
        assert_ok(hs__stream_open(&stream, &f->t.env, f->path, &f->err), &f->err);
        for (int k = 0; k < 3; k++)
            assert_ok(hs__stream_write(&stream, piece, BUFFER, &f->err), &f->err);
        hs__stream_close(&stream);
    }
    free(piece);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(written_data_is_in_the_file),
        test(one_large_write),
        test(the_thread_may_start_late),
        test(a_thread_writes_large_files),
        test(it_allocates_a_few_buffers),
        test(small_files_need_one_write_and_no_thread),
        test(each_failed_allocation_is_reported),
        test(each_disk_error_is_reported),
        test(closing_in_the_middle_waits_for_the_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
