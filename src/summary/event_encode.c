/* SPDX-License-Identifier: Apache-2.0 */
/* A scalar's event is written in one pass: the sizes of its nested messages are computed first. */
#include "summary/event_encode.h"

#include "base/proto.h"
#include "base/text.h"
#include "summary/value.h"

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

/* The size of a Summary.Value with tag and simple_value. */
static size_t value_bytes(size_t tag_bytes)
{
    return 1 + varint_bytes(tag_bytes) + tag_bytes + 1 + 4;
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

size_t hs__scalar_event_bytes_at_most(size_t tag_bytes)
{
    enum { TIME = 9, STEP = 11, HEADS = 3 * 11, VALUE = 5 };
    return TIME + STEP + HEADS + tag_bytes + VALUE;
}

static unsigned char *put_event(unsigned char *to, int64_t realtime_ns, int64_t step)
{
    double seconds = (double)realtime_ns / 1e9;
    uint64_t bits;
    memcpy(&bits, &seconds, sizeof bits);
    *to++ = 1 << 3 | FIXED64;
    hs__put64(to, bits);
    to += 8;
    if (!step)
        return to;
    *to++ = 2 << 3 | VARINT;
    return to + hs__put_varint(to, (uint64_t)step);
}

static unsigned char *put_head(unsigned char *to, uint32_t field, size_t bytes)
{
    *to++ = (unsigned char)(field << 3 | BYTES);
    return to + hs__put_varint(to, bytes);
}

unsigned char *hs__put_scalar_event(unsigned char *to, int64_t realtime_ns, int64_t step, const char *tag, size_t tag_bytes,
                                    double value)
{
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    to = put_event(to, realtime_ns, step);
    size_t bytes = value_bytes(tag_bytes);
    to = put_head(to, HS__EVENT_SUMMARY, 1 + varint_bytes(bytes) + bytes);
    to = put_head(to, 1, bytes);
    to = put_head(to, 1, tag_bytes);
    memcpy(to, tag, tag_bytes);
    to += tag_bytes;
    *to++ = 2 << 3 | FIXED32;
    hs__put32(to, bits);
    return to + 4;
}

void hs__encode_event_head(hs__buffer *out, int64_t realtime_ns, int64_t step)
{
    enum { AT_MOST = 9 + 11 };
    unsigned char *to = hs__buffer_room(out, AT_MOST);
    if (to)
        out->size += (size_t)(put_event(to, realtime_ns, step) - to);
}

/* Appends a path or message. If it is not UTF-8, which readers reject, each byte above ASCII becomes '?'. */
static void put_readable(hs__buffer *out, uint32_t field, const char *text)
{
    size_t bytes = strlen(text);
    hs__proto_put_bytes(out, field, text, bytes);
    if (out->failed || hs__is_utf8(text, bytes))
        return;
    for (unsigned char *at = out->data + out->size - bytes; at < out->data + out->size; at++)
        if (*at >= 0x80)
            *at = '?';
}

void hs__encode_session_log(hs__buffer *out, hs_session_log_status status, const char *checkpoint_path, const char *message)
{
    put_tag(out, 1, VARINT);
    hs__buffer_varint(out, (uint64_t)status);
    if (checkpoint_path)
        put_readable(out, 2, checkpoint_path);
    if (message)
        put_readable(out, 3, message);
}
