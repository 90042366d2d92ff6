/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_SHARDS_H
#define HS_CHECKPOINT_SHARDS_H

#include <hooksess/backend.h>

#include "formats/bundle.h"

#include <pthread.h>
#include <stdatomic.h>

/* Writing the data files of a checkpoint in parallel. The caller writes the first file, and one thread writes each other
 * file. The sizes of the tensors alone determine which file a tensor goes to. Within a file they keep their order. */

enum { HS__MOST_SHARDS = 64 };

typedef struct hs__shard hs__shard;

typedef struct hs__shards {
    const hs_env *env;
    hs__shard *items;
    int32_t n, opened;
    int32_t *places; /* by number of the tensor: its file */
    size_t n_places, added;
    hs_code (*check)(void *user, hs_error *err); /* an error cancels the writing; called by all threads */
    void *user;
    atomic_bool failed; /* one of the files: the other threads stop */
} hs__shards;

typedef struct hs__shard_size {
    uint64_t bytes;
    bool follows; /* slice of the same tensor as the previous one: it goes to the same file */
} hs__shard_size;

typedef struct hs__shard_item {
    const char *name;
    hs_tensor value;
    const hs_variable_slice *slice; /* NULL: a whole tensor */
    bool nonfinite;                 /* NaN and infinity are allowed */
} hs__shard_item;

/* Opens n files with the shard numbers from `first` on, of `of` shards. Before the call, `check` and `user` are set and the
 * rest is zero. Call hs__shards_close in any case. */
hs_code hs__shards_open(hs__shards *shards, const hs_env *env, char *const *paths, int32_t n, int32_t first, int32_t of,
                        hs_error *err);
/* Assigns n tensors to the files, so that the files have similar sizes. */
hs_code hs__shards_assign(hs__shards *shards, const hs__shard_size *tensors, size_t n, hs_error *err);
/* Adds the next tensor. `remains`: name and value are valid for all threads until hs__shards_write has returned. A tensor
 * that does not remain is written immediately, after the earlier ones and before the later ones of its file. */
hs_code hs__shards_add(hs__shards *shards, const hs__shard_item *tensor, bool remains, hs_error *err);
/* Writes the tensors, and finishes all files but the first. Returns the error of the first file that failed. */
hs_code hs__shards_write(hs__shards *shards, hs_error *err);
/* The first file, for more tensors after hs__shards_write. Its index has the tensors of all files. */
hs__bundle_writer *hs__shards_first(hs__shards *shards);
/* Frees the memory, and leaves the files. */
void hs__shards_close(hs__shards *shards);

#endif
