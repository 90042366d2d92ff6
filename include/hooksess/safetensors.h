/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_SAFETENSORS_H
#define HOOKSESS_SAFETENSORS_H

#include <hooksess/checkpoint.h>

/* safetensors: a file format to exchange the weights of models (docs/file-formats.md).
 *
 *     hs_code code = hs_safetensors_load(raw, "pretrained.safetensors",
 *                                        HS_RESTORE_OPTIONS(.skip = HS_NAMES("global_step")), &err);
 *     if (!code)
 *         code = hs_safetensors_save(raw, "export.safetensors", NULL, &err);
 *
 * A file has no checksums, no state of hooks or backend, and never counts as the newest checkpoint. A damaged header or a
 * wrong length is found, a changed value is not. hs_checkpoint_open reads a file without a session.
 *
 *   dtypes   F64, F32, F16, BF16, I64 to I8, U64 to U8, BOOL, and C64 (HS_COMPLEX64), which old readers refuse. Not stored:
 *            strings, quantized numbers, HS_COMPLEX128. Other dtypes of a file are read as bytes (hs_checkpoint_dtype_name)
 *   values   begin at a multiple of 64 bytes. Equal tensors give equal files
 *   header   unknown members of a tensor's entry are ignored. Two tensors of one name are HS_DATA_LOSS
 *
 * Threads: one thread at a time per object. Any thread may call hs_checkpoint_convert. */

HS_BEGIN_DECLS

/* Free text in the header. Frozen. */
typedef struct hs_safetensors_pair {
    const char *key, *value; /* UTF-8 */
} hs_safetensors_pair;

/* .metadata = HS_SAFETENSORS_METADATA({ "format", "pt" }, ...). Some loaders require this pair. */
#define HS_SAFETENSORS_METADATA(...) HS__LIST(hs_safetensors_pair, __VA_ARGS__, {NULL, NULL})

typedef struct hs_safetensors_options {
    size_t size;
    const char *const *variables;        /* HS_NAMES(...). NULL: all that are not local */
    const hs_checkpoint_name *names;     /* HS_CHECKPOINT_NAMES(...): names in the file. NULL: the variables' names */
    const hs_safetensors_pair *metadata; /* HS_SAFETENSORS_METADATA(...), each key once. NULL: none */
} hs_safetensors_options;
#define HS_SAFETENSORS_OPTIONS(...) HS_OPTIONS(hs_safetensors_options, __VA_ARGS__)

/* Writes the variables of `session` to a file. NaN and infinity are allowed.
 *
 * path     a missing directory is created if its parent exists. An existing file is replaced atomically
 * options  NULL: the defaults
 *
 * HS_INVALID_ARGUMENT: a variable does not exist, or the format lacks its dtype; or a name occurs twice, is reserved
 * ("hooksess/...", "__metadata__") or is not UTF-8. On failure, an existing file is unchanged. Returns when the data is on
 * disk. */
HS_API hs_code hs_safetensors_save(hs_raw_session *session, const char *path, const hs_safetensors_options *options,
                                   hs_error *err);

/* Sets the variables of `session` from a file, by name, dtype and shape, as hs_saver_restore does.
 *
 * options  NULL: all that are not local. Weights of other programs have no global step: skip it, or set allow_missing
 *
 * State, hs_raw_session_restored_from and the saved step do not change. Errors: as hs_saver_restore. HS_DATA_LOSS: a short
 * file or an invalid header. */
HS_API hs_code hs_safetensors_load(hs_raw_session *session, const char *path, const hs_restore_options *options,
                                   hs_error *err);

/* Converts a checkpoint to a safetensors file, or back, without a session.
 *
 * env       NULL: the system's
 * from, to  one name ends in ".safetensors", the other is the prefix of a checkpoint
 * skip      HS_NAMES(...): tensors to leave out. NULL: none
 *
 * Converts all other tensors and the state (as U8 under "hooksess/"), but no metadata. Checksums are verified. An existing
 * target is replaced atomically. The directory of a new checkpoint is locked meanwhile; it gets no .meta and no new state
 * file. Returns when the data is on disk. On failure, existing files are unchanged:
 *
 *   HS_INVALID_ARGUMENT      invalid names, or a tensor that the other format cannot store
 *   HS_NOT_FOUND, HS_DATA_LOSS, HS_UNIMPLEMENTED
 *                            `from` cannot be read, lacks a tensor of `skip`, or has a tensor of an unknown dtype or
 *                            too many dimensions
 *   HS_FAILED_PRECONDITION   another process saves to the directory */
HS_API hs_code hs_checkpoint_convert(const hs_env *env, const char *from, const char *to, const char *const *skip,
                                     hs_error *err);

HS_END_DECLS

#endif
