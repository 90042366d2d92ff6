/* SPDX-License-Identifier: Apache-2.0 */
#include "text.h"

#include <stdarg.h>
#include <stdio.h>

void text_clear(struct text *text)
{
    text->used = 0;
    text->bytes[0] = '\0';
}

void text_add(struct text *text, const char *format, ...)
{
    va_list arguments;
    size_t room = sizeof text->bytes - text->used;
    va_start(arguments, format);
    int length = vsnprintf(text->bytes + text->used, room, format, arguments);
    va_end(arguments);
    if (length >= 0 && (size_t)length < room)
        text->used += (size_t)length;
    else
        text->bytes[text->used] = '\0';
}
