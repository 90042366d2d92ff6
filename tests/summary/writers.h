/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_SUMMARY_WRITERS_H
#define HS_TESTS_SUMMARY_WRITERS_H

#include "summary/events.h"

/* Shared by the tests of writers: a directory for events, and its environment. */

typedef struct {
    test_env t;
    char *directory;
    hs_error err;
} fixture;

static inline int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    test_env_init(&f->t);
    f->directory = test_make_directory();
    *state = f;
    return 0;
}

static inline int teardown(void **state)
{
    fixture *f = *state;
    test_remove_directory(f->directory);
    size_t left = f->t.live;
    free(f);
    assert_int_equal(left, 0);
    return 0;
}
#define with_files(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

static inline hs_summary_writer *open_in(fixture *f, const char *name, hs_summary_writer_options options, bool shared)
{
    options.size = sizeof options;
    options.env = &f->t.env;
    const char *path = test_path(f->directory, name);
    hs_summary_writer *writer = (shared ? hs_summary_writer_shared : hs_summary_writer_open)(path, &options, &f->err);
    if (!writer)
        fail_msg("%s", f->err.message);
    return writer;
}
#define open_writer(f, ...) open_in(f, ".", (hs_summary_writer_options){__VA_ARGS__}, false)
#define get_shared(f, name) open_in(f, name, (hs_summary_writer_options){0}, true)

static inline void close_writer(fixture *f, hs_summary_writer *writer)
{
    assert_ok(hs_summary_writer_close(writer, &f->err), &f->err);
}

static inline void add(fixture *f, hs_summary_writer *writer, const char *tag, int64_t step)
{
    assert_ok(hs_summary_writer_scalar(writer, tag, (double)step, step, &f->err), &f->err);
}

#endif
