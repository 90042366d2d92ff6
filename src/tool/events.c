/* SPDX-License-Identifier: Apache-2.0 */
/* Reads events for the events commands. Damage is counted, and printed or reported to the command. */
#define _POSIX_C_SOURCE 200809L /* S_ISREG */
#include "events.h"
#include "checkpoint_open.h"
#include "command.h"
#include "memory.h"
#include "output.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool begins_with(const char *path, const char *beginning)
{
    char text[64] = "";
    FILE *file = fopen(path, "re");
    if (file) {
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        fclose(file);
    }
    return strncmp(text, beginning, strlen(beginning)) == 0;
}

/* If a file has no intact record, and not the name or the beginning of an event file: prints that, and returns true. */
static bool is_another_file(const hs_event_damage *damage)
{
    const char *slash = strrchr(damage->path, '/');
    if (damage->offset != 0 || damage->bytes < size_of_file(damage->path))
        return false;
    const bool is_pointer = begins_with(damage->path, "version https://git-lfs");
    if (is_pointer)
        say("%s: is not an event file, but a pointer of Git LFS; run 'git lfs pull'", damage->path);
    else if (!strstr(slash ? slash : damage->path, "tfevents"))
        say("%s: is not an event file", damage->path);
    else
        return false;
    return true;
}

static void on_damage(void *user, const hs_event_damage *damage)
{
    events *of = user;
    if (is_another_file(damage)) {
        of->failed = of->is_other = true;
        return;
    }
    of->damages++;
    of->torn += damage->is_truncated;
    if (of->damaged)
        of->damaged(of->user, damage);
    else
        say("%s; %llu byte%s skipped", damage->message, (unsigned long long)damage->bytes, plural(damage->bytes));
}

bool open_events(events *opened, const char *path)
{
    hs_error err = {0};
    hs_event_reader_options options =
        HS_INIT(hs_event_reader_options, .env = tool_env(), .damaged = on_damage, .user = opened);
    opened->path = path;
    opened->reader = hs_event_reader_open(path, &options, &err);
    if (!opened->reader)
        say("%s", err.message);
    return opened->reader;
}

void close_events(events *opened)
{
    hs_event_reader_close(opened->reader);
    opened->reader = NULL;
}

bool next_event(events *from, const hs_event **event)
{
    hs_error err = {0};
    hs_code code = output_works() ? hs_event_reader_next(from->reader, event, &err) : HS_OUT_OF_RANGE;
    if (code && code != HS_OUT_OF_RANGE) {
        say("%s", err.message);
        from->failed = true;
    }
    from->n += code == HS_OK;
    return code == HS_OK;
}

bool has_no_event(const events *of)
{
    const bool none = !of->n && !of->damages && !of->failed && output_works();
    if (none)
        say("%s: contains no event", of->path);
    return none;
}

int events_status(const events *of)
{
    return of->failed ? TROUBLE : of->damages ? FOUND : FINE;
}

void note_start(starts *all, uint64_t before, int64_t step)
{
    while (all->n && all->rows[all->n - 1].step >= step)
        all->n--; /* the new START drops all that this one drops */
    all->rows = must_grow(all->rows, all->n, sizeof *all->rows);
    all->rows[all->n++] = (struct start){before, step};
}

bool is_obsolete(const starts *all, size_t *next, uint64_t event, int64_t step)
{
    while (*next < all->n && all->rows[*next].before <= event)
        ++*next;
    return *next < all->n && step >= all->rows[*next].step;
}

bool can_be_replaced(const char *path)
{
    struct stat found;
    if (stat(path, &found) != 0 || S_ISREG(found.st_mode))
        return true;
    say("%s: is not a regular file", path);
    return false;
}

uint64_t size_of_file(const char *path)
{
    const hs_file_system *files = &hs_env_default()->files;
    hs_file_stat found;
    return files->ops->stat(files->user, path, &found, NULL) == HS_OK ? found.bytes : 0;
}

bool is_wanted_tag(wanted_tag *wanted, hs_string tag)
{
    if (!wanted->pattern)
        return true;
    char *text = text_of(tag);
    const bool is_wanted = strcmp(text, wanted->pattern) == 0 || fnmatch(wanted->pattern, text, 0) == 0;
    wanted->found = wanted->found || is_wanted;
    if (!wanted->similar.wanted)
        wanted->similar = hs__similar_name_begin(wanted->pattern);
    if (!wanted->found && *text)
        hs__similar_name_add(&wanted->similar, text);
    if (wanted->similar.found == text) {
        free(wanted->nearest);
        wanted->nearest = text;
    } else {
        free(text);
    }
    return is_wanted;
}

void say_not_found(const wanted_tag *wanted, const char *path, const char *kind)
{
    if (wanted->nearest)
        say("%s: contains no %s '%s'; did you mean '%s'?", path, kind, wanted->pattern, wanted->nearest);
    else
        say("%s: contains no %s '%s'; list its tags: hooksess events ls", path, kind, wanted->pattern);
}
