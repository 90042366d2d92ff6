/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint manager: a saver, a directory, and the decision whether and under which number to save. */
#include <hooksess/checkpoint_manager.h>

#include "base/files.h"
#include "checkpoint/restore.h"

#include <string.h>

struct hs_checkpoint_manager {
    hs_saver *saver;
    char *directory, *prefix; /* "DIRECTORY/NAME" */
    char *path;               /* of the last save; NULL: none yet */
    int64_t every_n_steps;    /* 0: none */
    bool only_now;            /* hs_checkpoint_manager_save saves nothing */
    const int64_t *step;      /* NULL: the global step */
    bool has_last_step;       /* true only with an interval */
    int64_t last_step;        /* of the last save or restore */
    int64_t highest;          /* highest number of a checkpoint */
    bool searched;            /* the directory, for numbers */
    hs_code (*init_fn)(void *user, hs_raw_session *session, hs_error *err);
    void *user;
};

static hs_code check_options(const hs_checkpoint_manager_options *options, hs_error *err)
{
    if (!options->checkpoint_dir || !*options->checkpoint_dir)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_checkpoint_manager_options.checkpoint_dir is missing");
    if (options->name && (!*options->name || strchr(options->name, '/')))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_checkpoint_manager_options.name '%s' is not a file name",
                            options->name);
    if (options->every_n_steps < HS_NEVER)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "hs_checkpoint_manager_options.every_n_steps is %lld; it must be at least 0, or HS_NEVER",
                            (long long)options->every_n_steps);
    return HS_OK;
}

hs_checkpoint_manager *hs_checkpoint_manager_new(const hs_checkpoint_manager_options *given, hs_error *err)
{
    hs_checkpoint_manager_options options = HS_INIT(hs_checkpoint_manager_options);
    if ((given && HS_STRUCT_TAKE(hs_checkpoint_manager_options, user, &options, given, err)) ||
        check_options(&options, err))
        return NULL;
    hs_saver *saver = hs_saver_new(options.saver, err);
    hs_checkpoint_manager *manager = saver ? hs__alloc(&saver->env, 1, sizeof *manager) : NULL;
    if (!manager) {
        if (saver)
            hs__no_memory(err, sizeof *manager, "a checkpoint manager");
        hs_saver_free(saver);
        return NULL;
    }
    saver->lists_all = true;
    *manager = (hs_checkpoint_manager){
        .saver = saver,
        .every_n_steps = options.every_n_steps == HS_NEVER ? 0 : options.every_n_steps,
        .only_now = options.every_n_steps == HS_NEVER,
        .step = options.step,
        .last_step = options.last_step ? *options.last_step : 0,
        .has_last_step = options.last_step && options.every_n_steps > 0,
        .init_fn = options.init_fn,
        .user = options.user,
    };
    manager->directory = hs__strdup(&saver->env, options.checkpoint_dir);
    manager->prefix = hs__path_join(&saver->env, options.checkpoint_dir, options.name ? options.name : "ckpt");
    if (!manager->directory || !manager->prefix) {
        hs__no_memory(err, strlen(options.checkpoint_dir), "a path");
        hs_checkpoint_manager_free(manager);
        return NULL;
    }
    hs_error_clear(err);
    return manager;
}

void hs_checkpoint_manager_free(hs_checkpoint_manager *manager)
{
    if (!manager)
        return;
    hs_saver *saver = manager->saver;
    hs__free(&saver->env, manager->directory);
    hs__free(&saver->env, manager->prefix);
    hs__free(&saver->env, manager->path);
    hs__free(&saver->env, manager);
    hs_saver_free(saver);
}

static hs_code check_call(const char *function, const hs_checkpoint_manager *manager, const hs_raw_session *session,
                          hs_error *err)
{
    hs_error_clear(err);
    if (!manager || !session || !session->handle)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%s: %s", function, manager ? "session is NULL" : "manager is NULL");
    return HS_OK;
}

/* Without an interval the step is not needed. */
static hs_code read_step(const hs_checkpoint_manager *manager, hs_raw_session *session, int64_t *step, hs_error *err)
{
    hs_error error = {0};
    *step = 0;
    if (!manager->every_n_steps)
        return HS_OK;
    *step = manager->step ? *manager->step : hs_raw_session_global_step(session, &error);
    if (error.code)
        hs_error_prefix(&error,
                        "hs_checkpoint_manager_options.every_n_steps needs a step; set .step if the graph has no global "
                        "step");
    return hs__error_copy(err, &error);
}

static void record_step(hs_checkpoint_manager *manager, int64_t step)
{
    manager->last_step = step;
    manager->has_last_step = manager->every_n_steps != 0;
}

static void record_number(hs_checkpoint_manager *manager, const char *path)
{
    int64_t number = hs__step_in(path);
    if (number > manager->highest)
        manager->highest = number;
}

/* Restoring. */

hs_code hs_checkpoint_manager_restore_or_initialize(hs_checkpoint_manager *manager, hs_raw_session *session,
                                                    const hs_restore_options *given, const char **restored, hs_error *err)
{
    hs_restore_options options = HS_INIT(hs_restore_options);
    char *found = NULL;
    int64_t step = 0;
    if (restored)
        *restored = NULL;
    hs_code code = check_call("hs_checkpoint_manager_restore_or_initialize", manager, session, err);
    if (!code && given)
        code = hs__copy_restore_options(&options, &session->env, given, err);
    if (code || (code = hs_saver_hold(manager->saver, NULL, manager->prefix, err)) ||
        (code = hs__restore_newest(manager->saver, session, manager->directory, &options, &found, err)))
        return code;
    bool any = found != NULL;
    hs__free(&session->env, found);
    if (any) {
        code = read_step(manager, session, &step, err);
    } else if (manager->init_fn) {
        code = manager->init_fn(manager->user, session, err);
        if (hs__normalize_error(code, "it", err))
            hs_error_prefix(err, "init_fn");
    }
    if (code)
        return code;
    const char *path;
    for (size_t i = 0; (path = hs_saver_checkpoint(manager->saver, i)); i++)
        record_number(manager, path);
    if (any)
        record_step(manager, step);
    if (any && restored)
        *restored = hs_raw_session_restored_from(session);
    hs_error_clear(err);
    return HS_OK;
}

/* Saving. */

/* A step before the last one wraps around to more than any interval. */
static bool is_time(const hs_checkpoint_manager *manager, int64_t step, bool now)
{
    uint64_t since = (uint64_t)step - (uint64_t)manager->last_step;
    return !manager->has_last_step || since >= (now ? 1 : (uint64_t)manager->every_n_steps);
}

/* NAME-NUMBER.index */
static int record_file(void *user, const char *name)
{
    hs_checkpoint_manager *manager = user;
    int64_t number;
    const size_t stem = hs__index_stem(name);
    if (stem && hs__is_in_series(name, stem, hs__path_base(manager->prefix), &number) && number > manager->highest)
        manager->highest = number;
    return 0;
}

/* Checkpoints of an earlier run may not be in the saver's list. The directory is locked first, so that no other process
 * adds one before the save. */
static hs_code find_numbers(hs_checkpoint_manager *manager, hs_error *err)
{
    hs_code code = manager->searched ? HS_OK : hs_saver_hold(manager->saver, NULL, manager->prefix, err);
    if (code || manager->searched)
        return code;
    code = hs__list(&manager->saver->env, manager->directory, record_file, manager, err);
    manager->searched = !code;
    return code;
}

static hs_code save(hs_checkpoint_manager *manager, hs_raw_session *session, int64_t number, bool now,
                    const hs_save_options *given, const char **saved, hs_error *err)
{
    hs_save_options options = HS_INIT(hs_save_options);
    int64_t step = 0;
    if (saved)
        *saved = NULL;
    hs_code code = check_call("hs_checkpoint_manager_save", manager, session, err);
    if (!code && given)
        code = HS_STRUCT_TAKE(hs_save_options, copy_limit, &options, given, err);
    if (code || (manager->only_now && !now) || (code = read_step(manager, session, &step, err)) ||
        !is_time(manager, step, now))
        return code;
    hs_error why;
    if (hs_raw_session_save_refusal(session, &why))
        return hs_error_set(err, HS_FAILED_PRECONDITION, "cannot save '%s': %s", manager->prefix, why.message);
    if (number < 0) {
        if ((code = find_numbers(manager, err)))
            return code;
        number = manager->highest + 1;
    }

    const hs_env *env = &manager->saver->env;
    char *path = hs__format(env, "%s-%lld", manager->prefix, (long long)number);
    if (!path)
        return hs__no_memory(err, strlen(manager->prefix), "a path");
    if ((code = hs_saver_save(manager->saver, session, manager->prefix, number, &options, err))) {
        hs__free(env, path);
        return code;
    }
    hs__free(env, manager->path);
    manager->path = path;
    record_number(manager, path);
    record_step(manager, step);
    int64_t saved_step = options.background ? -1 : hs_raw_session_global_step(session, NULL);
    if (saved_step >= 0)
        hs_raw_session_record_save(session, saved_step);
    if (saved)
        *saved = manager->path;
    hs_error_clear(err);
    return HS_OK;
}

hs_code hs_checkpoint_manager_save(hs_checkpoint_manager *manager, hs_raw_session *session, int64_t number,
                                   const hs_save_options *options, const char **saved, hs_error *err)
{
    return save(manager, session, number, false, options, saved, err);
}

hs_code hs_checkpoint_manager_save_now(hs_checkpoint_manager *manager, hs_raw_session *session, int64_t number,
                                       const hs_save_options *options, const char **saved, hs_error *err)
{
    return save(manager, session, number, true, options, saved, err);
}

hs_saver *hs_checkpoint_manager_saver(const hs_checkpoint_manager *manager)
{
    return manager ? manager->saver : NULL;
}
