/* SPDX-License-Identifier: Apache-2.0 */
/* Event files on a disk that fails and recovers: training continues, and as few events as possible are lost. */
#include "summary/events.h"

#include "summary/writer_inside.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <unistd.h>

/* A disk that tears writes, and fails until a test repairs it. */
typedef struct {
    test_env t;
    hs_file_system_ops ops;
    hs_file_system under;
    char *directory;
    hs_error err;
    atomic_int torn_at; /* number of bytes of the next write that are written; -1: all */
    atomic_bool write_fails, sync_fails, open_fails;
    void *torn_file;            /* the file of the torn write */
    atomic_bool its_sync_fails; /* the next sync of torn_file fails */
    atomic_int tries;
    pthread_mutex_t held; /* a write that will be torn locks it first */
} fixture;

static hs_code bad_write(void *user, void *file, const void *data, size_t bytes, hs_error *err)
{
    fixture *f = user;
    int torn_at = atomic_exchange(&f->torn_at, -1);
    if (torn_at >= 0) {
        f->torn_file = file;
        pthread_mutex_lock(&f->held);
        pthread_mutex_unlock(&f->held);
        f->under.ops->write(f->under.user, file, data, (size_t)torn_at < bytes ? (size_t)torn_at : bytes, err);
        return hs_error_set(err, HS_DATA_LOSS, "a torn write");
    }
    if (f->write_fails)
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no space is left");
    return f->under.ops->write(f->under.user, file, data, bytes, err);
}

static hs_code bad_sync(void *user, void *file, hs_error *err)
{
    fixture *f = user;
    bool fails = f->sync_fails || (file == f->torn_file && atomic_exchange(&f->its_sync_fails, false));
    return fails ? hs_error_set(err, HS_DATA_LOSS, "a sync that failed") : f->under.ops->sync(f->under.user, file, err);
}

static hs_code bad_open(void *user, const char *path, int mode, void **file, hs_error *err)
{
    fixture *f = user;
    f->tries++;
    return f->open_fails ? hs_error_set(err, HS_UNKNOWN, "%s is away", path)
                         : f->under.ops->open(f->under.user, path, mode, file, err);
}

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    test_env_init(&f->t);
    f->directory = test_make_directory();
    f->under = (hs_file_system){hs_env_default()->files.ops, NULL};
    f->ops = *f->under.ops;
    f->ops.write = bad_write;
    f->ops.sync = bad_sync;
    f->ops.open = bad_open;
    f->torn_at = -1;
    pthread_mutex_init(&f->held, NULL);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    test_remove_directory(f->directory);
    size_t left = f->t.live;
    pthread_mutex_destroy(&f->held);
    free(f);
    assert_int_equal(left, 0);
    return 0;
}
#define with_disk(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

static hs_summary_writer *open_writer(fixture *f, hs_summary_writer_options options)
{
    hs_env env = f->t.env;
    env.files = (hs_file_system){&f->ops, f};
    options.size = sizeof options;
    options.env = &env;
    hs_summary_writer *writer = hs_summary_writer_open(f->directory, &options, &f->err);
    if (!writer)
        fail_msg("%s", f->err.message);
    return writer;
}

static void add(fixture *f, hs_summary_writer *writer, int from, int to)
{
    for (int step = from; step <= to; step++)
        assert_ok(hs_summary_writer_scalar(writer, "x", step, step, &f->err), &f->err);
}

static void expect_steps(const fixture *f, const char *text)
{
    assert_string_equal(events_text(f->directory), text);
}

/* Recovery. */

static void an_error_loses_no_event(void **state)
{
    fixture *f = *state;
    hs_summary_writer *writer = open_writer(f, (hs_summary_writer_options){0});
    f->write_fails = true;
    add(f, writer, 1, 2);
    assert_fails(hs_summary_writer_flush(writer, false, &f->err), HS_RESOURCE_EXHAUSTED, &f->err, "no space is left");
    add(f, writer, 3, 3);
    assert_fails(hs_summary_writer_flush(writer, true, &f->err), HS_RESOURCE_EXHAUSTED, &f->err, "no space is left");
    f->write_fails = false;
    assert_ok(hs_summary_writer_flush(writer, true, &f->err), &f->err);
    hs_writer_status status = hs_summary_writer_status(writer);
    assert_false(status.failing);
    assert_int_equal(status.failures, 2);
    assert_int_equal(status.dropped, 0);
    assert_int_equal(status.events, 3);
    assert_int_equal(status.files, 2);
    assert_says(&status.last_error, HS_RESOURCE_EXHAUSTED, "no space is left");
    assert_ok(hs_summary_writer_close(writer, &f->err), &f->err);
    expect_steps(f, "version version x=1@1 x=2@2 x=3@3");
}

static size_t times(const char *text, const char *part)
{
    size_t n = 0;
    while ((text = strstr(text, part))) {
        text += strlen(part);
        n++;
    }
    return n;
}

static void an_error_is_reported_once(void **state)
{
    fixture *f = *state;
    hs_summary_writer *writer = open_writer(f, (hs_summary_writer_options){0});
    f->write_fails = true;
    add(f, writer, 1, 1);
    for (int i = 0; i < 3; i++)
        hs_summary_writer_flush(writer, true, NULL);
    f->write_fails = false;
    assert_ok(hs_summary_writer_flush(writer, true, &f->err), &f->err);
    assert_ok(hs_summary_writer_close(writer, &f->err), &f->err);
    assert_int_equal(times(f->t.log, "no space is left"), 1);
    assert_int_equal(times(f->t.log, "the writer recovered, writing to "), 1);
}

/* Wherever the write is torn, events that readers find in the first file are not in the second. */
static void each_event_is_written_once_wherever_a_write_is_torn(void **state)
{
    fixture *f = *state;
    enum { MOST = 220 };
    for (int at = 0; at < MOST; at += 3) {
        events_remove(f->directory);
        hs_summary_writer *writer = open_writer(f, (hs_summary_writer_options){0});
        add(f, writer, 1, 5);
        f->torn_at = at;
        hs_summary_writer_flush(writer, false, NULL);
        add(f, writer, 6, 6);
        assert_ok(hs_summary_writer_close(writer, &f->err), &f->err);
        char text[256] = "", *to = text;
        for (const char *word = events_text(f->directory); *word; word += strcspn(word, " ")) {
            word += strspn(word, " ");
            if (strncmp(word, "x=", 2) == 0)
                *to++ = word[2];
        }
        assert_string_equal(text, "123456");
    }
}

/* The thread retries after a second. */
static void writing_is_retried_without_further_calls(void **state)
{
    fixture *f = *state;
    hs_summary_writer *writer = open_writer(f, (hs_summary_writer_options){0});
    f->torn_at = 0;
    add(f, writer, 1, 1);
    assert_fails(hs_summary_writer_flush(writer, false, &f->err), HS_DATA_LOSS, &f->err, "a torn write");
    assert_fails(hs_summary_writer_flush(writer, false, &f->err), HS_DATA_LOSS, &f->err, "a torn write");
    while (hs_summary_writer_status(writer).failing)
        hs_env_sleep_ns(NULL, 10000000);
    expect_steps(f, "version version x=1@1");
    assert_ok(hs_summary_writer_close(writer, &f->err), &f->err);
}

static void an_outage_drops_events_beyond_the_queue(void **state)
{
    enum { EVENTS = 500 };
    fixture *f = *state;
    hs_summary_writer *writer = open_writer(f, (hs_summary_writer_options){.queue_bytes = 2000});
    f->write_fails = f->open_fails = true;
    add(f, writer, 1, EVENTS); /* does not wait for a failing disk */
    assert_int_equal(hs_summary_writer_flush(writer, true, NULL), HS_UNKNOWN);
    hs_writer_status status = hs_summary_writer_status(writer);
    assert_int_equal(status.events, EVENTS);
    assert_in_range(status.dropped, EVENTS - 2 * (2000 / 38 + 1), EVENTS - 2000 / 60);
    f->write_fails = f->open_fails = false;
    assert_ok(hs_summary_writer_close(writer, &f->err), &f->err);
    assert_contains(events_text(f->directory), "version version x=1@1 x=2@2 ");
    assert_int_equal(times(events_text(f->directory), "x="), EVENTS - status.dropped);
    assert_contains(f->t.log, "of 500 events of ");
}

static void reopening_after_an_error_leaves_nothing_in_the_queue(void **state)
{
    fixture *f = *state;
    hs_summary_writer *writer = open_writer(f, (hs_summary_writer_options){0});
    add(f, writer, 1, 1);
    f->torn_at = 0;
    assert_fails(hs_summary_writer_flush(writer, false, &f->err), HS_DATA_LOSS, &f->err, "a torn write");
    add(f, writer, 2, 2);
    assert_ok(hs_summary_writer_reopen(writer, &f->err), &f->err);
    expect_steps(f, "version version x=1@1 x=2@2");
    assert_ok(hs_summary_writer_close(writer, &f->err), &f->err);
}

static void a_start_is_not_dropped(void **state)
{
    enum { EVENTS = 50, QUEUE = 200 };
    fixture *f = *state;
    hs_summary_writer *writer = open_writer(f, (hs_summary_writer_options){.queue_bytes = QUEUE});
    f->write_fails = f->open_fails = true;
    add(f, writer, 1, EVENTS);
    assert_true(hs_summary_writer_status(writer).dropped > 0);
    assert_ok(hs_summary_writer_session_log(writer, HS_SESSION_LOG_START, NULL, NULL, 3, &f->err), &f->err);
    f->write_fails = f->open_fails = false;
    assert_ok(hs_summary_writer_flush(writer, true, &f->err), &f->err);
    add(f, writer, 3, 3);
    assert_ok(hs_summary_writer_close(writer, &f->err), &f->err);
    assert_contains(events_text(f->directory), " start@3 x=3@3");
}

static void events_that_cannot_be_written_at_the_end_are_counted(void **state)
{
    fixture *f = *state;
    hs_summary_writer *writer = open_writer(f, (hs_summary_writer_options){0});
    add(f, writer, 1, 3);
    f->write_fails = true;
    assert_fails(hs_summary_writer_close(writer, &f->err), HS_RESOURCE_EXHAUSTED, &f->err, "no space is left");
    assert_contains(f->t.log, "3 of 3 events of ");
    expect_steps(f, "version");
}

/* Unsynced events may be lost, so no later event is written to the same file. */
static void after_a_failed_sync_a_new_file_is_begun(void **state)
{
    fixture *f = *state;
    hs_summary_writer *writer = open_writer(f, (hs_summary_writer_options){0});
    const char *before = hs_summary_writer_path(writer);
    add(f, writer, 1, 1);
    f->sync_fails = true;
    assert_fails(hs_summary_writer_flush(writer, true, &f->err), HS_DATA_LOSS, &f->err, "a sync that failed");
    f->sync_fails = false;
    add(f, writer, 2, 2);
    assert_ok(hs_summary_writer_flush(writer, true, &f->err), &f->err);
    assert_string_not_equal(hs_summary_writer_path(writer), before);
    assert_ok(hs_summary_writer_close(writer, &f->err), &f->err);
    expect_steps(f, "version x=1@1 version x=2@2");
}

/* The last events of the old file were written. A flush also covers these. */
static void a_failed_sync_of_an_old_file_is_reported(void **state)
{
    fixture *f = *state;
    hs_summary_writer *writer = open_writer(f, (hs_summary_writer_options){0});
    add(f, writer, 1, 1);
    assert_ok(hs_summary_writer_flush(writer, false, &f->err), &f->err);
    add(f, writer, 2, 2);
    f->torn_at = 0;
    f->its_sync_fails = true;
    assert_fails(hs_summary_writer_flush(writer, false, &f->err), HS_DATA_LOSS, &f->err, "a torn write");
    assert_fails(hs_summary_writer_flush(writer, true, &f->err), HS_DATA_LOSS, &f->err, "a sync that failed");
    assert_ok(hs_summary_writer_flush(writer, true, &f->err), &f->err);
    assert_int_equal(hs_summary_writer_status(writer).failures, 2);
    assert_ok(hs_summary_writer_close(writer, &f->err), &f->err);
    expect_steps(f, "version x=1@1 version x=2@2 version");
}

static void *close_it(void *user)
{
    return hs_summary_writer_close(user, NULL) ? user : NULL;
}

static bool is_closing(hs_summary_writer *writer)
{
    pthread_mutex_lock(&writer->lock);
    bool closing = writer->closing;
    pthread_mutex_unlock(&writer->lock);
    return closing;
}

/* Closing retries the write that failed, and writes the queue. */
static void a_failed_write_before_the_end_loses_nothing(void **state)
{
    enum { QUEUE = 8 };
    fixture *f = *state;
    hs_summary_writer *writer = open_writer(f, (hs_summary_writer_options){.queue_bytes = QUEUE});
    pthread_t thread;
    void *failed;
    f->torn_at = 0;
    pthread_mutex_lock(&f->held);
    add(f, writer, 1, 1);
    while (f->torn_at >= 0)
        sched_yield();
    add(f, writer, 2, 2);
    assert_int_equal(pthread_create(&thread, NULL, close_it, writer), 0);
    while (!is_closing(writer))
        sched_yield();
    pthread_mutex_unlock(&f->held);
    pthread_join(thread, &failed);
    assert_null(failed);
    expect_steps(f, "version version x=1@1 x=2@2");
}

static void a_failing_writer_drops_all_events_and_stops(void **state)
{
    fixture *f = *state;
    hs_summary_writer *writer = open_writer(f, (hs_summary_writer_options){.on_error = HS_WRITER_FAILS});
    add(f, writer, 1, 2);
    f->torn_at = 3;
    assert_fails(hs_summary_writer_flush(writer, true, &f->err), HS_DATA_LOSS, &f->err, "a torn write");
    assert_fails(hs_summary_writer_reopen(writer, &f->err), HS_DATA_LOSS, &f->err, "a torn write");
    assert_int_equal(hs_summary_writer_status(writer).dropped, 2);
    assert_int_equal(hs_summary_writer_status(writer).files, 1);
    assert_false(hs_summary_writer_status(writer).retries);
    assert_fails(hs_summary_writer_close(writer, &f->err), HS_DATA_LOSS, &f->err, "a torn write");
    expect_steps(f, "version DAMAGED");
}

/* Deleted files. */

static void wr_104_wr_110s_a_deleted_file_gets_a_successor(void **state)
{
    fixture *f = *state;
    hs_summary_writer *writer = open_writer(f, (hs_summary_writer_options){0});
    add(f, writer, 1, 1);
    events_remove(f->directory);
    assert_ok(hs_summary_writer_flush(writer, false, &f->err), &f->err);
    expect_steps(f, "version x=1@1");
    char deleted[256], later[256];
    assert_int_equal(sscanf(f->t.log, "WARNING: %255s was deleted; later events are written to %255s", deleted, later), 2);
    assert_string_not_equal(deleted, later); /* also in the same second */
    assert_ok(hs_summary_writer_close(writer, &f->err), &f->err);
}

static void wr_105_closing_after_the_file_was_deleted(void **state)
{
    fixture *f = *state;
    hs_summary_writer *writer = open_writer(f, (hs_summary_writer_options){0});
    add(f, writer, 1, 1);
    test_remove_directory(strdup(f->directory));
    assert_ok(hs_summary_writer_close(writer, &f->err), &f->err);
    expect_steps(f, "version x=1@1");
}

/* If only one call fails, all events are written once. */

static hs_code write_some(test_env *t, void *user)
{
    hs_error err = {0}, first = {0};
    hs_summary_writer_options options = HS_INIT(hs_summary_writer_options, .env = &t->env);
    test_tolerate(t, "event file in "); /* the writer retries */
    events_remove(user);
    hs_summary_writer *writer = hs_summary_writer_open(user, &options, &first);
    if (!writer)
        return first.code;
    for (int i = 1; i <= 4; i++) {
        hs_code code = hs_summary_writer_scalar(writer, "x", i, i, &err);
        if (code) /* out of memory */
            first = err;
        hs_summary_writer_flush(writer, i % 2, NULL);
        if (i == 2)
            hs_summary_writer_reopen(writer, NULL);
    }
    hs_code flushed = hs_summary_writer_flush(writer, true, &err);
    return hs_summary_writer_close(writer, &err) ? err.code : first.code ? first.code : flushed;
}

static void all_is_there_once(void *user)
{
    char text[64] = "", *to = text;
    for (const char *word = events_text(user); *word; word += strcspn(word, " ")) {
        word += strspn(word, " ");
        if (strncmp(word, "x=", 2) == 0)
            *to++ = word[2];
    }
    if (text[0])
        assert_string_equal(text, "1234");
}

static void each_call_of_the_file_system_may_fail_once(void **state)
{
    const fixture *f = *state;
    test_each_file_call(write_some, all_is_there_once, ENOSPC, false, f->directory);
    test_each_file_call(write_some, NULL, EIO, true, f->directory);
    test_each_allocation(write_some, f->directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_disk(an_error_loses_no_event),
        with_disk(an_error_is_reported_once),
        with_disk(each_event_is_written_once_wherever_a_write_is_torn),
        with_disk(writing_is_retried_without_further_calls),
        with_disk(an_outage_drops_events_beyond_the_queue),
        with_disk(reopening_after_an_error_leaves_nothing_in_the_queue),
        with_disk(a_start_is_not_dropped),
        with_disk(events_that_cannot_be_written_at_the_end_are_counted),
        with_disk(after_a_failed_sync_a_new_file_is_begun),
        with_disk(a_failed_sync_of_an_old_file_is_reported),
        with_disk(a_failed_write_before_the_end_loses_nothing),
        with_disk(a_failing_writer_drops_all_events_and_stops),
        with_disk(wr_104_wr_110s_a_deleted_file_gets_a_successor),
        with_disk(wr_105_closing_after_the_file_was_deleted),
        with_disk(each_call_of_the_file_system_may_fail_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
