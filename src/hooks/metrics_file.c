/* SPDX-License-Identifier: Apache-2.0 */
#include <hooksess/hooks/metrics_file.h>

#include "hooks/line_file.h"
#include "hooks/metrics_row.h"
#include "hooks/ranks.h"
#include "hooks/scalar_rows.h"

#include <string.h>
#include <strings.h>

typedef struct {
    hs__scalar_rows rows;
    const char **names; /* names of all columns */
    bool wall_time;
    char *path; /* with the rank, if this is not rank 0 */
    hs__metrics_row row;
    hs__line_reader reader;
    hs__line_file *file;
    bool keep_known; /* `keep` is valid for the next opening */
    hs__line_keep keep;
    int64_t row_step; /* step of the last row. -1: none */
} metrics_file;

/* The sink. */

/* Decides by the global step which rows of an existing file to keep, if no checkpoint had the state of the file. If opening
 * fails, the next attempt uses the same decision, because the step may have advanced since. */
static hs_code decide_keep(metrics_file *hook, hs_raw_session *session, hs_error *err)
{
    int64_t step = hs_raw_session_global_step(session, err);
    if (step < 0)
        return err->code;
    bool is_new = !step && !hs_raw_session_restored_from(session);
    hook->keep = (hs__line_keep){.kind = is_new ? HS__KEEP_NONE : HS__KEEP_STEPS, .step = step};
    hook->row_step = -1;
    hook->keep_known = true;
    return HS_OK;
}

static hs_code open_file(void *self, hs_raw_session *session, hs_error *err)
{
    metrics_file *hook = self;
    hs_code code = HS_OK;
    if (hs__session_rank(session)) {
        hook->keep_known &= hook->keep.kind != HS__KEEP_BYTES; /* the checkpoint has the state of rank 0's file */
        if (!(code = hs__add_rank(hook, session, &hook->path, err)))
            code = hs__line_file_set_path(hook->file, hook->path, err);
    }
    if (!code && !hook->keep_known)
        code = decide_keep(hook, session, err);
    if (!code)
        code = hs__line_file_open(hook->file, hook->rows.session_env, &hook->keep, err);
    hook->keep_known &= code != HS_OK;
    return code;
}

static hs_code write_row(void *self, const hs_scalar_row *given, hs_error *err)
{
    metrics_file *hook = self;
    hs__metrics_row *row = &hook->row;
    hs__metrics_row_begin(row);
    hs__metrics_row_integer(row, given->step);
    if (hook->wall_time)
        hs__metrics_row_time(row, given->unix_ns);
    for (const hs_scalar *scalar = given->scalars; scalar->name; scalar++)
        hs__metrics_row_scalar(row, scalar);
    hs__metrics_row_end(row);
    hook->row_step = given->step;
    return hs__line_file_append(hook->file, row->text, row->used, err);
}

static hs_code sync_file(void *self, hs_error *err)
{
    return hs__line_file_sync(((metrics_file *)self)->file, err);
}

static void close_file(void *self)
{
    metrics_file *hook = self;
    hs__line_file_close(hook->file);
    hook->keep_known = false;
}

static hs_code save_file(void *self, hs_state_writer *out, hs_error *err)
{
    const metrics_file *hook = self;
    bool loaded = hook->keep_known && hook->keep.kind == HS__KEEP_BYTES; /* loaded, and not opened since */
    uint64_t bytes = loaded ? hook->keep.bytes : hs__line_file_bytes(hook->file);
    const int64_t state[] = {(int64_t)bytes, hook->row_step};
    return hs_state_writer_write(out, state, sizeof state, err);
}

static hs_code load_file(void *self, hs_state_reader *in, hs_error *err)
{
    metrics_file *hook = self;
    int64_t state[2];
    hs_code code = hs_state_reader_read(in, state, sizeof state, err);
    if (code)
        return code;
    if (state[0] < 0)
        return hs_error_set(err, HS_DATA_LOSS, "invalid size of the file: %lld bytes", (long long)state[0]);
    hook->keep = (hs__line_keep){.kind = HS__KEEP_BYTES, .bytes = (uint64_t)state[0], .step = state[1]};
    hook->row_step = state[1];
    hook->keep_known = true;
    return HS_OK;
}

static void destroy_file(void *self)
{
    metrics_file *hook = self;
    const hs_env *env = &hook->rows.base.env;
    hs__line_file_free(hook->file);
    hs_env_free(env, hook->path);
    hs_env_free(env, (void *)hook->names);
    hs_env_free(env, hook->row.text);
}

static const hs_scalar_sink_ops sink =
    HS_INIT(hs_scalar_sink_ops, .name = "metrics_file", .open = open_file, .write = write_row, .flush = sync_file,
            .close = close_file, .save_state = save_file, .load_state = load_file, .destroy = destroy_file);

static const hs_hook_ops ops =
    HS_INIT(hs_hook_ops, .name = "metrics_file", HS__SCALAR_ROWS_CALLBACKS, HS__SCALAR_ROWS_STATE);

/* The constructor. */

static bool ends_with(const char *path, const char *ending)
{
    size_t n = strlen(path), m = strlen(ending);
    return n > m && strcasecmp(path + n - m, ending) == 0;
}

/* Returns the format from the options, or from the ending of the path. HS_METRICS_BY_NAME: the ending is unknown. */
static int64_t format_of(const hs_metrics_file_options *options)
{
    if (options->format != HS_METRICS_BY_NAME)
        return options->format;
    if (ends_with(options->path, ".csv"))
        return HS_METRICS_CSV;
    return ends_with(options->path, ".jsonl") || ends_with(options->path, ".json") ? HS_METRICS_JSON_LINES
                                                                                   : HS_METRICS_BY_NAME;
}

static hs_code check(const void *given, hs_error *err)
{
    const hs_metrics_file_options *options = given;
    if (!options->path || !*options->path)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "path is missing");
    if (options->format < HS_METRICS_BY_NAME || options->format > HS_METRICS_JSON_LINES)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "format is %d, not an hs_metrics_format", (int)options->format);
    if (format_of(options) == HS_METRICS_BY_NAME)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%s: the name does not end with .csv, .jsonl or .json; set format",
                            options->path);
    return HS_OK;
}

static hs_code add_column(metrics_file *hook, const char *name, hs_error *err)
{
    size_t n = 0;
    for (; hook->names[n]; n++)
        if (strcmp(hook->names[n], name) == 0)
            return hs_error_set(err, HS_INVALID_ARGUMENT, "two columns have the name '%s'; give one of them another label",
                                name);
    if (!hook->row.json && strchr(name, '\n'))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "column '%s': the name contains a newline; give it a label", name);
    hook->names[n] = name;
    return HS_OK;
}

static hs_code name_columns(metrics_file *hook, hs_error *err)
{
    const hs__scalar_rows *rows = &hook->rows;
    hook->names = hs_env_alloc(&rows->base.env, (rows->n_tensors + rows->n_metrics + 3) * sizeof *hook->names);
    if (!hook->names)
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no memory for the columns");
    hs_code code = add_column(hook, "step", err);
    if (!code && hook->wall_time)
        code = add_column(hook, "wall_time", err);
    for (const hs_scalar *scalar = rows->scalars; !code && scalar->name; scalar++)
        code = add_column(hook, scalar->name, err);
    return code;
}

/* The row, the scratch space and the head are one block. */
static hs_code make_row(metrics_file *hook, const char *path, hs_error *err)
{
    size_t longest = hs__metrics_row_longest(hook->names);
    char *block = hs_env_alloc(&hook->rows.base.env, 3 * longest);
    hook->row.names = hook->names;
    hook->row.text = block;
    if (!block)
        return hs_error_set(err, HS_RESOURCE_EXHAUSTED, "no memory for a row of %zu bytes", longest);
    hs__metrics_row_head(&hook->row);
    hook->row.scratch = block + longest;
    char *head = memcpy(block + 2 * longest, block, hook->row.used + 1);
    hook->reader = (hs__line_reader){hs__metrics_row_fits, hs__metrics_row_step, &hook->row, "this hook"};
    hook->file = hs__line_file_new(&hook->rows.base.env, path, head, &hook->reader, longest, err);
    return hook->file ? HS_OK : HS_RESOURCE_EXHAUSTED;
}

static hs_code fill(void *self, const void *given, hs_error *err)
{
    metrics_file *hook = self;
    const hs_metrics_file_options *options = given;
    const hs__scalar_rows_options rows = {
        .tensors = options->tensors,
        .labels = options->labels,
        .metrics = options->metrics,
        .timing = {.secs = options->every_n_secs, .steps = options->every_n_steps, .trigger = options->trigger},
        .sink = {&sink, hook}};
    hook->wall_time = !options->no_wall_time;
    hook->rows.base.flags = hs__writer_flags(options->every_rank);
    if (!(hook->path = hs__hook_text(hook, options->path, err)))
        return HS_RESOURCE_EXHAUSTED;
    hook->row.json = format_of(options) == HS_METRICS_JSON_LINES;
    hook->row_step = -1;
    hs_code code = hs__scalar_rows_init(&hook->rows, &rows, err);
    if (!code && !(code = name_columns(hook, err)))
        code = make_row(hook, options->path, err);
    return code;
}

hs_hook hs_metrics_file_hook(const hs_metrics_file_options *given)
{
    return HS__HOOK_MAKE(&ops, metrics_file, hs_metrics_file_options, reserved, check, fill, given);
}
