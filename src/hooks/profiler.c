/* SPDX-License-Identifier: Apache-2.0 */
/* before_run asks for a trace of the run, after_run copies the run's metadata, and the boundary writes the profile. */
#include <hooksess/hooks/profiler.h>

#include "hooks/make.h"
#include "hooks/ranks.h"
#include "session/services.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    hs__hook_base base;
    char *trace_dir;
    bool show_memory;
    const hs_env *session_env;
    int64_t untraced_from;       /* the run that begins at this step is not traced; -1: none */
    int64_t step;                /* of the profile */
    bool traces_now, writes_now; /* traces: in this run; writes: in its boundary */
    void *metadata;              /* a copy, because runs of other hooks may replace the backend's before the boundary */
    size_t metadata_bytes;
} profiler;

static hs_code begin(void *self, hs_backend backend, hs_error *err)
{
    profiler *hook = self;
    hook->session_env = hs_backend_env(backend);
    hook->writes_now = false;
    return hs_backend_check_global_step(backend, err);
}

static hs_code after_create_session(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    profiler *hook = self;
    const hs_trigger *when = &hook->base.when;
    (void)coordinator;
    hook->untraced_from = -1;
    /* As in TensorFlow, the first run of a training begins the interval. */
    if (when->every_n_steps == 1 && !when->first && !hs_raw_session_restored_from(session) &&
        (hook->untraced_from = hs_raw_session_global_step(session, err)) < 0)
        return err->code;
    return hs__add_rank(hook, session, &hook->trace_dir, err);
}

static hs_code before_run(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    static const hs_run_options full = HS_INIT(hs_run_options, .trace_level = HS_TRACE_FULL);
    static const hs_run_args traced = HS_INIT(hs_run_args, .options = &full);
    profiler *hook = self;
    int64_t step = hook->untraced_from < 0 ? 0 : hs_run_context_global_step(run, err);
    if (step < 0)
        return err->code;
    hook->traces_now = hook->untraced_from < 0 || step != hook->untraced_from;
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

static void report_result(const profiler *hook, hs_run_context *run, hs_code code, hs_error *error)
{
    hs_error_prefix(error, "profile not written");
    if (hs_raw_session_report_result(hs_run_context_session(run), "profiler", code, error)) /* a path of no use */
        hs_log(hook->session_env, HS_LOG_WARNING, "step %lld: %s", (long long)hook->step, error->message);
}

static hs_code after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    profiler *hook = self;
    hook->writes_now = false;
    if (!hook->traces_now)
        return HS_OK;
    if ((hook->step = hs_run_context_global_step(run, err)) < 0)
        return err->code;
    hs_bytes metadata = hs_run_values_metadata(values);
    drop_metadata(hook);
    if (metadata.size) {
        if (!(hook->metadata = hs_env_alloc(&hook->base.env, metadata.size))) {
            hs_error error;
            report_result(hook, run, hs__no_memory(&error, metadata.size, "the run's metadata"), &error);
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
    const int64_t step = hook->step;
    hook->writes_now = false;
    if (hs_run_context_global_step(run, NULL) != step) { /* a later hook has failed in the traced run */
        drop_metadata(hook);
        return HS_OK;
    }
    const hs_bytes metadata = {hook->metadata, hook->metadata_bytes};
    const hs__trace_options options = {
        .directory = hook->trace_dir, .metadata = metadata, .show_memory = hook->show_memory};
    snprintf(tag, sizeof tag, "step_%lld", (long long)step);
    hs_code code = hs__run_context_write_trace(run, step, &options, &error);
    if (!code && !(code = hs_raw_session_summary_writer(hs_run_context_session(run), hook->trace_dir, &writer, &error)))
        code = hs_summary_writer_run_metadata(writer, tag, metadata, step, &error); /* for TensorBoard */
    drop_metadata(hook);
    report_result(hook, run, code, &error);
    return HS_OK;
}

static void destroy(void *self)
{
    profiler *hook = self;
    drop_metadata(hook);
    hs_env_free(&hook->base.env, hook->trace_dir);
    hs__hook_free(hook);
}

static const hs_hook_ops ops =
    HS_INIT(hs_hook_ops, .name = "profiler", .begin = begin, .after_create_session = after_create_session,
            .before_run = before_run, .after_run = after_run, .boundary = boundary, .destroy = destroy);

static hs_code fill(void *self, const void *given, hs_error *err)
{
    profiler *hook = self;
    const hs_profiler_options *options = given;
    bool somewhere = options->trace_dir && *options->trace_dir;
    const hs__when_options when = {.secs = options->every_n_secs,
                                   .steps = options->every_n_steps,
                                   .when = options->when,
                                   .no_last = "the hook traces runs"};
    hs_code code = hs__hook_when(hook, &when, err);
    if (code)
        return code;
    hook->base.flags = hs__writer_flags(options->every_rank);
    hook->show_memory = options->show_memory;
    hook->trace_dir = hs__hook_text(hook, somewhere ? options->trace_dir : ".", err);
    return hook->trace_dir ? HS_OK : HS_RESOURCE_EXHAUSTED;
}

hs_hook hs_profiler_hook(const hs_profiler_options *given)
{
    return HS__HOOK_MAKE(&ops, profiler, hs_profiler_options, reserved, NULL, fill, NULL, given);
}
