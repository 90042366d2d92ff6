/* SPDX-License-Identifier: Apache-2.0 */
/* One save: hs__save, at the end, calls the steps of the protocol in saver.h in their order. */
#include "checkpoint/save.h"

#include "base/files.h"
#include "checkpoint/commit.h"
#include "checkpoint/shards.h"

#include <errno.h>
#include <math.h>
#include <string.h>

/* Step 1 if a function of the program saves the variables: it writes a bundle to a temporary directory, from which they are
 * copied. */

typedef struct {
    hs__bundle_reader variables;
    const hs__item_source *session;
} program_source;

static uint64_t size_of(const void *user, size_t at, bool *follows)
{
    *follows = false;
    return ((const program_source *)user)->variables.entries[at].bytes;
}

static hs_code copied_variable(void *user, size_t at, hs__save_item *item, hs_error *err)
{
    program_source *program = user;
    (void)err;
    *item = (hs__save_item){.name = program->variables.entries[at].name, .copied_from = &program->variables};
    return HS_OK;
}

static hs_code visit_states(void *user, hs__visit_item_fn visit, void *visitor, hs_error *err)
{
    const hs__item_source *session = ((program_source *)user)->session;
    return session->visit_states(session->self, visit, visitor, err);
}

static hs_code write_by_program(const hs__save_request *request, const hs__new_checkpoint *files,
                                const hs__item_source *source, hs_error *err)
{
    const hs_saver *saver = request->directory->saver;
    const hs_env *env = &saver->env;
    program_source program = {.session = source};
    char *directory = hs__format(env, "%s" HS__VARIABLES_TMP, files->prefix);
    char *prefix = directory ? hs__path_join(env, directory, "variables") : NULL;
    hs_code code = prefix ? HS_OK : hs__no_memory(err, strlen(files->prefix), "a path");
    if (!code) {
        hs__remove_all(env, directory); /* of a failed save. What remains would be taken for what the program writes */
        code = hs__file_result(env->files.ops->make_directory(env->files.user, directory, err), directory, err);
        if (code == HS_ALREADY_EXISTS && !env->files.ops->remove_directory) {
            hs__clear(err); /* it is empty */
            code = HS_OK;
        }
    }
    if (!code) {
        code = saver->save_variables(saver->user, request->session, prefix, err);
        code = hs__normalize_error(code, "save_variables", err);
        if (!code && !(code = hs__bundle_reader_open(&program.variables, env, prefix, err))) {
            const hs__item_source copied = {.self = &program,
                                            .n = program.variables.n_entries,
                                            .size = size_of,
                                            .variable = copied_variable,
                                            .visit_states = visit_states};
            code = hs__shards_write(files, &copied, request->sums, saver->allow_nonfinite, err);
            hs__bundle_reader_close(&program.variables);
        }
        hs__remove_all(env, directory);
    }
    hs__free(env, directory);
    hs__free(env, prefix);
    return code;
}

/* Between steps 3 and 4: the checkpoint exists. The saver deletes it when it expires, even if the rest of the save fails.
 * Checkpoints of an abandoned branch leave the list, so that step 4 renames them. */
static hs_code keep(const hs__save_request *request, char *path, hs_error *err)
{
    hs__saver_directory *directory = request->directory;
    hs__kept_checkpoint newest = {.path = path,
                                  .timestamp = (double)hs_env_realtime_ns(&directory->saver->env) / 1e9,
                                  .metric = request->options.has_metric ? request->options.metric : (double)NAN};
    if (request->branch_step >= 0) {
        hs__saver_drop_later(directory, hs__path_base(request->prefix), request->branch_step);
        directory->held.branch_clear = false;
    }
    directory->opened = request->opened;
    directory->restores = request->restores;
    return hs__saver_keep(directory, &newest, 1, err);
}

/* Step 4. Once for each lock, as no other process saves there meanwhile; and once after a restore. */
static hs_code abandon_branch(const hs__save_request *request, hs_error *err)
{
    hs__saver_directory *directory = request->directory;
    hs__held_directory *held = &directory->held;
    int64_t from = request->branch_step, step = request->step;
    if (step < 0 || (held->branch_clear && from < 0))
        return HS_OK;
    hs_code code = hs__abandon_later(held, &directory->saver->env, hs__path_base(request->prefix),
                                     from >= 0 && from < step ? from : step, directory->kept, directory->n_kept,
                                     request->is_own_branch ? HS_LOG_INFO : HS_LOG_WARNING, err);
    held->branch_clear = !code;
    held->needs_sweep = code != HS_OK;
    return code;
}

hs_code hs__save(const hs__save_request *request, const hs__item_source *source, hs_error *err)
{
    const hs_save_options *options = &request->options;
    hs__saver_directory *directory = request->directory;
    const hs_saver *saver = directory->saver;
    const hs_env *env = &saver->env;
    const char *base = hs__path_base(request->prefix);
    const bool listed = !options->no_state_file; /* in the state file */
    hs__new_checkpoint files;
    hs_code code = hs__new_checkpoint_begin(&files, env, request->prefix, request->step, err);
    files.cancel = request->cancel;

    /* Step 0. Also checks the space: a save that cannot complete would fill the disk. */
    if (!code && listed && strcmp(hs__path_base(files.prefix), options->state_file) == 0)
        code = hs_error_set(err, HS_FAILED_PRECONDITION,
                            "cannot save '%s': the state file, which names the newest checkpoint, has the same name",
                            files.prefix);
    if (!code)
        code = hs__make_directory_for(env, files.prefix, err);
    if (!code && !(code = hs__saver_hold_directory(directory, base, request->session, err)) && listed)
        hs__finish_deleting(&directory->held, env, options->state_file, directory->kept, directory->n_kept);
    if (!code) {
        const uint64_t needed = source->bytes * (saver->save_variables ? 2 : 1),
                       room = hs__free_space(env, files.directory);
        if (needed > room)
            code =
                hs_error_set_errno(err, ENOSPC, "cannot save '%s': it needs %llu bytes, but only %llu are free on the disk",
                                   files.prefix, (unsigned long long)needed, (unsigned long long)room);
    }

    /* Step 1. */
    if (!code && !(code = hs__new_checkpoint_files(&files, saver->shards, err)))
        code = saver->save_variables ? write_by_program(request, &files, source, err)
                                     : hs__shards_write(&files, source, request->sums, saver->allow_nonfinite, err);
    if (!code && source->meta.data) {
        files.has_meta = true;
        code = hs__file_write_synced(env, files.meta_tmp, source->meta.data, source->meta.size, err);
    }

    /* Steps 2 and 3. */
    if (!code && !(code = hs__new_checkpoint_check_cancel(&files, err)))
        code = hs__new_checkpoint_commit(&files, err);
    if (code)
        hs__new_checkpoint_discard(&files);
    if (files.named && listed) {
        hs_code kept = keep(request, files.prefix, code ? NULL : err);
        code = code ? code : kept;
    }
    if (!code && !(code = hs__saver_set_text(saver, &directory->last_path, files.prefix, err)))
        directory->last_bytes = request->bytes;

    /* Step 4. */
    if (!code && listed)
        code = abandon_branch(request, err);

    /* Steps 5 and 6. */
    if (!code && listed && !(code = hs__saver_set_text(saver, &directory->state_file, options->state_file, err))) {
        size_t n_expired = hs__expire(directory, options->max_to_keep ? options->max_to_keep : saver->max_to_keep);
        if (!(code = hs__saver_write_state_file(directory, files.prefix, n_expired, err)))
            hs__delete_expired(directory, n_expired);
    }
    hs__new_checkpoint_free(&files);
    return code;
}
