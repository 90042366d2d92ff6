/* SPDX-License-Identifier: Apache-2.0 */
#include "session/stand.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifdef HOOKSESS_COVERAGE
void __gcov_dump(void);
#endif

uint64_t stand_random(stand *s)
{
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    return s->random;
}

static void pause_us(long us)
{
    nanosleep(&(struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000}, NULL);
}

void stand_clear(stand *s)
{
    test_remove_directory(s->directory);
    s->directory = test_make_directory();
}

void stand_start(stand *s, trainer t, int (*body)(stand *s))
{
    int ends[2];
    enum { MOST_SECS = 60 };
    assert_int_equal(pipe(ends), 0);
    memset(s->record, 0, 3 * sizeof *s->record);
    s->t = t;
    s->t.directory = s->directory;
    s->t.record = s->record;
    s->t.pipe = ends[1];
    s->moment_pipe = ends[0];
    fflush(NULL);
    s->child = fork();
    assert_true(s->child >= 0);
    if (s->child == 0) {
        close(ends[0]);
        alarm(MOST_SECS);
        int status = body ? body(s) : trainer_run(&s->t);
#ifdef HOOKSESS_COVERAGE
        __gcov_dump(); /* _exit does not write the counters */
#endif
        _exit(status);
    }
    close(ends[1]);
}

bool stand_await(const stand *s)
{
    char byte;
    return read(s->moment_pipe, &byte, 1) == 1;
}

void stand_finish(stand *s)
{
    assert_int_equal(waitpid(s->child, &s->status, 0), s->child);
    close(s->moment_pipe);
}

void stand_run(stand *s, trainer t, int (*body)(stand *s))
{
    stand_start(s, t, body);
    stand_finish(s);
}

void check_exit(const stand *s, int wanted)
{
    if (!WIFEXITED(s->status) || WEXITSTATUS(s->status) != wanted)
        fail_msg("status %#x instead of exit %d; reason %d, step %lld, saved %lld: %s", (unsigned)s->status, wanted,
                 s->record->outcome.reason, (long long)s->record->outcome.step,
                 (long long)s->record->outcome.last_saved_step, s->record->outcome.error.message);
}

void check_done(const stand *s)
{
    check_exit(s, 0);
    assert_true(s->record->closed);
    assert_int_equal(s->record->outcome.step, STEPS);
    assert_true(s->record->digest == s->digest);
}

void check_losses(const stand *s, int64_t from)
{
    for (int64_t i = from; i <= STEPS; i++)
        assert_true(s->record->losses[i] == s->losses[i]);
}

void stand_resume(stand *s, int64_t saved)
{
    stand_run(s, (trainer){.background = s->t.background}, NULL);
    check_done(s);
    assert_true(saved == STEPS || s->record->losses[saved + 1] != 0);
    assert_true(saved == 0 || s->record->losses[saved] == 0); /* it began after the saved step */
    check_losses(s, saved + 1);
}

void check_saved(const stand *s, int signal)
{
    const hs_outcome *outcome = &s->record->outcome;
    check_exit(s, 75);
    assert_int_equal(outcome->signal, signal);
    assert_true(outcome->interrupted && outcome->reason == HS_REASON_STOPPED);
    assert_int_equal(outcome->last_saved_step, outcome->step);
}

/* Measures the duration of a run, which differs between hosts and sanitizers. */
static uint64_t measure_us(stand *s)
{
    struct timespec began, ended;
    stand_start(s, (trainer){.at = AT_START}, NULL);
    assert_true(stand_await(s));
    clock_gettime(CLOCK_MONOTONIC, &began);
    stand_finish(s);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    return (uint64_t)((ended.tv_sec - began.tv_sec) * 1000000 + (ended.tv_nsec - began.tv_nsec) / 1000);
}

int stand_setup(void **state)
{
    stand *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->record = record_new(3);
    s->others = s->record + 1;
    s->directory = test_make_directory();
    s->random = 88172645463325252u;
    s->run_us = measure_us(s);
    check_exit(s, 0);
    s->digest = s->record->digest;
    memcpy(s->losses, s->record->losses, sizeof s->losses);
    stand_clear(s);
    *state = s;
    return 0;
}

int stand_teardown(void **state)
{
    stand *s = *state;
    test_remove_directory(s->directory);
    record_free(s->record, 3);
    free(s);
    return 0;
}

void stand_send(stand *s, const trainer *t, int signal)
{
    stand_start(s, *t, NULL);
    if (stand_await(s)) {
        pause_us((long)(stand_random(s) % s->run_us));
        kill(s->child, signal);
    }
    stand_finish(s);
}

void check_killed(const stand *s, int signal)
{
    assert_int_equal(WTERMSIG(s->status), signal);
    assert_true(!s->record->begun || s->record->freed);
}

void check_trial(stand *s, int signal, tally *sum)
{
    bool late = WIFSIGNALED(s->status) ? s->record->begun : WEXITSTATUS(s->status) == 0;
    s->run_us = late ? s->run_us - s->run_us / 8 : s->run_us + s->run_us / 8 + 1;
    if (WIFSIGNALED(s->status)) {
        check_killed(s, signal);
        sum->killed++;
        stand_resume(s, s->record->begun ? STEPS : 0);
    } else if (WEXITSTATUS(s->status) == 0) {
        check_done(s);
        sum->done++;
    } else {
        check_saved(s, signal);
        sum->saved++;
        stand_resume(s, s->record->outcome.step);
    }
}
