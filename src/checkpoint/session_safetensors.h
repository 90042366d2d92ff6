/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_SESSION_SAFETENSORS_H
#define HS_CHECKPOINT_SESSION_SAFETENSORS_H

#include "formats/safetensors.h"

/* Writes a safetensors file and renames it to `path`, which always is the old file or the complete new one. The tensors are
 * declared before. `put` writes the data of header.entries[index], whole or in pieces. */
typedef hs_code (*hs__safetensors_put)(void *user, hs__safetensors_writer *writer, size_t index, hs_error *err);
hs_code hs__safetensors_make(hs__safetensors_writer *writer, const char *path, const hs_safetensors_pair *metadata,
                             hs__safetensors_put put, void *user, hs_error *err);
/* Returns true if a file of this name is a temporary file of hs__safetensors_make. If it is removed while it is written,
 * hs__safetensors_make writes it again. */
bool hs__is_safetensors_tmp(const char *name);

#endif
