/* SPDX-License-Identifier: Apache-2.0 */
/* The shared writers of the process, one per directory, so that hooks of different sessions write to the same file. */
#include "summary/writer_inside.h"

#include <string.h>

static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static hs_summary_writer *shared;

/* A writer is shared only by callers with the same environment, which must live as long as the writer. */
static bool same_env(const hs_env *a, const hs_env *b)
{
    return a->files.ops == b->files.ops && a->files.user == b->files.user && a->allocator.alloc == b->allocator.alloc &&
           a->allocator.realloc == b->allocator.realloc && a->allocator.free == b->allocator.free &&
           a->allocator.user == b->allocator.user && a->clock.monotonic_ns == b->clock.monotonic_ns &&
           a->clock.realtime_ns == b->clock.realtime_ns && a->clock.sleep_ns == b->clock.sleep_ns &&
           a->clock.user == b->clock.user && a->logger.write == b->logger.write && a->logger.user == b->logger.user;
}

/* Finds the writer of a directory and adds a reference. Call with the lock held. */
static hs_summary_writer *find(const char *directory, const hs_env *env)
{
    size_t length = hs__path_length_without_slashes(directory);
    for (hs_summary_writer *writer = shared; writer; writer = writer->next)
        if (strlen(writer->directory) == length && memcmp(writer->directory, directory, length) == 0 &&
            same_env(&writer->env, env)) {
            writer->references++;
            return writer;
        }
    return NULL;
}

static hs_summary_writer *find_locked(const char *directory, const hs_env *env)
{
    pthread_mutex_lock(&shared_lock);
    hs_summary_writer *found = find(directory, env);
    pthread_mutex_unlock(&shared_lock);
    return found;
}

/* Adds a new writer to the list. If another thread has added one meanwhile, returns that one. */
static hs_summary_writer *share(hs_summary_writer *opened, const char *directory)
{
    pthread_mutex_lock(&shared_lock);
    hs_summary_writer *found = find(directory, &opened->env);
    if (!found) {
        opened->is_shared = true;
        opened->references = 1;
        opened->next = shared;
        shared = opened;
    }
    pthread_mutex_unlock(&shared_lock);
    return found ? found : opened;
}

hs_summary_writer *hs_summary_writer_shared(const char *directory, const hs_summary_writer_options *given, hs_error *err)
{
    hs_summary_writer_options options = HS_INIT(hs_summary_writer_options);
    hs_env env;
    if ((given && HS_STRUCT_TAKE(hs_summary_writer_options, on_error, &options, given, err)) ||
        hs__env_take(&env, options.env, err))
        return NULL;
    hs_summary_writer *found = directory ? find_locked(directory, &env) : NULL;
    hs_error_clear(err);
    if (found)
        return found;
    /* Without the lock: the disk may be slow, and a function of the environment may need a writer itself. */
    hs_summary_writer *opened = hs_summary_writer_open(directory, given, err);
    if (!opened || (found = share(opened, directory)) == opened)
        return opened;
    char *path = hs__strdup(&env, hs_summary_writer_path(opened));
    hs_summary_writer_close(opened, NULL);
    if (path)
        hs__file_remove(&env, path); /* it has no events */
    hs__free(&env, path);
    return found;
}

bool hs__writer_unshare(hs_summary_writer *writer)
{
    pthread_mutex_lock(&shared_lock);
    bool last = --writer->references == 0;
    for (hs_summary_writer **at = &shared; last && *at; at = &(*at)->next)
        if (*at == writer) {
            *at = writer->next;
            break;
        }
    pthread_mutex_unlock(&shared_lock);
    return last;
}
