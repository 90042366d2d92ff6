/* SPDX-License-Identifier: Apache-2.0 */
/* Memory and texts on the heap. must_be exits the tool if memory runs out. */
#include "memory.h"
#include "command.h"
#include "output.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

static void must_be(const void *memory)
{
    if (!memory) {
        say("out of memory");
        exit(TROUBLE);
    }
}

void *must_allocate(void *block, size_t n, size_t size)
{
    void *grown = size == 0 || n <= SIZE_MAX / size ? realloc(block, n && size ? n * size : 1) : NULL;
    must_be(grown);
    return grown;
}

void *must_grow(void *block, size_t n, size_t size)
{
    bool is_full = (n & (n - 1)) == 0; /* a power of two, or 0 */
    return is_full ? must_allocate(block, n ? 2 * n : 1, size) : block;
}

void must_add(void *row, void **tree, int (*compare)(const void *a, const void *b))
{
    must_be(tsearch(row, tree, compare));
}

char *must_format_list(const char *format, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    size_t bytes = (size_t)vsnprintf(NULL, 0, format, arguments) + 1;
    char *text = must_allocate(NULL, bytes, 1);
    vsnprintf(text, bytes, format, again);
    va_end(again);
    return text;
}

char *must_format(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = must_format_list(format, arguments);
    va_end(arguments);
    return text;
}

char *text_of(hs_string string)
{
    char *text = must_allocate(NULL, string.bytes + 1, 3);
    size_t used = 0;
    for (size_t i = 0; i < string.bytes; i++) {
        if (string.data[i]) {
            text[used++] = string.data[i];
        } else { /* U+FFFD */
            memcpy(text + used, "\xef\xbf\xbd", 3);
            used += 3;
        }
    }
    text[used] = '\0';
    return text;
}
