/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_BUFFER_H
#define HS_BASE_BUFFER_H

#include "base/env.h"

/* A growing array of bytes. If an append fails, `failed` stays set and later appends do nothing: check once, after the last
 * one. */
typedef struct hs__buffer {
    const hs_env *env;
    unsigned char *data;
    size_t size, capacity;
    bool failed;
} hs__buffer;

void hs__buffer_init(hs__buffer *buffer, const hs_env *env);
void hs__buffer_free(hs__buffer *buffer);
/* Empties the buffer and keeps its memory. */
void hs__buffer_clear(hs__buffer *buffer);
/* Reserves `bytes` more after the contents and returns their address. NULL: out of memory. The size does not change. */
unsigned char *hs__buffer_room(hs__buffer *buffer, size_t bytes);
void hs__buffer_append(hs__buffer *buffer, const void *data, size_t bytes);
/* The same, as a place for json_writer.h to write to. */
void hs__buffer_put(void *buffer, const char *text, size_t bytes);
void hs__buffer_text(hs__buffer *buffer, const char *format, ...) HS_PRINTF(2, 3);
/* RESOURCE_EXHAUSTED if an append failed; the message names `what`. */
hs_code hs__buffer_check(const hs__buffer *buffer, const char *what, hs_error *err);

/* Little-endian numbers and protobuf's varints. */
void hs__buffer_varint(hs__buffer *buffer, uint64_t value);
void hs__buffer_fixed32(hs__buffer *buffer, uint32_t value);
void hs__buffer_fixed64(hs__buffer *buffer, uint64_t value);

static inline void hs__put32(unsigned char *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (unsigned char)(value >> 8 * i);
}

static inline void hs__put64(unsigned char *to, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        to[i] = (unsigned char)(value >> 8 * i);
}

static inline uint32_t hs__get32(const unsigned char *from)
{
    return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

static inline uint64_t hs__get64(const unsigned char *from)
{
    return hs__get32(from) | (uint64_t)hs__get32(from + 4) << 32;
}

/* Writes a varint of at most 10 bytes. Returns its length. */
size_t hs__put_varint(unsigned char *to, uint64_t value);
/* Reads a varint from [*at, end) and moves *at behind it. False if it is truncated or too long. */
bool hs__get_varint(const unsigned char **at, const unsigned char *end, uint64_t *value);

#endif
