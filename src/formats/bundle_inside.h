/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_FORMATS_BUNDLE_INSIDE_H
#define HS_FORMATS_BUNDLE_INSIDE_H

#include "formats/bundle.h"

#include "bundle.pb-c.h"

#include "base/proto.h"

/* What the parts of reading a bundle know of each other. */

/* Data are read and checksummed in pieces that stay in the processor's cache: whole elements of every dtype. */
enum { HS__BUNDLE_PIECE = 1 << 18 };
/* A tensor in slices is streamed in pieces so large, unless it has very many. */
enum { HS__BUNDLE_ROWS = 1 << 20 };

/* bundle_index.c. Visits the entries of an index file, the header first, if it is one that we understand. */
typedef struct hs__index_visitor {
    void *user;
    const char *path; /* of the index, for messages */
    hs_code (*header)(void *user, const Hs__Pb__BundleHeaderProto *header, hs_error *err);
    hs_code (*entry)(void *user, hs_bytes key, hs_bytes value, hs_error *err);
} hs__index_visitor;
hs_code hs__bundle_visit_index(const hs_env *env, const hs__index_visitor *visitor, hs_error *err);
/* The entry under a key, to be freed with protobuf_c_message_free_unpacked. */
hs_code hs__bundle_unpack_entry(const hs_env *env, const char *path, hs_bytes key, hs_bytes value,
                                Hs__Pb__BundleEntryProto **entry, hs_error *err);
/* DATA_LOSS if the entry has its data where there can be none. */
hs_code hs__bundle_check_place(const Hs__Pb__BundleEntryProto *entry, const char *path, const char *name, int32_t shards,
                               hs_error *err);
/* Fills in what the index says. */
hs_code hs__bundle_read_index(hs__bundle_reader *reader, hs_error *err);

/* bundle_reader.c. */

/* A reader that has read nothing, to be closed after a failure too. `prefix` may be NULL. */
hs_code hs__bundle_reader_init(hs__bundle_reader *reader, const hs_env *env, const char *prefix, hs_error *err);
/* UNIMPLEMENTED, DATA_LOSS unless the type is known, the shape ours, and its bytes can be counted. */
hs_code hs__bundle_check_kind(const hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err);
/* hs__bundle_locate of an entry that has data. Its data file is then open. */
hs_code hs__bundle_locate_whole(hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err);
hs_code hs__bundle_wrong_checksum(const hs__bundle_reader *reader, const hs__bundle_entry *entry, uint32_t found,
                                  hs_error *err);
/* Reads and verifies the numbers of an entry that was located, as they are stored: all of them into `to`, or piece by piece
 * into the HS__BUNDLE_PIECE bytes there. `take` (may be NULL) gets the pieces: n bytes from byte `at` of the entry on. */
typedef hs_code (*hs__bundle_piece_fn)(void *user, char *piece, size_t at, size_t n, hs_error *err);
hs_code hs__bundle_read_pieces(hs__bundle_reader *reader, const hs__bundle_entry *entry, char *to, bool whole,
                               hs__bundle_piece_fn take, void *user, hs_error *err);
/* hs__bundle_verify of an entry that has data. */
hs_code hs__bundle_verify_whole(hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err);

/* bundle_slices.c. */

/* Notes the slice whose key this is; a key that is none is passed over, as is a slice of no tensor that has some. */
hs_code hs__bundle_add_slice(hs__bundle_reader *reader, hs_bytes key, const hs__bundle_entry *slice, hs_error *err);
/* Finds the slices that the entry of a tensor lists. */
hs_code hs__bundle_list_slices(hs__bundle_reader *reader, hs__bundle_entry *entry, const Hs__Pb__BundleEntryProto *proto,
                               hs_error *err);
/* The keys of slices in their order, once more: DATA_LOSS for one that was passed over, or that its tensor does not list.
 * `*next`, 0 at first, is the slice that should come. */
hs_code hs__bundle_check_slice(const hs__bundle_reader *reader, hs_bytes key, size_t *next, hs_error *err);
/* hs__bundle_locate and hs__bundle_verify of a tensor that has some. */
hs_code hs__bundle_locate_slices(hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err);
hs_code hs__bundle_verify_slices(hs__bundle_reader *reader, const hs__bundle_entry *entry, hs_error *err);

/* bundle_part.c. hs__bundle_read and hs__bundle_stream of such a tensor, which was located; `piece` has `room` bytes. */
hs_code hs__bundle_read_slices(hs__bundle_reader *reader, const hs__bundle_entry *entry, void *to, hs_error *err);
hs_code hs__bundle_stream_slices(hs__bundle_reader *reader, const hs__bundle_entry *entry, void *piece, size_t room,
                                 hs__bundle_take take, void *user, hs_error *err);

#endif
