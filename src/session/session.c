/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing a session, and the calls between. */
#include "session/session.h"

#include "session/manager.h"
#include "threads/coordinator.h"

#include <stdio.h>
#include <string.h>

/* Hooks that no session took. */

hs_hook hs_hook_hold(hs_hook hook)
{
    hook.flags |= HS_HOOK_HELD;
    return hook;
}

static void destroy(const hs_hook_ops *ops, void *self)
{
    if (ops && ops->size >= offsetof(hs_hook_ops, destroy) + sizeof ops->destroy && ops->destroy)
        ops->destroy(self);
}

void hs_hook_destroy(hs_hook hook)
{
    destroy(hook.ops, hook.self);
}

void hs_hooks_destroy(const hs_hook *hooks, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool skip = (hooks[i].flags & HS_HOOK_HELD) != 0;
        for (size_t k = 0; !skip && hooks[i].self && k < n; k++)
            skip = hooks[k].self == hooks[i].self && (k < i || (hooks[k].flags & HS_HOOK_HELD));
        if (!skip)
            hs_hook_destroy(hooks[i]);
    }
}

/* Opening. */

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

/* The key of a hook's state: its name, and a number from the second hook of that name on. */
static char *hook_key(const hs_session *session, size_t index)
{
    size_t before = 0;
    for (size_t i = 0; i < index; i++)
        before +=
            session->hooks[i].ops.save_state && strcmp(session->hooks[i].ops.name, session->hooks[index].ops.name) == 0;
    const char *name = session->hooks[index].ops.name;
    return before ? hs__format(&session->env, HS__STATE_PREFIX "hook/%s_%zu", name, before)
                  : hs__format(&session->env, HS__STATE_PREFIX "hook/%s", name);
}

/* What belongs into a checkpoint besides the variables: the backend's state, and the hooks'. */
static hs_code gather_states(hs_session *session, hs_error *err)
{
    hs_raw_session *raw = &session->raw;
    const hs_state_provider *provider;
    size_t n = 0, capacity = 0;
    while (raw->ops.state && raw->ops.state(raw->backend.self, n))
        n++;
    hs_code code = hs__reserve(&session->env, &raw->states, &capacity, n + session->n_hooks, sizeof *raw->states, err);
    for (size_t i = 0; !code && i < n; i++) {
        provider = raw->ops.state(raw->backend.self, i);
        raw->states[raw->n_states++] =
            (hs__state_slot){hs__format(&session->env, HS__STATE_PREFIX "state/%s", provider->name), provider->save,
                             provider->load, provider->self};
    }
    for (size_t i = 0; !code && i < session->n_hooks; i++)
        if (session->hooks[i].ops.save_state)
            raw->states[raw->n_states++] = (hs__state_slot){hook_key(session, i), session->hooks[i].ops.save_state,
                                                            session->hooks[i].ops.load_state, session->hooks[i].self};
    for (size_t i = 0; !code && i < raw->n_states; i++)
        if (!raw->states[i].key)
            code = hs__no_memory(err, 1, "a name");
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
    }
    return HS_OK;
}

static hs_code finalize(hs_session *session, hs_error *err)
{
    hs_error error = {0};
    if (!session->scaffold) {
        session->scaffold = hs_scaffold_new(NULL, &error);
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
    if (code)
        return code;
    if ((code = hs__fragments_init(&session->fragments, &session->env, &raw->ops, raw->backend.self,
                                   HS__FIRST_HOOK + session->n_hooks, err)) ||
        (code = gather_states(session, err)))
        return code;
    return hs__prepare_session(raw, session->scaffold, options->checkpoint_dir, options->checkpoint_path, err);
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

/* Closing, from whatever state the session is in. */

static void call_ends(hs_session *session, hs_error *first)
{
    for (size_t i = 0; i < session->n_hooks; i++) {
        hs__hook *hook = &session->hooks[i];
        hs_error error = {0};
        hs_code code = hook->ops.end ? hook->ops.end(hook->self, &session->raw, &error) : HS_OK;
        if (!code)
            continue;
        hs__hook_failed(session, hook, "end", code, &error);
        if (first->code)
            hs_log(&session->env, HS_LOG_ERROR, "%s", error.message);
        else
            *first = error;
    }
    hs_error error = {0};
    if (hs__call_boundaries(session, HS_BOUNDARY_END, &error)) {
        if (first->code)
            hs_log(&session->env, HS_LOG_ERROR, "%s", error.message);
        else
            *first = error;
    }
}

static void call_closes(hs_session *session, const hs_outcome *outcome)
{
    for (size_t i = session->n_hooks; i-- > 0;)
        if (session->hooks[i].begun && session->hooks[i].ops.close)
            session->hooks[i].ops.close(session->hooks[i].self, outcome);
}

static bool is_clean(hs_code code)
{
    return code == HS_OK || code == HS_OUT_OF_RANGE || code == HS_STOP;
}

static bool stop_requested(const hs_session *session)
{
    return session->stop || session->step_stop || hs_coordinator_should_stop(session->coordinator) ||
           atomic_load_explicit(&((hs_session *)session)->stop_request, memory_order_relaxed);
}

static int32_t reason_of(const hs_session *session, hs_code last, const hs_error *error)
{
    if (error->code)
        return HS_REASON_FAILED;
    if (last == HS_OUT_OF_RANGE)
        return HS_REASON_END_OF_INPUT;
    if (session->already_done)
        return HS_REASON_ALREADY_DONE;
    return stop_requested(session) || last == HS_STOP ? HS_REASON_STOPPED : HS_REASON_CLOSED;
}

static hs_outcome make_outcome(hs_session *session, hs_code last, const hs_error *error)
{
    hs_outcome outcome = {.reason = reason_of(session, last, error),
                          .step = hs_session_step(session),
                          .last_saved_step = session->raw.saved_step};
    const char *hook = outcome.reason == HS_REASON_FAILED ? session->failed_hook : session->stop_hook;
    memcpy(outcome.hook, hook, strlen(hook) + 1);
    outcome.error = *error;
    return outcome;
}

static void free_frames(hs_session *session)
{
    for (size_t i = 0; i < session->n_frames; i++) {
        hs__frame_free(session->frames[i]);
        hs__free(&session->env, session->frames[i]);
    }
    hs__free(&session->env, session->frames);
}

static void free_session(hs_session *session)
{
    hs_env env = session->env;
    hs_raw_session *raw = &session->raw;
    if (session->owns_scaffold)
        hs_scaffold_free(session->scaffold);
    for (size_t i = 0; i < raw->n_states; i++)
        hs__free(&env, raw->states[i].key);
    hs__free(&env, raw->states);
    hs__free(&env, raw->restored_from);
    hs__fragments_free(&session->fragments);
    free_frames(session);
    hs__coordinator_free(session->coordinator);
    hs__free(&env, session->hooks);
    hs__free(&env, session->given_hooks);
    hs__free(&env, session->target);
    hs__free(&env, (void *)session->config.data);
    hs__free(&env, session);
}

/* Everything after the ends. `error` is the first there was, or becomes it. */
static hs_outcome shut(hs_session *session, hs_code last, hs_error *error)
{
    hs_error late = {0};
    if (hs__writer_cache_flush(&session->writers, &late) && !error->code)
        *error = late;
    hs_outcome outcome = make_outcome(session, last, error);
    hs_coordinator_request_stop(session->coordinator, NULL);
    call_closes(session, &outcome);
    if (hs__writer_cache_close(&session->writers, &late) && !error->code)
        *error = late;
    if (session->raw.handle && session->raw.ops.close(session->raw.handle, &late) && !error->code)
        *error = late;
    session->raw.handle = NULL;
    if (session->finalized_graph)
        session->raw.ops.finalize(session->raw.backend.self, false, NULL);
    hs_hooks_destroy(session->given_hooks, session->n_hooks);
    free_session(session);
    if (error->code && !outcome.error.code) {
        outcome.reason = HS_REASON_FAILED;
        outcome.error = *error;
        outcome.hook[0] = '\0'; /* it may have stopped the session, but did not fail */
    }
    return outcome;
}

hs_session *hs_session_open(hs_backend backend, const hs_session_options *given, hs_error *err)
{
    hs_session_options options = {HS_SESSION_OPTIONS};
    hs_backend_ops ops;
    hs_error error = {0};
    if (given && hs_struct_take(&options, sizeof options, given, "hs_session_options", "HS_SESSION_OPTIONS", &error)) {
        hs__error_copy(err, &error);
        return NULL;
    }
    hs_session *session = NULL;
    if (!hs__backend_take(&ops, backend, &error))
        session = new_session(backend, &ops, &error);
    if (!session || take_hooks(session, &options, &error)) {
        hs_hooks_destroy(options.hooks, options.hooks ? options.n_hooks : 0);
        if (options.take_scaffold)
            hs_scaffold_free(options.scaffold);
        if (session)
            free_session(session);
        hs__error_copy(err, &error);
        return NULL;
    }
    session->scaffold = options.scaffold;
    session->owns_scaffold = options.take_scaffold && options.scaffold;
    if (take_options(session, &options, &error) || (ops.status && ops.status(backend.self, &error)) ||
        begin_hooks(session, &error) || finalize(session, &error) || open_backend(session, &options, &error) ||
        created(session, &error)) {
        shut(session, HS_OK, &error);
        hs__error_copy(err, &error);
        return NULL;
    }
    hs__clear(err);
    return session;
}

hs_outcome hs_session_close(hs_session *session, hs_error *err)
{
    if (!session) {
        hs_outcome none = {.reason = HS_REASON_FAILED, .step = -1, .last_saved_step = -1};
        if (!err || !err->code)
            hs_error_set(&none.error, HS_FAILED_PRECONDITION,
                         "there is no session: it was not opened, or is closed already");
        else
            none.error = *err;
        hs__error_copy(err, &none.error);
        return none;
    }
    if (session->level || session->in_backend || session->in_step || session->closing) {
        hs_outcome refused = {.reason = HS_REASON_FAILED, .step = -1, .last_saved_step = -1};
        hs_error_set(&refused.error, HS_FAILED_PRECONDITION, "a session cannot be closed from its own callbacks");
        hs__error_copy(err, &refused.error);
        return refused;
    }
    session->closing = true;
    hs_code last = session->fail.code ? session->fail.code : session->last.code;
    hs_error error = {0}, threads = {0};
    hs_coordinator_error(session->coordinator, &threads);
    if (!is_clean(last)) {
        error = session->threads_failed_first ? threads : session->fail.code ? session->fail : session->last;
        if (session->threads_failed_first || session->fail.code)
            session->failed_hook[0] = '\0'; /* it is no hook's error */
    } else {
        session->failed_hook[0] = '\0'; /* a good run has made up for it */
        call_ends(session, &error);
    }
    if (!error.code)
        hs_coordinator_error(session->coordinator, &error);
    hs_outcome outcome = shut(session, last, &error);
    hs__error_copy(err, &outcome.error);
    return outcome;
}

/* Running. */

bool hs_session_should_stop(const hs_session *session)
{
    return !session || session->last.code == HS_OUT_OF_RANGE || stop_requested(session);
}

/* A call that is refused is no run: it changes nothing in how the session ends. */
static hs_code check_runnable(const hs_session *session, hs_error *err)
{
    if (!session)
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "there is no session to run: it was not opened, or is closed already");
    if (session->level || session->in_backend || session->closing)
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "a session cannot be run from its own callbacks; run its raw session");
    if (session->stop)
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "the session was asked to stop%s%s: it runs no more (hs_session_should_stop)",
                            session->stop_hook[0] ? " by hook " : "", session->stop_hook);
    return HS_OK;
}

/* Keeps what the run came to. The success is the fast path. */
static hs_code ended(hs_session *session, hs_code code, const hs_error *error, hs_error *err)
{
    if (!session->in_step && atomic_load_explicit(&session->stop_request, memory_order_relaxed))
        session->stop = true; /* from now on the caller can have seen it */
    if (!code) {
        session->last.code = HS_OK;
        hs__clear(err);
        return HS_OK;
    }
    session->last = *error;
    session->last.code = code;
    session->threads_failed_first = !is_clean(code) && hs_coordinator_error(session->coordinator, NULL) != HS_OK;
    return hs__error_copy(err, &session->last);
}

hs_code hs_session_run_args(hs_session *session, const hs_run_args *given, const hs_run_values **values, hs_error *err)
{
    static const hs_run_args nothing = {HS_RUN_ARGS};
    hs_run_args copy;
    const hs_run_args *args;
    hs_code code = check_runnable(session, err);
    if (code)
        return code;
    hs_error *error = &session->last;
    hs__clear(error);
    session->failed_hook[0] = '\0';
    if (!(code = hs__take_args(&copy, given ? given : &nothing, &args, error))) {
        if (args->kind < HS_RUN_TRAIN || args->kind > HS_RUN_AUX)
            code = hs_error_set(error, HS_INVALID_ARGUMENT, "hs_run_args.kind is %lld", (long long)args->kind);
        else
            code = hs__run_hooked(session, args, values, error);
    }
    return ended(session, code, error, err);
}

hs_code hs_session_run(hs_session *session, const char *op, hs_error *err)
{
    if (session && !op)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_session_run: the op is NULL");
    return hs_session_run_args(session, &(hs_run_args){HS_RUN_ARGS, .names = HS_NAMES(op)}, NULL, err);
}

struct hs_step_context {
    hs_session *session;
    bool stop;
};

hs_raw_session *hs_step_context_session(const hs_step_context *step)
{
    return &step->session->raw;
}

hs_code hs_step_context_run_with_hooks(hs_step_context *step, const hs_run_args *args, const hs_run_values **values,
                                       hs_error *err)
{
    if (step->session->stop) /* a hook of an earlier run of this step asked for it: that is no mistake of the step's */
        return hs_error_set(err, HS_STOP, "the session was asked to stop by hook '%s'", step->session->stop_hook);
    return hs_session_run_args(step->session, args, values, err);
}

hs_code hs_step_context_request_stop(hs_step_context *step)
{
    step->stop = true;
    return HS_STOP;
}

hs_code hs_session_run_step(hs_session *session, hs_step_fn step, void *user, hs_error *err)
{
    hs_code code = check_runnable(session, err);
    if (code)
        return code;
    if (!step)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_session_run_step: the step function is NULL");
    hs_step_context context = {.session = session};
    hs_error error = {0};
    bool outer = session->in_step;
    session->in_step = true;
    code = step(user, &context, &error);
    session->in_step = outer;
    if (context.stop && !code)
        code = HS_STOP;
    if (code == HS_STOP) {
        session->step_stop = true;
        hs_error_set(&error, code, "the step function asked to stop");
    } else if (code && !error.message[0]) {
        hs_error_set(&error, code, "the step function failed with %s", hs_code_name(code));
    }
    return ended(session, code, &error, err);
}

void hs_session_request_stop(hs_session *session)
{
    if (session)
        atomic_store_explicit(&session->stop_request, true, memory_order_relaxed);
}

void hs_session_fail(hs_session *session, hs_code code, const char *why)
{
    if (!session)
        return;
    hs_error_set(&session->fail, code, "%s", why ? why : code ? "the caller gave up" : "");
    if (is_clean(session->last.code)) /* of a run that failed it is known already */
        session->threads_failed_first = !is_clean(code) && hs_coordinator_error(session->coordinator, NULL) != HS_OK;
}

/* Accessors. */

hs_raw_session *hs_session_raw(const hs_session *session)
{
    return session ? &((hs_session *)session)->raw : NULL;
}

hs_backend hs_session_backend(const hs_session *session)
{
    return session ? session->raw.backend : (hs_backend){NULL, NULL};
}

hs_coordinator *hs_session_coordinator(const hs_session *session)
{
    return session ? session->coordinator : NULL;
}

hs_scaffold *hs_session_scaffold(const hs_session *session)
{
    return session ? session->scaffold : NULL;
}

hs_bytes hs_session_config(const hs_session *session)
{
    return session ? session->config : (hs_bytes){NULL, 0};
}

int64_t hs_session_step(hs_session *session)
{
    int64_t step;
    return session && hs_raw_session_step(&session->raw, &step, NULL) == HS_OK ? step : -1;
}
