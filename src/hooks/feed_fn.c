/* SPDX-License-Identifier: Apache-2.0 */
/* before_run gets the feeds of the run from the program's function. */
#include <hooksess/hooks/feed_fn.h>

#include "hooks/make.h"

typedef struct {
    hs__hook_base base;
    hs_feeds_fn feeds;
    void *user;
    hs_run_args args;
} feed_fn;

static hs_code before_run(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    feed_fn *hook = self;
    hook->args = (hs_run_args)HS_INIT(hs_run_args);
    (void)run;
    hs_code code = hook->feeds(hook->user, &hook->args.feeds, err);
    if (!code && hook->args.feeds)
        *args = &hook->args;
    return code;
}

static const hs_hook_ops ops = HS_INIT(hs_hook_ops, .name = "feed_fn", .before_run = before_run, .destroy = hs__hook_free);

static hs_code check(const void *given, hs_error *err)
{
    const hs_feed_fn_options *options = given;
    if (!options->feeds)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "feeds is missing; give the function that returns the feeds");
    return HS_OK;
}

static hs_code fill(void *self, const void *given, hs_error *err)
{
    feed_fn *hook = self;
    const hs_feed_fn_options *options = given;
    (void)err;
    hook->feeds = options->feeds;
    hook->user = options->user;
    return HS_OK;
}

hs_hook hs_feed_fn_hook(const hs_feed_fn_options *given)
{
    return HS__HOOK_MAKE(&ops, feed_fn, hs_feed_fn_options, user, check, fill, NULL, given);
}
