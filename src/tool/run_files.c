/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* O_NOFOLLOW */
#include "run_files.h"
#include "events.h"
#include "output.h"
#include "times.h"

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
    return code;
}

/* Sets *object to the JSON object of a text. Returns what is wrong with the text, or NULL. */
static const char *parse(const char *text, size_t bytes, hs__json_value *object, size_t *at)
{
    hs__json_value root;
    hs__json_fault fault = {.what = "not a JSON object", .at = 0};
    if (hs__json_check(text, bytes, &root, &fault) && hs__json_is(root, '{'))
        *object = root;
    *at = fault.at;
    return object->text ? NULL : fault.what;
}

run_file read_run_file(const char *directory, const char *name, bool *damaged)
{
    char *path = path_in(directory, name);
    run_file file = {.text = NULL};
    size_t bytes = 0, at = 0;
    hs_error err = {0};
    hs_code code = read_file(path, &file.text, &bytes, &err);
    const char *wrong = code ? NULL : parse(file.text, bytes, &file.object, &at);
    if (code && code != HS_NOT_FOUND)
        say("%s", err.message);
    else if (wrong)
        say("%s: is damaged: %s (byte %zu)", path, wrong, at);
    *damaged = *damaged || wrong || (code && code != HS_NOT_FOUND);
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
