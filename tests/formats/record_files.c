/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/record_files.h"

test_env t;
char *directory;
hs_error err;
const char *const few[11] = {"0.", "1.", "2.", "3.", "4.", "5.", "6.", "7.", "8.", "9.", NULL};

int set_up(void **state)
{
    (void)state;
    test_env_init(&t);
    directory = test_make_directory();
    hs_error_clear(&err);
    return 0;
}

int tear_down(void **state)
{
    (void)state;
    test_remove_directory(directory);
    return t.live ? -1 : 0;
}

const char *path(void)
{
    return test_path(directory, "records");
}

hs_record_writer *new_writer(hs_record_compression kind)
{
    hs_record_writer_options options = HS_INIT(hs_record_writer_options, .env = &t.env, .compression = kind);
    hs_record_writer *writer = hs_record_writer_open(path(), &options, &err);
    assert_ok(err.code, &err);
    assert_non_null(writer);
    return writer;
}

void put(hs_record_writer *writer, const char *text)
{
    assert_ok(hs_record_writer_write(writer, text, strlen(text), &err), &err);
}

void finish(hs_record_writer *writer)
{
    assert_ok(hs_record_writer_close(writer, &err), &err);
    hs_record_writer_free(writer);
}

void write_all(hs_record_compression kind, const char *const *texts)
{
    hs_record_writer *writer = new_writer(kind);
    for (; *texts; texts++)
        put(writer, *texts);
    finish(writer);
}

hs_record_reader *new_reader(hs_record_compression kind, int64_t buffer)
{
    hs_record_reader_options options =
        HS_INIT(hs_record_reader_options, .env = &t.env, .compression = kind, .buffer_bytes = buffer);
    hs_record_reader *reader = hs_record_reader_open(path(), &options, &err);
    assert_ok(err.code, &err);
    assert_non_null(reader);
    return reader;
}

void assert_next(hs_record_reader *reader, const char *text)
{
    hs_bytes record;
    assert_ok(hs_record_reader_next(reader, &record, &err), &err);
    assert_int_equal(record.size, strlen(text));
    assert_memory_equal(record.data, text, record.size);
}

void assert_stops(hs_record_reader *reader, hs_code code, const char *why)
{
    hs_bytes record;
    for (int i = 0; i < 2; i++)
        assert_fails(hs_record_reader_next(reader, &record, &err), code, &err, why);
}

void assert_end(hs_record_reader *reader)
{
    assert_stops(reader, HS_OUT_OF_RANGE, "end of file");
}

size_t file_size(void)
{
    size_t bytes;
    free(test_read_file(path(), &bytes));
    return bytes;
}
