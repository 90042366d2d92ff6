/* SPDX-License-Identifier: Apache-2.0 */
/* The event-file writer: whoever adds an event encodes it into a buffer, and a thread writes buffers to the file.
 *
 * The thread sleeps until there is much to write, somebody waits for a flush, or flush_secs have passed. While it writes
 * one buffer, the other one is filled; what does not fit waits. Records are whole in a buffer, and a buffer is written in
 * one piece, so that the file never has a torn record before good ones: after an error nothing more is written. */
#include <hooksess/summary.h>

#include "base/files.h"
#include "base/thread.h"
#include "base/proto.h"
#include "formats/records.h"
#include "summary/encode.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct hs_summary_writer {
    hs_env env;
    char *path;
    hs__file file;
    pthread_t thread;
    bool has_thread;
    int64_t flush_ns;
    size_t limit;   /* of a buffer */
    hs__buffer log; /* scratch, for messages inside an event; under the lock */

    pthread_mutex_t lock;
    pthread_cond_t wake, done; /* for the thread; for those who wait for it */
    hs__buffer pending;        /* is filled */
    hs__buffer writing;        /* is the thread's, outside the lock too */
    bool closing, sync_wanted, flush_wanted;
    uint64_t added, written, synced; /* bytes since the file was opened */
    int64_t flushed_ns;              /* when a flush was last due, by the monotonic clock */
    hs_error error;                  /* the first */
};

/* The thread. */

static void write_out(hs_summary_writer *writer, bool sync, hs_error *err)
{
    if (writer->writing.size && hs__file_write(&writer->file, writer->writing.data, writer->writing.size, err) != HS_OK)
        return;
    if (sync)
        hs__file_sync(&writer->file, err);
}

static bool has_work(const hs_summary_writer *writer)
{
    return writer->closing || writer->flush_wanted || writer->sync_wanted || writer->pending.size > writer->limit / 2;
}

/* Waits for work, or until it is time to write what there is. */
static void wait_for_work(hs_summary_writer *writer)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t ns = until.tv_nsec + writer->flush_ns % 1000000000;
    until.tv_sec += (time_t)(writer->flush_ns / 1000000000 + ns / 1000000000);
    until.tv_nsec = (long)(ns % 1000000000);
    while (!has_work(writer))
        if (pthread_cond_timedwait(&writer->wake, &writer->lock, &until) != 0)
            return;
}

static void *write_loop(void *user)
{
    hs_summary_writer *writer = user;
    pthread_mutex_lock(&writer->lock);
    for (bool last = false; !last;) {
        wait_for_work(writer);
        hs__buffer full = writer->pending;
        writer->pending = writer->writing;
        writer->writing = full;
        bool sync = writer->sync_wanted || writer->closing, failed = writer->error.code != HS_OK;
        last = writer->closing;
        writer->flush_wanted = writer->sync_wanted = false;
        pthread_cond_broadcast(&writer->done); /* there is room again */
        pthread_mutex_unlock(&writer->lock);
        hs_error error = {0};
        if (!failed)
            write_out(writer, sync, &error);
        pthread_mutex_lock(&writer->lock);
        if (error.code && !writer->error.code)
            writer->error = error;
        writer->written += writer->writing.size;
        if (sync)
            writer->synced = writer->written;
        hs__buffer_clear(&writer->writing);
        pthread_cond_broadcast(&writer->done);
    }
    pthread_mutex_unlock(&writer->lock);
    return NULL;
}

/* Opening and closing. */

#define NAME_PREFIX "events.out.tfevents."

/* The seconds in the names of those files of a directory that come after `name`; -1: none does. */
typedef struct {
    const char *name;
    long long latest;
} successors;

static int note_successor(void *user, const char *name)
{
    enum { DIGITS = 10 };
    const long long LAST_DATE = 9999999999;
    successors *after = user;
    const char *digits = name + sizeof NAME_PREFIX - 1;
    if (strncmp(name, NAME_PREFIX, sizeof NAME_PREFIX - 1) != 0 || strcmp(name, after->name) <= 0 ||
        strspn(digits, "0123456789") != DIGITS)
        return 0;
    long long seconds = strtoll(digits, NULL, 10);
    if (seconds > after->latest && seconds < LAST_DATE) /* with one digit more a name would come before, not after */
        after->latest = seconds;
    return 0;
}

/* The path of a file that comes after all that are there, whatever the clock says: TensorBoard reads a directory's files in
 * the order of their names, and forgets what the runs before had at the steps of a new one. */
static hs_code choose_path(hs_summary_writer *writer, const char *directory, const char *suffix, const char *host,
                           long long *seconds, unsigned count, hs_error *err)
{
    const hs_env *env = &writer->env;
    for (;;) {
        char *name = hs__format(env, NAME_PREFIX "%010lld.%s.%ld.%u%s", *seconds, host, (long)getpid(), count, suffix);
        successors after = {name, -1};
        hs_code code =
            name ? hs__list(env, directory, note_successor, &after, err) : hs__no_memory(err, strlen(directory), "a path");
        if (!code && after.latest < 0 && !(writer->path = hs__path_join(env, directory, name)))
            code = hs__no_memory(err, strlen(directory), "a path");
        hs__free(env, name);
        if (code || after.latest < 0)
            return code;
        *seconds = after.latest + 1;
    }
}

/* Another writer of this process may be given the same name at this very moment: then the count tells them apart. */
static hs_code open_new(hs_summary_writer *writer, const char *directory, const char *suffix, hs_error *err)
{
    char host[128] = "host";
    if (gethostname(host, sizeof host) == 0)
        host[sizeof host - 1] = '\0';
    long long seconds = (long long)(hs_env_realtime_ns(&writer->env) / 1000000000);
    for (unsigned count = 0;; count++) {
        hs_code code = choose_path(writer, directory, suffix, host, &seconds, count, err);
        if (code)
            return code;
        code = hs__file_open(&writer->file, &writer->env, writer->path, HS_OPEN_NEW, err);
        if (code != HS_ALREADY_EXISTS)
            return code;
        hs__free(&writer->env, writer->path);
        writer->path = NULL;
    }
}

static void add_version(hs_summary_writer *writer)
{
    static const char version[] = "brain.Event:2";
    size_t begun = hs__record_begin(&writer->pending);
    hs__encode_event(&writer->pending, hs_env_realtime_ns(&writer->env), 0);
    hs__proto_put_bytes(&writer->pending, HS__EVENT_FILE_VERSION, version, sizeof version - 1);
    hs__record_end(&writer->pending, begun);
}

/* The file and its version record are on disk before anything else is done. */
static hs_code write_version(hs_summary_writer *writer, const char *directory, hs_error *err)
{
    hs_code code;
    add_version(writer);
    if (!(code = hs__buffer_check(&writer->pending, "an event", err)) &&
        !(code = hs__file_write(&writer->file, writer->pending.data, writer->pending.size, err)))
        code = hs__file_sync(&writer->file, err);
    hs__buffer_clear(&writer->pending);
    return code ? code : hs__sync_directory(&writer->env, directory, err);
}

static hs_code start_thread(hs_summary_writer *writer, hs_error *err)
{
    int result = hs__thread_start(&writer->thread, write_loop, writer);
    if (result != 0)
        return hs_error_set_errno(err, result, "%s: cannot start its thread", writer->path);
    writer->has_thread = true;
    return HS_OK;
}

static bool make_locks(hs_summary_writer *writer)
{
    pthread_condattr_t monotonic;
    if (pthread_condattr_init(&monotonic) != 0)
        return false;
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    bool made = pthread_mutex_init(&writer->lock, NULL) == 0;
    if (made && pthread_cond_init(&writer->wake, &monotonic) != 0) {
        pthread_mutex_destroy(&writer->lock);
        made = false;
    }
    if (made && pthread_cond_init(&writer->done, NULL) != 0) {
        pthread_cond_destroy(&writer->wake);
        pthread_mutex_destroy(&writer->lock);
        made = false;
    }
    pthread_condattr_destroy(&monotonic);
    return made;
}

static void free_writer(hs_summary_writer *writer)
{
    hs_env env = writer->env;
    pthread_cond_destroy(&writer->done);
    pthread_cond_destroy(&writer->wake);
    pthread_mutex_destroy(&writer->lock);
    hs__buffer_free(&writer->pending);
    hs__buffer_free(&writer->writing);
    hs__buffer_free(&writer->log);
    hs__free(&env, writer->path);
    hs__free(&env, writer);
}

static hs_summary_writer *new_writer(const hs_env *env, const hs_summary_writer_options *options, hs_error *err)
{
    hs_summary_writer *writer = hs__alloc(env, 1, sizeof *writer);
    if (!writer || !make_locks(writer)) {
        hs__no_memory(err, sizeof *writer, "an event-file writer");
        hs__free(env, writer);
        return NULL;
    }
    writer->env = *env;
    writer->file.env = &writer->env;
    writer->flush_ns = (int64_t)((options->flush_secs > 0 ? options->flush_secs : 120) * 1e9);
    writer->limit = options->queue_bytes > 0 ? (size_t)options->queue_bytes : (size_t)1 << 20;
    writer->flushed_ns = hs_env_monotonic_ns(env);
    hs__buffer *const buffers[] = {&writer->pending, &writer->writing, &writer->log};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        hs__buffer_init(buffers[i], &writer->env);
    return writer;
}

static hs_code check_options(const hs_summary_writer_options *options, hs_error *err)
{
    if (!(options->flush_secs >= 0 && options->flush_secs <= 1e9))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_summary_writer_options.flush_secs is %g", options->flush_secs);
    if (options->queue_bytes < 0)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_summary_writer_options.queue_bytes is %lld",
                            (long long)options->queue_bytes);
    if (options->name_suffix && strchr(options->name_suffix, '/'))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_summary_writer_options.name_suffix '%s' has a '/'",
                            options->name_suffix);
    return HS_OK;
}

hs_summary_writer *hs_summary_writer_open(const char *directory, const hs_summary_writer_options *given, hs_error *err)
{
    hs_summary_writer_options options = {HS_SUMMARY_WRITER_OPTIONS};
    hs_env env;
    hs_error_clear(err);
    if (!directory || !*directory) {
        hs_error_set(err, HS_INVALID_ARGUMENT, "an event-file writer needs a directory");
        return NULL;
    }
    if ((given &&
         hs_struct_take(&options, sizeof options, given, "hs_summary_writer_options", "HS_SUMMARY_WRITER_OPTIONS", err)) ||
        check_options(&options, err) || hs__env_take(&env, options.env, err))
        return NULL;
    hs_summary_writer *writer = new_writer(&env, &options, err);
    if (!writer)
        return NULL;
    const char *suffix = options.name_suffix ? options.name_suffix : "";
    if (hs__make_directories(&writer->env, directory, err) || open_new(writer, directory, suffix, err) ||
        write_version(writer, directory, err) || start_thread(writer, err)) {
        if (writer->file.handle) {
            hs__file_close(&writer->file, NULL);
            hs__file_remove(&writer->env, writer->path); /* nothing is in it */
        }
        free_writer(writer);
        return NULL;
    }
    hs_error_clear(err);
    return writer;
}

const char *hs_summary_writer_path(const hs_summary_writer *writer)
{
    return writer ? writer->path : NULL;
}

hs_code hs_summary_writer_close(hs_summary_writer *writer, hs_error *err)
{
    hs_error_clear(err);
    if (!writer)
        return HS_OK;
    pthread_mutex_lock(&writer->lock);
    writer->closing = true;
    pthread_cond_signal(&writer->wake);
    pthread_mutex_unlock(&writer->lock);
    pthread_join(writer->thread, NULL);
    hs_error closing = {0};
    hs__file_close(&writer->file, &closing);
    hs_code code = hs__error_copy(err, writer->error.code ? &writer->error : &closing);
    free_writer(writer);
    return code;
}

static hs_code no_writer(hs_error *err)
{
    return hs_error_set(err, HS_INVALID_ARGUMENT, "there is no event-file writer (NULL): it was not opened");
}

hs_code hs_summary_writer_flush(hs_summary_writer *writer, bool sync, hs_error *err)
{
    if (!writer)
        return no_writer(err);
    pthread_mutex_lock(&writer->lock);
    uint64_t wanted = writer->added; /* what others add meanwhile is not waited for */
    if (writer->written < wanted || (sync && writer->synced < wanted)) {
        writer->flush_wanted = true;
        writer->sync_wanted |= sync;
        pthread_cond_signal(&writer->wake);
    }
    while (!writer->error.code && (writer->written < wanted || (sync && writer->synced < wanted)))
        pthread_cond_wait(&writer->done, &writer->lock);
    hs_code code = hs__error_copy(err, &writer->error);
    pthread_mutex_unlock(&writer->lock);
    return code;
}

/* Adding events. */

/* If it succeeds the lock is held, there is room in the buffer, and a record is begun. */
static hs_code begin(hs_summary_writer *writer, int64_t step, size_t *begun, hs_error *err)
{
    if (!writer)
        return no_writer(err);
    int64_t now = hs_env_realtime_ns(&writer->env), elapsing = hs_env_monotonic_ns(&writer->env);
    pthread_mutex_lock(&writer->lock);
    while (!writer->error.code && writer->pending.size >= writer->limit)
        pthread_cond_wait(&writer->done, &writer->lock);
    if (writer->error.code) {
        hs_code code = hs__error_copy(err, &writer->error);
        pthread_mutex_unlock(&writer->lock);
        return code;
    }
    if (elapsing - writer->flushed_ns >= writer->flush_ns) {
        writer->flush_wanted = true;
        writer->flushed_ns = elapsing;
    }
    *begun = hs__record_begin(&writer->pending);
    hs__encode_event(&writer->pending, now, step);
    return HS_OK;
}

/* Ends the record, or takes it back if there was no memory for it; unlocks. */
static hs_code end(hs_summary_writer *writer, size_t begun, hs_error *err)
{
    hs__record_end(&writer->pending, begun);
    hs_code code = hs__buffer_check(&writer->pending, "an event", err);
    if (code) {
        writer->pending.size = begun;
        writer->pending.failed = false;
    }
    writer->added += writer->pending.size - begun;
    if (has_work(writer))
        pthread_cond_signal(&writer->wake);
    pthread_mutex_unlock(&writer->lock);
    if (!code)
        hs_error_clear(err);
    return code;
}

static hs_code add_bytes(hs_summary_writer *writer, uint32_t field, const void *data, size_t bytes, int64_t step,
                         hs_error *err)
{
    size_t begun = 0;
    if (bytes && !data)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "an event of %zu bytes has no data", bytes);
    hs_code code = begin(writer, step, &begun, err);
    if (code)
        return code;
    hs__proto_put_bytes(&writer->pending, field, data, bytes);
    return end(writer, begun, err);
}

hs_code hs_summary_writer_scalar(hs_summary_writer *writer, const char *tag, double value, int64_t step, hs_error *err)
{
    size_t begun = 0, tag_bytes = tag ? strlen(tag) : 0;
    if (!tag_bytes)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "a summary value needs a tag");
    hs_code code = begin(writer, step, &begun, err);
    if (code)
        return code;
    hs__buffer_varint(&writer->pending, HS__EVENT_SUMMARY << 3 | 2);
    hs__buffer_varint(&writer->pending, hs__encoded_scalar_bytes(tag_bytes));
    hs__encode_scalar(&writer->pending, tag, tag_bytes, value);
    return end(writer, begun, err);
}

hs_code hs_summary_writer_summary(hs_summary_writer *writer, hs_string summary, int64_t step, hs_error *err)
{
    return add_bytes(writer, HS__EVENT_SUMMARY, summary.data, summary.bytes, step, err);
}

hs_code hs_summary_writer_graph(hs_summary_writer *writer, hs_bytes graph_def, int64_t step, hs_error *err)
{
    return add_bytes(writer, HS__EVENT_GRAPH_DEF, graph_def.data, graph_def.size, step, err);
}

hs_code hs_summary_writer_meta_graph(hs_summary_writer *writer, hs_bytes meta_graph_def, int64_t step, hs_error *err)
{
    return add_bytes(writer, HS__EVENT_META_GRAPH_DEF, meta_graph_def.data, meta_graph_def.size, step, err);
}

hs_code hs_summary_writer_run_metadata(hs_summary_writer *writer, const char *tag, hs_bytes run_metadata, int64_t step,
                                       hs_error *err)
{
    size_t begun = 0;
    if (!tag || !*tag)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "run metadata needs a tag");
    if (run_metadata.size && !run_metadata.data)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "run metadata of %zu bytes has no data", run_metadata.size);
    hs_code code = begin(writer, step, &begun, err);
    if (code)
        return code;
    hs__buffer_clear(&writer->log);
    hs__proto_put_bytes(&writer->log, 1, tag, strlen(tag));
    hs__proto_put_bytes(&writer->log, 2, run_metadata.data, run_metadata.size);
    hs__proto_put_bytes(&writer->pending, HS__EVENT_TAGGED_RUN_METADATA, writer->log.data, writer->log.size);
    writer->pending.failed |= writer->log.failed;
    return end(writer, begun, err);
}

hs_code hs_summary_writer_session_log(hs_summary_writer *writer, hs_session_status status, const char *checkpoint_path,
                                      const char *message, int64_t step, hs_error *err)
{
    size_t begun = 0;
    hs_code code = begin(writer, step, &begun, err);
    if (code)
        return code;
    hs__buffer_clear(&writer->log);
    hs__encode_session_log(&writer->log, status, checkpoint_path, message);
    hs__proto_put_bytes(&writer->pending, HS__EVENT_SESSION_LOG, writer->log.data, writer->log.size);
    writer->pending.failed |= writer->log.failed;
    return end(writer, begun, err);
}
