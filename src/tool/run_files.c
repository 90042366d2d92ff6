/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the JSON files and the lock of a run. */
#define _POSIX_C_SOURCE 200809L /* O_NOFOLLOW */
#include "run_files.h"
#include "memory.h"
#include "output.h"
#include "times.h"

#include <hooksess/checkpoint.h>

#include <errno.h>
#include <fcntl.h>
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
