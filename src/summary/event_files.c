/* SPDX-License-Identifier: Apache-2.0 */
#include "summary/event_files.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    hs__event_files *files;
    size_t known; /* number of files before the update */
    hs_code code;
    hs_error *err;
} addition;

static bool is_new(const addition *adding, const char *name)
{
    const hs__event_files *files = adding->files;
    if (!strstr(name, "tfevents"))
        return false;
    return adding->known == 0 || strcmp(name, hs__path_base(files->paths[adding->known - 1])) > 0;
}

/* True if the path was deleted or is a directory. */
static bool is_not_file(const hs_env *env, const char *path)
{
    hs_file_stat found;
    hs_code code = hs__stat(env, path, &found, NULL);
    return code == HS_NOT_FOUND || (!code && found.is_directory);
}

static int add(void *user, const char *name)
{
    addition *adding = user;
    hs__event_files *files = adding->files;
    if (!is_new(adding, name))
        return 0;
    char *path = hs__path_join(files->env, files->directory, name);
    adding->code =
        path ? hs__reserve(files->env, &files->paths, &files->capacity, files->n + 1, sizeof *files->paths, adding->err)
             : hs__no_memory(adding->err, strlen(name), "a path");
    if (adding->code || is_not_file(files->env, path))
        hs__free(files->env, path);
    else
        files->paths[files->n++] = path;
    return adding->code;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

hs_code hs__event_files_update(hs__event_files *files, hs_error *err)
{
    addition adding = {files, files->n, HS_OK, err};
    if (!files->directory)
        return HS_OK;
    hs_code code = hs__list(files->env, files->directory, add, &adding, err);
    code = adding.code ? adding.code : code;
    if (code) { /* the list may be incomplete */
        while (files->n > adding.known)
            hs__free(files->env, files->paths[--files->n]);
        return code;
    }
    if (files->n > adding.known)
        qsort(files->paths + adding.known, files->n - adding.known, sizeof *files->paths, by_name);
    return HS_OK;
}

static hs_code set_path(hs__event_files *files, const char *path, bool is_directory, hs_error *err)
{
    char *copy = hs__strdup(files->env, path);
    if (!copy)
        return hs__no_memory(err, strlen(path), "a path");
    if (is_directory) {
        files->directory = copy;
        return hs__event_files_update(files, err);
    }
    hs_code code = hs__reserve(files->env, &files->paths, &files->capacity, 1, sizeof *files->paths, err);
    if (code)
        hs__free(files->env, copy);
    else
        files->paths[files->n++] = copy;
    return code;
}

hs_code hs__event_files_open(hs__event_files *files, const hs_env *env, const char *path, hs_error *err)
{
    hs_file_stat found;
    *files = (hs__event_files){.env = env};
    hs_code code = hs__stat(env, path, &found, err);
    if (!code)
        code = set_path(files, path, found.is_directory, err);
    if (code)
        hs__event_files_free(files);
    return code;
}

void hs__event_files_free(hs__event_files *files)
{
    for (size_t i = 0; i < files->n; i++)
        hs__free(files->env, files->paths[i]);
    hs__free(files->env, files->paths);
    hs__free(files->env, files->directory);
    *files = (hs__event_files){.env = files->env};
}
