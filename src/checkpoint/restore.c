/* SPDX-License-Identifier: Apache-2.0 */
/* Restoring one checkpoint: all of it is verified before any of it is copied. */
#include "checkpoint/restore.h"

#include "checkpoint/background.h"
#include "checkpoint/merged_file.h"
#include "checkpoint/restore_plan.h"
#include "checkpoint/unclaimed_states.h"

#include <string.h>

typedef struct {
    const hs__selection *selection;
    hs_raw_session *session;
    const hs__archive *archive;
    hs__bundle_reader *bundle;    /* the archive, if it is a checkpoint; NULL: states are not restored */
    const hs__graph_saver *graph; /* not NULL: its op restores the variables that were not added late */
    const hs_restore_options *options;
    hs__plan plan;
    hs__stored_states states;
} restoring;

static void free_restoring(restoring *r)
{
    hs__states_free(&r->states, &r->session->env);
    hs__plan_free(&r->plan);
}

static void drop_graph_variables(hs__plan *plan, const hs_raw_session *session)
{
    size_t n = 0;
    for (size_t i = 0; i < plan->n; i++)
        if (hs__session_is_late(session, plan->items[i].index))
            plan->items[n++] = plan->items[i];
    plan->n = n;
}

/* Only the op knows which variables it restores, so a variable that the checkpoint does not have is allowed. */
static hs_code plan_for_graph(restoring *r, hs_error *err)
{
    hs_restore_options lenient = *r->options;
    if (strpbrk(r->archive->path, "*?[\\"))
        return hs_error_set(
            err, HS_INVALID_ARGUMENT,
            "cannot restore '%s' with graph_restores: the graph's op takes *, ?, [ and \\ as a pattern; rename the "
            "checkpoint, or leave graph_restores out",
            r->archive->path);
    lenient.allow_missing = true;
    hs_code code = hs__plan_make(&r->plan, r->plan.env, r->selection, r->session, r->archive, &lenient, err);
    drop_graph_variables(&r->plan, r->session);
    return code;
}

static hs_code make_plan(restoring *r, hs_error *err)
{
    return r->graph ? plan_for_graph(r, err)
                    : hs__plan_make(&r->plan, r->plan.env, r->selection, r->session, r->archive, r->options, err);
}

static hs_code read_values(restoring *r, hs_error *err)
{
    hs_code code = r->graph ? hs__verify_checkpoint(r->plan.env, r->archive->path, err) : HS_OK;
    return code || (r->graph && !r->plan.n) ? code : hs__plan_read(&r->plan, r->archive, err);
}

static hs_code write_values(restoring *r, hs_error *err)
{
    hs_code code = r->graph ? hs__graph_restore(r->graph, r->session, r->archive->path, err) : HS_OK;
    return code ? code : hs__plan_write(&r->plan, r->archive, r->session, err);
}

/* After a failure the model is partly restored: hooks do not save it. */
static hs_code change_model(restoring *r, hs_error *err)
{
    hs_error error = {0};
    hs_code code = r->bundle ? hs__states_load(&r->states, r->bundle, r->session, &error) : HS_OK;
    if (!code) {
        hs__raw_session_moved(r->session);
        code = write_values(r, &error);
    }
    if (code)
        hs_raw_session_refuse_saves(r->session, &error);
    return code ? hs__error_copy(err, &error) : HS_OK;
}

/* *fault depends on the stage that failed. */
static hs_code restore_from(restoring *r, hs__restore_fault *fault, hs_error *err)
{
    *fault = HS__FAULT_OF_THE_MODEL;
    hs_code code = make_plan(r, err);
    if (code)
        return code;
    *fault = HS__FAULT_OF_THE_FILES;
    if ((r->bundle && (code = hs__states_locate(r->session, r->bundle, &r->plan.state_bytes, err))) ||
        (code = read_values(r, err)) || (r->bundle && (code = hs__states_read(&r->states, r->session, r->bundle, err))))
        return code;
    *fault = HS__FAULT_OF_THE_MODEL;
    r->states.any_identity = r->options->any_identity;
    if ((r->bundle && (code = hs__states_check(&r->states, r->session, err))) ||
        (code = hs__plan_prepare(&r->plan, r->session, err)))
        return code;
    return change_model(r, err);
}

hs_code hs__restore_variables(const hs__selection *selection, hs_raw_session *session, const hs__archive *archive,
                              const hs_restore_options *options, hs__restore_fault *fault, hs_error *err)
{
    restoring r = {
        .selection = selection, .session = session, .archive = archive, .options = options, .plan = {.env = &session->env}};
    hs_code code = restore_from(&r, fault, err);
    free_restoring(&r);
    return code;
}

/* What saver and session record of a restore. It is allocated before anything is changed, so that recording cannot fail. */
typedef struct {
    char *last_path, *restored_from;
} restore_record;

static hs_code prepare_record(restore_record *record, const hs_saver *saver, const hs_raw_session *session,
                              const char *prefix, hs_error *err)
{
    record->last_path = hs__strdup(&saver->env, prefix);
    record->restored_from = hs__strdup(&session->env, prefix);
    return record->last_path && record->restored_from ? HS_OK : hs__no_memory(err, strlen(prefix), "a path");
}

static void record_restore(restore_record *record, hs_saver *saver, hs_raw_session *session)
{
    char *before = saver->last_path;
    saver->last_path = record->last_path;
    record->last_path = before;
    saver->last_bytes = hs__expected_bytes(&saver->selection, session);
    saver->restored = true;
    saver->rolled_back = false;
    saver->rollback_session = NULL;
    record->restored_from = hs__raw_session_restored(session, record->restored_from);
}

/* A misspelled name must not be ignored. */
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

static bool restores_by_graph(const hs_saver *saver, const hs_restore_options *options)
{
    bool all = !options->names && !options->skip && !options->allow_missing && !options->reshape;
    return saver->graph.restores && all;
}

hs_code hs__restore(hs_saver *saver, hs_raw_session *session, const char *prefix, const hs_restore_options *options,
                    hs__restore_fault *fault, hs_error *err)
{
    hs__bundle_reader reader;
    restore_record record = {NULL, NULL};
    *fault = HS__FAULT_OF_THE_MODEL;
    hs__background_wait(saver);
    hs_code code;
    if ((code = hs__selection_check(&saver->selection, session, err)) || (code = hs__restore_check(options, session, err)))
        return code;
    *fault = HS__FAULT_OF_THE_FILES;
    if ((code = hs__bundle_reader_open(&reader, &saver->env, prefix, err)))
        return code;
    hs__archive archive = hs__bundle_archive(&reader);
    restoring r = {.selection = &saver->selection,
                   .session = session,
                   .archive = &archive,
                   .bundle = &reader,
                   .graph = restores_by_graph(saver, options) ? &saver->graph : NULL,
                   .options = options,
                   .plan = {.env = &saver->env}};
    if (!(code = prepare_record(&record, saver, session, prefix, err)) && !(code = restore_from(&r, fault, err))) {
        hs__stash_unclaimed(&r.states, session);
        record_restore(&record, saver, session);
    }
    hs__free(&saver->env, record.last_path);
    hs__free(&session->env, record.restored_from);
    free_restoring(&r);
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
    hs__restore_fault fault;
    hs_code code = HS_OK;
    if (given)
        code = hs__copy_restore_options(&options, &saver->env, given, err);
    if (!code)
        code = hs__restore(saver, session, prefix, &options, &fault, err);
    if (!code)
        hs_error_clear(err);
    return code;
}
