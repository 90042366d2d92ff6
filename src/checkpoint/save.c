/* SPDX-License-Identifier: Apache-2.0 */
/* Saving: saver.h has the protocol. */
#include "checkpoint/background.h"

#include "base/files.h"
#include "checkpoint/new_checkpoint.h"
#include "checkpoint/shards.h"
#include "checkpoint/state_file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* One save on its way. */
typedef struct {
    hs_saver *saver;
    hs_raw_session *session; /* what is saved, as it is; */
    const hs__image *image;  /* or as it was, if this is not NULL */
    uint64_t needed;         /* bytes, or about */
    bool (*cancelled)(void *user);
    void *cancel_user;
    const hs_env *env;
    const char *base; /* of the prefix, without the step */
    hs__new_checkpoint files;
    bool nonfinite;
    int64_t went_on_from; /* the step that was restored before; -1: none, or none of this series */
} save;

static hs_code check_collision(const save *s, const hs_save_options *options, hs_error *err)
{
    const char *state_file = options->state_file ? options->state_file : "checkpoint";
    if (options->no_state_file || strcmp(hs__path_base(s->files.prefix), state_file) != 0)
        return HS_OK;
    return hs_error_set(err, HS_FAILED_PRECONDITION,
                        "cannot save '%s': the state file, which names the newest checkpoint, has the same name",
                        s->files.prefix);
}

/* A save that cannot come to an end is not begun: it would fill what little there is. */
static hs_code check_space(const save *s, hs_error *err)
{
    uint64_t left = hs__free_space(s->env, s->files.directory);
    if (s->needed <= left)
        return HS_OK;
    return hs_error_set_errno(err, ENOSPC, "cannot save '%s': it needs %llu bytes, but only %llu are free on the disk",
                              s->files.prefix, (unsigned long long)s->needed, (unsigned long long)left);
}

static hs_code rename_all(const save *s, char *const *from, char *const *to, hs_error *err)
{
    hs_code code = HS_OK;
    for (int32_t i = 0; i < s->files.names.n && !code; i++)
        code = hs__rename(s->env, from[i], to[i], err);
    return code;
}

static void remove_moved(const save *s, char *const *from, char *const *to)
{
    for (int32_t i = 0; i < s->files.names.n; i++)
        if (hs__file_missing(s->env, from[i]))
            hs__file_remove(s->env, to[i]);
}

/* The files that are aside become PREFIX.nonfinite. */
static hs_code keep_aside(const save *s, hs_error *err)
{
    char *prefix = hs__format(s->env, "%s" HS__NONFINITE, s->files.prefix);
    char **data = prefix ? hs__new_checkpoint_data(&s->files, prefix, "") : NULL;
    char *index = prefix ? hs__bundle_index_path(s->env, prefix) : NULL;
    hs_code code = data && index ? HS_OK : hs__no_memory(err, strlen(s->files.prefix), "a path");
    if (!code && !(code = rename_all(s, s->files.data_aside, data, err)) &&
        !(code = hs__rename(s->env, s->files.index_aside, index, err)) &&
        !(code = hs__sync_directory(s->env, s->files.directory, err))) {
        hs__delete_stale_data(s->env, prefix, s->files.names); /* of one that was kept under that name before */
        hs_log(s->env, HS_LOG_WARNING, "kept '%s' for inspection", prefix);
    } else if (data && index && hs__file_exists(s->env, s->files.index_aside)) {
        remove_moved(s, s->files.data_aside, data);
    }
    hs__free(s->env, prefix);
    hs__new_checkpoint_free_data(&s->files, data);
    hs__free(s->env, index);
    return code;
}

static hs_code check_wanted(const save *s, hs_error *err)
{
    if (s->cancelled && s->cancelled(s->cancel_user))
        return hs_error_set(err, HS_CANCELLED, "'%s' is not saved: a later save replaces it", s->files.prefix);
    return HS_OK;
}

static hs_code check_still_wanted(void *user, hs_error *err)
{
    return check_wanted(user, err);
}

typedef struct {
    const save *s;
    hs__shards *shards;
    bool copied, views_stay; /* what is saved is a copy; or views of the variables, which stay */
} writing;

static hs_code add_variable(void *user, const hs__saved *saved, hs_error *err)
{
    const writing *w = user;
    const hs__sharded tensor = {saved->name, saved->value, saved->slice, saved->nonfinite};
    return hs__shards_add(w->shards, &tensor, w->copied || (w->views_stay && saved->lent), err);
}

static hs_code add_state(void *user, const hs__saved *saved, hs_error *err)
{
    const writing *w = user;
    hs_code code = check_wanted(w->s, err);
    return code ? code : hs__saved_write(saved, hs__shards_first(w->shards), err);
}

static hs_code deal_out(const writing *w, hs_error *err)
{
    const save *s = w->s;
    hs__dealt *sizes = NULL;
    size_t n;
    if (w->shards->n == 1)
        return HS_OK;
    hs_code code =
        s->image ? hs__image_sizes(s->image, &sizes, &n, err) : hs__variable_sizes(s->saver, s->session, &sizes, &n, err);
    if (!code)
        code = hs__shards_deal(w->shards, sizes, n, err);
    hs__free(s->env, sizes);
    return code;
}

static hs_code write_variables(writing *w, hs_error *err)
{
    const save *s = w->s;
    hs_code code = deal_out(w, err);
    if (code || (code = s->image ? hs__image_each_variable(s->image, add_variable, w, err)
                                 : hs__each_variable(s->saver, s->session, add_variable, w, err)))
        return code;
    return hs__shards_write(w->shards, err);
}

static hs_code write_states(writing *w, hs_error *err)
{
    const save *s = w->s;
    return s->image ? hs__image_each_state(s->image, add_state, w, err)
                    : hs__each_state(s->saver, s->session, add_state, w, err);
}

static hs_code check_finite(save *s, const hs__poison *poison, hs_error *err)
{
    const hs_nonfinite *found = &poison->found;
    if (!poison->n || s->saver->nonfinite == HS_NONFINITE_ALLOW)
        return HS_OK;
    s->nonfinite = true;
    return hs_error_set(err, HS_FAILED_PRECONDITION,
                        "'%s' is not saved: '%s' is not finite, first at index %lld (%llu NaN, %llu +infinity, %llu "
                        "-infinity)%s; the previous checkpoint remains the newest",
                        s->files.prefix, poison->name, (long long)found->first_index, (unsigned long long)found->nan,
                        (unsigned long long)found->positive_infinity, (unsigned long long)found->negative_infinity,
                        poison->n > 1 ? ", and other variables are not finite either" : "");
}

static hs_code check_written(save *s, const hs__bundle_writer *writer, hs_error *err)
{
    return check_finite(s, &(hs__poison){writer->n_nonfinite, (char *)writer->nonfinite_name, writer->nonfinite}, err);
}

/* After a failure, whatever is aside is discarded. */
static hs_code write_tensors(save *s, hs__shards *shards, hs_error *err)
{
    writing w = {.s = s, .shards = shards, .copied = s->image != NULL};
    w.views_stay = !s->image && s->session->ops.flags & HS_BACKEND_KEEPS_VIEWS;
    hs_error poison = {0};
    hs_code code = write_variables(&w, err);
    if (!code && check_written(s, hs__shards_first(shards), &poison) && s->saver->nonfinite != HS_NONFINITE_QUARANTINE)
        code = hs__error_copy(err, &poison);
    if (code || (code = write_states(&w, err)) ||
        (code = hs__bundle_writer_finish(hs__shards_first(shards), s->files.index_aside, err)))
        return code;
    if (!s->nonfinite)
        return HS_OK;
    code = keep_aside(s, err); /* all is written, and gets a name that nobody restores */
    return code ? code : hs__error_copy(err, &poison);
}

static hs_code write_by_itself(save *s, hs_error *err)
{
    const hs__data_range *names = &s->files.names;
    hs__shards shards = {.env = s->env, .check = check_still_wanted, .user = s};
    hs_code code = hs__new_checkpoint_files(&s->files, s->saver->shards, err);
    if (!code)
        code = hs__shards_open(&shards, s->env, s->files.data_aside, names->n, names->first, names->of, err);
    if (!code)
        code = write_tensors(s, &shards, err);
    hs__shards_close(&shards);
    return code;
}

/* All is written when it is known what it is. */
static hs_code write_by_graph(save *s, hs_error *err)
{
    hs__poison poison = {.n = 0};
    hs_error cause = {0};
    hs_code code = hs__graph_save(s->saver, s->session, &s->files, &poison, err);
    if (!code && check_finite(s, &poison, &cause)) {
        if (s->saver->nonfinite == HS_NONFINITE_QUARANTINE)
            code = keep_aside(s, err);
        if (!code)
            code = hs__error_copy(err, &cause);
    }
    hs__free(s->env, poison.name);
    return code;
}

static hs_code write_bundle(save *s, hs_error *err)
{
    return s->saver->graph.saves ? write_by_graph(s, err) : write_by_itself(s, err);
}

static hs_code write_meta(save *s, hs_error *err)
{
    hs_bytes meta;
    if (s->image) {
        s->files.has_meta = s->image->meta.data != NULL;
        return s->files.has_meta
                   ? hs__file_write_synced(s->env, s->files.meta_aside, s->image->meta.data, s->image->meta.size, err)
                   : HS_OK;
    }
    hs_code code = hs_backend_export_meta_graph(s->session->backend, s->saver, &meta, err);
    if (code == HS_UNIMPLEMENTED) {
        hs_error_clear(err);
        return HS_OK; /* a backend without a graph to show */
    }
    if (code)
        return code;
    s->files.has_meta = true;
    code = hs__file_write_synced(s->env, s->files.meta_aside, meta.data, meta.size, err);
    hs_env_free(hs_backend_env(s->session->backend), (void *)meta.data);
    return code;
}

/* A state file speaks of its own directory: what the saver kept in another one stays there, and is no more of its business.
 */
static void forget_other_directories(save *s)
{
    hs_saver *saver = s->saver;
    size_t n = 0;
    for (size_t i = 0; i < saver->n_kept; i++) {
        char *directory = hs__path_directory(s->env, saver->kept[i].path);
        if (directory && strcmp(directory, s->files.directory) != 0)
            hs__free(s->env, saver->kept[i].path);
        else
            saver->kept[n++] = saver->kept[i];
        hs__free(s->env, directory);
    }
    saver->n_kept = n;
}

static hs_code note_state_file(hs_saver *saver, const char *name, hs_error *err)
{
    char *copy = hs__strdup(&saver->env, name ? name : "checkpoint");
    if (!copy)
        return hs__no_memory(err, 1, "a name");
    hs__free(&saver->env, saver->state_file);
    saver->state_file = copy;
    return HS_OK;
}

static hs_code write_state(hs_saver *saver, const char *directory, const char *newest, size_t leaving, hs_error *err)
{
    hs__checkpoint_list list = {.newest = newest, .kept = saver->kept, .n = saver->n_kept, .n_leaving = leaving};
    if (saver->keep_every_secs > 0)
        list.last_preserved = saver->last_preserved;
    return hs__checkpoint_state_write(&saver->env, directory, saver->state_file, &list, err);
}

/* A checkpoint that is there is the saver's to delete, also where its save fails from here on. */
static hs_code keep(save *s, const hs_save_options *options, hs_error *err)
{
    hs__kept_checkpoint newest = {.path = s->files.prefix,
                                  .timestamp = (double)hs_env_realtime_ns(s->env) / 1e9,
                                  .metric = options->has_metric ? options->metric : (double)NAN};
    forget_other_directories(s);
    return hs__saver_keep(s->saver, &newest, err);
}

/* Steps 5 and 6: the new one becomes the newest, then those that are not kept go. */
static hs_code make_newest(save *s, const hs_save_options *options, hs_error *err)
{
    hs_saver *saver = s->saver;
    hs_code code = note_state_file(saver, options->state_file, err);
    if (code)
        return code;
    size_t leaving = hs__retain(saver);
    if (!(code = write_state(saver, s->files.directory, s->files.prefix, leaving, err)))
        hs__delete_leaving(saver, leaving);
    return code;
}

/* Once for each hold, for nobody else saves there meanwhile; and once after a restore, where the history that was left is
 * all that is later than what was restored. */
static hs_code leave_other_history(save *s, int64_t step, hs_error *err)
{
    hs_saver *saver = s->saver;
    if (step < 0 || (saver->held.continued && s->went_on_from < 0))
        return HS_OK;
    int64_t last = s->went_on_from >= 0 && s->went_on_from < step ? s->went_on_from : step;
    hs_code code = hs__abandon_later(&saver->held, s->env, s->base, last, err);
    saver->held.continued = !code;
    saver->held.disturbed = code;
    return code;
}

/* The step that training went on from, if it was restored since the last save and of this series, or a copy in memory was.
 */
static int64_t find_origin(const save *s)
{
    const hs_saver *saver = s->saver;
    const char *from = saver->restored && saver->last_path ? hs__path_base(saver->last_path) : NULL;
    int64_t origin = -1;
    if (from && strncmp(from, s->base, strlen(s->base)) == 0 && from[strlen(s->base)] == '-')
        origin = hs__step_in(from);
    return saver->went_back && (origin < 0 || saver->went_back_to < origin) ? saver->went_back_to : origin;
}

/* Checkpoints that are later than the one that was restored are not the saver's to keep, or to delete, any more. */
static void forget_left_history(save *s)
{
    hs_saver *saver = s->saver;
    size_t length = strlen(s->base), n = 0;
    s->went_on_from = find_origin(s);
    saver->restored = saver->went_back = false;
    if (s->went_on_from < 0)
        return;
    for (size_t i = 0; i < saver->n_kept; i++) {
        const char *kept = hs__path_base(saver->kept[i].path);
        if (strncmp(kept, s->base, length) == 0 && strrchr(kept, '-') == kept + length &&
            hs__step_in(kept) > s->went_on_from)
            hs__free(s->env, saver->kept[i].path);
        else
            saver->kept[n++] = saver->kept[i];
    }
    saver->n_kept = n;
    saver->held.continued = false;
}

/* Steps 1 to 3. */
static hs_code put_in_place(save *s, const hs_save_options *options, hs_error *err)
{
    hs_code code;
    if (!(code = write_bundle(s, err)) && (options->no_meta_graph || !(code = write_meta(s, err))) &&
        !(code = check_wanted(s, err)) && !(code = hs__new_checkpoint_commit(&s->files, err)))
        return HS_OK;
    hs__new_checkpoint_discard(&s->files);
    return code;
}

static hs_code save_all(save *s, int64_t step, const hs_save_options *options, hs_error *err)
{
    hs_code code;
    if ((code = check_collision(s, options, err)) || (code = hs__make_directory_for(s->env, s->files.prefix, err)) ||
        (code = hs__hold_directory(&s->saver->held, s->env, s->files.directory, s->base, err)))
        return code;
    if (!options->no_state_file)
        hs__finish_deleting(&s->saver->held, s->env, options->state_file);
    if ((code = check_space(s, err)))
        return code;
    s->went_on_from = -1;
    code = put_in_place(s, options, err);
    if (s->files.named && !options->no_state_file)
        forget_left_history(s);
    if (s->files.named && !options->no_state_file) {
        hs_code kept = keep(s, options, code ? NULL : err);
        code = code ? code : kept;
    }
    if (code || (code = hs__saver_set_last(s->saver, s->files.prefix, err)))
        return code;
    s->saver->last_bytes = s->needed;
    if (options->no_state_file || (code = leave_other_history(s, step, err)))
        return code;
    return make_newest(s, options, err);
}

static hs_code save_to(save *s, const char *prefix, int64_t step, const hs_save_options *options, hs_error *err)
{
    s->env = &s->saver->env;
    s->base = hs__path_base(prefix);
    hs_code code = hs__new_checkpoint_begin(&s->files, s->env, prefix, step, err);
    if (!code)
        code = save_all(s, step, options, err);
    hs__new_checkpoint_free(&s->files);
    return code;
}

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

/* A session may go back by itself, to a copy in memory; what was saved after that is a history that was left. */
static void notice_return(hs_saver *saver, const hs_raw_session *session)
{
    if (!session->rolled_back)
        saver->returned = NULL; /* a later session may have the address of the one that it was */
    if (!session->rolled_back || (saver->returned == session && saver->returned_at == session->restores))
        return;
    hs__background_wait(saver);
    saver->returned = session;
    saver->returned_at = session->restores;
    saver->went_back_to =
        saver->went_back && saver->went_back_to < session->rolled_back_to ? saver->went_back_to : session->rolled_back_to;
    saver->went_back = true;
}

hs_code hs_saver_save(hs_saver *saver, hs_raw_session *session, const char *prefix, int64_t step,
                      const hs_save_options *given, hs_error *err)
{
    hs_save_options options = HS_INIT(hs_save_options);
    hs_code code;
    hs_error_clear(err);
    if (!saver || !session || !session->handle || !prefix || !*hs__path_base(prefix))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_saver_save: %s",
                            !saver                               ? "saver is NULL"
                            : !prefix || !*hs__path_base(prefix) ? "prefix has no file name"
                                                                 : "session is NULL");
    if ((given && (code = HS_STRUCT_TAKE(hs_save_options, copy_limit, &options, given, err))) ||
        (code = check_options(&options, err)) || (code = hs__saver_check_names(saver, session, err)))
        return code;
    notice_return(saver, session);
    hs__tell_without_memory(saver, session);
    if (options.background)
        return hs__background_save(saver, session, prefix, step, &options, err);
    hs__background_wait(saver);
    code = hs__save_session(saver, session, prefix, step, &options, err);
    if (!code)
        hs_error_clear(err);
    return code;
}

hs_code hs__save_session(hs_saver *saver, hs_raw_session *session, const char *prefix, int64_t step,
                         const hs_save_options *options, hs_error *err)
{
    save s = {.saver = saver, .session = session, .needed = hs__expected_bytes(saver, session)};
    return save_to(&s, prefix, step, options, err);
}

hs_code hs__save_image(hs_saver *saver, const hs__image *image, const char *prefix, int64_t step,
                       const hs_save_options *options, bool (*cancelled)(void *user), void *user, hs_error *err)
{
    save s = {.saver = saver, .image = image, .needed = image->bytes, .cancelled = cancelled, .cancel_user = user};
    return save_to(&s, prefix, step, options, err);
}

hs_code hs_saver_hold(hs_saver *saver, const char *prefix, hs_error *err)
{
    if (!saver || !prefix || !*hs__path_base(prefix))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_saver_hold: %s",
                            saver ? "prefix has no file name" : "saver is NULL");
    hs__background_wait(saver);
    save s = {.saver = saver, .env = &saver->env, .base = hs__path_base(prefix)};
    hs_code code;
    if (!(code = hs__new_checkpoint_begin(&s.files, s.env, prefix, -1, err)) &&
        !(code = hs__make_directory_for(s.env, prefix, err)))
        code = hs__hold_directory(&saver->held, s.env, s.files.directory, s.base, err);
    hs__new_checkpoint_free(&s.files);
    if (!code)
        hs_error_clear(err);
    return code;
}

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

/* With HS_NEVER, the list has only the newest checkpoint and those that are pinned. Adds another one of the same directory,
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
        code = write_state(saver, directory, saver->kept[saver->n_kept - 1].path, 0, err);
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
