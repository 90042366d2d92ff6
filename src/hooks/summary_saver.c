/* SPDX-License-Identifier: Apache-2.0 */
/* The sampler decides which runs fetch the summary ops. write_summaries writes their values. */
#include <hooksess/hooks/summary_saver.h>

#include "hooks/make.h"
#include "hooks/sampler.h"

typedef struct {
    hs__hook_base base;
    hs__sampler sampler;
    char *summary_dir;
    hs_summary_writer *given_writer, *writer;
    hs_scaffold *scaffold;
    const char *const *summary_ops; /* copies. NULL: the scaffold's op */
    const char *scaffold_op[2];     /* a list of the scaffold's op */
    bool started, has_ops;
} summary_saver;

static hs_code begin(void *self, hs_backend backend, hs_error *err)
{
    summary_saver *hook = self;
    hook->started = false;
    hook->writer = NULL;
    hs__sampler_reset(&hook->sampler);
    return hs_backend_check_global_step(backend, err);
}

static hs_code after_create_session(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    summary_saver *hook = self;
    (void)session, (void)coordinator, (void)err;
    hook->started = false;
    hs__sampler_restart(&hook->sampler); /* a recovery may have changed the step */
    return HS_OK;
}

static hs_code before_run(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    summary_saver *hook = self;
    if (!hook->started) {
        /* Also writes the START record, so that TensorBoard drops events of a crashed run from the next step on. */
        hs_code code = hs_raw_session_event_writer(hs_run_context_session(run), hook->summary_dir, hook->given_writer,
                                                   &hook->writer, err);
        if (code)
            return code;
        hook->started = true;
        const char *const *names = hook->summary_ops;
        if (!names) {
            hook->scaffold_op[0] = hs_scaffold_fields(hook->scaffold)->summary_op;
            names = hook->scaffold_op;
        }
        hook->has_ops = names[0];
        hook->sampler.args = (hs_run_args)HS_INIT(hs_run_args, .names = names);
    }
    return hook->has_ops ? hs__sampler_before(&hook->sampler, run, args, err) : HS_OK;
}

static hs_code write_summaries(const summary_saver *hook, const hs_run_values *values, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < hs_run_values_count(values); i++) {
        const hs_tensor *value = hs_run_values_tensor(values, i);
        if (!value || value->dtype != HS_STRING || value->memory || value->bytes < sizeof(hs_string))
            return hs_error_set(err, HS_INVALID_ARGUMENT, "summary op '%s' does not return a string (a serialized Summary)",
                                hook->sampler.args.names[i]);
        const hs_string *summary = value->data;
        if (summary->bytes)
            code = hs_summary_writer_summary(hook->writer, *summary, hook->sampler.clock.step, err);
    }
    return code;
}

static hs_code after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    summary_saver *hook = self;
    bool samples;
    if (!hook->has_ops)
        return HS_OK;
    hs_code code = hs__sampler_after(&hook->sampler, run, &samples, err);
    if (code || !samples)
        return code;
    if ((code = write_summaries(hook, values, err)))
        hook->sampler.clock.has_step = false; /* a best-effort hook may miss runs after a failure */
    return code;
}

static hs_code end(void *self, hs_raw_session *session, hs_error *err)
{
    summary_saver *hook = self;
    const hs_run_values *values;
    bool samples;
    if (hook->sampler.begun) { /* the last sample has a separate run */
        hs_code code = hs__sampler_end(&hook->sampler, session, &values, &samples, err);
        if (code || (samples && (code = write_summaries(hook, values, err))))
            return code;
    }
    return hook->writer ? hs_raw_session_flush_writer(session, hook->writer, true, err) : HS_OK;
}

static hs_code save_state(void *self, hs_state_writer *out, hs_error *err)
{
    return hs__sampler_save(&((const summary_saver *)self)->sampler, out, err);
}

static hs_code load_state(void *self, hs_state_reader *in, hs_error *err)
{
    return hs__sampler_load(&((summary_saver *)self)->sampler, in, err);
}

static void destroy(void *self)
{
    summary_saver *hook = self;
    hs_timer_free(hook->sampler.timing.timer);
    hs_env_free(&hook->base.env, hook->summary_dir);
    hs_env_free(&hook->base.env, (void *)hook->summary_ops);
    hs__hook_free(hook);
}

static const hs_hook_ops ops =
    HS_INIT(hs_hook_ops, .name = "summary_saver", .begin = begin, .after_create_session = after_create_session,
            .before_run = before_run, .after_run = after_run, .end = end, .save_state = save_state,
            .load_state = load_state, .destroy = destroy);

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
    const hs__timing_options timing = {
        .secs = options->every_n_secs, .steps = options->every_n_steps, .when = options->when, .first = true};
    hs_code code = hs__timing_init(&hook->sampler.timing, &timing, &hook->base.env, err);
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
    return HS__HOOK_MAKE(&ops, summary_saver, hs_summary_saver_options, summary_writer, check, fill, given);
}
