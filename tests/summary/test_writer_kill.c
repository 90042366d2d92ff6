/* SPDX-License-Identifier: Apache-2.0 */
/* kill -9 while writing, at random times: every file can be read to its last whole record, and the next run continues. */
#include "support/test.h"

#include "formats/records.h"

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KILLS = 100, MOST_US = 4000 };

/* Adds events forever, with consecutive steps. */
static void write_until_killed(const char *directory, int started)
{
    hs_summary_writer_options options = HS_INIT(hs_summary_writer_options, .queue_bytes = 1 << 14);
    hs_summary_writer *writer = hs_summary_writer_open(directory, &options, NULL);
    if (!writer || write(started, "", 1) != 1)
        _exit(1);
    for (int64_t step = 1;; step++)
        if (hs_summary_writer_scalar(writer, "loss", (double)step, step, NULL))
            _exit(2);
}

static void kill_one(const char *directory, unsigned *seed)
{
    int started[2], status;
    char byte;
    assert_int_equal(pipe(started), 0);
    pid_t child = fork();
    if (child == 0)
        write_until_killed(directory, started[1]);
    close(started[1]);
    assert_int_equal(read(started[0], &byte, 1), 1);
    close(started[0]);
    *seed = *seed * 1103515245 + 12345;
    hs_env_sleep_ns(NULL, 1000 * (int64_t)(*seed / 65536 % MOST_US));
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
}

/* The step of an event: field 2, after a time of nine bytes. The version has no step. */
static int64_t step_of(hs_bytes record)
{
    const unsigned char *at = record.data, *end = at + record.size;
    uint64_t step;
    assert_true(record.size > 10 && at[0] == 9);
    at += 10;
    return at[-1] == 0x10 && hs__get_varint(&at, end, &step) ? (int64_t)step : 0;
}

/* The number of events in a file, in order. After them is less than a record. */
static int64_t check_file(const char *path)
{
    hs_record_reader reader;
    hs_bytes record;
    hs_error err;
    int64_t n = -1;
    hs_code code = hs__record_reader_open(&reader, hs_env_default(), path, HS_RECORDS_PLAIN, HS__SOURCE_WINDOW, &err);
    while (!code && !(code = hs_record_reader_next(&reader, &record, &err)))
        assert_int_equal(step_of(record), ++n);
    if (code != HS_OUT_OF_RANGE)
        assert_says(&err, HS_DATA_LOSS, "the file ends inside");
    hs_file_stat found;
    assert_int_equal(hs__stat(hs_env_default(), path, &found, NULL), HS_OK);
    assert_in_range(found.bytes - reader.offset, 0, 100);
    hs_record_reader_close(&reader);
    assert_true(n >= 0); /* at least the version */
    return n;
}

static void every_file_reads_to_its_last_whole_record(void **state)
{
    (void)state;
    char *directory = test_make_directory();
    unsigned seed = 1;
    int64_t events = 0;
    size_t files = 0;
    for (int i = 0; i < KILLS; i++)
        kill_one(directory, &seed);
    DIR *open = opendir(directory);
    assert_non_null(open);
    for (const struct dirent *entry; (entry = readdir(open));)
        if (strstr(entry->d_name, "tfevents")) {
            events += check_file(test_path(directory, entry->d_name));
            files++;
        }
    closedir(open);
    test_remove_directory(directory);
    assert_int_equal(files, KILLS);
    assert_true(events > KILLS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_file_reads_to_its_last_whole_record)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
