/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_SESSION_OWN_H
#define HS_TESTS_SESSION_OWN_H

/* A loop that computes its steps itself. It has a weight, to which it adds its data, a loss, and a position in the data. */

#include "session/probe.h"

typedef struct own {
    test_env t;
    hs_graph *graph;
    hs_session *session;
    hs_outcome outcome; /* the outcome of the last close */
    hs_error err;
    probe a, b;
    char *directory;
    hs_script *calls;     /* records the probes' callbacks */
    hs_recovery recovery; /* the sessions' option */
    double weight, loss;
    int64_t position;
} own;

/* cmocka's setup and teardown. The graph has the variable "weight", the value "loss", the state "data", a global step, and
 * "same", the identity of the placeholder "in". */
int own_setup(void **state);
int own_teardown(void **state);
#define own_test(name) cmocka_unit_test_setup_teardown(name, own_setup, own_teardown)

#define own_probe(o, which, ...) ((o)->which = (probe){.name = #which, __VA_ARGS__})

/* Opens a session with these hooks, or with the recorded probes a and b. */
void own_open(own *o, const hs_session_options *options, const hs_hook *hooks, size_t n);
void own_open_probes(own *o, const hs_session_options *options);
/* Opens a session with one hook and default options. */
void own_open_hook(own *o, hs_hook hook);
/* Computes a step, between begin and end: adds 1 at the first position, 2 at the next, and so on. */
void own_compute(own *o);
/* One step; and the loop, until it ends or has made `most` steps. Returns the number of steps. */
hs_code own_step(own *o);
int own_loop(own *o, int most);
const hs_outcome *own_close(own *o);
/* Resets the weight, the loss and the position, as in a new process. The graph stays. */
void own_forget(own *o);
/* The callbacks since the last call of this function. */
const char *own_calls(own *o);
/* The double of this name in the newest checkpoint of the directory. -1: none. */
double own_saved(own *o, const char *name);

#endif
