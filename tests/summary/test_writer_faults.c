/* SPDX-License-Identifier: Apache-2.0 */
/* The event-file writer with many threads, slow disks and failing disks. */
#include "summary/events.h"
#include "support/waits.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

/* A disk that counts its writes and can block them. */
typedef struct {
    hs_env env;
    hs_file_system_ops ops;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool held, tears; /* tears: the next write fails halfway */
    size_t writes, largest;
    int64_t now_ns;
} disk;

static hs_code disk_write(void *user, void *file, const void *data, size_t bytes, hs_error *err)
{
    disk *d = user;
    pthread_mutex_lock(&d->lock);
    d->writes++;
    d->largest = bytes > d->largest ? bytes : d->largest;
    pthread_cond_broadcast(&d->changed);
    while (d->held)
        pthread_cond_wait(&d->changed, &d->lock);
    bool torn = d->tears;
    d->tears = false;
    pthread_mutex_unlock(&d->lock);
    hs_code code = hs_env_default()->files.ops->write(NULL, file, data, torn ? bytes / 2 : bytes, err);
    return torn ? hs_error_set(err, HS_DATA_LOSS, "a torn write") : code;
}

static int64_t disk_now(void *user)
{
    return ((disk *)user)->now_ns;
}

static void disk_sleep(void *user, int64_t ns)
{
    (void)user, (void)ns;
}

static void disk_init(disk *d)
{
    *d = (disk){.env = HS_INIT(hs_env), .ops = *hs_env_default()->files.ops, .now_ns = 1700000000000000000};
    d->ops.write = disk_write;
    d->env.files = (hs_file_system){&d->ops, d};
    d->env.clock = (hs_clock){disk_now, disk_now, disk_sleep, d};
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->changed, NULL);
}

static void hold(disk *d, bool held)
{
    pthread_mutex_lock(&d->lock);
    d->held = held;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
}

static void wait_for_writes(disk *d, size_t n)
{
    pthread_mutex_lock(&d->lock);
    while (d->writes < n)
        pthread_cond_wait(&d->changed, &d->lock);
    pthread_mutex_unlock(&d->lock);
}

static hs_summary_writer *open_on(disk *d, const char *directory, hs_summary_writer_options options)
{
    hs_error err;
    options.env = &d->env;
    hs_summary_writer *writer = hs_summary_writer_open(directory, &options, &err);
    if (!writer)
        fail_msg("%s", err.message);
    return writer;
}

static int setup(void **state)
{
    *state = test_make_directory();
    return 0;
}

static int teardown(void **state)
{
    test_remove_directory(*state);
    return 0;
}
#define with_directory(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

/* Many threads. */

enum { THREADS = 8, EVENTS = 400 };

typedef struct {
    hs_summary_writer *writer;
    int index;
    bool flushes;
    size_t failures;
    atomic_int added;
} adder;

static void *add_many(void *user)
{
    adder *a = user;
    char tag[16];
    snprintf(tag, sizeof tag, "t%d", a->index);
    for (int i = 0; i < EVENTS; i++) {
        a->failures += hs_summary_writer_scalar(a->writer, tag, i, i, NULL) != HS_OK;
        atomic_fetch_add(&a->added, 1);
        if (a->flushes && i % 97 == a->index)
            a->failures += hs_summary_writer_flush(a->writer, i % 2, NULL) != HS_OK;
    }
    return NULL;
}

/* The events of each thread are in order. */
static void check_order(const Hs__Pb__Event *event, void *user)
{
    int64_t *next = user;
    if (event->what_case != HS__PB__EVENT__WHAT_SUMMARY)
        return;
    Hs__Pb__Summary *summary = hs__pb__summary__unpack(NULL, event->summary.len, event->summary.data);
    assert_non_null(summary);
    int thread = summary->value[0]->tag[1] - '0';
    assert_in_range(thread, 0, THREADS - 1);
    assert_int_equal(event->step, next[thread]++);
    hs__pb__summary__free_unpacked(summary, NULL);
}

static void add_from_threads(const char *directory, int64_t queue_bytes)
{
    hs_error err;
    pthread_t threads[THREADS];
    adder adders[THREADS];
    int64_t next[THREADS] = {0};
    hs_summary_writer_options options = HS_INIT(hs_summary_writer_options, .queue_bytes = queue_bytes);
    hs_summary_writer *writer = hs_summary_writer_open(directory, &options, &err);
    assert_non_null(writer);
    for (int i = 0; i < THREADS; i++) {
        adders[i] = (adder){.writer = writer, .index = i, .flushes = true};
        assert_int_equal(pthread_create(&threads[i], NULL, add_many, &adders[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_ok(hs_summary_writer_close(writer, &err), &err);
    assert_true(events_each(directory, check_order, next));
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(adders[i].failures, 0);
        assert_int_equal(next[i], EVENTS);
    }
}

static void many_threads_lose_nothing(void **state)
{
    add_from_threads(*state, 0);
}

static void many_threads_with_a_full_queue_lose_nothing(void **state)
{
    add_from_threads(*state, 1);
}

/* The queue. */

static void wr_017s_adding_waits_while_the_queue_is_full(void **state)
{
    enum { LIMIT = 4096, LEAST = 40, MOST = 64 }; /* LEAST, MOST: size of an event */
    disk d;
    hs_error err;
    pthread_t thread;
    disk_init(&d);
    adder a = {
        .writer = open_on(&d, *state, (hs_summary_writer_options)HS_INIT(hs_summary_writer_options, .queue_bytes = LIMIT))};
    hold(&d, true);
    assert_int_equal(pthread_create(&thread, NULL, add_many, &a), 0);
    while (atomic_load(&a.added) < LIMIT * 3 / 2 / MOST) /* the buffer that is being written, and half of the other */
        sched_yield();
    assert_in_range(atomic_load(&a.added), 0, 2 * (LIMIT + MOST) / LEAST);
    hold(&d, false);
    pthread_join(thread, NULL);
    assert_ok(hs_summary_writer_close(a.writer, &err), &err);
    assert_int_equal(a.failures, 0);
    assert_true(d.largest < LIMIT + MOST);
    int64_t next[THREADS] = {0};
    assert_true(events_each(*state, check_order, next));
    assert_int_equal(next[0], EVENTS);
}

static void events_are_written_after_flush_secs(void **state)
{
    disk d;
    hs_error err;
    disk_init(&d);
    hs_summary_writer *writer =
        open_on(&d, *state, (hs_summary_writer_options)HS_INIT(hs_summary_writer_options, .flush_secs = 60));
    assert_ok(hs_summary_writer_scalar(writer, "early", 1, 1, &err), &err);
    d.now_ns += 59000000000;
    assert_ok(hs_summary_writer_scalar(writer, "early", 2, 2, &err), &err);
    assert_int_equal(d.writes, 1); /* the version's */
    d.now_ns += 1000000000;
    assert_ok(hs_summary_writer_scalar(writer, "late", 3, 3, &err), &err);
    wait_for_writes(&d, 2); /* hangs if nothing is written */
    assert_ok(hs_summary_writer_close(writer, &err), &err);
    assert_string_equal(events_text(*state), "version early=1@1 early=2@2 late=3@3");
}

/* HS_NEVER: the thread sleeps, and a late event does not wake it. */
static void without_flush_secs_events_wait_for_a_flush(void **state)
{
    disk d;
    hs_error err;
    disk_init(&d);
    hs_summary_writer *writer =
        open_on(&d, *state, (hs_summary_writer_options)HS_INIT(hs_summary_writer_options, .flush_secs = HS_NEVER));
    await_waiting(1);
    assert_true(longest_wait() > 1e8);
    assert_ok(hs_summary_writer_scalar(writer, "early", 1, 1, &err), &err);
    d.now_ns += 1000000000000000; /* 11 days */
    assert_ok(hs_summary_writer_scalar(writer, "late", 2, 2, &err), &err);
    await_waiting(1);
    assert_int_equal(d.writes, 1); /* the version's */
    assert_ok(hs_summary_writer_flush(writer, false, &err), &err);
    assert_int_equal(d.writes, 2);
    assert_ok(hs_summary_writer_close(writer, &err), &err);
}

/* HS_NEVER: although nothing can be written, no event is dropped, and no caller waits. */
static void a_queue_may_have_no_limit(void **state)
{
    enum { MANY = 100000 };
    disk d;
    hs_error err;
    disk_init(&d);
    hs_summary_writer *writer =
        open_on(&d, *state,
                (hs_summary_writer_options)HS_INIT(hs_summary_writer_options, .queue_bytes = HS_NEVER,
                                                   .when_full = HS_WRITER_DROPS));
    hold(&d, true);
    for (int64_t i = 0; i < MANY; i++) /* more than fit in the default queue */
        assert_ok(hs_summary_writer_scalar(writer, "loss", 1, i, &err), &err);
    assert_int_equal(hs_summary_writer_status(writer).dropped, 0);
    hold(&d, false);
    assert_ok(hs_summary_writer_close(writer, &err), &err);
}

/* The thread wakes up by the system's clock, not by the environment's. */
static void wr_016s_events_are_written_without_further_calls(void **state)
{
    disk d;
    hs_error err;
    disk_init(&d);
    hs_summary_writer *writer =
        open_on(&d, *state, (hs_summary_writer_options)HS_INIT(hs_summary_writer_options, .flush_secs = 0.001));
    for (size_t i = 2; i < 5; i++) {
        assert_ok(hs_summary_writer_scalar(writer, "loss", 1, (int64_t)i, &err), &err);
        wait_for_writes(&d, i); /* hangs if nothing is written */
    }
    assert_ok(hs_summary_writer_close(writer, &err), &err);
    assert_string_equal(events_text(*state), "version loss=1@2 loss=1@3 loss=1@4");
}

/* Without work the thread sleeps until the next flush, even if the queue is small. */
static void an_idle_writer_sleeps(void **state)
{
    disk d;
    disk_init(&d);
    hs_summary_writer *writer =
        open_on(&d, *state, (hs_summary_writer_options)HS_INIT(hs_summary_writer_options, .queue_bytes = 1));
    await_waiting(1);
    assert_in_range(longest_wait(), 60, 120);
    hs_summary_writer_close(writer, NULL);
}

static void the_writers_thread_handles_no_signals(void **state)
{
    sigset_t user, before, pending;
    int received;
    hs_error err;
    hs_summary_writer *writer = hs_summary_writer_open(*state, NULL, &err);
    assert_non_null(writer);
    sigemptyset(&user);
    sigaddset(&user, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &user, &before);
    kill(getpid(), SIGUSR1); /* a thread that does not block it would end the program */
    sigpending(&pending);
    assert_true(sigismember(&pending, SIGUSR1));
    sigwait(&user, &received);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    hs_summary_writer_close(writer, NULL);
}

/* Failing disks. */

/* Adds all events, and flushes every n-th, so that errors are reported. Returns the first error. */
static hs_code write_some(test_env *t, void *user)
{
    hs_error err = {0}, first = {0};
    hs_summary_writer_options options = HS_INIT(hs_summary_writer_options, .env = &t->env, .on_error = HS_WRITER_FAILS);
    events_remove(user); /* each existing file makes the search for a free name longer */
    hs_summary_writer *writer = hs_summary_writer_open(user, &options, &first);
    if (!writer)
        return first.code;
    for (int i = 0; i < 6; i++) {
        if (hs_summary_writer_scalar(writer, "loss", i, i, &err) && !first.code)
            first = err;
        if (hs_summary_writer_flush(writer, i % 2, &err) && !first.code)
            first = err;
    }
    if (hs_summary_writer_session_log(writer, HS_SESSION_LOG_CHECKPOINT, "path", "message", 6, &err) && !first.code)
        first = err;
    if (hs_summary_writer_close(writer, &err) && !first.code)
        first = err;
    return first.code;
}

/* After any failure, the file has the first events, whole, and nothing after a torn one. */
static void the_file_is_intact_up_to_its_end(void *user)
{
    const char *whole = "version loss=0@0 loss=1@1 loss=2@2 loss=3@3 loss=4@4 loss=5@5 checkpoint@6";
    const char *text = events_text(user);
    const char *damage = strstr(text, " DAMAGED");
    size_t good = damage ? (size_t)(damage - text) : strlen(text);
    assert_int_equal(strncmp(text, whole, good), 0);
}

static void each_file_call(void **state)
{
    test_each_file_call(write_some, the_file_is_intact_up_to_its_end, ENOSPC, false, *state);
    test_each_file_call(write_some, the_file_is_intact_up_to_its_end, EIO, true, *state);
}

static void each_allocation(void **state)
{
    test_each_allocation(write_some, *state);
}

static void wr_010_wr_011_wr_012_an_error_is_returned(void **state)
{
    static test_env t;
    hs_error err;
    test_env_init(&t);
    hs_summary_writer_options options = HS_INIT(hs_summary_writer_options, .env = &t.env, .on_error = HS_WRITER_FAILS);
    hs_summary_writer *writer = hs_summary_writer_open(*state, &options, &err);
    assert_ok(hs_summary_writer_scalar(writer, "loss", 1, 1, &err), &err);
    t.fail_file_at = t.file_calls + 1; /* only this call */
    assert_fails(hs_summary_writer_flush(writer, false, &err), HS_RESOURCE_EXHAUSTED, &err, "injected");
    assert_int_equal(err.os_error, ENOSPC);
    assert_fails(hs_summary_writer_flush(writer, true, &err), HS_RESOURCE_EXHAUSTED, &err, "injected");
    assert_fails(hs_summary_writer_scalar(writer, "loss", 2, 2, &err), HS_RESOURCE_EXHAUSTED, &err, "injected");
    assert_fails(hs_summary_writer_close(writer, &err), HS_RESOURCE_EXHAUSTED, &err, "injected");
    assert_int_equal(t.live, 0);
}

/* Adds more events than fit in the queue, with a full disk: no caller waits forever. */
static void events_after_a_torn_record_are_not_written(void **state)
{
    disk d;
    hs_error err;
    disk_init(&d);
    hs_summary_writer *writer = open_on(
        &d, *state,
        (hs_summary_writer_options)HS_INIT(hs_summary_writer_options, .queue_bytes = 64, .on_error = HS_WRITER_FAILS));
    hold(&d, true);
    assert_ok(hs_summary_writer_scalar(writer, "torn", 1, 1, &err),
              &err);        /* more than half a queue, so it is written immediately */
    wait_for_writes(&d, 2); /* the version and the event */
    assert_ok(hs_summary_writer_scalar(writer, "behind", 2, 2, &err), &err);
    d.tears = true;
    hold(&d, false);
    assert_fails(hs_summary_writer_close(writer, &err), HS_DATA_LOSS, &err, "a torn write");
    assert_int_equal(d.writes, 2);
    assert_string_equal(events_text(*state), "version DAMAGED");
}

static void wr_026s_adding_to_a_broken_disk_does_not_hang(void **state)
{
    static test_env t;
    hs_error err;
    test_env_init(&t);
    hs_summary_writer_options options =
        HS_INIT(hs_summary_writer_options, .env = &t.env, .queue_bytes = 256, .on_error = HS_WRITER_FAILS);
    adder a = {.writer = hs_summary_writer_open(*state, &options, &err)};
    t.fail_file_at = t.file_calls + 1;
    t.fail_file_on = true;
    add_many(&a);
    assert_true(a.failures > 0);
    assert_fails(hs_summary_writer_close(a.writer, &err), HS_RESOURCE_EXHAUSTED, &err, "injected");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_directory(many_threads_lose_nothing),
        with_directory(many_threads_with_a_full_queue_lose_nothing),
        with_directory(wr_017s_adding_waits_while_the_queue_is_full),
        with_directory(events_are_written_after_flush_secs),
        with_directory(without_flush_secs_events_wait_for_a_flush),
        with_directory(a_queue_may_have_no_limit),
        with_directory(wr_016s_events_are_written_without_further_calls),
        with_directory(an_idle_writer_sleeps),
        with_directory(the_writers_thread_handles_no_signals),
        with_directory(each_file_call),
        with_directory(each_allocation),
        with_directory(wr_010_wr_011_wr_012_an_error_is_returned),
        with_directory(wr_026s_adding_to_a_broken_disk_does_not_hang),
        with_directory(events_after_a_torn_record_are_not_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
