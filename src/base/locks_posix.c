/* SPDX-License-Identifier: Apache-2.0 */
/* Locks by fcntl: unlike other locks, a child process does not inherit them, as it may outlive the holder. But they belong
 * to the process as a whole, and the kernel releases them when any descriptor of the file is closed. So all holds of a file
 * share one descriptor, and a global list has the holds of the process. It is the library's only state that does not belong
 * to an object: it mirrors the kernel's state of the process. Other code in the process may still open and close the file.
 * So users of a lock call hs__posix_lock with it from time to time, which acquires it again. */
#include "base/locks_posix.h"
#include "base/files.h"
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

typedef struct hold {
    struct hold *next;
    dev_t device;
    ino_t inode;
    int descriptor;      /* of the file; all its holds have the same. The last one closes it */
    pid_t owner;         /* if not this process: inherited by a fork, and not locked until hs__posix_lock acquires it */
    const void *session; /* for which it claims the file; NULL: none */
} hold;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards the list */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static hold *holds;

static void lock_list(void)
{
    pthread_mutex_lock(&mutex);
}

static void unlock_list(void)
{
    pthread_mutex_unlock(&mutex);
}

/* Without this, a child that is forked during a change has an inconsistent list and a mutex that is locked forever. */
static void watch_forks(void)
{
    pthread_atfork(lock_list, unlock_list, unlock_list);
}

/* The kernel's lock. */

static int set_lock(int descriptor, short type)
{
    struct flock whole = {.l_type = type, .l_whence = SEEK_SET};
    int result;
    do
        result = fcntl(descriptor, F_SETLK, &whole);
    while (result != 0 && errno == EINTR);
    return result;
}

/* Acquires the lock, or confirms that the process has it. Writes the name of the process to the file, for messages. A file
 * with hard links may belong to another user: it is locked, but neither written nor read. */
static hs_code acquire(int descriptor, const char *path, hs_error *err)
{
    char text[192] = "", mine[192], host[128] = "this host";
    struct stat found;
    const bool is_locked = set_lock(descriptor, F_WRLCK) == 0;
    const int error = errno;
    const bool has_one_name = fstat(descriptor, &found) == 0 && found.st_nlink < 2;
    if (!is_locked && (error == EINVAL || error == ENOLCK || error == ENOSYS || error == ENOTSUP))
        return hs_error_set_errno(err, ENOTSUP, "%s: the file system does not support locks", path);
    if (!is_locked && error != EACCES && error != EAGAIN)
        return hs_error_set_errno(err, error, "%s: cannot lock it", path);
    ssize_t length = has_one_name ? pread(descriptor, text, sizeof text - 1, 0) : 0;
    text[length > 0 ? length : 0] = '\0';
    if (!is_locked) {
        text[strcspn(text, "\n")] = '\0';
        return hs_error_set(err, HS_FAILED_PRECONDITION, "%s: locked by %s", path, *text ? text : "another process");
    }
    if (gethostname(host, sizeof host) == 0)
        host[sizeof host - 1] = '\0';
    length = snprintf(mine, sizeof mine, "process %ld on %s\n", (long)getpid(), host);
    if (has_one_name && strcmp(text, mine) != 0 && ftruncate(descriptor, 0) == 0 && lseek(descriptor, 0, SEEK_SET) == 0)
        hs__write(descriptor, mine, (size_t)length);
    return HS_OK;
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

/* The list. Its mutex is held. */

static const hold *find(const struct stat *found)
{
    const hold *at = holds;
    while (at && (at->device != found->st_dev || at->inode != found->st_ino))
        at = at->next;
    return at;
}

/* Locks the file that has this name now, and sets the file of `to`. */
static hs_code lock_named(const char *path, hold *to, hs_error *err)
{
    struct stat found;
    const hold *other = lstat(path, &found) == 0 ? find(&found) : NULL;
    hs_code code = HS_OK;
    if (!other) {
        to->descriptor = open_or_create(path);
        if (to->descriptor < 0)
            return errno == ELOOP || errno == EISDIR ? not_a_file(path, err)
                                                     : hs_error_set_errno(err, errno, "%s: cannot open it", path);
        if (fstat(to->descriptor, &found) != 0)
            code = hs_error_set_errno(err, errno, "%s", path);
        else if (!S_ISREG(found.st_mode))
            code = not_a_file(path, err);
        else
            other = find(&found); /* a held file was renamed to `path` meanwhile. close() releases its lock */
        if (code || other)
            close(to->descriptor);
    }
    if (code)
        return code;
    to->device = found.st_dev;
    to->inode = found.st_ino;
    if (other)
        to->descriptor = other->descriptor;
    code = acquire(to->descriptor, path, err);
    if (code && !other)
        close(to->descriptor);
    return code;
}

/* After a hold has left the file of this descriptor. */
static void drop(int descriptor)
{
    bool is_held = false, is_owned = false;
    for (const hold *at = holds; at; at = at->next)
        if (at->descriptor == descriptor) {
            is_held = true;
            is_owned |= at->owner == getpid();
        }
    if (!is_held)
        close(descriptor);
    else if (!is_owned)
        set_lock(descriptor, F_UNLCK);
}

/* True if this process has another hold of the file, claimed (by a session other than `session`) or not. */
static bool has_other(const hold *of, bool claimed, const void *session)
{
    for (const hold *at = holds; at; at = at->next)
        if (at != of && at->descriptor == of->descriptor && at->owner == getpid() &&
            (claimed ? at->session && at->session != session : !at->session))
            return true;
    return false;
}

static bool is_open_to(const hold *of, const void *session)
{
    return (!of->session || of->session == session) && !has_other(of, true, session);
}

hs_code hs__posix_lock(void *user, const char *path, void **lock, hs_error *err)
{
    char buffer[PATH_MAX];
    hold *of = *lock ? *lock : calloc(1, sizeof *of);
    (void)user;
    path = hs__redirected(path, buffer);
    if (!of)
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "%s: no memory to lock it", path);
    pthread_once(&once, watch_forks);
    lock_list();
    hold now = *of;
    hs_code code = lock_named(path, &now, err);
    if (!code) {
        const int before = of->descriptor;
        now.owner = getpid();
        if (now.owner != of->owner)
            now.session = NULL; /* the parent's claim is not inherited */
        *of = now;
        if (!*lock) {
            of->next = holds;
            holds = of;
        } else if (before != of->descriptor) { /* the old file was deleted or renamed */
            drop(before);
            if (has_other(of, true, of->session))
                of->session = NULL;
        }
        *lock = of;
    } else if (!*lock) {
        free(of);
    }
    unlock_list();
    return code;
}

void hs__posix_unlock(void *user, void *lock)
{
    hold *of = lock, **at = &holds;
    (void)user;
    lock_list();
    while (*at != of)
        at = &(*at)->next;
    *at = of->next;
    drop(of->descriptor);
    unlock_list();
    free(of);
}

/* What only locks of this file know. */

static bool is_posix_lock(const hs_env *env, const void *lock)
{
    return lock && env->files.ops->lock == hs__posix_lock;
}

bool hs__lock_is_shared(const hs_env *env, const void *lock)
{
    if (!is_posix_lock(env, lock))
        return false;
    lock_list();
    const bool is_shared = ((const hold *)lock)->owner == getpid() && has_other(lock, false, NULL);
    unlock_list();
    return is_shared;
}

bool hs__lock_is_open_to(const hs_env *env, const void *lock, const void *session)
{
    if (!is_posix_lock(env, lock))
        return true;
    lock_list();
    const bool is_open = is_open_to(lock, session);
    unlock_list();
    return is_open;
}

bool hs__lock_claim(const hs_env *env, void *lock, const void *session)
{
    if (!is_posix_lock(env, lock))
        return true;
    lock_list();
    const bool is_open = is_open_to(lock, session);
    if (is_open)
        ((hold *)lock)->session = session;
    unlock_list();
    return is_open;
}
