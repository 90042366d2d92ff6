/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"

#include <stdio.h>

enum { LINE_BYTES = 160 };

static const int64_t redraw_ns = 100000000;
static const char erase[] = "\r\033[K";

static void write_log(void *user, hs_log_level level, const char *text)
{
    static const char *const marks[] = {"", "", "warning: ", "error: "};
    struct progress *progress = user;
    if (level < HS_LOG_INFO)
        return;
    flockfile(stderr);
    fprintf(stderr, "%s%s%s\n", progress->drawn ? erase : "", marks[level], text);
    progress->drawn = false;
    funlockfile(stderr);
}

void progress_init(struct progress *progress, int64_t last_step, int64_t batch_size)
{
    *progress = (struct progress){.env = {HS_ENV, .logger = {write_log, progress}},
                                  .last_step = last_step,
                                  .batch_size = batch_size,
                                  .first_step = -1};
}

static int print_duration(char *text, size_t bytes, double seconds)
{
    long long whole = seconds < 1e12 ? (long long)(seconds + 0.5) : 0;
    if (whole < 3600)
        return snprintf(text, bytes, "%lld:%02lld", whole / 60, whole % 60);
    return snprintf(text, bytes, "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
}

/* The first run, which warms up, only sets the clock. */
static void describe(struct progress *progress, int64_t step, double loss, int64_t now_ns, char *text, size_t bytes)
{
    char left[32];
    int used = snprintf(text, bytes, "step %lld of %lld: loss %.4f", (long long)step, (long long)progress->last_step, loss);
    double seconds = (double)(now_ns - progress->first_ns) / 1e9, steps = (double)(step - progress->first_step);
    if (progress->first_step < 0) {
        progress->first_step = step;
        progress->first_ns = now_ns;
    } else if (used > 0 && (size_t)used < bytes && seconds > 0 && steps > 0) {
        print_duration(left, sizeof left, seconds / steps * (double)(progress->last_step - step));
        snprintf(text + used, bytes - (size_t)used, ", %.0f images/s, %s left",
                 steps * (double)progress->batch_size / seconds, left);
    }
}

void progress_format(void *user, const hs_run_values *values, char *text, size_t bytes)
{
    struct progress *progress = user;
    describe(progress, (int64_t)hs_values_number(values, 0), hs_values_number(values, 1),
             hs_env_monotonic_ns(&progress->env), text, bytes);
}

static const hs_run_args loss_wanted = {HS_RUN_ARGS, .names = HS_NAMES("loss")};

/* The loss is asked for only when the line is drawn. */
static hs_code before_run(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    struct progress *progress = self;
    int64_t now = hs_run_context_now(run);
    (void)err;
    progress->draws_now = now - progress->drawn_ns >= redraw_ns;
    if (progress->draws_now) {
        progress->drawn_ns = now;
        *args = &loss_wanted;
    }
    return HS_OK;
}

static hs_code after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    struct progress *progress = self;
    char line[LINE_BYTES];
    int64_t step;
    if (!progress->draws_now)
        return HS_OK;
    hs_code code = hs_run_context_step(run, &step, err);
    if (code)
        return code;
    describe(progress, step, hs_values_number(values, 0), hs_run_context_now(run), line, sizeof line);
    flockfile(stderr);
    fprintf(stderr, "%s%s", erase, line);
    fflush(stderr);
    progress->drawn = true;
    funlockfile(stderr);
    return HS_OK;
}

static void close_line(void *self, const hs_outcome *outcome)
{
    struct progress *progress = self;
    (void)outcome;
    flockfile(stderr);
    if (progress->drawn)
        fputs(erase, stderr);
    progress->drawn = false;
    funlockfile(stderr);
}

hs_hook progress_hook(struct progress *progress)
{
    static const hs_hook_ops ops = {HS_HOOK_OPS, .name = "progress", .before_run = before_run, .after_run = after_run,
                                    .close = close_line};
    return (hs_hook){.ops = &ops, .self = progress};
}
