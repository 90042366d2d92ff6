/* SPDX-License-Identifier: Apache-2.0 */
/* A session with the usual hooks. */
#include <hooksess/training_session.h>

#include <hooksess/hooks/checkpoint_saver.h>
#include <hooksess/hooks/summary_saver.h>

#include "base/env.h"

enum { USUAL_HOOKS = 2, SAVE_CHECKPOINT_SECS = 600, SAVE_SUMMARIES_STEPS = 100 };

/* One of a pair of secs and steps: neither is the default, HS_NEVER for both or for the one that is given is off. */
typedef struct {
    double secs;
    int64_t steps;
    bool off;
} rhythm;

static rhythm rhythm_of(double secs, int64_t steps, double default_secs, int64_t default_steps)
{
    if (secs == 0 && steps == 0)
        return (rhythm){default_secs, default_steps, false};
    rhythm chosen = {secs < 0 ? 0 : secs, steps < 0 ? 0 : steps, false};
    chosen.off = chosen.secs == 0 && chosen.steps == 0;
    return chosen;
}

/* The hooks in their order; how many they are. The array has room for all. */
static size_t make_hooks(hs_hook *hooks, const hs_training_options *options, hs_scaffold *scaffold, const hs_env *env)
{
    rhythm save = rhythm_of(options->save_checkpoint_secs, options->save_checkpoint_steps, SAVE_CHECKPOINT_SECS, 0);
    rhythm summaries = rhythm_of(options->save_summaries_secs, options->save_summaries_steps, 0, SAVE_SUMMARIES_STEPS);
    const char *directory = options->checkpoint_dir, *summary_dir = options->summary_dir ? options->summary_dir : directory;
    size_t n = 0;
    for (size_t i = 0; i < options->n_chief_only_hooks; i++)
        hooks[n++] = options->chief_only_hooks[i];
    for (size_t i = 0; i < options->n_hooks; i++)
        hooks[n++] = options->hooks[i];
    if (summary_dir && *summary_dir && !summaries.off)
        hooks[n++] = hs_summary_saver(.scaffold = scaffold, .output_dir = summary_dir, .save_secs = summaries.secs,
                                      .save_steps = summaries.steps, .env = env);
    if (directory && *directory && !save.off)
        hooks[n++] = hs_checkpoint_saver(.checkpoint_dir = directory, .scaffold = scaffold, .save_secs = save.secs,
                                         .save_steps = save.steps, .no_graph_def = options->no_graph_def, .env = env);
    return n;
}

static hs_code check_options(const hs_training_options *options, const hs_env *env, hs_error *err)
{
    const double often[] = {options->save_checkpoint_secs, (double)options->save_checkpoint_steps,
                            options->save_summaries_secs, (double)options->save_summaries_steps};
    if ((options->n_hooks && !options->hooks) || (options->n_chief_only_hooks && !options->chief_only_hooks))
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_training_options: a list of hooks is NULL, and its number is not 0");
    if ((options->hooks && !options->n_hooks) || (options->chief_only_hooks && !options->n_chief_only_hooks))
        hs_log(env, HS_LOG_WARNING,
               "hs_training_options: a list of hooks is given, and its number is 0: none of it is called");
    for (size_t i = 0; i < sizeof often / sizeof *often; i++)
        if (often[i] < 0 && often[i] != HS_NEVER)
            return hs_error_set(err, HS_INVALID_ARGUMENT,
                                "hs_training_options: something is to be saved every %g; off is HS_NEVER", often[i]);
    return HS_OK;
}

/* Hooks that no session took over. A hook that is in both lists is destroyed with the first. */
static void destroy_all(const hs_training_options *options)
{
    const hs_hook *hooks = options->hooks, *chief = options->chief_only_hooks;
    size_t n = hooks ? options->n_hooks : 0;
    hs_hooks_destroy(hooks, n);
    for (size_t i = 0; chief && i < options->n_chief_only_hooks; i++) {
        bool done = false;
        for (size_t k = 0; k < n; k++)
            done |= chief[i].self && hooks[k].self == chief[i].self;
        for (size_t k = 0; k < i; k++)
            done |= chief[i].self && chief[k].self == chief[i].self;
        if (!done)
            hs_hooks_destroy(&chief[i], 1);
    }
}

/* As hs_session_open does: what kept a session from starting is in the log, too. */
static hs_session *not_opened(const hs_env *env, const hs_error *error, hs_error *err)
{
    hs_log(env, HS_LOG_ERROR, "the session was not opened: %s", error->message);
    hs__error_copy(err, error);
    return NULL;
}

hs_session *hs_training_session_open(hs_backend backend, const hs_training_options *given, hs_error *err)
{
    hs_training_options options = {HS_TRAINING_OPTIONS};
    hs_error error = {0};
    const hs_env *env = hs_backend_env(backend);
    if (given && hs_struct_take(&options, sizeof options, given, "hs_training_options", "HS_TRAINING_OPTIONS", &error))
        return not_opened(env, &error, err);
    hs_scaffold *scaffold = options.scaffold;
    hs_hook *hooks = NULL;
    if (!check_options(&options, env, &error) &&
        (scaffold || (scaffold = hs_scaffold_new(&(hs_scaffold_options){HS_SCAFFOLD_OPTIONS, .env = env}, &error)))) {
        size_t room = options.n_hooks + options.n_chief_only_hooks + USUAL_HOOKS;
        if (!(hooks = hs_env_alloc(env, room * sizeof *hooks)))
            hs__no_memory(&error, room * sizeof *hooks, "the hooks");
    }
    if (!hooks) {
        destroy_all(&options);
        if (!options.scaffold)
            hs_scaffold_free(scaffold);
        return not_opened(env, &error, err);
    }
    size_t n_hooks = make_hooks(hooks, &options, scaffold, env);
    hs_session_options session = {
        HS_SESSION_OPTIONS,
        .hooks = n_hooks ? hooks : NULL,
        .n_hooks = n_hooks,
        .scaffold = scaffold,
        .take_scaffold = !options.scaffold,
        .checkpoint_dir = options.checkpoint_dir,
        .target = options.target,
        .config = options.config,
        .group = options.group,
        .restore = options.restore,
        .restore_options = options.restore_options,
    };
    hs_session *opened = hs_session_open(backend, &session, err);
    hs_env_free(env, hooks);
    return opened;
}
