/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_FORMATS_BUNDLE_MERGE_H
#define HS_FORMATS_BUNDLE_MERGE_H

#include "base/buffer.h"
#include "base/map.h"

/* Merges the indices of several bundles in memory, and assigns new names to their data files. Writes nothing. */

typedef struct hs__merged_file {
    const char *from; /* path in its bundle */
    char *to;         /* path in the merged bundle */
    uint64_t bytes;   /* end of the last tensor in it */
    size_t input;     /* index of its bundle */
    int32_t shard;    /* its shard in that bundle */
} hs__merged_file;

typedef struct hs__bundle_merge {
    const hs_env *env;
    hs__merged_file *files; /* the files with tensors, in the order in which the indices name them */
    size_t n_files, files_capacity;
    hs__buffer index; /* of the merged bundle */
    hs__map paths;    /* from `from` to the file's index */
    int32_t first;    /* shard of the first file */
} hs__bundle_merge;

/* Merges the bundles `prefixes`, a NULL-terminated list of at least one. `merged` is the prefix of the new bundle. The
 * shards of its data files begin at `first`; the number of shards is `first` more than the number of files.
 *
 * INVALID_ARGUMENT, with the names of both bundles: two bundles have the same tensor (other than different slices of it),
 * or different byte orders or format versions. NOT_FOUND: a bundle does not exist. */
hs_code hs__bundle_merge_make(hs__bundle_merge *merge, const hs_env *env, const char *const *prefixes, const char *merged,
                              int32_t first, hs_error *err);
/* Sets *is_in if the index of `merged` has all entries of the bundles `prefixes` (may be empty) as a merge writes them. If
 * not `more`, it must have no other entries. */
hs_code hs__bundle_merge_is_in(const hs_env *env, const char *const *prefixes, const char *merged, bool more, bool *is_in,
                               hs_error *err);
void hs__bundle_merge_free(hs__bundle_merge *merge);

#endif
