/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_TF1_SUPERVISED_H
#define HS_TESTS_TF1_SUPERVISED_H

#include "support/test.h"

#include <hooksess/tf1/supervisor.h>

/* A graph, an empty directory, and supervisors, one after the other. The clock is the system's, because threads read it. */
typedef struct supervised {
    test_env t;
    char *directory;
    hs_graph *graph;
    hs_supervisor *sv;
    hs_session *session;
    hs_summary *summary;
    double v, w; /* of ops with their own numbers */
    int runs;
    hs_error err;
} supervised;

int supervised_setup(void **state);
/* Stops and closes everything. Fails if memory is still allocated. */
int supervised_teardown(void **state);
#define supervised_test(test) cmocka_unit_test_setup_teardown(test, supervised_setup, supervised_teardown)

#define OPTIONS(...)    (*HS_SUPERVISOR_OPTIONS(__VA_ARGS__))
#define SUPERVISED(...) (HS_SUPERVISOR_SESSION_OPTIONS(__VA_ARGS__))

/* Creates a supervisor with these options. */
void supervise(supervised *f, hs_supervisor_options options);
/* Asserts that creating a supervisor fails with this message. */
void refuses(supervised *f, hs_supervisor_options options, const char *message);
/* Waits until a stop is requested. */
void await_stop(supervised *f);
/* Prepares a session. `options` may be NULL. */
void prepare(supervised *f, const hs_supervisor_session_options *options);
/* Stops, and closes the session. */
void finish(supervised *f);
void close_session(supervised *f);
/* Leaves the session with `code` and the message "mine". */
hs_code leave(supervised *f, hs_code code);

/* Fetches the value of a tensor. */
double number(supervised *f, const char *name);
hs_code run_op(supervised *f, const char *name);

/* Adds the variable "v" in the session's memory, initialized to 1, 2, 3. */
void add_v(supervised *f, uint64_t flags);
bool v_is_123(supervised *f);
/* Adds "global_step" in the session's memory with this first value, and "train", which advances it. */
void add_step(supervised *f, int64_t first);
/* The Summary c1=1, c2=2, c3=3. */
hs_string three(supervised *f);
/* Waits until a file with this part in its name is in the directory. */
void await_file(const supervised *f, const char *part);

#endif
