/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TENSORFLOW_CLUSTER_CONFIG_H
#define HS_TENSORFLOW_CLUSTER_CONFIG_H

#include <hooksess/tensor.h>

#include "server.pb-c.h"

/* INVALID_ARGUMENT: TensorFlow would end the process for this configuration. NULL is valid. */
hs_code hs__tf_config_check(const Hs__Pb__ConfigProto *config, hs_error *err);
/* Parses and checks a ConfigProto, which the caller frees with the allocator of `env`. INVALID_ARGUMENT: it is invalid. */
hs_code hs__tf_config_read(hs_bytes bytes, const hs_env *env, Hs__Pb__ConfigProto **config, hs_error *err);

#endif
