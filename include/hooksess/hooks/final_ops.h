/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_FINAL_OPS_H
#define HOOKSESS_HOOKS_FINAL_OPS_H

#include <hooksess/hook.h>

/* Runs ops once, when the session ends well, by a run that calls no hook: a metric's last value, say. TensorFlow:
 * FinalOpsHook.
 *
 * They should read what the training has left and take nothing from the input: at its end such a run fails with
 * HS_OUT_OF_RANGE. That is logged as a warning that says so, and, as any other failure, makes the outcome a failure. */

HS_BEGIN_DECLS

/* Gets the values in the shape of the fetches, borrowed until it returns. Returns HS_OK, or a code with a message, which
 * the end then fails with. */
typedef hs_code (*hs_final_values_fn)(void *user, const hs_run_values *values, hs_error *err);

typedef struct hs_final_ops_options {
    size_t size;
    const char *const *names; /* a flat list, ended by NULL; copied. Or */
    const hs_fetch *fetches;  /* a tree, borrowed. At most one of the two; neither: nothing is run */
    const hs_feed *feeds;     /* ended by a NULL name; borrowed, with their data, until the session is closed */
    hs_final_values_fn done;  /* NULL: the ops are run for what they do. Not called if they are not run, or fail */
    void *user;
    const hs_env *env; /* the hook's own memory; NULL: malloc */
} hs_final_ops_options;

/* Options that make no sense, or no memory, are reported by the hook's begin. */
HS_API hs_hook hs_final_ops_hook(const hs_final_ops_options *options);
#define hs_final_ops(...) hs_final_ops_hook(HS_OPTIONS(hs_final_ops_options, __VA_ARGS__))

HS_END_DECLS

#endif
