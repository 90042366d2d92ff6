/* SPDX-License-Identifier: Apache-2.0 */
/* Real signals to real processes, at random times. */
#include "session/stand.h"

#include <signal.h>
#include <sys/wait.h>

#ifdef __SANITIZE_THREAD__
enum { TRIALS = 60 }; /* processes start much more slowly */
#else
enum { TRIALS = 200 }; /* in each phase */
#endif

/* On a busy machine each signal of a phase may come too late: more are sent until one comes in time. */
static void try_moment(stand *s, moment at, bool background)
{
    tally sum = {0, 0, 0};
    const int64_t most = at == AT_SAVE || at == AT_EVALUATION ? 3 : STEPS;
    for (int i = 0; i < TRIALS / 2 || (at == AT_END ? !sum.done : !sum.saved); i++) {
        int signal = i % 2 ? SIGTERM : SIGINT;
        trainer t = {.at = at, .at_step = 1 + (int64_t)(stand_random(s) % (uint64_t)most), .background = background};
        t.at_step *= at == AT_SAVE ? SAVE_STEPS : at == AT_EVALUATION ? EVAL_STEPS : 1;
        stand_send(s, &t, signal);
        check_trial(s, signal, &sum);
        stand_clear(s);
    }
}

static void try_both(stand *s, moment at)
{
    for (int background = 0; background < 2; background++)
        try_moment(s, at, background);
}

static void a_signal_around_the_opening(void **state)
{
    try_both(*state, AT_START);
}

static void a_signal_while_it_opens(void **state)
{
    try_both(*state, AT_OPENING);
}

static void a_signal_in_a_step(void **state)
{
    try_both(*state, AT_STEP);
}

static void a_signal_in_an_evaluation(void **state)
{
    try_both(*state, AT_EVALUATION);
}

static void a_signal_while_it_waits_for_data(void **state)
{
    try_both(*state, AT_DATA);
}

static void a_signal_while_it_saves(void **state)
{
    try_both(*state, AT_SAVE);
}

static void a_signal_while_it_closes(void **state)
{
    try_both(*state, AT_END);
}

static void a_request_disturbs_nothing(void **state)
{
    stand *s = *state;
    for (int i = 0; i < TRIALS; i++) {
        stand_send(s, &(trainer){.at = AT_STEP, .at_step = 1 + i % 5, .background = i % 2}, SIGUSR1);
        if (WIFSIGNALED(s->status)) {
            check_killed(s, SIGUSR1);
        } else {
            check_done(s);
            check_losses(s, 1);
        }
        stand_clear(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        with_stand(a_signal_around_the_opening),
        with_stand(a_signal_while_it_opens),
        with_stand(a_signal_in_a_step),
        with_stand(a_signal_in_an_evaluation),
        with_stand(a_signal_while_it_waits_for_data),
        with_stand(a_signal_while_it_saves),
        with_stand(a_signal_while_it_closes),
        with_stand(a_request_disturbs_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
