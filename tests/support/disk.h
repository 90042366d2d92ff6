/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_SUPPORT_DISK_H
#define HS_TESTS_SUPPORT_DISK_H

#include "support/test.h"

#include <pthread.h>

/* A file system in memory, on a disk with a cache that forgets.
 *
 * What is written or renamed is seen by everybody at once, and is on the disk only when it was synced: contents by sync,
 * names by sync_directory. When the power goes, what was not synced is there, or not, or in part, in any order: a
 * disk_loss says how. Only this much is sure: what was synced is there, and a rename is done or not done, never half.
 *
 * A call can be made to fail. One that fails has had no effect, but:
 *   write   half of it was written;
 *   sync    the cache takes what was not written for written, as Linux does: it can be read until the power goes, then it
 *           is zeros, whatever syncs succeed afterwards;
 *   close   the handle is gone.
 * A sync_directory that failed can be tried again. */

enum { DISK_PATH = 256 };

typedef struct disk_bytes {
    unsigned char *data;
    size_t size, capacity;
} disk_bytes;

typedef struct disk_file {
    disk_bytes cached; /* what is read */
    disk_bytes stored; /* what was synced */
    size_t clean;      /* so many of the first cached bytes are taken for stored */
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

/* A name that was changed and not synced. */
typedef struct disk_change {
    disk_change_kind kind;
    char path[DISK_PATH], to[DISK_PATH];
    size_t file;
} disk_change;

typedef struct disk {
    hs_file_system files; /* for an hs_env */
    size_t sector;        /* bytes that are written or not written together; 512 */

    size_t calls;          /* that were made and can fail, */
    const char *fail_what; /* of this function, "sync_directory"; NULL: of any */
    size_t fail_at;        /* this one fails, counted from 1; 0: none */
    size_t fail_until;     /* and those after it up to this one */
    hs_code fail_code;
    bool fail_late; /* renames that fail are done all the same, as over a network */
    size_t failed;  /* how many did */
    uint64_t room;  /* writes that would make the files larger than this, all together, fail half-way; 0: no limit */

    size_t changes; /* calls that change something */
    size_t cut_at;  /* before this one, counted from 1, the power goes; 0: never */
    bool off;       /* it has gone: nothing works any more */

    pthread_mutex_t lock;
    int handles, locks; /* that are open */
    disk_names cached, stored;
    disk_file *content;
    size_t n_content, content_capacity;
    disk_change *pending;
    size_t n_pending, pending_capacity;
} disk;

/* An empty disk: there is "/". Memory is malloc's, not an environment's. */
void disk_init(disk *d);
void disk_free(disk *d);
/* Another disk with the same on it, in the cache and below it. */
void disk_copy(disk *to, const disk *from);

/* What becomes of contents that were not synced, of each file for itself. */
enum {
    DISK_LOSES_CONTENTS, /* they are as they were when they were last synced */
    DISK_KEEPS_CONTENTS, /* they are there */
    DISK_TEARS,          /* there is a beginning of them, up to any byte */
    DISK_TEARS_SECTORS,  /* up to any sector */
    DISK_MIXES_SECTORS,  /* some sectors are there, the others are zeros */
    DISK_ZEROES,         /* only the file's new size is there; all that was not synced is zeros */
    DISK_CONTENTS_LOSSES
};
/* And of names. */
enum {
    DISK_LOSES_NAMES,
    DISK_KEEPS_NAMES,
    DISK_KEEPS_FIRST_NAMES, /* the changes up to any */
    DISK_KEEPS_SOME_NAMES,  /* any of the changes */
    DISK_LOSES_ONE_NAME,    /* all but one of them */
    DISK_NAMES_LOSSES
};

typedef struct disk_loss {
    int contents, names;
    uint64_t seed;
} disk_loss;

/* The power goes now, and comes back: what is left is on the disk and in the cache. Files that are open must be closed
 * before. Nothing fails any more. */
void disk_lose_power(disk *d, disk_loss loss);
/* Only the process died: the cache is what it was. */
void disk_lose_process(disk *d);

/* A few bytes of noise that depend on nothing but the state. */
uint64_t disk_random(uint64_t *state);

/* The bytes of all files. */
uint64_t disk_used(const disk *d);
/* As test_count_files, test_exists. */
size_t disk_count_files(const disk *d, const char *directory, const char *part);
bool disk_exists(const disk *d, const char *path);
/* The file that is read under this path; NULL: there is none. */
disk_file *disk_find(const disk *d, const char *path);

/* Between disk.c, disk_calls.c and disk_loss.c. */
extern const hs_file_system_ops disk_ops;
void *disk_resize(void *block, size_t n, size_t size);
/* Zeros where `data` is NULL. */
void disk_append(disk_bytes *to, const void *data, size_t bytes);
disk_names disk_copy_names(const disk_names *from);
disk_name *disk_find_name(const disk_names *names, const char *path);
/* How much of a path is its directory. */
size_t disk_directory_length(const char *path);
void disk_set_name(disk_names *names, const char *path, size_t file);
bool disk_has_parent(const disk *d, const disk_names *names, const char *path);
bool disk_lies_in(const char *path, const char *directory);
void disk_apply(disk_names *names, const disk_change *change);
/* Changes the cached names, and notes that this is not stored yet. */
void disk_change_names(disk *d, disk_change_kind kind, const char *path, const char *to, size_t file);
size_t disk_make_file(disk *d, const char *path, bool is_directory);

#endif
