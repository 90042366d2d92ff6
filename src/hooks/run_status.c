/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* gethostname, gmtime_r */
#include <hooksess/checkpoint.h>
#include <hooksess/hooks/run_status.h>

#include "base/buffer.h"
#include "base/files.h"
#include "base/json_reader.h"
#include "base/json_writer.h"
#include "hooks/make.h"
#include "hooks/ranks.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define STATUS  "status.json"
#define OUTCOME "outcome.json"

enum { MOST_BYTES = 1 << 20 };
static const double LONGEST_SAVE = 86400; /* larger values are ignored */

typedef struct {
    int64_t step, last_durable_step;
    const char *phase;
    double save_secs;
} status;

/* JSON. */

static void put_error(hs__json_writer *out, const char *name, const hs_error *error)
{
    if (!error->code) {
        hs__json_put_null(out, name);
        return;
    }
    hs__json_open(out, name, '{');
    hs__json_put_text(out, "code", hs_code_name(error->code));
    hs__json_put_int(out, "number", error->code);
    hs__json_put_text(out, "message", error->message);
    hs__json_close(out, '}');
}

static void put_time(hs__json_writer *out, int64_t ns)
{
    char text[64];
    time_t seconds = (time_t)(ns / 1000000000);
    struct tm utc = {.tm_year = 70, .tm_mday = 1};
    gmtime_r(&seconds, &utc);
    snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
             utc.tm_hour, utc.tm_min, utc.tm_sec, (int)(ns / 1000000 % 1000));
    hs__json_put_text(out, "time", text);
}

/* The last fields of each file: time, host and process. */
static void put_origin(hs__json_writer *out, const hs_env *env)
{
    char host[256] = "";
    int64_t now_ns = hs_env_realtime_ns(env);
    if (gethostname(host, sizeof host) != 0)
        host[0] = '\0';
    host[sizeof host - 1] = '\0';
    put_time(out, now_ns > 0 ? now_ns : 0);
    hs__json_put_text(out, "host", host);
    hs__json_put_int(out, "pid", getpid());
}

/* Files. */

static hs_code put(const hs_env *env, const char *directory, const char *name, const hs__buffer *text, bool synced,
                   hs_error *err)
{
    hs_code code = hs__buffer_check(text, name, err);
    if (code || (code = hs__make_directories(env, directory, err)))
        return code;
    char *path = hs__path_join(env, directory, name);
    if (!path)
        return hs__no_memory(err, strlen(directory), "a path");
    code = hs__file_replace(env, path, text->data, text->size, synced, err);
    hs__free(env, path);
    return code;
}

static hs_code write_status_file(const hs_env *env, const char *directory, const status *now, bool synced, hs_error *err)
{
    hs__buffer text;
    hs__buffer_init(&text, env);
    hs__json_writer out = {.put = hs__buffer_put, .to = &text, .lines = 1};
    bool is_known = now->save_secs > 0 && now->save_secs <= LONGEST_SAVE;
    hs__json_open(&out, NULL, '{');
    hs__json_put_int(&out, "step", now->step);
    hs__json_put_int(&out, "last_durable_step", now->last_durable_step);
    hs__json_put_text(&out, "phase", now->phase);
    hs__json_put_thousandths(&out, "save_secs", is_known ? (int64_t)(now->save_secs * 1e3 + 0.999) : 0);
    put_origin(&out, env);
    hs__json_close(&out, '}');
    hs__buffer_append(&text, "\n", 1);
    hs_code code = put(env, directory, STATUS, &text, synced, err);
    hs__buffer_free(&text);
    return code;
}

static void put_failures(hs__json_writer *out, const hs_raw_session *session)
{
    hs_hook_failure failure;
    hs__json_open(out, "failures", '[');
    for (size_t i = 0; hs_raw_session_failure(session, i, &failure); i++) {
        hs__json_open(out, NULL, '{');
        hs__json_put_text(out, "hook", failure.hook);
        hs__json_put_int(out, "failures", failure.failures);
        hs__json_put_int(out, "first_step", failure.first_step);
        hs__json_put_int(out, "last_step", failure.last_step);
        hs__json_put_bool(out, "muted", failure.muted);
        put_error(out, "last", &failure.last);
        hs__json_close(out, '}');
    }
    hs__json_close(out, ']');
}

static hs_code write_outcome_file(const hs_env *env, const char *directory, const hs_outcome *outcome,
                                  const hs_raw_session *session, hs_error *err)
{
    hs__buffer text;
    hs__buffer_init(&text, env);
    hs__json_writer out = {.put = hs__buffer_put, .to = &text, .lines = 1};
    hs__json_open(&out, NULL, '{');
    hs__json_put_text(&out, "reason", hs_reason_name(outcome->reason));
    hs__json_put_bool(&out, "interrupted", outcome->interrupted);
    hs__json_put_int(&out, "signal", outcome->signal);
    hs__json_put_int(&out, "step", outcome->step);
    hs__json_put_int(&out, "last_saved_step", outcome->last_saved_step);
    hs__json_put_text(&out, "hook", outcome->hook);
    put_error(&out, "error", &outcome->error);
    hs__json_put_int(&out, "cause_rank", outcome->cause_rank);
    hs__json_put_int(&out, "exit_code", hs_outcome_exit_code(outcome));
    put_failures(&out, session);
    put_origin(&out, env);
    hs__json_close(&out, '}');
    hs__buffer_append(&text, "\n", 1);
    hs_code code = put(env, directory, OUTCOME, &text, true, err);
    hs__buffer_free(&text);
    return code;
}

static void remove_outcome_file(const hs_env *env, const char *directory)
{
    char *path = hs__path_join(env, directory, OUTCOME);
    if (path)
        hs__file_remove(env, path);
    else
        hs_log(env, HS_LOG_WARNING, "cannot delete outcome.json of an earlier run: no memory for a path");
    hs__free(env, path);
}

static double read_save_secs(const hs_env *env, const char *directory)
{
    char *text = NULL, *path = hs__path_join(env, directory, STATUS);
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
    return secs > 0 && secs <= LONGEST_SAVE ? secs : 0;
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

enum { NOT_WRITTEN = -2 }; /* neither a step nor -1, which means that no step was saved */

typedef struct {
    hs__hook_base base;
    char *directory;
    const hs_env *session_env;
    hs_raw_session *session;    /* NULL: not created */
    double earlier_save_secs;   /* from the status file of an earlier run. 0: unknown */
    int64_t written_saved_step; /* the last saved step in the status file */
    bool is_others, warned;     /* is_others: another process or session saves to the directory */
} run_status;

static hs_code begin(void *self, hs_backend backend, hs_error *err)
{
    run_status *hook = self;
    (void)err;
    hook->session_env = hs_backend_env(backend);
    hook->session = NULL;
    hook->warned = false;
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
    if (!hook->session && hook->earlier_save_secs > 0 && !(hs_raw_session_save_secs(session) > 0))
        hs_raw_session_set_save_secs(session, hook->earlier_save_secs);
    hook->session = session;
    return HS_OK;
}

static void tolerate_failure(run_status *hook, const char *name, const hs_error *error)
{
    hs_log(hook->session_env, hook->warned ? HS_LOG_DEBUG : HS_LOG_WARNING, "cannot write %s: %s", name, error->message);
    hook->warned = true;
    hs_raw_session_report_failure(hook->session, "run_status", error);
}

static void write_status(run_status *hook, hs_phase phase, int64_t step, bool synced)
{
    hs_error error = {0};
    status now = {step, hs_raw_session_last_saved_step(hook->session), hs_phase_name(phase),
                  hs_raw_session_save_secs(hook->session)};
    hook->written_saved_step = now.last_durable_step;
    if (!hook->is_others && write_status_file(hook->session_env, hook->directory, &now, synced, &error))
        tolerate_failure(hook, "status.json", &error);
}

static int64_t step_of(hs_run_context *run)
{
    return hs_run_context_global_step(run, NULL);
}

static hs_code before_run(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    run_status *hook = self;
    (void)args, (void)err;
    if (hs_raw_session_last_saved_step(hook->session) != hook->written_saved_step)
        write_status(hook, HS_PHASE_STEP, step_of(run), false);
    return HS_OK;
}

static hs_code boundary(void *self, hs_run_context *run, hs_error *err)
{
    (void)err;
    if (hs_run_context_boundary(run) != HS_BOUNDARY_CREATED)
        return HS_OK;
    write_status(self, HS_PHASE_INIT, step_of(run), false);
    ((run_status *)self)->written_saved_step = NOT_WRITTEN; /* the first run changes the phase */
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
    if (!hook->is_others && (hook->session || directory_exists(hook->session_env, hook->directory)) &&
        write_outcome_file(hook->session_env, hook->directory, outcome, hook->session, &error))
        tolerate_failure(hook, "outcome.json", &error);
    hook->session = NULL;
}

/* `session` is in use by the session's thread. */
static void abandon(void *self, const hs_outcome *outcome)
{
    const run_status *hook = self;
    hs_error error = {0};
    if (!hook->is_others && write_outcome_file(hook->session_env, hook->directory, outcome, NULL, &error))
        hs_log(hook->session_env, HS_LOG_WARNING, "cannot write outcome.json: %s", error.message);
}

static void destroy(void *self)
{
    run_status *hook = self;
    hs_env_free(&hook->base.env, hook->directory);
    hs__hook_free(hook);
}

static const hs_hook_ops ops =
    HS_INIT(hs_hook_ops, .name = "run_status", .begin = begin, .after_create_session = after_create_session,
            .before_run = before_run, .boundary = boundary, .close = close_status, .destroy = destroy, .abandon = abandon);

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
    hook->base.flags = hs__writer_flags(false);
    hook->directory = hs__hook_text(hook, options->status_dir, err);
    return hook->directory ? HS_OK : HS_RESOURCE_EXHAUSTED;
}

hs_hook hs_run_status_hook(const hs_run_status_options *given)
{
    return HS__HOOK_MAKE(&ops, run_status, hs_run_status_options, check, fill, given);
}
