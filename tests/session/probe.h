/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_SESSION_PROBE_H
#define HS_TESTS_SESSION_PROBE_H

/* A hook that requests, fails, acts and counts as a test sets it, and a scripted session for it. */

#include "support/test.h"

#include <hooksess/testing.h>

typedef enum {
    PROBE_BEGIN,
    PROBE_CREATE,
    PROBE_BEFORE,
    PROBE_AFTER,
    PROBE_BOUNDARY,
    PROBE_END,
    PROBE_CLOSE,
    PROBE_POINTS
} probe_point;

typedef struct probe probe;

/* The arguments of a callback. NULL: the callback does not have it. */
typedef struct {
    probe_point point;
    hs_backend backend;
    hs_raw_session *raw;
    hs_coordinator *coordinator;
    hs_run_context *run;
    const hs_run_values *values;
    hs_error *err;
} probe_call;

typedef hs_code (*probe_act)(probe *p, const probe_call *call);

struct probe {
    const char *name;
    const hs_run_args *wants; /* requested in each before_run */
    probe_point fails_in;     /* the callback that fails ... */
    size_t fails_at;          /* ... in this call of it, counted from 1; 0: never */
    hs_code code;             /* with this code. 0: HS_INTERNAL */
    const char *message;      /* NULL: no message */
    size_t stops_at;          /* the after_run, counted from 1, that requests a stop; 0: none */
    probe_act act;            /* called in each callback that does not fail itself */
    void *user;

    size_t calls[PROBE_POINTS];
    int destroyed;
    double number; /* the first value in the last after_run */
    hs_coordinator *coordinator;
    hs_raw_session *raw;
    hs_outcome outcome; /* from close */
    hs_hook_ops ops;
};

/* Returns the hook. `p` must outlive it. */
hs_hook probe_hook(probe *p);

typedef struct play {
    test_env t; /* its clock is not used, but the script's */
    hs_script *script;
    hs_backend backend;
    hs_session *session;
    hs_error err;
    const hs_run_values *values; /* of the last run */
    hs_outcome outcome;          /* of the last close */
    hs_backend_ops spied;
    probe a, b, c; /* they outlive the session */
} play;

/* Sets what one of the play's probes does. */
#define play_probe(p, which, ...) ((p)->which = (probe){.name = #which, __VA_ARGS__})

/* cmocka's setup and teardown: *state is a play whose script has placeholders a, b, c and constants five and ten. The
 * teardown closes the session, and fails the test if memory is left. */
int play_setup(void **state);
int play_teardown(void **state);
/* Also records the calls of the backend: "finalize", "unfinalize", "open", "shut". */
void play_spy(play *p);

hs_session *play_try_open(play *p, const hs_hook *hooks, size_t n);
/* The same, asserting success. */
void play_open(play *p, const hs_hook *hooks, size_t n);
/* The same with the first n of the probes a, b and c, whose callbacks are recorded. */
void play_open_probes(play *p, size_t n);
/* Makes a run. Its values are in p->values. */
hs_code play_run(play *p, const char *const *names, const hs_feed *feeds);
hs_code play_args(play *p, const hs_run_args *args);
/* Runs one name, asserts success, and returns its value. */
double play_number(play *p, const char *name);
/* Runs "train", asserts success, and returns the step after it. */
int64_t play_train(play *p);
const hs_outcome *play_close(play *p);
/* The callbacks since the last call of this function. */
const char *play_calls(play *p);
/* Returns the probe as a hook whose callbacks are recorded under its name. */
hs_hook play_watch(play *p, probe *hook);
hs_feed play_feed(const char *name, const double *value);

#define play_test(name) cmocka_unit_test_setup_teardown(name, play_setup, play_teardown)

#endif
