/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* lstat, O_NOFOLLOW */
#include "hooks/control_file.h"

#include "base/redirect_posix.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_BYTES = 64 << 10, MOST_QUOTED = 60, MOST_LOGGED = 20 };

/* Lines. */

/* Copies printable characters, and escapes other bytes as \xNN. */
static void quote(char *to, size_t room, const char *text, size_t bytes)
{
    size_t used = 0;
    for (size_t i = 0; i < bytes && used + 8 < room; i++) {
        unsigned char c = (unsigned char)text[i];
        bool plain = c >= 0x20 && c < 0x7f && c != '\\' && c != '\'';
        used += (size_t)snprintf(to + used, room - used, plain ? "%c" : "\\x%02x", c);
    }
    to[used] = '\0';
}

void hs__control_log_refusal(hs__control_file *file, const char *text, size_t bytes, const char *why)
{
    char quoted[4 * MOST_QUOTED + 9];
    if (++file->refusals > MOST_LOGGED)
        return;
    quote(quoted, sizeof quoted, text, bytes < MOST_QUOTED ? bytes : MOST_QUOTED);
    hs_log(file->env, HS_LOG_WARNING, "%s: '%s%s' ignored: %s", file->path, quoted, bytes > MOST_QUOTED ? "..." : "", why);
}

static void log_refusal_count(const hs__control_file *file)
{
    if (file->refusals > MOST_LOGGED)
        hs_log(file->env, HS_LOG_WARNING, "%s: %llu more lines ignored", file->path,
               (unsigned long long)(file->refusals - MOST_LOGGED));
}

static void end_line(hs__control_file *file)
{
    file->text[file->bytes] = '\0';
    if (file->too_long)
        hs__control_log_refusal(file, file->text, file->bytes, "the line is too long");
    else if (memchr(file->text, '\0', file->bytes))
        hs__control_log_refusal(file, file->text, file->bytes, "the line contains a zero byte");
    else
        file->line(file->user, file->text);
    file->bytes = 0;
    file->too_long = false;
}

static void parse(hs__control_file *file, const char *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (data[i] == '\n')
            end_line(file);
        else if (file->bytes < HS__CONTROL_LINE)
            file->text[file->bytes++] = data[i];
        else
            file->too_long = true;
    }
}

/* At the end of the input. A line without a newline may be incomplete, so it is refused. */
static void end_text(hs__control_file *file)
{
    if (file->bytes)
        hs__control_log_refusal(file, file->text, file->bytes, "the line does not end with a newline");
    file->bytes = 0;
    file->too_long = false;
}

/* Reads the available bytes, but not much more than MOST_BYTES. Returns true at the end of the input. */
static bool read_some(hs__control_file *file, int descriptor)
{
    char data[4096];
    for (size_t left = MOST_BYTES + 1; left;) {
        ssize_t n = read(descriptor, data, left < sizeof data ? left : sizeof data);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n == 0;
        parse(file, data, (size_t)n);
        left -= (size_t)n;
    }
    return false;
}

/* Files. */

/* Returns the reason why the file must not be read. NULL: it may be read. */
static const char *reason_to_refuse(const struct stat *found)
{
    if (S_ISLNK(found->st_mode))
        return "it is a symbolic link";
    if (!S_ISREG(found->st_mode) && !S_ISFIFO(found->st_mode))
        return "it is neither a file nor a FIFO";
    if (found->st_uid != geteuid())
        return "it belongs to another user";
    if (found->st_mode & (S_IWGRP | S_IWOTH))
        return "other users may write to it (run chmod go-w)";
    if (found->st_nlink > 1)
        return "it has more than one name (a hard link)";
    if (S_ISREG(found->st_mode) && found->st_size > MOST_BYTES)
        return "it is larger than 64 KiB";
    return NULL;
}

/* Logs each refusal once per state of the file: inode and modification time. */
static void refuse_file(hs__control_file *file, const struct stat *found, const char *why)
{
    const uint64_t as[4] = {(uint64_t)found->st_dev, (uint64_t)found->st_ino, (uint64_t)found->st_mtim.tv_sec,
                            (uint64_t)found->st_mtim.tv_nsec};
    if (file->has_refused && memcmp(as, file->refused_state, sizeof as) == 0)
        return;
    file->has_refused = true;
    memcpy(file->refused_state, as, sizeof as);
    hs_log(file->env, HS_LOG_WARNING, "%s is not read: %s", file->path, why);
}

static void refuse_errno(hs__control_file *file, const struct stat *found, int os_error)
{
    hs_error error;
    hs_error_set_errno(&error, os_error, "it cannot be renamed");
    refuse_file(file, found, error.message);
}

/* Opens the file and checks it again, because another file may have replaced it since. -1: it was refused, or the call
 * failed and errno is set. */
static int open_safely(hs__control_file *file, const char *path, mode_t type)
{
    struct stat found;
    char buffer[PATH_MAX];
    int descriptor = open(hs__redirected(path, buffer), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (descriptor < 0)
        return -1;
    const char *why = fstat(descriptor, &found) != 0     ? "its status cannot be read"
                      : (found.st_mode & S_IFMT) != type ? "another file has replaced it"
                                                         : reason_to_refuse(&found);
    if (!why)
        return descriptor;
    close(descriptor);
    refuse_file(file, &found, why);
    errno = 0;
    return -1;
}

static void close_fifo(hs__control_file *file)
{
    if (file->fifo < 0)
        return;
    end_text(file);
    close(file->fifo);
    file->fifo = -1;
}

static void read_fifo(hs__control_file *file, const struct stat *found)
{
    struct stat ours;
    if (file->fifo >= 0 && (fstat(file->fifo, &ours) != 0 || ours.st_dev != found->st_dev || ours.st_ino != found->st_ino))
        close_fifo(file); /* another FIFO has replaced it */
    if (file->fifo < 0 && (file->fifo = open_safely(file, file->path, S_IFIFO)) < 0) {
        if (errno)
            refuse_errno(file, found, errno);
        return;
    }
    if (read_some(file, file->fifo)) /* no process has it open for writing */
        end_text(file);
}

/* Renames the file before it reads it, so that orders in a file that replaces it are not lost. */
static void read_file(hs__control_file *file, const struct stat *found)
{
    if (!found->st_size)
        return; /* the writer has just created it */
    char path[PATH_MAX], tmp[PATH_MAX];
    if (rename(hs__redirected(file->path, path), hs__redirected(file->tmp, tmp)) != 0) {
        refuse_errno(file, found, errno);
        return;
    }
    int descriptor = open_safely(file, file->tmp, S_IFREG);
    if (descriptor >= 0) {
        if (!read_some(file, descriptor))
            hs_log(file->env, HS_LOG_WARNING, "%s: lines that are unreadable or beyond the first 64 KiB are ignored",
                   file->path);
        end_text(file);
        close(descriptor);
    } else if (errno) {
        refuse_errno(file, found, errno);
    }
    unlink(hs__redirected(file->tmp, tmp));
}

void hs__control_file_poll(hs__control_file *file)
{
    struct stat found;
    char buffer[PATH_MAX];
    file->refusals = 0;
    if (lstat(hs__redirected(file->path, buffer), &found) != 0) {
        close_fifo(file);
    } else {
        const char *why = reason_to_refuse(&found);
        if (why || !S_ISFIFO(found.st_mode))
            close_fifo(file);
        if (why)
            refuse_file(file, &found, why);
        else if (S_ISFIFO(found.st_mode))
            read_fifo(file, &found);
        else
            read_file(file, &found);
    }
    log_refusal_count(file);
}

void hs__control_file_reset(hs__control_file *file)
{
    if (file->fifo >= 0)
        close(file->fifo);
    file->fifo = -1;
    file->bytes = 0;
    file->too_long = file->has_refused = false;
}
