/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* O_NOFOLLOW */
#include "run_files.h"
#include "events.h"
#include "output.h"

#include <hooksess/checkpoint.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_BYTES = 16 << 20 };

static char *path_in(const char *directory, const char *name)
{
    size_t bytes = strlen(directory) + strlen(name) + 2;
    char *path = must_allocate(NULL, bytes, 1);
    snprintf(path, bytes, "%s/%s", directory, name);
    return path;
}

/* Reads a file into new memory. *bytes is its size. */
static hs_code read_file(const char *path, char **text, size_t *bytes, hs_error *err)
{
    const hs_file_system *files = &hs_env_default()->files;
    hs_file_stat found;
    void *file;
    hs_code code = files->ops->stat(files->user, path, &found, err);
    if (code)
        return code;
    if (found.bytes > MOST_BYTES)
        return hs_error_set(err, HS_DATA_LOSS, "%s: has %llu bytes; at most %d are read", path,
                            (unsigned long long)found.bytes, MOST_BYTES);
    if ((code = files->ops->open(files->user, path, HS_OPEN_READ, &file, err)))
        return code;
    *text = must_allocate(NULL, (size_t)found.bytes + 1, 1);
    code = files->ops->read(files->user, file, 0, *text, (size_t)found.bytes, bytes, err);
    files->ops->close(files->user, file, NULL);
    if (code)
        free(*text);
    return code;
}

json_t *read_run_file(const char *directory, const char *name, bool *damaged)
{
    char *path = path_in(directory, name), *text = NULL;
    size_t bytes = 0;
    hs_error err = {0};
    json_error_t cause = {.text = ""};
    json_t *root = NULL;
    hs_code code = read_file(path, &text, &bytes, &err);
    if (code && code != HS_NOT_FOUND) {
        say("%s", err.message);
        *damaged = true;
    } else if (!code) {
        root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &cause);
        if (!root || !json_is_object(root)) {
            say("%s: is damaged: %s", path, root ? "not a JSON object" : *cause.text ? cause.text : "out of memory");
            *damaged = true;
            json_decref(root);
            root = NULL;
        }
        free(text);
    }
    free(path);
    return root;
}

const char *text_member(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

int64_t whole_member(const json_t *object, const char *name, int64_t otherwise)
{
    const json_t *value = json_object_get(object, name);
    return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

static void read_holder(int descriptor, char holder[HOLDER_TEXT])
{
    ssize_t length = pread(descriptor, holder, HOLDER_TEXT - 1, 0);
    holder[length > 0 ? length : 0] = '\0';
    holder[strcspn(holder, "\n")] = '\0';
    if (!*holder)
        snprintf(holder, HOLDER_TEXT, "another process");
}

lock_state query_lock(const char *directory, char holder[HOLDER_TEXT])
{
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char *path = path_in(directory, HS_CHECKPOINT_LOCK);
    int descriptor = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    lock_state state = descriptor < 0 && errno == ENOENT ? LOCK_MISSING : LOCK_UNKNOWN;
    *holder = '\0';
    if (descriptor >= 0 && fcntl(descriptor, F_GETLK, &whole) == 0)
        state = whole.l_type == F_UNLCK ? LOCK_FREE : LOCK_HELD;
    if (state == LOCK_HELD)
        read_holder(descriptor, holder);
    if (descriptor >= 0)
        close(descriptor);
    free(path);
    return state;
}
