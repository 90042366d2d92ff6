/* SPDX-License-Identifier: Apache-2.0 */
/* The thread of an event-file writer. Only it writes, syncs and replaces the file. write_loop repeats turns: wait for work,
 * swap the buffers (begin_turn), write without the lock (work), log, and update the status (end_turn). */
#include "summary/writer_inside.h"

#include "base/backoff.h"
#include "base/error.h"
#include "base/thread.h"
#include "formats/records.h"

#include <string.h>
#include <time.h>

enum { SECOND = 1000000000, SLACK = 4096 };

/* One iteration of the thread's loop. */
typedef struct {
    bool sync, closing, last;
    bool wrote;          /* the whole buffer was written */
    bool began;          /* a new file was begun */
    size_t arrived;      /* if the buffer was written in part: bytes of its whole records in the file */
    uint64_t reopens;    /* reopens_wanted when the turn began */
    hs_error error;      /* of the disk */
    const char *deleted; /* path of the file if it was deleted; otherwise NULL */
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

/* Waits for work, for the next flush, or for the next attempt after a failure. */
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

/* Swaps the buffers, unless the last one is not written yet, and accepts the requests of callers. */
static void begin_turn(hs_summary_writer *writer, turn *now)
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

static void work(hs_summary_writer *writer, turn *now)
{
    hs_error *err = &now->error;
    hs__buffer *buffer = &writer->writing;
    if (buffer->size && !writer->status.failing && hs__file_missing(&writer->env, writer->path))
        now->deleted = writer->path; /* no reader would see the events */
    if (writer->status.failing || now->deleted) {
        if (hs__writer_begin_file(writer, err))
            return;
        now->began = true;
    }

    hs__records_seal(buffer->data, buffer->size);
    if (!buffer->size || !hs__file_write(&writer->file, buffer->data, buffer->size, err)) {
        writer->file_bytes += buffer->size;
        now->wrote = true;
    } else { /* find out which records of a partially written buffer readers of the file will see */
        hs_file_stat found;
        uint64_t arrived = 0;
        if (!hs__stat(&writer->env, writer->path, &found, NULL) && found.bytes > writer->file_bytes)
            arrived = found.bytes - writer->file_bytes;
        hs__records_count(buffer->data, arrived < buffer->size ? (size_t)arrived : buffer->size, &now->arrived);
    }

    if (now->wrote && now->sync && !hs__file_sync(&writer->file, err)) {
        hs__error_copy(err, &writer->unsynced);
        hs__clear(&writer->unsynced);
    }
    if (!err->code && now->reopens != writer->reopened && !now->began)
        now->began = !hs__writer_begin_file(writer, err);
}

/* Logs the first failure in a row, and the recovery. Call without the lock, as the logger may call the writer. */
static void log_changes(hs_summary_writer *writer, const turn *now)
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
    if (now->deleted && now->began)
        hs_log(env, HS_LOG_WARNING, "%s was deleted; later events are written to %s", now->deleted, writer->path);
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

/* Updates the status after a turn, and wakes waiting callers. */
static void end_turn(hs_summary_writer *writer, turn *now)
{
    hs__buffer *buffer = &writer->writing;
    if (now->wrote) {
        empty(writer, buffer);
    } else if (now->arrived) { /* move the unwritten rest to the beginning */
        memmove(buffer->data, buffer->data + now->arrived, buffer->size - now->arrived);
        buffer->size -= now->arrived;
        writer->written += now->arrived;
    }
    if (now->error.code) {
        writer->in_a_row++;
        writer->retry_ns = system_ns() + hs__backoff_ns(writer->in_a_row);
        writer->status.failing = true;
        writer->status.failures++;
        writer->status.last_error = now->error;
    } else {
        writer->in_a_row = 0;
        writer->status.failing = false;
        if (now->sync)
            writer->synced = writer->written;
    }
    writer->reopened = now->reopens;
    bool gives_up = now->error.code && (writer->on_error == HS_WRITER_FAILS || now->closing);
    if (gives_up) {
        drop(writer, buffer);
        drop(writer, &writer->pending);
    }
    now->last = writer->closing && (gives_up || (!writer->pending.size && !buffer->size && now->sync));
    pthread_cond_broadcast(&writer->room);
    pthread_cond_broadcast(&writer->done);
}

static void *write_loop(void *user)
{
    hs_summary_writer *writer = user;
    turn now = {0};
    pthread_mutex_lock(&writer->lock);
    while (!now.last) {
        if (writer->status.failing && writer->on_error == HS_WRITER_FAILS) { /* it only waits for its end */
            while (!writer->closing)
                pthread_cond_wait(&writer->wake, &writer->lock);
            break;
        }
        wait_for_work(writer);
        begin_turn(writer, &now);
        pthread_mutex_unlock(&writer->lock);
        work(writer, &now);
        log_changes(writer, &now);
        pthread_mutex_lock(&writer->lock);
        end_turn(writer, &now);
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
