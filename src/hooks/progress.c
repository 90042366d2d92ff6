/* SPDX-License-Identifier: Apache-2.0 */
#include <hooksess/hooks/progress.h>

#include "hooks/make.h"
#include "hooks/timing.h"
#include "hooks/progress_line.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

enum { TEXT = 2000 };

/* Seconds after which what was measured counts half. */
static const double HALF_LIFE = 30;

typedef struct {
    hs__hook_base base;
    hs__timing timing;
    hs__progress_line line;
    int64_t last_step; /* 0: not known */
    const char *const *tensors;
    hs_run_args args;
    const hs_env *session_env;
    bool started, shows_now;
    int64_t step, per_run;       /* the step that was shown last, what a run makes */
    int64_t seen_step, seen_ns;  /* where the rate is measured from */
    double steps, secs;          /* of late; their quotient is the rate */
    int64_t first_step, from_ns; /* all of this session */
    bool shows_first;            /* the trigger has `first`, and nothing was shown since the start */
} progress;

static hs_code begin(void *self, hs_backend backend, hs_error *err)
{
    progress *hook = self;
    hs_code code = hs_backend_check_global_step(backend, err);
    for (size_t i = 0; !code && hook->tensors && hook->tensors[i]; i++)
        code = hs_backend_check_tensor(backend, hook->tensors[i], err);
    hook->session_env = hs_backend_env(backend);
    hook->started = false;
    hs_timer_reset(hook->timing.timer);
    return code;
}

static hs_code after_create_session(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    (void)session, (void)coordinator, (void)err;
    ((progress *)self)->started = false; /* after a recovery the step may be another */
    return HS_OK;
}

static void start(progress *hook, hs_run_context *run, int64_t step)
{
    hook->started = true;
    hook->shows_first = hook->timing.first;
    hook->step = hook->first_step = hook->seen_step = step;
    hook->from_ns = hook->seen_ns = hs_run_context_now(run);
    hook->steps = hook->secs = 0;
    hook->per_run = 1;
    hs_timer_start(hook->timing.timer, step);
    hs_timer_begin(hook->timing.timer, run, step);
}

static hs_code before_run(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    progress *hook = self;
    if (!hook->started) {
        int64_t step = hs_run_context_global_step(run, err);
        if (step < 0)
            return err->code;
        start(hook, run, step);
    }
    hs_timer *timer = hook->timing.timer;
    int64_t after = hook->step + hook->per_run;
    hook->shows_now = !hook->line.dead && (hs_timer_due(timer, run, after) || hook->shows_first);
    if (hook->shows_now && hook->timing.by_secs) /* from here, so that each of the steps that take longer is shown */
        hs_timer_mark(timer, run, after, NULL, NULL);
    if (hook->shows_now && hook->tensors)
        *args = &hook->args;
    return HS_OK;
}

static void measure(progress *hook, int64_t step, int64_t now_ns)
{
    double secs = (double)(now_ns - hook->seen_ns) / 1e9, kept = exp2(-secs / HALF_LIFE);
    hook->steps = hook->steps * kept + (double)(step - hook->seen_step);
    hook->secs = hook->secs * kept + secs;
    hook->seen_step = step;
    hook->seen_ns = now_ns;
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

static void show(progress *hook, int64_t step, const hs_run_values *values)
{
    char text[TEXT];
    size_t used = 0;
    double rate = hook->secs > 0 ? hook->steps / hook->secs : 0;
    append_step(hook, text, &used, step);
    if (rate > 0)
        append_rate(text, &used, rate);
    if (rate > 0 && hook->last_step > step) {
        append(text, &used, ", ");
        append_time(text, &used, (double)(hook->last_step - step) / rate);
        append(text, &used, " left");
    }
    for (size_t i = 0; hook->tensors && hook->tensors[i]; i++)
        append(text, &used, ", %s = %.4g", hook->tensors[i], hs_run_values_number(values, i));
    hs__progress_line_show(&hook->line, text);
}

/* By seconds, the step is read only when it is time. */
static hs_code after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    progress *hook = self;
    int64_t before = hook->step;
    if (!hook->shows_now && !hook->timing.by_steps)
        return HS_OK;
    int64_t step = hs_run_context_global_step(run, err);
    if (step < 0)
        return err->code;
    int64_t now_ns = hook->shows_now ? hs_run_context_now(run) : 0;
    if (step < before)
        start(hook, run, step); /* it was set back */
    else if (step > before)
        hook->per_run = step - before;
    hook->step = step;
    if (!hook->shows_now)
        return HS_OK;
    measure(hook, step, now_ns);
    if (!hook->timing.by_secs || step < before)
        hs_timer_mark(hook->timing.timer, run, step, NULL, NULL);
    hook->shows_first = false;
    show(hook, step, values);
    return HS_OK;
}

static hs_code end(void *self, hs_raw_session *session, hs_error *err)
{
    progress *hook = self;
    char text[TEXT];
    size_t used = 0;
    if (!hook->started)
        return HS_OK;
    int64_t step = hs_raw_session_global_step(session, err);
    if (step < 0)
        return err->code;
    double secs = (double)(hs_env_monotonic_ns(hook->session_env) - hook->from_ns) / 1e9;
    append_step(hook, text, &used, step);
    if (secs > 0 && step > hook->first_step)
        append_rate(text, &used, (double)(step - hook->first_step) / secs);
    append(text, &used, ", took ");
    append_time(text, &used, secs);
    hs__progress_line_show(&hook->line, text);
    return HS_OK;
}

static void close_hook(void *self, const hs_outcome *outcome)
{
    (void)outcome;
    hs__progress_line_end(&((progress *)self)->line);
}

static void destroy(void *self)
{
    progress *hook = self;
    hs_timer_free(hook->timing.timer);
    hs_env_free(&hook->base.env, (void *)hook->tensors);
    hs__progress_line_free(&hook->line);
    hs__hook_free(hook);
}

static const hs_hook_ops ops =
    HS_INIT(hs_hook_ops, .name = "progress", .begin = begin, .after_create_session = after_create_session,
            .before_run = before_run, .after_run = after_run, .end = end, .close = close_hook, .destroy = destroy);

static hs_code set_timer(hs__timing *to, const hs_progress_options *options, bool in_place, const hs_env *env,
                         hs_error *err)
{
    double often = options->times_a_second != 0 ? options->times_a_second : 5;
    bool neither = !options->every_n_steps && options->every_n_secs == 0 && !options->trigger;
    const hs__timing_options timing = {.secs = in_place  ? 1 / often
                                               : neither ? 10
                                                         : options->every_n_secs,
                                       .steps = in_place ? 0 : options->every_n_steps,
                                       .trigger = in_place ? NULL : options->trigger,
                                       .first = true};
    return hs__timing_init(to, &timing, env, err);
}

static hs_code check(const hs_progress_options *options, hs_error *err)
{
    double often = options->times_a_second;
    if (options->descriptor < 0 || options->descriptor > INT32_MAX)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "descriptor is %lld; give one that is open, or 0 for the standard error",
                            (long long)options->descriptor);
    if (options->last_step < 0)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "last_step is %lld; it must be at least 1, or 0 if it is not known",
                            (long long)options->last_step);
    if (often != 0 && !(often >= 0.001 && often <= 1000))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "times_a_second is %g; it must be from 0.001 to 1000", often);
    return HS_OK;
}

static hs_code fill(progress *hook, const hs_progress_options *options, hs_error *err)
{
    hs__progress_line_init(&hook->line, options->descriptor ? (int)options->descriptor : STDERR_FILENO, options->plain);
    hook->last_step = options->last_step;
    hs__timing plain; /* what is given for plain lines is to make sense on a terminal, too */
    hs_code code = set_timer(&plain, options, false, &hook->base.env, err);
    if (code)
        return code;
    hs_timer_free(plain.timer);
    if ((code = set_timer(&hook->timing, options, hook->line.in_place, &hook->base.env, err)))
        return code;
    if (options->tensors && options->tensors[0] && !(hook->tensors = hs__hook_names(hook, options->tensors, err)))
        return HS_RESOURCE_EXHAUSTED;
    hook->args = (hs_run_args)HS_INIT(hs_run_args, .names = hook->tensors);
    return HS_OK;
}

hs_hook hs_progress_hook(const hs_progress_options *given)
{
    hs_progress_options options = {0};
    progress *hook = NULL;
    hs_error error = {0};
    if (!HS_STRUCT_TAKE(hs_progress_options, env, &options, given, &error) && !check(&options, &error))
        hook = hs__hook_new(options.env, sizeof *hook, &error);
    if (hook && fill(hook, &options, &error)) {
        destroy(hook);
        hook = NULL;
    }
    return hook ? (hs_hook){.ops = &ops, .self = hook} : hs_hook_broken(ops.name, &error);
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
