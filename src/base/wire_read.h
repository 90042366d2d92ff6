/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_WIRE_READ_H
#define HS_BASE_WIRE_READ_H

#include "base/buffer.h"

#include <hooksess/tensor.h>

/* Reads the fields of a serialized message one by one, without copying. */

enum { HS__WIRE_VARINT = 0, HS__WIRE_FIXED64 = 1, HS__WIRE_BYTES = 2, HS__WIRE_FIXED32 = 5 };

typedef struct hs__fields {
    const unsigned char *at, *end;
    bool failed; /* the bytes are not a message */
} hs__fields;

typedef struct hs__field {
    uint64_t number;
    int type;
    uint64_t value; /* of a number: its bits */
    hs_bytes bytes; /* of type HS__WIRE_BYTES. Otherwise, data is NULL */
} hs__field;

static inline hs__fields hs__fields_of(hs_bytes message)
{
    const unsigned char *data = message.size ? message.data : (const unsigned char *)"";
    return (hs__fields){data, data + message.size, false};
}

/* Reads the next field. False at the end and on failure, which sets `failed`. */
bool hs__fields_next(hs__fields *fields, hs__field *field);
/* True if the field has this number and this type. */
static inline bool hs__field_is(const hs__field *field, uint64_t number, int type)
{
    return field->number == number && field->type == type;
}

static inline hs_string hs__field_text(const hs__field *field)
{
    return (hs_string){field->bytes.data, field->bytes.size};
}

#endif
