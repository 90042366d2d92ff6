/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SUMMARY_WRITER_INSIDE_H
#define HS_SUMMARY_WRITER_INSIDE_H

#include <hooksess/summary.h>

#include "base/buffer.h"
#include "base/files.h"
#include "base/forks.h"

#include <pthread.h>

/* The event-file writer. The caller's thread encodes an event into a buffer. The writer's thread adds the checksums and
 * writes buffers to the file.
 *
 * The writer's thread sleeps until a buffer is worth a write, a caller waits for a flush, or flush_secs have passed. While
 * it writes one buffer, callers fill the other. An event that does not fit waits or is dropped. A buffer has whole records
 * and is written in one piece. After an error the file is not written again, so that no intact record follows a torn one:
 * the rest of the buffer is written to a new file. */
struct hs_summary_writer {
    hs_env env;
    char *directory; /* without slashes at the end */
    char *suffix;
    unsigned generation; /* of the process that opened it */
    pthread_t thread;
    int64_t flush_ns;
    size_t limit;      /* maximum size of a buffer */
    size_t wake_bytes; /* the thread wakes up and writes if the buffer is larger */
    hs_writer_when_full when_full;
    hs_writer_on_error on_error;

    /* Owned by the thread while it runs. */
    hs__file file;
    uint64_t file_bytes; /* size of its complete records */
    hs__buffer writing;
    hs_error unsynced; /* error of syncing an earlier file, not reported by a flush yet */
    int in_a_row;      /* failures without a success in between */
    int64_t retry_ns;  /* time of the next attempt, by the system's monotonic clock */

    pthread_mutex_t lock; /* guards all members below */
    pthread_cond_t wake;  /* signals work to the thread */
    pthread_cond_t room;  /* signals room in the buffer to callers that add events */
    pthread_cond_t done;  /* signals progress of the thread to callers that flush */
    hs__buffer pending;   /* filled by callers */
    hs__buffer log;       /* scratch for a message inside an event */
    char *path;           /* of the current file; set by the thread */
    char **old_paths;     /* callers may still use them */
    size_t n_old, old_capacity;
    bool sleeping, closing, sync_wanted, flush_wanted;
    uint64_t added, written, synced; /* bytes since opening; dropped bytes count as written */
    uint64_t reopens_wanted, reopened;
    int64_t flushed_ns; /* time of the event that triggered the last flush */
    hs_writer_status status;

    bool is_shared; /* constant after opening */
    /* Guarded by the lock of the list of shared writers. */
    size_t references;
    hs_summary_writer *next;
};

/* Begins a new file and closes the current one. The version record of the new file is on disk when this returns. After a
 * failure, the current file stays open. */
hs_code hs__writer_begin_file(hs_summary_writer *writer, hs_error *err);

hs_code hs__writer_start_thread(hs_summary_writer *writer, hs_error *err);
/* Wakes the thread if it has work. Call with the lock held. */
void hs__writer_wake(hs_summary_writer *writer);

/* Empties the buffer. Frees its memory if an unusually large event made it grow. */
void hs__writer_shrink(const hs_summary_writer *writer, hs__buffer *buffer);

#endif
