/* SPDX-License-Identifier: Apache-2.0 */
/* Calls from other threads and from signal handlers. */
#include "session/probe.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

enum { THREADS = 3 };

/* Threads that run until the coordinator stops. The hook's close joins them. */
typedef struct {
    pthread_t threads[THREADS];
    atomic_int alive;
} crew;

typedef struct {
    crew *all;
    hs_coordinator *coordinator;
} member;

static void *work(void *argument)
{
    member *m = argument;
    while (!hs_coordinator_should_stop(m->coordinator))
        ;
    atomic_fetch_sub(&m->all->alive, 1);
    free(m);
    return NULL;
}

static hs_code start_and_join(probe *p, const probe_call *call)
{
    crew *all = p->user;
    for (int i = 0; call->point == PROBE_CREATE && i < THREADS; i++) {
        member *m = malloc(sizeof *m);
        *m = (member){all, call->coordinator};
        atomic_fetch_add(&all->alive, 1);
        assert_int_equal(pthread_create(&all->threads[i], NULL, work, m), 0);
    }
    for (int i = 0; call->point == PROBE_CLOSE && i < THREADS; i++)
        pthread_join(all->threads[i], NULL); /* the coordinator has stopped them before */
    return HS_OK;
}

static void ms_033_closing_stops_the_threads(void **state)
{
    play *p = *state;
    crew all = {.alive = 0};
    play_probe(p, a, .act = start_and_join, .user = &all);
    play_open_probes(p, 1);
    assert_int_equal(atomic_load(&all.alive), THREADS);
    play_close(p);
    assert_int_equal(atomic_load(&all.alive), 0);
    assert_true(hs_session_should_stop(p->session));
}

static void ms_032_closing_stops_the_threads_after_a_failed_run(void **state)
{
    play *p = *state;
    crew all = {.alive = 0};
    play_probe(p, a, .act = start_and_join, .user = &all, .fails_in = PROBE_BEFORE, .fails_at = 3);
    play_open_probes(p, 1);
    play_train(p);
    play_train(p);
    assert_int_equal(hs_session_run(p->session, "train", &p->err), HS_INTERNAL);
    assert_int_equal(atomic_load(&all.alive), THREADS);
    play_close(p);
    assert_int_equal(atomic_load(&all.alive), 0);
}

static void ms_032_a_failed_opening_stops_the_threads_too(void **state)
{
    play *p = *state;
    crew all = {.alive = 0};
    play_probe(p, a, .act = start_and_join, .user = &all);
    play_probe(p, b, .fails_in = PROBE_CREATE, .fails_at = 1);
    assert_null(play_try_open(p, (hs_hook[]){probe_hook(&p->a), probe_hook(&p->b)}, 2));
    assert_int_equal(atomic_load(&all.alive), 0);
}

static void *stop_session(void *session)
{
    hs_session_interrupt(session);
    return NULL;
}

static void another_thread_stops_the_loop(void **state)
{
    play *p = *state;
    pthread_t thread;
    play_open_probes(p, 1);
    assert_int_equal(pthread_create(&thread, NULL, stop_session, p->session), 0);
    while (!hs_session_should_stop(p->session)) {
        assert_ok(hs_session_run(p->session, "train", &p->err),
                  &p->err); /* not refused before the caller can know of the stop */
        play_calls(p);
    }
    pthread_join(thread, NULL);
    assert_int_equal(play_close(p)->reason, HS_REASON_STOPPED);
    assert_int_equal(p->a.calls[PROBE_END], 1);
}

static void *poll_session(void *session)
{
    while (!hs_session_poll(session))
        continue;
    return NULL;
}

/* During runs, and while the session changes between them. */
static void another_thread_polls(void **state)
{
    play *p = *state;
    pthread_t thread;
    play_probe(p, a, .stops_at = 200);
    play_open(p, (hs_hook[]){probe_hook(&p->a)}, 1);
    assert_int_equal(pthread_create(&thread, NULL, poll_session, p->session), 0);
    while (!hs_session_should_stop(p->session))
        assert_ok(hs_session_run(p->session, "train", &p->err), &p->err);
    pthread_join(thread, NULL);
}

static hs_code stop_in_the_middle(probe *p, const probe_call *call)
{
    pthread_t thread;
    if (call->point == PROBE_BEFORE) {
        assert_int_equal(pthread_create(&thread, NULL, stop_session, ((play *)p->user)->session), 0);
        pthread_join(thread, NULL);
    }
    return HS_OK;
}

static void a_run_that_is_being_made_is_finished(void **state)
{
    play *p = *state;
    play_probe(p, a, .act = stop_in_the_middle, .user = p);
    play_open_probes(p, 1);
    play_calls(p);
    assert_int_equal(play_train(p), 1);
    assert_string_equal(play_calls(p), "a.before run a.after a.boundary");
    assert_true(hs_session_should_stop(p->session));
}

static hs_session *interrupted;

static void on_signal(int signal_number)
{
    (void)signal_number;
    hs_session_interrupt(interrupted);
}

static void a_signal_handler_stops_the_loop(void **state)
{
    play *p = *state;
    struct sigaction action = {.sa_handler = on_signal}, before;
    play_open(p, NULL, 0);
    interrupted = p->session;
    sigaction(SIGUSR1, &action, &before);
    play_train(p);
    raise(SIGUSR1);
    sigaction(SIGUSR1, &before, NULL);
    assert_true(hs_session_should_stop(p->session));
    assert_int_equal(play_close(p)->reason, HS_REASON_STOPPED);
}

static void *report(void *coordinator)
{
    hs_error lost = {.code = HS_UNAVAILABLE, .message = "reader lost"};
    hs_coordinator_request_stop(coordinator, &lost);
    return NULL;
}

static void a_threads_error_ends_the_loop_and_is_reported(void **state)
{
    play *p = *state;
    pthread_t thread;
    play_open_probes(p, 1);
    assert_int_equal(pthread_create(&thread, NULL, report, hs_session_coordinator(p->session)), 0);
    while (!hs_session_should_stop(p->session))
        hs_session_run(p->session, "train", &p->err);
    pthread_join(thread, NULL);
    assert_int_equal(play_close(p)->reason, HS_REASON_FAILED);
    assert_says(&p->err, HS_UNAVAILABLE, "reader lost");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        play_test(ms_033_closing_stops_the_threads),
        play_test(ms_032_closing_stops_the_threads_after_a_failed_run),
        play_test(ms_032_a_failed_opening_stops_the_threads_too),
        play_test(another_thread_stops_the_loop),
        play_test(another_thread_polls),
        play_test(a_run_that_is_being_made_is_finished),
        play_test(a_signal_handler_stops_the_loop),
        play_test(a_threads_error_ends_the_loop_and_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
