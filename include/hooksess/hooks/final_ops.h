/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_FINAL_OPS_H
#define HOOKSESS_HOOKS_FINAL_OPS_H

#include <hooksess/hook.h>

/* Runs ops once when the session ends normally, such as the final value of a metric. The run calls no hooks. TensorFlow:
 * FinalOpsHook.
 *
 *     hs_hook hook = hs_final_ops(.names = HS_NAMES("accuracy"), .done = report);
 *
 * The ops must not read the input, which may have ended: any failure makes the outcome a failure.
 *
 * Threads: any thread, at any time. */

HS_BEGIN_DECLS

/* Receives the values in the shape of the fetches, valid during the call. An error makes the outcome a failure. */
typedef hs_code (*hs_final_values_fn)(void *user, const hs_run_values *values, hs_error *err);

typedef struct hs_final_ops_options {
    size_t size;
    const char *const *names; /* HS_NAMES(...) of ops and tensors. Without names and fetches nothing runs */
    const hs_fetch *fetches;  /* a tree; invalid with names. Borrowed */
    const hs_feed *feeds;     /* HS_FEEDS(...). Borrowed, with their data. NULL: none */
    hs_final_values_fn done;  /* called after a successful run. NULL: the values are ignored */
    void *user;
} hs_final_ops_options;

HS_API hs_hook hs_final_ops_hook(const hs_final_ops_options *options);
#define hs_final_ops(...) hs_final_ops_hook(HS_OPTIONS(hs_final_ops_options, __VA_ARGS__))

HS_END_DECLS

#endif
