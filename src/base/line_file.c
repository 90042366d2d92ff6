/* SPDX-License-Identifier: Apache-2.0 */
/* open_lines makes each opening: it finds the end of the lines that stay and, if anything else follows, replaces the file
 * by a copy of them. A write that failed leaves the file closed, with the line in `pending`, for resume. */
#include "base/line_file.h"

#include <string.h>

/* The bytes of a read, unless a line is longer; and of the longest line. */
enum { PIECE = 1 << 16, LONGEST = 1 << 24, MOST_RENAMED = 9999 };

/* Moves *end to the end of the lines that stay. A line without its newline does not. `piece` holds what is read. */
static hs_code find_end(const hs__line_file *file, hs__file *in, uint64_t size, hs__line_stays *line_stays, void *user,
                        hs__buffer *piece, uint64_t *end, hs_error *err)
{
    size_t most = PIECE;
    bool stays = true;
    while (stays && *end < size) {
        const uint64_t begin = *end;
        const size_t n = size - begin < most ? (size_t)(size - begin) : most;
        char *text = (char *)hs__buffer_room(piece, most), *line = text, *newline;
        hs_code code = text ? hs__file_read(in, begin, text, n, file->path, err) : hs__no_memory(err, most, file->path);
        while (!code && stays && (newline = memchr(line, '\n', n - (size_t)(line - text)))) {
            code = line_stays(user, *end, line, (size_t)(newline - line), &stays, err);
            line = newline + 1;
            if (!code && stays)
                *end = begin + (uint64_t)(line - text);
        }
        if (code)
            return code;
        if (line == text && n < most)
            return HS_OK;
        if (line == text && most == LONGEST)
            return hs_error_set(err, HS_FAILED_PRECONDITION, "%s: has a line of more than %d bytes", file->path, LONGEST);
        if (line == text)
            most *= 2;
    }
    return HS_OK;
}

/* Replaces the file by a copy of its first `end` bytes or, if these are none, by the head. A crash leaves the old file or
 * the new one. */
static hs_code replace_file(const hs__line_file *file, hs__file *in, uint64_t end, hs__buffer *piece, hs_error *err)
{
    hs__file out = {0};
    char *tmp = hs__format(file->env, "%s.tmp", file->path);
    if (!tmp)
        return hs__no_memory(err, strlen(file->path), "a path");
    hs_code code = hs__file_open(&out, file->env, tmp, HS_OPEN_WRITE, err);
    if (!code && !end)
        code = hs__file_write(&out, file->head, strlen(file->head), err);
    for (uint64_t at = 0; !code && at < end; at += PIECE) {
        const size_t n = end - at < PIECE ? (size_t)(end - at) : PIECE;
        code = hs__file_read(in, at, piece->data, n, file->path, err);
        if (!code)
            code = hs__file_write(&out, piece->data, n, err);
    }
    if (!code)
        code = hs__file_sync(&out, err);
    const hs_code closed = hs__file_close(&out, code ? NULL : err);
    if (!code && !(code = closed))
        code = hs__file_place(file->env, tmp, file->path, err);
    if (code)
        hs__file_remove(file->env, tmp);
    hs__free(file->env, tmp);
    return code;
}

static hs_code make_directory(const hs__line_file *file, hs_error *err)
{
    char *directory = hs__path_directory(file->env, file->path);
    hs_code code =
        directory ? hs__make_directories(file->env, directory, err) : hs__no_memory(err, strlen(file->path), "a path");
    hs__free(file->env, directory);
    return code;
}

/* Opens the file with the lines that stay, and leaves the pending line as it is. */
static hs_code open_lines(hs__line_file *file, hs__line_stays *line_stays, void *user, hs_error *err)
{
    hs_file_stat found;
    hs__file in = {0};
    hs__buffer piece;
    uint64_t end = 0;
    hs__buffer_init(&piece, file->env);
    hs_code code = hs__stat(file->env, file->path, &found, err);
    const bool exists = code != HS_NOT_FOUND;
    if (!exists)
        code = make_directory(file, err);
    else if (!code && found.is_directory)
        code = hs_error_set(err, HS_FAILED_PRECONDITION, "%s: is a directory", file->path);
    else if (!code && !(code = hs__file_open(&in, file->env, file->path, HS_OPEN_READ, err)))
        code = find_end(file, &in, found.bytes, line_stays, user, &piece, &end, err);
    if (!code && (!end || end < found.bytes || file->sync_failed))
        code = replace_file(file, &in, end, &piece, err);
    if (!code &&
        (code = hs__file_open(&file->file, file->env, file->path, HS_OPEN_APPEND, err)) == HS_FAILED_PRECONDITION &&
        !(code = replace_file(file, &in, end, &piece, err)) &&
        !(code = hs__file_open(&file->file, file->env, file->path, HS_OPEN_APPEND, err)))
        hs_log(file->env, HS_LOG_WARNING, "%s: replaced by a copy, because it was a link", file->path);
    hs__file_close(&in, NULL);
    hs__buffer_free(&piece);
    if (!code) {
        hs_error_clear(err);
        file->bytes = end ? end : strlen(file->head);
        file->sync_failed = false;
    }
    return code;
}

hs_code hs__line_file_open(hs__line_file *file, hs__line_stays *stays, void *user, hs_error *err)
{
    hs__line_file_close(file);
    return open_lines(file, stays, user, err);
}

hs_code hs__line_file_rename_old(const hs__line_file *file, hs_error *err)
{
    char *data;
    size_t bytes;
    hs_error error = {0};
    hs_code code = hs__file_contents(file->env, file->path, strlen(file->head), &data, &bytes, &error);
    if (code && (code != HS_DATA_LOSS || error.os_error)) /* DATA_LOSS: it is longer than the head */
        return code == HS_NOT_FOUND ? HS_OK : hs__error_copy(err, &error);
    if (!code) {
        const bool is_head = memcmp(data, file->head, bytes) == 0;
        hs__free(file->env, data);
        if (is_head)
            return HS_OK;
    }
    for (int i = 1; i <= MOST_RENAMED; i++) {
        char *renamed = hs__format(file->env, "%s.%d", file->path, i);
        if (!renamed)
            return hs__no_memory(err, strlen(file->path), "a path");
        const bool is_free = hs__file_missing(file->env, renamed);
        if (is_free && !(code = hs__rename(file->env, file->path, renamed, err)))
            hs_log(file->env, HS_LOG_INFO, "%s: training starts from the beginning; the earlier rows are now in %s",
                   file->path, renamed);
        hs__free(file->env, renamed);
        if (is_free)
            return code;
    }
    return hs_error_set(err, HS_FAILED_PRECONDITION, "%s: the files .1 to .%d already exist; move some away", file->path,
                        MOST_RENAMED);
}

void hs__line_file_close(hs__line_file *file)
{
    hs_error error = {0};
    if (hs__file_close(&file->file, &error))
        hs_log(file->env, HS_LOG_WARNING, "%s; the last lines may be missing", error.message);
    hs__buffer_clear(&file->pending);
}

/* Writing. */

/* Writes the pending line from this byte on. After a failure, the size of the file will show how much was written. */
static hs_code write_pending(hs__line_file *file, size_t from, hs_error *err)
{
    const size_t left = file->pending.size - from;
    hs_code code = left ? hs__file_write(&file->file, file->pending.data + from, left, err) : HS_OK;
    if (code) {
        hs__file_close(&file->file, NULL);
        return code;
    }
    file->bytes += file->pending.size;
    hs__buffer_clear(&file->pending);
    return HS_OK;
}

static hs_code was_written(void *user, uint64_t offset, const char *line, size_t bytes, bool *stays, hs_error *err)
{
    const hs__line_file *file = user;
    (void)line, (void)err;
    *stays = offset + bytes < file->bytes;
    return HS_OK;
}

/* Opens the file again, and completes the pending line. */
static hs_code resume(hs__line_file *file, hs_error *err)
{
    hs_file_stat found = {0};
    hs_code code = hs__stat(file->env, file->path, &found, err);
    if (code && code != HS_NOT_FOUND)
        return code;
    if (!code && found.bytes >= file->bytes && found.bytes - file->bytes <= file->pending.size) {
        code = hs__file_open(&file->file, file->env, file->path, HS_OPEN_APPEND, err);
        return code ? code : write_pending(file, (size_t)(found.bytes - file->bytes), err);
    }
    hs_log(file->env, HS_LOG_WARNING, "%s: another process has changed it", file->path);
    code = open_lines(file, was_written, file, err);
    return code ? code : write_pending(file, 0, err);
}

hs_code hs__line_file_append(hs__line_file *file, const void *line, size_t bytes, hs_error *err)
{
    hs_code code = file->file.handle ? HS_OK : resume(file, err);
    if (code)
        return code;
    hs__buffer_append(&file->pending, line, bytes);
    if ((code = hs__buffer_check(&file->pending, file->path, err))) {
        hs__buffer_clear(&file->pending);
        return code;
    }
    return write_pending(file, 0, err);
}

hs_code hs__line_file_sync(hs__line_file *file, hs_error *err)
{
    hs_code code = file->file.handle ? HS_OK : resume(file, err);
    if (!code && file->sync_failed) { /* writes all lines again, to a new file */
        hs__file_close(&file->file, NULL);
        code = open_lines(file, was_written, file, err);
    }
    if (code)
        return code;
    code = hs__file_sync(&file->file, err);
    file->sync_failed = code != HS_OK;
    return code;
}
