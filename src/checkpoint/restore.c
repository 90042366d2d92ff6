/* SPDX-License-Identifier: Apache-2.0 */
/* Restoring: all of a checkpoint is checked before any of it is copied. */
#include "checkpoint/saver.h"

#include "base/files.h"
#include "checkpoint/state_file.h"

#include <stdlib.h>
#include <string.h>

/* Whose fault a failure is: that of the files, so that another checkpoint may do; or not. */
typedef enum { OF_THE_FILES, OF_THE_MODEL } fault;

/* Everything that does not fit, in one message. */
typedef struct {
    hs__buffer text;
    size_t missing, different;
} misfits;

static void add_misfit(misfits *all, const hs_variable *variable, const hs__bundle_entry *entry)
{
    char wanted[HS_SHAPE_TEXT_SIZE], found[HS_SHAPE_TEXT_SIZE];
    if (all->missing + all->different)
        hs__buffer_text(&all->text, "; ");
    if (!entry) {
        all->missing++;
        hs__buffer_text(&all->text, "'%s' is missing", variable->name);
        return;
    }
    all->different++;
    hs__buffer_text(&all->text, "'%s' is %s %s there and %s %s in the model", variable->name,
                    hs_dtype_name((hs_dtype)entry->dtype), hs_shape_text(&entry->shape, found, sizeof found),
                    hs_dtype_name(variable->dtype), hs_shape_text(&variable->shape, wanted, sizeof wanted));
}

static bool fits(const hs_variable *variable, const hs__bundle_entry *entry)
{
    return entry && entry->dtype == (int32_t)variable->dtype && hs_shape_equal(&entry->shape, &variable->shape);
}

/* Do all variables that are to be restored have their like in the checkpoint? */
static hs_code check_fit(const hs_saver *saver, const hs_raw_session *session, const hs__bundle_reader *reader,
                         hs_error *err)
{
    misfits all = {0};
    hs__buffer_init(&all.text, &saver->env);
    bool done = false;
    for (size_t i = 0; !done; i++) {
        hs_variable variable;
        if (!hs__saver_variable(saver, session, i, &variable, &done))
            continue;
        const hs__bundle_entry *entry = hs__bundle_find(reader, variable.name);
        if (!fits(&variable, entry))
            add_misfit(&all, &variable, entry);
    }
    hs_code code = hs__buffer_check(&all.text, "a message", err);
    if (!code && all.missing + all.different) {
        code = all.different ? HS_INVALID_ARGUMENT : HS_NOT_FOUND;
        const char *text = (const char *)all.text.data;
        hs_error_set(err, code,
                     "checkpoint '%s' does not fit the model, which is left as it was (%zu missing, %zu different): %s",
                     reader->prefix, all.missing, all.different, text);
        if (all.text.size > HS_MESSAGE_SIZE / 2)
            hs_log(&saver->env, HS_LOG_ERROR, "checkpoint '%s' does not fit the model: %s", reader->prefix, text);
    }
    hs__buffer_free(&all.text);
    return code;
}

static hs_code verify(const hs_saver *saver, const hs_raw_session *session, hs__bundle_reader *reader, hs_error *err)
{
    hs_code code = HS_OK;
    bool done = false;
    for (size_t i = 0; !code && !done; i++) {
        hs_variable variable;
        if (hs__saver_variable(saver, session, i, &variable, &done))
            code = hs__bundle_verify(reader, hs__bundle_find(reader, variable.name), err);
    }
    for (size_t i = 0; !code && i < session->n_states; i++) {
        const hs__bundle_entry *entry = hs__bundle_find(reader, session->states[i].key);
        if (entry && !(code = hs__bundle_verify(reader, entry, err)) &&
            (entry->dtype != HS_UINT8 || entry->shape.rank != 1))
            code = hs_error_set(err, HS_DATA_LOSS, "%s: the state '%s' is no vector of uint8", reader->prefix,
                                session->states[i].key);
    }
    return code;
}

static hs_code load_state(const hs_saver *saver, hs__bundle_reader *reader, const hs__state_slot *slot, hs_error *err)
{
    const hs__bundle_entry *entry = hs__bundle_find(reader, slot->key);
    if (!entry) {
        hs_log(&saver->env, HS_LOG_INFO, "checkpoint '%s' has no state '%s'; it starts anew", reader->prefix, slot->key);
        return HS_OK;
    }
    size_t bytes = (size_t)entry->bytes;
    unsigned char *data = hs__alloc(&saver->env, bytes, 1);
    if (!data)
        return hs__no_memory(err, bytes, slot->key);
    hs_code code = hs__bundle_read(reader, entry, data, err);
    if (!code) {
        hs_state_reader state = {data, bytes};
        code = slot->load(slot->self, &state, err);
        if (code && err && !err->message[0])
            hs_error_set(err, code, "it failed with %s", hs_code_name(code));
        if (!code && state.left)
            code = hs_error_set(err, HS_INVALID_ARGUMENT, "%zu of its %zu bytes were not read", state.left, bytes);
        if (code)
            hs_error_prefix(err, "checkpoint '%s': loading the state '%s'", reader->prefix, slot->key);
    }
    hs__free(&saver->env, data);
    return code;
}

static hs_code copy_variables(const hs_saver *saver, const hs_raw_session *session, hs__bundle_reader *reader,
                              hs_error *err)
{
    void *data = NULL;
    size_t capacity = 0;
    hs_code code = HS_OK;
    bool done = false;
    for (size_t i = 0; !code && !done; i++) {
        hs_variable variable;
        if (!hs__saver_variable(saver, session, i, &variable, &done))
            continue;
        const hs__bundle_entry *entry = hs__bundle_find(reader, variable.name);
        if ((code = hs__reserve(&saver->env, &data, &capacity, hs__bundle_read_bytes(entry), 1, err)) ||
            (code = hs__bundle_read(reader, entry, data, err)))
            break;
        hs_tensor value = hs_tensor_of(variable.dtype, variable.shape, data);
        code = session->ops.write_variable(session->handle, i, &value, err);
    }
    hs__free(&saver->env, data);
    return code;
}

static hs_code restore(hs_saver *saver, hs_raw_session *session, const char *prefix, fault *whose, hs_error *err)
{
    hs__bundle_reader reader;
    *whose = OF_THE_MODEL;
    hs_code code = hs__saver_check_names(saver, session, err);
    if (code)
        return code;
    *whose = OF_THE_FILES;
    if ((code = hs__bundle_reader_open(&reader, &saver->env, prefix, err)))
        return code;
    *whose = OF_THE_MODEL;
    if (!(code = check_fit(saver, session, &reader, err))) {
        *whose = OF_THE_FILES;
        code = verify(saver, session, &reader, err);
    }
    if (!code)
        *whose = OF_THE_MODEL;
    for (size_t i = 0; !code && i < session->n_states; i++)
        code = load_state(saver, &reader, &session->states[i], err);
    if (!code && !(code = copy_variables(saver, session, &reader, err)))
        code = hs__saver_set_last(saver, prefix, err);
    hs__bundle_reader_close(&reader);
    return code;
}

/* Tells the session where it stands now. */
static hs_code note_restored(hs_raw_session *session, const char *prefix, hs_error *err)
{
    int64_t step;
    char *copy = hs__strdup(&session->env, prefix);
    if (!copy)
        return hs__no_memory(err, strlen(prefix), "a path");
    hs__free(&session->env, session->restored_from);
    session->restored_from = copy;
    if (hs_raw_session_step(session, &step, NULL) == HS_OK)
        session->saved_step = step;
    return HS_OK;
}

hs_code hs_saver_restore(hs_saver *saver, hs_raw_session *session, const char *prefix, hs_error *err)
{
    if (!saver || !session || !session->handle || !prefix || !*prefix)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_saver_restore: %s",
                            !saver                ? "the saver is NULL"
                            : !prefix || !*prefix ? "no checkpoint is named"
                                                  : "there is no session");
    fault whose;
    hs_code code = restore(saver, session, prefix, &whose, err);
    if (!code)
        code = note_restored(session, prefix, err);
    if (!code)
        hs_error_clear(err);
    return code;
}

/* Candidates of a directory, best first. */
typedef struct {
    const hs_env *env;
    const char *directory;
    char **paths;
    size_t n, capacity;
    bool failed;
} candidates;

static void add_candidate(candidates *all, const char *path)
{
    for (size_t i = 0; i < all->n; i++)
        if (strcmp(all->paths[i], path) == 0)
            return;
    char *copy = hs__strdup(all->env, path);
    if (!copy || hs__reserve(all->env, &all->paths, &all->capacity, all->n + 1, sizeof *all->paths, NULL)) {
        hs__free(all->env, copy);
        all->failed = true;
        return;
    }
    all->paths[all->n++] = copy;
}

static int found_file(void *user, const char *name)
{
    candidates *all = user;
    size_t length = strlen(name);
    if (length > 6 && strcmp(name + length - 6, ".index") == 0) {
        char *stem = hs__strndup(all->env, name, length - 6);
        char *path = stem ? hs__path_join(all->env, all->directory, stem) : NULL;
        if (path)
            add_candidate(all, path);
        else
            all->failed = true;
        hs__free(all->env, path);
        hs__free(all->env, stem);
    }
    return 0;
}

/* The step in a path's name; -1 if it has none. */
static long long step_in(const char *path)
{
    const char *dash = strrchr(path, '-');
    char *end;
    long long step = dash ? strtoll(dash + 1, &end, 10) : -1;
    return dash && end > dash + 1 && !*end ? step : -1;
}

static int newest_first(const void *a, const void *b)
{
    long long x = step_in(*(char *const *)a), y = step_in(*(char *const *)b);
    return (x < y) - (x > y);
}

/* What the state file says comes first, newest first; then whatever else lies there. HS_OK also where the state file is
 * damaged. */
static hs_code gather(candidates *all, const char *state_file, hs_error *err)
{
    hs__checkpoint_state state;
    hs_error cause = {0};
    hs_code code = hs__checkpoint_state_read(&state, all->env, all->directory, state_file, &cause);
    bool damaged = code == HS_DATA_LOSS || code == HS_INVALID_ARGUMENT;
    if (damaged)
        hs_log(all->env, HS_LOG_WARNING, "%s; looking through the directory", cause.message);
    else if (code && code != HS_NOT_FOUND)
        return hs__error_copy(err, &cause);
    if (!code) {
        add_candidate(all, state.newest);
        for (size_t i = state.n; i-- > 0;)
            add_candidate(all, state.paths[i]);
        hs__checkpoint_state_free(&state);
    }
    size_t named = all->n;
    hs_file_stat found;
    if (all->env->files.ops->stat(all->env->files.user, all->directory, &found, NULL) == HS_OK && found.is_directory &&
        (code = all->env->files.ops->list(all->env->files.user, all->directory, found_file, all, err)))
        return code;
    if (all->n > named)
        qsort(all->paths + named, all->n - named, sizeof *all->paths, newest_first);
    if (all->failed)
        return hs__no_memory(err, all->n * sizeof *all->paths, "the list of checkpoints");
    return HS_OK;
}

static hs_code try_each(hs_saver *saver, hs_raw_session *session, const candidates *all, const char **taken, hs_error *err)
{
    hs_error first = {0};
    *taken = NULL;
    for (size_t i = 0; i < all->n && !*taken; i++) {
        hs_error cause = {0};
        fault whose;
        hs_code code = restore(saver, session, all->paths[i], &whose, &cause);
        if (!code) {
            *taken = all->paths[i];
            return HS_OK;
        }
        if (whose == OF_THE_MODEL || code == HS_RESOURCE_EXHAUSTED)
            return hs__error_copy(err, &cause);
        hs_log(&saver->env, HS_LOG_WARNING, "checkpoint '%s' is passed over: %s", all->paths[i], cause.message);
        if (!first.code)
            first = cause;
    }
    if (all->n == 0)
        return HS_OK;
    return hs_error_set(err, first.code == HS_NOT_FOUND ? HS_NOT_FOUND : HS_DATA_LOSS,
                        "%s: none of its %zu checkpoints can be restored; nothing was changed. The newest, '%s': %s",
                        all->directory, all->n, all->paths[0], first.message);
}

/* The checkpoints that were there stay in the saver's list, so that they are deleted in their turn. */
static hs_code adopt(hs_saver *saver, const candidates *all, hs_error *err)
{
    const char **paths = hs__alloc(&saver->env, all->n + 1, sizeof *paths);
    if (!paths)
        return hs__no_memory(err, all->n * sizeof *paths, "the list of checkpoints");
    for (size_t i = 0; i < all->n; i++)
        paths[i] = all->paths[all->n - 1 - i];
    hs_code code = hs_saver_recover(saver, paths, err);
    hs__free(&saver->env, paths);
    return code;
}

hs_code hs__restore_newest(hs_saver *saver, hs_raw_session *session, const char *directory, char **restored, hs_error *err)
{
    candidates all = {.env = &saver->env, .directory = directory};
    const char *taken = NULL;
    *restored = NULL;
    hs_code code = gather(&all, NULL, err);
    if (!code)
        code = try_each(saver, session, &all, &taken, err);
    if (!code && taken && !(code = adopt(saver, &all, err)) && !(code = note_restored(session, taken, err))) {
        *restored = hs__strdup(&session->env, taken);
        if (!*restored)
            code = hs__no_memory(err, strlen(taken), "a path");
    }
    for (size_t i = 0; i < all.n; i++)
        hs__free(all.env, all.paths[i]);
    hs__free(all.env, all.paths);
    return code;
}
