/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTS_CHECKPOINT_MERGING_H
#define HS_TESTS_CHECKPOINT_MERGING_H

/* What the tests of merging share: small checkpoints in the test's directory. */

#include "formats/bundles.h"

/* A checkpoint `prefix` whose data file is `shard` of `shards`, with tensors called so: three bytes, the first of its name
 * thrice. */
void write_shard(const char *prefix, int32_t shard, int32_t shards, const char *const *names);
#define WRITE(prefix, ...) write_shard(prefix, 0, 1, (const char *const[]){__VA_ARGS__, NULL})

/* One that has two elements of the vector "w", which begins with "abcdef". */
void write_slice(const char *prefix, hs_shape whole, int64_t start, hs_dtype dtype);

/* Is `prefix` a checkpoint of these tensors and no others, each with its values? */
bool has(const char *prefix, const char *const *names);
#define HAS(prefix, ...) has(prefix, (const char *const[]){__VA_ARGS__, NULL})

/* Merges what is in the directory under these names, four at most. */
hs_code merge_in(const hs_env *env, const char *merged, const char *const *names);
#define MERGE(merged, ...) merge_in(&t.env, merged, (const char *const[]){__VA_ARGS__, NULL})

/* How many files of the directory have this in their names. */
size_t files_of(const char *part);

#endif
