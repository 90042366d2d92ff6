/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_SESSION_OWN_H
#define HS_TESTS_SESSION_OWN_H

/* A loop that computes its steps itself: a weight that grows by what the data say, a loss, a position in the data. */

#include "session/probe.h"

typedef struct own {
    test_env t;
    hs_graph *graph;
    hs_session *session;
    hs_outcome outcome; /* of the last close */
    hs_error err;
    probe a, b;
    char *directory;
    hs_script *calls;     /* records what the probes are called for */
    hs_recovery recovery; /* of the sessions that are opened */
    double weight, loss;
    int64_t position;
} own;

/* cmocka's setup and teardown. The graph has the variable "weight", the value "loss", the state "data", a global step, and
 * "same", the identity of the placeholder "in". */
int own_setup(void **state);
int own_teardown(void **state);
#define own_test(name) cmocka_unit_test_setup_teardown(name, own_setup, own_teardown)

#define own_probe(o, which, ...) ((o)->which = (probe){.name = #which, __VA_ARGS__})

/* Opens a session with these hooks, or with the probes a and b, watched. */
void own_open(own *o, const hs_session_options *options, const hs_hook *hooks, size_t n);
void own_open_probes(own *o, const hs_session_options *options);
/* With one hook, and nothing else. */
void own_open_hook(own *o, hs_hook hook);
/* What is between begin and end: the first position adds 1, the next 2, and so on. */
void own_compute(own *o);
/* The loop's body and the loop: until it ends, at most so many steps. How many were made. */
hs_code own_step(own *o);
int own_loop(own *o, int most);
const hs_outcome *own_close(own *o);
/* All that a new process has: nothing. The graph stays. */
void own_forget(own *o);
/* What was called since the last time. */
const char *own_calls(own *o);
/* The double of that name in the newest checkpoint of the directory; -1: there is none. */
double own_saved(own *o, const char *name);

#endif
