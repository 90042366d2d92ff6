/* SPDX-License-Identifier: Apache-2.0 */
/* The directories of a saver: each has its own list of kept checkpoints, last path and lock. */
#include "checkpoint/saver.h"

#include "base/files.h"

#include <string.h>

hs__saver_directory *hs__saver_find_directory(const hs_saver *saver, const char *path)
{
    hs__saver_directory *found = saver->directories;
    while (found && !hs__path_is_in(path, found->path))
        found = found->next;
    return found;
}

static hs__saver_directory *make(hs_saver *saver, const char *path)
{
    hs__saver_directory *made = hs__alloc(&saver->env, 1, sizeof *made);
    char *name = hs__path_directory(&saver->env, path);
    if (!made || !name) {
        hs__free(&saver->env, made);
        hs__free(&saver->env, name);
        return NULL;
    }
    *made = (hs__saver_directory){.saver = saver, .path = name, .last_preserved = saver->created};
    atomic_init(&made->has_result, false);
    return made;
}

hs__saver_directory *hs__saver_use_directory(hs_saver *saver, const char *path, hs_error *err)
{
    hs__saver_directory *used = hs__saver_find_directory(saver, path), **at = &saver->directories;
    if (!used && !(used = make(saver, path))) {
        hs__no_memory(err, strlen(path), "a directory of a saver");
        return NULL;
    }
    while (*at && *at != used)
        at = &(*at)->next;
    if (*at)
        *at = used->next;
    used->next = saver->directories;
    return saver->directories = used;
}

hs_code hs__saver_hold_directory(hs__saver_directory *directory, const char *base, const void *session, hs_error *err)
{
    const hs_env *env = &directory->saver->env;
    for (hs__saver_directory *other = directory->saver->directories; other; other = other->next)
        if (other != directory && !other->stays_held)
            hs__release_directory(&other->held, env);
    hs_code code = hs__hold_directory(&directory->held, env, directory->path, base, err);
    if (!code && session && !hs__lock_is_open_to(env, directory->held.lock, session))
        code = hs_error_set(err, HS_FAILED_PRECONDITION,
                            "cannot save to '%s': another session of this process saves there; close it first, or use "
                            "another directory",
                            directory->path);
    return code;
}

void hs__saver_free_directories(hs_saver *saver)
{
    const hs_env *env = &saver->env;
    while (saver->directories) {
        hs__saver_directory *first = saver->directories;
        saver->directories = first->next;
        hs__release_directory(&first->held, env);
        for (size_t i = 0; i < first->n_kept; i++)
            hs__free(env, first->kept[i].path);
        hs__free(env, first->kept);
        hs__free(env, first->last_path);
        hs__free(env, first->state_file);
        hs__free(env, first->path);
        hs__free(env, first);
    }
}
