/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_DRIVERS_TF1_SUPERVISED_H
#define HS_TESTS_DRIVERS_TF1_SUPERVISED_H

#include "support/test.h"

#include <hooksess/tf1/supervisor.h>

/* A graph, an empty directory, and one supervisor after the other. The clock is the system's, as threads read it. */
typedef struct supervised {
    test_env t;
    char *directory;
    hs_graph *graph;
    hs_supervisor *sv;
    hs_raw_session *session;
    hs_summary *summary;
    double v, w; /* of ops that keep their own numbers */
    int runs;
    hs_error err;
} supervised;

int supervised_setup(void **state);
/* Stops and closes what is open; fails if anything is left allocated. */
int supervised_teardown(void **state);
#define supervised_test(test) cmocka_unit_test_setup_teardown(test, supervised_setup, supervised_teardown)

#define OPTIONS(...)    (*HS_SUPERVISOR_OPTIONS(__VA_ARGS__))
#define SUPERVISED(...) (HS_SUPERVISOR_SESSION_OPTIONS(__VA_ARGS__))

/* A supervisor of these options, which is made. */
void supervise(supervised *f, hs_supervisor_options options);
/* Making one fails as said. */
void refuses(supervised *f, hs_supervisor_options options, const char *message);
/* A session, which is prepared; `options` may be NULL. */
void prepare(supervised *f, const hs_supervisor_session_options *options);
/* Stops, and closes the session. */
void finish(supervised *f);
/* Leaves the session because of `code`, whose message is "mine". */
hs_code leave(supervised *f, hs_code code);

/* The value of a tensor, as the session gives it. */
double number(supervised *f, const char *name);
hs_code run_op(supervised *f, const char *name);

/* Adds the variable "v" of the session's, 1, 2, 3 at first. */
void add_v(supervised *f, uint64_t flags);
bool v_is_123(supervised *f);
/* Adds "global_step", the session's, of this first value; and "train", which makes a step. */
void add_step(supervised *f, int64_t first);
/* The Summary c1=1, c2=2, c3=3. */
hs_string three(supervised *f);
/* Waits until there is such a file in the directory. */
void await_file(const supervised *f, const char *part);

#endif
