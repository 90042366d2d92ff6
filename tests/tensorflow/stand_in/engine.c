/* SPDX-License-Identifier: Apache-2.0 */
#include "tensorflow/stand_in/engine.h"

size_t engine_graphs;
bool engine_has_chief;

/* A variable, with the ops that the library looks for: initializer and read. */
static const char step_graph[] =
    "node { name: 'global_step' op: 'VarHandleOp' device: '/job:localhost/replica:0/task:0/device:CPU:0' attr { key: 'dtype' value { type: DT_INT64 } } attr { key: 'shape' value { shape { } } }"
    "  attr { key: 'shared_name' value { s: 'global_step' } } }\n"
    "node { name: 'global_step/zero' op: 'Const' attr { key: 'dtype' value { type: DT_INT64 } }"
    "  attr { key: 'value' value { tensor { dtype: DT_INT64 tensor_shape { } int64_val: 0 } } } }\n"
    "node { name: 'global_step/one' op: 'Const' attr { key: 'dtype' value { type: DT_INT64 } }"
    "  attr { key: 'value' value { tensor { dtype: DT_INT64 tensor_shape { } int64_val: 1 } } } }\n"
    "node { name: 'global_step/first' op: 'PlaceholderWithDefault' input: 'global_step/zero' attr { key: 'dtype' value { type: DT_INT64 } }"
    "  attr { key: 'shape' value { shape { } } } }\n"
    "node { name: 'global_step/by' op: 'PlaceholderWithDefault' input: 'global_step/one' attr { key: 'dtype' value { type: DT_INT64 } }"
    "  attr { key: 'shape' value { shape { } } } }\n"
    "node { name: 'global_step/initial' op: 'Identity' input: 'global_step/first' attr { key: 'T' value { type: DT_INT64 } } }\n"
    "node { name: 'global_step/Assign' op: 'AssignVariableOp' input: 'global_step' input: 'global_step/initial'"
    "  attr { key: 'dtype' value { type: DT_INT64 } } }\n"
    "node { name: 'global_step/Read' op: 'ReadVariableOp' input: 'global_step' attr { key: 'dtype' value { type: DT_INT64 } } }\n";

hs_backend engine_open(const hs_env *env, hs_error *err)
{
    return hs_tensorflow_open_bytes((hs_bytes){step_graph, sizeof step_graph - 1}, HS_TENSORFLOW_OPTIONS(.env = env), err);
}

hs_code engine_add(hs_backend tf, const char *type, const char *name, const char *const *inputs, const char *type_attr,
                   hs_dtype dtype, hs_error *err)
{
    const char *const *controls = strcmp(name, "init") == 0 ? HS_NAMES("global_step/Assign") : NULL;
    const hs_tensorflow_attr attrs[] = {{.name = type_attr, .kind = HS_TENSORFLOW_TYPE, .type = dtype}, {.name = NULL}};
    const hs_tensorflow_op_def def = HS_INIT(hs_tensorflow_op_def, .type = type, .name = name, .inputs = inputs,
                                             .control_inputs = controls, .attrs = attrs);
    bool finalized = tf.ops->finalized(tf.self);
    if (finalized)
        tf.ops->finalize(tf.self, false, NULL);
    hs_code code = hs_tensorflow_add_op(tf, &def, err);
    if (finalized)
        tf.ops->finalize(tf.self, true, NULL);
    return code;
}
