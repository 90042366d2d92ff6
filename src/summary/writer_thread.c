/* SPDX-License-Identifier: Apache-2.0 */
/* The thread of an event-file writer, which does all that is done to its file. */
#include "summary/writer_inside.h"

#include "base/backoff.h"
#include "base/error.h"
#include "base/thread.h"
#include "formats/records.h"

#include <string.h>
#include <time.h>

enum { SECOND = 1000000000, SLACK = 4096 };

/* One turn of it. */
typedef struct {
    bool sync, closing, last;
    bool wrote;       /* all of the buffer is in the file */
    bool began;       /* a file */
    size_t arrived;   /* bytes of the buffer, whole records, if not all was written */
    uint64_t reopens; /* that were asked for until now */
    hs_error error;   /* of the disk */
    const char *gone; /* the file that somebody has removed */
} turn;

static int64_t system_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * SECOND + now.tv_nsec;
}

static bool has_work(const hs_summary_writer *writer)
{
    if (writer->closing || writer->sync_wanted || writer->reopens_wanted != writer->reopened)
        return true;
    return !writer->status.failing && (writer->flush_wanted || writer->pending.size > writer->wake_bytes);
}

void hs__writer_wake(hs_summary_writer *writer)
{
    if (writer->sleeping && has_work(writer)) {
        writer->sleeping = false;
        pthread_cond_signal(&writer->wake);
    }
}

/* Waits for work, or until it is time to write what there is, or to try again. */
static void wait_for_work(hs_summary_writer *writer)
{
    int64_t at = writer->status.failing ? writer->retry_ns : system_ns() + writer->flush_ns;
    struct timespec until = {(time_t)(at / SECOND), (long)(at % SECOND)};
    int result = 0;
    while (result == 0 && !has_work(writer)) {
        writer->sleeping = true;
        result = pthread_cond_timedwait(&writer->wake, &writer->lock, &until);
    }
    writer->sleeping = false;
}

static void take(hs_summary_writer *writer, turn *now)
{
    if (!writer->writing.size) {
        hs__buffer full = writer->pending;
        writer->pending = writer->writing;
        writer->writing = full;
        pthread_cond_broadcast(&writer->room);
    }
    *now = (turn){
        .sync = writer->sync_wanted || writer->closing, .closing = writer->closing, .reopens = writer->reopens_wanted};
    writer->flush_wanted = writer->sync_wanted = false;
}

/* Somebody may have removed the file: what is written to it then is for nobody. */
static bool is_gone(const hs_summary_writer *writer, turn *now)
{
    bool gone = writer->writing.size && hs__file_missing(&writer->env, writer->path);
    now->gone = gone ? writer->path : NULL;
    return gone;
}

/* How much of a buffer that was not written whole is in the file for those who read it. */
static void see_what_arrived(hs_summary_writer *writer, turn *now)
{
    hs_file_stat found;
    if (hs__stat(&writer->env, writer->path, &found, NULL) || found.bytes <= writer->file_bytes)
        return;
    uint64_t arrived = found.bytes - writer->file_bytes;
    size_t limit = arrived < writer->writing.size ? (size_t)arrived : writer->writing.size;
    hs__records_count(writer->writing.data, limit, &now->arrived);
}

static void write_buffer(hs_summary_writer *writer, turn *now)
{
    hs__records_seal(writer->writing.data, writer->writing.size);
    if (writer->writing.size && hs__file_write(&writer->file, writer->writing.data, writer->writing.size, &now->error)) {
        see_what_arrived(writer, now);
        return;
    }
    writer->file_bytes += writer->writing.size;
    now->wrote = true;
}

static void work(hs_summary_writer *writer, turn *now)
{
    hs_error *err = &now->error;
    if (writer->status.failing || is_gone(writer, now)) {
        if (hs__writer_begin_file(writer, err))
            return;
        now->began = true;
    }
    write_buffer(writer, now);
    if (now->wrote && now->sync && !hs__file_sync(&writer->file, err)) {
        hs__error_copy(err, &writer->unsynced);
        hs__clear(&writer->unsynced);
    }
    if (!err->code && now->reopens != writer->reopened && !now->began)
        now->began = !hs__writer_begin_file(writer, err);
}

/* After the lines of the log nothing is said of the same failure until it has passed. No lock is held: the host's logger
 * may do what it likes. */
static void tell(hs_summary_writer *writer, const turn *now)
{
    const hs_env *env = &writer->env;
    if (writer->on_error == HS_WRITER_FAILS)
        return;
    if (now->error.code && !writer->status.failing && !now->closing)
        hs_log(env, HS_LOG_WARNING,
               "event file in %s: %s; training continues and the write is retried; events that do not fit into the queue "
               "are lost",
               writer->directory, now->error.message);
    if (!now->error.code && writer->status.failing)
        hs_log(env, HS_LOG_INFO, "event file in %s: the writer recovered, writing to %s", writer->directory, writer->path);
    if (now->gone && now->began)
        hs_log(env, HS_LOG_WARNING, "%s was deleted; later events are written to %s", now->gone, writer->path);
}

/* The rest of the buffer moves to its beginning. */
static void keep_rest(hs_summary_writer *writer, const turn *now)
{
    hs__buffer *buffer = &writer->writing;
    if (!now->arrived)
        return;
    memmove(buffer->data, buffer->data + now->arrived, buffer->size - now->arrived);
    buffer->size -= now->arrived;
    writer->written += now->arrived;
}

void hs__writer_shrink(const hs_summary_writer *writer, hs__buffer *buffer)
{
    if (buffer->capacity / 4 > writer->limit + SLACK)
        hs__buffer_free(buffer);
    hs__buffer_clear(buffer);
}

static void empty(hs_summary_writer *writer, hs__buffer *buffer)
{
    writer->written += buffer->size;
    hs__writer_shrink(writer, buffer);
}

static void drop(hs_summary_writer *writer, hs__buffer *buffer)
{
    size_t end;
    writer->status.dropped += (int64_t)hs__records_count(buffer->data, buffer->size, &end);
    empty(writer, buffer);
}

static void note_failure(hs_summary_writer *writer, const turn *now)
{
    writer->in_a_row++;
    writer->retry_ns = system_ns() + hs__backoff_ns(writer->in_a_row);
    writer->status.failing = true;
    writer->status.failures++;
    writer->status.last_error = now->error;
}

static void settle(hs_summary_writer *writer, turn *now)
{
    if (now->wrote)
        empty(writer, &writer->writing);
    else
        keep_rest(writer, now);
    if (now->error.code) {
        note_failure(writer, now);
    } else {
        writer->in_a_row = 0;
        writer->status.failing = false;
        if (now->sync)
            writer->synced = writer->written;
    }
    writer->reopened = now->reopens;
    bool gives_up = now->error.code && (writer->on_error == HS_WRITER_FAILS || now->closing);
    if (gives_up) {
        drop(writer, &writer->writing);
        drop(writer, &writer->pending);
    }
    now->last = writer->closing && (gives_up || (!writer->pending.size && !writer->writing.size && now->sync));
    pthread_cond_broadcast(&writer->room);
    pthread_cond_broadcast(&writer->done);
}

/* One that has failed for good does nothing but wait for its end. */
static bool is_broken(const hs_summary_writer *writer)
{
    return writer->status.failing && writer->on_error == HS_WRITER_FAILS;
}

static void *write_loop(void *user)
{
    hs_summary_writer *writer = user;
    turn now = {0};
    pthread_mutex_lock(&writer->lock);
    while (!now.last) {
        if (is_broken(writer)) {
            while (!writer->closing)
                pthread_cond_wait(&writer->wake, &writer->lock);
            break;
        }
        wait_for_work(writer);
        take(writer, &now);
        pthread_mutex_unlock(&writer->lock);
        work(writer, &now);
        tell(writer, &now);
        pthread_mutex_lock(&writer->lock);
        settle(writer, &now);
    }
    pthread_mutex_unlock(&writer->lock);
    return NULL;
}

hs_code hs__writer_start_thread(hs_summary_writer *writer, hs_error *err)
{
    int result = hs__thread_start(&writer->thread, write_loop, writer);
    return result ? hs_error_set_errno(err, result, "%s: cannot start the thread of the event writer", writer->path)
                  : HS_OK;
}
