/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_STREAM_H
#define HS_BASE_STREAM_H

#include "base/files.h"

#include <pthread.h>

/* A new file that a background thread writes in large pieces. The caller fills one buffer while the thread writes others. A
 * file that fits in one buffer needs no thread. Buffers are aligned, in memory and in the file, so that the system can
 * bypass its cache. */
enum { HS__STREAM_BUFFER = 1 << 21, HS__STREAM_BUFFERS = 4 };

typedef struct hs__stream {
    const hs_env *env;
    hs__file file;
    void *blocks[HS__STREAM_BUFFERS];           /* as allocated */
    unsigned char *buffers[HS__STREAM_BUFFERS]; /* the aligned buffers in the blocks */
    size_t filling, filled;                     /* index of the buffer that is filled, and its bytes */

    bool has_thread;
    pthread_t thread;
    pthread_mutex_t lock; /* guards all members below */
    pthread_cond_t changed;
    size_t writing, full; /* index of the buffer to write next, and the number of full buffers */
    bool quit, failed;
    hs_error error; /* the first failure; nothing is written after it */
} hs__stream;

/* Close the stream, also after a failure. */
hs_code hs__stream_open(hs__stream *stream, const hs_env *env, const char *path, hs_error *err);
/* Copies the bytes. May return the error of an earlier write. */
hs_code hs__stream_write(hs__stream *stream, const void *data, size_t bytes, hs_error *err);
/* Writes the remaining bytes, syncs and closes the file. */
hs_code hs__stream_finish(hs__stream *stream, hs_error *err);
/* Stops the thread, closes the file if it is open and frees the memory. Does not remove the file. */
void hs__stream_close(hs__stream *stream);

#endif
