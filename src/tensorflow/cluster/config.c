/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a ConfigProto before TensorFlow gets it. */
#include "tensorflow/cluster/config.h"

#include "base/proto.h"

hs_code hs__tf_config_check(const Hs__Pb__ConfigProto *config, hs_error *err)
{
    if (!config || config->intra_op_parallelism_threads >= 0)
        return HS_OK;
    return hs_error_set(err, HS_INVALID_ARGUMENT, "config: intra_op_parallelism_threads is %d; it must be at least 0",
                        (int)config->intra_op_parallelism_threads);
}

hs_code hs__tf_config_read(hs_bytes bytes, const hs_env *env, Hs__Pb__ConfigProto **config, hs_error *err)
{
    bool no_memory;
    ProtobufCAllocator allocator = hs__proto_allocator(env);
    *config =
        (Hs__Pb__ConfigProto *)hs__proto_unpack(&hs__pb__config_proto__descriptor, env, bytes.data, bytes.size, &no_memory);
    if (!*config)
        return no_memory ? hs__no_memory(err, bytes.size, "a configuration")
                         : hs_error_set(err, HS_INVALID_ARGUMENT, "config is not a serialized ConfigProto");
    hs_code code = hs__tf_config_check(*config, err);
    if (code) {
        protobuf_c_message_free_unpacked(&(*config)->base, &allocator);
        *config = NULL;
    }
    return code;
}
