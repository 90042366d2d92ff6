/* SPDX-License-Identifier: Apache-2.0 */
/* The files of an event-file writer. hs__writer_begin_file opens a new file under a name that sorts last (open_new), writes
 * the version record, and makes it the current file (replace). */
#include "summary/writer_inside.h"

#include "base/error.h"
#include "base/proto.h"
#include "formats/records.h"
#include "summary/event_encode.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_PREFIX "events.out.tfevents."

/* The latest time, in seconds, in the names of a directory's event files that sort after `name`. -1: no such file. */
typedef struct {
    const char *name;
    long long latest;
} successors;

static int note_successor(void *user, const char *name)
{
    enum { DIGITS = 10 };
    const long long LAST_DATE = 9999999999;
    successors *after = user;
    const char *digits = name + sizeof NAME_PREFIX - 1;
    if (strncmp(name, NAME_PREFIX, sizeof NAME_PREFIX - 1) != 0 || strcmp(name, after->name) <= 0 ||
        strspn(digits, "0123456789") != DIGITS)
        return 0;
    long long seconds = strtoll(digits, NULL, 10);
    /* A name with the next second must not have one more digit, because it would sort before this one. */
    if (seconds > after->latest && seconds < LAST_DATE)
        after->latest = seconds;
    return 0;
}

/* Chooses a path that sorts after all event files of the directory, whatever the clock says. TensorBoard reads the files in
 * the order of their names, and lets a later run replace the steps of an earlier one. */
static hs_code choose_path(const hs_summary_writer *writer, const char *host, long long *seconds, unsigned count,
                           char **path, hs_error *err)
{
    const hs_env *env = &writer->env;
    for (;;) {
        char *name =
            hs__format(env, NAME_PREFIX "%010lld.%s.%ld.%u%s", *seconds, host, (long)getpid(), count, writer->suffix);
        successors after = {name, -1};
        hs_code code = name ? hs__list(env, writer->directory, note_successor, &after, err)
                            : hs__no_memory(err, strlen(writer->directory), "a path");
        if (!code && after.latest < 0 && !(*path = hs__path_join(env, writer->directory, name)))
            code = hs__no_memory(err, strlen(writer->directory), "a path");
        hs__free(env, name);
        if (code || after.latest < 0)
            return code;
        *seconds = after.latest + 1;
    }
}

/* Whether a file of this writer has or had this path. If it was deleted, readers may still have it open: they would not see
 * a new file of the same name. */
static bool is_used(const hs_summary_writer *writer, const char *path)
{
    bool used = writer->path && strcmp(writer->path, path) == 0;
    for (size_t i = 0; i < writer->n_old && !used; i++)
        used = strcmp(writer->old_paths[i], path) == 0;
    return used;
}

/* The count distinguishes names that this process chooses in the same second. */
static hs_code open_new(hs_summary_writer *writer, hs__file *file, char **path, hs_error *err)
{
    char host[128] = "host";
    if (gethostname(host, sizeof host) == 0)
        host[sizeof host - 1] = '\0';
    long long seconds = (long long)(hs_env_realtime_ns(&writer->env) / 1000000000);
    for (unsigned count = 0;; count++) {
        hs_code code = choose_path(writer, host, &seconds, count, path, err);
        if (code)
            return code;
        code = is_used(writer, *path) ? HS_ALREADY_EXISTS : hs__file_open(file, &writer->env, *path, HS_OPEN_NEW, err);
        if (!code)
            return HS_OK;
        hs__free(&writer->env, *path);
        *path = NULL;
        if (code != HS_ALREADY_EXISTS)
            return code;
    }
}

/* Writes and syncs the version record, and syncs the directory. */
static hs_code write_version(const hs_summary_writer *writer, hs__file *file, uint64_t *bytes, hs_error *err)
{
    static const char name[] = "brain.Event:2", source[] = "\x0a\x08hooksess"; /* field 1: the writer */
    hs_code code;
    hs__buffer version;
    hs__buffer_init(&version, &writer->env);
    size_t begun = hs__record_begin(&version);
    hs__encode_event_head(&version, hs_env_realtime_ns(&writer->env), 0);
    hs__proto_put_bytes(&version, HS__EVENT_FILE_VERSION, name, sizeof name - 1);
    hs__proto_put_bytes(&version, HS__EVENT_SOURCE_METADATA, source, sizeof source - 1);
    hs__record_end(&version, begun);
    if (!(code = hs__buffer_check(&version, "an event", err)) &&
        !(code = hs__file_write(file, version.data, version.size, err)))
        code = hs__file_sync(file, err);
    *bytes = version.size;
    hs__buffer_free(&version);
    return code ? code : hs__sync_directory(&writer->env, writer->directory, err);
}

/* Makes the new file the current one, and closes the old one. Keeps the old path, as a caller may still use the string. */
static hs_code replace(hs_summary_writer *writer, hs__file file, char *path, uint64_t bytes, hs_error *err)
{
    pthread_mutex_lock(&writer->lock);
    hs_code code = HS_OK;
    if (writer->path && !(code = hs__reserve(&writer->env, &writer->old_paths, &writer->old_capacity, writer->n_old + 1,
                                             sizeof *writer->old_paths, err)))
        writer->old_paths[writer->n_old++] = writer->path;
    if (!code) {
        writer->path = path;
        writer->status.files++;
    }
    pthread_mutex_unlock(&writer->lock);
    if (code)
        return code;
    hs__file old = writer->file;
    writer->file = file;
    writer->file_bytes = bytes;
    if (old.handle && !writer->unsynced.code)
        hs__file_sync(&old, &writer->unsynced); /* a later flush also covers the old file */
    hs__file_close(&old, writer->unsynced.code ? NULL : &writer->unsynced);
    return HS_OK;
}

hs_code hs__writer_begin_file(hs_summary_writer *writer, hs_error *err)
{
    hs__file file = {.env = &writer->env};
    char *path = NULL;
    uint64_t bytes = 0;
    hs_code code = hs__make_directories(&writer->env, writer->directory, err);
    if (!code && !(code = open_new(writer, &file, &path, err)) && !(code = write_version(writer, &file, &bytes, err)))
        code = replace(writer, file, path, bytes, err);
    if (code && file.handle) {
        hs__file_close(&file, NULL);
        hs__file_remove(&writer->env, path); /* it has no events */
    }
    if (code)
        hs__free(&writer->env, path);
    else if (err)
        hs__clear(err); /* names that already existed */
    return code;
}
