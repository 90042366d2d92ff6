/* SPDX-License-Identifier: Apache-2.0 */
/* The life of an event-file writer: opening it with its first file and its thread, sharing it, closing it; and waiting for
 * its thread in hs_summary_writer_flush and _reopen. */
#include "summary/writer_inside.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

enum { WORTH_A_WRITE = 1 << 17 };
static const double LONGEST_SECS = 1e9; /* 30 years */

/* Opening. */

static bool make_locks(hs_summary_writer *writer)
{
    pthread_condattr_t monotonic;
    if (pthread_condattr_init(&monotonic) != 0)
        return false;
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_t *const conditions[] = {&writer->wake, &writer->room, &writer->done};
    size_t n = 0, all = sizeof conditions / sizeof *conditions;
    if (pthread_mutex_init(&writer->lock, NULL) == 0) {
        while (n < all && pthread_cond_init(conditions[n], &monotonic) == 0)
            n++;
        if (n < all)
            pthread_mutex_destroy(&writer->lock);
    }
    pthread_condattr_destroy(&monotonic);
    for (size_t i = 0; n < all && i < n; i++)
        pthread_cond_destroy(conditions[i]);
    return n == all;
}

static void free_writer(hs_summary_writer *writer)
{
    hs_env env = writer->env;
    pthread_cond_destroy(&writer->done);
    pthread_cond_destroy(&writer->room);
    pthread_cond_destroy(&writer->wake);
    pthread_mutex_destroy(&writer->lock);
    hs__buffer_free(&writer->pending);
    hs__buffer_free(&writer->writing);
    hs__buffer_free(&writer->log);
    for (size_t i = 0; i < writer->n_old; i++)
        hs__free(&env, writer->old_paths[i]);
    hs__free(&env, writer->old_paths);
    hs__free(&env, writer->path);
    hs__free(&env, writer->directory);
    hs__free(&env, writer->suffix);
    hs__free(&env, writer);
}

static hs_summary_writer *new_writer(const hs_env *env, const char *directory, const hs_summary_writer_options *options,
                                     hs_error *err)
{
    enum { MOST_RESERVED = 1 << 20, ONE_MORE = 4096 };
    hs_summary_writer *writer = hs__alloc(env, 1, sizeof *writer);
    if (!writer || !make_locks(writer)) {
        hs__no_memory(err, sizeof *writer, "an event-file writer");
        hs__free(env, writer);
        return NULL;
    }
    writer->env = *env;
    writer->generation = hs__fork_generation();
    writer->file.env = &writer->env;
    hs__buffer *const buffers[] = {&writer->pending, &writer->writing, &writer->log};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        hs__buffer_init(buffers[i], &writer->env);
    double secs = options->flush_secs == HS_NEVER ? LONGEST_SECS : options->flush_secs;
    writer->flush_ns = (int64_t)((secs > 0 ? secs : 120) * 1e9);
    writer->limit = options->queue_bytes == HS_NEVER ? SIZE_MAX / 2
                    : options->queue_bytes           ? (size_t)options->queue_bytes
                                                     : (size_t)1 << 20;
    writer->wake_bytes = writer->limit / 2 < WORTH_A_WRITE ? writer->limit / 2 : WORTH_A_WRITE;
    writer->when_full = options->when_full;
    writer->on_error = options->on_error;
    writer->status.retries = options->on_error == HS_WRITER_RETRIES;
    writer->flushed_ns = hs_env_realtime_ns(env);
    writer->directory = hs__strndup(env, directory, hs__path_length_without_slashes(directory));
    writer->suffix = hs__strdup(env, options->name_suffix ? options->name_suffix : "");
    /* Allocates the buffers, so that events allocate nothing unless they are large. A large queue grows as needed. */
    size_t bytes = (writer->limit < MOST_RESERVED ? writer->limit : MOST_RESERVED) + ONE_MORE;
    if (writer->directory && writer->suffix && hs__buffer_room(&writer->pending, bytes) &&
        hs__buffer_room(&writer->writing, bytes))
        return writer;
    hs__no_memory(err, sizeof *writer + strlen(directory), "an event-file writer and its queue");
    free_writer(writer);
    return NULL;
}

static hs_code check_options(const hs_summary_writer_options *options, hs_error *err)
{
    if (!(options->flush_secs >= 0 && options->flush_secs <= LONGEST_SECS) && options->flush_secs != HS_NEVER)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_summary_writer_options.flush_secs is %g; it must be from 0 to 1e9, or HS_NEVER",
                            options->flush_secs);
    if (options->queue_bytes < HS_NEVER)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_summary_writer_options.queue_bytes is %lld; it must be at least 0, or HS_NEVER",
                            (long long)options->queue_bytes);
    if (options->name_suffix && strchr(options->name_suffix, '/'))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_summary_writer_options.name_suffix '%s' contains '/'",
                            options->name_suffix);
    if (options->when_full != HS_WRITER_WAITS && options->when_full != HS_WRITER_DROPS)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_summary_writer_options.when_full is %d, not an hs_writer_when_full",
                            (int)options->when_full);
    if (options->on_error != HS_WRITER_RETRIES && options->on_error != HS_WRITER_FAILS)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_summary_writer_options.on_error is %d, not an hs_writer_on_error",
                            (int)options->on_error);
    return HS_OK;
}

hs_summary_writer *hs_summary_writer_open(const char *directory, const hs_summary_writer_options *given, hs_error *err)
{
    hs_summary_writer_options options = HS_INIT(hs_summary_writer_options);
    hs_env env;
    hs_error_clear(err);
    if (!directory || !*directory) {
        hs_error_set(err, HS_INVALID_ARGUMENT, "the directory of an event file is missing");
        return NULL;
    }
    if ((given && HS_STRUCT_TAKE(hs_summary_writer_options, on_error, &options, given, err)) ||
        check_options(&options, err) || hs__env_copy(&env, options.env, err))
        return NULL;
    hs_summary_writer *writer = new_writer(&env, directory, &options, err);
    if (!writer)
        return NULL;
    if (hs__writer_begin_file(writer, err) || hs__writer_start_thread(writer, err)) {
        if (writer->file.handle) {
            hs__file_close(&writer->file, NULL);
            hs__file_remove(&writer->env, writer->path); /* it has no events */
        }
        free_writer(writer);
        return NULL;
    }
    hs_error_clear(err);
    return writer;
}

/* The shared writers of the process, one per directory, so that hooks of different sessions write to the same file. */

static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static hs_summary_writer *shared;

/* A writer is shared only by callers with the same environment, which must live as long as the writer. */
static bool has_same_env(const hs_env *a, const hs_env *b)
{
    return a->files.ops == b->files.ops && a->files.user == b->files.user && a->allocator.alloc == b->allocator.alloc &&
           a->allocator.realloc == b->allocator.realloc && a->allocator.free == b->allocator.free &&
           a->allocator.user == b->allocator.user && a->clock.monotonic_ns == b->clock.monotonic_ns &&
           a->clock.realtime_ns == b->clock.realtime_ns && a->clock.sleep_ns == b->clock.sleep_ns &&
           a->clock.user == b->clock.user && a->logger.write == b->logger.write && a->logger.user == b->logger.user;
}

/* Finds the writer of a directory and adds a reference. Call with the lock held. In a forked child, the writers of its
 * parent do not count. */
static hs_summary_writer *find_shared(const char *directory, const hs_env *env)
{
    size_t length = hs__path_length_without_slashes(directory);
    for (hs_summary_writer *writer = shared; writer; writer = writer->next)
        if (!hs__is_inherited(writer->generation) && strlen(writer->directory) == length &&
            memcmp(writer->directory, directory, length) == 0 && has_same_env(&writer->env, env)) {
            writer->references++;
            return writer;
        }
    return NULL;
}

hs_summary_writer *hs_summary_writer_shared(const char *directory, const hs_summary_writer_options *given, hs_error *err)
{
    hs_summary_writer_options options = HS_INIT(hs_summary_writer_options);
    hs_env env;
    if ((given && HS_STRUCT_TAKE(hs_summary_writer_options, on_error, &options, given, err)) ||
        hs__env_copy(&env, options.env, err))
        return NULL;
    pthread_mutex_lock(&shared_lock);
    hs_summary_writer *found = directory ? find_shared(directory, &env) : NULL;
    pthread_mutex_unlock(&shared_lock);
    hs_error_clear(err);
    if (found)
        return found;
    /* Opens the file without the lock: the disk may be slow, and a function of the environment may call this function. */
    hs_summary_writer *opened = hs_summary_writer_open(directory, given, err);
    if (!opened)
        return NULL;
    pthread_mutex_lock(&shared_lock);
    found = find_shared(directory, &env); /* another thread may have added one meanwhile */
    if (!found) {
        opened->is_shared = true;
        opened->references = 1;
        opened->next = shared;
        shared = opened;
    }
    pthread_mutex_unlock(&shared_lock);
    if (!found)
        return opened;
    char *path = hs__strdup(&env, hs_summary_writer_path(opened));
    hs_summary_writer_close(opened, NULL);
    if (path)
        hs__file_remove(&env, path); /* it has no events */
    hs__free(&env, path);
    return found;
}

/* Drops a reference to a shared writer. False: other references remain. */
static bool drop_reference(hs_summary_writer *writer)
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

/* Closing. */

hs_code hs_summary_writer_close(hs_summary_writer *writer, hs_error *err)
{
    hs_error_clear(err);
    if (!writer)
        return HS_OK;
    if (hs__is_inherited(writer->generation))
        return hs__refuse_inherited("event writer", err);
    if (writer->is_shared) {
        hs_code code = hs_summary_writer_flush(writer, false, err);
        if (!drop_reference(writer)) /* another thread may free it from here on */
            return code;
    }
    pthread_mutex_lock(&writer->lock);
    writer->closing = true;
    pthread_cond_signal(&writer->wake);
    pthread_mutex_unlock(&writer->lock);
    pthread_join(writer->thread, NULL);
    hs_error closing = {0};
    hs__file_close(&writer->file, &closing);
    bool failed = writer->status.failing;
    if (writer->status.dropped)
        hs_log(&writer->env, HS_LOG_WARNING, "%lld of %lld events of %s were lost%s%s", (long long)writer->status.dropped,
               (long long)writer->status.events, writer->directory, failed ? ": " : "",
               failed ? writer->status.last_error.message : "");
    hs_code code = hs__error_copy(err, failed ? &writer->status.last_error : &closing);
    free_writer(writer);
    return code;
}

/* Using an open writer. */

static hs_code check_writer(const hs_summary_writer *writer, hs_error *err)
{
    if (!writer)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "the event writer is NULL");
    return hs__is_inherited(writer->generation) ? hs__refuse_inherited("event writer", err) : HS_OK;
}

/* The lock of a const writer: the thread may change path and status at any time. */
static pthread_mutex_t *lock_of(const hs_summary_writer *writer)
{
    return (pthread_mutex_t *)&writer->lock;
}

const char *hs_summary_writer_path(const hs_summary_writer *writer)
{
    if (!writer)
        return NULL;
    pthread_mutex_lock(lock_of(writer));
    const char *path = writer->path;
    pthread_mutex_unlock(lock_of(writer));
    return path;
}

hs_writer_status hs_summary_writer_status(const hs_summary_writer *writer)
{
    hs_writer_status status = {0};
    if (!writer)
        return status;
    pthread_mutex_lock(lock_of(writer));
    status = writer->status;
    pthread_mutex_unlock(lock_of(writer));
    return status;
}

/* True if a flush is complete, or waiting longer is useless. `failures` is the number of failures when it began. */
static bool is_over(const hs_summary_writer *writer, uint64_t wanted, bool sync, int64_t failures)
{
    const hs_writer_status *status = &writer->status;
    if (status->failing && writer->on_error == HS_WRITER_FAILS)
        return true;
    return (writer->written >= wanted && (!sync || writer->synced >= wanted)) || status->failures != failures ||
           (status->failing && !sync);
}

hs_code hs_summary_writer_flush(hs_summary_writer *writer, bool sync, hs_error *err)
{
    hs_code code = check_writer(writer, err);
    if (code)
        return code;
    pthread_mutex_lock(&writer->lock);
    uint64_t wanted = writer->added; /* does not wait for events that other threads add during the flush */
    int64_t failures = writer->status.failures;
    while (!is_over(writer, wanted, sync, failures)) {
        writer->flush_wanted = true;
        writer->sync_wanted |= sync;
        hs__writer_wake(writer);
        pthread_cond_wait(&writer->done, &writer->lock);
    }
    bool failed = writer->on_error == HS_WRITER_FAILS ? writer->status.failing
                                                      : writer->written < wanted || (sync && writer->synced < wanted);
    hs_error error = failed ? writer->status.last_error : (hs_error){0};
    pthread_mutex_unlock(&writer->lock);
    return hs__error_copy(err, &error);
}

hs_code hs_summary_writer_reopen(hs_summary_writer *writer, hs_error *err)
{
    hs_code code = check_writer(writer, err);
    if (code)
        return code;
    pthread_mutex_lock(&writer->lock);
    uint64_t wanted = ++writer->reopens_wanted;
    bool broken;
    while (!(broken = writer->status.failing && writer->on_error == HS_WRITER_FAILS) && writer->reopened < wanted) {
        writer->sync_wanted = true;
        hs__writer_wake(writer);
        pthread_cond_wait(&writer->done, &writer->lock);
    }
    hs_error error = writer->status.failing ? writer->status.last_error : (hs_error){0};
    pthread_mutex_unlock(&writer->lock);
    /* After an error, the turn that reopens writes only the rest of the failed buffer. The flush writes the queue. */
    return error.code ? hs__error_copy(err, &error) : hs_summary_writer_flush(writer, true, err);
}
