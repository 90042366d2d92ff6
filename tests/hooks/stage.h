/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_HOOKS_STAGE_H
#define HS_TESTS_HOOKS_STAGE_H

#include "support/test.h"

#include <hooksess/testing.h>

/* What tests of hooks stand on: a script, sessions on it one after the other, an empty directory, a clock that is moved by
 * hand. */
typedef struct stage {
    test_env t;
    char *directory;
    hs_script *script;
    hs_session *session;
    hs_outcome outcome; /* of the session that was closed last */
    hs_error err;
} stage;

int stage_setup(void **state);
/* Closes what is open; fails if anything is left allocated. */
int stage_teardown(void **state);
#define with_stage(test) cmocka_unit_test_setup_teardown(test, stage_setup, stage_teardown)

/* Opens a session on a backend, or on the script, with one hook or with a list of them. */
hs_code stage_try(stage *s, hs_backend backend, const hs_hook *hooks, size_t n);
void stage_open(stage *s, hs_hook hook);
/* Runs `op` so many times, the first time at once and then every `secs`. */
void stage_run(stage *s, const char *op, int times, double secs);
hs_code stage_run_once(stage *s, const char *op);
/* All is well at the end. */
void stage_close(stage *s);

/* Opening with this hook fails as said. */
void stage_refuses(stage *s, hs_hook hook, hs_code expected, const char *message);

/* The same hook, which is not told of the session's creation: driven as from its first run on. */
hs_hook without_creation(hs_hook hook);

/* The same backend, counting. One at a time. */
typedef struct counted {
    hs_backend inner;
    hs_backend_ops ops;
    size_t opens, step_reads;
} counted;
hs_backend count_calls(counted *c, hs_backend inner);

/* The global step in the newest checkpoint of a directory; -1: there is none. */
int64_t latest_step(const char *directory);

/* How often `part` is in the text. */
size_t count_of(const char *text, const char *part);

#endif
