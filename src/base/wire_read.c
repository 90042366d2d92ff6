/* SPDX-License-Identifier: Apache-2.0 */
#include "base/wire_read.h"

bool hs__fields_next(hs__fields *fields, hs__field *field)
{
    uint64_t key, length;
    *field = (hs__field){.number = 0};
    if (fields->failed || fields->at == fields->end)
        return false;
    fields->failed = true;
    if (!hs__get_varint(&fields->at, fields->end, &key) || key >> 3 == 0 || key >> 3 > UINT32_MAX >> 3)
        return false;
    field->number = key >> 3;
    field->type = (int)(key & 7);
    if (field->type == HS__WIRE_VARINT) {
        fields->failed = !hs__get_varint(&fields->at, fields->end, &field->value);
        return !fields->failed;
    }
    length = field->type == HS__WIRE_FIXED64 ? 8 : 4;
    if (field->type == HS__WIRE_BYTES ? !hs__get_varint(&fields->at, fields->end, &length)
                                      : field->type != HS__WIRE_FIXED64 && field->type != HS__WIRE_FIXED32)
        return false;
    if (length > (uint64_t)(fields->end - fields->at))
        return false;
    if (field->type == HS__WIRE_BYTES)
        field->bytes = (hs_bytes){fields->at, (size_t)length};
    else
        field->value = length == 8 ? hs__get64(fields->at) : hs__get32(fields->at);
    fields->at += length;
    fields->failed = false;
    return true;
}
