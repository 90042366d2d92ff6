/* SPDX-License-Identifier: Apache-2.0 */
/* The files of checkpoints: whether they exist, their time, removing them, finding the newest, waiting for a new one. */
#include <hooksess/checkpoint.h>

#include "base/files.h"
#include "checkpoint/directory.h"
#include "checkpoint/state_file.h"
#include "formats/bundle.h"

#include <string.h>

bool hs_checkpoint_exists(const hs_env *given, const char *prefix)
{
    hs_env env;
    if (!prefix || hs__env_copy(&env, given, NULL))
        return false;
    char *index = hs__bundle_index_path(&env, prefix);
    bool exists = index && hs__file_exists(&env, index);
    hs__free(&env, index);
    return exists;
}

hs_code hs_checkpoint_mtime(const hs_env *given, const char *prefix, int64_t *ns, hs_error *err)
{
    hs_env env;
    hs_file_stat found;
    if (!prefix || !*prefix || !ns)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_checkpoint_mtime: %s", ns ? "prefix is missing" : "ns is NULL");
    hs_code code = hs__env_copy(&env, given, err);
    if (code)
        return code;
    char *index = hs__bundle_index_path(&env, prefix);
    if (!index)
        return hs__no_memory(err, strlen(prefix), "a path");
    if (!(code = hs__stat(&env, index, &found, err))) {
        *ns = found.modified_ns;
        hs_error_clear(err);
    }
    hs__free(&env, index);
    return code;
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
    char *newest = NULL, *index = hs__bundle_index_path(&env, state.newest);
    code = index ? hs__stat(&env, index, &found, &cause) : hs__no_memory(&cause, strlen(directory), "a path");
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
    hs__free(&env, index);
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
