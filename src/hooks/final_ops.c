/* SPDX-License-Identifier: Apache-2.0 */
/* begin finds the ops, and end runs them and passes their values to the program's function. */
#include <hooksess/hooks/final_ops.h>

#include "hooks/lookup.h"
#include "hooks/make.h"

typedef struct {
    hs__hook_base base;
    const char *const *names; /* a copy. NULL: use args.fetches, or there are no ops to run */
    hs_run_args args;
    hs_final_values_fn done;
    void *user;
} final_ops;

/* Reports an unknown name before the training, not after it. */
static hs_code begin(void *self, hs_backend backend, hs_error *err)
{
    const final_ops *hook = self;
    hs_node node;
    hs_code code = HS_OK;
    for (size_t i = 0; !code && hook->names && hook->names[i]; i++)
        code = hs_backend_find(backend, hook->names[i], &node, err);
    return code;
}

static hs_code end(void *self, hs_raw_session *session, hs_error *err)
{
    const final_ops *hook = self;
    const hs_run_values *values;
    if (!hook->args.names && !hook->args.fetches)
        return HS_OK;
    hs_code code = hs_raw_session_run(session, &hook->args, &values, err);
    if (code == HS_OUT_OF_RANGE)
        hs_log(hs__session_env(session), HS_LOG_WARNING,
               "final_ops: the input has ended; final ops must not depend on an op that draws a batch");
    return code || !hook->done ? code : hook->done(hook->user, values, err);
}

static void destroy(void *self)
{
    final_ops *hook = self;
    hs_env_free(&hook->base.env, (void *)hook->names);
    hs__hook_free(hook);
}

static const hs_hook_ops ops = HS_INIT(hs_hook_ops, .name = "final_ops", .begin = begin, .end = end, .destroy = destroy);

static hs_code check(const void *given, hs_error *err)
{
    const hs_final_ops_options *options = given;
    if (options->names && options->fetches)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "each of names and fetches is given; give at most one of the two");
    if (options->names && !options->names[0])
        return hs_error_set(err, HS_INVALID_ARGUMENT, "names is an empty list");
    return HS_OK;
}

static hs_code fill(void *self, const void *given, hs_error *err)
{
    final_ops *hook = self;
    const hs_final_ops_options *options = given;
    hook->done = options->done;
    hook->user = options->user;
    if (options->names && !(hook->names = hs__hook_names(hook, options->names, err)))
        return HS_RESOURCE_EXHAUSTED;
    hook->args =
        (hs_run_args)HS_INIT(hs_run_args, .names = hook->names, .fetches = options->fetches, .feeds = options->feeds);
    return HS_OK;
}

hs_hook hs_final_ops_hook(const hs_final_ops_options *given)
{
    return HS__HOOK_MAKE(&ops, final_ops, hs_final_ops_options, user, check, fill, NULL, given);
}
