/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_CHECKPOINT_MERGING_H
#define HS_TESTS_CHECKPOINT_MERGING_H

/* Shared by the tests of merging: small checkpoints in the test's directory. */

#include "formats/bundles.h"

/* Writes a checkpoint whose data file is `shard` of `shards`. Each tensor has three bytes, which are the first letter of
 * its name. */
void write_shard(const char *prefix, int32_t shard, int32_t shards, const char *const *names);
#define WRITE(prefix, ...) write_shard(prefix, 0, 1, (const char *const[]){__VA_ARGS__, NULL})

/* Writes a checkpoint with a slice of two elements of the vector "w". */
void write_slice(const char *prefix, hs_shape whole, int64_t start, hs_dtype dtype);

/* Returns true if the checkpoint has exactly these tensors with their values. */
bool has(const char *prefix, const char *const *names);
#define HAS(prefix, ...) has(prefix, (const char *const[]){__VA_ARGS__, NULL})

/* Merges these checkpoints of the directory, four at most. */
hs_code merge_in(const hs_env *env, const char *merged, const char *const *names);
#define MERGE(merged, ...) merge_in(&t.env, merged, (const char *const[]){__VA_ARGS__, NULL})

/* Number of files of the directory with this text in their names. */
size_t files_of(const char *part);

#endif
