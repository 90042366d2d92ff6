/* SPDX-License-Identifier: Apache-2.0 */
/* Restoring: all of a checkpoint is checked before any of it is copied. */
#include "checkpoint/background.h"
#include "checkpoint/merged_file.h"
#include "checkpoint/restore_plan.h"
#include "checkpoint/stored_states.h"

#include <string.h>

/* What is on its way from a checkpoint. */
typedef struct {
    hs__plan plan;
    hs__stored_states states;
} restoring;

static void free_restoring(restoring *r, const hs_raw_session *session)
{
    hs__states_free(&r->states, &session->env);
    hs__plan_free(&r->plan);
}

/* How the values come to the variables: one by one, or all at once by the graph's own op. */
typedef struct {
    hs_code (*check)(restoring *r, const hs_saver *saver, hs_raw_session *session, const hs__archive *archive,
                     const hs_restore_options *options, hs_error *err);
    hs_code (*read)(restoring *r, const hs__archive *archive, hs_error *err);
    hs_code (*prepare)(restoring *r, const hs_raw_session *session, hs_error *err);
    hs_code (*write)(restoring *r, const hs_saver *saver, hs_raw_session *session, const hs__archive *archive,
                     hs_error *err);
} way;

static hs_code check_plan(restoring *r, const hs_saver *saver, hs_raw_session *session, const hs__archive *archive,
                          const hs_restore_options *options, hs_error *err)
{
    return hs__plan_make(&r->plan, saver, session, archive, options, err);
}

static hs_code read_plan(restoring *r, const hs__archive *archive, hs_error *err)
{
    return hs__plan_read(&r->plan, archive, err);
}

static hs_code prepare_plan(restoring *r, const hs_raw_session *session, hs_error *err)
{
    return hs__plan_prepare(&r->plan, session, err);
}

static hs_code write_plan(restoring *r, const hs_saver *saver, hs_raw_session *session, const hs__archive *archive,
                          hs_error *err)
{
    (void)saver;
    return hs__plan_write(&r->plan, archive, session, err);
}

static const way one_by_one = {check_plan, read_plan, prepare_plan, write_plan};

static void keep_late(hs__plan *plan, const hs_raw_session *session)
{
    size_t n = 0;
    for (size_t i = 0; i < plan->n; i++)
        if (hs__session_is_late(session, plan->items[i].index))
            plan->items[n++] = plan->items[i];
    plan->n = n;
}

/* Which variables the op restores only it knows. Those that were added late are set after it. */
static hs_code check_for_graph(restoring *r, const hs_saver *saver, hs_raw_session *session, const hs__archive *archive,
                               const hs_restore_options *options, hs_error *err)
{
    hs_restore_options lenient = *options;
    if (strpbrk(archive->path, "*?[\\"))
        return hs_error_set(
            err, HS_INVALID_ARGUMENT,
            "cannot restore '%s' with graph_restores: the graph's op takes *, ?, [ and \\ as a pattern; rename the "
            "checkpoint, or leave graph_restores out",
            archive->path);
    lenient.allow_missing = true;
    hs_code code = hs__plan_make(&r->plan, saver, session, archive, &lenient, err);
    keep_late(&r->plan, session);
    return code;
}

static hs_code read_for_graph(restoring *r, const hs__archive *archive, hs_error *err)
{
    hs_code code = hs__verify_checkpoint(r->plan.env, archive->path, err);
    return code || !r->plan.n ? code : hs__plan_read(&r->plan, archive, err);
}

static hs_code write_by_graph(restoring *r, const hs_saver *saver, hs_raw_session *session, const hs__archive *archive,
                              hs_error *err)
{
    hs_code code = hs__graph_restore(&saver->graph, session, archive->path, err);
    return code ? code : hs__plan_write(&r->plan, archive, session, err);
}

static const way by_graph = {check_for_graph, read_for_graph, prepare_plan, write_by_graph};

static const way *choose_way(const hs_saver *saver, const hs__bundle_reader *bundle, const hs_restore_options *options)
{
    bool all = !options->names && !options->skip && !options->allow_missing && !options->reshape;
    return saver->graph.restores && bundle && all ? &by_graph : &one_by_one;
}

/* A failure leaves the model changed in part: no hook saves it any more. */
static hs_code change_model(restoring *r, const way *how, const hs_saver *saver, hs_raw_session *session,
                            const hs__archive *archive, hs__bundle_reader *bundle, hs_error *err)
{
    hs_error error = {0};
    hs_code code = bundle ? hs__states_load(&r->states, bundle, session, &error) : HS_OK;
    if (!code) {
        hs__raw_session_moved(session);
        code = how->write(r, saver, session, archive, &error);
    }
    if (code)
        hs_raw_session_refuse_saves(session, &error);
    return code ? hs__error_copy(err, &error) : HS_OK;
}

/* State comes from a bundle; `bundle` NULL: it stays as it is. `whose` says whose fault a failure is: at which stage it
 * happened. */
static hs_code restore_from(restoring *r, const hs_saver *saver, hs_raw_session *session, const hs__archive *archive,
                            hs__bundle_reader *bundle, const hs_restore_options *options, hs__restore_fault *whose,
                            hs_error *err)
{
    const way *how = choose_way(saver, bundle, options);
    *whose = HS__FAULT_OF_THE_MODEL;
    hs_code code = how->check(r, saver, session, archive, options, err);
    if (code)
        return code;
    *whose = HS__FAULT_OF_THE_FILES;
    if ((bundle && (code = hs__states_locate(session, bundle, &r->plan.state_bytes, err))) ||
        (code = how->read(r, archive, err)) || (bundle && (code = hs__states_read(&r->states, session, bundle, err))))
        return code;
    *whose = HS__FAULT_OF_THE_MODEL;
    r->states.any_identity = options->any_identity;
    if ((bundle && (code = hs__states_check(&r->states, session, err))) || (code = how->prepare(r, session, err)))
        return code;
    return change_model(r, how, saver, session, archive, bundle, err);
}

hs_code hs__restore_variables(const hs_saver *saver, hs_raw_session *session, const hs__archive *archive,
                              const hs_restore_options *options, hs__restore_fault *whose, hs_error *err)
{
    restoring r = {.plan = {.env = &saver->env}};
    hs_code code = restore_from(&r, saver, session, archive, NULL, options, whose, err);
    free_restoring(&r, session);
    return code;
}

/* Where saver and session stand after a restore: made before anything is changed, so that it cannot fail afterwards. */
typedef struct {
    char *last_path, *restored_from;
} whereabouts;

static hs_code prepare_whereabouts(whereabouts *now, const hs_saver *saver, const hs_raw_session *session,
                                   const char *prefix, hs_error *err)
{
    now->last_path = hs__strdup(&saver->env, prefix);
    now->restored_from = hs__strdup(&session->env, prefix);
    return now->last_path && now->restored_from ? HS_OK : hs__no_memory(err, strlen(prefix), "a path");
}

static void note_whereabouts(whereabouts *now, hs_saver *saver, hs_raw_session *session)
{
    char *before = saver->last_path;
    saver->last_path = now->last_path;
    now->last_path = before;
    saver->last_bytes = hs__expected_bytes(saver, session);
    saver->restored = true;
    saver->went_back = false;
    saver->returned = NULL;
    now->restored_from = hs__raw_session_restored(session, now->restored_from);
}

/* A name that is misspelled would be restored, or not be found, behind the caller's back. */
hs_code hs__restore_check(const hs_restore_options *options, const hs_raw_session *session, hs_error *err)
{
    for (size_t i = 0; options->skip && options->skip[i]; i++)
        if (!hs__has_variable(session, options->skip[i]))
            return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_restore_options.skip lists '%s', which is not a variable",
                                options->skip[i]);
    for (size_t i = 0; options->names && options->names[i].variable; i++)
        if (!options->names[i].name || !hs__has_variable(session, options->names[i].variable))
            return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_restore_options.names lists '%s', which %s",
                                options->names[i].variable, options->names[i].name ? "is not a variable" : "has no name");
    return HS_OK;
}

hs_code hs__restore(hs_saver *saver, hs_raw_session *session, const char *prefix, const hs_restore_options *options,
                    hs__restore_fault *whose, hs_error *err)
{
    hs__bundle_reader reader;
    restoring r = {.plan = {.env = &saver->env}};
    whereabouts now = {NULL, NULL};
    *whose = HS__FAULT_OF_THE_MODEL;
    hs__background_wait(saver);
    hs_code code;
    if ((code = hs__saver_check_names(saver, session, err)) || (code = hs__restore_check(options, session, err)))
        return code;
    *whose = HS__FAULT_OF_THE_FILES;
    if ((code = hs__bundle_reader_open(&reader, &saver->env, prefix, err)))
        return code;
    hs__archive archive = hs__bundle_archive(&reader);
    if (!(code = prepare_whereabouts(&now, saver, session, prefix, err)) &&
        !(code = restore_from(&r, saver, session, &archive, &reader, options, whose, err))) {
        hs__states_leave(&r.states, session);
        note_whereabouts(&now, saver, session);
    }
    hs__free(&saver->env, now.last_path);
    hs__free(&session->env, now.restored_from);
    free_restoring(&r, session);
    hs__bundle_reader_close(&reader);
    return code;
}

hs_code hs_saver_restore(hs_saver *saver, hs_raw_session *session, const char *prefix, const hs_restore_options *given,
                         hs_error *err)
{
    hs_restore_options options = HS_INIT(hs_restore_options);
    hs_error_clear(err);
    if (!saver || !session || !session->handle || !prefix || !*prefix)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "hs_saver_restore: %s",
                            !saver                ? "saver is NULL"
                            : !prefix || !*prefix ? "prefix is missing"
                                                  : "session is NULL");
    hs__restore_fault whose;
    hs_code code = HS_OK;
    if (given)
        code = hs__take_restore_options(&options, &saver->env, given, err);
    if (!code)
        code = hs__restore(saver, session, prefix, &options, &whose, err);
    if (!code)
        hs_error_clear(err);
    return code;
}
