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
    const char *const *names; /* a flat list, ended by NULL. Without names and fetches nothing is run */
    const hs_fetch *fetches;  /* a tree, instead of names. Borrowed */
    const hs_feed *feeds;     /* HS_FEEDS(...). Borrowed, with their data, until the session is closed. NULL: none */
    hs_final_values_fn done;  /* not called if the ops are not run, or fail. NULL: the values are not used */
    void *user;
    const hs_env *env; /* NULL: the system's. Copied */
} hs_final_ops_options;

/* Threads: any. The session's thread calls `done`. */
HS_API hs_hook hs_final_ops_hook(const hs_final_ops_options *options);
#define hs_final_ops(...) hs_final_ops_hook(HS_OPTIONS(hs_final_ops_options, __VA_ARGS__))

HS_END_DECLS

#endif
