/* SPDX-License-Identifier: Apache-2.0 */
/* The behavior of TensorFlow's FileWriter, FileWriterCache and EventsWriter. */
#include "summary/writers.h"

#include <math.h>
#include <pthread.h>
#include <unistd.h>

/* Functions. */

/* The steps of the events, and the differences between their times and the clock's. */
typedef struct {
    int64_t steps[8];
    size_t n;
    double now, farthest;
} stamps;

static void note_stamp(const Hs__Pb__Event *event, void *user)
{
    stamps *s = user;
    s->steps[s->n++] = event->step;
    s->farthest = fmax(s->farthest, fabs(event->wall_time - s->now));
}

static void wr_001_wr_030s_all_kinds_are_written_in_order(void **state)
{
    fixture *f = *state;
    stamps seen = {.now = (double)f->t.now_ns / 1e9};
    const int64_t steps[] = {0, 1, 10, 20, 30, 40};
    hs_summary_writer *w = open_writer(f, .size = 0);
    assert_ok(hs_summary_writer_session_log(w, HS_SESSION_LOG_START, NULL, NULL, 1, &f->err), &f->err);
    add(f, w, "mee", 10);
    add(f, w, "boo", 20);
    assert_ok(hs_summary_writer_graph(w, (hs_bytes){"", 0}, 30, &f->err), &f->err);
    assert_ok(hs_summary_writer_run_metadata(w, "test run", (hs_bytes){"", 0}, 40, &f->err), &f->err);
    close_writer(f, w);
    assert_string_equal(events_text(f->directory), "version start@1 mee=10@10 boo=20@20 graph run[test run]@40");
    assert_true(events_each(f->directory, note_stamp, &seen));
    assert_int_equal(seen.n, 6);
    assert_memory_equal(seen.steps, steps, sizeof steps);
    assert_true(seen.farthest == 0);
}

static void a_tag_of_run_metadata_may_be_used_again(void **state)
{
    fixture *f = *state;
    hs_summary_writer *w = open_writer(f, .size = 0);
    for (int64_t step = 1; step <= 2; step++)
        assert_ok(hs_summary_writer_run_metadata(w, "test run", (hs_bytes){"", 0}, step, &f->err), &f->err);
    close_writer(f, w);
    assert_string_equal(events_text(f->directory), "version run[test run]@1 run[test run]@2");
}

static void wr_018s_wr_107_wr_108_a_file_without_events_has_its_version(void **state)
{
    fixture *f = *state;
    hs_summary_writer *w = open_writer(f, .size = 0);
    assert_int_equal(access(hs_summary_writer_path(w), R_OK), 0);
    close_writer(f, w);
    assert_string_equal(events_text(f->directory), "version");
}

static void wr_101_wr_102_wr_106_flushing_and_closing_write_the_events(void **state)
{
    fixture *f = *state;
    hs_summary_writer *w = open_writer(f, .size = 0);
    char path[512];
    snprintf(path, sizeof path, "%s", hs_summary_writer_path(w));
    add(f, w, "foo", 34);
    assert_ok(hs_summary_writer_flush(w, true, &f->err), &f->err);
    assert_string_equal(events_text(f->directory), "version foo=34@34");
    assert_string_equal(hs_summary_writer_path(w), path);
    add(f, w, "bar", 35);
    close_writer(f, w);
    assert_string_equal(events_text(f->directory), "version foo=34@34 bar=35@35");
}

static void wr_004_closing_an_idle_writer_takes_no_time(void **state)
{
    fixture *f = *state;
    close_writer(f, open_writer(f, .flush_secs = 1e6)); /* eleven days */
}

static void wr_005_adding_after_closing_is_refused(void **state)
{
    fixture *f = *state;
    hs_summary_writer *w = open_writer(f, .size = 0);
    close_writer(f, w);
    w = NULL; /* the writer is freed */
    assert_fails(hs_summary_writer_scalar(w, "x", 1, 1, &f->err), HS_INVALID_ARGUMENT, &f->err, "the event writer is NULL");
    assert_int_equal(hs_summary_writer_close(w, &f->err), HS_OK);
    assert_string_equal(events_text(f->directory), "version");
}

static void wr_009_each_file_has_the_suffix(void **state)
{
    enum { ROUNDS = 10 };
    fixture *f = *state;
    hs_summary_writer *w = open_writer(f, .name_suffix = "_test_suffix");
    for (int i = 0; i < ROUNDS; i++) {
        add(f, w, "x", i);
        assert_ok(hs_summary_writer_reopen(w, &f->err), &f->err);
    }
    close_writer(f, w);
    assert_int_equal(test_count_files(f->directory, "_test_suffix"), ROUNDS + 1);
    assert_int_equal(test_count_files(f->directory, "tfevents"), ROUNDS + 1);
    assert_contains(events_text(f->directory), "version x=0@0 version x=1@1 version x=2@2 ");
}

static void wr_020s_reopening_begins_a_file(void **state)
{
    fixture *f = *state;
    hs_summary_writer *w = open_writer(f, .size = 0);
    const char *first = hs_summary_writer_path(w);
    add(f, w, "x", 1);
    assert_ok(hs_summary_writer_reopen(w, &f->err), &f->err);
    assert_true(strcmp(hs_summary_writer_path(w), first) > 0); /* the old string is still valid */
    add(f, w, "x", 2);
    assert_int_equal(hs_summary_writer_status(w).files, 2);
    close_writer(f, w);
    assert_string_equal(events_text(f->directory), "version x=1@1 version x=2@2");
}

static void *reopen_often(void *user)
{
    enum { TIMES = 5 };
    for (int i = 0; i < TIMES; i++)
        if (hs_summary_writer_scalar(user, "t0", i, i, NULL) || hs_summary_writer_reopen(user, NULL))
            return user;
    return NULL;
}

static void many_threads_may_reopen(void **state)
{
    enum { THREADS = 4 };
    fixture *f = *state;
    pthread_t threads[THREADS];
    void *failed;
    hs_summary_writer *w = open_writer(f, .size = 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, reopen_often, w), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(hs_summary_writer_status(w).events, 20);
    close_writer(f, w);
    assert_lacks(events_text(f->directory), "DAMAGED");
}

static void wr_002_a_graph_and_a_meta_graph_are_written(void **state)
{
    fixture *f = *state;
    hs_summary_writer *w = open_writer(f, .size = 0);
    assert_ok(hs_summary_writer_graph(w, (hs_bytes){"", 0}, 0, &f->err), &f->err);
    assert_ok(hs_summary_writer_meta_graph(w, (hs_bytes){"", 0}, 0, &f->err), &f->err);
    close_writer(f, w);
    assert_string_equal(events_text(f->directory), "version graph meta");
}

static void wr_006_opening_and_closing_writes_one_file(void **state)
{
    fixture *f = *state;
    hs_summary_writer *w = open_writer(f, .size = 0);
    assert_ok(hs_summary_writer_session_log(w, HS_SESSION_LOG_START, NULL, NULL, 1, &f->err), &f->err);
    close_writer(f, w);
    assert_string_equal(events_text(f->directory), "version start@1");
    assert_int_equal(test_count_files(f->directory, "tfevents"), 1);
}

static void wr_007_summaries_and_single_values_are_written(void **state)
{
    fixture *f = *state;
    hs_summary *summary = hs_summary_new(NULL);
    hs_summary_writer *w = open_writer(f, .size = 0);
    assert_ok(hs_summary_scalar(summary, "i", 1, &f->err), &f->err);
    assert_ok(hs_summary_writer_summary(w, hs_summary_serialized(summary), 1, &f->err), &f->err);
    hs_summary_free(summary);
    add(f, w, "l", 2);
    close_writer(f, w);
    assert_string_equal(events_text(f->directory), "version i=1@1 l=2@2");
}

/* Writes a value with metadata twice. */
static void wr_021s_metadata_is_kept(void **state)
{
    static const char value[] = "\x0a\x0e\x0a\x01m\x15\x00\x00\x80\x3f\x4a\x04\x12\x02"
                                "me";
    fixture *f = *state;
    size_t bytes, found = 0;
    hs_summary_writer *w = open_writer(f, .size = 0);
    for (int i = 0; i < 2; i++)
        assert_ok(hs_summary_writer_summary(w, (hs_string){value, sizeof value - 1}, i, &f->err), &f->err);
    assert_ok(hs_summary_writer_flush(w, false, &f->err), &f->err);
    char *data = test_read_file(hs_summary_writer_path(w), &bytes);
    for (size_t i = 0; i + sizeof value <= bytes; i++)
        found += memcmp(data + i, value, sizeof value - 1) == 0;
    free(data);
    assert_int_equal(found, 2);
    close_writer(f, w);
}

static void wr_113s_a_flush_without_events_succeeds(void **state)
{
    fixture *f = *state;
    hs_summary_writer *w = open_writer(f, .size = 0);
    size_t before = f->t.file_calls;
    assert_ok(hs_summary_writer_flush(w, true, &f->err), &f->err);
    assert_int_equal(f->t.file_calls, before);
    close_writer(f, w);
}

static void wr_112s_a_failure_to_open_is_reported(void **state)
{
    fixture *f = *state;
    hs_summary_writer_options options = HS_INIT(hs_summary_writer_options, .env = &f->t.env);
    f->t.fail_file_at = f->t.file_calls + 1;
    f->t.fail_file_on = true;
    assert_null(hs_summary_writer_open(f->directory, &options, &f->err));
    assert_says(&f->err, HS_RESOURCE_EXHAUSTED, "injected");
}

/* Serialized summaries and events are checked before they are written. */

#define BYTES(text) (text), sizeof(text) - 1

static void wr_029s_bytes_that_are_not_a_summary_are_refused(void **state)
{
    static const hs_string bad[] = {
        {BYTES("\x0a")},             /* without a length */
        {BYTES("\x0a\x05x")},        /* truncated */
        {BYTES("\x08\x01")},         /* a number instead of a value */
        {BYTES("\x0a\x02\x08\x01")}, /* a number instead of the tag */
        {BYTES("\x0a\x02\x15\x01")}, /* a truncated value */
        {BYTES("\x00")},             /* field number 0 */
        {BYTES("\x7b")},             /* a group */
        {BYTES("\x9a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")},
        {BYTES("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01")},
    };
    fixture *f = *state;
    hs_summary_writer *w = open_writer(f, .size = 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_fails(hs_summary_writer_summary(w, bad[i], 1, &f->err), HS_INVALID_ARGUMENT, &f->err,
                     "bytes are not a serialized Summary");
    assert_ok(hs_summary_writer_summary(w, (hs_string){BYTES("\xaa\x06\x01x")}, 2, &f->err), &f->err); /* field 101 */
    assert_int_equal(hs_summary_writer_status(w).events, 1);
    close_writer(f, w);
    assert_string_equal(events_text(f->directory), "version @2");
}

static void tags_that_are_not_utf_8_are_refused(void **state)
{
    fixture *f = *state;
    hs_summary_writer *w = open_writer(f, .size = 0);
    assert_fails(hs_summary_writer_scalar(w, "gr\xf6\xdf e", 1, 1, &f->err), HS_INVALID_ARGUMENT, &f->err, "UTF-8");
    assert_fails(hs_summary_writer_run_metadata(w, "12345678\xff", (hs_bytes){"", 0}, 1, &f->err), HS_INVALID_ARGUMENT,
                 &f->err, "UTF-8");
    close_writer(f, w);
    assert_string_equal(events_text(f->directory), "version");
}

static void read_log(const Hs__Pb__Event *event, void *user)
{
    if (event->what_case == HS__PB__EVENT__WHAT_SESSION_LOG)
        snprintf(user, 64, "%s|%s", event->session_log->checkpoint_path, event->session_log->msg);
}

static void paths_that_are_not_utf_8_are_written_readably(void **state)
{
    fixture *f = *state;
    char text[64] = "";
    hs_summary_writer *w = open_writer(f, .size = 0);
    assert_ok(hs_summary_writer_session_log(w, HS_SESSION_LOG_CHECKPOINT, "/gr\xf6\xdf e", "größe", 1, &f->err), &f->err);
    close_writer(f, w);
    events_each(f->directory, read_log, text);
    assert_string_equal(text, "/gr?? e|größe");
}

static void serialized_events_are_written_unchanged(void **state)
{
    static const char event[] = "\x09\x00\x00\x00\x00\x00\x00\xf0\x3f\x10\x07\x2a\x0a\x0a\x08\x0a\x01y\x15\x00\x00\x00\x40";
    fixture *f = *state;
    hs_summary_writer *w = open_writer(f, .size = 0);
    assert_ok(hs_summary_writer_event(w, (hs_bytes){BYTES(event)}, &f->err), &f->err);
    close_writer(f, w);
    assert_string_equal(events_text(f->directory), "version y=2@7");
}

static void bytes_that_are_not_an_event_are_refused(void **state)
{
    static const hs_bytes bad[] = {
        {NULL, 0},
        {BYTES("")},
        {BYTES("\x09\x00")},                 /* a truncated time */
        {BYTES("\x08\x01")},                 /* a time of another type */
        {BYTES("\x10\x01\x2a\x02\x08\x01")}, /* an invalid summary */
        {BYTES("\x10\x01\x3a\x01\xff")},     /* an invalid session log */
        {BYTES("hello")},
    };
    fixture *f = *state;
    hs_summary_writer *w = open_writer(f, .size = 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_fails(hs_summary_writer_event(w, bad[i], &f->err), HS_INVALID_ARGUMENT, &f->err,
                     "bytes are not a serialized Event");
    close_writer(f, w);
    assert_string_equal(events_text(f->directory), "version");
}

/* Times. */

static void record_time(const Hs__Pb__Event *event, void *user)
{
    double *last = user;
    *last = event->wall_time;
}

static void wr_024s_the_time_is_that_of_the_call(void **state)
{
    fixture *f = *state;
    double last = 0;
    hs_summary_writer *w = open_writer(f, .size = 0);
    test_env_advance(&f->t, 2.5);
    add(f, w, "x", 1);
    test_env_advance(&f->t, 100);
    close_writer(f, w);
    assert_true(events_each(f->directory, record_time, &last));
    assert_true(last == 1700000002.5);
}

/* The byte after an event's time in the last record of the file. */
static unsigned char field_after_the_time(fixture *f, int64_t step)
{
    enum { HEAD = 12, TIME = 9 };
    hs_summary_writer *w = open_writer(f, .size = 0);
    size_t version, bytes;
    free(test_read_file(hs_summary_writer_path(w), &version));
    add(f, w, "x", step);
    assert_ok(hs_summary_writer_flush(w, false, &f->err), &f->err);
    char *data = test_read_file(hs_summary_writer_path(w), &bytes);
    unsigned char field = (unsigned char)data[version + HEAD + TIME];
    free(data);
    close_writer(f, w);
    return field;
}

static void wr_024s_step_0_is_omitted(void **state)
{
    assert_int_equal(field_after_the_time(*state, 1), 2 << 3);     /* step */
    assert_int_equal(field_after_the_time(*state, 0), 5 << 3 | 2); /* summary */
}

static void wr_023s_wr_111s_the_first_record_names_the_writer(void **state)
{
    fixture *f = *state;
    size_t bytes;
    hs_summary_writer *w = open_writer(f, .size = 0);
    char *data = test_read_file(hs_summary_writer_path(w), &bytes); /* opening writes the record */
    const char tail[] = "\x1a\x0d"
                        "brain.Event:2\x52\x0a\x0a\x08hooksess";
    assert_memory_equal(data + 12 + 9, tail, sizeof tail - 1);
    free(data);
    close_writer(f, w);
}

static void wr_027s_directories_are_created(void **state)
{
    fixture *f = *state;
    close_writer(f, open_in(f, "a/b/c", (hs_summary_writer_options){0}, false));
    assert_string_equal(events_text(test_path(f->directory, "a/b/c")), "version");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_files(wr_001_wr_030s_all_kinds_are_written_in_order),
        with_files(a_tag_of_run_metadata_may_be_used_again),
        with_files(wr_018s_wr_107_wr_108_a_file_without_events_has_its_version),
        with_files(wr_101_wr_102_wr_106_flushing_and_closing_write_the_events),
        with_files(wr_004_closing_an_idle_writer_takes_no_time),
        with_files(wr_005_adding_after_closing_is_refused),
        with_files(wr_009_each_file_has_the_suffix),
        with_files(wr_020s_reopening_begins_a_file),
        with_files(many_threads_may_reopen),
        with_files(wr_002_a_graph_and_a_meta_graph_are_written),
        with_files(wr_006_opening_and_closing_writes_one_file),
        with_files(wr_007_summaries_and_single_values_are_written),
        with_files(wr_021s_metadata_is_kept),
        with_files(wr_113s_a_flush_without_events_succeeds),
        with_files(wr_112s_a_failure_to_open_is_reported),
        with_files(wr_029s_bytes_that_are_not_a_summary_are_refused),
        with_files(tags_that_are_not_utf_8_are_refused),
        with_files(paths_that_are_not_utf_8_are_written_readably),
        with_files(serialized_events_are_written_unchanged),
        with_files(bytes_that_are_not_an_event_are_refused),
        with_files(wr_024s_the_time_is_that_of_the_call),
        with_files(wr_024s_step_0_is_omitted),
        with_files(wr_023s_wr_111s_the_first_record_names_the_writer),
        with_files(wr_027s_directories_are_created),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
