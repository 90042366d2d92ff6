/* SPDX-License-Identifier: Apache-2.0 */
#include "summary/wire_read.h"

#include <string.h>

/* False if the message has fewer than `bytes` bytes left. */
static bool read_bytes(hs__fields *fields, uint64_t bytes, hs__field *field)
{
    if (bytes > (uint64_t)(fields->end - fields->at))
        return false;
    field->bytes = (hs_bytes){fields->at, (size_t)bytes};
    fields->at += bytes;
    return true;
}

static bool read_value(hs__fields *fields, hs__field *field)
{
    uint64_t length;
    switch (field->type) {
    case HS__WIRE_VARINT:
        return hs__get_varint(&fields->at, fields->end, &field->value);
    case HS__WIRE_FIXED64:
        if (!read_bytes(fields, 8, field))
            return false;
        field->value = hs__get64(field->bytes.data);
        return true;
    case HS__WIRE_FIXED32:
        if (!read_bytes(fields, 4, field))
            return false;
        field->value = hs__get32(field->bytes.data);
        return true;
    case HS__WIRE_BYTES:
        return hs__get_varint(&fields->at, fields->end, &length) && read_bytes(fields, length, field);
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
        fields->failed = field->number == 0 || field->number > UINT32_MAX >> 3 || !read_value(fields, field);
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
