/* SPDX-License-Identifier: Apache-2.0 */
/* The file system of the operating system: the functions of hs__posix_files, one after the other. */
#ifdef __linux__
#define _GNU_SOURCE /* sync_file_range, O_DIRECT */
#endif
#include "base/env.h"
#include "base/locks_posix.h"
#include "base/redirect_posix.h"
#include "base/write_posix.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* The most bytes of one read or write. */
#define PIECE     ((size_t)1 << 30)
/* More bytes are written in several calls, so that the disk starts early. Fewer bytes go through the cache. */
#define AT_ONCE   ((size_t)1 << 20)
/* O_DIRECT requires that memory, file offset and size are multiples of this. */
#define ALIGNMENT 4096

typedef struct {
    int descriptor;
    uint64_t written, begun; /* bytes written, and bytes for which writeback was started */
    bool direct, no_direct;  /* O_DIRECT is set; O_DIRECT is not possible */
    char path[];             /* for messages */
} posix_file;

/* Removes the file, link or FIFO that has the name of a new file. A link is not followed, as its target may belong to
 * another user. A device stays, and so does a link to one. */
static hs_code remove_existing(const char *path, hs_error *err)
{
    struct stat found;
    if (stat(path, &found) == 0 && (S_ISCHR(found.st_mode) || S_ISBLK(found.st_mode)))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%s: is not a regular file", path);
    if (unlink(path) != 0 && errno != ENOENT)
        return hs_error_set_errno(err, errno, "%s: cannot replace it", path);
    return HS_OK;
}

static hs_code open_descriptor(const char *path, int mode, int *descriptor, hs_error *err)
{
    static const int flags[] = {O_RDONLY, O_WRONLY | O_CREAT | O_EXCL, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW,
                                O_WRONLY | O_CREAT | O_EXCL};
    hs_code code = mode == HS_OPEN_WRITE ? remove_existing(path, err) : HS_OK;
    if (code)
        return code;
    do /* O_NONBLOCK: opening a FIFO does not wait for its other end. It has no effect on files. */
        *descriptor = open(path, flags[mode] | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, 0666);
    while (*descriptor < 0 && errno == EINTR);
    if (*descriptor < 0 && errno == ELOOP && mode == HS_OPEN_APPEND)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "%s: is a symbolic link; give the file itself", path);
    if (*descriptor < 0 && errno == ENXIO && mode == HS_OPEN_APPEND) /* a FIFO without a reader */
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%s: is not a regular file", path);
    if (*descriptor < 0)
        return hs_error_set_errno(err, errno, "%s: cannot open it for %s", path,
                                  mode == HS_OPEN_READ ? "reading" : "writing");

    /* Only files with an end and offsets can be read: not a FIFO, not a device. For a directory, read fails with its own
     * error. */
    struct stat found;
    if (fstat(*descriptor, &found) != 0)
        code = hs_error_set_errno(err, errno, "%s", path);
    else if (mode == HS_OPEN_READ ? !S_ISREG(found.st_mode) && !S_ISDIR(found.st_mode) : S_ISFIFO(found.st_mode))
        code = hs_error_set(err, HS_INVALID_ARGUMENT, "%s: is not a regular file", path);
    else if (mode == HS_OPEN_APPEND && S_ISREG(found.st_mode) && found.st_nlink > 1)
        code = hs_error_set(err, HS_FAILED_PRECONDITION, "%s: has %llu hard links; give a file with one", path,
                            (unsigned long long)found.st_nlink);
    if (code)
        close(*descriptor);
    return code;
}

static hs_code local_open(void *user, const char *path, int mode, void **file, hs_error *err)
{
    char buffer[PATH_MAX];
    (void)user;
    path = hs__redirected(path, buffer);
    if (mode < HS_OPEN_READ || mode > HS_OPEN_NEW)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%s: open mode %d does not exist", path, mode);
    size_t length = strlen(path) + 1;
    posix_file *made = malloc(sizeof *made + length);
    if (!made)
        return hs__no_memory(err, sizeof *made + length, "a file handle");
    memcpy(made->path, path, length);
    made->written = made->begun = 0;
    made->direct = false;
    made->no_direct = mode == HS_OPEN_APPEND; /* its end may not be aligned */
    hs_code code = open_descriptor(path, mode, &made->descriptor, err);
    if (code)
        free(made);
    else
        *file = made;
    return code;
}

/* Large aligned pieces are read and written with O_DIRECT: nothing is copied, the disk starts immediately, and the cache
 * keeps the files that the program reads in small pieces. If O_DIRECT is not possible, large pieces also go through the
 * cache. */
static void choose_direct(posix_file *file, const void *memory, size_t bytes, uint64_t offset)
{
#ifdef O_DIRECT
    bool wanted = !file->no_direct && bytes >= AT_ONCE && ((uintptr_t)memory | bytes | offset) % ALIGNMENT == 0;
    if (wanted == file->direct)
        return;
    int flags = fcntl(file->descriptor, F_GETFL);
    if (flags < 0 || fcntl(file->descriptor, F_SETFL, wanted ? flags | O_DIRECT : flags & ~O_DIRECT) != 0)
        file->no_direct = true;
    else
        file->direct = wanted;
#else
    (void)file, (void)memory, (void)bytes, (void)offset;
#endif
}

/* Returns true if the call that failed with errno is repeated, without O_DIRECT if that was the cause. */
static bool can_repeat(posix_file *file)
{
    bool refused = errno == EINVAL && file->direct && !file->no_direct;
    file->no_direct |= refused;
    return refused || errno == EINTR;
}

static hs_code local_read(void *user, void *handle, uint64_t offset, void *data, size_t bytes, size_t *got, hs_error *err)
{
    (void)user;
    posix_file *file = handle;
    char *to = data;
    *got = 0;
    while (*got < bytes) {
        size_t missing = bytes - *got;
        choose_direct(file, to + *got, missing, offset + *got);
        ssize_t n = pread(file->descriptor, to + *got, missing < PIECE ? missing : PIECE, (off_t)(offset + *got));
        if (n < 0 && can_repeat(file))
            continue;
        if (n < 0)
            return hs_error_set_errno(err, errno, "%s: cannot read %zu bytes at %llu", file->path, bytes,
                                      (unsigned long long)offset);
        if (n == 0)
            break;
        *got += (size_t)n;
    }
    return HS_OK;
}

static hs_code local_write(void *user, void *handle, const void *data, size_t bytes, hs_error *err)
{
    (void)user;
    posix_file *file = handle;
    const char *from = data;
    size_t done = 0;
    while (done < bytes) {
        size_t missing = bytes - done;
        choose_direct(file, from + done, missing, file->written);
        size_t most = file->direct ? PIECE : AT_ONCE;
        ssize_t n = hs__write(file->descriptor, from + done, missing < most ? missing : most);
        if (n < 0 && can_repeat(file))
            continue;
        if (n == 0)
            errno = EIO; /* no progress is possible */
        if (n <= 0)
            return hs_error_set_errno(err, errno, "%s: cannot write; %zu of %zu bytes were written", file->path, done,
                                      bytes);
        done += (size_t)n;
        file->written += (size_t)n;
        /* Start writeback of the written bytes, so that the disk works while the caller writes more, and the sync is short.
         * Only a hint: the sync reports errors. */
        if (file->direct)
            file->begun = file->written;
        if (file->written - file->begun >= AT_ONCE) {
#ifdef __linux__
            sync_file_range(file->descriptor, (off_t)file->begun, (off_t)(file->written - file->begun),
                            SYNC_FILE_RANGE_WRITE);
#endif
            file->begun = file->written;
        }
    }
    return HS_OK;
}

static hs_code local_sync(void *user, void *handle, hs_error *err)
{
    (void)user;
    posix_file *file = handle;
    int result;
    do
        result = fsync(file->descriptor);
    while (result != 0 && errno == EINTR);
    return result == 0 ? HS_OK : hs_error_set_errno(err, errno, "%s: cannot sync", file->path);
}

static hs_code local_close(void *user, void *handle, hs_error *err)
{
    (void)user;
    posix_file *file = handle;
    hs_code code = HS_OK;
    /* After EINTR, the descriptor is closed on Linux. Closing it again could close another thread's file. */
    if (close(file->descriptor) != 0 && errno != EINTR)
        code = hs_error_set_errno(err, errno, "%s: cannot close", file->path);
    free(file);
    return code;
}

static hs_code local_rename(void *user, const char *from, const char *to, hs_error *err)
{
    char buffers[2][PATH_MAX];
    (void)user;
    from = hs__redirected(from, buffers[0]);
    to = hs__redirected(to, buffers[1]);
    return rename(from, to) == 0 ? HS_OK : hs_error_set_errno(err, errno, "%s: cannot rename it to %s", from, to);
}

static hs_code local_remove(void *user, const char *path, hs_error *err)
{
    char buffer[PATH_MAX];
    (void)user;
    path = hs__redirected(path, buffer);
    return unlink(path) == 0 ? HS_OK : hs_error_set_errno(err, errno, "%s: cannot remove it", path);
}

static hs_code local_remove_directory(void *user, const char *path, hs_error *err)
{
    char buffer[PATH_MAX];
    (void)user;
    path = hs__redirected(path, buffer);
    return rmdir(path) == 0 ? HS_OK : hs_error_set_errno(err, errno, "%s: cannot remove it", path);
}

static hs_code local_sync_directory(void *user, const char *path, hs_error *err)
{
    char buffer[PATH_MAX];
    (void)user;
    path = hs__redirected(path, buffer);
    int descriptor, result;
    do
        descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (descriptor < 0 && errno == EINTR);
    if (descriptor < 0)
        return hs_error_set_errno(err, errno, "%s: cannot open the directory", path);
    do
        result = fsync(descriptor);
    while (result != 0 && errno == EINTR);
    /* EINVAL: the file system cannot sync directories */
    hs_code code =
        result == 0 || errno == EINVAL ? HS_OK : hs_error_set_errno(err, errno, "%s: cannot sync the directory", path);
    close(descriptor);
    return code;
}

static hs_code local_make_directory(void *user, const char *path, hs_error *err)
{
    char buffer[PATH_MAX];
    (void)user;
    path = hs__redirected(path, buffer);
    return mkdir(path, 0777) == 0 ? HS_OK : hs_error_set_errno(err, errno, "%s: cannot create the directory", path);
}

/* Times before 1678 and after 2262 do not fit, and become the nearest time that fits. A file can have any time. */
static int64_t nanoseconds(const struct timespec *time)
{
    const int64_t most = INT64_MAX / 1000000000 - 1, secs = time->tv_sec;
    return (secs < -most ? -most : secs > most ? most : secs) * 1000000000 + time->tv_nsec;
}

static hs_code local_stat(void *user, const char *path, hs_file_stat *out, hs_error *err)
{
    char buffer[PATH_MAX];
    (void)user;
    path = hs__redirected(path, buffer);
    struct stat found;
    if (stat(path, &found) != 0)
        return hs_error_set_errno(err, errno, "%s", path);
    *out = (hs_file_stat){
        .bytes = (uint64_t)found.st_size,
        .modified_ns = nanoseconds(&found.st_mtim),
        .is_directory = S_ISDIR(found.st_mode),
    };
    return HS_OK;
}

static hs_code local_free_space(void *user, const char *path, uint64_t *bytes, hs_error *err)
{
    char buffer[PATH_MAX];
    (void)user;
    path = hs__redirected(path, buffer);
    struct statvfs found;
    if (statvfs(path, &found) != 0)
        return hs_error_set_errno(err, errno, "%s: cannot query the free space", path);
    if (found.f_blocks == 0) /* unknown */
        return hs_error_set(err, HS_UNIMPLEMENTED, "%s: the file system does not report its free space", path);
    *bytes = (uint64_t)found.f_bavail * found.f_frsize;
    return HS_OK;
}

static hs_code local_list(void *user, const char *path, int (*visit)(void *visitor, const char *name), void *visitor,
                          hs_error *err)
{
    char buffer[PATH_MAX];
    (void)user;
    path = hs__redirected(path, buffer);
    DIR *directory = opendir(path);
    if (!directory)
        return hs_error_set_errno(err, errno, "%s: cannot list the directory", path);
    hs_code code = HS_OK;
    for (;;) {
        errno = 0;
        struct dirent *entry = readdir(directory);
        if (!entry) {
            if (errno)
                code = hs_error_set_errno(err, errno, "%s: cannot list the directory", path);
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 && visit(visitor, entry->d_name))
            break;
    }
    closedir(directory);
    return code;
}

const hs_file_system_ops hs__posix_files = HS_INIT(
    hs_file_system_ops, .open = local_open, .read = local_read, .write = local_write, .sync = local_sync,
    .close = local_close, .rename = local_rename, .remove = local_remove, .remove_directory = local_remove_directory,
    .sync_directory = local_sync_directory, .make_directory = local_make_directory, .stat = local_stat, .list = local_list,
    .lock = hs__posix_lock, .unlock = hs__posix_unlock, .free_space = local_free_space);
