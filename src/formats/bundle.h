/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_FORMATS_BUNDLE_H
#define HS_FORMATS_BUNDLE_H

#include "base/files.h"
#include "base/map.h"
#include "base/stream.h"
#include "base/tensor.h"
#include "formats/box.h"
#include "formats/bundle_names.h"
#include "formats/check.h"
#include "formats/read_progress.h"

/* TensorFlow's V2 tensor bundle: PREFIX.index, a table of entries, and data files PREFIX.data-SHARD-of-SHARDS with the
 * bytes.
 *
 * Numeric tensors lie in the data as they lie in memory; the entry's checksum is the masked CRC-32C of those bytes. For
 * strings see bundle_strings.h. The header says in which byte order all of it is.
 *
 * A tensor may be in slices, as a partitioned variable is: its entry has dtype, shape and a list of slices, and no data;
 * each slice is a tensor of its own under a key that no name is (slice_key.h). */

typedef struct hs__bundle_entry {
    const char *name;
    int32_t dtype; /* as the file says, maybe none of ours */
    int32_t shard;
    hs_shape shape; /* rank -1: one that we cannot hold */
    uint64_t offset;
    uint64_t bytes; /* in the file; of a tensor in slices, in memory */
    uint32_t crc;   /* masked */
    bool verified;  /* its data were once read and found right */
    size_t slices;  /* so many are listed; 0: it is whole */
    size_t lost;    /* the first box in the reader's list of those that are listed and not there, counted from 1; 0: none */
} hs__bundle_entry;

typedef struct hs__bundle_slice {
    hs__bundle_entry entry; /* its name is the tensor's */
    hs__box box;            /* as the key says it */
    bool listed;            /* by the tensor's entry */
} hs__bundle_slice;

/* Writing one data file, and the index of a bundle that consists of it, or of it and others. */
typedef struct hs__bundle_writer {
    const hs_env *env;
    hs__stream data;
    uint64_t offset;
    uint64_t alignment; /* every tensor begins at a multiple of it; 0: anywhere. To be set before the first is added */
    int32_t shard, shards;
    hs__bundle_entry *entries;
    size_t n_entries, entries_capacity;
    hs__map names;
    hs__bundle_slice *slices;
    size_t n_slices, slices_capacity;
    bool ignores_nonfinite;     /* of the next tensor. To be set before it is added */
    size_t n_nonfinite;         /* tensors that have NaN or infinity in them, */
    const char *nonfinite_name; /* the first of them, */
    hs_nonfinite nonfinite;     /* and what it has */
    hs_code failed;             /* of the first call that failed; after finish, FAILED_PRECONDITION */
} hs__bundle_writer;

/* Opens the data file `path`; it is to be `shard` of `shards`. After a failure too, the writer must be closed; all other
 * calls then fail alike, so that no bundle is finished that lacks something. */
hs_code hs__bundle_writer_open(hs__bundle_writer *writer, const hs_env *env, const char *path, int32_t shard,
                               int32_t shards, hs_error *err);
/* Appends a host tensor. INVALID_ARGUMENT for an empty name or one that is there already. */
hs_code hs__bundle_writer_add(hs__bundle_writer *writer, const char *name, const hs_tensor *tensor, hs_error *err);
/* The same for numbers that are not in memory: `fill` writes the next `bytes` of them to `to`, whole elements. */
typedef hs_code (*hs__bundle_fill)(void *user, void *to, size_t bytes, hs_error *err);
hs_code hs__bundle_writer_add_from(hs__bundle_writer *writer, const char *name, hs_dtype dtype, const hs_shape *shape,
                                   hs__bundle_fill fill, void *user, hs_error *err);
/* The same for a vector of uint8 of which nobody knows how long it is: `produce` calls `put` with all of it, in pieces of
 * any size. */
typedef hs_code (*hs__bundle_take)(void *user, const void *piece, size_t bytes, hs_error *err);
typedef hs_code (*hs__bundle_produce)(void *source, hs__bundle_take put, void *user, hs_error *err);
hs_code hs__bundle_writer_add_bytes(hs__bundle_writer *writer, const char *name, hs__bundle_produce produce, void *source,
                                    hs_error *err);
/* Appends a part of a tensor of shape `whole`, which begins at `starts` and is as large as `slice`; all of it is added as
 * the tensor. Nobody makes sure that the parts of a tensor are all of it: others may be in bundles that this one is merged
 * with. INVALID_ARGUMENT for one that lies outside, or over another one, or fits neither the dtype nor the shape of those
 * before. */
hs_code hs__bundle_writer_add_slice(hs__bundle_writer *writer, const char *name, const hs_shape *whole,
                                    const int64_t *starts, const hs_tensor *slice, hs_error *err);
/* For a bundle of several data files, each of which has a writer, maybe in a thread of its own. Syncs and closes the data
 * file; nothing can be added any more. */
hs_code hs__bundle_writer_finish_data(hs__bundle_writer *writer, hs_error *err);
/* The index that `writer` writes will have what `other` has, too. INVALID_ARGUMENT for a name that both have. Of what is
 * not finite the first by name is noted. */
hs_code hs__bundle_writer_join(hs__bundle_writer *writer, const hs__bundle_writer *other, hs_error *err);
/* Syncs and closes the data file, writes the index to `path`, syncs and closes it. */
hs_code hs__bundle_writer_finish(hs__bundle_writer *writer, const char *path, hs_error *err);
/* Frees everything, and closes what is open. The files stay. */
void hs__bundle_writer_close(hs__bundle_writer *writer);

/* Reading. */
typedef struct hs__bundle_reader {
    const hs_env *env;
    char *prefix;
    int32_t shards;
    bool big_endian;
    hs__bundle_entry *entries; /* by name */
    size_t n_entries, entries_capacity;
    hs__map names;
    hs__bundle_slice *slices; /* those of one tensor one after the other, in the order of their boxes */
    size_t n_slices, slices_capacity;
    hs__map sliced; /* the first slice of each tensor that has some */
    hs__box *lost;  /* slices that are listed and not there */
    size_t n_lost, lost_capacity;
    struct hs__placed *placed; /* bundle_slices.h: where the slices lie of the tensor that was laid out last */
    size_t n_placed;
    const hs__bundle_entry *placed_of;
    hs__file file; /* the shard that was read last */
    int32_t file_shard;
    char *file_path;
    uint64_t file_bytes;
    hs__read_progress *progress; /* of what is read; NULL: nobody watches */
} hs__bundle_reader;

/* Reads the index. NOT_FOUND: there is none; DATA_LOSS (also if tensors share bytes of a data file), INVALID_ARGUMENT
 * (versions), UNIMPLEMENTED (compression). */
hs_code hs__bundle_reader_open(hs__bundle_reader *reader, const hs_env *env, const char *prefix, hs_error *err);
void hs__bundle_reader_close(hs__bundle_reader *reader);
/* A reader of the same bundle for another thread, which reads whole tensors with it (not such as are in slices). It borrows
 * all but its open file, and is closed by hs__bundle_reader_fork_close. */
void hs__bundle_reader_fork(const hs__bundle_reader *reader, hs__bundle_reader *fork);
void hs__bundle_reader_fork_close(hs__bundle_reader *fork);
/* NULL: no tensor of that name. */
const hs__bundle_entry *hs__bundle_find(const hs__bundle_reader *reader, const char *name);
/* HS_OK if the entry's data can be read: the type is known, the shape ours, and the bytes as many as they say.
 * UNIMPLEMENTED: strings in slices, beside what is unknown. */
hs_code hs__bundle_check(const hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err);
/* That, and the bytes are there: nothing is allocated for more than a file has. Slices make up the tensor, each element
 * once; else it is DATA_LOSS, which names them. */
hs_code hs__bundle_locate(hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err);
/* How much hs__bundle_read writes. For strings: the hs_string elements, and room for their bytes. */
size_t hs__bundle_read_bytes(const hs__bundle_entry *entry);
/* Reads and verifies a tensor, in this machine's byte order. DATA_LOSS names file and tensor. */
hs_code hs__bundle_read(hs__bundle_reader *reader, const hs__bundle_entry *entry, void *to, hs_error *err);
/* Reads and verifies a tensor of numbers, and hands it to `take` piece by piece, in this machine's byte order: before the
 * last one is verified. One in slices comes in pieces of up to 1 MiB, or of 64 bytes per slice if that is more. */
hs_code hs__bundle_stream(hs__bundle_reader *reader, const hs__bundle_entry *entry, hs__bundle_take take, void *user,
                          hs_error *err);
/* Reads and verifies a vector of uint8 that is not in slices, as much at a time as the caller asks for: the next `bytes`.
 * Begin with the reader, the entry, and zeros. DATA_LOSS comes with the last byte. */
typedef struct hs__bundle_cursor {
    hs__bundle_reader *reader;
    const hs__bundle_entry *entry;
    uint64_t done;
    uint32_t crc;
} hs__bundle_cursor;
hs_code hs__bundle_read_next(hs__bundle_cursor *cursor, void *to, size_t bytes, hs_error *err);
/* Reads a part of it, in row-major order: box->lengths without -1, and in the shape. What it lies in, the tensor or some of
 * its slices, is read as a whole once, to be verified; later no more is read than is needed. UNIMPLEMENTED for strings. */
hs_code hs__bundle_read_slice(hs__bundle_reader *reader, const hs__bundle_entry *entry, const hs__box *box, void *to,
                              hs_error *err);
/* Reads a tensor only to verify it; one in slices: each of them, strings too. */
hs_code hs__bundle_verify(hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err);
/* Reads the index again, all of its blocks, only to verify it. DATA_LOSS too if it has slices that no tensor lists. */
hs_code hs__bundle_verify_index(const hs__bundle_reader *reader, hs_error *err);

#endif
