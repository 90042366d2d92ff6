/* SPDX-License-Identifier: Apache-2.0 */
/* `events compact`. Reads the files twice: first to find the events that a later START made obsolete, then to copy the
 * others.
 *
 * The new file begins with a START at the lowest step, and its name sorts after the old files' names. So TensorBoard drops
 * the events of the old files while the directory has both. */
#include "checkpoint_open.h"
#include "command.h"
#include "events.h"
#include "json_output.h"
#include "memory.h"
#include "output.h"

#include <hooksess/checkpoint.h>
#include <hooksess/records.h>

#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
    char *path;
    uint64_t bytes; /* its size when it was first read */
} old_file;

/* A tag with metadata. TensorFlow's writer writes the metadata only with the first value, and TensorBoard keeps it when
 * that value becomes obsolete. */
typedef struct {
    char *tag;
    uint64_t event; /* index of the event with the metadata */
    bool is_needed; /* later values of the tag do not have it */
} tag_row;

typedef struct {
    const char *directory;
    old_file *files;
    void *tags; /* a tree of tag_row */
    starts starts;
    size_t n_files;
    uint64_t n_events, n_dropped;
    int64_t first_step;
    double first_time;
    const char *output; /* --output; NULL: the new file is in the directory */
    char *path;         /* of the new file */
    size_t n_deleted;   /* the first of `files` */
} compaction;

static char *tmp; /* path of the new file before it gets its name */

/* Runs when the tool ends, also if memory is out. */
static void remove_tmp(void)
{
    unlink(tmp);
    free(tmp);
}

static void note_file(compaction *c, const char *path)
{
    if (c->n_files && strcmp(c->files[c->n_files - 1].path, path) == 0)
        return;
    c->files = must_grow(c->files, c->n_files, sizeof *c->files);
    c->files[c->n_files++] = (old_file){text_of((hs_string){path, strlen(path)}), size_of_file(path)};
}

static void note_damage(void *user, const hs_event_damage *damage)
{
    note_file(user, damage->path);
    say("%s; %llu byte%s skipped", damage->message, (unsigned long long)damage->bytes, plural(damage->bytes));
}

static bool has_metadata(const hs_event_value *value)
{
    return value->plugin.bytes || value->display_name.bytes || value->description.bytes;
}

static int by_tag(const void *a, const void *b)
{
    return strcmp(((const tag_row *)a)->tag, ((const tag_row *)b)->tag);
}

/* NULL: no event has metadata for the tag. */
static tag_row *find_tag(const compaction *c, char *tag)
{
    tag_row **found = tfind(&(tag_row){.tag = tag}, &c->tags, by_tag);
    return found ? *found : NULL;
}

static void note_value(compaction *c, const hs_event_value *value)
{
    char *tag = text_of(value->tag);
    tag_row *row = find_tag(c, tag);
    if (row || !has_metadata(value)) {
        if (row && !has_metadata(value))
            row->is_needed = true;
        free(tag);
        return;
    }
    row = must_allocate(NULL, 1, sizeof *row);
    *row = (tag_row){tag, c->n_events, false};
    must_add(row, &c->tags, by_tag);
}

static void note_event(compaction *c, const hs_event *event)
{
    note_file(c, event->path);
    if (c->n_events == 0) {
        c->first_step = event->step;
        c->first_time = event->wall_time;
    }
    c->first_step = event->step < c->first_step ? event->step : c->first_step;
    if (event->kind == HS_EVENT_SESSION_LOG && event->status == HS_SESSION_LOG_START)
        note_start(&c->starts, c->n_events, event->step);
    for (size_t i = 0; i < event->n_values; i++)
        note_value(c, &event->values[i]);
    c->n_events++;
}

/* True if event i has metadata that later values need and do not have. */
static bool is_needed(const compaction *c, uint64_t i, const hs_event *event)
{
    bool needed = false;
    for (size_t k = 0; k < event->n_values && !needed; k++) {
        char *tag = text_of(event->values[k].tag);
        const tag_row *row = find_tag(c, tag);
        needed = row && row->event == i && row->is_needed;
        free(tag);
    }
    return needed;
}

/* Writing. */

static size_t put_varint(unsigned char *to, uint64_t value)
{
    size_t n = 0;
    for (; value >= 0x80; value >>= 7)
        to[n++] = (unsigned char)(value | 0x80);
    to[n++] = (unsigned char)value;
    return n;
}

/* Writes an Event with the time of the first event and the encoded field `what`. */
static hs_code write_event(const compaction *c, hs_record_writer *writer, int64_t step, const unsigned char *what,
                           size_t bytes, hs_error *err)
{
    unsigned char event[64] = {1 << 3 | 1};
    uint64_t time;
    memcpy(&time, &c->first_time, sizeof time);
    size_t n = 1;
    for (int i = 0; i < 8; i++)
        event[n++] = (unsigned char)(time >> 8 * i);
    event[n++] = 2 << 3;
    n += put_varint(event + n, (uint64_t)step);
    memcpy(event + n, what, bytes);
    return hs_record_writer_write(writer, event, n + bytes, err);
}

/* Writes the version and a START at the lowest step. The version is written even if the first old file's is damaged,
 * because TensorBoard ignores START without it. */
static hs_code write_head(const compaction *c, const hs_event *first, hs_record_writer *writer, hs_error *err)
{
    static const unsigned char version[] = "\x1a\x0d"
                                           "brain.Event:2";
    static const unsigned char log[] = {7 << 3 | 2, 2, 1 << 3, HS_SESSION_LOG_START};
    hs_code code = first->kind == HS_EVENT_FILE_VERSION
                       ? hs_record_writer_write(writer, first->record.data, first->record.size, err)
                       : write_event(c, writer, 0, version, sizeof version - 1, err);
    return code ? code : write_event(c, writer, c->first_step, log, sizeof log, err);
}

/* Copies the events that are not obsolete, and a single version. */
static hs_code copy(compaction *c, events *from, hs_record_writer *writer, hs_error *err)
{
    const hs_event *event;
    hs_code code = HS_OK;
    size_t next = 0;
    for (uint64_t i = 0; !code && i < c->n_events && next_event(from, &event); i++) {
        if (i == 0 && (code = write_head(c, event, writer, err)))
            break;
        const bool is_dropped = is_obsolete(&c->starts, &next, i, event->step) && event->kind == HS_EVENT_SUMMARY;
        if (is_dropped && !is_needed(c, i, event))
            c->n_dropped++;
        else if (event->kind != HS_EVENT_FILE_VERSION)
            code = hs_record_writer_write(writer, event->record.data, event->record.size, err);
    }
    return code;
}

static void ignore_damage(void *user, const hs_event_damage *damage)
{
    (void)user;
    (void)damage;
}

static bool write_tmp(compaction *c)
{
    hs_error err = {0};
    events from = {.damaged = ignore_damage};
    hs_record_writer_options options = HS_INIT(hs_record_writer_options, .env = tool_env());
    if (!open_events(&from, c->directory))
        return false;
    hs_record_writer *writer = hs_record_writer_open(tmp, &options, &err);
    hs_code code = writer ? copy(c, &from, writer, &err) : err.code;
    if (!code)
        code = hs_record_writer_flush(writer, true, &err);
    hs_error closing = {0};
    if (hs_record_writer_close(writer, &closing) && !code) {
        code = closing.code;
        err = closing;
    }
    hs_record_writer_free(writer);
    if (code)
        say("%s", err.message);
    close_events(&from);
    return !code && !from.failed && output_works();
}

/* False, and prints an error, if an old file has changed. */
static bool is_unchanged(const compaction *c)
{
    for (size_t i = 0; i < c->n_files; i++)
        if (size_of_file(c->files[i].path) != c->files[i].bytes) {
            say("%s is being written; nothing was changed", c->files[i].path);
            return false;
        }
    return true;
}

/* Locks a directory to which a training saves checkpoints, so that no training writes to it. *saver is NULL if it has no
 * lock file. False: another process has the lock; the error is printed. */
static bool lock_directory(const char *directory, hs_saver **saver)
{
    hs_error err = {0};
    char *lock = must_format("%s/" HS_CHECKPOINT_LOCK, directory), *prefix = must_format("%s/events", directory);
    *saver = NULL;
    bool is_free = access(lock, F_OK) != 0;
    if (!is_free) {
        const hs_saver_options options = HS_INIT(hs_saver_options, .env = tool_env());
        *saver = hs_saver_new(&options, &err);
        is_free = *saver && !hs_saver_hold(*saver, NULL, prefix, &err);
        if (!is_free)
            say("%s; nothing was changed", err.message);
    }
    free(lock);
    free(prefix);
    return is_free;
}

/* The directory of a path. The caller frees it with free. */
static char *directory_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? must_format("%.*s", slash == path ? 1 : (int)(slash - path), path) : must_format(".");
}

/* Gives the new file its name. False: failed; the error is printed. */
static bool rename_tmp(const compaction *c)
{
    const hs_file_system *files = &hs_env_default()->files;
    hs_error err = {0};
    char *directory = directory_of(c->path);
    bool placed =
        !files->ops->rename(files->user, tmp, c->path, &err) && !files->ops->sync_directory(files->user, directory, &err);
    if (!placed)
        say("%s", err.message);
    free(directory);
    return placed;
}

static bool delete_old(compaction *c)
{
    const hs_file_system *files = &hs_env_default()->files;
    hs_error err = {0};
    for (; c->n_deleted < c->n_files; c->n_deleted++) {
        if (files->ops->remove(files->user, c->files[c->n_deleted].path, &err)) {
            say("%s", err.message);
            return false;
        }
    }
    return true;
}

static void choose_names(compaction *c)
{
    c->path = c->output ? must_format("%s", c->output) : must_format("%s.compacted", c->files[c->n_files - 1].path);
    char *directory = directory_of(c->path);
    tmp = must_format("%s/hooksess-compact.%ld.tmp", directory, (long)getpid()); /* without "tfevents": not an event file */
    atexit(remove_tmp);
    free(directory);
}

/* False, and prints an error, if the output is in the same directory: readers would read it with the old files. */
static bool is_elsewhere(const char *output, const char *directory)
{
    char *parent = directory_of(output);
    struct stat a, b;
    bool same = stat(parent, &a) == 0 && stat(directory, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
    if (same)
        say("%s: the file must be in another directory; name such a file, or give --delete", output);
    free(parent);
    return !same;
}

static void conclude(const compaction *c, bool as_json, bool is_made)
{
    if (as_json) {
        hs__json_writer out = js_begin(0);
        hs__json_open(&out, NULL, '{');
        js_text(&out, "file", is_made ? c->path : NULL);
        js_count(&out, "files", c->n_files);
        js_count(&out, "events", c->n_events);
        js_count(&out, "dropped", c->n_dropped);
        hs__json_open(&out, "deleted", '[');
        for (size_t i = 0; i < c->n_deleted; i++)
            hs__json_put_text(&out, NULL, c->files[i].path);
        hs__json_close(&out, ']');
        hs__json_close(&out, '}');
        js_end();
    } else if (is_made) {
        put_name(c->path);
        printf(": %llu event%s in %zu file%s compacted: %llu obsolete event%s dropped, %zu file%s deleted\n",
               (unsigned long long)c->n_events, plural(c->n_events), c->n_files, plural(c->n_files),
               (unsigned long long)c->n_dropped, plural(c->n_dropped), c->n_deleted, plural(c->n_deleted));
    } else {
        put_name(c->directory);
        puts(": nothing to compact");
    }
}

/* Writes the new file and deletes the old files, as far as needed. Returns the exit status. */
static int compact(compaction *c, const events *seen, const struct call *call)
{
    bool is_one = c->n_files == 1 && !seen->damages && !c->output;
    int status = events_status(seen);
    if (call->given[OPTION_DELETE] && seen->damages > seen->torn) {
        say("nothing was changed: a file is damaged, and more of its events may be recoverable; give --output");
        return status;
    }
    bool is_needed = c->n_events > 0;
    if (is_needed) {
        choose_names(c);
        if (!write_tmp(c))
            return TROUBLE;
        is_needed = !is_one || c->n_dropped;
    }
    if (is_needed && ((!c->output && !is_unchanged(c)) || !rename_tmp(c)))
        return TROUBLE;
    if (is_needed && call->given[OPTION_DELETE] && !delete_old(c))
        status = TROUBLE;
    conclude(c, call->given[OPTION_JSON], is_needed);
    return status;
}

static void free_compaction(compaction *c)
{
    for (size_t i = 0; i < c->n_files; i++)
        free(c->files[i].path);
    while (c->tags) {
        tag_row *row = *(tag_row **)c->tags;
        tdelete(row, &c->tags, by_tag);
        free(row->tag);
        free(row);
    }
    free(c->files);
    free(c->starts.rows);
    free(c->path);
}

int events_compact(const struct call *call)
{
    compaction c = {.directory = call->operands[0], .output = call->given[OPTION_OUTPUT]};
    events seen = {.damaged = note_damage, .user = &c};
    const hs_event *event;
    hs_saver *saver = NULL;
    int status = TROUBLE;
    if (!check_directory(c.directory))
        return TROUBLE;
    if (!c.output == !call->given[OPTION_DELETE]) {
        say("give exactly one of --delete and --output FILE");
    } else if ((c.output ? is_elsewhere(c.output, c.directory) && can_be_replaced(c.output)
                         : lock_directory(c.directory, &saver)) &&
               open_events(&seen, c.directory)) {
        while (next_event(&seen, &event))
            note_event(&c, event);
        close_events(&seen);
        status = seen.failed ? TROUBLE : compact(&c, &seen, call);
    }
    hs_saver_free(saver);
    free_compaction(&c);
    return status;
}
