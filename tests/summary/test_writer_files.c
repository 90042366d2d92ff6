/* SPDX-License-Identifier: Apache-2.0 */
/* Event files in a directory: their names, failed openings, and syncing. */
#include "base/file_spy.h"
#include "summary/events.h"

#include <errno.h>
#include <unistd.h>

enum { TROUBLE = HS_USER + 7 }; /* a code that the library never creates */

typedef struct {
    test_env t;
    file_spy spy;
    char *directory;
    hs_error err;
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    test_env_init(&f->t);
    file_spy_init(&f->spy, &f->t.env);
    f->directory = test_make_directory();
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    test_remove_directory(f->directory);
    size_t left = f->t.live;
    free(f);
    assert_int_equal(left, 0);
    return 0;
}
#define with_files(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

static hs_summary_writer *open_writer(fixture *f)
{
    hs_summary_writer_options options = HS_INIT(hs_summary_writer_options, .env = &f->spy.env);
    return hs_summary_writer_open(f->directory, &options, &f->err);
}

/* Names. */

#define EVENTS "events.out.tfevents."

static void put(const fixture *f, const char *name)
{
    test_write_file(test_path(f->directory, name), "", 0);
}

/* Opens another writer. `name` gets the name of its file. */
static void open_one(fixture *f, char name[128])
{
    hs_summary_writer *writer = open_writer(f);
    if (!writer)
        fail_msg("%s", f->err.message);
    snprintf(name, 128, "%s", hs_summary_writer_path(writer) + strlen(f->directory) + 1);
    assert_ok(hs_summary_writer_close(writer, &f->err), &f->err);
}

static void unusual_names_are_ignored(void **state)
{
    static const char *const odd[] = {EVENTS "bak",          EVENTS,
                                      EVENTS "9999999999.x", EVENTS "99999999999.host.1.0",
                                      EVENTS "18000000000",  EVENTS "180000000.host.1.0",
                                      EVENTS "x1800000000",  "zevents.out.tfevents.1800000000.host.1.0"};
    fixture *f = *state;
    char name[128];
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        put(f, odd[i]);
        open_one(f, name);
        assert_int_equal(strncmp(name, EVENTS "1700000000.", strlen(EVENTS) + 11), 0);
        assert_int_equal(unlink(test_path(f->directory, name)), 0);
    }
}

/* Up to the last second with ten digits. */
static void a_name_sorts_after_all_regular_names(void **state)
{
    static const char *const regular[] = {EVENTS "1700000000.zebra.1.0", EVENTS "1800000000.zebra.1.0.suffix",
                                          EVENTS "9999999998.zebra.1.0"};
    fixture *f = *state;
    char name[128];
    put(f, EVENTS "bak");
    put(f, EVENTS "9999999999.x");
    put(f, EVENTS "99999999999.host.1.0");
    for (size_t i = 0; i < sizeof regular / sizeof *regular; i++) {
        put(f, regular[i]);
        open_one(f, name);
        assert_true(strcmp(name, regular[i]) > 0);
        assert_int_equal(strspn(name + strlen(EVENTS), "0123456789"), 10);
    }
}

static void many_files_of_one_second_stay_in_order(void **state)
{
    fixture *f = *state;
    char before[128] = "", name[128];
    for (int i = 0; i < 24; i++) {
        open_one(f, name);
        assert_true(strcmp(name, before) > 0);
        strcpy(before, name);
    }
}

/* Failed openings. */

static hs_code open_and_close(test_env *t, void *user)
{
    const fixture *f = user;
    hs_error err = {0};
    hs_summary_writer_options options = HS_INIT(hs_summary_writer_options, .env = &t->env);
    events_remove(f->directory);
    hs_summary_writer *writer = hs_summary_writer_open(f->directory, &options, &err);
    if (!writer)
        assert_int_equal(test_count_files(f->directory, "events"), 0);
    return writer ? hs_summary_writer_close(writer, &err) : err.code;
}

static void a_failed_opening_leaves_no_file(void **state)
{
    test_each_file_call(open_and_close, NULL, ENOSPC, false, *state);
    test_each_file_call(open_and_close, NULL, EIO, true, *state);
    test_each_allocation(open_and_close, *state);
}

/* A file system that returns a code without an error message. */

static void a_failed_opening_without_a_message_is_reported(void **state)
{
    fixture *f = *state;
    hs_summary_writer *writer = NULL;
    size_t n = 0;
    f->spy.silent = true;
    while (!writer) {
        test_remove_directory(strdup(f->directory)); /* so that opening creates it */
        file_spy_fail(&f->spy, ++n, TROUBLE);
        f->err = (hs_error){HS_NOT_FOUND, 2, "something older"};
        writer = open_writer(f);
        assert_int_equal(f->err.code, writer ? HS_OK : TROUBLE);
        assert_int_equal(f->err.message[0] != '\0', !writer);
        assert_lacks(f->err.message, "something older");
        assert_lacks(f->err.message, "No such file"); /* the expected error before it was created */
    }
    assert_true(n > 7); /* list, open, write and sync among them */
    file_spy_fail(&f->spy, 0, HS_OK);
    assert_ok(hs_summary_writer_close(writer, &f->err), &f->err);
}

static void a_failed_write_without_a_message_is_reported(void **state)
{
    fixture *f = *state;
    hs_summary_writer_options options = HS_INIT(hs_summary_writer_options, .env = &f->spy.env, .on_error = HS_WRITER_FAILS);
    hs_summary_writer *writer = hs_summary_writer_open(f->directory, &options, &f->err);
    f->spy.what = "write";
    f->spy.silent = true;
    file_spy_fail(&f->spy, 1, TROUBLE);
    assert_ok(hs_summary_writer_scalar(writer, "loss", 1, 1, &f->err), &f->err);
    assert_fails(hs_summary_writer_flush(writer, false, &f->err), TROUBLE, &f->err, "writing a file failed with USER");
    assert_fails(hs_summary_writer_scalar(writer, "loss", 2, 2, &f->err), TROUBLE, &f->err, "failed with USER");
    assert_fails(hs_summary_writer_close(writer, &f->err), TROUBLE, &f->err, "failed with USER");
}

static void a_failed_close_without_a_message_is_reported(void **state)
{
    fixture *f = *state;
    hs_summary_writer *writer = open_writer(f);
    f->spy.what = "close";
    f->spy.silent = true;
    file_spy_fail(&f->spy, 1, TROUBLE);
    assert_fails(hs_summary_writer_close(writer, &f->err), TROUBLE, &f->err, "closing a file failed with USER");
}

/* Syncing. */

static void expect(fixture *f, const char *calls)
{
    assert_string_equal(f->spy.calls, calls);
    file_spy_forget(&f->spy);
}

static void begin_to_watch(fixture *f)
{
    f->spy.noted = "make open write sync remove directory";
    f->spy.no_names = true;
}

static void the_directory_is_synced_after_the_file_is_created(void **state)
{
    fixture *f = *state;
    begin_to_watch(f);
    hs_summary_writer *writer = open_writer(f);
    expect(f, "open write sync directory");
    assert_ok(hs_summary_writer_close(writer, &f->err), &f->err);
    expect(f, "sync");
}

static void a_created_directory_is_synced_in_its_parent(void **state)
{
    fixture *f = *state;
    test_remove_directory(strdup(f->directory));
    begin_to_watch(f);
    hs_summary_writer *writer = open_writer(f);
    expect(f, "make directory open write sync directory");
    assert_ok(hs_summary_writer_close(writer, &f->err), &f->err);
}

static void flush(fixture *f, hs_summary_writer *writer, bool sync)
{
    assert_ok(hs_summary_writer_flush(writer, sync, &f->err), &f->err);
}

static void add_some(fixture *f, hs_summary_writer *writer)
{
    for (int i = 0; i < 5; i++)
        assert_ok(hs_summary_writer_scalar(writer, "loss", i, i, &f->err), &f->err);
}

static void a_flush_syncs_once_and_only_if_requested(void **state)
{
    fixture *f = *state;
    hs_summary_writer *writer = open_writer(f);
    begin_to_watch(f);
    add_some(f, writer);
    flush(f, writer, true);
    expect(f, "write sync");
    flush(f, writer, true); /* nothing to do */
    expect(f, "");
    add_some(f, writer);
    flush(f, writer, false);
    expect(f, "write");
    flush(f, writer, true); /* syncs the bytes that are already written */
    expect(f, "sync");
    assert_ok(hs_summary_writer_close(writer, &f->err), &f->err);
    expect(f, "sync");
}

/* NULL arguments return a result and do not crash. */

static void a_null_writer_is_refused(void **state)
{
    fixture *f = *state;
    hs_error *err = &f->err;
    const hs_string text = {"x", 1};
    const hs_bytes bytes = {"x", 1};
    const char *why = "the event writer is NULL";
    assert_null(hs_summary_writer_path(NULL));
    assert_fails(hs_summary_writer_flush(NULL, true, err), HS_INVALID_ARGUMENT, err, why);
    assert_fails(hs_summary_writer_scalar(NULL, "loss", 1, 1, err), HS_INVALID_ARGUMENT, err, why);
    assert_fails(hs_summary_writer_summary(NULL, text, 1, err), HS_INVALID_ARGUMENT, err, why);
    assert_fails(hs_summary_writer_graph(NULL, bytes, 1, err), HS_INVALID_ARGUMENT, err, why);
    assert_fails(hs_summary_writer_meta_graph(NULL, bytes, 1, err), HS_INVALID_ARGUMENT, err, why);
    assert_fails(hs_summary_writer_event(NULL, bytes, err), HS_INVALID_ARGUMENT, err, why);
    assert_fails(hs_summary_writer_reopen(NULL, err), HS_INVALID_ARGUMENT, err, why);
    assert_int_equal(hs_summary_writer_status(NULL).files, 0);
    assert_fails(hs_summary_writer_session_log(NULL, HS_SESSION_LOG_STOP, NULL, NULL, 1, err), HS_INVALID_ARGUMENT, err,
                 why);
    assert_int_equal(hs_summary_writer_close(NULL, NULL), HS_OK);
    assert_int_equal(hs_summary_writer_flush(NULL, true, NULL), HS_INVALID_ARGUMENT);
    assert_int_equal(hs_summary_writer_scalar(NULL, NULL, 1, 1, NULL), HS_INVALID_ARGUMENT);
    assert_null(hs_summary_writer_open(NULL, NULL, NULL));
}

static void bytes_without_data_are_refused(void **state)
{
    fixture *f = *state;
    const hs_string text = {NULL, 5};
    const hs_bytes bytes = {NULL, 5};
    hs_summary_writer *writer = open_writer(f);
    assert_fails(hs_summary_writer_summary(writer, text, 1, &f->err), HS_INVALID_ARGUMENT, &f->err, "is NULL");
    assert_fails(hs_summary_writer_graph(writer, bytes, 1, &f->err), HS_INVALID_ARGUMENT, &f->err, "is NULL");
    assert_fails(hs_summary_writer_meta_graph(writer, bytes, 1, &f->err), HS_INVALID_ARGUMENT, &f->err, "is NULL");
    assert_fails(hs_summary_writer_event(writer, bytes, &f->err), HS_INVALID_ARGUMENT, &f->err,
                 "bytes are not a serialized Event");
    assert_ok(hs_summary_writer_summary(writer, (hs_string){NULL, 0}, 3, &f->err), &f->err); /* without values */
    assert_ok(hs_summary_writer_session_log(writer, HS_SESSION_LOG_START, NULL, NULL, 4, NULL), &f->err);
    assert_ok(hs_summary_writer_close(writer, NULL), &f->err);
    assert_string_equal(events_text(f->directory), "version @3 start@4");
}

static void a_null_summary_is_refused(void **state)
{
    fixture *f = *state;
    assert_fails(hs_summary_scalar(NULL, "loss", 1, &f->err), HS_RESOURCE_EXHAUSTED, &f->err, "NULL");
    assert_fails(hs_summary_scalar(NULL, NULL, 1, &f->err), HS_INVALID_ARGUMENT, &f->err, "tag");
    assert_null(hs_summary_serialized(NULL).data);
    assert_int_equal(hs_summary_serialized(NULL).bytes, 0);
    hs_summary_clear(NULL);
    hs_summary_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_files(unusual_names_are_ignored),
        with_files(a_name_sorts_after_all_regular_names),
        with_files(many_files_of_one_second_stay_in_order),
        with_files(a_failed_opening_leaves_no_file),
        with_files(a_failed_opening_without_a_message_is_reported),
        with_files(a_failed_write_without_a_message_is_reported),
        with_files(a_failed_close_without_a_message_is_reported),
        with_files(the_directory_is_synced_after_the_file_is_created),
        with_files(a_created_directory_is_synced_in_its_parent),
        with_files(a_flush_syncs_once_and_only_if_requested),
        with_files(a_null_writer_is_refused),
        with_files(bytes_without_data_are_refused),
        with_files(a_null_summary_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
