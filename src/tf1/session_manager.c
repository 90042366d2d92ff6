/* SPDX-License-Identifier: Apache-2.0 */
/* Session managers. Each of the three functions at the end opens sessions without hooks, which restore or initialize the
 * variables (open_session), runs the local init op and the ready checks in them (finish), and may wait and try again. */
#include <hooksess/tf1/session_manager.h>

#include <math.h>
#include <stdio.h>

struct hs_session_manager {
    hs_env env;
    hs_scaffold *ops; /* ready_op, ready_for_local_init_op, local_init_op and its feeds */
    const hs_run_options *local_init_run_options;
    double recovery_wait_secs;
};

/* Sets *secs to the option `given` with the name `what`. 0: `default_secs`. HS_NEVER: INFINITY. False: it is invalid. */
static bool copy_secs(double *secs, double given, double default_secs, const char *what, hs_error *err)
{
    const bool valid = given >= 0 || given == HS_NEVER;
    *secs = given == 0 ? default_secs : given == HS_NEVER ? (double)INFINITY : given;
    if (!valid)
        hs_error_set(err, HS_INVALID_ARGUMENT, "%s is %g; it must be at least 0, or HS_NEVER for no limit", what, given);
    return valid;
}

hs_session_manager *hs_session_manager_new(const hs_session_manager_options *given, hs_error *err)
{
    hs_session_manager_options options = HS_INIT(hs_session_manager_options);
    hs_env env = HS_INIT(hs_env);
    double recovery_wait_secs;
    if ((given && HS_STRUCT_TAKE(hs_session_manager_options, env, &options, given, err)) ||
        (options.env && HS_STRUCT_TAKE(hs_env, files, &env, options.env, err)) ||
        !copy_secs(&recovery_wait_secs, options.recovery_wait_secs, 30, "hs_session_manager_options.recovery_wait_secs",
                   err))
        return NULL;
    if (options.ready_for_local_init_op && !options.local_init_op) {
        hs_error_set(err, HS_INVALID_ARGUMENT, "ready_for_local_init_op '%s' has no effect without local_init_op",
                     options.ready_for_local_init_op);
        return NULL;
    }
    hs_scaffold *ops = hs_scaffold_new(
        HS_SCAFFOLD_OPTIONS(.ready_op = options.ready_op, .ready_for_local_init_op = options.ready_for_local_init_op,
                            .local_init_op = options.local_init_op, .local_init_feeds = options.local_init_feeds,
                            .env = options.env),
        err);
    hs_session_manager *manager = ops ? hs_env_alloc(&env, sizeof *manager) : NULL;
    if (manager)
        *manager = (hs_session_manager){env, ops, options.local_init_run_options, recovery_wait_secs};
    else if (ops)
        hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no memory for a session manager");
    if (!manager)
        hs_scaffold_free(ops);
    return manager;
}

void hs_session_manager_free(hs_session_manager *manager)
{
    if (!manager)
        return;
    hs_env env = manager->env;
    hs_scaffold_free(manager->ops);
    hs_env_free(&env, manager);
}

/* Opening. */

typedef struct {
    const hs_session_manager *manager;
    hs_backend backend;
    hs_session_manager_prepare_options options; /* complete */
    double max_wait_secs, waited;               /* INFINITY: no limit */
    bool must_initialize;   /* refuse a session if no checkpoint is restored, and nothing initializes the variables */
    bool awaits_checkpoint; /* refuse a session if no checkpoint is restored */
    bool refused;
} opening;

/* hs_init_fn of all sessions: called if no checkpoint was restored. */
static hs_code initialize(void *user, const hs_scaffold *scaffold, hs_raw_session *raw, hs_error *err)
{
    opening *o = user;
    const hs_session_manager_prepare_options *options = &o->options;
    (void)scaffold;
    o->refused = o->awaits_checkpoint || (o->must_initialize && !options->init_op && !options->init_fn &&
                                          !hs_scaffold_fields(o->manager->ops)->local_init_op);
    if (o->refused)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "no checkpoint was restored");
    return options->init_fn ? options->init_fn(options->user, NULL, raw, err) : HS_OK;
}

/* Opens a session that runs neither the local init op nor the checks. `refused` says why it failed. */
static hs_session *open_session(opening *o, hs_error *err)
{
    const hs_session_manager_prepare_options *options = &o->options;
    o->refused = false;
    hs_scaffold *scaffold = hs_scaffold_new(
        HS_SCAFFOLD_OPTIONS(.init_op = options->init_op && !o->awaits_checkpoint ? options->init_op : HS_NONE,
                            .init_feeds = options->init_feeds, .init_fn = initialize, .user = o, .ready_op = HS_NONE,
                            .ready_for_local_init_op = HS_NONE, .local_init_op = HS_NONE, .summary_op = HS_NONE,
                            .saver = options->saver, .no_saver = !options->saver, .env = &o->manager->env),
        err);
    if (!scaffold)
        return NULL;
    const bool restores = options->saver != NULL;
    return hs_session_open(o->backend,
                           HS_SESSION_OPTIONS(.target = options->target, .config = options->config,
                                              .checkpoint_dir = restores ? options->checkpoint_dir : NULL,
                                              .checkpoint_prefix = restores ? options->checkpoint_prefix : NULL,
                                              .restore_options = options->restore_options, .scaffold = scaffold,
                                              .take_scaffold = true, .no_queue_runners = true),
                           err);
}

/* Closes a session that failed with an earlier error. */
static void discard(hs_session *session)
{
    hs_error ignored;
    if (session)
        hs_session_close(session, &ignored);
}

/* Waits until the next attempt. Returns false if the time is over. */
static bool pause_between(opening *o)
{
    double left = o->max_wait_secs - o->waited, secs = fmin(left, o->manager->recovery_wait_secs);
    if (!(secs > 0))
        return false;
    hs_env_sleep_ns(hs_backend_env(o->backend), secs < 1e9 ? (int64_t)(secs * 1e9 + 0.5) : INT64_MAX);
    o->waited += secs;
    return true;
}

static bool is_set(const char *path)
{
    return path && *path;
}

/* Opens a session and, with wait_for_checkpoint, tries again until a checkpoint is restored or the time is over. */
static hs_session *open_with_checkpoint(opening *o, hs_error *err)
{
    hs_session *session;
    o->awaits_checkpoint = o->options.wait_for_checkpoint && o->options.saver && is_set(o->options.checkpoint_dir);
    while (!(session = open_session(o, err)) && o->refused && o->awaits_checkpoint)
        o->awaits_checkpoint = pause_between(o); /* false: the last attempt needs no checkpoint */
    return session;
}

/* Ready checks. */

/* Writes "a, b, c". A list that is too long ends in ", ..." */
static void list_names(char *text, size_t size, const hs_string *names, size_t n)
{
    size_t used = 0, i;
    text[0] = '\0';
    for (i = 0; i < n && used + names[i].bytes + sizeof ", , ..." <= size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%.*s", i ? ", " : "", (int)names[i].bytes, names[i].data);
    if (i < n)
        snprintf(text + used, size - used, "%s...", i ? ", " : "");
}

/* Runs a check op, whose value is the names of variables that are not initialized. *ready is false if it has names, or
 * fails with HS_FAILED_PRECONDITION, as an op does that reads such a variable. Then `err` has the reason, and the result is
 * HS_OK. */
static hs_code run_check(hs_raw_session *raw, const char *op, const char *what, bool *ready, hs_error *err)
{
    const hs_run_values *values;
    *ready = true;
    if (!op)
        return HS_OK;
    hs_code code = hs_raw_session_run(raw, HS_RUN_ARGS(.names = HS_NAMES(op)), &values, err);
    if (code) {
        hs_error_prefix(err, "cannot run '%s'", op);
        *ready = false;
        return code == HS_FAILED_PRECONDITION ? HS_OK : code;
    }
    const hs_tensor *names = hs_run_values_tensor(values, 0);
    if (!names || names->dtype != HS_STRING || names->memory || !names->bytes)
        return HS_OK;
    char text[HS_MESSAGE_SIZE / 2];
    size_t n = names->bytes / sizeof(hs_string);
    list_names(text, sizeof text, names->data, n);
    *ready = false;
    hs_error_set(err, HS_FAILED_PRECONDITION, "the model is not %s; %zu variables are not initialized: %s", what, n, text);
    return HS_OK;
}

/* Runs the local init op between its check and, with `checks_ready`, the check of all variables. Results as in run_check.
 */
static hs_code finish(const opening *o, hs_session *session, bool checks_ready, bool *ready, hs_error *err)
{
    hs_raw_session *raw = hs_session_raw(session);
    const hs_scaffold_options *ops = hs_scaffold_fields(o->manager->ops);
    hs_code code = HS_OK;
    *ready = true;
    if (ops->local_init_op) {
        code = run_check(raw, ops->ready_for_local_init_op, "ready for local_init_op", ready, err);
        if (code || !*ready)
            return code;
        code = hs_raw_session_run(raw,
                                  HS_RUN_ARGS(.names = HS_NAMES(ops->local_init_op), .feeds = ops->local_init_feeds,
                                              .options = o->manager->local_init_run_options),
                                  NULL, err);
        if (code)
            hs_error_prefix(err, "cannot run '%s'", ops->local_init_op);
    }
    return code || !checks_ready ? code : run_check(raw, ops->ready_op, "ready", ready, err);
}

/* The public functions. */

/* The session gets the paths only with a saver, and its messages name hs_session_options. */
static hs_code check_options(const hs_session_manager_prepare_options *options, hs_error *err)
{
    if (is_set(options->checkpoint_dir) && is_set(options->checkpoint_prefix))
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_session_manager_prepare_options: both checkpoint_dir '%s' and checkpoint_prefix '%s' are "
                            "given; give at most one of the two",
                            options->checkpoint_dir, options->checkpoint_prefix);
    if (options->config.size && !options->config.data)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_session_manager_prepare_options.config.data is NULL, but its size is not 0");
    return HS_OK;
}

static bool begin(opening *o, const hs_session_manager *manager, hs_backend backend,
                  const hs_session_manager_prepare_options *given, double default_wait_secs, hs_error *err)
{
    *o = (opening){.manager = manager, .backend = backend, .options = *HS_PREPARE_OPTIONS(0)};
    if (!manager)
        return !hs_error_set(err, HS_INVALID_ARGUMENT, "manager is NULL");
    return !(given && HS_STRUCT_TAKE(hs_session_manager_prepare_options, reserved, &o->options, given, err)) &&
           !check_options(&o->options, err) &&
           copy_secs(&o->max_wait_secs, o->options.max_wait_secs, default_wait_secs,
                     "hs_session_manager_prepare_options.max_wait_secs", err);
}

/* Returns the session, or NULL with the error. */
static hs_session *end(hs_session *session, const hs_error *error, hs_error *err)
{
    if (err && session)
        hs_error_clear(err);
    else if (err)
        *err = *error;
    return session;
}

hs_session *hs_session_manager_prepare(hs_session_manager *manager, hs_backend backend,
                                       const hs_session_manager_prepare_options *options, hs_error *err)
{
    opening o;
    hs_error error = {0};
    bool ready;
    if (!begin(&o, manager, backend, options, 7200, &error))
        return end(NULL, &error, err);
    o.must_initialize = true;
    hs_session *session = open_with_checkpoint(&o, &error);
    if (!session && o.refused)
        hs_error_set(&error, HS_FAILED_PRECONDITION,
                     "cannot initialize the model: no checkpoint was restored, and init_op, init_fn and local_init_op are "
                     "missing");
    if (!session)
        return end(NULL, &error, err);
    hs_code code = finish(&o, session, true, &ready, &error);
    if (!code && ready)
        return end(session, &error, err);
    if (!code)
        hs_error_prefix(&error, "after initialization");
    discard(session);
    return end(NULL, &error, err);
}

hs_session *hs_session_manager_recover(hs_session_manager *manager, hs_backend backend,
                                       const hs_session_manager_prepare_options *options, bool *initialized, hs_error *err)
{
    opening o;
    hs_error error = {0};
    bool ready;
    if (initialized)
        *initialized = false;
    if (!begin(&o, manager, backend, options, 7200, &error))
        return end(NULL, &error, err);
    o.options.init_op = NULL;
    o.options.init_fn = NULL;
    hs_session *session = open_with_checkpoint(&o, &error);
    if (!session)
        return end(NULL, &error, err);
    const char *path = hs_raw_session_restored_from(hs_session_raw(session));
    if (finish(&o, session, path != NULL, &ready, &error)) {
        discard(session);
        return end(NULL, &error, err);
    }
    if (initialized)
        *initialized = path && ready;
    if (!ready)
        hs_log(hs_backend_env(backend), HS_LOG_INFO, "session not ready%s%s: %s", path ? " after restoring " : "",
               path ? path : "", error.message);
    return end(session, &error, err);
}

/* A variable without a device exists in each process, and the chief initializes only its own. A worker's would never be
 * ready. */
static hs_code check_devices(hs_backend backend, hs_error *err)
{
    hs_variable variable;
    for (size_t i = 0; hs_backend_variable(backend, i, &variable); i++)
        if (variable.device && !*variable.device && !(variable.flags & HS_VARIABLE_LOCAL))
            return hs_error_set(err, HS_INVALID_ARGUMENT,
                                "variable '%s' is not placed on a device, so a worker cannot share it with the chief; "
                                "place it, for example, on a parameter server",
                                variable.name);
    return HS_OK;
}

hs_session *hs_session_manager_wait(hs_session_manager *manager, hs_backend backend,
                                    const hs_session_manager_prepare_options *options, hs_error *err)
{
    opening o;
    hs_error error = {0};
    double next_log_secs = 0;
    if (!begin(&o, manager, backend, options, HUGE_VAL, &error) || check_devices(backend, &error))
        return end(NULL, &error, err);
    o.options = *HS_PREPARE_OPTIONS(.target = o.options.target, .config = o.options.config);
    do {
        bool ready = false;
        hs_error_clear(&error);
        hs_session *session = open_session(&o, &error);
        hs_code code = session ? finish(&o, session, true, &ready, &error) : error.code;
        if (!code && ready)
            return end(session, &error, err);
        discard(session);
        if (code && code != HS_UNAVAILABLE) /* HS_UNAVAILABLE: the chief may not have started yet */
            return end(NULL, &error, err);
        if (o.waited >= next_log_secs) { /* once a minute */
            hs_log(hs_backend_env(backend), HS_LOG_INFO, "waiting for the session to become ready: %s", error.message);
            next_log_secs = o.waited + 60;
        }
    } while (pause_between(&o));
    hs_error late;
    hs_error_set(&late, HS_DEADLINE_EXCEEDED, "the session did not become ready within %g s: %s", o.waited, error.message);
    return end(NULL, &late, err);
}
