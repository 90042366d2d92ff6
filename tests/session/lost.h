/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_SESSION_LOST_H
#define HS_TESTS_SESSION_LOST_H

/* A graph whose step is in the session's memory, with a hook and an op that lose the session when a test says so. */

#include "session/probe.h"

#include <pthread.h>

typedef struct lost {
    test_env t;
    hs_graph *graph;
    hs_session *session;
    hs_outcome outcome;
    hs_error err;
    probe a, b, c;        /* c: for tests with a third hook */
    char *directory;      /* NULL: none was made */
    hs_script *calls;     /* records the hooks' callbacks */
    hs_recovery recovery; /* the sessions' option */
    size_t opens;         /* openings of the backend's session */
    hs_backend_ops spied_ops;
    hs_code fails_with; /* the code of the op "fail" */
    int fails_left;
    bool hides_step; /* reading the global step fails until the backend is opened again */
} lost;

/* cmocka's setup and teardown. The graph has global_step, "inc", which advances it, "fail", which fails `fails_left`
 * times, and "same", the identity of the placeholder "in". */
int lost_setup(void **state);
int lost_teardown(void **state);
#define lost_test(name) cmocka_unit_test_setup_teardown(name, lost_setup, lost_teardown)

/* Sets what one of the probes does. */
#define lost_probe(l, which, ...) ((l)->which = (probe){.name = #which, __VA_ARGS__})

/* Opens a session that recovers, with the recorded hooks a and b, and n more. */
hs_session *lost_try_open(lost *l, const hs_session_options *options, const hs_hook *more, size_t n);
void lost_open(lost *l, const hs_session_options *options);
/* The same with a checkpoint of every step, and restoring from the directory. */
void lost_open_saving(lost *l);
hs_code lost_run(lost *l, const char *name);
/* Runs "fail", which fails once with `code`. */
hs_code lost_fail(lost *l, hs_code code);
/* Loses the session in "fail" with HS_ABORTED. The run succeeds after a recovery. */
void lost_recover(lost *l);
/* Runs "inc". Returns the step after it. */
int64_t lost_inc(lost *l);
/* Fetches the step in a run. */
int64_t lost_step(lost *l);
/* Runs "same" with a number, and returns its value. */
double lost_same(lost *l, double number);
const hs_outcome *lost_close(lost *l);
/* Reports an error to the session's coordinator, from another thread. */
void lost_report(lost *l, hs_code code);
/* The graph's backend, which counts its openings. */
hs_backend lost_backend(lost *l);

#endif
