/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the files of a directory one after the other: hs_event_reader_next reads events of the current file (read_event),
 * which reports and skips damage, and continues with the next file (next_file). With `follow`, a file may grow. It has
 * ended if a later file exists and another read finds no more records. */
#include "base/files.h"
#include "formats/records.h"
#include "summary/event_decode.h"

#include <stdlib.h>
#include <string.h>

/* The event files of a directory, sorted by name; or a single file. */
typedef struct {
    const hs_env *env;
    char *directory; /* NULL: a single file */
    char **paths;
    size_t n, capacity;
} event_files;

typedef struct {
    event_files *files;
    size_t known; /* number of files before the update */
    hs_code code;
    hs_error *err;
} addition;

static int add(void *user, const char *name)
{
    addition *adding = user;
    event_files *files = adding->files;
    if (!strstr(name, "tfevents") || (adding->known && strcmp(name, hs__path_base(files->paths[adding->known - 1])) <= 0))
        return 0;
    char *path = hs__path_join(files->env, files->directory, name);
    adding->code =
        path ? hs__reserve(files->env, &files->paths, &files->capacity, files->n + 1, sizeof *files->paths, adding->err)
             : hs__no_memory(adding->err, strlen(name), "a path");
    hs_file_stat found;
    hs_code code = adding->code ? adding->code : hs__stat(files->env, path, &found, NULL);
    if (adding->code || code == HS_NOT_FOUND || (!code && found.is_directory))
        hs__free(files->env, path); /* out of memory, or it was deleted or is a directory */
    else
        files->paths[files->n++] = path;
    return adding->code;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Adds the files of the directory whose names sort after the last file in the list. */
static hs_code update_files(event_files *files, hs_error *err)
{
    addition adding = {files, files->n, HS_OK, err};
    if (!files->directory)
        return HS_OK;
    hs_code code = hs__list(files->env, files->directory, add, &adding, err);
    code = adding.code ? adding.code : code;
    if (code) { /* the list may be incomplete */
        while (files->n > adding.known)
            hs__free(files->env, files->paths[--files->n]);
        return code;
    }
    if (files->n > adding.known)
        qsort(files->paths + adding.known, files->n - adding.known, sizeof *files->paths, by_name);
    return HS_OK;
}

static void free_files(event_files *files)
{
    for (size_t i = 0; i < files->n; i++)
        hs__free(files->env, files->paths[i]);
    hs__free(files->env, files->paths);
    hs__free(files->env, files->directory);
    *files = (event_files){.env = files->env};
}

static hs_code open_files(event_files *files, const hs_env *env, const char *path, hs_error *err)
{
    hs_file_stat found;
    *files = (event_files){.env = env};
    hs_code code = hs__stat(env, path, &found, err);
    if (code)
        return code;
    char *copy = hs__strdup(env, path);
    if (!copy)
        return hs__no_memory(err, strlen(path), "a path");
    if (found.is_directory) {
        files->directory = copy;
        code = update_files(files, err);
    } else if ((code = hs__reserve(env, &files->paths, &files->capacity, 1, sizeof *files->paths, err))) {
        hs__free(env, copy);
    } else {
        files->paths[files->n++] = copy;
    }
    if (code)
        free_files(files);
    return code;
}

/* Opening and closing. */

struct hs_event_reader {
    hs_env env;
    hs_event_reader_options options;
    event_files files;
    size_t current; /* index in files.paths */
    hs_record_reader records;
    bool is_open;  /* the current file is open */
    bool is_final; /* the current file is complete */
    hs__event_values values;
    hs_event event;
};

static hs_code check_options(const hs_event_reader_options *options, hs_error *err)
{
    if (options->max_record_bytes < HS_NEVER)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_event_reader_options.max_record_bytes is %lld; it must be at least 0, or HS_NEVER",
                            (long long)options->max_record_bytes);
    return HS_OK;
}

hs_event_reader *hs_event_reader_open(const char *path, const hs_event_reader_options *given, hs_error *err)
{
    hs_event_reader_options options = HS_INIT(hs_event_reader_options);
    hs_env env;
    hs_error_clear(err);
    if (!path || !*path) {
        hs_error_set(err, HS_INVALID_ARGUMENT, "hs_event_reader_open: path is missing");
        return NULL;
    }
    if ((given && HS_STRUCT_TAKE(hs_event_reader_options, user, &options, given, err)) || check_options(&options, err) ||
        hs__env_copy(&env, options.env, err))
        return NULL;
    hs_event_reader *reader = hs__alloc(&env, 1, sizeof *reader);
    if (!reader) {
        hs__no_memory(err, sizeof *reader, "a reader of events");
        return NULL;
    }
    reader->env = env;
    reader->options = options;
    reader->values.env = &reader->env;
    if (open_files(&reader->files, &reader->env, path, err)) {
        hs__free(&env, reader);
        return NULL;
    }
    hs_error_clear(err);
    return reader;
}

static void close_file(hs_event_reader *reader)
{
    if (reader->is_open)
        hs_record_reader_close(&reader->records);
    reader->is_open = false;
}

void hs_event_reader_close(hs_event_reader *reader)
{
    if (!reader)
        return;
    hs_env env = reader->env;
    close_file(reader);
    free_files(&reader->files);
    hs__free(&env, reader->values.items);
    hs__free(&env, reader);
}

/* Damage. */

static void report(hs_event_reader *reader, uint64_t offset, uint64_t bytes, bool is_truncated, const char *message)
{
    const char *path = reader->files.paths[reader->current];
    hs_event_damage damage = {
        .path = path, .offset = offset, .bytes = bytes, .is_truncated = is_truncated, .message = message};
    if (reader->options.damaged)
        reader->options.damaged(reader->options.user, &damage);
    else
        hs_log(&reader->env, HS_LOG_WARNING, "%s; %llu bytes skipped", message, (unsigned long long)bytes);
}

/* Skips the record at the reader's offset, which is damaged (`why`), and reports it. OUT_OF_RANGE: no intact record
 * follows.
 */
static hs_code skip_damage(hs_event_reader *reader, const hs_error *why, hs_error *err)
{
    uint64_t offset = reader->records.offset, lost = 0;
    hs__record_header header;
    bool is_truncated =
        hs__record_read_header(&reader->records, offset, &header, NULL) == HS_DATA_LOSS ||
        (header.is_sound && hs__record_check_length(&reader->records, offset, header.bytes, NULL) == HS_DATA_LOSS);
    if (is_truncated && !reader->is_final)
        return HS_OUT_OF_RANGE; /* its writer may still write it */
    hs_code code = hs_record_reader_recover(&reader->records, &lost, err);
    if (code == HS_OUT_OF_RANGE && !reader->is_final)
        return code;
    if (code && code != HS_OUT_OF_RANGE)
        return code;
    if (!code && !lost)
        return HS_OK; /* the record is whole now */
    hs_file_stat found;
    if (code && !hs__stat(&reader->env, reader->files.paths[reader->current], &found, NULL) && found.bytes > offset)
        lost = found.bytes - offset; /* the rest of the file */
    report(reader, offset, lost, is_truncated && code, why->message);
    return code;
}

/* True if the record is to be skipped: it is damaged, or larger than the limit. HS_RESOURCE_EXHAUSTED can also mean that
 * memory is exhausted, which is not damage. */
static bool is_damage(hs_event_reader *reader, hs_code code)
{
    hs__record_header header;
    return code == HS_DATA_LOSS ||
           (code == HS_RESOURCE_EXHAUSTED &&
            hs__record_read_header(&reader->records, reader->records.offset, &header, NULL) == HS_OK &&
            header.bytes > reader->records.limit);
}

/* Files, one after the other. */

static hs_code open_file(hs_event_reader *reader, hs_error *err)
{
    hs_code code = hs__record_reader_open(&reader->records, &reader->env, reader->files.paths[reader->current],
                                          HS_RECORDS_PLAIN, HS__SOURCE_WINDOW, err);
    if (code)
        return code;
    if (reader->options.max_record_bytes)
        reader->records.limit =
            reader->options.max_record_bytes == HS_NEVER ? UINT64_MAX : (uint64_t)reader->options.max_record_bytes;
    reader->is_open = true;
    reader->is_final = !reader->options.follow;
    return HS_OK;
}

static bool is_last(const hs_event_reader *reader)
{
    return reader->current + 1 >= reader->files.n;
}

/* Call if the current file has no more events, or no file is open. HS_OK: read on. OUT_OF_RANGE: no more events. */
static hs_code next_file(hs_event_reader *reader, hs_error *err)
{
    if (reader->options.follow && is_last(reader)) {
        hs_code code = update_files(&reader->files, err);
        if (code)
            return code;
    }
    if (reader->is_open && is_last(reader) && reader->options.follow)
        return HS_OUT_OF_RANGE;
    if (reader->is_open && !reader->is_final) {
        reader->is_final = true; /* first read the records that were written before the later file was created */
        return HS_OK;
    }
    if (reader->is_open) {
        close_file(reader);
        reader->current++;
    }
    return reader->current < reader->files.n ? HS_OK : HS_OUT_OF_RANGE;
}

/* Reads the next event of the current file. Skips damaged records and records that are not events, and reports them.
 * OUT_OF_RANGE: the file has no more events. */
static hs_code read_event(hs_event_reader *reader, hs_error *err)
{
    for (;;) {
        hs_bytes record;
        hs_error why; /* hs__clear is cheaper than initializing all of it */
        hs__clear(&why);
        reader->event.path = reader->files.paths[reader->current];
        reader->event.offset = reader->records.offset;
        hs_code code = hs_record_reader_next(&reader->records, &record, &why);
        if (is_damage(reader, code)) {
            if ((code = skip_damage(reader, &why, err)))
                return code;
            continue;
        }
        if (!code)
            code = hs__event_decode(record, &reader->values, &reader->event, &why);
        if (code != HS_DATA_LOSS)
            return hs__error_copy(err, code ? &why : NULL);
        hs_error_prefix(&why, "%s: the record at byte %llu", reader->event.path, (unsigned long long)reader->event.offset);
        report(reader, reader->event.offset, reader->records.offset - reader->event.offset, false, why.message);
    }
}

hs_code hs_event_reader_next(hs_event_reader *reader, const hs_event **event, hs_error *err)
{
    hs_error_clear(err);
    if (!reader || !event)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%s is NULL", reader ? "event" : "reader");
    for (;;) {
        hs_code code = HS_OUT_OF_RANGE;
        if (!reader->is_open && reader->current < reader->files.n && (code = open_file(reader, err))) {
            if (code != HS_NOT_FOUND || !reader->files.directory)
                return code;
            hs_log(&reader->env, HS_LOG_WARNING, "%s: was deleted", reader->files.paths[reader->current++]);
            continue;
        }
        if (reader->is_open && (code = read_event(reader, err)) == HS_OK) {
            *event = &reader->event;
            return HS_OK;
        }
        if (code == HS_OUT_OF_RANGE)
            code = next_file(reader, err);
        if (code && code != HS_OUT_OF_RANGE)
            return code;
        if (code) {
            const event_files *files = &reader->files;
            const char *path = files->directory ? files->directory : files->n ? files->paths[0] : "events";
            return reader->options.follow ? hs_error_set(err, HS_UNAVAILABLE, "%s: no more events yet", path)
                                          : hs_error_set(err, HS_OUT_OF_RANGE, "%s: end of the events", path);
        }
    }
}
