/* SPDX-License-Identifier: Apache-2.0 */
/* A write with SIGPIPE and SIGXFSZ blocked, and the removal of the signals that it has raised. */
#include "base/write_posix.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

void hs__block_write_signals(hs__write_signals *signals)
{
    static const int numbers[] = {SIGPIPE, SIGXFSZ};
    sigset_t both, pending;
    sigemptyset(&both);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaddset(&both, numbers[i]);
    pthread_sigmask(SIG_BLOCK, &both, &signals->mask);
    sigpending(&pending);
    signals->raised = both;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (sigismember(&pending, numbers[i]) == 1)
            sigdelset(&signals->raised, numbers[i]);
}

void hs__unblock_write_signals(const hs__write_signals *signals)
{
    const struct timespec no_wait = {0, 0};
    int error = errno;
    while (sigtimedwait(&signals->raised, NULL, &no_wait) > 0 || errno == EINTR)
        continue;
    pthread_sigmask(SIG_SETMASK, &signals->mask, NULL);
    errno = error;
}

ssize_t hs__write(int descriptor, const void *data, size_t bytes)
{
    hs__write_signals signals;
    ssize_t written;
    hs__block_write_signals(&signals);
    do
        written = write(descriptor, data, bytes);
    while (written < 0 && errno == EINTR);
    hs__unblock_write_signals(&signals);
    return written;
}
