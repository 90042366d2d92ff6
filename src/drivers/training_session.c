/* SPDX-License-Identifier: Apache-2.0 */
/* Opens a session with the standard hooks: make_parts checks the options, and make_hooks makes the hooks in their order. */
#include <hooksess/training_session.h>

#include <hooksess/hooks/checkpoint_saver.h>
#include <hooksess/hooks/run_status.h>
#include <hooksess/hooks/scalars.h>
#include <hooksess/hooks/step_counter.h>
#include <hooksess/hooks/summary_saver.h>

#include "backends/graph/graph.h"
#include "base/trigger.h"
#include "drivers/resume_trial.h"
#include "hooks/make.h"
#include "session/session.h"

enum {
    STANDARD_HOOKS = 6,
    SAVE_CHECKPOINT_SECS = 600,
    SAVE_SUMMARIES_STEPS = 100,
    LOG_STEP_COUNT_STEPS = 100,
    MAX_WAIT_SECS = 7200
};

/* The schedule of saves, from the options for seconds, steps and `when`, which overrides the others. Neither seconds nor
 * steps: the default. HS_NEVER: off, unless the other one is set. */
typedef struct {
    double secs;
    int64_t steps;
    hs_trigger when;
    bool off;
} schedule;

static schedule schedule_of(double secs, int64_t steps, const hs_trigger *when, schedule standard)
{
    if (hs__trigger_is_set(when))
        return (schedule){.when = *when};
    if (secs == 0 && steps == 0)
        return standard;
    schedule chosen = {.secs = secs < 0 ? 0 : secs, .steps = steps < 0 ? 0 : steps};
    chosen.off = chosen.secs == 0 && chosen.steps == 0;
    return chosen;
}

static schedule checkpoint_schedule(const hs_training_options *options)
{
    return schedule_of(options->save_checkpoint_secs, options->save_checkpoint_steps, &options->save_checkpoint_when,
                       (schedule){.secs = SAVE_CHECKPOINT_SECS});
}

static size_t add_all(hs_hook *to, const hs_hook *from)
{
    size_t n = 0;
    for (; from && from[n].ops; n++)
        to[n] = from[n];
    return n;
}

static schedule summary_schedule(const hs_training_options *options)
{
    return schedule_of(options->save_summaries_secs, options->save_summaries_steps, &options->save_summaries_when,
                       (schedule){.steps = SAVE_SUMMARIES_STEPS});
}

static const char *summary_dir_of(const hs_training_options *options)
{
    return options->summary_dir ? options->summary_dir : options->checkpoint_dir;
}

static bool has_scalars(const hs_training_options *options)
{
    return options->scalars && options->scalars[0];
}

/* Makes the hooks in their order. The array is zeroed and has room for all of them and the terminator. This process saves
 * to `directory`. */
static void make_hooks(hs_hook *hooks, const hs_training_options *options, const char *directory, hs_scaffold *scaffold,
                       hs__trial *trial)
{
    const bool chief = !options->is_worker;
    size_t n = 0;
    if (chief && !options->no_run_status && options->checkpoint_dir &&
        *options->checkpoint_dir) /* the first in the list is closed last */
        hooks[n++] = hs_run_status(.status_dir = options->checkpoint_dir);
    if (chief)
        n += add_all(hooks + n, options->chief_only_hooks);
    const size_t common = n;
    n += add_all(hooks + n, options->hooks);
    const size_t standard = n;
    if (trial)
        hooks[n++] = hs__trial_hook(trial);

    const char *summary_dir = summary_dir_of(options);
    const schedule summaries = summary_schedule(options);
    const int64_t count = options->log_step_count_steps ? options->log_step_count_steps : LOG_STEP_COUNT_STEPS;
    if ((chief || options->worker_saves_summaries) && summary_dir && *summary_dir) {
        if (count > 0)
            hooks[n++] = hs_step_counter(.every_n_steps = count, .summary_dir = summary_dir);
        if (!summaries.off)
            hooks[n++] = hs_summary_saver(.scaffold = scaffold, .summary_dir = summary_dir, .every_n_secs = summaries.secs,
                                          .every_n_steps = summaries.steps, .when = summaries.when);
        if (!summaries.off && has_scalars(options))
            hooks[n++] = hs_scalars(.tensors = options->scalars, .every_n_steps = summaries.steps,
                                    .every_n_secs = summaries.secs, .when = summaries.when);
    }
    for (size_t i = 0; options->group && hooks[i].ops; i++)
        if (i < common || i >= standard)
            hooks[i].flags |= HS_HOOK_CHIEF_ONLY;

    const schedule save = checkpoint_schedule(options);
    const hs_trigger intervals = {
        .every_n_secs = save.secs, .every_n_steps = save.steps, .first = !options->no_initial_checkpoint};
    if ((chief || options->worker_saves_checkpoints) && *directory && !save.off)
        hooks[n] = hs_checkpoint_saver(.checkpoint_dir = directory, .scaffold = scaffold,
                                       .when = hs__trigger_is_set(&save.when) ? save.when : intervals,
                                       .no_graph_def = options->no_graph_def, .max_to_keep = options->max_to_keep,
                                       .background = options->background, .overlap = options->overlap,
                                       .listeners = options->listeners);
}

/* Checks. The messages name the options that the program has set, not those of the hooks. */

static hs_code check_number(double number, const char *what, const char *unit, hs_error *err)
{
    if (number >= 0 || number == HS_NEVER)
        return HS_OK;
    return hs_error_set(err, HS_INVALID_ARGUMENT,
                        "hs_training_options.%s_%s is %g; it must be at least 0, or HS_NEVER for never", what, unit,
                        number);
}

static hs_code check_schedule(double secs, int64_t steps, const hs_trigger *when, const char *what, hs_error *err)
{
    hs_code code = check_number(secs, what, "secs", err);
    if (code || (code = check_number((double)steps, what, "steps", err)) ||
        (secs > 0) + (steps > 0) + hs__trigger_is_set(when) < 2)
        return code;
    return hs_error_set(err, HS_INVALID_ARGUMENT,
                        "hs_training_options: each of %s_%s and %s_%s is given; give one of %s_secs, %s_steps and %s_when",
                        what, secs > 0 ? "secs" : "steps", what, hs__trigger_is_set(when) ? "when" : "steps", what, what,
                        what);
}

static hs_code check_options(const hs_training_options *options, hs_error *err)
{
    const char *directory = summary_dir_of(options);
    const bool saves = options->checkpoint_dir && *options->checkpoint_dir && !checkpoint_schedule(options).off;
    const char *for_saves = options->listeners               ? "listeners"
                            : options->max_to_keep           ? "max_to_keep"
                            : options->no_initial_checkpoint ? "no_initial_checkpoint"
                            : options->background            ? "background"
                            : options->overlap               ? "overlap"
                                                             : NULL;
    if (for_saves && !saves) /* workers may have the chief's options */
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_training_options.%s is set, but no checkpoints are saved; set checkpoint_dir, and leave "
                            "saving switched on",
                            for_saves);
    if (options->max_to_keep < HS_NEVER)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_training_options.max_to_keep is %lld; it must be at least 0, or HS_NEVER for all",
                            (long long)options->max_to_keep);
    if (options->no_initial_checkpoint && hs__trigger_is_set(&options->save_checkpoint_when))
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_training_options: each of no_initial_checkpoint and save_checkpoint_when is given; give "
                            "at most one of the two: it saves initially only if its `first` is set");
    if (has_scalars(options) && (!directory || !*directory || summary_schedule(options).off))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_training_options: scalars are named, but %s; %s",
                            summary_schedule(options).off ? "save_summaries_* is HS_NEVER"
                                                          : "no directory for them is given",
                            summary_schedule(options).off ? "set an interval, or list hs_scalars(...) in hooks"
                                                          : "set summary_dir or checkpoint_dir");
    hs_code code = check_schedule(options->save_checkpoint_secs, options->save_checkpoint_steps,
                                  &options->save_checkpoint_when, "save_checkpoint", err);
    if (!code)
        code = check_schedule(options->save_summaries_secs, options->save_summaries_steps, &options->save_summaries_when,
                              "save_summaries", err);
    return code ? code : check_number((double)options->log_step_count_steps, "log_step_count", "steps", err);
}

/* Objects for the opening of the session. */
typedef struct {
    hs_scaffold *scaffold;
    hs_hook *hooks;
    char *directory;  /* this process saves to it */
    hs__trial *trial; /* never freed. NULL: not a trial */
} parts;

/* Makes the parts. If this process is a trial (resume_trial.h), also sets the directories in `options` to the trial's. */
static hs_code make_parts(parts *made, hs_training_options *options, const hs_env *env, hs_error *err)
{
    size_t room = hs__hooks_count(options->hooks) + hs__hooks_count(options->chief_only_hooks) + STANDARD_HOOKS + 1;
    hs_code code = check_options(options, err);
    if (code || (code = hs__trial_begin(&made->trial, options, env, err)))
        return code;
    const char *directory = options->checkpoint_dir ? options->checkpoint_dir : "";
    bool separate = options->is_worker && *directory;
    made->scaffold = options->scaffold;
    if (!made->scaffold && !(made->scaffold = hs_scaffold_new(HS_SCAFFOLD_OPTIONS(.env = env), err)))
        return HS_RESOURCE_EXHAUSTED;
    made->hooks = hs_env_alloc(env, room * sizeof *made->hooks);
    made->directory = separate ? hs__format(env, "%s/tmp_worker_%lld", directory, (long long)options->worker_index)
                               : hs__strdup(env, directory);
    return made->hooks && made->directory ? HS_OK : hs__no_memory(err, room * sizeof *made->hooks, "the hooks");
}

static hs_session_options session_options(const hs_training_options *options, const hs_recovery *standard)
{
    return (hs_session_options)HS_INIT(
        hs_session_options, .checkpoint_dir = options->checkpoint_dir, .summary_dir = options->summary_dir,
        .target = options->target, .config = options->config, .restore = options->restore,
        .restore_options = options->restore_options, .is_worker = options->is_worker,
        .recovery = options->recovery ? options->recovery : standard,
        .max_wait_secs = options->max_wait_secs == 0 ? MAX_WAIT_SECS : options->max_wait_secs,
        .recovery_wait_secs = options->recovery_wait_secs, .stop_grace_secs = options->stop_grace_secs,
        .group = options->group, .replicas = options->replicas, .signals = options->signals,
        .signal_grace_secs = options->signal_grace_secs);
}

hs_session *hs_training_session_open(hs_backend backend, const hs_training_options *given, hs_error *err)
{
    static const hs_recovery standard = HS_INIT(hs_recovery);
    hs_training_options options = HS_INIT(hs_training_options);
    hs_error error = {0};
    const hs_env *env = hs_backend_env(backend);
    hs_session *opened = NULL;
    parts made = {NULL, NULL, NULL, NULL};
    if ((given && HS_STRUCT_TAKE(hs_training_options, chief_only_hooks, &options, given, &error)) ||
        make_parts(&made, &options, env, &error)) {
        if (options.group)
            hs__rank_refuse(options.group, &error);
        hs__hooks_destroy_apart(options.chief_only_hooks, options.hooks);
        hs_hooks_free(options.hooks);
        if (!options.scaffold)
            hs_scaffold_free(made.scaffold);
    } else {
        hs_session_options session = session_options(&options, &standard);
        if (hs_graph_of(backend))
            hs__graph_ensure_step(hs_graph_of(backend));
        const hs_env *memory = hs__set_hook_memory(env);
        make_hooks(made.hooks, &options, made.directory, made.scaffold, made.trial);
        hs__set_hook_memory(memory);
        session.hooks = made.hooks;
        session.scaffold = made.scaffold;
        session.take_scaffold = !options.scaffold;
        if (options.is_worker)
            hs__hooks_destroy_apart(options.chief_only_hooks, options.hooks); /* no session has them */
        opened = hs_session_open(backend, &session, &error);
    }
    if (opened)
        hs__clear(err);
    else
        hs__report_error(env, "session not opened", &error, err);
    if (made.trial && !opened)
        hs__trial_end(made.trial, &error);
    hs_env_free(env, made.hooks);
    hs__free(env, made.directory);
    return opened;
}
