/* SPDX-License-Identifier: Apache-2.0 */
#include <hooksess/hooks/progress.h>

#include "hooks/progress_line.h"
#include "hooks/scalar_rows.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

enum { TEXT = 2000 };

/* Seconds after which what was measured counts half. */
static const double HALF_LIFE = 30;

typedef struct {
    hs__scalar_rows rows;
    hs__progress_line line;
    int64_t last_step;            /* 0: not known */
    int64_t begin_step, begin_ns; /* those of the last row; -1: none */
    int64_t seen_step, seen_ns;   /* where the rate is measured from */
    double steps, secs;           /* of late; their quotient is the rate */
} progress;

/* A session that has begun to run again begins its rate anew. */
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

/* Text that is longer than the room for it is cut. */
static void HS_PRINTF(3, 4) append(char *text, size_t *used, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int n = *used < TEXT ? vsnprintf(text + *used, TEXT - *used, format, arguments) : 0;
    va_end(arguments);
    *used += n > 0 ? (size_t)n : 0;
}

/* "1:43", "2:00:03", "5d 01:00:00". */
static void append_time(char *text, size_t *used, double secs)
{
    if (!(secs < 1e9)) {
        append(text, used, "years");
        return;
    }
    long long all = (long long)(secs + 0.5), days = all / 86400, hours = all / 3600 % 24, minutes = all / 60 % 60;
    if (days)
        append(text, used, "%lldd %02lld:%02lld:%02lld", days, hours, minutes, all % 60);
    else if (hours)
        append(text, used, "%lld:%02lld:%02lld", hours, minutes, all % 60);
    else
        append(text, used, "%lld:%02lld", minutes, all % 60);
}

static void append_rate(char *text, size_t *used, double rate)
{
    append(text, used, rate >= 100 ? ", %.0f steps/s" : ", %.3g steps/s", rate);
}

static void append_step(const progress *hook, char *text, size_t *used, int64_t step)
{
    append(text, used, "step %lld", (long long)step);
    if (hook->last_step)
        append(text, used, "/%lld %.1f%%", (long long)hook->last_step, 100.0 * (double)step / (double)hook->last_step);
}

static hs_code show(void *self, const hs_scalar_row *row, hs_error *err)
{
    progress *hook = self;
    char text[TEXT];
    size_t used = 0;
    (void)err;
    measure(hook, row);
    double rate = hook->secs > 0 ? hook->steps / hook->secs : 0;
    append_step(hook, text, &used, row->step);
    if (rate > 0)
        append_rate(text, &used, rate);
    if (rate > 0 && hook->last_step > row->step) {
        append(text, &used, ", ");
        append_time(text, &used, (double)(hook->last_step - row->step) / rate);
        append(text, &used, " left");
    }
    for (const hs_scalar *scalar = row->scalars; scalar->name; scalar++)
        append(text, &used, ", %s = %.4g", scalar->name, scalar->value);
    hs__progress_line_show(&hook->line, text);
    return hook->line.dead ? HS_STOP : HS_OK;
}

static hs_code show_end(void *self, const hs_scalar_row *row, hs_error *err)
{
    progress *hook = self;
    char text[TEXT];
    size_t used = 0;
    (void)err;
    double secs = (double)(row->now_ns - row->begin_ns) / 1e9;
    append_step(hook, text, &used, row->step);
    if (secs > 0 && row->step > row->begin_step)
        append_rate(text, &used, (double)(row->step - row->begin_step) / secs);
    append(text, &used, ", took ");
    append_time(text, &used, secs);
    hs__progress_line_show(&hook->line, text);
    return HS_OK;
}

static void end_line(void *self)
{
    hs__progress_line_end(&((progress *)self)->line);
}

static void free_line(void *self)
{
    hs__progress_line_free(&((progress *)self)->line);
}

static const hs_scalar_sink_ops sink = HS_INIT(hs_scalar_sink_ops, .name = "progress", .write = show, .end = show_end,
                                               .close = end_line, .destroy = free_line);

static const hs_hook_ops ops = HS_INIT(hs_hook_ops, .name = "progress", HS__SCALAR_ROWS_CALLBACKS);

static hs_code check(const void *given, hs_error *err)
{
    const hs_progress_options *options = given;
    double often = options->times_a_second;
    if (options->descriptor < 0 || options->descriptor > INT32_MAX)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "descriptor is %lld; give an open descriptor, or 0 for standard error",
                            (long long)options->descriptor);
    if (options->last_step < 0)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "last_step is %lld; it must be at least 1, or 0 if unknown",
                            (long long)options->last_step);
    if (often != 0 && !(often >= 0.001 && often <= 1000))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "times_a_second is %g; it must be from 0.001 to 1000", often);
    return HS_OK;
}

/* On a terminal the line is rewritten as often as may be; the schedule is that of plain lines. */
static hs__timing_options timing_of(const hs_progress_options *options, bool in_place)
{
    double often = options->times_a_second != 0 ? options->times_a_second : 5;
    bool neither = !options->every_n_steps && options->every_n_secs == 0 && !options->trigger;
    if (in_place)
        return (hs__timing_options){.secs = 1 / often};
    return (hs__timing_options){
        .secs = neither ? 10 : options->every_n_secs, .steps = options->every_n_steps, .trigger = options->trigger};
}

/* Options for plain lines must be valid on a terminal, too. */
static hs_code check_plain(const hs_progress_options *options, const hs_env *env, hs_error *err)
{
    const hs__timing_options timing = timing_of(options, false);
    hs__timing plain = {0};
    hs_code code = hs__timing_init(&plain, &timing, env, err);
    hs_timer_free(plain.timer);
    return code;
}

static hs_code fill(void *self, const void *given, hs_error *err)
{
    progress *hook = self;
    const hs_progress_options *options = given;
    hs__progress_line_init(&hook->line, options->descriptor ? (int)options->descriptor : STDERR_FILENO, options->plain);
    hook->last_step = options->last_step;
    hook->begin_step = hook->begin_ns = -1;
    const hs__scalar_rows_options rows = {.tensors = options->tensors,
                                          .timing = timing_of(options, hook->line.in_place),
                                          .sink = {&sink, hook},
                                          .for_people = true};
    hs_code code = check_plain(options, &hook->rows.base.env, err);
    return code ? code : hs__scalar_rows_init(&hook->rows, &rows, err);
}

hs_hook hs_progress_hook(const hs_progress_options *given)
{
    return HS__HOOK_MAKE(&ops, progress, hs_progress_options, check, fill, given);
}

void hs_progress_print(hs_hook hook, const char *text)
{
    if (hook.ops == &ops && text)
        hs__progress_line_print(&((progress *)hook.self)->line, text);
}

void hs_progress_clear(hs_hook hook)
{
    if (hook.ops == &ops)
        hs__progress_line_clear(&((progress *)hook.self)->line);
}
