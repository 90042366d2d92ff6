/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SUMMARY_WIRE_READ_H
#define HS_SUMMARY_WIRE_READ_H

#include "base/buffer.h"

#include <hooksess/tensor.h>

/* The fields of a serialized message, one after the other, without copying. */

enum { HS__WIRE_VARINT = 0, HS__WIRE_FIXED64 = 1, HS__WIRE_BYTES = 2, HS__WIRE_FIXED32 = 5 };

typedef struct hs__fields {
    const unsigned char *at, *end;
    bool failed; /* the bytes are no message */
} hs__fields;

typedef struct hs__field {
    uint64_t number;
    int type;
    uint64_t value; /* of a number, its bits */
    hs_bytes bytes; /* of others */
} hs__field;

static inline hs__fields hs__fields_of(hs_bytes message)
{
    const unsigned char *data = message.size ? message.data : (const unsigned char *)"";
    return (hs__fields){data, data + message.size, false};
}

/* False at the end, or if it failed. */
bool hs__fields_next(hs__fields *fields, hs__field *field);
/* The field is of this number, and its value of this type. */
static inline bool hs__field_is(const hs__field *field, uint64_t number, int type)
{
    return field->number == number && field->type == type;
}

static inline hs_string hs__field_text(const hs__field *field)
{
    return (hs_string){field->bytes.data, field->bytes.size};
}

float hs__float_of(uint64_t bits);
double hs__double_of(uint64_t bits);

/* A TensorProto: its dtype and shape, and its number if it has one alone. False: it is none. */
typedef struct hs__tensor_facts {
    hs_dtype dtype;
    hs_shape shape;
    bool has_scalar;
    double scalar;
} hs__tensor_facts;
bool hs__tensor_facts_of(hs_bytes tensor, hs__tensor_facts *facts);

#endif
