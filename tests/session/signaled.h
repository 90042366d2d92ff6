/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_SESSION_SIGNALED_H
#define HS_TESTS_SESSION_SIGNALED_H

/* A small program that trains and gets signals: a queue with a position, variables, a saver, an evaluation, twelve
 * steps. It writes a byte to a pipe at a moment that the test chooses. */

#include "support/test.h"

#include <stdatomic.h>

enum { STEPS = 12, SAVE_STEPS = 3, EVAL_STEPS = 4 };

typedef enum {
    AT_NO_MOMENT,
    AT_START,      /* before the session is opened */
    AT_OPENING,    /* the first begin of a hook */
    AT_STEP,       /* in the op */
    AT_EVALUATION, /* between its batches */
    AT_DATA,       /* the step waits some time for data */
    AT_NO_DATA,    /* the same, forever */
    AT_SAVE,
    AT_END /* a hook's end. With AWAITS_SIGNALS it waits for two signals */
} moment;

/* Current activity of its op. */
typedef enum {
    CONTINUES,
    AWAITS_SIGNALS, /* writes a byte for each signal that it sees, and continues after the second */
    STAYS,          /* the same, but never continues */
    AWAITS_REQUEST  /* before the step: waits until a save is requested */
} behavior;

/* The process's report, in memory that it shares with the test. */
typedef struct record {
    atomic_bool begun, freed; /* between the two, the session handles signals */
    atomic_bool closed;       /* the fields below are set */
    hs_outcome outcome;
    uint64_t digest; /* of the variables */
    double losses[STEPS + 1];
    int refused;              /* 1: opening the session failed */
    _Atomic int64_t ahead_ns; /* moves the process's clock (support/clock.h) */
} record;

/* Allocates records in shared memory, zeroed. */
record *record_new(size_t n);
void record_free(record *r, size_t n);

typedef struct trainer {
    const char *directory;
    record *record;
    moment at;
    int64_t at_step;
    behavior does;
    int pipe; /* the byte is written to this pipe */
    bool background, unsaved;
    int64_t last_step; /* 0: STEPS */
    int64_t leaves_at; /* it leaves its loop after this step, without a stop; 0: it does not */

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

/* Trains until complete or stopped. Returns the exit status. */
int trainer_run(trainer *t);

#endif
