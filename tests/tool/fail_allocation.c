/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into the tool. The allocation with the number $FAIL_AT fails, counted from 1, and the line "failed" is written
 * to standard error. */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *block, size_t bytes);

static bool fails_now(void)
{
    static long number, fail_at = -1;
    if (fail_at < 0) {
        const char *text = getenv("FAIL_AT");
        fail_at = text ? strtol(text, NULL, 10) : 0;
    }
    if (++number != fail_at)
        return false;
    bool written = write(STDERR_FILENO, "failed\n", 7) == 7;
    errno = ENOMEM;
    return written;
}

void *malloc(size_t bytes)
{
    return fails_now() ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t n, size_t size)
{
    return fails_now() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *block, size_t bytes)
{
    return fails_now() ? NULL : __libc_realloc(block, bytes);
}
