/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the checkpoints of a directory: collects the names of its files, makes a row for each checkpoint, adds up the sizes
 * of its files, and marks the newest. */
#include "checkpoint_list.h"
#include "checkpoint_open.h"
#include "memory.h"
#include "output.h"

#include <stdlib.h>
#include <string.h>

/* The files. */

typedef struct {
    const char *directory;
    char **names;
    size_t n;
} names;

static int add_name(void *user, const char *name)
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

/* The path of the first `length` bytes of `name` in a directory. */
static char *path_in(const char *directory, const char *name, size_t length)
{
    const char *slash = *directory && directory[strlen(directory) - 1] != '/' ? "/" : "";
    return must_format("%s%s%.*s", directory, slash, (int)length, name);
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

/* The part of a path after the last slash. */
static const char *name_in(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void add_row(checkpoint_list *list, const char *directory, const char *name)
{
    size_t length = prefix_length(name);
    list->rows = must_grow(list->rows, list->n, sizeof *list->rows);
    listed *row = &list->rows[list->n++];
    *row = (listed){.path = path_in(directory, name, length)};
    row->kind = kind_of(name_in(row->path));
    row->step = step_of(name_in(row->path));
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const listed *)a)->path, ((const listed *)b)->path);
}

/* Rows without a step are the last. */
static int by_step(const void *a, const void *b)
{
    const listed *x = a, *y = b;
    if (x->step != y->step)
        return (uint64_t)x->step < (uint64_t)y->step ? -1 : 1;
    return x->time_ns != y->time_ns ? (x->time_ns < y->time_ns ? -1 : 1) : by_path(a, b);
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

static bool mark_newest(checkpoint_list *list, const char *directory)
{
    hs_error err = {0};
    char *newest = hs_checkpoint_latest(tool_env(), directory, NULL, &err);
    for (size_t i = 0; newest && i < list->n; i++)
        list->rows[i].is_newest =
            strcmp(name_in(list->rows[i].path), name_in(newest)) == 0 && strcmp(list->rows[i].kind, "safetensors") != 0;
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
    bool done = files->ops->list(files->user, directory, add_name, &all, &err) == HS_OK;
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
    sort(list, by_step);
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
