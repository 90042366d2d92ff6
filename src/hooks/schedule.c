/* SPDX-License-Identifier: Apache-2.0 */
/* before_run sets the number to the scheduled value, multiplied by the factor by which other code has changed it. */
#include <hooksess/hooks/schedule.h>

#include "base/env.h"
#include "hooks/lookup.h"
#include "hooks/make.h"
#include "hooks/number.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef struct {
    hs__hook_base base;
    hs_schedule_options options; /* with copies of the name and the points */
    char *name;
    hs_schedule_point *points;

    /* The number is a variable, or in memory of the backend (lend_value). number.dtype is the type of both. */
    hs_backend backend;
    hs_raw_session *session;
    bool is_variable;
    hs__number number;
    void *memory;

    double factor;              /* product of the changes that others made */
    double written;             /* the last value that this hook wrote. NAN: unknown */
    int64_t restore_generation; /* hs_raw_session_restores when `written` was set */
    bool loaded;                /* `written` was restored from the checkpoint, as the variable was */
} schedule;

/* The schedule. */

static double decayed(const hs_schedule_options *o, double p)
{
    switch (o->decay) {
    case HS_DECAY_LINEAR:
        return o->from + (o->to - o->from) * p;
    case HS_DECAY_COSINE:
        return o->to + (o->from - o->to) * 0.5 * (1 + cos(3.14159265358979323846 * p));
    case HS_DECAY_EXPONENTIAL:
        return o->from * pow(o->to / o->from, p);
    case HS_DECAY_SQRT:
        return o->to + (o->from - o->to) * (1 - sqrt(p));
    case HS_DECAY_NONE:
        break;
    }
    return o->from;
}

static double scheduled(const hs_schedule_options *o, int64_t step)
{
    double value = o->from;
    if (step < o->warmup_steps)
        return o->from * (double)(step + 1) / (double)o->warmup_steps;
    for (const hs_schedule_point *point = o->points; point && point->step && point->step <= step; point++)
        value = point->value;
    int64_t past = step - o->warmup_steps - o->hold_steps;
    if (o->decay == HS_DECAY_NONE || past < 0)
        return value;
    return past < o->decay_steps ? decayed(o, (double)past / (double)o->decay_steps) : o->to;
}

static bool is_number(double value)
{
    return fabs(value) <= (double)FLT_MAX;
}

static hs_code check(const void *given, hs_error *err)
{
    const hs_schedule_options *o = given;
    const int64_t most = INT64_MAX / 4;
    const struct {
        const char *name;
        int64_t steps;
    } counts[] = {{"warmup_steps", o->warmup_steps}, {"hold_steps", o->hold_steps}, {"decay_steps", o->decay_steps}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (counts[i].steps < 0 || counts[i].steps > most)
            return hs_error_set(err, HS_INVALID_ARGUMENT, "%s is %lld; it must be at least 0", counts[i].name,
                                (long long)counts[i].steps);
    if (!o->value || !*o->value)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "value is missing; name the number to set");
    if (o->decay < HS_DECAY_NONE || o->decay > HS_DECAY_SQRT)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "decay is %d, not an hs_decay", (int)o->decay);
    if (!is_number(o->from) || !is_number(o->to))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "from is %g and to is %g; both must fit a float", o->from, o->to);
    if (o->from == 0 && o->to == 0 && !o->points)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "from is missing");
    if ((o->decay == HS_DECAY_NONE) != (o->decay_steps == 0))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%s; give both decay and decay_steps, or neither",
                            o->decay_steps ? "decay is missing" : "decay_steps is missing");
    if (o->decay == HS_DECAY_NONE && o->to != 0)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "to is %g, but decay is missing", o->to);
    if (o->decay == HS_DECAY_EXPONENTIAL && !(o->from > 0 && o->to > 0))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "exponential decay from %g to %g; both must be positive", o->from,
                            o->to);
    for (const hs_schedule_point *point = o->points; point && point->step; point++) {
        if (point->step < 0 || (point > o->points && point->step <= point[-1].step))
            return hs_error_set(err, HS_INVALID_ARGUMENT, "points: step %lld; steps must be at least 1 and ascend",
                                (long long)point->step);
        if (!is_number(point->value))
            return hs_error_set(err, HS_INVALID_ARGUMENT, "points: the value at step %lld is %g; it must be finite",
                                (long long)point->step, point->value);
    }
    if (o->points && (o->decay != HS_DECAY_NONE || o->hold_steps))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "points excludes decay and hold_steps");
    return HS_OK;
}

double hs_schedule_value(const hs_schedule_options *given, int64_t step)
{
    hs_schedule_options options;
    if (HS_STRUCT_TAKE(hs_schedule_options, points, &options, given, NULL) || check(&options, NULL) || step < 0)
        return NAN;
    return scheduled(&options, step);
}

/* The number. */

static hs_code check_number(const schedule *hook, hs_dtype dtype, int32_t rank, hs_error *err)
{
    if (hs__is_number(dtype, rank))
        return HS_OK;
    return hs_error_set(err, HS_INVALID_ARGUMENT, "'%s' is not a scalar of type float or double", hook->name);
}

static hs_code begin(void *self, hs_backend backend, hs_error *err)
{
    schedule *hook = self;
    hs_variable found;
    hs_node node;
    size_t i;
    hook->backend = backend;
    hook->factor = 1;
    hook->written = NAN;
    hook->restore_generation = -1;
    hook->loaded = false;
    hs_code code = hs_backend_check_global_step(backend, err);
    if (code || (code = hs_backend_find(backend, hook->name, &node, err)))
        return code;
    hook->is_variable = hs__find_variable(backend, hook->name, &i, &found);
    if (!hook->is_variable)
        return backend.ops->lend_value
                   ? HS_OK
                   : hs_error_set(err, HS_UNIMPLEMENTED, "backend '%s' cannot set '%s'; it is not a variable",
                                  backend.ops->name, hook->name);
    hook->number = (hs__number){i, found.dtype};
    if (!backend.ops->read_variable || !backend.ops->write_variable)
        return hs_error_set(err, HS_UNIMPLEMENTED, "backend '%s' cannot set the variable '%s'", backend.ops->name,
                            hook->name);
    return check_number(hook, found.dtype, found.shape.rank, err);
}

static hs_code read_number(const schedule *hook, double *number, hs_error *err)
{
    if (hook->is_variable)
        return hs__number_read(&hook->number, hook->session, number, err);
    *number = hook->number.dtype == HS_FLOAT ? (double)*(const float *)hook->memory : *(const double *)hook->memory;
    return HS_OK;
}

/* True if the number can be compared with `written`. A restore sets variables, and this hook's state if the checkpoint has
 * it. It does not set other values. */
static bool is_comparable(const schedule *hook)
{
    bool restored = hs_raw_session_restores(hook->session) != hook->restore_generation;
    return !isnan(hook->written) && (!restored || (hook->is_variable && hook->loaded));
}

/* Returns the factor if others changed the number from `written` to `found`. 0: no factor expresses the change. */
static double changed_factor(const schedule *hook, double found)
{
    double factor = hook->factor * (found / hook->written);
    return isfinite(factor) ? factor : 0;
}

static hs_code set_number(schedule *hook, int64_t step, hs_error *err)
{
    double number = scheduled(&hook->options, step) * hook->factor;
    const bool is_float = hook->number.dtype == HS_FLOAT;
    hs_code code = HS_OK;
    if (hook->is_variable)
        code = hs__number_write(&hook->number, hook->session, number, err);
    else if (is_float)
        *(float *)hook->memory = (float)number;
    else
        *(double *)hook->memory = number;
    if (code)
        return code;
    hook->written = is_float ? (double)(float)number : number; /* the value that read_number returns */
    hook->restore_generation = hs_raw_session_restores(hook->session);
    hook->loaded = false;
    return HS_OK;
}

/* Sets the number here, so that the first checkpoint has the number of its step. */
static hs_code after_create_session(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    schedule *hook = self;
    (void)coordinator;
    hook->session = session;
    if (!hook->is_variable) {
        hs_node node;
        hs_tensor memory;
        hs_code code = hs_backend_find(hook->backend, hook->name, &node, err);
        if (code || (code = hook->backend.ops->lend_value(hs_raw_session_handle(session), node, &memory, err)) ||
            (code = check_number(hook, memory.dtype, memory.rank, err)))
            return code;
        hook->number.dtype = memory.dtype;
        hook->memory = memory.data;
    }
    int64_t step = hs_raw_session_global_step(session, err);
    return step < 0 ? err->code : set_number(hook, step, err);
}

static hs_code before_run(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    schedule *hook = self;
    const hs_env *env = hs_backend_env(hook->backend);
    double found;
    int64_t step = hs_run_context_global_step(run, err);
    (void)args;
    if (step < 0)
        return err->code;
    if (is_comparable(hook)) {
        hs_code code = read_number(hook, &found, err);
        if (code)
            return code;
        double factor = changed_factor(hook, found);
        if (found != hook->written && factor == 0)
            hs_log(env, HS_LOG_WARNING, "step %lld: '%s' was changed from %g to %g; the schedule overwrites it",
                   (long long)step, hook->name, hook->written, found);
        if (found != hook->written && factor != 0) {
            hook->factor = factor;
            hs_log(env, HS_LOG_INFO, "step %lld: '%s' was changed from %g to %g; the schedule continues, multiplied by %g",
                   (long long)step, hook->name, hook->written, found, factor);
        }
    }
    return set_number(hook, step, err);
}

/* State: the factor and the number. If the number is a variable, the checkpoint also contains it. The factor includes a
 * change by other code since the run began. */

static hs_code save_state(void *self, hs_state_writer *out, hs_error *err)
{
    const schedule *hook = self;
    double state[] = {hook->factor, hook->written}, found;
    if (is_comparable(hook)) {
        hs_code code = read_number(hook, &found, err);
        if (code)
            return code;
        double factor = found == hook->written ? 0 : changed_factor(hook, found);
        if (factor != 0)
            state[0] = factor;
        state[1] = found;
    }
    return hs_state_writer_write(out, state, sizeof state, err);
}

static hs_code load_state(void *self, hs_state_reader *in, hs_error *err)
{
    schedule *hook = self;
    double state[2];
    hs_code code = hs_state_reader_read(in, state, sizeof state, err);
    if (code)
        return code;
    if (!isfinite(state[0]) || state[0] == 0 || isinf(state[1]))
        return hs_error_set(err, HS_DATA_LOSS, "the factor of '%s' is %g", hook->name, state[0]);
    hook->factor = state[0];
    hook->written = state[1];
    hook->loaded = true;
    return HS_OK;
}

static void destroy(void *self)
{
    schedule *hook = self;
    hs_env_free(&hook->base.env, hook->name);
    hs_env_free(&hook->base.env, hook->points);
    hs__hook_free(hook);
}

static const hs_hook_ops ops = HS_INIT(
    hs_hook_ops, .name = "schedule", .begin = begin, .after_create_session = after_create_session, .before_run = before_run,
    .save_state = save_state, .load_state = load_state, .destroy = destroy, .rank_identity = hs__hook_rank_identity);

static hs_code fill(void *self, const void *given, hs_error *err)
{
    schedule *hook = self;
    const hs_schedule_options *options = given;
    size_t n = 1;
    if (!(hook->name = hs__hook_text(hook, options->value, err)))
        return HS_RESOURCE_EXHAUSTED;
    if (options->points) {
        while (options->points[n - 1].step)
            n++;
        if (!(hook->points = hs__alloc(&hook->base.env, n, sizeof *hook->points)))
            return hs__no_memory(err, n * sizeof *hook->points, "the schedule's points");
        memcpy(hook->points, options->points, n * sizeof *hook->points);
    }
    for (size_t i = 0; i + 1 < n; i++)
        hs__buffer_text(&hook->base.rank_identity, "points: step %lld, value %.17g\n", (long long)options->points[i].step,
                        options->points[i].value);
    hook->options = *options;
    hook->options.value = hook->name;
    hook->options.points = hook->points;
    return HS_OK;
}

static const hs__rank_option same[] = {
    HS__RANK_OPTION(hs_schedule_options, value),       HS__RANK_OPTION(hs_schedule_options, warmup_steps),
    HS__RANK_OPTION(hs_schedule_options, hold_steps),  HS__RANK_OPTION(hs_schedule_options, decay),
    HS__RANK_OPTION(hs_schedule_options, from),        HS__RANK_OPTION(hs_schedule_options, to),
    HS__RANK_OPTION(hs_schedule_options, decay_steps), {0},
};

hs_hook hs_schedule_hook(const hs_schedule_options *given)
{
    return HS__HOOK_MAKE(&ops, schedule, hs_schedule_options, points, check, fill, same, given);
}
