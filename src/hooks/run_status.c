/* SPDX-License-Identifier: Apache-2.0 */
/* begin reads and removes the files of an earlier run. boundary writes status.json after the creation, before_run in the
 * first run and after each save, and close_status for the last time, then outcome.json. */
#include <hooksess/checkpoint.h>
#include <hooksess/hooks/run_status.h>

#include "base/files.h"
#include "base/json_reader.h"
#include "hooks/make.h"
#include "hooks/ranks.h"
#include "session/schedule.h"
#include "session/services.h"
#include "session/status_files.h"

#include <string.h>

enum { MOST_BYTES = 1 << 20 };

/* Files of an earlier run. */

static void remove_outcome_file(const hs_env *env, const char *directory)
{
    char *path = hs__path_join(env, directory, HS__OUTCOME_FILE);
    if (path)
        hs__file_remove(env, path);
    else
        hs_log(env, HS_LOG_WARNING, "cannot delete outcome.json of an earlier run: no memory for a path");
    hs__free(env, path);
}

static double read_save_secs(const hs_env *env, const char *directory)
{
    char *text = NULL, *path = hs__path_join(env, directory, HS__STATUS_FILE);
    size_t bytes = 0;
    double secs = 0;
    hs__json_value root;
    hs__json_fault fault;
    hs_error error = {0};
    hs_code code = path ? hs__file_contents(env, path, MOST_BYTES, &text, &bytes, &error)
                        : hs__no_memory(&error, strlen(directory), "a path");
    if (!code && hs__json_check(text, bytes, &root, &fault))
        hs__json_number(hs__json_member(root, "save_secs"), &secs);
    if (code == HS_RESOURCE_EXHAUSTED)
        hs_log(env, HS_LOG_WARNING, "cannot read status.json of an earlier run: %s", error.message);
    hs__free(env, text);
    hs__free(env, path);
    return secs > 0 && secs <= HS__LONGEST_SAVE_SECS ? secs : 0;
}

static bool directory_exists(const hs_env *env, const char *directory)
{
    hs_file_stat found;
    return hs__stat(env, directory, &found, NULL) == HS_OK && found.is_directory;
}

/* True if another process, or an open session of this one, holds the directory, as a checkpoint saver does. False also if
 * that is unknown. `hook` stands for this session, which claims the directory later. */
static bool is_saved_by_other(const hs_env *env, const char *directory, const void *hook)
{
    void *lock = NULL;
    char *path = hs__path_join(env, directory, HS_CHECKPOINT_LOCK);
    hs_code code = path && hs__file_exists(env, path) ? hs__lock(env, path, &lock, NULL) : HS_OK;
    bool open = hs__lock_is_open_to(env, lock, hook);
    hs__unlock(env, lock);
    hs__free(env, path);
    return code == HS_FAILED_PRECONDITION || !open;
}

/* The hook. */

typedef struct {
    hs__hook_base base;
    char *directory;
    const hs_env *session_env;
    hs_raw_session *session;  /* NULL: not created */
    double earlier_save_secs; /* from the status file of an earlier run. 0: unknown */
    bool is_others;           /* another process or session saves to the directory */
} run_status;

static hs_code begin(void *self, hs_backend backend, hs_error *err)
{
    run_status *hook = self;
    (void)err;
    hook->session_env = hs_backend_env(backend);
    hook->session = NULL;
    hook->earlier_save_secs = 0;
    hook->is_others = is_saved_by_other(hook->session_env, hook->directory, hook);
    if (hook->is_others) {
        hs_log(hook->session_env, HS_LOG_WARNING,
               "status.json and outcome.json are not written: another process or session saves to '%s'", hook->directory);
    } else if (directory_exists(hook->session_env, hook->directory)) {
        hook->earlier_save_secs = read_save_secs(hook->session_env, hook->directory);
        remove_outcome_file(hook->session_env, hook->directory);
    }
    return HS_OK;
}

static hs_code after_create_session(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    run_status *hook = self;
    (void)coordinator, (void)err;
    if (!hook->session) /* the first save of this session comes later */
        hs__raw_session_set_save_secs(session, hook->earlier_save_secs);
    hook->session = session;
    if (!hook->is_others)
        hs__record_abandonment_in(session, hook->directory);
    return HS_OK;
}

static void report_result(const run_status *hook, const char *file, hs_code code, hs_error *error)
{
    hs_error_prefix(error, "cannot write %s", file);
    if (hs_raw_session_report_result(hook->session, "run_status", code, error)) /* no session, or a path of no use */
        hs_log(hook->session_env, HS_LOG_WARNING, "%s", error->message);
}

static void write_status(run_status *hook, hs_phase phase, int64_t step, bool synced)
{
    hs_error error = {0};
    hs__status now = {step, hs_raw_session_last_saved_step(hook->session), hs_phase_name(phase),
                      hs_raw_session_save_secs(hook->session)};
    if (!hook->is_others)
        report_result(hook, "status.json", hs__write_status(hook->session_env, hook->directory, &now, synced, &error),
                      &error);
}

static int64_t step_of(hs_run_context *run)
{
    return hs_run_context_global_step(run, NULL);
}

static hs_code before_run(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    (void)args, (void)err;
    write_status(self, HS_PHASE_STEP, step_of(run), false);
    return HS_OK;
}

static hs_code boundary(void *self, hs_run_context *run, hs_error *err)
{
    (void)err;
    if (hs_run_context_boundary(run) == HS_BOUNDARY_CREATED)
        write_status(self, HS_PHASE_INIT, step_of(run), false);
    return HS_OK;
}

/* Writes the last status, then the outcome. The session still exists: if the status cannot be written, the failure is
 * recorded in it, and the outcome file lists the failure. If the outcome cannot be written, the failure is logged. */
static void close_status(void *self, const hs_outcome *outcome)
{
    run_status *hook = self;
    hs_error error = {0};
    if (hook->session)
        write_status(hook, HS_PHASE_END, outcome->step, true);
    if (!hook->is_others && (hook->session || directory_exists(hook->session_env, hook->directory)))
        report_result(hook, "outcome.json",
                      hs__write_outcome(hook->session_env, hook->directory, outcome, hook->session, &error), &error);
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
    hook->base.flags = hs__writer_flags(false) | HS__HOOK_AFTER_SAVES;
    hook->directory = hs__hook_text(hook, options->status_dir, err);
    return hook->directory ? HS_OK : HS_RESOURCE_EXHAUSTED;
}

hs_hook hs_run_status_hook(const hs_run_status_options *given)
{
    return HS__HOOK_MAKE(&ops, run_status, hs_run_status_options, status_dir, check, fill, NULL, given);
}
