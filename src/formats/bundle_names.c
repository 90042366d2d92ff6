/* SPDX-License-Identifier: Apache-2.0 */
#include "formats/bundle_names.h"

char *hs__bundle_data_path(const hs_env *env, const char *prefix, int32_t shard, int32_t shards)
{
    return hs__format(env, "%s.data-%05d-of-%05d", prefix, (int)shard, (int)shards);
}

char *hs__bundle_index_path(const hs_env *env, const char *prefix)
{
    return hs__format(env, "%s.index", prefix);
}
