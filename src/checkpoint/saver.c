/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/background.h"

#include "backends/raw_variables.h"
#include "base/files.h"
#include "base/map.h"
#include "checkpoint/shards.h"

#include <math.h>
#include <string.h>

static hs_code add_once(hs__map *seen, const char *name, const char *list, hs_error *err)
{
    if (hs__map_find(seen, name) != HS__NONE)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%s '%s' twice", list, name);
    return hs__map_add(seen, name, 0, NULL, err);
}

hs_code hs__check_named_once(const hs_env *env, const hs_checkpoint_name *names, const char *list, hs_error *err)
{
    hs__map seen;
    hs_code code = HS_OK;
    hs__map_init(&seen, env);
    for (size_t i = 0; !code && names[i].variable; i++)
        code = add_once(&seen, names[i].variable, list, err);
    hs__map_free(&seen);
    return code;
}

static hs_code check_listed_once(const hs_env *env, const char *const *variables, hs_error *err)
{
    hs__map seen;
    hs_code code = HS_OK;
    hs__map_init(&seen, env);
    for (size_t i = 0; !code && variables && variables[i]; i++)
        code = add_once(&seen, variables[i], "hs_saver_options.variables lists", err);
    hs__map_free(&seen);
    return code;
}

static hs_code copy_names(hs_saver *saver, const hs_checkpoint_name *names, hs_error *err)
{
    size_t n = 0;
    while (names[n].variable)
        n++;
    hs_checkpoint_name *copies = hs__alloc(&saver->env, n + 1, sizeof *copies);
    if (!(saver->names = copies))
        return hs__no_memory(err, n * sizeof *copies, "a saver's names");
    for (size_t i = 0; i < n; i++) {
        if (!names[i].name || !*names[i].name)
            return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_saver_options.names lists '%s' without a name",
                                names[i].variable);
        copies[i].variable = hs__strdup(&saver->env, names[i].variable);
        copies[i].name = copies[i].variable ? hs__strdup(&saver->env, names[i].name) : NULL;
        if (!copies[i].name)
            return hs__no_memory(err, strlen(names[i].name), "a saver's names");
    }
    return hs__check_named_once(&saver->env, copies, "hs_saver_options.names lists variable", err);
}

const char *hs__saver_name(const hs_saver *saver, const char *variable)
{
    for (size_t i = 0; saver->names && saver->names[i].variable; i++)
        if (strcmp(saver->names[i].variable, variable) == 0)
            return saver->names[i].name;
    return variable;
}

static bool is_kept(void *user, const char *path)
{
    const hs_saver *saver = user;
    for (size_t i = 0; i < saver->n_kept; i++)
        if (hs__path_same(saver->kept[i].path, path))
            return true;
    return false;
}

hs_saver *hs_saver_new(const hs_saver_options *given, hs_error *err)
{
    hs_saver_options options = HS_INIT(hs_saver_options);
    hs_env env;
    if ((given && HS_STRUCT_TAKE(hs_saver_options, reserved_too, &options, given, err)) ||
        hs__env_take(&env, options.env, err))
        return NULL;
    if (options.max_to_keep < HS_NEVER) {
        hs_error_set(err, HS_INVALID_ARGUMENT,
                     "hs_saver_options.max_to_keep is %lld; it must be at least 0, or HS_NEVER for all",
                     (long long)options.max_to_keep);
        return NULL;
    }
    if (options.keep_best < 0 || !(options.keep_checkpoint_every_n_hours >= 0)) {
        hs_error_set(err, HS_INVALID_ARGUMENT,
                     "hs_saver_options: keep_best is %lld and keep_checkpoint_every_n_hours is %g; both must be at least 0",
                     (long long)options.keep_best, options.keep_checkpoint_every_n_hours);
        return NULL;
    }
    if (options.nonfinite < HS_NONFINITE_FAIL || options.nonfinite > HS_NONFINITE_ALLOW) {
        hs_error_set(err, HS_INVALID_ARGUMENT, "hs_saver_options.nonfinite is %d, not an hs_nonfinite_policy",
                     (int)options.nonfinite);
        return NULL;
    }
    if (options.shards < 0 || options.shards > HS__MOST_SHARDS) {
        hs_error_set(err, HS_INVALID_ARGUMENT, "hs_saver_options.shards is %lld; it must be from 0 to %d",
                     (long long)options.shards, HS__MOST_SHARDS);
        return NULL;
    }
    if (check_listed_once(&env, options.variables, err))
        return NULL;
    hs_saver *saver = hs__alloc(&env, 1, sizeof *saver);
    const char *const *variables = saver && options.variables ? hs__names_copy(&env, options.variables) : NULL;
    if (!saver || (options.variables && !variables)) {
        hs__no_memory(err, sizeof *saver, "a saver");
        hs__free(&env, saver);
        return NULL;
    }
    saver->env = env;
    saver->held = (hs__held_directory){.is_kept = is_kept, .user = saver};
    saver->variables = variables;
    saver->keep_best = options.keep_best;
    saver->larger_is_better = options.larger_is_better;
    saver->keep_every_secs = options.keep_checkpoint_every_n_hours * 3600;
    saver->last_preserved = (double)hs_env_realtime_ns(&saver->env) / 1e9; /* the first is due so long after now */
    saver->nonfinite = options.nonfinite;
    saver->shards = options.shards ? (int32_t)options.shards : 1;
    if ((options.names && copy_names(saver, options.names, err)) ||
        hs__graph_saver_take(&saver->graph, &saver->env, &options, err)) {
        hs_saver_free(saver);
        return NULL;
    }
    saver->max_to_keep = options.max_to_keep ? options.max_to_keep : 5;
    hs_error_clear(err);
    return saver;
}

void hs_saver_free(hs_saver *saver)
{
    if (!saver)
        return;
    hs_env env = saver->env;
    hs__background_free(saver);
    hs__graph_saver_free(&saver->graph);
    hs__release_directory(&saver->held, &env);
    for (size_t i = 0; i < saver->n_kept; i++)
        hs__free(&env, saver->kept[i].path);
    hs__free(&env, saver->kept);
    hs__free(&env, saver->last_path);
    hs__free(&env, saver->state_file);
    hs__free(&env, (void *)saver->variables);
    for (size_t i = 0; saver->names && saver->names[i].variable; i++) {
        hs__free(&env, (void *)saver->names[i].variable);
        hs__free(&env, (void *)saver->names[i].name);
    }
    hs__free(&env, (void *)saver->names);
    hs__free(&env, saver);
}

void hs__saver_set_max_to_keep(hs_saver *saver, int64_t max_to_keep)
{
    hs__background_wait(saver);
    saver->max_to_keep = max_to_keep;
}

const char *hs_saver_last_path(const hs_saver *saver)
{
    if (saver)
        hs__background_wait(saver);
    return saver ? saver->last_path : NULL;
}

int64_t hs_saver_last_bytes(const hs_saver *saver)
{
    if (!saver)
        return 0;
    hs__background_wait(saver);
    return saver->last_bytes < INT64_MAX ? (int64_t)saver->last_bytes : 0;
}

const char *hs_saver_checkpoint(const hs_saver *saver, size_t index)
{
    if (saver)
        hs__background_wait(saver);
    return saver && index < saver->n_kept ? saver->kept[index].path : NULL;
}

bool hs__saver_variable(const hs_saver *saver, const hs_raw_session *session, size_t index, hs_variable *out, bool *done)
{
    *done = !hs__session_variable(session, index, out);
    if (*done)
        return false;
    if (!saver->variables)
        return !(out->flags & HS_VARIABLE_LOCAL);
    for (size_t i = 0; saver->variables[i]; i++)
        if (strcmp(saver->variables[i], out->name) == 0)
            return true;
    return false;
}

/* What a part is called otherwise, the whole is. */
bool hs__saver_slice(const hs_saver *saver, const hs_raw_session *session, size_t index, const char *variable,
                     hs_variable_slice *out)
{
    if (!session->ops.variable_slice || !session->ops.variable_slice(session->backend.self, index, out))
        return false;
    const char *name = hs__saver_name(saver, variable);
    if (name != variable)
        out->name = name;
    return true;
}

bool hs__has_variable(const hs_raw_session *session, const char *name)
{
    hs_variable variable;
    for (size_t i = 0; hs__session_variable(session, i, &variable); i++)
        if (strcmp(variable.name, name) == 0)
            return true;
    return false;
}

hs_code hs__saver_check_names(const hs_saver *saver, const hs_raw_session *session, hs_error *err)
{
    const char *unknown = NULL;
    for (size_t i = 0; !unknown && saver->variables && saver->variables[i]; i++)
        if (!hs__has_variable(session, saver->variables[i]))
            unknown = saver->variables[i];
    for (size_t i = 0; !unknown && saver->names && saver->names[i].variable; i++)
        if (!hs__has_variable(session, saver->names[i].variable))
            unknown = saver->names[i].variable;
    if (unknown)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "the saver saves '%s', which is not a variable of the graph",
                            unknown);
    return HS_OK;
}

hs_code hs__saver_set_last(hs_saver *saver, const char *path, hs_error *err)
{
    char *copy = hs__strdup(&saver->env, path);
    if (!copy)
        return hs__no_memory(err, strlen(path), "a path");
    hs__free(&saver->env, saver->last_path);
    saver->last_path = copy;
    return HS_OK;
}

hs_code hs__saver_keep(hs_saver *saver, const hs__kept_checkpoint *newest, hs_error *err)
{
    const char *path = newest->path;
    hs_code code =
        hs__reserve(&saver->env, &saver->kept, &saver->kept_capacity, saver->n_kept + 1, sizeof *saver->kept, err);
    char *copy = code ? NULL : hs__strdup(&saver->env, path);
    if (!copy)
        return code ? code : hs__no_memory(err, strlen(path), "a path");
    size_t n = 0;
    for (size_t i = 0; i < saver->n_kept; i++) {
        if (hs__path_same(saver->kept[i].path, path))
            hs__free(&saver->env, saver->kept[i].path);
        else
            saver->kept[n++] = saver->kept[i];
    }
    saver->kept[n] = *newest;
    saver->kept[n++].path = copy;
    saver->n_kept = n;
    return HS_OK;
}

hs_code hs__saver_recover(hs_saver *saver, const char *const *paths, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && paths[i]; i++) {
        hs_file_stat found = {.bytes = 0};
        char *index = hs__bundle_index_path(&saver->env, paths[i]);
        if (!index)
            return hs__no_memory(err, strlen(paths[i]), "a path");
        /* one that cannot be looked at just now may be there, and nobody else would ever delete it */
        if (saver->env.files.ops->stat(saver->env.files.user, index, &found, NULL) != HS_NOT_FOUND)
            code = hs__saver_keep(saver,
                                  &(hs__kept_checkpoint){.path = (char *)paths[i],
                                                         .timestamp = (double)found.modified_ns / 1e9,
                                                         .metric = (double)NAN},
                                  err);
        hs__free(&saver->env, index);
    }
    return code;
}

bool hs_checkpoint_exists(const hs_env *given, const char *prefix)
{
    hs_env env;
    if (!prefix || hs__env_take(&env, given, NULL))
        return false;
    char *index = hs__bundle_index_path(&env, prefix);
    bool exists = index && hs__file_exists(&env, index);
    hs__free(&env, index);
    return exists;
}
