/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of hs_saver, but for restoring. hs_saver_save chooses the directory and makes the list of what is saved;
 * save.c, or the thread in background.c, saves it. */
#include "checkpoint/saver.h"

#include "base/files.h"
#include "base/forks.h"
#include "checkpoint/background.h"
#include "checkpoint/commit.h"
#include "checkpoint/rank_parts.h"
#include "checkpoint/rank_states.h"
#include "checkpoint/rank_variables.h"
#include "checkpoint/save.h"
#include "checkpoint/shards.h"
#include "ranks/ranks.h"

#include <math.h>
#include <string.h>

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
    if (options->shards < 0 || options->shards > HS__MOST_SHARDS)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_saver_options.shards is %lld; it must be from 0 to %d",
                            (long long)options->shards, HS__MOST_SHARDS);
    if (options->saver_def.size && !options->saver_def.data)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_saver_options.saver_def.data is NULL, but its size is not 0");
    if ((options->save_variables || options->restore_variables) && (options->variables || options->names))
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_saver_options.%s excludes variables and names, because the function selects the variables",
                            options->save_variables ? "save_variables" : "restore_variables");
    return HS_OK;
}

hs_saver *hs_saver_new(const hs_saver_options *given, hs_error *err)
{
    hs_saver_options options = HS_INIT(hs_saver_options);
    hs_env env;
    if ((given && HS_STRUCT_TAKE(hs_saver_options, user, &options, given, err)) || hs__env_copy(&env, options.env, err) ||
        check_saver_options(&options, err))
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
        .created = (double)hs_env_realtime_ns(&env) / 1e9, /* the first one is kept an interval from now */
        .allow_nonfinite = options.allow_nonfinite,
        .shards = options.shards ? (int32_t)options.shards : 1,
        .save_variables = options.save_variables,
        .restore_variables = options.restore_variables,
        .user = options.user,
    };
    const hs_bytes def = options.saver_def;
    saver->saver_def = (hs_bytes){def.size ? hs__strndup(&env, def.data, def.size) : NULL, def.size};
    if (hs__selection_init(&saver->selection, &saver->env, options.variables, options.names, err) ||
        (def.size && !saver->saver_def.data && hs__no_memory(err, def.size, "a SaverDef"))) {
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
    while (saver->directories) {
        hs__saver_directory *first = saver->directories;
        saver->directories = first->next;
        hs__release_directory(&first->held, &env);
        for (size_t i = 0; i < first->n_kept; i++)
            hs__free(&env, first->kept[i].path);
        hs__free(&env, first->kept);
        hs__free(&env, first->last_path);
        hs__free(&env, first->state_file);
        hs__free(&env, first->path);
        hs__free(&env, first);
    }
    hs__free(&env, (void *)saver->saver_def.data);
    hs__selection_free(&saver->selection, &env);
    hs__free(&env, saver);
}

/* The directory that was used last; NULL: none. */
static const hs__saver_directory *last_directory(const hs_saver *saver)
{
    if (saver)
        hs__background_wait(saver);
    return saver ? saver->directories : NULL;
}

const char *hs_saver_last_path(const hs_saver *saver)
{
    const hs__saver_directory *last = last_directory(saver);
    return last ? last->last_path : NULL;
}

int64_t hs_saver_last_bytes(const hs_saver *saver)
{
    const hs__saver_directory *last = last_directory(saver);
    return last ? last->last_bytes : 0;
}

const char *hs_saver_checkpoint(const hs_saver *saver, size_t index)
{
    const hs__saver_directory *last = last_directory(saver);
    return last && index < last->n_kept ? last->kept[index].path : NULL;
}

/* The directories of a saver: each has its own list of kept checkpoints, last path and lock. */

hs__saver_directory *hs__saver_find_directory(const hs_saver *saver, const char *path)
{
    hs__saver_directory *found = saver->directories;
    while (found && !hs__path_is_in(path, found->path))
        found = found->next;
    return found;
}

hs__saver_directory *hs__saver_use_directory(hs_saver *saver, const char *path, hs_error *err)
{
    hs__saver_directory *used = hs__saver_find_directory(saver, path), **at = &saver->directories;
    if (!used) {
        used = hs__alloc(&saver->env, 1, sizeof *used);
        char *name = hs__path_directory(&saver->env, path);
        if (!used || !name) {
            hs__free(&saver->env, used);
            hs__free(&saver->env, name);
            hs__no_memory(err, strlen(path), "a directory of a saver");
            return NULL;
        }
        *used = (hs__saver_directory){.saver = saver, .path = name, .last_preserved = saver->created};
        atomic_init(&used->has_result, false);
    }
    while (*at && *at != used)
        at = &(*at)->next;
    if (*at)
        *at = used->next;
    used->next = saver->directories;
    return saver->directories = used;
}

int64_t hs__saver_restores(const hs__saver_directory *directory, const hs_raw_session *session)
{
    return directory->opened == session->first_opened ? directory->restores : 0;
}

hs_code hs__saver_set_text(const hs_saver *saver, char **text, const char *with, hs_error *err)
{
    const hs_env *env = &saver->env;
    char *copy = hs__strdup(env, with);
    if (!copy)
        return hs__no_memory(err, strlen(with), "a path");
    hs__free(env, *text);
    *text = copy;
    return HS_OK;
}

hs_code hs__saver_hold_directory(hs__saver_directory *directory, const char *base, const void *session, hs_error *err)
{
    const hs_env *env = &directory->saver->env;
    for (hs__saver_directory *other = directory->saver->directories; other; other = other->next)
        if (other != directory && !other->stays_held)
            hs__release_directory(&other->held, env);
    hs_code code = hs__hold_directory(&directory->held, env, directory->path, base, err);
    if (!code && session && !hs__lock_is_open_to(env, directory->held.lock, session))
        code = hs_error_set(err, HS_FAILED_PRECONDITION,
                            "cannot save to '%s': another session of this process saves there; close it first, or use "
                            "another directory",
                            directory->path);
    return code;
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
    if (options->max_to_keep < HS_NEVER)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_save_options.max_to_keep is %lld; it must be at least 0, or HS_NEVER for all",
                            (long long)options->max_to_keep);
    if (options->overlap && !options->background)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_save_options.overlap is set, but background is not");
    if (options->busy < HS_BUSY_WAIT || options->busy > HS_BUSY_REPLACE)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_save_options.busy is %d, not an hs_busy_policy",
                            (int)options->busy);
    return HS_OK;
}

/* Sets the branch of a request: the step after which checkpoints BASE-STEP of the directory are of an abandoned branch. If
 * this session has returned to an earlier step since it last saved there, the earliest such step. If it saves there for the
 * first time, checkpoints of another training may be there: after a restore from there or from memory, it is the same;
 * otherwise, the step that it saves. -1: there are no such checkpoints. */
static void find_branch(hs__save_request *request, const char *base)
{
    const hs__saver_directory *directory = request->directory;
    const hs_raw_session *session = request->session;
    const char *from = session->restored_from;
    const size_t length = strlen(base);
    const bool same_session = directory->opened == session->first_opened;
    const bool from_here = from && hs__path_is_in(from, directory->path) &&
                           strncmp(hs__path_base(from), base, length) == 0 && hs__path_base(from)[length] == '-';
    int64_t restores = hs__saver_restores(directory, session); /* returns since count */
    if (from_here && restores < session->restores)
        restores = session->is_newest ? session->restores : session->restores - 1;
    const int64_t branch_step = hs__raw_session_branch_step(session, restores);
    request->is_own_branch = same_session || from_here;
    if (branch_step >= 0 && (from_here || !from || (same_session && session->is_return)))
        request->branch_step = branch_step;
    else
        request->branch_step = request->is_own_branch ? -1 : request->step;
}

/* Saves, or starts a save in the background. */
static hs_code begin_save(hs_saver *saver, hs_raw_session *session, const char *prefix, int64_t step,
                          const hs_save_options *given, hs__rank_sums *sums, hs_error *err)
{
    hs__save_request request = {.prefix = prefix,
                                .step = step,
                                .options = HS_INIT(hs_save_options),
                                .opened = session->first_opened,
                                .restores = session->restores,
                                .session = session,
                                .sums = sums};
    const hs_save_options *options = &request.options;
    hs_code code;
    if ((given && (code = HS_STRUCT_TAKE(hs_save_options, max_to_keep, &request.options, given, err))) ||
        (code = check_options(options, err)) || (code = hs__selection_check(&saver->selection, session, err)))
        return code;
    if (!options->state_file)
        request.options.state_file = "checkpoint";
    if (!options->background)
        hs__background_wait(saver);
    else if ((code = hs__background_begin(saver, prefix, options->busy, err)))
        return code;

    /* No save is in progress, so that the list of kept checkpoints and the branch are those of now. */
    if (!(request.directory = hs__saver_use_directory(saver, prefix, err)))
        return HS_RESOURCE_EXHAUSTED;
    find_branch(&request, hs__path_base(prefix));
    hs__save_list list;
    code = hs__save_list_make(&list, &saver->env, &saver->selection, session, err);
    if (!code && !options->no_meta_graph) {
        code = hs__meta_graph(&saver->env, session->backend, saver, &list.meta, err);
        if (code == HS_UNIMPLEMENTED) { /* the backend has no graph */
            hs_error_clear(err);
            code = HS_OK;
        }
    }
    if (!code) {
        const hs__item_source source = hs__save_list_source(&list);
        hs__save_list_log_unallocated(&list);
        request.bytes = list.bytes < INT64_MAX ? (int64_t)list.bytes : 0;
        code = options->background ? hs__background_save(&request, &list, err) : hs__save(&request, &source, err);
    }
    hs__save_list_free(&list);
    if (!code && !options->background)
        hs_error_clear(err);
    return code;
}

/* At the chief: saves its state and the parts of the other ranks, and compares its variables with theirs, unless *result,
 * that of comparing the states, is a failure. Sets *result. Fails only if the group does. */
static hs_code save_all_ranks(hs_saver *saver, hs_raw_session *session, const char *prefix, int64_t step,
                              const hs_save_options *options, uint64_t bytes, hs_error *result, hs_error *err)
{
    hs__rank_parts parts = {.session = session, .bytes = bytes};
    hs__rank_sums sums = {.env = NULL};
    const bool compares = session->rank_count > 1 && !result->code;
    session->rank_parts = &parts;
    if (compares) {
        hs__rank_sums_init(&sums, &saver->env, session, HS__TOPIC_SAVE);
        hs__rank_sums_name(&sums, session, saver->save_variables ? NULL : &saver->selection);
        sums.parts = &parts;
    }
    if (!result->code)
        result->code = begin_save(saver, session, prefix, step, options, compares ? &sums : NULL, result);
    session->rank_parts = NULL;
    hs__rank_sums_free(&sums);
    return hs__rank_parts_end(&parts, err);
}

/* At another rank: computes the checksums of its variables, and sends what the chief orders. */
static hs_code send_to_chief(const hs_saver *saver, hs_raw_session *session, hs_error *err)
{
    hs__rank_sums sums;
    hs__buffer message;
    hs__rank_sums_init(&sums, &saver->env, session, HS__TOPIC_SAVE);
    if (!saver->save_variables)
        hs__rank_sums_compute(&sums, session, NULL);
    hs__rank_sums_message(&sums, &message);
    hs_code code = hs__rank_parts_send(session, (hs_bytes){message.data, message.failed ? 0 : message.size}, err);
    hs__buffer_free(&message);
    hs__rank_sums_free(&sums);
    return code;
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
    if (!session->ranks)
        return begin_save(saver, session, prefix, step, options, NULL, err);

    /* The ranks compare their states. Then the chief saves, while the others send theirs. Its result is that of all. */
    hs_error result, lost = {0};
    uint64_t bytes;
    hs_code code = hs__rank_states_compare(session, &bytes, &result, err);
    if (code)
        return code;
    code = session->rank ? send_to_chief(saver, session, err)
                         : save_all_ranks(saver, session, prefix, step, options, bytes, &result, err);
    if (code)
        return code;
    code = hs__ranks_from_chief(session->ranks, HS__TOPIC_SAVE, &result, sizeof result, &lost);
    return hs__error_copy(err, code && session->rank ? &lost : &result); /* rank 0 has saved; others may not know it */
}

hs_code hs_saver_hold(hs_saver *saver, const hs_raw_session *session, const char *prefix, hs_error *err)
{
    if (!saver || !prefix || !*hs__path_base(prefix))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_saver_hold: %s",
                            saver ? "prefix has no file name" : "saver is NULL");
    hs__background_wait(saver);
    hs__saver_directory *directory = hs__saver_use_directory(saver, prefix, err);
    hs_code code;
    if (!directory)
        return HS_RESOURCE_EXHAUSTED;
    if ((code = hs__make_directory_for(&saver->env, prefix, err)) ||
        (code = hs__saver_hold_directory(directory, hs__path_base(prefix), session ? (const void *)session : saver, err)))
        return code;
    directory->stays_held = true;
    if (session)
        hs__lock_claim(&saver->env, directory->held.lock, session);
    hs_error_clear(err);
    return HS_OK;
}

/* Pinning. */

static hs__kept_checkpoint *find_kept(const hs__saver_directory *directory, const char *path)
{
    for (size_t i = 0; i < directory->n_kept; i++)
        if (hs__path_same(directory->kept[i].path, path))
            return &directory->kept[i];
    return NULL;
}

/* With HS_NEVER, the list has only the newest checkpoint and the pinned ones. Adds another one of the directory, before the
 * newest and in the order of the steps, so that its pin can be written to the state file. */
static hs_code add_to_list(hs__saver_directory *directory, const char *prefix, hs_error *err)
{
    size_t last = directory->n_kept - 1, at = 0;
    hs__kept_checkpoint added = {.path = (char *)prefix, .metric = (double)NAN}, *kept;
    int64_t modified_ns;
    hs_code code = hs_checkpoint_mtime(&directory->saver->env, prefix, &modified_ns, err);
    if (code)
        return code;
    added.timestamp = (double)modified_ns / 1e9;
    if ((code = hs__saver_keep(directory, &added, 1, err)))
        return code;
    kept = directory->kept;
    while (at < last && hs__step_in(kept[at].path) < hs__step_in(prefix))
        at++;
    added = kept[last + 1];
    memmove(kept + at + 1, kept + at, (last + 1 - at) * sizeof added);
    kept[at] = added;
    return HS_OK;
}

/* Changes an entry of the list, and writes the state file. */
static hs_code change(hs__saver_directory *directory, hs__kept_checkpoint *kept, const hs__kept_checkpoint *changed,
                      hs_error *err)
{
    const hs__kept_checkpoint before = *kept;
    hs_code code = hs__saver_hold_directory(directory, NULL, NULL, err);
    if (code)
        return code;
    *kept = *changed;
    hs__finish_deleting(&directory->held, &directory->saver->env, NULL, directory->kept, directory->n_kept);
    code = hs__saver_write_state_file(directory, directory->kept[directory->n_kept - 1].path, 0, err);
    if (code)
        *kept = before;
    else
        hs_error_clear(err);
    return code;
}

static hs_code not_kept(const char *prefix, hs_error *err)
{
    return hs_error_set(err, HS_NOT_FOUND, "checkpoint '%s' is not kept by the saver", prefix);
}

hs_code hs_saver_pin(hs_saver *saver, const char *prefix, bool pinned, hs_error *err)
{
    hs_code code = HS_OK;
    if (!saver || !prefix)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_saver_pin: %s", saver ? "prefix is NULL" : "saver is NULL");
    hs__background_wait(saver);
    hs__saver_directory *directory = hs__saver_find_directory(saver, prefix);
    if (!directory || !directory->n_kept)
        return not_kept(prefix, err);
    if (!find_kept(directory, prefix))
        code = saver->max_to_keep == HS_NEVER ? add_to_list(directory, prefix, err) : HS_NOT_FOUND;
    if (code)
        return code == HS_NOT_FOUND ? not_kept(prefix, err) : code;
    hs__kept_checkpoint *kept = find_kept(directory, prefix), changed = *kept;
    changed.pinned = pinned;
    return change(directory, kept, &changed, err);
}

hs_code hs_saver_set_metric(hs_saver *saver, const char *prefix, double metric, hs_error *err)
{
    if (!saver || !prefix)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_saver_set_metric: %s",
                            saver ? "prefix is NULL" : "saver is NULL");
    hs__background_wait(saver);
    hs__saver_directory *directory = hs__saver_find_directory(saver, prefix);
    hs__kept_checkpoint *kept = directory ? find_kept(directory, prefix) : NULL, changed;
    if (!kept)
        return not_kept(prefix, err);
    changed = *kept;
    changed.metric = metric;
    return change(directory, kept, &changed, err);
}
