/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_HOOKS_FEED_FN_H
#define HOOKSESS_HOOKS_FEED_FN_H

#include <hooksess/hook.h>

/* Feeds every run with what a function gives: the next batch, say. TensorFlow: FeedFnHook.
 *
 * It feeds runs of the kinds that the hook's flags name (TRAIN, if they say nothing): add HS_HOOK_EVAL to them to have
 * evaluations fed too. The function keeps its own state: what an input has to remember over a resume belongs to a provider
 * (state.h). */

HS_BEGIN_DECLS

/* Called before each run, and again if a run is tried again. Sets *feeds (NULL before: nothing is fed) to feeds that end
 * with a NULL name; they and their data must stay until the run is over. Returns HS_OK, or a code with a message: the run
 * then is not made. HS_OUT_OF_RANGE says that the input is at its end, and ends the training well. */
typedef hs_code (*hs_feeds_fn)(void *user, const hs_feed **feeds, hs_error *err);

typedef struct hs_feed_fn_options {
    size_t size;
    hs_feeds_fn feeds; /* (required) */
    void *user;
    const hs_env *env; /* NULL: the system's. Copied */
} hs_feed_fn_options;

/* Threads: any. The session's thread calls `feeds`. */
HS_API hs_hook hs_feed_fn_hook(const hs_feed_fn_options *options);
#define hs_feed_fn(...) hs_feed_fn_hook(HS_OPTIONS(hs_feed_fn_options, __VA_ARGS__))

HS_END_DECLS

#endif
