/* SPDX-License-Identifier: Apache-2.0 */
/* Creating a supervisor, its queries, and its services. */
#include "tf1/supervisor.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Services that run concurrently with training: saving, summaries, the step counter. */

/* The global step. */

hs_code hs__supervisor_step(hs_supervisor *sv, hs_session *session, int64_t *step, hs_error *err)
{
    const double MOST = 9007199254740992; /* a double has each step up to here */
    const hs_run_values *values;
    hs_error error = {0};
    *step = -1;
    if (!sv->global_step)
        return HS_OK;
    hs_supervisor_lock(sv);
    if (sv->step_is_own)
        *step = hs_session_global_step(session, &error);
    else if (!hs_supervisor_run(sv, session, HS_RUN_ARGS(.names = HS_NAMES(sv->global_step)), &values, &error)) {
        double value = hs_run_values_number(values, 0);
        if (value >= 0 && value < MOST)
            *step = (int64_t)value;
        else
            hs_error_set(&error, HS_INVALID_ARGUMENT, "the global step '%s' is %g, which is not a step", sv->global_step,
                         value);
    }
    hs_supervisor_unlock(sv);
    return hs__supervisor_report(err, &error);
}

/* The event file. */

hs_code hs__supervisor_open_writer(hs_supervisor *sv, hs_error *err)
{
    hs_error error = {0};
    pthread_mutex_lock(&sv->writing);
    if (!sv->writer && !(sv->writer = sv->given_writer) && !sv->no_writer)
        sv->writer = hs_summary_writer_open(sv->checkpoint_dir, HS_SUMMARY_WRITER_OPTIONS(.env = sv->env), &error);
    pthread_mutex_unlock(&sv->writing);
    return hs__supervisor_report(err, &error);
}

hs_code hs__supervisor_end_writer(hs_supervisor *sv, bool logs_stop, hs_error *err)
{
    hs_error error = {0}, late = {0};
    pthread_mutex_lock(&sv->writing);
    hs_summary_writer *writer = sv->writer;
    sv->writer = NULL;
    if (writer && logs_stop)
        hs_summary_writer_session_log(writer, HS_SESSION_LOG_STOP, NULL, NULL, sv->step, &error);
    if (writer && writer == sv->given_writer)
        hs_summary_writer_flush(writer, false, &late);
    else {
        hs_summary_writer_close(writer, &late);
        sv->graph_written = false; /* the next one has another file */
    }
    pthread_mutex_unlock(&sv->writing);
    return hs__supervisor_report(err, error.code ? &error : &late);
}

/* Locks the writer for an event, until end_event. Returns NULL if no writer is open. */
static hs_summary_writer *begin_event(hs_supervisor *sv)
{
    pthread_mutex_lock(&sv->writing);
    return sv->writer;
}

static void end_event(hs_supervisor *sv, int64_t step)
{
    sv->step = step < 0 ? 0 : step;
    pthread_mutex_unlock(&sv->writing);
}

static hs_code log_session(hs_supervisor *sv, hs_session_log_status status, const char *path, int64_t step, hs_error *err)
{
    if (!sv->global_step)
        return HS_OK;
    hs_summary_writer *writer = begin_event(sv);
    hs_code code = writer ? hs_summary_writer_session_log(writer, status, path, NULL, step, err) : HS_OK;
    end_event(sv, status == HS_SESSION_LOG_START ? step - 1 : step);
    return code;
}

hs_code hs_supervisor_summary_computed(hs_supervisor *sv, hs_session *session, hs_string summary, int64_t step,
                                       hs_error *err)
{
    hs_code code;
    if (!sv || step < -1)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_supervisor_summary_computed: %s",
                            sv ? "step is negative; -1 selects the session's step" : "supervisor is NULL");
    if (hs__supervisor_refuse_inherited(sv, err))
        return HS_FAILED_PRECONDITION;
    if (sv->no_writer) /* as for a worker */
        return hs_error_set(err, HS_FAILED_PRECONDITION, "cannot write a summary: %s",
                            sv->is_worker ? "this is a worker's supervisor; the chief's supervisor writes summaries"
                                          : "the supervisor has no summary writer; set its option checkpoint_dir or "
                                            "summary_writer");
    char *copy = NULL; /* the summary may be a value of the last run, and reading the step may be a run */
    if (step < 0 && sv->global_step && !sv->step_is_own) {
        if (!(copy = hs_env_alloc(sv->env, summary.bytes)))
            return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no memory for a summary");
        if (summary.bytes)
            memcpy(copy, summary.data, summary.bytes);
        summary.data = copy;
    }
    code = step < 0 ? hs__supervisor_step(sv, session, &step, err) : HS_OK;
    if (!code) {
        hs_summary_writer *writer = begin_event(sv);
        code = writer ? hs_summary_writer_summary(writer, summary, step < 0 ? 0 : step, err)
                      : hs_error_set(err, HS_FAILED_PRECONDITION,
                                     "the summary writer is not open: preparing a session opens it, and hs_supervisor_stop "
                                     "closes it");
        end_event(sv, step);
    }
    hs_env_free(sv->env, copy);
    return code;
}

/* Checkpoints. */

/* Locks the supervisor and the saver. A thread with the saver never waits for the supervisor, as a thread that waits for
 * the saver may have locked it already. A thread that waits here for the saver unlocks the supervisor first, because the
 * other may be writing to the disk. */
static void lock_with_saver(hs_supervisor *sv)
{
    hs_supervisor_lock(sv);
    while (pthread_mutex_trylock(&sv->saving) != 0) {
        hs_supervisor_unlock(sv);
        pthread_mutex_lock(&sv->saving); /* waits until it is unlocked */
        pthread_mutex_unlock(&sv->saving);
        hs_supervisor_lock(sv);
    }
}

hs_code hs_supervisor_save(hs_supervisor *sv, hs_session *session, hs_error *err)
{
    const hs_save_options options = HS_INIT(hs_save_options, .background = true);
    hs_saver *saver = hs_supervisor_saver(sv);
    hs_error error = {0};
    hs_save_result result;
    int64_t step;
    if (!sv || !session)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_supervisor_save: %s is NULL", sv ? "session" : "supervisor");
    if (hs__supervisor_refuse_inherited(sv, err))
        return HS_FAILED_PRECONDITION;
    if (sv->is_worker || !sv->save_path || !saver)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "cannot save a checkpoint: %s",
                            sv->is_worker    ? "this is a worker's supervisor; the chief's supervisor saves"
                            : !sv->save_path ? "checkpoint_dir is missing"
                                             : "the supervisor has no saver, or the graph has no variables to save");
    lock_with_saver(sv);
    if (!hs__supervisor_step(sv, session, &step, &error))
        hs_saver_save(saver, hs_session_raw(session), sv->save_path, step, &options, &error);
    hs_supervisor_unlock(sv); /* the save has its copy of the state */
    hs_saver_wait(saver);
    if (!error.code && hs_saver_poll(saver, NULL, &result))
        error = result.error;
    if (!error.code)
        log_session(sv, HS_SESSION_LOG_CHECKPOINT, hs_saver_last_path(saver), step, &error);
    pthread_mutex_unlock(&sv->saving);
    return hs__supervisor_report(err, &error);
}

/* The services' loops. */

static hs_code save_checkpoint(void *user, hs_error *err)
{
    hs_supervisor *sv = user;
    return hs_supervisor_save(sv, sv->session, err);
}

/* Drops the summary if the writer is already closed. */
static hs_code write_summary(hs_supervisor *sv, const hs_tensor *value, int64_t step, hs_error *err)
{
    if (!value || value->dtype != HS_STRING || value->memory || value->bytes < sizeof(hs_string))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "summary op '%s' does not return a string (a serialized Summary)",
                            hs_supervisor_summary_op(sv));
    const hs_string *summary = value->data;
    hs_summary_writer *writer = begin_event(sv);
    hs_code code = HS_OK;
    if (writer && summary->bytes)
        code = hs_summary_writer_summary(writer, *summary, step < 0 ? 0 : step, err);
    end_event(sv, step);
    return code;
}

static hs_code compute_summary(void *user, hs_error *err)
{
    hs_supervisor *sv = user;
    const hs_run_args args = HS_INIT(hs_run_args, .names = HS_NAMES(hs_supervisor_summary_op(sv)), .kind = HS_RUN_AUX);
    const hs_run_values *values;
    int64_t step;
    hs_supervisor_lock(sv);
    hs_code code = hs__supervisor_step(sv, sv->session, &step, err);
    if (!code && !(code = hs_supervisor_run(sv, sv->session, &args, &values, err)))
        code = write_summary(sv, hs_run_values_tensor(values, 0), step, err);
    hs_supervisor_unlock(sv);
    return code;
}

static hs_code count_steps(void *user, hs_error *err)
{
    hs_supervisor *sv = user;
    int64_t step;
    hs_code code = hs__supervisor_step(sv, sv->session, &step, err);
    int64_t now = hs_env_monotonic_ns(sv->env);
    double secs = (double)(now - sv->rate_ns) / 1e9, steps = (double)(step - sv->rate_step);
    char tag[512];
    if (code || !(secs > 0)) /* the clock has not advanced: the next call also counts these steps */
        return code;
    sv->rate_step = step;
    sv->rate_ns = now;
    snprintf(tag, sizeof tag, "%s/sec", sv->global_step);
    hs_log(sv->env, HS_LOG_INFO, steps / secs >= 1000 ? "step %lld: %.0f steps/s" : "step %lld: %.4g steps/s",
           (long long)step, steps / secs);
    hs_summary_writer *writer = begin_event(sv);
    if (writer)
        code = hs_summary_writer_scalar(writer, tag, steps / secs, step, err);
    end_event(sv, step);
    return code;
}

/* Threads. */

static hs_thread *start_looper(hs_supervisor *sv, const char *name, double secs, hs_code (*loop)(void *user, hs_error *err),
                               void *user, hs_error *err)
{
    const hs_looper_options options = HS_INIT(hs_looper_options, .coordinator = hs_supervisor_coordinator(sv), .name = name,
                                              .every_n_secs = secs, .loop = loop, .user = user);
    hs_thread *thread = hs_looper_new(&options, err);
    if (!thread || !hs_thread_start(thread, err))
        return thread;
    hs_thread_free(thread);
    return NULL;
}

hs_thread *hs_supervisor_loop(hs_supervisor *sv, double interval_secs, hs_code (*fn)(void *user, hs_error *err), void *user,
                              hs_error *err)
{
    return sv && hs__supervisor_refuse_inherited(sv, err) ? NULL : start_looper(sv, "loop", interval_secs, fn, user, err);
}

/* Starts a service that calls `loop` every `secs` seconds. 0: starts nothing. */
static hs_code start_service(hs_supervisor *sv, const char *name, double secs, hs_code (*loop)(void *user, hs_error *err),
                             hs_error *err)
{
    if (secs > 0 && (sv->services[sv->n_services] = start_looper(sv, name, secs, loop, sv, err)))
        sv->n_services++;
    return err->code;
}

static void start_services(hs_supervisor *sv, hs_error *err)
{
    const double events = sv->no_writer ? 0 : sv->save_summaries_secs;
    if (!start_service(sv, "summaries", hs_supervisor_summary_op(sv) ? events : 0, compute_summary, err) &&
        !start_service(sv, "step counter", sv->global_step ? events : 0, count_steps, err))
        start_service(sv, "checkpoints", sv->saves ? sv->save_model_secs : 0, save_checkpoint, err);
}

bool hs__supervisor_serves(const hs_supervisor *sv)
{
    for (size_t i = 0; i < sv->n_services; i++)
        if (hs_thread_alive(sv->services[i]))
            return true;
    return false;
}

void hs__supervisor_await_services(hs_supervisor *sv)
{
    for (size_t i = 0; i < sv->n_services; i++) {
        hs_thread_wait(sv->services[i], HS_NEVER);
        hs_thread_free(sv->services[i]);
        sv->services[i] = NULL;
    }
    sv->n_services = 0;
    sv->session = NULL;
}

hs_code hs_supervisor_start_standard_services(hs_supervisor *sv, hs_session *session, hs_error *err)
{
    hs_error error = {0};
    int64_t step;
    if (!sv || !session)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_supervisor_start_standard_services: %s is NULL",
                            sv ? "session" : "supervisor");
    if (hs__supervisor_refuse_inherited(sv, err))
        return HS_FAILED_PRECONDITION;
    if (sv->is_worker)
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "this is a worker's supervisor; only the chief's supervisor starts the standard services");
    if (hs__supervisor_serves(sv))
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "the standard services already run; call hs_supervisor_stop first");
    hs__supervisor_await_services(sv); /* they have ended: frees them */
    if (!sv->checkpoint_dir) {
        hs_log(sv->env, HS_LOG_WARNING, "standard services not started: checkpoint_dir is missing");
        return hs__supervisor_report(err, &error);
    }
    sv->session = session;
    if (!hs__supervisor_open_writer(sv, &error) && !hs__supervisor_step(sv, session, &step, &error) &&
        /* TensorBoard drops the events of an earlier run from the next step on */
        !log_session(sv, HS_SESSION_LOG_START, NULL, step + 1, &error)) {
        sv->rate_step = step;
        sv->rate_ns = hs_env_monotonic_ns(sv->env);
        start_services(sv, &error);
    }
    return hs__supervisor_report(err, &error);
}

hs_thread *hs_supervisor_service(const hs_supervisor *sv, size_t index)
{
    return sv && index < sv->n_services ? sv->services[index] : NULL;
}

enum { SAVE_SUMMARIES_SECS = 120, SAVE_MODEL_SECS = 600 };

/* Sets *to to a new text, for hs_env_free. */
HS_PRINTF(4, 5) static hs_code format_text(const hs_supervisor *sv, char **to, hs_error *err, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0 || !(*to = hs_env_alloc(sv->env, (size_t)length + 1)))
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no memory for a name");
    va_start(arguments, format);
    vsnprintf(*to, (size_t)length + 1, format, arguments);
    va_end(arguments);
    return HS_OK;
}

static const char *named(const char *name)
{
    return name && *name ? name : NULL;
}

static bool are_seconds(double secs)
{
    return secs >= 0 || secs == HS_NEVER;
}

/* Refuses invalid and contradictory options. A worker has no services, whatever its intervals are. */
static hs_code check(const hs_supervisor_options *o, hs_error *err)
{
    bool checkpoints = o->save_model_secs > 0 && !o->is_worker, summaries = o->save_summaries_secs > 0 && !o->is_worker;
    const struct {
        bool wrong;
        const char *what;
    } rules[] = {
        {!are_seconds(o->save_model_secs) || isinf(o->save_model_secs), "save_model_secs must be finite and at least 0, or "
                                                                        "HS_NEVER for none"},
        {!are_seconds(o->save_summaries_secs) || isinf(o->save_summaries_secs),
         "save_summaries_secs must be finite and at least 0, or HS_NEVER for none"},
        {!are_seconds(o->stop_grace_secs), "stop_grace_secs must be at least 0, or HS_NEVER for no limit"},
        {o->is_worker && o->init_fn, "is_worker excludes init_fn, because the chief initializes"},
        {o->init_feeds && o->init_op && !*o->init_op,
         "init_feeds is set, but init_op is HS_NONE; name the op that gets the feeds"},
        {o->no_saver && o->saver, "both saver and no_saver are set; set at most one of the two"},
        {o->no_summary_writer && o->summary_writer,
         "both summary_writer and no_summary_writer are set; set at most one of the two"},
        {checkpoints && !named(o->checkpoint_dir), "save_model_secs is set, but checkpoint_dir is missing"},
        {summaries && !named(o->checkpoint_dir), "save_summaries_secs is set, but checkpoint_dir is missing"},
        {checkpoints && o->no_saver, "both save_model_secs and no_saver are set; set at most one of the two"},
        {summaries && o->no_summary_writer,
         "both save_summaries_secs and no_summary_writer are set; set at most one of the two"},
        {o->checkpoint_basename && strchr(o->checkpoint_basename, '/'),
         "checkpoint_basename is not a file name; put directories into checkpoint_dir"},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].wrong)
            return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_supervisor_options: %s", rules[i].what);
    return HS_OK;
}

/* Creating; `err` is not NULL. The graph's defaults are those of a scaffold, except that the first of several items in a
 * collection is used. */

static const void *given_or_first(const hs_supervisor *sv, const void *given, const char *key)
{
    const void *item = NULL;
    if (given)
        return given;
    size_t n = 0;
    while (hs_backend_collection_item(sv->backend, key, n, NULL))
        n++;
    if (n > 1)
        hs_log(sv->env, HS_LOG_INFO, "the graph's collection '%s' has %zu items; the first is used", key, n);
    hs_backend_collection_item(sv->backend, key, 0, &item);
    return item;
}

/* A scaffold keeps HS_NONE and does not replace it by a default. */
static hs_code make_scaffold(hs_supervisor *sv, const hs_supervisor_options *o, hs_error *err)
{
    const char *for_local = given_or_first(sv, o->ready_for_local_init_op, HS_READY_FOR_LOCAL_INIT_OP);
    const hs_scaffold_options options =
        HS_INIT(hs_scaffold_options, .init_op = given_or_first(sv, o->init_op, HS_INIT_OP), .init_feeds = o->init_feeds,
                .ready_op = given_or_first(sv, o->ready_op, HS_READY_OP),
                .ready_for_local_init_op = for_local ? for_local : HS_NONE,
                .local_init_op = given_or_first(sv, o->local_init_op, HS_LOCAL_INIT_OP),
                .summary_op = given_or_first(sv, o->summary_op, HS_SUMMARY_OP),
                .saver = o->no_saver ? NULL : (hs_saver *)given_or_first(sv, o->saver, HS_SAVERS), .no_saver = o->no_saver,
                .env = sv->env);
    bool finalized = hs_backend_finalized(sv->backend);
    sv->scaffold = hs_scaffold_new(&options, err);
    if (!sv->scaffold || hs_scaffold_finalize(sv->scaffold, sv->backend, err))
        return err->code;
    sv->finalized = !finalized;
    return HS_OK;
}

/* Sets *found to the variable of this name, which may be the name of its tensor. Returns false if none exists. */
static bool find_variable(hs_backend backend, const char *name, hs_variable *found)
{
    size_t length = strcspn(name, ":");
    for (size_t i = 0; hs_backend_variable(backend, i, found); i++)
        if (strncmp(found->name, name, length) == 0 && !found->name[length])
            return true;
    return false;
}

/* The global step: the given one, or the backend's own, or a variable `global_step`. */
static hs_code set_global_step(hs_supervisor *sv, const char *given, hs_error *err)
{
    const char *own = hs_backend_global_step_name(sv->backend), *name = given ? given : own ? own : "global_step";
    hs_variable v;
    hs_node node;
    bool is_variable = find_variable(sv->backend, name, &v);
    bool counts = is_variable && (v.dtype == HS_INT64 || v.dtype == HS_INT32) && hs_shape_elements(&v.shape) == 1;
    if (is_variable && !counts && given)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_supervisor_options: global step '%s' has %lld elements of type %s; name a variable with "
                            "one element of int32 or int64",
                            name, (long long)hs_shape_elements(&v.shape), hs_dtype_name(v.dtype));
    if (is_variable && !counts)
        hs_log(sv->env, HS_LOG_WARNING, "variable '%s' is not used as the global step: it is not one integer", name);
    if (!*name || (!given && (is_variable ? !counts : !own)))
        return HS_OK;
    hs_code code = hs_backend_find(sv->backend, name, &node, err);
    sv->step_is_own = own && strcmp(own, name) == 0;
    return code ? code : format_text(sv, &sv->global_step, err, "%s", name);
}

static bool has_saveables(const hs_supervisor *sv)
{
    hs_variable variable;
    for (size_t i = 0; hs_backend_variable(sv->backend, i, &variable); i++)
        if (!(variable.flags & HS_VARIABLE_LOCAL))
            return true;
    return false;
}

/* The other parts. */

static hs_code set_manager(hs_supervisor *sv, const hs_supervisor_options *o, hs_error *err)
{
    const hs_scaffold_options *fields = hs_scaffold_fields(sv->scaffold);
    if ((sv->manager = o->session_manager))
        return HS_OK;
    const hs_session_manager_options options = HS_INIT(
        hs_session_manager_options, .ready_op = fields->ready_op,
        .ready_for_local_init_op = fields->ready_for_local_init_op, .local_init_op = fields->local_init_op,
        .local_init_run_options = o->local_init_run_options, .recovery_wait_secs = o->recovery_wait_secs, .env = sv->env);
    sv->manager = hs_session_manager_new(&options, err);
    sv->owns_manager = true;
    return err->code;
}

/* Settings that only the chief has. */
static hs_code set_directory(hs_supervisor *sv, const hs_supervisor_options *o, hs_error *err)
{
    sv->save_summaries_secs = o->save_summaries_secs == 0 ? SAVE_SUMMARIES_SECS : fmax(o->save_summaries_secs, 0);
    sv->save_model_secs = o->save_model_secs == 0 ? SAVE_MODEL_SECS : fmax(o->save_model_secs, 0); /* HS_NEVER is below */
    sv->writer = sv->given_writer = o->summary_writer;
    sv->no_writer = o->no_summary_writer || (!o->summary_writer && !named(o->checkpoint_dir));
    if (!named(o->checkpoint_dir))
        return HS_OK;
    const char *base = named(o->checkpoint_basename) ? o->checkpoint_basename : "model.ckpt";
    hs_code code = format_text(sv, &sv->checkpoint_dir, err, "%s", o->checkpoint_dir);
    return code ? code : format_text(sv, &sv->save_path, err, "%s/%s", o->checkpoint_dir, base);
}

static hs_code fill(hs_supervisor *sv, const hs_supervisor_options *o, hs_error *err)
{
    sv->is_worker = sv->no_writer = o->is_worker;
    sv->init_fn = o->init_fn;
    sv->user = o->user;
    sv->stop_grace_secs = o->stop_grace_secs;
    sv->coordinator = hs_coordinator_new(HS_COORDINATOR_OPTIONS(.env = sv->env), err);
    if (!sv->coordinator || make_scaffold(sv, o, err) || set_global_step(sv, o->global_step, err) ||
        set_manager(sv, o, err))
        return err->code;
    sv->saves = !o->no_saver && (o->saver || has_saveables(sv));
    return sv->is_worker ? HS_OK : set_directory(sv, o, err);
}

static bool init_locks(hs_supervisor *sv)
{
    if (pthread_mutex_init(&sv->writing, NULL) != 0)
        return false;
    if (pthread_mutex_init(&sv->saving, NULL) == 0) {
        if (pthread_mutex_init(&sv->turns.lock, NULL) == 0) {
            if (pthread_cond_init(&sv->turns.changed, NULL) == 0)
                return true;
            pthread_mutex_destroy(&sv->turns.lock);
        }
        pthread_mutex_destroy(&sv->saving);
    }
    pthread_mutex_destroy(&sv->writing);
    return false;
}

static hs_supervisor *make(hs_backend backend, hs_error *err)
{
    const hs_env *env = hs_backend_env(backend);
    hs_supervisor *sv = hs_env_alloc(env, sizeof *sv);
    if (sv && init_locks(sv)) {
        sv->process = getpid();
        sv->env = env;
        sv->backend = backend;
        return sv;
    }
    hs_env_free(env, sv);
    hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no memory for a supervisor");
    return NULL;
}

hs_supervisor *hs_supervisor_new(hs_backend backend, const hs_supervisor_options *options, hs_error *err)
{
    hs_supervisor_options o = HS_INIT(hs_supervisor_options);
    hs_error error = {0};
    hs_supervisor *sv = NULL;
    if (!(options && HS_STRUCT_TAKE(hs_supervisor_options, reserved, &o, options, &error)) && !check(&o, &error))
        sv = make(backend, &error);
    if (sv && fill(sv, &o, &error)) {
        hs_supervisor_free(sv);
        sv = NULL;
    }
    hs__supervisor_report(err, &error);
    return sv;
}

void hs_supervisor_free(hs_supervisor *sv)
{
    if (!sv || hs__supervisor_is_inherited(sv))
        return;
    const hs_env *env = sv->env;
    hs_coordinator_request_stop(sv->coordinator, NULL);
    hs__supervisor_await_services(sv);
    hs__supervisor_end_writer(sv, false, NULL);
    hs_coordinator_free(sv->coordinator);
    if (sv->owns_manager)
        hs_session_manager_free(sv->manager);
    hs_scaffold_free(sv->scaffold);
    if (sv->finalized && sv->backend.ops->finalize)
        sv->backend.ops->finalize(sv->backend.self, false, NULL);
    pthread_mutex_destroy(&sv->writing);
    pthread_mutex_destroy(&sv->saving);
    pthread_mutex_destroy(&sv->turns.lock);
    pthread_cond_destroy(&sv->turns.changed);
    hs_env_free(env, sv->global_step);
    hs_env_free(env, sv->checkpoint_dir);
    hs_env_free(env, sv->save_path);
    hs_env_free(env, sv);
}

/* Queries. */

#define GETTER(type, name, value)                                                                                          \
    type hs_supervisor_##name(const hs_supervisor *sv)                                                                     \
    {                                                                                                                      \
        return sv ? (value) : 0;                                                                                           \
    }

GETTER(bool, is_chief, !sv->is_worker)
GETTER(hs_session_manager *, session_manager, sv->manager)
GETTER(hs_coordinator *, coordinator, sv->coordinator)
GETTER(const char *, init_op, hs_scaffold_fields(sv->scaffold)->init_op)
GETTER(const char *, local_init_op, hs_scaffold_fields(sv->scaffold)->local_init_op)
GETTER(const char *, ready_op, hs_scaffold_fields(sv->scaffold)->ready_op)
GETTER(const char *, ready_for_local_init_op, hs_scaffold_fields(sv->scaffold)->ready_for_local_init_op)
GETTER(const char *, summary_op, hs_scaffold_fields(sv->scaffold)->summary_op)
GETTER(const char *, global_step, sv->global_step)
GETTER(hs_saver *, saver, sv->saves ? hs_scaffold_fields(sv->scaffold)->saver : NULL)
GETTER(hs_summary_writer *, summary_writer, sv->writer)
GETTER(const char *, save_path, sv->save_path)
GETTER(double, save_summaries_secs, sv->save_summaries_secs)
GETTER(double, save_model_secs, sv->save_model_secs)
