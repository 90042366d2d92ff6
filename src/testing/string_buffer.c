/* SPDX-License-Identifier: Apache-2.0 */
/* A text that grows, for records of calls, logs and traces. */
#include "testing/string_buffer.h"

#include "base/c_locale.h"

#include <stdio.h>
#include <string.h>

void hs__string_buffer_init(hs__string_buffer *buffer, const hs_env *env)
{
    *buffer = (hs__string_buffer){.env = env};
}

void hs__string_buffer_free(hs__string_buffer *buffer)
{
    hs_env_free(buffer->env, buffer->text);
    hs__string_buffer_init(buffer, buffer->env);
}

void hs__string_buffer_clear(hs__string_buffer *buffer)
{
    buffer->length = 0;
    buffer->failed = false;
    if (buffer->text)
        buffer->text[0] = '\0';
}

bool hs__string_buffer_reserve(hs__string_buffer *buffer, size_t bytes)
{
    const hs_allocator *memory = &buffer->env->allocator;
    size_t needed = buffer->length + bytes + sizeof HS__REST_LOST, doubled = 2 * buffer->capacity;
    if (buffer->failed || needed <= buffer->capacity)
        return !buffer->failed;
    size_t capacity = needed > doubled ? needed : doubled;
    char *grown = memory->realloc(memory->user, buffer->text, capacity);
    if (grown) {
        grown[buffer->length] = '\0';
        buffer->text = grown;
        buffer->capacity = capacity;
    }
    buffer->failed = !grown;
    if (buffer->failed && buffer->text)
        strcpy(buffer->text + buffer->length, HS__REST_LOST);
    return grown != NULL;
}

void hs__string_buffer_add(hs__string_buffer *buffer, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = hs__vsnprintf(NULL, 0, format, arguments);
    if (length >= 0 && hs__string_buffer_reserve(buffer, (size_t)length)) {
        hs__vsnprintf(buffer->text + buffer->length, (size_t)length + 1, format, again);
        buffer->length += (size_t)length;
    }
    va_end(again);
    va_end(arguments);
}

const char *hs__string_buffer_text(const hs__string_buffer *buffer)
{
    if (buffer->text)
        return buffer->text;
    return buffer->failed ? HS__REST_LOST : "";
}
