/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HS_BASE_WRITE_POSIX_H
#define HS_BASE_WRITE_POSIX_H

#include <signal.h>
#include <stddef.h>
#include <sys/types.h>

/* A write to a pipe without a reader raises SIGPIPE, and one above the limit of file sizes raises SIGXFSZ. Both end the
 * process, unless the program handles them. Between these two calls they are blocked in this thread, so that the write only
 * fails, with EPIPE or EFBIG. The program's handlers are neither called nor changed. */
typedef struct hs__write_signals {
    sigset_t mask;   /* of the thread before */
    sigset_t raised; /* the signals that only the write can have raised: those that were not pending before */
} hs__write_signals;

void hs__block_write_signals(hs__write_signals *signals);
/* Keeps errno. */
void hs__unblock_write_signals(const hs__write_signals *signals);

/* As write(), without these signals. Repeats an interrupted call. */
ssize_t hs__write(int descriptor, const void *data, size_t bytes);

#endif
