/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/line_file.h"

#include "base/files.h"

#include <string.h>

enum { PIECE = 1 << 16, MOST_RENAMED = 9999 };

struct hs__line_file {
    const hs_env *memory, *env;
    char *path;
    const char *head;
    const hs__line_reader *reader;
    size_t piece;   /* bytes of a read; at least those of the longest line */
    hs__file file;  /* closed after a failure */
    uint64_t bytes; /* of complete lines */
    char *pending;  /* a line that is not written, or only in part */
    size_t n_pending;
    bool opened;      /* the last open succeeded */
    bool name_synced; /* the directory was synced since the file was created */
    bool sync_failed; /* the system may have discarded unwritten data, so the next sync must not be trusted */
};

hs__line_file *hs__line_file_new(const hs_env *memory, const char *path, const char *head, const hs__line_reader *reader,
                                 size_t longest, hs_error *err)
{
    hs__line_file *file = hs__alloc(memory, 1, sizeof *file);
    if (file) {
        *file =
            (hs__line_file){.memory = memory, .head = head, .reader = reader, .piece = longest > PIECE ? longest : PIECE};
        file->path = hs__strdup(memory, path);
        file->pending = hs__alloc(memory, longest, 1);
        if (file->path && file->pending)
            return file;
    }
    hs__no_memory(err, longest, path);
    hs__line_file_free(file);
    return NULL;
}

hs_code hs__line_file_set_path(hs__line_file *file, const char *path, hs_error *err)
{
    char *copy = hs__strdup(file->memory, path);
    if (!copy)
        return hs__no_memory(err, strlen(path), "a path");
    hs__free(file->memory, file->path);
    file->path = copy;
    return HS_OK;
}

void hs__line_file_free(hs__line_file *file)
{
    if (!file)
        return;
    hs__line_file_close(file);
    hs__free(file->memory, file->path);
    hs__free(file->memory, file->pending);
    hs__free(file->memory, file);
}

void hs__line_file_close(hs__line_file *file)
{
    hs_error error = {0};
    if (hs__file_close(&file->file, &error))
        hs_log(file->env, HS_LOG_WARNING, "%s; the last lines may be missing", error.message);
    file->n_pending = 0;
}

uint64_t hs__line_file_bytes(const hs__line_file *file)
{
    return file->bytes;
}

static hs_code sync_name(hs__line_file *file, hs_error *err)
{
    char *directory = hs__path_directory(file->env, file->path);
    hs_code code =
        directory ? hs__sync_directory(file->env, directory, err) : hs__no_memory(err, strlen(file->path), "a path");
    hs__free(file->env, directory);
    file->name_synced = !code;
    return code;
}

/* Scanning an existing file. */

typedef struct {
    uint64_t size;     /* of the file */
    uint64_t most;     /* bytes that may be kept */
    int64_t most_step; /* the last step that may be kept */
    uint64_t at, end;  /* the offset of the next read; the end of the lines to keep */
    bool in_line;      /* within a line longer than a piece */
    bool found;        /* the first line that is not kept was found */
} scan;

/* Scans the complete lines of a piece. Returns the number of their bytes. */
static size_t scan_lines(const hs__line_file *file, scan *s, const char *piece, size_t bytes)
{
    size_t done = 0;
    const char *end;
    while (!s->found && done < bytes && (end = memchr(piece + done, '\n', bytes - done))) {
        size_t line = (size_t)(end - piece) - done;
        int64_t step;
        uint64_t after = s->at + done + line + 1;
        s->found =
            after > s->most || (s->most_step < INT64_MAX && !s->in_line &&
                                file->reader->step(file->reader->user, piece + done, line, &step) && step > s->most_step);
        if (!s->found)
            s->end = after;
        s->in_line = false;
        done += line + 1;
    }
    return done;
}

static hs_code check_first(const hs__line_file *file, const char *piece, size_t bytes, hs_error *err)
{
    const char *end = memchr(piece, '\n', bytes);
    if (end ? file->reader->fits(file->reader->user, piece, (size_t)(end - piece)) : bytes < file->piece)
        return HS_OK; /* an incomplete line is not kept */
    return hs_error_set(err, HS_FAILED_PRECONDITION, "%s: has other columns than %s; rename that file, or set another path",
                        file->path, file->reader->columns);
}

static hs_code scan_pieces(const hs__line_file *file, scan *s, hs__file *in, char *piece, hs_error *err)
{
    hs_code code = HS_OK;
    while (!code && !s->found && s->at < s->size) {
        size_t n = s->size - s->at < file->piece ? (size_t)(s->size - s->at) : file->piece;
        if ((code = hs__file_read(in, s->at, piece, n, file->path, err)))
            break;
        if (s->at == 0 && (code = check_first(file, piece, n, err)))
            break;
        size_t done = scan_lines(file, s, piece, n);
        if (!done) {
            s->in_line = true;
            done = n;
        }
        s->at += done;
    }
    return code;
}

/* Copies the lines to keep to the new file. */
static hs_code copy_lines(hs__line_file *file, uint64_t bytes, hs__file *in, hs__file *out, char *piece, hs_error *err)
{
    hs_code code = HS_OK;
    for (uint64_t at = 0; !code && at < bytes;) {
        size_t n = bytes - at < file->piece ? (size_t)(bytes - at) : file->piece;
        if (!(code = hs__file_read(in, at, piece, n, file->path, err)))
            code = hs__file_write(out, piece, n, err);
        at += n;
    }
    return code ? code : hs__file_sync(out, err);
}

static hs_code replace_file(hs__line_file *file, uint64_t bytes, hs__file *in, char *piece, hs_error *err)
{
    char *tmp = hs__format(file->env, "%s.tmp", file->path);
    hs__file out = {0};
    if (!tmp)
        return hs__no_memory(err, strlen(file->path), "a path");
    hs_code code = hs__file_open(&out, file->env, tmp, HS_OPEN_WRITE, err);
    if (!code) {
        code = copy_lines(file, bytes, in, &out, piece, err);
        hs_code closed = hs__file_close(&out, code ? NULL : err);
        if (!code && !(code = closed))
            code = hs__file_place(file->env, tmp, file->path, err);
        if (code)
            hs__file_remove(file->env, tmp);
    }
    hs__free(file->env, tmp);
    return code;
}

/* Replaces the file by a copy of the lines to keep. `s` NULL: these are the first file->bytes bytes. Otherwise a scan finds
 * them, and the file is replaced only if other lines follow. */
static hs_code rewrite(hs__line_file *file, scan *s, hs_error *err)
{
    hs__file in = {0};
    char *piece = hs__alloc(file->env, file->piece, 1);
    hs_code code = piece ? HS_OK : hs__no_memory(err, file->piece, file->path);
    if (!code && (s || file->bytes))
        code = hs__file_open(&in, file->env, file->path, HS_OPEN_READ, err);
    if (!code && s)
        code = scan_pieces(file, s, &in, piece, err);
    if (!code && (!s || s->end < s->size))
        code = replace_file(file, s ? s->end : file->bytes, &in, piece, err);
    hs__file_close(&in, NULL);
    hs__free(file->env, piece);
    return code;
}

static hs_code keep_lines(hs__line_file *file, scan *s, hs_error *err)
{
    hs_code code = rewrite(file, s, err);
    file->bytes = s->end;
    return code;
}

/* A new training. */

static hs_code rename_old_file(hs__line_file *file, hs_error *err)
{
    hs_code code = HS_ALREADY_EXISTS;
    for (int i = 1; code == HS_ALREADY_EXISTS && i <= MOST_RENAMED; i++) {
        char *renamed = hs__format(file->env, "%s.%d", file->path, i);
        if (!renamed)
            return hs__no_memory(err, strlen(file->path), "a path");
        if (hs__file_missing(file->env, renamed) && !(code = hs__rename(file->env, file->path, renamed, err)))
            hs_log(file->env, HS_LOG_INFO, "%s: training starts from the beginning; the earlier rows are now in %s",
                   file->path, renamed);
        hs__free(file->env, renamed);
    }
    if (code == HS_ALREADY_EXISTS)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "%s: the files .1 to .%d already exist; move some away",
                            file->path, MOST_RENAMED);
    return code;
}

/* A file without rows need not be kept. */
static hs_code has_only_head(const hs__line_file *file, uint64_t size, bool *empty, hs_error *err)
{
    size_t length = strlen(file->head);
    char *data;
    size_t bytes;
    *empty = size == 0;
    if (!size || size > length)
        return HS_OK;
    hs_code code = hs__file_contents(file->env, file->path, length, &data, &bytes, err);
    if (code)
        return code;
    *empty = memcmp(data, file->head, bytes) == 0;
    hs__free(file->env, data);
    return HS_OK;
}

static hs_code start_new_file(hs__line_file *file, uint64_t size, hs_error *err)
{
    bool empty;
    hs_code code = has_only_head(file, size, &empty, err);
    if (code || empty)
        return code ? code : keep_lines(file, &(scan){.size = size, .most = UINT64_MAX, .most_step = INT64_MAX}, err);
    file->bytes = 0;
    return rename_old_file(file, err);
}

/* Opening. */

static hs_code find_file(const hs__line_file *file, bool *exists, uint64_t *size, hs_error *err)
{
    hs_file_stat found;
    hs_code code = hs__stat(file->env, file->path, &found, err);
    *exists = !code;
    *size = code ? 0 : found.bytes;
    if (code == HS_NOT_FOUND) {
        hs_error_clear(err);
        return HS_OK;
    }
    if (!code && found.is_directory)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "%s: is a directory", file->path);
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

static void warn_if_short(const hs__line_file *file, const hs__line_keep *keep)
{
    if (keep->kind == HS__KEEP_BYTES && file->bytes < keep->bytes)
        hs_log(file->env, HS_LOG_WARNING,
               "%s: has %llu bytes of rows, but the checkpoint of the session expects %llu, up to step %lld; rows are "
               "missing",
               file->path, (unsigned long long)file->bytes, (unsigned long long)keep->bytes, (long long)keep->step);
}

static hs_code prepare_file(hs__line_file *file, const hs__line_keep *keep, hs_error *err)
{
    bool exists;
    scan s = {.most = keep->kind == HS__KEEP_BYTES ? keep->bytes : UINT64_MAX,
              .most_step = keep->kind == HS__KEEP_STEPS ? keep->step : INT64_MAX};
    hs_code code = find_file(file, &exists, &s.size, err);
    if (code)
        return code;
    if (!exists)
        code = make_directory(file, err);
    else if (keep->kind == HS__KEEP_NONE)
        code = start_new_file(file, s.size, err);
    else
        code = keep_lines(file, &s, err);
    if (!code)
        warn_if_short(file, keep);
    return code;
}

/* If the path is a link, replaces the link by a file with the same lines. */
static hs_code open_for_append(hs__line_file *file, hs_error *err)
{
    hs_code code = hs__file_open(&file->file, file->env, file->path, HS_OPEN_APPEND, err);
    if (code != HS_FAILED_PRECONDITION)
        return code;
    hs_error_clear(err);
    if ((code = rewrite(file, NULL, err)) ||
        (code = hs__file_open(&file->file, file->env, file->path, HS_OPEN_APPEND, err)))
        return code;
    hs_log(file->env, HS_LOG_WARNING, "%s: replaced by a copy, because it was a link", file->path);
    return HS_OK;
}

hs_code hs__line_file_open(hs__line_file *file, const hs_env *env, const hs__line_keep *keep, hs_error *err)
{
    file->env = env;
    hs__line_file_close(file);
    file->bytes = 0;
    file->opened = file->name_synced = file->sync_failed = false;
    hs_code code = prepare_file(file, keep, err);
    if (!code)
        code = open_for_append(file, err);
    file->opened = !code;
    if (!code && !file->bytes)
        code = hs__line_file_append(file, file->head, strlen(file->head), err);
    if (code) {
        file->opened = false;
        hs__line_file_close(file);
    }
    return code;
}

/* Writing. */

static hs_code write_pending(hs__line_file *file, size_t from, hs_error *err)
{
    hs_code code =
        from < file->n_pending ? hs__file_write(&file->file, file->pending + from, file->n_pending - from, err) : HS_OK;
    if (code) {
        hs__file_close(&file->file, NULL);
        return code;
    }
    file->bytes += file->n_pending;
    file->n_pending = 0;
    return HS_OK;
}

static hs_code reopen(hs__line_file *file, hs_error *err)
{
    uint64_t bytes = file->bytes;
    const hs__line_keep keep = {.kind = HS__KEEP_BYTES, .bytes = bytes, .step = -1};
    hs_log(file->env, HS_LOG_WARNING, "%s: another process has changed it", file->path);
    hs_code code = hs__line_file_open(file, file->env, &keep, err);
    if (code) {
        file->bytes = bytes; /* the next append or sync tries again */
        file->opened = true;
    }
    return code;
}

/* After a failure: the file's size shows how much of the pending line was written. */
static hs_code resume_pending(hs__line_file *file, hs_error *err)
{
    bool exists;
    uint64_t size;
    hs_code code = find_file(file, &exists, &size, err);
    if (code)
        return code;
    if (size < file->bytes || size > file->bytes + file->n_pending)
        return reopen(file, err);
    if ((code = hs__file_open(&file->file, file->env, file->path, HS_OPEN_APPEND, err)))
        return code;
    return write_pending(file, (size_t)(size - file->bytes), err);
}

static hs_code ensure_open(hs__line_file *file, hs_error *err)
{
    if (!file->opened)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "%s: is not open", file->path);
    return file->file.handle ? HS_OK : resume_pending(file, err);
}

hs_code hs__line_file_append(hs__line_file *file, const char *line, size_t bytes, hs_error *err)
{
    hs_code code = ensure_open(file, err);
    if (code || !bytes)
        return code;
    memcpy(file->pending, line, bytes);
    file->n_pending = bytes;
    return write_pending(file, 0, err);
}

/* Writes all lines again, to a new file. */
static hs_code write_again(hs__line_file *file, hs_error *err)
{
    hs__file_close(&file->file, NULL);
    hs_code code = rewrite(file, NULL, err);
    return code ? code : hs__file_open(&file->file, file->env, file->path, HS_OPEN_APPEND, err);
}

hs_code hs__line_file_sync(hs__line_file *file, hs_error *err)
{
    hs_code code = ensure_open(file, err);
    if (!code && file->sync_failed && (code = write_again(file, err)))
        return code;
    if (!code && (code = hs__file_sync(&file->file, err)))
        file->sync_failed = true;
    else if (!code)
        file->sync_failed = false;
    if (!code && !file->name_synced)
        code = sync_name(file, err);
    return code;
}
