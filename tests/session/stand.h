/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_SESSION_STAND_H
#define HS_TESTS_SESSION_STAND_H

/* Runs processes that train (signaled.h) one after the other in one directory. */

#include "session/signaled.h"

#include <sys/types.h>

typedef struct stand stand;
struct stand {
    char *directory;
    record *record, *others; /* the process's record; two more for its further sessions */
    trainer t;
    int moment_pipe; /* the pipe's end to read */
    pid_t child;
    int status;
    uint64_t random;
    uint64_t digest; /* of a run without signals, */
    double losses[STEPS + 1];
    uint64_t run_us; /* and its duration; check_trial corrects it, as it depends on the machine's load */
};

int stand_setup(void **state);
int stand_teardown(void **state);
#define with_stand(test) cmocka_unit_test_setup_teardown(test, stand_setup, stand_teardown)

uint64_t stand_random(stand *s);
/* Empties the directory. */
void stand_clear(stand *s);
/* Starts a process in the directory. `body` NULL: it calls trainer_run. */
void stand_start(stand *s, trainer t, int (*body)(stand *s));
/* Waits until it reaches its moment. Returns false if it ended before. */
bool stand_await(const stand *s);
/* Waits until it has ended. */
void stand_finish(stand *s);
void stand_run(stand *s, trainer t, int (*body)(stand *s));
/* Starts a process, sends it a signal at a random time after its moment, up to the duration of a whole run, and waits
 * until it has ended. */
void stand_send(stand *s, const trainer *t, int signal);
/* Runs the next process, which must resume from the saved step (0: nothing was saved, or the first step) and end as a
 * run without signals. */
void stand_resume(stand *s, int64_t saved);

void check_exit(const stand *s, int wanted);
void check_done(const stand *s);
/* Asserts that the process was stopped by this signal and saved. */
void check_saved(const stand *s, int signal);
/* Asserts that the losses from this step on are those of a run without signals. */
void check_losses(const stand *s, int64_t from);
/* Asserts that the signal killed the process, and came while no session handled signals. */
void check_killed(const stand *s, int signal);

/* The results of trials. */
typedef struct tally {
    int saved, done, killed;
} tally;
/* Asserts that the process ended correctly after the signal, and resumes it if necessary. Makes the next signal earlier if
 * this one came too late, otherwise later. */
void check_trial(stand *s, int signal, tally *sum);

#endif
