/* SPDX-License-Identifier: Apache-2.0 */
/* Variables in the program's memory: hs__variable_check validates a definition, hs__variable_place finds or allocates the
 * memory, hs__variable_reset and hs__variable_write set the values. */
#include "backends/variable.h"

#include "base/device.h"
#include "base/tensor.h"

#include <stdlib.h>
#include <string.h>

hs_code hs__check_memory(const char *what, const char *name, const hs_memory *memory, hs_error *err)
{
    if (!memory)
        return HS_OK;
    if (memory->size < sizeof *memory || !memory->to_host || !memory->from_host)
        return hs_error_set(
            err, HS_INVALID_ARGUMENT,
            "%s '%s': memory needs HS_INIT(hs_memory, ...), to_host and from_host; or hs_cuda_new has failed", what, name);
    const int copies = !!memory->duplicate + !!memory->release + !!memory->hold + !!memory->restore;
    if (copies && (copies < 4 || !memory->wait))
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "%s '%s': memory has only some of duplicate, release, hold, restore and wait; set all, or none "
                            "of the first four",
                            what, name);
    return HS_OK;
}

hs_code hs__check_kind(const char *what, const char *name, int64_t dtype, const hs_shape *shape, bool open, hs_error *err)
{
    if (!hs__dtype_valid(dtype))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%s '%s': dtype %lld does not exist", what, name, (long long)dtype);
    hs_code code = hs__shape_check(shape, open, "shape", err);
    if (code) {
        hs_error_prefix(err, "%s '%s'", what, name);
        return code;
    }
    int64_t n = hs_shape_elements(shape);
    if (!open && (n < 0 || (uint64_t)n > SIZE_MAX / 2 / hs_dtype_size((hs_dtype)dtype)))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%s '%s': the shape is too large", what, name);
    return HS_OK;
}

hs_code hs__variable_check(const hs_variable_def *def, hs_error *err)
{
    hs_code code;
    if ((code = hs__check_kind("variable", def->name, def->dtype, &def->shape, false, err)) ||
        (code = hs__check_memory("variable", def->name, def->memory, err)))
        return code;
    if (def->dtype == HS_STRING)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "variable '%s' is of type string, which variables cannot have; use hs_graph_state", def->name);
    if (!!def->data + !!def->data_at + !!def->locate > 1)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "variable '%s': more than one of data, data_at and locate is given; give at most one",
                            def->name);
    if (def->data_at && def->element_bytes && def->element_bytes != hs_dtype_size(def->dtype))
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "variable '%s': the pointer points to elements of %zu bytes, but an element of type %s has %zu",
                            def->name, def->element_bytes, hs_dtype_name(def->dtype), hs_dtype_size(def->dtype));
    if (def->memory && !def->data && !hs__variable_moves(def))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "variable '%s': device memory needs data, data_at or locate",
                            def->name);
    return HS_OK;
}

uint64_t hs__variable_flags(const hs_variable_def *def)
{
    uint64_t flags = def->flags;
    if ((def->data || hs__variable_moves(def)) && !def->initialize && !def->initial)
        flags |= HS_VARIABLE_OUTLIVES;
    if (hs__variable_moves(def))
        flags |= HS_VARIABLE_MOVES;
    if (def->nonfinite)
        flags |= HS_VARIABLE_NONFINITE;
    return flags;
}

/* Sets *data to the address in the program's pointer. If it is NULL and `allocate` is set, allocates the memory and sets
 * the pointer. */
static hs_code follow_pointer(const hs_variable_def *def, size_t bytes, bool allocate, void **data, hs_error *err)
{
    enum { ALIGNMENT = 64 }; /* suits vector instructions */
    const hs_memory *memory = def->memory;
    memcpy(data, def->data_at, sizeof *data); /* the pointer's type is unknown */
    if (*data || !allocate)
        return HS_OK;
    if (memory && !memory->allocate)
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "its pointer is NULL, and its hs_memory has no function allocate; allocate the memory before "
                            "you restore");
    if (memory) {
        hs_code code = hs__normalize_error(memory->allocate(memory->user, bytes, data, err), "hs_memory.allocate", err);
        if (code)
            return code;
    } else {
        *data = aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT); /* the program calls free() */
        if (!*data)
            return hs__no_memory(err, bytes, "it");
        memset(*data, 0, bytes);
    }
    memcpy(def->data_at, data, sizeof *data);
    return HS_OK;
}

hs_code hs__variable_place(const hs_variable_def *def, bool allocate, hs_tensor *value, hs_error *err)
{
    void *data = NULL;
    *value = hs_tensor_of(def->dtype, def->shape, NULL);
    value->memory = def->memory;
    if (!value->bytes)
        return HS_OK;
    if (def->data) {
        value->data = def->data;
        return HS_OK;
    }
    hs_code code = def->locate
                       ? hs__normalize_error(def->locate(def->user, value->bytes, allocate, &data, err), "locate", err)
                       : follow_pointer(def, value->bytes, allocate, &data, err);
    if (!code && allocate && !data)
        code = hs_error_set(err, HS_RESOURCE_EXHAUSTED, "locate did not set an address");
    if (code)
        hs_error_prefix(err, "the memory of variable '%s'", def->name);
    else
        value->data = data;
    return code;
}

hs_code hs__variable_reset(const hs_variable_def *def, const hs_tensor *to, hs_error *err)
{
    hs_code code = HS_OK;
    if (def->initialize)
        code = hs__normalize_error(def->initialize(def->user, to, err), "initialize", err);
    else if (to->memory)
        code = def->initial ? hs__tensor_from_host(to, def->initial, err) : hs__tensor_clear(to, err);
    else if (to->bytes && def->initial)
        memcpy(to->data, def->initial, to->bytes);
    else if (to->bytes)
        memset(to->data, 0, to->bytes);
    if (code)
        hs_error_prefix(err, "cannot initialize variable '%s'", def->name);
    return code;
}

hs_code hs__variable_write(const hs_variable_def *def, hs_tensor *to, const hs_tensor *value, hs_error *err)
{
    bool had_none = !value->data && to->bytes; /* no memory when it was saved */
    hs_code code = hs__variable_moves(def) ? hs__variable_place(def, !had_none, to, err) : HS_OK;
    if (code)
        return code;
    if (had_none)
        return to->data ? hs__variable_reset(def, to, err) : HS_OK;
    if (!to->bytes || to->data == value->data) /* lent memory has the value */
        return HS_OK;
    if (!to->memory && !value->memory)
        memmove(to->data, value->data, to->bytes);
    else
        code = value->memory ? hs__tensor_restore(to, value, err) : hs__tensor_from_host(to, value->data, err);
    if (code)
        hs_error_prefix(err, "cannot write variable '%s'", def->name);
    return code;
}
