/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_REPLICAS_RANKS_H
#define HS_TESTS_REPLICAS_RANKS_H

/* A training program of several ranks in a simulated group. Rank r learns from sample `position` + r, and the ranks add
 * their gradients; the position is the same on all ranks. At one step, something happens on one rank. */

#include "support/test.h"

#include <hooksess/testing.h>

enum { RANKS_MAX = 8, RANKS_PARAMETERS = 3, RANKS_SAVE_STEPS = 5, RANKS_MORE = 3 };

typedef enum ranks_event {
    NO_EVENT = 0,
    REQUESTS_STOP, /* as a signal does */
    REQUESTS_STOP_UNSAVED,
    LOSS_IS_NAN,   /* for the hook nan_tensor */
    OP_FAILS,      /* before the gate */
    OP_FAILS_LATE, /* behind the gate, before the sum */
    INPUT_ENDS,
    IS_LOST, /* HS_UNAVAILABLE, once */
    IS_LOST_ALWAYS,
    LEAVES_LOOP,
    LEAVES_STEP,    /* within a step */
    LEAVES_AT_GATE, /* if the gate fails */
    FAILS_SESSION,  /* hs_session_fail, then leaves the loop */
    FAILS_IN_STEP,  /* the step has failed, although its run has not */
    BEFORE_RUN_FAILS,
    BEFORE_RUN_STOPS,   /* returns HS_STOP */
    BEFORE_RUN_IS_LOST, /* HS_UNAVAILABLE; each loss happens once on a rank */
    AFTER_RUN_FAILS,
    AFTER_RUN_STOPS,
    AFTER_RUN_IS_LOST,
    BOUNDARY_FAILS,
    BOUNDARY_STOPS,
    OPENING_FAILS,  /* in the boundary at the opening */
    CLOSING_FAILS,  /* in the boundary at the close */
    STOPPING_FAILS, /* in the boundary of the stop */
    IS_LOST_IN_BOUNDARY,
    HOOK_STOPS,
    RANKS_EVENTS, /* how many */
} ranks_event;

typedef struct ranks_fault {
    ranks_event event;
    int32_t rank;
    int64_t step; /* the global step before it */
} ranks_fault;

typedef struct ranks {
    const char *directory;
    const char *what; /* for messages. NULL: nothing */
    int32_t rank_count;
    uint64_t seed;
    int64_t steps;
    bool own_loop; /* hs_step_begin instead of an op */
    bool repeats;  /* the loop repeats the call after a recovery: hs_recovery.return_aborted */
    bool no_gate;
    bool chief_stops; /* the hook that ends the training is one of the chief only */
    ranks_event event;
    int32_t event_rank;
    int64_t event_step;           /* the global step before it */
    ranks_fault more[RANKS_MORE]; /* further events */
    bool background;              /* saves in the background */
    const hs_env *env;            /* of the simulation. NULL: the default */
    int32_t alloc_rank;           /* of this rank, allocation number alloc_at fails (from 1; 0: none) */
    size_t alloc_at;
    int64_t every_n; /* hs_replica_options.agree_every_n_steps */
    hs_end_of_input end_of_input;
    bool per_rank_position; /* the position differs between the ranks: that of the next sample of this rank */
    hs_state_scope scope;   /* of the position */
    bool reshards;          /* the position can be divided among another number of ranks */
    void (*arrange)(struct ranks *r, hs_simulation *simulation); /* requests faults. NULL: none */
    /* Results. */
    hs_code code; /* of hs_simulation_run */
    hs_error error;
    bool ended[RANKS_MAX]; /* the rank was not killed */
    hs_outcome outcomes[RANKS_MAX];
    double parameters[RANKS_MAX][RANKS_PARAMETERS];
    int64_t samples[RANKS_MAX]; /* sum of the samples that led to the parameters */
    int64_t steps_made[RANKS_MAX];
    bool stopped[RANKS_MAX];             /* the boundary of the stop was called */
    int64_t saved_at_opening[RANKS_MAX]; /* as the rank knows it */
    int opened[RANKS_MAX];               /* 1: the session was opened; 2: and had stopped already */
    int64_t collectives[RANKS_MAX], file_calls[RANKS_MAX];
    size_t allocations[RANKS_MAX];
    size_t leaks;   /* blocks that were not freed */
    bool timed_out; /* ranks have waited in the program's communication, while others did not */
    bool logged_recovery[RANKS_MAX];
} ranks;

/* Returns the number in an environment variable, or else `otherwise`. */
uint64_t ranks_number(const char *variable, uint64_t otherwise);
/* Trains in all ranks. */
void ranks_run(ranks *r);
/* Asserts that no rank waited forever, and that all ranks that ended have the same outcome. */
const hs_outcome *ranks_outcome(const ranks *r);
/* Asserts that all ranks that ended have these parameters. */
void ranks_check_parameters(const ranks *r, const double *wanted);

#endif
