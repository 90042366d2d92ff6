/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOOL_MEMORY_H
#define TOOL_MEMORY_H

#include <hooksess/export.h>
#include <hooksess/tensor.h>

#include <stdarg.h>
#include <stddef.h>

/* Memory and texts on the heap. If memory runs out, these functions print an error and exit the tool. The caller frees
 * the results with free. */

/* realloc of n * size bytes; malloc if `block` is NULL. */
void *must_allocate(void *block, size_t n, size_t size);
/* Makes room for one more element after n. The room doubles, so that n elements are not copied n times. */
void *must_grow(void *block, size_t n, size_t size);
/* Adds a new row to a tree of tsearch. */
void must_add(void *row, void **tree, int (*compare)(const void *a, const void *b));
/* Formats a text like printf. */
char *must_format(const char *format, ...) HS_PRINTF(1, 2);
char *must_format_list(const char *format, va_list arguments) HS_PRINTF(1, 0);
/* Copies a string with a terminating zero. Zero bytes in it become U+FFFD. */
char *text_of(hs_string string);

#endif
