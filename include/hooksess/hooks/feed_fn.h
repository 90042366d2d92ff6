/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_FEED_FN_H
#define HOOKSESS_HOOKS_FEED_FN_H

#include <hooksess/hook.h>

/* Feeds every training run with values from a function, such as the next batch. To feed evaluations too, set the hook's
 * flags to HS_HOOK_TRAIN | HS_HOOK_EVAL. TensorFlow: FeedFnHook.
 *
 *     hs_hook hook = hs_feed_fn(.feeds = next_batch, .user = &reader);
 *
 * To save the position in the input, use a state provider (state.h).
 *
 * Threads: any thread, at any time. */

HS_BEGIN_DECLS

/* Called before each run, and again if a run is repeated. Sets *feeds to a list that ends with a NULL name. NULL, as
 * before the call: no feeds. List and data must stay until the run is over, unlike an HS_FEEDS(...) in the function's
 * block. An error prevents the run. HS_OUT_OF_RANGE: the input has ended, and the training ends normally. */
typedef hs_code (*hs_feeds_fn)(void *user, const hs_feed **feeds, hs_error *err);

typedef struct hs_feed_fn_options {
    size_t size;
    hs_feeds_fn feeds; /* (required) */
    void *user;
} hs_feed_fn_options;

HS_API hs_hook hs_feed_fn_hook(const hs_feed_fn_options *options);
#define hs_feed_fn(...) hs_feed_fn_hook(HS_OPTIONS(hs_feed_fn_options, __VA_ARGS__))

HS_END_DECLS

#endif
