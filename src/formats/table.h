/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_FORMATS_TABLE_H
#define HS_FORMATS_TABLE_H

#include "base/buffer.h"

/* clang-format off */
/* TensorFlow's sorted string table (LevelDB's without filters), the format of the index of a tensor bundle.
 *
 *   data blocks, an empty meta-index block, the index block, the footer.
 *
 *   Block:   entries, restart offsets (4 bytes each), their number (4). Then, not counted in its size, a byte for the
 *            compression, and the masked CRC-32C of the block and that byte. 0: not compressed, as the writer has it. 1: the
 *            block is a Snappy stream of these bytes, as some builds of TensorFlow write it.
 *   Entry:   varints: bytes shared with the previous key, other bytes of the key, bytes of the value; then these bytes of
 *            the key, and the value. Every 16th key shares nothing.
 *   Index:   an entry for each data block, in the order of the file. Key: not below the block's last key. Value: offset and
 *            size of the block as varints.
 *   Footer:  offset and size of meta-index and index as varints, zeros up to 40 bytes, 8 bytes of magic number. */
/* clang-format on */

typedef struct hs__table_writer {
    hs__buffer *out;
    hs__buffer block, restarts, key, index, index_restarts;
    size_t in_block; /* entries since the last restart */
    size_t n_entries;
} hs__table_writer;

/* Appends a table to `out`. Add keys in ascending order. Only finish reports failures. */
void hs__table_begin(hs__table_writer *table, const hs_env *env, hs__buffer *out);
void hs__table_add(hs__table_writer *table, hs_bytes key, hs_bytes value);
hs_code hs__table_finish(hs__table_writer *table, hs_error *err);

/* Calls `visit` for each entry in order. Key and value are valid during the call. If `visit` fails, reading ends with its
 * code. `name` is the file's name, for messages. UNIMPLEMENTED: an unknown compression. DATA_LOSS: not a table. Overlapping
 * blocks and keys that share too many bytes are also DATA_LOSS, so that the work is proportional to the table's size. With
 * `verify_all`, also verifies the unused meta-index. */
typedef hs_code (*hs__table_visit)(void *user, hs_bytes key, hs_bytes value, hs_error *err);
hs_code hs__table_read(const hs_env *env, hs_bytes table, const char *name, bool verify_all, hs__table_visit visit,
                       void *user, hs_error *err);
/* Returns true if the file ends as a table does. */
bool hs__ends_as_table(const hs_env *env, const char *path);

#endif
