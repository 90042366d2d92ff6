/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_SESSION_LOST_H
#define HS_TESTS_SESSION_LOST_H

/* A graph whose step is in the session's own memory, with a hook that loses the session when a test says so. */

#include "session/probe.h"

#include <pthread.h>

typedef struct lost {
    test_env t;
    hs_graph *graph;
    hs_session *session;
    hs_outcome outcome;
    hs_error err;
    probe a, b, c;        /* c for the tests that want a third */
    char *directory;      /* NULL: none was made */
    hs_script *calls;     /* records what the hooks are called for */
    hs_recovery recovery; /* of the sessions that are opened */
    size_t opens;         /* how often the backend's session was opened */
    hs_backend_ops spied;
    hs_code fails_with; /* the op "fail" fails so often, with this */
    int fails_left;
    bool hides_step; /* the backend cannot tell the step until it is opened again */
} lost;

/* cmocka's setup and teardown. The graph has global_step, "inc", which advances it, "fail", and "same", the identity of the
 * placeholder "in". */
int lost_setup(void **state);
int lost_teardown(void **state);
#define lost_test(name) cmocka_unit_test_setup_teardown(name, lost_setup, lost_teardown)

/* Tells one of the probes what to do. */
#define lost_probe(l, which, ...) ((l)->which = (probe){.name = #which, __VA_ARGS__})

/* Opens a session that recovers, with a and b, watched, and these. */
hs_session *lost_try_open(lost *l, const hs_session_options *options, const hs_hook *more, size_t n);
void lost_open(lost *l, const hs_session_options *options);
/* The same with a saver of every step and a directory to restore from. */
void lost_open_saving(lost *l);
hs_code lost_run(lost *l, const char *name);
/* Runs "fail", which fails once with `code`. */
hs_code lost_fail(lost *l, hs_code code);
/* Loses the session in "fail" with HS_ABORTED. The run succeeds after a recovery. */
void lost_recover(lost *l);
/* A run of "inc"; the step after it. */
int64_t lost_inc(lost *l);
/* A run that fetches the step. */
int64_t lost_step(lost *l);
/* "same" of a number. */
double lost_same(lost *l, double number);
const hs_outcome *lost_close(lost *l);
/* Has a thread report an error to the coordinator that the probe a got. */
void lost_report(lost *l, hs_code code);
/* The backend, which counts its openings. */
hs_backend lost_backend(lost *l);

#endif
