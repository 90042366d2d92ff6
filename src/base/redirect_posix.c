/* SPDX-License-Identifier: Apache-2.0 */
/* A list of redirections, the newest first; hs__redirected applies the first one that matches. */
#define _XOPEN_SOURCE 700 /* realpath */
#include "base/redirect_posix.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct redirection {
    const struct redirection *next;
    char from[PATH_MAX], to[PATH_MAX], except[PATH_MAX];
} redirection;

static _Atomic(const redirection *) newest; /* never freed */

/* Makes a path absolute and removes "." and double slashes, but not links and "..". False: the path is too long. */
static bool make_absolute(const char *path, char out[PATH_MAX])
{
    size_t used = 0;
    if (*path != '/') {
        if (!getcwd(out, PATH_MAX))
            return false;
        used = out[1] ? strlen(out) : 0;
    }
    for (size_t length; *path; path += length) {
        path += strspn(path, "/");
        length = strcspn(path, "/");
        if (!length || (length == 1 && *path == '.'))
            continue;
        if (used + length + 2 > PATH_MAX)
            return false;
        out[used++] = '/';
        memcpy(out + used, path, length);
        used += length;
    }
    out[used] = '\0';
    return true;
}

static bool is_in(const char *path, const char *directory)
{
    size_t length = strlen(directory);
    return strncmp(path, directory, length) == 0 && (!path[length] || path[length] == '/');
}

static hs_code add(const char *from, const char *to, const char *except, hs_error *err)
{
    redirection *made = calloc(1, sizeof *made);
    if (!made)
        return hs__no_memory(err, sizeof *made, "a redirection");
    if (!make_absolute(from, made->from) || !make_absolute(to, made->to) || !make_absolute(except, made->except)) {
        free(made);
        return hs_error_set_errno(err, ENAMETOOLONG, "%s: cannot redirect it to %s", from, to);
    }
    made->next = atomic_load(&newest);
    atomic_store(&newest, made);
    return HS_OK;
}

hs_code hs__redirect_files(const char *from, const char *to, const char *except, hs_error *err)
{
    char *real = realpath(from, NULL); /* hooks may use the path without links */
    hs_code code = add(from, to, except, err);
    if (!code && real)
        code = add(real, to, except, err);
    free(real);
    return code;
}

const char *hs__redirected(const char *path, char buffer[PATH_MAX])
{
    char whole[PATH_MAX];
    const redirection *r = atomic_load(&newest);
    if (!r || !make_absolute(path, whole))
        return path;
    for (; r; r = r->next) {
        if (!is_in(whole, r->from) || is_in(whole, r->except))
            continue;
        int length = snprintf(buffer, PATH_MAX, "%s%s", r->to, whole + strlen(r->from));
        return length < PATH_MAX ? buffer : "";
    }
    return path;
}
