/* SPDX-License-Identifier: Apache-2.0 */
/* The rows come from scalar_rows.c. This file writes them as events, unless the program has its own sink. */
#include <hooksess/hooks/scalars.h>

#include "hooks/ranks.h"
#include "hooks/scalar_rows.h"

typedef struct {
    hs__scalar_rows rows;
    char *summary_dir; /* NULL: the session's */
    hs_summary_writer *given_writer, *writer;
} scalars;

/* The sink: an event file. */

static hs_code open_events(void *self, hs_raw_session *session, hs_error *err)
{
    scalars *hook = self;
    const char *directory = hook->summary_dir ? hook->summary_dir : hs_raw_session_summary_dir(session);
    if (directory && hs_raw_session_rank(session)) {
        if ((!hook->summary_dir && !(hook->summary_dir = hs__hook_text(hook, directory, err))) ||
            hs__add_rank(hook, session, &hook->summary_dir, err))
            return HS_RESOURCE_EXHAUSTED;
        directory = hook->summary_dir;
    }
    if (!directory && !hook->given_writer)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "no directory for the event file; set summary_dir here, or summary_dir or checkpoint_dir of "
                            "the session");
    return hs_raw_session_event_writer(session, directory, hook->given_writer, &hook->writer, err);
}

static hs_code write_events(void *self, const hs_scalar_row *row, hs_error *err)
{
    const scalars *hook = self;
    hs_code code = HS_OK;
    for (const hs_scalar *scalar = row->scalars; !code && scalar->name; scalar++)
        if (scalar->known)
            code = hs_summary_writer_scalar(hook->writer, scalar->name, scalar->value, scalar->step, err);
    return code;
}

static hs_code end_events(void *self, const hs_scalar_row *row, hs_error *err)
{
    const scalars *hook = self;
    (void)row;
    return hs_raw_session_flush_writer(hook->rows.session, hook->writer, true, err);
}

static void free_directory(void *self)
{
    scalars *hook = self;
    hs_env_free(&hook->rows.base.env, hook->summary_dir);
}

static const hs_scalar_sink_ops events = HS_INIT(hs_scalar_sink_ops, .name = "scalars", .open = open_events,
                                                 .write = write_events, .end = end_events, .destroy = free_directory);

static const hs_hook_ops ops = HS_INIT(hs_hook_ops, .name = "scalars", HS__SCALAR_ROWS_CALLBACKS, HS__SCALAR_ROWS_STATE);

static hs_code fill(scalars *hook, const hs_scalars_options *options, hs_error *err)
{
    const hs__scalar_rows_options rows = {
        .tensors = options->tensors,
        .labels = options->labels,
        .metrics = options->metrics,
        .when = {.secs = options->every_n_secs, .steps = options->every_n_steps, .when = options->when},
        .sink = options->sink.ops ? options->sink : (hs_scalar_sink){&events, hook}};
    hs_code code = hs__scalar_rows_init(&hook->rows, &rows, err);
    if (code)
        return code;
    if ((options->summary_dir != NULL) + (options->summary_writer != NULL) + (options->sink.ops != NULL) > 1)
        return hs_error_set(err, HS_INVALID_ARGUMENT,
                            "more than one of summary_dir, summary_writer and sink is given; give at most one");
    hook->rows.base.flags |= hs__writer_flags(options->every_rank);
    hook->given_writer = options->summary_writer;
    if (options->summary_dir && !(hook->summary_dir = hs__hook_text(hook, options->summary_dir, err)))
        return HS_RESOURCE_EXHAUSTED;
    return HS_OK;
}

static void destroy_sink(const hs_scalar_sink *sink)
{
    hs_scalar_sink_ops copy;
    if (sink->ops && !HS_STRUCT_TAKE(hs_scalar_sink_ops, destroy, &copy, sink->ops, NULL) && copy.destroy)
        copy.destroy(sink->self);
}

hs_hook hs_scalars_hook(const hs_scalars_options *given)
{
    hs_scalars_options options = {0};
    scalars *hook = NULL;
    hs_error error = {0};
    if (HS_STRUCT_TAKE(hs_scalars_options, reserved, &options, given, &error) ||
        !(hook = hs__hook_new(sizeof *hook, &error)))
        destroy_sink(&options.sink);
    if (hook && fill(hook, &options, &error)) {
        hs__scalar_rows_destroy(hook);
        hook = NULL;
    }
    return hook ? (hs_hook){.ops = &ops, .self = hook, .flags = hook->rows.base.flags, .when = hook->rows.base.when}
                : hs_hook_broken(ops.name, &error);
}
