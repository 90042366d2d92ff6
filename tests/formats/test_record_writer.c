/* SPDX-License-Identifier: Apache-2.0 */
/* records.h: writing, closing, names of compressions; bad arguments and failures. */
#include "base/file_spy.h"
#include "formats/record_files.h"

#include <errno.h>

static void rc_002_rc_206_records_come_back_in_order(void **state)
{
    (void)state;
    EACH(kind)
    {
        write_all(kind, HS_NAMES("foo", "bar", "", "xxxx"));
        hs_record_reader *reader = new_reader(kind, 0);
        assert_next(reader, "foo");
        assert_next(reader, "bar");
        assert_next(reader, "");
        assert_next(reader, "xxxx");
        assert_end(reader);
        hs_record_reader_free(reader);
    }
}

static void flush_after_each(hs_record_compression kind)
{
    static const int lengths[] = {26, 46, 64, 26};
    char text[65];
    size_t before = 0;
    hs_record_writer *writer = new_writer(kind);
    assert_int_equal(file_size(), 0);
    for (int n = 0; n < 4; n++) {
        memset(text, 'a' + n, sizeof text);
        assert_ok(hs_record_writer_write(writer, text, (size_t)lengths[n], &err), &err);
        assert_ok(hs_record_writer_flush(writer, n == 3, &err), &err);
        size_t now = file_size();
        assert_true(now > before);
        before = now;
        hs_record_reader *reader = new_reader(kind, 0);
        for (int i = 0; i <= n; i++) {
            hs_bytes record;
            assert_ok(hs_record_reader_next(reader, &record, &err), &err);
            assert_int_equal(record.size, lengths[i]);
        }
        assert_end(reader);
        hs_record_reader_free(reader);
    }
    finish(writer);
}

static void rc_101_flushed_records_are_read(void **state)
{
    (void)state;
    flush_after_each(HS_RECORDS_PLAIN);
}

static void a_flush_syncs_if_requested(void **state)
{
    (void)state;
    EACH(kind)
    {
        file_spy spy;
        file_spy_init(&spy, &t.env);
        spy.noted = "sync";
        spy.no_names = true;
        hs_record_writer *writer =
            hs_record_writer_open(path(), HS_RECORD_WRITER_OPTIONS(.env = &spy.env, .compression = kind), &err);
        assert_ok(hs_record_writer_write(writer, "x", 1, &err), &err);
        assert_ok(hs_record_writer_flush(writer, false, &err), &err);
        assert_string_equal(spy.calls, "");
        assert_ok(hs_record_writer_flush(writer, true, &err), &err);
        assert_string_equal(spy.calls, "sync");
        finish(writer);
    }
}

static void rc_102_compressed_records_come_back(void **state)
{
    (void)state;
    flush_after_each(HS_RECORDS_ZLIB);
    flush_after_each(HS_RECORDS_GZIP);
}

static void rc_107_buffers_may_have_any_size(void **state)
{
    (void)state;
    for (int64_t buffer = 1; buffer <= 1 << 16; buffer *= 2) {
        EACH(kind)
        {
            hs_record_writer_options options =
                HS_INIT(hs_record_writer_options, .env = &t.env, .compression = kind, .buffer_bytes = buffer);
            hs_record_writer *writer = hs_record_writer_open(path(), &options, &err);
            put(writer, "abc");
            put(writer, "defg");
            finish(writer);
            hs_record_reader *reader = new_reader(kind, buffer);
            assert_next(reader, "abc");
            assert_next(reader, "defg");
            assert_end(reader);
            hs_record_reader_free(reader);
        }
    }
}

static void rc_106_snappy_is_refused_by_name(void **state)
{
    (void)state;
    hs_record_compression kind = HS_RECORDS_GZIP;
    assert_fails(hs_record_compression_named("SNAPPY", &kind, &err), HS_UNIMPLEMENTED, &err, "SNAPPY");
    assert_int_equal(kind, HS_RECORDS_GZIP);
}

static void rc_112s_rc_203_compressions_have_names(void **state)
{
    (void)state;
    static const char *const names[] = {NULL, "", "ZLIB", "GZIP"};
    hs_record_compression kind;
    for (int i = 0; i < 4; i++) {
        kind = (hs_record_compression)77;
        assert_ok(hs_record_compression_named(names[i], &kind, &err), &err);
        assert_int_equal(kind, i ? i - 1 : 0);
    }
    assert_fails(hs_record_compression_named("BZIP2", &kind, &err), HS_INVALID_ARGUMENT, &err, "'BZIP2'");
    assert_fails(hs_record_compression_named("", NULL, &err), HS_INVALID_ARGUMENT, &err, "NULL");
    hs_record_reader_options reading = HS_INIT(hs_record_reader_options, .compression = (hs_record_compression)3);
    assert_null(hs_record_reader_open(path(), &reading, &err));
    assert_says(&err, HS_INVALID_ARGUMENT, "compression is 3");
    hs_record_writer_options writing = HS_INIT(hs_record_writer_options, .compression = (hs_record_compression)-1);
    assert_null(hs_record_writer_open(path(), &writing, &err));
    assert_says(&err, HS_INVALID_ARGUMENT, "compression is -1");
}

static void rc_022s_rc_108_rc_214_rc_215_a_closed_writer_refuses(void **state)
{
    (void)state;
    EACH(kind)
    {
        hs_record_writer *writer = new_writer(kind);
        put(writer, "abc");
        assert_ok(hs_record_writer_flush(writer, false, &err), &err);
        assert_ok(hs_record_writer_close(writer, &err), &err);
        assert_fails(hs_record_writer_write(writer, "x", 1, &err), HS_FAILED_PRECONDITION, &err, "is closed");
        assert_fails(hs_record_writer_flush(writer, false, &err), HS_FAILED_PRECONDITION, &err, "is closed");
        assert_ok(hs_record_writer_close(writer, &err), &err);
        hs_record_writer_free(writer);
    }
}

static void rc_207_a_growing_file_can_be_read_further(void **state)
{
    (void)state;
    EACH(kind)
    {
        hs_record_writer *writer = new_writer(kind);
        put(writer, "one");
        put(writer, "two");
        assert_ok(hs_record_writer_flush(writer, false, &err), &err);
        hs_record_reader *reader = new_reader(kind, 0);
        assert_next(reader, "one");
        assert_next(reader, "two");
        assert_end(reader);
        put(writer, "three");
        assert_ok(hs_record_writer_flush(writer, false, &err), &err);
        assert_next(reader, "three");
        assert_end(reader);
        hs_record_reader_free(reader);
        finish(writer);
    }
}

static void rc_212_rc_111s_rc_216_freeing_a_writer_writes_all_records(void **state)
{
    (void)state;
    char text[32];
    EACH(kind)
    {
        hs_record_writer *writer = new_writer(kind);
        for (int i = 0; i < 20; i++) {
            snprintf(text, sizeof text, "record %d", i);
            put(writer, text);
        }
        hs_record_writer_free(writer);
        hs_record_reader *reader = new_reader(kind, 0);
        for (int i = 0; i < 20; i++) {
            snprintf(text, sizeof text, "record %d", i);
            assert_next(reader, text);
        }
        assert_end(reader);
        hs_record_reader_free(reader);
    }
}

static int use_and_free(void *writer)
{
    if (hs_record_writer_write(writer, "child", 5, &err) != HS_FAILED_PRECONDITION ||
        hs_record_writer_flush(writer, true, &err) != HS_FAILED_PRECONDITION ||
        hs_record_writer_close(writer, &err) != HS_FAILED_PRECONDITION || !strstr(err.message, "forked child"))
        return 1;
    hs_record_writer_free(writer);
    return t.log[0] ? 2 : 0;
}

/* The records that the writer had collected would be in the file twice. */
static void a_forked_child_neither_uses_nor_closes_a_writer(void **state)
{
    (void)state;
    EACH(kind)
    {
        hs_record_writer *writer = new_writer(kind);
        put(writer, "one");
        assert_int_equal(test_in_child(use_and_free, writer), 0);
        put(writer, "two");
        finish(writer);
        hs_record_reader *reader = new_reader(kind, 0);
        assert_next(reader, "one");
        assert_next(reader, "two");
        assert_end(reader);
        hs_record_reader_free(reader);
    }
}

static void bad_arguments_are_refused(void **state)
{
    (void)state;
    hs_bytes record;
    assert_null(hs_record_reader_open(NULL, NULL, &err));
    assert_says(&err, HS_INVALID_ARGUMENT, "path is missing");
    assert_null(hs_record_writer_open("", NULL, &err));
    assert_says(&err, HS_INVALID_ARGUMENT, "path is missing");
    assert_null(hs_record_reader_open(path(), NULL, &err));
    assert_says(&err, HS_NOT_FOUND, path());
    assert_null(hs_record_reader_open(path(), &(hs_record_reader_options){.size = 0}, &err));
    assert_says(&err, HS_INVALID_ARGUMENT, "HS_INIT(hs_record_reader_options");
    assert_null(hs_record_reader_open(path(), HS_RECORD_READER_OPTIONS(.buffer_bytes = -1), &err));
    assert_says(&err, HS_INVALID_ARGUMENT, "buffer_bytes is -1");
    assert_null(hs_record_writer_open(path(), HS_RECORD_WRITER_OPTIONS(.level = 10), &err));
    assert_says(&err, HS_INVALID_ARGUMENT, "level is 10");
    for (int i = 0; i < 2; i++) {
        int64_t bytes = i ? -1 : ((int64_t)1 << 30) + 1;
        assert_null(hs_record_writer_open(path(), HS_RECORD_WRITER_OPTIONS(.buffer_bytes = bytes), &err));
        assert_says(&err, HS_INVALID_ARGUMENT, i ? "buffer_bytes is -1" : "buffer_bytes is 1073741825");
    }
    assert_fails(hs_record_reader_next(NULL, &record, &err), HS_INVALID_ARGUMENT, &err, "NULL");
    assert_fails(hs_record_writer_write(NULL, "a", 1, &err), HS_INVALID_ARGUMENT, &err, "NULL");
    assert_ok(hs_record_writer_close(NULL, &err), &err);
    hs_record_writer_free(NULL);
    hs_record_reader_free(NULL);
    hs_record_writer *writer = new_writer(HS_RECORDS_PLAIN);
    assert_fails(hs_record_writer_write(writer, NULL, 1, &err), HS_INVALID_ARGUMENT, &err, "is NULL");
    assert_ok(hs_record_writer_write(writer, NULL, 0, &err), &err);
    finish(writer);
}

static hs_code write_and_read(test_env *env, void *user)
{
    hs_record_compression kind = *(hs_record_compression *)user;
    hs_record_writer_options writing =
        HS_INIT(hs_record_writer_options, .env = &env->env, .compression = kind, .buffer_bytes = 1);
    hs_record_reader_options reading = HS_INIT(hs_record_reader_options, .env = &env->env, .compression = kind);
    hs_error error = {0};
    hs_bytes record;
    hs_record_writer *writer = hs_record_writer_open(path(), &writing, &error);
    hs_code code = error.code;
    for (int i = 0; !code && i < 3; i++)
        code = hs_record_writer_write(writer, few[i], 2, NULL);
    hs_code late = hs_record_writer_flush(writer, true, NULL);
    code = code ? code : late;
    late = hs_record_writer_close(writer, NULL);
    code = code ? code : late;
    hs_record_writer_free(writer);
    hs_record_reader *reader = code ? NULL : hs_record_reader_open(path(), &reading, &error);
    code = code ? code : error.code;
    while (!code)
        code = hs_record_reader_next(reader, &record, NULL);
    hs_record_reader_free(reader);
    return code == HS_OUT_OF_RANGE ? HS_OK : code;
}

static void every_call_may_fail(void **state)
{
    (void)state;
    EACH(kind)
    {
        test_each_allocation(write_and_read, &kind);
        test_each_file_call(write_and_read, NULL, ENOSPC, false, &kind);
        test_each_file_call(write_and_read, NULL, EACCES, true, &kind);
    }
}

static void a_sync_that_fails_is_reported(void **state)
{
    (void)state;
    EACH(kind)
    {
        hs_record_writer *writer = new_writer(kind);
        put(writer, "lost");
        assert_ok(hs_record_writer_flush(writer, false, &err), &err);
        t.fail_file_at = t.file_calls + 1;
        t.fail_file_errno = EIO;
        assert_int_equal(hs_record_writer_flush(writer, true, &err), hs_code_from_errno(EIO));
        t.fail_file_at = 0;
        hs_record_writer_free(writer);
    }
}

static void a_disk_error_is_permanent(void **state)
{
    (void)state;
    EACH(kind)
    {
        hs_record_writer *writer = new_writer(kind);
        put(writer, "lost");
        t.fail_file_at = t.file_calls + 1;
        t.fail_file_errno = ENOSPC;
        assert_int_equal(hs_record_writer_flush(writer, true, &err), HS_RESOURCE_EXHAUSTED);
        size_t calls = t.file_calls;
        assert_int_equal(hs_record_writer_write(writer, "more", 4, &err), HS_RESOURCE_EXHAUSTED);
        assert_int_equal(hs_record_writer_flush(writer, true, &err), HS_RESOURCE_EXHAUSTED);
        assert_int_equal(t.file_calls, calls);
        assert_int_equal(hs_record_writer_close(writer, &err), HS_RESOURCE_EXHAUSTED);
        assert_ok(hs_record_writer_close(writer, &err), &err);
        hs_record_writer_free(writer);
    }
}

static void rc_111s_a_loss_when_the_writer_is_freed_is_logged(void **state)
{
    (void)state;
    hs_record_writer *writer = new_writer(HS_RECORDS_PLAIN);
    put(writer, "lost");
    t.fail_file_at = t.file_calls + 1;
    t.fail_file_errno = ENOSPC;
    hs_record_writer_free(writer);
    assert_contains(t.log, "records were lost");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(rc_002_rc_206_records_come_back_in_order),
        TEST(rc_101_flushed_records_are_read),
        TEST(rc_102_compressed_records_come_back),
        TEST(a_flush_syncs_if_requested),
        TEST(rc_107_buffers_may_have_any_size),
        TEST(rc_106_snappy_is_refused_by_name),
        TEST(rc_112s_rc_203_compressions_have_names),
        TEST(rc_022s_rc_108_rc_214_rc_215_a_closed_writer_refuses),
        TEST(rc_207_a_growing_file_can_be_read_further),
        TEST(rc_212_rc_111s_rc_216_freeing_a_writer_writes_all_records),
        TEST(a_forked_child_neither_uses_nor_closes_a_writer),
        TEST(bad_arguments_are_refused),
        TEST(every_call_may_fail),
        TEST(a_sync_that_fails_is_reported),
        TEST(a_disk_error_is_permanent),
        TEST(rc_111s_a_loss_when_the_writer_is_freed_is_logged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
