/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTING_SIMULATION_H
#define HS_TESTING_SIMULATION_H

#include <hooksess/simulation.h>

#include "testing/string_buffer.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

/* A simulation: n threads, of which one runs. The running thread passes its turn to the next one (hs__rank_yield) in each
 * collective call, and when its `main` returns. Calls are matched by number: the k-th calls of all ranks are one round. */

/* The calls of a rank are numbered in each plane: the group's calls, and those of hs_simulation_sum(). */
typedef enum { HS__PLANE_GROUP = 0, HS__PLANE_PROGRAM = 1, HS__N_PLANES = 2 } hs__plane;

typedef enum { HS__ALLREDUCE_OR, HS__BROADCAST, HS__GATHER, HS__BARRIER, HS__SUM, HS__N_COLLECTIVES } hs__collective;

/* The arguments of a collective call. */
typedef struct hs__call {
    hs__collective kind;
    int32_t root;
    size_t n;   /* words, bytes or numbers */
    void *data; /* words, bytes or numbers */
    hs_gather_fn receive;
    void *user;
} hs__call;

typedef enum {
    HS__RANK_READY,   /* can run; in hs_simulation.ready */
    HS__RANK_RUNNING, /* has the turn */
    HS__RANK_WAITING, /* in a call that is not complete; among the waiters of its round */
    HS__RANK_FROZEN,
    HS__RANK_KILLED, /* gets a last turn when all other ranks have ended */
    HS__RANK_ENDED,  /* `main` has returned */
} hs__rank_state;

typedef enum { HS__FAULT_KILL, HS__FAULT_EXIT, HS__FAULT_FREEZE, HS__FAULT_DELAY } hs__fault_kind;

typedef struct hs__fault {
    struct hs__fault *next;
    hs__fault_kind kind;
    int64_t at_collective;
    int64_t delay_ns;
} hs__fault;

typedef struct hs__rank {
    hs_simulation *simulation;
    int32_t number;
    hs__rank_state state;
    hs_group group;
    hs_env env;
    pthread_t thread;
    sem_t turn;
    int64_t n_collectives, n_file_calls;
    int64_t made[HS__N_PLANES]; /* calls that the rank has joined */
    hs__fault *faults;
    int64_t killed_in_file_call; /* 0: none */
    hs__collective waits_in;
    hs_code woken_with;           /* HS_OK: the call that the rank waited in is complete */
    struct hs__rank *next_waiter; /* of the same round */
    bool gone;                    /* joins no further calls, as the other ranks see it */
    atomic_bool killed;
    int result;
} hs__rank;

/* The calls of all ranks that have the same number. */
typedef struct hs__round {
    struct hs__round *next; /* with a higher index; or the next unused one */
    int64_t index;          /* from 0 */
    hs__call call;          /* of the first rank that joined; the others must match */
    int32_t first_rank;
    int32_t n_joined, n_left;
    uint64_t words[8];
    void *data;      /* result of a broadcast or a sum */
    hs_bytes *parts; /* for each rank: a copy of its part of a gather, or its numbers in a sum. NULL: not allocated */
    hs__rank *waiters;
} hs__round;

struct hs_simulation {
    hs_env env;                    /* complete */
    hs_file_system_ops files;      /* of `env` */
    hs_file_system_ops rank_files; /* of the environments of the ranks */
    bool syncs;                    /* false: sync does nothing */
    _Atomic int64_t now_ns;        /* if the options have no clock */
    hs_rank_main_fn main;
    void *user;
    size_t stack_bytes;
    int64_t detector_ns;
    bool has_detector;
    int32_t rank_count;
    hs__rank *ranks;
    pthread_mutex_t lock; /* of all below, and of the ranks */
    uint64_t random;
    bool started, cancelled; /* cancelled: threads could not be started, and `main` is not called */
    bool over;               /* all ranks have ended or are killed; now the killed ones end */
    int32_t n_resumed;       /* ranks that were considered for a last turn */
    sem_t done;              /* no rank has a turn any more */
    hs__rank **ready;
    int32_t n_ready, n_waiting[HS__N_PLANES], n_frozen;
    hs__round *rounds[HS__N_PLANES]; /* incomplete ones, lowest index first */
    hs__round *unused;
    int64_t cut[HS__N_PLANES];      /* calls from this index on fail */
    int32_t cut_rank[HS__N_PLANES]; /* the rank that does not join them. -1: several */
    hs_error cut_reason[HS__N_PLANES];
    int32_t failed_rank; /* the first. -1: none */
    hs_error failure;    /* its failure */
    hs_error bug;        /* the bug that has ended the simulation. HS_OK: none */
    hs__string_buffer trace;
};

/* All functions below are called with the lock held. */

/* Returns a random number below n. */
uint32_t hs__simulation_random(hs_simulation *simulation, uint32_t n);
/* Passes the turn to the next rank, and returns when this rank has the turn again. Releases the lock while waiting. */
void hs__rank_yield(hs__rank *rank);
/* Passes the turn to the first rank. Releases the lock. */
void hs__simulation_begin(hs_simulation *simulation);
/* Makes the rank ready to run. `code`: result of the call in which it waits. */
void hs__rank_wake(hs__rank *rank, hs_code code);
/* The rank joins no further calls, for `reason`; `failed`: because it failed. With a detector, the ranks that wait for it
 * wake. */
void hs__rank_leave(hs__rank *rank, bool failed, const hs_error *reason);
/* Makes the rank a killed one: by another thread of the rank, or in its own thread, before hs__rank_block. */
void hs__rank_kill(hs__rank *rank, const char *how);
/* Blocks a killed rank until its last turn. Only in the rank's own thread. */
void hs__rank_block(hs__rank *rank);
/* True in the rank's own thread. */
bool hs__rank_is_self(const hs__rank *rank);
/* Calls of the plane from `index` on fail. Wakes the ranks that wait in them. */
void hs__simulation_cut(hs_simulation *simulation, hs__plane plane, int64_t index, int32_t rank, const hs_error *reason);
/* Ends the simulation because of a bug. */
void hs__simulation_break(hs_simulation *simulation, hs_code code, const char *format, ...) HS_PRINTF(3, 4);
hs__plane hs__collective_plane(hs__collective kind);
const char *hs__collective_name(hs__collective kind);

/* The other parts of a simulation. */

extern const hs_group_ops hs__simulated_ops, hs__simulated_ops_without_detector;
/* Returns the rank of a simulated group. NULL: another group. */
hs__rank *hs__simulated_rank(const hs_group *group);
void hs__simulation_free_rounds(hs_simulation *simulation);
/* Fills `rank_files` of the simulation, and `env` of a rank. */
void hs__simulation_make_files(hs_simulation *simulation);
void hs__rank_make_env(hs__rank *rank);

#endif
