/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TENSORFLOW_ADD_OP_H
#define HS_TENSORFLOW_ADD_OP_H

#include "tensorflow/tf_backend.h"

/* attributes.c: sets what an op that is being added is given. `attr` is ended by a NULL name, and may be NULL. */
hs_code hs__tf_add_attrs(hs__tf_builder *builder, TF_OperationDescription *op, const hs_tensorflow_attr *attr);

#endif
