/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_FILES_H
#define HS_BASE_FILES_H

#include "base/env.h"
#include "base/paths.h"

/* What the library does with files, over the env's file system. */

/* The result of a function of hs_file_system_ops. If an error has no message, it gets one. If it has no os_error, it gets
 * EIO, which marks an error of the disk; HS_INVALID_ARGUMENT and HS_UNIMPLEMENTED do not, as a retry cannot help. A code
 * that reports a lost session (hs_recovery) becomes HS_UNKNOWN. */
hs_code hs__file_result(hs_code code, const char *what, hs_error *err);

/* A file that is being written, and how to finish it: all of write, sync and close may fail. */
typedef struct hs__file {
    const hs_env *env;
    void *handle; /* NULL: not open */
} hs__file;

hs_code hs__file_open(hs__file *file, const hs_env *env, const char *path, int mode, hs_error *err);
hs_code hs__file_write(hs__file *file, const void *data, size_t bytes, hs_error *err);
/* Fewer than `bytes` are DATA_LOSS naming the path. */
hs_code hs__file_read(hs__file *file, uint64_t offset, void *data, size_t bytes, const char *path, hs_error *err);
hs_code hs__file_sync(hs__file *file, hs_error *err);
/* NULL handles are fine. */
hs_code hs__file_close(hs__file *file, hs_error *err);

/* The whole file, with a zero byte after it that *bytes does not count; refused with `what` named if larger than `limit`.
 */
hs_code hs__file_contents(const hs_env *env, const char *path, size_t limit, char **data, size_t *bytes, hs_error *err);
/* Writes a file in its place, and syncs it. */
hs_code hs__file_write_synced(const hs_env *env, const char *path, const void *data, size_t bytes, hs_error *err);
/* Gives a file that was written aside, and synced, its name for good: renamed, the directory synced. */
hs_code hs__file_place(const hs_env *env, const char *aside, const char *path, hs_error *err);
/* Writes `data` to PATH.tmp and renames that to `path`: readers see the old file or the whole new one. If `synced`, this
 * holds after a power cut, too, and the new file is on the disk when the call returns. On failure the old file is unchanged
 * and PATH.tmp is removed. */
hs_code hs__file_replace(const hs_env *env, const char *path, const void *data, size_t bytes, bool synced, hs_error *err);
/* The same with the temporary name `tmp`, in the directory of `path`. Allocates nothing unless `synced`. */
hs_code hs__file_replace_by(const hs_env *env, const char *tmp, const char *path, const void *data, size_t bytes,
                            bool synced, hs_error *err);

hs_code hs__stat(const hs_env *env, const char *path, hs_file_stat *out, hs_error *err);
/* Calls `found` with each name in a directory, until it returns other than 0. */
hs_code hs__list(const hs_env *env, const char *path, int (*found)(void *user, const char *name), void *user,
                 hs_error *err);

bool hs__file_exists(const hs_env *env, const char *path);
/* Is there certainly nothing? Where it cannot be looked, there may be something: what is deleted because of this depends on
 * it. */
bool hs__file_missing(const hs_env *env, const char *path);
/* Holds a path, or makes sure that *lock still does. *lock stays NULL where hs_env.files has no locks; UNIMPLEMENTED: there
 * are none on this disk. */
hs_code hs__lock(const hs_env *env, const char *path, void **lock, hs_error *err);
/* Does somebody else in this process hold the same? False where nobody knows, or for NULL. */
bool hs__lock_is_shared(const hs_env *env, const void *lock);
/* NULL is allowed. */
void hs__unlock(const hs_env *env, void *lock);
/* How many bytes can be written where `path` is; UINT64_MAX where nobody knows. */
uint64_t hs__free_space(const hs_env *env, const char *path);
/* Best effort; a missing file is fine, anything else is a warning in the log. */
void hs__file_remove(const hs_env *env, const char *path);
/* The same, also of a folder and what is in it, but not of what links lead to; the folder stays where hs_env.files cannot
 * remove it. */
void hs__remove_all(const hs_env *env, const char *path);
/* Logs that a file is not deleted, because there was no memory for its path. */
void hs__log_undeleted(const hs_env *env, const char *name);
hs_code hs__rename(const hs_env *env, const char *from, const char *to, hs_error *err);
hs_code hs__sync_directory(const hs_env *env, const char *path, hs_error *err);
/* All the levels that are missing; made ones are synced into their parents. */
hs_code hs__make_directories(const hs_env *env, const char *path, hs_error *err);
/* Only the last level. */
hs_code hs__make_directory(const hs_env *env, const char *path, hs_error *err);

#endif
