/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_SUMMARY_WRITER_INSIDE_H
#define HS_SUMMARY_WRITER_INSIDE_H

#include <hooksess/summary.h>

#include "base/buffer.h"
#include "base/files.h"

#include <pthread.h>

/* The event-file writer: whoever adds an event encodes it into a buffer, and a thread puts in the checksums and writes
 * buffers to the file.
 *
 * The thread sleeps until there is much to write, somebody waits for a flush, or flush_secs have passed. While it writes
 * one buffer, the other one is filled; what does not fit waits, or is dropped. Records are whole in a buffer, and a buffer
 * is written in one piece. After an error a file is never written to again, so that no torn record comes before good ones:
 * what is left of the buffer goes into a new one. */
struct hs_summary_writer {
    hs_env env;
    char *directory; /* without slashes at its end */
    char *suffix;
    pthread_t thread;
    int64_t flush_ns;
    size_t limit;      /* of a buffer */
    size_t wake_bytes; /* so much is worth a write */
    hs_writer_when_full when_full;
    hs_writer_on_error on_error;

    /* The thread's, once it runs. */
    hs__file file;
    uint64_t file_bytes; /* so much of it is good */
    hs__buffer writing;
    hs_error unsynced; /* of a file before it, which no flush has told of */
    int in_a_row;      /* failures */
    int64_t retry_ns;  /* after them, by the system's monotonic clock */

    pthread_mutex_t lock;
    pthread_cond_t wake, room, done; /* for the thread; for those who wait to add; for those who wait for the thread */
    hs__buffer pending;              /* is filled */
    hs__buffer log;                  /* scratch, for messages inside an event */
    char *path;                      /* the thread writes it, under the lock */
    char **old_paths;                /* somebody may have asked for them */
    size_t n_old, old_capacity;
    bool sleeping, closing, sync_wanted, flush_wanted;
    uint64_t added, written, synced; /* bytes since it was opened; what is given up counts as written */
    uint64_t reopens_wanted, reopened;
    int64_t flushed_ns; /* when a flush was last due, by the time stamps */
    hs_writer_status status;

    bool is_shared; /* from the beginning, or never */
    /* Under the lock of those that are. */
    size_t references;
    hs_summary_writer *next;
};

/* Begins a file, whose version record is on disk when this returns, in place of the one before. Failing, that one stays. */
hs_code hs__writer_begin_file(hs_summary_writer *writer, hs_error *err);

hs_code hs__writer_start_thread(hs_summary_writer *writer, hs_error *err);
/* Under the lock: has it something to do? Wakes it if so. */
void hs__writer_wake(hs_summary_writer *writer);

/* Gives back the memory of an event that was larger than all others. The buffer is empty then. */
void hs__writer_shrink(const hs_summary_writer *writer, hs__buffer *buffer);

/* Takes back a hold on a shared writer. False: others have it. */
bool hs__writer_unshare(hs_summary_writer *writer);

#endif
