/* SPDX-License-Identifier: Apache-2.0 */
/* The files of checkpoints: whether they exist, their time, removing them, waiting for a new one. */
#include <hooksess/checkpoint.h>

#include "base/files.h"
#include "checkpoint/directory.h"
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
