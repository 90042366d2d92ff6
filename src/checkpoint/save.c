/* SPDX-License-Identifier: Apache-2.0 */
/* Saving: saver.h has the protocol. */
#include "checkpoint/saver.h"

#include "base/files.h"
#include "checkpoint/state_file.h"

#include <stdio.h>
#include <string.h>

/* One save on its way. */
typedef struct {
    hs_saver *saver;
    hs_raw_session *session;
    const hs_env *env;
    char *prefix, *directory;
    char *index, *index_aside;
    char *data, *data_aside;
    char *meta, *meta_aside;
    bool has_meta;
    int32_t shard, shards;
} save;

static void free_save(save *s)
{
    char *const texts[] = {s->prefix, s->directory,  s->index, s->index_aside,
                           s->data,   s->data_aside, s->meta,  s->meta_aside};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        hs__free(s->env, texts[i]);
}

/* Which shard the data become: one whose file the checkpoint of that name, if there is one, does not use. A damaged one
 * uses none; one that cannot be read just now may be whole, and is not to be lost. */
static hs_code choose_shard(save *s, hs_error *err)
{
    hs__bundle_reader reader;
    hs_error cause = {0};
    s->shard = 0;
    s->shards = 1;
    hs_code code = hs__bundle_reader_open(&reader, s->env, s->prefix, &cause);
    if (code) {
        if (code == HS_NOT_FOUND || code == HS_DATA_LOSS)
            return HS_OK;
        hs__error_copy(err, &cause);
        return code;
    }
    if (reader.shards == 1)
        s->shard = 1, s->shards = 2;
    hs__bundle_reader_close(&reader);
    return HS_OK;
}

static hs_code name_checkpoint(save *s, const char *prefix, int64_t step, hs_error *err)
{
    s->prefix = step >= 0 ? hs__format(s->env, "%s-%lld", prefix, (long long)step) : hs__strdup(s->env, prefix);
    s->directory = s->prefix ? hs__path_directory(s->env, s->prefix) : NULL;
    return s->directory ? HS_OK : hs__no_memory(err, strlen(prefix), "a path");
}

static hs_code name_files(save *s, hs_error *err)
{
    hs_code code = choose_shard(s, err);
    if (code)
        return code;
    s->index = hs__bundle_index_path(s->env, s->prefix);
    s->index_aside = hs__format(s->env, "%s.index.tmp", s->prefix);
    s->data = hs__bundle_data_path(s->env, s->prefix, s->shard, s->shards);
    s->data_aside = s->data ? hs__format(s->env, "%s.tmp", s->data) : NULL;
    s->meta = hs__format(s->env, "%s.meta", s->prefix);
    s->meta_aside = hs__format(s->env, "%s.meta.tmp", s->prefix);
    if (!s->index || !s->index_aside || !s->data || !s->data_aside || !s->meta || !s->meta_aside)
        return hs__no_memory(err, strlen(s->prefix), "a path");
    return HS_OK;
}

static hs_code check_collision(const save *s, const hs_save_options *options, hs_error *err)
{
    const char *state_file = options->state_file ? options->state_file : "checkpoint";
    if (options->no_state_file || strcmp(hs__path_base(s->prefix), state_file) != 0)
        return HS_OK;
    return hs_error_set(err, HS_FAILED_PRECONDITION,
                        "cannot save '%s': the file that names the newest checkpoint is called alike", s->prefix);
}

/* One missing level is made, as TensorFlow does. */
static hs_code prepare_directory(const save *s, hs_error *err)
{
    hs_error cause = {0};
    hs_code code = hs__make_directory(s->env, s->directory, &cause);
    if (code == HS_NOT_FOUND || code == HS_FAILED_PRECONDITION)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "cannot save '%s': its parent directory does not exist (%s)",
                            s->prefix, cause.message);
    if (code)
        hs__error_copy(err, &cause);
    return code;
}

static hs_code to_host(const hs_tensor *value, const char *name, hs_host_copy *copy, hs_tensor *host, hs_error *err)
{
    hs_code code = hs__settle(hs_tensor_host(value, copy, host, err), "its memory", err);
    if (code)
        hs_error_prefix(err, "reading variable '%s'", name);
    return code;
}

static hs_code write_variables(const save *s, hs__bundle_writer *writer, hs_error *err)
{
    hs_host_copy copy = {.env = s->env};
    hs_code code = HS_OK;
    bool done = false;
    for (size_t i = 0; !code && !done; i++) {
        hs_variable variable;
        hs_tensor value, host;
        if (!hs__saver_variable(s->saver, s->session, i, &variable, &done))
            continue;
        if (strncmp(variable.name, HS__STATE_PREFIX, strlen(HS__STATE_PREFIX)) == 0)
            code = hs_error_set(err, HS_INVALID_ARGUMENT, "variable '%s': names under %s are reserved for state",
                                variable.name, HS__STATE_PREFIX);
        else if (!(code =
                       hs__settle(s->session->ops.read_variable(s->session->handle, i, &value, err), variable.name, err)) &&
                 !(code = to_host(&value, variable.name, &copy, &host, err)))
            code = hs__bundle_writer_add(writer, variable.name, &host, err);
    }
    hs_host_copy_free(&copy);
    return code;
}

static hs_code write_states(const save *s, hs__bundle_writer *writer, hs_error *err)
{
    hs_state_writer state;
    hs__buffer_init(&state.buffer, s->env);
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < s->session->n_states; i++) {
        const hs__state_slot *slot = &s->session->states[i];
        hs__buffer_clear(&state.buffer);
        hs__clear(err); /* what another one has got over */
        if ((code = slot->save(slot->self, &state, err))) {
            hs__settle(code, "it", err);
            hs_error_prefix(err, "saving the state '%s'", slot->key);
        } else if (!(code = hs__buffer_check(&state.buffer, slot->key, err))) {
            hs_tensor bytes =
                hs_tensor_of(HS_UINT8, (hs_shape){.rank = 1, .dims = {(int64_t)state.buffer.size}}, state.buffer.data);
            code = hs__bundle_writer_add(writer, slot->key, &bytes, err);
        }
    }
    hs__buffer_free(&state.buffer);
    return code;
}

static hs_code write_bundle(const save *s, hs_error *err)
{
    hs__bundle_writer writer;
    hs_code code = hs__bundle_writer_open(&writer, s->env, s->data_aside, s->shard, s->shards, err);
    if (!code && !(code = write_variables(s, &writer, err)) && !(code = write_states(s, &writer, err)))
        code = hs__bundle_writer_finish(&writer, s->index_aside, err);
    hs__bundle_writer_close(&writer);
    return code;
}

static hs_code write_meta(save *s, hs_error *err)
{
    hs_bytes meta;
    hs_code code = hs_export_meta_graph(s->session->backend, s->saver, &meta, err);
    if (code == HS_UNIMPLEMENTED) {
        hs_error_clear(err);
        return HS_OK; /* a backend without a graph to show */
    }
    if (code)
        return code;
    s->has_meta = true;
    code = hs__file_write_synced(s->env, s->meta_aside, meta.data, meta.size, err);
    hs_env_free(hs_backend_env(s->session->backend), (void *)meta.data);
    return code;
}

/* Steps 2 and 3 of the protocol. */
static hs_code commit(const save *s, hs_error *err)
{
    hs_code code;
    if ((code = hs__rename(s->env, s->data_aside, s->data, err)))
        return code;
    if ((s->has_meta && (code = hs__rename(s->env, s->meta_aside, s->meta, err))) ||
        (code = hs__sync_directory(s->env, s->directory, err)) ||
        (code = hs__rename(s->env, s->index_aside, s->index, err))) {
        hs__file_remove(s->env, s->data);
        return code;
    }
    return hs__sync_directory(s->env, s->directory, err);
}

/* A file of the checkpoint `base` that is neither its index nor its meta file. */
static bool is_data_of(const char *name, const char *base, int *shard, int *shards)
{
    size_t length = strlen(base);
    int end = 0;
    return strncmp(name, base, length) == 0 && sscanf(name + length, ".data-%5d-of-%5d%n", shard, shards, &end) == 2 &&
           end == 20 && !name[length + 20];
}

typedef struct {
    const hs_env *env;
    const char *directory, *base;
    int shard, shards; /* this one stays; shards 0: none does */
} data_removal;

static int remove_data(void *user, const char *name)
{
    const data_removal *removal = user;
    int shard, shards;
    if (is_data_of(name, removal->base, &shard, &shards) && (shard != removal->shard || shards != removal->shards)) {
        char *path = hs__path_join(removal->env, removal->directory, name);
        if (path)
            hs__file_remove(removal->env, path);
        hs__free(removal->env, path);
    }
    return 0;
}

static void remove_data_files(const hs_env *env, const char *prefix, int shard, int shards)
{
    char *directory = hs__path_directory(env, prefix);
    data_removal removal = {env, directory, hs__path_base(prefix), shard, shards};
    hs_error error = {0};
    if (directory && hs__list(env, directory, remove_data, &removal, &error))
        hs_log(env, HS_LOG_WARNING, "%s", error.message);
    hs__free(env, directory);
}

/* The index goes first: from then on it is no checkpoint any more. */
static void delete_checkpoint(const hs_env *env, const char *prefix)
{
    char *index = hs__bundle_index_path(env, prefix), *meta = hs__format(env, "%s.meta", prefix);
    if (index && meta) {
        hs__file_remove(env, index);
        remove_data_files(env, prefix, 0, 0);
        hs__file_remove(env, meta);
    }
    hs__free(env, index);
    hs__free(env, meta);
}

/* A state file speaks of its own directory: what the saver kept in another one stays there, and is no more of its business.
 */
static void forget_other_directories(save *s)
{
    hs_saver *saver = s->saver;
    size_t n = 0;
    for (size_t i = 0; i < saver->n_kept; i++) {
        char *directory = hs__path_directory(s->env, saver->kept[i].path);
        if (directory && strcmp(directory, s->directory) != 0)
            hs__free(s->env, saver->kept[i].path);
        else
            saver->kept[n++] = saver->kept[i];
        hs__free(s->env, directory);
    }
    saver->n_kept = n;
}

/* Steps 4 and 5: the new one becomes the newest, then those that are too many go. */
static hs_code make_newest(save *s, const char *state_file, hs_error *err)
{
    hs_saver *saver = s->saver;
    double now = (double)hs_env_realtime_ns(s->env) / 1e9;
    forget_other_directories(s);
    hs_code code = hs__saver_keep(saver, s->prefix, now, err);
    if (code)
        return code;
    size_t gone = 0, n = saver->n_kept;
    if (saver->max_to_keep == HS_NEVER)
        gone = n - 1; /* as TensorFlow: nothing is deleted, and the file names the newest alone */
    else if (n > (size_t)saver->max_to_keep)
        gone = n - (size_t)saver->max_to_keep;
    const char **paths = hs__alloc(s->env, n, sizeof *paths);
    double *times = hs__alloc(s->env, n, sizeof *times);
    if (!paths || !times)
        code = hs__no_memory(err, n * sizeof *paths, "the list of checkpoints");
    for (size_t i = gone; !code && i < n; i++) {
        paths[i - gone] = saver->kept[i].path;
        times[i - gone] = saver->kept[i].timestamp;
    }
    if (!code)
        code = hs__checkpoint_state_write(s->env, s->directory, state_file, s->prefix, paths, times, n - gone, err);
    hs__free(s->env, paths);
    hs__free(s->env, times);
    if (code)
        return code;
    for (size_t i = 0; i < gone; i++) {
        if (saver->max_to_keep != HS_NEVER)
            delete_checkpoint(s->env, saver->kept[i].path);
        hs__free(s->env, saver->kept[i].path);
    }
    memmove(saver->kept, saver->kept + gone, (n - gone) * sizeof *saver->kept);
    saver->n_kept = n - gone;
    return HS_OK;
}

static hs_code save_all(save *s, const hs_save_options *options, hs_error *err)
{
    hs_code code;
    if ((code = check_collision(s, options, err)) || (code = prepare_directory(s, err)) || (code = name_files(s, err)))
        return code;
    if ((code = write_bundle(s, err)) || (!options->no_meta_graph && (code = write_meta(s, err))) ||
        (code = commit(s, err))) {
        hs__file_remove(s->env, s->data_aside);
        hs__file_remove(s->env, s->index_aside);
        if (s->has_meta)
            hs__file_remove(s->env, s->meta_aside);
        if (!hs__file_exists(s->env, s->index)) /* it belongs to nothing */
            hs__file_remove(s->env, s->meta);
        return code;
    }
    remove_data_files(s->env, s->prefix, s->shard, s->shards);
    if ((code = hs__saver_set_last(s->saver, s->prefix, err)))
        return code;
    return options->no_state_file ? HS_OK : make_newest(s, options->state_file, err);
}

static hs_code check_options(const hs_save_options *options, hs_error *err)
{
    if (options->state_file && (strchr(options->state_file, '/') || !*options->state_file))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_save_options.state_file '%s' is not the name of a file",
                            options->state_file);
    return HS_OK;
}

hs_code hs_saver_save(hs_saver *saver, hs_raw_session *session, const char *prefix, int64_t step,
                      const hs_save_options *given, hs_error *err)
{
    hs_save_options options = {HS_SAVE_OPTIONS};
    hs_code code;
    hs_error_clear(err);
    if (!saver || !session || !session->handle || !prefix || !*hs__path_base(prefix))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_saver_save: %s",
                            !saver                               ? "the saver is NULL"
                            : !prefix || !*hs__path_base(prefix) ? "the prefix names no file"
                                                                 : "there is no session");
    if ((given && (code = hs_struct_take(&options, sizeof options, given, "hs_save_options", "HS_SAVE_OPTIONS", err))) ||
        (code = check_options(&options, err)) || (code = hs__saver_check_names(saver, session, err)))
        return code;
    save s = {.saver = saver, .session = session, .env = &saver->env};
    if (!(code = name_checkpoint(&s, prefix, step, err)))
        code = save_all(&s, &options, err);
    free_save(&s);
    if (!code)
        hs_error_clear(err);
    return code;
}
