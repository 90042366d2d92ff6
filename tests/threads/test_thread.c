/* SPDX-License-Identifier: Apache-2.0 */
#include "support/waits.h"
#include "threads/event.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

static const double LONG = 100;

typedef struct {
    test_env t;
    hs_coordinator *coordinator;
    hs_thread *awaited;
    hs_error err;
} fixture;

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    test_env_init(&f->t);
    f->coordinator = hs_coordinator_new(HS_COORDINATOR_OPTIONS(.env = &f->t.env), &f->err);
    *state = f;
    return f->coordinator ? 0 : -1;
}

static int teardown(void **state)
{
    fixture *f = *state;
    hs_coordinator_free(f->coordinator);
    size_t live = f->t.live; /* waiting for the threads has freed their memory */
    free(f);
    return live ? -1 : 0;
}

static hs_thread *make(fixture *f, hs_thread_options options)
{
    options.size = sizeof options;
    options.env = &f->t.env;
    hs_thread *thread = hs_thread_new(&options, &f->err);
    if (!thread)
        fail_msg("%s", f->err.message);
    return thread;
}

static void start(fixture *f, hs_thread *thread)
{
    assert_ok(hs_thread_start(thread, &f->err), &f->err);
}

static void wait_and_free(hs_thread *thread)
{
    assert_true(hs_thread_wait(thread, LONG));
    hs_thread_free(thread);
}

static hs_code wait_for_event(void *user, hs_coordinator *coordinator, hs_error *err)
{
    (void)coordinator, (void)err;
    event_wait(user, 1);
    return HS_OK;
}

static hs_code lose(void *user, hs_coordinator *coordinator, hs_error *err)
{
    (void)user, (void)coordinator;
    return hs_error_set(err, HS_ABORTED, "lost");
}

static hs_code fail_silently(void *user, hs_coordinator *coordinator, hs_error *err)
{
    (void)user, (void)coordinator, (void)err;
    return HS_USER + 1;
}

/* Starting and ending. */

static void a_thread_is_alive_while_it_runs(void **state)
{
    event go = EVENT;
    hs_thread *thread = make(*state, (hs_thread_options){.name = "one", .run = wait_for_event, .user = &go});
    assert_string_equal(hs_thread_name(thread), "one");
    assert_false(hs_thread_alive(thread));
    assert_true(hs_thread_wait(thread, LONG)); /* a thread that was never started */
    start(*state, thread);
    assert_true(hs_thread_alive(thread));
    assert_false(hs_thread_wait(thread, 0));
    assert_false(hs_thread_wait(thread, -2));
    assert_false(hs_thread_wait(thread, .01));
    event_add(&go);
    assert_true(hs_thread_wait(thread, HS_NEVER));
    assert_false(hs_thread_alive(thread));
    hs_thread_free(thread);
}

static void it_starts_once(void **state)
{
    fixture *f = *state;
    hs_thread *thread = make(f, (hs_thread_options){.name = "one", .run = lose});
    start(f, thread);
    assert_fails(hs_thread_start(thread, &f->err), HS_FAILED_PRECONDITION, &f->err, "'one' was already started");
    assert_true(hs_thread_wait(thread, LONG));
    assert_fails(hs_thread_start(thread, &f->err), HS_FAILED_PRECONDITION, &f->err, "'one' was already started");
    hs_thread_free(thread);
}

static void its_error_is_there_after_its_end(void **state)
{
    fixture *f = *state;
    hs_thread *thread = make(f, (hs_thread_options){.name = "one", .run = lose});
    assert_int_equal(hs_thread_error(thread, &f->err), HS_OK);
    start(f, thread);
    assert_true(hs_thread_wait(thread, LONG));
    assert_fails(hs_thread_error(thread, &f->err), HS_ABORTED, &f->err, "lost");
    hs_thread_free(thread);
}

static void an_error_without_a_message_gets_one(void **state)
{
    fixture *f = *state;
    assert_ok(hs_coordinator_start(f->coordinator, &f->err, .name = "mute", .run = fail_silently), &f->err);
    assert_fails(hs_coordinator_join(f->coordinator, NULL, &f->err), HS_USER + 1, &f->err, "mute failed");
}

static void missing_options_are_named(void **state)
{
    fixture *f = *state;
    assert_null(hs_thread_new(HS_THREAD_OPTIONS(.run = lose), &f->err));
    assert_says(&f->err, HS_INVALID_ARGUMENT, "hs_thread_options.name");
    assert_null(hs_thread_new(HS_THREAD_OPTIONS(.name = "none"), &f->err));
    assert_says(&f->err, HS_INVALID_ARGUMENT, "hs_thread_options.run is NULL");
    assert_fails(hs_coordinator_start(f->coordinator, &f->err, .name = "none"), HS_INVALID_ARGUMENT, &f->err,
                 "run is NULL");
    assert_fails(hs_coordinator_start(NULL, &f->err, .name = "one", .run = lose), HS_INVALID_ARGUMENT, &f->err,
                 "coordinator is NULL");
    assert_fails(hs_coordinator_register(f->coordinator, NULL, &f->err), HS_INVALID_ARGUMENT, &f->err, "thread is NULL");
    assert_fails(hs_thread_start(NULL, &f->err), HS_INVALID_ARGUMENT, &f->err, "thread is NULL");
    assert_true(hs_thread_wait(NULL, LONG));
    assert_ok(hs_thread_error(NULL, &f->err), &f->err);
    assert_false(hs_thread_alive(NULL));
    hs_thread_free(NULL);
}

/* Registering. */

static void it_belongs_to_one_coordinator(void **state)
{
    fixture *f = *state;
    hs_coordinator *other = hs_coordinator_new(NULL, &f->err);
    hs_thread *thread = make(f, (hs_thread_options){.name = "one", .run = lose});
    assert_ok(hs_coordinator_register(f->coordinator, thread, &f->err), &f->err);
    assert_fails(hs_coordinator_register(other, thread, &f->err), HS_FAILED_PRECONDITION, &f->err,
                 "'one' is registered with another");
    hs_coordinator_free(other);
    hs_thread_free(thread);
}

/* The references of the handle, the coordinator and the thread itself are dropped in any order. */
static void handles_are_freed_in_any_order(void **state)
{
    fixture *f = *state;
    event go = EVENT;
    hs_coordinator *made = hs_coordinator_new(HS_COORDINATOR_OPTIONS(.env = &f->t.env), &f->err);
    hs_thread *runs = make(f, (hs_thread_options){.name = "runs", .run = wait_for_event, .user = &go});
    hs_thread *fresh = make(f, (hs_thread_options){.name = "fresh", .run = lose});
    assert_ok(hs_coordinator_register(made, runs, &f->err), &f->err);
    assert_ok(hs_coordinator_register(made, fresh, &f->err), &f->err);
    start(f, runs);
    hs_coordinator_free(made);
    hs_thread_free(fresh);
    event_add(&go);
    wait_and_free(runs);
}

/* Stragglers. */

typedef struct {
    event go, gone;
    bool saw_stop;
} straggler;

static hs_code outlive(void *user, hs_coordinator *coordinator, hs_error *err)
{
    straggler *s = user;
    event_wait(&s->go, 1);
    s->saw_stop = hs_coordinator_should_stop(coordinator) && hs_coordinator_wait_for_stop(coordinator, LONG);
    hs_coordinator_start(coordinator, NULL, .name = "after all", .run = wait_for_event, .user = &s->go);
    event_add(&s->gone);
    return hs_error_set(err, HS_ABORTED, "too late");
}

static void a_straggler_continues_safely(void **state)
{
    static straggler s = {EVENT, EVENT, false};
    hs_error err;
    (void)state;
    hs_join_options soon = HS_INIT(hs_join_options, .stop_grace_secs = 1e-10);
    hs_coordinator *made = hs_coordinator_new(NULL, &err);
    assert_ok(hs_coordinator_start(made, &err, .name = "late", .run = outlive, .user = &s), &err);
    hs_coordinator_request_stop(made, NULL);
    assert_fails(hs_coordinator_join(made, &soon, &err), HS_FAILED_PRECONDITION, &err, "'late'");
    hs_coordinator_free(made);
    event_add(&s.go);
    event_wait(&s.gone, 1);
    assert_true(s.saw_stop);
}

/* A logger that looks at a thread which has failed. */
typedef struct {
    hs_logger before;
    const hs_thread *failing;
    hs_code seen;
} look;

static void look_and_log(void *user, hs_log_level level, const char *text)
{
    look *l = user;
    l->seen = hs_thread_error(l->failing, NULL);
    l->before.write(l->before.user, level, text);
}

static void an_error_after_the_join_is_logged_before_the_thread_ends(void **state)
{
    fixture *f = *state;
    static straggler s = {EVENT, EVENT, false};
    static look l;
    hs_join_options soon = HS_INIT(hs_join_options, .stop_grace_secs = 1e-10, .ignore_live_threads = true);
    l = (look){.before = f->t.env.logger, .seen = HS_UNKNOWN};
    f->t.env.logger = (hs_logger){look_and_log, &l};
    hs_thread *thread = make(f, (hs_thread_options){.name = "late", .run = outlive, .user = &s});
    l.failing = thread;
    assert_ok(hs_coordinator_register(f->coordinator, thread, &f->err), &f->err);
    start(f, thread);
    hs_coordinator_request_stop(f->coordinator, NULL);
    assert_ok(hs_coordinator_join(f->coordinator, &soon, &f->err), &f->err);
    event_add(&s.go);
    assert_true(hs_thread_wait(thread, LONG));
    assert_int_equal(l.seen, HS_OK);
    assert_fails(hs_thread_error(thread, &f->err), HS_ABORTED, &f->err, "too late");
    hs_thread_free(thread);
    hs_coordinator_clear_stop(f->coordinator);
    assert_ok(hs_coordinator_join(f->coordinator, NULL, &f->err), &f->err); /* joins the thread that it has started */
    assert_contains(f->t.log, "ERROR: thread 'late' failed after it was joined: too late");
}

/* Waking. */

static void wake_by_event(void *user)
{
    event_add(user);
}

static void join_wakes_a_thread_that_waits(void **state)
{
    fixture *f = *state;
    event woken = EVENT;
    assert_ok(hs_coordinator_start(f->coordinator, &f->err, .name = "waits", .run = wait_for_event, .user = &woken,
                                   .wake = wake_by_event),
              &f->err);
    hs_coordinator_request_stop(f->coordinator, NULL);
    assert_ok(hs_coordinator_join(f->coordinator, NULL, &f->err), &f->err);
    assert_true(woken.n > 0);
}

static hs_code wait_for_three(void *user, hs_coordinator *coordinator, hs_error *err)
{
    (void)coordinator, (void)err;
    event_wait(user, 3);
    return HS_OK;
}

static void it_wakes_again_until_the_thread_has_ended(void **state)
{
    fixture *f = *state;
    event woken = EVENT;
    hs_thread *thread =
        make(f, (hs_thread_options){.name = "waits", .run = wait_for_three, .user = &woken, .wake = wake_by_event});
    hs_join_options options = HS_INIT(hs_join_options, .threads = HS_THREADS(thread));
    start(f, thread);
    hs_coordinator_request_stop(f->coordinator, NULL);
    assert_ok(hs_coordinator_join(f->coordinator, &options, &f->err), &f->err);
    int n = woken.n;
    assert_ok(hs_coordinator_join(f->coordinator, &options, &f->err), &f->err);
    assert_int_equal(woken.n, n);
    hs_thread_free(thread);
}

static void *join_all(void *coordinator)
{
    hs_coordinator_join(coordinator, NULL, NULL);
    return NULL;
}

static void nothing_is_woken_after_its_end(void **state)
{
    fixture *f = *state;
    const event fresh = EVENT;
    for (int i = 0; i < 20; i++) {
        event *woken = malloc(sizeof *woken);
        pthread_t joiner;
        *woken = fresh;
        hs_thread *thread =
            make(f, (hs_thread_options){.name = "one", .run = wait_for_event, .user = woken, .wake = wake_by_event});
        start(f, thread);
        assert_ok(hs_coordinator_register(f->coordinator, thread, &f->err), &f->err);
        hs_coordinator_request_stop(f->coordinator, NULL);
        assert_int_equal(pthread_create(&joiner, NULL, join_all, f->coordinator), 0);
        wait_and_free(thread);
        free(woken); /* a later wake would touch it */
        pthread_join(joiner, NULL);
    }
}

/* A slow wake function, which checks that no other call runs and that the thread has not ended. */
typedef struct {
    hs_coordinator *coordinator;
    hs_thread *thread;
    event woken, go;
    atomic_int inside, at_once, ended_meanwhile;
} slow_wake;

static void wake_slowly(void *user)
{
    slow_wake *w = user;
    if (atomic_fetch_add(&w->inside, 1))
        atomic_fetch_add(&w->at_once, 1);
    event_add(&w->woken);
    if (hs_thread_wait(w->thread, .1))
        atomic_fetch_add(&w->ended_meanwhile, 1);
    atomic_fetch_sub(&w->inside, 1);
}

static hs_code join_too(void *user, hs_coordinator *coordinator, hs_error *err)
{
    (void)coordinator;
    return hs_coordinator_join(((slow_wake *)user)->coordinator, NULL, err);
}

static hs_code wait_to_go(void *user, hs_coordinator *coordinator, hs_error *err)
{
    (void)coordinator, (void)err;
    event_wait(&((slow_wake *)user)->go, 1);
    return HS_OK;
}

static void it_does_not_end_while_it_is_woken(void **state)
{
    fixture *f = *state;
    slow_wake w = {.coordinator = f->coordinator, .woken = EVENT, .go = EVENT};
    w.thread = make(f, (hs_thread_options){.name = "one", .run = wait_to_go, .user = &w, .wake = wake_slowly});
    start(f, w.thread);
    hs_thread *joins = make(f, (hs_thread_options){.name = "joins", .run = join_too, .user = &w});
    assert_ok(hs_coordinator_register(f->coordinator, w.thread, &f->err), &f->err);
    hs_coordinator_request_stop(f->coordinator, NULL);
    start(f, joins);
    event_wait(&w.woken, 1);
    event_add(&w.go);
    assert_true(hs_thread_wait(w.thread, LONG));
    assert_int_equal(w.inside, 0);
    wait_and_free(joins);
    hs_thread_free(w.thread);
    assert_int_equal(w.ended_meanwhile, 0);
}

static void one_thread_at_a_time_wakes_it(void **state)
{
    fixture *f = *state;
    slow_wake w = {.coordinator = f->coordinator, .woken = EVENT, .go = EVENT};
    hs_thread *joins[2];
    w.thread = make(f, (hs_thread_options){.name = "one", .run = wait_to_go, .user = &w, .wake = wake_slowly});
    start(f, w.thread);
    assert_ok(hs_coordinator_register(f->coordinator, w.thread, &f->err), &f->err);
    for (int i = 0; i < 2; i++) {
        joins[i] = make(f, (hs_thread_options){.name = "joins", .run = join_too, .user = &w});
        start(f, joins[i]);
    }
    hs_coordinator_request_stop(f->coordinator, NULL);
    event_wait(&w.woken, 3);
    event_add(&w.go);
    for (int i = 0; i < 2; i++)
        wait_and_free(joins[i]);
    wait_and_free(w.thread);
    assert_int_equal(w.at_once, 0);
}

/* Failures of the system. */

static bool refuses_threads;
static size_t waiting_by_then; /* the number of threads that wait when a start is refused */

int __wrap_hs__thread_start(pthread_t *thread, void *(*body)(void *user), void *user);
int __real_hs__thread_start(pthread_t *thread, void *(*body)(void *user), void *user);

int __wrap_hs__thread_start(pthread_t *thread, void *(*body)(void *user), void *user)
{
    if (!refuses_threads)
        return __real_hs__thread_start(thread, body, user);
    await_waiting(waiting_by_then);
    return EAGAIN;
}

static void the_system_may_have_no_more_threads(void **state)
{
    fixture *f = *state;
    hs_thread *thread = make(f, (hs_thread_options){.name = "one", .run = lose});
    refuses_threads = true;
    assert_fails(hs_thread_start(thread, &f->err), HS_RESOURCE_EXHAUSTED, &f->err, "cannot start thread 'one'");
    assert_int_equal(f->err.os_error, EAGAIN);
    assert_false(hs_thread_alive(thread));
    assert_fails(hs_coordinator_start(f->coordinator, &f->err, .name = "two", .run = lose), HS_RESOURCE_EXHAUSTED, &f->err,
                 "'two'");
    refuses_threads = false;
    assert_ok(hs_coordinator_join(f->coordinator, NULL, &f->err),
              &f->err); /* the thread that was not started is not awaited */
    start(f, thread);
    wait_and_free(thread);
}

static void *join_it(void *user)
{
    fixture *f = user;
    while (!hs_thread_alive(f->awaited))
        sched_yield();
    hs_coordinator_join(f->coordinator, NULL, NULL);
    return NULL;
}

static void a_wait_ends_if_the_start_fails(void **state)
{
    fixture *f = *state;
    pthread_t joiner;
    f->awaited = make(f, (hs_thread_options){.name = "one", .run = lose});
    assert_ok(hs_coordinator_register(f->coordinator, f->awaited, &f->err), &f->err);
    assert_int_equal(pthread_create(&joiner, NULL, join_it, f), 0);
    refuses_threads = true;
    waiting_by_then = 1;
    assert_int_equal(hs_thread_start(f->awaited, &f->err), HS_RESOURCE_EXHAUSTED);
    refuses_threads = false;
    assert_int_equal(pthread_join(joiner, NULL), 0);
    hs_thread_free(f->awaited);
}

static hs_code make_and_run(test_env *t, void *user)
{
    event woken = EVENT;
    hs_error err = {0};
    (void)user;
    hs_coordinator_options of_coordinator = HS_INIT(hs_coordinator_options, .env = &t->env);
    hs_thread_options options =
        HS_INIT(hs_thread_options, .name = "one", .run = wait_for_event, .user = &woken, .env = &t->env);
    hs_coordinator *made = hs_coordinator_new(&of_coordinator, &err);
    hs_thread *thread = made ? hs_thread_new(&options, &err) : NULL;
    event_add(&woken);
    if (thread && !hs_coordinator_register(made, thread, &err) && !hs_thread_start(thread, &err))
        hs_coordinator_join(made, NULL, &err);
    hs_thread_free(thread);
    hs_coordinator_free(made);
    return err.code;
}

static void each_allocation_may_fail(void **state)
{
    (void)state;
    test_each_allocation(make_and_run, NULL);
}

#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(a_thread_is_alive_while_it_runs),
        test(it_starts_once),
        test(its_error_is_there_after_its_end),
        test(an_error_without_a_message_gets_one),
        test(missing_options_are_named),
        test(it_belongs_to_one_coordinator),
        test(handles_are_freed_in_any_order),
        test(an_error_after_the_join_is_logged_before_the_thread_ends),
        test(join_wakes_a_thread_that_waits),
        test(it_wakes_again_until_the_thread_has_ended),
        test(nothing_is_woken_after_its_end),
        test(it_does_not_end_while_it_is_woken),
        test(one_thread_at_a_time_wakes_it),
        test(the_system_may_have_no_more_threads),
        test(a_wait_ends_if_the_start_fails),
        cmocka_unit_test(a_straggler_continues_safely),
        cmocka_unit_test(each_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
