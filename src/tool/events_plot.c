/* SPDX-License-Identifier: Apache-2.0 */
/* `events plot`: reads the runs into series, drops the points that a restarted run repeated, then prints the chart, or
 * writes it as SVG or JSON. */
#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include "chart.h"
#include "command.h"
#include "events.h"
#include "json_output.h"
#include "memory.h"
#include "output.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* A line: the values of a tag in a run. */
typedef struct {
    const char *run;
    char *tag;
    size_t index;     /* of its series */
    uint64_t *events; /* for each point, the number of its event in the run */
} source;

typedef struct {
    wanted_tag tag;
    int64_t from, to;
    series *series;
    source **sources; /* of the series */
    size_t n;
    /* Of the run that is read: */
    size_t first; /* index of its first source */
    void *tree;   /* its sources, by tag */
    starts starts;
    uint64_t n_events;
} plot;

/* Reading. */

static int by_tag(const void *a, const void *b)
{
    return strcmp(((const source *)a)->tag, ((const source *)b)->tag);
}

static source *source_of(plot *p, const char *run, hs_string tag)
{
    char *text = text_of(tag);
    source **found = tfind(&(source){.tag = text}, &p->tree, by_tag);
    if (found) {
        free(text);
        return *found;
    }
    p->series = must_grow(p->series, p->n, sizeof *p->series);
    p->sources = must_grow(p->sources, p->n, sizeof(source *));
    source *made = p->sources[p->n] = must_allocate(NULL, 1, sizeof *made);
    *made = (source){run, text, p->n, NULL};
    p->series[p->n++] = (series){.label = NULL};
    must_add(made, &p->tree, by_tag);
    return made;
}

static void add_point(plot *p, source *of, int64_t step, double value)
{
    series *to = &p->series[of->index];
    to->x = must_grow(to->x, to->n, sizeof *to->x);
    to->y = must_grow(to->y, to->n, sizeof *to->y);
    of->events = must_grow(of->events, to->n, sizeof *of->events);
    to->x[to->n] = (double)step;
    to->y[to->n] = value;
    of->events[to->n++] = p->n_events;
}

static void drop_obsolete(plot *p)
{
    for (size_t i = p->first; i < p->n; i++) {
        series *of = &p->series[i];
        size_t n = 0, next = 0;
        for (size_t k = 0; k < of->n; k++) {
            const int64_t step = of->x[k] < 0x1p63 ? (int64_t)of->x[k] : INT64_MAX;
            if (!is_obsolete(&p->starts, &next, p->sources[i]->events[k], step)) {
                of->x[n] = of->x[k];
                of->y[n++] = of->y[k];
            }
        }
        of->n = n;
    }
}

static void add_event(plot *p, const char *run, const hs_event *event)
{
    p->n_events++;
    if (event->kind == HS_EVENT_SESSION_LOG && event->status == HS_SESSION_LOG_START)
        note_start(&p->starts, p->n_events, event->step);
    if (event->kind != HS_EVENT_SUMMARY || event->step < p->from || event->step > p->to)
        return;
    for (size_t i = 0; i < event->n_values; i++)
        if (event->values[i].has_scalar && is_wanted_tag(&p->tag, event->values[i].tag))
            add_point(p, source_of(p, run, event->values[i].tag), event->step, event->values[i].scalar);
}

static int read_run(plot *p, const char *run)
{
    events of = {.damaged = NULL};
    const hs_event *event;
    p->first = p->n;
    p->starts.n = 0;
    p->n_events = 0;
    if (!open_events(&of, run))
        return TROUBLE;
    while (next_event(&of, &event))
        add_event(p, run, event);
    close_events(&of);
    drop_obsolete(p);
    for (size_t i = p->first; i < p->n; i++)
        tdelete(p->sources[i], &p->tree, by_tag);
    if (p->n > p->first || of.failed)
        return events_status(&of);
    say_not_found(&p->tag, run, "scalar");
    return TROUBLE;
}

/* The label is the run; with its tag if the runs have several. */
static void make_labels(plot *p)
{
    bool several = false;
    for (size_t i = 1; i < p->n; i++)
        several = several || strcmp(p->sources[i]->tag, p->sources[0]->tag) != 0;
    for (size_t i = 0; i < p->n; i++) {
        const source *of = p->sources[i];
        p->series[i].label = must_format("%s%s%s", of->run, several ? ": " : "", several ? of->tag : "");
    }
}

/* Output. */

static void write_json(const plot *p)
{
    hs__json_writer out = js_begin(1);
    hs__json_open(&out, NULL, '[');
    for (size_t i = 0; i < p->n && output_works(); i++) {
        const series *values = &p->series[i];
        hs__json_open(&out, NULL, '{');
        hs__json_put_text(&out, "run", p->sources[i]->run);
        hs__json_put_text(&out, "tag", p->sources[i]->tag);
        hs__json_open(&out, "steps", '[');
        for (size_t k = 0; k < values->n; k++)
            js_number(&out, NULL, (long double)values->x[k], true);
        hs__json_close(&out, ']');
        hs__json_open(&out, "values", '[');
        for (size_t k = 0; k < values->n; k++)
            hs__json_put_number(&out, NULL, values->y[k]);
        hs__json_close(&out, ']');
        hs__json_close(&out, '}');
    }
    hs__json_close(&out, ']');
    js_end();
}

static bool write_svg(const chart *c, const char *path)
{
    if (!can_be_replaced(path))
        return false;
    const hs_file_system *files = &hs_env_default()->files;
    char *text = NULL, *tmp = must_format("%s.tmp", path);
    size_t bytes = 0;
    void *file;
    hs_error err = {0};
    FILE *memory = open_memstream(&text, &bytes);
    bool made = memory;
    if (made) {
        chart_write_svg(c, memory);
        made = !ferror(memory);
        made = fclose(memory) == 0 && made;
    }
    if (!made)
        say("%s: out of memory", path);
    else if ((made = files->ops->open(files->user, tmp, HS_OPEN_WRITE, &file, &err) == HS_OK)) {
        hs_code code = files->ops->write(files->user, file, text, bytes, &err);
        hs_code closed = files->ops->close(files->user, file, code ? NULL : &err);
        made = !code && !closed && files->ops->rename(files->user, tmp, path, &err) == HS_OK;
        if (!made)
            files->ops->remove(files->user, tmp, NULL);
    }
    if (err.code)
        say("%s", err.message);
    free(text);
    free(tmp);
    return made;
}

static int in_range(long value, int least, int most)
{
    return value < least ? least : value > most ? most : (int)value;
}

static void print_chart(const chart *c)
{
    struct winsize window = {.ws_row = 0};
    const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_row > 0;
    chart_print(c, in_range(terminal_width(), 30, 400), in_range(known ? window.ws_row - 4 - (long)c->n : 20, 5, 20));
}

static int show(plot *p, const struct call *call)
{
    chart c = {.title = p->tag.pattern, .series = p->series, .n = p->n};
    make_labels(p);
    if (call->given[OPTION_JSON]) {
        write_json(p);
    } else if (!chart_fit(&c)) {
        say("'%s' has no finite value", p->tag.pattern);
        return TROUBLE;
    } else if (!call->given[OPTION_SVG]) {
        print_chart(&c);
    } else if (!write_svg(&c, call->given[OPTION_SVG])) {
        return TROUBLE;
    }
    return FINE;
}

static void free_plot(plot *p)
{
    for (size_t i = 0; i < p->n; i++) {
        free(p->sources[i]->tag);
        free(p->sources[i]->events);
        free(p->sources[i]);
        free(p->series[i].label);
        free(p->series[i].x);
        free(p->series[i].y);
    }
    free(p->sources);
    free(p->series);
    free(p->starts.rows);
    free(p->tag.nearest);
}

int events_plot(const struct call *call)
{
    plot p = {.tag.pattern = call->operands[0],
              .from = step_of_option(call, OPTION_FROM, INT64_MIN),
              .to = step_of_option(call, OPTION_TO, INT64_MAX)};
    int worst = FINE;
    if (call->given[OPTION_JSON] && call->given[OPTION_SVG]) {
        say("give only one of --json and --svg");
        return TROUBLE;
    }
    for (char **run = call->operands + 1; *run; run++) {
        int status = read_run(&p, *run);
        worst = status > worst ? status : worst;
    }
    int status = p.n ? show(&p, call) : TROUBLE;
    free_plot(&p);
    return status > worst ? status : worst;
}
