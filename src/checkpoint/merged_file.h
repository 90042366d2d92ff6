/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_MERGED_FILE_H
#define HS_CHECKPOINT_MERGED_FILE_H

#include "formats/bundle_merge.h"

/* Verifying the data files of checkpoints that are merged, and copying or linking them. */

/* *bytes is the size of the file. DATA_LOSS: it is less than the index requires. */
hs_code hs__merged_file_bytes(const hs_env *env, const hs__merged_file *file, uint64_t *bytes, hs_error *err);
/* Makes the temporary file `tmp`, synced and verified by the index of the checkpoint `prefix`: a link to the file if that
 * is possible (hs__file_link), or a copy. Reads each byte once, except of strings. DATA_LOSS names the file. */
hs_code hs__merged_file_make(const hs_env *env, const hs__merged_file *file, const char *prefix, const char *tmp,
                             hs_error *err);
/* Verifies all tensors of a checkpoint, except those of types that this library does not know. */
hs_code hs__verify_checkpoint(const hs_env *env, const char *prefix, hs_error *err);

#endif
