/* SPDX-License-Identifier: Apache-2.0 */
/* Partitioned variables: which part of a whole each of them is. */
#include "tensorflow/tf_backend.h"

#include "variable.pb-c.h"

#include <string.h>

static bool read_slice(const Hs__Pb__SaveSliceInfoDef *def, const hs_shape *part, hs_variable_slice *out)
{
    if (def->n_full_shape > HS_MAX_RANK || def->n_var_offset != def->n_full_shape || part->rank != (int)def->n_full_shape)
        return false;
    out->shape.rank = part->rank;
    for (size_t i = 0; i < def->n_full_shape; i++) {
        out->shape.dims[i] = def->full_shape[i];
        out->starts[i] = def->var_offset[i];
        if (out->starts[i] < 0 || part->dims[i] < 0 || out->shape.dims[i] < part->dims[i] ||
            out->starts[i] > out->shape.dims[i] - part->dims[i])
            return false;
    }
    return hs_shape_elements(&out->shape) >= 0;
}

/* The name lies behind it. */
static hs_code keep_slice(const hs__tf_backend *backend, hs__tf_variable *variable, const hs_variable_slice *slice,
                          const char *name, hs_error *err)
{
    size_t bytes = strlen(name) + 1;
    hs_variable_slice *kept = hs__alloc(&backend->env, sizeof *kept + bytes, 1);
    if (!kept)
        return hs__no_memory(err, bytes, "a slice");
    *kept = *slice;
    kept->name = memcpy(kept + 1, name, bytes);
    variable->slice = kept;
    return HS_OK;
}

hs_code hs__tf_note_slice(hs__tf_backend *backend, const TF_Operation *handle, const Hs__Pb__SaveSliceInfoDef *def,
                          hs_error *err)
{
    hs_variable_slice slice = {.name = NULL};
    hs__tf_variable *variable = backend->n_variables ? &backend->variables[backend->n_variables - 1] : NULL;
    if (!def || !*def->full_name || !variable || variable->handle != handle || variable->slice)
        return HS_OK; /* not one that has just been added */
    if (!read_slice(def, &variable->shape, &slice))
        return hs_error_set(err, HS_DATA_LOSS, "meta graph: variable '%s' is a slice that does not lie within '%s'",
                            variable->name, def->full_name);
    return keep_slice(backend, variable, &slice, def->full_name, err);
}

bool hs__tf_variable_slice(void *self, size_t index, hs_variable_slice *out)
{
    const hs__tf_backend *backend = self;
    if (index >= backend->n_variables || !backend->variables[index].slice)
        return false;
    *out = *backend->variables[index].slice;
    return true;
}
