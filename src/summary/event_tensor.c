/* SPDX-License-Identifier: Apache-2.0 */
#include "summary/wire_read.h"

#include <string.h>

/* The bytes of a field that is as long as it says. */
static bool take_bytes(hs__fields *fields, uint64_t bytes, hs__field *field)
{
    if (bytes > (uint64_t)(fields->end - fields->at))
        return false;
    field->bytes = (hs_bytes){fields->at, (size_t)bytes};
    fields->at += bytes;
    return true;
}

static bool take_value(hs__fields *fields, hs__field *field)
{
    uint64_t length;
    switch (field->type) {
    case HS__WIRE_VARINT:
        return hs__get_varint(&fields->at, fields->end, &field->value);
    case HS__WIRE_FIXED64:
        if (!take_bytes(fields, 8, field))
            return false;
        field->value = hs__get64(field->bytes.data);
        return true;
    case HS__WIRE_FIXED32:
        if (!take_bytes(fields, 4, field))
            return false;
        field->value = hs__get32(field->bytes.data);
        return true;
    case HS__WIRE_BYTES:
        return hs__get_varint(&fields->at, fields->end, &length) && take_bytes(fields, length, field);
    default:
        return false;
    }
}

bool hs__fields_next(hs__fields *fields, hs__field *field)
{
    uint64_t key;
    *field = (hs__field){.number = 0};
    if (fields->failed || fields->at == fields->end)
        return false;
    fields->failed = !hs__get_varint(&fields->at, fields->end, &key);
    if (!fields->failed) {
        field->number = key >> 3;
        field->type = (int)(key & 7);
        fields->failed = field->number == 0 || field->number > UINT32_MAX >> 3 || !take_value(fields, field);
    }
    return !fields->failed;
}

float hs__float_of(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, sizeof value);
    return value;
}

double hs__double_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* A TensorShapeProto. */
static bool read_shape(hs_bytes message, hs_shape *shape)
{
    enum { DIM = 2, SIZE = 1, UNKNOWN_RANK = 3 };
    hs__fields dims = hs__fields_of(message);
    hs__field dim, size;
    *shape = (hs_shape){.rank = 0};
    int rank = 0;
    while (hs__fields_next(&dims, &dim)) {
        if (hs__field_is(&dim, UNKNOWN_RANK, HS__WIRE_VARINT) && dim.value)
            rank = HS_MAX_RANK + 1;
        if (!hs__field_is(&dim, DIM, HS__WIRE_BYTES) || rank > HS_MAX_RANK)
            continue;
        hs__fields sizes = hs__fields_of(dim.bytes);
        int64_t elements = 0;
        while (hs__fields_next(&sizes, &size))
            if (hs__field_is(&size, SIZE, HS__WIRE_VARINT))
                elements = (int64_t)size.value;
        if (sizes.failed)
            return false;
        if (rank < HS_MAX_RANK)
            shape->dims[rank] = elements;
        rank++;
    }
    shape->rank = rank > HS_MAX_RANK ? -1 : rank;
    return !dims.failed;
}

/* The fields of a TensorProto that hold numbers. */
enum {
    TENSOR_DTYPE = 1,
    TENSOR_SHAPE = 2,
    TENSOR_CONTENT = 4,
    TENSOR_FLOAT = 5,
    TENSOR_DOUBLE = 6,
    TENSOR_INT = 7,
    TENSOR_INT64 = 10,
    TENSOR_BOOL = 11,
    TENSOR_HALF = 13,
    TENSOR_UINT32 = 16,
    TENSOR_UINT64 = 17
};

/* The field in which a tensor of a type keeps its numbers. */
static uint64_t field_of(hs_dtype dtype)
{
    switch (dtype) {
    case HS_FLOAT:
        return TENSOR_FLOAT;
    case HS_DOUBLE:
        return TENSOR_DOUBLE;
    case HS_INT32:
    case HS_INT16:
    case HS_INT8:
    case HS_UINT8:
    case HS_UINT16:
        return TENSOR_INT;
    case HS_INT64:
        return TENSOR_INT64;
    case HS_BOOL:
        return TENSOR_BOOL;
    case HS_HALF:
    case HS_BFLOAT16:
        return TENSOR_HALF;
    case HS_UINT32:
        return TENSOR_UINT32;
    case HS_UINT64:
        return TENSOR_UINT64;
    default:
        return 0;
    }
}

/* The first number of a repeated field, packed or not, as the tensor's element would be in memory. */
static bool first_number(const hs__field *field, uint64_t *bits)
{
    const unsigned char *at = field->bytes.data;
    size_t width = field->number == TENSOR_FLOAT ? 4 : field->number == TENSOR_DOUBLE ? 8 : 0;
    *bits = field->value;
    if (field->type != HS__WIRE_BYTES)
        return field->type == (width == 4 ? HS__WIRE_FIXED32 : width == 8 ? HS__WIRE_FIXED64 : HS__WIRE_VARINT);
    if (width) {
        if (field->bytes.size < width)
            return false;
        *bits = width == 4 ? hs__get32(at) : hs__get64(at);
        return true;
    }
    return field->bytes.size && hs__get_varint(&at, at + field->bytes.size, bits);
}

static double number_of(hs_dtype dtype, const unsigned char *element)
{
    hs_tensor one = hs_tensor_of(dtype, (hs_shape){.rank = 0}, element);
    return hs_tensor_number(&one, 0);
}

/* What was found in a tensor that has one element. */
typedef struct {
    hs_bytes content;
    bool has_bits;
    uint64_t bits;
} element;

static void read_number(hs__tensor_facts *facts, const element *found)
{
    unsigned char bytes[8] = {0};
    size_t size = hs_dtype_size(facts->dtype);
    if (!field_of(facts->dtype) || size > sizeof bytes || hs_shape_elements(&facts->shape) != 1)
        return;
    if (found->content.size == size) {
        memcpy(bytes, found->content.data, size);
    } else if (found->has_bits) {
        hs__put64(bytes, found->bits);
    } else if (found->content.size) {
        return;
    }
    facts->scalar = number_of(facts->dtype, bytes); /* an element that is left out is zero */
    facts->has_scalar = true;
}

bool hs__tensor_facts_of(hs_bytes tensor, hs__tensor_facts *facts)
{
    hs__fields fields = hs__fields_of(tensor);
    hs__field field;
    element found = {{NULL, 0}, false, 0};
    bool is_sound = true;
    *facts = (hs__tensor_facts){.dtype = HS_DTYPE_NONE};
    while (is_sound && hs__fields_next(&fields, &field)) {
        if (hs__field_is(&field, TENSOR_DTYPE, HS__WIRE_VARINT))
            facts->dtype = field.value <= INT32_MAX ? (hs_dtype)field.value : HS_DTYPE_NONE;
        else if (hs__field_is(&field, TENSOR_SHAPE, HS__WIRE_BYTES))
            is_sound = read_shape(field.bytes, &facts->shape);
        else if (hs__field_is(&field, TENSOR_CONTENT, HS__WIRE_BYTES))
            found.content = field.bytes;
        else if (!found.has_bits && facts->dtype && field.number == field_of(facts->dtype))
            found.has_bits = first_number(&field, &found.bits);
    }
    if (is_sound && !fields.failed)
        read_number(facts, &found);
    return is_sound && !fields.failed;
}
