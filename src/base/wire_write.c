/* SPDX-License-Identifier: Apache-2.0 */
/* Fields in protobuf's wire format. A message inside is appended first; hs__end_field then inserts its length. */
#include "base/wire_write.h"

#include "base/proto.h"
#include "base/wire_read.h"

#include <string.h>

static void put_tag(hs__buffer *out, uint32_t field, uint32_t wire_type)
{
    hs__buffer_varint(out, (uint64_t)field << 3 | wire_type);
}

void hs__put_integer(hs__buffer *out, uint32_t field, uint64_t value)
{
    if (!value)
        return;
    put_tag(out, field, HS__WIRE_VARINT);
    hs__buffer_varint(out, value);
}

void hs__put_fixed32(hs__buffer *out, uint32_t field, uint32_t value)
{
    if (!value)
        return;
    put_tag(out, field, HS__WIRE_FIXED32);
    hs__buffer_fixed32(out, value);
}

void hs__put_float(hs__buffer *out, uint32_t field, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    hs__put_fixed32(out, field, bits);
}

void hs__put_double(hs__buffer *out, uint32_t field, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (!bits)
        return;
    put_tag(out, field, HS__WIRE_FIXED64);
    hs__buffer_fixed64(out, bits);
}

void hs__put_string(hs__buffer *out, uint32_t field, const char *text)
{
    if (text && *text)
        hs__proto_put_bytes(out, field, text, strlen(text));
}

size_t hs__begin_field(hs__buffer *out, uint32_t field)
{
    put_tag(out, field, HS__WIRE_BYTES);
    return out->size;
}

/* Moves the contents to insert their length before them. */
void hs__end_field(hs__buffer *out, size_t begun)
{
    unsigned char length[10];
    if (out->failed)
        return;
    size_t bytes = out->size - begun, n = hs__put_varint(length, bytes);
    if (!hs__buffer_room(out, n))
        return;
    memmove(out->data + begun + n, out->data + begun, bytes);
    memcpy(out->data + begun, length, n);
    out->size += n;
}

void hs__put_doubles(hs__buffer *out, const double *values, size_t n)
{
    unsigned char *to = n ? hs__buffer_room(out, n * sizeof *values) : NULL;
    if (!to)
        return;
    for (size_t i = 0; i < n; i++) {
        uint64_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        hs__put64(to + i * sizeof bits, bits);
    }
    out->size += n * sizeof *values;
}
