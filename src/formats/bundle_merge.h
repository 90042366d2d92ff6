/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_FORMATS_BUNDLE_MERGE_H
#define HS_FORMATS_BUNDLE_MERGE_H

#include "base/buffer.h"
#include "base/map.h"

/* Several bundles as one: what its index says, and which data file becomes which. Nothing is written. */

typedef struct hs__merged_file {
    const char *from;
    char *to;
    uint64_t bytes; /* what the index knows of it ends there */
    size_t input;   /* which of the bundles it is of, */
    int32_t shard;  /* and which of its files it is there */
} hs__merged_file;

typedef struct hs__bundle_merge {
    const hs_env *env;
    hs__merged_file *files; /* in the order in which the bundles speak of them; those that none speaks of are left out */
    size_t n_files, files_capacity;
    hs__buffer index;
    hs__map paths; /* of the files */
    int32_t first; /* the number of the first of them */
} hs__bundle_merge;

/* `prefixes` is ended by NULL and names one at least. A tensor that is in several bundles is INVALID_ARGUMENT, unless each
 * has other slices of it; so are other byte orders and versions of the format. The message names both bundles. NOT_FOUND:
 * one is not there. The data files get the numbers from `first` on, of that many more than there are. */
hs_code hs__bundle_merge_make(hs__bundle_merge *merge, const hs_env *env, const char *const *prefixes, const char *merged,
                              int32_t first, hs_error *err);
/* Is all that the bundles of `prefixes` (maybe none) say in the index of `merged`, as merging them gives it? Nothing else
 * is there then, unless `more` allows it. */
hs_code hs__bundle_merge_is_in(const hs_env *env, const char *const *prefixes, const char *merged, bool more, bool *is_in,
                               hs_error *err);
void hs__bundle_merge_free(hs__bundle_merge *merge);

#endif
