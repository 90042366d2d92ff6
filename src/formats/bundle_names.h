/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_FORMATS_BUNDLE_NAMES_H
#define HS_FORMATS_BUNDLE_NAMES_H

#include "base/env.h"

/* The names of a bundle's files. The caller frees them with hs__free. NULL: out of memory. */

/* The data file of a shard: "PREFIX.data-00000-of-00001". */
char *hs__bundle_data_path(const hs_env *env, const char *prefix, int32_t shard, int32_t shards);
/* "PREFIX.index" */
char *hs__bundle_index_path(const hs_env *env, const char *prefix);

#endif
