/* SPDX-License-Identifier: Apache-2.0 */
/* The contents of event files. Failures and concurrency are in test_writer_faults.c. */
#include "summary/events.h"

#include <unistd.h>

typedef struct {
    test_env t;
    char *directory;
    hs_summary_writer *writer;
    hs_error err;
} fixture;

static hs_summary_writer *open_writer(fixture *f, hs_summary_writer_options options)
{
    options.env = &f->t.env;
    hs_summary_writer *writer = hs_summary_writer_open(f->directory, &options, &f->err);
    if (!writer)
        fail_msg("%s", f->err.message);
    return writer;
}

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    test_env_init(&f->t);
    f->directory = test_make_directory();
    f->writer = open_writer(f, (hs_summary_writer_options)HS_INIT(hs_summary_writer_options));
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    hs_summary_writer_close(f->writer, NULL);
    test_remove_directory(f->directory);
    size_t left = f->t.live;
    free(f);
    assert_int_equal(left, 0);
    return 0;
}
#define with_writer(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

static void close_writer(fixture *f)
{
    hs_code code = hs_summary_writer_close(f->writer, &f->err);
    f->writer = NULL;
    assert_ok(code, &f->err);
}

static void add(fixture *f, const char *tag, double value, int64_t step)
{
    assert_ok(hs_summary_writer_scalar(f->writer, tag, value, step, &f->err), &f->err);
}

/* Names. */

static void a_name_has_the_time_and_identifies_the_writer(void **state)
{
    const fixture *f = *state;
    char wanted[64];
    const char *path = hs_summary_writer_path(f->writer);
    assert_int_equal(strncmp(path, f->directory, strlen(f->directory)), 0);
    assert_contains(path, "/events.out.tfevents.1700000000.");
    snprintf(wanted, sizeof wanted, ".%ld.0", (long)getpid());
    assert_string_equal(path + strlen(path) - strlen(wanted), wanted);
    assert_int_equal(access(path, R_OK), 0);
}

static void two_writers_of_one_second_have_separate_files(void **state)
{
    fixture *f = *state;
    hs_summary_writer *second = open_writer(f, (hs_summary_writer_options)HS_INIT(hs_summary_writer_options));
    assert_string_not_equal(hs_summary_writer_path(f->writer), hs_summary_writer_path(second));
    add(f, "first", 1, 1);
    assert_ok(hs_summary_writer_scalar(second, "second", 2, 2, &f->err), &f->err);
    assert_ok(hs_summary_writer_close(second, &f->err), &f->err);
    close_writer(f);
    assert_string_equal(events_text(f->directory), "version first=1@1 version second=2@2");
}

static void a_suffix_is_at_the_end(void **state)
{
    fixture *f = *state;
    hs_summary_writer *second =
        open_writer(f, (hs_summary_writer_options)HS_INIT(hs_summary_writer_options, .name_suffix = ".eval"));
    const char *path = hs_summary_writer_path(second);
    assert_string_equal(path + strlen(path) - 5, ".eval");
    hs_summary_writer_close(second, NULL);
}

/* Readers read a directory's files in the order of their names. */
static void a_name_sorts_after_existing_names(void **state)
{
    fixture *f = *state;
    static const char old[] = "events.out.tfevents.1800000000.zebra.1.0";
    test_write_file(test_path(f->directory, old), "", 0);
    hs_summary_writer *second = open_writer(f, (hs_summary_writer_options)HS_INIT(hs_summary_writer_options));
    const char *path = hs_summary_writer_path(second);
    assert_true(strcmp(path + strlen(f->directory) + 1, old) > 0);
    hs_summary_writer_close(second, NULL);
}

static void missing_directories_are_created(void **state)
{
    fixture *f = *state;
    hs_summary_writer_options options = HS_INIT(hs_summary_writer_options, .env = &f->t.env);
    hs_summary_writer *deep = hs_summary_writer_open(test_path(f->directory, "a/b/c"), &options, &f->err);
    assert_non_null(deep);
    hs_summary_writer_close(deep, NULL);
    assert_string_equal(events_text(test_path(f->directory, "a/b/c")), "version");
}

/* Events. */

static void the_version_is_written_when_the_file_is_opened(void **state)
{
    const fixture *f = *state;
    assert_string_equal(events_text(f->directory), "version");
}

static void record_version(const Hs__Pb__Event *event, void *user)
{
    hs_error *seen = user;
    if (event->what_case == HS__PB__EVENT__WHAT_FILE_VERSION)
        snprintf(seen->message, sizeof seen->message, "%s", event->file_version);
}

static void the_version_is_known_to_readers(void **state)
{
    fixture *f = *state;
    assert_true(events_each(f->directory, record_version, &f->err));
    assert_string_equal(f->err.message, "brain.Event:2");
}

static void scalars_are_written(void **state)
{
    fixture *f = *state;
    add(f, "loss", 0.5, 1);
    add(f, "loss", -2, 0);
    add(f, "accuracy", 1, 1234567890123);
    close_writer(f);
    assert_string_equal(events_text(f->directory), "version loss=0.5@1 loss=-2@0 accuracy=1@1234567890123");
}

static void summaries_are_written(void **state)
{
    fixture *f = *state;
    hs_summary *summary = hs_summary_new(NULL);
    hs_summary_scalar(summary, "a", 1, NULL);
    hs_summary_scalar(summary, "b", 2, NULL);
    assert_ok(hs_summary_writer_summary(f->writer, hs_summary_serialized(summary), 7, &f->err), &f->err);
    hs_summary_free(summary); /* the writer has copied it */
    close_writer(f);
    assert_string_equal(events_text(f->directory), "version a=1,b=2@7");
}

static void record_graphs(const Hs__Pb__Event *event, void *user)
{
    hs_bytes *seen = user;
    const ProtobufCBinaryData *data = event->what_case == HS__PB__EVENT__WHAT_GRAPH_DEF        ? &event->graph_def
                                      : event->what_case == HS__PB__EVENT__WHAT_META_GRAPH_DEF ? &event->meta_graph_def
                                                                                               : NULL;
    if (data && data->len == seen->size && memcmp(data->data, seen->data, seen->size) == 0)
        seen->size--; /* the next event is shorter */
}

static void graphs_and_meta_graphs_are_written(void **state)
{
    fixture *f = *state;
    hs_bytes expected = {"some bytes", 10};
    assert_ok(hs_summary_writer_graph(f->writer, (hs_bytes){"some bytes", 10}, 3, &f->err), &f->err);
    assert_ok(hs_summary_writer_meta_graph(f->writer, (hs_bytes){"some bytes", 9}, 3, &f->err), &f->err);
    close_writer(f);
    assert_string_equal(events_text(f->directory), "version graph meta");
    assert_true(events_each(f->directory, record_graphs, &expected));
    assert_int_equal(expected.size, 8);
}

static void record_log(const Hs__Pb__Event *event, void *user)
{
    if (event->what_case == HS__PB__EVENT__WHAT_SESSION_LOG)
        snprintf(user, 64, "%s %s", event->session_log->checkpoint_path, event->session_log->msg);
}

static void session_logs_are_written(void **state)
{
    fixture *f = *state;
    char seen[64] = "";
    hs_summary_writer_session_log(f->writer, HS_SESSION_LOG_START, NULL, NULL, 1, NULL);
    hs_summary_writer_session_log(f->writer, HS_SESSION_LOG_STOP, NULL, NULL, 8, NULL);
    assert_ok(hs_summary_writer_session_log(f->writer, HS_SESSION_LOG_CHECKPOINT, "run/m-9", "saved", 9, &f->err), &f->err);
    close_writer(f);
    assert_string_equal(events_text(f->directory), "version start@1 stop@8 checkpoint@9");
    assert_true(events_each(f->directory, record_log, seen));
    assert_string_equal(seen, "run/m-9 saved");
}

static void record_time(const Hs__Pb__Event *event, void *user)
{
    double *last = user;
    *last = event->wall_time;
}

static void an_event_has_the_time_of_the_call(void **state)
{
    fixture *f = *state;
    double last = 0;
    test_env_advance(&f->t, 2.5);
    add(f, "loss", 1, 1);
    test_env_advance(&f->t, 100);
    close_writer(f);
    assert_true(events_each(f->directory, record_time, &last));
    assert_true(last == 1700000002.5);
}

static void an_event_larger_than_the_queue(void **state)
{
    enum { LARGE = 100000 };
    fixture *f = *state;
    char *data = calloc(1, LARGE);
    close_writer(f);
    f->writer = open_writer(f, (hs_summary_writer_options)HS_INIT(hs_summary_writer_options, .queue_bytes = 100));
    for (int i = 0; i < 3; i++)
        assert_ok(hs_summary_writer_graph(f->writer, (hs_bytes){data, LARGE}, i, &f->err), &f->err);
    close_writer(f);
    free(data);
    assert_string_equal(events_text(f->directory), "version version graph graph graph");
}

/* Flushing and closing. */

static void flushing_writes_everything_to_the_file(void **state)
{
    fixture *f = *state;
    add(f, "loss", 1, 1);
    assert_ok(hs_summary_writer_flush(f->writer, false, &f->err), &f->err);
    assert_string_equal(events_text(f->directory), "version loss=1@1");
    add(f, "loss", 2, 2);
    assert_ok(hs_summary_writer_flush(f->writer, true, &f->err), &f->err);
    assert_string_equal(events_text(f->directory), "version loss=1@1 loss=2@2");
}

static void flushing_without_events_succeeds(void **state)
{
    fixture *f = *state;
    assert_ok(hs_summary_writer_flush(f->writer, false, &f->err), &f->err);
    assert_ok(hs_summary_writer_flush(f->writer, true, &f->err), &f->err);
    add(f, "loss", 1, 1);
    assert_ok(hs_summary_writer_flush(f->writer, false, &f->err), &f->err);
    assert_ok(hs_summary_writer_flush(f->writer, true, &f->err), &f->err); /* syncs the bytes that are already written */
    assert_ok(hs_summary_writer_flush(f->writer, true, &f->err), &f->err);
}

static void closing_writes_queued_events(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < 5000; i++)
        add(f, "loss", i, i);
    close_writer(f);
    const char *text = events_text(f->directory);
    assert_contains(text, "version loss=0@0 loss=1@1 ");
    assert_string_equal(text + strlen(text) - strlen(" loss=4999@4999"), " loss=4999@4999");
}

static void closing_null_succeeds(void **state)
{
    fixture *f = *state;
    f->err.code = HS_INTERNAL;
    assert_int_equal(hs_summary_writer_close(NULL, &f->err), HS_OK);
    assert_int_equal(f->err.code, HS_OK);
}

/* Invalid arguments. */

static void invalid_options_are_refused(void **state)
{
    fixture *f = *state;
    static const struct {
        hs_summary_writer_options options;
        const char *message;
    } cases[] = {
        {HS_INIT(hs_summary_writer_options, .flush_secs = -2), "flush_secs is -2; it must be from 0 to 1e9, or HS_NEVER"},
        {HS_INIT(hs_summary_writer_options, .flush_secs = 1e300), "flush_secs is 1e+300"},
        {HS_INIT(hs_summary_writer_options, .queue_bytes = -5), "queue_bytes is -5; it must be at least 0, or HS_NEVER"},
        {HS_INIT(hs_summary_writer_options, .name_suffix = "a/b"), "'a/b' contains '/'"},
        {{.flush_secs = 1}, "HS_INIT(hs_summary_writer_options"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_null(hs_summary_writer_open(f->directory, &cases[i].options, &f->err));
        assert_says(&f->err, HS_INVALID_ARGUMENT, cases[i].message);
    }
    assert_int_equal(test_count_files(f->directory, "events"), 1); /* the fixture's */
}

static void a_directory_is_needed(void **state)
{
    fixture *f = *state;
    assert_null(hs_summary_writer_open(NULL, NULL, &f->err));
    assert_says(&f->err, HS_INVALID_ARGUMENT, "directory");
    assert_null(hs_summary_writer_open("", NULL, &f->err));
    assert_says(&f->err, HS_INVALID_ARGUMENT, "directory");
    test_write_file(test_path(f->directory, "file"), "x", 1);
    assert_null(hs_summary_writer_open(test_path(f->directory, "file"), NULL, &f->err));
    assert_says(&f->err, HS_FAILED_PRECONDITION, "is not a directory");
}

static void a_tag_is_needed(void **state)
{
    fixture *f = *state;
    assert_fails(hs_summary_writer_scalar(f->writer, "", 1, 1, &f->err), HS_INVALID_ARGUMENT, &f->err, "tag");
    assert_fails(hs_summary_writer_scalar(f->writer, NULL, 1, 1, &f->err), HS_INVALID_ARGUMENT, &f->err, "tag");
    close_writer(f);
    assert_string_equal(events_text(f->directory), "version");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_writer(a_name_has_the_time_and_identifies_the_writer),
        with_writer(two_writers_of_one_second_have_separate_files),
        with_writer(a_suffix_is_at_the_end),
        with_writer(a_name_sorts_after_existing_names),
        with_writer(missing_directories_are_created),
        with_writer(the_version_is_written_when_the_file_is_opened),
        with_writer(the_version_is_known_to_readers),
        with_writer(scalars_are_written),
        with_writer(summaries_are_written),
        with_writer(graphs_and_meta_graphs_are_written),
        with_writer(session_logs_are_written),
        with_writer(an_event_has_the_time_of_the_call),
        with_writer(an_event_larger_than_the_queue),
        with_writer(flushing_writes_everything_to_the_file),
        with_writer(flushing_without_events_succeeds),
        with_writer(closing_writes_queued_events),
        with_writer(closing_null_succeeds),
        with_writer(invalid_options_are_refused),
        with_writer(a_directory_is_needed),
        with_writer(a_tag_is_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
