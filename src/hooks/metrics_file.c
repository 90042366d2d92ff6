/* SPDX-License-Identifier: Apache-2.0 */
/* The rows come from scalar_rows.c. This file formats them, and decides which rows of an existing file stay; line_file.c
 * has the file. */
#include <hooksess/hooks/metrics_file.h>

#include "base/json_writer.h"
#include "base/line_file.h"
#include "base/text.h"
#include "hooks/ranks.h"
#include "hooks/scalar_rows.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

typedef struct {
    hs__scalar_rows rows;
    bool json, wall_time;
    char *path;      /* with the rank, if this is not rank 0 */
    hs__buffer head; /* the first line of a CSV file; "" for JSON. Zero-terminated */
    hs__buffer keys; /* the text before each value of a row; each zero-terminated */
    hs__buffer row;
    hs__line_file file;
    int64_t row_step; /* of the last row. -1: none */
    /* What stays when the file is opened next: `bytes` bytes; or, if that is -1, the rows up to `step`. If both are -1, the
     * file is renamed. A failed opening keeps the decision, because the step may have advanced before the next one. */
    struct {
        bool is_known;
        int64_t bytes, step;
    } kept;
} metrics_file;

/* Rows. */

/* Writes the text before a value of this name. */
static void add_column(metrics_file *hook, const char *name)
{
    const bool is_first = !hook->keys.size;
    if (hook->json) {
        hs__buffer_text(&hook->keys, is_first ? "{" : ",");
        hs__json_quote(hs__buffer_put, &hook->keys, name);
        hs__buffer_append(&hook->keys, ":", sizeof ":");
        return;
    }
    hs__buffer_append(&hook->keys, is_first ? "" : ",", is_first ? 1 : 2);
    hs__buffer_text(&hook->head, is_first ? "" : ",");
    if (!strpbrk(name, ",\"\r\n") && name[0] != ' ' && (!*name || name[strlen(name) - 1] != ' ')) {
        hs__buffer_text(&hook->head, "%s", name);
        return;
    }
    hs__buffer_text(&hook->head, "\"");
    for (; *name; name++)
        hs__buffer_text(&hook->head, *name == '"' ? "\"%c" : "%c", *name);
    hs__buffer_text(&hook->head, "\"");
}

static void add_value(metrics_file *hook, const char **key, const char *value)
{
    hs__buffer_append(&hook->row, *key, strlen(*key));
    hs__buffer_append(&hook->row, value, strlen(value));
    *key += strlen(*key) + 1;
}

static const char *value_text(const hs_scalar *scalar, bool json, char text[HS__NUMBER_TEXT])
{
    if (!scalar->known)
        return json ? "null" : "";
    if (scalar->dtype == HS_UINT64)
        snprintf(text, HS__NUMBER_TEXT, "%llu", (unsigned long long)scalar->integer);
    else if (hs__is_integer(scalar->dtype))
        snprintf(text, HS__NUMBER_TEXT, "%lld", (long long)scalar->integer);
    else if (isfinite(scalar->value))
        hs__real_text(text, scalar->value, scalar->dtype != HS_DOUBLE);
    else if (isnan(scalar->value))
        return json ? "\"NaN\"" : "nan";
    else if (scalar->value > 0)
        return json ? "\"Infinity\"" : "inf";
    else
        return json ? "\"-Infinity\"" : "-inf";
    return text;
}

static hs_code write_row(void *self, const hs_scalar_row *row, hs_error *err)
{
    metrics_file *hook = self;
    const char *key = (const char *)hook->keys.data, *ending = hook->json ? "}\n" : "\n";
    char text[HS__NUMBER_TEXT];
    hs__buffer_clear(&hook->row);
    snprintf(text, sizeof text, "%lld", (long long)row->step);
    add_value(hook, &key, text);
    if (hook->wall_time) {
        const long long ms = row->unix_ns > 0 ? row->unix_ns / 1000000 : 0; /* negative: the clock was not set */
        snprintf(text, sizeof text, "%lld.%03lld", ms / 1000, ms % 1000);
        add_value(hook, &key, text);
    }
    for (const hs_scalar *scalar = row->scalars; scalar->name; scalar++)
        add_value(hook, &key, value_text(scalar, hook->json, text));
    hs__buffer_append(&hook->row, ending, strlen(ending));
    hs_code code = hs__buffer_check(&hook->row, "a row", err);
    if (code)
        return code;
    hook->row_step = row->step;
    return hs__line_file_append(&hook->file, hook->row.data, hook->row.size, err);
}

/* Rows of an existing file. Values are numbers, null or quoted words: none contains a comma or a brace. */

static bool has_our_columns(const metrics_file *hook, const char *line, size_t bytes)
{
    const char *key = (const char *)hook->keys.data, *last = key + hook->keys.size, *end = line + bytes;
    if (!hook->json)
        return bytes + 1 == hook->head.size && memcmp(line, hook->head.data, bytes) == 0;
    for (; key < last; key += strlen(key) + 1) {
        if ((size_t)(end - line) < strlen(key) || memcmp(line, key, strlen(key)) != 0)
            return false;
        for (line += strlen(key); line < end && *line != ',' && *line != '}';)
            line++;
    }
    return end - line == 1 && *line == '}';
}

/* Returns the step of a row. -1: the line is not a row. */
static int64_t step_of(const metrics_file *hook, const char *line, size_t bytes)
{
    const char *key = (const char *)hook->keys.data;
    const size_t n = strlen(key);
    char *end;
    if (bytes <= n || memcmp(line, key, n) != 0 || !isdigit((unsigned char)line[n]))
        return -1;
    const long long step = strtoll(line + n, &end, 10);
    return *end == ',' || *end == '}' || *end == '\n' ? step : -1;
}

static hs_code row_stays(void *self, uint64_t offset, const char *line, size_t bytes, bool *stays, hs_error *err)
{
    const metrics_file *hook = self;
    if (!offset && !has_our_columns(hook, line, bytes))
        return hs_error_set(err, HS_FAILED_PRECONDITION,
                            "%s: has other columns than this hook; rename that file, or set another path", hook->path);
    *stays =
        hook->kept.bytes >= 0 ? offset + bytes < (uint64_t)hook->kept.bytes : step_of(hook, line, bytes) <= hook->kept.step;
    return HS_OK;
}

/* The sink. */

static hs_code open_file(void *self, hs_raw_session *session, hs_error *err)
{
    metrics_file *hook = self;
    hs_code code = HS_OK;
    if (hs_raw_session_rank(session)) {
        hook->kept.is_known &= hook->kept.bytes < 0; /* the checkpoint has the state of rank 0's file */
        if ((code = hs__add_rank(hook, session, &hook->path, err)))
            return code;
    }
    if (!hook->kept.is_known) {
        const int64_t restored = hs_raw_session_restored_step(session);
        const int64_t step = restored < 0 ? hs_raw_session_global_step(session, err) : restored;
        if (step < 0)
            return err->code;
        hook->kept.bytes = hook->row_step = -1;
        hook->kept.step = step || hs_raw_session_restored_from(session) ? step : -1;
        hook->kept.is_known = true;
    }
    hook->file.env = hook->rows.session_env;
    hook->file.path = hook->path;
    if (hook->kept.bytes < 0 && hook->kept.step < 0)
        code = hs__line_file_rename_old(&hook->file, err);
    if (code || (code = hs__line_file_open(&hook->file, row_stays, hook, err)))
        return code;
    if (hook->kept.bytes > 0 && hook->file.bytes < (uint64_t)hook->kept.bytes)
        hs_log(hook->file.env, HS_LOG_WARNING,
               "%s: has %llu bytes of rows, but the checkpoint of the session expects %lld, up to step %lld; rows are "
               "missing",
               hook->path, (unsigned long long)hook->file.bytes, (long long)hook->kept.bytes, (long long)hook->kept.step);
    hook->kept.is_known = false;
    return HS_OK;
}

static hs_code sync_file(void *self, hs_error *err)
{
    return hs__line_file_sync(&((metrics_file *)self)->file, err);
}

static void close_file(void *self)
{
    metrics_file *hook = self;
    hs__line_file_close(&hook->file);
    hook->kept.is_known = false;
}

static hs_code save_position(void *self, hs_state_writer *out, hs_error *err)
{
    const metrics_file *hook = self;
    int64_t state[] = {(int64_t)hook->file.bytes, hook->row_step};
    if (hook->kept.is_known) /* the file was not opened since */
        memcpy(state, (int64_t[]){hook->kept.bytes, hook->kept.step}, sizeof state);
    return hs_state_writer_write(out, state, sizeof state, err);
}

static hs_code load_position(void *self, hs_state_reader *in, hs_error *err)
{
    metrics_file *hook = self;
    int64_t state[2];
    hs_code code = hs_state_reader_read(in, state, sizeof state, err);
    if (code)
        return code;
    if (state[0] < -1)
        return hs_error_set(err, HS_DATA_LOSS, "invalid size of the file: %lld bytes", (long long)state[0]);
    hook->kept.bytes = state[0];
    hook->kept.step = hook->row_step = state[1];
    hook->kept.is_known = true;
    return HS_OK;
}

static void destroy_file(void *self)
{
    metrics_file *hook = self;
    hs__line_file_close(&hook->file);
    hs__buffer_free(&hook->file.pending);
    hs__buffer_free(&hook->row);
    hs__buffer_free(&hook->keys);
    hs__buffer_free(&hook->head);
    hs_env_free(&hook->rows.base.env, hook->path);
}

static const hs_scalar_sink_ops sink =
    HS_INIT(hs_scalar_sink_ops, .name = "metrics_file", .open = open_file, .write = write_row, .flush = sync_file,
            .close = close_file, .save_state = save_position, .load_state = load_position, .destroy = destroy_file);

static const hs_hook_ops ops =
    HS_INIT(hs_hook_ops, .name = "metrics_file", HS__SCALAR_ROWS_CALLBACKS, HS__SCALAR_ROWS_STATE);

/* The constructor. */

static bool ends_with(const char *path, const char *ending)
{
    size_t n = strlen(path), m = strlen(ending);
    return n > m && strcasecmp(path + n - m, ending) == 0;
}

static bool is_json(const char *path)
{
    return ends_with(path, ".jsonl") || ends_with(path, ".json");
}

static hs_code check(const void *given, hs_error *err)
{
    const hs_metrics_file_options *options = given;
    if (!options->path || !*options->path)
        return hs_error_set(err, HS_INVALID_ARGUMENT, "path is missing");
    if (!is_json(options->path) && !ends_with(options->path, ".csv"))
        return hs_error_set(err, HS_INVALID_ARGUMENT, "%s: the name must end with .csv, .jsonl or .json", options->path);
    return HS_OK;
}

/* Returns the name of a column. NULL: there are fewer. */
static const char *column(const metrics_file *hook, size_t i)
{
    if (i == 0)
        return "step";
    if (i == 1 && hook->wall_time)
        return "wall_time";
    return hook->rows.scalars[i - 1 - hook->wall_time].name;
}

static hs_code add_columns(metrics_file *hook, hs_error *err)
{
    const char *name;
    for (size_t i = 0; (name = column(hook, i)); i++) {
        for (size_t k = 0; k < i; k++)
            if (strcmp(column(hook, k), name) == 0)
                return hs_error_set(err, HS_INVALID_ARGUMENT,
                                    "two columns have the name '%s'; give one of them another label", name);
        if (!hook->json && strchr(name, '\n'))
            return hs_error_set(err, HS_INVALID_ARGUMENT, "column '%s': the name contains a newline; give it a label",
                                name);
        add_column(hook, name);
    }
    hs__buffer_text(&hook->head, hook->json ? "" : "\n");
    hs_code code = hs__buffer_check(&hook->head, "the columns", err);
    return code ? code : hs__buffer_check(&hook->keys, "the columns", err);
}

static hs_code fill(void *self, const void *given, hs_error *err)
{
    metrics_file *hook = self;
    const hs_env *env = &hook->rows.base.env;
    const hs_metrics_file_options *options = given;
    const hs__scalar_rows_options rows = {
        .tensors = options->tensors,
        .labels = options->labels,
        .metrics = options->metrics,
        .when = {.secs = options->every_n_secs, .steps = options->every_n_steps, .when = options->when},
        .sink = {&sink, hook}};
    hook->rows.base.flags = hs__writer_flags(options->every_rank);
    hook->json = is_json(options->path);
    hook->wall_time = !options->no_wall_time;
    hook->row_step = -1;
    hs__buffer_init(&hook->head, env);
    hs__buffer_init(&hook->keys, env);
    hs__buffer_init(&hook->row, env);
    hs__buffer_init(&hook->file.pending, env);
    if (!(hook->path = hs__hook_text(hook, options->path, err)))
        return HS_RESOURCE_EXHAUSTED;
    hs_code code = hs__scalar_rows_init(&hook->rows, &rows, err);
    if (!code)
        code = add_columns(hook, err);
    hook->file.head = (const char *)hook->head.data;
    return code;
}

hs_hook hs_metrics_file_hook(const hs_metrics_file_options *given)
{
    return HS__HOOK_MAKE(&ops, metrics_file, hs_metrics_file_options, reserved, check, fill, NULL, given);
}
