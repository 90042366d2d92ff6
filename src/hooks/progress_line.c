/* SPDX-License-Identifier: Apache-2.0 */
#include "hooks/progress_line.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { MOST_COLUMNS = HS__PROGRESS_COLUMNS, USUAL_COLUMNS = 80, UTF8 = 4 };

void hs__progress_line_init(hs__progress_line *line, int descriptor, bool plain)
{
    line->descriptor = descriptor;
    line->in_place = !plain && isatty(descriptor) == 1;
    atomic_init(&line->dead, false);
    atomic_init(&line->shown, 0);
    pthread_mutex_init(&line->lock, NULL);
    line->bytes = 0;
}

void hs__progress_line_free(hs__progress_line *line)
{
    pthread_mutex_destroy(&line->lock);
}

static void write_once(hs__progress_line *line, const char *text, size_t bytes)
{
    ssize_t written;
    do
        written = write(line->descriptor, text, bytes);
    while (written < 0 && errno == EINTR);
    if (written < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOSPC)
        line->dead = true;
}

/* A pipe without a reader raises SIGPIPE in the thread that writes. Here it is held back and taken away, unless it was
 * waiting before. */
static void put(hs__progress_line *line, const char *text, size_t bytes)
{
    sigset_t pipe, before, waiting;
    int taken;
    if (line->dead)
        return;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigemptyset(&waiting);
    if (sigpending(&waiting) != 0 || sigismember(&waiting, SIGPIPE) == 1 ||
        pthread_sigmask(SIG_BLOCK, &pipe, &before) != 0) {
        write_once(line, text, bytes); /* one more is not noticed */
        return;
    }
    write_once(line, text, bytes);
    if (sigpending(&waiting) == 0 && sigismember(&waiting, SIGPIPE) == 1)
        sigwait(&pipe, &taken);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Asked each time, for windows are pulled about. */
static int columns(const hs__progress_line *line)
{
    int found = 0;
#ifdef TIOCGWINSZ
    struct winsize size;
    if (ioctl(line->descriptor, TIOCGWINSZ, &size) == 0)
        found = size.ws_col;
#endif
    if (found <= 0)
        found = USUAL_COLUMNS;
    return found < MOST_COLUMNS ? found : MOST_COLUMNS;
}

/* Copies text of at most so many columns, in whole characters. Returns its bytes. */
static size_t copy(char *to, const char *text, int most, int *used)
{
    size_t n = 0;
    *used = 0;
    for (const char *at = text; *at; at++) {
        unsigned char byte = (unsigned char)*at;
        bool continues = (byte & 0xC0) == 0x80;
        if (!continues && (*used)++ == most) {
            *used = most;
            break;
        }
        if (continues && n >= (size_t)most * UTF8)
            break; /* no text at all */
        to[n++] = byte < ' ' || byte == 0x7F ? '?' : *at;
    }
    return n;
}

void hs__progress_line_show(hs__progress_line *line, const char *text)
{
    char out[1 + MOST_COLUMNS * UTF8 + MOST_COLUMNS + 1];
    size_t n = 0;
    int used;
    if (!line->in_place) {
        n = copy(out, text, MOST_COLUMNS, &used);
        out[n++] = '\n';
        put(line, out, n);
        return;
    }
    int width = columns(line) - 1; /* a line that is full is wrapped by some */
    out[n++] = '\r';
    n += copy(out + n, text, width, &used);
    pthread_mutex_lock(&line->lock);
    memcpy(line->text, out, n);
    line->bytes = n;
    int before = atomic_exchange(&line->shown, used);
    for (int i = used; i < before && i < width; i++)
        out[n++] = ' ';
    put(line, out, n);
    pthread_mutex_unlock(&line->lock);
}

/* The lock is held. */
static void erase(hs__progress_line *line)
{
    char out[MOST_COLUMNS + 2];
    int shown = atomic_exchange(&line->shown, 0), width = columns(line) - 1;
    if (!shown)
        return;
    int n = shown < width ? shown : width;
    out[0] = '\r';
    memset(out + 1, ' ', (size_t)n);
    out[n + 1] = '\r';
    put(line, out, (size_t)n + 2);
}

void hs__progress_line_clear(hs__progress_line *line)
{
    pthread_mutex_lock(&line->lock);
    erase(line);
    pthread_mutex_unlock(&line->lock);
}

void hs__progress_line_print(hs__progress_line *line, const char *text)
{
    pthread_mutex_lock(&line->lock);
    int shown = atomic_load(&line->shown);
    erase(line);
    put(line, text, strlen(text));
    put(line, "\n", 1);
    if (shown) {
        put(line, line->text, line->bytes);
        atomic_store(&line->shown, shown);
    }
    pthread_mutex_unlock(&line->lock);
}

void hs__progress_line_end(hs__progress_line *line)
{
    pthread_mutex_lock(&line->lock);
    if (atomic_exchange(&line->shown, 0))
        put(line, "\n", 1);
    pthread_mutex_unlock(&line->lock);
}
