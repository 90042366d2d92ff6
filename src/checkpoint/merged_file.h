/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_MERGED_FILE_H
#define HS_CHECKPOINT_MERGED_FILE_H

#include "formats/bundle_merge.h"

/* Copying and verifying the data files of checkpoints that are merged. */

/* *bytes is the size of the file. DATA_LOSS: it is less than the index requires. */
hs_code hs__merged_file_bytes(const hs_env *env, const hs__merged_file *file, uint64_t *bytes, hs_error *err);
/* Copies the file to the temporary file `tmp`, syncs it, and verifies the copy by the index of its checkpoint `prefix`.
 * DATA_LOSS names the file. */
hs_code hs__merged_file_copy(const hs_env *env, const hs__merged_file *file, const char *prefix, const char *tmp,
                             hs_error *err);
/* Verifies all tensors of a checkpoint, except those of types that this library does not know. */
hs_code hs__verify_checkpoint(const hs_env *env, const char *prefix, hs_error *err);

#endif
