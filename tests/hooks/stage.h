/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_HOOKS_STAGE_H
#define HS_TESTS_HOOKS_STAGE_H

#include "support/test.h"

#include <hooksess/testing.h>

/* The fixture of the hooks' tests: a script, one session at a time on it, an empty directory, and a clock that only the
 * test advances. */
typedef struct stage {
    test_env t;
    char *directory;
    hs_script *script;
    hs_session *session;
    hs_outcome outcome; /* of the last closed session */
    hs_error err;
    double save_secs; /* how long a save by stage_slow_saver takes */
} stage;

/* Hooks that are made until the teardown get their memory from the test's environment. */
int stage_setup(void **state);
/* Closes the session. Fails if memory of the test's environment is still allocated. */
int stage_teardown(void **state);
#define with_stage(test) cmocka_unit_test_setup_teardown(test, stage_setup, stage_teardown)

/* Opens a session on a backend, or on the script, with one hook or with a list of them. */
hs_code stage_try(stage *s, hs_backend backend, const hs_hook *hooks, size_t n);
void stage_open(stage *s, hs_hook hook);
/* Runs `op` `times` times: the first time immediately, then every `secs`. */
void stage_run(stage *s, const char *op, int times, double secs);
hs_code stage_run_once(stage *s, const char *op);
/* Closes the session, which must succeed. */
void stage_close(stage *s);

/* Opening a session with this hook fails with this code and message. */
void stage_refuses(stage *s, hs_hook hook, hs_code expected, const char *message);

/* A checkpoint saver that saves to the directory "saves" when a session is created. Each save takes `secs`, also those of
 * the slow savers that were made before. */
hs_hook stage_slow_saver(stage *s, double secs);

/* The same hook without the callbacks of the session's creation: its first call after begin is before_run. */
hs_hook without_creation(hs_hook hook);

/* The same backend, which counts calls. Only one at a time. */
typedef struct counted {
    hs_backend inner;
    hs_backend_ops ops;
    size_t opens, step_reads;
} counted;
hs_backend count_calls(counted *c, hs_backend inner);

/* Returns the global step of the newest checkpoint in a directory. -1: the directory has no checkpoint. */
int64_t latest_step(const char *directory);

/* Returns how often `part` occurs in the text. */
size_t count_of(const char *text, const char *part);

#endif
