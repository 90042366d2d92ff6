/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_FORMATS_BUNDLE_DATA_H
#define HS_FORMATS_BUNDLE_DATA_H

#include "base/buffer.h"
#include "formats/bundle.h"

/* The lowest part of reading a bundle: a reader's data file, and the data of one entry in it. A tensor in slices has no
 * data: its slices are entries that have. */

/* The fields of an entry of the index (BundleEntryProto), of its shape (TensorShapeProto) and of its slices
 * (TensorSliceProto). */
enum {
    HS__ENTRY_DTYPE = 1,
    HS__ENTRY_SHAPE,
    HS__ENTRY_SHARD,
    HS__ENTRY_OFFSET,
    HS__ENTRY_SIZE,
    HS__ENTRY_CRC,
    HS__ENTRY_SLICES
};
enum { HS__SHAPE_DIM = 2, HS__SHAPE_UNKNOWN_RANK = 3, HS__SLICE_EXTENT = 1 };
/* Appends the index of the writer's entries to `index`. Sorts the entries. */
hs_code hs__bundle_build_index(hs__bundle_writer *writer, hs__buffer *index, hs_error *err);

/* The data of a string tensor:
 * - the length of each element as a varint;
 * - the masked CRC-32C of all lengths, each as 4 bytes (8 if it does not fit) in the bundle's byte order;
 * - the bytes of the elements.
 * The entry's checksum covers the lengths (in the form of their checksum, 4 or 8 bytes each), their checksum, and the
 * bytes. */

/* Appends the lengths and their checksum. Returns the checksum of both, to continue with the elements' bytes. */
uint32_t hs__bundle_put_lengths(hs__buffer *out, const hs_string *strings, size_t n, bool big_endian);

/* Data are read and checksummed in pieces that fit in the processor's cache. A piece is whole elements of every dtype. */
enum { HS__BUNDLE_PIECE = 1 << 18 };

/* UNIMPLEMENTED: a rank above HS_MAX_RANK. DATA_LOSS: the number of bytes overflows. */
hs_code hs__bundle_check_shape(const hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err);
/* For qsort of structs whose first member points to an entry: by the place of the data, shard and then offset. */
int hs__bundle_by_place(const void *first, const void *second);
/* hs__bundle_locate of an entry that has data. Leaves its data file open. */
hs_code hs__bundle_locate_whole(hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err);
/* Returns DATA_LOSS if `crc`, the unmasked checksum of the bytes that were read, differs from the entry's. */
hs_code hs__bundle_check_crc(const hs__bundle_reader *reader, const hs__bundle_entry *entry, uint32_t crc, hs_error *err);
/* Reads and verifies the numbers of a located entry in the bundle's byte order. If `whole`, `to` gets all of them. If not,
 * `to` has room for HS__BUNDLE_PIECE bytes, and each piece replaces the one before. `on_piece` (may be NULL) is called with
 * each piece: bytes [at, at + n) of the entry. */
typedef hs_code (*hs__bundle_piece_fn)(void *user, char *piece, size_t at, size_t n, hs_error *err);
hs_code hs__bundle_read_pieces(hs__bundle_reader *reader, const hs__bundle_entry *entry, char *to, bool whole,
                               hs__bundle_piece_fn on_piece, void *user, hs_error *err);
/* hs__bundle_read of an entry that has data, but in the bundle's byte order. */
hs_code hs__bundle_read_whole(hs__bundle_reader *reader, const hs__bundle_entry *entry, void *to, hs_error *err);
/* hs__bundle_verify of an entry that has data. `on_piece` (may be NULL) is called with its bytes in the order of the file.
 */
hs_code hs__bundle_verify_whole(hs__bundle_reader *reader, const hs__bundle_entry *entry, hs__bundle_piece_fn on_piece,
                                void *user, hs_error *err);

/* bundle_slices.c. Tensors that are stored in slices, as TensorFlow's partitioned variables are: checks that the slices
 * make up the tensor. An index is in the order of its keys: the slices of a tensor come one after the other, in the order
 * of their boxes, and all slices come before the first tensor's name. */

/* The slices of a tensor in the index. NULL: no slices. */
hs__bundle_slice *hs__bundle_slices_of(const hs__bundle_reader *reader, const hs__bundle_entry *entry, size_t *n);
/* The one of these slices that has the box. NULL: not found. */
hs__bundle_slice *hs__bundle_find_slice(hs__bundle_slice *slices, size_t n, const hs__box *box);
/* Sets and returns DATA_LOSS: "slice BOX of 'TENSOR' WHAT". */
hs_code hs__bundle_slice_damage(const hs__bundle_reader *reader, const hs__bundle_slice *slice, const char *what,
                                hs_error *err);

/* Position of a slice in its tensor. */
typedef struct hs__placed {
    hs__bundle_entry *entry; /* the reader's */
    hs__box box;             /* its lengths are those of the entry's shape */
} hs__placed;

typedef struct hs__layout {
    hs__placed *items; /* in no particular order */
    size_t n;
} hs__layout;

/* Positions of the slices in a tensor. DATA_LOSS, with the names of tensor and slices, unless they hold each element of the
 * tensor exactly once. The items belong to the reader and are valid until the layout of another tensor. The caller may
 * sort them. */
hs_code hs__bundle_lay_out(hs__bundle_reader *reader, const hs__bundle_entry *entry, hs__layout *layout, hs_error *err);

#endif
