/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_SESSION_STAND_H
#define HS_TESTS_SESSION_STAND_H

/* Processes that train (signaled.h), one after the other, in one directory. */

#include "session/signaled.h"

#include <sys/types.h>

typedef struct stand stand;
struct stand {
    char *directory;
    record *record, *others; /* the process's; two for those of sessions that it has besides */
    trainer t;
    int told; /* the pipe's end to read from */
    pid_t child;
    int status;
    uint64_t random;
    uint64_t digest; /* of a run that nobody disturbs, */
    double losses[STEPS + 1];
    uint64_t run_us; /* and its length; check_trial corrects it, as it is longer on a busy machine */
};

int stand_setup(void **state);
int stand_teardown(void **state);
#define with_stand(test) cmocka_unit_test_setup_teardown(test, stand_setup, stand_teardown)

uint64_t stand_random(stand *s);
/* The directory is empty again. */
void stand_clear(stand *s);
/* Starts one on what is in the directory; `body` NULL: it trains, and no more. */
void stand_start(stand *s, trainer t, int (*body)(stand *s));
/* Until it comes to its moment. False: it never does. */
bool stand_await(const stand *s);
/* Until it has ended. */
void stand_finish(stand *s);
void stand_run(stand *s, trainer t, int (*body)(stand *s));
/* Sends it a signal once it has come to its moment, and up to the length of a whole run has passed; until it has ended. */
void stand_send(stand *s, const trainer *t, int signal);
/* The next process goes on from the step that was saved (0: nothing, or the first one), as if nothing had been. */
void stand_resume(stand *s, int64_t saved);

void check_exit(const stand *s, int wanted);
void check_done(const stand *s);
/* It is stopped by this signal, and saved. */
void check_saved(const stand *s, int signal);
/* From this step on they are those of a run that nobody disturbs. */
void check_losses(const stand *s, int64_t from);
/* Where it was killed, the signal came when it was nobody's but the system's. */
void check_killed(const stand *s, int signal);

/* What came of trials. */
typedef struct tally {
    int saved, done, killed;
} tally;
/* Whatever came of the signal was right, and is resumed. The next signal comes earlier if this one came too late, else
 * later. */
void check_trial(stand *s, int signal, tally *sum);

#endif
