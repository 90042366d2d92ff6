/* SPDX-License-Identifier: Apache-2.0 */
/* Comparing the records of two runs, step by step. */
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
    char *text;
    line *lines; /* of the steps that are compared */
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

static hs_code read_record(record *r, const char *path, int64_t middle, const char *const *ignore, hs_error *err)
{
    size_t bytes;
    hs_code code = hs__file_contents(r->env, path, SIZE_MAX, &r->text, &bytes, err);
    for (char *at = code ? NULL : r->text, *end; !code && *at; at = end + 1) {
        line one;
        if (!(end = strchr(at, '\n')))
            return hs_error_set(err, HS_DATA_LOSS, "%s: the last line is cut", path);
        *end = '\0';
        if (!parse(at, &one))
            return hs_error_set(err, HS_DATA_LOSS, "%s: '%s' is no line of a record", path, at);
        if (one.step > middle && !is_ignored(ignore, one.name))
            code = add(r, &one, err);
    }
    return code;
}

static void free_record(record *r)
{
    hs__free(r->env, r->text);
    hs__free(r->env, r->lines);
}

/* The lines of one step. */
typedef struct {
    const line *lines;
    size_t n;
} step_lines;

/* Those of the step, if the record goes on with it. */
static step_lines take_step(const record *r, size_t *at, int64_t step)
{
    step_lines taken = {r->lines + *at, 0};
    for (; *at < r->n && r->lines[*at].step == step; (*at)++)
        taken.n++;
    return taken;
}

/* Mostly it stands in the same place. */
static const line *find(step_lines in, const line *like, size_t guess)
{
    for (size_t i = 0; i < in.n; i++) {
        const line *at = &in.lines[(guess + i) % in.n];
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

static void compare_step(step_lines whole, step_lines resumed, hs_resume_report *report)
{
    for (size_t i = 0; i < whole.n; i++) {
        const line *other = find(resumed, &whole.lines[i], i);
        if (!other || strcmp(other->value, whole.lines[i].value) != 0)
            note(report, &whole.lines[i]);
    }
    for (size_t i = 0; i < resumed.n; i++)
        if (!find(whole, &resumed.lines[i], i))
            note(report, &resumed.lines[i]);
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

static hs_code compare(const record *whole, const record *resumed, hs_resume_report *report, hs_error *err)
{
    size_t a = 0, b = 0;
    while (a < whole->n || b < resumed->n) {
        int64_t step_a = a < whole->n ? whole->lines[a].step : INT64_MAX;
        int64_t step_b = b < resumed->n ? resumed->lines[b].step : INT64_MAX;
        report->step = step_a < step_b ? step_a : step_b;
        if (step_a != step_b)
            return tell_one_sided(report, step_b < step_a, err);
        compare_step(take_step(whole, &a, step_a), take_step(resumed, &b, step_a), report);
        if (report->different)
            return tell_difference(report, err);
        report->compared++;
    }
    report->step = -1;
    if (!report->compared)
        return hs_error_set(err, HS_FAILED_PRECONDITION, "there is nothing to compare after step %lld",
                            (long long)report->middle);
    return HS_OK;
}

hs_code hs__resume_compare(const hs_env *env, const char *whole, const char *resumed, const char *const *ignore,
                           hs_resume_report *report, hs_error *err)
{
    record a = {.env = env}, b = {.env = env};
    hs_code code = read_record(&a, whole, report->middle, ignore, err);
    if (!code && !(code = read_record(&b, resumed, report->middle, ignore, err)))
        code = compare(&a, &b, report, err);
    free_record(&a);
    free_record(&b);
    return code;
}
