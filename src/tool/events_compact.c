/* SPDX-License-Identifier: Apache-2.0 */
/* The files are read twice: once to see which events a later START has made obsolete, once to copy the others.
 *
 * The new file is read after the old ones, by its name, and begins with a START at the first of all steps: TensorBoard then
 * forgets what the old files gave it, so that it shows the same with and without them, at any instant between. */
#include "command.h"
#include "events.h"
#include "json.h"
#include "open.h"
#include "output.h"

#include <hooksess/records.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    char *path;
    uint64_t bytes; /* when it was first seen */
} old_file;

/* Summaries at this step and above, of the events before this one, are obsolete. */
typedef struct {
    uint64_t before;
    int64_t step;
} start;

typedef struct {
    const char *directory;
    old_file *files;
    start *starts; /* their steps rise: each is the lowest of those that follow */
    size_t n_files, n_starts;
    uint64_t n_events, n_dropped;
    int64_t first_step;
    int64_t last_summary; /* the highest step of one */
    bool has_obsolete;
    double first_time;
    char *aside, *path; /* of the new file */
    json_t *deleted;
} compaction;

static void note_file(compaction *c, const char *path)
{
    if (c->n_files && strcmp(c->files[c->n_files - 1].path, path) == 0)
        return;
    c->files = must_allocate(c->files, c->n_files + 1, sizeof *c->files);
    c->files[c->n_files++] = (old_file){text_of((hs_string){path, strlen(path)}), size_of_file(path)};
}

static void note_damage(void *user, const hs_event_damage *damage)
{
    note_file(user, damage->path);
    say("%s; %llu bytes are left out", damage->message, (unsigned long long)damage->bytes);
}

static void note_start(compaction *c, int64_t step)
{
    c->has_obsolete = c->has_obsolete || c->last_summary >= step;
    while (c->n_starts && c->starts[c->n_starts - 1].step >= step)
        c->n_starts--; /* the later one drops all that this one does */
    c->starts = must_allocate(c->starts, c->n_starts + 1, sizeof *c->starts);
    c->starts[c->n_starts++] = (start){c->n_events, step};
}

static void note_event(compaction *c, const hs_event *event)
{
    note_file(c, event->path);
    if (c->n_events == 0) {
        c->first_step = event->step;
        c->first_time = event->wall_time;
        c->last_summary = INT64_MIN;
    }
    if (event->kind == HS_EVENT_SUMMARY && event->step > c->last_summary)
        c->last_summary = event->step;
    c->first_step = event->step < c->first_step ? event->step : c->first_step;
    if (event->kind == HS_EVENT_SESSION_LOG && event->status == HS_SESSION_START)
        note_start(c, event->step);
    c->n_events++;
}

/* As TensorBoard has it: all but summaries stay. `next` is the first START that is not behind yet. */
static bool is_obsolete(const compaction *c, size_t next, const hs_event *event)
{
    return event->kind == HS_EVENT_SUMMARY && next < c->n_starts && event->step >= c->starts[next].step;
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

/* An Event that is a SessionLog START at the first step. */
static hs_code write_start(const compaction *c, hs_record_writer *writer, hs_error *err)
{
    static const unsigned char log[] = {7 << 3 | 2, 2, 1 << 3, HS_SESSION_START};
    unsigned char event[32] = {1 << 3 | 1};
    uint64_t time;
    memcpy(&time, &c->first_time, sizeof time);
    size_t n = 1;
    for (int i = 0; i < 8; i++)
        event[n++] = (unsigned char)(time >> 8 * i);
    event[n++] = 2 << 3;
    n += put_varint(event + n, (uint64_t)c->first_step);
    memcpy(event + n, log, sizeof log);
    return hs_record_writer_write(writer, event, n + sizeof log, err);
}

/* Copies what is left; the first version of a file serves them all. */
static hs_code copy(compaction *c, events *from, hs_record_writer *writer, hs_error *err)
{
    const hs_event *event;
    hs_code code = HS_OK;
    size_t next = 0;
    for (uint64_t i = 0; !code && i < c->n_events && next_event(from, &event); i++) {
        while (next < c->n_starts && c->starts[next].before <= i)
            next++;
        if (is_obsolete(c, next, event))
            c->n_dropped++;
        else if (i == 0 || event->kind != HS_EVENT_FILE_VERSION)
            code = hs_record_writer_write(writer, event->record.data, event->record.size, err);
        if (i == 0 && !code)
            code = write_start(c, writer, err);
    }
    return code;
}

static void stay_silent(void *user, const hs_event_damage *damage)
{
    (void)user;
    (void)damage;
}

static bool write_aside(compaction *c)
{
    hs_error err = {0};
    events from = {.damaged = stay_silent};
    hs_record_writer_options options = {HS_RECORD_WRITER_OPTIONS, .env = tool_env()};
    if (!open_events(&from, c->directory))
        return false;
    hs_record_writer *writer = hs_record_writer_open(c->aside, &options, &err);
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

/* Did nobody write meanwhile? */
static bool is_quiet(const compaction *c)
{
    for (size_t i = 0; i < c->n_files; i++)
        if (size_of_file(c->files[i].path) != c->files[i].bytes) {
            say("%s is being written to; nothing was changed", c->files[i].path);
            return false;
        }
    return true;
}

static bool place(const compaction *c)
{
    const hs_file_system *files = &hs_env_default()->files;
    hs_error err = {0};
    if (!files->ops->rename(files->user, c->aside, c->path, &err) &&
        !files->ops->sync_directory(files->user, c->directory, &err))
        return true;
    say("%s", err.message);
    return false;
}

static bool delete_old(compaction *c)
{
    const hs_file_system *files = &hs_env_default()->files;
    hs_error err = {0};
    for (size_t i = 0; i < c->n_files; i++) {
        if (files->ops->remove(files->user, c->files[i].path, &err)) {
            say("%s", err.message);
            return false;
        }
        json_array_append_new(c->deleted, js_text(c->files[i].path));
    }
    return true;
}

static char *joined(const char *a, const char *b)
{
    size_t of_a = strlen(a), of_b = strlen(b);
    char *text = must_allocate(NULL, of_a + of_b + 1, 1);
    memcpy(text, a, of_a);
    memcpy(text + of_a, b, of_b + 1);
    return text;
}

static void choose_names(compaction *c)
{
    char name[64]; /* without "tfevents", so that nobody reads it */
    snprintf(name, sizeof name, "/hooksess-compact.%ld.tmp", (long)getpid());
    c->aside = joined(c->directory, name);
    c->path = joined(c->files[c->n_files - 1].path, ".compacted");
}

static void conclude(compaction *c, bool as_json, bool is_made)
{
    if (as_json) {
        json_t *object = json_object();
        js_set(object, "file", is_made ? js_text(c->path) : json_null());
        js_set(object, "files", js_number((long double)c->n_files, true));
        js_set(object, "events", js_number((long double)c->n_events, true));
        js_set(object, "dropped", js_number((long double)c->n_dropped, true));
        js_set(object, "deleted", json_incref(c->deleted));
        js_write(object);
        puts("");
    } else if (is_made) {
        put_name(c->path);
        printf(": of %llu events in %zu files, %llu were obsolete; %zu files were deleted\n",
               (unsigned long long)c->n_events, c->n_files, (unsigned long long)c->n_dropped, json_array_size(c->deleted));
    } else {
        put_name(c->directory);
        puts(": there is nothing to compact");
    }
}

static int make(compaction *c, const events *seen, const struct call *call)
{
    bool is_needed = c->n_files > 1 || c->has_obsolete || seen->damages;
    int status = events_status(seen);
    if (c->n_events == 0 || !is_needed) {
        conclude(c, call->given[OPTION_JSON], false);
        return status;
    }
    choose_names(c);
    if (!write_aside(c) || !is_quiet(c) || !place(c)) {
        const hs_file_system *files = &hs_env_default()->files;
        files->ops->remove(files->user, c->aside, NULL);
        return TROUBLE;
    }
    if (call->given[OPTION_DELETE] && seen->damages > seen->torn)
        say("nothing is deleted: of what is damaged somebody may save more");
    else if (call->given[OPTION_DELETE] && !delete_old(c))
        status = TROUBLE;
    conclude(c, call->given[OPTION_JSON], true);
    return status;
}

static void free_compaction(compaction *c)
{
    for (size_t i = 0; i < c->n_files; i++)
        free(c->files[i].path);
    free(c->files);
    free(c->starts);
    free(c->aside);
    free(c->path);
    json_decref(c->deleted);
}

int events_compact(const struct call *call)
{
    compaction c = {.directory = call->operands[0], .deleted = json_array()};
    events seen = {.damaged = note_damage, .user = &c};
    const hs_event *event;
    int status = TROUBLE;
    if (!is_directory(c.directory)) {
        say("%s: is no directory; what is compacted is all event files of one", c.directory);
    } else if (open_events(&seen, c.directory)) {
        while (next_event(&seen, &event))
            note_event(&c, event);
        close_events(&seen);
        status = seen.failed ? TROUBLE : make(&c, &seen, call);
    }
    free_compaction(&c);
    return js_works() ? status : TROUBLE;
}
