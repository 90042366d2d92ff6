/* SPDX-License-Identifier: Apache-2.0 */
/* hs__stream_write fills buffers. A full one goes to the thread (enqueue), which `work` writes; without a thread, the
 * caller writes it. */
#include "base/stream.h"

#include "base/thread.h"

#include <string.h>

enum { ALIGNMENT = 4096 }; /* of memory, file offsets and sizes; enough for all disks */

hs_code hs__stream_open(hs__stream *stream, const hs_env *env, const char *path, hs_error *err)
{
    *stream = (hs__stream){.env = env};
    return hs__file_open(&stream->file, env, path, HS_OPEN_WRITE, err);
}

static void *work(void *user)
{
    hs__stream *stream = user;
    pthread_mutex_lock(&stream->lock);
    for (;;) {
        while (!stream->full && !stream->quit)
            pthread_cond_wait(&stream->changed, &stream->lock);
        if (!stream->full)
            break;
        const unsigned char *buffer = stream->failed ? NULL : stream->buffers[stream->writing];
        hs_error error;
        pthread_mutex_unlock(&stream->lock);
        hs_code code = buffer ? hs__file_write(&stream->file, buffer, HS__STREAM_BUFFER, &error) : HS_OK;
        pthread_mutex_lock(&stream->lock);
        if (code) {
            stream->failed = true;
            stream->error = error;
        }
        stream->writing = (stream->writing + 1) % HS__STREAM_BUFFERS;
        stream->full--;
        pthread_cond_signal(&stream->changed);
    }
    pthread_mutex_unlock(&stream->lock);
    return NULL;
}

/* If no thread can be started, the caller writes. */
static void start_thread(hs__stream *stream)
{
    if (pthread_mutex_init(&stream->lock, NULL))
        return;
    if (!pthread_cond_init(&stream->changed, NULL)) {
        stream->writing = stream->filling; /* earlier buffers were written without a thread */
        if (!hs__thread_start(&stream->thread, work, stream)) {
            stream->has_thread = true;
            return;
        }
        pthread_cond_destroy(&stream->changed);
    }
    pthread_mutex_destroy(&stream->lock);
}

/* Enqueues `more` full buffers, and waits until at most `unwritten` of them remain. */
static hs_code enqueue(hs__stream *stream, size_t more, size_t unwritten, hs_error *err)
{
    pthread_mutex_lock(&stream->lock);
    stream->full += more;
    pthread_cond_signal(&stream->changed);
    while (stream->full > unwritten)
        pthread_cond_wait(&stream->changed, &stream->lock);
    hs_code code = stream->failed ? hs__error_copy(err, &stream->error) : HS_OK;
    pthread_mutex_unlock(&stream->lock);
    return code;
}

hs_code hs__stream_write(hs__stream *stream, const void *data, size_t bytes, hs_error *err)
{
    const unsigned char *from = data;
    while (bytes) {
        hs_code code = HS_OK;
        unsigned char **buffer = &stream->buffers[stream->filling];
        if (stream->filled == HS__STREAM_BUFFER) {
            if (!stream->has_thread)
                start_thread(stream);
            code = stream->has_thread ? enqueue(stream, 1, HS__STREAM_BUFFERS - 1, err)
                                      : hs__file_write(&stream->file, *buffer, HS__STREAM_BUFFER, err);
            stream->filling = (stream->filling + 1) % HS__STREAM_BUFFERS;
            stream->filled = 0;
            if (code)
                return code;
            buffer = &stream->buffers[stream->filling];
        }
        if (!*buffer) {
            const size_t size = HS__STREAM_BUFFER + ALIGNMENT;
            unsigned char *block = stream->blocks[stream->filling] = hs__realloc(stream->env, NULL, size, 1);
            if (!block)
                return hs__no_memory(err, size, "a buffer to write from");
            *buffer = block + (ALIGNMENT - (uintptr_t)block % ALIGNMENT) % ALIGNMENT;
        }
        size_t room = HS__STREAM_BUFFER - stream->filled, n = bytes < room ? bytes : room;
        memcpy(*buffer + stream->filled, from, n);
        stream->filled += n;
        from += n;
        bytes -= n;
    }
    return HS_OK;
}

hs_code hs__stream_finish(hs__stream *stream, hs_error *err)
{
    const unsigned char *rest = stream->buffers[stream->filling];
    size_t whole = stream->filled / ALIGNMENT * ALIGNMENT, odd = stream->filled - whole;
    hs_code code = stream->has_thread ? enqueue(stream, 0, 0, err) : HS_OK;
    if (!code && whole)
        code = hs__file_write(&stream->file, rest, whole, err);
    if (!code && odd)
        code = hs__file_write(&stream->file, rest + whole, odd, err);
    if (!code)
        code = hs__file_sync(&stream->file, err);
    hs_code closed = hs__file_close(&stream->file, code ? NULL : err);
    return code ? code : closed;
}

void hs__stream_close(hs__stream *stream)
{
    if (stream->has_thread) {
        pthread_mutex_lock(&stream->lock);
        stream->quit = true;
        pthread_cond_signal(&stream->changed);
        pthread_mutex_unlock(&stream->lock);
        pthread_join(stream->thread, NULL);
        pthread_cond_destroy(&stream->changed);
        pthread_mutex_destroy(&stream->lock);
    }
    hs__file_close(&stream->file, NULL);
    for (size_t i = 0; i < HS__STREAM_BUFFERS; i++)
        hs__free(stream->env, stream->blocks[i]);
    *stream = (hs__stream){.env = stream->env};
}
