/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TENSORFLOW_CLUSTER_CONFIG_H
#define HS_TENSORFLOW_CLUSTER_CONFIG_H

#include <hooksess/tensor.h>

#include "server.pb-c.h"

/* INVALID_ARGUMENT: one that TensorFlow would end the process over. NULL is fine. */
hs_code hs__tf_config_check(const Hs__Pb__ConfigProto *config, hs_error *err);
/* One that is good, to be freed by the env's allocator; INVALID_ARGUMENT: it is none. */
hs_code hs__tf_config_read(hs_bytes bytes, const hs_env *env, Hs__Pb__ConfigProto **config, hs_error *err);
/* Just whether it is good; empty is. */
hs_code hs__tf_config_judge(hs_bytes bytes, const hs_env *env, hs_error *err);

#endif
