/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_FORMATS_TABLE_H
#define HS_FORMATS_TABLE_H

#include "base/buffer.h"

/* clang-format off */
/* TensorFlow's sorted string table (LevelDB's, without its filters): the index of a tensor bundle.
 *
 *   data blocks, an empty meta-index block, the index block, the footer.
 *
 *   A block:   entries, restart offsets (4 bytes each), their number (4); then, outside its size, a byte for the compression
 *              (0) and the masked CRC-32C of the block and that byte.
 *   An entry:  varints shared, unshared, value bytes; the unshared rest of the key; the value. Every 16th shares nothing.
 *   Index:     for each data block, in the order of the file, a key not below its last one, with offset and size as varints.
 *   Footer:    offset and size of meta-index and index as varints, zeros up to 40 bytes, 8 bytes of magic. */
/* clang-format on */

typedef struct hs__table_writer {
    hs__buffer *out;
    hs__buffer block, restarts, key, index, index_restarts;
    size_t in_block; /* entries since the last restart */
    size_t n_entries;
} hs__table_writer;

/* Keys are added in ascending order; the table is appended to `out`. Failures show in the buffers, at finish. */
void hs__table_begin(hs__table_writer *table, const hs_env *env, hs__buffer *out);
void hs__table_add(hs__table_writer *table, hs_bytes key, hs_bytes value);
hs_code hs__table_finish(hs__table_writer *table, hs_error *err);

/* Calls `visit` for each entry in order; key and value are good during the call. What it returns ends the reading. `name`
 * is the file's, for messages. DATA_LOSS for anything that is not a table; UNIMPLEMENTED for compressed blocks. Blocks that
 * overlap and keys that share too much are DATA_LOSS: the work is proportional to the table's size. */
typedef hs_code (*hs__table_visit)(void *user, hs_bytes key, hs_bytes value, hs_error *err);
hs_code hs__table_read(const hs_env *env, hs_bytes table, const char *name, hs__table_visit visit, void *user,
                       hs_error *err);
/* Reads every block only to verify it, the meta-index too, which nobody needs. */
hs_code hs__table_verify(const hs_env *env, hs_bytes table, const char *name, hs_error *err);

#endif
