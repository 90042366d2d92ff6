/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_TESTING_STRING_BUFFER_H
#define HS_TESTING_STRING_BUFFER_H

#include <hooksess/env.h>

/* A text that grows. After a failed allocation, additions are ignored until the text is cleared, and the text ends with
 * HS__REST_LOST. */
#define HS__REST_LOST " (rest lost: out of memory)"

typedef struct hs__string_buffer {
    const hs_env *env; /* complete */
    char *text;        /* NULL: nothing was added */
    size_t length, capacity;
    bool failed;
} hs__string_buffer;

void hs__string_buffer_init(hs__string_buffer *buffer, const hs_env *env);
void hs__string_buffer_free(hs__string_buffer *buffer);
void hs__string_buffer_clear(hs__string_buffer *buffer);
/* Makes room for `bytes` more. Returns false if memory is exhausted. */
bool hs__string_buffer_reserve(hs__string_buffer *buffer, size_t bytes);
void hs__string_buffer_add(hs__string_buffer *buffer, const char *format, ...) HS_PRINTF(2, 3);
/* Returns the text. It is "" if nothing was added. */
const char *hs__string_buffer_text(const hs__string_buffer *buffer);

#endif
