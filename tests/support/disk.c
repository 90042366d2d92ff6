/* SPDX-License-Identifier: Apache-2.0 */
#include "support/disk.h"

/* Memory. */

void *disk_resize(void *block, size_t n, size_t size)
{
    void *made = realloc(block, n * size);
    if (!made)
        abort();
    return made;
}

/* Makes room for one more element in an array of *capacity elements. */
static void *one_more(void *items, size_t *capacity, size_t n, size_t size)
{
    if (n < *capacity)
        return items;
    *capacity = n ? 2 * n : 8;
    return disk_resize(items, *capacity, size);
}

void disk_append(disk_bytes *to, const void *data, size_t bytes)
{
    if (to->size + bytes > to->capacity) {
        to->capacity = 2 * (to->size + bytes);
        to->data = disk_resize(to->data, to->capacity, 1);
    }
    if (data && bytes)
        memcpy(to->data + to->size, data, bytes);
    else if (bytes)
        memset(to->data + to->size, 0, bytes);
    to->size += bytes;
}

static disk_bytes copy_bytes(const disk_bytes *from)
{
    disk_bytes to = {0};
    disk_append(&to, from->data, from->size);
    return to;
}

static void *copy_items(const void *items, size_t n, size_t size)
{
    void *copy = disk_resize(NULL, n ? n : 1, size);
    if (n)
        memcpy(copy, items, n * size);
    return copy;
}

disk_names disk_copy_names(const disk_names *from)
{
    return (disk_names){copy_items(from->items, from->n, sizeof *from->items), from->n, from->n};
}

/* Names. */

disk_name *disk_find_name(const disk_names *names, const char *path)
{
    for (size_t i = 0; i < names->n; i++)
        if (strcmp(names->items[i].path, path) == 0)
            return &names->items[i];
    return NULL;
}

static void set_path(char *to, const char *path)
{
    if (strlen(path) >= DISK_PATH)
        abort();
    strcpy(to, path);
}

void disk_set_name(disk_names *names, const char *path, size_t file)
{
    disk_name *found = disk_find_name(names, path);
    if (!found) {
        names->items = one_more(names->items, &names->capacity, names->n, sizeof *names->items);
        found = &names->items[names->n++];
        set_path(found->path, path);
    }
    found->file = file;
}

static void remove_name(disk_names *names, const char *path)
{
    disk_name *found = disk_find_name(names, path);
    if (found)
        *found = names->items[--names->n];
}

void disk_apply(disk_names *names, const disk_change *change)
{
    const disk_name *from = disk_find_name(names, change->path);
    if (change->kind == DISK_MAKES)
        disk_set_name(names, change->path, change->file);
    else if (change->kind == DISK_REMOVES)
        remove_name(names, change->path);
    else {
        if (from && from->file == change->file)
            remove_name(names, change->path);
        disk_set_name(names, change->to, change->file);
    }
}

void disk_change_names(disk *d, disk_change_kind kind, const char *path, const char *to, size_t file)
{
    disk_change change = {.kind = kind, .file = file};
    set_path(change.path, path);
    set_path(change.to, to);
    disk_apply(&d->cached, &change);
    d->pending = one_more(d->pending, &d->pending_capacity, d->n_pending, sizeof change);
    d->pending[d->n_pending++] = change;
}

size_t disk_directory_length(const char *path)
{
    size_t length = (size_t)(strrchr(path, '/') - path);
    return length ? length : 1;
}

bool disk_lies_in(const char *path, const char *directory)
{
    size_t length = strlen(directory);
    return strcmp(path, "/") != 0 && disk_directory_length(path) == length && strncmp(path, directory, length) == 0;
}

disk_file *disk_find(const disk *d, const char *path)
{
    const disk_name *found = disk_find_name(&d->cached, path);
    return found ? &d->content[found->file] : NULL;
}

bool disk_has_parent(const disk *d, const disk_names *names, const char *path)
{
    char parent[DISK_PATH];
    if (strcmp(path, "/") == 0)
        return true;
    set_path(parent, path);
    parent[disk_directory_length(path)] = '\0';
    const disk_name *found = disk_find_name(names, parent);
    return found && d->content[found->file].is_directory;
}

size_t disk_make_file(disk *d, const char *path, bool is_directory)
{
    d->content = one_more(d->content, &d->content_capacity, d->n_content, sizeof *d->content);
    d->content[d->n_content] = (disk_file){.is_directory = is_directory, .modified_ns = (int64_t)d->changes};
    disk_change_names(d, DISK_MAKES, path, "", d->n_content);
    return d->n_content++;
}

uint64_t disk_used(const disk *d)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < d->cached.n; i++)
        bytes += d->content[d->cached.items[i].file].cached.size;
    return bytes;
}

/* Disks. */

void disk_init(disk *d)
{
    *d = (disk){.sector = 512, .fail_code = HS_UNKNOWN};
    d->files = (hs_file_system){&disk_ops, d};
    pthread_mutex_init(&d->lock, NULL);
    disk_make_file(d, "/", true);
    disk_apply(&d->stored, d->pending);
    d->n_pending = 0;
}

static void free_file(disk_file *file)
{
    free(file->cached.data);
    free(file->stored.data);
}

void disk_free(disk *d)
{
    for (size_t i = 0; i < d->n_content; i++)
        free_file(&d->content[i]);
    free(d->content);
    free(d->cached.items);
    free(d->stored.items);
    free(d->pending);
    pthread_mutex_destroy(&d->lock);
}

void disk_copy(disk *to, const disk *from)
{
    *to = *from;
    to->files.user = to;
    to->handles = to->locks = 0;
    pthread_mutex_init(&to->lock, NULL);
    to->cached = disk_copy_names(&from->cached);
    to->stored = disk_copy_names(&from->stored);
    to->pending = copy_items(from->pending, from->n_pending, sizeof *from->pending);
    to->pending_capacity = from->n_pending;
    to->content = copy_items(from->content, from->n_content, sizeof *from->content);
    to->content_capacity = from->n_content;
    for (size_t i = 0; i < to->n_content; i++) {
        to->content[i].cached = copy_bytes(&from->content[i].cached);
        to->content[i].stored = copy_bytes(&from->content[i].stored);
    }
}
