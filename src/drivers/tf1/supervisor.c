/* SPDX-License-Identifier: Apache-2.0 */
/* Creating a supervisor, and its queries. */
#include "drivers/tf1/supervisor.h"

#include <hooksess/tf1/scaffold.h>

#include "backends/backend.h"

#include <math.h>
#include <string.h>

enum { SAVE_SUMMARIES_SECS = 120, SAVE_MODEL_SECS = 600 };

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
    size_t n = hs__collection_size(sv->backend, key);
    if (n > 1)
        hs_log(&sv->env, HS_LOG_INFO, "the graph's collection '%s' has %zu items; the first is used", key, n);
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
                .saver = (hs_saver *)given_or_first(sv, o->saver, HS_SAVERS), .env = &sv->env);
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
        hs_log(&sv->env, HS_LOG_WARNING, "variable '%s' is not used as the global step: it is not one integer", name);
    if (!*name || (!given && (is_variable ? !counts : !own)))
        return HS_OK;
    hs_code code = hs_backend_find(sv->backend, name, &node, err);
    if (!code && !(sv->global_step = hs__strdup(&sv->env, name)))
        code = hs__no_memory(err, strlen(name), "a name");
    return code;
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
    if ((sv->manager = o->session_manager))
        return HS_OK;
    const hs_session_manager_options options =
        HS_INIT(hs_session_manager_options, .ready_op = hs_supervisor_ready_op(sv),
                .ready_for_local_init_op = hs_supervisor_ready_for_local_init_op(sv),
                .local_init_op = hs_supervisor_local_init_op(sv), .local_init_run_options = o->local_init_run_options,
                .recovery_wait_secs = o->recovery_wait_secs, .env = &sv->env);
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
    sv->checkpoint_dir = hs__strdup(&sv->env, o->checkpoint_dir);
    sv->save_path = hs__format(&sv->env, "%s/%s", o->checkpoint_dir, base);
    return sv->checkpoint_dir && sv->save_path ? HS_OK : hs__no_memory(err, strlen(o->checkpoint_dir), "a path");
}

static hs_code fill(hs_supervisor *sv, const hs_supervisor_options *o, hs_error *err)
{
    sv->is_worker = sv->no_writer = o->is_worker;
    sv->init_fn = o->init_fn;
    sv->user = o->user;
    sv->stop_grace_secs = o->stop_grace_secs;
    sv->coordinator = hs_coordinator_new(HS_COORDINATOR_OPTIONS(.env = &sv->env), err);
    if (!sv->coordinator || make_scaffold(sv, o, err) || set_global_step(sv, o->global_step, err) ||
        set_manager(sv, o, err))
        return err->code;
    sv->saves = !o->no_saver && (o->saver || has_saveables(sv));
    return sv->is_worker ? HS_OK : set_directory(sv, o, err);
}

static hs_supervisor *make(hs_backend backend, hs_error *err)
{
    hs_env env;
    if (hs__env_take(&env, hs_backend_env(backend), err))
        return NULL;
    hs_supervisor *sv = hs__alloc(&env, 1, sizeof *sv);
    bool writes = sv && pthread_mutex_init(&sv->writing, NULL) == 0;
    if (writes && pthread_mutex_init(&sv->saving, NULL) == 0) {
        sv->env = env;
        sv->backend = backend;
        return sv;
    }
    if (writes)
        pthread_mutex_destroy(&sv->writing);
    hs__free(&env, sv);
    hs__no_memory(err, sizeof *sv, "a supervisor");
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
    hs__error_copy(err, &error);
    return sv;
}

void hs_supervisor_free(hs_supervisor *sv)
{
    if (!sv)
        return;
    hs_env env = sv->env;
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
    hs__free(&env, sv->global_step);
    hs__free(&env, sv->checkpoint_dir);
    hs__free(&env, sv->save_path);
    hs__free(&env, sv);
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
GETTER(const char *, init_op, named(hs_scaffold_init_op(sv->scaffold)))
GETTER(const hs_feed *, init_feeds, hs_scaffold_init_feeds(sv->scaffold))
GETTER(const char *, local_init_op, named(hs_scaffold_local_init_op(sv->scaffold)))
GETTER(const char *, ready_op, named(hs_scaffold_ready_op(sv->scaffold)))
GETTER(const char *, ready_for_local_init_op, named(hs_scaffold_ready_for_local_init_op(sv->scaffold)))
GETTER(const char *, summary_op, named(hs_scaffold_summary_op(sv->scaffold)))
GETTER(const char *, global_step, sv->global_step)
GETTER(hs_saver *, saver, sv->saves ? hs_scaffold_saver(sv->scaffold) : NULL)
GETTER(hs_summary_writer *, summary_writer, sv->writer)
GETTER(const char *, checkpoint_dir, sv->checkpoint_dir)
GETTER(const char *, save_path, sv->save_path)
GETTER(double, save_summaries_secs, sv->save_summaries_secs)
GETTER(double, save_model_secs, sv->save_model_secs)
