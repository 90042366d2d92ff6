/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_ARCHIVE_H
#define HS_CHECKPOINT_ARCHIVE_H

#include "checkpoint/snapshot.h"
#include "formats/bundle.h"
#include "formats/safetensors.h"

/* Tensors to restore: a checkpoint's bundle, a safetensors file, or a complete snapshot in memory. Tensors are addressed by
 * index. */

typedef enum { HS__BUNDLE, HS__SAFETENSORS, HS__SNAPSHOT } hs__archive_kind;

typedef struct hs__archive {
    hs__archive_kind kind;
    const char *path; /* its name in messages */
    size_t n;
    hs__bundle_reader bundle;    /* one of these three, by kind. States are restored from bundles and snapshots */
    hs__safetensors_reader file; /* opening it has checked it */
    const hs__snapshot *snapshot;
} hs__archive;

/* HS__BUNDLE or HS__SAFETENSORS. Close it. Do not move it while it is open. */
hs_code hs__archive_open(hs__archive *archive, hs__archive_kind kind, const hs_env *env, const char *path, hs_error *err);
void hs__archive_close(hs__archive *archive);
/* Borrows the snapshot and the name. It need not be closed. */
hs__archive hs__snapshot_archive(const hs__snapshot *snapshot, const char *name);
/* The same bundle for another thread. Close it before the first one. */
void hs__archive_fork(const hs__archive *archive, hs__archive *fork);
void hs__archive_fork_close(hs__archive *fork);

typedef struct hs__stored {
    const char *name;
    int32_t dtype;          /* may be unknown to this library */
    const char *dtype_name; /* hs_dtype_name, or if it is unknown, its number or name in the file */
    hs_shape shape;
    size_t bytes;            /* in memory */
    const void *data;        /* of a snapshot: the value, which need not be read. Otherwise NULL */
    const hs_memory *memory; /* of `data`. NULL: the host's */
    uint32_t crc;            /* of the data in a bundle; otherwise 0 */
    bool in_slices;          /* it is read by one thread */
} hs__stored;

hs__stored hs__archive_tensor(const hs__archive *archive, size_t index);
/* Its name, which is faster than all of it. */
const char *hs__archive_name(const hs__archive *archive, size_t index);
/* Returns HS__NONE if the archive has no tensor of that name. */
size_t hs__archive_find(const hs__archive *archive, const char *name);
/* UNIMPLEMENTED: dtype or shape are not supported, so that no part of the tensor can be read. */
hs_code hs__archive_check(const hs__archive *archive, size_t index, hs_error *err);
/* Checks that the tensor can be read and that the file has its bytes. Call it before memory for them is allocated.
 *
 * box    NULL, or the part of the tensor to read, by one thread at a time. A part of a tensor of strings must be a saved
 *        slice: otherwise UNIMPLEMENTED
 * bytes  the size that hs__archive_read writes. May be NULL */
hs_code hs__archive_locate(hs__archive *archive, size_t index, const hs__box *box, size_t *bytes, hs_error *err);
/* Reads the tensor or the part, and verifies its checksum if the format has one. Of a safetensors file, tensors of unknown
 * dtype or rank are read as their bytes. Strings of a snapshot point into it. */
hs_code hs__archive_read(hs__archive *archive, size_t index, const hs__box *box, void *to, hs_error *err);
/* Reads a tensor of numbers in a bundle, and calls `put` with its pieces. The checksum is verified after the last one. */
hs_code hs__archive_stream(hs__archive *archive, size_t index, hs__put_fn put, void *user, hs_error *err);
/* Reads the tensor only to verify its checksum, if the format has one. */
hs_code hs__archive_verify(hs__archive *archive, size_t index, hs_error *err);
/* Verifies all tensors but those of a type or rank that this library does not know. */
hs_code hs__archive_verify_all(hs__archive *archive, hs_error *err);

#endif
