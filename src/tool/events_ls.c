/* SPDX-License-Identifier: Apache-2.0 */
/* `events ls`: counts records per file and values per tag while it reads, then prints both lists. */
#include "columns.h"
#include "command.h"
#include "events.h"
#include "json_output.h"
#include "memory.h"
#include "output.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

/* A number of events, and the range of their steps. */
typedef struct {
    uint64_t n;
    int64_t first, last;
} range;

typedef struct {
    char *path;
    range records;
    uint64_t damages;
} file_row;

typedef struct {
    char *tag, *plugin; /* "": not set */
    const char *kind;
    range values;
} tag_row;

enum { N_KINDS = HS_EVENT_META_GRAPH + 1 };

typedef struct {
    file_row *files;
    tag_row **tags;
    void *tree; /* of `tags`, by tag and kind */
    size_t n_files, n_tags;
    uint64_t kinds[N_KINDS];
} listing;

static void extend(range *r, int64_t step)
{
    r->first = r->n == 0 || step < r->first ? step : r->first;
    r->last = r->n == 0 || step > r->last ? step : r->last;
    r->n++;
}

/* The row of a file: the last row, or a new one. */
static file_row *row_of_file(listing *l, const char *path)
{
    if (l->n_files && strcmp(l->files[l->n_files - 1].path, path) == 0)
        return &l->files[l->n_files - 1];
    l->files = must_grow(l->files, l->n_files, sizeof *l->files);
    l->files[l->n_files] = (file_row){.path = text_of((hs_string){path, strlen(path)})};
    return &l->files[l->n_files++];
}

static void note_damage(void *user, const hs_event_damage *damage)
{
    row_of_file(user, damage->path)->damages++;
}

static int compare(const void *a, const void *b)
{
    const tag_row *first = a, *second = b;
    int order = strcmp(first->tag, second->tag);
    return order ? order : strcmp(first->kind, second->kind);
}

static int by_tag(const void *a, const void *b)
{
    return compare(*(tag_row *const *)a, *(tag_row *const *)b);
}

/* Takes ownership of the tag. */
static tag_row *row_of_tag(listing *l, char *tag, const char *kind)
{
    tag_row **found = tfind(&(tag_row){.tag = tag, .kind = kind}, &l->tree, compare);
    if (found) {
        free(tag);
        return *found;
    }
    tag_row *row = must_allocate(NULL, 1, sizeof *row);
    *row = (tag_row){.tag = tag, .kind = kind, .plugin = text_of((hs_string){"", 0})};
    l->tags = must_grow(l->tags, l->n_tags, sizeof *l->tags);
    l->tags[l->n_tags++] = row;
    must_add(row, &l->tree, compare);
    return row;
}

static void note_event(listing *l, const hs_event *event)
{
    extend(&row_of_file(l, event->path)->records, event->step);
    l->kinds[event->kind]++;
    if (event->kind == HS_EVENT_RUN_METADATA)
        extend(&row_of_tag(l, text_of(event->text), hs_event_kind_name(event->kind))->values, event->step);
    for (size_t i = 0; i < event->n_values; i++) {
        const hs_event_value *value = &event->values[i];
        tag_row *row = row_of_tag(l, text_of(value->tag), hs_event_value_kind_name(value->kind));
        extend(&row->values, event->step);
        if (value->plugin.bytes && !*row->plugin) {
            free(row->plugin);
            row->plugin = text_of(value->plugin);
        }
    }
}

static void put_steps(columns *table, const range *r)
{
    columns_put(table, "%llu", (unsigned long long)r->n);
    columns_put(table,
                !r->n                 ? "-"
                : r->first == r->last ? "%lld"
                                      : "%lld to %lld",
                (long long)r->first, (long long)r->last);
}

static void print_all(const listing *l)
{
    static const char *const of_files[] = {"file", ">size", ">records", "steps", "", NULL}, *const of_tags[] = {
                                                                                                "tag",     "kind",
                                                                                                ">values", "steps",
                                                                                                "plugin",  NULL};
    columns files = {.header = of_files}, tags = {.header = of_tags};
    for (size_t i = 0; i < l->n_files; i++) {
        const file_row *row = &l->files[i];
        columns_row(&files, row->damages ? STYLE_BAD : STYLE_NONE);
        columns_put(&files, "%s", row->path);
        columns_put_bytes(&files, size_of_file(row->path));
        put_steps(&files, &row->records);
        if (row->damages && !row->records.n)
            columns_put(&files, "no intact record");
        else if (row->damages)
            columns_put(&files, "%llu damaged place%s", (unsigned long long)row->damages, plural(row->damages));
    }
    columns_print(&files);
    if (l->n_tags)
        puts("");
    for (size_t i = 0; i < l->n_tags; i++) {
        const tag_row *row = l->tags[i];
        columns_row(&tags, STYLE_NONE);
        columns_put(&tags, "%s", row->tag);
        columns_put(&tags, "%s", row->kind);
        put_steps(&tags, &row->values);
        columns_put(&tags, "%s", row->plugin);
    }
    columns_print(&tags);
}

static void put_range(hs__json_writer *out, const char *what, const range *r)
{
    js_count(out, what, r->n);
    if (r->n) {
        hs__json_put_int(out, "first_step", r->first);
        hs__json_put_int(out, "last_step", r->last);
    } else {
        hs__json_put_null(out, "first_step");
        hs__json_put_null(out, "last_step");
    }
}

static void list_all(const listing *l)
{
    hs__json_writer out = js_begin(2);
    hs__json_open(&out, NULL, '{');
    hs__json_open(&out, "files", '[');
    for (size_t i = 0; i < l->n_files; i++) {
        const file_row *row = &l->files[i];
        hs__json_open(&out, NULL, '{');
        hs__json_put_text(&out, "file", row->path);
        js_count(&out, "bytes", size_of_file(row->path));
        put_range(&out, "records", &row->records);
        js_count(&out, "damaged", row->damages);
        hs__json_close(&out, '}');
    }
    hs__json_close(&out, ']');
    hs__json_open(&out, "events", '{');
    for (int kind = 0; kind < N_KINDS; kind++)
        if (l->kinds[kind])
            js_count(&out, hs_event_kind_name((hs_event_kind)kind), l->kinds[kind]);
    hs__json_close(&out, '}');
    hs__json_open(&out, "tags", '[');
    for (size_t i = 0; i < l->n_tags; i++) {
        const tag_row *row = l->tags[i];
        hs__json_open(&out, NULL, '{');
        hs__json_put_text(&out, "tag", row->tag);
        hs__json_put_text(&out, "kind", row->kind);
        js_text(&out, "plugin", *row->plugin ? row->plugin : NULL);
        put_range(&out, "count", &row->values);
        hs__json_close(&out, '}');
    }
    hs__json_close(&out, ']');
    hs__json_close(&out, '}');
    js_end();
}

static void free_listing(listing *l)
{
    for (size_t i = 0; i < l->n_files; i++)
        free(l->files[i].path);
    for (size_t i = 0; i < l->n_tags; i++) {
        tdelete(l->tags[i], &l->tree, compare);
        free(l->tags[i]->tag);
        free(l->tags[i]->plugin);
        free(l->tags[i]);
    }
    free(l->files);
    free(l->tags);
}

int events_ls(const struct call *call)
{
    listing l = {.files = NULL};
    events of = {.damaged = note_damage, .user = &l};
    const hs_event *event;
    if (!open_events(&of, call->operands[0]))
        return TROUBLE;
    while (next_event(&of, &event))
        note_event(&l, event);
    if (l.n_tags)
        qsort(l.tags, l.n_tags, sizeof *l.tags, by_tag);
    const bool is_empty = has_no_event(&of);
    if (l.n_files)
        (call->given[OPTION_JSON] ? list_all : print_all)(&l);
    free_listing(&l);
    close_events(&of);
    return is_empty ? TROUBLE : events_status(&of);
}
