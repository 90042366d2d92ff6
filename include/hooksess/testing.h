/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_TESTING_H
#define HOOKSESS_TESTING_H

#include <hooksess/hook.h>

/* For tests of hooks and of programs: a backend that follows a script, and an environment whose clock only the test moves,
 * and whose memory and files fail on request. Not part of hooksess.h. Link with libhooksess_testing (CMake:
 * hooksess::testing; pkg-config: hooksess_testing). examples/hook_test is a complete test.
 *
 *     const double losses[] = {0.5, 0.4, 0.3};
 *     hs_script *script = hs_script_new(NULL);
 *     hs_script_series(script, "loss", losses, 3);
 *     hs_session *session = hs_session_open(
 *         hs_script_backend(script), HS_SESSION_OPTIONS(.hooks = HS_HOOKS(hs_script_watch(script, NULL, hook))), &err);
 *     hs_session_run(session, "train", &err);
 *     hs_session_close(session, &err);
 *     puts(hs_script_calls(script));
 *     hs_script_free(script);
 *
 * The graph has an op "train", which advances the global step, and the int64 variable "global_step". Functions that return
 * an hs_code fail with HS_RESOURCE_EXHAUSTED, or HS_INVALID_ARGUMENT for a missing name or script.
 *
 * Threads: one thread at a time per object. */

HS_BEGIN_DECLS

typedef struct hs_script hs_script;

/* Creates a script. Free it after its sessions. Parts that `env` leaves out, or all for NULL: malloc, stderr, POSIX files
 * and the script's clock, which only hs_script_advance() and delays move. NULL: out of memory, or `env` is invalid. */
HS_API hs_script *hs_script_new(const hs_env *env);
HS_API void hs_script_free(hs_script *script);
HS_API hs_backend hs_script_backend(hs_script *script);
/* Returns the script's environment. */
HS_API const hs_env *hs_script_env(const hs_script *script);

/* Adds a scalar double tensor, or replaces it. In run i of the backend (from 0) its value is values[i]. A run that fetches
 * it after the last value fails with HS_OUT_OF_RANGE. Copies the values. */
HS_API hs_code hs_script_series(hs_script *script, const char *name, const double *values, size_t n);
/* Adds a tensor with the same value in each run. The data is borrowed. */
HS_API hs_code hs_script_constant(hs_script *script, const char *name, const hs_tensor *value);
/* Adds a placeholder. To fetch it, feed it. */
HS_API hs_code hs_script_placeholder(hs_script *script, const char *name);
/* Adds an op without a value. */
HS_API hs_code hs_script_op(hs_script *script, const char *name);
/* In run `run` of the backend (from 1): fails with `code`; advances the clock by `secs`, as hs_script_advance(); returns
 * `metadata`, which is borrowed. */
HS_API hs_code hs_script_fail_at(hs_script *script, size_t run, hs_code code, const char *message);
HS_API hs_code hs_script_delay_at(hs_script *script, size_t run, double secs);
HS_API hs_code hs_script_metadata_at(hs_script *script, size_t run, hs_bytes metadata);
/* Makes open number `n` (from 1) of the backend fail with `code`. A recovery opens the backend again. */
HS_API hs_code hs_script_fail_open_at(hs_script *script, size_t n, hs_code code, const char *message);
/* Set the steps by which "train" advances the global step (1 by default), and the global step. */
HS_API void hs_script_steps_per_run(hs_script *script, int64_t steps);
HS_API void hs_script_set_step(hs_script *script, int64_t step);
/* Advances the script's clock, rounded to nanoseconds. If `env` has a clock: calls its sleep_ns. */
HS_API void hs_script_advance(hs_script *script, double secs);

/* Wraps a hook to record its callbacks as "before", or "LABEL.before" with a label, which is copied. The words are begin,
 * create, before, after, boundary, end, close. The wrapped hook is freed with the wrapper, unless its flags hold it. */
HS_API hs_hook hs_script_watch(hs_script *script, const char *label, hs_hook hook);
/* Returns the calls in order: "begin create before run after ...". "run" is the backend's. Valid until the next one is
 * recorded. */
HS_API const char *hs_script_calls(hs_script *script);
HS_API void hs_script_clear_calls(hs_script *script);
/* Records a word. */
HS_API void hs_script_note(hs_script *script, const char *word);
/* Return the number of runs, and the fetches, feeds and options of the last run: "fetch a b; feed c; trace 3 ...". */
HS_API size_t hs_script_runs(const hs_script *script);
HS_API const char *hs_script_last_run(const hs_script *script);

/* An environment for a test:
 *
 *   allocator  malloc. Counts allocations; one can fail
 *   clock      stands still. hs_test_system_advance() and sleeping move it
 *   logger     keeps the lines
 *   files      POSIX files, without sync. Counts calls; one can fail, or all from one on
 *
 * This runs a test once for each allocation, which then fails:
 *
 *     bool failed = true;
 *     for (size_t n = 1; failed; n++) {
 *         hs_test_system *system = hs_test_system_new();
 *         hs_test_system_fail_allocation(system, n);
 *         run_test(hs_test_system_env(system));
 *         failed = hs_test_system_allocations(system) >= n;
 *         if (hs_test_system_live_blocks(system) > 0)
 *             puts("memory is lost");
 *         hs_test_system_free(system);
 *     }
 *
 * To replace only some parts of an environment, copy them: HS_INIT(hs_env, .clock = hs_test_system_env(system)->clock).
 * Any thread may call the functions of the environment. */
typedef struct hs_test_system hs_test_system;

/* Creates a test system. Free it after all objects that have its environment. NULL: out of memory. */
HS_API hs_test_system *hs_test_system_new(void);
HS_API void hs_test_system_free(hs_test_system *system);
/* Returns the environment. It is valid until the system is freed. */
HS_API const hs_env *hs_test_system_env(const hs_test_system *system);

/* Advances the clock, rounded to nanoseconds. A negative number sets it back. */
HS_API void hs_test_system_advance(hs_test_system *system, double secs);
/* Returns the log: "WARNING: text\n" for each line. Valid until the next line. */
HS_API const char *hs_test_system_log(hs_test_system *system);

/* Makes allocation number `n` from now fail (from 1). 0: none. Restarts the count. */
HS_API void hs_test_system_fail_allocation(hs_test_system *system, size_t n);
/* Return the number of allocations since then, and the number of blocks that are not freed. */
HS_API size_t hs_test_system_allocations(hs_test_system *system);
HS_API size_t hs_test_system_live_blocks(hs_test_system *system);

/* Makes call number `n` of the file system from now (from 1) fail with `code`, and with `all_later` every call after it. 0:
 * none. Restarts the count. Calls are those of hs_file_system_ops except unlock. A write that fails writes half of its
 * bytes; a close that fails closes the file; others do nothing. HS_RESOURCE_EXHAUSTED: the disk is full. */
HS_API void hs_test_system_fail_file_call(hs_test_system *system, size_t n, hs_code code, bool all_later);
/* Return the number of calls since then, and the number of files that are not closed. */
HS_API size_t hs_test_system_file_calls(hs_test_system *system);
HS_API size_t hs_test_system_open_files(hs_test_system *system);

HS_END_DECLS

#endif
