/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_STREAM_H
#define HS_BASE_STREAM_H

#include "base/files.h"

#include <pthread.h>

/* A new file that is written in large pieces, by a thread beside the one that makes what is in it. What is written is
 * gathered in a few buffers: one is filled while others are on their way to the disk. A file that fits in one needs no
 * thread. Buffers and their places in the file are such that the system can write them past its cache. */
enum { HS__STREAM_BUFFER = 1 << 21, HS__STREAM_BUFFERS = 4 };

typedef struct hs__stream {
    const hs_env *env;
    hs__file file;
    void *blocks[HS__STREAM_BUFFERS];           /* what was allocated, */
    unsigned char *buffers[HS__STREAM_BUFFERS]; /* and the aligned buffers in it */
    size_t filling, filled;                     /* which one, and how much of it */

    bool has_thread;
    pthread_t thread;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t changed;
    size_t writing, full; /* the buffer to be written next, and how many there are */
    bool quit, failed;
    hs_error error; /* why; nothing is written after it */
} hs__stream;

/* After a failure too, the stream must be closed. */
hs_code hs__stream_open(hs__stream *stream, const hs_env *env, const char *path, hs_error *err);
/* Copies the bytes. An error may be one of bytes before. */
hs_code hs__stream_write(hs__stream *stream, const void *data, size_t bytes, hs_error *err);
/* Writes what is left, syncs and closes the file. */
hs_code hs__stream_finish(hs__stream *stream, hs_error *err);
/* Ends the thread, frees everything, and closes what is open. The file stays. */
void hs__stream_close(hs__stream *stream);

#endif
