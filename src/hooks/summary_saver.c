/* SPDX-License-Identifier: Apache-2.0 */
#include <hooksess/hooks/summary_saver.h>

#include "hooks/make.h"

typedef struct {
    hs__hook_base base;
    char *summary_dir;
    hs_summary_writer *given_writer, *writer;
    hs_scaffold *scaffold;
    const char *const *summary_ops; /* copies. NULL: the scaffold's op */
    const char *scaffold_op[2];     /* a list of the scaffold's op */
    hs_run_args args;               /* the ops */
} summary_saver;

static hs_code begin(void *self, hs_backend backend, hs_error *err)
{
    (void)self;
    return hs_backend_check_global_step(backend, err);
}

static hs_code after_create_session(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    summary_saver *hook = self;
    hook->writer = NULL;
    if (hs_coordinator_should_stop(coordinator)) /* training is already complete */
        return HS_OK;
    if (!hook->summary_ops)
        hook->scaffold_op[0] = hs_scaffold_fields(hook->scaffold)->summary_op;
    hook->args = (hs_run_args)HS_INIT(hs_run_args, .names = hook->summary_ops ? hook->summary_ops : hook->scaffold_op);
    /* Also writes the START record, so that TensorBoard drops events of a crashed run from the next step on. */
    return hs_raw_session_event_writer(session, hook->summary_dir, hook->given_writer, &hook->writer, err);
}

static hs_code before_run(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    summary_saver *hook = self;
    (void)run, (void)err;
    if (hook->writer && hook->args.names[0])
        *args = &hook->args;
    return HS_OK;
}

static hs_code after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    summary_saver *hook = self;
    const size_t n = hs_run_values_count(values);
    const int64_t step = n ? hs_run_context_global_step(run, err) : 0;
    hs_code code = step < 0 ? err->code : HS_OK;
    for (size_t i = 0; !code && i < n; i++) {
        const hs_tensor *value = hs_run_values_tensor(values, i);
        if (!value || value->dtype != HS_STRING || value->memory || value->bytes < sizeof(hs_string))
            return hs_error_set(err, HS_INVALID_ARGUMENT, "summary op '%s' does not return a string (a serialized Summary)",
                                hook->args.names[i]);
        const hs_string *summary = value->data;
        if (summary->bytes)
            code = hs_summary_writer_summary(hook->writer, *summary, step, err);
    }
    return code;
}

static hs_code end(void *self, hs_raw_session *session, hs_error *err)
{
    summary_saver *hook = self;
    return hook->writer ? hs_raw_session_flush_writer(session, hook->writer, true, err) : HS_OK;
}

static void destroy(void *self)
{
    summary_saver *hook = self;
    hs_env_free(&hook->base.env, hook->summary_dir);
    hs_env_free(&hook->base.env, (void *)hook->summary_ops);
    hs__hook_free(hook);
}

static const hs_hook_ops ops =
    HS_INIT(hs_hook_ops, .name = "summary_saver", .begin = begin, .after_create_session = after_create_session,
            .before_run = before_run, .after_run = after_run, .end = end, .destroy = destroy);

static hs_code check(const void *given, hs_error *err)
{
    const hs_summary_saver_options *options = given;
    if (!options->scaffold == !options->summary_ops)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "%s of scaffold and summary_ops is given; give exactly one of the two",
                            options->scaffold ? "each" : "none");
    if (options->summary_ops && !options->summary_ops[0])
        return hs_error_set(err, HS_INVALID_ARGUMENT, "summary_ops is an empty list");
    if (!options->summary_dir == !options->summary_writer)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "%s of summary_dir and summary_writer is given; give exactly one of the two",
                            options->summary_dir ? "each" : "none");
    return HS_OK;
}

static hs_code fill(void *self, const void *given, hs_error *err)
{
    summary_saver *hook = self;
    const hs_summary_saver_options *options = given;
    const hs__when_options when = {
        .secs = options->every_n_secs, .steps = options->every_n_steps, .when = options->when, .first = true};
    hs_code code = hs__hook_when(hook, &when, err);
    if (code)
        return code;
    hook->base.flags = HS_HOOK_CHIEF_ONLY;
    hook->given_writer = options->summary_writer;
    hook->scaffold = options->scaffold;
    if (options->summary_dir && !(hook->summary_dir = hs__hook_text(hook, options->summary_dir, err)))
        return HS_RESOURCE_EXHAUSTED;
    if (options->summary_ops && !(hook->summary_ops = hs__hook_names(hook, options->summary_ops, err)))
        return HS_RESOURCE_EXHAUSTED;
    return HS_OK;
}

hs_hook hs_summary_saver_hook(const hs_summary_saver_options *given)
{
    return HS__HOOK_MAKE(&ops, summary_saver, hs_summary_saver_options, summary_writer, check, fill, NULL, given);
}
