/* SPDX-License-Identifier: Apache-2.0 */
/* Shared event-file writers, and the size of the queue. */
#include "summary/writers.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

/* Sharing. */

static void wr_014_a_directory_has_one_writer(void **state)
{
    fixture *f = *state;
    hs_summary_writer *a = get_shared(f, "a"), *again = get_shared(f, "a//"), *b = get_shared(f, "b");
    assert_ptr_equal(a, again);
    assert_ptr_not_equal(a, b);
    add(f, a, "x", 1);
    close_writer(f, a); /* only flushes, as `again` still uses it */
    assert_string_equal(events_text(test_path(f->directory, "a")), "version x=1@1");
    add(f, again, "x", 2);
    close_writer(f, again);
    close_writer(f, b);
    assert_string_equal(events_text(test_path(f->directory, "a")), "version x=1@1 x=2@2");
    assert_string_equal(events_text(test_path(f->directory, "b")), "version");
}

static void wr_015_wr_028s_after_the_last_close_a_new_file_is_begun(void **state)
{
    fixture *f = *state;
    close_writer(f, get_shared(f, "a"));
    close_writer(f, get_shared(f, "a"));
    assert_string_equal(events_text(test_path(f->directory, "a")), "version version");
}

static void an_unshared_writer_is_not_shared(void **state)
{
    fixture *f = *state;
    hs_summary_writer *own = open_in(f, "a", (hs_summary_writer_options){0}, false), *shared = get_shared(f, "a");
    assert_ptr_not_equal(own, shared);
    close_writer(f, own);
    close_writer(f, shared);
}

static void environments_have_separate_writers(void **state)
{
    fixture *f = *state;
    hs_summary_writer *a = get_shared(f, "a"), *b = hs_summary_writer_shared(test_path(f->directory, "a"), NULL, &f->err);
    assert_ptr_not_equal(a, b);
    close_writer(f, a);
    close_writer(f, b);
}

static void a_shared_writer_that_cannot_be_opened(void **state)
{
    fixture *f = *state;
    assert_null(hs_summary_writer_shared(NULL, NULL, &f->err));
    assert_says(&f->err, HS_INVALID_ARGUMENT, "directory");
    assert_null(hs_summary_writer_shared("", NULL, &f->err));
    test_write_file(test_path(f->directory, "file"), "x", 1);
    assert_null(hs_summary_writer_shared(test_path(f->directory, "file"), NULL, &f->err));
    assert_says(&f->err, HS_FAILED_PRECONDITION, "is not a directory");
}

/* In a forked child, which does not have the writer's thread. */

typedef struct {
    fixture *f;
    hs_summary_writer *writer;
} inheritance;

static bool is_refused(hs_code code, const hs_error *err)
{
    return code == HS_FAILED_PRECONDITION && strstr(err->message, "forked child");
}

static int use_and_close(void *user)
{
    const inheritance *i = user;
    hs_error err;
    for (int64_t step = 0; step < 3; step++)
        if (!is_refused(hs_summary_writer_scalar(i->writer, "child", 1, step, &err), &err) ||
            !is_refused(hs_summary_writer_session_log(i->writer, HS_SESSION_LOG_STOP, NULL, NULL, step, &err), &err) ||
            !is_refused(hs_summary_writer_flush(i->writer, true, &err), &err) ||
            !is_refused(hs_summary_writer_flush(i->writer, false, &err), &err) ||
            !is_refused(hs_summary_writer_reopen(i->writer, &err), &err) ||
            !is_refused(hs_summary_writer_close(i->writer, &err), &err))
            return 1;
    return 0;
}

/* Its queue is full, and has events that are not written. */
static void a_forked_child_neither_uses_nor_closes_a_writer(void **state)
{
    fixture *f = *state;
    for (int shared = 0; shared < 2; shared++) {
        hs_summary_writer *w =
            open_in(f, ".", (hs_summary_writer_options){.queue_bytes = 1, .flush_secs = HS_NEVER}, shared);
        add(f, w, "x", 1);
        assert_int_equal(test_in_child(use_and_close, &(inheritance){f, w}), 0);
        add(f, w, "x", 2);
        close_writer(f, w);
        assert_string_equal(events_text(f->directory), "version x=1@1 x=2@2");
        events_remove(f->directory);
    }
}

static int get_its_own(void *user)
{
    const inheritance *i = user;
    hs_error err;
    const hs_summary_writer_options options = HS_INIT(hs_summary_writer_options, .env = &i->f->t.env);
    hs_summary_writer *w = hs_summary_writer_shared(i->f->directory, &options, &err);
    if (!w || w == i->writer || hs_summary_writer_scalar(w, "child", 7, 7, &err) || hs_summary_writer_flush(w, true, &err))
        return 1;
    return hs_summary_writer_close(w, &err) != HS_OK;
}

static void a_forked_child_shares_no_writer_with_its_parent(void **state)
{
    fixture *f = *state;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    test_skip("sanitizers do not support threads and memory in a child of several threads");
#endif
    hs_summary_writer *w = get_shared(f, ".");
    add(f, w, "x", 1);
    assert_int_equal(test_in_child(get_its_own, &(inheritance){f, w}), 0);
    close_writer(f, w);
    assert_int_equal(test_count_files(f->directory, "events"), 2);
    assert_contains(events_text(f->directory), "version x=1@1");
    assert_contains(events_text(f->directory), "version child=7@7");
}

/* The system refuses to start threads (-Wl,--wrap). */
static bool refuses_threads;

int __wrap_hs__thread_start(pthread_t *thread, void *(*body)(void *user), void *user);
int __real_hs__thread_start(pthread_t *thread, void *(*body)(void *user), void *user);

int __wrap_hs__thread_start(pthread_t *thread, void *(*body)(void *user), void *user)
{
    return refuses_threads ? EAGAIN : __real_hs__thread_start(thread, body, user);
}

static void without_a_thread_no_file_remains(void **state)
{
    fixture *f = *state;
    const hs_summary_writer_options options = HS_INIT(hs_summary_writer_options, .env = &f->t.env);
    refuses_threads = true;
    hs_summary_writer *w = hs_summary_writer_open(f->directory, &options, &f->err);
    refuses_threads = false;
    assert_null(w);
    assert_contains(f->err.message, "cannot start the thread of the event writer");
    assert_int_equal(test_count_files(f->directory, "events"), 0);
    assert_int_equal(f->t.open_files, 0);
}

/* A disk that is slow for one writer, so that another writer of the same directory is opened meanwhile. */
static hs_file_system_ops slow;
static hs_env slow_env;
static hs_summary_writer *faster;

static hs_code open_another(void *user, const char *path, int mode, void **file, hs_error *err)
{
    slow.open = hs_env_default()->files.ops->open;
    char *directory = strdup(path);
    *strrchr(directory, '/') = '\0';
    faster = hs_summary_writer_shared(directory, HS_SUMMARY_WRITER_OPTIONS(.env = &slow_env), err);
    free(directory);
    return hs_env_default()->files.ops->open(user, path, mode, file, err);
}

static void of_two_concurrent_openings_the_first_is_shared(void **state)
{
    fixture *f = *state;
    slow = *hs_env_default()->files.ops;
    slow.open = open_another;
    slow_env = f->t.env;
    slow_env.files = (hs_file_system){&slow, NULL};
    const hs_summary_writer_options options = HS_INIT(hs_summary_writer_options, .env = &slow_env);
    hs_summary_writer *w = hs_summary_writer_shared(f->directory, &options, &f->err);
    assert_non_null(w);
    assert_ptr_equal(w, faster);
    assert_int_equal(test_count_files(f->directory, "events"), 1);
    close_writer(f, w);
    close_writer(f, faster);
}

static void *get_and_close(void *user)
{
    enum { TIMES = 30 };
    for (int i = 0; i < TIMES; i++) {
        hs_summary_writer *w = hs_summary_writer_shared(user, NULL, NULL);
        if (!w || hs_summary_writer_scalar(w, "x", i, i, NULL) || hs_summary_writer_close(w, NULL))
            return user;
    }
    return NULL;
}

static void many_threads_get_and_close(void **state)
{
    enum { THREADS = 4 };
    const fixture *f = *state;
    pthread_t threads[THREADS];
    void *failed;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, get_and_close, f->directory), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
}

/* The queue. */

/* A disk that waits for a lock. */
typedef struct {
    hs_file_system_ops ops;
    pthread_mutex_t lock;
    atomic_int writes;
} slow_disk;

static hs_code slow_write(void *user, void *file, const void *data, size_t bytes, hs_error *err)
{
    slow_disk *d = user;
    d->writes++;
    pthread_mutex_lock(&d->lock);
    hs_code code = hs_env_default()->files.ops->write(NULL, file, data, bytes, err);
    pthread_mutex_unlock(&d->lock);
    return code;
}

static void wr_017s_a_full_queue_may_drop(void **state)
{
    enum { EVENTS = 1000, QUEUE = 4096, LEAST = 37, MOST = 70 }; /* LEAST, MOST: size of an event */
    fixture *f = *state;
    slow_disk d = {.ops = *hs_env_default()->files.ops, .lock = PTHREAD_MUTEX_INITIALIZER};
    d.ops.write = slow_write;
    f->t.env.files = (hs_file_system){&d.ops, &d};
    hs_summary_writer *w = open_writer(f, .queue_bytes = QUEUE, .when_full = HS_WRITER_DROPS);
    pthread_mutex_lock(&d.lock);
    for (int i = 0; i < EVENTS; i++)
        add(f, w, "x", i);
    hs_writer_status status = hs_summary_writer_status(w);
    pthread_mutex_unlock(&d.lock);
    assert_int_equal(status.events, EVENTS);
    assert_in_range(EVENTS - status.dropped, QUEUE / MOST, 2 * (QUEUE / LEAST + 1));
    close_writer(f, w);
    assert_contains(f->t.log, "the queue is full; events are lost");
    assert_contains(f->t.log, "of 1000 events of ");
}

/* An allocator that counts bytes. */
typedef struct {
    pthread_mutex_t lock;
    size_t live, peak;
} memory;

enum { HEAD = 16 }; /* bytes before each block, which have its size */

static void *count_realloc(void *user, void *block, size_t bytes)
{
    memory *m = user;
    size_t before = 0;
    unsigned char *head = block ? (unsigned char *)block - HEAD : NULL;
    if (head)
        memcpy(&before, head, sizeof before);
    if (!(head = realloc(head, bytes + HEAD)))
        return NULL;
    memcpy(head, &bytes, sizeof bytes);
    pthread_mutex_lock(&m->lock);
    m->live += bytes - before;
    m->peak = m->live > m->peak ? m->live : m->peak;
    pthread_mutex_unlock(&m->lock);
    return head + HEAD;
}

static void *count_alloc(void *user, size_t bytes)
{
    return count_realloc(user, NULL, bytes);
}

static void count_free(void *user, void *block)
{
    block = block ? count_realloc(user, block, 0) : NULL;
    free(block ? (unsigned char *)block - HEAD : NULL);
}

/* With a blocked disk and any number of events, and after an event larger than the queue. */
static void memory_is_bounded_by_the_queue(void **state)
{
    enum { EVENTS = 20000, QUEUE = 1 << 16, OTHER = 1 << 14, LARGE = 1 << 22 };
    fixture *f = *state;
    memory m = {.lock = PTHREAD_MUTEX_INITIALIZER};
    slow_disk d = {.ops = *hs_env_default()->files.ops, .lock = PTHREAD_MUTEX_INITIALIZER};
    d.ops.write = slow_write;
    f->t.env.files = (hs_file_system){&d.ops, &d};
    f->t.env.allocator = (hs_allocator){count_alloc, count_realloc, count_free, &m};
    hs_summary_writer *w = open_writer(f, .queue_bytes = QUEUE, .when_full = HS_WRITER_DROPS);
    pthread_mutex_lock(&d.lock);
    for (int i = 0; i < EVENTS; i++)
        add(f, w, "x", i);
    pthread_mutex_unlock(&d.lock);
    assert_ok(hs_summary_writer_flush(w, false, &f->err), &f->err);
    assert_in_range(m.peak, 2 * QUEUE, 4 * QUEUE + OTHER);
    char *large = calloc(1, LARGE);
    assert_ok(hs_summary_writer_graph(w, (hs_bytes){large, LARGE}, 0, &f->err), &f->err);
    assert_ok(hs_summary_writer_flush(w, false, &f->err), &f->err);
    assert_ok(hs_summary_writer_run_metadata(w, "step_1", (hs_bytes){large, LARGE}, 1, &f->err), &f->err);
    free(large);
    assert_ok(hs_summary_writer_flush(w, false, &f->err), &f->err);
    assert_in_range(m.live, 0, 4 * QUEUE + OTHER);
    close_writer(f, w);
    assert_int_equal(m.live, 0);
}

static void in_steady_state_nothing_is_allocated(void **state)
{
    enum { EVENTS = 100000 };
    fixture *f = *state;
    hs_summary_writer *w = open_writer(f, .size = 0);
    size_t before = f->t.allocations;
    for (int i = 0; i < EVENTS; i++)
        add(f, w, "loss", i);
    assert_ok(hs_summary_writer_flush(w, false, &f->err), &f->err);
    assert_int_equal(f->t.allocations, before);
    close_writer(f, w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_files(wr_014_a_directory_has_one_writer),
        with_files(wr_015_wr_028s_after_the_last_close_a_new_file_is_begun),
        with_files(an_unshared_writer_is_not_shared),
        with_files(environments_have_separate_writers),
        with_files(a_shared_writer_that_cannot_be_opened),
        with_files(a_forked_child_neither_uses_nor_closes_a_writer),
        with_files(a_forked_child_shares_no_writer_with_its_parent),
        with_files(without_a_thread_no_file_remains),
        with_files(of_two_concurrent_openings_the_first_is_shared),
        with_files(many_threads_get_and_close),
        with_files(wr_017s_a_full_queue_may_drop),
        with_files(memory_is_bounded_by_the_queue),
        with_files(in_steady_state_nothing_is_allocated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
