/* SPDX-License-Identifier: Apache-2.0 */
/* Locks of fcntl: of all there are, these are not handed on to children, which may live longer than the holder. But they
 * are the process's, whoever in it asks, and the kernel gives them up when any descriptor of the file is closed. So holds
 * of one file share one descriptor, and a table tells which files the process has locked. This is the library's only state
 * that belongs to no object of its caller's: it mirrors state of the kernel's that belongs to the process. Somebody else in
 * the process may still open and close the file: whoever depends on a lock asks again now and then. */
#include "base/locks_posix.h"
#include "base/redirect_posix.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file that holds are of. */
typedef struct locked_file {
    struct locked_file *next;
    dev_t device;
    ino_t inode;
    int descriptor;
    size_t holds;  /* all that point here: with the last the descriptor goes */
    pid_t owner;   /* who has the lock; another process than this one after a fork */
    size_t owned;  /* the owner's holds: with the last the lock goes */
    bool is_named; /* it says who the owner is */
} locked_file;

typedef struct {
    locked_file *file;
    pid_t owner; /* another process than this one: it has been inherited, and is nothing until it is made sure of */
} posix_hold;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static locked_file *files;

static void enter(void)
{
    pthread_mutex_lock(&mutex);
}

static void leave(void)
{
    pthread_mutex_unlock(&mutex);
}

/* A child forked in the middle of a change would find the table half-way, and the mutex taken forever. */
static void watch_forks(void)
{
    pthread_atfork(enter, leave, leave);
}

/* The kernel's lock. */

/* A file that has another name may belong to another user: it is locked, but neither written nor read. */
static bool has_one_name(int descriptor)
{
    struct stat found;
    return fstat(descriptor, &found) == 0 && found.st_nlink < 2;
}

static void write_holder(int descriptor)
{
    char host[128] = "this host", text[192];
    if (gethostname(host, sizeof host) == 0)
        host[sizeof host - 1] = '\0';
    int length = snprintf(text, sizeof text, "process %ld on %s\n", (long)getpid(), host);
    if (!has_one_name(descriptor) || ftruncate(descriptor, 0) != 0 || pwrite(descriptor, text, (size_t)length, 0) != length)
        return; /* only the message would have been better for it */
}

static hs_code tell_holder(int descriptor, const char *path, hs_error *err)
{
    char text[192];
    ssize_t length = has_one_name(descriptor) ? pread(descriptor, text, sizeof text - 1, 0) : 0;
    text[length > 0 ? length : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return hs_error_set(err, HS_FAILED_PRECONDITION, "%s: locked by %s", path, *text ? text : "another process");
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

static hs_code tell_refusal(int descriptor, const char *path, hs_error *err)
{
    if (errno == EACCES || errno == EAGAIN)
        return tell_holder(descriptor, path, err);
    if (errno == EINVAL || errno == ENOLCK || errno == ENOSYS || errno == ENOTSUP)
        return hs_error_set_errno(err, ENOTSUP, "%s: the file system does not support locks", path);
    return hs_error_set_errno(err, errno, "%s: cannot lock it", path);
}

/* The process has the lock afterwards, whether it had it before or not. */
static hs_code take(locked_file *file, const char *path, hs_error *err)
{
    pid_t process = getpid();
    if (set_lock(file->descriptor, F_WRLCK) != 0) {
        file->is_named = false;
        return tell_refusal(file->descriptor, path, err);
    }
    if (file->owner != process) {
        file->owner = process;
        file->owned = 0;
        file->is_named = false;
    }
    if (!file->is_named)
        write_holder(file->descriptor);
    file->is_named = true;
    return HS_OK;
}

/* The table. Its mutex is held. */

static bool is_at(const locked_file *file, const struct stat *found)
{
    return file->device == found->st_dev && file->inode == found->st_ino;
}

static locked_file *find(const struct stat *found)
{
    locked_file *file = files;
    while (file && !is_at(file, found))
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

/* Opens a file that seems not to be in the table, and enters it, without holds. */
static hs_code open_file(const char *path, locked_file **file, hs_error *err)
{
    struct stat found;
    int descriptor;
    do
        descriptor = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    while (descriptor < 0 && errno == EINTR);
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
    if (code || (*file)->holds) { /* holds: it got this name just now. Closing gives its lock up: it is taken next */
        close(descriptor);
        return code;
    }
    **file = (locked_file){.next = files, .device = found.st_dev, .inode = found.st_ino, .descriptor = descriptor};
    files = *file;
    return HS_OK;
}

/* The file that has the name now, locked. */
static hs_code lock_named(const char *path, locked_file **file, hs_error *err)
{
    struct stat found;
    *file = lstat(path, &found) == 0 ? find(&found) : NULL;
    hs_code code = *file ? HS_OK : open_file(path, file, err);
    if (code)
        return code;
    if ((code = take(*file, path, err)))
        forget_if_unheld(*file);
    return code;
}

/* A hold that is nobody's, or inherited, becomes one of this process. */
static void own(posix_hold *hold)
{
    if (hold->owner == hold->file->owner)
        return;
    hold->owner = hold->file->owner;
    hold->file->owned++;
}

static void let_go(const posix_hold *hold)
{
    locked_file *file = hold->file;
    file->holds--;
    if (hold->owner == file->owner && --file->owned == 0 && file->owner == getpid()) {
        set_lock(file->descriptor, F_UNLCK);
        file->is_named = false;
    }
    forget_if_unheld(file);
}

static hs_code make_sure(posix_hold *hold, const char *path, hs_error *err)
{
    locked_file *file;
    hs_code code = lock_named(path, &file, err);
    if (code)
        return code;
    if (file != hold->file) { /* somebody deleted the other one */
        file->holds++;
        let_go(hold);
        *hold = (posix_hold){.file = file};
    }
    own(hold);
    return HS_OK;
}

static hs_code hold_anew(const char *path, void **lock, hs_error *err)
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
    own(made);
    *lock = made;
    return HS_OK;
}

hs_code hs__posix_lock(void *user, const char *path, void **lock, hs_error *err)
{
    char buffer[PATH_MAX];
    (void)user;
    path = hs__redirected(path, buffer);
    pthread_once(&once, watch_forks);
    enter();
    hs_code code = *lock ? make_sure(*lock, path, err) : hold_anew(path, lock, err);
    leave();
    return code;
}

void hs__posix_unlock(void *user, void *lock)
{
    (void)user;
    enter();
    let_go(lock);
    leave();
    free(lock);
}

bool hs__posix_lock_is_shared(const void *lock)
{
    const posix_hold *hold = lock;
    enter();
    bool shared = hold->owner == getpid() && hold->file->owner == hold->owner && hold->file->owned > 1;
    leave();
    return shared;
}
