/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HOOKSESS_SAFETENSORS_H
#define HOOKSESS_SAFETENSORS_H

#include <hooksess/checkpoint.h>

/* safetensors: the file format in which the weights of models are passed around. One file, a JSON header and the bare data.
 *
 * It is for exchange, not for going on from: a file has no checksums, so that a byte of the data that has changed is not
 * noticed (a damaged header is, and a length that does not fit), it is called the newest by nobody, and the state of hooks
 * and backend is not exported. Checkpoints (checkpoint.h) are for that, and hs_checkpoint_convert makes one of the other.
 *
 * dtypes: HS_DOUBLE is F64, HS_FLOAT F32, HS_HALF F16, HS_BFLOAT16 BF16, HS_INT64 to HS_INT8 I64, I32, I16, I8, HS_UINT64
 * to HS_UINT8 U64, U32, U16, U8, HS_BOOL BOOL and HS_COMPLEX64 C64 (which readers older than its making refuse). The format
 * has nothing for strings, quantized numbers and HS_COMPLEX128, and this library nothing for F8_E4M3 and the other types of
 * less than two bytes.
 *
 * Data are written aligned to their elements' size, from a multiple of 64 bytes on; the same tensors make the same file.
 * Headers are read and written with Jansson, whose memory is malloc's, not the environment's.
 *
 * Threads: one at a time per object. hs_checkpoint_convert: any thread. */

HS_BEGIN_DECLS

/* A pair of the free text that a file may carry. Frozen. */
typedef struct hs_safetensors_pair {
    const char *key, *value; /* UTF-8 */
} hs_safetensors_pair;

/* .metadata = HS_SAFETENSORS_METADATA({ "format", "pt" }, ...): this pair is what some loaders of models insist on. */
#define HS_SAFETENSORS_METADATA(...) HS__LIST(hs_safetensors_pair, __VA_ARGS__, {NULL, NULL})

/* Lists are read during the call. */
typedef struct hs_safetensors_options {
    size_t size;
    const char *const *variables;        /* names, ended by NULL; NULL: all that are not local */
    const hs_checkpoint_name *names;     /* of those that are called otherwise in the file; ended by a NULL variable */
    const hs_safetensors_pair *metadata; /* ended by a NULL key; keys occur once */
} hs_safetensors_options;
#define HS_SAFETENSORS_OPTIONS(...) HS_OPTIONS(hs_safetensors_options, __VA_ARGS__)

/* Writes the variables of a session to the file `path`, wherever their memory is, and whatever values they have, NaN too.
 * It is durable when this returns: written to PATH.PID-COUNTER.tmp, synced, renamed, the directory synced; until then a
 * file that was there is there. The directory must exist, or its parent must: one level is made. `options` NULL: all
 * variables under their own names. HS_INVALID_ARGUMENT names a variable whose dtype the format lacks, whose name is taken,
 * reserved ("hooksess/...", "__metadata__") or not UTF-8, or that there is not; HS_RESOURCE_EXHAUSTED for a full disk or no
 * memory, or what the backend returned. */
HS_API hs_code hs_safetensors_save(hs_raw_session *session, const char *path, const hs_safetensors_options *options,
                                   hs_error *err);

/* Sets the variables of a session from the file `path`, as hs_saver_restore does from a checkpoint: every variable that is
 * not local takes the tensor of its name, dtype and shape, unless `options` allow for less (weights of others have no
 * global step: .allow_missing, or .skip it). All is read and checked before anything is written, with the exceptions
 * named there; the same errors and the same report. State stays as it is, and so do the checkpoint that the session was
 * restored from and the step that is saved: this is an import, and not a checkpoint to go back to. To go on from a file
 * that has state, make a checkpoint of it first. HS_DATA_LOSS: the file is cut short, or its header is not one that may be;
 * HS_UNIMPLEMENTED: it has a dtype or more dimensions (HS_MAX_RANK) than this library knows. */
HS_API hs_code hs_safetensors_load(hs_raw_session *session, const char *path, const hs_restore_options *options,
                                   hs_error *err);

/* Makes a safetensors file of a checkpoint, or a checkpoint of a safetensors file, without a session: one of the two names
 * ends in ".safetensors", the other is a checkpoint's prefix. All tensors come along, state too (vectors of U8 under
 * "hooksess/", its identities among them), piece by piece, in memory that grows with the number of tensors and not with
 * their sizes; metadata do not. A checkpoint's checksums are verified. What is written replaces at one instant what had its
 * name, and is durable when this returns; neither the state file nor any other checkpoint is touched, and there is no
 * PREFIX.meta. While it is being written, the directory of a checkpoint is held as in a save; a saver of this very process
 * that holds it keeps its hold. On failure nothing is left but what was there: HS_INVALID_ARGUMENT for the names, or naming
 * a tensor that the other format cannot hold; HS_NOT_FOUND, HS_DATA_LOSS, HS_UNIMPLEMENTED for what cannot be read;
 * HS_FAILED_PRECONDITION for a directory that another process saves to. `env` NULL: the system's own. */
HS_API hs_code hs_checkpoint_convert(const hs_env *env, const char *from, const char *to, hs_error *err);

HS_END_DECLS

#endif
