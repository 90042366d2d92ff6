/* SPDX-License-Identifier: Apache-2.0 */
/* Returning to the last good state (last_good.h). The walk over the checkpoints is hs__restore_from; this file selects what
 * it restores, and owns the copy in memory. */
#include "session/session.h"

#include "base/paths.h"
#include "base/text.h"
#include "checkpoint/directory.h"
#include "checkpoint/restore.h"

#include <stdio.h>
#include <string.h>

/* Restoring a checkpoint. */

static hs_saver *scaffold_saver(const struct hs_session *session)
{
    return hs_scaffold_fields(session->scaffold)->saver;
}

static void log_restored(hs_raw_session *session, const hs_saver *saver, const char *path, int64_t began_ns)
{
    char bytes[HS__NUMBER_TEXT], secs[HS__NUMBER_TEXT], at[48] = "";
    int64_t step = hs_raw_session_global_step(session, NULL);
    if (step >= 0)
        snprintf(at, sizeof at, "step %lld: ", (long long)step);
    hs_log(&session->env, HS_LOG_INFO, "%srestored %s (%s, %s)", at, path,
           hs__bytes_text(bytes, (uint64_t)hs_saver_last_bytes(saver)),
           hs__secs_text(secs, (double)(hs_env_monotonic_ns(&session->env) - began_ns) / 1e9));
}

static bool restores_partly(const hs_restore_options *options)
{
    return (options->skip && *options->skip) || options->allow_missing;
}

/* A later state was saved: the copy would repeat saved steps. */
static bool is_copy_outdated(const struct hs_session *session)
{
    return session->raw.saved_step > hs_state_copy_step(session->last_good.copy);
}

/* Restores what the session names or finds at the opening; in a recovery, the copy instead, if the opening did not restore
 * the whole newest checkpoint of checkpoint_dir. */
static hs__restore_source source_of_opening(const struct hs_session *session, bool opening)
{
    const hs__creation *creation = &session->creation;
    const bool has_copy = !opening && session->last_good.copy;
    if (has_copy && (creation->checkpoint_prefix || restores_partly(&creation->restore_options)))
        return (hs__restore_source){.path = NULL};
    if (creation->checkpoint_prefix)
        return (hs__restore_source){.path = creation->checkpoint_prefix};
    if (creation->restore == HS_RESTORE_NEVER && (opening || !session->last_good.in_directory))
        return (hs__restore_source){.path = NULL};
    return (hs__restore_source){.directory = creation->checkpoint_dir};
}

hs_code hs__last_good_restore(struct hs_session *session, bool recovering, bool *restored, hs_error *err)
{
    const hs__creation *creation = &session->creation;
    const int64_t began_ns = hs_env_monotonic_ns(&session->env);
    const hs__restore_source from = source_of_opening(session, !recovering);
    hs_saver *saver = scaffold_saver(session);
    char *path = NULL;
    *restored = false;
    if (!creation->checkpoint_prefix && !creation->checkpoint_dir)
        return HS_OK;
    hs_code code = hs__restore_from(saver, &session->raw, &from, &creation->restore_options, &path, err);
    *restored = path;
    if (path)
        log_restored(&session->raw, saver, path, began_ns);
    else if (!code && !recovering && from.directory && creation->restore == HS_RESTORE_REQUIRE)
        code = hs_error_set(err, HS_NOT_FOUND, "%s: a checkpoint is required (HS_RESTORE_REQUIRE), but none exists",
                            creation->checkpoint_dir);
    hs__free(&session->env, path);
    return code;
}

/* The copy. */

/* True if saved variables are in the program's memory. Then a new session of the backend has the values of the lost one. */
static bool has_outliving_variables(const struct hs_session *session)
{
    hs_variable variable;
    for (size_t i = 0; hs_backend_variable(session->raw.backend, i, &variable); i++)
        if (variable.flags & HS_VARIABLE_OUTLIVES && !(variable.flags & HS_VARIABLE_LOCAL))
            return true;
    return false;
}

hs_code hs__last_good_initialize(struct hs_session *session, hs_error *err)
{
    hs_raw_session *raw = &session->raw;
    if (!session->last_good.copy && has_outliving_variables(session))
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "cannot recover: no checkpoint exists, and the initial state was not copied "
                            "(hs_recovery.snapshot_limit)");
    hs_code code = hs__startup_initialize(session, err);
    if (code || session->last_good.copy)
        return code ? code : hs_raw_session_restore_copy(raw, session->last_good.copy, err);
    if (raw->restored_from) /* by the init function */
        hs__raw_session_returned(raw, false);
    else if (!(code = hs__raw_session_reserve_return(raw, err)))
        hs__raw_session_reinitialized(raw);
    return code;
}

static bool within_limit(const struct hs_session *session)
{
    hs_variable variable;
    int64_t bytes = 0, limit = session->recovery.options.snapshot_limit;
    for (size_t i = 0; limit != HS_NEVER && hs_backend_variable(session->raw.backend, i, &variable); i++) {
        int64_t elements = hs_shape_elements(&variable.shape), size = (int64_t)hs_dtype_size(variable.dtype);
        if (variable.flags & HS_VARIABLE_LOCAL || elements <= 0 || size == 0)
            continue;
        if (elements > (limit - bytes) / size)
            return false;
        bytes += elements * size;
    }
    return true;
}

static char *newest_checkpoint(const struct hs_session *session)
{
    const char *directory = session->creation.checkpoint_dir;
    return directory ? hs_checkpoint_latest(&session->env, directory, NULL, NULL) : NULL;
}

/* True if the newest checkpoint in checkpoint_dir has the step that this session has restored or saved. It may have done so
 * elsewhere: with checkpoint_prefix, in an init function, by a hook with another directory; then the newest one may be of
 * another training. */
static bool is_newest_of_session(const struct hs_session *session)
{
    char *newest = newest_checkpoint(session);
    const bool is = newest && session->raw.saved_step >= 0 && hs__step_in(newest) == session->raw.saved_step;
    hs_env_free(&session->env, newest);
    return is;
}

hs_code hs__last_good_copy_state(struct hs_session *session, hs_error *err)
{
    hs_raw_session *raw = &session->raw;
    hs_error error = {0};
    const bool recovers = session->recovery.options.max_attempts >= 0, is_wanted = session->last_good.is_wanted;
    const char *what = recovers ? is_wanted ? "recovery and rollback" : "recovery" : "rollback";
    if ((!recovers && !is_wanted) || session->creation.is_worker || !raw->ops.read_variable || !raw->ops.write_variable)
        return HS_OK;
    if (!restores_partly(&session->creation.restore_options) && is_newest_of_session(session))
        return HS_OK;
    if (!within_limit(session)) {
        hs_log(&session->env, HS_LOG_WARNING,
               "the initial state is larger than hs_recovery.snapshot_limit (%lld bytes) and is not copied; %s is "
               "impossible until a checkpoint is saved",
               (long long)session->recovery.options.snapshot_limit, what);
        return HS_OK;
    }
    hs_code code = hs_raw_session_copy_state(raw, &session->last_good.copy, &error);
    if (code && is_wanted)
        return hs__error_copy(err, &error);
    if (code)
        hs_log(&session->env, HS_LOG_WARNING,
               "cannot copy the initial state; %s is impossible until a checkpoint is saved: %s", what, error.message);
    return HS_OK;
}

void hs__last_good_free(struct hs_session *session)
{
    hs_state_copy_free(session->last_good.copy);
    session->last_good.copy = NULL;
}

void hs__last_good_saved(struct hs_session *session)
{
    hs_restore_options *options = &session->creation.restore_options;
    session->last_good.has_saved = true;
    if (session->recovery.options.max_attempts < 0 && is_copy_outdated(session)) /* a recovery does not need it */
        hs__last_good_free(session);
    if (session->last_good.in_directory)
        return;
    if (!(session->last_good.in_directory = is_newest_of_session(session)))
        return;
    hs__last_good_free(session);
    options->skip = NULL; /* this session's checkpoints are complete, and have its own names */
    options->names = NULL;
    options->allow_missing = false;
}

/* Returning in an open session. */

/* The checkpoint of that step among those that the saver keeps. NULL: another saver has saved it. */
static const char *find_saved(const hs_saver *saver, int64_t step)
{
    const char *path = NULL;
    for (size_t i = 0; (path = hs_saver_checkpoint(saver, i)) && hs__step_in(path) != step;)
        i++;
    return path;
}

/* What a rollback restores if its saver has not saved: as a recovery; but variables that the opening skipped are restored
 * by the copy alone. An init function may have restored a checkpoint. */
static hs__restore_source source_of_recovery(const struct hs_session *session)
{
    const hs__creation *creation = &session->creation;
    if (restores_partly(&creation->restore_options))
        return (hs__restore_source){.path = NULL};
    if (!creation->checkpoint_prefix && !creation->checkpoint_dir)
        return (hs__restore_source){.path = session->raw.restored_from, .whole = true};
    return source_of_opening(session, false);
}

static hs_code restore_copy(struct hs_session *session, hs_error *err)
{
    hs_raw_session *raw = &session->raw;
    bool any;
    if (!session->last_good.copy || is_copy_outdated(session))
        return !session->last_good.has_saved
                   ? hs_error_set(err, HS_FAILED_PRECONDITION,
                                  "no checkpoint was saved, and no copy is in memory; save sooner")
                   : hs_error_set(err, HS_FAILED_PRECONDITION,
                                  "step %lld was saved, but no checkpoint was found; give the hook the saver that saves",
                                  (long long)raw->saved_step);
    hs_code code = hs_raw_session_restore_copy(raw, session->last_good.copy, err);
    return code ? code : hs__ranks_any(raw->ranks, HS__TOPIC_RESTORE, false, &any, err); /* waits for all ranks */
}

hs_code hs__raw_session_roll_back(hs_raw_session *raw, hs_saver *saver, hs_error *err)
{
    struct hs_session *session = raw->owner;
    const int64_t saved_step = raw->saved_step;
    char *directory = NULL, *path = NULL;
    saver = saver ? saver : scaffold_saver(session);
    hs_saver_wait(saver); /* its save in the background may be the first */
    const char *saved = session->last_good.has_saved ? find_saved(saver, saved_step) : NULL;
    if (saved && !(directory = hs__path_directory(&session->env, saved)))
        return hs__no_memory(err, strlen(saved), "a path");
    const hs__restore_source from =
        saved ? (hs__restore_source){.directory = directory, .whole = true} : source_of_recovery(session);
    hs_code code = HS_OK;
    if (saver)
        code = hs__restore_from(saver, raw, &from, &session->creation.restore_options, &path, err);
    if (!code && !path)
        code = restore_copy(session, err);
    if (code) /* this rank may have restored a checkpoint in which another has found damage */
        raw->saved_step = saved_step;
    hs__free(&session->env, directory);
    hs__free(&session->env, path);
    return code;
}

/* Whether the checkpoint is whole on this rank. Logs why not. */
static bool is_whole(const struct hs_session *session, const char *path)
{
    hs_error why = {0};
    hs__archive archive;
    hs_code code = hs__archive_open(&archive, HS__BUNDLE, &session->env, path, &why);
    if (!code) {
        code = hs__archive_verify_all(&archive, &why);
        hs__archive_close(&archive);
    }
    if (code)
        hs_log(&session->env, HS_LOG_WARNING, "checkpoint '%s' skipped: %s", path, why.message);
    return !code;
}

hs_code hs__raw_session_return_to(hs_raw_session *raw, hs_saver *saver, int64_t step, bool *found, hs_error *err)
{
    struct hs_session *session = raw->owner;
    const int64_t saved_step = raw->saved_step;
    char path[HS__PATH_SIZE] = "", *restored = NULL;
    bool damaged;
    *found = false;
    saver = saver ? saver : scaffold_saver(session);
    hs_saver_wait(saver);
    const char *known = hs_saver_checkpoint(saver, 0) ? hs_saver_checkpoint(saver, 0) : raw->restored_from;
    const char *dash = known ? strrchr(known, '-') : NULL;
    if (dash && !session->raw.rank) {
        int length = snprintf(path, sizeof path, "%.*s-%lld", (int)(dash - known), known, (long long)step);
        if (length < 0 || (size_t)length >= sizeof path || !hs_checkpoint_exists(&session->env, path))
            memset(path, 0, sizeof path);
    }
    hs_code code = hs__ranks_from_chief(raw->ranks, HS__TOPIC_RESTORE, path, sizeof path, err);
    if (code || !path[0] || !saver)
        return code;
    if ((code = hs__ranks_any(raw->ranks, HS__TOPIC_RESTORE, !is_whole(session, path), &damaged, err)) || damaged)
        return code;
    code = hs__restore_from(saver, raw, &(hs__restore_source){.path = path, .whole = true}, HS_RESTORE_OPTIONS(), &restored,
                            err);
    *found = restored;
    hs__free(&session->env, restored);
    if (!code) {
        hs__raw_session_restored_earlier(raw, step);
    } else {
        raw->saved_step = saved_step;
        hs_raw_session_refuse_saves(raw, err);
    }
    return code;
}

void hs__raw_session_want_last_good(hs_raw_session *raw)
{
    raw->owner->last_good.is_wanted = true;
}
