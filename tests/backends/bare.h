/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_BACKENDS_BARE_H
#define HS_TESTS_BACKENDS_BARE_H

/* A graph and a session of its backend, without a hooked session. */

#include "support/test.h"

enum { BARE_MAX = 8 };

typedef struct bare {
    test_env t;
    hs_graph *graph;
    const hs_backend_ops *ops;
    void *session;
    hs_node fetches[BARE_MAX];
    hs_tensor values[BARE_MAX]; /* of the last run */
    hs_bytes metadata;
    hs_error err;
    char trace[256]; /* names of executed ops, separated by spaces */
} bare;

/* cmocka's setup and teardown: *state is a bare with an empty graph. */
int bare_setup(void **state);
int bare_teardown(void **state);

/* Finalizes the graph and opens a session on it. */
hs_code bare_try_open(bare *b);
void bare_open(bare *b);
/* Closes the session, so that the graph can be changed. */
void bare_close(bare *b);
/* Runs the session. */
hs_code bare_run(bare *b, const char *const *names, const hs_feed *feeds, const hs_run_options *options);
/* Runs one name, which must succeed. Returns its value, or NaN for an op. */
double bare_number(bare *b, const char *name);

/* Functions of ops. */
/* Appends the op's name to the trace. `self` is the bare. */
hs_code bare_traced(void *self, hs_op *op, hs_error *err);
/* Sets output 0 to input 0 plus one. Both are doubles. */
hs_code bare_add_one(void *self, hs_op *op, hs_error *err);
/* Sets output 0 to the sum of all inputs. */
hs_code bare_sum(void *self, hs_op *op, hs_error *err);
/* Adds one to the first node that it writes, a double. */
hs_code bare_bump(void *self, hs_op *op, hs_error *err);
/* Fails with HS_ABORTED and the message "no luck". */
hs_code bare_fail(void *self, hs_op *op, hs_error *err);

/* A traced op without outputs. */
#define bare_op(b, ...) hs_graph_op((b)->graph, .run = bare_traced, .user = (b), __VA_ARGS__)

#define BARE_SCALAR HS_OUTPUTS({.dtype = HS_DOUBLE})

#endif
