/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_SESSION_SIGNALED_H
#define HS_TESTS_SESSION_SIGNALED_H

/* A small program that trains, to be sent signals: a queue with a position, variables, a saver, an evaluation, twelve
 * steps. It writes a byte to a pipe when it comes to a moment that the test names. */

#include "support/test.h"

#include <stdatomic.h>

enum { STEPS = 12, SAVE_STEPS = 3, EVAL_STEPS = 4 };

typedef enum {
    AT_NO_MOMENT,
    AT_START,      /* before the session is opened */
    AT_OPENING,    /* the first begin of a hook */
    AT_STEP,       /* in the op */
    AT_EVALUATION, /* between its batches */
    AT_DATA,       /* the step waits for data, for some time */
    AT_NO_DATA,    /* the same, forever */
    AT_SAVE,
    AT_END /* a hook's end; with AWAITS_SIGNALS until there were two */
} moment;

/* What its op does at that moment. */
typedef enum {
    GOES_ON,
    AWAITS_SIGNALS, /* writes a byte more for each that it has seen, and goes on after the second */
    STAYS,          /* the same, and never goes on */
    AWAITS_REQUEST  /* before the step: until somebody has asked for a save */
} behavior;

/* What the process tells of itself, in memory that others see. */
typedef struct record {
    atomic_bool begun, freed; /* between the two, signals are the session's */
    atomic_bool closed;       /* all below is there */
    hs_outcome outcome;
    uint64_t digest; /* of the variables */
    double losses[STEPS + 1];
    int refused;              /* 1: the session was not opened */
    _Atomic int64_t ahead_ns; /* the process's clock may be moved by it (support/clock.h) */
} record;

/* In such memory, zeroed. */
record *record_new(size_t n);
void record_free(record *r, size_t n);

typedef struct trainer {
    const char *directory;
    record *record;
    moment at;
    int64_t at_step;
    behavior does;
    int pipe; /* the byte is written to it */
    bool background, unsaved;
    int64_t last_step; /* 0: STEPS */

    /* its own */
    double weights[4];
    int64_t step, position;
    hs_graph *graph;
    hs_session *session;
    hs_raw_session *raw;
    hs_coordinator *_Atomic coordinator;
    hs_env env;
    hs_file_system_ops files;
} trainer;

/* Trains until it is done or stopped; the exit status. */
int trainer_run(trainer *t);

#endif
