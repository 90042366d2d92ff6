/* SPDX-License-Identifier: Apache-2.0 */
/* Appending to a growing buffer: bytes, text, varints and little-endian numbers, all through hs__buffer_room. */
#include "base/buffer.h"

#include "base/c_locale.h"

#include <stdio.h>
#include <string.h>

void hs__buffer_init(hs__buffer *buffer, const hs_env *env)
{
    *buffer = (hs__buffer){.env = env};
}

void hs__buffer_free(hs__buffer *buffer)
{
    if (buffer->env)
        hs__free(buffer->env, buffer->data);
    hs__buffer_init(buffer, buffer->env);
}

void hs__buffer_clear(hs__buffer *buffer)
{
    buffer->size = 0;
    buffer->failed = false;
}

unsigned char *hs__buffer_room(hs__buffer *buffer, size_t bytes)
{
    if (buffer->failed || bytes > SIZE_MAX - buffer->size ||
        hs__reserve(buffer->env, &buffer->data, &buffer->capacity, buffer->size + bytes, 1, NULL)) {
        buffer->failed = true;
        return NULL;
    }
    return buffer->data ? buffer->data + buffer->size : NULL;
}

void hs__buffer_append(hs__buffer *buffer, const void *data, size_t bytes)
{
    unsigned char *to = bytes ? hs__buffer_room(buffer, bytes) : NULL;
    if (to) {
        memcpy(to, data, bytes);
        buffer->size += bytes;
    }
}

void hs__buffer_put(void *buffer, const char *text, size_t bytes)
{
    hs__buffer_append(buffer, text, bytes);
}

void hs__buffer_text(hs__buffer *buffer, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = hs__vsnprintf(NULL, 0, format, arguments);
    char *to = length < 0 ? NULL : (char *)hs__buffer_room(buffer, (size_t)length + 1);
    if (to) {
        hs__vsnprintf(to, (size_t)length + 1, format, again);
        buffer->size += (size_t)length;
    }
    va_end(again);
    va_end(arguments);
}

hs_code hs__buffer_check(const hs__buffer *buffer, const char *what, hs_error *err)
{
    return buffer->failed ? hs__no_memory(err, buffer->size, what) : HS_OK;
}

size_t hs__put_varint(unsigned char *to, uint64_t value)
{
    size_t n = 0;
    for (; value >= 0x80; value >>= 7)
        to[n++] = (unsigned char)(value | 0x80);
    to[n++] = (unsigned char)value;
    return n;
}

bool hs__get_varint(const unsigned char **at, const unsigned char *end, uint64_t *value)
{
    const unsigned char *p = *at;
    uint64_t result = 0;
    for (unsigned shift = 0; shift < 64 && p < end; shift += 7) {
        unsigned char byte = *p++;
        if (shift == 63 && byte > 1)
            return false;
        result |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            *at = p;
            *value = result;
            return true;
        }
    }
    return false;
}

void hs__buffer_varint(hs__buffer *buffer, uint64_t value)
{
    unsigned char bytes[10];
    hs__buffer_append(buffer, bytes, hs__put_varint(bytes, value));
}

void hs__buffer_fixed32(hs__buffer *buffer, uint32_t value)
{
    unsigned char bytes[4];
    hs__put32(bytes, value);
    hs__buffer_append(buffer, bytes, sizeof bytes);
}

void hs__buffer_fixed64(hs__buffer *buffer, uint64_t value)
{
    unsigned char bytes[8];
    hs__put64(bytes, value);
    hs__buffer_append(buffer, bytes, sizeof bytes);
}
