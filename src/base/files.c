/* SPDX-License-Identifier: Apache-2.0 */
/* Calls the functions of a file system (hs_file_system_ops), normalizes their errors (hs__file_result), and builds on them:
 * whole files, replacing, deleting, directories, locks. */
#include "base/files.h"

#include "base/error.h"

#include <errno.h>
#include <string.h>

hs_code hs__file_result(hs_code code, const char *what, hs_error *err)
{
    if (!code)
        return HS_OK;
    hs__normalize_error(code, what, err);
    if (code == HS_ABORTED || code == HS_UNAVAILABLE)
        code = HS_UNKNOWN;
    if (err) {
        err->code = code;
        if (!err->os_error && code != HS_INVALID_ARGUMENT && code != HS_UNIMPLEMENTED)
            err->os_error = EIO;
    }
    return code;
}

bool hs__is_damage(const hs_error *error)
{
    const hs_code code = error->code;
    return code == HS_NOT_FOUND ||
           (!error->os_error && (code == HS_DATA_LOSS || code == HS_INVALID_ARGUMENT || code == HS_UNIMPLEMENTED));
}

bool hs__is_damage_for_all(bool damaged, hs_error *error)
{
    if (!damaged || error->code != HS_NOT_FOUND)
        return damaged;
    hs_error_prefix(error, "all ranks must share the directory of the checkpoints");
    return false;
}

hs_code hs__file_open(hs__file *file, const hs_env *env, const char *path, int mode, hs_error *err)
{
    file->env = env;
    file->handle = NULL;
    return hs__file_result(env->files.ops->open(env->files.user, path, mode, &file->handle, err), "opening a file", err);
}

hs_code hs__file_write(hs__file *file, const void *data, size_t bytes, hs_error *err)
{
    return hs__file_result(file->env->files.ops->write(file->env->files.user, file->handle, data, bytes, err),
                           "writing a file", err);
}

hs_code hs__file_read(hs__file *file, uint64_t offset, void *data, size_t bytes, const char *path, hs_error *err)
{
    size_t got = 0;
    hs_code code =
        hs__file_result(file->env->files.ops->read(file->env->files.user, file->handle, offset, data, bytes, &got, err),
                        "reading a file", err);
    if (!code && got != bytes)
        code = hs_error_set(err, HS_DATA_LOSS, "%s: ends at byte %llu, but %zu bytes are needed from byte %llu on", path,
                            (unsigned long long)(offset + got), bytes, (unsigned long long)offset);
    return code;
}

hs_code hs__file_sync(hs__file *file, hs_error *err)
{
    return hs__file_result(file->env->files.ops->sync(file->env->files.user, file->handle, err), "syncing a file", err);
}

hs_code hs__file_close(hs__file *file, hs_error *err)
{
    void *handle = file->handle;
    file->handle = NULL;
    return handle ? hs__file_result(file->env->files.ops->close(file->env->files.user, handle, err), "closing a file", err)
                  : HS_OK;
}

hs_code hs__file_contents(const hs_env *env, const char *path, size_t limit, char **data, size_t *bytes, hs_error *err)
{
    const hs_file_system *files = &env->files;
    hs_file_stat found;
    hs_code code = hs__file_result(files->ops->stat(files->user, path, &found, err), path, err);
    if (code)
        return code;
    if (found.is_directory)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "%s: is a directory", path);
    if (found.bytes > limit)
        return hs_error_set(err, HS_DATA_LOSS, "%s: has %llu bytes; at most %zu are allowed", path,
                            (unsigned long long)found.bytes, limit);
    size_t size = (size_t)found.bytes;
    char *read = hs__alloc(env, size + 1, 1);
    if (!read)
        return hs__no_memory(err, size + 1, path);
    hs__file file;
    if (!(code = hs__file_open(&file, env, path, HS_OPEN_READ, err))) {
        code = hs__file_read(&file, 0, read, size, path, err);
        hs__file_close(&file, NULL);
    }
    if (code) {
        hs__free(env, read);
        return code;
    }
    *data = read;
    *bytes = size;
    return HS_OK;
}

static hs_code write_all(hs__file *file, const void *data, size_t bytes, bool synced, hs_error *err)
{
    hs_code code = hs__file_write(file, data, bytes, err);
    if (!code && synced)
        code = hs__file_sync(file, err);
    hs_code closed = hs__file_close(file, code ? NULL : err);
    return code ? code : closed;
}

hs_code hs__file_write_synced(const hs_env *env, const char *path, const void *data, size_t bytes, hs_error *err)
{
    hs__file file;
    hs_code code = hs__file_open(&file, env, path, HS_OPEN_WRITE, err);
    return code ? code : write_all(&file, data, bytes, true, err);
}

hs_code hs__file_place(const hs_env *env, const char *tmp, const char *path, hs_error *err)
{
    char *directory = hs__path_directory(env, path);
    hs_code code = directory ? hs__rename(env, tmp, path, err) : hs__no_memory(err, strlen(path), "a path");
    if (!code)
        code = hs__sync_directory(env, directory, err);
    hs__free(env, directory);
    return code;
}

hs_code hs__file_replace_by(const hs_env *env, const char *tmp, const char *path, const void *data, size_t bytes,
                            bool synced, hs_error *err)
{
    hs__file file;
    hs_code code = hs__file_open(&file, env, tmp, HS_OPEN_WRITE, err);
    if (code)
        return code;
    if (!(code = write_all(&file, data, bytes, synced, err)))
        code = synced ? hs__file_place(env, tmp, path, err) : hs__rename(env, tmp, path, err);
    if (code)
        hs__file_remove(env, tmp);
    return code;
}

hs_code hs__file_replace(const hs_env *env, const char *path, const void *data, size_t bytes, bool synced, hs_error *err)
{
    char *tmp = hs__format(env, "%s.tmp", path);
    if (!tmp)
        return hs__no_memory(err, strlen(path), "a path");
    hs_code code = hs__file_replace_by(env, tmp, path, data, bytes, synced, err);
    hs__free(env, tmp);
    return code;
}

hs_code hs__stat(const hs_env *env, const char *path, hs_file_stat *out, hs_error *err)
{
    return hs__file_result(env->files.ops->stat(env->files.user, path, out, err), path, err);
}

hs_code hs__list(const hs_env *env, const char *path, int (*found)(void *user, const char *name), void *user, hs_error *err)
{
    return hs__file_result(env->files.ops->list(env->files.user, path, found, user, err), path, err);
}

bool hs__file_missing(const hs_env *env, const char *path)
{
    hs_file_stat found;
    return env->files.ops->stat(env->files.user, path, &found, NULL) == HS_NOT_FOUND;
}

hs_code hs__lock(const hs_env *env, const char *path, void **lock, hs_error *err)
{
    const hs_file_system *files = &env->files;
    if (!files->ops->lock || !files->ops->unlock)
        return HS_OK; /* locks are optional */
    hs_error error = {0};
    hs_code code = hs__normalize_error(files->ops->lock(files->user, path, lock, &error), path, &error);
    if (code == HS_FAILED_PRECONDITION && !error.os_error) /* another process holds it */
        return hs__error_copy(err, &error);
    code = hs__file_result(code, path, &error);
    hs__error_copy(err, &error);
    return code;
}

void hs__unlock(const hs_env *env, void *lock)
{
    if (lock)
        env->files.ops->unlock(env->files.user, lock);
}

bool hs__file_exists(const hs_env *env, const char *path)
{
    hs_file_stat found;
    return env->files.ops->stat(env->files.user, path, &found, NULL) == HS_OK;
}

uint64_t hs__free_space(const hs_env *env, const char *path)
{
    const hs_file_system_ops *ops = env->files.ops;
    uint64_t bytes;
    if (!ops->free_space || ops->free_space(env->files.user, path, &bytes, NULL))
        return UINT64_MAX;
    return bytes;
}

void hs__file_remove(const hs_env *env, const char *path)
{
    hs_error error = {0};
    hs_code code = env->files.ops->remove(env->files.user, path, &error);
    if (code && code != HS_NOT_FOUND)
        hs_log(env, HS_LOG_WARNING, "%s", hs__file_result(code, path, &error) ? error.message : "");
}

void hs__log_undeleted(const hs_env *env, const char *name)
{
    hs_log(env, HS_LOG_WARNING, "cannot delete '%s': no memory for its path", name);
}

typedef struct {
    const hs_env *env;
    const char *directory;
} removal;

static int remove_inside(void *user, const char *name)
{
    const removal *r = user;
    char *path = hs__path_join(r->env, r->directory, name);
    if (path)
        hs__remove_all(r->env, path);
    else
        hs__log_undeleted(r->env, name);
    hs__free(r->env, path);
    return 0;
}

/* The first remove succeeds for everything but directories. It removes a link itself, so that its target is not touched. */
void hs__remove_all(const hs_env *env, const char *path)
{
    const hs_file_system_ops *ops = env->files.ops;
    hs_file_stat found;
    hs_error error = {0};
    removal inside = {env, path};
    hs_code code = hs__file_result(ops->remove(env->files.user, path, &error), path, &error);
    if (!code || code == HS_NOT_FOUND)
        return;
    if (!hs__stat(env, path, &found, NULL) && found.is_directory) {
        hs_error_clear(&error);
        code = hs__list(env, path, remove_inside, &inside, &error);
        if (!code && ops->remove_directory)
            code = hs__file_result(ops->remove_directory(env->files.user, path, &error), path, &error);
    }
    if (code)
        hs_log(env, HS_LOG_WARNING, "%s", error.message);
}

hs_code hs__rename(const hs_env *env, const char *from, const char *to, hs_error *err)
{
    return hs__file_result(env->files.ops->rename(env->files.user, from, to, err), "renaming a file", err);
}

hs_code hs__sync_directory(const hs_env *env, const char *path, hs_error *err)
{
    return hs__file_result(env->files.ops->sync_directory(env->files.user, path, err), "syncing a directory", err);
}

hs_code hs__make_directory(const hs_env *env, const char *path, hs_error *err)
{
    const hs_file_system *files = &env->files;
    hs_file_stat found;
    hs_code code = hs__file_result(files->ops->stat(files->user, path, &found, err), path, err);
    if (!code)
        return found.is_directory ? HS_OK : hs_error_set(err, HS_FAILED_PRECONDITION, "%s: is not a directory", path);
    if (code != HS_NOT_FOUND)
        return code;
    hs_error_clear(err); /* NOT_FOUND is expected */
    code = hs__file_result(files->ops->make_directory(files->user, path, err), path, err);
    if (code == HS_ALREADY_EXISTS) { /* another process was faster */
        hs_error_clear(err);
        return HS_OK;
    }
    if (code)
        return code;
    char *parent = hs__path_directory(env, path);
    if (!parent)
        return hs__no_memory(err, strlen(path), "a path");
    code = hs__sync_directory(env, parent, err);
    hs__free(env, parent);
    return code;
}

hs_code hs__make_directories(const hs_env *env, const char *path, hs_error *err)
{
    char *partial = hs__strdup(env, path);
    if (!partial)
        return hs__no_memory(err, strlen(path), "a path");
    hs_code code = HS_OK;
    for (char *at = partial + 1; !code && partial[0] && *at; at++)
        if (*at == '/' && at[-1] != '/') {
            *at = '\0';
            code = hs__make_directory(env, partial, err);
            *at = '/';
        }
    size_t length = strlen(partial);
    while (length > 1 && partial[length - 1] == '/')
        partial[--length] = '\0';
    if (!code)
        code = hs__make_directory(env, partial, err);
    hs__free(env, partial);
    return code;
}
