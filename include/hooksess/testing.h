/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_TESTING_H
#define HOOKSESS_TESTING_H

#include <hooksess/hook.h>
#include <hooksess/simulation.h>

/* For tests of hooks and of programs (docs/guide/testing-a-hook.md): a backend that follows a script, and an environment
 * whose memory and files fail on request. Link with libhooksess_testing.
 *
 *     #include <hooksess/hooksess.h>
 *     #include <hooksess/testing.h>
 *     #include <stdio.h>
 *
 *     int main(void)
 *     {
 *         const double losses[] = {0.5, 0.4, 0.3};
 *         hs_error err;
 *         hs_script *script = hs_script_new(NULL);
 *         hs_script_series(script, "loss", losses, 3);
 *         hs_hook hook = hs_script_watch(script, NULL, hs_stop_at_step(.num_steps = 2));
 *         hs_session *session =
 *             hs_session_open(hs_script_backend(script), HS_SESSION_OPTIONS(.hooks = HS_HOOKS(hook)), &err);
 *         while (!hs_session_should_stop(session))
 *             hs_session_run(session, "train", &err);
 *         hs_session_close(session, &err);
 *         puts(hs_script_calls(script));
 *         hs_script_free(script);
 *     }
 *
 * The graph has an op "train", which advances the global step, and the int64 variable "global_step". Functions that return
 * an hs_code fail with HS_RESOURCE_EXHAUSTED, or with HS_INVALID_ARGUMENT and no change: an argument is NULL, the number of
 * a run or open is 0, or the seconds are invalid.
 *
 * Seconds: 0 to 1e9. hs_script_advance() and hs_test_system_advance() ignore other numbers, and round to nanoseconds.
 * Clocks start at 1e18 ns (in 2001).
 *
 * If memory is exhausted, returned texts end with "(rest lost: out of memory)".
 *
 * Threads: one thread at a time per object. Any thread may call the functions of an environment. */

HS_BEGIN_DECLS

typedef struct hs_script hs_script;

/* Creates a script. Free it after its sessions. Parts that `env` leaves out: malloc, stderr, POSIX files, and a clock that
 * only hs_script_advance(), delays and sleeping move. NULL: out of memory, or `env` is invalid. */
HS_API hs_script *hs_script_new(const hs_env *env);
HS_API void hs_script_free(hs_script *script);
HS_API hs_backend hs_script_backend(hs_script *script);
/* For NULL: the environment of hs_test_system_env(NULL). */
HS_API const hs_env *hs_script_env(const hs_script *script);

/* Runs are numbered from 1. Each run of the backend counts: also raw, failed and repeated runs. */

/* Adds a scalar double tensor, or replaces it. Run number k returns values[k - 1], whether or not earlier runs fetch it. A
 * fetch after the last value fails with HS_OUT_OF_RANGE. The values are copied. */
HS_API hs_code hs_script_series(hs_script *script, const char *name, const double *values, size_t n);
/* Adds a tensor with the same value in each run. The data is borrowed. */
HS_API hs_code hs_script_constant(hs_script *script, const char *name, const hs_tensor *value);
/* Adds a placeholder. To fetch it, feed it. */
HS_API hs_code hs_script_placeholder(hs_script *script, const char *name);
/* Adds an op without a value. */
HS_API hs_code hs_script_op(hs_script *script, const char *name);
/* In run `run`: fails with `code`; advances the clock by `secs`, as hs_script_advance(); returns `metadata`, which is
 * borrowed. */
HS_API hs_code hs_script_fail_at(hs_script *script, size_t run, hs_code code, const char *message);
HS_API hs_code hs_script_delay_at(hs_script *script, size_t run, double secs);
HS_API hs_code hs_script_metadata_at(hs_script *script, size_t run, hs_bytes metadata);
/* Makes open number `n` (from 1) of the backend fail with `code`. */
HS_API hs_code hs_script_fail_open_at(hs_script *script, size_t n, hs_code code, const char *message);
/* Set the steps by which "train" advances the global step (default: 1), and the global step. */
HS_API void hs_script_steps_per_run(hs_script *script, int64_t steps);
HS_API void hs_script_set_step(hs_script *script, int64_t step);
/* Advances the script's clock. If `env` has a clock: calls its sleep_ns. */
HS_API void hs_script_advance(hs_script *script, double secs);

/* Wraps a hook to record its callbacks as "before", or "LABEL.before" with a label, which is copied. The wrapped hook is
 * freed with the wrapper, unless its flags hold it.
 *
 *   recorded                                         if
 *   begin, create, before, after, end, close         always, also if the hook lacks this callback
 *   boundary                                         the hook has this callback
 *   save_state, load_state, destroy, identities      never
 *
 * If memory is exhausted or `script` is NULL: frees the hook, and returns a hook whose begin fails with
 * HS_RESOURCE_EXHAUSTED. An invalid hook is returned unchanged. */
HS_API hs_hook hs_script_watch(hs_script *script, const char *label, hs_hook hook);
/* Returns the calls in order: "begin create before run after ...". "run" is the backend's. Valid until the next one is
 * recorded. If memory is exhausted, the next run fails, too, and the text stays incomplete until it is cleared. */
HS_API const char *hs_script_calls(hs_script *script);
HS_API void hs_script_clear_calls(hs_script *script);
/* Records a word. NULL: none. */
HS_API void hs_script_note(hs_script *script, const char *word);
/* Returns the number of runs. */
HS_API size_t hs_script_runs(const hs_script *script);
/* Describes the last run. Valid until the next run. Fetches, each once, and feeds: the caller's, then those of each hook in
 * order. If the run has options, the fields of hs_run_options follow, `watch` with each node_name of debug_watches:
 *
 *   fetch A B; feed C; trace 3 timeout 9 pool 0 graphs 0 oom 0 disk 0 watch D E */
HS_API const char *hs_script_last_run(const hs_script *script);

/* An environment for a test:
 *
 *   allocator  malloc. Counts allocations; one can fail
 *   clock      only hs_test_system_advance() and sleeping move it
 *   logger     keeps the lines
 *   files      POSIX files, without sync. Counts calls; one can fail, or all from one on. Two savers in one
 *              directory are not detected
 *
 * The guide has a loop that runs a test once for each call, which then fails.
 *
 * To replace only some parts of an environment, copy them: HS_INIT(hs_env, .clock = hs_test_system_env(system)->clock). */
typedef struct hs_test_system hs_test_system;

/* Creates a test system. Free it after all objects that use its environment. NULL: out of memory. */
HS_API hs_test_system *hs_test_system_new(void);
HS_API void hs_test_system_free(hs_test_system *system);
/* Returns the environment. For NULL: one in which each allocation and file call fails with HS_RESOURCE_EXHAUSTED, with the
 * system's log. */
HS_API const hs_env *hs_test_system_env(const hs_test_system *system);

HS_API void hs_test_system_advance(hs_test_system *system, double secs);
/* Returns the log: "WARNING: text\n" for each line. Valid until any thread writes the next line. */
HS_API const char *hs_test_system_log(hs_test_system *system);

/* Makes allocation number `n` from now fail (from 1). 0: none. Restarts the count. */
HS_API void hs_test_system_fail_allocation(hs_test_system *system, size_t n);
/* Return the number of allocations since then, and the number of blocks that are not freed. */
HS_API size_t hs_test_system_allocations(hs_test_system *system);
HS_API size_t hs_test_system_live_blocks(hs_test_system *system);

/* Makes file call number `n` from now (from 1) fail with `code`, and with `all_later` all later ones. 0 or HS_OK: none.
 * Restarts the count. Calls are those of hs_file_system_ops except unlock. A write that fails writes half of its bytes; a
 * close that fails closes the file; others do nothing. HS_RESOURCE_EXHAUSTED: the disk is full. */
HS_API void hs_test_system_fail_file_call(hs_test_system *system, size_t n, hs_code code, bool all_later);
/* Return the number of calls since then, and the number of files that are not closed. */
HS_API size_t hs_test_system_file_calls(hs_test_system *system);
HS_API size_t hs_test_system_open_files(hs_test_system *system);

HS_END_DECLS

#endif
