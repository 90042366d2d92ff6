/* SPDX-License-Identifier: Apache-2.0 */
#include "summary/encode.h"

#include "base/proto.h"

#include <string.h>

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

static void put_tag(hs__buffer *out, uint32_t field, uint32_t wire_type)
{
    hs__buffer_varint(out, field << 3 | wire_type);
}

static size_t varint_bytes(uint64_t value)
{
    size_t n = 1;
    for (; value >= 0x80; value >>= 7)
        n++;
    return n;
}

/* A Summary.Value: tag, and simple_value. */
static size_t value_bytes(size_t tag_bytes)
{
    return 1 + varint_bytes(tag_bytes) + tag_bytes + 1 + 4;
}

size_t hs__encoded_scalar_bytes(size_t tag_bytes)
{
    size_t bytes = value_bytes(tag_bytes);
    return 1 + varint_bytes(bytes) + bytes;
}

void hs__encode_scalar(hs__buffer *out, const char *tag, size_t tag_bytes, double value)
{
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    put_tag(out, 1, BYTES);
    hs__buffer_varint(out, value_bytes(tag_bytes));
    hs__proto_put_bytes(out, 1, tag, tag_bytes);
    put_tag(out, 2, FIXED32);
    hs__buffer_fixed32(out, bits);
}

void hs__encode_event(hs__buffer *out, int64_t realtime_ns, int64_t step)
{
    double seconds = (double)realtime_ns / 1e9;
    uint64_t bits;
    memcpy(&bits, &seconds, sizeof bits);
    put_tag(out, 1, FIXED64);
    hs__buffer_fixed64(out, bits);
    if (step) {
        put_tag(out, 2, VARINT);
        hs__buffer_varint(out, (uint64_t)step);
    }
}

void hs__encode_session_log(hs__buffer *out, hs_session_status status, const char *checkpoint_path, const char *message)
{
    put_tag(out, 1, VARINT);
    hs__buffer_varint(out, (uint64_t)status);
    if (checkpoint_path)
        hs__proto_put_bytes(out, 2, checkpoint_path, strlen(checkpoint_path));
    if (message)
        hs__proto_put_bytes(out, 3, message, strlen(message));
}
