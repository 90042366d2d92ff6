/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_ARCHIVE_H
#define HS_CHECKPOINT_ARCHIVE_H

#include "checkpoint/snapshot.h"
#include "formats/bundle.h"
#include "formats/safetensors.h"

/* Tensors to restore: an open bundle, an open safetensors file, or a complete snapshot in memory. Tensors are addressed by
 * index. */

typedef struct hs__stored {
    const char *name;
    int32_t dtype;          /* may be unknown to this library */
    const char *dtype_name; /* hs_dtype_name, or if it is unknown, its number or name in the file */
    hs_shape shape;
    size_t bytes;     /* in memory */
    const void *data; /* of a snapshot: the value, which need not be read. Otherwise NULL */
    uint32_t crc;     /* of the data in a bundle; otherwise 0 */
    bool in_slices;   /* it is read by one thread */
} hs__stored;

typedef struct hs__archive_ops {
    const char *(*name)(const void *reader, size_t index);
    hs__stored (*tensor)(const void *reader, size_t index);
    size_t (*find)(const void *reader, const char *name);
    hs_code (*locate)(void *reader, size_t index, const hs__box *box, size_t *bytes, hs_error *err);
    hs_code (*read)(void *reader, size_t index, const hs__box *box, void *to, hs_error *err);
    hs_code (*verify)(void *reader, size_t index, hs_error *err);
    hs_code (*read_next)(void *reader, size_t index, hs__bundle_cursor *cursor, void *to, size_t bytes, hs_error *err);
    bool has_states; /* states are restored from it, too */
    bool in_memory;  /* all values are in memory, without parts. The other functions do not exist */
    bool forks;      /* several threads can read it at once */
} hs__archive_ops;

typedef struct hs__archive {
    const hs__archive_ops *ops;
    void *reader;
    const char *path; /* its name in messages */
    size_t n;
} hs__archive;

/* The archive borrows the reader or the snapshot, and the name. */
hs__archive hs__bundle_archive(hs__bundle_reader *reader);
hs__archive hs__safetensors_archive(hs__safetensors_reader *reader);
hs__archive hs__snapshot_archive(const hs__snapshot *snapshot, const char *name);

/* The name of a tensor, which is faster than all of it. */
static inline const char *hs__archive_name(const hs__archive *archive, size_t index)
{
    return archive->ops->name(archive->reader, index);
}
static inline hs__stored hs__archive_tensor(const hs__archive *archive, size_t index)
{
    return archive->ops->tensor(archive->reader, index);
}
/* Returns HS__NONE if the archive has no tensor of that name. */
static inline size_t hs__archive_find(const hs__archive *archive, const char *name)
{
    return archive->ops->find(archive->reader, name);
}
/* Checks that the tensor can be read and that the file has its bytes. Call it before memory for them is allocated.
 *
 * box    NULL, or the part of the tensor to read, by one thread at a time. A part of a tensor of strings must be a saved
 *        slice: otherwise UNIMPLEMENTED
 * bytes  the size that hs__archive_read writes. May be NULL */
static inline hs_code hs__archive_locate(const hs__archive *archive, size_t index, const hs__box *box, size_t *bytes,
                                         hs_error *err)
{
    return archive->ops->locate(archive->reader, index, box, bytes, err);
}
/* Reads the tensor or the part, and verifies its checksum if the format has one. Of a safetensors file, tensors of unknown
 * dtype or rank are read as their bytes. Strings of a snapshot point into it. */
static inline hs_code hs__archive_read(const hs__archive *archive, size_t index, const hs__box *box, void *to,
                                       hs_error *err)
{
    return archive->ops->read(archive->reader, index, box, to, err);
}
/* Reads the tensor only to verify its checksum, if the format has one. */
static inline hs_code hs__archive_verify(const hs__archive *archive, size_t index, hs_error *err)
{
    return archive->ops->verify(archive->reader, index, err);
}

/* Verifies all tensors but those of a type or rank that this library does not know. */
hs_code hs__archive_verify_all(const hs__archive *archive, hs_error *err);

/* Reads the next bytes of a state that is not in slices. Initialize the cursor with zeros. A wrong checksum is DATA_LOSS at
 * the last byte. */
static inline hs_code hs__archive_read_next(const hs__archive *archive, size_t index, hs__bundle_cursor *cursor, void *to,
                                            size_t bytes, hs_error *err)
{
    return archive->ops->read_next(archive->reader, index, cursor, to, bytes, err);
}

/* The same archive for another thread, if ops->forks. End it before the archive is closed. */
typedef struct hs__archive_fork {
    hs__archive archive;
    hs__bundle_reader reader;
} hs__archive_fork;
void hs__archive_fork_begin(const hs__archive *archive, hs__archive_fork *fork);
void hs__archive_fork_end(hs__archive_fork *fork);

#endif
