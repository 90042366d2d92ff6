/* SPDX-License-Identifier: Apache-2.0 */
#include <hooksess/hooks/summary_saver.h>
#include <hooksess/tf1/scaffold.h>

#include "hooks/make.h"
#include "hooks/timing.h"

static const int64_t MOST_PER_RUN = INT64_MAX / 2;

typedef struct {
    hs__hook_base base;
    hs__timing timing;
    char *summary_dir;
    hs_summary_writer *given_writer, *writer;
    hs_scaffold *scaffold;
    const char *const *summary_ops; /* copies; NULL: the scaffold's */
    const char *scaffold_op[2];     /* the list of the scaffold's one */
    int64_t step;                   /* the global step after the last run */
    int64_t per_run;                /* what the last run that moved it added */
    bool has_step, started, has_ops, wants_now;
    bool wrote; /* in the last run */
    hs_run_args args;
    const hs_env *session_env;
} summary_saver;

static hs_code begin(void *self, hs_backend backend, hs_error *err)
{
    summary_saver *hook = self;
    hook->started = hook->has_step = hook->wrote = false;
    hook->writer = NULL;
    hook->session_env = hs_backend_env(backend);
    hook->per_run = 1;
    hs_timer_reset(hook->timing.timer);
    return hs_backend_check_global_step(backend, err);
}

static hs_code after_create_session(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    summary_saver *hook = self;
    (void)session, (void)coordinator, (void)err;
    hook->started = hook->has_step = false; /* after a recovery the step may be another */
    return HS_OK;
}

/* What is to be fetched, if there is anything. */
static bool find_ops(summary_saver *hook)
{
    const char *const *names = hook->summary_ops;
    if (!names) {
        hook->scaffold_op[0] = hs_scaffold_summary_op(hook->scaffold);
        names = hook->scaffold_op;
    }
    hook->args = (hs_run_args)HS_INIT(hs_run_args, .names = names);
    return names[0];
}

/* What TensorBoard has from the next step on is of a run that crashed. */
static hs_code start(summary_saver *hook, hs_raw_session *session, hs_error *err)
{
    hs_code code = hs_raw_session_event_writer(session, hook->summary_dir, hook->given_writer, &hook->writer, err);
    hook->started = !code;
    hook->has_ops = find_ops(hook);
    return code;
}

static hs_code before_run(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    summary_saver *hook = self;
    hs_code code = hook->started ? HS_OK : start(hook, hs_run_context_session(run), err);
    if (code || !hook->has_ops)
        return code;
    if (!hook->has_step) {
        int64_t step = hs_run_context_global_step(run, err);
        if (step < 0)
            return err->code;
        hook->step = step;
        hook->has_step = true;
        hs_timer_start(hook->timing.timer, step);
        hs_timer_begin(hook->timing.timer, run, step);
    }
    hook->wants_now = hs_timer_due(hook->timing.timer, run, hook->step + hook->per_run);
    if (hook->wants_now)
        *args = &hook->args;
    return HS_OK;
}

static hs_code write_summary(const summary_saver *hook, const hs_tensor *value, size_t index, hs_error *err)
{
    const char *name = hook->args.names[index];
    if (!value || value->dtype != HS_STRING || value->memory || value->bytes < sizeof(hs_string))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "the summary op '%s' does not give a string, a serialized Summary",
                            name);
    const hs_string *summary = value->data;
    return summary->bytes ? hs_summary_writer_summary(hook->writer, *summary, hook->step, err) : HS_OK;
}

static hs_code write_summaries(const summary_saver *hook, const hs_run_values *values, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < hs_run_values_count(values); i++)
        code = write_summary(hook, hs_run_values_tensor(values, i), i, err);
    return code;
}

static hs_code after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    summary_saver *hook = self;
    if (!hook->has_ops)
        return HS_OK;
    int64_t step = hs_run_context_global_step(run, err);
    if (step < 0)
        return err->code;
    if (step > hook->step)
        hook->per_run = step - hook->step;
    hook->step = step;
    hook->wrote = hook->wants_now;
    if (!hook->wants_now)
        return HS_OK;
    hs_timer_mark(hook->timing.timer, run, step, NULL, NULL);
    hs_code code = write_summaries(hook, values, err);
    if (code)
        hook->has_step = false; /* it may be left alone for some steps */
    return code;
}

/* What no run is made for any more. */
static hs_code write_last(summary_saver *hook, hs_raw_session *session, hs_error *err)
{
    const hs_run_values *values;
    if (!hook->timing.last || !hook->has_step || hook->wrote)
        return HS_OK;
    hook->step = hs_raw_session_global_step(session, err);
    if (hook->step < 0)
        return err->code;
    hs_code code = hs_raw_session_run(session, &hook->args, &values, err);
    return code ? code : write_summaries(hook, values, err);
}

static hs_code end(void *self, hs_raw_session *session, hs_error *err)
{
    summary_saver *hook = self;
    hs_code code = write_last(hook, session, err);
    return code || !hook->writer ? code : hs_raw_session_flush_writer(session, hook->writer, true, err);
}

static hs_code save_state(void *self, hs_state_writer *out, hs_error *err)
{
    const summary_saver *hook = self;
    hs_code code = hs_state_writer_write(out, &hook->per_run, sizeof hook->per_run, err);
    return code ? code : hs_timer_save(hook->timing.timer, out, err);
}

static hs_code load_state(void *self, hs_state_reader *in, hs_error *err)
{
    summary_saver *hook = self;
    int64_t per_run;
    hs_code code = hs_state_reader_read(in, &per_run, sizeof per_run, err);
    if (code)
        return code;
    if (per_run < 1 || per_run > MOST_PER_RUN)
        return hs_error_set(err, HS_DATA_LOSS, "its runs make %lld steps", (long long)per_run);
    hook->per_run = per_run;
    hook->has_step = false;
    return hs_timer_load(hook->timing.timer, in, err);
}

static void destroy(void *self)
{
    summary_saver *hook = self;
    hs_timer_free(hook->timing.timer);
    hs_env_free(&hook->base.env, hook->summary_dir);
    hs_env_free(&hook->base.env, (void *)hook->summary_ops);
    hs__hook_free(hook);
}

static const hs_hook_ops ops =
    HS_INIT(hs_hook_ops, .name = "summary_saver", .begin = begin, .after_create_session = after_create_session,
            .before_run = before_run, .after_run = after_run, .end = end, .save_state = save_state,
            .load_state = load_state, .destroy = destroy);

static hs_code check(const hs_summary_saver_options *options, hs_error *err)
{
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

static hs_code set_timer(summary_saver *hook, const hs_summary_saver_options *options, hs_error *err)
{
    const hs__timing_options timing = {
        .secs = options->every_n_secs, .steps = options->every_n_steps, .trigger = options->trigger, .first = true};
    return hs__timing_init(&hook->timing, &timing, &hook->base.env, err);
}

static hs_code fill(summary_saver *hook, const hs_summary_saver_options *options, hs_error *err)
{
    hs_code code = set_timer(hook, options, err);
    if (code)
        return code;
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
    hs_summary_saver_options options = {0};
    summary_saver *hook = NULL;
    hs_error error = {0};
    if (!HS_STRUCT_TAKE(hs_summary_saver_options, env, &options, given, &error) && !check(&options, &error))
        hook = hs__hook_new(options.env, sizeof *hook, &error);
    if (hook && fill(hook, &options, &error)) {
        destroy(hook);
        hook = NULL;
    }
    return hook ? (hs_hook){.ops = &ops, .self = hook} : hs_hook_broken(ops.name, &error);
}
