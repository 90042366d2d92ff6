/* SPDX-License-Identifier: Apache-2.0 */
/* before_run asks for a trace of the run, after_run copies the run's metadata, and the boundary writes the profile. */
#include <hooksess/hooks/profiler.h>

#include "hooks/make.h"
#include "hooks/ranks.h"
#include "hooks/step_clock.h"
#include "hooks/timing.h"
#include "session/services.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    hs__hook_base base;
    hs__timing timing;
    char *trace_dir;
    bool show_memory;
    const hs_env *session_env;
    hs__step_clock clock;        /* used if the schedule is by steps */
    bool traces_now, writes_now; /* traces: in this run; writes: in its boundary */
    void *metadata;              /* a copy, because runs of other hooks may replace the backend's before the boundary */
    size_t metadata_bytes;
} profiler;

static hs_code begin(void *self, hs_backend backend, hs_error *err)
{
    profiler *hook = self;
    hook->session_env = hs_backend_env(backend);
    hs__step_clock_reset(&hook->clock);
    hook->traces_now = hook->writes_now = false;
    hs_timer_reset(hook->timing.timer);
    return hs_backend_check_global_step(backend, err);
}

static hs_code after_create_session(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    profiler *hook = self;
    (void)coordinator;
    hook->clock.has_step = false; /* a recovery may have changed the step */
    return hs__add_rank(hook, session, &hook->trace_dir, err);
}

static hs_code before_run(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    static const hs_run_options full = HS_INIT(hs_run_options, .trace_level = HS_TRACE_FULL);
    static const hs_run_args traced = HS_INIT(hs_run_args, .options = &full);
    profiler *hook = self;
    hs_timer *timer = hook->timing.timer;
    hook->traces_now = hook->writes_now = false;
    if (hook->timing.by_steps && !hook->clock.has_step) {
        int64_t step = hs_run_context_global_step(run, err);
        if (step < 0)
            return err->code;
        hook->clock.step = step;
        hook->clock.has_step = true;
        hs_timer_start(timer, step);
    }
    hook->traces_now = hs_timer_due(timer, run, hs__step_clock_next(&hook->clock));
    if (hook->traces_now) {
        *args = &traced;
        hs__run_context_record_spans(run);
    }
    return HS_OK;
}

static void drop_metadata(profiler *hook)
{
    hs_env_free(&hook->base.env, hook->metadata);
    hook->metadata = NULL;
    hook->metadata_bytes = 0;
}

static void skip_profile(const profiler *hook, const char *why)
{
    hs_log(hook->session_env, HS_LOG_WARNING, "step %lld: profile not written: %s", (long long)hook->clock.step, why);
}

static hs_code after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    profiler *hook = self;
    hs_timer *timer = hook->timing.timer;
    int64_t before = hook->clock.step;
    bool by_steps = hook->timing.by_steps;
    int64_t step = by_steps || hook->traces_now ? hs_run_context_global_step(run, err) : before;
    if (step < 0)
        return err->code;
    hs__step_clock_advance(&hook->clock, step, by_steps);
    hs_timer_begin(timer, run, before);
    if (!hook->traces_now)
        return HS_OK;
    hs_timer_mark(timer, run, step, NULL, NULL);
    hs_bytes metadata = hs_run_values_metadata(values);
    drop_metadata(hook);
    if (metadata.size) {
        if (!(hook->metadata = hs_env_alloc(&hook->base.env, metadata.size))) {
            skip_profile(hook, "no memory for the run's metadata");
            return HS_OK;
        }
        memcpy(hook->metadata, metadata.data, metadata.size);
        hook->metadata_bytes = metadata.size;
    }
    hook->writes_now = true;
    hs_run_context_request_boundary(run);
    return HS_OK;
}

static hs_code boundary(void *self, hs_run_context *run, hs_error *err)
{
    profiler *hook = self;
    hs_summary_writer *writer;
    char tag[32];
    hs_error error = {0};
    (void)err;
    if (!hook->writes_now || hs_run_context_boundary(run) != HS_BOUNDARY_RUN)
        return HS_OK;
    const int64_t step = hook->clock.step;
    const hs_bytes metadata = {hook->metadata, hook->metadata_bytes};
    const hs__trace_options options = {
        .directory = hook->trace_dir, .metadata = metadata, .show_memory = hook->show_memory};
    snprintf(tag, sizeof tag, "step_%lld", (long long)step);
    if (hs__run_context_write_trace(run, step, &options, &error) ||
        hs_raw_session_summary_writer(hs_run_context_session(run), hook->trace_dir, &writer, &error) ||
        hs_summary_writer_run_metadata(writer, tag, metadata, step, &error)) /* for TensorBoard */
        skip_profile(hook, error.message);
    hook->writes_now = false;
    drop_metadata(hook);
    return HS_OK;
}

static hs_code save_state(void *self, hs_state_writer *out, hs_error *err)
{
    const profiler *hook = self;
    return hs__step_clock_save(&hook->clock, hook->timing.timer, out, err);
}

static hs_code load_state(void *self, hs_state_reader *in, hs_error *err)
{
    profiler *hook = self;
    return hs__step_clock_load(&hook->clock, hook->timing.timer, in, err);
}

static void destroy(void *self)
{
    profiler *hook = self;
    drop_metadata(hook);
    hs_timer_free(hook->timing.timer);
    hs_env_free(&hook->base.env, hook->trace_dir);
    hs__hook_free(hook);
}

static const hs_hook_ops ops = HS_INIT(
    hs_hook_ops, .name = "profiler", .begin = begin, .after_create_session = after_create_session, .before_run = before_run,
    .after_run = after_run, .boundary = boundary, .save_state = save_state, .load_state = load_state, .destroy = destroy);

static hs_code fill(void *self, const void *given, hs_error *err)
{
    profiler *hook = self;
    const hs_profiler_options *options = given;
    bool somewhere = options->trace_dir && *options->trace_dir;
    const hs__timing_options timing = {
        .secs = options->every_n_secs, .steps = options->every_n_steps, .when = options->when};
    hs_code code = hs__timing_init(&hook->timing, &timing, &hook->base.env, err);
    if (code)
        return code;
    if (hook->timing.last)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "when: last is set, but the hook traces runs, and no run follows the last one");
    hook->base.flags = hs__writer_flags(options->every_rank);
    hook->show_memory = options->show_memory;
    hook->trace_dir = hs__hook_text(hook, somewhere ? options->trace_dir : ".", err);
    return hook->trace_dir ? HS_OK : HS_RESOURCE_EXHAUSTED;
}

hs_hook hs_profiler_hook(const hs_profiler_options *given)
{
    return HS__HOOK_MAKE(&ops, profiler, hs_profiler_options, reserved, NULL, fill, given);
}
