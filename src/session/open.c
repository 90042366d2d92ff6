/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a session: the order of everything, and what is left when a part of it fails. */
#include "session/session.h"

#include "session/manager.h"
#include "threads/coordinator.h"

#include <stdio.h>
#include <string.h>

/* The parts, in their order. */

static hs_code take_hook(hs__hook *to, const hs_hook *from, size_t index, hs_error *err)
{
    if (!from->ops)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hook %zu has no functions (hs_hook.ops is NULL)", index);
    hs_code code = hs_struct_take(&to->ops, sizeof to->ops, from->ops, "hs_hook_ops", "HS_HOOK_OPS", err);
    if (code)
        return code;
    if (!to->ops.name || !*to->ops.name)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hook %zu has no name (hs_hook_ops.name)", index);
    if (!to->ops.save_state != !to->ops.load_state)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hook '%s' has one of save_state and load_state, and not the other",
                            to->ops.name);
    uint64_t kinds = from->flags & (HS_HOOK_TRAIN | HS_HOOK_EVAL | HS_HOOK_AUX);
    hs_state_provider state;
    if (to->ops.save_state && (code = hs__hook_state(&state, to, NULL, err)))
        return code;
    to->self = from->self;
    to->kinds = kinds ? kinds : HS_HOOK_TRAIN;
    to->before_run = to->ops.before_run;
    to->after_run = to->ops.after_run;
    return HS_OK;
}

static hs_code take_hooks(hs_session *session, const hs_session_options *options, hs_error *err)
{
    if (options->n_hooks && !options->hooks)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_session_options.n_hooks is %zu, and hooks is NULL",
                            options->n_hooks);
    if (options->hooks && !options->n_hooks)
        hs_log(&session->env, HS_LOG_WARNING, "hs_session_options.hooks is given, and n_hooks is 0: no hook is called");
    session->hooks = hs__alloc(&session->env, options->n_hooks, sizeof *session->hooks);
    session->given_hooks = hs__alloc(&session->env, options->n_hooks, sizeof *session->given_hooks);
    if (!session->hooks || !session->given_hooks)
        return hs__no_memory(err, options->n_hooks * sizeof *session->hooks, "the hooks");
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < options->n_hooks; i++) {
        session->given_hooks[i] = options->hooks[i];
        code = take_hook(&session->hooks[i], &options->hooks[i], i, err);
    }
    if (!code)
        session->n_hooks = options->n_hooks;
    return code;
}

static hs_code begin_hooks(hs_session *session, hs_error *err)
{
    for (size_t i = 0; i < session->n_hooks; i++) {
        hs__hook *hook = &session->hooks[i];
        hook->begun = true;
        hs_code code = hook->ops.begin ? hook->ops.begin(hook->self, session->raw.backend, err) : HS_OK;
        if (code)
            return hs__hook_failed(session, hook, "begin", code, err);
        hs__clear(err); /* what the hook has got over is not what fails next */
    }
    return HS_OK;
}

static hs_code finalize(hs_session *session, hs_error *err)
{
    hs_error error = {0};
    if (!session->scaffold) {
        session->scaffold = hs_scaffold_new(&(hs_scaffold_options){HS_SCAFFOLD_OPTIONS, .env = &session->env}, &error);
        session->owns_scaffold = true;
    }
    if (!session->scaffold)
        return hs__error_copy(err, &error);
    bool finalized = hs_backend_finalized(session->raw.backend);
    hs_code code = hs_scaffold_finalize(session->scaffold, session->raw.backend, err);
    session->finalized_graph = !code && !finalized && session->raw.ops.finalize;
    return code;
}

static hs_code open_backend(hs_session *session, const hs_session_options *options, hs_error *err)
{
    hs_raw_session *raw = &session->raw;
    hs_code code = raw->ops.open(raw->backend.self, session->target, session->config, &raw->handle, err);
    if (hs__settle(code, "opening the backend's session", err))
        return code;
    if ((code = hs__fragments_init(&session->fragments, &session->env, &raw->ops, raw->backend.self,
                                   HS__FIRST_HOOK + session->n_hooks, err)) ||
        (code = hs__gather_states(session, err)))
        return code;
    hs_restore_options restoring = {HS_RESTORE_OPTIONS};
    if (options->restore_options && (code = hs_struct_take(&restoring, sizeof restoring, options->restore_options,
                                                           "hs_restore_options", "HS_RESTORE_OPTIONS", err)))
        return code;
    hs__origin origin = {options->checkpoint_path, options->checkpoint_dir, (hs_restore_policy)options->restore,
                         &restoring};
    return hs__prepare_session(raw, session->scaffold, &origin, err);
}

static hs_code created(hs_session *session, hs_error *err)
{
    for (size_t i = 0; i < session->n_hooks; i++) {
        hs__hook *hook = &session->hooks[i];
        if (!hook->ops.after_create_session)
            continue;
        bool stopped = hs_coordinator_should_stop(session->coordinator);
        hs_code code = hook->ops.after_create_session(hook->self, &session->raw, session->coordinator, err);
        if (code)
            return hs__hook_failed(session, hook, "after_create_session", code, err);
        hs__clear(err);
        if (!stopped && hs_coordinator_should_stop(session->coordinator) &&
            !hs_coordinator_error(session->coordinator, NULL)) {
            session->already_done = true;
            snprintf(session->stop_hook, sizeof session->stop_hook, "%s", hook->ops.name);
        }
    }
    return hs__call_boundaries(session, HS_BOUNDARY_CREATED, err);
}

static hs_code take_options(hs_session *session, const hs_session_options *options, hs_error *err)
{
    if (options->group)
        return hs_error_set(err, HS_UNIMPLEMENTED, "hs_session_options.group: there are no groups of replicas yet");
    if (options->checkpoint_dir && *options->checkpoint_dir && options->checkpoint_path && *options->checkpoint_path)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "both checkpoint_dir '%s' and checkpoint_path '%s' are given; give one of the two",
                            options->checkpoint_dir, options->checkpoint_path);
    if (options->restore < HS_RESTORE_IF_PRESENT || options->restore > HS_RESTORE_NEVER)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_session_options.restore is %lld, no hs_restore_policy",
                            (long long)options->restore);
    if (options->config.size && !options->config.data)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_session_options.config has a size and no data");
    session->target = hs__strdup(&session->env, options->target ? options->target : "");
    char *config = hs__strndup(&session->env, options->config.size ? options->config.data : "", options->config.size);
    session->config = (hs_bytes){config, options->config.size};
    if (!session->target || !config)
        return hs__no_memory(err, options->config.size, "the session's options");
    return HS_OK;
}

static hs_session *new_session(hs_backend backend, const hs_backend_ops *ops, hs_error *err)
{
    hs_env env;
    if (hs__env_take(&env, hs_backend_env(backend), err))
        return NULL;
    hs_session *session = hs__alloc(&env, 1, sizeof *session);
    hs_coordinator *coordinator = NULL;
    if (session) {
        session->env = session->raw.env = env;
        coordinator = hs__coordinator_new(&session->env);
    }
    if (!coordinator) {
        hs__free(&env, session);
        hs__no_memory(err, sizeof *session, "a session");
        return NULL;
    }
    session->coordinator = coordinator;
    session->raw.backend = backend;
    session->raw.ops = *ops;
    session->raw.owner = session;
    session->raw.saved_step = -1;
    atomic_init(&session->stop_request, false);
    hs__writer_cache_init(&session->writers, &session->env);
    return session;
}

/* Many a program shows no error of its own: what kept a session from starting is in the log, too. */
static hs_session *not_opened(hs_backend backend, const hs_error *error, hs_error *err)
{
    hs_log(hs_backend_env(backend), HS_LOG_ERROR, "the session was not opened: %s", error->message);
    hs__error_copy(err, error);
    return NULL;
}

hs_session *hs_session_open(hs_backend backend, const hs_session_options *given, hs_error *err)
{
    hs_session_options options = {HS_SESSION_OPTIONS};
    hs_backend_ops ops;
    hs_error error = {0};
    if (given && hs_struct_take(&options, sizeof options, given, "hs_session_options", "HS_SESSION_OPTIONS", &error))
        return not_opened(backend, &error, err);
    hs_session *session = NULL;
    if (!hs__backend_take(&ops, backend, &error))
        session = new_session(backend, &ops, &error);
    if (!session || take_hooks(session, &options, &error)) {
        hs_hooks_destroy(options.hooks, options.hooks ? options.n_hooks : 0);
        if (options.take_scaffold)
            hs_scaffold_free(options.scaffold);
        if (session)
            hs__session_free(session);
        return not_opened(backend, &error, err);
    }
    session->scaffold = options.scaffold;
    session->owns_scaffold = options.take_scaffold && options.scaffold;
    if (take_options(session, &options, &error) ||
        (ops.status && hs__settle(ops.status(backend.self, &error), "the backend", &error)) ||
        begin_hooks(session, &error) || finalize(session, &error) || open_backend(session, &options, &error) ||
        created(session, &error)) {
        hs__shut(session, HS_OK, &error);
        return not_opened(backend, &error, err);
    }
    hs__clear(err);
    return session;
}
