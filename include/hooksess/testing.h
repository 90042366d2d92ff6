/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_TESTING_H
#define HOOKSESS_TESTING_H

#include <hooksess/hook.h>

/* For tests of hooks: a backend that plays a script instead of training a model, and a clock that stands still. Not part of
 * hooksess.h.
 *
 * Threads: one at a time per object.
 *
 * The scripted graph has an op "train" that advances the global step, an int64 tensor and variable "global_step", and
 * whatever series the script is given. */

HS_BEGIN_DECLS

typedef struct hs_script hs_script;

/* The caller's to free, after the sessions on it. `env` NULL: malloc, stderr, POSIX, and a clock that stands still but for
 * hs_script_advance and delays. Parts of `env` that are set are used; a clock in it is used for everything but then the
 * script cannot move it. NULL if there is no memory. */
HS_API hs_script *hs_script_new(const hs_env *env);
HS_API void hs_script_free(hs_script *script);
HS_API hs_backend hs_script_backend(hs_script *script);
/* The environment, with the script's clock. The script's. */
HS_API const hs_env *hs_script_env(const hs_script *script);

/* A scalar double tensor whose value is values[i] in the i-th run (from 0) of the backend; copied. A run after the last
 * that fetches it is HS_OUT_OF_RANGE. A series of that name is replaced. */
HS_API hs_code hs_script_series(hs_script *script, const char *name, const double *values, size_t n);
/* A tensor that has the same value in each run. The data are the caller's. */
HS_API hs_code hs_script_constant(hs_script *script, const char *name, const hs_tensor *value);
/* A placeholder: it can be fed, and fetching it gives what was fed. */
HS_API hs_code hs_script_placeholder(hs_script *script, const char *name);
/* An op without a value. */
HS_API hs_code hs_script_op(hs_script *script, const char *name);
/* The `run`-th run of the backend (from 1) fails, takes so long, or returns this as its metadata. */
HS_API hs_code hs_script_fail_at(hs_script *script, size_t run, hs_code code, const char *message);
HS_API hs_code hs_script_delay_at(hs_script *script, size_t run, double secs);
HS_API hs_code hs_script_metadata_at(hs_script *script, size_t run, hs_bytes metadata);
/* How far "train" advances the global step (1 at first), and setting the step. */
HS_API void hs_script_steps_per_run(hs_script *script, int64_t steps);
HS_API void hs_script_set_step(hs_script *script, int64_t step);
/* Moves the clock. */
HS_API void hs_script_advance(hs_script *script, double secs);

/* Wraps a hook so that its callbacks are recorded: as "before", or "LABEL.before" with a label (copied). The words are
 * begin, create, before, after, boundary, end, close. The wrapped hook is destroyed with the wrapper, as its flags say. */
HS_API hs_hook hs_script_watch(hs_script *script, const char *label, hs_hook hook);
/* All that was called so far, in order, separated by spaces: "begin create before run after ...", where "run" is the
 * backend's. The script's, until it is called again. */
HS_API const char *hs_script_calls(hs_script *script);
/* Forgets the calls so far. */
HS_API void hs_script_clear_calls(hs_script *script);
/* Appends a word of the test's own. */
HS_API void hs_script_note(hs_script *script, const char *word);
/* The number of runs so far, and the fetches, feeds and options of the last one: "fetch a b; feed c; trace 3". */
HS_API size_t hs_script_runs(const hs_script *script);
HS_API const char *hs_script_last_run(const hs_script *script);

HS_END_DECLS

#endif
