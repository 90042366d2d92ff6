/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_FILES_H
#define HS_BASE_FILES_H

#include "base/env.h"
#include "base/paths.h"

/* File operations through the env's file system. Errors go through hs__file_result. */

/* Normalizes the result of a function of hs_file_system_ops:
 * - An error without a message gets one.
 * - An error without os_error gets EIO, which marks a disk error. HS_INVALID_ARGUMENT and HS_UNIMPLEMENTED get none, as a
 *   retry cannot help.
 * - A code that would report a lost session (hs_recovery) becomes HS_UNKNOWN. */
hs_code hs__file_result(hs_code code, const char *what, hs_error *err);

/* True if the error of reading files says that they are damaged: a file does not exist, or has wrong or unknown content. A
 * failure of the system (os_error) is never damage, because the file may be intact. */
bool hs__is_damage(const hs_error *error);
/* On a rank that restores what rank 0 has restored: true if another checkpoint is to be tried. `damaged`: the restore found
 * damage. A file that is missing here is not damage, because rank 0 has just read it; `error` gets the remedy. */
bool hs__is_damage_for_all(bool damaged, hs_error *error);

/* An open file. Write, sync and close may each fail. */
typedef struct hs__file {
    const hs_env *env;
    void *handle; /* NULL: not open */
} hs__file;

hs_code hs__file_open(hs__file *file, const hs_env *env, const char *path, int mode, hs_error *err);
hs_code hs__file_write(hs__file *file, const void *data, size_t bytes, hs_error *err);
/* Reads exactly `bytes`. DATA_LOSS, with the path, if the file has fewer. */
hs_code hs__file_read(hs__file *file, uint64_t offset, void *data, size_t bytes, const char *path, hs_error *err);
hs_code hs__file_sync(hs__file *file, hs_error *err);
/* Does nothing if the file is not open. */
hs_code hs__file_close(hs__file *file, hs_error *err);

/* Reads a whole file into new memory. A zero byte, which *bytes does not count, follows the data. DATA_LOSS if the file is
 * larger than `limit`. */
hs_code hs__file_contents(const hs_env *env, const char *path, size_t limit, char **data, size_t *bytes, hs_error *err);
/* Writes and syncs a file directly under its own name. */
hs_code hs__file_write_synced(const hs_env *env, const char *path, const void *data, size_t bytes, hs_error *err);
/* Renames `tmp`, which is written and synced, to `path`, and syncs the directory. */
hs_code hs__file_place(const hs_env *env, const char *tmp, const char *path, hs_error *err);
/* Writes `data` to PATH.tmp and renames that to `path`: readers see the old file or the whole new one. If `synced`, this
 * also holds after a power failure, and the new file is on disk when the call returns. On failure, the old file is
 * unchanged and PATH.tmp is removed. */
hs_code hs__file_replace(const hs_env *env, const char *path, const void *data, size_t bytes, bool synced, hs_error *err);
/* The same with the temporary path `tmp`, in the directory of `path`. Allocates nothing unless `synced`. */
hs_code hs__file_replace_by(const hs_env *env, const char *tmp, const char *path, const void *data, size_t bytes,
                            bool synced, hs_error *err);

hs_code hs__stat(const hs_env *env, const char *path, hs_file_stat *out, hs_error *err);
/* Calls `found` with each name in a directory until it returns nonzero. */
hs_code hs__list(const hs_env *env, const char *path, int (*found)(void *user, const char *name), void *user,
                 hs_error *err);

bool hs__file_exists(const hs_env *env, const char *path);
/* True only if stat reports NOT_FOUND. Any other failure is false, because callers delete on true. */
bool hs__file_missing(const hs_env *env, const char *path);
/* Locks `path`, or checks that *lock still holds it. *lock stays NULL if hs_env.files has no locks. FAILED_PRECONDITION:
 * another process holds it. UNIMPLEMENTED: this disk has no locks. */
hs_code hs__lock(const hs_env *env, const char *path, void **lock, hs_error *err);
/* True if this process has other holds of the file, not counting claims. For NULL, and for locks of hs_env.files of the
 * program, this is unknown: false. */
bool hs__lock_is_shared(const hs_env *env, const void *lock);
/* Makes the hold a claim of `session`, an address, until the hold is unlocked. False if another session has claimed the
 * file. */
bool hs__lock_claim(const hs_env *env, void *lock, const void *session);
/* False if a session other than this one has claimed the file. */
bool hs__lock_is_open_to(const hs_env *env, const void *lock, const void *session);
/* NULL is allowed. */
void hs__unlock(const hs_env *env, void *lock);
/* Free bytes on the disk of `path`. UINT64_MAX: unknown. */
uint64_t hs__free_space(const hs_env *env, const char *path);
/* Removes a file. A missing file is fine; another failure is a warning in the log. */
void hs__file_remove(const hs_env *env, const char *path);
/* The same for a file, or a directory with its contents. Links are removed, not followed. If hs_env.files cannot remove
 * directories, the empty directory remains. */
void hs__remove_all(const hs_env *env, const char *path);
/* Logs that a file was not deleted because there was no memory for its path. */
void hs__log_undeleted(const hs_env *env, const char *name);
hs_code hs__rename(const hs_env *env, const char *from, const char *to, hs_error *err);
hs_code hs__sync_directory(const hs_env *env, const char *path, hs_error *err);
/* Creates all missing levels of a directory, and syncs the parent of each. */
hs_code hs__make_directories(const hs_env *env, const char *path, hs_error *err);
/* The same for the last level only. */
hs_code hs__make_directory(const hs_env *env, const char *path, hs_error *err);

#endif
