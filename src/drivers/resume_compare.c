/* SPDX-License-Identifier: Apache-2.0 */
/* Comparing the records of two runs, step by step: of each, one step is in memory at a time. */
#include "drivers/resume.h"

#include "base/error.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A line of a record, taken apart. */
typedef struct {
    int64_t step;
    const char *kind, *value, *name; /* value: checksum, type and shape */
} line;

typedef struct {
    const hs_env *env;
    const char *path;
    hs__file file;
    uint64_t at, end; /* how much of it was read, of how much */
    char *text;       /* a step's lines, and what was read after them */
    size_t used, have, room;
    line *lines; /* of the step, without those that are ignored */
    size_t n, capacity;
} record;

static bool is_ignored(const char *const *ignore, const char *name)
{
    for (size_t i = 0; ignore && ignore[i]; i++)
        if (strcmp(ignore[i], name) == 0)
            return true;
    return false;
}

/* The word at *at, which is ended there. NULL at the end. */
static char *next_word(char **at)
{
    char *word = *at, *end = strchr(word, ' ');
    if (!end)
        return NULL;
    *end = '\0';
    *at = end + 1;
    return word;
}

static bool parse(char *text, line *out)
{
    char *rest, *step = next_word(&text), *kind = step ? next_word(&text) : NULL, *value = text;
    for (int i = 0; kind && i < 3; i++) {
        char *end = strchr(text, ' ');
        if (!end)
            return false;
        text = end + 1;
    }
    if (!kind || !*text)
        return false;
    text[-1] = '\0';
    *out = (line){.step = strtoll(step, &rest, 10), .kind = kind, .value = value, .name = text};
    return !*rest;
}

static hs_code add(record *r, const line *one, hs_error *err)
{
    hs_code code = hs__reserve(r->env, &r->lines, &r->capacity, r->n + 1, sizeof *r->lines, err);
    if (!code)
        r->lines[r->n++] = *one;
    return code;
}

/* Reading. */

static hs_code open_record(record *r, const hs_env *env, const char *path, hs_error *err)
{
    hs_file_stat found;
    *r = (record){.env = env, .path = path};
    hs_code code = hs__stat(env, path, &found, err);
    r->end = code ? 0 : found.bytes;
    return code ? code : hs__file_open(&r->file, env, path, HS_OPEN_READ, err);
}

static void close_record(record *r)
{
    hs__file_close(&r->file, NULL);
    hs__free(r->env, r->text);
    hs__free(r->env, r->lines);
}

/* A piece more, with a zero behind it. */
static hs_code read_on(record *r, hs_error *err)
{
    enum { PIECE = 1 << 16 };
    size_t bytes = r->end - r->at < PIECE ? (size_t)(r->end - r->at) : PIECE;
    hs_code code = hs__reserve(r->env, &r->text, &r->room, r->have + bytes + 1, 1, err);
    if (code || (code = hs__file_read(&r->file, r->at, r->text + r->have, bytes, r->path, err)))
        return code;
    r->at += bytes;
    r->have += bytes;
    r->text[r->have] = '\0';
    return HS_OK;
}

/* *end is where the line that begins at `from` ends; `from` itself at the end of the record. */
static hs_code find_end(record *r, size_t from, size_t *end, hs_error *err)
{
    for (size_t looked = from;;) {
        const char *found = r->have > looked ? memchr(r->text + looked, '\n', r->have - looked) : NULL;
        if (found) {
            *end = (size_t)(found - r->text);
            return HS_OK;
        }
        looked = r->have;
        if (r->at == r->end)
            break;
        hs_code code = read_on(r, err);
        if (code)
            return code;
    }
    *end = from;
    return r->have > from ? hs_error_set(err, HS_DATA_LOSS, "%s: the last line is cut", r->path) : HS_OK;
}

/* Has the text of one step at the front, `used` bytes of it: 0 at the end. */
static hs_code find_step(record *r, hs_error *err)
{
    size_t end;
    hs_code code;
    r->have -= r->used;
    if (r->used)
        memmove(r->text, r->text + r->used, r->have + 1);
    r->used = 0;
    while (!(code = find_end(r, r->used, &end, err)) && end < r->have) {
        if (r->used && strtoll(r->text + r->used, NULL, 10) != strtoll(r->text, NULL, 10))
            break;
        r->used = end + 1;
    }
    return code;
}

static hs_code take_lines(record *r, const char *const *ignore, hs_error *err)
{
    hs_code code = HS_OK;
    r->n = 0;
    for (char *at = r->text, *end; !code && at < r->text + r->used; at = end + 1) {
        line one;
        end = memchr(at, '\n', r->used - (size_t)(at - r->text));
        *end = '\0';
        if (!parse(at, &one))
            return hs_error_set(err, HS_DATA_LOSS, "%s: '%s' is no line of a record", r->path, at);
        if (!is_ignored(ignore, one.name))
            code = add(r, &one, err);
    }
    return code;
}

/* The next step after the middle of which there is something to compare; no lines at the end. */
static hs_code next_step(record *r, int64_t middle, const char *const *ignore, hs_error *err)
{
    hs_code code;
    do
        code = find_step(r, err);
    while (!code && r->used && (!(code = take_lines(r, ignore, err))) && (!r->n || r->lines[0].step <= middle));
    if (!r->used)
        r->n = 0;
    return code;
}

/* Comparing. */

/* Mostly it stands in the same place. */
static const line *find(const record *in, const line *like, size_t guess)
{
    for (size_t i = 0; i < in->n; i++) {
        const line *at = &in->lines[(guess + i) % in->n];
        if (strcmp(at->name, like->name) == 0 && strcmp(at->kind, like->kind) == 0)
            return at;
    }
    return NULL;
}

static void note(hs_resume_report *report, const line *different)
{
    char *to = *different->kind == 's' ? report->state : *different->kind == 'v' ? report->variable : report->fetch;
    report->different++;
    if (!*to)
        snprintf(to, sizeof report->state, "%s", different->name);
}

static void compare_step(const record *whole, const record *resumed, hs_resume_report *report)
{
    for (size_t i = 0; i < whole->n; i++) {
        const line *other = find(resumed, &whole->lines[i], i);
        if (!other || strcmp(other->value, whole->lines[i].value) != 0)
            note(report, &whole->lines[i]);
    }
    for (size_t i = 0; i < resumed->n; i++)
        if (!find(whole, &resumed->lines[i], i))
            note(report, &resumed->lines[i]);
}

static hs_code tell_one_sided(const hs_resume_report *report, bool resumed_has_it, hs_error *err)
{
    return hs_error_set(
        err, HS_DATA_LOSS, "a run that is resumed at step %lld is not the same: only the run %s makes step %lld",
        (long long)report->middle, resumed_has_it ? "that was resumed" : "that went through", (long long)report->step);
}

static hs_code tell_difference(const hs_resume_report *report, hs_error *err)
{
    const struct {
        const char *kind, *name;
    } found[] = {{"the state", report->state}, {"the variable", report->variable}, {"the fetch", report->fetch}};
    char text[3 * (sizeof report->state + 32)] = "";
    size_t used = 0;
    for (size_t i = 0; i < sizeof found / sizeof *found; i++)
        if (*found[i].name)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s '%s'", used ? ", " : "", found[i].kind,
                                     found[i].name);
    return hs_error_set(
        err, HS_DATA_LOSS,
        "a run that is resumed at step %lld is not the same: step %lld differs in %s (in %lld things in "
        "all); what is loaded is not what was saved, or what it depends on is in no checkpoint, as a random "
        "number generator may be, or a position in the data (hs_graph_state)",
        (long long)report->middle, (long long)report->step, text, (long long)report->different);
}

static hs_code compare(record *whole, record *resumed, const char *const *ignore, hs_resume_report *report, hs_error *err)
{
    hs_code code;
    while (!(code = next_step(whole, report->middle, ignore, err)) &&
           !(code = next_step(resumed, report->middle, ignore, err)) && (whole->n || resumed->n)) {
        int64_t a = whole->n ? whole->lines[0].step : INT64_MAX, b = resumed->n ? resumed->lines[0].step : INT64_MAX;
        report->step = a < b ? a : b;
        if (a != b)
            return tell_one_sided(report, b < a, err);
        compare_step(whole, resumed, report);
        if (report->different)
            return tell_difference(report, err);
        report->compared++;
    }
    report->step = -1;
    if (!code && !report->compared)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "there is nothing to compare after step %lld",
                            (long long)report->middle);
    return code;
}

hs_code hs__resume_compare(const hs_env *env, const char *whole, const char *resumed, const char *const *ignore,
                           hs_resume_report *report, hs_error *err)
{
    record a, b = {.env = env};
    hs_code code = open_record(&a, env, whole, err);
    if (!code && !(code = open_record(&b, env, resumed, err)))
        code = compare(&a, &b, ignore, report, err);
    close_record(&a);
    close_record(&b);
    return code;
}
