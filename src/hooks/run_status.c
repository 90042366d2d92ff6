/* SPDX-License-Identifier: Apache-2.0 */
#include <hooksess/hooks/run_status.h>

#include "hooks/make.h"
#include "hooks/status_file.h"

enum { NOT_TOLD = -2 }; /* no step, nor the -1 of none */

typedef struct {
    hs__hook_base base;
    char *directory;
    const hs_env *session_env;
    hs_raw_session *session; /* NULL: none was created */
    double earlier_save_secs;
    int64_t told_saved_step;
    bool is_others, warned;
} run_status;

static hs_code begin(void *self, hs_backend backend, hs_error *err)
{
    run_status *hook = self;
    (void)err;
    hook->session_env = hs_backend_env(backend);
    hook->session = NULL;
    hook->warned = false;
    hook->earlier_save_secs = 0;
    hook->is_others = hs__status_is_others(hook->session_env, hook->directory);
    if (hook->is_others) {
        hs_log(hook->session_env, HS_LOG_WARNING,
               "status.json and outcome.json are not written: another process saves to '%s'", hook->directory);
    } else if (hs__status_directory_exists(hook->session_env, hook->directory)) {
        hook->earlier_save_secs = hs__status_save_secs(hook->session_env, hook->directory);
        hs__outcome_remove(hook->session_env, hook->directory);
    }
    return HS_OK;
}

static hs_code after_create_session(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    run_status *hook = self;
    (void)coordinator, (void)err;
    if (!hook->session && hook->earlier_save_secs > 0 && !(hs_raw_session_save_secs(session) > 0))
        hs_raw_session_set_save_secs(session, hook->earlier_save_secs);
    hook->session = session;
    return HS_OK;
}

static void get_over(run_status *hook, const char *name, const hs_error *error)
{
    hs_log(hook->session_env, hook->warned ? HS_LOG_DEBUG : HS_LOG_WARNING, "cannot write %s: %s", name, error->message);
    hook->warned = true;
    hs_raw_session_report_failure(hook->session, "run_status", error);
}

static void write_status(run_status *hook, hs_phase phase, int64_t step, bool synced)
{
    hs_error error = {0};
    hs__run_status status = {step, hs_raw_session_last_saved_step(hook->session), hs_phase_name(phase),
                             hs_raw_session_save_secs(hook->session)};
    hook->told_saved_step = status.last_durable_step;
    if (!hook->is_others && hs__status_write(hook->session_env, hook->directory, &status, synced, &error))
        get_over(hook, "status.json", &error);
}

static int64_t step_of(hs_run_context *run)
{
    return hs_run_context_global_step(run, NULL);
}

static hs_code before_run(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    run_status *hook = self;
    (void)args, (void)err;
    if (hs_raw_session_last_saved_step(hook->session) != hook->told_saved_step)
        write_status(hook, HS_PHASE_STEP, step_of(run), false);
    return HS_OK;
}

static hs_code boundary(void *self, hs_run_context *run, hs_error *err)
{
    (void)err;
    if (hs_run_context_boundary(run) != HS_BOUNDARY_CREATED)
        return HS_OK;
    write_status(self, HS_PHASE_INIT, step_of(run), false);
    ((run_status *)self)->told_saved_step = NOT_TOLD; /* the first run is another phase */
    return HS_OK;
}

/* The session is still there; a failure of the status is in the outcome's file, and one of that only in the log. */
static void close_status(void *self, const hs_outcome *outcome)
{
    run_status *hook = self;
    hs_error error = {0};
    if (hook->session)
        write_status(hook, HS_PHASE_END, outcome->step, true);
    if (!hook->is_others && (hook->session || hs__status_directory_exists(hook->session_env, hook->directory)) &&
        hs__outcome_write(hook->session_env, hook->directory, outcome, hook->session, &error))
        get_over(hook, "outcome.json", &error);
    hook->session = NULL;
}

static void destroy(void *self)
{
    run_status *hook = self;
    hs_env_free(&hook->base.env, hook->directory);
    hs__hook_free(hook);
}

static const hs_hook_ops ops =
    HS_INIT(hs_hook_ops, .name = "run_status", .begin = begin, .after_create_session = after_create_session,
            .before_run = before_run, .boundary = boundary, .close = close_status, .destroy = destroy);

static hs_code check(const void *given, hs_error *err)
{
    const hs_run_status_options *options = given;
    if (!options->status_dir || !*options->status_dir)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "status_dir is missing; give the directory of the checkpoints");
    return HS_OK;
}

static hs_code fill(void *self, const void *given, hs_error *err)
{
    run_status *hook = self;
    const hs_run_status_options *options = given;
    hook->directory = hs__hook_text(hook, options->status_dir, err);
    return hook->directory ? HS_OK : HS_RESOURCE_EXHAUSTED;
}

hs_hook hs_run_status_hook(const hs_run_status_options *given)
{
    return HS__HOOK_MAKE(&ops, run_status, hs_run_status_options, check, fill, given);
}
