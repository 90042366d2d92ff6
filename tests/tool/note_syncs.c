/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into the tool. For each sync, prints the path of the file on standard error and appends a byte to the file
 * $GROWS. When the tool closes the file $VANISHES, removes it. While the tool compacts events to the directory $OUTPUTS, no
 * block of $LACKS bytes can be allocated. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *path_of(int descriptor)
{
    static char path[4096];
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = '\0';
    return path;
}

int fsync(int descriptor)
{
    dprintf(STDERR_FILENO, "synced %s\n", path_of(descriptor));
    const char *grows = getenv("GROWS");
    FILE *file = grows ? fopen(grows, "a") : NULL;
    if (file) {
        fputc('x', file);
        fclose(file);
    }
    return (int)syscall(SYS_fsync, descriptor);
}

int close(int descriptor)
{
    const char *vanishes = getenv("VANISHES");
    if (vanishes && strcmp(path_of(descriptor), vanishes) == 0)
        unlink(vanishes);
    return (int)syscall(SYS_close, descriptor);
}

static int lacks(size_t bytes)
{
    const char *outputs = getenv("OUTPUTS"), *lacking = getenv("LACKS");
    char path[4096];
    if (!outputs || !lacking || strtoull(lacking, NULL, 10) != bytes)
        return 0;
    snprintf(path, sizeof path, "%s/hooksess-compact.%ld.tmp", outputs, (long)getpid());
    return access(path, F_OK) == 0;
}

void *malloc(size_t bytes)
{
    static void *(*next)(size_t);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "malloc");
    return lacks(bytes) ? NULL : next(bytes);
}

void *realloc(void *block, size_t bytes)
{
    static void *(*next)(void *, size_t);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "realloc");
    return !block && lacks(bytes) ? NULL : next(block, bytes);
}
