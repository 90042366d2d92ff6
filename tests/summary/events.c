/* SPDX-License-Identifier: Apache-2.0 */
#include "summary/events.h"

#include "base/c_locale.h"

#include "formats/records.h"

#include <dirent.h>
#include <unistd.h>

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The paths of the event files, sorted. */
static size_t list_files(const char *directory, char **paths, size_t max)
{
    DIR *open = opendir(directory);
    struct dirent *entry;
    size_t n = 0;
    while (open && (entry = readdir(open)))
        if (strncmp(entry->d_name, "events.out.tfevents.", 20) == 0 && n < max)
            paths[n++] = strdup(test_path(directory, entry->d_name));
    if (open)
        closedir(open);
    if (n)
        qsort(paths, n, sizeof *paths, by_name);
    return n;
}

static bool read_file(const char *path, events_visitor visit, void *user)
{
    hs_record_reader reader;
    hs_bytes record;
    hs_code code = hs__record_reader_open(&reader, hs_env_default(), path, HS_RECORDS_PLAIN, HS__SOURCE_WINDOW, NULL);
    while (!code && !(code = hs_record_reader_next(&reader, &record, NULL))) {
        Hs__Pb__Event *event = hs__pb__event__unpack(NULL, record.size, record.data);
        if (!event)
            code = HS_DATA_LOSS;
        else
            visit(event, user);
        hs__pb__event__free_unpacked(event, NULL);
    }
    hs_record_reader_close(&reader);
    return code == HS_OUT_OF_RANGE;
}

bool events_each(const char *directory, events_visitor visit, void *user)
{
    char *paths[32];
    bool clean = true;
    size_t n = list_files(directory, paths, 32);
    for (size_t i = 0; i < n; i++) {
        clean &= read_file(paths[i], visit, user);
        free(paths[i]);
    }
    return clean;
}

void events_remove(const char *directory)
{
    char *paths[32];
    size_t n = list_files(directory, paths, 32);
    for (size_t i = 0; i < n; i++) {
        unlink(paths[i]);
        free(paths[i]);
    }
}

/* As text. */

typedef struct {
    char text[1 << 18];
    size_t used;
} words;

HS_PRINTF(2, 3) static void add(words *w, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = hs__vsnprintf(w->text + w->used, sizeof w->text - w->used, format, arguments);
    va_end(arguments);
    w->used += (size_t)length;
    assert_true(w->used < sizeof w->text);
}

static void add_summary(words *w, const Hs__Pb__Event *event)
{
    Hs__Pb__Summary *summary = hs__pb__summary__unpack(NULL, event->summary.len, event->summary.data);
    if (!summary) {
        add(w, "UNREADABLE");
        return;
    }
    for (size_t i = 0; i < summary->n_value; i++)
        add(w, "%s%s=%g", i ? "," : "", summary->value[i]->tag, (double)summary->value[i]->simple_value);
    hs__pb__summary__free_unpacked(summary, NULL);
    add(w, "@%lld", (long long)event->step);
}

static void add_event(const Hs__Pb__Event *event, void *user)
{
    static const char *const logs[] = {"unspecified", "start", "stop", "checkpoint"};
    words *w = user;
    if (w->used)
        add(w, " ");
    switch (event->what_case) {
    case HS__PB__EVENT__WHAT_FILE_VERSION:
        add(w, "version");
        break;
    case HS__PB__EVENT__WHAT_GRAPH_DEF:
        add(w, "graph");
        break;
    case HS__PB__EVENT__WHAT_META_GRAPH_DEF:
        add(w, "meta");
        break;
    case HS__PB__EVENT__WHAT_TAGGED_RUN_METADATA:
        add(w, "run[%s]@%lld", event->tagged_run_metadata->tag, (long long)event->step);
        break;
    case HS__PB__EVENT__WHAT_SUMMARY:
        add_summary(w, event);
        break;
    case HS__PB__EVENT__WHAT_SESSION_LOG:
        add(w, "%s@%lld", logs[event->session_log->status], (long long)event->step);
        break;
    default:
        add(w, "UNKNOWN");
    }
}

const char *events_text(const char *directory)
{
    static words w;
    w.used = 0;
    w.text[0] = '\0';
    if (!events_each(directory, add_event, &w))
        add(&w, " DAMAGED");
    return w.text;
}
