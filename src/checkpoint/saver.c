/* SPDX-License-Identifier: Apache-2.0 */
/* The public functions of savers, but for restoring. */
#include "checkpoint/saver.h"

#include "base/files.h"
#include "base/forks.h"
#include "checkpoint/background.h"
#include "checkpoint/rank_states.h"
#include "checkpoint/save.h"
#include "replicas/group.h"

#include <math.h>
#include <string.h>

static bool is_kept(void *user, const char *path)
{
    const hs_saver *saver = user;
    for (size_t i = 0; i < saver->n_kept; i++)
        if (hs__path_same(saver->kept[i].path, path))
            return true;
    return false;
}

static hs_code check_saver_options(const hs_saver_options *options, hs_error *err)
{
    if (options->max_to_keep < HS_NEVER)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_saver_options.max_to_keep is %lld; it must be at least 0, or HS_NEVER for all",
                            (long long)options->max_to_keep);
    if (options->keep_best < 0 || !(options->keep_checkpoint_every_n_hours >= 0))
        return hs_error_set(
            err, HS_INVALID_ARGUMENT,
            "hs_saver_options: keep_best is %lld and keep_checkpoint_every_n_hours is %g; both must be at least 0",
            (long long)options->keep_best, options->keep_checkpoint_every_n_hours);
    if (options->nonfinite < HS_NONFINITE_FAIL || options->nonfinite > HS_NONFINITE_ALLOW)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_saver_options.nonfinite is %d, not an hs_nonfinite_policy",
                            (int)options->nonfinite);
    if (options->shards < 0 || options->shards > HS__MOST_SHARDS)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_saver_options.shards is %lld; it must be from 0 to %d",
                            (long long)options->shards, HS__MOST_SHARDS);
    return HS_OK;
}

hs_saver *hs_saver_new(const hs_saver_options *given, hs_error *err)
{
    hs_saver_options options = HS_INIT(hs_saver_options);
    hs_env env;
    if ((given && HS_STRUCT_TAKE(hs_saver_options, reserved_too, &options, given, err)) ||
        hs__env_copy(&env, options.env, err) || check_saver_options(&options, err))
        return NULL;
    hs_saver *saver = hs__alloc(&env, 1, sizeof *saver);
    if (!saver) {
        hs__no_memory(err, sizeof *saver, "a saver");
        return NULL;
    }
    *saver = (hs_saver){
        .env = env,
        .max_to_keep = options.max_to_keep ? options.max_to_keep : 5,
        .keep_best = options.keep_best,
        .larger_is_better = options.larger_is_better,
        .keep_every_secs = options.keep_checkpoint_every_n_hours * 3600,
        .last_preserved = (double)hs_env_realtime_ns(&env) / 1e9, /* the first one is kept an interval from now */
        .nonfinite = options.nonfinite,
        .shards = options.shards ? (int32_t)options.shards : 1,
        .held = {.is_kept = is_kept, .user = saver},
    };
    if (hs__selection_init(&saver->selection, &saver->env, options.variables, options.names, err) ||
        hs__graph_saver_init(&saver->graph, &saver->env, &options, err)) {
        hs_saver_free(saver);
        return NULL;
    }
    hs_error_clear(err);
    return saver;
}

void hs_saver_free(hs_saver *saver)
{
    if (!saver || hs__background_is_inherited(saver))
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
    hs__selection_free(&saver->selection, &env);
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

/* Saving. */

static hs_code check_options(const hs_save_options *options, hs_error *err)
{
    if (options->state_file && (strchr(options->state_file, '/') || !*options->state_file))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_save_options.state_file '%s' is not a file name",
                            options->state_file);
    if (options->copy_limit < HS_NEVER)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_save_options.copy_limit is %lld; it must be at least 0, or HS_NEVER for no limit",
                            (long long)options->copy_limit);
    if (options->overlap && !options->background)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_save_options.overlap is set, but background is not");
    if (options->busy < HS_BUSY_WAIT || options->busy > HS_BUSY_REPLACE)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_save_options.busy is %d, not an hs_busy_policy",
                            (int)options->busy);
    return HS_OK;
}

/* Records that the session was rolled back to a snapshot: checkpoints after that step belong to an abandoned branch. */
static void record_rollback(hs_saver *saver, const hs_raw_session *session)
{
    if (!session->rolled_back)
        saver->rollback_session = NULL; /* another session may get its address later */
    if (!session->rolled_back || (saver->rollback_session == session && saver->rollback_generation == session->restores))
        return;
    hs__background_wait(saver);
    saver->rollback_session = session;
    saver->rollback_generation = session->restores;
    if (!saver->rolled_back || saver->rolled_back_to >= session->rolled_back_to)
        saver->rolled_back_to = session->rolled_back_to;
    saver->rolled_back = true;
}

/* The list is made when no save is in progress, because the session may have changed while waiting for the earlier save. */
static hs_code save(hs_saver *saver, hs_raw_session *session, const char *prefix, int64_t step,
                    const hs_save_options *options, hs_error *err)
{
    bool replaces = false;
    hs__save_list list;
    hs_code code = HS_OK;
    if (!options->background)
        hs__background_wait(saver);
    else if ((code = hs__background_begin(saver, options->busy, &replaces, err)))
        return code;
    if (!(code = hs__save_list_make(&list, &saver->env, &saver->selection, session, 0, err))) {
        hs__save_list_log_unallocated(&list);
        if (options->background)
            code = hs__background_save(saver, &list, prefix, step, options, replaces, err);
        else if (!(code = hs__save_session(saver, &list, prefix, step, options, err)))
            hs_error_clear(err);
    }
    hs__save_list_free(&list);
    return code;
}

static hs_code check_and_save(hs_saver *saver, hs_raw_session *session, const char *prefix, int64_t step,
                              const hs_save_options *given, hs_error *err)
{
    hs_save_options options = HS_INIT(hs_save_options);
    hs_code code;
    if ((given && (code = HS_STRUCT_TAKE(hs_save_options, copy_limit, &options, given, err))) ||
        (code = check_options(&options, err)) || (code = hs__selection_check(&saver->selection, session, err)))
        return code;
    record_rollback(saver, session);
    return save(saver, session, prefix, step, &options, err);
}

/* All ranks send their states to the chief, which saves. Its result is the result of all. */
static hs_code save_in_group(hs_saver *saver, hs_raw_session *session, const char *prefix, int64_t step,
                             const hs_save_options *given, hs_error *err)
{
    hs_error result = {0}, lost = {0};
    hs_code code = hs__rank_states_gather(session, &result);
    if (!code && session->rank == 0)
        code = check_and_save(saver, session, prefix, step, given, &result);
    result.code = code;
    hs__rank_states_free(session);
    code = hs__group_broadcast(session->group, &result, sizeof result, 0, &lost);
    return hs__error_copy(err, code && session->rank ? &lost : &result); /* rank 0 has saved; others may not know it */
}

hs_code hs_saver_save(hs_saver *saver, hs_raw_session *session, const char *prefix, int64_t step,
                      const hs_save_options *options, hs_error *err)
{
    hs_error_clear(err);
    if (!saver || !session || !session->handle || !prefix || !*hs__path_base(prefix))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_saver_save: %s",
                            !saver                               ? "saver is NULL"
                            : !prefix || !*hs__path_base(prefix) ? "prefix has no file name"
                                                                 : "session is NULL");
    if (hs__background_is_inherited(saver))
        return hs__refuse_inherited("saver", err);
    return session->group ? save_in_group(saver, session, prefix, step, options, err)
                          : check_and_save(saver, session, prefix, step, options, err);
}

hs_code hs_saver_hold(hs_saver *saver, const char *prefix, hs_error *err)
{
    if (!saver || !prefix || !*hs__path_base(prefix))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_saver_hold: %s",
                            saver ? "prefix has no file name" : "saver is NULL");
    hs__background_wait(saver);
    hs__new_checkpoint files;
    hs_code code;
    if (!(code = hs__new_checkpoint_begin(&files, &saver->env, prefix, -1, err)) &&
        !(code = hs__make_directory_for(&saver->env, prefix, err)))
        code = hs__hold_directory(&saver->held, &saver->env, files.directory, hs__path_base(prefix), err);
    hs__new_checkpoint_free(&files);
    if (!code)
        hs_error_clear(err);
    return code;
}

/* Pinning. */

static size_t find_kept(const hs_saver *saver, const char *path)
{
    size_t at = 0;
    while (at < saver->n_kept && !hs__path_same(saver->kept[at].path, path))
        at++;
    return at;
}

static hs_code check_in_directory(const hs_saver *saver, const char *prefix, int64_t *modified_ns, hs_error *err)
{
    const hs_env *env = &saver->env;
    const char *newest = saver->kept[saver->n_kept - 1].path;
    char *directory = hs__path_directory(env, newest);
    char *path = directory ? hs__path_join(env, directory, hs__path_base(prefix)) : NULL;
    hs_code code = HS_NOT_FOUND;
    if (!path)
        code = hs__no_memory(err, strlen(newest), "a path");
    else if (hs__path_same(path, prefix))
        code = hs_checkpoint_mtime(env, path, modified_ns, err);
    hs__free(env, directory);
    hs__free(env, path);
    return code;
}

/* With HS_NEVER, the list has only the newest checkpoint and the pinned ones. Adds another one of the same directory,
 * before the newest and in the order of the steps, so that its pin can be written to the state file. */
static hs_code add_to_list(hs_saver *saver, const char *prefix, hs_error *err)
{
    size_t last = saver->n_kept - 1, at = 0;
    hs__kept_checkpoint added = {.path = (char *)prefix, .metric = (double)NAN};
    int64_t modified_ns;
    hs_code code = check_in_directory(saver, prefix, &modified_ns, err);
    if (code)
        return code;
    added.timestamp = (double)modified_ns / 1e9;
    if ((code = hs__saver_keep(saver, &added, err)))
        return code;
    while (at < last && hs__step_in(saver->kept[at].path) < hs__step_in(prefix))
        at++;
    added = saver->kept[last + 1];
    memmove(saver->kept + at + 1, saver->kept + at, (last + 1 - at) * sizeof added);
    saver->kept[at] = added;
    return HS_OK;
}

static hs_code set_pin(hs_saver *saver, size_t at, bool pinned, hs_error *err)
{
    bool before = saver->kept[at].pinned;
    char *directory = hs__path_directory(&saver->env, saver->kept[at].path);
    hs_code code = directory ? hs__hold_directory(&saver->held, &saver->env, directory, NULL, err)
                             : hs__no_memory(err, strlen(saver->kept[at].path), "a path");
    saver->kept[at].pinned = pinned;
    if (!code)
        hs__finish_deleting(&saver->held, &saver->env, NULL);
    if (!code)
        code = hs__saver_write_state_file(saver, directory, saver->kept[saver->n_kept - 1].path, 0, err);
    if (code)
        saver->kept[at].pinned = before;
    hs__free(&saver->env, directory);
    return code;
}

hs_code hs_saver_pin(hs_saver *saver, const char *prefix, bool pinned, hs_error *err)
{
    hs_code code = HS_OK;
    if (!saver || !prefix)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_saver_pin: %s", saver ? "prefix is NULL" : "saver is NULL");
    hs__background_wait(saver);
    if (find_kept(saver, prefix) == saver->n_kept)
        code = saver->max_to_keep == HS_NEVER && saver->n_kept ? add_to_list(saver, prefix, err) : HS_NOT_FOUND;
    if (code == HS_NOT_FOUND)
        return hs_error_set(err, code, "checkpoint '%s' is not kept by the saver", prefix);
    if (!code && !(code = set_pin(saver, find_kept(saver, prefix), pinned, err)))
        hs_error_clear(err);
    return code;
}
