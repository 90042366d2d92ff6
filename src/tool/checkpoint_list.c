/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint_list.h"
#include "checkpoint_open.h"
#include "command.h"
#include "events.h"
#include "json_output.h"
#include "output.h"
#include "times.h"

#include <stdlib.h>
#include <string.h>

/* The files. */

typedef struct {
    const char *directory;
    char **names;
    size_t n;
} names;

static int note_name(void *user, const char *name)
{
    names *all = user;
    all->names = must_grow(all->names, all->n, sizeof *all->names);
    all->names[all->n++] = text_of((hs_string){name, strlen(name)});
    return 0;
}

/* The length of the prefix in the name of a checkpoint's file, PREFIX.index, PREFIX.meta or PREFIX.data-M-of-N, or of a
 * safetensors file. 0: another file. */
static size_t prefix_length(const char *name)
{
    size_t length = strlen(name);
    if (ends_in(name, ".index"))
        return length - strlen(".index");
    if (ends_in(name, ".meta"))
        return length - strlen(".meta");
    if (ends_in(name, ".safetensors"))
        return length;
    const char *at = NULL;
    for (const char *found = name; (found = strstr(found, ".data-")); found++)
        at = found;
    return at && strstr(at, "-of-") && !ends_in(name, ".tmp") ? (size_t)(at - name) : 0;
}

static char *path_in(const char *directory, const char *name, size_t length)
{
    size_t of_directory = strlen(directory);
    bool slash = of_directory && directory[of_directory - 1] != '/';
    char *path = must_allocate(NULL, of_directory + length + 2, 1);
    snprintf(path, of_directory + length + 2, "%s%s%.*s", directory, slash ? "/" : "", (int)length, name);
    return path;
}

/* The rows. */

static const char *kind_of(const char *name)
{
    return ends_in(name, ".safetensors") ? "safetensors" : strstr(name, ".abandoned") ? "abandoned" : "checkpoint";
}

/* N of NAME-N, also before ".abandoned". */
static int64_t step_of(const char *name)
{
    const char *dash = strrchr(name, '-');
    char *end = NULL;
    long long step = dash && dash[1] >= '0' && dash[1] <= '9' ? strtoll(dash + 1, &end, 10) : -1;
    return end && (!*end || *end == '.') ? (int64_t)step : -1;
}

static void add_row(checkpoint_list *list, const char *directory, const char *name)
{
    size_t length = prefix_length(name);
    const char *base;
    list->rows = must_grow(list->rows, list->n, sizeof *list->rows);
    listed *row = &list->rows[list->n++];
    *row = (listed){.path = path_in(directory, name, length)};
    base = strrchr(row->path, '/');
    base = base ? base + 1 : row->path;
    row->kind = kind_of(base);
    row->step = step_of(base);
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const listed *)a)->path, ((const listed *)b)->path);
}

static int by_time(const void *a, const void *b)
{
    const listed *x = a, *y = b;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    return x->step != y->step ? (x->step < y->step ? -1 : 1) : by_path(a, b);
}

static void sort(checkpoint_list *list, int (*compare)(const void *a, const void *b))
{
    if (list->n)
        qsort(list->rows, list->n, sizeof *list->rows, compare);
}

/* Adds the size of a file to its checkpoint. Files that were deleted since the listing do not count. */
static void add_file(checkpoint_list *list, const char *directory, const char *name)
{
    const hs_file_system *files = &hs_env_default()->files;
    hs_file_stat found;
    listed key = {.path = path_in(directory, name, prefix_length(name))};
    listed *row = list->n ? bsearch(&key, list->rows, list->n, sizeof key, by_path) : NULL;
    char *path = path_in(directory, name, strlen(name));
    if (row && files->ops->stat(files->user, path, &found, NULL) == HS_OK && !found.is_directory) {
        row->bytes += found.bytes;
        if (ends_in(name, ".index") || ends_in(name, ".safetensors"))
            row->time_ns = found.modified_ns;
    }
    free(path);
    free(key.path);
}

static bool is_same_file(const char *path, const char *other)
{
    const char *a = strrchr(path, '/'), *b = strrchr(other, '/');
    return strcmp(a ? a + 1 : path, b ? b + 1 : other) == 0;
}

static bool mark_newest(checkpoint_list *list, const char *directory)
{
    hs_error err = {0};
    char *newest = hs_checkpoint_latest(tool_env(), directory, NULL, &err);
    for (size_t i = 0; newest && i < list->n; i++)
        list->rows[i].is_newest =
            is_same_file(list->rows[i].path, newest) && strcmp(list->rows[i].kind, "safetensors") != 0;
    hs_env_free(tool_env(), newest);
    if (err.code)
        say("%s", err.message);
    return !err.code;
}

bool list_checkpoints(checkpoint_list *list, const char *directory)
{
    const hs_file_system *files = &hs_env_default()->files;
    names all = {.directory = directory};
    hs_error err = {0};
    *list = (checkpoint_list){NULL, 0};
    bool done = files->ops->list(files->user, directory, note_name, &all, &err) == HS_OK;
    if (!done)
        say("%s", err.message);
    for (size_t i = 0; i < all.n; i++)
        if (prefix_length(all.names[i]) && (ends_in(all.names[i], ".index") || ends_in(all.names[i], ".safetensors")))
            add_row(list, directory, all.names[i]);
    sort(list, by_path);
    for (size_t i = 0; i < all.n; i++) {
        if (prefix_length(all.names[i]))
            add_file(list, directory, all.names[i]);
        free(all.names[i]);
    }
    free(all.names);
    sort(list, by_time);
    return done && mark_newest(list, directory);
}

void free_checkpoints(checkpoint_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        free(list->rows[i].path);
    free(list->rows);
    *list = (checkpoint_list){NULL, 0};
}

const listed *newest_checkpoint(const checkpoint_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        if (list->rows[i].is_newest)
            return &list->rows[i];
    return NULL;
}

/* Output. */

static void print_row(const listed *row, int width, int digits, int step_digits)
{
    char time[TIME_TEXT], step[32] = "-";
    if (row->step >= 0)
        snprintf(step, sizeof step, "%lld", (long long)row->step);
    if (row->is_newest)
        put_style(STYLE_GOOD);
    put_padded(row->path, width);
    printf("  %*s  %*llu  %s", step_digits, step, digits, (unsigned long long)row->bytes, time_text(time, row->time_ns));
    if (row->is_newest)
        fputs("  newest", stdout);
    else if (strcmp(row->kind, "checkpoint") != 0)
        printf("  %s", row->kind);
    put_style(STYLE_NONE);
    puts("");
}

static void print_rows(const checkpoint_list *list)
{
    int width = 0, digits = 1, step_digits = 1;
    for (size_t i = 0; i < list->n; i++) {
        int of_name = name_width(list->rows[i].path);
        int of_bytes = snprintf(NULL, 0, "%llu", (unsigned long long)list->rows[i].bytes);
        int of_step = snprintf(NULL, 0, "%lld", (long long)list->rows[i].step);
        width = of_name > width ? of_name : width;
        digits = of_bytes > digits ? of_bytes : digits;
        step_digits = list->rows[i].step >= 0 && of_step > step_digits ? of_step : step_digits;
    }
    for (size_t i = 0; i < list->n && output_works(); i++)
        print_row(&list->rows[i], width, digits, step_digits);
}

static void write_rows(const checkpoint_list *list)
{
    char time[TIME_TEXT];
    hs__json_writer out = js_begin(1);
    hs__json_open(&out, NULL, '[');
    for (size_t i = 0; i < list->n && output_works(); i++) {
        const listed *row = &list->rows[i];
        hs__json_open(&out, NULL, '{');
        hs__json_put_text(&out, "path", row->path);
        hs__json_put_text(&out, "kind", row->kind);
        if (row->step >= 0)
            hs__json_put_int(&out, "step", row->step);
        else
            hs__json_put_null(&out, "step");
        js_count(&out, "bytes", row->bytes);
        hs__json_put_text(&out, "time", time_text(time, row->time_ns));
        hs__json_put_bool(&out, "newest", row->is_newest);
        hs__json_close(&out, '}');
    }
    hs__json_close(&out, ']');
    js_end();
}

int checkpoint_ls_directory(const char *directory, bool as_json)
{
    checkpoint_list list;
    bool complete = list_checkpoints(&list, directory);
    if (complete && !list.n)
        say("%s: contains no checkpoint", directory);
    else if (list.n)
        (as_json ? write_rows : print_rows)(&list);
    int status = complete && list.n ? FINE : TROUBLE;
    free_checkpoints(&list);
    return status;
}
