/* SPDX-License-Identifier: Apache-2.0 */
/* Locks by fcntl: unlike other locks, a child process does not inherit them, as it may outlive the holder. But they belong
 * to the process as a whole, and the kernel releases them when any descriptor of the file is closed. So all holds of a file
 * share one descriptor, and a global table has the files that the process has locked. It is the library's only state that
 * does not belong to an object: it mirrors the kernel's state of the process. Other code in the process may still open and
 * close the file. So users of a lock call hs__posix_lock with it from time to time, which acquires it again.
 *
 * hs__posix_lock opens the file, or finds it in the table, and locks it (lock_named, acquire). A hold then refers to it. */
#include "base/locks_posix.h"
#include "base/redirect_posix.h"
#include "base/write_posix.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file with holds. */
typedef struct locked_file {
    struct locked_file *next;
    dev_t device;
    ino_t inode;
    int descriptor;
    size_t holds;        /* all that refer to this file. The last one closes the descriptor */
    pid_t owner;         /* the process that has the lock; after a fork, not this process */
    size_t owned;        /* holds of the owner. The last one releases the lock */
    bool is_named;       /* the owner is written in the file */
    const void *session; /* which has claimed it; NULL: none */
    size_t claims;       /* holds of the owner that have claimed it for this session */
} locked_file;

typedef struct {
    locked_file *file;
    pid_t owner;         /* if not this process: inherited by a fork, and not locked until hs__posix_lock acquires it */
    const void *session; /* for which it claims the file; NULL: none */
} posix_hold;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static locked_file *files;

static void lock_table(void)
{
    pthread_mutex_lock(&mutex);
}

static void unlock_table(void)
{
    pthread_mutex_unlock(&mutex);
}

/* Without this, a child that is forked during a change has an inconsistent table and a mutex that is locked forever. */
static void watch_forks(void)
{
    pthread_atfork(lock_table, unlock_table, unlock_table);
}

/* The kernel's lock. */

/* False: the file has hard links and may belong to another user. It is locked, but neither written nor read. */
static bool has_one_name(int descriptor)
{
    struct stat found;
    return fstat(descriptor, &found) == 0 && found.st_nlink < 2;
}

static int set_lock(int descriptor, short type)
{
    struct flock whole = {.l_type = type, .l_whence = SEEK_SET};
    int result;
    do
        result = fcntl(descriptor, F_SETLK, &whole);
    while (result != 0 && errno == EINTR);
    return result;
}

/* Acquires the lock, or confirms that the process has it. Writes the name of the process to the file, for messages. */
static hs_code acquire(locked_file *file, const char *path, hs_error *err)
{
    const int descriptor = file->descriptor;
    const pid_t process = getpid();
    char text[192], host[128] = "this host";
    if (set_lock(descriptor, F_WRLCK) != 0) {
        file->is_named = false;
        if (errno == EINVAL || errno == ENOLCK || errno == ENOSYS || errno == ENOTSUP)
            return hs_error_set_errno(err, ENOTSUP, "%s: the file system does not support locks", path);
        if (errno != EACCES && errno != EAGAIN)
            return hs_error_set_errno(err, errno, "%s: cannot lock it", path);
        ssize_t length = has_one_name(descriptor) ? pread(descriptor, text, sizeof text - 1, 0) : 0;
        text[length > 0 ? length : 0] = '\0';
        text[strcspn(text, "\n")] = '\0';
        return hs_error_set(err, HS_FAILED_PRECONDITION, "%s: locked by %s", path, *text ? text : "another process");
    }
    if (file->owner != process) {
        file->owner = process;
        file->owned = file->claims = 0;
        file->session = NULL;
        file->is_named = false;
    }
    if (!file->is_named && has_one_name(descriptor)) {
        if (gethostname(host, sizeof host) == 0)
            host[sizeof host - 1] = '\0';
        int length = snprintf(text, sizeof text, "process %ld on %s\n", (long)process, host);
        if (ftruncate(descriptor, 0) == 0 && lseek(descriptor, 0, SEEK_SET) == 0)
            hs__write(descriptor, text, (size_t)length);
    }
    file->is_named = true;
    return HS_OK;
}

/* The table. Its mutex is held. */

static locked_file *find(const struct stat *found)
{
    locked_file *file = files;
    while (file && (file->device != found->st_dev || file->inode != found->st_ino))
        file = file->next;
    return file;
}

static void forget_if_unheld(locked_file *file)
{
    if (file->holds)
        return;
    locked_file **at = &files;
    while (*at != file)
        at = &(*at)->next;
    *at = file->next;
    close(file->descriptor);
    free(file);
}

static hs_code not_a_file(const char *path, hs_error *err)
{
    return hs_error_set(err, HS_INVALID_ARGUMENT, "%s: is not a regular file; remove it", path);
}

/* Gives the new file the group and the permissions of its directory, so that each user who may write there can lock it. The
 * process's umask could allow this user alone. Not all file systems have permissions, so failures are ignored. */
static void share_with_directory(int descriptor, const char *path)
{
    struct stat found;
    const char *slash = strrchr(path, '/');
    char *directory = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    if (directory && stat(directory, &found) == 0) {
        mode_t mode = found.st_mode & 0666;
        if (fchown(descriptor, (uid_t)-1, found.st_gid) != 0) /* the user is not in the directory's group */
            mode = (mode & 0606) | (mode & 06) << 3;
        fchmod(descriptor, mode);
    }
    free(directory);
}

static int open_or_create(const char *path)
{
    enum { ATTEMPTS = 20, PAUSE_MS = 5 };
    const int flags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    for (int attempt = 1;;) {
        int descriptor = open(path, flags);
        if (descriptor < 0 && errno == EACCES && attempt++ < ATTEMPTS) { /* another user may be about to share a new file */
            poll(NULL, 0, PAUSE_MS);
            continue;
        }
        if (descriptor >= 0 || (errno != ENOENT && errno != EINTR))
            return descriptor;
        if (errno == ENOENT && (descriptor = open(path, flags | O_CREAT | O_EXCL, 0666)) >= 0) {
            share_with_directory(descriptor, path);
            return descriptor;
        }
        if (errno != EEXIST && errno != EINTR)
            return -1;
    }
}

/* Opens a file that is not in the table under this name, and adds it without holds. */
static hs_code open_file(const char *path, locked_file **file, hs_error *err)
{
    struct stat found;
    int descriptor = open_or_create(path);
    if (descriptor < 0)
        return errno == ELOOP || errno == EISDIR ? not_a_file(path, err)
                                                 : hs_error_set_errno(err, errno, "%s: cannot open it", path);
    hs_code code = HS_OK;
    if (fstat(descriptor, &found) != 0)
        code = hs_error_set_errno(err, errno, "%s", path);
    else if (!S_ISREG(found.st_mode))
        code = not_a_file(path, err);
    else if (!(*file = find(&found)) && !(*file = calloc(1, sizeof **file)))
        code = hs_error_set(err, HS_RESOURCE_EXHAUSTED, "%s: no memory to lock it", path);
    if (code ||
        (*file)->holds) { /* with holds, it was renamed to `path`. close() releases its lock: the caller acquires it */
        close(descriptor);
        return code;
    }
    **file = (locked_file){.next = files, .device = found.st_dev, .inode = found.st_ino, .descriptor = descriptor};
    files = *file;
    return HS_OK;
}

/* Locks the file that has this name now. */
static hs_code lock_named(const char *path, locked_file **file, hs_error *err)
{
    struct stat found;
    *file = lstat(path, &found) == 0 ? find(&found) : NULL;
    hs_code code = *file ? HS_OK : open_file(path, file, err);
    if (code)
        return code;
    if ((code = acquire(*file, path, err)))
        forget_if_unheld(*file);
    return code;
}

/* Makes a new or inherited hold one of the file's owner. */
static void adopt(posix_hold *hold)
{
    if (hold->owner == hold->file->owner)
        return;
    hold->owner = hold->file->owner;
    hold->file->owned++;
}

static bool is_open_to(const locked_file *file, const void *session)
{
    return !file->session || file->session == session;
}

static bool claim(posix_hold *hold, const void *session)
{
    locked_file *file = hold->file;
    if (!is_open_to(file, session))
        return false;
    file->claims += !hold->session;
    hold->session = file->session = session;
    return true;
}

static void release(posix_hold *hold)
{
    locked_file *file = hold->file;
    if (hold->session && hold->owner == file->owner && --file->claims == 0)
        file->session = NULL;
    hold->session = NULL;
    file->holds--;
    if (hold->owner == file->owner && --file->owned == 0 && file->owner == getpid()) {
        set_lock(file->descriptor, F_UNLCK);
        file->is_named = false;
    }
    forget_if_unheld(file);
}

static hs_code renew(posix_hold *hold, const char *path, hs_error *err)
{
    locked_file *file;
    hs_code code = lock_named(path, &file, err);
    if (code)
        return code;
    const void *session = hold->session;
    if (file == hold->file) {
        adopt(hold);
        return HS_OK;
    }
    file->holds++; /* the old file was deleted or renamed */
    release(hold);
    *hold = (posix_hold){.file = file};
    adopt(hold);
    if (session)
        claim(hold, session);
    return HS_OK;
}

static hs_code add_hold(const char *path, void **lock, hs_error *err)
{
    posix_hold *made = calloc(1, sizeof *made);
    if (!made)
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "%s: no memory to lock it", path);
    hs_code code = lock_named(path, &made->file, err);
    if (code) {
        free(made);
        return code;
    }
    made->file->holds++;
    adopt(made);
    *lock = made;
    return HS_OK;
}

hs_code hs__posix_lock(void *user, const char *path, void **lock, hs_error *err)
{
    char buffer[PATH_MAX];
    (void)user;
    path = hs__redirected(path, buffer);
    pthread_once(&once, watch_forks);
    lock_table();
    hs_code code = *lock ? renew(*lock, path, err) : add_hold(path, lock, err);
    unlock_table();
    return code;
}

void hs__posix_unlock(void *user, void *lock)
{
    (void)user;
    lock_table();
    release(lock);
    unlock_table();
    free(lock);
}

bool hs__posix_lock_is_shared(const void *lock)
{
    const posix_hold *hold = lock;
    const locked_file *file = hold->file;
    lock_table();
    bool shared = hold->owner == getpid() && file->owner == hold->owner && file->owned - file->claims > !hold->session;
    unlock_table();
    return shared;
}

bool hs__posix_lock_is_open_to(const void *lock, const void *session)
{
    lock_table();
    bool open = is_open_to(((const posix_hold *)lock)->file, session);
    unlock_table();
    return open;
}

bool hs__posix_lock_claim(void *lock, const void *session)
{
    lock_table();
    bool claimed = claim(lock, session);
    unlock_table();
    return claimed;
}
