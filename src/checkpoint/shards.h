/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_CHECKPOINT_SHARDS_H
#define HS_CHECKPOINT_SHARDS_H

#include <hooksess/backend.h>

#include "formats/bundle.h"

#include <pthread.h>
#include <stdatomic.h>

/* The data files of a checkpoint while they are written, each by a thread of its own, but for the first, which is the
 * caller's. Which tensor goes where depends on their sizes alone; within a file they keep their order. */

enum { HS__MOST_SHARDS = 64 };

typedef struct hs__shard hs__shard;

typedef struct hs__shards {
    const hs_env *env;
    hs__shard *items;
    int32_t n, opened;
    int32_t *places; /* by a tensor's number, which file it goes to */
    size_t n_places, added;
    hs_code (*check)(void *user, hs_error *err); /* whether it is still wanted; called by any of the threads */
    void *user;
    atomic_bool failed; /* one of them: the others need not go on */
} hs__shards;

/* Opens the files, which are to be `first` and those after it of `of`. `check` and its user are set before, the rest is
 * zero. After a failure too it must be closed. */
hs_code hs__shards_open(hs__shards *shards, const hs_env *env, char *const *paths, int32_t n, int32_t first, int32_t of,
                        hs_error *err);
/* Deals out n tensors, so that the files become about as large as each other. */
typedef struct hs__dealt {
    uint64_t bytes;
    bool follows; /* a part of the tensor that the one before is a part of: it goes to the same file */
} hs__dealt;
hs_code hs__shards_deal(hs__shards *shards, const hs__dealt *tensors, size_t n, hs_error *err);
typedef struct hs__sharded {
    const char *name;
    hs_tensor value;
    const hs_variable_slice *slice; /* NULL: it is a whole tensor */
    bool nonfinite;                 /* NaN and infinity may be in it */
} hs__sharded;
/* The next of them. The parts of a tensor come one after the other, and go to one file.
 * `stays`: name and value are good, for any thread, until hs__shards_write has returned. One that does not stay is written
 * at once, and with it all that go to the same file. */
hs_code hs__shards_add(hs__shards *shards, const hs__sharded *tensor, bool stays, hs_error *err);
/* Writes them; all files but the first are finished. The error is that of the first file that has one. */
hs_code hs__shards_write(hs__shards *shards, hs_error *err);
/* The first file, to which more can be added after that. Its index has all. */
hs__bundle_writer *hs__shards_first(hs__shards *shards);
/* Frees everything; the files stay. */
void hs__shards_close(hs__shards *shards);

#endif
