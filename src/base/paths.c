/* SPDX-License-Identifier: Apache-2.0 */
/* Paths are split at the last slash. Slashes at the end of a directory do not count. */
#include "base/paths.h"

#include <string.h>

char *hs__path_join(const hs_env *env, const char *directory, const char *name)
{
    size_t length = strlen(directory);
    if (length == 0 || name[0] == '/')
        return hs__strdup(env, name);
    while (length && directory[length - 1] == '/')
        length--;
    return hs__format(env, "%.*s/%s", (int)length, directory, name);
}

const char *hs__path_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The length of the first `length` bytes without the slashes at their end, except the first slash. */
static size_t without_slashes(const char *path, size_t length)
{
    while (length > 1 && path[length - 1] == '/')
        length--;
    return length;
}

size_t hs__path_length_without_slashes(const char *path)
{
    return without_slashes(path, strlen(path));
}

/* Makes *path begin with its directory, and returns the directory's length. */
static size_t directory_length(const char **path)
{
    size_t length = (size_t)(hs__path_base(*path) - *path);
    if (!length)
        *path = ".";
    return length ? without_slashes(*path, length) : 1;
}

char *hs__path_directory(const hs_env *env, const char *path)
{
    const size_t length = directory_length(&path);
    return hs__strndup(env, path, length);
}

bool hs__path_same(const char *path, const char *other)
{
    if (strcmp(hs__path_base(path), hs__path_base(other)) != 0)
        return false;
    size_t length = directory_length(&path);
    return length == directory_length(&other) && strncmp(path, other, length) == 0;
}

bool hs__path_is_in(const char *path, const char *directory)
{
    size_t length = directory_length(&path);
    return length == hs__path_length_without_slashes(directory) && strncmp(path, directory, length) == 0;
}
