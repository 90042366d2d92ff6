/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of queues: tensors with their memory. */
#include "backends/graph/queue.h"

#include <string.h>

static bool is_open(const hs_output_def *component)
{
    return component->dtype == HS_STRING || hs_shape_elements(&component->shape) < 0;
}

void hs__element_free(const hs__queue_def *def, hs__element *element)
{
    const hs_env *env = &def->graph->env;
    if (!element)
        return;
    for (size_t i = 0; element->owned && i < def->element.n_outputs; i++)
        hs__free(env, element->owned[i]);
    hs__free(env, element->values);
    hs__free(env, element->owned);
    hs__free(env, element->capacity);
    hs__buffer_free(&element->position);
    hs__free(env, element);
}

static hs_code grow(const hs__queue_def *def, hs__element *element, size_t component, size_t bytes, hs_error *err)
{
    if (element->owned[component] && bytes <= element->capacity[component])
        return HS_OK;
    void *memory = hs__alloc(&def->graph->env, bytes, 1);
    if (!memory)
        return hs__no_memory(err, bytes, "an element of a queue");
    hs__free(&def->graph->env, element->owned[component]);
    element->owned[component] = memory;
    element->capacity[component] = bytes;
    return HS_OK;
}

void hs__element_clear(const hs__queue_def *def, hs__element *element)
{
    for (size_t i = 0; i < def->element.n_outputs; i++) {
        const hs_output_def *component = &def->element.outputs[i];
        bool open = is_open(component);
        element->values[i] = hs_tensor_of(component->dtype, component->shape, open ? NULL : element->owned[i]);
        if (open)
            element->values[i].rank = -1; /* unset */
    }
    hs__buffer_clear(&element->position);
}

hs__element *hs__element_new(const hs__queue_def *def, hs_error *err)
{
    const hs_env *env = &def->graph->env;
    size_t n = def->element.n_outputs;
    hs__element *element = hs__alloc(env, 1, sizeof *element);
    if (!element) {
        hs__no_memory(err, sizeof *element, "an element of a queue");
        return NULL;
    }
    hs__buffer_init(&element->position, env);
    element->values = hs__alloc(env, n, sizeof *element->values);
    element->owned = hs__alloc(env, n, sizeof *element->owned);
    element->capacity = hs__alloc(env, n, sizeof *element->capacity);
    hs_code code = element->values && element->owned && element->capacity
                       ? HS_OK
                       : hs__no_memory(err, n * sizeof *element->values, "an element of a queue");
    for (size_t i = 0; !code && i < n; i++) {
        const hs_output_def *component = &def->element.outputs[i];
        if (!is_open(component))
            code = grow(def, element, i, hs_tensor_of(component->dtype, component->shape, NULL).bytes, err);
    }
    if (!code)
        return element;
    hs__element_free(def, element);
    return NULL;
}

/* Copies the list of strings, followed by their bytes. */
static hs_code copy_strings(const hs__queue_def *def, hs__element *element, size_t component, const hs_tensor *value,
                            hs_error *err)
{
    const hs_string *from = value->data;
    size_t n = value->bytes / sizeof *from, bytes = value->bytes;
    for (size_t i = 0; i < n; i++)
        bytes += from[i].bytes;
    hs_code code = grow(def, element, component, bytes, err);
    if (code)
        return code;
    hs_string *to = element->owned[component];
    char *text = (char *)(to + n);
    for (size_t i = 0; i < n; i++) {
        to[i] = (hs_string){text, from[i].bytes};
        if (from[i].bytes)
            memcpy(text, from[i].data, from[i].bytes);
        text += from[i].bytes;
    }
    return HS_OK;
}

static hs_code copy_bytes(const hs__queue_def *def, hs__element *element, size_t component, const hs_tensor *value,
                          hs_error *err)
{
    hs_code code = grow(def, element, component, value->bytes, err);
    if (code)
        return code;
    void *to = element->owned[component];
    if (value->memory)
        return hs__normalize_error(value->memory->to_host(value->memory->user, to, value->data, value->bytes, err),
                                   "hs_memory.to_host", err);
    if (value->bytes)
        memcpy(to, value->data, value->bytes);
    return HS_OK;
}

hs_code hs__element_set(const hs__queue_def *def, hs__element *element, size_t component, const hs_tensor *value,
                        hs_error *err)
{
    const hs_output_def *wanted = &def->element.outputs[component];
    hs_shape shape = hs_tensor_shape(value);
    char open[HS_SHAPE_TEXT_SIZE], given[HS_SHAPE_TEXT_SIZE];
    if (value->dtype != wanted->dtype || !hs__shape_fits(&wanted->shape, &shape))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "component %zu of queue '%s' is %s %s, but its value is %s %s",
                            component, def->name, hs_dtype_name(wanted->dtype),
                            hs_shape_text(&wanted->shape, open, sizeof open), hs_dtype_name(value->dtype),
                            hs_shape_text(&shape, given, sizeof given));
    hs_code code = value->dtype == HS_STRING ? copy_strings(def, element, component, value, err)
                                             : copy_bytes(def, element, component, value, err);
    if (!code)
        element->values[component] = hs_tensor_of(wanted->dtype, shape, element->owned[component]);
    return code;
}

hs_code hs__element_copy_views(const hs__queue_def *def, hs__element *element, hs_error *err)
{
    hs_code code = HS_OK;
    for (size_t i = 0; !code && i < def->element.n_outputs; i++) {
        hs_tensor value = element->values[i];
        if (value.rank < 0 || (!value.data && value.bytes))
            code = hs_error_set(err, HS_INTERNAL, "component %zu of queue '%s' was not set", i, def->name);
        else if (value.data != element->owned[i] || is_open(&def->element.outputs[i]))
            code = hs__element_set(def, element, i, &value, err);
    }
    return code;
}
