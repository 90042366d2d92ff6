/* SPDX-License-Identifier: Apache-2.0 */
/* The contents of a disk after a power loss. */
#include "support/disk.h"

uint64_t disk_random(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

static size_t below(uint64_t *state, size_t n)
{
    return (size_t)(disk_random(state) % n);
}

/* Contents: a part of the cached bytes from `clean` on was stored. */

static void lose_sectors(disk_file *f, size_t sector, uint64_t *state)
{
    for (size_t at = f->clean, end; at < f->cached.size; at = end) {
        end = (at / sector + 1) * sector;
        if (end > f->cached.size)
            end = f->cached.size;
        if (below(state, 2))
            memset(f->cached.data + at, 0, end - at);
    }
}

static void tear(disk_file *f, size_t sector, uint64_t *state)
{
    size_t end = f->clean + below(state, f->cached.size - f->clean + 1);
    end -= end % sector;
    if (end > f->clean)
        f->cached.size = end;
    else
        f->cached.size = f->clean;
}

static void take_stored(disk_file *f)
{
    f->cached.size = 0;
    f->clean = 0;
    disk_bytes spare = f->cached;
    f->cached = f->stored;
    f->stored = spare;
}

/* After a failed sync the first `clean` bytes may differ. The stored bytes count. */
static void uncover_stored(disk_file *f)
{
    if (f->clean)
        memcpy(f->cached.data, f->stored.data, f->clean);
}

static void lose_content(disk_file *f, int how, size_t sector, uint64_t *state)
{
    uncover_stored(f);
    size_t unsynced = f->cached.size - f->clean;
    if (how == DISK_LOSES_CONTENTS)
        take_stored(f);
    else if (how == DISK_TEARS)
        tear(f, 1, state);
    else if (how == DISK_TEARS_SECTORS)
        tear(f, sector, state);
    else if (how == DISK_MIXES_SECTORS)
        lose_sectors(f, sector, state);
    else if (how == DISK_ZEROES && unsynced)
        memset(f->cached.data + f->clean, 0, unsynced);
}

static void store_content(disk_file *f)
{
    free(f->stored.data);
    f->stored = f->cached;
    f->stored.data = malloc(f->cached.size + 1);
    f->stored.capacity = f->cached.size + 1;
    if (!f->stored.data)
        abort();
    if (f->cached.size)
        memcpy(f->stored.data, f->cached.data, f->cached.size);
    f->clean = f->cached.size;
}

/* Names: a part of the changes since the last sync was stored. */

static void keep_changes(disk *d, int how, uint64_t *state)
{
    size_t n = d->n_pending, one = n ? below(state, n) : 0;
    for (size_t i = 0; i < n; i++) {
        bool kept = how == DISK_KEEPS_NAMES || (how == DISK_KEEPS_FIRST_NAMES && i < one) ||
                    (how == DISK_KEEPS_SOME_NAMES && below(state, 2)) || (how == DISK_LOSES_ONE_NAME && i != one);
        if (kept)
            disk_apply(&d->stored, &d->pending[i]);
    }
    d->n_pending = 0;
}

/* Files without a name. */
static void forget_nameless(disk *d)
{
    for (size_t i = 0; i < d->n_content; i++) {
        bool named = false;
        for (size_t k = 0; !named && k < d->stored.n; k++)
            named = d->stored.items[k].file == i;
        if (named)
            continue;
        free(d->content[i].cached.data);
        free(d->content[i].stored.data);
        d->content[i] = (disk_file){.clean = 0};
    }
}

/* Files in a directory whose own name is lost cannot be reached. */
static void drop_unreachable(disk *d)
{
    for (size_t i = 0; i < d->stored.n;) {
        if (disk_has_parent(d, &d->stored, d->stored.items[i].path)) {
            i++;
            continue;
        }
        d->stored.items[i] = d->stored.items[--d->stored.n];
        i = 0;
    }
}

static void restart(disk *d)
{
    d->off = false;
    d->cut_at = d->fail_at = d->fail_until = 0;
    d->fail_what = NULL;
    d->room = 0;
    assert_int_equal(d->handles, 0);
    assert_int_equal(d->locks, 0);
}

void disk_lose_power(disk *d, disk_loss loss)
{
    uint64_t state = loss.seed;
    restart(d);
    for (size_t i = 0; i < d->n_content; i++) {
        lose_content(&d->content[i], loss.contents, d->sector, &state);
        store_content(&d->content[i]);
    }
    keep_changes(d, loss.names, &state);
    drop_unreachable(d);
    forget_nameless(d);
    d->cached.n = 0;
    for (size_t i = 0; i < d->stored.n; i++)
        disk_set_name(&d->cached, d->stored.items[i].path, d->stored.items[i].file);
}

void disk_lose_process(disk *d)
{
    restart(d);
}

/* Looking. */

bool disk_exists(const disk *d, const char *path)
{
    return disk_find(d, path) != NULL;
}

size_t disk_count_files(const disk *d, const char *directory, const char *part)
{
    size_t n = 0;
    for (size_t i = 0; i < d->cached.n; i++) {
        const char *path = d->cached.items[i].path;
        n += disk_lies_in(path, directory) && strstr(strrchr(path, '/'), part);
    }
    return n;
}
