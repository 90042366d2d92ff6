/* SPDX-License-Identifier: Apache-2.0 */
/* The rows come from scalar_rows.c. show formats them, with the rate that measure computes; show_line puts them on the line
 * of a terminal or below the previous one. hs_progress_print and hs_progress_clear let other threads print. */
#include <hooksess/hooks/progress.h>

#include "base/terminal.h"
#include "base/text.h"
#include "base/trigger.h"
#include "base/write_posix.h"
#include "hooks/ranks.h"
#include "hooks/scalar_rows.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* The line: rewritten in place on a terminal, otherwise printed below the previous one. Errors are ignored. */

/* Wider lines are cut. A character has at most UTF8 bytes. */
enum { MOST_COLUMNS = HS__MOST_COLUMNS, UTF8 = 4 };

typedef struct {
    int descriptor;
    bool in_place;     /* the descriptor is a terminal */
    atomic_bool dead;  /* a write failed: the reader has closed the pipe, for example */
    atomic_int *shown; /* columns of the line on the terminal: hs__stderr_line or the next */
    atomic_int own_shown;
    pthread_mutex_t lock; /* guards `text` and `bytes`, and keeps writes to a terminal in order */
    size_t bytes;
    char text[1 + MOST_COLUMNS * UTF8]; /* the line on the terminal, from the carriage return on */
} progress_line;

static void put(progress_line *line, const char *text, size_t bytes)
{
    if (!line->dead && hs__write(line->descriptor, text, bytes) < 0 && errno != EAGAIN && errno != EWOULDBLOCK &&
        errno != ENOSPC)
        line->dead = true;
}

/* Copies complete characters of text, up to `most` columns. Control characters become '?'. Returns the bytes. */
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
            break; /* not UTF-8 */
        to[n++] = byte < ' ' || byte == 0x7F ? '?' : *at;
    }
    return n;
}

static void show_line(progress_line *line, const char *text)
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
    int width = hs__terminal_columns(line->descriptor) - 1; /* some terminals wrap a full line */
    out[n++] = '\r';
    n += copy(out + n, text, width, &used);
    pthread_mutex_lock(&line->lock);
    memcpy(line->text, out, n);
    line->bytes = n;
    int before = atomic_exchange(line->shown, used);
    for (int i = used; i < before && i < width; i++)
        out[n++] = ' ';
    put(line, out, n);
    pthread_mutex_unlock(&line->lock);
}

/* Call with the lock held. */
static void erase(progress_line *line)
{
    char out[HS__BLANKS];
    put(line, out, hs__blank_line(out, line->descriptor, atomic_exchange(line->shown, 0)));
}

/* The line stays above the next text. */
static void end_line(progress_line *line)
{
    pthread_mutex_lock(&line->lock);
    if (atomic_exchange(line->shown, 0))
        put(line, "\n", 1);
    pthread_mutex_unlock(&line->lock);
}

/* The hook. */

enum { TEXT = 2000 };

/* Seconds after which the weight of a measurement is halved. */
static const double HALF_LIFE = 30;

/* Least time between two rewrites of the line of a terminal. */
static const double REWRITE_SECS = 0.2;

/* Seconds between two lines elsewhere. */
static const double PLAIN_SECS = 10;

typedef struct {
    hs__scalar_rows rows;
    progress_line line;
    int64_t last_step;            /* 0: unknown */
    int64_t begin_step, begin_ns; /* of the last row. -1: none */
    int64_t seen_step, seen_ns;   /* the rate is measured from here */
    double steps, secs;           /* weighted; steps / secs is the rate */
    int bar;                      /* its width; 0: no bar */
    int bar_columns;              /* of the terminal for which `bar` was chosen */
} progress;

/* Measures the rate. After a recovery, the measurement starts again. */
static void measure(progress *hook, const hs_scalar_row *row)
{
    if (row->begin_ns != hook->begin_ns || row->begin_step != hook->begin_step) {
        hook->begin_step = hook->seen_step = row->begin_step;
        hook->begin_ns = hook->seen_ns = row->begin_ns;
        hook->steps = hook->secs = 0;
    }
    double secs = (double)(row->now_ns - hook->seen_ns) / 1e9, kept = exp2(-secs / HALF_LIFE);
    hook->steps = hook->steps * kept + (double)(row->step - hook->seen_step);
    hook->secs = hook->secs * kept + secs;
    hook->seen_step = row->step;
    hook->seen_ns = row->now_ns;
}

/* "1:43", "2:00:03", "5d 01:00:00". */
static void append_time(char text[TEXT], double secs)
{
    if (!(secs < 1e9)) {
        hs__append(text, TEXT, "years");
        return;
    }
    long long all = (long long)(secs + 0.5), days = all / 86400, hours = all / 3600 % 24, minutes = all / 60 % 60;
    if (days)
        hs__append(text, TEXT, "%lldd %02lld:%02lld:%02lld", days, hours, minutes, all % 60);
    else if (hours)
        hs__append(text, TEXT, "%lld:%02lld:%02lld", hours, minutes, all % 60);
    else
        hs__append(text, TEXT, "%lld:%02lld", minutes, all % 60);
}

static void append_rate(char text[TEXT], double rate)
{
    char number[HS__NUMBER_TEXT];
    hs__append(text, TEXT, ", %s steps/s", hs__rate_text(number, rate));
}

/* Columns of a text in UTF-8. */
static int columns_of(const char *text)
{
    int n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xC0) != 0x80;
    return n;
}

/* The bar is chosen for a line with `taken` columns of text, and leaves some more for longer numbers. Later lines only
 * shorten it, because it would jump with each number; a terminal of another width gets another bar. */
static void fit_bar(progress *hook, int taken)
{
    enum { LONG_BAR = 30, SHORT_BAR = 15, AROUND = 3, RESERVE = 4 };
    const int now = hs__terminal_columns(hook->line.descriptor);
    int room = now - 1 - taken - AROUND;
    if (now != hook->bar_columns) {
        hook->bar = LONG_BAR;
        hook->bar_columns = now;
        room -= RESERVE;
    }
    if (room < hook->bar)
        hook->bar = room >= SHORT_BAR && hook->bar ? SHORT_BAR : 0;
}

/* Appends a bar, " [=====>    ]", if the terminal has columns for it behind the text and before `rest`. */
static void append_bar(progress *hook, char text[TEXT], const char *rest, int64_t step)
{
    if (!hook->line.in_place || !hook->last_step)
        return;
    fit_bar(hook, columns_of(text) + columns_of(rest));
    const int width = hook->bar;
    if (!width)
        return;
    const double done = (double)step / (double)hook->last_step;
    const int full = done >= 1 ? width : (int)(done * width);
    hs__append(text, TEXT, " [%.*s%s%*s]", full, "==============================", full < width ? ">" : "",
               full < width ? width - full - 1 : 0, "");
}

/* Shows the step, the bar, and `rest`. */
static void show_step(progress *hook, int64_t step, const char *rest)
{
    char text[TEXT] = "";
    hs__append(text, TEXT, "step %lld", (long long)step);
    if (hook->last_step)
        hs__append(text, TEXT, "/%lld %.1f%%", (long long)hook->last_step, 100.0 * (double)step / (double)hook->last_step);
    append_bar(hook, text, rest, step);
    hs__append(text, TEXT, "%s", rest);
    show_line(&hook->line, text);
}

static hs_code show(void *self, const hs_scalar_row *row, hs_error *err)
{
    progress *hook = self;
    char text[TEXT] = "";
    (void)err;
    measure(hook, row);
    double rate = hook->secs > 0 ? hook->steps / hook->secs : 0;
    if (rate > 0)
        append_rate(text, rate);
    if (rate > 0 && hook->last_step > row->step) {
        hs__append(text, TEXT, ", ");
        append_time(text, (double)(hook->last_step - row->step) / rate);
        hs__append(text, TEXT, " left");
    }
    for (const hs_scalar *scalar = row->scalars; scalar->name; scalar++)
        if (scalar->known)
            hs__append(text, TEXT, ", %s = %.4g", scalar->name, scalar->value);
    show_step(hook, row->step, text);
    return hook->line.dead ? HS_STOP : HS_OK;
}

static hs_code show_end(void *self, const hs_scalar_row *row, hs_error *err)
{
    progress *hook = self;
    char text[TEXT] = "";
    (void)err;
    double secs = (double)(row->now_ns - row->begin_ns) / 1e9;
    if (secs > 0 && row->step > row->begin_step)
        append_rate(text, (double)(row->step - row->begin_step) / secs);
    hs__append(text, TEXT, ", took ");
    append_time(text, secs);
    show_step(hook, row->step, text);
    end_line(&hook->line); /* the log may follow, which would blank it */
    return HS_OK;
}

static void close_sink(void *self)
{
    end_line(&((progress *)self)->line);
}

static void destroy_sink(void *self)
{
    pthread_mutex_destroy(&((progress *)self)->line.lock);
}

static const hs_scalar_sink_ops sink = HS_INIT(hs_scalar_sink_ops, .name = "progress", .write = show, .end = show_end,
                                               .close = close_sink, .destroy = destroy_sink);

static const hs_hook_ops ops = HS_INIT(hs_hook_ops, .name = "progress", HS__SCALAR_ROWS_CALLBACKS);

static hs_code check(const void *given, hs_error *err)
{
    const hs_progress_options *options = given;
    if (options->descriptor < 0 || options->descriptor > INT32_MAX)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "descriptor is %lld; give an open descriptor, or 0 for standard error",
                            (long long)options->descriptor);
    if (options->last_step < 0)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "last_step is %lld; it must be at least 1, or 0 if unknown",
                            (long long)options->last_step);
    return HS_OK;
}

static hs_code fill(void *self, const void *given, hs_error *err)
{
    progress *hook = self;
    progress_line *line = &hook->line;
    const hs_progress_options *options = given;
    line->descriptor = options->descriptor ? (int)options->descriptor : STDERR_FILENO;
    line->in_place = isatty(line->descriptor) == 1;
    line->shown = hs__is_stderr_terminal(line->descriptor) ? &hs__stderr_line : &line->own_shown;
    pthread_mutex_init(&line->lock, NULL);
    hook->last_step = options->last_step;
    hook->begin_step = hook->begin_ns = -1;
    hook->rows.base.flags = hs__writer_flags(false);
    bool none = !options->every_n_steps && options->every_n_secs == 0 && !hs__trigger_is_set(&options->when);
    const hs__scalar_rows_options rows = {
        .tensors = options->tensors,
        .when = {.secs = none ? PLAIN_SECS : options->every_n_secs, .steps = options->every_n_steps, .when = options->when},
        .sink = {&sink, hook},
        .for_display = true};
    hs_code code = hs__scalar_rows_init(&hook->rows, &rows, err);
    if (!code && line->in_place) { /* the options are for plain lines */
        hs_env_free(&hook->rows.base.env, (int64_t *)hook->rows.base.when.at_steps);
        hook->rows.base.when = HS_TRIGGER(.every_n_secs = REWRITE_SECS, .first = true);
    }
    return code;
}

hs_hook hs_progress_hook(const hs_progress_options *given)
{
    return HS__HOOK_MAKE(&ops, progress, hs_progress_options, descriptor, check, fill, NULL, given);
}

void hs_progress_print(hs_hook hook, const char *text)
{
    if (hook.ops != &ops || !text)
        return;
    progress_line *line = &((progress *)hook.self)->line;
    pthread_mutex_lock(&line->lock);
    int shown = atomic_load(line->shown);
    erase(line);
    put(line, text, strlen(text));
    put(line, "\n", 1);
    if (shown) {
        put(line, line->text, line->bytes);
        atomic_store(line->shown, shown);
    }
    pthread_mutex_unlock(&line->lock);
}

void hs_progress_clear(hs_hook hook)
{
    if (hook.ops != &ops)
        return;
    progress_line *line = &((progress *)hook.self)->line;
    pthread_mutex_lock(&line->lock);
    erase(line);
    pthread_mutex_unlock(&line->lock);
}
