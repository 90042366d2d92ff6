/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of signals in a process whose sessions handle them. */
#include "session/session.h"
#include "session/stand.h"
#include "support/clock.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *self; /* this program */

static void pause_us(long us)
{
    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

/* Each case once, at a chosen moment. */

static void a_signal_ends_an_endless_wait_for_data(void **state)
{
    stand *s = *state;
    stand_start(s, (trainer){.at = AT_NO_DATA, .at_step = 6}, NULL);
    assert_true(stand_await(s));
    kill(s->child, SIGTERM);
    stand_finish(s);
    check_saved(s, SIGTERM);
    assert_in_range(s->record->outcome.step, 3, 5); /* the producer is ahead */
    stand_resume(s, s->record->outcome.step);
}

static void without_a_saver_it_is_ended_by_the_signal(void **state)
{
    stand *s = *state;
    stand_start(s, (trainer){.at = AT_NO_DATA, .at_step = 6, .unsaved = true}, NULL);
    assert_true(stand_await(s));
    kill(s->child, SIGTERM);
    stand_finish(s);
    check_exit(s, 128 + SIGTERM);
    assert_int_equal(s->record->outcome.last_saved_step, -1);
}

/* Moves the clock. Otherwise two signals would count as one. */
static void let_it_be_later(stand *s)
{
    atomic_store(&s->record->ahead_ns, 600000000);
}

static void send_each(stand *s, trainer t, int (*body)(stand *s), int signal, int times)
{
    clock_ahead_ns = &s->record->ahead_ns;
    stand_start(s, t, body);
    for (int i = 0; i < times; i++) {
        assert_true(stand_await(s));
        if (i == 1)
            let_it_be_later(s);
        kill(s->child, signal);
    }
    stand_finish(s);
}

static void after_a_second_signal_nothing_is_saved(void **state)
{
    stand *s = *state;
    for (int i = 0; i < 2; i++) {
        send_each(s, (trainer){.at = AT_STEP, .at_step = 5, .does = AWAITS_SIGNALS, .background = i}, NULL, SIGINT, 2);
        check_exit(s, 128 + SIGINT);
        assert_int_equal(s->record->outcome.step, 5);
        assert_int_equal(s->record->outcome.last_saved_step, 3);
        stand_resume(s, 3);
        stand_clear(s);
    }
}

/* As if both a process and its group get the signal. */
static void the_same_signal_sent_twice_at_once_counts_as_one(void **state)
{
    stand *s = *state;
    for (int i = 0; i < 20; i++) {
        stand_start(s, (trainer){.at = AT_STEP, .at_step = 5}, NULL);
        assert_true(stand_await(s));
        for (int k = 0; k < 3; k++)
            kill(s->child, SIGTERM);
        stand_finish(s);
        if (s->record->outcome.signal)
            check_saved(s, SIGTERM);
        stand_clear(s);
    }
}

static void close_with_two_signals(stand *s, trainer t)
{
    clock_ahead_ns = &s->record->ahead_ns;
    stand_start(s, t, NULL);
    assert_true(stand_await(s));
    kill(s->child, SIGTERM);
    assert_true(stand_await(s));
    let_it_be_later(s);
    kill(s->child, SIGINT);
    stand_finish(s);
}

/* The training was complete, except for its last checkpoint. */
static void two_signals_while_it_is_closed_leave_it_unsaved_too(void **state)
{
    stand *s = *state;
    close_with_two_signals(s, (trainer){.at = AT_END, .does = AWAITS_SIGNALS, .leaves_at = STEPS - 1});
    check_exit(s, 128 + (s->record->outcome.signal == SIGTERM ? SIGTERM : SIGINT));
    assert_int_equal(s->record->outcome.reason, HS_REASON_STOPPED);
    assert_int_equal(s->record->outcome.last_saved_step, STEPS - 3);
    stand_resume(s, STEPS - 3);
}

static void two_signals_while_it_is_closed_do_not_undo_the_save_of_its_stop(void **state)
{
    stand *s = *state;
    close_with_two_signals(s, (trainer){.at = AT_END, .does = AWAITS_SIGNALS, .last_step = STEPS - 1});
    check_exit(s, 0);
    assert_int_equal(s->record->outcome.last_saved_step, STEPS - 1);
}

static void a_third_signal_kills(void **state)
{
    stand *s = *state;
    send_each(s, (trainer){.at = AT_STEP, .at_step = 5, .does = STAYS}, NULL, SIGINT, 3);
    assert_true(WIFSIGNALED(s->status));
    assert_int_equal(WTERMSIG(s->status), SIGINT);
    stand_resume(s, 3);
}

/* SIGUSR1. */

static void a_request_saves_after_the_step(void **state)
{
    stand *s = *state;
    stand_start(s, (trainer){.at = AT_NO_MOMENT, .at_step = 5, .does = AWAITS_REQUEST}, NULL);
    assert_true(stand_await(s));
    kill(s->child, SIGUSR1);
    stand_finish(s);
    check_done(s);
    check_losses(s, 1);
    assert_true(test_exists(s->directory, "model.ckpt-5.index"));
}

/* Earlier handlers. */

static volatile sig_atomic_t own_calls, own_value;

static void own_handler(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    own_calls++;
    own_value = info->si_value.sival_int;
}

/* The third call ends the program. */
static void plain_handler(int signal)
{
    (void)signal;
    if (++own_calls == 3)
        _exit(30);
}

static void handle(int signal, void (*plain)(int), void (*with_info)(int, siginfo_t *, void *))
{
    struct sigaction action = {.sa_flags = with_info ? SA_SIGINFO : 0};
    sigemptyset(&action.sa_mask);
    if (with_info)
        action.sa_sigaction = with_info;
    else
        action.sa_handler = plain;
    if (sigaction(signal, &action, NULL) != 0)
        _exit(8);
}

static struct sigaction now(int signal)
{
    struct sigaction action;
    sigaction(signal, NULL, &action);
    return action;
}

static int with_own_handler(stand *s)
{
    handle(SIGTERM, NULL, own_handler);
    int status = trainer_run(&s->t);
    struct sigaction after = now(SIGTERM);
    bool back = after.sa_flags & SA_SIGINFO && after.sa_sigaction == own_handler;
    return back && own_calls == 1 && own_value == 42 ? status : 7;
}

static void the_programs_handler_is_called_with_its_info(void **state)
{
    stand *s = *state;
    stand_start(s, (trainer){.at = AT_STEP, .at_step = 4}, with_own_handler);
    assert_true(stand_await(s));
    sigqueue(s->child, SIGTERM, (union sigval){.sival_int = 42});
    stand_finish(s);
    check_saved(s, SIGTERM);
    stand_resume(s, s->record->outcome.step);
}

static int with_plain_handler(stand *s)
{
    handle(SIGINT, plain_handler, NULL);
    int status = trainer_run(&s->t);
    struct sigaction after = now(SIGINT);
    return after.sa_handler == plain_handler && own_calls == 2 ? status : 7;
}

static void a_plain_handler_is_called_each_time(void **state)
{
    stand *s = *state;
    send_each(s, (trainer){.at = AT_STEP, .at_step = 4, .does = AWAITS_SIGNALS}, with_plain_handler, SIGINT, 2);
    check_exit(s, 128 + SIGINT);
}

/* If the program has a handler, the third signal does not kill. */
static void a_third_signal_goes_only_to_the_handler(void **state)
{
    stand *s = *state;
    send_each(s, (trainer){.at = AT_STEP, .at_step = 4, .does = STAYS}, with_plain_handler, SIGINT, 3);
    check_exit(s, 30);
}

static int with_ignored(stand *s)
{
    handle(SIGINT, SIG_IGN, NULL);
    int status = trainer_run(&s->t);
    return now(SIGINT).sa_handler == SIG_IGN ? status : 7;
}

static void ignored_signals_stay_ignored(void **state)
{
    stand *s = *state;
    stand_start(s, (trainer){.at = AT_STEP, .at_step = 4}, with_ignored);
    assert_true(stand_await(s));
    kill(s->child, SIGINT);
    stand_finish(s);
    check_done(s);
}

/* A handler that is installed later, calls the session's, and stays installed. */

static struct sigaction found;

static void pass_on(int signal, siginfo_t *info, void *context)
{
    own_calls++;
    found.sa_sigaction(signal, info, context);
}

static int with_one_above(stand *s)
{
    struct sigaction above = {.sa_flags = SA_SIGINFO};
    hs_graph *graph = hs_graph_new(NULL);
    const hs_session_options options = HS_INIT(hs_session_options, .signals = true);
    (void)s;
    handle(SIGTERM, NULL, own_handler);
    above.sa_sigaction = pass_on;
    sigemptyset(&above.sa_mask);
    hs_graph_global_step(graph, NULL, NULL);
    hs_session *session = hs_session_open(hs_graph_backend(graph), &options, NULL);
    sigaction(SIGTERM, &above, &found);
    raise(SIGTERM);
    bool right = hs_session_should_stop(session) && own_calls == 2;
    hs_session_close(session, NULL);
    raise(SIGTERM); /* only their handlers get it */
    right &= own_calls == 4 && now(SIGTERM).sa_sigaction == pass_on;
    for (int i = 0; i < 2; i++) {
        session = hs_session_open(hs_graph_backend(graph), &options, NULL);
        raise(SIGTERM);
        right &= hs_session_should_stop(session) && own_calls == 6 + 2 * i;
        right &= !hs_raw_session_save_refusal(hs_session_raw(session), NULL); /* it counts as one signal */
        right &= hs_session_close(session, NULL).signal == SIGTERM;
    }
    handle(SIGTERM, SIG_DFL, NULL); /* it no longer stays */
    session = hs_session_open(hs_graph_backend(graph), &options, NULL);
    raise(SIGTERM);
    right &= hs_session_should_stop(session) && own_calls == 8;
    hs_session_close(session, NULL);
    right &= now(SIGTERM).sa_handler == SIG_DFL;
    hs_graph_free(graph);
    return right ? 0 : 7;
}

static void a_handler_that_came_later_and_stays_is_called_once(void **state)
{
    stand *s = *state;
    stand_run(s, (trainer){.at = AT_NO_MOMENT}, with_one_above);
    check_exit(s, 0);
}

/* The other handler is removed after the session. The session's handler is active again, and the next session finds it. */
static int with_one_put_back(stand *s)
{
    struct sigaction above = {.sa_flags = SA_SIGINFO};
    hs_graph *graph = hs_graph_new(NULL);
    const hs_session_options options = HS_INIT(hs_session_options, .signals = true);
    (void)s;
    handle(SIGTERM, NULL, own_handler);
    above.sa_sigaction = pass_on;
    sigemptyset(&above.sa_mask);
    hs_graph_global_step(graph, NULL, NULL);
    hs_session *session = hs_session_open(hs_graph_backend(graph), &options, NULL);
    sigaction(SIGTERM, &above, &found);
    hs_session_close(session, NULL);
    sigaction(SIGTERM, &found, NULL);
    raise(SIGTERM);
    bool right = own_calls == 1;
    session = hs_session_open(hs_graph_backend(graph), &options, NULL);
    raise(SIGTERM);
    right &= hs_session_should_stop(session) && own_calls == 2;
    hs_session_close(session, NULL);
    right &= now(SIGTERM).sa_sigaction == own_handler;
    hs_graph_free(graph);
    return right ? 0 : 7;
}

static void a_handler_that_is_put_back_is_found_by_the_next_session(void **state)
{
    stand *s = *state;
    stand_run(s, (trainer){.at = AT_NO_MOMENT}, with_one_put_back);
    check_exit(s, 0);
}

static int with_a_fork(stand *s)
{
    int status = 0;
    hs_graph *graph = hs_graph_new(NULL);
    (void)s;
    hs_graph_global_step(graph, NULL, NULL);
    hs_session *session = hs_session_open(hs_graph_backend(graph), HS_SESSION_OPTIONS(.signals = true), NULL);
    pid_t fork_of_it = fork();
    if (fork_of_it == 0) {
        for (int i = 0; i < 100; i++)
            pause_us(100000);
        _exit(9);
    }
    kill(fork_of_it, SIGTERM);
    waitpid(fork_of_it, &status, 0);
    bool right = WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM && !hs_session_should_stop(session);
    hs_session_close(session, NULL);
    hs_graph_free(graph);
    return right ? 0 : 7;
}

/* For example a process that reads data. Otherwise a signal could not end it. */
static void a_forked_child_has_the_previous_handlers(void **state)
{
    stand *s = *state;
    stand_run(s, (trainer){.at = AT_NO_MOMENT}, with_a_fork);
    check_exit(s, 0);
}

/* Threads, and several sessions. */

static void *run_trainer(void *user)
{
    return (void *)(intptr_t)trainer_run(user);
}

static int in_a_thread(stand *s)
{
    pthread_t thread;
    void *status;
    if (pthread_create(&thread, NULL, run_trainer, &s->t) || pthread_join(thread, &status))
        return 8;
    return (int)(intptr_t)status;
}

static void a_signal_to_the_main_thread(void **state)
{
    stand *s = *state;
    for (int i = 0; i < 20; i++) {
        tally sum = {0, 0, 0};
        stand_start(s, (trainer){.at = AT_STEP, .at_step = 1 + i % 6, .background = i % 2}, in_a_thread);
        assert_true(stand_await(s));
        pause_us((long)(stand_random(s) % 500));
        kill(s->child, SIGTERM);
        stand_finish(s);
        check_trial(s, SIGTERM, &sum);
        stand_clear(s);
    }
}

static int two_at_once(stand *s)
{
    char second[1024];
    pthread_t threads[2];
    void *status[2];
    snprintf(second, sizeof second, "%s/second", s->directory);
    trainer other = s->t;
    other.directory = second;
    other.record = s->others;
    if (pthread_create(&threads[0], NULL, run_trainer, &s->t) || pthread_create(&threads[1], NULL, run_trainer, &other) ||
        pthread_join(threads[0], &status[0]) || pthread_join(threads[1], &status[1]))
        return 8;
    bool same = status[0] == status[1], back = now(SIGTERM).sa_handler == SIG_DFL;
    return same && back ? (int)(intptr_t)status[0] : 7;
}

static void two_sessions_stop_at_once(void **state)
{
    stand *s = *state;
    stand_start(s, (trainer){.at = AT_NO_DATA, .at_step = 6}, two_at_once);
    assert_true(stand_await(s) && stand_await(s));
    kill(s->child, SIGTERM);
    stand_finish(s);
    check_saved(s, SIGTERM);
    assert_int_equal(s->others->outcome.signal, SIGTERM);
    assert_int_equal(s->others->outcome.last_saved_step, s->others->outcome.step);
    stand_resume(s, s->record->outcome.step);
}

static int seventeen(stand *s)
{
    enum { MOST = 16 };
    hs_graph *graphs[MOST + 1];
    hs_session *sessions[MOST + 1];
    hs_error err;
    hs_env env = HS_INIT(hs_env);
    (void)s;
    for (int i = 0; i <= MOST; i++) {
        graphs[i] = hs_graph_new(&env);
        hs_graph_global_step(graphs[i], NULL, NULL);
        sessions[i] = hs_session_open(hs_graph_backend(graphs[i]), HS_SESSION_OPTIONS(.signals = true), &err);
    }
    bool right = sessions[MOST - 1] && !sessions[MOST] && err.code == HS_RESOURCE_EXHAUSTED;
    raise(SIGTERM);
    for (int i = 0; i < MOST; i++) {
        right &= hs_session_should_stop(sessions[i]);
        hs_session_close(sessions[i], NULL);
    }
    for (int i = 0; i <= MOST; i++)
        hs_graph_free(graphs[i]);
    return right && now(SIGTERM).sa_handler == SIG_DFL ? 0 : 7;
}

static void the_seventeenth_session_is_refused(void **state)
{
    stand *s = *state;
    stand_run(s, (trainer){.at = AT_NO_MOMENT}, seventeen);
    check_exit(s, 0);
}

/* As job schedulers do. */

static int under_timeout(stand *s)
{
    execlp("timeout", "timeout", "--preserve-status", "-s", "TERM", "0.5", self, "--train", s->directory, (char *)NULL);
    return 8;
}

static void a_program_under_timeout_saves(void **state)
{
    stand *s = *state;
    stand_run(s, (trainer){.at = AT_NO_MOMENT}, under_timeout);
    check_exit(s, 75);
    stand_run(s, (trainer){.at = AT_NO_MOMENT}, NULL);
    check_done(s);
    assert_true(s->record->losses[3] == 0 && s->record->losses[6] != 0);
}

/* The program. Its data never arrive. */
static int train_forever(const char *directory)
{
    int ends[2];
    if (pipe(ends))
        return 8;
    return trainer_run(
        &(trainer){.directory = directory, .record = record_new(1), .at = AT_NO_DATA, .at_step = 6, .pipe = ends[1]});
}

/* In a group. Launchers signal the processes of a job one after the other. */
static void a_signal_that_another_rank_got_is_not_the_first_one_here(void **state)
{
    (void)state;
    static _Atomic int64_t ahead;
    _Atomic int64_t *before = clock_ahead_ns;
    hs_graph *graph = hs_graph_new(NULL);
    hs_session *session = hs_session_open(hs_graph_backend(graph), HS_SESSION_OPTIONS(.signals = true), NULL);
    clock_ahead_ns = &ahead;
    hs__signals_adopt(session, SIGINT);
    assert_int_equal(hs__signals_first(session), SIGINT);
    atomic_store(&ahead, 600000000);
    raise(SIGTERM);
    assert_false(hs__stops(session) & HS__STOP_UNSAVED);
    assert_int_equal(hs__signals_first(session), SIGTERM);
    clock_ahead_ns = before;
    hs_session_close(session, NULL);
    hs_graph_free(graph);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_signal_that_another_rank_got_is_not_the_first_one_here),
        with_stand(a_signal_ends_an_endless_wait_for_data),
        with_stand(without_a_saver_it_is_ended_by_the_signal),
        with_stand(after_a_second_signal_nothing_is_saved),
        with_stand(the_same_signal_sent_twice_at_once_counts_as_one),
        with_stand(two_signals_while_it_is_closed_leave_it_unsaved_too),
        with_stand(two_signals_while_it_is_closed_do_not_undo_the_save_of_its_stop),
        with_stand(a_third_signal_kills),
        with_stand(a_request_saves_after_the_step),
        with_stand(the_programs_handler_is_called_with_its_info),
        with_stand(a_plain_handler_is_called_each_time),
        with_stand(a_third_signal_goes_only_to_the_handler),
        with_stand(ignored_signals_stay_ignored),
        with_stand(a_handler_that_came_later_and_stays_is_called_once),
        with_stand(a_handler_that_is_put_back_is_found_by_the_next_session),
        with_stand(a_forked_child_has_the_previous_handlers),
        with_stand(a_signal_to_the_main_thread),
        with_stand(two_sessions_stop_at_once),
        with_stand(the_seventeenth_session_is_refused),
        with_stand(a_program_under_timeout_saves),
    };
    self = argv[0];
    if (argc == 3 && strcmp(argv[1], "--train") == 0)
        return train_forever(argv[2]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
