/* SPDX-License-Identifier: Apache-2.0 */
/* after_run reads a value, or, if all ranks must see it, the boundary does (get_new_value). record_value compares it with
 * the best one, whose state the boundary copies. stop_if_exhausted ends the training, and end restores the copy. */
#include <hooksess/hooks/early_stopping.h>

#include <hooksess/checkpoint.h>

#include "hooks/lookup.h"
#include "hooks/make.h"
#include "session/services.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NO_STEP = -1 };

/* The hook's state in checkpoints. */
typedef struct {
    double best;
    int64_t best_step; /* NO_STEP: no value yet */
    int64_t bad;       /* values since the best one, all of them not better */
    int64_t seen_step; /* step of the last value */
    int64_t gave_up;   /* the value of `bad` at which the hook stopped the training. 0: it did not */
} record;

static const record empty_record = {0, NO_STEP, 0, NO_STEP, 0};

typedef struct {
    hs__hook_base base;
    char *metric, *tensor; /* one of the two is set */
    char *identity;        /* "the smallest METRIC", for the checkpoint */
    const char *names[2];
    hs_run_args args;
    int64_t patience, start_step;
    double min_delta;
    bool larger_is_better, restore_best, restore_at_any_end;
    record known;
    bool has_run;       /* in this session */
    bool value_pending; /* in a group: the tensor had `value` at `value_step` */
    double value;
    int64_t value_step;
    bool copy_pending;   /* copy the state in the next boundary */
    hs_state_copy *copy; /* NULL: none yet */
    bool has_copy;       /* `copy` is of the best step */
    const hs_env *session_env;
} early_stopping;

static hs_code begin(void *self, hs_backend backend, hs_error *err)
{
    early_stopping *hook = self;
    hook->session_env = hs_backend_env(backend);
    hook->known = empty_record;
    hook->copy_pending = hook->has_copy = hook->value_pending = hook->has_run = false;
    hs_code code = hs_backend_check_global_step(backend, err);
    return code || !hook->tensor ? code : hs_backend_check_tensor(backend, hook->tensor, err);
}

static const char *name_of(const early_stopping *hook)
{
    return hook->metric ? hook->metric : hook->tensor;
}

static bool is_patience_exhausted(const early_stopping *hook, int64_t bad)
{
    return hook->patience != HS_NEVER && bad >= hook->patience;
}

static hs_code after_create_session(void *self, hs_raw_session *session, hs_coordinator *coordinator, hs_error *err)
{
    early_stopping *hook = self;
    record *known = &hook->known;
    (void)session, (void)err;
    if (!known->gave_up)
        return HS_OK;
    if (!is_patience_exhausted(hook, known->gave_up)) { /* the program has raised the patience */
        known->gave_up = 0;
        return HS_OK;
    }
    hs_log(hook->session_env, HS_LOG_INFO,
           "training is already done: %s was not better than %.6g (step %lld) %lld times in a row", name_of(hook),
           known->best, (long long)known->best_step, (long long)known->gave_up);
    hs_coordinator_request_stop(coordinator, NULL);
    return HS_OK;
}

static hs_code before_run(void *self, hs_run_context *run, const hs_run_args **args, hs_error *err)
{
    early_stopping *hook = self;
    (void)run, (void)err;
    if (hook->tensor)
        *args = &hook->args;
    return HS_OK;
}

/* Records the value of a step. Returns true if it is the best value up to now. */
static bool record_value(early_stopping *hook, double value, int64_t step)
{
    record *known = &hook->known;
    known->seen_step = step;
    if (step < hook->start_step)
        return false;
    bool better = known->best_step == NO_STEP ? !isnan(value)
                  : hook->larger_is_better    ? value > known->best + hook->min_delta
                                              : value < known->best - hook->min_delta;
    if (!better) {
        known->bad++;
        return false;
    }
    *known = (record){value, step, 0, step, 0};
    hook->has_copy = false;
    return true;
}

/* Reads the metric. Returns false if it is not newer than the last value. */
static bool read_new_metric(const early_stopping *hook, const hs_raw_session *session, double *value, int64_t *step)
{
    return hook->metric && hs_raw_session_metric(session, hook->metric, value, step) && *step > hook->known.seen_step;
}

/* Gets the value to compare. In a group this is the value of rank 0, and the call is collective, so that all ranks have the
 * same record. Sets *found to false if no new value exists. */
static hs_code get_new_value(early_stopping *hook, hs_raw_session *session, double *value, int64_t *step, bool *found,
                             hs_error *err)
{
    struct {
        double value;
        int64_t step, is_new;
    } chief = {hook->value, hook->value_step, hook->value_pending};
    chief.is_new |= read_new_metric(hook, session, &chief.value, &chief.step);
    hook->value_pending = false;
    hs_code code = hs_raw_session_from_chief(session, &chief, sizeof chief, err);
    *value = chief.value;
    *step = chief.step;
    *found = chief.is_new;
    return code;
}

static void stop_if_exhausted(early_stopping *hook, hs_run_context *run)
{
    record *known = &hook->known;
    if (known->gave_up || !is_patience_exhausted(hook, known->bad))
        return;
    known->gave_up = known->bad;
    if (known->best_step == NO_STEP)
        hs_log(hook->session_env, HS_LOG_INFO, "step %lld: stopping: %s was NaN %lld times", (long long)known->seen_step,
               name_of(hook), (long long)known->bad);
    else
        hs_log(hook->session_env, HS_LOG_INFO,
               "step %lld: stopping: %s was not better than %.6g (step %lld) %lld times in a row",
               (long long)known->seen_step, name_of(hook), known->best, (long long)known->best_step, (long long)known->bad);
    hs_run_context_request_stop(run);
}

static bool keeps_copies(const early_stopping *hook)
{
    return hook->restore_best || hook->restore_at_any_end;
}

static hs_code after_run(void *self, hs_run_context *run, const hs_run_values *values, hs_error *err)
{
    early_stopping *hook = self;
    double value;
    int64_t step;
    hook->has_run = true;
    if (!hook->tensor) { /* the boundary reads the metric, if it was set since */
        if (read_new_metric(hook, hs_run_context_session(run), &value, &step))
            hs_run_context_request_boundary(run);
        return HS_OK;
    }
    if ((step = hs_run_context_global_step(run, err)) < 0)
        return err->code;
    const bool is_computed = hs_raw_session_computed_at(hs_run_context_session(run), hook->tensor) >= step;
    if (hs_raw_session_rank_count(hs_run_context_session(run)) > 1) {
        hook->value = hs_run_values_number(values, 0);
        hook->value_step = step;
        hook->value_pending = is_computed;
        hs_run_context_request_boundary(run);
        return HS_OK;
    }
    if (is_computed && record_value(hook, hs_run_values_number(values, 0), step) && keeps_copies(hook)) {
        hook->copy_pending = true;
        hs_run_context_request_boundary(run);
    }
    stop_if_exhausted(hook, run);
    return HS_OK;
}

static hs_code boundary(void *self, hs_run_context *run, hs_error *err)
{
    early_stopping *hook = self;
    hs_raw_session *session = hs_run_context_session(run);
    double value;
    int64_t step;
    bool found;
    if (hs_run_context_boundary(run) == HS_BOUNDARY_CREATED) {
        /* a run that begins with the checkpoint of the best step has the best state */
        hook->copy_pending = keeps_copies(hook) && !hook->has_copy && hook->known.best_step != NO_STEP;
    } else if (hs_run_context_boundary(run) == HS_BOUNDARY_RUN) {
        hs_code code = get_new_value(hook, session, &value, &step, &found, err);
        if (code)
            return code;
        if (found)
            hook->copy_pending = record_value(hook, value, step) && keeps_copies(hook);
        stop_if_exhausted(hook, run);
    } else {
        return HS_OK;
    }
    if (!hook->copy_pending)
        return HS_OK;
    int64_t now = hs_run_context_global_step(run, err);
    if (now < 0)
        return err->code;
    hook->copy_pending = false;
    if (now != hook->known.best_step)
        return HS_OK;
    hs_code code = hs_raw_session_copy_state(session, &hook->copy, err);
    hook->has_copy = !code;
    return code;
}

/* Restores the copy; without one, the checkpoint of the best step, as after a resume. They also restore the state of this
 * hook: gave_up is kept, so that a resumed run knows that the hook has stopped the training. */
static hs_code restore_best(early_stopping *hook, hs_raw_session *session, bool *restored, hs_error *err)
{
    const record best = {hook->known.best, hook->known.best_step, 0, hook->known.best_step, hook->known.gave_up};
    size_t n;
    *restored = hook->has_copy;
    hs_saver *saver = hs__find_saver(hs_raw_session_backend(session), NULL, NULL, &n);
    hs_code code = hook->has_copy ? hs_raw_session_restore_copy(session, hook->copy, err)
                                  : hs__raw_session_return_to(session, saver, best.best_step, restored, err);
    if (!code && *restored)
        hook->known = best;
    return code;
}

static hs_code end(void *self, hs_raw_session *session, hs_error *err)
{
    early_stopping *hook = self;
    record *known = &hook->known;
    double value;
    int64_t step_of_value;
    bool found;
    hs_code code = get_new_value(hook, session, &value, &step_of_value, &found, err);
    if (code)
        return code;
    if (found) /* from an evaluation at the end, for example */
        record_value(hook, value, step_of_value);
    if (hook->metric && hook->has_run && known->seen_step == NO_STEP && !hs_raw_session_rank(session))
        hs__raw_session_warn_of_unset_metric(session, "early_stopping", hook->metric);
    bool restores = hook->restore_at_any_end || (hook->restore_best && known->gave_up);
    if (!restores || known->best_step == NO_STEP)
        return HS_OK;
    int64_t step = hs_raw_session_global_step(session, err);
    if (step < 0 || step == known->best_step)
        return err->code;
    bool restored;
    if ((code = restore_best(hook, session, &restored, err)))
        return code;
    if (!restored) {
        hs_log(
            hook->session_env, HS_LOG_WARNING,
            "step %lld: the best state, of step %lld (%s = %.6g), is neither in memory nor in a checkpoint, so it is not "
            "restored",
            (long long)step, (long long)known->best_step, name_of(hook), known->best);
        return HS_OK;
    }
    hs_log(hook->session_env, HS_LOG_INFO, "step %lld: restored the best state (%s = %.6g)", (long long)known->best_step,
           name_of(hook), known->best);
    /* also of a tensor: its value is not restored */
    return hs_raw_session_set_metric(session, name_of(hook), known->best, known->best_step, err);
}

static void close_hook(void *self, const hs_outcome *outcome)
{
    early_stopping *hook = self;
    (void)outcome;
    hs_state_copy_free(hook->copy);
    hook->copy = NULL;
    hook->has_copy = false;
}

static hs_code save_state(void *self, hs_state_writer *out, hs_error *err)
{
    const record *known = &((const early_stopping *)self)->known;
    return hs_state_writer_write(out, known, sizeof *known, err);
}

static hs_code load_state(void *self, hs_state_reader *in, hs_error *err)
{
    early_stopping *hook = self;
    record loaded;
    hs_code code = hs_state_reader_read(in, &loaded, sizeof loaded, err);
    if (code)
        return code;
    if (loaded.bad < 0 || loaded.bad == INT64_MAX || loaded.gave_up < 0 || loaded.best_step < NO_STEP ||
        loaded.seen_step < loaded.best_step || (loaded.best_step != NO_STEP && isnan(loaded.best)))
        return hs_error_set(err, HS_DATA_LOSS, "invalid values: best %g at step %lld, then %lld others until step %lld",
                            loaded.best, (long long)loaded.best_step, (long long)loaded.bad, (long long)loaded.seen_step);
    if (loaded.best_step != hook->known.best_step)
        hook->has_copy = false;
    hook->known = loaded;
    return HS_OK;
}

static const char *state_identity(void *self)
{
    return ((const early_stopping *)self)->identity;
}

static void destroy(void *self)
{
    early_stopping *hook = self;
    const hs_env *env = &hook->base.env;
    hs_env_free(env, hook->metric);
    hs_env_free(env, hook->tensor);
    hs_env_free(env, hook->identity);
    hs__hook_free(hook);
}

static const hs_hook_ops ops =
    HS_INIT(hs_hook_ops, .name = "early_stopping", .begin = begin, .after_create_session = after_create_session,
            .before_run = before_run, .after_run = after_run, .boundary = boundary, .end = end, .close = close_hook,
            .save_state = save_state, .load_state = load_state, .destroy = destroy, .state_identity = state_identity,
            .state_bytes = sizeof(record), .rank_identity = hs__hook_rank_identity);

static hs_code check(const void *given, hs_error *err)
{
    const hs_early_stopping_options *options = given;
    bool metric = options->metric && *options->metric, tensor = options->tensor && *options->tensor;
    if (metric == tensor)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%s of metric and tensor is given; give exactly one of the two",
                            metric ? "each" : "none");
    if (options->patience < HS_NEVER)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "patience is %lld; it must be at least 1, or HS_NEVER",
                            (long long)options->patience);
    if (!(options->min_delta >= 0) || isinf(options->min_delta))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "min_delta is %g; it must be at least 0", options->min_delta);
    return HS_OK;
}

static hs_code fill(void *self, const void *given, hs_error *err)
{
    early_stopping *hook = self;
    const hs_early_stopping_options *options = given;
    static const char form[] = "the %s %s";
    const char *extreme = options->larger_is_better ? "largest" : "smallest";
    hook->base.flags = HS_HOOK_ALL_RANKS;
    hook->patience = options->patience ? options->patience : 1;
    hook->start_step = options->start_step;
    hook->min_delta = options->min_delta;
    hook->larger_is_better = options->larger_is_better;
    hook->restore_best = options->restore_best;
    hook->restore_at_any_end = options->restore_at_any_end;
    hook->known = empty_record;
    if ((options->metric && *options->metric && !(hook->metric = hs__hook_text(hook, options->metric, err))) ||
        (options->tensor && *options->tensor && !(hook->tensor = hs__hook_text(hook, options->tensor, err))))
        return HS_RESOURCE_EXHAUSTED;
    size_t bytes = sizeof form + strlen(extreme) + strlen(name_of(hook));
    if (!(hook->identity = hs_env_alloc(&hook->base.env, bytes)))
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no memory for a name");
    snprintf(hook->identity, bytes, form, extreme, name_of(hook));
    hook->names[0] = hook->tensor;
    hook->args = (hs_run_args)HS_INIT(hs_run_args, .names = hook->names);
    return HS_OK;
}

static const hs__rank_option same[] = {
    HS__RANK_OPTION(hs_early_stopping_options, metric),
    HS__RANK_OPTION(hs_early_stopping_options, tensor),
    HS__RANK_OPTION(hs_early_stopping_options, patience),
    HS__RANK_OPTION(hs_early_stopping_options, min_delta),
    HS__RANK_OPTION(hs_early_stopping_options, start_step),
    HS__RANK_OPTION(hs_early_stopping_options, larger_is_better),
    HS__RANK_OPTION(hs_early_stopping_options, restore_best),
    HS__RANK_OPTION(hs_early_stopping_options, restore_at_any_end),
    {0},
};

hs_hook hs_early_stopping_hook(const hs_early_stopping_options *given)
{
    return HS__HOOK_MAKE(&ops, early_stopping, hs_early_stopping_options, reserved, check, fill, same, given);
}
