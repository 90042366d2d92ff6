/* SPDX-License-Identifier: Apache-2.0 */
/* What a run gave, in the shape of what was asked for. */
#include "session/session.h"

#include <math.h>
#include <string.h>

static size_t count(const hs_run_values *values)
{
    return values && values->request ? values->request->n_leaves : 0;
}

size_t hs_run_values_count(const hs_run_values *values)
{
    return count(values);
}

const hs_tensor *hs_run_values_tensor(const hs_run_values *values, size_t index)
{
    if (index >= count(values))
        return NULL;
    const hs__run_plan *plan = values->plan;
    const hs__node_slot *slot = &plan->slots[values->request->leaves[index]];
    return plan->fetches[slot->fetch].output < 0 ? NULL : &plan->call.values[slot->fetch];
}

const hs_tensor *hs_run_values_tensor_at(const hs_run_values *values, const char *path)
{
    for (size_t i = 0; path && i < count(values); i++)
        if (strcmp(values->request->paths[i], path) == 0)
            return hs_run_values_tensor(values, i);
    return NULL;
}

static double number_of(const hs_tensor *tensor)
{
    char element[16]; /* the largest */
    if (!tensor)
        return (double)NAN;
    if (!tensor->memory)
        return hs_tensor_number(tensor, 0);
    size_t size = hs_dtype_size(tensor->dtype);
    if (tensor->bytes < size || tensor->dtype == HS_STRING ||
        tensor->memory->to_host(tensor->memory->user, element, tensor->data, size, NULL))
        return (double)NAN;
    hs_tensor host = hs_tensor_of(tensor->dtype, HS_SCALAR, element);
    return hs_tensor_number(&host, 0);
}

double hs_run_values_number(const hs_run_values *values, size_t index)
{
    return number_of(hs_run_values_tensor(values, index));
}

double hs_run_values_number_at(const hs_run_values *values, const char *path)
{
    return number_of(hs_run_values_tensor_at(values, path));
}

const hs_run_options *hs_run_values_options(const hs_run_values *values)
{
    return values && values->plan ? values->plan->call.options : NULL;
}

hs_bytes hs_run_values_metadata(const hs_run_values *values)
{
    return values && values->plan ? values->plan->call.metadata : (hs_bytes){NULL, 0};
}
