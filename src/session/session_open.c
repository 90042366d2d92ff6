/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a session. hs_session_open makes the session and copies its hooks; `begin` copies the options, calls the hooks'
 * `begin` and finalizes the graph; hs__create_with_retries creates what can be lost. If one of them fails, hs__close_all
 * closes the session. */
#include "session/session.h"

#include "threads/coordinator.h"

#include <math.h>
#include <string.h>

/* Names a hook without a valid name by its position. A training session adds its own hooks to the list, so that the
 * number alone does not say which hook of the program it is. */
static void prefix_position(const hs_hook *hooks, size_t index, hs_error *err)
{
    const char *previous = index ? hooks[index - 1].ops->name : NULL;
    if (previous)
        hs_error_prefix(err, "hook %zu, after '%s'", index, previous);
    else
        hs_error_prefix(err, "hook %zu", index);
}

static hs_code copy_hook(hs__hook *to, const hs_hook *hooks, size_t index, hs_error *err)
{
    const hs_hook *from = &hooks[index];
    hs_code code = HS_STRUCT_TAKE(hs_hook_ops, rank_identity, &to->cold->ops, from->ops, err);
    if (!code && (!to->cold->ops.name || !*to->cold->ops.name))
        code = hs_error_set(err, HS_INVALID_ARGUMENT, "it has no name (hs_hook_ops.name)");
    if (code) {
        prefix_position(hooks, index, err);
        return code;
    }
    if (!to->cold->ops.save_state != !to->cold->ops.load_state)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hook '%s' has only one of save_state and load_state; set both or none", to->cold->ops.name);
    to->cold->per_rank = from->flags & HS_HOOK_PER_RANK;
    to->cold->any_rank_count = to->cold->per_rank && from->flags & HS_HOOK_ANY_RANK_COUNT;
    uint32_t kinds = from->flags & (HS_HOOK_TRAIN | HS_HOOK_EVAL | HS_HOOK_AUX);
    hs_state_provider state;
    if (to->cold->ops.save_state && (code = hs__hook_state(&state, to, NULL, err)))
        return code;
    to->self = from->self;
    to->cold->wanted_kinds = kinds ? kinds : HS_HOOK_TRAIN;
    to->cold->best_effort = from->flags & HS_HOOK_BEST_EFFORT;
    to->cold->state_varies = from->flags & HS_HOOK_STATE_VARIES;
    to->cold->begins_on_chief = from->flags & HS__HOOK_BEGINS_ON_CHIEF;
    to->cold->max_failures = from->max_failures;
    to->before_run = to->cold->ops.before_run;
    to->after_run = to->cold->ops.after_run;
    to->cold->fetches = (hs_run_args)HS_INIT(hs_run_args, .names = to->cold->ops.fetches);
    to->fetches = to->cold->ops.fetches ? &to->cold->fetches : NULL;
    hs__set_kinds(to, to->cold->wanted_kinds);
    return HS_OK;
}

/* The other ranks would wait for such a hook, or it for them. */
static hs_code check_all_ranks(const hs_hook *hook, bool in_group, hs_error *err)
{
    const char *reason = hook->flags & HS_HOOK_LATE          ? "be late (hs_hook_late)"
                         : !in_group                         ? NULL
                         : hook->flags & HS_HOOK_CHIEF_ONLY  ? "be called on rank 0 alone; list it in hooks"
                         : hook->flags & HS_HOOK_BEST_EFFORT ? "be a best-effort hook in a group"
                                                             : NULL;
    if (!(hook->flags & HS_HOOK_ALL_RANKS) || !reason)
        return HS_OK;
    return hs_error_set(err, HS_INVALID_ARGUMENT, "hook '%s' acts together on all ranks, so that it cannot %s",
                        hook->ops->name, reason);
}

static hs_code copy_hooks(hs_session *session, const hs_session_options *options, hs_error *err)
{
    const size_t n = hs__hooks_count(options->hooks);
    size_t n_called = 0;
    size_t n_on_ranks = 0;
    session->hooks = hs__alloc(&session->env, n, sizeof *session->hooks);
    session->cold = hs__alloc(&session->env, n, sizeof *session->cold);
    session->schedule.due = hs__alloc(&session->env, n, sizeof *session->schedule.due);
    if (!session->hooks || !session->cold || !session->schedule.due)
        return hs__no_memory(err, n * sizeof *session->cold, "the hooks");
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < n; i++) {
        bool chief_only = options->hooks[i].flags & HS_HOOK_CHIEF_ONLY;
        if ((code = check_all_ranks(&options->hooks[i], hs__is_in_group(session), err)))
            break;
        if (chief_only && session->raw.rank)
            continue;
        hs__hook *hook = &session->hooks[n_called];
        hook->cold = &session->cold[n_called++];
        hook->cold->session = session;
        hook->cold->number_on_ranks = chief_only ? 0 : ++n_on_ranks;
        code = copy_hook(hook, options->hooks, i, err);
        if (hook->after_run && options->hooks[i].flags & HS_HOOK_LATE && !hs__is_in_group(session))
            hook->after_run = hs__late_after_run;
        hook->cold->number = 1; /* on all ranks the same, as it counts the program's list */
        for (size_t k = 0; !code && k < i; k++)
            hook->cold->number +=
                options->hooks[k].ops->name && strcmp(options->hooks[k].ops->name, hook->cold->ops.name) == 0;
        if (!code)
            code = hs__schedule_add(session, n_called - 1, &options->hooks[i], err);
    }
    if (!code)
        session->n_hooks = n_called;
    return code;
}

static hs_code begin_hooks(hs_session *session, hs_error *err)
{
    for (size_t i = 0; i < session->n_hooks; i++) {
        hs__hook *hook = &session->hooks[i];
        hook->cold->begun = true;
        hs__set_current_hook(session, hook);
        const bool begins = hook->cold->ops.begin && (!session->raw.rank || !hook->cold->begins_on_chief);
        if (hook->cold->begins_on_chief) /* the checkpoint saver */
            atomic_store(&session->signals.saves, true);
        hs_code code = begins ? hook->cold->ops.begin(hook->self, session->raw.backend, err) : HS_OK;
        if (code) {
            if (code == HS_STOP && !err->message[0])
                hs_error_set(err, code, "it returned HS_STOP; to make no step, return it from after_create_session");
            hook->cold->max_failures = 1; /* begin is not retried */
            if ((code = hs__hook_failed(session, hook, "begin", code, err)))
                return code;
        }
        hs__clear(err); /* begin succeeded, or the hook is disabled: later hooks must not see its error */
    }
    return HS_OK;
}

/* Finalizes the scaffold and its graph. If the graph was not finalized before, hs_session_close makes it modifiable
 * again. */
static hs_code finalize_scaffold(hs_session *session, hs_error *err)
{
    hs_error error = {0};
    if (!session->scaffold) {
        session->scaffold = hs_scaffold_new(HS_SCAFFOLD_OPTIONS(.env = &session->env), &error);
        session->owns_scaffold = true;
    }
    if (!session->scaffold)
        return hs__error_copy(err, &error);
    if (hs_scaffold_fields(session->scaffold)->no_saver &&
        (session->creation.checkpoint_dir || session->creation.checkpoint_prefix))
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "%s is set, but the scaffold has no_saver; set at most one of the two",
                            session->creation.checkpoint_dir ? "checkpoint_dir" : "checkpoint_prefix");
    bool finalized = hs_backend_finalized(session->raw.backend);
    hs_code code = hs_scaffold_finalize(session->scaffold, session->raw.backend, err);
    session->finalized_graph = !code && !finalized && session->raw.ops.finalize;
    return code;
}

/* "" becomes NULL. */
static hs_code copy_path(hs_session *session, char **to, const char *path, hs_error *err)
{
    if (!path || !*path)
        return HS_OK;
    *to = hs__strdup(&session->env, path);
    return *to ? HS_OK : hs__no_memory(err, strlen(path), "a path");
}

/* Sets *secs to the option `given` with the name `what`. 0: `default_secs`. HS_NEVER: INFINITY. */
static hs_code copy_secs(double *secs, double given, double default_secs, const char *what, hs_error *err)
{
    if (given != given || (given < 0 && given != HS_NEVER))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%s is %g; it must be at least 0, or HS_NEVER for no limit", what,
                            given);
    *secs = given == 0 ? default_secs : given == HS_NEVER ? (double)INFINITY : given;
    return HS_OK;
}

static hs_code copy_options(hs_session *session, const hs_session_options *options, hs_error *err)
{
    if (options->checkpoint_dir && *options->checkpoint_dir && options->checkpoint_prefix && *options->checkpoint_prefix)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "both checkpoint_dir '%s' and checkpoint_prefix '%s' are given; give at most one of the two",
                            options->checkpoint_dir, options->checkpoint_prefix);
    if (options->restore < HS_RESTORE_IF_PRESENT || options->restore > HS_RESTORE_NEVER)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_session_options.restore is %d, not an hs_restore_policy",
                            (int)options->restore);
    if (options->config.size && !options->config.data)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_session_options.config.data is NULL, but its size is not 0");
    session->target = hs__strdup(&session->env, options->target ? options->target : "");
    char *config = hs__strndup(&session->env, options->config.size ? options->config.data : "", options->config.size);
    session->config = (hs_bytes){config, options->config.size};
    if (!session->target || !config)
        return hs__no_memory(err, options->config.size, "the session's options");
    hs__creation *creation = &session->creation;
    creation->restore = options->restore;
    creation->restore_options = (hs_restore_options)HS_INIT(hs_restore_options);
    creation->is_worker = options->is_worker;
    creation->no_queue_runners = options->no_queue_runners;
    hs_code code;
    if ((code = copy_secs(&creation->stop_grace_secs, options->stop_grace_secs, 0, "hs_session_options.stop_grace_secs",
                          err)) ||
        (code = copy_path(session, &creation->checkpoint_dir, options->checkpoint_dir, err)) ||
        (code = copy_path(session, &creation->checkpoint_prefix, options->checkpoint_prefix, err)) ||
        (code = copy_path(session, &creation->summary_dir, options->summary_dir, err)) ||
        (code =
             copy_secs(&creation->max_wait_secs, options->max_wait_secs, 1800, "hs_session_options.max_wait_secs", err)) ||
        (code = copy_secs(&creation->recovery_wait_secs, options->recovery_wait_secs, 30,
                          "hs_session_options.recovery_wait_secs", err)) ||
        (options->restore_options &&
         (code = hs__copy_restore_options(&creation->restore_options, &session->env, options->restore_options, err))))
        return code;
    return hs__recovery_copy_options(session, options->recovery, err);
}

/* Returns a session with nothing opened, which owns the hooks of the options, and with take_scaffold their scaffold. NULL:
 * the caller still owns them. */
static hs_session *new_session(hs_backend backend, const hs_session_options *options, hs_error *err)
{
    const size_t n_hooks = hs__hooks_count(options->hooks);
    hs_backend_ops ops;
    hs_env env;
    if (hs__backend_take(&ops, backend, err) || hs__env_copy(&env, hs_backend_env(backend), err))
        return NULL;
    hs_session *session = hs__alloc(&env, 1, sizeof *session);
    hs_coordinator *coordinator = NULL;
    if (session) {
        session->env = env;
        coordinator = hs__coordinator_new(&session->env);
        session->given_hooks = hs__alloc(&env, n_hooks + 1, sizeof *session->given_hooks);
    }
    if (!session || !coordinator || !session->given_hooks) {
        hs_coordinator_free(coordinator);
        if (session)
            hs__free(&env, session->given_hooks);
        hs__free(&env, session);
        hs__no_memory(err, sizeof *session, "a session");
        return NULL;
    }
    atomic_init(&session->coordinator, coordinator);
    hs__raw_session_init(&session->raw, &env, backend, &ops, &hs__session_owner_ops, session);
    session->generation = hs__fork_generation();
    session->timing.opened_ns = hs_env_monotonic_ns(&session->env);
    session->timing.next_timed = 1;
    session->recovery = (hs__recovery){.options.max_attempts = HS_NEVER, .furthest = -1};
    session->writers = (hs__writer_cache){.env = &session->env, .report = hs__report_writer_failures, .user = session};
    if (hs__agreement_init(session, options, err)) {
        hs__session_free(session);
        return NULL;
    }
    for (size_t i = 0; i < n_hooks; i++)
        session->given_hooks[i] = options->hooks[i];
    session->scaffold = options->scaffold;
    session->owns_scaffold = options->take_scaffold && options->scaffold;
    return session;
}

/* Without a session: frees what it would own. The other ranks of a group wait for its opening, and learn why it fails. */
static void refuse_open(const hs_session_options *options, hs_error *error)
{
    if (options->group)
        hs__rank_refuse(options->group, error);
    hs_hooks_free(options->hooks);
    if (options->take_scaffold)
        hs_scaffold_free(options->scaffold);
}

static hs_session *report_open_failure(hs_backend backend, const hs_error *error, hs_error *err)
{
    hs__report_error(hs_backend_env(backend), "session not opened", error, err);
    return NULL;
}

/* Runs when an exception of a callback passes through hs_session_open. */
static void close_after_exception(hs_session **opening)
{
    hs_error error;
    if (!*opening)
        return;
    hs_error_set(&error, HS_INTERNAL, "a callback threw an exception while the session was opened");
    hs__close_all(*opening, HS_OK, &error);
}

/* Everything before the backend's session is created. */
static hs_code begin(hs_session *session, const hs_session_options *options, hs_error *err)
{
    const hs_raw_session *raw = &session->raw;
    hs_code code = copy_hooks(session, options, err);
    hs__plans_init(session);
    if (!code)
        code = copy_options(session, options, err);
    if (!code && raw->ops.status)
        code = hs__normalize_error(raw->ops.status(raw->backend.self, err), "the backend", err);
    if (!code && !(code = hs__signals_begin(session, options, err)) && !(code = begin_hooks(session, err)) &&
        !(code = finalize_scaffold(session, err)) && !(code = hs__schedule_begin(session, err)))
        code = hs__requests_init(&session->requests, &session->env, &raw->ops, raw->backend.self,
                                 HS__FIRST_HOOK + 2 * session->n_hooks, err);
    if (!hs__is_in_group(session))
        return code;
    hs__allow_abandon(session); /* its hooks have begun */
    code = hs__agree_on_part(session, 0, code, err);
    return code ? code : hs__compare_ranks(session, err);
}

hs_session *hs_session_open(hs_backend backend, const hs_session_options *given, hs_error *err)
{
    hs_session_options options = HS_INIT(hs_session_options);
    hs_error error = {0};
    hs_session *session = NULL;
    if (!given || !HS_STRUCT_TAKE(hs_session_options, hooks, &options, given, &error))
        session = new_session(backend, &options, &error);
    if (!session) {
        refuse_open(&options, &error);
        return report_open_failure(backend, &error, err);
    }
    __attribute__((cleanup(close_after_exception))) hs_session *opening = session;
    HS__CALL(call, session);
    hs_code code = begin(session, &options, &error);
    if (!code)
        code = hs__create_with_retries(session, &error);
    hs__call_end(&call);
    opening = NULL;
    if (code) {
        hs__close_all(session, HS_OK, &error);
        return report_open_failure(backend, &error, err);
    }
    hs__session_opened(session);
    hs__enter(session, HS_PHASE_DATA);
    hs__clear(err);
    return session;
}
