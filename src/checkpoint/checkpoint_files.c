/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/checkpoint_files.h"

#include <hooksess/checkpoint.h>

#include "base/files.h"
#include "checkpoint/state_file.h"
#include "formats/bundle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Names. */

static hs__file_name read_ending(const char *text)
{
    enum { DATA_LENGTH = sizeof ".data-00000-of-00001" - 1 };
    hs__file_name e = {.part = HS__NO_PART};
    int end = 0;
    if (strcmp(text, HS__VARIABLES_TMP) == 0)
        return (hs__file_name){.part = HS__DIRECTORY, .tmp = true};
    if (strncmp(text, ".index", 6) == 0) {
        e.part = HS__INDEX;
        text += 6;
    } else if (strncmp(text, ".meta", 5) == 0) {
        e.part = HS__META;
        text += 5;
    } else if (sscanf(text, ".data-%5d-of-%5d%n", &e.shard, &e.shards, &end) == 2 && end == DATA_LENGTH) {
        e.part = HS__DATA;
        text += end;
    }
    e.tmp = strcmp(text, ".tmp") == 0;
    if (*text && !e.tmp)
        e.part = HS__NO_PART;
    return e;
}

hs__file_name hs__parse_file_name(const char *name)
{
    hs__file_name parsed = {.part = HS__NO_PART};
    for (const char *dot = name; parsed.part == HS__NO_PART && (dot = strchr(dot, '.')); dot++) {
        parsed = read_ending(dot);
        parsed.stem = (size_t)(dot - name);
    }
    return parsed;
}

size_t hs__index_stem(const char *name)
{
    size_t length = strlen(name), ending = strlen(".index");
    return length > ending && strcmp(name + length - ending, ".index") == 0 ? length - ending : 0;
}

/* Splits BASE-STEP, which has `length` bytes. *base is the length of BASE. Returns the step; -1: there is none. */
static int64_t split(const char *name, size_t length, size_t *base)
{
    enum { MOST_DIGITS = 18 };
    size_t begin = length;
    while (begin && name[begin - 1] >= '0' && name[begin - 1] <= '9')
        begin--;
    const bool has = begin && name[begin - 1] == '-' && begin < length && length - begin <= MOST_DIGITS;
    *base = has ? begin - 1 : length;
    return has ? strtoll(name + begin, NULL, 10) : -1;
}

int64_t hs__step_in(const char *path)
{
    size_t base;
    return split(path, strlen(path), &base);
}

bool hs__same_series(const char *name, const char *other)
{
    size_t base, other_base;
    return split(name, strlen(name), &base) >= 0 && split(other, strlen(other), &other_base) >= 0 && base == other_base &&
           strncmp(name, other, base) == 0;
}

bool hs__is_in_series(const char *name, size_t length, const char *base, int64_t *step)
{
    size_t of_name;
    *step = split(name, length, &of_name);
    if (of_name != strlen(base)) { /* BASE itself may end in a number */
        *step = -1;
        of_name = length;
    }
    return of_name == strlen(base) && strncmp(name, base, of_name) == 0;
}

/* Examining. */

hs_code hs__checkpoint_stat(const hs_env *env, const char *prefix, hs_file_stat *found, hs_error *err)
{
    char *index = hs__bundle_index_path(env, prefix);
    hs_code code = index ? hs__stat(env, index, found, err) : hs__no_memory(err, strlen(prefix), "a path");
    hs__free(env, index);
    return code;
}

bool hs__checkpoint_missing(const hs_env *env, const char *prefix)
{
    hs_file_stat found;
    return hs__checkpoint_stat(env, prefix, &found, NULL) == HS_NOT_FOUND;
}

bool hs_checkpoint_exists(const hs_env *given, const char *prefix)
{
    hs_env env;
    hs_file_stat found;
    return prefix && !hs__env_copy(&env, given, NULL) && !hs__checkpoint_stat(&env, prefix, &found, NULL);
}

hs_code hs_checkpoint_mtime(const hs_env *given, const char *prefix, int64_t *ns, hs_error *err)
{
    hs_env env;
    hs_file_stat found;
    if (!prefix || !*prefix || !ns)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_checkpoint_mtime: %s", ns ? "prefix is missing" : "ns is NULL");
    hs_code code = hs__env_copy(&env, given, err);
    if (code || (code = hs__checkpoint_stat(&env, prefix, &found, err)))
        return code;
    *ns = found.modified_ns;
    hs_error_clear(err);
    return HS_OK;
}

/* Deleting. */

static void remove_in(const hs__deletion *d, const char *name, const char *ending)
{
    char *path = hs__format(d->env, "%s/%s%s", d->directory, name, ending);
    if (path)
        hs__file_remove(d->env, path);
    else
        hs__log_undeleted(d->env, name);
    hs__free(d->env, path);
}

/* Removes a data file of the checkpoints, if it is not one of those that stay. */
static int remove_data(void *user, const char *name)
{
    const hs__deletion *d = user;
    const hs__data_range *stay = &d->except;
    const hs__file_name parsed = hs__parse_file_name(name);
    if (parsed.part != HS__DATA || parsed.tmp || hs__map_find_bytes(&d->names, name, parsed.stem) == HS__NONE)
        return 0;
    if (parsed.shards != stay->of || parsed.shard < stay->first || parsed.shard - stay->first >= stay->n)
        remove_in(d, name, "");
    return 0;
}

static void remove_all_data(hs__deletion *d)
{
    hs_error error = {0};
    if (d->names.n && hs__list(d->env, d->directory, remove_data, d, &error))
        hs_log(d->env, HS_LOG_WARNING, "%s", error.message);
}

static void free_deletion(hs__deletion *d)
{
    hs__map_free(&d->names);
    hs__free(d->env, d->directory);
}

void hs__deletion_begin(hs__deletion *deletion, const hs_env *env)
{
    *deletion = (hs__deletion){.env = env};
    hs__map_init(&deletion->names, env);
}

bool hs__deletion_add(hs__deletion *deletion, const char *prefix)
{
    const hs_env *env = deletion->env;
    char *index = hs__bundle_index_path(env, prefix);
    bool gone = false;
    if (!deletion->directory)
        deletion->directory = hs__path_directory(env, prefix);
    if (index && deletion->directory) {
        hs__file_remove(env, index);
        gone = hs__file_missing(env, index);
    }
    if (!index || !deletion->directory || (gone && hs__map_add(&deletion->names, hs__path_base(prefix), 0, NULL, NULL)))
        hs__log_undeleted(env, prefix);
    hs__free(env, index);
    return gone;
}

void hs__deletion_end(hs__deletion *deletion)
{
    remove_all_data(deletion);
    for (size_t i = 0; i < deletion->names.capacity; i++)
        if (deletion->names.slots[i].name)
            remove_in(deletion, deletion->names.slots[i].name, ".meta");
    free_deletion(deletion);
}

bool hs__delete_checkpoint(const hs_env *env, const char *prefix)
{
    hs__deletion deletion;
    hs__deletion_begin(&deletion, env);
    bool gone = hs__deletion_add(&deletion, prefix);
    hs__deletion_end(&deletion);
    return gone;
}

void hs__delete_stale_data(const hs_env *env, const char *prefix, hs__data_range except)
{
    hs__deletion stale;
    hs__deletion_begin(&stale, env);
    stale.except = except;
    stale.directory = hs__path_directory(env, prefix);
    if (!stale.directory || hs__map_add(&stale.names, hs__path_base(prefix), 0, NULL, NULL))
        hs__log_undeleted(env, prefix);
    remove_all_data(&stale);
    free_deletion(&stale);
}

hs_code hs_checkpoint_remove(const hs_env *given, const char *prefix, hs_error *err)
{
    hs_env env;
    if (!prefix || !*prefix)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_checkpoint_remove: prefix is missing");
    hs_code code = hs__env_copy(&env, given, err);
    if (code)
        return code;
    if (!hs__delete_checkpoint(&env, prefix))
        return hs_error_set(err, HS_UNKNOWN, "cannot remove checkpoint '%s'; see the log", prefix);
    hs_error_clear(err);
    return HS_OK;
}

/* The newest. */

char *hs_checkpoint_latest(const hs_env *given, const char *directory, const char *state_file, hs_error *err)
{
    hs_env env;
    hs__checkpoint_state state;
    hs_error cause = {0};
    if (!directory) {
        hs_error_set(err, HS_INVALID_ARGUMENT, "hs_checkpoint_latest: directory is NULL");
        return NULL;
    }
    if (hs__env_copy(&env, given, err))
        return NULL;
    hs_error_clear(err);
    hs_code code = hs__checkpoint_state_read(&state, &env, directory, state_file, &cause);
    if (code == HS_NOT_FOUND)
        return NULL;
    if (code) {
        hs__error_copy(err, &cause);
        return NULL;
    }
    hs_file_stat found;
    char *newest = NULL;
    code = hs__checkpoint_stat(&env, state.newest, &found, &cause);
    if (code == HS_NOT_FOUND) {
        hs_log(&env, HS_LOG_ERROR, "%s: the file 'checkpoint' names '%s' as the newest checkpoint, but it %s", directory,
               state.newest,
               hs__bundle_is_v1(&env, state.newest) ? "has format V1 of TensorFlow, which is not supported"
                                                    : "does not exist");
    } else if (code) { /* it may exist */
        hs__error_copy(err, &cause);
    } else {
        newest = state.newest;
        state.newest = NULL;
    }
    hs__checkpoint_state_free(&state);
    return newest;
}

/* *found is the newest checkpoint, or NULL if that is `last`. An unreadable state file is ignored: it may be being copied.
 */
static void find_new(const hs_env *env, const char *directory, const char *last, char **found)
{
    *found = hs_checkpoint_latest(env, directory, NULL, NULL);
    if (*found && last && strcmp(*found, last) == 0) {
        hs__free(env, *found);
        *found = NULL;
    }
}

hs_code hs_checkpoint_wait(const hs_env *given, const char *directory, const char *last, double timeout_secs, char **found,
                           hs_error *err)
{
    const int64_t POLL_NS = 1000000000;
    const double LONGEST_SECS = 1e9; /* 30 years */
    hs_env env;
    if (!directory || !found || (!(timeout_secs >= 0 && timeout_secs <= LONGEST_SECS) && timeout_secs != HS_NEVER))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_checkpoint_wait: %s",
                            !directory ? "directory is NULL"
                            : !found   ? "found is NULL"
                                       : "timeout_secs must be from 0 to 1e9, or HS_NEVER");
    hs_code code = hs__env_copy(&env, given, err);
    if (code)
        return code;
    int64_t end = hs_env_monotonic_ns(&env) + (int64_t)((timeout_secs == HS_NEVER ? LONGEST_SECS : timeout_secs) * 1e9);
    for (find_new(&env, directory, last, found); !*found; find_new(&env, directory, last, found)) {
        int64_t remaining = end - hs_env_monotonic_ns(&env);
        if (remaining <= 0)
            return hs_error_set(err, HS_DEADLINE_EXCEEDED, "%s: no checkpoint other than '%s' appeared within %g s",
                                directory, last ? last : "none", timeout_secs);
        hs_env_sleep_ns(&env, remaining < POLL_NS ? remaining : POLL_NS);
    }
    hs_error_clear(err);
    return HS_OK;
}
