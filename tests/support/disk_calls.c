/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of the file system. */
#include "support/disk.h"

typedef struct {
    size_t file;
    char path[DISK_PATH];
} handle;

/* Every function calls this first, with the lock held. */
static hs_code call(disk *d, const char *what, bool changes, const char *path, hs_error *err)
{
    if (!d->off && changes && ++d->changes == d->cut_at)
        d->off = true;
    if (d->off)
        return hs_error_set(err, HS_UNKNOWN, "%s: the power is off", path);
    if (d->fail_what && strcmp(d->fail_what, what) != 0)
        return HS_OK;
    size_t last = d->fail_until > d->fail_at ? d->fail_until : d->fail_at;
    if (++d->calls < d->fail_at || d->calls > last)
        return HS_OK;
    d->failed++;
    return hs_error_set(err, d->fail_code, "%s: made to fail", path);
}

static hs_code missing(const char *path, hs_error *err)
{
    return hs_error_set(err, HS_NOT_FOUND, "%s: is not on the disk", path);
}

static hs_code open_file(disk *d, const char *path, int mode, size_t *file, hs_error *err)
{
    const disk_name *found = disk_find_name(&d->cached, path);
    if (!found && (mode == HS_OPEN_READ || !disk_has_parent(d, &d->cached, path)))
        return missing(path, err);
    if (found && mode == HS_OPEN_NEW)
        return hs_error_set(err, HS_ALREADY_EXISTS, "%s: is on the disk", path);
    if (found && mode == HS_OPEN_WRITE && d->content[found->file].is_directory)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "%s: is a directory", path);
    if (found && mode == HS_OPEN_WRITE)
        disk_change_names(d, DISK_REMOVES, path, "", found->file);
    *file = found && mode != HS_OPEN_WRITE ? found->file : disk_make_file(d, path, false);
    return HS_OK;
}

static hs_code d_open(void *user, const char *path, int mode, void **file, hs_error *err)
{
    disk *d = user;
    size_t which = 0;
    pthread_mutex_lock(&d->lock);
    hs_code code = call(d, "open", mode != HS_OPEN_READ, path, err);
    if (!code && !(code = open_file(d, path, mode, &which, err))) {
        handle *made = disk_resize(NULL, 1, sizeof *made);
        made->file = which;
        snprintf(made->path, sizeof made->path, "%s", path);
        d->handles++;
        *file = made;
    }
    pthread_mutex_unlock(&d->lock);
    return code;
}

static hs_code d_read(void *user, void *file, uint64_t offset, void *data, size_t bytes, size_t *got, hs_error *err)
{
    disk *d = user;
    const handle *h = file;
    pthread_mutex_lock(&d->lock);
    hs_code code = call(d, "read", false, h->path, err);
    const disk_bytes *content = &d->content[h->file].cached;
    size_t left = offset < content->size ? content->size - (size_t)offset : 0;
    *got = code ? 0 : bytes < left ? bytes : left;
    if (*got)
        memcpy(data, content->data + offset, *got);
    pthread_mutex_unlock(&d->lock);
    return code;
}

static hs_code d_write(void *user, void *file, const void *data, size_t bytes, hs_error *err)
{
    disk *d = user;
    const handle *h = file;
    pthread_mutex_lock(&d->lock);
    hs_code code = call(d, "write", true, h->path, err);
    uint64_t taken = d->room ? disk_used(d) : 0;
    size_t fits = code ? bytes / 2 : bytes;
    if (d->room && taken + fits > d->room) {
        fits = taken < d->room ? (size_t)(d->room - taken) : 0;
        code = hs_error_set(err, HS_RESOURCE_EXHAUSTED, "%s: the disk is full", h->path);
    }
    if (!d->off) {
        disk_append(&d->content[h->file].cached, data, fits);
        d->content[h->file].modified_ns = (int64_t)d->changes;
    }
    pthread_mutex_unlock(&d->lock);
    return code;
}

static hs_code d_sync(void *user, void *file, hs_error *err)
{
    disk *d = user;
    const handle *h = file;
    pthread_mutex_lock(&d->lock);
    hs_code code = call(d, "sync", true, h->path, err);
    disk_file *f = &d->content[h->file];
    if (!d->off) {
        if (f->cached.size > f->clean)
            disk_append(&f->stored, code ? NULL : f->cached.data + f->clean, f->cached.size - f->clean);
        f->clean = f->cached.size;
    }
    pthread_mutex_unlock(&d->lock);
    return code;
}

static hs_code d_close(void *user, void *file, hs_error *err)
{
    disk *d = user;
    pthread_mutex_lock(&d->lock);
    hs_code code = call(d, "close", false, ((handle *)file)->path, err);
    d->handles--;
    pthread_mutex_unlock(&d->lock);
    free(file);
    return code;
}

static hs_code d_rename(void *user, const char *from, const char *to, hs_error *err)
{
    disk *d = user;
    pthread_mutex_lock(&d->lock);
    hs_code code = call(d, "rename", true, from, err);
    const disk_name *found = disk_find_name(&d->cached, from);
    if (!code && !found)
        code = missing(from, err);
    if (!code &&
        (disk_directory_length(from) != disk_directory_length(to) || strncmp(from, to, disk_directory_length(from)) != 0))
        code = hs_error_set(err, HS_UNIMPLEMENTED, "%s: does not go to another directory, %s", from, to);
    if (found && (!code || (d->fail_late && !d->off)))
        disk_change_names(d, DISK_RENAMES, from, to, found->file);
    pthread_mutex_unlock(&d->lock);
    return code;
}

static hs_code d_remove(void *user, const char *path, hs_error *err)
{
    disk *d = user;
    pthread_mutex_lock(&d->lock);
    hs_code code = call(d, "remove", true, path, err);
    const disk_name *found = disk_find_name(&d->cached, path);
    if (!code && !found)
        code = missing(path, err);
    if (!code)
        disk_change_names(d, DISK_REMOVES, path, "", found->file);
    pthread_mutex_unlock(&d->lock);
    return code;
}

static hs_code d_sync_directory(void *user, const char *path, hs_error *err)
{
    disk *d = user;
    pthread_mutex_lock(&d->lock);
    hs_code code = call(d, "sync_directory", true, path, err);
    if (!code && !disk_find_name(&d->cached, path))
        code = missing(path, err);
    size_t left = 0;
    for (size_t i = 0; !code && i < d->n_pending; i++) {
        if (disk_lies_in(d->pending[i].path, path))
            disk_apply(&d->stored, &d->pending[i]);
        else
            d->pending[left++] = d->pending[i];
    }
    if (!code)
        d->n_pending = left;
    pthread_mutex_unlock(&d->lock);
    return code;
}

static hs_code d_make_directory(void *user, const char *path, hs_error *err)
{
    disk *d = user;
    pthread_mutex_lock(&d->lock);
    hs_code code = call(d, "make_directory", true, path, err);
    if (!code && disk_find_name(&d->cached, path))
        code = hs_error_set(err, HS_ALREADY_EXISTS, "%s: is on the disk", path);
    if (!code && !disk_has_parent(d, &d->cached, path))
        code = missing(path, err);
    if (!code)
        disk_make_file(d, path, true);
    pthread_mutex_unlock(&d->lock);
    return code;
}

static hs_code d_stat(void *user, const char *path, hs_file_stat *out, hs_error *err)
{
    disk *d = user;
    pthread_mutex_lock(&d->lock);
    hs_code code = call(d, "stat", false, path, err);
    const disk_file *found = disk_find(d, path);
    if (!code && !found)
        code = missing(path, err);
    if (!code)
        *out = (hs_file_stat){
            .bytes = found->cached.size, .modified_ns = found->modified_ns, .is_directory = found->is_directory};
    pthread_mutex_unlock(&d->lock);
    return code;
}

/* Visits a copy of the names, because visitors may call other functions. Starts anywhere, because no order is promised. */
static hs_code d_list(void *user, const char *path, int (*visit)(void *visitor, const char *name), void *visitor,
                      hs_error *err)
{
    disk *d = user;
    pthread_mutex_lock(&d->lock);
    hs_code code = call(d, "list", false, path, err);
    if (!code && !disk_find_name(&d->cached, path))
        code = missing(path, err);
    disk_names seen = disk_copy_names(&d->cached);
    size_t first = d->calls;
    pthread_mutex_unlock(&d->lock);
    for (size_t i = 0; !code && i < seen.n; i++) {
        const char *at = seen.items[(first + i) % seen.n].path;
        if (disk_lies_in(at, path) && visit(visitor, strrchr(at, '/') + 1))
            break;
    }
    free(seen.items);
    return code;
}

/* One process: its own locks do not exclude it. */
static hs_code d_lock(void *user, const char *path, void **lock, hs_error *err)
{
    disk *d = user;
    pthread_mutex_lock(&d->lock);
    hs_code code = call(d, "lock", true, path, err);
    if (!code && !disk_find_name(&d->cached, path))
        disk_make_file(d, path, false);
    if (!code && !*lock) {
        d->locks++;
        *lock = d;
    }
    pthread_mutex_unlock(&d->lock);
    return code;
}

static void d_unlock(void *user, void *lock)
{
    (void)lock;
    disk *d = user;
    pthread_mutex_lock(&d->lock);
    d->locks--;
    pthread_mutex_unlock(&d->lock);
}

const hs_file_system_ops disk_ops =
    HS_INIT(hs_file_system_ops, .open = d_open, .read = d_read, .write = d_write, .sync = d_sync, .close = d_close,
            .rename = d_rename, .remove = d_remove, .sync_directory = d_sync_directory, .make_directory = d_make_directory,
            .stat = d_stat, .list = d_list, .lock = d_lock, .unlock = d_unlock);
