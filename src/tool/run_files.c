/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the JSON files and the lock of a run, and queries its process. */
#define _POSIX_C_SOURCE 200809L /* O_NOFOLLOW, gethostname, kill */
#include "run_files.h"
#include "memory.h"
#include "output.h"
#include "times.h"

#include <hooksess/checkpoint.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_BYTES = 16 << 20 };

/* Reads a file into new memory. *bytes is its size. */
static hs_code read_file(const char *path, char **text, size_t *bytes, hs_error *err)
{
    const hs_file_system *files = &hs_env_default()->files;
    hs_file_stat found;
    void *file;
    hs_code code = files->ops->stat(files->user, path, &found, err);
    if (code)
        return code;
    if (found.bytes > MAX_BYTES)
        return hs_error_set(err, HS_DATA_LOSS, "%s: has %llu bytes; at most %d are read", path,
                            (unsigned long long)found.bytes, MAX_BYTES);
    if ((code = files->ops->open(files->user, path, HS_OPEN_READ, &file, err)))
        return code;
    *text = must_allocate(NULL, (size_t)found.bytes + 1, 1);
    code = files->ops->read(files->user, file, 0, *text, (size_t)found.bytes, bytes, err);
    files->ops->close(files->user, file, NULL);
    return code;
}

run_file read_run_file(const char *directory, const char *name, bool *damaged)
{
    char *path = must_format("%s/%s", directory, name);
    run_file file = {.text = NULL};
    size_t bytes = 0;
    hs_error err = {0};
    hs__json_value root;
    hs__json_fault fault = {.what = "not a JSON object", .at = 0};
    hs_code code = read_file(path, &file.text, &bytes, &err);
    if (!code && hs__json_check(file.text, bytes, &root, &fault) && hs__json_is(root, '{')) {
        file.object = root;
    } else if (!code) {
        say("%s: is damaged: %s (byte %zu)", path, fault.what, fault.at);
        *damaged = true;
    } else if (code != HS_NOT_FOUND) {
        say("%s", err.message);
        *damaged = true;
    }
    free(path);
    return file;
}

void free_run_file(run_file *file)
{
    free(file->text);
}

int64_t whole_member(hs__json_value object, const char *name, int64_t otherwise)
{
    hs__json_int64(hs__json_member(object, name), &otherwise);
    return otherwise;
}

void put_text_member(hs__json_value object, const char *name, const char *otherwise)
{
    hs__json_value value = hs__json_member(object, name);
    if (!hs__json_is(value, '"')) {
        put_name(otherwise);
        return;
    }
    char *text = must_allocate(NULL, value.bytes, 1);
    hs__json_copy(value, text);
    put_name(text);
    free(text);
}

bool time_member(hs__json_value object, int64_t *ns)
{
    char text[2 * TIME_TEXT];
    hs__json_value value = hs__json_member(object, "time");
    if (!hs__json_is(value, '"') || value.bytes > sizeof text)
        return false;
    hs__json_copy(value, text);
    return parse_time(text, ns);
}

lock_state query_lock(const char *directory, char holder[HOLDER_TEXT])
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char *path = must_format("%s/%s", directory, HS_CHECKPOINT_LOCK);
    int descriptor = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    lock_state state = descriptor < 0 && errno == ENOENT ? LOCK_MISSING : LOCK_UNKNOWN;
    *holder = '\0';
    if (descriptor >= 0 && fcntl(descriptor, F_GETLK, &whole) == 0)
        state = whole.l_type == F_UNLCK ? LOCK_FREE : LOCK_HELD;
    if (state == LOCK_HELD) {
        ssize_t length = pread(descriptor, holder, HOLDER_TEXT - 1, 0);
        holder[length > 0 ? length : 0] = '\0';
        holder[strcspn(holder, "\n")] = '\0';
        if (!*holder)
            snprintf(holder, HOLDER_TEXT, "another process");
    }
    if (descriptor >= 0)
        close(descriptor);
    free(path);
    return state;
}

bool is_on_this_host(hs__json_value status)
{
    char host[256] = "";
    if (gethostname(host, sizeof host) != 0)
        return false;
    host[sizeof host - 1] = '\0';
    return hs__json_equals(hs__json_member(status, "host"), host);
}

/* Reads the state of a process and when it started, in seconds since 1970. False: unknown, as without /proc. */
static bool read_process(int64_t pid, char *state, double *started)
{
    char path[64], text[1024];
    unsigned long long boot = 0, ticks = 0;
    snprintf(path, sizeof path, "/proc/%lld/stat", (long long)pid);
    FILE *of_process = fopen(path, "re"), *of_system = fopen("/proc/stat", "re");
    bool known = of_process && of_system && fgets(text, sizeof text, of_process) && strrchr(text, ')');
    /* after the name in parentheses: the state, 18 other numbers, the start in ticks since the boot */
    known = known &&
            sscanf(strrchr(text, ')') + 1,
                   " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu", state, &ticks) == 2;
    while (known && !boot && fgets(text, sizeof text, of_system))
        sscanf(text, "btime %llu", &boot);
    if (of_process)
        fclose(of_process);
    if (of_system)
        fclose(of_system);
    *started = (double)boot + (double)ticks / (double)sysconf(_SC_CLK_TCK);
    return known && boot;
}

/* A later process may have the same number. */
bool is_alive(hs__json_value status)
{
    enum { INACCURACY_SECS = 2 };
    int64_t pid = whole_member(status, "pid", -1), written_ns;
    char state;
    double started;
    if (pid <= 0 || pid > INT32_MAX || (kill((pid_t)pid, 0) != 0 && errno != EPERM))
        return false;
    if (!time_member(status, &written_ns) || !read_process(pid, &state, &started))
        return true;
    return state != 'Z' && started <= (double)written_ns / 1e9 + INACCURACY_SECS;
}
