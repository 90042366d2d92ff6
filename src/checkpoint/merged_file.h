/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_MERGED_FILE_H
#define HS_CHECKPOINT_MERGED_FILE_H

#include "formats/bundle_merge.h"

/* What merging checkpoints does with their data. */

/* How many bytes the file has. DATA_LOSS: fewer than its index speaks of. */
hs_code hs__merged_file_bytes(const hs_env *env, const hs__merged_file *file, uint64_t *bytes, hs_error *err);
/* Copies the file to `aside`, synced, and verifies the copy by the index of `prefix`, the checkpoint that it is of.
 * DATA_LOSS names the file. */
hs_code hs__merged_file_copy(const hs_env *env, const hs__merged_file *file, const char *prefix, const char *aside,
                             hs_error *err);
/* Reads all of a checkpoint that has a checksum. What is of no type that we know passes. */
hs_code hs__verify_checkpoint(const hs_env *env, const char *prefix, hs_error *err);

#endif
