/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_SUPPORT_DISK_H
#define HS_TESTS_SUPPORT_DISK_H

#include "support/test.h"

#include <pthread.h>

/* A file system in memory, on a disk with a cache that is lost with the power.
 *
 * All readers see a write or a rename immediately. It is on the disk only after a sync: contents after sync, names after
 * sync_directory. A power loss keeps none, some or all of the changes that were not synced, in any order, as a disk_loss
 * says. Synced changes are kept, and a rename is made completely or not at all.
 *
 * Calls can be made to fail. A failed call has no effect, except:
 *
 *   write   half of the bytes were written
 *   sync    the cache counts the unwritten bytes as written, as in Linux. They can be read until the power is lost, and are
 *           zeros afterwards, even if later syncs succeed
 *   close   the handle is closed
 *
 * A failed sync_directory can be retried. */

enum { DISK_PATH = 256 };

typedef struct disk_bytes {
    unsigned char *data;
    size_t size, capacity;
} disk_bytes;

typedef struct disk_file {
    disk_bytes cached; /* the contents that are read */
    disk_bytes stored; /* the synced contents */
    size_t clean;      /* the number of cached bytes at the beginning that count as stored */
    bool is_directory;
    int64_t modified_ns;
} disk_file;

typedef struct disk_name {
    char path[DISK_PATH];
    size_t file;
} disk_name;

typedef struct disk_names {
    disk_name *items;
    size_t n, capacity;
} disk_names;

typedef enum disk_change_kind { DISK_MAKES, DISK_REMOVES, DISK_RENAMES } disk_change_kind;

/* A changed name that is not synced. */
typedef struct disk_change {
    disk_change_kind kind;
    char path[DISK_PATH], to[DISK_PATH];
    size_t file;
} disk_change;

typedef struct disk {
    hs_file_system files; /* for an hs_env */
    size_t sector;        /* bytes that are stored together. 512 */

    size_t calls;          /* number of calls that could fail, in the functions of `fail_what` */
    const char *fail_what; /* function whose calls can fail, for example "sync_directory". NULL: any function */
    size_t fail_at;        /* number of the first call that fails, from 1 on; 0: none */
    size_t fail_until;     /* number of the last call that fails */
    hs_code fail_code;
    bool fail_late; /* failing renames still take effect, as over a network */
    size_t failed;  /* the number of failed calls */
    uint64_t room;  /* a write that would make all files together larger than this fails half-way. 0: no limit */

    size_t changes; /* calls that change something */
    size_t cut_at;  /* the power is lost before this one, counted from 1. 0: never */
    bool off;       /* the power is lost: all calls fail */

    pthread_mutex_t lock;
    int handles, locks; /* that are open */
    disk_names cached, stored;
    disk_file *content;
    size_t n_content, content_capacity;
    disk_change *pending;
    size_t n_pending, pending_capacity;
} disk;

/* Makes an empty disk with the directory "/". Uses malloc, not an environment. */
void disk_init(disk *d);
void disk_free(disk *d);
/* Makes a disk with the same cached and stored contents. */
void disk_copy(disk *to, const disk *from);

/* The fate of contents that were not synced, for each file. */
enum {
    DISK_LOSES_CONTENTS, /* the contents at the last sync */
    DISK_KEEPS_CONTENTS, /* all contents */
    DISK_TEARS,          /* a random number of their first bytes */
    DISK_TEARS_SECTORS,  /* a random number of their first sectors */
    DISK_MIXES_SECTORS,  /* random sectors; the others are zeros */
    DISK_ZEROES,         /* only the new size of the file; zeros for all that was not synced */
    DISK_CONTENTS_LOSSES
};
/* Losses of names. */
enum {
    DISK_LOSES_NAMES,
    DISK_KEEPS_NAMES,
    DISK_KEEPS_FIRST_NAMES, /* a random number of the first changes */
    DISK_KEEPS_SOME_NAMES,  /* random changes */
    DISK_LOSES_ONE_NAME,    /* all changes but one */
    DISK_NAMES_LOSSES
};

typedef struct disk_loss {
    int contents, names;
    uint64_t seed;
} disk_loss;

/* Loses the power now, and restores it. The disk and the cache have what remained. Open files must be closed before.
 * Calls work again. */
void disk_lose_power(disk *d, disk_loss loss);
/* Ends only the process. The cache is unchanged. */
void disk_lose_process(disk *d);

/* Returns a pseudorandom number, which depends only on the state. */
uint64_t disk_random(uint64_t *state);

/* Returns the size of all files together. */
uint64_t disk_used(const disk *d);
/* Same as test_count_files and test_exists, on this disk. */
size_t disk_count_files(const disk *d, const char *directory, const char *part);
bool disk_exists(const disk *d, const char *path);
/* Returns the file that this path opens. NULL: none. */
disk_file *disk_find(const disk *d, const char *path);

/* Shared by disk.c, disk_calls.c and disk_loss.c. */
extern const hs_file_system_ops disk_ops;
void *disk_resize(void *block, size_t n, size_t size);
/* Appends zeros if `data` is NULL. */
void disk_append(disk_bytes *to, const void *data, size_t bytes);
disk_names disk_copy_names(const disk_names *from);
disk_name *disk_find_name(const disk_names *names, const char *path);
/* Returns the length of the directory in a path. */
size_t disk_directory_length(const char *path);
void disk_set_name(disk_names *names, const char *path, size_t file);
bool disk_has_parent(const disk *d, const disk_names *names, const char *path);
bool disk_lies_in(const char *path, const char *directory);
void disk_apply(disk_names *names, const disk_change *change);
/* Changes the cached names and records the change as not stored. */
void disk_change_names(disk *d, disk_change_kind kind, const char *path, const char *to, size_t file);
size_t disk_make_file(disk *d, const char *path, bool is_directory);

#endif
