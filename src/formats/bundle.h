/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_FORMATS_BUNDLE_H
#define HS_FORMATS_BUNDLE_H

#include "base/device.h"
#include "base/files.h"
#include "base/map.h"
#include "base/stream.h"
#include "base/tensor.h"
#include "formats/box.h"
#include "formats/read_progress.h"

/* TensorFlow's V2 tensor bundle: PREFIX.index, a table of entries, and data files PREFIX.data-SHARD-of-SHARDS.
 *
 * Data files have numbers as in memory, in the byte order that the index's header names. The entry's checksum is the masked
 * CRC-32C of those bytes. For strings see bundle_data.h.
 *
 * A tensor may be stored in slices, as a partitioned variable is: its entry has dtype, shape and a list of slices, but no
 * data. Each slice is an entry with a key that no tensor's name can be (slice_key.h). */

typedef struct hs__bundle_entry {
    const char *name;
    int32_t dtype;          /* as stored; may not be an hs_dtype */
    const char *dtype_name; /* its number, if it is not an hs_dtype, in the entry of a tensor */
    int32_t shard;
    hs_shape shape; /* rank -1: not supported */
    uint64_t offset;
    uint64_t bytes; /* in the file; in memory, if it is stored in slices */
    uint32_t crc;   /* masked */
    bool verified;  /* the data was read once, with the right checksum */
    size_t slices;  /* number of listed slices; 0: stored as a whole */
    size_t lost;    /* 1 + index in the reader's `lost` of its first missing slice; 0: no slice is missing */
} hs__bundle_entry;

static inline const char *hs__bundle_dtype_name(const hs__bundle_entry *entry)
{
    return entry->dtype_name ? entry->dtype_name : hs_dtype_name((hs_dtype)entry->dtype);
}

typedef struct hs__bundle_slice {
    hs__bundle_entry entry; /* with the tensor's name */
    hs__box box;            /* as in the key */
    bool listed;            /* the tensor's entry lists it */
} hs__bundle_slice;

/* The names of a bundle's files: "PREFIX.data-00000-of-00001" for shard 0 of 1, and "PREFIX.index". The caller frees them
 * with hs__free. NULL: out of memory. */
char *hs__bundle_data_path(const hs_env *env, const char *prefix, int32_t shard, int32_t shards);
char *hs__bundle_index_path(const hs_env *env, const char *prefix);

/* Writes one data file. One writer of a bundle also writes its index. */
typedef struct hs__bundle_writer {
    const hs_env *env;
    hs__stream data;
    hs__staging staging; /* for tensors on a device */
    uint64_t offset;
    uint64_t alignment; /* tensors begin at multiples of it; 0: anywhere. Set it before the first tensor is added */
    int32_t shard, shards;
    hs__bundle_entry *entries;
    size_t n_entries, entries_capacity;
    hs__map names;
    hs__bundle_slice *slices;
    size_t n_slices, slices_capacity;
    bool ignores_nonfinite;     /* do not count NaN and infinity of the next tensor. Set it before the tensor is added */
    size_t n_nonfinite;         /* number of tensors with NaN or infinity */
    const char *nonfinite_name; /* the first of them */
    hs_nonfinite nonfinite;     /* its NaNs and infinities */
    hs_code failed;             /* code of the first failed call; after finish, FAILED_PRECONDITION */
} hs__bundle_writer;

/* Opens the data file `path` as `shard` of `shards`. Close the writer, also after a failure. After a failure all other
 * calls fail with the same code, so that no incomplete bundle is finished. */
hs_code hs__bundle_writer_open(hs__bundle_writer *writer, const hs_env *env, const char *path, int32_t shard,
                               int32_t shards, hs_error *err);
/* Appends a tensor. Its memory may be that of a device. INVALID_ARGUMENT: the name is empty or already used. */
hs_code hs__bundle_writer_add(hs__bundle_writer *writer, const char *name, const hs_tensor *tensor, hs_error *err);
/* The same for numbers that are not in memory: `produce` calls `put` with all bytes, in pieces of whole elements. Without a
 * shape, the tensor is a vector of unknown length. INTERNAL: the bytes are not those of the shape. */
typedef hs_code (*hs__bundle_write_fn)(void *user, const void *piece, size_t bytes, hs_error *err);
typedef hs_code (*hs__bundle_produce_fn)(void *source, hs__bundle_write_fn put, void *user, hs_error *err);
hs_code hs__bundle_writer_add_from(hs__bundle_writer *writer, const char *name, hs_dtype dtype, const hs_shape *shape,
                                   hs__bundle_produce_fn produce, void *source, hs_error *err);
/* Appends the slice at `starts` of a tensor of shape `whole`. A slice that is the whole tensor is added as the tensor. The
 * slices need not cover the tensor. INVALID_ARGUMENT: the slice is outside the tensor, overlaps another slice, or has
 * another dtype or shape of the tensor than earlier slices. */
hs_code hs__bundle_writer_add_slice(hs__bundle_writer *writer, const char *name, const hs_shape *whole,
                                    const int64_t *starts, const hs_tensor *slice, hs_error *err);
/* Adds the entries of `other` to the index of `writer`. INVALID_ARGUMENT: both have the same name. `nonfinite` is then that
 * of the first tensor by name. */
hs_code hs__bundle_writer_join(hs__bundle_writer *writer, const hs__bundle_writer *other, hs_error *err);
/* Syncs and closes the data file, then writes, syncs and closes the index `path`. NULL: no index, for one of several data
 * files, each of which has its own writer, and maybe its own thread. Nothing can be added afterwards. */
hs_code hs__bundle_writer_finish(hs__bundle_writer *writer, const char *path, hs_error *err);
/* Closes the data file if it is open and frees the memory. Does not remove the files. */
void hs__bundle_writer_close(hs__bundle_writer *writer);

/* Reading. */
typedef struct hs__bundle_reader {
    const hs_env *env;
    char *prefix;
    int32_t shards;
    bool big_endian;
    hs__bundle_entry *entries; /* sorted by name */
    size_t n_entries, entries_capacity;
    hs__map names;
    hs__map dtypes;           /* owns the names of dtypes that are unknown */
    hs__bundle_slice *slices; /* grouped by tensor, in the order of their boxes */
    size_t n_slices, slices_capacity;
    hs__map sliced; /* from a tensor's name to its first slice */
    hs__box *lost;  /* listed slices that are missing */
    size_t n_lost, lost_capacity;
    struct hs__placed *placed; /* layout of the tensor `placed_of` (bundle_data.h) */
    size_t n_placed;
    const hs__bundle_entry *placed_of;
    hs__file file;      /* the data file that was read last */
    int32_t file_shard; /* its shard; -1: not open */
    char *file_path;
    uint64_t file_bytes;
    hs__read_progress *progress; /* counts the bytes read; may be NULL */
} hs__bundle_reader;

/* Returns true if a checkpoint without an index has TensorFlow's former format V1: it is the file PREFIX, or several files,
 * whose prefix contains "-?????-of-". They are tables that contain the tensors. */
bool hs__bundle_is_v1(const hs_env *env, const char *prefix);
/* Reads the index. NOT_FOUND: no index. DATA_LOSS: damaged, or tensors share bytes of a data file. INVALID_ARGUMENT:
 * version. UNIMPLEMENTED: an unknown compression, or the checkpoint has format V1. */
hs_code hs__bundle_reader_open(hs__bundle_reader *reader, const hs_env *env, const char *prefix, hs_error *err);
void hs__bundle_reader_close(hs__bundle_reader *reader);
/* Makes a reader of the same bundle for another thread. It reads only tensors that are not stored in slices. It borrows
 * everything but its data file from `reader`. Close only that. */
void hs__bundle_reader_fork(const hs__bundle_reader *reader, hs__bundle_reader *fork);
/* Closes the data file that is open, if any. */
void hs__bundle_reader_close_file(hs__bundle_reader *reader);
/* The entry of a tensor. NULL: not found. */
const hs__bundle_entry *hs__bundle_find(const hs__bundle_reader *reader, const char *name);
/* HS_OK if the entry can be read: dtype and shape are supported, and the number of bytes matches them. UNIMPLEMENTED: not
 * supported, or strings in slices. */
hs_code hs__bundle_check(const hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err);
/* As hs__bundle_check, but also checks that the data files have all bytes of the entry. Call it before you allocate memory
 * for them. DATA_LOSS, with the names of the slices, unless the slices of the tensor hold each element exactly once. */
hs_code hs__bundle_locate(hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err);
/* Returns the bytes that hs__bundle_read writes. For strings: the hs_string elements, and room for their bytes. */
size_t hs__bundle_read_bytes(const hs__bundle_entry *entry);
/* Reads and verifies a tensor, and converts it to this machine's byte order. DATA_LOSS names file and tensor. */
hs_code hs__bundle_read(hs__bundle_reader *reader, const hs__bundle_entry *entry, void *to, hs_error *err);
/* Reads and verifies a tensor of numbers, and calls `on_piece` with each piece, in this machine's byte order. The checksum
 * is checked after the last piece. A tensor in slices comes in pieces of up to 1 MiB, or of 64 bytes per slice if that is
 * more. */
hs_code hs__bundle_stream(hs__bundle_reader *reader, const hs__bundle_entry *entry, hs__bundle_write_fn on_piece,
                          void *user, hs_error *err);
/* Reads and verifies the next `bytes` of a vector of uint8 that is not stored in slices. Initialize the cursor with the
 * reader, the entry and zeros. A wrong checksum is DATA_LOSS at the last byte. */
typedef struct hs__bundle_cursor {
    hs__bundle_reader *reader;
    const hs__bundle_entry *entry;
    uint64_t done;
    uint32_t crc;
} hs__bundle_cursor;
hs_code hs__bundle_read_next(hs__bundle_cursor *cursor, void *to, size_t bytes, hs_error *err);
/* Reads the part `box` of a tensor, in row-major order. The box is within the shape, without lengths of -1. The first read
 * of a tensor, or of one of its stored slices, reads all of it to verify it. Later reads read only the bytes of the box.
 * UNIMPLEMENTED for strings. */
hs_code hs__bundle_read_slice(hs__bundle_reader *reader, const hs__bundle_entry *entry, const hs__box *box, void *to,
                              hs_error *err);
/* Reads a tensor, or each of its slices, only to verify it. Also for strings in slices and unknown dtypes. UNIMPLEMENTED:
 * strings or slices of unknown rank. */
hs_code hs__bundle_verify(hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err);
/* Reads all blocks of the index again only to verify it. Also DATA_LOSS if the index has slices that no tensor lists. */
hs_code hs__bundle_verify_index(const hs__bundle_reader *reader, hs_error *err);
/* Appends a tensor of another bundle to a writer's, in the form in which it is stored, and verifies it: also strings,
 * slices and types that this library does not know. UNIMPLEMENTED: an unknown rank, or another byte order. DATA_LOSS:
 * damage. */
hs_code hs__bundle_writer_add_copy(hs__bundle_writer *writer, hs__bundle_reader *reader, const hs__bundle_entry *from,
                                   hs_error *err);

#endif
