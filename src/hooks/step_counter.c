/* SPDX-License-Identifier: Apache-2.0 */
/* after_run reports the rates: as events, and at most once in a second as a line of the log. */
#include <hooksess/hooks/step_counter.h>

#include "base/text.h"
#include "hooks/make.h"
#include "session/services.h"

#include <math.h>
#include <stdio.h>

enum { TAG = 512, DEFAULT_STEPS = 100 };

/* The least time between two log lines. */
static const int64_t LINE_NS = 1000000000;

/* A step, and when it was reached. */
typedef struct {
    int64_t step, ns;
} moment;

typedef struct {
    hs__hook_base base;
    char *summary_dir, *unit; /* unit NULL: units are not measured */
    double units_per_step, flops_per_step, peak_flops;
    hs_summary_writer *given_writer, *writer; /* writer NULL: no events, only the log */
    char tag[TAG];
    const hs_env *session_env;
    bool first;     /* the first run has a rate, from the creation of the session. Else it begins the first interval */
    moment counted; /* the next event's rate is measured from here */
    moment logged;  /* and that of the next line from here: the last line, or the begin of the first interval */
} step_counter;

static hs_code begin(void *self, hs_backend backend, hs_error *err)
{
    step_counter *hook = self;
    hs_code code = hs_backend_check_global_step(backend, err);
    if (code)
        return code;
    snprintf(hook->tag, sizeof hook->tag, "%s/sec", hs_backend_global_step_name(backend));
    hook->session_env = hs_backend_env(backend);
    hook->writer = NULL;
    return HS_OK;
}

static hs_code after_create_session(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    step_counter *hook = self;
    int64_t step = hs_raw_session_global_step(session, err);
    if (step < 0)
        return err->code;
    hook->counted = hook->logged = (moment){step, hs_env_monotonic_ns(hook->session_env)};
    hs__raw_session_warn_of_stalls(session);
    if (hs_coordinator_should_stop(coordinator)) /* training is already complete */
        return HS_OK;
    return hs_raw_session_event_writer(session, hook->summary_dir, hook->given_writer, &hook->writer, err);
}

static double rate_between(moment from, moment to)
{
    return (double)(to.step - from.step) * 1e9 / (double)(to.ns - from.ns);
}

/* A line has the mean since the last line, because a run may reach many rates in a second. If the clock is too coarse for a
 * rate, no event is written. */
static hs_code report_rates(step_counter *hook, moment now, hs_error *err)
{
    if (now.ns - hook->logged.ns >= LINE_NS) {
        char text[TAG], number[HS__NUMBER_TEXT]; /* "85 steps/s, 1000 tokens/s, MFU 40 %" */
        double rate = rate_between(hook->logged, now);
        snprintf(text, sizeof text, "%s steps/s", hs__rate_text(number, rate));
        if (hook->unit)
            hs__append(text, sizeof text, ", %s %s/s", hs__rate_text(number, rate * hook->units_per_step), hook->unit);
        if (hook->flops_per_step > 0)
            hs__append(text, sizeof text, ", MFU %.3g %%", 100 * rate * hook->flops_per_step / hook->peak_flops);
        hs_log(hook->session_env, HS_LOG_INFO, "step %lld: %s", (long long)now.step, text);
        hook->logged = now;
    }
    moment from = hook->counted;
    hook->counted = now;
    if (!hook->writer || now.ns <= from.ns)
        return HS_OK;
    double rate = rate_between(from, now);
    hs_code code = hs_summary_writer_scalar(hook->writer, hook->tag, rate, now.step, err);
    if (!code && hook->unit) {
        char tag[TAG];
        snprintf(tag, sizeof tag, "%s/sec", hook->unit);
        code = hs_summary_writer_scalar(hook->writer, tag, rate * hook->units_per_step, now.step, err);
    }
    if (!code && hook->flops_per_step > 0)
        code = hs_summary_writer_scalar(hook->writer, "mfu", rate * hook->flops_per_step / hook->peak_flops, now.step, err);
    return code;
}

static hs_code after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    step_counter *hook = self;
    (void)values;
    moment now = {hs_run_context_global_step(run, err), hs_run_context_now(run)};
    if (now.step < 0)
        return err->code;
    if (hook->first || hs__raw_session_interval_has_begun(hs_run_context_session(run)))
        return report_rates(hook, now, err);
    hook->counted = hook->logged = now;
    return HS_OK;
}

static void destroy(void *self)
{
    step_counter *hook = self;
    hs_env_free(&hook->base.env, hook->summary_dir);
    hs_env_free(&hook->base.env, hook->unit);
    hs__hook_free(hook);
}

static const hs_hook_ops ops =
    HS_INIT(hs_hook_ops, .name = "step_counter", .begin = begin, .after_create_session = after_create_session,
            .after_run = after_run, .destroy = destroy);

static hs_code check(const void *given, hs_error *err)
{
    const hs_step_counter_options *o = given;
    const struct {
        const char *name;
        double amount;
    } amounts[] = {
        {"units_per_step", o->units_per_step}, {"flops_per_step", o->flops_per_step}, {"peak_flops", o->peak_flops}};
    if (o->summary_dir && o->summary_writer)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "each of summary_dir and summary_writer is given; give at most one of the two");
    for (size_t i = 0; i < sizeof amounts / sizeof *amounts; i++)
        if (!(amounts[i].amount >= 0) || isinf(amounts[i].amount))
            return hs_error_set(err, HS_INVALID_ARGUMENT, "%s is %g; it must be finite and at least 0", amounts[i].name,
                                amounts[i].amount);
    if (o->unit && o->units_per_step == 0)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "unit is '%s', but units_per_step is missing", o->unit);
    if (o->unit && !*o->unit)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "unit is empty");
    if ((o->flops_per_step > 0) != (o->peak_flops > 0))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%s is missing; give both flops_per_step and peak_flops, or neither",
                            o->peak_flops > 0 ? "flops_per_step" : "peak_flops");
    return HS_OK;
}

static hs_code fill(void *self, const void *given, hs_error *err)
{
    step_counter *hook = self;
    const hs_step_counter_options *options = given;
    const hs__when_options when = {.secs = options->every_n_secs,
                                   .steps = options->every_n_steps,
                                   .when = options->when,
                                   .default_steps = DEFAULT_STEPS};
    hs_code code = hs__hook_when(hook, &when, err);
    if (code)
        return code;
    hook->first = hook->base.when.first;
    hook->base.when.first = true;
    hook->base.flags = HS_HOOK_CHIEF_ONLY;
    hook->given_writer = options->summary_writer;
    hook->units_per_step = options->units_per_step;
    hook->flops_per_step = options->flops_per_step;
    hook->peak_flops = options->peak_flops;
    if ((options->summary_dir && !(hook->summary_dir = hs__hook_text(hook, options->summary_dir, err))) ||
        (options->units_per_step > 0 &&
         !(hook->unit = hs__hook_text(hook, options->unit ? options->unit : "examples", err))))
        return HS_RESOURCE_EXHAUSTED;
    return HS_OK;
}

hs_hook hs_step_counter_hook(const hs_step_counter_options *given)
{
    return HS__HOOK_MAKE(&ops, step_counter, hs_step_counter_options, peak_flops, check, fill, NULL, given);
}
