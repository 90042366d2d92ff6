/* SPDX-License-Identifier: Apache-2.0 */
/* `status`: reads the files of a run, derives its state and speed in `evaluate`, and prints them: alive or not, step,
 * speed, newest checkpoint. Locks and changes nothing. */
#include "checkpoint_list.h"
#include "checkpoint_open.h"
#include "command.h"
#include "events.h"
#include "json_output.h"
#include "memory.h"
#include "output.h"
#include "run_files.h"
#include "times.h"

#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Contents of the newest event file since the last start of the run. */
typedef struct {
    bool any;
    int64_t first_step, last_step;
    double first_time, last_time;
    double rate; /* the last "global_step/sec". NaN: none */
} progress;

typedef struct {
    const char *directory;
    run_file status_file, outcome_file;
    hs__json_value status, outcome; /* their objects */
    checkpoint_list checkpoints;
    const listed *newest; /* NULL: none */
    progress progress;
    lock_state lock;
    char holder[HOLDER_TEXT];
    const char *state;
    int64_t step;          /* -1: unknown */
    int64_t seen_ns;       /* the last sign of life. -1: none */
    int64_t saved_ns;      /* when the newest checkpoint was saved */
    double steps_per_sec;  /* NaN: unknown */
    bool damaged, trouble; /* a file is damaged; one could not be read */
} run;

/* Event files. */

static void ignore_damage(void *user, const hs_event_damage *damage)
{
    (void)user, (void)damage; /* the last record of a live file is often incomplete */
}

static void add_event(progress *p, const hs_event *event)
{
    static const char rate[] = "global_step/sec";
    if (event->kind == HS_EVENT_SESSION_LOG && event->status == HS_SESSION_LOG_START)
        *p = (progress){.rate = (double)NAN};
    if (event->kind != HS_EVENT_SUMMARY)
        return;
    if (!p->any) {
        p->first_step = event->step;
        p->first_time = event->wall_time;
    }
    p->any = true;
    p->last_step = event->step;
    p->last_time = event->wall_time;
    for (size_t i = 0; i < event->n_values; i++)
        if (event->values[i].has_scalar && event->values[i].tag.bytes == sizeof rate - 1 &&
            memcmp(event->values[i].tag.data, rate, sizeof rate - 1) == 0)
            p->rate = event->values[i].scalar;
}

static int keep_last(void *user, const char *name)
{
    char **last = user;
    if (!strstr(name, "tfevents") || (*last && strcmp(name, *last) <= 0))
        return 0;
    free(*last);
    *last = text_of((hs_string){name, strlen(name)});
    return 0;
}

static void read_progress(run *r)
{
    const hs_file_system *files = &hs_env_default()->files;
    events of = {.damaged = ignore_damage};
    const hs_event *event;
    char *name = NULL;
    r->progress.rate = (double)NAN;
    if (files->ops->list(files->user, r->directory, keep_last, &name, NULL) != HS_OK || !name) {
        free(name);
        return;
    }
    char *path = must_format("%s/%s", r->directory, name);
    if (open_events(&of, path)) {
        while (next_event(&of, &event))
            add_event(&r->progress, event);
        close_events(&of);
    } else {
        of.failed = true;
    }
    r->trouble = r->trouble || (of.failed && !of.is_other); /* the status does not need events */
    free(path);
    free(name);
}

/* State of the process. */

/* A process that saves holds the lock as long as it lives. Without a lock file, the number of the process decides. At
 * its end, a process may release the lock before it writes the outcome. */
static const char *state_of(const run *r)
{
    if (r->lock == LOCK_HELD)
        return "running";
    if (r->outcome.text)
        return "ended";
    if (!r->status.text || !is_on_this_host(r->status))
        return "unknown";
    if (r->lock == LOCK_FREE && !hs__json_equals(hs__json_member(r->status, "phase"), "end"))
        return "crashed";
    return is_alive(r->status) ? "running" : "crashed";
}

/* Progress and speed. */

static void note_seen(run *r, hs__json_value object)
{
    int64_t ns;
    if (time_member(object, &ns) && ns > r->seen_ns)
        r->seen_ns = ns;
}

static double rate_of(double steps, double secs)
{
    return steps > 0 && secs > 0 ? steps / secs : (double)NAN;
}

/* The rate between the two newest checkpoints. */
static double rate_of_checkpoints(const run *r)
{
    const listed *last = r->newest, *before = NULL;
    for (const listed *row = r->checkpoints.rows; last && row < last; row++)
        if (strcmp(row->kind, "checkpoint") == 0)
            before = row;
    return before && before->step >= 0
               ? rate_of((double)(last->step - before->step), ((double)last->time_ns - (double)before->time_ns) / 1e9)
               : (double)NAN;
}

static void evaluate(run *r)
{
    const progress *p = &r->progress;
    r->step = whole_member(r->outcome, "step", whole_member(r->status, "step", -1));
    r->seen_ns = -1;
    note_seen(r, r->status);
    note_seen(r, r->outcome);
    const int64_t written_ns = r->seen_ns;
    if (p->any && !r->outcome.text && p->last_step > r->step)
        r->step = p->last_step;
    if (p->any && p->last_time > 0 && p->last_time < 9e9 && (int64_t)(p->last_time * 1e9) > r->seen_ns)
        r->seen_ns = (int64_t)(p->last_time * 1e9);
    r->newest = newest_checkpoint(&r->checkpoints);
    if (r->newest && !r->outcome.text && r->newest->step > r->step)
        r->step = r->newest->step;
    r->steps_per_sec = isfinite(p->rate) ? p->rate
                       : p->any ? rate_of((double)p->last_step - (double)p->first_step, p->last_time - p->first_time)
                                : (double)NAN;
    if (!isfinite(r->steps_per_sec))
        r->steps_per_sec = rate_of_checkpoints(r);
    r->state = state_of(r);
    r->saved_ns = r->newest ? r->newest->time_ns : -1;
    if (written_ns >= 0 && written_ns < r->saved_ns && strcmp(r->state, "running") != 0)
        r->saved_ns = written_ns; /* the files are copies, which have the time of the copy */
}

static double age_secs(int64_t ns)
{
    double secs = ((double)hs_env_realtime_ns(NULL) - (double)ns) / 1e9;
    return secs > 0 ? secs : 0;
}

/* Text output. */

static void put_label(const char *label)
{
    put_style(STYLE_DIM);
    printf("%-12s", label);
    put_style(STYLE_NONE);
}

static void print_state(const run *r, int status)
{
    bool is_ended = strcmp(r->state, "ended") == 0;
    int64_t pid = whole_member(r->status, "pid", -1);
    put_label("state");
    put_style(status != FINE ? STYLE_BAD : strcmp(r->state, "unknown") == 0 ? STYLE_WARNING : STYLE_GOOD);
    fputs(r->state, stdout);
    put_style(STYLE_NONE);
    if (is_ended) {
        fputs(": ", stdout);
        put_text_member(r->outcome, "reason", "unknown reason");
        printf(", exit code %lld", (long long)whole_member(r->outcome, "exit_code", -1));
    } else if (*r->holder) {
        fputs(": ", stdout);
        put_name(r->holder);
    } else if (r->lock == LOCK_FREE && !r->status.text) {
        fputs(": no process holds the lock; the run left no status.json", stdout);
    } else if (pid >= 0) {
        printf(": process %lld on ", (long long)pid);
        put_text_member(r->status, "host", "an unknown host");
    }
    if (hs__json_is(hs__json_member(r->status, "phase"), '"') && !is_ended) {
        fputs(", phase ", stdout);
        put_text_member(r->status, "phase", "");
    }
    puts("");
}

static void print_durable(const run *r)
{
    char age[TIME_TEXT], save[HS__NUMBER_TEXT];
    int64_t step = whole_member(r->status, "last_durable_step", -1);
    double save_secs = 0;
    hs__json_number(hs__json_member(r->status, "save_secs"), &save_secs);
    put_label("durable");
    if (r->newest) {
        if (r->newest->step >= 0)
            printf("step %lld, ", (long long)r->newest->step);
        put_name(r->newest->path);
        printf(", saved %s ago", duration_text(age, age_secs(r->saved_ns)));
    } else if (step >= 0) {
        printf("step %lld", (long long)step);
    } else {
        fputs("nothing", stdout);
    }
    if (save_secs > 0)
        printf("; a save takes %s", hs__secs_text(save, save_secs));
    puts("");
}

static uint64_t total_bytes(const run *r)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < r->checkpoints.n; i++)
        bytes += r->checkpoints.rows[i].bytes;
    return bytes;
}

static void print_text(const run *r, int status)
{
    char age[TIME_TEXT], number[HS__NUMBER_TEXT];
    print_state(r, status);
    put_label("step");
    if (r->step >= 0)
        printf("%lld", (long long)r->step);
    else
        fputs("unknown", stdout);
    if (r->seen_ns >= 0)
        printf(", written %s ago", duration_text(age, age_secs(r->seen_ns)));
    puts("");
    put_label("speed");
    if (isfinite(r->steps_per_sec) && r->steps_per_sec > 0) {
        printf("%s steps/s", hs__rate_text(number, r->steps_per_sec));
        if (r->steps_per_sec < 1)
            printf(", %s per step", duration_text(age, 1 / r->steps_per_sec));
        puts("");
    } else {
        puts("unknown");
    }
    print_durable(r);
    put_label("checkpoints");
    printf("%zu, %s\n", r->checkpoints.n, hs__bytes_text(number, total_bytes(r)));
}

/* JSON output. */

static void js_step(hs__json_writer *out, const char *name, int64_t step)
{
    if (step >= 0)
        hs__json_put_int(out, name, step);
    else
        hs__json_put_null(out, name);
}

static void write_json(const run *r)
{
    char seen[TIME_TEXT], saved[TIME_TEXT];
    const listed *newest = r->newest;
    hs__json_writer out = js_begin(0);
    hs__json_open(&out, NULL, '{');
    js_text(&out, "state", r->state);
    js_text(&out, "locked_by", *r->holder ? r->holder : NULL);
    js_step(&out, "step", r->step);
    js_text(&out, "time", r->seen_ns >= 0 ? time_text(seen, r->seen_ns) : NULL);
    js_number(&out, "steps_per_sec", (long double)r->steps_per_sec, false);
    js_step(&out, "last_durable_step", newest ? newest->step : whole_member(r->status, "last_durable_step", -1));
    js_text(&out, "checkpoint", newest ? newest->path : NULL);
    js_text(&out, "checkpoint_time", newest ? time_text(saved, r->saved_ns) : NULL);
    js_count(&out, "checkpoints", r->checkpoints.n);
    js_count(&out, "bytes", total_bytes(r));
    js_value(&out, "status", r->status);
    js_value(&out, "outcome", r->outcome);
    hs__json_close(&out, '}');
    js_end();
}

static int exit_status(const run *r)
{
    int64_t exit_code = whole_member(r->outcome, "exit_code", 1);
    bool is_ended = strcmp(r->state, "ended") == 0;
    if (r->trouble)
        return TROUBLE;
    return r->damaged || strcmp(r->state, "crashed") == 0 || (is_ended && exit_code != 0 && exit_code != 75) ? FOUND : FINE;
}

int status_command(const struct call *call)
{
    run r = {.directory = call->operands[0]};
    if (!check_directory(r.directory))
        return TROUBLE;
    r.status_file = read_run_file(r.directory, "status.json", &r.damaged);
    r.status = r.status_file.object;
    r.lock = query_lock(r.directory, r.holder);
    /* after the lock: an outcome of which the lock was released is complete */
    r.outcome_file = read_run_file(r.directory, "outcome.json", &r.damaged);
    r.outcome = r.outcome_file.object;
    r.trouble = !list_checkpoints(&r.checkpoints, r.directory);
    read_progress(&r);
    int status = TROUBLE;
    if (!r.status.text && !r.outcome.text && !r.checkpoints.n && !r.damaged) {
        say("%s: contains no status.json, outcome.json or checkpoint; name the checkpoint_dir of a training", r.directory);
    } else {
        evaluate(&r);
        status = exit_status(&r);
        if (call->given[OPTION_JSON])
            write_json(&r);
        else
            print_text(&r, status);
    }
    free_run_file(&r.status_file);
    free_run_file(&r.outcome_file);
    free_checkpoints(&r.checkpoints);
    return status;
}
