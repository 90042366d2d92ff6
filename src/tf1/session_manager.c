/* SPDX-License-Identifier: Apache-2.0 */
/* Session managers: they open sessions without hooks. The caller gets the raw session of an hs_session that has no
 * hooks. */
#include "checkpoint/restore.h"
#include "session/startup.h"

#include "session/session.h"

#include <math.h>
#include <string.h>

enum { READY, READY_FOR_LOCAL_INIT, LOCAL_INIT, N_OPS };

struct hs_session_manager {
    hs_env env;
    char *ops[N_OPS];
    const hs_feed *local_init_feeds;
    const hs_run_options *local_init_run_options;
    double recovery_wait_secs;
};

hs_session_manager *hs_session_manager_new(const hs_session_manager_options *given, hs_error *err)
{
    hs_session_manager_options options = HS_INIT(hs_session_manager_options);
    hs_env env;
    double recovery_wait_secs;
    if ((given && HS_STRUCT_TAKE(hs_session_manager_options, env, &options, given, err)) ||
        hs__env_copy(&env, options.env, err) ||
        hs__seconds(&recovery_wait_secs, options.recovery_wait_secs, 30, "hs_session_manager_options.recovery_wait_secs",
                    err))
        return NULL;
    if (options.ready_for_local_init_op && !options.local_init_op) {
        hs_error_set(err, HS_INVALID_ARGUMENT, "ready_for_local_init_op '%s' has no effect without local_init_op",
                     options.ready_for_local_init_op);
        return NULL;
    }
    const char *const names[N_OPS] = {options.ready_op, options.ready_for_local_init_op, options.local_init_op};
    hs_session_manager *manager = hs__alloc(&env, 1, sizeof *manager);
    bool complete = manager != NULL;
    if (manager)
        manager->env = env;
    for (size_t i = 0; complete && i < N_OPS; i++)
        complete = !names[i] || (manager->ops[i] = hs__strdup(&env, names[i]));
    if (!complete) {
        hs__no_memory(err, sizeof *manager, "a session manager");
        hs_session_manager_free(manager);
        return NULL;
    }
    manager->local_init_feeds = options.local_init_feeds;
    manager->local_init_run_options = options.local_init_run_options;
    manager->recovery_wait_secs = recovery_wait_secs;
    hs_error_clear(err);
    return manager;
}

void hs_session_manager_free(hs_session_manager *manager)
{
    if (!manager)
        return;
    hs_env env = manager->env;
    for (size_t i = 0; i < N_OPS; i++)
        hs__free(&env, manager->ops[i]);
    hs__free(&env, manager);
}

static bool is_set(const char *path)
{
    return path && *path;
}

/* Fills *startup, which borrows *restore_options. */
static hs_code copy_options(hs__startup *startup, const hs_session_manager *manager,
                            const hs_session_manager_prepare_options *options, hs_restore_options *restore_options,
                            double default_wait_secs, hs_error *err)
{
    if (is_set(options->checkpoint_dir) && is_set(options->checkpoint_prefix))
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "both checkpoint_dir '%s' and checkpoint_prefix '%s' are given; give at most one of the two",
                            options->checkpoint_dir, options->checkpoint_prefix);
    if (options->config.size && !options->config.data)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_session_manager_prepare_options.config.data is NULL, but its size is not 0");
    *startup = (hs__startup){
        .ready_op = manager->ops[READY],
        .ready_for_local_init_op = manager->ops[READY_FOR_LOCAL_INIT],
        .local_init_op = manager->ops[LOCAL_INIT],
        .local_init_feeds = manager->local_init_feeds,
        .local_init_run_options = manager->local_init_run_options,
        .init_op = options->init_op,
        .init_feeds = options->init_feeds,
        .init_fn = options->init_fn,
        .user = options->user,
        .saver = options->saver,
        .checkpoint_prefix = options->checkpoint_prefix,
        .checkpoint_dir = options->checkpoint_dir,
        .restore_options = restore_options,
        .wait_for_checkpoint = options->wait_for_checkpoint,
        .must_start = true,
        .recovery_wait_secs = manager->recovery_wait_secs,
    };
    *restore_options = (hs_restore_options)HS_INIT(hs_restore_options);
    hs_code code = options->restore_options
                       ? hs__copy_restore_options(restore_options, &manager->env, options->restore_options, err)
                       : HS_OK;
    return code ? code
                : hs__seconds(&startup->max_wait_secs, options->max_wait_secs, default_wait_secs,
                              "hs_session_manager_prepare_options.max_wait_secs", err);
}

/* Returns a session that is not open yet. */
static hs_session *new_session(hs_backend backend, const hs_session_manager_prepare_options *options, hs_error *err)
{
    hs_backend_ops ops;
    hs_session *session = NULL;
    if (!hs__backend_take(&ops, backend, err) &&
        !(ops.status && hs__normalize_error(ops.status(backend.self, err), "the backend", err)))
        session = hs__session_new(backend, &ops, err);
    if (!session)
        return NULL;
    session->raw.unhooked = true;
    session->target = hs__strdup(&session->env, options->target ? options->target : "");
    char *config = hs__strndup(&session->env, options->config.size ? options->config.data : "", options->config.size);
    session->config = (hs_bytes){config, options->config.size};
    if (session->target && config) {
        if (!hs__requests_init(&session->requests, &session->env, &session->raw.ops, backend.self, HS__FIRST_HOOK, err))
            return session;
    } else {
        hs__no_memory(err, options->config.size, "the session's options");
    }
    hs__session_free(session);
    return NULL;
}

/* Opens the session and gives its variables their values, in one of three ways. */
typedef hs_code (*startup_fn)(hs_session *session, const hs__startup *startup, bool *initialized, hs_error *err);

static hs_code open_and_prepare(hs_session *session, const hs__startup *startup, bool *initialized, hs_error *err)
{
    (void)initialized;
    hs_code code = hs__open_raw(session, err);
    return code ? code : hs__startup_prepare(&session->raw, startup, err);
}

static hs_code open_and_recover(hs_session *session, const hs__startup *startup, bool *initialized, hs_error *err)
{
    hs_code code = hs__open_raw(session, err);
    return code ? code : hs__startup_recover(&session->raw, startup, initialized, err);
}

static hs_code wait_until_ready(hs_session *session, const hs__startup *startup, bool *initialized, hs_error *err)
{
    (void)initialized;
    return hs__startup_wait(session, startup, err);
}

static hs_raw_session *open_session(startup_fn run_startup, const hs_session_manager *manager, hs_backend backend,
                                    const hs_session_manager_prepare_options *given, double default_wait_secs,
                                    bool *initialized, hs_error *err)
{
    hs_session_manager_prepare_options options = HS_INIT(hs_session_manager_prepare_options);
    hs_restore_options restore_options;
    hs__startup startup;
    hs_error error = {0};
    hs_session *session = NULL;
    if (!manager)
        hs_error_set(&error, HS_INVALID_ARGUMENT, "manager is NULL");
    else if ((!given || !HS_STRUCT_TAKE(hs_session_manager_prepare_options, reserved, &options, given, &error)) &&
             !copy_options(&startup, manager, &options, &restore_options, default_wait_secs, &error))
        session = new_session(backend, &options, &error);
    if (session) {
        session->life = HS__CREATING;
        hs_code code = run_startup(session, &startup, initialized, &error);
        session->life = HS__READY;
        if (code) {
            hs__close_raw(session, NULL);
            hs__session_free(session);
            session = NULL;
        }
    }
    if (session)
        hs_error_clear(err);
    else
        hs__error_copy(err, &error);
    return session ? &session->raw : NULL;
}

hs_raw_session *hs_session_manager_prepare(hs_session_manager *manager, hs_backend backend,
                                           const hs_session_manager_prepare_options *options, hs_error *err)
{
    bool unused;
    return open_session(open_and_prepare, manager, backend, options, 7200, &unused, err);
}

hs_raw_session *hs_session_manager_recover(hs_session_manager *manager, hs_backend backend,
                                           const hs_session_manager_prepare_options *options, bool *initialized,
                                           hs_error *err)
{
    bool unused;
    if (initialized)
        *initialized = false;
    return open_session(open_and_recover, manager, backend, options, 7200, initialized ? initialized : &unused, err);
}

hs_raw_session *hs_session_manager_wait(hs_session_manager *manager, hs_backend backend,
                                        const hs_session_manager_prepare_options *options, hs_error *err)
{
    bool unused;
    return open_session(wait_until_ready, manager, backend, options, HUGE_VAL, &unused, err);
}

hs_code hs_raw_session_close(hs_raw_session *raw, hs_error *err)
{
    hs__clear(err);
    if (!raw)
        return HS_OK;
    hs_session *session = hs__session_of(raw);
    if (hs__is_inherited(session->generation))
        return hs__refuse_inherited("session", err);
    if (!raw->unhooked)
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "this raw session belongs to a session with hooks; close that session with hs_session_close");
    if (session->in_backend || session->level || session->life == HS__CREATING)
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "a session cannot be closed while it is being opened or runs an op");
    hs_code code = hs__close_raw(session, err);
    hs__writer_cache_close(&session->writers, NULL, NULL, NULL);
    hs__session_free(session);
    return code;
}
